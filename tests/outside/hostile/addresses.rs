//! Paths, methods, queries and session ids that relay does not have.

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
            let reason = format!("{method} is not for {path:?}; accepted: {accepted}");
            let expected = match path {
                "/mcp" => {
                    json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32_000, "message": reason}})
                }
                _ => json!({"error": reason}),
            };
            assert_eq!(response.json(), expected);
        }
    }
    scene.is_unharmed();
}

#[test]
fn an_unknown_path_is_named() {
    let mut scene = Scene::new();
    for path in [
        "/",
        "/sse//",
        "/Mcp",
        "/mcp/x",
        "//mcp",
        "/../mcp",
        "/health.json",
    ] {
        let reason = format!(
            "nothing at {path:?}; there are /sse, /message, /mcp, /health, /api/send, /api/read, /api/peek, /api/pending, /api/flush, /api/mode, /api/trace, /api/show, /api/hold, /api/allow, /api/drop, /api/agents, /api/groups, /api/channels, /api/group, /api/channel, /api/retire, /api/spawn, /api/release, /api/workers, /api/key, /api/redrive, /api/dead-letters, /api/tail, /hooks/claude, /hooks/codex, /hooks/gemini and /hooks/opencode, and what docs/API.md lists under /v1"
        );
        for request in [Request::get(path), Request::post(path, POST)] {
            assert_eq!(refused(&scene.ask(&request)), (404, json!({"error": reason})));
        }
    }
    scene.is_unharmed();
}

#[test]
fn an_unknown_query_parameter_is_named() {
    let mut scene = Scene::new();
    let reason = "unknown query parameter \"agnet\"; accepted: agent, tools, project, role, module, cli, parent, cwd, instance, transient, reply_kb";
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
fn a_query_that_names_something_twice_is_refused_with_both() {
    let mut scene = Scene::new();
    let id = scene.stream.id().to_owned();
    for (query, first, second) in [
        ("agent=pm&agent=dev-a", "pm", "dev-a"),
        ("agent=&agent=pm", "", "pm"),
    ] {
        let reason =
            format!("query parameter \"agent\" is given twice, {first:?} and {second:?}; accepted: once");
        for request in [
            Request::get(&format!("/sse?{query}")),
            Request::post(&format!("/mcp?{query}"), POST),
        ] {
            assert_eq!(refused(&scene.ask(&request)), (400, json!({"error": reason})));
        }
    }
    let response = scene.ask(&Request::post(
        &format!("/message?sessionId={id}&sessionId=x"),
        POST,
    ));
    let reason = format!("query parameter \"sessionId\" is given twice, {id:?} and \"x\"; accepted: once");
    assert_eq!(refused(&response), (400, json!({"error": reason})));
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
    assert_eq!(read.bodies(), ["pm", "dev-b"].repeat(WAYS.len()));
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

#[test]
fn a_connection_goes_on_after_a_refusal_whose_request_came_in_two_pieces() {
    let mut scene = Scene::new();
    let mut connection = scene.relay.connect();
    let targets = [
        "/mcp?tools=bogus",
        "/mcp?agent=nobody",
        "/api/send?x",
        "/api/peek?x",
    ];
    for target in targets.iter().cycle().take(40) {
        let request = Request::post(target, POST).bytes();
        let (head, body) = request.split_at(request.len() - POST.len());
        connection.send(head);
        std::thread::sleep(Duration::from_millis(10));
        connection.send(body);
        let response = connection.response();
        assert_eq!(
            (response.status, response.header("connection")),
            (400, None),
            "{target}"
        );
    }
    scene.is_unharmed();
}
