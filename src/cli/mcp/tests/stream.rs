//! A stream of the relay's in which it tells of changes.

use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, sleep};

use super::*;

/// How long a relay may say nothing.
const SILENCE_MAX: Duration = Duration::from_secs(60);

const INBOX: &str = "relay://inbox";

/// A relay that answers each request with a stream, in which it says something, and then nothing more.
struct Teller(Vec<(Duration, String)>);

impl Teller {
    /// Tells of these pieces one after the other.
    fn of(pieces: &[&str]) -> Self {
        Self::slow(Duration::from_millis(1), pieces)
    }

    /// The same, with a pause before each.
    fn slow(pause: Duration, pieces: &[&str]) -> Self {
        let pieces = [ACCEPTED].iter().chain(pieces);
        Self(pieces.map(|piece| (pause, (*piece).to_owned())).collect())
    }

    /// Asks it to be told of the changes of an inbox.
    async fn listened(self) -> Result<super::updates::Updates, AskError> {
        let relay = Relay::new(settings("127.0.0.1:7331"), self);
        relay.listen(&[INBOX.to_owned()]).await
    }
}

/// Says that the changes of the inbox are told of.
const ACCEPTED: &str =
    "data: {\"params\":{\"notifications\":{\"resourceSubscriptions\":[\"relay://inbox\"]}}}\n\n";

impl Connect for Teller {
    type Connection = Wire;

    async fn connect(&self) -> io::Result<Wire> {
        let (stream, mut theirs) = duplex(ROOM);
        let pieces = self.0.clone();
        tokio::spawn(async move {
            let asked = theirs.read(&mut [0; 4096]).await.expect("it is there");
            assert_ne!(asked, 0, "no request");
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            theirs.write_all(head.as_bytes()).await.expect("it is taken");
            for (pause, piece) in pieces {
                sleep(pause).await;
                let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
                if theirs.write_all(chunk.as_bytes()).await.is_err() {
                    return;
                }
            }
            std::future::pending::<()>().await;
        });
        Ok(Wire {
            stream,
            number: 1,
            relay: FakeRelay::default(),
            breaks_off: AtomicBool::new(true),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn messages_are_whole_however_their_bytes_come() {
    let pieces = [
        "data: {\"n\"",
        ":1}\n",
        "\n: keep-alive\n\nid: 7\nretry: 1\ndata:\n\ndata: {\"n\":2}\n\ndata: {\"n\":",
        "3}\n\nevent: message\nda",
        "ta: {\n",
        "data: \"n\":4}\n\n",
    ];
    let mut updates = Teller::of(&pieces).listened().await.expect("a stream");
    for n in 1..=4 {
        let message = timeout(HOUR, updates.next()).await.expect("in time");
        assert_eq!(message, Some(json!({"n": n})));
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_says_nothing_for_a_minute_is_gone_and_one_that_keeps_the_stream_alive_is_not() {
    let pause = Duration::from_secs(20);
    let alive = [": keep-alive\n\n"; 9];
    let mut updates = Teller::slow(pause, &alive).listened().await.expect("a stream");
    let begun = Instant::now();
    let ended = timeout(HOUR, updates.next()).await;
    assert_eq!(ended.expect("it ends by itself"), None);
    assert_eq!(begun.elapsed().as_secs(), (9 * pause + SILENCE_MAX).as_secs());
}

#[tokio::test(start_paused = true)]
async fn an_event_without_end_is_not_waited_for() {
    let piece = "x".repeat(16 * 1024);
    let pieces = [&*piece; 16];
    let mut updates = Teller::of(&pieces).listened().await.expect("a stream");
    let begun = Instant::now();
    let ended = timeout(HOUR, updates.next()).await;
    assert_eq!(ended.expect("it ends by itself"), None);
    assert!(begun.elapsed() < SILENCE_MAX, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_in_which_the_relay_does_not_tell_of_all_that_was_asked_for_is_refused() {
    let relay = Relay::new(settings("127.0.0.1:7331"), Teller::of(&[]));
    let asked = [INBOX.to_owned(), "relay://agents".to_owned()];
    let told = match relay.listen(&asked).await {
        Err(AskError::Answered(reason)) => reason,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it is not told of all"),
    };
    let expected = "relay does not tell this session of the changes of \"relay://agents\"";
    assert_eq!(told, expected);
}

/// A relay that says that it will tell of changes, ends each stream of them at once, and counts how often it was asked.
#[derive(Clone, Default)]
struct Ender {
    asked: Arc<Mutex<usize>>,
    /// It refuses to tell of them from the second time on.
    refuses: bool,
}

impl Ender {
    /// Returns how often it is asked within so many seconds by a bridge whose agent wants to be told.
    async fn asked_within(self, seconds: u64) -> usize {
        let settings = Settings {
            toolsets: "agent-relay".parse().expect("toolsets"),
            ..settings("127.0.0.1:7331")
        };
        let asked = Arc::clone(&self.asked);
        let mut agent = Agent::start_with(settings, self, ROOM).await;
        agent.ask(1, "resources/subscribe", &json!({"uri": INBOX})).await;
        agent.hears(1).await;
        sleep(Duration::from_secs(seconds)).await;
        *asked.lock().expect("no test panics there")
    }
}

impl Connect for Ender {
    type Connection = Wire;

    async fn connect(&self) -> io::Result<Wire> {
        let count = {
            let mut count = self.asked.lock().expect("no test panics there");
            *count += 1;
            *count
        };
        if count >= 100 {
            // Time stands still for whoever asks without a rest.
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (status, kind, body) = if self.refuses && count > 1 {
            let body = r#"{"error":{"message":"no"}}"#;
            ("401 Unauthorized", "application/json", body)
        } else {
            ("200 OK", "text/event-stream", ACCEPTED)
        };
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
        let (stream, mut theirs) = duplex(ROOM);
        tokio::spawn(async move {
            let asked = theirs.read(&mut [0; 4096]).await.expect("it is there");
            assert_ne!(asked, 0, "no request");
            let answer = head + body;
            theirs.write_all(answer.as_bytes()).await.expect("it is taken");
        });
        Ok(Wire {
            stream,
            number: 1,
            relay: FakeRelay::default(),
            breaks_off: AtomicBool::new(true),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_ends_each_stream_at_once_is_asked_once_a_second() {
    let asked = Ender::default().asked_within(10).await;
    assert!((9..=12).contains(&asked), "{asked} times in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_refuses_to_tell_of_changes_is_asked_again_every_five_seconds() {
    let refuser = Ender {
        refuses: true,
        ..Ender::default()
    };
    let asked = refuser.asked_within(20).await;
    assert!((4..=6).contains(&asked), "{asked} times in twenty seconds");
}
