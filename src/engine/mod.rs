//! The pure core: who may post and read, what waits for whom, and when a message counts as read.
//!
//! It must not know of sockets, tasks, clocks, randomness, JSON or MCP. Time and random bytes are
//! arguments; everything that happens is an [`Input`], everything it wants done an [`Effect`].
//!
//! # Laws
//!
//! - Validate, then mutate, then push effects: a refusal leaves every inbox as it was. That the call came at all
//!   still confirms what was flushed to its stream before.
//! - Every call is answered once, unless it was cancelled or its session closed first.
//! - A wait ends in exactly four ways: woken, expired, superseded, cancelled. Nobody waits for an agent that has a
//!   message, or is still to be told of the start.
//! - A hand-over ends in exactly two ways: confirmed, and its messages never appear again; or undone,
//!   and they are back in their old places, marked as redelivered.
//! - The person is an agent that is there beside the roster; only a session that was opened as the person's
//!   ([`Who::Person`]) reads its inbox or speaks for it.
//!
//! # What confirms a hand-over
//!
//! First the reply's last byte must have been passed to the peer's socket ([`Input::Flushed`]). Then the first of
//! these confirms it:
//!
//! | carrier | confirmed by |
//! |---|---|
//! | [`Carrier::Stream`] | the session's next call; or, [`limits::DOUBT_MS`] after it was passed, a keep-alive that was written behind it ([`Input::KeptAlive`]) |
//! | [`Carrier::Exchange`] | bytes that came after it was passed ([`Input::Followed`]); an orderly end; [`limits::DOUBT_MS`] on an open connection |
//!
//! Any other end, a cancelled call and a lost reply undo it. A doubt that ends far too late
//! ([`limits::DOUBT_LATE_MS_MAX`]) does not count: the machine was asleep, and so was whoever could have said that the
//! reply was lost. It begins anew, and a keep-alive from before does not count for it.

mod inbox;
mod invariants;
mod io;
pub mod limits;
mod message;
mod names;
mod overview;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use inbox::Inbox;
pub use io::{Carrier, Command, Effect, Ending, Input, Reason, Refusal, Reply, Who};
use limits::{Bounds, DOUBT_LATE_MS_MAX, DOUBT_MS};
pub use message::{Delivery, Kind, Message};
pub use names::{
    AgentName, Boot, CallId, InvalidName, InvalidRoster, MessageId, PERSON, RandomBytes, Roster, Seq,
    SessionId, Timestamp, shown, uuid_v4,
};
pub use overview::{InboxView, Overview, SessionView, WaitView};

/// The whole state of a relay.
pub struct Engine {
    boot: Boot,
    bounds: Bounds,
    roster: Roster,
    random: RandomBytes,
    inboxes: BTreeMap<AgentName, Inbox>,
    sessions: BTreeMap<SessionId, Session>,
    handovers: BTreeMap<CallId, Handover>,
    waits: BTreeMap<CallId, Wait>,
    /// The ends of all waits, and of all doubts that are still to end.
    deadlines: BTreeSet<(Timestamp, Reason, CallId)>,
    stopping: bool,
}

/// An open session, with the calls that something hangs on.
#[derive(Debug)]
struct Session {
    carrier: Carrier,
    agent: Option<AgentName>,
    /// It is the person's, and bound to nobody.
    person: bool,
    handovers: BTreeSet<CallId>,
    waits: BTreeSet<CallId>,
}

/// Deliveries in a reply that is not known to have arrived.
#[derive(Debug)]
struct Handover {
    session: SessionId,
    agent: AgentName,
    deliveries: Arc<VecDeque<Delivery>>,
    /// The reply told of the start.
    notice: bool,
    passage: Passage,
}

/// How far a reply is known to have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passage {
    /// The shell has it.
    Written,
    /// The peer's socket has it.
    Passed {
        /// When the doubt ends.
        doubt_ends: Timestamp,
        /// Whether a keep-alive was written behind it.
        kept_alive: bool,
    },
    /// The doubt is over, and only a keep-alive behind it is missing.
    Overdue,
}

impl Passage {
    /// Returns when the doubt ends, if that is still to come.
    fn doubt_ends(self) -> Option<Timestamp> {
        match self {
            Self::Passed { doubt_ends, .. } => Some(doubt_ends),
            Self::Written | Self::Overdue => None,
        }
    }
}

/// A parked read.
#[derive(Debug)]
struct Wait {
    session: SessionId,
    agent: AgentName,
    expires_at: Timestamp,
}

/// What a person may know of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// This start.
    pub boot: Boot,
    /// How many sessions are open.
    pub sessions: usize,
    /// How many messages wait for each agent, in the order of the roster, and then for the person; hand-overs are not
    /// counted.
    pub pending: Vec<(AgentName, usize)>,
}

/// Making it and looking at it.
impl Engine {
    /// Makes the state of a relay that starts now, with an empty inbox for each agent and one for the person.
    ///
    /// `random` is asked for 16 bytes for the boot id and for each accepted message.
    pub fn new(now: Timestamp, roster: Roster, bounds: Bounds, mut random: RandomBytes) -> Self {
        let boot = Boot {
            id: uuid_v4(&mut random),
            started_at: now,
        };
        let names = roster.names().iter().cloned().chain([AgentName::person()]);
        Self {
            boot,
            bounds,
            inboxes: names.map(|agent| (agent, Inbox::new())).collect(),
            roster,
            random,
            sessions: BTreeMap::new(),
            handovers: BTreeMap::new(),
            waits: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            stopping: false,
        }
    }

    /// Returns the agents that there are.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Returns what a person may know of the state.
    pub fn status(&self) -> Status {
        let pending = |(agent, inbox): (&AgentName, &Inbox)| (agent.clone(), inbox.waiting.len());
        Status {
            boot: self.boot,
            sessions: self.sessions.len(),
            pending: self.inboxes_in_order().map(pending).collect(),
        }
    }

    /// Goes through the inboxes in the order of the roster; the person's comes last.
    fn inboxes_in_order(&self) -> impl Iterator<Item = (&AgentName, &Inbox)> {
        let names = self.roster.names().iter().map(AgentName::as_str);
        let inbox = |name| self.inboxes.get_key_value(name).expect("each agent has an inbox");
        names.chain([PERSON]).map(inbox)
    }
}

/// The three verbs.
impl Engine {
    /// Takes one input and pushes what is to be done about it, in order.
    ///
    /// `now` must not be earlier than in the call before.
    pub fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Opened {
                session,
                carrier,
                who,
            } => {
                let result = self.open(session, carrier, who);
                out.push(Effect::Opened { session, result });
            }
            Input::Closed { session, ending } => self.close(session, ending, out),
            Input::Call {
                session,
                call,
                command,
            } => self.call(now, session, call, command, out),
            Input::Flushed { call } => self.flushed(now, call),
            Input::Followed { call } => self.followed(call),
            Input::KeptAlive { session } => self.kept_alive(session),
            Input::Cancelled { call } | Input::Lost { call } => self.drop_call(call, out),
            Input::Stopping => self.stop(out),
        }
        self.check_invariants();
    }

    /// Returns when [`Self::handle_timeout`] is due next, and for what; nothing while nothing is.
    pub fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        let (at, reason, _) = self.deadlines.first()?;
        Some((*at, *reason))
    }

    /// Does all that is due at `now`, earliest first; nothing when called too early.
    pub fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        while let Some(&(at, reason, call)) = self.deadlines.first()
            && at <= now
        {
            match reason {
                Reason::WaitExpires => self.expire(call, out),
                Reason::DoubtEnds => self.end_doubt(now, call),
            }
        }
        self.check_invariants();
    }
}

/// Sessions.
impl Engine {
    fn open(&mut self, session: SessionId, carrier: Carrier, who: Who) -> Result<Option<AgentName>, Refusal> {
        let (agent, person) = match who {
            Who::Person => (None, true),
            Who::Agent(None) => (None, false),
            Who::Agent(Some(name)) if name == PERSON => return Err(self.persons("agent")),
            Who::Agent(Some(name)) => (Some(self.known(&name)?), false),
        };
        if self.sessions.len() >= self.bounds.sessions_max {
            return Err(Refusal::TooManySessions {
                sessions: self.sessions.len(),
            });
        }
        let state = Session {
            carrier,
            agent: agent.clone(),
            person,
            handovers: BTreeSet::new(),
            waits: BTreeSet::new(),
        };
        let before = self.sessions.insert(session, state);
        assert!(before.is_none(), "a session's number is used once");
        Ok(agent)
    }

    fn close(&mut self, session: SessionId, ending: Ending, out: &mut Vec<Effect>) {
        let Some(state) = self.sessions.get(&session) else {
            return;
        };
        let carried = state.carrier == Carrier::Exchange && ending == Ending::Orderly;
        let waits = state.waits.clone();
        let handovers = state.handovers.clone();
        for call in waits {
            self.unpark(call);
        }
        let mut undone = BTreeSet::new();
        for call in handovers {
            if carried && self.handovers[&call].passage != Passage::Written {
                self.confirm(call);
            } else {
                undone.insert(self.undo(call));
            }
        }
        self.sessions.remove(&session);
        for agent in undone {
            self.wake(&agent, out);
        }
    }
}

/// Calls.
impl Engine {
    fn call(
        &mut self,
        now: Timestamp,
        session: SessionId,
        call: CallId,
        command: Command,
        out: &mut Vec<Effect>,
    ) {
        // The session closed while its call was on the way: there is nobody to answer.
        if !self.sessions.contains_key(&session) {
            return;
        }
        self.confirm_streamed(session);
        let refused = match command {
            Command::Post { from, to, kind, body } => {
                self.post(now, session, call, from, &to, kind, body, out)
            }
            Command::Read { agent, wait_ms } => self.read(now, session, call, agent.as_deref(), wait_ms, out),
            Command::Pending { agent } => self.pending(session, call, agent.as_deref(), out),
            Command::Peek { agent } => self.peek(session, call, agent.as_deref(), out),
        };
        if let Err(refusal) = refused {
            out.push(Effect::Reply {
                call,
                result: Err(refusal),
            });
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a post has four of its own")]
    fn post(
        &mut self,
        now: Timestamp,
        session: SessionId,
        call: CallId,
        from: Option<String>,
        to: &str,
        kind: Kind,
        body: String,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let from = self.speaker(session, "from", from.as_deref())?;
        let to = self.known(to)?;
        if body.len() > self.bounds.body_bytes_max {
            return Err(Refusal::BodyTooLong {
                bytes: body.len(),
                bytes_max: self.bounds.body_bytes_max,
            });
        }
        let inbox = self.inboxes.get_mut(&to).expect("each agent has an inbox");
        if !inbox.has_room(body.len(), &self.bounds) {
            return Err(Refusal::InboxFull {
                agent: to.to_string(),
                messages: inbox.messages(),
                bytes: inbox.bytes(),
                messages_max: self.bounds.inbox_messages_max,
                bytes_max: self.bounds.inbox_bytes_max,
            });
        }
        if self.stopping {
            return Err(Refusal::Stopping);
        }
        let id = MessageId(uuid_v4(&mut self.random));
        let message = Arc::new(Message {
            id,
            from,
            to: to.clone(),
            kind,
            body,
            ts: now,
        });
        inbox.push(Arc::clone(&message));
        out.push(Effect::Reply {
            call,
            result: Ok(Reply::Posted { id }),
        });
        out.push(Effect::Log { message });
        self.wake(&to, out);
        Ok(())
    }

    fn read(
        &mut self,
        now: Timestamp,
        session: SessionId,
        call: CallId,
        agent: Option<&str>,
        wait_ms: u32,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let agent = self.speaker(session, "for", agent)?;
        if wait_ms == 0 || self.stopping || self.has_news(session, &agent) {
            self.hand_over(session, call, &agent, out);
            return Ok(());
        }
        let parked = &self.sessions[&session].waits;
        let superseded = parked.iter().find(|call| self.waits[call].agent == agent);
        let superseded = superseded.copied();
        if superseded.is_none() && self.waits.len() >= self.bounds.waits_max {
            return Err(Refusal::TooManyWaits {
                waits: self.waits.len(),
            });
        }
        if let Some(older) = superseded {
            self.expire(older, out);
        }
        self.park(call, session, agent, now.plus_millis(i64::from(wait_ms)));
        Ok(())
    }

    fn pending(
        &self,
        session: SessionId,
        call: CallId,
        agent: Option<&str>,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let agent = self.speaker(session, "for", agent)?;
        let waiting = &self.inboxes[&agent].waiting;
        let kinds = waiting.iter().map(|d| d.message.kind).collect();
        out.push(Effect::Reply {
            call,
            result: Ok(Reply::Pending { kinds }),
        });
        Ok(())
    }

    fn peek(
        &self,
        session: SessionId,
        call: CallId,
        agent: Option<&str>,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let agent = self.speaker(session, "for", agent)?;
        let deliveries = self.inboxes[&agent].waiting.clone();
        out.push(Effect::Reply {
            call,
            result: Ok(Reply::Seen { deliveries }),
        });
        Ok(())
    }

    /// Finds out for whom a session speaks in `argument`.
    fn speaker(
        &self,
        session: SessionId,
        argument: &'static str,
        given: Option<&str>,
    ) -> Result<AgentName, Refusal> {
        let Session {
            agent: bound, person, ..
        } = &self.sessions[&session];
        if *person {
            return self.known(given.unwrap_or(PERSON));
        }
        if given == Some(PERSON) {
            return Err(self.persons(argument));
        }
        match (given, bound) {
            (None, None) => Err(Refusal::Anonymous {
                argument,
                known: self.roster.clone(),
            }),
            (None, Some(bound)) => Ok(bound.clone()),
            (Some(name), None) => self.known(name),
            (Some(name), Some(bound)) => {
                let named = self.known(name)?;
                if named == *bound {
                    return Ok(named);
                }
                Err(Refusal::NotYou {
                    argument,
                    name: named.to_string(),
                    bound: bound.to_string(),
                })
            }
        }
    }

    fn persons(&self, argument: &'static str) -> Refusal {
        let known = self.roster.clone();
        Refusal::Persons { argument, known }
    }

    /// Finds the agent of a name, or the person.
    fn known(&self, name: &str) -> Result<AgentName, Refusal> {
        match self.inboxes.get_key_value(name) {
            Some((agent, _)) => Ok(agent.clone()),
            None => Err(Refusal::UnknownAgent {
                name: shown(name),
                known: self.roster.clone(),
            }),
        }
    }
}

/// Waits.
impl Engine {
    fn park(&mut self, call: CallId, session: SessionId, agent: AgentName, expires_at: Timestamp) {
        self.deadlines.insert((expires_at, Reason::WaitExpires, call));
        self.session_mut(session).waits.insert(call);
        self.inbox_mut(&agent).waits.push_back(call);
        let wait = Wait {
            session,
            agent,
            expires_at,
        };
        let before = self.waits.insert(call, wait);
        assert!(before.is_none(), "a call waits once");
    }

    fn unpark(&mut self, call: CallId) -> Wait {
        let wait = self.waits.remove(&call).expect("the call is parked");
        self.deadlines
            .remove(&(wait.expires_at, Reason::WaitExpires, call));
        self.session_mut(wait.session).waits.remove(&call);
        self.inbox_mut(&wait.agent).waits.retain(|other| *other != call);
        wait
    }

    /// Answers a parked read empty-handed.
    fn expire(&mut self, call: CallId, out: &mut Vec<Effect>) {
        let wait = self.unpark(call);
        self.hand_over(wait.session, call, &wait.agent, out);
    }

    fn stop(&mut self, out: &mut Vec<Effect>) {
        self.stopping = true;
        while let Some((&call, _)) = self.waits.first_key_value() {
            self.expire(call, out);
        }
    }

    /// Gives what is in an inbox to the read that has waited for it the longest. What the person takes in an agent's stead
    /// may leave the news of the start, which goes to the next one that is to be told of it.
    fn wake(&mut self, agent: &AgentName, out: &mut Vec<Effect>) {
        loop {
            let mut waits = self.inboxes[agent].waits.iter();
            let news = |call: &&CallId| self.has_news(self.waits[call].session, agent);
            let Some(&call) = waits.find(news) else {
                return;
            };
            let wait = self.unpark(call);
            self.hand_over(wait.session, call, agent, out);
        }
    }

    /// Tells whether a read of a session has something to say: a message, or that the relay started.
    fn has_news(&self, session: SessionId, agent: &AgentName) -> bool {
        let inbox = &self.inboxes[agent];
        !inbox.waiting.is_empty() || (inbox.notice_due && self.tells(session, agent))
    }
}

/// Hand-overs.
impl Engine {
    /// Answers a read with all that is in the inbox, and remembers it until the reply is known to have arrived.
    fn hand_over(&mut self, session: SessionId, call: CallId, agent: &AgentName, out: &mut Vec<Effect>) {
        let started_at = self.boot.started_at;
        let tells = self.tells(session, agent);
        let inbox = self.inbox_mut(agent);
        let notice = tells && std::mem::take(&mut inbox.notice_due);
        let deliveries = Arc::new(inbox.hand_over());
        out.push(Effect::Reply {
            call,
            result: Ok(Reply::Messages {
                deliveries: Arc::clone(&deliveries),
                restarted: notice.then_some(started_at),
            }),
        });
        if deliveries.is_empty() && !notice {
            return;
        }
        self.session_mut(session).handovers.insert(call);
        let handover = Handover {
            session,
            agent: agent.clone(),
            deliveries,
            notice,
            passage: Passage::Written,
        };
        let before = self.handovers.insert(call, handover);
        assert!(before.is_none(), "a call is answered once");
    }

    /// Tells whether a reply to a session is one in which an agent is told of the start: the person who reads in an
    /// agent's stead does not take its news.
    fn tells(&self, session: SessionId, agent: &AgentName) -> bool {
        !self.sessions[&session].person || agent.is_person()
    }

    fn flushed(&mut self, now: Timestamp, call: CallId) {
        let Some(handover) = self.handovers.get(&call) else {
            return;
        };
        match handover.passage {
            Passage::Written => self.doubt(now, call),
            Passage::Passed { .. } | Passage::Overdue => {}
        }
    }

    /// Begins the doubt in a reply that was passed, or begins it anew.
    fn doubt(&mut self, now: Timestamp, call: CallId) {
        let doubt_ends = now.plus_millis(DOUBT_MS);
        let handover = self.handovers.get_mut(&call).expect("the hand-over stands");
        let before = std::mem::replace(
            &mut handover.passage,
            Passage::Passed {
                doubt_ends,
                kept_alive: false,
            },
        );
        if let Some(at) = before.doubt_ends() {
            self.deadlines.remove(&(at, Reason::DoubtEnds, call));
        }
        self.deadlines.insert((doubt_ends, Reason::DoubtEnds, call));
    }

    fn end_doubt(&mut self, now: Timestamp, call: CallId) {
        let handover = self.handovers.get_mut(&call).expect("the hand-over stands");
        let Passage::Passed {
            doubt_ends,
            kept_alive,
        } = handover.passage
        else {
            unreachable!("only a passed reply has a doubt that ends");
        };
        if doubt_ends.plus_millis(DOUBT_LATE_MS_MAX) < now {
            self.doubt(now, call);
            return;
        }
        match self.sessions[&handover.session].carrier {
            Carrier::Stream if !kept_alive => {
                handover.passage = Passage::Overdue;
                self.deadlines.remove(&(doubt_ends, Reason::DoubtEnds, call));
            }
            Carrier::Stream | Carrier::Exchange => self.confirm(call),
        }
    }

    fn followed(&mut self, call: CallId) {
        let Some(handover) = self.handovers.get(&call) else {
            return;
        };
        let carrier = self.sessions[&handover.session].carrier;
        if carrier == Carrier::Exchange && handover.passage != Passage::Written {
            self.confirm(call);
        }
    }

    fn kept_alive(&mut self, session: SessionId) {
        let Some(state) = self.sessions.get(&session) else {
            return;
        };
        for call in state.handovers.clone() {
            let handover = self.handovers.get_mut(&call).expect("the hand-over stands");
            match &mut handover.passage {
                Passage::Written => {}
                Passage::Passed { kept_alive, .. } => *kept_alive = true,
                Passage::Overdue => self.confirm(call),
            }
        }
    }

    /// A session that calls again has read what was passed to its stream before.
    fn confirm_streamed(&mut self, session: SessionId) {
        let state = &self.sessions[&session];
        if state.carrier == Carrier::Exchange {
            return;
        }
        let passed = |call: &CallId| self.handovers[call].passage != Passage::Written;
        let arrived: Vec<CallId> = state.handovers.iter().copied().filter(passed).collect();
        for call in arrived {
            self.confirm(call);
        }
    }

    fn confirm(&mut self, call: CallId) {
        let handover = self.end_handover(call);
        self.inbox_mut(&handover.agent).release(&handover.deliveries);
    }

    /// Puts everything back and returns whose inbox has it again; the caller wakes who waits for it.
    fn undo(&mut self, call: CallId) -> AgentName {
        let handover = self.end_handover(call);
        let inbox = self.inbox_mut(&handover.agent);
        inbox.notice_due |= handover.notice;
        inbox.take_back(Arc::unwrap_or_clone(handover.deliveries));
        handover.agent
    }

    fn end_handover(&mut self, call: CallId) -> Handover {
        let handover = self.handovers.remove(&call).expect("the hand-over stands");
        if let Some(at) = handover.passage.doubt_ends() {
            self.deadlines.remove(&(at, Reason::DoubtEnds, call));
        }
        self.session_mut(handover.session).handovers.remove(&call);
        handover
    }

    /// Forgets a parked call, or undoes the hand-over in its reply.
    fn drop_call(&mut self, call: CallId, out: &mut Vec<Effect>) {
        if self.waits.contains_key(&call) {
            self.unpark(call);
        }
        if self.handovers.contains_key(&call) {
            let agent = self.undo(call);
            self.wake(&agent, out);
        }
    }

    fn inbox_mut(&mut self, agent: &AgentName) -> &mut Inbox {
        self.inboxes.get_mut(agent).expect("each agent has an inbox")
    }

    fn session_mut(&mut self, session: SessionId) -> &mut Session {
        self.sessions
            .get_mut(&session)
            .expect("what hangs on a session ends with it")
    }
}
