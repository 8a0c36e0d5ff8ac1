use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::json;

use super::scene::{Scene, runs};
use super::support::process::relay_command;
use super::support::{PATIENCE, until};

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

impl Person {
    fn attach(scene: &Scene, rows: u16, cols: u16) -> Self {
        let ours = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        rustix::pty::grantpt(&ours).expect("it is ours");
        rustix::pty::unlockpt(&ours).expect("it is ours");
        let path = rustix::pty::ptsname(&ours, Vec::new()).expect("it has a path");
        let path = path.into_string().expect("it is text");
        let theirs = File::options()
            .read(true)
            .write(true)
            .open(path)
            .expect("it is there");
        let ours = File::from(ours);
        let same = || Stdio::from(theirs.try_clone().expect("there is room"));
        let mut command = attach(scene);
        command.stdin(same()).stdout(same()).stderr(same());
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
        let side = |length| std::num::NonZeroU16::new(length).expect("it is one");
        let mut person = Self {
            screen: vt100::Parser::new(side(rows), side(cols), 0),
            child: {
                let size = winsize(rows, cols);
                tcsetwinsize(&ours, size).expect("it is a terminal");
                command.spawn().expect("it was built")
            },
            ours,
            theirs,
            read,
            written: Vec::new(),
        };
        person.sees("ready");
        person
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

    /// Waits until it has ended, and returns its code and what its terminal shows then.
    fn ends(&mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("it ends");
        while let Ok(bytes) = self.read.recv_timeout(Duration::from_millis(100)) {
            self.screen.process(&bytes);
            self.written.extend(bytes);
        }
        let shown = self.screen.screen();
        assert!(!shown.alternate_screen() && !shown.hide_cursor() && !shown.bracketed_paste());
        (status.code(), shown.contents())
    }

    /// Whether keys are given as lines, and shown.
    fn is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.theirs).expect("it is a terminal").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
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
    assert_eq!(said(&mut attach(&scene)), (Some(1), no_terminal.to_owned()));
    let in_agent = "relay attach: this is an agent's own shell (CLAUDECODE is set), and a worker's terminal is the person's; relay logs w1 \
                    shows what it has written\n";
    assert_eq!(
        said(attach(&scene).env("CLAUDECODE", "1")),
        (Some(1), in_agent.to_owned())
    );
}
