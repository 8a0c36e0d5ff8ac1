//! Requests that are sent before the answers to earlier ones were read prove nothing about those.

use super::*;

/// Makes the requests of a read and of a post that follows it.
fn read_then_post(session: &Session, body_bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let read = json!({"name": "read_messages", "arguments": {"for": "pm"}});
    let arguments = json!({"from": "pm", "to": "dev-b", "kind": "free", "body": "x".repeat(body_bytes)});
    let post = json!({"name": "post_message", "arguments": arguments});
    (
        session.request_of(1, "tools/call", read).bytes(),
        session.request_of(2, "tools/call", post).bytes(),
    )
}

fn await_pending(relay: &Relay, role: &str, count: u64) {
    until(&format!("{count} messages for {role}"), || {
        relay.pending()[role] == count
    });
}

#[test]
fn requests_that_were_sent_in_one_go_confirm_nothing() {
    // The second request fits into the server's buffer, or is still in the kernel's when the first is answered.
    for body_bytes in [4, 900_000] {
        over_each(&EXCHANGES, |relay, way| {
            relay.session(Way::Http).post("dev-a", "pm", "m1");
            let mut client = relay.session(way);
            let (read, post) = read_then_post(&client, body_bytes);
            client.calls.send(&[read, post].concat());
            // Both are carried out, and nothing of their answers is read.
            await_pending(relay, "dev-b", 1);
            assert_eq!(relay.pending()["pm"], 0);
            drop(client);
            await_pending(relay, "pm", 1);
            assert_eq!(relay.session(Way::Http).read("pm").bodies(), ["again: m1"]);
        });
    }
}

#[test]
fn a_request_that_was_there_before_the_answer_was_passed_confirms_nothing() {
    over_each(&EXCHANGES, |relay, way| {
        let mut client = relay.session(way);
        client.wait("pm", 60.0);
        let (_, post) = read_then_post(&client, 4);
        until("the wait", || relay.sessions() == 1);
        client.calls.send(&post);
        // The second request is in the server's buffers, or in its kernel's, when the wait is answered.
        let mut sender = relay.session(Way::Sse);
        sender.post("dev-a", "pm", "m1");
        await_pending(relay, "dev-b", 1);
        drop(client);
        await_pending(relay, "pm", 1);
    });
}

#[test]
fn a_request_that_follows_an_answer_confirms_it_whatever_it_asks_for() {
    over_each(&EXCHANGES, |relay, way| {
        relay.session(Way::Http).post("dev-a", "pm", "m1");
        let mut client = relay.session(way);
        assert_eq!(client.read("pm").bodies(), ["m1"]);
        // On a busy machine the next request may be there before relay has seen that its answer was passed; then the
        // one after it confirms.
        until("the answer is confirmed", || {
            let health = client.calls.exchange(&Request::get("/health")).json();
            let mut roles = health["roles"].as_array().expect("roles").iter();
            roles.any(|role| role["role"] == "pm" && role["in_doubt"] == 0)
        });
        // The connection breaks with an answer unread, but not that one.
        client.calls.send(&Request::get("/health").bytes());
        client.calls.await_unread_bytes();
        drop(client);
        relay.await_sessions(0);
        assert_eq!(relay.pending()["pm"], 0);
        assert_eq!(relay.session(Way::Http).read("pm").bodies(), Vec::<String>::new());
    });
}
