//! How many user instructions something costs a server, counted by callgrind: a figure that neither the load on the machine nor
//! its clock moves.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Program, Server, free_port};

/// Tells whether this machine can count.
pub fn can_be_counted() -> bool {
    let mut valgrind = Command::new("valgrind");
    let status = valgrind.arg("--version").stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Counts a server's instructions from its start to its end in two runs, of which the second makes more rounds than the first, which
/// makes `before`: the difference, by the round, is theirs alone.
pub fn per_round(program: &Program, before: usize, counted: usize, converse: impl Fn(u16, usize)) -> f64 {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("callgrind.out");
    let [some, more] = [before, before + counted].map(|rounds| {
        let server = Server::spawn(free_port(), |port| {
            under_callgrind(&program.serve(port), &[], &out)
        });
        converse(server.port, rounds);
        end(server);
        total(&out)
    });
    (more - some) as f64 / counted as f64
}

/// Makes the command that counts the instructions of another, as further options of callgrind say, and writes them to `out` at its end.
pub fn under_callgrind(command: &Command, options: &[&str], out: &Path) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .args(options)
        .arg(command.get_program())
        .args(command.get_args())
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        // With these it has no need to start itself once more, which callgrind would not follow.
        .env(
            "GLIBC_TUNABLES",
            "glibc.malloc.mmap_threshold=131072:glibc.malloc.trim_threshold=131072",
        )
        .stderr(Stdio::null());
    valgrind
}

/// Asks a server to end, for which callgrind waits.
fn end(mut server: Server) {
    let pid = i32::try_from(server.child.id()).expect("a process id");
    let pid = Pid::from_raw(pid).expect("a process id");
    kill_process(pid, Signal::TERM).expect("the server runs");
    server.child.wait().expect("the server ends");
}

/// Reads how many instructions were counted.
pub fn total(out: &Path) -> i64 {
    let profile = std::fs::read_to_string(out).expect("callgrind has written it");
    let totals = profile.lines().find_map(|line| line.strip_prefix("totals: "));
    let totals = totals.expect("a profile has totals");
    totals.trim().parse().expect("a number of instructions")
}
