// Observers: Agent Relay's own client for workspaces, and a plain WebSocket with a token of its own.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AgentRelay } from '@agent-relay/sdk';
import { World } from './support/agents.js';

process.env.DO_NOT_TRACK = '1';

async function until(what, holds) {
  const end = Date.now() + 30_000;
  while (!holds() && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(holds(), what);
}

test('The Agent Relay SDK: a dashboard is shown what happens in its workspace, without a part in it', async (t) => {
  const world = await World.start(t, 'agent-relay', { transport: 'http', version: '2025-11-25' });
  const baseUrl = `http://127.0.0.1:${world.relay.port}`;
  const relay = await AgentRelay.createWorkspace({ name: 'web', baseUrl });
  const heard = [];
  let open = false;
  relay.events.on('connected', () => { open = true; });
  relay.events.on('any', (event) => heard.push(event));
  t.after(() => relay.events.disconnect());
  relay.events.connect();
  await until('it is connected', () => open);
  const [alice, bob] = await relay.workspace.register(['alice', 'bob']);
  await bob.channels.join('release');
  const posted = await alice.sendMessage({ to: '#release', text: 'ready, @bob?' });
  const reply = await bob.reply({ messageId: posted.id, text: 'ready' });
  await alice.react({ messageId: reply.id, emoji: ':tada:' });
  await (alice.messaging ?? alice).messages.markRead(reply.id);
  await alice.sendMessage({ to: 'bob', text: 'between us' });
  const elsewhere = await AgentRelay.createWorkspace({ name: 'elsewhere', baseUrl });
  const [eve] = await elsewhere.workspace.register(['eve', 'mallory']);
  await eve.sendMessage({ to: 'mallory', text: 'not for this dashboard' });
  const about = (type) => heard.find((event) => event.type === type);
  await until('all of it', () => about('dmReceived'));
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.ok(!JSON.stringify(heard).includes('not for this dashboard'));
  assert.equal(heard.filter((event) => event.message?.text === 'ready, @bob?').length, 1);
  assert.equal(about('messageCreated').channel.replace('#', ''), 'release');
  for (const text of ['ready', 'between us']) assert.equal(heard.filter((event) => event.message?.text === text).length, 1, text);
  assert.equal(about('messageRead').messageId, reply.id);
  // The client has no name of its own for these.
  const unknown = heard.filter(({ type }) => type === 'unknown').map((event) => JSON.stringify(event));
  for (const type of ['message.reacted', 'delivery.accepted', 'agent.status.active']) {
    assert.ok(unknown.some((event) => event.includes(type)), `${type}: ${unknown}`);
  }
  // It has taken nothing: bob has all of it still.
  const tool = await world.connect('bob', { query: { project: 'web' } });
  const { content } = await tool.call('relay_inbox');
  const text = content.map((block) => block.text).join();
  for (const body of ['ready, @bob?', 'between us']) assert.ok(text.includes(body), text);
});

test('A plain WebSocket with the token of an observer is shown what that allows, and comes back without a gap', async (t) => {
  const world = await World.start(t, 'agent-relay', { transport: 'http', version: '2025-11-25' });
  const base = `127.0.0.1:${world.relay.port}/v1`;
  const ask = async (path, key, body, method = body ? 'POST' : 'GET') => {
    const headers = { 'Content-Type': 'application/json', ...(key && { Authorization: `Bearer ${key}` }) };
    const response = await fetch(`http://${base}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    return response.status === 204 ? null : (await response.json()).data;
  };
  const { api_key: key } = await ask('/workspaces', null, { name: 'web' });
  const { token: alice } = await ask('/agents', key, { name: 'alice' });
  await ask('/agents', key, { name: 'bob' });
  const scopes = ['stream:read', 'messages:read'];
  const observer = await ask('/observer-tokens', key, { name: 'dashboard', scopes, filters: { channel_names: ['ops'] } });
  const events = [];
  let closed = null;
  const open = async (since) => {
    const socket = new WebSocket(`ws://${base}/ws?token=${observer.token}${since ? `&since=${since}` : ''}`);
    socket.onmessage = ({ data }) => events.push(JSON.parse(data));
    socket.onclose = ({ code, reason }) => { closed = { code, reason }; };
    await new Promise((resolve, reject) => { socket.onopen = resolve; socket.onerror = reject; });
    return socket;
  };
  const post = (n) => ask('/channels/ops/messages', alice, { text: `number ${n}` });
  const first = await open();
  await ask('/dm', alice, { to: 'bob', text: 'not shown' });
  await ask('/channels/dev/messages', alice, { text: 'not shown' });
  for (let n = 0; n < 20; n += 1) await post(n);
  await until('the first twenty', () => events.length === 20);
  first.close();
  for (let n = 20; n < 40; n += 1) await post(n);
  const second = await open(events.at(-1).seq);
  for (let n = 40; n < 60; n += 1) await post(n);
  await until('all of them', () => events.length >= 60);
  assert.deepEqual(events.map(({ message }) => message.text), Array.from({ length: 60 }, (_, n) => `number ${n}`));
  assert.ok(events.every(({ seq }, n) => n === 0 || seq > events[n - 1].seq));
  closed = null;
  await ask(`/observer-tokens/${observer.id}`, key, null, 'DELETE');
  await until('its end', () => closed);
  assert.deepEqual(closed, { code: 1008, reason: 'this token was revoked' });
  second.close();
});
