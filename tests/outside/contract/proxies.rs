//! Clients that write an address a little differently, and proxies between them and relay.

use super::*;

const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;

/// A call of a tool.
fn call(id: u64, tool: &str, arguments: &Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

#[test]
fn a_slash_behind_the_address_of_a_transport_changes_nothing() {
    let relay = Relay::start_told();
    let ask = |request: Request| relay.connect().exchange(&request);
    for (with, without) in [("/mcp/", "/mcp"), ("/mcp/?agent=pm", "/mcp?agent=pm")] {
        let [with, without] = [with, without].map(|target| ask(Request::post(target, LIST)).undated());
        assert_eq!((with.status, &with), (200, &without));
    }
    assert_eq!(ask(Request::get("/mcp/")).status, 405);
    let mut stream = EventStream::open(relay.connect(), &Request::get("/sse/?agent=dev-a"));
    let target = stream.event().data.expect("an address");
    assert!(target.starts_with("/message?sessionId="), "{target}");
    assert_eq!(ask(Request::post(&target, LIST)).status, 202);
    let answer = stream.event().data.expect("an answer");
    assert!(answer.contains("you are dev-a"), "{answer}");
    for nowhere in ["/mcp/x", "/mcp//", "/sse//", "/health/"] {
        assert_eq!(ask(Request::post(nowhere, LIST)).status, 404, "{nowhere}");
    }
}

/// A proxy hands on `/relay/sse` as `/sse`, and says so.
#[test]
fn the_address_of_calls_has_before_it_what_proxies_took_off() {
    let relay = Relay::start_told();
    let open = |values: &[&str]| {
        let request = Request::get("/sse");
        values
            .iter()
            .fold(request, |request, value| request.and("X-Forwarded-Prefix", value))
    };
    for (values, prefix) in [
        (&[][..], ""),
        (&[""], ""),
        (&["/"], ""),
        (&["/relay"], "/relay"),
        (&["/relay/"], "/relay"),
        (&["/a/b-1.2~c"], "/a/b-1.2~c"),
        (&["/outer, /inner"], "/outer/inner"),
        (&["/outer", "/inner"], "/outer/inner"),
    ] {
        let mut stream = EventStream::open(relay.connect(), &open(values));
        let target = stream.event().data.expect("an address");
        let own = target.strip_prefix(prefix).expect("the prefix");
        assert!(own.starts_with("/message?sessionId="), "{values:?}: {target}");
        assert_eq!(relay.connect().exchange(&Request::post(own, LIST)).status, 202);
        assert!(
            stream
                .event()
                .data
                .is_some_and(|data| data.contains("read_messages"))
        );
    }
    let long = format!("/{}", "x".repeat(256));
    for bad in [
        "relay",
        "//evil.example",
        "/a//b",
        "http://evil.example",
        "/a b",
        "/a?b",
        "/a\\b",
        "/a, b",
        &long,
    ] {
        let response = relay.connect().exchange(&open(&[bad]));
        assert_eq!(response.status, 400, "{bad}: {response:?}");
        let reason = response.json()["error"]
            .as_str()
            .map(str::to_owned)
            .unwrap_or_default();
        assert!(reason.starts_with("X-Forwarded-Prefix "), "{reason}");
    }
}

#[test]
fn a_proxy_is_told_to_hand_on_streams_as_they_come() {
    let relay = Relay::start_told();
    let head = |request: &Request| {
        let mut connection = relay.connect();
        connection.send(&request.bytes());
        loop {
            if let Some(head) = connection.take_head() {
                let kind = head.header("content-type").map(str::to_owned);
                return (
                    kind,
                    head.header("x-accel-buffering").map(str::to_owned),
                    connection,
                );
            }
            assert_eq!(connection.receive(crate::support::PATIENCE), Arrived::More);
        }
    };
    let wait = json!({"name": "read_messages", "arguments": {"for": "pm", "wait_seconds": 60}, "_meta": {"progressToken": 1}});
    let wait = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": wait}).to_string();
    let lost = Request::get("/mcp").with(
        "Last-Event-ID",
        "boot=00000000-0000-4000-8000-000000000000&request=1",
    );
    let only_events = Request::post("/mcp", LIST).with("Accept", "text/event-stream");
    for request in [
        Request::get("/sse"),
        Request::post("/mcp", wait),
        lost,
        only_events,
    ] {
        let (kind, buffering, _connection) = head(&request);
        assert_eq!(
            (kind.as_deref(), buffering.as_deref()),
            (Some("text/event-stream"), Some("no")),
            "{request:?}"
        );
    }
    let (_, buffering, _connection) = head(&Request::post("/mcp", LIST));
    assert_eq!(buffering, None);
}

/// A client that looks for a way to log in by OAuth finds none, and goes on.
#[test]
fn nothing_well_known_is_there_with_a_token_or_without_one() {
    let relays = [
        Relay::start_with(&["--token", TOKEN], &[]),
        Relay::start_with(&[], &[]),
    ];
    for relay in relays {
        for path in [
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-authorization-server",
            "/.well-known/openid-configuration",
            "/mcp/.well-known/openid-configuration",
        ] {
            for wrong in ["", "Bearer 0123456789abcdeF"] {
                let request = match wrong {
                    "" => Request::get(path),
                    wrong => Request::get(path).with("Authorization", wrong),
                };
                let response = relay.connect().exchange(&request);
                assert_eq!(response.status, 404, "{path}: {response:?}");
                assert_eq!(response.header("www-authenticate"), None, "{path}");
                let strange = request.with("Host", "evil.example");
                let status = relay.connect().exchange(&strange).status;
                assert!(matches!(status, 403 | 404), "{path}: {status}");
            }
        }
    }
}

#[test]
fn who_takes_events_alone_is_answered_by_one_event() {
    over_each(&EXCHANGES, |relay, way| {
        let ask = |body: String, method: &str, name: Option<&str>| {
            let mut request = Request::post("/mcp", body).with("Accept", "text/event-stream");
            if way == Way::Modern {
                request = request
                    .with("MCP-Protocol-Version", "2026-07-28")
                    .with("Mcp-Method", method);
                if let Some(name) = name {
                    request = request.with("Mcp-Name", name);
                }
            }
            let mut connection = relay.connect();
            let response = connection.exchange(&request);
            assert_eq!(
                response.header("content-type"),
                Some("text/event-stream"),
                "{response:?}"
            );
            let text = response.text();
            let data = text
                .strip_prefix("event: message\ndata: ")
                .and_then(|text| text.strip_suffix("\n\n"));
            let data = data.unwrap_or_else(|| panic!("no event: {text:?}"));
            assert!(!data.contains('\n'), "{data}");
            (serde_json::from_str::<Value>(data).expect("JSON"), connection)
        };
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
        let asked = |method: &str, mut params: Value| {
            if way == Way::Modern {
                params["_meta"] = meta.clone();
            }
            json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
        };
        let (listed, _) = ask(asked("tools/list", json!({})), "tools/list", None);
        assert_eq!(listed["result"]["tools"][0]["name"], "post_message");
        relay.session(Way::Http).post("dev-a", "pm", "line\none");
        let read = json!({"name": "read_messages", "arguments": {"for": "pm"}});
        let (answer, mut connection) = ask(
            asked("tools/call", read.clone()),
            "tools/call",
            Some("read_messages"),
        );
        assert!(answer.to_string().contains("line"), "{answer}");
        // The next request over the connection shows that it was read.
        connection.exchange(&Request::get("/health"));
        let (again, _) = ask(asked("tools/call", read), "tools/call", Some("read_messages"));
        assert_eq!(again["result"]["content"][0]["text"], "[]");
        if way == Way::Http {
            let bad = json!({"name": "read_messages", "arguments": []});
            let (refused, _) = ask(asked("tools/call", bad), "tools/call", None);
            assert_eq!(refused["error"]["code"], -32_602, "{refused}");
        }
    });
}

/// Nothing was shown of it: the connection broke in the middle of the event.
#[test]
fn an_event_that_was_not_read_is_taken_back() {
    let relay = Relay::start_told();
    relay.session(Way::Http).post("dev-a", "pm", "x");
    let read = call(1, "read_messages", &json!({"for": "pm"}));
    let mut connection = relay.connect();
    connection.send(
        &Request::post("/mcp", read)
            .with("Accept", "text/event-stream")
            .bytes(),
    );
    connection.await_unread_bytes();
    drop(connection);
    until("it is back", || relay.pending()["pm"] == 1);
    let again = relay.session(Way::Http).read("pm");
    assert_eq!(again.bodies(), ["again: x"]);
}
