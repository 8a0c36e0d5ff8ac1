//! Connections that break while messages fly, and a relay that is started again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use relay_sdk::{DeliveryMode, Handling};
use tokio::io::{AsyncReadExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::*;

/// Forwards connections to a relay, and cuts all of them again and again.
async fn cutting(relay: &Relay, every: Duration, cuts: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it has one").port();
    let to = relay.port;
    tokio::spawn(async move {
        let mut open = JoinSet::new();
        let mut tick = tokio::time::interval(every);
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (mut near, _) = accepted.expect("a connection");
                    open.spawn(async move {
                        let mut far = TcpStream::connect(("127.0.0.1", to)).await.expect("relay listens");
                        // A cut is no mistake.
                        let _ = copy_bidirectional(&mut near, &mut far).await;
                    });
                }
                _ = tick.tick() => if cuts.load(Ordering::Relaxed) {
                    open.abort_all();
                }
            }
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_messages_come_once_and_in_order_over_connections_that_are_cut() {
    const MESSAGES: usize = 200;
    let relay = Relay::start();
    let alice = agent(&relay, "alice").await;
    let cuts = Arc::new(AtomicBool::new(true));
    let port = cutting(&relay, Duration::from_millis(150), Arc::clone(&cuts)).await;
    let bob = {
        let token = bob_s_token(&relay).await;
        client_at(port).agent_by_token("bob", token)
    };
    let seen = Seen::default();
    let broken = Arc::new(Mutex::new(0));
    let _listening = {
        let broken = Arc::clone(&broken);
        bob.events().subscribe(move |event| {
            if matches!(event, AgentSessionEvent::Disconnected { .. }) {
                *broken.lock().expect("no panic") += 1;
            }
        })
    };
    let running = run(&bob, target(&seen, |_, _| Ok(MessageReceipt::delivered()))).await;
    let times = || *broken.lock().expect("no panic");
    for number in 0..MESSAGES {
        alice.send("bob", &number.to_string()).await.expect("it is sent");
        sleep(Duration::from_millis(2)).await;
        if number % (MESSAGES / 4) == 0 {
            let before = times();
            until(|| times() > before, "the connection is cut").await;
        }
    }
    let all: Vec<String> = (0..MESSAGES).map(|number| number.to_string()).collect();
    assert_eq!(seen.many(MESSAGES).await, all);
    cuts.store(false, Ordering::Relaxed);
    running.stop().await;
    assert_eq!(seen.texts(), all, "none came twice");
    assert_eq!(inbox(&relay, "bob"), Vec::<String>::new());
}

/// A token of bob's, who is made at the relay itself: what is tried here is the taking.
async fn bob_s_token(relay: &Relay) -> String {
    let key = support_key(relay);
    let made = Request::post("/v1/agents", json!({"name": "bob"}).to_string());
    let made = made.with("Authorization", &format!("Bearer {key}"));
    let made = relay.connect().exchange(&made).json();
    made["data"]["token"].as_str().expect("a token").to_owned()
}

fn support_key(relay: &Relay) -> String {
    let made = Request::post("/v1/workspaces", json!({"name": "web"}).to_string());
    let made = relay.connect().exchange(&made).json();
    made["data"]["api_key"].as_str().expect("a key").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn posts_over_connections_that_are_cut_add_one_message_each() {
    const MESSAGES: usize = 60;
    let relay = Relay::start();
    let bob = agent(&relay, "bob").await;
    let cuts = Arc::new(AtomicBool::new(true));
    let port = cutting(&relay, Duration::from_millis(20), Arc::clone(&cuts)).await;
    let web = client_at(port).workspace_by_key(support_key(&relay));
    cuts.store(false, Ordering::Relaxed);
    let alice = web.agent("alice").await.expect("an agent");
    cuts.store(true, Ordering::Relaxed);
    let mut sent = Vec::new();
    for number in 0..MESSAGES {
        if alice.send("bob", &number.to_string()).await.is_ok() {
            sent.push(number.to_string());
        }
    }
    assert!(sent.len() > MESSAGES / 2, "{} of them", sent.len());
    drop(bob);
    let mut got = inbox(&relay, "bob");
    let many = got.len();
    got.dedup();
    assert_eq!(got.len(), many, "none came twice");
    got.retain(|text| sent.contains(text));
    assert_eq!(got, sent);
}

/// Forwards connections to a relay, and takes no new ones while it is closed: those that are open go on.
async fn gate(relay: &Relay, closed: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it has one").port();
    let to = relay.port;
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.expect("a connection");
            if closed.load(Ordering::Relaxed) {
                continue;
            }
            tokio::spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", to))
                    .await
                    .expect("relay listens");
                // An end is no mistake.
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_that_could_not_be_given_is_given_later_and_the_message_handed_over_once() {
    let relay = Relay::start();
    let alice = agent(&relay, "alice").await;
    let closed = Arc::new(AtomicBool::new(false));
    let port = gate(&relay, Arc::clone(&closed)).await;
    let bob = client_at(port).agent_by_token("bob", bob_s_token(&relay).await);
    let (seen, told) = (Seen::default(), Arc::new(Mutex::new(Vec::new())));
    let target = {
        let closed = Arc::clone(&closed);
        target(&seen, move |_, _| {
            closed.store(true, Ordering::Relaxed);
            Ok(MessageReceipt::delivered())
        })
    };
    let running = {
        let (results, errors, closed) = (Arc::clone(&told), Arc::clone(&told), Arc::clone(&closed));
        let keep = |told: &Mutex<Vec<&str>>, word| told.lock().expect("no panic").push(word);
        DeliveryRunner::new(bob, target)
            .on_result(move |_, _| keep(&results, "given"))
            .on_error(move |_, error| {
                assert!(
                    matches!(error.downcast_ref(), Some(Error::Unreachable { .. })),
                    "{error}"
                );
                keep(&errors, "not given");
                closed.store(false, Ordering::Relaxed);
            })
            .start()
            .await
            .expect("it starts")
    };
    alice.send("bob", "hello").await.expect("it is sent");
    let many = || told.lock().expect("no panic").len();
    until(|| many() == 2, "the receipt is given in the end").await;
    running.stop().await;
    assert_eq!(*told.lock().expect("no panic"), ["not given", "given"]);
    assert_eq!(seen.texts(), ["hello"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deferred_waits_for_its_time_though_relay_was_not_told_before_the_connection_broke() {
    const PAUSE: Duration = Duration::from_secs(4);
    let relay = Relay::start();
    let alice = agent(&relay, "alice").await;
    let closed = Arc::new(AtomicBool::new(false));
    let port = gate(&relay, Arc::clone(&closed)).await;
    let bob = client_at(port).agent_by_token("bob", bob_s_token(&relay).await);
    let (seen, times) = (Seen::default(), Arc::new(Mutex::new(Vec::new())));
    let target = {
        let (closed, times) = (Arc::clone(&closed), Arc::clone(&times));
        target(&seen, move |_, _| {
            let mut times = times.lock().expect("no panic");
            times.push(SystemTime::now());
            if times.len() > 1 {
                return Ok(MessageReceipt::delivered());
            }
            closed.store(true, Ordering::Relaxed);
            Ok(MessageReceipt::deferred(times[0] + PAUSE, "busy"))
        })
    };
    let running = DeliveryRunner::new(bob, target)
        .on_error(move |_, _| closed.store(false, Ordering::Relaxed))
        .start()
        .await
        .expect("it starts");
    alice.send("bob", "hello").await.expect("it is sent");
    assert_eq!(seen.many(2).await, ["hello", "hello"]);
    running.stop().await;
    let times = times.lock().expect("no panic");
    let waited = times[1].duration_since(times[0]).expect("one after the other");
    // To the millisecond, as relay keeps it.
    assert!(waited >= PAUSE - Duration::from_millis(1), "{waited:?}");
    assert_eq!(times.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_comes_back_to_a_relay_that_was_started_again() {
    let mut relay = Relay::start();
    let (alice, bob) = (agent(&relay, "alice").await, agent(&relay, "bob").await);
    let connected = Arc::new(AtomicUsize::new(0));
    let _listening = {
        let connected = Arc::clone(&connected);
        bob.events().subscribe(move |event| {
            if matches!(event, AgentSessionEvent::Connected) {
                connected.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let seen = Seen::default();
    let running = run(&bob, target(&seen, |_, _| Ok(MessageReceipt::delivered()))).await;
    alice.send("bob", "before").await.expect("it is sent");
    seen.many(1).await;
    relay.kill_and_restart();
    until(|| connected.load(Ordering::Relaxed) == 2, "bob is made again").await;
    alice
        .send("bob", "after")
        .await
        .expect("alice is made again by it");
    assert_eq!(seen.many(2).await, ["before", "after"]);
    running.stop().await;
}

/// Forwards connections to a relay, and loses one answer each time that it is told to.
async fn losing_answers(relay: &Relay, loses: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it has one").port();
    let to = relay.port;
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.expect("a connection");
            let loses = loses.swap(false, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", to))
                    .await
                    .expect("relay listens");
                // An end is no mistake.
                if !loses {
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                    return;
                }
                let (mut from_near, _to_near) = near.split();
                let (mut from_far, mut to_far) = far.split();
                tokio::select! {
                    _ = tokio::io::copy(&mut from_near, &mut to_far) => {}
                    _ = from_far.read_u8() => {}
                }
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_whose_answer_is_lost_does_not_say_that_nothing_was_held() {
    let relay = Relay::start();
    let alice = agent(&relay, "alice").await;
    let loses = Arc::new(AtomicBool::new(false));
    let port = losing_answers(&relay, Arc::clone(&loses)).await;
    let bob = client_at(port).agent_by_token("bob", bob_s_token(&relay).await);
    let held = Handling {
        mode: DeliveryMode::Manual,
        ..Handling::default()
    };
    alice.send_with("bob", "held", &held).await.expect("it is taken");
    loses.store(true, Ordering::Relaxed);
    let flushed = bob.flush().await;
    assert!(matches!(&flushed, Err(Error::Unreachable { .. })), "{flushed:?}");
    assert_eq!(bob.flush().await.expect("it is told"), 0);
    let seen = Seen::default();
    let running = run(&bob, target(&seen, |_, _| Ok(MessageReceipt::delivered()))).await;
    assert_eq!(seen.many(1).await, ["held"]);
    running.stop().await;
}
