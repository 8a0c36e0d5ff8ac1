//! The rules of the engine, one small test each: whole effects compared, named by the fact that they show.

use std::collections::VecDeque;
use std::sync::Arc;

use relay::engine::limits::{Bounds, DOUBT_MS};
use relay::engine::{
    AgentName, Boot, CallId, Carrier, Command, Delivery, Effect, Ending, Engine, Input, InvalidRoster, Kind,
    Message, MessageId, Reason, Refusal, Reply, Roster, Seq, SessionId, Status, Timestamp,
};

/// 2026-05-02T14:30:00Z, when every relay here starts.
const START: Timestamp = Timestamp::from_millis(1_777_732_200_000);

/// Three sessions that [`Relay::told`] has open: unbound, each on a stream.
const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const C: SessionId = SessionId(3);

const WAIT_MS: u32 = 5_000;

const ROOMY: Bounds = Bounds {
    body_bytes_max: 100,
    inbox_messages_max: 100,
    inbox_bytes_max: 1_000,
    sessions_max: 10,
    waits_max: 10,
};

/// An engine, and the time that its next input comes at.
struct Relay {
    engine: Engine,
    now: Timestamp,
}

impl Relay {
    /// A relay that has just started.
    fn fresh(bounds: Bounds) -> Self {
        let mut drawn = 0_u8;
        let random = move || {
            drawn += 1;
            [drawn - 1; 16]
        };
        Self {
            engine: Engine::new(START, Roster::default(), bounds, Box::new(random)),
            now: START,
        }
    }

    /// A relay whose agents know that it started, with the sessions `A`, `B` and `C`.
    fn told_within(bounds: Bounds) -> Self {
        let mut relay = Self::fresh(bounds);
        let first = SessionId(0);
        relay.open(first, Carrier::Exchange, None);
        for (call, agent) in (1_000..).zip(["pm", "dev-a", "dev-b"]) {
            relay.call(first, call, read(agent));
            relay.flushed(call);
        }
        relay.close(first, Ending::Orderly);
        for session in [A, B, C] {
            relay.open(session, Carrier::Stream, None);
        }
        relay
    }

    fn told() -> Self {
        Self::told_within(ROOMY)
    }

    fn handle(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.engine.handle(self.now, input, &mut effects);
        effects
    }

    fn open(&mut self, session: SessionId, carrier: Carrier, agent: Option<&str>) -> Vec<Effect> {
        let agent = agent.map(str::to_owned);
        self.handle(Input::Opened {
            session,
            carrier,
            agent,
        })
    }

    fn close(&mut self, session: SessionId, ending: Ending) -> Vec<Effect> {
        self.handle(Input::Closed { session, ending })
    }

    fn call(&mut self, session: SessionId, call: u64, command: Command) -> Vec<Effect> {
        self.handle(Input::Call {
            session,
            call: CallId(call),
            command,
        })
    }

    fn post(&mut self, session: SessionId, call: u64, delivery: &Delivery) -> Vec<Effect> {
        let message = &delivery.message;
        let command = Command::Post {
            from: Some(message.from.to_string()),
            to: message.to.to_string(),
            kind: message.kind,
            body: message.body.clone(),
        };
        self.call(session, call, command)
    }

    fn flushed(&mut self, call: u64) -> Vec<Effect> {
        self.handle(Input::Flushed { call: CallId(call) })
    }

    fn cancelled(&mut self, call: u64) -> Vec<Effect> {
        self.handle(Input::Cancelled { call: CallId(call) })
    }

    fn lost(&mut self, call: u64) -> Vec<Effect> {
        self.handle(Input::Lost { call: CallId(call) })
    }

    /// Lets the time come that is that many milliseconds after the start, and says so.
    fn timeout_at(&mut self, ms: i64) -> Vec<Effect> {
        self.now = START.plus_millis(ms);
        let mut effects = Vec::new();
        self.engine.handle_timeout(self.now, &mut effects);
        effects
    }

    fn pending(&self) -> Vec<usize> {
        let pending = self.engine.status().pending;
        pending.into_iter().map(|(_, count)| count).collect()
    }
}

fn name(agent: &str) -> AgentName {
    AgentName::new(agent).expect("a good name")
}

/// What the n-th draw of random bytes makes, the one for the boot being the 0-th.
fn id(n: u8) -> uuid::Uuid {
    uuid::Builder::from_random_bytes([n; 16]).into_uuid()
}

/// The n-th message that a relay accepts, at its place in its inbox; posted at the start.
fn message(n: u8, seq: u64, from: &str, to: &str) -> Delivery {
    Delivery {
        seq: Seq(seq),
        message: Arc::new(Message {
            id: MessageId(id(n)),
            from: name(from),
            to: name(to),
            kind: Kind::Status,
            body: format!("body {n}"),
            ts: START,
        }),
        redelivered: false,
    }
}

/// The n-th message of a relay whose messages all go from `pm` to `dev-a`.
fn nth(n: u8) -> Delivery {
    message(n, u64::from(n) - 1, "pm", "dev-a")
}

/// The same message, posted that many milliseconds after the start.
fn posted_at(ms: i64, delivery: &Delivery) -> Delivery {
    let message = Message {
        ts: START.plus_millis(ms),
        ..(*delivery.message).clone()
    };
    Delivery {
        message: Arc::new(message),
        ..delivery.clone()
    }
}

fn again(delivery: &Delivery) -> Delivery {
    Delivery {
        redelivered: true,
        ..delivery.clone()
    }
}

fn read(agent: &str) -> Command {
    wait(agent, 0)
}

fn wait(agent: &str, wait_ms: u32) -> Command {
    Command::Read {
        agent: Some(agent.to_owned()),
        wait_ms,
    }
}

fn look(agent: &str) -> Command {
    Command::Pending {
        agent: Some(agent.to_owned()),
    }
}

fn post(from: Option<&str>, to: &str, body: &str) -> Command {
    Command::Post {
        from: from.map(str::to_owned),
        to: to.to_owned(),
        kind: Kind::Free,
        body: body.to_owned(),
    }
}

fn reply(call: u64, result: Result<Reply, Refusal>) -> Effect {
    Effect::Reply {
        call: CallId(call),
        result,
    }
}

fn refused(call: u64, refusal: Refusal) -> Effect {
    reply(call, Err(refusal))
}

/// The two effects of an accepted post.
fn accepted(call: u64, delivery: &Delivery) -> [Effect; 2] {
    let message = Arc::clone(&delivery.message);
    let id = message.id;
    [reply(call, Ok(Reply::Posted { id })), Effect::Log { message }]
}

fn shown(call: u64, deliveries: impl IntoIterator<Item = Delivery>) -> Effect {
    let deliveries: VecDeque<Delivery> = deliveries.into_iter().collect();
    reply(
        call,
        Ok(Reply::Messages {
            deliveries: Arc::new(deliveries),
            restarted: None,
        }),
    )
}

fn nothing(call: u64) -> Effect {
    shown(call, [])
}

/// A reply that tells of the start, too.
fn told(call: u64, deliveries: impl IntoIterator<Item = Delivery>) -> Effect {
    let deliveries: VecDeque<Delivery> = deliveries.into_iter().collect();
    reply(
        call,
        Ok(Reply::Messages {
            deliveries: Arc::new(deliveries),
            restarted: Some(START),
        }),
    )
}

fn kinds(call: u64, kinds: impl IntoIterator<Item = Kind>) -> Effect {
    let kinds = kinds.into_iter().collect();
    reply(call, Ok(Reply::Pending { kinds }))
}

const NONE: [Effect; 0] = [];

mod posting_and_reading {
    use super::*;

    #[test]
    fn a_post_is_answered_with_an_id_and_logged() {
        let mut relay = Relay::told();
        relay.now = START.plus_millis(1_234);
        let message = Message {
            id: MessageId(id(1)),
            from: name("pm"),
            to: name("dev-b"),
            kind: Kind::Question,
            body: "caf\u{e9}?\n".to_owned(),
            ts: START.plus_millis(1_234),
        };
        let command = Command::Post {
            from: Some("pm".to_owned()),
            to: "dev-b".to_owned(),
            kind: Kind::Question,
            body: "caf\u{e9}?\n".to_owned(),
        };
        let posted = Reply::Posted { id: MessageId(id(1)) };
        assert_eq!(
            relay.call(A, 1, command),
            [
                reply(1, Ok(posted)),
                Effect::Log {
                    message: Arc::new(message)
                }
            ]
        );
        assert_eq!(relay.pending(), [0, 0, 1]);
    }

    #[test]
    fn an_id_is_a_random_uuid() {
        assert_eq!(id(0x11).to_string(), "11111111-1111-4111-9111-111111111111");
        let mut relay = Relay::told();
        assert_eq!(relay.engine.status().boot.id, id(0));
        assert_eq!(relay.post(A, 1, &nth(1)), accepted(1, &nth(1)));
    }

    #[test]
    fn an_inbox_is_first_in_first_out_across_all_senders() {
        let mut relay = Relay::told();
        let sent = [
            message(1, 0, "dev-a", "pm"),
            message(2, 1, "dev-b", "pm"),
            message(3, 2, "dev-a", "pm"),
            message(4, 3, "pm", "pm"),
        ];
        for (call, (session, delivery)) in (1..).zip([B, C, B, A].into_iter().zip(&sent)) {
            relay.post(session, call, delivery);
        }
        assert_eq!(relay.call(A, 9, read("pm")), [shown(9, sent)]);
    }

    #[test]
    fn each_agent_has_its_own_inbox_and_its_own_places() {
        let mut relay = Relay::told();
        let to_a = message(1, 0, "pm", "dev-a");
        let to_b = message(2, 0, "pm", "dev-b");
        relay.post(A, 1, &to_a);
        relay.post(A, 2, &to_b);
        assert_eq!(relay.call(B, 3, read("pm")), [nothing(3)]);
        assert_eq!(relay.call(B, 4, read("dev-b")), [shown(4, [to_b])]);
        assert_eq!(relay.call(B, 5, read("dev-a")), [shown(5, [to_a])]);
    }

    #[test]
    fn a_message_that_was_handed_over_is_seen_by_no_other_read() {
        let mut relay = Relay::told();
        relay.post(A, 1, &nth(1));
        assert_eq!(relay.call(B, 2, read("dev-a")), [shown(2, [nth(1)])]);
        assert_eq!(relay.call(C, 3, read("dev-a")), [nothing(3)]);
        assert_eq!(relay.call(B, 4, read("dev-a")), [nothing(4)]);
        relay.post(A, 5, &nth(2));
        assert_eq!(relay.call(C, 6, read("dev-a")), [shown(6, [nth(2)])]);
    }

    #[test]
    fn a_look_lists_the_kinds_in_order_and_takes_nothing() {
        let mut relay = Relay::told();
        let sent = [Kind::Question, Kind::Free, Kind::Question, Kind::Directive];
        for (call, kind) in (1..).zip(sent) {
            let command = Command::Post {
                from: Some("pm".to_owned()),
                to: "dev-a".to_owned(),
                kind,
                body: String::new(),
            };
            relay.call(A, call, command);
        }
        assert_eq!(relay.call(B, 11, look("dev-a")), [kinds(11, sent)]);
        assert_eq!(relay.call(B, 12, look("dev-a")), [kinds(12, sent)]);
        assert_eq!(relay.call(B, 13, look("pm")), [kinds(13, [])]);
        assert_eq!(relay.pending(), [0, 4, 0]);
    }

    #[test]
    fn what_was_handed_over_is_not_pending_until_it_is_undone() {
        let mut relay = Relay::told();
        relay.post(A, 1, &nth(1));
        relay.call(B, 2, read("dev-a"));
        assert_eq!(relay.call(C, 3, look("dev-a")), [kinds(3, [])]);
        assert_eq!(relay.pending(), [0, 0, 0]);
        relay.lost(2);
        assert_eq!(relay.call(C, 4, look("dev-a")), [kinds(4, [Kind::Status])]);
        assert_eq!(relay.pending(), [0, 1, 0]);
    }

    #[test]
    fn the_status_counts_sessions_and_what_waits_in_the_roster_s_order() {
        let mut relay = Relay::told();
        relay.post(A, 1, &message(1, 0, "pm", "dev-b"));
        relay.post(A, 2, &message(2, 1, "pm", "dev-b"));
        relay.post(A, 3, &message(3, 0, "dev-a", "pm"));
        relay.close(C, Ending::Orderly);
        let status = Status {
            boot: Boot {
                id: id(0),
                started_at: START,
            },
            sessions: 2,
            pending: vec![(name("pm"), 1), (name("dev-a"), 0), (name("dev-b"), 2)],
        };
        assert_eq!(relay.engine.status(), status);
    }

    #[test]
    fn there_is_an_inbox_for_each_agent_of_the_roster_and_no_other() {
        let roster = Roster::new(["qa", "dev-a"]).unwrap();
        let engine = Engine::new(START, roster.clone(), ROOMY, Box::new(|| [0; 16]));
        assert_eq!(engine.roster(), &roster);
        let mut relay = Relay { engine, now: START };
        relay.open(A, Carrier::Stream, None);
        let to_qa = message(0, 0, "dev-a", "qa");
        assert_eq!(relay.post(A, 1, &to_qa), accepted(1, &to_qa));
        assert_eq!(relay.pending(), [1, 0]);
        let unknown = Refusal::UnknownAgent {
            name: "pm".to_owned(),
            known: roster,
        };
        assert_eq!(relay.call(A, 2, read("pm")), [refused(2, unknown)]);
    }
}

mod the_start {
    use super::*;

    #[test]
    fn each_agent_is_told_of_the_start_in_its_first_reply_and_only_then() {
        let mut relay = Relay::fresh(ROOMY);
        relay.open(A, Carrier::Stream, None);
        relay.post(A, 1, &message(1, 0, "pm", "pm"));
        let first = told(2, [message(1, 0, "pm", "pm")]);
        assert_eq!(relay.call(A, 2, read("pm")), [first]);
        assert_eq!(relay.call(A, 3, read("pm")), [nothing(3)]);
        assert_eq!(relay.call(A, 4, read("dev-a")), [told(4, [])]);
        assert_eq!(relay.call(A, 5, read("dev-a")), [nothing(5)]);
    }

    #[test]
    fn a_look_does_not_tell_of_the_start() {
        let mut relay = Relay::fresh(ROOMY);
        relay.open(A, Carrier::Stream, None);
        assert_eq!(relay.call(A, 1, look("pm")), [kinds(1, [])]);
        assert_eq!(relay.call(A, 2, read("pm")), [told(2, [])]);
    }

    #[test]
    fn the_start_is_told_again_when_the_reply_was_lost() {
        let mut relay = Relay::fresh(ROOMY);
        relay.open(A, Carrier::Stream, None);
        assert_eq!(relay.call(A, 1, read("pm")), [told(1, [])]);
        assert_eq!(relay.lost(1), NONE);
        assert_eq!(relay.call(A, 2, read("pm")), [told(2, [])]);
        relay.close(A, Ending::Broken);
        relay.open(B, Carrier::Stream, None);
        assert_eq!(relay.call(B, 3, read("pm")), [told(3, [])]);
        relay.flushed(3);
        assert_eq!(relay.call(B, 4, read("pm")), [nothing(4)]);
        relay.close(B, Ending::Broken);
        relay.open(C, Carrier::Stream, None);
        assert_eq!(relay.call(C, 5, read("pm")), [nothing(5)]);
    }

    #[test]
    fn a_lost_reply_without_the_news_does_not_bring_it_back() {
        let mut relay = Relay::told();
        relay.post(A, 1, &nth(1));
        relay.call(B, 2, read("dev-a"));
        relay.lost(2);
        assert_eq!(relay.call(B, 3, read("dev-a")), [shown(3, [again(&nth(1))])]);
    }

    #[test]
    fn a_parked_read_tells_of_the_start_when_it_is_answered() {
        let mut relay = Relay::fresh(ROOMY);
        relay.open(A, Carrier::Stream, None);
        assert_eq!(relay.call(A, 1, wait("dev-a", WAIT_MS)), NONE);
        let [posted, log] = accepted(2, &nth(1));
        assert_eq!(relay.post(A, 2, &nth(1)), [posted, log, told(1, [nth(1)])]);
        assert_eq!(relay.call(A, 3, wait("pm", WAIT_MS)), NONE);
        assert_eq!(relay.timeout_at(i64::from(WAIT_MS)), [told(3, [])]);
    }

    #[test]
    fn news_of_the_start_alone_wakes_nobody() {
        let mut relay = Relay::fresh(ROOMY);
        relay.open(A, Carrier::Stream, None);
        relay.open(B, Carrier::Stream, None);
        relay.call(A, 1, read("pm"));
        relay.call(B, 2, wait("pm", WAIT_MS));
        assert_eq!(relay.lost(1), NONE);
        assert_eq!(relay.timeout_at(i64::from(WAIT_MS)), [told(2, [])]);
    }
}

mod waiting {
    use super::*;

    #[test]
    fn a_wait_is_answered_as_soon_as_something_comes() {
        let mut relay = Relay::told();
        assert_eq!(relay.call(B, 1, wait("dev-a", WAIT_MS)), NONE);
        let [posted, log] = accepted(2, &nth(1));
        let woken = shown(1, [nth(1)]);
        assert_eq!(relay.post(A, 2, &nth(1)), [posted, log, woken]);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_eq!(relay.post(A, 3, &nth(2)), accepted(3, &nth(2)));
    }

    #[test]
    fn a_message_for_another_agent_wakes_nobody() {
        let mut relay = Relay::told();
        relay.call(B, 1, wait("dev-b", WAIT_MS));
        assert_eq!(relay.post(A, 2, &nth(1)), accepted(2, &nth(1)));
    }

    #[test]
    fn a_read_does_not_wait_when_there_is_something() {
        let mut relay = Relay::told();
        relay.post(A, 1, &nth(1));
        assert_eq!(relay.call(B, 2, wait("dev-a", WAIT_MS)), [shown(2, [nth(1)])]);
        assert_eq!(relay.engine.poll_timeout(), None);
    }

    #[test]
    fn a_wait_ends_empty_handed_at_its_deadline_and_not_a_millisecond_before() {
        let mut relay = Relay::told();
        relay.now = START.plus_millis(7);
        relay.call(B, 1, wait("dev-a", WAIT_MS));
        let deadline = START.plus_millis(5_007);
        assert_eq!(relay.engine.poll_timeout(), Some((deadline, Reason::WaitExpires)));
        assert_eq!(relay.timeout_at(5_006), NONE);
        assert_eq!(relay.engine.poll_timeout(), Some((deadline, Reason::WaitExpires)));
        assert_eq!(relay.timeout_at(5_007), [nothing(1)]);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_eq!(relay.timeout_at(5_008), NONE);
    }

    #[test]
    fn all_waits_whose_time_has_come_end_earliest_first() {
        let mut relay = Relay::told();
        relay.call(A, 1, wait("dev-a", 30));
        relay.call(B, 2, wait("dev-a", 10));
        relay.call(C, 3, wait("dev-a", 20));
        relay.call(C, 4, wait("dev-b", 40));
        assert_eq!(relay.timeout_at(30), [nothing(2), nothing(3), nothing(1)]);
        assert_eq!(relay.timeout_at(1_000_000), [nothing(4)]);
    }

    #[test]
    fn an_expired_wait_takes_nothing_that_comes_later() {
        let mut relay = Relay::told();
        relay.call(B, 1, wait("dev-a", WAIT_MS));
        relay.timeout_at(5_000);
        let later = posted_at(5_000, &nth(1));
        assert_eq!(relay.post(A, 2, &later), accepted(2, &later));
        assert_eq!(relay.pending(), [0, 1, 0]);
    }

    #[test]
    fn a_newer_wait_of_the_same_session_supersedes_the_older_one() {
        let mut relay = Relay::told();
        relay.call(B, 1, wait("dev-a", 10));
        assert_eq!(relay.call(B, 2, wait("dev-a", 50)), [nothing(1)]);
        assert_eq!(relay.timeout_at(49), NONE);
        assert_eq!(relay.timeout_at(50), [nothing(2)]);
    }

    #[test]
    fn a_wait_supersedes_only_its_own_session_s_wait_for_the_same_agent() {
        let mut relay = Relay::told();
        relay.call(A, 1, wait("dev-a", 10));
        assert_eq!(relay.call(A, 2, wait("dev-b", 20)), NONE);
        assert_eq!(relay.call(B, 3, wait("dev-a", 30)), NONE);
        assert_eq!(relay.call(A, 4, wait("dev-a", 40)), [nothing(1)]);
        assert_eq!(relay.timeout_at(40), [nothing(2), nothing(3), nothing(4)]);
    }

    #[test]
    fn a_read_that_does_not_wait_leaves_a_wait_parked() {
        let mut relay = Relay::told();
        relay.call(B, 1, wait("dev-a", WAIT_MS));
        assert_eq!(relay.call(B, 2, read("dev-a")), [nothing(2)]);
        assert_eq!(relay.call(B, 3, look("dev-a")), [kinds(3, [])]);
        assert_eq!(relay.timeout_at(5_000), [nothing(1)]);
    }

    #[test]
    fn the_longest_waiting_is_woken_and_the_others_stand_in_line() {
        let mut relay = Relay::told();
        relay.call(C, 1, wait("dev-a", 300));
        relay.call(A, 2, wait("dev-a", 100));
        relay.call(B, 3, wait("dev-a", 200));
        let answers = [(4, 1), (5, 2), (6, 3)];
        for (n, (call, woken)) in (1..).zip(answers) {
            let [posted, log] = accepted(call, &nth(n));
            assert_eq!(
                relay.post(A, call, &nth(n)),
                [posted, log, shown(woken, [nth(n)])]
            );
        }
    }

    #[test]
    fn a_wait_that_supersedes_goes_to_the_end_of_the_line() {
        let mut relay = Relay::told();
        relay.call(A, 1, wait("dev-a", WAIT_MS));
        relay.call(B, 2, wait("dev-a", WAIT_MS));
        relay.call(A, 3, wait("dev-a", WAIT_MS));
        let [posted, log] = accepted(4, &nth(1));
        assert_eq!(relay.post(C, 4, &nth(1)), [posted, log, shown(2, [nth(1)])]);
    }

    #[test]
    fn a_cancelled_wait_is_never_answered() {
        let mut relay = Relay::told();
        relay.call(A, 1, wait("dev-a", WAIT_MS));
        relay.call(B, 2, wait("dev-a", WAIT_MS));
        assert_eq!(relay.cancelled(1), NONE);
        let [posted, log] = accepted(3, &nth(1));
        assert_eq!(relay.post(C, 3, &nth(1)), [posted, log, shown(2, [nth(1)])]);
        assert_eq!(relay.timeout_at(5_000), NONE);
        assert_eq!(relay.engine.poll_timeout(), None);
    }

    #[test]
    fn a_parked_read_whose_reply_could_not_be_written_is_cancelled() {
        let mut relay = Relay::told();
        relay.call(A, 1, wait("dev-a", WAIT_MS));
        assert_eq!(relay.lost(1), NONE);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_eq!(relay.post(C, 2, &nth(1)), accepted(2, &nth(1)));
        assert_eq!(relay.pending(), [0, 1, 0]);
    }

    #[test]
    fn a_closed_session_s_waits_are_never_answered() {
        for ending in [Ending::Orderly, Ending::Broken] {
            let mut relay = Relay::told();
            relay.call(B, 1, wait("dev-a", WAIT_MS));
            relay.call(B, 2, wait("dev-b", WAIT_MS));
            assert_eq!(relay.close(B, ending), NONE);
            assert_eq!(relay.engine.poll_timeout(), None);
            assert_eq!(relay.post(A, 3, &nth(1)), accepted(3, &nth(1)));
            assert_eq!(relay.call(C, 4, read("dev-a")), [shown(4, [nth(1)])]);
        }
    }

    #[test]
    fn a_relay_that_stops_ends_all_waits_and_parks_no_more() {
        let mut relay = Relay::told();
        relay.call(A, 1, wait("dev-a", WAIT_MS));
        relay.call(B, 2, wait("pm", WAIT_MS));
        assert_eq!(relay.handle(Input::Stopping), [nothing(1), nothing(2)]);
        assert_eq!(relay.handle(Input::Stopping), NONE);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_eq!(relay.call(A, 3, wait("dev-a", WAIT_MS)), [nothing(3)]);
        assert_eq!(relay.post(B, 4, &nth(1)), accepted(4, &nth(1)));
        assert_eq!(relay.call(A, 5, wait("dev-a", WAIT_MS)), [shown(5, [nth(1)])]);
    }

    #[test]
    fn a_wait_until_the_end_of_time_is_possible() {
        let mut relay = Relay::told();
        relay.now = Timestamp::from_millis(i64::MAX - 1);
        relay.call(A, 1, wait("dev-a", WAIT_MS));
        let end = Timestamp::from_millis(i64::MAX);
        assert_eq!(relay.engine.poll_timeout(), Some((end, Reason::WaitExpires)));
    }
}

mod handing_over {
    use super::*;

    /// A relay that handed two messages for `dev-a` to `session`, in the reply to call 10.
    fn handed_to(session: SessionId) -> Relay {
        let mut relay = Relay::told();
        relay.post(C, 1, &nth(1));
        relay.post(C, 2, &nth(2));
        let both = shown(10, [nth(1), nth(2)]);
        assert_eq!(relay.call(session, 10, read("dev-a")), [both]);
        relay
    }

    /// The same on a new session 4 whose replies end their exchanges.
    fn handed_on_an_exchange() -> (Relay, SessionId) {
        let session = SessionId(4);
        let mut relay = Relay::told();
        relay.open(session, Carrier::Exchange, None);
        relay.post(C, 1, &nth(1));
        relay.post(C, 2, &nth(2));
        relay.call(session, 10, read("dev-a"));
        (relay, session)
    }

    /// Shows that nothing is left, even once every session is gone.
    #[track_caller]
    fn assert_confirmed(mut relay: Relay) {
        for session in 1..9 {
            relay.close(SessionId(session), Ending::Broken);
        }
        let session = SessionId(9);
        relay.open(session, Carrier::Stream, None);
        assert_eq!(relay.call(session, 99, read("dev-a")), [nothing(99)]);
    }

    #[track_caller]
    fn assert_undone(mut relay: Relay) {
        let session = SessionId(9);
        relay.open(session, Carrier::Stream, None);
        let both = shown(99, [again(&nth(1)), again(&nth(2))]);
        assert_eq!(relay.call(session, 99, read("dev-a")), [both]);
        assert_eq!(relay.call(session, 98, read("dev-a")), [nothing(98)]);
    }

    #[test]
    fn a_lost_reply_is_read_again_until_it_is_confirmed() {
        let mut relay = Relay::told();
        relay.post(A, 1, &nth(1));
        assert_eq!(relay.call(B, 2, read("dev-a")), [shown(2, [nth(1)])]);
        assert_eq!(relay.lost(2), NONE);
        for call in 3..6 {
            let shown = shown(call, [again(&nth(1))]);
            assert_eq!(relay.call(B, call, read("dev-a")), [shown]);
            assert_eq!(relay.lost(call), NONE);
        }
        assert_eq!(relay.call(B, 7, read("dev-a")), [shown(7, [again(&nth(1))])]);
        relay.flushed(7);
        assert_eq!(relay.call(B, 8, read("dev-a")), [nothing(8)]);
        assert_eq!(relay.lost(7), NONE);
        assert_eq!(relay.call(B, 9, read("dev-a")), [nothing(9)]);
    }

    #[test]
    fn a_flushed_reply_is_confirmed_by_the_same_session_s_next_call() {
        let calls = [
            post(Some("pm"), "pm", ""),
            read("pm"),
            wait("pm", WAIT_MS),
            look("dev-b"),
            look("nobody"),
        ];
        for command in calls {
            let mut relay = handed_to(A);
            relay.flushed(10);
            relay.call(A, 11, command);
            assert_eq!(relay.lost(10), NONE);
            assert_confirmed(relay);
        }
    }

    #[test]
    fn another_session_s_call_confirms_nothing() {
        let mut relay = handed_to(A);
        relay.flushed(10);
        relay.call(B, 11, read("dev-a"));
        relay.close(A, Ending::Broken);
        assert_undone(relay);
    }

    #[test]
    fn a_call_confirms_all_that_was_flushed_to_its_session() {
        let mut relay = Relay::told();
        for (n, read_call) in [(1, 11), (2, 12), (3, 13)] {
            relay.post(B, read_call + 10, &nth(n));
            relay.call(A, read_call, read("dev-a"));
        }
        for call in 11..=13 {
            relay.flushed(call);
        }
        relay.call(A, 14, look("pm"));
        assert_confirmed(relay);
    }

    #[test]
    fn a_reply_that_was_not_flushed_is_not_confirmed_by_the_next_call() {
        let mut relay = handed_to(A);
        relay.call(A, 11, look("dev-a"));
        relay.close(A, Ending::Broken);
        assert_undone(relay);
    }

    #[test]
    fn a_call_before_the_flush_does_not_confirm_after_it() {
        let mut relay = handed_to(A);
        relay.call(A, 11, look("dev-a"));
        relay.flushed(10);
        relay.close(A, Ending::Broken);
        assert_undone(relay);
    }

    #[test]
    fn a_flushed_reply_is_confirmed_when_its_doubt_ends_and_not_a_millisecond_before() {
        for (ms, confirmed) in [(DOUBT_MS + 2, false), (DOUBT_MS + 3, true), (DOUBT_MS * 9, true)] {
            let mut relay = handed_to(A);
            relay.now = START.plus_millis(3);
            assert_eq!(relay.flushed(10), NONE);
            let ends_at = START.plus_millis(DOUBT_MS + 3);
            assert_eq!(relay.engine.poll_timeout(), Some((ends_at, Reason::DoubtEnds)));
            assert_eq!(relay.timeout_at(ms), NONE);
            assert_eq!(relay.engine.poll_timeout().is_none(), confirmed);
            relay.close(A, Ending::Broken);
            if confirmed {
                assert_confirmed(relay)
            } else {
                assert_undone(relay)
            }
        }
    }

    #[test]
    fn a_reply_that_was_not_flushed_stays_in_doubt_for_ever() {
        let mut relay = handed_to(A);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_eq!(relay.timeout_at(DOUBT_MS * 1_000), NONE);
        relay.close(A, Ending::Broken);
        assert_undone(relay);
    }

    #[test]
    fn a_second_flush_does_not_prolong_the_doubt() {
        let mut relay = handed_to(A);
        relay.flushed(10);
        relay.now = START.plus_millis(500);
        relay.flushed(10);
        let ends_at = START.plus_millis(DOUBT_MS);
        assert_eq!(relay.engine.poll_timeout(), Some((ends_at, Reason::DoubtEnds)));
        relay.timeout_at(DOUBT_MS);
        assert_eq!(relay.engine.poll_timeout(), None);
        relay.flushed(10);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_confirmed(relay);
    }

    #[test]
    fn an_orderly_end_after_the_flush_confirms_on_an_exchange() {
        let (mut relay, session) = handed_on_an_exchange();
        relay.flushed(10);
        assert_eq!(relay.close(session, Ending::Orderly), NONE);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_confirmed(relay);
    }

    #[test]
    fn an_orderly_end_before_the_flush_undoes_on_an_exchange() {
        let (mut relay, session) = handed_on_an_exchange();
        assert_eq!(relay.close(session, Ending::Orderly), NONE);
        assert_undone(relay);
    }

    #[test]
    fn a_broken_end_after_the_flush_undoes_on_an_exchange() {
        let (mut relay, session) = handed_on_an_exchange();
        relay.flushed(10);
        relay.close(session, Ending::Broken);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_undone(relay);
    }

    #[test]
    fn any_end_of_a_stream_undoes_what_was_flushed_last() {
        for ending in [Ending::Orderly, Ending::Broken] {
            for flushed in [false, true] {
                let mut relay = handed_to(A);
                if flushed {
                    relay.flushed(10);
                }
                assert_eq!(relay.close(A, ending), NONE);
                assert_eq!(relay.engine.poll_timeout(), None);
                assert_undone(relay);
            }
        }
    }

    #[test]
    fn an_end_judges_each_hand_over_of_its_session_alone() {
        let session = SessionId(4);
        let mut relay = Relay::told();
        relay.open(session, Carrier::Exchange, None);
        for n in 1..=3 {
            relay.post(C, u64::from(n), &nth(n));
            relay.call(session, 10 + u64::from(n), read("dev-a"));
        }
        relay.flushed(11);
        relay.flushed(13);
        relay.close(session, Ending::Orderly);
        assert_eq!(relay.call(C, 20, read("dev-a")), [shown(20, [again(&nth(2))])]);
    }

    #[test]
    fn a_session_s_end_leaves_the_hand_overs_of_others_alone() {
        let mut relay = handed_to(A);
        relay.close(B, Ending::Broken);
        assert_eq!(relay.call(C, 11, read("dev-a")), [nothing(11)]);
    }

    #[test]
    fn a_cancelled_call_undoes_its_reply_flushed_or_not() {
        for flushed in [false, true] {
            let mut relay = handed_to(A);
            if flushed {
                relay.flushed(10);
            }
            assert_eq!(relay.cancelled(10), NONE);
            assert_eq!(relay.engine.poll_timeout(), None);
            assert_undone(relay);
        }
    }

    #[test]
    fn a_lost_reply_is_undone_flushed_or_not() {
        for flushed in [false, true] {
            let mut relay = handed_to(A);
            if flushed {
                relay.flushed(10);
            }
            assert_eq!(relay.lost(10), NONE);
            assert_eq!(relay.engine.poll_timeout(), None);
            assert_undone(relay);
        }
    }

    #[test]
    fn undone_messages_go_in_front_of_newer_ones() {
        let mut relay = handed_to(A);
        relay.post(C, 3, &nth(3));
        relay.lost(10);
        let all = [again(&nth(1)), again(&nth(2)), nth(3)];
        assert_eq!(relay.call(B, 11, read("dev-a")), [shown(11, all)]);
    }

    #[test]
    fn hand_overs_undone_in_any_order_keep_the_order_of_acceptance() {
        for order in [[11, 12, 13], [13, 12, 11], [12, 13, 11], [11, 13, 12]] {
            let mut relay = Relay::told();
            for n in 1..=3 {
                relay.post(C, u64::from(n), &nth(n));
                relay.call(A, 10 + u64::from(n), read("dev-a"));
            }
            relay.post(C, 4, &nth(4));
            for call in order {
                relay.lost(call);
            }
            let all = [again(&nth(1)), again(&nth(2)), again(&nth(3)), nth(4)];
            assert_eq!(relay.call(B, 20, read("dev-a")), [shown(20, all)]);
        }
    }

    #[test]
    fn an_undone_message_goes_back_between_older_and_newer_ones() {
        let mut relay = Relay::told();
        relay.post(C, 1, &nth(1));
        relay.call(A, 11, read("dev-a"));
        relay.post(C, 2, &nth(2));
        relay.call(B, 12, read("dev-a"));
        relay.post(C, 3, &nth(3));
        relay.lost(11);
        let outer = [again(&nth(1)), nth(3)];
        assert_eq!(relay.call(A, 13, read("dev-a")), [shown(13, outer)]);
        relay.lost(12);
        relay.lost(13);
        let all = [again(&nth(1)), again(&nth(2)), again(&nth(3))];
        assert_eq!(relay.call(A, 14, read("dev-a")), [shown(14, all)]);
    }

    #[test]
    fn an_undone_message_goes_to_the_read_that_waits_for_it() {
        let mut relay = handed_to(A);
        relay.call(C, 11, wait("dev-a", WAIT_MS));
        relay.call(B, 12, wait("dev-a", WAIT_MS));
        let both = [again(&nth(1)), again(&nth(2))];
        assert_eq!(relay.lost(10), [shown(11, both.clone())]);
        assert_eq!(relay.cancelled(11), [shown(12, both)]);
        assert_eq!(relay.engine.poll_timeout(), None);
    }

    #[test]
    fn a_lost_reply_goes_to_its_own_session_s_wait_too() {
        let mut relay = handed_to(A);
        relay.call(A, 11, wait("dev-a", WAIT_MS));
        let both = [again(&nth(1)), again(&nth(2))];
        assert_eq!(relay.lost(10), [shown(11, both)]);
    }

    #[test]
    fn a_closed_session_s_messages_go_to_others_and_never_to_its_own_waits() {
        let mut relay = handed_to(A);
        relay.call(A, 11, wait("dev-a", WAIT_MS));
        relay.call(B, 12, wait("dev-a", WAIT_MS));
        let both = [again(&nth(1)), again(&nth(2))];
        assert_eq!(relay.close(A, Ending::Broken), [shown(12, both)]);
    }

    #[test]
    fn a_closed_session_s_hand_overs_of_one_inbox_come_back_in_one_reply() {
        let mut relay = Relay::told();
        relay.post(C, 1, &nth(1));
        relay.call(A, 11, read("dev-a"));
        relay.post(C, 2, &nth(2));
        relay.call(A, 12, read("dev-a"));
        relay.post(C, 3, &message(3, 0, "pm", "dev-b"));
        relay.call(A, 13, read("dev-b"));
        relay.call(B, 14, wait("dev-a", WAIT_MS));
        relay.call(B, 15, wait("dev-b", WAIT_MS));
        assert_eq!(
            relay.close(A, Ending::Broken),
            [
                shown(14, [again(&nth(1)), again(&nth(2))]),
                shown(15, [again(&message(3, 0, "pm", "dev-b"))])
            ]
        );
    }

    #[test]
    fn an_answer_with_nothing_in_it_leaves_nothing_in_doubt() {
        let mut relay = Relay::told();
        relay.call(A, 1, read("dev-a"));
        relay.flushed(1);
        assert_eq!(relay.engine.poll_timeout(), None);
        relay.call(A, 2, look("dev-a"));
        relay.flushed(2);
        relay.post(A, 3, &nth(1));
        relay.flushed(3);
        assert_eq!(relay.engine.poll_timeout(), None);
    }

    #[test]
    fn an_undo_leaves_replies_that_were_given_out_as_they_were() {
        let mut relay = Relay::told();
        relay.post(A, 1, &nth(1));
        let given_out = relay.call(B, 2, read("dev-a"));
        relay.lost(2);
        assert_eq!(given_out, [shown(2, [nth(1)])]);
    }

    #[test]
    fn of_a_wait_and_a_doubt_the_earlier_one_is_due_first() {
        let mut relay = handed_to(A);
        relay.flushed(10);
        relay.call(B, 11, wait("dev-a", 1_000));
        relay.call(B, 12, wait("dev-b", 30_000));
        let due = |ms, reason| Some((START.plus_millis(ms), reason));
        assert_eq!(relay.engine.poll_timeout(), due(1_000, Reason::WaitExpires));
        assert_eq!(relay.timeout_at(1_000), [nothing(11)]);
        assert_eq!(relay.engine.poll_timeout(), due(DOUBT_MS, Reason::DoubtEnds));
        assert_eq!(relay.timeout_at(DOUBT_MS), NONE);
        assert_eq!(relay.engine.poll_timeout(), due(30_000, Reason::WaitExpires));
    }
}

mod bounds {
    use super::*;

    #[test]
    fn a_body_of_the_greatest_length_is_accepted_and_one_more_byte_is_not() {
        let mut relay = Relay::told_within(Bounds {
            body_bytes_max: 4,
            ..ROOMY
        });
        let too_long = |call, bytes| {
            let bytes_max = 4;
            [refused(call, Refusal::BodyTooLong { bytes, bytes_max })]
        };
        let body = |body: &str| post(Some("pm"), "dev-a", body);
        assert_eq!(relay.call(A, 1, body("12345")), too_long(1, 5));
        assert_eq!(relay.call(A, 2, body("\u{e9}\u{e9}\u{e9}")), too_long(2, 6));
        assert_eq!(relay.pending(), [0, 0, 0]);
        assert_eq!(relay.call(A, 3, body("1234")).len(), 2);
        assert_eq!(relay.call(A, 4, body("")).len(), 2);
        assert_eq!(relay.pending(), [0, 2, 0]);
    }

    fn full(call: u64, messages: usize, bytes: usize, bounds: Bounds) -> Effect {
        refused(
            call,
            Refusal::InboxFull {
                agent: "dev-a".to_owned(),
                messages,
                bytes,
                messages_max: bounds.inbox_messages_max,
                bytes_max: bounds.inbox_bytes_max,
            },
        )
    }

    #[test]
    fn an_inbox_takes_so_many_messages_and_not_one_more() {
        let bounds = Bounds {
            inbox_messages_max: 2,
            ..ROOMY
        };
        let mut relay = Relay::told_within(bounds);
        relay.post(A, 1, &nth(1));
        relay.post(A, 2, &nth(2));
        assert_eq!(relay.post(A, 3, &nth(3)), [full(3, 2, 12, bounds)]);
        let other = message(3, 0, "pm", "dev-b");
        assert_eq!(relay.post(A, 4, &other), accepted(4, &other));
        assert_eq!(relay.call(B, 5, read("dev-a")), [shown(5, [nth(1), nth(2)])]);
    }

    #[test]
    fn an_inbox_takes_so_many_bytes_and_not_one_more() {
        let bounds = Bounds {
            inbox_bytes_max: 10,
            ..ROOMY
        };
        let mut relay = Relay::told_within(bounds);
        let body = |body: &str| post(Some("pm"), "dev-a", body);
        relay.call(A, 1, body("123456"));
        assert_eq!(relay.call(A, 2, body("12345")), [full(2, 1, 6, bounds)]);
        assert_eq!(relay.call(A, 3, body("1234")).len(), 2);
        assert_eq!(relay.call(A, 4, body("1")), [full(4, 2, 10, bounds)]);
        assert_eq!(relay.call(A, 5, body("")).len(), 2);
        assert_eq!(relay.pending(), [0, 3, 0]);
    }

    #[test]
    fn handed_over_messages_keep_their_room_until_they_are_confirmed() {
        let by_messages = Bounds {
            inbox_messages_max: 2,
            ..ROOMY
        };
        let by_bytes = Bounds {
            inbox_bytes_max: 12,
            ..ROOMY
        };
        for bounds in [by_messages, by_bytes] {
            let mut relay = Relay::told_within(bounds);
            relay.post(C, 1, &nth(1));
            relay.post(C, 2, &nth(2));
            relay.call(A, 3, read("dev-a"));
            assert_eq!(relay.post(C, 4, &nth(3)), [full(4, 2, 12, bounds)]);
            relay.flushed(3);
            assert_eq!(relay.post(C, 5, &nth(3)), [full(5, 2, 12, bounds)]);
            // The call that confirms them may already use their room.
            assert_eq!(relay.post(A, 6, &nth(3)), accepted(6, &nth(3)));
            assert_eq!(relay.post(A, 7, &nth(4)), accepted(7, &nth(4)));
            assert_eq!(relay.post(A, 8, &nth(5)), [full(8, 2, 12, bounds)]);
        }
    }

    #[test]
    fn undone_messages_find_their_room_kept() {
        let bounds = Bounds {
            inbox_messages_max: 2,
            inbox_bytes_max: 12,
            ..ROOMY
        };
        let mut relay = Relay::told_within(bounds);
        relay.post(C, 1, &nth(1));
        relay.call(A, 2, read("dev-a"));
        relay.post(C, 3, &nth(2));
        relay.lost(2);
        assert_eq!(relay.post(C, 4, &nth(3)), [full(4, 2, 12, bounds)]);
        let both = shown(5, [again(&nth(1)), nth(2)]);
        assert_eq!(relay.call(A, 5, read("dev-a")), [both]);
        relay.flushed(5);
        assert_eq!(relay.post(A, 6, &nth(3)), accepted(6, &nth(3)));
    }

    #[test]
    fn so_many_reads_may_wait_and_not_one_more() {
        let mut relay = Relay::told_within(Bounds {
            waits_max: 2,
            ..ROOMY
        });
        let too_many = |call| [refused(call, Refusal::TooManyWaits { waits: 2 })];
        assert_eq!(relay.call(A, 1, wait("pm", 10)), NONE);
        assert_eq!(relay.call(A, 2, wait("dev-a", 20)), NONE);
        assert_eq!(relay.call(B, 3, wait("dev-a", 30)), too_many(3));
        assert_eq!(relay.call(A, 4, wait("dev-b", 40)), too_many(4));
        assert_eq!(relay.call(B, 5, read("dev-a")), [nothing(5)]);
        assert_eq!(relay.timeout_at(10), [nothing(1)]);
        assert_eq!(relay.call(B, 6, wait("dev-a", 50)), NONE);
        assert_eq!(relay.timeout_at(20), [nothing(2)]);
        assert_eq!(relay.timeout_at(60), [nothing(6)]);
    }

    #[test]
    fn a_wait_may_supersede_while_no_further_one_is_accepted() {
        let mut relay = Relay::told_within(Bounds {
            waits_max: 1,
            ..ROOMY
        });
        relay.call(A, 1, wait("dev-a", WAIT_MS));
        assert_eq!(relay.call(A, 2, wait("dev-a", WAIT_MS)), [nothing(1)]);
        let too_many = Refusal::TooManyWaits { waits: 1 };
        assert_eq!(relay.call(B, 3, wait("dev-a", WAIT_MS)), [refused(3, too_many)]);
    }

    #[test]
    fn so_many_sessions_may_be_open_and_not_one_more() {
        let mut relay = Relay::fresh(Bounds {
            sessions_max: 2,
            ..ROOMY
        });
        let opened = |session, result| [Effect::Opened { session, result }];
        assert_eq!(relay.open(A, Carrier::Stream, None), opened(A, Ok(None)));
        assert_eq!(relay.open(B, Carrier::Exchange, None), opened(B, Ok(None)));
        assert_eq!(
            relay.open(C, Carrier::Stream, None),
            opened(C, Err(Refusal::TooManySessions { sessions: 2 }))
        );
        assert_eq!(relay.engine.status().sessions, 2);
        assert_eq!(relay.call(C, 1, look("pm")), NONE);
        assert_eq!(relay.close(C, Ending::Orderly), NONE);
        assert_eq!(relay.engine.status().sessions, 2);
        relay.close(A, Ending::Broken);
        assert_eq!(relay.open(C, Carrier::Stream, None), opened(C, Ok(None)));
    }

    #[test]
    fn the_documented_bounds_are_the_ones_in_force() {
        let bounds = Bounds {
            body_bytes_max: 1_048_576,
            inbox_messages_max: 10_000,
            inbox_bytes_max: 67_108_864,
            sessions_max: 4_096,
            waits_max: 4_096,
        };
        assert_eq!(Bounds::default(), bounds);
        assert_eq!(DOUBT_MS, 20_000);
        assert_eq!(relay::engine::limits::WAIT_SECONDS_MAX, 280);
    }
}

mod bound_sessions {
    use super::*;

    const DEV_A: SessionId = SessionId(4);

    fn with_dev_a() -> Relay {
        let mut relay = Relay::told();
        let opened = Effect::Opened {
            session: DEV_A,
            result: Ok(Some(name("dev-a"))),
        };
        assert_eq!(relay.open(DEV_A, Carrier::Stream, Some("dev-a")), [opened]);
        relay
    }

    fn not_you(call: u64, argument: &'static str, name: &str) -> Effect {
        refused(
            call,
            Refusal::NotYou {
                argument,
                name: name.to_owned(),
                bound: "dev-a".to_owned(),
            },
        )
    }

    #[test]
    fn a_bound_session_need_not_name_itself() {
        let mut relay = with_dev_a();
        let to_pm = Delivery {
            message: Arc::new(Message {
                kind: Kind::Free,
                ..(*message(1, 0, "dev-a", "pm").message).clone()
            }),
            ..message(1, 0, "dev-a", "pm")
        };
        assert_eq!(
            relay.call(DEV_A, 1, post(None, "pm", "body 1")),
            accepted(1, &to_pm)
        );
        relay.post(A, 2, &message(2, 0, "pm", "dev-a"));
        let look = Command::Pending { agent: None };
        assert_eq!(relay.call(DEV_A, 3, look), [kinds(3, [Kind::Status])]);
        let read = Command::Read {
            agent: None,
            wait_ms: 0,
        };
        let mine = shown(4, [message(2, 0, "pm", "dev-a")]);
        assert_eq!(relay.call(DEV_A, 4, read), [mine]);
    }

    #[test]
    fn a_bound_session_may_name_itself() {
        let mut relay = with_dev_a();
        let to_pm = message(1, 0, "dev-a", "pm");
        assert_eq!(relay.post(DEV_A, 1, &to_pm), accepted(1, &to_pm));
        assert_eq!(relay.call(DEV_A, 2, read("dev-a")), [nothing(2)]);
        assert_eq!(relay.call(DEV_A, 3, look("dev-a")), [kinds(3, [])]);
    }

    #[test]
    fn a_bound_session_may_not_name_another() {
        let mut relay = with_dev_a();
        relay.post(A, 1, &message(1, 0, "dev-b", "pm"));
        assert_eq!(
            relay.call(DEV_A, 2, post(Some("pm"), "dev-b", "")),
            [not_you(2, "from", "pm")]
        );
        assert_eq!(relay.call(DEV_A, 3, read("pm")), [not_you(3, "for", "pm")]);
        assert_eq!(
            relay.call(DEV_A, 4, wait("dev-b", WAIT_MS)),
            [not_you(4, "for", "dev-b")]
        );
        assert_eq!(relay.call(DEV_A, 5, look("pm")), [not_you(5, "for", "pm")]);
        assert_eq!(relay.pending(), [1, 0, 0]);
    }

    #[test]
    fn a_bound_session_that_names_an_unknown_agent_hears_that_it_is_unknown() {
        let mut relay = with_dev_a();
        let unknown = Refusal::UnknownAgent {
            name: "dev-c".to_owned(),
            known: Roster::default(),
        };
        assert_eq!(relay.call(DEV_A, 1, read("dev-c")), [refused(1, unknown)]);
    }

    #[test]
    fn a_session_cannot_be_bound_to_an_unknown_agent() {
        let mut relay = Relay::told();
        let unknown = Refusal::UnknownAgent {
            name: "dev-c".to_owned(),
            known: Roster::default(),
        };
        let refused = Effect::Opened {
            session: DEV_A,
            result: Err(unknown),
        };
        assert_eq!(relay.open(DEV_A, Carrier::Stream, Some("dev-c")), [refused]);
        assert_eq!(relay.engine.status().sessions, 3);
        assert_eq!(relay.call(DEV_A, 1, read("dev-a")), NONE);
    }

    #[test]
    fn two_sessions_may_be_bound_to_one_agent() {
        let mut relay = with_dev_a();
        let opened = Effect::Opened {
            session: SessionId(5),
            result: Ok(Some(name("dev-a"))),
        };
        assert_eq!(
            relay.open(SessionId(5), Carrier::Exchange, Some("dev-a")),
            [opened]
        );
    }
}

mod refusals {
    use super::*;

    /// Every kind of refused call, on a relay that [`at_its_bounds`] made, and what it says.
    fn refused_calls() -> Vec<(SessionId, Command, &'static str)> {
        let dev_b = SessionId(4);
        let anonymous_read = Command::Read {
            agent: None,
            wait_ms: 0,
        };
        vec![
            (
                C,
                post(Some("dev-c"), "pm", ""),
                "unknown role \"dev-c\"; known roles: pm, dev-a, dev-b",
            ),
            (
                C,
                post(Some("pm"), "PM", ""),
                "unknown role \"PM\"; known roles: pm, dev-a, dev-b",
            ),
            (C, read(""), "unknown role \"\"; known roles: pm, dev-a, dev-b"),
            (
                C,
                look("a\"\n"),
                "unknown role \"a\\\"\\n\"; known roles: pm, dev-a, dev-b",
            ),
            (
                C,
                post(None, "pm", ""),
                "missing argument \"from\"; give your role, one of: pm, dev-a, dev-b",
            ),
            (
                C,
                anonymous_read,
                "missing argument \"for\"; give your role, one of: pm, dev-a, dev-b",
            ),
            (
                C,
                Command::Pending { agent: None },
                "missing argument \"for\"; give your role, one of: pm, dev-a, dev-b",
            ),
            (
                dev_b,
                post(Some("pm"), "pm", ""),
                "\"from\" is \"pm\", but this session is bound to \"dev-b\"; leave \"from\" out or give \"dev-b\"",
            ),
            (
                dev_b,
                read("pm"),
                "\"for\" is \"pm\", but this session is bound to \"dev-b\"; leave \"for\" out or give \"dev-b\"",
            ),
            (
                C,
                post(Some("pm"), "pm", "12345678901"),
                "body has 11 bytes; accepted: at most 10",
            ),
            (
                C,
                post(Some("pm"), "dev-a", ""),
                "inbox of \"dev-a\" is full: 2 messages, 12 bytes; accepted: at most 2 messages and 30 bytes; \
                 post again after it was read",
            ),
            (
                C,
                wait("pm", 1),
                "as many reads wait already as are accepted: 1; read without waiting",
            ),
        ]
    }

    /// A relay that has no room for one more of anything.
    fn at_its_bounds() -> Relay {
        let mut relay = Relay::told_within(Bounds {
            body_bytes_max: 10,
            inbox_messages_max: 2,
            inbox_bytes_max: 30,
            sessions_max: 4,
            waits_max: 1,
        });
        relay.open(SessionId(4), Carrier::Stream, Some("dev-b"));
        relay.post(A, 1, &nth(1));
        relay.call(A, 2, read("dev-a"));
        relay.flushed(2);
        relay.post(B, 3, &nth(2));
        relay.call(B, 4, wait("dev-b", WAIT_MS));
        relay
    }

    #[test]
    fn a_refusal_names_the_value_and_what_is_accepted() {
        for (session, command, text) in refused_calls() {
            let mut relay = at_its_bounds();
            let effects = relay.call(session, 5, command);
            let [
                Effect::Reply {
                    call: CallId(5),
                    result: Err(refusal),
                },
            ] = &effects[..]
            else {
                panic!("{effects:?}");
            };
            assert_eq!(refusal.to_string(), text);
        }
        let refusal = Refusal::TooManySessions { sessions: 4 };
        assert_eq!(
            refusal.to_string(),
            "as many sessions are open already as are accepted: 4; close one"
        );
    }

    #[test]
    fn a_refusal_changes_nothing() {
        for (session, command, text) in refused_calls() {
            let mut relay = at_its_bounds();
            let before = (relay.engine.status(), relay.engine.poll_timeout());
            relay.call(session, 5, command);
            let after = (relay.engine.status(), relay.engine.poll_timeout());
            assert_eq!(before, after, "{text}");
            assert_untouched(relay);
        }
    }

    #[test]
    fn a_refused_session_changes_nothing() {
        for (agent, sessions_are_the_matter) in [(Some("dev-c"), false), (None, true), (Some("pm"), true)] {
            let mut relay = at_its_bounds();
            let before = (relay.engine.status(), relay.engine.poll_timeout());
            let effects = relay.open(SessionId(5), Carrier::Stream, agent);
            let refusal = if sessions_are_the_matter {
                Refusal::TooManySessions { sessions: 4 }
            } else {
                Refusal::UnknownAgent {
                    name: "dev-c".to_owned(),
                    known: Roster::default(),
                }
            };
            let refused = Effect::Opened {
                session: SessionId(5),
                result: Err(refusal),
            };
            assert_eq!(effects, [refused]);
            let after = (relay.engine.status(), relay.engine.poll_timeout());
            assert_eq!(before, after);
            assert_untouched(relay);
        }
    }

    /// Shows all that is in a relay that [`at_its_bounds`] made; it must be as it was then.
    #[track_caller]
    fn assert_untouched(mut relay: Relay) {
        assert_eq!(relay.lost(2), NONE);
        let all = shown(6, [again(&nth(1)), nth(2)]);
        assert_eq!(relay.call(B, 6, read("dev-a")), [all]);
        assert_eq!(relay.call(B, 7, read("pm")), [nothing(7)]);
        assert_eq!(relay.timeout_at(4_999), NONE);
        assert_eq!(relay.timeout_at(5_000), [nothing(4)]);
        // The next id is the one that the refused call did not take.
        relay.flushed(6);
        let third = posted_at(5_000, &nth(3));
        assert_eq!(relay.post(B, 8, &third), accepted(8, &third));
    }

    #[test]
    fn arguments_are_judged_before_the_state_is() {
        let mut relay = at_its_bounds();
        let unknown = |call, name: &str| {
            [refused(
                call,
                Refusal::UnknownAgent {
                    name: name.to_owned(),
                    known: Roster::default(),
                },
            )]
        };
        let long = "12345678901";
        assert_eq!(relay.call(C, 5, post(Some("x"), "y", long)), unknown(5, "x"));
        assert_eq!(relay.call(C, 6, post(Some("pm"), "y", long)), unknown(6, "y"));
        let too_long = Refusal::BodyTooLong {
            bytes: 11,
            bytes_max: 10,
        };
        assert_eq!(
            relay.call(C, 7, post(Some("pm"), "dev-a", long)),
            [refused(7, too_long)]
        );
        assert_eq!(relay.call(C, 8, wait("y", WAIT_MS)), unknown(8, "y"));
    }
}

mod inputs_for_nothing {
    use super::*;

    #[test]
    fn news_of_an_unknown_call_is_ignored() {
        let mut relay = Relay::told();
        let before = relay.engine.status();
        assert_eq!(relay.flushed(77), NONE);
        assert_eq!(relay.cancelled(77), NONE);
        assert_eq!(relay.lost(77), NONE);
        assert_eq!(relay.engine.status(), before);
        assert_eq!(relay.engine.poll_timeout(), None);
    }

    #[test]
    fn news_of_a_post_or_a_look_is_ignored() {
        let mut relay = Relay::told();
        relay.post(A, 1, &nth(1));
        relay.call(A, 2, look("dev-a"));
        for call in [1, 2] {
            assert_eq!(relay.flushed(call), NONE);
            assert_eq!(relay.lost(call), NONE);
            assert_eq!(relay.cancelled(call), NONE);
        }
        assert_eq!(relay.call(A, 3, read("dev-a")), [shown(3, [nth(1)])]);
    }

    #[test]
    fn a_flush_of_a_parked_read_is_ignored() {
        let mut relay = Relay::told();
        relay.call(A, 1, wait("dev-a", WAIT_MS));
        assert_eq!(relay.flushed(1), NONE);
        assert_eq!(relay.timeout_at(5_000), [nothing(1)]);
    }

    #[test]
    fn repeated_bad_news_is_ignored() {
        let mut relay = Relay::told();
        relay.post(A, 1, &nth(1));
        relay.call(A, 2, read("dev-a"));
        for _ in 0..2 {
            assert_eq!(relay.lost(2), NONE);
            assert_eq!(relay.cancelled(2), NONE);
            assert_eq!(relay.flushed(2), NONE);
        }
        assert_eq!(relay.engine.poll_timeout(), None);
        let once = shown(3, [again(&nth(1))]);
        assert_eq!(relay.call(A, 3, read("dev-a")), [once]);
        assert_eq!(relay.lost(2), NONE);
        assert_eq!(relay.call(A, 4, read("dev-a")), [nothing(4)]);
    }

    #[test]
    fn a_session_that_is_not_open_gets_no_answer_and_takes_nothing() {
        let mut relay = Relay::told();
        relay.post(A, 1, &nth(1));
        relay.close(B, Ending::Orderly);
        for (call, session) in [(2, B), (12, SessionId(77))] {
            assert_eq!(relay.call(session, call, read("dev-a")), NONE);
            assert_eq!(relay.call(session, call + 1, post(Some("pm"), "pm", "")), NONE);
            assert_eq!(relay.call(session, call + 2, read("nobody")), NONE);
            assert_eq!(relay.call(session, call + 3, wait("pm", WAIT_MS)), NONE);
            assert_eq!(relay.close(session, Ending::Broken), NONE);
        }
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_eq!(relay.pending(), [0, 1, 0]);
    }

    #[test]
    fn time_that_passes_while_nothing_is_due_does_nothing() {
        let mut relay = Relay::told();
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_eq!(relay.timeout_at(1_000_000_000), NONE);
    }
}

mod names_and_times {
    use super::*;

    #[test]
    fn a_name_has_1_to_32_plain_characters_and_starts_with_a_letter_or_a_digit() {
        let longest = "a".repeat(32);
        for good in ["a", "0", "dev-a", "9_-", &longest] {
            assert_eq!(AgentName::new(good).unwrap().as_str(), good);
        }
        let too_long = "a".repeat(33);
        for bad in [
            "", "-a", "_a", "A", "dev-A", "dev a", "dev.a", "a\u{e9}", "\u{e9}", "a:b", &too_long,
        ] {
            let error = AgentName::new(bad).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "invalid role name {bad:?}; a name has 1 to 32 of a-z, 0-9, - and _, and starts with a letter or a digit"
                )
            );
        }
    }

    #[test]
    fn a_roster_keeps_the_order_of_its_names() {
        let roster = Roster::new(["qa", "pm", "dev-a"]).unwrap();
        assert_eq!(roster.names(), [name("qa"), name("pm"), name("dev-a")]);
        assert_eq!(roster.to_string(), "qa, pm, dev-a");
        assert_eq!(Roster::default().to_string(), "pm, dev-a, dev-b");
        assert_eq!(roster.find("pm"), Some(&name("pm")));
        assert_eq!(roster.find("dev"), None);
    }

    #[test]
    fn a_roster_names_each_role_once() {
        let twice = Roster::new(["pm", "dev-a", "pm"]).unwrap_err();
        assert_eq!(
            twice,
            InvalidRoster::Twice {
                name: "pm".to_owned()
            }
        );
        assert_eq!(
            twice.to_string(),
            "role \"pm\" is named twice; each role is named once"
        );
    }

    #[test]
    fn a_roster_takes_only_names() {
        let error = Roster::new(["pm", ""]).unwrap_err();
        let InvalidRoster::Name(invalid) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(invalid.name, "");
        assert_eq!(error.to_string(), invalid.to_string());
    }

    /// So many names of so many bytes each.
    fn roster_of(count: usize, bytes: usize) -> Result<Roster, InvalidRoster> {
        let names: Vec<String> = (0..count).map(|n| format!("{n:0>bytes$}")).collect();
        Roster::new(names.iter().map(String::as_str))
    }

    #[test]
    fn a_roster_holds_32_names_and_not_one_more() {
        assert_eq!(roster_of(32, 2).unwrap().names().len(), 32);
        let too_many = InvalidRoster::TooMany {
            count: 33,
            bytes: 165,
        };
        assert_eq!(roster_of(33, 2), Err(too_many));
    }

    #[test]
    fn a_roster_holds_440_bytes_and_not_one_more() {
        assert!(roster_of(11, 32).is_ok());
        assert!(roster_of(22, 17).is_ok(), "22 names of 17 and 3 bytes are 440");
        let mut names: Vec<String> = (0..22).map(|n| format!("{n:0>17}")).collect();
        names[0].push('a');
        let error = Roster::new(names.iter().map(String::as_str)).unwrap_err();
        let too_many = InvalidRoster::TooMany {
            count: 22,
            bytes: 441,
        };
        assert_eq!(error, too_many);
        assert_eq!(
            error.to_string(),
            "22 roles with 441 bytes of names are too many; accepted: at most 32 roles and 440 bytes, counting three more bytes for each name"
        );
    }

    #[test]
    fn a_moment_is_written_as_iso_8601_in_utc_with_milliseconds() {
        assert_eq!(START.to_string(), "2026-05-02T14:30:00.000Z");
        assert_eq!(START.plus_millis(7).to_string(), "2026-05-02T14:30:00.007Z");
        let never = Timestamp::from_millis(i64::MAX);
        assert_eq!(never.to_string(), format!("{} ms since 1970", i64::MAX));
        assert_eq!(START.plus_millis(7).as_millis(), START.as_millis() + 7);
    }

    #[test]
    fn each_kind_has_its_word() {
        let words = ["status", "question", "directive", "free"];
        for (kind, word) in Kind::ALL.into_iter().zip(words) {
            assert_eq!(kind.as_str(), word);
            assert_eq!(kind.to_string(), word);
            assert_eq!(Kind::parse(word), Some(kind));
        }
        assert_eq!(Kind::parse("Status"), None);
        assert_eq!(Kind::parse(""), None);
    }

    #[test]
    fn an_id_is_written_as_a_uuid() {
        assert_eq!(
            MessageId(id(0xab)).to_string(),
            "abababab-abab-4bab-abab-abababababab"
        );
    }
}

mod through_the_tools {
    use relay::tools::{ToolResult, lift};
    use serde_json::{Map, Value, json};

    use super::*;

    fn arguments(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    /// What a tool call makes of a relay, as its caller reads it.
    fn called(relay: &mut Relay, call: u64, tool: &str, value: Value) -> ToolResult {
        let command = match lift::command(tool, arguments(value)) {
            Ok(command) => command,
            Err(invalid) => return ToolResult::error(invalid),
        };
        match relay.call(A, call, command).first() {
            Some(Effect::Reply { result, .. }) => lift::answer(result),
            other => panic!("{other:?}"),
        }
    }

    fn text(texts: &[&str]) -> ToolResult {
        ToolResult {
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            is_error: false,
        }
    }

    #[test]
    fn a_message_is_posted_listed_and_read() {
        let mut relay = Relay::told();
        relay.now = START.plus_millis(42);
        let body = json!({"from": "pm", "to": "dev-a", "kind": "directive", "body": "a \"b\"\n\u{e9}"});
        assert_eq!(
            called(&mut relay, 1, "post_message", body),
            text(&["{\"id\":\"01010101-0101-4101-8101-010101010101\"}"])
        );
        relay.post(A, 2, &nth(2));
        let dev_a = json!({"for": "dev-a"});
        assert_eq!(
            called(&mut relay, 3, "list_pending", dev_a.clone()),
            text(&["{\"count\":2,\"kinds\":[\"directive\",\"status\"]}"])
        );
        let first = "{\"id\":\"01010101-0101-4101-8101-010101010101\",\"from\":\"pm\",\"to\":\"dev-a\",\
                     \"kind\":\"directive\",\"body\":\"a \\\"b\\\"\\n\u{e9}\",\"ts\":\"2026-05-02T14:30:00.042Z\"}";
        let second = "{\"id\":\"02020202-0202-4202-8202-020202020202\",\"from\":\"pm\",\"to\":\"dev-a\",\
                      \"kind\":\"status\",\"body\":\"body 2\",\"ts\":\"2026-05-02T14:30:00.042Z\"}";
        assert_eq!(
            called(&mut relay, 4, "read_messages", dev_a.clone()),
            text(&[&format!("[{first},{second}]")])
        );
        assert_eq!(
            called(&mut relay, 5, "read_messages", dev_a.clone()),
            text(&["[]"])
        );
        assert_eq!(
            called(&mut relay, 6, "list_pending", dev_a),
            text(&["{\"count\":0,\"kinds\":[]}"])
        );
    }

    #[test]
    fn a_message_that_may_have_been_seen_says_so() {
        let mut relay = Relay::told();
        relay.post(A, 1, &nth(1));
        relay.call(A, 2, read("dev-a"));
        relay.lost(2);
        let shown = "[{\"id\":\"01010101-0101-4101-8101-010101010101\",\"from\":\"pm\",\"to\":\"dev-a\",\
                     \"kind\":\"status\",\"body\":\"body 1\",\"ts\":\"2026-05-02T14:30:00.000Z\",\"redelivered\":true}]";
        assert_eq!(
            called(&mut relay, 3, "read_messages", json!({"for": "dev-a"})),
            text(&[shown])
        );
    }

    #[test]
    fn the_start_is_told_in_a_second_text() {
        let mut relay = Relay::fresh(ROOMY);
        relay.open(A, Carrier::Stream, None);
        let notice = "relay started at 2026-05-02T14:30:00.000Z; nothing sent before that is here; \
                      send again what was not acknowledged";
        assert_eq!(
            called(&mut relay, 1, "read_messages", json!({"for": "pm"})),
            text(&["[]", notice])
        );
    }

    #[test]
    fn a_refusal_is_an_error_that_changes_nothing() {
        let error = |text: &str| ToolResult {
            texts: vec![text.to_owned()],
            is_error: true,
        };
        let mut relay = Relay::told();
        assert_eq!(
            called(&mut relay, 1, "read_messages", json!({"for": "dev-c"})),
            error("Error: unknown role \"dev-c\"; known roles: pm, dev-a, dev-b")
        );
        assert_eq!(
            called(&mut relay, 2, "list_pending", json!({})),
            error("Error: missing argument \"for\"; give your role, one of: pm, dev-a, dev-b")
        );
        assert_eq!(
            called(&mut relay, 3, "shout", json!({})),
            error("Error: unknown tool \"shout\"; known tools: post_message, read_messages, list_pending")
        );
        assert_eq!(relay.pending(), [0, 0, 0]);
    }

    #[test]
    fn every_bad_argument_is_named_with_what_is_accepted() {
        let bad = [
            (
                "post_message",
                json!({"to": ["pm"], "kind": "free", "body": ""}),
                "\"to\" is an array; accepted: a string",
            ),
            (
                "post_message",
                json!({"to": "pm", "kind": "free", "body": {"text": ""}}),
                "\"body\" is an object; accepted: a string",
            ),
            (
                "post_message",
                json!({"from": true, "to": "pm", "kind": "free", "body": ""}),
                "\"from\" is the boolean true; accepted: a string",
            ),
            (
                "post_message",
                json!({"to": "pm", "kind": null, "body": ""}),
                "missing argument \"kind\"; post_message takes from, to, kind, body",
            ),
            (
                "post_message",
                json!({"to": "pm", "kind": "free", "body": "", "cc": "dev-a"}),
                "unknown argument \"cc\"; post_message takes from, to, kind, body",
            ),
            (
                "post_message",
                json!({"to": "pm", "kind": "Free", "body": ""}),
                "unknown kind \"Free\"; known kinds: status, question, directive, free",
            ),
            (
                "read_messages",
                json!({"wait_seconds": "280"}),
                "\"wait_seconds\" is the string \"280\"; accepted: a number, 0 to 280",
            ),
            (
                "read_messages",
                json!({"wait_seconds": 280.001}),
                "\"wait_seconds\" is 280.001; accepted: 0 to 280",
            ),
            (
                "read_messages",
                json!({"wait_seconds": -0.001}),
                "\"wait_seconds\" is -0.001; accepted: 0 to 280",
            ),
            (
                "list_pending",
                json!({"for": 1.5}),
                "\"for\" is the number 1.5; accepted: a string",
            ),
            (
                "list_pending",
                json!({"wait_seconds": 1}),
                "unknown argument \"wait_seconds\"; list_pending takes for",
            ),
        ];
        for (tool, value, reason) in bad {
            let invalid = lift::command(tool, arguments(value)).unwrap_err();
            assert_eq!(invalid.to_string(), reason);
        }
    }

    #[test]
    fn an_argument_that_is_left_out_or_null_is_left_out() {
        for value in [json!({}), json!({"for": null, "wait_seconds": null})] {
            let read = Command::Read {
                agent: None,
                wait_ms: 0,
            };
            assert_eq!(lift::command("read_messages", arguments(value)), Ok(read));
        }
        for value in [json!({}), json!({"for": null})] {
            let look = Command::Pending { agent: None };
            assert_eq!(lift::command("list_pending", arguments(value)), Ok(look));
        }
        let value = json!({"from": null, "to": "pm", "kind": "free", "body": "b"});
        let command = post(None, "pm", "b");
        assert_eq!(lift::command("post_message", arguments(value)), Ok(command));
    }

    #[test]
    fn a_wait_is_rounded_to_milliseconds() {
        for (seconds, wait_ms) in [(0.25, 250), (0.0015, 2), (279.9999, 280_000)] {
            let value = json!({"wait_seconds": seconds});
            let read = Command::Read { agent: None, wait_ms };
            assert_eq!(lift::command("read_messages", arguments(value)), Ok(read));
        }
    }
}
