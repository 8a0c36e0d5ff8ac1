//! What the person holds does not go to nodes, to targets that are pushed to, or to programs either.

use relay::engine::holds::HeldBy;
use relay::engine::limits::NODE_GONE_MS;
use relay::engine::receipts::{Command as Receipts, Reply as Listed};

use super::handling::{HELD, until};
use super::nodes::{ANY, NEXT, NODE, PERSON, frames};
use super::programs::{ENDED, P, RETURNED, SAID, WAITER, shown as surfaced};
use super::*;

fn numbers(frames: &[(SessionId, u64, Delivery)]) -> Vec<(u64, u64)> {
    let numbers = frames.iter();
    numbers
        .map(|(_, number, delivery)| (delivery.seq.0, *number))
        .collect()
}

#[test]
fn a_node_gets_what_passes_with_the_next_number() {
    let mut relay = Relay::with_node();
    assert_eq!(numbers(&relay.posts(1..=1)), [(0, 1)]);
    relay.hold("dev-a");
    assert_eq!(numbers(&relay.posts(2..=4)), []);
    assert_eq!(numbers(&frames(relay.allow(3))), [(2, 2)]);
    let (_, effects) = relay.lift(Some("dev-a"));
    assert_eq!(numbers(&frames(effects)), [(1, 3), (3, 4)]);
    relay.acknowledge(NODE, "dev-a", 4);
    relay.settle();
    assert_eq!(relay.pending(), [0, 0, 0]);
}

#[test]
fn what_a_node_was_sent_before_goes_to_it_again_and_is_held_once_the_node_lets_go() {
    let mut relay = Relay::with_node();
    relay.posts(1..=2);
    assert_eq!(relay.hold("dev-a"), 0);
    relay.close(NODE, Ending::Broken);
    assert_eq!(numbers(&frames(relay.connect(NEXT, None))), [(0, 1), (1, 2)]);
    relay.close(NEXT, Ending::Broken);
    relay.timeout_at(NODE_GONE_MS);
    assert_eq!(relay.call(B, 5, read("dev-a")), [nothing(5)]);
    assert_eq!(relay.lift(Some("dev-a")).0, Some(2));
    let both = [again(&nth(1)), again(&nth(2))];
    assert_eq!(relay.call(B, 6, read("dev-a")), [shown(6, both)]);
}

#[test]
fn what_passes_that_is_to_wait_for_its_agent_goes_to_no_node_until_it_is_flushed() {
    let mut relay = Relay::with_node();
    relay.hold("dev-a");
    relay.sends(HELD);
    let (passed, effects) = relay.lift(Some("dev-a"));
    assert_eq!((passed, numbers(&frames(effects))), (Some(1), vec![]));
    relay.sends(HELD);
    let agent = Some("dev-a".to_owned());
    let flushed = relay.call(PERSON, 9, Receipts::Flush { agent }.into());
    assert_eq!(numbers(&frames(flushed)), [(0, 1), (1, 2)]);
}

#[test]
fn a_deadline_counts_again_for_what_is_held_when_a_node_lets_go() {
    let mut relay = Relay::with_node();
    relay.sends(until(NODE_GONE_MS + 10));
    relay.hold("dev-a");
    relay.close(NODE, Ending::Broken);
    relay.timeout_at(NODE_GONE_MS);
    assert_eq!(relay.pending(), [0, 1, 0]);
    relay.timeout_at(NODE_GONE_MS + 10);
    assert_eq!(relay.pending(), [0, 0, 0]);
}

#[test]
fn what_an_agent_was_shown_among_its_deliveries_is_not_held_and_what_is_held_is_not_shown() {
    let mut relay = Relay::with_person();
    let agent = SessionId(30);
    relay.open(agent, Carrier::Exchange, Some("dev-a"));
    relay.post(A, 1, &nth(1));
    let list = |relay: &mut Relay| {
        let effects = relay.call(agent, ANY, Receipts::List { limit: 10 }.into());
        let [
            Effect::Reply {
                result: Ok(Reply::Receipts(Listed::Listed(listed))),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        let places = listed.iter().map(|(delivery, _)| delivery.seq.0);
        places.collect::<Vec<u64>>()
    };
    assert_eq!(list(&mut relay), [0]);
    assert_eq!(relay.hold("dev-a"), 0);
    relay.post(A, 2, &nth(2));
    assert_eq!(list(&mut relay), [0]);
}

#[test]
fn a_target_is_not_pushed_to_again_what_is_held_meanwhile() {
    let mut relay = Relay::pushing();
    let [(_, number, _)] = relay.posts(1..=1)[..] else {
        panic!("it is pushed");
    };
    relay.hold("dev-a");
    relay.fails(number, "HTTP 500");
    let events = relay.events();
    let by = HeldBy::To;
    let held = Event::Held {
        agent: name("dev-a"),
        delivery: again(&nth(1)),
        by,
    };
    assert!(events.contains(&held), "{events:?}");
    assert_eq!(relay.goes_on(), []);
    let (_, effects) = relay.lift(Some("dev-a"));
    assert_eq!(numbers(&frames(effects)), [(0, 2)]);
}

#[test]
fn a_program_is_neither_shown_nor_woken_for_what_is_held() {
    let mut relay = Relay::of_program();
    relay.open_for_person(super::nodes::PERSON);
    relay.hold("dev-a");
    assert_eq!(relay.stands_by(WAITER), NONE);
    assert_eq!(
        relay.post(A, 1, &nth(1)).len(),
        1,
        "its sender is answered, and nobody else"
    );
    for (call, to) in [(2, SAID), (3, RETURNED), (4, ENDED)] {
        assert_eq!(relay.surfaces(call, to), None);
    }
    let woken = relay.allow(1);
    assert_eq!(surfaced(&woken, WAITER), Some((vec![0], 0)));
}

#[test]
fn a_program_that_was_told_of_what_is_behind_it_is_woken_for_what_passes() {
    let mut relay = Relay::of_program();
    relay.open_for_person(super::nodes::PERSON);
    relay.hold("pm");
    relay.post(A, 1, &nth(1));
    relay.post(B, 2, &message(2, 1, "dev-b", "dev-a"));
    assert_eq!(relay.surfaces(3, RETURNED), Some((vec![1], 0)));
    relay.comes_to(P, 4, ENDED);
    assert_eq!(relay.stands_by(WAITER), NONE);
    assert_eq!(surfaced(&relay.allow(1), WAITER), Some((vec![0], 0)));
}
