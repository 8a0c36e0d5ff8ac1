// What `relay install` writes, by Claude Code's own check of the health of its servers.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SERVERS, claude, converse } from './support/claude.js';
import { errorText } from './support/clients.js';
import { Relay, relayBin, run, temporaryFolder } from './support/process.js';

/** A home and a project, the calls that are made there, and what Claude Code says of its servers. */
function desk(t) {
  const top = temporaryFolder(t);
  const [home, project] = ['home', 'project'].map((name) => path.join(top, name));
  for (const made of [home, project]) mkdirSync(made);
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    NO_PROXY: '127.0.0.1,localhost',
  };
  const call = async (program, ...args) => {
    const { code, stdout, stderr } = await run(t, program, args, { cwd: project, env });
    assert.equal(code, 0, stdout + stderr);
    return stdout;
  };
  return {
    project,
    relay: (...args) => call(relayBin, ...args),
    lines: async () => (await call(claude, 'mcp', 'list')).split('\n').filter((line) => line.startsWith('relay: ')),
    add: (url) => call(claude, 'mcp', 'add', '--scope', 'user', '--transport', 'sse', 'relay', url),
    settings: path.join(home, '.claude.json'),
  };
}

for (const transport of ['sse', 'http', 'stdio']) {
  test(`Claude Code reaches relay over ${transport} after relay install --global, and knows none after relay uninstall`, async (t) => {
    const relay = await Relay.start(t);
    const { relay: call, lines } = desk(t);
    const installed = ['--editor', 'claude', '--global', '--transport', transport, '--port', String(relay.port)];
    await call('install', ...installed);
    const [line, ...others] = await lines();
    assert.match(line, /✔ Connected$/);
    assert.deepEqual(others, []);
    await call('uninstall', '--global');
    assert.deepEqual(await lines(), []);
  });
}

test('relay install changes the entry that Claude Code itself has written for the user, and uninstall gives it back', async (t) => {
  const relay = await Relay.start(t);
  const { relay: call, lines, add, settings } = desk(t);
  await add('http://localhost:9/sse');
  const before = readFileSync(settings);
  const install = () => call('install', '--editor', 'claude', '--global', '--port', String(relay.port));
  await install();
  await call('uninstall', '--global');
  assert.deepEqual(readFileSync(settings), before);
  await install();
  const { url } = JSON.parse(readFileSync(settings, 'utf8')).mcpServers.relay;
  assert.equal(url, `http://localhost:${relay.port}/sse?agent=\${RELAY_AGENT:-}`);
  const [line] = await lines();
  assert.match(line, /✔ Connected$/);
});

test("Claude Code knows the project's relay from the file that relay install has made", async (t) => {
  const relay = await Relay.start(t);
  const { relay: call, lines, project } = desk(t);
  await call('install', '--editor', 'claude', '--port', String(relay.port));
  const settings = JSON.parse(readFileSync(path.join(project, '.claude/settings.local.json'), 'utf8'));
  assert.deepEqual(settings.enabledMcpjsonServers, ['relay']);
  assert.deepEqual(settings.permissions, { allow: ['mcp__relay'], ask: ['mcp__relay__relay_spawn'] });
  // In a folder that nobody has trusted yet it asks no server of the project.
  const [line] = await lines();
  assert.match(line, new RegExp(`^relay: http://localhost:${relay.port}/sse\\?agent=`));
});

test('after relay install Claude Code asks its person before it starts a worker, although it may call all tools, unless its person has allowed that', async (t) => {
  const relay = await Relay.start(t);
  const { relay: call, project } = desk(t);
  const install = () => call('install', '--editor', 'claude', '--no-hooks', '--port', String(relay.port));
  const server = SERVERS.http(relay, 'pm');
  server.url += '&tools=agent-relay';
  const spawn = { name: 'dev-a', cli: 'claude', task: 'count' };
  const talk = async () => {
    let answer;
    const script = async (model) => {
      assert.match((await model.use('mcp__relay__relay_status', {})).content[0].text, /Agent Name: pm/);
      answer = errorText(await model.use('mcp__relay__relay_spawn', spawn));
      await model.say('done');
    };
    const { outcome } = await converse(t, server, script, { cwd: project });
    return { answer, denied: outcome.permission_denials.map((denied) => denied.tool_name) };
  };
  await install();
  const asked = await talk();
  // Nobody is there whom it could ask.
  assert.deepEqual(asked.denied, ['mcp__relay__relay_spawn'], asked.answer);
  await call('uninstall');
  mkdirSync(path.join(project, '.claude'), { recursive: true });
  const allow = ['mcp__relay__relay_spawn'];
  writeFileSync(path.join(project, '.claude/settings.local.json'), JSON.stringify({ permissions: { allow } }));
  await install();
  const allowed = await talk();
  assert.deepEqual(allowed.denied, []);
  assert.match(allowed.answer, /Failed to spawn worker: dev-a is an agent that relay has not started/);
});
