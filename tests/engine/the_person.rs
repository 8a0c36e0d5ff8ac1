//! The person beside the roster: an inbox that no agent reads, and a look at everything.

use relay::engine::address::Home;

use super::*;

const PERSON: SessionId = SessionId(7);

fn with_person() -> Relay {
    let mut relay = Relay::told();
    let opened = Effect::Opened {
        session: PERSON,
        result: Ok(None),
    };
    assert_eq!(relay.open_for_person(PERSON), [opened]);
    relay
}

fn persons(named: NamedAs) -> Refusal {
    let known = Known::from(&Roster::default());
    Refusal::Agents(agents::Refusal::Person { named, known })
}

fn peek(agent: Option<&str>) -> Command {
    Command::Mail(mail::Command::Peek {
        agent: agent.map(str::to_owned),
        limit: None,
    })
}

fn seen(call: u64, deliveries: impl IntoIterator<Item = Delivery>) -> Effect {
    let deliveries = deliveries.into_iter().collect();
    reply(
        call,
        Ok(Reply::Mail(mail::Reply::Seen {
            deliveries,
            remaining: 0,
            held: Vec::new(),
            project: None,
        })),
    )
}

/// A read of the person's own inbox.
const OWN: Command = Command::Mail(mail::Command::read_all(None, 0));

#[test]
fn an_agent_posts_to_the_person_who_reads_it() {
    let mut relay = with_person();
    let question = message(1, 0, "dev-b", "user");
    assert_eq!(relay.post(A, 1, &question), accepted(1, &question));
    assert_eq!(relay.call(PERSON, 2, OWN), [told(2, [question])]);
}

#[test]
fn the_person_posts_in_its_own_name_where_it_gives_none() {
    let mut relay = with_person();
    let to_pm = Delivery {
        message: Arc::new(Message {
            kind: Kind::Free,
            ..(*message(1, 0, "user", "pm").message).clone()
        }),
        ..message(1, 0, "user", "pm")
    };
    assert_eq!(
        relay.call(PERSON, 1, post(None, "pm", "body 1")),
        accepted(1, &to_pm)
    );
    let to_dev_a = message(2, 0, "pm", "dev-a");
    assert_eq!(relay.post(PERSON, 2, &to_dev_a), accepted(2, &to_dev_a));
    let to_itself = message(3, 0, "user", "user");
    assert_eq!(relay.post(PERSON, 3, &to_itself), accepted(3, &to_itself));
}

#[test]
fn no_agent_speaks_for_the_person_or_reads_its_inbox() {
    let mut relay = with_person();
    let dev_a = SessionId(8);
    relay.open(dev_a, Carrier::Stream, Some("dev-a"));
    let question = message(1, 0, "dev-b", "user");
    relay.post(A, 1, &question);
    let mut call = 2;
    for session in [A, dev_a] {
        for (command, named) in [
            (post(Some("user"), "pm", ""), NamedAs::Sender),
            (read("user"), NamedAs::Reader),
            (wait("user", WAIT_MS), NamedAs::Reader),
            (look("user"), NamedAs::Reader),
            (peek(Some("user")), NamedAs::Reader),
        ] {
            assert_eq!(
                relay.call(session, call, command),
                [refused(call, persons(named))]
            );
            call += 1;
        }
    }
    assert_eq!(relay.call(PERSON, call, OWN), [told(call, [question])]);
}

#[test]
fn no_session_is_bound_to_the_person() {
    let mut relay = Relay::told();
    let refused = Effect::Opened {
        session: PERSON,
        result: Err(persons(NamedAs::Session)),
    };
    assert_eq!(relay.open(PERSON, Carrier::Stream, Some("user")), [refused]);
    assert_eq!(relay.engine.status().sessions, 3);
    assert_eq!(
        relay::tools::DEFAULT.refused(&persons(NamedAs::Session)),
        "\"agent\" is \"user\", which is the person's own inbox and name: only the relay command reads it or speaks \
         for it; known roles: pm, dev-a, dev-b"
    );
}

#[test]
fn the_person_is_in_no_roster() {
    assert_eq!(Roster::new(["pm", "user"]), Err(InvalidRoster::Person));
    assert_eq!(
        InvalidRoster::Person.to_string(),
        "role \"user\" is the person's own, who is there beside every roster; leave it out"
    );
}

#[test]
fn the_person_names_a_stranger_in_vain() {
    let mut relay = with_person();
    let unknown = Refusal::Agents(agents::Refusal::Unknown {
        name: "dev-c".to_owned(),
        known: Known::from(&Roster::default()),
    });
    assert_eq!(
        relay.call(PERSON, 1, post(Some("dev-c"), "pm", "")),
        [refused(1, unknown.clone())]
    );
    assert_eq!(relay.call(PERSON, 2, read("dev-c")), [refused(2, unknown)]);
}

#[test]
fn the_person_who_reads_for_an_agent_leaves_the_news_of_the_start_to_it() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open_for_person(PERSON);
    relay.open(A, Carrier::Stream, None);
    let task = message(1, 0, "pm", "dev-a");
    relay.post(PERSON, 1, &task);
    assert_eq!(relay.call(PERSON, 2, read("dev-a")), [shown(2, [task])]);
    assert_eq!(relay.call(A, 3, read("dev-a")), [told(3, [])]);
}

#[test]
fn what_the_person_did_not_get_is_read_again() {
    let mut relay = with_person();
    let question = message(1, 0, "dev-b", "user");
    relay.post(A, 1, &question);
    relay.call(PERSON, 2, OWN);
    relay.passed(2);
    relay.close(PERSON, Ending::Broken);
    let second = SessionId(8);
    relay.open_for_person(second);
    assert_eq!(relay.call(second, 3, OWN), [told(3, [again(&question)])]);
}

#[test]
fn the_person_waits_for_what_comes() {
    let mut relay = with_person();
    relay.call(PERSON, 1, OWN);
    relay.passed(1);
    let wait = Command::Mail(mail::Command::read_all(None, WAIT_MS));
    assert_eq!(relay.call(PERSON, 2, wait), NONE);
    let question = message(1, 0, "dev-b", "user");
    let mut effects = Vec::from(accepted(3, &question));
    effects.push(shown(2, [question.clone()]));
    assert_eq!(relay.post(A, 3, &question), effects);
}

#[test]
fn a_peek_shows_what_waits_and_takes_nothing() {
    let mut relay = with_person();
    let [first, second] = [nth(1), nth(2)];
    relay.post(A, 1, &first);
    relay.post(A, 2, &second);
    let both = [first, second];
    assert_eq!(
        relay.call(PERSON, 3, peek(Some("dev-a"))),
        [seen(3, both.clone())]
    );
    assert_eq!(relay.call(A, 4, peek(Some("dev-a"))), [seen(4, both.clone())]);
    assert_eq!(relay.call(PERSON, 5, peek(None)), [seen(5, [])]);
    assert_eq!(relay.call(B, 6, read("dev-a")), [shown(6, both)]);
    assert_eq!(
        relay.call(PERSON, 7, peek(Some("dev-a"))),
        [seen(7, [])],
        "handed over"
    );
}

#[test]
fn the_overview_tells_who_waits_what_is_unread_and_what_is_in_doubt() {
    let mut relay = with_person();
    relay.open(SessionId(8), Carrier::Stream, Some("dev-b"));
    relay.post(A, 1, &nth(1));
    relay.call(B, 2, read("dev-a"));
    relay.post(A, 3, &nth(2));
    relay.now = START.plus_millis(500);
    relay.post(A, 4, &nth(3));
    relay.call(C, 5, wait("pm", WAIT_MS));
    relay.call(C, 6, wait("dev-b", 2 * WAIT_MS));
    let session = |session, waits: &[(&str, u32)]| SessionView {
        session,
        carrier: Carrier::Stream,
        agent: None,
        person: false,
        waits: waits
            .iter()
            .map(|(agent, ms)| WaitView {
                agent: name(agent),
                expires_at: START.plus_millis(500 + i64::from(*ms)),
            })
            .collect(),
        program: None,
    };
    let inbox = |agent, unread, in_doubt| InboxView {
        agent: name(agent),
        unread,
        held: 0,
        is_held: false,
        oldest: (unread > 0).then_some(START),
        in_doubt,
        mode: Mode::Immediate,
    };
    let overview = Overview {
        wall_ahead_ms: 0,
        boot: Boot {
            id: id(0),
            started_at: START,
        },
        home: Home::default(),
        sessions: vec![
            session(A, &[]),
            session(B, &[]),
            session(C, &[("pm", WAIT_MS), ("dev-b", 2 * WAIT_MS)]),
            SessionView {
                carrier: Carrier::Exchange,
                person: true,
                ..session(PERSON, &[])
            },
            SessionView {
                agent: Some(name("dev-b")),
                ..session(SessionId(8), &[])
            },
        ],
        inboxes: vec![
            inbox("pm", 0, 0),
            inbox("dev-a", 2, 1),
            inbox("dev-b", 0, 0),
            inbox("user", 0, 0),
        ],
        holds_all: false,
        nodes: Vec::new(),
        workers: Vec::new(),
    };
    assert_eq!(relay.engine.overview(), overview);
}

#[test]
fn news_of_the_start_wakes_who_is_to_be_told_and_not_the_person_in_front() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open_for_person(PERSON);
    relay.open(A, Carrier::Stream, None);
    relay.open(B, Carrier::Stream, None);
    assert_eq!(relay.call(A, 1, read("dev-a")), [told(1, [])]);
    assert_eq!(relay.call(PERSON, 2, wait("dev-a", WAIT_MS)), NONE);
    assert_eq!(relay.call(B, 3, wait("dev-a", WAIT_MS)), NONE);
    assert_eq!(relay.lost(1), [told(3, [])]);
    relay.passed(3);
    assert_eq!(relay.timeout_at(i64::from(WAIT_MS)), [nothing(2)]);
}

#[test]
fn messages_that_the_person_takes_leave_the_news_of_the_start_to_the_next_in_line() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open_for_person(PERSON);
    relay.open(A, Carrier::Stream, None);
    relay.open(B, Carrier::Stream, None);
    relay.post(B, 1, &nth(1));
    assert_eq!(relay.call(A, 2, read("dev-a")), [told(2, [nth(1)])]);
    assert_eq!(relay.call(PERSON, 3, wait("dev-a", WAIT_MS)), NONE);
    assert_eq!(relay.call(B, 4, wait("dev-a", WAIT_MS)), NONE);
    assert_eq!(relay.lost(2), [shown(3, [again(&nth(1))]), told(4, [])]);
}

#[test]
fn the_person_waits_for_an_agent_s_messages_though_the_agent_is_still_to_be_told_of_the_start() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open_for_person(PERSON);
    assert_eq!(relay.call(PERSON, 1, wait("dev-a", WAIT_MS)), NONE);
    assert_eq!(relay.timeout_at(i64::from(WAIT_MS)), [nothing(1)]);
}
