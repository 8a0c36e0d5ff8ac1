//! What is shown as JSON: messages, what is held, what happened to a message, and the resources.

use relay::engine::handling::{Handling, Priority};
use relay::engine::holds::{HeldBy, HeldMessage, Reply as Answer, View};
use relay::engine::pushes::PushFailed;
use relay::engine::receipts::Receipt;
use relay::engine::trace::{Happened, Moment, Traced};
use relay::tools::agent_relay::AGENT_RELAY;
use relay::tools::text::Json;
use relay::tools::{ReplyBytes, holds, messages, traces};
use serde_json::{Value, json};

use super::*;

const ONE: &str = "01010101-0101-4101-8101-010101010101";

const TS: &str = "2026-05-02T14:30:00.000Z";

fn written(write: impl FnOnce(&mut Json<'_>)) -> Value {
    let mut out = Vec::new();
    write(&mut Json::document(&mut out));
    serde_json::from_slice(&out).expect("it is JSON")
}

/// The first message, as it is shown.
fn first() -> Value {
    json!({"id": ONE, "from": "pm", "to": "dev-a", "kind": "status", "body": "body 1", "ts": TS})
}

/// An object with more in it.
fn with(mut object: Value, more: &Value) -> Value {
    let members = object.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    object
}

#[test]
fn a_message_says_what_it_belongs_to() {
    let context = Context {
        thread: Some("design".to_owned()),
        reply_to: Some(MessageId(id(1))),
        metadata: Some("{\"pages\":[1,2]}".to_owned()),
        ..Context::default()
    };
    let delivery = within(context, &nth(1));
    let more = json!({"thread": "design", "reply_to": ONE, "metadata": {"pages": [1, 2]}});
    assert_eq!(
        written(|json| messages::write(&[delivery, nth(1)], DEFAULT_PROJECT, json)),
        json!([with(first(), &more), first()])
    );
}

#[test]
fn what_is_held_is_shown_with_whom_it_is_for_and_by_which_hold() {
    let answered = |answer: &Answer| written(|json| json.object(|object| holds::write(answer, object)));
    let held = HeldMessage {
        message: nth(1).message,
        deliveries: vec![(name("dev-a"), HeldBy::To), (name("dev-b"), HeldBy::From)],
    };
    let view = View {
        all: true,
        agents: vec![name("dev-a"), name("dev-b")],
        messages: vec![held],
    };
    let by = json!({"held": [{"agent": "dev-a", "by": "to"}, {"agent": "dev-b", "by": "from"}]});
    assert_eq!(
        answered(&Answer::Listed(Box::new(view))),
        json!({"all": true, "agents": ["dev-a", "dev-b"], "messages": [with(first(), &by)]})
    );
    assert_eq!(answered(&Answer::Holds(3)), json!({"deliveries": 3}));
    assert_eq!(
        answered(&Answer::Lifted(Some(2))),
        json!({"lifted": true, "deliveries": 2})
    );
    assert_eq!(
        answered(&Answer::Lifted(None)),
        json!({"lifted": false, "deliveries": 0})
    );
    let (message, agents) = (nth(1).message, vec![name("dev-a")]);
    let passes = Answer::Allowed { message, agents };
    assert_eq!(answered(&passes), json!({"id": ONE, "agents": ["dev-a"]}));
}

#[test]
fn an_inbox_shows_what_is_held_where_it_stands() {
    let inbox = written(|json| holds::write_inbox(&[nth(2)], &[(again(&nth(1)), HeldBy::All)], json));
    let held = json!({"redelivered": true, "held": "all"});
    let second = json!({"id": "02020202-0202-4202-8202-020202020202", "body": "body 2"});
    assert_eq!(inbox, json!([with(first(), &held), with(first(), &second)]));
}

/// The person is in the default project, whosever inbox it looks into.
#[test]
fn the_person_is_shown_whole_names() {
    let message = Message {
        from: name("web:dev-a"),
        to: Recipient::agent(&name("web:ui")),
        ..Message::clone(&nth(1).message)
    };
    let delivery = Delivery {
        message: Arc::new(message),
        ..nth(1)
    };
    let held = HeldMessage {
        message: Arc::clone(&delivery.message),
        deliveries: Vec::new(),
    };
    let view = Answer::Listed(Box::new(View {
        all: false,
        agents: Vec::new(),
        messages: vec![held],
    }));
    let whole = with(first(), &json!({"from": "web:dev-a", "to": "web:ui"}));
    let inbox = written(|json| holds::write_inbox(&[delivery], &[], json));
    assert_eq!(inbox, json!([whole]));
    let listed = written(|json| json.object(|object| holds::write(&view, object)));
    assert_eq!(listed["messages"], json!([with(whole, &json!({"held": []}))]));
}

/// What is shown of one thing that happened to a message.
fn step(what: Happened) -> Value {
    step_of("dev-a", what)
}

/// The same in somebody's inbox.
fn step_of(agent: &str, what: Happened) -> Value {
    let moment = Moment {
        at: START,
        agent: name(agent),
        seq: Seq(4),
        what,
    };
    let traced = Traced {
        id: MessageId(id(1)),
        from: name("pm"),
        to: Recipient::agent(&name("dev-a")),
        kind: Kind::Status,
        handling: Handling {
            priority: Priority::Urgent,
            deadline: Some(START),
            ..Handling::default()
        },
        accepted_at: START,
        moments: vec![moment],
    };
    let mut shown = written(|json| json.object(|object| traces::write(&traced, object)));
    let steps = shown["steps"].take();
    assert_eq!(
        shown,
        json!({
            "id": ONE, "from": "pm", "to": "dev-a", "kind": "status", "accepted_at": TS, "priority": "urgent",
            "deadline": TS, "steps": null,
        })
    );
    let [step] = &steps.as_array().expect("a list")[..] else {
        panic!("{steps}");
    };
    step.clone()
}

#[test]
fn each_thing_that_happens_to_a_message_has_its_word_and_what_there_is_to_say_of_it() {
    let reason = || Some("busy".into());
    let failed = |again_at| PushFailed {
        error: "HTTP 500".into(),
        again_at,
    };
    let session = SessionId(9);
    let over = |carrier| Happened::HandedOver {
        session,
        carrier,
        person: false,
    };
    let by = Sign::KeptAlive;
    let from = name("tester");
    for (what, shown) in [
        (Happened::Queued, json!({"step": "queued"})),
        (
            Happened::Brought(Mode::OnIdle),
            json!({"step": "mode_of_agent", "mode": "on-idle"}),
        ),
        (
            over(Carrier::Stream),
            json!({"step": "handed_over", "session": 9, "over": "sse"}),
        ),
        (
            over(Carrier::Exchange),
            json!({"step": "handed_over", "session": 9, "over": "http"}),
        ),
        (
            over(Carrier::Node),
            json!({"step": "handed_over", "session": 9, "over": "node"}),
        ),
        (
            Happened::HandedOver {
                session,
                carrier: Carrier::Exchange,
                person: true,
            },
            json!({"step": "handed_over", "session": 9, "over": "http", "taken_by": "user"}),
        ),
        (
            Happened::AskedAgain {
                after: MessageId(id(1)),
            },
            json!({"step": "asked_again", "after": ONE}),
        ),
        (Happened::Read { by }, json!({"step": "read", "by": "kept_alive"})),
        (Happened::Awaited, json!({"step": "receipt_awaited"})),
        (
            Happened::PushFailed(failed(Some(START))),
            json!({"step": "push_failed", "reason": "HTTP 500", "until": TS}),
        ),
        (
            Happened::PushFailed(failed(None)),
            json!({"step": "given_up", "reason": "HTTP 500"}),
        ),
        (
            Happened::Receipt(Receipt::Done, None),
            json!({"step": "receipted"}),
        ),
        (
            Happened::Receipt(
                Receipt::Accepted { retryable: true },
                Some(r#"{"queue":2}"#.into()),
            ),
            json!({"step": "accepted", "retryable": true, "metadata": {"queue": 2}}),
        ),
        (
            Happened::Receipt(
                Receipt::Failed {
                    reason: reason(),
                    retryable: true,
                },
                None,
            ),
            json!({"step": "failed", "retryable": true, "reason": "busy"}),
        ),
        (
            Happened::Receipt(
                Receipt::Deferred {
                    until: START,
                    reason: reason(),
                },
                None,
            ),
            json!({"step": "deferred", "until": TS, "reason": "busy"}),
        ),
        (
            Happened::Held(HeldBy::From),
            json!({"step": "held", "by": "from"}),
        ),
        (
            Happened::HandedOn { from },
            json!({"step": "handed_on", "from": "tester"}),
        ),
        (
            Happened::Undone { by },
            json!({"step": "undone", "by": "kept_alive"}),
        ),
        (
            Happened::Delivered { by },
            json!({"step": "delivered", "by": "kept_alive"}),
        ),
    ] {
        let expected = with(json!({"at": TS, "agent": "dev-a", "seq": 4}), &shown);
        assert_eq!(step(what), expected);
    }
    let own = Happened::HandedOver {
        session,
        carrier: Carrier::Exchange,
        person: true,
    };
    assert_eq!(
        step_of("user", own).get("taken_by"),
        None,
        "it is the person's own"
    );
}

/// Bob's inbox has two more than are shown, the first of them with metadata.
#[test]
fn the_resource_of_the_inbox_shows_the_oldest_and_says_how_many_more_wait() {
    let mut relay = Relay::told_within(Bounds::default());
    let bob = SessionId(11);
    relay.register(bob, registration("Bob", None));
    let mut first = post(Some("pm"), "Bob", "body 0");
    let Command::Mail(mail::Command::Post { options, .. }) = &mut first else {
        unreachable!("it is a post");
    };
    let metadata = Some("{\"pages\":[1,2]}".to_owned());
    *options = Some(Box::new(mail::PostOptions {
        metadata,
        ..mail::PostOptions::default()
    }));
    relay.call(A, 1, first);
    for n in 1..50 {
        relay.call(A, n + 1, post(Some("pm"), "Bob", &format!("body {n}")));
    }
    let shown = resource(&mut relay, bob, "relay://inbox");
    let shown = shown.as_array().expect("a list");
    let says = |member: &str| {
        shown
            .iter()
            .filter_map(|message| message.get(member))
            .collect::<Vec<_>>()
    };
    assert_eq!((shown.len(), says("remaining")), (50, Vec::new()));
    assert_eq!(says("metadata"), [&json!({"pages": [1, 2]})]);
    for n in 50..52 {
        relay.call(A, n + 1, post(Some("pm"), "Bob", &format!("body {n}")));
    }
    let shown = resource(&mut relay, bob, "relay://inbox");
    let shown = shown.as_array().expect("a list");
    let says = |member: &str| shown.iter().map(|message| &message[member]).collect::<Vec<_>>();
    let mut remaining = vec![&Value::Null; 50];
    let two = json!(2);
    remaining[49] = &two;
    assert_eq!(says("remaining"), remaining);
    assert_eq!([says("content")[0], says("content")[49]], ["body 0", "body 49"]);
}

/// What a session reads of one of Agent Relay's resources.
pub fn resource(relay: &mut Relay, session: SessionId, uri: &str) -> Value {
    let mut resources = AGENT_RELAY.resources.iter();
    let resource = resources.find(|resource| resource.uri == uri).expect("it is one");
    let effects = relay.call(session, 900, (resource.to_command)());
    let [
        Effect::Reply {
            result: Ok(reply), ..
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}");
    };
    written(|json| (resource.to_json)(reply, ReplyBytes::UNBOUNDED, json))
}

#[test]
fn the_resources_show_who_is_there_what_waits_and_where_relay_is() {
    let mut relay = Relay::of(
        Engine::new(START, Roster::default(), ROOMY, [0; 16])
            .reached_at("127.0.0.1:7331".to_owned())
            .after_sessions_of(Some(BTreeSet::new())),
    );
    relay.open(A, Carrier::Stream, None);
    let bob = agents::Registration {
        profile: agents::Profile {
            cli: Some("claude".to_owned()),
            role: Some("tester".to_owned()),
            parent: Some("pm".to_owned()),
            cwd: Some("/tmp".to_owned()),
            ..agents::Profile::default()
        },
        ..registration("Bob", None)
    };
    relay.register(B, bob);
    relay.call(A, 1, post(Some("pm"), "Bob", "one"));
    relay.call(A, 2, post(Some("pm"), "#general", "two"));
    let agents = resource(&mut relay, B, "relay://agents");
    let of = |name: &str| {
        let mut agents = agents.as_array().expect("a list").iter();
        agents
            .find(|agent| agent["name"] == name)
            .expect("it is there")
            .clone()
    };
    let count = agents.as_array().map(Vec::len);
    assert_eq!(count, Some(2), "nobody was dev-a or dev-b: {agents}");
    assert_eq!(
        of("Bob"),
        json!({"name": "Bob", "cli": "claude", "idle": false, "role": "tester", "parent": "pm", "cwd": "/tmp"})
    );
    assert_eq!(of("pm"), json!({"name": "pm", "cli": "unknown", "idle": false}));
    let inbox = resource(&mut relay, B, "relay://inbox");
    let one = json!({"id": ONE, "from": "pm", "content": "one", "timestamp": TS});
    let two = json!({
        "id": "02020202-0202-4202-8202-020202020202", "from": "pm", "content": "two", "channel": "#general", "timestamp": TS,
    });
    assert_eq!(inbox, json!([one, two]));
    assert_eq!(
        resource(&mut relay, B, "relay://project"),
        json!({"project": "default", "socketPath": "127.0.0.1:7331", "daemonVersion": env!("CARGO_PKG_VERSION")})
    );
}

#[test]
fn each_way_and_each_sign_has_a_word_of_its_own() {
    let over = |carrier| Happened::HandedOver {
        session: SessionId(9),
        carrier,
        person: false,
    };
    for (carrier, word) in [(Carrier::Hook, "hook"), (Carrier::Wake, "wake")] {
        assert_eq!(step(over(carrier))["over"], word);
    }
    for (what, word) in [
        (Happened::Allowed, "allowed"),
        (Happened::Dropped, "dropped"),
        (Happened::Expired, "expired"),
        (Happened::Marked, "marked_read"),
    ] {
        let shown = json!({"at": TS, "agent": "dev-a", "seq": 4, "step": word});
        assert_eq!(step(what), shown);
    }
    for (by, word) in [
        (Sign::Passed, "passed"),
        (Sign::Followed, "followed"),
        (Sign::CalledAgain, "called_again"),
        (Sign::Acknowledged, "acknowledged"),
        (Sign::KeptAlive, "kept_alive"),
        (Sign::DoubtOver, "doubt_over"),
        (Sign::Settled, "settled"),
        (Sign::Listed, "listed"),
        (Sign::Seen, "seen"),
        (Sign::Unseen, "unseen"),
        (Sign::Receipted, "receipted"),
        (Sign::Failed, "failed"),
        (Sign::Deferred(START), "deferred"),
        (Sign::DeferralOver, "deferral_over"),
        (Sign::NotTaken, "not_taken"),
        (Sign::GivenUp, "given_up"),
        (Sign::Redriven, "redriven"),
        (Sign::Ended(Ending::Orderly), "ended"),
        (Sign::Ended(Ending::Broken), "broken"),
        (Sign::Fenced, "taken_over"),
        (Sign::Cancelled, "cancelled"),
        (Sign::Lost, "lost"),
    ] {
        assert_eq!(traces::sign(by), word);
    }
}
