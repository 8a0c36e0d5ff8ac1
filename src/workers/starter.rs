//! relay's side of a supervisor: it starts one for each worker, and turns what that says into events.

use std::process::{Command, Stdio};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::limits::AT_ONCE;
use super::order::{Report, Told};
use super::{Order, Status, launch};

/// What becomes of a worker. The last one is [`Self::FailedToStart`] or [`Self::Exited`], and always comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Its program runs, and has not [ended at once](AT_ONCE).
    Started {
        /// Its process.
        pid: i32,
    },
    /// It was not started, and nothing of it is left.
    FailedToStart {
        /// Why, and what to do.
        reason: String,
    },
    /// It has ended, and all that it has started with it: at once, where nothing said before that it runs. Its name can be used again.
    Exited {
        /// How.
        status: Status,
        /// The last lines that its terminal showed, without what steers a terminal; at most 20.
        last_lines: Vec<String>,
    },
}

/// A worker that was asked for. When it is dropped, the worker ends.
#[derive(Debug)]
pub struct Handle {
    end: DropGuard,
}

impl Handle {
    /// Has the worker end: by SIGTERM, and by SIGKILL after [`super::GRACE`]. The event tells when it has; once more is once.
    pub fn end(&self) {
        self.end.token().cancel();
    }
}

/// Starts a worker. Call it within a runtime of tokio.
pub fn start(order: Order) -> (Handle, UnboundedReceiver<Event>) {
    start_by(launch::ourselves(), order)
}

/// Starts a worker by a program that is relay.
pub fn start_by(relay: std::io::Result<Command>, order: Order) -> (Handle, UnboundedReceiver<Event>) {
    let (events, receiver) = unbounded_channel();
    let end = CancellationToken::new();
    let handle = Handle {
        end: end.clone().drop_guard(),
    };
    tokio::spawn(async move {
        let last = follow(relay, order, end, &events).await;
        // Who does not listen knows that it has ended by that of the relay.
        let _nobody_listens = events.send(last);
    });
    (handle, receiver)
}

/// Follows a worker to its end, which is returned.
async fn follow(
    relay: std::io::Result<Command>,
    order: Order,
    end: CancellationToken,
    events: &UnboundedSender<Event>,
) -> Event {
    let failed = |error: std::io::Error| Event::FailedToStart {
        reason: format!("the system starts no process: {error}"),
    };
    let (mut child, mut stdin, stdout) = match relay.and_then(supervisor) {
        Ok(started) => started,
        Err(error) => return failed(error),
    };
    let order = line(&Told::Start(Box::new(order)));
    if let Err(error) = stdin.write_all(&order).await {
        return failed(error);
    }
    let mut stdin = Some(stdin);
    let mut lines = BufReader::new(stdout).lines();
    let mut has_started = false;
    // It runs, and it is not known yet for how long.
    let mut begins: Option<(i32, Instant)> = None;
    let mut last = None;
    let mut started = |pid| {
        has_started = true;
        let _nobody_listens = events.send(Event::Started { pid });
    };
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            () = end.cancelled(), if stdin.is_some() => {
                // Its end says the same, also to one that has not read so far.
                if let Some(mut stdin) = stdin.take() {
                    let _ended = stdin.write_all(&self::line(&Told::End)).await;
                }
                // That it ends now is not its own doing.
                if let Some((pid, _)) = begins.take() {
                    started(pid);
                }
                continue;
            }
            pid = lasts(begins) => {
                begins = None;
                started(pid);
                continue;
            }
        };
        let Ok(Some(line)) = line else { break };
        match serde_json::from_str(&line) {
            Ok(Report::Started { pid }) if stdin.is_some() => begins = Some((pid, Instant::now() + AT_ONCE)),
            Ok(Report::Started { pid }) => started(pid),
            Ok(Report::Failed { reason }) => last = Some(Event::FailedToStart { reason }),
            Ok(Report::Exited { status, last_lines }) => {
                begins = None;
                last = Some(Event::Exited { status, last_lines });
            }
            Ok(Report::Trouble { reason }) => tracing::warn!("a worker: {reason}"),
            Err(error) => tracing::warn!(%error, "a supervisor says what relay does not understand"),
        }
    }
    drop(stdin);
    let ended = child.wait().await;
    last.unwrap_or_else(|| {
        let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        if has_started {
            // The system has killed the worker with it.
            let status = Status::Signal(rustix::process::Signal::KILL.as_raw());
            let last_lines = vec![format!("[relay] its supervisor has ended before it: {how}")];
            Event::Exited { status, last_lines }
        } else {
            let reason = format!("its supervisor has ended before it was started: {how}");
            Event::FailedToStart { reason }
        }
    })
}

/// Waits until a worker that has begun has run for so long that it has not ended at once; for ever, if none has begun.
async fn lasts(begins: Option<(i32, Instant)>) -> i32 {
    match begins {
        Some((pid, until)) => {
            sleep_until(until).await;
            pid
        }
        None => std::future::pending().await,
    }
}

fn supervisor(mut command: Command) -> std::io::Result<(Child, ChildStdin, ChildStdout)> {
    command
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = tokio::process::Command::from(command).spawn()?;
    let stdin = child.stdin.take().expect("it was piped");
    let stdout = child.stdout.take().expect("it was piped");
    Ok((child, stdin, stdout))
}

fn line(told: &Told) -> Vec<u8> {
    let mut line = serde_json::to_vec(told).expect("it is text, numbers and paths, which are bytes");
    line.push(b'\n');
    line
}
