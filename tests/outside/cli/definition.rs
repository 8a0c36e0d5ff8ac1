//! What a shell and `man` are told of the command line.

use super::*;

#[test]
fn bash_completes_a_subcommand_and_its_options() {
    let script = relay(&["completions", "bash"]).assert().code(0).stderr("");
    let script = String::from_utf8(script.get_output().stdout.clone()).expect("text");
    for (words, completed) in [("relay sta", "status"), ("relay send --reply", "--reply-to")] {
        let last = words.split(' ').next_back().expect("there is one");
        let before = words.split(' ').nth_back(1).expect("there are two");
        let ask = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _relay relay '{last}' '{before}'; echo \"${{COMPREPLY[@]}}\""
        );
        let output = std::process::Command::new("bash")
            .args(["-c", &ask])
            .output()
            .expect("it starts");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            completed,
            "{output:?}"
        );
    }
}

#[test]
fn each_shell_is_told_of_each_subcommand_and_another_one_is_refused() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        relay(&["completions", shell])
            .assert()
            .code(0)
            .stdout(contains("uninstall").and(contains("reply-to")))
            .stdout(contains("connection-hint").not());
    }
    relay(&["completions", "tcsh"])
        .assert()
        .code(2)
        .stdout("")
        .stderr(contains("'tcsh'").and(contains("bash, elvish, fish, powershell, zsh")));
}

#[test]
fn there_is_a_page_for_relay_and_for_each_subcommand() {
    let folder = tempfile::tempdir().expect("there is room");
    let pages = folder.path().join("share/man1");
    let mut command = relay(&["man"]);
    command.arg(&pages).env("RELAY_TOKEN", "what-nobody-may-see");
    command.assert().code(0).stdout("").stderr("");
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).expect("there is one");
    assert!(page("relay.1").contains("relay\\-send(1)"), "{}", page("relay.1"));
    assert!(page("relay-send.1").contains("The id of the message that it answers"));
    let all: Vec<_> = std::fs::read_dir(&pages)
        .expect("it is there")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    for name in &all {
        assert!(!page(name).contains("what-nobody-may-see"), "{name}");
    }
    assert!(!all.iter().any(|name| name.contains("hint")), "{all:?}");
    assert!(all.len() > 20, "{all:?}");
}

#[test]
fn pages_that_cannot_be_written_are_an_error() {
    let file = tempfile::NamedTempFile::new().expect("there is room");
    let path = file.path().to_str().expect("its name is text");
    relay(&["man", path])
        .assert()
        .code(1)
        .stdout("")
        .stderr(contains(path).and(contains("accepted: a directory")));
}
