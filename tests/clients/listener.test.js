// The plugin's background listener in Claude Code, with a scripted stand-in for its model and for that of the session which
// starts it. What is compared is what the models are shown.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { World } from './support/agents.js';
import { converse } from './support/claude.js';
import { assertBetween, errorText, noticeStart } from './support/clients.js';
import { WENT_AWAY } from './support/outage.js';
import { folder, relayBin, within } from './support/process.js';

const plugin = path.resolve(folder, '../../plugin');
const definition = readFileSync(path.join(plugin, 'agents/message-listener.md'), 'utf8');
const instructions = definition.split('---\n')[2].trim();

/** How relay stands in Claude Code's configuration, as a bridge of an agent's with the tools of one toolset. */
const bridge = (world, name, tools) => ({
  type: 'stdio',
  command: relayBin,
  args: ['mcp', '--port', String(world.relay.port), '--agent', name, '--tools', tools],
});

/** Runs Claude Code with a bridge, the plugin's agents and a script, in the project. */
const session = (world, name, tools, script) =>
  converse(world.t, bridge(world, name, tools), script, {
    cwd: world.project,
    args: ['--plugin-dir', plugin],
    allowed: ['Agent'],
  });

/** The conversation of the listeners that a session starts. */
const listeners = (model) => model.beside(({ system }) => JSON.stringify(system).includes(JSON.stringify(instructions).slice(1, -1)));

const listen = (model) =>
  model.use('Agent', {
    description: 'Listen for messages',
    prompt: 'Listen for messages.',
    subagent_type: 'relay:message-listener',
    run_in_background: true,
  });

/** The data that a model is shown as a result; Claude Code shows it the data alone, where there is some. */
function data({ content, isError }) {
  assert.deepEqual([content.length, isError], [1, false], JSON.stringify(content));
  return JSON.parse(content[0].text);
}

const text = ({ content, isError }) => {
  assert.deepEqual([content.length, isError], [1, false], JSON.stringify(content));
  return content[0].text;
};

/** What a listener returns about a message. */
const report = ({ from, content, timestamp }) => `MESSAGES_RECEIVED\nFROM: ${from}\nCONTENT: ${content}\nTIMESTAMP: ${timestamp}`;

/** Ends a turn and waits until a listener's return begins the next one, which must be shown its report. */
async function isWokenBy(model, returned) {
  await model.say('I wait for messages.');
  const { messages } = await within(model.asked(), 'the session to be woken');
  assert.ok(JSON.stringify(messages.at(-1)).includes(JSON.stringify(returned).slice(1, -1)), JSON.stringify(messages.at(-1)));
}

test('Claude Code: the listener of the plugin has a small model, two tools, and is woken across a kill -9 of relay', async (t) => {
  const world = await World.start(t, 'thrum');
  await world.register('bob', 'worker');
  const alice = await world.join('alice');
  await session(world, 'bob', 'thrum', async (model) => {
    const listener = listeners(model);
    await listen(model);
    const first = await listener.asked();
    assert.match(first.model, /haiku/);
    const tools = first.tools.map(({ name }) => name).filter((name) => name.startsWith('mcp__'));
    assert.deepEqual(tools.toSorted(), ['mcp__relay__check_messages', 'mcp__relay__wait_for_message']);
    const check = () => listener.use('mcp__relay__check_messages', {});
    const wait = () => listener.use('mcp__relay__wait_for_message', { timeout: 300 });

    assert.deepEqual(data(await check()), { status: 'empty', messages: [], remaining: 0 });
    const waiting = wait();
    await world.relay.aReadWaits();
    // The session goes on while its listener waits.
    const { status } = data(await model.use('mcp__relay__send_message', { to: 'alice', content: 'I listen' }));
    assert.equal(status, 'delivered');
    await alice.data('send_message', { to: 'bob', content: 'one' });
    const one = data(await within(waiting, 'the message')).message;
    assert.deepEqual([one.from, one.content], ['alice', 'one']);
    await listener.say(report(one));
    await isWokenBy(model, report(one));

    await listen(model);
    assert.equal(data(await check()).status, 'empty');
    const lost = wait();
    await world.relay.aReadWaits();
    await world.relay.restart();
    assert.equal(errorText(await within(lost, 'the end of the wait')), WENT_AWAY);
    const restarted = data(await check()).notice;
    assertBetween(noticeStart(restarted), [world.relay.asked, Date.now()]);
    const again = wait();
    await world.relay.aReadWaits();
    await alice.hears();
    await alice.data('send_message', { to: 'bob', content: 'two' });
    const two = data(await within(again, 'the message')).message;
    assert.deepEqual([two.from, two.content], ['alice', 'two']);
    await listener.say(`${report(two)}\n${restarted}`);
    await isWokenBy(model, `${report(two)}\n${restarted}`);

    await listen(model);
    assert.equal(data(await check()).status, 'empty');
    await listener.say('NO_MESSAGES_TIMEOUT\nfive waits of 300 seconds have ended without a message; the listener has stopped. If you have nothing else to do, send your status to your coordinator');
    await isWokenBy(model, 'NO_MESSAGES_TIMEOUT');
    await model.say('done');
  });
});

test('Claude Code, two sessions over stdio: one awaits a response, which the listener of the other has it give, across a kill -9', async (t) => {
  const world = await World.start(t, 'thrum');
  await world.register('bob', 'worker');
  let isListening;
  let isHeard;
  let isRestarted;
  const [listening, heard, restarted] = [
    new Promise((resolve) => (isListening = resolve)),
    new Promise((resolve) => (isHeard = resolve)),
    new Promise((resolve) => (isRestarted = resolve)),
  ];
  const ask = (model, message) =>
    model.use('mcp__relay__relay_send', { to: 'bob', message, await_response: true, timeout_ms: 60_000 });
  await Promise.all([
    session(world, 'bob', 'thrum', async (model) => {
      const listener = listeners(model);
      const answer = async (content) => {
        await listen(model);
        // The question may be there before the listener.
        const { messages } = data(await listener.use('mcp__relay__check_messages', {}));
        const wait = async () => {
          const waiting = listener.use('mcp__relay__wait_for_message', { timeout: 300 });
          await world.relay.aReadWaits();
          isListening();
          return data(await within(waiting, 'the question')).message;
        };
        const message = messages[0] ?? (await wait());
        await listener.say(report(message));
        await isWokenBy(model, report(message));
        assert.deepEqual([message.from, message.content], ['Alice', content]);
        return message.message_id;
      };
      const first = await answer('ready?');
      data(await model.use('mcp__relay__send_message', { to: 'Alice', content: 'yes', reply_to: first }));
      const second = await answer('and now?');
      isHeard(second);
      await restarted;
      // What it answers is gone with the relay that had it, and so is the thread.
      const outside = data(await model.use('mcp__relay__send_message', { to: 'Alice', content: 'still here', reply_to: second }));
      const forgotten = 'the message that it answers is not known any more: it does not count as its answer';
      assert.deepEqual(outside.warnings, [forgotten]);
      assert.equal(outside.thread_id, undefined);
      const third = await answer('again?');
      data(await model.use('mcp__relay__send_message', { to: 'Alice', content: 'still', reply_to: third }));
      await model.say('done');
    }),
    session(world, 'Alice', 'agent-relay', async (model) => {
      assert.match(JSON.stringify((await model.use('mcp__relay__relay_inbox', {})).content), /No messages in inbox/);
      await listening;
      assert.equal(text(await within(ask(model, 'ready?'), 'the response')), 'Response from bob: yes');
      const lost = ask(model, 'and now?');
      await heard;
      await world.relay.restart();
      assert.equal(
        errorText(await within(lost, 'the end of the wait')),
        WENT_AWAY.replace('Error: ', 'Error: Connection error: '),
      );
      const told = await model.use('mcp__relay__relay_inbox', {});
      assert.equal(told.content.length, 2, JSON.stringify(told));
      assertBetween(noticeStart(told.content[1].text), [world.relay.asked, Date.now()]);
      isRestarted();
      await world.relay.aReadWaits();
      assert.equal(text(await within(ask(model, 'again?'), 'the response')), 'Response from bob: still');
      await model.say('done');
    }),
  ]);
});
