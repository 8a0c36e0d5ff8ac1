// Actions, by the clients of Agent Relay: an agent's own over its SDK, and those of a node over NodeProviderClient.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentRelay } from '@agent-relay/sdk';
import { NodeProviderClient } from '@relaycast/sdk';
import { World } from './support/agents.js';
import { atEnd } from './support/process.js';

process.env.DO_NOT_TRACK = '1';

const PATIENCE_MS = 30_000;

async function begin(t) {
  const world = await World.start(t, 'agent-relay', { transport: 'http', version: '2025-11-25' });
  const baseUrl = `http://127.0.0.1:${world.relay.port}`;
  const relay = await AgentRelay.createWorkspace({ name: 'acts', baseUrl });
  const [alice, bob, carol] = await relay.workspace.register(['alice', 'bob', 'carol']);
  const ask = async (method, path, token, body) => {
    const response = await fetch(`${baseUrl}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: body && JSON.stringify(body),
    });
    const { ok, data, error } = await response.json();
    assert.ok(ok, JSON.stringify(error));
    return data;
  };
  return { world, baseUrl, relay, alice, bob, carol, ask };
}

async function until(condition, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await condition();
    if (found) return found;
    assert.ok(Date.now() < end, `it takes too long until ${what}`);
    await sleep(20);
  }
}

const commands = (client) => (client.messaging ?? client).commands;
const events = (client) => (client.messaging ?? client).events;

/** What came of an invocation, once it has ended. */
const ended = (client, { actionName, invocationId }) =>
  until(async () => {
    const invocation = await commands(client).getInvocation(actionName, invocationId);
    return ['completed', 'failed'].includes(invocation.status) && invocation;
  }, `${actionName} has ended`);

test('Actions of an agent of the Agent Relay SDK: asked for, done, failed, denied, and the caller hears of it', async (t) => {
  const { relay, alice, bob, carol } = await begin(t);
  const asked = [];
  bob.registerAction({
    name: 'sum',
    description: 'Adds numbers',
    availableTo: ['alice'],
    handler: async ({ input, agent }) => {
      asked.push([agent.name, input.of]);
      if (!Array.isArray(input.of)) throw new Error('no numbers');
      return { sum: input.of.reduce((sum, number) => sum + number, 0) };
    },
  });
  const listed = await until(async () => {
    const all = await relay.messaging.commands.list();
    return all.some(({ command, isActive }) => command === 'sum' && isActive) && all;
  }, 'bob has registered');
  assert.deepEqual(listed.map(({ command, description, handlerAgent, availableTo }) => [command, description, handlerAgent, availableTo]), [
    ['sum', 'Adds numbers', 'bob', ['alice']],
  ]);

  // What the SDK itself shows its programs of them has no name; the client beneath it has one for each.
  const heard = [];
  const { on } = (alice.messaging ?? alice).agentClient;
  events(alice).connect();
  on.actionCompleted(({ output }) => heard.push(output));
  on.actionFailed(({ error }) => heard.push(error));
  on.actionDenied(({ error }) => heard.push(error));
  await until(async () => (await relay.messaging.nodes.list()).filter(({ live }) => live).length === 2, 'alice is connected');
  const ack = await commands(alice).invoke('sum', { of: [1, 2, 3] });
  assert.equal(ack.handlerAgentId, 'agt_acts:bob');
  const done = await ended(alice, ack);
  assert.deepEqual([done.status, done.output, done.callerName], ['completed', { sum: 6 }, 'alice']);

  const failed = await ended(alice, await commands(alice).invoke('sum', { of: 7 }));
  assert.deepEqual([failed.status, failed.error], ['failed', 'no numbers']);
  await assert.rejects(commands(carol).invoke('sum', { of: [1] }), { statusCode: 403, message: /not available to you/ });
  assert.deepEqual(asked, [['alice', [1, 2, 3]], ['alice', 7]], 'what is denied does not reach it');
  await until(() => heard.length === 2, 'alice has heard of both');
  assert.deepEqual(heard, [{ sum: 6 }, 'no numbers']);
  for (const client of [alice, bob]) await events(client).disconnect();
});

test('Actions of a node over NodeProviderClient: asked for, done, failed, sent again after a lost connection', async (t) => {
  const { baseUrl, relay, alice, ask } = await begin(t);
  const made = await ask('POST', '/v1/nodes', relay.workspaceKey, { name: 'builder' });
  const [runs, errors] = [[], []];
  let hold;
  const provider = new NodeProviderClient({
    baseUrl,
    nodeToken: made.token,
    nodeId: made.id,
    nodeName: 'builder',
    provider: { name: 'builds' },
    reconnectBaseDelayMs: 50,
    onError: (error) => errors.push(error.message),
    capabilities: {
      build: async (input, ctx) => {
        runs.push([input.target, ctx.invocationId]);
        if (hold) await hold;
        if (input.target === 'nothing') throw new Error('no such target');
        return { built: input.target };
      },
      'say.hello': {
        queue: true,
        handler: async (_, ctx) => ctx.sendMessage({ to: 'ops', text: 'hello', from: 'bob' }),
      },
    },
  });
  const served = provider.serve();
  atEnd(t, () => provider.stop());
  await provider.whenRegistered();
  const names = (await ask('GET', '/v1/actions', alice.token)).map(({ name, handler_node, is_active }) => [name, handler_node, is_active]);
  assert.deepEqual(names, [['build', 'builder', true], ['say.hello', 'builder', true]]);

  const done = await ended(alice, await commands(alice).invoke('build', { target: 'relay' }));
  assert.deepEqual([done.status, done.output], ['completed', { built: 'relay' }]);
  const failed = await ended(alice, await commands(alice).invoke('build', { target: 'nothing' }));
  assert.deepEqual([failed.status, failed.error], ['failed', 'no such target']);

  await ask('POST', '/v1/nodes/builder/agents', relay.workspaceKey, { agent_name: 'bob' });
  const said = await ended(alice, await commands(alice).invoke('say.hello', {}));
  assert.deepEqual([said.status, said.output?.agentName ?? said.output?.agent_name], ['completed', 'bob']);

  // Its connection is lost while it works: what it was asked comes again, by the same id.
  let release;
  hold = new Promise((resolve) => { release = resolve; });
  const ack = await commands(alice).invoke('build', { target: 'docs' });
  await until(() => runs.length === 3, 'it has begun');
  provider.ws.close();
  await until(() => runs.length === 4, 'it has begun again');
  assert.deepEqual(runs[3], runs[2]);
  release();
  hold = undefined;
  const again = await ended(alice, ack);
  assert.deepEqual([again.status, again.output], ['completed', { built: 'docs' }]);

  await provider.stop();
  await served;
  // It does not wait until relay has heard of that.
  await until(async () => (await ask('GET', '/v1/actions', alice.token)).every(({ name }) => name !== 'build'), 'it is gone');
  await assert.rejects(commands(alice).invoke('build', {}), { statusCode: 404, message: /no action "build"/ });
  assert.deepEqual(errors, []);
});
