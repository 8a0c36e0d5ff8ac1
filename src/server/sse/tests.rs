use http_body_util::BodyExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::engine::agents::Registration;
use crate::engine::{Input, Who, watches};
use crate::server::guard::Guard;
use crate::server::limits::{FREE_BYTES, WAITING_BYTES_MAX};
use crate::server::recorder::{Told, recorded, shared};
use crate::server::wire::Wire;
use crate::tools::{DEFAULT, Offer, Toolsets};

/// A stream with a session, as hyper asks for it, and the connection that it goes over.
pub(super) struct Scene {
    wire: Wire<TcpStream>,
    _peer: TcpStream,
    told: Told,
    pub body: StreamBody,
}

pub(super) async fn scene(keep_alive: Duration) -> Scene {
    scene_with(keep_alive, DEFAULT).await
}

async fn scene_with(keep_alive: Duration, toolsets: Toolsets) -> Scene {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it listens");
    let peer = TcpStream::connect(address).await.expect("it listens");
    let (stream, _) = listener.accept().await.expect("a connection");
    let (owner, told) = recorded();
    let wire = Wire::new(stream, Arc::clone(&owner));
    let (session, _) = owner
        .open(Carrier::Stream, Who::Agent(None))
        .expect("there is room");
    told.take();
    let id = Uuid::from_u128(1);
    let (events, receiver) = mpsc::unbounded_channel();
    let unread = Arc::new(Unread::default());
    let body = StreamBody {
        hello: None,
        events: receiver,
        keep_alive: KeepAlive::every(keep_alive),
        unread: Arc::clone(&unread),
        stream: Arc::new(Stream {
            named: false,
            id,
            session,
            agent: None,
            offer: Offer {
                toolsets,
                reply_max: None,
            },
            scope: Scope::Stream(Uuid::nil()),
            outbox: Mutex::new(Some(Outbox {
                events,
                unread,
                account: Arc::clone(wire.link().account()),
            })),
            known: OnceLock::new(),
            client: Mutex::new(Met::New),
            changes: Arc::default(),
            link: wire.link(),
            closed: CancellationToken::new(),
        }),
        link: wire.link(),
        shared: Arc::new(Shared {
            keep_alive,
            boot: id,
            ..shared(owner, Guard { port: 0, token: None })
        }),
    };
    Scene {
        wire,
        _peer: peer,
        told,
        body,
    }
}

impl Scene {
    /// Takes what hyper would write next.
    async fn written(&mut self) -> Bytes {
        let frame = self.body.frame().await.expect("it goes on");
        let Ok(frame) = frame;
        frame.into_data().expect("it is data")
    }
}

/// A client that does not take it has shown nothing.
#[tokio::test]
async fn a_keep_alive_is_told_of_when_it_was_written_and_not_when_it_is_due() {
    let mut scene = scene(Duration::from_millis(1)).await;
    let session = scene.body.stream.session;
    let bytes = scene.written().await;
    assert_eq!(scene.told.take(), []);
    scene.wire.write_all(&bytes).await.expect("it is taken");
    assert_eq!(scene.told.take(), [Input::KeptAlive { session }]);
}

#[tokio::test]
async fn what_was_read_makes_room_in_events_and_in_bytes() {
    let mut scene = scene(Duration::from_secs(60)).await;
    let outbox = scene.body.stream.outbox().expect("it is open");
    let half = vec![b'x'; UNREAD_BYTES_MAX / 2];
    for _ in 0..3 {
        assert!(outbox.send(&half, None) && outbox.has_room());
        assert!(outbox.send(&half, None) && !outbox.has_room());
        scene.written().await;
        scene.written().await;
    }
    for _ in 0..UNREAD_EVENTS_MAX {
        assert!(outbox.has_room());
        outbox.send(b"x", None);
    }
    assert!(!outbox.has_room());
    scene.written().await;
    assert!(outbox.has_room());
}

#[tokio::test]
async fn what_waits_in_a_stream_is_counted_until_it_is_taken() {
    let mut scene = scene(Duration::from_secs(60)).await;
    let budget = Arc::clone(scene.body.shared.owner.budget());
    let outbox = scene.body.stream.outbox().expect("it is open");
    assert!(outbox.send(&[b'x'; FREE_BYTES], None));
    drop(scene.written().await);
    let (other, held) = (budget.open(), FREE_BYTES + WAITING_BYTES_MAX);
    let _held = other.charge(held);
    assert!(!other.cut().is_cancelled(), "it is counted no more");
    assert!(outbox.send(&[b'x'; FREE_BYTES], None));
    assert!(other.cut().is_cancelled());
}

#[tokio::test]
async fn a_keep_alive_after_the_doubt_ends_the_note_of_an_answer() {
    let mut scene = scene(Duration::from_secs(21)).await;
    let (orphans, id) = (Arc::clone(&scene.body.shared.orphans), scene.body.stream.id);
    let request = RawValue::from_string("1".to_owned()).expect("JSON");
    tokio::time::pause();
    orphans.wait(id, None, &request).passed();
    tokio::time::advance(Duration::from_secs(22)).await;
    scene.written().await;
    orphans.lose_stream(id);
    assert!(orphans.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_with_an_id_that_was_told_to_be_lost_is_refused_for_a_second() {
    let scene = scene(Duration::from_secs(60)).await;
    let stream = &scene.body.stream;
    let request = RawValue::from_string("5".to_owned()).expect("JSON");
    for (later, why) in [
        (ON_ITS_WAY_MAX - Duration::from_millis(1), Some(Why::Restart)),
        (ON_ITS_WAY_MAX, None),
    ] {
        let told = BTreeMap::from([(Box::from("5"), Why::Restart)]);
        *stream.client() = Met::Back(Instant::now(), told);
        tokio::time::advance(later).await;
        assert_eq!(
            stream.meet_again(&scene.body.shared, Some(&request)),
            why,
            "{later:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_comes_late_shows_that_what_was_told_was_not_its_client_s() {
    let scene = scene(Duration::from_secs(60)).await;
    let stream = &scene.body.stream;
    let request = RawValue::from_string("5".to_owned()).expect("JSON");
    let told = BTreeMap::from([(Box::from("5"), Why::Restart)]);
    *stream.client() = Met::Back(Instant::now(), told);
    stream.meet_new();
    assert_eq!(stream.meet_again(&scene.body.shared, Some(&request)), None);
}

/// So it is for a client that does not read: hyper asks for no more then.
#[tokio::test(start_paused = true)]
async fn what_changes_while_nothing_is_taken_is_told_once_and_behind_the_answers() {
    let toolsets = "all".parse().expect("toolsets");
    let mut scene = scene_with(Duration::from_secs(60), toolsets).await;
    let stream = Arc::clone(&scene.body.stream);
    let owner = Arc::clone(&scene.body.shared.owner);
    let watch = watches::Command::Watch(Watched::Agents);
    let watched = owner.watch(stream.session, watch, &stream.changes);
    assert_eq!(watched, Some(Ok(())));
    for n in 0..1_000 {
        let registration = Registration {
            name: format!("agent-{n}"),
            ..Registration::default()
        };
        let who = Who::Registered(Box::new(registration));
        owner.open(Carrier::Exchange, who).expect("there is room");
    }
    stream.outbox().expect("it is open").send(b"{}", None);
    let told = r#"event: message
data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"relay://agents"}}

"#;
    for expected in ["event: message\ndata: {}\n\n", told, ": keep-alive\n\n"] {
        assert_eq!(scene.written().await, expected);
    }
    owner.close(stream.session, Ending::Broken);
    assert_eq!(
        Arc::strong_count(&stream.changes),
        1,
        "nothing is put down any more"
    );
}
