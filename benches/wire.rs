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
#[path = "wire/instructions.rs"]
mod instructions;
#[path = "wire/wake_up.rs"]
mod wake_up;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::{Call, Caller, HttpCaller, ModernCaller, SseCaller, post, read};

/// How often each program is measured; the medians are compared. Each goes first as often as any other, of two or of three.
const ROUNDS: usize = 6;

/// How many sessions call at a time.
const SESSIONS: [usize; 2] = [3, 32];

const ROLES: [&str; 3] = ["pm", "dev-a", "dev-b"];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--bare") {
        let port = arguments[at + 1].parse().expect("a port");
        return runtime().block_on(bare::serve(port));
    }
    let at = arguments.iter().position(|argument| argument == "--seconds");
    let seconds: f64 = at.map_or(2.0, |at| arguments[at + 1].parse().expect("a number of seconds"));
    let round = Duration::from_secs_f64(seconds);
    let at = arguments.iter().position(|argument| argument == "--against");
    let other = at.map(|at| PathBuf::from(&arguments[at + 1]));
    let other = other.map(Program::Relay);
    let programs: Vec<Program> = [Program::relay(), Program::Bare]
        .into_iter()
        .chain(other)
        .collect();

    println!(
        "{:<24} {:>12} {:>12} {:>7} {:>12} {:>7}",
        "calls per second", "relay", "bare axum", "ratio", "other relay", "ratio"
    );
    for sessions in SESSIONS {
        compare::<SseCaller>("SSE", sessions, round, &programs);
        compare::<HttpCaller>("HTTP", sessions, round, &programs);
        compare::<ModernCaller>("2026-07-28", sessions, round, &programs);
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
    start();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}

/// What can be measured.
enum Program {
    /// A relay, by the path of its binary.
    Relay(PathBuf),
    /// The bare axum server, which is this program.
    Bare,
}

impl Program {
    fn relay() -> Self {
        Self::Relay(env!("CARGO_BIN_EXE_relay").into())
    }

    /// Makes the command that serves at a port.
    fn serve(&self, port: u16) -> Command {
        let port = port.to_string();
        match self {
            Self::Relay(binary) => {
                let mut command = Command::new(binary);
                command.args(["serve", "--port", &port]);
                // Its unix socket is beside the benchmark, so that it does not meet a person's relay.
                command.env("XDG_DATA_HOME", env!("CARGO_TARGET_TMPDIR"));
                command
            }
            Self::Bare => {
                let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
                command.args(["--bare", &port]);
                command
            }
        }
    }
}

/// A server process, ended when it is dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn relay() -> Self {
        Self::of(&Program::relay())
    }

    fn of(program: &Program) -> Self {
        Self::spawn(free_port(), |port| program.serve(port))
    }

    /// Starts a server and waits for its first line; its log is read and thrown away, as a terminal would.
    fn spawn(port: u16, command: impl FnOnce(u16) -> Command) -> Self {
        let mut child = command(port)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        stdout
            .read_line(&mut String::new())
            .expect("the server says that it is ready");
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        Self { child, port }
    }

    /// Resident memory, in kB.
    fn resident_kb(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the process runs");
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .expect("it has memory");
        line.split_whitespace()
            .nth(1)
            .and_then(|kb| kb.parse().ok())
            .expect("a number of kB")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

/// Measures the servers in turns. Another one begins each round: whoever goes first finds the processors colder.
fn compare<C: Caller>(transport: &str, sessions: usize, round: Duration, programs: &[Program]) {
    let servers: Vec<Server> = programs.iter().map(Server::of).collect();
    let mut rates = vec![Vec::new(); servers.len()];
    let mut ratios = vec![Vec::new(); servers.len()];
    for first in 0..ROUNDS {
        let mut measured = vec![0.0; servers.len()];
        for turn in 0..servers.len() {
            let at = (first + turn) % servers.len();
            measured[at] = calls_per_second::<C>(servers[at].port, sessions, round);
        }
        for (at, rate) in measured.iter().enumerate() {
            rates[at].push(*rate);
            ratios[at].push(measured[0] / rate);
        }
    }
    let name = format!("{transport}, {sessions} sessions");
    print!("{name:<24} {:>12.0}", median(rates.remove(0)));
    for (rates, ratios) in rates.into_iter().zip(ratios.into_iter().skip(1)) {
        print!(" {:>12.0} {:>7.2}", median(rates), median(ratios));
    }
    println!();
}

/// Counts the instructions of each program.
fn count<C: Caller>(transport: &str, sessions: usize, programs: &[Program]) {
    print!("{:<24}", format!("{transport}, {sessions} sessions"));
    for (program, width) in programs.iter().zip([12, 12, 20]) {
        print!(" {:>width$.0}", instructions::per_call::<C>(program, sessions));
    }
    println!();
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
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
        "memory                 {:.1} MB idle, freshly started",
        idle as f64 / 1e3
    );
    println!(
        "                       {:.1} kB for each of 1,000 idle streams",
        (with_streams - idle) as f64 / 1e3
    );
}

/// Measures from the start of the process to its first answered call.
fn start() {
    let mut millis: Vec<f64> = (0..20)
        .map(|_| {
            let started = Instant::now();
            let server = Server::relay();
            runtime().block_on(async {
                let mut caller = HttpCaller::connect(server.port).await;
                caller.call(&post::<HttpCaller>("pm", "dev-a", "first")).await;
            });
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    millis.sort_by(f64::total_cmp);
    println!(
        "start to first answer  median {:.1} ms, worst of 20 {:.1} ms",
        millis[10], millis[19]
    );
}
