//! A plan becomes a run: the hosts, the network between them, the faults, and the end phase in which everything
//! is healed and drained before it is judged.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use relay::engine::limits::Bounds;
use relay::engine::{Engine, Roster, Timestamp};
use relay::server::{Clock, Config, Guard, KnownAgents, Notes, Random, serve};
use serde_json::json;
use tokio::task::spawn_local;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, notice_in, role, understand};
use crate::client::{Ask, Losses, PATIENCE, SERVER, Session, Settings, health, now_ms, set_step_ms};
use crate::history::{Asked, BootRecord, Filter, History, Log, Outcome, Record, StopRecord};
use crate::laws::{Report, Violation, judge};
use crate::marks::{self, Marks};
use crate::net::{Ledger, SimListener};
use crate::plan::{ClockSet, Dialect, Fault, FaultKind, Plan, STOP_MS, Transport};
use crate::tap::{AtStake, Bug, Knows, Tap};

/// How finely time passes.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// When every run begins, in seconds of Unix time: 2026-01-01.
pub(crate) const EPOCH_S: u64 = 1_767_225_600;

/// Makes the network of a seed, on which a message takes so long at most. A run is given up after so much time of its own.
pub(crate) fn network<'a>(seed: u64, latency_ms_max: u64, given_up: Duration) -> turmoil::Sim<'a> {
    turmoil::Builder::new()
        .rng_seed(seed)
        .epoch(SystemTime::UNIX_EPOCH + Duration::from_secs(EPOCH_S))
        .tick_duration(TICK)
        .min_message_latency(Duration::ZERO)
        .max_message_latency(Duration::from_millis(latency_ms_max))
        .tcp_capacity(4_096)
        .simulation_duration(given_up)
        .build()
}

/// How long the server gets to find out that all clients are gone: a keep-alive, the patience of its kernel, and some.
const SETTLE: Duration = Duration::from_secs(45);

/// Two crashes in a row are no further apart than this, in milliseconds.
const IN_A_ROW_MS: u64 = 500;

/// What a run came to.
pub struct Run {
    /// What the clients saw.
    pub history: History,
    /// What happened.
    pub marks: Marks,
    /// What it came to.
    pub report: Report,
    /// Every law that it broke.
    pub violations: Vec<Violation>,
    /// How much time passed in it, in milliseconds.
    pub simulated_ms: u64,
}

/// What all hosts of a run share.
#[derive(Clone)]
struct World {
    plan: Rc<Plan>,
    log: Log,
    marks: Marks,
    ledger: Ledger,
    bug: Option<Bug>,
    at_stake: AtStake,
    boots: Rc<Cell<u64>>,
    running: Running,
    notes: KeptNotes,
    /// Which agents have had a session; none where nobody notes that.
    agents: Option<KeptNotes>,
}

/// The server's notes, on a disk that no fault touches.
#[derive(Clone)]
struct KeptNotes {
    text: Arc<Mutex<String>>,
    bug: Option<Bug>,
}

impl KeptNotes {
    fn text(&self) -> MutexGuard<'_, String> {
        self.text.lock().expect("a run has one thread")
    }
}

impl Notes for KeptNotes {
    fn read(&mut self) -> String {
        if self.bug == Some(Bug::NotesLost) {
            return String::new();
        }
        self.text().clone()
    }

    fn append(&mut self, text: &str) {
        self.text().push_str(text);
    }

    fn rewrite(&mut self, text: &str) {
        text.clone_into(&mut self.text());
    }
}

/// How the process of the server can be asked to end, and whether it has.
#[derive(Clone, Default)]
struct Running {
    stop: Rc<RefCell<CancellationToken>>,
    ended: Rc<Cell<bool>>,
}

impl Running {
    /// Starts the server's process anew; from now on it is the one that is asked to end.
    fn start(&self, sim: &mut turmoil::Sim<'_>) {
        self.stop.replace(CancellationToken::new());
        sim.bounce(SERVER.0);
    }

    /// Returns what asks the new process to end.
    fn begin(&self) -> CancellationToken {
        self.ended.set(false);
        self.stop.borrow().clone()
    }

    fn end(&self) {
        self.ended.set(true);
    }

    /// Tells once that the process has come to its end.
    fn take_end(&self) -> bool {
        self.ended.take()
    }
}

/// Runs a plan, with a seeded bug or without.
pub fn run(plan: &Plan, bug: Option<Bug>) -> Run {
    let world = World {
        plan: Rc::new(plan.clone()),
        log: Log::default(),
        marks: Marks::default(),
        ledger: Ledger::default(),
        bug,
        at_stake: AtStake::default(),
        boots: Rc::default(),
        running: Running::default(),
        notes: KeptNotes {
            text: Arc::default(),
            bug,
        },
        // In every second run nobody notes who had a session, so that everybody is told of each start.
        agents: plan.seed.is_multiple_of(2).then(|| KeptNotes {
            text: Arc::default(),
            bug: None,
        }),
    };
    world.log.history().notes_agents = world.agents.is_some();
    let simulated_ms = world.drive();
    marks::note_history(plan, &world.log.history(), &world.marks);
    let history = std::mem::take(&mut *world.log.history());
    let (report, violations) = judge(plan, &history);
    Run {
        history,
        marks: world.marks,
        report,
        violations,
        simulated_ms,
    }
}

impl World {
    fn drive(&self) -> u64 {
        let params = &self.plan.params;
        let mut sim = network(self.plan.seed, params.latency_ms_max, Duration::from_secs(3_600));
        let server = self.clone();
        sim.host(SERVER.0, move || server.clone().serve());
        for number in 0..params.boxes {
            let agents: Vec<Rc<Agent>> = self.agents_on(number);
            let end = Duration::from_millis(params.duration_ms);
            sim.host(box_name(number), move || work(agents.clone(), end));
        }
        let drain = self.clone();
        sim.client("drain", async move {
            drain.drain().await;
            Ok(())
        });

        let mut schedule = Schedule::new(&self.plan.faults, params.boxes, params.duration_ms);
        let limit_ms = params.duration_ms + 600_000;
        loop {
            let now_ms = u64::try_from(sim.elapsed().as_millis()).expect("a run is short");
            set_step_ms(now_ms);
            while let Some((event, fault)) = schedule.due(now_ms) {
                self.apply(&mut sim, event, &fault, now_ms);
            }
            if self.running.take_end() {
                self.end_life(&mut sim, now_ms);
            }
            let done = sim.step().expect("neither the server nor a client panics");
            if done || now_ms > limit_ms {
                return now_ms;
            }
        }
    }

    fn agents_on(&self, number: usize) -> Vec<Rc<Agent>> {
        let serial = Rc::new(Cell::new(number as u64 * 1_000_000));
        let all = self.plan.agents.iter().enumerate();
        let here = all.filter(|(_, agent)| agent.on % self.plan.params.boxes == number);
        here.map(|(at, agent)| {
            let settings = self.settings(agent.transport);
            Rc::new(Agent::new(
                at,
                agent.clone(),
                self.plan.params.clone(),
                settings,
                Rc::clone(&serial),
            ))
        })
        .collect()
    }

    fn settings(&self, transport: Transport) -> Settings {
        let params = &self.plan.params;
        Settings {
            transport,
            dialect: Dialect::Bare,
            bound_to: None,
            mate: None,
            address: None,
            reply_max: params.reply_max,
            mute_max: Duration::from_millis(3 * params.keep_alive_ms + 2 * params.latency_ms_max + 1_000),
            ledger: self.ledger.clone(),
            log: self.log.clone(),
            marks: self.marks.clone(),
            bug: self.bug,
        }
    }

    /// The server's host: from one start to its end.
    async fn serve(self) -> turmoil::Result {
        let boot = self.boots.get();
        self.boots.set(boot + 1);
        let params = &self.plan.params;
        let clock = clock_set(self.plan.clock.clone(), self.bug);
        let names: Vec<String> = (0..params.roles).map(role).collect();
        let roster = Roster::new(names.iter().map(String::as_str)).expect("a few short names");
        let bounds = Bounds {
            body_bytes_max: params.body_bytes_max,
            inbox_messages_max: params.inbox_messages_max,
            inbox_bytes_max: params.inbox_bytes_max,
            waits_max: params.waits_max,
            hops_max: params.hops_max - u32::from(self.bug == Some(Bug::StoppedTooEarly)),
            ..Bounds::default()
        };
        let mut message_random = random(self.plan.seed, boot, 0);
        let (agents, had_sessions) = match &self.agents {
            Some(notes) => KnownAgents::take_up(Box::new(notes.clone()), boot == 0),
            None => (KnownAgents::default(), None),
        };
        let had_sessions = match self.bug {
            Some(Bug::SessionsForgotten) => had_sessions.map(|_| BTreeSet::new()),
            Some(Bug::NoticeToAll) => None,
            _ => had_sessions,
        };
        let engine = Engine::new(clock(), roster.clone(), bounds, message_random());
        let engine = engine.after_sessions_of(had_sessions);
        let started_at = engine.status().boot.started_at.to_string();
        self.log.trace(now_ms(), format_args!("server start {boot}"));
        self.log.history().boots.push(BootRecord {
            from_ms: now_ms(),
            until_ms: None,
            started_at,
        });
        let drained_ms = EPOCH_S * 1_000 + params.duration_ms + SETTLE.as_millis() as u64;
        let knows = Knows {
            bounds,
            drained_from: Timestamp::from_millis(i64::try_from(drained_ms).expect("a run is short")),
        };
        let tap = Tap::new(engine, self.marks.clone(), self.bug, knows, self.at_stake.clone());
        let config = Config {
            engine: Box::new(tap),
            roster,
            clock,
            message_random,
            stream_random: random(self.plan.seed, boot, 1),
            token_random: random(self.plan.seed, boot, 2),
            log: Box::new(relay::server::NoLog),
            notes: Box::new(self.notes.clone()),
            agents,
            guard: Guard {
                port: SERVER.1,
                token: None,
            },
            keep_alive: Duration::from_millis(params.keep_alive_ms),
            network: Arc::new(relay::server::System),
            messaging: Arc::new(relay::server::System),
            push_allow: Vec::new(),
            starter: Arc::new(relay::server::NoStarter),
        };
        let listener = SimListener::bind(SERVER.1, self.ledger.clone(), self.marks.clone()).await?;
        serve(listener, config, self.running.begin()).await?;
        self.log.trace(now_ms(), "server end");
        if let Some(stop) = self.log.history().stops.last_mut() {
            stop.ended_ms = Some(now_ms());
        }
        self.running.end();
        // The process is gone when the world comes by.
        std::future::pending().await
    }

    /// The end phase: when all agents are gone and the server knows it, reads what is left, twice.
    async fn drain(&self) {
        sleep(Duration::from_millis(self.plan.params.duration_ms) + SETTLE).await;
        let settings = self.settings(Transport::Http);
        let session = Session::open(settings.clone());
        let mut left = true;
        while left {
            left = false;
            for of in self.plan.inboxes() {
                let asked = Asked::Read {
                    of: of.clone(),
                    wait_ms: 0,
                    limit: None,
                    filter: Filter::default(),
                };
                let sent_ms = now_ms();
                let ask = Ask {
                    id: session.next_id(),
                    method: "tools/call",
                    params: json!({"name": "read_messages", "arguments": {"for": of}}),
                    patience: PATIENCE,
                    told: None,
                    losses: Losses::default(),
                };
                let (incarnation, answer) = session.ask(&ask).await;
                let outcome = understand(&asked, &answer, false);
                // An agent that has not registered since the last start has no inbox.
                left |= match &outcome {
                    Outcome::Messages { seen, .. } => !seen.is_empty(),
                    Outcome::Refused(text) => {
                        !self.plan.mates().contains(&of) || !text.contains(&format!("unknown role {of:?}"))
                    }
                    Outcome::Posted(_)
                    | Outcome::Pending(_)
                    | Outcome::Grouped
                    | Outcome::Greeted { .. }
                    | Outcome::Tools(_)
                    | Outcome::Unknown(_) => true,
                };
                self.log.ended(Record {
                    agent: self.plan.agents.len(),
                    incarnation,
                    nameless: !session.can_cancel(),
                    bound: false,
                    asked,
                    sent_ms,
                    ended_ms: now_ms(),
                    cancelled_ms: None,
                    told_ms: None,
                    losses: Vec::new(),
                    notice: notice_in(&answer),
                    reply_bytes: 0,
                    outcome,
                });
            }
        }
        let health = health(&settings).await;
        let mut history = self.log.history();
        history.sessions_at_end = health.and_then(|health| health["sessions"].as_u64());
        history.drained = history.sessions_at_end.is_some();
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
            ) => {
                sim.repair(SERVER.0, box_name(on));
            }
            (FaultKind::BoxCrash { on }, Event::Begin) => {
                let machine: IpAddr = sim.lookup(box_name(on));
                self.ledger.abort_all(machine);
                sim.crash(box_name(on));
            }
            (FaultKind::BoxCrash { on }, Event::End) => sim.bounce(box_name(on)),
            (FaultKind::Crash, Event::Begin) => {
                self.at_stake.note_crash(&self.marks);
                self.end_life(sim, now_ms);
            }
            (FaultKind::Stop, Event::Begin) => {
                self.marks.hit("fault bit: orderly stop");
                let stop = StopRecord {
                    asked_ms: now_ms,
                    ended_ms: None,
                };
                self.log.history().stops.push(stop);
                self.running.stop.borrow().cancel();
            }
            (FaultKind::Stop, Event::End) if sim.is_host_running(SERVER.0) => {
                // It should have ended by itself, which a law says.
                self.end_life(sim, now_ms);
                self.running.start(sim);
            }
            (FaultKind::Crash | FaultKind::Stop, Event::End) => self.running.start(sim),
        }
    }

    /// Takes the server's process away, whatever it is doing.
    fn end_life(&self, sim: &mut turmoil::Sim<'_>, now_ms: u64) {
        sim.crash(SERVER.0);
        let mut history = self.log.history();
        let Some(boot) = history.boots.last_mut() else {
            return;
        };
        boot.until_ms = Some(now_ms);
        if boot.from_ms > 0 && now_ms - boot.from_ms <= IN_A_ROW_MS {
            self.marks.hit("fault bit: second crash in a row");
        }
    }
}

pub(crate) fn box_name(number: usize) -> String {
    format!("box-{number}")
}

/// The clock of a host.
pub(crate) fn clock() -> Clock {
    Clock::from(time)
}

/// The same, of which people read what it is set to.
fn clock_set(sets: Vec<ClockSet>, bug: Option<Bug>) -> Clock {
    let ahead_ms = move || {
        let last = sets.iter().rev().find(|set| set.at_ms <= now_ms());
        last.map_or(0, |set| set.ahead_ms)
    };
    match bug {
        // Forward, as it never goes back.
        Some(Bug::WaitsByTheWall) => Clock::from(move || time().plus_millis(ahead_ms().max(0))),
        _ => Clock::shown_otherwise(time, ahead_ms),
    }
}

/// The time of a host.
fn time() -> Timestamp {
    let since_epoch = turmoil::since_epoch().unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).expect("a run is short"))
}

/// A machine's agents: they go on where they were when it comes back, and are gone when the time is over.
async fn work(agents: Vec<Rc<Agent>>, end: Duration) -> turmoil::Result {
    let tasks = RefCell::new(Vec::new());
    for agent in agents {
        tasks
            .borrow_mut()
            .push(spawn_local(async move { agent.run().await }));
    }
    let left = end.saturating_sub(turmoil::sim_elapsed().unwrap_or_default());
    sleep(left).await;
    for task in tasks.into_inner() {
        task.abort();
    }
    std::future::pending().await
}

/// Random bytes that depend on the seed, on which start it is, and on what they are for.
pub(crate) fn random(seed: u64, boot: u64, purpose: u64) -> Random {
    let mut rng =
        fastrand::Rng::with_seed(seed ^ (boot + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (purpose << 32));
    Box::new(move || {
        let mut bytes = [0; 16];
        rng.fill(&mut bytes);
        bytes
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Begin,
    End,
}

/// The begins and ends of all faults, in order; overlapping ones of one kind and place are left out.
pub(crate) struct Schedule(std::collections::VecDeque<(u64, Event, Fault)>);

impl Schedule {
    pub fn new(faults: &[Fault], boxes: usize, duration_ms: u64) -> Self {
        let mut events = Vec::new();
        let mut busy_until: Vec<(String, u64)> = Vec::new();
        for fault in faults {
            let place = match fault.kind {
                FaultKind::Crash | FaultKind::Stop => SERVER.0.to_owned(),
                FaultKind::Hold { on }
                | FaultKind::Partition { on }
                | FaultKind::LoseRequests { on }
                | FaultKind::LoseReplies { on }
                | FaultKind::BoxCrash { on } => box_name(on % boxes),
            };
            // All faults are over before the agents are.
            let end_ms = (fault.at_ms + fault.for_ms).min(duration_ms.saturating_sub(500));
            let busy = busy_until
                .iter()
                .any(|(other, until)| *other == place && fault.at_ms <= *until);
            // A server that is asked to end gets the time for it.
            let too_short = fault.kind == FaultKind::Stop && end_ms < fault.at_ms + STOP_MS;
            if busy || too_short || fault.at_ms >= end_ms {
                continue;
            }
            busy_until.push((place, end_ms));
            events.push((fault.at_ms, Event::Begin, fault.clone()));
            events.push((end_ms, Event::End, fault.clone()));
        }
        events.sort_by_key(|(at, event, _)| (*at, *event == Event::Begin));
        Self(events.into())
    }

    pub fn due(&mut self, now_ms: u64) -> Option<(Event, Fault)> {
        if self.0.front()?.0 > now_ms {
            return None;
        }
        let (_, event, fault) = self.0.pop_front()?;
        Some((event, fault))
    }
}
