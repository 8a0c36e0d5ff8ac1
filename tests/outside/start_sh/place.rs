//! Where start.sh is tried: a directory of its own with a project, a home, a PATH of chosen tools, tmux sockets and the
//! records of the stand-ins. Nothing of it outlives the test.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use tempfile::TempDir;

use crate::needs::TMUX;
pub use crate::support::process::free_port;

pub const START_SH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/start.sh");
const STAND_INS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/outside/start_sh");
const RELAY: &str = env!("CARGO_BIN_EXE_relay");

/// What start.sh and the stand-ins need besides cargo, tmux and kitty. A tool that is missing here is missing in the test's PATH.
const TOOLS: [&str; 17] = [
    "awk", "basename", "bash", "cat", "dirname", "env", "fold", "git", "grep", "mktemp", "mv", "readlink",
    "rm", "sh", "sleep", "stty", "wc",
];
pub const DEADLINE: Duration = Duration::from_secs(30);

pub struct Place {
    root: PathBuf,
    _directory: TempDir,
}

impl Place {
    /// A place for a test that needs tmux. None where that is not installed: the test is left out, and it is said.
    pub fn with_tmux() -> Option<Self> {
        TMUX.is_met_or_said().then(Self::new)
    }

    /// Everything is there: the tools, tmux if it is installed, stand-ins for cargo and kitty, a built relay, and an empty
    /// project.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let root = directory.path().canonicalize().unwrap();
        let place = Self {
            root,
            _directory: directory,
        };
        for name in [
            "bin",
            "home",
            "records",
            "target/release",
            "tmux",
            "outside",
            "temporary",
        ] {
            fs::create_dir_all(place.root.join(name)).unwrap();
        }
        for tool in TOOLS {
            symlink(which(tool), place.bin(tool)).unwrap();
        }
        if let Some(tmux) = on_path("tmux") {
            symlink(tmux, place.bin("tmux")).unwrap();
        }
        for stand_in in ["agent", "cargo", "kitty"] {
            symlink(Path::new(STAND_INS).join(stand_in), place.bin(stand_in)).unwrap();
        }
        place.use_relay(RELAY);
        fs::create_dir_all(place.project().join("deep/down")).unwrap();
        let made = Command::new("git")
            .args(["init", "-q"])
            .current_dir(place.project())
            .status();
        assert!(made.expect("git is needed for these tests; install it").success());
        place
    }

    pub fn bin(&self, tool: &str) -> PathBuf {
        self.root.join("bin").join(tool)
    }

    /// Takes a tool off the PATH, if it is there.
    pub fn without(&self, tool: &str) -> &Self {
        drop(fs::remove_file(self.bin(tool)));
        self
    }

    /// The repository that start.sh is called from. Its name holds what a shell, tmux or a careless script might expand.
    pub fn project(&self) -> PathBuf {
        self.root.join("it's \"the\" #S $HOME project")
    }

    /// A directory that is in no repository.
    pub fn outside(&self) -> PathBuf {
        self.root.join("outside")
    }

    pub fn records(&self) -> PathBuf {
        self.root.join("records")
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Where temporary files are made.
    pub fn temporary(&self) -> PathBuf {
        self.root.join("temporary")
    }

    pub fn relay(&self) -> PathBuf {
        self.root.join("target/release/relay")
    }

    fn use_relay(&self, path: impl AsRef<Path>) {
        drop(fs::remove_file(self.relay()));
        symlink(path, self.relay()).unwrap();
    }

    /// Puts a stand-in that knows `relay stop` in the place of the built relay.
    pub fn use_stoppable_relay(&self) {
        self.use_relay(Path::new(STAND_INS).join("stoppable-relay"));
    }

    /// Puts the same on the PATH.
    pub fn install_relay(&self) {
        symlink(Path::new(STAND_INS).join("stoppable-relay"), self.bin("relay")).unwrap();
    }

    /// Puts a relay that cannot serve in the place of the real one.
    pub fn break_relay(&self) {
        self.use_relay(Path::new(STAND_INS).join("broken-relay"));
    }

    /// Puts a relay that serves nobody in the place of the real one.
    pub fn silence_relay(&self) {
        self.use_relay(Path::new(STAND_INS).join("silent-relay"));
    }

    pub fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a kickoff prompt that was last changed so many hours ago.
    pub fn write_prompt(&self, name: &str, hours_ago: u64, text: &str) -> PathBuf {
        let path = self.write(&format!("docs/superpowers/coordination/{name}"), text);
        let changed = SystemTime::now() - Duration::from_secs(3600 * hours_ago);
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(changed)
            .unwrap();
        path
    }

    /// The whole environment of what runs here.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("PATH", self.root.join("bin")),
            ("HOME", self.root.join("home")),
            ("SHELL", "/bin/sh".into()),
            ("TERM", "xterm".into()),
            ("LC_ALL", "C.UTF-8".into()),
            ("GIT_CEILING_DIRECTORIES", self.root.clone()),
            ("TMPDIR", self.temporary()),
            ("TMUX_TMPDIR", self.root.join("tmux")),
            ("CARGO_TARGET_DIR", self.root.join("target")),
            ("STAND_IN_RECORDS", self.records()),
        ]
    }

    /// The command that starts the stand-in agent, by its name on the PATH; one of its arguments holds a space.
    pub fn agent_command(&self) -> String {
        format!("agent '{}' --flag 'two words'", self.records().display())
    }

    /// Runs deep in the project, with no terminal.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.environment())
            .current_dir(self.project().join("deep/down"));
        command
    }

    pub fn start_sh(&self, arguments: &[&str]) -> assert_cmd::Command {
        let mut command = self.command(START_SH);
        command.args(arguments);
        let mut command = assert_cmd::Command::from_std(command);
        command.timeout(DEADLINE);
        command
    }

    pub fn prompt(&self, role: &str, port: u16) -> String {
        self.prompt_among(role, "pm,dev-a,dev-b", port)
    }

    pub fn prompt_among(&self, role: &str, roles: &str, port: u16) -> String {
        let output = self
            .command(RELAY)
            .args(["prompt", role, "--roles", roles, "--port", &port.to_string()])
            .output()
            .unwrap();
        assert!(output.status.success(), "relay prompt {role}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a project without relay is told on a port.
    pub fn hint(port: u16) -> String {
        format!(
            "[relay] Claude Code has no relay in this project; connect it once, in its top directory, with: \
             {RELAY} install --editor claude --port {port}"
        )
    }

    /// Calls tmux on the server that start.sh uses here, also where start.sh finds no tmux.
    pub fn tmux(&self, arguments: &[&str]) -> Output {
        self.command(which("tmux")).args(arguments).output().unwrap()
    }

    pub fn tmux_prints(&self, arguments: &[&str]) -> String {
        let output = self.tmux(arguments);
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// How the stand-in agent of a role was started, once it was.
    pub fn agent(&self, role: &str) -> Agent {
        let path = self.records().join(role);
        let record = until(&format!("agent {role} to start"), || {
            fs::read_to_string(&path).ok()
        });
        let mut fields = record.strip_suffix('\0').unwrap().split('\0').map(str::to_owned);
        Agent {
            relay_agent: fields.next().unwrap(),
            directory: fields.next().unwrap().into(),
            relay: fields.next().unwrap(),
            arguments: fields.collect(),
        }
    }

    /// The stand-in agents that were started.
    pub fn agents_started(&self) -> Vec<&'static str> {
        ["pm", "dev-a", "dev-b"]
            .into_iter()
            .filter(|role| self.records().join(role).exists())
            .collect()
    }

    /// The calls of the stand-in kitty, each with its arguments.
    pub fn kitty_calls(&self) -> Vec<Vec<String>> {
        let record = fs::read_to_string(self.records().join("kitty")).unwrap_or_default();
        let calls = record.split_terminator("\0\0");
        calls
            .map(|call| call.split('\0').map(str::to_owned).collect())
            .collect()
    }
}

impl Drop for Place {
    /// Ends what start.sh left running here, and only that.
    fn drop(&mut self) {
        if on_path("tmux").is_some() {
            drop(self.tmux(&["kill-server"]));
        }
        let windows = fs::read_to_string(self.records().join("windows")).unwrap_or_default();
        for group in windows.lines() {
            drop(Command::new("kill").args(["--", &format!("-{group}")]).output());
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Agent {
    pub relay_agent: String,
    pub directory: PathBuf,
    /// Whether relay answered when the agent started: `up` or `down`.
    pub relay: String,
    pub arguments: Vec<String>,
}

/// A terminal to run start.sh in: a tmux server of its own, apart from the one that start.sh talks to. Each has a socket that none had before
/// it: a server that was told to end takes clients still, for a moment.
pub struct Terminal<'a> {
    place: &'a Place,
    socket: PathBuf,
}

impl<'a> Terminal<'a> {
    /// Runs a shell command in the project, and then shows its exit status. A `TERM` that is not empty replaces tmux's own.
    pub fn run(place: &'a Place, command: &str) -> Self {
        static STARTED: AtomicU16 = AtomicU16::new(0);
        let started = STARTED.fetch_add(1, Ordering::Relaxed);
        let terminal = Self {
            place,
            socket: place.root.join(format!("tmux/terminal-{started}")),
        };
        let script = format!("unset TMUX TMUX_PANE; {command}; echo \"exit status $?\"; exec cat");
        let mut tmux = terminal.tmux();
        tmux.args([
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "160",
            "-y",
            "50",
            "sh",
            "-c",
            &script,
        ]);
        let output = tmux.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        terminal
    }

    /// Runs start.sh, which asks nothing.
    pub fn start_sh(place: &'a Place, port: u16, options: &str, agent_command: &str) -> Self {
        fs::write(place.root.join("agent-command"), agent_command).unwrap();
        let root = place.root.display();
        let command = format!(
            "export RELAY_AGENT_COMMAND=\"$(cat '{root}/agent-command')\"; '{START_SH}' {options} --no-install --port {port}"
        );
        Self::run(place, &command)
    }

    fn tmux(&self) -> Command {
        let mut command = self.place.command("tmux");
        command.arg("-S").arg(&self.socket);
        command
    }

    /// All that it has shown, with wrapped lines joined.
    pub fn screen(&self) -> String {
        let output = self
            .tmux()
            .args(["capture-pane", "-p", "-J", "-S", "-"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub fn until_it_shows(&self, text: &str) -> String {
        until_shown("the terminal", || self.screen(), text)
    }

    /// Types a line, key by key.
    pub fn type_line(&self, line: &str) {
        for keys in [vec!["-l", line], vec!["Enter"]] {
            let output = self.tmux().arg("send-keys").args(keys).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        drop(self.tmux().arg("kill-server").output());
    }
}

/// Polls until there is an answer.
pub fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    poll(&mut probe).unwrap_or_else(|| panic!("waited {DEADLINE:?} for {what}"))
}

/// Polls a screen until it shows a text, and gives the screen.
pub fn until_shown(what: &str, screen: impl Fn() -> String, text: &str) -> String {
    let mut probe = || Some(screen()).filter(|screen| screen.contains(text));
    poll(&mut probe).unwrap_or_else(|| panic!("{what} never showed {text:?}, but:\n{}", screen()))
}

fn poll<T>(probe: &mut impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let answer = probe();
        if answer.is_some() || Instant::now() > deadline {
            return answer;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

pub fn answers(port: u16) -> bool {
    health("127.0.0.1", port)
        .is_some_and(|answer| answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"version\""))
}

pub fn is_free(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_err()
}

/// What a relay at that address says of itself to who has no token.
pub fn health(address: &str, port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((address, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(
        stream,
        "GET /health HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn which(tool: &str) -> PathBuf {
    on_path(tool)
        .unwrap_or_else(|| panic!("{tool} is needed for these tests and is not on the PATH; install it"))
}

fn on_path(tool: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").expect("there is a PATH");
    env::split_paths(&path)
        .map(|directory| directory.join(tool))
        .find(|file| file.is_file())
}
