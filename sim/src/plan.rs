//! A seed becomes a plan: everything that is drawn is drawn here, before the run, so that a plan can be printed,
//! repeated and made smaller.
//!
//! Swarm testing: each seed enables only some actions and faults, so that rare combinations get whole runs.

use fastrand::Rng;
use relay::engine::Kind;

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
    /// The bound of a body, in bytes.
    pub body_bytes_max: usize,
    /// The bound of parked reads.
    pub waits_max: usize,
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
    /// The session's connections are dropped and opened anew; a stream under its old id.
    Reconnect,
    /// Nothing that comes is read for some milliseconds, while one call is under way.
    Stall(Call, u64),
    /// A call with the id of the one before.
    Again(Call),
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

/// Something that goes wrong.
#[derive(Debug, Clone)]
pub struct Fault {
    /// When it begins, in milliseconds.
    pub at_ms: u64,
    /// How long it lasts, in milliseconds.
    pub for_ms: u64,
    /// What it is.
    pub kind: FaultKind,
}

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Segments between a machine and the server are held, then released.
    Hold {
        /// The machine.
        on: usize,
    },
    /// Segments between a machine and the server are lost, both ways.
    Partition {
        /// The machine.
        on: usize,
    },
    /// Segments from a machine to the server are lost.
    LoseRequests {
        /// The machine.
        on: usize,
    },
    /// Segments from the server to a machine are lost.
    LoseReplies {
        /// The machine.
        on: usize,
    },
    /// A machine loses power, with all agents on it, and comes back.
    BoxCrash {
        /// The machine.
        on: usize,
    },
    /// The server is killed and started again.
    Crash,
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
        let faults = draw_faults(&mut rng, &params);
        Self {
            seed,
            params,
            agents,
            faults,
        }
    }
}

impl Params {
    fn draw(rng: &mut Rng) -> Self {
        let tight = rng.u32(0..3) == 0;
        Self {
            duration_ms: rng.u64(10..=60) * 1_000,
            boxes: rng.usize(1..=4),
            roles: rng.usize(1..=6),
            latency_ms_max: [0, 1, 20, 200, 1_000][rng.usize(..5)],
            keep_alive_ms: [1_000, 5_000, 15_000][rng.usize(..3)],
            inbox_messages_max: if tight { rng.usize(1..=8) } else { 10_000 },
            inbox_bytes_max: if tight { rng.usize(200..=4_000) } else { 64 << 20 },
            body_bytes_max: if tight { 400 } else { 1 << 20 },
            waits_max: if tight { rng.usize(1..=4) } else { 4_096 },
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
            steps.push(Step { pause_ms, action });
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
            steps,
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

fn draw_faults(rng: &mut Rng, params: &Params) -> Vec<Fault> {
    let crashes = rng.u32(0..2) == 0;
    let network: Vec<u32> = (0..5).filter(|_| rng.u32(0..3) == 0).collect();
    let mut faults = Vec::new();
    if crashes {
        for _ in 0..rng.u32(1..=3) {
            let at_ms = rng.u64(1_000..params.duration_ms);
            let for_ms = rng.u64(10..=3_000);
            faults.push(Fault {
                at_ms,
                for_ms,
                kind: FaultKind::Crash,
            });
            if rng.u32(0..3) == 0 {
                // Two in a row: the second before most clients are back.
                let at_ms = at_ms + for_ms + rng.u64(10..=400);
                faults.push(Fault {
                    at_ms,
                    for_ms: rng.u64(10..=1_000),
                    kind: FaultKind::Crash,
                });
            }
        }
    }
    if !network.is_empty() {
        for _ in 0..rng.u32(1..=6) {
            let on = rng.usize(..params.boxes);
            let kind = match network[rng.usize(..network.len())] {
                0 => FaultKind::Hold { on },
                1 => FaultKind::Partition { on },
                2 => FaultKind::LoseRequests { on },
                3 => FaultKind::LoseReplies { on },
                _ => FaultKind::BoxCrash { on },
            };
            faults.push(Fault {
                at_ms: rng.u64(500..params.duration_ms),
                for_ms: rng.u64(500..=15_000),
                kind,
            });
        }
    }
    faults.sort_by_key(|fault| fault.at_ms);
    faults
}
