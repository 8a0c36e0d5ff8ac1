//! What comes late: an answer, or a cancellation.

use tokio::time::{Instant, sleep};

use super::connection::{ExchangeError, exchange};
use super::*;

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().expect("a text")
}

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

#[tokio::test(start_paused = true)]
async fn a_call_that_the_relay_does_not_answer_is_given_up_and_the_next_one_is_made() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    let started = Instant::now();
    agent.write(&(tool_call(1, "hang") + &tool_call(2, "b"))).await;
    let answer = agent.hears(1).await;
    assert_eq!(
        text(&answer),
        "Error: relay has not answered within 30 s, so the call may or may not have been carried out"
    );
    assert_eq!(started.elapsed().as_millis() / 10, 3_000);
    assert_eq!(text(&agent.hears(2).await), "b");
    assert_eq!(
        relay.facts(),
        [asked(1, "hang"), Fact::BrokenOff(1), asked(2, "b")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_the_relay_does_not_answer_is_given_up_after_its_time() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    let started = Instant::now();
    agent.write(&tool_call(1, WAIT)).await;
    let answer = agent.hears(1).await;
    assert_eq!(
        text(&answer),
        "Error: relay has not answered within 90 s, so the call may or may not have been carried out"
    );
    assert_eq!(started.elapsed().as_millis() / 10, 9_000);
    assert_eq!(relay.facts(), [asked(1, WAIT), Fact::BrokenOff(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_answered_is_given_up_long_after_the_end_of_stdin() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    agent.write(&(tool_call(1, "hang") + &tool_call(2, "hang"))).await;
    sleep(Duration::from_secs(10)).await;
    agent.stdin = None;
    let started = Instant::now();
    let late = "Error: relay has not answered within 30 s, so the call may or may not have been carried out";
    assert_eq!(text(&agent.hears(1).await), late);
    let ended =
        "Error: stdin ended and relay did not answer, so the call may or may not have been carried out";
    assert_eq!(text(&agent.hears(2).await), ended);
    assert_eq!(started.elapsed().as_millis() / 10, 3_000);
    agent.bridge.await.expect("no panic").expect("an orderly end");
}

/// Asks something that answers without end, and takes so many bytes of it.
async fn asked_without_end(bytes_max: usize) -> Result<(), ExchangeError> {
    let (stream, mut theirs) = duplex(ROOM);
    let wire = Wire {
        stream,
        number: 1,
        relay: FakeRelay::default(),
        breaks_off: AtomicBool::new(true),
    };
    tokio::spawn(async move {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut more = head.to_owned();
        while theirs.write_all(more.as_bytes()).await.is_ok() {
            more = format!("400\r\n{}\r\n", " ".repeat(1024));
        }
    });
    let request = Request::new(Full::default());
    exchange(wire, request, bytes_max).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_end_is_taken_as_far_as_its_bound() {
    for bytes_max in [0, 1024, 1025, 1 << 20] {
        let taken = timeout(HOUR, asked_without_end(bytes_max)).await;
        assert!(matches!(taken, Ok(Err(ExchangeError::TooLong))), "{taken:?}");
    }
}
