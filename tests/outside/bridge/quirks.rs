//! Clients that do what others do not.

use crate::bridge::agent::Agent;
use crate::support::process::Relay;
use crate::support::session::Way;

fn agent(relay: &Relay, name: &str) -> Agent {
    let mut agent = Agent::start_silent(relay.port, &[]);
    agent.shake_hands_as(name);
    agent
}

#[test]
fn gemini_cli_is_given_a_text_before_an_array() {
    let relay = Relay::start_told();
    relay.session(Way::Http).post("dev-a", "pm", "x");
    let mut agent = agent(&relay, "gemini-cli-mcp-client");
    let texts = agent.read("pm").texts;
    assert_eq!(texts[0], "Messages, oldest first, as a JSON array:");
    assert!(texts[1].starts_with("[{") && texts.len() == 2, "{texts:?}");
}
