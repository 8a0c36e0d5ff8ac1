// The DeliveryRunner of Agent Relay's SDK, which gives a receipt for each delivery, over connections that break.

import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentRelay, DeliveryRunner } from '@agent-relay/sdk';
import { World } from './support/agents.js';
import { atEnd } from './support/process.js';

process.env.DO_NOT_TRACK = '1';

/** How long the runner may take for all. */
const PATIENCE_MS = 60_000;

/** What stands between the runner and relay: it can cut the connections that have become WebSockets. */
class Wire {
  static async start(t, port) {
    const wire = new Wire();
    wire.server = net.createServer((client) => {
      const relay = net.connect(port, '127.0.0.1');
      // A connection that has carried other requests may become one.
      client.on('data', (bytes) => {
        if (bytes.includes('/v1/node/ws')) wire.sockets.add(client);
      });
      for (const [from, into] of [[client, relay], [relay, client]]) {
        from.pipe(into);
        from.on('error', () => {});
        from.on('close', () => into.destroy());
      }
      client.on('close', () => wire.sockets.delete(client));
    });
    await new Promise((resolve) => wire.server.listen(0, '127.0.0.1', resolve));
    atEnd(t, () => wire.server.close());
    return wire;
  }

  sockets = new Set();

  get url() {
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  /** Ends them at once, as when a cable is cut. */
  cut() {
    const { size } = this.sockets;
    for (const socket of this.sockets) socket.resetAndDestroy();
    return size;
  }
}

async function begin(t) {
  const world = await World.start(t, 'agent-relay', { transport: 'http', version: '2025-11-25' });
  const direct = `http://127.0.0.1:${world.relay.port}`;
  const wire = await Wire.start(t, world.relay.port);
  const relay = await AgentRelay.createWorkspace({ name: 'runs', baseUrl: direct });
  const [alice, bob] = await relay.workspace.register(['alice', 'bob']);
  const there = new AgentRelay({ workspaceKey: relay.workspaceKey, baseUrl: wire.url });
  /** A client of bob's that nothing of another knows. */
  const client = () => there.workspace.reconnect({ apiToken: bob.token });
  const list = async () => {
    const response = await fetch(`${direct}/v1/deliveries`, { headers: { authorization: `Bearer ${bob.token}` } });
    return (await response.json()).data.map(({ message, status }) => [message.text, status]);
  };
  return { world, wire, relay, alice, bob, client, list };
}

/** Runs until it is stopped; what it is given is put into `got`, and `answer` says what becomes of it. */
function run(client, got, answer = () => ({ status: 'delivered' })) {
  const target = {
    receiveMessage: async (message, context) => {
      got.push([message.text, context.id]);
      return answer(message, context);
    },
  };
  const errors = [];
  const runner = new DeliveryRunner({ messaging: client.messaging ?? client, delivery: target, agentName: 'bob', onError: (_, error) => errors.push(error) });
  const ended = runner.start();
  return { runner, ended, errors };
}

async function until(condition, what) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `it takes too long until ${what}`);
    await sleep(20);
  }
}

const events = (client) => (client.messaging ?? client).events;

test('The DeliveryRunner gets 200 messages over sockets that are cut and across restarts of its target, none missing, none twice', async (t) => {
  const { wire, alice, client, list } = await begin(t);
  const texts = Array.from({ length: 200 }, (_, n) => `number ${n}`);
  const got = [];
  for (const text of texts.slice(0, 40)) await alice.sendMessage({ to: 'bob', text });
  let cuts = 0;
  let sent = 40;
  for (const [restart, count] of [80, 140, 200].entries()) {
    const bob = await client();
    const { runner, errors } = run(bob, got, async () => {
      await sleep(2);
      return { status: restart === 1 ? 'accepted' : 'delivered' };
    });
    while (sent < count) {
      await alice.sendMessage({ to: 'bob', text: texts[sent] });
      sent += 1;
      if (sent % 20 === 0) cuts += wire.cut();
    }
    // The last of them is stopped when it has all, the others half way.
    await until(() => got.length >= (count === 200 ? 200 : count - 20), `${count} were sent and most were got: ${got.length}`);
    runner.stop();
    await sleep(50);
    await events(bob).disconnect();
    assert.deepEqual(errors, []);
  }
  assert.ok(cuts >= 3, `${cuts} sockets were cut`);
  await until(async () => (await list()).length === 0, 'no receipt is missing');
  assert.deepEqual(new Set(got.map(([text]) => text)), new Set(texts), 'none is missing');
  assert.equal(new Set(got.map(([, id]) => id)).size, got.length, 'none came twice');
});

test('What its target defers or fails is neither lost nor taken for delivered', async (t) => {
  const { world, alice, client, list } = await begin(t);
  const ids = [];
  for (const text of ['later', 'never', 'broken', 'now']) ids.push((await alice.sendMessage({ to: 'bob', text })).id);
  const got = [];
  const bob = await client();
  const availableAt = new Date(Date.now() + 1_500).toISOString();
  const { runner, errors } = run(bob, got, ({ text }) => {
    if (text === 'broken') throw new Error('it broke');
    return { later: { status: 'deferred', availableAt, reason: 'busy' }, never: { status: 'failed', reason: 'no' } }[text] ?? { status: 'delivered' };
  });
  await until(() => got.length === 4, 'all were got');
  await until(async () => (await list()).length === 0, 'all have receipts');
  assert.deepEqual(errors.map(({ message }) => message), ['it broke']);
  const steps = async (id) => {
    const traced = await fetch(`http://127.0.0.1:${world.relay.port}/api/trace`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ message: id }) });
    return (await traced.json()).steps;
  };
  assert.deepEqual((await steps(ids[0])).find(({ step }) => step === 'deferred')?.reason, 'busy');
  const failed = async (id) => {
    const { reason, retryable } = (await steps(id)).find(({ step }) => step === 'failed') ?? {};
    return [reason, retryable];
  };
  assert.deepEqual(await failed(ids[1]), ['no', false]);
  assert.deepEqual(await failed(ids[2]), ['it broke', true]);
  // This runner does not look at anything twice; the next one finds what has become due.
  await until(async () => (await list()).some(([text]) => text === 'later'), 'its time has come');
  runner.stop();
  await events(bob).disconnect();
  const next = await client();
  const { runner: second } = run(next, got);
  await until(() => got.length === 5, 'it is got again');
  assert.equal(got[4][0], 'later');
  assert.equal(got[4][1], got[0][1], 'it is the same delivery');
  await until(async () => (await list()).length === 0, 'it has its receipt');
  second.stop();
  await events(next).disconnect();
});

test('What says more of how it is to be brought than the SDK knows comes all the same, and what is held once it is asked for', async (t) => {
  const { world, alice, bob: { token }, client, list } = await begin(t);
  const post = async (path, as, body) => {
    const response = await fetch(`http://127.0.0.1:${world.relay.port}/v1/${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${as}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const { ok, data, error } = await response.json();
    assert.ok(ok, error?.message);
    return data;
  };
  const got = [];
  const bob = await client();
  const { runner, errors } = run(bob, got);
  const deadline = new Date(Date.now() + 600_000).toISOString();
  await post('dm', alice.token, { to: 'bob', text: 'held', mode: 'manual' });
  await post('dm', alice.token, { to: 'bob', text: 'urgent', mode: 'on-idle', priority: 'urgent', deadline });
  await alice.sendMessage({ to: 'bob', text: 'plain' });
  await until(() => got.length === 2, 'what is not held has come');
  // What was there before it began it lists, beside what comes meanwhile.
  assert.deepEqual(new Set(got.map(([text]) => text)), new Set(['urgent', 'plain']));
  assert.deepEqual(await post('deliveries/flush', token, {}), { flushed: 1 });
  await until(() => got.length === 3, 'what was held has come');
  assert.equal(got[2][0], 'held');
  await until(async () => (await list()).length === 0, 'each has its receipt');
  runner.stop();
  await events(bob).disconnect();
  assert.deepEqual(errors, []);
});
