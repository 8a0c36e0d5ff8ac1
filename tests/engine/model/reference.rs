//! The reference model: the delivery contract as flat lists that are searched from end to end.
//!
//! Written from the contract, not from the engine. It shares the engine's plain values and none of its code, keeps
//! every message for ever, and never cares how long anything takes.
//!
//! Where the contract leaves an order open, the model takes this one: arguments are judged in the order in which a
//! command lists them, then the body, then the room; of what is due at the same moment, or ends with the relay,
//! waits come before doubts, lower call numbers before higher ones, and what was handed over first before what was later; a closed session's agents are served in the
//! order of their names; and changes are told behind all else.

mod addresses;
mod again;
mod calls;
mod channels;
mod coming;
mod gatherings;
mod holds;
mod keys;
mod overview;
mod parts;
mod people;
mod posts;
mod records;
mod replies;
mod sessions;
mod threads;
mod trace;
mod waits;
mod watches;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use relay::engine::address::Home;
use relay::engine::agents::{NamedAs, Profile, Registration, Which};
use relay::engine::limits::{
    ACTIVE_MS, Bounds, CANCEL_GRACE_MS, DOUBT_LATE_MS_MAX, DOUBT_MS, GONE_MIN, IDEMPOTENCY_KEY_BYTES_MAX,
    IDEMPOTENCY_MS, IDLE_PARTS, PROFILE_BYTES_MAX, READERS_MAX, RECENT_BYTES_MAX, RECENT_MAX,
    SETTLE_SLACK_MS, THREAD_BYTES_MAX, TRANSIENT_MS,
};
use relay::engine::room::{Part, Room};
use relay::engine::watches::Watched;
use relay::engine::{
    AgentName, Boot, CallId, Carrier, ChannelName, ClientId, Command, Context, Delivery, Effect, Ending,
    GroupName, InboxView, Input, InvalidName, Kind, Known, Message, MessageId, Overview, Reason, Recipient,
    Refusal, Reply, ResolvedBy, Role, Roster, Seq, SessionId, SessionView, Sign, Status, Timestamp, WaitView,
    Who, agents, groups, mail,
};
use uuid::Uuid;

use crate::model::marks::{AddressMark, HoldMark, Mark, Marks};
use crate::model::plan::Event;
use again::AskedFor;
use trace::Told;
use watches::Changed;

/// The whole state, as naive as it can be.
pub struct Model {
    boot: Boot,
    /// The project whose own the relay is.
    home: Option<&'static str>,
    bounds: Bounds,
    roster: Roster,
    /// Those of the roster, and those that were registered, in any order.
    agents: Vec<Agent>,
    groups: Vec<Group>,
    channels: Vec<Channel>,
    /// Every copy of a message that was ever accepted, in the order of acceptance.
    messages: Vec<Kept>,
    /// The posts that had a key, whoever has not gone sent them.
    keyed: Vec<Keyed>,
    /// How many messages were accepted.
    accepted: u64,
    /// How many replies handed something over.
    handed_over: u64,
    /// How many of them were confirmed.
    confirmed: u64,
    /// The agents that had a session before the start, if that is known.
    had_sessions: Option<BTreeSet<AgentName>>,
    /// For each agent, the news that the relay started.
    notices: Vec<Notice>,
    /// The call that is carried out is a tool's, whose answer may tell of the start.
    is_tools: bool,
    /// For whom that call was made, if it shows that it is there.
    spoke_for: Option<AgentName>,
    sessions: Vec<Open>,
    /// In the order in which they were parked.
    waits: Vec<Parked>,
    /// Replies with messages or news that are not known to have arrived.
    doubts: Vec<Doubt>,
    /// What agents have asked for again.
    asked_for: Vec<AskedFor>,
    /// Who watches what: a session that has ended, or was taken over, does not any more.
    watches: Vec<(SessionId, Watched)>,
    /// The moment of the step.
    now: Timestamp,
    /// All that ever happened to a message.
    told: Vec<(Timestamp, Told)>,
    /// How agents took messages, or did no more.
    reacted: Vec<(MessageId, AgentName, String, bool, Timestamp)>,
    /// What has changed in the step.
    changed: Vec<Changed>,
    stopping: bool,
    /// What the person holds: all, or who.
    holds_all: bool,
    held: BTreeSet<AgentName>,
    /// What was reached.
    pub marks: Marks,
}

/// Where a message, or the news of the start, is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// The person holds it.
    Aside,
    Handed(CallId),
    /// All of its parts are in replies.
    InParts,
    Read,
    /// The person has dropped it.
    Dropped,
}

/// A message in an inbox.
#[derive(Debug)]
struct Kept {
    agent: AgentName,
    /// The how-manieth message it was that was accepted.
    number: u64,
    delivery: Delivery,
    state: State,
    /// To whom it is shown in parts, and how far it was.
    parts: Vec<Parts>,
    /// How many parts were shown to these.
    parts_shown: u64,
    /// With the how-manieth reply it was handed over, or the latest part of it, the last time.
    handed_with: u64,
    /// It was read, and so long ago that nobody knows it any more.
    forgotten: bool,
    /// With the how-manieth reply it is known to have arrived, once it is.
    read_with: u64,
    /// The person has let it pass by its id.
    allowed: bool,
    /// The person took it the last time, in its agent's stead.
    in_stead: bool,
}

/// Who goes on with the next part: a client by the name that it gives, a stream, or a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reads {
    Client(ClientId),
    Stream(SessionId),
    Connection(SessionId),
}

/// How far a message was shown to one reader in parts.
#[derive(Debug, Clone)]
struct Parts {
    to: Reads,
    /// How many this one was shown itself.
    shown: u32,
    /// Where the next one begins, and which it is.
    next: (usize, u32),
    /// The first one that it was shown.
    begun: u32,
    /// How many had been shown to all when it was shown its latest.
    at: u64,
    /// The calls whose replies have one and are not known to have arrived, with where each begins and which it is.
    standing: Vec<(CallId, (usize, u32))>,
}

/// A post that was accepted with a key.
#[derive(Debug, Clone)]
struct Keyed {
    from: AgentName,
    key: String,
    at: Timestamp,
    /// All that it said.
    said: Said,
    answer: mail::Reply,
    /// More were sent behind it than are known at a time. That is so for ever, also if those are forgotten with their sender.
    forgotten: bool,
}

/// What a post says: where it goes, its kind, its body, and what it belongs to.
type Said = (String, Kind, String, [Option<String>; 3]);

#[derive(Debug, Clone)]
struct Agent {
    name: AgentName,
    profile: Profile,
    instance: Option<Uuid>,
    transient: bool,
    last_contact: Option<Timestamp>,
    /// The session that did so.
    last_session: Option<SessionId>,
    /// The last of its sessions has ended since, as far as that says something.
    has_left: bool,
    /// When a transient agent without a session is to go, if nothing is in its inbox.
    leaves_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
struct Group {
    name: GroupName,
    description: String,
    created_at: Timestamp,
    created_by: AgentName,
    members: Vec<groups::Member>,
}

#[derive(Debug, Clone)]
struct Channel {
    name: ChannelName,
    topic: String,
    created_at: Timestamp,
    members: Vec<(AgentName, Timestamp)>,
}

#[derive(Debug)]
struct Notice {
    agent: AgentName,
    state: State,
    undone: bool,
}

#[derive(Debug, Clone)]
struct Open {
    session: SessionId,
    carrier: Carrier,
    client: Option<ClientId>,
    agent: Option<AgentName>,
    person: bool,
    /// Its client has named its process.
    is_of_process: bool,
    /// A later instance has taken its agent over.
    fenced: bool,
}

#[derive(Debug, Clone)]
struct Parked {
    call: CallId,
    session: SessionId,
    agent: AgentName,
    wanted: Wanted,
    parked_at: Timestamp,
    expires_at: Timestamp,
}

/// What a read asks for of an inbox.
#[derive(Debug, Clone)]
struct Wanted {
    /// Only what one agent sent.
    from: Option<AgentName>,
    /// Only what was sent to a channel.
    channel: Option<ChannelName>,
    /// The oldest of it.
    limit: usize,
    /// And, if that is less, the latest of what was read before.
    earlier: bool,
    /// As much of it as the reply has room for.
    room: Option<Room>,
    /// Only what answers a message.
    answers: Option<Asked>,
    /// It waits on though its agent is to be told of the start.
    waits_past_start: bool,
}

/// A message that waits for its answer.
#[derive(Debug, Clone)]
struct Asked {
    number: u64,
    /// As it was given.
    to: String,
    /// Who got it.
    agents: Vec<AgentName>,
    thread: Option<String>,
    wait_ms: u32,
    room: Option<Room>,
}

#[derive(Debug, Clone)]
struct Doubt {
    call: CallId,
    /// The how-manieth reply it was that handed something over.
    number: u64,
    session: SessionId,
    /// Whose inbox was read.
    agent: AgentName,
    /// The person read it, in the agent's stead.
    in_stead: bool,
    carrier: Carrier,
    /// None before the reply was passed.
    passed: Option<Passed>,
    /// When its session showed that it has read the reply; it may still say that it did not want it.
    read_at: Option<Timestamp>,
    /// By what it showed that.
    read_by: Option<Sign>,
}

/// What is known of a reply that was passed to its socket.
#[derive(Debug, Clone, Copy)]
struct Passed {
    /// When the doubt began, for the last time.
    doubted_from: Timestamp,
    /// When the doubt came to its end, and not too late.
    outlived: Option<Timestamp>,
    /// A keep-alive was written behind the reply, since the doubt began.
    kept_alive: bool,
    /// The doubt was slept through at least once.
    anew: bool,
}

impl Kept {
    fn is_for(&self, agent: &AgentName) -> bool {
        self.agent == *agent
    }

    fn waits_for(&self, agent: &AgentName) -> bool {
        self.is_for(agent) && self.state == State::Waiting
    }

    fn is_aside_for(&self, agent: &AgentName) -> bool {
        self.is_for(agent) && self.state == State::Aside
    }

    /// Tells whether it takes room in an inbox.
    fn has_room_in(&self, agent: &AgentName) -> bool {
        self.is_for(agent) && !matches!(self.state, State::Read | State::Dropped)
    }

    /// Tells whether a read asks for it.
    fn is_wanted(&self, wanted: &Wanted) -> bool {
        let message = &self.delivery.message;
        if wanted.from.as_ref().is_some_and(|from| message.from != *from) {
            return false;
        }
        let channel = wanted.channel.as_ref().map(Recipient::channel);
        if channel.is_some_and(|channel| message.to != channel) {
            return false;
        }
        wanted.answers.as_ref().is_none_or(|asked| {
            let in_thread = asked.thread.is_some() && message.thread().map(str::to_owned) == asked.thread;
            self.number > asked.number && (in_thread || asked.agents.contains(&message.from))
        })
    }

    fn bytes(&self) -> usize {
        let message = &self.delivery.message;
        let context = message.context.as_ref();
        let metadata = context.and_then(|context| context.metadata.as_ref());
        message.body.len() + metadata.map_or(0, String::len)
    }
}

impl Agent {
    fn new(name: &AgentName) -> Self {
        Self {
            name: name.clone(),
            profile: Profile::default(),
            instance: None,
            transient: false,
            last_contact: None,
            has_left: false,
            last_session: None,
            leaves_at: None,
        }
    }
}

impl Notice {
    /// Nobody is told who had no session before the start; the person is if anybody had one.
    fn new(agent: AgentName, had_sessions: Option<&BTreeSet<AgentName>>) -> Self {
        let is_due = match had_sessions {
            None => true,
            Some(names) if agent.as_str() == "user" => !names.is_empty(),
            Some(names) => names.contains(&agent),
        };
        Self {
            agent,
            state: if is_due { State::Waiting } else { State::Read },
            undone: false,
        }
    }
}

impl Doubt {
    /// Returns when the doubt ends, while that is still to come.
    fn ends_at(&self) -> Option<Timestamp> {
        if let Some(read_at) = self.read_at {
            return Some(read_at.plus_millis(CANCEL_GRACE_MS + SETTLE_SLACK_MS));
        }
        let passed = self.passed.filter(|passed| passed.outlived.is_none())?;
        Some(passed.doubted_from.plus_millis(DOUBT_MS))
    }

    /// Tells whether time alone has said enough: a stream must have been written to as well.
    fn is_over(&self) -> bool {
        self.passed.is_some_and(|passed| {
            passed.outlived.is_some() && (passed.kept_alive || self.carrier == Carrier::Exchange)
        })
    }

    fn is_overdue(&self) -> bool {
        self.passed.is_some_and(|passed| passed.outlived.is_some())
    }

    fn began_anew(&self) -> bool {
        self.passed.is_some_and(|passed| passed.anew)
    }
}

/// What the engine offers, too.
impl Model {
    pub fn new(
        now: Timestamp,
        roster: Roster,
        bounds: Bounds,
        home: Option<&'static str>,
        had_sessions: Option<BTreeSet<AgentName>>,
        random: [u8; 16],
    ) -> Self {
        let id = version_4(random);
        let agents: Vec<Agent> = roster.names().iter().map(Agent::new).collect();
        let names = roster.names().iter().cloned().chain([AgentName::person()]);
        Self {
            boot: Boot { id, started_at: now },
            home,
            bounds,
            notices: names
                .map(|name| Notice::new(name, had_sessions.as_ref()))
                .collect(),
            had_sessions,
            is_tools: false,
            spoke_for: None,
            roster,
            agents,
            groups: Vec::new(),
            channels: Vec::new(),
            messages: Vec::new(),
            keyed: Vec::new(),
            accepted: 0,
            handed_over: 0,
            confirmed: 0,
            sessions: Vec::new(),
            waits: Vec::new(),
            doubts: Vec::new(),
            asked_for: Vec::new(),
            watches: Vec::new(),
            now,
            told: Vec::new(),
            reacted: Vec::new(),
            changed: Vec::new(),
            stopping: false,
            holds_all: false,
            held: BTreeSet::new(),
            marks: Marks::default(),
        }
    }

    pub fn handle(&mut self, now: Timestamp, event: Event) -> Vec<Effect> {
        self.now = now;
        let watches = self.watches.clone();
        let mut effects = self.carry_out(now, event);
        effects.extend(self.tell_of_changes(watches));
        effects
    }

    fn carry_out(&mut self, now: Timestamp, event: Event) -> Vec<Effect> {
        self.settle(now);
        if event != Event::Timeout {
            self.let_go(now);
        }
        match event {
            Event::Timeout => self.handle_timeout(now),
            Event::Input(Input::Opened {
                session,
                carrier,
                who,
            }) => self.open(now, session, carrier, &who),
            Event::Input(Input::Named { session, client }) => {
                let mut sessions = self.sessions.iter_mut();
                if let Some(open) = sessions.find(|open| open.session == session) {
                    open.client = Some(client);
                }
                Vec::new()
            }
            Event::Input(Input::Closed { session, ending }) => self.close(now, session, ending),
            Event::Input(Input::Call {
                session,
                call,
                random,
                command,
            }) => self.call(now, session, call, random, command),
            Event::Seen(call, Sign::Passed) => {
                self.passed(now, call);
                Vec::new()
            }
            Event::Seen(call, Sign::Followed) => {
                self.followed(now, call);
                Vec::new()
            }
            Event::Input(Input::KeptAlive { session }) => {
                self.kept_alive(now, session);
                Vec::new()
            }
            Event::Seen(call, Sign::Cancelled) => self.cancelled(now, call),
            Event::Seen(call, Sign::Lost) => self.lost(now, call),
            Event::Input(Input::Stopping) => self.stop(now),
            Event::Input(Input::Cancelled { .. } | Input::Signed { .. })
            | Event::Seen(
                _,
                Sign::CalledAgain
                | Sign::KeptAlive
                | Sign::DoubtOver
                | Sign::Acknowledged
                | Sign::Seen
                | Sign::Unseen
                | Sign::Listed
                | Sign::Receipted
                | Sign::Failed
                | Sign::Deferred(_)
                | Sign::DeferralOver
                | Sign::GivenUp
                | Sign::NotTaken
                | Sign::Redriven
                | Sign::Settled
                | Sign::Fenced
                | Sign::Ended(_),
            ) => {
                unreachable!("no plan says so")
            }
            Event::Input(Input::Worker { .. }) => unreachable!("no plan has workers"),
            Event::Input(Input::WallClock { .. }) => unreachable!("no plan sets the clock"),
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut too_early = !self.due().is_empty();
        while let Some((at, reason, _, call)) = self.due().into_iter().min()
            && at <= now
        {
            too_early = false;
            let together = self.due().into_iter().filter(|due| due.0 == at);
            let kinds = together.map(|due| due.1).collect::<Vec<_>>();
            let both = kinds.contains(&Reason::WaitExpires) && kinds.contains(&Reason::DoubtEnds);
            self.marks.reach_if(both, Mark::WaitAndDoubtDueTogether);
            match reason {
                Reason::WaitExpires => {
                    let on_time = if at == now {
                        Mark::ExpiryOnTime
                    } else {
                        Mark::ExpiryLate
                    };
                    self.marks.reach(on_time);
                    let wait = self.unpark(call).expect("it is due");
                    effects.push(self.end_in_vain(now, &wait));
                }
                Reason::DoubtEnds => self.doubt_ends(now, call),
                Reason::NodeLapses
                | Reason::DeferralEnds
                | Reason::InvocationEnds
                | Reason::PushResumes
                | Reason::WorkerStarts
                | Reason::WorkerSilent
                | Reason::ProgramGone => {
                    unreachable!("no plan has nodes, or workers")
                }
                Reason::DeadlinePasses => unreachable!("no plan has deadlines"),
                Reason::AgentLeaves => unreachable!("no call does"),
            }
        }
        let agents = self.agents.len();
        self.let_go(now);
        self.marks
            .reach_if(self.agents.len() < agents, Mark::TransientGoesByItself);
        self.marks.reach_if(too_early, Mark::TimeoutTooEarly);
        effects
    }

    pub fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        let due = self.due().into_iter().map(|(at, reason, ..)| (at, reason));
        let watches = self.watches.iter();
        let mut watches = watches.filter(|(_, what)| *what == Watched::Agents);
        let is_told = watches.any(|(session, _)| self.session(*session).is_some_and(|open| !open.fenced));
        let leaving = self.agents.iter().filter(|_| is_told);
        let leaving = leaving.filter_map(|agent| Some((agent.leaves_at?, Reason::AgentLeaves)));
        due.chain(leaving).min()
    }
}

/// Sets the version and the variant as RFC 9562 says in section 5.4.
fn version_4(mut bytes: [u8; 16]) -> uuid::Uuid {
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    uuid::Uuid::from_bytes(bytes)
}

/// Answers a call. Which number its hand-over has is not the contract's.
fn reply(call: CallId, result: Result<Reply, Refusal>) -> Effect {
    Effect::Reply {
        call,
        result,
        handover: None,
    }
}
