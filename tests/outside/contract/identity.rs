use super::*;

#[test]
fn a_bound_session_need_not_name_itself() {
    over_each(&WAYS, |relay, way| {
        let mut session = relay.bound_session(way, "dev-a");
        let post = json!({"to": "dev-a", "kind": "status", "body": "to myself"});
        session.call("post_message", &post).posted();
        let named = json!({"from": "dev-a", "to": "dev-a", "kind": "status", "body": "by name"});
        session.call("post_message", &named).posted();
        let two = json!({"count": 2, "kinds": ["status", "status"]}).to_string();
        assert_eq!(session.call("list_pending", &json!({})), Reply::of(&two));
        let read = session.call("read_messages", &json!({}));
        assert_eq!(read.bodies(), ["to myself", "by name"]);
        assert_eq!(read.messages()[0]["from"], "dev-a");
        assert_eq!(session.read("dev-a"), Reply::of("[]"));
    });
}

#[test]
fn a_bound_session_may_not_name_another() {
    over_each(&WAYS, |relay, way| {
        relay.session(Way::Http).post("pm", "dev-b", "not for dev-a");
        let mut session = relay.bound_session(way, "dev-a");
        let refused = |argument: &str| {
            Reply::error(&format!(
                "\"{argument}\" is \"dev-b\", but this session is bound to \"dev-a\"; \
                 leave \"{argument}\" out or give \"dev-a\""
            ))
        };
        let post = json!({"from": "dev-b", "to": "pm", "kind": "free", "body": ""});
        assert_eq!(session.call("post_message", &post), refused("from"));
        assert_eq!(session.read("dev-b"), refused("for"));
        assert_eq!(
            session.call("list_pending", &json!({"for": "dev-b"})),
            refused("for")
        );
        let unknown = Reply::error("unknown role \"dev-c\"; known roles: pm, dev-a, dev-b");
        assert_eq!(session.read("dev-c"), unknown);
        assert_eq!(relay.pending(), json!({"pm": 0, "dev-a": 0, "dev-b": 1}));
    });
}

#[test]
fn a_session_that_is_not_bound_must_say_who_it_is() {
    over_each(&WAYS, |relay, way| {
        let mut session = relay.session(way);
        let missing = |argument: &str| {
            Reply::error(&format!(
                "missing argument \"{argument}\"; give your role, one of: pm, dev-a, dev-b"
            ))
        };
        let post = json!({"to": "pm", "kind": "free", "body": ""});
        assert_eq!(session.call("post_message", &post), missing("from"));
        assert_eq!(session.call("read_messages", &json!({})), missing("for"));
        assert_eq!(session.call("list_pending", &json!({})), missing("for"));
    });
}

#[test]
fn what_is_wrong_with_a_call_is_named_with_what_is_accepted() {
    let cases = [
        (
            "post_message",
            json!({"from": "pm", "to": "dev-c", "kind": "free", "body": ""}),
            r#"unknown role "dev-c"; known roles: pm, dev-a, dev-b; a message may also go to user, @group, #channel, * or @everyone"#,
        ),
        (
            "post_message",
            json!({"from": "dev-c", "to": "pm", "kind": "free", "body": ""}),
            r#"unknown role "dev-c"; known roles: pm, dev-a, dev-b"#,
        ),
        (
            "post_message",
            json!({"from": "pm", "to": "pm", "kind": "shout", "body": ""}),
            r#"unknown kind "shout"; known kinds: status, question, directive, free"#,
        ),
        (
            "post_message",
            json!({"from": "pm", "to": "pm", "kind": "free"}),
            r#"missing argument "body"; post_message takes from, to, kind, body, mode"#,
        ),
        (
            "post_message",
            json!({"from": "pm", "to": "pm", "kind": "free", "body": 5}),
            r#""body" is the number 5; accepted: a string"#,
        ),
        (
            "read_messages",
            json!({"for": "pm", "since": 1}),
            r#"unknown argument "since"; read_messages takes for, wait_seconds, after"#,
        ),
        (
            "read_messages",
            json!({"for": "pm", "wait_seconds": 281}),
            r#""wait_seconds" is 281; accepted: 0 to 280"#,
        ),
        (
            "peek",
            json!({"for": "pm"}),
            r#"unknown tool "peek"; known tools: post_message, read_messages, list_pending"#,
        ),
    ];
    over_each(&WAYS, |relay, way| {
        let mut session = relay.session(way);
        session.post("dev-a", "pm", "stays");
        for (tool, arguments, reason) in &cases {
            assert_eq!(session.call(tool, arguments), Reply::error(reason), "{tool}");
        }
        assert_eq!(relay.pending(), json!({"pm": 1, "dev-a": 0, "dev-b": 0}));
    });
}

#[test]
fn a_tool_list_is_short_and_asks_a_bound_session_for_less() {
    let relay = Relay::start();
    for way in [Way::Sse, Way::Http] {
        let required = |mut session: Session| -> Vec<Value> {
            let listed = session.ask("tools/list", json!({}))["result"].clone();
            assert!(listed.to_string().len() <= 4_096, "{listed}");
            let tools = listed["tools"].as_array().expect("tools");
            let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
            assert_eq!(names, ["post_message", "read_messages", "list_pending"]);
            tools
                .iter()
                .map(|tool| tool["inputSchema"]["required"].clone())
                .collect()
        };
        assert_eq!(
            required(relay.session(way)),
            [
                json!(["from", "to", "kind", "body"]),
                json!(["for"]),
                json!(["for"])
            ]
        );
        assert_eq!(
            required(relay.bound_session(way, "pm")),
            [json!(["to", "kind", "body"]), json!([]), json!([])]
        );
    }
}

#[test]
fn a_handshake_tells_what_relay_is_and_has() {
    let relay = Relay::start();
    for way in [Way::Sse, Way::Http] {
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let mut session = relay.session(way);
            let client = json!({"name": "a test", "version": "1"});
            let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
            let result = session.ask("initialize", params)["result"].clone();
            assert_eq!(result["protocolVersion"], version);
            assert_eq!(result["capabilities"], json!({"tools": {}}));
            let info = json!({"name": "relay", "version": env!("CARGO_PKG_VERSION")});
            assert_eq!(result["serverInfo"], info);
            let instructions = result["instructions"].as_str().expect("instructions");
            assert!((1..=1_024).contains(&instructions.len()), "{instructions}");
            session.notify("notifications/initialized", &json!({}));
            session.post("pm", "dev-a", version);
            assert_eq!(session.ask("ping", json!({}))["result"], json!({}));
        }
    }
}

/// By it a client cancels over another connection, so no two may have the same.
#[test]
fn a_handshake_over_http_gives_each_client_an_id_of_its_own() {
    let relay = Relay::start();
    let client = json!({"name": "a test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let handshake = relay.session(Way::Http).request_of(1, "initialize", params);
    let [first, second] = [(); 2].map(|()| {
        let response = relay.connect().exchange(&handshake);
        response.header("mcp-session-id").map(str::to_owned)
    });
    assert!(
        first.is_some() && second.is_some() && first != second,
        "{first:?}, {second:?}"
    );
}
