//! How many frames go to nodes, what each costs, and how long it takes to get there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::compare::{ROUNDS, compare};
use crate::instructions;
use crate::node::Node;
use crate::program::{Program, Server, runtime};
use crate::workspace::{Agent, Poster, Workspace};

/// How many messages to an agent may be on their way. Less than a relay allows to be unacknowledged, so that it does not wait.
const ON_THE_WAY: usize = 32;

/// How many frames are sent before callgrind counts: what is allocated once is there by then.
const FRAMES_BEFORE: usize = 256;

/// How many frames are counted with callgrind: a server runs some fifty times slower meanwhile.
const FRAMES: usize = 1_024;

/// How often the time from a post to its frame is measured in a round.
const TIMES: usize = 500;

/// Measures frames per second, to so many agents at a time.
pub fn rate(agents: usize, round: Duration, programs: &[Program]) {
    measure(agents, round, programs, |measured| measured.per_second);
}

/// Measures how long the processors are busy with a frame in each program, its part of the kernel's work included.
pub fn micros(agents: usize, round: Duration, programs: &[Program]) {
    measure(agents, round, programs, |measured| measured.micros_each);
}

fn measure(agents: usize, round: Duration, programs: &[Program], what: fn(Measured) -> f64) {
    compare(
        &nodes(agents),
        programs,
        |server| runtime().block_on(Workspace::make(server.port, agents)),
        |server, workspace| what(post_for_a_while(server, workspace, round)),
    );
}

/// What was seen of frames.
struct Measured {
    per_second: f64,
    /// How long the server's processors were busy with each.
    micros_each: f64,
}

/// Counts the instructions of each program by the frame.
pub fn count(agents: usize, programs: &[Program]) {
    print!("{:<24}", nodes(agents));
    for (program, width) in programs.iter().zip([12, 12, 20]) {
        let rounds = |frames: usize| frames.div_ceil(agents);
        let each = instructions::per_round(program, rounds(FRAMES_BEFORE), rounds(FRAMES), |port, rounds| {
            runtime().block_on(async {
                let workspace = Workspace::make(port, agents).await;
                converse(port, &workspace, &Arc::default(), move |posted| posted < rounds)
                    .await
                    .end()
                    .await;
            });
        });
        print!(" {:>width$.0}", each / agents as f64);
    }
    println!();
}

fn nodes(agents: usize) -> String {
    match agents {
        1 => "1 node".to_owned(),
        many => format!("{many} nodes"),
    }
}

/// Posts to all agents of a workspace in a closed loop, and counts.
fn post_for_a_while(server: &Server, workspace: &Workspace, round: Duration) -> Measured {
    runtime().block_on(async {
        let frames: Arc<AtomicUsize> = Arc::default();
        let stop: Arc<AtomicBool> = Arc::default();
        let is_stopped = Arc::clone(&stop);
        let going_on = move |_| !is_stopped.load(Ordering::Relaxed);
        let conversation = converse(server.port, workspace, &frames, going_on).await;
        let seen = || (frames.load(Ordering::Relaxed), busy_micros(server));
        // The first fifth warms up.
        tokio::time::sleep(round / 5).await;
        let ((frames_before, busy_before), started) = (seen(), Instant::now());
        tokio::time::sleep(round).await;
        let ((frames, busy), taken) = (seen(), started.elapsed());
        stop.store(true, Ordering::Relaxed);
        conversation.end().await;
        let frames = (frames - frames_before) as f64;
        Measured {
            per_second: frames / taken.as_secs_f64(),
            micros_each: (busy - busy_before) as f64 / frames,
        }
    })
}

/// Returns how long processors were busy with a server until now.
fn busy_micros(server: &Server) -> u64 {
    /// In such units, wherever Linux runs: <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>.
    const TICK_MICROS: u64 = 10_000;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id()));
    let stat = stat.expect("the process runs");
    // The name of the program may have anything in it.
    let (_, fields) = stat.rsplit_once(") ").expect("it has a name");
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks = ticks.map(|ticks| ticks.parse::<u64>().expect("a number of ticks"));
    ticks.sum::<u64>() * TICK_MICROS
}

/// Agents that get messages, and those that post to them.
struct Conversation {
    posters: Vec<JoinHandle<Arc<Semaphore>>>,
    nodes: Vec<JoinHandle<()>>,
}

/// Has each agent of a workspace be posted to as long as it is to go on, which is asked with how many were posted to it, and counts the
/// frames that arrive.
async fn converse(
    port: u16,
    workspace: &Workspace,
    frames: &Arc<AtomicUsize>,
    going_on: impl Fn(usize) -> bool + Clone + Send + 'static,
) -> Conversation {
    let mut conversation = Conversation {
        posters: Vec::new(),
        nodes: Vec::new(),
    };
    for agent in &workspace.agents {
        let mut node = Node::connect(port, agent).await;
        let mut poster = Poster::connect(port, agent).await;
        let room = Arc::new(Semaphore::new(ON_THE_WAY));
        let (arrived, frames) = (Arc::clone(&room), Arc::clone(frames));
        conversation.nodes.push(tokio::spawn(async move {
            loop {
                let taken = node.take().await;
                node.acknowledge(taken).await;
                frames.fetch_add(taken.count, Ordering::Relaxed);
                arrived.add_permits(taken.count);
            }
        }));
        let going_on = going_on.clone();
        conversation.posters.push(tokio::spawn(async move {
            let mut posted = 0;
            while going_on(posted) {
                room.acquire().await.expect("it is not closed").forget();
                poster.send().await;
                poster.answer().await;
                posted += 1;
            }
            room
        }));
    }
    conversation
}

impl Conversation {
    /// Waits until nothing more is posted and all has arrived.
    async fn end(self) {
        for (poster, node) in self.posters.into_iter().zip(self.nodes) {
            let room = poster.await.expect("a poster ends well");
            let all = u32::try_from(ON_THE_WAY).expect("a small number");
            let _all_arrived = room.acquire_many(all).await.expect("it is not closed");
            node.abort();
            // Its connection is closed when it has ended.
            let _aborted = node.await;
        }
    }
}

/// Measures how long it takes from a post to the frame of it, while nothing else is on its way.
pub fn post_to_frame(programs: &[Program]) {
    let runtime = runtime();
    let servers: Vec<Server> = programs.iter().map(Server::of).collect();
    let agents: Vec<Agent> = servers
        .iter()
        .map(|server| runtime.block_on(Workspace::make(server.port, 1)).agents.remove(0))
        .collect();
    let mut micros = vec![Vec::new(); servers.len()];
    for first in 0..ROUNDS {
        for turn in 0..servers.len() {
            let at = (first + turn) % servers.len();
            micros[at].extend(runtime.block_on(micros_to_frame(servers[at].port, &agents[at])));
        }
    }
    println!();
    for (micros, name) in micros.iter_mut().zip(["relay", "bare axum", "other relay"]) {
        micros.sort_by(f64::total_cmp);
        let (half, most) = (micros[micros.len() / 2], micros[micros.len() * 99 / 100]);
        println!(
            "{:<24} median {half:.0} us, 99 % {most:.0} us ({} times)",
            format!("post to frame, {name}"),
            micros.len()
        );
    }
}

async fn micros_to_frame(port: u16, agent: &Agent) -> Vec<f64> {
    let mut node = Node::connect(port, agent).await;
    let mut poster = Poster::connect(port, agent).await;
    let mut micros = Vec::new();
    // The first tenth warms up.
    for time in 0..TIMES + TIMES / 10 {
        let started = Instant::now();
        poster.send().await;
        let taken = node.take().await;
        if time >= TIMES / 10 {
            micros.push(started.elapsed().as_secs_f64() * 1e6);
        }
        assert_eq!(taken.count, 1, "each comes alone");
        node.acknowledge(taken).await;
        poster.answer().await;
    }
    micros
}
