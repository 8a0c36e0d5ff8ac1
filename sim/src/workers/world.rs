//! What surrounds the engine: agents that ask for workers and release them, processes that start, speak and end when they please, and reports
//! and frames that come late.

mod agents;

use std::collections::BTreeMap;

use fastrand::Rng;
use relay::engine::agents::{Profile, Registration};
use relay::engine::limits::Bounds;
use relay::engine::workers::{Command as Ask, ExitStatus, Happened, Refusal as NotDone, Reply as Answer};
use relay::engine::{
    AgentName, CallId, Carrier, Command, Effect, Ending, Engine, HandoverId, Input, Refusal, Reply, Roster,
    SessionId, Sign, Timestamp, Who, WorkerId, mail,
};
use uuid::Uuid;

use super::bug::Bug;
use super::laws::{RELEASED, Watch};
use crate::laws::Violation;

/// The sessions of those who are always there.
const PM: SessionId = SessionId(1);
const DEV: SessionId = SessionId(2);
pub(super) const PERSONS: SessionId = SessionId(3);

/// When a relay starts.
const START: i64 = 1_777_732_200_000;

/// How few names there are for workers: so that they are used again.
const WORKER_NAMES: u64 = 4;

/// Something that comes at its time.
#[derive(Debug, Clone)]
enum Next {
    /// Somebody does something.
    Acts,
    Reports(WorkerId, Happened),
    Speaks(WorkerId),
    Closes(SessionId),
    /// A session is opened anew for who had it.
    Opens(SessionId),
    Gives(CallId),
    Signs(HandoverId, Sign),
    Stops,
}

/// A run.
pub struct World {
    rng: Rng,
    engine: Engine,
    bug: Option<Bug>,
    now: i64,
    queue: BTreeMap<(i64, u64), Next>,
    queued: u64,
    calls: u64,
    sessions: u64,
    /// Which sessions are open, and of whom.
    open: BTreeMap<SessionId, AgentName>,
    /// The session and the instance of each process that has connected.
    connected: BTreeMap<WorkerId, (SessionId, Uuid)>,
    /// Whom a call is to release, and whether its caller may.
    releasing: BTreeMap<CallId, (WorkerId, bool)>,
    pub(super) watch: Watch,
    pub(super) marks: BTreeMap<&'static str, u64>,
    pub(super) trace: Vec<String>,
}

impl World {
    /// Makes the world of a seed.
    pub fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let bounds = Bounds {
            workers_max: rng.usize(2..=5),
            ..Bounds::default()
        };
        let roster = Roster::new(["pm", "dev-a"]).expect("two names");
        let engine = Engine::new(Timestamp::from_millis(START), roster, bounds, [0; 16]);
        let mut world = Self {
            rng,
            engine,
            bug,
            now: 0,
            queue: BTreeMap::new(),
            queued: 0,
            calls: 0,
            sessions: 100,
            open: BTreeMap::new(),
            connected: BTreeMap::new(),
            releasing: BTreeMap::new(),
            watch: Watch::default(),
            marks: BTreeMap::new(),
            trace: Vec::new(),
        };
        for session in [PM, DEV, PERSONS] {
            world.queue(0, Next::Opens(session));
        }
        let length = world.rng.i64(60_000..400_000);
        for _ in 0..world.rng.u64(20..80) {
            let at = world.rng.i64(1..length);
            world.queue(at, Next::Acts);
        }
        for session in [PM, DEV] {
            if world.rng.u8(..4) == 0 {
                let at = world.rng.i64(1..length);
                world.queue(at, Next::Closes(session));
                let away = world.rng.i64(1..5_000);
                world.queue(at + away, Next::Opens(session));
            }
        }
        world.queue(length, Next::Stops);
        world
    }

    /// Runs it to its end.
    pub fn run(&mut self) -> Vec<Violation> {
        while let Some(((at, _), next)) = self.queue.pop_first() {
            self.wait_until(at);
            self.trace.push(format!("{at} {next:?}"));
            self.comes(next);
            self.watch.between();
            if !self.watch.violations.is_empty() {
                break;
            }
        }
        // What is still under way comes back to its inbox.
        for session in self.open.keys().copied().collect::<Vec<_>>() {
            self.close(session);
        }
        let inboxes = self.engine.status().pending;
        self.watch.end(&inboxes);
        std::mem::take(&mut self.watch.violations)
    }

    fn queue(&mut self, at: i64, next: Next) {
        self.queue.insert((at.max(self.now), self.queued), next);
        self.queued += 1;
    }

    fn later(&mut self, ms: i64, next: Next) {
        let ms = self.rng.i64(0..=ms);
        self.queue(self.now + ms, next);
    }

    fn hit(&mut self, mark: &'static str) {
        *self.marks.entry(mark).or_default() += 1;
    }

    /// Lets the time come, with all that ends by itself until then.
    fn wait_until(&mut self, at: i64) {
        while let Some((due, _)) = self.engine.poll_timeout()
            && due.as_millis() - START <= at
        {
            self.now = (due.as_millis() - START).max(self.now);
            self.watch.time(self.now);
            let mut effects = Vec::new();
            self.engine
                .handle_timeout(Timestamp::from_millis(START + self.now), &mut effects);
            self.takes(effects);
        }
        self.now = at.max(self.now);
    }

    fn handle(&mut self, mut input: Input) {
        if let Some(bug) = self.bug {
            let watch = &self.watch;
            bug.on_input(&mut input, |worker| {
                let name = &watch.processes.get(&worker)?.name;
                watch.last.get(name).copied()
            });
        }
        let mut effects = Vec::new();
        self.engine
            .handle(Timestamp::from_millis(START + self.now), input, &mut effects);
        self.takes(effects);
    }

    /// Carries out what the engine wants.
    fn takes(&mut self, mut effects: Vec<Effect>) {
        if let Some(bug) = self.bug {
            let asking = &self.watch.asking;
            bug.on_effects(
                &mut effects,
                |effect| matches!(effect, Effect::Reply { call, .. } if asking.contains(call)),
            );
        }
        self.trace
            .extend(effects.iter().map(|effect| format!("    {effect:?}")));
        let again = effects.iter().any(|effect| {
            matches!(effect, Effect::StartWorker(start) if self.watch.last.contains_key(&start.agent))
        });
        if again {
            self.hit("started again under its name");
        }
        self.watch.see(self.now, &effects);
        for effect in effects {
            match effect {
                Effect::StartWorker(start) => self.starts(start.worker),
                Effect::EndWorker { worker } => self.ends(worker),
                Effect::Reply {
                    call,
                    result,
                    handover,
                } => {
                    self.answered(call, result);
                    if let Some(handover) = handover {
                        let sign = if self.rng.u8(..8) == 0 {
                            Sign::Lost
                        } else {
                            Sign::Passed
                        };
                        self.later(50, Next::Signs(handover, sign));
                    }
                }
                Effect::Note(relay::engine::Event::HandedOn { .. }) => self.hit("handed on"),
                Effect::Note(_)
                | Effect::Opened { .. }
                | Effect::Changed { .. }
                | Effect::Deliver { .. }
                | Effect::Invoke { .. }
                | Effect::Tell { .. }
                | Effect::Superseded { .. } => {}
            }
        }
    }

    fn starts(&mut self, worker: WorkerId) {
        let at = self.now;
        let failed = Happened::FailedToStart {
            reason: "no such program".to_owned(),
        };
        let exited = Happened::Exited {
            status: ExitStatus::Code(1),
            last_lines: "bye".to_owned(),
        };
        let takes = match self.rng.u8(..8) {
            0 => 45_000,
            1 => 0,
            _ => 3_000,
        };
        let runs_at = at + self.rng.i64(0..=takes);
        match self.rng.u8(..10) {
            0 => return self.queue(runs_at, Next::Reports(worker, failed)),
            1 => return self.queue(runs_at, Next::Reports(worker, exited)),
            _ => self.queue(runs_at, Next::Reports(worker, Happened::Started)),
        }
        // It may speak before it is said to run, or not at all.
        if self.rng.u8(..6) > 0 {
            let first = at + self.rng.i64(0..=20_000);
            for _ in 0..self.rng.u8(1..6) {
                let at = first + self.rng.i64(0..60_000);
                self.queue(at, Next::Speaks(worker));
            }
        }
        if self.rng.bool() {
            let at = runs_at + self.rng.i64(1..120_000);
            self.queue(at, Next::Reports(worker, exited));
        }
    }

    /// Has a process end that was told to.
    fn ends(&mut self, worker: WorkerId) {
        let happened = if self.watch.processes[&worker].started_at.is_none() && self.rng.bool() {
            Happened::FailedToStart {
                reason: "ended".to_owned(),
            }
        } else {
            Happened::Exited {
                status: ExitStatus::Signal(15),
                last_lines: String::new(),
            }
        };
        self.later(8_000, Next::Reports(worker, happened));
    }

    fn comes(&mut self, next: Next) {
        match next {
            Next::Acts => self.acts(),
            Next::Reports(worker, happened) => self.reports(worker, happened),
            Next::Speaks(worker) => self.speaks(worker),
            Next::Closes(session) => self.close(session),
            Next::Opens(session) => self.opens(session),
            Next::Gives(call) => self.gives_up(call),
            Next::Signs(handover, sign) => {
                self.handle(Input::Signed { handover, sign });
                if sign == Sign::Passed && self.rng.bool() {
                    self.later(500, Next::Signs(handover, Sign::Followed));
                }
            }
            Next::Stops => {
                if self
                    .watch
                    .processes
                    .values()
                    .any(|process| !process.over && !process.ends)
                {
                    self.hit("stopped with workers");
                }
                if self
                    .watch
                    .processes
                    .values()
                    .any(|process| process.call.is_some())
                {
                    self.hit("stopped while a spawn waited");
                }
                self.watch.stopped = true;
                for process in self.watch.processes.values_mut().filter(|process| !process.over) {
                    process.ends = true;
                }
                self.handle(Input::Stopping);
            }
        }
    }

    fn reports(&mut self, worker: WorkerId, happened: Happened) {
        let process = self.watch.processes.get_mut(&worker).expect("it was started");
        let is_over = process.over;
        if is_over {
            let name = process.name.clone();
            let is_current = self.watch.last.get(&name) == Some(&worker);
            self.hit(if is_current {
                "reported twice"
            } else {
                "reported behind a later start"
            });
        } else if happened == Happened::Started {
            let waits = process.call.take().is_some();
            if !process.ends && process.started_at.is_none() {
                process.started_at = Some(self.now);
                if process.spoke {
                    self.hit("spoke before it ran");
                    self.watch.expects(worker, "ready");
                }
                self.hit(if waits {
                    "answered that it runs"
                } else {
                    "ran though nobody waited"
                });
            }
        } else {
            process.over = true;
            let (ends, started) = (process.ends, process.started_at.is_some());
            let waits = process.call.take().is_some();
            match (ends, started) {
                (true, _) => self.hit("ended as it was told to"),
                (false, true) => {
                    self.hit("ended by itself");
                    self.watch.expects(worker, "exited");
                }
                (false, false) if waits => self.hit("answered that it does not run"),
                (false, false) => {
                    self.hit("failed though nobody waited");
                    self.watch.expects(worker, "failed");
                }
            }
            // Reports and connections may be late; the end of the process is not.
            if self.rng.u8(..3) == 0 {
                self.later(20_000, Next::Reports(worker, happened.clone()));
            }
            if let Some((session, _)) = self.connected.get(&worker).copied() {
                self.later(10_000, Next::Closes(session));
                if self.rng.u8(..3) == 0 {
                    self.later(9_000, Next::Speaks(worker));
                }
            }
        }
        self.handle(Input::Worker { worker, happened });
    }

    /// Has a process do something, over its session, or over a new one that is of its instance.
    fn speaks(&mut self, worker: WorkerId) {
        let process = &self.watch.processes[&worker];
        let (name, is_over) = (process.name.clone(), process.over);
        if is_over && !self.connected.contains_key(&worker) {
            return;
        }
        let is_open = self
            .connected
            .get(&worker)
            .is_some_and(|(session, _)| self.open.contains_key(session));
        let session = match self.connected.get(&worker) {
            Some((session, _)) if is_open && self.rng.u8(..4) > 0 => *session,
            known => {
                let millis = u64::try_from(START + self.now).expect("it is past");
                let random = [self.rng.u8(..); 10];
                let new = uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
                let instance = known.map_or(new, |(_, instance)| *instance);
                let session = SessionId(self.sessions);
                self.sessions += 1;
                self.connected.insert(worker, (session, instance));
                self.watch.of_process.insert(session, worker);
                let registration = Registration {
                    name: name.to_string(),
                    instance: Some(instance),
                    profile: Profile::default(),
                    ..Registration::default()
                };
                self.open(session, Who::Registered(Box::new(registration)), &name);
                session
            }
        };
        if !self.open.contains_key(&session) {
            return self.hit("a session of an earlier worker was refused");
        }
        let before = self.watch.last.get(&name).copied();
        if before == Some(worker) {
            self.watch.spoke(worker);
        }
        let me = || Some(name.to_string());
        match self.rng.u8(..6) {
            0 => self.spawns(session, &name),
            1 => self.releases(session, &name),
            2 => self.posts(session, &name),
            _ => {
                let command = mail::Command::read_all(me(), 0);
                self.call(session, command.into());
            }
        }
    }

    fn open(&mut self, session: SessionId, who: Who, agent: &AgentName) {
        let input = Input::Opened {
            session,
            carrier: Carrier::Stream,
            who,
        };
        let sessions = self.engine.status().sessions;
        self.handle(input);
        if self.engine.status().sessions > sessions {
            self.open.insert(session, agent.clone());
        }
    }

    fn opens(&mut self, session: SessionId) {
        let (who, agent) = match session {
            PM => (Who::Agent(Some("pm".to_owned())), "pm"),
            DEV => (Who::Agent(Some("dev-a".to_owned())), "dev-a"),
            _ => (Who::Person, "user"),
        };
        let agent = if agent == "user" {
            AgentName::person()
        } else {
            AgentName::new(agent).expect("a name")
        };
        self.open(session, who, &agent);
    }

    fn close(&mut self, session: SessionId) {
        if self.open.remove(&session).is_none() {
            return;
        }
        let calls: Vec<CallId> = self.watch.asking_of(session);
        if !calls.is_empty() {
            self.hit("gone while a spawn waited");
        }
        for call in calls {
            self.forget_call(call);
        }
        let ending = if self.rng.bool() {
            Ending::Orderly
        } else {
            Ending::Broken
        };
        self.handle(Input::Closed { session, ending });
    }

    fn gives_up(&mut self, call: CallId) {
        if self.forget_call(call) {
            self.hit("spawn cancelled");
        }
        self.handle(Input::Cancelled { call });
    }

    /// Takes note that nobody waits for a call. Tells whether it was still to be answered.
    fn forget_call(&mut self, call: CallId) -> bool {
        for process in self.watch.processes.values_mut() {
            if process.call == Some(call) {
                process.call = None;
                self.watch.given_up.insert(call);
                return true;
            }
        }
        false
    }

    fn call(&mut self, session: SessionId, command: Command) -> CallId {
        let call = CallId(self.calls);
        self.calls += 1;
        let mut random = [0; 16];
        self.rng.fill(&mut random);
        if matches!(command, Command::Workers(Ask::Spawn(_))) {
            self.watch.asks(call, session);
        }
        self.handle(Input::Call {
            session,
            call,
            random,
            command,
        });
        call
    }

    fn answered(&mut self, call: CallId, result: Result<Reply, Refusal>) {
        if let Some((worker, may)) = self.releasing.remove(&call) {
            let is_done = matches!(result, Ok(Reply::Workers(Answer::Released { .. })));
            if is_done && !may {
                self.watch
                    .broken(RELEASED, format!("{worker:?} is released by {call:?}"));
            }
        }
        if let Err(Refusal::Workers(refusal)) = &result {
            let mark = match refusal {
                NotDone::Lives { .. } => "refused: it lives",
                NotDone::TooMany { .. } => "refused: too many",
                NotDone::TooDeep { .. } => "refused: too deep",
                NotDone::NotYours { .. } => "refused: not yours",
                NotDone::Ended { .. } => "refused: it has ended",
                NotDone::Unknown { .. } => "refused: no worker",
                NotDone::Failed { .. } => "answered: failed",
                NotDone::Off
                | NotDone::ThePersons { .. }
                | NotDone::NotAWorker { .. }
                | NotDone::Empty { .. }
                | NotDone::TooLong { .. }
                | NotDone::NotALine { .. }
                | NotDone::OtherProject { .. } => return,
            };
            self.hit(mark);
        }
    }
}
