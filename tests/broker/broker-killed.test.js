// The broker is killed while messages are unacknowledged.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { REFUSED_AGAIN, Scene } from './support/scene.js';

/** For how long a node holds its agents after its connection has ended. */
const HELD_MS = 45_000;
const SLACK_MS = 3_000;

/** A worker that was given six messages, of which two are acknowledged at least when its broker is killed. */
async function killedAtWork(scene) {
  await scene.broker.spawn('w1');
  await scene.sendAll('w1', 6);
  await scene.acknowledged('w1', 2);
  const killed = Date.now();
  await scene.broker.kill9();
  const gone = Date.now();
  const ids = scene.sent.get('w1');
  const arrived = [];
  for (const id of ids) if ((await scene.traced(id)).at(-1).by === 'acknowledged') arrived.push(id);
  assert.deepEqual(arrived, ids.slice(0, arrived.length), 'what was acknowledged comes first');
  assert.ok(arrived.length >= 2 && arrived.length < 6, `${arrived.length} of 6 were acknowledged`);
  return { killed, gone, waiting: ids.slice(arrived.length) };
}

test('A broker that is killed and stays away holds its worker for 45 s, and then tools read the rest, marked', async (t) => {
  const scene = await Scene.start(t);
  const { killed, gone, waiting } = await killedAtWork(scene);
  const call = await scene.tools('w1');
  let read = [];
  while (read.length === 0) {
    const pending = await call('list_pending');
    const asked = Date.now();
    if (asked - killed < HELD_MS) assert.deepEqual(pending, { count: 0, kinds: [] });
    read = await call('read_messages');
    assert.ok(read.length > 0 || asked - gone < HELD_MS + SLACK_MS, 'it is held for longer than 45 s');
    if (read.length === 0) await sleep(500);
  }
  assert.ok(Date.now() - killed >= HELD_MS, `read ${Date.now() - killed} ms after the kill`);
  assert.deepEqual(read.map(({ id, redelivered }) => [id, redelivered]), waiting.map((id) => [id, true]));
  scene.refusedNothingElse();
});

test('A broker that is killed and started again has no worker any more, and tools read the rest at once, marked', async (t) => {
  const scene = await Scene.start(t);
  const { killed, waiting } = await killedAtWork(scene);
  const call = await scene.tools('w1');
  assert.deepEqual(await call('read_messages'), []);
  await scene.broker.up(await scene.key());
  // It says by `inventory.sync` that it has no agents, so relay does not wait for the 45 s.
  let read = [];
  while (read.length === 0) {
    assert.ok(Date.now() - killed < HELD_MS, 'the new broker did not let go of the worker');
    read = await call('read_messages');
    await sleep(250);
  }
  assert.deepEqual(read.map(({ id, redelivered }) => [id, redelivered]), waiting.map((id) => [id, true]));
  assert.deepEqual(await scene.broker.ask('GET', '/api/spawned'), { agents: [] });

  await scene.broker.spawn('w2');
  await scene.sendAll('w2', 3);
  await scene.acknowledged('w2', 3);
  await scene.listsNothingWrong();
  await scene.arrived('w2');
  scene.refusedNothingElse(...REFUSED_AGAIN);
});
