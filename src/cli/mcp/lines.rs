//! Lines of JSON-RPC from an agent's stdin, bounded.

use bytes::{Buf as _, Bytes, BytesMut};
use rmcp::model::ClientJsonRpcMessage;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::server::json_rpc::check_keys;

/// Longest line, in bytes: as long as the relay takes a request.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What some clients write before their first line: <https://www.rfc-editor.org/rfc/rfc3629#section-6>
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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
    /// The rest of a line that was too long is still to come.
    skips: bool,
    ended: bool,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its end.
    Whole(Bytes),
    /// It has more than [`LINE_BYTES_MAX`].
    TooLong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads nothing yet.
    pub fn new(stdin: R) -> Self {
        Self {
            stdin,
            buffer: BytesMut::new(),
            scanned: 0,
            is_first: true,
            skips: false,
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
                    return self.skip_too_long();
                }
            };
            if length + end_bytes == 0 {
                return None;
            }
            let mut line = self.buffer.split_to(length + end_bytes).freeze().slice(..length);
            self.scanned = 0;
            if std::mem::take(&mut self.is_first) && line.starts_with(BYTE_ORDER_MARK) {
                line.advance(BYTE_ORDER_MARK.len());
            }
            if std::mem::take(&mut self.skips) {
                continue;
            }
            if length > LINE_BYTES_MAX {
                return Some(Line::TooLong);
            }
            if !line.trim_ascii().is_empty() {
                return Some(Line::Whole(line));
            }
        }
    }

    /// Forgets the beginning of a line that is too long already.
    fn skip_too_long(&mut self) -> Option<Line> {
        let is_news = !self.skips && self.scanned > LINE_BYTES_MAX;
        if self.skips || is_news {
            self.buffer.clear();
            self.scanned = 0;
            self.skips = true;
        }
        is_news.then_some(Line::TooLong)
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

/// Reads a line. rmcp keeps the last of two equal keys, and relay is asked in what is made of that, so they are looked
/// for here.
///
/// # Errors
///
/// What to answer with.
pub fn message(line: &Line) -> Result<ClientJsonRpcMessage, Refused> {
    let Line::Whole(line) = line else {
        let reason = format!("the line has more than {LINE_BYTES_MAX} bytes, the most that is accepted");
        return Err(Refused::no_message(Value::Null, reason));
    };
    check_keys(line).map_err(|invalid| {
        let (id, code, reason) = invalid.into_parts();
        Refused { id, code, reason }
    })?;
    let unreadable = match serde_json::from_slice(line) {
        Ok(message) => return Ok(message),
        Err(error) => error,
    };
    let json = match serde_json::from_slice::<Value>(line) {
        Ok(json) => json,
        Err(error) => return Err(unreadable_line(line, &error)),
    };
    tracing::debug!(%unreadable, "JSON, but no message");
    let reason = "the line is no JSON-RPC 2.0 message; accepted: {\"jsonrpc\": \"2.0\", \"id\": text or integer, \"method\": text, \"params\": object}, without id if no answer is wanted";
    let id = json.get("id").filter(|id| id.is_string() || id.is_i64());
    let id = id.filter(|_| json.get("method").is_some_and(Value::is_string));
    Err(Refused::no_message(id.cloned().unwrap_or_default(), reason))
}

/// Says why a line is not read. What is JSON by its grammar is answered with its id, for whoever has asked waits for that: half of a
/// surrogate pair, as a text has it that was cut by UTF-16 units, or more levels than serde_json takes.
fn unreadable_line(line: &[u8], error: &serde_json::Error) -> Refused {
    #[derive(serde::Deserialize)]
    struct Head {
        id: Value,
        #[serde(rename = "method")]
        _method: IgnoredAny,
    }
    match serde_json::from_slice::<Head>(line) {
        Ok(Head { id, .. }) if id.is_string() || id.is_i64() => {
            Refused::no_message(id, format!("the line cannot be read: {error}"))
        }
        Ok(_) | Err(_) => Refused {
            id: Value::Null,
            code: -32700,
            reason: format!("the line is no JSON: {error}"),
        },
    }
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
        for line in [
            call("7", r#""\ud83d"#),
            call("1.5", r#""\ud83d""#),
            r#"{"id":7,"a":"\ud83d"}"#.to_owned(),
        ] {
            let (id, code, said) = refused(line);
            assert_eq!((id, code), (Value::Null, -32700), "{said}");
        }
    }
}
