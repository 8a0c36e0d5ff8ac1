//! `relay hook codex wait`: stands by until Codex is to begin a turn, and has `codex queue` tell it.
//!
//! Codex waits for each of its hooks. So the hook that carries an event starts the waiter, which leaves the hook's session and what Codex
//! reads of it, and lives as long as the Codex that ran the hook. Its conversation is what the relay knows it by: a later waiter of
//! that takes its place.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::Hook;
use super::wait::{AGAIN_FIRST, AGAIN_LAST, LOOK_EVERY, tell_of_end, woken};
use crate::cli::End;
use crate::process::Process;
use crate::server::runtime_directory;

/// How long a waiter does not stand by that is started with a conversation: its first prompt is on its way then.
const SETTLES_AT_START_MS: u64 = 2_000;

/// How long Codex may take to queue a text. What it has not said it took by then is taken back, and comes again.
const QUEUE_PATIENCE: Duration = Duration::from_secs(20);

/// What a waiter is told on its stdin, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Waiter {
    /// The conversation, by which the relay knows the program, and Codex the queue.
    thread: String,
    /// The number of the process of Codex that ran the hook.
    process: String,
    settles_ms: u64,
    /// The file in which the conversation is named in which somebody spoke last; none where several may be seen at a time.
    current: Option<PathBuf>,
}

/// What an event says that is of use here.
#[derive(Deserialize)]
struct Event {
    hook_event_name: String,
    session_id: String,
    /// Of one that is about a subagent.
    agent_id: Option<String>,
}

/// Takes note of the conversation in which somebody has spoken, and starts a waiter where Codex may be idle next. Where that cannot be
/// done, nothing wakes the conversation.
pub(super) fn follow(event: &[u8]) {
    let Ok(event) = serde_json::from_slice::<Event>(event) else {
        return;
    };
    if event.agent_id.is_some() {
        return;
    }
    let (is_spoken_in, settles_ms) = match event.hook_event_name.as_str() {
        "SessionStart" => (true, Some(SETTLES_AT_START_MS)),
        "UserPromptSubmit" => (true, None),
        "Stop" => (false, Some(0)),
        _ => return,
    };
    let Some(process) = codex().filter(|process| !is_run(process)) else {
        return;
    };
    let current = current(&process);
    if let Some(current) = current.as_deref().filter(|_| is_spoken_in) {
        // Where it cannot be written, more than one conversation is woken.
        let _written = std::fs::write(current, &event.session_id);
    }
    if let Some(settles_ms) = settles_ms {
        let thread = event.session_id;
        start(&Waiter {
            thread,
            process,
            settles_ms,
            current,
        });
    }
}

fn start(waiter: &Waiter) {
    // With the options of the hook; the rest is in the environment.
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    arguments.push("wait".into());
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let started = std::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Some(stdin) = started.ok().and_then(|mut child| child.stdin.take()) {
        // What cannot be written leaves it without its task, and it ends.
        let _written = serde_json::to_writer(stdin, waiter);
    }
}

impl Waiter {
    /// Reads what a waiter is told; nothing if it is something else, as the event of a hook is.
    pub fn read(said: &[u8]) -> Option<Self> {
        serde_json::from_slice(said).ok()
    }

    /// Hands over to Codex whatever comes, until Codex has ended, another stands by for the conversation, or somebody speaks in another one.
    pub async fn stand_by(self, args: &Hook) -> End {
        // From now on nothing reaches it that is meant for the hook.
        let _is_leader = rustix::process::setsid();
        let process = Process::of(self.process.clone());
        tokio::select! {
            () = self.hand_over(args) => {}
            () = self.left() => {}
            () = ended(&process) => {
                tell_of_end(args, &self.thread).await;
                // Nobody else reads it: no other process has its name.
                let _removed = self.current.map(std::fs::remove_file);
            }
        }
        End::Done
    }

    async fn hand_over(&self, args: &Hook) {
        sleep(Duration::from_millis(self.settles_ms)).await;
        let mut pause = AGAIN_FIRST;
        while let Some((text, client)) = woken(args, &self.thread, || self.is_current()).await {
            if self.is_current() && self.queue(&text).await {
                client.done();
                pause = AGAIN_FIRST;
                continue;
            }
            // The relay takes it back.
            drop(client);
            sleep(pause).await;
            pause = (pause * 2).min(AGAIN_LAST);
        }
    }

    /// Waits until somebody speaks in another conversation of the same Codex.
    async fn left(&self) {
        let mut rounds = interval(LOOK_EVERY);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.is_current() {
            rounds.tick().await;
        }
    }

    fn is_current(&self) -> bool {
        let current = self.current.as_deref().map(std::fs::read_to_string);
        current
            .and_then(Result::ok)
            .is_none_or(|current| current == self.thread)
    }

    /// Has Codex begin a turn with a text, as soon as it has none. Tells whether it has taken the text.
    async fn queue(&self, text: &str) -> bool {
        let queued = Command::new(program(&self.process))
            .args(["queue", "--thread", &self.thread, "--message", text])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .status();
        let queued = timeout(QUEUE_PATIENCE, queued).await;
        queued.is_ok_and(|queued| queued.is_ok_and(|status| status.success()))
    }
}

async fn ended(process: &Process) {
    let mut rounds = interval(LOOK_EVERY);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while process.is_alive() {
        rounds.tick().await;
    }
}

/// Finds the process of Codex that runs this hook, which a shell may stand between.
fn codex() -> Option<String> {
    let parent = rustix::process::getppid()?.as_raw_nonzero().to_string();
    if Process::parent(&parent).is_none() {
        // The system does not tell: most shells are not there any more while the only command runs that they were given.
        return Some(parent);
    }
    std::iter::successors(Some(parent), |number| Process::parent(number)).find(|number| is_codex(number))
}

fn is_codex(process: &str) -> bool {
    let program = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
    // One that was replaced while it ran is called so.
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.trim_end_matches(" (deleted)") == "codex"
}

/// Returns the program that a process of Codex runs; where that is not there any more, what is found by its name.
fn program(process: &str) -> PathBuf {
    let program = std::fs::read_link(format!("/proc/{process}/exe")).ok();
    program
        .filter(|program| program.exists())
        .unwrap_or_else(|| "codex".into())
}

/// Names the file in which stands which conversation of a Codex somebody spoke in last: a window shows one. A daemon has those of several windows, and
/// does not say which of them are seen.
fn current(process: &str) -> Option<PathBuf> {
    if has_argument(process, &["app-server"]) {
        return None;
    }
    let name = format!("codex-{}", Process::of(process.to_owned()).name());
    Some(runtime_directory().ok()?.join(name))
}

/// Tells whether a process ends with its turn, so that nothing wakes it.
fn is_run(process: &str) -> bool {
    has_argument(process, &["exec", "e", "review"])
}

/// Tells whether a process was started with one of some arguments, as far as the system tells that.
fn has_argument(process: &str, words: &[&str]) -> bool {
    let arguments = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut arguments = arguments.split(|byte| *byte == 0);
    arguments.any(|argument| words.iter().any(|word| argument == word.as_bytes()))
}
