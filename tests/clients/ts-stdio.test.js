// The TypeScript SDK over the stdio bridge, which outlives the server.
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { Agent, ROLES, STDIO, TOOLS, assertRead, errorText, readResult } from './support/clients.js';
import { facts } from './support/facts.js';
import { Relay, relayBin, relayEnv, start, within } from './support/process.js';

facts(STDIO);

const down = (relay) => `Relay is not running on 127.0.0.1:${relay.port}. Start it with: ${relayBin} serve --port ${relay.port}`;

test('stdio bridge: started before the server, it answers the handshake and tools/list and says what to start', async (t) => {
  const relay = await Relay.absent(t);
  const agent = await Agent.connect(t, STDIO, relay);
  const listed = await agent.client.listTools();
  assert.deepEqual(listed.tools.map((tool) => tool.name).sort(), TOOLS);
  const instructions = agent.client.getInstructions();
  for (const role of ROLES) assert.equal(errorText(await agent.call('list_pending', { for: role })), down(relay));
  assert.equal(errorText(await agent.call('read_messages', { for: 'pm', wait_seconds: 60 })), down(relay));
  await relay.up();
  const posted = await agent.post('dev-a', 'pm', 'status', 'the server is here');
  const { messages, startedAt } = await agent.read('pm');
  assertRead(messages, [posted]);
  assert.equal(startedAt, undefined);
  assert.deepEqual(await agent.client.listTools(), listed, 'the bridge lists what the server lists');
  const late = await Agent.connect(t, STDIO, relay);
  assert.equal(late.client.getInstructions(), instructions, 'the bridge instructs as the server does');
});

test('stdio bridge: a call while the server is away is an error, and the next one after its return works', async (t) => {
  const relay = await Relay.start(t);
  const agent = await Agent.connect(t, STDIO, relay);
  for (let life = 0; life < 3; life += 1) {
    const posted = await agent.post('dev-a', 'pm', 'status', `life ${life}`);
    assertRead((await agent.read('pm')).messages, [posted]);
    await relay.kill9();
    assert.equal(errorText(await agent.call('post_message', { from: 'pm', to: 'pm', kind: 'free', body: '' })), down(relay));
    assert.equal(errorText(await agent.call('list_pending', { for: 'pm' })), down(relay));
    assert.deepEqual((await agent.client.listTools()).tools.map((tool) => tool.name).sort(), TOOLS);
    await relay.up();
  }
  assert.notEqual((await agent.read('pm')).startedAt, undefined);
});

test('stdio bridge: a wait that the server dies under ends with an error', async (t) => {
  const relay = await Relay.start(t);
  const agent = await Agent.connect(t, STDIO, relay);
  assert.equal((await agent.read('pm')).startedAt, undefined);
  const waiting = agent.call('read_messages', { for: 'pm', wait_seconds: 60 });
  await agent.pending('pm');
  await relay.kill9();
  errorText(await within(waiting, 'the end of the wait', 5_000));
});

test('stdio bridge: it ends by itself with exit code 0 when its input closes, server or no server', async (t) => {
  const relay = await Relay.absent(t);
  for (const there of [false, true]) {
    if (there) await relay.up();
    const bridge = start(relayBin, ['mcp', '--port', String(relay.port)], { env: relayEnv(), stdio: 'pipe' });
    bridge.stdout.resume();
    bridge.stderr.resume();
    bridge.stdin.end();
    assert.deepEqual(await within(bridge.ended, 'the bridge to end', 5_000), { code: 0, signal: null });
  }
});

test('stdio bridge: nothing but JSON-RPC is written to its output', async (t) => {
  const relay = await Relay.start(t);
  const bridge = start(relayBin, ['mcp', '--port', String(relay.port)], { env: relayEnv(), stdio: 'pipe' });
  bridge.stderr.resume();
  const lines = [];
  const answered = new Promise((resolve) => {
    createInterface(bridge.stdout).on('line', (line) => lines.push(line) === 2 && resolve());
  });
  const ask = (id, method, params) => bridge.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
  ask(1, 'initialize', {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'relay-client-tests', version: '1.0.0' },
  });
  bridge.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  ask(2, 'tools/call', { name: 'read_messages', arguments: { for: 'pm' } });
  await within(answered, 'both replies');
  bridge.stdin.end();
  assert.deepEqual(await within(bridge.ended, 'the bridge to end'), { code: 0, signal: null });
  const replies = lines.map((line) => JSON.parse(line)).toSorted((a, b) => a.id - b.id);
  assert.deepEqual(replies.map(({ jsonrpc, id }) => ({ jsonrpc, id })), [{ jsonrpc: '2.0', id: 1 }, { jsonrpc: '2.0', id: 2 }]);
  assert.deepEqual(readResult(replies[1].result).messages, []);
});
