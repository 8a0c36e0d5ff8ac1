// OpenCode with relay's plugin in a terminal, and a script as its model: what begins a turn when nobody types anything.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atEnd, temporaryFolder, within } from '../clients/support/process.js';
import { Terminal } from '../clients/support/terminal.js';
import { opencode } from './support/opencode.js';
import { World, framed, plain } from './support/world.js';

const WOKEN = '[relay wake MARK] woken by relay, the message bus of the agents on this machine\n';

/** Opens OpenCode, whose person has said something. */
async function open(t, more) {
  const terminals = [];
  // Before the relay that it asks, and before its folder is removed.
  atEnd(t, () => Promise.all(terminals.map((terminal) => terminal.close())));
  const world = await World.start(t, opencode);
  const window = async (...args) => {
    const model = await world.model(async () => {});
    const { command, env } = opencode.tui({ ...world, model, ...more });
    const terminal = await Terminal.open(temporaryFolder(t), [command, ...args], { cwd: world.project, env: world.env(env, 'dev-a') });
    terminals.push(terminal);
    return { model, terminal };
  };
  const first = await window('--prompt', 'go on');
  await within(first.model.asked(), 'the first turn', 60_000);
  return { world, window, ...first };
}

/** All that a model is shown in the request that it has to answer now. */
async function conversation(model, what) {
  return plain(opencode.dialect.shown(await within(model.asked(), what))).filter(({ role }) => role !== 'system');
}

test('OpenCode: an idle session begins a turn for a message, and what its person is writing stays', async (t) => {
  const { world, model, terminal } = await open(t);
  await model.say('the first turn');
  await world.are('idle, can be woken');
  await terminal.types('a draft');
  await terminal.shows((screen) => screen.includes('a draft'), 'the draft');
  const sent = Date.now();
  await world.send('wake up', '--mode', 'on-idle');
  const news = plain(await within(model.news(), 'the turn'));
  t.diagnostic(`woken ${model.came.at(-1) - sent} ms after relay send was started`);
  assert.deepEqual(news, [
    { role: 'assistant', text: 'the first turn' },
    { role: 'user', text: WOKEN + framed('wake up') },
  ]);
  await model.say('the second turn');
  await world.are('idle, can be woken');
  await world.nothingIsLeft();
  const screen = await terminal.shows((screen) => screen.includes('the second turn'), 'the end of the second turn');
  assert.ok(screen.includes('a draft'), screen);
  assert.deepEqual(world.proxy.asked, [], 'something was asked of another machine');
});

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

test('OpenCode: ten messages in a burst are one wake, and each is shown once', async (t) => {
  const { world, model } = await open(t);
  await model.say('the first turn');
  await world.are('idle, can be woken');
  const bodies = Array.from({ length: 10 }, (_, at) => `message ${at}.`);
  await Promise.all(bodies.map((body) => world.send(body)));
  await within(model.asked(), 'the turn');
  const [name, input] = opencode.shell('echo ran');
  await within(model.use(name, input), 'the tool');
  const shown = opencode.dialect.shown(await model.asked()).map(({ text }) => text).join('\n');
  const times = (text) => shown.split(text).length - 1;
  assert.deepEqual(bodies.map((body) => times(`| ${body}\n`)), bodies.map(() => 1), shown);
  assert.equal(times('[relay wake '), 1);
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

test('OpenCode: a session is woken by a relay that was started again', async (t) => {
  const { world, model } = await open(t);
  await model.say('the first turn');
  await world.are('idle, can be woken');
  await world.relay.restart();
  await world.are('idle, can be woken');
  await world.send('after the restart');
  const news = plain(await within(model.news(), 'the turn'));
  assert.deepEqual(news.at(-1), { role: 'user', text: WOKEN + framed('after the restart') });
  await model.say('done');
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
  await within(again.terminal.shows((screen) => screen.includes('echo ran'), 'the conversation'), 'the conversation', 60_000);
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

test('OpenCode: of several conversations the one is woken in which somebody spoke last', async (t) => {
  const { world, model, terminal } = await open(t);
  await model.say('in the first');
  await world.are('idle, can be woken');
  await terminal.says('/new');
  await terminal.shows((screen) => !screen.includes('in the first'), 'another conversation');
  await terminal.says('and now this');
  assert.deepEqual(await conversation(model, 'the second conversation'), [{ role: 'user', text: 'and now this' }]);
  await model.say('in the second');
  await world.are('idle', 'idle, can be woken');
  await world.send('wake up');
  assert.deepEqual(await conversation(model, 'the turn'), [
    { role: 'user', text: 'and now this' },
    { role: 'assistant', text: 'in the second' },
    { role: 'user', text: WOKEN + framed('wake up') },
  ]);
  await model.say('done');
  await world.are('idle', 'idle, can be woken');
  await world.nothingIsLeft();
});
