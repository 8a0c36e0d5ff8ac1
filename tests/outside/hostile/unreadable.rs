//! Ids and tokens that are JSON at first sight, and that nothing can be made of: half a surrogate pair, a number without end.

use super::*;

const NO_MESSAGE: i64 = -32_600;
const BAD_PARAMS: i64 = -32_602;

const UNREADABLE: [&str; 2] = [r#""\ud800""#, "1e999"];

/// A call that waits, where its client asks for it.
const WAIT: &str = r#"{"name":"read_messages","arguments":{"for":"pm","wait_seconds":1.5},"_meta":{}}"#;

const POSTED: &str =
    r#"{"name":"post_message","arguments":{"from":"pm","to":"dev-a","kind":"free","body":"x"},"_meta":{}}"#;

impl Scene {
    /// Sends a body over each way in, the stream last, and returns the answers.
    fn answers(&mut self, method: &str, name: &str, body: &str) -> Vec<Value> {
        let post = Request::post("/mcp", body);
        let modern = post
            .clone()
            .with("MCP-Protocol-Version", "2026-07-28")
            .with("Mcp-Method", method)
            .with("Mcp-Name", name);
        let json_only = post.clone().with("Accept", "application/json");
        let target = self.stream.target.clone();
        let over_http = [post, json_only, modern].map(|request| self.ask(&request).json());
        let response = self.ask(&Request::post(&target, body));
        let over_sse = match response.status {
            202 => self.stream.heard(),
            _ => response.json(),
        };
        over_http.into_iter().chain([over_sse]).collect()
    }
}

fn error(id: Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[test]
fn an_id_that_cannot_be_read_is_refused_over_each_way_in() {
    let mut scene = Scene::new();
    for id in UNREADABLE {
        let accepted = "accepted: a string, or a whole number of at most 64 bits";
        let reason = format!("the request is no JSON-RPC 2.0 message: \"id\" is the value {id}; {accepted}");
        let expected = vec![error(Value::Null, NO_MESSAGE, &reason); 4];
        for (method, name, params) in [
            ("tools/call", "read_messages", WAIT),
            ("tools/call", "post_message", POSTED),
            ("tools/call", "", "5"),
            ("tools/list", "", "{}"),
            ("initialize", "", r#"{"protocolVersion":5}"#),
            ("nope", "", "[]"),
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
            assert_eq!(scene.answers(method, name, &body), expected, "{body}");
            scene.is_unharmed();
        }
    }
}

/// Some readers take it for a number that is not whole.
#[test]
fn an_id_of_minus_zero_is_refused_over_each_way_in() {
    let mut scene = Scene::new();
    let reason = "the request is no JSON-RPC 2.0 message: \"id\" is the number -0.0; accepted: a string, or a whole \
                  number of at most 64 bits";
    let expected = vec![error(Value::Null, NO_MESSAGE, reason); 4];
    for (method, name, params) in [("tools/call", "post_message", POSTED), ("tools/list", "", "{}")] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":-0,"method":"{method}","params":{params}}}"#);
        assert_eq!(scene.answers(method, name, &body), expected, "{body}");
    }
    scene.is_unharmed();
}

/// Calls that wait are noted beside those of all streams.
#[test]
fn a_wait_with_an_id_that_cannot_be_read_harms_no_other_stream() {
    let mut scene = Scene::new();
    for id in UNREADABLE {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{WAIT}}}"#);
        let target = scene.stream.target.clone();
        let mut connection = scene.relay.connect();
        connection.send(&Request::post(&target, body).bytes());
        assert_eq!(
            connection.response_or_end().map(|response| response.status),
            Some(400)
        );
        let mut session = scene.relay.session(Way::Sse);
        let pending = session.call("list_pending", &json!({"for": "dev-b"}));
        assert_eq!(pending.json()["count"], 0);
        scene.is_unharmed();
    }
}

#[test]
fn a_progress_token_that_is_no_text_and_no_whole_number_is_refused_over_each_way_in() {
    let mut scene = Scene::new();
    for token in ["1.5", "-0.5", "9223372036854775808", "true"]
        .iter()
        .chain(&UNREADABLE)
    {
        let shown = match *token {
            "true" => "the boolean true".to_owned(),
            token if UNREADABLE.contains(&token) => format!("the value {token}"),
            token => format!("the number {token}"),
        };
        let accepted = "accepted: a string, or a whole number of at most 64 bits";
        let reason = format!("params of tools/call: \"progressToken\" is {shown}; {accepted}");
        for (name, params) in [("read_messages", WAIT), ("post_message", POSTED)] {
            let meta = format!(r#""_meta":{{"progressToken":{token}}}"#);
            let params = params.replace(r#""_meta":{}"#, &meta);
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            let mut answers = scene.answers("tools/call", name, &body);
            if UNREADABLE.contains(token) {
                // A request that names its version is read whole first.
                let modern = answers.remove(2);
                assert_eq!(
                    (&modern["id"], &modern["error"]["code"]),
                    (&json!(1), &json!(NO_MESSAGE))
                );
                let message = modern["error"]["message"].as_str().unwrap_or_default();
                assert!(message.contains("halves of surrogates in pairs"), "{modern}");
            }
            let expected = vec![error(json!(1), BAD_PARAMS, &reason); answers.len()];
            assert_eq!(answers, expected, "{body}");
            scene.is_unharmed();
        }
    }
}

#[test]
fn what_is_passed_over_must_be_readable_too() {
    let mut scene = Scene::new();
    for unreadable in UNREADABLE {
        for (from, to) in [
            (r#""id":1"#, format!(r#""id":1,"other":[{unreadable}]"#)),
            (r#""name":"#, format!(r#""other":[{unreadable}],"name":"#)),
            (
                r#""name":"#,
                format!(r#""_meta":{{"other":[{unreadable}]}},"name":"#),
            ),
        ] {
            let body = POST.replace(from, &to);
            for answer in scene.answers("tools/call", "post_message", &body) {
                let message = answer["error"]["message"].as_str().unwrap_or_default();
                assert_eq!(answer["error"]["code"], NO_MESSAGE, "{body}: {answer}");
                assert!(message.contains("numbers that fit 64 bits"), "{body}: {answer}");
            }
            scene.is_unharmed();
        }
    }
}
