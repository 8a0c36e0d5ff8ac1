//! What `.relay/config.json` says of workers, as `{"workers": {...}}`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Cli;

/// What is accepted, as errors say it.
const ACCEPTED: &str = "accepted: {\"workers\": {\"directories\": [PATH], \"CLI\": {\"command\": [PROGRAM, ARGUMENT], \"arguments\": [ARGUMENT], \
                        \"env\": {NAME: VALUE}}}}, where CLI is claude, codex, gemini, droid or opencode";

/// What is said of workers. Without a file nothing is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Directories in which workers may work beside relay's own.
    pub directories: Vec<PathBuf>,
    claude: Option<Override>,
    codex: Option<Override>,
    gemini: Option<Override>,
    droid: Option<Override>,
    opencode: Option<Override>,
}

/// What is other in a CLI's command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Override {
    /// The program, by name or path, and what follows it before relay's own arguments.
    pub command: Option<Vec<String>>,
    /// What stands in place of relay's own arguments; see [`super::table`] for what is put in place of `{prompt}` and the like.
    pub arguments: Option<Vec<String>>,
    /// What is set in its environment.
    pub env: BTreeMap<String, String>,
}

/// The whole file; what else is in it is of others.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Whole {
    workers: Config,
}

/// A file is not as it should be. No worker is started by what is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}; {ACCEPTED}", file.display())]
pub struct ConfigError {
    file: PathBuf,
    reason: String,
}

impl Config {
    /// Takes what is in a file; its paths count from the directory that holds `.relay`.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: it is no JSON, or says something else of workers.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self, ConfigError> {
        let flawed = |reason: String| ConfigError {
            file: file.to_owned(),
            reason,
        };
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let whole: Result<Whole, _> = serde_path_to_error::deserialize(&mut json);
        let mut config = whole
            .map_err(|error| flawed(format!("{}: {}", error.path(), error.inner())))?
            .workers;
        for cli in Cli::ALL {
            let command = config.of(cli).and_then(|other| other.command.as_deref());
            if command.is_some_and(|command| command.first().is_none_or(String::is_empty)) {
                return Err(flawed(format!("workers.{cli}.command names no program")));
            }
        }
        let base = file.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        for directory in &mut config.directories {
            *directory = base.join(&*directory);
        }
        Ok(config)
    }

    /// Returns what is other for a CLI.
    pub fn of(&self, cli: Cli) -> Option<&Override> {
        match cli {
            Cli::Claude => self.claude.as_ref(),
            Cli::Codex => self.codex.as_ref(),
            Cli::Gemini => self.gemini.as_ref(),
            Cli::Droid => self.droid.as_ref(),
            Cli::Opencode => self.opencode.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let file = Path::new("/project/.relay/config.json");
        Config::parse(file, text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_said_of_workers_is_read_and_all_else_is_left_to_others() {
        let config = parse(
            r#"{"project": "a", "workers": {"directories": ["../b", "/c"], "codex": {"command": ["codex-2", "-x"], "env": {"A": "1"}}}}"#,
        )
        .expect("it is good");
        assert_eq!(
            config.directories,
            [PathBuf::from("/project/../b"), PathBuf::from("/c")]
        );
        let codex = config.of(Cli::Codex).expect("it is there");
        assert_eq!(
            codex.command.as_deref(),
            Some(["codex-2", "-x"].map(str::to_owned).as_slice())
        );
        assert_eq!(codex.env["A"], "1");
        assert_eq!(config.of(Cli::Claude), None);
        assert_eq!(parse("{}"), Ok(Config::default()));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_accepted() {
        for (text, reason) in [
            ("[", "EOF while parsing"),
            (r#"{"workers": 1}"#, "workers: invalid type: integer"),
            (r#"{"workers": {"cursor": {}}}"#, "workers.cursor: unknown field"),
            (
                r#"{"workers": {"claude": {"command": "claude"}}}"#,
                "workers.claude.command: invalid type: string",
            ),
            (
                r#"{"workers": {"claude": {"command": []}}}"#,
                "workers.claude.command names no program",
            ),
        ] {
            let said = parse(text).expect_err(text);
            assert!(said.starts_with("/project/.relay/config.json: "), "{said}");
            assert!(said.contains(reason) && said.contains("; accepted: {"), "{said}");
        }
    }
}
