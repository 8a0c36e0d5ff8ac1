use super::*;
use std::io::Read as _;

/// Nothing listens there, and no test of anybody's starts a relay there, which one of these commands would end.
const NOBODYS_PORT: u16 = 1;

#[test]
fn a_relay_that_does_not_run_is_told_with_the_command_that_starts_it() {
    let port = NOBODYS_PORT;
    for arguments in ASKING {
        let said = format!(
            "relay {}: relay is not running on 127.0.0.1:{port}; start it with: {} serve --port {port}\n",
            arguments[0],
            env!("CARGO_BIN_EXE_relay")
        );
        ask(port, arguments).assert().code(1).stdout("").stderr(said);
    }
}

#[test]
fn the_command_that_starts_a_relay_names_its_address() {
    if !has_ipv6_loopback() {
        return;
    }
    let port = NOBODYS_PORT;
    let mut elsewhere = ask(port, &["status", "--host", "::1"]);
    let start = format!("serve --host ::1 --port {port}\n");
    elsewhere
        .assert()
        .code(1)
        .stderr(predicates::str::ends_with(start));
}

#[test]
fn a_relay_that_the_shell_finds_is_called_by_its_name() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let link = directory.path().join("relay");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_relay"), &link).expect("a link");
    let port = NOBODYS_PORT;
    let mut status = ask(port, &["status"]);
    status.env("PATH", format!("/nowhere:{}", directory.path().display()));
    let said = format!("start it with: relay serve --port {port}\n");
    status.assert().code(1).stderr(predicates::str::ends_with(said));
    // Another program of that name would not do.
    let other = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(other.path().join("relay"), "").expect("a file");
    let mut status = ask(port, &["status"]);
    status.env("PATH", other.path());
    let said = format!("start it with: {} serve", env!("CARGO_BIN_EXE_relay"));
    status.assert().code(1).stderr(contains(said));
}

/// Has every command ask a port that something else has, all of them at once.
fn is_no_relay(port: u16) {
    let is_told = |arguments: &[&str]| {
        let started = Instant::now();
        let said = format!(
            "relay {}: what listens on 127.0.0.1:{port} does not answer as a relay does; name relay's port with --port, or try again if a relay there is stopped or busy\n",
            arguments[0]
        );
        ask(port, arguments).assert().code(1).stdout("").stderr(said);
        let took = started.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
    };
    std::thread::scope(|scope| {
        for arguments in ASKING {
            scope.spawn(move || is_told(arguments));
        }
    });
}

/// Takes a port and has `answer` deal with whoever connects.
fn other_program(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it listens").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

#[test]
fn a_program_that_says_nothing_is_no_relay() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    is_no_relay(listener.local_addr().expect("it listens").port());
}

#[test]
fn a_program_that_hangs_up_is_no_relay() {
    is_no_relay(other_program(drop));
}

#[test]
fn a_program_that_speaks_something_else_is_no_relay() {
    for answer in [
        "220 mail ESMTP\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"name\":\"relay\"}",
        "HTTP/1.1 200 OK\r\nContent-Length: 49\r\n\r\n{\"name\":\"delay\",\"version\":\"1\",\"started_at\":\"now\"}",
        "HTTP/1.1 401 Unauthorized\r\nContent-Length: 15\r\n\r\n{\"error\":\"who\"}",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope",
    ] {
        is_no_relay(other_program(move |mut stream| {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer.as_bytes());
        }));
    }
}

#[test]
fn a_program_that_never_stops_answering_is_no_relay() {
    let endless = |chunk: &'static [u8], pause: Duration| {
        other_program(move |mut stream| {
            let mut answer = b"HTTP/1.1 200 OK\r\n\r\n".as_slice();
            while stream.write_all(answer).is_ok() {
                answer = chunk;
                std::thread::sleep(pause);
            }
        })
    };
    is_no_relay(endless(b".", Duration::from_millis(100)));
    is_no_relay(endless(&[b'.'; 64 * 1024], Duration::ZERO));
}

#[test]
fn a_command_that_may_open_no_files_says_so_and_does_not_panic() {
    let own = relay_command();
    for files in 3..40 {
        for arguments in [
            "status --port 1",
            "mcp --port 1",
            "serve --host 192.0.2.1 --token 0123456789abcdef",
            "worker",
            "hook claude --port 1",
        ] {
            let mut command = assert_cmd::Command::new("sh");
            let assert = command
                .args([
                    "-c",
                    &format!("ulimit -n {files}; exec \"$0\" {arguments}"),
                    env!("CARGO_BIN_EXE_relay"),
                ])
                .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
                .timeout(PATIENCE)
                .assert();
            let output = assert.get_output();
            let said = String::from_utf8_lossy(&output.stderr);
            // Where not even the system's own part of a program can be loaded, the system says so.
            let is_well = match output.status.code() {
                Some(0 | 127) => true,
                // No program suffers from its hook.
                Some(1 | 2) => !arguments.starts_with("hook"),
                Some(_) | None => false,
            };
            assert!(
                is_well && !said.contains("panicked"),
                "{arguments} with {files}: {output:?}"
            );
        }
    }
}

#[test]
fn where_another_machine_takes_no_connection_no_relay_is_to_be_started_here() {
    let said = format!("relay status: cannot reach 0.0.0.0:{NOBODYS_PORT}: ");
    let said = predicates::str::starts_with(said).and(contains("serve").not());
    ask(NOBODYS_PORT, &["status", "--host", "0.0.0.0"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(said);
}

#[test]
fn what_says_that_it_is_a_relay_and_answers_otherwise_is_none() {
    let whole = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (health, answer) = (
        whole(r#"{"name":"relay","version":"1","started_at":"now"}"#),
        whole("7"),
    );
    let port = other_program(move |mut stream| {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            let is_looked_at = bytes[..count].starts_with(b"GET ");
            let answer = if is_looked_at { &health } else { &answer };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    for arguments in [
        &["read"][..],
        &["peek"],
        &["pending"],
        &["flush", "pm"],
        &["trace", "3f2a91c0"],
        &["show", "3f2a91c0"],
        &["reply", "3f2a91c0", "x"],
        &["group", "make", "crew"],
        &["agents"],
        &["hold"],
        &["hold", "pm"],
        &["allow", "--all"],
        &["allow", "3f2a91c0"],
        &["drop", "3f2a91c0"],
        &["redrive"],
        &["redrive", "--list"],
        &["key"],
        &["spawn", "w1", "--cli", "claude", "--task", "x"],
        &["release", "w1"],
    ] {
        let said = format!(
            "relay {}: what listens on 127.0.0.1:{port} does not answer as a relay does; name relay's port with --port, or try again if a relay there is stopped or busy\n",
            arguments[0]
        );
        ask(port, arguments).assert().code(1).stdout("").stderr(said);
    }
}
