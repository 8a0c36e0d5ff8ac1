//! Whether it is an agent that calls a command, in the shell that its program gives its model.

/// What agent CLIs set in such a shell; and what relay sets for its workers.
const VARIABLES: [&str; 5] = [
    "CLAUDECODE",
    "CODEX_THREAD_ID",
    "GEMINI_CLI",
    "OPENCODE",
    "RELAY_PARENT",
];

/// Returns the variable that says so, if it is one.
pub fn in_agents_shell() -> Option<&'static str> {
    let mut variables = VARIABLES.into_iter();
    variables.find(|variable| std::env::var_os(variable).is_some())
}
