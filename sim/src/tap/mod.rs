//! Stands between the server and its engine: reads the engine's events for the marks, and breaks it on purpose where a
//! seeded bug is switched on.

mod again;
mod bug;
mod bugs;
mod projects;
mod reads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relay::engine::handling::Mode;
use relay::engine::limits::Bounds;
use relay::engine::{
    AgentName, CallId, Carrier, Command, Delivery, Effect, Engine, Event, HandoverId, Input, Message,
    MessageId, Overview, Reason, Recipient, Refusal, Reply, ResolvedBy, Seq, SessionId, Sign, Status,
    Timestamp, WaitEnd, agents, mail,
};
use relay::server::Machine;

pub use bug::Bug;
use uuid::Uuid;

use crate::marks::Marks;

/// The engine, watched.
pub struct Tap {
    engine: Engine,
    marks: Marks,
    bug: Option<Bug>,
    started_at: Timestamp,
    sessions: BTreeMap<SessionId, (Carrier, Option<String>)>,
    waits: BTreeMap<CallId, Wait>,
    standing: BTreeMap<HandoverId, Standing>,
    /// The latest wait was ended by something to read, which is handed over next.
    woken: bool,
    stopping: bool,
    /// What a bug keeps to show it again.
    kept: Vec<(String, Delivery)>,
    /// Numbers the calls that a bug makes up, and chooses what it hits.
    made_up: u64,
    /// Whose inbox the call at hand reads.
    reads: Option<String>,
    /// Whose readers have gone while they waited.
    left_waiting: BTreeSet<String>,
    /// The latest instance of each agent that has registered.
    instances: BTreeMap<String, Uuid>,
    /// Whose first post was refused.
    refused: BTreeSet<String>,
    /// Who was told of the start.
    told: BTreeSet<String>,
    /// What a bug makes of the calls that ask: to whom, and how long they wait, in milliseconds.
    asks: BTreeMap<CallId, (String, u32)>,
    /// What a bug's own posts have answered.
    woken_by_asks: Vec<Effect>,
    /// What the read at hand asked for, where a bug took its filter away.
    only: reads::Only,
    /// What the message at hand is to be shown as that a bug leads astray.
    disguise: Option<Recipient>,
    /// What those are shown as that were led astray.
    disguised: BTreeMap<MessageId, Recipient>,
    again: again::Again,
    knows: Knows,
    at_stake: AtStake,
}

/// What a seeded bug knows of the run, so that it breaks one law and not others.
#[derive(Debug, Clone, Copy)]
pub struct Knows {
    /// The engine's bounds.
    pub bounds: Bounds,
    /// When all agents are gone and the inboxes are being drained.
    pub drained_from: Timestamp,
}

/// A parked read.
struct Wait {
    session: SessionId,
    /// Whose inbox.
    of: String,
}

/// A hand-over that is not known to have arrived.
struct Standing {
    session: SessionId,
    /// Its reply was passed to the socket.
    passed: bool,
    /// It was read: nothing but a cancellation undoes it.
    read: bool,
    notice: bool,
    deliveries: Arc<Vec<Delivery>>,
}

impl Tap {
    /// Watches an engine that starts now.
    pub fn new(engine: Engine, marks: Marks, bug: Option<Bug>, knows: Knows, at_stake: AtStake) -> Self {
        Self {
            started_at: engine.status().boot.started_at,
            engine,
            marks,
            bug,
            sessions: BTreeMap::new(),
            waits: BTreeMap::new(),
            standing: BTreeMap::new(),
            woken: false,
            stopping: false,
            kept: Vec::new(),
            made_up: 0,
            reads: None,
            left_waiting: BTreeSet::new(),
            instances: BTreeMap::new(),
            refused: BTreeSet::new(),
            told: BTreeSet::new(),
            asks: BTreeMap::new(),
            woken_by_asks: Vec::new(),
            only: reads::Only::default(),
            disguise: None,
            disguised: BTreeMap::new(),
            again: again::Again::default(),
            knows,
            at_stake,
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Tells whether inboxes are so small that they fill up.
    fn is_tight(&self) -> bool {
        self.knows.bounds.inbox_messages_max < 10_000
    }

    /// Finds whose inbox an input reads.
    fn reads(&self, input: &Input) -> Option<String> {
        let Input::Call {
            session,
            command: Command::Mail(mail::Command::Read { agent, .. }),
            ..
        } = input
        else {
            return None;
        };
        let bound = || self.sessions.get(session)?.1.clone();
        agent.clone().or_else(bound)
    }

    /// Counts up, for a bug that hits only now and then.
    fn every(&mut self, times: u64) -> bool {
        self.made_up += 1;
        self.made_up.is_multiple_of(times)
    }

    /// Has the engine take an input of which the server is told nothing but by its marks.
    fn make_up(&mut self, now: Timestamp, input: Input) {
        let mut effects = Vec::new();
        self.engine.handle(now, input, &mut effects);
        self.note(&effects);
    }

    /// Notes what has happened.
    fn note(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Note(event) => self.note_event(event),
                Effect::Reply {
                    result: Err(refusal), ..
                } => self.marks.hit(match refusal {
                    Refusal::Mail(mail::Refusal::InboxFull { .. }) => "refused: inbox full",
                    Refusal::Mail(mail::Refusal::AlreadyWaits { .. }) => "refused: another call waits",
                    Refusal::Mail(mail::Refusal::TooManyHops { .. }) => "refused: too many turns",
                    Refusal::Mail(mail::Refusal::TooManyWaits { .. }) => "refused: too many waits",
                    Refusal::Mail(mail::Refusal::NotRemembered { .. }) => "refused: behind what is forgotten",
                    Refusal::Agents(agents::Refusal::Fenced { .. }) => "refused: taken over",
                    Refusal::Mail(_)
                    | Refusal::Agents(_)
                    | Refusal::Groups(_)
                    | Refusal::Nodes(_)
                    | Refusal::Sessions(_)
                    | Refusal::Receipts(_)
                    | Refusal::Trace(_)
                    | Refusal::Workers(_)
                    | Refusal::Surfacing(_)
                    | Refusal::Actions(_)
                    | Refusal::Holds(_)
                    | Refusal::Records(_)
                    | Refusal::Stopping => "refused: legal form, illegal call",
                }),
                Effect::Reply {
                    result: Ok(Reply::AfterStart { .. }),
                    ..
                } => self.marks.hit("notice beside another answer"),
                Effect::Reply { .. }
                | Effect::Opened { .. }
                | Effect::Changed { .. }
                | Effect::Deliver { .. }
                | Effect::Tell { .. }
                | Effect::Invoke { .. }
                | Effect::StartWorker(_)
                | Effect::EndWorker { .. }
                | Effect::Superseded { .. } => {}
            }
        }
    }

    fn note_event(&mut self, event: &Event) {
        match event {
            Event::Opened {
                session,
                carrier,
                agent,
                ..
            } => {
                let agent = agent.as_ref().map(ToString::to_string);
                self.sessions.insert(*session, (*carrier, agent));
            }
            Event::Closed { session, .. } => {
                self.sessions.remove(session);
            }
            Event::Parked {
                call, session, agent, ..
            } => {
                let wait = Wait {
                    session: *session,
                    of: agent.to_string(),
                };
                self.waits.insert(*call, wait);
            }
            Event::WaitEnded { call, by } => {
                self.waits.remove(call);
                self.marks.hit(match by {
                    WaitEnd::Woken => "wait woken",
                    WaitEnd::Expired if self.stopping => "wait answered by a stop",
                    WaitEnd::Expired => "wait expired",
                    WaitEnd::Superseded => "wait superseded",
                    WaitEnd::Cancelled => "wait cancelled",
                    WaitEnd::Fenced => "wait fenced",
                });
                self.woken = *by == WaitEnd::Woken;
            }
            Event::HandedOver {
                handover,
                session,
                deliveries,
                notice,
                agent,
                part: _,
                carrier: _,
                person: _,
            } => {
                if *notice {
                    self.told.insert(agent.to_string());
                }
                let redelivered = deliveries.iter().any(|delivery| delivery.redelivered);
                self.marks.hit_if(*notice, "notice read");
                self.marks.hit_if(redelivered, "read redelivered");
                let woken = std::mem::take(&mut self.woken);
                self.marks
                    .hit_if(redelivered && woken, "wait woken by a redelivery");
                let standing = Standing {
                    session: *session,
                    passed: false,
                    read: false,
                    notice: *notice,
                    deliveries: Arc::clone(deliveries),
                };
                self.standing.insert(*handover, standing);
            }
            Event::Passed { handover } => {
                if let Some(standing) = self.standing.get_mut(handover) {
                    standing.passed = true;
                }
            }
            Event::Confirmed { handover, by, .. } => {
                let standing = self.standing.remove(handover);
                self.again
                    .arrived(standing.iter().flat_map(|standing| standing.deliveries.iter()));
                self.marks.hit(match by {
                    Sign::CalledAgain => "confirmed: next call",
                    Sign::Followed => "confirmed: next bytes",
                    Sign::Ended(_) => "confirmed: orderly end",
                    Sign::KeptAlive | Sign::DoubtOver => "confirmed: doubt ended",
                    Sign::Acknowledged => "confirmed: acknowledged by a node",
                    Sign::Receipted | Sign::Failed => "confirmed: its agent gave a receipt",
                    Sign::Seen => "confirmed: seen, as its reader says",
                    Sign::Passed
                    | Sign::Settled
                    | Sign::Cancelled
                    | Sign::Lost
                    | Sign::Fenced
                    | Sign::Listed
                    | Sign::Deferred(_)
                    | Sign::DeferralOver
                    | Sign::NotTaken
                    | Sign::GivenUp
                    | Sign::Unseen
                    | Sign::Redriven => {
                        unreachable!("the engine's table says so")
                    }
                });
            }
            Event::Undone { handover, by, .. } => {
                let Some(standing) = self.standing.remove(handover) else {
                    return;
                };
                let carrier = self.sessions.get(&standing.session).map(|(carrier, _)| *carrier);
                self.marks.hit(match (by, carrier) {
                    (Sign::Cancelled, _) => "undone: cancelled",
                    (Sign::Fenced, _) => "undone: fenced",
                    (Sign::Unseen, _) => "undone: not seen, as its reader says",
                    (Sign::Ended(_), Some(Carrier::Stream)) => "undone: stream ended",
                    (Sign::Ended(_), _) => "undone: exchange broke",
                    _ => "undone: reply lost",
                });
                self.marks.hit_if(standing.notice, "notice undone");
                if standing.notice {
                    self.told.clear();
                }
            }
            Event::Stopping => self.stopping = true,
            Event::Read { handover, .. } => {
                if let Some(standing) = self.standing.get_mut(handover) {
                    standing.read = true;
                }
            }
            Event::Registered { .. } => self.marks.hit("agent registered"),
            Event::TakenOver { .. } => self.marks.hit("agent taken over"),
            Event::Gone { .. } => self.marks.hit("agent gone"),
            Event::Joined { .. } => self.marks.hit("channel joined"),
            Event::Left { .. } => {}
            Event::Accepted { message, agents, .. } => self.note_accepted(message, agents),
            Event::AskedAgain {
                agent,
                deliveries,
                after,
            } => {
                self.marks.hit("asked for again");
                self.again.brought(agent, *after, deliveries);
            }
            Event::Expired { .. }
            | Event::KeptAlive { .. }
            | Event::Overdue { .. }
            | Event::Awaited { .. }
            | Event::Holds { .. }
            | Event::Held { .. }
            | Event::Allowed { .. }
            | Event::Dropped { .. }
            | Event::HeldBack { .. }
            | Event::Marked { .. }
            | Event::Reacted { .. }
            | Event::Invoked { .. }
            | Event::PushFailed { .. }
            | Event::InvocationEnded { .. }
            | Event::ActionDenied { .. }
            | Event::Receipt { .. }
            | Event::StandsBy { .. }
            | Event::BroughtAsItsAgentHasIt { .. }
            | Event::Does { .. }
            | Event::Recognised { .. }
            | Event::NodeCame { .. }
            | Event::NodeLeft { .. }
            | Event::NodeLapsed { .. }
            | Event::Bound { .. }
            | Event::SpawnWaits { .. }
            | Event::Worker(_)
            | Event::HandedOn { .. }
            | Event::Unbound { .. } => {}
        }
    }

    fn note_accepted(&mut self, message: &Arc<Message>, agents: &[AgentName]) {
        self.note_disguise(message);
        let mark = match message.to.by() {
            ResolvedBy::Name | ResolvedBy::List => return,
            ResolvedBy::Role => "sent to a role",
            ResolvedBy::Group => "sent to a group",
            ResolvedBy::Channel => "sent to a channel",
            ResolvedBy::Broadcast => "sent to all",
        };
        self.marks.hit_if(!agents.is_empty(), mark);
        if self.has(Bug::CopyToSender) {
            let copy = Delivery {
                seq: Seq(0),
                message: Arc::clone(message),
                mode: Mode::Immediate,
                redelivered: false,
            };
            self.kept.push((message.from.to_string(), copy));
        }
    }

    /// Says what a crash would take with it now.
    fn note_stakes(&self) {
        let unread: usize = self.engine.status().pending.iter().map(|(_, count)| count).sum();
        self.at_stake.unread.store(unread, Ordering::Relaxed);
        self.at_stake
            .in_doubt
            .store(self.standing.len(), Ordering::Relaxed);
        self.at_stake.parked.store(self.waits.len(), Ordering::Relaxed);
    }
}

/// What a crash takes with it.
#[derive(Debug, Clone, Default)]
pub struct AtStake {
    unread: Arc<AtomicUsize>,
    in_doubt: Arc<AtomicUsize>,
    parked: Arc<AtomicUsize>,
}

impl AtStake {
    /// Counts what is about to be lost.
    pub fn note_crash(&self, marks: &Marks) {
        let counts = [
            (&self.unread, "fault bit: crash with unread messages"),
            (&self.in_doubt, "fault bit: crash with a hand-over in doubt"),
            (&self.parked, "fault bit: crash with parked waits"),
        ];
        for (count, mark) in counts {
            if count.swap(0, Ordering::Relaxed) > 0 {
                marks.hit(mark);
            }
        }
    }
}

impl Machine for Tap {
    fn handle(&mut self, now: Timestamp, mut input: Input, out: &mut Vec<Effect>) {
        let own = if let Input::Call { session, call, .. } = &input {
            Some((*session, *call))
        } else {
            None
        };
        if matches!(input, Input::WallClock { .. }) {
            self.marks.hit_if(
                !self.waits.is_empty(),
                "fault bit: clock set while somebody waits",
            );
        }
        self.reads = self.reads(&input);
        self.only = reads::Only::default();
        if self.bug.is_some() {
            if !self.spoil_input(now, &mut input) {
                return;
            }
            if let Some(refused) = self.refuses(&input).or_else(|| self.forgets(&input)) {
                out.push(refused);
                return;
            }
        }
        out.append(&mut self.woken_by_asks);
        let start = out.len();
        let refused_post = if let Input::Call { command, .. } = &input
            && matches!(command, Command::Mail(mail::Command::Post { .. }))
        {
            Some(command.clone())
        } else {
            None
        };
        self.engine.handle(now, input, out);
        let mut effects = out.split_off(start);
        self.note(&effects);
        if self.bug.is_some() {
            self.spoil_effects(now, own, refused_post, &mut effects);
        }
        out.append(&mut effects);
        self.note_stakes();
    }

    fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        self.engine.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let start = out.len();
        self.engine.handle_timeout(now, out);
        let mut effects = out.split_off(start);
        self.note(&effects);
        if self.bug.is_some() {
            self.spoil_effects(now, None, None, &mut effects);
        }
        out.append(&mut effects);
        self.note_stakes();
    }

    fn status(&self) -> Status {
        self.engine.status()
    }

    fn overview(&self) -> Overview {
        self.engine.overview()
    }

    fn take_newly_seen(&mut self) -> Option<relay::engine::AgentName> {
        self.engine.take_newly_seen()
    }
}
