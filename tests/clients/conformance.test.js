// The conformance suite's server scenarios over streamable HTTP, the only transport that it speaks.
//
// The suite calls tools, resources and prompts of its own by name. A failure is expected only where relay has no such
// thing to call, and the lists say which; a listed check that passes fails the run just as an unlisted failure does.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { Relay, folder, run, temporaryFolder } from './support/process.js';

const conformance = path.join(folder, 'node_modules/.bin/conformance');

/** The scenarios that no revision requires yet but that need nothing which relay does not have. */
const UNSCORED = [['2026-07-28', 'http-header-validation']];

async function suite(t, ...args) {
  const relay = await Relay.start(t);
  const results = temporaryFolder(t);
  const { code, stdout, stderr } = await run(
    t,
    process.execPath,
    [conformance, 'server', '--url', relay.url('mcp').href, '--output-dir', results, ...args],
    { cwd: results },
  );
  assert.equal(code, 0, `${stdout.slice(stdout.lastIndexOf('=== SUMMARY ==='))}\n${stderr}`);
  return stdout;
}

for (const revision of ['2025-11-25', '2026-07-28']) {
  const list = path.join(folder, `expected-failures-${revision}.yml`);

  test(`Conformance ${revision}: every required scenario passes but for those that need a fixture`, async (t) => {
    const stdout = await suite(t, '--requirements', revision, '--expected-failures', list);
    assert.match(stdout, /✓ tools-list: [1-9]/);
  });

  test(`Conformance ${revision}: every expected failure names the fixture that is missing`, () => {
    const entries = readFileSync(list, 'utf8').split('\n').filter((line) => line.trimStart().startsWith('- '));
    assert.ok(entries.length > 0);
    for (const entry of entries) assert.match(entry, /^ {2}- [\w-]+:[\w-]+ # no \S+/);
  });
}

for (const [revision, scenario] of UNSCORED) {
  test(`Conformance ${revision}: ${scenario} passes too`, async (t) => {
    const stdout = await suite(t, '--scenario', scenario, '--spec-version', revision);
    assert.match(stdout, /Passed: [1-9]/);
  });
}
