//! The bounds of workers' processes, each with its unit and the reason for its value.

use std::time::Duration;

/// How long a worker has between SIGTERM and SIGKILL, and so have those that it leaves behind. Claude Code ends within a second.
pub const GRACE: Duration = Duration::from_secs(5);

/// How often it is looked for processes that were begun while all of them were being killed.
pub const KILL_AGAIN: Duration = Duration::from_millis(50);

/// How long a new worker waits for the end of one before it that has the same name: its grace, and what killing takes.
pub const NAME_PATIENCE: Duration = Duration::from_secs(8);

/// How often it is looked whether that one is gone.
pub const NAME_LOOK: Duration = Duration::from_millis(50);

/// Most bytes of a generation of a log; two are kept. An hour of a busy terminal.
pub const LOG_GENERATION_BYTES: u64 = 1024 * 1024;

/// Of how many workers that have ended the logs are kept in a project: two for each that may live at a time, and 64 MiB at the most.
pub const ENDED_MAX: usize = 32;

/// How many of its last lines are told of a worker that has ended: what a person would look at first, and a message takes.
pub const LAST_LINES: usize = 20;

/// Most characters of such a line.
pub const LAST_LINE_CHARACTERS: usize = 300;

/// How many lines are kept of what has left the screen: enough for the last ones beside a screen that is mostly empty.
pub const KEPT_LINES: usize = 2 * LAST_LINES;

/// How many times a program may say which of kitty's keys it wants before it takes something back; of more the first ones are forgotten, as
/// kitty does.
pub const KITTY_KEYS_MAX: usize = 16;

/// From how many bytes on a line that has left the screen is ended, where the program does not: many times what is told of one.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// How many may be attached to a worker at a time: persons, of whom there is one.
pub const ATTACHED_MAX: usize = 8;

/// Most bytes that wait to be typed into a worker's terminal before no more is taken from who types: a long paste.
pub const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Most bytes of a frame between a supervisor and who is attached: a whole screen with a colour for each cell is less.
pub const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Most rows and columns of a terminal.
pub const SIDE_MAX: u16 = 1_000;

/// How many cells may be given to terminals of other sizes while a log is read, in all and for each of its bytes more: whoever drags the
/// corner of a window comes to a few million, and a program that asks for sizes without end to no more than this.
pub const SIZED_CELLS: u64 = 32 * 1_000_000;

/// See [`SIZED_CELLS`].
pub const SIZED_CELLS_A_BYTE: u64 = 16;

/// How many bytes are read from a worker at once.
pub const READ_BYTES: usize = 16 * 1024;

/// How long a screen may change before who is attached is shown it, so that a burst is one change.
pub const SHOW_AFTER: Duration = Duration::from_millis(8);

/// How long those who are attached have to take the last of it.
pub const FAREWELL: Duration = Duration::from_millis(500);

/// A program that ends within this without a word to relay has not begun what it was started for: an agent CLI that is not logged in or does not
/// take its arguments says so and ends while it loads.
pub const AT_ONCE: Duration = Duration::from_secs(1);
