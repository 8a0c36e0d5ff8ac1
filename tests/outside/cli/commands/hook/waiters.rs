//! What waits for messages beside an idle program.

use super::*;

#[test]
fn an_idle_program_is_woken_and_says_so_by_its_next_turn() {
    let relay = told();
    let waiter = Waiter::stands_by(&relay);
    send(&relay, "wake up");
    let (code, text) = waiter.end();
    assert_eq!(code, Some(2));
    assert!(
        text.starts_with("[relay wake ") && text.contains("\n| wake up\n"),
        "{text}"
    );
    let prompt = format!("<task-notification>\n</task-notification>\n{text}");
    let said = json!({"hook_event_name": "UserPromptSubmit", "prompt": prompt});
    let process = std::process::id().to_string();
    hook(&relay, &process, &said).assert().code(0).stdout("");
    let ends = json!({"hook_event_name": "SessionEnd", "reason": "other"});
    hook(&relay, &process, &ends).assert().code(0).stdout("");
    until("it is gone", || programs(&relay).is_empty());
    assert_eq!(unread(&relay, "dev-a"), 0);
}

#[test]
fn a_wake_that_begins_no_turn_is_shown_in_the_next_one() {
    let relay = told();
    let waiter = Waiter::stands_by(&relay);
    send(&relay, "wake up");
    assert_eq!(waiter.end().0, Some(2));
    let process = std::process::id().to_string();
    let said = json!({"hook_event_name": "UserPromptSubmit", "prompt": "something else"});
    let assert = hook(&relay, &process, &said).assert().code(0);
    assert!(stdout_of(&assert).contains("which you may have been shown before"));
}

#[test]
fn a_second_waiter_takes_the_place_of_the_first_which_ends_in_silence() {
    let relay = told();
    let first = Waiter::stands_by(&relay);
    let second = Waiter::start(relay.port, &[]);
    assert_eq!(first.end(), (Some(0), String::new()));
    send(&relay, "wake up");
    assert_eq!(second.end().0, Some(2));
}

#[test]
fn a_waiter_finds_its_relay_again_after_a_restart() {
    let mut relay = told();
    let waiter = Waiter::stands_by(&relay);
    relay.kill_and_restart();
    until("it stands by again", || can_be_woken(&relay));
    send(&relay, "wake up");
    let (code, text) = waiter.end();
    assert_eq!(code, Some(2));
    assert!(text.contains("| wake up"), "{text}");
}

#[test]
fn a_waiter_outlives_a_relay_that_stops_in_order() {
    let mut relay = told();
    let waiter = Waiter::stands_by(&relay);
    relay.signal("TERM");
    assert_eq!(relay.exit_status().code(), Some(0));
    relay.restart();
    let restarted = std::time::Instant::now();
    until("it stands by again", || can_be_woken(&relay));
    assert!(
        restarted.elapsed() < Duration::from_secs(15),
        "as soon as it is there"
    );
    send(&relay, "wake up");
    assert_eq!(waiter.end().0, Some(2));
}

#[test]
fn a_waiter_whose_program_has_ended_says_so_and_ends() {
    let relay = told();
    let mut program = std::process::Command::new("/bin/sleep")
        .arg("60")
        .spawn()
        .expect("it starts");
    let process = program.id().to_string();
    let waiter = Waiter::start(relay.port, &[("CLAUDE_PID", &process)]);
    until("it stands by", || can_be_woken(&relay));
    program.kill().expect("it runs");
    program.wait().expect("it ends");
    assert_eq!(waiter.end(), (Some(0), String::new()));
    until("it is gone", || programs(&relay).is_empty());
}

#[test]
fn a_waiter_of_a_run_without_a_person_ends_at_once() {
    let relay = told();
    let waiter = Waiter::start(relay.port, &[("CLAUDE_CODE_ENTRYPOINT", "sdk-cli")]);
    assert_eq!(waiter.end(), (Some(0), String::new()));
}

#[test]
fn an_interrupted_program_is_idle_as_its_own_file_says() {
    let relay = told();
    let home = tempfile::tempdir().expect("there is room");
    std::fs::create_dir(home.path().join("sessions")).expect("there is room");
    let file = home.path().join(format!("sessions/{}.json", std::process::id()));
    let write = |status: &str| {
        let json = json!({"pid": std::process::id(), "status": status});
        std::fs::write(&file, json.to_string()).expect("there is room");
    };
    write("busy");
    let directory = home.path().to_str().expect("its name is text");
    let waiter = Waiter::start(relay.port, &[("CLAUDE_CONFIG_DIR", directory)]);
    until("it stands by", || can_be_woken(&relay));
    let process = std::process::id().to_string();
    hook(&relay, &process, &event("UserPromptSubmit"))
        .assert()
        .code(0);
    send(&relay, "wake up");
    assert_eq!(programs(&relay), [("busy".to_owned(), true)]);
    write("idle");
    assert_eq!(waiter.end().0, Some(2));
}

#[test]
fn a_wake_of_another_life_of_the_relay_has_begun_no_turn() {
    let relay = told();
    let waiter = Waiter::stands_by(&relay);
    send(&relay, "wake up");
    let (_, text) = waiter.end();
    let mark = text.strip_prefix("[relay wake ").expect("it has a mark");
    let (boot, rest) = mark.split_once('-').expect("it names a life");
    let prompt = format!("[relay wake {}-{rest}", "0".repeat(boot.len()));
    let said = json!({"hook_event_name": "UserPromptSubmit", "prompt": prompt});
    let process = std::process::id().to_string();
    let assert = hook(&relay, &process, &said).assert().code(0);
    assert!(stdout_of(&assert).contains("which you may have been shown before"));
}

#[test]
fn a_waiter_that_is_started_with_a_turn_leaves_time_to_the_hook_beside_it() {
    let relay = told();
    let mut command = relay_command();
    command
        .args(["hook", "claude", "wait", "--port", &relay.port.to_string()])
        .env("CLAUDE_PID", std::process::id().to_string())
        .env("CLAUDE_CODE_ENTRYPOINT", "cli")
        .env("RELAY_AGENT", "dev-a")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let started = std::time::Instant::now();
    let mut waiter = Waiter(command.spawn().expect("it starts"));
    let mut stdin = waiter.0.stdin.take().expect("it is piped");
    stdin
        .write_all(event("UserPromptSubmit").to_string().as_bytes())
        .expect("it reads");
    drop(stdin);
    until("it stands by", || can_be_woken(&relay));
    assert!(
        started.elapsed() >= Duration::from_millis(500),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn where_no_folder_is_named_what_claude_code_says_of_itself_is_in_its_persons_home() {
    let relay = told();
    let home = tempfile::tempdir().expect("there is room");
    let sessions = home.path().join(".claude/sessions");
    std::fs::create_dir_all(&sessions).expect("there is room");
    let own = std::process::id().to_string();
    let write = |status: &str| {
        let json = json!({"status": status}).to_string();
        std::fs::write(sessions.join(format!("{own}.json")), json).expect("there is room");
    };
    write("busy");
    let mut command = relay_command();
    command
        .args(["hook", "claude", "wait", "--port", &relay.port.to_string()])
        .env("CLAUDE_PID", &own)
        .env("CLAUDE_CODE_ENTRYPOINT", "cli")
        .env("RELAY_AGENT", "dev-a")
        .env("HOME", home.path())
        .env_remove("CLAUDE_CONFIG_DIR")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let _waiter = Waiter(command.spawn().expect("it starts"));
    until("it stands by", || can_be_woken(&relay));
    hook(&relay, &own, &event("UserPromptSubmit")).assert().code(0);
    assert_eq!(programs(&relay), [("busy".to_owned(), true)]);
    write("idle");
    until("it is idle", || programs(&relay) == [("idle".to_owned(), true)]);
}
