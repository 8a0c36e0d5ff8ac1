//! Receipts: what an agent says of its single deliveries, and what becomes of those that it says nothing of.

use relay::engine::limits::{DEFERRAL_MS_MAX, FRAMES_MAX, NODE_GONE_MS, REASON_BYTES_MAX};
use relay::engine::receipts::{Command as Asked, Receipt, Refusal as NoDelivery, Reply as Answer, State};

use super::nodes::{ANY, FIRST, NODE, NONE, PERSON, frames, noted};
use super::*;

/// The session of the agent that gives receipts.
const AGENT: SessionId = SessionId(8);

const DONE: Receipt = Receipt::Done;
const FAILED: Receipt = Receipt::Failed {
    reason: None,
    retryable: false,
};

/// Long before a node that is gone holds its agents no more.
const LATER_MS: i64 = 1_000;

fn until(ms: i64) -> Receipt {
    Receipt::Deferred {
        until: START.plus_millis(ms),
        reason: None,
    }
}

impl Relay {
    /// A relay in which `dev-a` is bound to a node, has messages of those numbers on the way, and gives receipts.
    fn giving(numbers: std::ops::RangeInclusive<u8>) -> Self {
        let mut relay = Self::with_node();
        relay.posts(numbers);
        relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
        relay.events();
        relay
    }

    fn lists(&mut self) -> Vec<(Delivery, State)> {
        let list = Asked::List { limit: 100 };
        match &self.call(AGENT, ANY, list.into())[..] {
            [
                Effect::Reply {
                    result: Ok(Reply::Receipts(Answer::Listed(all))),
                    ..
                },
            ] => all.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn gives(&mut self, number: u8, receipt: Receipt) -> Vec<Effect> {
        self.gives_with(number, receipt, None)
    }

    fn gives_with(&mut self, number: u8, receipt: Receipt, metadata: Option<&str>) -> Vec<Effect> {
        let give = Asked::Give {
            message: nth(number).message.id.to_string(),
            receipt,
            metadata: metadata.map(Box::from),
        };
        self.call(AGENT, ANY, give.into())
    }

    /// How the hand-overs of messages ended since the last time, and by which signs.
    fn ended(&mut self) -> Vec<Sign> {
        let events = self.events().into_iter();
        let ended = events.filter_map(|event| {
            let (Event::Confirmed { by, .. } | Event::Undone { by, .. }) = event else {
                return None;
            };
            Some(by)
        });
        ended.collect()
    }
}

/// The answer to a receipt, and what else comes of it.
fn is(state: State) -> Effect {
    reply(ANY, Ok(Answer::Is(state).into()))
}

fn refused_as(refusal: NoDelivery) -> Vec<Effect> {
    vec![super::refused(ANY, refusal.into())]
}

#[test]
fn what_is_on_its_way_or_acknowledged_a_moment_ago_is_listed_with_what_waits() {
    let mut relay = Relay::giving(1..=2);
    relay.acknowledge(NODE, "dev-a", 1);
    let expected = [(nth(1), State::Delivered), (nth(2), State::Queued)];
    assert_eq!(relay.lists(), expected);
    assert_eq!(relay.lists(), expected, "again, as long as no receipt was given");
}

#[test]
fn what_was_not_listed_has_arrived_with_the_acknowledgement() {
    let mut relay = Relay::giving(1..=1);
    relay.acknowledge(NODE, "dev-a", 1);
    relay.settle();
    assert_eq!(relay.ended(), [Sign::Acknowledged]);
    assert_eq!(relay.lists(), []);
}

#[test]
fn of_what_was_asked_for_and_not_shown_no_receipt_is_awaited() {
    let mut relay = Relay::giving(1..=2);
    relay.acknowledge(NODE, "dev-a", 2);
    let shown = relay.call(AGENT, ANY, Asked::List { limit: 1 }.into());
    let row = (nth(1), State::Delivered);
    assert_eq!(shown, [reply(ANY, Ok(Answer::Listed(vec![row.clone()]).into()))]);
    relay.settle();
    assert_eq!(relay.ended(), [Sign::Acknowledged], "the second");
    assert_eq!(relay.lists(), [row]);
}

#[test]
fn of_what_a_node_acknowledged_that_holds_the_agent_no_more_no_receipt_is_awaited() {
    let mut relay = Relay::giving(1..=1);
    relay.acknowledge(NODE, "dev-a", 1);
    relay.said(NODE, relay::engine::nodes::Said::Leaves);
    assert_eq!(relay.lists(), []);
    relay.settle();
    assert_eq!(relay.ended(), [Sign::Acknowledged]);
}

#[test]
fn a_receipt_says_by_what_a_delivery_arrived_also_right_after_the_acknowledgement() {
    let mut relay = Relay::giving(1..=1);
    relay.acknowledge(NODE, "dev-a", 1);
    assert_eq!(relay.gives(1, DONE), [is(State::Done)]);
    assert_eq!(relay.ended(), [Sign::Receipted]);
}

#[test]
fn what_was_listed_arrives_by_its_receipt_alone() {
    for listed_first in [true, false] {
        let mut relay = Relay::giving(1..=2);
        if listed_first {
            relay.lists();
        }
        relay.acknowledge(NODE, "dev-a", 2);
        relay.lists();
        relay.timeout_at(10 * NODE_GONE_MS);
        assert_eq!(relay.ended(), [], "an acknowledgement is not enough");
        assert_eq!(relay.gives(2, DONE), [is(State::Done)]);
        assert_eq!(relay.ended(), [Sign::Receipted]);
        assert_eq!(relay.lists(), [(nth(1), State::Delivered)]);
        assert_eq!(relay.gives(1, FAILED), [is(State::Failed)]);
        assert_eq!(relay.ended(), [Sign::Failed]);
        assert_eq!(relay.lists(), []);
    }
}

#[test]
fn a_receipt_is_good_before_the_acknowledgement_whose_number_is_waited_for_no_more() {
    let mut relay = Relay::giving(1..=3);
    assert_eq!(relay.gives(2, DONE), [is(State::Done)]);
    assert_eq!(relay.ended(), [Sign::Receipted]);
    // Over the next connection it does not come again.
    relay.close(NODE, Ending::Broken);
    let again = frames(relay.connect(nodes::NEXT, None));
    assert_eq!(
        again,
        [
            (nodes::NEXT, 1, super::again(&nth(1))),
            (nodes::NEXT, 3, super::again(&nth(3)))
        ]
    );
    assert_eq!(relay.acknowledge(nodes::NEXT, "dev-a", 3), noted());
}

#[test]
fn a_receipt_for_what_waits_takes_it_without_a_node() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    relay.post(A, 2, &nth(2));
    relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
    relay.events();
    assert_eq!(relay.lists(), [(nth(1), State::Queued), (nth(2), State::Queued)]);
    assert_eq!(relay.gives(2, DONE), [is(State::Done)]);
    assert_eq!(relay.ended(), [Sign::Receipted]);
    assert_eq!(relay.call(B, 3, read("dev-a")), [shown(3, [nth(1)])]);
}

#[test]
fn a_receipt_for_what_is_to_be_sent_again_takes_it_and_its_number() {
    let mut relay = Relay::giving(1..=2);
    relay.close(NODE, Ending::Broken);
    assert_eq!(relay.gives(1, DONE), [is(State::Done)]);
    let again = frames(relay.connect(nodes::NEXT, None));
    assert_eq!(again, [(nodes::NEXT, 2, super::again(&nth(2)))]);
}

#[test]
fn receipts_only_move_forward() {
    let mut relay = Relay::giving(1..=2);
    relay.gives(1, DONE);
    relay.gives(2, FAILED);
    relay.events();
    for receipt in [DONE, FAILED, until(LATER_MS)] {
        assert_eq!(relay.gives(1, receipt.clone()), [is(State::Done)]);
        assert_eq!(relay.gives(2, receipt), [is(State::Failed)]);
    }
    assert_eq!(relay.events(), []);
}

#[test]
fn a_later_receipt_goes_before_a_deferral() {
    let mut relay = Relay::giving(1..=2);
    for number in [1, 2] {
        let at = START.plus_millis(LATER_MS);
        assert_eq!(
            relay.gives(number, until(LATER_MS)),
            [is(State::Deferred { until: at })]
        );
    }
    let at = START.plus_millis(2 * LATER_MS);
    assert_eq!(
        relay.gives(1, until(2 * LATER_MS)),
        [is(State::Deferred { until: at })]
    );
    assert_eq!(relay.gives(2, DONE), [is(State::Done)]);
    assert_eq!(relay.ended(), [Sign::Receipted]);
    assert_eq!(relay.timeout_at(LATER_MS), NONE);
    let sent = frames(relay.timeout_at(2 * LATER_MS));
    assert_eq!(sent, [(NODE, 3, super::again(&nth(1)))]);
}

#[test]
fn what_is_deferred_lets_later_ones_pass_and_comes_at_its_time_with_a_new_number() {
    let mut relay = Relay::giving(1..=2);
    relay.lists();
    relay.gives(1, until(LATER_MS));
    assert_eq!(
        relay.engine.poll_timeout(),
        Some((START.plus_millis(LATER_MS), Reason::DeferralEnds))
    );
    assert_eq!(
        relay.lists(),
        [(nth(2), State::Queued)],
        "it is not shown before its time"
    );
    assert_eq!(relay.acknowledge(NODE, "dev-a", 2), noted());
    assert_eq!(relay.timeout_at(LATER_MS - 1), NONE);
    relay.ended();
    let sent = frames(relay.timeout_at(LATER_MS));
    assert_eq!(sent, [(NODE, 3, super::again(&nth(1)))]);
    assert_eq!(relay.ended(), [Sign::DeferralOver]);
    // It was listed, and so it is for a receipt.
    relay.acknowledge(NODE, "dev-a", 3);
    relay.timeout_at(NODE_GONE_MS);
    assert_eq!(relay.ended(), []);
    assert_eq!(relay.gives(1, DONE), [is(State::Done)]);
}

#[test]
fn what_is_deferred_until_now_comes_at_once() {
    let mut relay = Relay::giving(1..=1);
    relay.ended();
    let sent = frames(relay.gives(1, until(0)));
    assert_eq!(sent, [(NODE, 2, super::again(&nth(1)))]);
    assert_eq!(relay.ended(), [Sign::DeferralOver]);
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn a_deferral_waits_for_its_time_though_the_node_is_gone() {
    let mut relay = Relay::giving(1..=1);
    relay.gives(1, until(2 * NODE_GONE_MS));
    relay.said(NODE, relay::engine::nodes::Said::Leaves);
    assert_eq!(relay.call(B, 1, read("dev-a")), [nothing(1)]);
    relay.timeout_at(2 * NODE_GONE_MS);
    let again = super::again(&nth(1));
    assert_eq!(relay.call(B, 2, read("dev-a")), [shown(2, [again])]);
}

#[test]
fn what_no_receipt_was_given_for_is_read_with_tools_once_the_node_lets_go() {
    let mut relay = Relay::giving(1..=2);
    relay.acknowledge(NODE, "dev-a", 2);
    relay.lists();
    relay.gives(2, DONE);
    relay.close(NODE, Ending::Broken);
    assert_eq!(
        relay.call(B, 1, read("dev-a")),
        [nothing(1)],
        "its agent has it still"
    );
    relay.timeout_at(NODE_GONE_MS);
    let again = super::again(&nth(1));
    assert_eq!(relay.call(B, 2, read("dev-a")), [shown(2, [again])]);
}

#[test]
fn an_agent_that_is_bound_elsewhere_gives_no_receipt_for_what_it_was_shown_before() {
    let mut relay = Relay::giving(1..=1);
    relay.acknowledge(NODE, "dev-a", 1);
    relay.lists();
    relay.asked(
        PERSON,
        relay::engine::nodes::Command::Unbind {
            node: FIRST,
            agent: "dev-a".to_owned(),
        },
    );
    assert_eq!(relay.ended(), [Sign::Fenced]);
    // The next node's acknowledgement is enough again.
    let sent = frames(relay.bind(FIRST, "dev-a"));
    assert_eq!(sent, [(NODE, 2, super::again(&nth(1)))]);
    relay.acknowledge(NODE, "dev-a", 2);
    relay.settle();
    assert_eq!(relay.ended(), [Sign::Acknowledged]);
}

#[test]
fn no_more_frames_go_out_than_receipts_may_be_missing() {
    let bounds = Bounds {
        awaited_max: 2,
        ..ROOMY
    };
    let mut relay = Relay::with_node();
    relay.engine = {
        let mut other = Relay::told_within(bounds);
        other.open_for_person(PERSON);
        other.create("fleet", None);
        other.connect(NODE, None);
        other.bind(FIRST, "dev-a");
        other.engine
    };
    relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
    assert_eq!(relay.posts(1..=2).len(), 2);
    relay.lists();
    relay.acknowledge(NODE, "dev-a", 2);
    assert_eq!(relay.posts(3..=3), []);
    let effects = relay.gives(1, DONE);
    assert_eq!(frames(effects), [(NODE, 3, nth(3))]);
}

#[test]
fn as_many_acknowledgements_at_once_as_frames_may_be_on_their_way_are_listed_all() {
    let mut relay = Relay::giving(1..=1);
    let numbers = 2..=u8::try_from(FRAMES_MAX).expect("it is small");
    relay.posts(numbers);
    relay.acknowledge(NODE, "dev-a", FRAMES_MAX as u64);
    assert_eq!(relay.lists().len(), FRAMES_MAX);
}

#[test]
fn a_reply_with_others_is_judged_as_a_whole() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    relay.post(A, 2, &nth(2));
    relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
    relay.call(B, 3, read("dev-a"));
    relay.events();
    assert_eq!(relay.lists(), [], "a reply of a tool is on its way");
    assert_eq!(relay.gives(1, DONE), [is(State::Delivered)]);
    let in_reply = |number: u8| {
        let given = nth(number).message.id.to_string();
        refused_as(NoDelivery::InReply { given })
    };
    for receipt in [FAILED, until(LATER_MS), until(0)] {
        assert_eq!(relay.gives(1, receipt.clone()), in_reply(1));
        assert_eq!(relay.gives(2, receipt), in_reply(2));
    }
    assert_eq!(relay.events(), []);
    // Whatever becomes of the reply becomes of both.
    relay.close(B, Ending::Broken);
    let again = [1, 2].map(|number| (super::again(&nth(number)), State::Queued));
    assert_eq!(relay.lists(), again);
}

#[test]
fn the_oldest_are_listed_also_when_one_of_them_was_sent_again_behind_the_others() {
    let mut relay = Relay::giving(1..=3);
    relay.gives(1, until(LATER_MS));
    let sent = frames(relay.timeout_at(LATER_MS));
    let first = super::again(&nth(1));
    assert_eq!(sent, [(NODE, 4, first.clone())]);
    let shown = relay.call(AGENT, ANY, Asked::List { limit: 2 }.into());
    let rows = vec![(first, State::Queued), (nth(2), State::Queued)];
    assert_eq!(shown, [reply(ANY, Ok(Answer::Listed(rows).into()))]);
}

#[test]
fn what_is_deferred_is_not_shown_among_what_was_handed_over_before() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    relay.post(A, 2, &nth(2));
    relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
    relay.gives(1, until(LATER_MS));
    let read = |relay: &mut Relay| {
        let read = mail::Command::Read {
            agent: None,
            options: Some(Box::new(mail::ReadOptions {
                earlier: true,
                ..mail::ReadOptions::default()
            })),
            room: None,
            wait_ms: 0,
            second: mail::Second::Supersedes,
        };
        match &relay.call(AGENT, ANY, read.into())[..] {
            [
                Effect::Reply {
                    result:
                        Ok(Reply::Mail(mail::Reply::Messages {
                            earlier, deliveries, ..
                        })),
                    ..
                },
            ] => (earlier.clone(), deliveries.clone()),
            other => panic!("{other:?}"),
        }
    };
    let new = std::sync::Arc::new(vec![nth(2)]);
    assert_eq!(read(&mut relay), (Vec::new(), new));
    relay.timeout_at(LATER_MS);
    let (earlier, new) = read(&mut relay);
    assert_eq!(earlier, [nth(2)]);
    assert_eq!(*new, [super::again(&nth(1))]);
}

#[test]
fn what_an_agent_never_got_has_no_receipt() {
    let mut relay = Relay::giving(1..=1);
    relay.post(A, 2, &message(2, 0, "pm", "dev-b"));
    let unknown = |given: &str| {
        let given = given.to_owned();
        refused_as(NoDelivery::Unknown { given })
    };
    let other = id(2).to_string();
    for given in [other.as_str(), "no id", ""] {
        let message = given.to_owned();
        let give = Asked::Give {
            message,
            receipt: DONE,
            metadata: None,
        };
        assert_eq!(relay.call(AGENT, ANY, give.into()), unknown(given));
    }
}

#[test]
fn a_receipt_says_no_more_than_it_may() {
    let mut relay = Relay::giving(1..=1);
    let reason = |bytes: usize| Some("x".repeat(bytes).into_boxed_str());
    let long = NoDelivery::ReasonTooLong {
        bytes: REASON_BYTES_MAX + 1,
    };
    let failed = |bytes| Receipt::Failed {
        reason: reason(bytes),
        retryable: true,
    };
    assert_eq!(
        relay.gives(1, failed(REASON_BYTES_MAX + 1)),
        refused_as(long.clone())
    );
    let deferred = |bytes, ms| Receipt::Deferred {
        until: START.plus_millis(ms),
        reason: reason(bytes),
    };
    assert_eq!(
        relay.gives(1, deferred(REASON_BYTES_MAX + 1, 1)),
        refused_as(long)
    );
    let ms_max = DEFERRAL_MS_MAX;
    let too_long = NoDelivery::DeferredForTooLong { ms_max };
    assert_eq!(relay.gives(1, deferred(1, ms_max + 1)), refused_as(too_long));
    let until = START.plus_millis(ms_max);
    assert_eq!(
        relay.gives(1, deferred(1, ms_max)),
        [is(State::Deferred { until })]
    );
    assert_eq!(relay.gives(1, failed(REASON_BYTES_MAX)), [is(State::Failed)]);
}

#[test]
fn what_is_deferred_or_without_a_receipt_is_unread_when_the_relay_stops() {
    let mut relay = Relay::giving(1..=3);
    relay.lists();
    relay.acknowledge(NODE, "dev-a", 3);
    relay.gives(1, until(LATER_MS));
    relay.gives(2, DONE);
    relay.handle(Input::Stopping);
    assert_eq!(relay.pending(), [0, 2, 0]);
}

#[test]
fn what_is_accepted_does_not_come_again_and_its_agent_may_say_later_what_became_of_it() {
    use relay::engine::trace::Happened;
    const ACCEPTED: Receipt = Receipt::Accepted { retryable: true };
    let mut relay = Relay::giving(1..=3);
    relay.lists();
    relay.acknowledge(NODE, "dev-a", 3);
    for number in 1..=3 {
        assert_eq!(relay.gives(number, ACCEPTED), [is(State::Accepted)]);
    }
    assert_eq!(relay.ended(), [Sign::Receipted; 3]);
    assert_eq!(relay.lists(), []);
    relay.said(NODE, relay::engine::nodes::Said::Leaves);
    assert_eq!(relay.pending(), [0, 0, 0], "it is not back in the inbox");
    // Receipts only move forward.
    for (number, receipt, state) in [
        (1, until(LATER_MS), State::Accepted),
        (1, ACCEPTED, State::Accepted),
        (1, DONE, State::Done),
        (1, ACCEPTED, State::Done),
        (2, FAILED, State::Failed),
        (2, DONE, State::Failed),
    ] {
        assert_eq!(relay.gives(number, receipt.clone()), [is(state)], "{receipt:?}");
    }
    let mut receipts = |number| {
        let traced = tracing::traced(&mut relay, number).expect("it is traced");
        let receipts = traced.moments.into_iter().filter_map(|moment| {
            let Happened::Receipt(receipt, _) = moment.what else {
                return None;
            };
            Some(receipt)
        });
        receipts.collect::<Vec<_>>()
    };
    assert_eq!(receipts(1), [ACCEPTED, DONE]);
    assert_eq!(receipts(2), [ACCEPTED, FAILED]);
    assert_eq!(receipts(3), [ACCEPTED]);
}

#[test]
fn a_receipt_has_metadata_that_the_trace_shows() {
    use relay::engine::limits::RECEIPT_METADATA_BYTES_MAX;
    use relay::engine::trace::Happened;
    let mut relay = Relay::giving(1..=1);
    let long = "x".repeat(RECEIPT_METADATA_BYTES_MAX + 1);
    let bytes = long.len();
    assert_eq!(
        relay.gives_with(1, DONE, Some(&long)),
        refused_as(NoDelivery::MetadataTooLong { bytes })
    );
    let said = &long[1..];
    assert_eq!(relay.gives_with(1, DONE, Some(said)), [is(State::Done)]);
    let traced = tracing::traced(&mut relay, 1).expect("it is traced");
    let receipt = Happened::Receipt(DONE, Some(said.into()));
    assert!(traced.moments.iter().any(|moment| moment.what == receipt));
}

#[test]
fn the_trace_tells_of_receipts() {
    let mut relay = Relay::giving(1..=2);
    relay.lists();
    relay.acknowledge(NODE, "dev-a", 2);
    let reason = Some("busy".into());
    let until = START.plus_millis(LATER_MS);
    let deferral = Receipt::Deferred { until, reason };
    relay.gives(1, deferral.clone());
    relay.timeout_at(LATER_MS);
    let failure = Receipt::Failed {
        reason: Some("broke".into()),
        retryable: true,
    };
    relay.gives(1, failure.clone());
    relay.gives(2, DONE);
    use relay::engine::trace::Happened;
    let told = |relay: &mut Relay, number| {
        let traced = tracing::traced(relay, number).expect("it is traced");
        let moments = traced.moments.into_iter().map(|moment| moment.what);
        let late = moments.skip_while(|what| !matches!(what, Happened::Awaited));
        late.collect::<Vec<_>>()
    };
    let by = Sign::DeferralOver;
    let first = told(&mut relay, 1);
    assert_eq!(
        first[..3],
        [
            Happened::Awaited,
            Happened::Receipt(deferral, None),
            Happened::Undone { by }
        ]
    );
    assert_eq!(first.last(), Some(&Happened::Receipt(failure, None)));
    let by = Sign::Receipted;
    assert_eq!(
        told(&mut relay, 2),
        [
            Happened::Awaited,
            Happened::Receipt(DONE, None),
            Happened::Delivered { by }
        ]
    );
}

#[test]
fn what_is_deferred_comes_back_after_as_long_as_it_was_to_by_a_clock_that_is_ahead() {
    const AHEAD_MS: i64 = 3_600_000;
    let mut relay = Relay::giving(1..=1);
    relay.handle(Input::WallClock { ahead_ms: AHEAD_MS });
    let at = START.plus_millis(AHEAD_MS + LATER_MS);
    assert_eq!(
        relay.gives(1, until(AHEAD_MS + LATER_MS)),
        [is(State::Deferred { until: at })]
    );
    assert_eq!(relay.timeout_at(LATER_MS - 1), NONE);
    let sent = frames(relay.timeout_at(LATER_MS));
    assert_eq!(sent, [(NODE, 2, super::again(&nth(1)))]);
}
