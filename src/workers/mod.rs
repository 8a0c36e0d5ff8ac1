//! Workers: processes of agent CLIs that relay starts, watches and ends.
//!
//! ```text
//! relay serve     starter      one for each worker: an order down, reports up, over the stdio of
//!   |                          relay worker (the supervisor), which is this program too
//!   v
//! relay worker    supervisor   the terminal, the log, who is attached; ends and reaps everything
//!   |  launch                  relay worker launch: a session of its own, its terminal, then exec
//!   v
//! claude, codex   in a session, a process group and a terminal of its own
//! ```
//!
//! A worker never outlives its relay: when the supervisor's stdin ends, however relay ended, it ends the worker as if it was told to. It
//! adopts what the worker leaves behind (`PR_SET_CHILD_SUBREAPER`, Linux), so that what has left the worker's group ends with it. When
//! the supervisor itself is killed, the terminal hangs up and Linux kills the worker's first process (`PR_SET_PDEATHSIG`); what had left
//! its terminal before lives on.
//!
//! It must not know of messages or the engine's state: what it says of a worker are facts about a process.

mod clients;
mod config;
mod directory;
mod drawing;
mod files;
mod frames;
mod launch;
mod limits;
mod log;
mod order;
mod path;
mod processes;
mod program;
mod reader;
mod screen;
mod starter;
mod supervisor;
mod table;

pub use config::{Config, ConfigError, Override};
pub use directory::{Directories, DirectoryError};
pub use files::Files;
pub use launch::{OWN_TUNABLES, TUNABLES, launch};
pub use limits::GRACE;
pub use order::{OpenFiles, Order, Status};
pub use starter::{Event, Handle, start, start_by};
pub use supervisor::supervise;
pub use table::{Cli, Task, UnknownCli, WAIT_SECONDS};

pub(crate) use frames::{Frame, read_frame};
pub(crate) use reader::Reader;
pub(crate) use screen::Transcript;
#[cfg(test)]
pub(crate) use table::CLAUDE_HOOKS;
