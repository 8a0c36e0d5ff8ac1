use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::extract::ws::Message;
use axum::extract::{State, WebSocketUpgrade};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Parser as _;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc::channel;

use super::*;
use crate::cli::top::news::Step;

/// What a relay that is not one answers to those who look into an inbox, in this order.
type Peeks = Arc<Mutex<BTreeMap<String, Vec<(StatusCode, Value)>>>>;

/// A relay that is not one.
#[derive(Clone, Default)]
struct Stand {
    peeks: Peeks,
    /// What the streams bring, one after the other, before they end; one that is not among them stays.
    streams: Arc<Mutex<VecDeque<Stream>>>,
    /// Behind which event those who asked for a stream have come to.
    asked: Arc<Mutex<Vec<String>>>,
}

/// A stream that ends, or that is refused.
enum Stream {
    /// It is said to be behind this event, if that is said, and brings those with these numbers.
    Of(Option<u64>, Vec<Option<u64>>),
    /// It is asked for behind an event that is still to come.
    Refused,
}

#[derive(clap::Parser)]
struct Arguments {
    #[command(flatten)]
    at: At,
}

async fn health() -> Json<Value> {
    let role = |name: &str, unread: u64, held: u64| json!({"role": name, "unread": unread, "held": held, "in_doubt": 0});
    Json(json!({
        "name": "relay", "version": "0.1.0", "started_at": "1970-01-01T00:00:00Z", "boot": "b-1",
        "roles": [role("gone", 1, 0), role("pm", 1, 0), role("dev-a", 0, 1), role("dev-b", 0, 0)],
    }))
}

async fn tail(State(stand): State<Stand>, uri: Uri, upgrade: WebSocketUpgrade) -> Response {
    let query = uri.query().expect("it says from where on").to_owned();
    stand.asked.lock().expect("nobody has panicked").push(query);
    let next = stand.streams.lock().expect("nobody has panicked").pop_front();
    let (seq, events) = match next {
        None => (Some(7), None),
        Some(Stream::Of(seq, events)) => (seq, Some(events)),
        Some(Stream::Refused) => {
            let error = json!({"error": "since is beyond what there is"});
            return (StatusCode::BAD_REQUEST, Json(error)).into_response();
        }
    };
    let mut response = upgrade.on_upgrade(|mut socket| async move {
        let Some(events) = events else {
            while socket.recv().await.is_some() {}
            return;
        };
        for seq in events {
            let event = json!({"seq": seq, "type": "agent.status", "created_at": "1970-01-01T00:00:00Z"});
            let sent = socket.send(Message::Text(event.to_string().into())).await;
            sent.expect("it is read");
        }
    });
    if let Some(seq) = seq {
        response.headers_mut().insert("relay-seq", seq.into());
    }
    response
}

async fn peek(State(stand): State<Stand>, Json(asked): Json<Value>) -> Response {
    let name = asked["for"].as_str().expect("a name").to_owned();
    let mut peeks = stand.peeks.lock().expect("nobody has panicked");
    let answers = peeks.get_mut(&name).expect("nobody else's inbox is looked into");
    let (status, answer) = answers.remove(0);
    (status, Json(answer)).into_response()
}

/// Answers as a relay does, and returns where.
async fn relay(stand: Stand) -> At {
    let router = Router::new()
        .route("/health", get(health))
        .route("/api/tail", get(tail))
        .route("/api/peek", post(peek))
        .with_state(stand);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    Arguments::parse_from(["top", "--port", &port]).at
}

fn message(id: &str, held: Option<&str>) -> Value {
    json!({"id": id, "from": "dev-b", "to": "x", "kind": "free", "body": "one", "ts": "1970-01-01T00:00:00Z", "held": held})
}

#[tokio::test]
async fn what_is_in_the_inboxes_is_looked_for_until_it_is_known_and_one_that_is_gone_is_left_out() {
    let gone = || (StatusCode::NOT_FOUND, json!({"error": "unknown agent gone"}));
    let has = |message: Value| (StatusCode::OK, json!({"messages": [message]}));
    let stops = (StatusCode::SERVICE_UNAVAILABLE, json!({"error": "relay stops"}));
    let peeks = [
        ("gone", vec![gone(), gone()]),
        ("pm", vec![has(message("a", None)), has(message("a", None))]),
        ("dev-a", vec![stops, has(message("b", Some("to")))]),
    ];
    let peeks = peeks.map(|(name, answers)| (name.to_owned(), answers));
    let at = relay(Stand {
        peeks: Arc::new(Mutex::new(peeks.into())),
        ..Stand::default()
    })
    .await;
    let (news, _heard) = channel(1);
    let had = Had::default();
    let mut follow = Follow { at, had, news };
    assert!(matches!(follow.find().await, Err(ClientError::NotNow { .. })));
    let found = |found: Found| {
        let inboxes = found.inboxes.into_iter();
        let inboxes: Vec<_> = inboxes.map(|message| (message.id, message.inbox)).collect();
        (found.is_another, inboxes)
    };
    let expected = [("a", "pm", Step::Waits), ("b", "dev-a", Step::Held)];
    let expected = expected.map(|(id, agent, step)| (id.to_owned(), Some((agent.to_owned(), step))));
    let first = follow.find().await.expect("it is there");
    assert_eq!(found(first), (true, expected.into()));
    assert_eq!(follow.had.seq, Some(7));
    // Of the same start all of it is known.
    let again = follow.find().await.expect("it is there");
    assert_eq!(found(again), (false, Vec::new()));
}

#[tokio::test]
async fn each_stream_goes_on_behind_the_last_event_that_was_read() {
    let stand = Stand {
        streams: Arc::new(Mutex::new(VecDeque::from([
            // It says where it begins, and brings nothing.
            Stream::Of(Some(3), vec![]),
            // What came of it counts, not where it began; an event without a number changes nothing.
            Stream::Of(Some(3), vec![Some(5), Some(9), None]),
            // It does not say where it begins.
            Stream::Of(None, vec![Some(10)]),
            Stream::Of(None, vec![]),
            Stream::Refused,
        ]))),
        peeks: Arc::new(Mutex::new(BTreeMap::from(["gone", "pm", "dev-a"].map(|name| {
            let none = (StatusCode::OK, json!({"messages": []}));
            (name.to_owned(), vec![none])
        })))),
        ..Stand::default()
    };
    let asked = Arc::clone(&stand.asked);
    let (news, mut heard) = channel(1);
    let (mut follow, mut found) = Follow::begin(relay(stand).await, news)
        .await
        .expect("it is there");
    let reads = async {
        for _ in 0..4 {
            assert!(follow.tell(found).await.is_ok(), "somebody wants to know it");
            found = match follow.find().await {
                Ok(found) => found,
                Err(error) => {
                    assert!(matches!(error, ClientError::Refused { .. }), "{error}");
                    break;
                }
            };
        }
    };
    tokio::select! {
        () = reads => {}
        () = async { while heard.recv().await.is_some() {} } => panic!("there is still one who tells"),
    }
    let asked = asked.lock().expect("nobody has panicked");
    assert_eq!(*asked, ["since=0", "since=3", "since=9", "since=10", "since=10"]);
}

#[tokio::test]
async fn a_relay_that_counts_from_a_clock_that_was_set_back_is_asked_for_all_that_it_has() {
    let stand = Stand {
        streams: Arc::new(Mutex::new(VecDeque::from([
            Stream::Of(Some(3), vec![]),
            Stream::Refused,
        ]))),
        peeks: Arc::new(Mutex::new(BTreeMap::from(["gone", "pm", "dev-a"].map(|name| {
            let none = (StatusCode::OK, json!({"messages": []}));
            (name.to_owned(), vec![none])
        })))),
        ..Stand::default()
    };
    let asked = Arc::clone(&stand.asked);
    let (news, mut heard) = channel(64);
    let (follow, found) = Follow::begin(relay(stand).await, news)
        .await
        .expect("it is there");
    let following = tokio::spawn(follow.run(found));
    let goes_on = async {
        while asked.lock().expect("nobody has panicked").len() < 3 {
            heard.recv().await.expect("there is one who tells");
        }
    };
    timeout(Duration::from_secs(30), goes_on)
        .await
        .expect("it asks again");
    following.abort();
    let asked = asked.lock().expect("nobody has panicked");
    assert_eq!(*asked, ["since=0", "since=3", "since=0"]);
}

/// Has a relay that is not one listen, and returns at which port.
async fn listens(router: Router) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

#[tokio::test]
async fn agents_that_relay_has_started_are_workers_and_there_need_be_none() {
    for starts_workers in [true, false] {
        let agent = |name: &str| json!({"agent": name, "status": "active"});
        let all = json!({"agents": [agent("pm"), agent("w1"), agent("w2")]});
        let workers =
            json!({"workers": [{"name": "w1", "state": "ready"}, {"name": "w2", "state": "exited"}]});
        let mut router = Router::new()
            .route("/health", get(health))
            .route("/api/agents", post(move || async move { Json(all) }));
        if starts_workers {
            router = router.route("/api/workers", post(move || async move { Json(workers) }));
        }
        let place = Place {
            port: listens(router).await,
            ..Place::default()
        };
        let mut client = Client::connect(&place, None).await.expect("it is there");
        let told = agents(&mut client).await.expect("they are told");
        let told: Vec<_> = told
            .iter()
            .map(|agent| (agent.name.as_str(), agent.is_worker))
            .collect();
        assert_eq!(told, [("pm", false), ("w1", starts_workers), ("w2", false)]);
    }
}

#[tokio::test]
async fn that_something_is_forgotten_is_told_but_not_of_another_start() {
    async fn missed(upgrade: WebSocketUpgrade) -> Response {
        upgrade.on_upgrade(|mut socket| async move {
            let event = json!({"type": "events.missed", "seq": 3, "created_at": "1970-01-01T00:00:00Z"});
            let sent = socket.send(Message::Text(event.to_string().into())).await;
            sent.expect("it is read");
        })
    }
    let health =
        json!({"name": "relay", "version": "0.1.0", "started_at": "1970-01-01T00:00:00Z", "boot": "b-1"});
    let router = Router::new()
        .route("/health", get(move || async move { Json(health) }))
        .route("/api/tail", get(missed));
    let port = listens(router).await.to_string();
    let (news, mut heard) = channel(64);
    let at = Arguments::parse_from(["top", "--port", &port]).at;
    let (mut follow, found) = Follow::begin(at, news).await.expect("it is there");
    assert!(follow.tell(found).await.is_ok(), "somebody wants to know it");
    let found = follow.find().await.expect("it is there");
    let mut count = || {
        let all = std::iter::from_fn(|| heard.try_recv().ok());
        all.filter(|news| matches!(news, News::Event(Event::Missed)))
            .count()
    };
    assert_eq!(count(), 0, "it is another one");
    assert!(follow.tell(found).await.is_ok(), "somebody wants to know it");
    assert_eq!(count(), 1);
}

#[tokio::test]
async fn what_is_not_understood_is_passed_over_and_why_a_stream_ends_is_told() {
    async fn ends(upgrade: WebSocketUpgrade) -> Response {
        upgrade.on_upgrade(|mut socket| async move {
            let event = json!({
                "type": "agent.status.active", "seq": 4, "created_at": "1970-01-01T00:00:00Z", "agent": {"name": "bob"},
            });
            let close = axum::extract::ws::CloseFrame {
                code: 1001,
                reason: "relay is stopping".to_owned().into(),
            };
            for message in [
                Message::Text("no JSON".to_owned().into()),
                Message::Binary(vec![1_u8].into()),
                Message::Text(event.to_string().into()),
                Message::Close(Some(close)),
            ] {
                socket.send(message).await.expect("it is read");
            }
            while socket.recv().await.is_some() {}
        })
    }
    let health =
        json!({"name": "relay", "version": "0.1.0", "started_at": "1970-01-01T00:00:00Z", "boot": "b-1"});
    let router = Router::new()
        .route("/health", get(move || async move { Json(health) }))
        .route("/api/tail", get(ends));
    let port = listens(router).await.to_string();
    let (news, mut heard) = channel(64);
    let at = Arguments::parse_from(["top", "--port", &port]).at;
    let (mut follow, found) = Follow::begin(at, news).await.expect("it is there");
    let ended = follow.tell(found).await;
    assert!(ended.is_ok_and(|reason| reason == "relay is stopping"));
    let all = std::iter::from_fn(|| heard.try_recv().ok());
    let notes = all.filter(|news| matches!(news, News::Event(Event::Note { .. })));
    assert_eq!(notes.count(), 1);
}
