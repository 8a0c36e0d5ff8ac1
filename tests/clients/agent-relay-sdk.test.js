// The SDK of Agent Relay, which is given the address of relay and nothing else.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AgentRelay } from '@agent-relay/sdk';
import { RelayCast } from '@relaycast/sdk';
import { World } from './support/agents.js';
import { UUID_V4 } from './support/thrum.js';

process.env.DO_NOT_TRACK = '1';

/** A relay with a workspace and two agents of it, all made by the SDK. */
async function begin(t, name = 'review-workspace') {
  const world = await World.start(t, 'agent-relay', { transport: 'http', version: '2025-11-25' });
  const baseUrl = `http://127.0.0.1:${world.relay.port}`;
  const relay = await AgentRelay.createWorkspace({ name, baseUrl });
  const [alice, bob] = await relay.workspace.register([{ name: 'alice', type: 'agent' }, 'bob']);
  return { world, baseUrl, relay, alice, bob };
}

/** An MCP client of an agent, which has heard of the start. */
async function reader(world, name, project) {
  const agent = await world.connect(name, { query: { project } });
  await agent.hears();
  return agent;
}

/** What an MCP client reads: bodies and senders. */
async function inbox(agent) {
  const text = await agent.text('relay_inbox');
  return [...text.matchAll(/From (\S+)[^\n]*:\n([^\n]*)/g)].map(([, from, body]) => [from, body]);
}

test('The Agent Relay SDK: a workspace, agents, a direct message, a channel and a reply, read by MCP clients', async (t) => {
  const { world, relay, alice, bob } = await begin(t);
  const { name } = await relay.workspace.info();
  assert.equal(name, 'review-workspace');
  const [reading, other] = [await reader(world, 'bob', name), await reader(world, 'alice', name)];

  const direct = await alice.sendMessage({ to: '@bob', text: 'hi bob' });
  assert.match(direct.messageId ?? direct.id, UUID_V4);
  assert.deepEqual(await inbox(reading), [['alice', 'hi bob']]);

  await alice.channels.create({ name: 'release', topic: 'Release readiness' });
  await bob.channels.join('release');
  const members = await bob.channels.members('release');
  assert.deepEqual(members.map(({ agentName }) => agentName), ['alice', 'bob']);
  const posted = await alice.sendMessage({ to: '#release', text: 'please review', mode: 'steer' });
  assert.deepEqual(await inbox(reading), [['alice', 'please review']]);

  // Its own message, and then one that it got.
  await alice.reply({ messageId: posted.id, text: 'tracking here' });
  assert.deepEqual(await inbox(reading), [['alice', 'tracking here']]);
  await bob.reply({ messageId: posted.id, text: 'done' });
  assert.deepEqual(await inbox(other), [['bob', 'done']]);
  await bob.reply({ messageId: direct.id, text: 'hi alice' });
  assert.deepEqual(await inbox(other), [['bob', 'hi alice']]);

  const channels = await relay.channels.list();
  assert.deepEqual(channels.map((channel) => channel.name), ['general', 'release']);
  assert.equal(channels[1].topic, 'Release readiness');
  await bob.channels.leave('release');
  await alice.sendMessage({ to: '#release', text: 'nobody there' });
  assert.deepEqual(await inbox(reading), []);
});

test('The Agent Relay SDK: an agent of an MCP client is found, adopted and written to, and its token rotates', async (t) => {
  const { world, baseUrl, relay, alice } = await begin(t, 'default');
  const pm = await reader(world, 'pm', 'default');
  assert.ok((await pm.text('relay_who')).includes('alice'));
  const names = (await relay.agents.list()).map(({ name }) => name);
  assert.deepEqual(names, ['alice', 'bob', 'dev-a', 'dev-b', 'pm']);
  await alice.sendMessage({ to: 'pm', text: 'to pm' });
  assert.deepEqual(await inbox(pm), [['alice', 'to pm']]);

  const again = await relay.workspace.register('alice');
  await assert.rejects(alice.sendMessage({ to: 'pm', text: 'from the past' }), { code: 'unauthorized', statusCode: 401 });
  await again.sendMessage({ to: 'pm', text: 'from alice anew' });
  assert.deepEqual(await inbox(pm), [['alice', 'from alice anew']]);
  const back = await relay.workspace.reconnect({ apiToken: again.token });
  assert.equal(back.name ?? back.handle, again.name ?? again.handle);
  await assert.rejects(relay.workspace.register('alice', { strict: true }), { code: 'name_conflict', rawCode: 'agent_already_exists' });

  const second = await AgentRelay.createWorkspace({ name: 'default', baseUrl });
  assert.notEqual(second.workspaceKey, relay.workspaceKey);
  assert.equal((await relay.workspace.info()).name, 'default', 'the first key stays good');
});

test('The Agent Relay SDK: a message that is sent again is there once, and what is not supported says so', async (t) => {
  const { world, alice, bob } = await begin(t);
  const reading = await reader(world, 'bob', 'review-workspace');
  const send = (text) => alice.sendMessage({ to: 'bob', text, idempotencyKey: 'once' });
  const [first, second] = [await send('hi'), await send('hi')];
  assert.equal(first.id, second.id);
  await assert.rejects(send('ho'), { statusCode: 409, rawCode: 'idempotency_conflict' });
  assert.deepEqual(await inbox(reading), [['alice', 'hi']]);
  const several = (alice.messaging ?? alice).messages.groupDirect({ participants: ['bob', 'pm'], text: 'hi' });
  await assert.rejects(several, { statusCode: 501, rawCode: 'not_supported' });
  await assert.rejects(bob.deliveries.ack('del_1'), { statusCode: 404, rawCode: 'delivery_not_found' });
});

test('The Agent Relay SDK: threads, reactions, readers and an inbox, of what tools have sent, too', async (t) => {
  const { world, baseUrl, relay, alice, bob } = await begin(t);
  const { name } = await relay.workspace.info();
  const tool = await reader(world, 'bob', name);
  await bob.channels.join('release');
  const posted = await alice.sendMessage({ to: '#release', text: 'ready, @bob?' });
  const unread = await bob.inbox.get();
  assert.deepEqual(unread.unreadChannels, [{ channelName: 'release', unreadCount: 1 }]);
  assert.deepEqual(unread.mentions.map(({ id, text }) => [id, text]), [[posted.id, 'ready, @bob?']]);
  assert.match(await tool.text('relay_inbox'), /ready, @bob\?/);
  await tool.text('relay_inbox');
  assert.deepEqual((await bob.inbox.get()).unreadChannels, []);
  const { messages } = alice.messaging ?? alice;
  assert.deepEqual((await messages.readers(posted.id)).map(({ agentName }) => agentName), ['bob']);

  const reply = await bob.reply({ messageId: posted.id, text: 'ready' });
  await tool.text('relay_send', { to: '#release', message: 'by a tool', thread: posted.id });
  const thread = await alice.threads.get(posted.id);
  assert.equal(thread.parent.id, posted.id);
  assert.deepEqual(thread.replies.map(({ text, from }) => [text, from?.name]), [['ready', 'bob'], ['by a tool', 'bob']]);

  await alice.react({ messageId: reply.id, emoji: ':tada:' });
  await alice.react({ messageId: reply.id, emoji: ':tada:' });
  const [reaction, ...others] = await messages.reactions(reply.id);
  assert.deepEqual([reaction.emoji, reaction.count, reaction.agents, others], [':tada:', 1, ['alice'], []]);
  assert.deepEqual((await bob.inbox.get()).recentReactions.map(({ emoji, agentName }) => [emoji, agentName]), [[':tada:', 'alice']]);
  await messages.unreact(reply.id, ':tada:');
  assert.deepEqual(await messages.reactions(reply.id), []);

  await messages.markRead(reply.id);
  const got = await messages.get(reply.id);
  assert.equal(got.readByCount, 1);
  assert.deepEqual((await messages.list('release')).map(({ text }) => text), ['ready, @bob?']);
  assert.equal((await messages.readStatus('release')).find(({ agentName }) => agentName === 'bob').lastReadId, posted.id);
  const direct = await bob.sendMessage({ to: 'alice', text: 'between us' });
  const found = (texts) => texts.map(({ text, channelName, agentName }) => [text, channelName, agentName]);
  const byTool = ['by a tool', 'release', 'bob'];
  assert.deepEqual(found(await messages.search('TOOL')), [byTool]);
  assert.deepEqual(found(await messages.search('re', { channel: '#release', from: 'alice' })), [['ready, @bob?', 'release', 'alice']]);
  assert.deepEqual(found(await messages.search('e', { limit: 2 })).map(([text]) => text), ['between us', 'ready']);
  assert.deepEqual(found(await messages.search('e', { before: direct.id, after: posted.id })), [['ready', 'release', 'bob']]);
  const [conversation, ...rest] = await new RelayCast({ apiKey: relay.workspaceKey, baseUrl }).allDmConversations();
  assert.deepEqual([conversation.participants, conversation.messageCount, conversation.lastMessage.text, rest], [['bob', 'alice'], 1, 'between us', []]);
  assert.deepEqual((await alice.inbox.get()).unreadDms.map(({ from, unreadCount }) => [from, unreadCount]), [['bob', 1]]);
  assert.equal((await messages.get(direct.id)).text, 'between us');
});

test('The Agent Relay SDK: what is sent to an agent comes to its listener, across its connections, once and in order', async (t) => {
  const { world, relay, alice, bob } = await begin(t, 'default');
  const pm = await reader(world, 'pm', 'default');
  const heard = [];
  const events = (bob.messaging ?? bob).events;
  events.on('dmReceived', ({ message }) => heard.push([message.from.name, message.text]));
  events.on('messageCreated', ({ message }) => heard.push([message.from?.name, message.text]));
  const until = async (count) => {
    const end = Date.now() + 30_000;
    while (heard.length < count && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  await alice.sendMessage({ to: 'bob', text: 'before' });
  events.connect();
  await until(1);
  assert.deepEqual(heard, [['alice', 'before']]);

  const texts = Array.from({ length: 60 }, (_, n) => `number ${n}`);
  for (const [n, text] of texts.entries()) {
    await alice.sendMessage({ to: 'bob', text });
    if (n % 20 === 10) await events.disconnect();
    if (n % 20 === 15) events.connect();
  }
  await until(61);
  assert.deepEqual(heard.slice(1), texts.map((text) => ['alice', text]));

  assert.match(await pm.text('relay_send', { to: 'bob', message: 'from a tool' }), /^Message sent to bob/);
  await bob.channels.join('ops');
  await alice.sendMessage({ to: '#ops', text: 'to all' });
  await until(63);
  assert.deepEqual(heard.slice(61), [['pm', 'from a tool'], ['alice', 'to all']]);
  await events.disconnect();
  const nodes = await fetch(`http://127.0.0.1:${world.relay.port}/v1/nodes`, { headers: { authorization: `Bearer ${relay.workspaceKey}` } });
  const { data } = await nodes.json();
  assert.deepEqual(data.map(({ name, live }) => [name, live]), [['direct-agt_bob', false]]);
});
