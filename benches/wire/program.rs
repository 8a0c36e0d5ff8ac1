//! The programs that are measured, each a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often the log of a server is read.
const READ_EVERY: Duration = Duration::from_millis(5);

/// Makes what a client's tasks run on.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}

/// What a benchmark was asked to do.
pub enum Asked {
    /// To be the bare server, at a port.
    Bare(u16),
    /// To measure programs.
    Measure {
        /// How long a round takes.
        round: Duration,
        /// Relay, bare axum, and another relay if one is named.
        programs: Vec<Program>,
    },
}

impl Asked {
    /// Reads the arguments: `--bare PORT`, or `--seconds NUMBER` and `--against PATH`.
    pub fn read() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let value = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name);
            at.map(|at| arguments[at + 1].as_str())
        };
        if let Some(port) = value("--bare") {
            return Self::Bare(port.parse().expect("a port"));
        }
        let seconds = value("--seconds").map_or(2.0, |seconds| seconds.parse().expect("a number of seconds"));
        let other = value("--against").map(|path| Program::Relay(path.into()));
        Self::Measure {
            round: Duration::from_secs_f64(seconds),
            programs: [Program::relay(), Program::Bare]
                .into_iter()
                .chain(other)
                .collect(),
        }
    }
}

/// What can be measured.
pub enum Program {
    /// A relay, by the path of its binary.
    Relay(PathBuf),
    /// The bare axum server, which is this program.
    Bare,
}

impl Program {
    pub fn relay() -> Self {
        Self::Relay(env!("CARGO_BIN_EXE_relay").into())
    }

    /// Makes the command that serves at a port.
    pub fn serve(&self, port: u16) -> Command {
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
pub struct Server {
    /// The process.
    pub child: Child,
    /// Where it serves.
    pub port: u16,
}

impl Server {
    pub fn relay() -> Self {
        Self::of(&Program::relay())
    }

    pub fn of(program: &Program) -> Self {
        Self::spawn(free_port(), |port| program.serve(port))
    }

    /// Starts a server and waits for its first line. Its log is read now and then, and thrown away: a reader that is woken by each line
    /// takes a fifth of two processors, which is none of what is measured.
    pub fn spawn(port: u16, command: impl FnOnce(u16) -> Command) -> Self {
        let mut child = command(port)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        stdout
            .read_line(&mut String::new())
            .expect("the server says that it is ready");
        std::thread::spawn(move || {
            let mut lines = vec![0; 64 * 1024];
            while stdout.read(&mut lines).is_ok_and(|count| count > 0) {
                std::thread::sleep(READ_EVERY);
            }
        });
        Self { child, port }
    }

    /// Asks relay for its health. The first request that is no tool call has relay make its routes, whose memory is none of what is
    /// measured behind it.
    pub fn make_routes(&self) {
        let mut health = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        health.write_all(request).expect("the connection holds");
        let read = health.read_to_end(&mut Vec::new());
        read.expect("the connection holds");
    }

    /// Resident memory, in kB.
    pub fn resident_kb(&self) -> u64 {
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

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}
