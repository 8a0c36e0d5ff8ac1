// A stand-in for the models behind the agent CLIs: an HTTP server on loopback that answers what a script says. In what words a CLI
// and its model speak is what its `dialect` knows:
//
// - `isTurn(request, body)`: whether a request is one of the conversation, and no side errand such as naming it;
// - `shown(body)`: what the model is shown, as `{ role, text }` one after the other;
// - `answer({ request, body, response }, block)`: sends `{ text }` or `{ name, input }`, which calls a tool;
// - `errand(turn)`: answers any other request.

import { once } from 'node:events';
import http from 'node:http';
import { atEnd } from '../../clients/support/process.js';

export class ScriptedModel {
  /** Starts listening and follows `script`, a function of this object; what it returns or throws is `model.finished`. */
  static async start(t, dialect, script) {
    const model = new ScriptedModel(dialect);
    const server = http.createServer((request, response) => model.#serve(request, response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    atEnd(t, () => {
      server.close();
      server.closeAllConnections();
    });
    model.url = `http://127.0.0.1:${server.address().port}`;
    model.finished = script(model);
    model.finished.catch(() => {});
    return model;
  }

  /** Every request that was made, as `METHOD path`. */
  requests = [];
  /** When each request of the conversation came. */
  came = [];
  /** The body of each: all that the model was ever shown, as it was sent. */
  bodies = [];
  #dialect;
  #open = [];
  #waiting;
  #seen = 0;

  constructor(dialect) {
    this.#dialect = dialect;
  }

  /** Answers the open request with one tool call, and returns what the model is shown in the next one that it was not before. */
  async use(name, input) {
    await this.#answer({ name, input });
    return this.news();
  }

  /** Answers the open request with a text. */
  async say(text) {
    await this.#answer({ text });
  }

  /** What the model is shown in the open request, and was not shown in the one before. */
  async news() {
    return this.#dialect.shown(await this.asked()).slice(this.#seen);
  }

  /** The body of the request that waits for the script's next answer. */
  async asked() {
    while (this.#open.length === 0) await new Promise((resolve) => (this.#waiting = resolve));
    return this.#open[0].body;
  }

  async #answer(block) {
    this.#seen = this.#dialect.shown(await this.asked()).length;
    this.#dialect.answer(this.#open.shift(), block);
  }

  async #serve(request, response) {
    this.requests.push(`${request.method} ${request.url.split('?')[0]}`);
    let text = '';
    for await (const chunk of request.setEncoding('utf8')) text += chunk;
    const body = text === '' ? undefined : JSON.parse(text);
    const turn = { request, body, response };
    if (!this.#dialect.isTurn(request, body)) {
      this.#dialect.errand(turn);
      return;
    }
    this.came.push(Date.now());
    this.bodies.push(body);
    this.#open.push(turn);
    this.#waiting?.();
  }
}

/** Sends events as a stream of which each has its JSON, and its name if it has a `type`. */
export function stream(response, events, end = '') {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  for (const event of events) {
    const name = event.type === undefined ? '' : `event: ${event.type}\n`;
    response.write(`${name}data: ${JSON.stringify(event)}\n\n`);
  }
  response.end(end);
}

export function json(response, value, status = 200) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
}
