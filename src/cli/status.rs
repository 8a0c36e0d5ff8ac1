//! `relay status`: who is connected, and what is on its way to whom.

use std::io;

use serde_json::{Value, json};

use super::client::{ClientError, health_of};
use super::discover::{Found, Way, discover_here};
use super::health::{Connection, Health, Node, Role, Worker};
use super::messages::{json_line, local_time, write_stdout};
use super::place::MaybePlace;
use super::table::{cut, duration, fitted, table};
use super::{End, Failure, block_on};
use crate::engine::DEFAULT_PROJECT;
use crate::engine::handling::Mode;
use crate::server::Token;
use crate::terminal::{visible, visible_lines};

/// How much of that the name of a node may take: its state is beside it.
const NODE_COLUMNS: usize = 28;

/// `relay status`.
#[derive(Debug, clap::Args)]
pub struct Status {
    /// Print the same as JSON: what GET /health answers, and how relay was found.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: MaybePlace,

    /// The secret that the relay asks for.
    #[arg(long, env = "RELAY_TOKEN", hide_env_values = true)]
    token: Option<Token>,
}

/// Why nothing was told.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    /// No relay told it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<StatusError> for Failure {
    fn from(error: StatusError) -> Self {
        Self::error(format!("relay status: {error}"))
    }
}

/// Asks and tells.
pub fn run(args: &Status) -> Result<End, Failure> {
    let text = block_on(told(args))??;
    write_stdout(&text).map_err(StatusError::Stdout)?;
    Ok(End::Done)
}

async fn told(args: &Status) -> Result<String, StatusError> {
    let found = discover_here(args.place.named(), None).map_err(ClientError::from)?;
    let (health, json) = health_of(&found, args.token.clone()).await?;
    if !args.json {
        return Ok(visible_lines(&text(&health, &found)));
    }
    with_found(&json, &found).ok_or_else(|| {
        let place = found.way;
        ClientError::NoRelay { place }.into()
    })
}

/// Adds to what a relay says of itself how it was found.
fn with_found(json: &str, found: &Found) -> Option<String> {
    let mut told: serde_json::Map<String, Value> = serde_json::from_str(json).ok()?;
    let found = json!({"source": found.source.name(), "at": found.way.to_string()});
    told.insert("found".to_owned(), found);
    Some(json_line(&Value::Object(told).to_string()))
}

/// Writes where a relay is and how it was found, and what it says of itself in lines that fit a terminal.
fn text(health: &Health, found: &Found) -> String {
    let pid = health.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
    let mut lines = vec![
        format!(
            "since {}, for {}",
            local_time(&health.started_at),
            duration(health.uptime_seconds)
        ),
        String::new(),
    ];
    if health.holds_all {
        lines.push("all messages are held: relay hold".to_owned());
        lines.push(String::new());
    }
    let head = ["role", "unread", "oldest", "in doubt"];
    lines.extend(table(head, health.roles.iter().map(role)));
    lines.push(String::new());
    if health.connections.is_empty() {
        lines.push("no sessions".to_owned());
    } else {
        let head = ["session", "over", "role", "state"];
        lines.extend(table(head, health.connections.iter().map(connection)));
    }
    if !health.nodes.is_empty() {
        lines.push(String::new());
        let head = ["node", "kind", "agents", "state"];
        lines.extend(table(head, health.nodes.iter().map(node)));
    }
    if !health.workers.is_empty() {
        lines.push(String::new());
        let head = ["worker", "state", "age", "cli", "works for"];
        lines.extend(table(head, health.workers.iter().map(worker)));
        lines.push("what one has written: relay logs NAME".to_owned());
    }
    // Where it is stands in one piece, however long it is, so that it can be copied.
    let port = match (&found.way, health.port) {
        (Way::Unix(_), Some(port)) => format!(", port {port}"),
        (Way::Unix(_), None) | (Way::Tcp(_), _) => String::new(),
    };
    let head = format!(
        "relay {} on {}{port}{pid}\nfound by {}\n",
        health.version, found.way, found.source
    );
    head + &lines.iter().map(|line| fitted(line) + "\n").collect::<String>()
}

fn role(role: &Role) -> [String; 4] {
    // As most are needs no word.
    let mode = role
        .mode
        .as_deref()
        .filter(|mode| *mode != Mode::Immediate.as_str());
    let mode = mode.map(|mode| format!(" ({mode})")).unwrap_or_default();
    let is_held = if role.is_held { " (held)" } else { "" };
    let held = match role.held {
        0 => String::new(),
        held => format!(", {held} held"),
    };
    [
        format!("{}{mode}{is_held}", role.role),
        format!("{}{held}", role.unread),
        role.oldest_seconds.map_or_else(|| "-".to_owned(), duration),
        role.in_doubt.to_string(),
    ]
}

fn connection(connection: &Connection) -> [String; 4] {
    let Connection {
        session,
        role,
        person,
        transport,
        waits,
        program,
    } = connection;
    let role = match (role, person) {
        (Some(role), _) => role.clone(),
        (None, true) => "user".to_owned(),
        (None, false) => "any".to_owned(),
    };
    let waits = waits.iter().map(|wait| {
        let left = duration(wait.seconds_left);
        if wait.role == role {
            format!("waits, {left} left")
        } else {
            format!("waits for {}, {left} left", wait.role)
        }
    });
    let waits: Vec<String> = waits.collect();
    let state = if let Some(program) = program {
        match (program.activity.as_str(), program.can_be_woken) {
            ("asks", _) => "asks its person".to_owned(),
            (activity, true) => format!("{}, can be woken", visible(activity)),
            (activity, false) => visible(activity).into_owned(),
        }
    } else if waits.is_empty() {
        "open".to_owned()
    } else {
        waits.join("; ")
    };
    [session.to_string(), transport.clone(), role, state]
}

fn node(node: &Node) -> [String; 4] {
    let mut state = match node.live {
        Some(true) => "connected".to_owned(),
        Some(false) => "not connected".to_owned(),
        None if node.failing == 0 => "pushed to".to_owned(),
        None => "fails".to_owned(),
    };
    if node.dead_letters > 0 {
        state += &format!(", {} given up: relay redrive", node.dead_letters);
    }
    let kind = if node.kind == "http_push" {
        "web hook"
    } else {
        &node.kind
    };
    // The name of a direct node names its agent's project already.
    let name = if node.project == DEFAULT_PROJECT || node.kind == "direct" {
        node.node.clone()
    } else {
        format!("{}:{}", node.project, node.node)
    };
    let name = cut(&visible(&name), NODE_COLUMNS);
    [name, kind.to_owned(), node.agents.to_string(), state]
}

fn worker(worker: &Worker) -> [String; 5] {
    let Worker {
        name,
        parent,
        cli,
        seconds,
        state,
    } = worker;
    let cli = cli.as_deref().unwrap_or("-");
    [
        name.clone(),
        state.clone(),
        duration(*seconds),
        visible(cli).into_owned(),
        parent.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::cli::discover::{Source, Way};
    use crate::cli::place::Place;

    fn health(json: &str) -> Health {
        serde_json::from_str(json).expect("what a relay says")
    }

    #[test]
    fn everything_is_told_in_80_columns() {
        let long = "x".repeat(32);
        let health = health(&format!(
            r#"{{"name": "relay", "version": "0.1.0", "started_at": "some day", "pid": 4194304, "uptime_seconds": 7500,
            "roles": [
                {{"role": "pm", "unread": 2, "held": 3, "is_held": true, "oldest_seconds": 59, "in_doubt": 0}},
                {{"role": "{long}", "unread": 10000, "oldest_seconds": 86399, "in_doubt": 10000}},
                {{"role": "user", "unread": 0, "oldest_seconds": null, "in_doubt": 1}}
            ],
            "connections": [
                {{"session": 1, "role": "pm", "person": false, "transport": "sse", "waits": [{{"for": "pm", "seconds_left": 280}}]}},
                {{"session": 23, "role": null, "person": false, "transport": "http", "waits": []}},
                {{"session": 26, "role": "pm", "person": false, "transport": "hooks", "waits": [], "program": {{"activity": "idle", "can_be_woken": true}}}},
                {{"session": 27, "role": "pm", "person": false, "transport": "hooks", "waits": [], "program": {{"activity": "busy", "can_be_woken": false}}}},
                {{"session": 28, "role": "pm", "person": false, "transport": "hooks", "waits": [], "program": {{"activity": "asks", "can_be_woken": true}}}},
                {{"session": 24, "role": null, "person": true, "transport": "http", "waits": [{{"for": "user", "seconds_left": 5}}]}},
                {{"session": 25, "role": null, "person": false, "transport": "sse", "waits": [
                    {{"for": "{long}", "seconds_left": 30}}, {{"for": "pm", "seconds_left": 90061}}]}}
            ],
            "nodes": [
                {{"node": "builder", "project": "web", "kind": "fleet", "live": true, "agents": 12, "failing": 0, "dead_letters": 0}},
                {{"node": "direct-agt_pm", "project": "default", "kind": "direct", "live": false, "agents": 1, "failing": 0, "dead_letters": 0}},
                {{"node": "hook", "project": "default", "kind": "http_push", "live": null, "agents": 1, "failing": 0, "dead_letters": 0}},
                {{"node": "gone", "project": "default", "kind": "http_push", "live": null, "agents": 1, "failing": 1, "dead_letters": 2}},
                {{"node": "{long}", "project": "{long}", "kind": "fleet", "live": true, "agents": 1, "failing": 0, "dead_letters": 0}},
                {{"node": "h\u200bk", "project": "default", "kind": "fleet", "live": true, "agents": 1, "failing": 0, "dead_letters": 0}}
            ],
            "workers": [
                {{"worker": 2, "name": "w1", "parent": "user", "cli": "claude", "spawned_at": "some day", "seconds": 7500, "state": "ready"}},
                {{"worker": 3, "name": "web:{long}", "parent": "{long}", "cli": "c\u200bx", "spawned_at": "some day", "seconds": 3, "state": "starting"}}
            ]}}"#
        ));
        let expected = format!(
            "relay 0.1.0 on 127.0.0.1:7331, pid 4194304\n\
             found by its port\n\
             since some day, for 2 h 5 min\n\
             \n\
             role                              unread     oldest       in doubt\n\
             pm (held)                         2, 3 held  59 s         0\n\
             {long}  10000      23 h 59 min  10000\n\
             user                              0          -            1\n\
             \n\
             session  over   role  state\n\
             1        sse    pm    waits, 4 min left\n\
             23       http   any   open\n\
             26       hooks  pm    idle, can be woken\n\
             27       hooks  pm    busy\n\
             28       hooks  pm    asks its person\n\
             24       http   user  waits, 5 s left\n\
             25       sse    any   waits for {long}, 30 s left; wa…\n\
             \n\
             node                          kind      agents  state\n\
             web:builder                   fleet     12      connected\n\
             direct-agt_pm                 direct    1       not connected\n\
             hook                          web hook  1       pushed to\n\
             gone                          web hook  1       fails, 2 given up: relay redrive\n\
             {}…  fleet     1       connected\n\
             h\\u{{200b}}k                    fleet     1       connected\n\
             \n\
             worker                                state     age        cli         works for\n\
             w1                                    ready     2 h 5 min  claude      user\n\
             web:{long}  starting  3 s        c\\u{{200b}}x  {}…\n\
             what one has written: relay logs NAME\n",
            &long[..27],
            &long[..8]
        );
        let text = text(&health, &Found::at(Place::default()));
        assert_eq!(text, expected);
    }

    #[test]
    fn a_node_says_how_many_deliveries_were_given_up_from_the_first_on() {
        let state = |dead: usize| {
            let json = format!(
                r#"{{"node": "hook", "project": "default", "kind": "http_push", "live": null, "agents": 1, "failing": 0, "dead_letters": {dead}}}"#
            );
            let [_, _, _, state] = node(&serde_json::from_str(&json).expect("a node"));
            state
        };
        assert_eq!(
            [0, 1, 12].map(state),
            [
                "pushed to",
                "pushed to, 1 given up: relay redrive",
                "pushed to, 12 given up: relay redrive"
            ]
        );
    }

    #[test]
    fn a_relay_without_sessions_says_so() {
        let health = health(r#"{"name": "relay", "version": "0.1.0", "started_at": "some day"}"#);
        let place: std::net::SocketAddr = "[::1]:80".parse().expect("an address");
        assert_eq!(
            text(&health, &Found::at(place.into())),
            "relay 0.1.0 on [::1]:80\nfound by its port\nsince some day, for 0 s\n\nrole  unread  oldest  in doubt\n\nno sessions\n"
        );
    }

    #[test]
    fn a_socket_is_told_in_one_piece_with_how_it_was_found() {
        let health = health(r#"{"name": "relay", "version": "0.1.0", "started_at": "some day"}"#);
        let socket = PathBuf::from("/".to_owned() + &"x".repeat(100));
        let found = Found {
            way: Way::Unix(socket.clone()),
            source: Source::Scan,
            project: None,
            of_file: None,
        };
        let head = format!(
            "relay 0.1.0 on {}\nfound by its socket, the only live one\nsince",
            socket.display()
        );
        assert!(text(&health, &found).starts_with(&head));
        let told = with_found(r#"{"name": "relay"}"#, &found);
        let expected = format!(
            "{{\"found\":{{\"at\":\"{}\",\"source\":\"scan\"}},\"name\":\"relay\"}}\n",
            socket.display()
        );
        assert_eq!(told, Some(expected));
    }

    #[test]
    fn that_all_messages_are_held_is_told_before_the_roles() {
        let health = health(
            r#"{"name": "relay", "version": "0.1.0", "started_at": "some day", "holds_all": true, "uptime_seconds": 183600,
            "roles": [{"role": "pm", "unread": 0, "oldest_seconds": null, "in_doubt": 0}]}"#,
        );
        let text = text(&health, &Found::at(Place::default()));
        let expected = "\nsince some day, for 2 d 3 h\n\nall messages are held: relay hold\n\nrole  unread";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn the_project_of_a_direct_node_is_in_its_name() {
        for (kind, named) in [("direct", "d-web"), ("fleet", "web:d-web")] {
            let json = format!(
                r#"{{"node": "d-web", "project": "web", "kind": "{kind}", "live": true, "agents": 1, "failing": 0, "dead_letters": 0}}"#
            );
            let [name, ..] = node(&serde_json::from_str(&json).expect("a node"));
            assert_eq!(name, named);
        }
    }

    #[test]
    fn a_time_is_told_in_its_two_greatest_units() {
        for (seconds, told) in [
            (59, "59 s"),
            (60, "1 min"),
            (3_599, "59 min"),
            (3_600, "1 h 0 min"),
            (86_399, "23 h 59 min"),
            (86_400, "1 d 0 h"),
            (183_600, "2 d 3 h"),
        ] {
            assert_eq!(duration(seconds), told);
        }
    }
}
