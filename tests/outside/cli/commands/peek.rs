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
