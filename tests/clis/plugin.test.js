// plugin/opencode/relay.js alone: what it says to relay, and when, with stand-ins for OpenCode and relay that do what is seldom seen of
// them.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import http from 'node:http';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { atEnd, within } from '../clients/support/process.js';
import { until } from '../clients/support/terminal.js';

/** Answers an event with what its model is to be shown, if anything. */
function answer(response, hookEventName, additionalContext) {
  if (additionalContext === undefined) response.writeHead(204).end();
  else response.writeHead(200).end(JSON.stringify({ hookSpecificOutput: { hookEventName, additionalContext } }));
}

/** A plugin whose relay has what it is asked answered by the test, and whose OpenCode knows these sessions: the parent of each, by its id. */
class Alone {
  static async start(t, parents) {
    const alone = new Alone();
    const server = http.createServer((request, response) => alone.#serve(request, response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    atEnd(t, () => {
      server.close();
      server.closeAllConnections();
    });
    process.env.RELAY_PORT = String(server.address().port);
    const session = {
      get: async ({ path: { id } }) => {
        alone.looked.push(id);
        return { data: { id, parentID: parents[id] } };
      },
    };
    // One that nobody has loaded before: it reads its environment once.
    const { RelayPlugin } = await import(`../../plugin/opencode/relay.js?${server.address().port}`);
    alone.plugin = await RelayPlugin({ client: { session } });
    return alone;
  }

  /** Which sessions wait to be woken. */
  waiting = [];
  /** Which sessions OpenCode was asked for. */
  looked = [];
  #asked = [];
  #came;

  says(type, properties) {
    return this.plugin.event({ event: { type, properties } });
  }

  prompts(sessionID, parts = [{ type: 'text', text: 'go on', id: 'prt_1' }]) {
    return this.plugin['chat.message']({ sessionID }, { message: { id: 'msg_1' }, parts });
  }

  /** Waits for the next event that relay is told of: its session and name, and `answer`, which answers it. */
  async told() {
    while (this.#asked.length === 0) await new Promise((resolve) => (this.#came = resolve));
    return this.#asked.shift();
  }

  /** Answers the next event, and shows that it is this one. */
  async hears(session, name) {
    const told = await within(this.told(), `${name} of ${session}`);
    assert.deepEqual([told.session, told.name], [session, name]);
    told.answer();
  }

  /** Has somebody say something in a session, and relay hear that behind these events. */
  async prompted(session, ...before) {
    const prompted = this.prompts(session);
    for (const name of [...before, 'UserPromptSubmit']) await this.hears(session, name);
    await prompted;
  }

  /** The same of a turn that ends. */
  async idle(session) {
    const ended = this.says('session.idle', { sessionID: session });
    await this.hears(session, 'Stop');
    await ended;
  }

  /** What relay was told of and nobody has taken yet. */
  get left() {
    return this.#asked.map(({ session, name }) => [session, name]);
  }

  async #serve(request, response) {
    const url = new URL(request.url, 'http://localhost');
    if (url.pathname.endsWith('/wait')) {
      const session = url.searchParams.get('process');
      this.waiting.push(session);
      response.once('close', () => this.waiting.splice(this.waiting.indexOf(session), 1));
      return;
    }
    let text = '';
    for await (const chunk of request.setEncoding('utf8')) text += chunk;
    const { session_id: session, hook_event_name: name } = JSON.parse(text);
    const cli = ['cli', 'namespace'].map((key) => url.searchParams.get(key));
    this.#asked.push({ session, name, cli, answer: (shown) => answer(response, name, shown) });
    this.#came?.();
  }
}

test('what a session comes to is told in order, though relay takes its time, and no other session waits for that', async (t) => {
  const alone = await Alone.start(t, {});
  const ended = alone.says('session.idle', { sessionID: 's-1' });
  const prompted = alone.prompts('s-1');
  await alone.hears('s-1', 'SessionStart');
  const ends = await within(alone.told(), 'the end of a turn');
  assert.deepEqual([ends.session, ends.name], ['s-1', 'Stop']);
  const other = alone.says('session.created', { info: { id: 's-2' } });
  await alone.hears('s-2', 'SessionStart');
  await other;
  assert.deepEqual(alone.left, [], 'what came next did not wait for its turn');
  ends.answer();
  await alone.hears('s-1', 'UserPromptSubmit');
  await Promise.all([ended, prompted]);
});

test('a session whose relay does not answer keeps no prompt waiting for longer than its patience', async (t) => {
  const alone = await Alone.start(t, {});
  const began = performance.now();
  const told = [alone.says('session.idle', { sessionID: 's-1' }), alone.says('session.idle', { sessionID: 's-1' }), alone.prompts('s-1')];
  await Promise.all(told);
  const took = performance.now() - began;
  assert.ok(took >= 900 && took < 1_900, `${took} ms`);
});

test('an answer that came in time is used, though its program did nothing else for longer than its patience', async (t) => {
  const alone = await Alone.start(t, {});
  const parts = [{ type: 'text', text: 'go on', id: 'prt_1' }];
  const prompted = alone.prompts('s-1', parts);
  await alone.hears('s-1', 'SessionStart');
  const { answer } = await within(alone.told(), 'the prompt');
  answer('a message');
  for (const began = performance.now(); performance.now() - began < 1_500; );
  await prompted;
  assert.equal(parts[1]?.text, 'a message');
});

test('what a session comes to says in which process that is', async (t) => {
  const alone = await Alone.start(t, {});
  const created = alone.says('session.created', { info: { id: 's-1' } });
  const { cli, answer } = await within(alone.told(), 'the start of a session');
  answer();
  await created;
  const told = () => {
    // When it was started is the 22nd field, the second of which is a name that may have blanks.
    const [, since] = /^.*\)(?: \S+){19} (\d+) /s.exec(readFileSync('/proc/self/stat', 'utf8'));
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return [`${process.pid}-${since}`, `${boot}.${/\d+/.exec(readlinkSync('/proc/self/ns/pid'))}`];
  };
  assert.deepEqual(cli, existsSync('/proc/self/stat') ? told() : [null, null]);
});

test('a session is started once, by whatever is heard of it first', async (t) => {
  const alone = await Alone.start(t, {});
  await alone.prompted('s-1', 'SessionStart');
  await alone.says('session.created', { info: { id: 's-1' } });
  await alone.idle('s-1');
});

test('of several sessions the one waits to be woken in which somebody spoke last', async (t) => {
  const alone = await Alone.start(t, {});
  const waits = (...sessions) => until(() => isDeepStrictEqual(alone.waiting, sessions), () => `${sessions} to wait; those that do: ${alone.waiting}`);
  await alone.prompted('s-1', 'SessionStart');
  await waits('s-1');
  await alone.prompted('s-2', 'SessionStart');
  await waits('s-2');
  await alone.idle('s-1');
  await alone.idle('s-2');
  await waits('s-2');
  await alone.prompted('s-1');
  await waits('s-1');
  const deleted = alone.says('session.deleted', { info: { id: 's-1' } });
  await alone.hears('s-1', 'SessionEnd');
  await deleted;
  await alone.idle('s-2');
  await waits();
  await alone.prompted('s-2');
  await waits('s-2');
});

test('the session of a subagent is not told of, and forgotten once it is deleted', async (t) => {
  const alone = await Alone.start(t, { 's-2': 's-1' });
  await alone.prompts('s-2');
  await alone.says('session.idle', { sessionID: 's-2' });
  await alone.plugin['tool.execute.after']({ tool: 'bash', sessionID: 's-2', args: {} }, { output: 'ran' });
  assert.deepEqual([alone.left, alone.waiting, alone.looked], [[], [], ['s-2']]);
  await alone.says('session.deleted', { info: { id: 's-2', parentID: 's-1' } });
  await alone.says('session.idle', { sessionID: 's-2' });
  assert.deepEqual([alone.left, alone.waiting, alone.looked], [[], [], ['s-2', 's-2']]);
});
