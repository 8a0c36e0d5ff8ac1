//! What is the person's, and who is told that it is not theirs.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;

use super::top::Terminal;
use super::*;
use crate::needs;
use crate::support::process::command_of;

/// What is the person's, and takes no more to be refused.
const THEIRS: [&[&str]; 15] = [
    &["send", "pm", "x"],
    &["send", "user", "x"],
    &["read"],
    &["wait"],
    &["flush"],
    &["hold", "pm"],
    &["allow", "--all"],
    &["drop", "11111111"],
    &["spawn", "w1", "--cli", "claude", "--task", "x"],
    &["release", "w1"],
    &["retire", "pm"],
    &["reply", "11111111", "x"],
    &["group", "make", "crew"],
    &["channel", "make", "build", "pm"],
    &["flush", "user"],
];

/// Makes a command that a shell runs, called as `shell` says, with nothing that says who it is.
fn below(shell: &str, relay: &Relay, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::from_std(command_of(shell));
    let program = relay_command().get_program().to_owned();
    // With a command behind it, so that the shell stays above it.
    command.args(["-c", "\"$@\"; exit $?", "sh"]).arg(program);
    command.args(arguments).args(["--port", &relay.port.to_string()]);
    command.env_remove("RELAY_PERSON").timeout(PATIENCE);
    command
}

fn reason(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).expect("text")
}

#[test]
fn below_a_program_of_an_agent_nothing_is_the_persons() {
    let relay = told();
    let folder = tempfile::tempdir().expect("there is room");
    let claude = folder.path().join("claude");
    fs::copy("/bin/sh", &claude).expect("there is a shell");
    let claude = claude.to_str().expect("its path is text");
    let stop: &[&str] = &["stop"];
    for arguments in THEIRS.into_iter().chain([stop]) {
        let refused = below(claude, &relay, arguments).assert().code(2).stdout("");
        let said = reason(&refused);
        let start = format!("relay {}: this is an agent's own shell (process ", arguments[0]);
        assert!(said.starts_with(&start), "{said}");
        assert!(said.contains(" above it is claude), and "), "{said}");
    }
    below(claude, &relay, &["send", "pm", "x", "--from", "dev-a"])
        .assert()
        .code(0);
    below(claude, &relay, &["send", "pm", "from a script"])
        .env("RELAY_PERSON", "1")
        .assert()
        .code(0);
    assert_eq!(relay.bodies("pm"), ["x", "from a script"]);
}

#[test]
fn a_program_of_an_agent_is_seen_further_above_by_its_name_and_by_its_command() {
    let relay = told();
    let folder = tempfile::tempdir().expect("there is room");
    let claude = folder.path().join("claude");
    fs::copy("/bin/sh", &claude).expect("there is a shell");
    let program = relay_command().get_program().to_owned();
    let run = |shell: &std::path::Path, called: &str| {
        let mut command = command_of(shell);
        // A shell below it, which is nobody's.
        command
            .arg0(called)
            .args(["-c", "/bin/sh -c '\"$@\"; exit $?' sh \"$@\"; exit $?", "sh"]);
        command
            .arg(&program)
            .args(["send", "pm", "x", "--port", &relay.port.to_string()]);
        command.env_remove("RELAY_PERSON");
        let mut command = assert_cmd::Command::from_std(command);
        reason(&command.timeout(PATIENCE).assert().code(2))
    };
    let of_another_command = run(&claude, "sh");
    assert!(
        of_another_command.contains(" above it is claude)"),
        "{of_another_command}"
    );
    let of_another_name = run("/bin/sh".as_ref(), "codex");
    assert!(
        of_another_name.contains(" above it is codex)"),
        "{of_another_name}"
    );
    assert_eq!(relay.bodies("pm"), [""; 0]);
}

#[test]
fn a_script_that_is_an_agent_is_seen_behind_its_interpreter() {
    let relay = told();
    let folder = tempfile::tempdir().expect("there is room");
    let node = folder.path().join("node");
    fs::copy("/bin/sh", &node).expect("there is a shell");
    let node = node.to_str().expect("its path is text");
    let program = relay_command().get_program().to_owned();
    let program = program.to_str().expect("its path is text");
    let run = |name: &str| {
        let script = folder.path().join(name);
        let line = format!("'{program}' send pm x --port {}; exit $?\n", relay.port);
        fs::write(&script, line).expect("there is room");
        let mut command = assert_cmd::Command::from_std(command_of(node));
        command.arg("-e").arg(script).env_remove("RELAY_PERSON");
        command.timeout(PATIENCE).assert().code(2)
    };
    let said = reason(&run("gemini.js"));
    assert!(said.contains(" above it is gemini), and a message"), "{said}");
    // Whatever else is above these tests.
    let said = reason(&run("server.js"));
    assert!(!said.contains(" above it is gemini"), "{said}");
}

#[test]
fn without_a_terminal_only_a_script_that_says_so_is_the_persons() {
    let relay = told();
    let alone = |arguments: &[&str]| {
        let mut command = assert_cmd::Command::from_std(command_of("setsid"));
        let program = relay_command().get_program().to_owned();
        command.arg("--wait").arg(program);
        command.args(arguments).args(["--port", &relay.port.to_string()]);
        command.timeout(PATIENCE);
        command
    };
    for arguments in THEIRS {
        let refused = alone(arguments).env_remove("RELAY_PERSON").assert();
        let said = reason(&refused.code(2).stdout(""));
        let of_terminal = format!(
            "relay {}: this runs without a terminal (what a script of yours sets is in docs/COMMANDS.md), and ",
            arguments[0]
        );
        // Where an agent runs these tests, that comes first.
        assert!(
            said.starts_with(&of_terminal) || said.contains(" above it is "),
            "{said}"
        );
    }
    let yes = |value: &str, arguments: &[&str]| alone(arguments).env("RELAY_PERSON", value).assert();
    yes("yes", &["send", "pm", "x"]).code(2);
    yes("1", &["send", "pm", "x"]).code(0);
    let agents = alone(&["send", "pm", "y"]).env("CLAUDECODE", "1").assert();
    assert!(reason(&agents.code(2)).contains("(CLAUDECODE is set)"));
    alone(&["peek", "pm"]).env_remove("RELAY_PERSON").assert().code(0);
    assert_eq!(relay.bodies("pm"), ["x"]);
}

#[test]
fn in_a_terminal_it_is_the_person() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    let terminal = Terminal::open(&[]);
    let program = relay_command().get_program().to_owned();
    // Its path may be longer than a line.
    let link = terminal.folder.path().join("relay");
    symlink(program, &link).expect("there is room");
    let link = link.to_str().expect("its path is text");
    let unset = "env -u CLAUDECODE -u CODEX_THREAD_ID -u GEMINI_CLI -u OPENCODE -u RELAY_PERSON";
    // Piped into, with nothing of it in a terminal.
    let send = format!(
        "echo piped | {unset} {link} send pm --port {} 2>/dev/null | cat",
        relay.port
    );
    terminal.run(&send);
    terminal.shows("sent to pm");
    assert_eq!(relay.bodies("pm"), ["piped"]);
}

#[test]
fn each_program_of_an_agent_is_seen_by_its_name() {
    let relay = told();
    for name in [
        "aider",
        "amp",
        "claude",
        "codex",
        "copilot",
        "cursor-agent",
        "droid",
        "gemini",
        "opencode",
        "qwen",
    ] {
        let mut command = command_of("/bin/sh");
        command.arg0(name).args(["-c", "\"$@\"; exit $?", "sh"]);
        command.arg(relay_command().get_program());
        command.args(["read", "--port", &relay.port.to_string()]);
        command.env_remove("RELAY_PERSON");
        let mut command = assert_cmd::Command::from_std(command);
        let said = reason(&command.timeout(PATIENCE).assert().code(2).stdout(""));
        assert!(said.contains(&format!(" above it is {name}), and ")), "{said}");
    }
}
