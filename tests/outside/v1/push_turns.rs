//! Pushes to web hooks: whose turn it is, however many there are, and who is told of what was not taken.

use super::node::added;
use super::pushes::{Hook, PATIENCE};
use super::*;

/// As many are pushed to one target at a time.
const AT_ONCE: usize = 32;

#[test]
fn a_target_is_pushed_to_however_many_it_has_taken() {
    let (world, hook) = (World::new(), Hook::start());
    world.pushes(&hook, &json!({"ack_mode": "on_2xx"}));
    for number in 0..=AT_ONCE {
        let text = number.to_string();
        world.says(&text);
        assert_eq!(hook.next().text(), text);
    }
}

#[test]
fn what_waits_for_its_turn_to_be_pushed_is_not_pushed_once_it_is_taken_back() {
    let (world, hook) = (World::new(), Hook::start());
    let delivery = json!({"url": format!("http://127.0.0.1:{}/", hook.port), "ack_mode": "on_2xx"});
    let node = json!({"name": "hook", "kind": "http_push", "delivery": delivery, "max_agents": 64});
    world.done("/v1/nodes", &world.key, &node);
    let agents: Vec<String> = (0..=AT_ONCE).map(|number| format!("w{number}")).collect();
    for agent in &agents {
        world.done("/v1/agents", &world.key, &json!({"name": agent}));
        world.done("/v1/nodes/hook/agents", &world.key, &json!({"agent_name": agent}));
    }
    // The hook answers nobody while this is held.
    let held = hook.answers.lock().expect("no panic");
    for agent in &agents {
        world.done("/v1/dm", &world.alice, &json!({"to": agent, "text": agent}));
    }
    let last = &agents[AT_ONCE];
    let path = format!("/v1/nodes/hook/agents/{last}");
    let unbound = with(Request::new("DELETE", &path), &world.key);
    assert_eq!(world.relay.connect().exchange(&unbound).status, 204);
    assert_eq!(world.bodies(&format!("web:{last}")), [last.as_str()]);
    drop(held);
    for _ in 0..AT_ONCE {
        assert_ne!(hook.next().text(), last);
    }
    hook.gets_nothing();
}

#[test]
fn an_answer_that_is_too_long_says_nothing() {
    let (world, hook) = (World::new(), Hook::start());
    let says = |more: &str| {
        let body = json!({"ack": true, "more": more}).to_string();
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    hook.answers(&says(&"x".repeat(64 * 1024)));
    hook.answers(&says("x"));
    world.pushes(&hook, &json!({"ack_mode": "response"}));
    let id = world.says("one");
    assert_eq!(
        [hook.next(), hook.next()].map(|pushed| pushed.text().to_owned()),
        ["one", "one"]
    );
    let steps = world.traced(&id, "read");
    let failed = [
        "queued",
        "handed_over",
        "push_failed",
        "undone",
        "handed_over",
        "read",
    ];
    assert_eq!(steps, failed);
}

#[test]
fn a_web_hook_is_told_how_a_message_is_to_be_brought() {
    let (world, hook) = (World::new(), Hook::start());
    world.pushes(&hook, &json!({"ack_mode": "on_2xx"}));
    let asked = json!({"to": "bob", "text": "one", "mode": "steer", "priority": "urgent"});
    world.done("/v1/dm", &world.alice, &asked);
    let pushed = hook.next().json;
    let expected = json!({"mode": "next-tool-call", "priority": "urgent", "deadline": null});
    assert_eq!(
        (&pushed["mode"], &added(&pushed["data"])["handling"]),
        (&json!("steer"), &expected)
    );
}

#[test]
fn observers_are_told_of_what_is_tried_again_that_it_came_back_and_not_that_it_failed() {
    let (world, hook) = (World::new(), Hook::start());
    hook.answers("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    world.pushes(&hook, &json!({"ack_mode": "on_2xx"}));
    let since = world.latest();
    let id = world.says("one");
    world.traced(&id, "read");
    let events = world.events(&format!("?since={since}"), &world.key)["events"].take();
    let types = events.as_array().expect("a list").iter();
    let types = types.map(|event| event["type"].as_str().expect("a type"));
    let failures = ["delivery.undone", "delivery.failed"];
    let told: Vec<&str> = types.filter(|kind| failures.contains(kind)).collect();
    assert_eq!(told, ["delivery.undone"]);
}

#[test]
fn what_was_given_up_is_listed_with_its_agent_s_and_goes_out_again_when_it_is_asked_for() {
    let (world, hook) = (World::new(), Hook::start());
    world.pushes(&hook, &json!({"ack_mode": "on_2xx"}));
    let person = |path: &str, agent: &str| {
        let asked = Request::post(path, json!({"agent": agent}).to_string());
        world.relay.connect().exchange(&asked).json()
    };
    let dead = |agent: &str| {
        let dead = person("/api/dead-letters", agent)["dead_letters"].take();
        let dead = dead.as_array().expect("a list").iter();
        dead.map(|letter| letter["body"].as_str().expect("a text").to_owned())
            .collect::<Vec<_>>()
    };
    hook.answers("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    let id = world.says("one");
    let mut pushes = 1;
    loop {
        hook.next();
        // Each failure is known before the next attempt is asked for.
        let end = std::time::Instant::now() + PATIENCE;
        let failed = loop {
            let steps = world.traced(&id, "queued");
            let failed = |step: &&String| ["push_failed", "given_up"].contains(&step.as_str());
            let failed = steps.into_iter().filter(|step| failed(&step)).collect::<Vec<_>>();
            if failed.len() == pushes {
                break failed;
            }
            assert!(std::time::Instant::now() < end, "{failed:?}");
        };
        if failed.last().is_some_and(|step| step == "given_up") {
            break;
        }
        assert_eq!(dead("web:bob"), [""; 0]);
        hook.answers("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(
            person("/api/redrive", "web:bob"),
            json!({"redriven": 0, "hastened": 1})
        );
        pushes += 1;
    }
    assert_eq!(dead("web:bob"), ["one"]);
    assert_eq!(dead("web:alice"), [""; 0], "another's");
    assert_eq!(
        person("/api/redrive", "web:alice"),
        json!({"redriven": 0, "hastened": 0})
    );
    assert_eq!(
        person("/api/redrive", "web:bob"),
        json!({"redriven": 1, "hastened": 1})
    );
    assert_eq!(hook.next().text(), "one");
    world.traced(&id, "read");
    assert_eq!(dead("web:bob"), [""; 0]);
}
