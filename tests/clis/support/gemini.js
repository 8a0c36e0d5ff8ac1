// Gemini CLI, and how it speaks with its model: `streamGenerateContent`.

import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { relayBin } from '../../clients/support/process.js';
import { json, stream } from './model.js';

const packageFolder = path.dirname(createRequire(import.meta.url).resolve('@google/gemini-cli/package.json'));

const dialect = {
  isTurn: (request, body) => body?.tools !== undefined,

  shown: ({ contents }) =>
    contents.flatMap(({ role, parts }) =>
      parts.map(({ text, functionCall, functionResponse }) => {
        if (functionCall) return { role: 'call', text: functionCall.name };
        if (!functionResponse) return { role, text };
        const { output, error } = functionResponse.response;
        // In frames of Gemini CLI's own, with which process it was.
        return { role: 'tool', text: (output ?? error).replace(/<untrusted_context>\n(?:Output: )?([^]*?)(?:\nProcess Group PGID: \d+)?\n<\/untrusted_context>/g, '$1') };
      }),
    ),

  answer({ request, response }, { text, name, input }) {
    const part = name === undefined ? { text } : { functionCall: { name, args: input } };
    const answer = {
      candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP', index: 0 }],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    };
    if (request.url.includes(':streamGenerateContent')) stream(response, [answer]);
    else json(response, answer);
  },

  errand: (turn) => dialect.answer(turn, { text: 'relay' }),
};

const PROGRAM = path.join(packageFolder, 'bundle/gemini.js');

export const gemini = {
  name: 'Gemini CLI',
  program: { command: process.execPath, args: [PROGRAM], env: {} },
  dialect,
  shell: (command) => ['run_shell_command', { command }],
  tool: (name) => `mcp_relay_${name}`,
  // It takes a first text that is JSON for data, and refuses an array, so that relay puts another one before it.
  reads: { tool: 'read_messages', input: { for: 'dev-a' }, none: 'Messages, oldest first, as a JSON array:\n[]' },

  behindTool: (call, result, text) => [
    { role: 'call', text: call },
    { role: 'tool', text: text === undefined ? result : `${result}\n\n<hook_context>${text}</hook_context>` },
  ],
  atEnd: (said, text) => [
    { role: 'model', text: said },
    { role: 'user', text },
  ],
  atPrompt: (prompt, text) => [
    { role: 'user', text: prompt },
    { role: 'user', text: `<hook_context>${text}</hook_context>` },
  ],

  turn(world) {
    const tui = gemini.tui(world);
    return { ...tui, args: [...tui.args, '--yolo', '-p', world.prompt] };
  },

  /** Returns the command that shows its window, and its environment. */
  tui({ home, relay, model }) {
    const folder = path.join(home, '.gemini');
    mkdirSync(folder);
    const hook = [{ hooks: [{ type: 'command', command: `${relayBin} hook gemini --port ${relay.port}` }] }];
    const events = ['SessionStart', 'BeforeAgent', 'AfterTool', 'AfterAgent', 'SessionEnd'];
    writeFileSync(
      path.join(folder, 'settings.json'),
      JSON.stringify({
        security: { auth: { selectedType: 'gemini-api-key' } },
        general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
        privacy: { usageStatisticsEnabled: false },
        mcpServers: { relay: { httpUrl: relay.url('mcp').href } },
        hooks: Object.fromEntries(events.map((event) => [event, hook])),
      }),
    );
    return {
      command: process.execPath,
      args: [PROGRAM, '-m', 'gemini-2.5-flash', '--skip-trust'],
      env: { GEMINI_API_KEY: 'dummy', GOOGLE_GEMINI_BASE_URL: model.url },
    };
  },
};
