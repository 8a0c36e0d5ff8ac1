// Whatever stood there for relay before, `relay install` leaves a file that Claude Code itself loads, by its own list of its servers.
// tests/clis has the same of the CLIs that are tested there. Cursor, VS Code, Windsurf and Zed list nothing without a window and an
// account: of them the makers' documents decide, which src/cli/install/members.rs names.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { claude } from './support/claude.js';
import { ADDRESS, PROGRAM, entries } from './support/entries.js';
import { closedProxy } from './support/model.js';
import { Relay, relayBin, relayEnv, run, temporaryFolder } from './support/process.js';

const LISTED = {
  sse: (port) => new RegExp(`^relay: http://localhost:${port}/sse`, 'm'),
  http: (port) => new RegExp(`^relay: http://localhost:${port}/mcp`, 'm'),
  stdio: () => /^relay: \S*relay mcp/m,
};

test('Claude Code loads what relay install leaves, whatever stood there before', async (t) => {
  const relay = await Relay.start(t);
  const home = temporaryFolder(t);
  const proxy = await closedProxy(t);
  const project = temporaryFolder(t);
  const file = path.join(project, '.mcp.json');
  const env = {
    ...{ PATH: process.env.PATH, HOME: home, DISABLE_AUTOUPDATER: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' },
    ...{ HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url, NO_PROXY: '127.0.0.1,localhost' },
  };
  const before = entries({ type: 'http', ...ADDRESS }, { type: 'stdio', ...PROGRAM });
  for (const [what, entry] of Object.entries(before)) {
    for (const [transport, listed] of Object.entries(LISTED)) {
      writeFileSync(file, JSON.stringify({ mcpServers: { relay: entry } }));
      const install = ['install', '--editor', 'claude', '--port', String(relay.port), '--transport', transport];
      const installed = await run(t, relayBin, install, { cwd: project, env: { ...relayEnv(), HOME: home } });
      assert.equal(installed.code, 0, `${what}: ${installed.stderr}`);
      const { code, stdout, stderr } = await run(t, claude, ['mcp', 'list'], { cwd: project, env });
      const text = stdout + stderr;
      assert.equal(code, 0, text);
      assert.match(text, listed(relay.port), `${what}, ${transport}: ${text}`);
      assert.doesNotMatch(text, /warning|invalid|skipped/i, `${what}, ${transport}`);
    }
  }
});
