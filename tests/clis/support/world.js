// One relay, one agent CLI and a script as its model, with an empty home and a proxy that refuses everything.

import assert from 'node:assert/strict';
import { mkdirSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { closedProxy } from '../../clients/support/model.js';
import { Relay, atEnd, relayBin, relayEnv, run, temporaryFolder, within } from '../../clients/support/process.js';
import { until } from '../../clients/support/terminal.js';
import { ScriptedModel } from './model.js';

/** What stands before the messages of a wake. */
export const WOKEN = '[relay wake MARK] woken by relay, the message bus of the agents on this machine\n';

export class World {
  static async start(t, cli) {
    const world = await World.absent(t, cli);
    await world.relay.up();
    return world;
  }

  /** The same with a port behind which nothing is. */
  static async absent(t, cli) {
    const world = new World(t, cli);
    world.relay = await Relay.absent(t);
    world.proxy = await closedProxy(t);
    return world;
  }

  constructor(t, cli) {
    this.t = t;
    this.cli = cli;
    this.home = realpathSync(temporaryFolder(t));
    this.project = path.join(this.home, 'project');
    mkdirSync(this.project);
  }

  /** Runs a command of relay's. */
  async command(...args) {
    const { code, stdout, stderr } = await run(this.t, relayBin, [...args, '--port', String(this.relay.port)], { env: { ...relayEnv(), HOME: this.home } });
    assert.equal(code, 0, stdout + stderr);
    return stdout;
  }

  /** Sends dev-a a message from dev-b. */
  send(body, ...args) {
    return this.command('send', ...args, '--from', 'dev-b', 'dev-a', body);
  }

  /** Waits until this is what relay says of the sessions of hooks: what each does, and whether it can be woken. */
  are(...programs) {
    let found;
    const same = async () => {
      const { connections } = await this.relay.health();
      found = connections.flatMap(({ program }) => (program ? [`${program.activity}${program.can_be_woken ? ', can be woken' : ''}`] : []));
      return isDeepStrictEqual(found.sort(), programs.toSorted());
    };
    const shown = (all) => all.join(' and ') || 'no session';
    return until(same, () => `${shown(programs)}; there is ${shown(found)}`);
  }

  /** What waits for dev-a, and what was handed to it and is not confirmed. */
  async inbox() {
    const { unread, held, in_doubt, oldest_seconds } = (await this.relay.health()).roles.find(({ role }) => role === 'dev-a');
    return { unread, held, in_doubt, oldest_seconds };
  }

  /** Waits until all that dev-a was shown is confirmed, and shows that nothing waits for it. */
  async nothingIsLeft() {
    await until(async () => (await this.inbox()).in_doubt === 0, 'what was shown to be confirmed');
    assert.deepEqual(await this.inbox(), { unread: 0, held: 0, in_doubt: 0, oldest_seconds: null });
  }

  async model(script) {
    return ScriptedModel.start(this.t, this.cli.dialect, script);
  }

  env(more, agent) {
    return {
      PATH: process.env.PATH,
      HOME: this.home,
      ...(agent && { RELAY_AGENT: agent }),
      ...{ HTTP_PROXY: this.proxy.url, HTTPS_PROXY: this.proxy.url, NO_PROXY: '127.0.0.1,localhost' },
      ...more,
    };
  }

  /** Runs one turn of the CLI without a person, with `script` as its model, until both have ended. */
  async turn(script, { agent, prompt = 'go on' } = {}) {
    const model = await this.model(script);
    const { command, args, env } = this.cli.turn({ ...this, model, prompt });
    const ran = run(this.t, command, args, { cwd: this.project, env: this.env(env, agent) });
    // A script that fails leaves its last request open: the CLI would wait for it.
    const ended = await Promise.race([ran, model.finished.then(() => ran)]);
    assert.equal(ended.code, 0, ended.stdout + ended.stderr);
    await within(model.finished, 'the script to end');
    return ended;
  }
}

/** What relay puts in front of a model for these messages from dev-b, without their times and ids. */
export function framed(...bodies) {
  const count = bodies.length;
  const messages = bodies.map(
    (body, at) =>
      `[relay] ${at + 1} of ${count}: free from the agent dev-b, TS, id ID\n| ${body}\n` +
      `[relay] end of ${at + 1}; answer with relay's tool for posting (post_message, send_message or relay_send), to "dev-b"\n`,
  );
  const s = count === 1 ? '' : 's';
  return `[relay] ${count} message${s} for dev-a; what a sender wrote is in lines that begin with "| ", and nothing else is in them\n${messages.join('')}`;
}

/** What a model is shown, without times, ids and the marks of wakes. */
export function plain(news) {
  return news.map(({ role, text }) => ({
    role,
    text: text
      .replace(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, 'ID')
      .replace(/\b\d{4}-\d\d-\d\dT[\d:.]+Z\b/g, 'TS')
      .replace(/\[relay wake [0-9a-f]{32}-\d+\]/, '[relay wake MARK]'),
  }));
}
