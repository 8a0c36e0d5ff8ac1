//! Channels that are made, joined, left and looked at by their names.

use relay::engine::channels::{Change, ChannelView, Command, Reply};
use relay::engine::groups;

use super::channels::{names, posted};
use super::*;

/// The sessions of pm, of dev-a and of an agent of another project.
const PM: SessionId = SessionId(4);
const DEV: SessionId = SessionId(5);
const UI: SessionId = SessionId(6);

fn relay_with(bounds: Bounds) -> Relay {
    let mut relay = Relay::told_within(bounds);
    relay.open(PM, Carrier::Stream, Some("pm"));
    relay.open(DEV, Carrier::Stream, Some("dev-a"));
    relay.register(UI, registration("web:ui", None));
    relay.events();
    relay
}

fn make(name: &str, topic: &str) -> Command {
    Command::Make {
        name: name.to_owned(),
        topic: topic.to_owned(),
    }
}

fn join(name: &str) -> Command {
    Command::Join {
        name: name.to_owned(),
    }
}

fn leave(name: &str) -> Command {
    Command::Leave {
        name: name.to_owned(),
    }
}

fn get(name: &str) -> Command {
    Command::Get {
        name: name.to_owned(),
    }
}

fn ask(relay: &mut Relay, session: SessionId, command: Command) -> Result<Reply, Refusal> {
    let mut effects = relay.call(session, 1, command.into());
    match effects.pop() {
        Some(Effect::Reply {
            result: Ok(relay::engine::Reply::Channels(reply)),
            ..
        }) => Ok(reply),
        Some(Effect::Reply {
            result: Err(refusal), ..
        }) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn whole(name: &str) -> ChannelName {
    let (project, name) = name.split_once(':').unwrap_or((DEFAULT_PROJECT, name));
    ChannelName::in_project(project, name).expect("a good name")
}

fn view(name: &str, topic: &str, members: &[(&str, i64)]) -> ChannelView {
    let at = |ms: i64| START.plus_millis(ms);
    ChannelView {
        name: whole(name),
        topic: topic.to_owned(),
        created_at: members.iter().map(|(_, ms)| at(*ms)).min().unwrap_or(START),
        members: members
            .iter()
            .map(|(agent, ms)| (name_of(agent), at(*ms)))
            .collect(),
    }
}

fn name_of(agent: &str) -> AgentName {
    name(agent)
}

fn joined(channel: ChannelView, already: bool) -> Result<Reply, Refusal> {
    let channel = Box::new(channel);
    Ok(Reply::Joined { channel, already })
}

#[test]
fn a_channel_that_is_made_has_its_topic_and_who_made_it_and_is_joined_and_left() {
    let mut relay = relay_with(ROOMY);
    relay.now = START.plus_millis(5);
    let made = view("build", "what breaks", &[("pm", 5)]);
    assert_eq!(
        ask(&mut relay, PM, make("#build", "what breaks")),
        joined(made, false)
    );
    relay.now = START.plus_millis(7);
    let both = view("build", "what breaks", &[("dev-a", 7), ("pm", 5)]);
    assert_eq!(ask(&mut relay, DEV, join("build")), joined(both.clone(), false));
    let events = relay.events();
    let told = |agent: &str| Event::Joined {
        channel: whole("build"),
        agent: name(agent),
    };
    assert_eq!(events, [told("pm"), told("dev-a")]);
    relay.now = START.plus_millis(9);
    assert_eq!(
        ask(&mut relay, DEV, join("#build")),
        joined(both, true),
        "since when it is in it stays"
    );
    assert_eq!(posted(&mut relay, "dev-b", "#build").0, names(&["dev-a", "pm"]));
    let left = Ok(Reply::Left { name: whole("build") });
    assert_eq!(ask(&mut relay, DEV, leave("build")), left);
    assert_eq!(
        relay.events().pop(),
        Some(Event::Left {
            channel: whole("build"),
            agent: name("dev-a"),
        })
    );
    assert_eq!(posted(&mut relay, "dev-b", "#build").0, names(&["pm"]));
}

#[test]
fn a_channel_that_its_last_member_leaves_is_gone_with_its_topic() {
    let mut relay = relay_with(ROOMY);
    ask(&mut relay, PM, make("build", "old")).expect("it is not there");
    ask(&mut relay, PM, leave("build")).expect("it is in it");
    let unknown = groups::Refusal::UnknownChannel {
        name: "#build".to_owned(),
        known: vec!["#general".to_owned()],
    };
    assert_eq!(ask(&mut relay, PM, get("build")), Err(unknown.clone().into()));
    assert_eq!(ask(&mut relay, PM, leave("build")), Err(unknown.into()));
    assert_eq!(
        ask(&mut relay, DEV, join("build")),
        joined(view("build", "", &[("dev-a", 0)]), false)
    );
}

#[test]
fn channels_are_seen_from_a_project_and_the_one_of_all_agents_is_the_first() {
    let mut relay = relay_with(ROOMY);
    ask(&mut relay, PM, make("build", "")).expect("it is not there");
    ask(&mut relay, PM, join("web:#look")).expect("there is room");
    let all = view("general", "", &[("dev-a", 0), ("dev-b", 0), ("pm", 0)]);
    let of_web = [
        view("web:general", "", &[("web:ui", 0)]),
        view("web:look", "", &[("pm", 0)]),
    ];
    let listed = |channels: &[ChannelView]| {
        let channels = channels.to_vec();
        Ok(Reply::Listed { channels })
    };
    let list = |project: Option<&str>| Command::List {
        project: project.map(str::to_owned),
    };
    let build = view("build", "", &[("pm", 0)]);
    assert_eq!(ask(&mut relay, PM, list(None)), listed(&[all.clone(), build]));
    assert_eq!(ask(&mut relay, UI, list(None)), listed(&of_web));
    assert_eq!(
        ask(&mut relay, A, list(Some("web"))),
        listed(&of_web),
        "also by nobody"
    );
    let seen = |channel: ChannelView| {
        let channel = Box::new(channel);
        Ok(Reply::Seen { channel })
    };
    assert_eq!(ask(&mut relay, UI, get("#look")), seen(of_web[1].clone()));
    assert_eq!(ask(&mut relay, UI, get("default:#general")), seen(all));
}

#[test]
fn what_cannot_be_is_refused_and_says_why() {
    let mut relay = relay_with(ROOMY);
    let person = SessionId(7);
    relay.open_for_person(person);
    ask(&mut relay, PM, make("one", "")).expect("it is not there");
    ask(&mut relay, PM, make("web:two", "")).expect("it is not there");
    for (session, command, refusal) in [
        (
            DEV,
            make("one", ""),
            groups::Refusal::ChannelExists { name: whole("one") },
        ),
        (
            DEV,
            make("general", ""),
            groups::Refusal::ChannelExists {
                name: whole("general"),
            },
        ),
        (
            DEV,
            make("more", &"x".repeat(21)),
            groups::Refusal::DescriptionTooLong {
                bytes: 21,
                bytes_max: 20,
            },
        ),
        (
            DEV,
            make("more", ""),
            groups::Refusal::TooManyChannels { channels: 2 },
        ),
        (
            DEV,
            join("more"),
            groups::Refusal::TooManyChannels { channels: 2 },
        ),
        (
            DEV,
            leave("one"),
            groups::Refusal::NotInChannel {
                name: whole("one"),
                agent: name("dev-a"),
            },
        ),
        (
            DEV,
            leave("#general"),
            groups::Refusal::ChannelOfAll {
                name: whole("general"),
            },
        ),
    ] {
        assert_eq!(ask(&mut relay, session, command), Err(refusal.into()));
    }
    let known = || Known::from(&Roster::default());
    let persons = agents::Refusal::Person {
        named: NamedAs::Sender,
        known: known(),
    };
    assert_eq!(ask(&mut relay, person, join("one")), Err(persons.into()));
    let anonymous = agents::Refusal::Anonymous {
        named: NamedAs::Sender,
        known: known(),
    };
    assert_eq!(ask(&mut relay, A, join("one")), Err(anonymous.into()));
    let invalid = agents::Refusal::InvalidName(InvalidName::Form {
        noun: "channel",
        name: "a b".to_owned(),
    });
    assert_eq!(ask(&mut relay, DEV, join("#a b")), Err(invalid.into()));
    let fenced = || agents::Refusal::Fenced {
        agent: name("web:ui"),
    };
    relay.register(SessionId(8), registration("web:ui", Some(1)));
    assert_eq!(ask(&mut relay, UI, join("two")), Err(fenced().into()));
    assert_eq!(ask(&mut relay, UI, get("two")), Err(fenced().into()));
}

#[test]
fn a_join_of_the_channel_of_all_agents_changes_nothing() {
    let mut relay = relay_with(ROOMY);
    let all = view("general", "", &[("dev-a", 0), ("dev-b", 0), ("pm", 0)]);
    assert_eq!(ask(&mut relay, PM, join("general")), joined(all, true));
    assert_eq!(relay.events(), []);
}

#[test]
fn a_channel_s_name_is_known_and_nothing_else_has_one() {
    for (channel, local) in [("general", "general"), ("web:ops", "ops")] {
        let (project, name) = channel.split_once(':').unwrap_or((DEFAULT_PROJECT, channel));
        let channel = ChannelName::in_project(project, name).expect("a good name");
        assert_eq!(Recipient::channel(&channel).channel_name(), Some(local));
    }
    let agent = Recipient::agent(&name("dev-a"));
    assert_eq!(
        (agent.channel_name(), agent.as_agent()),
        (None, Some(name("dev-a")))
    );
    let all = Recipient::everyone(None);
    assert_eq!((all.channel_name(), all.as_agent()), (None, None));
}

#[test]
fn a_topic_may_take_all_the_room_that_there_is() {
    let mut relay = Relay::told();
    relay.open(EXCHANGE, Carrier::Exchange, Some("pm"));
    let topic = "x".repeat(ROOMY.description_bytes_max);
    let made = relay.call(EXCHANGE, 1, make("ops", &topic).into());
    assert!(
        matches!(made[..], [Effect::Reply { result: Ok(_), .. }]),
        "{made:?}"
    );
}

#[test]
fn the_person_alone_says_who_else_is_in_a_channel() {
    const USER: SessionId = SessionId(30);
    let bounds = Bounds {
        channels_max: 2,
        ..ROOMY
    };
    let mut relay = relay_with(bounds);
    relay.open_for_person(USER);
    relay.events();
    let named = |agents: &[&str]| agents.iter().map(ToString::to_string).collect::<Vec<_>>();
    let change = |name: &str, change: Change| Command::Change {
        name: name.to_owned(),
        change,
    };
    let make = |name: &str, agents: &[&str]| {
        let (topic, agents) = ("builds".to_owned(), named(agents));
        change(name, Change::Make { topic, agents })
    };
    let add = |name: &str, agents: &[&str]| {
        change(
            name,
            Change::Add {
                agents: named(agents),
            },
        )
    };
    let take = |name: &str, agents: &[&str]| {
        change(
            name,
            Change::Take {
                agents: named(agents),
            },
        )
    };
    let changed = |name: &str, members: &[&str]| {
        let (name, members) = (whole(name), members.iter().map(|agent| name_of(agent)).collect());
        Ok(Reply::Changed { name, members })
    };
    for session in [PM, UI] {
        for asked in [make("build", &["pm"]), change("general", Change::End)] {
            let refused = Err(groups::Refusal::OnlyThePerson.into());
            assert_eq!(ask(&mut relay, session, asked), refused);
        }
    }
    let nobody = Err(groups::Refusal::NobodyIn { name: whole("build") }.into());
    assert_eq!(ask(&mut relay, USER, make("build", &[])), nobody);
    assert!(ask(&mut relay, USER, make("build", &["pm", "nobody"])).is_err());
    assert!(ask(&mut relay, USER, make("build", &["user"])).is_err());
    assert_eq!(relay.events(), [], "a refusal changes nothing");
    let made = ask(&mut relay, USER, make("#build", &["pm", "@dev-a", "pm"]));
    assert_eq!(made, changed("build", &["dev-a", "pm"]));
    let joined = |events: Vec<Event>| {
        let joined = events.into_iter().filter_map(|event| {
            let is_in = matches!(event, Event::Joined { .. });
            let (Event::Joined { agent, .. } | Event::Left { agent, .. }) = event else {
                return None;
            };
            Some((agent, is_in))
        });
        joined.collect::<Vec<_>>()
    };
    let each = |agents: &[&str], is_in: bool| {
        let each = agents.iter().map(|agent| (name_of(agent), is_in));
        each.collect::<Vec<_>>()
    };
    assert_eq!(joined(relay.events()), each(&["dev-a", "pm"], true));
    let exists = Err(groups::Refusal::ChannelExists { name: whole("build") }.into());
    assert_eq!(ask(&mut relay, USER, make("build", &["dev-b"])), exists);
    // Who is in it stays, since when it was.
    assert_eq!(
        ask(&mut relay, USER, add("build", &["pm", "dev-b"])),
        changed("build", &["dev-a", "dev-b", "pm"])
    );
    assert_eq!(joined(relay.events()), each(&["dev-b"], true));
    // Agents of another project are not of this one's channels.
    assert!(ask(&mut relay, USER, add("build", &["ui"])).is_err());
    assert_eq!(
        ask(&mut relay, USER, make("web:plans", &["ui"])),
        changed("web:plans", &["web:ui"])
    );
    let full = Err(groups::Refusal::TooManyChannels { channels: 2 }.into());
    assert_eq!(ask(&mut relay, USER, make("more", &["pm"])), full);
    let not_in = groups::Refusal::NotInChannel {
        name: whole("web:plans"),
        agent: name_of("web:lead"),
    };
    relay.register(SessionId(31), registration("web:lead", None));
    relay.events();
    assert_eq!(
        ask(&mut relay, USER, take("web:plans", &["ui", "lead"])),
        Err(not_in.into())
    );
    assert_eq!(relay.events(), []);
    assert_eq!(
        ask(&mut relay, USER, take("build", &["dev-b", "dev-a"])),
        changed("build", &["pm"])
    );
    assert_eq!(
        ask(&mut relay, USER, change("build", Change::End)),
        changed("build", &[])
    );
    assert!(ask(&mut relay, USER, get("build")).is_err());
    let of_all = Err(groups::Refusal::ChannelOfAll {
        name: whole("general"),
    }
    .into());
    assert_eq!(ask(&mut relay, USER, change("general", Change::End)), of_all);
    let unknown = ask(&mut relay, USER, add("build", &["pm"]));
    assert!(matches!(
        unknown,
        Err(Refusal::Groups(groups::Refusal::UnknownChannel { .. }))
    ));
}
