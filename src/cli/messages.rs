//! Messages as a person reads them in a terminal, and as a script does.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use chrono::{DateTime, Local};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::engine::holds::HeldBy;
use crate::engine::limits::ID_DIGITS_MIN;
use crate::terminal::{visible, visible_json};

/// What the relay answers to a read or a peek.
#[derive(Deserialize)]
pub struct Messages<'a> {
    /// The JSON array as it came.
    #[serde(borrow)]
    messages: &'a RawValue,
    /// When the relay started, if the reader had not been told of it.
    #[serde(default)]
    pub restarted: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    id: String,
    from: String,
    to: String,
    kind: String,
    body: String,
    ts: String,
    thread: Option<String>,
    #[serde(default)]
    redelivered: bool,
    held: Option<Held>,
}

/// That the person holds a message.
#[derive(Deserialize)]
#[serde(untagged)]
enum Held {
    /// In the inbox that is looked at, and for which hold.
    Here(String),
    /// For these.
    For(Vec<HeldFor>),
}

#[derive(Deserialize)]
struct HeldFor {
    agent: String,
}

impl Held {
    fn text(&self) -> String {
        match self {
            Self::Here(by) if by == HeldBy::From.as_str() => " (held by you, since its sender is)".to_owned(),
            Self::Here(_) => " (held by you)".to_owned(),
            Self::For(all) => {
                let agents: Vec<_> = all.iter().map(|held| visible(&held.agent)).collect();
                format!(" (held for {})", agents.join(", "))
            }
        }
    }
}

impl<'a> Messages<'a> {
    /// Reads an answer.
    pub fn of(json: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(json)
    }

    /// Returns the first message, if there is one: its JSON if it is for a script, else a block.
    pub fn one(&self, json: bool) -> serde_json::Result<Option<One>> {
        let all: Vec<&RawValue> = serde_json::from_str(self.messages.get())?;
        let Some(first) = all.first() else {
            return Ok(None);
        };
        let message: Message = serde_json::from_str(first.get())?;
        let text = match json {
            true => visible_json(first.get()).into_owned(),
            false => blocks(std::slice::from_ref(&message)),
        };
        let id = message.id;
        Ok(Some(One { id, text }))
    }

    /// Returns what is to be shown: the array in one line if it is for a script, else a block for each message, and
    /// nothing at all for none; and whether there is a message.
    pub fn shown(&self, json: bool) -> serde_json::Result<(String, bool)> {
        let (blocks, any) = shown(self.messages)?;
        let text = if json {
            json_line(self.messages.get())
        } else {
            blocks
        };
        Ok((text, any))
    }
}

/// A message that is to be shown.
pub struct One {
    /// Its id.
    pub id: String,
    /// Its JSON, or its block.
    pub text: String,
}

/// Returns a block for each message of a JSON array, and whether there is one.
pub fn shown(messages: &RawValue) -> serde_json::Result<(String, bool)> {
    let messages: Vec<Message> = serde_json::from_str(messages.get())?;
    Ok((blocks(&messages), !messages.is_empty()))
}

/// Returns the block of the one message in an answer, `{"message": …}`; none if that is something else.
pub fn one_shown(answer: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct One {
        message: Message,
    }
    let One { message } = serde_json::from_slice(answer).ok()?;
    Some(blocks(&[message]))
}

/// Returns JSON as one line of stdout, which may be a terminal.
pub fn json_line(json: &str) -> String {
    format!("{}\n", visible_json(json.trim_end()))
}

/// Writes all of a text to stdout, or tells why not. One that does not block is waited for as long as somebody reads it.
pub fn write_stdout(text: &str) -> io::Result<()> {
    let mut others = io::stdout().lock();
    others.flush()?;
    let stdout = rustix::stdio::stdout();
    let mut left = text.as_bytes();
    while !left.is_empty() {
        match rustix::io::write(stdout, left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => left = &left[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], None) {
                // Whose reader is gone is ready, too.
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Makes sure that somebody can see what is written to stdout. A program that is started with its stdout closed finds
/// `/dev/null` in its place, open for reading too, which a shell's `>/dev/null` is not.
pub fn check_stdout() -> io::Result<()> {
    check(rustix::stdio::stdout())
}

/// The same of stderr.
pub fn check_stderr() -> io::Result<()> {
    check(rustix::stdio::stderr())
}

fn check(stream: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

    let file = std::fs::File::from(stream.try_clone_to_owned()?);
    let is_null = match (file.metadata(), std::fs::metadata("/dev/null")) {
        (Ok(own), Ok(null)) => own.file_type().is_char_device() && own.rdev() == null.rdev(),
        (Err(_), _) | (_, Err(_)) => false,
    };
    let mode = rustix::fs::fcntl_getfl(stream)?;
    if is_null && mode.contains(rustix::fs::OFlags::RDWR) {
        return Err(io::Error::other(
            "it is closed, or /dev/null opened for reading and writing",
        ));
    }
    Ok(())
}

/// Writes a head, with as much of the id as names the message to `relay trace`, and the indented body of each message, with an empty line between any two.
fn blocks(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        if !text.is_empty() {
            text.push('\n');
        }
        let Message {
            id, from, to, kind, ..
        } = message;
        let id: String = id.chars().take(ID_DIGITS_MIN).collect();
        let again = if message.redelivered {
            " (you may have seen this one)"
        } else {
            ""
        };
        let thread = match &message.thread {
            Some(thread) => format!(" thread {}", visible(thread)),
            None => String::new(),
        };
        let held = message.held.as_ref().map(Held::text).unwrap_or_default();
        let _ = writeln!(
            text,
            "[{}] {} → {} [{}] {}{thread}{again}{held}",
            visible(&local_time(&message.ts)),
            visible(from),
            visible(to),
            visible(kind),
            visible(&id)
        );
        for line in message.body.lines() {
            // So that no line of a body passes for the head of another message.
            text.push_str(if line.is_empty() { "" } else { "  " });
            push_visible(&mut text, line);
            text.push('\n');
        }
    }
    text
}

/// Shows as an escape whatever could steer the terminal or cannot be seen, but for tabs.
fn push_visible(text: &mut String, line: &str) {
    for (at, piece) in line.split('\t').enumerate() {
        text.push_str(if at == 0 { "" } else { "\t" });
        text.push_str(&visible(piece));
    }
}

/// Writes a moment in ISO 8601 as this machine's clock shows it.
pub fn local_time(ts: &str) -> String {
    match DateTime::parse_from_rfc3339(ts) {
        Ok(time) => time.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => ts.chars().filter(|c| !c.is_control()).collect(),
    }
}

/// How long a moment is as relay writes it, with and without milliseconds, in bytes.
const MOMENT_BYTES: [usize; 2] = ["2026-05-02T14:30:00.000Z".len(), "2026-05-02T14:30:00Z".len()];

/// Writes the moments in a text that was made for models as this machine's clock shows them.
pub fn with_local_times(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut rest = text;
    // Behind its year, month and day.
    while let Some(at) = rest.find('T') {
        let begins = at.checked_sub("2026-05-02".len());
        let moment = begins.and_then(|begins| {
            MOMENT_BYTES
                .iter()
                .find_map(|bytes| moment_at(rest, begins, *bytes))
        });
        match (begins, moment) {
            (Some(begins), Some(moment)) => {
                shown.push_str(&rest[..begins]);
                shown.push_str(&local_time(moment));
                rest = &rest[begins + moment.len()..];
            }
            (Some(_) | None, _) => {
                shown.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    if shown.is_empty() {
        return Cow::Borrowed(text);
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Returns the moment that is so many bytes of a text, if they are one.
fn moment_at(text: &str, begins: usize, bytes: usize) -> Option<&str> {
    let moment = text.get(begins..begins + bytes)?;
    let is_one = moment.ends_with('Z') && DateTime::parse_from_rfc3339(moment).is_ok();
    is_one.then_some(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_this_machines_clock_shows_them_and_nothing_else_is_changed() {
        let (one, other) = ("2026-05-02T14:30:00.123Z", "1999-12-31T23:59:59Z");
        let (local_one, local_other) = (local_time(one), local_time(other));
        assert!(!local_one.contains('T') && local_one.len() == 19, "{local_one}");
        for (text, expected) in [
            (
                format!("last there at {one}, and gone"),
                format!("last there at {local_one}, and gone"),
            ),
            (format!("{other}{one}"), format!("{local_other}{local_one}")),
            (format!("T{one}T"), format!("T{local_one}T")),
            (format!("é{one}é"), format!("é{local_one}é")),
        ] {
            assert_eq!(with_local_times(&text), expected);
        }
        for text in [
            "",
            "T",
            "To whom it may concern: TTT",
            "2026-05-02T",
            "2026-05-02T14:30:00.123",
            "2026-13-02T14:30:00Z",
        ] {
            assert_eq!(with_local_times(text), text);
        }
    }

    fn message(body: &str, redelivered: bool) -> Message {
        Message {
            id: "3f2a91c0-5d1e-4a7b-9c3d-1f2e3d4c5b6a".to_owned(),
            from: "dev-b".to_owned(),
            to: "user".to_owned(),
            kind: "question".to_owned(),
            body: body.to_owned(),
            ts: "not a time".to_owned(),
            thread: None,
            redelivered,
            held: None,
        }
    }

    #[test]
    fn a_block_has_a_head_and_an_indented_body() {
        let messages = [message("one\n\n[two]\r\n", false), message("", true)];
        assert_eq!(
            blocks(&messages),
            "[not a time] dev-b → user [question] 3f2a91c0\n  one\n\n  [two]\n\n\
             [not a time] dev-b → user [question] 3f2a91c0 (you may have seen this one)\n"
        );
    }

    #[test]
    fn a_block_names_the_thread() {
        let mut message = message("", true);
        message.thread = Some("b1\u{1b}".to_owned());
        assert_eq!(
            blocks(&[message]),
            "[not a time] dev-b → user [question] 3f2a91c0 thread b1\\u{1b} (you may have seen this one)\n"
        );
    }

    #[test]
    fn nothing_in_a_body_can_steer_the_terminal() {
        let block = blocks(&[message("a\u{1b}[2J\u{202e}\tb\rc", false)]);
        assert_eq!(block.lines().nth(1), Some("  a\\u{1b}[2J\\u{202e}\tb\\u{d}c"));
    }
}
