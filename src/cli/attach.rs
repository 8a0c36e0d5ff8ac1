//! `relay attach`: a worker's terminal in that of a person.
//!
//! What the person's terminal is given is the worker's screen, drawn anew by relay; nothing else of what the worker writes gets there.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use super::person::require_no_agent;
use super::worker_files::Which;
use super::{End, Failure, block_on, say};
use crate::workers::{Frame, read_frame, write_frame};

/// Ctrl-], by which one leaves.
const LEAVE: u8 = 0x1d;

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
    Detached,
    /// With the worker, or since it takes nobody more: the words that say so.
    Ended(String),
    /// The supervisor is gone.
    Lost,
}

/// Shows a worker until its person leaves or it ends.
pub fn run(args: &Attach) -> Result<End, Failure> {
    let failed = |text: String| Failure::error(format!("relay attach: {text}"));
    let name = args.which.name();
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
    let Some(files) = args.which.find("attach")? else {
        say(&args.which.never_was("attach"));
        return Ok(End::Nothing);
    };
    let left = block_on(async {
        let stream = match UnixStream::connect(files.socket()).await {
            Ok(stream) => stream,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let terminal = Terminal::take()?;
        let left = show(stream).await;
        drop(terminal);
        left.map(Some)
    });
    match left.map_err(|error| failed(error.to_string()))? {
        None => {
            say(&format!(
                "relay attach: {name} has ended; relay logs {name} shows what it has written"
            ));
            return Ok(End::Nothing);
        }
        Some(Left::Detached) => say(&format!("left {name}, which goes on")),
        Some(Left::Ended(how)) => say(&format!("{name}: {how}")),
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
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
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

async fn show(stream: UnixStream) -> io::Result<Left> {
    let (mut from, mut to) = stream.into_split();
    let mut resized = signal(SignalKind::window_change())?;
    let mut ends = [
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::interrupt(),
    ]
    .map(signal)
    .into_iter()
    .collect::<io::Result<Vec<_>>>()?;
    let drawing = async {
        loop {
            match read_frame(&mut from).await {
                Ok(Some(Frame::Shown(bytes))) => draw(&bytes)?,
                Ok(Some(Frame::Ended(how))) => return Ok(Left::Ended(how)),
                Ok(Some(Frame::Keys(_) | Frame::Size(..))) => {}
                Ok(None) | Err(_) => return Ok(Left::Lost),
            }
        }
    };
    let typing = async {
        let mut stdin = tokio::io::stdin();
        let mut keys = [0; 4_096];
        write_frame(&mut to, &size()?).await?;
        loop {
            tokio::select! {
                read = stdin.read(&mut keys) => {
                    let keys = &keys[..read?];
                    let leaves = keys.iter().position(|key| *key == LEAVE);
                    let typed = &keys[..leaves.unwrap_or(keys.len())];
                    if !typed.is_empty() {
                        write_frame(&mut to, &Frame::Keys(typed.to_vec())).await?;
                    }
                    if leaves.is_some() || keys.is_empty() {
                        return Ok(Left::Detached);
                    }
                }
                _ = resized.recv() => write_frame(&mut to, &size()?).await?,
            }
        }
    };
    let [terminate, hangup, interrupt] = &mut ends[..] else {
        unreachable!("there are three of them")
    };
    tokio::select! {
        left = drawing => left,
        // What cannot be written is told by what cannot be read.
        left = typing => left.or_else(|error: io::Error| {
            let is_lost = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
            if is_lost { Ok(Left::Lost) } else { Err(error) }
        }),
        _ = terminate.recv() => Ok(Left::Detached),
        _ = hangup.recv() => Ok(Left::Detached),
        _ = interrupt.recv() => Ok(Left::Detached),
    }
}

/// How many rows and columns the person's terminal has.
fn size() -> io::Result<Frame> {
    let size = tcgetwinsize(io::stdout())?;
    Ok(Frame::Size(size.ws_row, size.ws_col))
}
