//! What starts the processes of workers in a run: relay's side of each, which is gone with relay, and the process, which runs on a machine
//! of its own until it ends by itself, is told to, has no relay any more, or loses its machine.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use relay::engine::WorkerId;
use relay::engine::workers::{ExitStatus, Happened, Start};
use relay::server::{Reports, Starter};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::history::{How, Process};
use super::people::works;
use super::plan::{GRACE_MS, REPORT_MS};
use super::world::Shared;
use crate::client::now_ms;

/// A process that was asked for, as both sides know it.
pub struct Running {
    /// Its number over the run.
    pub number: usize,
    /// As what it was asked for.
    pub start: Start,
    /// Told to end, or left alone.
    told: Notify,
    /// It has ended.
    ended: Notify,
    /// It is on its machine.
    is_begun: AtomicBool,
}

/// A machine, and what waits to run on it.
#[derive(Default)]
pub struct Machine {
    /// None while it has no power.
    queue: Mutex<Option<Vec<Arc<Running>>>>,
    comes: Notify,
}

impl Machine {
    /// Has a process run, if there is power.
    fn begin(&self, running: &Arc<Running>) -> bool {
        let mut queue = self.queue.lock().expect("a run has one thread");
        let Some(queue) = &mut *queue else {
            return false;
        };
        queue.push(Arc::clone(running));
        running.is_begun.store(true, Ordering::Relaxed);
        self.comes.notify_one();
        true
    }

    fn take(&self) -> Vec<Arc<Running>> {
        let mut queue = self.queue.lock().expect("a run has one thread");
        queue.replace(Vec::new()).unwrap_or_default()
    }

    /// Loses power, before what waits has begun.
    pub fn stops(&self, shared: &Shared) {
        let queue = self.queue.lock().expect("a run has one thread").take();
        for running in queue.unwrap_or_default() {
            drop(Over::new(shared, &running));
        }
    }
}

/// Runs what is to run on a machine, until that is gone.
pub async fn runs(shared: Shared, on: usize) {
    let machine = Arc::clone(&shared.machines[on]);
    loop {
        for running in machine.take() {
            spawn_local(lives(shared.clone(), running));
        }
        machine.comes.notified().await;
    }
}

/// Says that a process has ended, however that came.
struct Over {
    shared: Shared,
    running: Arc<Running>,
    how: How,
}

impl Over {
    /// Its machine is gone, unless something else is known.
    fn new(shared: &Shared, running: &Arc<Running>) -> Self {
        Self {
            shared: shared.clone(),
            running: Arc::clone(running),
            how: How::Machine,
        }
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        let number = self.running.number;
        let ended = Some((now_ms(), self.how));
        let is_new = self.shared.log.process(number, |process| {
            let is_new = process.ended.is_none();
            process.ended = process.ended.or(ended);
            is_new
        });
        if is_new {
            self.shared
                .log
                .trace(format_args!("process {number} ended: {:?}", self.how));
            self.shared.marks.hit(match self.how {
                How::Itself => "ended by itself",
                How::Told => "ended as it was told to",
                How::Orphaned => "ended as its relay was gone",
                How::Machine => "ended with its machine",
                How::Never => "ended before it was begun",
            });
        }
        self.running.ended.notify_one();
    }
}

/// The process, from its begin to its end.
async fn lives(shared: Shared, running: Arc<Running>) {
    let number = running.number;
    if shared.log.process(number, |process| process.ended.is_some()) {
        return;
    }
    let mut rng = shared.rng(number as u64 + 1);
    let mut over = Over::new(&shared, &running);
    let grace_ms = [0, 500, 500, GRACE_MS][rng.usize(..4)];
    let grace_ms = rng.u64(..=grace_ms);
    let told = async {
        running.told.notified().await;
        sleep(Duration::from_millis(grace_ms)).await;
    };
    shared.log.trace(format_args!("process {number} begins"));
    tokio::select! {
        biased;
        () = told => {
            let is_told = shared.log.process(number, |process| !process.told_ms.is_empty());
            over.how = if is_told { How::Told } else { How::Orphaned };
        }
        () = works(shared.clone(), Arc::clone(&running), rng) => over.how = How::Itself,
    }
}

/// Starts the workers of one life of relay.
pub struct Processes {
    shared: Shared,
    boot: usize,
    running: Mutex<BTreeMap<WorkerId, Arc<Running>>>,
}

impl Processes {
    /// Makes what starts those of a life that begins.
    pub fn new(shared: Shared, boot: usize) -> Self {
        let running = Mutex::default();
        Self {
            shared,
            boot,
            running,
        }
    }
}

impl Starter for Processes {
    fn start(&self, start: Start, reports: Reports) {
        let worker = start.worker;
        let mut history = self.shared.log.history();
        let number = history.processes.len();
        let mut rng = self.shared.rng((number as u64 + 1) << 32);
        let process = Process {
            name: start.agent.to_string(),
            parent: start.parent.to_string(),
            worker,
            boot: self.boot,
            on: rng.usize(1..self.shared.plan.boxes),
            asked_ms: now_ms(),
            started_ms: None,
            said_ms: None,
            heard_ms: None,
            told_ms: Vec::new(),
            ended: None,
            reported_ms: None,
        };
        let line = format!("process {number}: {process:?}");
        let is_again = |before: &Process| before.boot == self.boot && before.name == process.name;
        let again = history.processes.iter().any(is_again);
        history.processes.push(process);
        drop(history);
        self.shared.log.trace(line);
        self.shared.marks.hit_if(again, "started again under its name");
        let running = Arc::new(Running {
            number,
            start,
            told: Notify::new(),
            ended: Notify::new(),
            is_begun: AtomicBool::new(false),
        });
        let mut all = self.running.lock().expect("a run has one thread");
        all.insert(worker, Arc::clone(&running));
        let supervised = Supervised {
            shared: self.shared.clone(),
            running,
        };
        tokio::spawn(follows(supervised, reports, rng));
    }

    fn end(&self, worker: WorkerId) {
        let running = self.running.lock().expect("a run has one thread");
        let Some(running) = running.get(&worker) else {
            return;
        };
        self.shared
            .log
            .trace(format_args!("process {} is told to end", running.number));
        self.shared
            .log
            .process(running.number, |process| process.told_ms.push(now_ms()));
        running.told.notify_one();
    }
}

/// Relay's side of a process, which goes with relay: a process that runs is told by that, and any other one is not begun any more.
struct Supervised {
    shared: Shared,
    running: Arc<Running>,
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if self.running.is_begun.load(Ordering::Relaxed) {
            self.running.told.notify_one();
        } else {
            Over::new(&self.shared, &self.running).how = How::Never;
        }
    }
}

/// Follows a process to its end, and reports what becomes of it.
async fn follows(supervised: Supervised, reports: Reports, mut rng: Rng) {
    let Supervised { shared, running } = &supervised;
    let number = running.number;
    let takes_ms = match rng.u8(..8) {
        0 => rng.u64(20_000..40_000),
        1 => 0,
        _ => rng.u64(..1_500),
    };
    let takes = sleep(Duration::from_millis(takes_ms));
    let last = if rng.u8(..14) == 0 {
        // Nothing runs that could be told to end.
        tokio::select! {
            biased;
            () = running.told.notified() => {}
            () = takes => {}
        }
        Over::new(shared, running).how = How::Never;
        let reason = format!("no program {number}");
        Happened::FailedToStart { reason }
    } else {
        let on = shared.log.process(number, |process| process.on);
        if !shared.machines[on].begin(running) {
            drop(Over::new(shared, running));
        }
        let has_started = tokio::select! {
            biased;
            () = running.ended.notified() => false,
            () = takes => true,
        };
        if has_started {
            let has_said = shared.log.process(number, |process| {
                process.started_ms = Some(now_ms());
                process.said_ms.is_some()
            });
            shared.marks.hit_if(has_said, "spoke before it was said to run");
            shared
                .log
                .trace(format_args!("process {number} is reported to run"));
            reports.happened(Happened::Started);
            running.ended.notified().await;
        }
        let how = shared.log.process(number, |process| process.ended);
        let status = match how {
            Some((_, How::Itself)) => ExitStatus::Code(0),
            Some((_, How::Told | How::Orphaned)) => ExitStatus::Signal(15),
            Some((_, How::Machine | How::Never)) | None => ExitStatus::Unseen,
        };
        let last_lines = format!("bye {number}");
        Happened::Exited { status, last_lines }
    };
    let late_ms = if rng.bool() { 0 } else { rng.u64(..REPORT_MS) };
    sleep(Duration::from_millis(late_ms)).await;
    shared
        .log
        .process(number, |process| process.reported_ms = Some(now_ms()));
    shared.log.trace(format_args!("process {number}: {last:?}"));
    reports.happened(last.clone());
    if rng.u8(..4) == 0 {
        sleep(Duration::from_millis(rng.u64(..15_000))).await;
        let history = shared.log.history();
        let own = &history.processes[number];
        let is_later =
            |other: &Process| other.boot == own.boot && other.name == own.name && other.worker > own.worker;
        let later = history.processes.iter().any(is_later);
        drop(history);
        shared.marks.hit_if(later, "reported behind a later start");
        reports.happened(last);
    }
}
