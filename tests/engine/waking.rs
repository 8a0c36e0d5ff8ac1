//! The programs of agents, once more: what a turn's end, a second program and a vanished hand-over change.

use relay::engine::absence::Absence;
use relay::engine::handling::Mode;
use relay::engine::limits::{ASLEEP_MS, FRAME_BYTES_MAX, SURFACED_BYTES_MAX, WAKES_IN_VAIN_MAX, WOKEN_MS};
use relay::engine::surfacing::{Boundary, Command as Asks};
use relay::engine::{Abilities, Activity, ProgramView};

use super::programs::{BY_ITSELF, ENDED, LONG, P, RETURNED, SAID, WAITER, post_in, shown};
use super::*;

/// Another program of the agent's.
const OTHER: SessionId = SessionId(21);

/// As many bytes as fit into a turn once, but not twice.
const MOST: usize = SURFACED_BYTES_MAX - FRAME_BYTES_MAX;

fn speaks_as(name: &str) -> Command {
    let command = Asks::Comes {
        to: RETURNED,
        speaks_as: Some(name.to_owned()),
        woken_by: None,
    };
    command.into()
}

/// What the sender of a message is told of whoever is to read it.
fn absence(relay: &mut Relay) -> Option<Absence> {
    let effects = relay.post(A, 901, &nth(1));
    let Some(Effect::Reply {
        result: Ok(Reply::Mail(mail::Reply::Posted { absence, .. })),
        ..
    }) = effects.into_iter().next()
    else {
        unreachable!("it is posted");
    };
    absence.map(|absence| *absence)
}

#[test]
fn each_boundary_at_which_the_model_goes_on_says_that_it_has_read() {
    for to in [SAID, BY_ITSELF, RETURNED, ENDED] {
        let mut relay = Relay::of_program();
        relay.brings(Mode::Immediate, 1);
        assert_eq!(relay.surfaces(1, RETURNED), Some((vec![0], 0)));
        assert_eq!(relay.surfaces(2, to), None);
        relay.close(P, Ending::Broken);
        assert_eq!(relay.pending(), [0, 0, 0], "{to:?}");
    }
}

#[test]
fn a_turn_that_goes_on_is_busy_and_shows_at_its_tools_what_comes() {
    let mut relay = Relay::of_program();
    relay.comes_to(P, 1, SAID);
    relay.brings(Mode::OnIdle, 1);
    relay.stands_by(WAITER);
    assert_eq!(relay.surfaces(2, ENDED), Some((vec![0], 0)));
    assert_eq!(relay.brings(Mode::Immediate, 1), [], "it is busy");
    assert_eq!(relay.surfaces(3, RETURNED), Some((vec![1], 0)));
}

#[test]
fn what_a_program_does_is_told_when_it_changes() {
    let mut relay = Relay::of_program();
    let does = |relay: &mut Relay| {
        let events = relay.events().into_iter();
        let activities = events.filter_map(|event| {
            let Event::Does { activity, .. } = event else {
                return None;
            };
            Some(activity)
        });
        activities.collect::<Vec<_>>()
    };
    relay.comes_to(P, 1, SAID);
    relay.comes_to(P, 2, RETURNED);
    assert_eq!(does(&mut relay), [Activity::Busy]);
    relay.comes_to(P, 3, ENDED);
    relay.comes_to(P, 4, Boundary::Rests);
    assert_eq!(does(&mut relay), [Activity::Idle]);
}

#[test]
fn of_several_programs_one_that_is_busy_keeps_none_from_being_woken() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    relay.comes_to(P, 1, SAID);
    relay.appears(OTHER, Some("dev-a"));
    relay.call(OTHER, 501, Asks::StandsBy.into());
    let effects = relay.brings(Mode::Immediate, 1);
    assert_eq!(shown(&effects, 501), Some((vec![0], 0)));
}

#[test]
fn a_turn_that_another_wake_has_begun_shows_what_is_on_its_way() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    relay.brings(Mode::Immediate, 1);
    relay.passed(WAITER);
    let HandoverId(wake) = relay.handovers[&WAITER];
    let effects = relay.comes(P, 1, BY_ITSELF, Some(HandoverId(wake + 1_000)));
    assert_eq!(shown(&effects, 1), Some((vec![0], 0)));
}

#[test]
fn a_turn_that_a_wake_begins_has_room_of_its_own() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, MOST);
    assert_eq!(relay.surfaces(1, SAID), Some((vec![0], 0)), "it fits to the byte");
    relay.comes_to(P, 2, ENDED);
    relay.stands_by(WAITER);
    let effects = relay.brings(Mode::Immediate, MOST);
    assert_eq!(shown(&effects, WAITER), Some((vec![1], 0)));
}

#[test]
fn of_what_the_model_was_told_before_the_number_is_not_said_again() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::OnIdle, 1);
    relay.brings(Mode::Immediate, MOST + 1);
    assert_eq!(relay.surfaces(1, RETURNED), Some((vec![], 1)));
    assert_eq!(relay.surfaces(2, ENDED), Some((vec![0], 0)));
}

#[test]
fn each_mode_is_told_of_at_its_own_boundaries() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::OnIdle, MOST + 1);
    relay.brings(Mode::Immediate, MOST + 1);
    assert_eq!(relay.surfaces(1, RETURNED), Some((vec![], 1)));
    assert_eq!(relay.surfaces(2, ENDED), Some((vec![], 2)));
}

#[test]
fn each_turn_is_told_of_what_still_waits() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, MOST + 1);
    for call in [1, 3] {
        assert_eq!(relay.surfaces(call, SAID), Some((vec![], 1)), "{call}");
        assert_eq!(relay.surfaces(call + 1, RETURNED), None, "{call}");
    }
}

#[test]
fn what_was_lost_is_told_of_again_from_the_first_on_and_to_each_program() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, MOST / 2);
    relay.brings(Mode::NextToolCall, 1);
    assert_eq!(relay.surfaces(1, RETURNED), Some((vec![0, 1], 0)));
    relay.sign(1, Sign::Lost);
    assert_eq!(
        relay.surfaces(2, ENDED),
        Some((vec![], 1)),
        "there is no room twice"
    );

    let mut relay = Relay::of_program();
    relay.appears(OTHER, Some("dev-a"));
    relay.brings(Mode::Immediate, MOST + 1);
    assert_eq!(shown(&relay.comes_to(OTHER, 1, RETURNED), 1), Some((vec![], 1)));
    relay.passed(1);
    relay.comes_to(OTHER, 2, RETURNED);
    relay.comes_to(P, 3, RETURNED);
    relay.sign(3, Sign::Lost);
    assert_eq!(shown(&relay.comes_to(OTHER, 4, RETURNED), 4), Some((vec![], 1)));
}

#[test]
fn a_wake_that_did_not_reach_the_program_is_none_in_vain() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, 1);
    for call in 0..u64::from(WAKES_IN_VAIN_MAX) {
        assert_eq!(shown(&relay.stands_by(call), call), Some((vec![0], 0)));
        relay.sign(call, Sign::Lost);
    }
    assert_eq!(shown(&relay.stands_by(WAITER), WAITER), Some((vec![0], 0)));
}

#[test]
fn a_program_that_becomes_another_agent_s_is_told_of_that_one_s() {
    let mut relay = Relay::told_within(LONG);
    relay.appears(P, None);
    let long = "x".repeat(MOST + 1);
    for to in ["dev-a", "dev-b"] {
        relay.call(A, 900, post(Some("pm"), to, &long));
    }
    for (call, name) in [(1, "dev-a"), (2, "dev-b")] {
        let effects = relay.call(P, call, speaks_as(name));
        let Some(Effect::Reply {
            result: Ok(Reply::Surfacing(surfacing::Reply::Shown(shown))),
            ..
        }) = effects.first()
        else {
            panic!("{name}: {effects:?}");
        };
        assert_eq!((shown.agent.local(), shown.left), (name, 1));
        relay.passed(call);
    }
}

fn taken_over(relay: &mut Relay) {
    let registration = agents::Registration {
        name: "dev-a".to_owned(),
        instance: Some(uuid::Uuid::from_u128(7)),
        ..agents::Registration::default()
    };
    relay.register(SessionId(30), registration);
}

#[test]
fn a_fenced_program_goes_on_beside_later_ones_of_others() {
    let mut relay = Relay::of_program();
    relay.appears(OTHER, Some("dev-b"));
    taken_over(&mut relay);
    relay.brings(Mode::Immediate, 1);
    assert_eq!(relay.surfaces(1, RETURNED), Some((vec![0], 0)));
}

#[test]
fn a_fenced_program_that_becomes_another_agent_s_is_fenced_no_more() {
    let mut relay = Relay::told_within(LONG);
    relay.appears(P, None);
    relay.call(P, 1, speaks_as("dev-a"));
    relay.appears(OTHER, Some("dev-a"));
    taken_over(&mut relay);
    relay.appears(SessionId(22), Some("dev-b"));
    let effects = relay.call(P, 2, speaks_as("dev-b"));
    let nothing = reply(2, Ok(surfacing::Reply::Nothing.into()));
    assert_eq!(effects, [nothing]);
}

#[test]
fn each_ability_is_asked_for_what_is_brought_by_it() {
    for (mode, abilities) in [
        (
            Mode::NextMessage,
            Abilities {
                at_prompts: false,
                ..Abilities::ALL
            },
        ),
        (
            Mode::NextToolCall,
            Abilities {
                at_tools: false,
                ..Abilities::ALL
            },
        ),
        (
            Mode::OnIdle,
            Abilities {
                at_ends: false,
                ..Abilities::ALL
            },
        ),
    ] {
        let mut relay = Relay::told_within(LONG);
        relay.handle(Input::Opened {
            session: P,
            carrier: Carrier::Hook,
            who: Who::Program {
                agent: Some("dev-a".to_owned()),
                is_certain: true,
                project: DEFAULT_PROJECT.to_owned(),
                mode: None,
                abilities,
            },
        });
        for asked in Mode::ALL {
            let effects = relay.call(A, 1, post_in(asked, 1));
            let is_taken = matches!(effects[..], [Effect::Reply { result: Ok(_), .. }, ..]);
            assert_eq!(is_taken, asked != mode, "{abilities:?} {asked:?}");
        }
    }
}

#[test]
fn an_agent_is_asleep_if_none_of_its_programs_is_awake_or_can_be_woken() {
    let asleep = || Some(Absence::Asleep { agent: name("dev-a") });
    let mut relay = Relay::of_program();
    relay.appears(OTHER, Some("dev-a"));
    relay.comes_to(OTHER, 1, SAID);
    relay.timeout_at(ASLEEP_MS);
    assert_eq!(absence(&mut relay), None, "one is busy");
    relay.comes_to(OTHER, 2, Boundary::Asks);
    relay.timeout_at(2 * ASLEEP_MS);
    assert_eq!(absence(&mut relay), None, "one asks its person, and goes on then");
    relay.comes_to(OTHER, 3, Boundary::Rests);
    relay.timeout_at(3 * ASLEEP_MS);
    assert_eq!(absence(&mut relay), asleep());

    let mut relay = Relay::of_program();
    relay.timeout_at(ASLEEP_MS);
    relay.stands_by(WAITER);
    assert_eq!(absence(&mut relay), None, "it can be woken");
}

#[test]
fn a_sender_is_told_of_a_program_that_asks_its_person() {
    let asks = Some(Absence::Asks { agent: name("dev-a") });
    let mut relay = Relay::of_program();
    relay.comes_to(P, 1, SAID);
    relay.comes_to(P, 2, Boundary::Asks);
    assert_eq!(absence(&mut relay), asks);
    relay.appears(OTHER, Some("dev-a"));
    relay.comes_to(OTHER, 3, Boundary::Asks);
    assert_eq!(absence(&mut relay), asks);
    relay.comes_to(OTHER, 4, RETURNED);
    assert_eq!(absence(&mut relay), None, "one goes on");
    relay.comes_to(OTHER, 5, Boundary::Asks);
    relay.call(B, 6, read("dev-a"));
    relay.call(B, 7, wait("dev-a", WAIT_MS));
    assert_eq!(absence(&mut relay), None, "somebody waits");
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
fn many_short_messages_take_the_room_of_their_frames() {
    let mut relay = Relay::of_program();
    let fit = SURFACED_BYTES_MAX / (FRAME_BYTES_MAX + 1);
    for _ in 0..fit + 3 {
        relay.brings(Mode::Immediate, 1);
    }
    let places = (0..fit).map(|place| place as u64).collect();
    assert_eq!(relay.surfaces(1, RETURNED), Some((places, 3)));
}

#[test]
fn what_a_model_was_told_of_by_a_hook_that_vanished_is_told_again() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, SURFACED_BYTES_MAX);
    assert_eq!(relay.surfaces(1, RETURNED), Some((vec![], 1)));
    assert_eq!(relay.surfaces(2, RETURNED), None);
    relay.comes_to(P, 3, SAID);
    assert_eq!(
        shown(&relay.comes_to(P, 4, RETURNED), 4),
        None,
        "the turn was told of it"
    );
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, SURFACED_BYTES_MAX);
    relay.comes_to(P, 1, RETURNED);
    relay.sign(1, Sign::Lost);
    assert_eq!(relay.surfaces(2, RETURNED), Some((vec![], 1)));
}

#[test]
fn what_says_nothing_of_the_model_confirms_nothing_and_a_new_conversation_undoes() {
    for to in [Boundary::Asks, Boundary::Rests, Boundary::Goes] {
        let mut relay = Relay::of_program();
        relay.brings(Mode::Immediate, 1);
        relay.surfaces(1, RETURNED);
        relay.comes_to(P, 2, to);
        relay.close(P, Ending::Broken);
        assert_eq!(relay.pending(), [0, 1, 0], "{to:?}");
    }
    let mut relay = Relay::of_program();
    relay.brings(Mode::Immediate, 1);
    relay.surfaces(1, RETURNED);
    relay.comes_to(P, 2, Boundary::Started);
    assert_eq!(relay.pending(), [0, 1, 0]);
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
fn a_program_in_another_project_is_known_by_a_name_in_that() {
    let mut relay = Relay::told_within(LONG);
    let registration = agents::Registration {
        name: "dev-a".to_owned(),
        project: Some("web".to_owned()),
        ..agents::Registration::default()
    };
    relay.register(SessionId(8), registration);
    relay.handle(Input::Opened {
        session: P,
        carrier: Carrier::Hook,
        who: Who::Program {
            agent: None,
            is_certain: true,
            project: "web".to_owned(),
            mode: None,
            abilities: Abilities::ALL,
        },
    });
    relay.events();
    let command = Asks::Comes {
        to: RETURNED,
        speaks_as: Some("dev-a".to_owned()),
        woken_by: None,
    };
    relay.call(P, 1, command.into());
    let recognised = Event::Recognised {
        session: P,
        agent: name("web:dev-a"),
    };
    assert!(relay.events().contains(&recognised));
}

#[test]
fn what_the_environment_of_a_program_says_may_be_another_s() {
    let mut relay = Relay::told_within(LONG);
    relay.handle(Input::Opened {
        session: P,
        carrier: Carrier::Hook,
        who: Who::Program {
            agent: Some("dev-b".to_owned()),
            is_certain: false,
            project: DEFAULT_PROJECT.to_owned(),
            mode: None,
            abilities: Abilities::ALL,
        },
    });
    relay.brings(Mode::Immediate, 1);
    let command = Asks::Comes {
        to: RETURNED,
        speaks_as: Some("dev-a".to_owned()),
        woken_by: None,
    };
    assert_eq!(shown(&relay.call(P, 1, command.into()), 1), Some((vec![0], 0)));
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

#[test]
fn a_program_whose_waiter_has_just_gone_is_not_yet_one_that_nothing_wakes() {
    let mut relay = Relay::of_program();
    relay.stands_by(WAITER);
    relay.timeout_at(3 * ASLEEP_MS);
    relay.handle(Input::Cancelled { call: CallId(WAITER) });
    relay.timeout_at(4 * ASLEEP_MS - 1);
    assert_eq!(absence(&mut relay), None);
    relay.timeout_at(4 * ASLEEP_MS);
    assert_eq!(
        absence(&mut relay),
        Some(Absence::Asleep { agent: name("dev-a") })
    );
}

#[test]
fn a_turn_that_a_wake_has_begun_is_not_its_person_s_however_it_is_told_of() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::NextMessage, 1);
    relay.stands_by(WAITER);
    let effects = relay.brings(Mode::Immediate, 1);
    assert_eq!(shown(&effects, WAITER), Some((vec![1], 0)));
    let wake = relay.handovers[&WAITER];
    relay.passed(WAITER);
    let effects = relay.comes(P, 1, SAID, Some(wake));
    assert_eq!(shown(&effects, 1), None);
    assert_eq!(shown(&relay.comes_to(P, 2, SAID), 2), Some((vec![0], 0)));
}

#[test]
fn the_next_turn_goes_on_though_the_one_before_did() {
    let mut relay = Relay::of_program();
    relay.brings(Mode::OnIdle, 1);
    assert_eq!(relay.surfaces(1, ENDED), Some((vec![0], 0)));
    relay.comes_to(P, 2, SAID);
    relay.brings(Mode::OnIdle, 1);
    assert_eq!(relay.surfaces(3, ENDED), Some((vec![1], 0)));
}

#[test]
fn what_was_lost_is_told_of_again_however_it_is_brought() {
    for (mode, to) in [
        (Mode::Immediate, RETURNED),
        (Mode::NextMessage, SAID),
        (Mode::NextToolCall, RETURNED),
        (Mode::OnIdle, ENDED),
    ] {
        let mut relay = Relay::of_program();
        relay.brings(mode, MOST + 1);
        relay.comes_to(P, 1, to);
        relay.sign(1, Sign::Lost);
        relay.comes_to(P, 2, Boundary::Rests);
        let effects = relay.comes_to(P, 3, RETURNED);
        let at_once = (to == RETURNED).then(|| (vec![], 1));
        assert_eq!(shown(&effects, 3), at_once, "{mode:?}");
        if to != RETURNED {
            assert_eq!(relay.surfaces(4, to), Some((vec![], 1)), "{mode:?}");
        }
    }
}
