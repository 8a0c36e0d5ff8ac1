//! A supervisor of the built binary, and a program for it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::PATIENCE;
use crate::support::process::relay_command;

/// A directory of a test's own, in which its programs are, and what they write.
pub struct Scene {
    pub directory: TempDir,
}

impl Scene {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What is in a file that a program writes; nothing if it is not there yet.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes a program of the shell.
    pub fn program(&self, script: &str) -> PathBuf {
        let path = self.path("program");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("there is room");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
        path
    }

    /// An order to start a program, which may be changed.
    pub fn order(&self, argv: &[&str]) -> Value {
        json!({
            "order": "start",
            "cli": "codex",
            "argv": argv,
            "env": {"DIRECTORY": self.directory.path(), "RELAY_AGENT": "w1", "TMUX": null},
            "cwd": self.directory.path(),
            "files": {"directory": self.path("relay/projects/default/workers"), "name": "w1"},
            "in_terminal": true,
            "rows": 24,
            "cols": 80,
        })
    }

    /// Starts a program of the shell.
    pub fn start(&self, script: &str) -> Supervisor {
        let program = self.program(script);
        Supervisor::start(&self.order(&[text(&program)]))
    }

    /// The same, once it runs.
    pub fn run(&self, script: &str) -> (Supervisor, i32) {
        let supervisor = self.start(script);
        let pid = supervisor.started();
        (supervisor, pid)
    }

    pub fn log(&self) -> String {
        self.text("relay/projects/default/workers/w1.log")
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("it is text")
}

/// A supervisor. What it has started has ended when it is dropped, since its stdin closes then.
pub struct Supervisor {
    child: Child,
    pub stdin: Option<ChildStdin>,
    reports: Receiver<Value>,
}

impl Supervisor {
    pub fn start(order: &Value) -> Self {
        let mut command = relay_command();
        command.arg("worker");
        Self::start_by(command, order)
    }

    /// Starts one whose files may be limited without a signal that ends it.
    pub fn start_without_sigxfsz(order: &Value) -> Self {
        Self::start_ignoring("XFSZ", order)
    }

    /// Starts one that is told to ignore signals, by their names.
    pub fn start_ignoring(signals: &str, order: &Value) -> Self {
        Self::start_after(&format!("trap '' {signals}"), order)
    }

    /// Starts one by a shell, in which something is done before.
    pub fn start_after(before: &str, order: &Value) -> Self {
        let relay = relay_command();
        let mut command = Command::new("sh");
        let script = format!("{before}; exec \"$0\" worker");
        command.args(["-c", &script]).arg(relay.get_program());
        command.envs(relay.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::start_by(command, order)
    }

    fn start_by(mut command: Command, order: &Value) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it was built");
        let mut stdin = child.stdin.take().expect("it was piped");
        writeln!(stdin, "{order}").expect("it reads");
        let stdout = BufReader::new(child.stdout.take().expect("it was piped"));
        let (tell, reports) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let line = line.expect("it is text");
                let report = serde_json::from_str(&line).expect("it is JSON");
                if tell.send(report).is_err() {
                    return;
                }
            }
        });
        let stdin = Some(stdin);
        Self {
            child,
            stdin,
            reports,
        }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("it is a process")
    }

    /// What it reports next.
    pub fn report(&self) -> Value {
        self.reports.recv_timeout(PATIENCE).expect("it reports")
    }

    /// Waits until the program runs, and returns its process.
    pub fn started(&self) -> i32 {
        let report = self.report();
        assert_eq!(report["event"], "started", "{report}");
        let pid = report["pid"].as_i64().expect("a number");
        i32::try_from(pid).expect("it is a process")
    }

    /// Tells it to end its worker.
    pub fn end(&mut self) {
        let stdin = self.stdin.as_mut().expect("it is open");
        writeln!(stdin, "{}", json!({"order": "end"})).expect("it reads");
    }

    /// Waits for its last report, and for its own end.
    pub fn last(&mut self) -> Value {
        let report = self.report();
        assert!(
            self.reports.recv_timeout(PATIENCE).is_err(),
            "it was the last one"
        );
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
        report
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ended = self.child.wait();
    }
}

/// Tells whether a process runs; one that nobody has reaped does not.
pub fn runs(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit(") ").next().expect("it has a state");
    !state.starts_with('Z')
}

/// Tells whether a process is there, be it as a zombie.
pub fn is_there(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
