//! What is read in one pass, against what is read slowly.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta as _, ProtocolVersion, RequestId};
use serde_json::json;

use super::*;
use crate::engine::Command;
use crate::server::json_rpc;
use crate::server::tool_calls::command;
use crate::tools::{DEFAULT, InvalidCall, ReplyBytes, Served};

const SERVED: Served = Served {
    toolsets: DEFAULT,
    reply_max: ReplyBytes::LEAST_KNOWN,
};

/// What a call means.
#[derive(Debug, PartialEq)]
struct Meaning {
    id: String,
    command: Result<Command, InvalidCall>,
    progress_token: Option<String>,
    version: Option<String>,
    client: Option<Client>,
}

fn meaning(call: ToolCall<'_>) -> Meaning {
    Meaning {
        id: call.id.get().to_owned(),
        command: command(SERVED, &call.name, call.arguments).map(|(_, command)| command),
        progress_token: call.progress_token.map(|token| token.get().to_owned()),
        version: call.version.map(Cow::into_owned),
        client: call.client,
    }
}

fn read_in_one_pass(body: &[u8]) -> Option<Meaning> {
    ToolCall::plain(body).map(meaning)
}

/// Reads a call as all bodies are read that are not plain: by relay, or by rmcp if it names its version.
fn read_slowly(body: &[u8]) -> Option<Meaning> {
    let envelope = json_rpc::read(body).ok()?;
    if let Some(call) = envelope.tool_call() {
        return call.ok().map(meaning);
    }
    let message = serde_json::from_value(envelope.checked(body).ok()?).ok()?;
    let ClientJsonRpcMessage::Request(request) = message else {
        return None;
    };
    let meta = request.request.get_meta().clone();
    let ClientRequest::CallToolRequest(call) = request.request else {
        return None;
    };
    assert_eq!(
        meta.missing_required_keys(&ProtocolVersion::V_2026_07_28),
        [""; 0]
    );
    let token = meta.get_progress_token();
    let arguments = call.params.arguments.clone().unwrap_or_default();
    let id: RequestId = request.id;
    Some(Meaning {
        id: serde_json::to_string(&id).expect("JSON"),
        command: command(SERVED, &call.params.name, arguments.into()).map(|(_, command)| command),
        progress_token: token.map(|token| serde_json::to_string(&token.0).expect("JSON")),
        version: meta.protocol_version().map(|version| version.to_string()),
        client: meta
            .client_info()
            .and_then(|client| Client::of_name(&client.name)),
    })
}

/// Texts, numbers and names that calls are made of, good and bad.
const VALUES: [&str; 24] = [
    r#""pm""#,
    r#""dev-a""#,
    r#""status""#,
    r#""free""#,
    r#""a \"b\" \\ \n \u00e9 \ud83d\ude00""#,
    r#""é""#,
    r#""""#,
    "null",
    "true",
    "0",
    "-0",
    "7",
    "-1",
    "280",
    "280.5",
    "1e2",
    "1e999",
    "18446744073709551615",
    "[]",
    "[1,[{}]]",
    "{}",
    r#"{"a":1,"b":{"c":[]}}"#,
    r#"{"a":1,"a":2}"#,
    r#""\ud800""#,
];
const NAMES: [&str; 10] = [
    "from",
    "to",
    "kind",
    "body",
    "for",
    "wait_seconds",
    "x",
    r"f\u006fr",
    "é",
    "",
];

fn any<'a>(random: &mut fastrand::Rng, of: &[&'a str]) -> &'a str {
    of[random.usize(..of.len())]
}

/// Writes an object with its members in any order, with spaces or without.
fn object(random: &mut fastrand::Rng, mut members: Vec<String>) -> String {
    random.shuffle(&mut members);
    let space = any(random, &["", " ", "\n\t"]);
    format!("{{{space}{}{space}}}", members.join(&format!(",{space}")))
}

fn arguments(random: &mut fastrand::Rng) -> String {
    let mut members = Vec::new();
    for _ in 0..random.usize(0..6) {
        members.push(format!("\"{}\":{}", any(random, &NAMES), any(random, &VALUES)));
    }
    if random.u8(0..3) == 0 {
        for name in ["from", "to", "body"] {
            members.push(format!("\"{name}\":{}", any(random, &VALUES[..7])));
        }
        members.push(r#""kind":"free""#.to_owned());
    }
    object(random, members)
}

fn meta(random: &mut fastrand::Rng) -> String {
    let mut members = Vec::new();
    if random.bool() {
        members.push(format!("\"progressToken\":{}", any(random, &VALUES)));
    }
    if random.bool() {
        let version = any(random, &[r#""2026-07-28""#, r#""2025-11-25""#, "null", "5"]);
        members.push(format!("\"{VERSION}\":{version}"));
    }
    if random.bool() {
        let capabilities = ["{}", r#"{"roots":{}}"#, r#"{"elicitation":{"form":{}},"x":1}"#];
        let values = if random.u8(0..4) > 0 {
            &capabilities[..]
        } else {
            &VALUES
        };
        let value = any(random, values);
        members.push(format!("\"{CAPABILITIES}\":{value}"));
    }
    if random.bool() {
        members.push(format!("\"other\":{}", any(random, &VALUES)));
    }
    object(random, members)
}

fn body(random: &mut fastrand::Rng) -> String {
    let name = any(
        random,
        &[
            "post_message",
            "read_messages",
            "list_pending",
            "x",
            r"read\u005fmessages",
        ],
    );
    let mut params = vec![format!("\"name\":\"{name}\"")];
    if random.u8(0..8) != 0 {
        params.push(format!("\"arguments\":{}", arguments(random)));
    }
    if random.bool() {
        params.push(format!("\"_meta\":{}", meta(random)));
    }
    if random.u8(0..8) == 0 {
        params.push(format!(
            "\"{}\":{}",
            any(random, &["name", "x", "requestState"]),
            any(random, &VALUES)
        ));
    }
    let ids = if random.bool() {
        &["1", r#""a""#][..]
    } else {
        &VALUES
    };
    let mut message = vec![
        r#""jsonrpc":"2.0""#.to_owned(),
        r#""method":"tools/call""#.to_owned(),
        format!("\"id\":{}", any(random, ids)),
        format!("\"params\":{}", object(random, params)),
    ];
    if random.u8(0..8) == 0 {
        message.push(format!(
            "\"{}\":{}",
            any(random, &["id", "result", "x"]),
            any(random, &VALUES)
        ));
    }
    object(random, message)
}

/// Changes some bytes of a body, puts parts of it elsewhere, or takes them away.
fn spoil(random: &mut fastrand::Rng, body: &mut Vec<u8>) {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..body.len());
        let end = (at + random.usize(0..12)).min(body.len());
        match random.u8(0..5) {
            0 => body[at] = random.u8(..),
            1 => body[at] = *b"\"\\{}[]:,0-\n".get(random.usize(..11)).expect("one of eleven"),
            2 => body.truncate(at.max(1)),
            3 => drop(body.drain(at..end.min(body.len() - 1).max(at))),
            _ => {
                let part = body[at..end].to_vec();
                let to = random.usize(..=body.len());
                body.splice(to..to, part);
            }
        }
    }
}

#[test]
fn what_is_read_in_one_pass_means_what_it_means_to_the_slow_reading() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut session_based, mut stateless) = (0, 0);
    for _ in 0..30_000 {
        let mut body = body(&mut random).into_bytes();
        if random.bool() {
            spoil(&mut random, &mut body);
        }
        if let Some(read) = read_in_one_pass(&body) {
            match read.version {
                None => session_based += 1,
                Some(_) => stateless += 1,
            }
            assert_eq!(
                read_slowly(&body),
                Some(read),
                "{}",
                String::from_utf8_lossy(&body)
            );
        }
    }
    assert!(
        session_based > 2_000 && stateless > 100,
        "{session_based}, {stateless}"
    );
}

#[test]
fn what_clients_send_is_read_in_one_pass_without_a_copy() {
    let calls = [
        json!({"name": "post_message", "arguments": {"from": "pm", "to": "dev-a", "kind": "free", "body": "é"}}),
        json!({"name": "read_messages", "arguments": {"for": "pm", "wait_seconds": 1.5}, "_meta": {"progressToken": 3}}),
        json!({"name": "list_pending", "arguments": {}, "_meta": {"claudecode/toolUseId": "toolu_1", "progressToken": "a"}}),
        json!({"name": "list_pending"}),
        json!({"name": "list_pending", "arguments": null, "_meta": null}),
        json!({"name": "list_pending", "_meta": {VERSION: "2026-07-28", CAPABILITIES: {"roots": {}}, "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "1"}}}),
    ];
    for params in calls {
        for id in [json!(0), json!("a-b")] {
            let body =
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
            let call = ToolCall::plain(body.as_bytes()).unwrap_or_else(|| panic!("{body}"));
            assert!(matches!(call.name, Cow::Borrowed(_)), "{body}");
            assert!(call.arguments.are_borrowed(), "{body}");
            assert_eq!(read_slowly(body.as_bytes()), Some(meaning(call)));
        }
    }
}

#[test]
fn what_is_no_plain_call_is_left_to_the_slow_reading() {
    let call =
        |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let plain = call(r#"{"name":"x"}"#);
    assert!(ToolCall::plain(plain.as_bytes()).is_some());
    let many: Vec<String> = (0..=ARGUMENTS_MAX).map(|n| format!("\"{n}\":1")).collect();
    let others = [
        plain.replace("2.0", "2.1"),
        plain.replace("tools/call", "tools/list"),
        plain.replace(r#""id":1,"#, ""),
        plain.replace(":1,", ":1.0,"),
        plain.replace(":1,", ":-0,"),
        plain.replace(":1,", r#":"\u0061","#),
        plain.replace(":1,", &format!(":\"{}\",", "a".repeat(REQUEST_ID_BYTES_MAX - 1))),
        plain.replace(":1,", r#":1,"id":1,"#),
        plain.replace(":1,", r#":1,"x":1,"#),
        format!("{plain}x"),
        format!("[{plain}]"),
        call("null"),
        call("{}"),
        call(r#"{"name":"x","name":"x"}"#),
        call(r#"{"name":"x","task":{}}"#),
        call(r#"{"name":"x","arguments":[]}"#),
        call(r#"{"name":"x","arguments":{"a":1,"\u0061":1}}"#),
        call(r#"{"name":"x","arguments":{"a":{"b":1,"b":1}}}"#),
        call(&format!(r#"{{"name":"x","arguments":{{{}}}}}"#, many.join(","))),
        call(r#"{"name":"x","arguments":nul}"#),
        call(r#"{"name":"x","arguments":{"a":1,}}"#),
        call(&format!(
            r#"{{"name":"x","arguments":{{"a":{0}{1}}}}}"#,
            "[".repeat(100),
            "]".repeat(100)
        )),
        call(&format!(
            r#"{{"name":"x","_meta":{{"a":{0}{1}}}}}"#,
            "[".repeat(100),
            "]".repeat(100)
        )),
        call(r#"{"name":"x","_meta":[]}"#),
        call(r#"{"name":"x","_meta":{"a":1,"a":1}}"#),
        call(r#"{"name":"x","_meta":{"a":[{"b":1,"b":1}]}}"#),
        call(r#"{"name":"x","_meta":{"progressToken":1.5}}"#),
        call(&format!(r#"{{"name":"x","_meta":{{"{VERSION}":"2026-07-28"}}}}"#)),
        call(&format!(
            r#"{{"name":"x","_meta":{{"{VERSION}":"2026-07-28","{CAPABILITIES}":{{"roots":5}}}}}}"#
        )),
        call(&format!(
            r#"{{"name":"x","_meta":{{"{VERSION}":"2026-07-28","{CAPABILITIES}":{{"a":1,"a":1}}}}}}"#
        )),
    ];
    for other in others {
        assert!(ToolCall::plain(other.as_bytes()).is_none(), "{other}");
    }
    let latin: Vec<u8> = plain
        .bytes()
        .map(|byte| if byte == b'x' { 0xe9 } else { byte })
        .collect();
    assert!(ToolCall::plain(&latin).is_none());
}
