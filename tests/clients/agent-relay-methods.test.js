// All methods of Agent Relay's SDK and of the client beneath it, found in their own objects: each works, or is refused by a code that
// docs/API.md has. What each is given, and what comes of it, stands here; a method that does not stand here fails the test.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { AgentRelay } from '@agent-relay/sdk';
import { NodeProviderClient, RelayCast } from '@relaycast/sdk';
import { World } from './support/agents.js';
import { methodsOf } from './support/methods.js';
import { atEnd, within } from './support/process.js';

process.env.DO_NOT_TRACK = '1';

const DOCUMENT = readFileSync(new URL('../../docs/API.md', import.meta.url), 'utf8');

/** The method does what it is there for. */
const WORKS = 'works';
/** The SDK itself refuses it, and asks relay for nothing. */
const SDK = 'refused by the SDK';
const UNSUPPORTED = 'not_supported';

/** What a method is given, as a function of the scene, and what comes of it: with the key of the workspace, and with an agent's token. */
const row = (given, workspace = WORKS, agent = workspace) => ({ given, workspace, agent });
const agents = (given, agent = WORKS) => row(given, SDK, agent);
const none = () => [];
const hear = () => [() => {}];

let made = 0;
/** A name that nothing has yet. */
const fresh = (before = 'n') => `${before}-${(made += 1)}`;

const later = () => new Date(Date.now() + 60_000).toISOString();

const CALLS = {
  'messaging.agents.list': row(() => [{ status: 'online' }]),
  'messaging.agents.get': row(() => ['bob']),
  'messaging.agents.register': row(() => [{ name: fresh() }]),
  'messaging.agents.registerOrRotate': row(() => [{ name: 'carol' }]),
  'messaging.agents.me': agents(none),
  'messaging.agents.update': row(() => ['bob', { persona: 'another' }], UNSUPPORTED),
  'messaging.agents.delete': row(() => ['bob'], UNSUPPORTED),
  'messaging.agents.presence': row(none, UNSUPPORTED),

  'messaging.channels.list': row(() => [{ includeArchived: true }]),
  'messaging.channels.get': row(() => ['general']),
  'messaging.channels.create': agents(() => [{ name: fresh('ch'), topic: 'a topic' }]),
  'messaging.channels.update': agents(() => ['general', { topic: 'another' }], UNSUPPORTED),
  'messaging.channels.archive': agents(() => ['general'], UNSUPPORTED),
  'messaging.channels.join': agents(() => ['release']),
  'messaging.channels.leave': agents(() => ['release']),
  'messaging.channels.invite': agents(() => ['release', 'bob'], UNSUPPORTED),
  'messaging.channels.members': agents(() => ['general']),
  'messaging.channels.mute': agents(() => ['general'], UNSUPPORTED),
  'messaging.channels.unmute': agents(() => ['general'], UNSUPPORTED),

  'messaging.messages.send': agents(() => [{ channel: '#general', text: 'hi', mode: 'wait', idempotencyKey: fresh() }]),
  'messaging.messages.list': row(({ posted }) => ['#general', { limit: 200, before: posted.id, after: posted.id }]),
  'messaging.messages.get': row(({ posted }) => [posted.id]),
  'messaging.messages.reply': agents(({ posted }) => [{ messageId: posted.id, text: 'yes' }]),
  'messaging.messages.direct': agents(() => [{ to: 'bob', text: 'hi' }]),
  'messaging.messages.groupDirect': agents(() => [{ participants: ['bob', 'carol'], text: 'hi' }], UNSUPPORTED),
  'messaging.messages.createGroupDirect': agents(() => [{ participants: ['bob', 'carol'] }], UNSUPPORTED),
  'messaging.messages.listDirect': row(({ conversation, posted }) => [{ conversationId: conversation, limit: 200, before: posted.id, after: posted.id }]),
  'messaging.messages.markRead': agents(({ posted }) => [posted.id]),
  'messaging.messages.readers': agents(({ posted }) => [posted.id]),
  'messaging.messages.readStatus': agents(() => ['general']),
  'messaging.messages.reactions': row(({ posted }) => [posted.id]),
  'messaging.messages.react': agents(({ posted }) => [posted.id, ':tada:']),
  'messaging.messages.unreact': agents(({ posted }) => [posted.id, ':tada:']),
  'messaging.messages.search': agents(({ posted }) => ['hi', { channel: 'general', from: 'bob', limit: 200, before: posted.id, after: posted.id }]),

  'messaging.threads.get': row(({ posted }) => [posted.id, { limit: 200, before: posted.id, after: posted.id }]),
  'messaging.threads.reply': agents(({ posted }) => [{ messageId: posted.id, text: 'yes' }]),

  'messaging.inbox.get': agents(() => [{ limit: 20 }]),
  'messaging.inbox.list': row(() => [{ limit: 200 }]),
  'messaging.inbox.subscribe': row(none),
  'messaging.inbox.ack': agents(({ next }) => [{ inboxItemId: next() }]),
  'messaging.inbox.fail': agents(({ next }) => [{ inboxItemId: next(), error: 'no', retry: true }]),
  'messaging.inbox.defer': agents(({ next }) => [{ inboxItemId: next(), availableAt: later(), reason: 'later' }]),
  'messaging.inbox.markRead': agents(({ next }) => [{ inboxItemId: next() }], SDK),

  'messaging.events.connect': row(none),
  'messaging.events.disconnect': row(none),
  'messaging.events.subscribe': agents(() => [['general']]),
  'messaging.events.unsubscribe': agents(() => [['general']]),
  'messaging.events.on': row(() => ['any', () => {}]),

  'messaging.deliveries.ack': agents(({ next }) => [next()]),
  'messaging.deliveries.fail': agents(({ next }) => [next(), 'no']),
  'messaging.deliveries.defer': agents(({ next }) => [next(), later()]),

  'messaging.integrations.webhooks.create': row(() => [{ name: 'w', channel: 'general' }], UNSUPPORTED),
  'messaging.integrations.webhooks.list': row(none, UNSUPPORTED),
  'messaging.integrations.webhooks.delete': row(() => ['w'], UNSUPPORTED),
  'messaging.integrations.webhooks.trigger': row(() => ['w', { text: 'hi' }], UNSUPPORTED),
  'messaging.integrations.subscriptions.create': row(() => [{ url: 'http://127.0.0.1:9/', events: ['message.created'] }], UNSUPPORTED),
  'messaging.integrations.subscriptions.list': row(none, UNSUPPORTED),
  'messaging.integrations.subscriptions.get': row(() => ['s'], UNSUPPORTED),
  'messaging.integrations.subscriptions.delete': row(() => ['s'], UNSUPPORTED),
  'messaging.webhooks.createInbound': row(() => [{ channel: 'general', name: 'w' }], UNSUPPORTED),
  'messaging.webhooks.subscribe': row(() => [{ url: 'http://127.0.0.1:9/', events: ['message.created'] }], UNSUPPORTED),
  'messaging.webhooks.list': row(none, UNSUPPORTED),
  'messaging.webhooks.delete': row(() => ['w'], UNSUPPORTED),
  'messaging.webhooks.subscriptions': row(none, UNSUPPORTED),
  'messaging.webhooks.unsubscribe': row(() => ['s'], UNSUPPORTED),

  'messaging.commands.register': row(() => [{ command: fresh('act'), description: 'does it', handlerAgent: 'alice' }]),
  'messaging.commands.list': row(none),
  'messaging.commands.delete': row(async ({ action }) => [await action()]),
  'messaging.commands.available': row(none),
  'messaging.commands.agentScoped': row(none),
  'messaging.commands.invoke': agents(() => ['sum', { a: 1 }]),
  'messaging.commands.getInvocation': agents(({ invocation }) => ['sum', invocation]),
  'messaging.commands.completeInvocation': agents(({ invocation }) => ['sum', invocation, { output: { sum: 1 } }]),

  'messaging.nodes.list': row(() => [{ name: 'fleet', capability: 'sum' }]),
  'messaging.nodes.get': row(() => ['fleet']),
  // To find a node it asks for those with the capability; to start a program on one is what relay does otherwise.
  'messaging.placement.spawn': row(() => [{ capability: 'spawn:claude', input: {} }], UNSUPPORTED),

  'messaging.triggers.list': row(none, UNSUPPORTED),
  'messaging.triggers.create': row(() => [{ channel: 'general', pattern: 'go', actionName: 'sum' }], UNSUPPORTED),
  'messaging.triggers.update': row(() => ['t', { channel: 'general', pattern: 'go', actionName: 'sum' }], UNSUPPORTED),
  'messaging.triggers.delete': row(() => ['t'], UNSUPPORTED),

  'messaging.workspace.info': row(none),
  'messaging.workspace.fleetNodes.get': row(none, SDK),
  'messaging.workspace.fleetNodes.set': row(() => [true], SDK),
  'messaging.workspace.fleetNodes.inherit': row(none, SDK),

  'messages.send': agents(() => [{ to: '#general', text: 'hi', mode: 'steer' }]),
  'messages.reply': agents(({ posted }) => [{ messageId: posted.id, text: 'yes' }]),
  'messages.react': agents(({ posted }) => [posted.id, ':eyes:']),
  'messages.dm': agents(() => [{ to: 'bob', text: 'hi' }]),
  'events.message.created': row(none),
  'events.message.read': row(none),
  'events.message.reacted': row(none),
  'workspace.info': row(none),
  // An agent's own client has nothing to make clients with.
  'workspace.register': row(() => ['carol'], WORKS, SDK),
  'workspace.reconnect': row(({ token }) => [{ apiToken: token }], WORKS, SDK),
  registerAction: row(() => [{ name: fresh('act'), handler: () => ({}) }]),
  addListener: row(() => ['message.created', () => {}]),
  once: row(() => ['message.created', () => {}]),
  onError: row(hear),
  action: row(() => ['sum']),
  agent: row(() => [{ name: 'bob' }]),
  emitSessionEvent: row(() => ['bob', { type: 'status.changed', status: 'idle' }]),
  'status.becomes': row(() => ['idle']),
  'tools.called': row(() => ['bash']),
  sendMessage: row(() => [{ to: 'bob', text: 'hi' }]),
  reply: row(({ posted }) => [{ messageId: posted.id, text: 'yes' }]),
  react: row(({ posted }) => [{ messageId: posted.id, emoji: ':wave:' }]),
};

/** The same of RelayCast, the client beneath the SDK, and of what it gives an agent. */
const OF_A_WORKSPACE = {
  'workspace.info': row(none),
  'workspace.reconnect': row(({ token }) => [{ apiToken: token }]),
  'workspace.update': row(() => [{ name: 'another' }], UNSUPPORTED),
  'workspace.delete': row(none, UNSUPPORTED),
  'observerTokens.create': row(() => [{ name: fresh('o'), scopes: ['stream:read'] }]),
  'observerTokens.list': row(none),
  'observerTokens.get': row(async ({ observer }) => [(await observer()).id]),
  'observerTokens.update': row(async ({ observer }) => [(await observer()).id, { description: 'another' }]),
  'observerTokens.rotate': row(async ({ observer }) => [(await observer()).id]),
  'observerTokens.revoke': row(async ({ observer }) => [(await observer()).id]),
  'systemPrompt.get': row(none, UNSUPPORTED),
  'systemPrompt.set': row(() => [{ prompt: 'be kind' }], UNSUPPORTED),
  'channels.list': row(() => [{ includeArchived: true }]),
  'channels.get': row(() => ['general']),
  'messages.list': row(({ posted }) => ['#general', { limit: 200, before: posted.id, after: posted.id }]),
  'messages.get': row(({ posted }) => [posted.id]),
  'messages.thread': row(({ posted }) => [posted.id, { limit: 200, before: posted.id, after: posted.id }]),
  'messages.reactions': row(({ posted }) => [posted.id]),
  'agents.register': row(() => [{ name: fresh() }]),
  'agents.list': row(() => [{ status: 'online' }]),
  'agents.get': row(() => ['bob']),
  'agents.me': row(({ token }) => [token]),
  'agents.rotateToken': row(() => ['carol']),
  'agents.update': row(() => ['bob', { persona: 'another' }], UNSUPPORTED),
  'agents.delete': row(() => ['bob'], UNSUPPORTED),
  'agents.presence': row(none, UNSUPPORTED),
  'agents.registerOrGet': row(() => [{ name: 'carol' }]),
  'agents.registerAgent': row(() => [{ name: 'carol' }]),
  'agents.registerOrRotate': row(() => [{ name: 'carol' }]),
  'agents.resolveIdentity': row(none),
  'agents.spawn': row(() => [{ name: fresh(), cli: 'claude', task: 'go on' }], UNSUPPORTED),
  'agents.release': row(() => [{ name: 'bob' }], UNSUPPORTED),
  'agents.events.emit': row(() => ['bob', { type: 'turn.started', payload: {} }]),
  'agents.events.list': row(() => ['bob', { type: 'turn.started', limit: 200 }]),
  'webhooks.create': row(() => [{ name: 'w', channel: 'general' }], UNSUPPORTED),
  'webhooks.createInbound': row(() => [{ channel: 'general' }], UNSUPPORTED),
  'webhooks.list': row(none, UNSUPPORTED),
  'webhooks.delete': row(() => ['w'], UNSUPPORTED),
  'webhooks.trigger': row(() => ['w', { text: 'hi' }, 'a token'], UNSUPPORTED),
  'subscriptions.create': row(() => [{ url: 'http://127.0.0.1:9/', events: ['message.created'] }], UNSUPPORTED),
  'subscriptions.list': row(none, UNSUPPORTED),
  'subscriptions.get': row(() => ['s'], UNSUPPORTED),
  'subscriptions.delete': row(() => ['s'], UNSUPPORTED),
  'actions.register': row(() => [{ name: fresh('act'), description: 'does it', handlerAgent: 'alice' }]),
  'actions.list': row(none),
  'actions.get': row(() => ['sum']),
  'actions.delete': row(async ({ action }) => [await action()]),
  'nodes.create': row(() => [{ name: fresh('node') }]),
  'nodes.list': row(() => [{ name: 'fleet', capability: 'sum' }]),
  'nodes.get': row(() => ['fleet']),
  'nodes.listAgents': row(() => ['fleet']),
  'nodes.bindAgent': row(() => ['fleet', { agentName: 'bob', priority: 1 }]),
  'nodes.unbindAgent': row(() => ['fleet', 'bob']),
  'triggers.create': row(() => [{ channel: 'general', pattern: 'go', actionName: 'sum' }], UNSUPPORTED),
  'triggers.list': row(none, UNSUPPORTED),
  'triggers.get': row(() => ['t'], UNSUPPORTED),
  'triggers.update': row(() => ['t', { pattern: 'go' }], UNSUPPORTED),
  'triggers.delete': row(() => ['t'], UNSUPPORTED),
  'certify.submit': row(() => [{ agentUrl: 'http://127.0.0.1:9/' }], UNSUPPORTED),
  'certify.get': row(() => ['c'], UNSUPPORTED),
  'certify.badgeUrl': row(() => ['c']),
  'certify.monitor': row(() => [{ agentUrl: 'http://127.0.0.1:9/' }], UNSUPPORTED),
  'console.messages': row(() => [{ limit: 200 }], UNSUPPORTED),
  'console.stats': row(() => [{ days: 1 }], UNSUPPORTED),
  'console.agents': row(() => [{ days: 1, limit: 200 }], UNSUPPORTED),
  'console.costs': row(() => [{ days: 1 }], UNSUPPORTED),
  activity: row(() => [200], UNSUPPORTED),
  allDmConversations: row(none),
  dmMessages: row(({ conversation, posted }) => [conversation, { limit: 200, before: posted.id, after: posted.id }]),
  connect: row(none),
  disconnect: row(none),
  registerAgent: row(() => [{ name: fresh(), strict: true }]),
  registerOrRotate: row(() => [{ name: 'carol' }]),
  resolveIdentity: row(none),
  reconnect: row(({ token }) => [{ apiToken: token }]),
  agent: row(() => [{ name: fresh() }]),
  human: row(() => [{ name: fresh() }]),
  system: row(() => [{ name: fresh() }]),
  registerA2a: row(() => [{ agentUrl: 'http://127.0.0.1:9/' }], UNSUPPORTED),
  listA2aAgents: row(none, UNSUPPORTED),
  removeA2aAgent: row(() => ['a'], UNSUPPORTED),
  getA2aAgentCard: row(() => ['a'], UNSUPPORTED),
  route: row(() => ['to add', { text: 'hi' }], UNSUPPORTED),
  searchDirectory: row(() => [{ q: 'a', limit: 200 }], UNSUPPORTED),
  publishToDirectory: row(() => [{ slug: 'a' }], UNSUPPORTED),
  importSkills: row(() => [{ skills: [] }], UNSUPPORTED),
  searchSkills: row(() => [{ q: 'a', limit: 200 }], UNSUPPORTED),
  routeFeedback: row(() => [{ rating: 1 }], UNSUPPORTED),
  listDirectory: row(() => [{ limit: 200 }], UNSUPPORTED),
  getDirectoryAgent: row(() => ['a'], UNSUPPORTED),
  updateDirectoryAgent: row(() => ['a', { title: 'b' }], UNSUPPORTED),
  deleteDirectoryAgent: row(() => ['a'], UNSUPPORTED),
  listDirectoryRatings: row(() => ['a'], UNSUPPORTED),
  rateDirectoryAgent: row(() => ['a', { rating: 1 }], UNSUPPORTED),
  getRoutingConfig: row(none, UNSUPPORTED),
  updateRoutingConfig: row(() => [{ enabled: true }], UNSUPPORTED),
  as: row(({ token }) => [token]),
};

const OF_AN_AGENT = {
  'client.withApiKey': row(({ token }) => [token]),
  'client.request': row(() => ['GET', '/v1/agent']),
  'client.get': row(() => ['/v1/agent']),
  'client.post': row(() => ['/v1/agents/heartbeat', {}]),
  'client.patch': row(() => ['/v1/agents/bob', {}], UNSUPPORTED),
  'client.put': row(() => ['/v1/workspace/system-prompt', {}], UNSUPPORTED),
  'client.delete': row(() => ['/v1/agents/bob'], UNSUPPORTED),
  'presence.markOnline': row(none),
  'presence.heartbeat': row(none),
  'presence.markOffline': row(none),
  'dms.conversations': row(none),
  'dms.messages': row(({ conversation, posted }) => [conversation, { limit: 200, before: posted.id, after: posted.id }]),
  'dms.createGroup': row(() => [{ participants: ['bob', 'carol'] }], UNSUPPORTED),
  'dms.sendMessage': row(() => ['c', 'hi'], UNSUPPORTED),
  'dms.addParticipant': row(() => ['c', 'bob'], UNSUPPORTED),
  'dms.removeParticipant': row(() => ['c', 'bob'], UNSUPPORTED),
  'channels.create': row(() => [{ name: fresh('ch') }]),
  'channels.list': row(() => [{ includeArchived: true }]),
  'channels.get': row(() => ['general']),
  'channels.join': row(() => ['release']),
  'channels.leave': row(() => ['release']),
  'channels.setTopic': row(() => ['general', 'a topic'], UNSUPPORTED),
  'channels.archive': row(() => ['general'], UNSUPPORTED),
  'channels.invite': row(() => ['general', 'bob'], UNSUPPORTED),
  'channels.members': row(() => ['general']),
  'channels.update': row(() => ['general', { topic: 'another' }], UNSUPPORTED),
  'channels.mute': row(() => ['general'], UNSUPPORTED),
  'channels.unmute': row(() => ['general'], UNSUPPORTED),
  'actions.invoke': row(() => ['sum', { a: 1 }]),
  'actions.completeInvocation': row(({ invocation }) => ['sum', invocation, { output: { sum: 1 }, durationMs: 1 }]),
  'actions.getInvocation': row(({ invocation }) => ['sum', invocation]),
  'files.upload': row(() => [{ filename: 'a', contentType: 'text/plain', sizeBytes: 1 }], UNSUPPORTED),
  'files.complete': row(() => ['f'], UNSUPPORTED),
  'files.get': row(() => ['f'], UNSUPPORTED),
  'files.delete': row(() => ['f'], UNSUPPORTED),
  'files.list': row(() => [{ uploadedBy: 'bob', limit: 200 }], UNSUPPORTED),
  connect: row(none),
  heartbeat: row(none),
  disconnect: row(none),
  subscribe: row(() => [['general']]),
  unsubscribe: row(() => [['general']]),
  me: row(none),
  send: row(() => ['general', 'hi', { mode: 'steer', idempotencyKey: fresh() }]),
  post: row(() => ['general', 'hi']),
  messages: row(({ posted }) => ['general', { limit: 200, before: posted.id, after: posted.id }]),
  message: row(({ posted }) => [posted.id]),
  reply: row(({ posted }) => [posted.id, 'yes']),
  thread: row(({ posted }) => [posted.id, { limit: 200, before: posted.id, after: posted.id }]),
  dm: row(() => ['bob', 'hi', { mode: 'wait' }]),
  react: row(({ posted }) => [posted.id, ':tada:']),
  unreact: row(({ posted }) => [posted.id, ':tada:']),
  reactions: row(({ posted }) => [posted.id]),
  search: row(({ posted }) => ['hi', { channel: 'general', from: 'bob', limit: 200, before: posted.id, after: posted.id }]),
  inbox: row(() => [{ limit: 20 }]),
  markRead: row(({ posted }) => [posted.id]),
  readers: row(({ posted }) => [posted.id]),
  readStatus: row(() => ['general']),
  // relay lists all that no receipt was given for, which counts as shown.
  deliveries: row(() => [{ status: 'queued', limit: 200 }], UNSUPPORTED),
  ackDelivery: row(({ next }) => [next()]),
  failDelivery: row(({ next }) => [next(), { error: 'no', retryable: true }]),
  deferDelivery: row(({ next }) => [next(), { availableAt: later() }]),
};

/** What comes of a call: `WORKS`, `SDK`, or the code by which relay refuses it, which is documented. */
async function outcome(path, call, given, asked) {
  const before = asked();
  try {
    const result = await within(Promise.resolve(call(...given)), `${path} to end`);
    if (result?.[Symbol.asyncIterator]) {
      await within(result.next(), `${path} to begin`);
      await result.return();
    }
    return result?.supported === false ? SDK : WORKS;
  } catch (error) {
    if (error.rawCode === undefined) {
      assert.equal(asked(), before, `${path}: what relay answered was not understood: ${error.stack}`);
      return SDK;
    }
    assert.ok(isDocumented(error), `${path}: ${error.statusCode} ${error.rawCode} is not in docs/API.md: ${error.message}`);
    return error.rawCode;
  }
}

/** Filters that are not taken: of what a refusal tells, and what docs/API.md has of it beside the address. */
const FILTERS = [
  ['nodes by the capacity', '501 for a capacity'],
  ['deliveries by their status', '501 with a `status`'],
];

/** Whether docs/API.md says of what relay refused that it does: in its table of what is not supported, or beside an address. */
function isDocumented({ statusCode, rawCode, message }) {
  if (statusCode !== 501) return DOCUMENT.includes(`${statusCode} \`${rawCode}\``);
  const [what] = message.split(' is not supported by relay: ');
  const isFilter = ([words, document]) => what.includes(words) && DOCUMENT.includes(document);
  return DOCUMENT.includes(`| ${what} |`) || FILTERS.some(isFilter);
}

/** Calls all methods of an object, in the order in which it has them, and compares what comes of each. */
async function walked(packageName, object, calls, whose, scene) {
  const [paths, wrong] = [[], []];
  for (const [path, call] of methodsOf(packageName, object)) {
    // Those that take a handler of an event.
    const known = path.startsWith('on.') ? row(hear) : calls[path];
    assert.ok(known, `${packageName} has a method ${path} of which this test says nothing`);
    const found = await outcome(path, call, await known.given(scene), scene.asked);
    paths.push(path);
    if (found !== known[whose]) wrong.push(`${path}: ${found}, not ${known[whose]}`);
  }
  assert.deepEqual(wrong, []);
  return paths;
}

/** A workspace with agents, of whom alice calls; what she was sent; an action of hers, and an invocation of it. */
async function begin(t) {
  const world = await World.start(t, 'agent-relay', { transport: 'http', version: '2025-11-25' });
  const baseUrl = `http://127.0.0.1:${world.relay.port}`;
  let asked = 0;
  const { fetch } = globalThis;
  globalThis.fetch = (...given) => {
    asked += 1;
    return fetch(...given);
  };
  t.after(() => (globalThis.fetch = fetch));
  const relay = await AgentRelay.createWorkspace({ name: 'walked', baseUrl });
  const [alice, bob, , dave] = await relay.workspace.register(['alice', 'bob', 'carol', 'dave']);
  const cast = new RelayCast({ apiKey: relay.workspaceKey, baseUrl });
  await bob.channels.join('release');
  const posted = await bob.sendMessage({ to: '#general', text: 'hi all' });
  for (let n = 0; n < 20; n += 1) await bob.sendMessage({ to: 'alice', text: `number ${n}` });
  const { items } = await alice.inbox.list();
  const [{ id: conversation }] = await cast.allDmConversations();
  await cast.nodes.create({ name: 'fleet' });
  await cast.actions.register({ name: 'sum', description: 'adds', handlerAgent: 'alice' });
  const { invocationId } = await alice.messaging.commands.invoke('sum', { a: 1 });
  const action = async () => {
    const name = fresh('act');
    await cast.actions.register({ name, description: 'does it', handlerAgent: 'alice' });
    return name;
  };
  const observer = async () => cast.observerTokens.create({ name: fresh('o'), scopes: ['stream:read'] });
  const scene = { posted, conversation, invocation: invocationId, token: dave.token, next: () => items.pop().id, asked: () => asked, action, observer };
  return { world, baseUrl, relay, alice, cast, scene };
}

test('Each method of the Agent Relay SDK works, or is refused by a documented code', async (t) => {
  const { relay, alice, scene } = await begin(t);
  const found = [
    ...(await walked('@agent-relay/sdk', relay, CALLS, 'workspace', scene)),
    ...(await walked('@agent-relay/sdk', alice, CALLS, 'agent', scene)),
  ];
  await alice.messaging.events.disconnect();
  assert.deepEqual(Object.keys(CALLS).filter((path) => !found.includes(path)), [], 'methods that there are not any more');
});

test('Each method of RelayCast works, or is refused by a documented code', async (t) => {
  const { cast, alice, scene } = await begin(t);
  const found = await walked('@relaycast/sdk', cast, OF_A_WORKSPACE, 'workspace', scene);
  assert.deepEqual(Object.keys(OF_A_WORKSPACE).filter((path) => !found.includes(path)), [], 'methods that there are not any more');
  // It hears of events once it is connected.
  const agent = cast.as(alice.token);
  agent.connect();
  const of = await walked('@relaycast/sdk', agent, OF_AN_AGENT, 'agent', scene);
  await agent.disconnect();
  assert.deepEqual(Object.keys(OF_AN_AGENT).filter((path) => !of.includes(path)), [], 'methods that there are not any more');
});

test('The Agent Relay SDK: nodes are found by name and by what they offer, and what is placed on one is asked of it', async (t) => {
  const { baseUrl, relay, alice, cast } = await begin(t);
  const made = await cast.nodes.create({ name: 'builder' });
  const asked = [];
  const provider = new NodeProviderClient({
    ...{ baseUrl, nodeToken: made.token, nodeId: made.id, nodeName: 'builder', provider: { name: 'builds' } },
    capabilities: {
      build: async (input) => {
        asked.push(input);
        return { built: input.target };
      },
    },
  });
  atEnd(t, () => provider.stop());
  provider.serve();
  await provider.whenRegistered();
  const names = async (query) => (await relay.nodes.list(query)).map(({ name, capabilities }) => [name, capabilities.map(({ name, kind }) => [name, kind])]);
  const builder = ['builder', [['build', 'action']]];
  assert.deepEqual(await names({ name: 'builder' }), [builder]);
  assert.deepEqual(await names({ name: 'fleet' }), [['fleet', []]]);
  assert.deepEqual(await names({ name: 'nobody' }), []);
  assert.deepEqual(await names({ capability: 'build' }), [builder]);
  assert.deepEqual(await names({ capability: 'paint' }), []);
  assert.deepEqual((await names()).filter(([name]) => name === 'builder'), [builder]);

  const { placement, commands } = alice.messaging;
  const placed = await placement.spawn({ capability: 'build', input: { target: 'relay' }, ttlMs: 1_000 });
  assert.deepEqual([placed.actionName, placed.placement], ['build', { capability: 'build', node: 'builder', attempts: 1, queued: false }]);
  const ended = async () => (await commands.getInvocation('build', placed.invocationId)).status === 'completed';
  for (const end = Date.now() + 20_000; !(await ended()); ) {
    assert.ok(Date.now() < end, 'it is not done');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.deepEqual(asked, [{ target: 'relay', capability: 'build', node: 'builder', target_node: 'builder', ttl_override_ms: 1_000 }]);
  await assert.rejects(placement.spawn({ capability: 'paint', failFast: true }), { code: 'placement_ttl_expired' });
  await assert.rejects(placement.spawn({ capability: 'build', node: 'fleet' }), { code: 'capability_mismatch' });
  await assert.rejects(placement.spawn({ capability: 'spawn:claude' }), { statusCode: 501, rawCode: 'not_supported' });
});
