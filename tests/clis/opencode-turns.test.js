// OpenCode with relay's plugin, and a script as its model: what is shown in a turn that somebody has begun, and behind it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { within } from '../clients/support/process.js';
import { conversation, open } from './support/opencode-window.js';
import { opencode } from './support/opencode.js';
import { WOKEN, World, framed, plain } from './support/world.js';

test('OpenCode: what waits when a turn ends begins another', async (t) => {
  const { world, model } = await open(t);
  await world.send('at the end', '--mode', 'on-idle');
  const [name, input] = opencode.shell('echo ran');
  assert.deepEqual(plain(await within(model.use(name, input), 'the tool')), opencode.behindTool(name, 'ran\n', undefined));
  await model.say('the first turn');
  assert.deepEqual(plain(await within(model.news(), 'the second turn')), [
    { role: 'assistant', text: 'the first turn' },
    { role: 'user', text: framed('at the end') },
  ]);
  await model.say('done');
  await world.are('idle, can be woken');
  await world.nothingIsLeft();
});

test('OpenCode: what comes at the end of a run waits for the next one', async (t) => {
  const world = await World.start(t, opencode);
  await world.turn(async (model) => {
    await model.asked();
    await world.send('late');
    await model.say('done');
  }, { agent: 'dev-a' });
  await world.turn(async (model) => {
    const shown = plain(await model.news()).at(-1).text.replace(', which you may have been shown before', '');
    assert.equal(shown, `"go on"\n${framed('late')}`);
    await model.say('done');
  }, { agent: 'dev-a' });
  await world.nothingIsLeft();
});

test('OpenCode: a dialog stays until its person answers it, and then the message is shown', async (t) => {
  const { world, model, terminal } = await open(t, { permission: 'ask' });
  const [name, input] = opencode.shell('echo ran');
  const used = model.use(name, input);
  await world.are('asks, can be woken');
  const isAsked = (screen) => /Permission required/.test(screen);
  await terminal.shows(isAsked, 'the dialog');
  await world.send('meanwhile');
  assert.ok(isAsked(await terminal.screen()));
  await terminal.presses('Enter');
  assert.deepEqual(plain(await within(used, 'the tool')), opencode.behindTool(name, 'ran\n', framed('meanwhile')));
  await model.say('done');
  await world.are('idle, can be woken');
  await world.nothingIsLeft();
});

test('OpenCode: what a killed one was shown is there again when its conversation goes on', async (t) => {
  const { world, window, model, terminal } = await open(t);
  await world.send('before the end');
  const [name, input] = opencode.shell('echo ran');
  assert.deepEqual(plain(await within(model.use(name, input), 'the tool')), opencode.behindTool(name, 'ran\n', framed('before the end')));
  await terminal.close();
  const again = await window('--continue');
  await again.terminal.shows((screen) => screen.includes('echo ran'), 'the conversation');
  await again.terminal.says('and on');
  const shown = (await conversation(again.model, 'the turn')).at(-1);
  assert.deepEqual(shown, { role: 'user', text: `and on\n${framed('before the end').replace('id ID', 'id ID, which you may have been shown before')}` });
  await again.model.say('done');
  await world.are('idle, can be woken');
  await world.nothingIsLeft();
});

test('OpenCode: a subagent is shown nothing and is nobody, and its session is not woken', async (t) => {
  const { world, model } = await open(t);
  await world.send('for who has the subagent');
  await within(model.use('task', { description: 'a task', prompt: 'look into it', subagent_type: 'general' }), 'the subagent');
  assert.deepEqual(await conversation(model, 'the subagent'), [{ role: 'user', text: 'look into it' }]);
  const [name, input] = opencode.shell('echo ran');
  assert.deepEqual(plain(await within(model.use(name, input), 'the tool')), opencode.behindTool(name, 'ran\n', undefined));
  await world.are('busy, can be woken');
  await model.say('looked into');
  const shown = (await conversation(model, 'what the subagent said')).at(-1);
  assert.ok(shown.role === 'tool' && shown.text.endsWith(framed('for who has the subagent')), shown.text);
  await model.say('done');
  await world.are('idle, can be woken');
  await world.send('wake up');
  assert.deepEqual((await conversation(model, 'the turn')).slice(-2), [
    { role: 'assistant', text: 'done' },
    { role: 'user', text: WOKEN + framed('wake up') },
  ]);
  await model.say('done');
  await world.are('idle, can be woken');
  await world.nothingIsLeft();
});
