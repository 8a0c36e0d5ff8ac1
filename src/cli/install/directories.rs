//! Where the files and the programs of editors are on this machine, as the environment says.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::editors::{Editor, Place, Root};

/// Where the editors' files are for who calls the command.
#[derive(Debug, Clone)]
pub struct Directories {
    /// The directory that the command is called in.
    pub project: PathBuf,
    home: PathBuf,
    claude: Option<PathBuf>,
    codex: Option<PathBuf>,
    config: Option<PathBuf>,
}

impl Directories {
    /// Finds them as the environment says; none without a `HOME` that is absolute. An empty variable says nothing, and a relative path
    /// counts from the project.
    pub fn by(project: PathBuf, variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let named = |name| variable(name).filter(|value| !value.is_empty());
        let path = |name| named(name).map(|value| project.join(value));
        Some(Self {
            home: named("HOME")
                .map(PathBuf::from)
                .filter(|home| home.is_absolute())?,
            claude: path("CLAUDE_CONFIG_DIR"),
            codex: path("CODEX_HOME"),
            config: named("XDG_CONFIG_HOME")
                .map(PathBuf::from)
                .filter(|config| config.is_absolute()),
            project,
        })
    }

    /// Returns the path of a file or a directory.
    pub fn path(&self, Place(root, relative): Place) -> PathBuf {
        let root = self.root(root);
        if relative.is_empty() {
            root
        } else {
            root.join(relative)
        }
    }

    /// Returns what the path of a file counts from.
    pub fn root(&self, root: Root) -> PathBuf {
        let config = || self.config.clone().unwrap_or_else(|| self.home.join(".config"));
        match root {
            Root::Project => self.project.clone(),
            Root::Home => self.home.clone(),
            Root::BesideClaude => self.claude.clone().unwrap_or_else(|| self.home.clone()),
            Root::Claude => self.claude.clone().unwrap_or_else(|| self.home.join(".claude")),
            Root::Codex => self.codex.clone().unwrap_or_else(|| self.home.join(".codex")),
            Root::Config => config(),
            Root::Application if cfg!(target_os = "macos") => self.home.join("Library/Application Support"),
            Root::Application => config(),
        }
    }

    /// Tells whether something shows that an editor is used.
    pub fn has_traces(&self, editor: &Editor) -> bool {
        editor.traces.iter().any(|trace| self.path(*trace).is_dir())
    }
}

/// Finds a program as a shell does.
pub fn program(name: &str, path: Option<OsString>) -> Option<PathBuf> {
    let directories = path?;
    let mut candidates = std::env::split_paths(&directories).map(|directory| directory.join(name));
    candidates.find(|candidate| is_program(candidate))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
