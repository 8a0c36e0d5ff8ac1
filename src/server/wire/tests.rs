use std::collections::VecDeque;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_test::io::{Builder, Mock};

use super::*;
use crate::engine::mail;
use crate::server::recorder::{Told, receipt, recorded};

/// A socket that does what a test has written down, and knows what its kernel would.
struct Socket {
    io: Mock,
    /// What [`SocketState::arrived_bytes`] says, time after time; zero in the end.
    arrived: Mutex<VecDeque<u64>>,
    left_unread: bool,
    /// How often it is asked for that before a reset comes.
    looks_before_reset: AtomicUsize,
    /// The peer has only sent its last byte.
    half_closed: Arc<AtomicBool>,
}

impl SocketState for Socket {
    fn left_bytes_unread(&self) -> bool {
        self.left_unread || self.looks_before_reset.fetch_sub(1, Ordering::Relaxed) == 0
    }

    fn peer_has_closed(&self) -> bool {
        !self.half_closed.load(Ordering::Relaxed)
    }

    fn arrived_bytes(&self) -> u64 {
        self.arrived.lock().expect("no panic").pop_front().unwrap_or(0)
    }

    fn prepare(&self) {}
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A connection with the session of its calls, and the receipt of a reply that is yet to be written.
struct Scene {
    wire: Wire<Socket>,
    session: SessionId,
    told: Told,
    receipt: Option<Receipt>,
    handover: HandoverId,
}

fn scene(io: &mut Builder, arrived: &[u64]) -> Scene {
    let (owner, told) = recorded();
    let socket = Socket {
        io: io.build(),
        arrived: Mutex::new(arrived.iter().copied().collect()),
        left_unread: false,
        looks_before_reset: AtomicUsize::new(usize::MAX),
        half_closed: Arc::default(),
    };
    let wire = Wire::new(socket, Arc::clone(&owner));
    let (session, _) = wire.link.session(Who::Agent(None), None).expect("there is room");
    let (_, receipt) = receipt(&owner, Carrier::Exchange);
    told.take();
    let handover = receipt.handover();
    Scene {
        wire,
        session,
        told,
        receipt: Some(receipt),
        handover,
    }
}

impl Scene {
    fn signed(&self, sign: Sign) -> Input {
        let handover = self.handover;
        Input::Signed { handover, sign }
    }

    /// Says that hyper has taken the reply's last byte.
    fn sent(&mut self) {
        let receipt = self.receipt.take().expect("there is one reply");
        self.wire.link.sent(Sent::Reply(receipt));
    }

    async fn read(&mut self) -> Vec<Input> {
        let mut bytes = [0; 64];
        let _ = self.wire.read(&mut bytes).await;
        self.told.take()
    }
}

#[tokio::test]
async fn a_reply_of_which_half_was_taken_is_not_passed() {
    let full = Duration::from_millis(1);
    let mut scene = scene(Builder::new().write(b"rep").wait(full).write(b"ly"), &[]);
    scene.sent();
    assert_eq!(scene.wire.write(b"reply").await.expect("it is taken"), 3);
    assert_eq!(scene.told.take(), []);
    assert_eq!(scene.wire.write(b"ly").await.expect("it is taken"), 2);
    assert_eq!(scene.told.take(), [scene.signed(Sign::Passed)]);
}

#[tokio::test]
async fn a_reply_of_which_half_was_taken_in_slices_is_not_passed() {
    let large = [b'x'; TOGETHER_MAX];
    let mut scene = scene(Builder::new().write(&large).write(b"ply"), &[]);
    scene.sent();
    let slices = [io::IoSlice::new(&large), io::IoSlice::new(b"ply")];
    // The mock takes one slice at a time, as a socket may.
    let written = scene.wire.write_vectored(&slices).await.expect("it is taken");
    assert_eq!((written, scene.told.take()), (TOGETHER_MAX, vec![]));
    scene.wire.write_all(b"ply").await.expect("it is taken");
    assert_eq!(scene.told.take(), [scene.signed(Sign::Passed)]);
}

#[tokio::test]
async fn small_slices_are_written_as_one() {
    let mut scene = scene(Builder::new().write(b"reply"), &[]);
    scene.sent();
    let slices = [b"r".as_slice(), b"", b"ep", b"ly"].map(io::IoSlice::new);
    let written = scene.wire.write_vectored(&slices).await.expect("it is taken");
    assert_eq!(
        (written, scene.told.take()),
        (5, vec![scene.signed(Sign::Passed)])
    );
}

#[tokio::test]
async fn as_many_slices_as_hyper_has_at_the_most_may_not_be_all() {
    let mut scene = scene(Builder::new().write(b"r"), &[]);
    scene.sent();
    let mut slices = [io::IoSlice::new(b""); SLICES_MAX];
    slices[0] = io::IoSlice::new(b"r");
    let written = scene.wire.write_vectored(&slices).await.expect("it is taken");
    assert_eq!((written, scene.told.take()), (1, vec![]));
    scene.wire.flush().await.expect("nothing is left");
    assert_eq!(scene.told.take(), [scene.signed(Sign::Passed)]);
}

#[tokio::test]
async fn bytes_prove_that_a_reply_was_read_only_if_they_came_after_it() {
    let mut scene = scene(
        Builder::new().read(b"one").write(b"r").read(b"two").read(b"3"),
        &[0, 3],
    );
    assert_eq!(scene.read().await, []);
    scene.sent();
    scene.wire.write_all(b"r").await.expect("it is taken");
    assert_eq!(scene.told.take(), [scene.signed(Sign::Passed)]);
    assert_eq!(
        scene.read().await,
        [],
        "they were there when the reply was passed"
    );
    assert_eq!(scene.read().await, [scene.signed(Sign::Followed)]);
}

#[tokio::test]
async fn bytes_of_a_peer_that_sends_its_next_request_too_early_prove_nothing() {
    let mut scene = scene(
        Builder::new().write(b"r").read(b"early").read(b"rest of it"),
        &[5, 5],
    );
    scene.sent();
    scene.wire.write_all(b"r").await.expect("it is taken");
    assert_eq!(scene.told.take(), [scene.signed(Sign::Passed)]);
    assert_eq!(scene.read().await, []);
    assert_eq!(scene.read().await, []);
}

#[tokio::test]
async fn a_reply_behind_something_else_is_proved_by_no_more_than_one_alone() {
    let mut scene = scene(
        Builder::new().write(b"r").read(b"early").read(b"rest of it"),
        &[5, 5],
    );
    let session = scene.session;
    scene.wire.link.sent(Sent::KeepAlive(session));
    scene.sent();
    scene.wire.write_all(b"r").await.expect("it is taken");
    assert_eq!(
        scene.told.take(),
        [Input::KeptAlive { session }, scene.signed(Sign::Passed)]
    );
    assert_eq!(scene.read().await, []);
    assert_eq!(scene.read().await, []);
}

#[tokio::test]
async fn the_first_byte_after_a_reply_proves_that_it_was_read_and_does_so_once() {
    let mut scene = scene(Builder::new().write(b"r").read(b"x").read(b"y"), &[]);
    scene.sent();
    scene.wire.write_all(b"r").await.expect("it is taken");
    scene.told.take();
    assert_eq!(scene.read().await, [scene.signed(Sign::Followed)]);
    assert_eq!(scene.read().await, []);
}

/// Ends a connection and returns what is told of that.
fn end(scene: Scene) -> Vec<Input> {
    drop(scene.wire);
    scene.told.take()
}

fn closed(scene: &Scene, ending: Ending) -> Input {
    let session = scene.session;
    Input::Closed { session, ending }
}

#[tokio::test]
async fn a_reply_that_was_not_passed_is_lost_with_its_connection() {
    let mut scene = scene(&mut Builder::new(), &[]);
    scene.sent();
    let lost = scene.signed(Sign::Lost);
    assert_eq!([lost, closed(&scene, Ending::Broken)], *end(scene));
}

#[tokio::test]
async fn an_end_is_orderly_if_the_peer_closed_having_read_all() {
    for (left_unread, ending) in [(false, Ending::Orderly), (true, Ending::Broken)] {
        let mut scene = scene(&mut Builder::new(), &[]);
        scene.wire.io.left_unread = left_unread;
        assert_eq!(scene.read().await, []);
        assert_eq!(
            [closed(&scene, ending)],
            *end(scene),
            "left unread: {left_unread}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_byte_of_a_peer_that_may_still_read_is_not_its_end() {
    let mut scene = scene(Builder::new().write(b"r"), &[]);
    let half_closed = Arc::clone(&scene.wire.io.half_closed);
    half_closed.store(true, Ordering::Relaxed);
    scene.sent();
    scene.wire.write_all(b"r").await.expect("it is taken");
    scene.told.take();
    let mut bytes = [0; 8];
    let waited = tokio::time::timeout(Duration::from_secs(22), scene.wire.read(&mut bytes)).await;
    assert!(waited.is_err(), "the end was told");
    half_closed.store(false, Ordering::Relaxed);
    assert_eq!(scene.wire.read(&mut bytes).await.expect("the end"), 0);
    assert_eq!([closed(&scene, Ending::Orderly)], *end(scene));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_sent_its_last_byte_and_then_nothing_happens_is_not_waited_for_for_ever() {
    let mut scene = scene(Builder::new().write(b"r"), &[]);
    scene.wire.io.half_closed.store(true, Ordering::Relaxed);
    scene.sent();
    scene.wire.write_all(b"r").await.expect("it is taken");
    scene.told.take();
    let begun = Instant::now();
    assert_eq!(scene.wire.read(&mut [0; 8]).await.expect("the end"), 0);
    let doubt = Duration::from_millis(crate::engine::limits::DOUBT_MS.unsigned_abs());
    assert!(
        begun.elapsed() > doubt && begun.elapsed() < 2 * doubt,
        "{:?}",
        begun.elapsed()
    );
    assert_eq!([closed(&scene, Ending::Broken)], *end(scene));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_sent_its_last_byte_and_then_died_with_the_reply_unread_has_broken_it() {
    let mut scene = scene(Builder::new().write(b"r"), &[]);
    scene.wire.io.half_closed.store(true, Ordering::Relaxed);
    scene.sent();
    scene.wire.write_all(b"r").await.expect("it is taken");
    scene.told.take();
    let mut bytes = [0; 8];
    let waited = tokio::time::timeout(Duration::from_secs(1), scene.wire.read(&mut bytes)).await;
    assert!(waited.is_err(), "the end was told");
    scene.wire.io.left_unread = true;
    assert_eq!(scene.wire.read(&mut bytes).await.expect("the end"), 0);
    assert_eq!([closed(&scene, Ending::Broken)], *end(scene));
}

#[tokio::test]
async fn an_end_is_broken_if_reading_or_writing_failed_first_or_nothing_was_seen() {
    let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
    let mut read = scene(Builder::new().read_error(reset()), &[]);
    read.read().await;
    assert_eq!([closed(&read, Ending::Broken)], *end(read));
    let mut written = scene(Builder::new().write_error(reset()), &[]);
    written.wire.write(b"x").await.expect_err("it fails");
    // The peer's close, seen later, does not make it better.
    written.read().await;
    assert_eq!([closed(&written, Ending::Broken)], *end(written));
    let unseen = scene(&mut Builder::new(), &[]);
    assert_eq!([closed(&unseen, Ending::Broken)], *end(unseen));
}

#[tokio::test(start_paused = true)]
async fn behind_a_reply_that_matters_relay_waits_for_the_peer_s_end_but_not_for_ever() {
    let waits = LINGER + Duration::from_secs(60);
    for (peer_closes_after, ending, lingered) in [
        (
            Duration::from_millis(500),
            Ending::Orderly,
            Duration::from_millis(500),
        ),
        (waits, Ending::Broken, LINGER),
    ] {
        let mut scene = scene(Builder::new().write(b"r").wait(peer_closes_after), &[]);
        scene.sent();
        scene.wire.write_all(b"r").await.expect("it is taken");
        let before = tokio::time::Instant::now();
        scene.wire.shutdown().await.expect("it ends");
        let took = before.elapsed();
        // The mock's timers count whole milliseconds.
        assert!(
            took >= lingered && took < lingered + Duration::from_millis(5),
            "{took:?}"
        );
        scene.told.take();
        assert_eq!([closed(&scene, ending)], *end(scene));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_sent_too_early_does_not_end_the_doubt_in_the_reply_before_it() {
    let io = &mut Builder::new();
    io.read(b"both").write(b"r").write(b"other").wait(LINGER * 2);
    let mut scene = scene(io, &[]);
    scene.read().await;
    scene.sent();
    scene.wire.write_all(b"r").await.expect("it is taken");
    scene
        .wire
        .link
        .session(Who::Agent(None), None)
        .expect("it is open");
    scene.wire.write_all(b"other").await.expect("it is taken");
    scene.wire.shutdown().await.expect("it ends");
    scene.told.take();
    assert_eq!([closed(&scene, Ending::Broken)], *end(scene));
}

#[tokio::test]
async fn a_keep_alive_is_told_of_behind_what_was_passed_with_it() {
    let (owner, told) = recorded();
    let mut scene = scene(Builder::new().write(b"reply: keep-alive"), &[]);
    let (session, streamed) = receipt(&owner, Carrier::Stream);
    let handover = streamed.handover();
    told.take();
    scene.wire.link.sent(Sent::Streamed(Some(streamed), None));
    scene.wire.link.sent(Sent::KeepAlive(session));
    scene
        .wire
        .write_all(b"reply: keep-alive")
        .await
        .expect("it is taken");
    let sign = Sign::Passed;
    assert_eq!(told.take(), [Input::Signed { handover, sign }]);
    assert_eq!(scene.told.take(), [Input::KeptAlive { session }]);
}

#[tokio::test]
async fn a_session_is_one_for_each_agent_that_a_connection_asks_for() {
    let scene = scene(&mut Builder::new(), &[]);
    let link = &scene.wire.link;
    let session = |agent: Option<&str>| {
        link.session(Who::Agent(agent.map(str::to_owned)), None)
            .expect("a role")
    };
    assert_eq!(session(None).0, scene.session);
    let pm = session(Some("pm"));
    let dev = session(Some("dev-a"));
    assert_eq!(
        (
            pm.1.expect("bound").to_string(),
            dev.1.expect("bound").to_string()
        ),
        ("pm".to_owned(), "dev-a".to_owned())
    );
    assert!(pm.0 != dev.0 && pm.0 != scene.session);
    assert_eq!(session(Some("pm")).0, pm.0);
    assert_eq!(session(Some("dev-a")).0, dev.0);
    assert!(link.session(Who::Agent(Some("nobody".to_owned())), None).is_err());
}

#[tokio::test]
async fn clients_that_name_themselves_have_a_session_each_up_to_a_bound() {
    let scene = scene(&mut Builder::new(), &[]);
    let link = &scene.wire.link;
    let session = |client: Option<&str>| {
        let client = client.map(Arc::from);
        let opened = link.session(Who::Agent(None), client.as_ref());
        opened.expect("there is room").0
    };
    scene.told.take();
    let named = |session, client: &str| Input::Named {
        session,
        client: ClientId(client.into()),
    };
    // Whoever makes the handshake has no name yet.
    assert_eq!(session(None), scene.session);
    assert_eq!(session(Some("x")), scene.session);
    assert_eq!(scene.told.take(), [named(scene.session, "x")]);
    assert_eq!(session(Some("x")), scene.session);
    let nameless = session(None);
    assert_ne!(nameless, scene.session);
    assert_eq!(session(None), nameless);
    let other = session(Some("y"));
    assert_eq!(other, nameless);
    assert_eq!(scene.told.take().last(), Some(&named(other, "y")));
    assert_eq!(session(Some("y")), other);
    for client in 2..CLIENTS_MAX {
        session(Some(&client.to_string()));
    }
    let beyond = session(Some("one too many"));
    assert_eq!(session(Some("another")), beyond);
    assert_eq!(session(Some("y")), other);
}

#[tokio::test]
async fn where_no_session_has_room_clients_share_one_unless_it_is_to_be_theirs_alone() {
    let scene = scene(&mut Builder::new(), &[]);
    let link = &scene.wire.link;
    let session = |who: &Who, client: &str| link.session(who.clone(), Some(&Arc::from(client)));
    let all = [Who::Agent(None), Who::Unnamed];
    let [(shared, _), (own, _)] = all
        .each_ref()
        .map(|who| session(who, "x").expect("there is room"));
    while link.0.owner.open(Carrier::Exchange, Who::Agent(None)).is_ok() {}
    let [of_y, unnamed] = all.each_ref().map(|who| session(who, "y"));
    assert_eq!(of_y, Ok((shared, None)));
    assert!(matches!(unnamed, Err(Refusal::Sessions(_))), "{unnamed:?}");
    assert_eq!(session(&Who::Unnamed, "x"), Ok((own, None)));
}

#[tokio::test]
async fn all_sessions_of_a_connection_end_with_it() {
    let mut scene = scene(&mut Builder::new(), &[]);
    let pm = Who::Agent(Some("pm".to_owned()));
    let (session, _) = scene.wire.link.session(pm, None).expect("a role");
    scene.read().await;
    let ending = Ending::Orderly;
    let expected = [closed(&scene, ending), Input::Closed { session, ending }];
    assert_eq!(end(scene), expected);
}

#[tokio::test]
async fn a_connection_is_idle_between_requests_and_knows_when_a_head_has_begun() {
    let mut scene = scene(Builder::new().read(b"head").read(b"body").read(b"next"), &[]);
    let link = scene.wire.link();
    let idle = |requests, head_begun| Some(Idle { requests, head_begun });
    assert_eq!(link.idle(), idle(0, false));
    scene.read().await;
    assert_eq!(link.idle(), idle(0, true));
    let under_way = link.begin();
    assert_eq!(link.idle(), None);
    scene.read().await;
    drop(under_way);
    assert_eq!(link.idle(), idle(1, false));
    scene.read().await;
    assert_eq!(link.idle(), idle(1, true));
}

#[tokio::test]
async fn a_socket_is_prepared_as_it_says() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("it listens");
    let mut peer = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let (stream, _) = listener.accept().await.expect("a connection");
    let (owner, _) = recorded();
    let wire = Wire::new(stream, owner);
    let socket = socket2::SockRef::from(&wire.io);
    assert!(socket.tcp_nodelay().expect("it is TCP"));
    #[cfg(target_os = "linux")]
    assert_eq!(
        socket.tcp_user_timeout().expect("it is TCP"),
        Some(ACKNOWLEDGE_PATIENCE)
    );
    assert_eq!(wire.io.arrived_bytes(), 0);
    peer.write_all(b"12345").await.expect("it is taken");
    wire.io.readable().await.expect("it is open");
    assert_eq!(wire.io.arrived_bytes(), 5);
    assert!(!wire.io.left_bytes_unread());
}

#[tokio::test]
async fn an_end_is_broken_if_the_reset_came_while_it_was_looked_for() {
    let mut scene = scene(&mut Builder::new(), &[]);
    scene.wire.io.looks_before_reset = AtomicUsize::new(1);
    scene.read().await;
    assert_eq!([closed(&scene, Ending::Broken)], *end(scene));
}

#[tokio::test(start_paused = true)]
async fn bytes_behind_a_later_reply_do_not_end_the_doubt_in_one_that_none_can_prove() {
    let io = &mut Builder::new();
    io.write(b"r")
        .read(b"early")
        .write(b"s")
        .read(b"next")
        .wait(LINGER * 2);
    let mut scene = scene(io, &[1]);
    scene.sent();
    scene.wire.write_all(b"r").await.expect("it is taken");
    scene.read().await;
    let (owner, session) = (&scene.wire.link.0.owner, scene.session);
    let read = mail::Command::read_all(Some("dev-a".to_owned()), 0);
    let Some(crate::server::owner::Outcome::Answered(answered)) = owner.call(session, read.into(), None)
    else {
        panic!("a read that does not wait is answered");
    };
    scene.receipt = answered.receipt;
    scene.sent();
    scene.wire.write_all(b"s").await.expect("it is taken");
    assert!(matches!(
        *scene.read().await,
        [
            ..,
            Input::Signed {
                sign: Sign::Followed,
                ..
            }
        ]
    ));
    scene.wire.shutdown().await.expect("it ends");
    scene.told.take();
    assert_eq!([closed(&scene, Ending::Broken)], *end(scene));
}

#[tokio::test]
async fn what_was_shown_is_lost_with_the_connection_until_more_comes_over_it() {
    let broken = |scene: Scene| {
        let lost = scene.signed(Sign::Lost);
        let told = Told::clone(&scene.told);
        drop(scene);
        told.take().contains(&lost)
    };
    let shown = |more: &[u8]| {
        let mut io = Builder::new();
        io.write(b"reply");
        if !more.is_empty() {
            io.read(more);
        }
        scene(&mut io, &[])
    };

    let mut silent = shown(b"");
    silent.wire.link.shows(silent.handover);
    silent.sent();
    silent.wire.write_all(b"reply").await.expect("it is taken");
    assert!(broken(silent));

    let mut goes_on = shown(b"more");
    goes_on.wire.link.shows(goes_on.handover);
    goes_on.sent();
    goes_on.wire.write_all(b"reply").await.expect("it is taken");
    goes_on.read().await;
    assert!(!broken(goes_on));

    let mut rests = shown(b"");
    rests.wire.link.shows(rests.handover);
    rests.sent();
    rests.wire.write_all(b"reply").await.expect("it is taken");
    rests.wire.link.rests();
    assert!(!broken(rests));
}
