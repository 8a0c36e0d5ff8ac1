// What relay's hooks do in Codex, Gemini CLI and OpenCode, each itself, with a script as its model. What is compared is what the model is
// shown. OpenCode has relay's plugin in place of hooks.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { codex } from './support/codex.js';
import { gemini } from './support/gemini.js';
import { opencode } from './support/opencode.js';
import { World, framed, plain } from './support/world.js';

const AGENT = { agent: 'dev-a' };
const POSTED = '{"id":"ID"}\nnote: no agent has read for dev-b since relay started at TS; the message waits';
const NONE = '{"count":0,"kinds":[]}';

/** Has the model run a command, and shows that it is shown a text behind it, or none. */
async function runs(world, model, text) {
  const [name, input] = world.cli.shell('echo ran');
  const expected = world.cli.behindTool(name, 'ran', text);
  assert.deepEqual(trimmed(plain(await model.use(name, input))), trimmed(expected));
}

/** The same with one of relay's tools. */
async function calls(world, model, tool, input, result, text) {
  const name = world.cli.tool(tool);
  assert.deepEqual(trimmed(plain(await model.use(name, input))), trimmed(world.cli.behindTool(name, result, text)));
}

/** Shells end their output with a line break, or with none. */
const trimmed = (news) => news.map(({ role, text }) => ({ role, text: text.trim().replace(/\n{2,}/g, '\n') }));

for (const cli of [codex, gemini, opencode]) {
  const { name } = cli;

  test(`${name}: a busy agent sees a message behind its tool, once`, async (t) => {
    const world = await World.start(t, cli);
    await world.turn(async (model) => {
      await model.asked();
      await world.send('first');
      await world.send('second');
      await runs(world, model, framed('first', 'second'));
      await runs(world, model, undefined);
      await calls(world, model, 'list_pending', { for: 'dev-a' }, NONE, undefined);
      await world.send('third');
      await runs(world, model, framed('third'));
      await world.send('fourth');
      const shown = plain(await model.use(...world.cli.shell('exit 3'))).map(({ text }) => text.trim()).join('\n');
      assert.equal(shown.split(framed('fourth').trim()).length, 2, shown);
      await model.say('done');
    }, AGENT);
    assert.deepEqual(world.proxy.asked, [], 'something was asked of another machine');
  });

  test(`${name}: what waits when the person says something is shown with it`, async (t) => {
    const world = await World.start(t, cli);
    await world.send('before');
    await world.turn(async (model) => {
      const news = plain(await model.news());
      assert.deepEqual(trimmed(news.slice(-cli.atPrompt('', '').length)), trimmed(cli.atPrompt('go on', framed('before'))));
      await model.say('done');
    }, AGENT);
  });

  test(`${name}: a session is recognised by its call of a tool, and not before`, async (t) => {
    const world = await World.start(t, cli);
    await world.turn(async (model) => {
      await model.asked();
      await world.send('first');
      await runs(world, model, undefined);
      const waits = '{"count":1,"kinds":["free"]}';
      await calls(world, model, 'list_pending', { for: 'dev-a' }, waits, undefined);
      await calls(world, model, 'post_message', { from: 'dev-a', to: 'dev-b', kind: 'free', body: 'here' }, POSTED, framed('first'));
      await world.send('second');
      await runs(world, model, framed('second'));
      await model.say('done');
    });
  });

  test(`${name}: a session is recognised by what it reads, too`, async (t) => {
    const world = await World.start(t, cli);
    const { tool, input } = cli.reads;
    await world.turn(async (model) => {
      await model.asked();
      await world.send('alpha');
      await runs(world, model, undefined);
      const [call, read, ...others] = await model.use(cli.tool(tool), input);
      assert.deepEqual([call.text, read.text.match(/alpha/g)?.length, others], [cli.tool(tool), 1, []], read.text);
      await world.send('omega');
      await runs(world, model, framed('omega'));
      await model.say('done');
    });
  });

  test(`${name}: a call that relay refuses does not say who the session is`, async (t) => {
    const world = await World.start(t, cli);
    await world.turn(async (model) => {
      await model.asked();
      await world.send('not for this one');
      await model.use(cli.tool('post_message'), { from: 'dev-a', to: 'nobody', kind: 'free', body: 'x' });
      await runs(world, model, undefined);
      await model.say('done');
    });
  });

  test(`${name}: what was read with a tool is not shown, and what was shown is not read`, async (t) => {
    const world = await World.start(t, cli);
    const { tool, input, none } = cli.reads;
    await world.turn(async (model) => {
      await model.asked();
      await world.send('by tool');
      const [call, read, ...others] = await model.use(cli.tool(tool), input);
      assert.deepEqual([call.text, read.text.match(/by tool/g)?.length, others], [cli.tool(tool), 1, []], read.text);
      await runs(world, model, undefined);
      await world.send('by hook');
      await runs(world, model, framed('by hook'));
      await calls(world, model, tool, input, none, undefined);
      await model.say('done');
    }, AGENT);
  });

  test(`${name}: where no relay is, a turn is as it would be without it`, async (t) => {
    const world = await World.absent(t, cli);
    await world.turn(async (model) => {
      await runs(world, model, undefined);
      await model.say('done');
    }, AGENT);
  });
}

for (const cli of [codex, gemini]) {
  test(`${cli.name}: a turn that would end goes on where something waits, and then ends`, async (t) => {
    const world = await World.start(t, cli);
    await world.turn(async (model) => {
      await model.asked();
      await world.send('at the end', '--mode', 'on-idle');
      await runs(world, model, undefined);
      await model.say('done so far');
      assert.deepEqual(plain(await model.news()).map(({ role, text }) => ({ role, text })), cli.atEnd('done so far', framed('at the end'), world.home));
      await model.say('done');
    }, AGENT);
  });
}
