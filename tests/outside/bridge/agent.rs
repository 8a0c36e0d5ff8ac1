//! An agent that has started `relay mcp`: it writes lines and reads lines, and closes either end when a test says so.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::PATIENCE;
use crate::support::process::{Process, relay_command, signal};
use crate::support::session::Reply;

/// A running bridge and its agent's ends of the pipes.
pub struct Agent {
    process: Process,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    last: u64,
}

impl Agent {
    /// Starts a bridge to a port of this machine and makes the handshake.
    pub fn start(port: u16) -> Self {
        Self::start_with(port, &[])
    }

    /// Starts a bridge with more arguments and makes the handshake.
    pub fn start_with(port: u16, arguments: &[&str]) -> Self {
        Self::start_by(bridge(port, arguments))
    }

    /// Starts a bridge that is told nothing yet.
    pub fn start_silent(port: u16, arguments: &[&str]) -> Self {
        Self::of(bridge(port, arguments))
    }

    /// Starts a bridge by a command and makes the handshake.
    pub fn start_by(command: Command) -> Self {
        let mut agent = Self::of(command);
        agent.shake_hands();
        agent
    }

    fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(&mut command);
        let stdin = process.child.stdin.take();
        let stdout = process.child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            process,
            stdin,
            lines,
            last: 0,
        }
    }

    pub fn shake_hands(&mut self) {
        self.shake_hands_as("relay-bridge-tests");
    }

    pub fn shake_hands_as(&mut self, name: &str) {
        self.write(&initialize_as(name));
        let answer = self.heard();
        assert_eq!(answer["result"]["serverInfo"]["name"], "relay", "{answer}");
        self.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    /// Writes a line.
    pub fn write(&mut self, line: &str) {
        self.write_bytes(format!("{line}\n").as_bytes());
    }

    /// Writes bytes at once.
    pub fn write_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).expect("the bridge reads its stdin");
    }

    /// Waits for the next line.
    pub fn heard(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("a line on stdout");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Makes sure that nothing is said for some time.
    pub fn says_nothing(&self, time: Duration) {
        assert_eq!(self.lines.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    }

    /// Asks for something and returns the id.
    pub fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        self.write(&request(self.last, method, params));
        self.last
    }

    /// Begins to call a tool and returns the id.
    pub fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and waits for its result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Reply {
        let id = self.begin(tool, arguments);
        self.finish(id)
    }

    /// Waits for the result of a call, which is the next line.
    pub fn finish(&self, id: u64) -> Reply {
        let answer = self.heard();
        assert_eq!(answer["id"], id, "the answer to {id}: {answer}");
        reply_of(&answer)
    }

    pub fn post(&mut self, from: &str, to: &str, body: &str) -> Reply {
        self.call("post_message", &post_arguments(from, to, body))
    }

    pub fn read(&mut self, role: &str) -> Reply {
        self.call("read_messages", &json!({"for": role}))
    }

    /// Begins to wait for a message for a role.
    pub fn wait(&mut self, role: &str, seconds: f64) -> u64 {
        self.begin("read_messages", &json!({"for": role, "wait_seconds": seconds}))
    }

    /// Makes sure that the bridge has heard all lines so far.
    pub fn is_heard(&mut self) {
        let id = self.ask("ping", &json!({}));
        assert_eq!(self.heard(), json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }

    /// Says that it does not want the answer to a request any more.
    pub fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id, "reason": "changed its mind"});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        self.write(&message.to_string());
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal to the bridge, by its name.
    pub fn signal(&self, name: &str) {
        signal(self.process.child.id(), name);
    }

    /// The bridge's process.
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Waits for the bridge to end by itself.
    pub fn exit_status(&mut self) -> ExitStatus {
        self.process.exit_status()
    }

    /// Waits for an orderly end and returns what is still said before it.
    pub fn end(mut self) -> Vec<Value> {
        self.close_stdin();
        let lines = self.lines.iter();
        let said = lines.map(|line| serde_json::from_str(&line).expect("a line is JSON"));
        let said = said.collect();
        assert_eq!(self.exit_status().code(), Some(0));
        assert_eq!(self.process.kill(), "", "on stderr");
        said
    }
}

/// The command of a bridge to a port.
fn bridge(port: u16, arguments: &[&str]) -> Command {
    let mut command = relay_command();
    command.args(["mcp", "--port", &port.to_string()]).args(arguments);
    command
}

pub fn initialize() -> String {
    initialize_as("relay-bridge-tests")
}

/// The handshake of a client of that name.
pub fn initialize_as(name: &str) -> String {
    let client = json!({"name": name, "version": "1.0.0"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    request(0, "initialize", &params)
}

pub fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

pub fn post_arguments(from: &str, to: &str, body: &str) -> Value {
    json!({"from": from, "to": to, "kind": "free", "body": body})
}

/// The result of a tool in a response.
pub fn reply_of(answer: &Value) -> Reply {
    let result = &answer["result"];
    let content = result["content"].as_array();
    let content = content.unwrap_or_else(|| panic!("no result of a tool: {answer}"));
    let texts = content.iter().map(|block| block["text"].as_str());
    Reply {
        texts: texts.map(|text| text.expect("a text").to_owned()).collect(),
        is_error: result["isError"].as_bool().unwrap_or(false),
    }
}
