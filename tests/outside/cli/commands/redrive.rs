use std::io::Read as _;

use super::*;

#[test]
fn nothing_was_given_up_in_a_relay_that_pushes_nothing() {
    let relay = told();
    for (arguments, told) in [
        (
            &["redrive"][..],
            "nothing was given up, and nothing waits for its next attempt\n",
        ),
        (&["redrive", "--list"], "nothing was given up\n"),
        (&["redrive", "pm", "--list"], "nothing was given up\n"),
        (&["redrive", "--json"], "{\"hastened\":0,\"redriven\":0}\n"),
        (&["redrive", "--list", "--json"], "{\"dead_letters\":[]}\n"),
    ] {
        ask(relay.port, arguments)
            .assert()
            .code(3)
            .stdout(told)
            .stderr("");
    }
    ask(relay.port, &["redrive", "nobody"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(starts_with("relay redrive: "));
}

#[test]
fn what_a_web_hook_did_not_take_is_tried_at_once() {
    let relay = told();
    let key = stdout_of(&ask(relay.port, &["key"]).assert().code(0));
    let made = |path: &str, body: &str| {
        let request =
            Request::post(path, body.to_owned()).with("Authorization", &format!("Bearer {}", key.trim()));
        let response = relay.connect().exchange(&request);
        assert_eq!(response.status, 201, "{response:?}");
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    // Nobody listens there for now.
    drop(listener);
    let delivery = format!(r#"{{"url": "http://127.0.0.1:{port}/", "ack_mode": "on_2xx"}}"#);
    made(
        "/v1/nodes",
        &format!(r#"{{"name": "hook", "kind": "http_push", "delivery": {delivery}}}"#),
    );
    made("/v1/nodes/hook/agents", r#"{"agent_name": "dev-a"}"#);
    let sent = ask(relay.port, &["send", "dev-a", "hello", "--json"])
        .assert()
        .code(0);
    let sent: Value = serde_json::from_str(&stdout_of(&sent)).expect("JSON");
    let id = sent["id"].as_str().expect("an id").to_owned();
    let traced = || stdout_of(&ask(relay.port, &["trace", &id]).assert().code(0));
    while !traced().contains("its target did not take it: 127.0.0.1:") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(
        traced().contains("undone: its target did not take it"),
        "{}",
        traced()
    );
    let nodes = relay.health()["nodes"].clone();
    let failing = json!([{"node": "hook", "project": "default", "kind": "http_push", "live": null, "agents": 1, "failing": 1, "dead_letters": 0}]);
    assert_eq!(nodes, failing);
    ask(relay.port, &["status"]).assert().code(0).stdout(ends_with(
        "\nnode  kind      agents  state\nhook  web hook  1       fails\n",
    ));
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the same port");
    ask(relay.port, &["redrive", "dev-a"])
        .assert()
        .code(0)
        .stdout("the pause after failures is over for 1 agent\n");
    let (mut socket, _) = listener.accept().expect("it is pushed again");
    // Whoever answers what was not asked yet is not understood.
    let mut head = [0; 4];
    socket.read_exact(&mut head).expect("a request");
    assert_eq!(&head, b"POST");
    socket
        .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
        .expect("it is read");
    while !traced().contains("read: it was acknowledged") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
