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

#[test]
fn what_just_has_room_is_written_and_of_one_line_that_has_none_it_is_told() {
    let file = tempfile::tempfile().expect("the system has room");
    let queue = LineQueue::new("a disk", file.try_clone().expect("the system has room"), 4);
    for line in ["123\n", "4\n"] {
        keep(&queue, line);
    }
    queue.flush(LONG);
    let told = "[relay] 1 line left out: a disk did not take them";
    assert_eq!(text_of(&file), format!("123\n{told}\n"));
}
