//! `relay config`: what relay would use here, and what says so. It asks no relay.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::discover::{DiscoverError, Found, Source, discover_here};
use super::identity::choice::{Identities, UnknownAgent};
use super::messages::write_stdout;
use super::place::MaybePlace;
use super::project::DataDirectory;
use super::{End, Failure, ourselves};
use crate::terminal::visible;

/// `relay config`.
#[derive(Debug, clap::Args)]
pub struct Config {
    /// Print the same as JSON: {"relay": {"at", "source", "file"?}, "project"?, "agent"?, "token", "data"?}.
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
    /// Whose bridge one that is started here would be, and what is known of it; none if nothing says so.
    agent: Option<String>,
    /// Whether a token is sent to the relay. Which one is nobody's business here.
    token: bool,
    data: Option<PathBuf>,
}

/// Tells it.
pub fn run(args: &Config) -> Result<End, Failure> {
    let used = look(args)?;
    let text = if args.json { used.json() } else { used.text() };
    write_stdout(&text).map_err(ConfigError::Stdout)?;
    Ok(End::Done)
}

fn look(args: &Config) -> Result<Used, ConfigError> {
    let found = discover_here(args.place.named())?;
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
        agent,
        token: variable("RELAY_TOKEN").is_some(),
        data: DataDirectory::by(variable).map(|data| data.root().to_owned()),
    })
}

impl Used {
    fn file(&self) -> Option<&Path> {
        match &self.found.source {
            Source::Config(file) => Some(file),
            Source::Socket | Source::Project | Source::Scan | Source::Port => None,
        }
    }

    fn json(&self) -> String {
        let mut relay = json!({"at": self.found.way.to_string(), "source": self.found.source.name()});
        if let Some(file) = self.file() {
            relay["file"] = json!(file.to_string_lossy());
        }
        let mut used = json!({"relay": relay, "token": self.token});
        let project = self.found.project.as_ref().map(ToString::to_string);
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
        format!("{used}\n")
    }

    fn text(&self) -> String {
        let project = self.found.project.as_ref();
        let project = project.map_or_else(
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
        ]
        .iter()
        .map(|(name, value)| format!("{name:7}  {}\n", visible(value)))
        .collect()
    }
}
