//! The notes on disk of the calls that wait.

use super::*;

#[test]
fn are_this_user_s_alone_and_stay_small() {
    let relay = told_relay();
    let mut client = Client::new(&relay);
    for id in 0..1_500 {
        let arguments = json!({"for": "dev-a", "wait_seconds": 0.001});
        client.post(call(id, "read_messages", &arguments));
        assert_eq!(client.heard()["id"], id);
    }
    let metadata = std::fs::metadata(notes(&relay)).expect("there are notes");
    assert_eq!(metadata.mode() & 0o777, 0o600);
    assert!(metadata.len() < 70 * 1024, "{} bytes", metadata.len());
    let directory = notes(&relay);
    let directory = directory.parent().expect("a directory");
    let mode = std::fs::metadata(directory).expect("it is there").mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn of_a_relay_on_another_port_are_its_own() {
    let mut relay = told_relay();
    Client::new(&relay).wait(41);
    let runtime = relay.runtime.path().to_str().expect("text").to_owned();
    let other = Relay::start_with(&[], &[("XDG_RUNTIME_DIR", &runtime)]);
    Client::new(&other).hears_no_more();
    relay.kill_and_restart();
    assert_eq!(Client::new(&relay).heard(), told(41, RESTARTED));
}

#[test]
fn that_cannot_be_kept_cost_a_warning_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    // Not even the superuser can make a directory in a file.
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("room");
    let file = file.to_str().expect("text");
    let relay = Relay::start_with(&[], &[("XDG_RUNTIME_DIR", file)]);
    let mut session = relay.session(Way::Http);
    session.hear_of_start("dev-a");
    drop(session);
    relay.await_sessions(0);
    let mut broken = Client::new(&relay);
    broken.wait(41);
    let id = broken.id();
    drop(broken);
    relay.await_sessions(0);
    assert_eq!(Client::back(&relay, &id).heard(), told(41, STREAM_ENDED));
    let stderr = relay.into_stderr();
    assert_eq!(
        stderr.matches("cannot note which calls wait").count(),
        1,
        "{stderr}"
    );
}

#[test]
fn in_a_directory_that_others_can_write_to_are_not_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let shared = directory.path().join("relay");
    std::fs::create_dir(&shared).expect("room");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&shared, open).expect("ours");
    let path = directory.path().to_str().expect("text");
    let relay = Relay::start_with(&[], &[("XDG_RUNTIME_DIR", path)]);
    relay.health();
    let stderr = relay.into_stderr();
    assert!(
        stderr.contains("is not a directory that is this user's alone"),
        "{stderr}"
    );
}

/// A relay that is stopped frees its port up to two seconds before it has written its last notes.
#[test]
fn that_the_relay_before_still_writes_are_waited_for() {
    let mut relay = told_relay();
    Client::new(&relay).wait(41);
    relay.kill();
    let file = std::fs::OpenOptions::new().write(true).open(notes(&relay));
    let file = file.expect("there are notes");
    file.lock().expect("nobody has them");
    let ending = std::thread::spawn(move || {
        std::thread::sleep(QUIET);
        file.set_len(0).expect("it is ours");
    });
    let started = Instant::now();
    relay.restart();
    assert!(started.elapsed() >= QUIET, "it was not ready before");
    ending.join().expect("no panic");
    Client::new(&relay).hears_no_more();
}

#[test]
fn that_another_keeps_for_itself_cost_a_warning_and_nothing_else() {
    let mut relay = told_relay();
    relay.kill();
    let file = std::fs::File::open(notes(&relay)).expect("there are notes");
    file.lock().expect("nobody has them");
    relay.restart();
    let mut client = Client::new(&relay);
    client.wait(41);
    relay.session(Way::Http).post("pm", "dev-a", "m1");
    assert_eq!(client.heard()["id"], 41);
    assert_eq!(file.metadata().expect("it is there").len(), 0);
    let stderr = relay.into_stderr();
    assert_eq!(
        stderr.matches("cannot note which calls wait").count(),
        1,
        "{stderr}"
    );
    assert!(stderr.contains("another relay has it"), "{stderr}");
}

#[test]
fn of_agents_that_cannot_be_kept_cost_a_warning_and_have_all_told_of_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(directory.path().join("relay/projects/default/agents")).expect("room");
    let data = directory.path().to_str().expect("text");
    let relay = Relay::start_with(&[], &[("XDG_DATA_HOME", data)]);
    let mut session = relay.session(Way::Http);
    let told = session.read("dev-a");
    assert!(
        told.texts
            .iter()
            .any(|text| text.starts_with("relay started at ")),
        "{told:?}"
    );
    session.post("pm", "dev-a", "m1");
    assert_eq!(session.read("dev-a").bodies(), ["m1"]);
    drop(session);
    let stderr = relay.into_stderr();
    assert_eq!(
        stderr
            .matches("cannot note which agents have had a session")
            .count(),
        1,
        "{stderr}"
    );
}
