use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::scene::Scene;

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
    let mut command = super::support::process::relay_command();
    command.env("XDG_DATA_HOME", scene.directory.path());
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
fn a_log_is_followed_until_its_worker_has_ended() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two");
    super::support::until("one is there", || scene.log().contains("one"));
    let follows = std::thread::scope(|threads| {
        let follows = threads.spawn(|| logs(&scene, &["w1", "-f"]));
        std::fs::write(scene.path("go"), "").expect("there is room");
        supervisor.last();
        follows.join().expect("it ends")
    });
    assert_eq!(follows, (Some(0), "one\ntwo\n".to_owned(), String::new()));
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
