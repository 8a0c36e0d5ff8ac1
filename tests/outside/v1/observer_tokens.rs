//! The tokens of observers: what they show, and what they may not be.

use super::node::upgrade_at;
use super::observers::{Observer, text};
use super::*;

#[test]
fn a_token_shows_what_its_scopes_and_filters_allow() {
    let world = World::new();
    let all = [
        "stream:read",
        "messages:read",
        "threads:read",
        "dms:read",
        "channels:read",
        "agents:read",
        "deliveries:read",
        "reactions:read",
    ];
    let mut number = 0;
    let mut token = |scopes: &[&str], filters: Value| {
        number += 1;
        let made =
            world.observer_token(json!({"name": format!("o{number}"), "scopes": scopes, "filters": filters}));
        text(&made["token"]).to_owned()
    };
    let dms = token(&["stream:read", "dms:read"], json!({"include_dms": true}));
    let no_dms = token(&all, json!({}));
    let ops = token(&all, json!({"channel_names": ["ops"]}));
    let by_id = token(&all, json!({"channel_ids": ["ch_web:dev"]}));
    let bobs = token(&all, json!({"agent_ids": ["agt_web:bob"], "include_dms": true}));
    let kinds = token(&all, json!({"event_types": ["message.created"]}));
    let other_dm = token(
        &all,
        json!({"include_dms": true, "dm_conversation_ids": ["dm_none"]}),
    );
    let future = token(&all, json!({"created_after": "2100-01-01T00:00:00Z"}));
    let nothing = token(&["messages:read"], json!({}));
    let since = world.latest();
    world.write("hi");
    for channel in ["ops", "dev"] {
        world.done(
            &format!("/v1/channels/{channel}/messages"),
            &world.alice,
            &json!({"text": channel}),
        );
    }
    world.done(
        "/v1/dm",
        &world.alice,
        &json!({"to": "user", "text": "to the person"}),
    );
    let seen = |token: &str| {
        let listed = world.events(&format!("?since={since}"), token);
        let rows = listed["events"].as_array().expect("a list").iter();
        let rows: Vec<String> = rows.map(|row| text(&row["type"]).to_owned()).collect();
        rows.join(" ")
    };
    let in_channels = "member.joined message.created";
    assert_eq!(seen(&dms), "dm.received dm.received");
    assert_eq!(seen(&no_dms), format!("{in_channels} {in_channels}"));
    assert_eq!(seen(&ops), in_channels);
    assert_eq!(seen(&by_id), in_channels);
    assert_eq!(seen(&bobs), "dm.received delivery.accepted");
    assert_eq!(seen(&kinds), "message.created message.created");
    assert_eq!(seen(&other_dm), format!("{in_channels} {in_channels}"));
    assert_eq!(seen(&future), "");
    let refused_at = world.get("/v1/workspace/events", &nothing);
    refused(&refused_at, 401, "observer_token_forbidden", "stream:read");
    // A page ends behind what was looked at, shown or not.
    let page = world.events(&format!("?since={since}"), &future);
    assert_eq!(page["next_since"], page["latest_seq"]);
    // An agent is concerned by what it got, wherever that was sent.
    let later = world.latest();
    world.done("/v1/channels/both/join", &world.bob, &json!({}));
    world.done(
        "/v1/channels/both/messages",
        &world.alice,
        &json!({"text": "both"}),
    );
    let listed = world.events(&format!("?since={later}"), &bobs);
    let rows = listed["events"].as_array().expect("a list").iter();
    let kinds_of_bobs: Vec<&str> = rows.map(|row| text(&row["type"])).collect();
    assert_eq!(
        kinds_of_bobs,
        ["member.joined", "message.created", "delivery.accepted"]
    );
    // The stream shows the same.
    let mut observer = Observer::open(&world, &ops, &format!("&since={since}"));
    assert_eq!(observer.types(2).join(" "), in_channels);
}

#[test]
fn a_token_is_made_shown_changed_rotated_and_revoked() {
    let world = World::new();
    let made =
        world.observer_token(json!({"description": "a dashboard", "expires_at": "2100-01-01T00:00:00Z"}));
    let (id, token) = (text(&made["id"]), text(&made["token"]));
    assert!(token.starts_with("ot_live_") && token.len() == "ot_live_".len() + 64);
    assert_eq!(
        (
            &made["status"],
            &made["scopes"],
            &made["filters"],
            &made["expires_at"]
        ),
        (
            &json!("active"),
            &json!(["stream:read"]),
            &json!({"include_dms": false}),
            &json!("2100-01-01T00:00:00.000Z")
        )
    );
    let path = format!("/v1/observer-tokens/{id}");
    let mut shown = made.clone();
    shown.as_object_mut().expect("an object").remove("token");
    assert_eq!(world.seen(&path, &world.key), shown);
    assert_eq!(world.seen("/v1/observer-tokens", &world.key), json!([shown]));
    assert_eq!(world.seen("/v1/observer-tokens", &world.other_key), json!([]));
    let theirs = world.get(&path, &world.other_key);
    refused(&theirs, 404, "observer_token_not_found", id);
    let again = world.post(
        "/v1/observer-tokens",
        &world.key,
        &json!({"name": "o", "scopes": ["stream:read"]}),
    );
    refused(&again, 409, "observer_token_already_exists", "\"o\"");

    // What is changed holds for the stream that is open.
    let mut observer = Observer::open(&world, token, "");
    world.write("not shown");
    observer.has_caught_up();
    let changed = json!({"name": "p", "description": null, "scopes": ["stream:read", "dms:read"], "filters": {"include_dms": true}, "expires_at": null});
    let changed = data(&world.change("PATCH", &path, &changed));
    assert_eq!(
        (&changed["name"], &changed["description"], &changed["expires_at"]),
        (&json!("p"), &Value::Null, &Value::Null)
    );
    assert!(changed["last_used_at"].is_string());
    let the_same = world.change("PATCH", &path, &json!({"name": "p"}));
    assert_eq!(data(&the_same)["name"], "p", "its own name is not another's");
    world.write("shown");
    assert_eq!(observer.event()["message"]["text"], "shown");

    // A new token ends the one before, and what that has opened.
    let rotated = world.done(&format!("{path}/rotate"), &world.key, &json!({}));
    assert_eq!(observer.ended(), "this token was rotated");
    refused(
        &world.get("/v1/workspace/events", token),
        401,
        "unauthorized",
        "not known",
    );
    let token = text(&rotated["token"]);
    let mut observer = Observer::open(&world, token, "");
    assert_eq!(world.change("DELETE", &path, &json!({})).status, 204);
    assert_eq!(observer.ended(), "this token was revoked");
    refused(
        &world.get("/v1/workspace/events", token),
        401,
        "unauthorized",
        "not known",
    );
    let (status, _) = upgrade_at(&world, &format!("/v1/ws?token={token}")).expect_err("it is not good");
    assert_eq!(status, 401);
    assert_eq!(world.seen(&path, &world.key)["status"], "revoked");
    for (method, path) in [("PATCH", path.clone()), ("POST", format!("{path}/rotate"))] {
        refused(
            &world.change(method, &path, &json!({})),
            409,
            "observer_token_revoked",
            "revoked",
        );
    }
    assert_eq!(
        world.change("DELETE", &path, &json!({})).status,
        204,
        "a second time the same"
    );
    world.observer_token(json!({"name": "p"}));
}

#[test]
fn a_token_that_expires_ends_its_stream() {
    let world = World::new();
    let now = world.seen("/v1/workspace", &world.key);
    assert!(now["created_at"].is_string());
    let soon = chrono::Utc::now() + chrono::Duration::milliseconds(1_500);
    let made = world.observer_token(json!({"expires_at": soon.to_rfc3339()}));
    let mut observer = Observer::open(&world, text(&made["token"]), "");
    assert_eq!(observer.ended(), "this token has expired");
    let path = format!("/v1/observer-tokens/{}", text(&made["id"]));
    assert_eq!(world.seen(&path, &world.key)["status"], "expired");
    let late = world.get("/v1/workspace/events", text(&made["token"]));
    refused(&late, 401, "observer_token_forbidden", "expired");
    // A new one in its place would be no better; its name is to be had.
    let rotated = world.post(&format!("{path}/rotate"), &world.key, &json!({}));
    refused(&rotated, 409, "observer_token_expired", "expires_at");
    let again = json!({"name": made["name"], "scopes": ["stream:read"]});
    assert_eq!(world.post("/v1/observer-tokens", &world.key, &again).status, 201);
    for (change, status) in [
        (json!({"expires_at": null}), 409),
        (json!({"description": "past"}), 200),
    ] {
        let changed = world.change("PATCH", &path, &change);
        assert_eq!(changed.status, status, "{}", changed.text());
    }
    // Where its room is needed it is forgotten, and what it is known by as well.
    for number in 0..255 {
        world.observer_token(json!({"name": format!("n{number}")}));
    }
    let forgotten = world.get("/v1/workspace/events", text(&made["token"]));
    refused(&forgotten, 401, "unauthorized", "not known");
    let other = world.post("/v1/observer-tokens", &world.key, &again);
    refused(&other, 409, "observer_token_already_exists", "choose another");
}

#[test]
fn what_a_token_may_not_be_is_refused_and_named() {
    let world = World::new();
    let good = json!({"name": "o", "scopes": ["stream:read"]});
    for (field, value, words) in [
        ("name", json!(""), "1 to 128 bytes"),
        ("name", json!("a\nb"), "nobody sees"),
        ("name", json!(7), "integer `7`"),
        ("scopes", json!([]), "one or more"),
        ("scopes", json!(["write"]), "stream:read"),
        ("filters", json!({"channels": []}), "channels"),
        ("filters", json!({"agent_ids": "x"}), "expected a sequence"),
        ("filters", json!({"created_after": "soon"}), "\"soon\""),
        ("filters", json!({"dm_conversation_ids": ["dm_x"]}), "include_dms"),
        ("filters", json!({"event_types": vec!["x"; 257]}), "257"),
        (
            "filters",
            json!({"event_types": ["x".repeat(65_000)], "agent_ids": ["x".repeat(537)]}),
            "65536",
        ),
        (
            "filters",
            json!({"created_after": format!("2026-05-02T14:30:00.{}Z", "0".repeat(65_536))}),
            "65536",
        ),
        ("expires_at", json!("2000-01-01T00:00:00Z"), "later than now"),
        ("expires_at", json!("tomorrow"), "\"tomorrow\""),
        ("description", json!("x".repeat(1_025)), "1024"),
        ("token", json!("ot_live_mine"), "token"),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let made = world.post("/v1/observer-tokens", &world.key, &body);
        refused(&made, 400, "invalid_request", words);
    }
    assert_eq!(world.seen("/v1/observer-tokens", &world.key), json!([]));
    let by_agent = world.post("/v1/observer-tokens", &world.alice, &good);
    refused(&by_agent, 403, "workspace_key_required", "rk_live_");
    for bad in ["", "ot_live_0", &world.alice] {
        let (status, body) =
            upgrade_at(&world, &format!("/v1/ws?token={bad}")).expect_err("it is no observer's");
        assert!(status == 401 && !body.contains("live_0"), "{status} {body}");
    }
    refused(
        &world.get("/v1/workspace/events", &world.alice),
        401,
        "observer_token_required",
        "ot_live_",
    );
    // It looks on, and does nothing else.
    let made = world.observer_token(json!({}));
    let token = text(&made["token"]);
    for path in ["/v1/dm", "/v1/agents", "/v1/channels", "/v1/observer-tokens"] {
        refused(
            &world.post(path, token, &json!({})),
            401,
            "observer_token_forbidden",
            "GET /v1/ws",
        );
    }
    for path in ["/v1/inbox", "/v1/agents", "/v1/channels", "/v1/deliveries"] {
        refused(
            &world.get(path, token),
            401,
            "observer_token_forbidden",
            "GET /v1/ws",
        );
    }
    let (status, body) =
        upgrade_at(&world, &format!("/v1/node/ws?token={token}")).expect_err("it is no node's");
    assert_eq!(status, 401, "{body}");
    for number in 0..255 {
        world.observer_token(json!({"name": format!("n{number}")}));
    }
    let one_more = json!({"name": "more", "scopes": ["stream:read"]});
    let full = world.post("/v1/observer-tokens", &world.key, &one_more);
    refused(&full, 503, "too_many_observer_tokens", "256");
    let theirs = world.post("/v1/observer-tokens", &world.other_key, &one_more);
    assert_eq!(theirs.status, 201, "another workspace has room of its own");
    let path = format!("/v1/observer-tokens/{}", text(&made["id"]));
    assert_eq!(world.change("DELETE", &path, &json!({})).status, 204);
    world.done("/v1/observer-tokens", &world.key, &one_more);
    refused(
        &world.get(&path, &world.key),
        404,
        "observer_token_not_found",
        "obs_1",
    );
}

#[test]
fn what_became_of_what_an_agent_has_sent_concerns_it() {
    let world = World::new();
    let asked = json!({
        "scopes": ["stream:read", "dms:read", "deliveries:read"],
        "filters": {"agent_ids": ["agt_web:alice"], "include_dms": true},
    });
    let made = world.observer_token(asked);
    let since = world.latest();
    world.write("hi");
    let listed = world.events(&format!("?since={since}"), text(&made["token"]));
    let rows = listed["events"].as_array().expect("a list").iter();
    let types: Vec<&str> = rows.map(|row| text(&row["type"])).collect();
    assert_eq!(types, ["dm.received", "delivery.accepted"]);
}

#[test]
fn what_was_at_the_moment_of_a_filter_is_not_later_than_that() {
    let world = World::new();
    let since = world.latest();
    world.write("hi");
    let said = world.events(&format!("?since={since}"), &world.key)["events"][0].take();
    let at = chrono::DateTime::parse_from_rfc3339(text(&said["created_at"])).expect("a moment");
    for (name, ms, shown) in [("o", 0, 0), ("p", 1, 1)] {
        let after = (at - chrono::Duration::milliseconds(ms)).to_rfc3339();
        let filters = json!({"include_dms": true, "created_after": after});
        let asked = json!({"name": name, "scopes": ["stream:read", "dms:read"], "filters": filters});
        let made = world.observer_token(asked);
        let listed = world.events(&format!("?since={since}"), text(&made["token"]));
        assert_eq!(listed["events"].as_array().map(Vec::len), Some(shown), "{after}");
    }
}

#[test]
fn whoever_was_let_in_and_is_gone_makes_room() {
    let world = World::new();
    world.latest();
    // What is no WebSocket is gone as soon as it is answered.
    let plain = with(Request::get(&format!("/v1/ws?token={}", world.key)), &world.key);
    let mut connection = world.relay.connect();
    for _ in 0..=1_024 {
        refused(&connection.exchange(&plain), 400, "not_a_websocket", "");
    }
    let mut observer = Observer::open(&world, &world.key, "");
    world.write("hi");
    assert_eq!(observer.event()["message"]["text"], "hi");
}

#[test]
fn a_scope_shows_the_events_that_it_stands_for_and_no_others() {
    let world = World::new();
    let since = world.latest();
    world.done("/v1/channels/ops/join", &world.bob, &json!({}));
    let sent = world.done(
        "/v1/channels/ops/messages",
        &world.alice,
        &json!({"text": "look"}),
    );
    let path = format!("/v1/messages/{}", text(&sent["id"]));
    world.done(&format!("{path}/replies"), &world.bob, &json!({"text": "I do"}));
    world.done(&format!("{path}/reactions"), &world.bob, &json!({"emoji": "👀"}));
    world.done(&format!("{path}/read"), &world.bob, &json!({}));
    world.done("/v1/agents", &world.key, &json!({"name": "carol"}));
    for (scope, expected) in [
        ("stream:read", &[] as &[&str]),
        ("messages:read", &["message.created", "message.read"]),
        ("threads:read", &["thread.reply"]),
        ("channels:read", &["member.joined"]),
        ("reactions:read", &["message.reacted"]),
        ("deliveries:read", &["delivery.accepted"]),
        ("agents:read", &["agent.status.active"]),
        ("dms:read", &[]),
        ("nodes:read", &[]),
        ("activity:read", &[]),
        ("search:read", &[]),
    ] {
        let made = world.observer_token(json!({"name": scope, "scopes": ["stream:read", scope]}));
        let listed = world.events(&format!("?since={since}"), text(&made["token"]));
        let rows = listed["events"].as_array().expect("a list").iter();
        let mut types: Vec<&str> = rows.map(|row| text(&row["type"])).collect();
        types.sort_unstable();
        types.dedup();
        assert_eq!(types, expected, "{scope}");
    }
}

#[test]
fn what_several_agents_have_a_part_in_concerns_each_of_them_and_nobody_else() {
    let world = World::new();
    world.done("/v1/agents", &world.key, &json!({"name": "carol"}));
    let action = json!({"name": "sum", "handler_agent": "bob"});
    world.done("/v1/actions", &world.key, &action);
    world.done("/v1/channels/ops/join", &world.bob, &json!({}));
    let sent = world.done(
        "/v1/channels/ops/messages",
        &world.alice,
        &json!({"text": "look"}),
    );
    let path = format!("/v1/messages/{}", text(&sent["id"]));
    let since = world.latest();
    world.done(&format!("{path}/reactions"), &world.bob, &json!({"emoji": "👀"}));
    world.done(&format!("{path}/read"), &world.bob, &json!({}));
    world.done("/v1/actions/sum/invoke", &world.alice, &json!({}));
    let fleet = world.fleet(json!({}));
    for agent in ["alice", "bob"] {
        let bind = json!({"agent_name": agent});
        world.done("/v1/nodes/fleet/agents", &world.key, &bind);
    }
    let _node = super::node::Node::connect(&world, &fleet);
    let all = [
        "action.invoked",
        "message.reacted",
        "message.read",
        "node.status.online",
    ];
    for (agent, expected) in [("alice", &all as &[&str]), ("bob", &all), ("carol", &[])] {
        let made = world.observer_token(json!({
            "name": agent,
            "scopes": ["stream:read", "messages:read", "reactions:read", "activity:read", "nodes:read"],
            "filters": {"agent_ids": [format!("agt_web:{agent}")]},
        }));
        let listed = world.events(&format!("?since={since}"), text(&made["token"]));
        let rows = listed["events"].as_array().expect("a list").iter();
        let mut types: Vec<&str> = rows.map(|row| text(&row["type"])).collect();
        types.sort_unstable();
        types.dedup();
        assert_eq!(types, expected, "{agent}");
    }
}

#[test]
fn a_token_that_is_not_for_streams_opens_none() {
    let world = World::new();
    for scope in ["messages:read", "search:read"] {
        let made = world.observer_token(json!({"name": scope, "scopes": [scope]}));
        let path = format!("/v1/ws?token={}", text(&made["token"]));
        let Err((status, body)) = upgrade_at(&world, &path) else {
            panic!("{scope} lets it in");
        };
        let refused = body.contains("observer_token_forbidden")
            && body.contains("this token has not the scope stream:read");
        assert!(status == 401 && refused, "{status}: {body}");
    }
}
