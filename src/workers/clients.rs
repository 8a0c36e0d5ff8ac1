//! Who is attached to a worker: each is shown the screen as it is, and then what changes of it, as fast as it takes that; what it types
//! goes to the worker.
//!
//! Only what the screen shows gets to a person's terminal, made anew by [`vt100`]: what else a worker writes (titles, the clipboard,
//! questions to the terminal) stays here.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::frames::{Frame, read_frame, write_frame};
use super::limits::{ATTACHED_MAX, SHOW_AFTER};
use super::screen::Screen;

/// What those who are attached share with the supervisor.
pub struct Shared {
    /// What the worker's terminal shows.
    pub screen: RefCell<Screen>,
    /// How the worker has ended, if it has.
    pub ended: RefCell<Option<String>>,
    changed: watch::Sender<()>,
    inputs: mpsc::Sender<Frame>,
    attached: Cell<usize>,
}

impl Shared {
    /// A screen that nobody sees yet, and what is typed by who will.
    pub fn new(screen: Screen) -> (Rc<Self>, mpsc::Receiver<Frame>) {
        let (inputs, typed) = mpsc::channel(1);
        let shared = Self {
            screen: RefCell::new(screen),
            ended: RefCell::new(None),
            changed: watch::Sender::new(()),
            inputs,
            attached: Cell::new(0),
        };
        (Rc::new(shared), typed)
    }

    /// Has those who are attached look again.
    pub fn change(&self) {
        self.changed.send_replace(());
    }

    /// Tells how many are attached.
    pub fn attached(&self) -> usize {
        self.attached.get()
    }
}

/// Serves one who attaches until it leaves or the worker has ended.
pub async fn serve(shared: Rc<Shared>, stream: UnixStream) {
    let (mut from, mut to) = stream.into_split();
    if shared.attached() >= ATTACHED_MAX {
        let full = format!("{ATTACHED_MAX} are attached to it already; detach one of them");
        let _gone = write_frame(&mut to, &Frame::Ended(full)).await;
        return;
    }
    shared.attached.set(shared.attached() + 1);
    tokio::select! {
        _ = hear(&shared, &mut from) => {}
        _ = show(&shared, &mut to) => {}
    }
    shared.attached.set(shared.attached() - 1);
}

async fn hear(shared: &Shared, from: &mut OwnedReadHalf) -> std::io::Result<()> {
    while let Some(frame) = read_frame(from).await? {
        if shared.inputs.send(frame).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn show(shared: &Shared, to: &mut OwnedWriteHalf) -> std::io::Result<()> {
    let mut changes = shared.changed.subscribe();
    let mut before: Option<vt100::Screen> = None;
    loop {
        let now = shared.screen.borrow().shown().clone();
        let ended = shared.ended.borrow().clone();
        let difference = match &before {
            Some(before) if before.size() == now.size() => now.state_diff(before),
            Some(_) | None => format!("\u{1b}[2J{}", now.state_formatted()),
        };
        before = Some(now);
        if !difference.is_empty() {
            write_frame(to, &Frame::Shown(difference.into_bytes())).await?;
        }
        if let Some(how) = ended {
            return write_frame(to, &Frame::Ended(how)).await;
        }
        if changes.changed().await.is_err() {
            return Ok(());
        }
        sleep(SHOW_AFTER).await;
        changes.mark_unchanged();
    }
}
