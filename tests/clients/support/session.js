// Claude Code as a person has it: in a terminal, with a project, settings and hooks, and a script as its model.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { claude, environment } from './claude.js';
import { ScriptedModel, closedProxy } from './model.js';
import { atEnd, temporaryFolder } from './process.js';
import { Terminal, until } from './terminal.js';

/** A project's folder and a home that has answered all that Claude Code asks of somebody who starts it there. */
export class Place {
  constructor(t) {
    this.home = temporaryFolder(t);
    this.project = path.join(this.home, 'project');
    mkdirSync(path.join(this.project, '.claude'), { recursive: true });
    mkdirSync(path.join(this.home, '.claude'));
    this.#write(this.home, '.claude.json', {
      hasCompletedOnboarding: true,
      theme: 'dark',
      customApiKeyResponses: { approved: ['dummy'], rejected: [] },
      projects: { [this.project]: { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true } },
    });
  }

  /** Puts MCP servers and settings where Claude Code reads those of a project. */
  configure({ servers = {}, settings = {} }) {
    this.#write(this.project, '.mcp.json', { mcpServers: servers });
    const trusted = { enabledMcpjsonServers: Object.keys(servers) };
    this.#write(this.project, '.claude/settings.local.json', { ...trusted, ...settings });
  }

  #write(folder, name, content) {
    writeFileSync(path.join(folder, name), `${JSON.stringify(content, undefined, 2)}\n`);
  }
}

/**
 * An interactive Claude Code. Its model is asked by nobody else; whatever it asks of another machine fails the test. It is
 * killed when the test ends, before whatever was made later: the relay that it asks is made after it.
 */
export class Session {
  /** A session that is to be opened, in a place of its own if none is given. */
  static async at(t, place) {
    const session = new Session(t);
    atEnd(t, () => session.end());
    session.place = place ?? new Place(t);
    session.model = await ScriptedModel.start(t);
    session.proxy = await closedProxy(t);
    return session;
  }

  constructor(t) {
    this.t = t;
  }

  /** Starts Claude Code in the place's project and waits until a person could type. */
  async open({ env = {}, args = [] } = {}) {
    const { home, project } = this.place;
    // Its sockets and the output of its tasks are beside the terminal's, and gone with them.
    const folder = temporaryFolder(this.t);
    const own = {
      ...{ TMPDIR: folder, CLAUDE_CODE_TMPDIR: folder, SHELL: '/bin/sh' },
      CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL: '1',
    };
    this.terminal = await Terminal.open(folder, [claude, ...args], {
      cwd: project,
      env: { ...environment(home, this.model, this.proxy), ...own, ...env },
    });
    await this.terminal.shows((screen) => PROMPT.test(screen), 'the prompt of Claude Code');
    await this.is('idle');
    return this;
  }

  get pid() {
    return this.terminal.pid;
  }

  /** What Claude Code says of itself, `idle`, `busy` or `waiting`; undefined before it says something. */
  get state() {
    try {
      return JSON.parse(readFileSync(path.join(this.place.home, `.claude/sessions/${this.pid}.json`), 'utf8')).status;
    } catch (error) {
      if (error.code !== 'ENOENT' && !(error instanceof SyntaxError)) throw error;
      return undefined;
    }
  }

  /** Waits until it says so of itself. */
  async is(state) {
    await until(() => this.state === state, () => `a session that is ${state}; it is ${this.state}`);
  }

  screen() {
    return this.terminal.screen();
  }

  /** Waits until the screen has a text. */
  shows(text) {
    return this.terminal.shows((screen) => screen.includes(text), JSON.stringify(text));
  }

  /** What stands in the input box, in which a person may have begun to write. */
  async draft() {
    return draftOn(await this.screen());
  }

  /** Types a text of one line and leaves it there, as a person does who has not finished. */
  async drafts(text) {
    await this.terminal.types(text);
    await this.terminal.shows((screen) => draftOn(screen) === text, `the draft ${JSON.stringify(text)}`);
  }

  /** Gives the model a prompt of one line, as a person does. */
  async prompts(text) {
    await this.drafts(text);
    await this.terminal.presses('Enter');
  }

  presses(key) {
    return this.terminal.presses(key);
  }

  /** Answers a dialog by a key. For a moment after it has opened Claude Code takes none, and nothing says how long. */
  async answers(key) {
    const isOver = () => this.state !== 'waiting';
    await until(async () => {
      await this.presses(key);
      return until(isOver, '', 1_000).catch(isOver);
    }, 'the end of the dialog');
  }

  /** Leaves as a person does, by a key that is pressed twice in a moment, and waits until the process is gone. */
  async leaves() {
    const isOver = () => !this.terminal.runs;
    await until(async () => {
      if (PROMPT.test(await this.screen())) await this.terminal.pressesTwice('C-d');
      return until(isOver, '', 5_000).catch(isOver);
    }, 'Claude Code to end').catch(async (error) => {
      throw new Error(`${error.message}; the screen:\n${await this.screen()}`, { cause: error });
    });
  }

  /** Kills it at once. */
  async kill9() {
    process.kill(this.pid, 'SIGKILL');
    await until(() => !this.terminal.runs, 'Claude Code to end');
  }

  async end() {
    await this.terminal?.close();
    assert.deepEqual(this.proxy?.asked ?? [], [], 'something was asked of another machine');
  }
}

/** The input box: a prompt between two lines. */
const PROMPT = /^─+\n❯([^─]*)\n─+$/m;

function draftOn(screen) {
  return PROMPT.exec(screen)?.[1].trim();
}
