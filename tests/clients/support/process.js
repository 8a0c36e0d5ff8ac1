// Child processes of the tests: a relay server, and commands that run to their end. Every child is ended by its own pid.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const folder = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
export const relayBin = path.resolve(process.env.RELAY_BIN ?? path.join(folder, '../../target/debug/relay'));
export const python = path.join(folder, 'venv/bin/python');

/** Every time limit of the harness: far above what is ever needed, there to end a hang with a message, also on a machine that builds beside it. */
export const PATIENCE_MS = 120_000;
/** The same for a command that may be a whole session of an agent CLI. */
const COMMAND_MS = 600_000;

/**
 * Has `undo` run when the test ends, in the order in which this was called. All of them run, even if one fails; the
 * test runner would stop at the first.
 */
export function atEnd(t, undo) {
  if (!undos.has(t)) {
    undos.set(t, []);
    t.after(async () => {
      const errors = [];
      for (const step of undos.get(t)) {
        try {
          await step();
        } catch (error) {
          errors.push(error);
        }
      }
      if (errors.length > 0) throw errors.length === 1 ? errors[0] : new AggregateError(errors, errors.join('\n'));
    });
  }
  undos.get(t).push(undo);
}

const undos = new WeakMap();
const alive = new Set();
process.on('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});
// So does the test runner end a file that takes too long.
process.once('SIGTERM', () => process.exit(143));

/** Starts a child that dies with the test process; `child.ended` resolves to `{ code, signal }`. */
export function start(command, args, options = {}) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  alive.add(child);
  child.ended = new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal }));
  }).finally(() => alive.delete(child));
  child.ended.catch(() => {});
  return child;
}

/** Runs a command to its end, the test's end at the latest, and gives back its exit code and what it printed. */
export async function run(t, command, args, { limitMs = COMMAND_MS, onLine, ...options } = {}) {
  const child = start(command, args, options);
  atEnd(t, () => child.kill('SIGKILL'));
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  if (onLine) createInterface(child.stdout).on('line', (line) => onLine(line, child));
  const timer = setTimeout(() => child.kill('SIGKILL'), limitMs);
  const { code, signal } = await child.ended;
  clearTimeout(timer);
  return { code, signal, stdout, stderr };
}

// A port is taken below the ephemeral range, so that no client's outgoing connection can sit on it while the server is
// away, above the last one that `fetch` refuses to ask (10080, https://fetch.spec.whatwg.org/#port-blocking), and from a
// block of the test process's own, so that two test files never reach for the same one. The block is gone through again
// and again: whatever had a port so long ago has ended.
const PORTS = 40;
let portsTaken = 0;

export async function freePort() {
  for (let tried = 0; tried < PORTS; tried += 1) {
    const port = 11_000 + (process.pid % 220) * PORTS + (portsTaken % PORTS);
    portsTaken += 1;
    const probe = net.createServer();
    const free = await new Promise((resolve) => {
      probe.once('error', () => resolve(false));
      probe.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!free) continue;
    probe.close();
    await once(probe, 'close');
    return port;
  }
  throw new Error('no free port in the block of this process');
}

/** A folder of the test's own, gone when the test is. */
export function temporaryFolder(t) {
  const made = mkdtempSync(path.join(tmpdir(), 'relay-clients-'));
  atEnd(t, () => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** `promise`, or a failure that says what was waited for. */
export async function within(promise, what, limitMs = PATIENCE_MS) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${limitMs} ms for ${what}`)), limitMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A relay server of the test's own, stopped with SIGTERM when the test ends: it must then exit 0, with no panic. */
export class Relay {
  static async start(t, ...options) {
    const relay = await Relay.absent(t, ...options);
    await relay.up();
    return relay;
  }

  /** The same without starting it yet: a port with nothing behind it. */
  static async absent(t, ...options) {
    const relay = new Relay(await freePort(), options);
    relay.runtime = temporaryFolder(t);
    atEnd(t, () => relay.stop());
    return relay;
  }

  constructor(port, options) {
    this.port = port;
    this.options = options;
    this.lines = [];
    this.stderr = '';
    this.child = undefined;
    /** Where it is started, and with which environment: both are those of its workers. */
    this.cwd = undefined;
    this.env = relayEnv();
  }

  url(route, query = {}) {
    const url = new URL(`http://127.0.0.1:${this.port}/${route}`);
    for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value);
    return url;
  }

  async up() {
    assert.equal(this.child, undefined, 'the relay already runs');
    this.asked = Date.now();
    const args = ['serve', '--port', String(this.port), ...this.options];
    const env = { ...this.env, XDG_RUNTIME_DIR: this.runtime, XDG_DATA_HOME: this.runtime };
    const child = start(relayBin, args, { cwd: this.cwd, env });
    this.child = child;
    child.stderr.setEncoding('utf8').on('data', (text) => (this.stderr += text));
    const ready = new Promise((resolve) => {
      createInterface(child.stdout).on('line', (line) => {
        this.lines.push(line);
        if (line.includes(`[relay] server ready on :${this.port}`)) resolve('ready');
      });
    });
    const first = await within(Promise.race([ready, child.ended]), 'the ready line of relay serve');
    assert.equal(first, 'ready', `relay serve ended: ${JSON.stringify(first)}\n${this.stderr}`);
  }

  async health() {
    return (await fetch(this.url('health'))).json();
  }

  /** Resolves once a read waits. A call that was begun after it may be answered before relay has heard of it. */
  async aReadWaits() {
    await this.#until((connections) => connections.some(({ waits }) => waits.length > 0));
  }

  /** Resolves once none waits any more. A call that was cancelled before it waits until relay has heard of that. */
  async noReadWaits() {
    await this.#until((connections) => connections.every(({ waits }) => waits.length === 0));
  }

  async #until(is) {
    const limit = AbortSignal.timeout(PATIENCE_MS);
    while (!is((await this.health()).connections)) {
      limit.throwIfAborted();
      await sleep(10);
    }
  }

  async kill9() {
    const child = this.child;
    child.kill('SIGKILL');
    await within(child.ended, 'the end of a killed relay');
    this.child = undefined;
  }

  async restart() {
    await this.kill9();
    await this.up();
  }

  async stop() {
    const child = this.child;
    if (!child) return;
    this.child = undefined;
    child.kill('SIGTERM');
    let end;
    try {
      end = await within(child.ended, 'relay serve to end after SIGTERM', 10_000);
    } finally {
      child.kill('SIGKILL');
    }
    assert.deepEqual(end, { code: 0, signal: null }, this.stderr);
    assert.doesNotMatch(this.stderr, /panicked at/);
  }
}

/** What says that an agent calls, where an agent runs these tests. */
const OF_AGENTS = ['CLAUDECODE', 'CODEX_THREAD_ID', 'GEMINI_CLI', 'OPENCODE'];

/** The environment of a relay: nothing that a developer's shell may have set for it. The tests have no terminal, and are the person. */
export function relayEnv() {
  const env = { ...process.env, RUST_BACKTRACE: '1' };
  for (const name of Object.keys(env)) if (name.startsWith('RELAY_') || OF_AGENTS.includes(name)) delete env[name];
  return { ...env, RELAY_PERSON: '1' };
}
