//! start.sh as its user meets it: the printed prompts, a real tmux, a recording kitty, and every refusal.
//!
//! Without tmux its tests are left out. cargo is a stand-in that says all is built, and `CARGO_TARGET_DIR` points to a directory in which
//! the relay under test lies where a release build would put it; nothing else of start.sh is replaced.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it must be"
)]

mod kitty;
mod manual;
mod offer;
mod place;
mod refusals;
mod running;
mod tmux;

use place::{Agent, Place};

const ROLES: [&str; 3] = ["pm", "dev-a", "dev-b"];

/// A prompt that comes out changed if anything on its way expands, splits or unquotes it.
const PROMPT_THAT_NEEDS_CARE: &str = "# The \"PM\" of `uname` and $(id)\n\n  $HOME, it's \\n ${x:-y} #S #{pane_id} * ! ; \
     & | <<EOF\n---\nlast line; ";

fn port_option(port: u16) -> String {
    format!("--port={port}")
}

/// What each agent must have been given: the project, a relay that answers, its arguments and its prompt.
fn expected_agent(place: &Place, role: &str, prompt: &str) -> Agent {
    Agent {
        relay_agent: role.to_owned(),
        directory: place.project(),
        relay: "up".to_owned(),
        arguments: ["--flag", "two words", prompt].map(str::to_owned).to_vec(),
    }
}

/// Writes prompts for two of the roles, and says what each of the three is then to be given.
fn write_prompts(place: &Place, port: u16) -> [(&'static str, String); 3] {
    place.write_prompt(
        "v1-pm-prompt.md",
        1,
        &format!("Words to the user.\n---\n{PROMPT_THAT_NEEDS_CARE}\n\n"),
    );
    place.write_prompt("v1-dev-a-prompt.md", 1, "- a prompt that looks like an option\n");
    [
        ("pm", PROMPT_THAT_NEEDS_CARE.to_owned()),
        ("dev-a", "\n- a prompt that looks like an option".to_owned()),
        ("dev-b", place.prompt("dev-b", port).trim_end().to_owned()),
    ]
}
