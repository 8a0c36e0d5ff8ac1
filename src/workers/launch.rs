//! The last step before a worker's program runs: a process that leaves the supervisor's session, takes its terminal, and becomes the
//! program. It is this program once more, since what it does between fork and exec would otherwise be unsafe code.
//!
//! It reads what to do from stdin, and writes to stdout why it cannot. Where it can, stdout closes with nothing in it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::program::refused;
use super::{OpenFiles, Order};

/// The variable that tells glibc how it is to hold memory.
pub const TUNABLES: &str = "GLIBC_TUNABLES";

/// What that was before relay told it something for itself, empty if it was not set.
pub const OWN_TUNABLES: &str = "RELAY_GLIBC_TUNABLES";

/// What is to be run.
#[derive(Serialize, Deserialize)]
struct Launch {
    #[serde(with = "super::path")]
    program: PathBuf,
    argv: Vec<String>,
    env: BTreeMap<String, Option<String>>,
    #[serde(with = "super::path")]
    cwd: PathBuf,
    /// How many files it may have open, if that is said.
    open_files: Option<OpenFiles>,
    /// Its terminal; none if it is to write into stderr as it is.
    terminal: Option<PathBuf>,
    /// The supervisor, with which it ends.
    supervisor: i32,
}

/// Where a program writes.
pub enum Output<'a> {
    /// Into this terminal.
    Terminal(&'a Path),
    /// Into a pipe.
    Pipe(PipeWriter),
}

/// Starts the program of an order. What comes back says why it does not run, and ends when that is known.
pub fn start(order: &Order, program: PathBuf, output: Output<'_>) -> io::Result<(Pid, OwnedFd)> {
    let (terminal, stderr) = match output {
        Output::Terminal(path) => (Some(path.to_owned()), Stdio::null()),
        Output::Pipe(pipe) => (None, Stdio::from(pipe)),
    };
    let launch = Launch {
        program,
        argv: order.argv.clone(),
        env: order.env.clone(),
        cwd: order.cwd.clone(),
        open_files: order.open_files,
        terminal,
        supervisor: rustix::process::getpid().as_raw_nonzero().get(),
    };
    let mut child = ourselves()?
        .args(["worker", "launch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()?;
    let pid = Pid::from_child(&child);
    if let Some(mut stdin) = child.stdin.take() {
        // Who has ended before it says so by its end.
        let _closed = stdin.write_all(&serde_json::to_vec(&launch)?);
    }
    let said = child.stdout.take().expect("it was piped");
    Ok((pid, said.into()))
}

/// Returns the command that runs this program, also where its file was replaced.
pub fn ourselves() -> io::Result<Command> {
    let mut command = if cfg!(target_os = "linux") {
        Command::new("/proc/self/exe")
    } else {
        Command::new(std::env::current_exe()?)
    };
    command.arg0("relay");
    Ok(command)
}

/// Becomes the program that stdin names, or says why not.
pub fn launch() {
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    let said = stdout.and_then(|stdout| {
        // It ends with the exec.
        let said = rustix::io::fcntl_dupfd_cloexec(stdout, 3)?;
        Ok(std::fs::File::from(said))
    });
    let Ok(mut said) = said else { return };
    let reason = become_program();
    let _nobody_waits = said.write_all(reason.as_bytes());
}

fn become_program() -> String {
    let mut order = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut order);
    let launch: Launch = match read.and_then(|_| Ok(serde_json::from_slice(&order)?)) {
        Ok(launch) => launch,
        Err(error) => return format!("relay worker launch is started by relay: {error}"),
    };
    match take_place(&launch) {
        Ok(()) => {}
        Err(error) => return format!("it cannot be given a terminal: {error}"),
    }
    limit_open_files(launch.open_files);
    let mut command = Command::new(&launch.program);
    if let Some(name) = launch.argv.first() {
        command.arg0(name);
    }
    command.args(launch.argv.iter().skip(1)).current_dir(&launch.cwd);
    match std::env::var_os(OWN_TUNABLES) {
        Some(was_set) if was_set.is_empty() => command.env_remove(TUNABLES),
        Some(was_set) => command.env(TUNABLES, was_set),
        None => &mut command,
    };
    command.env_remove(OWN_TUNABLES);
    for (name, value) in &launch.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("PWD", &launch.cwd);
    close_at_exec();
    refused(&launch.program, &command.exec())
}

/// Has no file reach the program but its stdin, stdout and stderr: whoever started relay may have left others open, such as a lock or the end of
/// a pipe whose reader waits for its end.
fn close_at_exec() {
    let first = rustix::stdio::raw_stderr() + 1;
    close_fds::set_fds_cloexec(first, &[]);
}

/// Takes back what relay has raised for itself. A program may take a high limit for a reason to close as many files, or cannot use more
/// than 1,024 at all (`select`).
fn limit_open_files(open_files: Option<OpenFiles>) {
    let Some(OpenFiles(current)) = open_files else {
        return;
    };
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // It is at most what the system allows, of which relay raised it, and never the wrong thing to start without.
    let _it_may_have_more = setrlimit(Resource::Nofile, Rlimit { current, maximum });
}

/// Leaves the supervisor's session, and takes the terminal of its own, or the pipe.
fn take_place(launch: &Launch) -> io::Result<()> {
    rustix::process::setsid()?;
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
        if parent != Some(launch.supervisor) {
            return Err(io::Error::other("relay has ended"));
        }
    }
    let input = match &launch.terminal {
        Some(path) => {
            // The first terminal that a leader of a session opens is that of the session.
            let terminal = OpenOptions::new().read(true).write(true).open(path)?;
            let _is_ours_already = rustix::process::ioctl_tiocsctty(&terminal);
            rustix::stdio::dup2_stderr(&terminal)?;
            terminal
        }
        None => OpenOptions::new().read(true).open("/dev/null")?,
    };
    rustix::stdio::dup2_stdin(&input)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(())
}
