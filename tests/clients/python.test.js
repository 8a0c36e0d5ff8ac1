// The Python SDK over all three transports, with the handshake of old and with the newest protocol that both know.

import assert from 'node:assert/strict';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { Relay, folder, python, relayBin, relayEnv, start, within } from './support/process.js';

/** What the SDK's two ways to connect agree on with relay. */
const PROTOCOL = { legacy: '2025-11-25', auto: '2026-07-28' };

const FACTS = {
  protocol: 'the version is agreed on, and the three tools and the instructions are there',
  messages: 'messages of two senders are counted, read in order and once, and refusals are errors',
  wait: "a waiting read is woken by another client's post",
  cancel: 'a cancelled wait takes no message with it',
  restart: 'after kill -9 and a restart posting and reading go on, and the first read of each role says so',
};

/** client.py, which shows one fact after the other: to import the SDK takes longer than any of them. */
class Script {
  constructor() {
    this.child = start(python, [path.join(folder, 'client.py'), relayBin], { env: relayEnv(), stdio: 'pipe' });
    this.stderr = '';
    this.child.stderr.setEncoding('utf8').on('data', (text) => (this.stderr += text));
    this.lines = createInterface(this.child.stdout)[Symbol.asyncIterator]();
  }

  /** Says a line and gives back the line that answers it. */
  async ask(line) {
    this.child.stdin.write(`${JSON.stringify(line)}\n`);
    const { done, value } = await within(this.lines.next(), 'client.py to answer');
    assert.ok(!done, `client.py ended: ${this.stderr}`);
    return JSON.parse(value);
  }

  async end() {
    this.child.stdin.end();
    assert.deepEqual(await within(this.child.ended, 'client.py to end'), { code: 0, signal: null }, this.stderr);
  }
}

let script;
after(() => script?.end());

/** What the script shows for a fact. One that gave no answer is of no use to the facts after it. */
async function shown(relay, ask) {
  script ??= new Script();
  try {
    let answer = await script.ask({ ...ask, port: relay.port });
    if (answer.restart) {
      await relay.restart();
      answer = await script.ask('it is back');
    }
    return answer;
  } catch (error) {
    script.child.kill('SIGKILL');
    script = undefined;
    throw error;
  }
}

for (const transport of ['sse', 'http', 'stdio']) {
  for (const mode of Object.keys(PROTOCOL)) {
    for (const [fact, sentence] of Object.entries(FACTS)) {
      test(`Python SDK over ${transport}, ${mode}: ${sentence}`, async (t) => {
        const relay = await Relay.start(t);
        const { failed, ...answer } = await shown(relay, { fact, transport, mode });
        assert.equal(failed, undefined, failed);
        assert.deepEqual(answer, { shown: fact === 'protocol' ? PROTOCOL[mode] : null });
      });
    }
  }
}
