//! What the agent is told when the relay cannot be asked.

use super::*;
use crate::tools::{DEFAULT, Toolsets};

#[test]
fn what_is_told_names_a_command_that_works() {
    let told = |address: &str, trouble: &AskError| {
        let result =
            Relay::new(settings(address), FakeRelay::default()).tell(trouble, DEFAULT.of_tool(""), "");
        assert_eq!(result.is_error, Some(true));
        result.content[0].as_text().expect("a text").text.clone()
    };
    for (address, expected) in [
        (
            "127.0.0.1:7331",
            "Relay is not running on 127.0.0.1:7331. Start it with: relay serve",
        ),
        (
            "127.0.0.1:9",
            "Relay is not running on 127.0.0.1:9. Start it with: relay serve --port 9",
        ),
        (
            "[::1]:7331",
            "Relay is not running on [::1]:7331. Start it with: relay serve --host ::1",
        ),
        (
            "192.0.2.1:9",
            "Relay is not running on 192.0.2.1:9. Start it there with: relay serve --host 192.0.2.1 --port 9 --token TOKEN",
        ),
    ] {
        assert_eq!(told(address, &AskError::NotRunning), expected);
    }
    let unreachable = AskError::Unreachable(io::Error::other("no answer within 5 s"));
    assert_eq!(
        told("[2001:db8::1]:7331", &unreachable),
        "Error: relay cannot be reached at [2001:db8::1]:7331: no answer within 5 s"
    );
}

#[test]
fn agent_relay_s_tools_have_agent_relay_s_words() {
    let toolsets: Toolsets = "all".parse().expect("toolsets");
    let relay = Relay::new(settings("127.0.0.1:9"), FakeRelay::default());
    let toolset = toolsets.of_tool("relay_send");
    for (trouble, expected) in [
        (
            AskError::NotRunning,
            "Error: Relay daemon is not running. Start with: relay serve --port 9",
        ),
        (
            AskError::Unreachable(io::Error::other("no way")),
            "Error: Connection error: relay cannot be reached at 127.0.0.1:9: no way",
        ),
        (
            AskError::WentAway,
            "Error: Connection error: relay went away during the call, which may or may not have been carried out; call again",
        ),
        (AskError::Answered("no".to_owned()), "Error: no"),
    ] {
        assert_eq!(relay.words(&trouble, toolset), expected);
    }
}
