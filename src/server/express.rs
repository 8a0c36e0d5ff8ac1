//! The short way of a plain `tools/call`: read, called and written without rmcp's service in between.
//!
//! rmcp's service spawns four tasks and opens two channels for each request, which is fine for a handshake and
//! halves the calls per second. So what is certainly a plain call of the session-based protocol versions goes
//! this way, and everything else goes rmcp's. Both end in [`call_tool`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::json::{Any, Keys};
use super::json_rpc::{Envelope, Invalid, VERSION, present, text, wrong};
use super::owner::{Answered, Outcome, Owner, Receipt};
use super::requests::Request;
use crate::engine::{Command, SessionId};
use crate::tools::{ToolResult, described, lift};

/// A plain `tools/call`.
pub struct ToolCall<'a> {
    /// As it was written.
    pub id: &'a RawValue,
    /// The tool.
    pub name: Cow<'a, str>,
    /// Empty if none were given.
    pub arguments: Map<String, Value>,
    /// As it was written, if the client wants to hear of progress.
    pub progress_token: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// Returns the plain call that the message is, or what is wrong with the parameters of one; none if it is
    /// anything else.
    pub fn tool_call(&self) -> Option<Result<ToolCall<'a>, Invalid>> {
        let id = self.id?;
        if self.method.as_deref() != Some("tools/call") {
            return None;
        }
        self.read_call(id).transpose()
    }

    fn read_call(&self, id: &'a RawValue) -> Result<Option<ToolCall<'a>>, Invalid> {
        let Some(raw) = self.params else {
            return Err(self.bad_params(wrong("params", None, PARAMS)));
        };
        if !raw.get().starts_with('{') {
            return Err(self.bad_params(wrong("params", Some(raw), PARAMS)));
        }
        let params = Params::deserialize(&mut serde_json::Deserializer::from_str(raw.get()));
        let params = params.map_err(|error| self.unread_params(raw, &error))?;
        let Some(name) = params.name.and_then(text) else {
            return Err(self.bad_params(wrong("name", params.name, "a string")));
        };
        let arguments = match params.arguments {
            Value::Object(arguments) => arguments,
            Value::Null => Map::new(),
            other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                let given = described(&other);
                return Err(self.bad_params(format_args!("\"arguments\" is {given}; accepted: an object")));
            }
        };
        let mut progress_token = None;
        if let Some(meta) = present(params.meta) {
            let [token, version] = self.members("_meta", meta, ["progressToken", VERSION])?;
            progress_token = self.check_progress_token(token)?;
            if version.is_some() {
                return Ok(None);
            }
        }
        Ok(Some(ToolCall {
            id,
            name,
            arguments,
            progress_token,
        }))
    }
}

/// What the parameters of a call are.
const PARAMS: &str = "an object {\"name\": text, \"arguments\": object}";

/// The parameters of a call: the arguments are read, the rest is left as it was written.
struct Params<'a> {
    name: Option<&'a RawValue>,
    arguments: Value,
    meta: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for Params<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ParamsVisitor)
    }
}

struct ParamsVisitor;

impl<'de> Visitor<'de> for ParamsVisitor {
    type Value = Params<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut params = Params {
            name: None,
            arguments: Value::Null,
            meta: None,
        };
        let mut keys = Keys::new(["name", "arguments", "_meta"]);
        while let Some(key) = map.next_key_seed(&mut keys)? {
            match key {
                Some(0) => params.name = Some(map.next_value()?),
                Some(1) => params.arguments = map.next_value_seed(Any)?,
                Some(_) => params.meta = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(params)
    }
}

/// What came of a tool call.
pub enum Called {
    /// It is answered.
    Done(Done),
    /// It waits.
    Parked(super::owner::Parked),
}

/// An answered tool call.
pub struct Done {
    /// What the caller reads.
    pub result: ToolResult,
    /// Goes with the reply's bytes, if anything hangs on their arrival.
    pub receipt: Option<Receipt>,
}

impl Done {
    /// Translates what the engine said.
    pub fn new(Answered { answer, receipt }: Answered) -> Self {
        Self {
            result: lift::answer(&answer),
            receipt,
        }
    }
}

/// Reads what a tool call asks of the engine.
///
/// # Errors
///
/// The answer that says what is wrong with it.
pub fn command(name: &str, arguments: Map<String, Value>) -> Result<Command, Done> {
    lift::command(name, arguments).map_err(|invalid| Done {
        result: ToolResult::error(invalid),
        receipt: None,
    })
}

/// Asks the engine for a session; returns nothing if the request was cancelled before it came. Both ways, this one and
/// rmcp's, end here.
pub fn ask(
    owner: &Arc<Owner>,
    session: SessionId,
    command: Command,
    request: Option<Request<'_>>,
) -> Option<Called> {
    Some(match owner.call(session, command, request)? {
        Outcome::Answered(answered) => Called::Done(Done::new(answered)),
        Outcome::Parked(parked) => Called::Parked(parked),
    })
}

/// Calls a tool for a session; returns nothing if the request was cancelled before it came.
pub fn call_tool(
    owner: &Arc<Owner>,
    session: SessionId,
    name: &str,
    arguments: Map<String, Value>,
    request: Option<Request<'_>>,
) -> Option<Called> {
    match command(name, arguments) {
        Ok(command) => ask(owner, session, command, request),
        Err(done) => Some(Called::Done(done)),
    }
}

/// Returns the id of the request that a `notifications/cancelled` is about, as it was written.
pub fn cancelled_id<'a>(envelope: &Envelope<'a>) -> Option<&'a str> {
    if envelope.id.is_some() || envelope.method.as_deref() != Some("notifications/cancelled") {
        return None;
    }
    let [request_id] = envelope.members("params", envelope.params?, ["requestId"]).ok()?;
    request_id.map(RawValue::get)
}

/// Writes the JSON-RPC response of a tool call, as the session-based protocol versions have it.
pub fn response(id: &RawValue, result: &ToolResult) -> Bytes {
    let content = result.texts.iter().map(|text| Text { kind: "text", text });
    let response = Response {
        jsonrpc: "2.0",
        id,
        result: CallResult {
            content: content.collect(),
            is_error: result.is_error,
        },
    };
    let room = result
        .texts
        .iter()
        .map(|text| text.len() + text.len() / 8 + 128)
        .sum();
    let mut bytes = Vec::with_capacity(room);
    serde_json::to_writer(&mut bytes, &response).expect("texts are JSON and memory takes them");
    bytes.into()
}

#[derive(Serialize)]
struct Response<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: CallResult<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    content: Vec<Text<'a>>,
    is_error: bool,
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::json_rpc::read;

    fn is_express(message: &str) -> bool {
        match read(message.as_bytes()) {
            Ok(envelope) => matches!(envelope.tool_call(), Some(Ok(_))),
            Err(_) => false,
        }
    }

    #[test]
    fn only_a_plain_call_takes_the_short_way() {
        for plain in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":"a\"b","method":"tools/call","params":{"name":"x","arguments":{}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":3}}}"#,
        ] {
            assert!(is_express(plain), "{plain}");
        }
        for other in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":[]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"},"result":{}}"#,
            r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}]"#,
            r#"{"jsonrpc":"2.0","id":1"#,
        ] {
            assert!(!is_express(other), "{other}");
        }
    }

    #[test]
    fn a_response_is_what_rmcp_would_have_written() {
        let result = ToolResult {
            texts: vec!["a\"b".to_owned(), "é".to_owned()],
            is_error: true,
        };
        let id = RawValue::from_string("7".to_owned()).expect("a number");
        let ours: Value = serde_json::from_slice(&response(&id, &result)).expect("JSON");
        let blocks = result
            .texts
            .iter()
            .map(|text| rmcp::model::ContentBlock::text(text.clone()));
        let mut theirs =
            rmcp::model::ServerResult::CallToolResult(rmcp::model::CallToolResult::error(blocks.collect()));
        theirs.strip_result_type_for_legacy_peer();
        let theirs = rmcp::model::ServerJsonRpcMessage::response(theirs, rmcp::model::RequestId::Number(7));
        assert_eq!(ours, serde_json::to_value(theirs).expect("JSON"));
    }
}
