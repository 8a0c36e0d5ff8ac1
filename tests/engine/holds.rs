//! What the person holds: it stands aside until the person lets it pass or drops it.

use relay::engine::absence::Absence;
use relay::engine::holds::{
    Command as Asks, HeldBy, HeldMessage, Refusal as No, Reply as Answer, View, Whom,
};
use relay::engine::limits::HOLDS_MAX;
use relay::engine::records;
use relay::engine::trace::{Happened, ShownTo};

use super::nodes::{ANY, PERSON};
use super::*;

impl Relay {
    /// A relay that the person may ask.
    pub fn with_person() -> Self {
        let mut relay = Self::told();
        relay.open_for_person(PERSON);
        relay.events();
        relay
    }

    /// Asks as the person, and returns the answer and what else comes of it.
    pub fn person_asks(&mut self, command: Asks) -> (Result<Answer, Refusal>, Vec<Effect>) {
        let mut effects = self.call(PERSON, ANY, command.into());
        let place = effects
            .iter()
            .position(|effect| matches!(effect, Effect::Reply { call, .. } if *call == CallId(ANY)));
        let Effect::Reply { result, .. } = effects.remove(place.expect("it is answered")) else {
            unreachable!("it was found");
        };
        let answer = result.map(|reply| {
            let Reply::Holds(answer) = reply else {
                panic!("{reply:?}");
            };
            answer
        });
        (answer, effects)
    }

    /// Has an agent held, and returns how many deliveries are.
    pub fn hold(&mut self, agent: &str) -> usize {
        self.holds(Whom::Agent(agent.to_owned()))
    }

    pub fn hold_all(&mut self) -> usize {
        self.holds(Whom::All)
    }

    fn holds(&mut self, whom: Whom) -> usize {
        let (answer, effects) = self.person_asks(Asks::Hold(whom));
        assert_eq!(effects, NONE, "nobody is handed anything by a hold");
        let Ok(Answer::Holds(deliveries)) = answer else {
            panic!("{answer:?}");
        };
        deliveries
    }

    pub fn lift(&mut self, agent: Option<&str>) -> (Option<usize>, Vec<Effect>) {
        let whom = agent.map_or(Whom::All, |agent| Whom::Agent(agent.to_owned()));
        let (answer, effects) = self.person_asks(Asks::Lift(whom));
        let Ok(Answer::Lifted(deliveries)) = answer else {
            panic!("{answer:?}");
        };
        (deliveries, effects)
    }

    /// Lets the n-th message pass, and returns what comes of it.
    pub fn allow(&mut self, n: u8) -> Vec<Effect> {
        let message = id(n).to_string();
        let (answer, effects) = self.person_asks(Asks::Allow { message });
        assert!(matches!(answer, Ok(Answer::Allowed { .. })), "{answer:?}");
        effects
    }

    pub fn drop_held(&mut self, n: u8) {
        let message = id(n).to_string();
        let (answer, effects) = self.person_asks(Asks::Drop { message });
        assert!(matches!(answer, Ok(Answer::Dropped { .. })), "{answer:?}");
        assert_eq!(effects, NONE);
    }

    fn view(&mut self) -> View {
        match self.person_asks(Asks::List).0 {
            Ok(Answer::Listed(view)) => *view,
            other => panic!("{other:?}"),
        }
    }

    /// What the sender of a post is told.
    fn note(&mut self, command: Command) -> Option<Absence> {
        let effects = self.call(C, ANY, command);
        let [
            Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Posted { absence, .. })),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        absence.as_deref().cloned()
    }

    /// What has become of the n-th message, for one of those who got it.
    pub fn happened(&mut self, n: u8, agent: &str) -> Vec<Happened> {
        let asked = trace::Command::Trace {
            message: id(n).to_string(),
            shown_to: ShownTo::Person,
        };
        let effects = self.call(PERSON, ANY, asked.into());
        let [
            Effect::Reply {
                result: Ok(Reply::Trace(trace::Reply::Traced(traced))),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        let own = traced
            .moments
            .iter()
            .filter(|moment| moment.agent.as_str() == agent);
        own.map(|moment| moment.what.clone()).collect()
    }

    pub fn inbox(&self, agent: &str) -> InboxView {
        let mut inboxes = self.engine.overview().inboxes.into_iter();
        let found = inboxes.find(|inbox| inbox.agent.as_str() == agent);
        found.expect("it has one")
    }
}

fn held(by: HeldBy, agent: &str, others: usize) -> Option<Absence> {
    let agent = name(agent);
    Some(Absence::Held { by, agent, others })
}

#[test]
fn what_comes_for_whoever_is_held_is_accepted_and_handed_to_nobody_until_it_passes() {
    let mut relay = Relay::with_person();
    assert_eq!(relay.hold("dev-a"), 0);
    assert_eq!(relay.call(B, 1, wait("dev-a", WAIT_MS)), NONE);
    relay.post(A, 2, &nth(1));
    relay.post(A, 3, &nth(2));
    assert_eq!(relay.pending(), [0, 2, 0], "it waits, and is counted");
    assert_eq!(relay.call(C, 4, look("dev-a")), [kinds(4, [])]);
    let inbox = relay.inbox("dev-a");
    assert_eq!(
        (inbox.unread, inbox.held, inbox.is_held, inbox.oldest),
        (0, 2, true, None)
    );
    assert_eq!(relay.allow(2), [shown(1, [nth(2)])], "though the hold stands");
    assert_eq!(relay.call(C, 5, read("dev-a")), [nothing(5)]);
    assert_eq!(relay.lift(Some("dev-a")), (Some(1), Vec::new()));
    assert_eq!(relay.call(C, 6, read("dev-a")), [shown(6, [nth(1)])]);
}

#[test]
fn a_hold_on_a_sender_lets_others_pass_and_what_is_allowed_comes_in_its_old_place() {
    let mut relay = Relay::with_person();
    relay.hold("pm");
    let [first, second, third] = [
        message(1, 0, "pm", "dev-a"),
        message(2, 1, "dev-b", "dev-a"),
        message(3, 2, "pm", "dev-a"),
    ];
    for (call, one) in (1..).zip([&first, &second, &third]) {
        relay.post(A, call, one);
    }
    relay.allow(1);
    assert_eq!(relay.call(B, 4, read("dev-a")), [shown(4, [first, second])]);
    assert_eq!(relay.view().messages.len(), 1);
    relay.lift(Some("pm"));
    assert_eq!(relay.call(B, 5, read("dev-a")), [shown(5, [third])]);
}

#[test]
fn what_waits_already_is_held_too_and_what_was_handed_over_is_once_it_comes_back() {
    let mut relay = handed_to(A);
    relay.open_for_person(PERSON);
    relay.post(C, 3, &nth(3));
    assert_eq!(relay.hold("dev-a"), 1);
    assert_eq!(relay.inbox("dev-a").in_doubt, 2);
    relay.lost(10);
    assert_eq!(relay.call(B, 11, read("dev-a")), [nothing(11)]);
    assert_eq!(relay.inbox("dev-a").held, 3);
    let all = [again(&nth(1)), again(&nth(2)), nth(3)];
    relay.lift(Some("dev-a"));
    assert_eq!(relay.call(B, 12, read("dev-a")), [shown(12, all)]);
}

#[test]
fn what_was_allowed_stays_so_when_it_comes_back_and_under_a_later_hold() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    relay.post(C, 1, &nth(1));
    relay.allow(1);
    relay.call(A, 10, read("dev-a"));
    relay.lost(10);
    assert_eq!(relay.hold_all(), 0);
    assert_eq!(
        relay.call(B, 11, read("dev-a")),
        [shown(11, [again(&nth(1))])],
        "the person has let it pass"
    );
}

#[test]
fn what_is_dropped_never_appears_again_and_gives_its_room_up() {
    let bounds = Bounds {
        inbox_messages_max: 1,
        ..ROOMY
    };
    let mut relay = Relay::told_within(bounds);
    relay.open_for_person(PERSON);
    relay.hold("dev-a");
    relay.post(C, 1, &nth(1));
    let full = relay.post(C, 2, &nth(2));
    assert!(
        matches!(
            &full[..],
            [Effect::Reply {
                result: Err(Refusal::Mail(mail::Refusal::InboxFull { messages: 1, .. })),
                ..
            }]
        ),
        "the bounds count what is held: {full:?}"
    );
    relay.drop_held(1);
    assert_eq!(relay.pending(), [0, 0, 0]);
    relay.lift(Some("dev-a"));
    assert_eq!(relay.call(B, 3, read("dev-a")), [nothing(3)]);
    assert_eq!(relay.post(C, 4, &nth(2)), accepted(4, &nth(2)), "there is room");
}

#[test]
fn the_holds_on_all_on_the_recipient_and_on_the_sender_stand_each_for_itself() {
    let mut relay = Relay::with_person();
    relay.post(C, 1, &nth(1));
    assert_eq!(
        [relay.hold_all(), relay.hold("dev-a"), relay.hold("pm")],
        [1, 1, 1]
    );
    assert_eq!(relay.lift(None).0, Some(0));
    assert_eq!(relay.lift(None).0, None, "it was lifted before");
    assert_eq!(relay.lift(Some("dev-a")).0, Some(0));
    assert_eq!(relay.call(B, 2, read("dev-a")), [nothing(2)]);
    assert_eq!(relay.lift(Some("pm")).0, Some(1));
    assert_eq!(relay.call(B, 3, read("dev-a")), [shown(3, [nth(1)])]);
}

#[test]
fn what_the_person_sends_and_gets_is_never_held() {
    let mut relay = Relay::with_person();
    relay.hold_all();
    relay.hold("dev-a");
    let to_agent = message(1, 0, "user", "dev-a");
    let to_person = message(2, 0, "dev-a", "user");
    relay.call(PERSON, 1, post(None, "dev-a", "body 1"));
    let shown_to_agent = relay.call(A, 2, read("dev-a"));
    relay.call(B, 3, post(Some("dev-a"), "user", "body 2"));
    let shown_to_person = relay.call(PERSON, 4, read("user"));
    let of = |effects: &[Effect]| match effects {
        [
            Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
                ..
            },
        ] => deliveries[0].message.id,
        other => panic!("{other:?}"),
    };
    assert_eq!(of(&shown_to_agent), to_agent.message.id);
    assert_eq!(of(&shown_to_person), to_person.message.id);
    let (refused, _) = relay.person_asks(Asks::Hold(Whom::Agent("user".to_owned())));
    assert_eq!(refused, Err(No::NotThePerson.into()));
}

#[test]
fn what_the_person_sends_in_an_agents_name_is_held_like_the_agents() {
    let mut relay = Relay::with_person();
    relay.hold("pm");
    relay.call(PERSON, 1, post(Some("pm"), "dev-a", "x"));
    assert_eq!(relay.call(A, 2, read("dev-a")), [nothing(2)]);
}

#[test]
fn the_sender_is_told_what_is_held_and_why() {
    let mut relay = Relay::with_person();
    let send = |from: &str, to: &str| post(Some(from), to, "x");
    // So that nobody is told of an absence.
    for (call, agent) in (1..).zip(["pm", "dev-a", "dev-b"]) {
        relay.call(B, call, read(agent));
    }
    assert_eq!(relay.note(send("pm", "dev-a")), None);
    relay.hold("dev-a");
    assert_eq!(relay.note(send("pm", "dev-a")), held(HeldBy::To, "dev-a", 0));
    assert_eq!(relay.note(send("pm", "dev-b")), None);
    assert_eq!(relay.note(send("dev-a", "dev-b")), held(HeldBy::From, "dev-a", 0));
    assert_eq!(relay.note(send("pm", "*")), held(HeldBy::To, "dev-a", 0));
    relay.hold("dev-b");
    assert_eq!(relay.note(send("pm", "*")), held(HeldBy::To, "dev-a", 1));
    assert_eq!(
        relay.note(send("dev-a", "*")),
        held(HeldBy::From, "dev-a", 1),
        "dev-b is held as well, but not pm"
    );
    relay.hold_all();
    assert_eq!(relay.note(send("pm", "dev-b")), held(HeldBy::All, "dev-b", 0));
    assert_eq!(relay.note(send("pm", "user")), None);
}

#[test]
fn each_recipient_of_one_message_is_held_for_itself() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    let to_all = sent(1, 0, "pm", Recipient::everyone(Some(DEFAULT_PROJECT)));
    relay.post(A, 1, &to_all);
    assert_eq!(relay.call(B, 2, read("dev-b")), [shown(2, [to_all.clone()])]);
    assert_eq!(relay.call(B, 3, read("dev-a")), [nothing(3)]);
    relay.drop_held(1);
    relay.lift(Some("dev-a"));
    assert_eq!(relay.call(B, 4, read("dev-a")), [nothing(4)]);
}

#[test]
fn the_person_sees_what_is_held_and_nobody_else_does() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    relay.post(A, 1, &message(1, 0, "pm", "dev-a"));
    relay.hold("dev-b");
    let to_all = sent(2, 1, "pm", Recipient::everyone(Some(DEFAULT_PROJECT)));
    relay.post(A, 2, &to_all);
    let first = HeldMessage {
        message: Arc::clone(&nth(1).message),
        deliveries: vec![(name("dev-a"), HeldBy::To)],
    };
    let second = HeldMessage {
        message: Arc::clone(&to_all.message),
        deliveries: vec![(name("dev-a"), HeldBy::To), (name("dev-b"), HeldBy::To)],
    };
    let view = View {
        all: false,
        agents: vec![name("dev-a"), name("dev-b")],
        messages: vec![first, second],
    };
    assert_eq!(relay.view(), view);
    let peek = |agent: &str| {
        Command::Mail(mail::Command::Peek {
            agent: Some(agent.to_owned()),
            limit: None,
        })
    };
    let seen = |call, held: Vec<(Delivery, HeldBy)>| {
        let deliveries = Vec::new();
        let project = None;
        reply(
            call,
            Ok(Reply::Mail(mail::Reply::Seen {
                deliveries,
                remaining: 0,
                held,
                project,
            })),
        )
    };
    let both = vec![(nth(1), HeldBy::To), (to_all, HeldBy::To)];
    assert_eq!(relay.call(PERSON, 3, peek("dev-a")), [seen(3, both)]);
    assert_eq!(relay.call(A, 4, peek("dev-a")), [seen(4, Vec::new())]);
    for asks in [
        Asks::List,
        Asks::Hold(Whom::All),
        Asks::Lift(Whom::All),
        Asks::Allow {
            message: id(1).to_string(),
        },
        Asks::Drop {
            message: id(1).to_string(),
        },
    ] {
        let refusal = No::OnlyThePerson.into();
        assert_eq!(relay.call(A, 5, asks.into()), [refused(5, refusal)]);
    }
}

#[test]
fn the_person_sees_what_is_held_of_one_moment_as_it_came() {
    let mut relay = Relay::with_person();
    relay.hold_all();
    for (call, n) in [(1, 2), (2, 1)] {
        relay.handle(Input::Call {
            session: A,
            call: CallId(call),
            random: [n; 16],
            command: post(Some("pm"), "dev-a", "x"),
        });
    }
    let messages = relay.view().messages;
    let ids: Vec<_> = messages.iter().map(|held| held.message.id).collect();
    assert_eq!(ids, [id(2), id(1)].map(MessageId));
}

#[test]
fn an_agent_finds_nothing_of_what_is_held_for_it() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    for (call, n) in [(1, 1), (2, 2)] {
        relay.post(A, call, &nth(n));
    }
    let find = |relay: &mut Relay, n: u8, agent: &str| {
        let asked = records::Command::Get {
            message: id(n).to_string(),
            shown_to: ShownTo::Agent(name(agent)),
        };
        let effects = relay.call(PERSON, ANY, asked.into());
        matches!(&effects[..], [Effect::Reply { result: Ok(_), .. }])
    };
    let trace = |relay: &mut Relay, n: u8, agent: &str| {
        let asked = trace::Command::Trace {
            message: id(n).to_string(),
            shown_to: ShownTo::Agent(name(agent)),
        };
        let effects = relay.call(PERSON, ANY, asked.into());
        matches!(&effects[..], [Effect::Reply { result: Ok(_), .. }])
    };
    let listed = |relay: &mut Relay| {
        let asked = records::Command::List {
            of: records::Of::All,
            range: Box::new(records::Range {
                before: None,
                after: None,
                limit: 10,
            }),
            shown_to: ShownTo::Agent(name("dev-a")),
        };
        let effects = relay.call(PERSON, ANY, asked.into());
        let [
            Effect::Reply {
                result: Ok(Reply::Records(records::Reply::Listed(records))),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        records.len()
    };
    assert_eq!(
        (find(&mut relay, 1, "dev-a"), find(&mut relay, 1, "pm")),
        (false, true)
    );
    assert_eq!(
        (trace(&mut relay, 1, "dev-a"), trace(&mut relay, 1, "pm")),
        (false, true)
    );
    assert_eq!(listed(&mut relay), 0);
    relay.allow(1);
    relay.drop_held(2);
    relay.lift(Some("dev-a"));
    assert_eq!(
        (trace(&mut relay, 1, "dev-a"), trace(&mut relay, 2, "dev-a")),
        (true, false)
    );
    assert_eq!(
        (find(&mut relay, 1, "dev-a"), find(&mut relay, 2, "dev-a")),
        (true, false)
    );
    assert_eq!(listed(&mut relay), 1);
}

#[test]
fn the_trace_tells_of_each_step_and_so_do_the_events() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    relay.post(A, 1, &nth(1));
    relay.post(A, 2, &nth(2));
    relay.allow(1);
    relay.drop_held(2);
    let queued = [Happened::Queued, Happened::Held(HeldBy::To)];
    let [queued, held_by] = queued;
    assert_eq!(
        relay.happened(1, "dev-a"),
        [queued.clone(), held_by.clone(), Happened::Allowed]
    );
    assert_eq!(relay.happened(2, "dev-a"), [queued, held_by, Happened::Dropped]);
    relay.lift(Some("dev-a"));
    let events = relay.events().into_iter();
    let own = events.filter(|event| {
        matches!(
            event,
            Event::Holds { .. } | Event::Held { .. } | Event::Allowed { .. } | Event::Dropped { .. }
        )
    });
    let agent = || name("dev-a");
    let (by, is_held) = (HeldBy::To, true);
    let expected = [
        Event::Holds {
            agent: Some(agent()),
            is_held,
        },
        Event::Held {
            agent: agent(),
            delivery: nth(1),
            by,
        },
        Event::Held {
            agent: agent(),
            delivery: nth(2),
            by,
        },
        Event::Allowed {
            agent: agent(),
            delivery: nth(1),
        },
        Event::Dropped {
            agent: agent(),
            delivery: nth(2),
        },
        Event::Holds {
            agent: Some(agent()),
            is_held: false,
        },
    ];
    assert_eq!(own.collect::<Vec<_>>(), expected);
}

#[test]
fn a_message_is_named_by_the_beginning_of_its_id_where_one_alone_is_held_that_begins_so() {
    let mut relay = Relay::with_person();
    relay.hold_all();
    relay.post(A, 1, &nth(1));
    relay.post(A, 2, &nth(2));
    let allow = |message: &str| Asks::Allow {
        message: message.to_owned(),
    };
    for given in ["", "0202020", "nothing", "03030303", &id(9).to_string()] {
        let (refused, _) = relay.person_asks(allow(given));
        let given = given.to_owned();
        assert_eq!(refused, Err(No::NotHeld { given }.into()));
    }
    let (answer, _) = relay.person_asks(allow("02020202"));
    let Ok(Answer::Allowed { message, agents }) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!((message.id.0, agents), (id(2), vec![name("dev-a")]));
    let (again, _) = relay.person_asks(allow("02020202"));
    assert!(
        matches!(again, Err(Refusal::Holds(No::NotHeld { .. }))),
        "{again:?}"
    );
}

#[test]
fn a_name_that_nobody_has_is_refused_and_too_many_holds_are() {
    let mut relay = Relay::with_person();
    for asks in [Asks::Hold, Asks::Lift] {
        let (refused, _) = relay.person_asks(asks(Whom::Agent("nobody".to_owned())));
        assert!(
            matches!(refused, Err(Refusal::Agents(agents::Refusal::Unknown { .. }))),
            "{refused:?}"
        );
    }
    assert_eq!(relay.lift(Some("dev-a")).0, None);
    let bounds = Bounds {
        agents_max: 2 * HOLDS_MAX,
        sessions_max: 10,
        ..ROOMY
    };
    let mut relay = Relay::told_within(bounds);
    relay.open_for_person(PERSON);
    for number in 0..=HOLDS_MAX {
        let agent = format!("a{number}");
        let session = SessionId(1_000 + number as u64);
        relay.register(session, registration(&agent, None));
        relay.close(session, Ending::Orderly);
        let (answer, _) = relay.person_asks(Asks::Hold(Whom::Agent(agent)));
        let expected = match number {
            HOLDS_MAX => Err(No::TooMany { holds: HOLDS_MAX }.into()),
            _ => Ok(Answer::Holds(0)),
        };
        assert_eq!(answer, expected);
    }
    assert_eq!(relay.hold("a0"), 0, "it is held already");
}

#[test]
fn a_hold_is_on_the_name_whoever_has_it() {
    let mut relay = Relay::with_person();
    let transient = |instance| agents::Registration {
        transient: true,
        ..registration("worker", Some(instance))
    };
    let (first, second) = (SessionId(30), SessionId(31));
    relay.register(first, transient(1));
    relay.hold("worker");
    relay.register(second, transient(2));
    let to_worker = message(1, 0, "pm", "worker");
    relay.post(A, 1, &to_worker);
    relay.call(second, 2, read("worker"));
    assert_eq!(relay.inbox("worker").held, 1, "a later instance is held as well");
    relay.close(second, Ending::Orderly);
    relay.timeout_at(60_000);
    assert_eq!(
        relay.inbox("worker").held,
        1,
        "whoever is held something for stays"
    );
    relay.drop_held(1);
    relay.timeout_at(200_000);
    assert_eq!(others(&relay), Vec::<String>::new());
    relay.register(SessionId(32), transient(3));
    assert!(relay.inbox("worker").is_held, "and is held when it comes back");
    assert_eq!(relay.lift(Some("worker")).0, Some(0));
}
