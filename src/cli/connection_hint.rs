//! `relay connection-hint`: one line on how Claude Code gets to relay in a project, or nothing when it does already.
//!
//! start.sh shows it. It reads what `claude mcp add` and a project's `.mcp.json` write, as Claude Code does: a server of
//! the local scope hides one of the same name of the project, which hides the user's, and `${NAME}` or
//! `${NAME:-default}` stands for a variable. It must not ask relay, nor change a file.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use clap::Args;
use hyper::Uri;

use super::install::editors::{Id, SHELL_AGENT, Transport};
use super::install::json::Json;
use super::install::said::Said;
use super::install::scopes::{self, Scope};
use super::place::DEFAULT_PORT;

/// Say how Claude Code gets to relay in a project, unless it does already.
#[derive(Debug, Args)]
pub struct ConnectionHint {
    /// The port that relay listens on.
    #[arg(long, default_value_t = DEFAULT_PORT, value_parser = super::port)]
    port: u16,
    /// The address that relay listens on.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = super::serve::host)]
    host: IpAddr,
    /// The directory that the agents work in.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    project: PathBuf,
}

/// Writes the hint to stdout.
///
/// # Errors
///
/// When stdout cannot be written to, or the project is no directory.
pub fn run(args: ConnectionHint) -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "which variables count is said by the files that are read"
    )]
    let variable = |name: &str| std::env::var(name).ok();
    let relay = Relay {
        url: super::url(args.host, args.port),
        port: args.port,
        program: super::ourselves(),
        wants_token: variable("RELAY_TOKEN").is_some_and(|token| !token.is_empty()),
    };
    let servers = known_servers(&args.project.canonicalize()?, variable);
    if let Some(hint) = hint(&servers, &relay, &variable) {
        writeln!(io::stdout(), "{hint}")?;
    }
    Ok(())
}

/// The relay that is to be reached.
struct Relay {
    url: String,
    port: u16,
    /// The word by which a shell finds it.
    program: String,
    wants_token: bool,
}

impl Relay {
    /// Its address as an installation writes it: by the agent in it relay's address is known at each port.
    fn address(&self) -> String {
        format!("{}/sse?agent={SHELL_AGENT}", self.url)
    }

    /// How a project that has none is connected to it: with hooks, where `relay install` can lead there.
    fn connect(&self) -> String {
        if self.wants_token || self.url != format!("http://localhost:{}", self.port) {
            return add("", "relay", self);
        }
        let port = if self.port == DEFAULT_PORT {
            String::new()
        } else {
            format!(" --port {}", self.port)
        };
        format!("{} install --editor claude{port}", self.program)
    }
}

/// The servers that Claude Code knows in a project, by name.
type Servers = BTreeMap<String, (Scope, Server)>;

/// One server.
#[derive(Debug, Clone)]
struct Server(Json);

/// Finds the servers that hide others of the same name.
fn known_servers(project: &Path, variable: impl Fn(&str) -> Option<String>) -> Servers {
    let folder = variable("CLAUDE_CONFIG_DIR").filter(|folder| !folder.is_empty());
    let settings = folder.or_else(|| variable("HOME")).unwrap_or_default();
    let known = scopes::servers(project, &Path::new(&settings).join(".claude.json"));
    let servers = known.into_iter();
    servers
        .map(|known| (known.name, (known.scope, Server(known.entry))))
        .collect()
}

/// What is to be done so that Claude Code reaches the relay; nothing if it does.
fn hint(servers: &Servers, relay: &Relay, variable: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut lacking_token = None;
    for (name, (scope, server)) in servers {
        match server.port(&relay.url, variable) {
            Some(port) if port == relay.port => {}
            Some(_) | None => continue,
        }
        if !relay.wants_token || server.sends_token() {
            return None;
        }
        lacking_token = Some((name, *scope));
    }
    if let Some((name, scope)) = lacking_token {
        return Some(format!(
            "{} has relay, but sends no token; {}",
            place(scope),
            change(scope, name, relay)
        ));
    }
    let Some((scope, server)) = servers.get("relay") else {
        return Some(format!(
            "Claude Code has no relay in this project; connect it once, in its top directory, with: {}",
            relay.connect()
        ));
    };
    let port = relay.port;
    let url = server.text("url");
    Some(if url.contains("${RELAY_PORT") {
        format!(
            "{} takes relay's port from RELAY_PORT; start each agent with RELAY_PORT={port}",
            place(*scope)
        )
    } else if url.is_empty() {
        format!(
            "{} starts relay mcp for another port; add to its arguments: --port {port}",
            place(*scope)
        )
    } else if *scope == Scope::Project {
        format!(
            "{} has relay on another port; change its url to {}",
            place(*scope),
            relay.address()
        )
    } else {
        format!(
            "{} has relay at {url}; {}",
            place(*scope),
            change(*scope, "relay", relay)
        )
    })
}

fn place(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "your user scope of Claude Code",
        Scope::Project => "this project's .mcp.json",
        Scope::Local => "your local scope of Claude Code",
    }
}

/// How an entry is made to lead to the relay.
fn change(scope: Scope, name: &str, relay: &Relay) -> String {
    let scope = match scope {
        Scope::User => "user",
        Scope::Local => "local",
        Scope::Project => {
            return "give its entry \"headers\": {\"Authorization\": \"Bearer ${RELAY_TOKEN}\"}".to_owned();
        }
    };
    let add = add(&format!("-s {scope} "), name, relay);
    format!("change that with: claude mcp remove -s {scope} {name} && {add}")
}

fn add(options: &str, name: &str, relay: &Relay) -> String {
    let header = if relay.wants_token {
        " --header 'Authorization: Bearer ${RELAY_TOKEN}'"
    } else {
        ""
    };
    format!(
        "claude mcp add {options}--transport sse {name} '{}'{header}",
        relay.address()
    )
}

impl Server {
    /// A member of it; one that is missing is empty.
    fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Json::as_text).unwrap_or_default()
    }

    /// The port at which it looks for a relay on the same host as `relay`; none if it looks for something else.
    fn port(&self, relay: &str, variable: &impl Fn(&str) -> Option<String>) -> Option<u16> {
        if self.text("url").is_empty() {
            return self.bridge_port(variable);
        }
        let own: Uri = expanded(self.text("url"), variable).parse().ok()?;
        let relay: Uri = relay.parse().ok()?;
        let (own_host, relay_host) = (own.host()?, relay.host()?);
        let loopback = ["localhost", "127.0.0.1", "[::1]"];
        let same = own_host == relay_host || loopback.contains(&own_host) && loopback.contains(&relay_host);
        same.then(|| own.port_u16().unwrap_or(80))
    }

    /// The port that `relay mcp` is started for.
    fn bridge_port(&self, variable: &impl Fn(&str) -> Option<String>) -> Option<u16> {
        let entry = all_expanded(&self.0, variable);
        let said = Said::of(&entry, Id::Claude);
        if said.transport != Some(Transport::Stdio) {
            return None;
        }
        let own = || Some(entry.get("env")?.get("RELAY_PORT")?.as_text()?.to_owned());
        let named = || own().or_else(|| variable("RELAY_PORT"));
        said.port
            .or_else(|| named().map_or(Some(DEFAULT_PORT), |port| port.parse().ok()))
    }

    /// The bridge takes the token from the environment.
    fn sends_token(&self) -> bool {
        let named = |(name, _): &(String, Json)| name.eq_ignore_ascii_case("authorization");
        let sends = matches!(self.0.get("headers"), Some(Json::Object(headers)) if headers.iter().any(named));
        self.text("url").is_empty() || sends
    }
}

/// Puts in what the variables in all texts stand for.
fn all_expanded(entry: &Json, variable: &impl Fn(&str) -> Option<String>) -> Json {
    match entry {
        Json::Plain(_) => entry.clone(),
        Json::Text(text) => Json::Text(expanded(text, variable)),
        Json::List(list) => Json::List(list.iter().map(|item| all_expanded(item, variable)).collect()),
        Json::Object(members) => {
            let member = |(key, value): &(String, Json)| (key.clone(), all_expanded(value, variable));
            Json::Object(members.iter().map(member).collect())
        }
    }
}

/// Puts in what `${NAME}` and `${NAME:-default}` stand for; a variable without either is left as it is.
fn expanded(text: &str, variable: &impl Fn(&str) -> Option<String>) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("${") {
        let Some((inside, after)) = inside.split_once('}') else {
            break;
        };
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (inside, None),
        };
        whole.push_str(before);
        let value = variable(name).or(default);
        whole.push_str(&value.unwrap_or_else(|| format!("${{{inside}}}")));
        rest = after;
    }
    whole + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::install::json;
    use serde_json::{Value, json};

    /// The hint for a relay on port 4000, with servers given as scope, name and entry.
    fn hint_for(servers: &[(Scope, &str, Value)], variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let relay = Relay {
            url: "http://localhost:4000".to_owned(),
            port: 4000,
            program: "relay".to_owned(),
            wants_token: variable("RELAY_TOKEN").is_some(),
        };
        let servers = servers
            .iter()
            .map(|(scope, name, entry)| {
                let entry = json::get(&entry.to_string(), &[]).expect("it is JSON");
                ((*name).to_owned(), (*scope, Server(entry.expect("an entry"))))
            })
            .collect();
        hint(&servers, &relay, &variable)
    }

    #[test]
    fn a_relay_that_is_known_by_any_name_in_any_scope_is_not_hinted_at() {
        for entry in [
            json!({"type": "sse", "url": "http://localhost:4000/sse"}),
            json!({"type": "http", "url": "http://127.0.0.1:4000/mcp?agent=pm"}),
            json!({"type": "sse", "url": "http://[::1]:4000/sse"}),
            json!({"type": "sse", "url": "http://localhost:${PORT:-4000}/sse?agent=${RELAY_AGENT:-}"}),
            json!({"command": "relay", "args": ["mcp", "--port", "4000"]}),
            json!({"command": "/opt/relay", "args": ["mcp", "--agent=pm", "--port=${PORT:-4000}"]}),
            json!({"command": "relay", "args": ["mcp"], "env": {"RELAY_PORT": "4000"}}),
            json!({"command": "/opt/relay-x86_64-unknown-linux-musl", "args": ["mcp", "--port", "${PORT:-4000}"]}),
            json!({"command": "npx", "args": ["-y", "relay-bus", "mcp", "--port=4000"]}),
        ] {
            for scope in [Scope::User, Scope::Project, Scope::Local] {
                assert_eq!(hint_for(&[(scope, "bus", entry.clone())], &[]), None, "{entry}");
            }
        }
    }

    #[test]
    fn a_project_without_relay_is_told_how_to_connect() {
        let told = |how: &str| {
            Some(format!(
                "Claude Code has no relay in this project; connect it once, in its top directory, with: {how}"
            ))
        };
        let connect = told("relay install --editor claude --port 4000");
        assert_eq!(hint_for(&[], &[]), connect);
        let other = json!({"type": "sse", "url": "http://localhost:7331/sse"});
        let elsewhere = json!({"type": "sse", "url": "http://example.com:4000/sse"});
        let no_relay = json!({"command": "npx", "args": ["mcp", "--port", "4000"]});
        let others = [
            (Scope::User, "a", other),
            (Scope::User, "b", elsewhere),
            (Scope::User, "c", no_relay),
        ];
        assert_eq!(hint_for(&others, &[]), connect);
        let with_token = told(
            "claude mcp add --transport sse relay 'http://localhost:4000/sse?agent=${RELAY_AGENT:-}' --header 'Authorization: Bearer ${RELAY_TOKEN}'",
        );
        let token = [("RELAY_TOKEN", "0123456789abcdef")];
        assert_eq!(hint_for(&[], &token), with_token);
    }

    #[test]
    fn installing_leads_to_this_machine_alone() {
        for (url, port, how) in [
            ("http://localhost:7331", 7331, "relay install --editor claude"),
            (
                "http://10.0.0.1:7331",
                7331,
                "claude mcp add --transport sse relay 'http://10.0.0.1:7331/sse?agent=${RELAY_AGENT:-}'",
            ),
        ] {
            let relay = Relay {
                url: url.to_owned(),
                port,
                program: "relay".to_owned(),
                wants_token: false,
            };
            assert_eq!(relay.connect(), how);
        }
    }

    #[test]
    fn the_port_that_an_entry_gives_its_bridge_counts_for_more_than_the_one_around() {
        let bridge = json!({"command": "relay", "args": ["mcp"]});
        let mut with_port = bridge.clone();
        with_port["env"] = json!({"RELAY_PORT": "4000"});
        for (entry, around) in [(with_port, "5000"), (bridge, "4000")] {
            let around = [("RELAY_PORT", around)];
            assert_eq!(hint_for(&[(Scope::User, "bus", entry)], &around), None);
        }
    }

    #[test]
    fn a_relay_elsewhere_is_told_the_address() {
        let add = "--transport sse relay 'http://localhost:4000/sse?agent=${RELAY_AGENT:-}'";
        for (scope, entry, told) in [
            (
                Scope::Project,
                json!({"type": "sse", "url": "http://localhost:7331/sse"}),
                "this project's .mcp.json has relay on another port; change its url to http://localhost:4000/sse?agent=${RELAY_AGENT:-}".to_owned(),
            ),
            (
                Scope::Local,
                json!({"type": "sse", "url": "http://localhost:7331/sse"}),
                format!(
                    "your local scope of Claude Code has relay at http://localhost:7331/sse; \
                     change that with: claude mcp remove -s local relay && claude mcp add -s local {add}"
                ),
            ),
            (
                Scope::User,
                json!({"type": "http", "url": "http://localhost:7331/mcp"}),
                format!(
                    "your user scope of Claude Code has relay at http://localhost:7331/mcp; \
                     change that with: claude mcp remove -s user relay && claude mcp add -s user {add}"
                ),
            ),
            (
                Scope::Project,
                json!({"type": "sse", "url": "http://localhost:${RELAY_PORT:-7331}/sse"}),
                "this project's .mcp.json takes relay's port from RELAY_PORT; start each agent with RELAY_PORT=4000".to_owned(),
            ),
            (
                Scope::Local,
                json!({"command": "relay", "args": ["mcp"]}),
                "your local scope of Claude Code starts relay mcp for another port; add to its arguments: --port 4000".to_owned(),
            ),
        ] {
            assert_eq!(hint_for(&[(scope, "relay", entry)], &[]), Some(told));
        }
    }

    #[test]
    fn an_entry_that_sends_no_token_is_told_the_header() {
        let token = [("RELAY_TOKEN", "0123456789abcdef")];
        let url = "http://localhost:4000/sse";
        let bare = json!({"type": "sse", "url": url});
        assert_eq!(
            hint_for(&[(Scope::Project, "bus", bare.clone())], &token).as_deref(),
            Some(
                "this project's .mcp.json has relay, but sends no token; \
                 give its entry \"headers\": {\"Authorization\": \"Bearer ${RELAY_TOKEN}\"}"
            )
        );
        assert_eq!(
            hint_for(&[(Scope::Local, "bus", bare)], &token).as_deref(),
            Some(
                "your local scope of Claude Code has relay, but sends no token; change that with: \
                 claude mcp remove -s local bus && claude mcp add -s local --transport sse bus \
                 'http://localhost:4000/sse?agent=${RELAY_AGENT:-}' --header 'Authorization: Bearer ${RELAY_TOKEN}'"
            )
        );
        for good in [
            json!({"type": "sse", "url": url, "headers": {"authorization": "Bearer ${RELAY_TOKEN}"}}),
            json!({"command": "relay", "args": ["mcp", "--port=4000"]}),
        ] {
            assert_eq!(hint_for(&[(Scope::User, "relay", good)], &token), None);
        }
    }

    #[test]
    fn what_is_not_closed_or_not_set_stays_as_it_is() {
        let variable = |name: &str| (name == "SET").then(|| "1".to_owned());
        for (text, expected) in [
            ("a${SET}b${SET:-2}", "a1b1"),
            ("${UNSET:-2}${UNSET:-}${UNSET}", "2${UNSET}"),
            ("${SET", "${SET"),
            ("$SET", "$SET"),
        ] {
            assert_eq!(expanded(text, &variable), expected);
        }
    }

    mod files {
        use super::*;
        use std::fs;

        fn write(path: &Path, servers: &Value) {
            fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a folder");
            fs::write(path, servers.to_string()).expect("a file");
        }

        fn server(number: u16) -> Value {
            json!({"relay": {"type": "sse", "url": format!("http://localhost:{number}/sse")}})
        }

        fn relay_of(project: &Path, settings: &str, home: &Path) -> Option<(Scope, String)> {
            let variable = |name: &str| (name == settings).then(|| home.to_string_lossy().into_owned());
            let mut servers = known_servers(project, variable);
            let relay = servers.remove("relay");
            relay.map(|(scope, server)| (scope, server.text("url").to_owned()))
        }

        #[test]
        fn the_local_scope_hides_the_project_and_that_the_user() {
            let folder = tempfile::tempdir().expect("a folder");
            let root = folder.path().canonicalize().expect("it is there");
            let (home, project) = (root.join("home"), root.join("up/project"));
            fs::create_dir_all(&project).expect("a folder");
            let relay = |settings| relay_of(&project, settings, &home);
            let url = |number| format!("http://localhost:{number}/sse");

            assert_eq!(relay("HOME"), None);
            write(&home.join(".claude.json"), &json!({"mcpServers": server(1)}));
            assert_eq!(relay("HOME"), Some((Scope::User, url(1))));
            write(&root.join("up/.mcp.json"), &json!({"mcpServers": server(2)}));
            assert_eq!(relay("HOME"), Some((Scope::Project, url(2))));
            write(&project.join(".mcp.json"), &json!({"mcpServers": server(3)}));
            assert_eq!(relay("HOME"), Some((Scope::Project, url(3))));
            let local = json!({
                "mcpServers": server(1),
                "projects": {project.to_string_lossy().into_owned(): {"mcpServers": server(4)}}
            });
            write(&home.join(".claude.json"), &local);
            for settings in ["HOME", "CLAUDE_CONFIG_DIR"] {
                assert_eq!(relay(settings), Some((Scope::Local, url(4))));
            }
        }

        #[test]
        fn a_half_of_a_character_hides_nothing() {
            let folder = tempfile::tempdir().expect("a folder");
            let home = folder.path().canonicalize().expect("it is there");
            let servers = json!({"mcpServers": server(1)}).to_string();
            let text = servers.replacen('{', r#"{"cut": "\ud83d", "#, 1);
            fs::write(home.join(".claude.json"), text).expect("a file");
            let url = "http://localhost:1/sse".to_owned();
            assert_eq!(relay_of(&home, "HOME", &home), Some((Scope::User, url)));
        }

        #[test]
        fn a_broken_file_holds_nothing() {
            let folder = tempfile::tempdir().expect("a folder");
            let project = folder.path().canonicalize().expect("it is there");
            for broken in [
                "",
                "{",
                "[]",
                "{\"mcpServers\": [1]}",
                "{\"mcpServers\": {\"relay\": 1}}",
            ] {
                fs::write(project.join(".mcp.json"), broken).expect("a file");
                assert_eq!(relay_of(&project, "HOME", &project), None, "{broken}");
            }
        }

        #[test]
        fn the_folder_that_is_named_counts_for_more_than_the_home_unless_that_is_empty() {
            let folder = tempfile::tempdir().expect("a folder");
            let root = folder.path().canonicalize().expect("it is there");
            let [home, named] = ["home", "named"].map(|name| root.join(name));
            write(&home.join(".claude.json"), &json!({"mcpServers": server(1)}));
            write(&named.join(".claude.json"), &json!({"mcpServers": server(2)}));
            for (config, number) in [(named.to_str().expect("text"), 2), ("", 1)] {
                let variable = |name: &str| match name {
                    "CLAUDE_CONFIG_DIR" => Some(config.to_owned()),
                    "HOME" => Some(home.to_string_lossy().into_owned()),
                    _ => None,
                };
                let servers = known_servers(&root, variable);
                let url = format!("http://localhost:{number}/sse");
                assert_eq!(servers["relay"].1.text("url"), url, "{config}");
            }
        }
    }

    #[test]
    fn of_several_entries_one_that_sends_the_token_is_enough() {
        let token = [("RELAY_TOKEN", "0123456789abcdef")];
        let (here, elsewhere) = ("http://localhost:4000/sse", "http://localhost:7331/sse");
        let headers = json!({"Authorization": "Bearer ${RELAY_TOKEN}"});
        let all = [
            (Scope::User, "a", json!({"type": "sse", "url": here})),
            (Scope::User, "b", json!({"type": "sse", "url": elsewhere})),
            (
                Scope::User,
                "c",
                json!({"type": "sse", "url": here, "headers": headers}),
            ),
        ];
        assert_eq!(hint_for(&all, &token), None);
    }

    #[test]
    fn an_entry_leads_to_the_port_that_it_has_on_the_relays_own_host() {
        let nothing = |_: &str| None::<String>;
        let port = |entry: &Value, relay: &str| {
            let entry = json::get(&entry.to_string(), &[]).expect("it is JSON");
            Server(entry.expect("an entry")).port(relay, &nothing)
        };
        for (url, relay, expected) in [
            ("http://10.0.0.1:4000/sse", "http://10.0.0.1:4000", Some(4000)),
            ("http://10.0.0.2:4000/sse", "http://10.0.0.1:4000", None),
            ("http://localhost:4000/sse", "http://10.0.0.1:4000", None),
            ("http://localhost/sse", "http://localhost:7331", Some(80)),
        ] {
            let entry = json!({"type": "sse", "url": url});
            assert_eq!(port(&entry, relay), expected, "{url}");
        }
        let bridge = json!({"command": "relay", "args": ["mcp"]});
        assert_eq!(port(&bridge, "http://localhost:7331"), Some(DEFAULT_PORT));
    }
}
