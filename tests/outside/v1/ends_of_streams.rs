//! How the streams of observers end: what is shown before, and what is not.

use super::observers::{Observer, text};
use super::*;

#[test]
fn what_happened_before_the_stop_is_shown_before_the_end() {
    let world = World::new();
    for number in 0..1_500 {
        world.done("/v1/agents", &world.key, &json!({"name": format!("a{number}")}));
    }
    let mut observer = Observer::open(&world, &world.key, "");
    world.done(
        "/v1/dm",
        &world.alice,
        &json!({"to": "@everyone", "text": "to all"}),
    );
    world.relay.signal("TERM");
    let mut accepted = 0;
    let reason = loop {
        match observer.next() {
            Ok(event) => accepted += u32::from(event["type"] == "delivery.accepted"),
            Err(reason) => break reason,
        }
    };
    assert_eq!((accepted, reason.as_str()), (1_501, "relay is stopping"));
}

#[test]
fn a_token_that_is_revoked_shows_nothing_of_what_was_about_to_go_out() {
    let world = World::new();
    let filters = json!({"include_dms": true});
    let made = world.observer_token(json!({"scopes": ["stream:read", "dms:read"], "filters": filters}));
    let since = world.latest();
    world.write("first");
    // Each takes six bytes in JSON: far more than the system keeps for who does not read.
    for _ in 0..7 {
        world.write(&"\u{1}".repeat(512 * 1024));
    }
    let mut observer = Observer::open(&world, text(&made["token"]), &format!("&since={since}"));
    assert_eq!(observer.event()["message"]["text"], "first");
    let path = format!("/v1/observer-tokens/{}", text(&made["id"]));
    assert_eq!(world.change("DELETE", &path, &json!({})).status, 204);
    let mut messages = 0;
    let reason = loop {
        match observer.next() {
            Ok(event) => messages += u32::from(event["type"] == "dm.received"),
            Err(reason) => break reason,
        }
    };
    assert_eq!(reason, "this token was revoked");
    assert!(messages < 7, "all of them");
}

#[test]
fn the_reason_for_an_end_comes_to_an_observer_that_goes_on_talking() {
    let world = World::new();
    let made = world.observer_token(json!({}));
    let mut observer = Observer::open(&world, text(&made["token"]), "");
    // A text that is masked with zeros.
    let mut said = vec![0x81, 0xfe, 0x40, 0, 0, 0, 0, 0];
    said.resize(said.len() + 0x4000, b' ');
    let mut talks = observer.0.get_ref().try_clone().expect("the same connection");
    let talking = std::thread::spawn(move || while std::io::Write::write_all(&mut talks, &said).is_ok() {});
    let path = format!("/v1/observer-tokens/{}", text(&made["id"]));
    assert_eq!(world.change("DELETE", &path, &json!({})).status, 204);
    assert_eq!(observer.ended(), "this token was revoked");
    drop(observer);
    drop(world);
    talking.join().expect("it ends with the connection");
}
