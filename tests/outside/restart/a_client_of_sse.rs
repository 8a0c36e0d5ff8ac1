//! Clients of HTTP+SSE: which of their waits lost their stream, and who is told of them.

use super::*;

#[test]
fn that_came_back_after_a_kill_is_told_soon_and_once_which_of_its_calls_is_lost() {
    let mut relay = told_relay();
    let mut before = Client::new(&relay);
    before.wait(41);
    relay.kill_and_restart();
    let mut back = Client::new(&relay);
    let opened = Instant::now();
    assert_eq!(back.heard(), told(41, RESTARTED));
    assert!(opened.elapsed() < SOON, "{:?}", opened.elapsed());
    back.hears_no_more();
    back.post(call(42, "list_pending", &json!({"for": "dev-a"})));
    assert_eq!(back.heard()["id"], 42);
}

#[test]
fn that_makes_a_handshake_is_new_and_told_nothing() {
    let mut relay = told_relay();
    Client::new(&relay).wait(41);
    relay.kill_and_restart();
    let mut new = Client::new(&relay);
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let handshake = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    new.post(handshake.to_string());
    assert_eq!(new.heard()["result"]["serverInfo"]["name"], "relay");
    new.hears_no_more();
}

/// The versions without a handshake begin so.
#[test]
fn that_asks_what_relay_is_is_new_and_told_nothing() {
    let mut relay = told_relay();
    Client::new(&relay).wait(41);
    relay.kill_and_restart();
    let mut new = Client::new(&relay);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let discover = json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": meta}});
    new.post(discover.to_string());
    assert_eq!(new.heard()["id"], 0);
    new.hears_no_more();
}

#[test]
fn that_names_its_stream_is_told_of_its_own_calls_only() {
    let mut relay = told_relay();
    let mut clients = [Client::new(&relay), Client::new(&relay)];
    clients[0].wait(41);
    clients[1].wait(42);
    let id = clients[1].id();
    relay.kill_and_restart();
    let mut back = Client::back(&relay, &id);
    assert_eq!(back.heard(), told(42, RESTARTED));
    back.hears_no_more();
    let mut other = Client::new(&relay);
    assert_eq!(other.heard(), told(41, RESTARTED));
    other.hears_no_more();
}

#[test]
fn that_is_bound_is_told_of_calls_of_clients_bound_alike() {
    let mut relay = told_relay();
    let mut clients = [Client::bound(&relay, "dev-a"), Client::new(&relay)];
    clients[0].post(call(7, "read_messages", &json!({"wait_seconds": 60})));
    clients[1].wait(8);
    relay.kill_and_restart();
    let mut other = Client::bound(&relay, "dev-b");
    let mut bound = Client::bound(&relay, "dev-a");
    let mut free = Client::new(&relay);
    assert_eq!(bound.heard(), told(7, RESTARTED));
    assert_eq!(free.heard(), told(8, RESTARTED));
    [&mut other, &mut bound, &mut free]
        .into_iter()
        .for_each(Client::hears_no_more);
}

#[test]
fn that_calls_at_once_when_it_is_back_is_answered_once_even_where_another_s_lost_call_has_the_same_id() {
    let mut relay = told_relay();
    let mut clients = [Client::new(&relay), Client::new(&relay)];
    clients[0].wait(5);
    clients[1].wait(6);
    relay.kill_and_restart();
    let mut back = Client::new(&relay);
    back.post(call(6, "list_pending", &json!({"for": "pm"})));
    assert_eq!(back.heard(), told(5, RESTARTED));
    let answer = back.heard();
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(6), &json!(false))
    );
    back.hears_no_more();
}

#[test]
fn loses_no_message_to_a_call_that_was_on_its_way_when_another_s_with_its_id_was_told_lost() {
    let mut relay = told_relay();
    let mut clients = [Client::new(&relay), Client::new(&relay)];
    clients[0].wait(5);
    clients[1].wait(6);
    relay.kill_and_restart();
    relay.session(Way::Http).post("pm", "dev-a", "kept");
    let mut back = Client::new(&relay);
    // Both were made at once; when the second arrives, its id has been told to be lost.
    back.post(call(7, "list_pending", &json!({"for": "pm"})));
    back.post(call(6, "read_messages", &json!({"for": "dev-a"})));
    let heard = [(); 4].map(|()| back.heard());
    assert_eq!(heard[..2], [told(5, RESTARTED), told(6, RESTARTED)]);
    assert_eq!(heard[2]["id"], 7);
    assert_eq!(heard[3], told(6, RESTARTED));
    // It was told so; what it asks now is no longer what was on its way.
    back.post(call(6, "list_pending", &json!({"for": "pm"})));
    let answer = back.heard();
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(6), &json!(false))
    );
    let read = relay.session(Way::Http).read("dev-a");
    assert_eq!(read.bodies(), ["kept"]);
}

#[test]
fn whose_stream_broke_alone_is_told_that_nothing_was_taken() {
    let relay = told_relay();
    let mut broken = Client::new(&relay);
    broken.wait(41);
    let id = broken.id();
    drop(broken);
    relay.await_sessions(0);
    let mut back = Client::back(&relay, &id);
    assert_eq!(back.heard(), told(41, STREAM_ENDED));
    back.hears_no_more();
    let mut anew = Client::new(&relay);
    anew.hears_no_more();
}

#[test]
fn that_is_back_before_its_old_stream_is_seen_to_be_gone_is_told_so_even_when_it_calls_at_once() {
    let relay = told_relay();
    let mut old = Client::new(&relay);
    old.wait(41);
    let mut back = Client::back(&relay, &old.id());
    back.post(call(42, "list_pending", &json!({"for": "pm"})));
    assert_eq!(back.heard(), told(41, STREAM_ENDED));
    assert_eq!(back.heard()["id"], 42);
    back.hears_no_more();
    relay.session(Way::Http).post("pm", "dev-a", "kept");
    assert_eq!(relay.session(Way::Http).read("dev-a").bodies(), ["kept"]);
}

#[test]
fn whose_stream_broke_with_an_answer_in_it_is_told_so_until_it_has_heard_that() {
    let mut relay = told_relay();
    relay.session(Way::Http).post("pm", "dev-a", "kept");
    let mut broken = Client::new(&relay);
    let id = broken.id();
    // Answered at once.
    broken.wait(41);
    broken.stream.event();
    drop(broken);
    relay.await_sessions(0);
    for _ in 0..2 {
        let mut back = Client::back(&relay, &id);
        assert_eq!(back.heard(), told(41, STREAM_ENDED));
        drop(back);
        relay.await_sessions(0);
    }
    // For what it was, over the end of the relay too.
    relay.kill_and_restart();
    let mut back = Client::back(&relay, &id);
    assert_eq!(back.heard(), told(41, RESTARTED));
    back.post(call(42, "list_pending", &json!({"for": "pm"})));
    assert_eq!(back.heard()["id"], 42);
    drop(back);
    relay.await_sessions(0);
    Client::back(&relay, &id).hears_no_more();
}

#[test]
fn shows_that_it_has_read_an_answer_by_a_call_and_by_nothing_less() {
    let relay = told_relay();
    relay.session(Way::Http).post("pm", "dev-a", "kept");
    let mut broken = Client::new(&relay);
    let id = broken.id();
    broken.wait(41);
    broken.stream.event();
    broken.post(json!({"jsonrpc": "2.0", "id": 42, "method": "ping"}).to_string());
    assert_eq!(broken.heard()["id"], 42);
    broken.post(call(43, "list_pending", &json!({"of": "pm"})));
    assert_eq!(broken.heard()["id"], 43);
    drop(broken);
    relay.await_sessions(0);
    let mut back = Client::back(&relay, &id);
    assert_eq!(back.heard(), told(41, STREAM_ENDED));
    back.hears_no_more();
}

#[test]
fn of_the_latest_version_is_told_in_the_same_way() {
    let mut relay = told_relay();
    let mut before = Client::new(&relay);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let wait = |id: u64, seconds: f64| {
        let arguments = json!({"for": "dev-a", "wait_seconds": seconds});
        let params = json!({"name": "read_messages", "arguments": arguments, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    before.post(wait(40, 0.01));
    assert_eq!(before.heard()["id"], 40);
    before.post(wait(41, 60.0));
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 41}});
    before.post(cancelled.to_string());
    until("the cancelled one is forgotten", || {
        last_note(&relay).as_deref() == Some("-1")
    });
    before.post(wait(42, 60.0));
    relay.kill_and_restart();
    let mut back = Client::new(&relay);
    assert_eq!(back.heard(), told(42, RESTARTED));
    back.hears_no_more();
}

#[test]
fn that_cancelled_its_wait_is_not_told_of_it() {
    let mut relay = told_relay();
    let mut before = Client::new(&relay);
    before.wait(41);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 41}});
    before.post(cancelled.to_string());
    until("nothing waits", || last_note(&relay).as_deref() == Some("-0"));
    relay.kill_and_restart();
    Client::new(&relay).hears_no_more();
}

#[test]
fn is_answered_by_an_orderly_stop_and_told_nothing_after_the_next_start() {
    let mut relay = told_relay();
    let mut before = Client::new(&relay);
    before.wait(41);
    relay.signal("TERM");
    let answer = before.heard();
    let texts = &answer["result"]["content"];
    assert_eq!(
        (&answer["id"], texts),
        (&json!(41), &json!([{"type": "text", "text": "[]"}]))
    );
    assert!(relay.exit_status().success());
    relay.restart();
    Client::new(&relay).hears_no_more();
}

fn modern(id: u64, arguments: &Value, token: Option<&str>) -> String {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Some(token) = token {
        meta["progressToken"] = json!(token);
    }
    let params = json!({"name": "read_messages", "arguments": arguments, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

fn cancelled(id: u64) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string()
}

fn waits() -> Value {
    json!({"for": "dev-a", "wait_seconds": 60})
}

#[test]
fn that_makes_its_lost_call_anew_is_not_told_of_it_later() {
    let mut relay = told_relay();
    let mut before = Client::new(&relay);
    before.wait(41);
    let id = before.id();
    relay.kill_and_restart();
    let mut back = Client::back(&relay, &id);
    back.post(call(41, "list_pending", &json!({"for": "dev-a"})));
    assert_eq!(back.heard()["result"]["isError"], false);
    drop(back);
    relay.await_sessions(0);
    Client::back(&relay, &id).hears_no_more();
}

#[test]
fn that_was_told_of_progress_has_no_answer_yet() {
    for way in ["plain", "modern"] {
        let mut relay = told_relay();
        let mut before = Client::new(&relay);
        let wait = match way {
            "plain" => {
                let params =
                    json!({"name": "read_messages", "arguments": waits(), "_meta": {"progressToken": "t"}});
                json!({"jsonrpc": "2.0", "id": 41, "method": "tools/call", "params": params}).to_string()
            }
            _ => modern(41, &waits(), Some("t")),
        };
        before.post(wait);
        assert_eq!(before.heard()["method"], "notifications/progress");
        before.post(call(42, "list_pending", &json!({"for": "dev-a"})));
        assert_eq!(before.heard()["id"], 42);
        relay.kill_and_restart();
        assert_eq!(Client::new(&relay).heard(), told(41, RESTARTED), "{way}");
    }
}

#[test]
fn of_the_latest_version_whose_stream_broke_alone_is_told_so() {
    let relay = told_relay();
    let mut broken = Client::new(&relay);
    broken.post(modern(41, &waits(), None));
    let id = broken.id();
    until("it is noted", || {
        last_note(&relay).is_some_and(|note| note.starts_with("+0"))
    });
    drop(broken);
    relay.await_sessions(0);
    let mut back = Client::back(&relay, &id);
    assert_eq!(back.heard(), told(41, STREAM_ENDED));
}

#[test]
fn of_the_latest_version_that_cancelled_its_wait_is_not_answered() {
    let relay = told_relay();
    let mut client = Client::new(&relay);
    client.post(modern(41, &waits(), None));
    client.post(cancelled(41));
    client.hears_no_more();
    assert_eq!(last_note(&relay).as_deref(), Some("-0"));
}

#[test]
fn whose_cancellation_came_first_is_not_told_of_that_call() {
    let relay = told_relay();
    let mut client = Client::new(&relay);
    client.post(cancelled(41));
    client.wait(41);
    client.hears_no_more();
    let id = client.id();
    drop(client);
    relay.await_sessions(0);
    Client::back(&relay, &id).hears_no_more();
}

#[test]
fn of_the_latest_version_shows_by_a_call_that_it_has_read_an_answer() {
    let relay = told_relay();
    let mut client = Client::new(&relay);
    client.post(modern(41, &json!({"for": "dev-a", "wait_seconds": 0.01}), None));
    assert_eq!(client.heard()["id"], 41);
    client.post(modern(42, &json!({"for": "dev-a"}), None));
    assert_eq!(client.heard()["id"], 42);
    let id = client.id();
    drop(client);
    relay.await_sessions(0);
    Client::back(&relay, &id).hears_no_more();
}

#[test]
fn of_the_latest_version_that_is_bound_is_told_of_calls_of_clients_bound_alike() {
    let mut relay = told_relay();
    let mut before = Client::bound(&relay, "dev-a");
    before.post(modern(7, &json!({"wait_seconds": 60}), None));
    until("it is noted", || {
        last_note(&relay).is_some_and(|note| note.starts_with("+0"))
    });
    relay.kill_and_restart();
    let (mut bound, mut free) = (Client::bound(&relay, "dev-a"), Client::new(&relay));
    assert_eq!(bound.heard(), told(7, RESTARTED));
    free.hears_no_more();
}
