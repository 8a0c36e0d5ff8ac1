//! What stops this process from its terminal, such as Ctrl-Z: it stops itself, once it has left nothing open that goes on without it.

use std::io;

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

use crate::process::ignores;

/// Listens to what stops it, but for what it was started to ignore.
pub struct Stops {
    /// Ctrl-Z.
    asked: Option<Signals>,
    /// It writes to a terminal that another has now, with `stty tostop`.
    written: Option<Signals>,
}

impl Stops {
    /// Begins to listen: from now on it stops by [`stop`] alone.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            asked: listen(Signal::TSTP)?,
            written: listen(Signal::TTOU)?,
        })
    }

    /// Waits until it is to stop.
    pub async fn next(&mut self) {
        tokio::select! {
            () = heard(&mut self.asked) => {}
            () = heard(&mut self.written) => {}
        }
    }
}

/// Stops this process, until it is to go on.
pub fn stop() {
    // What cannot be stopped goes on.
    let _stopped = kill_process(getpid(), Signal::STOP);
}

fn listen(to: Signal) -> io::Result<Option<Signals>> {
    let is_heard = ignores(to) != Some(true);
    let kind = SignalKind::from_raw(to.as_raw());
    is_heard.then(|| signal(kind)).transpose()
}

async fn heard(signals: &mut Option<Signals>) {
    match signals {
        Some(signals) => drop(signals.recv().await),
        None => std::future::pending().await,
    }
}
