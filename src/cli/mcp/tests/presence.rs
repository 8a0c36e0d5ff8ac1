//! How often the relay is asked that is to know of an agent.

use tokio::time::{Instant, sleep};

use super::super::presence::stay;
use super::*;
use crate::engine::AgentName;

/// A relay that answers whatever it is asked, and notes over which connection that was, and after how many seconds. While it is
/// away, it notes each attempt as one over no connection.
#[derive(Clone)]
struct Asked {
    relay: FakeRelay,
    refuses: Arc<AtomicBool>,
    since: Instant,
    facts: Arc<Mutex<Vec<(usize, u64)>>>,
}

impl Asked {
    fn new() -> Self {
        Self {
            relay: FakeRelay::default(),
            refuses: Arc::default(),
            since: Instant::now(),
            facts: Arc::default(),
        }
    }

    fn note(&self, connection: usize) {
        let mut facts = self.facts.lock().expect("no test panics there");
        facts.push((connection, self.since.elapsed().as_secs()));
        // Time stands still for whoever asks without a rest.
        assert!(facts.len() < 200, "it is asked without end");
    }

    fn facts(&self) -> Vec<(usize, u64)> {
        self.facts.lock().map(|facts| facts.clone()).unwrap_or_default()
    }

    /// Has an agent stay that is registered.
    fn begin(&self) -> JoinHandle<()> {
        let settings = Settings {
            identity: Some(Identity::named(AgentName::new("Alice").expect("a name"))),
            toolsets: "agent-relay".parse().expect("toolsets"),
            ..settings("127.0.0.1:7331")
        };
        let relay = Arc::new(Relay::new(settings, self.clone()));
        relay.introduce("a program");
        tokio::spawn(stay(relay))
    }
}

impl Connect for Asked {
    type Connection = Wire;

    async fn connect(&self) -> io::Result<Wire> {
        if self.relay.away.load(Ordering::Relaxed) {
            self.note(0);
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let number = {
            let mut count = self.relay.count.lock().expect("no test panics there");
            *count += 1;
            *count
        };
        let (stream, theirs) = duplex(ROOM);
        let asked = self.clone();
        tokio::spawn(async move {
            let service = service_fn(|_| {
                asked.note(number);
                let answer = json!({"jsonrpc": "2.0", "id": "presence", "result": {}});
                let mut response = Response::new(answer.to_string());
                if asked.refuses.load(Ordering::Relaxed) {
                    *response.status_mut() = hyper::StatusCode::UNAUTHORIZED;
                }
                async move { Ok::<_, Infallible>(response) }
            });
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(theirs), service).await;
        });
        Ok(Wire {
            stream,
            number,
            relay: self.relay.clone(),
            breaks_off: AtomicBool::new(true),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_is_asked_each_minute_over_one_connection_and_over_another_once_that_is_closed() {
    let relay = Asked::new();
    let staying = relay.begin();
    sleep(Duration::from_secs(122)).await;
    let mut expected = vec![(1, 0), (1, 60), (1, 120)];
    assert_eq!(relay.facts(), expected);
    relay.relay.closes.send_replace(true);
    sleep(Duration::from_millis(100)).await;
    relay.relay.closes.send_replace(false);
    sleep(Duration::from_secs(1)).await;
    expected.push((2, 122));
    assert_eq!(relay.facts(), expected);
    sleep(Duration::from_secs(60)).await;
    expected.push((2, 182));
    assert_eq!(relay.facts(), expected);
    staying.abort();
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_is_not_there_is_looked_for_five_times_a_second_and_after_ten_seconds_once() {
    let relay = Asked::new();
    relay.relay.away.store(true, Ordering::Relaxed);
    let staying = relay.begin();
    sleep(Duration::from_secs(12)).await;
    let mut expected: Vec<(usize, u64)> = (0..50).map(|attempt| (0, attempt / 5)).collect();
    expected.extend([(0, 10), (0, 11)]);
    assert_eq!(relay.facts(), expected);
    relay.relay.away.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(4)).await;
    expected.push((1, 12));
    assert_eq!(relay.facts(), expected);
    staying.abort();
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_closes_each_connection_is_asked_less_and_less_often() {
    let relay = Asked::new();
    relay.relay.closes.send_replace(true);
    let staying = relay.begin();
    sleep(Duration::from_secs(60)).await;
    let seconds: Vec<u64> = relay.facts().into_iter().map(|(_, second)| second).collect();
    let in_the_last_ten = seconds.iter().filter(|second| **second >= 50).count();
    assert!((95..=105).contains(&seconds.len()), "{seconds:?}");
    assert!((9..=11).contains(&in_the_last_ten), "{seconds:?}");
    staying.abort();
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_refuses_is_asked_again_every_five_seconds_until_it_lets_the_agent_in() {
    let relay = Asked::new();
    relay.refuses.store(true, Ordering::Relaxed);
    let staying = relay.begin();
    sleep(Duration::from_secs(12)).await;
    relay.refuses.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(70)).await;
    let seconds: Vec<u64> = relay.facts().into_iter().map(|(_, second)| second).collect();
    assert_eq!(seconds, [0, 5, 10, 15, 75]);
    staying.abort();
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_was_there_again_is_looked_for_as_soon_as_the_first_time() {
    let relay = Asked::new();
    relay.relay.away.store(true, Ordering::Relaxed);
    let staying = relay.begin();
    sleep(Duration::from_secs(12)).await;
    relay.relay.away.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(8)).await;
    relay.relay.away.store(true, Ordering::Relaxed);
    relay.relay.closes.send_replace(true);
    sleep(Duration::from_secs(2)).await;
    let facts = relay.facts();
    let looked = facts
        .iter()
        .filter(|(connection, second)| *connection == 0 && *second >= 20);
    assert!(looked.count() >= 8, "{facts:?}");
    staying.abort();
}
