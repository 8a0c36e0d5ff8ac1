//! `relay agents`, `groups`, `channels`, `pending` and `wait`.

use super::*;

/// Calls a tool as an agent of a project.
fn tool(relay: &Relay, query: &str, name: &str, arguments: &Value) -> Value {
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    });
    let path = format!("/mcp?{query}");
    let response = relay.connect().exchange(&Request::post(&path, call.to_string()));
    let answer = response.json();
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    answer
}

fn json_of(relay: &Relay, arguments: &[&str]) -> Value {
    let told = ask(relay.port, &[arguments, &["--json"]].concat())
        .assert()
        .code(0);
    serde_json::from_str(&stdout_of(&told.stderr(""))).expect("JSON")
}

#[test]
fn agents_are_listed_with_what_they_say_of_themselves() {
    let relay = told();
    let query = "agent=lead&project=web&role=planner&cli=claude&tools=thrum";
    tool(&relay, query, "list_agents", &json!({}));
    let listed = stdout_of(&ask(relay.port, &["agents"]).assert().code(0).stderr(""));
    let rows: Vec<Vec<&str>> = listed
        .lines()
        .map(|row| row.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["agent", "status", "last", "contact", "cli", "role"]);
    assert_eq!(rows[1], ["dev-a", "offline", "-", "-", "-"]);
    let lead = rows.last().expect("rows");
    assert_eq!([lead[0], lead[1]], ["web:lead", "active"]);
    assert_eq!(lead[4..], ["claude", "planner"]);

    let active = json_of(&relay, &["agents", "--active"]);
    let last_contact = active["agents"][0]["last_contact"].clone();
    assert!(last_contact.is_string(), "{active}");
    let lead = json!({"agent": "web:lead", "role": "planner", "cli": "claude", "status": "active", "last_contact": last_contact});
    assert_eq!(active, json!({"agents": [lead]}));
    assert_eq!(json_of(&relay, &["agents", "--project", "web"]), active);
    let of_default = json_of(&relay, &["agents", "--project", "default"]);
    assert_eq!(of_default["agents"].as_array().expect("agents").len(), 3);

    let none = ask(relay.port, &["agents", "--project", "api"]).assert();
    none.code(3).stdout("").stderr("no agents\n");
    let none = ask(relay.port, &["agents", "--project", "api", "--json"]).assert();
    none.code(3).stdout("{\"agents\":[]}\n");
    let refused = ask(relay.port, &["agents", "--project", "a b"]).assert().code(1);
    refused.stderr(contains("\"a b\""));
}

#[test]
fn groups_are_listed_and_looked_into() {
    let relay = told();
    let pm = "agent=pm&tools=thrum";
    let crew = json!({"name": "crew", "description": "who \u{1b}builds"});
    tool(&relay, pm, "create_group", &crew);
    for (kind, value) in [("agent", "dev-a"), ("role", "tester")] {
        let member = json!({"group": "crew", "member_type": kind, "member_value": value});
        tool(&relay, pm, "add_group_member", &member);
    }
    tool(
        &relay,
        "agent=ui&project=web&role=designer&tools=thrum",
        "create_group",
        &json!({"name": "crew"}),
    );
    let listed = ask(relay.port, &["groups"]).assert().code(0).stderr("");
    assert_eq!(
        stdout_of(&listed),
        "group      members  made by  what it is for\n\
         @everyone  3        relay    All agents\n\
         @crew      2        pm       who \\u{1b}builds\n"
    );
    let seen = ask(relay.port, &["groups", "@crew"]).assert().code(0).stderr("");
    assert_eq!(
        stdout_of(&seen),
        "@crew: who \\u{1b}builds\nmade by pm\nmembers: dev-a, @tester (role)\nagents: dev-a\n"
    );
    let seen = json_of(&relay, &["groups", "crew"]);
    let expected = json!({
        "group": "crew", "description": "who \u{1b}builds", "created_at": seen["created_at"], "created_by": "pm",
        "members": [{"agent": "dev-a"}, {"role": "tester"}], "agents": ["dev-a"],
    });
    assert_eq!(seen, expected);
    for named in [
        &["web:crew"][..],
        &["crew", "--project", "web"],
        &["@crew", "--project", "web"],
    ] {
        let seen = ask(relay.port, &[&["groups"], named].concat()).assert().code(0);
        let told = stdout_of(&seen);
        assert!(
            told.starts_with("web:@crew\nmade by web:ui\nmembers: nobody\n"),
            "{told}"
        );
    }
    let of_web = json_of(&relay, &["groups", "--project", "web"]);
    assert_eq!(of_web["groups"][1]["group"], "web:crew");
    let unknown = ask(relay.port, &["groups", "crow"]).assert().code(1);
    unknown.stderr(contains("relay groups: ").and(contains("crew")));
}

#[test]
fn channels_are_listed_and_looked_into() {
    let relay = told();
    let pm = "agent=pm&tools=agent-relay";
    tool(
        &relay,
        pm,
        "relay_send",
        &json!({"to": "#builds", "message": "green"}),
    );
    let listed = stdout_of(&ask(relay.port, &["channels"]).assert().code(0).stderr(""));
    assert_eq!(listed, "channel   members  topic\n#general  3\n#builds   1\n");
    for named in ["builds", "#builds"] {
        let seen = stdout_of(&ask(relay.port, &["channels", named]).assert().code(0).stderr(""));
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(lines[..2], ["#builds", "member  since"]);
        assert!(lines[2].starts_with("pm      2"), "{seen}");
    }
    let seen = json_of(&relay, &["channels", "builds"]);
    assert_eq!(
        (&seen["channel"], &seen["members"][0]["agent"]),
        (&json!("builds"), &json!("pm"))
    );
    let all = json_of(&relay, &["channels"]);
    assert_eq!(all["channels"][1]["members"], 1);
    let unknown = ask(relay.port, &["channels", "#release"]).assert().code(1);
    unknown.stderr(contains("release"));
}

#[test]
fn what_waits_is_counted_by_what_it_is_for_and_stays() {
    let relay = told();
    let nothing = ask(relay.port, &["pending"]).assert();
    nothing.code(3).stdout("").stderr("nothing for user\n");
    for kind in ["question", "status", "question"] {
        ask(relay.port, &["send", "dev-a", "x", "--kind", kind])
            .assert()
            .code(0);
    }
    for _ in 0..2 {
        let counted = ask(relay.port, &["pending", "dev-a"]).assert().code(0).stderr("");
        assert_eq!(stdout_of(&counted), "3 for dev-a: 2 question, 1 status\n");
    }
    let expected = json!({"count": 3, "kinds": ["question", "status", "question"]});
    assert_eq!(json_of(&relay, &["pending", "dev-a"]), expected);
}

#[test]
fn a_wait_takes_one_message_of_whom_it_names() {
    let relay = told();
    for (from, body) in [("dev-a", "one"), ("pm", "two"), ("dev-a", "three")] {
        let sent = ["send", "user", body, "--from", from];
        ask(relay.port, &sent).assert().code(0);
    }
    let taken = |arguments: &[&str]| {
        let taken = json_of(&relay, &[&["wait", "--timeout", "20"], arguments].concat());
        let taken = taken.as_array().expect("messages").clone();
        taken
            .iter()
            .map(|message| message["body"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(taken(&["--from", "pm"]), ["two"]);
    assert_eq!(taken(&[]), ["one"]);
    assert_eq!(unread(&relay, "user"), 1);
    let late = ask(relay.port, &["wait", "--from", "pm", "--timeout", "0.2"]).assert();
    late.code(4).stdout("").stderr("nothing for user in 0.2 s\n");
    assert_eq!(taken(&["--from", "dev-a"]), ["three"]);

    let mut waiting = begin(relay.port, &["wait", "--from", "pm"], Stdio::piped());
    await_wait(&relay, "user");
    relay.session(Way::Sse).post("dev-b", "user", "not this");
    relay.session(Way::Sse).post("pm", "user", "this");
    // It ends once what it has taken is read.
    let mut told = String::new();
    let mut stdout = waiting.stdout.take().expect("it is piped");
    std::io::Read::read_to_string(&mut stdout, &mut told).expect("text");
    assert!(waiting.wait().expect("it ends").success());
    assert!(told.ends_with("  this\n"), "{told}");
    let left = ask(relay.port, &["read"]).assert().code(0);
    assert!(stdout_of(&left).ends_with("  not this\n"));
}

#[test]
fn a_wait_for_what_is_the_persons_is_refused_in_an_agents_own_shell() {
    let relay = told();
    let mut wait = ask(relay.port, &["wait"]);
    let refused = wait.env("CLAUDECODE", "1").assert().code(2).stdout("");
    refused.stderr(contains("name your own: relay wait ROLE"));
    let endless = ask(relay.port, &["wait", "--timeout", "86401"]).assert().code(2);
    endless.stderr(contains("from 0 to 86400"));
}

#[test]
fn an_agent_that_is_not_used_is_retired() {
    let relay = told();
    let query = "agent=lead&project=web&role=planner&tools=thrum";
    tool(&relay, query, "list_agents", &json!({}));
    ask(relay.port, &["send", "web:lead", "x"]).assert().code(0);
    relay.await_sessions(0);
    let used = ask(relay.port, &["retire", "web:lead"]).assert();
    used.code(1).stdout("").stderr(
        "relay retire: 1 message waits for \"web:lead\" or may come back to it; read it first: relay read web:lead\n",
    );
    ask(relay.port, &["read", "web:lead"]).assert().code(0);
    // What was read may come back for a moment still.
    until("the read is over", || role(&relay, "web:lead")["in_doubt"] == 0);
    let retired = ask(relay.port, &["retire", "web:lead", "--json"]).assert();
    retired.code(0).stdout("{\"retired\":\"web:lead\"}\n").stderr("");
    let unknown = ask(relay.port, &["retire", "web:lead"]).assert().code(1);
    unknown.stderr(contains("unknown role \"web:lead\""));
    let roster = ask(relay.port, &["retire", "pm"]).assert().code(1);
    roster.stderr(
        "relay retire: \"pm\" is one of the roster, which is always there; start relay with other --roles\n",
    );
    let mut in_agent = ask(relay.port, &["retire", "pm"]);
    let refused = in_agent.env("CODEX_THREAD_ID", "x").assert().code(2);
    refused.stderr(contains("only the person retires agents"));
}

#[test]
fn an_agent_for_which_messages_are_held_is_not_retired() {
    let relay = told();
    let query = "agent=lead&project=web&role=planner&tools=thrum";
    tool(&relay, query, "list_agents", &json!({}));
    ask(relay.port, &["hold", "web:lead"]).assert().code(0);
    let ids = ["x", "y"].map(|text| super::hold::sent(&relay, "web:lead", "web:lead", text));
    relay.await_sessions(0);
    ask(relay.port, &["retire", "web:lead"]).assert().code(1).stderr(
        "relay retire: 2 messages for \"web:lead\" are held; drop them, or let them pass and read them, first: relay hold lists what is held\n",
    );
    ask(relay.port, &["drop", &ids[0]]).assert().code(0);
    ask(relay.port, &["retire", "web:lead"]).assert().code(1).stderr(
        "relay retire: 1 message for \"web:lead\" is held; drop it, or let it pass and read it, first: relay hold lists what is held\n",
    );
    ask(relay.port, &["drop", &ids[1]]).assert().code(0);
    ask(relay.port, &["retire", "web:lead"]).assert().code(0);
}

#[test]
fn an_agent_is_listed_with_whom_it_works_for() {
    let relay = told();
    let query = "agent=w1&parent=lead&role=builder&cli=claude&tools=thrum";
    tool(&relay, query, "list_agents", &json!({}));
    let listed = stdout_of(&ask(relay.port, &["agents"]).assert().code(0).stderr(""));
    let row = listed.lines().find(|row| row.starts_with("w1 "));
    let row = row.unwrap_or_else(|| panic!("{listed}"));
    assert!(row.ends_with("  claude  builder, works for lead"), "{row}");
}

#[test]
fn channels_of_another_project_are_listed_and_looked_into_with_topics_that_steer_nothing() {
    let relay = told();
    let _registered = relay.bound_session(Way::Sse, "ui&project=web&role=designer");
    let make = [
        "channel",
        "make",
        "web:#build",
        "web:ui",
        "--topic",
        "the\u{1b}build",
    ];
    ask(relay.port, &make).assert().code(0);
    let channels = |named: &[&str]| {
        let arguments = [&["channels", "--project", "web"], named].concat();
        stdout_of(&ask(relay.port, &arguments).assert().code(0).stderr(""))
    };
    let listed = channels(&[]);
    assert!(
        listed.ends_with("\nweb:#build    1        the\\u{1b}build\n"),
        "{listed}"
    );
    let seen = channels(&["build"]);
    let head = "web:#build: the\\u{1b}build\nmember  since\nweb:ui  2";
    assert!(seen.starts_with(head), "{seen}");
}
