//! The programs of agents: what their models are shown when, what wakes them, and what confirms that.

use relay::engine::Abilities;
use relay::engine::handling::Mode;
use relay::engine::limits::{FRAME_BYTES_MAX, PROGRAM_GONE_MS, SURFACED_BYTES_MAX, SURFACED_MS, WOKEN_MS};
use relay::engine::surfacing::{Boundary, Command as Asks, Reply as Answer, Shown};

use super::*;

/// The session of the program.
pub(super) const P: SessionId = SessionId(20);

/// The call that stands by.
pub(super) const WAITER: u64 = 500;

pub(super) const ENDED: Boundary = Boundary::Ended;
pub(super) const RETURNED: Boundary = Boundary::Returned;
pub(super) const SAID: Boundary = Boundary::Prompted { by_person: true };
pub(super) const BY_ITSELF: Boundary = Boundary::Prompted { by_person: false };

/// Bodies of any length fit into an inbox, but not into a turn.
pub(super) const LONG: Bounds = Bounds {
    body_bytes_max: 100_000,
    inbox_bytes_max: 1_000_000,
    ..ROOMY
};

impl Relay {
    /// A relay in which `dev-a` has a program.
    pub(super) fn of_program() -> Self {
        let mut relay = Self::told_within(LONG);
        relay.appears(P, Some("dev-a"));
        relay.events();
        relay
    }

    pub(super) fn appears(&mut self, session: SessionId, agent: Option<&str>) -> Vec<Effect> {
        self.handle(Input::Opened {
            session,
            carrier: Carrier::Hook,
            who: Who::Program {
                agent: agent.map(str::to_owned),
                is_certain: true,
                project: DEFAULT_PROJECT.to_owned(),
                mode: None,
                abilities: Abilities::ALL,
            },
        })
    }

    /// Has a message come for `dev-a`, of so many bytes.
    pub(super) fn brings(&mut self, mode: Mode, bytes: usize) -> Vec<Effect> {
        let mut effects = self.call(A, 900, post_in(mode, bytes));
        assert!(
            matches!(
                effects[..],
                [
                    Effect::Reply {
                        call: CallId(900),
                        result: Ok(_),
                        ..
                    },
                    ..
                ]
            ),
            "{effects:?}"
        );
        effects.remove(0);
        effects
    }

    pub(super) fn comes_to(&mut self, session: SessionId, call: u64, to: Boundary) -> Vec<Effect> {
        self.comes(session, call, to, None)
    }

    pub(super) fn comes(
        &mut self,
        session: SessionId,
        call: u64,
        to: Boundary,
        woken_by: Option<HandoverId>,
    ) -> Vec<Effect> {
        let command = Asks::Comes {
            to,
            speaks_as: None,
            woken_by,
        };
        self.call(session, call, command.into())
    }

    /// What the model is shown where the program comes to something: the places, and how many are left. It is passed on.
    pub(super) fn surfaces(&mut self, call: u64, to: Boundary) -> Option<(Vec<u64>, usize)> {
        let effects = self.comes_to(P, call, to);
        let shown = shown(&effects, call);
        self.passed(call);
        shown
    }

    pub(super) fn stands_by(&mut self, call: u64) -> Vec<Effect> {
        self.call(P, call, Asks::StandsBy.into())
    }
}

/// A message for `dev-a`, of so many bytes.
pub(super) fn post_in(mode: Mode, bytes: usize) -> Command {
    let handling = mode.into();
    let post = mail::Command::Post {
        from: Some("pm".to_owned()),
        to: "dev-a".to_owned(),
        kind: Kind::Free,
        body: "x".repeat(bytes),
        options: Some(Box::new(mail::PostOptions {
            handling,
            ..mail::PostOptions::default()
        })),
    };
    post.into()
}

/// What the model is shown by the answer to a call.
pub(super) fn shown(effects: &[Effect], call: u64) -> Option<(Vec<u64>, usize)> {
    let answer = effects.iter().find_map(|effect| {
        let Effect::Reply {
            call: of,
            result: Ok(Reply::Surfacing(answer)),
            ..
        } = effect
        else {
            return None;
        };
        (of.0 == call).then_some(answer)
    });
    match answer.expect("it is answered") {
        Answer::Nothing => None,
        Answer::Shown(Shown {
            agent,
            deliveries,
            left,
        }) => {
            assert_eq!(*agent, name("dev-a"));
            Some((deliveries.iter().map(|delivery| delivery.seq.0).collect(), *left))
        }
        Answer::Superseded => unreachable!("nobody has taken its place"),
    }
}

#[test]
fn each_mode_is_shown_at_its_boundaries_and_nowhere_else() {
    let none: &[Mode] = &[];
    for (to, modes) in [
        (SAID, &[Mode::Immediate, Mode::NextMessage][..]),
        (BY_ITSELF, &[Mode::Immediate]),
        (RETURNED, &[Mode::Immediate, Mode::NextToolCall]),
        (ENDED, &[Mode::Immediate, Mode::OnIdle]),
        (Boundary::Started, none),
        (Boundary::Asks, none),
        (Boundary::Rests, none),
        (Boundary::Goes, none),
    ] {
        for mode in Mode::ALL {
            let mut relay = Relay::of_program();
            relay.brings(mode, 1);
            let expected = modes.contains(&mode).then(|| (vec![0], 0));
            assert_eq!(relay.surfaces(1, to), expected, "{to:?} {mode:?}");
        }
    }
}

#[test]
fn what_was_held_is_shown_like_what_is_immediate_once_it_was_flushed() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Manual, 1);
    assert_eq!(relay.surfaces(1, SAID), None);
    relay.open(SessionId(8), Carrier::Exchange, Some("dev-a"));
    relay.call(
        SessionId(8),
        2,
        relay::engine::receipts::Command::Flush { agent: None }.into(),
    );
    assert_eq!(relay.surfaces(3, RETURNED), Some((vec![0], 0)));
}

#[test]
fn what_was_shown_is_read_once_the_program_comes_to_something_else_and_nobody_else_reads_it() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, 1);
    assert_eq!(relay.surfaces(1, RETURNED), Some((vec![0], 0)));
    assert_eq!(relay.call(B, 2, read("dev-a")), [nothing(2)]);
    relay.events();
    let handover = relay.handovers[&1];
    assert_eq!(relay.surfaces(3, RETURNED), None);
    let read = Event::Read {
        handover,
        by: Sign::CalledAgain,
    };
    assert!(relay.events().contains(&read));
    relay.settle();
    relay.close(P, Ending::Broken);
    assert_eq!(relay.pending(), [0, 0, 0]);
}

#[test]
fn what_was_read_with_a_tool_is_not_shown() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, 1);
    relay.call(B, 1, read("dev-a"));
    assert_eq!(relay.surfaces(2, RETURNED), None);
}

#[test]
fn what_was_shown_comes_back_with_the_program_s_end_or_a_long_silence() {
    for silent in [false, true] {
        let mut relay = Relay::of_program();
        relay.brings(Mode::Immediate, 1);
        relay.surfaces(1, RETURNED);
        if silent {
            assert_eq!(relay.timeout_at(SURFACED_MS - 1), []);
            assert_eq!(relay.pending(), [0, 0, 0]);
            relay.timeout_at(SURFACED_MS);
        } else {
            relay.close(P, Ending::Orderly);
        }
        assert_eq!(relay.pending(), [0, 1, 0], "silent: {silent}");
    }
}

#[test]
fn what_comes_before_the_answer_was_passed_says_nothing_of_it() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, 1);
    relay.comes_to(P, 1, RETURNED);
    relay.comes_to(P, 2, RETURNED);
    relay.close(P, Ending::Broken);
    assert_eq!(relay.pending(), [0, 1, 0]);
}

#[test]
fn an_idle_program_is_woken_and_a_busy_one_is_not() {
    for (to, mode, is_woken) in [
        (Boundary::Started, Mode::Immediate, true),
        (Boundary::Started, Mode::OnIdle, true),
        (Boundary::Started, Mode::NextMessage, false),
        (Boundary::Started, Mode::NextToolCall, false),
        (Boundary::Started, Mode::Manual, false),
        (ENDED, Mode::Immediate, true),
        (Boundary::Rests, Mode::Immediate, true),
        (SAID, Mode::Immediate, false),
        (RETURNED, Mode::Immediate, false),
        (Boundary::Asks, Mode::Immediate, false),
    ] {
        let mut relay = Relay::of_program();
        relay.comes_to(P, 1, to);
        assert_eq!(relay.stands_by(WAITER), []);
        let effects = relay.brings(mode, 1);
        match is_woken {
            true => assert_eq!(shown(&effects, WAITER), Some((vec![0], 0)), "{to:?} {mode:?}"),
            false => assert_eq!(effects, [], "{to:?} {mode:?}"),
        }
    }
}

#[test]
fn who_stands_by_is_answered_at_once_if_there_is_something() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, 1);
    assert_eq!(shown(&relay.stands_by(WAITER), WAITER), Some((vec![0], 0)));
}

#[test]
fn a_program_that_becomes_idle_is_woken_for_what_came_meanwhile() {
    let mut relay = Relay::of_program();
    relay.comes_to(P, 1, SAID);
    relay.stands_by(WAITER);
    assert_eq!(relay.brings(Mode::Immediate, 1), []);
    let effects = relay.comes_to(P, 2, Boundary::Rests);
    assert_eq!(shown(&effects, WAITER), Some((vec![0], 0)));
}

#[test]
fn one_wake_is_on_its_way_at_a_time_and_what_comes_meanwhile_joins_its_turn() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    assert_eq!(
        shown(&relay.brings(Mode::Immediate, 1), WAITER),
        Some((vec![0], 0))
    );
    relay.passed(WAITER);
    assert_eq!(relay.stands_by(501), []);
    assert_eq!(relay.brings(Mode::Immediate, 1), []);
    let wake = relay.handovers[&WAITER];
    relay.events();
    let effects = relay.comes(P, 1, BY_ITSELF, Some(wake));
    assert_eq!(shown(&effects, 1), Some((vec![1], 0)));
    let read = Event::Read {
        handover: wake,
        by: Sign::Acknowledged,
    };
    assert!(relay.events().contains(&read));
}

#[test]
fn a_turn_that_the_wake_has_not_begun_shows_what_it_was_to_bring() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    relay.brings(Mode::Immediate, 1);
    relay.passed(WAITER);
    relay.events();
    assert_eq!(relay.surfaces(1, SAID), Some((vec![0], 0)));
    let undone = relay
        .events()
        .into_iter()
        .any(|event| matches!(event, Event::Undone { by: Sign::Lost, .. }));
    assert!(undone);
}

#[test]
fn nothing_but_its_turn_says_that_a_wake_has_arrived_and_silence_undoes_it() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    relay.brings(Mode::Immediate, 1);
    relay.passed(WAITER);
    for (call, to) in [
        (1, RETURNED),
        (2, Boundary::Goes),
        (3, ENDED),
        (4, Boundary::Rests),
    ] {
        assert_eq!(relay.surfaces(call, to), None);
    }
    relay.stands_by(501);
    assert_eq!(relay.timeout_at(WOKEN_MS - 1), []);
    let effects = relay.timeout_at(WOKEN_MS);
    assert_eq!(shown(&effects, 501), Some((vec![0], 0)), "it is woken again");
}

#[test]
fn a_wake_of_another_program_begins_no_turn() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    relay.brings(Mode::Immediate, 1);
    relay.passed(WAITER);
    let wake = relay.handovers[&WAITER];
    let other = SessionId(21);
    relay.appears(other, Some("dev-a"));
    relay.comes(other, 1, BY_ITSELF, Some(wake));
    relay.close(P, Ending::Broken);
    assert_eq!(relay.pending(), [0, 1, 0]);
}

#[test]
fn a_turn_goes_on_once_until_a_tool_is_called() {
    let mut relay = Relay::of_program();
    relay.comes_to(P, 1, SAID);
    relay.brings(Mode::OnIdle, 1);
    assert_eq!(relay.surfaces(2, ENDED), Some((vec![0], 0)));
    relay.brings(Mode::OnIdle, 1);
    assert_eq!(relay.surfaces(3, ENDED), None, "it has gone on before");
    relay.comes_to(P, 4, RETURNED);
    assert_eq!(relay.surfaces(5, ENDED), Some((vec![1], 0)));
}

#[test]
fn a_model_is_shown_so_many_bytes_in_a_turn_and_told_once_of_the_rest() {
    let mut relay = Relay::of_program();
    let most = SURFACED_BYTES_MAX - 2 * FRAME_BYTES_MAX - 10;
    relay.brings(Mode::Immediate, most);
    relay.brings(Mode::Immediate, 11);
    relay.brings(Mode::Immediate, 1);
    assert_eq!(relay.surfaces(1, SAID), Some((vec![0], 2)), "they stay in order");
    assert_eq!(relay.surfaces(2, RETURNED), None);
    relay.brings(Mode::Immediate, 1);
    assert_eq!(relay.surfaces(3, RETURNED), Some((vec![], 3)));
    assert_eq!(relay.surfaces(4, RETURNED), None);
    assert_eq!(
        relay.surfaces(5, SAID),
        Some((vec![1, 2, 3], 0)),
        "in the next turn there is room"
    );
}

#[test]
fn a_message_without_room_wakes_once_by_saying_that_it_is_there() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    let effects = relay.brings(Mode::Immediate, SURFACED_BYTES_MAX + 1);
    assert_eq!(shown(&effects, WAITER), Some((vec![], 1)));
    relay.passed(WAITER);
    let wake = relay.handovers[&WAITER];
    assert_eq!(shown(&relay.comes(P, 1, BY_ITSELF, Some(wake)), 1), None);
    relay.comes_to(P, 2, ENDED);
    assert_eq!(relay.stands_by(501), [], "it is not woken for it again");
    assert_eq!(relay.pending(), [0, 1, 0]);
    assert_eq!(
        shown(&relay.brings(Mode::Immediate, 1), 501),
        Some((vec![], 2)),
        "it stays behind it"
    );
}

#[test]
fn a_wake_with_nothing_in_it_that_vanishes_is_given_again() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    relay.brings(Mode::Immediate, SURFACED_BYTES_MAX + 1);
    relay.passed(WAITER);
    relay.stands_by(501);
    assert_eq!(shown(&relay.sign(WAITER, Sign::Lost), 501), Some((vec![], 1)));
}

#[test]
fn one_call_stands_by_and_a_later_one_takes_its_place() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    let superseded = reply(WAITER, Ok(Answer::Superseded.into()));
    assert_eq!(relay.stands_by(501), [superseded]);
    relay.handle(Input::Cancelled { call: CallId(501) });
    assert_eq!(relay.brings(Mode::Immediate, 1), []);
}

#[test]
fn who_stands_by_when_the_relay_stops_is_told_so() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    let stopping = reply(WAITER, Err(Refusal::Stopping));
    assert_eq!(relay.handle(Input::Stopping), [stopping]);
    assert_eq!(relay.stands_by(501), [reply(501, Err(Refusal::Stopping))]);
}

#[test]
fn a_program_is_known_by_whom_its_model_speaks_for() {
    let mut relay = Relay::told_within(LONG);
    relay.appears(P, None);
    relay.stands_by(WAITER);
    relay.brings(Mode::Immediate, 1);
    assert_eq!(relay.surfaces(1, RETURNED), None, "it is nobody's");
    let command = |name: &str| Asks::Comes {
        to: RETURNED,
        speaks_as: Some(name.to_owned()),
        woken_by: None,
    };
    for nobody in ["dev-x", "user", ""] {
        let effects = relay.call(P, 2, command(nobody).into());
        assert_eq!(shown(&effects, 2), None, "{nobody}");
    }
    let effects = relay.call(P, 3, command("dev-a").into());
    assert_eq!(shown(&effects, 3), Some((vec![0], 0)));
    relay.passed(3);
    relay.comes_to(P, 4, ENDED);
    assert_eq!(
        shown(&relay.brings(Mode::Immediate, 1), WAITER),
        Some((vec![1], 0)),
        "its waiter is found"
    );
    relay.passed(WAITER);
    relay.call(P, 5, command("dev-b").into());
    assert_eq!(relay.pending(), [0, 1, 0], "what is on its way is not another's");
}

#[test]
fn a_program_that_says_whose_it_is_stays_so() {
    let mut relay = Relay::of_program();
    let command = Asks::Comes {
        to: RETURNED,
        speaks_as: Some("dev-b".to_owned()),
        woken_by: None,
    };
    relay.brings(Mode::Immediate, 1);
    assert_eq!(shown(&relay.call(P, 1, command.into()), 1), Some((vec![0], 0)));
}

#[test]
fn a_program_that_is_silent_for_long_is_gone_unless_it_can_be_woken() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    relay.timeout_at(PROGRAM_GONE_MS);
    let is_open = |relay: &Relay| {
        relay
            .engine
            .overview()
            .sessions
            .iter()
            .any(|view| view.session == P)
    };
    assert!(is_open(&relay));
    relay.handle(Input::Cancelled { call: CallId(WAITER) });
    relay.timeout_at(2 * PROGRAM_GONE_MS - 1);
    assert!(is_open(&relay));
    relay.timeout_at(2 * PROGRAM_GONE_MS);
    assert!(!is_open(&relay));
}

#[test]
fn each_event_of_a_program_begins_its_silence_anew() {
    let mut relay = Relay::of_program();
    relay.timeout_at(PROGRAM_GONE_MS - 1);
    relay.comes_to(P, 1, Boundary::Goes);
    relay.timeout_at(2 * PROGRAM_GONE_MS - 2);
    assert_eq!(
        relay.comes_to(P, 2, RETURNED),
        [reply(2, Ok(Answer::Nothing.into()))]
    );
}

#[test]
fn only_a_program_asks_for_that() {
    let mut relay = Relay::of_program();
    let refused = |call| reply(call, Err(Refusal::Surfacing(surfacing::Refusal::NoProgram)));
    assert_eq!(relay.comes_to(A, 1, SAID), [refused(1)]);
    assert_eq!(relay.call(A, 2, Asks::StandsBy.into()), [refused(2)]);
}

#[test]
fn of_a_taken_over_agent_s_programs_the_last_goes_on() {
    let instance = |n: u128| agents::Registration {
        name: "dev-a".to_owned(),
        instance: Some(uuid::Uuid::from_u128(n)),
        ..agents::Registration::default()
    };
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    let last = SessionId(21);
    relay.appears(last, Some("dev-a"));
    let fenced = || Refusal::Agents(agents::Refusal::Fenced { agent: name("dev-a") });
    let effects = relay.register(SessionId(22), instance(7));
    assert_eq!(
        effects,
        [reply(WAITER, Err(fenced())), opened(SessionId(22), "dev-a")]
    );
    assert_eq!(relay.comes_to(P, 1, SAID), [reply(1, Err(fenced()))]);
    relay.brings(Mode::Immediate, 1);
    assert_eq!(shown(&relay.comes_to(last, 2, SAID), 2), Some((vec![0], 0)));
}

#[test]
fn what_no_program_of_an_agent_can_be_brought_is_refused() {
    let mut relay = Relay::told_within(LONG);
    let abilities = Abilities {
        at_prompts: false,
        ..Abilities::ALL
    };
    let who = Who::Program {
        agent: Some("dev-a".to_owned()),
        is_certain: true,
        project: DEFAULT_PROJECT.to_owned(),
        mode: None,
        abilities,
    };
    relay.handle(Input::Opened {
        session: P,
        carrier: Carrier::Hook,
        who,
    });
    let post = |mode: Mode| mail::Command::Post {
        from: Some("pm".to_owned()),
        to: "dev-a".to_owned(),
        kind: Kind::Free,
        body: "x".to_owned(),
        options: Some(Box::new(mail::PostOptions {
            handling: mode.into(),
            ..mail::PostOptions::default()
        })),
    };
    let refusal = Refusal::Mail(mail::Refusal::CannotBring {
        agent: name("dev-a"),
        mode: Mode::NextMessage,
    });
    assert_eq!(refusal.class(), Class::Unsupported);
    assert_eq!(
        relay.call(A, 1, post(Mode::NextMessage).into()),
        [reply(1, Err(refusal))]
    );
    for mode in [Mode::Immediate, Mode::NextToolCall, Mode::OnIdle, Mode::Manual] {
        let effects = relay.call(A, 2, post(mode).into());
        assert!(
            matches!(effects[..], [Effect::Reply { result: Ok(_), .. }]),
            "{mode:?}"
        );
    }
    relay.appears(SessionId(21), Some("dev-a"));
    let effects = relay.call(A, 3, post(Mode::NextMessage).into());
    assert!(
        matches!(effects[..], [Effect::Reply { result: Ok(_), .. }]),
        "another one can"
    );
}
