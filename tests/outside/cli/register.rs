//! `relay register`: what it writes and where, what it says, and what it refuses.

use std::fs;
use std::path::Path;

use super::*;

/// Makes a call in a directory.
fn register(directory: &Path, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = relay(&["register"]);
    command.args(arguments).current_dir(directory);
    command
}

/// A directory under the name that a process in it has for it.
fn directory() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().canonicalize().expect("it is there");
    (directory, path)
}

#[test]
fn an_identity_is_written_and_the_command_of_its_bridge_told() {
    let (_directory, top) = directory();
    let file = top.join(".relay/identities/Furiosa.json");
    let told = |how: &str| {
        format!(
            "Furiosa (role implementer, module auth) is registered {how}in {}\n\
             start its bridge with: {} mcp --agent Furiosa --tools thrum\n",
            file.display(),
            env!("CARGO_BIN_EXE_relay")
        )
    };
    let arguments = ["Furiosa", "--role", "implementer", "--module", "auth"];
    let written = "{\n  \"name\": \"Furiosa\",\n  \"role\": \"implementer\",\n  \"module\": \"auth\"\n}\n";
    for how in ["", "already "] {
        register(&top, &arguments)
            .assert()
            .code(0)
            .stdout(told(how))
            .stderr("");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), written);
    }
}

#[test]
fn another_identity_of_the_name_is_kept_unless_it_is_forced_out() {
    let (_directory, top) = directory();
    let file = top.join(".relay/identities/max.json");
    register(&top, &["max", "--role", "tester"]).assert().code(0);
    let before = fs::read_to_string(&file).expect("it is there");
    let named = format!(
        "relay register: {} says that there is max (role tester) already; choose another name, or take its place with --force\n",
        file.display()
    );
    for others in [
        vec!["--role", "builder"],
        vec!["--role", "tester", "--module", "ui"],
    ] {
        let arguments = [vec!["max"], others.clone()].concat();
        register(&top, &arguments)
            .assert()
            .code(1)
            .stdout("")
            .stderr(named.clone());
        assert_eq!(fs::read_to_string(&file).expect("it is there"), before);
    }
    register(&top, &["max", "--role", "builder", "--force"])
        .assert()
        .code(0)
        .stdout(contains("max (role builder) is registered in "))
        .stderr("");
    let written = "{\n  \"name\": \"max\",\n  \"role\": \"builder\"\n}\n";
    assert_eq!(fs::read_to_string(&file).expect("it is there"), written);
    fs::write(&file, "{").expect("a file");
    let broken = contains("max.json is there already and cannot be read: it is no JSON")
        .and(contains("take its place with --force"));
    register(&top, &["max", "--role", "builder"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(broken);
    register(&top, &["max", "--role", "builder", "--force"])
        .assert()
        .code(0);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), written);
}

#[test]
fn the_directory_is_that_of_the_project() {
    let (_directory, top) = directory();
    let deep = top.join("main/src");
    fs::create_dir_all(&deep).expect("a directory");
    fs::create_dir(top.join("main/.git")).expect("a directory");
    register(&deep, &["max", "--role", "tester"]).assert().code(0);
    assert!(top.join("main/.relay/identities/max.json").is_file());
    // As `git worktree add` makes one.
    let own = top.join("main/.git/worktrees/tree");
    let tree = top.join("tree");
    for made in [&own, &tree] {
        fs::create_dir_all(made).expect("a directory");
    }
    fs::write(own.join("commondir"), "../..\n").expect("a file");
    fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).expect("a file");
    register(&tree, &["ace", "--role", "tester"]).assert().code(0);
    assert!(top.join("main/.relay/identities/ace.json").is_file());
    assert!(!tree.join(".relay").exists());
}

#[test]
fn what_is_no_name_or_no_role_is_refused_with_what_is_accepted() {
    let (_directory, top) = directory();
    let name = "a name has 1 to 32 of A-Z, a-z, 0-9, -, _ and ., starts with a letter or a digit, and does not end with a dot";
    let label = "accepted: 1 to 32 of A-Z, a-z, 0-9, -, _ and ., starting with a letter or a digit and not ending with a dot";
    let whom = |whom: &str| format!("the name stands for {whom}; choose another");
    for (arguments, value, reason) in [
        (
            vec!["user", "--role", "x"],
            "'user' for '<NAME>'",
            whom("the person who runs relay"),
        ),
        (
            vec!["everyone", "--role", "x"],
            "'everyone' for '<NAME>'",
            "role name \"everyone\" is taken: it means something else in an address".to_owned(),
        ),
        (
            vec!["../x", "--role", "x"],
            "'../x' for '<NAME>'",
            name.to_owned(),
        ),
        (
            vec!["max", "--role", "a b"],
            "'a b' for '--role <ROLE>'",
            label.to_owned(),
        ),
        (
            vec!["max", "--role", "x", "--module", "ui/x"],
            "'ui/x' for '--module <MODULE>'",
            label.to_owned(),
        ),
    ] {
        let named = contains(format!("invalid value {value}: ")).and(contains(reason));
        register(&top, &arguments)
            .assert()
            .code(2)
            .stdout("")
            .stderr(named);
    }
    let missing = contains("--role <ROLE>").and(contains("required"));
    register(&top, &["max"])
        .assert()
        .code(2)
        .stdout("")
        .stderr(missing);
    assert!(!top.join(".relay").exists());
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let (_directory, top) = directory();
    fs::write(top.join(".relay"), "").expect("a file");
    let named = format!(
        "relay register: cannot write {}: ",
        top.join(".relay/identities/max.json").display()
    );
    register(&top, &["max", "--role", "tester"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(predicates::str::starts_with(named));
}

#[test]
fn a_script_is_told_what_is_written_and_whether_it_was_there() {
    let (_directory, top) = directory();
    let file = top.join(".relay/identities/qa.json");
    for written in [true, false] {
        let expected =
            json!({"name": "qa", "role": "tester", "module": null, "file": file, "written": written});
        let told = register(&top, &["qa", "--role", "tester", "--json"])
            .assert()
            .code(0)
            .stderr("");
        let told: serde_json::Value = serde_json::from_slice(&told.get_output().stdout).expect("JSON");
        assert_eq!(told, expected);
    }
}
