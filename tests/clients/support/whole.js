// What is sent, and what of it a model was shown: every message whole and once, however a client shows long results.

import assert from 'node:assert/strict';

/** The inboxes that a model reads: so many messages of so many characters. */
export const INBOXES = [
  [26, 3_000],
  [60, 3_000],
  [1, 40_000],
];

/** Sends pm so many messages of so many characters each, and returns their bodies. Nothing in them is escaped anywhere. */
export async function fill(relay, count, length) {
  const bodies = Array.from({ length: count }, (_, at) => `${count}-${at}:`.padEnd(length, 'abcdefghij klmnopqrst '));
  for (const body of bodies) {
    const sent = await fetch(relay.url('api/send'), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      // No hook shows it: it is read with the tool alone.
      body: JSON.stringify({ from: 'dev-b', to: 'pm', kind: 'free', body, mode: 'manual' }),
    });
    assert.equal(sent.status, 200, await sent.text());
  }
  return bodies;
}

/** The bodies, or parts of bodies, in the results that a model was shown, however often they were escaped. */
export const bodiesIn = (text) => [...text.matchAll(/\\*"body\\*":\\*"([^"\\]*)/g)].map(([, body]) => body);

/** Has a model read until nothing waits, by `read`, which returns the text of a result; fails unless all was shown, whole, in order and once. */
export async function readWhole(bodies, read) {
  const shown = [];
  for (;;) {
    const result = bodiesIn(await read());
    if (result.length === 0) break;
    shown.push(result);
  }
  const text = shown.flat().join('');
  assert.ok(text === bodies.join(''), `${text.length} characters of ${bodies.join('').length} in ${shown.length} results`);
  return shown.length;
}
