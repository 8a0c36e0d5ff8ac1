// The TypeScript client of MCP's second generation, over each transport, with the handshake and with the newest protocol without one.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { NOTHING, TOOLS, assertRead, errorText, postedId, readResult, soleJson } from './support/clients.js';
import { Relay, atEnd, relayBin, relayEnv, within } from './support/process.js';

/** What the client's two ways to connect agree on with relay. */
const PROTOCOL = { legacy: '2025-11-25', auto: '2026-07-28' };

const TRANSPORTS = {
  stdio: (relay) =>
    new StdioClientTransport({ command: relayBin, args: ['mcp', '--port', String(relay.port)], env: relayEnv(), stderr: 'ignore' }),
  http: (relay) => new StreamableHTTPClientTransport(relay.url('mcp')),
  sse: (relay) => new SSEClientTransport(relay.url('sse')),
};

for (const [transport, open] of Object.entries(TRANSPORTS)) {
  for (const [mode, protocol] of Object.entries(PROTOCOL)) {
    test(`TypeScript client over ${transport}, ${mode}: it connects, lists, posts, reads, waits, and is refused in words`, async (t) => {
      const relay = await Relay.start(t);
      const connect = async () => {
        const client = new Client({ name: 'relay-client-tests', version: '1.0.0' }, { versionNegotiation: { mode } });
        atEnd(t, () => client.close());
        await within(client.connect(open(relay)), `the client to connect over ${transport}`);
        return client;
      };
      const call = (client, name, args) => client.callTool({ name, arguments: args });
      const post = async (client, from, to, kind, body) => {
        const before = Date.now();
        const id = postedId(await call(client, 'post_message', { from, to, kind, body }));
        return { id, from, to, kind, body, window: [before, Date.now()] };
      };
      const [reader, poster] = [await connect(), await connect()];
      assert.equal(reader.getNegotiatedProtocolVersion(), protocol);
      assert.equal(reader.getServerVersion().name, 'relay');
      const { tools } = await reader.listTools();
      assert.deepEqual(tools.map(({ name }) => name).sort(), TOOLS);
      for (const tool of TOOLS) assert.ok(reader.getInstructions().includes(tool), tool);

      const posted = [
        await post(poster, 'pm', 'dev-a', 'status', 'one'),
        await post(poster, 'dev-b', 'dev-a', 'question', 'zwei \u2028 😀\r\n'),
      ];
      assert.deepEqual(soleJson(await call(reader, 'list_pending', { for: 'dev-a' })), { count: 2, kinds: ['status', 'question'] });
      assertRead(readResult(await call(reader, 'read_messages', { for: 'dev-a' })).messages, posted);
      assert.deepEqual(readResult(await call(reader, 'read_messages', { for: 'dev-a' })), { messages: [], startedAt: undefined });

      const waiting = call(reader, 'read_messages', { for: 'dev-a', wait_seconds: 60 });
      await relay.aReadWaits();
      const woken = await post(poster, 'pm', 'dev-a', 'directive', 'wake up');
      assertRead(readResult(await within(waiting, 'the read to be woken')).messages, [woken]);
      assert.deepEqual(soleJson(await call(poster, 'list_pending', { for: 'dev-a' })), NOTHING);
      assert.match(errorText(await call(reader, 'list_pending', { for: 'nobody' })), /^Error: unknown role "nobody"/);
    });
  }
}
