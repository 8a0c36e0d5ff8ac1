// A server that is killed with -9 and started again a moment later, and what clients see whose read waits then.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

/** How long the server is away. */
export const AWAY_MS = 500;

/**
 * Within what a wait must have ended after the kill: the time away, what relay asks a client to wait, and as much as a machine that builds
 * beside it may need. A client that was told nothing would wait for a minute and more.
 */
const SOON_MS = AWAY_MS + 2_000 + 20_000;

export const RESTARTED = 'Error: relay was restarted while this call was under way; call again';
export const WENT_AWAY = 'Error: relay went away during the call, which may or may not have been carried out; call again';

/** Kills the server, starts it again, and gives back when it was killed. */
export async function outage(relay) {
  await relay.kill9();
  const killed = Date.now();
  await sleep(AWAY_MS);
  await relay.up();
  return killed;
}

/** Asserts that a wait which has just ended did so soon after the kill. */
export function assertSoon(killed) {
  const ms = Date.now() - killed;
  assert.ok(ms < SOON_MS, `the wait ended ${ms} ms after the kill`);
}
