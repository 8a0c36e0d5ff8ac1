// The Python SDK over all three transports, with the handshake of old and with the newest protocol that both know.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { Relay, folder, python, relayBin, relayEnv, run } from './support/process.js';

/** What the SDK's two ways to connect agree on with relay. */
const PROTOCOL = { legacy: '2025-11-25', auto: '2026-07-28' };

const FACTS = {
  protocol: 'the version is agreed on, and the three tools and the instructions are there',
  messages: 'messages of two senders are counted, read in order and once, and refusals are errors',
  wait: "a waiting read is woken by another client's post",
  cancel: 'a cancelled wait takes no message with it',
  restart: 'after kill -9 and a restart posting and reading go on, and the first read of each role says so',
};

for (const transport of ['sse', 'http', 'stdio']) {
  for (const mode of Object.keys(PROTOCOL)) {
    for (const [fact, sentence] of Object.entries(FACTS)) {
      test(`Python SDK over ${transport}, ${mode}: ${sentence}`, async (t) => {
        const relay = await Relay.start(t);
        const { code, stdout, stderr } = await run(
          t,
          python,
          [path.join(folder, 'client.py'), fact, transport, mode, String(relay.port), relayBin],
          {
            env: relayEnv(),
            stdio: 'pipe',
            onLine: async (line, child) => {
              if (line !== 'restart') return;
              await relay.restart();
              child.stdin.write('go on\n');
            },
          },
        );
        assert.equal(code, 0, stderr);
        const said = { protocol: `${PROTOCOL[mode]}\n`, restart: 'restart\n' };
        assert.equal(stdout, said[fact] ?? '');
      });
    }
  }
}
