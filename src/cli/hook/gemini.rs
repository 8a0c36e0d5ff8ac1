//! `relay hook gemini wait`: stands by until Gemini CLI is to begin a turn, and types that into its pane of tmux, for nothing else
//! wakes it.
//!
//! Only where its person wants that. It looks before it types, and looks whether what it has typed was taken; what it does not know by
//! its look it leaves alone.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};

use super::Hook;
use super::detached::{SETTLES_AT_START_MS, Waiter, arguments, running};
use super::latest;
use super::tmux::{Pane, Seen};
use super::wait::{AGAIN_FIRST, LOOK_EVERY};
use crate::cli::End;
use crate::engine::limits::WOKEN_MS;
use crate::process::Process;

/// How long a text waits for an empty input line before the relay has it back: shorter than that waits for the turn.
const HOLDS: Duration = Duration::from_secs(60);
const _: () = assert!(HOLDS.as_millis() < WOKEN_MS as u128);

/// How often it is looked for an empty input line while nothing has come: what is written there may stay for a night.
const LOOK_SELDOM: Duration = Duration::from_secs(5);

/// From so many lines on Gemini CLI shows a mark in place of what was pasted, by which that is known again.
const MARKED_FROM: usize = 6;

/// How long what was pasted stays before Enter: within 40 ms of it Gemini CLI takes that for a line break.
const RESTS: Duration = Duration::from_millis(100);

/// How long Gemini CLI may take to show what was pasted, and to take it.
const TAKES: Duration = Duration::from_secs(5);

/// Begins the title of a window in which Gemini CLI waits for its person, who is asked nothing.
const READY: &str = "◇  Ready";

/// What stands before what is written: for a prompt, and for one where no tool is asked for. A command for a shell has another one.
const PROMPTS: [&str; 2] = [" > ", " * "];

/// What stands there while nothing is written.
const NOTHING: &str = "  Type your message or @path/to/file";

const NOT_TAKEN: &str = "relay: Gemini CLI has not taken a message that was typed here; look at its input line. The message comes again";

/// What an event says that is of use here.
#[derive(Deserialize)]
struct Event {
    hook_event_name: String,
    session_id: String,
}

/// Takes note of a turn that begins or ends, and starts a waiter where Gemini CLI may be idle next.
pub(super) fn follow(event: &[u8]) {
    if Pane::wanted().is_none() {
        return;
    }
    let Ok(event) = serde_json::from_slice::<Event>(event) else {
        return;
    };
    let settles_ms = match event.hook_event_name.as_str() {
        "SessionStart" => Some(SETTLES_AT_START_MS),
        "BeforeAgent" => None,
        "AfterAgent" => Some(0),
        _ => return,
    };
    let process = running(&["gemini"]);
    let Some(process) = process.filter(|process| !is_run(process)) else {
        return;
    };
    let mut waiter = Waiter {
        conversation: event.session_id,
        latest: latest::file("gemini", &Process::of(process.clone()), None),
        process,
        settles_ms: settles_ms.unwrap_or_default(),
        turn: Some(std::process::id()),
    };
    // A waiter of before then brings nothing any more: what it holds was shown with what begins the turn.
    waiter.takes_note();
    if settles_ms.is_some() {
        waiter.start();
    }
}

/// Hands over to Gemini CLI whatever comes.
pub(super) async fn stand_by(waiter: Waiter, args: &Hook) -> End {
    let Some(pane) = Pane::wanted() else {
        return End::Done;
    };
    waiter
        .stand_by(
            args,
            async || until_free(&pane, &waiter.process, LOOK_SELDOM).await,
            async |text: &str| types(&pane, &waiter, text).await,
        )
        .await
}

/// Types a text, once nobody has written anything. Tells whether it was taken.
async fn types(pane: &Pane, waiter: &Waiter, text: &str) -> bool {
    let is_free = until_free(pane, &waiter.process, LOOK_EVERY);
    let is_free = timeout(HOLDS, is_free).await.is_ok();
    if !is_free || !waiter.is_current() {
        return false;
    }
    let is_taken = gives(pane, &typed(text)).await;
    if !is_taken {
        pane.tell(NOT_TAKEN).await;
    }
    is_taken
}

/// Pastes a text and has it taken. Tells whether both are seen.
async fn gives(pane: &Pane, text: &str) -> bool {
    let pasted = pasted(text);
    let shows_it = |seen: &Seen| written(seen).is_some_and(|line| is_pasted(line, &pasted));
    if !(pane.paste(text).await && shows(pane, shows_it).await) {
        return false;
    }
    sleep(RESTS).await;
    // Its person may have begun to write behind it.
    pane.look().await.is_some_and(|seen| shows_it(&seen))
        && pane.enter().await
        && shows(pane, |seen| is_empty(seen) || !seen.title.starts_with(READY)).await
}

/// Waits until Gemini CLI waits for what its person has not begun to write. It looks again and again, at last after as long as is said.
async fn until_free(pane: &Pane, process: &str, pause_max: Duration) {
    let mut pause = AGAIN_FIRST;
    while !is_free(pane, process).await {
        sleep(pause).await;
        pause = (pause * 2).min(pause_max);
    }
}

/// Waits until something is seen in a pane; not for long.
async fn shows(pane: &Pane, what: impl Fn(&Seen) -> bool) -> bool {
    let until = Instant::now() + TAKES;
    while !pane.look().await.is_some_and(|seen| what(&seen)) {
        if Instant::now() >= until {
            return false;
        }
        sleep(AGAIN_FIRST).await;
    }
    true
}

/// Tells whether a process waits in a pane for what its person has not begun to write.
async fn is_free(pane: &Pane, process: &str) -> bool {
    let Some(seen) = pane.look().await else {
        return false;
    };
    seen.title.starts_with(READY) && is_empty(&seen) && seen.is_of(process).await
}

/// Returns what stands in the input line; none where the cursor is elsewhere, as in a dialog.
fn written(seen: &Seen) -> Option<&str> {
    PROMPTS.iter().find_map(|prompt| seen.line.strip_prefix(prompt))
}

fn is_empty(seen: &Seen) -> bool {
    // Who writes the same has the cursor elsewhere.
    written(seen) == Some(NOTHING) && seen.column == PROMPTS[0].len()
}

/// Writes a text so that Gemini CLI takes it for nothing but text: behind `@` it would look for a file to put in its place.
fn typed(text: &str) -> String {
    let mut typed = String::with_capacity(text.len());
    for char in text.chars() {
        if char == '@' && !typed.ends_with('\\') {
            typed.push('\\');
        }
        // No frame has others, which may steer a terminal, and end what is pasted.
        if matches!(char, '\n' | '\t') || !char.is_control() {
            typed.push(char);
        }
    }
    while typed.split('\n').count() < MARKED_FROM {
        typed.push('\n');
    }
    typed
}

/// Returns what Gemini CLI shows in place of a long text that was pasted, up to what tells several of them apart: so that what
/// its person has begun to write meanwhile is not taken for a part of it.
fn pasted(text: &str) -> String {
    format!("[Pasted Text: {} lines", text.split('\n').count())
}

fn is_pasted(line: &str, pasted: &str) -> bool {
    let number = line.strip_prefix(pasted).and_then(|rest| rest.strip_suffix(']'));
    number.is_some_and(|number| {
        number.is_empty()
            || number
                .strip_prefix(" #")
                .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// Tells whether a process ends with its turn, so that nothing wakes it.
fn is_run(process: &str) -> bool {
    let is_prompt = |argument: &String| {
        matches!(argument.as_str(), "-p" | "--prompt") || argument.starts_with("--prompt=")
    };
    arguments(process).iter().any(is_prompt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_typed_as_nothing_but_text() {
        assert_eq!(
            typed("see @a, \\@b and c@d\n\u{1b}[201~\r!x\n1\t2\n\n\n"),
            "see \\@a, \\@b and c\\@d\n[201~!x\n1\t2\n\n\n"
        );
    }

    #[test]
    fn a_short_text_is_made_as_long_as_one_that_gemini_cli_shows_a_mark_for() {
        assert_eq!(typed("a\nb\n"), "a\nb\n\n\n\n");
        assert_eq!(pasted(&typed("a\nb\n")), "[Pasted Text: 6 lines");
    }

    #[test]
    fn only_what_was_pasted_alone_counts_as_that() {
        let pasted = pasted("1\n2\n3\n4\n5\n");
        for (line, is) in [
            ("[Pasted Text: 6 lines]", true),
            ("[Pasted Text: 6 lines #2]", true),
            ("[Pasted Text: 7 lines]", false),
            ("[Pasted Text: 6 lines] and", false),
            ("a [Pasted Text: 6 lines]", false),
            ("[Pasted Text: 6 lines #2] [Pasted Text: 6 lines #3]", false),
            ("", false),
        ] {
            assert_eq!(is_pasted(line, &pasted), is, "{line}");
        }
    }
}
