//! The waiter of Gemini CLI, which types into a pane of tmux. What runs there is a stand-in with an input line like that of Gemini CLI; that
//! Gemini CLI itself takes what is typed is seen in `tests/clis`.

use std::path::PathBuf;

use super::codex::StandIn;
use super::*;
use crate::needs;

/// The conversation that the relay knows the program by.
const CONVERSATION: &str = "s-1";

/// Shows a title and an input line with a draft, and writes what is entered into a file: `FILE TITLE DRAFT ENTER`. It takes what is entered if
/// ENTER is so. As in Gemini CLI a long text is shown as a mark, and Enter just behind what was pasted is a line break.
const STAND_IN: &str = r#"
file=$1 title=$2 line=$3 takes=$4 pasting= text= pasted_at=0
draw() {
  printf '\033]2;%s (project)\007\033[2J\033[H' "$title"
  printf ' > %s\r\n ~/project' "${line:-  Type your message or @path/to/file}"
  printf '\033[1;%dH' $((4 + ${#line}))
}
stty raw -echo
printf '\033[?2004h'
draw
while IFS= read -rsN1 char; do
  case $char in
    $'\033')
      code=
      while IFS= read -rsN1 char && code+=$char && [[ $char != [~A-Za-z] || $code == '[' ]]; do :; done
      case $code in
        '[200~') pasting=1 text= ;;
        '[201~')
          pasting=
          pasted_at=${EPOCHREALTIME/./}
          breaks=${text//[!$'\n']/}
          lines=$((${#breaks} + 1))
          if ((lines > 5)); then
            line+="[Pasted Text: $lines lines]"
          elif ((${#text} > 500)); then
            line+="[Pasted Text: ${#text} chars]"
          else
            line+=$text
          fi
          draw
          ;;
      esac
      ;;
    # bash has the terminal make one of the other.
    $'\r' | $'\n')
      if [[ $pasting ]]; then
        text+=$'\n'
      elif ((${EPOCHREALTIME/./} - pasted_at < 40000)); then
        line+=$'\n'
        draw
      elif [[ $takes ]]; then
        printf '%s' "$line" "$text" >"$file.new"
        mv "$file.new" "$file"
        line=
        draw
      fi
      ;;
    $'\177')
      line=
      draw
      ;;
    *)
      if [[ $pasting ]]; then
        text+=$char
      else
        line+=$char
        draw
      fi
      ;;
  esac
done
"#;

/// What relay runs in place of tmux: it writes down what is asked of that. Where the file `types` is there, a person types behind a text as soon
/// as relay has seen that it was pasted. Where `loses` is, the pane is gone when something is to be pasted.
const ASKS: &str = r#"#!/bin/sh
folder=${0%/*}
echo "$*" >>"$folder/asked"
PATH=${PATH#*:}
case $* in *capture-pane*)
  if [ -e "$folder/types" ]; then
    tmux "$@" >"$folder/shown"
    code=$?
    if grep -q 'Pasted Text' "$folder/shown"; then
      rm "$folder/types"
      tmux send-keys -t pane -l ' and more'
    fi
    cat "$folder/shown"
    exit $code
  fi ;;
esac
case $* in *paste-buffer*)
  if [ -e "$folder/loses" ]; then
    for word in "$@"; do
      shift
      case $word in %*) word=%99 ;; esac
      set -- "$@" "$word"
    done
  fi ;;
esac
exec tmux "$@"
"#;

/// A tmux of the test's own with one pane, and a waiter that types there.
struct Pane {
    folder: tempfile::TempDir,
    waiter: Option<Child>,
}

impl Pane {
    /// Opens a pane in which a stand-in runs.
    fn open(title: &str, draft: &str, takes: &str) -> Self {
        let pane = Self {
            folder: tempfile::tempdir().expect("there is room"),
            waiter: None,
        };
        // What is asked of tmux is written down.
        let script = ASKS;
        let path = pane.folder.path().join("tmux");
        std::fs::write(&path, script).expect("there is room");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("it is this test's own");
        let entered = pane.file("entered");
        let entered = entered.to_str().expect("its name is text");
        let size = ["new-session", "-d", "-s", "pane", "-x", "80", "-y", "10"];
        let program = ["env", "LC_ALL=C.UTF-8", "bash", "-c", STAND_IN, "stand-in"];
        pane.tmux(&[&size[..], &program[..], &[entered, title, draft, takes]].concat());
        until("it is drawn", || pane.screen().contains("~/project"));
        pane
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = std::process::Command::new("tmux");
        let socket = self.file("socket");
        tmux.args(["-u", "-f", "/dev/null", "-S"])
            .arg(socket)
            .args(arguments);
        let output = tmux.env("TERM", "xterm").output().expect("it starts");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "pane"])
    }

    /// Returns what the environment says of where it is.
    fn environment(&self) -> [(&'static str, String); 3] {
        let socket = self.file("socket");
        [
            ("TMUX", format!("{},1,0", socket.display())),
            (
                "TMUX_PANE",
                self.tmux(&["display-message", "-p", "-t", "pane", "#{pane_id}"])
                    .trim()
                    .to_owned(),
            ),
            ("RELAY_TMUX", "1".to_owned()),
        ]
    }

    /// Has a waiter stand by for the program in it.
    fn stands_by(self, relay: &Relay) -> Self {
        let pane = self.has_waiter(relay, None);
        until("it stands by", || can_be_woken(relay));
        pane
    }

    /// Starts a waiter for the program in it, or for another process.
    fn has_waiter(mut self, relay: &Relay, process: Option<u32>) -> Self {
        let own = self.tmux(&["display-message", "-p", "-t", "pane", "#{pane_pid}"]);
        let process = process.map_or_else(|| own.trim().to_owned(), |process| process.to_string());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.folder.path().to_owned()).chain(std::env::split_paths(&path));
        let mut command = relay_command();
        command
            .args(["hook", "gemini", "wait", "--port", &relay.port.to_string()])
            .envs(self.environment())
            .env("PATH", std::env::join_paths(path).expect("a path"))
            .env("RELAY_AGENT", "dev-a")
            .stdin(Stdio::piped());
        let mut waiter = command.spawn().expect("it starts");
        let latest = self.file("latest");
        std::fs::write(&latest, format!("{CONVERSATION} 1")).expect("there is room");
        let said = json!({
            "conversation": CONVERSATION,
            "process": process,
            "settles_ms": 0,
            "latest": latest,
            "turn": 1,
        });
        let mut stdin = waiter.stdin.take().expect("it is piped");
        stdin.write_all(said.to_string().as_bytes()).expect("it reads");
        drop(stdin);
        self.waiter = Some(waiter);
        self
    }

    /// Returns what was asked of tmux.
    fn asked(&self) -> String {
        std::fs::read_to_string(self.file("asked")).unwrap_or_default()
    }

    fn entered(&self) -> Option<String> {
        std::fs::read_to_string(self.file("entered")).ok()
    }

    /// Waits until the waiter has looked several times, and shows that it has done nothing else.
    fn is_left_alone(&self) {
        let looks = || self.asked().matches("capture-pane").count();
        let before = looks();
        until("it looks several times", || looks() > before + 2);
        assert_eq!(self.asked().lines().count(), looks(), "{}", self.asked());
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        if let Some(waiter) = &mut self.waiter {
            let _ended = waiter.kill();
            let _code = waiter.wait();
        }
        self.tmux(&["kill-server"]);
    }
}

/// Tells that a turn begins with what was entered, and shows that nothing else is left.
fn begins(relay: &Relay, entered: &str) {
    let (_pasted, text) = entered.split_once(']').expect("it was pasted");
    let said = json!({"hook_event_name": "BeforeAgent", "session_id": CONVERSATION, "prompt": text});
    assert_eq!(
        posted(relay, "/hooks/gemini?agent=dev-a", &said),
        (204, String::new())
    );
    let ends = json!({"hook_event_name": "AfterAgent", "session_id": CONVERSATION});
    assert_eq!(
        posted(relay, "/hooks/gemini?agent=dev-a", &ends),
        (204, String::new())
    );
    until("it is confirmed", || role(relay, "dev-a")["in_doubt"] == 0);
    assert_eq!(unread(relay, "dev-a"), 0);
}

#[test]
fn what_comes_is_typed_into_an_empty_input_line() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    let pane = Pane::open("◇  Ready", "", "takes").stands_by(&relay);
    send(&relay, "wake up, @dev-b\n\tnow");
    until("it is entered", || pane.entered().is_some());
    let entered = pane.entered().expect("it is there");
    assert!(
        entered.starts_with("[Pasted Text: 7 lines][relay wake ")
            && entered.contains("\n| wake up, \\@dev-b\n| \tnow\n"),
        "{entered}"
    );
    begins(&relay, &entered);
    let buffers = pane.tmux(&["list-buffers"]);
    assert_eq!(buffers, "", "nothing is left of it");
    until("it stands by again", || can_be_woken(&relay));
}

/// Has a person begin to write, just when a message comes.
fn is_held(relay: &Relay) -> Pane {
    let pane = Pane::open("◇  Ready", "", "takes").stands_by(relay);
    pane.tmux(&["send-keys", "-t", "pane", "-l", "a draft"]);
    until("it is written", || pane.screen().starts_with(" > a draft\n"));
    send(relay, "wake up");
    until("it is held", || unread(relay, "dev-a") == 0);
    pane.is_left_alone();
    assert!(pane.screen().starts_with(" > a draft\n"), "{}", pane.screen());
    assert_eq!(pane.entered(), None);
    pane
}

#[test]
fn what_comes_while_a_draft_is_written_is_typed_once_that_is_gone() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    let pane = is_held(&relay);
    pane.tmux(&["send-keys", "-t", "pane", "BSpace"]);
    until("it is entered", || pane.entered().is_some());
    begins(&relay, &pane.entered().expect("it is there"));
}

#[test]
fn what_is_held_is_not_typed_once_another_turn_has_begun() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    let mut pane = is_held(&relay);
    std::fs::write(pane.file("latest"), format!("{CONVERSATION} 2")).expect("there is room");
    pane.tmux(&["send-keys", "-t", "pane", "BSpace"]);
    let waiter = pane.waiter.as_mut().expect("it stands by");
    until("it ends", || {
        waiter.try_wait().expect("it is this test's own").is_some()
    });
    assert!(!pane.asked().contains("paste-buffer"), "{}", pane.asked());
    until("it is back", || unread(&relay, "dev-a") == 1);
}

#[test]
fn a_program_that_does_not_wait_for_its_person_cannot_be_woken() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    let is_left_to_the_next_turn = |pane: Pane| {
        pane.is_left_alone();
        assert!(!can_be_woken(&relay));
        send(&relay, "wake up");
        pane.is_left_alone();
        assert!(!can_be_woken(&relay));
        // It was not handed over meanwhile.
        assert_eq!(relay.bodies("dev-a"), ["wake up"]);
        pane
    };
    for (title, draft) in [
        ("✋  Action Required", ""),
        ("✦  Working…", ""),
        ("a shell", ""),
        ("◇  Ready", "a draft"),
    ] {
        is_left_to_the_next_turn(Pane::open(title, draft, "takes").has_waiter(&relay, None));
    }
    // What is typed there is not for this one.
    let pane = Pane::open("◇  Ready", "", "takes").has_waiter(&relay, Some(std::process::id()));
    is_left_to_the_next_turn(pane);
    let pane = Pane::open("◇  Ready", "a draft", "takes").has_waiter(&relay, None);
    let pane = is_left_to_the_next_turn(pane);
    pane.tmux(&["send-keys", "-t", "pane", "BSpace"]);
    until("it stands by", || can_be_woken(&relay));
}

#[test]
fn what_is_not_taken_is_said_aloud_and_comes_again() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    let pane = Pane::open("◇  Ready", "", "").stands_by(&relay);
    send(&relay, "wake up");
    until("it is said", || pane.asked().contains("has not taken a message"));
    let screen = pane.screen();
    assert!(screen.starts_with(" > [Pasted Text: 6 lines]\n"), "{screen}");
    assert_eq!(pane.asked().matches("paste-buffer").count(), 2, "once, and Enter");
    // It would try again, were the input line empty.
    drop(pane);
    until("it is back", || unread(&relay, "dev-a") == 1);
}

#[test]
fn what_a_person_types_behind_a_paste_is_not_entered_with_it() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    let pane = Pane::open("◇  Ready", "", "takes").stands_by(&relay);
    std::fs::write(pane.file("types"), "").expect("there is room");
    send(&relay, "wake up");
    until("it is said", || pane.asked().contains("has not taken a message"));
    assert_eq!(pane.entered(), None);
    let screen = pane.screen();
    assert!(
        screen.starts_with(" > [Pasted Text: 6 lines] and more\n"),
        "{screen}"
    );
    assert_eq!(pane.asked().matches("paste-buffer").count(), 1, "no Enter");
    drop(pane);
    until("it is back", || unread(&relay, "dev-a") == 1);
}

#[test]
fn a_hook_starts_a_waiter_only_where_its_person_wants_that() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    let pane = Pane::open("◇  Ready", "", "takes");
    let gemini = pane.file("gemini");
    std::fs::copy("/bin/bash", &gemini).expect("there is room");
    // It lives as long as its stdin does.
    let script = r#"echo "$EVENT" | "$RELAY" hook gemini --port "$PORT"; echo done; read -r"#;
    let ends = json!({"hook_event_name": "AfterAgent", "session_id": CONVERSATION});
    let start = |without: &str| {
        let mut command = relay_command();
        let relay_program = command.get_program().to_owned();
        let mut gemini = std::process::Command::new(&gemini);
        command.envs(pane.environment()).env_remove(without);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => gemini.env(name, value),
                None => gemini.env_remove(name),
            };
        }
        gemini
            .args(["-c", script])
            .env("RELAY", relay_program)
            .env("PORT", relay.port.to_string())
            .env("EVENT", ends.to_string())
            .env("RELAY_AGENT", "dev-a")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut gemini = gemini.spawn().expect("it starts");
        let mut said = [0; 5];
        let stdout = gemini.stdout.as_mut().expect("it is piped");
        stdout.read_exact(&mut said).expect("it is over");
        gemini
    };
    let waiters = || {
        let mut ps = std::process::Command::new("ps");
        let output = ps.args(["-A", "-o", "args="]).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let waiter = format!("hook gemini --port {} wait", relay.port);
        said.lines().filter(|line| line.ends_with(&waiter)).count()
    };
    for without in ["RELAY_TMUX", "TMUX", "TMUX_PANE"] {
        let mut gemini = start(without);
        assert_eq!(waiters(), 0, "{without}");
        gemini.kill().expect("it runs");
        gemini.wait().expect("it ends");
    }
    let mut gemini = start("NOTHING");
    until("it stands by", || waiters() == 1);
    gemini.kill().expect("it runs");
    gemini.wait().expect("it ends");
    until("it ends with its program", || waiters() == 0);
    until("it is gone", || programs(&relay).is_empty());
}

#[test]
fn nothing_is_left_in_tmux_of_what_could_not_be_pasted() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    let pane = Pane::open("◇  Ready", "", "takes").stands_by(&relay);
    std::fs::write(pane.file("loses"), "").expect("there is room");
    send(&relay, "wake up");
    until("it was tried, and something else was done", || {
        let asked = pane.asked();
        let behind = asked
            .split_once("paste-buffer")
            .map(|(_, behind)| behind.trim_end());
        behind.is_some_and(|behind| behind.contains('\n'))
    });
    until("nothing is left of it", || {
        pane.tmux(&["list-buffers"]).is_empty()
    });
}

#[test]
fn a_hook_starts_a_waiter_where_gemini_cli_may_be_idle_next_and_may_be_typed_into() {
    let relay = told();
    let wanted = [
        ("RELAY_TMUX", "1"),
        ("TMUX", "/nowhere/tmux,1,0"),
        ("TMUX_PANE", "%0"),
    ];
    for (name, arguments, variables, count) in [
        ("BeforeAgent", vec![], vec![], 0),
        ("AfterTool", vec![], vec![], 0),
        ("AfterAgent", vec!["-p"], vec![], 0),
        ("AfterAgent", vec!["--prompt"], vec![], 0),
        ("AfterAgent", vec!["--prompt=go on"], vec![], 0),
        ("AfterAgent", vec![], vec![("RELAY_TMUX", "0")], 0),
        ("AfterAgent", vec![], vec![("TMUX", "")], 0),
        ("AfterAgent", vec![], vec![("TMUX_PANE", "0")], 0),
        ("AfterAgent", vec!["--prompt-interactive"], vec![], 1),
        ("SessionStart", vec![], vec![], 1),
    ] {
        let all = [&wanted[..], &variables[..]].concat();
        let mut gemini = StandIn::start("gemini", relay.port, &arguments, &all);
        gemini.tells(&json!({"hook_event_name": name, "session_id": CONVERSATION}));
        assert_eq!(gemini.waiters(), count, "{name} {arguments:?} {variables:?}");
        gemini.end();
    }
}
