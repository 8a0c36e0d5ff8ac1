//! When a session of Claude Code is woken by its messaging socket, and when it is not. The clock is paused, so that silence takes no time.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relay::server::{Messaging, Socket};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, DuplexStream};

use super::http::Request;
use super::in_memory::{Connection, Relay};
use super::patience::{call, health, heard, texts};

/// Longer than a program is idle before its socket is thought of, which is 5 seconds.
const SETTLED: Duration = Duration::from_secs(6);

/// As many bytes as are told to a program at once.
const ROOM: usize = 64 * 1024;

/// The programs of a machine on which one socket may be open.
#[derive(Default)]
struct Programs {
    sockets: Mutex<BTreeMap<PathBuf, Vec<DuplexStream>>>,
    are_gone: AtomicBool,
}

impl Messaging for Programs {
    fn runs(&self, _: &str) -> bool {
        !self.are_gone.load(Ordering::Relaxed)
    }

    fn shares(&self, namespace: &str) -> bool {
        namespace == "here"
    }

    fn connect<'a>(
        &'a self,
        path: &'a Path,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn Socket>>> + Send + 'a>> {
        let (relay, program) = tokio::io::duplex(ROOM);
        let mut sockets = self.sockets.lock().expect("no panic");
        let connected = match sockets.get_mut(path) {
            Some(connections) => {
                connections.push(program);
                Ok(Box::new(relay) as Box<dyn Socket>)
            }
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        };
        Box::pin(async move { connected })
    }
}

/// A relay that has told dev-a of its start, and the program of dev-a with its socket.
struct Scene {
    relay: Relay,
    programs: Arc<Programs>,
    socket: PathBuf,
}

impl Scene {
    async fn new() -> Self {
        let programs = Arc::new(Programs::default());
        let scene = Self {
            relay: Relay::start_beside(Arc::clone(&programs) as Arc<dyn Messaging>),
            programs,
            socket: "/cc-socks/1.sock".into(),
        };
        scene.opens();
        assert!(scene.bodies().await.is_empty(), "the start is told");
        scene
    }

    /// The program takes connections.
    fn opens(&self) {
        let mut sockets = self.programs.sockets.lock().expect("no panic");
        sockets.insert(self.socket.clone(), Vec::new());
    }

    fn closes(&self) {
        self.programs.sockets.lock().expect("no panic").clear();
    }

    fn address(&self, hook: &str) -> String {
        let socket = self.socket.display();
        format!("/hooks/{hook}?process=p1&agent=dev-a&socket={socket}")
    }

    /// The program tells of an event.
    async fn tells(&self, event: Value) {
        let request = Request::post(&self.address("claude"), event.to_string());
        let (status, answer) = self.relay.connect().exchange(&request.bytes()).await;
        assert!((200..300).contains(&status), "{status}: {answer}");
    }

    /// A turn of its model has ended; it may do so much without asking.
    async fn rests(&self, may: &str) {
        self.tells(json!({"session_id": "s-1", "hook_event_name": "Stop", "permission_mode": may}))
            .await;
    }

    /// A waiter stands by for it, as long as its connection is open.
    async fn waiter(&self) -> Connection {
        let mut waiter = self.relay.connect();
        waiter
            .send(&Request::post(&self.address("claude/wait"), "{}").bytes())
            .await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(self.activity().await, [("idle".to_owned(), true)]);
        waiter
    }

    async fn send(&self, body: &str) {
        let arguments = json!({"from": "pm", "to": "dev-a", "kind": "free", "body": body});
        let posted = call("/mcp", "post_message", arguments);
        let (_, posted) = self.relay.connect().exchange(&posted).await;
        assert!(texts(&posted)[0].contains("id"), "{posted}");
    }

    /// What dev-a reads with a tool, each with whether it may have been read before.
    async fn bodies(&self) -> Vec<(String, bool)> {
        let read = call("/mcp", "read_messages", json!({"for": "dev-a"}));
        let (_, answer) = self.relay.connect().exchange(&read).await;
        // Beside it, the start is told once.
        let texts = texts(&answer);
        let mut lists = texts
            .iter()
            .filter_map(|text| serde_json::from_str::<Vec<Value>>(text).ok());
        let list = lists.next().expect("a list").into_iter();
        list.map(|message| {
            let body = message["body"].as_str().expect("a text").to_owned();
            (body, message["redelivered"] == true)
        })
        .collect()
    }

    /// What is known of programs: what they do, and whether a waiter stands by.
    async fn activity(&self) -> Vec<(String, bool)> {
        let (_, health) = self.relay.connect().exchange(&health()).await;
        let health: Value = serde_json::from_str(&health).expect("JSON");
        let connections = health["connections"].as_array().expect("connections").iter();
        let programs = connections.filter_map(|connection| connection.get("program"));
        programs
            .map(|program| {
                let activity = program["activity"].as_str().expect("a word").to_owned();
                (activity, program["can_be_woken"] == true)
            })
            .collect()
    }

    /// What was said to the program by its socket since the last time, once it had time enough.
    async fn hears(&self) -> Vec<String> {
        tokio::time::sleep(SETTLED).await;
        let connections = {
            let mut sockets = self.programs.sockets.lock().expect("no panic");
            sockets
                .get_mut(&self.socket)
                .map(std::mem::take)
                .unwrap_or_default()
        };
        let mut said = Vec::new();
        for mut connection in connections {
            let mut line = String::new();
            connection.read_to_string(&mut line).await.expect("a line");
            let line: Value = serde_json::from_str(&line).expect("JSON");
            said.push(line["message"]["content"].as_str().expect("a text").to_owned());
        }
        said
    }
}

fn unmarked(body: &str) -> [(String, bool); 1] {
    [(body.to_owned(), false)]
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_without_a_waiter_is_woken_by_its_socket() {
    let scene = Scene::new().await;
    scene.rests("default").await;
    scene.send("wake up").await;
    let said = scene.hears().await;
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("\n| wake up\n"), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_program_whose_process_is_gone_is_not_woken() {
    let scene = Scene::new().await;
    scene.rests("default").await;
    scene.programs.are_gone.store(true, Ordering::Relaxed);
    tokio::time::sleep(SETTLED).await;
    assert_eq!(scene.activity().await, [("idle".to_owned(), false)]);
    scene.send("wake up").await;
    assert_eq!(scene.hears().await, [""; 0]);
    assert_eq!(scene.bodies().await, unmarked("wake up"));
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_takes_nothing_loses_nothing() {
    let scene = Scene::new().await;
    scene.rests("default").await;
    scene.closes();
    scene.send("wake up").await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(scene.bodies().await, [("wake up".to_owned(), true)]);
    // It is used again once it is named again.
    scene.opens();
    scene.rests("default").await;
    scene.send("and again").await;
    let said = scene.hears().await;
    assert!(said.concat().contains("\n| and again\n"), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_its_person_watches_from_then_on_is_not_woken_by_its_socket_any_more() {
    let scene = Scene::new().await;
    for may in ["default", "bypassPermissions"] {
        scene.rests(may).await;
    }
    scene.send("wake up").await;
    assert_eq!(scene.hears().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_waiter_was_killed_is_woken_by_its_socket() {
    let scene = Scene::new().await;
    scene.rests("default").await;
    let waiter = scene.waiter().await;
    tokio::time::sleep(SETTLED).await;
    drop(waiter);
    scene.send("wake up").await;
    let said = scene.hears().await;
    assert!(said.concat().contains("\n| wake up\n"), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_with_a_waiter_is_woken_by_that_alone() {
    let scene = Scene::new().await;
    scene.rests("default").await;
    let mut waiter = scene.waiter().await;
    tokio::time::sleep(SETTLED).await;
    scene.send("wake up").await;
    let answered = heard(&mut waiter, "wake up").await;
    assert!(answered.starts_with("HTTP/1.1 200 "), "{answered}");
    assert_eq!(scene.hears().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_its_person_watches_is_not_woken_by_its_socket() {
    let scene = Scene::new().await;
    scene.rests("bypassPermissions").await;
    scene
        .tells(json!({"hook_event_name": "Notification", "notification_type": "idle_prompt"}))
        .await;
    scene.send("wake up").await;
    assert_eq!(scene.hears().await, [""; 0]);
    assert_eq!(scene.activity().await, [("idle".to_owned(), false)]);
}

/// Longer than until it is seen that a process is gone.
const NOTICED: Duration = Duration::from_secs(5);

/// Where a program's hooks say something, and in which process it runs if that is said.
fn hook_of(hook: &str, cli: &str) -> String {
    format!("/hooks/{hook}?process=p1&agent=dev-a{cli}")
}

const CLI: &str = "&cli=7-1&namespace=here";

impl Scene {
    async fn tells_at(&self, address: &str) {
        let event = json!({"session_id": "s-1", "hook_event_name": "Stop"});
        let request = Request::post(address, event.to_string());
        let (status, answer) = self.relay.connect().exchange(&request.bytes()).await;
        assert!((200..300).contains(&status), "{status}: {answer}");
    }
}

/// A waiter has left the processes of its agent CLI, and cannot tell which it is.
#[tokio::test(start_paused = true)]
async fn what_a_waiter_brings_is_back_once_the_process_that_a_hook_named_is_gone() {
    let scene = Scene::new().await;
    scene.tells_at(&hook_of("codex", CLI)).await;
    let mut waiter = scene.relay.connect();
    waiter
        .send(&Request::post(&hook_of("codex/wait", ""), "{}").bytes())
        .await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    scene.send("wake up").await;
    heard(&mut waiter, "wake up").await;
    tokio::time::sleep(NOTICED).await;
    assert_eq!(scene.bodies().await, [], "it runs");
    scene.programs.are_gone.store(true, Ordering::Relaxed);
    tokio::time::sleep(NOTICED).await;
    assert_eq!(scene.bodies().await, [("wake up".to_owned(), true)]);
    assert_eq!(scene.activity().await, []);
}

/// The conversation may go on in another process, of which nothing is known, or where its number means another one.
#[tokio::test(start_paused = true)]
async fn a_process_that_a_hook_names_no_more_or_in_another_namespace_ends_nothing() {
    for latest in ["", "&cli=7-1", "&cli=8-1&namespace=elsewhere"] {
        let scene = Scene::new().await;
        for cli in [CLI, latest] {
            scene.tells_at(&hook_of("codex", cli)).await;
        }
        scene.programs.are_gone.store(true, Ordering::Relaxed);
        tokio::time::sleep(NOTICED).await;
        assert_eq!(scene.activity().await.len(), 1, "{latest}");
    }
}
