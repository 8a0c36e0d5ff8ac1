//! `relay config`: what relay would use here, and what says so. It asks no relay.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::discover::{DiscoverError, Found, Source, discover_here, nearest_config, project_of_agent_here};
use super::identity::choice::{Identities, UnknownAgent};
use super::messages::{json_line, write_stdout};
use super::place::MaybePlace;
use super::project::{DataDirectory, Project};
use super::{End, Failure, ourselves};
use crate::terminal::visible;
use crate::workers::{self, Cli};

/// `relay config`.
#[derive(Debug, clap::Args)]
pub struct Config {
    /// Print the same as JSON: {"relay": {"at", "source", "file"?}, "project"?, "agent"?, "token", "data"?, "workers"}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: MaybePlace,
}

/// Why it was not told.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not known which relay is meant.
    #[error(transparent)]
    Relay(#[from] DiscoverError),
    /// A file or a variable says wrongly who the agent is.
    #[error(transparent)]
    Agent(#[from] UnknownAgent),
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::error(format!("relay config: {error}"))
    }
}

/// What relay would use.
struct Used {
    found: Found,
    /// The project that the agent would belong to; none if only the relay says it.
    project: Option<Project>,
    /// Whose bridge one that is started here would be, and what is known of it; none if nothing says so.
    agent: Option<String>,
    /// Whether a token is sent to the relay. Which one is nobody's business here.
    token: bool,
    data: Option<PathBuf>,
    /// How a relay that is started here starts workers.
    workers: Workers,
}

/// How workers are started.
struct Workers {
    /// What says so; none if nothing does.
    file: Option<PathBuf>,
    /// What it says, or what is wrong with it.
    config: Result<workers::Config, String>,
    /// Where they may work.
    directory: PathBuf,
}

/// Tells it.
pub fn run(args: &Config) -> Result<End, Failure> {
    let used = look(args)?;
    let text = if args.json { used.json() } else { used.text() };
    write_stdout(&text).map_err(ConfigError::Stdout)?;
    Ok(match used.workers.config {
        Ok(_) => End::Done,
        Err(_) => End::Unwell,
    })
}

fn look(args: &Config) -> Result<Used, ConfigError> {
    let found = discover_here(args.place.named(), None)?;
    let project = project_of_agent_here(None, &found)?.or_else(|| found.project.clone());
    // A working directory that is gone holds nothing.
    let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let of_text = |name: &str| Some(variable(name)?.to_string_lossy().into_owned());
    let agent = match Identities::seen_from(&directory, ourselves()).choose(None, of_text) {
        Ok(identity) => Some(identity.to_string()),
        Err(UnknownAgent::NoIdentity { .. } | UnknownAgent::Several { .. }) => None,
        Err(
            error @ (UnknownAgent::Variable { .. }
            | UnknownAgent::Broken { .. }
            | UnknownAgent::System { .. }),
        ) => return Err(error.into()),
    };
    Ok(Used {
        found,
        project,
        agent,
        token: variable("RELAY_TOKEN").is_some(),
        data: DataDirectory::by(variable).map(|data| data.root().to_owned()),
        workers: Workers::of(directory),
    })
}

impl Workers {
    /// Finds what a relay that is started in a directory finds. Reads files.
    fn of(directory: PathBuf) -> Self {
        let (file, config) = match nearest_config(&directory) {
            Some((file, Ok(bytes))) => {
                let config = workers::Config::parse(&file, &bytes);
                (Some(file), config.map_err(|flaw| flaw.to_string()))
            }
            Some((file, Err(error))) => {
                let flaw = format!("cannot read {}: {error}", file.display());
                (Some(file), Err(flaw))
            }
            None => (None, Ok(workers::Config::default())),
        };
        Self {
            file,
            config,
            directory,
        }
    }

    fn directories<'a>(&'a self, config: &'a workers::Config) -> impl Iterator<Item = String> + 'a {
        let all = std::iter::once(&self.directory).chain(&config.directories);
        all.map(|directory| directory.to_string_lossy().into_owned())
    }

    fn json(&self) -> Value {
        let mut told = json!({});
        if let Some(file) = &self.file {
            told["file"] = json!(file.to_string_lossy());
        }
        let config = match &self.config {
            Ok(config) => config,
            Err(flaw) => {
                told["error"] = json!(flaw);
                return told;
            }
        };
        let cli = |cli: Cli| {
            let mut told = json!({"cli": cli.as_str()});
            let Some(other) = config.of(cli) else {
                return told;
            };
            if let Some(command) = &other.command {
                told["command"] = json!(command);
            }
            if let Some(arguments) = &other.arguments {
                told["arguments"] = json!(arguments);
            }
            // What they are set to may be a secret.
            if !other.env.is_empty() {
                told["env"] = other.env.keys().cloned().collect();
            }
            told
        };
        told["clis"] = Cli::ALL.into_iter().map(cli).collect();
        told["directories"] = self.directories(config).collect();
        told
    }

    fn text(&self) -> String {
        let config = match &self.config {
            Ok(config) => config,
            Err(flaw) => return flaw.clone(),
        };
        let cli = |cli: Cli| {
            let Some(other) = config.of(cli) else {
                return cli.to_string();
            };
            let said = [
                ("command", other.command.is_some()),
                ("arguments", other.arguments.is_some()),
                ("env", !other.env.is_empty()),
            ];
            let said = said
                .into_iter()
                .filter_map(|(name, is_said)| is_said.then_some(name));
            let said: Vec<&str> = said.collect();
            match said.is_empty() {
                true => cli.to_string(),
                false => format!("{cli} (own {})", said.join(", ")),
            }
        };
        let clis: Vec<String> = Cli::ALL.into_iter().map(cli).collect();
        let directories: Vec<String> = self.directories(config).collect();
        let said_by = match &self.file {
            Some(file) => format!("as {} says", file.to_string_lossy()),
            None => "no .relay/config.json".to_owned(),
        };
        format!("{} in {}; {said_by}", clis.join(", "), directories.join(", "))
    }
}

impl Used {
    fn file(&self) -> Option<&Path> {
        match &self.found.source {
            Source::Config(file) => Some(file),
            Source::Socket | Source::Option | Source::Project | Source::Scan | Source::Port => None,
        }
    }

    fn json(&self) -> String {
        let mut relay = json!({"at": self.found.way.to_string(), "source": self.found.source.name()});
        if let Some(file) = self.file() {
            relay["file"] = json!(file.to_string_lossy());
        }
        let mut used = json!({"relay": relay, "token": self.token, "workers": self.workers.json()});
        let project = self.project.as_ref().map(ToString::to_string);
        let data = self
            .data
            .as_deref()
            .map(|data| data.to_string_lossy().into_owned());
        for (name, value) in [
            ("project", project),
            ("agent", self.agent.clone()),
            ("data", data),
        ] {
            if let Some(value) = value {
                used[name] = json!(value);
            }
        }
        json_line(&used.to_string())
    }

    fn text(&self) -> String {
        let project = self.project.as_ref().map_or_else(
            || "not known before relay is asked".to_owned(),
            ToString::to_string,
        );
        let agent = self.agent.clone();
        let agent = agent.unwrap_or_else(|| "nobody says; --agent or RELAY_AGENT does".to_owned());
        let token = if self.token { "from RELAY_TOKEN" } else { "none" };
        let data = match &self.data {
            Some(data) => data.to_string_lossy().into_owned(),
            None => "nowhere: neither XDG_DATA_HOME nor HOME is set".to_owned(),
        };
        let relay = format!("{}, found by {}", self.found.way, self.found.source);
        [
            ("relay", relay.as_str()),
            ("project", &project),
            ("agent", &agent),
            ("token", token),
            ("data", &data),
            ("workers", &self.workers.text()),
        ]
        .iter()
        .map(|(name, value)| format!("{name:7}  {}\n", visible(value)))
        .collect()
    }
}
