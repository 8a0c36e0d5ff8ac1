// Claude Code itself, with a scripted stand-in for the model. What is compared is what the model is shown.
//
// Each run has an empty home, no settings, and a proxy that refuses everything: nothing is asked of any other machine.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, HTTP, NOTHING, ROLES, assertBetween, assertRead, errorText, postedId, readResult, soleJson } from './support/clients.js';
import { ScriptedModel, closedProxy } from './support/model.js';
import { Relay, relayBin, run, temporaryFolder } from './support/process.js';

const claude = path.join(
  path.dirname(
    createRequire(import.meta.url).resolve(`@anthropic-ai/claude-code-${process.platform}-${process.arch}/package.json`),
  ),
  'claude',
);

const SERVERS = {
  sse: (relay, agent) => ({ type: 'sse', url: relay.url('sse', { agent }).href }),
  http: (relay, agent) => ({ type: 'http', url: relay.url('mcp', { agent }).href }),
  stdio: (relay, agent) => ({
    type: 'stdio',
    command: relayBin,
    args: ['mcp', '--port', String(relay.port), ...(agent ? ['--agent', agent] : [])],
  }),
};

/** Runs `claude -p` with relay as its only MCP server and `script` as its model. */
async function converse(t, server, script) {
  const home = temporaryFolder(t);
  const proxy = await closedProxy(t);
  const model = await ScriptedModel.start(t, script);
  const config = path.join(home, 'mcp.json');
  writeFileSync(config, JSON.stringify({ mcpServers: { relay: { ...server, alwaysLoad: true } } }));
  const ran = run(
    t,
    claude,
    ['-p', 'go on', '--mcp-config', config, '--strict-mcp-config', '--allowedTools', 'mcp__relay__*', '--output-format', 'json'],
    {
      cwd: home,
      env: {
        PATH: process.env.PATH,
        HOME: home,
        ANTHROPIC_BASE_URL: model.url,
        ANTHROPIC_API_KEY: 'dummy',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_AUTOUPDATER: '1',
        HTTP_PROXY: proxy.url,
        HTTPS_PROXY: proxy.url,
        NO_PROXY: '127.0.0.1,localhost',
      },
    },
  );
  // A script that fails leaves its last request open: the client would wait for it.
  const ended = await Promise.race([ran, model.finished.then(() => ran)]);
  assert.deepEqual({ code: ended.code, stderr: ended.stderr }, { code: 0, stderr: '' }, ended.stdout);
  await model.finished;
  assert.deepEqual(proxy.asked, [], 'something was asked of another machine');
  return { model, outcome: JSON.parse(ended.stdout) };
}

const post = (model, from, to, kind, body) => model.use('mcp__relay__post_message', { from, to, kind, body });
const pending = async (model, role) => soleJson(await model.use('mcp__relay__list_pending', { for: role }));
const read = async (model, role, args) => readResult(await model.use('mcp__relay__read_messages', { for: role, ...args }));

/** Posts, and gives back the message as its reader must see it. */
async function posted(model, from, to, kind, body) {
  const before = Date.now();
  const id = postedId(await post(model, from, to, kind, body));
  return { id, from, to, kind, body, window: [before, Date.now()] };
}

/** Waits until the client's event stream is open again; the server tells nobody but who asks. */
async function reopened(relay) {
  const limit = AbortSignal.timeout(10_000);
  while ((await relay.health()).sessions === 0) {
    limit.throwIfAborted();
    await sleep(10);
  }
}

for (const type of Object.keys(SERVERS)) {
  test(`Claude Code over ${type}: the model posts, counts and reads, goes on across kill -9, and is told of it`, async (t) => {
    const relay = await Relay.start(t);
    const { model, outcome } = await converse(t, SERVERS[type](relay), async (model) => {
      const first = await posted(model, 'dev-a', 'pm', 'status', 'P4 done, "all green"\nnext: P5 😀');
      const second = await posted(model, 'dev-b', 'pm', 'question', 'which branch?');
      assert.deepEqual(await pending(model, 'pm'), { count: 2, kinds: ['status', 'question'] });
      const inbox = await read(model, 'pm');
      assertRead(inbox.messages, [first, second]);
      assertBetween(inbox.startedAt, [relay.asked, Date.now()]);
      assert.deepEqual(await read(model, 'pm'), { messages: [], startedAt: undefined });
      assert.match(errorText(await post(model, 'dev-a', 'dev-c', 'status', 'x')), /^Error: unknown role "dev-c"/);
      await posted(model, 'dev-a', 'pm', 'directive', 'never read');

      await relay.restart();
      if (type === 'sse') await reopened(relay);

      const after = await posted(model, 'dev-a', 'pm', 'status', 'after the restart');
      const again = await read(model, 'pm');
      assertRead(again.messages, [after]);
      assertBetween(again.startedAt, [relay.asked, Date.now()]);
      assert.deepEqual(await read(model, 'pm'), { messages: [], startedAt: undefined });
      assert.deepEqual(await read(model, 'dev-b'), { messages: [], startedAt: again.startedAt });
      assert.deepEqual(await pending(model, 'pm'), NOTHING);
      await model.say('all done');
    });
    assert.deepEqual(
      { subtype: outcome.subtype, is_error: outcome.is_error, result: outcome.result, denied: outcome.permission_denials },
      { subtype: 'success', is_error: false, result: 'all done', denied: [] },
    );
    assert.deepEqual([...new Set(model.asked)], ['POST /v1/messages']);
  });

  test(`Claude Code over ${type}: the model is shown the tools and the instructions as relay wrote them`, async (t) => {
    const relay = await Relay.start(t);
    const { client } = await Agent.connect(t, HTTP, relay);
    const { model } = await converse(t, SERVERS[type](relay), (model) => model.say('seen'));
    const [request] = model.conversation;
    assert.deepEqual(
      request.tools
        .filter((tool) => tool.name.startsWith('mcp__'))
        .map(({ name, description, input_schema }) => ({ name, description, inputSchema: input_schema }))
        .toSorted((a, b) => a.name.localeCompare(b.name)),
      (await client.listTools()).tools
        .map(({ name, description, inputSchema }) => ({ name: `mcp__relay__${name}`, description, inputSchema }))
        .toSorted((a, b) => a.name.localeCompare(b.name)),
    );
    const shown = [request.system, ...request.messages.map((message) => message.content)].flat();
    const instructions = client.getInstructions();
    assert.ok(shown.some((block) => (block.text ?? block).includes(instructions)), 'the instructions were not shown');
  });
}

test('Claude Code: two bound sessions, one over sse and one over http, ask and answer while the other waits', async (t) => {
  const relay = await Relay.start(t);
  const use = (model, tool, args) => model.use(`mcp__relay__${tool}`, args);
  const short = ({ messages }) => messages.map(({ from, to, kind, body }) => `${from} ${to} ${kind} ${body}`);
  await Promise.all([
    converse(t, SERVERS.sse(relay, 'dev-a'), async (model) => {
      postedId(await use(model, 'post_message', { to: 'pm', kind: 'question', body: 'may I merge?' }));
      const answer = readResult(await use(model, 'read_messages', { wait_seconds: 60 }));
      assert.deepEqual(short(answer), ['pm dev-a directive merge']);
      postedId(await use(model, 'post_message', { to: 'pm', kind: 'status', body: 'merged' }));
      const text = errorText(await use(model, 'read_messages', { for: 'pm' }));
      assert.ok(text.startsWith('Error: ') && text.includes('dev-a') && text.includes('pm'), text);
      await model.say('done');
    }),
    converse(t, SERVERS.http(relay, 'pm'), async (model) => {
      const question = readResult(await use(model, 'read_messages', { wait_seconds: 60 }));
      assert.deepEqual(short(question), ['dev-a pm question may I merge?']);
      postedId(await use(model, 'post_message', { to: 'dev-a', kind: 'directive', body: 'merge' }));
      const status = readResult(await use(model, 'read_messages', { wait_seconds: 60 }));
      assert.deepEqual(short(status), ['dev-a pm status merged']);
      await model.say('done');
    }),
  ]);
  assert.deepEqual(Object.values((await relay.health()).pending), ROLES.map(() => 0));
});

test('Claude Code over stdio, started before the server: the model is told what to start, and its next call works', async (t) => {
  const relay = await Relay.absent(t);
  await converse(t, SERVERS.stdio(relay), async (model) => {
    const text = errorText(await post(model, 'dev-a', 'pm', 'status', 'too early'));
    assert.equal(text, `Relay is not running. Start it with: relay serve --port ${relay.port}`);
    await relay.up();
    const message = await posted(model, 'dev-a', 'pm', 'status', 'in time');
    const inbox = await read(model, 'pm');
    assertRead(inbox.messages, [message]);
    assert.notEqual(inbox.startedAt, undefined);
    await model.say('done');
  });
});
