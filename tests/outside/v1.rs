//! The API of Agent Relay, from outside: each address, what it refuses, and that the relay is up afterwards.

mod actions;
mod addresses;
mod contexts;
mod deliveries;
mod ends_of_streams;
mod handling;
mod messages;
mod node;
mod nodes;
mod observer_tokens;
mod observers;
mod push_turns;
mod pushes;
mod records;
mod refusals;
mod search;
mod sessions;
mod tokens;

use serde_json::{Value, json};

use crate::support::http::{Request, Response};
use crate::support::process::Relay;

/// A relay with two workspaces, and two agents in the first.
struct World {
    relay: Relay,
    /// The key of the workspace `web`.
    key: String,
    other_key: String,
    alice: String,
    bob: String,
}

impl World {
    fn new() -> Self {
        let relay = Relay::start();
        let key = workspace(&relay, "web");
        let other_key = workspace(&relay, "app");
        let [alice, bob] = ["alice", "bob"].map(|name| {
            let made = send(&relay, "/v1/agents", Some(&key), &json!({"name": name}));
            assert_eq!(made.status, 201, "{made:?}");
            data(&made)["token"].as_str().expect("a token").to_owned()
        });
        Self {
            relay,
            key,
            other_key,
            alice,
            bob,
        }
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> Response {
        send(&self.relay, path, Some(token), body)
    }

    fn get(&self, path: &str, token: &str) -> Response {
        self.relay.connect().exchange(&with(Request::get(path), token))
    }

    /// Posts what must be done, and returns what comes of it.
    #[track_caller]
    fn done(&self, path: &str, token: &str, body: &Value) -> Value {
        let response = self.post(path, token, body);
        assert!((200..300).contains(&response.status), "{response:?}");
        data(&response)
    }

    #[track_caller]
    fn seen(&self, path: &str, token: &str) -> Value {
        let response = self.get(path, token);
        assert_eq!(response.status, 200, "{response:?}");
        data(&response)
    }

    /// Retires an agent, as the person does.
    fn retire(&self, agent: &str) {
        // The session of an agent's call ends in its own time.
        crate::support::until("the end of its sessions", || {
            let request = Request::post("/api/retire", json!({"agent": agent}).to_string());
            let answer = self.relay.connect().exchange(&request);
            let is_retired = answer.status == 200;
            let reason = answer.json()["error"].to_string();
            assert!(is_retired || reason.contains("session"), "{answer:?}");
            is_retired
        });
    }

    /// Takes what is in an agent's inbox, as the person does.
    fn bodies(&self, agent: &str) -> Vec<String> {
        let asked = Request::post("/api/read", json!({"for": agent}).to_string());
        let read = self.relay.connect().exchange(&asked).json();
        let messages = read["messages"].as_array().expect("a list");
        let body = |message: &Value| message["body"].as_str().expect("a text").to_owned();
        messages.iter().map(body).collect()
    }
}

fn workspace(relay: &Relay, name: &str) -> String {
    let made = send(relay, "/v1/workspaces", None, &json!({"name": name}));
    data(&made)["api_key"].as_str().expect("a key").to_owned()
}

fn send(relay: &Relay, path: &str, token: Option<&str>, body: &Value) -> Response {
    let request = Request::post(path, body.to_string());
    let request = match token {
        Some(token) => with(request, token),
        None => request,
    };
    relay.connect().exchange(&request)
}

fn with(request: Request, token: &str) -> Request {
    request.with("Authorization", &format!("Bearer {token}"))
}

/// What there is in an answer that is no error.
#[track_caller]
fn data(response: &Response) -> Value {
    let mut json = response.json();
    assert_eq!(json["ok"], true, "{response:?}");
    json["data"].take()
}

/// The status, the code and the message of an error.
#[track_caller]
fn error(response: &Response) -> (u16, String, String) {
    let json = response.json();
    let text = |name: &str| json["error"][name].as_str().expect("a text").to_owned();
    let whole = json!({"ok": false, "error": {"code": text("code"), "message": text("message")}});
    assert_eq!(json, whole, "an error has these members");
    (response.status, text("code"), text("message"))
}

#[track_caller]
fn refused(response: &Response, status: u16, code: &str, words: &str) {
    let (found, code_found, message) = error(response);
    assert_eq!((found, code_found.as_str()), (status, code), "{message}");
    assert!(message.contains(words), "{message:?} has no {words:?}");
}
