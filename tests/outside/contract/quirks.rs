use super::*;

/// The text that stands before the messages for Gemini CLI.
const HEADING: &str = "Messages, oldest first, as a JSON array:";

/// A client of some name, once it has made its handshake.
struct Client {
    session: Session,
    /// What it was given to name with each request, over streamable HTTP.
    id: Option<String>,
    last: u64,
}

impl Client {
    fn start(relay: &Relay, way: Way, name: &str) -> Self {
        let mut client = Self {
            session: relay.session(way),
            id: None,
            last: 0,
        };
        let info = json!({"name": name, "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        if way == Way::Http {
            let handshake = client.session.request_of(9, "initialize", params);
            let response = client.session.calls.exchange(&handshake);
            client.id = response.header("mcp-session-id").map(str::to_owned);
            assert!(client.id.is_some(), "{response:?}");
        } else {
            client.session.ask("initialize", params);
        }
        client
    }

    /// The texts of what it reads, and the id of the request.
    fn reads(&mut self, wait: bool) -> (u64, Vec<String>) {
        self.last += 1;
        let id = 100 + self.last;
        let arguments = if wait {
            json!({"for": "dev-a", "wait_seconds": 1})
        } else {
            json!({"for": "dev-a"})
        };
        let params = json!({"name": "read_messages", "arguments": arguments, "_meta": {"progressToken": id}});
        let request = self.session.request_of(id, "tools/call", params);
        let request = self.named(request);
        let response = self.session.calls.exchange(&request);
        let answer = match self.session.stream {
            Some(_) => self.session.heard(),
            None => message_of(&response),
        };
        let content = answer["result"]["content"].as_array();
        let content = content.unwrap_or_else(|| panic!("no content: {answer}"));
        let texts = content
            .iter()
            .map(|block| block["text"].as_str().expect("a text").to_owned());
        (id, texts.collect())
    }

    /// Makes the request that cancels another.
    fn cancellation(&self, id: u64) -> Request {
        let message =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        self.named(Request::post(&self.session.target, message.to_string()))
    }

    /// Says whose a request is.
    fn named(&self, request: Request) -> Request {
        match &self.id {
            Some(id) => request.with("Mcp-Session-Id", id),
            None => request,
        }
    }
}

#[test]
fn what_opencode_cancels_behind_its_answer_was_read_and_what_others_cancel_was_not() {
    let relay = Relay::start_told();
    for (name, again) in [("opencode", ""), ("open-code", "again: m1")] {
        let mut client = Client::start(&relay, Way::Http, name);
        relay.session(Way::Http).post("pm", "dev-a", "m1");
        let (id, texts) = client.reads(false);
        assert!(texts[0].contains("m1"), "{texts:?}");
        let cancellation = client.cancellation(id);
        // OpenCode does so a moment later. What comes at once may be there before relay has seen that its answer is passed, and proves nothing.
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(client.session.calls.exchange(&cancellation).status, 202);
        assert_eq!(relay.bodies("dev-a").concat(), again, "{name}");
    }
}

/// A cancellation that crosses with the answer comes over a connection of its own.
#[test]
fn what_opencode_cancels_while_the_answer_is_on_its_way_was_not_read() {
    over_each(&[Way::Http, Way::Sse], |relay, way| {
        let mut client = Client::start(relay, way, "opencode");
        relay.session(Way::Http).post("pm", "dev-a", "m1");
        let (id, texts) = client.reads(false);
        assert!(texts[0].contains("m1"), "{texts:?}");
        let cancellation = client.cancellation(id);
        assert_eq!(relay.connect().exchange(&cancellation).status, 202);
        assert_eq!(relay.bodies("dev-a"), ["again: m1"]);
    });
}

#[test]
fn gemini_cli_is_given_a_text_before_an_array() {
    over_each(&[Way::Http, Way::Sse], |relay, way| {
        for (name, is_headed) in [("gemini-cli-mcp-client", true), ("gemini", false)] {
            let mut client = Client::start(relay, way, name);
            // What may wait takes another way through relay.
            for wait in [false, true] {
                relay.session(Way::Http).post("pm", "dev-a", "m1");
                let (_, texts) = client.reads(wait);
                assert_eq!(texts[0] == HEADING, is_headed, "{texts:?}");
                assert!(texts[usize::from(is_headed)].starts_with("[{"), "{texts:?}");
            }
        }
    });
}
