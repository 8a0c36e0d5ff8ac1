#!/usr/bin/env node
// Runs relay, which lies in a package of its own for each platform, as if that had been called itself: with the same arguments, stdin,
// stdout and stderr, the same signals, and the same end.
'use strict';

const { spawn } = require('node:child_process');
const { constants } = require('node:os');
const { optionalDependencies: packages = {} } = require('../package.json');

const scope = '@relay-bus/';
const platform = `${process.platform}-${process.arch}`;

function fail(text) {
  process.stderr.write(`relay: ${text}\n`);
  process.exit(1);
}

function program() {
  const wanted = scope + platform;
  if (!(wanted in packages)) {
    const known = Object.keys(packages).map((name) => name.slice(scope.length));
    fail(`this package has no program for ${platform}; it has one for: ${known.join(', ')}`);
  }
  try {
    return require.resolve(`${wanted}/bin/relay`);
  } catch {
    return fail(`the package ${wanted} with the program is missing; install relay-bus again, without --omit=optional or --no-optional`);
  }
}

const path = program();
const relay = spawn(path, process.argv.slice(2), { stdio: 'inherit' });
relay.on('error', (error) => fail(`cannot run ${path}: ${error.code ?? error.message}`));

// In a terminal relay has SIGINT, SIGQUIT and SIGHUP already; a second one changes nothing.
for (const signal of ['SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => relay.kill(signal));

relay.on('exit', (code, signal) => {
  if (signal === null) process.exit(code);
  // Whoever started this sees the same end; the number that a shell gives it is for signals that do not end Node.
  process.removeAllListeners(signal);
  process.exitCode = 128 + constants.signals[signal];
  process.kill(process.pid, signal);
});
