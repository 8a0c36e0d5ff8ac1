// What nodes get, looked at by the published strict parser of Agent Relay's frames.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Relay, relayBin, relayEnv, run } from '../clients/support/process.js';
import { Node } from './support/node.js';
import { added, refusedBy } from './support/parser.js';

const ROUNDS = 40;
/** How many frames come at the least, so that the run is a long one. */
const FRAMES_MIN = 1_500;

class Api {
  constructor(relay, key) {
    Object.assign(this, { relay, key, tokens: {} });
  }

  async ask(method, path, token, body) {
    const answer = await fetch(this.relay.url(`v1/${path}`), {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text && JSON.parse(text).data;
  }

  /** As an agent. */
  as(agent, path, body = {}) {
    return this.ask('POST', path, this.tokens[agent], body);
  }

  async agent(name) {
    this.tokens[name] = (await this.ask('POST', 'agents', this.key, { name })).token;
  }
}

async function start(t) {
  const relay = await Relay.start(t);
  const { code, stdout, stderr } = await run(t, relayBin, ['key', '--port', String(relay.port)], { env: relayEnv() });
  assert.equal(code, 0, stderr);
  const api = new Api(relay, stdout.trim());
  for (const name of ['alice', 'bob', 'carol', 'dave']) await api.agent(name);
  const { node_id: id, node_name: name, token } = await api.as('bob', 'agent/node-token');
  const own = new Node(t, relay, { id, name, token });
  const made = await api.ask('POST', 'nodes', api.key, { name: 'fleet', max_agents: 0 });
  const fleet = new Node(t, relay, made);
  for (const agent_name of ['carol', 'dave']) await api.ask('POST', 'nodes/fleet/agents', api.key, { agent_name });
  await own.connect();
  await fleet.connect({ capabilities: [{ name: 'sum', kind: 'action' }, { name: 'spawn:cat' }] });
  for (const agent of ['bob', 'carol', 'dave']) await api.as(agent, 'channels/ops/join');
  return { relay, api, own, fleet };
}

/** What was delivered a second time is marked, and nothing else is. */
function marksAreRight(node, agent) {
  const seen = new Set();
  let again = 0;
  for (const frame of node.deliveries(agent)) {
    const is = seen.has(frame.delivery_id);
    // What went out over a connection that ended may never have come.
    if (is) assert.equal(added(frame).redelivered, true, `${frame.seq} of ${agent} comes again unmarked`);
    seen.add(frame.delivery_id);
    again += is;
  }
  return again;
}

test('The parser refuses what it does not know', () => {
  const frame = { v: 1, type: 'deliver', delivery_id: 'd', agent_id: 'a', agent: 'a', msg_id: 'm', seq: 1, mode: 'wait', payload: {} };
  assert.equal(refusedBy(frame), undefined);
  for (const more of [{ redelivered: true }, { handling: {} }, { seq: -1 }, { mode: 'immediate' }]) {
    assert.ok(refusedBy({ ...frame, ...more }), JSON.stringify(more));
  }
});

test('Every frame that a node gets passes the published strict parser, and what is repeated is marked in it', async (t) => {
  const { api, own, fleet } = await start(t);
  await api.ask('POST', 'actions', api.key, { name: 'double', handler_agent: 'bob', available_to: ['carol'] });
  const soon = new Date(Date.now() + 3_600_000).toISOString();
  const ways = [
    {},
    { mode: 'steer' },
    { mode: 'next-message' },
    { mode: 'on-idle', priority: 'urgent' },
    { priority: 'urgent', deadline: soon },
  ];
  for (let round = 0; round < ROUNDS; round += 1) {
    const how = ways[round % ways.length];
    const text = `round ${round} of @bob`;
    // Nobody but relay says what comes again.
    const data = { ticket: round, relay: { redelivered: true } };
    for (const to of ['bob', 'carol', 'dave', '*', 'bob, carol']) await api.as('alice', 'dm', { to, text, data, ...how });
    const { id } = await api.as('alice', 'channels/ops/messages', { text, data, ...how });
    const reply = await api.as('carol', `messages/${id}/replies`, { text: 'a reply', ...how });
    await api.as('bob', `messages/${id}/reactions`, { emoji: '👍' });
    await api.as('dave', `messages/${reply.id}/read`);
    await api.as('dave', 'actions/sum/invoke', { input: { of: [1, round] } });
    await api.as('carol', 'actions/double/invoke', { input: round });
    await assert.rejects(api.as('dave', 'actions/double/invoke', { input: round }), /action_denied/);
    for (const node of [own, fleet]) {
      await node.ask({ type: 'node.heartbeat', load: 0, active_agents: 1, handlers_live: false });
      node.say({ type: 'node.heartbeat', colour: 'red' });
      node.say({ type: 'delivery.ack', agent: 'nobody', up_to_seq: 1 });
    }
    const asked = await fleet.hears('what is asked of it', ({ type }) => type === 'action.invoke', round + 1);
    const ended = round % 2 ? { output: { sum: round } } : { error: 'it cannot' };
    await fleet.ask({ type: 'action.result', invocation_id: asked.at(-1).invocation_id, ...ended });
    if (round % 4 === 1) {
      // Nothing of this round is acknowledged, and so it comes again.
      await own.disconnect();
      await fleet.disconnect();
      await own.connect();
      await fleet.connect({ capabilities: [{ name: 'sum', kind: 'action' }] });
    }
    if (round % 4 === 2) {
      const { delivery_id } = own.deliveries('bob').at(-1);
      await api.as('bob', `deliveries/${delivery_id}/defer`, { available_at: new Date().toISOString(), reason: 'busy' });
    }
    own.acknowledge('bob');
    for (const agent of ['carol', 'dave']) fleet.acknowledge(agent);
  }
  await own.ask({ type: 'node.deregister' });
  const got = await fleet.ask({ type: 'agent.register', name: 'erin' });
  await fleet.ask({ type: 'inventory.sync', agents: [{ agent_id: got.data.agent_id, name: 'erin' }] });
  await fleet.ask({ type: 'agent.deregister', agent_id: got.data.agent_id });
  const frames = [...own.frames, ...fleet.frames];
  assert.deepEqual([...own.refused, ...fleet.refused], []);
  assert.ok(frames.length >= FRAMES_MIN, `${frames.length} frames`);
  const kinds = frames.map(({ type, payload }) => (type === 'deliver' ? payload.type : type));
  assert.deepEqual([...new Set(kinds)].toSorted(), [
    'action.completed',
    'action.denied',
    'action.failed',
    'action.invoke',
    'action.invoked',
    'context.update',
    'dm.received',
    'error',
    'group_dm.received',
    'message.created',
    'message.reacted',
    'message.read',
    'reply',
    'thread.reply',
  ]);
  for (const [node, agent] of [[own, 'bob'], [fleet, 'carol'], [fleet, 'dave']]) {
    assert.ok(marksAreRight(node, agent) >= ROUNDS / 4, `${agent} got too little again`);
    const [message] = node.deliveries(agent).filter(({ payload }) => payload.type === 'message.created');
    const reason = agent === 'bob' ? { relay: { reason: 'mention' } } : {};
    assert.deepEqual(message.payload.data.metadata, { ticket: 0, ...reason }, 'nobody but relay marks');
    const [direct] = node.deliveries(agent).filter(({ payload }) => payload.type === 'dm.received');
    assert.deepEqual(direct.payload.data.message.metadata, { ticket: 0 }, 'nobody but relay marks');
  }
  const reasons = new Set(frames.filter(({ type }) => type === 'deliver').map((frame) => added(frame).reason));
  for (const reason of ['mention', 'action-result', 'notification']) assert.ok(reasons.has(reason), reason);
  const urgent = own.deliveries('bob').filter((frame) => added(frame).handling?.priority === 'urgent');
  assert.ok(urgent.some((frame) => added(frame).handling.deadline === soon));
  assert.ok(urgent.some((frame) => added(frame).handling.mode === 'on-idle'));
});
