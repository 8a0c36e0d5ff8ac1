//! Channels, which are made and joined by their use.

use relay::engine::address::Warning;
use relay::engine::agents::Registration;

use super::*;

/// pm's own session, and that of an agent of another project.
const PM: SessionId = SessionId(4);
const UI: SessionId = SessionId(5);

/// A relay where they are open.
fn with_pm() -> Relay {
    let mut relay = Relay::told();
    relay.open(PM, Carrier::Stream, Some("pm"));
    relay.register(UI, registration("web:ui", None));
    relay
}

fn refuses(call: u64, refusal: groups::Refusal) -> [Effect; 1] {
    [refused(call, refusal.into())]
}

/// The agents that a message to an address went to, and what its sender was told.
#[track_caller]
pub fn posted(relay: &mut Relay, from: &str, to: &str) -> (Vec<AgentName>, Vec<Warning>) {
    relay.events();
    let effects = relay.call(A, 2_000, post(Some(from), to, ""));
    let agents = relay.went_out().map(|(_, agents)| agents);
    match &effects[..] {
        [
            Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Posted { warnings, .. })),
                ..
            },
        ] => (agents.expect("it was accepted"), warnings.to_vec()),
        _ => panic!("{effects:?}"),
    }
}

pub fn names(agents: &[&str]) -> Vec<AgentName> {
    agents.iter().map(|agent| name(agent)).collect()
}

fn channel(channel: &str) -> ChannelName {
    ChannelName::new(channel).expect("a good name")
}

fn joined(events: &[Event]) -> Vec<(String, String)> {
    let joined = events.iter().filter_map(|event| {
        let Event::Joined { channel, agent } = event else {
            return None;
        };
        Some((channel.to_string(), agent.to_string()))
    });
    joined.collect()
}

fn read_channel(agent: &str, channel: &str, wait_ms: u32) -> Command {
    Command::Mail(mail::Command::Read {
        agent: Some(agent.to_owned()),
        options: Some(Box::new(mail::ReadOptions {
            channel: Some(channel.to_owned()),
            ..mail::ReadOptions::default()
        })),
        room: None,
        wait_ms,
        second: mail::Second::Supersedes,
    })
}

#[test]
fn a_channel_is_made_and_joined_by_who_posts_to_it_and_joined_by_who_reads_it() {
    let mut relay = Relay::told();
    relay.events();
    let nobodys = vec![Warning::NobodysChannel(channel("build"))];
    assert_eq!(posted(&mut relay, "pm", "#build"), (names(&[]), nobodys));
    let alone = vec![Warning::NobodyElse(channel("build"))];
    assert_eq!(posted(&mut relay, "pm", "#build"), (names(&[]), alone));
    let joins = |relay: &mut Relay, command: Command| {
        relay.events();
        relay.call(B, 3_000, command);
        joined(&relay.events())
    };
    let joining = |agent: &str| vec![("build".to_owned(), agent.to_owned())];
    assert_eq!(joins(&mut relay, post(Some("pm"), "#build", "")), []);
    assert_eq!(
        joins(&mut relay, read_channel("dev-a", "#build", 0)),
        joining("dev-a")
    );
    assert_eq!(joins(&mut relay, read_channel("dev-a", "build", 0)), []);
    assert_eq!(
        posted(&mut relay, "pm", "#build"),
        (names(&["dev-a"]), Vec::new())
    );
    assert_eq!(
        joins(&mut relay, read_channel("dev-b", "default:#build", WAIT_MS)),
        joining("dev-b"),
        "who waits has joined"
    );
    let to_both = sent(5, 0, "pm", Recipient::channel(&channel("build")));
    let [posted] = accepted(1, &to_both);
    assert_eq!(relay.post(A, 1, &to_both), [posted, shown(3_000, [to_both])]);
}

#[test]
fn a_channel_that_is_not_there_is_not_made_by_a_read() {
    let mut relay = Relay::told();
    posted(&mut relay, "pm", "#build");
    let unknown = |call, name: &str| {
        let known = ["#general", "#build"].map(str::to_owned).to_vec();
        let name = name.to_owned();
        refuses(call, groups::Refusal::UnknownChannel { name, known })
    };
    assert_eq!(
        relay.call(B, 1, read_channel("dev-a", "#built", WAIT_MS)),
        unknown(1, "#built")
    );
    let invalid = agents::Refusal::InvalidName(InvalidName::Form {
        noun: "channel",
        name: "a b".to_owned(),
    });
    assert_eq!(
        relay.call(B, 2, read_channel("dev-a", "#a b", 0)),
        [refused(2, invalid.into())]
    );
}

#[test]
fn a_refused_post_joins_no_channel() {
    let mut relay = Relay::told();
    let long = post(Some("pm"), "#build", &"x".repeat(101));
    assert!(matches!(
        relay.call(A, 1, long)[..],
        [Effect::Reply { result: Err(_), .. }]
    ));
    assert!(matches!(
        relay.call(B, 2, read_channel("dev-a", "build", 0))[..],
        [Effect::Reply { result: Err(_), .. }]
    ));
}

#[test]
fn the_channel_of_all_agents_is_always_there_and_nobody_joins_it() {
    let mut relay = with_pm();
    relay.events();
    assert_eq!(posted(&mut relay, "pm", "#general").0, names(&["dev-a", "dev-b"]));
    assert_eq!(posted(&mut relay, "pm", "web:#general").0, names(&["web:ui"]));
    let alone = vec![Warning::NobodyElse(
        ChannelName::in_project("web", "general").unwrap(),
    )];
    assert_eq!(posted(&mut relay, "web:ui", "#general"), (names(&[]), alone));
    relay.call(A, 1, read_channel("dev-a", "#general", 0));
    assert_eq!(joined(&relay.events()), []);
}

#[test]
fn an_agent_may_join_a_channel_of_another_project() {
    let mut relay = with_pm();
    posted(&mut relay, "web:ui", "#build");
    posted(&mut relay, "pm", "web:#build");
    assert_eq!(posted(&mut relay, "web:ui", "#build").0, names(&["pm"]));
    let to_pm = relay.call(A, 1, read_channel("pm", "web:#build", 0));
    let [
        Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
            ..
        },
    ] = &to_pm[..]
    else {
        panic!("{to_pm:?}");
    };
    let to = Recipient::channel(&ChannelName::in_project("web", "build").unwrap());
    assert!(deliveries.iter().all(|delivery| delivery.message.to == to));
    assert_eq!((deliveries.len(), to.as_str()), (1, "web:#build"));
}

#[test]
fn so_many_channels_may_be_there_and_not_one_more() {
    let mut relay = with_pm();
    posted(&mut relay, "pm", "#one");
    posted(&mut relay, "pm", "web:#two");
    let too_many = groups::Refusal::TooManyChannels { channels: 2 };
    let third = post(Some("pm"), "#three", "");
    assert_eq!(relay.call(A, 1, third), refuses(1, too_many));
    posted(&mut relay, "dev-a", "#one");
    posted(&mut relay, "dev-a", "#general");
}

#[test]
fn the_person_writes_to_channels_and_reads_of_them_without_joining() {
    let mut relay = with_pm();
    let person = SessionId(6);
    relay.open_for_person(person);
    posted(&mut relay, "pm", "#one");
    posted(&mut relay, "pm", "web:#two");
    relay.events();
    let to_nobody = relay.call(person, 2, post(None, "#three", ""));
    let posted = mail::Reply::Posted {
        id: MessageId(id(3)),
        given: "#three".into(),
        to: Recipient::channel(&channel("three")),
        ts: START,
        thread: None,
        warnings: [Warning::NobodysChannel(channel("three"))].into(),
        absence: None,
    };
    assert_eq!(
        to_nobody,
        [reply(2, Ok(posted.into()))],
        "it makes none, so that there need be no room for one"
    );
    assert_eq!(joined(&relay.events), []);
    assert_eq!(relay.went_out().map(|(_, agents)| agents), Some(names(&[])));
    relay.call(person, 4, post(None, "#one", ""));
    assert_eq!(joined(&relay.events), []);
    assert_eq!(relay.went_out().map(|(_, agents)| agents), Some(names(&["pm"])));
    relay.call(person, 3, read_channel("user", "#one", 0));
    assert_eq!(joined(&relay.events()), []);
}

#[test]
fn who_has_gone_is_in_no_channel() {
    let mut relay = with_pm();
    let temp = SessionId(6);
    let registered = Registration {
        transient: true,
        ..registration("temp", None)
    };
    relay.register(temp, registered);
    posted(&mut relay, "temp", "#build");
    relay.close(temp, Ending::Orderly);
    relay.now = START.plus_millis(relay::engine::limits::TRANSIENT_MS);
    let alone = vec![Warning::NobodysChannel(channel("build"))];
    assert_eq!(posted(&mut relay, "pm", "#build"), (names(&[]), alone));
}
