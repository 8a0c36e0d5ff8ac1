//! A runner that is stopped while relay does not read.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::SystemTime;

use relay_sdk::{BoxedIo, Connect, Tcp};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::*;

/// Whether relay reads what comes over the node's connection, or over any, and whether something waits for that.
#[derive(Clone, Default)]
struct Throat {
    is_shut: Arc<AtomicBool>,
    is_shut_to_all: Arc<AtomicBool>,
    is_stuck: Arc<AtomicBool>,
}

impl Throat {
    fn shut(&self) {
        self.is_shut.store(true, Ordering::Relaxed);
    }

    fn shut_to_all(&self) {
        self.is_shut_to_all.store(true, Ordering::Relaxed);
    }

    fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }
}

/// Makes connections that take no more bytes once the throat is shut to them.
struct Choking(Throat);

impl Connect for Choking {
    fn connect<'a>(
        &'a self,
        authority: &'a str,
    ) -> Pin<Box<dyn Future<Output = io::Result<BoxedIo>> + Send + 'a>> {
        Box::pin(async move {
            let io = ChokingIo {
                io: Tcp.connect(authority).await?,
                is_node_s: None,
                throat: self.0.clone(),
            };
            Ok(Box::new(io) as BoxedIo)
        })
    }
}

struct ChokingIo {
    io: BoxedIo,
    /// Known from its first bytes on.
    is_node_s: Option<bool>,
    throat: Throat,
}

impl ChokingIo {
    fn takes_nothing(&self) -> bool {
        let is_node_s = self.is_node_s == Some(true);
        let takes_nothing = is_node_s && self.throat.is_shut.load(Ordering::Relaxed)
            || self.throat.is_shut_to_all.load(Ordering::Relaxed);
        if takes_nothing {
            self.throat.is_stuck.store(true, Ordering::Relaxed);
        }
        takes_nothing
    }
}

impl AsyncRead for ChokingIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, into)
    }
}

impl AsyncWrite for ChokingIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_node_s.is_none() {
            self.is_node_s = Some(bytes.starts_with(b"GET /v1/node/ws"));
        }
        if self.takes_nothing() {
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// How long a stop may take where relay does not read: three seconds for a receipt and one for the connection, and what a busy
/// machine adds.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// Comes to bob over a connection that can be shut.
async fn choking_bob(relay: &Relay, throat: &Throat) -> Agent {
    let address = format!("http://127.0.0.1:{}", relay.port);
    let choking = Client::with(&address, Choking(throat.clone()), SystemTime::now).expect("an address");
    let web = choking.workspace("web").await.expect("a workspace");
    web.agent("bob").await.expect("an agent")
}

#[tokio::test]
async fn a_runner_whose_acknowledgement_is_stuck_stops_at_once() {
    let relay = Relay::start();
    let (alice, throat) = (agent(&relay, "alice").await, Throat::default());
    let bob = choking_bob(&relay, &throat).await;
    let shuts = throat.clone();
    let target = target(&Seen::default(), move |_, _| {
        shuts.shut();
        Ok(MessageReceipt::delivered())
    });
    let running = run(&bob, target).await;
    alice.send("bob", "hello").await.expect("it is sent");
    until(|| throat.is_stuck(), "it is to be acknowledged").await;
    let stopped = timeout(STOP_PATIENCE, running.stop()).await;
    assert_eq!(stopped, Ok(()), "it does not wait for relay");
    assert_eq!(inbox(&relay, "bob"), Vec::<String>::new(), "it has its receipt");
}

/// On one thread, so that the end of the connection comes with the acknowledgement, and not after it.
#[tokio::test]
async fn a_runner_that_cannot_say_its_last_word_stops_at_once() {
    let relay = Relay::start();
    let (alice, throat) = (agent(&relay, "alice").await, Throat::default());
    let bob = choking_bob(&relay, &throat).await;
    let (seen, goes_on) = (Seen::default(), Arc::new(Notify::new()));
    let busy = {
        let (seen, goes_on) = (seen.clone(), Arc::clone(&goes_on));
        adapter("busy", move |message, context| {
            seen.keep(&message, &context);
            let goes_on = Arc::clone(&goes_on);
            async move {
                goes_on.notified().await;
                Ok(MessageReceipt::delivered())
            }
        })
    };
    let running = run(&bob, busy).await;
    alice.send("bob", "hello").await.expect("it is sent");
    seen.many(1).await;
    throat.shut();
    let stopping = timeout(STOP_PATIENCE, running.stop());
    let (stopped, ()) = tokio::join!(stopping, async { goes_on.notify_one() });
    assert_eq!(stopped, Ok(()), "it does not wait for relay");
    assert!(throat.is_stuck(), "it had a last word");
    assert_eq!(inbox(&relay, "bob"), Vec::<String>::new(), "it has its receipt");
}

#[tokio::test]
async fn a_runner_whose_receipt_is_stuck_stops_soon_and_the_message_comes_again() {
    let relay = Relay::start();
    let (alice, throat) = (agent(&relay, "alice").await, Throat::default());
    let bob = choking_bob(&relay, &throat).await;
    let (seen, shuts) = (Seen::default(), throat.clone());
    let target = target(&seen, move |_, _| {
        shuts.shut_to_all();
        Ok(MessageReceipt::delivered())
    });
    let told = Arc::new(Mutex::new(Vec::new()));
    let running = {
        let told = Arc::clone(&told);
        DeliveryRunner::new(bob, target)
            .on_error(move |message, error| {
                told.lock()
                    .expect("no panic")
                    .push(format!("{}: {error}", message.text));
            })
            .start()
            .await
            .expect("it starts")
    };
    alice.send("bob", "hello").await.expect("it is sent");
    until(|| throat.is_stuck(), "its receipt is to be given").await;
    let stopped = timeout(STOP_PATIENCE, running.stop()).await;
    assert_eq!(stopped, Ok(()), "it does not wait for relay");
    let port = relay.port;
    assert_eq!(
        *told.lock().expect("no panic"),
        [format!(
            "hello: relay at 127.0.0.1:{port} cannot be reached: timed out; start it with `relay serve`"
        )]
    );
    let again = Seen::default();
    let bob = agent(&relay, "bob").await;
    let running = run(&bob, self::target(&again, |_, _| Ok(MessageReceipt::delivered()))).await;
    assert_eq!(again.many(1).await, ["hello"]);
    running.stop().await;
}
