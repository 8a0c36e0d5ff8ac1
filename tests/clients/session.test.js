// Claude Code in a terminal: what the tests of an interactive session stand on.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Agent, HTTP, assertRead, postedId, readResult } from './support/clients.js';
import { Relay, within } from './support/process.js';
import { Session } from './support/session.js';

test('Claude Code in a terminal calls the tools of relay, asks its person, keeps a draft, and goes on after Esc', async (t) => {
  const session = await Session.at(t);
  const relay = await Relay.start(t);
  const pm = await Agent.connect(t, HTTP, relay);
  await pm.read('pm');
  const sent = await pm.post('pm', 'dev-a', 'directive', 'go on');
  session.place.configure({
    servers: { relay: { type: 'http', url: `${relay.url('mcp')}?agent=\${RELAY_AGENT:-}`, alwaysLoad: true } },
    settings: { permissions: { defaultMode: 'default', allow: ['mcp__relay__read_messages'] } },
  });
  await session.open({ env: { RELAY_AGENT: 'dev-a' } });
  const { model } = session;
  await session.prompts('begin');
  assertRead(readResult(await model.use('mcp__relay__read_messages', {})).messages, [sent]);
  await session.is('busy');

  const [id] = await model.begin(['mcp__relay__post_message', { to: 'pm', kind: 'status', body: 'done' }]);
  await session.is('waiting');
  await session.shows('Do you want to proceed?');
  await session.answers('Enter');
  const { messages } = await within(model.asked(), 'the result of the call that was allowed');
  const [result] = messages.flatMap(({ content }) => content).filter((block) => block.tool_use_id === id);
  const posted = postedId({ content: result.content, isError: result.is_error });
  assert.deepEqual((await pm.read('pm')).messages.map((message) => message.id), [posted]);

  await session.drafts('half a thought');
  await session.presses('Escape');
  await session.is('idle');
  assert.equal(model.isAsked, false);
  assert.equal(await session.draft(), 'half a thought');
  await session.presses('Enter');
  assert.match(JSON.stringify(await within(model.asked(), 'the next prompt')), /half a thought/);
  await model.say('well');
  await session.is('idle');
  await session.leaves();
});
