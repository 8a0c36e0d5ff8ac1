//! What comes for agents, on its way to their nodes and web hooks; beside a bare axum server that does only the wire work of it.
//!
//! `cargo bench --bench delivery` prints, for 1 and for 32 agents with nodes of their own: delivered frames per second, as a ratio to
//! bare axum; how long the server's processors are busy with a frame, which other load moves less; and user instructions a frame, if
//! valgrind is installed. A frame is posted by `POST /v1/dm`, announced, sent over the
//! WebSocket and acknowledged. Then the time from a post to its frame; pushes per second to web hooks in the benchmark itself; what the
//! ring of the trace costs the engine on a post; and memory per idle node. `-- --seconds 5` takes longer rounds; `-- --against PATH`
//! measures another relay, the last release say, in the same rounds. Everything runs on this machine: the load takes its share of the
//! same cores, so the rates swing with whatever else it does. The instructions do not; they leave out the kernel's.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "delivery/bare.rs"]
mod bare;
#[path = "wire/compare.rs"]
mod compare;
#[path = "delivery/frames.rs"]
mod frames;
#[path = "wire/incoming.rs"]
mod incoming;
#[path = "wire/instructions.rs"]
mod instructions;
#[path = "delivery/node.rs"]
mod node;
#[path = "wire/program.rs"]
mod program;
#[path = "delivery/pushes.rs"]
mod pushes;
#[path = "delivery/ring.rs"]
mod ring;
#[path = "delivery/workspace.rs"]
mod workspace;

use node::Node;
use program::{Asked, Server, runtime};
use workspace::Workspace;

/// How many agents get messages at a time, each from another.
const AGENTS: [usize; 2] = [1, 32];

/// How many idle nodes are connected to see what they take.
const IDLE: usize = 1_000;

/// What is posted: as long as a message is.
fn text() -> String {
    "b".repeat(200)
}

fn main() {
    if ring::is_asked() {
        return ring::post();
    }
    let (round, programs) = match Asked::read() {
        Asked::Bare(port) => return runtime().block_on(bare::serve(port)),
        Asked::Measure { round, programs } => (round, programs),
    };
    compare::head("frames per second");
    for agents in AGENTS {
        frames::rate(agents, round, &programs);
    }
    println!();
    compare::head("microseconds a frame");
    for agents in AGENTS {
        frames::micros(agents, round, &programs);
    }
    if instructions::can_be_counted() {
        println!(
            "\n{:<24} {:>12} {:>12} {:>20}",
            "instructions a frame", "relay", "bare axum", "other relay"
        );
        for agents in AGENTS {
            frames::count(agents, &programs);
        }
    } else {
        println!("\ninstructions a frame     not counted: valgrind is not installed");
    }
    frames::post_to_frame(&programs);
    pushes::rate(round, &programs);
    ring::measure();
    memory();
}

fn memory() {
    let server = Server::relay();
    let runtime = runtime();
    server.make_routes();
    let fresh = server.resident_kb();
    let workspace = runtime.block_on(Workspace::make(server.port, IDLE));
    let before = server.resident_kb();
    let nodes = runtime.block_on(async {
        let mut nodes = Vec::new();
        for agent in &workspace.agents {
            nodes.push(Node::connect(server.port, agent).await);
        }
        nodes
    });
    let connected = server.resident_kb();
    drop(nodes);
    let each = |kb: u64| kb as f64 / IDLE as f64;
    println!(
        "\nmemory                   {:.1} kB for each of {IDLE} idle nodes that are connected, and {:.1} kB for its agent, for one that posts to it, and for their tokens",
        each(connected - before),
        each(before - fresh)
    );
}
