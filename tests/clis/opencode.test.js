// OpenCode with relay's plugin in a terminal, and a script as its model: what begins a turn when nobody types anything.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { within } from '../clients/support/process.js';
import { conversation, open } from './support/opencode-window.js';
import { opencode } from './support/opencode.js';
import { WOKEN, framed, plain } from './support/world.js';

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
