// A plain node over relay's WebSocket, which has the published parser look at each frame that it gets.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { atEnd, within } from '../../clients/support/process.js';
import { refusedBy } from './parser.js';

export class Node {
  /** All frames that it got, over all of its connections. */
  frames = [];
  /** What the parser has against them. */
  refused = [];
  asked = 0;
  came = new EventTarget();

  constructor(t, relay, { id, name, token }) {
    Object.assign(this, { relay, id, name, token });
    atEnd(t, () => this.socket?.close());
  }

  /** Connects and registers. `more` is what it says of itself beside its names. */
  async connect(more = {}) {
    const url = this.relay.url('v1/node/ws', { token: this.token });
    url.protocol = 'ws:';
    const socket = new WebSocket(url);
    this.socket = socket;
    socket.addEventListener('message', ({ data }) => this.take(JSON.parse(data)));
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve, { once: true });
      socket.addEventListener('error', () => reject(new Error(`${this.name} could not connect`)), { once: true });
    });
    const who = { node_id: this.id, name: this.name, capabilities: [], max_agents: 0, tags: [], version: '1' };
    return this.ask({ type: 'node.register', ...who, ...more });
  }

  take(frame) {
    this.frames.push(frame);
    const refused = refusedBy(frame);
    if (refused) this.refused.push(refused);
    this.came.dispatchEvent(new Event('frame'));
  }

  /** Ends its connection, and leaves what it has not acknowledged to the next one. */
  async disconnect() {
    const { socket } = this;
    const closed = once(socket, 'close');
    socket.close();
    await within(closed, 'the connection to end');
  }

  say(frame) {
    this.socket.send(JSON.stringify({ v: 1, ...frame }));
  }

  /** Says something, and gives back what is answered. */
  async ask(frame) {
    this.asked += 1;
    const id = `${this.name}-${this.asked}`;
    this.say({ id, ...frame });
    const [answer] = await this.hears(`the answer to ${JSON.stringify(frame)}`, (answer) => answer.id === id);
    return answer;
  }

  /** Waits until so many frames came that are meant, and gives them back. */
  async hears(what, is, many = 1) {
    for (;;) {
      const meant = this.frames.filter(is);
      if (meant.length >= many) return meant;
      await within(once(this.came, 'frame'), `${what}, of which ${this.name} has ${meant.length}`);
    }
  }

  /** The deliveries to an agent that have a number, in the order in which they came. */
  deliveries(agent) {
    return this.frames.filter((frame) => frame.type === 'deliver' && frame.seq > 0 && frame.agent === agent);
  }

  acknowledge(agent) {
    const numbers = this.deliveries(agent).map(({ seq }) => seq);
    assert.ok(numbers.length > 0, `${agent} got nothing`);
    this.say({ type: 'delivery.ack', agent, up_to_seq: Math.max(...numbers) });
  }
}
