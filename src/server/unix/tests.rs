use std::path::PathBuf;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// How long anything may take before a test gives up on it.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// A directory of a test's own, and the doors of a relay there for a user.
async fn doors(user: u32) -> (tempfile::TempDir, PathBuf, Doors) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("own").join("relay.sock");
    let local = SocketFile::listen(&path).expect("nobody is there");
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut doors = Doors::new(vec![tcp], Some(local));
    doors.local.as_mut().expect("it was given").user = user;
    (directory, path, doors)
}

fn this_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A connection over a unix socket: relay's end, and the peer's.
fn pair() -> (Local, UnixStream) {
    let (own, peer) = UnixStream::pair().expect("a pair of sockets");
    (Local::new(own), peer)
}

#[tokio::test]
async fn both_doors_lead_in() {
    let (_directory, path, mut doors) = doors(this_user()).await;
    let port = doors.tcp.listeners[0].local_addr().expect("it listens");
    let _over_tcp = TcpStream::connect(port).await.expect("it listens");
    assert!(matches!(doors.accept().await, Ok(DoorIo::Tcp(_))));
    let _over_unix = UnixStream::connect(&path).await.expect("it listens");
    let accepted = doors.accept().await.expect("a connection");
    assert!(matches!(accepted, DoorIo::Local(_)) && accepted.is_own_user());
}

#[tokio::test]
async fn no_address_of_a_port_waits_for_another() {
    let mut listeners = Vec::new();
    for _ in 0..2 {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    }
    let places: Vec<_> = listeners
        .iter()
        .map(|listener| listener.local_addr().expect("it listens"))
        .collect();
    let mut doors = Doors::new(listeners, None);
    for round in 0..3 {
        let mut waiting = Vec::new();
        for place in [places[0], places[0], places[1]] {
            waiting.push(TcpStream::connect(place).await.expect("it listens"));
        }
        let mut met = Vec::new();
        for _ in 0..3 {
            let Ok(DoorIo::Tcp(stream)) = doors.accept().await else {
                panic!("a connection over a port");
            };
            met.push(stream.local_addr().expect("it is connected"));
        }
        assert!(met[..2].contains(&places[1]), "round {round}: {met:?}");
    }
}

#[tokio::test]
async fn another_users_connection_is_closed_at_once() {
    let (_directory, path, mut doors) = doors(this_user() + 1).await;
    let port = doors.tcp.listeners[0].local_addr().expect("it listens");
    let mut stranger = UnixStream::connect(&path).await.expect("it listens");
    let (accepted, read) = tokio::join!(doors.accept(), async {
        let read = tokio::time::timeout(PATIENCE, stranger.read(&mut [0])).await;
        let _over_tcp = TcpStream::connect(port).await.expect("it listens");
        read
    });
    assert_eq!(read.expect("an end").expect("an orderly one"), 0);
    assert!(matches!(accepted, Ok(DoorIo::Tcp(_))));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_peer_that_has_read_all_and_closed_has_closed() {
    let (mut own, mut peer) = pair();
    own.stream.write_all(b"reply").await.expect("it is taken");
    assert!(!own.peer_has_closed());
    peer.read_exact(&mut [0; 5]).await.expect("it is there");
    drop(peer);
    assert_eq!(own.stream.read(&mut [0]).await.expect("an orderly end"), 0);
    assert!(own.peer_has_closed() && !own.left_bytes_unread());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_peer_that_closed_with_a_byte_unread_broke_the_connection() {
    let (mut own, mut peer) = pair();
    own.stream.write_all(b"reply").await.expect("it is taken");
    peer.read_exact(&mut [0; 4]).await.expect("it is there");
    drop(peer);
    let read = own.stream.read(&mut [0]).await;
    assert_eq!(read.expect_err("a reset").kind(), io::ErrorKind::ConnectionReset);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_peer_that_only_sends_no_more_has_closed_once_it_has_read_all() {
    use std::net::Shutdown::{Both, Write};

    for how in [Write, Both] {
        let (mut own, mut peer) = pair();
        own.stream.write_all(b"reply").await.expect("it is taken");
        socket2::SockRef::from(&peer).shutdown(how).expect("it is open");
        assert_eq!(own.stream.read(&mut [0]).await.expect("its last byte"), 0);
        assert!(!own.peer_has_closed(), "{how:?}");
        peer.read_exact(&mut [0; 5]).await.expect("it is there");
        assert!(own.peer_has_closed() && !own.left_bytes_unread(), "{how:?}");

        let (mut own, peer) = pair();
        own.stream.write_all(b"reply").await.expect("it is taken");
        socket2::SockRef::from(&peer).shutdown(how).expect("it is open");
        assert_eq!(own.stream.read(&mut [0]).await.expect("its last byte"), 0);
        drop(peer);
        // In this order the kernel's news cannot come between the looks.
        assert!(own.peer_has_closed() && own.left_bytes_unread(), "{how:?}");
    }
}

#[tokio::test]
async fn bytes_that_came_are_counted_until_they_are_read() {
    let (mut own, mut peer) = pair();
    assert_eq!(own.arrived_bytes(), 0);
    peer.write_all(b"request").await.expect("it is taken");
    assert_eq!(own.arrived_bytes(), 7);
    own.stream.read_exact(&mut [0; 4]).await.expect("it is there");
    assert_eq!(own.arrived_bytes(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_for_ten_seconds_has_broken_the_connection() {
    let (own, peer) = pair();
    let mut own = DoorIo::Local(own);
    let began = Instant::now();
    let bytes = vec![0; 16 * 1024 * 1024];
    let error = own.write_all(&bytes).await.expect_err("nobody reads");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(began.elapsed(), ACKNOWLEDGE_PATIENCE);
    drop(peer);
}

#[tokio::test(start_paused = true)]
async fn a_write_of_several_pieces_is_not_waited_for_longer() {
    let (own, peer) = pair();
    let mut own = DoorIo::Local(own);
    let began = Instant::now();
    let piece = vec![0; 64 * 1024];
    let error = loop {
        let pieces = [io::IoSlice::new(&piece), io::IoSlice::new(&piece)];
        let writing = tokio::time::timeout(PATIENCE, own.write_vectored(&pieces));
        if let Err(error) = writing.await.expect("it ends") {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(began.elapsed(), ACKNOWLEDGE_PATIENCE);
    drop(peer);
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_slow_peer_that_takes_too_little_to_make_room_is_waited_for() {
    let late = ACKNOWLEDGE_PATIENCE * 9 / 10;
    for pauses in [&[late, late, late][..], &[LOOK_AT_SLOW / 2]] {
        takes_after(pauses).await;
    }
}

#[cfg(target_os = "linux")]
/// Has a peer take a little after each of some pauses, and then nothing more.
async fn takes_after(pauses: &[std::time::Duration]) {
    let (own, mut peer) = pair();
    let mut own = DoorIo::Local(own);
    let writing = tokio::spawn(async move {
        let began = Instant::now();
        let bytes = vec![0; 16 * 1024 * 1024];
        let error = own.write_all(&bytes).await.expect_err("it stops reading");
        (error.kind(), began.elapsed())
    });
    let mut buffer = vec![0; 40 * 1024];
    for pause in pauses {
        tokio::time::sleep(*pause).await;
        peer.read_exact(&mut buffer).await.expect("it is open");
    }
    let (error, after) = writing.await.expect("no panic");
    // It may be seen a look later that something was taken.
    let last: std::time::Duration = pauses.iter().sum();
    let broken = last + ACKNOWLEDGE_PATIENCE..=last + ACKNOWLEDGE_PATIENCE + LOOK_AT_SLOW;
    assert_eq!(error, io::ErrorKind::TimedOut);
    assert!(broken.contains(&after), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_a_little_now_and_then_is_waited_for() {
    let (own, mut peer) = pair();
    let mut own = DoorIo::Local(own);
    let bytes = vec![0; 4 * 1024 * 1024];
    let length = bytes.len();
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 512 * 1024];
        let mut read = 0;
        while read < length {
            tokio::time::sleep(ACKNOWLEDGE_PATIENCE / 2).await;
            read += peer.read(&mut buffer).await.expect("it is open");
        }
    });
    own.write_all(&bytes).await.expect("somebody reads");
    reading.await.expect("no panic");
}
