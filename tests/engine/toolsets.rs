//! What a choice of toolsets means for a session beside its tools.

use relay::engine::watches::Watched;
use relay::tools::Toolsets;

use super::*;

fn chosen(names: &str) -> Toolsets {
    names.parse().expect("toolsets")
}

#[test]
fn an_agent_comes_with_the_session_or_is_needed_as_the_toolsets_have_it() {
    for (names, registers, needs_agent) in [
        ("lift", false, false),
        ("thrum", false, true),
        ("agent-relay", true, false),
        ("lift,thrum", false, true),
        ("thrum,agent-relay", true, true),
    ] {
        let toolsets = chosen(names);
        assert_eq!(
            (toolsets.register(), toolsets.need_agent()),
            (registers, needs_agent),
            "{names}"
        );
    }
}

#[test]
fn each_resource_is_its_toolset_s_and_the_prompts_are_those_of_all() {
    let all = chosen("all");
    for resource in all.resources() {
        assert_eq!(all.of_resource(resource).name, "agent-relay");
        assert_eq!(
            chosen("lift").of_resource(resource).name,
            "lift",
            "where it is of none, the first"
        );
    }
    assert_eq!(all.resources().count(), 3);
    for (what, uri) in [
        (Watched::Agents, "relay://agents"),
        (Watched::Inbox, "relay://inbox"),
    ] {
        assert_eq!(all.changed_with(what).collect::<Vec<_>>(), [uri]);
    }
    let prompts = all.prompts().map(|prompt| prompt.name);
    assert_eq!(prompts.collect::<Vec<_>>(), ["relay_protocol"]);
    assert_eq!(chosen("lift,thrum").prompts().count(), 0);
}

#[test]
fn a_tool_is_shown_with_what_it_takes_to_a_session_of_nobody_s_and_to_one_of_an_agent_s() {
    let of = |bound: Option<&AgentName>| {
        let listed = chosen("lift").definitions(&Roster::default(), bound);
        let tools = listed.as_array().expect("a list").iter();
        let mut reads = tools.filter(|tool| tool["name"] == "read_messages");
        let schema = reads.next().expect("it is one")["inputSchema"].clone();
        (schema["properties"].clone(), schema["required"].clone())
    };
    let (properties, required) = of(None);
    assert_eq!(required, serde_json::json!(["for"]));
    assert_eq!(
        properties["for"]["enum"],
        serde_json::json!(["pm", "dev-a", "dev-b"])
    );
    assert_eq!(properties["for"]["type"], "string");
    assert_eq!(properties["wait_seconds"]["maximum"], 280);
    let other = name("qa");
    let (properties, required) = of(Some(&other));
    assert_eq!(required, serde_json::json!([]));
    assert_eq!(properties["for"]["enum"], serde_json::json!(["qa"]));
}

#[test]
fn an_agent_of_another_project_is_shown_the_roles_as_it_has_to_write_them() {
    let dev = AgentName::in_project("api", "dev").expect("a name");
    let listed = chosen("lift").definitions(&Roster::default(), Some(&dev));
    let tool = |name: &str| {
        let mut tools = listed.as_array().expect("a list").iter();
        tools.find(|tool| tool["name"] == name).expect("it is one")["inputSchema"]["properties"].clone()
    };
    assert_eq!(
        tool("read_messages")["for"]["enum"],
        serde_json::json!(["api:dev"])
    );
    let namesake = AgentName::in_project("api", "dev-a").expect("a name");
    let listed_to = chosen("lift").definitions(&Roster::default(), Some(&namesake));
    assert!(
        listed_to.to_string().contains(r#""enum":["api:dev-a"]"#),
        "a role's namesake is itself: {listed_to}"
    );
    let to = &tool("post_message")["to"]["description"];
    let to = to.as_str().expect("a text");
    assert!(
        to.ends_with("Roles: default:pm, default:dev-a, default:dev-b"),
        "{to}"
    );
}
