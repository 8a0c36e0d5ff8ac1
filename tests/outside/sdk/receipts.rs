//! What targets say, and what comes of it.

use std::time::SystemTime;

use relay_sdk::{AgentIdentity, AgentSession, DeliveryMode, Handling, Priority};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_all_kinds_come_in_order_with_who_and_why() {
    let relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    let got = Arc::new(Mutex::new(Vec::new()));
    let target = {
        let got = Arc::clone(&got);
        adapter("keeps", move |message: RelayMessage, context: MessageContext| {
            got.lock().expect("no panic").push((message, context));
            std::future::ready(Ok(MessageReceipt::delivered()))
        })
    };
    bob.join("ops").await.expect("a channel");
    let own = bob.send("alice", "how is it?").await.expect("it is sent");
    let running = run(&bob, target).await;
    let sent = alice.send("bob", "hello").await.expect("it is sent");
    alice.post_to("#ops", "all stop").await.expect("it is posted");
    alice.post_to("#ops", "@bob stop").await.expect("it is posted");
    alice.reply(&own.id, "fine").await.expect("it is answered");
    let count = || got.lock().expect("no panic").len();
    until(|| count() == 4, "four have come").await;
    running.stop().await;
    let got = got.lock().expect("no panic");
    let shown: Vec<String> = got
        .iter()
        .map(|(message, context)| {
            let RelayMessage {
                from, channel, text, ..
            } = message;
            format!(
                "{from} {channel:?} {text} {:?} {}",
                context.reason, context.redelivered
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "alice None hello Dm false",
            "alice Some(\"ops\") all stop Message false",
            "alice Some(\"ops\") @bob stop Mention false",
            "alice None fine ThreadReply false",
        ]
    );
    assert_eq!(got[0].0.id, sent.id);
    let key = got[0].1.idempotency_key.as_deref();
    assert!(key.is_some_and(|key| key.starts_with("sdk-")), "{key:?}");
    assert!(got[0].1.metadata.is_null() && got[0].0.metadata.is_null());
    assert_eq!(got[0].1.id, format!("del_{}_agt_web:bob", sent.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deferred_comes_again_at_its_time_and_lets_later_ones_pass() {
    let relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    let seen = Seen::default();
    let until = SystemTime::now() + Duration::from_secs(1);
    let busy = target(&seen, move |message, context| {
        match (&*message.text, context.redelivered) {
            ("later", false) => Ok(MessageReceipt::deferred(until, "busy")),
            _ => Ok(MessageReceipt::delivered()),
        }
    });
    let running = run(&bob, busy).await;
    for text in ["later", "now"] {
        alice.send("bob", text).await.expect("it is sent");
    }
    assert_eq!(seen.many(3).await, ["later", "now", "later"]);
    assert!(SystemTime::now() >= until);
    running.stop().await;
    assert_eq!(inbox(&relay, "bob"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_by_an_error_is_tried_again_and_what_the_target_fails_is_not() {
    let relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    let seen = Seen::default();
    let failing = target(&seen, |message, context| {
        match (&*message.text, context.attempts) {
            ("hard", 0 | 1) => Err(AdapterFailure::new("not yet")),
            ("never", _) => Ok(MessageReceipt::failed("no such thing")),
            _ => Ok(MessageReceipt::delivered()),
        }
    });
    let told = Arc::new(Mutex::new(Vec::new()));
    let running = {
        let (results, errors) = (Arc::clone(&told), Arc::clone(&told));
        DeliveryRunner::new(bob.clone(), failing)
            .on_result(move |message, receipt| {
                let word = match receipt {
                    MessageReceipt::Delivered { .. } => "delivered",
                    MessageReceipt::Deferred { .. } => "deferred",
                    MessageReceipt::Failed { .. } => "failed",
                    MessageReceipt::Accepted { .. } | _ => "else",
                };
                results
                    .lock()
                    .expect("no panic")
                    .push(format!("{} {word}", message.text));
            })
            .on_error(move |message, error| {
                errors
                    .lock()
                    .expect("no panic")
                    .push(format!("{}: {error}", message.text));
            })
            .start()
            .await
            .expect("it starts")
    };
    for text in ["hard", "never"] {
        alice.send("bob", text).await.expect("it is sent");
    }
    assert_eq!(seen.many(4).await, ["hard", "never", "hard", "hard"]);
    let last = || told.lock().expect("no panic").last().cloned();
    until(|| last().as_deref() == Some("hard delivered"), "it is told").await;
    assert_eq!(
        *told.lock().expect("no panic"),
        [
            "hard: not yet",
            "hard deferred",
            "never failed",
            "hard: not yet",
            "hard deferred",
            "hard delivered",
        ]
    );
    running.stop().await;
    assert_eq!(inbox(&relay, "bob"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_of_any_length_ends_no_message() {
    let relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    let seen = Seen::default();
    let long = "é".repeat(100_000);
    let wordy = target(&seen, move |message, context| {
        match (&*message.text, context.redelivered) {
            ("error", false) => Err(AdapterFailure::new(long.clone())),
            ("later", false) => Ok(MessageReceipt::deferred(SystemTime::now(), long.clone())),
            ("never", _) => Ok(MessageReceipt::failed(long.clone())),
            _ => Ok(MessageReceipt::delivered()),
        }
    });
    let (given, refused) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let running = {
        let (given, refused) = (Arc::clone(&given), Arc::clone(&refused));
        let of_relay = |error: &(dyn std::error::Error + 'static)| error.downcast_ref::<Error>().is_some();
        DeliveryRunner::new(bob, wordy)
            .on_result(move |message, receipt| {
                let is_last = !matches!(receipt, MessageReceipt::Deferred { .. });
                given
                    .lock()
                    .expect("no panic")
                    .push((message.text.clone(), is_last));
            })
            .on_error(move |message, error| {
                if of_relay(error) {
                    refused.lock().expect("no panic").push(message.text.clone());
                }
            })
            .start()
            .await
            .expect("it starts")
    };
    let last = || {
        given
            .lock()
            .expect("no panic")
            .iter()
            .filter(|(_, is_last)| *is_last)
            .count()
    };
    for (many, text) in ["error", "later", "never"].into_iter().enumerate() {
        alice.send("bob", text).await.expect("it is sent");
        until(|| last() > many, text).await;
    }
    running.stop().await;
    let said = |text: &str, is_last| (text.to_owned(), is_last);
    assert_eq!(
        *given.lock().expect("no panic"),
        [
            said("error", false),
            said("error", true),
            said("later", false),
            said("later", true),
            said("never", true),
        ]
    );
    assert_eq!(*refused.lock().expect("no panic"), Vec::<String>::new());
    assert_eq!(seen.texts(), ["error", "error", "later", "later", "never"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_that_relay_refuses_ends_as_a_failure() {
    let relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    let seen = Seen::default();
    let in_a_week = SystemTime::now() + Duration::from_secs(7 * 24 * 3600);
    let lazy = target(&seen, move |message, _| match &*message.text {
        "later" => Ok(MessageReceipt::deferred(in_a_week, "tired")),
        _ => Ok(MessageReceipt::delivered()),
    });
    let running = run(&bob, lazy).await;
    for text in ["later", "now"] {
        alice.send("bob", text).await.expect("it is sent");
    }
    assert_eq!(seen.many(2).await, ["later", "now"]);
    running.stop().await;
    assert_eq!(
        inbox(&relay, "bob"),
        Vec::<String>::new(),
        "it failed, and is not held back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_finishes_what_the_target_has_and_begins_nothing_more() {
    let relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    for number in 0..5 {
        alice.send("bob", &number.to_string()).await.expect("it is sent");
    }
    let seen = Seen::default();
    let slow = {
        let seen = seen.clone();
        adapter("slow", move |message, context| {
            seen.keep(&message, &context);
            async {
                sleep(Duration::from_millis(300)).await;
                Ok(MessageReceipt::delivered())
            }
        })
    };
    let running = run(&bob, slow).await;
    seen.many(1).await;
    timeout(PATIENCE, running.stop()).await.expect("it ends");
    assert_eq!(seen.texts(), ["0"]);
    // The node is gone: after a while tools read the rest. A later runner has it at once.
    let rest = Seen::default();
    let running = run(&bob, target(&rest, |_, _| Ok(MessageReceipt::delivered()))).await;
    assert_eq!(rest.many(4).await, ["1", "2", "3", "4"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_is_dropped_leaves_what_its_target_was_busy_with() {
    let relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    let seen = Seen::default();
    let stuck = {
        let seen = seen.clone();
        adapter("stuck", move |message, context| {
            seen.keep(&message, &context);
            std::future::pending()
        })
    };
    let running = run(&bob, stuck).await;
    alice.send("bob", "hello").await.expect("it is sent");
    seen.many(1).await;
    drop(running);
    until(|| Arc::strong_count(&seen.0) == 1, "its target is gone").await;
    let again = Seen::default();
    let running = run(&bob, target(&again, |_, _| Ok(MessageReceipt::delivered()))).await;
    assert_eq!(again.many(1).await, ["hello"]);
    assert!(again.contexts()[0].redelivered);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_panics_ends_its_runner_and_the_message_comes_to_the_next() {
    let relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    let seen = Seen::default();
    let panics = target(&seen, |_, _| panic!("on purpose"));
    let running = run(&bob, panics).await;
    alice.send("bob", "hello").await.expect("it is sent");
    seen.many(1).await;
    // Its connection has ended, though nobody has stopped it: the next one is not superseded by it.
    until(|| Arc::strong_count(&seen.0) == 1, "its target is gone").await;
    let again = Seen::default();
    let next = run(&bob, target(&again, |_, _| Ok(MessageReceipt::delivered()))).await;
    assert_eq!(again.many(1).await, ["hello"]);
    let stopped = tokio::spawn(running.stop()).await;
    assert!(stopped.expect_err("it tells of the panic").is_panic());
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_no_receipts_can_be_given() {
    let relay = Relay::start();
    let nobody = client(&relay).agent_without_token("nobody");
    let target = target(&Seen::default(), |_, _| Ok(MessageReceipt::delivered()));
    let Err(Error::Capability(refused)) = DeliveryRunner::new(nobody, target).start().await else {
        panic!("it has no token");
    };
    assert_eq!(refused.capability, "messaging.capabilities.serverDeliveryState");
    assert!(
        refused.to_string().contains("\"nobody\" has no token"),
        "{refused}"
    );
}

/// A session that counts how often it is let go.
struct Session {
    identity: AgentIdentity,
    seen: Seen,
    released: Arc<Mutex<Vec<String>>>,
}

impl AgentSession for Session {
    fn identity(&self) -> &AgentIdentity {
        &self.identity
    }

    async fn receive_message(
        &self,
        message: &RelayMessage,
        context: &MessageContext,
    ) -> Result<MessageReceipt, AdapterFailure> {
        self.seen.keep(message, context);
        Ok(MessageReceipt::accepted())
    }

    async fn release(&self, reason: Option<&str>) -> Result<(), AdapterFailure> {
        let reason = reason.unwrap_or_default().to_owned();
        self.released.lock().expect("no panic").push(reason);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_gets_messages_and_is_let_go() {
    let relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    let (seen, released) = (Seen::default(), Arc::default());
    let session = Session {
        identity: AgentIdentity {
            name: "bob".to_owned(),
        },
        seen: seen.clone(),
        released: Arc::clone(&released),
    };
    let running = DeliveryRunner::for_session(bob, session)
        .start()
        .await
        .expect("it starts");
    alice.send("bob", "hello").await.expect("it is sent");
    assert_eq!(seen.many(1).await, ["hello"]);
    running.stop().await;
    assert_eq!(
        *released.lock().expect("no panic"),
        ["the delivery runner has stopped"]
    );
    assert_eq!(inbox(&relay, "bob"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_is_told_how_a_message_is_to_be_brought_and_what_is_held_comes_once_it_is_flushed() {
    let relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    let seen = Seen::default();
    let _running = run(&bob, target(&seen, |_, _| Ok(MessageReceipt::delivered()))).await;
    // To the millisecond, as relay keeps it.
    let whole = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    let deadline = SystemTime::UNIX_EPOCH + Duration::from_secs(whole + 600);
    let held = Handling {
        mode: DeliveryMode::Manual,
        ..Handling::default()
    };
    alice.send_with("bob", "held", &held).await.expect("it is taken");
    let late = Handling {
        mode: DeliveryMode::OnIdle,
        priority: Priority::Urgent,
        deadline: Some(deadline),
    };
    alice
        .send_with("bob", "urgent", &late)
        .await
        .expect("it is taken");
    let next = Handling {
        mode: DeliveryMode::NextToolCall,
        ..Handling::default()
    };
    bob.join("ops").await.expect("it is in");
    let posted = alice
        .post_to_with("#ops", "all", &next)
        .await
        .expect("it is taken");
    alice
        .reply_with(&posted.id, "and", &held)
        .await
        .expect("it is taken");
    alice.send("bob", "plain").await.expect("it is taken");
    assert_eq!(seen.many(3).await, ["urgent", "all", "plain"]);
    let said = |context: &MessageContext| (context.mode, context.priority, context.deadline);
    let contexts: Vec<_> = seen.contexts().iter().map(said).collect();
    assert_eq!(
        contexts,
        [
            (DeliveryMode::OnIdle, Priority::Urgent, Some(deadline)),
            (DeliveryMode::NextToolCall, Priority::Normal, None),
            (DeliveryMode::Immediate, Priority::Normal, None),
        ]
    );
    assert_eq!(bob.flush().await.expect("it is told"), 2);
    assert_eq!(seen.many(5).await[3..], ["held", "and"]);
    assert_eq!(seen.contexts()[3].mode, DeliveryMode::Manual);
    let over = Handling {
        deadline: Some(SystemTime::UNIX_EPOCH),
        ..Handling::default()
    };
    let refused = alice.send_with("bob", "over", &over).await;
    assert!(
        matches!(&refused, Err(Error::Refused { status: 400, code, .. }) if code == "deadline_over"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_accepted_and_what_is_said_with_a_receipt_is_in_the_trace() {
    let relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    let seen = Seen::default();
    let accepting = target(&seen, |message, _| {
        let said = match &*message.text {
            "one" => json!({"queue": 2}),
            _ => "x".repeat(2_000).into(),
        };
        Ok(MessageReceipt::accepted().with_metadata(said))
    });
    let steps = |id: &str| {
        let asked = json!({"message": id}).to_string();
        let request = Request::post("/api/trace", asked);
        let trace = relay.connect().exchange(&request).json();
        let steps = trace["steps"].as_array().expect("a list").iter();
        let said = steps.filter(|step| step["step"] == "accepted" || step["step"] == "receipted");
        said.map(|step| format!("{} {}", step["step"], step["metadata"]))
            .collect::<Vec<_>>()
    };
    let running = run(&bob, accepting).await;
    let one = alice.send("bob", "one").await.expect("it is sent").id;
    let two = alice.send("bob", "two").await.expect("it is sent").id;
    until(|| steps(&two).len() == 1, "both are accepted").await;
    let delivered = MessageReceipt::delivered().with_metadata(json!({"turn": 7}));
    let delivery = format!("del_{one}_agt_web:bob");
    bob.receipt(&delivery, &delivered).await.expect("it is taken");
    running.stop().await;
    assert_eq!(
        steps(&one),
        [r#""accepted" {"queue":2}"#, r#""receipted" {"turn":7}"#]
    );
    assert_eq!(
        steps(&two),
        [r#""accepted" null"#],
        "what is too long is for listeners alone"
    );
    assert_eq!(inbox(&relay, "bob"), Vec::<String>::new());
}
