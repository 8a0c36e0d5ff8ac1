// Gemini CLI with relay's hooks in tmux, and a script as its model: what begins a turn when nobody types anything but relay.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { atEnd, temporaryFolder, within } from '../clients/support/process.js';
import { Terminal, until } from '../clients/support/terminal.js';
import { gemini } from './support/gemini.js';
import { WOKEN, World, framed, plain } from './support/world.js';

const NOTHING = ' >   Type your message or @path/to/file\n';

/** Opens Gemini CLI, in which nobody has said anything. */
async function open(t, { wanted = '1' } = {}) {
  let terminal;
  // Before the relay that it asks, and before its folder is removed.
  atEnd(t, () => terminal?.close());
  const world = await World.start(t, gemini);
  const model = await world.model(async () => {});
  const { command, args, env } = gemini.tui({ ...world, model });
  const folder = temporaryFolder(t);
  // As tmux itself says it; there is but one pane.
  const pane = { TMUX: `${path.join(folder, 'tmux')},1,0`, TMUX_PANE: '%0', RELAY_TMUX: wanted };
  terminal = await Terminal.open(folder, [command, ...args], { cwd: world.project, env: world.env({ ...env, ...pane }, 'dev-a') });
  await terminal.shows((screen) => screen.includes(NOTHING), 'the input line');
  return { world, model, terminal };
}

/** Says something as the person before the window does. While it begins it throws some keys away. */
const says = (terminal, text) => terminal.says(text, (screen) => screen.includes(NOTHING));

/** How many waiters there are. */
function waiters({ relay }) {
  const all = execFileSync('ps', ['-A', '-o', 'args='], { encoding: 'utf8' }).split('\n');
  return all.filter((line) => line.trimEnd().endsWith(`hook gemini --port ${relay.port} wait`)).length;
}

test('Gemini CLI: an idle session begins a turn for a message, again and again, and takes it for nothing but text', async (t) => {
  const { world, model, terminal } = await open(t);
  writeFileSync(path.join(world.project, 'a.txt'), 'what nobody asked for');
  await world.are('idle, can be woken');
  for (const body of ['wake up', 'look at @a.txt, @dev-b', '/quit']) {
    const sent = Date.now();
    // Nobody is told that the message may wait for long.
    assert.equal(await world.send(body, '--mode', 'on-idle'), 'sent to dev-a\n');
    const news = plain(await within(model.news(), 'the turn'));
    t.diagnostic(`woken ${model.came.at(-1) - sent} ms after relay send was started`);
    assert.deepEqual(news.at(-1), { role: 'user', text: (WOKEN + framed(body)).replaceAll('@', '\\@').trim() });
    await model.say('done');
    await world.are('idle, can be woken');
    await world.nothingIsLeft();
  }
  // Of what is too long for a turn it is told only that it is there.
  await world.send('x'.repeat(10_000), '--mode', 'on-idle');
  const { text } = plain(await within(model.news(), 'the turn')).at(-1);
  assert.ok(text.startsWith(WOKEN.trim()) && text.includes('read_messages') && !text.includes('xxx'), text);
  await model.say('done');
  await world.are('idle, can be woken');
  assert.ok((await terminal.screen()).includes(NOTHING));
});

test('Gemini CLI: a draft stays, and what came meanwhile is typed once it is gone, or shown with what its person says', async (t) => {
  const { world, model, terminal } = await open(t);
  await world.are('idle, can be woken');
  await terminal.types('a draft');
  await terminal.shows((screen) => screen.includes(' > a draft\n'), 'the draft');
  await world.send('wake up');
  await until(async () => (await world.inbox()).in_doubt === 1, 'the wake to be on its way');
  await terminal.types(' that grows');
  await terminal.shows((screen) => screen.includes(' > a draft that grows\n'), 'the rest of the draft');
  await terminal.presses('C-u');
  assert.deepEqual(plain(await within(model.news(), 'the turn')).at(-1), { role: 'user', text: (WOKEN + framed('wake up')).trim() });
  await model.say('the first turn');
  await world.are('idle, can be woken');
  await terminal.types('and ');
  await terminal.shows((screen) => screen.includes(' > and\n'), 'the draft');
  await world.send('look');
  await until(async () => (await world.inbox()).in_doubt === 1, 'the wake to be on its way');
  await says(terminal, 'now on');
  const shown = plain(await within(model.news(), 'the turn')).slice(-2);
  // It may have been: nobody but the person knows whether it was typed.
  shown[1].text = shown[1].text.replace(', which you may have been shown before', '');
  assert.deepEqual(shown, gemini.atPrompt('and now on', framed('look')));
  await model.say('the second turn');
  await terminal.shows((screen) => screen.includes('the second turn') && screen.includes(NOTHING), 'the end of the turn');
  // The one that held it ends, and does not type it behind the turn.
  await until(() => waiters(world) === 1, 'one waiter');
  await world.are('idle, can be woken');
  await world.nothingIsLeft();
  assert.equal(model.came.length, 2);
});

test('Gemini CLI: a dialog stays, and what came meanwhile is shown behind the tool', async (t) => {
  const { world, model, terminal } = await open(t);
  await world.are('idle, can be woken');
  await says(terminal, 'go on');
  await within(model.asked(), 'the turn');
  const [name, input] = gemini.shell('touch made');
  const used = model.use(name, input);
  await terminal.shows((screen) => screen.includes('Allow execution'), 'the dialog');
  await world.send('look');
  await terminal.presses('Enter');
  const [, result] = plain(await within(used, 'the tool'));
  assert.ok(result.text.includes(framed('look').trim()), result.text);
  await model.say('done');
  await world.are('idle, can be woken');
  await world.nothingIsLeft();
});

test('Gemini CLI: nothing is typed where its person does not want that', async (t) => {
  const { world, model, terminal } = await open(t, { wanted: '' });
  await world.are('idle');
  await says(terminal, 'go on');
  await within(model.asked(), 'the turn');
  await model.say('done');
  await world.are('idle');
  await world.send('look');
  assert.equal((await world.inbox()).unread, 1);
});

test('Gemini CLI: relay knows of no session once its program is killed', async (t) => {
  const { world, terminal } = await open(t);
  await world.are('idle, can be woken');
  await terminal.close();
  await world.are();
  await world.send('too late');
  assert.equal((await world.inbox()).unread, 1);
});
