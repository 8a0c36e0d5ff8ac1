//! As many processes as there are cores, for all tests of this program.
//!
//! They read what to run from a pipe that this process holds, and end with it, however this one ends.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use sim::job::{Answer, Job};

/// A process that runs one job after the other.
pub struct Runner {
    child: Child,
    jobs: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What is free now.
struct Free {
    /// None until it is known how many there are.
    cores: Option<usize>,
    runners: VecDeque<Runner>,
}

static FREE: Mutex<Free> = Mutex::new(Free {
    cores: None,
    runners: VecDeque::new(),
});

static CHANGED: Condvar = Condvar::new();

/// How many there are.
pub fn cores_of_the_machine() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// What a test that failed has held is free again.
fn free() -> MutexGuard<'static, Free> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Some of the machine's cores, until it is dropped.
pub struct Cores(usize);

/// Waits until so many cores are free, or all of them where there are fewer, and takes them.
pub fn cores(wanted: usize) -> Cores {
    let all = cores_of_the_machine();
    let wanted = wanted.min(all);
    let mut free = free();
    loop {
        let left = *free.cores.get_or_insert(all);
        if left >= wanted {
            free.cores = Some(left - wanted);
            return Cores(wanted);
        }
        free = CHANGED.wait(free).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        let mut free = free();
        free.cores = free.cores.map(|cores| cores + self.0);
        CHANGED.notify_all();
    }
}

impl Runner {
    /// Starts one.
    pub fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
        let command = command.arg("job").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("sim runs");
        let jobs = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, jobs, answers }
    }

    /// Asks for a job.
    pub fn ask(&mut self, job: &Job) {
        writeln!(self.jobs, "{}", job.to_line()).expect("it reads");
    }

    /// Waits for the next answer; none if it has ended.
    pub fn answer(&mut self) -> Option<Answer> {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it can be read");
        Answer::from_line(&line)
    }

    /// Closes its stdin, and returns what it had still to say when it had ended.
    pub fn end(self) -> usize {
        let Self {
            mut child,
            jobs,
            answers,
        } = self;
        drop(jobs);
        let answers = answers.lines().count();
        child.wait().expect("it has ended");
        answers
    }
}

fn run(job: &Job) -> Answer {
    let _core = cores(1);
    let idle = free().runners.pop_front();
    let mut runner = idle.unwrap_or_else(Runner::start);
    runner.ask(job);
    let answer = runner.answer().unwrap_or_else(|| {
        panic!(
            "the process that ran {job:?} has ended: {:?}",
            runner.child.wait()
        )
    });
    free().runners.push_back(runner);
    answer
}

/// Runs jobs, as many at once as there are cores, and returns what came of each, in their order.
pub fn run_all(jobs: &[Job]) -> Vec<Answer> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut answers = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else {
                return answers;
            };
            answers.push((at, run(job)));
        }
    };
    let mut answers = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores_of_the_machine()).map(|_| scope.spawn(work)).collect();
        let answers = workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("no panic"));
        answers.collect::<Vec<_>>()
    });
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// The test that has started it may be killed at any time; then its stdin is at its end.
#[test]
fn a_process_ends_with_its_stdin_whatever_it_has_still_to_run() {
    const JOBS: usize = 1_000;
    let mut runner = Runner::start();
    for seed in 0..JOBS as u64 {
        runner.ask(&Job {
            suite: "nodes".to_owned(),
            seed,
            bug: None,
        });
    }
    assert!(runner.answer().is_some());
    let late = runner.end();
    assert!(late < JOBS / 2, "it went on for {late} jobs");
}
