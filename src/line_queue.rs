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

    /// A descriptor that takes nothing while its gate is held, as a disk that stands still.
    struct Slow<D> {
        gate: Mutex<()>,
        descriptor: D,
    }

    impl<D: AsFd> AsFd for Slow<D> {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            std::thread::yield_now();
            self.descriptor.as_fd()
        }
    }

    fn slow_queue<D: AsFd + Send + Sync + 'static>(descriptor: D) -> (Arc<Slow<D>>, LineQueue) {
        let gate = Mutex::default();
        let slow = Arc::new(Slow { gate, descriptor });
        let queue = LineQueue::with("a disk", Arc::clone(&slow), 12, AtOnce::AsItIs);
        (slow, queue)
    }

    fn keep(queue: &LineQueue, line: &str) {
        queue.keep(|text| text.push_str(line));
    }

    /// Adds a line as who sends a message does, in a thread.
    fn write(queue: &LineQueue, line: &'static str) -> std::thread::JoinHandle<()> {
        let queue = queue.clone();
        std::thread::spawn(move || {
            keep(&queue, line);
            queue.write_at_once();
        })
    }

    /// Waits until the queue is in a state, which can be seen in between of what others do.
    fn until(queue: &LineQueue, is_so: impl Fn(&Waiting) -> bool) {
        let started = Instant::now();
        while !queue
            .shared()
            .waiting
            .try_lock()
            .is_ok_and(|waiting| is_so(&waiting))
        {
            assert!(started.elapsed() < LONG, "that comes to be");
            std::thread::yield_now();
        }
    }

    /// Waits until a caller's thread has ended.
    fn end(caller: std::thread::JoinHandle<()>) {
        let started = Instant::now();
        while !caller.is_finished() {
            assert!(started.elapsed() < LONG, "its call returns");
            std::thread::yield_now();
        }
        caller.join().expect("no panic");
    }

    fn has_taken(bytes: usize) -> impl Fn(&Waiting) -> bool {
        move |waiting| waiting.taken_by == TakenBy::Caller(bytes)
    }

    fn text_of(file: &std::fs::File) -> String {
        let length = file.metadata().expect("it is open").len();
        let mut text = vec![0; usize::try_from(length).expect("it is short")];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut text, 0).expect("it is as long");
        String::from_utf8(text).expect("lines of text")
    }

    #[test]
    fn lines_are_added_while_another_is_written_and_each_is_there_when_its_own_call_returns() {
        let (slow, queue) = slow_queue(tempfile::tempfile().expect("the system has room"));
        let closed = slow.gate.lock().expect("no panic");
        let first = write(&queue, "1\n");
        until(&queue, has_taken(2));
        let second = write(&queue, "2\n");
        // It waits for the first.
        until(&queue, |waiting| waiting.is_flushed || second.is_finished());
        keep(&queue, "3\n");
        assert!(!second.is_finished(), "its line is not written");
        drop(closed);
        end(second);
        assert_eq!(text_of(&slow.descriptor), "1\n2\n3\n");
        end(first);
        let waiting = queue.shared().waiting();
        assert!(waiting.writer == Writer::NotStarted, "no thread was needed");
        assert_eq!((waiting.added, waiting.written), (3, 3));
    }

    #[test]
    fn each_of_many_callers_finds_its_line_written_once_and_behind_its_former_ones() {
        let (slow, queue) = slow_queue(tempfile::tempfile().expect("the system has room"));
        std::thread::scope(|scope| {
            for caller in 0..4 {
                let (slow, queue) = (&slow, &queue);
                scope.spawn(move || {
                    let mut expected = Vec::new();
                    for number in 0..200 {
                        let line = format!("{caller}{}", number % 10);
                        keep(queue, &format!("{line}\n"));
                        queue.write_at_once();
                        expected.push(line);
                        let written = text_of(&slow.descriptor);
                        let own: Vec<&str> = written
                            .lines()
                            .filter(|line| line.starts_with(&caller.to_string()))
                            .collect();
                        assert_eq!(own, expected);
                    }
                });
            }
        });
    }

    #[test]
    fn what_is_being_written_counts_as_waiting() {
        let (slow, queue) = slow_queue(tempfile::tempfile().expect("the system has room"));
        let closed = slow.gate.lock().expect("no panic");
        let first = write(&queue, "1234\n");
        until(&queue, has_taken(5));
        for line in ["678\n", "longer\n", "x\n"] {
            keep(&queue, line);
        }
        drop(closed);
        end(first);
        queue.write_at_once();
        let told = "[relay] 2 lines left out: a disk did not take them";
        assert_eq!(text_of(&slow.descriptor), format!("1234\n678\n{told}\n"));
    }

    #[test]
    fn what_a_caller_leaves_to_the_thread_is_waited_for_by_nobody() {
        let (reader, writer, filled) = full_pipe();
        let (slow, queue) = slow_queue(writer);
        let closed = slow.gate.lock().expect("no panic");
        let first = write(&queue, "1\n");
        until(&queue, has_taken(2));
        let second = write(&queue, "2\n");
        until(&queue, |waiting| waiting.is_flushed);
        drop(closed);
        end(first);
        end(second);
        until(&queue, |waiting| waiting.taken_by == TakenBy::Thread);
        // Behind what the thread has in its hands.
        end(write(&queue, "3\n"));
        let reading = std::thread::spawn(move || lines_behind(reader, filled));
        queue.flush(LONG);
        assert_eq!(queue.shared().waiting().written, 3);
        keep(&queue, "4\n");
        drop((slow, queue));
        assert_eq!(reading.join().expect("no panic"), ["1", "2", "3", "4"]);
    }

    #[test]
    fn the_thread_writes_nothing_while_a_caller_does_and_last_words_have_their_patience() {
        let (slow, queue) = slow_queue(tempfile::tempfile().expect("the system has room"));
        let closed = slow.gate.lock().expect("no panic");
        let first = write(&queue, "1\n");
        until(&queue, has_taken(2));
        add(&queue, "2");
        // The thread waits for the caller.
        until(&queue, |waiting| waiting.is_flushed);
        let started = Instant::now();
        let patience = Duration::from_millis(100);
        queue.write_now("3\n", patience);
        assert!(started.elapsed() >= patience);
        until(&queue, has_taken(2));
        drop(closed);
        queue.flush(LONG);
        assert_eq!(text_of(&slow.descriptor), "1\n2\n3\n");
        end(first);
    }

    /// The system may give no thread.
    #[test]
    fn without_a_thread_last_words_are_written_behind_what_a_caller_writes() {
        let (slow, queue) = slow_queue(tempfile::tempfile().expect("the system has room"));
        let closed = slow.gate.lock().expect("no panic");
        let first = write(&queue, "1\n");
        until(&queue, has_taken(2));
        keep(&queue, "2\n");
        let flushing = {
            let queue = queue.clone();
            std::thread::spawn(move || queue.flush(Duration::from_millis(50)))
        };
        until(&queue, |waiting| waiting.is_flushed);
        end(flushing);
        until(&queue, |waiting| has_taken(2)(waiting) && waiting.text == "2\n");
        drop(closed);
        queue.flush(LONG);
        assert_eq!(text_of(&slow.descriptor), "1\n2\n");
        end(first);
        assert!(queue.shared().waiting().writer == Writer::NotStarted);
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
