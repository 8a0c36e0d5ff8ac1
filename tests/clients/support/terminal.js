// A program in a terminal that nobody sits at: a tmux server of the test's own with one pane.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PATIENCE_MS, start } from './process.js';

/** How often in a row a program has nothing to do before it counts as having taken what it was given. */
const LOOKS = 5;
const LOOK_EVERY_MS = 20;
/** After how long a key that did nothing counts as thrown away. */
const PRESS_AGAIN_MS = 1_000;
const [COLUMNS, ROWS] = [150, 50];

/** The environment of tmux itself: nothing of a tmux in which the tests may run. */
const TMUX = { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' };

/** Looks again and again until `is` gives something true, which is given back; `what` may be a function that says it late. */
export async function until(is, what, limitMs = PATIENCE_MS) {
  const limit = performance.now() + limitMs;
  for (;;) {
    const found = await is();
    if (found) return found;
    assert.ok(performance.now() < limit, `waited ${limitMs} ms for ${typeof what === 'function' ? what() : what}`);
    await sleep(10);
  }
}

/** One pane and what runs in it. Whoever opens it has to close it. */
export class Terminal {
  /** Runs a command there, with this environment and nothing else; its files of its own are in `folder`. */
  static async open(folder, command, { cwd, env }) {
    const terminal = new Terminal(path.join(folder, 'tmux'));
    await terminal.#open(command, cwd, env);
    return terminal;
  }

  constructor(socket) {
    this.socket = socket;
  }

  async #open(command, cwd, env) {
    // What another one has left there that was ended.
    rmSync(this.socket, { force: true });
    // In the foreground, so that it ends when the test's process does, and what runs in it with it.
    this.server = start('tmux', ['-D', '-S', this.socket, '-f', '/dev/null'], { stdio: 'ignore', env: TMUX });
    // Its socket may be there a moment before it listens.
    await until(async () => (await this.#run('set-option', '-g', 'remain-on-exit', 'on')).code === 0, 'tmux to listen');
    const size = ['-x', String(COLUMNS), '-y', String(ROWS)];
    const whole = { ...env, TERM: 'xterm-256color', LC_ALL: 'C.UTF-8' };
    const variables = Object.entries(whole).map(([name, value]) => `${name}=${value}`);
    await this.#tmux('new-session', '-d', ...size, '-s', 'pane', '-c', cwd, 'env', '-i', ...variables, ...command);
    const [pid, tty] = (await this.#tmux('display-message', '-p', '-t', 'pane', '#{pane_pid} #{pane_tty}')).trim().split(' ');
    this.pid = Number(pid);
    this.tty = tty.replace('/dev/', '');
  }

  /** What is on the screen, as lines without what is blank at their ends. */
  async screen() {
    return (await this.#tmux('capture-pane', '-p', '-t', 'pane')).trimEnd();
  }

  /** Waits until `is` is true of the screen. */
  async shows(is, what, limitMs = PATIENCE_MS) {
    let screen;
    await until(async () => is((screen = await this.screen())), () => `${what}; the screen:\n${screen}`, limitMs);
    return screen;
  }

  /** Types a text as it is. */
  async types(text) {
    await this.#tmux('send-keys', '-t', 'pane', '-l', '--', text);
  }

  /** Presses a key, by the name that tmux has for it. */
  async presses(key) {
    await this.#tmux('send-keys', '-t', 'pane', key);
  }

  /** Presses a key two times, a moment apart: so near that a busy machine does not part them. */
  async pressesTwice(key) {
    const press = ['send-keys', '-t', 'pane', key];
    await this.#tmux(...press, ';', 'run-shell', 'sleep 0.1', ';', ...press);
  }

  /**
   * Types a text and presses Enter, as often as it takes until `taken` is true of the screen. A program may show what it was given
   * before it has taken it in, and then would enter what was there before, so Enter waits until it has nothing to do.
   */
  async says(text, taken = () => true) {
    await this.types(text);
    await this.shows((screen) => screen.includes(text), `what is typed: ${text}`);
    await this.settles();
    await until(async () => {
      await this.presses('Enter');
      const isTaken = async () => taken(await this.screen());
      return until(isTaken, '', PRESS_AGAIN_MS).catch(isTaken);
    }, () => `${text} to be taken`);
  }

  /** Waits until all that runs in the terminal has nothing to do, for several looks, and the screen has been the same at each. */
  async settles() {
    let [before, quiet] = ['', 0];
    await until(async () => {
      await sleep(LOOK_EVERY_MS);
      const { stdout } = spawnSync('ps', ['-o', 'stat=', '-t', this.tty], { encoding: 'utf8' });
      const isIdle = !/^[RD]/m.test(stdout);
      const screen = await this.screen();
      quiet = isIdle && screen === before ? quiet + 1 : 0;
      before = screen;
      return quiet >= LOOKS;
    }, () => `the program to have nothing to do; the screen:\n${before}`);
  }

  /** Whether the program runs still. What has ended may be there as a zombie: tmux misses the end of some. */
  get runs() {
    const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(this.pid)], { encoding: 'utf8' });
    return /^[^Z]/.test(stdout);
  }

  /** Ends the program at once, if it runs still, and the terminal with it. */
  async close() {
    if (this.pid !== undefined && this.runs) process.kill(this.pid, 'SIGKILL');
    this.server?.kill('SIGTERM');
    await this.server?.ended;
  }

  async #tmux(...args) {
    const { stdout, ...ended } = await this.#run(...args);
    assert.deepEqual(ended, { code: 0, stderr: '' }, `tmux ${args[0]}`);
    return stdout;
  }

  async #run(...args) {
    const child = start('tmux', ['-S', this.socket, ...args], { env: TMUX });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
    const { code } = await child.ended;
    return { code, stdout, stderr };
  }
}
