//! One `POST` to a target: over a connection of its own, without redirects and proxies, within [`PUSH_PATIENCE`].

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::auth::Signed;
use super::network::{Network, Socket};
use super::target::{AckMode, Target};
use crate::server::limits::{PUSH_ANSWER_BYTES_MAX, PUSH_PATIENCE};
use crate::server::nodes::PushBody;

/// What a target says in the mode `response`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    ack: bool,
    delivery_status: Option<String>,
}

/// Posts, and waits for an answer that says that it was taken.
///
/// # Errors
///
/// Why it was not, or that nobody knows: in words that have no secret in them.
pub(super) async fn post(network: &dyn Network, target: &Target, body: PushBody) -> Result<(), String> {
    match tokio::time::timeout(PUSH_PATIENCE, exchange(network, target, body)).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {} s", PUSH_PATIENCE.as_secs())),
    }
}

async fn exchange(network: &dyn Network, target: &Target, body: PushBody) -> Result<(), String> {
    let socket = connect(network, target).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket))
        .await
        .map_err(|error| format!("no HTTP: {error}"))?;
    let request = request(target, body)?;
    let answer = async {
        let response = sender.send_request(request).await;
        judge(target, response.map_err(|error| format!("no answer: {error}"))?).await
    };
    tokio::pin!(answer);
    // It is dropped with the answer. What it ends with, before that, the answer says.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        _ended = connection => answer.await,
    }
}

async fn connect(network: &dyn Network, target: &Target) -> Result<Box<dyn Socket>, String> {
    let (host, port) = (&target.host, target.port);
    let found = network.resolve(host, port).await;
    let found = found.map_err(|error| format!("{host} is not found: {error}"))?;
    // A name may lead anywhere, and to another place each time.
    let good = |address: &SocketAddr| target.may_be_elsewhere || address.ip().is_loopback();
    let mut last = format!("{host} is not on this machine");
    for address in found.into_iter().filter(good) {
        match network.connect(address).await {
            Ok(socket) if target.uri.scheme_str() == Some("https") => return encrypted(socket, host).await,
            Ok(socket) => return Ok(socket),
            Err(error) => last = format!("{address}: {error}"),
        }
    }
    Err(last)
}

async fn encrypted(socket: Box<dyn Socket>, host: &str) -> Result<Box<dyn Socket>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
    let connector = TlsConnector::from(tls());
    let socket = connector.connect(name, socket).await;
    Ok(Box::new(
        socket.map_err(|error| format!("no TLS with {host}: {error}"))?,
    ))
}

/// Returns how connections are encrypted, with the certificates that the system trusts: read when the first one is made.
fn tls() -> Arc<ClientConfig> {
    static TLS: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let made = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder().with_root_certificates(roots);
        Arc::new(config.with_no_client_auth())
    };
    Arc::clone(TLS.get_or_init(made))
}

fn request(target: &Target, body: PushBody) -> Result<Request<Full<Bytes>>, String> {
    let PushBody {
        event,
        delivery,
        id,
        timestamp,
        seconds,
        json,
    } = body;
    let body = Bytes::from(json);
    let path = target.uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = target.uri.authority().map_or("", |authority| authority.as_str());
    let text = |text: &str| HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
    let mut request = Request::new(Full::new(body.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert(
        header::USER_AGENT,
        HeaderValue::from_static(concat!("relay/", env!("CARGO_PKG_VERSION"))),
    );
    let signed = Signed {
        id: &id,
        timestamp: &timestamp,
        seconds,
        body: &body,
    };
    target.auth.sign(&signed, headers)?;
    headers.insert(header::HOST, text(authority));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("x-relaycast-event", text(&event));
    if let Some(delivery) = delivery {
        headers.insert("x-relaycast-delivery", text(&delivery));
    }
    Ok(request)
}

/// Tells whether an answer says that it was taken.
async fn judge(target: &Target, response: hyper::Response<Incoming>) -> Result<(), String> {
    let status = response.status();
    if status.is_redirection() {
        return Err(format!("{}: relay follows no redirects", shown(status)));
    }
    if !status.is_success() {
        return Err(shown(status));
    }
    if target.ack != AckMode::Response {
        return Ok(());
    }
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind
            .to_str()
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("application/json")
    });
    if !is_json {
        return Err(format!("{} without JSON that says so", shown(status)));
    }
    let body = Limited::new(response.into_body(), PUSH_ANSWER_BYTES_MAX)
        .collect()
        .await;
    let body = body
        .map_err(|error| format!("{}, but {error}", shown(status)))?
        .to_bytes();
    let said: Said = serde_json::from_slice(&body).unwrap_or_default();
    if said.ack || said.delivery_status.as_deref() == Some("acked") {
        return Ok(());
    }
    Err(format!("{} with JSON that does not say so", shown(status)))
}

fn shown(status: StatusCode) -> String {
    format!("HTTP {}", status.as_u16())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    /// A network in which every name leads to another machine and to this one, and nobody listens.
    #[derive(Default)]
    struct Leads {
        asked: Mutex<Vec<SocketAddr>>,
    }

    const ADDRESSES: [&str; 3] = ["10.0.0.1:80", "[::ffff:10.0.0.1]:80", "127.0.0.1:80"];

    fn addresses(of: &[&str]) -> Vec<SocketAddr> {
        of.iter()
            .map(|address| address.parse().expect("an address"))
            .collect()
    }

    type Later<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

    impl Network for Leads {
        fn resolve<'a>(&'a self, _host: &'a str, _port: u16) -> Later<'a, Vec<SocketAddr>> {
            Box::pin(async { Ok(addresses(&ADDRESSES)) })
        }

        fn connect(&self, address: SocketAddr) -> Later<'_, Box<dyn Socket>> {
            self.asked.lock().expect("no panic").push(address);
            Box::pin(async { Err(io::Error::other("nobody listens")) })
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_leads_to_no_other_whatever_its_addresses() {
        for (host, reached) in [("a.localhost", &ADDRESSES[2..]), ("hooks.example", &ADDRESSES)] {
            let allowed = ["hooks.example".to_owned()];
            let target = json!({"url": format!("http://{host}/")});
            let target = Target::read(target, &allowed).expect("a target");
            let network = Leads::default();
            let told = connect(&network, &target).await.err();
            assert_eq!(told.as_deref(), Some("127.0.0.1:80: nobody listens"));
            assert_eq!(
                *network.asked.lock().expect("no panic"),
                addresses(reached),
                "{host}"
            );
        }
    }
}
