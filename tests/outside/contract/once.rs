use super::*;

#[test]
fn what_was_read_is_not_there_any_more() {
    over_each(&WAYS, |relay, way| {
        let mut sender = relay.session(way);
        sender.post("pm", "dev-a", "m1");
        sender.post("pm", "dev-a", "m2");
        let mut reader = relay.session(way);
        assert_eq!(reader.read("dev-a").bodies(), ["m1", "m2"]);
        assert_eq!(
            relay.session(Way::Http).read("dev-a"),
            Reply::of("[]"),
            "in doubt"
        );
        assert_eq!(reader.read("dev-a"), Reply::of("[]"));
        assert_eq!(
            relay.session(Way::Http).read("dev-a"),
            Reply::of("[]"),
            "confirmed"
        );
    });
}

#[test]
fn readers_at_the_same_time_share_the_messages_and_see_none_twice() {
    const MESSAGES: usize = 200;
    let relay = Relay::start_told();
    let port = relay.port;
    let readers = WAYS.map(|way| {
        std::thread::spawn(move || {
            let mut session = Session::open(port, way, None);
            let mut read: Vec<String> = Vec::new();
            while read.last().is_none_or(|last| last != "end") {
                let call = session.wait("pm", 20.0);
                let bodies = session.finish(call).bodies();
                assert!(!bodies.is_empty(), "a wait has ended with nothing");
                read.extend(bodies);
            }
            // The last message is for all: whoever has it passes it on.
            session.post("pm", "pm", "end");
            assert_eq!(read.pop().as_deref(), Some("end"));
            read
        })
    });
    let mut sender = relay.session(Way::Http);
    let mut sent: Vec<String> = (0..MESSAGES).map(|number| format!("{number:03}")).collect();
    for body in &sent {
        sender.post("dev-a", "pm", body);
    }
    sender.post("dev-a", "pm", "end");
    let read = readers.map(|reader| reader.join().expect("the reader's session works"));
    for own in &read {
        assert!(own.is_sorted(), "{own:?}");
    }
    let mut read = read.concat();
    read.sort();
    sent.sort();
    assert_eq!(read, sent);
}

#[test]
fn what_was_handed_over_is_not_pending_and_nothing_is_taken_by_looking() {
    over_each(&WAYS, |relay, way| {
        let mut session = relay.session(way);
        for kind in ["question", "status", "question"] {
            let post = json!({"from": "pm", "to": "dev-b", "kind": kind, "body": ""});
            session.call("post_message", &post).posted();
        }
        let look = |session: &mut Session| session.call("list_pending", &json!({"for": "dev-b"}));
        let all = json!({"count": 3, "kinds": ["question", "status", "question"]});
        for _ in 0..2 {
            assert_eq!(look(&mut session), Reply::of(&all.to_string()));
        }
        assert_eq!(relay.pending(), json!({"pm": 0, "dev-a": 0, "dev-b": 3}));
        assert_eq!(session.read("dev-b").bodies().len(), 3);
        assert_eq!(relay.pending()["dev-b"], 0, "in doubt");
        let none = Reply::of(&json!({"count": 0, "kinds": []}).to_string());
        assert_eq!(look(&mut relay.session(Way::Http)), none, "in doubt");
        assert_eq!(look(&mut session), none);
        assert_eq!(relay.pending(), json!({"pm": 0, "dev-a": 0, "dev-b": 0}));
    });
}
