//! What an agent's program says of itself at its handshake.

use crate::tools::Client;

/// What an agent's program has said of itself.
#[derive(Default)]
pub(super) struct Introduction {
    /// What it is called, if that is to be told.
    pub cli: Option<String>,
    /// Which one it is, if it is known.
    pub client: Option<Client>,
}

impl Introduction {
    /// Takes what a program calls itself; whether its agent is registered says whether relay is told.
    pub fn of(program: &str, is_registered: bool) -> Self {
        Self {
            cli: is_registered.then(|| cli(program)),
            client: Client::of_name(program),
        }
    }
}

/// Programs by what is part of the names under which they make their handshakes.
const PROGRAMS: [&str; 6] = ["claude", "codex", "gemini", "opencode", "droid", "cursor"];

/// Longest name of a program that relay is told, in characters.
const PROGRAM_CHARS_MAX: usize = 64;

/// Returns what a program is called by those who work with it.
fn cli(program: &str) -> String {
    let lower = program.to_lowercase();
    let known = PROGRAMS.iter().find(|known| lower.contains(**known));
    known.map_or_else(
        || {
            let plain = program.chars().filter(|c| !c.is_control());
            plain.take(PROGRAM_CHARS_MAX).collect()
        },
        |known| (*known).to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_cli_is_called_as_those_call_it_who_work_with_it() {
        for (program, expected) in [
            ("claude-code", "claude"),
            ("codex-mcp-client", "codex"),
            ("gemini-cli-mcp-client-relay", "gemini"),
            ("OpenCode", "opencode"),
            ("factory-droid", "droid"),
            ("cursor-vscode", "cursor"),
            ("Zed", "Zed"),
        ] {
            assert_eq!(cli(program), expected);
        }
    }
}
