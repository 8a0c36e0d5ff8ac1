//! What a project is: the same whatever names it, and at its own relay the same as none.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use super::finding::{configure, place};
use super::*;
use crate::support::http::Request;
use crate::support::session::Session;

/// A directory with a relay's data, and one to work in.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = place();
        fs::create_dir(directory.path().join("work")).expect("there is room");
        Self { directory }
    }

    fn work(&self) -> std::path::PathBuf {
        self.directory.path().join("work")
    }

    fn data(&self) -> (&'static str, &str) {
        ("XDG_DATA_HOME", text(self.directory.path()))
    }

    fn serve(&self, project: &str) -> Relay {
        Relay::start_with(&["--project", project], &[self.data()])
    }

    fn socket(&self, project: &str) -> String {
        let socket = format!("relay/projects/{project}/relay.sock");
        self.directory.path().join(socket).display().to_string()
    }

    fn command(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
        let mut command = command(&self.work(), &[&[self.data()], variables].concat());
        command.args(arguments);
        command
    }

    /// An agent with the tools of Agent Relay.
    fn agent(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Agent {
        let ace = ["mcp", "--tools", "agent-relay", "--agent", "Ace"];
        let mut agent = Agent::start_by(self.command(variables, &[&ace, arguments].concat()));
        // It is there from its first call on, at the latest.
        assert!(!inbox(&mut agent).is_error);
        agent
    }
}

fn inbox(agent: &mut Agent) -> crate::support::session::Reply {
    agent.call("relay_inbox", &json!({}))
}

/// Has an agent over HTTP, that names no project, and one over stdio send to each other; the one over HTTP writes `Ace` so.
fn meet(relay: &Relay, agent: &mut Agent, address: &str) {
    let mut session = relay.session(Way::Http);
    let sent = session.call(
        "post_message",
        &json!({"from": "pm", "to": address, "kind": "free", "body": "are you there"}),
    );
    assert!(!sent.is_error, "{address}: {sent:?}");
    let got = inbox(agent);
    assert!(
        got.texts[0].contains("From pm") && got.texts[0].contains("are you there"),
        "{got:?}"
    );
    for to in ["pm", "web:pm", "default:pm"] {
        let sent = agent.call("relay_send", &json!({"to": to, "message": format!("here, {to}")}));
        assert!(!sent.is_error, "{sent:?}");
        assert!(bodies(&mut session, "pm").contains(&format!("here, {to}")));
    }
}

fn bodies(session: &mut Session, role: &str) -> Vec<String> {
    session.read(role).bodies()
}

#[test]
fn an_agent_is_with_those_who_name_no_project_whatever_names_the_relays_own() {
    let place = Place::new();
    let relay = place.serve("web");
    // Another one runs, so that nobody is found as the only one.
    let other = place.serve("other");
    let port = relay.port.to_string();
    let socket = place.socket("web");
    let by_file = |place: &Place, config: Value| drop(configure(&place.work(), &config));
    by_file(&place, json!({}));
    for (variables, arguments, config) in [
        (vec![("RELAY_PROJECT", "web")], vec![], json!({})),
        (vec![], vec!["--project", "web"], json!({})),
        (vec![], vec![], json!({"project": "web"})),
        (vec![], vec![], json!({"project": "web", "socketPath": socket})),
        (vec![], vec!["--project", "web", "--port", &port], json!({})),
        (
            vec![("RELAY_PROJECT", "web"), ("RELAY_PORT", &port)],
            vec![],
            json!({}),
        ),
        (
            vec![("RELAY_SOCKET", &*socket)],
            vec![],
            json!({"project": "web"}),
        ),
        (
            vec![("RELAY_PROJECT", "other")],
            vec!["--project", "web"],
            json!({"project": "other"}),
        ),
    ] {
        by_file(&place, config.clone());
        let mut agent = place.agent(&variables, &arguments);
        for address in ["Ace", "web:Ace", "default:Ace"] {
            meet(&relay, &mut agent, address);
        }
        let who = agent.call("relay_who", &json!({"project": "web"}));
        assert!(
            who.texts[0].contains("- Ace (") && who.texts[0].contains("- pm ("),
            "{who:?}"
        );
        agent.end();
    }
    assert_eq!(other.pending(), json!({"pm": 0, "dev-a": 0, "dev-b": 0}));
}

#[test]
fn a_relay_is_the_own_one_of_the_project_that_its_directory_names() {
    let place = Place::new();
    let file = configure(&place.work(), &json!({"project": "web"}));
    let relay = Relay::start_in(&place.work(), &[], &[place.data()]);
    assert!(fs::exists(place.socket("web")).expect("it can be asked"));
    let mut agent = place.agent(&[], &[]);
    meet(&relay, &mut agent, "web:Ace");
    agent.end();
    for (variables, arguments) in [
        (vec![("RELAY_PROJECT", "other")], vec![]),
        (vec![("RELAY_PROJECT", "web")], vec!["--project", "other"]),
    ] {
        let variables = [&[place.data()], &*variables].concat();
        let other = Relay::start_in(&place.work(), &arguments, &variables);
        assert!(fs::exists(place.socket("other")).expect("it can be asked"));
        drop(other);
    }
    fs::write(&file, r#"{"project": "a b"}"#).expect("there is room");
    let mut serve = place.command(&[], &["serve", "--port", "1"]);
    let refused = serve.output().expect("it runs");
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    let begin = format!("relay serve: {}: invalid project name \"a b\"", file.display());
    assert!(said.starts_with(&begin), "{said}");
}

#[test]
fn a_role_is_held_by_whoever_names_the_relays_own_project() {
    let place = Place::new();
    let relay = place.serve("web");
    for tools in ["lift", "thrum", "all"] {
        let arguments = ["mcp", "--tools", tools, "--agent", "dev-a"];
        let mut agent = Agent::start_by(place.command(&[("RELAY_PROJECT", "web")], &arguments));
        relay.session(Way::Http).post("pm", "web:dev-a", tools);
        let reading = match tools {
            "thrum" => ("check_messages", json!({})),
            _ => ("read_messages", json!({})),
        };
        let got = agent.call(reading.0, &reading.1);
        assert!(got.texts[0].contains(&format!("\"{tools}\"")), "{got:?}");
        agent.end();
    }
}

#[test]
fn over_http_the_relays_own_project_is_the_same_as_none() {
    let place = Place::new();
    let relay = place.serve("web");
    for way in crate::support::session::WAYS {
        let mut named = Session::open(relay.port, way, Some("dev-a&project=web"));
        let body = format!("over {way:?}");
        relay.session(way).post("pm", "dev-a", &body);
        let got = named.call("read_messages", &json!({}));
        assert_eq!(got.bodies().last(), Some(&body), "{got:?}");
        let mut made = Session::open(relay.port, way, Some("eve&role=reviewer&project=web"));
        relay.session(way).post("pm", "eve", &body);
        let got = made.call("read_messages", &json!({}));
        assert_eq!(got.bodies().last(), Some(&body), "{got:?}");
    }
}

#[test]
fn another_project_is_another_namespace_of_a_relay_that_is_named() {
    let place = Place::new();
    let relay = place.serve("web");
    let (port, socket) = (relay.port.to_string(), place.socket("web"));
    for (variables, arguments, config) in [
        (vec![], vec!["--project", "api", "--port", &port], json!({})),
        (
            vec![("RELAY_PROJECT", "api"), ("RELAY_PORT", &*port)],
            vec![],
            json!({}),
        ),
        (
            vec![("RELAY_SOCKET", &*socket)],
            vec!["--project", "api"],
            json!({}),
        ),
        (vec![], vec![], json!({"project": "api", "socketPath": socket})),
    ] {
        configure(&place.work(), &config);
        let mut agent = place.agent(&variables, &arguments);
        let mut session = relay.session(Way::Http);
        let unknown = session.call(
            "post_message",
            &json!({"from": "pm", "to": "web:Ace", "kind": "free", "body": "x"}),
        );
        assert!(unknown.is_error, "{unknown:?}");
        session.post("pm", "api:Ace", "over there");
        let got = inbox(&mut agent);
        assert!(got.texts[0].contains("From default:pm"), "{got:?}");
        let sent = agent.call("relay_send", &json!({"to": "web:pm", "message": "here"}));
        assert!(!sent.is_error, "{sent:?}");
        assert!(bodies(&mut session, "pm").contains(&"here".to_owned()));
        agent.end();
        let mut health = relay.health();
        assert_eq!(health["pending"]["Ace"].take(), Value::Null, "it is of api alone");
    }
}

#[test]
fn whoever_asks_for_a_project_whose_relay_does_not_run_is_told_both_ways_out() {
    let place = Place::new();
    let _only = place.serve("other");
    let program = env!("CARGO_BIN_EXE_relay");
    let ways = format!(
        "{program} serve --project api; or, to be in project api on a relay that serves several, name that relay with --port or \
         RELAY_SOCKET"
    );
    let mut lift = Agent::start_by(place.command(&[], &["mcp", "--project", "api"]));
    let socket = place.socket("api");
    let expected = format!("Relay is not running on {socket}, named by --project; start it with: {ways}");
    assert_eq!(lift.read("pm").texts, [expected]);
    let arguments = [
        "mcp",
        "--project",
        "api",
        "--tools",
        "agent-relay",
        "--agent",
        "Ace",
    ];
    let mut ace = Agent::start_by(place.command(&[], &arguments));
    let expected = format!("Error: Relay daemon is not running. Start with: {ways}");
    assert_eq!(inbox(&mut ace).texts, [expected]);
}

#[test]
fn an_agent_is_of_the_project_of_the_file_that_has_led_it_to_its_relay() {
    let place = Place::new();
    let [mut first, second] = ["first", "second"].map(|project| place.serve(project));
    configure(&place.work(), &json!({"project": "first"}));
    let mut agent = place.agent(&[], &[]);
    configure(&place.work(), &json!({"project": "second"}));
    first.session(Way::Http).post("pm", "Ace", "at the first");
    assert!(inbox(&mut agent).texts[0].contains("at the first"));
    first.kill();
    assert!(!inbox(&mut agent).is_error);
    second.session(Way::Http).post("pm", "Ace", "at the second");
    assert!(inbox(&mut agent).texts[0].contains("at the second"));
}

/// Runs the hook of Claude Code for dev-a after a tool, and returns what it wrote to stdout and to stderr.
fn hooked(place: &Place, variables: &[(&str, &str)], arguments: &[&str]) -> [String; 2] {
    let arguments = [&["--agent", "dev-a"], arguments].concat();
    hooked_at(
        place,
        variables,
        &arguments,
        &json!({"session_id": "s-1", "hook_event_name": "PostToolUse"}),
    )
}

/// Runs the hook of Claude Code at an event.
fn hooked_at(place: &Place, variables: &[(&str, &str)], arguments: &[&str], event: &Value) -> [String; 2] {
    let mut hook = place.command(variables, &["hook", "claude"]);
    hook.args(arguments).env("CLAUDE_PID", "4194305");
    hook.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut hook = hook.spawn().expect("the built relay can be started");
    let mut stdin = hook.stdin.take().expect("it is piped");
    // One that finds out before what it is for that it can ask nobody reads nothing.
    match stdin.write_all(event.to_string().as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.expect("it reads"),
    }
    drop(stdin);
    let output = hook.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    [output.stdout, output.stderr].map(|said| String::from_utf8(said).expect("text"))
}

#[test]
fn a_hook_shows_what_comes_for_the_agent_of_its_project() {
    let place = Place::new();
    let relay = place.serve("web");
    let _other = place.serve("other");
    let port = relay.port.to_string();
    for (variables, arguments, project) in [
        (vec![("RELAY_PROJECT", "web")], vec![], ""),
        (vec![], vec!["--project", "web"], ""),
        (vec![], vec![], "web"),
        (vec![], vec!["--port", &*port], "web"),
    ] {
        configure(&place.work(), &json!({"project": project}));
        relay.session(Way::Http).post("pm", "dev-a", "for its model");
        let [told, said] = hooked(&place, &variables, &arguments);
        assert!(told.contains("for its model"), "{arguments:?}: {told} {said}");
    }
    // In another project there is no such agent.
    for (variables, arguments, project) in [
        (vec![("RELAY_PROJECT", "api")], vec!["--port", &*port], "web"),
        (vec![], vec!["--project", "api", "--port", &port], "web"),
    ] {
        configure(&place.work(), &json!({"project": project}));
        let [told, said] = hooked(&place, &variables, &arguments);
        assert_eq!(told, "");
        assert!(said.contains("unknown role \"api:dev-a\""), "{said}");
    }
    // The relay is the one whose socket the file names, also where the agent's project has another.
    let elsewhere = json!({"socketPath": place.socket("other"), "project": "web"});
    configure(&place.work(), &elsewhere);
    let [told, said] = hooked(&place, &[], &[]);
    assert_eq!(told, "");
    assert!(said.contains("unknown role \"web:dev-a\""), "{said}");
    fs::write(place.work().join(".relay/config.json"), "{").expect("there is room");
    let [told, said] = hooked(&place, &[], &[]);
    assert_eq!(told, "");
    assert!(said.contains(".relay/config.json: line 1"), "{said}");
    fs::write(place.work().join(".relay/config.json"), "{}").expect("there is room");
    let [told, said] = hooked(&place, &[], &[]);
    assert_eq!(told, "");
    assert!(said.contains("several relays run: other ("), "{said}");
    // Where the place is named, no file is asked.
    relay.session(Way::Http).post("pm", "dev-a", "for its model");
    for text in ["{", r#"{"project": "api"}"#] {
        fs::write(place.work().join(".relay/config.json"), text).expect("there is room");
        let [told, said] = hooked(&place, &[], &["--port", &port]);
        assert!(told.contains("for its model"), "{text}: {told} {said}");
        relay.session(Way::Http).post("pm", "dev-a", "for its model");
    }
}

#[test]
fn a_hook_without_a_name_is_where_a_session_without_one_is() {
    let place = Place::new();
    let socket = place.socket("web");
    let spoken = json!({
        "hook_event_name": "PostToolUse", "session_id": "s-1", "tool_name": "mcp__relay__post_message",
        "tool_input": {"from": "dev-a", "to": "pm", "kind": "free", "body": "x"},
    });
    let by_file = json!({"project": "api", "socketPath": socket}).to_string();
    let by_socket = ("RELAY_SOCKET", &*socket);
    let by_variable = ("RELAY_PROJECT", "api");
    for (config, variables, arguments) in [
        (&*by_file, vec![], vec![]),
        ("{}", vec![by_socket, by_variable], vec![]),
        ("{}", vec![by_socket], vec!["--project", "api"]),
        // No project is looked for.
        ("{", vec![by_socket], vec![]),
    ] {
        // Another one each time, which has not heard yet for whom the program speaks.
        let relay = place.serve("web");
        let file = configure(&place.work(), &json!({}));
        fs::write(file, config).expect("there is room");
        relay.session(Way::Http).post("pm", "dev-a", "for its model");
        let [told, said] = hooked_at(&place, &variables, &arguments, &spoken);
        assert!(told.contains("| for its model"), "{config}: {told} {said}");
    }
}

#[test]
fn a_program_is_one_whether_its_hooks_name_the_relays_own_project_or_none() {
    let place = Place::new();
    let relay = place.serve("web");
    let post =
        |target: &str, event: &str| Request::post(target, json!({"hook_event_name": event}).to_string());
    let named = "process=4194305&agent=dev-a&project=web";
    let idle = post(&format!("/hooks/claude?{named}"), "Stop");
    assert_eq!(relay.connect().exchange(&idle).status, 204);
    let mut waiter = relay.connect();
    waiter.send(&post(&format!("/hooks/claude/wait?{named}"), "Stop").bytes());
    crate::support::until("it stands by", || {
        let connections = relay.health()["connections"].to_string();
        connections.contains("\"can_be_woken\":true")
    });
    for project in ["", "&project=default", "&project=web"] {
        let other = post(
            &format!("/hooks/claude?process=4194305&agent=dev-a{project}"),
            "Stop",
        );
        assert_eq!(relay.connect().exchange(&other).status, 204);
    }
    relay.session(Way::Http).post("pm", "dev-a", "wake up");
    let woken = waiter.response();
    assert!(
        woken.status == 200 && woken.text().contains("| wake up"),
        "{woken:?}"
    );
}

#[test]
fn a_session_needs_no_file_where_a_relay_is_named() {
    let place = Place::new();
    let relay = place.serve("web");
    let port = relay.port.to_string();
    let file = configure(&place.work(), &json!({}));
    fs::write(&file, "{").expect("there is room");
    let mut lift = Agent::start_by(place.command(&[], &["mcp", "--port", &port]));
    lift.post("dev-a", "pm", "hello").posted();
    assert_eq!(lift.read("pm").bodies(), ["hello"]);
    lift.post("pm", "dev-a", "and back").posted();
    let mut named = Agent::start_by(place.command(&[], &["mcp", "--port", &port, "--agent", "dev-a"]));
    assert_eq!(named.call("read_messages", &json!({})).bodies(), ["and back"]);
}

#[test]
fn a_person_and_programs_name_the_relays_own_project_too() {
    let place = Place::new();
    let relay = place.serve("web");
    let told = |arguments: &[&str]| {
        let output = place.command(&[("RELAY_PERSON", "1")], arguments).output();
        let output = output.expect("the built relay can be started");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    told(&["send", "web:dev-a", "hello"]);
    assert_eq!(relay.bodies("dev-a"), ["hello"]);
    let agents = told(&["agents", "--project", "web", "--json"]);
    assert_eq!(agents, told(&["agents", "--project", "default", "--json"]));
    assert!(agents.contains("dev-b"), "{agents}");
    let made = told(&["key", "--workspace", "web", "--json"]);
    assert!(made.contains("\"workspace\":\"default\""), "{made}");
    let [id, default] = ["web", "default"].map(|workspace| {
        let make = Request::post("/v1/workspaces", json!({"name": workspace}).to_string());
        relay.connect().exchange(&make).json()["data"]["workspace_id"].clone()
    });
    assert!(id.is_string() && id == default, "{id}, {default}");
    let key = told(&["key", "--workspace", "web"]);
    relay.session(Way::Http).post("pm", "#general", "said there");
    for (target, shown) in [
        ("/v1/agents", "\"dev-b\""),
        ("/v1/agents/web:dev-b", "\"dev-b\""),
        ("/v1/workspaces/by-name/web", "\"name\":\"default\""),
        ("/v1/search?q=there&from=web:pm", "said there"),
    ] {
        let request = Request::get(target).with("Authorization", &format!("Bearer {}", key.trim()));
        let answer = relay.connect().exchange(&request);
        assert!(
            answer.status == 200 && answer.text().contains(shown),
            "{answer:?}"
        );
    }
}

#[test]
fn doctor_looks_for_the_relay_of_the_project_that_an_entry_names() {
    let place = Place::new();
    let relay = place.serve("web");
    let _other = place.serve("other");
    let entry = |own: &[(&str, &str)], arguments: &[&str], variables: Value| {
        let arguments = [&["mcp"], arguments].concat();
        let command = env!("CARGO_BIN_EXE_relay");
        let servers = json!({"relay": {"command": command, "args": arguments, "env": variables}});
        let file = place.work().join(".mcp.json");
        fs::write(file, json!({"mcpServers": servers}).to_string()).expect("there is room");
        let home = ("HOME", text(place.directory.path()));
        let own = [&[home], own].concat();
        let output = place.command(&own, &["doctor", "--json"]).output();
        let output = output.expect("the built relay can be started");
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        told.to_string()
    };
    let nowhere = format!("relay is not running on {}", place.socket("nowhere"));
    let found = format!("\"reachable\":{}", relay.health()["version"]);
    for (project, expected) in [("nowhere", &nowhere), ("web", &found)] {
        let joined = format!("--project={project}");
        for (arguments, variables) in [
            (&["--project", project][..], json!({"RELAY_PROJECT": "elsewhere"})),
            (&[&*joined], json!({})),
            (&[], json!({"RELAY_PROJECT": project})),
            (
                &[],
                json!({"RELAY_SOCKET": place.socket(project), "RELAY_PROJECT": "elsewhere"}),
            ),
        ] {
            for own in [&[][..], &[("RELAY_PROJECT", "elsewhere")]] {
                let told = entry(own, arguments, variables.clone());
                assert!(told.contains(expected), "{own:?}, {arguments:?}: {told}");
            }
        }
        let told = entry(&[("RELAY_PROJECT", project)], &[], json!({}));
        assert!(told.contains(expected), "as its program would inherit it: {told}");
    }
    let port = relay.port.to_string();
    let told = entry(&[], &["--project=bad name", "--port", &port], json!({}));
    assert!(told.contains("invalid project name \\\"bad name\\\""), "{told}");
    let own = [("RELAY_PROJECT", "elsewhere")];
    let told = entry(&own, &[], json!({"RELAY_PROJECT": ""}));
    assert!(
        told.contains("several relays run: other ("),
        "it is given an empty one: {told}"
    );
}

#[test]
fn a_bridge_that_is_told_a_host_alone_looks_for_no_other_relay() {
    let place = Place::new();
    let _relay = place.serve("web");
    // Nobody listens there, unless everywhere.
    let mut agent = Agent::start_by(place.command(&[], &["mcp", "--host", "127.0.0.77"]));
    let absent = format!(
        "Relay is not running on 127.0.0.77:7331. Start it with: {} serve --host 127.0.0.77",
        env!("CARGO_BIN_EXE_relay")
    );
    assert_eq!(agent.read("pm").texts, [absent]);
}

#[test]
fn where_it_is_not_known_which_relay_is_meant_its_status_says_so() {
    let place = Place::new();
    let _relays = ["web", "other"].map(|project| place.serve(project));
    let nowhere = [("XDG_DATA_HOME", ""), ("HOME", "")];
    for (variables, arguments, project) in [
        (vec![], vec![], "Unknown"),
        (nowhere.to_vec(), vec!["--project", "api"], "api"),
    ] {
        let own = ["mcp", "--tools", "agent-relay", "--agent", "Ace"];
        let arguments = [&own[..], &arguments[..]].concat();
        let mut agent = Agent::start_by(place.command(&variables, &arguments));
        let told = agent.call("relay_status", &json!({}));
        let status = format!(
            "Relay Status:\n- Connected: No\n- Agent Name: Ace\n- Project: {project}\n- Socket: Unknown\n- Daemon Version: \
             Unknown\n- Uptime: N/A"
        );
        assert_eq!((&told.texts[0], told.is_error), (&status, false));
    }
}
