//! A plan becomes a run: the hosts, the network between them, the faults, a while in which all is well, and the end of relay with what
//! still runs.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use relay::engine::limits::Bounds;
use relay::engine::{Engine, Roster};
use relay::server::{Config, Guard, KEEP_ALIVE, KnownAgents, Notes, System, serve};
use tokio::task::spawn_local;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::bug::Bug;
use super::history::{Boot, History, Log, lead_name};
use super::laws::judge;
use super::people::{Person, leads};
use super::plan::{GRACE_MS, Plan, REPORT_MS, WORKER_NAMES};
use super::starter::{Machine, Processes, runs};
use super::tap::WorkerTap;
use crate::client::{SERVER, now_ms, set_step_ms};
use crate::marks::Marks;
use crate::net::{Ledger, SimListener};
use crate::plan::{Fault, FaultKind, STOP_MS};
use crate::workers::Run;
use crate::world::{Event, Schedule, TICK, box_name, clock, network, random};

/// How long all is well before the inboxes are emptied: a doubt lasts 20 s, and what the network has cut is given up after 10 s.
const QUIET_MS: u64 = 50_000;

/// How long relay may take at the most to end in order.
const END_MS: u64 = GRACE_MS + REPORT_MS + STOP_MS;

/// Notes of calls that wait, of which there are none here.
struct NoNotes;

impl Notes for NoNotes {
    fn read(&mut self) -> String {
        String::new()
    }

    fn append(&mut self, _: &str) {}

    fn rewrite(&mut self, _: &str) {}
}

/// What hosts share.
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
    /// Where processes run.
    pub machines: Arc<Vec<Arc<Machine>>>,
    /// Nobody asks for workers any more, and nothing goes wrong.
    quiet: Arc<AtomicBool>,
    /// Counts the starts of machines.
    lives: Arc<AtomicU64>,
}

impl Shared {
    /// Tells whether nobody does anything any more but read.
    pub fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// Makes the source of what is drawn for one purpose.
    pub fn rng(&self, purpose: u64) -> Rng {
        Rng::with_seed(self.plan.seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// What all hosts share.
#[derive(Clone)]
struct World {
    shared: Shared,
    bug: Option<Bug>,
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
            machines: Arc::new((0..plan.boxes).map(|_| Arc::default()).collect()),
            quiet: Arc::default(),
            lives: Arc::default(),
        },
        bug,
        stop: Rc::default(),
        ended: Rc::default(),
    };
    world.drive();
    let Shared { log, marks, .. } = &world.shared;
    let history = std::mem::take(&mut *log.history());
    let sessions = std::mem::take(&mut *log.sessions.history());
    let violations = judge(plan, &history, &sessions.stray_answers);
    Run {
        marks: marks.counts(),
        trace: sessions.trace,
        violations,
    }
}

impl World {
    fn drive(&self) {
        let plan = &self.shared.plan;
        let mut sim = network(plan.seed, plan.latency_ms_max, Duration::from_secs(3_600));
        let server = self.clone();
        sim.host(SERVER.0, move || server.clone().serve());
        for number in 0..plan.boxes {
            let shared = self.shared.clone();
            sim.host(box_name(number), move || work(shared.clone(), number));
        }
        let slow = Duration::from_millis(plan.latency_ms_max.max(plan.slow_ms_max));
        for number in 1..plan.boxes {
            sim.set_link_max_message_latency(SERVER.0, box_name(number), slow);
        }
        let world = self.clone();
        sim.client("end", async move {
            world.ends().await;
            Ok(())
        });
        let mut schedule = Schedule::new(&plan.faults, plan.boxes, plan.duration_ms);
        loop {
            let now_ms = u64::try_from(sim.elapsed().as_millis()).expect("a run is short");
            set_step_ms(now_ms);
            while let Some((event, fault)) = schedule.due(now_ms) {
                self.apply(&mut sim, event, &fault);
            }
            if self.ended.take() {
                self.end_life(&mut sim);
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
        let Shared {
            plan,
            log,
            marks,
            ledger,
            ..
        } = self.shared.clone();
        let boot = log.history().boots.len();
        let seed = |purpose| random(plan.seed, boot as u64, purpose);
        let clock = clock();
        let roster = Roster::new(["pm"]).expect("a short name");
        let mut message_random = seed(0);
        let bounds = Bounds {
            workers_max: plan.workers_max,
            ..Bounds::default()
        };
        let engine = Engine::new(clock(), roster.clone(), bounds, message_random())
            // What it is to tell of its start, the simulation of agents sees.
            .after_sessions_of(Some(BTreeSet::new()));
        log.trace(format_args!("server start {boot}"));
        log.history().boots.push(Boot::default());
        let tap = WorkerTap::new(engine, marks.clone(), self.bug, log.clone(), boot);
        let config = Config {
            engine: Box::new(tap),
            roster,
            clock,
            message_random,
            stream_random: seed(1),
            token_random: seed(2),
            log: Box::new(relay::server::NoLog),
            notes: Box::new(NoNotes),
            agents: KnownAgents::default(),
            guard: Guard {
                port: SERVER.1,
                token: None,
            },
            keep_alive: KEEP_ALIVE,
            network: Arc::new(System),
            messaging: Arc::new(System),
            push_allow: Vec::new(),
            starter: Arc::new(Processes::new(self.shared.clone(), boot)),
        };
        let stop = CancellationToken::new();
        self.stop.set(stop.clone());
        let listener = SimListener::bind(SERVER.1, ledger, marks).await?;
        serve(listener, config, stop).await?;
        log.trace("server end");
        log.history().boots[boot].ended_ms = Some(now_ms());
        self.ended.set(true);
        // The process is gone when the world comes by.
        std::future::pending().await
    }

    fn apply(&self, sim: &mut turmoil::Sim<'_>, event: Event, fault: &Fault) {
        let Shared {
            log, marks, ledger, ..
        } = &self.shared;
        log.trace(format_args!("{event:?} of {:?}", fault.kind));
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
                let machine: IpAddr = sim.lookup(box_name(on));
                ledger.abort_all(machine);
                self.shared.machines[on].stops(&self.shared);
                sim.crash(box_name(on));
            }
            (FaultKind::BoxCrash { on }, Event::End) => sim.bounce(box_name(on)),
            (FaultKind::Crash, Event::Begin) => {
                let lives =
                    |history: &History| history.processes.iter().any(|process| process.ended.is_none());
                marks.hit_if(lives(&log.history()), "killed with workers");
                self.end_life(sim);
            }
            (FaultKind::Stop, Event::Begin) => self.asks_to_end(),
            (FaultKind::Stop | FaultKind::Crash, Event::End) => {
                if sim.is_host_running(SERVER.0) {
                    self.end_life(sim);
                }
                sim.bounce(SERVER.0);
            }
        }
    }

    fn asks_to_end(&self) {
        if let Some(boot) = self.shared.log.history().boots.last_mut() {
            boot.asked_ms.get_or_insert(now_ms());
        }
        let stop = self.stop.take();
        stop.cancel();
        self.stop.set(stop);
    }

    /// Takes the server's process away, whatever it is doing.
    fn end_life(&self, sim: &mut turmoil::Sim<'_>) {
        let mut history = self.shared.log.history();
        if let Some(boot) = history.boots.last_mut().filter(|boot| boot.ended_ms.is_none()) {
            boot.killed_ms.get_or_insert(now_ms());
        }
        drop(history);
        sim.crash(SERVER.0);
    }

    /// The end: all is quiet, then the person reads what is left, and then relay ends with what still runs.
    async fn ends(&self) {
        let Shared { plan, log, quiet, .. } = &self.shared;
        sleep(Duration::from_millis(plan.duration_ms)).await;
        log.trace("quiet");
        quiet.store(true, Ordering::Relaxed);
        let person = Person::new(self.shared.clone());
        if plan.is_released_at_end {
            for number in 0..WORKER_NAMES {
                person.releases(&format!("w{number}")).await;
            }
        }
        sleep(Duration::from_millis(QUIET_MS)).await;
        let workers = (0..WORKER_NAMES).map(|number| format!("w{number}"));
        let inboxes = workers.chain((0..plan.leads).map(lead_name));
        let inboxes: Vec<String> = inboxes.chain(["user".to_owned()]).collect();
        let drained_ms = now_ms();
        let mut is_left = true;
        while is_left {
            is_left = false;
            for of in &inboxes {
                is_left |= person.reads(of).await.is_some_and(|count| count > 0);
            }
        }
        log.history().drained_ms = Some(drained_ms);
        self.asks_to_end();
        let is_over = || {
            let history = log.history();
            history.boots.last().is_some_and(|boot| boot.ended_ms.is_some())
        };
        let until_ms = now_ms() + 2 * END_MS;
        while now_ms() < until_ms && !is_over() {
            sleep(TICK).await;
        }
    }
}

/// A machine: its processes, its agents, and the person at one of them.
async fn work(shared: Shared, number: usize) -> turmoil::Result {
    let life = shared.lives.fetch_add(1, Ordering::Relaxed);
    spawn_local(runs(shared.clone(), number));
    if number == 0 {
        for lead in 0..shared.plan.leads {
            spawn_local(leads(shared.clone(), lead, life));
        }
        spawn_local(Person::new(shared.clone()).acts(life));
    }
    std::future::pending().await
}
