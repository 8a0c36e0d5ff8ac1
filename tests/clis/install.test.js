// What `relay install` writes, by each CLI's own list of its servers.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { relayBin, relayEnv, run } from '../clients/support/process.js';
import { codex } from './support/codex.js';
import { gemini } from './support/gemini.js';
import { opencode } from './support/opencode.js';
import { World } from './support/world.js';

/** A relay, and what is called in an empty project with an empty home. */
async function desk(t, cli) {
  const world = await World.start(t, cli);
  const call = async (command, args, env) => {
    const { code, stdout, stderr } = await run(t, command, args, { cwd: world.project, env });
    return { code, text: stdout + stderr };
  };
  return {
    port: String(world.relay.port),
    relay: (...args) => call(relayBin, args, { ...relayEnv(), HOME: world.home }),
    list: async (more = {}) => {
      const { command, args, env } = cli.program;
      const { code, text } = await call(command, [...args, 'mcp', 'list'], world.env({ ...env, ...more }));
      assert.equal(code, 0, text);
      // Without colours.
      return text.replace(/\x1b\[\d*m/g, '');
    },
  };
}

for (const [cli, editor, reached] of [
  [codex, 'codex', (port) => new RegExp(`^relay +http://localhost:${port}/mcp\\?agent= +- +enabled`, 'm')],
  [opencode, 'opencode', (port) => new RegExp(`✓ relay connected\n.*http://localhost:${port}/mcp`)],
]) {
  test(`${cli.name} knows relay after relay install, and none after relay uninstall`, async (t) => {
    const { port, relay, list } = await desk(t, cli);
    const { code, text } = await relay('install', '--editor', editor, '--port', port);
    assert.equal(code, 0, text);
    assert.match(await list(), reached(port));
    assert.equal((await relay('uninstall', '--editor', editor)).code, 0);
    assert.doesNotMatch(await list(), /relay .*http|relay connected/);
  });
}

test('Gemini CLI reaches relay after relay install once its folder is trusted, as relay doctor says, and knows none after relay uninstall', async (t) => {
  const { port, relay, list } = await desk(t, gemini);
  const { text: told } = await relay('install', '--editor', 'gemini', '--port', port);
  assert.match(told, /Gemini CLI runs servers and a project's hooks only in a folder that you trust/);
  assert.match(await list(), /○ relay: .* - Disabled/);
  const doctor = await relay('doctor');
  assert.equal(doctor.code, 1);
  assert.match(doctor.text, /trusted {5}no\n.*trust the folder when it asks/s);
  const trusted = { GEMINI_CLI_TRUST_WORKSPACE: 'true' };
  assert.match(await list(trusted), new RegExp(`✓ relay: http://localhost:${port}/mcp\\?agent= \\(http\\) - Connected`));
  assert.equal((await relay('uninstall', '--editor', 'gemini')).code, 0);
  assert.doesNotMatch(await list(trusted), /relay: http/);
});
