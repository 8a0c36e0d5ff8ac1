//! Who may ask for what.

use std::process::Command;

use super::*;

#[test]
fn who_shows_no_token_or_a_wrong_one_or_one_of_another_kind_is_told_so() {
    let world = World::new();
    let ask = |request: Request| world.relay.connect().exchange(&request);
    let none = ask(Request::get("/v1/agent"));
    refused(&none, 401, "unauthorized", "Authorization: Bearer");
    assert_eq!(none.header("www-authenticate"), Some("Bearer realm=\"relay\""));
    let unknown = "at_live_0000000000000000000000000000000000000000000000000000000000000000";
    for token in [unknown, "x", &world.alice[..20], "nt_live_1", "ot_live_1"] {
        refused(&world.get("/v1/agent", token), 401, "unauthorized", "not known");
        let (_, _, message) = error(&world.get("/v1/agent", token));
        assert!(token.len() < 2 || !message.contains(token), "{message}");
    }
    for (method, path) in [
        ("GET", "/v1/agent"),
        ("POST", "/v1/dm"),
        ("POST", "/v1/channels"),
        ("POST", "/v1/channels/build/join"),
        ("POST", "/v1/channels/build/messages"),
        ("POST", "/v1/messages/x/replies"),
        ("POST", "/v1/agents/heartbeat"),
        ("POST", "/v1/agents/disconnect"),
    ] {
        let request = with(Request::new(method, path), &world.key);
        refused(&ask(request), 403, "agent_token_required", "at_live_");
    }
    for path in ["/v1/agents", "/v1/agents/bob/rotate-token"] {
        refused(
            &world.post(path, &world.alice, &json!({"name": "x"})),
            403,
            "workspace_key_required",
            "rk_live_",
        );
    }
}

#[test]
fn a_token_reaches_nothing_in_another_workspace_by_its_name() {
    let world = World::new();
    for path in [
        "/v1/agents/web:bob",
        "/v1/channels/web:build",
        "/v1/channels/web:build/members",
    ] {
        refused(
            &world.get(path, &world.other_key),
            403,
            "workspace_mismatch",
            "\"web\"",
        );
    }
    let rotate = world.post("/v1/agents/web:bob/rotate-token", &world.other_key, &json!({}));
    refused(&rotate, 403, "workspace_mismatch", "\"app\"");
    refused(
        &world.get("/v1/agents/bob", &world.other_key),
        404,
        "agent_not_found",
        "\"app\"",
    );
    let post = world.post(
        "/v1/channels/app:build/messages",
        &world.alice,
        &json!({"text": "x"}),
    );
    refused(&post, 403, "workspace_mismatch", "\"app\"");
    assert_eq!(world.seen("/v1/agents", &world.other_key), json!([]));
}

#[test]
fn the_token_of_a_retired_agent_is_not_good_any_more_though_its_name_is_taken_again() {
    let world = World::new();
    let registered = |name: &str| {
        let done = world.done("/v1/agents", &world.key, &json!({"name": name}));
        done["token"].as_str().expect("a token").to_owned()
    };
    let before = registered("zed");
    assert_eq!(world.seen("/v1/agent", &before)["name"], "zed");
    world.retire("web:zed");
    refused(
        &world.get("/v1/agent", &before),
        401,
        "unauthorized",
        "its agent has gone",
    );
    let after = registered("zed");
    refused(
        &world.get("/v1/agent", &before),
        401,
        "unauthorized",
        "its agent has gone",
    );
    assert_eq!(world.seen("/v1/agent", &after)["name"], "zed");
}

#[test]
fn the_token_of_an_agent_that_is_not_retired_after_all_stays_good() {
    let world = World::new();
    let send = Request::post("/api/send", r#"{"to":"web:alice","body":"x"}"#);
    assert_eq!(world.relay.connect().exchange(&send).status, 200);
    let retire = Request::post("/api/retire", r#"{"agent":"web:alice"}"#);
    let refused = world.relay.connect().exchange(&retire);
    assert_ne!(refused.status, 200, "{refused:?}");
    assert_eq!(world.seen("/v1/agent", &world.alice)["name"], "alice");
}

#[test]
fn a_rotated_token_is_not_good_any_more() {
    let world = World::new();
    let fresh = world.done("/v1/agents/alice/rotate-token", &world.key, &json!({}));
    refused(
        &world.get("/v1/agent", &world.alice),
        401,
        "unauthorized",
        "rotated",
    );
    let fresh = fresh["token"].as_str().expect("a token");
    assert_eq!(world.seen("/v1/agent", fresh)["name"], "alice");
    assert_eq!(world.seen("/v1/agent", &world.bob)["name"], "bob");
}

#[test]
fn a_relay_with_a_token_of_its_own_wants_both_and_takes_neither_for_the_other() {
    let relay = Relay::start_with(&[], &[("RELAY_TOKEN", "0123456789abcdef")]);
    let ask = |request: Request| relay.connect().exchange(&request);
    let make = Request::post("/v1/workspaces", r#"{"name": "web"}"#);
    refused(&ask(make.clone()), 401, "relay_token_required", "wants a token");
    let guarded = |request| with(request, "0123456789abcdef");
    let key = data(&ask(guarded(make)))["api_key"]
        .as_str()
        .expect("a key")
        .to_owned();
    let info = || Request::get("/v1/workspace");
    refused(
        &ask(with(info(), &key)),
        401,
        "relay_token_invalid",
        "has another token",
    );
    refused(
        &ask(info().with("X-Api-Key", &key)),
        401,
        "relay_token_required",
        "wants a token",
    );
    refused(&ask(guarded(info())), 401, "unauthorized", "X-Api-Key");
    let both = guarded(info()).with("X-Api-Key", &key);
    assert_eq!(data(&ask(both))["name"], "web");
    for (path, body) in [("/api/peek", "{}"), ("/mcp", "{}")] {
        assert_eq!(ask(with(Request::post(path, body), &key)).status, 401, "{path}");
    }
}

#[test]
fn relay_key_prints_a_good_key_and_the_log_has_no_token() {
    let world = World::new();
    let key = |arguments: &[&str]| {
        let mut command: Command = crate::support::process::relay_command();
        command
            .args(["key", "--port", &world.relay.port.to_string()])
            .args(arguments);
        let output = command.output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, stdout, stderr) = key(&["--workspace", "web"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let printed = stdout.strip_suffix('\n').expect("a line");
    assert_eq!(world.seen("/v1/workspace", printed)["name"], "web");
    let (_, stdout, _) = key(&[]);
    assert_eq!(world.seen("/v1/workspace", stdout.trim())["name"], "default");
    let (code, stdout, stderr) = key(&["--workspace", "a b"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("invalid workspace name \"a b\""), "{stderr}");
    world.done("/v1/dm", &world.alice, &json!({"to": "bob", "text": "hi"}));
    let health = world.relay.health().to_string();
    let lines = world.relay.line();
    assert!(lines.contains("hi"), "{lines}");
    for secret in [&world.key, &world.alice, &world.bob] {
        assert!(!health.contains(&**secret) && !lines.contains(&**secret));
    }
}

#[test]
fn an_address_takes_no_kind_of_token_but_those_that_it_is_listed_with() {
    let world = World::new();
    let token = |made: &Value| made["token"].as_str().expect("a token").to_owned();
    let node = token(&world.own_node(&world.alice));
    let observer = token(&world.observer_token(json!({})));
    let tokens = [
        ("workspace", &world.key),
        ("agent", &world.alice),
        ("node", &node),
        ("observer", &observer),
    ];
    let mut asked = 0;
    for line in include_str!("../../../docs/API.md").lines() {
        let row = line.strip_prefix("| `").and_then(|row| row.split_once("` | "));
        let Some((address, row)) = row else { continue };
        let (method, path) = address.split_once(' ').expect("a method and a path");
        let (wanted, row) = row.split_once(" | ").expect("whose token");
        if wanted == "none" {
            continue;
        }
        let mut good: Vec<&str> = wanted.split(", or ").collect();
        if good.contains(&"either") {
            good.extend(["workspace", "agent"]);
        }
        // A node posts for its agents, and says for which.
        if row.contains("from?") {
            good.push("node");
        }
        let path: Vec<&str> = path
            .split('/')
            .map(|part| if part.starts_with(':') { "x" } else { part })
            .collect();
        let path = path.join("/");
        let body = match path.rsplit('/').next() {
            Some("defer") => json!({"available_at": "2026-05-02T14:30:00.000Z"}),
            _ => json!({}),
        };
        for (_, token) in tokens.iter().filter(|(kind, _)| !good.contains(kind)) {
            let request = match method {
                "GET" => Request::get(&path),
                _ => Request::post(&path, body.to_string()).by(method),
            };
            let answer = world.relay.connect().exchange(&with(request, token));
            let (status, code, _) = error(&answer);
            assert!([401, 403].contains(&status), "{address}: {answer:?}");
            let of_token = ["unauthorized", "_required", "observer_token_forbidden"];
            assert!(
                of_token.iter().any(|end| code.ends_with(end)),
                "{address}: {code}"
            );
            asked += 1;
        }
    }
    assert!(asked > 100, "{asked} were asked");
}

#[test]
fn a_socket_is_opened_with_the_token_in_the_header_too() {
    let world = World::new();
    let node = world.own_node(&world.bob);
    let node = node["token"].as_str().expect("a token");
    // What is let in and asks for no WebSocket hears just that.
    for (path, good, bad) in [
        ("/v1/node/ws", node, &world.key),
        ("/v1/ws", &world.key, &world.bob),
    ] {
        let (status, code, _) = error(&world.get(path, good));
        assert_eq!((status, code.as_str()), (400, "not_a_websocket"), "{path}");
        let (status, code, _) = error(&world.get(path, bad));
        assert!([401, 403].contains(&status), "{path}: {status} {code}");
    }
}
