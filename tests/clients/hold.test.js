// The TypeScript SDK reads while the person holds what is sent to it, over each transport.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Agent, HTTP, NOTHING, SSE, STDIO, assertRead } from './support/clients.js';
import { Relay } from './support/process.js';

/** Asks as the relay command does. */
async function person(relay, path, asked) {
  const response = await fetch(relay.url(path), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(asked),
  });
  assert.equal(response.status, 200);
  return response.json();
}

for (const kind of [SSE, HTTP, STDIO]) {
  test(`${kind.name}: nothing comes that is held, what passes ends a wait, and what is dropped never comes`, async (t) => {
    const relay = await Relay.start(t);
    const [pm, dev] = [await Agent.connect(t, kind, relay), await Agent.connect(t, kind, relay)];
    await dev.read('dev-a');
    await person(relay, 'api/hold', { agent: 'dev-a' });
    const first = await pm.call('post_message', { from: 'pm', to: 'dev-a', kind: 'free', body: 'one' });
    assert.match(first.content[1].text, /^note: the person holds what is sent to dev-a/);
    const second = await pm.post('pm', 'dev-a', 'free', 'two');
    assert.deepEqual(await dev.pending('dev-a'), NOTHING);
    assert.deepEqual((await dev.read('dev-a')).messages, []);
    const waiting = dev.read('dev-a', { wait_seconds: 30 });
    await relay.aReadWaits();
    await person(relay, 'api/allow', { message: second.id.slice(0, 8) });
    assertRead((await waiting).messages, [second]);
    await person(relay, 'api/drop', { message: JSON.parse(first.content[0].text).id });
    assert.deepEqual(await person(relay, 'api/allow', { agent: 'dev-a' }), { lifted: true, deliveries: 0 });
    assert.deepEqual((await dev.read('dev-a')).messages, []);
  });
}
