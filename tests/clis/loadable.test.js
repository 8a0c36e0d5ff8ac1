// Whatever stood there for relay before, `relay install` leaves a file that the CLI itself loads, by its own list of its servers.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { ADDRESS, PROGRAM, entries } from '../clients/support/entries.js';
import { relayBin, relayEnv, run } from '../clients/support/process.js';
import { codex } from './support/codex.js';
import { gemini } from './support/gemini.js';
import { opencode } from './support/opencode.js';
import { World } from './support/world.js';

// An address of relay's own, of which what was added stays.
const URL = 'url = "http://localhost:7331/mcp"\n';
const COMMAND = 'command = "/old/relay"\nargs = ["mcp"]\n';
const table = (...parts) => `[mcp_servers.relay]\n${parts.join('')}`;

/** What Codex starts with, or does not start with, in its config.toml. */
const TOML = {
  'an address': table(URL),
  'a command': table(COMMAND),
  'a command with its environment in a table': table(COMMAND, '\n[mcp_servers.relay.env]\nRELAY_AGENT = "dev-a"\n'),
  'an address with an environment in a table': table(URL, '\n[mcp_servers.relay.env]\nA = "b"\n'),
  'an address with an environment in dotted keys': table(URL, 'env.A = "b"\nenv.B = "c"\n'),
  'an address with what belongs to a command': table(URL, 'args = ["mcp"]\ncwd = "/"\nenv_vars = ["A"]\nenv = { A = "b" }\n'),
  'a command with headers in a table': table(COMMAND, '\n[mcp_servers.relay.http_headers]\nA = "b"\n'),
  'a command with what belongs to an address': table(COMMAND, URL, 'bearer_token_env_var = "X"\nenv_http_headers = { A = "B" }\noauth_resource = "x"\n'),
  'a token that is written there': table(URL, 'bearer_token = "x"\n'),
  'a token beside a header for it': table(URL, 'bearer_token_env_var = "X"\n\n[mcp_servers.relay.http_headers]\nAuthorization = "Bearer x"\n'),
  'values of another kind': table(URL, 'startup_timeout_sec = "5"\nhttp_headers = 3\nenabled_tools = "a"\n'),
  'numbers of another kind': table(URL, 'startup_timeout_ms = 5000.0\nstartup_timeout_sec = 1e30\n'),
  'what is unknown in a value': table(URL, 'auth = "x"\noauth = { client_id = 1, callback_port = 70000 }\ndefault_tools_approval_mode = "x"\n'),
  'a value of another kind in a value': table(URL, 'oauth = 1\ntools = { x = 1, y = { approval_mode = "x", output_token_limit = "x" } }\n'),
  'names of variables that are none': table(COMMAND, 'env_vars = ["A", 3, { x = 1 }, { name = "B", source = "x" }]\n'),
  'a limit with a fraction': table(URL, 'tools.x.output_token_limit = 5000.0\ntools.y.output_token_limit = 0\n'),
  'a name of a variable with more beside it': table(COMMAND, 'env_vars = [{ name = "A", x = 1 }]\n'),
  'an issuer without what it needs': table(URL, 'oauth = { authorization_server_issuer = "https://x.example" }\n'),
  'a method without what it needs': table(URL, 'auth = "ema_auth"\noauth = { token_endpoint_auth_method = "client_secret_basic" }\n'),
  'a secret without what it needs': table(URL, 'oauth = { client_secret = "x" }\n'),
  'no servers in one line': 'mcp_servers = {}\n',
  'what belongs to both': table(URL, 'startup_timeout_sec = 5.5\n\n[mcp_servers.relay.tools.post_message]\napproval_mode = "approve"\n'),
  'what Codex has for all tools': table(URL, 'default_tools_approval_mode = "prompt"\nstartup_timeout_ms = 0\n'),
};

/** What OpenCode and Gemini CLI start with, or do not start with, beside an address. */
const nested = (address) => ({
  'numbers and values of a kind that the other takes': { ...address, timeout: 1e20, oauth: true, authProviderType: 'x' },
  'a value of another kind in a value': { ...address, oauth: { clientId: 5, callbackPort: 70000 }, name: 'x', extension: 'x' },
});

const CLIS = [
  {
    cli: codex,
    editor: 'codex',
    file: ({ home }) => path.join(home, '.codex/config.toml'),
    before: TOML,
    well: { http: (url) => new RegExp(`^relay +${url}\\S* `, 'm'), stdio: () => new RegExp(`^relay +${relayBin} +mcp`, 'm') },
  },
  {
    cli: gemini,
    editor: 'gemini',
    file: ({ project }) => path.join(project, '.gemini/settings.json'),
    before: { ...entries({ httpUrl: ADDRESS.url }, PROGRAM), ...nested({ httpUrl: ADDRESS.url }) },
    within: (relay) => JSON.stringify({ mcpServers: { relay } }),
    env: { GEMINI_CLI_TRUST_WORKSPACE: 'true' },
    well: { http: (url) => new RegExp(`✓ relay: ${url}\\S* \\(http\\) - Connected`), stdio: () => /✓ relay: \S+ mcp .*\(stdio\) - Connected/ },
  },
  {
    cli: opencode,
    editor: 'opencode',
    file: ({ project }) => path.join(project, 'opencode.json'),
    before: {
      ...entries({ type: 'remote', ...ADDRESS }, { type: 'local', command: ['/old/relay', 'mcp'] }),
      ...nested({ type: 'remote', ...ADDRESS }),
    },
    within: (relay) => JSON.stringify({ mcp: { relay } }),
    well: { http: (url) => new RegExp(`✓ relay connected\n.*${url}`), stdio: () => /✓ relay connected\n.* mcp/ },
  },
];

for (const { cli, editor, file, before, within = (text) => text, env, well } of CLIS) {
  test(`${cli.name} loads what relay install leaves, whatever stood there before`, async (t) => {
    const world = await World.start(t, cli);
    const place = file(world);
    mkdirSync(path.dirname(place), { recursive: true });
    const port = String(world.relay.port);
    for (const [what, entry] of Object.entries(before)) {
      for (const transport of ['http', 'stdio']) {
        writeFileSync(place, within(entry));
        const install = ['install', '--editor', editor, '--port', port, '--transport', transport];
        const installed = await run(t, relayBin, install, { cwd: world.project, env: { ...relayEnv(), HOME: world.home } });
        assert.equal(installed.code, 0, `${what}: ${installed.stderr}`);
        const { command, args, env: own } = cli.program;
        const listed = await run(t, command, [...args, 'mcp', 'list'], { cwd: world.project, env: world.env({ ...own, ...env }) });
        // Without colours.
        const text = (listed.stdout + listed.stderr).replace(/\x1b\[\d*m/g, '');
        assert.equal(listed.code, 0, `${what}, ${transport}: ${text}`);
        assert.match(text, well[transport](`http://localhost:${port}/mcp`), `${what}, ${transport}: ${text}`);
        assert.doesNotMatch(text, /invalid|expected|unrecognized|fix the configuration/i, `${what}, ${transport}`);
      }
    }
  });
}
