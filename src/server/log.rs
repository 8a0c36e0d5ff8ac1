//! The log that a person reads: one line a message, on stdout.

#![expect(
    clippy::disallowed_methods,
    reason = "stdout may block, so a thread of its own writes to it"
)]

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use chrono::{DateTime, Local, TimeZone, Utc};

use crate::engine::{Kind, Message};

/// Where accepted messages are shown. Must not wait: it is called for every post.
pub type MessageLog = Box<dyn Fn(Arc<Message>) + Send + Sync>;

/// How much of a body a line shows, in characters.
const PREVIEW_CHARS: usize = 60;

/// How many lines may wait for a slow stdout. More are counted and left out.
const LINES_MAX: usize = 1_024;

/// How long lines are gathered before they are written together, so that a burst wakes the writer once.
const GATHER: Duration = Duration::from_millis(5);

/// How long the end of a relay waits for the last lines to be written.
const END_PATIENCE: Duration = Duration::from_millis(500);

/// What goes to the thread that writes.
enum Item {
    Line(Arc<Message>),
    /// All before it is to be written now; says so when it is.
    End(SyncSender<()>),
}

/// The end of a log on stdout.
pub struct LogEnd(SyncSender<Item>);

impl LogEnd {
    /// Waits until all lines are written, but not for a stdout that nobody reads.
    pub fn wait(self) {
        let (done, written) = sync_channel(1);
        if self.0.try_send(Item::End(done)).is_ok() {
            let _ = written.recv_timeout(END_PATIENCE);
        }
    }
}

/// Returns a log that writes to stdout, in colour if it is a terminal, after a `banner` that it writes first; and its
/// end. A slow or closed stdout stops nothing.
pub fn stdout_log(banner: String) -> (MessageLog, LogEnd) {
    let (sender, receiver) = sync_channel(LINES_MAX);
    let left_out = Arc::new(AtomicU64::new(0));
    let writer = {
        let left_out = Arc::clone(&left_out);
        move || write_lines(&banner, &receiver, &left_out)
    };
    if let Err(error) = std::thread::Builder::new().name("log".to_owned()).spawn(writer) {
        tracing::warn!(%error, "cannot start the thread that writes the log");
    }
    let end = LogEnd(sender.clone());
    let log: MessageLog = Box::new(move |message| match sender.try_send(Item::Line(message)) {
        Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        Err(TrySendError::Full(_)) => {
            left_out.fetch_add(1, Ordering::Relaxed);
        }
    });
    (log, end)
}

/// Writes lines until stdout is closed, and how many were left out where some were.
fn write_lines(banner: &str, items: &Receiver<Item>, left_out: &AtomicU64) {
    let colour = std::io::stdout().is_terminal();
    let write = |text: &str| {
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .is_ok()
    };
    let mut open = write(banner);
    while open && let Ok(first) = items.recv() {
        if matches!(first, Item::Line(_)) {
            std::thread::sleep(GATHER);
        }
        let mut text = String::new();
        let mut ends = Vec::new();
        for item in std::iter::once(first).chain(items.try_iter()) {
            match item {
                Item::Line(message) => {
                    text.push_str(&line(&message, &Local, colour));
                    text.push('\n');
                }
                Item::End(done) => ends.push(done),
            }
        }
        let gap = left_out.swap(0, Ordering::Relaxed);
        if gap > 0 {
            let _ = writeln!(text, "[relay] {gap} lines left out: stdout is slow");
        }
        open = write(&text);
        for done in ends {
            let _ = done.try_send(());
        }
    }
}

/// Writes a message as `[14:32:01] dev-b → pm [status] "Task P4 DONE..."`, in a time zone, in colour or not.
///
/// The body is cut after 60 characters; line breaks become spaces, and whatever could steer a terminal or
/// reorder the line is shown as an escape.
pub fn line<Z: TimeZone>(message: &Message, zone: &Z, colour: bool) -> String
where
    Z::Offset: std::fmt::Display,
{
    let time = DateTime::<Utc>::from_timestamp_millis(message.ts.as_millis()).unwrap_or_default();
    let time = time.with_timezone(zone).format("%H:%M:%S");
    let Message { from, to, kind, .. } = message;
    let (on, off) = match (colour, kind) {
        (false, _) => ("", ""),
        (true, Kind::Status) => ("\u{1b}[32m", "\u{1b}[0m"),
        (true, Kind::Question) => ("\u{1b}[33m", "\u{1b}[0m"),
        (true, Kind::Directive) => ("\u{1b}[36m", "\u{1b}[0m"),
        (true, Kind::Free) => ("\u{1b}[2m", "\u{1b}[0m"),
    };
    format!(
        "[{time}] {from} → {to} {on}[{kind}]{off} \"{}\"",
        preview(&message.body)
    )
}

fn preview(body: &str) -> String {
    let mut shown = String::with_capacity(PREVIEW_CHARS + 3);
    let mut chars = body.chars().peekable();
    let mut count = 0;
    while let Some(c) = chars.next() {
        if count == PREVIEW_CHARS {
            shown.push_str("...");
            break;
        }
        count += 1;
        match c {
            '\r' if chars.peek() == Some(&'\n') => count -= 1,
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => shown.push(' '),
            c if c.is_control() || steers_text(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Tells the characters that reorder or hide text: <https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters>.
fn steers_text(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{MessageId, Roster, Timestamp};

    fn message(kind: Kind, body: &str) -> Message {
        let roster = Roster::default();
        let name = |name| roster.find(name).expect("a default role").clone();
        Message {
            id: MessageId(uuid::Uuid::nil()),
            from: name("dev-b"),
            to: name("pm"),
            kind,
            body: body.to_owned(),
            ts: Timestamp::from_millis(1_777_732_321_999),
        }
    }

    fn body_shown(body: &str) -> String {
        let line = line(&message(Kind::Free, body), &Utc, false);
        let shown = line
            .strip_prefix("[14:32:01] dev-b → pm [free] \"")
            .expect("the head");
        shown.strip_suffix('"').expect("the closing quote").to_owned()
    }

    #[test]
    fn a_line_has_time_roles_kind_and_body() {
        assert_eq!(
            line(
                &message(Kind::Status, "Task P4 DONE, last commit abc1234"),
                &Utc,
                false
            ),
            "[14:32:01] dev-b → pm [status] \"Task P4 DONE, last commit abc1234\""
        );
        let east = chrono::FixedOffset::east_opt(3_600).expect("an hour");
        assert!(line(&message(Kind::Status, ""), &east, false).starts_with("[15:32:01] "));
    }

    #[test]
    fn a_body_is_cut_after_60_characters_not_bytes() {
        assert_eq!(body_shown(&"é".repeat(60)), "é".repeat(60));
        assert_eq!(body_shown(&"é".repeat(61)), format!("{}...", "é".repeat(60)));
    }

    #[test]
    fn line_breaks_are_spaces() {
        assert_eq!(body_shown("a\nb\r\nc\rd\te"), "a b c d e");
    }

    #[test]
    fn nothing_in_a_body_can_steer_the_terminal() {
        assert_eq!(
            body_shown("\u{1b}[2J\u{7}x\u{9b}31m"),
            "\\u{1b}[2J\\u{7}x\\u{9b}31m"
        );
        assert_eq!(body_shown("a\u{202e}b\u{2066}c"), "a\\u{202e}b\\u{2066}c");
    }

    #[test]
    fn colour_is_per_kind_and_only_where_asked_for() {
        let coloured = Kind::ALL.map(|kind| line(&message(kind, "b"), &Utc, true));
        for (at, line) in coloured.iter().enumerate() {
            assert!(line.contains("\u{1b}["), "{line}");
            assert!(
                !coloured[..at].iter().any(|other| other[..30] == line[..30]),
                "{line}"
            );
        }
        for kind in Kind::ALL {
            assert!(!line(&message(kind, "b"), &Utc, false).contains('\u{1b}'));
        }
    }
}
