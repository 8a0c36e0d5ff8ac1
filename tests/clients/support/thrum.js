// What the tests of Thrum's tools share.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WAYS, World } from './agents.js';
import { assertBetween } from './clients.js';

export const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
export const EMPTY = { status: 'empty', messages: [], remaining: 0 };

/** Shows a fact over one way, or over all of them. */
export const over = (ways) => (fact, body) => {
  for (const way of ways) {
    test(`Thrum over ${way.name}: ${fact}`, async (t) => body(await World.start(t, 'thrum', way)));
  }
};
export const everywhere = over(WAYS);
export const overStdio = over([WAYS[0]]);

/** Sends, and gives back the message as its reader must see it, with when it was sent and how it was resolved. */
export async function send(agent, to, content, more = {}) {
  const before = Date.now();
  const { message_id, ...rest } = await agent.data('send_message', { to, content, ...more });
  assert.match(message_id, UUID_V4);
  return { message: { message_id, from: agent.name, content }, window: [before, Date.now()], ...rest };
}

/** Asserts that what was read are these messages, each with a time of its sending. */
export function assertMessages(read, sent) {
  assert.deepEqual(
    read.map(({ timestamp, ...message }) => message),
    sent.map(({ message }) => message),
  );
  read.forEach(({ timestamp }, i) => assertBetween(timestamp, sent[i].window));
}

/** Asserts that a reader finds these messages and no others. */
export async function assertChecked(agent, sent) {
  const { messages, ...rest } = await agent.data('check_messages');
  assert.deepEqual(rest, { status: sent.length > 0 ? 'messages' : 'empty', remaining: 0 });
  assertMessages(messages, sent);
}

/** What the sender of a message is told of who was meant. */
export const resolved = ({ status, resolved_to, warnings }) => ({ status, resolved_to, warnings });
export const delivered = (resolved_to, ...warnings) => ({ status: 'delivered', resolved_to, warnings });
