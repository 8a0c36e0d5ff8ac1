//! The crate for agents' own programs, beside a relay of the built binary: connections that break, restarts, and targets of all kinds.

mod cuts;
mod receipts;
mod stops;
mod token;
mod twins;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::http::Request;
use crate::support::process::Relay;
use relay_sdk::{
    AdapterFailure, Agent, AgentDeliveryAdapter, AgentSessionEvent, Client, DeliveryRunner, Error,
    MessageContext, MessageReceipt, RelayMessage, Running, adapter,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn client(relay: &Relay) -> Client {
    client_at(relay.port)
}

fn client_at(port: u16) -> Client {
    Client::new(&format!("http://127.0.0.1:{port}")).expect("an address")
}

async fn agent(relay: &Relay, name: &str) -> Agent {
    let workspace = client(relay).workspace("web").await.expect("a workspace");
    workspace.agent(name).await.expect("an agent")
}

/// What a target got, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(String, MessageContext)>>>);

impl Seen {
    fn keep(&self, message: &RelayMessage, context: &MessageContext) {
        let mut seen = self.0.lock().expect("no panic");
        seen.push((message.text.clone(), context.clone()));
    }

    fn texts(&self) -> Vec<String> {
        let seen = self.0.lock().expect("no panic");
        seen.iter().map(|(text, _)| text.clone()).collect()
    }

    fn contexts(&self) -> Vec<MessageContext> {
        let seen = self.0.lock().expect("no panic");
        seen.iter().map(|(_, context)| context.clone()).collect()
    }

    /// Waits until so many have come.
    #[track_caller]
    fn many(&self, many: usize) -> impl Future<Output = Vec<String>> {
        let seen = self.clone();
        async move {
            let waited = timeout(PATIENCE, async {
                while seen.texts().len() < many {
                    sleep(Duration::from_millis(5)).await;
                }
            });
            assert!(waited.await.is_ok(), "{} of {many} have come", seen.texts().len());
            seen.texts()
        }
    }
}

/// A target that says of each message what a function says.
fn target(
    seen: &Seen,
    says: impl Fn(&RelayMessage, &MessageContext) -> Result<MessageReceipt, AdapterFailure>
    + Send
    + Sync
    + 'static,
) -> impl AgentDeliveryAdapter {
    let seen = seen.clone();
    adapter("test", move |message, context| {
        seen.keep(&message, &context);
        std::future::ready(says(&message, &context))
    })
}

async fn run(agent: &Agent, target: impl AgentDeliveryAdapter) -> Running {
    DeliveryRunner::new(agent.clone(), target)
        .start()
        .await
        .expect("it starts")
}

/// Waits until relay says something.
async fn until(says: impl Fn() -> bool, what: &str) {
    let waited = timeout(PATIENCE, async {
        while !says() {
            sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}

/// Takes what is in an agent's inbox, as the person does.
fn inbox(relay: &Relay, name: &str) -> Vec<String> {
    let asked = Request::post("/api/read", json!({"for": format!("web:{name}")}).to_string());
    let read = relay.connect().exchange(&asked).json();
    let messages = read["messages"].as_array().unwrap_or_else(|| panic!("{read}"));
    let body = |message: &Value| message["body"].as_str().expect("a text").to_owned();
    messages.iter().map(body).collect()
}
