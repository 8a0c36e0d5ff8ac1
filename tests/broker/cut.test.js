// The connection between the broker and relay breaks while messages are on their way, or loses one of them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from './support/broker.js';
import { Scene } from './support/scene.js';

/** Breaks the connection, and waits until the broker has made a new one. */
async function cut(scene, meanwhile = async () => {}) {
  const { connections } = scene.proxy;
  assert.equal(scene.proxy.cut(), 1);
  await meanwhile();
  await until('the broker to connect again', () => scene.proxy.connections > connections);
}

test('A connection that breaks three times: nothing is lost, and nothing given twice', async (t) => {
  const scene = await Scene.start(t);
  await scene.broker.spawn('w1');
  await scene.sendAll('w1', 5);
  await scene.acknowledged('w1', 1);
  await cut(scene, () => scene.sendAll('w1', 5, 'while it was away'));
  await scene.acknowledged('w1', 4);
  await cut(scene);
  await cut(scene, () => scene.sendAll('w1', 5, 'the second time'));
  await scene.acknowledged('w1', 15);
  const { highest, again } = scene.numbersAreInOrder('w1');
  assert.equal(highest, 15);
  assert.ok(again > 0, 'nothing came again: nothing was on its way when the connection broke');
  const { decisions, socket } = await scene.listsNothingWrong({ again });
  assert.equal(decisions.deliver, 15);
  assert.deepEqual({ connects: socket.connects, disconnects: socket.disconnects }, { connects: 4, disconnects: 3 });
  await scene.arrived('w1');
  scene.refusedNothingElse();
});

test('A frame that is lost on its way is missed, nothing behind it is taken, and the next connection brings it', async (t) => {
  const scene = await Scene.start(t);
  await scene.broker.spawn('w1');
  scene.proxy.loses = ({ type, seq }) => type === 'deliver' && seq === 3;
  await scene.sendAll('w1', 5);
  await scene.acknowledged('w1', 2);
  const { decisions } = await scene.broker.listing();
  assert.deepEqual({ deliver: decisions.deliver, gap: decisions.gap }, { deliver: 2, gap: 2 });
  await assert.rejects(scene.listsNothingWrong(), /gap: 2/);
  scene.proxy.loses = () => false;
  await cut(scene);
  await scene.acknowledged('w1', 5);
  const { decisions: later } = await scene.broker.listing();
  assert.deepEqual({ deliver: later.deliver, gap: later.gap }, { deliver: 5, gap: 2 });
  await scene.arrived('w1');
});
