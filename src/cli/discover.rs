//! Which relay is meant by who names none, and which project an agent belongs to: the one and only place where that is looked for, in an
//! order that is told.
//!
//! It knows the environment, the working directory and the file system only as they are handed in, and connects to nothing.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::place::Place;
use super::project::{DataDirectory, Project};
use super::work_tree::{is_absent, main_work_tree, read_file, redirected};
use crate::engine::{InvalidName, shown};

/// Names a socket.
const SOCKET: &str = "RELAY_SOCKET";

/// Names a project.
const PROJECT: &str = "RELAY_PROJECT";

/// Does so where an agent is started.
const OPTION: &str = "--project";

/// What a directory tree says of its relay.
const CONFIG: &str = ".relay/config.json";

/// Most bytes of a file that is read here: each has a line or a few.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// What is looked at.
pub struct Surroundings<'a, S> {
    /// Returns a variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The working directory.
    pub directory: &'a Path,
    /// The file system.
    pub system: &'a S,
}

impl<S> Surroundings<'_, S> {
    /// Returns what a variable says; an empty one says nothing.
    fn said_by(&self, variable: &str) -> Option<OsString> {
        (self.variable)(variable).filter(|value| !value.is_empty())
    }
}

/// What is asked of the file system.
pub trait System {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The system's, when there is none or it cannot be read.
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;

    /// Returns the names of what a directory holds, in any order; none if it cannot be read.
    fn names(&self, directory: &Path) -> Vec<OsString>;

    /// Tells whether a process listens on a socket.
    fn is_live(&self, socket: &Path) -> bool;
}

/// How a relay is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// Over a port.
    Tcp(Place),
    /// Over a unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(place) => place.fmt(f),
            Self::Unix(socket) => socket.display().fmt(f),
        }
    }
}

/// What said how a relay is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The variable that names a socket.
    Socket,
    /// The option that names a project.
    Option,
    /// The variable that names a project.
    Project,
    /// This file.
    Config(PathBuf),
    /// It is the only live socket of this user's projects.
    Scan,
    /// The port that was named, or the one of a relay that was given no other.
    Port,
}

impl Source {
    /// Returns its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Socket => SOCKET,
            Self::Option => OPTION,
            Self::Project => PROJECT,
            Self::Config(_) => "config",
            Self::Scan => "scan",
            Self::Port => "port",
        }
    }
}

/// How it is said to a person: `found by RELAY_SOCKET`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket | Self::Option | Self::Project => f.write_str(self.name()),
            Self::Config(file) => file.display().fmt(f),
            Self::Scan => f.write_str("its socket, the only live one"),
            Self::Port => f.write_str("its port"),
        }
    }
}

/// Where a relay is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// How it is reached.
    pub way: Way,
    /// What said so.
    pub source: Source,
    /// The project whose socket it is, if it is one's.
    pub project: Option<Project>,
    /// The project that is named by the file that said so, also beside a socket; none if no file did, or it names none.
    pub of_file: Option<Project>,
}

impl Found {
    /// What is found where a place is named.
    pub fn at(place: Place) -> Self {
        Self {
            way: Way::Tcp(place),
            source: Source::Port,
            project: None,
            of_file: None,
        }
    }

    /// Says what is to be done where nobody listens on the socket that was found.
    pub fn advice(&self, program: &str) -> String {
        match self.start(program) {
            Some(start) => format!("start it with: {start}"),
            None => format!("start that relay again, or {}", Self::OTHER),
        }
    }

    /// Says how another relay is named in the stead of the one that was found.
    pub const OTHER: &str = "name the socket of another with RELAY_SOCKET, or its project with RELAY_PROJECT";

    /// Returns the command that starts a relay on the socket that was found, if one does. Whoever asks for a project by the option is told
    /// how else to be in it.
    pub fn start(&self, program: &str) -> Option<String> {
        let project = self.project.as_ref()?;
        let mut start = format!("{program} serve");
        if *project != Project::default() {
            start += &format!(" --project {project}");
        }
        if self.source == Source::Option {
            start += &format!(
                "; or, to be in project {project} on a relay that serves several, name that relay with --port or {SOCKET}"
            );
        }
        Some(start)
    }
}

/// Why it is not known which relay is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    /// Several run, and nothing says which of them is meant.
    #[error(
        "several relays run: {}; choose one with {PROJECT}=NAME or {SOCKET}=PATH",
        listed(sockets)
    )]
    Several {
        /// The projects and their sockets, by name.
        sockets: Vec<(Project, PathBuf)>,
    },
    /// A name is none.
    #[error("{said_by}: {reason}")]
    Project {
        /// Where it stands.
        said_by: String,
        /// Why.
        reason: InvalidName,
    },
    /// A project is named, and nothing says where sockets are.
    #[error(
        "{said_by} names project {project}, but neither XDG_DATA_HOME nor HOME says where its socket is; set one of them, or {SOCKET}=PATH"
    )]
    NoData {
        /// What names it.
        said_by: String,
        /// Its name.
        project: Project,
    },
    /// A file is not as it should be.
    #[error("{}: {reason}; accepted: {{\"socketPath\": \"PATH\"}} or {{\"project\": \"NAME\"}}", file.display())]
    Config {
        /// Which.
        file: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Finds out which relay is meant, in this order: the place that was `named`; `RELAY_SOCKET`; the project that is `asked` for, or else that
/// of `RELAY_PROJECT`, by its socket; the nearest `.relay/config.json`; the live socket of this user's projects, if there is one; port 7331.
/// An empty variable is none, and so is an empty text in a file.
///
/// Whether somebody listens at what was found is known of a socket that no other says only.
///
/// # Errors
///
/// [`DiscoverError`]: what says something says it wrong, or several relays run.
pub fn discover<S: System>(
    named: Option<Place>,
    asked: Option<&Project>,
    around: &Surroundings<'_, S>,
) -> Result<Found, DiscoverError> {
    if let Some(place) = named {
        return Ok(Found::at(place));
    }
    let data = DataDirectory::by(around.variable);
    if let Some(socket) = around.said_by(SOCKET) {
        let socket = around.directory.join(socket);
        return Ok(at_socket(socket, Source::Socket, data.as_ref()));
    }
    if let Some((project, source)) = said_of_project(asked, around)? {
        return at_socket_of(project, source, data.as_ref());
    }
    if let Some((directory, file, config)) = configured(around)? {
        let source = Source::Config(file);
        let of_file = config.project;
        let found = match (config.socket_path, of_file.clone()) {
            (Some(socket), _) => at_socket(directory.join(socket), source, data.as_ref()),
            (None, Some(project)) => at_socket_of(project, source, data.as_ref())?,
            (None, None) => unreachable!("such a file is passed by"),
        };
        return Ok(Found { of_file, ..found });
    }
    let live = data.as_ref().map(|data| live_sockets(data, around.system));
    let mut live = live.unwrap_or_default();
    if live.len() > 1 {
        return Err(DiscoverError::Several { sockets: live });
    }
    Ok(live.pop().map_or_else(
        || Found::at(Place::default()),
        |(project, socket)| Found {
            way: Way::Unix(socket),
            source: Source::Scan,
            project: Some(project),
            of_file: None,
        },
    ))
}

fn at_socket(socket: PathBuf, source: Source, data: Option<&DataDirectory>) -> Found {
    let project = data.and_then(|data| data.project_of(&socket));
    let way = Way::Unix(socket);
    Found {
        way,
        source,
        project,
        of_file: None,
    }
}

/// Finds out which project this is: the one that is `asked` for; else that of `RELAY_PROJECT`; else that of the nearest
/// `.relay/config.json`, also where that names a socket; else none.
///
/// # Errors
///
/// [`DiscoverError`]: what says something says it wrong.
pub fn project<S: System>(
    asked: Option<&Project>,
    around: &Surroundings<'_, S>,
) -> Result<Option<Project>, DiscoverError> {
    if let Some((project, _)) = said_of_project(asked, around)? {
        return Ok(Some(project));
    }
    Ok(configured(around)?.and_then(|(_, _, config)| config.project))
}

/// Finds out which project an agent belongs to whose relay was found so: the one that is `asked` for; else that of `RELAY_PROJECT`; else that
/// of the file by which the relay was found; else none, which is the relay's own. So no file is asked where the relay was named in another
/// way, as it is not for whoever speaks HTTP to it.
///
/// # Errors
///
/// As [`project`].
pub fn project_of_agent<S: System>(
    asked: Option<&Project>,
    found: &Found,
    around: &Surroundings<'_, S>,
) -> Result<Option<Project>, DiscoverError> {
    let said = said_of_project(asked, around)?;
    Ok(said.map(|(project, _)| project).or_else(|| found.of_file.clone()))
}

/// Returns the project that an option or the variable names, and which of them; the option is told from the variable where they differ.
fn said_of_project<S: System>(
    asked: Option<&Project>,
    around: &Surroundings<'_, S>,
) -> Result<Option<(Project, Source)>, DiscoverError> {
    let said = around.said_by(PROJECT);
    let said = said.map(|name| name.to_string_lossy().into_owned());
    Ok(match (asked, said) {
        (Some(asked), Some(said)) if said == asked.as_str() => Some((asked.clone(), Source::Project)),
        (Some(asked), _) => Some((asked.clone(), Source::Option)),
        (None, Some(said)) => Some((named_by(PROJECT.to_owned(), &said)?, Source::Project)),
        (None, None) => None,
    })
}

/// Reads the name of a project that stands somewhere.
fn named_by(said_by: String, name: &str) -> Result<Project, DiscoverError> {
    name.parse()
        .map_err(|reason| DiscoverError::Project { said_by, reason })
}

fn at_socket_of(
    project: Project,
    source: Source,
    data: Option<&DataDirectory>,
) -> Result<Found, DiscoverError> {
    let Some(data) = data else {
        let said_by = match &source {
            Source::Config(file) => file.display().to_string(),
            Source::Socket | Source::Option | Source::Project | Source::Scan | Source::Port => {
                source.name().to_owned()
            }
        };
        return Err(DiscoverError::NoData { said_by, project });
    };
    Ok(Found {
        way: Way::Unix(data.socket(&project)),
        source,
        project: Some(project),
        of_file: None,
    })
}

/// What a directory tree says of its relay; a socket's path counts from the directory that holds `.relay`.
struct Config<P = Project> {
    socket_path: Option<PathBuf>,
    project: Option<P>,
}

/// Goes through the directories that may hold such a file, the nearest first: from the working directory upward. A git work tree is looked
/// at together with the main one, in which a file that is not in the repository is, and so is the one to which a redirect of Thrum's leads.
fn holders<S: System>(directory: &Path, system: &S) -> impl Iterator<Item = PathBuf> {
    directory.ancestors().flat_map(move |directory| {
        let main = main_work_tree(directory, |file| system.read(file).ok());
        let led_to = redirected(directory, |file| system.read(file).ok());
        std::iter::once(directory.to_owned()).chain(main).chain(led_to)
    })
}

/// Looks for the nearest file that says which relay is meant; returns the directory that holds `.relay`, the file, and what it says.
fn configured<S: System>(
    around: &Surroundings<'_, S>,
) -> Result<Option<(PathBuf, PathBuf, Config)>, DiscoverError> {
    for directory in holders(around.directory, around.system) {
        let file = directory.join(CONFIG);
        let said = match config(&file, around.system) {
            Ok(Some(said)) => said,
            Ok(None) => continue,
            Err(reason) => return Err(DiscoverError::Config { file, reason }),
        };
        let project = said
            .project
            .map(|name| named_by(file.display().to_string(), &name));
        let config = Config {
            socket_path: said.socket_path,
            project: project.transpose()?,
        };
        if config.socket_path.is_some() || config.project.is_some() {
            return Ok(Some((directory, file, config)));
        }
    }
    Ok(None)
}

/// Finds the nearest such file of a directory tree, whatever it says, and what is in it.
pub fn nearest_config(directory: &Path) -> Option<(PathBuf, io::Result<Vec<u8>>)> {
    holders(directory, &ThisSystem).find_map(|directory| {
        let file = directory.join(CONFIG);
        match ThisSystem.read(&file) {
            Err(error) if is_absent(&error) => None,
            read => Some((file, read)),
        }
    })
}

/// Reads a file that may not be there.
fn config(file: &Path, system: &impl System) -> Result<Option<Config<String>>, String> {
    let bytes = match system.read(file) {
        Ok(bytes) => bytes,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let whole: Value = serde_json::from_slice(&bytes).map_err(|error| {
        let what = if error.is_eof() {
            "ends there"
        } else {
            "goes on so there"
        };
        format!("line {}, column {}: no JSON {what}", error.line(), error.column())
    })?;
    let Some(said) = whole.as_object() else {
        return Err(format!("the file is {}", shown(&whole.to_string())));
    };
    let text = |name: &str| match said.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(other) => Err(format!("{name} is {}", shown(&other.to_string()))),
    };
    Ok(Some(Config {
        socket_path: text("socketPath")?.map(PathBuf::from),
        project: text("project")?,
    }))
}

/// Finds the sockets of this user's projects on which somebody listens, by the projects' names.
fn live_sockets(data: &DataDirectory, system: &impl System) -> Vec<(Project, PathBuf)> {
    let names = system.names(&data.projects());
    let projects = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    let mut live: Vec<(Project, PathBuf)> = projects
        .map(|project| {
            let socket = data.socket(&project);
            (project, socket)
        })
        .filter(|(_, socket)| system.is_live(socket))
        .collect();
    live.sort();
    live
}

fn listed(sockets: &[(Project, PathBuf)]) -> String {
    let sockets: Vec<String> = sockets
        .iter()
        .map(|(project, socket)| format!("{project} ({})", socket.display()))
        .collect();
    sockets.join(", ")
}

/// This process's file system.
pub struct ThisSystem;

impl System for ThisSystem {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        read_file(file, FILE_BYTES_MAX)?.ok_or_else(|| {
            let reason = format!("it has more than {FILE_BYTES_MAX} bytes");
            io::Error::new(io::ErrorKind::InvalidData, reason)
        })
    }

    fn names(&self, directory: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect()
    }

    fn is_live(&self, socket: &Path) -> bool {
        crate::server::is_live(socket)
    }
}

/// Finds out which relay is meant in this process's surroundings.
///
/// # Errors
///
/// As [`discover`].
pub fn discover_here(named: Option<Place>, asked: Option<&Project>) -> Result<Found, DiscoverError> {
    here(|around| discover(named, asked, around))
}

/// The same for a program that is started here with other variables.
///
/// # Errors
///
/// As [`discover`].
pub fn discover_with(
    asked: Option<&Project>,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Found, DiscoverError> {
    with(variable, |around| discover(None, asked, around))
}

/// Finds out which project this is in this process's surroundings.
///
/// # Errors
///
/// As [`project`].
pub fn project_here(asked: Option<&Project>) -> Result<Option<Project>, DiscoverError> {
    here(|around| project(asked, around))
}

/// Finds out which project an agent belongs to in this process's surroundings.
///
/// # Errors
///
/// As [`project_of_agent`].
pub fn project_of_agent_here(
    asked: Option<&Project>,
    found: &Found,
) -> Result<Option<Project>, DiscoverError> {
    here(|around| project_of_agent(asked, found, around))
}

fn here<T>(looks: impl FnOnce(&Surroundings<'_, ThisSystem>) -> T) -> T {
    with(&|name| std::env::var_os(name), looks)
}

fn with<T>(
    variable: &dyn Fn(&str) -> Option<OsString>,
    looks: impl FnOnce(&Surroundings<'_, ThisSystem>) -> T,
) -> T {
    // A working directory that is gone holds nothing.
    let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    looks(&Surroundings {
        variable,
        directory: &directory,
        system: &ThisSystem,
    })
}

#[cfg(test)]
mod tests;
