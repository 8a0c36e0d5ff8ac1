// Workers as their parents have them: relay starts real Claude Codes, and shell scripts where the end alone is of interest.

import assert from 'node:assert/strict';
import { chmodSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { errorText } from './support/clients.js';
import { temporaryFolder, within } from './support/process.js';
import { asked, framesIn, rests } from './support/surfaced.js';
import { until } from './support/terminal.js';
import { Workers, gone } from './support/workers.js';

const NOTHING = 'No messages in inbox.';
const IS_READY = 'relay:\nWorker "w1" is ready.';

/** Has a model call a tool of relay's; gives back the text that it is shown. */
async function call({ model }, tool, args = {}) {
  const { content, isError } = await model.use(`mcp__relay__${tool}`, args);
  assert.equal(isError, false, JSON.stringify(content));
  return content.map(({ text }) => text).join('\n');
}

/** Has a model load tools of relay's, without which Claude Code gives it none of them. */
async function load({ model }, ...tools) {
  const names = tools.map((tool) => `mcp__relay__${tool}`);
  const { content } = await model.use('ToolSearch', { query: `select:${names.join(',')}` });
  assert.deepEqual(content, names.map((name) => ({ type: 'tool_reference', tool_name: name })));
}

const withoutId = ({ id, ...frame }) => frame;

/** Goes on with a session until its model has been shown so many messages; gives them back without their ids. */
async function shown(session, count) {
  for (;;) {
    const frames = framesIn(await asked(session));
    if (frames.length >= count) return frames.map(withoutId);
    await session.model.say('well');
  }
}

/** What an agent's inbox gives it until so many messages are there that are like that, without the ids. */
async function received(agent, is, count = 1) {
  const messages = [];
  const take = async () => {
    const text = await agent.text('relay_inbox');
    const frames = text === NOTHING ? [] : text.replace(/^\d+ message\(s\):\n\n/, '').split('\n\n---\n\n');
    messages.push(...frames.map((frame) => frame.replace(/^\[\S+\] From /, '')));
    return messages.filter(is).length >= count;
  };
  await until(take, () => `a message; there are ${JSON.stringify(messages)}`);
  return messages;
}

/** Has an agent start the worker `w1`. */
async function spawn(agent, task) {
  assert.equal(await agent.text('relay_spawn', { name: 'w1', cli: 'claude', task }), SPAWNED);
}

const SPAWNED = 'Worker "w1" spawned successfully. It will message you when ready.';

test('Claude Code has Claude Code as a worker: ACK, a question, the answer, DONE, its end; each wakes who waits for it', async (t) => {
  const workers = await Workers.start(t);
  const pm = await workers.parentSession('pm');
  const w1 = { name: 'w1', model: workers.model };
  const task = 'count {them}\nand "say" how many';
  const said = (from, body, kind = 'free') => ({ from, kind, body });

  await pm.prompts('have somebody count');
  await load(pm, 'relay_spawn', 'relay_release', 'relay_send', 'relay_inbox');
  assert.equal(await call(pm, 'relay_spawn', { name: 'w1', cli: 'claude', task }), SPAWNED);
  const first = JSON.stringify((await within(w1.model.asked(), "the worker's first prompt")).messages);
  for (const part of ['You are w1, a worker that pm has started', 'relay_send(to="pm", message="ACK: ', `Your task:\n\n${task}`]) {
    assert.ok(first.includes(JSON.stringify(part).slice(1, -1)), part);
  }
  const told = [{ ...said('relay', 'Worker "w1" is ready.', 'status'), isRelay: true }];
  assert.deepEqual(await shown(pm, 1), told);
  await rests(pm);

  await load(w1, 'relay_send');
  const tells = async (body) => {
    assert.equal(await call(w1, 'relay_send', { to: 'pm', message: body }), 'Message sent to pm');
    told.push(said('w1', body));
  };
  await tells('ACK: counting');
  assert.deepEqual(await shown(pm, told.length), told);
  await rests(pm);
  await tells('which ones?');
  await w1.model.say('It waits for the answer.');
  await workers.rested('w1');
  assert.deepEqual(await shown(pm, told.length), told);
  assert.equal(await call(pm, 'relay_send', { to: 'w1', message: 'all of {them}' }), 'Message sent to w1');
  await rests(pm);
  assert.deepEqual(await shown(w1, 1), [said('pm', 'all of {them}')]);

  await tells('DONE: three');
  await w1.model.say('It is done.');
  await workers.rested('w1');
  assert.deepEqual(await shown(pm, told.length), told);
  const processes = workers.processes();
  assert.ok(processes.some(({ command }) => command.startsWith('claude ')), JSON.stringify(processes));
  assert.equal(await call(pm, 'relay_release', { name: 'w1', reason: 'it is done' }), 'Worker "w1" released.');
  await gone(processes);
  await workers.are({ w1: 'exited' });
  assert.equal(await call(pm, 'relay_inbox'), NOTHING);
  assert.deepEqual(framesIn(await rests(pm)).map(withoutId), told);
});

test('a worker that is killed: its parent is told by which signal, and what it wrote last', async (t) => {
  const workers = await Workers.start(t);
  const pm = await workers.parent('pm');
  await spawn(pm, 'look at the moon');
  await within(workers.model.asked(), "the worker's first prompt");
  await until(async () => (await workers.logs('w1')).includes('look at the moon'), 'the worker to show its task');
  const processes = workers.processes();
  const [{ pid }] = processes.filter(({ command }) => command.startsWith('claude '));
  process.kill(pid, 'SIGKILL');
  const [ready, ended, ...more] = await received(pm, (message) => message.includes('has ended'));
  assert.deepEqual([ready, more], [IS_READY, []]);
  const [from, how, ...lines] = ended.split('\n');
  assert.deepEqual([from, how], ['relay:', 'Worker "w1" has ended (signal 9). Its last lines:']);
  assert.ok(lines.length <= 20 && lines.some((line) => line.includes('look at the moon')), ended);
  await gone(processes);
  await workers.are({ w1: 'exited' });
});

test('a worker that does not start: who asks for it is told why, and what to do', async (t) => {
  const empty = temporaryFolder(t);
  const workers = await Workers.start(t, { PATH: empty });
  const pm = await workers.parent('pm');
  const fails = async (cli, reason) => {
    const said = errorText(await pm.call('relay_spawn', { name: 'w1', cli, task: 'look' }));
    assert.equal(said, `Failed to spawn worker: ${reason}`);
  };
  const other = (cli) => `or name another command line under workers.${cli} in .relay/config.json`;
  await fails('codex', `"codex" is not installed: no such program in PATH; install it, ${other('codex')}`);
  const [program, nowhere] = ['codex', 'nowhere'].map((name) => path.join(empty, name));
  writeFileSync(program, `#!${nowhere}\n`);
  await fails('codex', `${program} may not be run: permission denied; make it executable with chmod +x, ${other('codex')}`);
  chmodSync(program, 0o700);
  await fails('codex', `${program} cannot be run: No such file or directory (os error 2)`);
  workers.configure({ claude: { command: [nowhere] } });
  await fails('claude', `${nowhere}: No such file or directory (os error 2); install it, ${other('claude')}`);
  workers.configure({ claude: { command: nowhere } });
  const said = errorText(await pm.call('relay_spawn', { name: 'w1', cli: 'claude', task: 'look' }));
  const accepted = 'a program and what follows it, ["PROGRAM", "ARGUMENT", …]';
  assert.ok(said.endsWith(`.relay/config.json: workers.claude.command is "${nowhere}"; accepted: ${accepted}`), said);
  assert.match(said, /^Failed to spawn worker: \//);
  assert.deepEqual(workers.processes(), []);
  await workers.are({});
  assert.equal(await pm.text('relay_inbox'), NOTHING);
});

test('a relay that is stopped leaves nothing of its workers, whatever they do', async (t) => {
  const workers = await Workers.start(t, { PATH: process.env.PATH });
  const sh = (script) => ({ command: ['sh', '-c', script], arguments: [] });
  workers.configure({
    claude: sh('exec sleep 600'),
    codex: sh('trap "" TERM HUP INT; while :; do sleep 600; done'),
    gemini: sh('setsid sh -c "sleep 600; :" & wait'),
    droid: sh('kill -STOP $$'),
    opencode: sh('exec yes'),
  });
  const pm = await workers.parent('pm');
  for (const cli of ['claude', 'codex', 'gemini', 'droid', 'opencode']) {
    await pm.text('relay_spawn', { name: cli, cli, task: 'stay' });
  }
  // Five supervisors, what they have started, and two that these have.
  await until(() => workers.processes().length >= 13, () => `all of them: ${JSON.stringify(workers.processes())}`);
  const processes = workers.processes();
  await workers.relay.stop();
  await gone(processes);
});

const IS_ENDING = 'w1 is a worker of pm that is ending; try again in a moment, or choose another name';

test('a worker that is released while it speaks is gone, nobody is told of a failure, and its name is free', async (t) => {
  const workers = await Workers.start(t);
  const next = { model: workers.model.beside(({ messages }) => JSON.stringify(messages).includes('the second task')) };
  const pm = await workers.parent('pm');
  await spawn(pm, 'the first task');
  await within(workers.model.asked(), "the worker's first prompt");
  await workers.model.speaks('Once upon a time\n\nthere was');
  await until(async () => (await workers.logs('w1')).includes('Once upon a time'), 'the worker to speak');
  await workers.person('send', 'w1', 'and then?');
  const processes = workers.processes();
  assert.equal(await pm.text('relay_release', { name: 'w1' }), 'Worker "w1" released.');
  await until(async () => {
    const result = await pm.call('relay_spawn', { name: 'w1', cli: 'claude', task: 'the second task' });
    if (result.isError) assert.equal(errorText(result), `Failed to spawn worker: ${IS_ENDING}`);
    return !result.isError;
  }, 'the name to be free');
  await gone(processes);
  const first = await within(next.model.asked(), "the next worker's first prompt");
  assert.deepEqual(framesIn(first), []);
  await load(next, 'relay_inbox');
  assert.equal(await call(next, 'relay_inbox'), NOTHING);
  await next.model.say('nothing there');
  await workers.rested('w1');
  const messages = await received(pm, (message) => message === IS_READY, 2);
  // The last that the first one's hooks were given they may have taken with them, or not.
  assert.deepEqual(messages.map((message) => message.replace(' (redelivered)', '')), [
    IS_READY,
    'relay:\nWorker "w1" was released, and had not read 1 message(s), which follow.',
    'user:\nand then?',
    IS_READY,
  ]);
  assert.equal(workers.model.isAsked, false, 'the first one asks for nothing more');
});
