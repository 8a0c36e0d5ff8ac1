//! Agents with nodes of their own, and for each of them another agent that posts to it.

use serde_json::{Value, json};

use crate::incoming::Incoming;
use crate::text;

/// A workspace with agents in it.
pub struct Workspace {
    /// Its key.
    pub key: String,
    /// Those that get messages.
    pub agents: Vec<Agent>,
}

/// An agent that gets messages.
#[derive(Clone)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// The token of its own node.
    pub node_token: String,
    /// The id of that node.
    pub node_id: String,
    /// The name of that node.
    pub node_name: String,
    /// The token of the agent that posts to it.
    poster: String,
}

impl Workspace {
    /// Makes one with so many agents.
    pub async fn make(port: u16, agents: usize) -> Self {
        let mut connection = Incoming::connect(port).await;
        let made = ask(&mut connection, "/v1/workspaces", "", &json!({"name": "bench"})).await;
        let key = word(&made, "api_key");
        let mut workspace = Self {
            key,
            agents: Vec::new(),
        };
        for at in 0..agents {
            let [poster, token] = [format!("p{at}"), name(at)].map(|name| json!({"name": name}));
            let poster = ask(&mut connection, "/v1/agents", &workspace.key, &poster).await;
            let token = ask(&mut connection, "/v1/agents", &workspace.key, &token).await;
            let own = word(&token, "token");
            let node = ask(&mut connection, "/v1/agent/node-token", &own, &json!({})).await;
            workspace.agents.push(Agent {
                name: name(at),
                node_token: word(&node, "token"),
                node_id: word(&node, "node_id"),
                node_name: word(&node, "node_name"),
                poster: word(&poster, "token"),
            });
        }
        workspace
    }
}

fn name(at: usize) -> String {
    format!("w{at}")
}

/// Posts what is answered well, and returns the data of the answer.
pub async fn ask(connection: &mut Incoming, path: &str, token: &str, body: &Value) -> Value {
    let authorization = authorization(token);
    connection
        .post(path, &authorization, body.to_string().as_bytes())
        .await;
    let mut answer: Value = serde_json::from_slice(&connection.response().await).expect("JSON");
    answer["data"].take()
}

fn authorization(token: &str) -> String {
    match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    }
}

fn word(answer: &Value, member: &str) -> String {
    answer[member].as_str().expect("a text").to_owned()
}

/// Whoever posts to an agent, over a connection that is kept.
pub struct Poster {
    connection: Incoming,
    authorization: String,
    body: Vec<u8>,
}

impl Poster {
    /// Connects the one that posts to an agent.
    pub async fn connect(port: u16, agent: &Agent) -> Self {
        Self {
            connection: Incoming::connect(port).await,
            authorization: authorization(&agent.poster),
            body: json!({"to": agent.name, "text": text()}).to_string().into_bytes(),
        }
    }

    /// Posts.
    pub async fn send(&mut self) {
        self.connection
            .post("/v1/dm", &self.authorization, &self.body)
            .await;
    }

    /// Waits for the answer to a post.
    pub async fn answer(&mut self) {
        self.connection.response().await;
    }
}
