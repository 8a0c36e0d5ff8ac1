//! The processes below a supervisor: all that its worker has started, wherever it has gone since.

#[cfg(target_os = "linux")]
use std::collections::BTreeMap;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::Status;

/// Has this process adopt what its descendants leave behind, where the system can do that.
pub fn adopt() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "what leaves a worker's process group may outlive it");
    }
}

/// What has been reaped.
#[derive(Debug, Default)]
pub struct Reaped {
    /// How the worker's first process has ended, if it has.
    pub first: Option<Status>,
    /// No child is left.
    pub all: bool,
}

/// Reaps all that has ended.
pub fn reap(first: Pid) -> Reaped {
    let mut reaped = Reaped::default();
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if pid == first {
                    reaped.first = ended(status);
                }
            }
            Ok(None) => return reaped,
            Err(Errno::INTR) => {}
            Err(_) => {
                reaped.all = true;
                return reaped;
            }
        }
    }
}

fn ended(status: WaitStatus) -> Option<Status> {
    let code = status.exit_status().map(Status::Code);
    code.or_else(|| status.terminating_signal().map(Status::Signal))
}

/// Sends a signal to the group of the worker, as long as its first process is not reaped, and to each process that has left it.
pub fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // It has none yet, or has none any more.
        let _gone = rustix::process::kill_process_group(group, signal);
    }
    for pid in below_us() {
        let is_of_group = group.is_some_and(|group| rustix::process::getpgid(Some(pid)) == Ok(group));
        if !is_of_group {
            let _gone = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Returns all descendants of this process.
#[cfg(target_os = "linux")]
fn below_us() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().filter(|name| name.parse::<i32>().is_ok());
        let parent = number.and_then(|number| {
            let parent = crate::process::Process::parent(number)?;
            Some((number.parse().ok()?, parent.parse().ok()?))
        });
        if let Some((number, parent)) = parent {
            children.entry(parent).or_default().push(number);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(parent) = next.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        found.extend(below.iter().filter_map(|number| Pid::from_raw(*number)));
        next.extend(below);
    }
    found
}

#[cfg(not(target_os = "linux"))]
fn below_us() -> Vec<Pid> {
    Vec::new()
}
