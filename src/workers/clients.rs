//! Who is attached to a worker: each is shown the screen as it is, and then what changes of it, as fast as it takes that; what it types
//! goes to the worker.
//!
//! Only what the screen shows gets to a person's terminal, made anew by [`vt100`]: what else a worker writes (titles, the clipboard,
//! questions to the terminal) stays here.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::drawing::{Drawn, draw};
use super::frames::{Frame, read_frame, write_frame};
use super::limits::{ATTACHED_MAX, SHOW_AFTER};
use super::screen::Screen;

/// How many rows and columns something has.
pub type Size = (u16, u16);

/// What those who are attached share with the supervisor.
pub struct Shared {
    /// What the worker's terminal shows.
    pub screen: RefCell<Screen>,
    /// How the worker has ended, if it has.
    pub ended: RefCell<Option<String>>,
    changed: watch::Sender<()>,
    typed: mpsc::Sender<Vec<u8>>,
    wanted: watch::Sender<Option<Size>>,
    /// The windows of those who are attached, by their numbers; none of one that has not said its size, or has none.
    windows: RefCell<BTreeMap<u64, Option<Size>>>,
    /// How many were ever attached.
    numbers: Cell<u64>,
}

/// What those want who are attached.
pub struct Wanted {
    /// What they type.
    pub typed: mpsc::Receiver<Vec<u8>>,
    /// Which size the terminal is to have; none before anybody was attached.
    pub size: watch::Receiver<Option<Size>>,
}

impl Shared {
    /// A screen that nobody sees yet, and what those want who will.
    pub fn new(screen: Screen) -> (Rc<Self>, Wanted) {
        let (inputs, typed) = mpsc::channel(1);
        let (wanted, size) = watch::channel(None);
        let shared = Self {
            screen: RefCell::new(screen),
            ended: RefCell::new(None),
            changed: watch::Sender::new(()),
            typed: inputs,
            wanted,
            windows: RefCell::default(),
            numbers: Cell::new(0),
        };
        (Rc::new(shared), Wanted { typed, size })
    }

    /// Has those who are attached look again.
    pub fn change(&self) {
        self.changed.send_replace(());
    }

    /// Tells how many are attached.
    pub fn attached(&self) -> usize {
        self.windows.borrow().len()
    }

    /// Takes note of the size of a window. The smallest height and the smallest width of all of them are the terminal's, so that each
    /// shows all of it. When the last one goes it stays as it is.
    fn has_window(&self, number: u64, size: Size) {
        // Some say so that they do not know.
        let size = (size.0 > 0 && size.1 > 0).then_some(size);
        self.windows.borrow_mut().insert(number, size);
        self.fit();
    }

    fn fit(&self) {
        let windows = self.windows.borrow();
        let sizes = || windows.values().flatten();
        let rows = sizes().map(|(rows, _)| *rows).min();
        let cols = sizes().map(|(_, cols)| *cols).min();
        if let Some(size) = rows.zip(cols) {
            self.wanted.send_replace(Some(size));
        }
        // A window of another size is drawn anew, also where the terminal keeps its own.
        self.change();
    }
}

/// Serves one who attaches until it leaves or the worker has ended.
pub async fn serve(shared: Rc<Shared>, stream: UnixStream) {
    let (mut from, mut to) = stream.into_split();
    if shared.attached() >= ATTACHED_MAX {
        let full =
            format!("{ATTACHED_MAX} are attached to it already, as many as may be; detach one of them");
        let _gone = write_frame(&mut to, &Frame::Refused(full)).await;
        return;
    }
    let number = shared.numbers.get();
    shared.numbers.set(number + 1);
    shared.windows.borrow_mut().insert(number, None);
    tokio::select! {
        _ = hear(&shared, number, &mut from) => {}
        _ = show(&shared, number, &mut to) => {}
    }
    shared.windows.borrow_mut().remove(&number);
    shared.fit();
}

async fn hear(shared: &Shared, number: u64, from: &mut OwnedReadHalf) -> std::io::Result<()> {
    while let Some(frame) = read_frame(from).await? {
        match frame {
            Frame::Size(rows, cols) => shared.has_window(number, (rows, cols)),
            Frame::Keys(keys) => {
                if shared.typed.send(keys).await.is_err() {
                    break;
                }
            }
            Frame::Shown(_) | Frame::Ended(_) | Frame::Refused(_) => {}
        }
    }
    Ok(())
}

async fn show(shared: &Shared, number: u64, to: &mut OwnedWriteHalf) -> std::io::Result<()> {
    let mut changes = shared.changed.subscribe();
    let mut before: Option<Drawn> = None;
    loop {
        let screen = shared.screen.borrow().shown().clone();
        let ended = shared.ended.borrow().clone();
        let window = shared.windows.borrow().get(&number).copied().flatten();
        let now = Drawn { screen, window };
        let difference = draw(&now, before.as_ref());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_does_not_know_its_size_does_not_decide() {
        let (shared, wanted) = Shared::new(Screen::new((24, 80)));
        shared.has_window(0, (30, 100));
        for unknown in [(0, 0), (0, 80), (24, 0)] {
            shared.has_window(1, unknown);
            assert_eq!(*wanted.size.borrow(), Some((30, 100)), "{unknown:?}");
        }
        shared.has_window(1, (20, 120));
        assert_eq!(*wanted.size.borrow(), Some((20, 100)));
    }
}
