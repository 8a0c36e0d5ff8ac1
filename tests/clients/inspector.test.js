// The MCP Inspector's command line: what a person sees who looks at relay with it.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { KINDS, ROLES, TOOLS, assertRead, errorText, postedId, readResult, soleJson } from './support/clients.js';
import { Relay, folder, run, temporaryFolder } from './support/process.js';

const inspector = path.join(folder, 'node_modules/.bin/inspector');

// The Inspector speaks the protocol with a handshake unless it is told to speak the one without.
const WAYS = [
  { route: 'sse', transport: 'sse', era: 'legacy' },
  { route: 'mcp', transport: 'http', era: 'legacy' },
  { route: 'mcp', transport: 'http', era: 'modern' },
];

for (const { route, transport, era } of WAYS) {
  test(`Inspector over ${transport}, ${era}: tools/list, a post, a count, a read and a refusal`, async (t) => {
    const relay = await Relay.start(t);
    const home = temporaryFolder(t);

    /** One run of the command line, which is one session; `expected` is its exit code. */
    const inspect = async (expected, ...args) => {
      const { code, stdout, stderr } = await run(
        t,
        process.execPath,
        [inspector, '--cli', relay.url(route).href, '--transport', transport, '--protocol-era', era, ...args],
        { cwd: home, env: { PATH: process.env.PATH, HOME: home } },
      );
      assert.equal(code, expected, stderr);
      return JSON.parse(stdout);
    };
    const call = (expected, tool, args) =>
      inspect(expected, '--method', 'tools/call', '--tool-name', tool, '--tool-args-json', JSON.stringify(args));

    const { tools } = await inspect(0, '--method', 'tools/list', '--strict');
    assert.deepEqual(tools.map((tool) => tool.name).sort(), TOOLS);
    const { from, kind } = tools.find((tool) => tool.name === 'post_message').inputSchema.properties;
    assert.deepEqual([from.enum, kind.enum], [ROLES, KINDS]);

    const message = { from: 'dev-a', to: 'pm', kind: 'question', body: 'a "quoted"\nline' };
    const before = Date.now();
    const id = postedId(await call(0, 'post_message', message));
    const window = [before, Date.now()];
    assert.deepEqual(soleJson(await call(0, 'list_pending', { for: 'pm' })), { count: 1, kinds: ['question'] });
    const first = readResult(await call(0, 'read_messages', { for: 'pm' }));
    assertRead(first.messages, [{ id, ...message, window }]);
    assert.equal(first.startedAt, undefined);
    const again = readResult(await call(0, 'read_messages', { for: 'pm' }));
    if (transport === 'sse') {
      // Each run closes its stream right after its one call, so the read before is undone.
      assertRead(again.messages, [{ id, ...message, redelivered: true, window }]);
      assert.equal(again.startedAt, first.startedAt);
    } else {
      assert.deepEqual(again, { messages: [], startedAt: undefined });
    }
    assert.match(errorText(await call(5, 'list_pending', { for: 'nobody' })), /^Error: unknown role "nobody"/);
  });
}
