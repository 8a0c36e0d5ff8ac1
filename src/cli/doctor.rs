//! `relay doctor`: which agent CLIs and editors are there and connected, and what to do about those that are not well. It changes nothing.

mod entry;
mod folder;
mod hooks;
mod off;
mod told;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum as _;
use futures_util::future::join_all;
use serde::Serialize;
use tokio::process::Command;
use tokio::time::timeout;

use self::entry::{Configured, Stands, configured};
use self::hooks::{Hooks, state, trusted};
use self::told::{text, to_do};
use super::install::InstallError;
use super::install::beside;
use super::install::directories::{self, Directories};
use super::install::editors::{EDITORS, Editor, Id};
use super::install::file;
use super::install::lasting;
use super::install::parts::Parts;
use super::install::plan::{self, Target};
use super::install::settings::{self, Stop};
use super::messages::{json_line, write_stdout};
use super::{End, Failure, block_on, install};
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
    let (directories, data) = install::surroundings().map_err(DoctorError::from)?;
    let program = lasting::program(lasting::copy(&data).as_ref());
    let reports = block_on(async {
        let looked = EDITORS
            .iter()
            .map(|editor| report(editor, &directories, &program, args.token.as_ref()));
        join_all(looked).await
    })?;
    Ok(show(args, &reports)?)
}

fn show(args: &Doctor, reports: &[Report]) -> Result<End, DoctorError> {
    let text = if args.json {
        let told = serde_json::json!({ "editors": reports });
        json_line(&told.to_string())
    } else {
        visible_lines(&text(reports))
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
    /// Whether the CLI runs the hooks, and Gemini CLI the server; nothing where it does not ask, or where there are none.
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

/// A file that was looked into.
struct Seen {
    target: Target,
    is_global: bool,
    text: String,
    parts: Parts,
}

/// What Claude Code's settings say beside relay's hooks.
#[derive(Default)]
struct Settings {
    /// The names under which it has relay's plugin, which brings hooks too.
    plugins: BTreeSet<String>,
    /// The file by which it runs no hooks.
    without_hooks: Option<PathBuf>,
    /// It asks its person before each of relay's tools.
    asks: bool,
    /// The rules by which it calls some of relay's tools not at all, or asks first.
    stops: Vec<Stop>,
}

impl Settings {
    fn of(directories: &Directories) -> Self {
        Self {
            plugins: settings::plugins(directories),
            without_hooks: settings::without_hooks(directories),
            asks: !settings::allow_tools(directories),
            stops: settings::stops(directories, false),
        }
    }
}

async fn report(
    editor: &'static Editor,
    directories: &Directories,
    program: &str,
    token: Option<&Token>,
) -> Report {
    let (mut seen, mut broken) = (Vec::new(), Vec::new());
    for (target, is_global) in targets(editor, directories) {
        match see(target, is_global) {
            Ok(found) => seen.extend(found),
            Err(error) => broken.push(error),
        }
    }
    let servers = seen.iter().filter_map(|seen| {
        let stands = if seen.is_global {
            Stands::ForAll
        } else {
            Stands::InProject
        };
        Some((&seen.target.path, stands, seen.parts.server.as_ref()?))
    });
    let own = seen.iter().find(|seen| seen.parts.server.is_some());
    let beside = beside::entries(editor, directories, own.map(|own| own.target.path.as_path()));
    let leading = beside.iter().filter(|beside| beside.leads(editor.id));
    let servers = servers.chain(leading.map(|beside| (&beside.file, Stands::Beside, &beside.entry)));
    let asked = servers.map(|(file, stands, server)| configured(file, stands, server, editor.id, token));
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
    report.hooks = state(editor, &seen, &report.configured, program);
    report.trusted = match editor.id {
        Id::Codex => trusted(&seen),
        Id::Gemini if report.is_concerned() => folder::trusted(directories, |name| std::env::var_os(name)),
        Id::Gemini | Id::Claude | Id::Opencode | Id::Cursor | Id::Vscode | Id::Windsurf | Id::Zed => None,
    };
    let settings = if editor.id == Id::Claude {
        Settings::of(directories)
    } else {
        Settings::default()
    };
    report.to_do = to_do(&report, editor, &seen, &beside, directories, &settings);
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
    let program = directories::program(editor.program, std::env::var_os("PATH"))?;
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

fn id(editor: &Editor) -> String {
    let name = editor.id.to_possible_value();
    name.map(|name| name.get_name().to_owned()).unwrap_or_default()
}
