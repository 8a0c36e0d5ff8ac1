//! Requests to listen, which are under way until the agent cancels them or leaves.

use super::*;

fn calls() -> Calls<Wire> {
    Calls::default()
}

fn id(number: usize) -> RequestId {
    RequestId::Number(i64::try_from(number).expect("it is small"))
}

#[test]
fn an_id_is_that_of_one_request_whether_it_listens_or_not() {
    let calls = calls();
    assert_eq!(calls.begin(&id(1)), Ok(()));
    assert_eq!(calls.begin_to_listen(&id(2)), Ok(()));
    for taken in [1, 2] {
        assert!(calls.is_under_way(&Value::from(taken)), "{taken}");
        assert_eq!(calls.begin(&id(taken)), Err(Unusable::IdInUse), "{taken}");
        assert_eq!(
            calls.begin_to_listen(&id(taken)),
            Err(Unusable::IdInUse),
            "{taken}"
        );
    }
}

#[test]
fn requests_to_listen_count_among_those_under_way_until_they_are_answered_or_cancelled() {
    let calls = calls();
    for number in 0..UNDER_WAY_MAX {
        let begun = if number % 2 == 0 {
            calls.begin_to_listen(&id(number))
        } else {
            calls.begin(&id(number))
        };
        assert_eq!(begun, Ok(()), "{number}");
    }
    let next = id(UNDER_WAY_MAX);
    assert_eq!(calls.begin(&next), Err(Unusable::TooMany));
    assert_eq!(calls.begin_to_listen(&next), Err(Unusable::TooMany));
    calls.written(&id(0));
    assert_eq!(calls.begin_to_listen(&next), Ok(()));
    assert_eq!(calls.begin(&id(0)), Err(Unusable::TooMany));
    assert!(!calls.cancel(&next));
    assert_eq!(calls.begin(&id(0)), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_listen_any_more_takes_no_earlier_answer_back() {
    let calls = Calls::default();
    let relay = FakeRelay::default();
    assert_eq!(calls.begin(&id(1)), Ok(()));
    calls.answered(&id(1), relay.connect().await.expect("it is there"));
    calls.written(&id(1));
    assert_eq!(calls.begin_to_listen(&id(1)), Ok(()));
    assert!(!calls.cancel(&id(1)));
    assert_eq!(relay.facts(), []);
    assert!(calls.cancel(&id(1)));
    assert_eq!(relay.facts(), [Fact::BrokenOff(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_to_listen_shows_that_the_answers_before_were_read() {
    let calls = Calls::default();
    let relay = FakeRelay::default();
    assert_eq!(calls.begin(&id(1)), Ok(()));
    calls.answered(&id(1), relay.connect().await.expect("it is there"));
    calls.written(&id(1));
    calls.stdin_read();
    assert_eq!(calls.begin_to_listen(&id(2)), Ok(()));
    drop(calls);
    assert_eq!(relay.facts(), [Fact::InOrder(1)]);
}

#[tokio::test(start_paused = true)]
async fn the_end_does_not_wait_for_whoever_listens() {
    let calls = calls();
    assert_eq!(calls.begin_to_listen(&id(1)), Ok(()));
    calls.stdin_ended();
    let ended = tokio::time::Instant::now();
    calls.all_settled().await;
    assert_eq!(ended.elapsed(), Duration::ZERO);
}
