//! `relay attach`: a worker's terminal in that of a person.
//!
//! What the person's terminal is given is the worker's screen, drawn anew by relay; nothing else of what the worker writes gets there.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};

use super::person::require_no_agent;
use super::worker_files::Which;
use super::{End, Failure, block_on, say};
use crate::workers::{Frame, read_frame};

/// Ctrl-], by which one leaves.
const LEAVE: u8 = 0x1d;

/// How long it can be read how one leaves, before the worker's screen takes its place.
const NOTICE: Duration = Duration::from_millis(600);

/// Most bytes that wait to be taken by a worker that reads nothing; what is typed on top of them is lost. More than anybody pastes.
const TYPED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long what was typed before one leaves has to be taken.
const LEAVE_PATIENCE: Duration = Duration::from_millis(300);

/// A screen of its own, which gives the one before it back.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[2J\u{1b}[H";

/// That, and all that a worker's screen may have turned on: keys, paste, mouse, a cursor that is hidden, colours.
const RESTORE: &str = "\u{1b}[0m\u{1b}[?1l\u{1b}>\u{1b}[?2004l\u{1b}[?9l\u{1b}[?1000l\u{1b}[?1002l\u{1b}[?1003l\u{1b}[?1005l\u{1b}[?1006l\
                       \u{1b}[0 q\u{1b}[?25h\u{1b}[?1049l";

/// `relay attach`.
#[derive(Debug, clap::Args)]
pub struct Attach {
    #[command(flatten)]
    which: Which,
}

/// How it ended.
enum Left {
    /// By the key, or by a signal.
    Detached {
        /// The worker was given all that was typed.
        all_taken: bool,
    },
    /// With the worker: the words that say so.
    Ended(String),
    /// It takes nobody more: why.
    Refused(String),
    /// The supervisor is gone.
    Lost,
}

/// Shows a worker until its person leaves or it ends.
pub fn run(args: &Attach) -> Result<End, Failure> {
    let failed = |text: String| Failure::usage(format!("relay attach: {text}"));
    let name = args.which.said();
    if let Err(why) = require_no_agent() {
        return Err(failed(format!(
            "{why}, and a worker's terminal is the person's; relay logs {name} shows what it has written"
        )));
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(failed(format!(
            "it needs a terminal, for stdin and stdout; relay logs {name} shows what the worker has written"
        )));
    }
    let failed = |text: String| Failure::error(format!("relay attach: {text}"));
    let Some((project, files)) = args.which.find("attach")? else {
        say(&args.which.never_was("attach"));
        return Ok(End::Nothing);
    };
    let name = if name.contains(':') {
        format!("{project}:{}", files.name())
    } else {
        name
    };
    let left = block_on(async {
        let stream = match UnixStream::connect(files.socket()).await {
            Ok(stream) => stream,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Before anything is changed that they are to give back.
        let mut signals = Signals::new()?;
        say(&format!("{name}: Ctrl-] leaves it, and it goes on"));
        let notice = if io::stderr().is_terminal() {
            NOTICE
        } else {
            Duration::ZERO
        };
        tokio::select! {
            () = sleep(notice) => {}
            () = ended(&mut signals.ends) => return Ok(Some(Left::Detached { all_taken: true })),
        }
        let terminal = Terminal::take()?;
        let left = show(stream, &mut signals).await;
        drop(terminal);
        left.map(Some)
    })?;
    match left.map_err(|error| failed(error.to_string()))? {
        None => {
            say(&format!(
                "relay attach: {name} has ended; relay logs {name} shows what it has written"
            ));
            return Ok(End::Nothing);
        }
        Some(Left::Detached { all_taken: true }) => say(&format!("left {name}, which goes on")),
        Some(Left::Detached { all_taken: false }) => {
            say(&format!(
                "left {name}, which goes on; it has not taken all that was typed"
            ));
        }
        Some(Left::Ended(how)) => say(&format!("{name}: {how}")),
        Some(Left::Refused(why)) => return Err(failed(format!("{name}: {why}"))),
        Some(Left::Lost) => return Err(failed(format!("the supervisor of {name} has ended"))),
    }
    Ok(End::Done)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

/// The person's terminal, which gives each key as it is pressed. It is as it was once this is dropped.
struct Terminal {
    before: Termios,
}

impl Terminal {
    fn take() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        let terminal = Self { before };
        // What was typed meanwhile is the worker's, or leaves it at once.
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        draw(ENTER.as_bytes())?;
        Ok(terminal)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone has nothing to restore.
        let _gone = draw(RESTORE.as_bytes());
        let _gone = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

fn draw(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// The signals that are heard while the terminal is another one.
struct Signals {
    resized: Signal,
    ends: [Signal; 3],
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            resized: signal(SignalKind::window_change())?,
            ends: [
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
                signal(SignalKind::interrupt())?,
            ],
        })
    }
}

/// Waits for a signal that ends this program.
async fn ended(ends: &mut [Signal; 3]) {
    let [terminate, hangup, interrupt] = ends;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
        _ = interrupt.recv() => {}
    }
}

async fn show(stream: UnixStream, signals: &mut Signals) -> io::Result<Left> {
    let (from, to) = stream.into_split();
    let Signals { resized, ends } = signals;
    let typing = async {
        match typing(to, resized).await {
            // Why nobody takes it is what is read last.
            Err(error) if is_lost(&error) => std::future::pending().await,
            left => left,
        }
    };
    tokio::select! {
        left = drawing(from) => left,
        left = typing => left,
        () = ended(ends) => Ok(Left::Detached { all_taken: true }),
    }
}

fn is_lost(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

async fn drawing(mut from: OwnedReadHalf) -> io::Result<Left> {
    loop {
        match read_frame(&mut from).await {
            Ok(Some(Frame::Shown(bytes))) => draw(&bytes)?,
            Ok(Some(Frame::Ended(how))) => return Ok(Left::Ended(how)),
            Ok(Some(Frame::Refused(why))) => return Ok(Left::Refused(why)),
            Ok(Some(Frame::Keys(_) | Frame::Size(..))) => {}
            Ok(None) | Err(_) => return Ok(Left::Lost),
        }
    }
}

/// Passes on what is typed. It is read whether or not the worker takes it, so that the key that leaves is always heard.
async fn typing(mut to: OwnedWriteHalf, resized: &mut Signal) -> io::Result<Left> {
    let mut stdin = tokio::io::stdin();
    let mut keys = [0; 4_096];
    let mut waiting = size()?.bytes()?;
    let mut all_taken = true;
    loop {
        tokio::select! {
            read = stdin.read(&mut keys) => {
                let keys = &keys[..read?];
                let leaves = keys.iter().position(|key| *key == LEAVE);
                let typed = &keys[..leaves.unwrap_or(keys.len())];
                if !typed.is_empty() && waiting.len() < TYPED_BYTES_MAX {
                    waiting.extend(Frame::Keys(typed.to_vec()).bytes()?);
                } else if !typed.is_empty() {
                    all_taken = false;
                }
                if leaves.is_some() || keys.is_empty() {
                    let written = timeout(LEAVE_PATIENCE, to.write_all(&waiting)).await;
                    all_taken &= matches!(written, Ok(Ok(())));
                    return Ok(Left::Detached { all_taken });
                }
            }
            _ = resized.recv() => waiting.extend(size()?.bytes()?),
            written = to.write(&waiting), if !waiting.is_empty() => drop(waiting.drain(..written?)),
        }
    }
}

/// How many rows and columns the person's terminal has.
fn size() -> io::Result<Frame> {
    let size = tcgetwinsize(io::stdout())?;
    Ok(Frame::Size(size.ws_row, size.ws_col))
}
