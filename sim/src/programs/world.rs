//! A plan becomes a run: the hosts, the network between them, the faults, a while in which all is well and nobody says anything to
//! a program, and one in which everybody does.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use relay::engine::handling::Mode;
use relay::engine::limits::Bounds;
use relay::engine::{Engine, Roster};
use relay::server::{Config, Guard, KEEP_ALIVE, KnownAgents, Notes, System, serve};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Run;
use super::bug::Bug;
use super::doors::Doors;
use super::history::{At, History, Log, Post, Trace};
use super::laws::{asleep, judge, missing};
use super::places::runs;
use super::plan::{Plan, agent_name};
use super::senders::{flushes, sends, traced};
use super::tap::ProgramTap;
use crate::client::{SERVER, now_ms, set_step_ms};
use crate::marks::Marks;
use crate::net::{Ledger, SimListener};
use crate::plan::{Fault, FaultKind};
use crate::world::{Event, Schedule, box_name, clock, network, random};

/// How long all is well at the least before it is looked who is asleep, how long at the most while somebody is, and how often that
/// is looked at: what a program has shown that is gone, of which nobody tells, comes back after half an hour.
const QUIET_MS: u64 = 15_000;
const QUIET_MS_MAX: u64 = 36 * 60_000;
const LOOK_EVERY_MS: u64 = 5_000;

/// How long everybody says something at the most.
const LAST_MS_MAX: u64 = 4 * 60_000;

/// Notes of calls that wait, of which there are none here.
struct NoNotes;

impl Notes for NoNotes {
    fn read(&mut self) -> String {
        String::new()
    }

    fn append(&mut self, _: &str) {}

    fn rewrite(&mut self, _: &str) {}
}

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Things go wrong.
    Faulty,
    /// All is well, and nobody says anything to a program.
    Quiet,
    /// All is well, and everybody does.
    Last,
}

/// What programs and senders share.
#[derive(Clone)]
pub struct Shared {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Where it is written down what happens.
    pub log: Log,
    /// Where it is counted.
    pub marks: Marks,
    /// What kernels know.
    pub ledger: Ledger,
    /// How far each sender is; a machine that comes back goes on from there.
    pub next_posts: Arc<Vec<AtomicUsize>>,
    phase: Arc<AtomicUsize>,
    runs: Arc<AtomicU64>,
    /// How relay reaches the programs of this machine.
    pub doors: Doors,
    alive: Arc<Mutex<BTreeSet<String>>>,
}

impl Shared {
    /// What is going on.
    pub fn phase(&self) -> Phase {
        [Phase::Faulty, Phase::Quiet, Phase::Last][self.phase.load(Ordering::Relaxed)]
    }

    fn begins(&self, phase: Phase) {
        self.log.trace(now_ms(), format_args!("{phase:?}"));
        self.phase.store(phase as usize, Ordering::Relaxed);
    }

    /// Counts the starts of programs.
    pub fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// The numbers of the processes that run.
    pub fn alive(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.alive.lock().expect("a run has one thread")
    }
}

/// What all hosts share.
#[derive(Clone)]
struct World {
    shared: Shared,
    bug: Option<Bug>,
    boots: Rc<Cell<u64>>,
    stop: Rc<Cell<CancellationToken>>,
    ended: Rc<Cell<bool>>,
}

/// Runs a plan, with a seeded bug or without.
pub fn run(plan: &Plan, bug: Option<Bug>) -> Run {
    let world = World {
        shared: Shared {
            plan: Arc::new(plan.clone()),
            log: Log::default(),
            marks: Marks::default(),
            ledger: Ledger::default(),
            next_posts: Arc::new(plan.senders.iter().map(|_| AtomicUsize::new(0)).collect()),
            phase: Arc::default(),
            runs: Arc::default(),
            doors: Doors::default(),
            alive: Arc::default(),
        },
        bug,
        boots: Rc::default(),
        stop: Rc::default(),
        ended: Rc::default(),
    };
    world.drive();
    let history = std::mem::take(&mut *world.shared.log.history());
    note(plan, &history, &world.shared.marks);
    let violations = judge(plan, &history);
    Run {
        history,
        marks: world.shared.marks.counts(),
        violations,
    }
}

/// Counts what the history of a run shows to have happened.
fn note(plan: &Plan, history: &History, marks: &Marks) {
    for (place, shown) in history.shown.iter().enumerate() {
        let before = history.shown[..place].iter();
        let mut before = before.filter(|before| before.id == shown.id && before.agent == shown.agent);
        if let Some(before) = before.next() {
            marks.hit(if before.run == shown.run {
                "shown again to the same program"
            } else {
                "shown again to another program"
            });
        } else {
            marks.hit_if(shown.is_marked, "shown for the first time, marked");
        }
        marks.hit_if(shown.at == At::Wake && shown.is_marked, "woken with the mark");
        marks.hit_if(
            shown.key.is_some_and(|key| key.sender >= plan.senders.len()),
            "shown what a program posted",
        );
    }
    for agent in 0..plan.agents {
        let runs: BTreeSet<usize> = history
            .shown
            .iter()
            .filter(|shown| shown.agent == agent)
            .map(|shown| shown.place)
            .collect();
        marks.hit_if(runs.len() > 1, "two programs of one agent were shown something");
    }
    let own = history
        .accepted
        .iter()
        .filter(|accepted| accepted.given.is_none() && accepted.mode != Mode::default());
    let own: BTreeSet<String> = own.map(|accepted| accepted.id.to_string()).collect();
    let mut by_hooks = history.shown.iter().filter(|shown| shown.at != At::Tool);
    marks.hit_if(
        by_hooks.any(|shown| own.contains(&shown.id)),
        "shown as its agent has it",
    );
    for mode in Mode::ALL {
        let of_it = |post: &Post| post.mode == Some(mode);
        let shown = history.shown.iter().filter(|shown| shown.at != At::Tool);
        let mut posts = shown.filter_map(|shown| history.posts.get(&shown.key?));
        marks.hit_if(
            posts.any(of_it),
            match mode {
                Mode::Immediate => "shown: immediate",
                Mode::NextMessage => "shown: next-message",
                Mode::NextToolCall => "shown: next-tool-call",
                Mode::OnIdle => "shown: on-idle",
                Mode::Manual => "shown: manual",
            },
        );
    }
}

impl World {
    fn drive(&self) {
        let plan = &self.shared.plan;
        let mut sim = network(plan.seed, plan.latency_ms_max, Duration::from_secs(7_200));
        let server = self.clone();
        sim.host(SERVER.0, move || server.clone().serve());
        for number in 0..plan.boxes {
            let shared = self.shared.clone();
            sim.host(box_name(number), move || work(shared.clone(), number));
        }
        let shared = self.shared.clone();
        sim.client("end", async move {
            ends(&shared).await;
            Ok(())
        });
        let mut schedule = Schedule::new(&plan.faults, plan.boxes, plan.duration_ms);
        loop {
            let now_ms = u64::try_from(sim.elapsed().as_millis()).expect("a run is short");
            set_step_ms(now_ms);
            while let Some((event, fault)) = schedule.due(now_ms) {
                self.apply(&mut sim, event, &fault, now_ms);
            }
            if self.ended.take() {
                self.end_life(&mut sim, now_ms);
            }
            if sim.step().expect("neither the server nor a client panics") {
                // What still happens while it is cleared away is no part of it.
                self.shared.log.history().is_over = true;
                return;
            }
        }
    }

    /// The server's host: from one start to its end.
    async fn serve(self) -> turmoil::Result {
        let boot = self.boots.get();
        self.boots.set(boot + 1);
        let Shared {
            plan,
            log,
            marks,
            ledger,
            doors,
            ..
        } = self.shared.clone();
        let clock = clock();
        let names: Vec<String> = (0..plan.agents).map(agent_name).collect();
        let roster = Roster::new(names.iter().map(String::as_str)).expect("a few short names");
        let mut message_random = random(plan.seed, boot, 0);
        let engine = Engine::new(clock(), roster.clone(), Bounds::default(), message_random())
            // What it is to tell of its start, the simulation of agents sees.
            .after_sessions_of(Some(BTreeSet::new()));
        log.trace(now_ms(), format_args!("server start {boot}"));
        log.history().boots.push((now_ms(), None));
        let tap = ProgramTap::new(engine, marks.clone(), self.bug, log.clone());
        let config = Config {
            engine: Box::new(tap),
            roster,
            clock,
            message_random,
            stream_random: random(plan.seed, boot, 1),
            token_random: random(plan.seed, boot, 2),
            log: Box::new(relay::server::NoLog),
            notes: Box::new(NoNotes),
            agents: KnownAgents::default(),
            guard: Guard {
                port: SERVER.1,
                token: None,
            },
            keep_alive: KEEP_ALIVE,
            network: Arc::new(System),
            messaging: Arc::new(doors),
            push_allow: Vec::new(),
            starter: Arc::new(relay::server::NoStarter),
        };
        let stop = CancellationToken::new();
        self.stop.set(stop.clone());
        let listener = SimListener::bind(SERVER.1, ledger, marks).await?;
        serve(listener, config, stop).await?;
        log.trace(now_ms(), "server end");
        self.ended.set(true);
        // The process is gone when the world comes by.
        std::future::pending().await
    }

    fn apply(&self, sim: &mut turmoil::Sim<'_>, event: Event, fault: &Fault, now_ms: u64) {
        self.shared
            .log
            .trace(now_ms, format_args!("{event:?} of {:?}", fault.kind));
        match (fault.kind, event) {
            (FaultKind::Hold { on }, Event::Begin) => sim.hold(SERVER.0, box_name(on)),
            (FaultKind::Hold { on }, Event::End) => sim.release(SERVER.0, box_name(on)),
            (FaultKind::Partition { on }, Event::Begin) => sim.partition(SERVER.0, box_name(on)),
            (FaultKind::LoseRequests { on }, Event::Begin) => sim.partition_oneway(box_name(on), SERVER.0),
            (FaultKind::LoseReplies { on }, Event::Begin) => sim.partition_oneway(SERVER.0, box_name(on)),
            (
                FaultKind::Partition { on } | FaultKind::LoseRequests { on } | FaultKind::LoseReplies { on },
                Event::End,
            ) => sim.repair(SERVER.0, box_name(on)),
            (FaultKind::BoxCrash { on }, Event::Begin) => {
                self.shared.marks.hit("machine lost power");
                let machine: IpAddr = sim.lookup(box_name(on));
                self.shared.ledger.abort_all(machine);
                sim.crash(box_name(on));
            }
            (FaultKind::BoxCrash { on }, Event::End) => sim.bounce(box_name(on)),
            (FaultKind::Crash, Event::Begin) => self.end_life(sim, now_ms),
            (FaultKind::Stop, Event::Begin) => {
                let stop = self.stop.take();
                stop.cancel();
                self.stop.set(stop);
            }
            (FaultKind::Stop | FaultKind::Crash, Event::End) => {
                if sim.is_host_running(SERVER.0) {
                    self.end_life(sim, now_ms);
                }
                sim.bounce(SERVER.0);
            }
        }
    }

    /// Takes the server's process away, whatever it is doing.
    fn end_life(&self, sim: &mut turmoil::Sim<'_>, now_ms: u64) {
        sim.crash(SERVER.0);
        let mut history = self.shared.log.history();
        if let Some((_, until_ms)) = history.boots.last_mut() {
            until_ms.get_or_insert(now_ms);
        }
    }
}

/// A machine: its programs and senders.
async fn work(shared: Shared, number: usize) -> turmoil::Result {
    let plan = &shared.plan;
    for (slot, program) in plan.programs.iter().enumerate() {
        if program.on == number {
            tokio::spawn(runs(shared.clone(), slot));
        }
    }
    for agent in 0..plan.agents {
        if agent % plan.boxes == number {
            tokio::spawn(flushes(shared.clone(), agent));
        }
    }
    for (sender, plan) in plan.senders.iter().enumerate() {
        if plan.on == number {
            tokio::spawn(sends(shared.clone(), sender));
        }
    }
    std::future::pending().await
}

/// The end: all is quiet, then everybody says something, and then relay is asked what happened.
async fn ends(shared: &Shared) {
    let plan = &shared.plan;
    sleep(Duration::from_millis(plan.duration_ms)).await;
    shared.begins(Phase::Quiet);
    sleep(Duration::from_millis(QUIET_MS)).await;
    let look_every = Duration::from_millis(LOOK_EVERY_MS);
    let until_ms = now_ms() + QUIET_MS_MAX;
    while now_ms() < until_ms && !asleep(plan, &shared.log.history()).is_empty() {
        sleep(look_every).await;
    }
    let left = asleep(plan, &shared.log.history());
    shared.log.history().asleep = Some(left);
    shared.begins(Phase::Last);
    sleep(look_every).await;
    let until_ms = now_ms() + LAST_MS_MAX;
    while now_ms() < until_ms && !missing(plan, &shared.log.history()).is_empty() {
        sleep(look_every).await;
    }
    let left = missing(plan, &shared.log.history());
    shared.log.history().missing = Some(left);
    let accepted: Vec<_> = shared
        .log
        .history()
        .accepted
        .iter()
        .map(|accepted| accepted.id)
        .collect();
    for id in accepted {
        let asked_ms = now_ms();
        let said = traced(shared, &id.to_string()).await.unwrap_or_default();
        let mut history = shared.log.history();
        // The tap has put down what it had seen when that was asked.
        if let Some(trace) = history.traces.last_mut().filter(|trace| trace.id == id) {
            trace.said = said;
            trace.asked_ms = asked_ms;
        } else {
            let seen = Vec::new();
            history.traces.push(Trace {
                id,
                said,
                seen,
                asked_ms,
            });
        }
    }
}
