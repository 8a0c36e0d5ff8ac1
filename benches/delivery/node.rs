//! A node that costs as little as it can, so that the server is what is measured.

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::workspace::Agent;

/// Deliveries that have come together.
#[derive(Clone, Copy)]
pub struct Taken {
    /// How many they are.
    pub count: usize,
    /// The number of the last one.
    last: u64,
}

/// The connection of an agent's own node.
pub struct Node {
    socket: WebSocketStream<TcpStream>,
    agent: String,
}

impl Node {
    /// Connects and registers.
    pub async fn connect(port: u16, agent: &Agent) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port))
            .await
            .expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        let url = format!("ws://127.0.0.1:{port}/v1/node/ws?token={}", agent.node_token);
        let (socket, _) = tokio_tungstenite::client_async(url, stream)
            .await
            .expect("it is let in");
        let mut node = Self {
            socket,
            agent: agent.name.clone(),
        };
        let register = json!({
            "v": 1, "id": "r", "type": "node.register", "node_id": agent.node_id, "name": agent.node_name,
            "capabilities": [], "max_agents": 0, "tags": [], "version": "1",
        });
        node.say(register.to_string()).await;
        let Message::Text(answer) = node.hear().await else {
            panic!("a frame is text")
        };
        assert!(answer.contains("\"ok\":true"), "{answer}");
        node
    }

    async fn say(&mut self, text: String) {
        self.socket
            .send(Message::text(text))
            .await
            .expect("the connection holds");
    }

    async fn hear(&mut self) -> Message {
        heard(self.socket.next().await)
    }

    /// Waits for a delivery, and takes all that have come with it.
    pub async fn take(&mut self) -> Taken {
        let mut taken = Taken { count: 0, last: 0 };
        loop {
            let message = match taken.count {
                0 => self.hear().await,
                _ => match self.socket.next().now_or_never() {
                    Some(message) => heard(message),
                    None => return taken,
                },
            };
            if let Some(seq) = delivered(&message) {
                taken.last = seq;
                taken.count += 1;
            }
        }
    }

    /// Acknowledges all that was taken.
    pub async fn acknowledge(&mut self, Taken { last, .. }: Taken) {
        let agent = &self.agent;
        self.say(format!(
            r#"{{"v":1,"type":"delivery.ack","agent":"{agent}","up_to_seq":{last}}}"#
        ))
        .await;
    }
}

type Heard = Option<Result<Message, tokio_tungstenite::tungstenite::Error>>;

fn heard(message: Heard) -> Message {
    message
        .expect("the server keeps the connection")
        .expect("the connection holds")
}

/// Returns the number of a delivery; none if it is something else.
fn delivered(message: &Message) -> Option<u64> {
    let Message::Text(text) = message else {
        return None;
    };
    let text = text.as_bytes();
    memchr::memmem::find(text, br#""type":"deliver""#)?;
    let name = br#""seq":"#;
    let at = memchr::memmem::find(text, name).expect("a delivery has a number");
    let digits = text[at + name.len()..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| 10 * number + u64::from(digit - b'0')))
}
