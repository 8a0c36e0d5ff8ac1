//! A seed becomes a plan: everything that is drawn is drawn here, before the run, so that a plan can be printed,
//! repeated and made smaller.
//!
//! Swarm testing: each seed enables only some actions and faults, so that rare combinations get whole runs.

mod after;
mod faults;
pub mod projects;
pub mod team;

pub use after::After;
pub use faults::{ClockSet, Fault, FaultKind, STOP_MS};

use fastrand::Rng;
pub(crate) use faults::{draw_clock, draw_faults, draw_stops};
use relay::engine::Kind;
use relay::tools::ReplyBytes;
use team::{Mate, TeamCall};

/// One run, whole.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where it came from; also seeds the network's latencies, the server's ids and tokio's choices.
    pub seed: u64,
    /// What holds for the whole run.
    pub params: Params,
    /// Who takes part.
    pub agents: Vec<AgentPlan>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// When the server's clock is set that people read.
    pub clock: Vec<ClockSet>,
}

/// What holds for a whole run. All times are simulated.
#[derive(Debug, Clone)]
pub struct Params {
    /// How long agents act, in milliseconds; the end phase comes after.
    pub duration_ms: u64,
    /// How many machines the agents are spread over.
    pub boxes: usize,
    /// How many roles there are.
    pub roles: usize,
    /// The longest that a segment is under way, in milliseconds.
    pub latency_ms_max: u64,
    /// How often the server writes to an idle stream, in milliseconds.
    pub keep_alive_ms: u64,
    /// The bound of an inbox, in messages.
    pub inbox_messages_max: usize,
    /// The bound of an inbox, in bytes.
    pub inbox_bytes_max: usize,
    /// How much of a reply its client shows.
    pub reply_max: ReplyBytes,
    /// The bound of a body, in bytes.
    pub body_bytes_max: usize,
    /// The bound of parked reads.
    pub waits_max: usize,
    /// How many times agents may take turns in a thread.
    pub hops_max: u32,
}

/// How an agent connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// HTTP+SSE.
    Sse,
    /// Streamable HTTP over connections that are kept.
    Http,
    /// Streamable HTTP with a connection for each call.
    HttpOnce,
    /// The stdio bridge.
    Stdio,
}

/// Which protocol an agent speaks, and so what it says before its first call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// It just calls, as streamable HTTP allows.
    Bare,
    /// It makes a handshake of this version in each new session.
    Greeting(&'static str),
    /// 2026-07-28 over streamable HTTP: no handshake, and every request says all about its client.
    Modern,
}

/// The versions that have a handshake.
const GREETINGS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

impl Dialect {
    /// Returns the version that requests name.
    pub fn version(self) -> &'static str {
        match self {
            Self::Bare => GREETINGS[0],
            Self::Greeting(version) => version,
            Self::Modern => "2026-07-28",
        }
    }
}

/// One agent session and what it does.
#[derive(Debug, Clone)]
pub struct AgentPlan {
    /// The machine that it runs on.
    pub on: usize,
    /// How it connects.
    pub transport: Transport,
    /// Its role, by number.
    pub role: usize,
    /// Its session is bound to its role.
    pub bound: bool,
    /// Which protocol it speaks.
    pub dialect: Dialect,
    /// It asks for the list of tools after its handshake; with 2026-07-28, for what relay is and has.
    pub lists: bool,
    /// It asks to be told of the progress of its waits.
    pub progress: bool,
    /// It registers itself as this agent, and has no role of the roster.
    pub mate: Option<Mate>,
    /// What it does, in order.
    pub steps: Vec<Step>,
}

/// Something that an agent does after a while.
#[derive(Debug, Clone)]
pub struct Step {
    /// How long it works before, in milliseconds.
    pub pause_ms: u64,
    /// What it does then.
    pub action: Action,
    /// Which message its reads name as the last that the agent has seen, if they ask for what is behind that.
    pub after: Option<After>,
}

/// What an agent can do.
#[derive(Debug, Clone)]
pub enum Action {
    /// One call, awaited.
    Call(Call),
    /// Two calls of one session at once.
    Both(Call, Call),
    /// A call that the agent gives up after some milliseconds, with its whole session.
    Abandon(Call, u64),
    /// A call that the agent cancels after some milliseconds; the session goes on.
    Cancel(Call, u64),
    /// The session's connections are dropped and opened anew; a stream under its old id. On stdio, stdin ends in order, and
    /// the agent starts another bridge.
    Reconnect,
    /// Nothing that comes is read for some milliseconds, while one call is under way.
    Stall(Call, u64),
    /// A call with the id of the one before.
    Again(Call),
    /// Two requests written back to back over one connection, before any reply is read. Only over streamable HTTP.
    Pipeline(Call, Call),
    /// The same; the agent is gone after some milliseconds without having read anything.
    PipelineAndDie(Call, Call, u64),
}

/// A tool call.
#[derive(Debug, Clone)]
pub enum Call {
    /// Posts a body of that many bytes to a role.
    Post {
        /// The recipient, by number.
        to: usize,
        /// The kind.
        kind: Kind,
        /// Bytes of the body, at least; a serial number makes it unique.
        bytes: usize,
    },
    /// Reads a role's inbox, and waits that many milliseconds if there is nothing.
    Read {
        /// Whose, by number; a bound session's own.
        of: usize,
        /// How long.
        wait_ms: u64,
    },
    /// Lists what is pending for a role.
    Pending {
        /// Whose, by number.
        of: usize,
    },
    /// Something that must be refused.
    Illegal(Illegal),
    /// One with a registered agent's tools.
    Team(TeamCall),
}

/// What must be refused, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Illegal {
    /// A recipient that does not exist.
    UnknownRole,
    /// A kind that does not exist.
    UnknownKind,
    /// A tool that does not exist.
    UnknownTool,
    /// A post without a body.
    Missing,
    /// A body over the bound.
    TooLong,
    /// A bound session that speaks for another role; an unbound one that names none.
    NotYou,
}

/// The actions that a seed may enable, with the weight that it has if it does.
const ACTIONS: [(&str, u32); 11] = [
    ("post", 40),
    ("read", 25),
    ("wait", 15),
    ("pending", 5),
    ("illegal", 5),
    ("both", 8),
    ("abandon", 8),
    ("cancel", 6),
    ("reconnect", 5),
    ("stall", 3),
    ("again", 3),
];

impl Plan {
    /// Draws the plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let params = Params::draw(&mut rng);
        let weights: Vec<(&str, u32)> = ACTIONS
            .iter()
            .map(|(action, weight)| {
                let enabled = ["post", "read"].contains(action) || rng.u32(0..3) > 0;
                (*action, if enabled { *weight * rng.u32(1..=4) } else { 0 })
            })
            .collect();
        let agents = (0..agent_count(&mut rng))
            .map(|_| AgentPlan::draw(&mut rng, &params, &weights))
            .collect();
        let faults = draw_faults(&mut rng, params.boxes, params.duration_ms);
        let duration_ms = params.duration_ms;
        let mut plan = Self {
            seed,
            params,
            agents,
            faults,
            clock: draw_clock(seed, duration_ms),
        };
        plan.draw_ways();
        plan.draw_stdio();
        plan.draw_team();
        let projects = plan.draw_projects();
        plan.draw_replies();
        plan.draw_lists();
        plan.draw_reaches(projects);
        plan.draw_after();
        plan
    }

    /// Half of the seeds have agents on stdio, a third of all. They come from a sequence of their own, too, and make their
    /// handshake by themselves.
    fn draw_stdio(&mut self) {
        let mut rng = Rng::with_seed(self.seed ^ 0x70_6970_6573);
        if rng.bool() {
            return;
        }
        for agent in &mut self.agents {
            if rng.u32(0..3) == 0 {
                agent.go_over_stdio();
            }
        }
    }

    /// Draws which ways clients and server go. Others are drawn from another sequence, so that a seed means to them what
    /// it meant before there were ways.
    fn draw_ways(&mut self) {
        let mut rng = Rng::with_seed(self.seed ^ 0x7761_7973);
        let [greets, modern, progress, stops] = std::array::from_fn(|_| rng.u32(0..3) > 0);
        for agent in &mut self.agents {
            agent.draw_ways(&mut rng, [greets, modern, progress]);
        }
        let mut pipes = Rng::with_seed(self.seed ^ 0x7069_7065);
        if pipes.u32(0..3) > 0 {
            let pipelines = |agent: &&mut AgentPlan| {
                agent.transport != Transport::Sse && agent.dialect != Dialect::Modern
            };
            for agent in self.agents.iter_mut().filter(pipelines) {
                agent.draw_pipelines(&mut pipes, &self.params);
            }
        }
        if stops {
            draw_stops(&mut rng, self.params.duration_ms, &mut self.faults);
        }
        let mut rng = Rng::with_seed(self.seed ^ 0x7761_6974);
        let killed = self.faults.iter().any(|fault| fault.kind == FaultKind::Crash);
        if killed && rng.bool() {
            self.agents.push(AgentPlan::draw_waiting(&mut rng, &self.params));
        }
    }
}

impl Params {
    fn draw(rng: &mut Rng) -> Self {
        let tight = rng.u32(0..3) == 0;
        let seconds = rng.u64(10..=60);
        // By the time, so that nothing else is drawn for it.
        let reply_max = match seconds % 4 {
            0 => ReplyBytes::kb(ReplyBytes::KB_MIN),
            1 => ReplyBytes::LEAST_KNOWN,
            _ => ReplyBytes::kb(ReplyBytes::KB_MAX),
        };
        Self {
            duration_ms: seconds * 1_000,
            reply_max,
            boxes: rng.usize(1..=4),
            roles: rng.usize(1..=6),
            latency_ms_max: [0, 1, 20, 200, 1_000][rng.usize(..5)],
            keep_alive_ms: [1_000, 5_000, 15_000][rng.usize(..3)],
            inbox_messages_max: if tight { rng.usize(1..=8) } else { 10_000 },
            inbox_bytes_max: if tight { rng.usize(200..=4_000) } else { 64 << 20 },
            body_bytes_max: if tight { 400 } else { 1 << 20 },
            waits_max: if tight { rng.usize(1..=4) } else { 4_096 },
            hops_max: 100,
        }
    }
}

/// Mostly a small team, sometimes one agent, sometimes forty.
fn agent_count(rng: &mut Rng) -> usize {
    match rng.u32(0..10) {
        0 => 1,
        1..=7 => rng.usize(2..=6),
        8 => rng.usize(7..=15),
        _ => rng.usize(16..=40),
    }
}

impl AgentPlan {
    fn draw(rng: &mut Rng, params: &Params, weights: &[(&str, u32)]) -> Self {
        let role = rng.usize(..params.roles);
        let bound = rng.bool();
        let eager = rng.u64(1..=8);
        let mut steps = Vec::new();
        let mut time_ms = 0;
        while time_ms < params.duration_ms && steps.len() < 60 {
            let pause_ms = match rng.u32(0..20) {
                0..=12 => rng.u64(0..=300 * eager),
                13..=18 => rng.u64(0..=2_000 * eager),
                // Long enough for the doubt in a hand-over to end.
                _ => rng.u64(20_000..=25_000),
            };
            time_ms += pause_ms;
            let action = draw_action(rng, params, weights, role, bound);
            steps.push(Step {
                pause_ms,
                action,
                after: None,
            });
        }
        Self {
            on: rng.usize(..params.boxes),
            transport: [
                Transport::Sse,
                Transport::Sse,
                Transport::Http,
                Transport::HttpOnce,
            ][rng.usize(..4)],
            role,
            bound,
            dialect: Dialect::Bare,
            lists: false,
            progress: false,
            mate: None,
            steps,
        }
    }

    /// Draws one that does nothing but wait, for minutes, as a session does whose work is done: there is mostly one of them
    /// when a server is killed.
    fn draw_waiting(rng: &mut Rng, params: &Params) -> Self {
        let role = rng.usize(..params.roles);
        let call = Call::Read {
            of: role,
            wait_ms: 120_000,
        };
        let step = Step {
            pause_ms: 300,
            action: Action::Call(call),
            after: None,
        };
        Self {
            on: rng.usize(..params.boxes),
            transport: Transport::Sse,
            role,
            bound: rng.bool(),
            dialect: Dialect::Greeting("2025-06-18"),
            lists: false,
            progress: rng.bool(),
            mate: None,
            steps: vec![step; 60],
        }
    }

    fn draw_ways(&mut self, rng: &mut Rng, [greets, modern, progress]: [bool; 3]) {
        let greeting = Dialect::Greeting(GREETINGS[rng.usize(..GREETINGS.len())]);
        self.dialect = match (rng.u32(0..3), self.transport) {
            // A stream without a handshake is one that came back.
            (_, Transport::Sse) => greeting,
            (0, Transport::Http | Transport::HttpOnce) if modern => Dialect::Modern,
            (0 | 1, Transport::Http | Transport::HttpOnce) if greets => greeting,
            (_, Transport::Http | Transport::HttpOnce | Transport::Stdio) => Dialect::Bare,
        };
        self.lists = self.dialect != Dialect::Bare && rng.bool();
        self.progress = progress && rng.bool();
    }

    fn go_over_stdio(&mut self) {
        self.transport = Transport::Stdio;
        self.dialect = Dialect::Bare;
        self.lists = false;
        self.progress = false;
        for step in &mut self.steps {
            step.action = match step.action.clone() {
                Action::Pipeline(one, other) => Action::Both(one, other),
                Action::PipelineAndDie(call, _, ms) => Action::Abandon(call, ms),
                other @ (Action::Call(_)
                | Action::Both(..)
                | Action::Abandon(..)
                | Action::Cancel(..)
                | Action::Reconnect
                | Action::Stall(..)
                | Action::Again(_)) => other,
            };
        }
    }

    /// Turns some calls into the first of two that are written at once.
    fn draw_pipelines(&mut self, rng: &mut Rng, params: &Params) {
        for step in &mut self.steps {
            if rng.u32(0..6) > 0 {
                continue;
            }
            let name = ["post", "read", "wait", "pending"][rng.usize(..4)];
            let second = draw_call(rng, params, name, self.role, self.bound);
            let after_ms = rng.u64(0..=2 * params.latency_ms_max + 2_000);
            let (first, second) = match &step.action {
                Action::Call(first) => (first.clone(), second),
                Action::Both(first, second) => (first.clone(), second.clone()),
                Action::Abandon(..)
                | Action::Cancel(..)
                | Action::Reconnect
                | Action::Stall(..)
                | Action::Again(_)
                | Action::Pipeline(..)
                | Action::PipelineAndDie(..) => continue,
            };
            step.action = if rng.bool() {
                // What is lost on the way is what a read takes.
                let first = draw_call(rng, params, "read", self.role, self.bound);
                Action::PipelineAndDie(first, second, after_ms)
            } else {
                Action::Pipeline(first, second)
            };
        }
    }
}

fn draw_action(rng: &mut Rng, params: &Params, weights: &[(&str, u32)], role: usize, bound: bool) -> Action {
    let call = |rng: &mut Rng, name: &str| draw_call(rng, params, name, role, bound);
    let any = |rng: &mut Rng| {
        let name = ["post", "read", "wait", "pending"][rng.usize(..4)];
        draw_call(rng, params, name, role, bound)
    };
    let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
    let mut at = rng.u32(..total);
    let chosen = weights.iter().find(|(_, weight)| {
        let here = at < *weight;
        at = at.saturating_sub(*weight);
        here
    });
    let (name, _) = chosen.expect("the weights add up to their total");
    let soon = |rng: &mut Rng| rng.u64(0..=2 * params.latency_ms_max + 50);
    match *name {
        "both" => Action::Both(any(rng), any(rng)),
        "abandon" => Action::Abandon(any(rng), soon(rng)),
        "cancel" => Action::Cancel(call(rng, "wait"), rng.u64(0..=3_000)),
        "reconnect" => Action::Reconnect,
        "stall" => Action::Stall(any(rng), rng.u64(1_000..=12_000)),
        "again" => Action::Again(any(rng)),
        name => Action::Call(call(rng, name)),
    }
}

fn draw_call(rng: &mut Rng, params: &Params, name: &str, role: usize, bound: bool) -> Call {
    // An unbound session sometimes reads what another role is sent.
    let of = if bound || rng.u32(0..5) > 0 {
        role
    } else {
        rng.usize(..params.roles)
    };
    match name {
        "post" => Call::Post {
            to: rng.usize(..params.roles),
            kind: Kind::ALL[rng.usize(..4)],
            bytes: if rng.u32(0..50) == 0 {
                params.body_bytes_max.min(100_000)
            } else {
                rng.usize(0..=200)
            },
        },
        "read" => Call::Read { of, wait_ms: 0 },
        "wait" => Call::Read {
            of,
            wait_ms: if rng.u32(0..8) == 0 {
                rng.u64(1..=40_000)
            } else {
                rng.u64(1..=5_000)
            },
        },
        "pending" => Call::Pending { of },
        _ => {
            let mut illegal = vec![
                Illegal::UnknownRole,
                Illegal::UnknownKind,
                Illegal::UnknownTool,
                Illegal::Missing,
                Illegal::TooLong,
            ];
            // A bound session needs another role to speak for.
            if !bound || params.roles > 1 {
                illegal.push(Illegal::NotYou);
            }
            Call::Illegal(illegal[rng.usize(..illegal.len())])
        }
    }
}
