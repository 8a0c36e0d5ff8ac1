// Codex, and how it speaks with its model: the Responses API.

import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { relayBin } from '../../clients/support/process.js';
import { json, stream } from './model.js';

const TARGETS = { 'linux-x64': 'x86_64-unknown-linux-musl', 'linux-arm64': 'aarch64-unknown-linux-musl', 'darwin-x64': 'x86_64-apple-darwin', 'darwin-arm64': 'aarch64-apple-darwin' };
const platform = `${process.platform}-${process.arch}`;
const packageFolder = path.dirname(createRequire(import.meta.url).resolve(`@openai/codex-${platform}/package.json`));

const dialect = {
  // What it names a conversation by in its window it asks for without tools.
  isTurn: ({ method, url }, body) => method === 'POST' && url.endsWith('/responses') && body.tools.length > 0,

  shown: ({ input }) =>
    input.map(({ type, role, name, namespace, content, output }) => {
      if (type === 'function_call') return { role: 'call', text: namespace ? `${namespace}__${name}` : name };
      if (type !== 'function_call_output') return { role, text: texts(content) };
      // What the tool gave stands behind how long it took and how it ended.
      const text = texts(output);
      return { role: 'tool', text: text.slice(text.indexOf('Output:') + 'Output:'.length).trim() };
    }),

  answer({ response }, { text, name, input }) {
    answers += 1;
    const [, namespace, tool] = name?.match(/^(mcp__relay)__(.*)$/) ?? [];
    const item =
      name === undefined
        ? { type: 'message', role: 'assistant', id: `msg_${answers}`, content: [{ type: 'output_text', text }] }
        : { type: 'function_call', call_id: `call_${answers}`, name: tool ?? name, namespace, arguments: JSON.stringify(input) };
    const id = `resp_${answers}`;
    stream(response, [
      { type: 'response.created', response: { id } },
      { type: 'response.output_item.done', item },
      { type: 'response.completed', response: { id, usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } } },
    ]);
  },

  errand({ body, response }) {
    if (body?.tools === undefined) json(response, {}, 404);
    else dialect.answer({ response }, { text: JSON.stringify({ title: 'relay' }) });
  },
};

let answers = 0;

function texts(content) {
  return typeof content === 'string' ? content : content.map((block) => block.text).join('\n');
}

const PROGRAM = path.join(packageFolder, 'vendor', TARGETS[platform], 'bin/codex');

export const codex = {
  name: 'Codex',
  program: { command: PROGRAM, args: [], env: {} },
  dialect,
  shell: (command) => ['exec_command', { cmd: command }],
  tool: (name) => `mcp__relay__${name}`,
  reads: { tool: 'read_messages', input: { for: 'dev-a' }, none: '[]' },

  /** What is new to the model behind a tool, if its hook shows a text. */
  behindTool: (call, result, text) => [
    { role: 'call', text: call },
    ...(text === undefined ? [] : [{ role: 'developer', text }]),
    { role: 'tool', text: result },
  ],

  /** The same where a turn that was to end goes on. */
  atEnd: (said, text, home) => [
    { role: 'assistant', text: said },
    { role: 'user', text: `<hook_prompt hook_run_id="stop:4:${home}/.codex/hooks.json">${text.trimEnd()}</hook_prompt>` },
  ],

  /** The same with a prompt of the person's. */
  atPrompt: (prompt, text) => [{ role: 'user', text: prompt }, { role: 'developer', text }],

  /** Returns the command that runs one turn, and its environment. */
  turn(world) {
    const { command, args, env } = codex.tui(world);
    return { command, args: ['exec', '--skip-git-repo-check', ...args, world.prompt], env };
  },

  /** Returns the command that shows its window, and its environment. */
  tui({ home, project, relay, model }) {
    const folder = path.join(home, '.codex');
    mkdirSync(folder, { recursive: true });
    writeFileSync(
      path.join(folder, 'config.toml'),
      [
        ...['model = "mock"', 'model_provider = "mock"', 'check_for_update_on_startup = false'],
        ...['[analytics]', 'enabled = false', '[features]', 'plugins = false', 'apps = false'],
        ...['[model_providers.mock]', 'name = "mock"', `base_url = "${model.url}/v1"`, 'wire_api = "responses"'],
        ...['env_key = "MOCK_KEY"', 'requires_openai_auth = false'],
        ...['[mcp_servers.relay]', `url = "${relay.url('mcp')}"`],
        ...[`[projects."${project}"]`, 'trust_level = "trusted"'],
      ].join('\n'),
    );
    const hook = [{ hooks: [{ type: 'command', command: `${relayBin} hook codex --port ${relay.port}` }] }];
    const events = ['SessionStart', 'UserPromptSubmit', 'PostToolUse', 'Stop', 'SessionEnd'];
    writeFileSync(path.join(folder, 'hooks.json'), JSON.stringify({ hooks: Object.fromEntries(events.map((event) => [event, hook])) }));
    return {
      command: PROGRAM,
      args: ['--dangerously-bypass-approvals-and-sandbox', '--dangerously-bypass-hook-trust'],
      env: { CODEX_HOME: folder, MOCK_KEY: 'dummy' },
    };
  },
};
