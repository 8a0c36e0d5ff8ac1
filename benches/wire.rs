//! The whole server against a bare axum server that does only the wire work of a call, side by side in one run.
//!
//! `cargo bench --bench wire` prints, over SSE, over streamable HTTP and over streamable HTTP as protocol version 2026-07-28 has
//! it, at 3 and 32 sessions each: calls per second, as a ratio to bare axum; and user instructions a call, if valgrind is
//! installed. Then the time from a post to the wake-up of a waiting read, over SSE, HTTP and stdio; memory when idle and per idle stream; and the time
//! from the start of the process to its first answered call. `-- --seconds 5` takes longer rounds; `-- --against PATH` measures
//! another relay, the last release say, in the same rounds. Everything runs on this machine: the load takes its share of the
//! same cores, so the rates swing with whatever else it does. The instructions do not; they leave the kernel's out.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "wire/bare.rs"]
mod bare;
#[path = "wire/client.rs"]
mod client;
#[path = "wire/compare.rs"]
mod compare;
#[path = "wire/incoming.rs"]
mod incoming;
#[path = "wire/instructions.rs"]
mod instructions;
#[path = "wire/program.rs"]
mod program;
#[path = "wire/wake_up.rs"]
mod wake_up;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::{Call, Caller, HttpCaller, ModernCaller, SseCaller, post, read};
use program::{Asked, Program, Server, runtime};

/// How many sessions call at a time.
const SESSIONS: [usize; 2] = [3, 32];

/// How many times all sessions together call before callgrind counts: what is allocated once is there by then.
const CALLS_BEFORE: usize = 250;

/// How many calls are counted with callgrind: a server runs some fifty times slower meanwhile.
const CALLS: usize = 1_000;

const ROLES: [&str; 3] = ["pm", "dev-a", "dev-b"];

fn main() {
    let (round, programs) = match Asked::read() {
        Asked::Bare(port) => return runtime().block_on(bare::serve(port)),
        Asked::Measure { round, programs } => (round, programs),
    };

    compare::head("calls per second");
    for sessions in SESSIONS {
        rate::<SseCaller>("SSE", sessions, round, &programs);
        rate::<HttpCaller>("HTTP", sessions, round, &programs);
        rate::<ModernCaller>("2026-07-28", sessions, round, &programs);
    }
    if instructions::can_be_counted() {
        println!(
            "\n{:<24} {:>12} {:>12} {:>20}",
            "instructions a call", "relay", "bare axum", "other relay"
        );
        for sessions in SESSIONS {
            count::<SseCaller>("SSE", sessions, &programs);
            count::<HttpCaller>("HTTP", sessions, &programs);
            count::<ModernCaller>("2026-07-28", sessions, &programs);
        }
    } else {
        println!("\ninstructions a call      not counted: valgrind is not installed");
    }
    wake_up::measure();
    memory();
    start::<HttpCaller>("HTTP");
    start::<SseCaller>("SSE");
}

/// Measures the calls of each program.
fn rate<C: Caller>(transport: &str, sessions: usize, round: Duration, programs: &[Program]) {
    compare::compare(
        &format!("{transport}, {sessions} sessions"),
        programs,
        |_| (),
        |server, ()| calls_per_second::<C>(server.port, sessions, round),
    );
}

/// Counts the instructions of each program.
fn count<C: Caller>(transport: &str, sessions: usize, programs: &[Program]) {
    let rounds = |calls: usize| calls.div_ceil(4 * sessions);
    print!("{:<24}", format!("{transport}, {sessions} sessions"));
    for (program, width) in programs.iter().zip([12, 12, 20]) {
        let each = instructions::per_round(program, rounds(CALLS_BEFORE), rounds(CALLS), |port, rounds| {
            converse::<C>(port, sessions, rounds);
        });
        print!(" {:>width$.0}", each / (4 * sessions) as f64);
    }
    println!();
}

/// A session that posts to every role and reads.
struct Session<C> {
    caller: C,
    posts: [Call; 3],
    read: Call,
}

impl<C: Caller> Session<C> {
    async fn open(port: u16, at: usize) -> Self {
        let own = ROLES[at % 3];
        Self {
            caller: C::connect(port).await,
            posts: ROLES.map(|to| post::<C>(own, to, &"b".repeat(200))),
            read: read::<C>(own),
        }
    }

    /// Makes four calls.
    async fn round(&mut self) {
        for post in &self.posts {
            self.caller.call(post).await;
        }
        self.caller.call(&self.read).await;
    }
}

/// Lets sessions make so many rounds of calls.
fn converse<C: Caller>(port: u16, sessions: usize, rounds: usize) {
    let runtime = runtime();
    let tasks: Vec<_> = (0..sessions)
        .map(|at| {
            runtime.spawn(async move {
                let mut session = Session::<C>::open(port, at).await;
                for _ in 0..rounds {
                    session.round().await;
                }
                // Behind a read whose answer may not have arrived, relay looks for signs of that when the connection ends,
                // which costs as much as many calls.
                for post in &session.posts {
                    session.caller.call(post).await;
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("a session ends well");
        }
    });
}

/// Lets sessions call in a closed loop, and counts.
fn calls_per_second<C: Caller>(port: u16, sessions: usize, round: Duration) -> f64 {
    let runtime = runtime();
    let calls = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..sessions)
        .map(|at| {
            let (calls, stop) = (Arc::clone(&calls), Arc::clone(&stop));
            runtime.spawn(async move {
                let mut session = Session::<C>::open(port, at).await;
                while !stop.load(Ordering::Relaxed) {
                    session.round().await;
                    calls.fetch_add(4, Ordering::Relaxed);
                }
            })
        })
        .collect();
    runtime.block_on(async {
        // The first fifth warms up.
        tokio::time::sleep(round / 5).await;
        let (before, started) = (calls.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(round).await;
        let rate = (calls.load(Ordering::Relaxed) - before) as f64 / started.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.expect("a session ends well");
        }
        rate
    })
}

fn memory() {
    let server = Server::relay();
    let fresh = server.resident_kb();
    server.make_routes();
    let idle = server.resident_kb();
    let with_streams = runtime().block_on(async {
        let mut streams = Vec::new();
        for _ in 0..1_000 {
            streams.push(SseCaller::open_stream(server.port).await);
        }
        let resident = server.resident_kb();
        drop(streams);
        resident
    });
    println!(
        "memory                 {:.1} MB idle, freshly started; {:.1} MB once it was asked for its health, by which its routes are made",
        fresh as f64 / 1e3,
        idle as f64 / 1e3
    );
    println!(
        "                       {:.1} kB for each of 1,000 idle streams",
        (with_streams - idle) as f64 / 1e3
    );
}

/// Measures from the start of the process to its first answered call.
fn start<C: Caller>(transport: &str) {
    let mut millis: Vec<f64> = (0..20)
        .map(|_| {
            let started = Instant::now();
            let server = Server::relay();
            runtime().block_on(async {
                let mut caller = C::connect(server.port).await;
                caller.call(&post::<C>("pm", "dev-a", "first")).await;
            });
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    millis.sort_by(f64::total_cmp);
    println!(
        "start to first answer  median {:.1} ms, worst of 20 {:.1} ms over {transport}",
        millis[10], millis[19]
    );
}
