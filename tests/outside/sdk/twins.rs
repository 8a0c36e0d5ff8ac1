//! Two runners of one agent.

use super::*;

/// What a runner's connection did, in order: up, or why it is not.
#[derive(Clone, Default)]
struct Ups(Arc<Mutex<Vec<Result<(), String>>>>);

impl Ups {
    fn of(agent: &Agent) -> (Self, relay_sdk::Subscription) {
        let ups = Self::default();
        let kept = ups.clone();
        let listening = agent.events().subscribe(move |event| match event {
            AgentSessionEvent::Connected => kept.keep(Ok(())),
            AgentSessionEvent::Disconnected { reason } => kept.keep(Err(reason.clone())),
            AgentSessionEvent::Accepted { .. }
            | AgentSessionEvent::Delivered { .. }
            | AgentSessionEvent::Deferred { .. }
            | AgentSessionEvent::Failed { .. }
            | AgentSessionEvent::Notified { .. }
            | _ => {}
        });
        (ups, listening)
    }

    fn keep(&self, up: Result<(), String>) {
        self.0.lock().expect("no panic").push(up);
    }

    fn all(&self) -> Vec<Result<(), String>> {
        self.0.lock().expect("no panic").clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_runner_of_an_agent_waits_until_the_first_is_gone() {
    let relay = Relay::start();
    let alice = agent(&relay, "alice").await;
    let bobs = [agent(&relay, "bob").await, agent(&relay, "bob").await];
    let [(ups_of_first, _listening), (ups_of_second, _too)] = [Ups::of(&bobs[0]), Ups::of(&bobs[1])];
    let [of_first, of_second] = [Seen::default(), Seen::default()];
    let delivered = |seen| target(seen, |_, _| Ok(MessageReceipt::delivered()));
    let first = run(&bobs[0], delivered(&of_first)).await;
    until(|| ups_of_first.all() == [Ok(())], "the first has the agent").await;
    let second = run(&bobs[1], delivered(&of_second)).await;
    for number in 0..3 {
        until(|| ups_of_second.all().len() > number, "the second is refused").await;
        alice.send("bob", &number.to_string()).await.expect("it is sent");
        of_first.many(number + 1).await;
    }
    assert_eq!(ups_of_first.all(), [Ok(())], "it was left alone");
    for refused in ups_of_second.all() {
        let reason = refused.expect_err("the first has the agent");
        assert!(
            reason.contains("another instance of this node is connected"),
            "{reason}"
        );
    }
    first.stop().await;
    alice.send("bob", "late").await.expect("it is sent");
    assert_eq!(of_second.many(1).await, ["late"]);
    assert_eq!(of_first.texts(), ["0", "1", "2"]);
    second.stop().await;
    assert_eq!(ups_of_second.all().last(), Some(&Ok(())));
    assert_eq!(inbox(&relay, "bob"), Vec::<String>::new());
}
