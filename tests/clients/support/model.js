// A stand-in for the model behind Claude Code: an HTTP server on loopback that streams what a script says, and a proxy
// that no request may ever ask for anything.

import { once } from 'node:events';
import http from 'node:http';
import { atEnd } from './process.js';

/**
 * What a script says in one conversation: `use` answers the open request with one tool call and returns what the model is
 * shown as its result; `say` answers with text and ends the turn. A request stays open until one of them answers it.
 */
class Conversation {
  /** The bodies of the requests that belong to it. */
  conversation = [];
  /** When each of them was there, on the clock of `performance.now`. */
  times = [];
  #open = [];
  #waiting = [];

  async use(name, input) {
    const [result] = await this.useTogether([name, input]);
    return result;
  }

  /** Answers with several tool calls at once, each a name and its input; gives back their results in that order. */
  async useTogether(...uses) {
    const ids = await this.begin(...uses);
    const blocks = (await this.#peek()).body.messages.flatMap((message) => message.content);
    return ids.map((id) => {
      const shown = blocks.findLast((block) => block.type === 'tool_result' && block.tool_use_id === id);
      const content = typeof shown.content === 'string' ? [{ type: 'text', text: shown.content }] : shown.content;
      return { content, isError: shown.is_error ?? false };
    });
  }

  /** The same without waiting for the results, for calls during which something is to happen; gives back their ids. */
  async begin(...uses) {
    const blocks = uses.map(([name, input]) => {
      calls += 1;
      return { type: 'tool_use', id: `toolu_${String(calls).padStart(24, '0')}`, name, input };
    });
    answer(await this.#next(), ...blocks);
    return blocks.map(({ id }) => id);
  }

  async say(text) {
    answer(await this.#next(), { type: 'text', text });
  }

  /** Begins to answer with a text, and comes to no end. */
  async speaks(text) {
    const { body, response } = await this.#next();
    const events = eventsOf(body, 'end_turn', { type: 'text', text });
    send(response, events.slice(0, events.findIndex(({ type }) => type === 'content_block_stop')));
  }

  /** The body of the request that waits for the script's next answer. */
  async asked() {
    return (await this.#peek()).body;
  }

  /** Whether a request waits for an answer now. */
  get isAsked() {
    return this.#open.length > 0;
  }

  take(turn) {
    this.conversation.push(turn.body);
    this.times.push(turn.at);
    this.#open.push(turn);
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  drop(turn) {
    this.#open = this.#open.filter((open) => open !== turn);
  }

  async #peek() {
    while (this.#open.length === 0) await new Promise((resolve) => this.#waiting.push(resolve));
    return this.#open[0];
  }

  async #next() {
    await this.#peek();
    return this.#open.shift();
  }
}

let calls = 0;

/** The script is a function of this object, which is the conversation that the person has begun. */
export class ScriptedModel extends Conversation {
  /** Starts listening and follows `script`, if there is one; what it returns or throws is `model.finished`. */
  static async start(t, script = async () => {}) {
    const model = new ScriptedModel();
    model.server = await listen(t, (request, response) => model.#serve(request, response));
    model.url = `http://127.0.0.1:${model.server.address().port}`;
    model.finished = script(model);
    model.finished.catch(() => {});
    return model;
  }

  /** Every request that was made, as `METHOD path`. */
  requests = [];
  #others = [];

  /** The conversation of those requests of which `isIts` is true, as a subagent has one of its own. */
  beside(isIts) {
    const conversation = new Conversation();
    this.#others.push({ isIts, conversation });
    return conversation;
  }

  #all() {
    return [this, ...this.#others.map(({ conversation }) => conversation)];
  }

  async #serve(request, response) {
    this.requests.push(`${request.method} ${request.url.split('?')[0]}`);
    let text = '';
    for await (const chunk of request.setEncoding('utf8')) text += chunk;
    const at = performance.now();
    if (request.method !== 'POST' || !request.url.startsWith('/v1/messages')) {
      response.writeHead(404).end();
      return;
    }
    const body = JSON.parse(text);
    const turn = { at, body, response };
    // Who gives a request up, as Claude Code does at Esc, waits for no answer to it.
    response.once('close', () => this.#all().forEach((conversation) => conversation.drop(turn)));
    if (!(body.tools?.length > 0)) {
      // A side errand such as naming the conversation.
      answer(turn, { type: 'text', text: 'relay' });
      return;
    }
    const other = this.#others.find(({ isIts }) => isIts(body));
    (other?.conversation ?? this).take(turn);
  }
}

/** A proxy that refuses everything and remembers what it was asked for. */
export async function closedProxy(t) {
  const asked = [];
  const server = await listen(t, (request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.writeHead(502).end();
  });
  server.on('connect', (request, socket) => {
    asked.push(`CONNECT ${request.url}`);
    socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
  });
  return { url: `http://127.0.0.1:${server.address().port}`, asked };
}

async function listen(t, serve) {
  const server = http.createServer(serve);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  atEnd(t, () => {
    server.close();
    server.closeAllConnections();
  });
  return server;
}

let answers = 0;

/** Sends blocks of one type as a whole answer, streamed if that was asked for. */
function answer({ body, response }, ...blocks) {
  const stop = blocks[0].type === 'tool_use' ? 'tool_use' : 'end_turn';
  if (!body.stream) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ ...messageFor(body), content: blocks, stop_reason: stop }));
    return;
  }
  send(response, eventsOf(body, stop, ...blocks));
  response.end();
}

/** A message that answers a request, without what is in it. */
function messageFor({ model }) {
  answers += 1;
  const usage = { input_tokens: 1, output_tokens: 1 };
  const id = `msg_${String(answers).padStart(24, '0')}`;
  return { id, type: 'message', role: 'assistant', model, stop_sequence: null, usage };
}

/** The events of a whole answer. */
function eventsOf(body, stop, ...blocks) {
  return [
    { type: 'message_start', message: { ...messageFor(body), content: [], stop_reason: null } },
    ...blocks.flatMap(streamed),
    { type: 'message_delta', delta: { stop_reason: stop, stop_sequence: null }, usage: { output_tokens: 1 } },
    { type: 'message_stop' },
  ];
}

/** Streams events, and leaves the stream open. */
function send(response, events) {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  for (const event of events) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}

/** The events of which a stream makes one block. */
function streamed(block, index) {
  const [begun, delta] =
    block.type === 'tool_use'
      ? [{ ...block, input: {} }, { type: 'input_json_delta', partial_json: JSON.stringify(block.input) }]
      : [{ ...block, text: '' }, { type: 'text_delta', text: block.text }];
  return [
    { type: 'content_block_start', index, content_block: begun },
    { type: 'content_block_delta', index, delta },
    { type: 'content_block_stop', index },
  ];
}
