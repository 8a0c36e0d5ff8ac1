// The tools of Agent Relay, as its document has them: the texts of all results, the prompt, the resources, and the errors.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WAYS, World } from './support/agents.js';
import { assertBetween } from './support/clients.js';
import { WENT_AWAY, assertSoon, outage } from './support/outage.js';
import { relayBin, within } from './support/process.js';

const BODY = 'line one\n\n- "two" \\ 😀';
/** What the SDK says that it is, cut to its first 16 letters. */
const PROGRAM = 'relay-client-tests';
/** What the address of a message may be beside the name of an agent. */
const OTHERS = 'a message may also go to user, @group, #channel, * or @everyone';
const NOTHING = 'No messages in inbox.';
const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}';

/** Shows a fact over one way, or over all of them. */
const over = (ways) => (fact, body) => {
  for (const way of ways) {
    test(`Agent Relay over ${way.name}: ${fact}`, async (t) => body(await World.start(t, 'agent-relay', way)));
  }
};
const everywhere = over(WAYS);
const overStdio = over([WAYS[0]]);

const join = async (world, ...names) => {
  const agents = [];
  for (const name of names) agents.push(await world.join(name, null));
  return agents;
};

/** Sends, and asserts that the sender is told so. */
async function send(agent, to, message, more = {}) {
  assert.equal(await agent.text('relay_send', { to, message, ...more }), `Message sent to ${to}`);
}

/** What an inbox shows, without the ids, each of which must be one and no two the same. */
async function inbox(agent, given) {
  const text = await agent.text('relay_inbox', given);
  const ids = [...text.matchAll(new RegExp(`\\[(${UUID})\\] From`, 'g'))].map(([, id]) => id);
  assert.equal(new Set(ids).size, ids.length);
  return text.replaceAll(new RegExp(`\\[${UUID}\\] From`, 'g'), '[id] From');
}

/** How messages stand in an inbox. */
const shown = (...messages) => `${messages.length} message(s):\n\n${messages.join('\n\n---\n\n')}`;

/** The JSON of a resource. */
async function resource(agent, uri) {
  const { contents } = await agent.client.readResource({ uri });
  const [{ text, ...rest }] = contents;
  assert.deepEqual([contents.length, rest], [1, { uri, mimeType: 'application/json' }]);
  return JSON.parse(text);
}

everywhere('a message reaches the agent that is named, once, and the texts are those of the document', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  await send(alice, 'Bob', BODY);
  assert.equal(await inbox(bob), shown(`[id] From Alice:\n${BODY}`));
  assert.equal(await bob.text('relay_inbox'), NOTHING);
  assert.equal(await alice.text('relay_inbox'), NOTHING);
});

everywhere('who waits for a response gets it alone, and it is not in the inbox afterwards', async (world) => {
  const [alice, worker] = await join(world, 'Alice', 'Worker');
  const asking = alice.text('relay_send', { to: 'Worker', message: 'Process this', await_response: true });
  await world.relay.aReadWaits();
  assert.equal(await inbox(worker), shown('[id] From Alice:\nProcess this'));
  await send(worker, 'Alice', 'Done!');
  assert.equal(await within(asking, 'the response', 5_000), 'Response from Worker: Done!');
  assert.equal(await alice.text('relay_inbox', { unread_only: true }), NOTHING);
});

everywhere('a response that does not come in time is an error that says so, and the message was sent', async (world) => {
  const [alice, worker] = await join(world, 'Alice', 'Worker');
  const begun = performance.now();
  const given = { to: 'Worker', message: 'Process this', await_response: true, timeout_ms: 700 };
  assert.equal(await alice.error('relay_send', given), 'Error: Timeout after 700ms: waiting for response from Worker');
  assert.ok(performance.now() - begun >= 695);
  assert.equal(await inbox(worker), shown('[id] From Alice:\nProcess this'));
  await send(worker, 'Alice', 'too late');
  assert.equal(await inbox(alice), shown('[id] From Worker:\ntoo late'));
});

everywhere('a channel and a broadcast reach all others', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  await send(alice, '#general', 'Team update');
  await send(alice, '*', 'System notice');
  const general = '[id] From Alice [#general]:\nTeam update';
  assert.equal(await inbox(bob), shown(general, '[id] From Alice:\nSystem notice'));
  assert.equal(await alice.text('relay_inbox'), NOTHING, 'the sender gets no copy');
});

everywhere('after kill -9 and a restart the next call works, and the first read says that the rest is gone', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  await send(alice, 'Bob', 'never read');
  await world.restart(alice, bob);
  for (const agent of [alice, bob]) assertBetween(await agent.hears(), [world.relay.asked, Date.now()]);
  await send(alice, 'Bob', 'after the restart');
  assert.equal(await inbox(bob), shown('[id] From Alice:\nafter the restart'));
});

// relay_send

overStdio('a thread is named with each of its messages', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  await send(alice, 'Bob', 'Follow up', { thread: 'task-123' });
  await send(alice, '#general', 'and here', { thread: 'task-123' });
  assert.equal(
    await inbox(bob),
    shown(
      '[id] From Alice (thread: task-123):\nFollow up',
      '[id] From Alice [#general] (thread: task-123):\nand here',
    ),
  );
});

overStdio('a response is the next message of whoever was asked, or any in the thread, and nothing from before', async (world) => {
  const [alice, bob, cleo] = await join(world, 'Alice', 'Bob', 'Cleo');
  await send(bob, 'Alice', 'from before');
  const inThread = alice.text('relay_send', { to: 'Bob', message: '?', thread: 't1', await_response: true });
  await world.relay.aReadWaits();
  await send(cleo, 'Alice', 'something else');
  await send(cleo, 'Alice', 'I know', { thread: 't1' });
  assert.equal(await within(inThread, 'the response', 5_000), 'Response from Cleo: I know');
  const asking = alice.text('relay_send', { to: 'Bob', message: '?', await_response: true });
  await world.relay.aReadWaits();
  await send(cleo, 'Alice', 'not asked');
  await send(bob, 'Alice', 'the response');
  await send(bob, 'Alice', 'one more');
  assert.equal(await within(asking, 'the response', 5_000), 'Response from Bob: the response');
  assert.equal(
    await inbox(alice),
    shown(
      '[id] From Bob:\nfrom before',
      '[id] From Cleo:\nsomething else',
      '[id] From Cleo:\nnot asked',
      '[id] From Bob:\none more',
    ),
  );
});

overStdio('two agents that wait for one another at once both get what they wait for', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  const asking = alice.text('relay_send', { to: 'Bob', message: 'ping?', await_response: true, timeout_ms: 20_000 });
  await world.relay.aReadWaits();
  const answering = bob.text('relay_send', { to: 'Alice', message: 'pong', await_response: true, timeout_ms: 20_000 });
  assert.equal(await within(asking, 'the response', 5_000), 'Response from Bob: pong');
  await send(alice, 'Bob', 'thanks');
  assert.equal(await within(answering, 'the response', 5_000), 'Response from Alice: thanks');
});

overStdio('an agent that waits for a response can send and read meanwhile', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  const asking = alice.text('relay_send', { to: 'Bob', message: 'one', await_response: true });
  await world.relay.aReadWaits();
  await send(alice, 'Bob', 'two');
  assert.equal(await alice.text('relay_inbox'), NOTHING);
  assert.equal(await inbox(bob), shown('[id] From Alice:\none', '[id] From Alice:\ntwo'));
  await send(bob, 'Alice', 'both');
  assert.equal(await within(asking, 'the response', 5_000), 'Response from Bob: both');
});

overStdio('a channel is made and joined by its first use, be it writing or reading', async (world) => {
  const [alice, bob, cleo] = await join(world, 'Alice', 'Bob', 'Cleo');
  const { content } = await alice.call('relay_send', { to: '#builds', message: 'nobody is here yet' });
  const alone = 'note: nobody had made or joined #builds, so nobody got the message; look at how its name is written';
  assert.deepEqual(content.map(({ text }) => text), ['Message sent to #builds', alone]);
  assert.equal(await bob.text('relay_inbox', { channel: '#builds' }), NOTHING);
  await send(alice, '#builds', 'for Bob');
  await send(cleo, '#builds', 'for both');
  const both = '[id] From Cleo [#builds]:\nfor both';
  assert.equal(await inbox(bob, { channel: 'builds' }), shown('[id] From Alice [#builds]:\nfor Bob', both));
  assert.equal(await inbox(alice), shown(both));
  assert.equal(await cleo.text('relay_inbox'), NOTHING);
});

overStdio('a broadcast reaches the roster too, and the person is none of all', async (world) => {
  const [alice] = await join(world, 'Alice');
  const { content } = await alice.call('relay_send', { to: '*', message: 'to all' });
  const [sent, note, ...more] = content.map(({ text }) => text);
  assert.equal(sent, 'Message sent to *');
  assert.match(note, /^note: no agent has read for any of the 3 recipients since relay started at [^;]*; the message waits$/);
  assert.deepEqual(more, []);
  const { stdout } = await world.person('peek', 'pm', '--json');
  assert.deepEqual(JSON.parse(stdout).map(({ from, to, body }) => [from, to, body]), [['Alice', '@everyone', 'to all']]);
  assert.equal((await world.person('peek')).code, 3);
  await send(alice, 'user', 'to the person');
  const read = await world.person('read', '--json');
  assert.deepEqual(JSON.parse(read.stdout).map(({ body }) => body), ['to the person']);
});

// relay_inbox

overStdio('an inbox is read by sender, by channel, and as many as limit says, 10 else', async (world) => {
  const [alice, bob, cleo] = await join(world, 'Alice', 'Bob', 'Cleo');
  await send(alice, 'Cleo', 'a1');
  await send(bob, 'Cleo', 'b1');
  await send(alice, '#general', 'a2');
  await send(bob, '#general', 'b2');
  assert.equal(await inbox(cleo, { from: 'Alice', channel: '#general' }), shown('[id] From Alice [#general]:\na2'));
  assert.equal(await inbox(cleo, { from: '@Alice' }), shown('[id] From Alice:\na1'));
  assert.equal(await inbox(cleo, { channel: '#general' }), shown('[id] From Bob [#general]:\nb2'));
  assert.equal(await inbox(cleo), shown('[id] From Bob:\nb1'));
  for (let i = 0; i < 13; i += 1) await send(alice, 'Cleo', `m${i}`);
  const messages = (from, to) => Array.from({ length: to - from }, (_, i) => `[id] From Alice:\nm${from + i}`);
  assert.equal(await inbox(cleo, { limit: 2 }), shown(...messages(0, 2)));
  assert.equal(await inbox(cleo), shown(...messages(2, 12)));
  assert.equal(await inbox(cleo), shown(...messages(12, 13)));
});

overStdio('with unread_only false what was read before is shown again, before what is new, and stays read', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  await send(alice, 'Bob', 'old');
  await inbox(bob);
  assert.equal(await bob.text('relay_inbox'), NOTHING);
  const [again, next] = ['[id] From Alice (shown before):\nold', '[id] From Alice:\nnew'];
  // What was read counts as read for good two seconds later, or as soon as something else makes it.
  const limit = AbortSignal.timeout(10_000);
  while ((await inbox(bob, { unread_only: false })) !== shown(again)) limit.throwIfAborted();
  await send(alice, 'Bob', 'new');
  assert.equal(await inbox(bob, { unread_only: false }), shown(again, next));
  assert.equal(await bob.text('relay_inbox', { unread_only: true }), NOTHING);
});

overStdio('a message that may have been seen already is marked', async (world) => {
  const [alice, first] = await join(world, 'Alice', 'Bob');
  await send(alice, 'Bob', 'once or, marked, again');
  await inbox(first);
  const [second] = [await world.connect('Bob', {})];
  const marked = '[id] From Alice (redelivered):\nonce or, marked, again';
  const { content } = await second.call('relay_inbox');
  assert.equal(content[0].text.replace(new RegExp(UUID), 'id'), shown(marked));
  assert.equal(
    await first.error('relay_inbox'),
    'Error: "Bob" was taken over by a session that began later, so this one can neither post nor read for it any more; begin a new session if it is still to be yours',
  );
});

// relay_who, relay_status, relay_spawn, relay_release

overStdio('relay_who lists the agents as the document does', async (world) => {
  const [alice] = await join(world, 'Alice');
  await join(world, 'Bob');
  const here = ['Alice', 'Bob'].map((name) => `- ${name} (${PROGRAM}) - active`);
  assert.equal(await alice.text('relay_who'), `2 agent(s) online:\n${here.join('\n')}`);
  assert.equal(await alice.text('relay_who', { include_idle: false }), `2 agent(s) online:\n${here.join('\n')}`);
  assert.equal(await alice.text('relay_who', { project: 'other' }), 'No agents online.');
  assert.equal(await alice.text('relay_who', { project: '*', include_idle: false }), `2 agent(s) online:\n${here.join('\n')}`);
});

test('Agent Relay over http, 2025-11-25: relay_who shows the program that an agent is, and whose worker', async (t) => {
  const world = await World.start(t, 'agent-relay', WAYS.find((way) => way.transport === 'http'));
  const alice = await world.join('Alice', null, { query: { cli: 'claude' } });
  await world.join('TestRunner', null, { query: { cli: 'codex', parent: 'Alice' } });
  assert.equal(
    await alice.text('relay_who', { include_idle: false }),
    '2 agent(s) online:\n- Alice (claude) - active\n- TestRunner (codex) - active [worker of: Alice]',
  );
});

overStdio('relay_status has the lines of the document', async (world) => {
  const [alice] = await join(world, 'Alice');
  const { version } = await world.relay.health();
  const [title, connected, name, project, socket, daemon, uptime, ...more] = (await alice.text('relay_status')).split('\n');
  assert.deepEqual(
    [title, connected, name, project, daemon, more],
    ['Relay Status:', '- Connected: Yes', '- Agent Name: Alice', '- Project: default', `- Daemon Version: ${version}`, []],
  );
  assert.ok(socket.startsWith('- Socket: ') && socket.length > '- Socket: '.length, socket);
  assert.match(uptime, /^- Uptime: \d+s$/);
});

overStdio('relay_spawn and relay_release say that they failed, and why', async (world) => {
  const [alice] = await join(world, 'Alice');
  const worker = { name: 'pm', cli: 'claude', task: 'Run the tests', model: 'x', cwd: '/tmp' };
  const taken = 'pm is an agent that relay has not started; accepted: the name of a worker, or one that nobody has';
  assert.equal(await alice.error('relay_spawn', worker), `Failed to spawn worker: ${taken}`);
  const unknown = 'no worker "TestRunner"; workers that live: none';
  assert.equal(await alice.error('relay_release', { name: 'TestRunner', reason: 'done' }), `Failed to release worker: ${unknown}`);
  assert.equal(
    await alice.error('relay_spawn', { ...worker, cli: 'cursor' }),
    'Error: unknown cli "cursor"; known clis: claude, codex, gemini, droid, opencode',
  );
});

// What a client is shown.

overStdio('the six tools take what the document says, and with the instructions that is little', async (world) => {
  const { client } = await world.connect('Alice');
  const { tools } = await client.listTools();
  const text = { type: 'string' };
  const shapes = Object.fromEntries(
    tools.map(({ name, inputSchema: { properties, required } }) => {
      const taken = Object.entries(properties).map(([key, { description, ...schema }]) => [key, schema]);
      return [name, [Object.fromEntries(taken), required]];
    }),
  );
  const boolean = (value) => ({ type: 'boolean', default: value });
  const clis = ['claude', 'codex', 'gemini', 'droid', 'opencode'];
  assert.deepEqual(shapes, {
    relay_send: [
      {
        to: text,
        message: text,
        thread: text,
        await_response: boolean(false),
        timeout_ms: { type: 'integer', minimum: 1, maximum: 600_000, default: 30_000 },
        mode: { ...text, enum: ['immediate', 'next-message', 'next-tool-call', 'on-idle', 'manual'] },
      },
      ['to', 'message'],
    ],
    relay_spawn: [{ name: text, cli: { ...text, enum: clis }, task: text, model: text, cwd: text }, ['name', 'cli', 'task']],
    relay_release: [{ name: text, reason: text }, ['name']],
    relay_inbox: [
      { limit: { type: 'integer', minimum: 1, maximum: 1000, default: 10 }, unread_only: boolean(true), from: text, channel: text, after: text },
      [],
    ],
    relay_who: [{ include_idle: boolean(true), project: text }, []],
    relay_status: [{}, []],
  });
  // What is in _meta is the client's, and no model's.
  const told = tools.map(({ _meta, ...tool }) => tool);
  assert.ok(Buffer.byteLength(JSON.stringify(told)) <= 4096);
  const instructions = client.getInstructions();
  for (const name of ['relay_send', 'relay_inbox', 'relay_who', 'relay_protocol']) assert.ok(instructions.includes(name));
  assert.ok(Buffer.byteLength(instructions) <= 1024);
  assert.deepEqual(Object.keys(client.getServerCapabilities()).toSorted(), ['prompts', 'resources', 'tools']);
});

const withSdk = over(WAYS.filter(({ version }) => version === '2025-11-25'));

withSdk('the prompt relay_protocol tells how to work together', async (world) => {
  const [{ client }] = await join(world, 'Alice');
  const { prompts } = await client.listPrompts();
  assert.deepEqual(prompts.map(({ name }) => name), ['relay_protocol']);
  const { messages } = await client.getPrompt({ name: 'relay_protocol' });
  assert.deepEqual(messages.map(({ role, content }) => [role, content.type]), [['user', 'text']]);
  const { text } = messages[0].content;
  for (const said of ['relay_send(', 'relay_inbox(', 'relay_who(', 'relay_spawn', 'relay_release', 'ACK', 'DONE', 'await_response=true', '#general']) {
    assert.ok(text.includes(said), said);
  }
  // Each example of the specification, and what it has for those who lead.
  for (const said of ['to="Alice"', 'to="#engineering"', 'to="*"', 'thread="task-123"', 'timeout_ms=60000', 'cli="claude"', 'reason="Tests completed"',
    'relay_inbox(from="Lead")', 'relay_inbox(channel="#urgent")', 'to="frontend:Designer"', 'frontend:lead', 'frontend:*', '*:*', '## When you lead others']) {
    assert.ok(text.includes(said), said);
  }
  assert.ok(Buffer.byteLength(text) <= 9_000);
  await assert.rejects(client.getPrompt({ name: 'other' }), /unknown prompt "other"; known prompts: relay_protocol/);
});

withSdk('the resources show the agents, the inbox and the project, and reading takes nothing', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  const { resources } = await bob.client.listResources();
  assert.deepEqual(
    resources.map(({ uri, name, mimeType }) => [uri, name, mimeType]),
    [
      ['relay://agents', 'Online Agents', 'application/json'],
      ['relay://inbox', 'Message Inbox', 'application/json'],
      ['relay://project', 'Project Info', 'application/json'],
    ],
  );
  const before = Date.now();
  await send(alice, 'Bob', BODY);
  await send(alice, '#general', 'Team update', { thread: 't1' });
  const seen = await resource(bob, 'relay://inbox');
  assert.deepEqual(await resource(bob, 'relay://inbox'), seen);
  assert.deepEqual(
    seen.map(({ id, timestamp, ...message }) => {
      assert.match(id, new RegExp(`^${UUID}$`));
      assertBetween(timestamp, [before, Date.now()]);
      return message;
    }),
    [
      { from: 'Alice', content: BODY },
      { from: 'Alice', content: 'Team update', channel: '#general', thread: 't1' },
    ],
  );
  const text = await bob.text('relay_inbox');
  for (const { id } of seen) assert.ok(text.includes(`[${id}] From Alice`), text);
  assert.deepEqual(await resource(bob, 'relay://inbox'), []);
  const agents = await resource(bob, 'relay://agents');
  const here =
    world.way.transport === 'stdio' ? { cli: PROGRAM, idle: false, cwd: world.project } : { cli: 'unknown', idle: false };
  assert.deepEqual(agents, [
    { name: 'Alice', ...here },
    { name: 'Bob', ...here },
  ]);
  const { project, socketPath, daemonVersion, ...more } = await resource(bob, 'relay://project');
  assert.deepEqual([project, daemonVersion, more], ['default', (await world.relay.health()).version, {}]);
  assert.ok((await bob.text('relay_status')).includes(`\n- Socket: ${socketPath}\n`), socketPath);
  await assert.rejects(bob.client.readResource({ uri: 'relay://other' }), /unknown resource "relay:\/\/other"; known resources: /);
});

const INBOX = 'relay://inbox';
const AGENTS = 'relay://agents';

const pushed = over(WAYS.filter(({ transport, version }) => transport !== 'http' || version === '2026-07-28'));

pushed('who has subscribed to its inbox is told of what comes in and of what is taken, and of nothing else', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  await bob.client.subscribeResource({ uri: INBOX });
  for (const message of ['one', 'two']) {
    await send(alice, 'Bob', message);
    assert.equal(await bob.updates.next(), INBOX);
  }
  assert.equal(await inbox(bob), shown('[id] From Alice:\none', '[id] From Alice:\ntwo'));
  assert.equal(await bob.updates.next(), INBOX);
  await send(bob, 'Alice', 'three');
  await send(alice, 'Alice', 'four');
  await bob.updates.none();
  await alice.updates.none(0);
});

pushed('who has subscribed to the agents is told of one that comes', async (world) => {
  const [alice] = await join(world, 'Alice');
  await alice.client.subscribeResource({ uri: AGENTS });
  await world.join('Bob', null);
  assert.equal(await alice.updates.next(), AGENTS);
});

withSdk('subscriptions are advertised where there is a stream for what they tell of, and refused where there is none', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  const { resources } = bob.client.getServerCapabilities();
  if (world.way.transport === 'http') {
    assert.deepEqual(resources, {});
    await assert.rejects(bob.client.subscribeResource({ uri: INBOX }), /cannot be told of changes; accepted: resources\/subscribe over stdio/);
    return;
  }
  assert.deepEqual(resources, { subscribe: true });
  await assert.rejects(bob.client.subscribeResource({ uri: 'relay://other' }), /unknown resource "relay:\/\/other"; known resources: /);
  await bob.client.subscribeResource({ uri: INBOX });
  await bob.client.unsubscribeResource({ uri: INBOX });
  await send(alice, 'Bob', 'hi');
  await bob.updates.none();
});

overStdio('relay is killed and started anew: subscriptions come back by themselves, and what may have been missed is told', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  await bob.client.subscribeResource({ uri: INBOX });
  for (let round = 0; round < 2; round += 1) {
    await world.restart(alice, bob);
    assert.equal(await bob.updates.next(), INBOX);
    await send(alice, 'Bob', `round ${round}`);
    assert.equal(await bob.updates.next(), INBOX);
    assert.deepEqual((await resource(bob, INBOX)).map(({ content }) => content), [`round ${round}`]);
  }
  await bob.updates.none();
});

// Who somebody is.

test('Agent Relay over stdio: without an identity an agent is mcp- and a number, and is gone 30 s after its session', async (t) => {
  const world = await World.start(t, 'agent-relay');
  const nobody = await world.connect(undefined);
  await nobody.hears();
  const name = `mcp-${nobody.transport.pid}`;
  assert.match(await nobody.text('relay_status'), new RegExp(`\n- Agent Name: ${name}\n`));
  const [alice] = await join(world, 'Alice');
  await send(nobody, 'Alice', 'from nobody');
  assert.equal(await inbox(alice), shown(`[id] From ${name}:\nfrom nobody`));
  await send(alice, name, 'to nobody');
  assert.equal(await inbox(nobody), shown('[id] From Alice:\nto nobody'));
  const isOnline = async () => (await alice.text('relay_who')).includes(name);
  const isKnown = async () => {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(world.relay.url('api/agents'), { method: 'POST', headers, body: '{}' });
    return (await response.json()).agents.some(({ agent }) => agent === name);
  };
  assert.ok(await isOnline());
  const ended = Date.now();
  await nobody.client.close();
  const limit = AbortSignal.timeout(90_000);
  const whileTrue = async (is) => {
    while (await is()) {
      limit.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  };
  await whileTrue(isOnline);
  assert.ok(Date.now() - ended < 20_000, 'it is offline as soon as its process has ended');
  await whileTrue(isKnown);
  assert.ok(Date.now() - ended >= 29_000, `gone after ${Date.now() - ended} ms`);
  const known = 'pm, dev-a, dev-b, Alice';
  const text = await alice.error('relay_send', { to: name, message: 'x' });
  assert.equal(text, `Error: Agent not found: ${name}; known agents: ${known}; ${OTHERS}`);
});

for (const transport of ['sse', 'http']) {
  const way = WAYS.find((way) => way.transport === transport);
  test(`Agent Relay over ${transport}: a session of nobody's is given a name when it first needs one, and keeps it`, async (t) => {
    const world = await World.start(t, 'agent-relay', way);
    const [nobody, other] = [await world.connect(undefined), await world.connect(undefined)];
    const nameOf = async (agent) => (await agent.text('relay_status')).match(/\n- Agent Name: (.*)\n/)[1];
    assert.equal(await nameOf(nobody), 'Not registered');
    assert.ok(!(await nobody.text('relay_who')).includes('mcp-'), 'who only looks is nobody');
    await other.hears();
    await nobody.hears();
    const names = [await nameOf(other), await nameOf(nobody)];
    for (const name of names) assert.match(name, /^mcp-[0-9]{8}$/);
    assert.notEqual(...names);
    const [alice] = await join(world, 'Alice');
    await send(nobody, 'Alice', 'from nobody');
    assert.equal(await inbox(alice), shown(`[id] From ${names[1]}:\nfrom nobody`));
    // A client's connections that rest are closed.
    if (transport === 'http') await new Promise((resolve) => setTimeout(resolve, 6_000));
    await send(alice, names[1], 'to nobody');
    assert.equal(await inbox(nobody), shown('[id] From Alice:\nto nobody'));
    assert.equal(await other.text('relay_inbox'), NOTHING);
    assert.equal(await nameOf(nobody), names[1]);
  });

  test(`Agent Relay over ${transport}: a session of nobody's with lift's tools beside is told how to name itself`, async (t) => {
    const world = await World.start(t, 'lift,agent-relay', way);
    const nobody = await world.connect(undefined);
    const text = await nobody.error('relay_inbox');
    assert.match(text, /^Error: this session is nobody's: name its agent where it is opened, by --agent NAME or \?agent=NAME/);
    assert.match(await nobody.text('relay_status'), /\n- Agent Name: Not registered\n/);
  });
}

// Errors.

overStdio('what is refused says what was wrong and what would be accepted, and changes nothing', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  await send(alice, 'Bob', 'kept');
  const known = 'pm, dev-a, dev-b, Alice, Bob';
  const takes = 'relay_send takes to, message, thread, await_response, timeout_ms, mode';
  const good = { to: 'Bob', message: 'x' };
  for (const [tool, given, reason] of [
    ['relay_send', { ...good, to: 'Carol' }, `Agent not found: Carol; known agents: ${known}; ${OTHERS}`],
    ['relay_send', { ...good, to: 'bob' }, `Agent not found: bob; known agents: ${known}; ${OTHERS}`],
    ['relay_send', { ...good, to: 'Carol', await_response: true }, `Agent not found: Carol; known agents: ${known}; ${OTHERS}`],
    ['relay_send', { ...good, to: 'other:Carol' }, /^Agent not found: other:Carol; there is no project "other"; known projects: default$/],
    ['relay_send', { ...good, to: '#' }, /^invalid address "#"; accepted: name, /],
    ['relay_send', { ...good, thread: '' }, 'thread is ""; accepted: one line of 1 to 128 bytes'],
    ['relay_send', { ...good, timeout_ms: 0 }, '"timeout_ms" is 0; accepted: 1 to 600000'],
    ['relay_send', { ...good, timeout_ms: 600_001, await_response: true }, '"timeout_ms" is 600001; accepted: 1 to 600000'],
    ['relay_send', { ...good, await_response: 'yes' }, '"await_response" is the string "yes"; accepted: true or false'],
    ['relay_send', { to: 'Bob' }, `missing argument "message"; ${takes}`],
    ['relay_send', { ...good, kind: 'status' }, `unknown argument "kind"; ${takes}`],
    ['relay_inbox', { channel: '#none' }, 'Channel not found: #none; known channels: #general'],
    ['relay_inbox', { from: 'Carol' }, `Agent not found: Carol; known agents: ${known}`],
    ['relay_inbox', { limit: 0 }, '"limit" is 0; accepted: 1 to 1000'],
    ['relay_spawn', { name: 'x', cli: 'claude' }, 'missing argument "task"; relay_spawn takes name, cli, task, model, cwd'],
    ['relay_release', {}, 'missing argument "name"; relay_release takes name, reason'],
    ['relay_peek', {}, /^unknown tool "relay_peek"; known tools: relay_send, relay_spawn, /],
  ]) {
    const text = await alice.error(tool, given);
    assert.ok(text.startsWith('Error: '), text);
    if (reason instanceof RegExp) assert.match(text.slice('Error: '.length), reason);
    else assert.equal(text, `Error: ${reason}`);
  }
  assert.equal(await inbox(bob), shown('[id] From Alice:\nkept'));
  assert.equal(await alice.text('relay_inbox'), NOTHING);
});

test('Agent Relay over stdio: while relay is not running a call says how to start it, and the next one goes through', async (t) => {
  const world = await World.absent(t, 'agent-relay');
  const alice = await world.connect('Alice');
  const down = `Error: Relay daemon is not running. Start with: ${relayBin} serve --port ${world.relay.port}`;
  for (const tool of ['relay_inbox', 'relay_who']) assert.equal(await alice.error(tool), down);
  const { content, isError } = await alice.client.callTool({ name: 'relay_status', arguments: {} });
  assert.ok(!isError);
  const place = `127.0.0.1:${world.relay.port}`;
  const status = `Relay Status:\n- Connected: No\n- Agent Name: Alice\n- Project: default\n- Socket: ${place}\n- Daemon Version: Unknown\n- Uptime: N/A`;
  assert.deepEqual(content.map(({ text }) => text), [status, down.slice('Error: '.length)]);
  assert.equal(await alice.error('relay_send', { to: 'Bob', message: 'x', await_response: true }), down);
  await assert.rejects(alice.client.readResource({ uri: 'relay://inbox' }), (error) => error.message.includes(down.slice('Error: '.length)));
  const { prompts } = await alice.client.listPrompts();
  assert.deepEqual(prompts.map(({ name }) => name), ['relay_protocol']);
  assert.equal((await alice.client.listTools()).tools.length, 6);
  await world.relay.up();
  await alice.hears();
});

overStdio('relay is killed while an agent waits for a response: the wait ends with an error, and the bridge goes on', async (world) => {
  const [alice, bob] = await join(world, 'Alice', 'Bob');
  const asking = alice.error('relay_send', { to: 'Bob', message: '?', await_response: true });
  await world.relay.aReadWaits();
  const killed = await outage(world.relay);
  const text = await within(asking, 'the end of the wait');
  assert.equal(text, WENT_AWAY.replace('Error: ', 'Error: Connection error: '));
  assertSoon(killed);
  await bob.hears();
  const again = alice.text('relay_send', { to: 'Bob', message: 'again?', await_response: true });
  await world.relay.aReadWaits();
  await send(bob, 'Alice', 'yes');
  assert.equal(await within(again, 'the response', 5_000), 'Response from Bob: yes');
});

// Other tools.

test('An agent of each toolset reaches the other two, over the bridge', async (t) => {
  const world = await World.start(t, 'agent-relay');
  const [alice] = await join(world, 'Alice');
  const bob = await world.join('bob', 'reviewer', { tools: 'thrum' });
  const pm = await world.connect('pm', { tools: 'lift' });
  await pm.hears();
  const post = (to, body) => pm.call('post_message', { to, kind: 'status', body });
  const read = async () => {
    const { content } = await pm.call('read_messages', {});
    return JSON.parse(content[0].text).map(({ from, to, kind, body }) => [from, to, kind, body]);
  };
  const check = async () => (await bob.data('check_messages')).messages.map(({ from, content, to }) => [from, content, to]);

  await bob.data('send_message', { to: 'Alice', content: 'Thrum to Agent Relay' });
  await bob.data('send_message', { to: 'pm', content: 'Thrum to lift' });
  await send(alice, '@reviewer', 'Agent Relay to Thrum');
  await send(alice, 'pm', 'Agent Relay to lift', { thread: 't1' });
  await post('Alice', 'lift to Agent Relay');
  await post('@reviewer', 'lift to Thrum');

  assert.equal(await inbox(alice), shown('[id] From bob:\nThrum to Agent Relay', '[id] From pm:\nlift to Agent Relay'));
  assert.deepEqual(await check(), [
    ['Alice', 'Agent Relay to Thrum', '@reviewer'],
    ['pm', 'lift to Thrum', '@reviewer'],
  ]);
  assert.deepEqual(await read(), [
    ['bob', 'pm', 'free', 'Thrum to lift'],
    ['Alice', 'pm', 'free', 'Agent Relay to lift'],
  ]);

  const asking = alice.text('relay_send', { to: 'bob', message: 'ready?', await_response: true });
  await world.relay.aReadWaits();
  const { messages } = await bob.data('check_messages');
  await bob.data('send_message', { to: 'Alice', content: 'ready', reply_to: messages[0].message_id });
  assert.equal(await within(asking, 'the response', 5_000), 'Response from bob: ready');
});

test('A bridge with all toolsets has all tools, and they share one inbox', async (t) => {
  const world = await World.start(t, 'all');
  const bob = await world.connect('bob', { role: 'worker' });
  assert.equal((await bob.client.listTools()).tools.length, 20);
  const { content } = await bob.call('read_messages', {});
  assert.equal(content.length, 1);
  await bob.data('send_message', { to: 'bob', content: 'to myself' });
  assert.equal(await inbox(bob), shown('[id] From bob:\nto myself'));
  assert.deepEqual(await bob.data('check_messages'), { status: 'empty', messages: [], remaining: 0 });
});
