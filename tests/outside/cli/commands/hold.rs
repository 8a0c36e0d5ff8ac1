use super::*;

/// Sends a message as an agent, and returns its id.
pub fn sent(relay: &Relay, from: &str, to: &str, text: &str) -> String {
    let arguments = ["send", "--from", from, to, text, "--json"];
    let assert = ask(relay.port, &arguments).assert().code(0);
    let sent: Value = serde_json::from_str(&stdout_of(&assert)).expect("JSON");
    sent["id"].as_str().expect("an id").to_owned()
}

/// Has a command done that says so.
fn done(relay: &Relay, arguments: &[&str], said: &str) {
    ask(relay.port, arguments)
        .assert()
        .code(0)
        .stdout(said.to_owned())
        .stderr("");
}

#[test]
fn an_agent_that_writes_too_much_is_held_looked_at_and_answered() {
    let relay = told();
    let mut session = relay.session(Way::Sse);
    session.hear_of_start("pm");
    session.hear_of_start("dev-a");
    done(&relay, &["hold", "dev-b"], "what dev-b gets and sends is held\n");
    let first = sent(&relay, "dev-b", "pm", "one");
    let second = sent(&relay, "dev-b", "dev-a", "two");
    let again = "what dev-b gets and sends is held; 2 deliveries are: relay hold shows them\n";
    done(&relay, &["hold", "dev-b"], again);
    let blocks = contains("what dev-b gets and sends is held\n\n[")
        .and(contains(format!(
            "dev-b → pm [free] {} (held for pm)\n  one\n\n[",
            &first[..8]
        )))
        .and(contains(format!(
            "dev-b → dev-a [free] {} (held for dev-a)\n  two\n",
            &second[..8]
        )));
    ask(relay.port, &["hold"]).assert().code(0).stdout(blocks);
    assert!(session.read("pm").bodies().is_empty());
    let passes = format!("{} passes to dev-a\n", &second[..8]);
    done(&relay, &["allow", &second[..8]], &passes);
    assert_eq!(session.read("dev-a").bodies(), ["two"]);
    let dropped = format!("{} is dropped, and will not come to pm\n", &first[..8]);
    done(&relay, &["drop", &first], &dropped);
    let ended = "what dev-b gets and sends is held no more\n";
    done(&relay, &["allow", "dev-b"], ended);
    ask(relay.port, &["allow", "dev-b"])
        .assert()
        .code(3)
        .stdout("")
        .stderr("what dev-b gets and sends is not held\n");
    assert!(session.read("pm").bodies().is_empty());
    ask(relay.port, &["trace", &first])
        .assert()
        .code(0)
        .stdout(contains("held: you hold what its sender sends\n"))
        .stdout(contains("dropped by you: nobody will be handed it\n"));
}

#[test]
fn all_that_is_held_passes_once_the_hold_ends() {
    let relay = told();
    let mut session = relay.session(Way::Sse);
    session.hear_of_start("dev-a");
    done(&relay, &["hold", "--all"], "all messages are held\n");
    sent(&relay, "pm", "dev-a", "one");
    sent(&relay, "pm", "dev-a", "two");
    done(&relay, &["hold", "dev-a", "--json"], "{\"deliveries\":2}\n");
    let listed = ask(relay.port, &["hold"]).assert().code(0);
    let listed = stdout_of(&listed);
    assert!(
        ["all messages are held\n", "one", "two"]
            .iter()
            .all(|said| listed.contains(said)),
        "{listed}"
    );
    let lifted = "{\"lifted\":true,\"deliveries\":0}\n";
    done(&relay, &["allow", "--all", "--json"], lifted);
    let passes = "what dev-a gets and sends is held no more; 2 deliveries pass\n";
    done(&relay, &["allow", "--agent", "dev-a"], passes);
    assert_eq!(session.read("dev-a").bodies(), ["one", "two"]);
}

#[test]
fn an_id_is_told_from_the_name_of_an_agent_which_an_option_names_where_it_looks_like_one() {
    let relay = Relay::start_with(&["--roles", "pm,ace,deadbeef"], &[]);
    done(&relay, &["hold", "ace"], "what ace gets and sends is held\n");
    done(
        &relay,
        &["allow", "ace"],
        "what ace gets and sends is held no more\n",
    );
    ask(relay.port, &["hold", "deadbeef"]).assert().code(0);
    let id = sent(&relay, "pm", "deadbeef", "one");
    ask(relay.port, &["allow", "deadbeef"])
        .assert()
        .code(1)
        .stderr(contains("no message \"deadbeef\" is held"));
    done(
        &relay,
        &["allow", &id],
        &format!("{} passes to deadbeef\n", &id[..8]),
    );
    let ended = "what deadbeef gets and sends is held no more\n";
    done(&relay, &["allow", "--agent", "deadbeef"], ended);
}

#[test]
fn what_is_not_held_is_said_with_exit_code_3() {
    let relay = told();
    for (arguments, said) in [
        (&["hold"][..], "nothing is held\n"),
        (&["allow", "--all"], "all messages are not held\n"),
        (
            &["allow", "--agent", "pm"],
            "what pm gets and sends is not held\n",
        ),
    ] {
        ask(relay.port, arguments)
            .assert()
            .code(3)
            .stdout("")
            .stderr(said);
    }
    let not_held =
        "no message \"3f2a91c0\" is held; accepted: the id of one that is, or its first 8 or more digits\n";
    for command in ["allow", "drop"] {
        ask(relay.port, &[command, "3f2a91c0"])
            .assert()
            .code(1)
            .stderr(format!("relay {command}: {not_held}"));
    }
    let person =
        "relay hold: user is you, and what you send and get is never held; accepted: the name of an agent\n";
    ask(relay.port, &["hold", "user"]).assert().code(1).stderr(person);
}

#[test]
fn what_is_held_is_marked_for_the_person_and_counted() {
    let relay = told();
    let mut session = relay.session(Way::Sse);
    session.hear_of_start("dev-a");
    sent(&relay, "dev-b", "dev-a", "waits");
    ask(relay.port, &["hold", "pm"]).assert().code(0);
    let id = sent(&relay, "pm", "dev-a", "held");
    let marked = format!(
        "pm → dev-a [free] {} (held by you, since its sender is)\n  held\n",
        &id[..8]
    );
    ask(relay.port, &["peek", "dev-a"])
        .assert()
        .code(0)
        .stdout(contains(marked));
    let mut agents = ask(relay.port, &["peek", "dev-a"]);
    agents.env("CLAUDECODE", "1");
    agents
        .assert()
        .code(0)
        .stdout(contains("waits").and(contains("held").not()));
    let inbox = role(&relay, "dev-a");
    assert_eq!((&inbox["unread"], &inbox["held"]), (&json!(1), &json!(1)));
    assert_eq!(role(&relay, "pm")["is_held"], true);
    ask(relay.port, &["status"])
        .assert()
        .code(0)
        .stdout(contains("pm (held)").and(contains("1, 1 held")));
}

#[test]
fn the_sender_is_told() {
    let relay = told();
    let mut session = relay.session(Way::Sse);
    session.hear_of_start("dev-a");
    ask(relay.port, &["hold", "dev-a"]).assert().code(0);
    let note =
        "the person holds what is sent to dev-a, and has not let it pass yet; the message waits until then";
    ask(relay.port, &["send", "--from", "pm", "dev-a", "x"])
        .assert()
        .code(0)
        .stderr(contains(note));
    ask(relay.port, &["send", "dev-a", "x"])
        .assert()
        .code(0)
        .stderr("");
}

#[test]
fn an_agents_shell_holds_and_lets_pass_nothing() {
    let relay = told();
    let refused = "this is an agent's own shell (CLAUDECODE is set), and only the person says what is held, what passes and what is dropped; ask them\n";
    for arguments in [
        &["hold"][..],
        &["hold", "dev-a"],
        &["hold", "--all"],
        &["allow", "--all"],
        &["drop", "3f2a91c0"],
    ] {
        let mut command = ask(relay.port, arguments);
        command.env("CLAUDECODE", "1");
        command
            .assert()
            .code(2)
            .stdout("")
            .stderr(format!("relay {}: {refused}", arguments[0]));
    }
}

#[test]
fn one_of_several_is_asked_for() {
    for arguments in [
        &["hold", "dev-a", "--all"][..],
        &["allow"],
        &["allow", "3f2a91c0", "--all"],
        &["allow", "--agent", "pm", "--all"],
        &["drop"],
    ] {
        relay(arguments).assert().code(2).stdout("");
    }
    let relay = Relay::start();
    for (path, body, reason) in [
        (
            "/api/hold",
            r#"{"agent": "pm", "all": true}"#,
            "\"agent\" and \"all\" exclude each other; accepted: one of them, or none to list what is held",
        ),
        (
            "/api/allow",
            "{}",
            "accepted: one of \"message\", \"agent\" and \"all\"",
        ),
    ] {
        let response = relay.connect().exchange(&Request::post(path, body));
        assert_eq!(
            (response.status, response.json()["error"].as_str()),
            (400, Some(reason))
        );
    }
}

#[test]
fn one_delivery_is_counted_as_one_and_of_several_agents_each_is_named() {
    let relay = told();
    done(&relay, &["hold", "dev-a"], "what dev-a gets and sends is held\n");
    sent(&relay, "pm", "dev-a", "one");
    let again = "what dev-a gets and sends is held; 1 delivery is: relay hold shows it\n";
    done(&relay, &["hold", "dev-a"], again);
    ask(relay.port, &["peek", "dev-a"])
        .assert()
        .code(0)
        .stdout(contains(" (held by you)\n  one\n"));
    let passes = "what dev-a gets and sends is held no more; 1 delivery passes\n";
    done(&relay, &["allow", "dev-a"], passes);
    ask(relay.port, &["send", "--mode", "manual", "dev-a", "two"])
        .assert()
        .code(0);
    done(&relay, &["flush", "dev-a"], "1 message for dev-a held no more\n");
    ask(relay.port, &["hold", "dev-b"]).assert().code(0);
    let id = sent(&relay, "dev-b", "@everyone", "three");
    let both = |before: &str, after: &str| {
        contains(format!("{before}pm, dev-a{after}")).or(contains(format!("{before}dev-a, pm{after}")))
    };
    ask(relay.port, &["hold"])
        .assert()
        .code(0)
        .stdout(both(" (held for ", ")\n  three\n"));
    ask(relay.port, &["allow", &id])
        .assert()
        .code(0)
        .stdout(both(" passes to ", "\n"));
}

#[test]
fn that_an_agent_is_not_held_is_said_whatever_its_name_begins_with() {
    let relay = Relay::start_with(&["--roles", "issues,area"], &[]);
    for agent in ["issues", "area"] {
        let said = format!("what {agent} gets and sends is not held\n");
        ask(relay.port, &["allow", agent])
            .assert()
            .code(3)
            .stdout("")
            .stderr(said);
    }
}
