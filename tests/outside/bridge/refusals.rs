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

/// The same ids are taken and refused as over streamable HTTP, with the same words.
#[test]
fn an_id_is_taken_or_refused_as_over_http() {
    let relay = Relay::start_told();
    let mut agent = Agent::start(relay.port);
    let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let (longest, too_long) = (long(256), long(257));
    let mut refused = 0;
    for id in [
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "\"\"",
        "\"1.5\"",
        &longest,
        "-0",
        "1.0",
        "1e2",
        "1.5",
        "9223372036854775808",
        "99999999999999999999",
        "null",
        "true",
        "{}",
        "[1]",
        "\"\\ud800\"",
        &too_long,
    ] {
        for method in ["ping", "tools/list"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
            let over_http = relay
                .connect()
                .exchange(&Request::post("/mcp", line.clone()))
                .json();
            agent.write(&line);
            let answer = agent.heard();
            let is_refused = over_http.get("error").is_some();
            assert_eq!(
                answer.get("error").is_some(),
                is_refused,
                "{id}: {answer}, but {over_http}"
            );
            assert_eq!(answer["id"], over_http["id"], "{id}");
            refused += usize::from(is_refused);
        }
    }
    assert_eq!(refused, 2 * 12);
    agent.is_heard();
}

/// Some clients write the id first, some last. Without one in the answer, whoever has asked waits for it for ever.
#[test]
fn a_line_that_is_too_long_or_no_json_is_answered_with_its_id() {
    let relay = Relay::start_told();
    let mut agent = Agent::start(relay.port);
    let long = "x".repeat(8 * 1024 * 1024);
    let longer = "x".repeat(9 * 1024 * 1024);
    let first = |id: &str, body: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"post_message","arguments":{{"body":{body}}}}}}}"#
        )
    };
    let last = |id: &str, body: &str| {
        format!(
            r#"{{"method":"tools/call","params":{{"name":"post_message","arguments":{{"id":1,"body":{body}}}}},"jsonrpc":"2.0","id":{id}}}"#
        )
    };
    for (id, line, code) in [
        (json!("a"), first("\"a\"", &format!("\"{long}\"")), -32_600),
        (json!(70), last("70", &format!("\"{long}\"")), -32_600),
        // What is behind the most that is read is still to come, and its end with it.
        (json!(69), last("69", &format!("\"{longer}\"")), -32_600),
        (json!(71), first("71", "NaN"), -32_700),
        (json!(72), last("72", "NaN"), -32_700),
        (json!(73), first("73", "\"a")[..90].to_owned(), -32_700),
        (Value::Null, first("1.5", "NaN"), -32_700),
        (Value::Null, format!(r#"{{"id":7,"result":"{long}"}}"#), -32_600),
    ] {
        let over_http = relay
            .connect()
            .exchange(&Request::post("/mcp", line.clone()))
            .json();
        agent.write(&line);
        let answer = agent.heard();
        let shown = &line[..line.len().min(100)];
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&id, &json!(code)),
            "{shown}: {answer}"
        );
        if !id.is_null() {
            assert_eq!(over_http["id"], id, "{shown}: {over_http}");
        }
    }
    agent.is_heard();
}

#[test]
fn what_is_asked_before_the_handshake_is_refused_in_words_and_the_handshake_goes_on() {
    let relay = Relay::start_told();
    let mut agent = Agent::start_silent(relay.port, &[]);
    let reason = "the handshake; accepted: initialize first";
    for method in ["tools/list", "tools/call", "prompts/list", "nonsense"] {
        let id = agent.ask(method, &json!({}));
        let answer = agent.heard();
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(answer["id"] == id && message.contains(reason), "{answer}");
    }
    agent.is_heard();
    agent.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    // Who has only looked what this is has made none.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let id = agent.ask("server/discover", &json!({"_meta": meta}));
    assert_eq!(agent.heard()["id"], id);
    let id = agent.ask("tools/list", &json!({}));
    let answer = agent.heard();
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(answer["id"] == id && message.contains(reason), "{answer}");
    agent.shake_hands();
    agent.post("dev-a", "pm", "x").posted();
    assert_eq!(agent.read("pm").bodies(), ["x"]);
}

#[test]
fn a_handshake_without_what_belongs_to_one_is_told_what_it_lacks() {
    let relay = Relay::start_told();
    let mut agent = Agent::start_silent(relay.port, &[]);
    for (params, lacks) in [
        (
            json!({"protocolVersion": "2025-06-18", "capabilities": {}}),
            "params of initialize: missing \"clientInfo\"; accepted: an object",
        ),
        (
            json!({}),
            "params of initialize: missing \"protocolVersion\"; accepted: a string",
        ),
        (
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x"}}),
            "params of initialize: missing \"clientInfo.version\"; accepted: a string",
        ),
    ] {
        let id = agent.ask("initialize", &params);
        let answer = agent.heard();
        assert_eq!(answer["id"], id, "{answer}");
        assert_eq!(answer["error"]["message"], lacks, "{answer}");
    }
    agent.shake_hands();
    agent.is_heard();
}
