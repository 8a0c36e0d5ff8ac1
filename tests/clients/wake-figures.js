// How long it takes from a post to the request of the model that it wakes, how often a wake is lost or comes twice, and what
// relay's hook costs a tool call. No part of the suite: `RELAY_BIN=… node wake-figures.js [WAKES [CALLS]]`, on an idle machine,
// with a relay of a release build.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { relayBin } from './support/process.js';
import { Agents, asked, connected, framesIn, rests, wakesIn } from './support/surfaced.js';

const [WAKES, CALLS] = [process.argv[2] ?? 100, process.argv[3] ?? 100].map(Number);

/** Between two wakes a session is left alone, as one is that has been idle. */
const REST_MS = 300;

/** The least, p50, p99 and most of some times in milliseconds. */
function summary(times) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)].toFixed(1);
  return `min ${at(0)}, p50 ${at(0.5)}, p99 ${at(0.99)}, max ${at(1)} ms (n = ${sorted.length})`;
}

test('wakes', async (t) => {
  const agents = await Agents.start(t, 'dev-a');
  const [dev] = agents.sessions;
  const [sent, took] = [[], []];
  for (let i = 0; i < WAKES; i += 1) {
    await sleep(REST_MS);
    const before = performance.now();
    sent.push((await agents.send('dev-a', `message ${i}`)).shown.id);
    await asked(dev);
    took.push(dev.model.times.at(-1) - before);
    await rests(dev);
  }
  const last = dev.model.conversation.at(-1);
  const shown = framesIn(last).map(({ id }) => id);
  console.log(`wakes, post to model request: ${summary(took)}`);
  console.log(`the first: ${took[0].toFixed(1)} ms; the others: ${summary(took.slice(1))}`);
  console.log({
    posts: sent.length,
    woken: wakesIn(last),
    lost: sent.filter((id) => !shown.includes(id)).length,
    double: shown.length - new Set(shown).size,
    requests: dev.model.conversation.length,
  });
});

/** Each kind of hook in turn, so that whatever else the machine does is the same for all. */
const KINDS = {
  'no command': () => ':',
  'an empty program': () => '/bin/true',
  'relay hook': (relay) => `"${relayBin}" hook claude --port ${relay.port}`,
};

test('the cost of a hook in a tool call of Claude Code', async (t) => {
  const agents = await Agents.make(t, 'dev-a');
  const [dev] = agents.sessions;
  const { servers, settings } = connected(agents.relay);
  const which = path.join(dev.place.project, 'which');
  settings.hooks.PostToolUse = [{ hooks: [{ type: 'command', command: `. ${which}` }] }];
  dev.place.configure({ servers, settings });
  await agents.open(dev);
  await dev.prompts('work');
  await asked(dev);
  const took = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, []]));
  for (let i = 0; i < CALLS; i += 1) {
    for (const [kind, command] of Object.entries(KINDS)) {
      writeFileSync(which, command(agents.relay));
      const before = performance.now();
      await dev.model.use('Bash', { command: 'true' });
      took[kind].push(dev.model.times.at(-1) - before);
    }
  }
  await rests(dev);
  for (const [kind, times] of Object.entries(took)) console.log(`a tool call with ${kind}: ${summary(times)}`);
});

test('the cost of a hook by itself', async (t) => {
  const agents = await Agents.make(t);
  const event = JSON.stringify({
    ...{ session_id: '3f0c', cwd: '/', hook_event_name: 'PostToolUse', tool_name: 'Bash', tool_input: { command: 'true' } },
    ...{ tool_response: { stdout: 'x'.repeat(4_000) }, tool_use_id: 'toolu_1', duration_ms: 1 },
  });
  const env = { PATH: process.env.PATH, RELAY_AGENT: 'dev-a', CLAUDE_PID: String(process.pid), CLAUDE_CODE_ENTRYPOINT: 'cli' };
  const took = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, []]));
  for (let i = 0; i < CALLS * 3; i += 1) {
    for (const [kind, command] of Object.entries(KINDS)) {
      const before = performance.now();
      const child = spawn('/bin/sh', ['-c', command(agents.relay)], { env, stdio: ['pipe', 'ignore', 'inherit'] });
      child.stdin.on('error', () => {});
      child.stdin.end(event);
      const [code] = await once(child, 'exit');
      took[kind].push(performance.now() - before);
      assert.equal(code, 0, kind);
    }
  }
  for (const [kind, times] of Object.entries(took)) console.log(`sh and ${kind}: ${summary(times)}`);
});
