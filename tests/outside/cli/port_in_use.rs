use super::*;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

const NO_RELAY: &str = "something has it that does not answer as a relay does, unless it is one that is stopped or busy; choose another port with --port";

/// Tries to start a relay at a port that is taken, with nothing in `PATH`.
fn try_to_serve(port: u16) -> assert_cmd::assert::Assert {
    let mut serve = relay(&["serve", "--port", &port.to_string()]);
    serve.env("PATH", "").assert()
}

/// What is said of a relay that no other process is connected to.
fn says(port: u16, found: &str) -> String {
    format!("relay already running? kill it with: kill $(lsof -ti:{port})\nport {port}: {found}\n")
}

/// What is said of anything else.
fn says_of_a_stranger(port: u16) -> String {
    format!("relay serve: port {port} is taken: {NO_RELAY}\n")
}

/// Writes a moment as this machine's clock shows it.
fn local_time(ts: &str) -> String {
    let at = chrono::DateTime::parse_from_rfc3339(ts).expect("a time");
    at.with_timezone(&chrono::Local)
        .format("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// Takes a port and has `answer` deal with whoever connects.
fn other_program(answer: impl Fn(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", free_port())).expect("the port is free");
    let port = listener.local_addr().expect("it listens").port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
    port
}

#[test]
fn a_running_relay_is_told_by_its_version_and_start() {
    let running = Relay::start();
    let started_at = running.health()["started_at"].clone();
    let started_at = local_time(started_at.as_str().expect("a time"));
    let stop = format!("{} stop --port {}", env!("CARGO_BIN_EXE_relay"), running.port);
    let found = format!(
        "relay {VERSION} answers there, started at {started_at}; choose another port with --port; this ends it alone: {stop}"
    );
    try_to_serve(running.port)
        .code(1)
        .stdout("")
        .stderr(says(running.port, &found));
    // The one that runs is not disturbed.
    running.session(Way::Sse).post("pm", "dev-a", "still here");
}

#[test]
fn a_running_relay_with_a_token_is_told_too() {
    let running = Relay::start_with(&["--token", "0123456789abcdef"], &[]);
    let stop = format!("{} stop --port {}", env!("CARGO_BIN_EXE_relay"), running.port);
    let found = format!(
        "a relay with another token answers there; choose another port with --port; this ends it alone: {stop} --token TOKEN"
    );
    try_to_serve(running.port)
        .code(1)
        .stdout("")
        .stderr(says(running.port, &found));
    let mut knowing = relay(&["serve", "--port", &running.port.to_string()]);
    let ends_it = contains(format!(
        "this ends it alone (with RELAY_TOKEN set to its token): {stop}\n"
    ));
    knowing
        .env("RELAY_TOKEN", "0123456789abcdef")
        .env("PATH", "")
        .assert()
        .code(1)
        .stderr(ends_it.clone());
    // Who was to listen at all addresses would have met it at this machine's own.
    let mut everywhere = relay(&["serve", "--host", "0.0.0.0", "--port", &running.port.to_string()]);
    everywhere
        .env("RELAY_TOKEN", "0123456789abcdef")
        .env("PATH", "")
        .assert()
        .code(1)
        .stderr(ends_it);
}

#[test]
fn a_relay_that_is_to_listen_everywhere_looks_for_the_other_on_this_machine() {
    let running = Relay::start_with(&["--token", "0123456789abcdef"], &[]);
    let port = running.port;
    let mut serve = relay(&["serve", "--host", "0.0.0.0", "--port", &port.to_string()]);
    let said = serve
        .env("RELAY_TOKEN", "0123456789abcdef")
        .env("PATH", "")
        .assert()
        .code(1);
    let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    let stop = format!("its token): {} stop --port {port}\n", env!("CARGO_BIN_EXE_relay"));
    assert!(said.ends_with(&stop), "{said}");
}

/// `lsof` lists both ends of a connection, so the shorter command would end the client too.
#[test]
fn a_running_relay_that_has_clients_is_ended_alone() {
    let running = Relay::start();
    let port = running.port;
    let both = ["127.0.0.1", "::1"];
    for host in both
        .into_iter()
        .filter(|host| *host != "::1" || has_ipv6_loopback())
    {
        let client = TcpStream::connect((host, port)).expect("it listens");
        let hint = format!(
            "relay already running? kill it with: kill $(lsof -ti:{port} -sTCP:LISTEN)\nport {port}: relay "
        );
        let stop = format!(
            "this ends it alone: {} stop --port {port}\n",
            env!("CARGO_BIN_EXE_relay")
        );
        let said = predicates::str::starts_with(hint).and(predicates::str::ends_with(stop));
        try_to_serve(port).code(1).stdout("").stderr(said);
        drop(client);
        let hint = format!("relay already running? kill it with: kill $(lsof -ti:{port})\n");
        try_to_serve(port)
            .code(1)
            .stderr(predicates::str::starts_with(hint));
    }
}

/// `lsof` lists whatever has the number of the port, at another address and for UDP too.
#[test]
#[cfg(target_os = "linux")]
fn a_running_relay_beside_others_with_its_port_is_ended_by_relay_stop_alone() {
    let running = Relay::start();
    let port = running.port;
    let stop = format!(
        "this ends it alone: {} stop --port {port}\n",
        env!("CARGO_BIN_EXE_relay")
    );
    let refused = || {
        let taken = format!("relay serve: port {port} is taken: relay ");
        let said = predicates::str::starts_with(taken).and(predicates::str::ends_with(stop.clone()));
        try_to_serve(port)
            .code(1)
            .stdout("")
            .stderr(said.and(contains("kill").not()));
    };
    let mut second = Relay::start_at(port, &["--host", "127.0.0.2"], &[]);
    refused();
    second.kill();
    let listener = TcpListener::bind(("127.0.0.2", port)).expect("the port is free");
    refused();
    drop(listener);
    let udp = std::net::UdpSocket::bind(("127.0.0.1", port)).expect("the port is free");
    refused();
    drop(udp);
    let hint = format!("relay already running? kill it with: kill $(lsof -ti:{port})\n");
    try_to_serve(port)
        .code(1)
        .stderr(predicates::str::starts_with(hint));
}

#[test]
fn relay_listens_on_both_loopback_addresses_at_one_port() {
    let ask = |host: &str, port: u16| {
        let mut stream = TcpStream::connect((host, port))?;
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    for host in ["127.0.0.1", "::1", "localhost"] {
        if host == "::1" && !has_ipv6_loopback() {
            continue;
        }
        for any in [false, true] {
            let given = if any { 0 } else { free_port() };
            let mut serve = relay_command();
            serve.args(["serve", "--host", host, "--port", &given.to_string()]);
            let mut serve = Process::start(serve.stdout(std::process::Stdio::piped()));
            let stdout = serve.child.stdout.take().expect("it is piped");
            let mut first = String::new();
            BufReader::new(stdout).read_line(&mut first).expect("the banner");
            let port = first
                .trim_end()
                .strip_prefix("[relay] server ready on :")
                .expect("the banner");
            let port: u16 = port.parse().expect("a port");
            assert!(port > 0 && (any || port == given), "{first}");
            for host in ["127.0.0.1", "::1"] {
                if host == "::1" && !has_ipv6_loopback() {
                    continue;
                }
                let answer = ask(host, port).expect("it listens");
                assert!(answer.contains(&format!("\"port\":{port},")), "{host}: {answer}");
            }
            serve.kill();
        }
    }
    // Of this machine's other addresses one is as good as it is.
    let mut running = Relay::start_with(&["--host", "127.0.0.2"], &[]);
    assert!(ask("127.0.0.1", running.port).is_err());
    running.kill();
}

#[test]
fn a_listener_on_the_other_loopback_address_has_the_port_too() {
    if !has_ipv6_loopback() {
        return;
    }
    let port = free_port();
    let listener = TcpListener::bind(("::1", port)).expect("the port is free");
    try_to_serve(port)
        .code(1)
        .stdout("")
        .stderr(says_of_a_stranger(port));
    drop(listener);

    let port = other_program(drop);
    relay(&["serve", "--host", "::1", "--port", &port.to_string()])
        .assert()
        .code(1)
        .stdout("")
        .stderr(says_of_a_stranger(port));
}

#[test]
fn a_program_that_says_nothing_is_no_relay() {
    let listener = TcpListener::bind(("127.0.0.1", free_port())).expect("the port is free");
    let port = listener.local_addr().expect("it listens").port();
    let started = Instant::now();
    try_to_serve(port)
        .code(1)
        .stdout("")
        .stderr(says_of_a_stranger(port));
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_program_that_hangs_up_is_no_relay() {
    let port = other_program(drop);
    try_to_serve(port)
        .code(1)
        .stdout("")
        .stderr(says_of_a_stranger(port));
}

#[test]
fn a_program_that_speaks_another_http_is_no_relay() {
    for body in [
        "hello",
        "{}",
        "[]",
        r#"{"name":"other","version":"1","started_at":"now"}"#,
        r#"{"name":"relay"}"#,
    ] {
        let port = other_program(move |mut stream| {
            let length = body.len();
            let _ = stream.read(&mut [0; 1024]);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
            );
        });
        try_to_serve(port)
            .code(1)
            .stdout("")
            .stderr(says_of_a_stranger(port));
    }
}

#[test]
fn a_program_that_keeps_its_connections_open_is_no_relay() {
    let port = other_program(|mut stream| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        // Reads until the other side hangs up.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    try_to_serve(port)
        .code(1)
        .stdout("")
        .stderr(says_of_a_stranger(port));
}

#[test]
fn a_program_that_never_stops_answering_is_no_relay() {
    let port = other_program(|mut stream| {
        let mut answer = "HTTP/1.1 200 OK\r\n\r\n".to_owned();
        while stream.write_all(answer.as_bytes()).is_ok() {
            ".".clone_into(&mut answer);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let started = Instant::now();
    let mut serve = relay(&["serve", "--port", &port.to_string()]);
    serve.timeout(Duration::from_secs(10));
    let output = serve
        .env("PATH", "")
        .output()
        .expect("the built relay can be started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        (output.status.code(), said),
        (Some(1), says_of_a_stranger(port)),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_relay_that_is_to_listen_everywhere_over_ipv6_looks_for_the_other_on_this_machine() {
    if !has_ipv6_loopback() {
        return;
    }
    let token = "0123456789abcdef";
    let running = Relay::start_with(&["--host", "::1", "--token", token], &[]);
    let port = running.port;
    let mut serve = relay(&["serve", "--host", "::", "--port", &port.to_string()]);
    let said = serve.env("RELAY_TOKEN", token).env("PATH", "").assert().code(1);
    let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    let stop = format!(
        "its token): {} stop --host ::1 --port {port}\n",
        env!("CARGO_BIN_EXE_relay")
    );
    assert!(said.ends_with(&stop), "{said}");
}
