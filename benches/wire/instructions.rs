//! How many user instructions a call costs a server, counted by callgrind: a figure that neither the load on the machine nor
//! its clock moves.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::Caller;
use crate::{Program, Server, Session, free_port, runtime};

/// How many times all sessions together call before it is counted: what is allocated once is there by then.
const CALLS_BEFORE: usize = 250;

/// How many calls are counted: a server runs some fifty times slower meanwhile.
const CALLS: usize = 1_000;

/// Tells whether this machine can count.
pub fn can_be_counted() -> bool {
    let mut valgrind = Command::new("valgrind");
    let status = valgrind.arg("--version").stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Counts a server's instructions from its start to its end in two runs, of which the second makes more calls: the
/// difference is theirs alone.
pub fn per_call<C: Caller>(program: &Program, sessions: usize) -> f64 {
    let rounds = |calls: usize| calls.div_ceil(4 * sessions);
    let before = rounds(CALLS_BEFORE);
    let counted = rounds(CALLS);
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("callgrind.out");
    let [some, more] = [before, before + counted].map(|rounds| {
        let server = Server::spawn(free_port(), |port| under_callgrind(&program.serve(port), &out));
        converse::<C>(server.port, sessions, rounds);
        end(server);
        total(&out)
    });
    (more - some) as f64 / (counted * 4 * sessions) as f64
}

/// Makes the command that counts the instructions of another and writes them to `out` at its end.
fn under_callgrind(command: &Command, out: &Path) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(command.get_program())
        .args(command.get_args())
        .stderr(Stdio::null());
    valgrind
}

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

/// Asks a server to end, for which callgrind waits.
fn end(mut server: Server) {
    let pid = i32::try_from(server.child.id()).expect("a process id");
    let pid = Pid::from_raw(pid).expect("a process id");
    kill_process(pid, Signal::TERM).expect("the server runs");
    server.child.wait().expect("the server ends");
}

/// Reads how many instructions were counted.
fn total(out: &Path) -> i64 {
    let profile = std::fs::read_to_string(out).expect("callgrind has written it");
    let totals = profile.lines().find_map(|line| line.strip_prefix("totals: "));
    let totals = totals.expect("a profile has totals");
    totals.trim().parse().expect("a number of instructions")
}
