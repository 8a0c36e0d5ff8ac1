//! `relay install` and `relay uninstall`: put relay into the files of agent CLIs and editors, and take it out again. They must not ask
//! a relay.

pub mod additions;
mod backup;
pub mod beside;
mod changes;
pub mod command;
mod content;
pub mod directories;
pub mod editors;
pub mod file;
pub mod json;
pub mod lasting;
mod layout;
pub mod members;
pub mod named;
pub mod parts;
pub mod plan;
pub mod said;
pub mod scopes;
pub mod settings;
mod toml;
pub mod whole;

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::path::PathBuf;

use clap::ValueEnum as _;
use clap::builder::PossibleValue;

use self::directories::Directories;
use self::editors::{ALLOWED, APPROVED, ASKED, Connection, EDITORS, Editor, Id, Root, Transport, can_listen};
use self::file::FileError;
use self::plan::{Change, Target};
use self::said::{Said, is_relays};
use super::place::DEFAULT_PORT;
use super::project::DataDirectory;
use super::{End, Failure, quoted, say, work_tree};
use crate::tools::Toolsets;

/// `relay install`.
#[derive(Debug, clap::Args)]
pub struct Install {
    #[command(flatten)]
    which: Which,

    /// How they reach relay [default: as it is there, else sse for Claude Code and http for the others].
    #[arg(long, value_enum)]
    transport: Option<Transport>,

    /// The toolsets that their sessions have: lift, thrum, agent-relay, or all, with commas between them [default: as it is there, else lift]. For
    /// Claude Code thrum brings message-listener, an agent that waits for messages in the background.
    #[arg(long, value_parser = tools)]
    tools: Option<String>,

    /// The port of the relay, 1 to 65535.
    #[arg(long, env = "RELAY_PORT", default_value_t = DEFAULT_PORT, value_parser = super::port)]
    port: u16,

    /// Connect them to relay only; hooks of relay's that are there are taken out, and so is its plugin.
    #[arg(long)]
    no_hooks: bool,
}

/// `relay uninstall`.
#[derive(Debug, clap::Args)]
pub struct Uninstall {
    #[command(flatten)]
    which: Which,
}

/// Whose files are meant.
#[derive(Debug, clap::Args)]
struct Which {
    /// Whom to connect, or several; auto is whoever is found on this machine [default: auto].
    #[arg(short = 'e', long = "editor", value_name = "EDITOR", value_enum)]
    editors: Vec<Asked>,

    /// In your own files, for all projects, instead of those of the project in the working directory.
    #[arg(short, long)]
    global: bool,

    /// Show what would be changed, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// An editor as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    One(Id),
    Auto,
}

impl clap::ValueEnum for Asked {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Asked; 9] = [
            Asked::One(Id::Claude),
            Asked::One(Id::Codex),
            Asked::One(Id::Gemini),
            Asked::One(Id::Opencode),
            Asked::One(Id::Cursor),
            Asked::One(Id::Vscode),
            Asked::One(Id::Windsurf),
            Asked::One(Id::Zed),
            Asked::Auto,
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::One(id) => id.to_possible_value(),
            Self::Auto => Some(PossibleValue::new("auto")),
        }
    }
}

/// Why nothing was changed, or not all that should have been.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The process is in a directory that is gone or may not be read.
    #[error("cannot tell the working directory: {0}")]
    Directory(io::Error),
    /// The environment does not say where the user's files are.
    #[error("HOME is not set to an absolute path; set it to your home directory")]
    NoHome,
    /// No editor was named, and none is found.
    #[error("no editor is found on this machine; name one with --editor: {}", names(EDITORS.iter()))]
    NoEditor,
    /// An editor does not speak what was asked for. Nothing was changed.
    #[error("{editor} does not take --transport {transport}; accepted: {accepted}")]
    Transport {
        /// For a person.
        editor: &'static str,
        /// As it was asked for.
        transport: &'static str,
        /// What it takes.
        accepted: String,
    },
    /// Files could not be read or changed. Nothing was changed.
    #[error("{}\nnothing was changed", lines(.0))]
    Planned(Vec<FileError>),
    /// Two editors have one file, and would not have the same in it. Nothing was changed.
    #[error(
        "{first} and {second} have one file, {}, and each wants another entry there; accepted: a file of its own for one of them, or one of them by --editor\nnothing was changed",
        path.display()
    )]
    Shared {
        /// For a person.
        first: &'static str,
        /// The same.
        second: &'static str,
        /// Where their paths lead.
        path: PathBuf,
    },
    /// Two editors have one file, and something of relay's is in it for each. Nothing was changed.
    #[error(
        "{first} and {second} have one file, {}, in which something of relay's is for each; accepted: one of them by --editor, and then the other\nnothing was changed",
        path.display()
    )]
    SharedBoth {
        /// For a person.
        first: &'static str,
        /// The same.
        second: &'static str,
        /// Where their paths lead.
        path: PathBuf,
    },
    /// The copy of relay that the files were to name could not be made. Nothing was changed.
    #[error("{0}\nnothing was changed")]
    Program(FileError),
    /// A file could not be written, after others had been.
    #[error("{error}\n{}", told(written, left))]
    Written {
        /// What went wrong.
        error: FileError,
        /// The files that were changed before.
        written: Vec<PathBuf>,
        /// The files that were to follow.
        left: Vec<PathBuf>,
    },
}

/// Connects.
pub fn run(args: &Install) -> Result<End, Failure> {
    install(args).map_err(|error| Failure::error(format!("relay install: {error}")))
}

/// Takes out what was put in.
pub fn undo(args: &Uninstall) -> Result<End, Failure> {
    uninstall(args).map_err(|error| Failure::error(format!("relay uninstall: {error}")))
}

fn install(args: &Install) -> Result<End, InstallError> {
    let (directories, data) = surroundings()?;
    let _alone = alone(&directories, &args.which);
    let editors = chosen(&args.which.editors, &directories);
    if editors.is_empty() {
        return Err(InstallError::NoEditor);
    }
    let copy = lasting::copy(&data);
    let program = lasting::program(copy.as_ref());
    let is_decided = settings::decide_of_asked(&directories, args.which.global);
    let mut planned = Vec::new();
    for editor in &editors {
        let targets = plan::targets(editor, &directories, args.which.global);
        let said = said_there(editor, &targets).unwrap_or_default();
        let mut connection = Connection {
            transport: transport(editor, args.transport, said.transport)?,
            port: args.port,
            tools: args.tools.clone(),
            agent: None,
            others: Vec::new(),
            program: program.clone(),
            has_token: variable("RELAY_TOKEN").is_some_and(|token| !token.is_empty()),
        };
        let could_listen = can_listen(said.tools.as_deref());
        if let Some(agent) = said.keep(&mut connection, editor.entry) {
            say(&not_kept(editor, &connection, &agent));
        }
        if editor.lacks_token(&connection) {
            say(&format!(
                "{} gets no token from relay install; accepted: --transport stdio, or its own way to send the header Authorization",
                editor.name
            ));
        }
        let hooks = (!args.no_hooks).then(|| quoted(&program));
        if args.no_hooks {
            tell_what_stays(&targets);
        }
        let mut unapproved: Option<(PathBuf, Vec<&str>)> = None;
        for target in targets {
            // One that stands beside other tools is a copy that its owner has made.
            if target.is_listener() && !connection.can_listen() && !could_listen {
                continue;
            }
            let mut wanted = plan::wanted(&target, &connection, hooks.as_deref());
            if is_decided {
                wanted.listed.retain(|listed| listed.is_always);
            }
            if let Some((path, members)) = &unapproved
                && wanted.listed.contains(&APPROVED)
            {
                if !plan::is_named(&target, &APPROVED) {
                    wanted.listed.retain(|listed| *listed != APPROVED);
                }
                let does = if settings::approve(&directories) {
                    "starts relay without asking you"
                } else {
                    "asks you before it starts relay"
                };
                say(&format!(
                    "{} {does}: the entry in {} has {}, which is not of relay install; look at what that runs",
                    editor.name,
                    path.display(),
                    members.join(", ")
                ));
            }
            let change = plan::install(target, &data, wanted);
            if let Ok(Some(change)) = &change {
                let members = change.run_otherwise();
                unapproved =
                    unapproved.or((!members.is_empty()).then(|| (change.target.path.clone(), members)));
            }
            planned.push(change.transpose());
        }
    }
    let changes = changes::all(planned.into_iter().flatten())?;
    let in_project = |change: &Change| change.target.root == directories.project;
    if !args.which.global
        && changes.iter().any(in_project)
        && let Some(top) = work_tree::root_above(&directories.project)
    {
        say(&format!(
            "{} is not the top directory of its git work tree, which is {}: what is installed counts for sessions that are started here",
            directories.project.display(),
            top.display()
        ));
    }
    if let Some(copy) = copy.as_ref().filter(|_| !args.which.dry_run) {
        // Before a file names it.
        copy.make().map_err(InstallError::Program)?;
    }
    changes::carry_out(&changes, &data, &args.which, "")?;
    for change in &changes {
        if let Some(by) = change.switched_off() {
            let (editor, path) = (change.target.editor.name, change.target.path.display());
            say(&format!(
                "{editor}: the entry in {path} is switched off, {by}; take that out"
            ));
        }
    }
    for change in &changes {
        if let Some(reason) = change.lacks_name(&directories) {
            let (editor, path) = (change.target.editor.name, change.target.path.display());
            say(&format!("{editor}: {path}: {reason}"));
        }
        for trouble in change.troubles(&directories) {
            say(&format!("{}: {trouble}", change.target.editor.name));
        }
    }
    let stops = settings::stops(&directories, args.which.global);
    if editors.iter().any(|editor| editor.id == Id::Claude) {
        for stop in &stops {
            let (rule, list, file) = (&stop.rule, stop.list(), stop.file.display());
            let does = if stop.asks {
                "asks you before it calls"
            } else {
                "does not call"
            };
            say(&format!(
                "Claude Code {does} what {rule} names, which is in {list} of {file}; take that out"
            ));
        }
    }
    if let Some(copy) = &copy {
        let path = copy.path().display();
        let is = if args.which.dry_run { "would be" } else { "is" };
        say(&format!(
            "this relay lies where it may be removed at any time, so a copy {is} at {path}; start relay with: {} serve",
            quoted(&program)
        ));
    }
    if args.which.dry_run {
        return Ok(End::Done);
    }
    let changed = |id: Id| {
        changes
            .iter()
            .any(|change| change.target.editor.id == id && !change.is_none())
    };
    if let Some(change) = changes.iter().find(|change| change.names(&ALLOWED))
        && stops.is_empty()
    {
        say(&format!(
            "Claude Code calls relay's tools without asking: {} is in {} of {}",
            ALLOWED.name,
            ALLOWED.list.join("."),
            change.target.path.display()
        ));
    }
    if let Some(change) = changes.iter().find(|change| change.names(&ASKED)) {
        say(&format!(
            "Claude Code asks you before it starts a worker: {} is in {} of {}",
            ASKED.name,
            ASKED.list.join("."),
            change.target.path.display()
        ));
    }
    if changed(Id::Codex) && !args.no_hooks {
        say("Codex asks once whether its hooks are to be trusted: start codex, and trust all");
    }
    if changed(Id::Gemini) {
        say(
            "Gemini CLI runs servers and a project's hooks only in a folder that you trust: start gemini there, and trust it when it asks",
        );
    }
    if changed(Id::Opencode) && !args.no_hooks && args.port != DEFAULT_PORT {
        let port = args.port;
        say(&format!(
            "OpenCode's plugin finds relay by RELAY_PORT: start opencode with RELAY_PORT={port} in its environment"
        ));
    }
    if changes.iter().any(|change| !change.is_none()) {
        say("sessions that run already see it after they are started again");
    }
    Ok(End::Done)
}

fn uninstall(args: &Uninstall) -> Result<End, InstallError> {
    let (directories, data) = surroundings()?;
    let _alone = alone(&directories, &args.which);
    let asked = &args.which.editors;
    let is_all = asked.is_empty() || asked.contains(&Asked::Auto);
    let editors = EDITORS
        .iter()
        .filter(|editor| is_all || asked.contains(&Asked::One(editor.id)));
    let mut planned = Vec::new();
    let mut something_stays = false;
    for editor in editors {
        let targets = plan::targets(editor, &directories, args.which.global);
        let other = targets.iter().find(|target| plan::has_other_server(target));
        if let Some(other) = other {
            say(&format!(
                "{}: the entry called relay in {} may not be one that install wrote, and stays",
                editor.name,
                other.path.display()
            ));
        }
        for beside in beside::entries(editor, &directories, None) {
            if is_relays(&beside.entry, editor.id) {
                say(&format!("{}: {}", editor.name, beside.stays()));
            }
        }
        something_stays |= tell_what_stays(&targets);
        let has_other = other.is_some();
        let said = said_there(editor, &targets);
        let could_listen = said.is_some_and(|said| can_listen(said.tools.as_deref()));
        let undone = targets
            .into_iter()
            .filter(|target| could_listen || !target.is_listener())
            .map(|target| plan::uninstall(target, &data, has_other));
        planned.extend(undone.filter_map(Result::transpose));
    }
    let changes = changes::all(planned.into_iter()).map_err(|error| {
        if let InstallError::Shared { first, second, path } = error {
            InstallError::SharedBoth { first, second, path }
        } else {
            error
        }
    })?;
    if changes.is_empty() {
        if !something_stays {
            say("nothing of relay's is in the files of these editors");
        }
        return Ok(End::Nothing);
    }
    changes::carry_out(&changes, &data, &args.which, "; it counted for all projects")?;
    let program = data.program();
    if !args.which.dry_run && program.exists() {
        say(&format!(
            "{} stays, which files of other projects may name; remove it yourself once none does",
            program.display()
        ));
    }
    Ok(End::Done)
}

/// Tells what of relay's stays since a link of the project leads to it. Returns whether something does.
fn tell_what_stays(targets: &[Target]) -> bool {
    let mut something_stays = false;
    for target in targets {
        if let Some(end) = whole::stays(target) {
            something_stays = true;
            let (path, end) = (target.path.display(), end.display());
            say(&format!(
                "{}: {path} leads out of this project, to {end}, and stays",
                target.editor.name
            ));
        }
    }
    something_stays
}

/// Waits until no other installation of this user changes files, and keeps others waiting as long as it lives: they would change the same files
/// at the same time. The directory itself is locked, so that nothing is left behind; one that cannot be locked keeps nobody waiting.
fn alone(directories: &Directories, asked: &Which) -> Option<File> {
    if asked.dry_run {
        return None;
    }
    let home = File::open(directories.root(Root::Home)).ok()?;
    match home.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            say("another installation is under way; waiting for its end");
            home.lock().ok()?;
        }
        Err(TryLockError::Error(_)) => return None,
    }
    Some(home)
}

/// Where the editors' files are, and where relay keeps its own.
///
/// # Errors
///
/// When the environment or the system does not say.
pub fn surroundings() -> Result<(Directories, DataDirectory), InstallError> {
    let directory = std::env::current_dir().map_err(InstallError::Directory)?;
    let directories = Directories::by(directory, variable).ok_or(InstallError::NoHome)?;
    let data = DataDirectory::by(variable).ok_or(InstallError::NoHome)?;
    Ok((directories, data))
}

/// Tells whether Claude Code finds hooks of relay's in its settings, where a hook of it is run. What cannot be read has none.
pub fn has_claude_hooks() -> bool {
    let project = variable("CLAUDE_PROJECT_DIR").map(PathBuf::from);
    let project = project.or_else(|| std::env::current_dir().ok());
    let directories = project.and_then(|project| Directories::by(project, variable));
    directories.is_some_and(|directories| settings::have_hooks(&directories))
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns the editors that are meant, each once.
fn chosen(asked: &[Asked], directories: &Directories) -> Vec<&'static Editor> {
    let is_auto = asked.is_empty() || asked.contains(&Asked::Auto);
    let is_found = |editor: &Editor| {
        directories.has_traces(editor) || directories::program(editor.program, variable("PATH")).is_some()
    };
    let is_meant = |editor: &&Editor| asked.contains(&Asked::One(editor.id)) || is_auto && is_found(editor);
    EDITORS.iter().filter(is_meant).collect()
}

/// Returns what relay's entry says that is there.
fn said_there(editor: &Editor, targets: &[Target]) -> Option<Said> {
    let server = targets.first().and_then(plan::server_there);
    server.map(|server| Said::of(&server, editor.id))
}

/// Says that an entry does not name its agent any more, and how it is to be named.
fn not_kept(editor: &Editor, connection: &Connection, agent: &str) -> String {
    let (place, how) = match connection.transport {
        Transport::Stdio => ("a command", "--agent NAME into its arguments"),
        Transport::Sse | Transport::Http => ("an address", "agent=NAME into its address"),
    };
    let name = editor.name;
    format!("{name}: its entry named the agent as {agent:?}, which {place} cannot hold; put {how}")
}

/// Returns the transport that is asked for, else the one that is there, else the editor's first.
fn transport(
    editor: &Editor,
    asked: Option<Transport>,
    there: Option<Transport>,
) -> Result<Transport, InstallError> {
    let there = there.filter(|there| editor.transports.contains(there));
    let transport = asked.or(there).unwrap_or(editor.transports[0]);
    if editor.transports.contains(&transport) {
        return Ok(transport);
    }
    let accepted: Vec<&str> = editor.transports.iter().map(|known| known.name()).collect();
    Err(InstallError::Transport {
        editor: editor.name,
        transport: transport.name(),
        accepted: accepted.join(", "),
    })
}

fn names<'a>(editors: impl Iterator<Item = &'a Editor>) -> String {
    let names = editors.filter_map(|editor| editor.id.to_possible_value());
    let names: Vec<String> = names.map(|name| name.get_name().to_owned()).collect();
    names.join(", ")
}

fn lines(errors: &[FileError]) -> String {
    let lines: Vec<String> = errors.iter().map(FileError::to_string).collect();
    lines.join("\n")
}

fn told(written: &[PathBuf], left: &[PathBuf]) -> String {
    let list = |paths: &[PathBuf]| {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        paths.join(", ")
    };
    match (written, left) {
        ([], _) => "nothing was changed".to_owned(),
        ([..], []) => format!("changed before that: {}; not changed: it", list(written)),
        ([..], [..]) => format!(
            "changed before that: {}; not changed: it and {}",
            list(written),
            list(left)
        ),
    }
}

/// Takes the names of toolsets as they stand in an address.
fn tools(text: &str) -> Result<String, String> {
    let parsed: Result<Toolsets, _> = text.parse();
    parsed.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
