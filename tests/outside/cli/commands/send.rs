use super::*;

/// What is noted where the clock is so many hours ahead of UTC.
fn noted_at(relay: &Relay, agent: &str, hours: i64) -> String {
    let health = relay.health();
    let started_at = health["started_at"].as_str().expect("a time");
    let started_at = chrono::DateTime::parse_from_rfc3339(started_at).expect("a time");
    let started_at = started_at + chrono::TimeDelta::hours(hours);
    let started_at = started_at.format("%Y-%m-%d %H:%M:%S");
    format!("note: no agent has read for {agent} since relay started at {started_at}; the message waits\n")
}

/// What is said of an agent for which nobody has read yet.
fn noted(relay: &Relay, agent: &str) -> String {
    noted_at(relay, agent, 0)
}

#[test]
fn the_times_in_a_note_are_those_of_the_clock_that_its_reader_has() {
    let relay = Relay::start();
    for (zone, hours) in [("UTC-2", 2), ("UTC+5", -5)] {
        ask(relay.port, &["send", "dev-a", "x"])
            .env("TZ", zone)
            .assert()
            .code(0)
            .stderr(noted_at(&relay, "dev-a", hours));
    }
}

#[test]
fn nothing_is_noted_once_somebody_is_there() {
    let relay = Relay::start();
    let mut session = relay.session(Way::Sse);
    session.hear_of_start("dev-a");
    ask(relay.port, &["send", "dev-a", "Hold on"])
        .assert()
        .code(0)
        .stderr("");
    let sent = ask(relay.port, &["send", "dev-a", "Hold on", "--json"])
        .assert()
        .code(0);
    let sent: Value = serde_json::from_str(&stdout_of(&sent)).expect("JSON");
    assert_eq!(sent.as_object().map(serde_json::Map::len), Some(1), "{sent}");
}

/// The person is in no channel, and brings nobody into one.
#[test]
fn a_message_to_a_channel_that_nobody_is_in_is_noted() {
    let relay = Relay::start();
    ask(relay.port, &["send", "#builds", "green"])
        .assert()
        .code(0)
        .stdout("sent to #builds\n")
        .stderr("note: nobody had made or joined #builds, so nobody got the message; look at how its name is written\n");
}

#[test]
fn a_message_is_from_the_person_and_free_if_nothing_else_is_said() {
    let relay = Relay::start();
    ask(relay.port, &["send", "dev-a", "Hold on"])
        .assert()
        .code(0)
        .stdout("sent to dev-a\n")
        .stderr(noted(&relay, "dev-a"));
    assert!(relay.line().ends_with("] user → dev-a [free] \"Hold on\""));
    let read = relay.session(Way::Http).read("dev-a").messages();
    let [message] = read.as_slice() else {
        panic!("{read:?}");
    };
    let fields = ["from", "to", "kind", "body"].map(|field| message[field].clone());
    assert_eq!(fields, ["user", "dev-a", "free", "Hold on"]);
}

#[test]
fn sender_and_kind_can_be_named_and_the_id_is_told_in_json() {
    let relay = Relay::start();
    let arguments = [
        "send",
        "dev-a",
        "--from",
        "pm",
        "--kind",
        "directive",
        "GO",
        "--json",
    ];
    let sent = ask(relay.port, &arguments).assert().code(0).stderr("");
    let sent: Value = serde_json::from_str(&stdout_of(&sent)).expect("JSON");
    let read = relay.session(Way::Http).read("dev-a").messages();
    // For a script, as relay says it.
    let started_at = relay.health()["started_at"].clone();
    let started_at = started_at.as_str().expect("a time");
    let note = format!("no agent has read for dev-a since relay started at {started_at}; the message waits");
    assert_eq!(sent, json!({"id": read[0]["id"], "note": note}));
    assert_eq!([&read[0]["from"], &read[0]["kind"]], ["pm", "directive"]);
}

#[test]
fn a_message_may_belong_to_a_thread_and_answer_another() {
    let relay = Relay::start();
    ask(relay.port, &["send", "dev-a", "one", "--thread", "b1"])
        .assert()
        .code(0);
    let first = relay.session(Way::Http).read("dev-a").messages();
    let id = first[0]["id"].as_str().expect("an id");
    assert_eq!(
        [&first[0]["thread"], &first[0]["reply_to"]],
        [&json!("b1"), &Value::Null]
    );
    let answer = ["send", "user", "two", "--from", "dev-a", "--reply-to", id];
    ask(relay.port, &answer).assert().code(0);
    let peek = ask(relay.port, &["peek"]).assert().code(0);
    let head = stdout_of(&peek);
    let peek = ask(relay.port, &["peek", "--json"]).assert().code(0);
    let seen: Value = serde_json::from_str(&stdout_of(&peek)).expect("JSON");
    let id_of_answer = &seen[0]["id"].as_str().expect("an id")[..8];
    assert!(head.contains(&format!(" dev-a → user [free] {id_of_answer} thread b1\n")));
    assert_eq!([&seen[0]["thread"], &seen[0]["reply_to"]], ["b1", id]);
    ask(relay.port, &["send", "dev-a", "three", "--reply-to", "nobody's"])
        .assert()
        .code(1)
        .stderr(predicates::str::starts_with(
            "relay send: unknown message \"nobody's\"; accepted: ",
        ));
}

#[test]
fn the_person_lets_agents_go_on_that_have_gone_back_and_forth_too_often() {
    let relay = Relay::start_with(&["--hops-max", "1"], &[]);
    let says = |from: &str, to: &str| {
        let sent = ask(
            relay.port,
            &["send", to, "and you?", "--from", from, "--thread", "b1"],
        )
        .assert();
        (
            sent.get_output().status.code(),
            String::from_utf8_lossy(&sent.get_output().stderr).into_owned(),
        )
    };
    let mut session = relay.session(Way::Sse);
    for agent in ["pm", "dev-a"] {
        session.hear_of_start(agent);
    }
    let done = (Some(0), String::new());
    assert_eq!(says("pm", "dev-a"), done);
    assert_eq!(says("dev-a", "pm"), done);
    let (code, reason) = says("pm", "dev-a");
    assert_eq!(code, Some(1));
    let advice = "by a message to you in that thread: relay send NAME TEXT --thread THREAD\n";
    assert!(reason.ends_with(advice), "{reason}");
    ask(relay.port, &["send", "pm", "go on", "--thread", "b1"])
        .assert()
        .code(0);
    assert_eq!(says("pm", "dev-a"), done);
}

#[test]
fn the_message_is_read_from_stdin_without_its_last_line_break() {
    let relay = Relay::start();
    let largest = "x".repeat(1024 * 1024);
    for (arguments, stdin, body) in [
        (vec!["send", "pm"], "one\ntwo\n", "one\ntwo"),
        (vec!["send", "pm", "-"], "three\r\n", "three"),
        (vec!["send", "pm", "-"], "four\n\n", "four\n"),
        (vec!["send", "pm", "-"], "", ""),
        (vec!["send", "pm"], &format!("{largest}\r\n"), &largest),
    ] {
        let mut send = ask(relay.port, &arguments);
        send.write_stdin(stdin).assert().code(0);
        assert_eq!(relay.session(Way::Http).read("pm").bodies(), [body]);
    }
}

#[test]
fn a_message_that_is_none_is_not_sent() {
    let relay = Relay::start();
    let missing = "relay send: the message is missing; give it as the last argument, or pipe it in\n";
    ask(relay.port, &["send", "pm"])
        .assert()
        .code(2)
        .stdout("")
        .stderr(missing);
    let long = "x".repeat(1024 * 1024 + 1);
    ask(relay.port, &["send", "pm"])
        .write_stdin(long)
        .assert()
        .code(1)
        .stderr(
            "relay send: the message from stdin has more than 1048576 bytes, the most that is accepted\n",
        );
    ask(relay.port, &["send", "pm", "-"])
        .write_stdin(vec![b'a', 0xff])
        .assert()
        .code(1)
        .stderr(starts_with("relay send: cannot read the message from stdin: "));
    ask(relay.port, &["send", "pm", "hello", "--kind", "shout"])
        .assert()
        .code(2)
        .stderr(contains(
            "unknown kind \"shout\"; known kinds: status, question, directive, free",
        ));
    assert_eq!(unread(&relay, "pm"), 0);
}

#[test]
fn what_the_relay_refuses_is_said_in_its_words() {
    let relay = Relay::start();
    let unknown = "relay send: unknown role \"dev-c\"; known roles: pm, dev-a, dev-b";
    let others = "a message may also go to user, @group, #channel, * or @everyone";
    for (arguments, said) in [
        (
            ["send", "dev-c", "x"].as_slice(),
            format!("{unknown}; {others}\n"),
        ),
        (&["send", "pm", "x", "--from", "dev-c"], format!("{unknown}\n")),
    ] {
        ask(relay.port, arguments)
            .assert()
            .code(1)
            .stdout("")
            .stderr(said);
    }
}

#[test]
fn what_an_agent_sends_from_its_shell_says_whose_it_is() {
    let relay = told();
    for variable in [
        "CLAUDECODE",
        "CODEX_THREAD_ID",
        "GEMINI_CLI",
        "OPENCODE",
        "RELAY_PARENT",
    ] {
        let send = |from: &[&str]| {
            let mut command = ask(relay.port, &[&["send", "dev-a", "x"], from].concat());
            for other in [
                "CLAUDECODE",
                "CODEX_THREAD_ID",
                "GEMINI_CLI",
                "OPENCODE",
                "RELAY_PARENT",
            ] {
                command.env_remove(other);
            }
            command.env(variable, "1");
            command.assert()
        };
        let reason = format!(
            "relay send: this is an agent's own shell ({variable} is set), and a message without --from is the person's; say whose it is: --from ROLE\n"
        );
        send(&[]).code(2).stdout("").stderr(contains(reason));
        send(&["--from", "pm"]).code(0);
    }
    assert_eq!(relay.bodies("dev-a"), ["x"; 5]);
}

#[test]
fn an_agents_shell_takes_nothing_that_is_the_persons() {
    let relay = told();
    ask(relay.port, &["send", "user", "for you"]).assert().code(0);
    let agents = |arguments: &[&str]| {
        let mut command = ask(relay.port, arguments);
        command.env("CLAUDECODE", "1");
        command.assert()
    };
    let refused = "this is an agent's own shell (CLAUDECODE is set), and the inbox of user is the person's; name your own: relay read ROLE, or take nothing: relay peek\n";
    for arguments in [&["read"][..], &["read", "user", "--wait", "5"]] {
        agents(arguments)
            .code(2)
            .stdout("")
            .stderr(format!("relay read: {refused}"));
    }
    let refused = contains("and what is held for user is the person's; name an agent: relay flush ROLE\n");
    agents(&["flush"]).code(2).stdout("").stderr(refused);
    agents(&["read", "dev-a"]).code(3);
    agents(&["flush", "dev-a"]).code(3);
    agents(&["peek"]).code(0).stdout(contains("\n  for you\n"));
    let read = ask(relay.port, &["read"]).assert().code(0);
    assert!(stdout_of(&read).contains("\n  for you\n"));
}

#[test]
fn a_message_of_other_letters_that_is_too_long_is_said_to_be_that() {
    let relay = Relay::start();
    let said = "relay send: the message from stdin has more than 1048576 bytes, the most that is accepted\n";
    let mut send = ask(relay.port, &["send", "pm"]);
    send.write_stdin("é".repeat(600_000))
        .assert()
        .code(1)
        .stdout("")
        .stderr(said);
}
