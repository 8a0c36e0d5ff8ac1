// FastMCP's client over each transport, with the handshake and with the newest protocol without one.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { Relay, folder, python, relayBin, relayEnv, run } from './support/process.js';

/** What the client's ways to connect agree on with relay. Over SSE it knows the handshake alone. */
const WAYS = [
  ['stdio', 'legacy', '2025-11-25'],
  ['stdio', 'auto', '2026-07-28'],
  ['http', 'legacy', '2025-11-25'],
  ['http', 'auto', '2026-07-28'],
  ['sse', 'auto', '2025-11-25'],
];

test('FastMCP over each transport: it connects, lists, posts, reads, waits, and is refused in words', async (t) => {
  const relay = await Relay.start(t);
  // All of it in one process: to import the client takes longer than any of it.
  const ways = WAYS.map(([transport, mode]) => `${transport},${mode}`);
  const { code, stdout, stderr } = await run(t, python, [path.join(folder, 'fast.py'), relayBin, String(relay.port), ...ways], { env: relayEnv() });
  assert.equal(code, 0, stderr);
  assert.deepEqual(JSON.parse(stdout), WAYS);
});
