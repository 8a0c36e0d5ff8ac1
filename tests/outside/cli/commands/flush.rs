use super::*;

#[test]
fn what_is_held_is_brought_once_it_is_flushed() {
    let relay = told();
    let mut session = relay.session(Way::Sse);
    session.hear_of_start("dev-a");
    let nothing = "nothing is held for dev-a\n";
    ask(relay.port, &["flush", "dev-a"])
        .assert()
        .code(3)
        .stdout("")
        .stderr(nothing);
    for text in ["one", "two"] {
        ask(relay.port, &["send", "--mode", "manual", "dev-a", text])
            .assert()
            .code(0);
    }
    let said = "2 messages for dev-a held no more\n";
    ask(relay.port, &["flush", "dev-a"])
        .assert()
        .code(0)
        .stdout(said)
        .stderr("");
    ask(relay.port, &["flush", "dev-a", "--json"])
        .assert()
        .code(3)
        .stdout("{\"flushed\":0}\n");
    assert_eq!(session.read("dev-a").bodies(), ["one", "two"]);
}

#[test]
fn an_unknown_mode_is_named_with_what_is_known() {
    let relay = Relay::start();
    let known =
        "unknown mode \"soon\"; known modes: immediate, next-message, next-tool-call, on-idle, manual";
    ask(relay.port, &["send", "--mode", "soon", "dev-a", "x"])
        .assert()
        .code(2)
        .stderr(contains(known));
    let body = r#"{"to": "dev-a", "body": "x", "mode": "soon"}"#;
    let response = relay.connect().exchange(&Request::post("/api/send", body));
    assert_eq!(
        (response.status, response.json()["error"].as_str()),
        (400, Some(known))
    );
}
