//! Who is let in: names of this machine and its own origin.

use super::*;
use crate::support::sse::EventStream;

/// A request that would do something on each route, were it let in.
fn requests(scene: &Scene) -> Vec<Request> {
    vec![
        Request::get("/sse"),
        Request::get("/health"),
        Request::get("/nowhere"),
        Request::new("OPTIONS", "/mcp"),
        Request::post("/mcp", POST),
        Request::post(&scene.stream.target, POST),
        Request::post("/api/send", r#"{"to":"dev-a","body":"x"}"#),
        Request::post("/api/read", r#"{"for":"dev-a"}"#),
        Request::post("/api/peek", r#"{"for":"dev-a"}"#),
        Request::post("/api/trace", r#"{"message":"3f2a91c0"}"#),
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
            let reason = format!(
                "host {host:?} is not this machine; accepted: localhost, 127.x.x.x, [::1], or any host if relay is started with --token"
            );
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

/// As with `ssh -L 8000:localhost:7331`. A page that has made its own name point to this machine sends that name.
#[test]
fn another_port_in_host_is_let_in_since_ports_are_forwarded() {
    let scene = Scene::new();
    for host in ["localhost:8000", "127.0.0.1:1", "[::1]:65535"] {
        let response = scene.ask(&Request::post("/mcp", POST).with("Host", host));
        assert_eq!(response.status, 200, "{host}: {response:?}");
    }
    for host in [
        "evil.example:8000",
        "localhost:8000.evil.example",
        "localhost:65536",
    ] {
        let response = scene.ask(&Request::post("/mcp", POST).with("Host", host));
        assert_eq!(response.status, 403, "{host}: {response:?}");
    }
    assert_eq!(scene.relay.session(Way::Http).read("dev-a").bodies(), ["x"; 3]);
}

#[test]
fn no_token_is_ever_written_to_a_log() {
    const RIGHT: &str = "right-0123456789";
    const WRONG: &str = "wrong-0123456789";
    let relay = Relay::start_with(&["--token", RIGHT], &[("RELAY_LOG", "trace")]);
    for (token, statuses) in [(RIGHT, [200, 200, 200, 202]), (WRONG, [401; 4])] {
        let header = format!("Bearer {token}");
        let open = Request::get("/sse").with("Authorization", &format!("Bearer {RIGHT}"));
        let mut stream = EventStream::open(relay.connect(), &open);
        let target = stream.event().data.expect("an address");
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let requests = [
            Request::get("/health"),
            Request::post("/mcp", POST),
            Request::post("/mcp", list),
            Request::post(&target, list),
        ];
        let told = requests.map(|request| {
            let request = request.with("Authorization", &header);
            relay.connect().exchange(&request).status
        });
        assert_eq!(told, statuses);
    }
    let log = relay.into_stderr();
    assert!(log.contains("TRACE"), "{log}");
    assert!(!log.contains(RIGHT) && !log.contains(WRONG), "{log}");
}
