// A relay that starts workers, in a place where Claude Code asks nothing, and what becomes of their processes.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { WAYS, World } from './agents.js';
import { claude, environment } from './claude.js';
import { ScriptedModel, closedProxy } from './model.js';
import { PATIENCE_MS, Relay, atEnd, relayBin, run, temporaryFolder } from './process.js';
import { Place, Session } from './session.js';
import { Agents, connected } from './surfaced.js';
import { until } from './terminal.js';

/** A relay and the workers that it starts: those that are Claude Codes ask `model`, and nobody else. */
export class Workers extends Agents {
  /** Nothing is started yet but the relay, with these variables set and in the directory of the place's project. */
  static async start(t, env = {}) {
    const workers = new Workers();
    workers.t = t;
    workers.sessions = [];
    // Before the folders are gone in which they write.
    atEnd(t, () => workers.end());
    workers.place = new Place(t);
    workers.model = await ScriptedModel.start(t);
    workers.proxy = await closedProxy(t);
    workers.relay = await Relay.absent(t);
    const folder = temporaryFolder(t);
    Object.assign(workers.relay, {
      cwd: workers.place.project,
      env: {
        ...environment(workers.place.home, workers.model, workers.proxy),
        ...{ PATH: `${path.dirname(claude)}:${process.env.PATH}`, RUST_BACKTRACE: '1' },
        ...{ XDG_DATA_HOME: workers.relay.runtime, XDG_RUNTIME_DIR: workers.relay.runtime },
        ...{ TMPDIR: folder, CLAUDE_CODE_TMPDIR: folder, SHELL: '/bin/sh' },
        CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL: '1',
        ...env,
      },
    });
    await workers.relay.up();
    return workers;
  }

  /** Says how workers are started: what stands under `workers` in `.relay/config.json`. */
  configure(workers) {
    const folder = path.join(this.place.project, '.relay');
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, 'config.json'), JSON.stringify({ workers }));
  }

  /** What a person does at the command line, who is `user`; gives back what it printed. */
  person(...args) {
    return this.command(...args, '--port', String(this.relay.port));
  }

  /** What a worker has written so far. */
  logs(name) {
    return this.command('logs', name);
  }

  async command(...args) {
    // There is no terminal here.
    const env = { ...this.relay.env, RELAY_PERSON: '1' };
    const { code, stdout, stderr } = await run(this.t, relayBin, args, { cwd: this.place.project, env });
    assert.equal(code, 0, `relay ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  /** An agent that has the tools of Agent Relay, and has heard of the start. */
  parent(name) {
    const world = new World(this.t, 'agent-relay', WAYS[0]);
    return Object.assign(world, { relay: this.relay, project: this.place.project }).join(name, null);
  }

  /** The same, which is a Claude Code in the project of the place, with relay's hooks; it is idle. */
  async parentSession(name) {
    const session = Object.assign(await Session.at(this.t, this.place), { name });
    this.sessions.push(session);
    const args = ['mcp', '--port', String(this.relay.port), '--tools', 'lift,agent-relay'];
    this.place.configure({ ...connected(this.relay), servers: { relay: { type: 'stdio', command: relayBin, args } } });
    await this.open(session);
    return session;
  }

  /** Waits until a worker is idle and can be woken. */
  async rested(name) {
    const isIdle = (program) => program?.activity === 'idle' && program.can_be_woken;
    await this.hears(({ role, program }) => role === name && isIdle(program), `${name} to rest`);
  }

  /** Waits until the workers that relay knows are these, in these states. */
  async are(states) {
    let seen;
    await until(
      async () => isDeepStrictEqual((seen = await this.#states()), states),
      () => `${JSON.stringify(states)}; they are ${JSON.stringify(seen)}`,
    );
  }

  async #states() {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(this.relay.url('api/workers'), { method: 'POST', headers, body: '{}' });
    const { workers } = await response.json();
    return Object.fromEntries(workers.map(({ name, state }) => [name, state]));
  }

  /** The processes below relay, which are those of its workers and their supervisors. */
  processes() {
    return below(this.relay.child.pid);
  }

  async end() {
    for (const session of this.sessions) await session.end();
    const left = this.relay?.child ? this.processes() : [];
    await this.relay?.stop();
    await gone(left);
    assert.deepEqual(this.proxy?.asked ?? [], [], 'something was asked of another machine');
  }
}

/** All processes that run now, as `{ pid, parent, state, began, command }`. */
function all() {
  const columns = ['pid=', 'ppid=', 'stat=', 'lstart=', 'args='].flatMap((column) => ['-o', column]);
  const options = { encoding: 'utf8', env: { ...process.env, LC_ALL: 'C' }, maxBuffer: 1 << 26 };
  return [...execFileSync('ps', ['-A', '-ww', ...columns], options).matchAll(LISTED)]
    .map(({ groups }) => ({ ...groups, pid: Number(groups.pid), parent: Number(groups.parent) }))
    .filter(({ state }) => !state.startsWith('Z'));
}

const LISTED = /^ *(?<pid>\d+) +(?<parent>\d+) +(?<state>\S+) +(?<began>\w+ \w+ +\d+ [\d:]+ \d+) (?<command>.*)$/gm;

/** Those that a process has started, and those that these have, and so on. */
export function below(pid) {
  const processes = all();
  const found = [];
  for (let parents = [pid]; parents.length > 0; ) {
    const children = processes.filter(({ parent }) => parents.includes(parent));
    found.push(...children);
    parents = children.map((child) => child.pid);
  }
  return found;
}

/** Waits until none of these processes runs. */
export async function gone(processes, limitMs = PATIENCE_MS) {
  const isOne = ({ pid, began }) => processes.some((one) => one.pid === pid && one.began === began);
  let left;
  await until(() => (left = all().filter(isOne)).length === 0, () => `the end of ${JSON.stringify(left)}`, limitMs);
}
