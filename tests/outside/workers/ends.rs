use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::scene::{Scene, Supervisor, is_there, runs, text};
use crate::support::until;

/// A daemon of the old kind: in a session of its own, and nobody's child. It writes down its number, and takes no SIGTERM.
const DAEMON: &str = r#"
setsid sh -c 'trap "" TERM HUP; echo $$ >"$DIRECTORY/daemon.new"; mv "$DIRECTORY/daemon.new" "$DIRECTORY/daemon"; while :; do sleep 0.1; done' \
    </dev/null >/dev/null 2>&1 &
while [ ! -e "$DIRECTORY/daemon" ]; do sleep 0.01; done"#;

fn daemon(scene: &Scene) -> i32 {
    until("the daemon runs", || !scene.text("daemon").is_empty());
    scene.text("daemon").trim().parse().expect("a number")
}

#[test]
fn a_worker_that_is_told_to_end_does_so_in_order() {
    let scene = Scene::new();
    let (mut supervisor, pid) =
        scene.run("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done");
    until("it is ready", || scene.log().contains("ready"));
    let asked = Instant::now();
    supervisor.end();
    let last = supervisor.last();
    assert_eq!(last["status"], json!({"code": 7}));
    // Between them its shell may say that its command was ended.
    let lines = last["last_lines"].as_array().expect("lines");
    assert_eq!(
        (lines.first(), lines.last()),
        (Some(&json!("ready")), Some(&json!("bye")))
    );
    assert!(asked.elapsed() < Duration::from_secs(4), "nothing was killed");
    assert!(!is_there(pid));
}

#[test]
fn a_worker_that_takes_no_sigterm_is_killed_after_its_grace() {
    let scene = Scene::new();
    let (mut supervisor, pid) = scene.run("trap '' TERM; echo ready; while :; do sleep 0.05; done");
    until("it is ready", || scene.log().contains("ready"));
    let asked = Instant::now();
    supervisor.end();
    assert_eq!(supervisor.last()["status"], json!({"signal": 9}));
    let took = asked.elapsed();
    assert!(
        took > Duration::from_millis(4_900) && took < Duration::from_secs(10),
        "{took:?}"
    );
    assert!(!is_there(pid));
}

#[test]
fn a_worker_that_is_stopped_ends_too() {
    let scene = Scene::new();
    let (mut supervisor, _) =
        scene.run("trap 'exit 7' TERM; echo ready; kill -STOP $$; while :; do sleep 0.05; done");
    until("it is ready", || scene.log().contains("ready"));
    supervisor.end();
    assert_eq!(supervisor.last()["status"], json!({"code": 7}));
}

#[test]
fn what_a_worker_leaves_behind_ends_with_it_wherever_it_has_gone() {
    let scene = Scene::new();
    let mut supervisor = scene.start(&format!("{DAEMON}\nexit 0"));
    supervisor.started();
    let daemon = daemon(&scene);
    assert_eq!(supervisor.last()["status"], json!({"code": 0}));
    assert!(!is_there(daemon));
}

#[test]
fn what_has_left_a_worker_ends_when_the_worker_is_ended() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run(&format!("{DAEMON}\necho ready; exec sleep 600"));
    let daemon = daemon(&scene);
    supervisor.end();
    assert_eq!(supervisor.last()["status"], json!({"signal": 15}));
    assert!(!is_there(daemon));
}

#[test]
fn what_has_left_a_worker_is_asked_to_end_before_it_is_killed() {
    let scene = Scene::new();
    // It ends only once that has.
    let (mut supervisor, _) = scene.run(
        r#"trap 'while [ ! -s "$DIRECTORY/bye" ]; do sleep 0.01; done; exit 7' TERM
setsid sh -c 'trap "echo bye >\"\$DIRECTORY/bye\"; exit" TERM; echo yes >"$DIRECTORY/ready"; while :; do sleep 0.05; done' &
while :; do sleep 0.05; done"#,
    );
    until("it is ready", || !scene.text("ready").is_empty());
    supervisor.end();
    assert_eq!(supervisor.last()["status"], json!({"code": 7}));
}

#[test]
fn what_a_worker_leaves_behind_is_killed_after_its_grace_though_it_goes_on_writing() {
    let scene = Scene::new();
    let program = scene.program(
        r#"sh -c 'trap "" TERM; echo yes >"$DIRECTORY/ready"; while :; do echo x; sleep 0.1; done' &
while [ ! -s "$DIRECTORY/ready" ]; do sleep 0.01; done
exit 3"#,
    );
    let mut order = scene.order(&[text(&program)]);
    order["in_terminal"] = json!(false);
    let mut supervisor = Supervisor::start(&order);
    supervisor.started();
    assert_eq!(supervisor.last()["status"], json!({"code": 3}));
}

#[test]
fn a_worker_ends_with_its_relay() {
    let scene = Scene::new();
    let (mut supervisor, pid) = scene.run(&format!("{DAEMON}\nexec sleep 600"));
    let daemon = daemon(&scene);
    // So does the system when relay is killed.
    drop(supervisor.stdin.take());
    assert_eq!(supervisor.last()["status"], json!({"signal": 15}));
    assert!(!is_there(pid) && !is_there(daemon));
}

#[test]
fn a_supervisor_that_is_told_to_end_ends_its_worker() {
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        let scene = Scene::new();
        let (mut supervisor, pid) = scene.run("exec sleep 600");
        let supervised = rustix::process::Pid::from_raw(supervisor.pid()).expect("it is one");
        rustix::process::kill_process(supervised, signal).expect("it runs");
        assert_eq!(supervisor.last()["status"], json!({"signal": 15}), "{signal:?}");
        assert!(!is_there(pid), "{signal:?}");
    }
}

#[test]
fn a_worker_does_not_outlive_a_supervisor_that_is_killed() {
    let scene = Scene::new();
    // It takes no notice of a terminal that hangs up.
    let program = scene.program("trap '' HUP TERM; echo ready; while :; do sleep 0.05; done");
    for in_terminal in [true, false] {
        let mut order = scene.order(&[text(&program)]);
        order["in_terminal"] = json!(in_terminal);
        let mut supervisor = Supervisor::start(&order);
        let pid = supervisor.started();
        until("it is ready", || scene.log().contains("ready"));
        supervisor.kill();
        until("the worker has ended", || !runs(pid));
    }
}

#[test]
fn a_worker_of_a_relay_that_has_ended_at_once_ends_too() {
    let scene = Scene::new();
    let program = scene.program("exec sleep 600");
    let mut supervisor = Supervisor::start(&scene.order(&[text(&program)]));
    drop(supervisor.stdin.take());
    let pid = supervisor.started();
    supervisor.last();
    assert!(!is_there(pid));
}
