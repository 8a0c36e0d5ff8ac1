// What is sent, and what of it a model was shown: every message whole and once, however a client shows long results.

import assert from 'node:assert/strict';

/** Nothing in it is escaped anywhere. */
const PLAIN = 'abcdefghij klmnopqrst ';

/** Each way to JSON makes it longer. */
const ESCAPED = 'say "no" to C:\\dir\\,\n\té \u{1f600} {"body":"x"}\u0001 ';

/** The inboxes that a model reads: so many messages of so many characters, and what they consist of. */
export const INBOXES = [
  [26, 3_000, PLAIN],
  [60, 3_000, PLAIN],
  [1, 40_000, PLAIN],
  [12, 3_000, ESCAPED],
  [1, 20_000, ESCAPED],
];

/** Says it of an inbox in words. */
export const inWords = ([count, length, text]) => `${count} of ${length} characters${text === ESCAPED ? ' to be escaped' : ''}`;

/** Sends pm the messages of an inbox, and returns their bodies. */
export async function fill(relay, [count, length, text]) {
  const bodies = Array.from({ length: count }, (_, at) => `${count}-${at}:`.padEnd(length - 1, text).toWellFormed() + '.');
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

/** The bodies, or parts of bodies, in the results that a model was shown, however often these were written as JSON within JSON. */
export function bodiesIn(text) {
  const bodies = [];
  const begins = /(?<!\\)(\\*)"body\1":\1"/g;
  for (let begin = begins.exec(text); begin; begin = begins.exec(text)) {
    const from = begins.lastIndex;
    // Once for each time, the quote that ends a text has twice as many backslashes and one: those of the text come as whole groups.
    const backslashes = begin[1].length;
    const group = 2 * (backslashes + 1);
    const ends = /(?<!\\)(\\*)"/g;
    ends.lastIndex = from;
    let end = ends.exec(text);
    while (end && end[1].length % group !== backslashes) end = ends.exec(text);
    assert.ok(end, 'a body without an end');
    let body = text.slice(from, ends.lastIndex - 1 - backslashes);
    for (let times = Math.log2(group); times > 0; times -= 1) body = JSON.parse(`"${body}"`);
    bodies.push(body);
    begins.lastIndex = ends.lastIndex;
  }
  return bodies;
}

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
