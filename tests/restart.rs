//! Calls that lost the way on which their answer would have come: with the relay that they were made to, or alone.
//!
//! The clients are raw: one that came back opens a stream and makes no handshake, as the SDKs and Claude Code do.

#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for another process by the clock, and reads its output in threads"
)]

#[expect(dead_code, reason = "each test file uses a part of what they share")]
mod support;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use support::http::{Arrived, Connection, Request, Response};
use support::process::Relay;
use support::session::{Session, Way, messages_of};
use support::sse::{EventStream, Seen};
use support::until;

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

mod a_client_of_sse {
    use super::*;

    #[test]
    fn that_came_back_after_a_kill_is_told_soon_and_once_which_of_its_calls_is_lost() {
        let mut relay = told_relay();
        let mut before = Client::new(&relay);
        before.wait(41);
        relay.kill_and_restart();
        let mut back = Client::new(&relay);
        let opened = Instant::now();
        assert_eq!(back.heard(), told(41, RESTARTED));
        assert!(opened.elapsed() < SOON, "{:?}", opened.elapsed());
        back.hears_no_more();
        back.post(call(42, "list_pending", &json!({"for": "dev-a"})));
        assert_eq!(back.heard()["id"], 42);
    }

    #[test]
    fn that_makes_a_handshake_is_new_and_told_nothing() {
        let mut relay = told_relay();
        Client::new(&relay).wait(41);
        relay.kill_and_restart();
        let mut new = Client::new(&relay);
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let handshake = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        new.post(handshake.to_string());
        assert_eq!(new.heard()["result"]["serverInfo"]["name"], "relay");
        new.hears_no_more();
    }

    /// The versions without a handshake begin so.
    #[test]
    fn that_asks_what_relay_is_is_new_and_told_nothing() {
        let mut relay = told_relay();
        Client::new(&relay).wait(41);
        relay.kill_and_restart();
        let mut new = Client::new(&relay);
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let discover =
            json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": meta}});
        new.post(discover.to_string());
        assert_eq!(new.heard()["id"], 0);
        new.hears_no_more();
    }

    #[test]
    fn that_names_its_stream_is_told_of_its_own_calls_only() {
        let mut relay = told_relay();
        let mut clients = [Client::new(&relay), Client::new(&relay)];
        clients[0].wait(41);
        clients[1].wait(42);
        let id = clients[1].id();
        relay.kill_and_restart();
        let mut back = Client::back(&relay, &id);
        assert_eq!(back.heard(), told(42, RESTARTED));
        back.hears_no_more();
        let mut other = Client::new(&relay);
        assert_eq!(other.heard(), told(41, RESTARTED));
        other.hears_no_more();
    }

    #[test]
    fn that_is_bound_is_told_of_calls_of_clients_bound_alike() {
        let mut relay = told_relay();
        let mut clients = [Client::bound(&relay, "dev-a"), Client::new(&relay)];
        clients[0].post(call(7, "read_messages", &json!({"wait_seconds": 60})));
        clients[1].wait(8);
        relay.kill_and_restart();
        let mut other = Client::bound(&relay, "dev-b");
        let mut bound = Client::bound(&relay, "dev-a");
        let mut free = Client::new(&relay);
        assert_eq!(bound.heard(), told(7, RESTARTED));
        assert_eq!(free.heard(), told(8, RESTARTED));
        [&mut other, &mut bound, &mut free]
            .into_iter()
            .for_each(Client::hears_no_more);
    }

    #[test]
    fn that_calls_at_once_when_it_is_back_is_answered_once_even_where_another_s_lost_call_has_the_same_id() {
        let mut relay = told_relay();
        let mut clients = [Client::new(&relay), Client::new(&relay)];
        clients[0].wait(5);
        clients[1].wait(6);
        relay.kill_and_restart();
        let mut back = Client::new(&relay);
        back.post(call(6, "list_pending", &json!({"for": "pm"})));
        assert_eq!(back.heard(), told(5, RESTARTED));
        let answer = back.heard();
        assert_eq!(
            (&answer["id"], &answer["result"]["isError"]),
            (&json!(6), &json!(false))
        );
        back.hears_no_more();
    }

    #[test]
    fn loses_no_message_to_a_call_that_was_on_its_way_when_another_s_with_its_id_was_told_lost() {
        let mut relay = told_relay();
        let mut clients = [Client::new(&relay), Client::new(&relay)];
        clients[0].wait(5);
        clients[1].wait(6);
        relay.kill_and_restart();
        relay.session(Way::Http).post("pm", "dev-a", "kept");
        let mut back = Client::new(&relay);
        // Both were made at once; when the second arrives, its id has been told to be lost.
        back.post(call(7, "list_pending", &json!({"for": "pm"})));
        back.post(call(6, "read_messages", &json!({"for": "dev-a"})));
        let heard = [(); 4].map(|()| back.heard());
        assert_eq!(heard[..2], [told(5, RESTARTED), told(6, RESTARTED)]);
        assert_eq!(heard[2]["id"], 7);
        assert_eq!(heard[3], told(6, RESTARTED));
        // It was told so; what it asks now is no longer what was on its way.
        back.post(call(6, "list_pending", &json!({"for": "pm"})));
        let answer = back.heard();
        assert_eq!(
            (&answer["id"], &answer["result"]["isError"]),
            (&json!(6), &json!(false))
        );
        let read = relay.session(Way::Http).read("dev-a");
        assert_eq!(read.bodies(), ["kept"]);
    }

    #[test]
    fn whose_stream_broke_alone_is_told_that_nothing_was_taken() {
        let relay = told_relay();
        let mut broken = Client::new(&relay);
        broken.wait(41);
        let id = broken.id();
        drop(broken);
        relay.await_sessions(0);
        let mut back = Client::back(&relay, &id);
        assert_eq!(back.heard(), told(41, STREAM_ENDED));
        back.hears_no_more();
        let mut anew = Client::new(&relay);
        anew.hears_no_more();
    }

    #[test]
    fn that_is_back_before_its_old_stream_is_seen_to_be_gone_is_told_so_even_when_it_calls_at_once() {
        let relay = told_relay();
        let mut old = Client::new(&relay);
        old.wait(41);
        let mut back = Client::back(&relay, &old.id());
        back.post(call(42, "list_pending", &json!({"for": "pm"})));
        assert_eq!(back.heard(), told(41, STREAM_ENDED));
        assert_eq!(back.heard()["id"], 42);
        back.hears_no_more();
        relay.session(Way::Http).post("pm", "dev-a", "kept");
        assert_eq!(relay.session(Way::Http).read("dev-a").bodies(), ["kept"]);
    }

    #[test]
    fn whose_stream_broke_with_an_answer_in_it_is_told_so_until_it_has_heard_that() {
        let mut relay = told_relay();
        relay.session(Way::Http).post("pm", "dev-a", "kept");
        let mut broken = Client::new(&relay);
        let id = broken.id();
        // Answered at once.
        broken.wait(41);
        broken.stream.event();
        drop(broken);
        relay.await_sessions(0);
        for _ in 0..2 {
            let mut back = Client::back(&relay, &id);
            assert_eq!(back.heard(), told(41, STREAM_ENDED));
            drop(back);
            relay.await_sessions(0);
        }
        // For what it was, over the end of the relay too.
        relay.kill_and_restart();
        let mut back = Client::back(&relay, &id);
        assert_eq!(back.heard(), told(41, RESTARTED));
        back.post(call(42, "list_pending", &json!({"for": "pm"})));
        assert_eq!(back.heard()["id"], 42);
        drop(back);
        relay.await_sessions(0);
        Client::back(&relay, &id).hears_no_more();
    }

    #[test]
    fn shows_that_it_has_read_an_answer_by_a_call_and_by_nothing_less() {
        let relay = told_relay();
        relay.session(Way::Http).post("pm", "dev-a", "kept");
        let mut broken = Client::new(&relay);
        let id = broken.id();
        broken.wait(41);
        broken.stream.event();
        broken.post(json!({"jsonrpc": "2.0", "id": 42, "method": "ping"}).to_string());
        assert_eq!(broken.heard()["id"], 42);
        broken.post(call(43, "list_pending", &json!({"of": "pm"})));
        assert_eq!(broken.heard()["id"], 43);
        drop(broken);
        relay.await_sessions(0);
        let mut back = Client::back(&relay, &id);
        assert_eq!(back.heard(), told(41, STREAM_ENDED));
        back.hears_no_more();
    }

    #[test]
    fn of_the_latest_version_is_told_in_the_same_way() {
        let mut relay = told_relay();
        let mut before = Client::new(&relay);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let wait = |id: u64, seconds: f64| {
            let arguments = json!({"for": "dev-a", "wait_seconds": seconds});
            let params = json!({"name": "read_messages", "arguments": arguments, "_meta": meta});
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
        };
        before.post(wait(40, 0.01));
        assert_eq!(before.heard()["id"], 40);
        before.post(wait(41, 60.0));
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 41}});
        before.post(cancelled.to_string());
        until("the cancelled one is forgotten", || {
            last_note(&relay).as_deref() == Some("-1")
        });
        before.post(wait(42, 60.0));
        relay.kill_and_restart();
        let mut back = Client::new(&relay);
        assert_eq!(back.heard(), told(42, RESTARTED));
        back.hears_no_more();
    }

    #[test]
    fn that_cancelled_its_wait_is_not_told_of_it() {
        let mut relay = told_relay();
        let mut before = Client::new(&relay);
        before.wait(41);
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 41}});
        before.post(cancelled.to_string());
        until("nothing waits", || last_note(&relay).as_deref() == Some("-0"));
        relay.kill_and_restart();
        Client::new(&relay).hears_no_more();
    }

    #[test]
    fn is_answered_by_an_orderly_stop_and_told_nothing_after_the_next_start() {
        let mut relay = told_relay();
        let mut before = Client::new(&relay);
        before.wait(41);
        relay.signal("TERM");
        let answer = before.heard();
        let texts = &answer["result"]["content"];
        assert_eq!(
            (&answer["id"], texts),
            (&json!(41), &json!([{"type": "text", "text": "[]"}]))
        );
        assert!(relay.exit_status().success());
        relay.restart();
        Client::new(&relay).hears_no_more();
    }

    fn modern(id: u64, arguments: &Value, token: Option<&str>) -> String {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        if let Some(token) = token {
            meta["progressToken"] = json!(token);
        }
        let params = json!({"name": "read_messages", "arguments": arguments, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    }

    fn cancelled(id: u64) -> String {
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
            .to_string()
    }

    fn waits() -> Value {
        json!({"for": "dev-a", "wait_seconds": 60})
    }

    #[test]
    fn that_makes_its_lost_call_anew_is_not_told_of_it_later() {
        let mut relay = told_relay();
        let mut before = Client::new(&relay);
        before.wait(41);
        let id = before.id();
        relay.kill_and_restart();
        let mut back = Client::back(&relay, &id);
        back.post(call(41, "list_pending", &json!({"for": "dev-a"})));
        assert_eq!(back.heard()["result"]["isError"], false);
        drop(back);
        relay.await_sessions(0);
        Client::back(&relay, &id).hears_no_more();
    }

    #[test]
    fn that_was_told_of_progress_has_no_answer_yet() {
        for way in ["plain", "modern"] {
            let mut relay = told_relay();
            let mut before = Client::new(&relay);
            let wait = match way {
                "plain" => {
                    let params = json!({"name": "read_messages", "arguments": waits(), "_meta": {"progressToken": "t"}});
                    json!({"jsonrpc": "2.0", "id": 41, "method": "tools/call", "params": params}).to_string()
                }
                _ => modern(41, &waits(), Some("t")),
            };
            before.post(wait);
            assert_eq!(before.heard()["method"], "notifications/progress");
            before.post(call(42, "list_pending", &json!({"for": "dev-a"})));
            assert_eq!(before.heard()["id"], 42);
            relay.kill_and_restart();
            assert_eq!(Client::new(&relay).heard(), told(41, RESTARTED), "{way}");
        }
    }

    #[test]
    fn of_the_latest_version_whose_stream_broke_alone_is_told_so() {
        let relay = told_relay();
        let mut broken = Client::new(&relay);
        broken.post(modern(41, &waits(), None));
        let id = broken.id();
        until("it is noted", || {
            last_note(&relay).is_some_and(|note| note.starts_with("+0"))
        });
        drop(broken);
        relay.await_sessions(0);
        let mut back = Client::back(&relay, &id);
        assert_eq!(back.heard(), told(41, STREAM_ENDED));
    }

    #[test]
    fn of_the_latest_version_that_cancelled_its_wait_is_not_answered() {
        let relay = told_relay();
        let mut client = Client::new(&relay);
        client.post(modern(41, &waits(), None));
        client.post(cancelled(41));
        client.hears_no_more();
        assert_eq!(last_note(&relay).as_deref(), Some("-0"));
    }

    #[test]
    fn whose_cancellation_came_first_is_not_told_of_that_call() {
        let relay = told_relay();
        let mut client = Client::new(&relay);
        client.post(cancelled(41));
        client.wait(41);
        client.hears_no_more();
        let id = client.id();
        drop(client);
        relay.await_sessions(0);
        Client::back(&relay, &id).hears_no_more();
    }

    #[test]
    fn of_the_latest_version_shows_by_a_call_that_it_has_read_an_answer() {
        let relay = told_relay();
        let mut client = Client::new(&relay);
        client.post(modern(41, &json!({"for": "dev-a", "wait_seconds": 0.01}), None));
        assert_eq!(client.heard()["id"], 41);
        client.post(modern(42, &json!({"for": "dev-a"}), None));
        assert_eq!(client.heard()["id"], 42);
        let id = client.id();
        drop(client);
        relay.await_sessions(0);
        Client::back(&relay, &id).hears_no_more();
    }

    #[test]
    fn of_the_latest_version_that_is_bound_is_told_of_calls_of_clients_bound_alike() {
        let mut relay = told_relay();
        let mut before = Client::bound(&relay, "dev-a");
        before.post(modern(7, &json!({"wait_seconds": 60}), None));
        until("it is noted", || {
            last_note(&relay).is_some_and(|note| note.starts_with("+0"))
        });
        relay.kill_and_restart();
        let (mut bound, mut free) = (Client::bound(&relay, "dev-a"), Client::new(&relay));
        assert_eq!(bound.heard(), told(7, RESTARTED));
        free.hears_no_more();
    }
}

fn last_note(relay: &Relay) -> Option<String> {
    let text = std::fs::read_to_string(notes(relay)).ok()?;
    text.lines().last().map(str::to_owned)
}

mod the_notes {
    use super::*;

    #[test]
    fn are_this_user_s_alone_and_stay_small() {
        let relay = told_relay();
        let mut client = Client::new(&relay);
        for id in 0..1_500 {
            let arguments = json!({"for": "dev-a", "wait_seconds": 0.001});
            client.post(call(id, "read_messages", &arguments));
            assert_eq!(client.heard()["id"], id);
        }
        let metadata = std::fs::metadata(notes(&relay)).expect("there are notes");
        assert_eq!(metadata.mode() & 0o777, 0o600);
        assert!(metadata.len() < 70 * 1024, "{} bytes", metadata.len());
        let directory = notes(&relay);
        let directory = directory.parent().expect("a directory");
        let mode = std::fs::metadata(directory).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn of_a_relay_on_another_port_are_its_own() {
        let mut relay = told_relay();
        Client::new(&relay).wait(41);
        let runtime = relay.runtime.path().to_str().expect("text").to_owned();
        let other = Relay::start_with(&[], &[("XDG_RUNTIME_DIR", &runtime)]);
        Client::new(&other).hears_no_more();
        relay.kill_and_restart();
        assert_eq!(Client::new(&relay).heard(), told(41, RESTARTED));
    }

    #[test]
    fn that_cannot_be_kept_cost_a_warning_and_nothing_else() {
        let directory = tempfile::tempdir().expect("a directory");
        // Not even the superuser can make a directory in a file.
        let file = directory.path().join("file");
        std::fs::write(&file, "").expect("room");
        let file = file.to_str().expect("text");
        let relay = Relay::start_with(&[], &[("XDG_RUNTIME_DIR", file)]);
        let mut session = relay.session(Way::Http);
        session.hear_of_start("dev-a");
        drop(session);
        relay.await_sessions(0);
        let mut broken = Client::new(&relay);
        broken.wait(41);
        let id = broken.id();
        drop(broken);
        relay.await_sessions(0);
        assert_eq!(Client::back(&relay, &id).heard(), told(41, STREAM_ENDED));
        let stderr = relay.into_stderr();
        assert_eq!(
            stderr.matches("cannot note which calls wait").count(),
            1,
            "{stderr}"
        );
    }

    #[test]
    fn in_a_directory_that_others_can_write_to_are_not_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let shared = directory.path().join("relay");
        std::fs::create_dir(&shared).expect("room");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&shared, open).expect("ours");
        let path = directory.path().to_str().expect("text");
        let relay = Relay::start_with(&[], &[("XDG_RUNTIME_DIR", path)]);
        relay.health();
        let stderr = relay.into_stderr();
        assert!(
            stderr.contains("is not a directory that is this user's alone"),
            "{stderr}"
        );
    }
}

mod a_client_of_streamable_http {
    use super::*;

    /// How the answer to a lost call looks over each of the ways.
    fn told_over(way: Way, id: u64, text: &str) -> Value {
        let mut message = told(id, text);
        if way == Way::Modern {
            message["result"]["resultType"] = json!("complete");
        }
        message
    }

    const WAYS: [Way; 2] = [Way::Http, Way::Modern];

    /// Waits with progress until the stream's first event is there, and returns the id of that.
    fn wait_until_it_streams(session: &mut Session) -> String {
        let _ = session.wait_with_progress("dev-a", 60.0, &json!("t"));
        let mut head = None;
        until("the head of a stream", || {
            head = session.calls.take_head();
            head.is_some() || session.calls.receive(Duration::from_millis(10)) == Arrived::Closed
        });
        let head = head.expect("a head");
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        let mut chunk = None;
        until("the first event", || {
            chunk = session.calls.take_chunk();
            chunk.is_some() || session.calls.receive(Duration::from_millis(10)) == Arrived::Closed
        });
        let text = String::from_utf8(chunk.expect("a chunk")).expect("events are text");
        let (fields, data) = text.split_once("\ndata: ").expect("fields before the data");
        let id = fields
            .strip_prefix("id: ")
            .and_then(|id| id.strip_suffix("\nretry: 2000"));
        let progress: Value = serde_json::from_str(data.trim_end()).expect("JSON");
        assert_eq!(progress["method"], "notifications/progress");
        id.unwrap_or_else(|| panic!("no id in {text:?}")).to_owned()
    }

    fn resume(relay: &Relay, way: Way, id: &str) -> Response {
        let request = Request::get("/mcp")
            .with("Accept", "text/event-stream")
            .with("Last-Event-ID", id);
        let request = match way {
            Way::Modern => request.with("MCP-Protocol-Version", "2026-07-28"),
            Way::Http | Way::Sse | Way::ModernSse => request,
        };
        relay.connect().exchange(&request)
    }

    #[test]
    fn that_asks_for_the_rest_of_a_stream_after_a_kill_is_told_that_relay_was_restarted() {
        for way in WAYS {
            let mut relay = told_relay();
            let id = wait_until_it_streams(&mut relay.session(way));
            relay.kill_and_restart();
            for _ in 0..2 {
                assert_eq!(
                    messages_of(&resume(&relay, way, &id)),
                    [told_over(way, 1, RESTARTED)]
                );
            }
        }
    }

    #[test]
    fn that_asks_for_the_rest_of_a_stream_that_broke_alone_is_told_that_nothing_was_taken() {
        for way in WAYS {
            let relay = told_relay();
            let mut session = relay.session(way);
            let id = wait_until_it_streams(&mut session);
            drop(session);
            relay.await_sessions(0);
            assert_eq!(
                messages_of(&resume(&relay, way, &id)),
                [told_over(way, 1, STREAM_ENDED)]
            );
        }
    }

    #[test]
    fn that_asks_before_its_connection_is_seen_to_be_broken_loses_no_message_to_it() {
        let relay = told_relay();
        let mut calls = relay.connect();
        let params = json!({
            "name": "read_messages",
            "arguments": {"for": "dev-a", "wait_seconds": 60},
            "_meta": {"progressToken": "t"},
        });
        let wait = json!({"jsonrpc": "2.0", "id": "a \"b\"", "method": "tools/call", "params": params});
        let request = Request::post("/mcp", wait.to_string()).with("Mcp-Session-Id", "mine");
        let mut stream = EventStream::open(relay.connect(), &request);
        let Seen::Event(first) = stream.next(SOON) else {
            panic!("no progress");
        };
        let id = first.id.expect("an id");
        let request = Request::get("/mcp")
            .with("Accept", "text/event-stream")
            .with("Mcp-Session-Id", "mine")
            .with("Last-Event-ID", &id);
        let answer = messages_of(&calls.exchange(&request));
        assert_eq!(answer[0]["id"], "a \"b\"");
        let mut session = relay.session(Way::Http);
        session.post("pm", "dev-a", "kept");
        assert_eq!(session.read("dev-a").bodies(), ["kept"]);
    }

    #[test]
    fn that_names_an_event_which_relay_never_wrote_is_refused_as_one_that_names_none() {
        let relay = Relay::start();
        let boot = relay.health()["boot"].as_str().expect("a boot id").to_owned();
        let long = format!("boot={boot}&request=%22{}%22", "x".repeat(256));
        for id in [
            "7",
            "",
            "boot=7&request=1",
            &format!("boot={boot}"),
            &format!("request=1&boot={boot}"),
            &format!("boot={boot}&request=null"),
            &format!("boot={boot}&request=1.5"),
            &format!("boot={boot}&request={{}}"),
            &format!("boot={boot}&request=1&more=2"),
            &long,
        ] {
            assert_eq!(resume(&relay, Way::Http, id).status, 405, "{id}");
        }
        let odd = format!("boot={boot}&request=%0A%225%0a%22%0A");
        assert_eq!(resume(&relay, Way::Http, &odd).status, 405);
        let spaced = format!("boot={boot}&request=%0A5%0A");
        assert_eq!(
            messages_of(&resume(&relay, Way::Http, &spaced)),
            [told(5, STREAM_ENDED)]
        );
        let none = Request::get("/mcp").with("Accept", "text/event-stream");
        assert_eq!(relay.connect().exchange(&none).status, 405);
    }
}
