//! No answer is longer than its client shows: walked over all tools and resources, with whatever is long in them.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::text::{Json, escaped_bytes};
use super::{ALL, Arguments, ReplyBytes, Texts, Tool, ToolResult};
use crate::engine::agents::{self, AgentView, Profile};
use crate::engine::groups::{self, GroupView, Member};
use crate::engine::handling::Mode;
use crate::engine::limits::{ADDRESSES_MAX, PROFILE_BYTES_MAX, THREAD_BYTES_MAX};
use crate::engine::mail::{self, Reply as Mail};
use crate::engine::room::{Part, Room};
use crate::engine::{
    AgentName, Command, Context, Delivery, Kind, Message, MessageId, Recipient, Reply, Seq, Timestamp,
};

const LEAST: ReplyBytes = ReplyBytes::kb(ReplyBytes::KB_MIN);
const LEAST_BYTES: usize = 1_000 * ReplyBytes::KB_MIN as usize;

fn tool(name: &str) -> &'static Tool {
    let mut tools = ALL.iter().flat_map(|toolset| toolset.tools);
    tools.find(|tool| tool.name == name).expect("a tool")
}

/// The room of the reply to a call of a tool that reads.
fn room(tool: &Tool, arguments: Value, reply_max: ReplyBytes) -> Room {
    let arguments: Map<String, Value> = serde_json::from_value(arguments).expect("an object");
    let command = tool.command(Arguments::from(arguments), reply_max);
    let Command::Mail(command) = command.expect("good arguments") else {
        panic!("{} reads", tool.name);
    };
    let room = match command {
        mail::Command::Read { room, .. } => room,
        mail::Command::Post { options, .. } => options.and_then(|options| options.room),
        mail::Command::Pending { .. } | mail::Command::Peek { .. } | mail::Command::Find { .. } => None,
    };
    room.expect("it is bounded")
}

/// The tools that read, with how they are called.
fn readers() -> [(&'static Tool, Value); 5] {
    [
        ("read_messages", json!({"for": "pm"})),
        ("check_messages", json!({})),
        ("wait_for_message", json!({})),
        ("relay_inbox", json!({})),
        (
            "relay_send",
            json!({"to": "pm", "message": "?", "await_response": true}),
        ),
    ]
    .map(|(name, arguments)| (tool(name), arguments))
}

/// Returns the bytes of an answer as it is sent: of its texts with all that is around them, or of its data if that is more.
fn bytes_of(tool: &'static Tool, answer: Reply, reply_max: ReplyBytes) -> usize {
    let answer = Ok(answer);
    let result = ToolResult::Answered {
        tool,
        answer,
        reply_max,
    };
    let mut content = Vec::new();
    let mut texts = Texts::new(&mut content);
    result.write(&mut texts);
    let data = texts.into_structured().map_or(0, |data| data.len());
    content.len().max(data)
}

fn name(text: &str) -> AgentName {
    AgentName::new(text).expect("a name")
}

fn text(random: &mut fastrand::Rng, length: usize) -> String {
    let odd = random.u8(0..3);
    (0..length)
        .map(|_| match random.u8(0..8) {
            0 if odd > 0 => '"',
            1 if odd > 0 => '\\',
            2 if odd > 1 => char::from(random.u8(0..0x20)),
            3 if odd > 0 => random.char(..),
            4 if odd > 0 => '\n',
            _ => char::from(random.u8(b'a'..=b'z')),
        })
        .collect()
}

fn delivery(random: &mut fastrand::Rng, length: usize) -> Delivery {
    let project = ["default", &"p".repeat(32)][random.usize(0..2)].to_owned();
    let long = AgentName::in_project(&project, &"n".repeat(32)).expect("a name");
    let short = name("a");
    let mut anybody = || [&short, &long][random.usize(0..2)].clone();
    let from = anybody();
    let to: Vec<Recipient> = (0..ADDRESSES_MAX).map(|_| Recipient::agent(&anybody())).collect();
    let named = [1, 1, 2, ADDRESSES_MAX][random.usize(0..4)];
    let context = random.bool().then(|| Context {
        thread: random
            .bool()
            .then(|| "\"".repeat(random.usize(1..=THREAD_BYTES_MAX))),
        reply_to: random.bool().then(|| MessageId(uuid::Uuid::max())),
        metadata: random.bool().then(|| {
            let length = random.usize(0..length.max(1));
            json!({"key": text(random, length)}).to_string()
        }),
        ..Context::default()
    });
    Delivery {
        seq: Seq(0),
        message: Arc::new(Message {
            id: MessageId(uuid::Uuid::max()),
            from,
            to: Recipient::list(to.into_iter().take(named).collect()),
            kind: Kind::ALL[random.usize(0..Kind::ALL.len())],
            body: text(random, length),
            ts: Timestamp::from_millis(1_777_732_200_000),
            context: context.map(Box::new),
        }),
        mode: Mode::Immediate,
        redelivered: random.bool(),
    }
}

fn read(deliveries: Vec<Delivery>, part: Option<Part>) -> Reply {
    let messages = Mail::Messages {
        project: Some("p".repeat(32).into()),
        deliveries: Arc::new(deliveries),
        part: part.map(Box::new),
        is_cut: true,
        restarted: Some(Timestamp::from_millis(1_777_732_200_000)),
        remaining: 1_000_000,
        earlier: Vec::new(),
        waited_ms: i64::from(u32::MAX),
    };
    messages.into()
}

#[test]
fn messages_take_no_more_bytes_than_they_are_measured_by_and_not_much_less() {
    let mut random = fastrand::Rng::with_seed(7);
    for (tool, arguments) in readers() {
        let room = room(tool, arguments, LEAST);
        let takes_one = matches!(tool.name, "wait_for_message" | "relay_send");
        for _ in 0..200 {
            let count = if takes_one { 1 } else { random.usize(1..5) };
            let deliveries: Vec<Delivery> = (0..count)
                .map(|_| {
                    let length = random.usize(0..300);
                    delivery(&mut random, length)
                })
                .collect();
            let taken = |delivery: &Delivery| room.taken_by(&delivery.message, usize::MAX).expect("some");
            let measured: usize = deliveries.iter().map(taken).sum();
            let lines = match room.form.lines_max {
                Some(max) => (room.bytes as usize) / usize::from(max),
                None => 0,
            };
            let breaks = |delivery: &Delivery| delivery.message.body.matches('\n').count() * lines;
            let for_lines: usize = deliveries.iter().map(breaks).sum();
            let written = bytes_of(tool, read(deliveries.clone(), None), ReplyBytes::UNBOUNDED);
            let most = measured + usize::from(room.form.reply);
            assert!(
                written <= most,
                "{}: {written} > {most}: {deliveries:?}",
                tool.name
            );
            // Metadata is escaped once less than a body.
            let metadata = |delivery: &Delivery| delivery.message.metadata().map_or(0, |all| 3 * all.len());
            // Not every tool shows to whom a message was sent.
            let names = |delivery: &Delivery| delivery.message.to.bytes_seen_max();
            let slack = |delivery: &Delivery| 400 + names(delivery) + metadata(delivery);
            let slack: usize = deliveries.iter().map(slack).sum();
            let least = (measured - for_lines).saturating_sub(slack);
            assert!(written >= least, "{}: {written} < {least}", tool.name);
        }
    }
}

#[test]
fn the_parts_of_a_message_fit_and_are_the_whole_of_it() {
    let mut random = fastrand::Rng::with_seed(8);
    for (tool, arguments) in readers() {
        let room = room(tool, arguments, LEAST);
        for begun in (0..30).map(|round| 1 + round / 15) {
            let length = random.usize(3_000..12_000);
            let delivery = delivery(&mut random, length);
            let message = &delivery.message;
            let (mut from, mut number) = (0, 1);
            let mut shown = [String::new(), String::new()];
            loop {
                let part = Part {
                    begun,
                    ..room.part(message, from, (number, None))
                };
                assert_eq!((part.number, part.from), (number, from));
                assert!(part.to > part.from, "each is a step");
                shown[0].push_str(part.body(message));
                shown[1].push_str(part.metadata(message));
                let written = bytes_of(tool, read(vec![delivery.clone()], Some(part)), LEAST);
                assert!(written <= LEAST_BYTES, "{}: {written} bytes", tool.name);
                if part.is_last() {
                    break;
                }
                (from, number) = (part.to, number + 1);
            }
            let metadata = message.metadata().filter(|_| room.form.has_metadata);
            assert_eq!(shown, [&*message.body, metadata.unwrap_or_default()]);
        }
    }
}

#[test]
fn what_takes_any_says_fits_does() {
    let mut random = fastrand::Rng::with_seed(9);
    for (tool, arguments) in readers() {
        let room = room(tool, arguments, ReplyBytes::LEAST_KNOWN);
        let mut fitted = 0;
        for _ in 0..200 {
            let count = random.usize(1..6);
            let deliveries = (0..count).map(|_| {
                let length = random.usize(0..300);
                delivery(&mut random, length)
            });
            let deliveries: Vec<Delivery> = deliveries.collect();
            if !room.takes_any(deliveries.iter().map(|delivery| &*delivery.message)) {
                continue;
            }
            fitted += 1;
            let mut left = room.for_messages();
            for delivery in &deliveries {
                left -= room.taken_by(&delivery.message, left).expect("it fits");
            }
        }
        assert!(fitted > 8, "{}: {fitted}", tool.name);
    }
}

fn agents(count: usize) -> Vec<AgentView> {
    let long = Some("\"".repeat(PROFILE_BYTES_MAX));
    let profile = Profile {
        role: long.clone(),
        module: long.clone(),
        cli: long.clone(),
        parent: long,
        cwd: Some("/".to_owned()),
    };
    (0..count)
        .map(|number| AgentView {
            name: name(&format!("agent-{number}")),
            profile: if number % 3 == 2 {
                profile.clone()
            } else {
                Profile::default()
            },
            status: agents::Status::Active,
            last_contact: Some(Timestamp::from_millis(0)),
        })
        .collect()
}

fn group() -> GroupView {
    GroupView {
        project: "default".to_owned(),
        name: "n".repeat(32),
        description: "\"".repeat(700),
        members: 1_000,
        created_at: Timestamp::from_millis(0),
        created_by: Some(name("pm")),
    }
}

/// Answers that are as long as what they list.
fn lists(count: usize) -> Vec<(&'static str, Reply)> {
    let listed: Reply = agents::Reply::Listed {
        agents: agents(count),
        project: "default".into(),
    }
    .into();
    let members = agents(count).into_iter().map(|agent| Member::Agent(agent.name));
    let seen = groups::Reply::Seen {
        group: Box::new(group()),
        members: members.collect(),
        agents: Some(agents(count).into_iter().map(|agent| agent.name).collect()),
    };
    let kinds = vec![Kind::Directive; count];
    vec![
        ("list_pending", Mail::Pending { kinds }.into()),
        ("list_agents", listed.clone()),
        ("relay_who", listed),
        (
            "list_groups",
            groups::Reply::Listed {
                groups: vec![group(); count],
            }
            .into(),
        ),
        ("get_group", seen.into()),
    ]
}

#[test]
fn lists_are_cut_where_they_are_too_long_and_say_so() {
    for reply_max in [LEAST, ReplyBytes::LEAST_KNOWN, ReplyBytes::kb(40)] {
        let bytes_max = reply_max.bytes().expect("a bound") as usize;
        for (name, answer) in lists(2_000) {
            let first = Reply::AfterStart {
                started_at: Timestamp::from_millis(1_777_732_200_000),
                reply: Box::new(answer),
            };
            let bytes = bytes_of(tool(name), first, reply_max);
            assert!(bytes <= bytes_max, "{name}: {bytes} > {bytes_max}");
            assert!(
                2 * bytes > bytes_max || name == "list_groups",
                "{name}: only {bytes}"
            );
        }
    }
    for (name, answer) in lists(2) {
        let [bounded, whole] = [ReplyBytes::LEAST_KNOWN, ReplyBytes::UNBOUNDED]
            .map(|reply_max| bytes_of(tool(name), answer.clone(), reply_max));
        assert_eq!(bounded, whole, "{name}");
    }
}

#[test]
fn what_is_pending_is_counted_and_listed_as_far_as_there_is_room_and_the_rest_by_kinds() {
    let pending = |kinds: Vec<Kind>| {
        let result = ToolResult::Answered {
            tool: tool("list_pending"),
            answer: Ok(Mail::Pending { kinds }.into()),
            reply_max: ReplyBytes::LEAST_KNOWN,
        };
        let [text] = &result.texts()[..] else {
            panic!("one text");
        };
        serde_json::from_str::<Value>(text).expect("JSON")
    };
    let few = pending(vec![Kind::Status, Kind::Free]);
    assert_eq!(few, json!({"count": 2, "kinds": ["status", "free"]}));
    let hundreds = pending(vec![Kind::Question; 600]);
    assert_eq!(hundreds, json!({"count": 600, "kinds": vec!["question"; 600]}));
    let mut kinds = vec![Kind::Status; 5_000];
    kinds.extend(vec![Kind::Question; 4_000]);
    let many = pending(kinds);
    let listed = many["kinds"].as_array().expect("an array").len();
    assert!(listed > 600, "{listed}");
    let later = json!({"status": 5_000 - listed, "question": 4_000, "directive": 0, "free": 0});
    assert_eq!((&many["count"], &many["later"]), (&json!(9_000), &later));
}

#[test]
fn resources_fit_and_say_how_much_more_there_is() {
    let mut random = fastrand::Rng::with_seed(10);
    let resources = || ALL.iter().flat_map(|toolset| toolset.resources);
    for round in 0..6 {
        for resource in resources() {
            let lengths = [50, 3_000, 20_000][round % 3];
            let deliveries: Vec<Delivery> = (0..50).map(|_| delivery(&mut random, lengths)).collect();
            let reply: Reply = match resource.uri {
                "relay://agents" => lists(500).swap_remove(1).1,
                "relay://inbox" => Mail::Seen {
                    deliveries,
                    remaining: 9_950,
                    held: Vec::new(),
                    project: None,
                }
                .into(),
                "relay://project" => agents::Reply::You {
                    agent: None,
                    place: "/".repeat(200),
                    started_at: Timestamp::from_millis(0),
                    now: Timestamp::from_millis(0),
                }
                .into(),
                other => panic!("{other} is not walked"),
            };
            for reply_max in [LEAST, ReplyBytes::LEAST_KNOWN] {
                let mut written = Vec::new();
                (resource.to_json)(&reply, reply_max, &mut Json::document(&mut written));
                let written = String::from_utf8(written).expect("UTF-8");
                let bytes = escaped_bytes(&written);
                let bytes_max = reply_max.bytes().expect("a bound") as usize;
                assert!(bytes <= bytes_max, "{}: {bytes} > {bytes_max}", resource.uri);
                let json: Value = serde_json::from_str(&written).expect("JSON");
                if let Some(all) = json.as_array() {
                    let last = all.last().expect("one at least");
                    let total = if resource.uri == "relay://inbox" {
                        10_000
                    } else {
                        500
                    };
                    assert_eq!(last["remaining"], json!(total - all.len()), "{}", resource.uri);
                }
            }
        }
    }
}

#[test]
fn prompts_fit() {
    let least = ReplyBytes::LEAST_KNOWN.bytes().expect("a bound") as usize;
    for prompt in ALL.iter().flat_map(|toolset| toolset.prompts) {
        let bytes = escaped_bytes(prompt.text);
        assert!(bytes <= least - 512, "{}: {bytes} bytes", prompt.name);
    }
}

#[test]
fn lists_that_are_cut_say_how_much_is_left_out() {
    const ALL_OF_IT: usize = 2_000;
    for (name, answer) in lists(ALL_OF_IT) {
        let result = ToolResult::Answered {
            tool: tool(name),
            answer: Ok(answer),
            reply_max: ReplyBytes::LEAST_KNOWN,
        };
        let (texts, data) = result.texts_and_data();
        let shown = |member: &str| {
            data.as_ref()
                .map_or(0, |data| data[member].as_array().map_or(0, Vec::len))
        };
        let left_out = data.as_ref().map(|data| data["left_out"].clone());
        match name {
            // Its own test has what it says.
            "list_pending" => {}
            "relay_who" => {
                let mut lines = texts[0].lines().rev();
                let last = lines.next().expect("a line");
                // Behind the heading.
                let count = lines.count() - 1;
                let more = format!(
                    "... and {} more; name a project, or leave idle ones out",
                    ALL_OF_IT - count
                );
                assert_eq!(last, more);
            }
            "list_agents" => assert_eq!(left_out, Some(json!(ALL_OF_IT - shown("agents")))),
            "list_groups" => assert_eq!(left_out, Some(json!(ALL_OF_IT - shown("groups")))),
            "get_group" => {
                let shown = shown("members") + shown("expanded_agents");
                assert_eq!(left_out, Some(json!(2 * ALL_OF_IT - shown)));
            }
            other => panic!("{other} is not looked at"),
        }
    }
    for (name, answer) in lists(2) {
        let result = ToolResult::Answered {
            tool: tool(name),
            answer: Ok(answer),
            reply_max: ReplyBytes::LEAST_KNOWN,
        };
        let (texts, data) = result.texts_and_data();
        assert!(data.is_none_or(|data| data.get("left_out").is_none()), "{name}");
        assert!(!texts.concat().contains("more"), "{name}: {texts:?}");
    }
}
