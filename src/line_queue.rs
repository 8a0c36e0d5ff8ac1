//! Lines on their way to a descriptor that may be slow, full or gone: whoever adds one never waits, and none is lost unsaid.
//!
//! A thread writes them, and waits for that. What a descriptor takes at once may be written before, by whoever has added it: then it is
//! there whatever becomes of this process.

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
    /// Something was written, or nothing will be.
    written: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Whole lines, but for so many bytes of them that are written.
    text: String,
    begun: usize,
    /// The thread has taken lines that it has not written yet.
    is_writing: bool,
    /// How many lines were left out behind them.
    left_out: u64,
    /// How many times something was added, and up to which of them all is written.
    added: u64,
    written: u64,
    writer: Writer,
    /// The thread waits to be told of what is added. Else it looks by itself, and a system call is spared.
    is_awaited: bool,
    /// Somebody waits for what was added to be written.
    is_flushed: bool,
    /// All handles of the queue are gone.
    is_over: bool,
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
            if waiting.text.len() > self.shared().bytes_max {
                waiting.text.truncate(before);
                waiting.left_out = 1;
            }
        }
        Some(waiting)
    }

    /// Writes what was added, as far as the descriptor takes it at once, and has the thread write the rest. What other threads add
    /// meanwhile waits for that, so that each line is written when its own call of this returns.
    pub(crate) fn write_at_once(&self) {
        let mut waiting = self.shared().waiting();
        // What was added is behind what the thread has in its hands, and it looks for more.
        if waiting.is_writing || waiting.writer == Writer::Gone {
            return;
        }
        loop {
            while waiting.begun < waiting.text.len() {
                let shared = self.shared();
                let left = &waiting.text.as_bytes()[waiting.begun..];
                match shared.at_once.write(&shared.descriptor, left) {
                    Ok(count) if count > 0 => waiting.begun += count,
                    Err(Errno::INTR) => {}
                    // The thread finds out what it is.
                    Ok(_) | Err(_) => return self.wake(waiting),
                }
            }
            if waiting.left_out == 0 {
                break;
            }
            // Only here, where there is room again: else each line that has none would be told of with a line.
            waiting.tell_left_out(self.shared().name);
        }
        waiting.text.clear();
        waiting.text.shrink_to(ROOM_KEPT_BYTES);
        waiting.begun = 0;
        waiting.written = waiting.added;
        self.shared().tell_flushers(waiting);
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
        let mut waiting = self.shared().waiting();
        let added = waiting.added;
        while waiting.written < added && waiting.writer == Writer::Runs {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            waiting.is_flushed = true;
            let woken = self.shared().written.wait_timeout(waiting, left);
            (waiting, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.writer == Writer::NotStarted {
            // The system gives no thread, and these may be the last words.
            waiting.tell_left_out(self.shared().name);
            let text = std::mem::take(&mut waiting.text);
            let begun = std::mem::take(&mut waiting.begun);
            drop(waiting);
            self.shared().write_until(&text.as_bytes()[begun..], until);
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Has the thread see what was added, and starts it where it does not run.
    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
        if waiting.writer == Writer::Runs {
            let is_awaited = std::mem::take(&mut waiting.is_awaited);
            drop(waiting);
            if is_awaited {
                self.shared().added.notify_one();
            }
            return;
        }
        let shared = Arc::clone(self.shared());
        let thread = std::thread::Builder::new().name(shared.name.to_owned());
        // Where the system gives no thread, the next line tries again.
        if thread.spawn(move || shared.write_lines()).is_ok() {
            waiting.writer = Writer::Runs;
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.waiting().is_over = true;
        self.shared.added.notify_one();
    }
}

impl Waiting {
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

    /// Writes what is added until the descriptor is gone, or the queue is.
    fn write_lines(&self) {
        let mut lines = String::new();
        // The first is written at once: often somebody waits for it, and it is the only one.
        let mut gather = Duration::ZERO;
        loop {
            let mut waiting = self.waiting();
            while waiting.written == waiting.added {
                if waiting.is_over {
                    return;
                }
                waiting.is_awaited = true;
                let woken = self.added.wait(waiting);
                waiting = woken.unwrap_or_else(PoisonError::into_inner);
            }
            drop(waiting);
            std::thread::sleep(gather);
            gather = GATHER;
            lines.clear();
            lines.shrink_to(ROOM_KEPT_BYTES);
            let mut waiting = self.waiting();
            waiting.tell_left_out(self.name);
            std::mem::swap(&mut lines, &mut waiting.text);
            let begun = std::mem::take(&mut waiting.begun);
            let added = waiting.added;
            waiting.is_writing = true;
            drop(waiting);
            let is_written = self.write(&lines.as_bytes()[begun..]);
            let mut waiting = self.waiting();
            waiting.is_writing = false;
            waiting.written = added;
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
mod tests {
    use std::io::{BufRead as _, BufReader, PipeReader, Read as _, Write as _};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// A pipe that takes nothing until its reader has read that.
    fn full_pipe() -> (PipeReader, std::io::PipeWriter, usize) {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        rustix::io::ioctl_fionbio(&writer, true).expect("a pipe can be told not to block");
        let mut filled = 0;
        while let Ok(count) = writer.write(&[b'.'; 4_096]) {
            filled += count;
        }
        (reader, writer, filled)
    }

    fn add(queue: &LineQueue, line: &str) {
        queue.add(|text| text.push_str(&format!("{line}\n")));
    }

    /// Reads the lines behind so many bytes, up to the end.
    fn lines_behind(mut reader: PipeReader, skipped: usize) -> Vec<String> {
        let mut skipping = vec![0; skipped];
        reader.read_exact(&mut skipping).expect("the pipe was filled");
        BufReader::new(reader)
            .lines()
            .map(|line| line.expect("lines of text"))
            .collect()
    }

    #[test]
    fn lines_are_written_in_order_and_the_thread_ends_with_the_queue() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let queue = LineQueue::new("a pipe", writer, 1_024);
        for line in ["one", "two", "three"] {
            add(&queue, line);
        }
        queue.write_now("four\n", LONG);
        drop(queue);
        assert_eq!(lines_behind(reader, 0), ["one", "two", "three", "four"]);
    }

    #[test]
    fn what_a_descriptor_takes_is_there_at_once_and_its_flags_stay() {
        let flags = |descriptor: &dyn AsFd| rustix::fs::fcntl_getfl(descriptor).expect("it is open");
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let own = writer.try_clone().expect("the system has room");
        let before = flags(&own);
        let queue = LineQueue::at_once("a pipe", writer, 1_024);
        queue.keep(|text| text.push_str("one\ntwo\n"));
        queue.write_at_once();
        let mut written = [0; 8];
        rustix::io::ioctl_fionbio(&reader, true).expect("a pipe can be told not to block");
        reader.read_exact(&mut written).expect("it is there");
        assert_eq!(&written, b"one\ntwo\n");
        assert!(
            queue.shared().waiting().writer == Writer::NotStarted,
            "no thread was needed"
        );
        assert_eq!(flags(&own), before);
        let file = tempfile::tempfile().expect("the system has room");
        let queue = LineQueue::at_once("a file", file.try_clone().expect("the system has room"), 1_024);
        queue.keep(|text| text.push_str("one\n"));
        queue.write_at_once();
        assert_eq!(file.metadata().expect("it is open").len(), 4);
    }

    #[test]
    fn what_a_descriptor_does_not_take_at_once_is_written_in_its_order_once_it_does() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let queue = LineQueue::at_once("a pipe", writer, 4 << 20);
        let long = format!("{}ä\n", "é".repeat(200_000));
        let started = Instant::now();
        for line in [&long, "two\n"] {
            queue.keep(|text| text.push_str(line));
            queue.write_at_once();
        }
        assert!(started.elapsed() < LONG);
        let reading = std::thread::spawn(move || lines_behind(reader, 0));
        queue.flush(LONG);
        queue.keep(|text| text.push_str("three\n"));
        queue.write_at_once();
        drop(queue);
        assert_eq!(
            reading.join().expect("no panic"),
            [long.trim_end(), "two", "three"]
        );
    }

    #[test]
    fn a_descriptor_that_would_block_is_waited_for_and_gets_all() {
        let (reader, writer, filled) = full_pipe();
        let queue = LineQueue::new("a pipe", writer, 1_024);
        add(&queue, "one");
        // It has met the full pipe by then, most often; it is right either way.
        queue.flush(Duration::from_millis(50));
        add(&queue, "two");
        let reading = std::thread::spawn(move || lines_behind(reader, filled));
        queue.write_now("three\n", LONG);
        drop(queue);
        assert_eq!(reading.join().expect("no panic"), ["one", "two", "three"]);
    }

    #[test]
    fn what_has_no_room_is_counted_and_told_of_in_its_place() {
        let (reader, writer, filled) = full_pipe();
        let queue = LineQueue::new("a pipe", writer, 10);
        // The writer has the first in its hands once the queue is empty.
        add(&queue, "0");
        while !queue.shared().waiting().text.is_empty() {
            std::thread::yield_now();
        }
        for line in ["123", "456", "longer", "7"] {
            add(&queue, line);
        }
        assert!(queue.shared().waiting().text.len() <= 10);
        let reading = std::thread::spawn(move || lines_behind(reader, filled));
        queue.flush(LONG);
        add(&queue, "8");
        queue.write_now("9\n", LONG);
        drop(queue);
        let told = "[relay] 2 lines left out: a pipe did not take them";
        assert_eq!(
            reading.join().expect("no panic"),
            ["0", "123", "456", told, "8", "9"]
        );
    }

    #[test]
    fn the_end_is_not_held_up_by_a_descriptor_that_takes_nothing() {
        let (_reader, writer, _) = full_pipe();
        let queue = LineQueue::new("a pipe", writer, 10);
        let started = Instant::now();
        let patience = Duration::from_millis(100);
        queue.write_now("never written\n", patience);
        assert!(started.elapsed() >= patience);
        assert!(started.elapsed() < LONG);
    }

    /// Nor where there is no thread for it, though a write there would wait for a reader.
    #[test]
    fn last_words_do_not_wait_for_a_descriptor_that_takes_nothing() {
        let (_reader, writer, _) = full_pipe();
        rustix::io::ioctl_fionbio(&writer, false).expect("a pipe can be told to block");
        let queue = LineQueue::new("a pipe", writer, 1_024);
        let started = Instant::now();
        let patience = Duration::from_millis(100);
        queue.shared().write_until(b"never written\n", started + patience);
        assert!(started.elapsed() >= patience);
        assert!(started.elapsed() < LONG);
    }

    #[test]
    fn once_the_reader_has_gone_nothing_waits_and_nothing_is_kept() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let queue = LineQueue::new("a pipe", writer, 1_024);
        let started = Instant::now();
        add(&queue, "one");
        queue.flush(LONG);
        add(&queue, "two");
        assert!(queue.shared().waiting().writer == Writer::Gone, "no thread anew");
        queue.write_now("three\n", LONG);
        assert!(started.elapsed() < LONG);
        let waiting = queue.shared().waiting();
        assert!(waiting.writer == Writer::Gone && waiting.left_out == 0);
    }

    /// What a terminal that was closed has is an error of its own.
    #[test]
    #[cfg(target_os = "linux")]
    fn once_the_terminal_has_gone_nothing_waits_and_nothing_is_kept() {
        let (read_write, mode) = (
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY,
            rustix::fs::Mode::empty(),
        );
        let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
        let terminal = rustix::pty::openpt(flags).expect("the system has terminals");
        rustix::pty::unlockpt(&terminal).expect("it is ours");
        let path = rustix::pty::ptsname(&terminal, Vec::new()).expect("it has a path");
        let writer = rustix::fs::open(path, read_write, mode).expect("it is ours");
        drop(terminal);
        let queue = LineQueue::new("a terminal", writer, 1_024);
        let started = Instant::now();
        queue.write_now("one\n", LONG);
        assert!(started.elapsed() < LONG);
        assert!(queue.shared().waiting().writer == Writer::Gone);
    }

    /// A disk that is full until somebody has made room.
    #[cfg(target_os = "linux")]
    struct Disk {
        full: std::fs::File,
        room: std::io::PipeWriter,
        has_room: std::sync::atomic::AtomicBool,
    }

    #[cfg(target_os = "linux")]
    impl AsFd for Disk {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            if self.has_room.load(std::sync::atomic::Ordering::Relaxed) {
                self.room.as_fd()
            } else {
                self.full.as_fd()
            }
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_was_meant_for_a_full_disk_is_written_once_there_is_room_and_how_much_had_none() {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let (reader, room) = std::io::pipe().expect("a pipe");
        let disk = Arc::new(Disk {
            full: full.expect("Linux has one"),
            room,
            has_room: false.into(),
        });
        let queue = LineQueue::new("a disk", Arc::clone(&disk), 10);
        add(&queue, "0");
        while !queue.shared().waiting().text.is_empty() {
            std::thread::yield_now();
        }
        for line in ["123", "456", "longer", "7", "8"] {
            add(&queue, line);
        }
        disk.has_room.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(disk);
        queue.write_now("9\n", LONG);
        drop(queue);
        let told = "[relay] 3 lines left out: a disk did not take them";
        assert_eq!(lines_behind(reader, 0), ["0", "123", "456", told, "9"]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_tried_again_and_keeps_no_more_than_it_may() {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("Linux has one");
        let queue = LineQueue::new("a full disk", full, 10);
        for line in ["123", "456", "longer", "7"] {
            add(&queue, line);
            queue.flush(Duration::from_millis(20));
        }
        let waiting = queue.shared().waiting();
        assert!(waiting.writer == Writer::Runs, "it is not given up");
        assert!(waiting.text.len() <= 10);
    }
}
