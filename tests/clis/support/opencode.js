// OpenCode with relay's plugin, and how it speaks with its model: chat completions.

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { relayBin, relayEnv } from '../../clients/support/process.js';
import { json, stream } from './model.js';

const packageFolder = path.dirname(createRequire(import.meta.url).resolve(`opencode-${process.platform}-${process.arch}/package.json`));

const dialect = {
  isTurn: (request, body) => body?.tools !== undefined,

  shown: ({ messages }) =>
    messages.map(({ role, content, tool_calls: calls }) => {
      if (calls) return { role: 'call', text: calls[0].function.name };
      return { role, text: typeof content === 'string' ? content : content.map((block) => block.text).join('\n') };
    }),

  answer({ body, response }, { text, name, input }) {
    answers += 1;
    const delta =
      name === undefined
        ? { role: 'assistant', content: text }
        : { role: 'assistant', tool_calls: [{ index: 0, id: `call_${answers}`, type: 'function', function: { name, arguments: JSON.stringify(input) } }] };
    const chunk = (choice, more) => ({ id: `chatcmpl-${answers}`, object: 'chat.completion.chunk', created: 1, model: body.model, choices: [{ index: 0, ...choice }], ...more });
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    stream(
      response,
      [chunk({ delta, finish_reason: null }), chunk({ delta: {}, finish_reason: name === undefined ? 'stop' : 'tool_calls' }, { usage })],
      'data: [DONE]\n\n',
    );
  },

  errand({ body, response }) {
    if (body === undefined) json(response, {}, 404);
    else dialect.answer({ body, response }, { text: 'relay' });
  },
};

let answers = 0;

const PROGRAM = path.join(packageFolder, 'bin/opencode');
const ALONE = {
  ...{ OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_LSP_DOWNLOAD: '1' },
  // It has npm fetch the types of plugins, and waits for that.
  ...{ npm_config_offline: 'true', npm_config_fetch_retries: '0' },
};

export const opencode = {
  name: 'OpenCode',
  program: { command: PROGRAM, args: [], env: ALONE },
  dialect,
  shell: (command) => ['bash', { command, description: 'what the test wants' }],
  tool: (name) => `relay_${name}`,
  reads: { tool: 'read_messages', input: { for: 'dev-a' }, none: '[]' },

  behindTool: (call, result, text) => [
    { role: 'call', text: call },
    { role: 'tool', text: text === undefined ? result : `${result}\n\n${text}` },
  ],
  // It puts the prompt of a run in quotes.
  atPrompt: (prompt, text) => [{ role: 'user', text: `"${prompt}"\n${text}` }],

  turn(world) {
    const tui = opencode.tui(world);
    return { ...tui, args: ['run', world.prompt] };
  },

  /** Returns the command that shows its window, and its environment. */
  tui({ home, project, relay, model, permission = 'allow' }) {
    const install = ['install', '--editor', 'opencode', '--port', String(relay.port)];
    execFileSync(relayBin, install, { cwd: project, env: { ...relayEnv(), HOME: home }, stdio: 'ignore' });
    const models = { mock: { name: 'mock', tool_call: true, limit: { context: 100_000, output: 1_000 } } };
    const provider = { npm: '@ai-sdk/openai-compatible', name: 'mock', options: { baseURL: `${model.url}/v1`, apiKey: 'dummy' }, models };
    writeFileSync(
      path.join(project, 'opencode.json'),
      JSON.stringify({
        ...{ model: 'mock/mock', small_model: 'mock/mock', autoupdate: false, share: 'disabled' },
        ...{ provider: { mock: provider }, permission: { bash: permission } },
        mcp: { relay: { type: 'remote', url: relay.url('mcp').href } },
      }),
    );
    return {
      command: PROGRAM,
      args: [],
      env: { RELAY_PORT: String(relay.port), ...ALONE },
    };
  },
};
