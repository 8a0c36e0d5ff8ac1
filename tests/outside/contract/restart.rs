use super::*;

/// What the first reply to somebody is, with the news of the start behind it.
fn with_notice(text: &str, relay: &Relay) -> Reply {
    Reply {
        texts: vec![text.to_owned(), start_notice(relay)],
        is_error: false,
    }
}

#[test]
fn the_first_read_of_each_role_after_each_start_but_the_first_tells_of_it() {
    const ROLES: [&str; WAYS.len()] = ["pm", "dev-a", "dev-b", "qa"];
    let mut relay = Relay::start_with(&["--roles", &ROLES.join(",")], &[]);
    for start in 0..3 {
        for (role, way) in ROLES.into_iter().zip(WAYS) {
            let mut session = relay.session(way);
            let first = match start {
                0 => Reply::of("[]"),
                _ => with_notice("[]", &relay),
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
fn the_news_of_a_start_comes_with_the_first_reply_of_any_kind() {
    for way in WAYS {
        let mut relay = Relay::start_told();
        relay.kill_and_restart();
        let mut session = relay.session(way);
        // Nothing was sent by a call that is refused, and it tells nothing.
        let refused = json!({"from": "pm", "to": "nobody", "kind": "free", "body": "x"});
        let refusal = session.call("post_message", &refused);
        assert_eq!((refusal.is_error, refusal.texts.len()), (true, 1), "{refusal:?}");
        let post = json!({"from": "pm", "to": "dev-b", "kind": "free", "body": "x"});
        let posted = session.call("post_message", &post);
        assert_eq!(posted.texts.last(), Some(&start_notice(&relay)), "{posted:?}");
        assert_eq!(session.read("pm"), Reply::of("[]"), "it was told");
        let looked = session.call("list_pending", &json!({"for": "dev-b"}));
        let pending = r#"{"count":1,"kinds":["free"]}"#;
        assert_eq!(looked, with_notice(pending, &relay));
        assert_eq!(session.read("dev-b").texts.len(), 1, "it was told");
    }
}

#[test]
fn who_had_no_session_before_a_start_is_not_told_of_it() {
    for way in WAYS {
        let mut relay = Relay::start();
        relay.session(way).post("pm", "dev-b", "lost");
        relay.kill_and_restart();
        let mut session = relay.session(way);
        assert_eq!(session.read("dev-b"), Reply::of("[]"), "it has sent nothing");
        assert_eq!(session.read("pm"), with_notice("[]", &relay));
    }
}

#[test]
fn what_the_user_does_in_an_agents_stead_is_no_session_of_its_own() {
    let mut relay = Relay::start();
    let as_user = |relay: &Relay, path: &str, asked: Value| {
        let answer = relay.connect().exchange(&Request::post(path, asked.to_string()));
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let post = json!({"from": "dev-a", "to": "pm", "kind": "free", "body": "x"});
    as_user(&relay, "/api/send", post);
    as_user(&relay, "/api/read", json!({"for": "pm"}));
    as_user(&relay, "/api/read", json!({"for": "dev-b", "wait_seconds": 0.01}));
    relay.kill_and_restart();
    for role in ["pm", "dev-a", "dev-b"] {
        assert_eq!(relay.session(Way::Http).read(role), Reply::of("[]"), "{role}");
    }
}

#[test]
fn where_nobody_knows_who_had_a_session_everybody_is_told() {
    let mut relay = Relay::start_told();
    relay.kill();
    let notes = relay.socket().with_file_name("agents");
    std::fs::write(&notes, "+default:pm\nno note\n").expect("it is there");
    relay.restart();
    let mut session = relay.session(Way::Http);
    for role in ["pm", "dev-b"] {
        assert_eq!(session.read(role), with_notice("[]", &relay));
    }
}

#[test]
fn a_notice_whose_reply_was_lost_is_given_again() {
    for (tool, arguments) in [
        ("read_messages", json!({"for": "pm"})),
        (
            "post_message",
            json!({"from": "pm", "to": "dev-b", "kind": "free", "body": "x"}),
        ),
    ] {
        let mut relay = Relay::start_told();
        relay.kill_and_restart();
        let mut lost = relay.session(Way::Http);
        lost.begin(tool, &arguments);
        lost.calls.await_unread_bytes();
        drop(lost);
        relay.await_sessions(0);
        let read = relay.session(Way::Sse).read("pm");
        assert_eq!(read, with_notice("[]", &relay), "{tool}");
    }
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

#[test]
fn who_has_gone_for_good_is_told_of_no_start() {
    let mut relay = Relay::start();
    let address = |name: &str| format!("?agent={name}&role=helper");
    for name in ["stays", "goes"] {
        let mut session = Session::open_at(relay.port, Way::Sse, &address(name));
        assert_eq!(session.call("read_messages", &json!({})), Reply::of("[]"));
    }
    relay.await_sessions(0);
    let retired = Request::post("/api/retire", r#"{"agent":"goes"}"#);
    assert_eq!(relay.connect().exchange(&retired).status, 200);
    relay.kill_and_restart();
    for (name, expected) in [("stays", with_notice("[]", &relay)), ("goes", Reply::of("[]"))] {
        let mut session = Session::open_at(relay.port, Way::Sse, &address(name));
        assert_eq!(session.call("read_messages", &json!({})), expected, "{name}");
    }
}
