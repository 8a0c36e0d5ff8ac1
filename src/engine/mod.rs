//! The pure core: who may post and read, what waits for whom, and when a message counts as read.
//!
//! It must not know of sockets, tasks, clocks, randomness, JSON or MCP. Time and random bytes are
//! arguments; everything that happens is an [`Input`], everything it wants done an [`Effect`].
//!
//! # Laws
//!
//! - Validate, then mutate, then push effects: a refusal leaves every inbox as it was. That the call came at all
//!   still confirms what was flushed to its session before.
//! - Every call is answered once, unless it was cancelled or its session closed first.
//! - A wait ends in exactly four ways: woken, expired, superseded, cancelled.
//! - A hand-over ends in exactly two ways: confirmed, and its messages never appear again; or undone,
//!   and they are back in their old places, marked as redelivered.
//!
//! # What confirms a hand-over
//!
//! First the reply's last byte must have been passed to the peer's socket ([`Input::Flushed`]). Then the
//! first of these confirms it: the same session's next call; [`limits::DOUBT_MS`] on a session that stays
//! open; on [`Carrier::Exchange`] an orderly end. Any other end, a cancelled call and a lost reply undo it.

mod inbox;
mod invariants;
mod io;
pub mod limits;
mod message;
mod names;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use inbox::Inbox;
pub use io::{Carrier, Command, Effect, Ending, Input, Reason, Refusal, Reply};
use limits::{Bounds, DOUBT_MS};
pub use message::{Delivery, Kind, Message};
pub use names::{
    AgentName, Boot, CallId, InvalidName, InvalidRoster, MessageId, RandomBytes, Roster, Seq, SessionId,
    Timestamp, shown, uuid_v4,
};

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
    /// The ends of all waits, and of the doubt in all flushed hand-overs.
    deadlines: BTreeSet<(Timestamp, Reason, CallId)>,
    stopping: bool,
}

/// An open session, with the calls that something hangs on.
#[derive(Debug)]
struct Session {
    carrier: Carrier,
    agent: Option<AgentName>,
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
    /// When the doubt ends; none while the reply is not flushed.
    confirmed_at: Option<Timestamp>,
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
    /// How many messages wait for each agent, in the order of the roster; hand-overs are not counted.
    pub pending: Vec<(AgentName, usize)>,
}

/// Making it and looking at it.
impl Engine {
    /// Makes the state of a relay that starts now, with an empty inbox for each agent.
    ///
    /// `random` is asked for 16 bytes for the boot id and for each accepted message.
    pub fn new(now: Timestamp, roster: Roster, bounds: Bounds, mut random: RandomBytes) -> Self {
        let boot = Boot {
            id: uuid_v4(&mut random),
            started_at: now,
        };
        let inboxes = roster.names().iter().cloned().map(|agent| (agent, Inbox::new()));
        Self {
            boot,
            bounds,
            inboxes: inboxes.collect(),
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
        let pending = |agent: &AgentName| (agent.clone(), self.inboxes[agent].waiting.len());
        Status {
            boot: self.boot,
            sessions: self.sessions.len(),
            pending: self.roster.names().iter().map(pending).collect(),
        }
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
                agent,
            } => {
                let result = self.open(session, carrier, agent);
                out.push(Effect::Opened { session, result });
            }
            Input::Closed { session, ending } => self.close(session, ending, out),
            Input::Call {
                session,
                call,
                command,
            } => self.call(now, session, call, command, out),
            Input::Flushed { call } => self.flushed(now, call),
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
                Reason::DoubtEnds => self.confirm(call),
            }
        }
        self.check_invariants();
    }
}

/// Sessions.
impl Engine {
    fn open(
        &mut self,
        session: SessionId,
        carrier: Carrier,
        agent: Option<String>,
    ) -> Result<Option<AgentName>, Refusal> {
        let agent = agent.map(|name| self.known(&name)).transpose()?;
        if self.sessions.len() >= self.bounds.sessions_max {
            return Err(Refusal::TooManySessions {
                sessions: self.sessions.len(),
            });
        }
        let state = Session {
            carrier,
            agent: agent.clone(),
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
            if carried && self.handovers[&call].confirmed_at.is_some() {
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
        self.confirm_flushed(session);
        let refused = match command {
            Command::Post { from, to, kind, body } => {
                self.post(now, session, call, from, &to, kind, body, out)
            }
            Command::Read { agent, wait_ms } => self.read(now, session, call, agent.as_deref(), wait_ms, out),
            Command::Pending { agent } => self.pending(session, call, agent.as_deref(), out),
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
        if wait_ms == 0 || self.stopping || !self.inboxes[&agent].waiting.is_empty() {
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

    /// Finds out for whom a session speaks in `argument`.
    fn speaker(
        &self,
        session: SessionId,
        argument: &'static str,
        given: Option<&str>,
    ) -> Result<AgentName, Refusal> {
        let bound = self.sessions[&session].agent.as_ref();
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

    /// Gives what is in an inbox to the read that has waited for it the longest.
    fn wake(&mut self, agent: &AgentName, out: &mut Vec<Effect>) {
        let inbox = self.inbox_mut(agent);
        if inbox.waiting.is_empty() {
            return;
        }
        let Some(&call) = inbox.waits.front() else {
            return;
        };
        let wait = self.unpark(call);
        self.hand_over(wait.session, call, agent, out);
    }
}

/// Hand-overs.
impl Engine {
    /// Answers a read with all that is in the inbox, and remembers it until the reply is known to have arrived.
    fn hand_over(&mut self, session: SessionId, call: CallId, agent: &AgentName, out: &mut Vec<Effect>) {
        let started_at = self.boot.started_at;
        let inbox = self.inbox_mut(agent);
        let notice = std::mem::take(&mut inbox.notice_due);
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
            confirmed_at: None,
        };
        let before = self.handovers.insert(call, handover);
        assert!(before.is_none(), "a call is answered once");
    }

    fn flushed(&mut self, now: Timestamp, call: CallId) {
        let Some(handover) = self.handovers.get_mut(&call) else {
            return;
        };
        if handover.confirmed_at.is_some() {
            return;
        }
        let confirmed_at = now.plus_millis(DOUBT_MS);
        handover.confirmed_at = Some(confirmed_at);
        self.deadlines.insert((confirmed_at, Reason::DoubtEnds, call));
    }

    /// A session that calls again has read what was flushed to it before.
    fn confirm_flushed(&mut self, session: SessionId) {
        let flushed = |call: &CallId| self.handovers[call].confirmed_at.is_some();
        let handovers = &self.sessions[&session].handovers;
        let arrived: Vec<CallId> = handovers.iter().copied().filter(flushed).collect();
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
        if let Some(at) = handover.confirmed_at {
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
