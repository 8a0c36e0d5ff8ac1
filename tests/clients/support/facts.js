// The facts that hold on every transport. Each test has a relay of its own.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Agent,
  KINDS,
  NOTHING,
  ROLES,
  SSE,
  TOOLS,
  assertBetween,
  assertRead,
  errorText,
  postedId,
  readResult,
  restartUnder,
  soleJson,
} from './clients.js';
import { Relay, within } from './process.js';

const MEBIBYTE = 1_048_576;

/** Shows that a role has nothing to hear, of a first start either, so that its next read waits. */
async function hears(agent, role) {
  assert.deepEqual(await agent.read(role), { messages: [], startedAt: undefined });
}

export function facts(kind) {
  const on = (fact, body) =>
    test(`${kind.name}: ${fact}`, async (t) => {
      const relay = await Relay.start(t);
      await body({ t, relay, connect: (agent) => Agent.connect(t, kind, relay, agent) });
    });

  on('tools/list is the three tools with their roles and kinds, in at most 2048 bytes', async ({ connect }) => {
    const { client } = await connect();
    const list = await client.listTools();
    const tools = Object.fromEntries(list.tools.map((tool) => [tool.name, tool.inputSchema]));
    assert.deepEqual(Object.keys(tools).sort(), TOOLS);
    assert.equal(list.nextCursor, undefined);
    assert.deepEqual(Object.keys(tools.post_message.properties).sort(), ['body', 'from', 'kind', 'mode', 'to']);
    assert.deepEqual(Object.keys(tools.read_messages.properties).sort(), ['after', 'for', 'wait_seconds']);
    assert.deepEqual(Object.keys(tools.list_pending.properties), ['for']);
    assert.deepEqual(tools.post_message.properties.from.enum, ROLES);
    // Other agents, groups and channels may be written to as well, so the roles are only named.
    assert.equal(tools.post_message.properties.to.enum, undefined);
    assert.ok(tools.post_message.properties.to.description.endsWith(`: ${ROLES.join(', ')}`));
    assert.deepEqual(tools.post_message.properties.kind.enum, KINDS);
    assert.deepEqual(tools.post_message.properties.mode.enum, ['immediate', 'next-message', 'next-tool-call', 'on-idle', 'manual']);
    assert.deepEqual(tools.read_messages.properties.for.enum, ROLES);
    assert.deepEqual(tools.list_pending.properties.for.enum, ROLES);
    const bytes = Buffer.byteLength(JSON.stringify(list));
    assert.ok(bytes <= 2048, `tools/list is ${bytes} bytes`);
  });

  on('the instructions name every tool in at most 1024 bytes, and only tools are advertised', async ({ connect }) => {
    const { client } = await connect();
    const instructions = client.getInstructions() ?? '';
    for (const tool of TOOLS) assert.ok(instructions.includes(tool), `${tool} is not in: ${instructions}`);
    const bytes = Buffer.byteLength(instructions);
    assert.ok(bytes <= 1024, `the instructions are ${bytes} bytes`);
    assert.deepEqual(Object.keys(client.getServerCapabilities()), ['tools']);
    assert.equal(client.getServerVersion().name, 'relay');
  });

  on('messages of two senders are counted, read in the order of acceptance, and read once', async ({ connect }) => {
    const [first, second, reader] = [await connect(), await connect(), await connect()];
    const posted = [
      await first.post('dev-a', 'pm', 'status', 'one'),
      await second.post('dev-b', 'pm', 'question', ''),
      await first.post('dev-a', 'pm', 'free', 'line\r\nbreaks \u2028 and \u0000, "quotes", \\ and 😀'),
      await second.post('dev-b', 'pm', 'directive', '{"jsonrpc":"2.0"}\n\ndata: not an event\n\n'),
    ];
    const [elsewhere] = [await first.post('dev-a', 'dev-b', 'free', 'for another inbox')];
    const counted = { count: 4, kinds: ['status', 'question', 'free', 'directive'] };
    assert.deepEqual(await reader.pending('pm'), counted);
    assert.deepEqual(await first.pending('pm'), counted);
    assertRead((await reader.read('pm')).messages, posted);
    assert.deepEqual(await reader.pending('pm'), NOTHING);
    assert.deepEqual((await reader.read('pm')).messages, []);
    assert.deepEqual((await first.read('pm')).messages, []);
    assertRead((await second.read('dev-b')).messages, [elsewhere]);
  });

  on('thirty posts at once are all answered and read in the order in which each was posted', async ({ connect }) => {
    const senders = [await connect(), await connect(), await connect()];
    const posted = (
      await Promise.all(
        senders.map(async (sender, s) => {
          const mine = [];
          for (let i = 0; i < 10; i += 1) mine.push(await sender.post(ROLES[s], 'pm', 'status', `${s} ${i}`));
          return mine;
        }),
      )
    ).flat();
    const { messages } = await senders[0].read('pm');
    assert.equal(messages.length, 30);
    // Across senders the order is the server's to choose, so each sender's own order and the timestamps are compared.
    assertRead(
      messages.toSorted((a, b) => a.from.localeCompare(b.from)),
      posted.toSorted((a, b) => a.from.localeCompare(b.from)),
    );
    assert.deepEqual(messages.map((message) => message.ts), messages.map((message) => message.ts).toSorted());
  });

  on('the very first start is told to nobody, who cannot have lost anything', async ({ connect }) => {
    const [one, other] = [await connect(), await connect()];
    for (const role of ROLES) {
      assert.deepEqual((await one.read(role)).messages, []);
      assert.equal((await one.read(role)).startedAt, undefined);
      assert.equal((await other.read(role)).startedAt, undefined);
    }
  });

  on('what is refused names the offending value and changes nothing', async ({ connect }) => {
    const agent = await connect();
    const good = { from: 'dev-a', to: 'pm', kind: 'status', body: 'x' };
    const without = (name) => Object.fromEntries(Object.entries(good).filter(([key]) => key !== name));
    const refused = [
      ['post_message', { ...good, to: 'dev-c' }, 'unknown role "dev-c"'],
      ['post_message', { ...good, from: 'dev-c' }, 'unknown role "dev-c"'],
      ['post_message', { ...good, to: 'PM' }, 'unknown role "PM"'],
      ['post_message', { ...good, to: '' }, 'unknown role ""'],
      ['read_messages', { for: 'nobody' }, 'unknown role "nobody"'],
      ['list_pending', { for: 'nobody' }, 'unknown role "nobody"'],
      ['post_message', { ...good, kind: 'shout' }, 'unknown kind "shout"'],
      ['post_message', without('from'), 'from'],
      ['post_message', without('to'), 'to'],
      ['post_message', without('kind'), 'kind'],
      ['post_message', without('body'), 'body'],
      ['post_message', undefined, 'Error'],
      ['read_messages', {}, 'for'],
      ['list_pending', {}, 'for'],
      ['post_message', { ...good, subject: 'x' }, 'subject'],
      ['read_messages', { for: 'pm', limit: 3 }, 'limit'],
      ['list_pending', { for: 'pm', wait_seconds: 1 }, 'wait_seconds'],
      ['post_message', { ...good, body: 7 }, 'body'],
      ['post_message', { ...good, body: null }, 'body'],
      ['post_message', { ...good, kind: ['status'] }, 'kind'],
      ['post_message', { ...good, to: { role: 'pm' } }, 'to'],
      ['read_messages', { for: 7 }, 'for'],
      ['read_messages', { for: 'pm', wait_seconds: 'soon' }, 'wait_seconds'],
      ['read_messages', { for: 'pm', wait_seconds: -1 }, 'wait_seconds'],
      ['read_messages', { for: 'pm', wait_seconds: 281 }, 'wait_seconds'],
      ['drop_messages', { for: 'pm' }, 'unknown tool "drop_messages"'],
      ['post_message', { ...good, body: 'b'.repeat(MEBIBYTE + 1) }, 'body'],
    ];
    const posted = [
      await agent.post('dev-a', 'pm', 'status', 'kept'),
      await agent.post('dev-b', 'pm', 'question', 'kept too'),
    ];
    for (const [tool, args, named] of refused) {
      const text = errorText(await agent.call(tool, args));
      assert.ok(text.startsWith('Error: ') || named === 'Error', text);
      assert.ok(text.includes(named), `${named} is not in: ${text}`);
      assert.ok(Buffer.byteLength(text) <= 1024, 'an error is short');
      assert.deepEqual(await agent.pending('pm'), { count: 2, kinds: ['status', 'question'] });
      assert.deepEqual(await agent.pending('dev-a'), NOTHING);
      assert.deepEqual(await agent.pending('dev-b'), NOTHING);
    }
    const { messages, startedAt } = await agent.read('pm');
    assertRead(messages, posted);
    assert.equal(startedAt, undefined, 'nobody had a session before the first start');
  });

  on('a refused role is told which roles there are', async ({ connect }) => {
    const agent = await connect();
    const text = errorText(await agent.call('list_pending', { for: 'dev-c' }));
    for (const role of ROLES) assert.ok(text.includes(role), text);
    const kindText = errorText(
      await agent.call('post_message', { from: 'pm', to: 'pm', kind: 'x', body: '' }),
    );
    for (const known of KINDS) assert.ok(kindText.includes(known), kindText);
  });

  on('a body of exactly 1 MiB arrives whole', async ({ connect }) => {
    const agent = await connect();
    const body = 'é"\n'.repeat(MEBIBYTE / 4);
    const posted = await agent.post('pm', 'dev-a', 'directive', body);
    assertRead((await agent.read('dev-a')).messages, [posted]);
  });

  on("a waiting read is woken by another client's post", async ({ connect }) => {
    const [reader, poster] = [await connect(), await connect()];
    await hears(reader, 'dev-a');
    const order = [];
    const waiting = reader.read('dev-a', { wait_seconds: 60 }).finally(() => order.push('read'));
    assert.deepEqual(await reader.pending('dev-a'), NOTHING);
    order.push('post');
    const posted = await poster.post('pm', 'dev-a', 'directive', 'wake up');
    const { messages } = await within(waiting, 'the waiting read', 5_000);
    assertRead(messages, [posted]);
    assert.deepEqual(order, ['post', 'read']);
    assert.deepEqual((await reader.read('dev-a')).messages, []);
  });

  on('a waiting read does not wait when something is there', async ({ connect }) => {
    const agent = await connect();
    const posted = await agent.post('pm', 'dev-b', 'free', 'already here');
    assertRead((await within(agent.read('dev-b', { wait_seconds: 60 }), 'the read', 5_000)).messages, [posted]);
  });

  on('a waiting read whose role is yet to hear of the start is answered at once', async ({ relay, connect }) => {
    await (await connect()).post('dev-b', 'pm', 'free', 'never read');
    await relay.restart();
    const agent = await connect();
    const { messages, startedAt } = await within(agent.read('dev-b', { wait_seconds: 60 }), 'the read', 5_000);
    assert.deepEqual(messages, []);
    assertBetween(startedAt, [relay.asked, Date.now()]);
  });

  on('a wait that nothing wakes ends with an empty array after its time', async ({ connect }) => {
    const agent = await connect();
    await hears(agent, 'dev-a');
    const begun = performance.now();
    const { messages } = await agent.read('dev-a', { wait_seconds: 1 });
    const took = performance.now() - begun;
    assert.deepEqual(messages, []);
    assert.ok(took >= 995 && took < 3_000, `took ${took} ms`);
  });

  on('progress arrives during a wait, and the message after it', async ({ connect }) => {
    const [reader, poster] = [await connect(), await connect()];
    await hears(reader, 'dev-b');
    const progress = [];
    let tell;
    const told = new Promise((resolve) => (tell = resolve));
    const onprogress = (step) => {
      progress.push(step.progress);
      tell();
    };
    const options = { onprogress, timeout: 60_000 };
    const waiting = reader.call('read_messages', { for: 'dev-b', wait_seconds: 60 }, options);
    await within(told, 'the first progress notification', 35_000);
    const posted = await poster.post('pm', 'dev-b', 'directive', 'after a while');
    assertRead(readResult(await within(waiting, 'the waiting read', 5_000)).messages, [posted]);
    assert.deepEqual(progress, [...new Set(progress)].toSorted((a, b) => a - b), 'progress does not grow');
  });

  on('a cancelled wait takes no message with it', async ({ connect }) => {
    const [quitter, poster, reader] = [await connect(), await connect(), await connect()];
    await hears(quitter, 'dev-a');
    const quit = new AbortController();
    const waiting = quitter.call('read_messages', { for: 'dev-a', wait_seconds: 60 }, { signal: quit.signal });
    const refused = assert.rejects(waiting);
    assert.deepEqual(await quitter.pending('dev-a'), NOTHING);
    quit.abort();
    await refused;
    assert.deepEqual(await quitter.pending('dev-a'), NOTHING);
    const posted = await poster.post('pm', 'dev-a', 'directive', 'for whoever still reads');
    assertRead((await reader.read('dev-a')).messages, [posted]);
  });

  on('a client that leaves while it waits takes no message with it', async ({ connect }) => {
    const [leaver, poster, reader] = [await connect(), await connect(), await connect()];
    await hears(leaver, 'dev-a');
    const waiting = assert.rejects(leaver.read('dev-a', { wait_seconds: 60 }));
    assert.deepEqual(await leaver.pending('dev-a'), NOTHING);
    await leaver.client.close();
    await waiting;
    const posted = await poster.post('pm', 'dev-a', 'directive', 'for whoever still reads');
    const { messages } = await reader.read('dev-a', { wait_seconds: 20 });
    // The server may have handed it to the leaver before it saw it leave; then it says so.
    assertRead(messages.map(({ redelivered, ...message }) => message), [posted]);
  });

  if (kind === SSE) {
    // On a stream nothing tells a reader that left from a reply that it never saw, until it calls again.
    on('a read is undone when its stream closes before another call, and stands after one', async ({ connect }) => {
      const [poster, one, two, three] = [await connect(), await connect(), await connect(), await connect()];
      const posted = await poster.post('pm', 'dev-a', 'directive', 'once or, marked, again');
      const first = await one.read('dev-a');
      assertRead(first.messages, [posted]);
      await one.client.close();
      const again = await two.read('dev-a', { wait_seconds: 20 });
      assertRead(again.messages, [{ ...posted, redelivered: true }]);
      assert.equal(again.startedAt, first.startedAt, 'the notice was undone with the read');
      assert.deepEqual(await two.pending('dev-a'), NOTHING);
      await two.client.close();
      assert.deepEqual(await three.read('dev-a', { wait_seconds: 1 }), { messages: [], startedAt: undefined });
    });
  } else {
    on('a read stands once its reply has arrived, even if the client leaves at once', async ({ connect }) => {
      const [poster, one, two] = [await connect(), await connect(), await connect()];
      const posted = await poster.post('pm', 'dev-a', 'directive', 'once');
      assertRead((await one.read('dev-a')).messages, [posted]);
      await one.client.close();
      assert.deepEqual(await two.read('dev-a', { wait_seconds: 1 }), { messages: [], startedAt: undefined });
    });
  }

  on('a bound session may leave its name out and may name no other', async ({ connect }) => {
    const [bound, other] = [await connect('dev-a'), await connect()];
    const id = postedId(await bound.call('post_message', { to: 'dev-a', kind: 'status', body: 'from me to me' }));
    assert.deepEqual(soleJson(await bound.call('list_pending', {})), { count: 1, kinds: ['status'] });
    for (const [tool, args] of [
      ['read_messages', { for: 'dev-b' }],
      ['list_pending', { for: 'dev-b' }],
      ['post_message', { from: 'dev-b', to: 'pm', kind: 'status', body: 'in a false name' }],
    ]) {
      const text = errorText(await bound.call(tool, args));
      assert.ok(text.startsWith('Error: ') && text.includes('dev-b') && text.includes('dev-a'), text);
    }
    assert.deepEqual(await other.pending('pm'), NOTHING);
    const { messages } = readResult(await bound.call('read_messages', {}));
    assert.deepEqual(messages.map(({ id, from, to }) => ({ id, from, to })), [{ id, from: 'dev-a', to: 'dev-a' }]);
    const own = await bound.post('dev-a', 'pm', 'status', 'its own name is allowed');
    assert.deepEqual((await bound.read('dev-a')).messages, []);
    assertRead((await other.read('pm')).messages, [own]);
  });

  on('after kill -9 and a restart the next call works, and the first read of each role says what is gone', async ({
    relay,
    connect,
  }) => {
    const [agent, bound] = [await connect(), await connect('dev-b')];
    let lastStart;
    for (const life of ['first', 'second', 'third']) {
      for (const role of ROLES) {
        const { messages, startedAt } = await (role === 'dev-b' ? bound : agent).read(role);
        assert.deepEqual(messages, [], 'what was unread before the restart is gone');
        if (life === 'first') assert.equal(startedAt, undefined);
        else assertBetween(startedAt, [relay.asked, Date.now()]);
        assert.ok(startedAt === undefined || startedAt !== lastStart);
        if (role === ROLES.at(-1)) lastStart = startedAt;
        assert.equal((await agent.read(role)).startedAt, undefined);
      }
      const posted = await agent.post('dev-a', 'dev-b', 'status', `in the ${life} life`);
      const again = readResult(await bound.call('read_messages', {}));
      assertRead(again.messages, [posted]);
      assert.equal(again.startedAt, undefined);
      await agent.post('dev-a', 'dev-b', 'question', 'never read');
      await agent.post('dev-b', 'pm', 'status', 'never read');
      await restartUnder(relay, agent, bound);
    }
    assert.deepEqual(await agent.pending('dev-b'), NOTHING);
    assert.deepEqual(await agent.pending('pm'), NOTHING);
    assert.deepEqual((await agent.client.listTools()).tools.map((tool) => tool.name).sort(), TOOLS);
  });

  on('after kill -9 and a restart the very first call may be a post', async ({ relay, connect }) => {
    const agent = await connect();
    await hears(agent, 'dev-a');
    await agent.post('pm', 'dev-a', 'free', 'lost');
    await restartUnder(relay, agent);
    const posted = await agent.post('pm', 'dev-a', 'directive', 'kept');
    const { messages, startedAt } = await agent.read('dev-a');
    assertRead(messages, [posted]);
    assert.notEqual(startedAt, undefined);
  });
}
