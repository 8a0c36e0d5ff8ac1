// Agent CLIs whose models read more than any of them shows of one result: each message is in a request to the model, whole and once.

import { test } from 'node:test';
import { INBOXES, fill, readWhole } from '../clients/support/whole.js';
import { codex } from './support/codex.js';
import { gemini } from './support/gemini.js';
import { opencode } from './support/opencode.js';
import { World } from './support/world.js';

for (const cli of [codex, opencode, gemini]) {
  test(`${cli.name}: the model is shown every message whole and once, however many wait`, async (t) => {
    const world = await World.start(t, cli);
    await world.turn(async (model) => {
      await model.asked();
      for (const [count, length] of INBOXES) {
        const bodies = await fill(world.relay, count, length);
        const read = async () => {
          // Gemini CLI takes the fifth call in a row with the same arguments for a loop.
          await model.use(cli.tool('list_pending'), { for: 'pm' });
          const news = await model.use(cli.tool('read_messages'), { for: 'pm' });
          return news.filter(({ role }) => role === 'tool').map(({ text }) => text).join('');
        };
        const reads = await readWhole(bodies, read);
        t.diagnostic(`${count} of ${length} characters: ${reads} reads`);
      }
      await model.say('done');
    });
  });
}
