use super::*;

#[test]
fn messages_come_in_the_order_of_acceptance_from_all_senders_and_transports() {
    let relay = Relay::start_told();
    let mut senders = WAYS.map(|way| relay.session(way));
    let roles = ["pm", "dev-a", "dev-b"];
    let kinds = ["status", "question", "directive", "free"];
    let mut expected = Vec::new();
    for number in 0..24 {
        let (from, kind) = (roles[number % 3], kinds[number % 4]);
        let body = format!("line one of {number}\nline \"two\"");
        let post = json!({"from": from, "to": "dev-a", "kind": kind, "body": body});
        let id = senders[(number / 2) % 3].call("post_message", &post).posted();
        expected.push(json!({"id": id, "from": from, "to": "dev-a", "kind": kind, "body": body}));
    }
    let mut read = relay.session(Way::Sse).read("dev-a").messages();
    let mut last = String::new();
    for message in &mut read {
        let ts = message.as_object_mut().expect("an object").remove("ts");
        let ts = ts.expect("a time").as_str().expect("a text").to_owned();
        assert!(is_utc_with_milliseconds(&ts), "{ts}");
        assert!(last <= ts, "{last} is before {ts}");
        last = ts;
    }
    assert_eq!(read, expected);
    for message in read {
        assert!(is_uuid_v4(message["id"].as_str().expect("a text")), "{message}");
    }
}

#[test]
fn senders_at_the_same_time_each_keep_their_order() {
    const EACH: usize = 60;
    let relay = Relay::start_told();
    let port = relay.port;
    let senders = [Way::Sse, Way::Http, Way::Modern, Way::Http].map(|way| {
        std::thread::spawn(move || {
            let mut session = Session::open(port, way, None);
            (0..EACH)
                .map(|_| session.post("pm", "dev-b", "b"))
                .collect::<Vec<String>>()
        })
    });
    let sent = senders.map(|sender| sender.join().expect("the sender's session works"));
    let read = relay.session(Way::Http).read("dev-b").messages();
    let ids: Vec<&str> = read
        .iter()
        .map(|message| message["id"].as_str().expect("a text"))
        .collect();
    assert_eq!(ids.len(), 4 * EACH);
    for sent in sent {
        let own: Vec<&str> = ids
            .iter()
            .copied()
            .filter(|id| sent.iter().any(|s| s == id))
            .collect();
        assert_eq!(own, sent);
    }
}

fn is_utc_with_milliseconds(ts: &str) -> bool {
    let shape = ts.bytes().map(|b| if b.is_ascii_digit() { b'0' } else { b });
    shape.eq("0000-00-00T00:00:00.000Z".bytes()) && chrono::DateTime::parse_from_rfc3339(ts).is_ok()
}

fn is_uuid_v4(id: &str) -> bool {
    uuid::Uuid::parse_str(id).is_ok_and(|uuid| uuid.get_version_num() == 4 && uuid.to_string() == id)
}
