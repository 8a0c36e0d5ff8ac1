//! Workspaces, agents and channels.

use super::*;

#[test]
fn a_workspace_is_made_once_and_each_key_of_it_is_good() {
    let relay = Relay::start();
    let make = || send(&relay, "/v1/workspaces", None, &json!({"name": "web"}));
    let [first, second] = [make(), make()];
    assert_eq!((first.status, second.status), (201, 200));
    let [first, second] = [data(&first), data(&second)];
    assert_eq!(first["workspace_id"], "ws_web");
    assert_eq!(first["created_at"], second["created_at"]);
    assert_ne!(first["api_key"], second["api_key"]);
    for made in [first, second] {
        let key = made["api_key"].as_str().expect("a key");
        assert!(key.starts_with("rk_live_") && key.len() == "rk_live_".len() + 64);
        let info = relay
            .connect()
            .exchange(&with(Request::get("/v1/workspace"), key));
        assert_eq!(data(&info)["name"], "web");
    }
    let by_name = |name: &str| {
        let path = format!("/v1/workspaces/by-name/{name}");
        relay.connect().exchange(&Request::get(&path))
    };
    assert_eq!(data(&by_name("web"))["id"], "ws_web");
    assert_eq!(data(&by_name("default"))["id"], "ws_default");
    refused(&by_name("none"), 404, "workspace_not_found", "\"none\"");
    let default = send(&relay, "/v1/workspaces", None, &json!({"name": "default"}));
    assert_eq!(default.status, 200, "the default project is always there");
}

#[test]
fn an_agent_is_registered_once_and_seen_with_its_channels() {
    let world = World::new();
    let card = json!({"name": "carol", "type": "human", "persona": "a person", "metadata": {"a": 1}});
    let made = world.done("/v1/agents", &world.key, &card);
    assert_eq!(
        (&made["id"], &made["name"], &made["status"]),
        (&json!("agt_web:carol"), &json!("carol"), &json!("online"))
    );
    let again = world.post("/v1/agents", &world.key, &card);
    refused(&again, 409, "agent_already_exists", "\"web:carol\"");
    let carol = world.seen("/v1/agents/carol", &world.key);
    assert_eq!(carol["metadata"], json!({"a": 1}));
    assert_eq!(
        (&carol["type"], &carol["persona"]),
        (&json!("human"), &json!("a person"))
    );
    assert_eq!(carol["channels"][0]["name"], "general");
    assert_eq!(
        world.seen("/v1/agents/web:carol", &world.alice)["id"],
        "agt_web:carol"
    );
    let me = world.seen("/v1/agent", made["token"].as_str().expect("a token"));
    assert_eq!(me, carol);
    let names = |path: &str| {
        let agents = world.seen(path, &world.key);
        let agents = agents.as_array().expect("a list").iter();
        agents
            .map(|agent| agent["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("/v1/agents"), ["alice", "bob", "carol"]);
    assert_eq!(names("/v1/agents?status=online"), ["alice", "bob", "carol"]);
    assert_eq!(names("/v1/agents?status=offline"), [""; 0]);
    for path in ["/v1/agents/heartbeat", "/v1/agents/disconnect"] {
        let expected = json!({"agent_id": "agt_web:alice", "agent_name": "alice", "status": "online"});
        assert_eq!(world.done(path, &world.alice, &json!({})), expected);
    }
}

#[test]
fn an_agent_that_came_another_way_is_seen_and_can_be_spoken_for() {
    let world = World::new();
    let key = workspace(&world.relay, "default");
    let taken = world.post("/v1/agents", &key, &json!({"name": "pm"}));
    refused(&taken, 409, "agent_already_exists", "\"pm\"");
    assert_eq!(world.seen("/v1/agents/pm", &key)["status"], "offline");
    let token = world.done("/v1/agents/pm/rotate-token", &key, &json!({}));
    let token = token["token"].as_str().expect("a token");
    world.done("/v1/dm", token, &json!({"to": "dev-a", "text": "from pm"}));
    assert_eq!(world.bodies("dev-a"), ["from pm"]);
}

#[test]
fn a_channel_is_made_joined_listed_and_left() {
    let world = World::new();
    let made = world.done(
        "/v1/channels",
        &world.alice,
        &json!({"name": "build", "topic": "what breaks"}),
    );
    assert_eq!(
        (&made["id"], &made["topic"], &made["member_count"]),
        (&json!("ch_web:build"), &json!("what breaks"), &json!(1))
    );
    let again = world.post("/v1/channels", &world.bob, &json!({"name": "build"}));
    refused(&again, 409, "channel_already_exists", "\"build\"");
    let join = || world.done("/v1/channels/build/join", &world.bob, &json!({}))["already_member"].clone();
    assert_eq!([join(), join()], [json!(false), json!(true)]);
    let members = world.seen("/v1/channels/build/members", &world.key);
    let names: Vec<&Value> = members
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["agent_name"])
        .collect();
    assert_eq!(names, ["alice", "bob"]);
    assert_eq!(
        world.seen("/v1/channels/%23build", &world.bob)["members"],
        members
    );
    let channels = world.seen("/v1/channels?include_archived=true", &world.key);
    let names: Vec<&Value> = channels
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["general", "build"]);
    let left = world.done("/v1/channels/build/leave", &world.bob, &json!({}));
    assert_eq!(left["channel"], "build");
    let again = world.post("/v1/channels/build/leave", &world.bob, &json!({}));
    refused(&again, 409, "not_a_member", "\"web:bob\"");
    let general = world.post("/v1/channels/general/leave", &world.bob, &json!({}));
    refused(&general, 400, "channel_of_all", "general");
    refused(
        &world.get("/v1/channels/none", &world.bob),
        404,
        "channel_not_found",
        "#none",
    );
}
