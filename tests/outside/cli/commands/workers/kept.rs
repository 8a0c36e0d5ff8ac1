//! What is kept of workers that have ended, and what those that run have of the relay.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, SystemTime};

use super::*;

/// Writes the logs of workers that have ended, the first one long ago; returns where they are.
fn logs_of(yard: &Yard, project: &str, many: u64) -> PathBuf {
    let directory = yard.relay.runtime.path();
    let directory = directory.join("relay/projects").join(project).join("workers");
    fs::create_dir_all(&directory).expect("a directory");
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&directory, own).expect("it is ours");
    for number in 0..many {
        let file = fs::File::create(directory.join(format!("old-{number}.log"))).expect("a file");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + number);
        file.set_modified(time).expect("it is ours");
    }
    directory
}

/// How many such logs there are.
fn kept(directory: &std::path::Path) -> usize {
    let entries = fs::read_dir(directory).expect("it is there").flatten();
    let names = entries.map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with("old-"))
        .count()
}

#[test]
fn logs_of_workers_that_have_ended_are_bounded_when_one_is_started_and_when_relay_is() {
    let yard = Yard::new("echo here\necho $$ >\"$HERE/$RELAY_AGENT.pid\"\nexec sleep 600");
    let (own, web) = (logs_of(&yard, "default", 40), logs_of(&yard, "web", 40));
    yard.spawn("web:w1");
    assert_eq!((kept(&own), kept(&web)), (40, 32));
    assert!(!web.join("old-7.log").exists() && web.join("old-8.log").exists());
    // One that runs and has written nothing for long is another relay's to the next one.
    until("it has a log", || web.join("w1.log").exists());
    let log = fs::File::options()
        .append(true)
        .open(web.join("w1.log"))
        .expect("it is there");
    log.set_modified(SystemTime::UNIX_EPOCH).expect("it is ours");
    logs_of(&yard, "web", 40);
    let mut command = relay_command();
    command
        .args(["serve", "--port", &free_port().to_string()])
        .current_dir(&yard.top)
        .envs(["XDG_DATA_HOME", "XDG_RUNTIME_DIR"].map(|name| (name, yard.relay.runtime.path())))
        .stdout(Stdio::null());
    let _other = Process::start(&mut command);
    until("they are removed", || (kept(&own), kept(&web)) == (32, 32));
    let logs = yard.relay.runtime.path();
    let mut logs_of_it = relay(&["logs", "web:w1"]);
    logs_of_it.env("XDG_DATA_HOME", logs);
    logs_of_it.assert().code(0).stdout("here\n");
}

#[test]
fn a_worker_may_have_as_many_files_open_as_relay_before_it_raised_that() {
    let yard = Yard::new("echo \"$(ulimit -S -n) $(ulimit -H -n)\" >\"$HERE/limits\"\nexec sleep 600");
    let port = free_port();
    let server = relay_command();
    let mut command = std::process::Command::new("sh");
    command
        .args([
            "-c",
            "ulimit -S -n 512; exec \"$0\" serve --project few --port \"$1\"",
        ])
        .arg(server.get_program())
        .arg(port.to_string())
        .envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(&yard.top)
        .stdout(Stdio::null());
    let relay = Process::start(&mut command);
    until("the relay answers", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    ask(port, &["spawn", "w1", "--cli", "claude", "--task", "count"])
        .current_dir(&yard.top)
        .assert()
        .code(0);
    let limits = fs::read_to_string(format!("/proc/{}/limits", relay.child.id())).expect("it runs");
    let of_relay = limits.lines().find(|line| line.starts_with("Max open files"));
    let of_relay: Vec<&str> = of_relay.expect("it has one").split_whitespace().collect();
    assert_eq!(of_relay[3], of_relay[4], "it has raised its own");
    assert_ne!(of_relay[3], "512");
    assert_eq!(yard.line("limits"), format!("512 {}", of_relay[4]));
}

#[test]
fn a_worker_of_a_projects_own_relay_is_told_that_project_and_its_log_is_the_projects() {
    let yard = Yard::new(
        "echo \"$RELAY_AGENT $RELAY_PROJECT $RELAY_PARENT $RELAY_PORT\" >\"$HERE/who\"\necho here\nexec sleep 600",
    );
    let own = Relay::start_in(&yard.top, &["--project", "web"], &[]);
    for name in ["web:w1", "w2"] {
        let spawn = ["spawn", name, "--cli", "claude", "--task", "count"];
        ask(own.port, &spawn).current_dir(&yard.top).assert().code(0);
        let local = name.trim_start_matches("web:");
        let who = format!("{local} web user {}", own.port);
        until("it has been told", || yard.line("who") == who);
        let logs = |arguments: &[&str]| {
            let mut logs = relay(arguments);
            logs.env("XDG_DATA_HOME", own.runtime.path());
            logs.output().expect("the built relay can be started").stdout
        };
        for arguments in [
            &["logs", local][..],
            &["logs", local, "--project", "web"],
            &["logs", &format!("web:{local}")],
        ] {
            until("it has a log", || logs(arguments) == b"here\n");
        }
    }
}

#[test]
fn a_worker_is_told_the_port_that_the_system_gave_its_relay() {
    let yard = Yard::new("echo \"$RELAY_PORT\" >\"$HERE/port\"\nexec sleep 600");
    let mut command = relay_command();
    command.args(["serve", "--project", "any", "--port", "0"]);
    command.current_dir(&yard.top).stdout(Stdio::piped());
    let mut relay = Process::start(&mut command);
    let stdout = relay.child.stdout.take().expect("it is piped");
    let mut banner = String::new();
    BufReader::new(stdout).read_line(&mut banner).expect("the banner");
    let port = banner.trim_end().strip_prefix("[relay] server ready on :");
    let port: u16 = port.and_then(|port| port.parse().ok()).expect("a port");
    ask(port, &["spawn", "w1", "--cli", "claude", "--task", "count"])
        .current_dir(&yard.top)
        .assert()
        .code(0);
    assert_eq!(yard.line("port"), port.to_string());
}

#[test]
fn a_worker_works_in_a_directory_whose_path_is_no_text() {
    use std::os::unix::ffi::OsStrExt as _;

    let directory = tempfile::tempdir().expect("a directory");
    let top = directory.path().join(std::ffi::OsStr::from_bytes(b"b\xe9"));
    fs::create_dir_all(top.join(".relay")).expect("a directory");
    let workers = json!({"workers": {"claude": {"command": ["/bin/sh", "-c", "pwd >>here; exec sleep 600"], "arguments": []}}});
    fs::write(top.join(".relay/config.json"), workers.to_string()).expect("a file");
    let own = Relay::start_in(&top, &[], &[]);
    // Not by the command, which names its own directory as text.
    let asked = json!({"name": "w1", "cli": "claude", "task": "count"});
    let started = own
        .connect()
        .exchange(&Request::post("/api/spawn", asked.to_string()));
    assert_eq!(started.status, 200, "{started:?}");
    let mut expected = top
        .canonicalize()
        .expect("it is there")
        .as_os_str()
        .as_bytes()
        .to_vec();
    expected.push(b'\n');
    until("it is there", || {
        fs::read(top.join("here")).is_ok_and(|here| here == expected)
    });
}

#[test]
fn a_worker_has_what_glibc_is_told_as_relay_was_given_it() {
    let yard = Yard::new(
        "echo \"${GLIBC_TUNABLES-none} ${RELAY_GLIBC_TUNABLES-none}\" >\"$HERE/tunables\"\nexec sleep 600",
    );
    yard.spawn("w1");
    assert_eq!(yard.line("tunables"), "none none");
    let own = Relay::start_in(
        &yard.top,
        &["--project", "told"],
        &[("GLIBC_TUNABLES", "glibc.pthread.rseq=1")],
    );
    fs::remove_file(yard.path("tunables")).expect("it is there");
    ask(own.port, &["spawn", "w2", "--cli", "claude", "--task", "count"])
        .current_dir(&yard.top)
        .assert()
        .code(0);
    assert_eq!(yard.line("tunables"), "glibc.pthread.rseq=1 none");
}

#[test]
fn what_a_person_has_glibc_told_for_a_worker_is_what_it_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = "echo \"$GLIBC_TUNABLES\" >\"$HERE/tunables\"\nexec sleep 600";
    let command = json!(["/bin/sh", directory.path().join("worker")]);
    let env = json!({"GLIBC_TUNABLES": "glibc.pthread.rseq=0"});
    let yard = Yard::of(directory, &json!({"claude": {"command": command, "env": env}}));
    yard.program(script);
    yard.spawn("w1");
    assert_eq!(yard.line("tunables"), "glibc.pthread.rseq=0");
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn what_glibc_is_told_for_relay_stands_behind_what_it_was_told_before() {
    for (before, first) in [
        (None, ""),
        (Some("glibc.pthread.rseq=1"), "glibc.pthread.rseq=1:"),
    ] {
        let given: Vec<(&str, &str)> = before
            .map(|value| ("GLIBC_TUNABLES", value))
            .into_iter()
            .collect();
        let own = Relay::start_with(&[], &given);
        let environment = fs::read(format!("/proc/{}/environ", own.pid())).expect("it runs");
        // glibc may have taken what it is told apart where it stands.
        let environment = String::from_utf8(environment)
            .expect("it is text")
            .replace('\0', ":");
        let orders = "glibc.malloc.mmap_threshold=131072:glibc.malloc.trim_threshold=131072";
        let told = format!("GLIBC_TUNABLES={first}{orders}:");
        assert!(environment.contains(&told), "{told} is not in it");
    }
    // Who has said how memory is held knows better.
    let own = Relay::start_with(&[], &[("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")]);
    let environment = fs::read(format!("/proc/{}/environ", own.pid())).expect("it runs");
    let environment = String::from_utf8_lossy(&environment).into_owned();
    assert!(environment.contains("glibc.malloc.arena_max=2"), "{environment}");
    assert!(!environment.contains("trim_threshold"), "{environment}");
}

#[test]
fn relay_says_that_the_log_of_a_worker_cannot_be_written() {
    let yard = Yard::new("echo here\nexec sleep 600");
    let workers = logs_of(&yard, "default", 0);
    fs::create_dir(workers.join("w1.log")).expect("a directory");
    // It has written by the time that it is said to run.
    yard.spawn("w1");
    let said = yard.relay.into_stderr();
    assert!(said.contains("a worker: cannot write the log "), "{said}");
}

#[test]
fn where_nothing_can_be_removed_in_one_project_that_is_said_and_others_are_bounded_all_the_same() {
    let yard = Yard::new(WAITS);
    let first = yard.relay.runtime.path().join("relay/projects/a");
    fs::create_dir_all(&first).expect("a directory");
    fs::write(first.join("workers"), "").expect("a file");
    let later = logs_of(&yard, "b", 40);
    let mut command = relay_command();
    command
        .args(["serve", "--port", &free_port().to_string()])
        .current_dir(&yard.top)
        .envs(["XDG_DATA_HOME", "XDG_RUNTIME_DIR"].map(|name| (name, yard.relay.runtime.path())))
        .stdout(Stdio::null());
    let mut other = Process::start(&mut command);
    until("they are removed", || kept(&later) == 32);
    signal(other.child.id(), "TERM");
    other.exit_status();
    let said = other.kill();
    let told = format!(
        "cannot remove what is left of workers that have ended in {}: Not a directory (os error 20)",
        first.display()
    );
    assert!(said.contains(&told), "{said}");
}

#[test]
fn a_worker_is_told_the_token_of_its_relay() {
    let yard = Yard::new("echo \"$RELAY_TOKEN\" >\"$HERE/token\"\nexec sleep 600");
    let token = "0123456789abcdef";
    let relay = Relay::start_in(&yard.top, &["--token", token], &[]);
    let spawn = [
        "spawn", "w1", "--cli", "claude", "--task", "count", "--token", token,
    ];
    ask(relay.port, &spawn).current_dir(&yard.top).assert().code(0);
    assert_eq!(yard.line("token"), token);
}
