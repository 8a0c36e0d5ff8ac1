//! A plain call of protocol version 2026-07-28 is answered without rmcp, and nobody can tell.

use super::*;
use crate::support::http::{Connection, Response};

/// A call of a tool over streamable HTTP, as version 2026-07-28 has it.
fn call(target: &str, id: &Value, params: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "a client", "version": "1.2.3"},
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}, "elicitation": {}},
        "progressToken": 7,
    });
    let mut message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    message["params"]["_meta"] = meta;
    json!({"target": target, "message": message})
}

/// The request of a call. One with a member that is passed over is rmcp's to answer.
fn request(call: &Value, by_rmcp: bool) -> Request {
    let mut message = call["message"].clone();
    if by_rmcp {
        message["more"] = json!(1);
    }
    let target = call["target"].as_str().expect("a target");
    let name = message["params"]["name"].as_str().expect("a name");
    // Of progress in a wait, a client is told that takes a stream of events.
    let waits = message["params"]["arguments"].get("wait_seconds").is_some();
    let accept = if waits {
        "application/json"
    } else {
        "application/json, text/event-stream"
    };
    Request::post(target, message.to_string())
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", "tools/call")
        .with("Mcp-Name", name)
        .with("Mcp-Session-Id", if by_rmcp { "rmcp" } else { "short" })
        .with("Accept", accept)
}

/// A response in which all digits look the same, those of ids and times too.
fn in_shape(response: Response) -> (Response, String) {
    let text = response.text().replace(|c: char| c.is_ascii_hexdigit(), "0");
    let mut head = response.undated();
    head.body.clear();
    (head, text)
}

#[test]
fn a_plain_call_of_2026_07_28_is_answered_as_rmcp_answers_it() {
    let relay = Relay::start_told();
    let mut connection = relay.connect();
    let post = json!({"name": "post_message", "arguments": {"from": "pm", "to": "dev-a", "kind": "free", "body": "é\"\n"}});
    let read = json!({"name": "read_messages", "arguments": {"for": "pm"}});
    let calls = [
        call("/mcp", &json!(1), &post),
        call("/mcp", &json!("b"), &read),
        call("/mcp", &json!(-3), &read),
        call(
            "/mcp",
            &json!(1),
            &json!({"name": "list_pending", "arguments": {"for": "pm"}}),
        ),
        call("/mcp?agent=dev-b", &json!(1), &json!({"name": "read_messages"})),
        call("/mcp?agent=dev-b", &json!(1), &read),
        call(
            "/mcp",
            &json!(1),
            &json!({"name": "list_pending", "arguments": null}),
        ),
        call(
            "/mcp",
            &json!(1),
            &json!({"name": "read_messages", "arguments": {"for": "pm", "wait_seconds": 0.05}}),
        ),
        call(
            "/mcp",
            &json!(1),
            &json!({"name": "read_messages", "arguments": {"for": 5}}),
        ),
        call(
            "/mcp",
            &json!(1),
            &json!({"name": "no_such_tool", "arguments": {}}),
        ),
    ];
    for call in &calls {
        if call["message"]["id"] == "b" {
            // One message for each of the two.
            relay.session(Way::Http).post("dev-b", "pm", "m1");
        }
        let theirs = in_shape(connection.exchange(&request(call, true)));
        if call["message"]["id"] == "b" {
            relay.session(Way::Http).post("dev-b", "pm", "m1");
        }
        let ours = in_shape(connection.exchange(&request(call, false)));
        assert_eq!(ours, theirs, "{call}");
        assert_eq!((ours.0.status, ours.1.is_empty()), (200, false), "{call}");
    }
}

#[test]
fn a_cancelled_plain_call_of_2026_07_28_is_answered_as_rmcp_answers_it() {
    let relay = Relay::start_told();
    let wait = json!({"name": "read_messages", "arguments": {"for": "pm", "wait_seconds": 60}});
    let answer = |by_rmcp: bool| {
        let mut connection: Connection = relay.connect();
        let request = request(&call("/mcp", &json!(4), &wait), by_rmcp);
        connection.send(&request.bytes());
        until("the wait", || {
            relay.health()["connections"][0]["waits"] != json!([])
        });
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}});
        let session = if by_rmcp { "rmcp" } else { "short" };
        let cancel = Request::post("/mcp", cancel.to_string()).with("Mcp-Session-Id", session);
        assert_eq!(relay.connect().exchange(&cancel).status, 202);
        let answer = connection.response().undated();
        drop(connection);
        relay.await_sessions(0);
        answer
    };
    let theirs = answer(true);
    assert_eq!(answer(false), theirs);
    assert_eq!(
        theirs.json()["error"]["message"],
        "the call was cancelled",
        "{theirs:?}"
    );
}

#[test]
fn a_call_that_alone_names_its_version_is_answered_as_rmcp_answers_it() {
    let relay = Relay::start_told();
    let read = json!({"name": "read_messages", "arguments": {"for": "pm"}});
    let call = call("/mcp", &json!(1), &read);
    let message = |by_rmcp: bool| {
        let mut message = call["message"].clone();
        if by_rmcp {
            message["more"] = json!(1);
        }
        message.to_string()
    };
    let mut connection = relay.connect();
    let mut exchanged = |by_rmcp: bool| {
        let request = Request::post("/mcp", message(by_rmcp));
        in_shape(connection.exchange(&request))
    };
    let theirs = exchanged(true);
    assert_eq!(exchanged(false), theirs);

    let mut session = relay.session(Way::Sse);
    let mut streamed = |by_rmcp: bool| {
        let request = Request::post(&session.target, message(by_rmcp));
        assert_eq!(relay.connect().exchange(&request).status, 202);
        let stream = session.stream.as_mut().expect("a stream");
        stream.event().data.expect("an answer")
    };
    let theirs = streamed(true);
    assert_eq!(streamed(false), theirs);
}
