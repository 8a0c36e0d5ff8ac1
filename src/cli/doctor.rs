//! `relay doctor`: which agent CLIs and editors are there and connected, and what to do about those that are not well. It changes nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum as _;
use futures_util::future::join_all;
use serde::Serialize;
use tokio::process::Command;
use tokio::time::timeout;

use super::client::{ClientError, health_of};
use super::discover::{Found, Way, discover_here};
use super::install::InstallError;
use super::install::editors::{self, Directories, EDITORS, Editor, Format, Id};
use super::install::file;
use super::install::json::{Json, Step};
use super::install::parts::Parts;
use super::install::plan::{self, Target};
use super::messages::write_stdout;
use super::place::{DEFAULT_PORT, Place};
use super::{End, Failure, block_on, install, ourselves, own_program};
use crate::server::Token;
use crate::terminal::visible_lines;

/// How long a program may take to tell its version.
const VERSION_PATIENCE: Duration = Duration::from_secs(5);

/// `relay doctor`.
#[derive(Debug, clap::Args)]
pub struct Doctor {
    /// Print the same as JSON.
    #[arg(long)]
    json: bool,

    /// The secret that the relay asks for.
    #[arg(long, env = "RELAY_TOKEN", hide_env_values = true)]
    token: Option<Token>,
}

/// Why nothing was told.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// It is not known where the files are.
    #[error(transparent)]
    Surroundings(#[from] InstallError),
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
}

impl From<DoctorError> for Failure {
    fn from(error: DoctorError) -> Self {
        Self::error(format!("relay doctor: {error}"))
    }
}

/// Looks and tells.
pub fn run(args: &Doctor) -> Result<End, Failure> {
    Ok(look(args)?)
}

fn look(args: &Doctor) -> Result<End, DoctorError> {
    let (directories, _) = install::surroundings()?;
    let reports: Result<Vec<Report>, DoctorError> = block_on(async {
        let looked = EDITORS
            .iter()
            .map(|editor| report(editor, &directories, args.token.as_ref()));
        Ok(join_all(looked).await)
    });
    let reports = reports?;
    let text = if args.json {
        let told = serde_json::json!({ "editors": reports });
        format!("{told}\n")
    } else {
        visible_lines(&text(&reports))
    };
    write_stdout(&text)?;
    let configured: Vec<&Report> = reports.iter().filter(|report| report.is_concerned()).collect();
    Ok(if configured.is_empty() {
        End::Nothing
    } else if configured.iter().all(|report| report.to_do.is_empty()) {
        End::Done
    } else {
        End::Unwell
    })
}

/// What is true of an editor.
#[derive(Debug, Serialize)]
struct Report {
    /// On the command line.
    editor: String,
    /// For a person.
    name: &'static str,
    /// The program, if it is there.
    found: Option<Program>,
    /// Where relay stands among its servers.
    configured: Vec<Configured>,
    /// Of an editor that has none, nothing.
    hooks: Option<Hooks>,
    /// Whether the CLI runs the hooks; nothing where it does not ask, or where there are none.
    trusted: Option<bool>,
    /// The files that cannot be read, with the reason.
    broken: Vec<String>,
    /// What is to be done about what is not well.
    to_do: Vec<String>,
}

impl Report {
    /// Tells whether something of relay's is there, or something that cannot be looked into.
    fn is_concerned(&self) -> bool {
        let has_hooks = self.hooks.is_some_and(|hooks| hooks != Hooks::Missing);
        !self.configured.is_empty() || has_hooks || !self.broken.is_empty()
    }
}

/// A program on `PATH`.
#[derive(Debug, Serialize)]
struct Program {
    program: PathBuf,
    /// As it tells it; nothing if it does not in time.
    version: Option<String>,
}

/// An entry for relay among the servers of an editor.
#[derive(Debug, Serialize)]
struct Configured {
    file: PathBuf,
    /// The address, or the command.
    leads_to: String,
    /// The relay's version, if it answers there.
    reachable: Option<String>,
    /// Why not.
    error: Option<String>,
    #[serde(skip)]
    port: Option<u16>,
}

/// What is true of relay's hooks in an editor's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Hooks {
    /// They are what `relay install` would write now.
    Current,
    /// There are none.
    Missing,
    /// They are something else.
    Drifted,
}

impl Hooks {
    fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Missing => "missing",
            Self::Drifted => "drifted",
        }
    }
}

/// A file that was looked into.
struct Seen {
    target: Target,
    is_global: bool,
    text: String,
    parts: Parts,
}

async fn report(editor: &'static Editor, directories: &Directories, token: Option<&Token>) -> Report {
    let (mut seen, mut broken) = (Vec::new(), Vec::new());
    for (target, is_global) in targets(editor, directories) {
        match see(target, is_global) {
            Ok(found) => seen.extend(found),
            Err(error) => broken.push(error),
        }
    }
    let servers = seen
        .iter()
        .filter_map(|seen| Some((seen, seen.parts.server.as_ref()?)));
    let asked = servers.map(|(seen, server)| configured(seen, server, token));
    let (found, configured) = tokio::join!(found(editor), join_all(asked));
    let mut report = Report {
        editor: id(editor),
        name: editor.name,
        found,
        configured,
        hooks: None,
        trusted: None,
        broken,
        to_do: Vec::new(),
    };
    report.hooks = editor
        .hooks
        .as_ref()
        .map(|hooks| state(hooks, &seen, &report.configured));
    report.trusted = (editor.id == Id::Codex).then(|| trusted(&seen)).flatten();
    report.to_do = to_do(&report, editor, &seen);
    report
}

/// The files of an editor for the project and for the user, each once.
fn targets(editor: &'static Editor, directories: &Directories) -> Vec<(Target, bool)> {
    let mut targets: Vec<(Target, bool)> = Vec::new();
    for is_global in [false, true] {
        for target in plan::targets(editor, directories, is_global) {
            if targets.iter().all(|(known, _)| known.path != target.path) {
                targets.push((target, is_global));
            }
        }
    }
    targets
}

/// Looks into a file, if it is there.
fn see(target: Target, is_global: bool) -> Result<Option<Seen>, String> {
    let Some(whole) = file::read(&target.path).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let parts = target.content.parts(&whole.text);
    let parts = parts.map_err(|flaw| format!("{}: {flaw}", target.path.display()))?;
    Ok(Some(Seen {
        target,
        is_global,
        text: whole.text,
        parts,
    }))
}

async fn found(editor: &Editor) -> Option<Program> {
    let program = editors::program(editor.program, std::env::var_os("PATH"))?;
    let mut command = Command::new(&program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(VERSION_PATIENCE, command.output()).await;
    let version = match output {
        Ok(Ok(output)) if output.status.success() => String::from_utf8(output.stdout).ok(),
        Ok(Ok(_) | Err(_)) | Err(_) => None,
    };
    let version = version.and_then(|text| Some(text.lines().next()?.trim().to_owned()));
    let version = version.filter(|version| !version.is_empty());
    Some(Program { program, version })
}

/// Asks the relay to which an entry leads.
async fn configured(seen: &Seen, server: &Json, token: Option<&Token>) -> Configured {
    let file = seen.target.path.clone();
    let (leads_to, place) = way(server);
    let answer = match &place {
        Ok(place) => ask(place.clone(), token).await,
        Err(reason) => Err(reason.clone()),
    };
    let (reachable, error) = match answer {
        Ok(version) => (Some(version), None),
        Err(error) => (None, Some(error)),
    };
    let port = place
        .ok()
        .map(|place| place.map_or(DEFAULT_PORT, |place| place.port));
    Configured {
        file,
        leads_to,
        reachable,
        error,
        port,
    }
}

/// Returns where an entry leads, in words and as a place; none is for the bridge to find.
fn way(server: &Json) -> (String, Result<Option<Place>, String>) {
    let address = ["url", "httpUrl", "serverUrl"]
        .iter()
        .find_map(|key| server.get(key)?.as_text());
    if let Some(address) = address {
        let place = place(address).map(Some);
        let place =
            place.ok_or_else(|| "its address is none; accepted: http://HOST:PORT/sse or /mcp".to_owned());
        return (address.to_owned(), place);
    }
    let program = server.get("command");
    let words = |value: Option<&Json>| -> Vec<String> {
        let texts = value.and_then(Json::as_list).unwrap_or_default().iter();
        texts
            .filter_map(|word| word.as_text().map(str::to_owned))
            .collect()
    };
    let mut command: Vec<String> = program
        .and_then(Json::as_text)
        .map(str::to_owned)
        .into_iter()
        .collect();
    command.extend(words(program));
    command.extend(words(server.get("args")));
    if command.is_empty() {
        return (
            String::new(),
            Err("it names neither an address nor a command".to_owned()),
        );
    }
    let named = command.iter().skip_while(|word| *word != "--port").nth(1);
    let place = match named.map(|port| port.parse()) {
        None => Ok(None),
        Some(Ok(port)) => Ok(Some(Place {
            port,
            ..Place::default()
        })),
        Some(Err(_)) => Err("its --port is none; accepted: a number from 1 to 65535".to_owned()),
    };
    (command.join(" "), place)
}

/// Reads the host and the port of an address, whatever variables are in its query.
fn place(address: &str) -> Option<Place> {
    let address = address.split('?').next().unwrap_or_default();
    let uri: hyper::Uri = address.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(80);
    (uri.scheme_str() == Some("http")).then_some(Place { port, host })
}

/// Asks a relay for its version.
async fn ask(place: Option<Place>, token: Option<&Token>) -> Result<String, String> {
    let found = match place {
        Some(place) => Found::at(place),
        None => discover_here(None).map_err(|error| error.to_string())?,
    };
    // Where a file of the project leads is not where the person's secret is to go.
    let is_here = match &found.way {
        Way::Tcp(place) => place.is_this_machine(),
        Way::Unix(_) => true,
    };
    let health = health_of(&found, token.filter(|_| is_here).cloned()).await;
    let health = health.map(|(health, _)| health.version);
    health.map_err(|error: ClientError| error.to_string())
}

/// Compares relay's hooks with those that an installation would write for the relay that is configured.
fn state(hooks: &editors::Hooks, seen: &[Seen], configured: &[Configured]) -> Hooks {
    let with_hooks: Vec<&Seen> = seen.iter().filter(|seen| !seen.parts.hooks.is_empty()).collect();
    if with_hooks.is_empty() {
        return Hooks::Missing;
    }
    let port = configured
        .iter()
        .find_map(|configured| configured.port)
        .unwrap_or(DEFAULT_PORT);
    let wanted = Parts {
        hooks: hooks.groups(&ourselves(), port),
        ..Parts::default()
    };
    if with_hooks.iter().all(|seen| seen.parts.same_hooks(&wanted)) {
        Hooks::Current
    } else {
        Hooks::Drifted
    }
}

/// Tells whether Codex has a hash for each hook of relay's: under `hooks.state`, by the file, the event, the group's number and the
/// hook's. Nothing if there are no hooks.
fn trusted(seen: &[Seen]) -> Option<bool> {
    let hooks = seen.iter().find(|seen| !seen.parts.hooks.is_empty())?;
    let toml = seen.iter().find(|seen| {
        matches!(seen.target.editor.format, Format::Toml(_)) && seen.target.path != hooks.target.path
    });
    let state: BTreeMap<String, bool> = toml.map(|seen| hashes(&seen.text)).unwrap_or_default();
    let file = [hooks.target.path.clone(), file::target(&hooks.target.path)];
    let has = |event: &str, group: usize| {
        let matches = |key: &str| {
            let mut parts = key.rsplitn(4, ':');
            let (hook, of, name, path) = (parts.next(), parts.next(), parts.next(), parts.next());
            let plain = name.map(|name| name.replace('_', "").to_lowercase());
            hook == Some("0")
                && of.and_then(|of| of.parse().ok()) == Some(group)
                && plain.as_deref() == Some(event.to_lowercase().as_str())
                && path.is_some_and(|path| file.iter().any(|file| Path::new(path) == file))
        };
        state.iter().any(|(key, is_trusted)| *is_trusted && matches(key))
    };
    let places = hooks.parts.hooks.iter().flat_map(|(event, groups)| {
        let first = first_group(&hooks.text, event);
        (0..groups.len()).map(move |at| (event, first + at))
    });
    Some(places.into_iter().all(|(event, group)| has(event, group)))
}

/// The number of the first group of an event that is relay's: behind those of others, where it was put.
fn first_group(text: &str, event: &str) -> usize {
    let groups = install::json::get(text, &[Step::Key("hooks"), Step::Key(event)]);
    let groups = groups.ok().flatten();
    let groups = groups.as_ref().and_then(Json::as_list).unwrap_or_default();
    groups.iter().position(install::parts::is_own_group).unwrap_or(0)
}

/// Reads `hooks.state`: whether there is a hash, by the name of the hook.
fn hashes(text: &str) -> BTreeMap<String, bool> {
    let document = toml_edit::Document::parse(text);
    let document = document.ok();
    let state = document
        .as_ref()
        .and_then(|document| document.get("hooks")?.get("state")?.as_table_like());
    let state = state.into_iter().flat_map(|state| state.iter());
    state
        .map(|(key, hook)| (key.to_owned(), hook.get("trusted_hash").is_some()))
        .collect()
}

/// What is to be done, a line for each thing that is not well.
fn to_do(report: &Report, editor: &Editor, seen: &[Seen]) -> Vec<String> {
    let relay = own_program();
    let mut lines: Vec<String> = report
        .broken
        .iter()
        .map(|broken| format!("mend {broken}"))
        .collect();
    if !report.is_concerned() {
        return lines;
    }
    let is_global = seen
        .iter()
        .any(|seen| seen.is_global && !seen.parts.is_empty() && editor.servers.project.is_some());
    let port = report.configured.iter().find_map(|configured| configured.port);
    let install = |is_global: bool| {
        let connection = port
            .filter(|port| *port != DEFAULT_PORT)
            .map(|port| format!(" --port {port}"));
        let global = if is_global { " --global" } else { "" };
        format!(
            "{relay} install --editor {}{global}{}",
            id(editor),
            connection.unwrap_or_default()
        )
    };
    let in_project = seen.iter().any(|seen| !seen.is_global && !seen.parts.is_empty());
    let install = install(is_global && !in_project);
    if report.configured.is_empty() && report.broken.is_empty() {
        lines.push(format!("it has hooks but no server; connect it with: {install}"));
    }
    for configured in &report.configured {
        if let Some(error) = &configured.error {
            lines.push(format!("{}: {error}", configured.file.display()));
        }
    }
    match report.hooks {
        Some(Hooks::Missing) => lines.push(format!("put its hooks in with: {install}")),
        Some(Hooks::Drifted) => lines.push(format!("bring its hooks up to date with: {install}")),
        Some(Hooks::Current) | None => {}
    }
    if report.trusted == Some(false) {
        lines.push("start codex, and trust all hooks when it asks".to_owned());
    }
    lines
}

fn id(editor: &Editor) -> String {
    let name = editor.id.to_possible_value();
    name.map(|name| name.get_name().to_owned()).unwrap_or_default()
}

fn text(reports: &[Report]) -> String {
    let mut lines = Vec::new();
    let mut absent = Vec::new();
    for report in reports {
        let version = report.found.as_ref().map(|found| match &found.version {
            Some(version) => format!("{} ({version})", found.program.display()),
            None => found.program.display().to_string(),
        });
        if report.is_concerned() {
            lines.push(format!(
                "{}: {}",
                report.name,
                if report.to_do.is_empty() {
                    "well"
                } else {
                    "not well"
                }
            ));
            lines.push(format!(
                "  program     {}",
                version.as_deref().unwrap_or("not on PATH")
            ));
        } else if let Some(version) = version {
            let connect = format!("{} install --editor {}", own_program(), report.editor);
            lines.push(format!(
                "{}: not connected; connect it with: {connect}",
                report.name
            ));
            lines.push(format!("  program     {version}"));
        } else {
            absent.push(report.name);
            continue;
        }
        for Configured {
            file,
            leads_to,
            reachable,
            ..
        } in &report.configured
        {
            lines.push(format!("  configured  {}: {leads_to}", file.display()));
            lines.push(match reachable {
                Some(version) => format!("  reachable   yes, relay {version}"),
                None => "  reachable   no".to_owned(),
            });
        }
        if report.is_concerned() {
            lines.extend(
                report
                    .hooks
                    .map(|hooks| format!("  hooks       {}", hooks.name())),
            );
            let trusted = report.trusted.map(|is| if is { "yes" } else { "no" });
            lines.extend(trusted.map(|is| format!("  trusted     {is}")));
        }
        lines.extend(report.to_do.iter().map(|line| format!("  to do       {line}")));
    }
    if !absent.is_empty() {
        lines.push(format!("neither found nor connected: {}", absent.join(", ")));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_leads_to_a_place_or_lets_the_bridge_find_one() {
        let at = |host: &str, port| {
            Ok(Some(Place {
                port,
                host: host.to_owned(),
            }))
        };
        let text = |text: &str| Json::text(text);
        let list = |words: &[&str]| Json::List(words.iter().map(|word| text(word)).collect());
        for (entry, leads_to, place) in [
            (
                Json::object([("url", text("http://localhost:4000/sse?agent=${RELAY_AGENT:-}"))]),
                "http://localhost:4000/sse?agent=${RELAY_AGENT:-}",
                at("localhost", 4000),
            ),
            (
                Json::object([("httpUrl", text("http://[::1]:9/mcp"))]),
                "http://[::1]:9/mcp",
                at("::1", 9),
            ),
            (
                Json::object([("serverUrl", text("http://box/mcp"))]),
                "http://box/mcp",
                at("box", 80),
            ),
            (
                Json::object([
                    ("command", text("relay")),
                    ("args", list(&["mcp", "--port", "4000"])),
                ]),
                "relay mcp --port 4000",
                at("127.0.0.1", 4000),
            ),
            (
                Json::object([("command", list(&["relay", "mcp"]))]),
                "relay mcp",
                Ok(None),
            ),
            (
                Json::object([("url", text("localhost"))]),
                "localhost",
                Err("its address is none; accepted: http://HOST:PORT/sse or /mcp".to_owned()),
            ),
            (
                Json::object([]),
                "",
                Err("it names neither an address nor a command".to_owned()),
            ),
        ] {
            assert_eq!(way(&entry), (leads_to.to_owned(), place));
        }
    }
}
