// Claude Code itself, with a scripted stand-in for the model. What is compared is what the model is shown.
//
// Each run has an empty home, no settings, and a proxy that refuses everything: nothing is asked of any other machine.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { SERVERS, converse } from './support/claude.js';
import { Agent, HTTP, NOTHING, ROLES, assertBetween, assertRead, errorText, postedId, readResult, soleJson } from './support/clients.js';
import { PATIENCE_MS, Relay, relayBin } from './support/process.js';

const post = (model, from, to, kind, body) => model.use('mcp__relay__post_message', { from, to, kind, body });
const pending = async (model, role) => soleJson(await model.use('mcp__relay__list_pending', { for: role }));
const read = async (model, role, args) => readResult(await model.use('mcp__relay__read_messages', { for: role, ...args }));

/** Posts, and gives back the message as its reader must see it. */
async function posted(model, from, to, kind, body) {
  const before = Date.now();
  const id = postedId(await post(model, from, to, kind, body));
  return { id, from, to, kind, body, window: [before, Date.now()] };
}

/** Waits until the client's event stream is open again; the server tells nobody but who asks. */
async function reopened(relay) {
  const limit = AbortSignal.timeout(10_000);
  while ((await relay.health()).sessions === 0) {
    limit.throwIfAborted();
    await sleep(10);
  }
}

/**
 * Waits until relay has heard that a wait is given up: Claude Code tells its model first and cancels the request by another
 * timer, a moment later, or not at all if the answer comes in between.
 */
async function nobodyWaits(relay) {
  const limit = AbortSignal.timeout(PATIENCE_MS);
  while ((await relay.health()).connections.some(({ waits }) => waits.length > 0)) {
    limit.throwIfAborted();
    await sleep(10);
  }
}

for (const type of Object.keys(SERVERS)) {
  test(`Claude Code over ${type}: the model posts, counts and reads, goes on across kill -9, and is told of it`, async (t) => {
    const relay = await Relay.start(t);
    const { model, outcome } = await converse(t, SERVERS[type](relay), async (model) => {
      const first = await posted(model, 'dev-a', 'pm', 'status', 'P4 done, "all green"\nnext: P5 😀');
      const second = await posted(model, 'dev-b', 'pm', 'question', 'which branch?');
      assert.deepEqual(await pending(model, 'pm'), { count: 2, kinds: ['status', 'question'] });
      const inbox = await read(model, 'pm');
      assertRead(inbox.messages, [first, second]);
      assert.equal(inbox.startedAt, undefined, 'nobody had a session before the first start');
      assert.deepEqual(await read(model, 'pm'), { messages: [], startedAt: undefined });
      assert.match(errorText(await post(model, 'dev-a', 'dev-c', 'status', 'x')), /^Error: unknown role "dev-c"/);
      await posted(model, 'dev-a', 'pm', 'directive', 'never read');

      await relay.restart();
      if (type === 'sse') await reopened(relay);

      const after = await posted(model, 'dev-a', 'pm', 'status', 'after the restart');
      const again = await read(model, 'pm');
      assertRead(again.messages, [after]);
      assertBetween(again.startedAt, [relay.asked, Date.now()]);
      assert.deepEqual(await read(model, 'pm'), { messages: [], startedAt: undefined });
      assert.deepEqual(await read(model, 'dev-b'), { messages: [], startedAt: again.startedAt });
      assert.deepEqual(await pending(model, 'pm'), NOTHING);
      await model.say('all done');
    });
    assert.deepEqual(
      { subtype: outcome.subtype, is_error: outcome.is_error, result: outcome.result, denied: outcome.permission_denials },
      { subtype: 'success', is_error: false, result: 'all done', denied: [] },
    );
    assert.deepEqual([...new Set(model.requests)], ['POST /v1/messages']);
  });

  test(`Claude Code over ${type}: the model is shown the tools and the instructions as relay wrote them`, async (t) => {
    const relay = await Relay.start(t);
    const { client } = await Agent.connect(t, HTTP, relay);
    const { model } = await converse(t, SERVERS[type](relay), (model) => model.say('seen'));
    const [request] = model.conversation;
    assert.deepEqual(
      request.tools
        .filter((tool) => tool.name.startsWith('mcp__'))
        .map(({ name, description, input_schema }) => ({ name, description, inputSchema: input_schema }))
        .toSorted((a, b) => a.name.localeCompare(b.name)),
      (await client.listTools()).tools
        .map(({ name, description, inputSchema }) => ({ name: `mcp__relay__${name}`, description, inputSchema }))
        .toSorted((a, b) => a.name.localeCompare(b.name)),
    );
    const shown = [request.system, ...request.messages.map((message) => message.content)].flat();
    const instructions = client.getInstructions();
    assert.ok(shown.some((block) => (block.text ?? block).includes(instructions)), 'the instructions were not shown');
  });
}

test('Claude Code: two bound sessions, one over sse and one over http, ask and answer while the other waits', async (t) => {
  const relay = await Relay.start(t);
  const use = (model, tool, args) => model.use(`mcp__relay__${tool}`, args);
  const short = ({ messages }) => messages.map(({ from, to, kind, body }) => `${from} ${to} ${kind} ${body}`);
  const hears = async (model) => assert.equal(readResult(await use(model, 'read_messages', {})).startedAt, undefined);
  let isThere;
  const pm = new Promise((resolve) => (isThere = resolve));
  await Promise.all([
    converse(t, SERVERS.sse(relay, 'dev-a'), async (model) => {
      await hears(model);
      await pm;
      postedId(await use(model, 'post_message', { to: 'pm', kind: 'question', body: 'may I merge?' }));
      const answer = readResult(await use(model, 'read_messages', { wait_seconds: 60 }));
      assert.deepEqual(short(answer), ['pm dev-a directive merge']);
      postedId(await use(model, 'post_message', { to: 'pm', kind: 'status', body: 'merged' }));
      const text = errorText(await use(model, 'read_messages', { for: 'pm' }));
      assert.ok(text.startsWith('Error: ') && text.includes('dev-a') && text.includes('pm'), text);
      await model.say('done');
    }),
    converse(t, SERVERS.http(relay, 'pm'), async (model) => {
      await hears(model);
      isThere();
      const question = readResult(await use(model, 'read_messages', { wait_seconds: 60 }));
      assert.deepEqual(short(question), ['dev-a pm question may I merge?']);
      postedId(await use(model, 'post_message', { to: 'dev-a', kind: 'directive', body: 'merge' }));
      const status = readResult(await use(model, 'read_messages', { wait_seconds: 60 }));
      assert.deepEqual(short(status), ['dev-a pm status merged']);
      await model.say('done');
    }),
  ]);
  assert.deepEqual(Object.values((await relay.health()).pending), ROLES.map(() => 0));
});

test('Claude Code over stdio, started before the server: the model is told what to start, and its next call works', async (t) => {
  const relay = await Relay.absent(t);
  await converse(t, SERVERS.stdio(relay), async (model) => {
    const text = errorText(await post(model, 'dev-a', 'pm', 'status', 'too early'));
    assert.equal(text, `Relay is not running on 127.0.0.1:${relay.port}. Start it with: ${relayBin} serve --port ${relay.port}`);
    await relay.up();
    const message = await posted(model, 'dev-a', 'pm', 'status', 'in time');
    const inbox = await read(model, 'pm');
    assertRead(inbox.messages, [message]);
    assert.equal(inbox.startedAt, undefined);
    await model.say('done');
  });
});

test('Claude Code over stdio: a wait that it gives up takes nothing, and its next read finds what came since', async (t) => {
  const relay = await Relay.start(t);
  const server = { ...SERVERS.stdio(relay, 'pm'), timeout: 1_500 };
  await converse(t, server, async (model) => {
    const use = (tool, args) => model.use(`mcp__relay__${tool}`, args);
    assert.equal(readResult(await use('read_messages', {})).startedAt, undefined);
    const gaveUp = errorText(await use('read_messages', { wait_seconds: 60 }));
    assert.match(gaveUp, /timed out/);
    await nobodyWaits(relay);
    const id = postedId(await use('post_message', { to: 'pm', kind: 'free', body: 'to myself' }));
    const { messages } = readResult(await use('read_messages', {}));
    assert.deepEqual(messages.map((message) => [message.id, message.redelivered]), [[id, undefined]]);
    await model.say('done');
  });
});
