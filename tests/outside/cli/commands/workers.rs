//! `relay spawn`, `relay release` and the addresses that they call: a relay whose workers are programs of a test's own.

mod kept;
mod refusals;

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::support::http::Response;

/// A relay with a directory of its own, in which is what stands for Claude Code.
struct Yard {
    _directory: TempDir,
    /// Where that is.
    top: PathBuf,
    relay: Relay,
}

impl Yard {
    /// Starts a relay whose workers are a program of the shell. It finds its own directory in `$HERE`.
    fn new(script: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("worker");
        // The system runs no file that somebody still writes, which a process that another test has just started may seem to do.
        let command = json!(["/bin/sh", program]);
        let yard = Self::of(directory, &json!({"claude": {"command": command}}));
        yard.program(script);
        yard
    }

    /// Starts a relay whose `.relay/config.json` says this of workers.
    fn of(directory: TempDir, workers: &Value) -> Self {
        let config = directory.path().join(".relay/config.json");
        fs::create_dir(config.parent().expect("it lies in one")).expect("a directory");
        fs::write(&config, json!({"workers": workers}).to_string()).expect("a file");
        let top = directory.path().canonicalize().expect("it is there");
        let relay = Relay::start_in(&top, &[], &[]);
        ask(relay.port, &["read"]).assert().code(3);
        Self {
            _directory: directory,
            top,
            relay,
        }
    }

    /// Writes the program that the next worker is.
    fn program(&self, script: &str) {
        let (path, new) = (self.path("worker"), self.path("worker.new"));
        let here = self.top.display();
        fs::write(&new, format!("HERE='{here}'\n{script}\n")).expect("a file");
        // The program of one that runs is left as it is.
        fs::rename(&new, &path).expect("it is there");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.join(name)
    }

    /// What a program has written, once it is a whole line.
    fn line(&self, name: &str) -> String {
        let path = self.path(name);
        let read = || fs::read_to_string(&path).unwrap_or_default();
        until(&format!("a line in {name}"), || read().ends_with('\n'));
        read().trim_end().to_owned()
    }

    fn ask(&self, arguments: &[&str]) -> assert_cmd::Command {
        let mut command = ask(self.relay.port, arguments);
        command.current_dir(&self.top);
        command
    }

    /// Has the person start a worker, and returns its number.
    fn spawn(&self, name: &str) -> u64 {
        let spawn = ["spawn", name, "--cli", "claude", "--task", "count", "--json"];
        let assert = self.ask(&spawn).assert().code(0).stderr("");
        let told: Value = serde_json::from_str(&stdout_of(&assert)).expect("JSON");
        let number = told["worker"].as_u64().expect("a number");
        assert_eq!(told, json!({"worker": number, "name": name, "parent": "user"}));
        number
    }

    fn post(&self, path: &str, body: &Value) -> Response {
        let request = Request::post(path, body.to_string());
        self.relay
            .connect()
            .exchange(&request.with("Content-Type", "application/json"))
    }

    /// What the relay says of a worker.
    fn worker(&self, name: &str) -> Value {
        let listed = self.post("/api/workers", &json!({}));
        assert_eq!(listed.status, 200, "{listed:?}");
        let listed = listed.json();
        let mut workers = listed["workers"].as_array().expect("a list").iter();
        workers
            .find(|worker| worker["name"] == name)
            .cloned()
            .unwrap_or_default()
    }

    fn await_state(&self, name: &str, state: &str) -> Value {
        until(&format!("{name} is {state}"), || {
            self.worker(name)["state"] == state
        });
        self.worker(name)
    }

    /// Waits for what the relay tells the person.
    fn told(&self) -> Value {
        let read = ["read", "--wait", "20", "--json"];
        let told = stdout_of(&self.ask(&read).assert().code(0));
        let told: Vec<Value> = serde_json::from_str(&told).expect("JSON");
        let [told] = told.try_into().expect("one message");
        told
    }
}

/// Tells whether a process is there, by its id.
fn runs(pid: &str) -> bool {
    let mut kill = std::process::Command::new("kill");
    let asked = kill.args(["-s", "0", pid]).stderr(Stdio::null()).status();
    asked.expect("kill is installed").success()
}

fn await_end(pid: &str) {
    until(&format!("the end of {pid}"), || !runs(pid));
}

/// Says where it is and does nothing else.
const WAITS: &str = "echo $$ >\"$HERE/$RELAY_AGENT.pid\"\nexec sleep 600";

#[test]
fn a_worker_runs_and_its_end_is_told_to_the_person_with_its_last_lines() {
    let yard = Yard::new("echo one\necho two\nuntil [ -e \"$HERE/go\" ]; do sleep 0.05; done\nexit 3");
    let spawn = ["spawn", "w1", "--cli", "claude", "--task", "count"];
    yard.ask(&spawn)
        .assert()
        .code(0)
        .stdout("w1 runs; relay tells you when it is ready: relay read\n")
        .stderr("");
    let worker = yard.worker("w1");
    let spawned_at = worker["spawned_at"].clone();
    let runs = json!({"worker": 1, "name": "w1", "parent": "user", "cli": "claude", "spawned_at": spawned_at, "state": "started"});
    assert_eq!(worker, runs);
    let lives = "relay spawn: w1 is a worker of user that lives; release it first, or choose another name\n";
    yard.ask(&spawn).assert().code(1).stdout("").stderr(lives);
    fs::write(yard.path("go"), "").expect("a file");
    let told = yard.told();
    assert_eq!(
        (&told["from"], &told["kind"]),
        (&json!("relay"), &json!("status"))
    );
    let body = "Worker \"w1\" has ended (exit code 3). Its last lines:\none\ntwo";
    assert_eq!(told["body"], body);
    let ended = yard.worker("w1");
    assert_eq!(
        (&ended["state"], &ended["status"]),
        (&json!("exited"), &json!("exit code 3"))
    );
    // Its name is free at once.
    yard.program(WAITS);
    assert_eq!(yard.spawn("w1"), 2);
    yard.ask(&["release", "w1"]).assert().code(0);
}

#[test]
fn status_shows_the_workers_that_have_not_ended() {
    let yard = Yard::new(WAITS);
    let shown = || stdout_of(&yard.ask(&["status"]).assert().code(0).stderr(""));
    assert!(!shown().contains("worker"), "there is none");
    yard.spawn("w1");
    yard.spawn("web:w2");
    yard.spawn("w3");
    yard.ask(&["release", "w3"]).assert().code(0);
    yard.await_state("w3", "exited");
    let shown = shown();
    let (_, workers) = shown.split_once("\n\nworker ").expect("they are there");
    let rows = workers
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<Vec<&str>> = rows.collect();
    assert_eq!(rows[0], ["state", "age", "cli", "works", "for"]);
    let of = |row: &Vec<&str>| [row[0], row[1], row[4], row[5]].map(str::to_owned);
    assert_eq!(of(&rows[1]), ["w1", "started", "claude", "user"]);
    assert_eq!(of(&rows[2]), ["web:w2", "started", "claude", "user"]);
    assert_eq!(rows[3].join(" "), "what one has written: relay logs NAME");
    assert_eq!(rows.len(), 4, "{shown}");
    let json = stdout_of(&yard.ask(&["status", "--json"]).assert().code(0));
    let mut json: Value = serde_json::from_str(&json).expect("JSON");
    let mut workers = json["workers"].take();
    let mut expected = yard.post("/api/workers", &json!({})).json()["workers"].take();
    let listed = expected.as_array_mut().expect("a list");
    listed.retain(|worker| worker["name"] != "w3");
    for worker in workers.as_array_mut().expect("a list") {
        let age = worker.as_object_mut().expect("an object").remove("seconds");
        assert!(age.is_some_and(|age| age.is_u64()));
    }
    assert_eq!(workers, expected);
}

#[test]
fn a_worker_is_told_who_it_is_and_its_task_which_may_come_from_stdin() {
    let yard = Yard::new(
        "printf '%s\\n' \"$@\" >\"$HERE/said\"\n\
         echo \"$RELAY_AGENT $RELAY_PROJECT $RELAY_PARENT $RELAY_PORT $PWD\" >\"$HERE/who\"\nexec sleep 600",
    );
    let below = yard.path("below");
    fs::create_dir(&below).expect("a directory");
    let mut spawn = yard.ask(&[
        "spawn", "w1", "--cli", "claude", "--task", "-", "--model", "small",
    ]);
    spawn
        .current_dir(&below)
        .write_stdin("count 'them'\nall of \"them\"\n\n");
    spawn.assert().code(0);
    let who = format!("w1 default user {} {}", yard.relay.port, below.display());
    assert_eq!(yard.line("who"), who);
    let said = yard.line("said");
    assert!(said.ends_with("count 'them'\nall of \"them\""), "{said}");
    assert!(said.contains("\n--model\nsmall\n"), "{said}");
    for (text, refused) in [
        (" \n".to_owned(), "\"task\" is empty; accepted: a text"),
        (
            "x".repeat(64 * 1024 + 1),
            "the task from stdin has more than 65536 bytes, the most that is accepted",
        ),
    ] {
        let mut spawn = yard.ask(&["spawn", "w2", "--cli", "claude", "--task", "-"]);
        let refused = format!("relay spawn: {refused}\n");
        spawn
            .write_stdin(text)
            .assert()
            .code(1)
            .stdout("")
            .stderr(refused);
    }
    assert_eq!(yard.worker("w2"), Value::Null);
    // What ends the last line is no part of it.
    let most = format!("{}\r\n", "x".repeat(64 * 1024));
    let mut spawn = yard.ask(&["spawn", "w2", "--cli", "claude", "--task", "-"]);
    spawn.write_stdin(most).assert().code(0).stderr("");
}

#[test]
fn what_is_released_ends_and_its_name_can_be_used_again() {
    let yard = Yard::new(WAITS);
    for round in 1..=2 {
        assert_eq!(yard.spawn("w1"), round);
        let pid = yard.line("w1.pid");
        fs::remove_file(yard.path("w1.pid")).expect("it is there");
        let release = ["release", "w1", "--reason", "enough"];
        let released = "w1 released\n";
        yard.ask(&release).assert().code(0).stdout(released).stderr("");
        let ended = yard.await_state("w1", "exited");
        assert_eq!(ended["status"], "signal 15");
        await_end(&pid);
        let ended = "relay release: w1 has ended already\n";
        yard.ask(&release).assert().code(1).stdout("").stderr(ended);
    }
    // Who asks for it need not be told.
    yard.ask(&["read"]).assert().code(3);
    let release = ["release", "w1", "--json"];
    yard.spawn("w1");
    let answer = "{\"worker\":3,\"name\":\"w1\",\"parent\":\"user\"}\n";
    yard.ask(&release).assert().code(0).stdout(answer);
}

#[test]
fn a_parent_is_told_why_its_worker_was_released_and_its_worker_s_worker_works_where_it_does() {
    let yard = Yard::new("pwd >\"$HERE/$RELAY_AGENT.pwd\"\nexec sleep 600");
    let below = yard.path("below");
    fs::create_dir(&below).expect("a directory");
    yard.ask(&[
        "spawn", "w1", "--cli", "claude", "--task", "count", "--cwd", "below",
    ])
    .assert()
    .code(0);
    let asked = json!({"from": "w1", "name": "w2", "cli": "claude", "task": "count"});
    assert_eq!(yard.post("/api/spawn", &asked).status, 200);
    for pwd in ["w1.pwd", "w2.pwd"] {
        assert_eq!(yard.line(pwd), below.display().to_string());
    }
    yard.ask(&["release", "w2", "--reason", "too dear"])
        .assert()
        .code(0);
    let peek = stdout_of(&yard.ask(&["peek", "w1"]).assert().code(0));
    let said = "Worker \"w2\" was released by user: too dear";
    assert!(peek.contains(said), "{peek}");
}

#[test]
fn one_that_takes_no_notice_is_killed_with_all_that_it_has_started() {
    let yard = Yard::new(
        "trap '' TERM\n(trap '' TERM; exec sleep 600) &\necho $! >\"$HERE/below\"\necho $$ >\"$HERE/w1.pid\"\nwait\nsleep 600",
    );
    yard.spawn("w1");
    let pids = [yard.line("w1.pid"), yard.line("below")];
    yard.ask(&["release", "w1"]).assert().code(0);
    assert_eq!(yard.worker("w1")["state"], "ending");
    let ending =
        contains("w1 is a worker of user that is ending; try again in a moment, or choose another name");
    let spawn = ["spawn", "w1", "--cli", "claude", "--task", "count"];
    yard.ask(&spawn).assert().code(1).stderr(ending);
    assert_eq!(yard.await_state("w1", "exited")["status"], "signal 9");
    pids.iter().for_each(|pid| await_end(pid));
    yard.program(WAITS);
    assert_eq!(yard.spawn("w1"), 2);
}

/// Has two workers, one of which takes no notice of SIGTERM; returns the ids of all that runs for them.
fn two_workers(yard: &Yard) -> Vec<String> {
    yard.program(
        "sleep 600 &\necho $! >\"$HERE/$RELAY_AGENT.below\"\necho $PPID >\"$HERE/$RELAY_AGENT.above\"\n\
         [ $RELAY_AGENT = w1 ] || trap '' TERM\necho $$ >\"$HERE/$RELAY_AGENT.pid\"\nwait\nsleep 600",
    );
    let mut pids = Vec::new();
    for name in ["w1", "w2"] {
        yard.spawn(name);
        pids.extend(["below", "above", "pid"].map(|what| yard.line(&format!("{name}.{what}"))));
    }
    for pid in &pids {
        assert!(runs(pid), "{pid} runs");
    }
    pids
}

#[test]
fn stop_says_which_workers_have_ended_with_the_relay() {
    for (names, said) in [
        (&["w1"][..], "; 1 worker ended with it: w1"),
        (&["w1", "web:w2"], "; 2 workers ended with it: w1, web:w2"),
    ] {
        let yard = Yard::new(WAITS);
        for name in names {
            yard.spawn(name);
        }
        // One that has ended before is none of them.
        yard.spawn("w3");
        yard.ask(&["release", "w3"]).assert().code(0);
        yard.await_state("w3", "exited");
        let stop = yard.ask(&["stop"]).assert().code(0).stderr("");
        let told = stdout_of(&stop);
        assert!(told.ends_with(&format!(" stopped{said}\n")), "{told}");
    }
    let yard = Yard::new(WAITS);
    yard.spawn("w1");
    let stop = yard.ask(&["stop", "--json"]).assert().code(0).stderr("");
    let told: Value = serde_json::from_str(&stdout_of(&stop)).expect("JSON");
    assert_eq!(told["workers"], json!(["w1"]));
}

#[test]
fn nothing_of_a_worker_is_left_once_relay_is_stopped_or_killed() {
    for way in ["TERM", "INT", "KILL"] {
        let mut yard = Yard::new("");
        let pids = two_workers(&yard);
        yard.relay.signal(way);
        let ended = yard.relay.exit_status();
        assert_eq!(ended.success(), way != "KILL", "{way}: {ended}");
        pids.iter().for_each(|pid| await_end(pid));
    }
}

#[test]
fn a_relay_that_is_started_again_at_once_has_workers_of_the_same_names() {
    let mut yard = Yard::new("");
    let pids = two_workers(&yard);
    yard.program(WAITS);
    yard.relay.signal("KILL");
    yard.relay.exit_status();
    let mut command = relay_command();
    command
        .args(["serve", "--port", &yard.relay.port.to_string()])
        .current_dir(&yard.top)
        .envs(["XDG_DATA_HOME", "XDG_RUNTIME_DIR"].map(|name| (name, yard.relay.runtime.path())))
        .stdout(Stdio::null());
    let _again = Process::start(&mut command);
    until("a relay that listens again", || {
        TcpStream::connect(("127.0.0.1", yard.relay.port)).is_ok()
    });
    assert_eq!(yard.worker("w1"), Value::Null);
    // One of those from before takes no notice of its end for seconds, and has the name for as long.
    assert_eq!((yard.spawn("w1"), yard.spawn("w2")), (1, 2));
    pids.iter().for_each(|pid| await_end(pid));
    assert_eq!(yard.worker("w2")["state"], "started");
}
