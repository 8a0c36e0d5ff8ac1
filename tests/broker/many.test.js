// More messages to one worker than may be on their way at once.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { REFUSED, Scene } from './support/scene.js';

const UNACKNOWLEDGED_MAX = 64;
const MESSAGES = 70;

test('Seventy messages to one worker: all arrive in order, 64 of them unacknowledged at the most', async (t) => {
  const scene = await Scene.start(t);
  await scene.broker.spawn('w1');
  const ids = await scene.sendAll('w1', MESSAGES);
  // Nothing is acknowledged in the first seconds.
  assert.equal(scene.proxy.deliveries('w1').length, UNACKNOWLEDGED_MAX);
  await scene.acknowledged('w1', MESSAGES);
  const { decisions } = await scene.listsNothingWrong();
  assert.equal(decisions.deliver, MESSAGES);
  assert.deepEqual(scene.proxy.deliveries('w1').map(({ frame }) => frame.msg_id), ids);
  assert.deepEqual(scene.numbersAreInOrder('w1'), { highest: MESSAGES, again: 0 });
  await scene.arrived('w1');
  assert.deepEqual(scene.proxy.refused(), REFUSED);
});
