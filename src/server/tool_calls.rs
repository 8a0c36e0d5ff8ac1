//! Tool calls: what one is, how it is made, and how its answer is written, whatever transport it came over.
//!
//! A plain call passes rmcp's service by, which spawns four tasks and opens two channels for each request: fine for a
//! handshake, but it halves the calls per second. Everything else goes through rmcp. Both end in [`call_tool`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::json::{Any, Keys, PassedOver};
use super::json_rpc::{Envelope, Invalid, VERSION, present, text, wrong};
use super::owner::{self, Answered, Outcome, Owner, Receipt};
use super::quirks::Quirk;
use super::requests::Request;
use crate::engine::{Command, SessionId};
use crate::tools::{
    Arguments, Client, InvalidCall, ReplyBytes, Scalar, Served, Texts, Tool, ToolResult, Toolsets, described,
};

/// A plain `tools/call`.
pub struct ToolCall<'a> {
    /// As it was written.
    pub id: &'a RawValue,
    /// The tool.
    pub name: Cow<'a, str>,
    /// Empty if none were given.
    pub arguments: Arguments<'a>,
    /// As it was written, if the client wants to hear of progress.
    pub progress_token: Option<&'a RawValue>,
    /// The version of the protocol, if the request names it, as 2026-07-28 has it.
    pub version: Option<Cow<'a, str>>,
    /// Its client, if the request says which it is, and that is known.
    pub client: Option<Client>,
}

impl<'a> Envelope<'a> {
    /// Returns the plain call that the message is, or what is wrong with the parameters of one; none if it is
    /// anything else, or names its version.
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
            Value::Object(arguments) => arguments.into(),
            Value::Null => Arguments::default(),
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
            version: None,
            client: None,
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
                None => map.next_value_seed(PassedOver)?,
            }
        }
        Ok(params)
    }
}

impl ToolCall<'_> {
    /// Tells whether it may wait for its answer.
    pub fn may_wait(&self, toolsets: Toolsets) -> bool {
        let given = |name: &str| self.arguments.get(name).map(Scalar::from);
        toolsets.wait(&self.name, given).is_some()
    }
}

/// What came of a tool call.
pub enum Called {
    /// It is answered.
    Done(Done),
    /// It waits.
    Parked(Parked),
}

/// An answered tool call.
pub struct Done {
    /// What the caller reads.
    pub result: ToolResult,
    /// Goes with the reply's bytes, if something is handed over in them.
    pub receipt: Option<Receipt>,
}

impl Done {
    /// Makes the answer that tells a caller what was wrong.
    pub fn error(reason: impl fmt::Display) -> Self {
        Self {
            result: ToolResult::error(reason),
            receipt: None,
        }
    }

    fn new(asked: Asked, Answered { answer, receipt }: Answered) -> Self {
        let Asked { tool, reply_max } = asked;
        Self {
            result: ToolResult::Answered {
                tool,
                answer,
                reply_max,
            },
            receipt,
        }
    }
}

/// What has the words for an answer, and how much of it is shown.
#[derive(Clone, Copy)]
pub struct Asked {
    tool: &'static Tool,
    reply_max: ReplyBytes,
}

/// A call that waits, and what has the words for its answer. Dropping it cancels the call.
pub struct Parked {
    call: owner::Parked,
    asked: Asked,
}

impl Parked {
    /// Waits for the answer. None comes if the call was cancelled; whoever closes its session must drop this, too.
    pub async fn answered(&mut self) -> Option<Done> {
        let answered = self.call.answered().await?;
        Some(Done::new(self.asked, answered))
    }
}

/// Reads what a tool call asks of the engine, and finds the tool that has the words for the answer.
///
/// # Errors
///
/// [`InvalidCall`] when there is no such tool, or it takes other arguments.
pub fn command(
    served: Served,
    name: &str,
    arguments: Arguments<'_>,
) -> Result<(Asked, Command), InvalidCall> {
    let Served { toolsets, reply_max } = served;
    let tool = toolsets.find(name)?;
    let command = tool.command(arguments, reply_max)?;
    Ok((Asked { tool, reply_max }, command))
}

/// Asks the engine for a session; returns nothing if the request was cancelled before it came. Both ways, this one and
/// rmcp's, end here.
pub fn ask(
    owner: &Arc<Owner>,
    session: SessionId,
    (asked, command): (Asked, Command),
    request: Option<Request<'_>>,
) -> Option<Called> {
    Some(match owner.call(session, command, request)? {
        Outcome::Answered(answered) => Called::Done(Done::new(asked, answered)),
        Outcome::Parked(call) => Called::Parked(Parked { call, asked }),
    })
}

/// Calls a tool for a session; returns nothing if the request was cancelled before it came.
pub fn call_tool(
    owner: &Arc<Owner>,
    served: Served,
    session: SessionId,
    name: &str,
    arguments: Arguments<'_>,
    request: Option<Request<'_>>,
) -> Option<Called> {
    match command(served, name, arguments) {
        Ok(command) => ask(owner, session, command, request),
        Err(invalid) => Some(Called::Done(Done::error(invalid))),
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

/// What the result of a tool call looks like, which differs between versions of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// 2024-11-05 to 2025-11-25.
    SessionBased,
    /// 2026-07-28, whose results say of which type they are.
    Stateless,
}

/// Room that is made for a response at first, in bytes: one with a short message or two fits. Allocators have as much at hand.
pub const RESPONSE_BYTES: usize = 1_024;

/// Makes the JSON-RPC response of a tool call; `id` is the request's as it was written.
pub fn response(id: &RawValue, shape: Shape, result: &ToolResult, quirk: Option<Quirk>) -> Bytes {
    let mut bytes = Vec::with_capacity(RESPONSE_BYTES);
    write_response(&mut bytes, id, shape, result, quirk);
    bytes.into()
}

/// Writes the same behind what is in `out`.
pub fn write_response(
    out: &mut Vec<u8>,
    id: &RawValue,
    shape: Shape,
    result: &ToolResult,
    quirk: Option<Quirk>,
) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.get().as_bytes());
    out.extend_from_slice(match shape {
        Shape::SessionBased => br#","result":{"content":["#,
        Shape::Stateless => br#","result":{"resultType":"complete","content":["#,
    });
    let first_block = out.len();
    let mut texts = Texts::new(out);
    result.write(&mut texts);
    let structured = texts.into_structured();
    if quirk.is_some() {
        head(out, first_block, quirk);
    }
    out.push(b']');
    if let Some(structured) = structured {
        out.extend_from_slice(br#","structuredContent":"#);
        out.extend_from_slice(&structured);
    }
    out.extend_from_slice(if result.is_error() {
        br#","isError":true}}"#
    } else {
        br#","isError":false}}"#
    });
}

/// Puts the heading that a client needs before the text blocks that begin there.
#[cold]
fn head(out: &mut Vec<u8>, first_block: usize, quirk: Option<Quirk>) {
    let first = out[first_block..]
        .strip_prefix(Texts::BEFORE_TEXT)
        .unwrap_or_default();
    if let Some(heading) = Quirk::heading(quirk, first) {
        let blocks = out.split_off(first_block);
        Texts::new(out).plain(heading);
        out.push(b',');
        out.extend_from_slice(&blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::handling::Mode;
    use crate::engine::{
        AgentName, Delivery, Kind, Message, MessageId, Recipient, Refusal, Reply, Seq, Timestamp, mail,
    };
    use crate::server::json_rpc::read;
    use crate::tools::DEFAULT;

    fn is_plain_call(message: &str) -> bool {
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
            assert!(is_plain_call(plain), "{plain}");
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
            assert!(!is_plain_call(other), "{other}");
        }
    }

    /// What rmcp writes in its handler's place.
    fn written_by_rmcp(
        id: rmcp::model::RequestId,
        shape: Shape,
        result: &ToolResult,
        quirk: Option<Quirk>,
    ) -> String {
        let result = crate::server::rpc::wrapped(result, quirk);
        let mut result = rmcp::model::ServerResult::CallToolResult(result);
        match shape {
            Shape::SessionBased => result.strip_result_type_for_legacy_peer(),
            Shape::Stateless => result.fill_missing_cache_hints(),
        }
        let message = rmcp::model::ServerJsonRpcMessage::response(result, id);
        serde_json::to_string(&message).expect("JSON")
    }

    #[test]
    fn only_a_notification_cancels() {
        let plain = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        let request = plain.replace("\"method\"", "\"id\":8,\"method\"");
        for (message, id) in [(plain, Some("7")), (&request, None)] {
            let Ok(envelope) = read(message.as_bytes()) else {
                panic!("{message} is a message");
            };
            assert_eq!(cancelled_id(&envelope), id, "{message}");
        }
    }

    #[test]
    fn a_response_is_byte_for_byte_what_rmcp_would_have_written() {
        let delivery = |redelivered| Delivery {
            seq: Seq(7),
            message: Arc::new(Message {
                id: MessageId(uuid::Uuid::from_u128(7)),
                from: AgentName::new("pm").expect("a name"),
                to: Recipient::agent(&AgentName::person()),
                kind: Kind::Free,
                body: "a \"b\"\n\\ \u{1}\u{7f} é \u{2028}".to_owned(),
                ts: Timestamp::from_millis(1_777_732_321_042),
                context: None,
            }),
            mode: Mode::Immediate,
            redelivered,
        };
        let answered = |tool: &str, answer| ToolResult::Answered {
            tool: DEFAULT.find(tool).expect("a tool"),
            answer,
            reply_max: ReplyBytes::LEAST_KNOWN,
        };
        let deliveries = Arc::new([delivery(false), delivery(true)].into());
        let restarted = Some(Timestamp::from_millis(0));
        let kinds = vec![Kind::Status, Kind::Question];
        let results = [
            answered(
                "read_messages",
                Ok(Reply::Mail(mail::Reply::Messages {
                    project: None,
                    deliveries,
                    part: None,
                    is_cut: true,
                    restarted,
                    remaining: 0,
                    earlier: Vec::new(),
                    waited_ms: 0,
                })),
            ),
            answered("list_pending", Ok(Reply::Mail(mail::Reply::Pending { kinds }))),
            answered(
                "post_message",
                Ok(Reply::Mail(mail::Reply::Posted {
                    id: MessageId(uuid::Uuid::max()),
                    given: Box::default(),
                    to: Recipient::agent(&AgentName::person()),
                    ts: Timestamp::from_millis(0),
                    thread: None,
                    warnings: Box::default(),
                    absence: None,
                })),
            ),
            answered("post_message", Err(Refusal::Stopping)),
            ToolResult::error("a \"b\" \\ \n"),
        ];
        for result in &results {
            for (shape, quirk) in [
                (Shape::SessionBased, None),
                (Shape::SessionBased, Some(Quirk::TakesTextForData)),
                (Shape::Stateless, None),
            ] {
                for id in ["7", r#""a-b""#] {
                    let raw = RawValue::from_string(id.to_owned()).expect("JSON");
                    let ours = String::from_utf8(response(&raw, shape, result, quirk).into()).expect("UTF-8");
                    let id = serde_json::from_str(id).expect("an id");
                    assert_eq!(ours, written_by_rmcp(id, shape, result, quirk));
                }
            }
        }
    }
}
