// Agents that have a name and a role, with the tools of one toolset: through the TypeScript SDK over each transport, with the
// handshake of old and of late, and through the Python SDK with the newest protocol.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { errorText, noticeStart } from './clients.js';
import { Relay, atEnd, folder, python, relayBin, relayEnv, run, start, temporaryFolder, within } from './process.js';

/** The ways to reach relay that every main fact is shown over. The first is the one that agents use most. */
export const WAYS = [
  { transport: 'stdio', version: '2025-11-25' },
  { transport: 'stdio', version: '2024-11-05' },
  { transport: 'sse', version: '2025-11-25' },
  { transport: 'sse', version: '2024-11-05' },
  { transport: 'http', version: '2025-11-25' },
  { transport: 'http', version: '2024-11-05' },
  { transport: 'http', version: '2026-07-28' },
].map((way) => ({ ...way, name: `${way.transport}, ${way.version}` }));

/** One relay and one project, whose agents and bridges meet nothing else of this machine. */
export class World {
  static async start(t, tools, way = WAYS[0]) {
    const world = new World(t, tools, way);
    world.relay = await Relay.start(t);
    return world;
  }

  /** The same with a port behind which nothing is yet. */
  static async absent(t, tools, way = WAYS[0]) {
    const world = new World(t, tools, way);
    world.relay = await Relay.absent(t);
    return world;
  }

  constructor(t, tools, way) {
    this.t = t;
    this.tools = tools;
    this.way = way;
    this.home = temporaryFolder(t);
    this.project = path.join(this.home, 'project');
    mkdirSync(this.project);
    this.env = { ...relayEnv(), HOME: this.home, XDG_DATA_HOME: path.join(this.home, 'data') };
  }

  /** Runs a command of relay's in the project. */
  async command(...args) {
    const { code, stdout, stderr } = await run(this.t, relayBin, args, { cwd: this.project, env: this.env });
    return { code, stdout, stderr };
  }

  /** What a person does at the command line, who is `user`. */
  person(...args) {
    return this.command(...args, '--port', String(this.relay.port));
  }

  async register(name, role, module) {
    const { code, stderr } = await this.command('register', name, '--role', role, ...(module ? ['--module', module] : []));
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  }

  /** An agent that is registered and connected, and has heard of the start. */
  async join(name, role = 'worker', { module, ...more } = {}) {
    const agent = await this.connect(name, { role, module, ...more });
    await agent.hears();
    return agent;
  }

  /** A connected agent, registered if it has a role. It has asked relay for nothing yet. */
  async connect(name, { role, module, tools = this.tools, way = this.way, query = {}, args = [], env = {} } = {}) {
    const agent = new Agent(name, tools);
    if (way.transport === 'stdio') {
      if (role) await this.register(name, role, module);
      const own = name ? ['--agent', name] : [];
      args = ['mcp', '--port', String(this.relay.port), ...own, '--tools', tools, '--reply-kb', '100000', ...args];
      const server = { command: relayBin, args, env: { ...this.env, ...env }, cwd: this.project, stderr: 'ignore' };
      await agent.open(this.t, new StdioClientTransport(server), way.version);
      return agent;
    }
    const route = way.transport === 'http' ? 'mcp' : 'sse';
    const url = this.relay.url(route, { agent: name, role: role ?? undefined, module, tools, reply_kb: 100_000, ...query });
    if (way.version === '2026-07-28') {
      await agent.openInPython(this.t, url);
    } else {
      const Transport = way.transport === 'http' ? StreamableHTTPClientTransport : SSEClientTransport;
      await agent.open(this.t, new Transport(url), way.version);
    }
    return agent;
  }

  /** Kills the server with SIGKILL and starts it anew; clients that have to notice by themselves have done so. */
  async restart(...agents) {
    const noticed = agents.map((agent) => agent.reconnected());
    await this.relay.restart();
    await within(Promise.all(noticed), 'the clients to reconnect by themselves');
  }
}

/** A connected client with the tools of one toolset; closed when the test ends. */
export class Agent {
  constructor(name, tools) {
    this.name = name;
    this.tools = tools;
    this.updates = new Updates();
  }

  /** Connects the TypeScript SDK, which is made to ask for a version. */
  async open(t, transport, version) {
    this.transport = transport;
    this.client = new Client({ name: 'relay-client-tests', version: '1.0.0' });
    const send = transport.send.bind(transport);
    transport.send = (message, options) => {
      const isFirst = message.method === 'initialize';
      return send(isFirst ? { ...message, params: { ...message.params, protocolVersion: version } } : message, options);
    };
    let agreed;
    const set = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (said) => {
      agreed = said;
      set?.(said);
    };
    this.client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => this.updates.add(params.uri));
    atEnd(t, () => this.client.close());
    await within(this.client.connect(transport), 'a client to connect');
    assert.equal(agreed, version);
  }

  /** Connects the Python SDK, which agrees on the newest version with relay. */
  async openInPython(t, url) {
    const child = start(python, [path.join(folder, 'calls.py'), url.href], { env: relayEnv(), stdio: 'pipe' });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
    atEnd(t, async () => {
      child.stdin.end();
      assert.deepEqual(await within(child.ended, 'calls.py to end'), { code: 0, signal: null }, stderr);
    });
    const open = new Map();
    let calls = 0;
    const answered = (id) =>
      new Promise((resolve, reject) => {
        open.set(id, resolve);
        child.ended.then(() => reject(new Error(`calls.py ended: ${stderr}`)), reject);
      });
    createInterface(child.stdout).on('line', (line) => {
      const { id, updated, ...answer } = JSON.parse(line);
      if (updated) this.updates.add(updated);
      else open.get(id)(answer);
    });
    this.client = {
      callTool: async ({ name, arguments: given }) => {
        const id = (calls += 1);
        child.stdin.write(`${JSON.stringify({ id, tool: name, arguments: given })}\n`);
        const { content, structuredContent, isError } = (await answered(id)).result;
        return { content, isError, ...(structuredContent === null ? {} : { structuredContent }) };
      },
      subscribeResource: async ({ uri }) => {
        const id = (calls += 1);
        child.stdin.write(`${JSON.stringify({ id, listen: [uri] })}\n`);
        assert.deepEqual((await answered(id)).result, [uri]);
      },
      close: () => child.stdin.end(),
    };
    assert.deepEqual(await within(answered(0), 'calls.py to connect'), { protocol: '2026-07-28' });
  }

  /** Resolves when the client has found a new server by itself; one that keeps no connection has nothing to wait for. */
  async reconnected() {
    const source = this.transport?._eventSource;
    if (source) await new Promise((resolve) => source.addEventListener('endpoint', () => resolve(), { once: true }));
  }

  /** One tool call, as the client hands it over. */
  call(tool, args = {}, options) {
    return this.client.callTool({ name: tool, arguments: args }, undefined, options);
  }

  /** The data of a call that succeeds: the same as text and as data, and nothing beside it. */
  async data(tool, args, options) {
    const { data, startedAt } = dataOf(await this.call(tool, args, options));
    assert.equal(startedAt, undefined, 'it is told of the start');
    return data;
  }

  /** The text of a call that succeeds, and nothing beside it but the news of a start. */
  async text(tool, args, options) {
    const { texts: all, data } = textsOf(await this.call(tool, args, options));
    const texts = all.filter((text) => !text.startsWith('relay started at '));
    assert.deepEqual({ blocks: texts.length, data }, { blocks: 1, data: undefined }, texts.join('\n'));
    return texts[0];
  }

  /** The text of a call that must be an error. */
  async error(tool, args, options) {
    const result = await this.call(tool, args, options);
    assert.equal(result.structuredContent, undefined);
    return errorText(result);
  }

  /** Has the agent hear of the start, if it is to, so that its next read waits; gives back what relay says about it. */
  async hears() {
    const tool = { thrum: 'check_messages', 'agent-relay': 'relay_inbox', lift: 'read_messages' }[this.tools];
    const { texts } = textsOf(await this.call(tool));
    const empty = {
      thrum: (notice) => JSON.stringify({ status: 'empty', messages: [], remaining: 0, notice }),
      'agent-relay': 'No messages in inbox.',
      lift: '[]',
    };
    assert.equal(texts[0], this.tools === 'thrum' ? empty.thrum(texts[1]) : empty[this.tools]);
    return texts.length === 1 ? undefined : noticeStart(texts[1]);
  }
}

/** The resources that a client is told to have changed, one after the other. */
class Updates {
  #told = [];
  #waiting = [];

  add(uri) {
    const waiting = this.#waiting.shift();
    if (waiting) waiting(uri);
    else this.#told.push(uri);
  }

  /** The next one, as soon as it is told. */
  next() {
    const next = new Promise((resolve) => {
      if (this.#told.length > 0) resolve(this.#told.shift());
      else this.#waiting.push(resolve);
    });
    return within(next, 'the news of a change');
  }

  /** Shows that nothing else was told in this time. */
  async none(ms = 300) {
    await sleep(ms);
    assert.deepEqual(this.#told.splice(0), []);
  }
}

/** The texts and the data of a successful result. */
export function textsOf(result) {
  assert.notEqual(result.isError, true, JSON.stringify(result));
  assert.ok(result.content.every((block) => block.type === 'text'));
  return { texts: result.content.map((block) => block.text), data: result.structuredContent };
}

/**
 * The data of a successful result, which stands there as text too, and the start that it tells of, if it does: in a second text
 * and in the data, since a client may show its model only the one or the other.
 */
export function dataOf(result) {
  const { texts, data: whole } = textsOf(result);
  assert.deepEqual(JSON.parse(texts[0]), whole);
  const { notice, ...data } = whole;
  assert.deepEqual(texts.slice(1), notice === undefined ? [] : [notice]);
  return { data, startedAt: notice === undefined ? undefined : noticeStart(notice) };
}
