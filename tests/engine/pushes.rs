//! Pushes: one at a time, in order, again after a while, given up after so many attempts, and sent again when somebody asks.

use relay::engine::NodeId;
use relay::engine::handling::Handling;
use relay::engine::limits::{PUSH_ATTEMPTS_MAX, PUSH_BACKOFF_MS, PUSH_BACKOFF_MS_MAX, REASON_BYTES_MAX};
use relay::engine::nodes::{Command as Asked, Refusal as NoNode, Reply as Answer, Said};
use relay::engine::pushes::{DeadLetter, Failing, GivenUp};
use relay::engine::receipts::{Command as Receipts, Receipt, Reply as Received, State};

use super::handling::until;
use super::nodes::{ANY, FIRST, NEXT, NODE, NONE, PERSON, frames, no_node, noted};
use super::*;

/// The session of the agent that gives receipts.
const AGENT: SessionId = SessionId(8);

impl Relay {
    /// A relay that pushes what comes for `dev-a`.
    pub fn pushing() -> Self {
        let mut relay = Self::told();
        relay.open_for_person(PERSON);
        let (project, name) = (DEFAULT_PROJECT.to_owned(), "hook".to_owned());
        relay.asked(
            PERSON,
            Asked::Create {
                project,
                name,
                label: None,
                agents_max: Some(1),
                pushes: true,
            },
        );
        relay.connect(NODE, None);
        relay.bind(FIRST, "dev-a");
        relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
        relay.events();
        relay
    }

    pub fn fails(&mut self, number: u64, error: &str) -> Vec<Effect> {
        self.said(
            NODE,
            Said::Failed {
                agent: "dev-a".to_owned(),
                number,
                error: error.to_owned(),
            },
        )
    }

    fn took(&mut self, number: u64) -> Vec<Effect> {
        let agent = "dev-a".to_owned();
        self.said(NODE, Said::Took { agent, number })
    }

    /// Fails as often as anything is tried, each time as soon as it is.
    fn fails_for_good(&mut self, number: u64) -> i64 {
        for attempt in 1..=PUSH_ATTEMPTS_MAX {
            self.fails(number, "HTTP 500");
            if attempt < PUSH_ATTEMPTS_MAX {
                assert_eq!(self.goes_on().len(), 1, "attempt {attempt}");
            }
        }
        self.now.as_millis() - START.as_millis()
    }

    /// Lets the time come at which the next attempt is due, and returns what goes out.
    pub fn goes_on(&mut self) -> Vec<(SessionId, u64, Delivery)> {
        let (at, reason) = self.engine.poll_timeout().expect("something is due");
        assert_eq!(reason, Reason::PushResumes);
        frames(self.timeout_at(at.as_millis() - START.as_millis()))
    }

    fn failing(&mut self) -> Option<Failing> {
        let bindings = self.asked(PERSON, Asked::Bindings { node: FIRST });
        let [
            Effect::Reply {
                result: Ok(Reply::Nodes(answer)),
                ..
            },
        ] = &bindings[..]
        else {
            panic!("{bindings:?}")
        };
        let Answer::Has(bindings) = &**answer else {
            panic!("{answer:?}")
        };
        bindings[0].failing.clone()
    }

    fn dead(&mut self) -> Vec<DeadLetter> {
        let dead = self.asked(PERSON, Asked::DeadLetters { agent: None });
        let [
            Effect::Reply {
                result: Ok(Reply::Nodes(answer)),
                ..
            },
        ] = &dead[..]
        else {
            panic!("{dead:?}")
        };
        let Answer::DeadLetters(dead) = &**answer else {
            panic!("{answer:?}")
        };
        dead.clone()
    }
}

fn redrive(agent: Option<&str>) -> Asked {
    let agent = agent.map(str::to_owned);
    Asked::Redrive { agent }
}

/// What is as it was, but was handed over before.
fn again(number: u8) -> Delivery {
    Delivery {
        redelivered: true,
        ..nth(number)
    }
}

fn redriven(given_up: usize, hastened: usize) -> Effect {
    reply(ANY, Ok(Answer::Redriven { given_up, hastened }.into()))
}

#[test]
fn one_is_on_its_way_at_a_time_and_the_next_goes_out_when_it_was_taken() {
    let mut relay = Relay::pushing();
    assert_eq!(relay.posts(1..=3), [(NODE, 1, nth(1))]);
    assert_eq!(frames(relay.acknowledge(NODE, "dev-a", 1)), [(NODE, 2, nth(2))]);
    assert_eq!(frames(relay.took(2)), [(NODE, 3, nth(3))]);
    assert_eq!(
        relay
            .events()
            .iter()
            .filter(|event| matches!(event, Event::Awaited { .. }))
            .count(),
        1
    );
}

#[test]
fn what_was_not_taken_goes_out_again_after_a_while_and_nothing_overtakes_it() {
    let mut relay = Relay::pushing();
    relay.posts(1..=1);
    relay.events();
    assert_eq!(relay.fails(1, "HTTP 503"), noted());
    let failing = relay.failing().expect("it fails");
    let again_at = failing.again_at.expect("it is tried again");
    assert_eq!(
        (failing.since, &*failing.error, failing.attempts),
        (START, "HTTP 503", 1)
    );
    let waits = again_at.as_millis() - START.as_millis();
    assert!(
        (PUSH_BACKOFF_MS / 2..=PUSH_BACKOFF_MS).contains(&waits),
        "{waits}"
    );
    let events = relay.events();
    let [
        Event::PushFailed {
            agent,
            error,
            again_at: told,
            ..
        },
        Event::Undone {
            by: Sign::NotTaken, ..
        },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(
        (agent, &**error, *told),
        (&name("dev-a"), "HTTP 503", Some(again_at))
    );
    assert_eq!(relay.posts(2..=2), [], "it waits behind the first");
    assert_eq!(relay.timeout_at(waits - 1), NONE);
    assert_eq!(relay.goes_on(), [(NODE, 1, again(1))]);
    let under_way = Failing {
        again_at: None,
        ..failing
    };
    assert_eq!(relay.failing(), Some(under_way));
    relay.fails(1, "HTTP 502");
    let failing = relay.failing().expect("it fails");
    assert_eq!(
        (failing.since, &*failing.error, failing.attempts),
        (START, "HTTP 502", 2)
    );
    relay.goes_on();
    assert_eq!(frames(relay.acknowledge(NODE, "dev-a", 1)), [(NODE, 2, nth(2))]);
    assert_eq!(relay.failing(), None);
    relay.fails(2, "HTTP 500");
    assert_eq!(relay.failing().expect("it fails").attempts, 1, "it counts anew");
}

#[test]
fn what_is_to_go_out_again_expires_at_its_deadline_and_the_next_goes_out_at_that_time() {
    let mut relay = Relay::pushing();
    assert_eq!(relay.sends(until(100)), [(0, 1)]);
    relay.sends(Handling::default());
    relay.fails(1, "HTTP 503");
    let expired = |relay: &mut Relay| {
        let events = relay.events().into_iter();
        let expired = events.filter(|event| matches!(event, Event::Expired { .. }));
        expired.count()
    };
    assert_eq!(frames(relay.timeout_at(99)), []);
    assert_eq!(expired(&mut relay), 0);
    assert_eq!(frames(relay.timeout_at(100)), [], "its target has its pause");
    assert_eq!(expired(&mut relay), 1);
    let next = relay.goes_on();
    let [(NODE, 2, delivery)] = &next[..] else {
        panic!("{next:?}")
    };
    assert_eq!((delivery.seq, delivery.redelivered), (Seq(1), false));
}

#[test]
fn a_target_does_not_count_as_failing_once_nothing_is_left_to_push() {
    for is_given_up in [true, false] {
        let mut relay = Relay::pushing();
        if is_given_up {
            relay.posts(1..=1);
            relay.fails_for_good(1);
        } else {
            relay.sends(until(100));
            relay.fails(1, "HTTP 503");
            relay.timeout_at(100);
        }
        // It may come back until the next attempt would be due.
        assert!(relay.failing().is_some());
        assert_eq!(relay.goes_on(), []);
        assert_eq!(relay.failing(), None);
        assert_eq!(relay.dead().len(), usize::from(is_given_up));
    }
}

#[test]
fn what_is_being_pushed_at_its_deadline_expires_if_it_is_not_taken() {
    for is_taken in [true, false] {
        let mut relay = Relay::pushing();
        relay.sends(until(100));
        relay.timeout_at(100);
        if is_taken {
            relay.acknowledge(NODE, "dev-a", 1);
        } else {
            relay.fails(1, "HTTP 503");
        }
        let events = relay.events();
        let has_expired = events.iter().any(|event| matches!(event, Event::Expired { .. }));
        assert_eq!(has_expired, !is_taken);
    }
}

#[test]
fn after_so_many_attempts_it_is_given_up_and_the_next_one_s_turn_comes() {
    let mut relay = Relay::pushing();
    relay.posts(1..=2);
    let at = relay.fails_for_good(1);
    let given_up = GivenUp {
        at: START.plus_millis(at),
        error: "HTTP 500".into(),
    };
    let letter = DeadLetter {
        agent: name("dev-a"),
        delivery: again(1),
        given_up,
    };
    assert_eq!(relay.dead(), [letter]);
    let last = relay.events().into_iter().rev().find_map(|event| {
        let Event::PushFailed { again_at, .. } = event else {
            return None;
        };
        Some(again_at)
    });
    assert_eq!(last, Some(None));
    let failing = relay.failing().expect("the target may be gone");
    let again_at = failing.again_at.expect("the next is tried").as_millis() - START.as_millis();
    assert!((PUSH_BACKOFF_MS_MAX / 2..=PUSH_BACKOFF_MS_MAX).contains(&(again_at - at)));
    assert_eq!(relay.goes_on(), [(NODE, 2, nth(2))]);
    relay.acknowledge(NODE, "dev-a", 2);
    assert_eq!(relay.dead().len(), 1, "what was taken since changes nothing");
    // Whoever looks is shown it.
    let listed = relay.call(AGENT, ANY, Receipts::List { limit: 10 }.into());
    let [
        Effect::Reply {
            result: Ok(Reply::Receipts(Received::Listed(rows))),
            ..
        },
    ] = &listed[..]
    else {
        panic!("{listed:?}")
    };
    assert_eq!(rows[0], (again(1), State::GivenUp));
}

#[test]
fn what_was_given_up_goes_out_again_when_somebody_asks_and_has_as_many_attempts_as_before() {
    let mut relay = Relay::pushing();
    relay.posts(1..=1);
    relay.fails_for_good(1);
    let effects = relay.asked(PERSON, redrive(Some("dev-b")));
    assert_eq!(effects, [redriven(0, 0)], "another's");
    let effects = relay.asked(PERSON, redrive(None));
    assert_eq!(effects[0], redriven(1, 1));
    assert_eq!(frames(effects), [(NODE, 2, again(1))], "at once");
    assert_eq!(relay.dead(), []);
    relay.fails(2, "HTTP 500");
    assert_eq!(relay.dead(), [], "it is tried again");
    // That does not wait either, if somebody asks.
    let effects = relay.asked(PERSON, redrive(Some("dev-a")));
    assert_eq!(effects[0], redriven(0, 1));
    assert_eq!(frames(effects), [(NODE, 2, again(1))]);
    assert_eq!(
        relay.asked(PERSON, redrive(None)),
        [redriven(0, 0)],
        "it is on its way"
    );
    relay.acknowledge(NODE, "dev-a", 2);
    assert_eq!(
        relay.engine.poll_timeout().map(|(_, reason)| reason),
        Some(Reason::DoubtEnds)
    );
}

#[test]
fn what_is_asked_of_one_agent_is_of_no_other_and_what_is_asked_of_all_is_of_each() {
    let mut relay = Relay::pushing();
    let (project, name) = (DEFAULT_PROJECT.to_owned(), "second".to_owned());
    relay.asked(
        PERSON,
        Asked::Create {
            project,
            name,
            label: None,
            agents_max: Some(1),
            pushes: true,
        },
    );
    relay.connect_as(NodeId(1), NEXT);
    relay.bind(NodeId(1), "dev-b");
    relay.posts(1..=1);
    relay.call(A, 20, post(Some("pm"), "dev-b", "hi"));
    relay.fails_for_good(1);
    let agent = "dev-b".to_owned();
    let error = "HTTP 500".to_owned();
    let number = 1;
    relay.said(NEXT, Said::Failed { agent, number, error });
    let dead = |agent: &str| Asked::DeadLetters {
        agent: Some(agent.to_owned()),
    };
    let all = relay.dead();
    assert_eq!(all.len(), 1);
    assert_eq!(
        relay.asked(PERSON, dead("dev-a")),
        [reply(ANY, Ok(Answer::DeadLetters(all).into()))]
    );
    assert_eq!(
        relay.asked(PERSON, dead("dev-b")),
        [reply(ANY, Ok(Answer::DeadLetters(Vec::new()).into()))]
    );
    let effects = relay.asked(PERSON, redrive(None));
    assert_eq!(effects[0], redriven(1, 2));
    let sessions = effects.iter().filter_map(|effect| {
        let Effect::Deliver { session, .. } = effect else {
            return None;
        };
        Some(*session)
    });
    let mut sessions: Vec<SessionId> = sessions.collect();
    sessions.sort_unstable();
    assert_eq!(sessions, [NODE, NEXT]);
}

#[test]
fn when_the_node_has_the_agent_no_more_a_tool_reads_what_was_given_up() {
    for unbinds in [true, false] {
        let mut relay = Relay::pushing();
        relay.posts(1..=2);
        relay.fails_for_good(1);
        if unbinds {
            let agent = "dev-a".to_owned();
            relay.asked(PERSON, Asked::Unbind { node: FIRST, agent });
        } else {
            relay.said(NODE, Said::Leaves);
        }
        assert_eq!(relay.dead(), []);
        let read = relay.call(B, 50, read("dev-a"));
        let [
            Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
                ..
            },
        ] = &read[..]
        else {
            panic!("{read:?}")
        };
        assert_eq!(deliveries[..], [again(1), nth(2)]);
        relay.timeout_at(10_000_000);
    }
}

#[test]
fn a_receipt_ends_what_was_given_up_and_the_stop_counts_it_as_unread() {
    let mut relay = Relay::pushing();
    relay.posts(1..=2);
    relay.fails_for_good(1);
    let message = nth(1).message.id.to_string();
    let give = Receipts::Give {
        message,
        receipt: Receipt::Done,
        metadata: None,
    };
    let given = relay.call(AGENT, ANY, give.into());
    assert_eq!(given, [reply(ANY, Ok(Received::Is(State::Done).into()))]);
    assert_eq!(relay.dead(), []);
    let mut relay = Relay::pushing();
    relay.posts(1..=2);
    relay.fails_for_good(1);
    relay.handle(Input::Stopping);
    assert_eq!(relay.pending(), [0, 2, 0]);
}

#[test]
fn a_target_that_takes_the_place_of_another_is_tried_at_once() {
    let mut relay = Relay::pushing();
    relay.posts(1..=1);
    relay.fails(1, "HTTP 500");
    assert_eq!(frames(relay.connect(NEXT, None)), [(NEXT, 1, again(1))]);
    assert_eq!(relay.fails(1, "late"), no_node(NoNode::NotRegistered));
    assert_eq!(
        relay.timeout_at(PUSH_BACKOFF_MS_MAX),
        NONE,
        "nothing is left of the pause"
    );
}

#[test]
fn what_is_said_of_what_is_over_changes_nothing() {
    let mut relay = Relay::pushing();
    relay.posts(1..=1);
    relay.acknowledge(NODE, "dev-a", 1);
    assert_eq!(relay.fails(1, "late"), noted());
    assert_eq!(relay.failing(), None);
    relay.posts(2..=2);
    relay.fails(2, "HTTP 500");
    assert_eq!(relay.fails(2, "again"), noted(), "it is not on its way");
    assert_eq!(relay.failing().expect("once").attempts, 1);
    relay.goes_on();
    relay.fails(2, &"é".repeat(REASON_BYTES_MAX));
    assert_eq!(relay.failing().expect("twice").error.len(), REASON_BYTES_MAX);
    relay.goes_on();
    relay.fails(2, &format!("x{}", "é".repeat(REASON_BYTES_MAX)));
    assert_eq!(
        relay.failing().expect("again").error.len(),
        REASON_BYTES_MAX - 1,
        "no part of a character"
    );
    // Another node does not say so of its frames.
    let mut relay = Relay::with_node();
    relay.posts(1..=1);
    assert_eq!(relay.fails(1, "no"), no_node(NoNode::NotYours));
    assert_eq!(relay.took(1), no_node(NoNode::NotYours));
    assert_eq!(relay.asked(A, redrive(None)), no_node(NoNode::NotYours));
    let dead = Asked::DeadLetters { agent: None };
    assert_eq!(relay.asked(A, dead), no_node(NoNode::NotYours));
}
