//! How a worker goes on once it was asked for: it starts, speaks, is told to end and ends; and who is told of that.

use std::sync::Arc;

use uuid::Uuid;

use super::super::agents::Registration;
use super::super::events::{Event, Places, WaitEnd};
use super::super::io::{Answer, Effect, Ending, Sign};
use super::super::limits::{LAST_LINES_BYTES_MAX, LAST_LINES_MAX, WORKER_SILENT_MS, WORKER_START_MS};
use super::super::message::{Context, Kind, Message};
use super::super::names::{AgentName, CallId, MessageId, Recipient, SessionId, WorkerId, nth_of, uuid_v4};
use super::super::pushes::clipped;
use super::super::timers::Timer;
use super::super::{Engine, Refusal, Step};
use super::{Became, ExitStatus, Happened, Last, Reply, Stage, Transition, Worker, WorkerState};

/// Beginning.
impl Engine {
    /// Has a name be a worker's from now on: all sessions that had it are fenced, for good, and whoever registers it as an instance from before
    /// is refused. Returns the instance of those who have it from now on.
    pub(super) fn begin_generation(
        &mut self,
        agent: &AgentName,
        registration: Registration,
        step: &mut Step<'_>,
    ) -> Uuid {
        // The process of an earlier worker may have left a hook behind, which says something yet.
        for state in self.sessions.values_mut() {
            if state.agent.as_ref() == Some(agent)
                && let Some(program) = &mut state.program
            {
                program.is_over = true;
            }
        }
        let before = self.agents.get(agent).and_then(|agent| agent.instance);
        let millis = u64::try_from(step.now.as_millis()).unwrap_or(0);
        let now = uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid();
        let after = before.map_or(0, |before| before.as_u128().saturating_add(1));
        let instance = now.max(Uuid::from_u128(after));
        let registration = Registration {
            instance: Some(instance),
            ..registration
        };
        self.register(agent, registration, step);
        self.is_kept(agent);
        // Nobody has done anything in its name yet: it may never start.
        self.has_not_been_heard_of(agent);
        instance
    }

    /// Takes note that a session has called a tool, or a hook has spoken.
    pub(in super::super) fn is_heard_of(&mut self, session: SessionId, step: &mut Step<'_>) {
        let state = &self.sessions[&session];
        if self.workers.all.is_empty() || state.fenced {
            return;
        }
        if let Some(agent) = state.agent.clone() {
            self.speaks(&agent, step);
        }
    }

    /// Takes note that a session has called a tool, or a hook has spoken, in an agent's name: if that is a worker's, it is ready.
    pub(in super::super) fn speaks(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        let Some(worker) = self.living(agent) else {
            return;
        };
        match &mut self.worker_mut(worker).stage {
            Stage::Starting { spoke, .. } => *spoke = true,
            Stage::Runs { spoke: true, .. } | Stage::Ending => {}
            Stage::Runs { spoke, until } => {
                *spoke = true;
                if let Some(at) = until.take() {
                    self.timers.disarm(at, Timer::WorkerSilent(worker));
                }
                self.is_ready(worker, step);
            }
        }
    }

    fn is_ready(&mut self, worker: WorkerId, step: &mut Step<'_>) {
        let agent = self.workers.all[&worker].agent.clone();
        let body = |name: &str| format!("Worker {name:?} is ready.");
        self.tell_parent(&agent, Became::Ready, body, step);
    }

    /// Returns the worker that lives under a name, if one does.
    pub(in super::super) fn living(&self, agent: &AgentName) -> Option<WorkerId> {
        // Most agents are asked about where there is no worker at all.
        if self.workers.all.is_empty() {
            return None;
        }
        let last = self.workers.last.get(agent)?;
        last.ended.is_none().then_some(last.worker)
    }

    fn worker_mut(&mut self, worker: WorkerId) -> &mut Worker {
        self.workers.all.get_mut(&worker).expect("the worker lives")
    }
}

/// What its process comes to.
impl Engine {
    /// Takes note of what happened to the process of a worker.
    pub(in super::super) fn worker_happened(
        &mut self,
        worker: WorkerId,
        happened: Happened,
        step: &mut Step<'_>,
    ) {
        let Some(Worker { stage, .. }) = self.workers.all.get(&worker) else {
            return;
        };
        match (*stage, happened) {
            (Stage::Starting { call, until, spoke }, Happened::Started) => {
                self.timers.disarm(until, Timer::WorkerStarts(worker));
                self.runs(worker, call, spoke, step);
            }
            (Stage::Starting { .. }, Happened::FailedToStart { reason }) => {
                let reason = line(&reason);
                self.fail(worker, &reason, None, step);
                self.end_worker(worker, WorkerState::Failed { reason }, step);
            }
            // It has begun what it was started for, however soon it was done.
            (
                Stage::Starting {
                    call,
                    until,
                    spoke: true,
                },
                Happened::Exited { status, last_lines },
            ) => {
                self.timers.disarm(until, Timer::WorkerStarts(worker));
                self.runs(worker, call, true, step);
                self.has_exited(worker, status, &last_lines, step);
            }
            (Stage::Starting { spoke: false, .. }, Happened::Exited { status, last_lines }) => {
                let reason = ended_at_once(status, &last_lines);
                self.fail(worker, &reason, None, step);
                self.end_worker(worker, WorkerState::Failed { reason }, step);
            }
            (Stage::Runs { until, .. }, Happened::Exited { status, last_lines }) => {
                if let Some(at) = until {
                    self.timers.disarm(at, Timer::WorkerSilent(worker));
                }
                self.has_exited(worker, status, &last_lines, step);
            }
            (Stage::Ending, Happened::Exited { status, last_lines }) => {
                let became = Became::Exited {
                    status,
                    last_lines: last_of(&last_lines),
                    expected: true,
                };
                let agent = self.workers.all[&worker].agent.clone();
                self.note_transition(&agent, became, false, step);
                self.end_worker(worker, WorkerState::Exited { status }, step);
            }
            (Stage::Ending, Happened::FailedToStart { reason }) => {
                let reason = line(&reason);
                let became = Became::Failed {
                    reason: reason.clone(),
                };
                let agent = self.workers.all[&worker].agent.clone();
                self.note_transition(&agent, became, false, step);
                self.end_worker(worker, WorkerState::Failed { reason }, step);
            }
            // Said twice, or late.
            (Stage::Runs { .. } | Stage::Ending, Happened::Started)
            | (Stage::Runs { .. }, Happened::FailedToStart { .. }) => {}
        }
    }

    fn runs(
        &mut self,
        worker: WorkerId,
        call: Option<(CallId, SessionId)>,
        spoke: bool,
        step: &mut Step<'_>,
    ) {
        let until = (!spoke).then(|| step.now.plus_millis(WORKER_SILENT_MS));
        if let Some(at) = until {
            self.timers.arm(at, Timer::WorkerSilent(worker));
        }
        self.worker_mut(worker).stage = Stage::Runs { spoke, until };
        let agent = self.workers.all[&worker].agent.clone();
        let last = self.last_mut(&agent);
        (last.leaves_nothing, last.hands_on) = (false, false);
        self.note_transition(&agent, Became::Started, false, step);
        if let Some((call, session)) = call {
            let parent = self.workers.last[&agent].parent().clone();
            self.is_answered(session, &parent, step);
            let spawned = Reply::Spawned {
                agent,
                parent,
                worker,
            };
            let answer = Answer {
                reply: spawned.into(),
                handover: None,
            };
            let answer = self.tell_of_start(session, answer, step);
            self.answer_spawn(call, WaitEnd::Woken, Ok(answer), step);
        }
        if spoke {
            self.is_ready(worker, step);
        }
    }

    /// Answers the call that waits for a worker.
    fn answer_spawn(
        &mut self,
        call: CallId,
        by: WaitEnd,
        answer: Result<Answer, Refusal>,
        step: &mut Step<'_>,
    ) {
        step.note(Event::WaitEnded { call, by });
        let handover = answer.as_ref().ok().and_then(|answer| answer.handover);
        step.out.push(Effect::Reply {
            call,
            result: answer.map(|answer| answer.reply),
            handover,
        });
    }

    /// Takes note that a worker that was to start has not; that is its end, unless it becomes something else. Whoever waits for it is told so, or
    /// else its parent.
    fn fail(&mut self, worker: WorkerId, reason: &str, became: Option<Became>, step: &mut Step<'_>) {
        let Stage::Starting { call, until, .. } = self.workers.all[&worker].stage else {
            unreachable!("a worker that has started does not fail to");
        };
        self.timers.disarm(until, Timer::WorkerStarts(worker));
        self.worker_mut(worker).stage = Stage::Ending;
        let agent = self.workers.all[&worker].agent.clone();
        let reason = reason.to_owned();
        let became = became.unwrap_or_else(|| Became::Failed {
            reason: reason.clone(),
        });
        match call {
            Some((call, _)) => {
                self.note_transition(&agent, became, false, step);
                let refusal = super::Refusal::Failed { reason };
                self.answer_spawn(call, WaitEnd::Woken, Err(refusal.into()), step);
            }
            None => {
                let body = |name: &str| format!("Worker {name:?} has not started: {reason}");
                self.tell_parent(&agent, became, body, step);
            }
        }
    }

    fn has_exited(&mut self, worker: WorkerId, status: ExitStatus, last_lines: &str, step: &mut Step<'_>) {
        let last_lines = last_of(last_lines);
        let became = Became::Exited {
            status,
            last_lines: last_lines.clone(),
            expected: false,
        };
        let body = |name: &str| match last_lines.as_str() {
            "" => format!("Worker {name:?} has ended ({status}). It wrote nothing."),
            lines => format!("Worker {name:?} has ended ({status}). Its last lines:\n{lines}"),
        };
        let agent = self.workers.all[&worker].agent.clone();
        self.tell_parent(&agent, became, body, step);
        self.end_worker(worker, WorkerState::Exited { status }, step);
    }

    /// Lets a worker be no more, whose process has ended. Nothing stays of one that has never run, unless its name was an earlier one's: all that
    /// it was sent goes to its parent.
    fn end_worker(&mut self, worker: WorkerId, state: WorkerState, step: &mut Step<'_>) {
        let Worker { agent, .. } = self.workers.all.remove(&worker).expect("the worker lives");
        let last = self.last_mut(&agent);
        last.ended = Some(state);
        let (leaves_nothing, hands_on) = (last.leaves_nothing, last.hands_on);
        // The hooks of its programs say nothing any more; its other connections end by themselves.
        let programs = self.programs_of(&self.agents[&agent]);
        let programs: Vec<SessionId> = programs.map(|(session, _)| session).collect();
        for session in programs {
            self.close(session, Ending::Broken, step);
        }
        self.goes_offline(&agent);
        self.agents_change(agent.project(), step);
        if leaves_nothing || hands_on {
            self.workers.leaving.insert(agent.clone());
        }
        if leaves_nothing {
            self.goes_at_once(&agent, step.now);
        } else {
            self.is_kept_no_more(&agent, true, step.now);
        }
    }

    fn last_mut(&mut self, agent: &AgentName) -> &mut Last {
        self.workers.last.get_mut(agent).expect("it is a worker's")
    }

    /// Takes note that an agent is gone.
    pub(in super::super) fn worker_is_forgotten(&mut self, agent: &AgentName) {
        self.workers.last.remove(agent);
        self.workers.leaving.remove(agent);
    }

    /// Takes note that others have taken over an agent: if it was a worker that has ended, it is nobody's worker now.
    pub(in super::super) fn worker_is_taken_over(&mut self, agent: &AgentName) {
        if self.living(agent).is_none() {
            self.worker_is_forgotten(agent);
        }
    }
}

/// Its end.
impl Engine {
    /// Has a worker end, because somebody has asked for that. Once is enough.
    pub(super) fn let_worker_go(
        &mut self,
        worker: WorkerId,
        by: &AgentName,
        reason: Option<String>,
        step: &mut Step<'_>,
    ) {
        let agent = self.workers.all[&worker].agent.clone();
        let is_new = self.workers.leaving.insert(agent.clone());
        self.last_mut(&agent).is_released = true;
        if self.workers.all[&worker].stage == Stage::Ending {
            return;
        }
        assert!(is_new, "what is released ends");
        let call = self.has_to_end(worker, step);
        let parent = self.workers.last[&agent].parent().clone();
        let became = Became::Released {
            by: by.clone(),
            reason: reason.clone(),
        };
        if *by == parent {
            self.note_transition(&agent, became, false, step);
        } else {
            let by = by.seen_from(parent.project()).into_owned();
            let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let body = |name: &str| format!("Worker {name:?} was released by {by}{why}");
            self.tell_parent(&agent, became, body, step);
        }
        if let Some(call) = call {
            let reason = format!("it was released by {by} before it had started");
            let refusal = super::Refusal::Failed { reason };
            self.answer_spawn(call, WaitEnd::Woken, Err(refusal.into()), step);
        }
    }

    /// Asks for the end of a worker's process. Returns the call that waits for its start, if one does.
    fn has_to_end(&mut self, worker: WorkerId, step: &mut Step<'_>) -> Option<CallId> {
        let before = std::mem::replace(&mut self.worker_mut(worker).stage, Stage::Ending);
        step.out.push(Effect::EndWorker { worker });
        match before {
            Stage::Starting { call, until, .. } => {
                self.timers.disarm(until, Timer::WorkerStarts(worker));
                call.map(|(call, _)| call)
            }
            Stage::Runs { until, .. } => {
                if let Some(at) = until {
                    self.timers.disarm(at, Timer::WorkerSilent(worker));
                }
                None
            }
            Stage::Ending => unreachable!("the end of a process is asked for once"),
        }
    }

    /// Has a worker end that has not started in time.
    pub(in super::super) fn worker_is_late(&mut self, worker: WorkerId, step: &mut Step<'_>) {
        let seconds = WORKER_START_MS / 1_000;
        let reason = format!("it has not started within {seconds} s");
        self.fail(worker, &reason, Some(Became::Late), step);
        step.out.push(Effect::EndWorker { worker });
    }

    /// Tells the parent of a worker that it has not spoken since it was started.
    pub(in super::super) fn worker_is_silent(&mut self, worker: WorkerId, step: &mut Step<'_>) {
        let Stage::Runs { until, .. } = &mut self.worker_mut(worker).stage else {
            unreachable!("a worker that is to speak runs");
        };
        if let Some(at) = until.take() {
            self.timers.disarm(at, Timer::WorkerSilent(worker));
        }
        let seconds = WORKER_SILENT_MS / 1_000;
        let body = |name: &str| {
            format!(
                "Worker {name:?} was started {seconds} s ago and has not spoken to relay yet; a person sees what it shows by: relay logs {name}"
            )
        };
        let agent = self.workers.all[&worker].agent.clone();
        self.tell_parent(&agent, Became::Silent, body, step);
    }

    /// Has all workers end, as the relay does.
    pub(in super::super) fn end_workers(&mut self, step: &mut Step<'_>) {
        let all: Vec<WorkerId> = self.workers.all.keys().copied().collect();
        for worker in all {
            if self.workers.all[&worker].stage != Stage::Ending
                && let Some(call) = self.has_to_end(worker, step)
            {
                self.answer_spawn(call, WaitEnd::Expired, Err(Refusal::Stopping), step);
            }
        }
    }

    /// Takes note that nobody waits any more for the start of a worker. It goes on. Tells whether that was what the call waited for.
    pub(in super::super) fn cancel_spawn(&mut self, given: CallId, step: &mut Step<'_>) -> bool {
        self.forget_spawns(|call, _| call == given, step)
    }

    /// The same of all calls of a session that is closed.
    pub(in super::super) fn cancel_spawns_of(&mut self, given: SessionId, step: &mut Step<'_>) {
        self.forget_spawns(|_, session| session == given, step);
    }

    fn forget_spawns(&mut self, is_meant: impl Fn(CallId, SessionId) -> bool, step: &mut Step<'_>) -> bool {
        let mut any = false;
        for worker in self.workers.all.values_mut() {
            if let Stage::Starting { call: waiting, .. } = &mut worker.stage
                && let Some((call, _)) = waiting.take_if(|(call, session)| is_meant(*call, *session))
            {
                let by = WaitEnd::Cancelled;
                step.note(Event::WaitEnded { call, by });
                any = true;
            }
        }
        any
    }
}

/// Telling.
impl Engine {
    pub(super) fn note_transition(&self, agent: &AgentName, became: Became, told: bool, step: &mut Step<'_>) {
        let last = &self.workers.last[agent];
        step.note(Event::Worker(Box::new(Transition {
            worker: last.worker,
            agent: agent.clone(),
            parent: last.parent().clone(),
            became,
            told,
        })));
    }

    /// Tells the parent of a worker what has become of it, in the words that `body` makes of the name by which the parent knows it.
    ///
    /// Where the parent is gone, or its inbox has no room, nobody is told: what waits there has come first. What has happened is in the
    /// event all the same, so in the log and for observers, and in the list of workers. While the relay stops nobody is told either.
    fn tell_parent(
        &mut self,
        agent: &AgentName,
        became: Became,
        body: impl FnOnce(&str) -> String,
        step: &mut Step<'_>,
    ) {
        let parent = self.workers.last[agent].parent().clone();
        let told = self.put_from_relay(agent, parent, became.as_str(), body, step);
        self.note_transition(agent, became, told, step);
    }

    /// Puts a message of the relay's own about a worker into the inbox of somebody above it, if there is room for it.
    pub(super) fn put_from_relay(
        &mut self,
        agent: &AgentName,
        to: AgentName,
        event: &str,
        body: impl FnOnce(&str) -> String,
        step: &mut Step<'_>,
    ) -> bool {
        let last = self.last_mut(agent);
        last.news += 1;
        let random = nth_of(last.random, last.news);
        let metadata = news_metadata(agent, event);
        let message = Message {
            id: MessageId(uuid_v4(random)),
            from: AgentName::relay(),
            to: Recipient::agent(&to),
            kind: Kind::Status,
            body: body(&agent.seen_from(to.project())),
            ts: step.wall,
            context: Some(Box::new(Context {
                metadata: Some(metadata),
                ..Context::default()
            })),
        };
        let bytes = message.bytes();
        if self.stopping || bytes > self.bounds.body_bytes_max || !self.inboxes.contains_key(&to) {
            return false;
        }
        let Some(giving_way) = self.room_for(&to, bytes) else {
            return false;
        };
        for handover in giving_way {
            self.sign(handover, Sign::Settled, step);
        }
        let message = Arc::new(message);
        let (place, told) = self.put(&to, &message, step);
        step.note(Event::Accepted {
            message,
            agents: vec![to],
            places: Places::One(place),
        });
        told.note(step);
        true
    }
}

/// What programs read of what the relay tells about a worker. A name has nothing in it that would have to be escaped.
pub(super) fn news_metadata(agent: &AgentName, event: &str) -> String {
    format!(r#"{{"worker":"{agent}","event":"{event}"}}"#)
}

/// Makes one line of a text, and cuts it.
fn line(text: &str) -> String {
    let parts = text.split(char::is_control).filter(|part| !part.is_empty());
    clipped(&parts.collect::<Vec<_>>().join(" ")).to_owned()
}

/// Says of a program that it has ended before it was said to run: whatever it wanted to do, it has not begun. It is not logged in, or does not take
/// its arguments.
fn ended_at_once(status: ExitStatus, last_lines: &str) -> String {
    match last_of(last_lines).as_str() {
        "" => format!("it has ended at once with {status}; it has written nothing"),
        lines => format!(
            "it has ended at once with {status}: {}",
            lines.replace('\n', " / ")
        ),
    }
}

/// Returns the last lines of what a program has written, without what would steer a terminal.
fn last_of(text: &str) -> String {
    let is_shown = |c: &char| *c == '\n' || *c == '\t' || !c.is_control();
    let text: String = text.chars().filter(is_shown).collect();
    let text = text.trim_end();
    let mut cut = text.len() - text.len().min(LAST_LINES_BYTES_MAX);
    while !text.is_char_boundary(cut) {
        cut += 1;
    }
    let lines: Vec<&str> = text[cut..].lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES_MAX)..].join("\n")
}
