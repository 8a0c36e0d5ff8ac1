//! How messages are brought: what is held until somebody asks for it, and what expires.

use relay::engine::handling::{Handling, Mode, Priority};
use relay::engine::limits::{NODE_GONE_MS, TRANSIENT_MS};
use relay::engine::receipts::{Command as Asked, Receipt, Reply as Answer, State};
use relay::engine::trace::Happened;
use relay::engine::watches::Watched;

use super::nodes::{ANY, NEXT, NODE, frames};
use super::*;

/// The session of the agent that gives receipts.
const AGENT: SessionId = SessionId(8);

pub const HELD: Handling = Handling {
    mode: Some(Mode::Manual),
    priority: Priority::Normal,
    deadline: None,
};

/// It expires so many milliseconds after the start.
pub fn until(ms: i64) -> Handling {
    Handling {
        deadline: Some(START.plus_millis(ms)),
        ..Handling::default()
    }
}

impl Relay {
    /// A relay in which `dev-a` is bound to a node and gives receipts.
    fn of_node() -> Self {
        let mut relay = Self::with_node();
        relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
        relay.events();
        relay
    }

    /// Posts to `dev-a`, and returns what goes to its node, by the number of the message and that of the frame.
    pub fn sends(&mut self, handling: Handling) -> Vec<(u64, u64)> {
        numbers(self.tries(handling))
    }

    fn tries(&mut self, handling: Handling) -> Vec<Effect> {
        self.keyed(handling, None)
    }

    fn keyed(&mut self, handling: Handling, key: Option<&str>) -> Vec<Effect> {
        self.posts_to("dev-a", handling, key)
    }

    fn sends_to(&mut self, agent: &str, handling: Handling) -> Vec<Effect> {
        self.posts_to(agent, handling, None)
    }

    fn posts_to(&mut self, agent: &str, handling: Handling, key: Option<&str>) -> Vec<Effect> {
        let options = mail::PostOptions {
            handling,
            idempotency_key: key.map(str::to_owned),
            ..mail::PostOptions::default()
        };
        let post = mail::Command::Post {
            from: Some("pm".to_owned()),
            to: agent.to_owned(),
            kind: Kind::Free,
            body: "hi".to_owned(),
            options: Some(Box::new(options)),
        };
        self.call(B, ANY, post.into())
    }

    /// The places of what `dev-a` reads with a tool.
    fn reads(&mut self) -> Vec<u64> {
        let effects = self.call(AGENT, ANY, read("dev-a"));
        let [
            Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        deliveries.iter().map(|delivery| delivery.seq.0).collect()
    }

    fn flushes(&mut self) -> (usize, Vec<(u64, u64)>) {
        let effects = self.call(AGENT, ANY, Asked::Flush { agent: None }.into());
        let Answer::Flushed(flushed) = answer(&effects) else {
            panic!("{effects:?}")
        };
        (*flushed, numbers(effects))
    }

    /// The places of what is listed for `dev-a`.
    fn listed(&mut self) -> Vec<u64> {
        let effects = self.call(AGENT, ANY, Asked::List { limit: 100 }.into());
        let Answer::Listed(all) = answer(&effects) else {
            panic!("{effects:?}")
        };
        all.iter().map(|(delivery, _)| delivery.seq.0).collect()
    }

    fn says(&mut self, message: u8, receipt: Receipt) -> State {
        let message = id(message).to_string();
        let give = Asked::Give {
            message,
            receipt,
            metadata: None,
        };
        let effects = self.call(AGENT, ANY, give.into());
        let Answer::Is(state) = answer(&effects) else {
            panic!("{effects:?}")
        };
        *state
    }

    /// The places of what has expired since the last time.
    fn expired(&mut self) -> Vec<u64> {
        let events = self.events().into_iter();
        let expired = events.filter_map(|event| {
            let Event::Expired { agent, delivery } = event else {
                return None;
            };
            assert_eq!(agent.as_str(), "dev-a");
            Some(delivery.seq.0)
        });
        expired.collect()
    }

    fn unread(&self) -> usize {
        let view = self.engine.overview();
        let inbox = view.inboxes.iter().find(|inbox| inbox.agent.as_str() == "dev-a");
        let inbox = inbox.expect("it has one");
        inbox.unread
    }
}

/// What is answered about deliveries and receipts, whatever else comes of it.
fn answer(effects: &[Effect]) -> &Answer {
    let answer = effects.iter().find_map(|effect| {
        let Effect::Reply {
            result: Ok(Reply::Receipts(answer)),
            ..
        } = effect
        else {
            return None;
        };
        Some(answer)
    });
    answer.expect("it is answered")
}

fn numbers(effects: Vec<Effect>) -> Vec<(u64, u64)> {
    let all = frames(effects).into_iter();
    all.map(|(_, number, delivery)| (delivery.seq.0, number))
        .collect()
}

#[test]
fn what_is_held_stays_in_the_inbox_until_it_is_flushed_and_what_comes_behind_it_passes() {
    let mut relay = Relay::of_node();
    assert_eq!(relay.sends(HELD), []);
    assert_eq!(relay.sends(Handling::default()), [(1, 1)]);
    assert_eq!(relay.sends(HELD), []);
    assert_eq!(relay.listed(), [1], "what is held is listed for nobody");
    assert_eq!(relay.flushes(), (2, vec![(0, 2), (2, 3)]));
    assert_eq!(relay.listed(), [0, 1, 2]);
    assert_eq!(relay.flushes(), (0, vec![]));
    assert_eq!(relay.sends(HELD), [], "what comes later is held again");
    assert_eq!(relay.flushes(), (1, vec![(3, 4)]));
}

#[test]
fn what_is_held_is_read_with_a_tool_though_a_node_has_the_agent() {
    let mut relay = Relay::of_node();
    relay.sends(Handling::default());
    relay.sends(HELD);
    assert_eq!(relay.reads(), [1]);
    assert_eq!(relay.reads(), [] as [u64; 0]);
}

#[test]
fn who_waits_is_woken_by_what_is_held() {
    let mut relay = Relay::of_node();
    let parked = relay.call(AGENT, 1, Command::Mail(mail::Command::read_all(None, WAIT_MS)));
    assert_eq!(parked, []);
    assert_eq!(relay.sends(Handling::default()), [(0, 1)]);
    let woken = relay.tries(HELD);
    let is_woken = |effect: &Effect| matches!(effect, Effect::Reply { call: CallId(1), .. });
    assert!(woken.iter().any(is_woken), "{woken:?}");
}

#[test]
fn an_agent_without_a_node_reads_what_is_held_as_all_else() {
    let mut relay = Relay::told();
    relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
    relay.sends(HELD);
    relay.sends(Handling::default());
    assert_eq!(relay.reads(), [0, 1]);
}

#[test]
fn a_receipt_is_given_for_what_is_held() {
    let mut relay = Relay::of_node();
    relay.sends(HELD);
    assert_eq!(relay.says(1, Receipt::Done), State::Done);
    assert_eq!(relay.flushes(), (0, vec![]));
}

#[test]
fn what_nobody_was_handed_expires_at_its_deadline_and_is_read_by_nobody() {
    let mut relay = Relay::told();
    relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
    relay.sends(until(1_000));
    relay.sends(Handling::default());
    assert_eq!(
        relay.engine.poll_timeout(),
        Some((START.plus_millis(1_000), Reason::DeadlinePasses))
    );
    assert_eq!(relay.listed(), [0, 1]);
    relay.timeout_at(999);
    assert_eq!(relay.expired(), [] as [u64; 0]);
    assert_eq!(relay.unread(), 2);
    relay.timeout_at(1_000);
    assert_eq!(relay.expired(), [0]);
    assert_eq!(relay.unread(), 1);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.reads(), [1]);
    assert_eq!(
        relay.says(1, Receipt::Done),
        State::Expired,
        "a receipt comes too late"
    );
}

#[test]
fn what_many_were_sent_expires_in_each_inbox() {
    let mut relay = Relay::told();
    relay.sends_to("*", until(1_000));
    assert_eq!(relay.pending(), [0, 1, 1]);
    relay.events();
    relay.timeout_at(1_000);
    let events = relay.events().into_iter();
    let expired = events.filter_map(|event| {
        let Event::Expired { agent, .. } = event else {
            return None;
        };
        Some(agent)
    });
    assert_eq!(expired.collect::<Vec<_>>(), [name("dev-a"), name("dev-b")]);
    assert_eq!(relay.pending(), [0, 0, 0]);
}

#[test]
fn what_has_expired_is_not_shown_among_what_was_handed_over_before() {
    let mut relay = Relay::told();
    relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
    relay.sends(until(1_000));
    relay.timeout_at(1_000);
    let asked = mail::Command::Read {
        agent: None,
        options: Some(Box::new(mail::ReadOptions {
            earlier: true,
            ..mail::ReadOptions::default()
        })),
        room: None,
        wait_ms: 0,
        second: mail::Second::Supersedes,
    };
    let shown = relay.call(AGENT, ANY, asked.into());
    let [
        Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Messages { earlier, .. })),
            ..
        },
    ] = &shown[..]
    else {
        panic!("{shown:?}")
    };
    assert_eq!(earlier[..], []);
}

#[test]
fn a_read_that_comes_before_the_timer_does_not_get_it_either() {
    let mut relay = Relay::told();
    relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
    relay.sends(until(1_000));
    relay.now = START.plus_millis(1_000);
    assert_eq!(relay.reads(), [] as [u64; 0]);
    assert_eq!(relay.expired(), [0]);
}

#[test]
fn what_is_on_its_way_or_has_arrived_does_not_expire() {
    let mut relay = Relay::of_node();
    assert_eq!(relay.sends(until(1_000)), [(0, 1)]);
    assert_eq!(relay.engine.poll_timeout(), None);
    relay.timeout_at(2_000);
    relay.acknowledge(NODE, "dev-a", 1);
    relay.settle();
    assert_eq!(relay.expired(), [] as [u64; 0]);
}

#[test]
fn a_node_that_comes_back_gets_the_number_that_it_waits_for_after_the_deadline_too() {
    let mut relay = Relay::of_node();
    relay.sends(until(1_000));
    relay.close(NODE, Ending::Broken);
    relay.timeout_at(2_000);
    let again = relay.connect(NEXT, None);
    assert_eq!(numbers(again), [(0, 1)]);
    assert_eq!(relay.expired(), [] as [u64; 0]);
}

#[test]
fn what_comes_back_after_its_deadline_expires_at_once() {
    let mut relay = Relay::of_node();
    relay.sends(until(1_000));
    relay.close(NODE, Ending::Broken);
    relay.timeout_at(NODE_GONE_MS);
    assert_eq!(relay.expired(), [0]);
    assert_eq!(relay.reads(), [] as [u64; 0]);
    assert_eq!(relay.unread(), 0);
}

#[test]
fn what_comes_back_before_its_deadline_expires_then() {
    let mut relay = Relay::of_node();
    relay.sends(until(NODE_GONE_MS + 1));
    relay.close(NODE, Ending::Broken);
    relay.timeout_at(NODE_GONE_MS);
    assert_eq!(relay.expired(), [] as [u64; 0]);
    assert_eq!(relay.unread(), 1);
    relay.timeout_at(NODE_GONE_MS + 1);
    assert_eq!(relay.expired(), [0]);
}

#[test]
fn a_reply_that_is_lost_brings_nothing_back_after_the_deadline() {
    let mut relay = Relay::told();
    relay.open(AGENT, Carrier::Exchange, Some("dev-a"));
    relay.sends(until(1_000));
    relay.call(AGENT, 7, read("dev-a"));
    relay.now = START.plus_millis(1_000);
    relay.sign(7, Sign::Lost);
    assert_eq!(relay.expired(), [0]);
    assert_eq!(relay.reads(), [] as [u64; 0]);
}

#[test]
fn what_is_deferred_beyond_its_deadline_expires_when_it_comes_back() {
    let mut relay = Relay::of_node();
    relay.sends(until(1_000));
    let deferred = Receipt::Deferred {
        until: START.plus_millis(5_000),
        reason: None,
    };
    relay.says(1, deferred);
    relay.timeout_at(4_999);
    assert_eq!(relay.expired(), [] as [u64; 0]);
    assert_eq!(frames(relay.timeout_at(5_000)), []);
    assert_eq!(relay.expired(), [0]);
}

#[test]
fn what_is_held_expires_as_well() {
    let mut relay = Relay::of_node();
    relay.sends(Handling {
        mode: Some(Mode::Manual),
        ..until(1_000)
    });
    relay.timeout_at(1_000);
    assert_eq!(relay.expired(), [0]);
    assert_eq!(relay.flushes(), (0, vec![]));
}

#[test]
fn an_agent_goes_at_the_moment_at_which_its_last_message_comes_back_too_late() {
    let mut relay = Relay::told();
    let temp = agents::Registration {
        transient: true,
        ..registration("temp", None)
    };
    relay.register(AGENT, temp);
    relay.sends_to("temp", until(1_000));
    let deferred = Receipt::Deferred {
        until: START.plus_millis(TRANSIENT_MS),
        reason: None,
    };
    relay.says(1, deferred);
    relay.close(AGENT, Ending::Orderly);
    relay.events();
    relay.timeout_at(TRANSIENT_MS);
    let events = relay.events();
    let [Event::Undone { .. }, Event::Expired { .. }, Event::Gone { agent }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(agent.as_str(), "temp");
}

#[test]
fn whoever_watches_an_inbox_is_told_that_something_in_it_has_expired() {
    let mut relay = Relay::told();
    relay.open(AGENT, Carrier::Stream, Some("dev-a"));
    relay.sends(until(1_000));
    relay.call(AGENT, ANY, watches::Command::Watch(Watched::Inbox).into());
    let told = Effect::Changed {
        session: AGENT,
        what: Watched::Inbox,
    };
    assert_eq!(relay.timeout_at(1_000), [told]);
}

#[test]
fn a_deadline_that_is_over_is_refused_and_named() {
    for ms in [0, -1] {
        let mut relay = Relay::told();
        let refusal = mail::Refusal::DeadlineOver {
            deadline: START.plus_millis(ms),
            now: START,
        };
        assert_eq!(relay.tries(until(ms)), [refused(ANY, refusal.into())]);
    }
}

#[test]
fn a_post_that_is_sent_again_with_another_mode_priority_or_deadline_is_another() {
    let urgent = Handling {
        priority: Priority::Urgent,
        ..Handling::default()
    };
    for other in [HELD, urgent, until(1_000)] {
        let mut relay = Relay::told();
        relay.keyed(Handling::default(), Some("key"));
        let key = "key".to_owned();
        let refusal = mail::Refusal::OtherContent { key };
        assert_eq!(relay.keyed(other, Some("key")), [refused(ANY, refusal.into())]);
    }
}

#[test]
fn the_first_answer_to_a_post_is_given_again_after_its_deadline() {
    let mut relay = Relay::told();
    relay.keyed(until(1_000), Some("key"));
    relay.now = START.plus_millis(2_000);
    let again = relay.keyed(until(1_000), Some("key"));
    assert!(
        matches!(again[..], [Effect::Reply { result: Ok(_), .. }]),
        "{again:?}"
    );
}

#[test]
fn the_trace_tells_how_it_was_to_be_brought_and_that_it_has_expired() {
    let mut relay = Relay::told();
    relay.open_for_person(AGENT);
    let urgent = Handling {
        mode: Some(Mode::OnIdle),
        priority: Priority::Urgent,
        ..until(1_000)
    };
    relay.sends(urgent);
    relay.timeout_at(1_000);
    let ask = trace::Command::Trace {
        message: id(1).to_string(),
        shown_to: trace::ShownTo::Person,
    };
    let effects = relay.call(AGENT, ANY, ask.into());
    let [
        Effect::Reply {
            result: Ok(Reply::Trace(trace::Reply::Traced(traced))),
            ..
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!(traced.handling, urgent);
    let happened: Vec<_> = traced.moments.iter().map(|moment| moment.what.clone()).collect();
    assert_eq!(happened, [Happened::Queued, Happened::Expired]);
}

#[test]
fn a_mode_and_a_priority_are_known_by_their_words() {
    let modes = [
        ("immediate", Mode::Immediate),
        ("next-message", Mode::NextMessage),
        ("next-tool-call", Mode::NextToolCall),
        ("on-idle", Mode::OnIdle),
        ("manual", Mode::Manual),
    ];
    for (word, mode) in modes {
        assert_eq!(Mode::named(word), Ok(mode));
        assert_eq!(mode.to_string(), word);
    }
    let unknown =
        "unknown mode \"later\"; known modes: immediate, next-message, next-tool-call, on-idle, manual";
    assert_eq!(Mode::named("later"), Err(unknown.to_owned()));
    for (word, priority) in [("normal", Priority::Normal), ("urgent", Priority::Urgent)] {
        assert_eq!(Priority::parse(word), Some(priority));
        assert_eq!(priority.as_str(), word);
    }
    assert_eq!(Priority::parse("high"), None);
}
