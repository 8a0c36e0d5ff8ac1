use super::*;

#[test]
fn a_relay_with_a_token_asks_it_of_every_request() {
    let by_argument = Relay::start_with(&["--token", TOKEN, "--host", "127.0.0.1"], &[]);
    let by_variable = Relay::start_with(&[], &[("RELAY_TOKEN", TOKEN)]);
    for relay in [by_argument, by_variable] {
        let post = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "post_message",
                "arguments": {"from": "pm", "to": "pm", "kind": "free", "body": "b"},
            },
        });
        let right = format!("Bearer {TOKEN}");
        let stream = Request::get("/sse").with("Authorization", &right);
        let mut stream = EventStream::open(relay.connect(), &stream);
        let address = stream.event().data.expect("an address");
        let requests = [
            Request::get("/health"),
            Request::get("/sse"),
            Request::get("/nowhere"),
            Request::post("/mcp", post.to_string()),
            Request::post(&address, post.to_string()),
            Request::post("/api/send", r#"{"to":"pm","body":"b"}"#),
            Request::post("/api/read", r#"{"for":"pm"}"#),
            Request::post("/api/peek", r#"{"for":"pm"}"#),
            Request::post("/api/trace", r#"{"message":"3f2a91c0"}"#),
        ];
        for request in &requests {
            for wrong in [
                "",
                TOKEN,
                "Bearer",
                "Bearer 0123456789abcdeF",
                "Basic 0123456789abcdef",
            ] {
                let request = match wrong {
                    "" => request.clone(),
                    wrong => request.clone().with("Authorization", wrong),
                };
                let response = relay.connect().exchange(&request);
                let reason = match wrong {
                    "" => "this relay wants a token; send the header Authorization: Bearer <token>",
                    _ => {
                        "this relay has another token than the one that was sent; send the header Authorization: Bearer <token> with the one that it was started with"
                    }
                };
                let challenge = response.header("www-authenticate").map(str::to_owned);
                let expected = match wrong {
                    "" => "Bearer realm=\"relay\"",
                    _ => "Bearer realm=\"relay\", error=\"invalid_token\"",
                };
                assert_eq!(
                    (response.status, response.json(), challenge.as_deref()),
                    (401, json!({"error": reason}), Some(expected)),
                    "{request:?}"
                );
            }
        }
        let mut connection = relay.connect();
        let mut ask = |request: &Request| connection.exchange(&request.clone().with("Authorization", &right));
        let health = ask(&requests[0]);
        assert_eq!((health.status, &health.json()["pending"]["pm"]), (200, &json!(0)));
        assert_eq!(ask(&requests[3]).status, 200);
        assert_eq!(ask(&requests[4]).status, 202);
        assert!(
            stream
                .event()
                .data
                .is_some_and(|data| data.contains(r#""isError":false"#))
        );
        assert_eq!(ask(&requests[0]).json()["pending"]["pm"], 2);
    }
}
