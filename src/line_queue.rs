//! Lines on their way to a descriptor that may be slow, full or gone: whoever adds one never waits, and none is lost unsaid.
//!
//! A thread writes them, and waits for that. What a descriptor takes at once may be written before, by whoever has added it: then it is
//! there whatever becomes of this process. One writes at a time, and never under the lock that who adds lines takes.

#![expect(
    clippy::disallowed_methods,
    reason = "a write may block, so a thread of its own writes and waits"
)]

mod at_once;

use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use self::at_once::AtOnce;

/// How long lines are gathered before they are written together, so that a burst wakes the writer once.
const GATHER: Duration = Duration::from_millis(5);

/// How soon a descriptor that could not take a line, for want of room on a disk for instance, is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// Room for lines that is kept when they are written, in bytes: a burst of some hundred.
const ROOM_KEPT_BYTES: usize = 16 * 1024;

/// Lines that wait for a descriptor. A clone is the same queue; once all are gone, its thread ends.
#[derive(Clone)]
pub(crate) struct LineQueue(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    /// The name of the descriptor, for a person, and of the thread that writes to it.
    name: &'static str,
    /// Most bytes of lines that wait.
    bytes_max: usize,
    descriptor: Box<dyn AsFd + Send + Sync>,
    at_once: AtOnce,
    waiting: Mutex<Waiting>,
    /// There is something to be written, or nobody will add anything any more.
    added: Condvar,
    /// Something was written, or is left to the thread, or nothing will be.
    written: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Whole lines, but for so many bytes of them that are written.
    text: String,
    begun: usize,
    /// Empty; gives its room to what is added while lines are written.
    spare: String,
    taken_by: TakenBy,
    /// How many lines were left out behind them.
    left_out: u64,
    /// How many times something was added, up to which of them all is written, and up to which it was left to the thread.
    added: u64,
    written: u64,
    left_to_thread: u64,
    writer: Writer,
    /// The thread waits to be told of what is added. Else it looks by itself, and a system call is spared.
    is_awaited: bool,
    /// Somebody waits for what was added to be written, or for its own turn to write.
    is_flushed: bool,
    /// All handles of the queue are gone.
    is_over: bool,
}

/// Who has taken lines that are not written yet. Nobody else takes any meanwhile.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum TakenBy {
    #[default]
    Nobody,
    /// So many bytes, which still count as waiting.
    Caller(usize),
    Thread,
}

/// Lines that were taken to be written.
struct Lines {
    /// Whole lines, but for so many bytes of them that are written.
    text: String,
    begun: usize,
    /// Up to which adding all is written when they are.
    up_to: u64,
}

#[derive(Default, PartialEq, Eq)]
enum Writer {
    /// It is started with the first line, so that a process that says nothing has no thread for it.
    #[default]
    NotStarted,
    Runs,
    /// Nobody will ever read what is written.
    Gone,
}

impl LineQueue {
    /// Makes a queue of at most so many bytes. Its thread starts with the first line.
    pub(crate) fn new(
        name: &'static str,
        descriptor: impl AsFd + Send + Sync + 'static,
        bytes_max: usize,
    ) -> Self {
        Self::with(name, descriptor, bytes_max, AtOnce::Never)
    }

    /// The same for a descriptor that [`Self::write_at_once`] is for.
    pub(crate) fn at_once(
        name: &'static str,
        descriptor: impl AsFd + Send + Sync + 'static,
        bytes_max: usize,
    ) -> Self {
        let at_once = AtOnce::of(&descriptor);
        Self::with(name, descriptor, bytes_max, at_once)
    }

    fn with(
        name: &'static str,
        descriptor: impl AsFd + Send + Sync + 'static,
        bytes_max: usize,
        at_once: AtOnce,
    ) -> Self {
        let shared = Arc::new(Shared {
            name,
            bytes_max,
            at_once,
            descriptor: Box::new(descriptor),
            waiting: Mutex::default(),
            added: Condvar::new(),
            written: Condvar::new(),
        });
        Self(Arc::new(Handle { shared }))
    }

    /// Adds whole lines, which `write` puts behind a text; it only does that. They are left out, and counted as one, where they have
    /// no room.
    pub(crate) fn add(&self, write: impl FnOnce(&mut String)) {
        if let Some(waiting) = self.put(write) {
            self.wake(waiting);
        }
    }

    /// The same for who calls [`Self::write_at_once`] then.
    pub(crate) fn keep(&self, write: impl FnOnce(&mut String)) {
        drop(self.put(write));
    }

    /// Puts lines behind the others, unless nobody will ever read them.
    fn put(&self, write: impl FnOnce(&mut String)) -> Option<MutexGuard<'_, Waiting>> {
        let mut waiting = self.shared().waiting();
        if waiting.writer == Writer::Gone {
            return None;
        }
        waiting.added += 1;
        // A line behind one that was left out would be out of its place.
        if waiting.left_out > 0 {
            waiting.left_out += 1;
        } else {
            let before = waiting.text.len();
            write(&mut waiting.text);
            if waiting.text.len() + waiting.taken_by.bytes() > self.shared().bytes_max {
                waiting.text.truncate(before);
                waiting.left_out = 1;
            }
        }
        Some(waiting)
    }

    /// Writes what was added, as far as the descriptor takes it at once, and leaves the rest to the thread. Returns when all that was
    /// added before is written or left so, whoever writes it: it may wait for the write of another caller, then for one more.
    pub(crate) fn write_at_once(&self) {
        let shared = self.shared();
        let mut waiting = shared.waiting();
        let own = waiting.added;
        while waiting.written < own && waiting.left_to_thread < own && waiting.writer != Writer::Gone {
            match waiting.taken_by {
                TakenBy::Nobody => {}
                TakenBy::Caller(_) => {
                    waiting = shared.wait_for_turn(waiting);
                    continue;
                }
                // What was added is behind what the thread has in its hands.
                TakenBy::Thread => {
                    waiting.left_to_thread = waiting.added;
                    return;
                }
            }
            // Only where there is room again: else each line that has none would be told of with a line.
            if waiting.text.is_empty() {
                waiting.tell_left_out(shared.name);
            }
            let mut lines = waiting.take();
            waiting.taken_by = TakenBy::Caller(lines.text.len());
            drop(waiting);
            let is_written = shared.write_what_it_takes(&mut lines);
            waiting = shared.waiting();
            waiting.put_back(lines);
            if !is_written {
                return self.wake(waiting);
            }
        }
        shared.tell_flushers(waiting);
    }

    /// Adds whole lines, whatever room there is, and waits until they are written, but only so long for a descriptor that takes nothing.
    pub(crate) fn write_now(&self, line: &str, patience: Duration) {
        let mut waiting = self.shared().waiting();
        if waiting.writer == Writer::Gone {
            return;
        }
        waiting.tell_left_out(self.shared().name);
        waiting.text.push_str(line);
        waiting.added += 1;
        self.wake(waiting);
        self.flush(patience);
    }

    /// Waits until all that was added is written, but only so long.
    pub(crate) fn flush(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let shared = self.shared();
        let mut waiting = shared.waiting();
        let own = waiting.added;
        while waiting.written < own && (waiting.writer == Writer::Runs || waiting.taken_by != TakenBy::Nobody)
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            waiting.is_flushed = true;
            let woken = shared.written.wait_timeout(waiting, left);
            (waiting, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.written < own && waiting.writer == Writer::NotStarted {
            // The system gives no thread, and these may be the last words.
            waiting.tell_left_out(shared.name);
            let mut lines = waiting.take();
            waiting.taken_by = TakenBy::Caller(lines.text.len());
            drop(waiting);
            shared.write_until(lines.left(), until);
            lines.begun = lines.text.len();
            waiting = shared.waiting();
            waiting.put_back(lines);
            shared.tell_flushers(waiting);
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Leaves what was added to the thread, and starts it where it does not run.
    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
        waiting.left_to_thread = waiting.added;
        let is_awaited = std::mem::take(&mut waiting.is_awaited);
        if waiting.writer != Writer::Runs {
            let shared = Arc::clone(self.shared());
            let thread = std::thread::Builder::new().name(shared.name.to_owned());
            // Where the system gives no thread, the next line tries again.
            if thread.spawn(move || shared.write_lines()).is_ok() {
                waiting.writer = Writer::Runs;
            }
        }
        self.shared().tell_flushers(waiting);
        if is_awaited {
            self.shared().added.notify_one();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        waiting.is_over = true;
        waiting.left_to_thread = waiting.added;
        drop(waiting);
        self.shared.added.notify_one();
    }
}

impl TakenBy {
    /// How many bytes were taken that count as waiting.
    fn bytes(self) -> usize {
        match self {
            Self::Nobody | Self::Thread => 0,
            Self::Caller(bytes) => bytes,
        }
    }
}

impl Lines {
    /// What is not written.
    fn left(&self) -> &[u8] {
        &self.text.as_bytes()[self.begun..]
    }
}

impl Waiting {
    /// Takes all lines out.
    fn take(&mut self) -> Lines {
        let spare = std::mem::take(&mut self.spare);
        Lines {
            text: std::mem::replace(&mut self.text, spare),
            begun: std::mem::take(&mut self.begun),
            up_to: self.added - self.left_out,
        }
    }

    /// Takes note of what is written, and puts what is left of it before what was added meanwhile.
    fn put_back(&mut self, mut lines: Lines) {
        self.taken_by = TakenBy::Nobody;
        if lines.left().is_empty() {
            self.written = lines.up_to;
            self.spare = lines.text;
        } else {
            lines.text.push_str(&self.text);
            self.spare = std::mem::replace(&mut self.text, lines.text);
            self.begun = lines.begun;
        }
        self.spare.clear();
        self.spare.shrink_to(ROOM_KEPT_BYTES);
    }

    /// Says behind the lines how many were left out there.
    fn tell_left_out(&mut self, name: &str) {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let lines = if left_out == 1 { "line" } else { "lines" };
            let _ = writeln!(
                self.text,
                "[relay] {left_out} {lines} left out: {name} did not take them"
            );
        }
    }
}

impl Shared {
    /// Nothing that panics is done while the lock is held, but for what a caller of [`LineQueue::add`] does, who leaves whole text.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has those who wait look at what is written, or that nothing will be.
    fn tell_flushers(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let is_flushed = std::mem::take(&mut waiting.is_flushed);
        drop(waiting);
        if is_flushed {
            self.written.notify_all();
        }
    }

    /// Waits until something was written, or left to the thread.
    fn wait_for_turn<'a>(&self, mut waiting: MutexGuard<'a, Waiting>) -> MutexGuard<'a, Waiting> {
        waiting.is_flushed = true;
        let woken = self.written.wait(waiting);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what the descriptor takes at once, and tells whether that is all.
    fn write_what_it_takes(&self, lines: &mut Lines) -> bool {
        while !lines.left().is_empty() {
            match self.at_once.write(&self.descriptor, lines.left()) {
                Ok(count) if count > 0 => lines.begun += count,
                Err(Errno::INTR) => {}
                // The thread finds out what it is.
                Ok(_) | Err(_) => return false,
            }
        }
        true
    }

    /// Writes what is left to the thread until the descriptor is gone, or the queue is.
    fn write_lines(&self) {
        // The first is written at once: often somebody waits for it, and it is the only one.
        let mut gather = Duration::ZERO;
        while self.wait_for_lines().is_some() {
            std::thread::sleep(gather);
            gather = GATHER;
            // A caller may have written them meanwhile.
            let Some(mut waiting) = self.wait_for_lines() else {
                return;
            };
            waiting.tell_left_out(self.name);
            let mut lines = waiting.take();
            waiting.taken_by = TakenBy::Thread;
            drop(waiting);
            let is_written = self.write(lines.left());
            lines.begun = lines.text.len();
            let mut waiting = self.waiting();
            waiting.put_back(lines);
            if !is_written {
                waiting.writer = Writer::Gone;
                waiting.text = String::new();
            }
            self.tell_flushers(waiting);
            if !is_written {
                return;
            }
        }
    }

    /// Waits until lines are left to the thread, and no caller writes; or returns nothing once the queue is over.
    fn wait_for_lines(&self) -> Option<MutexGuard<'_, Waiting>> {
        let mut waiting = self.waiting();
        loop {
            if waiting.written >= waiting.left_to_thread {
                if waiting.is_over {
                    return None;
                }
                waiting.is_awaited = true;
                let woken = self.added.wait(waiting);
                waiting = woken.unwrap_or_else(PoisonError::into_inner);
            } else if waiting.taken_by == TakenBy::Nobody {
                return Some(waiting);
            } else {
                waiting = self.wait_for_turn(waiting);
            }
        }
    }

    /// Writes what the descriptor takes, but only so long.
    fn write_until(&self, mut bytes: &[u8], until: Instant) {
        while !bytes.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let mut descriptor = [PollFd::new(&self.descriptor, PollFlags::OUT)];
            let is_ready = poll(&mut descriptor, Timespec::try_from(left).ok().as_ref());
            // What is ready takes that much: https://pubs.opengroup.org/onlinepubs/9799919799/functions/write.html
            let some = &bytes[..bytes.len().min(rustix::pipe::PIPE_BUF)];
            match is_ready.and_then(|ready| {
                if ready > 0 {
                    rustix::io::write(&self.descriptor, some)
                } else {
                    Ok(0)
                }
            }) {
                Ok(count) if count > 0 => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                // Nobody is left to be told that it does not.
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Writes all bytes, however long that takes; or returns false once nobody can read them any more: the pipe's reader has gone, or
    /// the terminal.
    fn write(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            // Not by the standard library's handle: while that waits, it would hold up all who write there by themselves.
            match rustix::io::write(&self.descriptor, bytes) {
                Ok(count) if count > 0 => bytes = &bytes[count..],
                Err(Errno::PIPE | Errno::IO) => return false,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut descriptor = [PollFd::new(&self.descriptor, PollFlags::OUT)];
                    // Where it cannot be waited for, it is tried again as it is.
                    let _ = poll(&mut descriptor, None);
                    std::thread::sleep(GATHER);
                }
                Ok(_) | Err(_) => std::thread::sleep(AGAIN),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
