//! The socket: whose it is, when it is there, and what it is to those who are let in.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use super::*;
use crate::support::http::Request;

fn mode(path: &Path) -> u32 {
    let metadata = std::fs::symlink_metadata(path).expect("it is there");
    metadata.permissions().mode() & 0o777
}

/// Asks something over a unix socket and returns the status and the body.
fn ask(socket: &Path, request: Request) -> (u16, Value) {
    let mut stream = UnixStream::connect(socket).expect("a relay listens");
    let request = request.with("Connection", "close");
    stream.write_all(&request.bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer to its end");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).expect("a status");
    let body = serde_json::from_str(body).expect("JSON");
    (status.parse().expect("a number"), body)
}

fn pid_behind(socket: &Path) -> u64 {
    let (status, health) = ask(socket, Request::get("/health"));
    assert_eq!(status, 200, "{health}");
    health["pid"].as_u64().expect("a process")
}

#[test]
fn the_socket_and_its_directory_are_the_users_alone() {
    let relay = Relay::start();
    let socket = relay.socket();
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(socket.parent().expect("it has one")), 0o700);
    assert_eq!(pid_behind(&socket), u64::from(relay.pid()));
}

#[test]
fn an_agent_is_told_of_the_socket_and_of_the_port_where_there_is_none() {
    let told_by = |relay: &Relay| {
        let mut agent = Agent::start_with(relay.port, &["--agent", "Alice", "--tools", "agent-relay"]);
        agent.call("relay_status", &serde_json::json!({})).texts.concat()
    };
    let relay = Relay::start();
    let (status, socket) = (told_by(&relay), relay.socket());
    assert!(
        status.contains(&format!("- Socket: {}\n", text(&socket))),
        "{status}"
    );
    // Another relay of the project has it.
    let own = [("XDG_DATA_HOME", relay.runtime.path())].map(|(name, path)| (name, text(path)));
    let second = Relay::start_with(&[], &own);
    let status = told_by(&second);
    let place = format!("- Socket: 127.0.0.1:{}\n", second.port);
    assert!(status.contains(&place), "{status}");
}

#[test]
fn a_token_is_asked_for_at_the_port_and_not_at_the_socket_and_web_pages_are_refused_at_both() {
    let relay = Relay::start_with(&["--token", "0123456789abcdef"], &[]);
    let health = || Request::get("/health");
    assert_eq!(relay.connect().exchange(&health()).status, 401);
    assert_eq!(ask(&relay.socket(), health()).0, 200);
    let page = health().with("Origin", "http://evil.example");
    assert_eq!(ask(&relay.socket(), page).0, 403);
    let name = health().with("Host", "evil.example");
    assert_eq!(ask(&relay.socket(), name).0, 403);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert_eq!(ask(&relay.socket(), Request::post("/mcp", list)).0, 200);
}

#[test]
fn the_socket_of_a_relay_that_was_killed_is_replaced_by_the_next_one() {
    let mut relay = Relay::start();
    let socket = relay.socket();
    relay.kill();
    assert!(UnixStream::connect(&socket).is_err());
    assert!(socket.exists());
    relay.restart();
    assert_eq!(pid_behind(&socket), u64::from(relay.pid()));
    assert_eq!(relay.into_stderr(), "");
}

#[test]
fn a_live_socket_is_left_to_its_relay_and_the_second_one_serves_its_port() {
    let first = Relay::start();
    let data = text(first.runtime.path());
    let mut second = Relay::start_with(&[], &[("XDG_DATA_HOME", data)]);
    assert_eq!(pid_behind(&first.socket()), u64::from(first.pid()));
    assert_eq!(second.health()["pid"], second.pid());
    second.signal("TERM");
    assert!(second.exit_status().success());
    // It is not the second one's to remove.
    assert_eq!(pid_behind(&first.socket()), u64::from(first.pid()));
    let said = second.into_stderr();
    let reason = format!(
        "relay is reached by its port alone: another relay has the unix socket {}; give this one a socket of its own with \
         --project (or RELAY_PROJECT)",
        first.socket().display()
    );
    assert_eq!(said.matches(&reason).count(), 1, "{said}");
}

#[test]
fn each_project_has_a_socket_of_its_own() {
    let first = Relay::start();
    let data = text(first.runtime.path());
    let second = Relay::start_with(&["--project", "other"], &[("XDG_DATA_HOME", data)]);
    let socket = first.runtime.path().join("relay/projects/other/relay.sock");
    assert_eq!(pid_behind(&first.socket()), u64::from(first.pid()));
    assert_eq!(pid_behind(&socket), u64::from(second.pid()));
    let mut refused = command(first.runtime.path(), &[]);
    let refused = refused.args(["serve", "--project", "../up"]).output();
    let refused = refused.expect("the built relay can be started");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("invalid project name \"../up\""), "{said}");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn an_orderly_end_removes_the_socket() {
    for name in ["TERM", "INT"] {
        let mut relay = Relay::start();
        let socket = relay.socket();
        assert!(socket.exists());
        relay.signal(name);
        assert!(relay.exit_status().success());
        assert!(!socket.exists());
        assert_eq!(relay.into_stderr(), "");
    }
}

#[test]
fn an_orderly_end_leaves_a_socket_that_is_another_ones() {
    let mut relay = Relay::start();
    let socket = relay.socket();
    std::fs::remove_file(&socket).expect("it is there");
    let _other = std::os::unix::net::UnixListener::bind(&socket).expect("nothing is there");
    relay.signal("TERM");
    assert!(relay.exit_status().success());
    assert!(UnixStream::connect(&socket).is_ok());
}

#[test]
fn a_relay_that_cannot_have_a_socket_says_why_once_and_serves_its_port() {
    let long = format!("/{}", "d".repeat(120));
    for (data, reason) in [
        (
            "",
            "neither XDG_DATA_HOME nor HOME says where its unix socket is; set one of them".to_owned(),
        ),
        (
            &long,
            format!(
                "the path of the unix socket {long}/relay/projects/default/relay.sock has 155 bytes, more than the system \
                 takes; name a shorter directory with XDG_DATA_HOME"
            ),
        ),
    ] {
        let relay = Relay::start_with(&[], &[("XDG_DATA_HOME", data), ("HOME", "")]);
        assert_eq!(relay.health()["pid"], relay.pid());
        let said = relay.into_stderr();
        let reason = format!("relay is reached by its port alone: {reason}\n");
        assert_eq!(said.matches(&reason).count(), 1, "{said}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_socket_at_which_another_user_listens_is_not_spoken_to() {
    if !rustix::process::getuid().is_root() {
        eprintln!("left out: only root can be another user too");
        return;
    }
    if !crate::needs::LIMITS.is_met_or_said() {
        return;
    }
    let directory = tempfile::tempdir().expect("there is room");
    let (program, socket) = (directory.path().join("relay"), directory.path().join("own.sock"));
    std::fs::copy(env!("CARGO_BIN_EXE_relay"), &program).expect("there is room");
    let _listens = std::os::unix::net::UnixListener::bind(&socket).expect("nothing is there");
    for (path, mode) in [(directory.path(), 0o755), (&*program, 0o755), (&*socket, 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    let mut status = Command::new("setpriv");
    status.args(["--reuid", "65534", "--clear-groups", "--bounding-set=-all"]);
    status.arg(&program).arg("status").current_dir("/");
    for (name, value) in command(directory.path(), &[]).get_envs() {
        match value {
            Some(value) => status.env(name, value),
            None => status.env_remove(name),
        };
    }
    let output = status.env("RELAY_SOCKET", &socket).output().expect("it starts");
    let said = format!(
        "relay status: cannot reach {}: user 0 listens there, not user 65534; relay asks its own user's relay only\n",
        socket.display()
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    assert_eq!(output.status.code(), Some(1));
}
