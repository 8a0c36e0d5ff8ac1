// Two workers of one broker, and what one of them sends.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from './support/broker.js';
import { Scene } from './support/scene.js';

const MESSAGES = 10;

test('Two workers at once: each gets its own messages and no other', async (t) => {
  const scene = await Scene.start(t);
  for (const worker of ['w1', 'w2']) await scene.broker.spawn(worker);
  for (let i = 1; i <= MESSAGES; i += 1) {
    for (const worker of ['w1', 'w2']) await scene.send(worker, `${worker}, message ${i}`);
  }
  for (const worker of ['w1', 'w2']) await scene.acknowledged(worker, MESSAGES);
  const { decisions } = await scene.listsNothingWrong();
  assert.equal(decisions.deliver, 2 * MESSAGES);
  for (const worker of ['w1', 'w2']) {
    assert.deepEqual(scene.numbersAreInOrder(worker), { highest: MESSAGES, again: 0 });
    await scene.arrived(worker);
  }
  scene.refusedNothingElse();
});

test('A worker writes to the person and to a channel, and what is unacknowledged when the broker ends in order is read with tools', async (t) => {
  const scene = await Scene.start(t);
  for (const worker of ['w1', 'w2']) await scene.broker.spawn(worker);
  const say = async (to, text) => {
    const { success } = await scene.broker.ask('POST', '/api/send', { from: 'w1', to, text });
    assert.equal(success, true);
  };
  await say('user', 'hello person');
  assert.match((await scene.command('peek')).stdout, /w1 → user .*\n {2}hello person\n/);
  await say('#general', 'hello channel');
  await scene.acknowledged('w2', 1);
  assert.match(scene.broker.printed('w2'), /hello channel/);
  await scene.listsNothingWrong();

  // Its list of conversations is what relay keeps, and what it has seen itself.
  const { threads } = await scene.broker.ask('GET', '/api/threads');
  assert.deepEqual(threads.map(({ threadId, lastMessage }) => [threadId, lastMessage]).sort(), [
    ['#general', 'hello channel'],
    ['direct:user:w1', 'hello person'],
    ['dm_user~w1', 'hello person'],
  ]);

  await scene.send('w2', 'never acknowledged');
  await until('the frame to go out', () => scene.proxy.deliveries('w2').length === 2);
  await scene.broker.ask('POST', '/api/shutdown');
  assert.deepEqual(await scene.broker.child.ended, { code: 0, signal: null });
  // It says nothing to relay then, which waits for it for 45 s.
  const call = await scene.tools('w2');
  let read = [];
  await until('the message to be in the inbox', async () => (read = await call('read_messages')).length > 0);
  assert.deepEqual(read.map(({ body, redelivered }) => [body, redelivered]), [['never acknowledged', true]]);
  scene.refusedNothingElse(
    'GET /v1/agents/:name 404', // The broker asks whether `user` is an agent.
    'PATCH /v1/agents/:name 501',
  );
});
