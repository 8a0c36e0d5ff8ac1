//! What an installation refuses, and what it says then.

use super::*;

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_place_and_nothing_is_changed() {
    let desk = Desk::new();
    let (broken, other) = (
        desk.project.join(".cursor/mcp.json"),
        desk.project.join(".vscode/mcp.json"),
    );
    desk.write(&broken, "{\n  \"mcpServers\": {\n    \"relay\": [}\n  }\n}");
    desk.write(&other, "{\"servers\": 1} // relay");
    let before = desk.files();
    let named = format!(
        "{}: line 3, column 15: unexpected close brace\n{}: line 1, column 13: \"servers\" is something else; accepted: an object\nnothing was changed\n",
        broken.display(),
        other.display()
    );
    for arguments in [
        vec![
            "install", "--editor", "claude", "--editor", "cursor", "--editor", "vscode",
        ],
        vec!["uninstall"],
    ] {
        let stderr = format!("relay {}: {named}", arguments[0]);
        desk.relay(&arguments).assert().code(1).stdout("").stderr(stderr);
        assert_eq!(desk.files(), before);
    }
    fs::write(&broken, b"{\n \"\xff\": 1}").expect("a file");
    let stderr = format!(
        "relay install: {}: line 2, column 3: this is no UTF-8\nnothing was changed\n",
        broken.display()
    );
    let arguments = ["install", "--editor", "cursor"];
    desk.relay(&arguments).assert().code(1).stdout("").stderr(stderr);
    fs::remove_file(&broken).expect("it is there");
    fs::create_dir(&broken).expect("a directory");
    let stderr = format!(
        "relay install: cannot read {}: it is no file\nnothing was changed\n",
        broken.display()
    );
    desk.relay(&arguments).assert().code(1).stdout("").stderr(stderr);
}

#[test]
fn where_a_later_file_cannot_be_written_those_before_are_told() {
    let desk = Desk::new();
    // Where the directory of the second file would be.
    desk.write(&desk.project.join(".vscode"), "");
    let (first, second) = (
        desk.project.join(".cursor/mcp.json"),
        desk.project.join(".vscode/mcp.json"),
    );
    let third = desk.home.join(".config/zed/settings.json");
    let arguments = [
        "install", "--editor", "cursor", "--editor", "vscode", "--editor", "zed",
    ];
    let told = contains(format!("cannot read {}: ", second.display())).and(contains("nothing was changed"));
    desk.relay(&arguments).assert().code(1).stdout("").stderr(told);
    assert!(!first.exists());

    fs::remove_file(desk.project.join(".vscode")).expect("it is there");
    symlink(desk.home.join("gone/"), desk.project.join(".vscode")).expect("a link");
    let told = predicates::str::starts_with(format!("relay install: cannot write {}: ", second.display()))
        .and(predicates::str::ends_with(format!(
            "\nchanged before that: {}; not changed: it and {}\n",
            first.display(),
            third.display()
        )));
    let made = format!("Cursor: made {}\n", first.display());
    desk.relay(&arguments).assert().code(1).stdout(made).stderr(told);
    assert!(first.exists() && !third.exists());
}

#[test]
fn what_an_editor_or_relay_does_not_have_is_refused_with_what_is_accepted() {
    let desk = Desk::new();
    fs::create_dir(desk.home.join(".codex")).expect("a directory");
    let sse = "relay install: Codex does not take --transport sse; accepted: http, stdio\n";
    for arguments in [
        vec![
            "install",
            "--editor",
            "claude",
            "--editor",
            "codex",
            "--transport",
            "sse",
        ],
        vec!["install", "--transport", "sse"],
    ] {
        desk.relay(&arguments).assert().code(1).stdout("").stderr(sse);
    }
    for (arguments, named) in [
        (
            ["--editor", "emacs"],
            "[possible values: claude, codex, gemini, opencode, cursor, vscode, windsurf, zed, auto]",
        ),
        (["--transport", "tcp"], "[possible values: sse, http, stdio]"),
        (
            ["--tools", "x"],
            "unknown toolset \"x\"; accepted: lift, thrum, agent-relay, or all, with commas between them",
        ),
        (["--port", "0"], "a port is a number from 1 to 65535"),
    ] {
        let arguments = [&["install"][..], &arguments].concat();
        desk.relay(&arguments)
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(named));
    }
    desk.relay(&["install", "--editor", "claude"])
        .env_remove("HOME")
        .assert()
        .code(1)
        .stderr("relay install: HOME is not set to an absolute path; set it to your home directory\n");
    assert_eq!(desk.files(), []);
}

#[test]
fn a_half_of_a_character_stops_nobody_and_stays() {
    let desk = Desk::new();
    let (claude, cursor) = (
        desk.project.join(".mcp.json"),
        desk.project.join(".cursor/mcp.json"),
    );
    let text = "{\n  \"cut\": \"\\ud83d\",\n  \"whole\": \"\\ud83d\\ude00\"\n}\n";
    desk.write(&claude, text);
    desk.relay(&["install", "--editor", "claude", "--editor", "cursor"])
        .assert()
        .code(0);
    let installed = fs::read_to_string(&claude).expect("it is there");
    assert!(
        installed.contains("\"\\ud83d\",") && installed.contains("\"relay\""),
        "{installed}"
    );
    assert!(cursor.exists());
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), [(claude, text.to_owned())]);
}

#[test]
fn servers_to_which_none_can_be_added_are_told_with_how_they_are_written() {
    let desk = Desk::new();
    let file = desk.home.join(".codex/config.toml");
    let install = ["install", "--editor", "codex"];
    let others = contains(
        "accepted: each as a table of its own, such as [mcp_servers.NAME]; write them so, and install again\n",
    );
    for text in [
        "mcp_servers.other.command = \"x\"\n",
        "mcp_servers = { other = { command = \"x\" } }\n",
    ] {
        desk.write(&file, text);
        desk.relay(&install).assert().code(1).stderr(others.clone());
    }
    desk.write(&file, "mcp_servers.relay.url = \"http://localhost:1/mcp\"\n");
    let own = contains("take relay's entry out of the file, and install again");
    desk.relay(&install).assert().code(1).stderr(own);
}

#[test]
fn two_editors_with_one_file_are_both_named_before_anything_is_changed() {
    let desk = Desk::new();
    let file = desk.project.join(".mcp.json");
    desk.write(&file, "{}");
    fs::create_dir(desk.project.join(".cursor")).expect("a directory");
    symlink("../.mcp.json", desk.project.join(".cursor/mcp.json")).expect("a link");
    let before = desk.files();
    let both = ["install", "--editor", "claude", "--editor", "cursor"];
    let told = format!(
        "relay install: Claude Code and Cursor have one file, {}, and each wants another entry there; \
         accepted: a file of its own for one of them, or one of them by --editor\nnothing was changed\n",
        file.display()
    );
    for dry in [&[][..], &["--dry-run"]] {
        let install = [&both[..], dry].concat();
        desk.relay(&install)
            .assert()
            .code(1)
            .stdout("")
            .stderr(told.clone());
        assert_eq!(desk.files(), before);
    }
    desk.relay(&both[..3]).assert().code(0);
    assert_ne!(desk.files(), before);
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), before);
}

#[test]
fn what_an_installation_has_left_that_was_killed_goes_with_the_next_one() {
    let desk = Desk::new();
    let mut over = std::process::Command::new(RELAY);
    over.arg("--version").stdout(std::process::Stdio::null());
    let mut over = over.spawn().expect("it starts");
    over.wait().expect("it ends");
    let left = |name: &str, process: u32| desk.project.join(format!(".{name}.{process}.new"));
    let gone = left(".mcp.json", over.id());
    let stay = [
        left(".mcp.json", std::process::id()),
        left("package.json", over.id()),
        desk.project.join("..mcp.json.mine.new"),
    ];
    for file in stay.iter().chain([&gone]) {
        desk.write(file, "{");
    }
    let install = ["install", "--editor", "claude", "--no-hooks"];
    desk.relay(&install).assert().code(0);
    assert!(!gone.exists());
    assert!(stay.iter().all(|file| file.exists()));
}

#[test]
fn what_two_editors_have_in_one_file_by_a_link_among_its_directories_is_taken_out() {
    let desk = Desk::new();
    let shared = desk.project.join("shared/mcp.json");
    desk.write(&shared, "{\"mcpServers\": {}}\n");
    symlink("shared/mcp.json", desk.project.join(".mcp.json")).expect("a link");
    symlink("shared", desk.project.join(".cursor")).expect("a link");
    let before = desk.files();
    let install = ["install", "--editor", "claude", "--no-hooks"];
    desk.relay(&install).assert().code(0);
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), before);
}

#[test]
fn where_two_editors_have_something_in_one_file_uninstall_names_both() {
    let desk = Desk::new();
    let file = desk.project.join(".vscode/mcp.json");
    desk.write(&file, "{}\n");
    symlink(".vscode", desk.project.join(".cursor")).expect("a link");
    let before = desk.files();
    for editor in ["cursor", "vscode"] {
        desk.relay(&["install", "--editor", editor]).assert().code(0);
    }
    let told = format!(
        "relay uninstall: Cursor and VS Code have one file, {}, in which something of relay's is for each; \
         accepted: one of them by --editor, and then the other\nnothing was changed\n",
        file.display()
    );
    desk.relay(&["uninstall"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(told);
    for editor in ["cursor", "vscode"] {
        desk.relay(&["uninstall", "--editor", editor]).assert().code(0);
    }
    assert_eq!(desk.files(), before);
}

#[test]
fn where_the_first_file_cannot_be_written_nothing_is_changed() {
    let desk = Desk::new();
    symlink(desk.home.join("gone/"), desk.project.join(".cursor")).expect("a link");
    let install = ["install", "--editor", "cursor", "--editor", "vscode"];
    for editors in [&install[..3], &install] {
        let told = predicates::str::starts_with(format!(
            "relay install: cannot write {}: ",
            desk.project.join(".cursor/mcp.json").display()
        ));
        let told = told.and(predicates::str::ends_with("\nnothing was changed\n"));
        desk.relay(editors).assert().code(1).stdout("").stderr(told);
        assert_eq!(desk.files(), []);
    }
}

#[test]
fn a_broken_file_in_which_nothing_is_relays_does_not_stop_an_undoing() {
    let desk = Desk::new();
    let (broken, made) = (
        desk.project.join(".cursor/mcp.json"),
        desk.project.join(".vscode/mcp.json"),
    );
    let text = "{\"mcpServers\": {\"mine\": [}";
    desk.write(&broken, text);
    desk.relay(&["install", "--editor", "vscode"]).assert().code(0);
    let told = format!("VS Code: removed {}, in which nothing else was\n", made.display());
    desk.relay(&["uninstall"]).assert().code(0).stdout(told);
    assert_eq!(desk.files(), [(broken, text.to_owned())]);
}

#[test]
fn where_a_file_cannot_be_written_those_that_stay_as_they_are_are_not_told() {
    let desk = Desk::new();
    let others = ["install", "--editor", "cursor", "--editor", "zed"];
    desk.relay(&others).assert().code(0);
    let before = desk.files();
    symlink(desk.home.join("gone/"), desk.project.join(".vscode")).expect("a link");
    let told = predicates::str::starts_with(format!(
        "relay install: cannot write {}: ",
        desk.project.join(".vscode/mcp.json").display()
    ));
    let told = told.and(predicates::str::ends_with("\nnothing was changed\n"));
    let same = format!(
        "Cursor: {} is as it should be\n",
        desk.project.join(".cursor/mcp.json").display()
    );
    let all = [&others[..], &["--editor", "vscode"]].concat();
    desk.relay(&all).assert().code(1).stdout(same).stderr(told);
    assert_eq!(desk.files(), before);
}

#[test]
fn where_the_last_file_cannot_be_written_no_other_is_said_to_be_left() {
    let desk = Desk::new();
    symlink(desk.home.join("gone/"), desk.project.join(".vscode")).expect("a link");
    let told = predicates::str::starts_with(format!(
        "relay install: cannot write {}: ",
        desk.project.join(".vscode/mcp.json").display()
    ));
    let told = told.and(predicates::str::ends_with(format!(
        "\nchanged before that: {}; not changed: it\n",
        desk.project.join(".cursor/mcp.json").display()
    )));
    let install = ["install", "--editor", "cursor", "--editor", "vscode"];
    desk.relay(&install).assert().code(1).stderr(told);
}

#[test]
fn a_file_that_is_no_text_stops_an_undoing_since_something_of_relays_may_be_in_it() {
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    fs::create_dir(desk.project.join(".cursor")).expect("a directory");
    fs::write(&file, b"{\n \"\xff\": 1}").expect("a file");
    let told = format!(
        "relay uninstall: {}: line 2, column 3: this is no UTF-8\nnothing was changed\n",
        file.display()
    );
    desk.relay(&["uninstall"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(told);
}

#[test]
fn a_path_that_would_steer_a_terminal_is_told_with_escapes() {
    let desk = Desk::new();
    let odd = desk.project.join("a\u{1b}[2J");
    desk.write(&odd.join(".cursor/mcp.json"), "{}");
    let elsewhere = desk.home.join("b\u{1b}[2J");
    desk.write(&elsewhere, "{}");
    fs::create_dir(odd.join(".vscode")).expect("a directory");
    symlink(&elsewhere, odd.join(".vscode/mcp.json")).expect("a link");
    let install = ["install", "--editor", "cursor", "--editor", "vscode"];
    let done = desk.relay(&install).current_dir(&odd).assert().code(0);
    let told = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    assert!(!told.contains('\u{1b}'), "{told:?}");
    for shown in ["a\\u{1b}[2J", "b\\u{1b}[2J"] {
        assert!(told.contains(shown), "{told:?}");
    }
}

#[test]
fn what_cannot_be_kept_as_it_was_is_not_changed() {
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    desk.write(&file, "{\"mine\": 1}");
    let data = desk.home.join(".local/share/relay");
    fs::create_dir_all(&data).expect("a directory");
    symlink(desk.home.join("gone"), data.join("backups")).expect("a link");
    let told = predicates::str::starts_with(format!(
        "relay install: cannot keep {} as it is now, or was once: ",
        file.display()
    ));
    let told = told.and(predicates::str::ends_with("\nnothing was changed\n"));
    let install = ["install", "--editor", "cursor"];
    desk.relay(&install).assert().code(1).stdout("").stderr(told);
    assert_eq!(desk.files(), [(file, "{\"mine\": 1}".to_owned())]);
}

#[test]
fn a_file_that_is_longer_than_any_such_one_stays() {
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    desk.write(&file, "{}");
    let bytes = 64 * 1024 * 1024 + 1;
    let long = fs::File::options().write(true).open(&file).expect("it is there");
    long.set_len(bytes).expect("there is room");
    let told = format!(
        "relay install: cannot read {}: it has more than 67108864 bytes\nnothing was changed\n",
        file.display()
    );
    let install = ["install", "--editor", "cursor"];
    desk.relay(&install).assert().code(1).stdout("").stderr(told);
    assert_eq!(file.metadata().expect("it is there").len(), bytes);
}
