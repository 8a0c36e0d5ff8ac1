//! Request bodies that are no message, and messages that are no call.

use super::*;

/// Sends a request; returns the status, and the answer or what came into the stream instead.
fn refused_or_heard(scene: &mut Scene, request: &Request) -> (u16, Value) {
    let response = scene.ask(request);
    match response.status {
        202 => (202, scene.stream.heard()),
        status => (status, serde_json::from_slice(&response.body).unwrap_or_default()),
    }
}

#[test]
fn a_request_over_the_limit_is_refused_on_both_transports() {
    let mut scene = Scene::new();
    let reason = format!("the request has more than {REQUEST_BYTES_MAX} bytes, the most that is accepted");
    let mut longest = POST.as_bytes().to_vec();
    longest.resize(REQUEST_BYTES_MAX, b' ');
    let mut too_long = longest.clone();
    too_long.push(b' ');
    for (target, accepted) in scene.targets().into_iter().zip([200, 202]) {
        let request = Request::post(&target, too_long.clone());
        for request in [request.clone(), request.chunked()] {
            let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32_600, "message": reason}});
            let answered = match refused_or_heard(&mut scene, &request) {
                (status, error) if target == "/mcp" => (status == 413).then_some(error),
                (status, error) => (status == 202).then_some(error),
            };
            assert_eq!(answered, Some(error), "{target}");
            scene.is_unharmed();
        }
        let request = Request::post(&target, longest.clone());
        for request in [request.clone(), request.chunked()] {
            assert_eq!(scene.ask(&request).status, accepted);
        }
        let read = scene.relay.session(Way::Http).read("dev-a");
        assert_eq!(read.bodies(), ["x", "x"]);
        scene.is_unharmed();
    }
}

#[test]
fn a_request_that_announces_more_than_there_is_memory_is_refused() {
    let mut scene = Scene::new();
    let before = scene.relay.resident_bytes();
    for target in scene.targets() {
        let head = Request::post(&target, Vec::new()).with("Content-Length", "1000000000000");
        let mut connection = scene.relay.connect();
        connection.send(&head.bytes());
        connection.send(&vec![b' '; REQUEST_BYTES_MAX + 1]);
        assert_eq!(connection.response().status, 413);
    }
    let grown = scene.relay.resident_bytes().saturating_sub(before);
    assert!(grown < 64 * MEGABYTE, "{grown} bytes");
    scene.is_unharmed();
}

#[test]
fn what_is_no_json_or_no_message_is_refused_with_a_json_rpc_error() {
    const NO_JSON: i64 = -32_700;
    const NO_MESSAGE: i64 = -32_600;
    let mut scene = Scene::new();
    let with = |from: &str, to: &str| {
        assert!(POST.contains(from));
        POST.replace(from, to).into_bytes()
    };
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let latin = POST.bytes().map(|b| if b == b'x' { 0xe9 } else { b }).collect();
    // Of these no id can be made out.
    let unnamed = [
        "nothing",
        "a bare word",
        "a number",
        "a text",
        "null",
        "an empty object",
        "a batch",
        "an empty batch",
        "deep nesting",
        "id null",
        "id 1.5",
        "id true",
        "an object as id",
        "an id of 20 digits",
        "two ids",
    ];
    let cases: Vec<(&str, i64, Vec<u8>)> = vec![
        ("nothing", NO_JSON, Vec::new()),
        (
            "half a message",
            NO_JSON,
            POST.as_bytes()[..POST.len() / 2].to_vec(),
        ),
        ("two messages", NO_JSON, format!("{POST}{POST}").into_bytes()),
        ("invalid UTF-8", NO_JSON, latin),
        ("a bare word", NO_JSON, b"hello".to_vec()),
        ("a control character", NO_JSON, with("\"x\"", "\"\u{1}\"")),
        ("a number", NO_MESSAGE, b"5".to_vec()),
        ("a text", NO_MESSAGE, b"\"x\"".to_vec()),
        ("null", NO_MESSAGE, b"null".to_vec()),
        ("an empty object", NO_MESSAGE, b"{}".to_vec()),
        ("a batch", NO_MESSAGE, format!("[{POST}]").into_bytes()),
        ("an empty batch", NO_MESSAGE, b"[]".to_vec()),
        ("deep nesting", NO_MESSAGE, deep.clone().into_bytes()),
        ("deep nesting in the arguments", NO_MESSAGE, with("\"x\"", &deep)),
        ("half a surrogate pair", NO_MESSAGE, with("\"x\"", r#""\ud800""#)),
        ("no jsonrpc", NO_MESSAGE, with(r#""jsonrpc":"2.0","#, "")),
        ("jsonrpc 1.0", NO_MESSAGE, with("2.0", "1.0")),
        ("id null", NO_MESSAGE, with(r#""id":1"#, r#""id":null"#)),
        ("id 1.5", NO_MESSAGE, with(r#""id":1"#, r#""id":1.5"#)),
        ("id true", NO_MESSAGE, with(r#""id":1"#, r#""id":true"#)),
        ("an object as id", NO_MESSAGE, with(r#""id":1"#, r#""id":{}"#)),
        (
            "an id of 20 digits",
            NO_MESSAGE,
            with(r#""id":1"#, r#""id":99999999999999999999"#),
        ),
        ("two ids", NO_MESSAGE, with(r#""id":1"#, r#""id":1,"id":2"#)),
        (
            "a method that is a number",
            NO_MESSAGE,
            with(r#""tools/call""#, "5"),
        ),
    ];
    let mut wrong = Vec::new();
    for (what, code, body) in &cases {
        for target in scene.targets() {
            let transport = target.split('?').next().expect("a path");
            let (status, error) = refused_or_heard(&mut scene, &Request::post(&target, body.clone()));
            let told = (status, &error["error"]["code"], &error["id"], &error["jsonrpc"]);
            let is_named = !unnamed.contains(what);
            let id = if is_named { json!(1) } else { Value::Null };
            let expected = if is_named && transport != "/mcp" { 202 } else { 400 };
            if told != (expected, &json!(code), &id, &json!("2.0")) {
                wrong.push(format!("{what} to {transport}: {status} {error}"));
            }
        }
        scene.is_unharmed();
    }
    assert!(
        wrong.is_empty(),
        "expected 400 and a JSON-RPC error:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_tool_call_that_is_not_shaped_like_one_has_invalid_parameters() {
    let mut scene = Scene::new();
    let cases = [
        json!(null),
        json!({}),
        json!({"name": 5}),
        json!({"arguments": {}}),
        json!({"name": "post_message", "arguments": []}),
        json!({"name": "post_message", "arguments": "from pm to dev-a"}),
    ];
    let mut wrong = Vec::new();
    for way in [Way::Sse, Way::Http] {
        let mut session = scene.relay.session(way);
        for params in &cases {
            let response = session.ask("tools/call", params.clone());
            if response["error"]["code"] != -32_602 {
                wrong.push(format!("{params} over {way:?}: {response}"));
            }
        }
    }
    scene.is_unharmed();
    assert!(
        wrong.is_empty(),
        "expected error -32602, invalid params:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_key_that_stands_twice_is_refused_wherever_it_stands() {
    let mut scene = Scene::new();
    let twice = |from: &str, to: &str| POST.replace(from, to);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":[{"y":1,"y":1}]}}"#;
    let cancel =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}"#;
    let mut told = Vec::new();
    for (key, body) in [
        ("id", twice(r#""id":1"#, r#""id":1,"id":1"#)),
        ("method", twice(r#""id":1"#, r#""id":1,"m\u0065thod":"ping""#)),
        ("other", twice(r#""id":1"#, r#""id":1,"other":1,"other":2"#)),
        ("name", twice(r#""name":"#, r#""name":"list_pending","name":"#)),
        ("_meta", twice(r#""name":"#, r#""_meta":{},"_meta":{},"name":"#)),
        (
            "progressToken",
            twice(
                r#""name":"#,
                r#""_meta":{"progressToken":1,"progressToken":2},"name":"#,
            ),
        ),
        (
            "arguments",
            twice(r#""arguments":"#, r#""arguments":{},"arguments":"#),
        ),
        ("body", twice(r#""body":"x""#, r#""body":"x","body":"y""#)),
        ("to", twice(r#""body":"x""#, r#""body":{"to":1,"to":2}"#)),
        ("y", twice(r#""id":1"#, r#""id":1,"other":[{"y":1,"y":2}]"#)),
        ("y", twice(r#""name":"#, r#""other":[{"y":1,"y":2}],"name":"#)),
        (
            "y",
            twice(r#""name":"#, r#""_meta":{"other":[{"y":1,"y":2}]},"name":"#),
        ),
        (
            "y",
            twice(
                r#""name":"#,
                r#""_meta":{"io.modelcontextprotocol/clientCapabilities":{"y":1,"y":2}},"name":"#,
            ),
        ),
        ("y", list.to_owned()),
        ("requestId", cancel.to_owned()),
    ] {
        let reason = format!("the key {key:?} is given twice; accepted: each key once");
        let modern = Request::post("/mcp", body.clone()).with("MCP-Protocol-Version", "2026-07-28");
        let over_http =
            [Request::post("/mcp", body.clone()), modern].map(|request| scene.ask(&request).text());
        let target = scene.stream.target.clone();
        let response = scene.ask(&Request::post(&target, body.clone()));
        let over_sse = match response.status {
            202 => scene.stream.heard().to_string(),
            _ => response.text(),
        };
        for answer in over_http.into_iter().chain([over_sse]) {
            let error: Value = serde_json::from_str(&answer).unwrap_or_default();
            let message = error["error"]["message"].as_str();
            if !message.is_some_and(|message| message.ends_with(&reason)) {
                told.push(format!("{key}: {answer}"));
            }
        }
        scene.is_unharmed();
    }
    assert!(
        told.is_empty(),
        "expected an error that names the key:\n{}",
        told.join("\n")
    );
}

#[test]
fn an_error_names_the_value_and_what_is_accepted() {
    let mut scene = Scene::new();
    let no_message = |reason: &str| {
        (
            -32_600,
            format!("the request is no JSON-RPC 2.0 message: {reason}"),
        )
    };
    let no_json = |reason: &str| {
        let accepted = "accepted: one JSON-RPC 2.0 message in UTF-8";
        (-32_700, format!("the request is no JSON: {reason}; {accepted}"))
    };
    let bad = |method: &str, reason: &str| (-32_602, format!("params of {method}: {reason}"));
    let call =
        |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let id = "accepted: a string, or a whole number of at most 64 bits";
    let version = "accepted: the string \"2.0\"";
    let shape = "accepted: an object {\"name\": text, \"arguments\": object}";
    let read = "accepted: numbers that fit 64 bits, halves of surrogates in pairs, at most 127 levels";
    let batch = "it is an array; batches are not accepted: send one message at a time";
    let cases = [
        (r#"{"id":1,"method":"ping"}"#.to_owned(), no_message(&format!("missing \"jsonrpc\"; {version}"))),
        (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#.to_owned(), no_message(&format!("\"jsonrpc\" is the number 2.0; {version}"))),
        (r#"{"jsonrpc":"2.1","id":1,"method":"ping"}"#.to_owned(), no_message(&format!("\"jsonrpc\" is the string \"2.1\"; {version}"))),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_owned(), no_message(&format!("\"id\" is null; {id}"))),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#.to_owned(), no_message(&format!("\"id\" is the boolean true; {id}"))),
        (r#"{"jsonrpc":"2.0","id":1e999,"method":"ping"}"#.to_owned(), no_message(&format!("\"id\" is the value 1e999; {id}"))),
        (r#"{"jsonrpc":"2.0","id":1,"method":{}}"#.to_owned(), no_message("\"method\" is an object; accepted: a string")),
        (r#"{"jsonrpc":"2.0","id":1}"#.to_owned(), no_message("missing \"method\"; accepted: a string")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":1}"#.to_owned(), no_message("it has both \"method\" and \"result\" or \"error\"; accepted: a request or a response")),
        (format!("[{POST}]"), no_message(batch)),
        ("[]".to_owned(), no_message(batch)),
        ("-5".to_owned(), no_message("it is the number -5; accepted: one object")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#.to_owned(), bad("ping", "\"params\" is an array; accepted: an object")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":"x"}}"#.to_owned(), bad("ping", "\"_meta\" is the string \"x\"; accepted: an object")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#.to_owned(), bad("initialize", "missing \"protocolVersion\"; accepted: a string")),
        (call("null"), bad("tools/call", &format!("missing \"params\"; {shape}"))),
        (call("[]"), bad("tools/call", &format!("\"params\" is an array; {shape}"))),
        (call("{}"), bad("tools/call", "missing \"name\"; accepted: a string")),
        (call(r#"{"name":5}"#), bad("tools/call", "\"name\" is the number 5; accepted: a string")),
        (call(r#"{"name":"x","arguments":[]}"#), bad("tools/call", "\"arguments\" is an array; accepted: an object")),
        (call(r#"{"name":"x","_meta":"y"}"#), bad("tools/call", "\"_meta\" is the string \"y\"; accepted: an object")),
        (call(r#"{"name":"x","_meta":{"progressToken":{}}}"#), bad("tools/call", "\"progressToken\" is an object; accepted: a string, or a whole number of at most 64 bits")),
        (call(r#"{"name":"x","arguments":{"a":1e999}}"#), no_message(&format!("number out of range near \"rguments\\\":{{\\\"a\\\":1e999}}}}\"; {read}"))),
        (call(&format!(r#"{{"name":"x","arguments":{{"a":{}{}}}}}"#, "[".repeat(200), "]".repeat(200))), no_message(&format!("its values are nested too deeply; {read}"))),
        (call("NaN"), no_json("expected value near \"ols/call\\\",\\\"params\\\":NaN}\"")),
        (POST[..30].to_owned(), no_json("EOF while parsing a string near \":\\\"2.0\\\",\\\"id\\\":1,\\\"metho\"")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks"}"#.to_owned(), (-32_601, "unknown method \"tasks\"; known methods: initialize, ping, tools/list, tools/call, server/discover".to_owned())),
    ];
    let mut wrong = Vec::new();
    for (body, expected) in cases {
        for target in scene.targets() {
            let response = scene.ask(&Request::post(&target, body.clone()));
            let answer = match response.status {
                202 => scene.stream.heard(),
                _ => response.json(),
            };
            let code = answer["error"]["code"].as_i64().unwrap_or_default();
            let message = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
            if (code, message) != expected {
                wrong.push(format!("{body}\n  is answered {answer}\n  not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let latin: Vec<u8> = POST.bytes().map(|b| if b == b'x' { 0xe9 } else { b }).collect();
    let at = latin.iter().position(|&byte| byte == 0xe9).expect("it is there");
    let answer = scene.ask(&Request::post("/mcp", latin)).json();
    let expected = no_json(&format!("the byte 0xe9 at {at} is not UTF-8")).1;
    assert_eq!(answer["error"]["message"], expected);
    scene.is_unharmed();
}

#[test]
fn only_json_is_taken() {
    let mut scene = Scene::new();
    for target in scene.targets() {
        let post = Request::post(&target, POST);
        for request in [
            post.clone().without("Content-Type"),
            post.clone().with("Content-Type", ""),
            post.clone().with("Content-Type", "text/plain"),
            post.clone()
                .with("Content-Type", "application/x-www-form-urlencoded"),
            post.clone()
                .with("Content-Type", "multipart/form-data; boundary=application/json"),
            post.clone().with("Content-Type", "application/jsonp"),
            post.clone().and("Content-Type", "text/plain"),
            post.clone().and("Content-Type", "application/json"),
            post.clone().with("Content-Type", &"x".repeat(1_000)),
        ] {
            let response = scene.ask(&request);
            assert_eq!(response.status, 415, "{request:?}");
            let error = response.json()["error"].clone();
            let reason = if target == "/mcp" {
                &error["message"]
            } else {
                &error
            };
            let reason = reason.as_str().unwrap_or_default();
            let accepted = "is not accepted; accepted: application/json";
            assert!(
                reason.starts_with("content type ") && reason.ends_with(accepted) && reason.len() < 500,
                "{response:?}"
            );
            scene.is_unharmed();
        }
        for good in ["application/json; charset=utf-8", "Application/JSON"] {
            let status = scene.ask(&post.clone().with("Content-Type", good)).status;
            assert!(matches!(status, 200 | 202), "{good}: {status}");
        }
        assert_eq!(scene.relay.session(Way::Http).read("dev-a").bodies(), ["x"; 2]);
        scene.is_unharmed();
    }
    // More than a socket takes: it is read before it is refused, and the connection goes on.
    for target in scene.targets() {
        let post = Request::post(&target, b" ".repeat(3 * 1024 * 1024));
        let mut connection = scene.relay.connect();
        let response = connection.exchange(&post.with("Content-Type", "text/plain"));
        assert_eq!(response.status, 415, "{target}");
        assert_eq!(
            connection.exchange(&Request::get("/health")).status,
            200,
            "{target}"
        );
    }
    let send = Request::post("/api/send", r#"{"to":"dev-a","body":"x"}"#);
    let response = scene.ask(&send.and("Content-Type", "text/plain"));
    let reason = "content type \"application/json, text/plain\" is not accepted; accepted: application/json";
    assert_eq!(refused(&response), (415, json!({"error": reason})));
    scene.is_unharmed();
}

/// The answer to a request whose HTTP is wrong.
fn http_error(reason: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32_000, "message": reason}})
}

#[test]
fn a_client_that_takes_json_gets_json() {
    let mut scene = Scene::new();
    let post = Request::post("/mcp", POST);
    let accepts = [
        post.clone().without("Accept"),
        post.clone().with("Accept", ""),
        post.clone().with("Accept", "*/*"),
        post.clone().with("Accept", "application/json"),
        post.clone().with("Accept", "text/html, application/*;q=0.5"),
    ];
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let list = Request::post("/mcp", list).without("Accept");
    for request in accepts.iter().chain([&list]) {
        let response = scene.ask(request);
        assert_eq!(
            (response.status, response.header("content-type")),
            (200, Some("application/json")),
            "{request:?}"
        );
        assert!(response.json()["result"].is_object(), "{request:?}: {response:?}");
    }
    assert_eq!(scene.relay.session(Way::Http).read("dev-a").bodies(), ["x"; 5]);
    scene.is_unharmed();
}

/// <https://modelcontextprotocol.io/specification/2026-07-28> answers 404, as rmcp does for what relay does not have.
#[test]
fn an_unknown_method_is_named_with_those_that_its_version_has() {
    let mut scene = Scene::new();
    for method in [
        "initialize",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
        "nope",
    ] {
        let session = scene.relay.session(Way::Modern);
        // What each of them needs, if it is known.
        let params = json!({
            "name": "x",
            "uri": "file:///x",
            "ref": {"type": "ref/prompt", "name": "x"},
            "argument": {"name": "x", "value": "x"},
        });
        let mut request = session.request_of(1, method, params);
        if method == "resources/read" {
            request = request.with("Mcp-Name", "file:///x");
        }
        let response = scene.ask(&request);
        let reason =
            format!("unknown method {method:?}; known methods: tools/list, tools/call, server/discover");
        let error = json!({"code": -32_601, "message": reason});
        assert_eq!((response.status, &response.json()["error"]), (404, &error));
    }
    scene.is_unharmed();
}

#[test]
fn a_client_that_takes_neither_json_nor_events_is_refused() {
    let mut scene = Scene::new();
    for accept in [
        "text/html",
        "text/event-stream;q=0",
        "application/json;q=0, text/html",
    ] {
        let response = scene.ask(&Request::post("/mcp", POST).with("Accept", accept));
        let reason = format!(
            "this request takes no answer that relay gives, its Accept is {accept:?}; accepted: application/json, \
             text/event-stream, both for progress, or no Accept at all"
        );
        assert_eq!(refused(&response), (406, http_error(&reason)));
        scene.is_unharmed();
    }
}

/// Progress is told in a stream of events after a second, so this wait is longer.
#[test]
fn a_client_that_takes_no_events_waits_without_progress() {
    let scene = Scene::new();
    for way in [Way::Http, Way::Modern] {
        let session = scene.relay.session(way);
        let wait = json!({
            "name": "read_messages",
            "arguments": {"for": "pm", "wait_seconds": 1.5},
            "_meta": {"progressToken": 1},
        });
        let request = session.request_of(1, "tools/call", wait);
        let response = scene.ask(&request.with("Accept", "application/json"));
        assert_eq!(
            response.header("content-type"),
            Some("application/json"),
            "{way:?}"
        );
        assert_eq!(
            response.json()["result"]["content"][0]["text"],
            "[]",
            "{way:?}: {response:?}"
        );
    }
}

#[test]
fn an_unknown_version_is_refused_with_those_that_are_known() {
    let mut scene = Scene::new();
    let response = scene.ask(&Request::post("/mcp", POST).with("MCP-Protocol-Version", "1999-01-01"));
    let reason = "Bad Request: Unsupported MCP-Protocol-Version: 1999-01-01; accepted: 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28";
    assert_eq!(refused(&response), (400, http_error(reason)));
    scene.is_unharmed();
}

#[test]
fn notifications_and_responses_ask_for_nothing() {
    let mut scene = Scene::new();
    let notifications = [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}),
        json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
    ];
    for target in scene.targets() {
        for message in &notifications {
            let response = scene.ask(&Request::post(&target, message.to_string()));
            assert_eq!(
                (response.status, response.text()),
                (202, String::new()),
                "{message}"
            );
        }
    }
    // relay asks nothing of a client, so a response is to nothing. On a stream it is taken as the protocol's
    // older versions have it; streamable HTTP without sessions refuses it.
    for message in [
        json!({"jsonrpc": "2.0", "id": 3, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "no"}}),
    ] {
        let [http, sse] = scene.targets().map(|target| {
            let response = scene.ask(&Request::post(&target, message.to_string()));
            response.status
        });
        assert_eq!((http, sse), (400, 202), "{message}");
    }
    scene.is_unharmed();
}
