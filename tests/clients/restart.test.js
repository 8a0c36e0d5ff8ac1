// What a client sees whose read waits when the server is killed with -9 and started again a moment later: over every
// transport an error, and soon; and the next call goes on. docs/CONTRACT.md, "After a restart", says the same in words.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { SERVERS, converse } from './support/claude.js';
import { Agent, HTTP, NOTHING, SSE, STDIO, errorText, noticeStart, readResult, soleJson } from './support/clients.js';
import { AWAY_MS, RESTARTED, WENT_AWAY, assertSoon, outage } from './support/outage.js';
import { Relay, within } from './support/process.js';
import { BEHIND, READING_MS, Tap } from './support/tap.js';

/** Within what Claude Code has connected anew where it has closed its connection. */
const RECONNECT_MS = 10_000;

/** An outage in which a client that looks for the server waits at the tap, and finds it. */
async function outageUnseen(tap, relay) {
  const back = tap.hold();
  const killed = await outage(relay);
  back();
  return killed;
}

/** Kills the server and starts it again after `wait` has ended; a client that looks for it before finds nothing. */
async function outageBeyond(tap, relay, wait) {
  tap.close();
  await relay.kill9();
  const killed = Date.now();
  await within(wait, 'the end of the wait');
  assertSoon(killed);
  await relay.up();
  await tap.open();
  return killed;
}

/** Starts a relay and a client whose read waits, with word of progress if it is to have had one. */
async function waiting(t, kind, progress) {
  const relay = await Relay.start(t);
  const agent = await Agent.connect(t, kind, relay);
  await agent.read('dev-a');
  let heard;
  const first = new Promise((resolve) => (heard = resolve));
  const options = progress ? { onprogress: heard } : {};
  const wait = agent.call('read_messages', { for: 'dev-a', wait_seconds: 60 }, options);
  wait.catch(() => {});
  if (progress) {
    await within(first, 'word of progress');
  } else {
    await relay.aReadWaits();
    await agent.pending('dev-a');
  }
  return { relay, agent, wait };
}

async function assertGoesOn(agent) {
  const looked = await agent.call('list_pending', { for: 'dev-a' });
  assert.deepEqual(soleJson(looked), NOTHING);
  noticeStart(looked.content.at(-1).text);
  assert.equal((await agent.read('dev-a')).startedAt, undefined, 'it was told');
}

for (const progress of [false, true]) {
  const how = progress ? 'that has heard of progress' : 'in silence';
  for (const [kind, text] of [[SSE, RESTARTED], [STDIO, WENT_AWAY], ...(progress ? [[HTTP, RESTARTED]] : [])]) {
    test(`${kind.name}: a wait ${how} ends soon after a kill -9 with an error that says to call again`, async (t) => {
      const { relay, agent, wait } = await waiting(t, kind, progress);
      const killed = await outage(relay);
      assert.equal(errorText(await within(wait, 'the end of the wait')), text);
      assertSoon(killed);
      await assertGoesOn(agent);
    });
  }
}

test('streamable HTTP: a wait in silence fails at once with the kill, by an error of the SDK', async (t) => {
  const { relay, agent, wait } = await waiting(t, HTTP, false);
  await relay.kill9();
  await assert.rejects(within(wait, 'the end of the wait', AWAY_MS), { name: 'TypeError', message: 'fetch failed' });
  await relay.up();
  await assertGoesOn(agent);
});

/**
 * What the model behind Claude Code is shown, when relay is killed at the sight of something and is back when the client
 * looks for it again, or only after the wait has ended.
 */
const IN_CLAUDE_CODE = [
  ['sse', 'and is back in time', /"wait_seconds":120.*<HTTP\/1.1 202 /s, true, 'Connection closed'],
  ['sse', 'and is not back in time', /"wait_seconds":120.*<HTTP\/1.1 202 /s, false, 'Connection closed'],
  ['stdio', 'in the middle of it', /"wait_seconds":120/, false, WENT_AWAY],
  ['http', 'before word of progress', /"wait_seconds":120/, false, 'ECONNRESET: The socket connection was closed unexpectedly'],
  ['http', 'after word of progress', /"notifications\/progress"/, true, RESTARTED],
];

for (const [type, when, sight, isFound, text] of IN_CLAUDE_CODE) {
  test(`Claude Code over ${type}: relay is killed ${when}; its wait ends soon with an error, and it goes on`, async (t) => {
    const relay = await Relay.start(t, '--host', BEHIND);
    const tap = await Tap.start(t, relay);
    await converse(t, SERVERS[type](relay), async (model) => {
      const read = (args) => model.use('mcp__relay__read_messages', { for: 'dev-a', ...args });
      await read({});
      const wait = read({ wait_seconds: 120 });
      await within(tap.sees(sight), 'the call');
      await sleep(READING_MS);
      const killed = isFound ? await outageUnseen(tap, relay) : await outageBeyond(tap, relay, wait);
      const shown = errorText(await within(wait, 'the end of the wait'));
      if (isFound) assertSoon(killed);
      assert.equal(shown.slice(0, text.length), text);
      const isAway = ({ isError, content }) => isError && content[0].text === 'MCP server "relay" is not connected';
      let next = await read({});
      // Claude Code connects again by itself, in its own time.
      while (text === 'Connection closed' && isAway(next) && Date.now() < killed + RECONNECT_MS) next = await read({});
      assert.deepEqual(readResult(next).messages, []);
      await model.say('done');
    });
  });
}
