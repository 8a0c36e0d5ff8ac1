//! How waiters end, and what they leave.

use super::*;

#[test]
fn a_waiter_hands_nothing_to_a_program_that_has_just_ended() {
    let relay = told();
    let (mut process, waiter) = standing_by(&relay);
    process.end();
    send(&relay, "wake up");
    assert_eq!(waiter.end(), (Some(0), String::new()));
    assert_eq!(relay.bodies("dev-a"), ["again: wake up"]);
    assert_eq!(programs(&relay), []);
}

#[test]
fn of_the_waiters_of_a_program_that_wait_for_their_relay_one_stays() {
    let port = free_port();
    let process = Sleeper::start();
    let number = process.0.id().to_string();
    let start = || Waiter::start(port, &[("CLAUDE_PID", &number)]);
    let first = start();
    std::thread::sleep(Duration::from_secs(1));
    let mut latest = start();
    let started = Instant::now();
    assert_eq!(first.end(), (Some(0), String::new()));
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "the process has not ended yet"
    );
    assert!(latest.is_waiting());
}

/// Stands before a relay, and breaks off the first connection over which something with a word in it is sent; returns its port.
fn breaking_off_first(relay: u16, word: &'static str) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it listens").port();
    let is_broken_off = Arc::new(AtomicBool::new(false));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", relay)) else {
                continue;
            };
            let (mut from, mut to) = (
                client.try_clone().expect("a socket"),
                server.try_clone().expect("a socket"),
            );
            let is_broken_off = Arc::clone(&is_broken_off);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    let has_word = String::from_utf8_lossy(&bytes[..count]).contains(word);
                    if has_word && !is_broken_off.swap(true, Ordering::SeqCst)
                        || to.write_all(&bytes[..count]).is_err()
                    {
                        break;
                    }
                }
                let _both = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            });
            let (mut from, mut to) = (server, client);
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
    });
    port
}

#[test]
fn that_a_program_is_idle_is_told_again_where_nobody_heard_it() {
    let relay = told();
    let home = tempfile::tempdir().expect("there is room");
    std::fs::create_dir(home.path().join("sessions")).expect("there is room");
    let process = Sleeper::start();
    let number = process.0.id().to_string();
    let file = home.path().join(format!("sessions/{number}.json"));
    std::fs::write(&file, r#"{"status": "busy"}"#).expect("there is room");
    let directory = home.path().to_str().expect("its name is text");
    let port = breaking_off_first(relay.port, "idle_prompt");
    let variables = [("CLAUDE_PID", &*number), ("CLAUDE_CONFIG_DIR", directory)];
    let waiter = Waiter::start(port, &variables);
    until("it stands by", || {
        programs(&relay).iter().any(|(_, can_be_woken)| *can_be_woken)
    });
    hook(&relay, &number, &event("UserPromptSubmit")).assert().code(0);
    assert_eq!(programs(&relay), [("busy".to_owned(), true)]);
    std::fs::write(&file, r#"{"status": "idle"}"#).expect("there is room");
    until("it is idle", || programs(&relay) == [("idle".to_owned(), true)]);
    send(&relay, "wake up");
    assert_eq!(waiter.end().0, Some(2));
}

#[test]
fn a_waiter_whose_stderr_nobody_reads_has_shown_nothing() {
    // A pipe whose reader has gone, and no stderr at all.
    for is_closed in [false, true] {
        let relay = told();
        let (reader, writer) = std::io::pipe().expect("the system has room for a pipe");
        let own = std::process::id().to_string();
        let waits = "exec \"$0\" hook claude wait --port \"$1\" 2>&-";
        let mut command = if is_closed {
            let mut shell = std::process::Command::new("sh");
            let relay_command = relay_command();
            shell.args(["-c", waits]).arg(relay_command.get_program());
            shell.arg(relay.port.to_string());
            for (name, value) in relay_command.get_envs() {
                match value {
                    Some(value) => shell.env(name, value),
                    None => shell.env_remove(name),
                };
            }
            shell
        } else {
            let mut command = relay_command();
            command.args(["hook", "claude", "wait", "--port", &relay.port.to_string()]);
            command.stderr(writer);
            command
        };
        command
            .env("CLAUDE_PID", &own)
            .env("CLAUDE_CODE_ENTRYPOINT", "cli")
            .env("RELAY_AGENT", "dev-a")
            .stdin(Stdio::null());
        let mut waiter = command.spawn().expect("it starts");
        // Its own end of the pipe goes with it.
        drop(command);
        drop(reader);
        until("it stands by", || {
            programs(&relay).iter().any(|(_, can_be_woken)| *can_be_woken)
        });
        send(&relay, "wake up");
        assert_eq!(
            waiter.wait().expect("it ends").code(),
            Some(0),
            "closed: {is_closed}"
        );
        until("it is back", || unread(&relay, "dev-a") == 1);
        assert_eq!(relay.bodies("dev-a"), ["again: wake up"], "closed: {is_closed}");
    }
}

#[test]
fn a_waiter_ends_with_the_session_of_its_program() {
    let relay = told();
    let process = Sleeper::start();
    let number = process.0.id().to_string();
    let waiter = Waiter::start(relay.port, &[("CLAUDE_PID", &number)]);
    until("it stands by", || {
        programs(&relay).iter().any(|(_, can_be_woken)| *can_be_woken)
    });
    let ends = event("SessionEnd");
    hook(&relay, &number, &ends)
        .assert()
        .code(0)
        .stdout("")
        .stderr("");
    assert_eq!(waiter.end(), (Some(0), String::new()));
    assert_eq!(programs(&relay), []);
}

#[test]
fn a_turn_that_is_over_between_two_looks_is_told_of_too() {
    let relay = told();
    let home = tempfile::tempdir().expect("there is room");
    std::fs::create_dir(home.path().join("sessions")).expect("there is room");
    let process = Sleeper::start();
    let number = process.0.id().to_string();
    let file = home.path().join(format!("sessions/{number}.json"));
    let is_idle_since = |at: u64| {
        let status = json!({"status": "idle", "statusUpdatedAt": at});
        std::fs::write(&file, status.to_string()).expect("there is room");
    };
    is_idle_since(1);
    let directory = home.path().to_str().expect("its name is text");
    let variables = [("CLAUDE_PID", &*number), ("CLAUDE_CONFIG_DIR", directory)];
    let _waiter = Waiter::start(relay.port, &variables);
    until("it stands by", || {
        programs(&relay).iter().any(|(_, can_be_woken)| *can_be_woken)
    });
    // Until it has looked.
    std::thread::sleep(Duration::from_secs(4));
    hook(&relay, &number, &event("UserPromptSubmit")).assert().code(0);
    // What it has seen before says nothing of this turn.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(programs(&relay), [("busy".to_owned(), true)]);
    is_idle_since(2);
    until("it is idle", || programs(&relay) == [("idle".to_owned(), true)]);
}

#[test]
fn the_waiters_of_a_program_for_two_relays_that_are_away_both_stay() {
    let process = Sleeper::start();
    let number = process.0.id().to_string();
    let start = |port: u16| Waiter::start(port, &[("CLAUDE_PID", &number)]);
    let mut first = start(free_port());
    std::thread::sleep(Duration::from_secs(1));
    let mut second = start(free_port());
    // By then each has looked whether it is still to stay.
    std::thread::sleep(Duration::from_secs(5));
    assert!(first.is_waiting() && second.is_waiting());
}

#[test]
fn a_waiter_leaves_no_note_and_removes_those_of_programs_that_have_ended() {
    let relay = told();
    let runtime = tempfile::tempdir().expect("there is room");
    let notes = runtime.path().join("relay");
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
        .create(&notes)
        .expect("there is room");
    std::fs::write(notes.join(format!("claude-{PROCESS}")), "1").expect("there is room");
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&notes).expect("it is there").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.collect()
    };
    let process = Sleeper::start();
    let number = process.0.id().to_string();
    let directory = runtime.path().to_str().expect("its name is text");
    let variables = [("CLAUDE_PID", &*number), ("XDG_RUNTIME_DIR", directory)];
    let waiter = Waiter::start(relay.port, &variables);
    until("it stands by", || {
        programs(&relay).iter().any(|(_, can_be_woken)| *can_be_woken)
    });
    let there = names();
    assert!(
        there.len() == 1 && there[0].starts_with(&format!("claude-{number}")),
        "{there:?}"
    );
    send(&relay, "wake up");
    assert_eq!(waiter.end().0, Some(2));
    assert_eq!(names(), [""; 0]);
}

#[test]
fn a_waiter_that_is_refused_stays_and_does_not_ask_again_soon() {
    use std::sync::atomic::AtomicUsize;

    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it listens").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    let (status, body) = if bytes[..count].starts_with(b"GET ") {
                        ("200 OK", r#"{"name":"relay","version":"1","started_at":"now"}"#)
                    } else {
                        counted.fetch_add(1, Ordering::SeqCst);
                        ("400 Bad Request", r#"{"error":"unknown role"}"#)
                    };
                    let length = body.len();
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let mut waiter = Waiter::start(port, &[]);
    until("it has asked", || asked.load(Ordering::SeqCst) > 0);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert!(waiter.is_waiting());
}
