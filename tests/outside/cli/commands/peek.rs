use super::*;

#[test]
fn a_peek_takes_nothing_from_an_agent() {
    let relay = told();
    let mut session = relay.session(Way::Sse);
    session.hear_of_start("dev-a");
    session.post("pm", "dev-a", "task");
    for _ in 0..2 {
        ask(relay.port, &["peek", "dev-a"])
            .assert()
            .code(0)
            .stdout(contains("pm → dev-a [free] ").and(contains("\n  task\n")))
            .stderr("");
    }
    assert_eq!(session.read("dev-a").bodies(), ["task"]);
    ask(relay.port, &["peek", "dev-a"])
        .assert()
        .code(3)
        .stderr("nothing for dev-a\n");
}

#[test]
fn an_unknown_role_is_named() {
    let relay = Relay::start();
    for subcommand in ["read", "peek"] {
        let unknown = format!("relay {subcommand}: unknown role \"qa\"; known roles: pm, dev-a, dev-b\n");
        for arguments in [&[subcommand, "qa"][..], &[subcommand, "qa", "--json"]] {
            ask(relay.port, arguments)
                .assert()
                .code(1)
                .stdout("")
                .stderr(unknown.clone());
        }
    }
}

#[test]
fn what_stdout_does_not_take_is_told_and_is_an_error() {
    let relay = told();
    super::hold::sent(&relay, "dev-a", "user", "for you");
    ask(relay.port, &["hold", "dev-b"]).assert().code(0);
    let id = super::hold::sent(&relay, "dev-b", "pm", "held");
    for arguments in [
        &["peek"][..],
        &["pending"],
        &["mode", "pm"],
        &["show", &id],
        &["trace", &id],
        &["hold"],
        &["redrive", "--list"],
        &["status"],
    ] {
        for json in [&["--json"][..], &[]] {
            let full = std::fs::File::options().write(true).open("/dev/full");
            let full = Stdio::from(full.expect("Linux has it"));
            let called = begin(relay.port, &[arguments, json].concat(), full);
            let output = called.wait_with_output().expect("it ends");
            let said = format!(
                "relay {}: cannot write to stdout: No space left on device (os error 28)\n",
                arguments[0]
            );
            assert_eq!(
                (
                    output.status.code(),
                    String::from_utf8_lossy(&output.stderr).as_ref()
                ),
                (Some(1), said.as_str()),
                "{json:?}"
            );
        }
    }
}
