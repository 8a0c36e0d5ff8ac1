//! What cannot be started, and why.

use super::*;

#[test]
fn what_cannot_be_started_says_why_and_keeps_no_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let claude = json!({"command": ["no-such-cli"]});
    let yard = Yard::of(directory, &json!({"claude": claude}));
    let missing = "\"no-such-cli\" is not installed: no such program in PATH; install it, or name another command line under workers.claude in .relay/config.json";
    let spawn = ["spawn", "w1", "--cli", "claude", "--task", "count"];
    for _ in 0..2 {
        let said = format!("relay spawn: {missing}\n");
        yard.ask(&spawn).assert().code(1).stdout("").stderr(said);
        assert_eq!(yard.worker("w1"), Value::Null);
    }
    let unknown = contains("unknown role \"w1\"");
    yard.ask(&["send", "w1", "are you there?"])
        .assert()
        .code(1)
        .stderr(unknown);
    let agents = stdout_of(&yard.ask(&["agents"]).assert());
    assert!(!agents.contains("w1"), "{agents}");
    let mut agent = yard.relay.bound_session(Way::Http, "pm&tools=agent-relay");
    let asked = json!({"name": "w2", "cli": "claude", "task": "count"});
    let refused = agent.call("relay_spawn", &asked);
    assert!(refused.is_error, "{refused:?}");
    assert_eq!(refused.texts, [format!("Failed to spawn worker: {missing}")]);
    // Nothing is started by a file that says something else.
    let config = yard.path(".relay/config.json");
    fs::write(&config, "{\"workers\": {\"claude\": 1}}").expect("a file");
    let said = format!(
        "relay spawn: {}: workers.claude is 1; accepted: an object with any of command, arguments, env\n",
        config.display()
    );
    yard.ask(&spawn).assert().code(1).stderr(said);
    // The person was told by the answers.
    yard.ask(&["read"]).assert().code(3);
}

#[test]
fn what_is_asked_wrongly_is_refused_with_what_is_accepted() {
    let yard = Yard::new(WAITS);
    let top = yard.top.display();
    let a_name = "a name has 1 to 32 of A-Z, a-z, 0-9, -, _ and ., starts with a letter or a digit, and does not end with a dot";
    let takes = "/api/spawn takes the JSON {\"from\": role, \"name\": name, \"cli\": cli, \"task\": text, \"model\": model, \"cwd\": directory}: ";
    for (member, value, status, said) in [
        ("name", json!("dev a"), 400, format!("invalid role name \"dev a\"; {a_name}")),
        ("name", json!(""), 400, format!("invalid role name \"\"; {a_name}")),
        ("name", json!("user"), 400, "\"name\" is \"user\", which is the person's own; accepted: the name of a worker, or one that nobody has".to_owned()),
        ("name", json!("web:user"), 400, "\"name\" is \"web:user\", which is the person's own; accepted: the name of a worker, or one that nobody has".to_owned()),
        ("name", json!("relay"), 400, "role name \"relay\" is relay's own, which tells of workers and reads nothing; accepted: any other name".to_owned()),
        ("name", json!("pm"), 409, "pm is an agent that relay has not started; accepted: the name of a worker, or one that nobody has".to_owned()),
        ("name", Value::Null, 400, format!("{takes}invalid type: null, expected a string")),
        ("cli", json!("cursor"), 409, "no agent CLI \"cursor\"; accepted: claude, codex, gemini, droid, opencode".to_owned()),
        ("cli", json!(""), 400, "\"cli\" is empty; accepted: a text".to_owned()),
        ("task", json!(" "), 400, "\"task\" is empty; accepted: a text".to_owned()),
        ("task", json!("x".repeat(64 * 1024 + 1)), 400, "\"task\" has 65537 bytes; accepted: at most 65536".to_owned()),
        ("model", json!("a\nb"), 400, "\"model\" is \"a\\nb\"; accepted: one line of text, without control characters".to_owned()),
        ("cwd", json!("/"), 409, format!("cwd / is outside of where workers may work: {top}; name it under workers.directories in .relay/config.json of the directory that relay runs in, {top}, to allow it")),
        ("cwd", json!("gone"), 409, format!("cwd {top}/gone: No such file or directory (os error 2); accepted: a directory that is there")),
        ("from", json!("nobody"), 400, "unknown role \"nobody\"; known roles: pm, dev-a, dev-b".to_owned()),
        ("dir", json!("/"), 400, format!("{takes}unknown field `dir`")),
    ] {
        let mut asked = json!({"name": "w1", "cli": "claude", "task": "count"});
        asked[member] = value;
        refuses(&yard.post("/api/spawn", &asked), status, &said);
    }
    for (asked, status, said) in [
        (
            json!({"name": "w9"}),
            400,
            "no worker \"w9\"; workers that live: none",
        ),
        (
            json!({"name": ""}),
            400,
            "no worker \"\"; workers that live: none",
        ),
        (
            json!({"name": "pm"}),
            409,
            "pm is an agent that relay has not started; accepted: the name of a worker, or one that nobody has",
        ),
        (
            json!({"name": "w1", "reason": "a\tb"}),
            400,
            "\"reason\" is \"a\\tb\"; accepted: one line of text, without control characters",
        ),
        (
            json!({}),
            400,
            "/api/release takes the JSON {\"from\": role, \"name\": name, \"reason\": text}: missing field `name`",
        ),
    ] {
        refuses(&yard.post("/api/release", &asked), status, said);
    }
    let all = yard.post("/api/workers", &json!({"all": true}));
    refuses(&all, 400, "/api/workers takes the JSON {}: unknown field `all`");
    yard.spawn("w2");
    let unknown = "relay release: no worker \"w9\"; workers that live: w2\n";
    yard.ask(&["release", "w9"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(unknown);
}

#[track_caller]
fn refuses(response: &Response, status: u16, said: &str) {
    assert_eq!(response.status, status, "{response:?}");
    let error = response.json()["error"].as_str().expect("a text").to_owned();
    assert!(error.contains(said), "{error}");
}

#[test]
fn a_directory_that_is_none_is_refused_before_the_relay_is_asked() {
    let yard = Yard::new(WAITS);
    let spawn = ["spawn", "w1", "--cli", "claude", "--task", "count", "--cwd"];
    for (directory, shown, error) in [
        ("gone", "gone", "No such file or directory (os error 2)"),
        ("worker", "worker", "not a directory"),
        // Nor can it steer the terminal.
        (
            "\u{1b}[2J\u{202e}",
            "\\u{1b}[2J\\u{202e}",
            "No such file or directory (os error 2)",
        ),
    ] {
        let said =
            format!("relay spawn: cannot use --cwd {shown}: {error}; accepted: a directory that is there\n");
        let arguments = [&spawn[..], &[directory]].concat();
        yard.ask(&arguments).assert().code(1).stdout("").stderr(said);
    }
    assert_eq!(yard.worker("w1"), Value::Null);
}

#[test]
fn in_an_agents_own_shell_nothing_is_started_or_ended() {
    let yard = Yard::new(WAITS);
    yard.spawn("w1");
    for variable in [
        "CLAUDECODE",
        "CODEX_THREAD_ID",
        "GEMINI_CLI",
        "OPENCODE",
        "RELAY_PARENT",
    ] {
        for (arguments, said) in [
            (
                &["spawn", "w2", "--cli", "claude", "--task", "count"][..],
                format!(
                    "relay spawn: this is an agent's own shell ({variable} is set), and what is started from here is the person's; use relay_spawn\n"
                ),
            ),
            (
                &["release", "w1"],
                format!(
                    "relay release: this is an agent's own shell ({variable} is set), and any worker is ended from here; use relay_release\n"
                ),
            ),
        ] {
            let mut command = yard.ask(arguments);
            command.env(variable, "1");
            command.assert().code(2).stdout("").stderr(said);
        }
    }
    assert_eq!(yard.worker("w1")["state"], "started");
    assert_eq!(yard.worker("w2"), Value::Null);
}

#[test]
fn a_relay_that_listens_beyond_this_machine_starts_none() {
    let token = "0123456789abcdef";
    let relay = Relay::start_with(&["--host", "0.0.0.0", "--token", token], &[]);
    let off = "this relay starts no workers, since it listens beyond this machine: whoever reaches it could run programs here; start it on 127.0.0.1 only, or start the agent in a terminal of its own";
    let spawn = [
        "spawn", "w1", "--cli", "claude", "--task", "count", "--token", token,
    ];
    let said = format!("relay spawn: {off}\n");
    ask(relay.port, &spawn).assert().code(1).stdout("").stderr(said);
    let release = ["release", "w1", "--token", token];
    let said = "relay release: no worker \"w1\"; workers that live: none\n";
    ask(relay.port, &release).assert().code(1).stdout("").stderr(said);
    let asked = json!({"name": "w1", "cli": "claude", "task": "count"});
    let request = Request::post("/api/spawn", asked.to_string());
    let request = request.with("Content-Type", "application/json");
    let request = request.with("Authorization", &format!("Bearer {token}"));
    let refused = relay.connect().exchange(&request);
    assert_eq!((refused.status, refused.json()), (501, json!({"error": off})));
}

#[test]
fn what_keeps_relay_from_starting_any_worker_is_told_with_what_to_do() {
    let spawn = ["spawn", "w1", "--cli", "claude", "--task", "count"];
    let refuses = |port: u16, said: &str| {
        let said = format!("relay spawn: {said}\n");
        ask(port, &spawn).assert().code(1).stdout("").stderr(said);
    };
    let yard = Yard::new(WAITS);
    let config = yard.path(".relay/config.json");
    fs::remove_file(&config).expect("it is there");
    fs::create_dir(&config).expect("there is room");
    let no_file = format!("cannot read {}: it is no file", config.display());
    refuses(yard.relay.port, &no_file);
    let other = tempfile::tempdir().expect("a directory");
    let nowhere = Relay::start_in(other.path(), &[], &[("XDG_DATA_HOME", ""), ("HOME", "")]);
    refuses(
        nowhere.port,
        "neither XDG_DATA_HOME nor HOME says where its log goes; set one of them for relay",
    );
    let port = free_port();
    let server = relay_command();
    let starts = r#"mkdir gone && cd gone && rmdir ../gone && exec "$0" serve --project gone --port "$1""#;
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", starts])
        .arg(server.get_program())
        .arg(port.to_string())
        .envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(other.path())
        .stdout(Stdio::null());
    let _gone = Process::start(&mut shell);
    until("the relay answers", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    refuses(
        port,
        "the directory that relay was started in was gone already; start relay in one that is there",
    );
}

#[test]
fn a_task_or_a_directory_that_relay_could_be_told_in_part_alone_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;

    let yard = Yard::new(WAITS);
    let spawn = ["spawn", "w1", "--cli", "claude", "--task", "-"];
    let long = format!("{}\n\n\nand more", "x".repeat(64 * 1024));
    for (task, said) in [
        (
            long.into_bytes(),
            "the task from stdin has more than 65536 bytes, the most that is accepted",
        ),
        (
            b"caf\xe9!".to_vec(),
            "cannot read the task from stdin: invalid utf-8",
        ),
    ] {
        let said = starts_with(format!("relay spawn: {said}"));
        let mut command = yard.ask(&spawn);
        command.write_stdin(task).assert().code(1).stdout("").stderr(said);
    }
    let ours = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY);
    let ours = ours.expect("a terminal");
    rustix::pty::unlockpt(&ours).expect("it is ours");
    let path = rustix::pty::ptsname(&ours, Vec::new()).expect("it has a path");
    let theirs = fs::File::open(path.into_string().expect("it is text")).expect("it is there");
    let mut at_terminal = relay_command();
    at_terminal.args(spawn).stdin(theirs);
    at_terminal.args(["--port", &yard.relay.port.to_string()]);
    let output = at_terminal.output().expect("it starts");
    let said =
        "relay spawn: --task - takes the task from stdin, which is a terminal; write it behind --task\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    assert_eq!(output.status.code(), Some(2));
    let directory = yard.top.join(std::ffi::OsStr::from_bytes(b"b\xe9"));
    fs::create_dir(&directory).expect("there is room");
    let mut command = yard.ask(&["spawn", "w1", "--cli", "claude", "--task", "count"]);
    command.arg("--cwd").arg(&directory);
    let said = contains(" is not UTF-8, and goes to relay as text; name it otherwise");
    command.assert().code(1).stdout("").stderr(said);
    assert_eq!(yard.worker("w1"), Value::Null);
}
