use std::io::{BufRead as _, BufReader, Read as _};

use super::*;
use crate::needs;

#[test]
fn what_agents_post_to_the_person_is_shown_once() {
    let relay = told();
    const BODIES: [&str; WAYS.len()] = ["Which\ndatabase?", "two", "three", "four"];
    for (way, body) in WAYS.into_iter().zip(BODIES) {
        relay.session(way).post("dev-b", "user", body);
    }
    let peeked = ask(relay.port, &["peek", "--json"]).assert().code(0).stderr("");
    let messages: Vec<Value> = serde_json::from_str(&stdout_of(&peeked)).expect("JSON");
    let time = |at: usize| {
        let ts = messages[at]["ts"].as_str().expect("a time");
        format!("{} {}", &ts[..10], &ts[11..19])
    };
    let id = |at: usize| &messages[at]["id"].as_str().expect("an id")[..8];
    let blocks = format!(
        "[{}] dev-b → user [free] {}\n  Which\n  database?\n\n\
         [{}] dev-b → user [free] {}\n  two\n\n\
         [{}] dev-b → user [free] {}\n  three\n\n\
         [{}] dev-b → user [free] {}\n  four\n",
        time(0),
        id(0),
        time(1),
        id(1),
        time(2),
        id(2),
        time(3),
        id(3)
    );
    let peek = ask(relay.port, &["peek"]).assert();
    peek.code(0).stdout(blocks.clone()).stderr("");
    let read = ask(relay.port, &["read"]).assert();
    read.code(0).stdout(blocks).stderr("");
    for subcommand in ["read", "peek"] {
        let nothing = ask(relay.port, &[subcommand]).assert();
        nothing.code(3).stdout("").stderr("nothing for user\n");
        let nothing = ask(relay.port, &[subcommand, "--json"]).assert();
        nothing.code(3).stdout("[]\n").stderr("nothing for user\n");
    }
}

#[test]
fn json_is_what_read_messages_has() {
    let relay = told();
    relay.session(Way::Sse).post("dev-b", "dev-a", "\u{1b}[2J");
    let read = ask(relay.port, &["read", "dev-a", "--json"]).assert().code(0);
    let read: Value = serde_json::from_str(&stdout_of(&read)).expect("JSON");
    let message = &read[0];
    let expected = json!([{
        "id": message["id"], "from": "dev-b", "to": "dev-a", "kind": "free", "body": "\u{1b}[2J", "ts": message["ts"],
    }]);
    assert_eq!(read, expected);
}

#[test]
fn the_person_hears_once_of_a_start_and_leaves_an_agents_news_to_it() {
    let mut relay = Relay::start_told();
    relay.kill_and_restart();
    relay.session(Way::Sse).post("pm", "dev-a", "task");
    ask(relay.port, &["read", "dev-a"]).assert().code(0).stderr("");
    let started_at = relay.health()["started_at"].as_str().expect("a time").to_owned();
    let news = format!(
        "relay started at {} {}; what was unread before that is gone\nnothing for user\n",
        &started_at[..10],
        &started_at[11..19]
    );
    ask(relay.port, &["read"])
        .assert()
        .code(3)
        .stdout("")
        .stderr(news);
    until("the read is confirmed", || {
        let read = ask(relay.port, &["read"]).assert().code(3);
        read.get_output().stderr == b"nothing for user\n"
    });
    let read = relay.session(Way::Sse).read("dev-a");
    assert!(read.texts[1].starts_with("relay started at "), "{read:?}");
}

#[test]
fn an_answer_that_is_made_in_pieces_tells_of_a_start_too() {
    let mut relay = Relay::start_told();
    relay.kill_and_restart();
    let long = "x".repeat(100_000);
    relay.session(Way::Sse).post("pm", "user", &long);
    let asked = Request::post("/api/read", json!({"for": "user"}).to_string());
    let read = relay.connect().exchange(&asked).json();
    assert!(read["messages"][0]["body"] == long.as_str());
    let started_at = relay.health()["started_at"].clone();
    assert_eq!(read["restarted"], started_at);
}

#[test]
fn a_wait_ends_when_something_comes() {
    let relay = told();
    let wait = begin(relay.port, &["read", "--wait", "280", "--json"], Stdio::piped());
    await_wait(&relay, "user");
    relay.session(Way::Sse).post("pm", "user", "done");
    let output = wait.wait_with_output().expect("it ends");
    let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (output.status.code(), &read[0]["body"]),
        (Some(0), &json!("done"))
    );
}

#[test]
fn a_wait_in_vain_is_a_time_out_even_if_there_is_news_of_the_start() {
    let mut relay = Relay::start_told();
    relay.kill_and_restart();
    let started = Instant::now();
    ask(relay.port, &["read", "--wait", "0.5", "--json"])
        .assert()
        .code(4)
        .stdout("[]\n")
        .stderr(
            starts_with("relay started at ").and(predicates::str::ends_with("nothing for user in 0.5 s\n")),
        );
    assert!(started.elapsed() >= Duration::from_millis(500));
    for bad in ["-1", "86401", "NaN", "x"] {
        let option = format!("--wait={bad}");
        let accepted = contains("a wait is a number of seconds from 0 to 86400");
        ask(relay.port, &["read", &option])
            .assert()
            .code(2)
            .stderr(accepted);
    }
}

#[test]
fn a_wait_says_that_the_relay_is_gone() {
    for signal in ["TERM", "KILL"] {
        let relay = told();
        let wait = begin(relay.port, &["read", "--wait", "280"], Stdio::piped());
        await_wait(&relay, "user");
        relay.signal(signal);
        let output = wait.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let orderly = "relay read: relay is stopping\n".to_owned();
        let place = format!("127.0.0.1:{}", relay.port);
        let killed = format!(
            "relay read: relay on {place} went away during the call, which may or may not have been carried out\n"
        );
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(said, if signal == "TERM" { orderly } else { killed });
    }
}

#[test]
fn a_wait_that_is_killed_takes_nothing() {
    let relay = told();
    let mut wait = begin(relay.port, &["read", "--wait", "280"], Stdio::null());
    await_wait(&relay, "user");
    wait.kill().expect("it runs");
    wait.wait().expect("it is a child of this test");
    relay.await_sessions(0);
    relay.session(Way::Sse).post("pm", "user", "still here");
    ask(relay.port, &["read"])
        .assert()
        .code(0)
        .stdout(contains("\n  still here\n"));
}

/// Reads, and has the messages that were not taken come back.
fn is_shown_again(relay: &Relay) {
    until("the messages are back", || unread(relay, "user") == 1);
    ask(relay.port, &["read"])
        .assert()
        .code(0)
        .stdout(contains("dev-b → user [free] ").and(contains(" (you may have seen this one)\n  ")));
}

#[test]
fn what_stdout_does_not_take_is_not_read() {
    let relay = told();
    let said = "relay read: cannot write to stdout: ";
    let kept = "; what was not written is not read, and will be shown again\n";
    let is_told = |text: &str| text.starts_with(said) && text.ends_with(kept);
    relay.session(Way::Sse).post("dev-b", "user", "hello");
    let full = std::fs::File::options().write(true).open("/dev/full");
    let closed = || {
        let (reader, writer) = std::io::pipe().expect("the system has pipes");
        drop(reader);
        writer
    };
    // A reader that is gone has had as much as it wanted.
    for (stdout, code) in [
        (Stdio::from(full.expect("Linux has it")), 1),
        (Stdio::from(closed()), 0),
    ] {
        let read = begin(relay.port, &["read"], stdout);
        let output = read.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), is_told(&text)),
            (Some(code), code == 1),
            "{text}"
        );
        until("the message is back", || unread(&relay, "user") == 1);
    }
    is_shown_again(&relay);
}

#[test]
fn what_a_killed_read_was_still_writing_is_not_read() {
    let relay = told();
    relay
        .session(Way::Sse)
        .post("dev-b", "user", &"x".repeat(1024 * 1024));
    let mut read = begin(relay.port, &["read"], Stdio::piped());
    until("the read has got it", || unread(&relay, "user") == 0);
    // The pipe takes a part of it, and nobody reads on.
    read.kill().expect("it runs");
    read.wait().expect("it is a child of this test");
    is_shown_again(&relay);
}

/// Has messages wait for the person.
fn posted(relay: &Relay, bodies: &[&str]) {
    let mut session = relay.session(Way::Sse);
    for body in bodies {
        session.post("dev-b", "user", body);
    }
}

#[test]
fn a_reader_that_has_gone_gets_no_more() {
    let relay = told();
    posted(&relay, &["one", "two", "three"]);
    let mut shell = crate::support::process::command_of("sh");
    let head = format!("\"$0\" read --port {} | head -1", relay.port);
    let output = shell.args(["-c", &head, env!("CARGO_BIN_EXE_relay")]).output();
    let output = output.expect("a shell");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("dev-b → user [free]"), "{shown}");
    assert_eq!(shown.lines().count(), 1, "{shown}");
    until("what it did not take is there", || unread(&relay, "user") == 2);
    ask(relay.port, &["read"]).assert().code(0).stdout(
        contains("\n  two\n")
            .and(contains("\n  three\n"))
            .and(contains("\n  one\n").not()),
    );
}

#[test]
fn a_read_takes_no_more_than_it_is_asked_for() {
    let relay = told();
    posted(&relay, &["one", "two", "three"]);
    let bodies = |args: &[&str]| {
        let read = ask(relay.port, args).assert().code(0).stderr("");
        let read: Value = serde_json::from_str(&stdout_of(&read)).expect("JSON");
        let messages = read.as_array().expect("an array").iter();
        messages
            .map(|message| message["body"].as_str().expect("text").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(bodies(&["read", "-n", "2", "--json"]), ["one", "two"]);
    assert_eq!(unread(&relay, "user"), 1);
    // Once something has come, nothing more is waited for.
    let waits = ["read", "-n", "2", "--wait", "280", "--json"];
    assert_eq!(bodies(&waits), ["three"]);
    ask(relay.port, &["read", "-n", "0"]).assert().code(2);
}

/// Waits until a command has written something that nobody has read yet.
fn await_written(command: &Child) {
    let stdout = command.stdout.as_ref().expect("it is piped");
    until("it is in the pipe", || {
        rustix::io::ioctl_fionread(stdout).is_ok_and(|bytes| bytes > 0)
    });
}

/// Lets a command go on once it has stopped: what lets it go on before is lost.
fn go_on(command: &Child) {
    let pid = rustix::process::Pid::from_child(command);
    let stopped = rustix::process::WaitIdOptions::STOPPED | rustix::process::WaitIdOptions::NOHANG;
    until("it is stopped", || {
        let seen = rustix::process::waitid(rustix::process::WaitId::Pid(pid), stopped);
        seen.expect("it is a child of this test").is_some()
    });
    signal(command.id(), "CONT");
}

#[test]
fn what_a_reader_leaves_in_the_pipe_when_it_goes_is_not_read() {
    let relay = told();
    posted(&relay, &["one", "two"]);
    let mut read = begin(relay.port, &["read"], Stdio::piped());
    await_written(&read);
    drop(read.stdout.take());
    let output = read.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    until("it is back", || unread(&relay, "user") == 2);
}

#[test]
fn what_a_reader_has_not_taken_yet_holds_up_what_is_behind_it_and_is_not_read() {
    let relay = told();
    posted(&relay, &["one", "two"]);
    let mut read = begin(relay.port, &["read"], Stdio::piped());
    until("the first is in the pipe", || unread(&relay, "user") == 1);
    // Long enough for the second to be taken, if it were.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(unread(&relay, "user"), 1);
    read.kill().expect("it runs");
    read.wait().expect("it is a child of this test");
    until("it is back", || unread(&relay, "user") == 2);
}

#[test]
fn what_a_slow_reader_takes_in_the_end_is_read_once() {
    let relay = told();
    posted(&relay, &["one", "two"]);
    let read = begin(relay.port, &["read"], Stdio::piped());
    until("the first is in the pipe", || unread(&relay, "user") == 1);
    // Before it counts as read because its connection has lived on.
    let started = Instant::now();
    while unread(&relay, "user") == 1 {
        assert!(
            started.elapsed() < Duration::from_secs(18),
            "it was not taken back"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(unread(&relay, "user"), 2);
    let output = read.wait_with_output().expect("it ends");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{shown}");
    for body in ["\n  one\n", "\n  two\n"] {
        assert_eq!(shown.matches(body).count(), 1, "{shown}");
    }
    assert_eq!(unread(&relay, "user"), 0);
}

#[test]
fn a_stdout_that_does_not_block_is_waited_for() {
    let relay = told();
    // More than a pipe holds.
    let body = "x".repeat(100_000);
    posted(&relay, &[&body, "two"]);
    let (mut reader, stdout) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&stdout, true).expect("a pipe can be told not to block");
    let mut read = begin(relay.port, &["read"], Stdio::from(stdout));
    // Until it is full.
    until("it is full", || {
        rustix::io::ioctl_fionread(&reader).is_ok_and(|count| count >= 60_000)
    });
    let mut shown = String::new();
    reader.read_to_string(&mut shown).expect("it is text");
    assert_eq!(read.wait().expect("it ends").code(), Some(0));
    for body in [body.as_str(), "  two\n"] {
        assert_eq!(shown.matches(body).count(), 1, "{} bytes", shown.len());
    }
    assert_eq!(unread(&relay, "user"), 0);
}

#[test]
fn what_comes_while_it_reads_is_for_the_next_read() {
    // Also where relay took the first back, and it was among those that waited when they were counted.
    for is_stopped in [false, true] {
        let relay = told();
        posted(&relay, &["one", "two"]);
        let mut read = begin(relay.port, &["read"], Stdio::piped());
        if is_stopped {
            await_written(&read);
            signal(read.id(), "TSTP");
            until("it is taken back", || unread(&relay, "user") == 2);
            go_on(&read);
        }
        let mut stdout = BufReader::new(read.stdout.take().expect("it is piped"));
        let mut shown = String::new();
        while !shown.ends_with("\n  one\n") {
            stdout.read_line(&mut shown).expect("it is text");
        }
        until("the second is in the pipe", || unread(&relay, "user") == 0);
        posted(&relay, &["three"]);
        stdout.read_to_string(&mut shown).expect("it is text");
        assert_eq!(read.wait().expect("it ends").code(), Some(0));
        assert!(
            shown.ends_with("\n  two\n") && !shown.contains("three"),
            "{shown}"
        );
        assert_eq!(unread(&relay, "user"), 1);
    }
}

#[test]
fn what_was_written_is_one_array_also_where_relay_goes_away() {
    let mut relay = told();
    posted(&relay, &["one", "two"]);
    let read = begin(relay.port, &["read", "--json"], Stdio::piped());
    until("the first is in the pipe", || unread(&relay, "user") == 1);
    relay.kill();
    let output = read.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (read.as_array().map(Vec::len), &read[0]["body"]),
        (Some(1), &json!("one"))
    );
}

/// Ctrl-Z stops a read as well as what it writes to, and nobody may ever have them go on. So does the terminal, which lets nobody write
/// that it does not listen to where it was told so.
#[test]
fn a_read_that_is_stopped_holds_nothing_back_and_goes_on_where_it_was() {
    for stops in ["TSTP", "TTOU"] {
        let relay = told();
        posted(&relay, &["one", "two"]);
        let read = begin(relay.port, &["read"], Stdio::piped());
        until("the first is in the pipe", || unread(&relay, "user") == 1);
        let started = Instant::now();
        signal(read.id(), stops);
        until("it is taken back", || unread(&relay, "user") == 2);
        assert!(
            started.elapsed() < Duration::from_secs(8),
            "it was not for want of patience"
        );
        go_on(&read);
        let output = read.wait_with_output().expect("it ends");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        for body in ["\n  one\n", "\n  two\n"] {
            assert_eq!(shown.matches(body).count(), 1, "{shown}");
        }
        assert_eq!((output.status.code(), unread(&relay, "user")), (Some(0), 0));
    }
}

#[test]
fn what_a_stopped_read_has_shown_is_read_in_the_end_and_nothing_in_its_stead() {
    let relay = told();
    for is_taken_by_another in [false, true] {
        posted(&relay, &["one"]);
        let read = begin(relay.port, &["read", "-n", "1"], Stdio::piped());
        await_written(&read);
        signal(read.id(), "TSTP");
        until("it is taken back", || unread(&relay, "user") == 1);
        if is_taken_by_another {
            ask(relay.port, &["read"]).assert().code(0);
            posted(&relay, &["two"]);
        }
        go_on(&read);
        let output = read.wait_with_output().expect("it ends");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{shown}");
        assert!(shown.ends_with("\n  one\n"), "{shown}");
        let left = u64::from(is_taken_by_another);
        until("nothing else is taken", || unread(&relay, "user") == left);
    }
}

#[test]
fn what_was_started_to_ignore_ctrl_z_is_not_stopped_by_it() {
    let relay = told();
    let mut shell = crate::support::process::command_of("sh");
    shell.args(["-c", "trap '' TSTP; exec \"$0\" wait --port \"$1\""]);
    shell.args([env!("CARGO_BIN_EXE_relay"), &relay.port.to_string()]);
    let mut wait = Process::start(shell.stdout(Stdio::null()));
    await_wait(&relay, "user");
    signal(wait.child.id(), "TSTP");
    posted(&relay, &["one"]);
    assert_eq!(wait.exit_status().code(), Some(0));
    assert_eq!(unread(&relay, "user"), 0);
}

#[test]
fn a_wait_that_is_stopped_takes_nothing_until_it_goes_on() {
    let relay = told();
    // From its keyboard, and by what it writes to a terminal that another has.
    for stop in ["TSTP", "TTOU"] {
        let wait = begin(relay.port, &["wait"], Stdio::piped());
        await_wait(&relay, "user");
        signal(wait.id(), stop);
        relay.await_sessions(0);
        posted(&relay, &["one"]);
        assert_eq!(unread(&relay, "user"), 1);
        go_on(&wait);
        let output = wait.wait_with_output().expect("it ends");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{shown}");
        assert!(shown.ends_with("\n  one\n"), "{shown}");
        relay.await_sessions(0);
    }
}

#[test]
fn a_wait_that_was_started_to_ignore_what_stops_others_goes_on() {
    let relay = told();
    let mut shell = crate::support::process::command_of("sh");
    let ignores = "trap '' TSTP TTOU; exec \"$0\" wait --port \"$1\"";
    shell.args([
        "-c",
        ignores,
        env!("CARGO_BIN_EXE_relay"),
        &relay.port.to_string(),
    ]);
    let mut wait = Process::start(shell.stdout(Stdio::null()));
    await_wait(&relay, "user");
    for stop in ["TSTP", "TTOU"] {
        signal(wait.child.id(), stop);
    }
    posted(&relay, &["one"]);
    until("it has taken it and ends", || {
        wait.child.try_wait().expect("it is a child").is_some()
    });
    assert_eq!(unread(&relay, "user"), 0);
}

#[test]
fn a_wait_in_the_background_of_a_terminal_is_not_stopped_by_what_it_writes() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    let terminal = top::Terminal::open(&[]);
    let relay_command = relay_command();
    let program = relay_command.get_program().to_str().expect("its path is text");
    let unset = "env -u CLAUDECODE -u CODEX_THREAD_ID -u GEMINI_CLI -u OPENCODE";
    terminal.run(&format!("{unset} {program} wait --port {} & true", relay.port));
    terminal.shows("ended 0");
    await_wait(&relay, "user");
    posted(&relay, &["one"]);
    terminal.shows("  one");
    relay.await_sessions(0);
    assert_eq!(unread(&relay, "user"), 0);
}

#[test]
fn no_session_of_an_agent_may_have_the_persons() {
    let relay = Relay::start();
    let reason = |argument: &str| {
        format!(
            "{argument:?} is \"user\", which is the person's own inbox and name: only the relay command reads it or \
             speaks for it; known roles: pm, dev-a, dev-b"
        )
    };
    for way in WAYS {
        let mut session = relay.session(way);
        session.post("pm", "user", "for your eyes");
        assert_eq!(session.read("user"), Reply::error(&reason("for")));
        let look = session.call("list_pending", &json!({"for": "user"}));
        assert_eq!(look, Reply::error(&reason("for")));
        let as_person = json!({"from": "user", "to": "pm", "kind": "free", "body": ""});
        assert_eq!(
            session.call("post_message", &as_person),
            Reply::error(&reason("from"))
        );
    }
    let mut bound = relay.bound_session(Way::Http, "pm");
    assert_eq!(bound.read("user"), Reply::error(&reason("for")));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for request in [
        Request::get("/sse?agent=user"),
        Request::post("/mcp?agent=user", call),
    ] {
        let response = relay.connect().exchange(&request);
        assert_eq!(response.status, 400);
        assert_eq!(response.json(), json!({"error": reason("agent")}));
    }
    assert_eq!(unread(&relay, "user"), WAYS.len() as u64);
}

#[test]
fn a_closed_stdout_takes_no_messages() {
    let relay = told();
    relay.session(Way::Sse).post("pm", "user", "precious");
    let port = relay.port.to_string();
    for read in ["read >&-", "read --json >&-"] {
        let mut shell = crate::support::process::command_of("sh");
        let read = format!("exec \"$0\" {read} --port {port}");
        let output = shell.args(["-c", &read, env!("CARGO_BIN_EXE_relay")]).output();
        let output = output.expect("a shell");
        let said = "relay read: cannot write to stdout: it is closed, or /dev/null opened for reading and writing; what was not written is not read, and will be shown again\n";
        assert_eq!(
            (
                output.status.code(),
                String::from_utf8_lossy(&output.stderr).as_ref()
            ),
            (Some(1), said)
        );
    }
    assert_eq!(unread(&relay, "user"), 1);
    let mut shell = crate::support::process::command_of("sh");
    let thrown_away = format!("exec \"$0\" read --port {port} >/dev/null");
    let status = shell
        .args(["-c", &thrown_away, env!("CARGO_BIN_EXE_relay")])
        .status();
    assert_eq!(
        status.expect("a shell").code(),
        Some(0),
        "who throws them away has read them"
    );
    assert_eq!(unread(&relay, "user"), 0);
}

#[test]
fn a_wait_may_be_of_a_day_or_of_no_time() {
    let relay = told();
    posted(&relay, &["one", "two"]);
    ask(relay.port, &["read", "-n", "1", "--wait", "86400"])
        .assert()
        .code(0)
        .stdout(contains("\n  one\n"));
    ask(relay.port, &["wait", "--timeout", "86400"])
        .assert()
        .code(0)
        .stdout(contains("\n  two\n"));
    for look in [["read", "--wait", "0"], ["wait", "--timeout", "0"]] {
        let nothing = ask(relay.port, &look).assert().code(4).stdout("");
        nothing.stderr("nothing for user in 0 s\n");
    }
}
