//! A relay of the built binary: started on a free port, asked, signalled, killed and started again.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use super::http::{Connection, Request};
use super::session::{Session, Way};
use super::{PATIENCE, until};

/// The last line of the banner: from here on the relay answers.
pub const READY: &str = "[relay] waiting for connections — Ctrl-C to stop";

/// What relay keeps over its end is kept here, for the relays that a test starts without [`Relay`].
fn runtime_directory() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("runtime-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("cargo's directory for tests takes one");
    directory
}

/// Most bytes of a data directory in which a relay can have its unix socket, whose path may have about a hundred.
const DATA_BYTES_MAX: usize = 60;

/// A directory for the unix socket of a relay that a test starts without [`Relay`], and of no other.
fn data_directory() -> PathBuf {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let number = GIVEN.fetch_add(1, Ordering::Relaxed).to_string();
    let directory = runtime_directory().join(&number);
    if directory.as_os_str().len() <= DATA_BYTES_MAX {
        return directory;
    }
    std::env::temp_dir().join(format!("relay-tests-{}-{number}", std::process::id()))
}

/// A running relay. It is killed when it is dropped, and must not have panicked until then.
pub struct Relay {
    pub port: u16,
    /// Where it runs, if that is not where the tests do.
    directory: Option<PathBuf>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    process: Process,
    stdout: Stdout,
    /// What relay keeps over its end, and its unix socket; no other relay has it.
    pub runtime: TempDir,
}

enum Stdout {
    /// A thread reads it line by line.
    Read(Receiver<String>),
    /// Nobody reads it; none once a test has taken it.
    Unread(Option<ChildStdout>),
}

/// Makes a call of the built binary that takes nothing from the environment of the tests.
pub fn relay_command() -> Command {
    command_of(env!("CARGO_BIN_EXE_relay"))
}

/// Makes a call of a relay that lies elsewhere, in the same way.
pub fn command_of(relay: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(relay);
    for variable in [
        "RELAY_PORT",
        "RELAY_TOKEN",
        "RELAY_AGENT",
        "RELAY_LOG",
        "RELAY_SOCKET",
        "RELAY_PROJECT",
        "RELAY_TMUX",
        "THRUM_NAME",
    ] {
        command.env_remove(variable);
    }
    command.env("XDG_RUNTIME_DIR", runtime_directory());
    // What says that an agent calls, where an agent runs these tests.
    for variable in [
        "CLAUDECODE",
        "CODEX_THREAD_ID",
        "GEMINI_CLI",
        "OPENCODE",
        "RELAY_PARENT",
    ] {
        command.env_remove(variable);
    }
    // The tests have no terminal.
    command.env("RELAY_PERSON", "1");
    command.env("XDG_DATA_HOME", data_directory());
    command.stdin(Stdio::null());
    command
}

/// Finds a port that nothing listens on at either loopback address, below those that a system gives to outgoing connections. It is tried
/// without listening there: a process that is started meanwhile has the listener too until its program runs, and the port would be taken.
pub fn free_port() -> u16 {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 12_000).expect("it is below 12,000");
    loop {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (first + tried * 3) % 12_000;
        let is_taken = |address: SocketAddr| {
            // Some machines have no addresses of one kind.
            let Ok(socket) = Socket::new(Domain::for_address(address), Type::STREAM, None) else {
                return false;
            };
            socket
                .set_reuse_address(true)
                .expect("a port may be used again whose connections are past");
            let bound = socket.bind(&address.into());
            bound.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
        };
        if !is_taken((Ipv4Addr::LOCALHOST, port).into()) && !is_taken((Ipv6Addr::LOCALHOST, port).into()) {
            return port;
        }
    }
}

/// Tells whether this machine has the IPv6 loopback address, and says so if it does not: some containers have none.
pub fn has_ipv6_loopback() -> bool {
    let has = std::net::TcpListener::bind(("::1", 0)).is_ok();
    if !has {
        eprintln!("left out: this machine has no IPv6 loopback address");
    }
    has
}

impl Relay {
    /// Starts a relay with the default roles.
    pub fn start() -> Self {
        Self::start_with(&[], &[])
    }

    /// Starts a relay and has all its roles told of that.
    pub fn start_told() -> Self {
        let relay = Self::start();
        let mut session = relay.session(Way::Http);
        for role in ["pm", "dev-a", "dev-b"] {
            session.hear_of_start(role);
        }
        drop(session);
        relay.await_sessions(0);
        relay
    }

    /// Starts a relay with more arguments and variables.
    pub fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut relay = Self::start_unread(arguments, environment);
        relay.read_stdout();
        relay
    }

    /// The same on a port that is free at the address that the arguments name.
    pub fn start_at(port: u16, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut relay = Self::start_unread_at(port, arguments, environment);
        relay.read_stdout();
        relay
    }

    /// Starts a relay in a directory, which may say by a file of its own what that relay does.
    pub fn start_in(directory: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut relay = Self::begin(free_port(), Some(directory.to_owned()), arguments, environment);
        relay.read_stdout();
        relay
    }

    /// Starts a relay whose stdout nobody reads once its banner is there.
    pub fn start_unread(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_unread_at(free_port(), arguments, environment)
    }

    fn start_unread_at(port: u16, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::begin(port, None, arguments, environment)
    }

    fn begin(
        port: u16,
        directory: Option<PathBuf>,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let runtime = tempfile::tempdir().expect("the system has room for a directory");
        let runtime_path = runtime.path().to_str().expect("its name is text");
        let own = [("XDG_RUNTIME_DIR", runtime_path), ("XDG_DATA_HOME", runtime_path)];
        let environment: Vec<(String, String)> = own
            .iter()
            .chain(environment)
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let (process, stdout) = Process::start_relay(port, directory.as_deref(), &arguments, &environment);
        Self {
            port,
            directory,
            arguments,
            environment,
            process,
            stdout: Stdout::Unread(Some(stdout)),
            runtime,
        }
    }

    /// Kills the relay as `kill -9` does and starts another on the same port.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Kills the relay as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts another relay on the port of this one, which has ended.
    pub fn restart(&mut self) {
        let (process, stdout) = Process::start_relay(
            self.port,
            self.directory.as_deref(),
            &self.arguments,
            &self.environment,
        );
        self.process = process;
        self.stdout = Stdout::Unread(Some(stdout));
        self.read_stdout();
    }

    /// Where its unix socket is.
    pub fn socket(&self) -> PathBuf {
        self.runtime.path().join("relay/projects/default/relay.sock")
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.port)
    }

    /// Opens a session that is not bound.
    pub fn session(&self, way: Way) -> Session {
        Session::open(self.port, way, None)
    }

    /// Opens a session that is bound to a role.
    pub fn bound_session(&self, way: Way, role: &str) -> Session {
        Session::open(self.port, way, Some(role))
    }

    /// Reads a role's inbox by another session.
    pub fn bodies(&self, role: &str) -> Vec<String> {
        self.session(Way::Http).read(role).bodies()
    }

    /// Asks `GET /health`.
    pub fn health(&self) -> Value {
        let response = self.connect().exchange(&Request::get("/health"));
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    }

    /// How many sessions the relay says are open.
    pub fn sessions(&self) -> u64 {
        self.health()["sessions"].as_u64().expect("a number of sessions")
    }

    /// How many messages the relay says wait, for each role.
    pub fn pending(&self) -> Value {
        self.health()["pending"].clone()
    }

    /// Waits until the relay has noticed that all but so many sessions are gone.
    pub fn await_sessions(&self, sessions: u64) {
        until(&format!("{sessions} sessions"), || self.sessions() == sessions);
    }

    /// Has a thread read stdout from here on.
    pub fn read_stdout(&mut self) {
        let reader = BufReader::new(self.take_stdout());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        self.stdout = Stdout::Read(lines);
    }

    /// Takes the reading end of a stdout that nobody reads. Dropping it closes the pipe.
    pub fn take_stdout(&mut self) -> ChildStdout {
        let Stdout::Unread(stdout) = &mut self.stdout else {
            panic!("this relay's stdout is read already");
        };
        stdout.take().expect("it is taken once")
    }

    /// The next line on stdout.
    pub fn line(&self) -> String {
        self.lines().recv_timeout(PATIENCE).expect("a line on stdout")
    }

    /// The next line on stdout, if it comes soon enough.
    pub fn line_within(&self, patience: Duration) -> Option<String> {
        self.lines().recv_timeout(patience).ok()
    }

    /// Whatever is still said on stdout until the end of the process.
    pub fn last_lines(&self) -> Vec<String> {
        self.lines().iter().collect()
    }

    fn lines(&self) -> &Receiver<String> {
        match &self.stdout {
            Stdout::Read(lines) => lines,
            Stdout::Unread(_) => panic!("this relay's stdout is not read"),
        }
    }

    /// Resident memory, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = format!("/proc/{}/status", self.process.child.id());
        let status = std::fs::read_to_string(status).expect("these tests run on Linux");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes: Option<u64> = resident.and_then(|kilobytes| kilobytes.parse().ok());
        kilobytes.expect("a number of kB") * 1024
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Sends a signal, by its name.
    pub fn signal(&self, name: &str) {
        signal(self.process.child.id(), name);
    }

    /// Waits for the process to end by itself.
    pub fn exit_status(&mut self) -> ExitStatus {
        self.process.exit_status()
    }

    /// Ends the process and returns all that it has said on stderr.
    pub fn into_stderr(mut self) -> String {
        // In order: what is still on its way to stderr is written before the end.
        if self
            .process
            .child
            .try_wait()
            .expect("it is a child of this test")
            .is_none()
        {
            self.signal("TERM");
        }
        self.exit_status();
        self.process.kill()
    }
}

/// One process. It is killed when it is dropped, and must not have panicked until then.
pub struct Process {
    pub child: Child,
    stderr: Option<JoinHandle<String>>,
}

impl Process {
    /// Starts it; its stderr is kept.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the built relay can be started");
        let mut stderr = child.stderr.take().expect("it is piped");
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Self {
            child,
            stderr: Some(stderr),
        }
    }

    /// Starts it with a stderr of which nothing is kept.
    pub fn start_with_stderr(command: &mut Command, stderr: impl Into<Stdio>) -> Self {
        let child = command
            .stderr(stderr)
            .spawn()
            .expect("the built relay can be started");
        let stderr = None;
        Self { child, stderr }
    }

    /// Starts a relay and reads its banner, and no more than that, from its stdout.
    fn start_relay(
        port: u16,
        directory: Option<&Path>,
        arguments: &[String],
        environment: &[(String, String)],
    ) -> (Self, ChildStdout) {
        let mut command = relay_command();
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        command
            .args(["serve", "--port", &port.to_string()])
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped());
        let mut process = Self::start(&mut command);
        let stdout = process.child.stdout.take().expect("it is piped");
        let (sender, ready) = channel();
        std::thread::spawn(move || sender.send(await_banner(stdout)));
        match ready.recv_timeout(PATIENCE) {
            Ok(Some(stdout)) => (process, stdout),
            Ok(None) | Err(_) => panic!("the relay did not get ready: {}", process.kill()),
        }
    }

    /// Waits for it to end by itself.
    pub fn exit_status(&mut self) -> ExitStatus {
        let mut ended = None;
        until("the end of the relay", || {
            ended = self.child.try_wait().expect("it is a child of this test");
            ended.is_some()
        });
        ended.expect("it has ended")
    }

    /// Kills it if it still runs, and returns all that it has said on stderr.
    pub fn kill(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let stderr = self.stderr.take();
        stderr.map_or_else(String::new, |stderr| {
            stderr.join().expect("reading does not panic")
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let stderr = self.kill();
        if std::thread::panicking() {
            eprint!("{stderr}");
        } else {
            assert!(!stderr.contains("panicked"), "the relay panicked: {stderr}");
        }
    }
}

/// Reads up to the end of the banner; none when it does not come.
fn await_banner(stdout: ChildStdout) -> Option<ChildStdout> {
    let mut reader = BufReader::with_capacity(1, stdout);
    let mut line = String::new();
    loop {
        line.clear();
        match reader.read_line(&mut line) {
            Ok(0) | Err(_) => return None,
            Ok(_) if line.trim_end() == READY => return Some(reader.into_inner()),
            Ok(_) => {}
        }
    }
}

/// Sends a signal, by its name, to a process that this test has started.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(
        sent.expect("kill is installed").success(),
        "cannot send {name} to {pid}"
    );
}
