//! A plan becomes a run: the hosts, the network between them, the faults, and a while in which all is healed.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relay::engine::limits::Bounds;
use relay::engine::{Engine, Roster};
use relay::server::{Config, Guard, KEEP_ALIVE, KnownAgents, Notes, serve};
use relay_sdk::{BoxedIo, Connect};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Run;
use super::actions::caller::Disk;
use super::bug::Bug;
use super::fleets::Fleets;
use super::history::{Given, Log, Posted, Shown};
use super::hooks::SimNetwork;
use super::laws::{all_is_pushed, judge};
use super::listers;
use super::observers::Had;
use super::plan::Plan;
use super::tap::NodeTap;
use crate::client::{SERVER, now_ms, set_step_ms};
use crate::marks::Marks;
use crate::net::{ClientIo, Ledger, SimListener};
use crate::plan::{Fault, FaultKind};
use crate::world::{Event, Schedule, box_name, clock, network, random};

/// How long all is well at the end: a node may be held for 45 s by one that is gone, and a deferral lasts 10 s.
const QUIET_MS: u64 = 150_000;

/// How much longer it is so at the most while something is still to be pushed, and how often that is looked at.
const PUSHING_MS_MAX: u64 = 20 * 60_000;
const PUSHING_EVERY_MS: u64 = 30_000;

/// How long before the end it is looked at what observers must have been told of.
const SETTLED_MS: u64 = 5_000;

/// Notes of calls that wait, of which there are none here.
struct NoNotes;

impl Notes for NoNotes {
    fn read(&mut self) -> String {
        String::new()
    }

    fn append(&mut self, _: &str) {}

    fn rewrite(&mut self, _: &str) {}
}

/// Connections of the simulated network.
pub(super) struct SimConnect(pub Ledger);

impl Connect for SimConnect {
    fn connect<'a>(&'a self, _: &'a str) -> Pin<Box<dyn Future<Output = io::Result<BoxedIo>> + Send + 'a>> {
        Box::pin(async {
            let io = ClientIo::connect_from_anywhere(SERVER, self.0.clone()).await?;
            Ok(Box::new(io) as BoxedIo)
        })
    }
}

/// What all hosts share.
#[derive(Clone)]
pub(super) struct World {
    pub plan: Arc<Plan>,
    pub log: Log,
    pub marks: Marks,
    pub ledger: Ledger,
    pub bug: Option<Bug>,
    pub boots: Rc<Cell<u64>>,
    pub stop: Rc<Cell<CancellationToken>>,
    pub ended: Rc<Cell<bool>>,
    /// Counts the starts of programs.
    pub processes: Arc<AtomicU64>,
    /// How far each poster is; a machine that comes back goes on from there.
    pub next_posts: Arc<Vec<AtomicUsize>>,
    /// Which of the person's steps is the next.
    pub next_hold: Arc<AtomicUsize>,
    /// How many messages targets are busy with, by machine.
    pub busy: Arc<Vec<AtomicUsize>>,
    /// How far each observer is.
    pub had: Had,
    /// Where the agents of nodes for several are to run, and what those know.
    pub fleets: Arc<Fleets>,
    /// What is on the disk of who asks for actions.
    pub caller: Arc<Mutex<Disk>>,
    /// What is on the disks of those who list.
    pub listers: Arc<Vec<Arc<Mutex<listers::Disk>>>>,
    /// Counts the connections of such nodes.
    pub connections: Arc<AtomicU64>,
}

/// Runs a plan, with a seeded bug or without.
pub fn run(plan: &Plan, bug: Option<Bug>) -> Run {
    let counters = |many| Arc::new((0..many).map(|_| AtomicUsize::new(0)).collect());
    let world = World {
        plan: Arc::new(plan.clone()),
        log: Log::default(),
        marks: Marks::default(),
        ledger: Ledger::default(),
        bug,
        boots: Rc::default(),
        stop: Rc::default(),
        ended: Rc::default(),
        processes: Arc::default(),
        next_posts: counters(plan.posters.len()),
        next_hold: Arc::default(),
        busy: counters(plan.boxes),
        fleets: Arc::new(Fleets::new(&plan.fleets)),
        connections: Arc::default(),
        caller: Arc::default(),
        listers: Arc::new(plan.listers.iter().map(|_| Arc::default()).collect()),
        had: Arc::new(plan.observers.iter().map(|_| Mutex::default()).collect()),
    };
    world.drive();
    let history = std::mem::take(&mut *world.log.history());
    for post in &history.posts {
        world
            .marks
            .hit_if(post.outcome == Posted::Unknown, "post unknown to its sender");
    }
    let shown_before = |shown: &Shown| {
        let same = |other: &&Shown| other.delivery == shown.delivery && other.node == shown.node;
        let mut others = history.shown.iter().filter(same);
        others.any(|other| other.process < shown.process && other.at_ms < shown.at_ms)
    };
    let again = history.shown.iter().any(shown_before);
    world
        .marks
        .hit_if(again, "handed over again after a restart of its program");
    let violations = judge(plan, &history);
    Run {
        history,
        marks: world.marks.counts(),
        violations,
    }
}

impl World {
    fn drive(&self) {
        let plan = &self.plan;
        let mut sim = network(plan.seed, plan.latency_ms_max, Duration::from_secs(3_600));
        let server = self.clone();
        sim.host(SERVER.0, move || server.clone().serve());
        for number in 0..plan.boxes {
            let world = self.clone();
            sim.host(box_name(number), move || world.clone().work(number));
        }
        let first_ms = plan.duration_ms + QUIET_MS;
        let end_ms = Arc::new(AtomicU64::new(first_ms));
        sim.client("end", {
            let (end_ms, log, plan) = (Arc::clone(&end_ms), self.log.clone(), Arc::clone(plan));
            async move {
                sleep(Duration::from_millis(first_ms)).await;
                while end_ms.load(Ordering::Relaxed) < first_ms + PUSHING_MS_MAX
                    && !all_is_pushed(&plan, &log.history())
                {
                    end_ms.fetch_add(PUSHING_EVERY_MS, Ordering::Relaxed);
                    sleep(Duration::from_millis(PUSHING_EVERY_MS)).await;
                }
                Ok(())
            }
        });
        let mut schedule = Schedule::new(&plan.faults, plan.boxes, plan.duration_ms);
        loop {
            let now_ms = u64::try_from(sim.elapsed().as_millis()).expect("a run is short");
            set_step_ms(now_ms);
            while let Some((event, fault)) = schedule.due(now_ms) {
                self.apply(&mut sim, event, &fault, now_ms);
            }
            if now_ms <= end_ms.load(Ordering::Relaxed) - SETTLED_MS
                && let Some(life) = self.log.history().told.last_mut()
            {
                life.settled = life.events.len();
            }
            if self.ended.take() {
                self.end_life(&mut sim, now_ms);
            }
            if sim.step().expect("neither the server nor a client panics") {
                // What still happens while it is cleared away is no part of it.
                self.log.history().is_over = true;
                return;
            }
        }
    }

    /// The server's host: from one start to its end.
    async fn serve(self) -> turmoil::Result {
        let boot = self.boots.get();
        self.boots.set(boot + 1);
        let seed = self.plan.seed;
        let clock = clock();
        let roster = Roster::new(["pm"]).expect("a short name");
        let mut message_random = random(seed, boot, 0);
        let engine = Engine::new(clock(), roster.clone(), Bounds::default(), message_random())
            // What it is to tell of its start, the simulation of agents sees.
            .after_sessions_of(Some(BTreeSet::new()));
        self.log.trace(now_ms(), format_args!("server start {boot}"));
        self.log.history().boots.push((now_ms(), None));
        let tap = NodeTap::new(engine, clock(), self.marks.clone(), self.bug, self.log.clone());
        let config = Config {
            engine: Box::new(tap),
            roster,
            clock,
            message_random,
            stream_random: random(seed, boot, 1),
            token_random: random(seed, boot, 2),
            log: Box::new(relay::server::NoLog),
            notes: Box::new(NoNotes),
            agents: KnownAgents::default(),
            guard: Guard {
                port: SERVER.1,
                token: None,
            },
            keep_alive: KEEP_ALIVE,
            network: Arc::new(SimNetwork),
            messaging: Arc::new(relay::server::System),
            push_allow: (0..self.plan.boxes).map(box_name).collect(),
            starter: Arc::new(relay::server::NoStarter),
        };
        let stop = CancellationToken::new();
        self.stop.set(stop.clone());
        let listener = SimListener::bind(SERVER.1, self.ledger.clone(), self.marks.clone()).await?;
        serve(listener, config, stop).await?;
        self.log.trace(now_ms(), "server end");
        self.ended.set(true);
        // The process is gone when the world comes by.
        std::future::pending().await
    }

    fn apply(&self, sim: &mut turmoil::Sim<'_>, event: Event, fault: &Fault, now_ms: u64) {
        self.log
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
                let in_hand = self.busy[on].swap(0, Ordering::Relaxed) > 0;
                self.marks
                    .hit_if(in_hand, "fault bit: process gone with a message in hand");
                let machine: IpAddr = sim.lookup(box_name(on));
                self.ledger.abort_all(machine);
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
        let mut history = self.log.history();
        let is_on_its_way = |shown: &Shown| {
            let given = |given: &Given| given.delivery == shown.delivery && given.is_final;
            !history.receipts.iter().any(given)
        };
        let some = history.shown.last().is_some_and(is_on_its_way);
        self.marks
            .hit_if(some, "fault bit: server gone with frames on their way");
        if let Some((_, until_ms)) = history.boots.last_mut() {
            until_ms.get_or_insert(now_ms);
        }
    }
}
