//! The connection of a node: its WebSocket.

use std::net::TcpStream;
use std::time::Duration;

use tungstenite::{Error, Message, WebSocket};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// How long nothing is waited for.
const SILENCE: Duration = Duration::from_millis(300);

/// The connection of a node.
pub struct Node {
    pub socket: WebSocket<TcpStream>,
    id: String,
    pub name: String,
}

impl Node {
    /// Connects by a token and registers.
    pub fn connect(world: &World, made: &Value) -> Self {
        let mut node = Self::open(world, made);
        let answer = node.register(&json!({}));
        assert_eq!(answer["ok"], true, "{answer}");
        node
    }

    /// Connects by a token.
    pub fn open(world: &World, made: &Value) -> Self {
        let text = |names: [&str; 2]| {
            let text = names.iter().find_map(|name| made[*name].as_str());
            text.expect("a text").to_owned()
        };
        let token = text(["token", "token"]);
        Self {
            socket: upgrade(world, &token).expect("it is let in"),
            id: text(["node_id", "id"]),
            name: text(["node_name", "name"]),
        }
    }

    pub fn register(&mut self, more: &Value) -> Value {
        let mut frame = json!({
            "v": 1, "id": "r", "type": "node.register", "node_id": self.id, "name": self.name, "capabilities": [],
            "max_agents": 0, "tags": [], "version": "1",
        });
        for (field, value) in more.as_object().expect("an object") {
            frame[field] = value.clone();
        }
        self.ask(&frame)
    }

    pub fn say(&mut self, frame: &Value) {
        self.socket
            .send(Message::text(frame.to_string()))
            .expect("it is taken");
    }

    /// Says something, and returns what is answered next.
    pub fn ask(&mut self, frame: &Value) -> Value {
        self.say(frame);
        self.hear()
    }

    pub fn acknowledge(&mut self, agent: &str, up_to: u64) {
        self.say(&json!({"v": 1, "type": "delivery.ack", "agent": agent, "up_to_seq": up_to}));
    }

    /// Returns the next frame.
    #[track_caller]
    pub fn hear(&mut self) -> Value {
        loop {
            match self.socket.read().expect("a frame comes") {
                Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                Message::Ping(_) | Message::Pong(_) => {}
                other @ (Message::Binary(_) | Message::Close(_) | Message::Frame(_)) => panic!("{other:?}"),
            }
        }
    }

    /// Returns the number and the text of the next delivery, and whether it comes again.
    #[track_caller]
    pub fn delivery(&mut self) -> (u64, String, bool) {
        let mut frame = self.hear();
        if frame["type"] == "context.update" {
            assert_eq!(frame["event"], "delivery.accepted");
            frame = self.hear();
        }
        assert_eq!(frame["type"], "deliver", "{frame}");
        let text = frame["payload"]["data"]["text"]
            .as_str()
            .expect("a text")
            .to_owned();
        let again = added(&frame["payload"]["data"])["redelivered"] == true;
        (frame["seq"].as_u64().expect("a number"), text, again)
    }

    #[track_caller]
    pub fn hears_nothing(&mut self) {
        self.socket
            .get_ref()
            .set_read_timeout(Some(SILENCE))
            .expect("a timeout");
        let heard = self.socket.read();
        assert!(matches!(heard, Err(Error::Io(_))), "{heard:?}");
        self.socket
            .get_ref()
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout");
    }

    /// Counts the deliveries that still come.
    pub fn deliveries_until_silence(&mut self) -> usize {
        let wait_for = |node: &Self, patience| {
            let stream = node.socket.get_ref();
            stream.set_read_timeout(Some(patience)).expect("a timeout");
        };
        wait_for(self, SILENCE);
        let mut deliveries = 0;
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => deliveries += usize::from(text.contains("\"type\":\"deliver\"")),
                Ok(_) => {}
                Err(Error::Io(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        wait_for(self, PATIENCE);
        deliveries
    }

    /// Tells why the relay has ended it.
    pub fn ended(&mut self) -> String {
        loop {
            match self.socket.read() {
                Ok(Message::Close(Some(close))) => return close.reason.to_string(),
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Returns what relay adds to the metadata of what is delivered, in a frame or to a web hook; null if nothing.
pub fn added(data: &Value) -> &Value {
    let of_direct = &data["message"]["metadata"];
    let metadata = if of_direct.is_null() {
        &data["metadata"]
    } else {
        of_direct
    };
    &metadata["relay"]
}

/// Asks for a WebSocket; an answer of another kind is given with its status.
pub fn upgrade(world: &World, token: &str) -> Result<WebSocket<TcpStream>, (u16, String)> {
    upgrade_at(world, &format!("/v1/node/ws?token={token}&origin_client=test"))
}

/// The same at any address.
pub fn upgrade_at(world: &World, path: &str) -> Result<WebSocket<TcpStream>, (u16, String)> {
    let port = world.relay.port;
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("relay is there");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let url = format!("ws://127.0.0.1:{port}{path}");
    match tungstenite::client(url, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(Error::Http(response))) => {
            let body = response.body().clone().unwrap_or_default();
            Err((response.status().as_u16(), String::from_utf8(body).expect("text")))
        }
        Err(error) => panic!("{error}"),
    }
}
