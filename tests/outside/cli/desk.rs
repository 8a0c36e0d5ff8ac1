//! A person's home and project, in which relay is installed and nothing of the machine's is found.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::PATIENCE;
use crate::support::process::command_of;

/// The program as a shell is told it.
pub const RELAY: &str = env!("CARGO_BIN_EXE_relay");

/// A home and a project, with nothing in them.
pub struct Desk {
    _directory: tempfile::TempDir,
    pub home: PathBuf,
    pub project: PathBuf,
}

impl Desk {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let top = directory.path().canonicalize().expect("it is there");
        let (home, project) = (top.join("home"), top.join("project"));
        for made in [&home, &project] {
            fs::create_dir(made).expect("a directory");
        }
        Self {
            _directory: directory,
            home,
            project,
        }
    }

    /// Makes a call in the project, with nothing on PATH.
    pub fn relay(&self, arguments: &[&str]) -> assert_cmd::Command {
        self.call(Path::new(RELAY), arguments)
    }

    /// Makes a call of a relay that lies elsewhere, in the same way.
    pub fn call(&self, relay: &Path, arguments: &[&str]) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::from_std(command_of(relay));
        command.args(arguments).timeout(PATIENCE);
        command.current_dir(&self.project).env("HOME", &self.home);
        command.env("PATH", self.home.join("bin"));
        for variable in [
            "XDG_DATA_HOME",
            "XDG_CONFIG_HOME",
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "GEMINI_RESTRICTED_MODE",
            "GEMINI_CLI_TRUST_WORKSPACE",
            "GEMINI_CLI_TRUSTED_FOLDERS_PATH",
        ] {
            command.env_remove(variable);
        }
        command
    }

    /// Writes a file, and the directories above it.
    pub fn write(&self, path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("it lies in a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    /// All files of both, but for relay's own, with what is in them.
    pub fn files(&self) -> Vec<(PathBuf, String)> {
        let mut files = Vec::new();
        let mut directories = vec![self.home.clone(), self.project.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("it is there") {
                let path = entry.expect("it is there").path();
                if path.is_dir() && !path.ends_with(".local") {
                    directories.push(path);
                } else if path.is_file() {
                    let text = fs::read_to_string(&path).expect("it is text");
                    files.push((path, text));
                }
            }
        }
        files.sort();
        files
    }

    pub fn json(&self, path: &Path) -> Value {
        let text = fs::read_to_string(path).expect("it is there");
        serde_json::from_str(&text).expect("it is JSON")
    }

    pub fn backup(&self, path: &Path) -> PathBuf {
        let path = path.strip_prefix("/").expect("it is absolute");
        self.home.join(".local/share/relay/backups").join(path)
    }
}
