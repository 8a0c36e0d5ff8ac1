use super::*;

const TOKEN: &str = "0123456789abcdef";

/// What the command line takes from the environment beside the port.
const VARIABLES: [&str; 4] = ["RELAY_TOKEN", "RELAY_PROJECT", "RELAY_AGENT", "RELAY_MODE"];

#[test]
fn a_token_is_given_as_an_option_or_in_the_environment() {
    let relay = Relay::start_with(&["--token", TOKEN], &[]);
    ask(relay.port, &["send", "user", "hello", "--token", TOKEN])
        .assert()
        .code(0);
    let mut read = ask(relay.port, &["read"]);
    read.env("RELAY_TOKEN", TOKEN);
    read.assert()
        .code(0)
        .stdout(contains("user → user [free] ").and(contains("\n  hello\n")));
}

#[test]
fn a_variable_that_is_empty_says_nothing() {
    let relay = Relay::start_with(&[], &VARIABLES.map(|name| (name, "")));
    let empty = |arguments: &[&str]| {
        let mut command = ask(relay.port, arguments);
        command.envs(VARIABLES.map(|name| (name, "")));
        command
    };
    empty(&["send", "user", "hello"]).assert().code(0);
    empty(&["read"]).assert().code(0).stdout(contains("\n  hello\n"));
    let start = json!({"hook_event_name": "SessionStart", "session_id": "s"});
    empty(&["hook", "codex"])
        .write_stdin(start.to_string())
        .assert()
        .code(0)
        .stderr("");
    empty(&["mcp"]).write_stdin("").assert().code(0).stderr("");
    let refused = contains("a value is required for '--token <TOKEN>'");
    empty(&["status", "--token", ""])
        .assert()
        .code(2)
        .stderr(refused.or(contains("a token has")));
}

#[test]
fn a_token_that_is_missing_or_wrong_is_told_and_not_shown() {
    let relay = Relay::start_with(&["--token", TOKEN], &[]);
    let place = format!("relay on 127.0.0.1:{}", relay.port);
    let wrong = "fedcba9876543210";
    for arguments in ASKING {
        let subcommand = arguments[0];
        let wanted = format!("relay {subcommand}: {place} wants its token; give --token (or RELAY_TOKEN)\n");
        ask(relay.port, arguments)
            .assert()
            .code(1)
            .stdout("")
            .stderr(wanted);
        let other = format!(
            "relay {subcommand}: {place} has another token than the one in --token (or RELAY_TOKEN)\n"
        );
        let arguments = [arguments, &["--token", wrong]].concat();
        ask(relay.port, &arguments)
            .assert()
            .code(1)
            .stdout("")
            .stderr(other);
    }
}

#[test]
fn a_variable_that_is_empty_says_nothing_to_a_subcommand_of_another_either() {
    let relay = told();
    for (arguments, said) in [
        (["group", "make", "crew"].as_slice(), "@crew is made\n"),
        (&["channel", "make", "build", "pm"], "in #build: pm\n"),
    ] {
        let mut command = ask(relay.port, arguments);
        command.envs(VARIABLES.map(|name| (name, "")));
        command.assert().code(0).stdout(said).stderr("");
    }
}
