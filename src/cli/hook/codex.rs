//! `relay hook codex wait`: stands by until Codex is to begin a turn, and has `codex queue` tell it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;
use tokio::time::timeout;

use super::Hook;
use super::detached::{SETTLES_AT_START_MS, Waiter, arguments, running};
use super::latest;
use crate::cli::End;
use crate::process::Process;

/// How long Codex may take to queue a text. What it has not said it took by then is taken back, and comes again.
const QUEUE_PATIENCE: Duration = Duration::from_secs(20);

/// The options of Codex 0.169 behind which a word stands that is no subcommand.
const WITH_VALUES: [&str; 21] = [
    "-C",
    "--add-dir",
    "--ask-for-approval",
    "--cd",
    "--config",
    "--disable",
    "--enable",
    "--image",
    "--local-provider",
    "--model",
    "--profile",
    "--remote",
    "--remote-auth-token-env",
    "--sandbox",
    "-a",
    "-c",
    "-i",
    "-m",
    "-p",
    "-s",
    "--",
];

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
    let Some(process) = running(&["codex"]).filter(|process| !is_run(process)) else {
        return;
    };
    let mut waiter = Waiter {
        conversation: event.session_id,
        latest: latest(&process),
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
        .stand_by(args, async || {}, async |text: &str| queue(&waiter, text).await)
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
fn latest(process: &str) -> Option<PathBuf> {
    if arguments(process).iter().any(|argument| argument == "app-server") {
        return None;
    }
    latest::file("codex", &Process::of(process.to_owned()), None)
}

/// Tells whether a process ends with its turn, so that nothing wakes it.
fn is_run(process: &str) -> bool {
    is_of_run(&arguments(process))
}

fn is_of_run(arguments: &[String]) -> bool {
    let before = std::iter::once("").chain(arguments.iter().map(String::as_str));
    before.zip(arguments).any(|(before, argument)| {
        matches!(argument.as_str(), "exec" | "e" | "review") && !WITH_VALUES.contains(&before)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_known_by_its_subcommand() {
        for (command, is) in [
            ("codex exec", true),
            ("codex --yolo exec fix it", true),
            ("codex e", true),
            ("codex --profile work review", true),
            ("codex", false),
            ("codex --profile review", false),
            ("codex -p e", false),
            ("codex --cd review -m e", false),
            ("codex -C here exec", true),
        ] {
            let arguments: Vec<_> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(is_of_run(&arguments), is, "{command}");
        }
    }
}
