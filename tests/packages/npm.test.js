// relay from npm, for somebody who has no Rust: from the packed tarballs, in an empty directory, with no network.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd, freePort, run, start, within } from '../clients/support/process.js';
import { clone, must, platform, stranger } from './support/release.js';

let launcher;
let program;
let version;
let place;

before(async (t) => {
  const made = await clone(t);
  await made.release();
  const dist = path.join(made.folder, 'dist');
  const packages = readdirSync(dist).filter((name) => name.endsWith('.tgz'));
  program = packages.find((name) => name.includes(platform));
  launcher = packages.find((name) => name !== program);
  version = /-(\d[^-]*)\.tgz$/.exec(launcher)[1];
  assert.deepEqual(packages.sort(), [`relay-bus-${version}.tgz`, `relay-bus-${platform}-${version}.tgz`]);
  [launcher, program] = [launcher, program].map((name) => path.join(dist, name));
  place = stranger(t);
  await must(t, 'npm', ['install', '--silent', launcher, program], place.options);
});

/** Starts a program where relay is installed. */
function begin(t, program, args) {
  const child = start(program, args, { ...place.options, stdio: ['pipe', 'pipe', 'pipe'] });
  atEnd(t, () => child.kill('SIGKILL'));
  return child;
}

/** The processes that a process has started. */
function children(pid) {
  const numbers = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return numbers.map(Number).filter((number) => {
    try {
      // The name is in parentheses and may hold anything; the parent is the second word behind it.
      return Number(readFileSync(`/proc/${number}/stat`, 'utf8').split(') ').at(-1).split(' ')[1]) === pid;
    } catch {
      return false; // It has ended.
    }
  });
}

/** The one process of relay's own behind a launcher. */
function behind(launcher) {
  const [child, ...others] = children(launcher.pid);
  assert.deepEqual(others, []);
  assert.match(readFileSync(`/proc/${child}/cmdline`, 'utf8'), /@relay-bus\/[^/]+\/bin\/relay\0/);
  return child;
}

async function gone(pid) {
  const limit = AbortSignal.timeout(10_000);
  while (existsSync(`/proc/${pid}`)) {
    limit.throwIfAborted();
    await sleep(20);
  }
}

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'a test', version: '1' } },
};

/** Has a bridge answer `initialize`. */
async function initialized(bridge) {
  const lines = createInterface(bridge.stdout);
  bridge.stdin.write(`${JSON.stringify(initialize)}\n`);
  const [line] = await within(once(lines, 'line'), 'the answer to initialize');
  const { id, result } = JSON.parse(line);
  assert.equal(id, 1);
  assert.equal(result.protocolVersion, '2025-06-18');
  assert.deepEqual([result.serverInfo.name, result.serverInfo.version], ['relay', version]);
}

test('what relay prints, and the code that it ends with, are the same through the launcher', async (t) => {
  const { empty, options } = place;
  const call = (...args) => run(t, 'relay', args, options);
  const said = await call('--version');
  assert.deepEqual(said, { code: 0, signal: null, stdout: `relay ${version}\n`, stderr: '' });
  const wrong = await call('no-such-command');
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /no-such-command/);
  const absent = await call('status', '--port', String(await freePort()));
  assert.equal(absent.code, 1);
  assert.match(absent.stderr, /^relay status: /);
  const dry = await call('install', '--dry-run', '--editor', 'cursor');
  assert.equal(dry.code, 0, dry.stderr);
  assert.match(dry.stdout, /^\+\s+"url": "http:\/\/localhost:7331\/mcp"$/m);
  assert.ok(!existsSync(path.join(empty, '.cursor')));
});

test('a bridge behind the launcher answers, and ends with its stdin', async (t) => {
  const bridge = begin(t, 'relay', ['mcp', '--port', String(await freePort())]);
  await initialized(bridge);
  const relay = behind(bridge);
  bridge.stdin.end();
  assert.deepEqual(await within(bridge.ended, 'the end of the bridge'), { code: 0, signal: null });
  await gone(relay);
});

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
  test(`${signal} to the launcher ends the bridge behind it, and both end alike`, async (t) => {
    const bridge = begin(t, 'relay', ['mcp', '--port', String(await freePort())]);
    await initialized(bridge);
    const relay = behind(bridge);
    bridge.kill(signal);
    const end = await within(bridge.ended, 'the end of the bridge');
    await gone(relay);
    // So does relay itself.
    const bin = path.join(place.empty, 'node_modules/@relay-bus', platform, 'bin/relay');
    const bare = begin(t, bin, ['mcp', '--port', String(await freePort())]);
    await initialized(bare);
    bare.kill(signal);
    assert.deepEqual(end, await within(bare.ended, 'the end of relay itself'));
  });
}

test('a server behind the launcher serves, and ends in order with it', async (t) => {
  const port = await freePort();
  const server = begin(t, 'relay', ['serve', '--port', String(port)]);
  const lines = createInterface(server.stdout);
  const said = [];
  await within(
    new Promise((resolve) => lines.on('line', (line) => said.push(line) && line.includes('waiting for connections') && resolve())),
    'the banner',
  );
  const health = await (await fetch(`http://127.0.0.1:${port}/health`)).json();
  assert.equal(health.version, version);
  const relay = behind(server);
  server.kill('SIGTERM');
  assert.deepEqual(await within(server.ended, 'the end of the server'), { code: 0, signal: null });
  assert.equal(said.at(-1), '[relay] stopped');
  await gone(relay);
});

test('a relay that is killed takes its launcher with it, by the same signal', async (t) => {
  const bridge = begin(t, 'relay', ['mcp', '--port', String(await freePort())]);
  await initialized(bridge);
  process.kill(behind(bridge), 'SIGKILL');
  assert.deepEqual(await within(bridge.ended, 'the end of the launcher'), { code: null, signal: 'SIGKILL' });
});

test('npx runs install, mcp and serve; what it installs works when its cache is gone', async (t) => {
  const { home, empty, options } = place;
  const fetched = ['--yes', `--package=${launcher}`, `--package=${program}`, 'relay'];
  const port = String(await freePort());
  const editors = ['--editor', 'claude', '--editor', 'cursor', '--transport', 'stdio', '--port', port];
  const { stderr } = await must(t, 'npx', [...fetched, 'install', ...editors], options);
  assert.match(stderr, /a copy is at .*; start relay with: .* serve/);
  rmSync(path.join(home, '.npm'), { recursive: true });

  const entry = JSON.parse(readFileSync(path.join(empty, '.cursor/mcp.json'), 'utf8')).mcpServers.relay;
  const copy = path.join(home, '.local/share/relay/bin/relay');
  assert.deepEqual(entry, { command: copy, args: ['mcp', '--port', port] });
  await initialized(begin(t, entry.command, entry.args));
  const settings = JSON.parse(readFileSync(path.join(empty, '.claude/settings.local.json'), 'utf8'));
  assert.equal(settings.hooks.PostToolUse[0].hooks[0].command, `${copy} hook claude --port ${port}`);

  const bridge = begin(t, 'npx', [...fetched, 'mcp', '--port', port]);
  await initialized(bridge);
  bridge.stdin.end();
  assert.deepEqual(await within(bridge.ended, 'the end of the bridge'), { code: 0, signal: null });

  const server = begin(t, 'npx', [...fetched, 'serve', '--port', port]);
  const [first] = await within(once(createInterface(server.stdout), 'line'), 'the banner');
  assert.equal(first, `[relay] server ready on :${port}`);
  const { code } = await run(t, copy, ['stop', '--port', port], options);
  assert.equal(code, 0);
  await within(server.ended, 'the end of npx');
});

test('where the program is missing, or there is none for a platform, the launcher says so', async (t) => {
  const { empty, options } = place;
  const call = () => run(t, 'relay', ['--version'], options);
  const bin = path.join(empty, 'node_modules/relay-bus/bin/relay.js');
  const other = path.join(empty, 'other.cjs');
  writeFileSync(other, "Object.defineProperty(process, 'platform', { value: 'sunos' });\n");
  const elsewhere = await run(t, process.execPath, ['--require', other, bin, 'serve'], options);
  assert.deepEqual(elsewhere, {
    code: 1,
    signal: null,
    stdout: '',
    stderr: `relay: this package has no program for sunos-${process.arch}; it has one for: ${platform}\n`,
  });

  const file = path.join(empty, 'node_modules/@relay-bus', platform, 'bin/relay');
  assert.equal(statSync(file).mode & 0o777, 0o755);
  chmodSync(file, 0o644);
  const locked = await call();
  assert.equal(locked.code, 1);
  assert.match(locked.stderr, /^relay: cannot run .*\/bin\/relay: EACCES\n$/);

  rmSync(path.join(empty, 'node_modules/@relay-bus'), { recursive: true });
  const missing = await call();
  assert.deepEqual(missing, {
    code: 1,
    signal: null,
    stdout: '',
    stderr: `relay: the package @relay-bus/${platform} with the program is missing; install relay-bus again, without --omit=optional or --no-optional\n`,
  });
});
