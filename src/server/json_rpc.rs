//! JSON-RPC 2.0: what a request body is, and the words for what is wrong with it.
//!
//! Reads no further than it takes to know what to do with a message; knows neither tools nor transports.
//! <https://www.jsonrpc.org/specification>

use std::borrow::Cow;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use rmcp::model::NumberOrString;
use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_json::value::RawValue;

use super::json::{Any, Members, PassedOver};
use super::json_id;
use super::limits::REQUEST_ID_BYTES_MAX;
use crate::engine::shown;
use crate::tools::described;

/// Error codes: <https://www.jsonrpc.org/specification#error_object>.
const NO_JSON: i32 = -32_700;
const NO_MESSAGE: i32 = -32_600;
const BAD_PARAMS: i32 = -32_602;
/// Of those that are left to servers; MCP servers use it for what is wrong with the HTTP around a message.
const BAD_HTTP: i32 = -32_000;

/// Only the versions without a handshake, 2026-07-28 and later, name themselves in every request.
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// What of JSON cannot be read into values.
const UNREADABLE: &str =
    "; accepted: numbers that fit 64 bits, halves of surrogates in pairs, at most 127 levels";

/// What an id or a token is.
const ID: &str = "a string, or a whole number of at most 64 bits";

/// How much of a body an error repeats on either side of the place where it is no JSON, in bytes.
const EXCERPT_BYTES: usize = 20;

/// A JSON-RPC message, read as far as it takes to know what to do with it.
pub struct Envelope<'a> {
    /// The request's id as it was written, a text or a whole number; none on a notification. A response may have any.
    pub id: Option<&'a RawValue>,
    /// The method; none on a response.
    pub method: Option<Cow<'a, str>>,
    /// The parameters as they were written.
    pub params: Option<&'a RawValue>,
}

/// Why a body is no message that relay takes, or a request has no parameters that it takes. Nothing was done.
#[derive(Debug)]
pub struct Invalid {
    code: i32,
    message: String,
    /// Of the request that it was to be; none where no request was made out.
    id: Option<Box<RawValue>>,
}

impl Invalid {
    fn not_json(reason: impl std::fmt::Display) -> Self {
        Self {
            code: NO_JSON,
            message: format!("the request is no JSON: {reason}; accepted: one JSON-RPC 2.0 message in UTF-8"),
            id: None,
        }
    }

    /// Says why JSON is no message.
    pub fn not_a_message(reason: impl std::fmt::Display) -> Self {
        Self {
            code: NO_MESSAGE,
            message: format!("the request is no JSON-RPC 2.0 message: {reason}"),
            id: None,
        }
    }

    /// Says that more came than is accepted.
    pub fn too_long(reason: impl std::fmt::Display) -> Self {
        Self {
            code: NO_MESSAGE,
            message: reason.to_string(),
            id: None,
        }
    }

    /// Answers the request with that id, if it was made out.
    #[must_use]
    pub fn answering(mut self, id: Option<Box<RawValue>>) -> Self {
        self.id = self.id.or(id);
        self
    }

    /// Says what is wrong with the HTTP around a message.
    pub fn http(reason: impl std::fmt::Display) -> Self {
        Self {
            code: BAD_HTTP,
            message: reason.to_string(),
            id: None,
        }
    }

    /// Tells whether it answers a request, whose id it carries.
    pub fn answers_request(&self) -> bool {
        self.id.is_some()
    }

    /// Takes it apart: the id of the request, or null; the code of the error, and its words.
    pub fn into_parts(self) -> (Value, i32, String) {
        let id = self.id.and_then(|id| serde_json::from_str(id.get()).ok());
        (id.unwrap_or_default(), self.code, self.message)
    }

    /// Writes the JSON-RPC error.
    pub fn bytes(&self) -> Bytes {
        let error = serde_json::json!({"code": self.code, "message": self.message});
        // As it was written: to make a value of the id is to read it anew.
        let id = self.id.as_deref().map_or("null", RawValue::get);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into()
    }

    /// Makes the HTTP response of a status.
    pub fn response(&self, status: StatusCode) -> Response {
        let json = [(header::CONTENT_TYPE, "application/json")];
        (status, json, self.bytes()).into_response()
    }
}

/// An answer to a request whose parameters are wrong is one like any other to HTTP; what is no request is a bad one, whatever its id is.
impl IntoResponse for Invalid {
    fn into_response(self) -> Response {
        let status = if self.code == BAD_PARAMS {
            StatusCode::OK
        } else {
            StatusCode::BAD_REQUEST
        };
        self.response(status)
    }
}

/// Reads a request body.
///
/// # Errors
///
/// [`Invalid`] when it is no JSON, or no message of JSON-RPC 2.0, or a batch, or has a key twice; with the request's id where one can be
/// found, since whoever has asked waits for an answer to that.
pub fn read(body: &[u8]) -> Result<Envelope<'_>, Invalid> {
    read_envelope(body).map_err(|invalid| invalid.answering(json_id::find(body)))
}

fn read_envelope(body: &[u8]) -> Result<Envelope<'_>, Invalid> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let members = Members(["jsonrpc", "id", "method", "params", "result", "error"]);
    let members = members
        .deserialize(&mut reader)
        .and_then(|members| reader.end().map(|()| members));
    let [jsonrpc, id, method, params, result, error] = match members {
        Ok(members) => members,
        Err(error) if error.is_data() => return Err(Invalid::not_a_message(no_object(body, &error))),
        Err(error) if serde_json::from_slice::<&RawValue>(body).is_ok() => {
            return Err(Invalid::not_a_message(unreadable(body, &error)));
        }
        Err(error) => return Err(Invalid::not_json(broken(body, &error))),
    };
    if jsonrpc.and_then(text).as_deref() != Some("2.0") {
        return Err(Invalid::not_a_message(wrong(
            "jsonrpc",
            jsonrpc,
            "the string \"2.0\"",
        )));
    }
    let method = match present(method) {
        None => None,
        Some(raw) => match text(raw) {
            Some(method) => Some(method),
            None => return Err(Invalid::not_a_message(wrong("method", Some(raw), "a string"))),
        },
    };
    let is_response = present(result).is_some() || present(error).is_some();
    match (&method, id) {
        (Some(_), _) if is_response => Err(Invalid::not_a_message(
            "it has both \"method\" and \"result\" or \"error\"; accepted: a request or a response",
        )),
        (None, _) if result.is_none() && error.is_none() => {
            Err(Invalid::not_a_message(wrong("method", None, "a string")))
        }
        (Some(_), Some(id)) => {
            check_id(id)?;
            Ok(Envelope {
                id: Some(id),
                method,
                params: present(params),
            })
        }
        (Some(_), None) | (None, _) => Ok(Envelope {
            id,
            method,
            params: present(params),
        }),
    }
}

/// Makes sure that the id of a request is one that each transport takes.
fn check_id(id: &RawValue) -> Result<(), Invalid> {
    if !is_id(id) {
        return Err(Invalid::not_a_message(wrong("id", Some(id), ID)));
    }
    let bytes = id.get().len();
    if bytes > REQUEST_ID_BYTES_MAX {
        let reason = format_args!("its \"id\" has {bytes} bytes; accepted: at most {REQUEST_ID_BYTES_MAX}");
        return Err(Invalid::not_a_message(reason));
    }
    Ok(())
}

/// Makes sure that the id of a request which another reader takes is one that each transport takes. What is no JSON is that reader's to
/// refuse.
///
/// # Errors
///
/// [`Invalid`] when it is not.
pub fn check_request_id(body: &[u8]) -> Result<(), Invalid> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    match Members(["id", "method"]).deserialize(&mut reader) {
        Ok([Some(id), Some(_)]) => check_id(id),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Makes sure that a message which another reader takes, one that keeps the last of two equal keys, means one thing only.
/// What is no JSON is that reader's to refuse.
///
/// # Errors
///
/// [`Invalid`] when a key stands twice anywhere in it.
pub fn check_keys(body: &[u8]) -> Result<(), Invalid> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    match PassedOver.deserialize(&mut reader) {
        Err(error) if error.is_data() => Err(match read(body) {
            Ok(envelope) => envelope.bad_params(words(&error)),
            Err(invalid) => invalid,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes sure that the parameters of a handshake are those of one: another reader takes it for a request of an unknown method otherwise.
///
/// # Errors
///
/// [`Invalid`] when they are not. What is no handshake is not looked at.
pub fn check_handshake(body: &[u8]) -> Result<(), Invalid> {
    match read(body) {
        Ok(envelope) if envelope.method.as_deref() == Some("initialize") => envelope.check_params(),
        Ok(_) | Err(_) => Ok(()),
    }
}

impl<'a> Envelope<'a> {
    /// Says what is wrong with the parameters of the request, or with a message that is none.
    pub fn bad_params(&self, reason: impl std::fmt::Display) -> Invalid {
        let Some(method) = self.method.as_deref() else {
            return Invalid::not_a_message(reason);
        };
        let message = format!("params of {}: {reason}", shown(method));
        match self.id {
            Some(id) => Invalid {
                code: BAD_PARAMS,
                message,
                id: Some(id.to_owned()),
            },
            None => Invalid::not_a_message(message),
        }
    }

    /// Reads the members of those names from the parameters.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when the parameters are no object, or have a key twice.
    fn param_members<const N: usize>(
        &self,
        names: [&'static str; N],
    ) -> Result<[Option<&'a RawValue>; N], Invalid> {
        match self.params {
            None => Ok([None; N]),
            Some(params) => self.members("params", params, names),
        }
    }

    /// Reads the members of those names from an object inside the message.
    pub fn members<const N: usize>(
        &self,
        what: &str,
        raw: &'a RawValue,
        names: [&'static str; N],
    ) -> Result<[Option<&'a RawValue>; N], Invalid> {
        let mut reader = serde_json::Deserializer::from_str(raw.get());
        let members = Members(names).deserialize(&mut reader);
        members.map_err(|error| {
            if raw.get().starts_with('{') {
                self.unread_params(raw, &error)
            } else {
                self.bad_params(wrong(what, Some(raw), "an object"))
            }
        })
    }

    /// Says why a part of the message, which is JSON at first sight, cannot be read.
    pub fn unread_params(&self, raw: &RawValue, error: &serde_json::Error) -> Invalid {
        if error.is_data() {
            self.bad_params(words(error))
        } else {
            self.not_a_message(unreadable(raw.get().as_bytes(), error))
        }
    }

    /// Says why what looked like a message is none, to whoever waits for an answer.
    pub fn not_a_message(&self, reason: impl std::fmt::Display) -> Invalid {
        let asked = self.id.filter(|_| self.method.is_some());
        Invalid::not_a_message(reason).answering(asked.map(RawValue::to_owned))
    }

    /// Checks a message that is handed on to rmcp, which keeps the last of two equal keys and takes a known method with
    /// wrong parameters for an unknown one. Returns the whole message.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when a key stands twice anywhere in it, or the parameters are not those of the method.
    pub fn checked(&self, body: &[u8]) -> Result<Value, Invalid> {
        let mut reader = serde_json::Deserializer::from_slice(body);
        let whole = Any.deserialize(&mut reader).map_err(|error| {
            if error.is_data() {
                self.bad_params(words(&error))
            } else {
                self.not_a_message(unreadable(body, &error))
            }
        })?;
        if self.method.is_some() {
            self.check_params()?;
        }
        Ok(whole)
    }

    fn check_params(&self) -> Result<(), Invalid> {
        let names = [
            "_meta",
            "name",
            "arguments",
            "protocolVersion",
            "capabilities",
            "clientInfo",
        ];
        let [meta, name, arguments, version, capabilities, client] = self.param_members(names)?;
        let mut names_version = false;
        if let Some(meta) = present(meta) {
            let [token, version] = self.members("_meta", meta, ["progressToken", VERSION])?;
            self.check_progress_token(token)?;
            names_version = version.is_some();
        }
        match self.method.as_deref() {
            Some("tools/call") => {
                self.expect("name", name, "a string")?;
                if let Some(arguments) = present(arguments) {
                    self.expect("arguments", Some(arguments), "an object")?;
                }
            }
            Some("initialize") if !names_version => {
                self.expect("protocolVersion", version, "a string")?;
                self.expect("capabilities", capabilities, "an object")?;
                self.expect("clientInfo", client, "an object")?;
                let [name, version] = match client {
                    None => [None; 2],
                    Some(client) => self.members("clientInfo", client, ["name", "version"])?,
                };
                self.expect("clientInfo.name", name, "a string")?;
                self.expect("clientInfo.version", version, "a string")?;
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    fn expect(&self, name: &str, raw: Option<&RawValue>, accepted: &str) -> Result<(), Invalid> {
        let first = if accepted == "a string" { '"' } else { '{' };
        if raw.is_some_and(|raw| raw.get().starts_with(first)) {
            return Ok(());
        }
        Err(self.bad_params(wrong(name, raw, accepted)))
    }

    /// Returns the token with which progress is told, if the client asks for it.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when it is neither a text nor a whole number. MCP has fractions too, which rmcp does not read.
    pub fn check_progress_token(&self, token: Option<&'a RawValue>) -> Result<Option<&'a RawValue>, Invalid> {
        let token = present(token);
        match token.filter(|token| serde_json::from_str::<NumberOrString>(token.get()).is_err()) {
            None => Ok(token),
            Some(_) => Err(self.bad_params(wrong("progressToken", token, ID))),
        }
    }
}

/// Says that a member is not what it should be: `"id" is null; accepted: a string`, or `missing "id"; ...`.
pub fn wrong(name: &str, raw: Option<&RawValue>, accepted: &str) -> String {
    match raw {
        None => format!("missing {name:?}; accepted: {accepted}"),
        Some(raw) => format!("{name:?} is {}; accepted: {accepted}", described_raw(raw)),
    }
}

/// Takes `null` for nothing.
pub fn present(raw: Option<&RawValue>) -> Option<&RawValue> {
    raw.filter(|raw| raw.get() != "null")
}

/// Reads a text, without a copy if it was written plainly; none if it is anything else.
pub fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw.get()).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// Tells whether an id is one that MCP knows, and that can be read: half a surrogate pair is no text.
pub fn is_id(raw: &RawValue) -> bool {
    // Some readers take -0 for a number that is not whole.
    text(raw).is_some() || raw.get() != "-0" && raw.get().parse::<i64>().is_ok()
}

fn described_raw(raw: &RawValue) -> String {
    match raw.get().as_bytes().first() {
        Some(b'[') => "an array".to_owned(),
        Some(b'{') => "an object".to_owned(),
        _ => match serde_json::from_str(raw.get()) {
            Ok(value) => described(&value),
            Err(_) => format!("the value {}", shown(raw.get())),
        },
    }
}

/// Says why a body whose JSON was fine so far is no object with each key once.
fn no_object(body: &[u8], error: &serde_json::Error) -> String {
    let first = serde_json::Deserializer::from_slice(body)
        .into_iter::<Value>()
        .next();
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => words(error),
        Some(b'[') => "it is an array; batches are not accepted: send one message at a time".to_owned(),
        _ => {
            let given = first
                .and_then(Result::ok)
                .map_or("a value".to_owned(), |value| described(&value));
            format!("it is {given}; accepted: one object")
        }
    }
}

/// Says where and why JSON cannot be read into values.
fn unreadable(json: &[u8], error: &serde_json::Error) -> String {
    format!("{}{UNREADABLE}", broken(json, error))
}

/// Says where and why bytes are no JSON.
fn broken(json: &[u8], error: &serde_json::Error) -> String {
    if let Err(error) = std::str::from_utf8(json) {
        let at = error.valid_up_to();
        return format!("the byte 0x{:02x} at {at} is not UTF-8", json[at]);
    }
    let words = words(error);
    if words == "recursion limit exceeded" {
        return "its values are nested too deeply".to_owned();
    }
    let lines = json.split_inclusive(|&byte| byte == b'\n');
    let before: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let at = (before + error.column()).min(json.len());
    let excerpt = &json[at.saturating_sub(EXCERPT_BYTES)..json.len().min(at + EXCERPT_BYTES)];
    let excerpt = String::from_utf8_lossy(excerpt);
    let excerpt = excerpt.trim_matches(char::REPLACEMENT_CHARACTER);
    format!("{words} near {excerpt:?}")
}

/// Returns what an error says without the place, which counts from the beginning of what was read last.
fn words(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    words.strip_suffix(&place).unwrap_or(&words).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(body: &str) -> String {
        match read(body.as_bytes()) {
            Ok(_) => panic!("{body} is a message"),
            Err(invalid) => invalid.message,
        }
    }

    #[test]
    fn an_envelope_is_read_as_it_was_written() {
        let body = br#" {"x":1,"method":"a\u0062","id" : "\u00e9" ,"params":{"b": 2},"jsonrpc":"2.0"} "#;
        let envelope = read(body).unwrap_or_else(|invalid| panic!("{invalid:?}"));
        assert_eq!(envelope.method.as_deref(), Some("ab"));
        assert_eq!(envelope.id.map(RawValue::get), Some(r#""\u00e9""#));
        assert_eq!(envelope.params.map(RawValue::get), Some(r#"{"b": 2}"#));
    }

    #[test]
    fn what_is_null_is_not_there_except_an_id() {
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null,"result":null,"error":null}"#;
        let envelope = read(body).unwrap_or_else(|invalid| panic!("{invalid:?}"));
        assert!(envelope.params.is_none());
        assert_eq!(
            said(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#),
            "the request is no JSON-RPC 2.0 message: \"id\" is null; accepted: a string, or a whole number of at most 64 bits"
        );
    }

    #[test]
    fn an_id_is_kept_up_to_a_length_and_a_longer_one_is_refused() {
        let with_id = |bytes: usize| {
            let id = "a".repeat(bytes - 2);
            format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#)
        };
        assert!(read(with_id(REQUEST_ID_BYTES_MAX).as_bytes()).is_ok());
        for bytes in [REQUEST_ID_BYTES_MAX + 1, 2 * REQUEST_ID_BYTES_MAX] {
            let expected = format!("its \"id\" has {bytes} bytes; accepted: at most {REQUEST_ID_BYTES_MAX}");
            assert!(
                said(&with_id(bytes)).ends_with(&expected),
                "{}",
                said(&with_id(bytes))
            );
        }
    }

    #[test]
    fn the_place_where_json_breaks_is_shown_without_splitting_a_character() {
        assert_eq!(
            said("{\n  \"jsonrpc\": NaN"),
            "the request is no JSON: expected value near \"{\\n  \\\"jsonrpc\\\": NaN\"; accepted: one JSON-RPC 2.0 message in UTF-8"
        );
        for length in 0..30 {
            let said = said(&format!("{{\"{}\":x", "é".repeat(length)));
            assert!(
                said.contains("expected value near ") && !said.contains('\u{fffd}'),
                "{said}"
            );
        }
    }

    #[test]
    fn what_is_wrong_with_a_response_is_no_answer_to_a_request() {
        let body = br#"{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2}}"#;
        let envelope = read(body).unwrap_or_else(|invalid| panic!("{invalid:?}"));
        let invalid = envelope.checked(body).expect_err("a key stands twice");
        assert!(!invalid.answers_request(), "{invalid:?}");
    }

    #[test]
    fn there_is_no_handshake_in_a_version_that_each_request_names() {
        let body = br#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let envelope = read(body).unwrap_or_else(|invalid| panic!("{invalid:?}"));
        assert!(envelope.checked(body).is_ok());
    }

    #[test]
    fn an_error_carries_the_id_of_the_request_whose_parameters_are_wrong() {
        let body = br#"{"jsonrpc":"2.0","id":"7","method":"initialize","params":{"protocolVersion":5}}"#;
        let envelope = read(body).unwrap_or_else(|invalid| panic!("{invalid:?}"));
        let invalid = envelope.checked(body).expect_err("a version is a text");
        let message = "params of initialize: \"protocolVersion\" is the number 5; accepted: a string";
        let expected =
            serde_json::json!({"jsonrpc": "2.0", "id": "7", "error": {"code": -32_602, "message": message}});
        assert_eq!(
            serde_json::from_slice::<Value>(&invalid.bytes()).expect("JSON"),
            expected
        );
    }
}
