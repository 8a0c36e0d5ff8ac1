//! `relay group` and `relay channel`: who is in them as the person has it.

use super::hold::sent;
use super::*;

fn done(relay: &Relay, arguments: &[&str], said: &str) {
    ask(relay.port, arguments)
        .assert()
        .code(0)
        .stdout(said.to_owned())
        .stderr("");
}

fn refused(relay: &Relay, arguments: &[&str], why: &str) {
    let refused = ask(relay.port, arguments).assert().code(1).stdout("");
    let command = format!("relay {}: ", arguments[0]);
    refused.stderr(starts_with(command).and(contains(why)));
}

#[test]
fn the_person_makes_a_group_fills_it_and_removes_it() {
    let relay = told();
    done(
        &relay,
        &["group", "make", "crew", "--description", "all hands"],
        "@crew is made\n",
    );
    refused(&relay, &["group", "make", "@crew"], "crew");
    done(
        &relay,
        &["group", "join", "crew", "dev-a", "dev-b", "--role", "tester"],
        "dev-a is in @crew\ndev-b is in @crew\n@tester (role) is in @crew\n",
    );
    let listed = stdout_of(&ask(relay.port, &["groups", "crew"]).assert().code(0));
    assert!(listed.starts_with("@crew: all hands\nmade by user\n"), "{listed}");
    assert!(
        listed.contains("members: dev-a, dev-b, @tester (role)\n"),
        "{listed}"
    );
    sent(&relay, "pm", "@crew", "to all");
    assert_eq!([unread(&relay, "dev-a"), unread(&relay, "dev-b")], [1, 1]);
    done(
        &relay,
        &["group", "leave", "crew", "dev-a", "--json"],
        "{\"group\":\"crew\",\"agent\":\"dev-a\"}\n",
    );
    done(
        &relay,
        &["group", "leave", "crew", "--role", "tester"],
        "@tester (role) has left @crew\n",
    );
    refused(&relay, &["group", "leave", "crew", "dev-a"], "dev-a");
    refused(&relay, &["group", "join", "crew", "nobody"], "nobody");
    refused(&relay, &["group", "join", "everyone", "dev-a"], "everyone");
    done(&relay, &["group", "remove", "crew"], "@crew is removed\n");
    refused(&relay, &["group", "remove", "crew"], "crew");
    ask(relay.port, &["group", "join", "crew"]).assert().code(2);
}

#[test]
fn the_person_makes_a_channel_with_agents_in_it_and_has_them_leave() {
    let relay = told();
    let make = [
        "channel",
        "make",
        "#build",
        "dev-a",
        "dev-b",
        "--topic",
        "the build",
    ];
    done(&relay, &make, "in #build: dev-a, dev-b\n");
    refused(&relay, &make, "build");
    let listed = stdout_of(&ask(relay.port, &["channels", "build"]).assert().code(0));
    assert!(listed.starts_with("#build: the build\n"), "{listed}");
    ask(relay.port, &["send", "#build", "green"]).assert().code(0);
    assert_eq!(
        [
            unread(&relay, "dev-a"),
            unread(&relay, "dev-b"),
            unread(&relay, "pm")
        ],
        [1, 1, 0]
    );
    done(
        &relay,
        &["channel", "join", "build", "pm", "dev-a"],
        "in #build: dev-a, dev-b, pm\n",
    );
    // All or none.
    refused(&relay, &["channel", "leave", "build", "pm", "nobody"], "nobody");
    refused(&relay, &["channel", "join", "build", "user"], "user");
    done(
        &relay,
        &["channel", "leave", "build", "pm", "dev-b", "--json"],
        "{\"channel\":\"build\",\"members\":[\"dev-a\"]}\n",
    );
    refused(&relay, &["channel", "leave", "build", "dev-a", "pm"], "pm");
    done(
        &relay,
        &["channel", "leave", "build", "dev-a"],
        "#build is removed\n",
    );
    refused(&relay, &["channel", "join", "build", "dev-a"], "#build");
    done(
        &relay,
        &["channel", "make", "build", "dev-a"],
        "in #build: dev-a\n",
    );
    done(&relay, &["channel", "remove", "build"], "#build is removed\n");
    refused(&relay, &["channel", "remove", "general"], "general");
    refused(&relay, &["channel", "remove", "build"], "#build");
    ask(relay.port, &["channel", "make", "build"]).assert().code(2);
}

#[test]
fn what_is_in_another_project_is_named_with_it() {
    let relay = told();
    let _registered = relay.bound_session(Way::Sse, "ui&project=web&role=designer");
    done(&relay, &["group", "make", "web:crew"], "web:@crew is made\n");
    done(
        &relay,
        &["group", "join", "web:crew", "web:ui", "--role", "tester"],
        "web:ui is in web:@crew\n@tester (role) is in web:@crew\n",
    );
    done(&relay, &["group", "remove", "web:crew"], "web:@crew is removed\n");
    let made = "in web:#build: web:ui\n";
    done(&relay, &["channel", "make", "web:#build", "web:ui"], made);
    let removed = "web:#build is removed\n";
    done(&relay, &["channel", "remove", "web:build"], removed);
}

#[test]
fn who_asks_for_it_over_http_is_told_what_is_taken() {
    let relay = told();
    let post = |path: &str, json: &Value| {
        let request = Request::post(path, json.to_string());
        relay.connect().exchange(&request)
    };
    let both = json!({"do": "join", "group": "crew", "agent": "dev-a", "role": "tester"});
    assert_eq!(post("/api/group", &both).status, 400);
    assert_eq!(
        post("/api/group", &json!({"do": "join", "group": "crew"})).status,
        400
    );
    assert_eq!(
        post("/api/channel", &json!({"do": "paint", "channel": "x"})).status,
        400
    );
    let empty = post(
        "/api/channel",
        &json!({"do": "make", "channel": "x", "agents": []}),
    );
    assert_eq!(empty.status, 400);
    let reason = empty.json()["error"].as_str().expect("text").to_owned();
    assert!(
        reason.contains("channel \"x\" would have nobody in it"),
        "{reason}"
    );
}
