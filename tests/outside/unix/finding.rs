//! How the bridge and the commands of a person find a relay, and find it again.

mod bridges;

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use super::*;

/// An empty directory to work in.
pub fn place() -> tempfile::TempDir {
    tempfile::tempdir().expect("the system has room for a directory")
}

/// Runs `relay status` and returns its exit code, what it wrote to stdout, and to stderr.
fn status(directory: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = command(directory, variables);
    let output = command.arg("status").args(arguments).output();
    let output = output.expect("the built relay can be started");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|said| String::from_utf8(said).expect("text"));
    (output.status.code(), stdout, stderr)
}

/// Writes `.relay/config.json` into a directory.
pub fn configure(directory: &Path, config: &Value) -> PathBuf {
    fs::create_dir_all(directory.join(".relay")).expect("there is room");
    let file = directory.join(".relay/config.json");
    fs::write(&file, config.to_string()).expect("there is room");
    file
}

#[test]
fn a_relay_is_found_by_each_source_and_status_tells_which() {
    let relay = Relay::start_told();
    let (data, socket) = (relay.runtime.path(), relay.socket());
    let (empty, configured) = (place(), place());
    let directory = configured.path().canonicalize().expect("it is there");
    let file = configure(&directory, &json!({"socketPath": socket}));
    let data = ("XDG_DATA_HOME", text(data));
    let by_socket = ("RELAY_SOCKET", text(&socket));
    let ways = [
        (
            empty.path(),
            vec![by_socket],
            "RELAY_SOCKET",
            "RELAY_SOCKET".to_owned(),
        ),
        (
            empty.path(),
            vec![data, ("RELAY_PROJECT", "default")],
            "RELAY_PROJECT",
            "RELAY_PROJECT".to_owned(),
        ),
        (&directory, vec![], "config", file.display().to_string()),
        (
            empty.path(),
            vec![data],
            "scan",
            "its socket, the only live one".to_owned(),
        ),
    ];
    for (directory, variables, source, found_by) in ways {
        let mut agent = bridge(directory, &variables);
        agent.post("dev-a", "pm", source).posted();
        assert_eq!(agent.read("pm").bodies(), [source]);
        agent.end();

        let (code, told, said) = status(directory, &variables, &["--json"]);
        assert_eq!((code, &*said), (Some(0), ""));
        let told: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!(told["found"], json!({"source": source, "at": socket}));
        assert_eq!(told["pid"], relay.pid());
        let (_, told, _) = status(directory, &variables, &[]);
        let head = format!(
            "relay {} on {}, port {}, pid {}\nfound by {found_by}\n",
            env!("CARGO_PKG_VERSION"),
            socket.display(),
            relay.port,
            relay.pid()
        );
        assert!(told.starts_with(&head), "{told}");
    }
    let port = relay.port.to_string();
    let (_, told, _) = status(empty.path(), &[by_socket], &["--json", "--port", &port]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let found = json!({"source": "port", "at": format!("127.0.0.1:{port}")});
    assert_eq!(told["found"], found);
    let (_, told, _) = status(empty.path(), &[by_socket, ("RELAY_PORT", &port)], &["--json"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["found"], found);
}

#[test]
fn a_redirect_of_thrums_leads_to_the_relay_of_the_main_checkout() {
    let relay = Relay::start_told();
    let (main, tree) = (place(), place());
    let directory = main.path().canonicalize().expect("it is there");
    let file = configure(&directory, &json!({"socketPath": relay.socket()}));
    fs::create_dir(tree.path().join(".thrum")).expect("a directory");
    let kept = directory.join(".thrum");
    fs::write(
        tree.path().join(".thrum/redirect"),
        format!("{}\n", kept.display()),
    )
    .expect("a file");
    let (code, told, said) = status(tree.path(), &[], &["--json"]);
    assert_eq!((code, &*said), (Some(0), ""));
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["found"], json!({"source": "config", "at": relay.socket()}));
    let (_, told, _) = status(tree.path(), &[], &[]);
    assert!(
        told.contains(&format!("\nfound by {}\n", file.display())),
        "{told}"
    );
    let mut agent = bridge(tree.path(), &[]);
    agent.post("dev-a", "pm", "x").posted();
    assert_eq!(relay.bodies("pm"), ["x"]);
}

#[test]
fn what_a_person_asks_for_is_asked_of_the_relay_that_is_found_by_its_socket() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let asked = |arguments: &[&str]| {
        let mut command = command(directory.path(), &[data]);
        let output = command
            .args(arguments)
            .output()
            .expect("the built relay can be started");
        let [told, said] = [output.stdout, output.stderr].map(|said| String::from_utf8(said).expect("text"));
        (output.status.code(), told, said)
    };
    let mut relay = Relay::start_with(&[], &[data]);
    let (_, told, _) = status(directory.path(), &[data], &[]);
    assert!(told.contains(&format!(", port {}, pid ", relay.port)), "{told}");
    let (code, told, said) = asked(&["send", "pm", "hello"]);
    assert_eq!((code, &*told), (Some(0), "sent to pm\n"));
    assert!(said.starts_with("note: no agent has read for pm "), "{said}");
    for taking in ["peek", "read"] {
        let (code, told, _) = asked(&[taking, "pm"]);
        assert_eq!((code, told.ends_with("\n  hello\n")), (Some(0), true), "{told}");
    }
    let (code, told, said) = asked(&["stop"]);
    let stopped = format!("relay on 127.0.0.1:{} ", relay.port);
    assert_eq!(
        (code, told.starts_with(&stopped), &*said),
        (Some(0), true, ""),
        "{told}"
    );
    assert!(relay.exit_status().success());
    let other = Relay::start_with(&["--project", "other"], &[data]);
    let second = Relay::start_with(&[], &[data]);
    let (code, _, said) = asked(&["send", "pm", "hello"]);
    assert_eq!(code, Some(1));
    assert!(said.starts_with("relay send: several relays run: "), "{said}");
    assert_eq!(
        [other.bodies("pm"), second.bodies("pm")].concat(),
        [] as [String; 0]
    );
}

#[test]
fn of_two_relays_one_must_be_chosen() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let relays = ["a", "b"].map(|project| Relay::start_with(&["--project", project], &[data]));
    let socket = |project: &str| {
        let socket = format!("relay/projects/{project}/relay.sock");
        directory.path().join(socket).display().to_string()
    };
    let reason = format!(
        "several relays run: a ({}), b ({}); choose one with RELAY_PROJECT=NAME or RELAY_SOCKET=PATH",
        socket("a"),
        socket("b")
    );
    let (code, told, said) = status(directory.path(), &[data], &[]);
    assert_eq!((code, &*told), (Some(1), ""));
    assert_eq!(said, format!("relay status: {reason}\n"));
    let mut agent = bridge(directory.path(), &[data]);
    let refused = agent.read("pm");
    assert_eq!(
        (refused.texts, refused.is_error),
        (vec![format!("Error: {reason}")], true)
    );
    let mut waiter = Waiter::start(directory.path(), data);
    // Both live on, and find the one that is left.
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(waiter.is_waiting());
    let [mut first, second] = relays;
    first.kill();
    agent.post("dev-a", "pm", "x").posted();
    assert_eq!(second.bodies("pm"), ["x"]);
    crate::support::until("it stands by", || {
        let connections = second.health()["connections"].to_string();
        connections.contains("\"can_be_woken\":true")
    });
    agent.post("dev-a", "pm", "wake up").posted();
    assert!(waiter.said().contains("wake up"));
}

/// A waiter of a program of pm: this test's own process, so that it is alive.
struct Waiter(std::process::Child);

impl Waiter {
    fn start(directory: &Path, data: (&str, &str)) -> Self {
        let process = std::process::id().to_string();
        let program = [
            data,
            ("RELAY_AGENT", "pm"),
            ("CLAUDE_PID", &process),
            ("CLAUDE_CODE_ENTRYPOINT", "cli"),
        ];
        let mut command = command(directory, &program);
        command.args(["hook", "claude", "wait"]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        Self(command.spawn().expect("the built relay can be started"))
    }

    fn is_waiting(&mut self) -> bool {
        self.0.try_wait().expect("it is this test's own").is_none()
    }

    /// What it has said at its end.
    fn said(&mut self) -> String {
        let mut said = String::new();
        let stderr = self.0.stderr.as_mut().expect("it is piped");
        std::io::Read::read_to_string(stderr, &mut said).expect("text");
        said
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _code = self.0.wait();
    }
}

#[test]
fn status_of_a_socket_where_nobody_listens_says_what_to_do() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let socket = directory.path().join("none.sock");
    for (variables, named_by) in [
        (
            vec![data, ("RELAY_SOCKET", text(&socket))],
            format!(
                "{}, named by RELAY_SOCKET; start that relay again, or name the socket of another with RELAY_SOCKET, or \
                 its project with RELAY_PROJECT",
                socket.display()
            ),
        ),
        (
            vec![data, ("RELAY_PROJECT", "default")],
            format!(
                "{}, named by RELAY_PROJECT; start it with: {} serve",
                directory
                    .path()
                    .join("relay/projects/default/relay.sock")
                    .display(),
                env!("CARGO_BIN_EXE_relay")
            ),
        ),
    ] {
        let (code, told, said) = status(directory.path(), &variables, &["--json"]);
        assert_eq!((code, &*told), (Some(1), ""));
        assert_eq!(
            said,
            format!("relay status: relay is not running on {named_by}\n")
        );
    }
}

/// Runs a command of the person's and returns its exit code, what it wrote to stdout, and to stderr.
fn asked(variables: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String, String) {
    let directory = place();
    let output = command(directory.path(), variables).args(arguments).output();
    let output = output.expect("the built relay can be started");
    let [told, said] = [output.stdout, output.stderr].map(|said| String::from_utf8(said).expect("text"));
    (output.status.code(), told, said)
}

/// All that a person asks of a relay's port.
const ASKED_AT_THE_PORT: [&[&str]; 4] = [&["send", "pm", "x"], &["read", "pm"], &["peek", "pm"], &["stop"]];

#[test]
fn a_relay_that_has_the_port_of_the_one_that_was_found_is_not_asked_in_its_stead() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let other = Relay::start_with(&["--project", "b"], &[data]);
    let port = other.port;
    let found = ["--project", "a", "--host", "127.0.0.2"];
    let _found = Relay::start_at(port, &found, &[data]);
    let socket = directory.path().join("relay/projects/a/relay.sock");
    for arguments in ASKED_AT_THE_PORT {
        let (code, told, said) = asked(&[data, ("RELAY_PROJECT", "a")], arguments);
        let expected = format!(
            "relay {}: relay runs on {}, but at 127.0.0.1:{port} another relay listens; name the address that it listens on: --host ADDRESS --port {port}\n",
            arguments[0],
            socket.display()
        );
        assert_eq!((code, told, said), (Some(1), String::new(), expected));
    }
    assert_eq!(other.pending()["pm"], 0);
    let there = [
        "send",
        "pm",
        "x",
        "--host",
        "127.0.0.2",
        "--port",
        &port.to_string(),
    ];
    assert_eq!(asked(&[data, ("RELAY_PROJECT", "a")], &there).0, Some(0));
    assert_eq!(other.pending()["pm"], 0);
}

#[test]
fn a_relay_that_runs_and_listens_elsewhere_is_not_said_to_be_absent() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let port = crate::support::process::free_port();
    let _relay = Relay::start_at(port, &["--host", "127.0.0.2"], &[data]);
    let socket = directory.path().join("relay/projects/default/relay.sock");
    for arguments in ASKED_AT_THE_PORT {
        let (code, told, said) = asked(&[data], arguments);
        let expected = format!(
            "relay {}: relay runs on {}, but at 127.0.0.1:{port} nothing listens; name the address that it listens on: --host ADDRESS --port {port}\n",
            arguments[0],
            socket.display()
        );
        assert_eq!((code, told, said), (Some(1), String::new(), expected));
    }
}

#[test]
fn an_empty_variable_says_nothing() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let relay = Relay::start_with(&[], &[data]);
    let empty = [
        data,
        ("RELAY_PORT", ""),
        ("RELAY_SOCKET", ""),
        ("RELAY_PROJECT", ""),
    ];
    let (code, told, _) = asked(&empty, &["send", "pm", "hello"]);
    assert_eq!((code, told), (Some(0), "sent to pm\n".to_owned()));
    assert_eq!(status(directory.path(), &empty, &[]).0, Some(0));
    let mut agent = bridge(directory.path(), &empty);
    assert_eq!(agent.read("pm").bodies(), ["hello"]);
    let (code, _, said) = asked(&[data, ("RELAY_PORT", "x")], &["peek"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("a port is a number from 1 to 65535"), "{said}");
    drop(relay);
}

#[test]
fn another_program_at_the_port_of_the_relay_that_was_found_is_told_by_a_hook_too() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let port = crate::support::process::free_port();
    let other = std::net::TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    std::thread::spawn(move || other.incoming().for_each(drop));
    let _relay = Relay::start_at(port, &["--host", "127.0.0.2"], &[data]);
    let socket = directory.path().join("relay/projects/default/relay.sock");
    for (arguments, code) in [(vec!["peek", "pm"], 1), (vec!["hook", "claude"], 0)] {
        let expected = format!(
            "relay {}: relay runs on {}, but at 127.0.0.1:{port} something else listens; name the address that it listens on: --host ADDRESS --port {port}\n",
            arguments[0],
            socket.display()
        );
        let told = asked(&[data], &arguments);
        assert_eq!(told, (Some(code), String::new(), expected));
    }
}

/// Answers what comes over a connection as a relay does that says this of itself.
fn answer(mut stream: impl std::io::Read + std::io::Write, more: &str) {
    let health = format!(r#"{{"name":"relay","version":"0.1.0","started_at":"now"{more}}}"#);
    let _asked = stream.read(&mut [0; 1024]);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", health.len());
    let _told = stream.write_all((head + &health).as_bytes());
}

#[test]
fn a_relay_that_does_not_tell_its_port_or_its_start_is_asked_at_none() {
    let directory = place();
    let socket = directory.path().join("own.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("nothing is there");
    let other = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    let port = other.local_addr().expect("it listens").port();
    std::thread::spawn(move || other.incoming().flatten().for_each(|stream| answer(stream, "")));
    let of_port = format!(",\"port\":{port}");
    std::thread::spawn(move || {
        let all = ["", "", &*of_port];
        for (stream, more) in listener.incoming().flatten().zip(all) {
            answer(stream, more);
        }
    });
    let at = socket.display();
    let no_port = format!("relay on {at} does not tell its port; name it with --port\n");
    let elsewhere = format!(
        "relay runs on {at}, but at 127.0.0.1:{port} another relay listens; name the address that it listens on: --host ADDRESS --port {port}\n"
    );
    for (arguments, code, reason) in [
        (vec!["peek", "pm"], 1, &no_port),
        (vec!["hook", "claude"], 0, &no_port),
        (vec!["peek", "pm"], 1, &elsewhere),
    ] {
        let told = asked(&[("RELAY_SOCKET", text(&socket))], &arguments);
        let expected = format!("relay {}: {reason}", arguments[0]);
        assert_eq!(told, (Some(code), String::new(), expected));
    }
}

#[test]
fn a_relay_that_is_found_by_its_socket_wants_its_token_at_its_port() {
    let relay = Relay::start_with(&["--token", "0123456789abcdef"], &[]);
    let socket = relay.socket();
    let found = [("RELAY_SOCKET", text(&socket))];
    let place = format!("relay on 127.0.0.1:{}", relay.port);
    for (arguments, said) in [
        (
            &["peek", "pm"][..],
            "wants its token; give --token (or RELAY_TOKEN)",
        ),
        (
            &["peek", "pm", "--token", "another-token-than-that"],
            "has another token than the one in --token (or RELAY_TOKEN)",
        ),
    ] {
        let said = format!("relay peek: {place} {said}\n");
        assert_eq!(asked(&found, arguments), (Some(1), String::new(), said));
    }
    let known = ["peek", "pm", "--token", "0123456789abcdef"];
    assert_eq!(asked(&found, &known).0, Some(3));
}

#[test]
fn a_socket_to_which_there_is_no_way_is_told_with_the_systems_reason() {
    // Longer than the path of a socket may be.
    let socket = format!("/tmp/{}", "x".repeat(200));
    let (code, told, said) = status(place().path(), &[("RELAY_SOCKET", &socket)], &[]);
    assert_eq!((code, &*told), (Some(1), ""));
    let begins = format!("relay status: cannot reach {socket}: path ");
    assert!(said.starts_with(&begins), "{said}");
}
