use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use serde_json::json;

use super::scene::{Scene, runs};
use crate::support::process::relay_command;
use crate::support::{PATIENCE, until};

/// A person's terminal, in which `relay attach w1` runs.
struct Person {
    child: Child,
    ours: File,
    theirs: File,
    read: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// All that was written to it.
    written: Vec<u8>,
}

fn attach(scene: &Scene) -> Command {
    let mut command = relay_command();
    command.env("XDG_DATA_HOME", scene.directory.path());
    command.args(["attach", "w1"]);
    command
}

/// Makes a terminal; returns the person's end, and the program's.
fn terminal(rows: u16, cols: u16) -> (File, File) {
    let ours = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    rustix::pty::grantpt(&ours).expect("it is ours");
    rustix::pty::unlockpt(&ours).expect("it is ours");
    let path = rustix::pty::ptsname(&ours, Vec::new()).expect("it has a path");
    let path = path.into_string().expect("it is text");
    let mut options = File::options();
    let theirs = options.read(true).write(true).open(path).expect("it is there");
    tcsetwinsize(&ours, winsize(rows, cols)).expect("it is a terminal");
    (File::from(ours), theirs)
}

/// Reads what a terminal is given, in a thread.
fn read_from(ours: &File) -> Receiver<Vec<u8>> {
    let (tell, read) = channel();
    let mut reads = ours.try_clone().expect("there is room");
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count) = reads.read(&mut bytes) {
            if tell.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    read
}

/// Whether keys are given as lines, and shown.
fn is_as_before(terminal: &File) -> bool {
    let modes = tcgetattr(terminal).expect("it is a terminal").local_modes;
    modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
}

impl Person {
    /// Has one attach, and waits until it sees the worker.
    fn attach(scene: &Scene, rows: u16, cols: u16) -> Self {
        let mut person = Self::begin(scene, rows, cols);
        person.sees("ready");
        person
    }

    fn begin(scene: &Scene, rows: u16, cols: u16) -> Self {
        let (ours, theirs) = terminal(rows, cols);
        let same = || Stdio::from(theirs.try_clone().expect("there is room"));
        let mut command = attach(scene);
        command.stdin(same()).stdout(same()).stderr(same());
        let read = read_from(&ours);
        let side = |length| std::num::NonZeroU16::new(length).expect("it is one");
        Self {
            screen: vt100::Parser::new(side(rows), side(cols), 0),
            child: command.spawn().expect("it was built"),
            ours,
            theirs,
            read,
            written: Vec::new(),
        }
    }

    /// Waits until its screen shows a text.
    fn sees(&mut self, text: &str) {
        while !self.screen.screen().contents().contains(text) {
            let Ok(bytes) = self.read.recv_timeout(PATIENCE) else {
                panic!("no {text:?} in:\n{}", self.screen.screen().contents());
            };
            self.screen.process(&bytes);
            self.written.extend(bytes);
        }
    }

    /// Tells whether its screen shows a text, once nothing has come for a moment.
    fn shows(&mut self, text: &str) -> bool {
        while let Ok(bytes) = self.read.recv_timeout(Duration::from_millis(100)) {
            self.screen.process(&bytes);
            self.written.extend(bytes);
        }
        self.screen.screen().contents().contains(text)
    }

    fn types(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).expect("it is read");
    }

    /// Waits until it has ended, and returns its code and what its terminal shows then below how it said that one leaves.
    fn ends(&mut self) -> (Option<i32>, String) {
        let mut status = None;
        until("it ends", || {
            status = self.child.try_wait().expect("it is a child");
            status.is_some()
        });
        let status = status.expect("it has ended");
        while let Ok(bytes) = self.read.recv_timeout(Duration::from_millis(100)) {
            self.screen.process(&bytes);
            self.written.extend(bytes);
        }
        let shown = self.screen.screen();
        assert!(!shown.alternate_screen() && !shown.hide_cursor() && !shown.bracketed_paste());
        let shown = shown.contents();
        let said = shown.strip_prefix("w1: Ctrl-] leaves it, and it goes on\n");
        (status.code(), said.expect("it was said").to_owned())
    }

    fn is_as_before(&self) -> bool {
        is_as_before(&self.theirs)
    }

    fn signals(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn winsize(ws_row: u16, ws_col: u16) -> Winsize {
    Winsize {
        ws_row,
        ws_col,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// It says back what it reads, and how large its terminal is.
const ECHOES: &str = r#"
printf 'before\n\033[?2004h\033[?25l\033]0;title\007ready\n'
while read line; do echo "got $line in $(stty size)"; done"#;

#[test]
fn a_person_sees_the_screen_as_it_is_types_and_leaves_and_the_worker_goes_on() {
    let scene = Scene::new();
    let (mut supervisor, pid) = scene.run(ECHOES);
    until("it is ready", || scene.log().contains("ready"));
    let mut person = Person::attach(&scene, 30, 100);
    person.sees("before");
    assert!(!person.is_as_before());
    person.types("hello\r");
    person.sees("got hello in 30 100");
    tcsetwinsize(&person.ours, winsize(20, 60)).expect("it is a terminal");
    // Nobody leads a session there, to whom the system would say so.
    person.signals(Signal::WINCH);
    // It comes beside the keys, before them or behind them.
    until("the worker has the window's size", || {
        person.types("again\r");
        person.shows("got again in 20 60")
    });
    // To the worker they are keys as others.
    person.types("x\u{1d}and more");
    let ended = person.ends();
    assert_eq!(ended, (Some(0), "left w1, which goes on".to_owned()));
    assert!(person.is_as_before());
    let title = b"title";
    assert!(!person.written.windows(title.len()).any(|part| part == title));
    assert!(runs(pid));
    let mut second = Person::attach(&scene, 24, 80);
    second.sees("got again in 20 60");
    second.types("\r");
    second.sees("got x in 24 80");
    drop(second);
    supervisor.end();
    assert_eq!(supervisor.last()["status"], json!({"signal": 15}));
}

#[test]
fn several_see_the_same_and_hear_of_the_end() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run("echo ready; read line; echo \"got $line\"; exit 4");
    until("it is ready", || scene.log().contains("ready"));
    let mut one = Person::attach(&scene, 24, 80);
    let mut other = Person::attach(&scene, 24, 80);
    one.types("hello\r");
    for person in [&mut one, &mut other] {
        let (code, shown) = person.ends();
        assert_eq!(
            (code, shown.as_str()),
            (Some(0), "w1: it has ended with exit code 4")
        );
        assert!(person.is_as_before());
    }
    assert_eq!(
        supervisor.last()["last_lines"],
        json!(["ready", "hello", "got hello"])
    );
}

#[test]
fn a_terminal_is_given_back_when_a_signal_ends_it_and_when_the_supervisor_is_killed() {
    let scene = Scene::new();
    let (mut supervisor, _) = scene.run(ECHOES);
    until("it is ready", || scene.log().contains("ready"));
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut person = Person::attach(&scene, 24, 80);
        person.signals(signal);
        assert_eq!(person.ends().0, Some(0));
        assert!(person.is_as_before());
    }
    let mut person = Person::attach(&scene, 24, 80);
    supervisor.kill();
    let (code, shown) = person.ends();
    assert_eq!(
        (code, shown.as_str()),
        (Some(1), "relay attach: the supervisor of w1 has ended")
    );
    assert!(person.is_as_before());
}

#[test]
fn who_cannot_attach_is_told_why() {
    let scene = Scene::new();
    let said = |command: &mut Command| {
        let output = command.output().expect("it ends");
        let said = String::from_utf8(output.stderr).expect("it is text");
        (output.status.code(), said)
    };
    let no_terminal = "relay attach: it needs a terminal, for stdin and stdout; relay logs w1 shows what the worker has written\n";
    assert_eq!(said(&mut attach(&scene)), (Some(2), no_terminal.to_owned()));
    let in_agent = "relay attach: this is an agent's own shell (CLAUDECODE is set), and a worker's terminal is the person's; relay logs w1 \
                    shows what it has written\n";
    assert_eq!(
        said(attach(&scene).env("CLAUDECODE", "1")),
        (Some(2), in_agent.to_owned())
    );
}

/// It says how large its terminal is when that changes, and draws a line over its whole width and beyond.
const MEASURES: &str = r#"
echo ready
before=
while :; do
    size=$(stty size)
    if [ "$size" != "$before" ]; then
        before=$size
        cols=${size#* }
        printf '\033[2J\033[Hready at %s\n%sbeyond\n' "$size" "$(head -c "$cols" /dev/zero | tr '\0' x)"
    fi
    sleep 0.02
done"#;

/// The rows that a person sees, as far as something is in them.
fn rows(person: &Person) -> Vec<String> {
    let shown = person.screen.screen();
    let rows = shown.rows(0, 200).map(|row| row.trim_end().to_owned());
    rows.filter(|row| !row.is_empty()).collect()
}

#[test]
fn the_smallest_of_several_windows_decides_and_each_shows_it_whole() {
    let scene = Scene::new();
    let (_supervisor, _) = scene.run(MEASURES);
    until("it is ready", || scene.log().contains("ready"));
    let mut wide = Person::attach(&scene, 20, 100);
    wide.sees("ready at 20 100");
    let mut high = Person::attach(&scene, 40, 60);
    let expected = ["ready at 20 60".to_owned(), "x".repeat(60), "beyond".to_owned()];
    for person in [&mut wide, &mut high] {
        person.sees("ready at 20 60");
        assert!(person.shows("beyond"));
        assert_eq!(rows(person), expected);
    }
    high.types("\u{1d}");
    assert_eq!(high.ends().0, Some(0));
    wide.sees("ready at 20 100");
    assert!(wide.shows("beyond"));
    assert_eq!(rows(&wide)[1], "x".repeat(100));
}

#[test]
fn the_key_that_leaves_is_heard_behind_more_than_a_worker_takes() {
    let scene = Scene::new();
    let (_supervisor, pid) = scene.run("stty raw -echo; printf ready; exec sleep 600");
    until("it is ready", || scene.log().contains("ready"));
    let mut person = Person::attach(&scene, 24, 80);
    let mut terminal = person.ours.try_clone().expect("there is room");
    // A person's terminal takes no more than is read.
    std::thread::spawn(move || {
        let _gone = terminal.write_all("paste ".repeat(300_000).as_bytes());
        let _gone = terminal.write_all(b"\x1d");
    });
    let left = "left w1, which goes on; it has not taken all that was typed";
    assert_eq!(person.ends(), (Some(0), left.to_owned()));
    assert!(person.is_as_before() && runs(pid));
}

#[test]
fn a_long_paste_reaches_a_worker_that_reads_late_byte_for_byte() {
    const BYTES: usize = 200 * 1024;
    let scene = Scene::new();
    let script = format!(
        r#"stty raw -echo; printf ready; while ! [ -e "$DIRECTORY/now" ]; do sleep 0.05; done
head -c {BYTES} >"$DIRECTORY/pasted"; printf taken; exec sleep 600"#
    );
    let (_supervisor, _) = scene.run(&script);
    until("it is ready", || scene.log().contains("ready"));
    let mut person = Person::attach(&scene, 24, 80);
    let pasted: String = (0..BYTES / 8).map(|number| format!("{number:07}\n")).collect();
    // Until it reads, its terminal takes a few kilobytes.
    person.types(&pasted);
    std::fs::write(scene.path("now"), "").expect("there is room");
    person.sees("taken");
    assert!(scene.text("pasted") == pasted, "what came is something else");
}

#[test]
fn nobody_more_is_attached_than_may_be() {
    let scene = Scene::new();
    let (_supervisor, _) = scene.run(ECHOES);
    until("it is ready", || scene.log().contains("ready"));
    let socket = scene.path("relay/projects/default/workers/w1.sock");
    let eight: Vec<UnixStream> = (0..8)
        .map(|_| {
            let mut stream = UnixStream::connect(&socket).expect("it listens");
            // What it is shown says that it is attached.
            stream.read_exact(&mut [0; 5]).expect("it is shown something");
            stream
        })
        .collect();
    let mut person = Person::begin(&scene, 24, 80);
    let refused = "relay attach: w1: 8 are attached to it already, as many as may be; detach one of them";
    let (code, said) = person.ends();
    assert_eq!((code, said.replace('\n', "").as_str()), (Some(1), refused));
    assert!(person.is_as_before());
    drop(eight);
}

#[test]
fn a_signal_that_comes_while_the_terminal_is_taken_gives_it_back() {
    let scene = Scene::new();
    let (_supervisor, _) = scene.run(ECHOES);
    until("it is ready", || scene.log().contains("ready"));
    let (ours, theirs) = terminal(24, 80);
    // It takes nothing more, so that what draws there waits.
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&theirs));
    let mut fill = File::options();
    let fill = std::os::unix::fs::OpenOptionsExt::custom_flags(
        fill.write(true),
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    let mut fill = fill.open(path).expect("it is there");
    let before = tcgetattr(&theirs).expect("it is a terminal");
    let mut raw = before.clone();
    raw.make_raw();
    // As what is raw is written, to the last byte that there is room for.
    tcsetattr(&theirs, OptionalActions::Now, &raw).expect("it is a terminal");
    while fill.write(b"x").is_ok() {}
    tcsetattr(&theirs, OptionalActions::Now, &before).expect("it is a terminal");
    let mut command = attach(&scene);
    command.stdin(theirs.try_clone().expect("there is room"));
    command.stdout(theirs.try_clone().expect("there is room"));
    let mut child = command.stderr(Stdio::null()).spawn().expect("it was built");
    until("it has taken the terminal", || !is_as_before(&theirs));
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    let read = read_from(&ours);
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert!(is_as_before(&theirs));
    drop(read);
}

#[test]
fn who_attaches_to_one_that_has_ended_or_never_was_is_told_so() {
    let scene = Scene::new();
    let (_ours, theirs) = terminal(24, 80);
    let said = || {
        let same = || theirs.try_clone().expect("there is room");
        let mut command = attach(&scene);
        let output = command.stdin(same()).stdout(same()).output().expect("it ends");
        let text = String::from_utf8(output.stderr).expect("it is text");
        (output.status.code(), text)
    };
    let never = "relay attach: no worker w1 has run\n".to_owned();
    assert_eq!(said(), (Some(3), never));
    let (mut supervisor, _) = scene.run("echo one");
    supervisor.last();
    let ended = "relay attach: w1 has ended; relay logs w1 shows what it has written\n".to_owned();
    assert_eq!(said(), (Some(3), ended.clone()));
    // As where its supervisor was killed.
    let socket = scene.path("relay/projects/default/workers/w1.sock");
    drop(std::os::unix::net::UnixListener::bind(socket).expect("there is room"));
    assert_eq!(said(), (Some(3), ended));
    assert!(is_as_before(&theirs));
}

#[test]
fn a_worker_that_is_named_with_a_project_is_called_by_the_one_that_it_is_of() {
    let scene = Scene::new();
    let mut order = scene.order(&["sh", "-c", "stty -echo; read line; exit 4"]);
    order["files"]["directory"] = json!(scene.path("relay/projects/web/workers"));
    // So a relay of one project calls its own.
    for name in ["web:w1", "default:w1"] {
        let mut supervisor = super::scene::Supervisor::start(&order);
        supervisor.started();
        let (mut ours, theirs) = terminal(24, 80);
        let _read = read_from(&ours);
        let same = || theirs.try_clone().expect("there is room");
        let mut command = relay_command();
        command.env("XDG_DATA_HOME", scene.directory.path());
        command.args(["attach", name]).stdin(same()).stdout(same());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it was built");
        until("it ends", || {
            ours.write_all(b"\r").expect("it is read");
            child.try_wait().expect("it is a child").is_some()
        });
        let output = child.wait_with_output().expect("it has ended");
        let said = "web:w1: Ctrl-] leaves it, and it goes on\nweb:w1: it has ended with exit code 4\n";
        assert_eq!(String::from_utf8_lossy(&output.stderr), said, "{name}");
        assert_eq!(output.status.code(), Some(0));
        supervisor.last();
    }
}
