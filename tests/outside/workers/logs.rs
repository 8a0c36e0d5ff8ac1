use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::scene::{Scene, Supervisor, text};
use crate::support::{PATIENCE, until};

/// How many lines the worker that is followed writes at a time: half of what is put aside together, or more.
const PORTION: usize = 5_000;

/// What each of its lines says behind its number.
const LINE: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

#[test]
fn the_log_is_bounded_and_nobody_elses() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run("head -c 10000000 /dev/zero | tr '\\0' x; echo; echo end");
    let last = supervisor.last();
    let lines = last["last_lines"].as_array().expect("lines");
    assert_eq!(lines.last(), Some(&json!("end")));
    let workers = scene.path("relay/projects/default/workers");
    for name in ["w1.log", "w1.log.1"] {
        let found = workers.join(name).metadata().expect("it is there");
        assert!(found.len() <= 1024 * 1024, "{name}: {}", found.len());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }
    let mode = workers.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_worker_goes_on_without_its_log_and_relay_hears_of_that() {
    let scene = Scene::new();
    std::fs::create_dir_all(scene.path("relay/projects/default/workers/w1.log")).expect("there is room");
    let all = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(scene.path("relay/projects/default/workers"), all).expect("ours");
    let (mut supervisor, _) = scene.run("echo one; sleep 0.1; echo two");
    let trouble = supervisor.report();
    assert_eq!(trouble["event"], "trouble");
    let reason = trouble["reason"].as_str().expect("a text");
    assert!(
        reason.contains("Is a directory") && reason.ends_with("the worker goes on without"),
        "{reason}"
    );
    let last = supervisor.last();
    assert_eq!(
        (&last["status"], &last["last_lines"]),
        (&json!({"code": 0}), &json!(["one", "two"]))
    );
}

#[test]
fn a_directory_that_others_can_look_into_is_not_written_to() {
    let scene = Scene::new();
    let workers = scene.path("relay/projects/default/workers");
    std::fs::create_dir_all(&workers).expect("there is room");
    std::fs::set_permissions(&workers, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let failed = scene.start("echo never").last();
    let reason = failed["reason"].as_str().expect("a text");
    let expected = "cannot keep its log and its socket: ";
    assert!(
        reason.starts_with(expected)
            && reason.ends_with("is not a directory that only this user can look into"),
        "{reason}"
    );
}

fn logs(scene: &Scene, arguments: &[&str]) -> (Option<i32>, String, String) {
    logs_with(scene, &[], arguments)
}

fn logs_with(scene: &Scene, variables: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = crate::support::process::relay_command();
    command.envs(variables.iter().copied());
    command.env("XDG_DATA_HOME", scene.directory.path());
    command.current_dir(scene.directory.path());
    let output = command.arg("logs").args(arguments).output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_log_is_shown_as_the_terminal_showed_it_also_of_one_that_has_ended() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run(
        r#"printf '\033[31mred\033[0m\r\n1 of 2\r2 of 2\n\033]0;title\007end\n'; echo "$DIRECTORY" >/dev/null"#,
    );
    supervisor.last();
    let whole = (Some(0), "red\n2 of 2\nend\n".to_owned(), String::new());
    assert_eq!(logs(&scene, &["w1"]), whole);
    assert_eq!(logs(&scene, &["w1", "--follow"]), whole);
    let json = "{\"line\":\"red\"}\n{\"line\":\"2 of 2\"}\n{\"line\":\"end\"}\n";
    assert_eq!(
        logs(&scene, &["w1", "--json"]),
        (Some(0), json.to_owned(), String::new())
    );
}

#[test]
fn nothing_in_a_log_can_steer_the_terminal() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run(r"printf 'a\342\200\256b\n'");
    supervisor.last();
    for (arguments, shown) in [
        (&["w1"][..], "a\\u{202e}b\n"),
        (&["w1", "--json"], "{\"line\":\"a\\u202eb\"}\n"),
    ] {
        let expected = (Some(0), shown.to_owned(), String::new());
        assert_eq!(logs(&scene, arguments), expected);
    }
}

#[test]
fn a_line_that_was_never_ended_is_shown_once_its_worker_has() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run("printf 'one\\ntwo'");
    supervisor.last();
    let whole = (Some(0), "one\ntwo\n".to_owned(), String::new());
    assert_eq!(logs(&scene, &["w1", "--follow"]), whole);
}

#[test]
fn a_log_is_followed_until_its_worker_has_ended() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two");
    crate::support::until("one is there", || scene.log().contains("one"));
    let follows = std::thread::scope(|threads| {
        let follows = threads.spawn(|| logs(&scene, &["w1", "-f"]));
        std::fs::write(scene.path("go"), "").expect("there is room");
        supervisor.last();
        follows.join().expect("it ends")
    });
    assert_eq!(follows, (Some(0), "one\ntwo\n".to_owned(), String::new()));
}

#[test]
fn what_changes_all_the_time_is_shown_now_and_then() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run(
        r"printf 'clock 000\nlast'; while [ ! -e go ]; do sleep 0.01; done
        for now in $(seq -f %03g 100); do printf '\033[A\rclock %s\n' $now; sleep 0.03; done",
    );
    crate::support::until("it is there", || scene.log().contains("last"));
    let (code, shown, _) = std::thread::scope(|threads| {
        let follows = threads.spawn(|| logs(&scene, &["w1", "-f"]));
        std::fs::write(scene.path("go"), "").expect("there is room");
        supervisor.last();
        follows.join().expect("it ends")
    });
    assert_eq!(code, Some(0));
    assert!(shown.ends_with("clock 100\nlast\n"), "{shown}");
    let count = shown.matches("clock").count();
    assert!(count < 50, "{count} of a hundred times: {shown}");
}

#[test]
fn a_log_that_is_followed_is_shown_once_however_often_it_is_put_aside() {
    let scene = Scene::new();
    let asks = scene.path("asks");
    rustix::fs::mkfifoat(rustix::fs::CWD, &asks, rustix::fs::Mode::RWXU).expect("there is room");
    // Five generations, and the next lines once those before are shown: whoever follows is at most one behind.
    let (mut supervisor, _) = scene.run(&format!(
        "exec 3<asks
         seq -f 'line %06g {LINE}' 70000 |
         while read -r asked <&3 && dd bs={} count=1 iflag=fullblock 2>/dev/null; do :; done",
        PORTION * "line 000001 \n".len() + PORTION * LINE.len(),
    ));
    let mut asks = std::fs::File::options().write(true).open(asks).expect("it reads");
    let mut follows = crate::support::process::relay_command();
    let mut follows = follows
        .env("XDG_DATA_HOME", scene.directory.path())
        .args(["logs", "w1", "-f"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut shown = BufReader::new(follows.stdout.take().expect("a pipe")).lines();
    for number in 1..=70_000 {
        if number % PORTION == 1 {
            asks.write_all(b"\n").expect("it reads");
        }
        let line = shown.next().expect("it goes on").expect("it is text");
        assert_eq!(line, format!("line {number:06} {LINE}"));
    }
    drop(asks);
    supervisor.last();
    assert!(shown.next().is_none(), "once");
    assert_eq!(follows.wait().expect("it ends").code(), Some(0));
    assert!(
        scene.log().starts_with("\u{1b}_relay log "),
        "it has been put aside"
    );
    assert!(!scene.log().contains("line 050000"), "more than once");
}

#[test]
fn on_a_disk_that_is_nearly_full_a_gap_is_told_of_once_with_how_much_is_missing() {
    let scene = Scene::new();
    let program = scene.program(
        "stty -onlcr; n=0; while read line; do n=$((n + 1)); printf '%07d..' $n; done <\"$DIRECTORY/asks\"",
    );
    let asks = scene.path("asks");
    rustix::fs::mkfifoat(rustix::fs::CWD, &asks, rustix::fs::Mode::RWXU).expect("there is room");
    let mut supervisor = Supervisor::start_without_sigxfsz(&scene.order(&[text(&program)]));
    supervisor.started();
    let mut asks = std::fs::File::options().write(true).open(asks).expect("it reads");
    let limit = |bytes: usize| {
        let pid = rustix::process::Pid::from_raw(supervisor.pid());
        let limit = rustix::process::Rlimit {
            current: Some(bytes as u64),
            maximum: None,
        };
        rustix::process::prlimit(pid, rustix::process::Resource::Fsize, limit).expect("it runs");
    };
    let mut asked = 0;
    // Whoever is attached is shown what has gone into the log already.
    let socket = scene.path("relay/projects/default/workers/w1.sock");
    let mut shows = std::os::unix::net::UnixStream::connect(socket).expect("it listens");
    shows.set_read_timeout(Some(PATIENCE)).expect("it is no zero");
    let mut shown = Vec::new();
    // Has nine bytes written.
    let mut write = || {
        asked += 1;
        asks.write_all(b"\n").expect("it reads");
        let text = format!("{asked:07}..");
        while !String::from_utf8_lossy(&shown).contains(&text) {
            let mut bytes = [0; 4096];
            let count = std::io::Read::read(&mut shows, &mut bytes).expect("it is shown");
            assert_ne!(count, 0, "it goes on");
            shown.extend(&bytes[..count]);
        }
    };
    write();
    until("there is a log", || scene.log().ends_with("0000001.."));
    let full = scene.log().len();
    limit(full + 5);
    write();
    // There comes to be room for what tells of the gap, and for nothing behind that.
    let note = "\r\n[relay] 31 bytes are missing here, which could not be written\r\n\u{1b}[8;24;80t";
    for more in [5, 4 + note.len(), 5 + note.len(), 5 + note.len()] {
        limit(full + more);
        write();
    }
    limit(1_000_000);
    write();
    until("it goes on", || scene.log().ends_with("0000007.."));
    drop(asks);
    let log = scene.log();
    let note = note.replace("31", "40");
    let expected = format!("0000001..00000{note}0000007..");
    assert!(log.ends_with(&expected), "{log:?}");
    let trouble = supervisor.report();
    assert_eq!(trouble["event"], "trouble");
    assert_eq!(supervisor.last()["event"], "exited");
}

#[test]
fn who_has_never_run_has_no_log_and_one_of_several_projects_is_to_be_named() {
    let scene = Scene::new();
    let none = "relay logs: no worker w1 has run\n".to_owned();
    assert_eq!(logs(&scene, &["w1"]), (Some(3), String::new(), none));
    for (project, text) in [("a", "of a\n"), ("b", "of b\n")] {
        let directory = scene.path(&format!("relay/projects/{project}/workers"));
        std::fs::create_dir_all(&directory).expect("there is room");
        std::fs::write(directory.join("w1.log"), text).expect("there is room");
    }
    assert_eq!(logs(&scene, &["b:w1"]).1, "of b\n", "as relay names it");
    let variable = [("RELAY_PROJECT", "a")];
    assert_eq!(logs_with(&scene, &variable, &["b:w1"]).1, "of b\n");
    for (arguments, whom) in [
        (&["w2"][..], "a:w2 has run"),
        (&["b:w2"], "b:w2 has run"),
        (&["b:w2", "--project", "a"], "b:w2 has run"),
    ] {
        let none = format!("relay logs: no worker {whom}\n");
        assert_eq!(
            logs_with(&scene, &variable, arguments),
            (Some(3), String::new(), none)
        );
    }
    let several = "relay logs: several projects have a worker w1: a, b; choose one with --project\n";
    assert_eq!(
        logs(&scene, &["w1"]),
        (Some(1), String::new(), several.to_owned())
    );
    assert_eq!(
        logs(&scene, &["w1", "--project", "b"]),
        (Some(0), "of b\n".to_owned(), String::new())
    );
    let directory = scene.path("relay/projects/default/workers");
    std::fs::create_dir_all(&directory).expect("there is room");
    std::fs::write(directory.join("w1.log"), "of the default one\n").expect("there is room");
    assert_eq!(logs(&scene, &["w1"]).1, "of the default one\n", "as everywhere");
}

/// Leaves the log of a worker that has ended in a project.
fn leave(scene: &Scene, project: &str) {
    let directory = scene.path(&format!("relay/projects/{project}/workers"));
    std::fs::create_dir_all(&directory).expect("there is room");
    std::fs::write(directory.join("w1.log"), format!("of {project}\n")).expect("there is room");
}

#[test]
fn of_several_projects_the_worker_is_meant_that_runs_and_else_the_one_of_the_project_here() {
    let scene = Scene::new();
    let mut order = scene.order(&[text(&scene.program("echo it runs; read never"))]);
    order["files"]["directory"] = json!(scene.path("relay/projects/web/workers"));
    let mut running = Supervisor::start(&order);
    running.started();
    for project in ["default", "api"] {
        leave(&scene, project);
    }
    std::fs::create_dir(scene.path(".relay")).expect("there is room");
    let config = |text: &str| std::fs::write(scene.path(".relay/config.json"), text).expect("there is room");
    config(r#"{"project": "api"}"#);
    until("it has written", || logs(&scene, &["web:w1"]).1 == "it runs\n");
    assert_eq!(logs(&scene, &["w1"]).1, "it runs\n");
    let (empty, api) = ([("RELAY_PROJECT", "")], [("RELAY_PROJECT", "api")]);
    assert_eq!(logs_with(&scene, &empty, &["w1"]).1, "it runs\n");
    for (variables, arguments) in [(&empty, &["w1", "--project", "api"][..]), (&api, &["w1"])] {
        assert_eq!(
            logs_with(&scene, variables, arguments).1,
            "of api\n",
            "it is asked for"
        );
    }
    assert_eq!(logs(&scene, &["default:w1"]).1, "of default\n", "whichever runs");
    let default = scene.path("relay/projects/default/workers/w1.log");
    std::fs::rename(&default, scene.path("away")).expect("it is there");
    let told = "it runs\n";
    assert_eq!(
        logs(&scene, &["default:w1"]).1,
        told,
        "so a relay of one project calls its own"
    );
    std::fs::rename(scene.path("away"), &default).expect("it is there");
    running.end();
    running.last();
    assert_eq!(logs(&scene, &["w1"]).1, "of api\n", "as the file says");
    assert_eq!(
        logs_with(&scene, &[("RELAY_PROJECT", "web")], &["w1"]).1,
        "it runs\n"
    );
    config(r#"{"project": "other"}"#);
    assert_eq!(logs(&scene, &["w1"]).1, "of default\n");
    config("{");
    let (code, _, said) = logs(&scene, &["w1"]);
    assert!(
        code == Some(1) && said.contains(".relay/config.json: line 1"),
        "{said}"
    );
    assert_eq!(logs(&scene, &["api:w1"]).1, "of api\n", "no file is needed");
}

#[test]
fn a_log_that_is_followed_ends_where_another_worker_has_its_name() {
    let scene = Scene::new();
    let (mut first, _) = scene.run("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two");
    until("one is there", || scene.log().contains("one"));
    let mut follows = crate::support::process::relay_command();
    follows.env("XDG_DATA_HOME", scene.directory.path());
    follows
        .args(["logs", "w1", "-f"])
        .stdout(std::process::Stdio::piped());
    let mut follows = crate::support::process::Process::start(&mut follows);
    let mut shown = BufReader::new(follows.child.stdout.take().expect("a pipe")).lines();
    assert_eq!(shown.next().expect("it goes on").expect("it is text"), "one");
    // It sees neither the end of the one nor the begin of the other.
    let pid = follows.child.id();
    crate::support::process::signal(pid, "STOP");
    until("it is stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| stat.contains(") T "))
    });
    std::fs::write(scene.path("go"), "").expect("there is room");
    first.last();
    let (mut second, _) = scene.run("echo three; read never");
    until("three is there", || scene.log().contains("three"));
    crate::support::process::signal(pid, "CONT");
    assert_eq!(follows.exit_status().code(), Some(0));
    let rest: Vec<String> = shown.map(|line| line.expect("it is text")).collect();
    assert_eq!(rest, ["two"]);
    assert_eq!(
        follows.kill(),
        "relay logs: w1 has ended, and another worker has its name\n"
    );
    second.end();
    second.last();
}

#[test]
fn a_line_that_is_not_ended_is_shown_once_nothing_more_comes() {
    let scene = Scene::new();
    let script = r"printf 'one\nAnd now?'; while [ ! -e go ]; do sleep 0.01; done; echo; echo two";
    let (mut supervisor, _) = scene.run(script);
    let mut follows = crate::support::process::relay_command();
    follows.env("XDG_DATA_HOME", scene.directory.path());
    follows
        .args(["logs", "w1", "-f"])
        .stdout(std::process::Stdio::piped());
    let mut follows = crate::support::process::Process::start(&mut follows);
    let stdout = BufReader::new(follows.child.stdout.take().expect("a pipe"));
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = stdout.lines().map_while(Result::ok);
        lines.all(|line| sender.send(line).is_ok())
    });
    for line in ["one", "And now?"] {
        assert_eq!(
            lines.recv_timeout(PATIENCE).as_deref(),
            Ok(line),
            "its worker runs"
        );
    }
    std::fs::write(scene.path("go"), "").expect("there is room");
    supervisor.last();
    assert_eq!(follows.exit_status().code(), Some(0));
    assert_eq!(lines.iter().collect::<Vec<_>>(), ["two"]);
}

#[test]
fn a_reader_of_a_log_that_has_gone_has_had_enough_and_a_full_disk_is_told_of() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run("echo one");
    supervisor.last();
    let said = |stdout: std::process::Stdio, follow: &[&str]| {
        let mut command = crate::support::process::relay_command();
        command.env("XDG_DATA_HOME", scene.directory.path());
        let output = command.args(["logs", "w1"]).args(follow).stdout(stdout).output();
        let output = output.expect("it ends");
        let text = String::from_utf8(output.stderr).expect("it is text");
        (output.status.code(), text)
    };
    for follow in [&["-f"][..], &[]] {
        let (reader, gone) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(said(gone.into(), follow), (Some(0), String::new()));
        let full = std::fs::File::options().write(true).open("/dev/full");
        let told = "relay logs: No space left on device (os error 28)\n".to_owned();
        assert_eq!(said(full.expect("Linux has it").into(), follow), (Some(1), told));
    }
}

#[test]
fn where_nothing_says_where_logs_are_that_is_said() {
    let mut command = crate::support::process::relay_command();
    command.env("XDG_DATA_HOME", "").env("HOME", "");
    let output = command.args(["logs", "w1"]).output().expect("it ends");
    let said = "relay logs: neither XDG_DATA_HOME nor HOME says where workers' logs are; set one of them\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    assert_eq!(output.status.code(), Some(1));
}
