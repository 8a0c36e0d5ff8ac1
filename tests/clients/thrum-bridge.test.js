// Thrum's tools over the bridge: whose they are, who takes another's place, and what happens while relay is away.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { WAYS, World, dataOf } from './support/agents.js';
import { WENT_AWAY, assertSoon, outage } from './support/outage.js';
import { relayBin, run, within } from './support/process.js';
import { until } from './support/terminal.js';
import { assertChecked, assertMessages, delivered, EMPTY, overStdio, resolved, send } from './support/thrum.js';

// Who somebody is.

/** Runs a bridge that must end by itself, since it does not know whose it is. */
const bridge = (world, env = {}, ...args) =>
  run(world.t, relayBin, ['mcp', '--port', String(world.relay.port), '--tools', 'thrum', ...args], {
    cwd: world.project,
    env: { ...world.env, ...env },
  });

test('Thrum: a bridge is who --agent-id, RELAY_AGENT or THRUM_NAME names, and else the only one that there is', async (t) => {
  const world = await World.start(t, 'thrum');
  await world.register('alice', 'planner');
  const names = async (given) => {
    const agent = await world.connect(undefined, given);
    const { data } = dataOf(await agent.call('check_messages'));
    assert.deepEqual(data, EMPTY);
    const active = async () => (await agent.data('list_agents', { include_offline: false })).agents;
    await until(async () => (await active()).length === 1, 'the bridges before to be offline');
    const { agents } = await agent.data('list_agents');
    await agent.client.close();
    return agents.filter(({ role }) => role !== '').map(({ name, role }) => `${name} ${role}`);
  };
  assert.deepEqual(await names({}), ['alice planner']);
  await world.register('bob', 'ops');
  assert.deepEqual(await names({ args: ['--agent-id', 'bob'] }), ['alice planner', 'bob ops']);
  await world.register('cleo', 'reviewer');
  assert.deepEqual(await names({ env: { THRUM_NAME: 'cleo' } }), ['alice planner', 'bob ops', 'cleo reviewer']);
  await world.register('dave', 'ops');
  const four = ['alice planner', 'bob ops', 'cleo reviewer', 'dave ops'];
  assert.deepEqual(await names({ env: { RELAY_AGENT: 'dave', THRUM_NAME: 'alice' } }), four);

  mkdirSync(path.join(world.project, '.thrum', 'identities'), { recursive: true });
  writeFileSync(
    path.join(world.project, '.thrum', 'identities', 'eve.json'),
    JSON.stringify({ version: 1, agent: { name: 'eve', role: 'tester', module: 'all' } }),
  );
  assert.deepEqual(await names({ args: ['--agent', 'eve'] }), [...four, 'eve tester']);
});

test('Thrum: a bridge that cannot know whose it is does not start, and says what to do', async (t) => {
  const world = await World.start(t, 'thrum');
  const none = await bridge(world);
  assert.equal(none.code, 2, none.stderr);
  assert.match(none.stderr, /register/);
  for (const name of ['alice', 'bob']) await world.register(name, 'worker');
  const several = await bridge(world);
  assert.equal(several.code, 2, several.stderr);
  assert.match(several.stderr, /alice.*bob/s);
});

overStdio('an agent that was never registered is unknown, and the error says how to register it', async (world) => {
  const nobody = await world.connect('nobody');
  const text = await nobody.error('check_messages');
  assert.equal(
    text,
    'Error: unknown agent "nobody"; known agents: pm, dev-a, dev-b; another is known once its own session has begun; if it is your own name, say your role with: relay register NAME --role ROLE, and begin your session anew',
  );
});

for (const transport of ['sse', 'http']) {
  test(`Thrum over ${transport}: a session of nobody's is told how to name itself`, async (t) => {
    const world = await World.start(t, 'thrum', WAYS.find((way) => way.transport === transport));
    const nobody = await world.connect(undefined);
    assert.match(await nobody.error('check_messages'), /^Error: this session is nobody's: name its agent where it is opened/);
  });
}

// A bridge that takes another's place.

/** What a bridge finds that took another's place: the start is told again, unless the other's answer is known to have been read. */
const firstCheck = async (agent) => dataOf(await agent.call('check_messages')).data;

overStdio('a later bridge of the same name takes over: the first can do nothing more, and its wait ends', async (world) => {
  const [alice, first] = [await world.join('alice'), await world.join('bob')];
  const waiting = first.error('wait_for_message', { timeout: 60 });
  await world.relay.aReadWaits();
  const second = await world.connect('bob', { role: 'worker' });
  assert.deepEqual(await firstCheck(second), EMPTY);
  const fenced =
    'Error: "bob" was taken over by a session that began later, so this one can neither post nor read for it any more; begin a new session if it is still to be yours';
  assert.equal(await within(waiting, 'the end of the wait', 5_000), fenced);
  const sent = await send(alice, 'bob', 'for the second');
  for (const [tool, given] of [
    ['check_messages', {}],
    ['wait_for_message', { timeout: 60 }],
    ['send_message', { to: 'alice', content: 'x' }],
    ['list_agents', {}],
    ['list_groups', {}],
    ['get_group', { name: 'everyone' }],
    ['create_group', { name: 'mine' }],
    ['broadcast_message', { content: 'x' }],
  ]) {
    assert.equal(await within(first.error(tool, given), tool, 5_000), fenced, tool);
  }
  await assertChecked(second, [sent]);
  assert.deepEqual(await alice.data('check_messages'), EMPTY);
});

overStdio('what the first bridge was given and has not confirmed comes again to the second, marked', async (world) => {
  const [alice, first] = [await world.join('alice'), await world.join('bob')];
  const [read, unconfirmed] = [await send(alice, 'bob', 'confirmed'), await send(alice, 'bob', 'unconfirmed')];
  assertMessages((await first.data('check_messages', { limit: 1 })).messages, [read]);
  await first.data('list_groups');
  assertMessages([(await first.data('wait_for_message')).message], [unconfirmed]);
  const second = await world.connect('bob', { role: 'worker' });
  const again = { ...unconfirmed, message: { ...unconfirmed.message, redelivered: true } };
  const { messages } = await firstCheck(second);
  assertMessages(messages.slice(-1), [again]);
  assert.deepEqual(await second.data('check_messages'), EMPTY);
});

overStdio('a bridge that was fenced stays so across a restart of relay, once the later one was heard', async (world) => {
  const first = await world.join('bob');
  const second = await world.connect('bob', { role: 'worker' });
  assert.deepEqual(await firstCheck(second), EMPTY);
  await world.restart(first, second);
  await second.hears();
  assert.match(await first.error('check_messages'), /^Error: "bob" was taken over by a session that began later/);
});

// When relay goes away.

overStdio('relay is killed while an agent waits: the wait ends with an error, and the bridge goes on', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const waiting = bob.error('wait_for_message', { timeout: 60 });
  await world.relay.aReadWaits();
  const killed = await outage(world.relay);
  assert.equal(await within(waiting, 'the end of the wait'), WENT_AWAY);
  assertSoon(killed);
  await bob.hears();
  await alice.hears();
  const again = bob.data('wait_for_message', { timeout: 60 });
  await world.relay.aReadWaits();
  const sent = await send(alice, 'bob', 'after the restart');
  assertMessages([(await within(again, 'the message', 5_000)).message], [sent]);
});

test('Thrum over stdio: while relay is not running a call says how to start it, and the next one goes through', async (t) => {
  const world = await World.absent(t, 'thrum');
  const alice = await world.connect('alice', { role: 'planner' });
  const { port } = world.relay;
  const down = `Relay is not running on 127.0.0.1:${port}. Start it with: ${relayBin} serve --port ${port}`;
  for (const tool of ['check_messages', 'list_agents', 'list_groups']) assert.equal(await alice.error(tool), down);
  assert.equal(await alice.error('wait_for_message', { timeout: 60 }), down);
  assert.equal((await alice.client.listTools()).tools.length, 11);
  await world.relay.up();
  await alice.hears();
  assert.deepEqual(await alice.data('check_messages'), EMPTY);
});

// Other agents.

overStdio('the person and an agent with the tools of lift are reached, and reach an agent of Thrum', async (world) => {
  const [alice, pm] = [await world.join('alice'), await world.connect('pm', { tools: 'lift' })];
  await pm.hears();
  const toPm = await send(alice, 'pm', 'to lift');
  const [message] = JSON.parse((await pm.call('read_messages', {})).content[0].text);
  const { ts, ...seen } = message;
  assert.deepEqual(seen, { id: toPm.message.message_id, from: 'alice', to: 'pm', kind: 'free', body: 'to lift' });
  const { id } = JSON.parse((await pm.call('post_message', { to: 'alice', kind: 'directive', body: 'to Thrum' })).content[0].text);
  const { code, stdout } = await world.person('send', 'alice', 'from the person', '--json');
  assert.equal(code, 0);
  const { messages } = await alice.data('check_messages');
  assert.deepEqual(messages.map(({ timestamp, ...message }) => message), [
    { message_id: id, from: 'pm', content: 'to Thrum' },
    { message_id: JSON.parse(stdout).id, from: 'user', content: 'from the person' },
  ]);
  assert.deepEqual(resolved(await send(alice, 'user', 'to the person')), delivered('name'));
  const read = await world.person('read', '--json');
  assert.deepEqual(JSON.parse(read.stdout).map(({ from, body }) => [from, body]), [['alice', 'to the person']]);
});
