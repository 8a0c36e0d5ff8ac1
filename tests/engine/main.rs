//! The rules of the engine, one small test each: whole effects compared, named by the fact that they show.
//!
//! Beside them, in folders of their own: the engine and a reference model ([`model`]), and random walks ([`walks`]). All of it runs with
//! the shell or without: `cargo test -p relay --no-default-features --test engine`.

mod absence;
mod actions;
mod addresses;
mod answers;
mod as_json;
mod asking_again;
mod bindings;
mod bound_sessions;
mod bounds;
mod channels;
mod channels_by_name;
mod clocks;
mod coming_and_going;
mod deliveries;
mod docs;
mod events;
mod groups_of_agents;
mod handing_over;
mod handling;
mod holds;
mod holds_besides;
mod holds_on_the_way;
mod home;
mod idempotency;
mod inputs_for_nothing;
mod invocations;
mod model;
mod modes;
mod names_and_times;
mod nodes;
mod people;
mod posting_and_reading;
mod programs;
mod pushes;
mod reading_some;
mod reading_within;
mod receipts;
mod records;
mod refusals;
mod registering;
mod retiring;
mod several_programs;
mod specifications;
mod state;
mod taking_over;
mod the_doubt;
mod the_nearest;
mod the_person;
mod the_start;
mod threads;
mod through_agent_relays_tools;
mod through_the_tools;
mod through_thrums_tools;
mod toolsets;
mod tracing;
mod unnamed;
mod waiting;
mod waking;
mod walks;
mod watching;
mod words_of_refusals;
mod workers;
mod workers_end;
mod workers_handing_on;
mod workers_names;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use relay::engine::agents::{NamedAs, Which};
use relay::engine::handling::Mode;
use relay::engine::limits::{
    Bounds, CANCEL_GRACE_MS, DOUBT_LATE_MS_MAX, DOUBT_MS, OVERDUE_MS_MAX, SETTLE_SLACK_MS,
};
use relay::engine::{
    AgentName, Boot, CallId, Carrier, ChannelName, Class, Command, Context, DEFAULT_PROJECT, Delivery,
    Effect, Ending, Engine, Event, GroupName, HandoverId, InboxView, Input, InvalidName, InvalidRoster, Kind,
    Known, Message, MessageId, Overview, Places, Reason, Recipient, Refusal, Reply, Role, Roster, Seq,
    SessionId, SessionView, Sign, Status, Timestamp, WaitEnd, WaitView, Who, agents, groups, mail, sessions,
    surfacing, trace, watches,
};

use deliveries::*;
use people::*;

/// 2026-05-02T14:30:00Z, when every relay here starts.
const START: Timestamp = Timestamp::from_millis(1_777_732_200_000);

/// Three sessions that [`Relay::told`] has open: unbound, each on a stream.
const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const C: SessionId = SessionId(3);

/// A session that [`handed_to`] opens when it is asked for it: its replies end their exchanges.
const EXCHANGE: SessionId = SessionId(4);

const WAIT_MS: u32 = 5_000;

const ROOMY: Bounds = Bounds {
    body_bytes_max: 100,
    inbox_messages_max: 100,
    inbox_bytes_max: 1_000,
    read_max: 10,
    awaited_max: 1_000,
    sessions_max: 10,
    waits_max: 10,
    agents_max: 10,
    projects_max: 3,
    groups_max: 4,
    members_max: 3,
    description_bytes_max: 20,
    channels_max: 2,
    nodes_max: 2,
    actions_max: 3,
    invocations_max: 3,
    invocations_bytes_max: 100,
    idempotency_max: 3,
    hops_max: 3,
    trace_max: 1_000,
    trace_bytes_max: 1 << 20,
    workers_max: 3,
    reactions_max: 3,
};

/// An engine, and the time that its next input comes at.
struct Relay {
    engine: Engine,
    now: Timestamp,
    /// How many messages were accepted.
    posts: u8,
    /// The hand-overs in the replies to calls.
    handovers: BTreeMap<u64, HandoverId>,
    /// What has happened.
    events: Vec<Event>,
}

impl Relay {
    /// A relay that has just started.
    fn fresh(bounds: Bounds) -> Self {
        Self::of(Engine::new(START, Roster::default(), bounds, [0; 16]))
    }

    /// The same, of which it is known that these alone had a session before.
    fn after_sessions_of(bounds: Bounds, had_sessions: &[&str]) -> Self {
        let had_sessions = had_sessions.iter().map(|agent| name(agent)).collect();
        let engine = Engine::new(START, Roster::default(), bounds, [0; 16]);
        Self::of(engine.after_sessions_of(Some(had_sessions)))
    }

    fn of(engine: Engine) -> Self {
        Self {
            engine,
            now: START,
            posts: 0,
            handovers: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// A relay whose agents know that it started, with the sessions `A`, `B` and `C`. Others have nothing to be told of.
    fn told_within(bounds: Bounds) -> Self {
        let mut relay = Self::after_sessions_of(bounds, &["pm", "dev-a", "dev-b"]);
        let first = SessionId(0);
        relay.open(first, Carrier::Exchange, None);
        for (call, agent) in (1_000..).zip(["pm", "dev-a", "dev-b"]) {
            relay.call(first, call, read(agent));
            relay.passed(call);
        }
        relay.close(first, Ending::Orderly);
        // The tests begin at the start all the same.
        relay.settle();
        relay.now = START;
        for session in [A, B, C] {
            relay.open(session, Carrier::Stream, None);
        }
        relay
    }

    fn told() -> Self {
        Self::told_within(ROOMY)
    }

    fn handle(&mut self, input: Input) -> Vec<Effect> {
        let before = self.engine.clone();
        let mut effects = Vec::new();
        self.engine.handle(self.now, input, &mut effects);
        if let [Effect::Reply { result: Err(_), .. } | Effect::Opened { result: Err(_), .. }] = effects[..] {
            assert!(before == self.engine, "a refusal changes nothing");
        }
        self.seen(effects)
    }

    /// Keeps the events and the numbers of hand-overs, and returns what is left: what concerns a caller.
    fn seen(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let mut rest = Vec::new();
        for effect in effects {
            match effect {
                Effect::Note(event) => {
                    self.posts += u8::from(matches!(event, Event::Accepted { .. }));
                    self.events.push(event);
                }
                Effect::Reply {
                    call,
                    mut result,
                    handover,
                } => {
                    if let Ok(Reply::Mail(mail::Reply::Messages { waited_ms, .. })) = &mut result {
                        // The model knows it of every wait; here it would stand in the way.
                        *waited_ms = 0;
                    }
                    let hands_over = matches!(&result, Ok(Reply::Mail(mail::Reply::Messages { deliveries, restarted, .. }))
                        if !deliveries.is_empty() || restarted.is_some())
                        // A wake is followed though there may be nothing in it, which its own tests see.
                        || matches!(result, Ok(Reply::Surfacing(surfacing::Reply::Shown(_))) if handover.is_some())
                        || matches!(result, Ok(Reply::AfterStart { .. }));
                    assert_eq!(handover.is_some(), hands_over, "{result:?}");
                    self.handovers.extend(handover.map(|handover| (call.0, handover)));
                    rest.push(reply(call.0, result));
                }
                Effect::Opened { .. }
                | Effect::Changed { .. }
                | Effect::Deliver { .. }
                | Effect::Tell { .. }
                | Effect::Invoke { .. }
                | Effect::StartWorker(_)
                | Effect::EndWorker { .. }
                | Effect::Superseded { .. } => rest.push(effect),
            }
        }
        rest
    }

    /// Takes what has happened since the last time.
    fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Takes the last message that was accepted since then, with all whose inboxes it is in.
    fn went_out(&mut self) -> Option<(Arc<Message>, Vec<AgentName>)> {
        let events = self.events().into_iter().rev();
        let mut accepted = events.filter_map(|event| {
            let Event::Accepted { message, agents, .. } = event else {
                return None;
            };
            Some((message, agents))
        });
        accepted.next()
    }

    /// Says what was seen of the reply to a call, if it handed something over.
    fn sign(&mut self, call: u64, sign: Sign) -> Vec<Effect> {
        match self.handovers.get(&call) {
            Some(&handover) => self.handle(Input::Signed { handover, sign }),
            None => Vec::new(),
        }
    }

    fn open(&mut self, session: SessionId, carrier: Carrier, agent: Option<&str>) -> Vec<Effect> {
        let who = Who::Agent(agent.map(str::to_owned));
        self.handle(Input::Opened {
            session,
            carrier,
            who,
        })
    }

    /// Opens a session of the person's.
    fn open_for_person(&mut self, session: SessionId) -> Vec<Effect> {
        self.handle(Input::Opened {
            session,
            carrier: Carrier::Exchange,
            who: Who::Person,
        })
    }

    /// Opens a session on a stream that registers an agent.
    fn register(&mut self, session: SessionId, registration: agents::Registration) -> Vec<Effect> {
        self.handle(Input::Opened {
            session,
            carrier: Carrier::Stream,
            who: Who::Registered(Box::new(registration)),
        })
    }

    fn close(&mut self, session: SessionId, ending: Ending) -> Vec<Effect> {
        self.handle(Input::Closed { session, ending })
    }

    fn call(&mut self, session: SessionId, call: u64, command: Command) -> Vec<Effect> {
        let random = [self.posts + 1; 16];
        self.handle(Input::Call {
            session,
            call: CallId(call),
            random,
            command,
        })
    }

    /// Has pm post two messages to dev-a, in calls 1 and 2, whose ids differ in the last digit alone: `abababab-abab-4bab-abab-ababababab0a`
    /// and the same with `0b`.
    fn post_two_that_begin_alike(&mut self) {
        for (call, last) in [(1, 0x0a), (2, 0x0b)] {
            let mut random = [0xab; 16];
            random[15] = last;
            self.handle(Input::Call {
                session: A,
                call: CallId(call),
                random,
                command: post(Some("pm"), "dev-a", ""),
            });
        }
    }

    fn post(&mut self, session: SessionId, call: u64, delivery: &Delivery) -> Vec<Effect> {
        self.post_with(session, call, delivery, None)
    }

    fn post_with(
        &mut self,
        session: SessionId,
        call: u64,
        delivery: &Delivery,
        options: Option<mail::PostOptions>,
    ) -> Vec<Effect> {
        let message = &delivery.message;
        let command = Command::Mail(mail::Command::Post {
            from: Some(message.from.to_string()),
            to: message.to.to_string(),
            kind: message.kind,
            body: message.body.clone(),
            options: options.map(Box::new),
        });
        self.call(session, call, command)
    }

    fn passed(&mut self, call: u64) -> Vec<Effect> {
        self.sign(call, Sign::Passed)
    }

    fn followed(&mut self, call: u64) -> Vec<Effect> {
        self.sign(call, Sign::Followed)
    }

    fn kept_alive(&mut self, session: SessionId) -> Vec<Effect> {
        self.handle(Input::KeptAlive { session })
    }

    /// The client cancels a call, whether it waits or was answered.
    fn cancelled(&mut self, call: u64) -> Vec<Effect> {
        match self.handovers.get(&call) {
            Some(&handover) => self.handle(Input::Signed {
                handover,
                sign: Sign::Cancelled,
            }),
            None => self.handle(Input::Cancelled { call: CallId(call) }),
        }
    }

    /// Nobody is left to read the answer to a call, whether it waits or was answered.
    fn lost(&mut self, call: u64) -> Vec<Effect> {
        match self.handovers.get(&call) {
            Some(&handover) => self.handle(Input::Signed {
                handover,
                sign: Sign::Lost,
            }),
            None => self.handle(Input::Cancelled { call: CallId(call) }),
        }
    }

    /// Lets the time come that is that many milliseconds after the start, and says so.
    fn timeout_at(&mut self, ms: i64) -> Vec<Effect> {
        self.now = START.plus_millis(ms);
        let mut effects = Vec::new();
        self.engine.handle_timeout(self.now, &mut effects);
        self.seen(effects)
    }

    /// Lets as much time pass as a cancellation may be late by.
    fn settle(&mut self) -> Vec<Effect> {
        let ms = self.now.as_millis() - START.as_millis();
        self.timeout_at(ms + CANCEL_GRACE_MS)
    }

    /// How many messages wait for each of the roster's agents.
    fn pending(&self) -> Vec<usize> {
        let mut pending = self.engine.status().pending;
        let person = pending.pop().map(|(agent, _)| agent);
        assert_eq!(person, Some(AgentName::person()), "the person comes last");
        pending.into_iter().map(|(_, count)| count).collect()
    }
}

/// An agent's name as it is shown: `name`, or `project:name`.
fn name(agent: &str) -> AgentName {
    let (project, name) = agent.split_once(':').unwrap_or((DEFAULT_PROJECT, agent));
    AgentName::in_project(project, name).expect("a good name")
}

fn opened(session: SessionId, agent: &str) -> Effect {
    let result = Ok(Some(name(agent)));
    Effect::Opened { session, result }
}

/// What the n-th draw of random bytes makes, the one for the boot being the 0-th.
fn id(n: u8) -> uuid::Uuid {
    uuid::Builder::from_random_bytes([n; 16]).into_uuid()
}

fn read(agent: &str) -> Command {
    wait(agent, 0)
}

fn wait(agent: &str, wait_ms: u32) -> Command {
    Command::Mail(mail::Command::read_all(Some(agent.to_owned()), wait_ms))
}

fn look(agent: &str) -> Command {
    Command::Mail(mail::Command::Pending {
        agent: Some(agent.to_owned()),
    })
}

fn post(from: Option<&str>, to: &str, body: &str) -> Command {
    Command::Mail(mail::Command::Post {
        from: from.map(str::to_owned),
        to: to.to_owned(),
        kind: Kind::Free,
        body: body.to_owned(),
        options: None,
    })
}

fn reply(call: u64, result: Result<Reply, Refusal>) -> Effect {
    Effect::Reply {
        call: CallId(call),
        result,
        handover: None,
    }
}

fn refused(call: u64, refusal: Refusal) -> Effect {
    reply(call, Err(refusal))
}

/// The answer to an accepted post.
fn accepted(call: u64, delivery: &Delivery) -> [Effect; 1] {
    let message = &delivery.message;
    let posted = mail::Reply::Posted {
        id: message.id,
        given: message.to.as_str().into(),
        to: message.to.clone(),
        ts: message.ts,
        thread: message.thread().map(Box::from),
        warnings: Box::default(),
        absence: None,
    };
    [reply(call, Ok(Reply::Mail(posted)))]
}

fn shown(call: u64, deliveries: impl IntoIterator<Item = Delivery>) -> Effect {
    let deliveries: Vec<Delivery> = deliveries.into_iter().collect();
    reply(
        call,
        Ok(Reply::Mail(mail::Reply::Messages {
            deliveries: Arc::new(deliveries),
            restarted: None,
            remaining: 0,
            part: None,
            is_cut: false,
            earlier: Vec::new(),
            waited_ms: 0,
            project: None,
        })),
    )
}

fn nothing(call: u64) -> Effect {
    shown(call, [])
}

/// A reply that tells of the start, too.
fn told(call: u64, deliveries: impl IntoIterator<Item = Delivery>) -> Effect {
    let deliveries: Vec<Delivery> = deliveries.into_iter().collect();
    reply(
        call,
        Ok(Reply::Mail(mail::Reply::Messages {
            deliveries: Arc::new(deliveries),
            restarted: Some(START),
            remaining: 0,
            part: None,
            is_cut: false,
            earlier: Vec::new(),
            waited_ms: 0,
            project: None,
        })),
    )
}

/// A reply that is about something else, and tells of the start too.
fn told_beside(effect: Effect) -> Effect {
    let Effect::Reply {
        call,
        result: Ok(answer),
        ..
    } = effect
    else {
        panic!("{effect:?} is no answer");
    };
    let started_at = START;
    let reply = Box::new(answer);
    self::reply(call.0, Ok(Reply::AfterStart { started_at, reply }))
}

fn kinds(call: u64, kinds: impl IntoIterator<Item = Kind>) -> Effect {
    let kinds = kinds.into_iter().collect();
    reply(call, Ok(Reply::Mail(mail::Reply::Pending { kinds })))
}

/// A relay that handed two messages for `dev-a` to `session`, in the reply to call 10.
fn handed_to(session: SessionId) -> Relay {
    let mut relay = Relay::told();
    if session == EXCHANGE {
        relay.open(EXCHANGE, Carrier::Exchange, None);
    }
    relay.post(C, 1, &nth(1));
    relay.post(C, 2, &nth(2));
    let both = shown(10, [nth(1), nth(2)]);
    assert_eq!(relay.call(session, 10, read("dev-a")), [both]);
    relay
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

/// Shows that the hand-over stands: nobody else has its messages until the reply is lost.
#[track_caller]
fn assert_in_doubt(mut relay: Relay) {
    let session = SessionId(9);
    relay.open(session, Carrier::Stream, None);
    assert_eq!(relay.call(session, 97, read("dev-a")), [nothing(97)]);
    assert_eq!(relay.lost(10), NONE);
    let both = shown(99, [again(&nth(1)), again(&nth(2))]);
    assert_eq!(relay.call(session, 99, read("dev-a")), [both]);
}

#[track_caller]
fn assert_undone(mut relay: Relay) {
    let session = SessionId(9);
    relay.open(session, Carrier::Stream, None);
    let both = shown(99, [again(&nth(1)), again(&nth(2))]);
    assert_eq!(relay.call(session, 99, read("dev-a")), [both]);
    assert_eq!(relay.call(session, 98, read("dev-a")), [nothing(98)]);
}

/// When the timer of a reply that was read that many milliseconds after the start runs out, if nothing else comes.
fn settles_at(ms: i64) -> Option<(Timestamp, Reason)> {
    doubt_ends_at(ms + CANCEL_GRACE_MS + SETTLE_SLACK_MS)
}

fn doubt_ends_at(ms: i64) -> Option<(Timestamp, Reason)> {
    Some((START.plus_millis(ms), Reason::DoubtEnds))
}

const NONE: [Effect; 0] = [];

/// All that can be seen of a reply.
const SIGNS: [Sign; 19] = [
    Sign::Seen,
    Sign::Unseen,
    Sign::Listed,
    Sign::Receipted,
    Sign::Failed,
    Sign::Deferred(START),
    Sign::DeferralOver,
    Sign::Acknowledged,
    Sign::Passed,
    Sign::Followed,
    Sign::CalledAgain,
    Sign::KeptAlive,
    Sign::DoubtOver,
    Sign::Settled,
    Sign::Ended(Ending::Orderly),
    Sign::Ended(Ending::Broken),
    Sign::Cancelled,
    Sign::Lost,
    Sign::Fenced,
];

/// The agents in the answer to a list of them.
fn listed_in(effects: &[Effect]) -> &[agents::AgentView] {
    let [
        Effect::Reply {
            result: Ok(Reply::Agents(agents::Reply::Listed { agents, .. })),
            ..
        },
    ] = effects
    else {
        panic!("{effects:?}");
    };
    agents
}

fn list_of(which: Which) -> Command {
    agents::Command::List { project: None, which }.into()
}

fn list(project: Option<&str>, active_only: bool) -> Command {
    let project = project.map(str::to_owned);
    let which = if active_only { Which::Active } else { Which::All };
    agents::Command::List { project, which }.into()
}
