// Two Claude Code sessions and the person at the command line, over one server that is killed in the middle of a wait.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { SERVERS, converse } from './support/claude.js';
import { assertBetween, errorText, postedId, readResult } from './support/clients.js';
import { PATIENCE_MS, Relay, relayBin, relayEnv, run, within } from './support/process.js';
import { BEHIND, READING_MS, Tap } from './support/tap.js';

/** A Claude Code session over SSE, bound to a role, whose model makes the calls that it is told to make. */
class Session {
  constructor(t, relay, role) {
    const over = new Promise((resolve) => (this.leave = resolve));
    this.joined = new Promise((resolve) => {
      this.left = converse(t, SERVERS.sse(relay, role), async (model) => {
        this.model = model;
        resolve();
        await over;
        await model.say('done');
      });
      this.left.catch(() => {});
    });
  }

  call(tool, args) {
    return this.model.use(`mcp__relay__${tool}`, args);
  }

  /** Posts, and gives back the message as its reader must see it. */
  async post(to, kind, body) {
    return { id: postedId(await this.call('post_message', { to, kind, body })), to, kind, body };
  }

  async read(args = {}) {
    return readResult(await this.call('read_messages', args));
  }
}

const untimed = (messages) => messages.map(({ ts, ...message }) => message);

/** Waits until relay has exactly these roles' sessions and says whether each of them waits; nothing else tells. */
async function until(relay, expected) {
  const limit = AbortSignal.timeout(PATIENCE_MS);
  for (;;) {
    const { connections } = await relay.health();
    const seen = Object.fromEntries(connections.map(({ role, waits }) => [role, waits.length > 0 ? 'waits' : 'open']));
    if (JSON.stringify(Object.entries(seen).toSorted()) === JSON.stringify(Object.entries(expected).toSorted())) return;
    assert.ok(!limit.aborted, `${JSON.stringify(seen)}, not ${JSON.stringify(expected)}`);
    await sleep(10);
  }
}

test('Claude Code, two sessions over sse: they and the person reach each other, across kill -9 in the middle of a wait', async (t) => {
  const relay = await Relay.start(t, '--host', BEHIND);
  const tap = await Tap.start(t, relay);
  const [dev, pm] = [new Session(t, relay, 'dev-a'), new Session(t, relay, 'pm')];
  const person = async (...args) => {
    const { code, stdout, stderr } = await run(t, relayBin, [...args, '--port', String(relay.port)], { env: relayEnv() });
    return { code, stdout, stderr };
  };
  const told = async (session) => {
    const { messages, startedAt } = await session.read();
    assert.deepEqual(messages, []);
    assertBetween(startedAt, [relay.asked, Date.now()]);
  };
  const toldNothing = async (session) => assert.deepEqual(await session.read(), { messages: [], startedAt: undefined });

  /** Has `dev-a` wait for what `post` sends to it, and gives back what it is shown. */
  const waitsFor = async (post) => {
    const wait = dev.read({ wait_seconds: 60 });
    await until(relay, { 'dev-a': 'waits', pm: 'open' });
    const sent = await post();
    const { messages, startedAt } = await within(wait, 'the message');
    assert.equal(startedAt, undefined);
    return [untimed(messages), sent];
  };

  /** The PM's post reaches the developer who waits for it, and the person's from the command line does. */
  const messagesArrive = async () => {
    const [fromPm, posted] = await waitsFor(() => pm.post('dev-a', 'directive', 'PROCEED to task B1'));
    assert.deepEqual(fromPm, [{ ...posted, from: 'pm' }]);
    const [fromPerson, sent] = await waitsFor(() => person('send', 'dev-a', 'Hold on, the schema changes', '--json'));
    assert.deepEqual([sent.code, sent.stderr], [0, '']);
    const { id } = JSON.parse(sent.stdout);
    assert.deepEqual(fromPerson, [{ id, from: 'user', to: 'dev-a', kind: 'free', body: 'Hold on, the schema changes' }]);
  };

  /** The developer's question to the person is read at the command line, once; the first read after a start but the first is told of it. */
  const personReads = async (news) => {
    const asked = await dev.post('user', 'question', 'Which database do you mean?');
    const { code, stdout, stderr } = await person('read', '--json');
    assert.equal(code, 0, stderr);
    assert.deepEqual(untimed(JSON.parse(stdout)), [{ ...asked, from: 'dev-a' }]);
    assert.match(stderr, news);
    assert.deepEqual(await person('read', '--json'), { code: 3, stdout: '[]\n', stderr: 'nothing for user\n' });
  };

  const story = async () => {
    await Promise.all([dev.joined, pm.joined]);
    await toldNothing(dev);
    await toldNothing(pm);
    await messagesArrive();
    await personReads(/^$/);

    await pm.post('user', 'status', 'never read');
    const lost = dev.call('read_messages', { wait_seconds: 120 });
    await within(tap.sees(/"wait_seconds":120.*<HTTP\/1.1 202 /s), 'the wait');
    await sleep(READING_MS);
    const back = tap.hold();
    await relay.restart();
    back();
    assert.equal(errorText(await within(lost, 'the end of the wait')), 'Connection closed');
    // Claude Code connects again by itself, in its own time.
    await until(relay, { 'dev-a': 'open', pm: 'open' });

    await told(dev);
    await told(pm);
    await messagesArrive();
    await personReads(/^relay started at \S+ \S+; what was unread before that is gone\n$/);
    for (const session of [dev, pm]) session.leave();
  };
  const left = Promise.all([dev.left, pm.left]);
  // A session that ends too early fails the test at once.
  await Promise.race([story(), left.then(() => assert.fail('the sessions have left'))]);
  await left;
});
