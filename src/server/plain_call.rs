//! Reading a plain `tools/call` in one pass: from the bytes to the arguments, with nothing in between.
//!
//! What is not certainly a plain call is not read here. [`super::json_rpc::read`] and [`Envelope::tool_call`] take every
//! call, say what is wrong with one, and must mean the same wherever both take it.
//!
//! [`Envelope::tool_call`]: super::json_rpc::Envelope::tool_call

use std::borrow::Cow;
use std::fmt;

use rmcp::model::ClientCapabilities;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::json::{Any, Keys, PassedOver};
use super::json_rpc::VERSION;
use super::limits::{ARGUMENTS_MAX, REQUEST_ID_BYTES_MAX};
use super::tool_calls::ToolCall;
use crate::tools::{Arguments, Given};

/// What a client can do, which a request that names its version has to say.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

impl<'a> ToolCall<'a> {
    /// Reads a body that is certainly a plain call; none for all others.
    ///
    /// A call that names its version is complete: it says what its client can do, too.
    pub fn plain(body: &'a [u8]) -> Option<Self> {
        let body = std::str::from_utf8(body).ok()?;
        let mut reader = serde_json::Deserializer::from_str(body);
        let call = Message.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        Some(call)
    }
}

/// Stops the reading. Nobody sees it.
fn not_plain<E: Error>() -> E {
    E::custom("")
}

/// Tells whether an id or token is one that means the same to every reader: a whole number, or a text without escapes.
fn is_plain(raw: &RawValue) -> bool {
    let raw = raw.get();
    let is_text = raw.starts_with('"') && !raw.contains('\\');
    let is_number = raw.parse::<i64>().is_ok() && !raw.starts_with("-0");
    (is_text || is_number) && raw.len() <= REQUEST_ID_BYTES_MAX
}

/// The message: `{"jsonrpc": "2.0", "id", "method": "tools/call", "params"}`.
struct Message;

impl<'de> DeserializeSeed<'de> for Message {
    type Value = ToolCall<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Message {
    type Value = ToolCall<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut jsonrpc, mut id, mut method, mut params) = (None, None, None, None);
        let mut keys = Keys::new(["jsonrpc", "id", "method", "params"]);
        while let Some(key) = map.next_key_seed(&mut keys)? {
            match key {
                Some(0) => jsonrpc = Some(map.next_value_seed(Exactly("2.0"))?),
                Some(1) => id = Some(map.next_value::<&RawValue>()?),
                Some(2) => method = Some(map.next_value_seed(Exactly("tools/call"))?),
                Some(_) => params = Some(map.next_value_seed(Params)?),
                None => return Err(not_plain()),
            }
        }
        let (Some(()), Some(id), Some(()), Some(params)) = (jsonrpc, id, method, params) else {
            return Err(not_plain());
        };
        let ReadParams {
            name,
            arguments,
            meta,
        } = params;
        let (Some(name), true) = (name, is_plain(id)) else {
            return Err(not_plain());
        };
        Ok(ToolCall {
            id,
            name,
            arguments,
            progress_token: meta.progress_token,
            version: meta.version,
        })
    }
}

/// A text that can be one only.
struct Exactly(&'static str);

impl<'de> DeserializeSeed<'de> for Exactly {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Exactly {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if text == self.0 { Ok(()) } else { Err(not_plain()) }
    }
}

/// The parameters: `{"name", "arguments", "_meta"}`.
struct Params;

struct ReadParams<'a> {
    name: Option<Cow<'a, str>>,
    arguments: Arguments<'a>,
    meta: ReadMeta<'a>,
}

impl<'de> DeserializeSeed<'de> for Params {
    type Value = ReadParams<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Params {
    type Value = ReadParams<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("parameters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut name, mut arguments, mut meta) = (None, None, None);
        let mut keys = Keys::new(["name", "arguments", "_meta"]);
        while let Some(key) = map.next_key_seed(&mut keys)? {
            match key {
                Some(0) => name = Some(map.next_value_seed(Text)?),
                Some(1) => arguments = Some(map.next_value_seed(ArgumentsOfCall)?),
                Some(_) => meta = Some(map.next_value_seed(Meta)?),
                None => return Err(not_plain()),
            }
        }
        Ok(ReadParams {
            name,
            arguments: arguments.unwrap_or_default(),
            meta: meta.unwrap_or_default(),
        })
    }
}

/// A text, without a copy if it was written without escapes.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// The arguments, which may be null.
struct ArgumentsOfCall;

impl<'de> DeserializeSeed<'de> for ArgumentsOfCall {
    type Value = Arguments<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ArgumentsOfCall {
    type Value = Arguments<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arguments")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Arguments::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut arguments = Arguments::default();
        while let Some(name) = map.next_key_seed(Text)? {
            let is_new = arguments.add(name, map.next_value_seed(GivenValue)?);
            if !is_new || arguments.count() > ARGUMENTS_MAX {
                return Err(not_plain());
            }
        }
        Ok(arguments)
    }
}

/// The value of an argument.
struct GivenValue;

impl<'de> DeserializeSeed<'de> for GivenValue {
    type Value = Given<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for GivenValue {
    type Value = Given<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Given::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Value::from(value).into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Given::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Given::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Value::from(value).into())
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Text.visit_borrowed_str(text).map(Given::Text)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Text.visit_str(text).map(Given::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        Any.visit_seq(seq).map(Given::from)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Any.visit_map(map).map(Given::from)
    }
}

/// The metadata, which may be null.
struct Meta;

#[derive(Default)]
struct ReadMeta<'a> {
    progress_token: Option<&'a RawValue>,
    version: Option<Cow<'a, str>>,
}

impl<'de> DeserializeSeed<'de> for Meta {
    type Value = ReadMeta<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Meta {
    type Value = ReadMeta<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(ReadMeta::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut meta = ReadMeta::default();
        let mut capabilities = None;
        let mut keys = Keys::new(["progressToken", VERSION, CAPABILITIES]);
        while let Some(key) = map.next_key_seed(&mut keys)? {
            match key {
                Some(0) => {
                    let token = map.next_value::<&RawValue>()?;
                    meta.progress_token = Some(token).filter(|token| token.get() != "null");
                }
                Some(1) => meta.version = Some(map.next_value_seed(Text)?),
                Some(_) => capabilities = Some(map.next_value::<&RawValue>()?),
                None => map.next_value_seed(PassedOver)?,
            }
        }
        let has_good_token = meta.progress_token.is_none_or(is_plain);
        let is_complete = match meta.version {
            Some(_) => capabilities.is_some_and(are_capabilities),
            None => capabilities.is_none_or(has_each_key_once),
        };
        if has_good_token && is_complete {
            return Ok(meta);
        }
        Err(not_plain())
    }
}

/// Tells whether a value says what a client can do, with no key twice.
fn are_capabilities(raw: &RawValue) -> bool {
    raw.get() == "{}"
        || (has_each_key_once(raw) && serde_json::from_str::<ClientCapabilities>(raw.get()).is_ok())
}

fn has_each_key_once(raw: &RawValue) -> bool {
    let mut reader = serde_json::Deserializer::from_str(raw.get());
    PassedOver.deserialize(&mut reader).is_ok()
}

#[cfg(test)]
mod tests;
