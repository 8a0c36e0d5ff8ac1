use super::*;

#[test]
fn the_relay_ends_in_order_and_what_was_unread_is_told() {
    let mut relay = Relay::start();
    let mut session = relay.session(Way::Sse);
    for (to, body) in [("pm", "one"), ("pm", "two"), ("user", "three"), ("dev-b", "read")] {
        session.post("dev-a", to, body);
    }
    session.read("dev-b");
    session.hear_of_start("dev-a");
    let wait = session.wait("dev-a", 280.0);
    await_wait(&relay, "dev-a");
    // What the person holds is gone with the rest.
    ask(relay.port, &["hold", "pm"]).assert().code(0);
    let pid = relay.health()["pid"].clone();
    ask(relay.port, &["stop"])
        .assert()
        .code(0)
        .stdout(format!(
            "relay on 127.0.0.1:{} (pid {pid}) stopped; unread, now gone: pm 2, user 1\n",
            relay.port
        ))
        .stderr("");
    // The port is free, the process ends by itself, and the agent is not disturbed: its wait was answered.
    TcpListener::bind(("127.0.0.1", relay.port)).expect("the port is free");
    assert_eq!(session.finish(wait).bodies(), Vec::<String>::new());
    assert_eq!(relay.exit_status().code(), Some(0));
    let last = relay.last_lines().pop();
    assert_eq!(
        last.as_deref(),
        Some("[relay] stopped; unread, now gone: pm 2, user 1")
    );
}

#[test]
fn json_names_the_process_and_what_was_unread() {
    let mut relay = Relay::start();
    relay.session(Way::Sse).post("pm", "dev-a", "one");
    let pid = relay.health()["pid"].clone();
    let stopped = ask(relay.port, &["stop", "--json"]).assert().code(0).stderr("");
    let stopped: Value = serde_json::from_str(&stdout_of(&stopped)).expect("JSON");
    assert_eq!(
        stopped,
        json!({"pid": pid, "unread": {"dev-a": 1}, "workers": []})
    );
    assert_eq!(relay.exit_status().code(), Some(0));
}

#[test]
fn a_relay_with_nothing_unread_just_stops() {
    let mut relay = Relay::start();
    let pid = relay.health()["pid"].clone();
    let stopped = format!("relay on 127.0.0.1:{} (pid {pid}) stopped\n", relay.port);
    ask(relay.port, &["stop"]).assert().code(0).stdout(stopped);
    assert_eq!(relay.exit_status().code(), Some(0));
    assert_eq!(relay.last_lines(), ["[relay] stopped"]);
}

#[test]
fn ctrl_c_tells_what_was_unread_too() {
    let mut relay = Relay::start();
    relay.session(Way::Http).post("dev-a", "pm", "one");
    assert!(relay.line().ends_with("dev-a → pm [free] \"one\""));
    relay.signal("INT");
    assert_eq!(relay.exit_status().code(), Some(0));
    assert_eq!(relay.last_lines(), ["[relay] stopped; unread, now gone: pm 1"]);
}

#[test]
fn a_process_that_does_not_listen_there_is_left_alone() {
    // As a tunnel to another machine's relay would have it: a process of that number runs here, too.
    let mut bystander = std::process::Command::new("sleep");
    let mut bystander = Process::start(bystander.arg("600"));
    let pid = bystander.child.id();
    is_left_alone(pid);
    assert_eq!(bystander.child.try_wait().expect("it is a child"), None);
    signal(pid, "TERM");
}

#[test]
fn a_process_that_listens_elsewhere_is_left_alone() {
    let other = Relay::start();
    let pid = other.health()["pid"].as_u64().expect("a number");
    is_left_alone(u32::try_from(pid).expect("a process"));
    ask(other.port, &["status"]).assert().code(0);
}

/// Answers as a relay that tells this of its process, at a port that it returns.
fn answers_as(pid: &Value) -> u16 {
    let health = json!({"name": "relay", "version": "0.1.0", "started_at": "now", "pid": pid}).to_string();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{health}",
        health.len()
    );
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it listens").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

/// Has `relay stop` ask a port where that process is said to listen, and does not.
fn is_left_alone(pid: u32) {
    let port = answers_as(&json!(pid));
    let said = format!(
        "relay stop: relay on 127.0.0.1:{port} says that it is process {pid}, and no such process of yours listens \
         here; stop it where it runs, as who runs it\n"
    );
    ask(port, &["stop"]).assert().code(1).stdout("").stderr(said);
}

#[cfg(target_os = "linux")]
#[test]
fn a_relay_that_does_not_end_is_told() {
    let port = free_port();
    let relay = relay_command();
    let mut deaf = std::process::Command::new("env");
    deaf.arg("--block-signal=TERM").arg(relay.get_program());
    deaf.args(["serve", "--port", &port.to_string()]);
    deaf.envs(relay.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let relay = Process::start(&mut deaf);
    until("the relay answers", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let said = format!(
        "relay stop: process {} was asked to end and still listens on 127.0.0.1:{port} after 15 s\n",
        relay.child.id()
    );
    ask(port, &["stop"]).assert().code(4).stdout("").stderr(said);
}

#[test]
fn a_relay_on_the_other_loopback_address_is_stopped_by_that() {
    if !has_ipv6_loopback() {
        return;
    }
    let port = free_port();
    let mut relay = relay_command();
    relay.args(["serve", "--host", "::1", "--port", &port.to_string()]);
    let mut relay = Process::start(&mut relay);
    until("the relay answers", || TcpStream::connect(("::1", port)).is_ok());
    ask(port, &["stop", "--host", "::1"])
        .assert()
        .code(0)
        .stdout(contains(format!(
            "relay on [::1]:{port} (pid {}) stopped\n",
            relay.child.id()
        )));
    assert_eq!(relay.exit_status().code(), Some(0));
}

#[test]
fn a_relay_that_tells_no_process_that_could_be_it_is_not_stopped() {
    for pid in [Value::Null, json!(0), json!(1)] {
        let port = answers_as(&pid);
        let said = format!(
            "relay stop: relay 0.1.0 on 127.0.0.1:{port} does not tell its process; end it with Ctrl-C where it runs\n"
        );
        ask(port, &["stop"]).assert().code(1).stdout("").stderr(said);
    }
}
