//! MCP sessions over both transports, as an agent has them: tools are called and answered.

use std::time::Duration;

use serde_json::{Value, json};

use super::http::{Connection, Request, Response};
use super::sse::{EventStream, Seen};

/// How a session talks to the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// HTTP+SSE of protocol version 2024-11-05.
    Sse,
    /// The same with calls as protocol version 2026-07-28 has them, which relay leaves to its MCP library.
    ModernSse,
    /// Streamable HTTP at `/mcp`, without a session id.
    Http,
    /// Streamable HTTP as protocol version 2026-07-28 has it, which relay leaves to its MCP library too.
    Modern,
}

pub const WAYS: [Way; 4] = [Way::Sse, Way::ModernSse, Way::Http, Way::Modern];

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub texts: Vec<String>,
    pub is_error: bool,
}

/// The id of a call that is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call(u64);

/// A connection that calls tools. Dropping it closes all that it has open.
pub struct Session {
    way: Way,
    /// Carries the calls, and over streamable HTTP their answers too.
    pub calls: Connection,
    /// Carries the answers over HTTP+SSE.
    pub stream: Option<EventStream>,
    /// Where calls are posted to.
    pub target: String,
    last: u64,
}

impl Session {
    /// Opens a session whose replies are as long as what is in them: nobody shows them to a model.
    pub fn open(port: u16, way: Way, role: Option<&str>) -> Self {
        let agent = role.map(|role| format!("agent={role}&")).unwrap_or_default();
        Self::open_at(port, way, &format!("?{agent}reply_kb=100000"))
    }

    /// Opens a session whose address ends so.
    pub fn open_at(port: u16, way: Way, query: &str) -> Self {
        let calls = Connection::open(port);
        let (stream, target) = match way {
            Way::Sse | Way::ModernSse => {
                let request = Request::get(&format!("/sse{query}"));
                let mut stream = EventStream::open(Connection::open(port), &request);
                let hello = stream.event();
                assert_eq!(hello.event.as_deref(), Some("endpoint"), "{hello:?}");
                (Some(stream), hello.data.expect("an address"))
            }
            Way::Http | Way::Modern => (None, format!("/mcp{query}")),
        };
        Self {
            way,
            calls,
            stream,
            target,
            last: 0,
        }
    }

    /// The id under which a client of HTTP+SSE finds its session again.
    pub fn id(&self) -> &str {
        let id = self.target.strip_prefix("/message?sessionId=");
        id.expect("the address of a session over HTTP+SSE")
    }

    /// Calls a tool and waits for its result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Reply {
        let call = self.begin(tool, arguments);
        self.finish(call)
    }

    /// Calls a tool.
    pub fn begin(&mut self, tool: &str, arguments: &Value) -> Call {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Waits for the result of a call.
    pub fn finish(&mut self, call: Call) -> Reply {
        let response = self.answer(call);
        let result = &response["result"];
        let content = result["content"].as_array();
        let content = content.unwrap_or_else(|| panic!("no result of a tool: {response}"));
        let texts = content.iter().map(|block| block["text"].as_str());
        Reply {
            texts: texts.map(|text| text.expect("a text").to_owned()).collect(),
            is_error: result["isError"].as_bool().unwrap_or(false),
        }
    }

    /// Asks for anything and waits for the JSON-RPC response.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let call = self.request(method, params);
        self.answer(call)
    }

    fn request(&mut self, method: &str, params: Value) -> Call {
        self.last += 1;
        let request = self.request_of(self.last, method, params);
        self.calls.send(&request.bytes());
        if self.stream.is_some() {
            let response = self.calls.response();
            assert_eq!((response.status, response.text()), (202, String::new()));
        }
        Call(self.last)
    }

    /// Makes the request that asks for something in this session's way.
    pub fn request_of(&self, id: u64, method: &str, mut params: Value) -> Request {
        if matches!(self.way, Way::Modern | Way::ModernSse) {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = Request::post(&self.target, message.to_string());
        match self.way {
            Way::Sse | Way::ModernSse | Way::Http => request,
            Way::Modern => request
                .with("MCP-Protocol-Version", "2026-07-28")
                .with("Mcp-Method", method)
                .with("Mcp-Name", &name),
        }
    }

    fn answer(&mut self, call: Call) -> Value {
        let message = match self.way {
            Way::Sse | Way::ModernSse => self.heard(),
            Way::Http | Way::Modern => message_of(&self.calls.response()),
        };
        assert_eq!(message["id"], call.0, "the answer to call {}: {message}", call.0);
        message
    }

    /// Makes sure that nothing comes for some time.
    pub fn hears_nothing(&mut self, time: Duration) {
        let stream = self.stream.as_mut().expect("a session over HTTP+SSE");
        assert_eq!(stream.next(time), Seen::Nothing);
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let response = self
            .calls
            .exchange(&Request::post(&self.target, message.to_string()));
        assert_eq!((response.status, response.text()), (202, String::new()));
    }

    /// Cancels a call.
    pub fn cancel(&mut self, call: Call) {
        self.notify("notifications/cancelled", &json!({"requestId": call.0}));
    }

    /// Posts a message and returns its id.
    pub fn post(&mut self, from: &str, to: &str, body: &str) -> String {
        let arguments = json!({"from": from, "to": to, "kind": "free", "body": body});
        self.call("post_message", &arguments).posted()
    }

    /// Reads all that waits for a role.
    pub fn read(&mut self, role: &str) -> Reply {
        self.call("read_messages", &json!({"for": role}))
    }

    /// Begins to wait for a message for a role.
    pub fn wait(&mut self, role: &str, seconds: f64) -> Call {
        self.begin("read_messages", &json!({"for": role, "wait_seconds": seconds}))
    }

    /// Begins to wait for a message for a role, and asks to be told of progress.
    pub fn wait_with_progress(&mut self, role: &str, seconds: f64, token: &Value) -> Call {
        let params = json!({
            "name": "read_messages",
            "arguments": {"for": role, "wait_seconds": seconds},
            "_meta": {"progressToken": token},
        });
        self.request("tools/call", params)
    }

    /// Waits for the next message in the stream.
    pub fn heard(&mut self) -> Value {
        let stream = self.stream.as_mut().expect("a session over HTTP+SSE");
        let data = stream.event().data.expect("an event with data");
        serde_json::from_str(&data).expect("an event's data is JSON")
    }

    /// Reads nothing, so that a role has had a session, and has been told of the start if it is to be.
    pub fn hear_of_start(&mut self, role: &str) {
        let reply = self.read(role);
        assert_eq!(reply.bodies(), [""; 0], "{reply:?}");
    }
}

impl Reply {
    /// A result that is one text.
    pub fn of(text: &str) -> Self {
        Self {
            texts: vec![text.to_owned()],
            is_error: false,
        }
    }

    /// A result that says what was wrong.
    pub fn error(reason: &str) -> Self {
        Self {
            texts: vec![format!("Error: {reason}")],
            is_error: true,
        }
    }

    /// The id in the answer to a post.
    pub fn posted(&self) -> String {
        let answer = self.json();
        let id = answer["id"].as_str();
        let id = id.unwrap_or_else(|| panic!("no id: {self:?}")).to_owned();
        assert_eq!(self.texts[0], json!({"id": id}).to_string());
        // The first reply to an agent behind a start tells of that.
        let notes = self.texts[1..]
            .iter()
            .filter(|text| !text.starts_with("relay started at "));
        let notes: Vec<&String> = notes.collect();
        let is_note = |text: &&String| text.starts_with("note: ");
        assert!(notes.len() <= 1 && notes.iter().all(is_note), "{self:?}");
        id
    }

    /// The first text, which is JSON.
    pub fn json(&self) -> Value {
        assert!(!self.is_error, "{self:?}");
        serde_json::from_str(&self.texts[0]).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The messages that were read.
    pub fn messages(&self) -> Vec<Value> {
        let Value::Array(messages) = self.json() else {
            panic!("no messages: {self:?}");
        };
        messages
    }

    /// The bodies that were read, in their order; a redelivered one stands behind `again: `.
    pub fn bodies(&self) -> Vec<String> {
        let body = |message: &Value| {
            let body = message["body"].as_str().expect("a body");
            match message.get("redelivered") {
                None => body.to_owned(),
                Some(Value::Bool(true)) => format!("again: {body}"),
                Some(other) => panic!("redelivered is {other}"),
            }
        };
        self.messages().iter().map(body).collect()
    }
}

/// The message that a response ends in, be it JSON or a stream of events.
pub fn message_of(response: &Response) -> Value {
    messages_of(response).pop().expect("a message")
}

/// All messages in a response.
pub fn messages_of(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{response:?}");
    if response.header("content-type") == Some("application/json") {
        return vec![response.json()];
    }
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    let text = response.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let data = data.map(str::trim).filter(|data| !data.is_empty());
    data.map(|data| serde_json::from_str(data).expect("an event's data is JSON"))
        .collect()
}

/// How long a test listens to be sure that nothing comes.
pub const QUIET: Duration = Duration::from_millis(200);
