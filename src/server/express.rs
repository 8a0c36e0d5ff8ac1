//! The short way of a plain `tools/call`: read, called and written without rmcp's service in between.
//!
//! rmcp's service spawns four tasks and opens two channels for each request, which is fine for a handshake and
//! halves the calls per second. So what is certainly a plain call of the session-based protocol versions goes
//! this way, and everything else, errors of the protocol among them, goes rmcp's. Both end in [`call_tool`].

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::owner::{Answered, Outcome, Owner, Receipt};
use crate::engine::{CallId, SessionId};
use crate::tools::{ToolResult, lift};

/// A JSON-RPC message, read as far as it takes to know what to do with it.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    /// The request's id as it was written, `null` too; none on a notification.
    #[serde(borrow, default, deserialize_with = "as_written")]
    pub id: Option<&'a RawValue>,
    /// The method; none on a response.
    #[serde(borrow)]
    pub method: Option<Cow<'a, str>>,
    /// The parameters as they were written.
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// Takes a value as it was written; serde would make nothing of `null`.
fn as_written<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What the bytes of a request body are.
pub enum Read<'a> {
    /// A JSON object that may be a JSON-RPC message.
    Message(Envelope<'a>),
    /// JSON, but nothing that could be one; says why.
    OtherJson(serde_json::Error),
    /// No JSON; says where it breaks.
    NotJson(serde_json::Error),
}

/// Reads a request body.
pub fn read(body: &[u8]) -> Read<'_> {
    match serde_json::from_slice(body) {
        Ok(envelope) => Read::Message(envelope),
        Err(error) if error.is_data() => Read::OtherJson(error),
        Err(error) => Read::NotJson(error),
    }
}

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

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    /// Only the versions without sessions, 2026-07-28 and later, name themselves in every request.
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    protocol_version: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// Writes the JSON-RPC error for a `tools/call` whose parameters are not those of one; rmcp would say that it does
    /// not know the method.
    pub fn invalid_params(&self, error: &serde_json::Error) -> Bytes {
        let message =
            format!("params of tools/call are not {{\"name\": text, \"arguments\": object}}: {error}");
        let error = serde_json::json!({"code": -32602, "message": message});
        let response = serde_json::json!({"jsonrpc": "2.0", "id": self.id, "error": error});
        response.to_string().into()
    }

    /// Returns the plain call that the message is, or what is wrong with the parameters of one; none if it is
    /// anything else.
    pub fn tool_call(&self) -> Option<Result<ToolCall<'a>, serde_json::Error>> {
        let id = self.id?;
        let is_call = self.jsonrpc == "2.0" && self.method.as_deref() == Some("tools/call");
        let is_request = self.result.is_none() && self.error.is_none();
        let is_id = id.get().starts_with('"') || id.get().parse::<i64>().is_ok();
        if !(is_call && is_request && is_id) {
            return None;
        }
        let params: Params<'a> = match serde_json::from_str(self.params.map_or("null", RawValue::get)) {
            Ok(params) => params,
            Err(error) => return Some(Err(error)),
        };
        let progress_token = match params.meta {
            None => None,
            Some(Meta {
                protocol_version: Some(_),
                ..
            }) => return None,
            Some(Meta { progress_token, .. }) => progress_token,
        };
        Some(Ok(ToolCall {
            id,
            name: params.name,
            arguments: params.arguments.unwrap_or_default(),
            progress_token,
        }))
    }
}

/// What came of a tool call.
pub enum Called {
    /// It is answered.
    Done(Done),
    /// It waits.
    Parked(super::owner::Parked),
}

impl Called {
    /// Returns the number of a call that can still be cancelled.
    pub fn cancellable(&self) -> Option<CallId> {
        match self {
            Self::Done(done) => done.receipt.as_ref().map(Receipt::call),
            Self::Parked(parked) => Some(parked.call()),
        }
    }
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

/// Calls a tool for a session: both ways, this one and rmcp's, end here.
pub fn call_tool(
    owner: &Arc<Owner>,
    session: SessionId,
    name: &str,
    arguments: Map<String, Value>,
) -> Called {
    let command = match lift::command(name, arguments) {
        Ok(command) => command,
        Err(invalid) => {
            return Called::Done(Done {
                result: ToolResult::error(invalid),
                receipt: None,
            });
        }
    };
    match owner.call(session, command) {
        Outcome::Answered(answered) => Called::Done(Done::new(answered)),
        Outcome::Parked(parked) => Called::Parked(parked),
    }
}

/// Returns the id of the request that a `notifications/cancelled` is about, as it was written.
pub fn cancelled_id<'a>(envelope: &Envelope<'a>) -> Option<&'a str> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, rename = "requestId")]
        request_id: &'a RawValue,
    }
    if envelope.id.is_some() || envelope.method.as_deref() != Some("notifications/cancelled") {
        return None;
    }
    let cancelled: Cancelled<'a> = serde_json::from_str(envelope.params?.get()).ok()?;
    Some(cancelled.request_id.get())
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

    fn is_express(message: &str) -> bool {
        match read(message.as_bytes()) {
            Read::Message(envelope) => matches!(envelope.tool_call(), Some(Ok(_))),
            Read::OtherJson(_) | Read::NotJson(_) => false,
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
