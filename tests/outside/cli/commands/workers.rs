//! `relay spawn`, `relay release` and the addresses that they call: a relay whose workers are programs of a test's own.

mod kept;

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

#[test]
fn what_cannot_be_started_says_why_and_keeps_no_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let claude = json!({"command": ["no-such-cli"]});
    let yard = Yard::of(directory, &json!({"claude": claude}));
    let missing = "\"no-such-cli\" is not installed: no such program in PATH; install it, or name another command line under workers.claude in .relay/config.json";
    let spawn = ["spawn", "w1", "--cli", "claude", "--task", "count"];
    for _ in 0..2 {
        let said = format!("relay spawn: {missing}\n");
        yard.ask(&spawn).assert().code(1).stdout("").stderr(said);
        assert_eq!(yard.worker("w1"), Value::Null);
    }
    let unknown = contains("unknown role \"w1\"");
    yard.ask(&["send", "w1", "are you there?"])
        .assert()
        .code(1)
        .stderr(unknown);
    let agents = stdout_of(&yard.ask(&["agents"]).assert());
    assert!(!agents.contains("w1"), "{agents}");
    let mut agent = yard.relay.bound_session(Way::Http, "pm&tools=agent-relay");
    let asked = json!({"name": "w2", "cli": "claude", "task": "count"});
    let refused = agent.call("relay_spawn", &asked);
    assert!(refused.is_error, "{refused:?}");
    assert_eq!(refused.texts, [format!("Failed to spawn worker: {missing}")]);
    // Nothing is started by a file that says something else.
    let config = yard.path(".relay/config.json");
    fs::write(&config, "{\"workers\": {\"claude\": 1}}").expect("a file");
    let said = format!(
        "relay spawn: {}: workers.claude is 1; accepted: an object with any of command, arguments, env\n",
        config.display()
    );
    yard.ask(&spawn).assert().code(1).stderr(said);
    // The person was told by the answers.
    yard.ask(&["read"]).assert().code(3);
}

#[test]
fn what_is_asked_wrongly_is_refused_with_what_is_accepted() {
    let yard = Yard::new(WAITS);
    let top = yard.top.display();
    let a_name = "a name has 1 to 32 of A-Z, a-z, 0-9, - and _, and starts with a letter or a digit";
    let takes = "/api/spawn takes the JSON {\"from\": role, \"name\": name, \"cli\": cli, \"task\": text, \"model\": model, \"cwd\": directory}: ";
    for (member, value, status, said) in [
        ("name", json!("dev a"), 400, format!("invalid role name \"dev a\"; {a_name}")),
        ("name", json!(""), 400, format!("invalid role name \"\"; {a_name}")),
        ("name", json!("user"), 400, "\"name\" is \"user\", which is the person's own; accepted: the name of a worker, or one that nobody has".to_owned()),
        ("name", json!("web:user"), 400, "\"name\" is \"web:user\", which is the person's own; accepted: the name of a worker, or one that nobody has".to_owned()),
        ("name", json!("relay"), 400, "role name \"relay\" is relay's own, which tells of workers and reads nothing; accepted: any other name".to_owned()),
        ("name", json!("pm"), 409, "pm is an agent that relay has not started; accepted: the name of a worker, or one that nobody has".to_owned()),
        ("name", Value::Null, 400, format!("{takes}invalid type: null, expected a string")),
        ("cli", json!("cursor"), 409, "no agent CLI \"cursor\"; accepted: claude, codex, gemini, droid, opencode".to_owned()),
        ("cli", json!(""), 400, "\"cli\" is empty; accepted: a text".to_owned()),
        ("task", json!(" "), 400, "\"task\" is empty; accepted: a text".to_owned()),
        ("task", json!("x".repeat(64 * 1024 + 1)), 400, "\"task\" has 65537 bytes; accepted: at most 65536".to_owned()),
        ("model", json!("a\nb"), 400, "\"model\" is \"a\\nb\"; accepted: one line of text, without control characters".to_owned()),
        ("cwd", json!("/"), 409, format!("cwd / is outside of where workers may work: {top}; name it under workers.directories in .relay/config.json of the directory that relay runs in, {top}, to allow it")),
        ("cwd", json!("gone"), 409, format!("cwd {top}/gone: No such file or directory (os error 2); accepted: a directory that is there")),
        ("from", json!("nobody"), 400, "unknown role \"nobody\"; known roles: pm, dev-a, dev-b".to_owned()),
        ("dir", json!("/"), 400, format!("{takes}unknown field `dir`")),
    ] {
        let mut asked = json!({"name": "w1", "cli": "claude", "task": "count"});
        asked[member] = value;
        refuses(&yard.post("/api/spawn", &asked), status, &said);
    }
    for (asked, status, said) in [
        (
            json!({"name": "w9"}),
            400,
            "no worker \"w9\"; workers that live: none",
        ),
        (
            json!({"name": ""}),
            400,
            "no worker \"\"; workers that live: none",
        ),
        (
            json!({"name": "pm"}),
            409,
            "pm is an agent that relay has not started; accepted: the name of a worker, or one that nobody has",
        ),
        (
            json!({"name": "w1", "reason": "a\tb"}),
            400,
            "\"reason\" is \"a\\tb\"; accepted: one line of text, without control characters",
        ),
        (
            json!({}),
            400,
            "/api/release takes the JSON {\"from\": role, \"name\": name, \"reason\": text}: missing field `name`",
        ),
    ] {
        refuses(&yard.post("/api/release", &asked), status, said);
    }
    let all = yard.post("/api/workers", &json!({"all": true}));
    refuses(&all, 400, "/api/workers takes the JSON {}: unknown field `all`");
    yard.spawn("w2");
    let unknown = "relay release: no worker \"w9\"; workers that live: w2\n";
    yard.ask(&["release", "w9"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(unknown);
}

#[track_caller]
fn refuses(response: &Response, status: u16, said: &str) {
    assert_eq!(response.status, status, "{response:?}");
    let error = response.json()["error"].as_str().expect("a text").to_owned();
    assert!(error.contains(said), "{error}");
}

#[test]
fn a_directory_that_is_none_is_refused_before_the_relay_is_asked() {
    let yard = Yard::new(WAITS);
    let spawn = ["spawn", "w1", "--cli", "claude", "--task", "count", "--cwd"];
    for (directory, shown, error) in [
        ("gone", "gone", "No such file or directory (os error 2)"),
        ("worker", "worker", "not a directory"),
        // Nor can it steer the terminal.
        (
            "\u{1b}[2J\u{202e}",
            "\\u{1b}[2J\\u{202e}",
            "No such file or directory (os error 2)",
        ),
    ] {
        let said =
            format!("relay spawn: cannot use --cwd {shown}: {error}; accepted: a directory that is there\n");
        let arguments = [&spawn[..], &[directory]].concat();
        yard.ask(&arguments).assert().code(1).stdout("").stderr(said);
    }
    assert_eq!(yard.worker("w1"), Value::Null);
}

#[test]
fn in_an_agents_own_shell_nothing_is_started_or_ended() {
    let yard = Yard::new(WAITS);
    yard.spawn("w1");
    for variable in [
        "CLAUDECODE",
        "CODEX_THREAD_ID",
        "GEMINI_CLI",
        "OPENCODE",
        "RELAY_PARENT",
    ] {
        for (arguments, said) in [
            (
                &["spawn", "w2", "--cli", "claude", "--task", "count"][..],
                format!(
                    "relay spawn: this is an agent's own shell ({variable} is set), and what is started from here is the person's; use relay_spawn\n"
                ),
            ),
            (
                &["release", "w1"],
                format!(
                    "relay release: this is an agent's own shell ({variable} is set), and any worker is ended from here; use relay_release\n"
                ),
            ),
        ] {
            let mut command = yard.ask(arguments);
            command.env(variable, "1");
            command.assert().code(2).stdout("").stderr(said);
        }
    }
    assert_eq!(yard.worker("w1")["state"], "started");
    assert_eq!(yard.worker("w2"), Value::Null);
}

#[test]
fn a_relay_that_listens_beyond_this_machine_starts_none() {
    let token = "0123456789abcdef";
    let relay = Relay::start_with(&["--host", "0.0.0.0", "--token", token], &[]);
    let off = "this relay starts no workers, since it listens beyond this machine: whoever reaches it could run programs here; start it on 127.0.0.1 only, or start the agent in a terminal of its own";
    let spawn = [
        "spawn", "w1", "--cli", "claude", "--task", "count", "--token", token,
    ];
    let said = format!("relay spawn: {off}\n");
    ask(relay.port, &spawn).assert().code(1).stdout("").stderr(said);
    let release = ["release", "w1", "--token", token];
    let said = "relay release: no worker \"w1\"; workers that live: none\n";
    ask(relay.port, &release).assert().code(1).stdout("").stderr(said);
    let asked = json!({"name": "w1", "cli": "claude", "task": "count"});
    let request = Request::post("/api/spawn", asked.to_string());
    let request = request.with("Content-Type", "application/json");
    let request = request.with("Authorization", &format!("Bearer {token}"));
    let refused = relay.connect().exchange(&request);
    assert_eq!((refused.status, refused.json()), (501, json!({"error": off})));
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

#[test]
fn what_keeps_relay_from_starting_any_worker_is_told_with_what_to_do() {
    let spawn = ["spawn", "w1", "--cli", "claude", "--task", "count"];
    let refuses = |port: u16, said: &str| {
        let said = format!("relay spawn: {said}\n");
        ask(port, &spawn).assert().code(1).stdout("").stderr(said);
    };
    let yard = Yard::new(WAITS);
    let config = yard.path(".relay/config.json");
    fs::remove_file(&config).expect("it is there");
    fs::create_dir(&config).expect("there is room");
    let no_file = format!("cannot read {}: it is no file", config.display());
    refuses(yard.relay.port, &no_file);
    let other = tempfile::tempdir().expect("a directory");
    let nowhere = Relay::start_in(other.path(), &[], &[("XDG_DATA_HOME", ""), ("HOME", "")]);
    refuses(
        nowhere.port,
        "neither XDG_DATA_HOME nor HOME says where its log goes; set one of them for relay",
    );
    let port = free_port();
    let server = relay_command();
    let starts = r#"mkdir gone && cd gone && rmdir ../gone && exec "$0" serve --project gone --port "$1""#;
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", starts])
        .arg(server.get_program())
        .arg(port.to_string())
        .envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(other.path())
        .stdout(Stdio::null());
    let _gone = Process::start(&mut shell);
    until("the relay answers", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    refuses(
        port,
        "the directory that relay was started in was gone already; start relay in one that is there",
    );
}

#[test]
fn a_task_or_a_directory_that_relay_could_be_told_in_part_alone_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;

    let yard = Yard::new(WAITS);
    let spawn = ["spawn", "w1", "--cli", "claude", "--task", "-"];
    let long = format!("{}\n\n\nand more", "x".repeat(64 * 1024));
    for (task, said) in [
        (
            long.into_bytes(),
            "the task from stdin has more than 65536 bytes, the most that is accepted",
        ),
        (
            b"caf\xe9!".to_vec(),
            "cannot read the task from stdin: invalid utf-8",
        ),
    ] {
        let said = starts_with(format!("relay spawn: {said}"));
        let mut command = yard.ask(&spawn);
        command.write_stdin(task).assert().code(1).stdout("").stderr(said);
    }
    let ours = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY);
    let ours = ours.expect("a terminal");
    rustix::pty::unlockpt(&ours).expect("it is ours");
    let path = rustix::pty::ptsname(&ours, Vec::new()).expect("it has a path");
    let theirs = fs::File::open(path.into_string().expect("it is text")).expect("it is there");
    let mut at_terminal = relay_command();
    at_terminal.args(spawn).stdin(theirs);
    at_terminal.args(["--port", &yard.relay.port.to_string()]);
    let output = at_terminal.output().expect("it starts");
    let said =
        "relay spawn: --task - takes the task from stdin, which is a terminal; write it behind --task\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    assert_eq!(output.status.code(), Some(2));
    let directory = yard.top.join(std::ffi::OsStr::from_bytes(b"b\xe9"));
    fs::create_dir(&directory).expect("there is room");
    let mut command = yard.ask(&["spawn", "w1", "--cli", "claude", "--task", "count"]);
    command.arg("--cwd").arg(&directory);
    let said = contains(" is not UTF-8, and goes to relay as text; name it otherwise");
    command.assert().code(1).stdout("").stderr(said);
    assert_eq!(yard.worker("w1"), Value::Null);
}
