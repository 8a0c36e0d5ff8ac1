//! A waiter that the hook of a program starts which waits for each of its hooks.
//!
//! It leaves the hook's session and what the program reads of it, and lives as long as the program that ran the hook. Its conversation is
//! what the relay knows it by: a later waiter of that takes its place.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::Hook;
use super::latest::Latest;
use super::wait::{AGAIN_FIRST, AGAIN_LAST, LOOK_EVERY, tell_of_end, woken};
use crate::cli::End;
use crate::process::{self, Process};

/// How long a waiter does not stand by that is started with a conversation: its first prompt is on its way then.
pub(super) const SETTLES_AT_START_MS: u64 = 2_000;

/// What a waiter is told on its stdin, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Waiter {
    /// The conversation, by which the relay knows the program.
    pub conversation: String,
    /// The number of the process of the program that ran the hook.
    pub process: String,
    pub settles_ms: u64,
    /// The file in which the conversation is named in which somebody spoke last ([`Latest`]); none where several may be seen at a time.
    pub latest: Option<PathBuf>,
    /// Where a waiter is to bring nothing once another turn begins, the number of the hook's process that has told of its own.
    #[serde(default)]
    pub turn: Option<u32>,
}

impl Waiter {
    /// Reads what a waiter is told; nothing if it is something else, as the event of a hook is.
    pub fn read(said: &[u8]) -> Option<Self> {
        serde_json::from_slice(said).ok()
    }

    /// Starts it, with the options of the hook; the rest is in the environment. Where that cannot be done, nothing wakes the conversation.
    pub fn start(&self) {
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
            let _written = serde_json::to_writer(stdin, self);
        }
    }

    /// Hands over to the program whatever comes once it is `ready`, by `takes`, which tells whether the program has taken it: until the program
    /// has ended, another stands by for the conversation, or somebody speaks in another one, or in this one where turns are told apart.
    pub async fn stand_by(
        &self,
        args: &Hook,
        ready: impl AsyncFn(),
        takes: impl AsyncFn(&str) -> bool,
    ) -> End {
        // From now on nothing reaches it that is meant for the hook.
        let _is_leader = rustix::process::setsid();
        let process = Process::of(self.process.clone());
        tokio::select! {
            () = self.hand_over(args, ready, takes) => {}
            () = self.left() => {}
            () = ended(&process) => {
                tell_of_end(args, &self.conversation).await;
                self.latest().remove();
            }
        }
        End::Done
    }

    /// Writes down what it stands by for. Where that cannot be done, more than one conversation is woken.
    pub fn takes_note(&mut self) {
        if !self.latest().write() {
            self.latest = None;
        }
    }

    fn latest(&self) -> Latest {
        let turn = self.turn.map(|turn| format!(" {turn}"));
        let stands_for = self.conversation.clone() + &turn.unwrap_or_default();
        Latest::new(self.latest.clone(), stands_for)
    }

    async fn hand_over(&self, args: &Hook, ready: impl AsyncFn(), takes: impl AsyncFn(&str) -> bool) {
        sleep(Duration::from_millis(self.settles_ms)).await;
        let mut pause = AGAIN_FIRST;
        loop {
            // Only now can it be woken, for all that the relay knows.
            ready().await;
            let woken = woken(args, &self.conversation, || self.is_current()).await;
            let Some((text, client)) = woken else {
                return;
            };
            if self.is_current() && takes(&text).await {
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

    /// Waits until somebody speaks in another conversation of the same program, or something is heard of another turn.
    async fn left(&self) {
        let mut rounds = interval(LOOK_EVERY);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.is_current() {
            rounds.tick().await;
        }
    }

    /// Tells whether it stands by for what was last heard of.
    pub fn is_current(&self) -> bool {
        self.latest().is_still()
    }
}

async fn ended(process: &Process) {
    let mut rounds = interval(LOOK_EVERY);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while process.is_alive() {
        rounds.tick().await;
    }
}

/// Finds the process that runs this hook, by the names that its program may have: a shell may stand between.
pub(super) fn running(names: &[&str]) -> Option<String> {
    let parent = rustix::process::getppid()?.as_raw_nonzero().to_string();
    if Process::parent(&parent).is_none() {
        // The system does not tell: most shells are not there any more while the only command runs that they were given.
        return Some(parent);
    }
    Process::of_cli(names).map(|process| process.number)
}

/// Returns what a process was started with, its program first; nothing where the system does not tell.
pub(super) fn arguments(process: &str) -> Vec<String> {
    process::arguments(process).unwrap_or_default()
}
