//! A stream of server-sent events, event by event, with the way in which it ends.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>

use std::time::{Duration, Instant};

use super::PATIENCE;
use super::http::{Arrived, Connection, Request};

/// An open stream.
pub struct EventStream {
    connection: Connection,
    /// Decoded from the chunks and not yet taken.
    text: String,
    ended: bool,
}

/// One event, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    pub event: Option<String>,
    pub data: Option<String>,
    pub id: Option<String>,
    pub retry: Option<String>,
    /// The text of a comment, which is all that a keep-alive is.
    pub comment: Option<String>,
}

/// What a stream shows next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Event(Event),
    /// It has ended as HTTP says, with nothing cut off.
    End,
    /// Its connection is gone in the middle.
    Cut,
    /// Nothing came in time.
    Nothing,
}

impl EventStream {
    /// Asks for a stream.
    ///
    /// # Panics
    ///
    /// When the answer is none.
    pub fn open(mut connection: Connection, request: &Request) -> Self {
        connection.send(&request.bytes());
        let head = loop {
            if let Some(head) = connection.take_head() {
                break head;
            }
            assert_eq!(
                connection.receive(PATIENCE),
                Arrived::More,
                "the head of a stream"
            );
        };
        let shape = (
            head.status,
            head.header("content-type"),
            head.header("transfer-encoding"),
        );
        assert_eq!(shape, (200, Some("text/event-stream"), Some("chunked")));
        Self {
            connection,
            text: String::new(),
            ended: false,
        }
    }

    /// Waits for what comes next.
    pub fn next(&mut self, patience: Duration) -> Seen {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let event = parse(&self.text[..end]);
                self.text.drain(..end + 2);
                return Seen::Event(event);
            }
            if self.ended {
                return Seen::End;
            }
            match self.connection.take_chunk() {
                Some(chunk) if chunk.is_empty() => self.ended = true,
                Some(chunk) => self.text += std::str::from_utf8(&chunk).expect("events are UTF-8"),
                None => {
                    // A read must wait for some time at least.
                    let rest = deadline.saturating_duration_since(Instant::now());
                    match self.connection.receive(rest.max(Duration::from_millis(1))) {
                        Arrived::More => {}
                        Arrived::Closed | Arrived::Reset => return Seen::Cut,
                        Arrived::Nothing => return Seen::Nothing,
                    }
                }
            }
        }
    }

    /// Waits for the next event that is no comment.
    ///
    /// # Panics
    ///
    /// When the stream ends, or nothing but comments comes in time.
    pub fn event(&mut self) -> Event {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.next(deadline.saturating_duration_since(Instant::now())) {
                Seen::Event(event) if event.event.is_none() => {}
                Seen::Event(event) => return event,
                other @ (Seen::End | Seen::Cut | Seen::Nothing) => panic!("no event, but {other:?}"),
            }
        }
    }
}

fn parse(text: &str) -> Event {
    let mut event = Event::default();
    for line in text.split('\n') {
        let (field, value) = line.split_once(": ").unwrap_or((line, ""));
        let value = Some(value.to_owned());
        match field {
            "event" => event.event = value,
            "data" => event.data = value,
            "id" => event.id = value,
            "retry" => event.retry = value,
            "" => event.comment = value,
            other => panic!("unknown field {other:?} in {text:?}"),
        }
    }
    event
}
