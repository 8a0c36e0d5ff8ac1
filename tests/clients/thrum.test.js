// The tools of Thrum, row by row of its document: what they take, what they answer, what they do, and what they refuse.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataOf } from './support/agents.js';
import { assertBetween } from './support/clients.js';
import { within } from './support/process.js';
import { assertChecked, assertMessages, delivered, EMPTY, everywhere, overStdio, resolved, send, UUID_V4 } from './support/thrum.js';

/** What the address of a message may be beside the name of an agent. */
const OTHERS = 'a message may also go to user, @group, #channel, * or @everyone';
const MARKDOWN = '# Done\n\n- `cargo test` is "green" \\ 😀\r\n- next: *B1*';

const to = (recipient, sent) => ({ ...sent, message: { ...sent.message, to: recipient } });

everywhere('a message reaches the agent that is named, once, and its sender is told so', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const sent = await send(alice, 'bob', MARKDOWN);
  assert.deepEqual(resolved(sent), delivered('name'));
  assert.equal(sent.thread_id, undefined);
  await assertChecked(bob, [sent]);
  assert.deepEqual(await bob.data('check_messages'), EMPTY);
  assert.deepEqual(await alice.data('check_messages'), EMPTY);
});

everywhere('a wait is woken by a message, and takes that one', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const waiting = bob.data('wait_for_message', { timeout: 60 });
  await world.relay.aReadWaits();
  const [first, second] = [await send(alice, 'bob', 'first'), await send(alice, 'bob', 'second')];
  const { message, waited_seconds, ...rest } = await within(waiting, 'the wait', 5_000);
  assert.deepEqual(rest, { status: 'message_received' });
  assertMessages([message], [first]);
  assert.ok(waited_seconds >= 0 && waited_seconds < 10 && Number.isInteger(waited_seconds), `${waited_seconds}`);
  const next = await within(bob.data('wait_for_message', { timeout: 60 }), 'what is there', 5_000);
  assertMessages([next.message], [second]);
  assert.equal(next.waited_seconds, 0);
  assert.deepEqual(await bob.data('check_messages'), EMPTY);
});

everywhere('a wait that nothing wakes says timeout after its time', async (world) => {
  const bob = await world.join('bob');
  const begun = performance.now();
  const timeout = { status: 'timeout', message: null, waited_seconds: 1 };
  assert.deepEqual(await bob.data('wait_for_message', { timeout: 1 }), timeout);
  assert.ok(performance.now() - begun >= 995);
  assert.deepEqual(await bob.data('wait_for_message', { timeout: 0 }), { ...timeout, waited_seconds: 0 });
});

everywhere('a group is made, filled, shown, written to, emptied and deleted', async (world) => {
  const [alice, bob, cleo] = [
    await world.join('alice', 'lead-dev'),
    await world.join('bob', 'implementer'),
    await world.join('cleo', 'implementer'),
  ];
  const before = Date.now();
  assert.deepEqual(await alice.data('create_group', { name: 'backend', description: 'Backend "team"' }), {
    status: 'created',
    name: 'backend',
  });
  const member = { group: 'backend', member_type: 'role', member_value: 'implementer' };
  assert.deepEqual(await alice.data('add_group_member', member), { status: 'added', ...member });
  const own = { group: 'backend', member_type: 'agent', member_value: 'alice' };
  assert.deepEqual(await bob.data('add_group_member', own), { status: 'added', ...own });

  const { created_at, ...group } = await bob.data('get_group', { name: 'backend' });
  assertBetween(created_at, [before, Date.now()]);
  const about = { name: 'backend', description: 'Backend "team"', created_by: 'alice' };
  const members = [
    { type: 'agent', id: 'alice' },
    { type: 'role', id: 'implementer' },
  ];
  assert.deepEqual(group, { ...about, members });
  assert.deepEqual(await cleo.data('get_group', { name: 'backend', expand: true }), {
    ...about,
    created_at,
    members,
    expanded_agents: ['alice', 'bob', 'cleo'],
    expanded_agents_count: 3,
  });
  const { groups } = await cleo.data('list_groups');
  assert.deepEqual(groups.map(({ name }) => name), ['everyone', 'backend']);
  assert.deepEqual(groups[1], { ...about, created_at, member_count: 2 });

  const sent = await send(alice, '@backend', 'to the team');
  assert.deepEqual(resolved(sent), delivered('group'));
  for (const agent of [bob, cleo]) await assertChecked(agent, [to('@backend', sent)]);
  assert.deepEqual(await alice.data('check_messages'), EMPTY, 'the sender gets no copy');

  assert.deepEqual(await alice.data('remove_group_member', own), { status: 'removed', ...own });
  assert.deepEqual((await alice.data('get_group', { name: 'backend' })).members, [{ type: 'role', id: 'implementer' }]);
  assert.deepEqual(await alice.data('delete_group', { name: 'backend' }), { status: 'deleted', name: 'backend' });
  assert.deepEqual((await alice.data('list_groups')).groups.map(({ name }) => name), ['everyone']);
});

everywhere('after kill -9 and a restart the next call works, and the first read says that the rest is gone', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  await send(alice, 'bob', 'never read');
  await world.restart(alice, bob);
  const asked = world.relay.asked;
  for (const agent of [alice, bob]) assertBetween(await agent.hears(), [asked, Date.now()]);
  await assertChecked(bob, [await send(alice, 'bob', 'after the restart')]);
});

// What is sent, and to whom.

overStdio('@name is an agent, or a role, or a group, and agent:role:hash is a role', async (world) => {
  const [alice, bob, cleo] = [
    await world.join('alice', 'planner'),
    await world.join('bob', 'ops'),
    await world.join('cleo', 'ops'),
  ];
  const byName = await send(alice, '@bob', 'by name');
  assert.deepEqual(resolved(byName), delivered('name'));
  await assertChecked(bob, [byName]);
  for (const recipient of ['@ops', 'ops', 'agent:ops:abc123']) {
    const byRole = await send(alice, recipient, recipient);
    const matched = recipient === '@ops' ? ['@ops matched a role; it was sent to all of that role'] : [];
    assert.deepEqual(resolved(byRole), delivered('role', ...matched));
    for (const agent of [bob, cleo]) await assertChecked(agent, [to('@ops', byRole)]);
  }
  const toOthers = await send(bob, '@ops', 'to the other one');
  await assertChecked(cleo, [to('@ops', toOthers)]);
  await assertChecked(bob, []);
});

overStdio('@everyone and broadcast_message reach all others, of the roster too', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const sent = await send(alice, '@everyone', 'to all');
  assert.deepEqual(resolved(sent), delivered('group'));
  const { message_id, ...rest } = await alice.data('broadcast_message', { content: 'to all again' });
  assert.match(message_id, UUID_V4);
  assert.deepEqual(rest, delivered('group'));
  const { messages } = await bob.data('check_messages');
  assert.deepEqual(
    messages.map(({ timestamp, ...message }) => message),
    [to('@everyone', sent).message, { message_id, from: 'alice', content: 'to all again', to: '@everyone' }],
  );
  assert.deepEqual(await alice.data('check_messages'), EMPTY);
  const { stdout } = await world.person('peek', 'pm', '--json');
  assert.deepEqual(JSON.parse(stdout).map(({ body }) => body), ['to all', 'to all again']);
});

overStdio('a channel is joined by writing to it, and its first writer is told that nobody else is there', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const alone = await send(alice, '#builds', 'anybody?');
  const nobodys = 'nobody had made or joined #builds, so nobody got the message; look at how its name is written';
  assert.deepEqual(resolved(alone), { ...delivered('channel', nobodys), status: 'no_recipients' });
  const heard = await send(bob, '#builds', 'me');
  assert.deepEqual(resolved(heard), delivered('channel'));
  await assertChecked(alice, [to('#builds', heard)]);
  await assertChecked(bob, []);
});

overStdio('a name that is a role of others, or a group, means the agent, and the sender is warned', async (world) => {
  const [alice, ops, cleo] = [await world.join('alice'), await world.join('ops', 'lead-dev'), await world.join('cleo', 'ops')];
  const toRole = 'ops is a role of others, too; it was sent to the agent';
  const toGroup = 'ops is a group, too; it was not sent to its members';
  const one = await send(alice, '@ops', 'one');
  assert.deepEqual(resolved(one), delivered('name', toRole));
  await alice.data('create_group', { name: 'ops' });
  const two = await send(alice, 'ops', 'two');
  assert.deepEqual(resolved(two), delivered('name', toRole, toGroup));
  await assertChecked(ops, [one, two]);
  await assertChecked(cleo, []);
  await alice.data('create_group', { name: 'worker' });
  const bob = await world.join('bob', 'worker');
  const three = await send(cleo, '@worker', 'three');
  assert.deepEqual(resolved(three), delivered('role', '@worker matched a role; it was sent to all of that role', 'worker is a group, too; it was not sent to its members'));
  for (const agent of [alice, bob]) await assertChecked(agent, [to('@worker', three)]);
});

overStdio('an answer gets a thread_id, and every answer in the chain has the same', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const asked = await send(alice, 'bob', 'which branch?');
  await assertChecked(bob, [asked]);
  const answer = await send(bob, 'alice', 'main', { reply_to: asked.message.message_id });
  const thread_id = asked.message.message_id;
  assert.equal(answer.thread_id, thread_id);
  const inThread = (sent, reply_to) => ({ ...sent, message: { ...sent.message, thread_id, reply_to } });
  await assertChecked(alice, [inThread(answer, asked.message.message_id)]);
  const thanks = await send(alice, 'bob', 'thanks', { reply_to: answer.message.message_id });
  assert.equal(thanks.thread_id, thread_id);
  await assertChecked(bob, [inThread(thanks, answer.message.message_id)]);
});

overStdio('an answer to what is not remembered is sent all the same, outside of its thread, and says so', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const late = await send(alice, 'bob', 'done', { reply_to: '00000000-0000-4000-8000-000000000000' });
  assert.equal(late.thread_id, undefined);
  const forgotten = 'the message that it answers is not known any more: it does not count as its answer';
  assert.deepEqual(resolved(late), delivered('name', forgotten));
  await assertChecked(bob, [late]);
});

overStdio('metadata arrives as it was given', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const metadata = { priority: 1, tags: ['a "b"', null, { deep: true }], 'é\n': 0.5 };
  const sent = await send(alice, 'bob', 'with data', { metadata });
  const { messages } = await bob.data('check_messages');
  assert.deepEqual(messages.map(({ timestamp, ...message }) => message), [{ ...sent.message, metadata }]);
});

// What is read.

overStdio('check_messages takes the oldest, as many as limit says and 50 else, and counts the rest', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const sent = [];
  for (let i = 0; i < 55; i += 1) sent.push(await send(alice, 'bob', `message ${i}`));
  const two = await bob.data('check_messages', { limit: 2 });
  assert.deepEqual({ status: two.status, remaining: two.remaining }, { status: 'messages', remaining: 53 });
  assertMessages(two.messages, sent.slice(0, 2));
  const fifty = await bob.data('check_messages');
  assert.equal(fifty.remaining, 3);
  assertMessages(fifty.messages, sent.slice(2, 52));
  await assertChecked(bob, sent.slice(52));
});

overStdio('the first reply after a start tells of it, in its data and in a second text, and no first start is told of', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const tell = async (agent, tool, args) => dataOf(await agent.call(tool, args)).startedAt;
  for (const agent of [alice, bob]) assert.equal(await tell(agent, 'list_agents'), undefined);
  await world.restart(alice, bob);
  assertBetween(await tell(bob, 'list_agents'), [world.relay.asked, Date.now()]);
  assertBetween(await tell(alice, 'send_message', { to: 'bob', content: 'early' }), [world.relay.asked, Date.now()]);
  for (const agent of [alice, bob]) assert.equal(await tell(agent, 'check_messages'), undefined);
});

overStdio('a wait of an agent that is to hear of the start lasts, and tells of it at its end', async (world) => {
  const bob = await world.join('bob');
  await world.restart(bob);
  const { data, startedAt } = dataOf(await within(bob.call('wait_for_message', { timeout: 1 }), 'the wait', 5_000));
  assert.deepEqual(data, { status: 'timeout', message: null, waited_seconds: 1 });
  assert.notEqual(startedAt, undefined);
});

overStdio('an agent can write and look while it waits, and is active meanwhile', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const waiting = bob.data('wait_for_message');
  await world.relay.aReadWaits();
  await assertChecked(alice, [await send(bob, 'alice', 'while I wait')]);
  assert.deepEqual(await bob.data('check_messages'), EMPTY);
  const { agents } = await bob.data('list_agents', { include_offline: false });
  assert.ok(agents.some(({ name, status }) => name === 'bob' && status === 'active'));
  const sent = await send(alice, 'bob', 'wake up');
  assertMessages([(await within(waiting, 'the wait', 5_000)).message], [sent]);
});

overStdio('a second wait_for_message is refused, and the first goes on', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const waiting = bob.data('wait_for_message', { timeout: 60 });
  await world.relay.aReadWaits();
  const second = await within(bob.error('wait_for_message', { timeout: 60 }), 'the refusal', 5_000);
  assert.equal(second, 'Error: another wait_for_message is waiting already; only one can at a time');
  const sent = await send(alice, 'bob', 'for the first');
  assertMessages([(await within(waiting, 'the first wait', 5_000)).message], [sent]);
  assert.deepEqual(await bob.data('check_messages'), EMPTY);
});

overStdio('a cancelled wait takes no message with it', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob')];
  const quit = new AbortController();
  const refused = assert.rejects(bob.call('wait_for_message', { timeout: 60 }, { signal: quit.signal }));
  await world.relay.aReadWaits();
  quit.abort();
  await refused;
  await world.relay.noReadWaits();
  const sent = await send(alice, 'bob', 'for whoever reads next');
  await assertChecked(bob, [sent]);
});

// Who there is.

overStdio('list_agents has each agent once, those of the roster who were never there as offline', async (world) => {
  const before = Date.now();
  const bob = await world.join('bob', 'implementer', { module: 'auth' });
  const alice = await world.join('alice', 'planner');
  const { agents, count } = await alice.data('list_agents');
  assert.equal(count, agents.length);
  const never = (name) => ({ name, role: '', module: '', status: 'offline' });
  assert.deepEqual(
    agents.map(({ last_seen_at, ...agent }) => agent),
    [
      { name: 'alice', role: 'planner', module: '', status: 'active' },
      { name: 'bob', role: 'implementer', module: 'auth', status: 'active' },
      never('dev-a'),
      never('dev-b'),
      never('pm'),
    ],
  );
  for (const { last_seen_at } of agents.slice(0, 2)) assertBetween(last_seen_at, [before, Date.now()]);
  const active = await bob.data('list_agents', { include_offline: false });
  assert.deepEqual(active.agents.map(({ name }) => name), ['alice', 'bob']);
  assert.equal(active.count, 2);
});

overStdio('@everyone is a group of all agents that is always there', async (world) => {
  const alice = await world.join('alice');
  const all = ['alice', 'dev-a', 'dev-b', 'pm'];
  const { created_at, ...group } = await alice.data('get_group', { name: 'everyone', expand: true });
  assert.deepEqual(group, {
    name: 'everyone',
    description: 'All agents',
    created_by: 'relay',
    members: all.map((id) => ({ type: 'agent', id })),
    expanded_agents: all,
    expanded_agents_count: 4,
  });
  assertBetween(created_at, [world.relay.asked, Date.now()]);
  const { groups } = await alice.data('list_groups', {});
  assert.deepEqual(groups, [
    { name: 'everyone', description: 'All agents', created_at, created_by: 'relay', member_count: 4 },
  ]);
});

overStdio('a member that is added twice is one, and a group without a description has an empty one', async (world) => {
  const alice = await world.join('alice');
  await alice.data('create_group', { name: 'solo' });
  const member = { group: '@solo', member_type: 'agent', member_value: '@alice' };
  for (let i = 0; i < 2; i += 1) {
    assert.deepEqual(await alice.data('add_group_member', member), {
      status: 'added',
      group: 'solo',
      member_type: 'agent',
      member_value: 'alice',
    });
  }
  const { created_at, ...group } = await alice.data('get_group', { name: '@solo', expand: false });
  assert.deepEqual(group, {
    name: 'solo',
    description: '',
    created_by: 'alice',
    members: [{ type: 'agent', id: 'alice' }],
  });
});

// What a client is shown.

overStdio('the eleven tools take what the document says, and with the instructions that is little', async (world) => {
  const { client } = await world.connect('alice', { role: 'worker' });
  const { tools } = await client.listTools();
  const text = { type: 'string' };
  const shown = Object.fromEntries(
    tools.map(({ name, inputSchema: { properties, required, additionalProperties } }) => {
      assert.equal(additionalProperties, false);
      const taken = Object.entries(properties).map(([key, { description, ...schema }]) => [key, schema]);
      return [name, [Object.fromEntries(taken), required]];
    }),
  );
  const mode = { ...text, enum: ['immediate', 'next-message', 'next-tool-call', 'on-idle', 'manual'] };
  const member = { group: text, member_type: { ...text, enum: ['agent', 'role'] }, member_value: text };
  assert.deepEqual(shown, {
    send_message: [{ to: text, content: text, reply_to: text, metadata: { type: 'object' }, mode }, ['to', 'content']],
    check_messages: [{ limit: { type: 'integer', minimum: 1, maximum: 1000, default: 50 }, after: text }, []],
    wait_for_message: [{ timeout: { type: 'integer', minimum: 0, maximum: 600, default: 300 }, after: text }, []],
    list_agents: [{ include_offline: { type: 'boolean', default: true } }, []],
    create_group: [{ name: text, description: text }, ['name']],
    delete_group: [{ name: text }, ['name']],
    add_group_member: [member, ['group', 'member_type', 'member_value']],
    remove_group_member: [member, ['group', 'member_type', 'member_value']],
    list_groups: [{}, []],
    get_group: [{ name: text, expand: { type: 'boolean', default: false } }, ['name']],
    broadcast_message: [{ content: text, mode }, ['content']],
  });
  // What is in _meta is the client's, and no model's.
  const told = tools.map(({ _meta, ...tool }) => tool);
  assert.ok(Buffer.byteLength(JSON.stringify(told)) <= 4096);
  const instructions = client.getInstructions();
  for (const tool of ['check_messages', 'send_message', 'wait_for_message', 'list_agents']) assert.ok(instructions.includes(tool));
  assert.ok(Buffer.byteLength(instructions) <= 1024);
  assert.deepEqual(Object.keys(client.getServerCapabilities()), ['tools']);
});

// What is refused.

overStdio('what is refused says what was wrong and what would be accepted, and changes nothing', async (world) => {
  const [alice, bob] = [await world.join('alice'), await world.join('bob', 'ops')];
  await alice.data('create_group', { name: 'backend' });
  const sent = await send(alice, 'bob', 'kept');
  const known = 'pm, dev-a, dev-b, alice, bob';
  const another = 'another is known once its own session has begun';
  const register = `${another}; if it is your own name, say your role with: relay register NAME --role ROLE, and begin your session anew`;
  const accepted =
    'accepted: name, @role, @group, agent:role:hash, #channel, * or @everyone, each with project: before it, and *:*; or up to 32 names, @roles and @groups with commas between them';
  const takes = 'send_message takes to, content, reply_to, metadata, mode';
  const group = 'add_group_member takes group, member_type, member_value';
  const isProtected = 'the group "everyone" always has all agents and cannot be changed; accepted: any other group';
  const good = { to: 'bob', content: 'x' };
  const member = { group: 'backend', member_type: 'agent', member_value: 'bob' };
  for (const [tool, given, reason] of [
    ['send_message', { ...good, to: 'carol' }, `unknown agent "carol"; known agents: ${known}; ${another}; ${OTHERS}`],
    ['send_message', { ...good, to: '@carol' }, `unknown agent "@carol"; known agents: ${known}; ${another}; ${OTHERS}`],
    ['send_message', { ...good, to: 'agent:none:1' }, `unknown agent "agent:none:1"; known agents: ${known}; ${another}; ${OTHERS}`],
    ['send_message', { ...good, to: '@' }, `invalid address "@"; ${accepted}`],
    ['send_message', { ...good, to: 'a:b:c:d:e' }, `invalid address "a:b:c:d:e"; ${accepted}`],
    ['send_message', { ...good, to: '@ops', content: 'b'.repeat(1_048_577) }, 'body has 1048577 bytes; accepted: at most 1048576'],
    ['send_message', { ...good, reply_to: 'x' }, 'unknown message "x"; accepted: the id of one that you got, among the latest 50'],
    ['send_message', { content: 'x' }, `missing argument "to"; ${takes}`],
    ['send_message', { to: 'bob' }, `missing argument "content"; ${takes}`],
    ['send_message', { ...good, from: 'bob' }, `unknown argument "from"; ${takes}`],
    ['send_message', { ...good, content: 7 }, '"content" is the number 7; accepted: a string'],
    ['send_message', { ...good, metadata: 'x' }, '"metadata" is the string "x"; accepted: an object'],
    ['broadcast_message', {}, 'missing argument "content"; broadcast_message takes content, mode'],
    ['check_messages', { limit: 0 }, '"limit" is 0; accepted: 1 to 1000'],
    ['check_messages', { limit: 1.5 }, '"limit" is 1.5; accepted: 1 to 1000'],
    ['check_messages', { limit: 'few' }, '"limit" is the string "few"; accepted: a whole number, 1 to 1000'],
    ['wait_for_message', { timeout: 601 }, '"timeout" is 601; accepted: 0 to 600'],
    ['wait_for_message', { timeout: -1 }, '"timeout" is -1; accepted: 0 to 600'],
    ['list_agents', { include_offline: 'no' }, '"include_offline" is the string "no"; accepted: true or false'],
    ['create_group', { name: 'backend' }, 'there is a group "backend" already; choose another name'],
    ['create_group', { name: 'everyone' }, isProtected],
    ['create_group', { name: 'a b' }, 'invalid group name "a b"; a name has 1 to 32 of A-Z, a-z, 0-9, -, _ and ., starts with a letter or a digit, and does not end with a dot'],
    ['create_group', { name: 'long', description: 'd'.repeat(1_025) }, 'description has 1025 bytes; accepted: at most 1024'],
    ['delete_group', { name: 'everyone' }, isProtected],
    ['delete_group', { name: '@everyone' }, isProtected],
    ['delete_group', { name: 'none' }, 'unknown group "none"; known groups: backend'],
    ['get_group', { name: 'none' }, 'unknown group "none"; known groups: backend'],
    ['add_group_member', { ...member, group: 'everyone' }, isProtected],
    ['remove_group_member', { ...member, group: 'everyone' }, isProtected],
    ['add_group_member', { ...member, group: 'none' }, 'unknown group "none"; known groups: backend'],
    ['add_group_member', { ...member, member_value: 'carol' }, `unknown agent "carol"; known agents: ${known}; ${register}`],
    ['add_group_member', { ...member, member_type: 'team' }, 'unknown member_type "team"; known member_types: agent, role'],
    ['add_group_member', { group: 'backend', member_type: 'agent' }, `missing argument "member_value"; ${group}`],
    ['remove_group_member', member, 'agent "bob" is not a member of the group "backend"'],
    ['list_groups', { all: true }, 'unknown argument "all"; list_groups takes '],
  ]) {
    assert.equal(await alice.error(tool, given), `Error: ${reason}`, `${tool} ${JSON.stringify(given).slice(0, 80)}`);
  }
  assert.match(await alice.error('peek_messages', {}), /^Error: unknown tool "peek_messages"; known tools: send_message, /);
  await assertChecked(bob, [sent]);
  assert.deepEqual(await alice.data('check_messages'), EMPTY);
  const { members } = await alice.data('get_group', { name: 'backend' });
  assert.deepEqual(members, []);
});
