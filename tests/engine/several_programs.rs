//! Several programs, of one agent and of many: which of them is woken, goes on, or gives way.

use relay::engine::handling::Mode;
use relay::engine::limits::{PROGRAMS_MAX, SURFACED_BYTES_MAX};
use relay::engine::surfacing::{Boundary, Command as Asks, Reply as Answer};

use super::programs::{ENDED, LONG, P, RETURNED, shown};
use super::*;

/// Another program of the agent's.
const OTHER: SessionId = SessionId(21);

#[test]
fn a_program_whose_agent_was_taken_over_may_become_another() {
    let mut relay = Relay::of_program();
    relay.appears(SessionId(21), Some("dev-a"));
    let other = SessionId(19);
    relay.appears(other, None);
    let speaks_as = |name: &str| Asks::Comes {
        to: RETURNED,
        speaks_as: Some(name.to_owned()),
        woken_by: None,
    };
    relay.call(other, 1, speaks_as("dev-a").into());
    relay.register(SessionId(22), registration("dev-a", Some(7)));
    let effects = relay.call(other, 2, speaks_as("dev-b").into());
    assert_eq!(effects, [reply(2, Ok(Answer::Nothing.into()))]);
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
fn there_are_no_more_programs_than_that_though_all_can_be_woken() {
    let bounds = Bounds {
        sessions_max: PROGRAMS_MAX + 10,
        ..LONG
    };
    let mut relay = Relay::told_within(bounds);
    let first = 1_000;
    for n in 0..PROGRAMS_MAX as u64 {
        relay.now = START.plus_millis(i64::try_from(n).expect("a small number"));
        let session = SessionId(first + n);
        relay.appears(session, None);
        relay.comes_to(session, 2 * n, ENDED);
        relay.call(session, 2 * n + 1, Asks::StandsBy.into());
    }
    relay.appears(SessionId(5_000), None);
    let sessions = relay.engine.overview().sessions;
    let open = |n: u64| sessions.iter().any(|view| view.session == SessionId(first + n));
    assert_eq!([0, 1, 2].map(open), [false, true, true]);
}

#[test]
fn of_several_programs_the_one_that_was_heard_of_last_is_woken() {
    for (last, woken) in [(P, 1), (OTHER, 2)] {
        let mut relay = Relay::of_program();
        relay.appears(OTHER, Some("dev-a"));
        relay.call(P, 1, Asks::StandsBy.into());
        relay.call(OTHER, 2, Asks::StandsBy.into());
        relay.now = START.plus_millis(1);
        relay.comes_to(last, 3, ENDED);
        assert_eq!(
            shown(&relay.brings(Mode::Immediate, 1), woken),
            Some((vec![0], 0))
        );
    }
}

#[test]
fn a_waiter_that_has_outlived_its_program_keeps_no_other_from_its_agent() {
    let mut relay = Relay::of_program();
    relay.comes_to(P, 1, ENDED);
    relay.now = START.plus_millis(1);
    relay.appears(OTHER, Some("dev-a"));
    relay.call(OTHER, 2, Asks::StandsBy.into());
    relay.register(SessionId(22), registration("dev-a", Some(7)));
    assert_eq!(
        relay.comes_to(P, 3, ENDED),
        [reply(3, Ok(Answer::Nothing.into()))]
    );
}

#[test]
fn what_stands_in_for_a_waiter_gives_way_to_one() {
    let mut relay = Relay::of_program();
    assert_eq!(relay.call(P, 1, Asks::StandsIn.into()), []);
    let superseded = |call| reply(call, Ok(Answer::Superseded.into()));
    assert_eq!(relay.call(P, 2, Asks::StandsBy.into()), [superseded(1)]);
    assert_eq!(relay.call(P, 3, Asks::StandsIn.into()), [superseded(3)]);
    assert_eq!(shown(&relay.brings(Mode::Immediate, 1), 2), Some((vec![0], 0)));
    assert_eq!(
        relay.call(P, 4, Asks::StandsIn.into()),
        [],
        "a wake is on its way"
    );
}

#[test]
fn what_stands_in_is_answered_like_a_waiter() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, 1);
    assert_eq!(
        shown(&relay.call(P, 1, Asks::StandsIn.into()), 1),
        Some((vec![0], 0))
    );
    relay.handle(Input::Stopping);
    let effects = relay.call(P, 2, Asks::StandsIn.into());
    assert_eq!(effects, [reply(2, Err(Refusal::Stopping))]);
}

#[test]
fn each_program_that_can_be_woken_is_told_of_what_has_no_room() {
    let mut relay = Relay::of_program();
    relay.appears(OTHER, Some("dev-a"));
    relay.call(P, 1, Asks::StandsBy.into());
    relay.call(OTHER, 2, Asks::StandsBy.into());
    let effects = relay.brings(Mode::Immediate, SURFACED_BYTES_MAX + 1);
    for call in [1, 2] {
        assert_eq!(shown(&effects, call), Some((vec![], 1)), "{call}");
    }
}
