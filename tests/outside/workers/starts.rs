use serde_json::json;

use super::scene::{Scene, Supervisor, text};
use crate::support::until;

#[test]
fn a_program_has_a_terminal_and_a_session_of_its_own_and_what_it_was_given() {
    let scene = Scene::new();
    let program = scene.program(
        r#"[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo "a terminal of $(stty size)"
echo "$RELAY_AGENT in $(pwd) of ${TMUX-nobody}: $1"
ps -o pid=,pgid=,sid=,tty= -p $$ >"$DIRECTORY/ids"
exit 3"#,
    );
    let mut order = scene.order(&[text(&program), "the task"]);
    order["env"]["TMUX"] = json!(null);
    let mut supervisor = Supervisor::start(&order);
    let pid = supervisor.started();
    let last = supervisor.last();
    let here = scene.directory.path().display();
    let lines = json!(["a terminal of 24 80", format!("w1 in {here} of nobody: the task")]);
    assert_eq!(
        last,
        json!({"event": "exited", "status": {"code": 3}, "last_lines": lines})
    );
    let ids = scene.text("ids");
    let ids: Vec<&str> = ids.split_whitespace().collect();
    assert_eq!(ids[..3], [pid.to_string(), pid.to_string(), pid.to_string()]);
    assert!(ids[3].starts_with("pts/"), "{ids:?}");
}

#[test]
fn a_program_without_a_terminal_has_nothing_to_read_and_is_heard_all_the_same() {
    let scene = Scene::new();
    let program = scene.program("[ -t 1 ] || echo no terminal; cat; echo to stderr >&2");
    let mut order = scene.order(&[text(&program)]);
    order["in_terminal"] = json!(false);
    let mut supervisor = Supervisor::start(&order);
    supervisor.started();
    let last = supervisor.last();
    assert_eq!(last["last_lines"], json!(["no terminal", "to stderr"]));
    assert_eq!(last["status"], json!({"code": 0}));
}

#[test]
fn a_signal_that_ends_a_program_is_told() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run("kill -KILL $$");
    assert_eq!(supervisor.last()["status"], json!({"signal": 9}));
}

#[test]
fn what_cannot_be_started_says_why_and_what_to_do() {
    let scene = Scene::new();
    let here = scene.directory.path().display().to_string();
    std::fs::write(scene.path("plain"), "text").expect("there is room");
    std::fs::create_dir(scene.path("folder")).expect("there is room");
    let no_such = "\"no-such-cli\" is not installed: no such program in PATH; install it, or name another command line under \
                   workers.codex in .relay/config.json";
    for (program, reason) in [
        ("no-such-cli", no_such.to_owned()),
        (
            "plain",
            format!(
                "{here}/plain may not be run: permission denied; make it executable with chmod +x, or name another \
                           command line under workers.codex in .relay/config.json"
            ),
        ),
        (
            "./gone",
            format!(
                "{here}/./gone: No such file or directory (os error 2); install it, or name another command line under \
                            workers.codex in .relay/config.json"
            ),
        ),
        (
            "./folder",
            format!(
                "{here}/./folder is a directory; name a program under workers.codex in .relay/config.json"
            ),
        ),
    ] {
        let mut order = scene.order(&[program]);
        order["env"]["PATH"] = json!(here);
        let mut supervisor = Supervisor::start(&order);
        assert_eq!(
            supervisor.last(),
            json!({"event": "failed", "reason": reason}),
            "{program}"
        );
    }
    let mut order = scene.order(&["sh"]);
    order["cwd"] = json!("/no/such/directory");
    let reason = "/no/such/directory is no directory that is there";
    assert_eq!(
        Supervisor::start(&order).last(),
        json!({"event": "failed", "reason": reason})
    );
    let long = "x".repeat(200_000);
    let failed = Supervisor::start(&scene.order(&["sh", &long])).last();
    let reason = failed["reason"].as_str().expect("a text");
    assert!(
        reason.contains("the task is longer than the system takes in a command line"),
        "{reason}"
    );
}

#[test]
fn a_name_is_waited_for_until_the_worker_before_has_ended() {
    let scene = Scene::new();
    let (mut first, _) = scene.run("trap 'sleep 0.3; exit 0' TERM; echo ready; while :; do sleep 0.05; done");
    until("the first one is ready", || scene.log().contains("ready"));
    first.end();
    let mut second = Supervisor::start(&scene.order(&["sh", "-c", "echo second"]));
    second.started();
    assert_eq!(first.last()["status"], json!({"code": 0}));
    assert_eq!(second.last()["last_lines"], json!(["second"]));
    assert!(!scene.log().contains("ready"), "a log is that of one worker");
}

#[test]
fn who_waits_for_a_name_can_be_told_to_end() {
    let scene = Scene::new();
    let (mut first, _) = scene.run("echo ready; exec sleep 600");
    until("the first one is ready", || scene.log().contains("ready"));
    let mut second = Supervisor::start(&scene.order(&["sh", "-c", "echo second"]));
    second.end();
    let reason = "it was told to end before it was started";
    assert_eq!(second.last(), json!({"event": "failed", "reason": reason}));
    first.end();
    first.last();
}

#[test]
fn a_program_is_told_its_directory_and_not_what_is_taken_out_of_its_environment() {
    let scene = Scene::new();
    let mut order = scene.order(&["printenv", "PWD", "RELAY_PERSON"]);
    // It is set for all that the tests start.
    order["env"]["RELAY_PERSON"] = json!(null);
    order["cols"] = json!(1_000);
    let mut supervisor = Supervisor::start(&order);
    supervisor.started();
    let here = text(scene.directory.path());
    assert_eq!(supervisor.last()["last_lines"], json!([here]));
}

#[test]
fn who_is_no_relay_is_told_so() {
    let refused = crate::support::process::relay_command()
        .arg("worker")
        .output()
        .expect("it ends");
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("it is started by relay serve, and was given no order"),
        "{said}"
    );
}

/// Signals of this mask, as `/proc` shows it, that a program is started with.
fn mask(scene: &Scene, name: &str) -> u64 {
    let status = scene.text("status");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    u64::from_str_radix(line.expect("it is there").trim(), 16).expect("a number")
}

#[test]
#[cfg(target_os = "linux")]
fn what_relay_was_told_to_ignore_a_program_is_not() {
    let scene = Scene::new();
    let program = scene.program(
        // By the shell alone, which blocks signals while it starts another program.
        "while read -r line; do echo \"$line\"; done </proc/self/status >\"$DIRECTORY/status\"; exec sleep 600",
    );
    let order = scene.order(&[text(&program)]);
    // INT and QUIT are those of what a shell without job control runs in the background.
    let all = "HUP INT QUIT TERM ALRM USR1 USR2 TSTP TTIN TTOU WINCH XCPU XFSZ VTALRM PROF URG";
    let supervisor = Supervisor::start_ignoring(all, &order);
    supervisor.started();
    until("it has said what it ignores", || {
        scene.text("status").contains("SigIgn:")
    });
    until("all of it", || scene.text("status").contains("SigCgt:"));
    // Of what is above these the C library says what it is for.
    let of_system = mask(&scene, "SigIgn:") & 0x7fff_ffff;
    assert_eq!(of_system, 0, "{}", scene.text("status"));
    assert_eq!(mask(&scene, "SigBlk:"), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn no_file_that_relay_was_started_with_reaches_a_program() {
    let scene = Scene::new();
    let script = r#"for fd in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$fd ] && open="$open $fd"; done
echo "open:$open"; exit 3"#;
    let program = scene.program(script);
    for in_terminal in [true, false] {
        let mut order = scene.order(&[text(&program)]);
        order["in_terminal"] = json!(in_terminal);
        let mut supervisor = Supervisor::start_after("exec 3</dev/null 5</dev/null 7>/dev/null", &order);
        supervisor.started();
        assert_eq!(supervisor.last()["last_lines"], json!(["open: 0 1 2"]));
    }
}

#[test]
fn who_waits_for_a_name_in_vain_is_told_so() {
    let scene = Scene::new();
    let (mut first, _) = scene.run("echo ready; exec sleep 600");
    until("the first one is ready", || scene.log().contains("ready"));
    let failed = Supervisor::start(&scene.order(&["sh", "-c", "echo second"])).last();
    assert_eq!(failed["event"], "failed", "{failed}");
    let reason = failed["reason"].as_str().expect("a text");
    assert!(
        reason.starts_with("another worker of its name has not ended yet")
            && reason.ends_with("choose another name"),
        "{reason}"
    );
    first.end();
    assert_eq!(first.last()["status"], json!({"signal": 15}));
}

#[test]
fn a_program_is_looked_for_in_all_of_its_path_from_where_it_works() {
    let scene = Scene::new();
    for (directory, mode) in [("first", 0o644), ("second", 0o755)] {
        std::fs::create_dir(scene.path(directory)).expect("there is room");
        let tool = scene.path(directory).join("tool");
        std::fs::write(&tool, format!("#!/bin/sh\necho {directory}\n")).expect("there is room");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&tool, mode).expect("ours");
    }
    let mut order = scene.order(&["tool"]);
    order["env"]["PATH"] = json!("gone:first:second");
    let mut supervisor = Supervisor::start(&order);
    supervisor.started();
    assert_eq!(supervisor.last()["last_lines"], json!(["second"]));
}

#[test]
fn a_worker_to_which_nobody_can_attach_runs_all_the_same_and_relay_hears_of_that() {
    let scene = Scene::new();
    let mut order = scene.order(&["sh", "-c", "echo here"]);
    // Longer than the path of a socket may be.
    order["files"]["directory"] = json!(scene.path(&"x".repeat(120)));
    let mut supervisor = Supervisor::start(&order);
    let trouble = supervisor.report();
    assert_eq!(trouble["event"], "trouble", "{trouble}");
    let reason = trouble["reason"].as_str().expect("a text");
    assert!(reason.starts_with("nobody can attach to w1: "), "{reason}");
    supervisor.started();
    assert_eq!(supervisor.last()["last_lines"], json!(["here"]));
}

#[test]
#[cfg(target_os = "linux")]
fn the_step_before_a_program_runs_it_for_its_own_supervisor_alone() {
    let scene = Scene::new();
    let program = scene.program("echo >\"$DIRECTORY/ran\"");
    let here = text(scene.directory.path());
    let launch = json!({
        "program": program, "argv": ["program"], "env": {"DIRECTORY": here}, "cwd": here,
        "open_files": null, "terminal": null, "supervisor": 1,
    });
    let said_to = |arguments: &[&str], text: &str| {
        let mut command = assert_cmd::Command::from_std(crate::support::process::relay_command());
        command.args(arguments).write_stdin(text);
        command.assert().code(0).stderr("")
    };
    let lost = "it cannot be given a terminal: relay has ended";
    said_to(&["worker", "launch"], &launch.to_string()).stdout(lost);
    let nobody = predicates::str::starts_with("relay worker launch is started by relay: missing field");
    said_to(&["worker", "launch"], "{}").stdout(nobody);
    assert!(!scene.path("ran").exists());
    said_to(&["worker"], "{\"order\":\"end\"}\n").stdout("");
}

#[test]
fn no_program_at_all_and_one_that_the_system_does_not_run_are_told() {
    let scene = Scene::new();
    let failed = |argv: &[&str]| {
        let failed = Supervisor::start(&scene.order(argv)).last();
        assert_eq!(failed["event"], "failed", "{failed}");
        failed["reason"].as_str().expect("a text").to_owned()
    };
    let empty = "the command line of \"codex\" is empty; name one under workers.codex in .relay/config.json";
    assert_eq!([failed(&[]), failed(&[""])], [empty, empty]);
    let program = scene.program("");
    std::fs::write(&program, "#!/no/such/interpreter\n").expect("there is room");
    let reason = format!(
        "{} cannot be run: No such file or directory (os error 2)",
        program.display()
    );
    assert_eq!(failed(&[text(&program)]), reason);
}
