//! What is refused, in the API's envelope, and that nothing comes of it.

use super::*;

#[test]
fn what_is_wrong_with_a_body_is_named_and_nothing_is_done() {
    let world = World::new();
    let (key, alice) = (&world.key, &world.alice);
    for (path, token, body, status, code, words) in [
        (
            "/v1/workspaces",
            key,
            json!({}),
            400,
            "invalid_request",
            "missing field `name`",
        ),
        (
            "/v1/workspaces",
            key,
            json!({"name": "a", "plan": 1}),
            400,
            "invalid_request",
            "unknown field `plan`",
        ),
        (
            "/v1/workspaces",
            key,
            json!({"name": "a b"}),
            400,
            "invalid_name",
            "\"a b\"",
        ),
        (
            "/v1/agents",
            key,
            json!({"type": "agent"}),
            400,
            "invalid_request",
            "missing field `name`",
        ),
        (
            "/v1/agents",
            key,
            json!({"name": 1}),
            400,
            "invalid_request",
            "invalid type",
        ),
        (
            "/v1/agents",
            key,
            json!({"name": "x", "skills": []}),
            400,
            "invalid_request",
            "unknown field `skills`",
        ),
        (
            "/v1/agents",
            key,
            json!({"name": "x y"}),
            400,
            "invalid_name",
            "\"x y\"",
        ),
        (
            "/v1/agents",
            key,
            json!({"name": "user"}),
            400,
            "invalid_name",
            "user",
        ),
        (
            "/v1/agents",
            key,
            json!({"name": "x", "type": "bot"}),
            400,
            "invalid_request",
            "\"bot\"; accepted: agent, human, system",
        ),
        (
            "/v1/agents",
            key,
            json!({"name": "x", "persona": "p".repeat(5_000)}),
            400,
            "invalid_request",
            "accepted: at most 4096",
        ),
        (
            "/v1/agents",
            key,
            json!({"name": "x", "persona": "p".repeat(4_090), "metadata": {"a": 1}}),
            400,
            "invalid_request",
            "\"persona\" and \"metadata\" have 4097 bytes; accepted: at most 4096",
        ),
        (
            "/v1/agents/none/rotate-token",
            key,
            json!({}),
            404,
            "agent_not_found",
            "\"none\"",
        ),
        (
            "/v1/agents/bob/rotate-token",
            key,
            json!({"a": 1}),
            400,
            "invalid_request",
            "takes no body",
        ),
        (
            "/v1/dm",
            alice,
            json!({"to": "bob"}),
            400,
            "invalid_request",
            "missing field `text`",
        ),
        (
            "/v1/dm",
            alice,
            json!({"to": "bob", "text": "x", "cc": "y"}),
            400,
            "invalid_request",
            "unknown field `cc`",
        ),
        (
            "/v1/dm",
            alice,
            json!({"to": "none", "text": "x"}),
            404,
            "agent_not_found",
            "\"none\"",
        ),
        (
            "/v1/dm",
            alice,
            json!({"to": "nowhere:none", "text": "x"}),
            404,
            "agent_not_found",
            "there is no project \"nowhere\"",
        ),
        (
            "/v1/dm",
            alice,
            json!({"to": "#build", "text": "x"}),
            400,
            "invalid_recipient",
            "#build",
        ),
        (
            "/v1/dm",
            alice,
            json!({"to": "a:b:c", "text": "x"}),
            400,
            "invalid_recipient",
            "a:b:c",
        ),
        (
            "/v1/dm",
            alice,
            json!({"to": "bob", "text": "x", "mode": "now"}),
            400,
            "invalid_request",
            "\"now\"; accepted: wait, steer",
        ),
        (
            "/v1/dm",
            alice,
            json!({"to": "bob", "text": "x", "attachments": ["f"]}),
            501,
            "not_supported",
            "attachments",
        ),
        (
            "/v1/dm",
            alice,
            json!({"to": "bob", "text": "x".repeat(1_048_577)}),
            400,
            "message_too_long",
            "1048576",
        ),
        (
            "/v1/channels",
            alice,
            json!({"name": "a b"}),
            400,
            "invalid_name",
            "\"a b\"",
        ),
        (
            "/v1/channels",
            alice,
            json!({"name": "x", "metadata": {"a": 1}}),
            501,
            "not_supported",
            "metadata",
        ),
        (
            "/v1/channels",
            alice,
            json!({"name": "x", "topic": "t".repeat(2_000)}),
            400,
            "topic_too_long",
            "1024",
        ),
        (
            "/v1/channels/a%20b/messages",
            alice,
            json!({"text": "x"}),
            400,
            "invalid_recipient",
            "a b",
        ),
        (
            "/v1/messages/none/replies",
            alice,
            json!({"text": "x"}),
            404,
            "message_not_found",
            "\"none\"",
        ),
        (
            "/v1/dm?to=bob",
            alice,
            json!({"to": "bob", "text": "x"}),
            400,
            "invalid_request",
            "\"to=bob\"",
        ),
    ] {
        refused(&world.post(path, token, &body), status, code, words);
    }
    refused(
        &world.get("/v1/agents?status=busy", key),
        400,
        "invalid_request",
        "\"busy\"",
    );
    refused(
        &world.get("/v1/agents?all=1", key),
        400,
        "invalid_request",
        "\"all\"",
    );
    let kinds = with(Request::post("/v1/dm", "{}"), alice).with("Content-Type", "text/plain");
    refused(
        &world.relay.connect().exchange(&kinds),
        415,
        "unsupported_media_type",
        "text/plain",
    );
    let broken = with(Request::post("/v1/dm", "{"), alice);
    refused(
        &world.relay.connect().exchange(&broken),
        400,
        "invalid_request",
        "EOF",
    );
    assert_eq!(world.bodies("web:bob"), [""; 0]);
    let agents = world.seen("/v1/agents", key);
    assert_eq!(agents.as_array().map(Vec::len), Some(2));
}

#[test]
fn a_huge_body_is_refused_and_the_next_request_is_answered() {
    let world = World::new();
    let huge = with(
        Request::post("/v1/dm", vec![b'x'; 8 * 1024 * 1024 + 1]),
        &world.alice,
    );
    let mut connection = world.relay.connect();
    // The relay may answer before it has read all of it.
    let _ = connection.try_send(&huge.bytes());
    if let Some(response) = connection.response_or_end() {
        refused(&response, 413, "request_too_large", "8388608");
    }
    assert_eq!(world.seen("/v1/agent", &world.alice)["name"], "alice");
}

#[test]
fn what_is_not_there_says_so_over_a_connection_that_goes_on() {
    let world = World::new();
    let mut connection = world.relay.connect();
    let mut ask = |request: Request| connection.exchange(&request);
    for path in ["/v1", "/v1/", "/v1/none", "/v1/agents/a/b"] {
        refused(&ask(Request::post(path, "{}")), 404, "not_found", "docs/API.md");
    }
    for (method, path, allow) in [
        ("GET", "/v1/workspaces", "POST"),
        ("DELETE", "/v1/dm", "POST"),
        ("PUT", "/v1/agents", "POST, GET"),
        ("DELETE", "/v1/channels/build/messages", "POST, GET"),
    ] {
        let response = ask(Request::new(method, path));
        refused(
            &response,
            405,
            "method_not_allowed",
            &format!("accepted: {allow}"),
        );
        assert_eq!(response.header("allow"), Some(allow));
    }
    for (method, path, words) in [
        ("GET", "/v1/activity", "the activity of a workspace"),
        ("DELETE", "/v1/agents/bob", "to change or remove an agent"),
        ("DELETE", "/v1/nodes/fleet", "to change or remove a node"),
        ("GET", "/v1/directory/agents", "the directory"),
    ] {
        refused(&ask(Request::new(method, path)), 501, "not_supported", words);
    }
    assert_eq!(ask(Request::get("/health")).status, 200);
}

#[test]
fn a_node_has_a_name_that_is_seen() {
    let world = World::new();
    for name in ["", "  ", "h\u{200b}k", "rtl\u{202e}", "two\nlines"] {
        let answer = world.post("/v1/nodes", &world.key, &json!({"name": name}));
        refused(&answer, 400, "node_control_failed", "invalid node name");
    }
    world.done("/v1/nodes", &world.key, &json!({"name": "the laptop"}));
}

#[test]
fn nothing_is_attached_to_a_message_of_a_channel_nor_to_a_reply() {
    let world = World::new();
    let channel = "/v1/channels/ops/messages";
    let sent = world.done(channel, &world.alice, &json!({"text": "x"}));
    let replies = format!("/v1/messages/{}/replies", sent["id"].as_str().expect("an id"));
    for path in [channel, &replies] {
        let attached = json!({"text": "x", "attachments": ["f"]});
        refused(
            &world.post(path, &world.alice, &attached),
            501,
            "not_supported",
            "attachments",
        );
        world.done(path, &world.alice, &json!({"text": "x", "attachments": []}));
    }
}

#[test]
fn what_no_client_should_send_is_refused_and_not_passed_over() {
    let world = World::new();
    let ask = |request: Request, token: &str| world.relay.connect().exchange(&with(request, token));
    refused(
        &ask(Request::get("/v1/agents/%FF"), &world.key),
        400,
        "invalid_request",
        "the path is no UTF-8",
    );
    refused(
        &ask(Request::post("/v1/search?q=a", "{}").by("GET"), &world.key),
        400,
        "invalid_request",
        "this address takes no body",
    );
    let fail = "/v1/deliveries/none/fail";
    refused(
        &ask(Request::post(&format!("{fail}?why=x"), ""), &world.bob),
        400,
        "invalid_request",
        "query \"why=x\" is not taken",
    );
    // It needs none.
    refused(
        &ask(Request::post(fail, ""), &world.bob),
        404,
        "delivery_not_found",
        "\"none\"",
    );
    let sent = Request::post("/v1/dm", json!({"to": "bob", "text": "x"}).to_string());
    refused(
        &ask(sent.with("Idempotency-Key", "cl\u{e9}"), &world.alice),
        400,
        "invalid_idempotency_key",
        "printable ASCII",
    );
    assert_eq!(world.bodies("web:bob"), [""; 0]);
}
