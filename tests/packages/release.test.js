// What release/build makes, and what it refuses.

import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { relayBin, run, temporaryFolder } from '../clients/support/process.js';
import { clone, must, platform, repository, target } from './support/release.js';

const version = /^version = "(.*)"$/m.exec(readFileSync(path.join(repository, 'Cargo.toml'), 'utf8'))[1];

/** A program that says what relay says to release/build, and is quickly packed. */
function standIn(t, said = version) {
  const program = path.join(temporaryFolder(t), 'relay');
  writeFileSync(program, `#!/bin/sh\ncase $1 in --version) echo relay ${said} ;; man) echo >"$2/relay.1" ;; esac\n`);
  chmodSync(program, 0o755);
  return program;
}

/** The files of a tarball, as tar tells of them. */
async function listed(t, tarball) {
  const { stdout } = await must(t, 'tar', ['--list', '--verbose', '--utc', '--full-time', '--file', tarball]);
  const lines = stdout.trim().split('\n');
  return lines.map((line) => {
    const [mode, owner, , date, time, name] = line.split(/\s+/);
    return { mode, owner, at: `${date} ${time}`, name };
  });
}

test('a release is a tarball, two packages for npm, the crate, and the sums of all of them', async (t) => {
  const made = await clone(t);
  const { stdout, stderr } = await made.release();
  const dist = path.join(made.folder, 'dist');
  const tarball = `relay-${version}-${platform}.tar.gz`;
  const launcher = `relay-bus-${version}.tgz`;
  const program = `relay-bus-${platform}-${version}.tgz`;
  const crate = `relay-${version}.crate`;
  const all = [tarball, launcher, program, crate].sort();
  assert.deepEqual(readdirSync(dist).sort(), ['SHA256SUMS', ...all]);
  assert.equal(stdout, readFileSync(path.join(dist, 'SHA256SUMS'), 'utf8'));
  const checked = await must(t, 'sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: dist });
  assert.deepEqual(checked.stdout.trim().split('\n').sort(), all.map((name) => `${name}: OK`));
  const { stdout: again } = await must(t, 'git', ['status', '--porcelain'], { cwd: made.folder });
  assert.equal(again, '', 'what is made is not to be committed');

  const warnings = stderr.split('\n').filter((line) => line.startsWith('warning: '));
  const unexpected = warnings.filter(
    (line) =>
      !/^warning: ignoring (test|benchmark) `\w+` as `(tests|benches)\/[\w/]+\.rs` is not included in the published package$/.test(line) &&
      line !== 'warning: manifest has no documentation, homepage or repository',
  );
  assert.deepEqual(unexpected, []);

  const top = `relay-${version}-${platform}`;
  const files = await listed(t, path.join(dist, tarball));
  const names = files.map(({ name }) => name);
  assert.deepEqual(names, names.toSorted());
  for (const file of ['relay', 'README.md', 'LICENSE', 'completions/_relay', 'completions/relay.bash', 'completions/relay.fish', 'man/relay.1']) {
    assert.ok(names.includes(`${top}/${file}`), `${file} of ${names}`);
  }
  const { stdout: committed } = await must(t, 'git', ['log', '-1', '--format=%cd', '--date=format-local:%Y-%m-%d %H:%M:%S'], {
    cwd: made.folder,
    env: { ...process.env, TZ: 'UTC' },
  });
  for (const { owner, at, name } of files) assert.deepEqual({ owner, at }, { owner: '0/0', at: committed.trim() }, name);
  const into = temporaryFolder(t);
  await must(t, 'tar', ['--extract', '--file', path.join(dist, tarball)], { cwd: into });
  assert.ok(readFileSync(path.join(into, top, 'relay')).equals(readFileSync(relayBin)));
  assert.match(readFileSync(path.join(into, top, 'completions/relay.bash'), 'utf8'), /complete .*relay/);

  const packed = async (name) => {
    const folder = temporaryFolder(t);
    await must(t, 'tar', ['--extract', '--file', path.join(dist, name)], { cwd: folder });
    const names = (await listed(t, path.join(dist, name))).map(({ name }) => name).sort();
    return [JSON.parse(readFileSync(path.join(folder, 'package/package.json'), 'utf8')), names];
  };
  const [own, ownFiles] = await packed(launcher);
  assert.deepEqual(ownFiles, ['package/LICENSE', 'package/README.md', 'package/bin/relay.js', 'package/package.json']);
  const { name, license, bin, optionalDependencies, dependencies, scripts } = own;
  assert.deepEqual(
    { name, version: own.version, license, bin, optionalDependencies, dependencies, scripts },
    {
      name: 'relay-bus',
      version,
      license: 'MIT',
      bin: { relay: 'bin/relay.js' },
      optionalDependencies: { [`@relay-bus/${platform}`]: version },
      dependencies: undefined,
      scripts: undefined,
    },
  );
  const [its, itsFiles] = await packed(program);
  assert.deepEqual(itsFiles, ['package/LICENSE', 'package/README.md', 'package/bin/relay', 'package/package.json']);
  const { os, cpu } = its;
  assert.deepEqual(
    { name: its.name, version: its.version, license: its.license, os, cpu, scripts: its.scripts },
    { name: `@relay-bus/${platform}`, version, license: 'MIT', os: [process.platform], cpu: [process.arch], scripts: undefined },
  );

  const inCrate = (await listed(t, path.join(dist, crate))).map(({ name }) => name.replace(`relay-${version}/`, ''));
  const outside = inCrate.filter((file) => !/^(src\/.*\.(rs|md)|docs\/([A-Z-]+|specifications\/[A-Za-z-]+)\.md)$/.test(file));
  assert.deepEqual(outside.sort(), [
    '.cargo_vcs_info.json',
    'Cargo.lock',
    'Cargo.toml',
    'Cargo.toml.orig',
    'LICENSE',
    'README.md',
    'plugin/agents/message-listener.md',
    'plugin/opencode/relay.js',
    'plugin/skills/multi-agent-kickoff/templates/dev-prompt.md',
    'plugin/skills/multi-agent-kickoff/templates/pm-prompt.md',
    'plugin/skills/multi-agent-kickoff/templates/relay-paragraph.md',
  ]);
  const told = inCrate.filter((file) => /^(README|docs\/.*)\.md$/.test(file)).flatMap((file) => {
    const text = readFileSync(path.join(made.folder, file), 'utf8');
    return [...text.matchAll(/\]\((?!https?:)([^)#]+\.md)/g)].map(([, name]) => path.join(path.dirname(file), name));
  });
  assert.ok(told.includes('docs/specifications/README.md'), told.join(' '));
  const ofDocuments = told.filter((file) => file.startsWith('docs/'));
  assert.deepEqual(ofDocuments.filter((file) => !inCrate.includes(file)), [], 'what the documents lead to is in the crate');
  const sources = inCrate.filter((file) => file.endsWith('.rs'));
  assert.ok(sources.includes('src/main.rs'));
  const built = sources.flatMap((file) => {
    const text = readFileSync(path.join(made.folder, file), 'utf8');
    return [...text.matchAll(/include_(?:str|bytes)!\(\s*"([^"]+)"/g)].map(([, name]) => path.join(path.dirname(file), name));
  });
  assert.ok(built.includes('plugin/opencode/relay.js'), built.join(' '));
  assert.deepEqual(built.filter((file) => !inCrate.includes(file)), [], 'what is built from is in the crate');
});

test('the same commit makes the same files, wherever it is', async (t) => {
  const program = standIn(t);
  const sums = [];
  for (const umask of ['022', '077']) {
    const made = await clone(t, program);
    const { stdout } = await must(t, 'bash', ['-c', `umask ${umask}; exec "$@"`, 'bash', ...made.command], made.options);
    sums.push(stdout);
  }
  assert.equal(sums[0].trim().split('\n').length, 4);
  assert.equal(sums[0], sums[1]);
});

test('what would make a wrong release is refused, and leaves an earlier one', async (t) => {
  const made = await clone(t, standIn(t));
  const { folder, release, build } = made;
  const refused = async (wanted, ...args) => {
    const { code, stderr } = await build(...args);
    assert.equal(code, 1, stderr);
    assert.ok(stderr.includes(wanted), stderr);
  };
  const own = await target(t);

  writeFileSync(path.join(folder, 'junk'), '');
  await refused('the tree has what is not committed; commit it, or say --dirty:\n?? junk');
  const { stdout: first } = await release('--dirty');
  const sums = () => readFileSync(path.join(folder, 'dist/SHA256SUMS'), 'utf8');
  assert.equal(sums(), first);

  await refused(`there are two programs for ${platform}`, '--dirty', '--binary', `${own}=${relayBin}`);
  const other = own.replace(/^[^-]+/, process.arch === 'x64' ? 'aarch64' : 'x86_64');
  await refused(`is not relay ${version}, but relay 9.9.9`, '--dirty', '--binary', `${other}=${standIn(t, '9.9.9')}`);
  await refused('is no program', '--dirty', '--binary', `${other}=missing`);
  await refused('names no target; accepted: TARGET=PROGRAM', '--dirty', '--binary', relayBin);
  await refused('no package is made for x86_64-pc-windows-msvc', '--dirty', '--binary', `x86_64-pc-windows-msvc=${relayBin}`);
  await refused('unknown argument: --dry', '--dry');
  const plugin = path.join(folder, 'plugin/.claude-plugin/plugin.json');
  const json = readFileSync(plugin, 'utf8');
  writeFileSync(plugin, json.replace(version, '9.9.9'));
  await refused(`Cargo.toml has version ${version}, plugin/.claude-plugin/plugin.json 9.9.9`, '--dirty');
  writeFileSync(plugin, json);
  const lock = path.join(folder, 'Cargo.lock');
  const locked = readFileSync(lock, 'utf8');
  writeFileSync(lock, locked.replace(`name = "relay"\nversion = "${version}"`, 'name = "relay"\nversion = "9.9.9"'));
  await refused(`Cargo.toml has version ${version}, Cargo.lock 9.9.9`, '--dirty');
  writeFileSync(lock, locked);
  assert.equal(sums(), first);

  const elsewhere = path.join(temporaryFolder(t), 'elsewhere');
  mkdirSync(elsewhere);
  appendFileSync(path.join(elsewhere, 'mine'), '');
  await refused('holds something else than a release', '--dirty', '--out', elsewhere);
  assert.ok(existsSync(path.join(elsewhere, 'mine')));
});

test('without a program that is there, the static one is built, or nothing is made', async (t) => {
  const { folder, env } = await clone(t);
  const script = path.join(folder, 'release/build');
  const binary = path.join(folder, 'release/binary');
  const args = ['--dirty', '--no-verify'];
  writeFileSync(binary, '#!/bin/sh\necho it does not build >&2\nexit 3\n');
  const failed = await run(t, script, args, { env });
  assert.deepEqual({ code: failed.code, stdout: failed.stdout, stderr: failed.stderr }, { code: 3, stdout: '', stderr: 'it does not build\n' });
  assert.ok(!existsSync(path.join(folder, 'dist')));
  writeFileSync(binary, `#!/bin/sh\necho "${standIn(t)}"\n`);
  const { stdout } = await must(t, script, args, { env });
  assert.ok(stdout.includes(`relay-${version}-${platform}.tar.gz`), stdout);
});

test('a program for another platform comes into the same release', async (t) => {
  const { folder, release } = await clone(t, standIn(t));
  const arch = process.arch === 'x64' ? 'aarch64' : 'x86_64';
  const name = { aarch64: 'linux-arm64', x86_64: 'linux-x64' }[arch];
  // As one of another machine, it does not run here.
  const foreign = path.join(temporaryFolder(t), 'relay');
  writeFileSync(foreign, '#!/nowhere\n');
  chmodSync(foreign, 0o755);
  const { stdout, stderr } = await release('--binary', `${arch}-unknown-linux-musl=${foreign}`);
  assert.match(stderr, /does not run here; that it is relay .* is not checked/);
  for (const made of [`relay-bus-${name}-${version}.tgz`, `relay-${version}-${name}.tar.gz`]) assert.ok(stdout.includes(made), stdout);
  const { stdout: said } = await must(t, 'tar', ['--extract', '--to-stdout', '--file', `dist/relay-bus-${version}.tgz`, 'package/package.json'], {
    cwd: folder,
  });
  assert.deepEqual(Object.keys(JSON.parse(said).optionalDependencies).sort(), [`@relay-bus/${name}`, `@relay-bus/${platform}`].sort());
});
