use std::path::PathBuf;
use std::process::Command;

use relay::workers::{Event, Order, Status, start_by};

use super::scene::{Scene, is_there, text};

fn order(scene: &Scene, argv: &[&str]) -> Order {
    serde_json::from_value(scene.order(argv)).expect("it is one")
}

fn relay() -> std::io::Result<Command> {
    Ok(Command::new(env!("CARGO_BIN_EXE_relay")))
}

#[tokio::test]
async fn relay_hears_of_the_start_and_the_end() {
    let scene = Scene::new();
    let program = scene.program("echo ready; exec sleep 600");
    let (handle, mut events) = start_by(relay(), order(&scene, &[text(&program)]));
    let started = events.recv().await.expect("an event");
    let Event::Started { pid } = started else {
        panic!("{started:?}")
    };
    handle.end();
    handle.end();
    let Some(Event::Exited { status, .. }) = events.recv().await else {
        panic!("it has ended")
    };
    assert_eq!(status, Status::Signal(15));
    assert_eq!(events.recv().await, None);
    assert!(!is_there(pid));
}

#[tokio::test]
async fn a_worker_ends_with_its_handle() {
    let scene = Scene::new();
    let (handle, mut events) = start_by(relay(), order(&scene, &["sleep", "600"]));
    assert!(matches!(events.recv().await, Some(Event::Started { .. })));
    drop(handle);
    assert!(matches!(events.recv().await, Some(Event::Exited { .. })));
}

#[tokio::test]
async fn what_does_not_start_says_why() {
    let scene = Scene::new();
    let (_handle, mut events) = start_by(relay(), order(&scene, &["no-such-cli"]));
    let Some(Event::FailedToStart { reason }) = events.recv().await else {
        panic!("it has failed")
    };
    assert!(reason.starts_with("\"no-such-cli\" is not installed"), "{reason}");
    assert_eq!(events.recv().await, None);
    let gone = Command::new(PathBuf::from("/no/such/relay"));
    let (_handle, mut events) = start_by(Ok(gone), order(&scene, &["sh"]));
    let Some(Event::FailedToStart { reason }) = events.recv().await else {
        panic!("it has failed")
    };
    assert_eq!(
        reason,
        "the system starts no process: No such file or directory (os error 2)"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_ends_at_once_is_not_said_to_run() {
    let scene = Scene::new();
    for (script, code, lines) in [
        ("echo not logged in; exit 3", 3, &["not logged in"][..]),
        ("exit 0", 0, &[]),
    ] {
        let program = scene.program(script);
        let (_handle, mut events) = start_by(relay(), order(&scene, &[text(&program)]));
        let ended = Event::Exited {
            status: Status::Code(code),
            last_lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert_eq!(events.recv().await, Some(ended));
        assert_eq!(events.recv().await, None);
    }
    let program = scene.program("sleep 1.5; exit 3");
    let (_handle, mut events) = start_by(relay(), order(&scene, &[text(&program)]));
    assert!(matches!(events.recv().await, Some(Event::Started { .. })));
    let Some(Event::Exited { status, .. }) = events.recv().await else {
        panic!("it has ended")
    };
    assert_eq!(status, Status::Code(3));
    // One that is ended by relay has not failed.
    let program = scene.program("exec sleep 600");
    let (handle, mut events) = start_by(relay(), order(&scene, &[text(&program)]));
    crate::support::until("it runs", || {
        scene.path("relay/projects/default/workers/w1.sock").exists()
    });
    handle.end();
    assert!(matches!(events.recv().await, Some(Event::Started { .. })));
    assert!(matches!(events.recv().await, Some(Event::Exited { .. })));
}

#[tokio::test]
async fn a_supervisor_that_is_killed_is_the_end_of_its_worker() {
    let scene = Scene::new();
    let program = scene.program("echo $PPID >\"$DIRECTORY/supervisor\"; exec sleep 600");
    let (_handle, mut events) = start_by(relay(), order(&scene, &[text(&program)]));
    assert!(matches!(events.recv().await, Some(Event::Started { .. })));
    crate::support::until("it has written down its supervisor", || {
        scene.text("supervisor").ends_with('\n')
    });
    let supervisor = scene.text("supervisor").trim().parse().expect("a number");
    let supervisor = rustix::process::Pid::from_raw(supervisor).expect("it is one");
    rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).expect("it runs");
    let Some(Event::Exited { status, last_lines }) = events.recv().await else {
        panic!("it has ended")
    };
    assert_eq!(status, Status::Signal(9));
    assert_eq!(
        last_lines,
        ["[relay] its supervisor has ended before it: signal: 9 (SIGKILL)"]
    );
}

#[tokio::test]
async fn a_worker_that_is_ended_before_it_has_begun_has_been_started_all_the_same() {
    let scene = Scene::new();
    let (handle, mut events) = start_by(relay(), order(&scene, &["sleep", "600"]));
    handle.end();
    assert!(matches!(events.recv().await, Some(Event::Started { .. })));
    let Some(Event::Exited { status, .. }) = events.recv().await else {
        panic!("it has ended")
    };
    assert_eq!(status, Status::Signal(15));
    assert_eq!(events.recv().await, None);
}

#[tokio::test]
async fn what_a_supervisor_says_is_heard_behind_what_nobody_understands_and_its_end_is_told_where_it_says_nothing()
 {
    let scene = Scene::new();
    for (says, told) in [
        (
            r#"echo '{"event":"news"}'; echo no json; echo '{"event":"failed","reason":"why"}'"#,
            "why",
        ),
        (
            ":",
            "its supervisor has ended before it was started: exit status: 7",
        ),
    ] {
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", &format!("read -r order; {says}; exit 7")]);
        let (_handle, mut events) = start_by(Ok(supervisor), order(&scene, &["sh"]));
        let failed = Event::FailedToStart {
            reason: told.to_owned(),
        };
        assert_eq!(events.recv().await, Some(failed));
        assert_eq!(events.recv().await, None);
    }
}
