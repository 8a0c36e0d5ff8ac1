//! Reading a plain `tools/call` in one pass: from the bytes to the arguments, with nothing in between.
//!
//! What is not certainly a plain call is not read here. [`super::json_rpc::read`] and [`Envelope::tool_call`] take every
//! call, say what is wrong with one, and must mean the same wherever both take it.
//!
//! [`Envelope::tool_call`]: super::json_rpc::Envelope::tool_call

use std::borrow::Cow;
use std::collections::BTreeSet;

use rmcp::model::ClientCapabilities;
use serde::Deserialize;
use serde::de::DeserializeSeed as _;
use serde_json::value::RawValue;

use super::json::PassedOver;
use super::json_reader::Reader;
use super::json_rpc::VERSION;
use super::limits::{ARGUMENTS_MAX, REQUEST_ID_BYTES_MAX};
use super::tool_calls::ToolCall;
use crate::tools::{Arguments, Client, Given};

/// What a client can do, which a request that names its version has to say.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Which one it is, which such a request may say.
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";

impl<'a> ToolCall<'a> {
    /// Reads a body that is certainly a plain call; none for all others.
    ///
    /// A call that names its version is complete: it says what its client can do, too.
    pub fn plain(body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(std::str::from_utf8(body).ok()?);
        let call = read_message(&mut reader)?;
        reader.end().map(|()| call)
    }
}

/// Reads `{"jsonrpc": "2.0", "id", "method": "tools/call", "params"}`.
fn read_message<'a>(reader: &mut Reader<'a>) -> Option<ToolCall<'a>> {
    let (mut jsonrpc, mut id, mut method, mut params) = (None, None, None, None);
    reader.object(|reader, key| match &*key {
        "jsonrpc" => once(&mut jsonrpc, reader.exactly("2.0")?),
        "id" => once(&mut id, reader.raw()?),
        "method" => once(&mut method, reader.exactly("tools/call")?),
        "params" => once(&mut params, read_params(reader)?),
        _ => None,
    })?;
    let (Some(()), Some(()), Some(params)) = (jsonrpc, method, params) else {
        return None;
    };
    let Params {
        name,
        arguments,
        meta,
    } = params;
    let id = id.filter(|id| is_plain(id))?;
    Some(ToolCall {
        id,
        name,
        arguments,
        progress_token: meta.progress_token,
        version: meta.version,
        client: meta.client,
    })
}

/// Takes what a member says, unless it was given before.
fn once<T>(member: &mut Option<T>, value: T) -> Option<()> {
    member.replace(value).is_none().then_some(())
}

/// Tells whether an id or token is one that means the same to every reader: a whole number, or a text without escapes.
fn is_plain(raw: &RawValue) -> bool {
    let raw = raw.get();
    let is_text = raw.starts_with('"') && !raw.contains('\\');
    let is_number = raw.parse::<i64>().is_ok() && !raw.starts_with("-0");
    (is_text || is_number) && raw.len() <= REQUEST_ID_BYTES_MAX
}

struct Params<'a> {
    name: Cow<'a, str>,
    arguments: Arguments<'a>,
    meta: Meta<'a>,
}

/// Reads `{"name", "arguments", "_meta"}`.
fn read_params<'a>(reader: &mut Reader<'a>) -> Option<Params<'a>> {
    let (mut name, mut arguments, mut meta) = (None, None, None);
    reader.object(|reader, key| match &*key {
        "name" => once(&mut name, reader.text()?),
        "arguments" => once(&mut arguments, read_arguments(reader)?),
        "_meta" => once(&mut meta, read_meta(reader)?),
        _ => None,
    })?;
    Some(Params {
        name: name?,
        arguments: arguments.unwrap_or_default(),
        meta: meta.unwrap_or_default(),
    })
}

/// Reads the arguments, which may be null.
fn read_arguments<'a>(reader: &mut Reader<'a>) -> Option<Arguments<'a>> {
    let mut arguments = Arguments::default();
    if reader.next_byte()? == b'n' {
        reader.pass_over()?;
        return Some(arguments);
    }
    reader.object(|reader, name| {
        let given = match reader.next_byte()? {
            b'"' => Given::Text(reader.text()?),
            _ => reader.value()?.into(),
        };
        let is_new = arguments.add(name, given);
        (is_new && arguments.count() <= ARGUMENTS_MAX).then_some(())
    })?;
    Some(arguments)
}

#[derive(Default)]
struct Meta<'a> {
    progress_token: Option<&'a RawValue>,
    version: Option<Cow<'a, str>>,
    client: Option<Client>,
}

/// Reads the metadata, which may be null.
fn read_meta<'a>(reader: &mut Reader<'a>) -> Option<Meta<'a>> {
    if reader.next_byte()? == b'n' {
        reader.pass_over()?;
        return Some(Meta::default());
    }
    let (mut token, mut version, mut capabilities, mut client) = (None, None, None, None);
    let mut others = BTreeSet::new();
    reader.object(|reader, key| match &*key {
        "progressToken" => once(&mut token, reader.raw()?),
        VERSION => once(&mut version, reader.text()?),
        CAPABILITIES => once(&mut capabilities, reader.raw()?),
        CLIENT => once(&mut client, reader.raw()?),
        _ => {
            reader.pass_over()?;
            others.insert(key).then_some(())
        }
    })?;
    let progress_token = token.filter(|token| token.get() != "null");
    let has_good_token = progress_token.is_none_or(is_plain);
    let is_complete = match version {
        Some(_) => capabilities.is_some_and(are_capabilities),
        None => capabilities.is_none_or(has_each_key_once),
    };
    let is_read_alike = client.is_none_or(has_each_key_once);
    (has_good_token && is_complete && is_read_alike).then_some(Meta {
        progress_token,
        version,
        client: client.and_then(client_of),
    })
}

/// Finds the client that says so of itself, if it is known.
fn client_of(raw: &RawValue) -> Option<Client> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    let named: Named<'_> = serde_json::from_str(raw.get()).ok()?;
    Client::of_name(&named.name)
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
