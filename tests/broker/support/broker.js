// The broker of Agent Relay as a child process, and what it says of itself.

import assert from 'node:assert/strict';
import { chmodSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { PATIENCE_MS, atEnd, freePort, start, temporaryFolder, within } from '../../clients/support/process.js';

const program = fileURLToPath(
  new URL('../node_modules/@agent-relay/broker-linux-x64/bin/agent-relay-broker', import.meta.url),
);

/**
 * A broker with a home and a state of its own, which it keeps over a restart. It is killed when the test ends; its workers end
 * when it does.
 */
export class Broker {
  static async start(t, { url, key, name = 'fleet1' }) {
    chmodSync(program, 0o755);
    let broker;
    atEnd(t, () => broker?.kill9());
    broker = new Broker(url, name, await freePort(), temporaryFolder(t));
    await broker.up(key);
    return broker;
  }

  constructor(url, name, port, home) {
    Object.assign(this, { url, name, port, home });
    this.state = path.join(home, 'state');
    this.child = undefined;
    this.output = '';
  }

  /** Starts it, and waits until it answers and is connected to relay. */
  async up(key) {
    rmSync(path.join(this.state, 'connection.json'), { force: true });
    const args = [
      ...['init', '--instance-name', this.name, '--workspace-key', key],
      ...['--api-port', String(this.port), '--state-dir', this.state],
    ];
    const env = {
      PATH: process.env.PATH,
      HOME: this.home,
      TZ: 'UTC',
      DO_NOT_TRACK: '1',
      NO_PROXY: '127.0.0.1',
      RELAYCAST_BASE_URL: this.url,
      RELAY_BASE_URL: this.url,
    };
    const child = start(program, args, { env, cwd: this.home });
    this.child = child;
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (this.output += text));
    const ended = child.ended.then((end) => {
      throw new Error(`the broker ended: ${JSON.stringify(end)}\n${this.output}`);
    });
    ended.catch(() => {});
    await Promise.race([ended, this.connects()]);
  }

  connects() {
    return until('the broker to connect', async () => (await this.listing().catch(() => undefined))?.connected);
  }

  /** What it says of deliveries. */
  listing() {
    return this.ask('GET', '/api/node-delivery');
  }

  async spawn(name) {
    const answer = await this.ask('POST', '/api/spawn', { name, cli: 'cat' });
    assert.equal(answer.success, true, JSON.stringify(answer));
  }

  async ask(method, address, body) {
    const { api_key } = JSON.parse(readFileSync(path.join(this.state, 'connection.json'), 'utf8'));
    const answer = await fetch(`http://127.0.0.1:${this.port}${address}`, {
      method,
      headers: { authorization: `Bearer ${api_key}`, ...(body && { 'content-type': 'application/json' }) },
      body: body && JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const text = await answer.text();
    try {
      return JSON.parse(text);
    } catch {
      throw new Error(`the broker answered ${answer.status} ${text} to ${method} ${address}`);
    }
  }

  /** What a worker printed, `cat`: what it was given. */
  printed(name) {
    return readFileSync(path.join(this.state, 'team', 'worker-logs', `${name}.log`), 'utf8');
  }

  /** Ends it with SIGKILL, which leaves it no time for anything. */
  async kill9() {
    const child = this.child;
    if (!child) return;
    this.child = undefined;
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await within(child.ended, 'the end of a killed broker');
  }
}

/** Waits until `done` gives something that is true, and gives it back. */
export async function until(what, done, limitMs = PATIENCE_MS) {
  const limit = Date.now() + limitMs;
  for (;;) {
    const got = await done();
    if (got) return got;
    if (Date.now() > limit) throw new Error(`waited ${limitMs} ms for ${what}`);
    await sleep(250);
  }
}
