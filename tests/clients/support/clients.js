// TypeScript SDK clients, one way to open each transport, and the shapes in which relay answers.

import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { atEnd, relayBin, relayEnv, within } from './process.js';

export const ROLES = ['pm', 'dev-a', 'dev-b'];
export const KINDS = ['status', 'question', 'directive', 'free'];
export const TOOLS = ['list_pending', 'post_message', 'read_messages'];

/** These clients show what they are given whole, however long it is. */
export const UNBOUNDED_KB = 100_000;

const NOTICE = /^relay started at (\S+); nothing sent before that is here; send again what was not acknowledged$/;
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const CLOCK_SLACK_MS = 5;
const TS = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/**
 * The three transports. `reconnected` is called before the server is killed and resolves when the client has found the
 * new one by itself; a transport that keeps no connection between calls has nothing to wait for. It only listens.
 */
export const SSE = {
  name: 'SSE',
  open: (relay, agent) => new SSEClientTransport(relay.url('sse', { agent, reply_kb: UNBOUNDED_KB })),
  reconnected: (transport) =>
    new Promise((resolve) => transport._eventSource.addEventListener('endpoint', () => resolve(), { once: true })),
};

export const HTTP = {
  name: 'streamable HTTP',
  open: (relay, agent) => new StreamableHTTPClientTransport(relay.url('mcp', { agent, reply_kb: UNBOUNDED_KB })),
  reconnected: async () => {},
};

export const STDIO = {
  name: 'stdio bridge',
  open: (relay, agent) =>
    new StdioClientTransport({
      command: relayBin,
      args: ['mcp', '--port', String(relay.port), '--reply-kb', String(UNBOUNDED_KB), ...(agent ? ['--agent', agent] : [])],
      env: relayEnv(),
      stderr: 'ignore',
    }),
  reconnected: async () => {},
};

/** A connected client with the three tools as methods; closed when the test ends. */
export class Agent {
  static async connect(t, kind, relay, agent) {
    const transport = kind.open(relay, agent);
    const client = new Client({ name: 'relay-client-tests', version: '1.0.0' });
    atEnd(t, () => client.close());
    await within(client.connect(transport), `a client to connect over ${kind.name}`);
    return new Agent(kind, transport, client);
  }

  constructor(kind, transport, client) {
    this.kind = kind;
    this.transport = transport;
    this.client = client;
  }

  /** One tool call, as the client hands it over. */
  call(name, args, options) {
    return this.client.callTool({ name, arguments: args }, undefined, options);
  }

  /** Posts and gives back the message as its reader must see it, `ts` aside. */
  async post(from, to, kind, body) {
    const before = Date.now();
    const id = postedId(await this.call('post_message', { from, to, kind, body }));
    return { id, from, to, kind, body, window: [before, Date.now()] };
  }

  async pending(role) {
    return soleJson(await this.call('list_pending', { for: role }));
  }

  async read(role, args = {}, options) {
    return readResult(await this.call('read_messages', { for: role, ...args }, options));
  }
}

export const NOTHING = { count: 0, kinds: [] };

/** The JSON in a successful result that must be one text block, beside the one that tells of a start. */
export function soleJson(result) {
  const blocks = result.content.filter(({ text }) => !NOTICE.test(text));
  assert.deepEqual(
    { blocks: blocks.map((block) => block.type), isError: result.isError ?? false },
    { blocks: ['text'], isError: false },
    JSON.stringify(result),
  );
  return JSON.parse(blocks[0].text);
}

/** The id in a post's result, which holds nothing else but notes, and the news of a start. */
export function postedId(result) {
  const [answer, ...notes] = result.content;
  const { id, ...rest } = soleJson({ ...result, content: [answer] });
  assert.ok(notes.every(({ text }) => text.startsWith('note: ') || NOTICE.test(text)), JSON.stringify(notes));
  assert.match(id, UUID_V4);
  assert.deepEqual(rest, {});
  return id;
}

/** A read's messages, and the start named by its restart notice (undefined without one). */
export function readResult(result) {
  assert.notEqual(result.isError, true, JSON.stringify(result));
  assert.ok(result.content.every((block) => block.type === 'text'));
  const [array, ...rest] = result.content.map((block) => block.text);
  assert.ok(rest.length <= 1, `too many blocks: ${JSON.stringify(rest)}`);
  return { messages: JSON.parse(array), startedAt: rest.length === 0 ? undefined : noticeStart(rest[0]) };
}

export function noticeStart(text) {
  const match = NOTICE.exec(text);
  assert.ok(match, `not the restart notice: ${JSON.stringify(text)}`);
  assert.match(match[1], TS);
  return match[1];
}

/** Asserts that the messages read are exactly the posted ones, in that order, with a `ts` from when each was posted. */
export function assertRead(messages, posted) {
  assert.deepEqual(
    messages.map(({ ts, ...message }) => message),
    posted.map(({ window, ...message }) => message),
  );
  messages.forEach(({ ts }, i) => {
    assert.match(ts, TS);
    assertBetween(ts, posted[i].window);
  });
}

/** Asserts that a time of relay's lies in a span of this process, as near as two clocks cut to milliseconds can tell. */
export function assertBetween(ts, [from, to]) {
  const at = Date.parse(ts);
  assert.ok(
    from - CLOCK_SLACK_MS <= at && at <= to + CLOCK_SLACK_MS,
    `${ts} is not between ${new Date(from).toISOString()} and ${new Date(to).toISOString()}`,
  );
}

/** The text of a result that must be a tool error. */
export function errorText(result) {
  assert.equal(result.isError, true, JSON.stringify(result));
  assert.deepEqual(result.content.map((block) => block.type), ['text']);
  return result.content[0].text;
}

/** Kills the server with SIGKILL, starts it anew on its port, and waits until these clients have noticed by themselves. */
export async function restartUnder(relay, ...agents) {
  const noticed = agents.map((agent) => agent.kind.reconnected(agent.transport));
  await relay.restart();
  await within(Promise.all(noticed), 'the clients to reconnect by themselves');
}
