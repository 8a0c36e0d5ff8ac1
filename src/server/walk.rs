//! A walk over all routes, which are taken from the router itself, so that none is forgotten: whoever is not let in is answered by the
//! guard, and nothing comes of what was asked.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::connections::{self, Listener};
use super::dispatch::Dispatch;
use super::guard::Guard;
use super::recorder::{Told, recorded, shared};
use super::v1::paths_that_want_a_token;
use super::{rmcp_service, router};

const TOKEN: &str = "0123456789abcdef";

const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW",
];

/// A relay in memory.
struct Relay {
    connections: UnboundedSender<DuplexStream>,
    told: Told,
    /// As they are written in the router: `/v1/agents/{name}`.
    paths: Vec<String>,
}

struct Accepted(UnboundedReceiver<DuplexStream>);

impl Listener for Accepted {
    type Io = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        match self.0.recv().await {
            Some(io) => Ok(io),
            None => std::future::pending().await,
        }
    }
}

/// What a relay answers.
#[derive(Debug)]
struct Answer {
    status: u16,
    text: String,
}

impl Relay {
    fn start(token: Option<&str>) -> Self {
        let (owner, told) = recorded();
        let token = token.map(|token| token.parse().expect("it is long enough"));
        let guard = Guard { port: 7331, token };
        let shared = Arc::new(shared(Arc::clone(&owner), guard));
        let paths = paths_of(&router(Arc::clone(&shared)));
        let rmcp = rmcp_service(&shared, None);
        let dispatch = Arc::new(Dispatch::new(shared, rmcp));
        let answer = move |link, request| Arc::clone(&dispatch).answer(link, request);
        let (connections, accepted) = unbounded_channel();
        tokio::spawn(connections::serve(
            Accepted(accepted),
            answer,
            owner,
            CancellationToken::new(),
        ));
        told.take();
        Self {
            connections,
            told,
            paths,
        }
    }

    /// Asks over a connection of its own; `headers` are lines.
    async fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        self.ask_with("{}", method, path, headers).await
    }

    async fn ask_with(&self, body: &str, method: &str, path: &str, headers: &str) -> Answer {
        let (mut client, io) = tokio::io::duplex(64 * 1024);
        assert!(self.connections.send(io).is_ok(), "the relay has ended");
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        client.write_all(request.as_bytes()).await.expect("it is taken");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.expect("it ends in order");
        let text = String::from_utf8(answer).expect("it is text");
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answer {
            status: status.unwrap_or_else(|| panic!("no answer to {request}: {text}")),
            text,
        }
    }

    /// Asks for all that there is, by all methods, and returns what was answered by another status; and that something was told to the
    /// engine.
    async fn others(&self, headers: &str, methods: &[&str], expected: u16) -> Vec<String> {
        let mut others = Vec::new();
        for path in self
            .paths
            .iter()
            .map(|path| filled(path))
            .chain(["/nowhere".to_owned()])
        {
            for method in methods {
                let answer = self.ask(method, &path, headers).await;
                let told = self.told.take();
                let is_nowhere = path == "/nowhere" && expected == 405 && answer.status == 404;
                if answer.status != expected && !is_nowhere || !told.is_empty() {
                    others.push(format!("{method} {path}: {answer:?}, and told {told:?}"));
                }
            }
        }
        others
    }
}

/// Takes the paths of a router, which shows them to nobody but who debugs it.
fn paths_of(router: &axum::Router) -> Vec<String> {
    let shown = format!("{router:?}");
    // Behind that stand those of its fallback, which is no route.
    let shown = shown.split("fallback_router: ").next().unwrap_or_default();
    let mut paths: Vec<String> = shown
        .split("RouteId(")
        .filter_map(|behind| {
            let (_, path) = behind.split_once("): \"/")?;
            let (number, _) = behind.split_once(')')?;
            number.parse::<u32>().ok()?;
            Some(format!("/{}", path.split_once('"')?.0))
        })
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Gives a path's parameters values.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        part if part.starts_with("{*") => "a/b",
        part if part.starts_with('{') => "a",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

fn none(others: &[String]) {
    assert!(others.is_empty(), "{}:\n{}", others.len(), others.join("\n"));
}

#[tokio::test]
async fn the_paths_are_those_of_the_router() {
    let relay = Relay::start(None);
    for path in [
        "/sse",
        "/message",
        "/mcp",
        "/health",
        "/api/read",
        "/hooks/{program}/wait",
        "/v1/ws",
        "/api/tail",
    ] {
        assert!(
            relay.paths.iter().any(|known| known == path),
            "{path}: {:?}",
            relay.paths
        );
    }
    let with_another = router_with_another();
    assert!(paths_of(&with_another).contains(&"/another/{name}".to_owned()));
}

/// A router, and a route that was put behind its layer.
fn router_with_another() -> axum::Router {
    let (owner, _) = recorded();
    let guard = Guard {
        port: 7331,
        token: None,
    };
    router(Arc::new(shared(owner, guard))).route("/another/{name}", axum::routing::get(async || "x"))
}

#[tokio::test]
async fn without_a_token_and_with_a_wrong_one_nothing_is_answered_but_that() {
    let relay = Relay::start(Some(TOKEN));
    for headers in [
        "Host: localhost\r\n",
        "Host: localhost\r\nAuthorization: Bearer 0123456789abcdeF\r\n",
        "Host: localhost\r\nAuthorization: Basic 0123456789abcdef\r\n",
        "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\nAuthorization: Bearer 0123456789abcdeF\r\n",
        "",
    ] {
        none(&relay.others(headers, &METHODS, 401).await);
    }
}

#[tokio::test]
async fn from_a_strange_host_or_a_strange_page_nothing_is_answered_but_that() {
    let relay = Relay::start(None);
    for headers in [
        "Host: evil.example\r\n",
        "Host: localhost.evil.example:7331\r\n",
        "",
        "Host: localhost\r\nOrigin: http://evil.example\r\n",
        "Host: localhost\r\nOrigin: null\r\n",
    ] {
        none(&relay.others(headers, &METHODS, 403).await);
    }
    let relay = Relay::start(Some(TOKEN));
    let headers =
        format!("Host: box.lan\r\nAuthorization: Bearer {TOKEN}\r\nOrigin: http://evil.example\r\n");
    none(&relay.others(&headers, &METHODS, 403).await);
}

#[tokio::test]
async fn a_strange_method_is_refused_with_those_that_there_are() {
    let relay = Relay::start(None);
    none(&relay.others("Host: localhost\r\n", &["BREW"], 405).await);
    for path in &relay.paths {
        let answer = relay.ask("BREW", &filled(path), "Host: localhost\r\n").await;
        let allow = answer.text.lines().find_map(|line| line.strip_prefix("allow: "));
        assert!(allow.is_some_and(|allow| !allow.is_empty()), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn what_wants_a_token_of_the_api_is_refused_without_one_and_with_a_wrong_one() {
    let relay = Relay::start(None);
    for token in ["", "Authorization: Bearer at_live_0123456789abcdef\r\n"] {
        let mut others = Vec::new();
        for (method, path) in paths_that_want_a_token() {
            let headers = format!("Host: localhost\r\n{token}");
            for body in ["{}", "no json"] {
                let answer = relay.ask_with(body, method, &filled(path), &headers).await;
                if answer.status != 401 {
                    others.push(format!("{method} {path} with {body}: {answer:?}"));
                }
            }
        }
        none(&others);
    }
}
