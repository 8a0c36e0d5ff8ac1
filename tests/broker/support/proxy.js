// What stands between the broker and relay: it hands everything on as it came, writes down each request and its answer, and can
// cut connections or lose a frame.

import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { atEnd, freePort } from '../../clients/support/process.js';
import { refusedBy } from './parser.js';

export class Proxy {
  static async start(t, relay) {
    const proxy = new Proxy(relay);
    proxy.port = await freePort();
    proxy.server.listen(proxy.port, '127.0.0.1');
    await once(proxy.server, 'listening');
    atEnd(t, () => proxy.stop());
    return proxy;
  }

  constructor(relay) {
    this.relay = relay;
    /** Each request: `{ method, path, status }`. */
    this.answers = [];
    /** The frames of deliveries that relay sent, in that order: `{ connection, frame }`. */
    this.delivered = [];
    /** What the published parser has against frames that relay sent. */
    this.refusedFrames = [];
    /** How often a node's connection was made. */
    this.connections = 0;
    /** Says of a frame of relay's whether it gets lost. */
    this.loses = () => false;
    this.open = new Set();
    this.nodes = new Set();
    this.server = http.createServer((request, response) => this.ask(request, response));
    this.server.on('connection', (socket) => this.keep(socket, this.open));
    this.server.on('upgrade', (request, socket, head) => this.upgrade(request, socket, head));
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Breaks the connections of nodes, as a network does that goes away. */
  cut() {
    const cut = this.nodes.size;
    for (const socket of this.nodes) socket.destroy();
    return cut;
  }

  /** The frames of deliveries to an agent that relay sent. */
  deliveries(agent) {
    return this.delivered.filter(({ frame }) => frame.agent === agent);
  }

  /** What relay did not answer with success: one line for each kind of request. */
  refused() {
    const refused = this.answers.filter(({ status }) => status >= 400);
    return [...new Set(refused.map(({ method, path, status }) => `${method} ${general(path)} ${status}`))].toSorted();
  }

  keep(socket, set) {
    set.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => set.delete(socket));
  }

  ask(request, response) {
    const { method, url, headers } = request;
    const asked = http.request({ host: '127.0.0.1', port: this.relay.port, method, path: url, headers });
    asked.once('response', (answer) => {
      this.answers.push({ method, path: url.split('?')[0], status: answer.statusCode });
      response.writeHead(answer.statusCode, answer.rawHeaders);
      answer.pipe(response);
    });
    // Where relay is away, the broker sees its connection end, as it would without a proxy.
    asked.once('error', () => response.destroy());
    request.pipe(asked);
  }

  upgrade(request, socket, head) {
    const onward = net.connect(this.relay.port, '127.0.0.1');
    this.keep(onward, this.open);
    const { method, url, rawHeaders } = request;
    const path = url.split('?')[0];
    let text = `${method} ${url} HTTP/1.1\r\n`;
    for (let i = 0; i < rawHeaders.length; i += 2) text += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`;
    onward.write(`${text}\r\n`);
    onward.write(head);
    const frames = new Frames();
    let answer = Buffer.alloc(0);
    let open = false;
    let connection;
    const pass = (bytes) => {
      for (const { raw, frame } of frames.take(bytes)) {
        const refused = frame && refusedBy(frame);
        if (refused) this.refusedFrames.push(refused);
        if (frame?.type === 'deliver') this.delivered.push({ connection, frame });
        if (!frame || !this.loses(frame)) socket.write(raw);
      }
    };
    onward.on('data', (bytes) => {
      if (open) return pass(bytes);
      answer = Buffer.concat([answer, bytes]);
      const end = answer.indexOf('\r\n\r\n');
      if (end < 0) return;
      open = true;
      const status = Number(answer.toString('latin1', 9, 12));
      this.answers.push({ method, path, status });
      socket.write(answer.subarray(0, end + 4));
      if (status === 101 && path === '/v1/node/ws') {
        this.connections += 1;
        connection = this.connections;
        this.keep(socket, this.nodes);
      }
      pass(answer.subarray(end + 4));
    });
    socket.on('data', (bytes) => onward.write(bytes));
    for (const [one, other] of [[socket, onward], [onward, socket]]) {
      one.on('error', () => {});
      one.once('close', () => other.destroy());
      one.once('end', () => other.end());
    }
  }

  async stop() {
    this.server.close();
    for (const socket of this.open) socket.destroy();
  }
}

/** A path with `:name` and `:id` in place of what they stand for. */
function general(path) {
  return path
    .replace(/^(\/v1\/(?:agents|channels|nodes))\/[^/]+/, '$1/:name')
    .replace(/^(\/v1\/messages)\/[^/]+/, '$1/:id');
}

/** Cuts the bytes that relay sends over a WebSocket into frames: they are not masked, and each is a whole message. */
class Frames {
  rest = Buffer.alloc(0);

  *take(bytes) {
    this.rest = Buffer.concat([this.rest, bytes]);
    for (;;) {
      const have = this.rest;
      if (have.length < 2) return;
      const short = have[1] & 0x7f;
      const at = short === 126 ? 4 : short === 127 ? 10 : 2;
      if (have.length < at) return;
      const length = short === 126 ? have.readUInt16BE(2) : short === 127 ? Number(have.readBigUInt64BE(2)) : short;
      if (have.length < at + length) return;
      const raw = have.subarray(0, at + length);
      this.rest = have.subarray(at + length);
      const isText = have[0] === 0x81;
      yield { raw, frame: isText ? JSON.parse(raw.toString('utf8', at)) : undefined };
    }
  }
}
