// A stand-in for the model behind Claude Code: an HTTP server on loopback that streams what a script says, and a proxy
// that no request may ever ask for anything.

import { once } from 'node:events';
import http from 'node:http';
import { atEnd } from './process.js';

/**
 * What a script says in one conversation: `use` answers the open request with one tool call and returns what the model is
 * shown as its result; `say` answers with text and ends the turn.
 */
class Conversation {
  /** The bodies of the requests that belong to it. */
  conversation = [];
  #open = [];
  #waiting;

  async use(name, input) {
    calls += 1;
    const id = `toolu_${String(calls).padStart(24, '0')}`;
    const turn = await this.#next();
    answer(turn, { type: 'tool_use', id, name, input });
    const shown = (await this.#peek()).body.messages
      .flatMap((message) => message.content)
      .findLast((block) => block.type === 'tool_result' && block.tool_use_id === id);
    const blocks = typeof shown.content === 'string' ? [{ type: 'text', text: shown.content }] : shown.content;
    return { content: blocks, isError: shown.is_error ?? false };
  }

  async say(text) {
    answer(await this.#next(), { type: 'text', text });
  }

  /** The body of the request that waits for the script's next answer. */
  async asked() {
    return (await this.#peek()).body;
  }

  take(turn) {
    this.conversation.push(turn.body);
    this.#open.push(turn);
    this.#waiting?.();
  }

  async #peek() {
    while (this.#open.length === 0) await new Promise((resolve) => (this.#waiting = resolve));
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
  /** Starts listening and follows `script`; what it returns or throws is `model.finished`. */
  static async start(t, script) {
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

  async #serve(request, response) {
    this.requests.push(`${request.method} ${request.url.split('?')[0]}`);
    let text = '';
    for await (const chunk of request.setEncoding('utf8')) text += chunk;
    if (request.method !== 'POST' || !request.url.startsWith('/v1/messages')) {
      response.writeHead(404).end();
      return;
    }
    const body = JSON.parse(text);
    const turn = { body, response };
    if (!body.tools?.some((tool) => tool.name.startsWith('mcp__relay__'))) {
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

/** Sends one block as a whole answer, streamed if that was asked for. */
function answer({ body, response }, block) {
  const stop = block.type === 'tool_use' ? 'tool_use' : 'end_turn';
  const usage = { input_tokens: 1, output_tokens: 1 };
  answers += 1;
  const id = `msg_${String(answers).padStart(24, '0')}`;
  const message = { id, type: 'message', role: 'assistant', model: body.model, stop_sequence: null, usage };
  if (!body.stream) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ ...message, content: [block], stop_reason: stop }));
    return;
  }
  const [begun, delta] =
    block.type === 'tool_use'
      ? [{ ...block, input: {} }, { type: 'input_json_delta', partial_json: JSON.stringify(block.input) }]
      : [{ ...block, text: '' }, { type: 'text_delta', text: block.text }];
  const events = [
    { type: 'message_start', message: { ...message, content: [], stop_reason: null } },
    { type: 'content_block_start', index: 0, content_block: begun },
    { type: 'content_block_delta', index: 0, delta },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: stop, stop_sequence: null }, usage: { output_tokens: 1 } },
    { type: 'message_stop' },
  ];
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  for (const event of events) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  response.end();
}
