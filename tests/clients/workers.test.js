// Claude Code as a worker: in the terminal of its supervisor, with the command line of relay's table and nothing of anybody's files changed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { claude, environment } from './support/claude.js';
import { ScriptedModel, closedProxy } from './support/model.js';
import { Relay, atEnd, relayBin, relayEnv, start, temporaryFolder, within } from './support/process.js';
import { Place } from './support/session.js';
import { until } from './support/terminal.js';

const PROMPT = 'You are w1.\n\nYour task:\n\nlook {around}\nand "say" what is there';

/** What src/workers/table.rs makes of Claude Code, whose tests hold it to that. */
function commandLine() {
  const hook = (mode) => ({ type: 'command', command: `${relayBin} hook claude${mode} --worker` });
  const wait = { ...hook(' wait'), asyncRewake: true, timeout: 2_000_000 };
  const groups = (waits) => [{ hooks: [hook('')] }, ...(waits ? [{ hooks: [wait] }] : [])];
  const events = { SessionStart: true, UserPromptSubmit: true, PostToolUse: false, PostToolUseFailure: false, Notification: false, Stop: true, SessionEnd: false };
  const hooks = Object.fromEntries(Object.entries(events).map(([event, waits]) => [event, groups(waits)]));
  const servers = { relay: { type: 'stdio', command: relayBin, args: ['mcp', '--tools', 'agent-relay'] } };
  const settings = { permissions: { allow: ['mcp__relay'] }, hooks };
  return [claude, '--mcp-config', JSON.stringify({ mcpServers: servers }), '--settings', JSON.stringify(settings), PROMPT];
}

/** Starts a worker in a place, and gives back what its supervisor reports. */
function supervise(t, place, relay, env) {
  const supervisor = start(relayBin, ['worker'], { stdio: ['pipe', 'pipe', 'inherit'], env: { ...relayEnv(), HOME: place.home } });
  atEnd(t, async () => {
    supervisor.stdin.end();
    await supervisor.ended;
  });
  const reports = [];
  createInterface(supervisor.stdout).on('line', (line) => reports.push(JSON.parse(line)));
  const own = { RELAY_AGENT: 'w1', RELAY_PROJECT: 'default', RELAY_PARENT: 'pm', RELAY_PORT: String(relay.port), RELAY_HOOKS: 'worker' };
  const order = {
    ...{ order: 'start', cli: 'claude', argv: commandLine(), env: { ...env, ...own }, cwd: place.project },
    ...{ files: { directory: `${place.home}/workers`, name: 'w1' }, in_terminal: true, rows: 50, cols: 150 },
  };
  supervisor.stdin.write(`${JSON.stringify(order)}\n`);
  return { supervisor, reports };
}

for (const installed of [false, true]) {
  test(`Claude Code as a worker${installed ? ' in a project that relay is installed in' : ''}: its task, relay's tools without a question, a wake, its end`, async (t) => {
    const place = new Place(t);
    const model = await ScriptedModel.start(t);
    const proxy = await closedProxy(t);
    const folder = temporaryFolder(t);
    const relay = await Relay.start(t);
    if (installed) {
      const args = ['install', '--editor', 'claude', '--port', String(relay.port)];
      execFileSync(relayBin, args, { cwd: place.project, env: { ...relayEnv(), HOME: place.home }, stdio: 'ignore' });
    }
    const own = { TMPDIR: folder, CLAUDE_CODE_TMPDIR: folder, SHELL: '/bin/sh', CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL: '1' };
    const { supervisor, reports } = supervise(t, place, relay, { ...environment(place.home, model, proxy), ...own });
    const first = await within(model.asked(), 'the first prompt', 60_000);
    assert.ok(JSON.stringify(first.messages).includes(JSON.stringify(PROMPT).slice(1, -1)), 'the task is the first prompt');
    assert.equal(reports[0].event, 'started');
    const status = await within(model.use('mcp__relay__relay_status', {}), 'the tool');
    assert.match(status.content[0].text, /Agent Name: w1/);
    const sent = await within(model.use('mcp__relay__relay_send', { to: 'pm', message: 'ACK: looking' }), 'the tool');
    assert.equal(sent.isError, false, JSON.stringify(sent));
    await model.say('nothing more to do');
    const programs = async () => (await relay.health()).connections.filter(({ program }) => program);
    await until(async () => {
      const all = await programs();
      return all.length === 1 && all[0].program.activity === 'idle' && all[0].program.can_be_woken;
    }, 'an idle session that can be woken');
    assert.equal((await programs())[0].role, 'w1');
    const { port } = relay;
    execFileSync(relayBin, ['send', 'w1', 'one thing more', '--from', 'pm', '--port', String(port)], { env: relayEnv(), stdio: 'ignore' });
    const woken = JSON.stringify((await within(model.asked(), 'the wake')).messages);
    assert.equal(woken.split('| one thing more').length - 1, 1, 'it is shown once');
    await model.say('done');
    await until(async () => (await programs())[0]?.program.activity === 'idle', 'the end of the turn');
    supervisor.stdin.write('{"order":"end"}\n');
    await within(supervisor.ended, 'the end of the worker');
    const last = reports.at(-1);
    assert.equal(last.event, 'exited', JSON.stringify(reports));
    assert.deepEqual(proxy.asked, [], 'something was asked of another machine');
  });
}
