//! What is refused over stdio is refused as over streamable HTTP.

use super::*;
use crate::support::http::Request;

#[test]
fn a_key_that_stands_twice_is_refused() {
    let relay = Relay::start_told();
    let mut agent = Agent::start(relay.port);
    let post = call(1, "post_message", &post_arguments("dev-a", "pm", "x"));
    let twice = |from: &str, to: &str| {
        assert!(post.contains(from), "{post}");
        post.replacen(from, to, 1)
    };
    let list = r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"x":[{"y":1,"y":1}]}}"#;
    let cancel =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}"#;
    for (key, line) in [
        ("to", twice(r#""to":"#, r#""to":"dev-b","to":"#)),
        (
            "name",
            twice(r#""name":"#, r#""name":"list_pending","n\u0061me":"#),
        ),
        ("id", twice(r#""id":1"#, r#""id":1,"id":1"#)),
        ("y", list.to_owned()),
        ("requestId", cancel.to_owned()),
    ] {
        let over_http = relay.connect().exchange(&Request::post("/mcp", line.clone()));
        agent.write(&line);
        let answer = agent.heard();
        assert_eq!(answer, over_http.json(), "{line}");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        let reason = format!("the key {key:?} is given twice; accepted: each key once");
        assert!(message.ends_with(&reason), "{answer}");
    }
    agent.is_heard();
    for role in ["pm", "dev-b"] {
        assert_eq!(relay.bodies(role), [] as [String; 0]);
    }
}

#[test]
fn a_line_that_is_refused_does_not_answer_another_request_of_its_id() {
    let relay = Relay::start_told();
    let mut agent = Agent::start(relay.port);
    let wait = agent.wait("pm", 60.0);
    for line in [
        r#"{"jsonrpc":"2.0","id":ID,"method":"ping","params":{"x":1,"x":1}}"#,
        r#"{"jsonrpc":"1.0","id":ID,"method":"ping"}"#,
    ] {
        agent.write(&line.replace("ID", &wait.to_string()));
        assert_eq!(agent.heard()["id"], Value::Null, "{line}");
        let other = r#""another""#;
        agent.write(&line.replace("ID", other));
        assert_eq!(agent.heard()["id"], "another", "{line}");
    }
    relay.session(Way::Http).post("dev-a", "pm", "m1");
    assert_eq!(agent.heard()["id"], wait);
}

#[test]
fn what_is_not_offered_is_refused() {
    let relay = Relay::start();
    let mut agent = Agent::start(relay.port);
    let mut session = relay.session(Way::Http);
    let resource = json!({"uri": "file:///x"});
    for (method, params) in [
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "x"})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", resource.clone()),
        ("resources/subscribe", resource.clone()),
        ("resources/unsubscribe", resource),
        ("logging/setLevel", json!({"level": "info"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x", "value": "y"}}),
        ),
        ("tasks", json!({})),
    ] {
        let id = agent.ask(method, &params);
        let known = "initialize, ping, tools/list, tools/call, server/discover";
        let reason = format!("unknown method {method:?}; known methods: {known}");
        let error = json!({"code": -32601, "message": reason});
        assert_eq!(session.ask(method, params)["error"], error);
        assert_eq!(agent.heard(), json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }
}

#[test]
fn a_known_method_with_other_parameters_is_not_called_unknown() {
    let mut agent = Agent::start(free_port());
    let id = agent.ask("initialize", &json!({"protocolVersion": 5}));
    let reason = "params of initialize: a value in them is not of the type that MCP gives it";
    let error = json!({"code": -32602, "message": reason});
    assert_eq!(agent.heard(), json!({"jsonrpc": "2.0", "id": id, "error": error}));
}

#[test]
fn a_resource_without_a_relay_is_refused_in_the_words_of_its_own_toolset() {
    let port = free_port();
    let mut agent = Agent::start_with(port, &["--agent", "Alice", "--tools", "lift,agent-relay"]);
    agent.ask("resources/read", &json!({"uri": "relay://inbox"}));
    let expected = format!(
        "Error: Relay daemon is not running. Start with: {} serve --port {port}",
        env!("CARGO_BIN_EXE_relay")
    );
    assert_eq!(agent.heard()["error"]["message"], expected);
}
