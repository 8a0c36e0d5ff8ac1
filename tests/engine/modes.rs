//! How an agent is brought what its senders say nothing of.

use relay::engine::Abilities;
use relay::engine::absence::Absence;
use relay::engine::agents::{Command as Asks, Reply as Answer};
use relay::engine::handling::Mode;
use relay::engine::trace::Happened;

use super::programs::{ENDED, LONG, P, RETURNED, SAID, WAITER, post_in, shown};
use super::*;

impl Relay {
    /// Says how `dev-a` is to be brought what its senders say nothing of, or asks it. Returns how it is.
    pub(super) fn has_brought(&mut self, mode: Option<Mode>) -> Mode {
        let agent = Some("dev-a".to_owned());
        let person = self.person();
        let effects = self.call(person, 800, Asks::Mode { agent, mode }.into());
        let [
            Effect::Reply {
                result: Ok(Reply::Agents(Answer::Mode(mode))),
                ..
            },
        ] = effects[..]
        else {
            panic!("{effects:?}")
        };
        mode
    }

    fn person(&mut self) -> SessionId {
        let session = SessionId(77);
        let is_open = |view: &SessionView| view.session == session;
        if !self.engine.overview().sessions.iter().any(is_open) {
            self.handle(Input::Opened {
                session,
                carrier: Carrier::Exchange,
                who: Who::Person,
            });
        }
        session
    }
}

#[test]
fn what_a_sender_says_nothing_of_is_brought_as_its_agent_has_it() {
    let mut relay = Relay::of_program();
    assert_eq!(relay.has_brought(None), Mode::Immediate);
    assert_eq!(relay.has_brought(Some(Mode::OnIdle)), Mode::OnIdle);
    assert_eq!(relay.has_brought(None), Mode::OnIdle);
    relay.comes_to(P, 1, SAID);
    relay.post(A, 2, &nth(1));
    assert_eq!(relay.surfaces(3, RETURNED), None);
    relay.call(A, 4, post_in(Mode::Immediate, 1));
    assert_eq!(
        relay.surfaces(5, RETURNED),
        Some((vec![1], 0)),
        "its sender says it"
    );
    assert_eq!(relay.surfaces(6, ENDED), Some((vec![0], 0)));
}

#[test]
fn the_person_has_no_mode() {
    let mut relay = Relay::told_within(LONG);
    let person = relay.person();
    for agent in [None, Some("user".to_owned())] {
        let asks = |mode| Asks::Mode {
            agent: agent.clone(),
            mode,
        };
        let refused = relay.call(person, 1, asks(Some(Mode::Manual)).into());
        let expected = relay::engine::agents::Refusal::NobodysMode;
        assert_eq!(refused, [reply(1, Err(expected.into()))]);
        let told = relay.call(person, 2, asks(None).into());
        assert_eq!(told, [reply(2, Ok(Answer::Mode(Mode::Immediate).into()))]);
    }
}

#[test]
fn what_has_come_stays_as_it_was() {
    let mut relay = Relay::of_program();
    relay.comes_to(P, 1, SAID);
    relay.post(A, 2, &nth(1));
    relay.has_brought(Some(Mode::NextMessage));
    assert_eq!(relay.surfaces(3, RETURNED), Some((vec![0], 0)));
}

#[test]
fn a_program_says_it_of_its_agent_once_that_is_known() {
    let mut relay = Relay::told_within(LONG);
    relay.handle(Input::Opened {
        session: P,
        carrier: Carrier::Hook,
        who: Who::Program {
            agent: None,
            is_certain: true,
            project: DEFAULT_PROJECT.to_owned(),
            mode: Some(Mode::NextMessage),
            abilities: Abilities::ALL,
        },
    });
    assert_eq!(relay.has_brought(None), Mode::Immediate);
    let command = surfacing::Command::Comes {
        to: RETURNED,
        speaks_as: Some("dev-a".to_owned()),
        woken_by: None,
    };
    relay.call(P, 1, command.into());
    assert_eq!(relay.has_brought(None), Mode::NextMessage);
    relay.post(A, 2, &nth(1));
    assert_eq!(relay.surfaces(3, RETURNED), None);
    assert_eq!(shown(&relay.comes_to(P, 4, SAID), 4), Some((vec![0], 0)));
}

#[test]
fn the_sender_of_what_its_agent_has_held_is_told_so_and_the_trace_knows() {
    let mut relay = Relay::of_program();
    relay.has_brought(Some(Mode::Manual));
    let effects = relay.post(A, 2, &nth(1));
    let absence = effects.iter().find_map(|effect| {
        let Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Posted { absence, .. })),
            ..
        } = effect
        else {
            return None;
        };
        absence.as_deref()
    });
    assert_eq!(absence, Some(&Absence::Holding { agent: name("dev-a") }));
    assert_eq!(relay.surfaces(3, SAID), None, "it is held");
    let person = relay.person();
    let command = relay::engine::trace::Command::Trace {
        message: id(1).to_string(),
        shown_to: relay::engine::trace::ShownTo::Person,
    };
    let effects = relay.call(person, 4, command.into());
    let [
        Effect::Reply {
            result: Ok(Reply::Trace(relay::engine::trace::Reply::Traced(traced))),
            ..
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    let moments: Vec<&Happened> = traced.moments.iter().map(|moment| &moment.what).collect();
    assert_eq!(moments, [&Happened::Queued, &Happened::Brought(Mode::Manual)]);
}

#[test]
fn nobody_is_told_that_something_is_held_which_somebody_waits_for() {
    let mut relay = Relay::told_within(LONG);
    relay.has_brought(Some(Mode::Manual));
    relay.call(B, 1, wait("dev-a", 10));
    let effects = relay.post(A, 2, &nth(1));
    assert!(
        effects.contains(&reply(
            2,
            Ok(Reply::Mail(mail::Reply::Posted {
                id: MessageId(id(1)),
                given: "dev-a".into(),
                to: Recipient::agent(&name("dev-a")),
                ts: START,
                thread: None,
                warnings: Box::default(),
                absence: None,
            }))
        )),
        "{effects:?}"
    );
}

#[test]
fn a_sender_is_told_of_a_mode_that_wakes_nobody() {
    let told = |relay: &mut Relay, asked: Option<Mode>| {
        let command = asked.map_or_else(|| post(Some("pm"), "dev-a", "x"), |asked| post_in(asked, 1));
        let effects = relay.call(A, 900, command);
        let [
            Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Posted { absence, .. })),
                ..
            },
            ..,
        ] = &effects[..]
        else {
            unreachable!("it is posted");
        };
        absence.as_deref().cloned()
    };
    let unwoken = |mode| {
        Some(Absence::Unwoken {
            agent: name("dev-a"),
            mode,
        })
    };
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    for mode in [Mode::NextMessage, Mode::NextToolCall] {
        assert_eq!(told(&mut relay, Some(mode)), unwoken(mode));
        relay.has_brought(Some(mode));
        assert_eq!(told(&mut relay, None), unwoken(mode), "as its agent has it");
    }
    relay.has_brought(Some(Mode::Immediate));
    for mode in [
        None,
        Some(Mode::Immediate),
        Some(Mode::OnIdle),
        Some(Mode::Manual),
    ] {
        assert_eq!(told(&mut relay, mode), None, "{mode:?}");
    }
    relay.brings(Mode::Immediate, 3);
    for mode in Mode::ALL {
        assert_eq!(told(&mut relay, Some(mode)), None, "it is being woken: {mode:?}");
    }
    relay.comes_to(P, 1, SAID);
    for mode in Mode::ALL {
        assert_eq!(told(&mut relay, Some(mode)), None, "it is busy: {mode:?}");
    }
}
