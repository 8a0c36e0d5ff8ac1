// What the Python SDK's caller sees whose read waits when the server is killed with -9 and started again a moment later.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { RESTARTED, WENT_AWAY, assertSoon, outage } from './support/outage.js';
import { Relay, folder, python, relayBin, relayEnv, run } from './support/process.js';

/** Depends on whether the kill reset the connection. */
const CUT_OFF = /^(RemoteProtocolError: Server disconnected without sending a response\.|ReadError: )$/;

/** What the Python SDK's caller sees; its client goes on, or has ended. */
const IN_PYTHON = {
  sse: { silent: ['MCPError: Connection closed', 'ended'], progress: ['MCPError: Connection closed', 'ended'] },
  http: {
    silent: [CUT_OFF, 'ended'],
    progress: [RESTARTED, 'goes on'],
  },
  stdio: { silent: [WENT_AWAY, 'goes on'], progress: [WENT_AWAY, 'goes on'] },
};

for (const [transport, ways] of Object.entries(IN_PYTHON)) {
  for (const mode of ['legacy', 'auto']) {
    for (const [way, seen] of Object.entries(ways)) {
      test(`Python SDK over ${transport}, ${mode}, ${way}: a wait ends soon after a kill -9 with an error`, async (t) => {
        const relay = await Relay.start(t);
        let killed;
        const { code, stdout, stderr } = await run(
          t,
          python,
          [path.join(folder, 'waiting.py'), way, transport, mode, String(relay.port), relayBin],
          {
            env: relayEnv(),
            stdio: 'pipe',
            onLine: async (line, child) => {
              if (line === 'waits') {
                killed = await outage(relay);
                child.stdin.write('it is back\n');
              }
              if (line.startsWith('saw ')) assertSoon(killed ?? Date.now());
            },
          },
        );
        assert.equal(code, 0, stderr);
        const [waits, saw, end] = stdout.split('\n');
        assert.deepEqual([waits, end], ['waits', seen[1]], stdout);
        if (seen[0] instanceof RegExp) assert.match(saw.slice('saw '.length), seen[0]);
        else assert.equal(saw, `saw ${seen[0]}`);
      });
    }
  }
}
