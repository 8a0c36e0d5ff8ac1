//! The short way of a plain `tools/call` of protocol version 2026-07-28, which knows no session: each request says in headers
//! and metadata what the older versions say in a handshake.
//!
//! rmcp checks all that. A request is plain if it is certain that rmcp would let it through to the tool; whatever is not as a
//! client writes it goes to rmcp, which finds the words for what is wrong, if anything is.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>

use axum::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use serde_json::value::RawValue;

use super::headers;
use super::http::VERSION as VERSION_HEADER;
use super::tool_calls::ToolCall;

/// The version that is meant.
const STATELESS: &str = "2026-07-28";

/// The version, and what proxies read instead of the body, so it must say the same.
static NAMES: [HeaderName; 3] = [
    HeaderName::from_static(VERSION_HEADER),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
];

/// Begins a header's value that is written in Base64.
const ENCODED: &str = "=?base64?";

/// Reads the plain call that a request is; none if it is anything else.
pub(super) fn plain_call<'a>(headers: &HeaderMap, body: &'a [u8]) -> Option<ToolCall<'a>> {
    let [version, method, name] = headers::find(headers, &NAMES);
    if version.first()? != STATELESS || method.only()? != "tools/call" {
        return None;
    }
    let named = name.only()?.to_str().ok()?;
    if named.starts_with(ENCODED) {
        return None;
    }
    let call = ToolCall::plain(body)?;
    (call.version.as_deref() == Some(STATELESS) && call.name == named).then_some(call)
}

/// Writes the response of a call that was cancelled: in this version each request has one.
pub(super) fn cancelled(id: &RawValue) -> Bytes {
    let error = r#"{"code":-32603,"message":"the call was cancelled"}"#;
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

    const HEADERS: [(&str, &str); 3] = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "x"),
    ];

    fn is_plain(headers: &[(&'static str, &str)], body: &str) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a header's value"));
        }
        plain_call(&map, body.as_bytes()).is_some()
    }

    /// The plain call with one part of it written otherwise.
    fn with(part: &str, other: &str) -> String {
        assert!(PLAIN.contains(part), "{part}");
        PLAIN.replacen(part, other, 1)
    }

    #[test]
    fn a_call_is_plain_whatever_else_its_client_says_of_itself() {
        assert!(is_plain(&HEADERS, PLAIN));
        for body in [
            with(r#""id":1"#, r#""id":"a""#),
            with(r#","arguments":{"a":1}"#, ""),
            with(r#"{"a":1}"#, "null"),
            with(r#"{"a":1}"#, r#"{"a":{"b":[1,{}]}}"#),
            with(
                r#"Capabilities":{}"#,
                r#"Capabilities":{"roots":{},"elicitation":{},"experimental":{"a":{}},"b":1}"#,
            ),
            with(
                r#""_meta":{"#,
                r#""_meta":{"progressToken":7,"a/b":[1,-2,3.5,true,null,"\u00e9",{"c":{}}],"#,
            ),
            with(r#""_meta":{"#, r#""_meta":{"progressToken":"7","#),
            format!(" {PLAIN}\n"),
        ] {
            assert!(is_plain(&HEADERS, &body), "{body}");
        }
    }

    #[test]
    fn what_rmcp_might_refuse_or_write_otherwise_is_not_plain() {
        for body in [
            with("2.0", "1.0"),
            with(r#""jsonrpc":"2.0","#, ""),
            with(r#""id":1,"#, ""),
            with(r#""id":1"#, r#""id":null"#),
            with(r#""id":1"#, r#""id":1.5"#),
            with(r#""id":1"#, r#""id":-0"#),
            with(r#""id":1"#, r#""id":9223372036854775808"#),
            with(r#""id":1"#, r#""id":"\u00e9""#),
            with(r#""id":1"#, r#""id":1,"id":1"#),
            with(r#""id":1"#, &format!(r#""id":"{}""#, "a".repeat(255))),
            with("tools/call", "tools/list"),
            with(r#""name":"x""#, r#""name":"y""#),
            with(r#""name":"x""#, r#""name":"x","inputResponses":{}"#),
            with(r#""name":"x","#, ""),
            with(r#"{"a":1}"#, "[]"),
            with(r#"{"a":1}"#, r#""a""#),
            with(r#"{"a":1}"#, r#"{"a":1,"a":1}"#),
            with(r#"{"a":1}"#, r#"{"a":1e999}"#),
            with(r#"{"a":1}"#, r#"{"a":"\ud800"}"#),
            with("2026-07-28", "2025-11-25"),
            with(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#, ""),
            with(r#","io.modelcontextprotocol/clientCapabilities":{}"#, ""),
            with(r#"Capabilities":{}"#, r#"Capabilities":[1]"#),
            with(r#"Capabilities":{}"#, r#"Capabilities":{"roots":1}"#),
            with(r#"Capabilities":{}"#, r#"Capabilities":{"a":1,"a":1}"#),
            with(r#""_meta":{"#, r#""_meta":{"progressToken":true,"#),
            with(r#""_meta":{"#, r#""_meta":{"progressToken":1.5,"#),
            with(r#""_meta":{"#, r#""_meta":{"a":{"b":[{"c":1,"c":1}]},"#),
            with(r#""_meta":{"#, r#""_meta":{"a":1e999,"#),
            with(r#""_meta":{"#, r#""_meta":{"a":"\udc00","#),
            r#"["2.0",1,"tools/call",{"name":"x"}]"#.to_owned(),
            format!("[{PLAIN}]"),
            format!("{PLAIN}{PLAIN}"),
            with(r#""id":1"#, r#""id":1,"more":1"#),
            PLAIN[1..].to_owned(),
            String::new(),
        ] {
            assert!(!is_plain(&HEADERS, &body), "{body}");
        }
    }

    #[test]
    fn the_headers_of_a_plain_call_say_what_it_says() {
        let [version, method, name] = HEADERS;
        for headers in [
            vec![],
            vec![version, method],
            vec![version, name],
            vec![method, name],
            vec![("mcp-protocol-version", "2025-11-25"), method, name],
            vec![version, ("mcp-method", "tools/list"), name],
            vec![version, method, ("mcp-name", "y")],
            vec![version, method, method, name],
            vec![version, method, name, name],
        ] {
            assert!(!is_plain(&headers, PLAIN), "{headers:?}");
        }
        let encoded = "=?base64?eA==?=";
        let body = with(r#""name":"x""#, &format!(r#""name":"{encoded}""#));
        assert!(!is_plain(&[version, method, ("mcp-name", encoded)], &body));
        assert!(!is_plain(
            &[version, method, ("mcp-name", "é")],
            &with(r#":"x""#, r#":"é""#)
        ));
    }
}
