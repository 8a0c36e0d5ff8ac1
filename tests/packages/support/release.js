// A release of the commit that is checked out, and the places in which its packages are tried.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { relayBin, run, temporaryFolder } from '../../clients/support/process.js';

export const repository = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');

/** This machine's platform, as Node names it. */
export const platform = `${process.platform}-${process.arch}`;

/** The folder of the Node that runs the tests. */
const node = path.dirname(process.execPath);

/** Runs a command to its end, which must be a good one, and gives back what it printed. */
export async function must(t, command, args, options) {
  const { code, signal, stdout, stderr } = await run(t, command, args, options);
  assert.deepEqual({ code, signal }, { code: 0, signal: null }, `${command} ${args.join(' ')}\n${stdout}${stderr}`);
  return { stdout, stderr };
}

/** This machine's target, as rustc names it. */
export async function target(t) {
  const { stdout } = await must(t, 'rustc', ['-vV']);
  return /^host: (.*)$/m.exec(stdout)[1];
}

/** A fresh clone of the repository, and what calls its release script with a program that is there: by default the one under test. */
export async function clone(t, program = relayBin) {
  const folder = path.join(temporaryFolder(t), 'relay');
  await must(t, 'git', ['clone', '--quiet', '--no-hardlinks', repository, folder]);
  const env = { ...process.env };
  for (const name of ['CARGO_TARGET_DIR', 'SOURCE_DATE_EPOCH']) delete env[name];
  const [script, ...given] = [path.join(folder, 'release/build'), '--no-verify', '--binary', `${await target(t)}=${program}`];
  const options = { env, limitMs: 120_000 };
  return {
    folder,
    env,
    command: [script, ...given],
    options,
    build: (...args) => run(t, script, [...given, ...args], options),
    release: (...args) => must(t, script, [...given, ...args], options),
  };
}

/** A home and an empty directory of somebody who has Node and npm, and of Rust nothing. */
export function stranger(t) {
  const top = temporaryFolder(t);
  const [home, empty] = ['home', 'empty'].map((name) => path.join(top, name));
  for (const made of [home, empty]) mkdirSync(made);
  const env = {
    PATH: [path.join(empty, 'node_modules/.bin'), node, '/usr/bin', '/bin'].join(':'),
    HOME: home,
    npm_config_offline: 'true',
    npm_config_audit: 'false',
    npm_config_fund: 'false',
    npm_config_update_notifier: 'false',
    NO_PROXY: '127.0.0.1,localhost',
  };
  return { home, empty, env, options: { cwd: empty, env } };
}
