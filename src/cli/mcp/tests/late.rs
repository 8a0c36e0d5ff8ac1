//! What comes late: an answer, or a cancellation.

use tokio::time::sleep;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_cancellation_is_passed_on_until_two_seconds_after_the_answer_was_read() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    for (id, tool) in [(1, "a"), (2, "b")] {
        agent.write(&tool_call(id, tool)).await;
        agent.hears(id).await;
        agent.is_heard().await;
    }
    sleep(Duration::from_millis(1_999)).await;
    agent.cancel(1).await;
    agent.is_heard().await;
    sleep(Duration::from_millis(1)).await;
    agent.cancel(2).await;
    agent.is_heard().await;
    let told = asked(2, "\"notifications/cancelled\"");
    assert_eq!(
        relay.facts(),
        [asked(1, "a"), asked(1, "b"), told, Fact::InOrder(2)]
    );
}
