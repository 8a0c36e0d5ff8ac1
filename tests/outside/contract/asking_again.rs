//! What a client cut, dropped or gave up comes again to the agent that names the last message that it has seen.

use super::*;

/// Posts three messages, and returns their ids and a session that has read them.
fn having_read(relay: &Relay, way: Way) -> (Vec<String>, Session) {
    let mut session = Session::open_at(relay.port, way, "");
    let ids = ["m1", "m2", "m3"].map(|body| session.post("pm", "dev-a", body));
    assert_eq!(session.read("dev-a").bodies(), ["m1", "m2", "m3"]);
    (ids.to_vec(), session)
}

fn after(session: &mut Session, id: &str) -> Reply {
    session.call("read_messages", &json!({"for": "dev-a", "after": id}))
}

#[test]
fn what_is_behind_the_last_message_that_an_agent_has_seen_comes_again_marked_and_once() {
    over_each(&WAYS, |relay, way| {
        let (ids, mut session) = having_read(relay, way);
        let again = after(&mut session, &ids[0]).bodies();
        assert_eq!(again, ["again: m2", "again: m3"], "over {way:?}");
        session.post("pm", "dev-a", "m4");
        assert_eq!(after(&mut session, &ids[0]).bodies(), ["m4"], "over {way:?}");
        assert_eq!(session.read("dev-a").bodies(), [""; 0], "over {way:?}");
    });
}

#[test]
fn what_is_not_remembered_is_refused_with_the_oldest_that_is() {
    over_each(&WAYS, |relay, way| {
        let (ids, mut session) = having_read(relay, way);
        let refused = after(&mut session, "m1");
        assert!(refused.is_error, "over {way:?}: {refused:?}");
        let says = format!(
            "after is \"m1\", which is none of the messages that you were handed, as far as relay remembers them; accepted: the id of one of those, the oldest is {}",
            ids[0]
        );
        assert!(refused.texts[0].ends_with(&says), "over {way:?}: {refused:?}");
        assert_eq!(session.read("dev-a").bodies(), [""; 0]);
    });
}

#[test]
fn a_wait_that_was_given_up_took_a_message_that_comes_again() {
    let relay = Relay::start_told();
    let mut session = Session::open_at(relay.port, Way::Http, "");
    let seen = session.post("pm", "dev-a", "m1");
    assert_eq!(session.read("dev-a").bodies(), ["m1"]);
    let mut given_up = Session::open_at(relay.port, Way::Http, "");
    let _ = given_up.wait("dev-a", 60.0);
    until("it waits", || {
        relay.health()["waits"] == 1 || relay.sessions() > 1
    });
    session.post("pm", "dev-a", "m2");
    until("the wait has taken it", || {
        session.call("list_pending", &json!({"for": "dev-a"})).json()["count"] == 0
    });
    // Its client is still there, and reads nothing.
    assert_eq!(after(&mut session, &seen).bodies(), ["again: m2"]);
}

#[test]
fn each_toolset_has_a_tool_that_brings_it() {
    let relay = Relay::start();
    for (query, tool) in [
        ("?tools=thrum&agent=dev-a", "check_messages"),
        ("?tools=thrum&agent=dev-a", "wait_for_message"),
        ("?tools=agent-relay&agent=dev-a", "relay_inbox"),
    ] {
        let mut sender = Session::open_at(relay.port, Way::Http, "");
        let ids = ["m1", "m2"].map(|body| sender.post("pm", "dev-a", body));
        let mut reader = Session::open_at(relay.port, Way::Http, query);
        let take = if tool == "wait_for_message" {
            "check_messages"
        } else {
            tool
        };
        let first = reader.call(take, &json!({}));
        assert!(first.texts.concat().contains("m2"), "{tool}: {first:?}");
        let again = reader.call(tool, &json!({"after": ids[0]}));
        let said = again.texts.concat();
        let is_marked = said.contains("(redelivered)") || said.contains("\"redelivered\": true");
        let is_marked = is_marked || said.contains("\"redelivered\":true");
        assert!(
            said.contains(&ids[1]) && !said.contains(&ids[0]) && is_marked,
            "{tool}: {again:?}"
        );
        let third = reader.call(take, &json!({}));
        assert!(!third.is_error, "{third:?}");
    }
}
