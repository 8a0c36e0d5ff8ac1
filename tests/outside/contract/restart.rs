use super::*;

#[test]
fn the_first_read_of_each_role_after_each_start_tells_of_it() {
    const ROLES: [&str; WAYS.len()] = ["pm", "dev-a", "dev-b", "qa"];
    let mut relay = Relay::start_with(&["--roles", &ROLES.join(",")], &[]);
    for _ in 0..2 {
        let notice = start_notice(&relay);
        for (role, way) in ROLES.into_iter().zip(WAYS) {
            let mut session = relay.session(way);
            let first = Reply {
                texts: vec!["[]".to_owned(), notice.clone()],
                is_error: false,
            };
            assert_eq!(session.read(role), first, "{role} over {way:?}");
            assert_eq!(session.read(role), Reply::of("[]"), "{role} over {way:?}");
            assert_eq!(
                relay.session(way).read(role),
                Reply::of("[]"),
                "{role} over {way:?}"
            );
        }
        relay.kill_and_restart();
    }
}

#[test]
fn a_notice_whose_reply_was_lost_is_given_again() {
    let relay = Relay::start();
    let mut lost = relay.session(Way::Http);
    lost.begin("read_messages", &json!({"for": "pm"}));
    lost.calls.await_unread_bytes();
    drop(lost);
    relay.await_sessions(0);
    let read = relay.session(Way::Sse).read("pm");
    assert_eq!(read.texts, ["[]".to_owned(), start_notice(&relay)]);
}

#[test]
fn unread_messages_are_gone_after_a_restart() {
    over_each(&WAYS, |_, way| {
        let mut relay = Relay::start_told();
        relay.session(way).post("pm", "dev-a", "lost");
        assert_eq!(relay.pending()["dev-a"], 1);
        let before = relay.health()["boot"].clone();
        relay.kill_and_restart();
        assert_ne!(relay.health()["boot"], before);
        let read = relay.session(way).read("dev-a");
        assert_eq!(read.texts, ["[]".to_owned(), start_notice(&relay)]);
    });
}

#[test]
fn a_client_on_http_goes_on_over_a_new_connection() {
    for way in EXCHANGES {
        let mut relay = Relay::start_told();
        let mut session = relay.session(way);
        relay.kill_and_restart();
        session.calls = relay.connect();
        session.post("pm", "dev-a", "after");
        assert_eq!(session.read("dev-a").bodies(), ["after"]);
    }
}

/// Reopens the stream of a session as a browser's `EventSource` does.
fn reconnect(relay: &Relay, session: &mut Session) {
    let request = Request::get("/sse").with("Last-Event-ID", session.id());
    let mut stream = EventStream::open(relay.connect(), &request);
    let hello = stream.event();
    assert_eq!(hello.data.as_ref(), Some(&session.target), "the old address");
    assert_eq!(hello.id.as_deref(), Some(session.id()), "the old id");
    session.stream = Some(stream);
}

#[test]
fn a_stream_that_comes_back_finds_its_old_address_working() {
    let mut relay = Relay::start_told();
    let mut session = relay.session(Way::Sse);
    session.post("pm", "dev-a", "before");
    for _ in 0..2 {
        relay.kill_and_restart();
        session.calls = relay.connect();
        reconnect(&relay, &mut session);
        session.post("pm", "dev-a", "after");
        let read = session.read("dev-a");
        assert_eq!((read.bodies(), read.texts.len()), (vec!["after".to_owned()], 2));
        assert_eq!(session.read("dev-a"), Reply::of("[]"));
    }
}

#[test]
fn a_call_that_comes_before_its_stream_is_back_waits_for_it() {
    let mut relay = Relay::start_told();
    let mut session = relay.session(Way::Sse);
    relay.kill_and_restart();
    let mut early = relay.connect();
    let post = json!({
        "name": "post_message",
        "arguments": {"from": "pm", "to": "dev-a", "kind": "free", "body": "early"},
    });
    early.send(&session.request_of(77, "tools/call", post).bytes());
    assert_eq!(
        early.receive(Duration::from_millis(500)),
        Arrived::Nothing,
        "not refused yet"
    );
    assert_eq!(relay.pending()["dev-a"], 0, "not carried out yet");
    reconnect(&relay, &mut session);
    let response = early.response();
    assert_eq!((response.status, response.text()), (202, String::new()));
    assert_eq!(session.heard()["id"], 77);
    assert_eq!(relay.session(Way::Http).read("dev-a").bodies(), ["early"]);
}

#[test]
fn a_stream_that_comes_back_while_the_relay_runs_takes_the_place_of_the_old_one() {
    let relay = Relay::start_told();
    let mut session = relay.session(Way::Sse);
    session.post("dev-a", "pm", "m1");
    assert_eq!(session.read("pm").bodies(), ["m1"]);
    let mut old = session.stream.take().expect("it is open");
    reconnect(&relay, &mut session);
    assert_eq!(old.next(crate::support::PATIENCE), Seen::End);
    relay.await_sessions(1);
    assert_eq!(session.read("pm").bodies(), ["again: m1"]);
}
