//! Web hooks: programs that relay pushes to, over connections that it opens itself; what they answer stands in the message's text.
//! They have no node of their own: what is not taken comes again.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relay::server::{Network, Socket};
use relay_sdk::{Client, Workspace};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::sleep;
use turmoil::net::{TcpListener, TcpStream};

use super::history::{Log, Shown, is_redelivered};
use super::plan::{Fate, fate_of, node_name, number_of};
use crate::client::now_ms;
use crate::marks::Marks;
use crate::world::box_name;

/// The port of the first one.
const PORT: u16 = 9_000;

/// What relay and all of them know, as Standard Webhooks have it.
const SECRET: &str = "whsec_c2ltdWxhdGlvbiBzZWNyZXQ=";

/// How often one says where it is: a restart of relay forgets it.
const SAYS_EVERY: Duration = Duration::from_secs(60);

/// How long it waits before it asks again for what it cannot do without.
const ASK_AGAIN: Duration = Duration::from_millis(700);

/// Longer than relay waits for an answer.
const TOO_LONG: Duration = Duration::from_secs(12);

/// Connections of the server's to other machines.
pub struct SimNetwork;

impl Network for SimNetwork {
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>> {
        Box::pin(async move { Ok(vec![SocketAddr::new(turmoil::lookup(host), port)]) })
    }

    fn connect(
        &self,
        address: SocketAddr,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn Socket>>> + Send + '_>> {
        Box::pin(async move { Ok(Box::new(TcpStream::connect(address).await?) as Box<dyn Socket>) })
    }
}

/// How often each delivery came.
type Came = Arc<Mutex<BTreeMap<String, u32>>>;

/// A web hook.
#[derive(Clone)]
pub struct Hook {
    /// Which agent's, behind those that have nodes.
    pub agent: usize,
    /// On which machine.
    pub on: usize,
    /// Which start of a program it is.
    pub process: u64,
    /// Where it is written down what it got.
    pub log: Log,
    /// Where it is counted what happened.
    pub marks: Marks,
}

impl Hook {
    fn port(&self) -> u16 {
        PORT + u16::try_from(self.agent).expect("a few")
    }

    /// Has relay push here, again and again.
    pub async fn says(self, client: Client) {
        let url = format!("http://{}:{}/hook", box_name(self.on), self.port());
        let name = node_name(self.agent);
        loop {
            let said = async {
                let workspace: Workspace = client.workspace("default").await?;
                workspace.agent(&name).await?;
                workspace.web_hook(&name, &url, SECRET).await
            };
            let pause = match said.await {
                Ok(()) => SAYS_EVERY,
                Err(_) => ASK_AGAIN,
            };
            sleep(pause).await;
        }
    }

    /// Takes what is pushed.
    pub async fn takes(self) {
        let listener = TcpListener::bind(("0.0.0.0", self.port())).await.expect("a port");
        let came = Came::default();
        loop {
            if let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(self.clone().take(socket, came.clone()));
            }
        }
    }

    /// Takes what comes over one connection, if it is not cut off.
    async fn take(self, mut socket: TcpStream, came: Came) {
        let Some(pushed) = read(&mut socket).await else {
            return;
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let delivery = text(&pushed["delivery_id"]);
        if delivery.is_empty() {
            // News, of which nothing is to be known here.
            let _gone = socket.write_all(&answer(204)).await;
            return;
        }
        let before = {
            let mut came = came.lock().expect("a run has one thread");
            let times = came.entry(delivery.clone()).or_default();
            *times += 1;
            *times - 1
        };
        let shown = Shown {
            node: self.agent,
            process: self.process,
            text: text(&pushed["data"]["text"]),
            delivery,
            redelivered: is_redelivered(&pushed["data"]),
            attempts: before,
            at_ms: now_ms(),
        };
        let (fate, busy_ms) = fate_of(&shown.text);
        self.log.trace(now_ms(), format_args!("pushed {shown:?}"));
        sleep(Duration::from_millis(busy_ms)).await;
        // Relay waits for ten seconds, and what is behind it waits, too.
        let is_rare = number_of(&shown.text).is_multiple_of(8);
        let pause = match fate {
            // More often would take longer than a run has, with the pauses between.
            Fate::Error(times) if before < times.min(2) => {
                self.marks.hit("web hook answered 500");
                let _gone = socket.write_all(&answer(500)).await;
                return;
            }
            // The connection ends without an answer.
            Fate::Failed if before == 0 => {
                self.marks.hit("web hook answered nothing");
                return;
            }
            Fate::Accepted if before == 0 && is_rare => {
                self.marks.hit("web hook hung");
                TOO_LONG
            }
            Fate::Deferred(ms) if before == 0 => {
                self.marks.hit("web hook answered late");
                Duration::from_millis(if is_rare { ms } else { ms / 20 })
            }
            Fate::Delivered | Fate::Accepted | Fate::Failed | Fate::Deferred(_) | Fate::Error(_) => {
                Duration::ZERO
            }
        };
        self.log.history().shown.push(shown);
        sleep(pause).await;
        let answered = socket.write_all(&answer(204)).await;
        self.log.trace(now_ms(), format_args!("answered {answered:?}"));
        // Whoever reads it ends the connection.
        let _end = socket.read(&mut [0]).await;
    }
}

fn answer(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

/// Reads a request; nothing if it is cut off.
async fn read(socket: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length?.trim().parse().ok()?;
    while bytes.len() < head + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    serde_json::from_slice(&bytes[head..]).ok()
}
