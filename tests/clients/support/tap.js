// A look at the bytes between a client and relay, which tells when a call is under way: nothing else does.

import { once } from 'node:events';
import net from 'node:net';
import { atEnd } from './process.js';

/** Where a relay listens that has a tap in front of it; the tap has the address that clients use. */
export const BEHIND = '127.0.0.2';

/**
 * How long a client is given to read what has passed, which nothing tells. Before relay's first word of progress there
 * is ten times as long.
 */
export const READING_MS = 100;

export class Tap {
  /** Listens in front of a relay that was started with `--host` BEHIND. */
  static async start(t, relay) {
    const tap = new Tap(relay.port);
    atEnd(t, () => tap.close());
    await tap.open();
    return tap;
  }

  constructor(port) {
    this.port = port;
  }

  async open() {
    this.server = net.createServer((client) => this.#join(client));
    this.server.listen(this.port, '127.0.0.1');
    await once(this.server, 'listening');
  }

  /** Takes no more connections, as when nothing listens there. */
  close() {
    this.server.close();
  }

  /** Holds new connections until what this returns is called, as if relay were back before its clients are. */
  hold() {
    let back;
    this.#back = new Promise((resolve) => (back = resolve));
    return back;
  }

  #back = Promise.resolve();

  async #join(client) {
    client.on('error', () => {});
    await this.#back;
    const relay = net.connect(this.port, BEHIND);
    const pass = (from, into, way) => {
      from.on('data', (bytes) => {
        this.#see(way, bytes.toString('latin1'));
        into.write(bytes);
      });
      from.on('error', () => {});
      from.on('close', () => into.destroy());
    };
    pass(client, relay, '>');
    pass(relay, client, '<');
  }

  #seen = '';
  #looking = new Set();

  /** Resolves when `pattern` has been seen in what passed, each piece after `>` from a client or `<` from relay. */
  async sees(pattern) {
    while (!pattern.test(this.#seen)) await new Promise((resolve) => this.#looking.add(resolve));
  }

  #see(way, text) {
    this.#seen += `${way}${text}`;
    for (const resolve of this.#looking) resolve();
    this.#looking.clear();
  }
}
