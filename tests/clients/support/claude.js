// Claude Code with relay as its only MCP server and a script as its model.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { ScriptedModel, closedProxy } from './model.js';
import { relayBin, run, temporaryFolder } from './process.js';

export const claude = path.join(
  path.dirname(
    createRequire(import.meta.url).resolve(`@anthropic-ai/claude-code-${process.platform}-${process.arch}/package.json`),
  ),
  'claude',
);

/** How relay stands in Claude Code's configuration. */
export const SERVERS = {
  sse: (relay, agent) => ({ type: 'sse', url: relay.url('sse', { agent }).href }),
  http: (relay, agent) => ({ type: 'http', url: relay.url('mcp', { agent }).href }),
  stdio: (relay, agent) => ({
    type: 'stdio',
    command: relayBin,
    args: ['mcp', '--port', String(relay.port), ...(agent ? ['--agent', agent] : [])],
  }),
};

/** The environment of a Claude Code that asks `model` and nobody else: whatever it asks of others, `proxy` is asked for. */
export const environment = (home, model, proxy) => ({
  PATH: process.env.PATH,
  HOME: home,
  ANTHROPIC_BASE_URL: model.url,
  ANTHROPIC_API_KEY: 'dummy',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  DISABLE_AUTOUPDATER: '1',
  HTTP_PROXY: proxy.url,
  HTTPS_PROXY: proxy.url,
  NO_PROXY: '127.0.0.1,localhost',
});

/** Runs `claude -p` with relay as its only MCP server and `script` as its model. */
export async function converse(t, server, script, { cwd, allowed = [], args = [], env = {} } = {}) {
  const home = temporaryFolder(t);
  const proxy = await closedProxy(t);
  const model = await ScriptedModel.start(t, script);
  const config = path.join(home, 'mcp.json');
  writeFileSync(config, JSON.stringify({ mcpServers: { relay: { ...server, alwaysLoad: true } } }));
  const ran = run(
    t,
    claude,
    [
      ...['-p', 'go on', '--mcp-config', config, '--strict-mcp-config', '--output-format', 'json', ...args],
      ...['--allowedTools', 'mcp__relay__*', ...allowed],
    ],
    { cwd: cwd ?? home, env: { ...environment(home, model, proxy), ...env } },
  );
  // A script that fails leaves its last request open: the client would wait for it.
  const ended = await Promise.race([ran, model.finished.then(() => ran)]);
  assert.deepEqual({ code: ended.code, stderr: ended.stderr }, { code: 0, stderr: '' }, ended.stdout);
  await model.finished;
  assert.deepEqual(proxy.asked, [], 'something was asked of another machine');
  return { model, outcome: JSON.parse(ended.stdout) };
}
