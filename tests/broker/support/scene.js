// A relay, the broker behind a proxy, and what must hold of all that was sent.

import assert from 'node:assert/strict';
import { Relay, relayBin, relayEnv, run } from '../../clients/support/process.js';
import { Broker, until } from './broker.js';
import { added } from './parser.js';
import { Proxy } from './proxy.js';

/** What the broker always asks and relay does not carry out. docs/DELIVERY.md says what comes of it. */
export const REFUSED = [
  'GET /v1/node/terminal/ws 404',
  'POST /v1/channels 409',
  'POST /v1/channels/:name/mute 501',
];

/** What one that was started again finds of itself, which it then gets around. */
export const REFUSED_AGAIN = ['POST /v1/agents 409', 'POST /v1/agents/:name/takeover 404'];

export class Scene {
  static async start(t) {
    const scene = new Scene();
    scene.t = t;
    scene.relay = await Relay.start(t);
    scene.proxy = await Proxy.start(t, scene.relay);
    scene.broker = await Broker.start(t, { url: scene.proxy.url, key: await scene.key() });
    return scene;
  }

  /** The ids of what was sent to each worker, in that order. */
  sent = new Map();

  /** Forgets what was sent so far: nothing more is to come of it. */
  forget() {
    for (const ids of this.sent.values()) for (const id of ids) this.forgotten.add(id);
    this.sent.clear();
  }

  forgotten = new Set();

  /** Runs a command of relay's. */
  async command(...args) {
    const { code, stdout, stderr } = await run(this.t, relayBin, [...args, '--port', String(this.relay.port)], {
      env: relayEnv(),
    });
    return { code, stdout, stderr };
  }

  /** Asks relay for what a command of its does, without a process for each. */
  async asks(what, body) {
    const answer = await fetch(this.relay.url(`api/${what}`), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await answer.text();
    assert.equal(answer.status, 200, text);
    return JSON.parse(text);
  }

  async key() {
    const { code, stdout, stderr } = await this.command('key');
    assert.equal(code, 0, stderr);
    return stdout.trim();
  }

  /** Sends a message, and gives back its id. */
  async send(to, text) {
    const { id } = await this.asks('send', { from: 'user', to, kind: 'free', body: text });
    this.sent.set(to, [...(this.sent.get(to) ?? []), id]);
    return id;
  }

  async sendAll(to, count, text = 'message') {
    const ids = [];
    for (let i = 1; i <= count; i += 1) ids.push(await this.send(to, `${text} ${i}`));
    return ids;
  }

  async cursor(worker) {
    const { cursors } = await this.broker.listing();
    return cursors.find(({ agent_name }) => agent_name === worker);
  }

  /** Waits until the broker has acknowledged so many frames of a worker, for as long as it goes on with that. */
  async acknowledged(worker, upTo) {
    const count = async () => (await this.cursor(worker))?.acked_up_to_seq ?? 0;
    for (let known = await count(); known < upTo; known = await count()) {
      await until(`the broker to acknowledge ${upTo} of ${worker}, of which it has ${known}`, async () => (await count()) > known).catch(async (error) => {
        const { recent_delivers, ...listing } = await this.broker.listing();
        throw new Error(`${error.message}: ${JSON.stringify(listing)}`);
      });
    }
  }

  /** Whether a message arrived, as `relay trace` tells it. */
  async traced(id) {
    const { steps } = await this.asks('trace', { message: id });
    return steps;
  }

  /** What the broker lists is what may be, and it listed `again` frames as duplicates at the most. */
  async listsNothingWrong({ again = 0 } = {}) {
    assert.deepEqual(this.proxy.refusedFrames, []);
    const listing = await this.broker.listing();
    const { decisions, dispositions, socket, frames, acks } = listing;
    const seen = {
      gap: decisions.gap,
      identity_reject: decisions.identity_reject,
      stale: decisions.stale,
      rejected: dispositions.rejected_identity + dispositions.rejected_sequence_gap + dispositions.surface_failed,
      parse_failures: socket.parse_failures,
      last_parse_failure: listing.last_parse_failure,
      unparsed: listing.unparsed_frame_types,
      errors: frames.error,
      unsent: acks.enqueue_failed,
    };
    assert.deepEqual(seen, {
      gap: 0,
      identity_reject: 0,
      stale: 0,
      rejected: 0,
      parse_failures: 0,
      last_parse_failure: null,
      unparsed: {},
      errors: 0,
      unsent: 0,
    });
    assert.ok(decisions.duplicate <= again, `${decisions.duplicate} duplicates, where there may be ${again}`);
    return listing;
  }

  /** All that was sent to a worker arrived, in order and once, and relay knows that by the broker's acknowledgement. */
  async arrived(worker) {
    const ids = this.sent.get(worker);
    const { recent_delivers } = await this.broker.listing();
    const mine = recent_delivers.filter(({ agent, decision }) => agent === worker && decision === 'deliver');
    const latest = ids.slice(-mine.length);
    assert.ok(mine.length > 0, 'the broker lists nothing');
    assert.deepEqual(mine.map(({ msg_id }) => msg_id), latest, 'what the broker lists as delivered');
    // The broker may acknowledge what it has not written into the worker's log yet.
    await until('the worker to have printed all', () => this.printed(worker).length >= ids.length).catch(() => {});
    assert.deepEqual(this.printed(worker), ids, 'what the worker printed');
    assert.deepEqual(await this.command('peek', worker), {
      code: 3,
      stdout: '',
      stderr: `nothing for ${worker}\n`,
    });
    // relay takes a few seconds to settle that a message has arrived, also of an acknowledged one.
    const settled = async (id) => (await this.traced(id)).at(-1).step === 'delivered';
    await until('the last message to be delivered', () => settled(ids.at(-1)), 10_000).catch(() => {});
    for (const id of ids) {
      const { agent, step, by } = (await this.traced(id)).at(-1);
      assert.deepEqual({ agent, step, by }, { agent: worker, step: 'delivered', by: 'acknowledged' });
    }
  }

  /** The ids that a worker was given, each one as often as it was. Its terminal echoes what `cat` prints then. */
  printed(worker) {
    const lines = [...this.broker.printed(worker).matchAll(/Relay message from \S+ \[[^\]]*? \/ ([0-9a-f-]{36})\]/g)];
    const ids = lines.map(([, id]) => id).filter((id) => !this.forgotten.has(id));
    const times = Map.groupBy(ids, (id) => id);
    return [...times].flatMap(([id, { length }]) => Array(Math.ceil(length / 2)).fill(id));
  }

  /** relay carried out all that the broker asked, but for what is known. */
  refusedNothingElse(...more) {
    const known = [...REFUSED, ...more];
    assert.deepEqual(this.proxy.refused().filter((refused) => !known.includes(refused)), []);
  }

  /** The frames of a worker that relay sent are numbered in order over each connection, and marked if they come again. */
  numbersAreInOrder(worker) {
    const last = new Map();
    let highest = 0;
    let again = 0;
    for (const { connection, frame } of this.proxy.deliveries(worker)) {
      const before = last.get(connection);
      if (before !== undefined) assert.equal(frame.seq, before + 1, 'a number was left out');
      assert.ok(frame.seq <= highest + 1, `${frame.seq} comes after ${highest}`);
      if (frame.seq <= highest) {
        assert.equal(added(frame).redelivered, true, `${frame.seq} comes again unmarked`);
        again += 1;
      }
      last.set(connection, frame.seq);
      highest = Math.max(highest, frame.seq);
    }
    return { highest, again };
  }

  /** A session of an agent's own, with the lift tools: gives back how it calls them. */
  async tools(agent) {
    const url = this.relay.url('mcp', { agent });
    let session;
    const ask = async (method, params, id) => {
      const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
      if (session) Object.assign(headers, { 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' });
      const body = JSON.stringify({ jsonrpc: '2.0', id, method, params });
      const answer = await fetch(url, { method: 'POST', headers, body });
      assert.ok(answer.ok, `${method}: ${answer.status}`);
      session ??= answer.headers.get('mcp-session-id');
      return answer.text();
    };
    await ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'tests', version: '1' } }, 0);
    await ask('notifications/initialized');
    return async (name) => {
      const { result } = JSON.parse(await ask('tools/call', { name, arguments: { for: agent } }, 1));
      assert.notEqual(result.isError, true, JSON.stringify(result));
      return JSON.parse(result.content[0].text);
    };
  }
}
