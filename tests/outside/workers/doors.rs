//! The socket of those who attach, spoken to without `relay attach`.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use super::scene::Scene;
use crate::support::{PATIENCE, until};

const SOCKET: &str = "relay/projects/default/workers/w1.sock";

/// How many may be attached.
const ATTACHED_MAX: usize = 8;

fn attach(scene: &Scene) -> UnixStream {
    until("there is a socket", || scene.path(SOCKET).exists());
    let stream = UnixStream::connect(scene.path(SOCKET)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    stream
}

/// What is said first to who attaches: its letter, and its bytes.
fn first_said(stream: &mut UnixStream) -> (u8, Vec<u8>) {
    let mut head = [0; 5];
    stream.read_exact(&mut head).expect("something is said");
    let [kind, length @ ..] = head;
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut bytes).expect("it is whole");
    (kind, bytes)
}

fn say(stream: &mut UnixStream, kind: u8, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("it is short");
    let whole = [&[kind], &length.to_be_bytes()[..], bytes].concat();
    stream.write_all(&whole).expect("it is heard");
}

#[test]
fn the_socket_is_its_user_s_alone_and_goes_with_the_worker() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run("exec sleep 600");
    let socket = scene.path(SOCKET);
    let mode = socket.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    supervisor.end();
    supervisor.last();
    assert!(!socket.exists());
}

#[test]
fn so_many_are_attached_and_another_one_once_one_has_left() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run("echo ready; exec sleep 600");
    let mut attached: Vec<UnixStream> = (0..ATTACHED_MAX).map(|_| attach(&scene)).collect();
    for stream in &mut attached {
        assert_eq!(first_said(stream).0, b'o');
    }
    let full = b"8 are attached to it already, as many as may be; detach one of them";
    assert_eq!(first_said(&mut attach(&scene)), (b'r', full.to_vec()));
    attached.pop();
    until("there is room for one", || {
        first_said(&mut attach(&scene)).0 == b'o'
    });
    supervisor.end();
    supervisor.last();
}

#[test]
fn a_window_of_any_size_leaves_the_terminal_one_that_it_may_have() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run("while read line; do stty size >\"$DIRECTORY/size\"; done");
    let mut stream = attach(&scene);
    let sizes = [
        (1_u16, 1_u16, "1 1\n"),
        (u16::MAX, u16::MAX, "1000 1000\n"),
        // It does not know its own.
        (0, 0, "1000 1000\n"),
        (7, 9, "7 9\n"),
    ];
    for (rows, cols, size) in sizes {
        say(
            &mut stream,
            b's',
            &[rows.to_be_bytes(), cols.to_be_bytes()].concat(),
        );
        // A key may come before the size that was said before it.
        until("it has its size", || {
            say(&mut stream, b'k', b"\r");
            scene.text("size") == size
        });
    }
    supervisor.end();
    supervisor.last();
}

#[test]
fn who_is_attached_and_takes_nothing_keeps_no_worker_from_its_end() {
    let scene = Scene::new();
    // Each screen is another one from its first cell to its last.
    let (mut supervisor, _) = scene.run(
        r"n=0
while :; do
    n=$(((n + 1) % 10))
    printf '\033[H'
    head -c 1800 /dev/zero | tr '\0' $n
    sleep 0.02
done",
    );
    let stream = attach(&scene);
    let mut before = 0;
    until("nothing more has room", || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let waits = rustix::io::ioctl_fionread(&stream).expect("it is a socket");
        let is_full = waits > 16 * 1024 && waits == before;
        before = waits;
        is_full
    });
    supervisor.end();
    assert_eq!(supervisor.last()["status"], serde_json::json!({"signal": 15}));
}

#[test]
fn who_is_attached_is_shown_what_has_changed_since_the_last_time_and_not_all_anew() {
    let scene = Scene::new();
    let (mut supervisor, _) =
        scene.run(r#"stty -echo; printf ready; while read line; do printf '\r\033[K%s' "$line"; done"#);
    until("it is ready", || scene.log().contains("ready"));
    let mut stream = attach(&scene);
    let (_, first) = first_said(&mut stream);
    assert!(String::from_utf8_lossy(&first).contains("ready"));
    for line in ["first", "ready"] {
        say(&mut stream, b'k', format!("{line}\r").as_bytes());
        let mut shown = String::new();
        while !shown.contains(line) {
            let (kind, bytes) = first_said(&mut stream);
            assert_eq!(kind, b'o');
            shown += &String::from_utf8(bytes).expect("it is text");
        }
        assert!(!shown.contains("\u{1b}[2J"), "{shown:?}");
    }
    supervisor.end();
    supervisor.last();
}

#[test]
fn another_size_of_the_terminal_is_written_into_the_log() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run("exec sleep 600");
    let mut stream = attach(&scene);
    let size = [30_u16.to_be_bytes(), 100_u16.to_be_bytes()].concat();
    say(&mut stream, b's', &size);
    until("it is written down", || scene.log().ends_with("\u{1b}[8;30;100t"));
    supervisor.end();
    supervisor.last();
}

#[test]
fn that_another_size_could_not_be_written_into_the_log_is_told() {
    let scene = Scene::new();
    let workers = scene.path("relay/projects/default/workers");
    std::fs::create_dir_all(workers.join("w1.log")).expect("there is room");
    std::fs::set_permissions(&workers, std::fs::Permissions::from_mode(0o700)).expect("ours");
    let (mut supervisor, _) = scene.run("exec sleep 600");
    let mut stream = attach(&scene);
    let size = [30_u16.to_be_bytes(), 100_u16.to_be_bytes()].concat();
    say(&mut stream, b's', &size);
    let trouble = supervisor.report();
    assert_eq!(trouble["event"], "trouble", "{trouble}");
    let reason = trouble["reason"].as_str().expect("a text");
    assert!(reason.starts_with("cannot write the log "), "{reason}");
    supervisor.end();
    assert_eq!(supervisor.last()["event"], "exited");
}
