//! The tools from arguments to texts, on an engine.

use relay::engine::surfacing;
use relay::tools::{DEFAULT, InvalidCall, ReplyBytes, Tool, ToolResult, Toolsets, frame};
use serde_json::{Map, Value, json};

use super::*;

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn command(tool: &str, value: Value) -> Result<(&'static Tool, Command), InvalidCall> {
    let tool = DEFAULT.find(tool)?;
    Ok((
        tool,
        tool.command(arguments(value).into(), ReplyBytes::UNBOUNDED)?,
    ))
}

fn asked(tool: &str, value: Value) -> Result<Command, InvalidCall> {
    command(tool, value).map(|(_, command)| command)
}

/// What a tool call makes of a relay, as its caller reads it: the texts, and whether they tell of an error.
type Told = (Vec<String>, bool);

fn called(relay: &mut Relay, call: u64, tool: &str, value: Value) -> Told {
    let (texts, _, is_error) = called_with(relay, DEFAULT, A, call, tool, value);
    (texts, is_error)
}

/// The same by any tool and over any session: the texts, the data, and whether they tell of an error.
#[track_caller]
pub fn called_with(
    relay: &mut Relay,
    toolsets: Toolsets,
    session: SessionId,
    call: u64,
    tool: &str,
    value: Value,
) -> (Vec<String>, Option<Value>, bool) {
    let command = toolsets.find(tool).and_then(|tool| {
        Ok((
            tool,
            tool.command(arguments(value).into(), ReplyBytes::LEAST_KNOWN)?,
        ))
    });
    let result = match command {
        Ok((tool, command)) => match relay.call(session, call, command).last() {
            Some(Effect::Reply { result, .. }) => ToolResult::Answered {
                tool,
                answer: result.clone(),
                reply_max: ReplyBytes::LEAST_KNOWN,
            },
            other => panic!("{other:?}"),
        },
        Err(invalid) => ToolResult::error(invalid),
    };
    let (texts, data) = result.texts_and_data();
    (texts, data, result.is_error())
}

fn text(texts: &[&str]) -> Told {
    (texts.iter().map(|text| (*text).to_owned()).collect(), false)
}

#[test]
fn a_message_is_posted_listed_and_read() {
    let mut relay = Relay::told();
    relay.now = START.plus_millis(42);
    let body = json!({"from": "pm", "to": "dev-a", "kind": "directive", "body": "a \"b\"\n\u{e9}"});
    assert_eq!(
        called(&mut relay, 1, "post_message", body),
        text(&["{\"id\":\"01010101-0101-4101-8101-010101010101\"}"])
    );
    relay.post(A, 2, &nth(2));
    let dev_a = json!({"for": "dev-a"});
    assert_eq!(
        called(&mut relay, 3, "list_pending", dev_a.clone()),
        text(&["{\"count\":2,\"kinds\":[\"directive\",\"status\"]}"])
    );
    let first = "{\"id\":\"01010101-0101-4101-8101-010101010101\",\"from\":\"pm\",\"to\":\"dev-a\",\
                 \"kind\":\"directive\",\"body\":\"a \\\"b\\\"\\n\u{e9}\",\"ts\":\"2026-05-02T14:30:00.042Z\"}";
    let second = "{\"id\":\"02020202-0202-4202-8202-020202020202\",\"from\":\"pm\",\"to\":\"dev-a\",\
                  \"kind\":\"status\",\"body\":\"body 2\",\"ts\":\"2026-05-02T14:30:00.042Z\"}";
    assert_eq!(
        called(&mut relay, 4, "read_messages", dev_a.clone()),
        text(&[&format!("[{first},{second}]")])
    );
    assert_eq!(
        called(&mut relay, 5, "read_messages", dev_a.clone()),
        text(&["[]"])
    );
    assert_eq!(
        called(&mut relay, 6, "list_pending", dev_a),
        text(&["{\"count\":0,\"kinds\":[]}"])
    );
}

#[test]
fn a_message_that_may_have_been_seen_says_so() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    relay.call(A, 2, read("dev-a"));
    relay.lost(2);
    let shown = "[{\"id\":\"01010101-0101-4101-8101-010101010101\",\"from\":\"pm\",\"to\":\"dev-a\",\
                 \"kind\":\"status\",\"body\":\"body 1\",\"ts\":\"2026-05-02T14:30:00.000Z\",\"redelivered\":true}]";
    assert_eq!(
        called(&mut relay, 3, "read_messages", json!({"for": "dev-a"})),
        text(&[shown])
    );
}

#[test]
fn the_start_is_told_in_a_second_text() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    let notice = "relay started at 2026-05-02T14:30:00.000Z; nothing sent before that is here; \
                  send again what was not acknowledged";
    assert_eq!(
        called(&mut relay, 1, "read_messages", json!({"for": "pm"})),
        text(&["[]", notice])
    );
    assert_eq!(
        called(&mut relay, 2, "list_pending", json!({"for": "dev-a"})),
        text(&[r#"{"count":0,"kinds":[]}"#, notice])
    );
}

#[test]
fn a_refusal_is_an_error_that_changes_nothing() {
    let error = |text: &str| (vec![text.to_owned()], true);
    let mut relay = Relay::told();
    assert_eq!(
        called(&mut relay, 1, "read_messages", json!({"for": "dev-c"})),
        error("Error: unknown role \"dev-c\"; known roles: pm, dev-a, dev-b")
    );
    assert_eq!(
        called(&mut relay, 5, "read_messages", json!({"for": "nowhere:pm"})),
        error("Error: unknown role \"nowhere:pm\"; there is no project \"nowhere\"; known projects: default")
    );
    assert_eq!(
        called(&mut relay, 2, "list_pending", json!({})),
        error("Error: missing argument \"for\"; give your role, one of: pm, dev-a, dev-b")
    );
    let to_nowhere = json!({"from": "pm", "to": "nowhere:pm", "kind": "free", "body": ""});
    assert_eq!(
        called(&mut relay, 4, "post_message", to_nowhere),
        error("Error: unknown role \"nowhere:pm\"; there is no project \"nowhere\"; known projects: default")
    );
    assert_eq!(
        called(&mut relay, 3, "shout", json!({})),
        error("Error: unknown tool \"shout\"; known tools: post_message, read_messages, list_pending")
    );
    assert_eq!(relay.pending(), [0, 0, 0]);
}

#[test]
fn every_bad_argument_is_named_with_what_is_accepted() {
    let bad = [
        (
            "post_message",
            json!({"to": [5], "kind": "free", "body": ""}),
            "\"to\" is an array; accepted: a string",
        ),
        (
            "post_message",
            json!({"to": "pm", "kind": "free", "body": {"text": ""}}),
            "\"body\" is an object; accepted: a string",
        ),
        (
            "post_message",
            json!({"from": true, "to": "pm", "kind": "free", "body": ""}),
            "\"from\" is the boolean true; accepted: a string",
        ),
        (
            "post_message",
            json!({"to": "pm", "kind": null, "body": ""}),
            "missing argument \"kind\"; post_message takes from, to, kind, body, mode",
        ),
        (
            "post_message",
            json!({"to": "pm", "kind": "free", "body": "", "cc": "dev-a"}),
            "unknown argument \"cc\"; post_message takes from, to, kind, body, mode",
        ),
        (
            "post_message",
            json!({"to": "pm", "kind": "Freely", "body": ""}),
            "unknown kind \"Freely\"; known kinds: status, question, directive, free",
        ),
        (
            "read_messages",
            json!({"wait_seconds": "280 s"}),
            "\"wait_seconds\" is the string \"280 s\"; accepted: a number, 0 to 280",
        ),
        (
            "read_messages",
            json!({"wait_seconds": 280.001}),
            "\"wait_seconds\" is 280.001; accepted: 0 to 280",
        ),
        (
            "read_messages",
            json!({"wait_seconds": -0.001}),
            "\"wait_seconds\" is -0.001; accepted: 0 to 280",
        ),
        (
            "list_pending",
            json!({"for": 1.5}),
            "\"for\" is the number 1.5; accepted: a string",
        ),
        (
            "list_pending",
            json!({"wait_seconds": 1}),
            "unknown argument \"wait_seconds\"; list_pending takes for",
        ),
    ];
    for (tool, value, reason) in bad {
        let invalid = command(tool, value).unwrap_err();
        assert_eq!(invalid.to_string(), reason);
    }
}

#[test]
fn an_argument_that_is_left_out_or_null_is_left_out() {
    for value in [json!({}), json!({"for": null, "wait_seconds": null})] {
        let read = Command::Mail(mail::Command::read_all(None, 0));
        assert_eq!(asked("read_messages", value), Ok(read));
    }
    for value in [json!({}), json!({"for": null})] {
        let look = Command::Mail(mail::Command::Pending { agent: None });
        assert_eq!(asked("list_pending", value), Ok(look));
    }
    let value = json!({"from": null, "to": "pm", "kind": "free", "body": "b"});
    assert_eq!(asked("post_message", value), Ok(post(None, "pm", "b")));
}

#[test]
fn a_wait_is_rounded_to_milliseconds() {
    for (seconds, wait_ms) in [(0.25, 250), (0.0015, 2), (279.9999, 280_000)] {
        let value = json!({"wait_seconds": seconds});
        let read = Command::Mail(mail::Command::read_all(None, wait_ms));
        assert_eq!(asked("read_messages", value), Ok(read));
    }
}

#[test]
fn whoever_posts_to_a_channel_with_nobody_else_in_it_is_told_so() {
    let mut relay = Relay::told();
    let to_build = |from: &str| json!({"from": from, "to": "#build", "kind": "free", "body": "anybody?"});
    let (texts, is_error) = called(&mut relay, 1, "post_message", to_build("pm"));
    assert!(!is_error);
    let id = format!("{{\"id\":\"{}\"}}", MessageId(id(1)));
    let note =
        "note: nobody had made or joined #build, so nobody got the message; look at how its name is written";
    assert_eq!(texts, [id.as_str(), note]);
    let (texts, _) = called(&mut relay, 3, "post_message", to_build("pm"));
    assert_eq!(
        texts[1..],
        ["note: #build has no other member yet; nobody got the message"]
    );
    let (texts, _) = called(&mut relay, 2, "post_message", to_build("dev-a"));
    assert_eq!(texts.len(), 1, "pm is in it: {texts:?}");
}

#[test]
fn what_else_an_address_means_is_no_reason_to_say_that_nobody_got_the_message() {
    let mut relay = Relay::told();
    relay.register(SessionId(11), of_role("dev-a", registration("ui", None)));
    let to_both = json!({"from": "pm", "to": "dev-a", "kind": "free", "body": "x"});
    let (texts, is_error) = called(&mut relay, 1, "post_message", to_both);
    assert!(!is_error);
    assert!(!texts.concat().contains("nobody got the message"), "{texts:?}");
}

/// Where messages to an agent of another project come from: an agent of the default one that has a namesake in the reader's, one of
/// the reader's own, one of a third one, and the person. `ui` is one of `web`.
fn relay_with_namesakes() -> Relay {
    let mut relay = Relay::told();
    for (session, agent) in [(11, "web:ui"), (12, "web:dev-a"), (13, "api:dev-a")] {
        relay.register(SessionId(session), registration(agent, None));
    }
    relay.open_for_person(SessionId(14));
    for (call, session) in (900..).zip([11, 12, 13]) {
        relay.call(SessionId(session), call, mail::Command::read_all(None, 0).into());
        relay.passed(call);
    }
    for (call, session, from) in [
        (1, A, Some("dev-a")),
        (2, SessionId(12), None),
        (3, SessionId(13), None),
        (4, SessionId(14), None),
    ] {
        relay.call(session, call, post(from, "web:ui", "ready?"));
    }
    relay
}

#[test]
fn a_name_that_is_read_is_an_address_for_its_reader() {
    let mut relay = relay_with_namesakes();
    let ui = SessionId(11);
    let (texts, _, _) = called_with(&mut relay, DEFAULT, ui, 5, "read_messages", json!({}));
    let read: Value = serde_json::from_str(&texts[0]).expect("JSON");
    let read = read.as_array().expect("a list");
    let names: Vec<_> = read
        .iter()
        .map(|message| (&message["from"], &message["to"]))
        .collect();
    let to = &json!("ui");
    let from = ["default:dev-a", "dev-a", "api:dev-a", "user"].map(|name| json!(name));
    assert_eq!(names, from.each_ref().map(|from| (from, to)));
    for (call, (from, inbox)) in (6..).zip(from.iter().zip(["dev-a", "web:dev-a", "api:dev-a", "user"])) {
        let answer = json!({"to": from, "kind": "free", "body": "yes"});
        called_with(&mut relay, DEFAULT, ui, call, "post_message", answer);
        let pending = relay.engine.status().pending;
        let unread = pending.iter().find(|(agent, _)| agent.as_str() == inbox);
        assert_eq!(unread.map(|(_, count)| *count), Some(1), "{from} is {inbox}");
    }
}

#[test]
fn where_a_message_to_several_was_sent_is_an_address_for_its_reader() {
    let mut relay = Relay::told();
    let ui = SessionId(11);
    relay.register(ui, registration("web:ui", None));
    relay.call(ui, 1, post(None, "default:#build", "here"));
    for (call, to) in [(2, "#build"), (3, "web:#general"), (4, "*:*")] {
        relay.call(A, call, post(Some("pm"), to, "text"));
    }
    let effects = relay.call(ui, 5, mail::Command::read_all(None, 0).into());
    let Some(Effect::Reply {
        result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
        ..
    }) = effects.last()
    else {
        panic!("{effects:?}");
    };
    let shown = surfacing::Shown {
        agent: name("web:ui"),
        deliveries: Arc::clone(deliveries),
        left: 0,
    };
    let framed = frame::framed(&shown, None);
    let heads = framed
        .lines()
        .filter_map(|line| line.split_once(" default:pm to "));
    let heads: Vec<_> = heads.filter_map(|(_, to)| to.split(',').next()).collect();
    relay.lost(5);
    let (texts, _, _) = called_with(&mut relay, DEFAULT, ui, 6, "read_messages", json!({}));
    let read: Value = serde_json::from_str(&texts[0]).expect("JSON");
    let read = read.as_array().expect("a list").iter();
    let to: Vec<_> = read.map(|message| message["to"].clone()).collect();
    assert_eq!(to, ["default:#build", "#general", "*:*"]);
    assert_eq!(heads, to);
}

#[test]
fn metadata_that_does_not_fit_comes_in_parts_behind_the_body() {
    let mut relay = Relay::told_within(Bounds::default());
    let metadata = json!({"pages": "p".repeat(12_000)}).to_string();
    let options = mail::PostOptions {
        metadata: Some(metadata.clone()),
        ..mail::PostOptions::default()
    };
    relay.post_with(A, 1, &nth(1), Some(options));
    let mut shown = [String::new(), String::new()];
    for (call, part) in [(2, "1 of 2"), (3, "2 of 2")] {
        let (texts, _, _) = called_with(
            &mut relay,
            DEFAULT,
            A,
            call,
            "read_messages",
            json!({"for": "dev-a"}),
        );
        let read: Value = serde_json::from_str(&texts[0]).expect("JSON");
        assert_eq!((&read[0]["part"], read[0].get("metadata")), (&json!(part), None));
        shown[0] += read[0]["body"].as_str().expect("a body");
        shown[1] += read[0]["metadata_part"].as_str().expect("some of it");
    }
    assert_eq!(shown, [nth(1).message.body.clone(), metadata]);
}

#[test]
fn a_sender_is_told_what_else_its_address_means_and_that_nobody_is_there() {
    let mut relay = Relay::told();
    relay.register(SessionId(11), of_role("dev-a", registration("ui", None)));
    relay.now = START.plus_millis(relay::engine::limits::ACTIVE_MS);
    let to_both = json!({"from": "pm", "to": "dev-a", "kind": "free", "body": "x"});
    let (texts, _) = called(&mut relay, 1, "post_message", to_both);
    let note = "note: dev-a is a role of others, too; it was sent to the agent; dev-a ";
    assert!(texts[1].starts_with(note), "{texts:?}");
}

#[test]
fn a_sender_is_told_all_that_its_address_means_besides() {
    let mut relay = Relay::told();
    relay.register(SessionId(11), of_role("tester", registration("ui", None)));
    let (name, description) = ("tester".to_owned(), String::new());
    relay.call(
        SessionId(11),
        1,
        groups::Command::Create { name, description }.into(),
    );
    relay.register(SessionId(12), registration("tester", None));
    let to_all_three = json!({"from": "pm", "to": "tester", "kind": "free", "body": "x"});
    let (texts, _) = called(&mut relay, 2, "post_message", to_all_three);
    for told in [
        "tester is a role of others, too; it was sent to the agent",
        "tester is a group, too; it was not sent to its members",
    ] {
        assert!(texts[1].contains(told), "{texts:?}");
    }
}
