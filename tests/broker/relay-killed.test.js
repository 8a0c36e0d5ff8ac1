// relay is killed under the broker, and with it all keys and all that waited.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from './support/broker.js';
import { Scene } from './support/scene.js';

/** What is refused with 401 of what the broker needs to come back, in the order in which it asked for it. That its worker has read a message it says beside that. */
const unauthorized = ({ answers }) => answers
  .filter(({ status, path }) => status === 401 && !path.startsWith('/v1/messages/'))
  .map(({ method, path }) => `${method} ${path}`);

test('relay is killed: the broker cannot come back with its key, and one that is started with a new key delivers again', async (t) => {
  const scene = await Scene.start(t);
  await scene.broker.spawn('w1');
  await scene.sendAll('w1', 5);
  await scene.acknowledged('w1', 1);
  await scene.relay.restart();
  // What waited is gone, by contract, and so is the worker.
  const { code, stderr } = await scene.command('peek', 'w1');
  assert.equal(code, 1);
  assert.match(stderr, /unknown role "w1"/);
  scene.forget();

  // It tries its token, asks for a new one with its key, which is as dead, and so on.
  await until('the broker to try three times', () => unauthorized(scene.proxy).length >= 6);
  assert.deepEqual(unauthorized(scene.proxy).slice(0, 4), [
    'GET /v1/node/ws',
    'POST /v1/nodes',
    'GET /v1/node/ws',
    'POST /v1/nodes',
  ]);
  assert.equal((await scene.broker.listing()).connected, false);
  assert.equal(scene.proxy.connections, 1);

  await scene.broker.kill9();
  await scene.broker.up(await scene.key());
  await scene.broker.spawn('w1');
  await scene.sendAll('w1', 5);
  await scene.acknowledged('w1', 5);
  const { decisions } = await scene.listsNothingWrong();
  assert.equal(decisions.deliver, 5);
  await scene.arrived('w1');
  scene.refusedNothingElse(
    'GET /v1/node/ws 401',
    'POST /v1/nodes 401',
    'POST /v1/messages/:id/read 401',
    'POST /v1/messages/:id/read 404', // Of a message that was there before the kill.
  );
});
