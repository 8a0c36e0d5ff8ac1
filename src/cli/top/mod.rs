//! `relay top`: agents, messages and what becomes of them, in a terminal of its own.
//!
//! [`state`] is what is shown and how keys and news change it, [`view`] draws it, [`follow`] speaks with the relay, and here is the terminal,
//! which is left as it was however this ends.

#![expect(
    clippy::disallowed_methods,
    reason = "what the terminal can show is said by its environment"
)]

mod actions;
mod agents;
mod follow;
mod line;
mod news;
#[cfg(test)]
mod scene;
mod state;
mod stream;
mod text;
mod view;

use std::io::{self, IsTerminal as _, Stdout};
use std::time::Duration;

use chrono::{DateTime, Local};
use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, Event, EventStream, KeyCode, KeyEvent, KeyEventKind,
    KeyModifiers,
};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use futures_util::StreamExt as _;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::process::{Signal, kill_current_process_group};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until, timeout};

use self::follow::Follow;
use self::news::News;
use self::state::{State, Wish};
use self::view::{Colours, Look};
use super::client::{At, ClientError};
use super::person::{NotThePerson, require_no_agent};
use super::{End, Failure, block_on};
use crate::engine::Timestamp;

/// How much may have come that is not shown yet. The stream waits while it is so much, and relay keeps what it does not take.
const NEWS_MAX: usize = 1_024;

/// How many wishes may wait while one is carried out.
const WISHES_MAX: usize = 64;

/// How long it may take until the system has stopped this process. It does not at all where nobody would let it go on.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// `relay top`.
#[derive(Debug, clap::Args)]
pub struct Top {
    #[command(flatten)]
    at: At,
}

/// Why nothing is shown, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// There is no terminal to show it in, or none to take keys from.
    #[error(
        "{which} is no terminal; without one, relay tail shows what happens and relay status how it stands"
    )]
    NoTerminal {
        /// Which of them.
        which: &'static str,
    },
    /// An agent may run it, and its keys would speak as the person.
    #[error("{0}, and what is sent here is the person's; relay status looks without it")]
    NotThePerson(NotThePerson),
    /// The terminal did not take it, or is gone.
    #[error("the terminal: {0}")]
    Terminal(#[from] io::Error),
    /// No relay is there that could be followed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It was told to end.
    #[error("ended by {name}")]
    Ended {
        /// The name of the signal.
        name: &'static str,
        /// Its number.
        number: u8,
    },
}

impl From<TopError> for Failure {
    fn from(error: TopError) -> Self {
        let text = format!("relay top: {error}");
        match error {
            TopError::NoTerminal { .. } | TopError::NotThePerson(_) => Self::usage(text),
            TopError::Terminal(_) | TopError::Client(_) => Self::error(text),
            // As a shell tells that a program was ended by a signal.
            TopError::Ended { number, .. } => Self {
                text,
                exit_code: 128 + number,
            },
        }
    }
}

/// Shows what happens until the person has seen enough.
pub fn run(args: &Top) -> Result<End, Failure> {
    require_no_agent().map_err(TopError::NotThePerson)?;
    for (which, is_one) in [
        ("stdin", io::stdin().is_terminal()),
        ("stdout", io::stdout().is_terminal()),
    ] {
        if !is_one {
            return Err(TopError::NoTerminal { which }.into());
        }
    }
    Ok(block_on(top(args))??)
}

async fn top(args: &Top) -> Result<End, TopError> {
    let (news, heard) = channel(NEWS_MAX);
    let (wish, wishes) = channel(WISHES_MAX);
    // Before the terminal is taken: what is wrong is said where it stays.
    let (follow, found) = Follow::begin(args.at.clone(), news.clone()).await?;
    let variable = |name| std::env::var(name).ok();
    let look = Look {
        colours: Colours::of(variable("NO_COLOR").as_deref(), variable("TERM").as_deref()),
        time: local_time,
    };
    let mut screen = Screen::enter()?;
    let following = tokio::spawn(follow.run(found));
    let acting = tokio::spawn(follow::carry_out(args.at.clone(), wishes, news));
    let ended = show(&mut screen, &look, heard, &wish).await;
    following.abort();
    acting.abort();
    ended
}

/// Shows the state as it changes, until it is over.
async fn show(
    screen: &mut Screen,
    look: &Look,
    mut heard: Receiver<News>,
    wish: &Sender<Wish>,
) -> Result<End, TopError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut go_on = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let mut keys = EventStream::new();
    let mut state = State::default();
    let begun = Instant::now();
    let ended = |name, number| Err(TopError::Ended { name, number });
    loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => return ended("SIGTERM", 15),
            _ = hang_up.recv() => return ended("SIGHUP", 1),
            _ = interrupt.recv() => return ended("SIGINT", 2),
            _ = go_on.recv() => screen.again()?,
            event = keys.next() => match event {
                None => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(Event::Key(key))) if is_stop(key) => screen.stop(&mut go_on).await?,
                Some(Ok(event)) => {
                    state.pass(begun.elapsed());
                    take_event(&mut state, event);
                }
            },
            news = heard.recv() => {
                state.pass(begun.elapsed());
                let mut next = news;
                while let Some(news) = next {
                    state.take(news);
                    next = heard.try_recv().ok();
                }
            }
            () = at(state.next_change().map(|change| begun + change)) => state.pass(begun.elapsed()),
        }
        if state.is_over {
            return Ok(End::Done);
        }
        for wanted in state.wishes() {
            // What is asked for while so much is under way is looked at again later; what is to be done is not left out.
            match wanted {
                Wish::Trace(_) => drop(wish.try_send(wanted)),
                Wish::Act(_) => drop(wish.send(wanted).await),
            }
        }
        screen.draw(&mut state, look)?;
    }
}

/// Waits until then, if it is ever.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn take_event(state: &mut State, event: Event) {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => {}
        Event::Key(key) => state.press(key),
        Event::Paste(text) => state.paste(&text),
        Event::Resize(..) | Event::FocusGained | Event::FocusLost | Event::Mouse(_) => {}
    }
}

/// Tells whether a key is that which stops a program for a while.
fn is_stop(key: KeyEvent) -> bool {
    let is_it = key.code == KeyCode::Char('z') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_it && key.kind != KeyEventKind::Release
}

/// Writes the time of day as this machine's clock shows it.
fn local_time(at: Timestamp) -> String {
    let time = DateTime::from_timestamp_millis(at.as_millis()).unwrap_or_default();
    time.with_timezone(&Local).format("%H:%M:%S").to_string()
}

/// The terminal, while it is this program's.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    fn enter() -> io::Result<Self> {
        // What a panic says is to stay where it is read.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            before(panic);
        }));
        take()?;
        match Terminal::new(CrosstermBackend::new(io::stdout())) {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                leave();
                Err(error)
            }
        }
    }

    fn draw(&mut self, state: &mut State, look: &Look) -> io::Result<()> {
        let mut room = state.room;
        self.terminal
            .draw(|frame| room = view::draw(frame, state, look))?;
        state.room = room;
        Ok(())
    }

    /// Gives the terminal back to the shell until the person wants this program again. As when a shell has the key itself, all of the job
    /// stops: what has started this program too, which the shell waits for.
    async fn stop(&mut self, go_on: &mut Signals) -> io::Result<()> {
        leave();
        kill_current_process_group(Signal::TSTP)?;
        // Which thread takes the signal, and when, the system decides: the terminal is not taken before it is known that all went on.
        let _went_on = timeout(STOP_PATIENCE, go_on.recv()).await;
        self.again()
    }

    /// Takes the terminal as it is now, whoever had it, and has all of it drawn anew.
    fn again(&mut self) -> io::Result<()> {
        leave();
        take()?;
        // To clear the one that is there asks the terminal for its cursor, and the answer comes among the keys.
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    let taken = execute!(
        io::stdout(),
        EnterAlternateScreen,
        Clear(ClearType::All),
        EnableBracketedPaste
    );
    if taken.is_err() {
        leave();
    }
    taken
}

/// Leaves the terminal as it was. Whoever has it no more is told nothing.
fn leave() {
    let _gone = execute!(
        io::stdout(),
        DisableBracketedPaste,
        LeaveAlternateScreen,
        crossterm::cursor::Show
    );
    let _gone = disable_raw_mode();
}
