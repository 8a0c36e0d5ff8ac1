//! Whom an address means: every row of the table in `engine::address`, and what a message to many is.

use relay::engine::address::{Address, InvalidAddress, Target, Warning};
use relay::engine::limits::TRANSIENT_MS;

use super::*;

/// The sessions of the two that make the groups.
const PM: SessionId = SessionId(4);
const WEB_PM: SessionId = SessionId(5);

/// A relay with roles, a group and a channel in the default project, and with two agents in another one.
///
/// dev-a and dev-b are implementers, qa a reviewer; the group `crew` has dev-a, and all implementers as well; pm and qa have used
/// the channel `#build`. In `web` there are ui, an implementer, and pm.
fn world() -> Relay {
    world_within(ROOMY)
}

fn world_within(bounds: Bounds) -> Relay {
    let mut relay = Relay::told_within(bounds);
    for (session, agent, role) in [
        (10, "dev-a", "implementer"),
        (11, "dev-b", "implementer"),
        (12, "qa", "reviewer"),
        (13, "web:ui", "implementer"),
    ] {
        let session = SessionId(session);
        relay.register(session, of_role(role, registration(agent, None)));
        relay.close(session, Ending::Orderly);
    }
    relay.open(PM, Carrier::Stream, Some("pm"));
    relay.register(WEB_PM, registration("web:pm", None));
    in_group(&mut relay, PM, "crew", groups::Named::Agent("dev-a".to_owned()));
    in_group(
        &mut relay,
        PM,
        "crew",
        groups::Named::Role("implementer".to_owned()),
    );
    for (call, from) in [(1_010, "pm"), (1_011, "qa")] {
        relay.call(A, call, post(Some(from), "#build", ""));
    }
    // Nothing is left of the first message that pm did not send.
    relay.call(A, 1_012, read("pm"));
    relay.events();
    relay
}

/// Puts somebody into a group, which is made if it is not there.
fn in_group(relay: &mut Relay, session: SessionId, group: &str, member: groups::Named) {
    let (group, description) = (group.to_owned(), String::new());
    let name = group.clone();
    relay.call(
        session,
        1_020,
        groups::Command::Create { name, description }.into(),
    );
    relay.call(session, 1_021, groups::Command::Add { group, member }.into());
}

/// Where a message went, in whose inboxes it is, and what its sender was told.
type Sent = (String, Vec<String>, Vec<Warning>);

/// Posts, and returns what became of it.
#[track_caller]
fn send(relay: &mut Relay, from: &str, address: &str) -> Result<Sent, Refusal> {
    relay.events();
    let effects = relay.call(A, 2_000, post(Some(from), address, ""));
    let [Effect::Reply { result, .. }] = &effects[..] else {
        panic!("{effects:?}");
    };
    let Ok(Reply::Mail(mail::Reply::Posted {
        given, to, warnings, ..
    })) = result
    else {
        return Err(result.clone().expect_err("a post is accepted or refused"));
    };
    assert_eq!(&**given, address);
    let (message, agents) = relay.went_out().expect("what is posted is accepted");
    assert_eq!(message.to, *to, "the sender and those who get it see the same");
    let agents = agents.iter().map(ToString::to_string).collect();
    Ok((to.to_string(), agents, warnings.to_vec()))
}

/// A message that went there, to these.
fn went(to: &str, agents: &[&str]) -> Result<Sent, Refusal> {
    let agents = agents.iter().map(ToString::to_string).collect();
    Ok((to.to_owned(), agents, Vec::new()))
}

#[test]
fn an_address_means_whom_the_table_says() {
    let rows: [(&str, &str, &[&str]); 27] = [
        ("dev-a", "dev-a", &["dev-a"]),
        ("@dev-a", "dev-a", &["dev-a"]),
        ("default:dev-a", "dev-a", &["dev-a"]),
        ("default:@dev-a", "dev-a", &["dev-a"]),
        ("user", "user", &["user"]),
        ("implementer", "@implementer", &["dev-a", "dev-b"]),
        ("@implementer", "@implementer", &["dev-a", "dev-b"]),
        ("default:@implementer", "@implementer", &["dev-a", "dev-b"]),
        ("agent:implementer:4f2a", "@implementer", &["dev-a", "dev-b"]),
        ("default:agent:implementer:0", "@implementer", &["dev-a", "dev-b"]),
        ("crew", "@crew", &["dev-a", "dev-b"]),
        ("@crew", "@crew", &["dev-a", "dev-b"]),
        ("default:crew", "@crew", &["dev-a", "dev-b"]),
        ("#build", "#build", &["qa"]),
        ("default:#build", "#build", &["qa"]),
        ("#general", "#general", &["dev-a", "dev-b", "qa"]),
        ("*", "@everyone", &["dev-a", "dev-b", "qa"]),
        ("@everyone", "@everyone", &["dev-a", "dev-b", "qa"]),
        ("default:*", "@everyone", &["dev-a", "dev-b", "qa"]),
        ("*:*", "*:*", &["dev-a", "dev-b", "qa", "web:pm", "web:ui"]),
        ("web:ui", "web:ui", &["web:ui"]),
        ("web:@ui", "web:ui", &["web:ui"]),
        ("web:implementer", "web:@implementer", &["web:ui"]),
        ("web:agent:implementer:0", "web:@implementer", &["web:ui"]),
        ("web:#general", "web:#general", &["web:pm", "web:ui"]),
        ("web:*", "web:@everyone", &["web:pm", "web:ui"]),
        ("web:@everyone", "web:@everyone", &["web:pm", "web:ui"]),
    ];
    for (address, to, agents) in rows {
        let mut relay = world();
        assert_eq!(send(&mut relay, "pm", address), went(to, agents), "{address}");
    }
}

#[test]
fn several_names_with_commas_between_them_are_one_message_that_each_gets_once() {
    let rows: [(&str, &str, &[&str]); 9] = [
        ("dev-a, qa", "dev-a, qa", &["dev-a", "qa"]),
        ("qa,dev-a", "qa, dev-a", &["dev-a", "qa"]),
        ("qa, dev-a, ", "qa, dev-a", &["dev-a", "qa"]),
        (" dev-a ,@dev-a", "dev-a", &["dev-a"]),
        ("dev-a, implementer", "dev-a, @implementer", &["dev-a", "dev-b"]),
        ("crew, user", "@crew, user", &["dev-a", "dev-b", "user"]),
        ("web:ui, agent:reviewer:0", "web:ui, @reviewer", &["qa", "web:ui"]),
        ("pm, qa", "pm, qa", &["qa"]),
        ("pm, pm", "pm", &["pm"]),
    ];
    for (address, to, agents) in rows {
        let mut relay = world();
        assert_eq!(send(&mut relay, "pm", address), went(to, agents), "{address}");
    }
    let mut relay = world();
    let sent = send(&mut relay, "web:pm", "ui, default:dev-a");
    assert_eq!(sent, went("web:ui, dev-a", &["dev-a", "web:ui"]));
    let agent = |name: &str| Recipient::agent(&crate::name(name));
    let two = Recipient::list(vec![agent("web:ui"), agent("dev-a")]);
    assert_eq!(two.as_str(), "web:ui, dev-a");
    assert_eq!(two.seen_from("web"), "ui, default:dev-a");
    assert_eq!(two.seen_from("default"), "web:ui, dev-a");
    assert_eq!(two.by().as_str(), "list");
}

/// All of them get it, or none does.
#[test]
fn one_of_several_that_means_nobody_is_named_and_nobody_gets_it() {
    let mut relay = world();
    for (address, wrong) in [
        ("dev-a, PM", "PM"),
        ("nobody, dev-a", "nobody"),
        ("dev-a, dev_b", "dev_b"),
    ] {
        let refused = send(&mut relay, "pm", address).expect_err("not all of them are there");
        let Refusal::Agents(agents::Refusal::UnknownAddress { name, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(name, wrong);
    }
    send(&mut relay, "pm", &vec!["dev-a"; 32].join(",")).expect("as many as may be named");
    let too_many = vec!["dev-a"; 33].join(",");
    for address in [
        "dev-a,,",
        ",",
        "dev-a,,qa",
        "dev-a, #build",
        "*, dev-a",
        "dev-a, *:*",
        &too_many,
    ] {
        let given = match address.len() {
            ..=80 => address.to_owned(),
            _ => format!("{}…", &address[..80]),
        };
        let refusal = agents::Refusal::InvalidAddress(InvalidAddress { given });
        assert_eq!(
            send(&mut relay, "pm", address),
            Err(Refusal::Agents(refusal)),
            "{address}"
        );
    }
    assert!(relay.went_out().is_none(), "nothing was accepted");
}

#[test]
fn without_a_project_the_sender_s_own_is_meant() {
    let rows: [(&str, &str, &[&str]); 7] = [
        ("ui", "web:ui", &["web:ui"]),
        ("pm", "web:pm", &["web:pm"]),
        ("default:pm", "pm", &["pm"]),
        ("implementer", "web:@implementer", &["web:ui"]),
        ("*", "web:@everyone", &["web:ui"]),
        ("#general", "web:#general", &["web:ui"]),
        ("*:*", "*:*", &["dev-a", "dev-b", "pm", "qa", "web:ui"]),
    ];
    for (address, to, agents) in rows {
        let mut relay = world();
        assert_eq!(send(&mut relay, "web:pm", address), went(to, agents), "{address}");
    }
}

#[test]
fn what_is_shown_to_a_sender_is_what_others_see_of_it() {
    let mut relay = world();
    let to = Recipient::group(&GroupName::new("crew").unwrap());
    let message = sent(3, 0, "pm", to.clone());
    assert_eq!(to.by().as_str(), "group");
    // It is there.
    relay.call(B, 0, look("dev-b"));
    assert_eq!(relay.post(A, 1, &message), accepted(1, &message));
    assert_eq!(relay.call(B, 2, read("dev-b")), [shown(2, [message])]);
}

#[test]
fn an_agent_s_name_goes_before_a_role_and_a_role_before_a_group() {
    let mut relay = world();
    let everybody = |relay: &mut Relay, group| {
        let role = groups::Named::Role("reviewer".to_owned());
        in_group(relay, PM, group, role);
    };
    everybody(&mut relay, "implementer");
    let group = |group| Warning::AlsoGroup(GroupName::new(group).unwrap());
    let role = |role| Warning::AlsoRole(Role::new(role).unwrap());
    let told = |to: &str, agents: &[&str], warnings: &[Warning]| {
        went(to, agents).map(|(to, agents, _)| (to, agents, warnings.to_vec()))
    };
    let both = ["dev-a", "dev-b"];
    let expected = told("@implementer", &both, &[group("implementer")]);
    assert_eq!(send(&mut relay, "pm", "implementer"), expected);
    let expected = told("@implementer", &both, &[]);
    assert_eq!(
        send(&mut relay, "pm", "agent:implementer:1"),
        expected,
        "that can only be a role"
    );

    relay.register(SessionId(14), registration("implementer", None));
    let expected = told(
        "implementer",
        &["implementer"],
        &[role("implementer"), group("implementer")],
    );
    assert_eq!(send(&mut relay, "pm", "implementer"), expected);
    assert_eq!(send(&mut relay, "pm", "@implementer"), expected);

    // The only one of a role whose name it has: nobody else could have been meant.
    let lint = of_role("lint", registration("lint", None));
    relay.register(SessionId(15), lint);
    assert_eq!(send(&mut relay, "pm", "lint"), told("lint", &["lint"], &[]));
    let helper = of_role("lint", registration("helper", None));
    relay.register(SessionId(16), helper);
    let expected = told("lint", &["lint"], &[role("lint")]);
    assert_eq!(send(&mut relay, "pm", "lint"), expected);
    everybody(&mut relay, "qa");
    let expected = told("qa", &["qa"], &[group("qa")]);
    assert_eq!(send(&mut relay, "pm", "qa"), expected);
}

#[test]
fn who_sends_to_many_gets_no_copy_but_who_sends_to_itself_gets_its_message() {
    for (address, to, agents) in [
        ("implementer", "@implementer", ["dev-b"].as_slice()),
        ("@crew", "@crew", &["dev-b"]),
        ("*", "@everyone", &["dev-b", "pm", "qa"]),
        ("#general", "#general", &["dev-b", "pm", "qa"]),
        ("*:*", "*:*", &["dev-b", "pm", "qa", "web:pm", "web:ui"]),
        ("dev-a", "dev-a", &["dev-a"]),
        ("@dev-a", "dev-a", &["dev-a"]),
    ] {
        let mut relay = world();
        assert_eq!(send(&mut relay, "dev-a", address), went(to, agents), "{address}");
    }
}

#[test]
fn the_person_gets_what_is_sent_to_it_alone() {
    let mut relay = world();
    relay.open_for_person(SessionId(14));
    for address in ["*", "#general", "*:*"] {
        send(&mut relay, "pm", address).expect("it is accepted");
    }
    let person = |relay: &Relay| relay.engine.status().pending.pop();
    assert_eq!(person(&relay), Some((AgentName::person(), 0)));
    for address in ["@user", "web:user", "agent:user:1"] {
        let unknown = send(&mut relay, "pm", address).expect_err("that is nobody");
        assert_eq!(unknown.class(), Class::Unknown, "{address}");
    }
    send(&mut relay, "pm", "user").expect("it is accepted");
    assert_eq!(person(&relay), Some((AgentName::person(), 1)));
    let effects = relay.call(SessionId(14), 1, post(None, "*", ""));
    assert_eq!(effects.len(), 1, "and it may send to all");
}

fn unknown(given: &str, names: &[&str]) -> Refusal {
    let names: Vec<AgentName> = names.iter().map(|agent| name(agent)).collect();
    let known = Known {
        count: names.len(),
        names,
    };
    let name = given.to_owned();
    Refusal::Agents(agents::Refusal::UnknownAddress { name, known })
}

#[test]
fn who_writes_to_nobody_is_told_who_there_is_in_the_project_that_was_meant() {
    let here = ["pm", "dev-a", "dev-b", "qa"];
    let there = ["web:pm", "web:ui"];
    for (from, to, known) in [
        ("pm", "ui", here.as_slice()),
        ("pm", "@ui", &here),
        ("pm", "everyone", &here),
        ("pm", "", &here),
        ("pm", "agent:ui:1", &here),
        ("pm", "web:dev-a", &there),
        ("pm", "web:@crew", &there),
        ("pm", "web:agent:reviewer:1", &there),
        ("web:pm", "dev-a", &there),
        ("web:pm", "crew", &there),
        ("web:pm", "default:ui", &here),
    ] {
        let mut relay = world();
        assert_eq!(
            send(&mut relay, from, to),
            Err(unknown(to, known)),
            "{from} to {to}"
        );
    }
}

#[test]
fn who_writes_to_a_project_where_nobody_is_is_told_which_projects_there_are() {
    for to in [
        "nowhere:pm",
        "nowhere:*",
        "nowhere:@crew",
        "nowhere:agent:reviewer:1",
        "nowhere:#build",
    ] {
        for from in ["pm", "web:pm"] {
            assert_eq!(
                send(&mut world(), from, to),
                Err(no_project(to)),
                "{from} to {to}"
            );
        }
    }
}

fn no_project(given: &str) -> Refusal {
    Refusal::Agents(agents::Refusal::UnknownProject {
        name: given.to_owned(),
        project: "nowhere".to_owned(),
        known: ["default", "web"].map(str::to_owned).into(),
    })
}

#[test]
fn a_channel_of_a_project_where_nobody_is_is_not_made() {
    let mut relay = world();
    for channel in ["nowhere:#build", "nowhere:#general"] {
        assert_eq!(send(&mut relay, "pm", channel), Err(no_project(channel)));
    }
    relay.register(SessionId(70), registration("nowhere:first", None));
    assert_eq!(
        send(&mut relay, "pm", "nowhere:#general"),
        went("nowhere:#general", &["nowhere:first"])
    );
}

#[test]
fn a_channel_goes_on_for_those_in_it_when_nobody_is_left_in_its_project() {
    let mut relay = world();
    let first = agents::Registration {
        transient: true,
        ..registration("nowhere:first", None)
    };
    relay.register(SessionId(70), first);
    send(&mut relay, "pm", "nowhere:#build").expect("somebody is there");
    relay.close(SessionId(70), Ending::Orderly);
    relay.now = START.plus_millis(TRANSIENT_MS);
    assert_eq!(
        send(&mut relay, "qa", "nowhere:#build"),
        went("nowhere:#build", &["pm"])
    );
    assert_eq!(
        send(&mut relay, "pm", "nowhere:*"),
        Err(no_project("nowhere:*")),
        "nobody is left there"
    );
}

#[test]
fn a_text_that_is_no_address_is_refused() {
    for text in [
        "@",
        "#",
        ":",
        "pm:",
        ":pm",
        "*pm",
        "@#pm",
        "#@pm",
        "@*",
        "#*",
        "*:pm",
        "@web:pm",
        "web:*:*",
        "*:*:*",
        "agent:pm",
        "agent::1",
        "web:agent:pm",
        "agent:agent:pm:1",
        "web:agent:pm:1:2",
        "every one:pm",
        "@agent",
        "#everyone",
        "everyone:pm",
    ] {
        let given = text.to_owned();
        let refusal = agents::Refusal::InvalidAddress(InvalidAddress { given });
        assert_eq!(
            send(&mut world(), "pm", text),
            Err(Refusal::Agents(refusal)),
            "{text}"
        );
    }
    let long = "@".repeat(200);
    let error = long.parse::<Address>().expect_err("it is no address");
    assert_eq!(
        error.to_string(),
        format!(
            "invalid address \"{}…\"; accepted: name, @role, @group, agent:role:hash, #channel, * or @everyone, each with \
             project: before it, and *:*; or up to 32 names, @roles and @groups with commas between them",
            "@".repeat(80)
        )
    );
}

#[test]
fn who_is_the_only_one_that_could_be_meant_is_told_that_nobody_is() {
    let mut relay = world();
    let nobody = |to| Err(Refusal::Agents(agents::Refusal::Nobody { to }));
    let reviewer = Recipient::role(&Role::new("reviewer").unwrap());
    assert_eq!(send(&mut relay, "qa", "@reviewer"), nobody(reviewer.clone()));
    assert_eq!(send(&mut relay, "qa", "agent:reviewer:1"), nobody(reviewer));
    let create = groups::Command::Create {
        name: "empty".to_owned(),
        description: String::new(),
    };
    relay.call(PM, 1, create.into());
    let empty = Recipient::group(&GroupName::new("empty").unwrap());
    assert_eq!(send(&mut relay, "pm", "@empty"), nobody(empty));
    let mut relay = Relay::of(Engine::new(START, Roster::new(["pm"]).unwrap(), ROOMY, [0; 16]));
    relay.open(A, Carrier::Stream, None);
    let everyone = Recipient::everyone(Some("default"));
    assert_eq!(send(&mut relay, "pm", "*"), nobody(everyone));
    assert_eq!(send(&mut relay, "pm", "*:*"), nobody(Recipient::everyone(None)));
}

#[test]
fn a_message_is_in_all_inboxes_or_in_none() {
    let bounds = Bounds {
        inbox_messages_max: 1,
        ..ROOMY
    };
    let mut relay = Relay::told_within(bounds);
    relay.post(A, 1, &message(1, 0, "pm", "dev-a"));
    relay.call(B, 2, read("dev-a"));
    relay.passed(2);
    // What dev-a has read would give way.
    relay.call(B, 3, look("dev-a"));
    relay.post(A, 4, &message(2, 0, "pm", "dev-b"));
    let everyone = Recipient::everyone(Some("default"));
    let full = Refusal::Mail(mail::Refusal::InboxFull {
        agent: name("dev-b"),
        messages: 1,
        bytes: 6,
        messages_max: 1,
        bytes_max: 1_000,
    });
    let to_all = sent(3, 1, "pm", everyone);
    let before = relay.engine.clone();
    assert_eq!(relay.post(A, 5, &to_all), [refused(5, full)]);
    assert!(relay.engine == before, "nobody has it, and nothing gave way");

    relay.call(C, 6, read("dev-b"));
    relay.passed(6);
    relay.call(C, 7, look("dev-b"));
    relay.events();
    assert_eq!(relay.post(A, 8, &to_all), accepted(8, &to_all));
    let gave_way = relay.events();
    let gave_way = gave_way
        .iter()
        .filter(|event| matches!(event, Event::Confirmed { .. }));
    assert_eq!(gave_way.count(), 2, "what both have read");
    assert_eq!(relay.pending(), [0, 1, 1]);
}

#[test]
fn who_is_meant_in_two_ways_gets_one_copy() {
    let mut relay = world();
    let crew = Recipient::group(&GroupName::new("crew").unwrap());
    let message = sent(3, 0, "pm", crew);
    relay.post(A, 1, &message);
    assert_eq!(relay.call(B, 2, read("dev-a")), [shown(2, [message.clone()])]);
    assert_eq!(relay.call(C, 3, read("dev-b")), [shown(3, [message])]);
    assert_eq!(relay.pending(), [0; 6]);
}

#[test]
fn a_message_to_many_is_kept_once() {
    let mut relay = Relay::told();
    relay.events();
    let everyone = Recipient::everyone(Some("default"));
    relay.post(A, 1, &sent(1, 0, "pm", everyone));
    let [Event::Accepted { message, .. }] = &relay.events()[..] else {
        panic!("one message was accepted");
    };
    assert_eq!(
        Arc::strong_count(message),
        4,
        "the event's, the trace's, and one for each inbox"
    );
}

#[test]
fn who_is_meant_is_settled_when_the_message_is_accepted() {
    let mut relay = world();
    relay.post(
        A,
        1,
        &sent(3, 0, "pm", Recipient::group(&GroupName::new("crew").unwrap())),
    );
    let delete = groups::Command::Delete {
        name: "crew".to_owned(),
    };
    relay.call(PM, 2, delete.into());
    relay.register(SessionId(14), of_role("implementer", registration("late", None)));
    assert_eq!(relay.pending(), [0, 1, 1, 0, 0, 0, 0]);
}

/// What addresses are made of, and what they are not made of.
const PIECES: [&str; 22] = [
    "web:", "agent:", ":0", ":", ":", "@", "#", "*", "agent", "everyone", "user", "default", "web", "pm",
    "dev-a", "crew", "build", "0", "-", "_", "\u{e9}", " ",
];

fn random_text(random: &mut fastrand::Rng) -> String {
    let pieces = random.usize(..6);
    (0..pieces)
        .map(|_| PIECES[random.usize(..PIECES.len())])
        .collect()
}

#[test]
fn an_address_is_written_so_that_it_is_read_as_the_same() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut seen = BTreeMap::new();
    for _ in 0..100_000 {
        let text = random_text(&mut random);
        let Ok(address) = text.parse::<Address>() else {
            continue;
        };
        assert_eq!(address.to_string().parse(), Ok(address.clone()), "{text:?}");
        let target = match &address.target {
            Target::Name(_) => "name",
            Target::Role(_) => "role",
            Target::Channel(_) => "channel",
            Target::Everyone => "everyone",
            Target::AllProjects => "all projects",
        };
        *seen.entry((target, address.project.is_some())).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 9, "every kind, with a project and without: {seen:?}");
}

#[test]
fn no_text_at_all_upsets_the_parser_or_the_engine() {
    let mut random = fastrand::Rng::with_seed(2);
    let (mut relay, mut accepted) = (world(), 0);
    for at in 0..3_000 {
        let text: String = match at % 3 {
            0 => (0..random.usize(..6)).map(|_| random.char(..)).collect(),
            _ => random_text(&mut random),
        };
        let _ = text.parse::<Address>();
        accepted += usize::from(send(&mut relay, ["pm", "web:pm"][at % 2], &text).is_ok());
        if relay.engine.status().pending.iter().any(|(_, count)| *count > 50) {
            relay = world();
        }
    }
    assert!(accepted > 50, "{accepted} of them meant somebody");
}
