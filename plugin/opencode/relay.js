// relay's plugin for OpenCode: it says to relay what each session has come to, shows the model what relay answers, and has an idle
// session begin a turn once there is something for it. docs/HOOKS.md says what relay does with it.
//
// Nothing here may disturb OpenCode: where no relay answers nothing happens, and no prompt or tool waits for it longer than PATIENCE_MS.

import { readFileSync, statSync } from 'node:fs';

const PATIENCE_MS = 1_000;
const PATIENCE_STEP_MS = 50;

/** How soon relay is asked again for what to wake a session with while it is away: at first, and in the end. */
const AGAIN_FIRST_MS = 100;
const AGAIN_LAST_MS = 2_000;

const env = (name) => {
  const value = process.env[name] ?? '';
  // A variable that was not set where it stands as `${NAME}` says nothing.
  return value.includes('${') ? '' : value;
};

const PORT = env('RELAY_PORT') || '7331';
const TOKEN = env('RELAY_TOKEN');
/** This process, and where its number means it: what its models were shown is back once it is gone. Nothing where the system does not tell. */
const CLI = (() => {
  try {
    // From the third field on: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    const fields = readFileSync('/proc/self/stat', 'utf8').replace(/^.*\) /s, '').split(' ');
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return { cli: `${process.pid}-${fields[19]}`, namespace: `${boot}.${statSync('/proc/self/ns/pid').ino}` };
  } catch {
    return {};
  }
})();
/** Whose sessions they are, if that is known from the start. */
const WHO = Object.entries({ agent: env('RELAY_AGENT'), project: env('RELAY_PROJECT'), mode: env('RELAY_MODE'), ...CLI }).filter(
  ([, value]) => value,
);

/** The conversation of this process in which somebody spoke last: it alone is woken, since nobody sees the others. */
let current;

/** `opencode run` ends with its turn: nothing makes that go on, and nothing wakes it. */
const IS_RUN = process.argv.includes('run');

function ask(path, session, body, signal) {
  const query = new URLSearchParams([['process', session.id], ...WHO]);
  return fetch(`http://127.0.0.1:${PORT}/hooks/opencode${path}?${query}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(TOKEN && { authorization: `Bearer ${TOKEN}` }) },
    body,
    signal,
    // For Bun, which gives up after five minutes otherwise.
    timeout: false,
  });
}

/**
 * A signal after PATIENCE_MS, and what takes it back. It goes by steps, of which one counts as a step however late it comes: while it starts
 * OpenCode may do nothing else for a second, and then an answer that came meanwhile is to be looked at first.
 */
function patience() {
  const limit = new AbortController();
  let left = PATIENCE_MS / PATIENCE_STEP_MS;
  const timer = setInterval(() => {
    left -= 1;
    if (left === 0) limit.abort();
  }, PATIENCE_STEP_MS);
  timer.unref?.();
  return { signal: limit.signal, over: () => clearInterval(timer) };
}

/**
 * Says what a session has come to, behind what it has come to before, and gives back what its model is to be shown; nothing if that does
 * not come in time, or cannot be taken. What waits for its turn has its limit from now on, so that nobody waits longer for several.
 */
function tell(session, hook_event_name, more = {}, takes = true) {
  const { signal, over } = patience();
  const event = JSON.stringify({ hook_event_name, session_id: session.id, ...more });
  session.told = session.told.then(() => carry(session, event, signal, takes)).finally(over);
  return session.told;
}

/**
 * Carries an event there and the answer back. To give up is to break the connection off, which tells relay that its answer was not used;
 * where `fetch` has the whole answer by then, relay hears it from the session's end.
 */
async function carry(session, event, limit, takes) {
  try {
    const response = await ask('', session, event, limit);
    if (response.status === 200 && takes) return (await response.json()).hookSpecificOutput?.additionalContext;
    await response.body?.cancel();
    return undefined;
  } catch {
    return undefined;
  }
}

export const RelayPlugin = async ({ client }) => {
  /** What is known of each session, by its id; a promise of nothing for one that is a subagent's. */
  const sessions = new Map();

  function find(id, info) {
    if (!sessions.has(id)) sessions.set(id, look(id, info));
    return sessions.get(id);
  }

  async function look(id, info) {
    try {
      const { parentID } = info ?? (await client.session.get({ path: { id } })).data;
      if (parentID) return undefined;
      const session = { id, last: {}, told: Promise.resolve(), waiting: undefined };
      // Before all else: what it was shown in a process that was killed, nothing that it comes to in this one confirms.
      tell(session, 'SessionStart', { source: info ? 'startup' : 'resume' });
      return session;
    } catch {
      sessions.delete(id);
      return undefined;
    }
  }

  async function end(session) {
    sessions.delete(session.id);
    standDown(session);
    if (current === session) current = undefined;
    await tell(session, 'SessionEnd', { reason: 'other' });
  }

  /** Takes note that somebody has spoken in a session. */
  function turnTo(session) {
    if (current && current !== session) standDown(current);
    current = session;
  }

  function standDown(session) {
    session.waiting?.abort();
    session.waiting = undefined;
  }

  /** Has a session begin a turn whenever relay says so, until it ends or another stands by in its place. */
  async function standBy(session) {
    if (IS_RUN || session !== current || session.waiting) return;
    const waiting = new AbortController();
    session.waiting = waiting;
    let pause = AGAIN_FIRST_MS;
    while (!waiting.signal.aborted) {
      try {
        const response = await ask('/wait', session, undefined, waiting.signal);
        // Another waits. Whoever asked again at once would push that one away in turn.
        if (response.status === 204) break;
        if (response.status === 200) {
          const { text } = await response.json();
          await prompt(session, text);
          pause = AGAIN_FIRST_MS;
          continue;
        }
      } catch {
        // Relay is away, or the session has ended.
      }
      if (waiting.signal.aborted) break;
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, AGAIN_LAST_MS);
    }
    if (session.waiting === waiting) session.waiting = undefined;
  }

  /**
   * Begins a turn as the one before was: with the same agent, so that a session that only plans does not begin to write. What `fetch` has read
   * whole it has taken: it cannot break the connection off any more. Where OpenCode does not take the text, relay is told that the
   * session has ended instead, and keeps it for the next one.
   */
  async function prompt(session, text) {
    const parts = [{ type: 'text', text }];
    const taken = await client.session.promptAsync({ path: { id: session.id }, body: { ...session.last, parts } }).catch((error) => ({ error }));
    if (taken.error) await end(session);
  }

  return {
    event: async ({ event: { type, properties } }) => {
      if (type === 'session.created') {
        await find(properties.info.id, properties.info);
      } else if (type === 'session.idle') {
        const session = await find(properties.sessionID);
        if (!session) return;
        // The turn has ended: what would make it go on begins another.
        const text = await tell(session, 'Stop', {}, !IS_RUN);
        if (text) await prompt(session, text);
        standBy(session);
      } else if (type === 'permission.asked') {
        const session = await find(properties.sessionID);
        if (session) await tell(session, 'Notification', { notification_type: 'permission_prompt' });
      } else if (type === 'session.deleted') {
        const known = sessions.get(properties.info.id);
        // A subagent's, too.
        sessions.delete(properties.info.id);
        const session = await known;
        if (session) await end(session);
      }
    },

    'chat.message': async (input, { message, parts }) => {
      const session = await find(input.sessionID);
      if (!session) return;
      session.last = { agent: message.agent, model: message.model };
      turnTo(session);
      const prompt = parts.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
      const text = await tell(session, 'UserPromptSubmit', { prompt });
      if (text) {
        const { id, messageID, sessionID } = parts.at(-1) ?? {};
        // Behind the last one, since parts are in the order of their ids. The person is shown nothing of one that is synthetic.
        parts.push({ id: `${id ?? 'prt_'}0`, messageID: messageID ?? message.id, sessionID: sessionID ?? session.id, type: 'text', text, synthetic: true });
      }
      standBy(session);
    },

    'tool.execute.after': async ({ tool, sessionID, args }, output) => {
      // A tool of an MCP server gives back blocks, any other one a text.
      const blocks = output?.content;
      if (typeof output?.output !== 'string' && !Array.isArray(blocks)) return;
      const session = await find(sessionID);
      if (!session) return;
      const tool_name = tool.replace(/^relay_/, 'mcp__relay__');
      const text = await tell(session, 'PostToolUse', { tool_name, tool_input: args });
      if (!text) return;
      if (Array.isArray(blocks)) blocks.push({ type: 'text', text });
      else output.output += `\n\n${text}`;
    },

    dispose: async () => {
      const known = await Promise.all(sessions.values());
      await Promise.all(known.filter(Boolean).map(end));
    },
  };
};
