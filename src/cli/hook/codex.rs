//! `relay hook codex wait`: stands by until Codex is to begin a turn, and has `codex queue` tell it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;
use tokio::time::timeout;

use super::Hook;
use super::detached::{self, SETTLES_AT_START_MS, Waiter, has_argument};
use crate::cli::End;

/// How long Codex may take to queue a text. What it has not said it took by then is taken back, and comes again.
const QUEUE_PATIENCE: Duration = Duration::from_secs(20);

/// What an event says that is of use here.
#[derive(Deserialize)]
struct Event {
    hook_event_name: String,
    session_id: String,
    /// Of one that is about a subagent.
    agent_id: Option<String>,
}

/// Takes note of the conversation in which somebody has spoken, and starts a waiter where Codex may be idle next.
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
    let Some(process) = detached::running(&["codex"]).filter(|process| !is_run(process)) else {
        return;
    };
    let waiter = Waiter {
        conversation: event.session_id,
        current: current(&process),
        process,
        settles_ms: settles_ms.unwrap_or_default(),
        turn: None,
    };
    if is_spoken_in {
        waiter.takes_note();
    }
    if settles_ms.is_some() {
        waiter.start();
    }
}

/// Hands over to Codex whatever comes.
pub(super) async fn stand_by(waiter: Waiter, args: &Hook) -> End {
    waiter
        .stand_by(args, async |text: &str| queue(&waiter, text).await)
        .await
}

/// Has Codex begin a turn with a text, as soon as it has none. Tells whether it has taken the text.
async fn queue(waiter: &Waiter, text: &str) -> bool {
    let queued = Command::new(program(&waiter.process))
        .args(["queue", "--thread", &waiter.conversation, "--message", text])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status();
    let queued = timeout(QUEUE_PATIENCE, queued).await;
    queued.is_ok_and(|queued| queued.is_ok_and(|status| status.success()))
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
    detached::current("codex", process)
}

/// Tells whether a process ends with its turn, so that nothing wakes it.
fn is_run(process: &str) -> bool {
    has_argument(process, &["exec", "e", "review"])
}
