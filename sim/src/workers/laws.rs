//! What must hold of workers, seen from outside: by what the engine wants, answers and says has happened. What it should have said is counted
//! here anew, out of what its surroundings have done.

use std::collections::{BTreeMap, BTreeSet};

use relay::engine::{
    AgentName, CallId, Delivery, Effect, Event, HandoverId, MessageId, ResolvedBy, SessionId, WorkerId,
};

use crate::laws::Violation;

/// At most one process of a name runs, or is about to.
pub const ONE_ALIVE: &str = "one worker of a name lives";
/// Each spawn is answered once, unless nobody wants that any more.
pub const ANSWERED: &str = "each spawn is answered once";
/// A parent hears once of what becomes of its worker, and of none before that.
pub const TOLD: &str = "a parent hears of its worker what has become of it";
/// A worker is told to end once, where that is asked for, and at the latest when the relay stops.
pub const ENDED: &str = "a worker is told to end once";
/// Nothing that was sent to a worker is lost, and what it has not read is its parent's once it was released and has ended.
pub const HANDED_ON: &str = "what a released worker has not read is its parent's";
/// No session of an earlier worker is handed anything once a later one of its name was asked for.
pub const GENERATION: &str = "an earlier worker is handed nothing";
/// Only who is above a worker releases it.
pub const RELEASED: &str = "a worker is released by who is above it";

/// All of them.
pub const NAMES: [&str; 7] = [ONE_ALIVE, ANSWERED, TOLD, ENDED, HANDED_ON, GENERATION, RELEASED];

/// A process, as its surroundings know it.
#[derive(Debug, Clone)]
pub struct Process {
    pub(super) name: AgentName,
    /// Its parent first.
    pub(super) above: Vec<AgentName>,
    pub(super) asked_at: i64,
    /// When it was reported to run.
    pub(super) started_at: Option<i64>,
    pub(super) spoke: bool,
    pub(super) silent: bool,
    /// It was asked to end.
    pub(super) ends: bool,
    pub(super) released: bool,
    /// Its end was reported.
    pub(super) over: bool,
    /// The call that waits for it.
    pub(super) call: Option<CallId>,
}

/// All that was seen.
#[derive(Default)]
pub struct Watch {
    pub(super) processes: BTreeMap<WorkerId, Process>,
    /// The last one of each name, until its agent goes.
    pub(super) last: BTreeMap<AgentName, WorkerId>,
    /// Which process a session belongs to.
    pub(super) of_process: BTreeMap<SessionId, WorkerId>,
    /// Sessions of processes behind which another worker of their name was started.
    pub(super) fenced: BTreeSet<SessionId>,
    /// Agents that come and go, and are there.
    pub(super) there: BTreeSet<AgentName>,
    /// What parents should have been told, by the name that it is about, and what they were.
    expected: BTreeMap<AgentName, Vec<&'static str>>,
    told: BTreeMap<AgentName, Vec<String>>,
    /// What parents are to be told by what comes next.
    due: Vec<(WorkerId, &'static str)>,
    /// Calls that ask for a worker, and are not answered yet.
    pub(super) asking: BTreeSet<CallId>,
    asked_by: BTreeMap<CallId, SessionId>,
    /// Those that nobody wants answered.
    pub(super) given_up: BTreeSet<CallId>,
    answered: BTreeSet<CallId>,
    /// Where what was sent to one agent waits.
    waits: BTreeMap<MessageId, AgentName>,
    /// Where what was sent to many waits.
    of_many: BTreeSet<(AgentName, MessageId)>,
    handed: BTreeMap<HandoverId, Vec<Delivery>>,
    sent: BTreeSet<MessageId>,
    arrived: BTreeSet<MessageId>,
    told_to_end: BTreeSet<WorkerId>,
    pub(super) stopped: bool,
    pub(super) violations: Vec<Violation>,
}

impl Watch {
    pub(super) fn broken(&mut self, law: &'static str, detail: String) {
        self.violations.push(Violation { law, detail });
    }

    /// Takes note that a session asks for a worker.
    pub fn asks(&mut self, call: CallId, session: SessionId) {
        self.asking.insert(call);
        self.asked_by.insert(call, session);
    }

    /// Returns the calls of a session that ask for a worker.
    pub fn asking_of(&self, session: SessionId) -> Vec<CallId> {
        let asking = self.processes.values().filter_map(|process| process.call);
        asking
            .filter(|call| self.asked_by.get(call) == Some(&session))
            .collect()
    }

    /// The process of a name that runs, or is about to.
    pub fn living(&self, name: &AgentName) -> Option<WorkerId> {
        let worker = *self.last.get(name)?;
        (!self.processes[&worker].over).then_some(worker)
    }

    /// Takes note that a parent is to be told something by what comes next out of the engine, if the parent is there then.
    pub fn expects(&mut self, worker: WorkerId, event: &'static str) {
        if !self.stopped {
            self.due.push((worker, event));
        }
    }

    /// Takes note that the parents of workers hear now what they are to be told, if they are there.
    fn are_told(&mut self, of: impl Fn(WorkerId) -> bool) {
        let (told, due): (Vec<_>, Vec<_>) = std::mem::take(&mut self.due)
            .into_iter()
            .partition(|(worker, _)| of(*worker));
        self.due = due;
        for (worker, event) in told {
            let Process { name, above, .. } = &self.processes[&worker];
            if self.is_there(&above[0]) {
                self.expected.entry(name.clone()).or_default().push(event);
            }
        }
    }

    fn is_there(&self, agent: &AgentName) -> bool {
        !agent.as_str().starts_with('w') || self.there.contains(agent)
    }

    /// Takes note of the time, behind all that has ended by itself until then.
    pub fn time(&mut self, now: i64) {
        let due = |process: &Process| {
            let runs = !process.over && !process.ends;
            match process.started_at {
                Some(at) => {
                    (runs && !process.spoke && !process.silent && now >= at + 60_000).then_some("silent")
                }
                None => (runs && now >= process.asked_at + 30_000).then_some("late"),
            }
        };
        let due: Vec<_> = self
            .processes
            .iter()
            .filter_map(|(worker, process)| Some((*worker, due(process)?)))
            .collect();
        for (worker, event) in due {
            let process = self.processes.get_mut(&worker).expect("it is there");
            let waits = process.call.take().is_some();
            if event == "silent" {
                process.silent = true;
                self.expects(worker, event);
            } else {
                process.ends = true;
                if !waits {
                    self.expects(worker, event);
                }
            }
        }
    }

    /// Takes note that a session of a process has called a tool.
    pub fn spoke(&mut self, worker: WorkerId) {
        let process = &self.processes[&worker];
        let is_current = self.last.get(&process.name) == Some(&worker);
        if !is_current || process.over || process.spoke {
            return;
        }
        let is_ready = process.started_at.is_some() && !process.ends;
        let counts = process.started_at.is_none() || !process.ends;
        self.processes.get_mut(&worker).expect("it is there").spoke = counts;
        if is_ready {
            self.expects(worker, "ready");
        }
    }

    /// Looks at what has come out of the engine.
    pub fn see(&mut self, now: i64, effects: &[Effect]) {
        let mut ends: BTreeSet<WorkerId> = BTreeSet::new();
        for effect in effects {
            match effect {
                Effect::StartWorker(start) => {
                    if let Some(before) = self.living(&start.agent) {
                        self.broken(ONE_ALIVE, format!("{start:?} while {before:?} lives"));
                    }
                    let of_parent = self
                        .last
                        .get(&start.parent)
                        .map(|last| self.processes[last].above.clone());
                    let above = [start.parent.clone()]
                        .into_iter()
                        .chain(of_parent.unwrap_or_default());
                    let process = Process {
                        name: start.agent.clone(),
                        above: above.collect(),
                        asked_at: now,
                        started_at: None,
                        spoke: false,
                        silent: false,
                        ends: false,
                        released: false,
                        over: false,
                        call: None,
                    };
                    let of_before = self.of_process.iter();
                    let fenced = of_before.filter(|(_, of)| self.processes[of].name == start.agent);
                    self.fenced.extend(fenced.map(|(session, _)| *session));
                    self.processes.insert(start.worker, process);
                    self.last.insert(start.agent.clone(), start.worker);
                }
                Effect::EndWorker { worker } => {
                    let is_known = self.processes.get(worker).is_some_and(|process| !process.over);
                    if !is_known || !ends.insert(*worker) || !self.told_to_end.insert(*worker) {
                        self.broken(ENDED, format!("{worker:?} is told to end again, or too late"));
                    }
                }
                Effect::Reply { call, .. } => self.answers(*call),
                Effect::Note(event) => self.note(event),
                Effect::Opened { .. }
                | Effect::Changed { .. }
                | Effect::Deliver { .. }
                | Effect::Invoke { .. }
                | Effect::Tell { .. }
                | Effect::Superseded { .. } => {}
            }
        }
        self.are_told(|_| true);
        for (worker, process) in &self.processes {
            if process.ends && !process.over && !self.told_to_end.contains(worker) {
                let detail = format!("{worker:?} is to end, and is not told to");
                self.violations.push(Violation { law: ENDED, detail });
            }
        }
    }

    fn answers(&mut self, call: CallId) {
        let is_spawn = self.asking.contains(&call);
        if is_spawn && (!self.answered.insert(call) || self.given_up.contains(&call)) {
            self.broken(
                ANSWERED,
                format!("{call:?} is answered again, or though nobody wants that"),
            );
        }
    }

    fn note(&mut self, event: &Event) {
        if let Event::Accepted { message, agents, .. } = event {
            if message.from == AgentName::relay() {
                let metadata = message
                    .context
                    .as_ref()
                    .and_then(|context| context.metadata.clone());
                let metadata = metadata.expect("relay says what it is about");
                let mut words = metadata.split('"');
                let (name, event) = (words.nth(3).expect("a name"), words.nth(3).expect("an event"));
                if event != "handed_on" {
                    let name = AgentName::new(name).expect("a name");
                    self.told.entry(name).or_default().push(event.to_owned());
                }
            }
            if message.to.by() == ResolvedBy::Name {
                self.sent.insert(message.id);
                self.waits.insert(message.id, agents[0].clone());
            } else {
                let of_many = agents.iter().map(|agent| (agent.clone(), message.id));
                self.of_many.extend(of_many);
            }
        } else if let Event::HandedOn {
            message, from, to, ..
        } = event
        {
            if message.to.by() == ResolvedBy::Name {
                self.waits.insert(message.id, to.clone());
            } else {
                self.of_many.remove(&(from.clone(), message.id));
            }
        } else if let Event::HandedOver {
            handover,
            session,
            agent,
            deliveries,
            ..
        } = event
        {
            let of = self.of_process.get(session);
            if let (Some(of), Some(current)) = (of, self.last.get(agent))
                && of < current
            {
                let detail =
                    format!("{session:?} of {of:?} is handed what is for {agent}, who is {current:?}");
                self.broken(GENERATION, detail);
            }
            for delivery in deliveries.iter() {
                self.waits.remove(&delivery.message.id);
                self.of_many.remove(&(agent.clone(), delivery.message.id));
            }
            self.handed.insert(*handover, deliveries.to_vec());
        } else if let Event::Undone { handover, agent, .. } = event {
            for delivery in self.handed.remove(handover).unwrap_or_default() {
                if delivery.message.to.by() == ResolvedBy::Name {
                    self.waits.insert(delivery.message.id, agent.clone());
                } else {
                    self.of_many.insert((agent.clone(), delivery.message.id));
                }
            }
        } else if let Event::Confirmed { handover, .. } = event {
            for delivery in self.handed.remove(handover).unwrap_or_default() {
                self.arrived.insert(delivery.message.id);
            }
        } else if let Event::Worker(transition) = event {
            // Who leaves in the same step has left before that, or who comes, comes behind it.
            self.are_told(|worker| worker == transition.worker);
        } else if let Event::Registered { agent } = event {
            self.there.insert(agent.clone());
        } else if let Event::Gone { agent } = event {
            self.there.remove(agent);
            self.last.remove(agent);
            let lost = self.of_many.iter().find(|(of, _)| of == agent);
            if let Some((_, message)) = lost {
                self.broken(
                    HANDED_ON,
                    format!("{message:?}, for many, is gone with {agent}, who has not read it"),
                );
            }
        }
    }

    /// Looks at what waits where, between two inputs.
    pub fn between(&mut self) {
        let mut wrong = Vec::new();
        for (message, at) in &self.waits {
            let Some(process) = self.last.get(at).map(|last| &self.processes[last]) else {
                continue;
            };
            let has_left = |agent: &AgentName| {
                let process = self.last.get(agent).map(|last| &self.processes[last]);
                process.is_some_and(|process| process.released && process.over)
            };
            let mut above = process.above.iter();
            let has_heir = above.any(|above| self.is_there(above) && !has_left(above));
            if process.released && process.over && has_heir && !self.stopped {
                wrong.push(format!(
                    "{message:?} waits for {at}, who was released and has ended"
                ));
            }
        }
        for detail in wrong {
            self.broken(HANDED_ON, detail);
        }
    }

    /// Judges the whole, once nothing happens any more; `inboxes` has how much waits for each agent.
    pub fn end(&mut self, inboxes: &[(AgentName, usize)]) {
        let unanswered: Vec<_> = self
            .asking
            .iter()
            .filter(|call| !self.answered.contains(call) && !self.given_up.contains(call))
            .copied()
            .collect();
        for call in unanswered {
            self.broken(ANSWERED, format!("{call:?} is never answered"));
        }
        let names: BTreeSet<_> = self.expected.keys().chain(self.told.keys()).cloned().collect();
        for name in names {
            let expected = self.expected.get(&name).cloned().unwrap_or_default();
            let told = self.told.get(&name).cloned().unwrap_or_default();
            if expected != told {
                self.broken(TOLD, format!("of {name} was told {told:?}, not {expected:?}"));
            }
        }
        for (agent, count) in inboxes {
            let waiting = self.waits.values().filter(|at| *at == agent).count();
            if waiting > *count {
                self.broken(HANDED_ON, format!("{count} wait for {agent}, not {waiting}"));
            }
        }
        let known: BTreeSet<&AgentName> = inboxes.iter().map(|(agent, _)| agent).collect();
        let lost: Vec<_> = self
            .waits
            .iter()
            .filter(|(_, at)| !known.contains(at))
            .map(|(id, at)| (*id, at.clone()))
            .collect();
        for (message, at) in lost {
            self.broken(HANDED_ON, format!("{message:?} waits for {at}, who is not there"));
        }
        let handed: BTreeSet<MessageId> = self
            .handed
            .values()
            .flatten()
            .map(|delivery| delivery.message.id)
            .collect();
        let nowhere: Vec<_> = self
            .sent
            .iter()
            .filter(|id| !self.waits.contains_key(id) && !self.arrived.contains(id) && !handed.contains(id))
            .copied()
            .collect();
        for message in nowhere {
            self.broken(HANDED_ON, format!("{message:?} is nowhere"));
        }
    }
}
