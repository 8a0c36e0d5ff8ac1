//! Hostile and broken input: the relay refuses it, stays up, keeps its memory bounded, and others notice nothing.
//!
//! After each hostile act a [`Bystander`] on connections of its own posts and reads as before.

#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for another process by the clock, and reads its output in threads"
)]

#[expect(dead_code, reason = "each test file uses a part of what they share")]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use support::http::{Connection, Request, Response};
use support::process::Relay;
use support::session::{Session, WAYS, Way};

const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
const MEGABYTE: u64 = 1024 * 1024;

/// A post of one byte from `pm` to `dev-a`, as every test here sends it when it must not be carried out.
const POST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"post_message","arguments":{"from":"pm","to":"dev-a","kind":"free","body":"x"}}}"#;

/// Three well-behaved sessions, one for each way to call a relay. They use the inbox of `dev-b`.
struct Bystander {
    sessions: [Session; 3],
    rounds: usize,
}

impl Bystander {
    fn of(relay: &Relay) -> Self {
        let mut sessions = WAYS.map(|way| relay.session(way));
        sessions[0].hear_of_start("dev-b");
        let mut bystander = Self { sessions, rounds: 0 };
        bystander.is_unharmed();
        bystander
    }

    /// Posts over each way, reads over the next, and waits for no answer long.
    fn is_unharmed(&mut self) {
        for way in 0..self.sessions.len() {
            self.rounds += 1;
            let started = Instant::now();
            let body = format!("round {}", self.rounds);
            self.sessions[way].post("dev-b", "dev-b", &body);
            let read = self.sessions[(way + 1) % 3].read("dev-b");
            assert_eq!((read.bodies(), read.texts.len()), (vec![body], 1));
            assert!(
                started.elapsed() < Duration::from_secs(5),
                "{:?}",
                started.elapsed()
            );
        }
    }
}

/// A relay, one who uses it well, and an open stream for calls that are not well.
struct Scene {
    relay: Relay,
    bystander: Bystander,
    stream: Session,
}

impl Scene {
    fn new() -> Self {
        let relay = Relay::start();
        let bystander = Bystander::of(&relay);
        let stream = relay.session(Way::Sse);
        Self {
            relay,
            bystander,
            stream,
        }
    }

    /// Where calls go, over both transports.
    fn targets(&self) -> [String; 2] {
        ["/mcp".to_owned(), self.stream.target.clone()]
    }

    /// Sends a request over a connection of its own.
    fn ask(&self, request: &Request) -> Response {
        self.relay.connect().exchange(request)
    }

    /// Nothing was posted, and all goes on.
    fn is_unharmed(&mut self) {
        assert_eq!(self.relay.pending(), json!({"pm": 0, "dev-a": 0, "dev-b": 0}));
        self.bystander.is_unharmed();
    }
}

fn refused(response: &Response) -> (u16, Value) {
    (response.status, response.json())
}

mod doors {
    use super::*;

    /// A request that would do something on each route, were it let in.
    fn requests(scene: &Scene) -> Vec<Request> {
        vec![
            Request::get("/sse"),
            Request::get("/health"),
            Request::get("/nowhere"),
            Request::new("OPTIONS", "/mcp"),
            Request::post("/mcp", POST),
            Request::post(&scene.stream.target, POST),
        ]
    }

    #[test]
    fn an_evil_host_is_refused_on_every_route() {
        let mut scene = Scene::new();
        for host in [
            "evil.example",
            "evil.example:7331",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]",
        ] {
            for request in requests(&scene) {
                let reason =
                    format!("host {host:?} is not this machine; accepted: localhost, 127.0.0.1, [::1]");
                let response = scene.ask(&request.with("Host", host));
                assert_eq!(refused(&response), (403, json!({"error": reason})));
            }
            scene.is_unharmed();
        }
        let response = scene.ask(&Request::post("/mcp", POST).without("Host"));
        assert_eq!(response.status, 403, "{response:?}");
        scene.is_unharmed();
    }

    /// <https://www.rfc-editor.org/rfc/rfc9112#section-3.2>: more than one `Host` is refused, and a whole address in the
    /// request line takes the place of any.
    #[test]
    fn an_evil_host_does_not_hide_behind_a_good_one() {
        let mut scene = Scene::new();
        let post = Request::post("/mcp", POST);
        let mut let_in = Vec::new();
        for request in [
            post.clone().and("Host", "evil.example"),
            post.with("Host", "evil.example").and("Host", "localhost"),
            Request::post("http://evil.example/mcp", POST),
        ] {
            let response = scene.ask(&request);
            if !matches!(response.status, 400 | 403) {
                let_in.push(format!("{request:?}: {response:?}"));
            }
        }
        assert!(let_in.is_empty(), "let in:\n{}", let_in.join("\n"));
        scene.is_unharmed();
    }

    #[test]
    fn an_evil_origin_is_refused_on_every_route() {
        let mut scene = Scene::new();
        let port = scene.relay.port;
        let other_port = format!("http://localhost:{}", port - 1);
        let secure = format!("https://localhost:{port}");
        for origin in [
            "http://evil.example",
            "null",
            "",
            &other_port,
            &secure,
            "http://localhost",
        ] {
            for request in requests(&scene) {
                let reason = format!(
                    "origin {origin:?} may not use this relay; accepted: none, or http://localhost:{port}"
                );
                let response = scene.ask(&request.with("Origin", origin));
                assert_eq!(refused(&response), (403, json!({"error": reason})));
            }
            scene.is_unharmed();
        }
    }

    #[test]
    fn an_evil_origin_does_not_hide_behind_a_good_one() {
        let mut scene = Scene::new();
        let own = format!("http://localhost:{}", scene.relay.port);
        for [first, second] in [[&own, "http://evil.example"], ["http://evil.example", &own]] {
            let post = Request::post("/mcp", POST)
                .and("Origin", first)
                .and("Origin", second);
            let response = scene.ask(&post);
            assert!(
                matches!(response.status, 400 | 403),
                "let in: {post:?}: {response:?}"
            );
            scene.is_unharmed();
        }
    }

    #[test]
    fn names_of_this_machine_and_its_own_origin_are_let_in() {
        let scene = Scene::new();
        let port = scene.relay.port;
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"] {
            let named = format!("{host}:{port}");
            for host in [host, &named] {
                let request = Request::get("/health").with("Host", host);
                let request = request.with("Origin", &format!("http://{named}"));
                assert_eq!(scene.ask(&request).status, 200, "{host}");
            }
        }
    }
}

mod addresses {
    use super::*;

    #[test]
    fn a_call_without_a_known_session_is_refused() {
        let mut scene = Scene::new();
        let unknown = "01234567-89ab-4def-8123-456789abcdef";
        let missing = "missing query parameter \"sessionId\"; GET /sse tells the address to post to";
        let cases = [
            ("/message", 400, missing.to_owned()),
            ("/message?session=1", 400, missing.to_owned()),
            ("/message?sessionId=", 404, unknown_session("")),
            ("/message?sessionId=x", 404, unknown_session("x")),
            ("/message?sessionId=%00%ff", 404, unknown_session("\0\u{fffd}")),
            (
                &format!("/message?sessionId={unknown}"),
                404,
                unknown_session(unknown),
            ),
        ];
        for (target, status, reason) in cases {
            let response = scene.ask(&Request::post(target, POST));
            assert_eq!(refused(&response), (status, json!({"error": reason})));
            scene.is_unharmed();
        }
    }

    fn unknown_session(id: &str) -> String {
        format!("unknown session {id:?}; GET /sse opens one")
    }

    #[test]
    fn a_session_that_has_ended_is_unknown() {
        let mut scene = Scene::new();
        let ended = scene.relay.session(Way::Sse);
        let (target, id) = (ended.target.clone(), ended.id().to_owned());
        let sessions = scene.relay.sessions();
        drop(ended);
        scene.relay.await_sessions(sessions - 1);
        let response = scene.ask(&Request::post(&target, POST));
        assert_eq!(refused(&response), (404, json!({"error": unknown_session(&id)})));
        scene.is_unharmed();
    }

    #[test]
    fn a_method_that_a_route_does_not_have_is_refused_with_the_one_it_has() {
        let mut scene = Scene::new();
        let accepted = [
            ("/sse", "GET"),
            ("/health", "GET"),
            ("/message", "POST"),
            ("/mcp", "POST"),
        ];
        for (path, accepted) in accepted {
            for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
                if method == accepted {
                    continue;
                }
                let response = scene.ask(&Request::new(method, path).with("Content-Length", "0"));
                let allow = response.header("allow").map(str::to_owned);
                assert_eq!(
                    (response.status, allow.as_deref()),
                    (405, Some(accepted)),
                    "{method} {path}"
                );
                if path != "/mcp" {
                    let reason = format!("{method} is not for {path:?}; accepted: {accepted}");
                    assert_eq!(response.json(), json!({"error": reason}));
                }
            }
        }
        scene.is_unharmed();
    }

    #[test]
    fn an_unknown_path_is_named() {
        let mut scene = Scene::new();
        for path in ["/", "/sse/", "/Mcp", "/mcp/x", "//mcp", "/../mcp", "/health.json"] {
            let reason = format!("nothing at {path:?}; there are /sse, /message, /mcp and /health");
            for request in [Request::get(path), Request::post(path, POST)] {
                assert_eq!(refused(&scene.ask(&request)), (404, json!({"error": reason})));
            }
        }
        scene.is_unharmed();
    }

    #[test]
    fn an_unknown_query_parameter_is_named() {
        let mut scene = Scene::new();
        let reason = "unknown query parameter \"agnet\"; accepted: agent";
        for query in ["agnet=pm", "agent=pm&agnet=pm", "agnet"] {
            for request in [
                Request::get(&format!("/sse?{query}")),
                Request::post(&format!("/mcp?{query}"), POST),
            ] {
                assert_eq!(refused(&scene.ask(&request)), (400, json!({"error": reason})));
            }
        }
        scene.is_unharmed();
    }

    #[test]
    fn an_unknown_agent_is_named_and_an_empty_one_is_none() {
        let mut scene = Scene::new();
        for (query, name) in [
            ("nobody", "nobody"),
            ("PM", "PM"),
            ("pm%20", "pm "),
            ("${RELAY_AGENT}", "${RELAY_AGENT}"),
        ] {
            let reason = format!("unknown role {name:?}; known roles: pm, dev-a, dev-b");
            for request in [
                Request::get(&format!("/sse?agent={query}")),
                Request::post(&format!("/mcp?agent={query}"), POST),
            ] {
                assert_eq!(refused(&scene.ask(&request)), (400, json!({"error": reason})));
            }
        }
        scene.is_unharmed();
        for way in WAYS {
            let mut session = scene.relay.bound_session(way, "");
            for from in ["pm", "dev-b"] {
                session.post(from, "dev-a", from);
            }
        }
        let read = scene.relay.session(Way::Http).read("dev-a");
        assert_eq!(read.bodies(), ["pm", "dev-b"].repeat(3));
        scene.is_unharmed();
    }

    #[test]
    fn asking_for_the_head_of_a_stream_leaves_no_session() {
        let mut scene = Scene::new();
        let sessions = scene.relay.sessions();
        for _ in 0..20 {
            let mut connection = scene.relay.connect();
            connection.send(&Request::new("HEAD", "/sse").bytes());
            connection.await_unread_bytes();
        }
        scene.relay.await_sessions(sessions);
        scene.is_unharmed();
    }
}

mod bodies {
    use super::*;

    #[test]
    fn a_request_over_the_limit_is_refused_on_both_transports() {
        let mut scene = Scene::new();
        let reason =
            format!("the request has more than {REQUEST_BYTES_MAX} bytes, the most that is accepted");
        let mut longest = POST.as_bytes().to_vec();
        longest.resize(REQUEST_BYTES_MAX, b' ');
        let mut too_long = longest.clone();
        too_long.push(b' ');
        for (target, accepted) in scene.targets().into_iter().zip([200, 202]) {
            let request = Request::post(&target, too_long.clone());
            for request in [request.clone(), request.chunked()] {
                assert_eq!(refused(&scene.ask(&request)), (413, json!({"error": reason})));
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
                let response = scene.ask(&Request::post(&target, body.clone()));
                let error = serde_json::from_slice::<Value>(&response.body).unwrap_or_default();
                let told = (
                    response.status,
                    &error["error"]["code"],
                    &error["id"],
                    &error["jsonrpc"],
                );
                if told != (400, &json!(code), &Value::Null, &json!("2.0")) {
                    wrong.push(format!(
                        "{what} to {transport}: {} {}",
                        response.status,
                        response.text()
                    ));
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
    fn the_last_of_two_equal_keys_counts() {
        let mut scene = Scene::new();
        let twice = POST.replace(r#""body":"x""#, r#""body":"x","body":"y""#);
        for target in scene.targets() {
            let status = scene.ask(&Request::post(&target, twice.clone())).status;
            assert!(matches!(status, 200 | 202), "{status}");
        }
        assert_eq!(scene.relay.session(Way::Http).read("dev-a").bodies(), ["y", "y"]);
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
            ] {
                let response = scene.ask(&request);
                assert_eq!(response.status, 415, "{request:?}");
                assert!(response.text().contains("application/json"), "{response:?}");
                scene.is_unharmed();
            }
            for good in ["application/json; charset=utf-8", "Application/JSON"] {
                let status = scene.ask(&post.clone().with("Content-Type", good)).status;
                assert!(matches!(status, 200 | 202), "{good}: {status}");
            }
            assert_eq!(scene.relay.session(Way::Http).read("dev-a").bodies(), ["x"; 2]);
            scene.is_unharmed();
        }
    }

    #[test]
    fn a_client_of_mcp_must_take_both_kinds_of_answer() {
        let mut scene = Scene::new();
        let post = Request::post("/mcp", POST);
        for request in [
            post.clone().without("Accept"),
            post.clone().with("Accept", ""),
            post.clone().with("Accept", "text/html"),
            post.clone().with("Accept", "application/json"),
            post.clone().with("Accept", "text/event-stream"),
        ] {
            let response = scene.ask(&request);
            assert_eq!(response.status, 406, "{request:?}");
            assert!(
                response.text().contains("application/json and text/event-stream"),
                "{response:?}"
            );
            scene.is_unharmed();
        }
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
}

mod slowness {
    use super::*;

    #[test]
    fn a_call_that_comes_byte_by_byte_holds_up_nobody() {
        let mut scene = Scene::new();
        let targets = scene.targets();
        let mut trickles = targets.map(|target| {
            let bytes = Request::post(&target, POST).bytes();
            (scene.relay.connect(), bytes)
        });
        let longest = trickles.iter().map(|(_, bytes)| bytes.len()).max().expect("two");
        for at in 0..longest {
            for (connection, bytes) in &mut trickles {
                if let Some(byte) = bytes.get(at) {
                    connection.send(&[*byte]);
                }
            }
            if at % 16 == 0 {
                scene.bystander.is_unharmed();
            }
        }
        let statuses = trickles.map(|(mut connection, _)| connection.response().status);
        assert_eq!(statuses, [200, 202]);
        assert_eq!(scene.relay.session(Way::Http).read("dev-a").bodies(), ["x", "x"]);
        scene.is_unharmed();
    }

    #[test]
    fn a_call_that_ends_in_the_middle_is_not_carried_out() {
        let mut scene = Scene::new();
        for target in scene.targets() {
            for request in [
                Request::post(&target, POST),
                Request::post(&target, POST).chunked(),
            ] {
                let bytes = request.bytes();
                // A chunked body is over when its last, empty chunk has come.
                for end in [1, 20, bytes.len() - POST.len() / 2, bytes.len() - 1] {
                    let mut connection = scene.relay.connect();
                    connection.send(&bytes[..end]);
                    connection.end_sending();
                    let answered = connection.response_or_end();
                    assert!(answered.is_none_or(|response| response.status == 400), "{end}");
                }
            }
        }
        scene.is_unharmed();
    }

    #[test]
    fn a_client_that_never_reads_its_stream_is_refused_and_loses_nothing() {
        let mut scene = Scene::new();
        let mut sender = scene.relay.session(Way::Http);
        sender.hear_of_start("dev-a");
        let sessions = scene.relay.sessions();
        let mut deaf = scene.relay.session(Way::Sse);
        let before = scene.relay.resident_bytes();
        let filler = "x".repeat(1024 * 1024 - 4);
        let mut sent = Vec::new();
        let refusal = loop {
            let number = sent.len();
            assert!(
                number < 40,
                "the relay keeps {number} MiB for one that does not read"
            );
            let body = format!("{number:04}{filler}");
            sender.post("pm", "dev-a", &body);
            sent.push(body);
            let read = json!({"name": "read_messages", "arguments": {"for": "dev-a"}});
            let request = deaf.request_of(number as u64, "tools/call", read);
            let response = deaf.calls.exchange(&request);
            if response.status != 202 {
                break response;
            }
        };
        let reason = "this session does not read its stream; read what is in it, then call again";
        assert_eq!(refused(&refusal), (503, json!({"error": reason})));
        assert_eq!(scene.relay.pending(), json!({"pm": 0, "dev-a": 1, "dev-b": 0}));
        let grown = scene.relay.resident_bytes().saturating_sub(before);
        assert!(grown < 64 * MEGABYTE, "{grown} bytes after {} calls", sent.len());
        scene.bystander.is_unharmed();

        drop(deaf);
        scene.relay.await_sessions(sessions);
        let read = scene.relay.session(Way::Http).read("dev-a").bodies();
        // The last call was refused; those before it handed over what its socket did not take.
        let last = sent.pop().expect("at least one");
        let redelivered = read.len() - 1;
        assert!(redelivered >= 8, "only {redelivered} came again");
        let lost = sent.split_off(sent.len() - redelivered);
        let expected: Vec<String> = lost
            .iter()
            .map(|body| format!("again: {body}"))
            .chain([last])
            .collect();
        assert!(read == expected, "{redelivered} of them, but not those");
        scene.is_unharmed();
    }

    #[test]
    fn a_client_that_does_not_read_its_replies_over_http_holds_up_nobody() {
        let mut scene = Scene::new();
        let sessions = scene.relay.sessions();
        let mut deaf = scene.relay.connect();
        let before = scene.relay.resident_bytes();
        // Sent until the relay takes no more: it answers one call of a connection after the other.
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let request = Request::post("/mcp", list).bytes().repeat(100);
        deaf.set_write_patience(Duration::from_millis(200));
        let mut sent = 0;
        while sent < 64 * 1024 * 1024 && deaf.try_send(&request).is_ok() {
            sent += request.len();
        }
        assert!(
            sent < 64 * 1024 * 1024,
            "the relay reads on although nobody takes its answers"
        );
        let grown = scene.relay.resident_bytes().saturating_sub(before);
        assert!(grown < 32 * MEGABYTE, "{grown} bytes");
        scene.is_unharmed();
        drop(deaf);
        scene.relay.await_sessions(sessions);
        scene.is_unharmed();
    }
}

mod numbers {
    use super::*;

    #[test]
    fn a_thousand_streams_opened_and_dropped_leave_nothing_behind() {
        let mut scene = Scene::new();
        let sessions = scene.relay.sessions();
        let before = scene.relay.resident_bytes();
        for _ in 0..2 {
            let streams: Vec<Session> = (0..500).map(|_| scene.relay.session(Way::Sse)).collect();
            assert_eq!(scene.relay.sessions(), sessions + 500);
            scene.is_unharmed();
            drop(streams);
            scene.relay.await_sessions(sessions);
            scene.is_unharmed();
        }
        let grown = scene.relay.resident_bytes().saturating_sub(before);
        assert!(grown < 30 * MEGABYTE, "{grown} bytes");
    }

    #[test]
    fn one_session_too_many_is_refused_until_another_ends() {
        const SESSIONS_MAX: usize = 4_096;
        // A connection has a session for each role that it speaks for, so a few connections are enough.
        let roles: Vec<String> = (0..32).map(|number| format!("r{number}")).collect();
        let relay = Relay::start_with(&["--roles", &roles.join(",")], &[]);
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let mut open = 0;
        let mut connections = Vec::new();
        let refusal = loop {
            assert!(open <= SESSIONS_MAX, "{open} sessions");
            let mut connection = relay.connect();
            let requests = roles
                .iter()
                .map(|role| Request::post(&format!("/mcp?agent={role}"), list).bytes());
            connection.send(&requests.collect::<Vec<_>>().concat());
            let refused = roles
                .iter()
                .map(|_| connection.response())
                .find(|response| response.status != 200);
            connections.push(connection);
            match refused {
                None => open += roles.len(),
                Some(response) => break response,
            }
        };
        assert_eq!(open, SESSIONS_MAX);
        let reason = "as many sessions are open already as are accepted: 4096; close one";
        assert_eq!(refused(&refusal), (503, json!({"error": reason})));
        let stream = relay.connect().exchange(&Request::get("/sse"));
        assert_eq!(refused(&stream), (503, json!({"error": reason})));
        let open_one = Request::post("/mcp?agent=r7", list);
        assert_eq!(
            connections[0].exchange(&open_one).status,
            200,
            "one that is open goes on"
        );
        drop(connections);
        relay.await_sessions(0);
        relay.session(Way::Sse).post("r0", "r1", "there is room again");
    }

    /// Sends 60 messages with an id of 512 KiB each, takes every answer, and returns by how much the relay has grown.
    fn growth_by_long_ids(relay: &Relay, way: Way, message: impl Fn(String) -> Value) -> u64 {
        let mut session = relay.session(way);
        let before = relay.resident_bytes();
        let long = "x".repeat(512 * 1024);
        for number in 0..60 {
            let message = message(format!("{number}{long}"));
            let request = Request::post(&session.target, message.to_string()).with("Mcp-Session-Id", "mine");
            let response = session.calls.exchange(&request);
            if response.status == 202 && message["id"].is_string() && way == Way::Sse {
                session.heard();
            }
        }
        relay.resident_bytes().saturating_sub(before)
    }

    #[test]
    fn long_ids_of_calls_are_not_kept_when_the_calls_are_over() {
        let mut scene = Scene::new();
        let params = json!({"name": "read_messages", "arguments": {"for": "pm"}});
        let read = |id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let grown = [Way::Sse, Way::Http].map(|way| growth_by_long_ids(&scene.relay, way, read));
        scene.is_unharmed();
        assert!(
            grown.iter().all(|&grown| grown < 16 * MEGABYTE),
            "grown by {grown:?} bytes"
        );
    }

    #[test]
    fn long_ids_of_cancellations_are_not_kept() {
        let mut scene = Scene::new();
        let cancel = |id| {
            let params = json!({"requestId": id});
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        };
        let grown = [Way::Sse, Way::Http].map(|way| growth_by_long_ids(&scene.relay, way, cancel));
        scene.is_unharmed();
        assert!(
            grown.iter().all(|&grown| grown < 16 * MEGABYTE),
            "grown by {grown:?} bytes"
        );
    }

    #[test]
    fn an_error_does_not_repeat_all_of_a_long_value() {
        let mut scene = Scene::new();
        let long = "\u{1b}é".repeat(50_000);
        for way in [Way::Sse, Way::Http] {
            let mut session = scene.relay.session(way);
            for (tool, arguments) in [
                (long.as_str(), json!({})),
                (
                    "post_message",
                    json!({"from": long, "to": "pm", "kind": "free", "body": ""}),
                ),
                (
                    "post_message",
                    json!({"from": "pm", "to": long, "kind": "free", "body": ""}),
                ),
                (
                    "post_message",
                    json!({"from": "pm", "to": "pm", "kind": long, "body": ""}),
                ),
                ("read_messages", json!({"for": "pm", "wait_seconds": long})),
                ("read_messages", json!({"for": "pm", &*long: 1})),
                ("list_pending", json!({"for": long})),
            ] {
                let reply = session.call(tool, &arguments);
                let length = reply.texts.concat().len();
                assert!(reply.is_error && length < 2_000, "{length} bytes over {way:?}");
            }
        }
        let target = format!("/sse?agent={}", "x".repeat(60_000));
        let response = scene.ask(&Request::get(&target));
        assert_eq!(response.status, 400, "{response:?}");
        assert!(response.body.len() < 2_000, "{response:?}");
        scene.is_unharmed();
    }

    #[test]
    fn requests_in_one_go_are_answered_one_after_the_other() {
        let mut scene = Scene::new();
        let call = |id: u64, tool: &str, arguments: Value| {
            let params = json!({"name": tool, "arguments": arguments});
            let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            Request::post("/mcp", message.to_string()).bytes()
        };
        let post = |body: &str| json!({"from": "pm", "to": "dev-a", "kind": "free", "body": body});
        let mut connection = scene.relay.connect();
        connection.send(
            &[
                call(1, "post_message", post("m1")),
                Request::get("/health").bytes(),
                call(2, "post_message", post("m2")),
                Request::get("/nowhere").bytes(),
                call(3, "list_pending", json!({"for": "dev-a"})),
                call(4, "read_messages", json!({"for": "dev-a"})),
                call(5, "read_messages", json!({"for": "dev-a"})),
            ]
            .concat(),
        );
        let answers: Vec<Response> = (0..7).map(|_| connection.response()).collect();
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200, 200, 404, 200, 200, 200]);
        assert_eq!(answers[1].json()["pending"]["dev-a"], 1);
        let text = |answer: &Response| answer.json()["result"]["content"][0]["text"].clone();
        assert_eq!(
            text(&answers[4]),
            json!({"count": 2, "kinds": ["free", "free"]}).to_string()
        );
        let read: Value = serde_json::from_str(text(&answers[5]).as_str().expect("a text")).expect("JSON");
        assert_eq!((&read[0]["body"], &read[1]["body"]), (&json!("m1"), &json!("m2")));
        assert_eq!(text(&answers[6]), "[]");
        scene.is_unharmed();
    }

    #[test]
    fn a_long_head_is_taken_and_a_longer_one_refused() {
        let mut scene = Scene::new();
        let filler = |length: usize| "x".repeat(length);
        let long = Request::get("/health").with("X-Long", &filler(100 * 1024));
        assert_eq!(scene.ask(&long).status, 200);
        scene.is_unharmed();
        let many = (0..200).fold(Request::get("/health"), |request, number| {
            request.with(&format!("X-{number}"), "1")
        });
        for (status, request) in [
            (431, Request::get("/health").with("X-Long", &filler(1024 * 1024))),
            (431, many),
            (414, Request::get(&format!("/{}", filler(100 * 1024)))),
        ] {
            let mut connection = scene.relay.connect();
            // The relay may hang up before it has taken all of it, and with that its answer may be lost.
            let _ = connection.try_send(&request.bytes());
            let answer = connection.response_or_end();
            assert!(
                answer.as_ref().is_none_or(|response| response.status == status),
                "{answer:?}"
            );
            scene.is_unharmed();
        }
    }

    #[test]
    fn a_head_that_can_be_read_in_two_ways_is_carried_out_at_most_once() {
        let mut scene = Scene::new();
        let post = Request::post("/mcp", POST);
        let length = POST.len();
        let in_chunks = |size: &str| {
            let chunks = format!("{size}\r\n{POST}\r\n0\r\n\r\n");
            let request = Request::post("/mcp", chunks).without("Content-Length");
            request.with("Transfer-Encoding", "chunked").bytes()
        };
        let hidden = [b"0\r\n\r\n".to_vec(), post.bytes()].concat();
        for (what, bytes) in [
            ("two lengths", post.clone().and("Content-Length", "5").bytes()),
            (
                "a negative length",
                post.clone().with("Content-Length", "-1").bytes(),
            ),
            (
                "a signed length",
                post.clone().with("Content-Length", &format!("+{length}")).bytes(),
            ),
            (
                "a length in words",
                post.clone().with("Content-Length", "many").bytes(),
            ),
            (
                "an unknown encoding",
                post.clone().with("Transfer-Encoding", "gzip").bytes(),
            ),
            ("a chunk without a size", in_chunks("")),
            ("a chunk of a size in words", in_chunks("many")),
            ("a chunk larger than all memory", in_chunks("ffffffffffffffffff")),
            (
                "a length and chunks",
                Request::post("/mcp", hidden)
                    .with("Transfer-Encoding", "chunked")
                    .bytes(),
            ),
            ("a name with a space", post.clone().with("X Y", "1").bytes()),
            ("no version", b"POST /mcp\r\n\r\n".to_vec()),
            (
                "an unknown version",
                b"GET /health HTTP/7.1\r\nHost: localhost\r\n\r\n".to_vec(),
            ),
            ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
            ("nothing but NULs", vec![0; 4096]),
        ] {
            let mut connection = scene.relay.connect();
            let _ = connection.try_send(&bytes);
            connection.end_sending();
            let answer = connection.response_or_end();
            assert!(
                answer.as_ref().is_none_or(|response| response.status >= 400),
                "{what}: {answer:?}"
            );
            let next = connection.response_or_end();
            assert!(next.is_none(), "{what} is answered twice: {next:?}");
            scene.is_unharmed();
        }
    }
}

mod noise {
    use super::*;

    const SEED: u64 = 0x7331;
    const REQUESTS: usize = 10_000;

    /// Calls that are changed a little before they are sent. None of them touches the inbox of the well-behaved.
    const CALLS: [&str; 7] = [
        POST,
        r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"read_messages","arguments":{"for":"dev-a"}}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list_pending","arguments":{"for":"pm"},"_meta":{"progressToken":1}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    ];

    /// <https://prng.di.unimi.it/splitmix64.c>
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        fn below(&mut self, bound: usize) -> usize {
            usize::try_from(self.next() % bound as u64).expect("it is below a usize")
        }

        fn bytes(&mut self, length: usize) -> Vec<u8> {
            (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
        }

        /// Changes a few bytes: flips, inserts, doubles, cuts out, or ends it early.
        fn mutated(&mut self, bytes: &[u8]) -> Vec<u8> {
            let mut bytes = bytes.to_vec();
            for _ in 0..=self.below(4) {
                let at = self.below(bytes.len().max(1));
                let to = (at + 1 + self.below(8)).min(bytes.len());
                match self.below(5) {
                    0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                    1 => bytes.insert(at.min(bytes.len()), b"\"\\{}[]:,0e-\n\0\xff"[self.below(14)]),
                    2 if at < to => bytes.splice(at..at, bytes[at..to].to_vec()).for_each(drop),
                    3 if at < to => bytes.drain(at..to).for_each(drop),
                    _ => bytes.truncate(bytes.len() - self.below(4).min(bytes.len())),
                }
            }
            bytes
        }
    }

    /// Sends whole requests one after the other, over a connection that is renewed when it is closed.
    struct Sender {
        port: u16,
        connection: Connection,
    }

    impl Sender {
        fn send(&mut self, request: &Request) -> u16 {
            self.connection.send(&request.bytes());
            match self.connection.response_or_end() {
                Some(response) => response.status,
                None => {
                    self.connection = Connection::open(self.port);
                    0
                }
            }
        }
    }

    /// Sends bytes that need not be a request, says that there are no more, and reads until the end.
    fn send_raw(relay: &Relay, bytes: &[u8]) {
        let mut connection = relay.connect();
        let _ = connection.try_send(bytes);
        connection.end_sending();
        while connection.response_or_end().is_some() {}
    }

    #[test]
    fn ten_thousand_senseless_requests_change_nothing_for_others() {
        let relay = Relay::start_with(&["--roles", "pm,dev-a,dev-b,quiet"], &[]);
        let mut bystander = Bystander::of(&relay);
        let mut reader = relay.session(Way::Sse);
        reader.hear_of_start("quiet");
        let mut random = Random(SEED);
        let mut stream = relay.session(Way::Sse);
        let mut sender = Sender {
            port: relay.port,
            connection: relay.connect(),
        };
        let before = relay.resident_bytes();
        let (mut sent, mut read) = (Vec::new(), Vec::new());
        let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
        for number in 0..REQUESTS {
            let call = CALLS[random.below(CALLS.len())].as_bytes();
            let to_stream = random.below(2) == 0;
            let target = if to_stream { stream.target.as_str() } else { "/mcp" };
            match random.below(20) {
                0 => {
                    let length = random.below(2_000);
                    send_raw(&relay, &random.bytes(length));
                }
                1 => {
                    let request = Request::post("/mcp", call).bytes();
                    send_raw(&relay, &random.mutated(&request));
                }
                2 => {
                    let id = format!("{:x}", random.next());
                    let mut connection = relay.connect();
                    connection.send(&Request::get("/sse").with("Last-Event-ID", &id).bytes());
                }
                3..10 => {
                    let length = random.below(500);
                    let status = sender.send(&Request::post(target, random.bytes(length)));
                    *statuses.entry(status).or_default() += 1;
                }
                _ => {
                    let body = random.mutated(call);
                    let status = sender.send(&Request::post(target, body));
                    *statuses.entry(status).or_default() += 1;
                }
            }
            if number % 50 == 0 {
                let body = number.to_string();
                bystander.sessions[number / 50 % 3].post("quiet", "quiet", &body);
                sent.push(body);
            }
            if number % 200 == 199 {
                bystander.is_unharmed();
                read.extend(reader.read("quiet").bodies());
                // What was answered into the stream is not read, so it is given up before it is full.
                stream = relay.session(Way::Sse);
            }
        }
        read.extend(reader.read("quiet").bodies());
        assert_eq!(read, sent);
        bystander.is_unharmed();
        println!("answers by status: {statuses:?}");
        assert_eq!(statuses.get(&500), None, "{statuses:?}");
        assert!(
            statuses.get(&200).is_some_and(|&count| count > 100),
            "{statuses:?}"
        );
        assert!(
            statuses.get(&202).is_some_and(|&count| count > 100),
            "{statuses:?}"
        );
        drop((stream, sender));
        relay.await_sessions(4);
        let grown = relay.resident_bytes().saturating_sub(before);
        assert!(grown < 32 * MEGABYTE, "{grown} bytes");
        assert_eq!(relay.health()["name"], "relay");
    }
}
