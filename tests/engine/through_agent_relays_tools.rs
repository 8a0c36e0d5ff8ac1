//! Agent Relay's tools from arguments to texts, on an engine.

use relay::engine::limits::{ACTIVE_MS, TRANSIENT_MS};
use relay::engine::{WorkerId, workers};
use relay::tools::agent_relay::AGENT_RELAY;
use relay::tools::text::Json;
use relay::tools::{ReplyBytes, ToolResult, Toolsets};
use serde_json::{Value, json};

use super::as_json::resource;
use super::through_the_tools::called_with;
use super::workers::exited;
use super::*;

const ALICE: SessionId = SessionId(4);
const BOB: SessionId = SessionId(5);

const ONE: &str = "01010101-0101-4101-8101-010101010101";
const TWO: &str = "02020202-0202-4202-8202-020202020202";

/// A relay where Alice and Bob have sessions and were told of the start.
fn relay() -> Relay {
    let engine = Engine::new(START, Roster::default(), Bounds::default(), [0; 16]);
    let had_sessions = ["Alice", "Bob"].map(name).into();
    let engine = engine.reached_at("127.0.0.1:7331".to_owned());
    let mut relay = Relay::of(engine.after_sessions_of(Some(had_sessions)));
    relay.open(A, Carrier::Stream, None);
    let profile = agents::Profile {
        cli: Some("claude".to_owned()),
        parent: Some("Alice".to_owned()),
        ..agents::Profile::default()
    };
    relay.register(ALICE, registration("Alice", None));
    let bob = agents::Registration {
        profile,
        ..registration("Bob", None)
    };
    relay.register(BOB, bob);
    for (call, session) in [(900, ALICE), (901, BOB)] {
        let (texts, is_error) = called(&mut relay, session, call, "relay_inbox", json!({}));
        assert_eq!((texts.len(), is_error), (2, false), "it tells of the start");
        assert_eq!(texts[0], "No messages in inbox.");
        relay.passed(call);
    }
    relay
}

#[track_caller]
fn called(relay: &mut Relay, session: SessionId, call: u64, tool: &str, value: Value) -> (Vec<String>, bool) {
    let toolset: Toolsets = "agent-relay".parse().expect("a toolset");
    let (texts, data, is_error) = called_with(relay, toolset, session, call, tool, value);
    assert_eq!(data, None);
    (texts, is_error)
}

/// The only text of an answer.
#[track_caller]
fn text(relay: &mut Relay, session: SessionId, call: u64, tool: &str, value: Value) -> String {
    let (texts, is_error) = called(relay, session, call, tool, value);
    assert_eq!((texts.len(), is_error), (1, false), "{texts:?}");
    texts.concat()
}

#[track_caller]
fn refusal(relay: &mut Relay, session: SessionId, call: u64, tool: &str, value: Value) -> String {
    let (texts, is_error) = called(relay, session, call, tool, value);
    assert_eq!((texts.len(), is_error), (1, true), "{texts:?}");
    texts.concat()
}

/// A channel of the default project is another one than its namesake of the reader's project.
#[test]
fn what_comes_from_another_project_is_called_so_that_its_reader_can_answer_there() {
    let mut relay = relay();
    relay.register(C, registration("web:ui", None));
    called(&mut relay, C, 902, "relay_inbox", json!({}));
    relay.passed(902);
    for (call, to) in [(1, "default:#build"), (2, "#build")] {
        let message = json!({"to": to, "message": "here"});
        called(&mut relay, C, call, "relay_send", message);
    }
    for (call, to) in [(3, "#build"), (4, "web:#build"), (5, "web:ui")] {
        let message = json!({"to": to, "message": "there"});
        text(&mut relay, ALICE, call, "relay_send", message);
    }
    let calls = [
        ("default:Alice", Some("default:#build")),
        ("default:Alice", Some("#build")),
        ("default:Alice", None),
    ];
    let shown: Vec<_> = resource(&mut relay, C, "relay://inbox")
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| (message["from"].clone(), message.get("channel").cloned()))
        .collect();
    let expected = calls.map(|(from, channel)| (json!(from), channel.map(|channel| json!(channel))));
    assert_eq!(shown, expected);
    let read = text(&mut relay, C, 6, "relay_inbox", json!({}));
    let heads: Vec<_> = read
        .lines()
        .filter_map(|line| line.split_once("] From "))
        .collect();
    let heads: Vec<_> = heads.into_iter().map(|(_, head)| head).collect();
    assert_eq!(
        heads,
        [
            "default:Alice [default:#build]:",
            "default:Alice [#build]:",
            "default:Alice:"
        ]
    );
}

/// Also where it is another project's, which is named as the sender has named it.
#[test]
fn whoever_writes_to_a_channel_with_nobody_else_in_it_is_told_so() {
    let mut relay = relay();
    relay.register(C, registration("web:ui", None));
    let send = |to: &str| json!({"to": to, "message": "anybody?"});
    for (call, (to, is_there)) in (1..).zip([("#build", false), ("#build", true), ("web:#build", false)]) {
        let (texts, is_error) = called(&mut relay, ALICE, call, "relay_send", send(to));
        let note = match is_there {
            true => format!("note: {to} has no other member yet; nobody got the message"),
            false => format!(
                "note: nobody had made or joined {to}, so nobody got the message; look at how its name is written"
            ),
        };
        assert_eq!(
            (texts, is_error),
            (vec![format!("Message sent to {to}"), note], false)
        );
    }
    let (texts, _) = called(&mut relay, BOB, 4, "relay_send", send("#build"));
    assert_eq!(texts, ["Message sent to #build"]);
}

#[test]
fn what_is_sent_is_in_the_inbox_with_where_it_was_sent() {
    let mut relay = relay();
    let messages = [
        json!({"to": "Bob", "message": "one"}),
        json!({"to": "Bob", "message": "two", "thread": "b1"}),
    ];
    for (call, message) in (1..).zip(messages) {
        assert_eq!(
            text(&mut relay, ALICE, call, "relay_send", message),
            "Message sent to Bob"
        );
    }
    let broadcast = json!({"to": "*", "message": "three"});
    assert_eq!(
        text(&mut relay, ALICE, 3, "relay_send", broadcast),
        "Message sent to *"
    );
    let general = json!({"to": "#general", "message": "four"});
    assert_eq!(
        text(&mut relay, ALICE, 4, "relay_send", general),
        "Message sent to #general"
    );
    let two = format!("[{TWO}] From Alice (thread: b1):\ntwo");
    assert_eq!(
        text(&mut relay, BOB, 5, "relay_inbox", json!({"limit": 1})),
        format!("1 message(s):\n\n[{ONE}] From Alice:\none")
    );
    let of_channel = text(&mut relay, BOB, 6, "relay_inbox", json!({"channel": "#general"}));
    assert!(
        of_channel.ends_with("] From Alice [#general]:\nfour"),
        "{of_channel}"
    );
    let rest = text(&mut relay, BOB, 7, "relay_inbox", json!({"from": "Alice"}));
    assert!(
        rest.starts_with(&format!("2 message(s):\n\n{two}\n\n---\n\n[")),
        "{rest}"
    );
    relay.lost(7);
    let again = text(&mut relay, BOB, 8, "relay_inbox", json!({"limit": 1}));
    assert_eq!(
        again,
        format!("1 message(s):\n\n[{TWO}] From Alice (thread: b1) (redelivered):\ntwo")
    );
    let all = text(&mut relay, BOB, 9, "relay_inbox", json!({"unread_only": false}));
    let expected = format!("4 message(s):\n\n[{ONE}] From Alice (shown before):\none\n\n---\n\n");
    assert!(all.starts_with(&expected), "{all}");
    assert!(!all.ends_with("(shown before):\nthree"), "it is new: {all}");
    let empty = text(&mut relay, BOB, 10, "relay_inbox", json!({}));
    assert_eq!(empty, "No messages in inbox.");
}

/// Whoever stands there as a sender may be asked for.
#[test]
fn a_read_may_ask_for_what_relay_the_person_or_somebody_who_has_gone_has_sent() {
    let mut relay = relay();
    let (pm, person, gone) = (SessionId(6), SessionId(7), SessionId(8));
    relay.open(pm, Carrier::Stream, Some("pm"));
    relay.open_for_person(person);
    let transient = agents::Registration {
        transient: true,
        ..registration("web:gone", None)
    };
    relay.register(gone, transient);
    relay.call(gone, 1, post(None, "default:pm", "farewell"));
    relay.close(gone, Ending::Orderly);
    relay.call(person, 2, post(None, "pm", "hello"));
    relay.has_worker(3, WorkerId(1), "w");
    relay.happens(WorkerId(1), exited(1, ""));
    relay.now = START.plus_millis(TRANSIENT_MS);
    let read = |relay: &mut Relay, call: u64, from: &str| {
        let (texts, is_error) = called(relay, pm, call, "relay_inbox", json!({"from": from}));
        assert!(!is_error, "{from}: {texts:?}");
        texts[0].clone()
    };
    for (call, from) in (4..).zip(["relay", "@user", "web:gone"]) {
        let told = read(&mut relay, call, from);
        let head = format!("] From {}:\n", from.trim_start_matches('@'));
        assert!(
            told.starts_with("1 message(s):\n\n[") && told.contains(&head),
            "{told}"
        );
    }
    assert_eq!(read(&mut relay, 7, "relay"), "No messages in inbox.");
    assert_eq!(
        read(&mut relay, 8, "web:gone"),
        "No messages in inbox.",
        "it is known who that was"
    );
    for (call, from) in (20..).zip(["relay", "@relay"]) {
        let nothing = text(&mut relay, BOB, call, "relay_inbox", json!({"from": from}));
        assert_eq!(nothing, "No messages in inbox.", "it may send something later");
    }
    let stranger = refusal(&mut relay, BOB, 10, "relay_inbox", json!({"from": "web:gone"}));
    assert!(
        stranger.starts_with("Error: Agent not found: web:gone;"),
        "{stranger}"
    );
    let long = json!({"from": format!("{}:gone", "x".repeat(1_000))});
    let stranger = refusal(&mut relay, BOB, 11, "relay_inbox", long);
    assert!(stranger.len() < 400, "{stranger}");
}

#[test]
fn a_response_is_waited_for_and_shown() {
    let mut relay = relay();
    let toolset: Toolsets = "agent-relay".parse().expect("a toolset");
    let tool = toolset.find("relay_send").expect("it is one");
    let ask = |relay: &mut Relay, call: u64| {
        let asked = json!({"to": "Bob", "message": "ready?", "await_response": true, "timeout_ms": 1_000});
        let arguments = asked.as_object().expect("an object").clone();
        let command = tool
            .command(arguments.into(), ReplyBytes::LEAST_KNOWN)
            .expect("good arguments");
        assert_eq!(relay.call(ALICE, call, command), NONE);
    };
    let told = |effects: &[Effect], call: u64| {
        let is_answer = |effect: &&Effect| matches!(effect, Effect::Reply { call: answered, .. } if *answered == CallId(call));
        let Some(Effect::Reply { result: answer, .. }) = effects.iter().find(is_answer) else {
            panic!("{effects:?}");
        };
        let answer = answer.clone();
        let result = ToolResult::Answered {
            tool,
            answer,
            reply_max: ReplyBytes::LEAST_KNOWN,
        };
        (result.texts().concat(), result.is_error())
    };
    ask(&mut relay, 1);
    let answered = relay.call(BOB, 2, post(None, "Alice", "yes"));
    assert_eq!(told(&answered, 1), ("Response from Bob: yes".to_owned(), false));
    relay.lost(1);
    let again = text(&mut relay, ALICE, 3, "relay_inbox", json!({}));
    assert!(again.ends_with("] From Bob (redelivered):\nyes"), "{again}");
    ask(&mut relay, 4);
    let expired = relay.timeout_at(1_000);
    assert_eq!(
        told(&expired, 4),
        (
            "Error: Timeout after 1000ms: waiting for response from Bob".to_owned(),
            true
        )
    );
}

#[test]
fn who_is_there_is_said_with_its_program_and_whom_it_works_for() {
    let mut relay = relay();
    relay.now = START.plus_millis(ACTIVE_MS);
    text(&mut relay, BOB, 1, "relay_inbox", json!({}));
    assert_eq!(
        text(&mut relay, BOB, 2, "relay_who", json!({"include_idle": false})),
        "1 agent(s) online:\n- Bob (claude) - active [worker of: Alice]"
    );
    assert_eq!(
        text(&mut relay, BOB, 3, "relay_who", json!({})),
        "2 agent(s) online:\n- Alice (unknown) - idle\n- Bob (claude) - active [worker of: Alice]"
    );
    assert_eq!(
        text(&mut relay, BOB, 4, "relay_who", json!({"project": "web"})),
        "No agents online."
    );
    let version = env!("CARGO_PKG_VERSION");
    let status = |agent: &str| {
        format!(
            "Relay Status:\n- Connected: Yes\n- Agent Name: {agent}\n- Project: default\n- Socket: 127.0.0.1:7331\n\
             - Daemon Version: {version}\n- Uptime: 2m 0s"
        )
    };
    assert_eq!(text(&mut relay, BOB, 5, "relay_status", json!({})), status("Bob"));
    assert_eq!(
        text(&mut relay, A, 6, "relay_status", json!({})),
        status("Not registered")
    );
    for (seconds, uptime) in [(59, "59s"), (3_600, "1h 0m 0s"), (90_061, "25h 1m 1s")] {
        relay.now = START.plus_millis(seconds * 1_000);
        let told = text(&mut relay, BOB, 7, "relay_status", json!({}));
        assert!(told.ends_with(&format!("Uptime: {uptime}")), "{told}");
    }
}

#[test]
fn what_cannot_be_done_is_said_in_agent_relay_s_words() {
    let mut relay = relay();
    let send = |to: &str| json!({"to": to, "message": "hello"});
    assert_eq!(
        refusal(&mut relay, ALICE, 1, "relay_send", send("Carol")),
        "Error: Agent not found: Carol; known agents: pm, dev-a, dev-b, Alice, Bob; a message may also go to user, @group, #channel, * or @everyone"
    );
    assert_eq!(
        refusal(&mut relay, ALICE, 6, "relay_send", send("nowhere:pm")),
        "Error: Agent not found: nowhere:pm; there is no project \"nowhere\"; known projects: default"
    );
    // Not a project: it stands before a role.
    assert_eq!(
        refusal(
            &mut relay,
            ALICE,
            7,
            "relay_inbox",
            json!({"from": "agent:dev:x"})
        ),
        "Error: Agent not found: agent:dev:x; known agents: pm, dev-a, dev-b, Alice, Bob"
    );
    assert_eq!(
        refusal(&mut relay, ALICE, 2, "relay_inbox", json!({"channel": "#build"})),
        "Error: Channel not found: #build; known channels: #general"
    );
    assert_eq!(
        refusal(&mut relay, A, 3, "relay_inbox", json!({})),
        "Error: this session is nobody's: name its agent where it is opened, by --agent NAME or ?agent=NAME; \
         known agents: pm, dev-a, dev-b, Alice, Bob"
    );
    assert_eq!(
        refusal(&mut relay, ALICE, 4, "relay_release", json!({"name": "W"})),
        "Failed to release worker: no worker \"W\"; workers that live: none"
    );
    let worker = json!({"name": "Bob", "cli": "claude", "task": "x"});
    assert_eq!(
        refusal(&mut relay, ALICE, 5, "relay_spawn", worker),
        "Failed to spawn worker: Bob is an agent that relay has not started; accepted: the name of a worker, or one that nobody has"
    );
}

#[test]
fn a_worker_is_spawned_and_released_in_the_words_of_the_document() {
    let tool = |name: &str| {
        let tools = AGENT_RELAY.tools.iter();
        tools.clone().find(|tool| tool.name == name).expect("a tool")
    };
    let texts = |name, answer: workers::Reply| {
        let answer = Ok(answer.into());
        let tool = tool(name);
        ToolResult::Answered {
            tool,
            answer,
            reply_max: ReplyBytes::LEAST_KNOWN,
        }
        .texts()
    };
    let (agent, parent, worker) = (name("web:TestRunner"), name("web:Alice"), WorkerId(1));
    let spawned = workers::Reply::Spawned {
        agent: agent.clone(),
        parent: parent.clone(),
        worker,
    };
    assert_eq!(
        texts("relay_spawn", spawned),
        ["Worker \"TestRunner\" spawned successfully. It will message you when ready."]
    );
    let released = workers::Reply::Released {
        agent,
        parent,
        worker,
    };
    assert_eq!(
        texts("relay_release", released),
        ["Worker \"TestRunner\" released."]
    );
    let waits = tool("relay_spawn").waits.of_call(|_| None);
    assert_eq!(waits, Some(std::time::Duration::from_secs(30)));
}

#[test]
fn how_many_messages_are_wanted_is_a_whole_number_in_its_range() {
    let mut relay = relay();
    for limit in [json!(1.5), json!(0), json!(1e9)] {
        let told = refusal(&mut relay, BOB, 1, "relay_inbox", json!({"limit": limit}));
        assert!(told.starts_with("Error: \"limit\" is "), "{told}");
    }
    let read = text(&mut relay, BOB, 2, "relay_inbox", json!({"limit": 1.0}));
    assert_eq!(read, "No messages in inbox.");
}

/// Part of a body that no reply has room for, with the words that say which.
const PART: &str =
    "this is part 1 of 3 of one message: call relay_inbox again for part 2, and act on it once you have all";

#[test]
fn a_message_that_does_not_fit_says_which_part_is_shown_and_what_waits_behind_it() {
    let mut relay = relay();
    let long = "x".repeat(20_000);
    relay.call(BOB, 1, post(None, "Alice", &long));
    let inbox = AGENT_RELAY
        .resources
        .iter()
        .find(|resource| resource.uri == "relay://inbox");
    let inbox = inbox.expect("it is one");
    let effects = relay.call(ALICE, 2, (inbox.to_command)());
    let [Effect::Reply { result: Ok(seen), .. }] = &effects[..] else {
        panic!("{effects:?}");
    };
    let mut json = Vec::new();
    (inbox.to_json)(seen, ReplyBytes::LEAST_KNOWN, &mut Json::document(&mut json));
    let seen: Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(seen[0]["part"], "1 of 3");
    for (call, behind) in [
        (3, ""),
        (4, "; 1 more message waits behind it"),
        (5, "; 2 more messages wait behind it"),
    ] {
        let (texts, _) = called(&mut relay, ALICE, call, "relay_inbox", json!({}));
        let head = texts[0].lines().nth(2).expect("a heading");
        assert!(head.ends_with("] From Bob (part 1 of 3):") || call > 3, "{head}");
        assert!(texts[0].contains("(part 1 of 3):\nxxx"), "{:.200}", texts[0]);
        assert_eq!(texts[1], format!("{PART}{behind}"));
        relay.lost(call);
        relay.call(BOB, 10 + call, post(None, "Alice", "short"));
    }
}

#[test]
fn a_response_that_does_not_fit_says_so_and_tells_of_a_start() {
    let engine = Engine::new(START, Roster::default(), Bounds::default(), [0; 16]);
    let mut relay = Relay::of(engine.after_sessions_of(Some([name("Alice")].into())));
    relay.register(ALICE, registration("Alice", None));
    relay.register(BOB, registration("Bob", None));
    let toolset: Toolsets = "agent-relay".parse().expect("a toolset");
    let tool = toolset.find("relay_send").expect("it is one");
    let asked = json!({"to": "Bob", "message": "ready?", "await_response": true});
    let arguments = asked.as_object().expect("an object").clone();
    let command = tool.command(arguments.into(), ReplyBytes::LEAST_KNOWN);
    assert_eq!(relay.call(ALICE, 1, command.expect("good arguments")), NONE);
    let effects = relay.call(BOB, 2, post(None, "Alice", &"x".repeat(20_000)));
    let answer = effects.iter().find_map(|effect| {
        let Effect::Reply { call, result, .. } = effect else {
            return None;
        };
        (*call == CallId(1)).then(|| result.clone())
    });
    let result = ToolResult::Answered {
        tool,
        answer: answer.expect("it is answered"),
        reply_max: ReplyBytes::LEAST_KNOWN,
    };
    let texts = result.texts();
    assert!(
        texts[0].starts_with("Response from Bob (part 1 of 3): xxx"),
        "{:.200}",
        texts[0]
    );
    assert_eq!(texts[1], PART);
    assert!(texts[2].starts_with("relay started at "), "{:?}", &texts[1..]);
}
