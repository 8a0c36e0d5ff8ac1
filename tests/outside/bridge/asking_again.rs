//! Over stdio an agent gets again what it was handed behind the last message that it has seen.

use super::*;

#[test]
fn what_is_behind_the_last_message_that_an_agent_has_seen_comes_again_marked_and_once() {
    let relay = Relay::start_told();
    let mut agent = Agent::start(relay.port);
    let post = |body: &str| json!({"from": "pm", "to": "dev-a", "kind": "status", "body": body});
    let ids = ["m1", "m2"].map(|body| agent.call("post_message", &post(body)).posted());
    let read = json!({"for": "dev-a"});
    assert_eq!(agent.call("read_messages", &read).bodies(), ["m1", "m2"]);
    let after = json!({"for": "dev-a", "after": ids[0]});
    assert_eq!(agent.call("read_messages", &after).bodies(), ["again: m2"]);
    assert_eq!(agent.call("read_messages", &after).bodies(), [""; 0]);
}
