// Agents that are Claude Codes with relay's hooks, and what their models are shown by these.

import assert from 'node:assert/strict';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Agent, HTTP, postedId } from './clients.js';
import { Relay, relayBin, within } from './process.js';
import { Session } from './session.js';
import { until } from './terminal.js';

/** The hooks by which Claude Code tells relay what it does, is shown what there is, and is woken: those of `relay install`. */
export function hooks(relay) {
  const hook = `"${relayBin}" hook claude`;
  const tells = { type: 'command', command: `${hook} --port ${relay.port}` };
  const waits = { type: 'command', command: `${hook} wait --port ${relay.port}`, asyncRewake: true, timeout: 2_000_000 };
  const [told, waited] = [[{ hooks: [tells] }], [{ hooks: [tells] }, { hooks: [waits] }]];
  return {
    SessionStart: waited,
    UserPromptSubmit: waited,
    PostToolUse: told,
    PostToolUseFailure: told,
    Notification: told,
    Stop: waited,
    SessionEnd: told,
  };
}

/** The request that waits for an answer of a session's model. */
export const asked = ({ name, model }) => within(model.asked(), `a request of ${name}'s model`);

/** Has a session's model call a tool that runs while `during` does. */
export async function whileToolRuns(session, during) {
  const [runs, over] = ['runs', 'over'].map((name) => path.join(session.place.project, name));
  await session.model.begin(['Bash', { command: `touch ${runs}; while [ ! -e ${over} ]; do sleep 0.02; done` }]);
  await until(() => existsSync(runs), 'the tool to run');
  const result = await during();
  writeFileSync(over, '');
  await asked(session);
  for (const file of [runs, over]) rmSync(file);
  return result;
}

/** Ends a session's turn, also if it goes on since there is something to show; gives back the last request. */
export async function rests(session) {
  const { model } = session;
  await session.is('busy');
  do {
    await model.say('well');
    await until(() => model.isAsked || session.state === 'idle', `${session.name} to rest`);
  } while (model.isAsked);
  return model.conversation.at(-1);
}

/** What a project's folder has for Claude Code to be connected with relay. */
export const connected = (relay, permissions = {}) => ({
  servers: { relay: { type: 'http', url: `${relay.url('mcp')}?agent=\${RELAY_AGENT:-}`, alwaysLoad: true } },
  settings: {
    hooks: hooks(relay),
    permissions: { defaultMode: 'default', allow: ['Bash', 'mcp__relay'], ...permissions },
  },
});

/** What happened to a message that woke a session, and to one that a hook's answer brought. */
export const WOKEN = ['queued', 'handed_over over wake', 'read by acknowledged'];
export const SHOWN = ['queued', 'handed_over over hook', 'read by called_again'];

/** A relay, Claude Codes which are agents of it, and somebody else who sends. */
export class Agents {
  /** Nobody has been started yet. */
  static async make(t, ...names) {
    const agents = new Agents();
    agents.t = t;
    agents.sessions = [];
    for (const name of names) agents.sessions.push(Object.assign(await Session.at(t), { name }));
    agents.relay = await Relay.start(t);
    agents.sender = await Agent.connect(t, HTTP, agents.relay);
    for (const { place } of agents.sessions) place.configure(connected(agents.relay));
    return agents;
  }

  /** Everybody is idle, and can be woken. */
  static async start(t, ...names) {
    const agents = await Agents.make(t, ...names);
    for (const session of agents.sessions) await agents.open(session);
    return agents;
  }

  /** Starts a session, and waits until it can be woken, or was. Without a name it is nobody yet. */
  async open(session) {
    await session.open({ env: session.name ? { RELAY_AGENT: session.name } : {} });
    const isThere = (program) => program?.can_be_woken || program?.activity === 'busy';
    await this.hears(({ role, program }) => role === (session.name ?? null) && isThere(program), 'the hooks of a session');
  }

  /** Waits until one of relay's connections is like that. */
  async hears(is, what) {
    let connections;
    await until(
      async () => ({ connections } = await this.relay.health()) && connections.some(is),
      () => `${what}: ${JSON.stringify(connections)}`,
    );
  }

  /** Sends as another agent; gives back the message as a model is shown it, with what the sender was told. */
  async send(to, body, { from = 'dev-b', kind = 'question', ...more } = {}) {
    const { content, isError } = await this.sender.call('post_message', { from, to, kind, body, ...more });
    const notes = content.slice(1).map(({ text }) => text);
    return { shown: { id: postedId({ content, isError }), from, kind, body }, notes };
  }

  /**
   * What happened to a message, as `STEP`, `STEP over WAY` and `STEP by SIGN`. That what was read is delivered, which relay says
   * some time later, is left out.
   */
  async trace({ shown: { id } }) {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(this.relay.url('api/trace'), { method: 'POST', headers, body: JSON.stringify({ message: id }) });
    const { steps } = await response.json();
    return steps
      .filter(({ step }, i) => step !== 'delivered' || steps[i - 1].step !== 'read')
      .map(({ step, over, by }) => [step, ...(over ? ['over', over] : []), ...(by ? ['by', by] : [])].join(' '));
  }

  /** Waits until exactly that has happened to a message. */
  async traced(sent, ...steps) {
    let seen;
    await until(
      async () => isDeepStrictEqual((seen = await this.trace(sent)), steps),
      () => `${JSON.stringify(steps)}; it is ${JSON.stringify(seen)}`,
    );
  }
}

/** A message in its frame. */
const FRAME = new RegExp(
  String.raw`^\[relay\] (?<at>\d+) of \d+: (?<kind>\w+) from (?:the agent (?<agent>\S+)|your user, who sent it by relay|(?<relay>relay) itself), ` +
    String.raw`\S+Z, id (?<id>[-\da-f]+)(?<again>, which you may have been shown before)?\n(?<body>(?:\| .*\n)+)` +
    String.raw`\[relay\] end of \k<at>; (?:answer with relay's tool for posting \(.*\), to "(?<answerTo>.*)"|nobody reads an answer to it)$`,
  'gm',
);

/** The messages that a model has been shown by hooks up to a request of its, each time that it was, in order. */
export function framesIn({ messages }) {
  return [...textIn(messages).matchAll(FRAME)].map(({ groups }) => {
    const { id, agent, relay, kind, again, answerTo } = groups;
    const from = agent ?? relay ?? 'user';
    assert.equal(answerTo, relay ? undefined : from);
    const body = groups.body.replaceAll(/^\| /gm, '').slice(0, -1);
    const own = { ...(from === 'user' ? { isPerson: true } : {}), ...(relay ? { isRelay: true } : {}) };
    return { id, from, kind, body, ...own, ...(again ? { again: true } : {}) };
  });
}

/** How often a session has been woken up to a request of its model's. */
export const wakesIn = ({ messages }) => textIn(messages).match(/^.*\[relay wake /gm)?.length ?? 0;

/** All that a model was told but for what its tools gave. */
function textIn(messages) {
  const blocks = messages.flatMap(({ content }) => (typeof content === 'string' ? { type: 'text', text: content } : content));
  return blocks.filter(({ type }) => type === 'text').map(({ text }) => text).join('\n');
}
