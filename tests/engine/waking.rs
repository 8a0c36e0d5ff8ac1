//! How the programs of agents are woken, how long they are there, and what is said of those that sleep.

use relay::engine::handling::Mode;
use relay::engine::limits::{
    ASLEEP_MS, PROGRAM_GONE_MS, PROGRAMS_MAX, SURFACED_BYTES_MAX, WAKES_IN_VAIN_MAX, WOKEN_MS,
};
use relay::engine::surfacing::{Boundary, Command as Asks, Reply as Answer};
use relay::engine::{Activity, ProgramView};

use super::programs::{BY_ITSELF, ENDED, LONG, P, RETURNED, SAID, WAITER, shown};
use super::*;

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
fn what_a_program_does_is_seen_by_the_person() {
    let mut relay = Relay::of_program();
    let view = |relay: &Relay| {
        let sessions = relay.engine.overview().sessions;
        sessions
            .iter()
            .find(|view| view.session == P)
            .and_then(|view| view.program)
    };
    let idle = ProgramView {
        activity: Activity::Idle,
        stands_by: false,
    };
    assert_eq!(view(&relay), Some(idle));
    relay.stands_by(WAITER);
    for (call, to, activity) in [
        (1, SAID, Activity::Busy),
        (2, Boundary::Asks, Activity::Asks),
        (3, Boundary::Goes, Activity::Asks),
        (4, RETURNED, Activity::Busy),
        (5, ENDED, Activity::Idle),
    ] {
        relay.comes_to(P, call, to);
        let expected = ProgramView {
            activity,
            stands_by: true,
        };
        assert_eq!(view(&relay), Some(expected), "{to:?}");
    }
}

#[test]
fn a_sender_is_told_of_a_program_that_sleeps() {
    use relay::engine::absence::Absence;
    let absence = |relay: &mut Relay| {
        let effects = relay.post(A, 1, &nth(1));
        let Some(Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Posted { absence, .. })),
            ..
        }) = effects.into_iter().next()
        else {
            unreachable!("it is posted");
        };
        absence.map(|absence| *absence)
    };
    let asleep = Absence::Asleep { agent: name("dev-a") };
    let mut relay = Relay::of_program();
    assert_eq!(absence(&mut relay), None, "its waiter may be on its way");
    relay.timeout_at(ASLEEP_MS);
    assert_eq!(absence(&mut relay), Some(asleep.clone()));
    relay.comes_to(P, 2, SAID);
    relay.timeout_at(2 * ASLEEP_MS);
    assert_eq!(absence(&mut relay), None, "it is busy");
    relay.comes_to(P, 3, Boundary::Rests);
    relay.timeout_at(3 * ASLEEP_MS);
    assert_eq!(absence(&mut relay), Some(asleep));
    relay.call(B, 4, read("dev-a"));
    relay.call(B, 5, wait("dev-a", WAIT_MS));
    assert_eq!(absence(&mut relay), None, "somebody waits");
}

#[test]
fn a_sender_is_not_told_that_nothing_wakes_a_program_that_is_being_woken() {
    let mut relay = Relay::of_program();
    relay.timeout_at(ASLEEP_MS);
    relay.stands_by(WAITER);
    relay.brings(Mode::Immediate, 1);
    let effects = relay.post(A, 1, &nth(1));
    assert!(
        matches!(
            effects[..],
            [Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Posted { absence: None, .. })),
                ..
            }]
        ),
        "{effects:?}"
    );
}

#[test]
fn a_program_that_was_woken_in_vain_so_often_is_not_woken_again_until_it_is_heard_of() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, 1);
    let mut ms = 0;
    for call in 0..u64::from(WAKES_IN_VAIN_MAX) {
        assert_eq!(shown(&relay.stands_by(call), call), Some((vec![0], 0)));
        relay.passed(call);
        ms += WOKEN_MS;
        relay.timeout_at(ms);
    }
    assert_eq!(relay.stands_by(WAITER), []);
    let effects = relay.comes_to(P, 100, Boundary::Goes);
    assert_eq!(shown(&effects, WAITER), Some((vec![0], 0)));
}

#[test]
fn of_too_many_programs_the_longest_silent_gives_way() {
    let bounds = Bounds {
        sessions_max: PROGRAMS_MAX + 10,
        ..LONG
    };
    let mut relay = Relay::told_within(bounds);
    let first = 1_000;
    for n in 0..PROGRAMS_MAX as u64 {
        relay.now = START.plus_millis(i64::try_from(n).expect("a small number"));
        relay.appears(SessionId(first + n), None);
    }
    // The first of them can be woken, and the second is heard of.
    relay.call(SessionId(first), 1, Asks::StandsBy.into());
    relay.comes_to(SessionId(first + 1), 2, Boundary::Goes);
    relay.appears(SessionId(5_000), None);
    let sessions = relay.engine.overview().sessions;
    let open = |n: u64| sessions.iter().any(|view| view.session == SessionId(first + n));
    assert_eq!([0, 1, 2, 3].map(open), [true, true, false, true]);
}

#[test]
fn a_model_that_starts_is_told_what_the_one_before_was() {
    let mut relay = Relay::of_program();
    relay.comes_to(P, 1, SAID);
    relay.brings(Mode::Immediate, SURFACED_BYTES_MAX);
    assert_eq!(relay.surfaces(2, ENDED), Some((vec![], 1)));
    assert_eq!(relay.surfaces(3, ENDED), None);
    assert_eq!(relay.surfaces(4, Boundary::Started), None);
    assert_eq!(shown(&relay.stands_by(WAITER), WAITER), Some((vec![], 1)));
}
