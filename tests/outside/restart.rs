//! Calls that lost the way on which their answer would have come: with the relay that they were made to, or alone.
//!
//! The clients are raw: one that came back opens a stream and makes no handshake, as the SDKs and Claude Code do.

mod a_client_of_sse;
mod a_client_of_streamable_http;
mod the_notes;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::http::{Arrived, Connection, Request, Response};
use crate::support::process::Relay;
use crate::support::session::{Session, Way, messages_of};
use crate::support::sse::{EventStream, Seen};
use crate::support::until;

/// Within what a client that came back is answered.
const SOON: Duration = Duration::from_secs(2);

/// How long a test listens to be sure that a client is told no more: longer than one is given for its handshake.
const QUIET: Duration = Duration::from_millis(900);

const RESTARTED: &str = "Error: relay was restarted while this call was under way; call again";

const STREAM_ENDED: &str = "Error: the connection broke while this call was under way; call again";

fn told(id: u64, text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": content, "isError": true}})
}

fn call(id: u64, tool: &str, arguments: &Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

/// A client of HTTP+SSE that chooses its own ids.
struct Client {
    stream: EventStream,
    calls: Connection,
    target: String,
}

impl Client {
    fn open(relay: &Relay, request: &Request) -> Self {
        let mut stream = EventStream::open(relay.connect(), request);
        let target = stream.event().data.expect("an address");
        let calls = relay.connect();
        Self {
            stream,
            calls,
            target,
        }
    }

    fn new(relay: &Relay) -> Self {
        Self::open(relay, &Request::get("/sse"))
    }

    fn bound(relay: &Relay, role: &str) -> Self {
        Self::open(relay, &Request::get(&format!("/sse?agent={role}")))
    }

    /// Comes back and says which stream it had.
    fn back(relay: &Relay, id: &str) -> Self {
        Self::open(relay, &Request::get("/sse").with("Last-Event-ID", id))
    }

    fn id(&self) -> String {
        let id = self.target.strip_prefix("/message?sessionId=");
        id.expect("an address").to_owned()
    }

    fn post(&mut self, message: String) {
        let response = self.calls.exchange(&Request::post(&self.target, message));
        assert_eq!((response.status, response.text()), (202, String::new()));
    }

    fn wait(&mut self, id: u64) {
        let arguments = json!({"for": "dev-a", "wait_seconds": 60});
        self.post(call(id, "read_messages", &arguments));
    }

    fn heard(&mut self) -> Value {
        let data = self.stream.event().data.expect("an event with data");
        serde_json::from_str(&data).expect("an event's data is JSON")
    }

    fn hears_no_more(&mut self) {
        assert_eq!(self.stream.next(QUIET), Seen::Nothing);
    }
}

/// A relay whose start has been told for the role that the clients wait for.
fn told_relay() -> Relay {
    let relay = Relay::start();
    let mut session = relay.session(Way::Http);
    session.hear_of_start("dev-a");
    drop(session);
    relay.await_sessions(0);
    relay
}

fn notes(relay: &Relay) -> std::path::PathBuf {
    let name = format!("relay/waits-127.0.0.1-{}", relay.port);
    relay.runtime.path().join(name)
}

fn last_note(relay: &Relay) -> Option<String> {
    let text = std::fs::read_to_string(notes(relay)).ok()?;
    text.lines().last().map(str::to_owned)
}
