// Agent CLIs whose models read more than any of them shows of one result: each message is in a request to the model, whole and once.

import { test } from 'node:test';
import { INBOXES, fill, inWords, readWhole } from '../clients/support/whole.js';
import { codex } from './support/codex.js';
import { gemini } from './support/gemini.js';
import { opencode } from './support/opencode.js';
import { World } from './support/world.js';

for (const cli of [codex, opencode, gemini]) {
  for (const inbox of INBOXES) {
    test(`${cli.name}: the model is shown ${inWords(inbox)}, each whole and once`, async (t) => {
      const world = await World.start(t, cli);
      await world.turn(async (model) => {
        await model.asked();
        const bodies = await fill(world.relay, inbox);
        // A conversation for each inbox: Gemini CLI takes the fifth call with the same arguments for a loop.
        const read = async () => {
          const news = await model.use(cli.tool('read_messages'), { for: 'pm' });
          return news.filter(({ role }) => role === 'tool').map(({ text }) => text).join('');
        };
        t.diagnostic(`${await readWhole(bodies, read)} reads`);
        await model.say('done');
      });
    });
  }
}
