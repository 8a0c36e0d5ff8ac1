//! Thrum's tools from arguments to texts and data, on an engine.

use relay::engine::limits::ACTIVE_MS;
use relay::tools::{ReplyBytes, ToolResult, Toolsets};
use serde_json::{Value, json};

use super::through_the_tools::called_with;
use super::*;

const PM: SessionId = SessionId(4);
const DEV_A: SessionId = SessionId(5);
const UI: SessionId = SessionId(6);

const NOTICE: &str = "relay started at 2026-05-02T14:30:00.000Z; nothing sent before that is here; \
                      send again what was not acknowledged";

const ID: &str = "01010101-0101-4101-8101-010101010101";

const TS: &str = "2026-05-02T14:30:00.000Z";

/// A relay where pm, dev-a and an agent of another project have sessions, and nobody was told of the start.
fn relay() -> Relay {
    let mut relay = Relay::after_sessions_of(Bounds::default(), &["dev-a"]);
    relay.open(A, Carrier::Stream, None);
    relay.open(PM, Carrier::Stream, Some("pm"));
    relay.open(DEV_A, Carrier::Stream, Some("dev-a"));
    relay.register(UI, of_role("designer", registration("web:ui", None)));
    relay
}

/// The same, where all were told.
fn relay_told() -> Relay {
    let mut relay = relay();
    for (call, session) in [(900, PM), (901, DEV_A), (902, UI)] {
        called(&mut relay, session, call, "check_messages", json!({}));
        relay.passed(call);
    }
    relay
}

/// The texts of an answer and its data.
#[track_caller]
fn called(
    relay: &mut Relay,
    session: SessionId,
    call: u64,
    tool: &str,
    value: Value,
) -> (Vec<String>, Option<Value>) {
    let thrum: Toolsets = "thrum".parse().expect("a toolset");
    let (texts, data, is_error) = called_with(relay, thrum, session, call, tool, value);
    assert_eq!(
        is_error,
        data.is_none(),
        "an answer is data, a refusal is none: {texts:?}"
    );
    (texts, data)
}

/// The data of an answer, which is also its first text.
#[track_caller]
fn data(relay: &mut Relay, session: SessionId, call: u64, tool: &str, value: Value) -> Value {
    let (texts, data) = called(relay, session, call, tool, value);
    let data = data.unwrap_or_else(|| panic!("{texts:?}"));
    assert_eq!(serde_json::from_str::<Value>(&texts[0]).ok(), Some(data.clone()));
    data
}

#[track_caller]
fn refusal(relay: &mut Relay, session: SessionId, call: u64, tool: &str, value: Value) -> String {
    let (texts, data) = called(relay, session, call, tool, value);
    assert_eq!((texts.len(), data), (1, None));
    texts.concat()
}

#[test]
fn what_is_sent_says_how_it_was_resolved_and_what_else_was_possible() {
    let mut relay = relay_told();
    relay.register(SessionId(7), of_role("dev-a", registration("helper", None)));
    let to = |to: &str| json!({"to": to, "content": "hello"});
    assert_eq!(
        data(&mut relay, PM, 1, "send_message", to("@dev-a")),
        json!({
            "status": "delivered",
            "message_id": ID,
            "resolved_to": "name",
            "warnings": ["dev-a is a role of others, too; it was sent to the agent"],
        })
    );
    for (call, address, by) in [
        (2, "agent:dev-a:x", "role"),
        (3, "#general", "channel"),
        (4, "@everyone", "group"),
        (11, "*", "group"),
        (12, "web:@everyone", "group"),
        (13, "*:*", "broadcast"),
    ] {
        let sent = data(&mut relay, PM, call, "send_message", to(address));
        assert_eq!(
            [&sent["resolved_to"], &sent["warnings"]],
            [&json!(by), &json!([])],
            "{address}"
        );
    }
    let sent = data(&mut relay, PM, 5, "send_message", to("#own"));
    assert_eq!(
        sent["warnings"],
        json!(["nobody had made or joined #own, so nobody got the message; look at how its name is written"])
    );
    let again = data(&mut relay, PM, 50, "send_message", to("#own"));
    assert_eq!(
        again["warnings"],
        json!(["#own has no other member yet; nobody got the message"])
    );
    for sent in [&sent, &again] {
        assert_eq!(sent["status"], "no_recipients");
    }
    assert_eq!(sent.get("note"), None, "it is said once");
    let sent = data(
        &mut relay,
        PM,
        6,
        "broadcast_message",
        json!({"content": "to all"}),
    );
    assert_eq!(sent["resolved_to"], "group");
    relay.register(SessionId(8), of_role("ops", registration("bob", None)));
    for (call, address, warnings) in [
        (
            14,
            "@ops",
            json!(["@ops matched a role; it was sent to all of that role"]),
        ),
        (
            15,
            "default:@ops",
            json!(["default:@ops matched a role; it was sent to all of that role"]),
        ),
        (16, "ops", json!([])),
        (17, "agent:ops:x", json!([])),
        (18, "@bob", json!([])),
    ] {
        let sent = data(&mut relay, PM, call, "send_message", to(address));
        assert_eq!(sent["warnings"], warnings, "{address}");
    }
    assert_eq!(
        refusal(&mut relay, PM, 7, "send_message", to("nobody")),
        "Error: unknown agent \"nobody\"; known agents: pm, dev-a, dev-b, bob, helper; another is known once its own session has begun; a message may also go to user, @group, #channel, * or @everyone"
    );
    assert_eq!(
        refusal(&mut relay, PM, 9, "send_message", to("nowhere:*")),
        "Error: unknown agent \"nowhere:*\"; there is no project \"nowhere\"; known projects: default, web"
    );
    assert_eq!(
        refusal(&mut relay, A, 8, "send_message", to("pm")),
        "Error: this session is nobody's: name its agent where it is opened, by --agent NAME or ?agent=NAME; known agents: pm, dev-a, dev-b, bob, helper"
    );
}

/// Claude Code shows its model the data of an answer, and no texts beside it.
#[test]
fn the_start_is_told_in_the_data_of_whatever_answer_is_the_first() {
    let mut relay = relay();
    let (texts, listed) = called(&mut relay, DEV_A, 1, "list_agents", json!({}));
    let listed = listed.expect("data");
    assert_eq!((&listed["notice"], &*texts[1]), (&json!(NOTICE), NOTICE));
    let again = data(&mut relay, DEV_A, 2, "list_agents", json!({}));
    assert_eq!((again.get("notice"), &again["count"]), (None, &listed["count"]));
}

#[test]
fn what_is_checked_is_shown_with_all_that_was_said_and_what_remains() {
    let mut relay = relay();
    let (texts, empty) = called(&mut relay, DEV_A, 1, "check_messages", json!({}));
    let expected = json!({"status": "empty", "messages": [], "remaining": 0, "notice": NOTICE});
    assert_eq!(empty, Some(expected));
    assert_eq!(texts[1..], [NOTICE]);
    let message = json!({"to": "dev-a", "content": "a \"b\"", "metadata": {"n": [1, null]}});
    data(&mut relay, PM, 2, "send_message", message);
    let reply = json!({"to": "dev-a", "content": "two", "reply_to": ID});
    assert_eq!(data(&mut relay, PM, 3, "send_message", reply)["thread_id"], ID);
    data(
        &mut relay,
        UI,
        4,
        "send_message",
        json!({"to": "default:@everyone", "content": "three"}),
    );
    let first = json!({
        "message_id": ID,
        "from": "pm",
        "content": "a \"b\"",
        "timestamp": TS,
        "metadata": {"n": [1, null]},
    });
    let read = data(&mut relay, DEV_A, 5, "check_messages", json!({"limit": 1}));
    let expected = json!({"status": "messages", "messages": [first], "remaining": 2});
    assert_eq!(read, expected);
    relay.passed(5);
    let mut second = json!({
        "message_id": "02020202-0202-4202-8202-020202020202",
        "from": "pm",
        "content": "two",
        "timestamp": TS,
        "thread_id": ID,
        "reply_to": ID,
    });
    let mut third = json!({
        "message_id": "03030303-0303-4303-8303-030303030303",
        "from": "web:ui",
        "content": "three",
        "timestamp": TS,
        "to": "@everyone",
    });
    let both = data(&mut relay, DEV_A, 6, "check_messages", json!({}));
    assert_eq!(both["messages"], json!([second, third]));
    relay.lost(6);
    for message in [&mut second, &mut third] {
        message["redelivered"] = json!(true);
    }
    let again = data(&mut relay, DEV_A, 7, "check_messages", json!({}));
    assert_eq!(again["messages"], json!([second, third]));
}

#[test]
fn the_first_wait_after_a_start_lasts_and_tells_of_the_start_at_its_end() {
    let thrum: Toolsets = "thrum".parse().expect("a toolset");
    let wait = thrum.find("wait_for_message").expect("it is one");
    let arguments = json!({"timeout": 3}).as_object().expect("an object").clone();
    let command = wait.command(arguments.into(), ReplyBytes::UNBOUNDED);
    let command = command.expect("good arguments");
    let shown = |effects: &[Effect]| {
        let [Effect::Reply { result, .. }] = effects else {
            panic!("{effects:?} is no one answer");
        };
        let answered = ToolResult::Answered {
            tool: wait,
            answer: result.clone(),
            reply_max: ReplyBytes::LEAST_KNOWN,
        };
        answered.texts_and_data().1.expect("it is no refusal")
    };
    let mut relay = relay();
    assert_eq!(relay.call(DEV_A, 1, command.clone()), NONE);
    assert_eq!(relay.timeout_at(2_999), NONE);
    let over = shown(&relay.timeout_at(3_000));
    assert_eq!(
        (&over["status"], &over["notice"]),
        (&json!("timeout"), &json!(NOTICE))
    );
    // It was lost: the next one lasts as well, and tells of it beside the message that ends it.
    relay.lost(1);
    assert_eq!(relay.call(DEV_A, 2, command), NONE);
    let posted = relay.post(A, 3, &nth(3));
    let woken: Vec<Effect> = posted
        .into_iter()
        .filter(|effect| is_reply_to(effect, 2))
        .collect();
    let woken = shown(&woken);
    assert_eq!(
        (&woken["status"], &woken["notice"]),
        (&json!("message_received"), &json!(NOTICE))
    );
}

fn is_reply_to(effect: &Effect, number: u64) -> bool {
    matches!(effect, Effect::Reply { call, .. } if *call == CallId(number))
}

#[test]
fn a_wait_takes_one_message_or_says_that_its_time_is_over() {
    let mut relay = relay();
    let zero = json!({"timeout": 0});
    let (texts, told) = called(&mut relay, DEV_A, 1, "wait_for_message", zero.clone());
    let nothing = json!({"status": "timeout", "message": null, "waited_seconds": 0, "notice": NOTICE});
    assert_eq!((told, &texts[1..]), (Some(nothing), &[NOTICE.to_owned()][..]));
    assert_eq!(
        data(&mut relay, DEV_A, 2, "wait_for_message", zero.clone()),
        json!({"status": "timeout", "message": null, "waited_seconds": 0})
    );
    for (call, content) in [(3, "one"), (4, "two")] {
        let message = json!({"to": "dev-a", "content": content});
        data(&mut relay, PM, call, "send_message", message);
    }
    let first = data(&mut relay, DEV_A, 5, "wait_for_message", zero);
    assert_eq!(
        [&first["status"], &first["message"]["content"]],
        ["message_received", "one"]
    );
    let second = data(&mut relay, DEV_A, 6, "check_messages", json!({}));
    assert_eq!(second["messages"][0]["content"], "two");
    let thrum: Toolsets = "thrum".parse().expect("a toolset");
    let wait = thrum.find("wait_for_message").expect("it is one");
    let parked = |value: Value| {
        let arguments = value.as_object().expect("an object").clone();
        wait.command(arguments.into(), ReplyBytes::UNBOUNDED)
            .expect("good arguments")
    };
    assert_eq!(relay.call(DEV_A, 7, parked(json!({"timeout": 3}))), NONE);
    assert_eq!(
        refusal(&mut relay, DEV_A, 8, "wait_for_message", json!({})),
        "Error: another wait_for_message is waiting already; only one can at a time"
    );
    // How long it was is set here: it is left out of what the engine is seen to do.
    let answer = Ok(Reply::Mail(mail::Reply::Messages {
        project: None,
        deliveries: Arc::default(),
        restarted: None,
        remaining: 0,
        part: None,
        is_cut: false,
        earlier: Vec::new(),
        waited_ms: 3_999,
    }));
    let (_, told) = ToolResult::Answered {
        tool: wait,
        answer,
        reply_max: ReplyBytes::LEAST_KNOWN,
    }
    .texts_and_data();
    let over = json!({"status": "timeout", "message": null, "waited_seconds": 3});
    assert_eq!(told, Some(over));
}

#[test]
fn agents_are_listed_with_what_they_said_and_whether_they_are_there() {
    let mut relay = relay();
    let profile = agents::Profile {
        role: Some("tester".to_owned()),
        module: Some("search".to_owned()),
        ..agents::Profile::default()
    };
    let qa = agents::Registration {
        profile,
        ..registration("qa", None)
    };
    relay.register(SessionId(7), qa);
    relay.close(SessionId(7), Ending::Orderly);
    relay.now = START.plus_millis(ACTIVE_MS);
    data(&mut relay, PM, 1, "check_messages", json!({}));
    let offline = |name: &str| json!({"name": name, "role": "", "module": "", "status": "offline"});
    let pm = json!({"name": "pm", "role": "", "module": "", "status": "active", "last_seen_at": "2026-05-02T14:32:00.000Z"});
    let qa =
        json!({"name": "qa", "role": "tester", "module": "search", "status": "offline", "last_seen_at": TS});
    let all = json!({"agents": [offline("dev-a"), offline("dev-b"), pm, qa], "count": 4});
    assert_eq!(data(&mut relay, PM, 2, "list_agents", json!({})), all);
    let active = json!({"agents": [pm], "count": 1});
    let asked = json!({"include_offline": false});
    assert_eq!(data(&mut relay, PM, 3, "list_agents", asked), active);
}

#[test]
fn groups_are_made_filled_looked_at_and_ended() {
    let mut relay = relay_told();
    relay.register(SessionId(7), of_role("tester", registration("qa", None)));
    let crew = json!({"name": "crew"});
    assert_eq!(
        data(
            &mut relay,
            PM,
            1,
            "create_group",
            json!({"name": "crew", "description": "who tests"})
        ),
        json!({"status": "created", "name": "crew"})
    );
    let member = |kind: &str, name: &str| json!({"group": "crew", "member_type": kind, "member_value": name});
    for (call, kind, name) in [
        (2, "agent", "dev-a"),
        (3, "agent", "web:ui"),
        (4, "role", "tester"),
    ] {
        assert_eq!(
            data(&mut relay, PM, call, "add_group_member", member(kind, name)),
            json!({"status": "added", "group": "crew", "member_type": kind, "member_value": name})
        );
    }
    let seen = json!({
        "name": "crew",
        "description": "who tests",
        "created_at": TS,
        "created_by": "pm",
        "members": [
            {"type": "agent", "id": "dev-a"},
            {"type": "agent", "id": "web:ui"},
            {"type": "role", "id": "tester"},
        ],
    });
    assert_eq!(data(&mut relay, DEV_A, 5, "get_group", crew.clone()), seen);
    let mut expanded = seen;
    expanded["expanded_agents"] = json!(["dev-a", "qa", "web:ui"]);
    expanded["expanded_agents_count"] = json!(3);
    let asked = json!({"name": "crew", "expand": true});
    assert_eq!(data(&mut relay, DEV_A, 6, "get_group", asked), expanded);
    assert_eq!(
        data(
            &mut relay,
            PM,
            7,
            "remove_group_member",
            member("agent", "web:ui")
        ),
        json!({"status": "removed", "group": "crew", "member_type": "agent", "member_value": "web:ui"})
    );
    assert_eq!(
        refusal(
            &mut relay,
            PM,
            8,
            "remove_group_member",
            member("agent", "web:ui")
        ),
        "Error: agent \"web:ui\" is not a member of the group \"crew\""
    );
    let everyone = json!({
        "name": "everyone",
        "description": "All agents",
        "created_at": TS,
        "created_by": "relay",
        "member_count": 4,
    });
    let listed = json!({
        "name": "crew",
        "description": "who tests",
        "created_at": TS,
        "created_by": "pm",
        "member_count": 2,
    });
    assert_eq!(
        data(&mut relay, PM, 9, "list_groups", json!({})),
        json!({"groups": [everyone, listed]})
    );
    assert_eq!(
        data(&mut relay, PM, 10, "delete_group", crew.clone()),
        json!({"status": "deleted", "name": "crew"})
    );
    assert_eq!(
        refusal(&mut relay, PM, 11, "get_group", crew),
        "Error: unknown group \"crew\"; known groups: none"
    );
}

#[test]
fn where_a_message_was_sent_is_called_as_its_readers_project_calls_it() {
    let mut relay = relay_told();
    for (call, session, to) in [
        (1, UI, "default:#build"),
        (2, PM, "web:@designer"),
        (3, PM, "#build"),
        (4, PM, "*:*"),
    ] {
        called(
            &mut relay,
            session,
            call,
            "send_message",
            json!({"to": to, "content": "text"}),
        );
    }
    let (_, read) = called(&mut relay, UI, 5, "check_messages", json!({}));
    let read = read.expect("messages");
    let to = read["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|message| &message["to"]);
    assert_eq!(to.collect::<Vec<_>>(), ["@designer", "default:#build", "*:*"]);
}
