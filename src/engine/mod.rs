//! The pure core: who may post and read, what waits for whom, and when a message counts as read.
//!
//! It must not know of sockets, tasks, clocks, randomness, JSON or MCP. Time and random bytes are
//! arguments; everything that happens is an [`Input`], or that its time has come, everything it wants done an [`Effect`];
//! and its state is plain data: the same of both give the same state, a copy of it goes on like the original.
//!
//! # Rooms
//!
//! `io` has what goes in and comes out, and joins what each topic has of it: `agents`, the one gate by which a session
//! speaks for one, and who there is; `groups`; `channels`; `sessions`, who is connected; `mail`, which posts (`posts`) and reads; `nodes`, which take deliveries for agents, and
//! `node_sessions`, what they say; `pushes`, what relay itself takes to them; `actions`, which agents and nodes offer, and `invocations`, what is asked of them; `workers`, agents for which a process is started. A topic's commands,
//! replies and refusals stand beside its code. Beneath them are `registry`, which agents come and go; `address`, who is meant by one; `threads`, what a message belongs
//! to; `handling`, how it is to be brought; `idempotency`, which posts are known by a key; `inbox`, one agent's queue; `absence`, whether anybody is there to read it; `waits`, the calls that are parked; `programs`, the agent CLIs that show their models what they are handed, and `surfacing`, when they do; `watches`, the sessions that are told of changes;
//! `frames`, what is on its way to a node; `handover`, what was handed over and is not known to have arrived; `signs`, the table of what confirms and what undoes it;
//! `receipts`, what an agent says of a single delivery; `holds`, what the person lets stand aside; `room`, how much of a reply a client shows; `timers`, what ends by itself;
//! `events`, what has happened; `ring`, which keeps of them what happened to each message; `trace`, which shows it to the person who asks; and `records`, which
//! goes back to a message that is kept there, and takes what agents say about it.
//!
//! # Laws
//!
//! - Validate, then mutate, then push effects: a refusal changes nothing. That a tool was called at all still confirms what
//!   was passed to its stream before, and shows that a worker is there.
//! - Every call is answered once, unless it was cancelled or its session closed first.
//! - A wait ends in exactly five ways: woken, expired, superseded, cancelled, fenced. Nobody waits whom a
//!   message, or the news of the start, is there for.
//! - A hand-over ends in exactly two ways: confirmed, and its messages never appear again; or undone,
//!   and they are back in their old places, marked as redelivered.
//! - The person is an agent that is there beside the roster; only a session that was opened as the person's
//!   ([`Who::Person`]) reads its inbox or speaks for it.
//! - What goes to a node has a number that nothing else ever has; only an acknowledgement of that number confirms it, or a receipt of
//!   its agent, and while the node holds an agent nobody else reads what comes for it, but what is held until the agent asks for it
//!   and the answers that it waits for.
//! - What the person holds stands aside: it keeps its place, and nobody is handed it until the person lets it pass.
//! - At most one worker of a name lives; what is said of an earlier one changes nothing for a later one.
//! - Every transition is told of by an [`Event`].

pub mod absence;
pub mod actions;
pub mod address;
pub mod agents;
mod asking_again;
pub mod channels;
mod events;
mod finger;
mod frames;
mod giving_way;
pub mod groups;
pub mod handling;
mod handover;
pub mod holds;
mod idempotency;
mod inbox;
mod invariants;
pub mod invocations;
mod io;
pub mod limits;
pub mod mail;
mod message;
mod names;
mod node_sessions;
mod node_table;
pub mod nodes;
mod overview;
mod posts;
mod programs;
pub mod pushes;
mod reading;
pub mod receipts;
pub mod records;
mod registry;
mod ring;
pub mod room;
mod roster;
pub mod sessions;
mod signs;
pub mod surfacing;
mod threads;
mod time;
mod timers;
pub mod trace;
mod unnamed;
mod waits;
pub mod watches;
pub mod workers;

use std::collections::{BTreeMap, BTreeSet};

use actions::Actions;
use address::Home;
use agents::Agent;
pub use events::{Event, PartOf, Places, WaitEnd};
pub use frames::{Frame, News, Told};
use groups::Groups;
use handover::Handover;
use holds::Holds;
use idempotency::Idempotency;
use inbox::Inbox;
use io::Outcome;
pub use io::{Carrier, Class, Command, Effect, Ending, Input, Refusal, Reply, Sign, Who};
use limits::Bounds;
pub use message::{Context, Delivery, Kind, Message};
pub use names::{
    AgentName, Boot, CallId, ChannelName, ClientId, DEFAULT_PROJECT, GroupName, HandoverId, InvalidName,
    InvocationId, MessageId, NodeId, PERSON, RELAY, RandomBytes, Recipient, ResolvedBy, Role, Seq, SessionId,
    WorkerId, check_name, is_label, shown, uuid_v4,
};
use nodes::Nodes;
pub use overview::{InboxView, Overview, ProgramView, SessionView, WaitView};
pub use programs::{Abilities, Activity};
use ring::Trace;
pub use roster::{InvalidRoster, Known, Roster};
use sessions::Session;
pub use time::Timestamp;
pub use timers::Reason;
use timers::{Timer, Timers};
use waits::Wait;
use watches::{Watched, Watches};
use workers::Workers;

/// The whole state of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Engine {
    boot: Boot,
    bounds: Bounds,
    roster: Roster,
    /// Where it is reached, as it is shown.
    place: String,
    /// The project whose own it is.
    home: Home,
    /// The agents that had a session before this start; none where nobody knows.
    had_sessions: Option<BTreeSet<AgentName>>,
    /// The agent that was the latest to give its first sign of life since the start.
    newly_seen: Option<AgentName>,
    /// Those of the roster, and those that were registered.
    agents: BTreeMap<AgentName, Agent>,
    /// The agents that have said which role they have.
    roles: BTreeMap<Role, BTreeSet<AgentName>>,
    /// Transient agents without a session, with when they go.
    leaving: BTreeSet<(Timestamp, AgentName)>,
    groups: Groups,
    idempotency: Idempotency,
    /// One for each agent, and the person's.
    inboxes: BTreeMap<AgentName, Inbox>,
    sessions: BTreeMap<SessionId, Session>,
    /// The agents that clients were given.
    of_clients: BTreeMap<ClientId, AgentName>,
    handovers: BTreeMap<HandoverId, Handover>,
    /// How many hand-overs there were: the number of the next one.
    handovers_made: u64,
    waits: BTreeMap<CallId, Wait>,
    /// The calls that stand by for programs, with whose sessions they are.
    waiters: BTreeMap<CallId, SessionId>,
    watches: Watches,
    nodes: Nodes,
    actions: Actions,
    holds: Holds,
    workers: Workers,
    trace: Trace,
    /// The ends of all waits, and of all doubts that are still to end.
    timers: Timers,
    /// How far the clock that people read is ahead of the time that is handed in, in milliseconds.
    wall_ahead_ms: i64,
    stopping: bool,
}

/// One input on its way through the engine.
struct Step<'a> {
    /// By this, things last.
    now: Timestamp,
    /// When that is by the clock that people read: what is shown, and what deadlines are of.
    wall: Timestamp,
    out: &'a mut Vec<Effect>,
    /// Whose inboxes have got something that may wake a wait.
    news: Vec<AgentName>,
    /// Which sessions are to be told of what has changed, some of them more than once.
    changes: Vec<(SessionId, Watched)>,
    /// For whom the call is carried out, if its reply is to tell of the start.
    to_tell: Option<AgentName>,
    /// A client looks for itself, whatever its agent does.
    is_a_client_s: bool,
    /// Handlers of actions may be reached over other connections than before.
    moves_handlers: bool,
    /// How many of the effects the trace has taken in, or were there before the step.
    traced: usize,
}

impl<'a> Step<'a> {
    fn new(now: Timestamp, wall: Timestamp, out: &'a mut Vec<Effect>) -> Self {
        Self {
            now,
            wall,
            traced: out.len(),
            out,
            news: Vec::new(),
            changes: Vec::new(),
            to_tell: None,
            is_a_client_s: false,
            moves_handlers: false,
        }
    }

    fn note(&mut self, event: Event) {
        self.out.push(Effect::Note(event));
    }

    /// Has whoever waits for an inbox woken at the end of the step.
    fn wakes(&mut self, agent: AgentName) {
        self.news.push(agent);
    }
}

/// What a person may know of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// This start.
    pub boot: Boot,
    /// How many sessions are open.
    pub sessions: usize,
    /// How many messages wait for each agent, in the order of the roster, and then for the person, with those that stand aside;
    /// hand-overs are not counted.
    pub pending: Vec<(AgentName, usize)>,
}

/// Making it and looking at it.
impl Engine {
    /// Makes the state of a relay that starts now, with an empty inbox for each agent and one for the person.
    ///
    /// The boot id is made of `random`.
    pub fn new(now: Timestamp, roster: Roster, bounds: Bounds, random: RandomBytes) -> Self {
        let boot = Boot {
            id: uuid_v4(random),
            started_at: now,
        };
        let names = roster.names().iter().cloned().chain([AgentName::person()]);
        let agent = |name: &AgentName| (name.clone(), Agent::default());
        Self {
            boot,
            bounds,
            place: String::new(),
            home: Home::default(),
            had_sessions: None,
            newly_seen: None,
            agents: roster.names().iter().map(agent).collect(),
            roles: BTreeMap::new(),
            leaving: BTreeSet::new(),
            groups: Groups::default(),
            idempotency: Idempotency::default(),
            inboxes: names.map(|agent| (agent, Inbox::new())).collect(),
            roster,
            sessions: BTreeMap::new(),
            of_clients: BTreeMap::new(),
            handovers: BTreeMap::new(),
            handovers_made: 0,
            waits: BTreeMap::new(),
            waiters: BTreeMap::new(),
            watches: Watches::default(),
            nodes: Nodes::default(),
            actions: Actions::default(),
            holds: Holds::default(),
            workers: Workers::default(),
            trace: Trace::default(),
            timers: Timers::default(),
            wall_ahead_ms: 0,
            stopping: false,
        }
    }

    /// Says where the relay is reached, as it is shown to whoever asks.
    #[must_use]
    pub fn reached_at(self, place: String) -> Self {
        Self { place, ..self }
    }

    /// Says which project's own the relay is, if it is one's.
    #[must_use]
    pub fn at_home_in(self, home: Home) -> Self {
        Self { home, ..self }
    }

    /// Says which agents had a session before this start, if that is known: no other agent has lost anything, and no other is told of
    /// the start. The person is told if anybody is.
    #[must_use]
    pub fn after_sessions_of(self, had_sessions: Option<BTreeSet<AgentName>>) -> Self {
        let mut engine = Self { had_sessions, ..self };
        let mut inboxes = std::mem::take(&mut engine.inboxes);
        for (agent, inbox) in &mut inboxes {
            inbox.notice_due = engine.may_have_lost_something(agent);
        }
        Self { inboxes, ..engine }
    }

    /// Returns the agents that are always there.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Returns what a person may know of the state.
    pub fn status(&self) -> Status {
        let waiting = |inbox: &Inbox| inbox.waiting().len() + inbox.aside().len();
        let pending = |(agent, inbox): (&AgentName, &Inbox)| (agent.clone(), waiting(inbox));
        Status {
            boot: self.boot,
            sessions: self.sessions.len(),
            pending: self.inboxes_in_order().map(pending).collect(),
        }
    }

    /// Goes through the inboxes in the order of the roster; then come the other agents', and the person's.
    fn inboxes_in_order(&self) -> impl Iterator<Item = (&AgentName, &Inbox)> {
        let names = self.roster.names().iter();
        let others = self
            .agents
            .keys()
            .filter(|agent| self.roster.find(agent.as_str()).is_none());
        let names = names.chain(others).map(AgentName::as_str);
        let inbox = |name| self.inboxes.get_key_value(name).expect("each agent has an inbox");
        names.chain([PERSON]).map(inbox)
    }
}

/// The three verbs.
impl Engine {
    /// Takes one input and pushes what is to be done about it, in order.
    ///
    /// `now` must not be earlier than in the call before, and runs evenly: how far the clock that people read is ahead of it is told by
    /// [`Input::WallClock`].
    pub fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Effect>) {
        let step = &mut Step::new(now, self.on_the_wall(now), out);
        self.settle(step);
        self.let_go(step);
        self.expire(step);
        match input {
            Input::Opened {
                session,
                carrier,
                who,
            } => {
                let result = self.open(session, carrier, who, step);
                step.out.push(Effect::Opened { session, result });
            }
            Input::Named { session, client } => self.name_client(session, client, step),
            Input::Closed { session, ending } => self.close(session, ending, step),
            Input::Call {
                session,
                call,
                random,
                command,
            } => self.call(session, call, random, command, step),
            Input::Cancelled { call } => self.cancel_wait(call, step),
            Input::Signed { handover, sign } => self.sign(handover, sign, step),
            Input::KeptAlive { session } => self.keep_alive(session, step),
            Input::Worker { worker, happened } => self.worker_happened(worker, happened, step),
            Input::WallClock { ahead_ms } => {
                self.wall_ahead_ms = ahead_ms;
                step.wall = self.on_the_wall(now);
                self.expire(step);
            }
            Input::Stopping => self.stop(step),
        }
        self.finish(step);
    }

    /// Returns the agent that has given its first sign of life since the start in the last step, once.
    pub fn take_newly_seen(&mut self) -> Option<AgentName> {
        self.newly_seen.take()
    }

    /// Returns when [`Self::handle_timeout`] is due next, and for what; nothing while nothing is. That an agent is to go is something
    /// only while somebody watches who there is: else it has time until the next input.
    pub fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        let is_told = !self.watches.agents.is_empty();
        let leaving = self.leaving.first().filter(|_| is_told);
        let leaves = leaving.map(|(at, _)| (*at, Reason::AgentLeaves));
        let next = self.timers.next(self.wall_ahead_ms);
        next.into_iter().chain(leaves).min()
    }

    /// Does all that is due at `now`, earliest first; nothing when called too early.
    pub fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let step = &mut Step::new(now, self.on_the_wall(now), out);
        self.settle(step);
        self.expire(step);
        while let Some(timer) = self.timers.due(now) {
            match timer {
                Timer::WaitExpires(call) => self.end_wait(call, WaitEnd::Expired, step),
                Timer::DoubtEnds(handover) => self.end_doubt(handover, step),
                Timer::NodeLapses(node) => self.lapse(node, step),
                Timer::DeferralEnds(handover) => self.sign(handover, Sign::DeferralOver, step),
                Timer::InvocationEnds(invocation) => self.time_out(invocation, step),
                Timer::PushResumes(agent) => self.resume(&agent, step),
                Timer::ProgramGone(session) => self.program_gone(session, step),
                Timer::WorkerStarts(worker) => self.worker_is_late(worker, step),
                Timer::WorkerSilent(worker) => self.worker_is_silent(worker, step),
            }
        }
        self.let_go(step);
        self.finish(step);
    }

    /// Hands on what workers that were released, or have never run, have not read, wakes who waits for what a step has brought, sends it to the nodes of agents that are bound, wakes the programs of those that are not, tells who watches what it has changed, and takes into the
    /// trace what has happened.
    fn finish(&mut self, step: &mut Step<'_>) {
        self.hand_on(step);
        let mut news = std::mem::take(&mut step.news);
        news.sort_unstable();
        news.dedup();
        // What has come for an agent may have expired, and the agent be gone.
        news.retain(|agent| self.inboxes.contains_key(agent));
        for agent in news {
            self.wake(&agent, step);
            self.send_frames(&agent, step);
            self.wake_programs(&agent, step);
        }
        if step.moves_handlers {
            self.send_invocations(step);
        }
        self.tell_of_changes(step);
        self.trace_events(step);
        self.check_invariants();
    }
}

/// Dispatch.
impl Engine {
    fn call(
        &mut self,
        session: SessionId,
        call: CallId,
        random: RandomBytes,
        command: Command,
        step: &mut Step<'_>,
    ) {
        // The session closed while its call was on the way: there is nobody to answer.
        let Some(state) = self.sessions.get(&session) else {
            return;
        };
        let mut again = None;
        if state.is_to_be_named() {
            self.goes_on_unnamed(session, step);
            again = self.sessions[&session].is_to_be_named().then(|| command.clone());
        }
        let is_a_tool_s = command.is_a_tool_s();
        if is_a_tool_s {
            self.sign_all(session, Sign::CalledAgain, step);
        }
        if is_a_tool_s || matches!(command, Command::Surfacing(_)) {
            self.is_heard_of(session, step);
        }
        let mut outcome = self.carry_out(session, call, random, command, step);
        // It needs an agent; its refusal has changed nothing.
        if let Err(Refusal::Agents(agents::Refusal::Anonymous { .. })) = outcome
            && let Some(command) = again
        {
            let named = self.give_name(session, random, step).map_err(Refusal::from);
            outcome = named.and_then(|()| self.carry_out(session, call, random, command, step));
        }
        let (result, handover) = match outcome {
            Ok(Outcome::Parked) => return,
            Ok(Outcome::Answered(answer)) => {
                let answer = match step.to_tell {
                    Some(_) if is_a_tool_s => self.tell_of_start(session, answer, step),
                    Some(_) | None => answer,
                };
                (Ok(answer.reply), answer.handover)
            }
            Err(refusal) => (Err(refusal), None),
        };
        step.out.push(Effect::Reply {
            call,
            result,
            handover,
        });
    }

    fn carry_out(
        &mut self,
        session: SessionId,
        call: CallId,
        random: RandomBytes,
        command: Command,
        step: &mut Step<'_>,
    ) -> Result<Outcome, Refusal> {
        match command {
            Command::Mail(command) => self.mail(session, call, random, command, step),
            Command::Agents(command) => Ok(self.about_agents(session, command, step)?),
            Command::Groups(command) => self.about_groups(session, command, step),
            Command::Channels(command) => self.about_channels(session, command, step),
            Command::Watches(command) => Ok(self.about_watches(session, command)?),
            Command::Nodes(command) => Ok(self.about_nodes(session, command, random, step)?.into()),
            Command::Actions(command) => Ok(self.about_actions(session, command, random, step)?.into()),
            Command::Receipts(command) => Ok(self.about_receipts(session, command, step)?.into()),
            Command::Trace(command) => Ok(self.about_trace(session, &command, step)?),
            Command::Holds(command) => Ok(self.about_holds(session, command, step)?.into()),
            Command::Records(command) => Ok(self.about_records(session, command, step)?.into()),
            Command::Surfacing(command) => self.about_surfacing(session, call, command, step),
            Command::Workers(command) => self.about_workers(session, call, random, command, step),
            Command::Resource(command) => {
                step.is_a_client_s = true;
                self.carry_out(session, call, random, *command, step)
            }
        }
    }

    fn stop(&mut self, step: &mut Step<'_>) {
        self.stopping = true;
        step.note(Event::Stopping);
        self.end_workers(step);
        self.end_invocations(step);
        self.lapse_all(step);
        self.end_deferrals(step);
        while let Some((&call, _)) = self.waits.first_key_value() {
            self.end_wait(call, WaitEnd::Expired, step);
        }
        while let Some((_, &session)) = self.waiters.first_key_value() {
            self.end_waiter(session, WaitEnd::Expired, Err(Refusal::Stopping), step);
        }
    }

    /// Returns what the clock that people read shows at a moment.
    fn on_the_wall(&self, at: Timestamp) -> Timestamp {
        at.plus_millis(self.wall_ahead_ms)
    }

    fn inbox_mut(&mut self, agent: &AgentName) -> &mut Inbox {
        self.inboxes.get_mut(agent).expect("each agent has an inbox")
    }
}
