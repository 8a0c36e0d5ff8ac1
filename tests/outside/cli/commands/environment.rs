//! Variables that are far too long, whoever has set them.

use super::*;
use crate::cli::desk::Desk;

/// More than the head of a request takes.
const LONG: usize = 70_000;

/// What is read of the environment where a hook or another command is called.
const VARIABLES: [&str; 24] = [
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
    "CODEX_HOME",
    "HOME",
    "PATH",
    "RELAY_AGENT",
    "RELAY_HOOKS",
    "RELAY_MODE",
    "RELAY_PARENT",
    "RELAY_PERSON",
    "RELAY_PORT",
    "RELAY_PROJECT",
    "RELAY_SOCKET",
    "RELAY_TMUX",
    "RELAY_TOKEN",
    "TERM",
    "TMUX",
    "TMUX_PANE",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

#[test]
fn a_variable_that_is_far_too_long_is_no_panic() {
    let relay = told();
    let port = relay.port.to_string();
    let event = json!({"session_id": "s-1", "hook_event_name": "SessionStart", "source": "startup"});
    let desk = Desk::new();
    let values = [
        "a".repeat(LONG),
        "1".repeat(LONG),
        format!("/{}", "a".repeat(LONG)),
    ];
    for variable in VARIABLES {
        for arguments in [
            &["hook", "claude"][..],
            &["hook", "codex"],
            &["hook", "gemini"],
            &["send", "pm", "x", "--from", "dev-a"],
            &["status"],
            &["config"],
            &["doctor"],
            &["mcp"],
        ] {
            for value in &values {
                let mut command = desk.relay(arguments);
                command
                    .env("RELAY_PORT", &port)
                    .env("CLAUDE_CODE_ENTRYPOINT", "cli");
                command.env(variable, value).write_stdin(event.to_string());
                let ended = command.assert();
                let said = String::from_utf8_lossy(&ended.get_output().stderr).into_owned();
                let code = ended.get_output().status.code();
                assert!(
                    code != Some(101) && !said.contains("panicked"),
                    "{variable}, {arguments:?}: {code:?}: {said:.300}"
                );
            }
        }
    }
}
