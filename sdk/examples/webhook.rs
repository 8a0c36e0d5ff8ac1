//! A web hook: relay pushes what comes for `hook` here, signed, and each delivery is printed once.
//!
//! `relay serve` in one terminal, `cargo run -p relay-sdk --example webhook` in another, and then
//! `relay send hook hello`. `relay trace ID` says that it has arrived.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use relay_sdk::Client;
use sha2::Sha256;
use tokio::net::TcpListener;

/// What both know. Yours is drawn by chance, and in no source.
const SECRET: &[u8] = b"an example of 24 bytes..";

/// How old what is pushed may be, in seconds: who has recorded it cannot send it again for ever.
const AGE_MAX: i64 = 300;

const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1);
    let url = url.unwrap_or_else(|| "http://127.0.0.1:7331".to_owned());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let workspace = Client::new(&url)?.workspace("default").await?;
    workspace.agent("hook").await?;
    let own = format!("http://{}/relay", listener.local_addr()?);
    workspace
        .web_hook("hook", &own, &format!("whsec_{}", STANDARD.encode(SECRET)))
        .await?;
    println!("listening on {own}");
    let had = Arc::new(Mutex::new(BTreeSet::new()));
    loop {
        let (socket, _) = listener.accept().await?;
        let had = Arc::clone(&had);
        let service = service_fn(move |request| take(request, Arc::clone(&had)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
    }
}

/// Takes what is pushed. Whatever is not answered with 2xx comes again.
async fn take(
    request: Request<Incoming>,
    had: Arc<Mutex<BTreeSet<String>>>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let [id, timestamp, signature] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(header);
    let status = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => {
            let body = body.to_bytes();
            if is_relay_s(id, timestamp, signature, &body) {
                // The same may come twice: an answer was lost.
                if had.lock().expect("no panic").insert(id.to_owned()) {
                    println!("{}", String::from_utf8_lossy(&body));
                }
                StatusCode::NO_CONTENT
            } else {
                StatusCode::UNAUTHORIZED
            }
        }
        Err(_) => StatusCode::PAYLOAD_TOO_LARGE,
    };
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    Ok(response)
}

/// Tells whether relay has signed it, a moment ago.
fn is_relay_s(id: &str, timestamp: &str, signature: &str, body: &[u8]) -> bool {
    #[expect(clippy::disallowed_methods, reason = "relay signs the time")]
    let Ok(since) = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) else {
        return false;
    };
    let now = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let is_recent = timestamp
        .parse::<i64>()
        .is_ok_and(|at| now.abs_diff(at) <= AGE_MAX.unsigned_abs());
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).expect("any key will do");
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    let mut given = signature.split(' ').filter_map(|one| one.strip_prefix("v1,"));
    is_recent
        && given.any(|one| {
            STANDARD
                .decode(one)
                .is_ok_and(|bytes| mac.clone().verify_slice(&bytes).is_ok())
        })
}
