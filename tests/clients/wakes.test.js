// Claude Code is woken: what relay's hooks do with a session that nobody has given a prompt.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { postedId } from './support/clients.js';
import { Agents, SHOWN, WOKEN, asked, framesIn, rests, wakesIn } from './support/surfaced.js';
import { until } from './support/terminal.js';

test('an idle Claude Code begins a turn for a message, also before its first prompt, and the draft stays', async (t) => {
  const agents = await Agents.start(t, 'dev-a');
  const [dev] = agents.sessions;
  await dev.drafts('half a thought');
  const sent = [];
  for (const body of ['which branch?\nmain?', 'and which commit?']) {
    sent.push(await agents.send('dev-a', body));
    const request = await asked(dev);
    const frames = sent.map(({ shown }) => shown);
    assert.deepEqual({ frames: framesIn(request), wakes: wakesIn(request) }, { frames, wakes: sent.length });
    await rests(dev);
    assert.equal(await dev.draft(), 'half a thought');
    await agents.traced(sent.at(-1), ...WOKEN);
  }
  assert.deepEqual(sent.map(({ notes }) => notes), [[], []]);
});

test('a burst of ten messages wakes an idle Claude Code once, and its model is shown each of them once, in order', async (t) => {
  const agents = await Agents.start(t, 'dev-a');
  const [dev] = agents.sessions;
  const sent = [];
  for (let i = 0; i < 10; i += 1) sent.push(await agents.send('dev-a', `message ${i}`));
  await asked(dev);
  const request = await rests(dev);
  const frames = sent.map(({ shown }) => shown);
  assert.deepEqual({ frames: framesIn(request), wakes: wakesIn(request) }, { frames, wakes: 1 });
  for (const message of sent) {
    const steps = await agents.trace(message);
    assert.ok([WOKEN, SHOWN].some((whole) => JSON.stringify(whole) === JSON.stringify(steps)), steps.join(', '));
  }
});

test('two Claude Codes have a whole conversation that a message began: who asked is woken by the answer', async (t) => {
  const agents = await Agents.start(t, 'dev-a', 'dev-b');
  const [asks, answers] = agents.sessions;
  const says = async (session, to, kind, body) => {
    const id = postedId(await session.model.use('mcp__relay__post_message', { to, kind, body }));
    return { shown: { id, from: session.name, kind, body } };
  };
  const task = await agents.send('dev-a', 'find out which branch', { from: 'pm', kind: 'directive' });
  assert.deepEqual(framesIn(await asked(asks)), [task.shown]);
  const question = await says(asks, 'dev-b', 'question', 'which branch?');
  assert.deepEqual(framesIn(await rests(asks)), [task.shown]);
  assert.deepEqual(framesIn(await asked(answers)), [question.shown]);
  const answer = await says(answers, 'dev-a', 'free', 'main');
  await rests(answers);
  const last = await asked(asks);
  assert.deepEqual({ frames: framesIn(last), wakes: wakesIn(last) }, { frames: [task.shown, answer.shown], wakes: 2 });
  await rests(asks);
  for (const message of [task, question, answer]) await agents.traced(message, ...WOKEN);
});

test('a waiter outlives its relay: what is sent after kill -9 and a new start wakes the session', async (t) => {
  const agents = await Agents.start(t, 'dev-a');
  const [dev] = agents.sessions;
  for (const body of ['after one restart', 'after another']) {
    await agents.relay.restart();
    const sent = await agents.send('dev-a', body);
    assert.deepEqual(framesIn(await asked(dev)).at(-1), sent.shown);
    await rests(dev);
    await agents.traced(sent, ...WOKEN);
  }
});

test('a dialog stays as it is while a message waits for its end, and the tool that was allowed brings it', async (t) => {
  const agents = await Agents.start(t, 'dev-a');
  const [dev] = agents.sessions;
  const file = path.join(dev.place.project, 'file');
  await dev.prompts('write it');
  await dev.model.begin(['Write', { file_path: file, content: 'x' }]);
  await dev.shows('Do you want to create file?');
  const early = await agents.send('dev-a', 'before relay has heard of the dialog');
  // Claude Code tells of a dialog some seconds after it has opened it.
  await agents.hears(({ program }) => program?.activity === 'asks', 'the dialog');
  const sent = [early, await agents.send('dev-a', 'afterwards')];
  assert.deepEqual(
    { state: dev.state, isThere: existsSync(file), traces: await Promise.all(sent.map((message) => agents.trace(message))) },
    { state: 'waiting', isThere: false, traces: [['queued'], ['queued']] },
  );
  await dev.shows('Do you want to create file?');
  await dev.answers('Enter');
  const frames = sent.map(({ shown }) => shown);
  assert.deepEqual(framesIn(await asked(dev)), frames);
  assert.ok(existsSync(file));
  const request = await rests(dev);
  assert.deepEqual({ frames: framesIn(request), wakes: wakesIn(request) }, { frames, wakes: 0 });
  for (const message of sent) await agents.traced(message, ...SHOWN);
});

/** The processes of relay's hooks that run now: those that tell, or those of a mode. */
function commands({ relay }, mode = '') {
  const listed = execFileSync('ps', ['-A', '-o', 'pid=', '-o', 'args='], { encoding: 'utf8' }).split('\n');
  const command = `hook claude ${mode} --port ${relay.port}`.replace('  ', ' ');
  return listed.filter((line) => line.trimEnd().endsWith(command)).map((line) => line.trim().split(' ')[0]);
}

test('a session that was interrupted by Esc, and one that was cleared, can be woken', async (t) => {
  const agents = await Agents.start(t, 'dev-a');
  const [dev] = agents.sessions;
  const runs = path.join(dev.place.project, 'runs');
  await dev.prompts('do it');
  await dev.model.begin(['Bash', { command: `touch ${runs}; sleep 60` }]);
  await until(() => existsSync(runs), 'the tool to run');
  await dev.presses('Escape');
  await dev.is('idle');
  const sent = await agents.send('dev-a', 'after Esc');
  assert.deepEqual(framesIn(await asked(dev)), [sent.shown]);
  await dev.presses('Escape');
  await dev.is('idle');
  const next = await agents.send('dev-a', 'after Esc in the turn of a wake');
  assert.deepEqual(framesIn(await asked(dev)), [sent.shown, next.shown]);
  await rests(dev);
  const before = commands(agents, 'wait');
  await dev.prompts('/clear');
  await until(async () => !(await dev.screen()).includes('Interrupted'), 'a clear screen');
  // What a waiter of the conversation before was given in between comes again.
  const isNew = (process) => !before.includes(process);
  const isHeard = () => commands(agents, 'wait').some(isNew) && commands(agents).length === 0;
  await until(async () => isHeard() && (await sleep(100), isHeard()), 'relay to hear of the new conversation');
  const last = await agents.send('dev-a', 'after /clear');
  assert.deepEqual(framesIn(await asked(dev)), [last.shown]);
  await rests(dev);
  for (const message of [sent, next, last]) await agents.traced(message, ...WOKEN);
});
