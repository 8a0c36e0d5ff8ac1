// OpenCode with relay's plugin in a terminal, and a script as its model.

import { atEnd, temporaryFolder, within } from '../../clients/support/process.js';
import { Terminal } from '../../clients/support/terminal.js';
import { opencode } from './opencode.js';
import { World, plain } from './world.js';

/** Opens OpenCode, whose person has said something. */
export async function open(t, more) {
  const terminals = [];
  // Before the relay that it asks, and before its folder is removed.
  atEnd(t, () => Promise.all(terminals.map((terminal) => terminal.close())));
  const world = await World.start(t, opencode);
  const window = async (...args) => {
    const model = await world.model(async () => {});
    const { command, env } = opencode.tui({ ...world, model, ...more });
    const terminal = await Terminal.open(temporaryFolder(t), [command, ...args], { cwd: world.project, env: world.env(env, 'dev-a') });
    terminals.push(terminal);
    return { model, terminal };
  };
  const first = await window('--prompt', 'go on');
  await within(first.model.asked(), 'the first turn');
  return { world, window, ...first };
}

/** All that a model is shown in the request that it has to answer now. */
export async function conversation(model, what) {
  return plain(opencode.dialect.shown(await within(model.asked(), what))).filter(({ role }) => role !== 'system');
}
