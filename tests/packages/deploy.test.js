// What an image gets: its steps, in a clean directory tree. No container is needed for them.

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { atEnd, freePort, relayBin, run, temporaryFolder } from '../clients/support/process.js';
import { must, repository } from './support/release.js';

const scripts = path.join(repository, 'deploy');

/** An empty machine: a prefix, a home and a workspace, and what calls a program there with nothing else in the environment. */
function machine(t, workspace = 'workspace') {
  const top = temporaryFolder(t);
  const [prefix, home, work] = ['usr', 'home', workspace].map((name) => path.join(top, name));
  for (const made of [prefix, home, work]) mkdirSync(made, { recursive: true });
  const env = { HOME: home, PATH: `${prefix}/bin:/usr/bin:/bin` };
  const options = (more) => ({ cwd: work, env: { ...env, ...more } });
  return {
    prefix,
    home,
    work,
    install: (...args) => must(t, path.join(scripts, 'install.sh'), args, options({ PATH: '/usr/bin:/bin' })),
    refused: (...args) => run(t, path.join(scripts, 'install.sh'), args, options({ PATH: '/usr/bin:/bin' })),
    must: (program, args, more) => must(t, program, args, options(more)),
    call: (program, args, more) => run(t, program, args, options(more)),
  };
}

/** All files below a folder, but for relay's own. */
function files(folder) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  return paths.map((file) => path.relative(folder, file)).filter((file) => !file.startsWith('.local/')).sort();
}

const text = (...parts) => readFileSync(path.join(...parts), 'utf8');

test('the five agent CLIs are connected for all projects, by a program that is on PATH', async (t) => {
  const { prefix, home, install, must: call } = machine(t);
  await install('program', relayBin, prefix);
  assert.equal((await call('relay', ['--version'])).stdout, (await call(relayBin, ['--version'])).stdout);
  const share = files(path.join(prefix, 'share'));
  for (const wanted of ['bash-completion/completions/relay', 'zsh/site-functions/_relay', 'man/man1/relay.1', 'man/man1/relay-serve.1']) {
    assert.ok(share.includes(wanted), `${wanted} of ${share}`);
  }
  assert.deepEqual(files(path.join(prefix, 'bin')), ['relay', 'relay-workspace']);
  assert.deepEqual(files(home), [], 'the step of root touches no home');

  await install('connect', prefix);
  const connected = files(home);
  assert.deepEqual(connected, [
    '.claude.json',
    '.claude/settings.json',
    '.codex/config.toml',
    '.codex/hooks.json',
    '.config/opencode/opencode.json',
    '.config/opencode/plugin/relay.js',
    '.cursor/mcp.json',
    '.gemini/settings.json',
  ]);
  for (const file of connected) assert.ok(!text(home, file).includes(prefix), `${file} names relay by its name`);
  const hook = JSON.parse(text(home, '.claude/settings.json')).hooks.PostToolUse[0].hooks[0];
  assert.equal(hook.command, 'relay hook claude');
  assert.equal(JSON.parse(text(home, '.claude.json')).mcpServers.relay.type, 'sse');
  assert.equal(JSON.parse(text(home, '.cursor/mcp.json')).mcpServers.relay.url, 'http://localhost:7331/mcp?tools=agent-relay');
  for (const file of ['.claude.json', '.codex/config.toml', '.config/opencode/opencode.json', '.cursor/mcp.json', '.gemini/settings.json']) {
    assert.match(text(home, file), /tools=agent-relay/, file);
  }

  const { stdout } = await run(t, path.join(prefix, 'bin/relay'), ['doctor', '--json'], {
    cwd: home,
    env: { HOME: home, PATH: `${prefix}/bin` },
  });
  const { editors } = JSON.parse(stdout);
  const told = editors.filter(({ configured }) => configured.length > 0).map(({ editor, hooks }) => [editor, hooks]);
  assert.deepEqual(told, [
    ['claude', 'current'],
    ['codex', 'current'],
    ['gemini', 'current'],
    ['opencode', 'current'],
    ['cursor', null],
  ]);

  // A later image has both steps again.
  const before = connected.map((file) => text(home, file));
  await install('program', relayBin, prefix);
  await install('connect', prefix);
  assert.deepEqual(files(home).map((file) => text(home, file)), before);
});

test('what cannot be installed is refused', async (t) => {
  const { prefix, work, refused } = machine(t);
  const broken = path.join(work, 'broken');
  writeFileSync(broken, 'no program');
  for (const [args, error] of [
    [['program', 'missing', prefix], 'missing is no file'],
    [['program', broken, prefix], `${broken} does not run here`],
    [['program', relayBin, 'usr'], 'usr is no absolute path'],
    [['connect', prefix], `${prefix}/bin/relay is missing; install.sh program puts it there`],
    [['program'], 'usage: '],
    [['connect', prefix, 'more'], 'usage: '],
    [[], 'usage: '],
  ]) {
    const { code, stderr } = await refused(...args);
    assert.equal(code, 1, args.join(' '));
    assert.ok(stderr.includes(`install.sh: ${error}`), stderr);
  }
  assert.deepEqual(files(prefix), []);
});

test('the project has the name of the workspace', async (t) => {
  const { prefix, install, call, home } = machine(t);
  await install('program', relayBin, prefix);
  // It tells what it is started with, and with which name.
  const stub = path.join(home, 'relay');
  writeFileSync(stub, '#!/bin/sh\necho "$RELAY_PROJECT $*"\n');
  chmodSync(stub, 0o755);
  const PATH = `${home}:${prefix}/bin:/usr/bin:/bin`;
  const project = async (more, cwd = home) => {
    const { code, stdout, stderr } = await run(t, path.join(prefix, 'bin/relay-workspace'), ['relay', 'serve', '--hops-max', '7'], {
      cwd,
      env: { HOME: home, PATH, ...more },
    });
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    const [name, ...args] = stdout.trim().split(' ');
    assert.deepEqual(args, ['serve', '--hops-max', '7']);
    // relay takes it.
    const { stderr: taken } = await call(relayBin, ['status'], { RELAY_PROJECT: name });
    assert.doesNotMatch(taken, /accepted/);
    return name;
  };
  for (const [workspace, expected] of [
    ['my-app', 'my-app'],
    ['My_App2', 'My_App2'],
    ['My App.v2 (draft)', 'My-App-v2-draft'],
    ['_private', 'private'],
    ['größe', 'gr-e'],
    ['a\nb', 'a-b'],
    ['-n', 'n'],
    ['x'.repeat(40), 'x'.repeat(32)],
    [`${'x'.repeat(31)}.y`, 'x'.repeat(31)],
    ['...', 'default'],
    ['agent', 'agent-1'],
    ['everyone', 'everyone-1'],
  ]) {
    assert.equal(await project({ WORKSPACE_NAME: workspace }), expected, workspace);
  }
  const folder = path.join(home, 'The Folder');
  mkdirSync(folder);
  assert.equal(await project({}, folder), 'The-Folder');
  assert.equal(await project({ WORKSPACE_NAME: '' }, folder), 'The-Folder');
  assert.equal(await project({ RELAY_PROJECT: 'chosen', WORKSPACE_NAME: 'other' }, folder), 'chosen');
});

test('the entry point starts relay, and runs the command in place of itself', async (t) => {
  const { prefix, home, work, install, call } = machine(t, 'my app');
  await install('program', relayBin, prefix);
  const port = await freePort();
  const data = path.join(home, '.local/share/relay/projects/my-app');
  const command = `
    echo "project $RELAY_PROJECT, pid $$, in $PWD"
    env -u RELAY_PORT relay status --json
    RELAY_PERSON=1 relay send dev-a "hello"
    relay stop
    exit 7`;
  const { code, stdout, stderr } = await call('relay-workspace', ['sh', '-c', command], { RELAY_PORT: String(port) });
  assert.equal(code, 7, stderr);
  const [first, status, sent] = stdout.split('\n');
  assert.match(first, /^project my-app, pid \d+, in .*\/my app$/);
  assert.equal(first.split(', in ')[1], work);
  assert.deepEqual(JSON.parse(status).found, { source: 'RELAY_PROJECT', at: path.join(data, 'relay.sock') });
  assert.equal(sent, 'sent to dev-a');
  assert.equal(statSync(data).mode & 0o777, 0o700);
  assert.match(text(data, 'relay.log'), /user → dev-a .*"hello"/);
});

test('where relay cannot start, the entry point says why and runs the command all the same', async (t) => {
  const { prefix, install, call } = machine(t);
  await install('program', relayBin, prefix);
  const port = await freePort();
  const taken = net.createServer((socket) => socket.destroy()).listen(port, '127.0.0.1');
  atEnd(t, () => taken.close());
  const { code, stdout, stderr } = await call('relay-workspace', ['echo', 'done'], { RELAY_PORT: String(port) });
  assert.deepEqual({ code, stdout }, { code: 0, stdout: 'done\n' });
  const [first, ...said] = stderr.split('\n');
  assert.equal(first, 'relay-workspace: relay does not run; the command runs without it. What relay said:');
  assert.ok(said.some((line) => line.includes(`port ${port} is taken: something has it`)), stderr);
});

test('the image is made by the steps that are tested here, for a user who is not root, and exposes no port', () => {
  const lines = text(scripts, 'Dockerfile').replaceAll('\\\n', '').split('\n');
  const instructions = lines.filter((line) => /^[A-Z]/.test(line));
  const of = (name) => instructions.filter((line) => line.startsWith(`${name} `)).map((line) => line.slice(name.length + 1));
  assert.deepEqual(of('EXPOSE'), []);
  assert.deepEqual(of('ENTRYPOINT'), ['["relay-workspace"]']);
  assert.deepEqual(of('USER'), ['0', '${UID}']);
  for (const from of of('FROM')) assert.match(from, /^(\$\{BASE\}|\S+:[0-9][^ ]*( AS \w+)?)$/);
  assert.deepEqual(of('ARG'), ['BASE=debian:13-slim', 'UID=1000']);
  assert.match(of('RUN').find((line) => line.includes('useradd')), /\/usr\/local\/lib\/relay\/install\.sh program \/usr\/local\/lib\/relay\/relay /);
  assert.equal(of('RUN').at(-1), '/usr/local/lib/relay/install.sh connect');
});
