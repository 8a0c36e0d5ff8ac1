//! The log that a person reads: one line a message, on stdout.

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Local, TimeZone, Utc};

use super::limits::{LINES_BYTES_MAX, LOG_END_PATIENCE};
use crate::engine::{Kind, Message, Timestamp};
use crate::line_queue::LineQueue;
use crate::terminal::preview;

/// Where accepted messages are shown. Must not wait: it is called for every post.
pub trait MessageLog: Send + Sync {
    /// Takes a message, under the engine's lock.
    fn add(&self, message: &Message);

    /// Writes what was taken, as far as that needs no wait, before its sender hears that it was accepted.
    fn write(&self) {}
}

/// What shows nothing.
pub struct NoLog;

impl MessageLog for NoLog {
    fn add(&self, _: &Message) {}
}

/// What shows messages on stdout.
struct StdoutLog {
    queue: LineQueue,
    /// Taken under the queue's own lock, and nowhere else.
    lines: Mutex<Lines<Local>>,
}

impl MessageLog for StdoutLog {
    fn add(&self, message: &Message) {
        self.queue.keep(|text| {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.write(&Line::from(message), text);
            text.push('\n');
        });
    }

    fn write(&self) {
        self.queue.write_at_once();
    }
}

/// How much of a body a line shows, in characters as a reader counts them.
const PREVIEW_CHARACTERS: usize = 60;

/// The end of a log on stdout.
pub struct LogEnd(LineQueue);

impl LogEnd {
    /// Waits until all lines are written, and a last one, but not for a stdout that nobody reads.
    pub fn write(self, last_line: &str) {
        self.0.write_now(&format!("{last_line}\n"), LOG_END_PATIENCE);
    }
}

/// Returns a log that writes to stdout, in colour if it is a terminal, after a `banner` that it writes first; and its
/// end. A slow, full or closed stdout stops nothing, but for a file of a disk of this machine that stands still.
pub fn stdout_log(banner: &str) -> (Box<dyn MessageLog>, LogEnd) {
    let colour = std::io::stdout().is_terminal();
    let queue = LineQueue::at_once("stdout", std::io::stdout(), LINES_BYTES_MAX);
    queue.keep(|text| text.push_str(banner));
    queue.write_at_once();
    let log = StdoutLog {
        queue: queue.clone(),
        lines: Mutex::new(Lines::new(Local, colour)),
    };
    (Box::new(log), LogEnd(queue))
}

/// Writes a message as `[14:32:01] dev-b → pm [status] "Task P4 DONE..."`, in a time zone, in colour or not.
///
/// The body is cut after 60 characters; line breaks become spaces, and whatever could steer a terminal or
/// reorder the line is shown as an escape.
pub fn line<Z: TimeZone>(message: &Message, zone: &Z, colour: bool) -> String
where
    Z::Offset: Display,
{
    let mut text = String::new();
    Lines::new(zone.clone(), colour).write(&Line::from(message), &mut text);
    text
}

/// What a line is about: a message, wherever it comes from.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Who sent it.
    pub from: &'a str,
    /// Where it was sent.
    pub to: &'a str,
    /// What it is for.
    pub kind: Kind,
    /// The text.
    pub body: &'a str,
    /// When it was accepted.
    pub at: Timestamp,
}

impl<'a> From<&'a Message> for Line<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            from: message.from.as_str(),
            to: message.to.as_str(),
            kind: message.kind,
            body: &message.body,
            at: message.ts,
        }
    }
}

/// Writes messages as [`line`] does, and asks for the time of a zone once a second: it takes longer than all the rest.
pub struct Lines<Z> {
    zone: Z,
    colour: bool,
    /// The second of the latest message, since the Unix epoch, and how it is shown.
    shown: Option<(i64, String)>,
}

impl<Z: TimeZone> Lines<Z>
where
    Z::Offset: Display,
{
    /// In a time zone, in colour or not.
    pub fn new(zone: Z, colour: bool) -> Self {
        let shown = None;
        Self { zone, colour, shown }
    }

    /// Writes a message behind `text`, without an end of the line.
    pub fn write(&mut self, line: &Line<'_>, text: &mut String) {
        let Line { from, to, kind, .. } = line;
        let before_kind = match (self.colour, kind) {
            (false, _) => " [",
            (true, Kind::Status) => " \u{1b}[32m[",
            (true, Kind::Question) => " \u{1b}[33m[",
            (true, Kind::Directive) => " \u{1b}[36m[",
            (true, Kind::Free) => " \u{1b}[2m[",
        };
        let behind_kind = if self.colour { "]\u{1b}[0m \"" } else { "] \"" };
        let time = self.time(line.at);
        for part in [
            "[",
            time,
            "] ",
            from,
            " → ",
            to,
            before_kind,
            kind.as_str(),
            behind_kind,
        ] {
            text.push_str(part);
        }
        preview(without_heading(line), PREVIEW_CHARACTERS, text);
        text.push('"');
    }

    /// Returns the time of day, `14:32:01`.
    pub fn time(&mut self, at: Timestamp) -> &str {
        let millis = at.as_millis();
        let second = millis.div_euclid(1_000);
        let shown = self.shown.take().filter(|(shown, _)| *shown == second);
        let (_, text) = self.shown.insert(shown.unwrap_or_else(|| {
            let time = DateTime::<Utc>::from_timestamp_millis(millis).unwrap_or_default();
            let time = time.with_timezone(&self.zone).format("%H:%M:%S");
            (second, time.to_string())
        }));
        text
    }
}

/// Returns the body from its first character that is no space, or from behind a heading that says nothing but what the
/// line says already: the block's kind, who wrote it and to whom, as in `## QUESTION TO PM — DEV-A`. With it goes the line in
/// which a status says when it was written. A body that is only a heading is returned whole.
fn without_heading<'a>(line: &Line<'a>) -> &'a str {
    let body = match line.body.trim_start() {
        "" => return line.body,
        body => body,
    };
    // Most bodies are long and have no heading, so the end of the first line is not looked for.
    if !body.starts_with('#') {
        return body;
    }
    let (heading, rest) = body.split_once(['\n', '\r']).unwrap_or_default();
    let rest = rest.trim_start();
    if rest.is_empty() || !is_repeated(heading, line) {
        return body;
    }
    let (time, more) = rest.split_once(['\n', '\r']).unwrap_or_default();
    match more.trim_start() {
        "" => rest,
        more if time.starts_with("Time: ") => more,
        _ => rest,
    }
}

/// Tells whether all that a heading says is in the line: first the words for the kind, then names.
fn is_repeated(heading: &str, line: &Line<'_>) -> bool {
    let text = heading.trim_start_matches('#');
    let level = heading.len() - text.len();
    if !(1..=6).contains(&level) || !text.starts_with(' ') {
        return false;
    }
    let mut words = text
        .split_whitespace()
        .map(|word| word.trim_end_matches(':'))
        .filter(|word| !matches!(*word, "" | "—" | "–" | "-"))
        .peekable();
    let is =
        |word: Option<&str>, expected: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(expected));
    let kind = line.kind;
    if kind == Kind::Free || !is(words.next(), kind.as_str()) {
        return false;
    }
    if kind == Kind::Status {
        words.next_if(|word| word.eq_ignore_ascii_case("update"));
    }
    let (from, to) = (line.from, line.to);
    while let Some(word) = words.next() {
        let is_said = match word.to_ascii_lowercase().as_str() {
            "to" => is(words.next(), to),
            "from" => is(words.next(), from),
            name => name == from,
        };
        if !is_said {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{MessageId, Recipient, Roster};

    fn message(kind: Kind, body: &str) -> Message {
        let roster = Roster::default();
        let name = |name| roster.find(name).expect("a default role").clone();
        Message {
            id: MessageId(uuid::Uuid::nil()),
            from: name("dev-b"),
            to: Recipient::agent(&name("pm")),
            kind,
            body: body.to_owned(),
            ts: Timestamp::from_millis(1_777_732_321_999),
            context: None,
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
    fn each_second_has_a_time_of_its_own() {
        let mut lines = Lines::new(Utc, false);
        let mut times = Vec::new();
        for millis in [-1, 0, 999, 1_000, 999, 59_999, 60_000, i64::MAX] {
            let mut text = "before ".to_owned();
            let ts = Timestamp::from_millis(millis);
            let message = Message {
                ts,
                ..message(Kind::Free, "")
            };
            lines.write(&Line::from(&message), &mut text);
            times.push(text["before [".len()..][..8].to_owned());
        }
        let expected = [
            "23:59:59", "00:00:00", "00:00:00", "00:00:01", "00:00:00", "00:00:59", "00:01:00", "00:00:00",
        ];
        assert_eq!(times, expected);
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

    /// The line's body of a message from `dev-b` to `pm`.
    fn preview_of(kind: Kind, body: &str) -> String {
        let line = line(&message(kind, body), &Utc, false);
        let (_, shown) = line.split_once("] \"").expect("the body");
        shown.strip_suffix('"').expect("the closing quote").to_owned()
    }

    #[test]
    fn a_heading_that_repeats_role_and_kind_is_left_out() {
        for (kind, heading) in [
            (Kind::Status, "## STATUS UPDATE — DEV-B"),
            (Kind::Status, "## Status update: dev-b"),
            (Kind::Status, "# STATUS"),
            (Kind::Status, "\n\n###### STATUS UPDATE – FROM DEV-B TO PM"),
            (Kind::Question, "## QUESTION TO PM — DEV-B"),
            (Kind::Question, "## QUESTION"),
            (Kind::Directive, "## DIRECTIVE TO PM"),
        ] {
            for gap in ["\n", "\r\n", "\n\n \t\n", "  \r"] {
                let body = format!("{heading}{gap}Task: 4 …\nState: DONE");
                assert_eq!(preview_of(kind, &body), "Task: 4 … State: DONE", "{body:?}");
            }
        }
    }

    #[test]
    fn of_what_follows_a_heading_the_time_alone_is_left_out() {
        for (line, shown) in [
            ("Time: 14:32", "Task: 4"),
            ("Time 14:32", "Time 14:32 Task: 4"),
            ("Timeouts in CI", "Timeouts in CI Task: 4"),
        ] {
            let body = format!("## STATUS UPDATE — DEV-B\n{line}\nTask: 4");
            assert_eq!(preview_of(Kind::Status, &body), shown);
        }
    }

    #[test]
    fn a_heading_that_says_more_or_something_else_stays() {
        for (kind, heading) in [
            (Kind::Status, "## STATUS UPDATE — DEV-B, blocked"),
            (Kind::Status, "## STATUS UPDATE — DEV-A"),
            (Kind::Status, "## STATUS UPDATE — PM"),
            (Kind::Status, "## STATUS UPDATE TO"),
            (Kind::Status, "## QUESTION TO PM — DEV-B"),
            (Kind::Status, "## UPDATE"),
            (Kind::Status, "##STATUS"),
            (Kind::Status, "STATUS UPDATE — DEV-B"),
            (Kind::Status, "####### STATUS"),
            (Kind::Status, "##"),
            (Kind::Question, "## QUESTION TO DEV-A — DEV-B"),
            (Kind::Directive, "## DIRECTIVE UPDATE"),
            (Kind::Directive, "## DIRECTIVE TO DEV-A"),
            (Kind::Free, "## FREE — DEV-B"),
            (Kind::Free, "## STATUS UPDATE — DEV-B"),
        ] {
            assert_eq!(preview_of(kind, &format!("{heading}\nx")), format!("{heading} x"));
        }
    }

    #[test]
    fn a_body_that_is_only_a_heading_stays() {
        for rest in ["", "\n", "\r\n\r\n", "\n \t\u{a0}\u{3000}\n"] {
            let shown = preview_of(Kind::Status, &format!("## STATUS UPDATE — DEV-B{rest}"));
            assert!(shown.starts_with("## STATUS UPDATE — DEV-B"), "{rest:?}: {shown}");
        }
    }

    /// All bodies of up to five of these parts.
    #[test]
    fn what_can_be_seen_of_a_body_is_never_left_out_whole() {
        let far = format!("{}x", "\n \t".repeat(1_000));
        assert_eq!(preview_of(Kind::Status, &far), "x");
        let parts = [
            "## STATUS UPDATE — DEV-B",
            "# status",
            "\n",
            "\r",
            " ",
            "x",
            "\u{200b}",
            "\u{3000}",
        ];
        let mut bodies = vec![String::new()];
        for _ in 0..5 {
            let longer = bodies
                .iter()
                .flat_map(|body| parts.map(|part| format!("{body}{part}")));
            bodies = std::iter::once(String::new()).chain(longer).collect();
        }
        for body in bodies {
            let shown = preview_of(Kind::Status, &body);
            assert_eq!(
                shown.trim().is_empty(),
                body.trim().is_empty(),
                "{body:?}: {shown:?}"
            );
        }
    }
}
