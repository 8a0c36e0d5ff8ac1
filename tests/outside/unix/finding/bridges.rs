//! How bridges find their relay, and find it again.

use super::*;

#[test]
fn a_bridge_finds_its_relay_again_after_each_kill() {
    let mut relay = Relay::start();
    let mut agent = bridge_to(&relay);
    let absent = format!(
        "Relay is not running on {}, named by RELAY_SOCKET; start that relay again, or name the socket of another with \
         RELAY_SOCKET, or its project with RELAY_PROJECT",
        relay.socket().display()
    );
    for life in 0..10 {
        let body = format!("life {life}");
        agent.post("dev-a", "pm", &body).posted();
        assert_eq!(agent.read("pm").bodies(), [body]);
        relay.kill();
        let told = agent.read("pm");
        assert_eq!((told.texts, told.is_error), (vec![absent.clone()], true));
        relay.restart();
    }
}

#[test]
fn a_bridge_that_was_there_first_finds_a_relay_that_is_started_later() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let mut agent = bridge(directory.path(), &[data, ("RELAY_PROJECT", "later")]);
    let absent = format!(
        "Relay is not running on {}, named by RELAY_PROJECT; start it with: {} serve --project later",
        directory.path().join("relay/projects/later/relay.sock").display(),
        env!("CARGO_BIN_EXE_relay")
    );
    assert_eq!(agent.read("pm").texts, [absent]);
    let _relay = Relay::start_with(&["--project", "later"], &[data]);
    agent.post("dev-a", "pm", "x").posted();
    assert_eq!(agent.read("pm").bodies(), ["x"]);
}

#[test]
fn a_relay_that_is_not_there_is_told_of_in_agent_relay_s_words_to_its_tools() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let mut mcp = command(directory.path(), &[data, ("RELAY_PROJECT", "later")]);
    mcp.args(["mcp", "--tools", "agent-relay", "--agent", "Alice"]);
    let told = Agent::start_by(mcp).call("relay_inbox", &json!({}));
    let expected = format!(
        "Error: Relay daemon is not running. Start with: {} serve --project later",
        env!("CARGO_BIN_EXE_relay")
    );
    assert_eq!((told.texts, told.is_error), (vec![expected], true));
    let socket = directory.path().join("own.sock");
    let mut mcp = command(directory.path(), &[("RELAY_SOCKET", text(&socket))]);
    mcp.args(["mcp", "--tools", "agent-relay", "--agent", "Alice"]);
    let told = Agent::start_by(mcp).call("relay_inbox", &json!({}));
    let expected = format!(
        "Error: Relay daemon is not running. Start with: {} serve, as that relay was started before: it is to listen on {}, named by \
         RELAY_SOCKET; or name the socket of another with RELAY_SOCKET, or its project with RELAY_PROJECT",
        env!("CARGO_BIN_EXE_relay"),
        socket.display()
    );
    assert_eq!((told.texts, told.is_error), (vec![expected], true));
}

#[test]
fn relay_status_says_without_a_relay_that_there_is_none_and_how_one_is_started() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let variables = [data, ("RELAY_PROJECT", "later")];
    let mut mcp = command(directory.path(), &variables);
    mcp.args(["mcp", "--tools", "agent-relay", "--agent", "Alice"]);
    let mut agent = Agent::start_by(mcp);
    let status = |connected: &str, project: &str, version: &str| {
        let socket = directory.path().join("relay/projects/later/relay.sock");
        format!(
            "Relay Status:\n- Connected: {connected}\n- Agent Name: Alice\n- Project: {project}\n- Socket: {}\n- Daemon Version: \
             {version}\n- Uptime: ",
            socket.display()
        )
    };
    let start = format!(
        "Relay daemon is not running. Start with: {} serve --project later",
        env!("CARGO_BIN_EXE_relay")
    );
    let away = status("No", "later", "Unknown") + "N/A";
    let told = agent.call("relay_status", &json!({}));
    assert_eq!(
        (told.texts, told.is_error),
        (vec![away.clone(), start.clone()], false)
    );
    let mut relay = Relay::start_with(&["--project", "later"], &[data]);
    let told = agent.call("relay_status", &json!({}));
    let there = status("Yes", "default", env!("CARGO_PKG_VERSION"));
    assert!(told.texts[0].starts_with(&there), "{told:?}");
    relay.kill();
    let told = agent.call("relay_status", &json!({}));
    assert_eq!((told.texts, told.is_error), (vec![away, start], false));

    let mut alone = command(directory.path(), &[("XDG_DATA_HOME", "")]);
    alone.args(["mcp", "--tools", "agent-relay", "--port", "9"]);
    let mut alone = Agent::start_by(alone);
    let told = alone.call("relay_status", &json!({}));
    assert!(!told.is_error, "{told:?}");
    let own = format!(
        "- Connected: No\n- Agent Name: mcp-{}\n- Project: default\n- Socket: 127.0.0.1:9\n",
        alone.pid()
    );
    assert!(told.texts[0].contains(&own), "{told:?}");
}

#[test]
fn a_bridge_whose_relay_is_gone_looks_for_another_and_not_before() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let [mut first, second] =
        ["first", "second"].map(|project| Relay::start_with(&["--project", project], &[data]));
    configure(directory.path(), &json!({"project": "first"}));
    let mut agent = bridge(directory.path(), &[data]);
    agent.post("dev-a", "pm", "to the first").posted();
    configure(directory.path(), &json!({"project": "second"}));
    // A read that waits has a connection of its own.
    let wait = agent.wait("pm", 60.0);
    assert_eq!(agent.finish(wait).bodies(), ["to the first"]);
    first.kill();
    agent.post("dev-a", "pm", "to the second").posted();
    assert_eq!(second.bodies("pm"), ["to the second"]);
}

#[test]
fn a_bridge_whose_relay_is_gone_and_named_by_nothing_any_more_takes_the_one_that_is_alone() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let [mut first, second] =
        ["first", "second"].map(|project| Relay::start_with(&["--project", project], &[data]));
    configure(directory.path(), &json!({"project": "first"}));
    let mut agent = bridge(directory.path(), &[data]);
    agent.post("dev-a", "pm", "to the first").posted();
    configure(directory.path(), &json!({}));
    first.kill();
    agent.post("dev-a", "pm", "to the second").posted();
    assert_eq!(second.bodies("pm"), ["to the second"]);
}

#[test]
fn a_bridge_that_has_found_the_only_relay_waits_for_it_and_asks_no_other() {
    let directory = place();
    let data = ("XDG_DATA_HOME", text(directory.path()));
    let mut first = Relay::start_with(&["--project", "first"], &[data]);
    let mut agent = bridge(directory.path(), &[data]);
    agent.post("dev-a", "pm", "to the first").posted();
    let second = Relay::start_with(&["--project", "second"], &[data]);
    first.kill();
    let told = agent.read("pm");
    assert!(told.is_error, "{told:?}");
    assert!(told.texts[0].starts_with("Relay is not running on "), "{told:?}");
    assert!(told.texts[0].ends_with(" serve --project first"), "{told:?}");
    first.restart();
    agent.post("dev-a", "pm", "to the first again").posted();
    assert_eq!(first.bodies("pm"), ["to the first again"]);
    assert_eq!(second.bodies("pm"), [] as [String; 0]);
}

#[test]
fn a_bridge_waits_for_the_only_relay_that_it_found_whether_no_other_runs_or_several() {
    for others in [&[][..], &["second", "third"]] {
        let directory = place();
        let data = ("XDG_DATA_HOME", text(directory.path()));
        let mut first = Relay::start_with(&["--project", "first"], &[data]);
        let mut agent = bridge(directory.path(), &[data]);
        agent.post("dev-a", "pm", "to the first").posted();
        let start = |project: &&str| Relay::start_with(&["--project", project], &[data]);
        let _others: Vec<Relay> = others.iter().map(start).collect();
        first.kill();
        let told = agent.read("pm");
        assert!(told.texts[0].ends_with(" serve --project first"), "{told:?}");
        first.restart();
        agent.post("dev-a", "pm", "to the first again").posted();
        assert_eq!(first.bodies("pm"), ["to the first again"]);
    }
}

#[test]
fn the_presence_of_an_agent_is_one_session_that_rests() {
    let relay = Relay::start();
    let mut command = command(relay.runtime.path(), &[("RELAY_SOCKET", text(&relay.socket()))]);
    command.args(["mcp", "--agent", "Alice", "--tools", "agent-relay"]);
    let _agent = Agent::start_by(command);
    let sessions = || {
        let connections = relay.health()["connections"].clone();
        let of_alice = connections.as_array().expect("a list").iter();
        let of_alice = of_alice.filter(|connection| connection["role"] == "Alice");
        of_alice
            .map(|connection| connection["session"].clone())
            .collect::<Vec<_>>()
    };
    crate::support::until("the agent is there", || !sessions().is_empty());
    let before = sessions();
    std::thread::sleep(std::time::Duration::from_secs(6));
    assert_eq!(sessions(), before, "looked at once meanwhile");
    assert_eq!(before.len(), 1);
}
