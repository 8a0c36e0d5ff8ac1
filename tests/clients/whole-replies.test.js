// Claude Code whose model reads more than it shows of one result: each message is in a request to the model, whole and once.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SERVERS, converse } from './support/claude.js';
import { Relay } from './support/process.js';
import { INBOXES, fill, inWords, readWhole } from './support/whole.js';

// Its user may have it show less of a result than it does by itself: relay asks it to show all of what takes messages.
const SHOWS = [['', {}], [' that is to show 5,000 tokens', { MAX_MCP_OUTPUT_TOKENS: '5000' }]];
const CASES = Object.keys(SERVERS).flatMap((type) => SHOWS.map((shows) => [type, ...shows]));

for (const [type, how, env] of CASES) {
  test(`Claude Code${how} over ${type}: the model is shown every message whole and once, however many wait`, async (t) => {
    const relay = await Relay.start(t);
    const script = async (model) => {
      for (const inbox of INBOXES) {
        const bodies = await fill(relay, inbox);
        const read = async () => {
          const { content, isError } = await model.use('mcp__relay__read_messages', { for: 'pm' });
          const text = content.map((block) => block.text).join('');
          assert.equal(isError, false, text);
          return text;
        };
        const reads = await readWhole(bodies, read);
        t.diagnostic(`${inWords(inbox)}: ${reads} reads`);
      }
      await model.say('done');
    };
    await converse(t, SERVERS[type](relay), script, { env });
  });
}
