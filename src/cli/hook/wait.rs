//! `relay hook claude wait`: stands by until Claude Code is to begin a turn, or has ended.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::latest::{self, Latest};
use super::{Hook, carry, path, tell};
use crate::cli::End;
use crate::cli::client::{Client, ClientError};
use crate::cli::messages::check_stderr;
use crate::process::Process;

/// How soon a waiter looks for its relay again, at first and in the end.
pub(super) const AGAIN_FIRST: Duration = Duration::from_millis(100);
pub(super) const AGAIN_LAST: Duration = Duration::from_secs(2);

/// The same where it was refused: what it asks may become right by what its person does, and each event of the program starts another.
const AGAIN_REFUSED: Duration = Duration::from_secs(30);

/// How long a waiter that is started with its program does not stand by: it may have been given its first prompt, which is on its way then.
const SETTLES_AT_START: Duration = Duration::from_secs(2);

/// The same of one that is started when a turn begins, or the conversation does anew: the hook beside it tells of that.
const SETTLES_BESIDE: Duration = Duration::from_millis(500);

/// How often a waiter looks for the process that it waits for.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a waiter waits for its answer: longer than any program runs.
const WAIT: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The exit code with which a waiter of Claude Code has it begin a turn: <https://code.claude.com/docs/en/hooks>
pub const WAKES: u8 = 2;

/// Tells whether a person sits before Claude Code: a run with `-p` does not end before its waiter, and is not woken by it.
pub(super) fn is_interactive() -> bool {
    std::env::var_os("CLAUDE_CODE_ENTRYPOINT").is_some_and(|entrypoint| entrypoint == "cli")
}

/// Returns how long a waiter does not stand by, by the event that it was started at.
pub(super) fn settles(event: &[u8]) -> Duration {
    #[derive(Deserialize)]
    struct Event {
        hook_event_name: String,
        source: Option<String>,
    }
    let Ok(event) = serde_json::from_slice::<Event>(event) else {
        return Duration::ZERO;
    };
    match (event.hook_event_name.as_str(), event.source.as_deref()) {
        ("SessionStart", Some("startup" | "resume")) => SETTLES_AT_START,
        ("SessionStart" | "UserPromptSubmit", _) => SETTLES_BESIDE,
        (_, _) => Duration::ZERO,
    }
}

/// Stands by until there is something for the program, which is woken by what is said then; or the program has ended; or another
/// stands by for it.
pub(super) async fn stand_by(args: &Hook, process: &Process, settles: Duration) -> End {
    let latest = latest(args, process);
    let end = stands_by(args, process, settles, &latest).await;
    latest.remove();
    end
}

async fn stands_by(args: &Hook, process: &Process, settles: Duration, latest: &Latest) -> End {
    let name = process.name();
    let woken = async {
        sleep(settles).await;
        woken(args, &name, || latest.is_still()).await
    };
    tokio::select! {
        text = woken => match text {
            // It may have ended since it was last looked at, and nobody would read the text.
            Some((text, client)) if process.is_alive() => {
                use std::io::Write as _;
                if check_stderr().is_err() || std::io::stderr().write_all(text.as_bytes()).is_err() {
                    return End::Done;
                }
                client.done();
                return End::Wakes;
            }
            Some((_, unread)) => drop(unread),
            None => return End::Done,
        },
        () = ended(args, process) => {}
    }
    tell_of_end(args, &name).await;
    End::Done
}

/// Takes note that this waiter is the latest of a process: while their relay is away, nothing else tells several of each other, and each turn
/// of the program starts one.
fn latest(args: &Hook, process: &Process) -> Latest {
    // Beside those of other relays that the program has hooks for.
    let relay = args.at.named().map(|place| place.to_string());
    let file = latest::file(args.program.as_str(), process, relay.as_deref());
    let mut latest = Latest::new(file, std::process::id().to_string());
    latest.write();
    latest
}

/// Tells that a program has ended that did not say so.
pub(super) async fn tell_of_end(args: &Hook, process: &str) {
    let event = json!({"hook_event_name": "SessionEnd", "reason": "other"});
    tell(carry(args, Some(process), event.to_string().into()).await);
}

/// Asks for what the program is to be woken with, again whenever its relay is away, as long as it is to. Nothing comes if another stands by
/// for it, or the relay does not know the program any more.
pub(super) async fn woken(args: &Hook, process: &str, stays: impl Fn() -> bool) -> Option<(String, Client)> {
    #[derive(Deserialize)]
    struct Woken {
        text: String,
    }
    let mut pause = AGAIN_FIRST;
    while stays() {
        if let Ok((mut client, project)) = args.relay().await {
            let path = path(args, project.as_ref(), "/wait", Some(process));
            match client.post(&path, Bytes::new(), WAIT).await {
                Ok(answer) => {
                    let woken = serde_json::from_slice(&answer).ok();
                    return woken.map(|Woken { text }| (text, client));
                }
                // It has answered a moment ago, so it will soon.
                Err(ClientError::WentAway { .. }) => pause = AGAIN_FIRST,
                Err(error) if !error.is_away() => {
                    sleep(AGAIN_REFUSED).await;
                    continue;
                }
                Err(_) => {}
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(AGAIN_LAST);
    }
    None
}

/// Waits for the end of the process. Meanwhile it tells the relay when the program has become idle without saying so, as after Esc.
async fn ended(args: &Hook, process: &Process) {
    let mut rounds = interval(LOOK_EVERY);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The turn that started it may be over before it looks: what is idle then is told of, whatever it was before. At the start the program
    // may not have written down yet that it is busy.
    let mut before = Status::default();
    let name = process.name();
    rounds.tick().await;
    loop {
        rounds.tick().await;
        if !process.is_alive() {
            return;
        }
        let status = Status::of(&process.number);
        if status.is_idle() && status != before {
            let event = json!({"hook_event_name": "Notification", "notification_type": "idle_prompt"});
            let carried = carry(args, Some(&name), event.to_string().into()).await;
            if carried.is_err() {
                continue;
            }
        }
        before = status;
    }
}

/// What Claude Code writes down of itself, for nobody in particular: undocumented, so that nothing depends on it but how soon an
/// interrupted session is woken.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    status: Option<String>,
    /// When it has come to that: a turn may begin and end between two looks.
    status_updated_at: Option<Value>,
}

impl Status {
    fn of(process: &str) -> Self {
        let read = || {
            let home = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|home| !home.is_empty());
            let home = home.map(PathBuf::from);
            let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".claude")))?;
            let file = std::fs::read(home.join("sessions").join(format!("{process}.json"))).ok()?;
            serde_json::from_slice(&file).ok()
        };
        read().unwrap_or_default()
    }

    fn is_idle(&self) -> bool {
        self.status.as_deref() == Some("idle")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_stands_by_at_once_unless_a_prompt_or_what_another_hook_tells_may_be_on_its_way() {
        for (event, expected) in [
            (
                json!({"hook_event_name": "SessionStart", "source": "startup"}),
                SETTLES_AT_START,
            ),
            (
                json!({"hook_event_name": "SessionStart", "source": "resume"}),
                SETTLES_AT_START,
            ),
            (
                json!({"hook_event_name": "SessionStart", "source": "clear"}),
                SETTLES_BESIDE,
            ),
            (json!({"hook_event_name": "UserPromptSubmit"}), SETTLES_BESIDE),
            (json!({"hook_event_name": "Stop"}), Duration::ZERO),
            (json!("none"), Duration::ZERO),
        ] {
            assert_eq!(settles(event.to_string().as_bytes()), expected, "{event}");
        }
    }
}
