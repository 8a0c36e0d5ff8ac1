//! What the agent is told when the relay cannot be asked.

use super::*;

#[test]
fn what_is_told_names_a_command_that_works() {
    let told = |address: &str, trouble: &AskError| {
        let result = Relay::new(settings(address), FakeRelay::default()).tell(trouble);
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
