// Claude Code is woken by its messaging socket, where no waiter stands by for it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { Agents, WOKEN, asked, framesIn, rests, wakesIn } from './support/surfaced.js';

/** Ends the waiters of a session, which are its only children that stand by. */
function endWaiters({ pid }) {
  const { stdout } = spawnSync('ps', ['-e', '-o', 'pid=,args='], { encoding: 'utf8' });
  const waits = stdout.split('\n').filter((line) => /hook claude wait --port/.test(line));
  const own = waits.map((line) => Number(line.trim().split(' ')[0])).filter((waiter) => isOf(waiter, pid));
  for (const waiter of own) {
    try {
      process.kill(waiter, 'SIGKILL');
    } catch (error) {
      // The waiter of the turn before gives way to that of its end.
      if (error.code !== 'ESRCH') throw error;
    }
  }
  return own.length;
}

/** Whether a process is a descendant of another. */
function isOf(child, pid) {
  const { stdout } = spawnSync('ps', ['-o', 'ppid=', '-p', String(child)], { encoding: 'utf8' });
  const parent = Number(stdout);
  return parent === pid || (parent > 1 && isOf(parent, pid));
}

test('an idle Claude Code whose waiter was killed is woken by its messaging socket, and the draft stays', async (t) => {
  const agents = await Agents.start(t, 'dev-a');
  const [dev] = agents.sessions;
  // relay hears with the events of a turn how much the session may do without asking.
  await dev.prompts('go on');
  await rests(dev);
  await agents.hears(({ program }) => program?.activity === 'idle' && program.can_be_woken, 'the waiter of an idle session');
  await dev.drafts('half a thought');
  assert.ok(endWaiters(dev) > 0);
  await agents.hears(({ program }) => program?.can_be_woken === false || void endWaiters(dev), 'the end of the waiter');
  const sent = await agents.send('dev-a', 'which branch?');
  const request = await asked(dev);
  assert.deepEqual({ frames: framesIn(request), wakes: wakesIn(request) }, { frames: [sent.shown], wakes: 1 });
  await rests(dev);
  assert.equal(await dev.draft(), 'half a thought');
  await agents.traced(sent, ...WOKEN);
});
