// Claude Code as a worker of the person: with the command line of relay's table and nothing of anybody's files changed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { within } from './support/process.js';
import { until } from './support/terminal.js';
import { Workers, gone } from './support/workers.js';

const TASK = 'look {around}\nand "say" what is there';

for (const installed of [false, true]) {
  test(`Claude Code as a worker${installed ? ' in a project that relay is installed in' : ''}: its task, relay's tools without a question, a wake, its end`, async (t) => {
    const workers = await Workers.start(t);
    const { model, relay } = workers;
    if (installed) await workers.person('install', '--editor', 'claude');
    await workers.person('spawn', 'w1', '--cli', 'claude', '--task', TASK);
    const first = JSON.stringify((await within(model.asked(), 'the first prompt')).messages);
    for (const part of ['You are w1, a worker that user has started', `Your task:\n\n${TASK}`]) {
      assert.ok(first.includes(JSON.stringify(part).slice(1, -1)), part);
    }
    const status = await within(model.use('mcp__relay__relay_status', {}), 'the tool');
    assert.match(status.content[0].text, /Agent Name: w1/);
    const sent = await within(model.use('mcp__relay__relay_send', { to: 'user', message: 'ACK: looking' }), 'the tool');
    assert.equal(sent.isError, false, JSON.stringify(sent));
    await model.say('nothing more to do');
    await workers.rested('w1');
    const programs = async () => (await relay.health()).connections.filter(({ program }) => program);
    assert.deepEqual((await programs()).map(({ role }) => role), ['w1']);
    const isOfProject = ({ command }) => command.includes('hook claude wait') && !command.includes('--worker');
    await until(() => !workers.processes().some(isOfProject), 'the hooks of the project to do nothing');
    await workers.person('send', 'w1', 'one thing more');
    const woken = JSON.stringify((await within(model.asked(), 'the wake')).messages);
    assert.equal(woken.split('| one thing more').length - 1, 1, 'it is shown once');
    await model.say('done');
    await until(async () => (await programs())[0]?.program.activity === 'idle', 'the end of the turn');
    const processes = workers.processes();
    await workers.person('release', 'w1');
    await gone(processes);
    await workers.are({ w1: 'exited' });
  });
}
