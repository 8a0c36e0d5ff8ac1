//! What becomes of the relay and of its lines when nobody reads its stdout, or not at once.

use super::*;

/// Posts and reads so many messages of which each has a line of more than 200 bytes, all without delay.
fn post_many(relay: &Relay, count: usize) {
    let body = "🦀".repeat(60);
    let mut session = relay.session(Way::Http);
    for number in 0..count {
        let started = Instant::now();
        session.post("pm", "dev-a", &body);
        if number % 50 == 49 {
            assert_eq!(session.read("dev-a").bodies().len(), 50);
        }
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{:?}",
            started.elapsed()
        );
    }
}

#[test]
fn a_closed_stdout_stops_nothing() {
    let mut relay = Relay::start_unread(&[], &[]);
    drop(relay.take_stdout());
    post_many(&relay, 400);
    relay.signal("TERM");
    assert_eq!(relay.exit_status().code(), Some(0));
    assert_eq!(relay.into_stderr(), "");
}

#[test]
fn a_stdout_that_nobody_reads_stops_nothing_and_its_gap_is_told() {
    let mut relay = Relay::start_unread(&[], &[]);
    // The pipe is full after some 250 lines, and what waits for it after some 1,000 more, of 256 kB.
    let mut posts = 3_000;
    post_many(&relay, posts);
    relay.read_stdout();
    let (mut shown, mut left_out) = (0, 0);
    let started = Instant::now();
    while shown + left_out < posts {
        assert!(started.elapsed() < PATIENCE, "{shown} and {left_out} of {posts}");
        relay.session(Way::Http).post("pm", "dev-b", "next");
        posts += 1;
        while let Some(line) = relay.line_within(Duration::from_millis(300)) {
            if let Some(rest) = line.strip_prefix("[relay] ") {
                let count = rest.strip_suffix(" lines left out: stdout did not take them");
                let count = count.and_then(|count| count.parse::<usize>().ok());
                left_out += count.expect("a number of lines");
            } else {
                let crabs = format!(" pm → dev-a [free] \"{}\"", "🦀".repeat(60));
                let next = " pm → dev-b [free] \"next\"";
                assert!(line.ends_with(&crabs) || line.ends_with(next), "{line}");
                shown += 1;
            }
        }
    }
    assert_eq!(shown + left_out, posts);
    assert!(left_out > 0, "the pipe was never full");
    // It is told once.
    relay.session(Way::Http).post("pm", "dev-b", "last");
    assert!(relay.line().ends_with("\"last\""));
    assert_eq!(relay.line_within(QUIET), None);
}

#[test]
fn a_stdout_that_would_block_gets_each_line_once_it_is_read() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    // Another program that shares a terminal with relay may have told it not to block.
    rustix::io::ioctl_fionbio(&writer, true).expect("a pipe can be told not to block");
    let port = free_port();
    let mut command = relay_command();
    let mut process = Process::start(
        command
            .args(["serve", "--port", &port.to_string()])
            .stdout(writer),
    );
    drop(command);
    until("the relay listens", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let mut session = Session::open(port, Way::Sse, None);
    // Twice what the pipe takes, and half of what waits for it.
    let bodies: Vec<String> = (0..600)
        .map(|number| format!("{number:03} {}", "🦀".repeat(50)))
        .collect();
    for body in &bodies {
        session.post("pm", "dev-a", body);
        assert_eq!(session.read("dev-a").bodies().len(), 1);
    }
    let shown = std::thread::spawn(move || {
        let lines = BufReader::new(reader).lines().map_while(Result::ok);
        lines.skip_while(|line| line != READY).skip(1).collect::<Vec<_>>()
    });
    signal(process.child.id(), "TERM");
    assert_eq!(process.exit_status().code(), Some(0));
    let shown = shown.join().expect("reading does not panic");
    let (last, shown) = shown.split_last().expect("its last line");
    assert_eq!(last, "[relay] stopped");
    let expected = bodies.iter().map(|body| format!(" pm → dev-a [free] \"{body}\""));
    assert_eq!(shown.len(), bodies.len());
    for (line, expected) in shown.iter().zip(expected) {
        assert!(line.ends_with(&expected), "{line}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn what_waits_for_a_stdout_that_nobody_reads_is_lines_and_not_messages() {
    let mut relay = Relay::start_unread(&[], &[]);
    let mut session = relay.session(Way::Http);
    let body = "🦀".repeat(60) + &"x".repeat(1_000_000);
    let mut post = |count: usize| {
        for _ in 0..count {
            session.post("pm", "dev-a", &body);
            assert_eq!(session.read("dev-a").bodies().len(), 1);
        }
    };
    // What each connection needs is there by then. The pipe is full, and lines wait.
    post(500);
    let before = relay.resident_bytes();
    post(200);
    let more = relay.resident_bytes().saturating_sub(before);
    assert!(more < 64 * 1024 * 1024, "{more} bytes for 200 lines");
    drop(relay.take_stdout());
}

#[test]
fn a_stdout_that_nobody_reads_does_not_hold_up_the_end() {
    let mut relay = Relay::start_unread(&[], &[]);
    post_many(&relay, 2_000);
    let started = Instant::now();
    relay.signal("TERM");
    assert_eq!(relay.exit_status().code(), Some(0));
    assert!(
        started.elapsed() < Duration::from_secs(3),
        "{:?}",
        started.elapsed()
    );
}

/// Starts a relay that writes to `stdout` and whose banner nobody sees, and makes sure that it serves a call.
fn serves_with(stdout: impl Into<Stdio>) {
    let port = free_port();
    let mut command = relay_command();
    command
        .args(["serve", "--port", &port.to_string()])
        .stdout(stdout);
    let _process = Process::start(&mut command);
    until("the relay listens", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    Session::open(port, Way::Sse, None).post("pm", "dev-a", "b");
}

/// What was answered is in the log, whatever becomes of the relay then.
#[test]
fn the_line_of_a_message_is_written_before_its_sender_has_the_answer() {
    const POSTS: usize = 100;
    for is_file in [false, true] {
        let port = free_port();
        let mut command = relay_command();
        command.args(["serve", "--port", &port.to_string()]);
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut file = tempfile::tempfile().expect("the system has room");
        if is_file {
            command.stdout(file.try_clone().expect("the system has room"));
        } else {
            command.stdout(writer);
        }
        let mut process = Process::start(&mut command);
        // It has the writing end of the pipe.
        drop(command);
        until("the relay listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let mut session = Session::open(port, Way::Sse, None);
        for number in 0..POSTS {
            session.post("pm", "dev-a", &format!("m{number}."));
        }
        process.child.kill().expect("it runs");
        process.child.wait().expect("it was killed");
        let mut written = String::new();
        if is_file {
            file.rewind().expect("it is a file");
            file.read_to_string(&mut written).expect("text");
        } else {
            reader.read_to_string(&mut written).expect("text");
        }
        let said: Vec<String> = (0..POSTS).map(|number| format!("] \"m{number}.\"")).collect();
        let lines = written.lines().filter(|line| line.contains("pm → dev-a"));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), POSTS, "{written}");
        for (line, said) in lines.iter().zip(said) {
            assert!(line.ends_with(&said), "{line}");
        }
    }
}

#[test]
fn a_stdout_that_is_closed_from_the_start_stops_nothing() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    serves_with(writer);
}

#[test]
fn a_stdout_that_is_full_from_the_start_stops_nothing() {
    const PIPE_BYTES: usize = 64 * 1024;
    let (_reader, mut writer) = std::io::pipe().expect("a pipe");
    writer
        .write_all(&[b'.'; PIPE_BYTES])
        .expect("the pipe takes as much as it holds");
    serves_with(writer);
}
