//! Clients of streamable HTTP, which resume the stream of a call.

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
