//! When the session of an agent CLI ends with its process, and when that cannot be told. The clock is paused.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relay::server::{Messaging, Socket};
use serde_json::{Value, json};

use super::http::Request;
use super::in_memory::{Connection, Relay};
use super::patience::{call, health, heard};

/// Longer than it takes until a process is seen gone, which is 2 seconds.
const SEEN: Duration = Duration::from_secs(6);

/// What a hook names that this machine has in common with, and two processes of it.
const HERE: &str = "here";
const FIRST: &str = "10-1";
const SECOND: &str = "11-1";

/// The processes of a machine.
#[derive(Default)]
struct Processes(Mutex<BTreeSet<String>>);

impl Messaging for Processes {
    fn runs(&self, process: &str) -> bool {
        self.0.lock().expect("no panic").contains(process)
    }

    fn shares(&self, namespace: &str) -> bool {
        namespace == HERE
    }

    fn connect<'a>(
        &'a self,
        _: &'a Path,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn Socket>>> + Send + 'a>> {
        Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
    }
}

/// A relay, and a conversation of dev-a with Codex, which goes on in one process or another.
struct Scene {
    relay: Relay,
    processes: Arc<Processes>,
}

impl Scene {
    fn new() -> Self {
        let processes = Arc::new(Processes::default());
        processes
            .0
            .lock()
            .expect("no panic")
            .extend([FIRST, SECOND].map(str::to_owned));
        Self {
            relay: Relay::start_beside(Arc::clone(&processes) as Arc<dyn Messaging>),
            processes,
        }
    }

    fn request(what: &str, cli: &str, body: &Value) -> Vec<u8> {
        let address = format!("/hooks/codex{what}?process=s-1&agent=dev-a{cli}");
        Request::post(&address, body.to_string()).bytes()
    }

    /// Codex tells of an event, and of its process so.
    async fn tells(&self, event: &str, cli: &str) -> String {
        let event = json!({"session_id": "s-1", "hook_event_name": event});
        let request = Self::request("", cli, &event);
        let (status, answer) = self.relay.connect().exchange(&request).await;
        assert!((200..300).contains(&status), "{status}: {answer}");
        answer
    }

    /// A waiter stands by that tells of its process so.
    async fn waiter(&self, cli: &str) -> Connection {
        let mut waiter = self.relay.connect();
        waiter.send(&Self::request("/wait", cli, &json!({}))).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        waiter
    }

    async fn ends(&self, process: &str) {
        self.processes.0.lock().expect("no panic").remove(process);
        tokio::time::sleep(SEEN).await;
    }

    /// Tells whether the conversation has a session.
    async fn goes_on(&self) -> bool {
        let (_, health) = self.relay.connect().exchange(&health()).await;
        let health: Value = serde_json::from_str(&health).expect("JSON");
        let mut connections = health["connections"].as_array().expect("connections").iter();
        connections.any(|connection| connection.get("program").is_some())
    }

    async fn unread(&self) -> u64 {
        let (_, health) = self.relay.connect().exchange(&health()).await;
        let health: Value = serde_json::from_str(&health).expect("JSON");
        let mut roles = health["roles"].as_array().expect("roles").iter();
        let role = roles.find(|role| role["role"] == "dev-a").expect("it is there");
        role["unread"].as_u64().expect("a number")
    }
}

fn named(process: &str, namespace: &str) -> String {
    format!("&cli={process}&namespace={namespace}")
}

#[tokio::test(start_paused = true)]
async fn a_conversation_ends_with_the_process_that_it_was_last_seen_in() {
    let (first, second, never) = (named(FIRST, HERE), named(SECOND, HERE), named("12-1", HERE));
    let (abroad, second_abroad) = (named(FIRST, "elsewhere"), named(SECOND, "elsewhere"));
    let nowhere = format!("&cli={FIRST}");
    // What its hooks tell of its process, one after the other, and whether it ends with the first.
    let cases: [(&[&str], bool); 10] = [
        (&[&first], true),
        (&[&first, &first], true),
        (&[&second, &first], true),
        (&[&first, &second], false),
        // It goes on in one of which nothing is known.
        (&[&first, ""], false),
        (&[&first, &second_abroad], false),
        (&[&first, &never], false),
        // Nothing tells of the first.
        (&[&abroad], false),
        (&[&never], false),
        (&[&nowhere], false),
    ];
    for (seen, ends) in cases {
        let scene = Scene::new();
        for cli in seen {
            scene.tells("UserPromptSubmit", cli).await;
        }
        tokio::time::sleep(SEEN).await;
        assert!(scene.goes_on().await, "{seen:?}");
        scene.ends(FIRST).await;
        assert_eq!(scene.goes_on().await, !ends, "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_shown_is_back_and_a_waiter_goes_though_the_waiter_cannot_tell_its_process() {
    let scene = Scene::new();
    let post = json!({"from": "pm", "to": "dev-a", "kind": "free", "body": "look"});
    scene
        .relay
        .connect()
        .exchange(&call("/mcp", "post_message", post))
        .await;
    let shown = scene.tells("PostToolUse", &named(FIRST, HERE)).await;
    assert!(shown.contains("| look"), "{shown}");
    let mut waiter = scene.waiter("").await;
    assert_eq!(scene.unread().await, 0);
    scene.ends(FIRST).await;
    heard(&mut waiter, "HTTP/1.1 204 ").await;
    assert_eq!((scene.unread().await, scene.goes_on().await), (1, false));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_begun_anew_in_the_same_process_ends_with_it_too() {
    let scene = Scene::new();
    let first = named(FIRST, HERE);
    scene.tells("UserPromptSubmit", &first).await;
    scene.tells("SessionEnd", &first).await;
    tokio::time::sleep(SEEN).await;
    assert!(!scene.goes_on().await);
    scene.tells("UserPromptSubmit", &first).await;
    scene.ends(FIRST).await;
    assert!(!scene.goes_on().await);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_a_waiter_alone_has_told_of_ends_with_its_process_too() {
    let scene = Scene::new();
    drop(scene.waiter(&named(FIRST, HERE)).await);
    tokio::time::sleep(SEEN).await;
    assert!(scene.goes_on().await);
    scene.ends(FIRST).await;
    assert!(!scene.goes_on().await);
}
