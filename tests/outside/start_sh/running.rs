//! A start.sh that has become the server.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Instant,
};

use super::place::{DEADLINE, Place, START_SH};

/// A server in the foreground of start.sh, and what was printed until it was ready.
pub struct Running {
    child: Child,
    pub printed: String,
}

impl Running {
    pub fn until_ready(mut command: Command) -> Self {
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // It reads to the end, so that the server never waits for its log.
        thread::spawn(move || {
            stdout
                .lines()
                .map_while(Result::ok)
                .for_each(|line| drop(sender.send(line)))
        });
        let mut running = Self {
            child,
            printed: String::new(),
        };
        let deadline = Instant::now() + DEADLINE;
        while !running.printed.contains("server ready") {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = lines.recv_timeout(left);
            let line = line.unwrap_or_else(|end| panic!("{end}; start.sh had printed:\n{}", running.printed));
            running.printed.push_str(&line);
            running.printed.push('\n');
        }
        running
    }

    pub fn start_sh(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command(START_SH);
        command.args(arguments);
        Self::until_ready(command)
    }

    /// The arguments that everybody on the machine can see.
    pub fn arguments(&self) -> Vec<String> {
        let arguments = fs::read_to_string(format!("/proc/{}/cmdline", self.child.id())).unwrap();
        arguments.split_terminator('\0').map(str::to_owned).collect()
    }

    /// Ends it with the signal that a plain `kill` sends, and gives its exit status.
    pub fn terminate(mut self) -> Option<i32> {
        let killed = Command::new("kill")
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        assert!(killed.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    /// Ends the whole group, in case start.sh has not become the server, but has a child that is.
    fn drop(&mut self) {
        drop(
            Command::new("kill")
                .args(["-KILL", "--", &format!("-{}", self.child.id())])
                .output(),
        );
        drop(self.child.wait());
    }
}
