// Claude Code whose model reads more than it shows of one result: each message is in a request to the model, whole and once.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SERVERS, converse } from './support/claude.js';
import { Relay } from './support/process.js';
import { INBOXES, fill, readWhole } from './support/whole.js';

for (const type of Object.keys(SERVERS)) {
  test(`Claude Code over ${type}: the model is shown every message whole and once, however many wait`, async (t) => {
    const relay = await Relay.start(t);
    await converse(t, SERVERS[type](relay), async (model) => {
      for (const [count, length] of INBOXES) {
        const bodies = await fill(relay, count, length);
        const read = async () => {
          const { content, isError } = await model.use('mcp__relay__read_messages', { for: 'pm' });
          const text = content.map((block) => block.text).join('');
          assert.equal(isError, false, text);
          return text;
        };
        const reads = await readWhole(bodies, read);
        t.diagnostic(`${count} of ${length} characters: ${reads} reads`);
      }
      await model.say('done');
    });
  });
}
