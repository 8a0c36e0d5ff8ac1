use super::*;

/// Sends a message to dev-a as pm and returns its id.
fn sent(relay: &Relay) -> String {
    let send = ask(relay.port, &["send", "dev-a", "task", "--from", "pm", "--json"]).assert();
    let sent: Value = serde_json::from_str(&stdout_of(&send.code(0))).expect("JSON");
    sent["id"].as_str().expect("an id").to_owned()
}

fn traced(relay: &Relay, id: &str) -> Value {
    let trace = ask(relay.port, &["trace", id, "--json"])
        .assert()
        .code(0)
        .stderr("");
    serde_json::from_str(&stdout_of(&trace)).expect("JSON")
}

#[test]
fn a_message_is_followed_until_it_is_delivered() {
    let relay = told();
    let mut session = relay.session(Way::Sse);
    session.hear_of_start("dev-a");
    let id = sent(&relay);
    let queued = traced(&relay, &id);
    let at = queued["accepted_at"].clone();
    let place = &queued["steps"][0]["seq"];
    assert_eq!(
        queued,
        json!({
            "id": id, "from": "pm", "to": "dev-a", "kind": "free", "accepted_at": at, "priority": "normal",
            "steps": [{"at": at, "agent": "dev-a", "seq": 0, "step": "queued"}],
        })
    );
    assert_eq!(session.read("dev-a").bodies(), ["task"]);
    session.read("dev-a");
    until("it is delivered", || {
        traced(&relay, &id)["steps"].as_array().map(Vec::len) == Some(4)
    });
    let steps = traced(&relay, &id)["steps"].clone();
    let number = relay.health()["connections"][0]["session"].clone();
    let step =
        |n: usize, step: &str| json!({"at": steps[n]["at"], "agent": "dev-a", "seq": place, "step": step});
    let mut expected = [
        step(0, "queued"),
        step(1, "handed_over"),
        step(2, "read"),
        step(3, "delivered"),
    ];
    expected[1]["session"] = number.clone();
    expected[1]["over"] = json!("sse");
    expected[2]["by"] = json!("called_again");
    expected[3]["by"] = json!("called_again");
    assert_eq!(steps, json!(expected));
    let time = |at: &Value| at.as_str().expect("a time").replace('T', " ").replace('Z', "");
    let clock = |n: usize| time(&steps[n]["at"])[11..].to_owned();
    let said = format!(
        "{id}  free  pm → dev-a\n\
         accepted {}\n  \
           dev-a #0  {}  queued\n            \
                     {}  handed over to session {number} (sse)\n            \
                     {}  read: the session called again\n            \
                     {}  delivered\n",
        time(&at),
        clock(0),
        clock(1),
        clock(2),
        clock(3)
    );
    ask(relay.port, &["trace", &id[..8]])
        .assert()
        .code(0)
        .stdout(said)
        .stderr("");
}

#[test]
fn what_came_back_says_why() {
    let relay = told();
    let mut session = relay.session(Way::Sse);
    session.hear_of_start("dev-a");
    let id = sent(&relay);
    assert_eq!(session.read("dev-a").bodies(), ["task"]);
    drop(session);
    until("it is back", || unread(&relay, "dev-a") == 1);
    let trace = ask(relay.port, &["trace", &id]).assert().code(0);
    let text = stdout_of(&trace);
    let last = text.lines().next_back().expect("lines");
    assert!(last.contains("  undone: its connection "), "{text}");
}

#[test]
fn what_the_person_took_says_that_its_agent_has_not_got_it() {
    let relay = told();
    let id = sent(&relay);
    ask(relay.port, &["read", "dev-a"]).assert().code(0);
    until("it is read", || {
        traced(&relay, &id)["steps"].as_array().map(Vec::len) == Some(4)
    });
    let steps = traced(&relay, &id)["steps"].clone();
    assert_eq!(
        (&steps[1]["step"], &steps[1]["taken_by"]),
        (&json!("handed_over"), &json!("user"))
    );
    let trace = ask(relay.port, &["trace", &id]).assert().code(0);
    let text = stdout_of(&trace);
    assert!(text.contains("  you took it from dev-a's inbox\n"), "{text}");
    assert!(
        text.ends_with("  taken by you: its agent will not see it\n"),
        "{text}"
    );
    // What is the person's own says nothing of that.
    let own = relay.session(Way::Sse).post("dev-a", "user", "for you");
    ask(relay.port, &["read"]).assert().code(0);
    assert_eq!(traced(&relay, &own)["steps"][1]["taken_by"], Value::Null);
}

#[test]
fn times_are_those_of_the_clock_that_their_reader_has() {
    let relay = told();
    let id = sent(&relay);
    let shifted = |ts: &Value, hours: i64| {
        let at = chrono::DateTime::parse_from_rfc3339(ts.as_str().expect("a time")).expect("a time");
        let at = at + chrono::TimeDelta::hours(hours);
        at.format("%Y-%m-%d %H:%M:%S").to_string()
    };
    let accepted_at = traced(&relay, &id)["accepted_at"].clone();
    let started_at = relay.health()["started_at"].clone();
    for (arguments, ts, before) in [
        (&["trace", &*id][..], &accepted_at, "accepted "),
        (&["show", &id], &accepted_at, "["),
        (&["peek", "dev-a"], &accepted_at, "["),
        (&["status"], &started_at, "since "),
    ] {
        for (zone, hours) in [("UTC-2", 2), ("UTC+5", -5)] {
            let shown = ask(relay.port, arguments).env("TZ", zone).assert().code(0);
            shown.stdout(contains(format!("{before}{}", shifted(ts, hours))));
        }
    }
}

#[test]
fn a_message_that_is_not_known_is_named() {
    let relay = Relay::start();
    ask(relay.port, &["trace", "3f2a91c0"]).assert().code(1).stdout("").stderr(
        "relay trace: nothing is known of a message \"3f2a91c0\"; accepted: the id of one that relay has accepted, or its first 8 or more digits; only the latest messages are kept in mind, and none from before a restart\n",
    );
    ask(relay.port, &["trace"]).assert().code(2).stdout("");
}

#[test]
fn an_agents_own_shell_is_told_of_no_message() {
    let relay = told();
    let id = sent(&relay);
    let refused = ask(relay.port, &["trace", &id]).env("CLAUDECODE", "1").assert();
    refused.code(2).stdout("").stderr(
        "relay trace: this is an agent's own shell (CLAUDECODE is set), and what happened to a message is shown to the person alone; ask them\n",
    );
}
