// Codex with relay's hooks in a terminal, and a script as its model: what begins a turn when nobody types anything.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd, temporaryFolder, within } from '../clients/support/process.js';
import { Terminal, until } from '../clients/support/terminal.js';
import { codex } from './support/codex.js';
import { WOKEN, World, framed, plain } from './support/world.js';

/** Opens Codex, whose person has said something; with its daemon, where it does not run with rights that it does not give that one. */
async function open(t, { hasDaemon = false, isRepository = false } = {}) {
  let world;
  let terminal;
  // Before the relay that it asks, and before its folder is removed.
  atEnd(t, async () => {
    await terminal?.close();
    if (hasDaemon && world) endDaemon(path.join(world.home, '.codex/app-server-daemon'));
  });
  world = await World.start(t, codex);
  if (isRepository) makeRepository(world.project);
  const model = await world.model(async () => {});
  const { command, args, env } = codex.tui({ ...world, model });
  const all = [command, ...(hasDaemon ? [] : args), 'go on'];
  terminal = await Terminal.open(temporaryFolder(t), all, { cwd: world.project, env: world.env(env, 'dev-a') });
  if (hasDaemon) {
    await terminal.shows((screen) => screen.includes('Hooks need review'), 'the question whether hooks are trusted');
    // It throws away what is typed while it begins.
    await until(async () => {
      await terminal.types('2');
      await sleep(200);
      return /› 2\. Trust all/.test(await terminal.screen());
    }, 'trust in all hooks to be chosen');
    await terminal.presses('Enter');
  }
  await within(model.asked(), 'the first turn');
  return { world, model, terminal };
}

/** Makes a folder a Git repository with one commit. */
function makeRepository(folder) {
  const git = (...args) => execFileSync('git', ['-c', 'user.name=relay', '-c', 'user.email=relay@localhost', ...args], { cwd: folder });
  git('init', '--quiet');
  git('commit', '--quiet', '--allow-empty', '--message', 'Begin');
}

/** Ends what outlives the window. */
function endDaemon(folder) {
  for (const name of ['daemon-updater.pid', 'daemon.pid']) {
    const file = path.join(folder, name);
    if (existsSync(file)) process.kill(JSON.parse(readFileSync(file, 'utf8')).pid, 'SIGKILL');
  }
}

test('Codex: an idle session begins a turn for a message, and what its person is writing stays', async (t) => {
  const { world, model, terminal } = await open(t);
  await model.say('the first turn');
  await world.are('idle, can be woken');
  await terminal.types('a draft');
  await terminal.shows((screen) => screen.includes('a draft'), 'the draft');
  const sent = Date.now();
  // Nobody is told that the message may wait for long.
  assert.equal(await world.send('wake up', '--mode', 'on-idle'), 'sent to dev-a\n');
  const news = plain(await within(model.news(), 'the turn'));
  t.diagnostic(`woken ${model.came.at(-1) - sent} ms after relay send was started`);
  assert.deepEqual(news.slice(-2), [
    { role: 'assistant', text: 'the first turn' },
    { role: 'user', text: WOKEN + framed('wake up') },
  ]);
  await model.say('the second turn');
  await world.are('idle, can be woken');
  await world.nothingIsLeft();
  const screen = await terminal.shows((screen) => screen.includes('the second turn'), 'the end of the second turn');
  assert.ok(screen.includes('a draft'), screen);
});

test('Codex: a session that its daemon runs begins a turn, and does so behind a closed window', async (t) => {
  const { world, model, terminal } = await open(t, { hasDaemon: true });
  await model.say('the first turn');
  await world.are('idle, can be woken');
  for (const body of ['wake up', 'behind a closed window']) {
    const sent = Date.now();
    await world.send(body);
    assert.deepEqual(plain(await within(model.news(), 'the turn')).at(-1), { role: 'user', text: WOKEN + framed(body) });
    t.diagnostic(`woken ${model.came.at(-1) - sent} ms after relay send was started`);
    await model.say('done');
    await world.are('idle, can be woken');
    await world.nothingIsLeft();
    await terminal.close();
  }
});

test('Codex: ten messages in a burst are one wake, and each is shown once', async (t) => {
  const { world, model } = await open(t);
  await model.say('the first turn');
  await world.are('idle, can be woken');
  const bodies = Array.from({ length: 10 }, (_, at) => `message ${at}.`);
  await Promise.all(bodies.map((body) => world.send(body)));
  await within(model.asked(), 'the turn');
  const [name, input] = codex.shell('echo ran');
  await within(model.use(name, input), 'the tool');
  const shown = codex.dialect.shown(await model.asked()).map(({ text }) => text).join('\n');
  const times = (text) => shown.split(text).length - 1;
  assert.deepEqual(bodies.map((body) => times(`| ${body}\n`)), bodies.map(() => 1), shown);
  assert.equal(times('[relay wake '), 1);
  await model.say('done');
  await world.are('idle, can be woken');
  await world.nothingIsLeft();
});

test('Codex: a session is woken by a relay that was started again', async (t) => {
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

test('Codex: an interrupted session is left to its person, and shows what waits with what that says next', async (t) => {
  const { world, model, terminal } = await open(t);
  await world.are('busy, can be woken');
  await terminal.presses('Escape');
  await terminal.shows((screen) => screen.includes('interrupted'), 'the end of the turn');
  await model.say('too late');
  await world.send('after Esc');
  await terminal.says('and on');
  assert.deepEqual(plain(await within(model.news(), 'the turn')).slice(-2), codex.atPrompt('and on', framed('after Esc')));
  await model.say('done');
  await world.are('idle, can be woken');
  await world.nothingIsLeft();
});

test('Codex: of several conversations of a window the one is woken in which somebody spoke last', async (t) => {
  const { world, model, terminal } = await open(t, { isRepository: true });
  await model.say('in the first');
  await world.are('idle, can be woken');
  await terminal.says('/new');
  // In a Git repository it asks for that.
  await terminal.shows((screen) => /Where should the new conversation run\?\n+› 1\. Use current Git worktree/.test(screen), 'the question where it is to run');
  await terminal.presses('Enter');
  await terminal.shows((screen) => !screen.includes('in the first'), 'another conversation');
  await terminal.says('and now this');
  await within(model.asked(), 'the second conversation');
  await model.say('in the second');
  await world.are('idle', 'idle, can be woken');
  await world.send('wake up');
  const [said, woken] = plain(await within(model.news(), 'the turn')).slice(-2);
  // The waiter of the first may have taken it before it looked, and not brought it.
  woken.text = woken.text.replace(', which you may have been shown before', '');
  assert.deepEqual([said, woken], [
    { role: 'assistant', text: 'in the second' },
    { role: 'user', text: WOKEN + framed('wake up') },
  ]);
  await model.say('done');
  await world.are('idle', 'idle, can be woken');
  await world.nothingIsLeft();
});

for (const [how, end] of [['is killed', (terminal) => terminal.close()], ['is left', (terminal) => terminal.says('/quit')]]) {
  test(`Codex: relay knows of no session once its program ${how}`, async (t) => {
    const { world, model, terminal } = await open(t);
    await model.say('the first turn');
    await world.are('idle, can be woken');
    await end(terminal);
    await world.are();
    await world.send('too late');
    assert.equal((await world.inbox()).unread, 1);
  });
}

test('Codex: a run is not woken, since it ends with its turn', async (t) => {
  const world = await World.start(t, codex);
  await world.turn(async (model) => {
    await model.asked();
    await world.send('at the end', '--mode', 'on-idle');
    await model.say('done so far');
    await model.asked();
    // Time enough for whoever was started at the end.
    await model.use(...codex.shell('sleep 1'));
    await world.are('busy');
    await model.say('done');
  }, { agent: 'dev-a' });
  await world.are();
});
