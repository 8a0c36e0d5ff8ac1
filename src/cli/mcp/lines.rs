//! Lines of JSON-RPC from an agent's stdin, bounded.

use bytes::{Buf as _, Bytes, BytesMut};
use rmcp::model::ClientJsonRpcMessage;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::server::json_id::{self, BYTE_ORDER_MARK, IdFinder};
use crate::server::json_rpc::{Invalid, check_handshake, check_keys, check_request_id};

/// Longest line, in bytes: as long as the relay takes a request.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How much is read at once, in bytes: what a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// The bytes of stdin, in lines.
pub struct Lines<R> {
    stdin: R,
    buffer: BytesMut,
    /// How much of the buffer is known to have no end of a line.
    scanned: usize,
    /// Nothing was taken yet: a byte order mark may come first.
    is_first: bool,
    /// Looks at a line that is too long, whose rest is still to come.
    skips: Option<IdFinder>,
    ended: bool,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its end.
    Whole(Bytes),
    /// It has more than [`LINE_BYTES_MAX`]. The id of the request that it was to be; null where none was made out.
    TooLong(Value),
}

impl Line {
    /// Says what is wrong with it, if it is a handshake whose parameters are none.
    pub fn flawed_handshake(&self) -> Option<Refused> {
        match self {
            Self::Whole(line) => check_handshake(line).err().map(Refused::from),
            Self::TooLong(_) => None,
        }
    }
}

impl From<Invalid> for Refused {
    fn from(invalid: Invalid) -> Self {
        let (id, code, reason) = invalid.into_parts();
        Self { id, code, reason }
    }
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads nothing yet.
    pub fn new(stdin: R) -> Self {
        Self {
            stdin,
            buffer: BytesMut::new(),
            scanned: 0,
            is_first: true,
            skips: None,
            ended: false,
        }
    }

    /// Takes a line that was read; the last one needs no end.
    pub fn take(&mut self) -> Option<Line> {
        loop {
            let unscanned = &self.buffer[self.scanned..];
            let end = unscanned.iter().position(|&byte| byte == b'\n');
            let (length, end_bytes) = match end {
                Some(at) => (self.scanned + at, 1),
                None if self.ended => (self.buffer.len(), 0),
                None => {
                    self.scanned = self.buffer.len();
                    self.skip_too_long();
                    return None;
                }
            };
            let skips = self.skips.take();
            if length + end_bytes == 0 && skips.is_none() {
                return None;
            }
            let mut line = self.buffer.split_to(length + end_bytes).freeze().slice(..length);
            self.scanned = 0;
            if std::mem::take(&mut self.is_first) && line.starts_with(BYTE_ORDER_MARK) {
                line.advance(BYTE_ORDER_MARK.len());
            }
            if length > LINE_BYTES_MAX || skips.is_some() {
                let mut finder = skips.unwrap_or_else(IdFinder::new);
                finder.push(&line);
                return Some(Line::TooLong(value(finder.id())));
            }
            if !line.trim_ascii().is_empty() {
                return Some(Line::Whole(line));
            }
        }
    }

    /// Forgets the beginning of a line that is too long already, but for what its id is.
    fn skip_too_long(&mut self) {
        if self.skips.is_none() && self.scanned <= LINE_BYTES_MAX {
            return;
        }
        let finder = self.skips.get_or_insert_with(IdFinder::new);
        finder.push(&self.buffer);
        self.buffer.clear();
        self.scanned = 0;
    }

    /// Waits for more bytes; tells whether some came. A stdin that cannot be read has ended. Nothing is lost when this
    /// is dropped before its end.
    pub async fn read(&mut self) -> bool {
        self.buffer.reserve(READ_BYTES);
        let count = self
            .stdin
            .read_buf(&mut self.buffer)
            .await
            .unwrap_or_else(|error| {
                tracing::debug!(%error, "cannot read stdin");
                0
            });
        self.ended = count == 0;
        !self.ended
    }

    /// Tells whether stdin has ended.
    pub fn ended(&self) -> bool {
        self.ended
    }
}

/// Why a line is not heard, as a JSON-RPC error: <https://www.jsonrpc.org/specification#error_object>.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// Of the request that the line was to be; null where none was made out.
    pub id: Value,
    pub code: i32,
    pub reason: String,
}

impl Refused {
    /// Says that something is no message of JSON-RPC.
    pub fn no_message(id: Value, reason: impl Into<String>) -> Self {
        let (code, reason) = (-32600, reason.into());
        Self { id, code, reason }
    }

    /// Writes the error, without the end of its line.
    pub fn bytes(&self) -> Bytes {
        let Self { id, code, reason } = self;
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": reason}});
        error.to_string().into()
    }
}

/// Takes an id that was found for a value; null for none.
fn value(id: Option<Box<RawValue>>) -> Value {
    id.and_then(|id| serde_json::from_str(id.get()).ok())
        .unwrap_or_default()
}

/// Reads a line. rmcp keeps the last of two equal keys, and relay is asked in what is made of that, so they are looked
/// for here; and it takes more numbers for ids than the relay does.
///
/// # Errors
///
/// What to answer with.
pub fn message(line: &Line) -> Result<ClientJsonRpcMessage, Refused> {
    let line = match line {
        Line::Whole(line) => line,
        Line::TooLong(id) => {
            let reason = format!("the line has more than {LINE_BYTES_MAX} bytes, the most that is accepted");
            return Err(Refused::no_message(id.clone(), reason));
        }
    };
    check_keys(line)
        .and_then(|()| check_request_id(line))
        .map_err(Refused::from)?;
    let unreadable = match serde_json::from_slice(line) {
        Ok(message) => return Ok(message),
        Err(error) => error,
    };
    let id = value(json_id::find(line));
    if let Err(error) = serde_json::from_slice::<Value>(line) {
        // What is JSON by its grammar may still be unreadable: half of a surrogate pair, as a text has it that was cut by UTF-16 units, or
        // more levels than serde_json takes.
        return Err(match serde_json::from_slice::<&RawValue>(line) {
            Ok(_) => Refused::no_message(id, format!("the line cannot be read: {error}")),
            Err(_) => Refused {
                id,
                code: -32700,
                reason: format!("the line is no JSON: {error}"),
            },
        });
    }
    tracing::debug!(%unreadable, "JSON, but no message");
    let reason = "the line is no JSON-RPC 2.0 message; accepted: {\"jsonrpc\": \"2.0\", \"id\": text or integer, \"method\": text, \"params\": object}, without id if no answer is wanted";
    Err(Refused::no_message(id, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: String) -> (Value, i32, String) {
        let refused = message(&Line::Whole(line.into())).expect_err("it is refused");
        (refused.id, refused.code, refused.reason)
    }

    #[tokio::test]
    async fn a_byte_order_mark_before_the_first_line_alone_is_skipped() {
        let lines = async |text: &str| {
            let mut lines = Lines::new(text.as_bytes());
            while lines.read().await {}
            let mut taken = Vec::new();
            while let Some(line) = lines.take() {
                taken.push(line);
            }
            taken
        };
        let whole = |text: &str| Line::Whole(Bytes::copy_from_slice(text.as_bytes()));
        assert_eq!(
            lines("\u{feff}{}\n\u{feff}[]\n").await,
            [whole("{}"), whole("\u{feff}[]")]
        );
        assert_eq!(lines("\u{feff}\n{}").await, [whole("{}")]);
        assert_eq!(lines("{}\n").await, [whole("{}")]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_answered_though_stdin_ends_in_it() {
        let begun = r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":""#.to_owned();
        let line = begun + &"x".repeat(LINE_BYTES_MAX);
        let mut lines = Lines::new(line.as_bytes());
        let mut taken = Vec::new();
        loop {
            let some = lines.read().await;
            taken.extend(std::iter::from_fn(|| lines.take()));
            if !some {
                break;
            }
        }
        assert_eq!(taken, [Line::TooLong(7.into())]);
    }

    #[test]
    fn a_request_that_cannot_be_read_is_refused_by_its_id() {
        let call = |id: &str, text: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"a","arguments":{{"a":{text}}}}}}}"#
            )
        };
        let half = "the line cannot be read: unexpected end of hex escape at line 1 column ";
        for (id, text, reason) in [
            ("7", r#""\ud83d""#.to_owned(), half),
            (
                r#""x""#,
                r#""green \ud83d.""#.to_owned(),
                "the line cannot be read: ",
            ),
            (
                "8",
                format!("{}{}", "[".repeat(130), "]".repeat(130)),
                "the line cannot be read: recursion limit",
            ),
        ] {
            let (refused_id, code, said) = refused(call(id, &text));
            assert_eq!((refused_id.to_string().as_str(), code), (id, -32600), "{said}");
            assert!(said.starts_with(reason), "{said}");
        }
        let (id, code, said) = refused(call("7", r#""\ud83d"#));
        assert_eq!((id, code), (Value::from(7), -32700), "{said}");
        let (id, code, said) = refused(call("1.5", r#""\ud83d""#));
        assert_eq!((id, code), (Value::Null, -32600), "{said}");
        let (id, code, said) = refused(r#"{"id":7,"a":"\ud83d"}"#.to_owned());
        assert_eq!((id, code), (Value::Null, -32600), "{said}");
    }
}
