//! A project's name, and where this user's relay of that project has its unix socket. It touches no file.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::engine::{DEFAULT_PROJECT, InvalidName, check_name};

/// The directory of the data directory that holds a directory for each project.
const PROJECTS: &str = "projects";

/// The directory of the data directory that holds what other programs' files were before relay changed them.
const BACKUPS: &str = "backups";

/// The directory of the data directory that says which directories relay has made for other programs' files.
const MADE: &str = "made";

/// The program in the data directory that is named in other programs' files where the one that installed does not last.
const PROGRAM: &str = "bin/relay";

/// The name of the socket in a project's directory.
const SOCKET: &str = "relay.sock";

/// The name of a project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Project(String);

impl Default for Project {
    /// The project of a relay that was given no other.
    fn default() -> Self {
        Self(DEFAULT_PROJECT.to_owned())
    }
}

impl FromStr for Project {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        check_name("project", text)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Project {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Project {
    /// Returns it as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// relay's part of the directory in which this user's programs keep their data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDirectory(PathBuf);

impl DataDirectory {
    /// Finds it as the environment says: `$XDG_DATA_HOME/relay`; without that `~/.local/share/relay`, on macOS
    /// `~/Library/Application Support/relay`. None where there is no `HOME` either. A path that is not absolute is none.
    /// <https://specifications.freedesktop.org/basedir-spec/latest/>
    pub fn by(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let absolute = |name| {
            variable(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let below_home = if cfg!(target_os = "macos") {
            "Library/Application Support"
        } else {
            ".local/share"
        };
        let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(below_home)));
        data.map(|data| Self(data.join("relay")))
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Returns where the relay of a project has its socket.
    pub fn socket(&self, project: &Project) -> PathBuf {
        self.project(project).join(SOCKET)
    }

    /// Returns the directory of a project.
    pub fn project(&self, project: &Project) -> PathBuf {
        self.projects().join(&project.0)
    }

    /// Returns the directory that holds a directory for each project.
    pub fn projects(&self) -> PathBuf {
        self.0.join(PROJECTS)
    }

    /// Returns the projects that have a directory there, by name; none if it cannot be read.
    pub fn projects_there(&self) -> Vec<Project> {
        let entries = std::fs::read_dir(self.projects()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name());
        let mut projects: Vec<Project> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
        projects.sort();
        projects
    }

    /// Returns where a copy of this program is that lasts.
    pub fn program(&self) -> PathBuf {
        self.0.join(PROGRAM)
    }

    /// Returns where a file is kept as it was before relay changed it: by its whole path.
    pub fn backup(&self, file: &Path) -> PathBuf {
        let file = file.strip_prefix("/").unwrap_or(file);
        self.0.join(BACKUPS).join(file)
    }

    /// Returns where it is written down which directories relay has made for other programs' files.
    pub fn made(&self) -> PathBuf {
        self.0.join(MADE)
    }

    /// Returns the project whose relay has its socket there, if it is one's.
    pub fn project_of(&self, socket: &Path) -> Option<Project> {
        let name = socket.parent()?.file_name()?.to_str()?;
        let project = name.parse().ok()?;
        (self.socket(&project) == socket).then_some(project)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_up_to_32_letters_digits_dashes_and_underscores() {
        let longest = "x".repeat(32);
        for good in ["a", "7", "default", "My-Project_2", &longest] {
            assert_eq!(good.parse::<Project>().expect(good).to_string(), good);
        }
        let too_long = "x".repeat(33);
        for taken in ["everyone", "agent"] {
            assert!(
                taken.parse::<Project>().is_err(),
                "{taken} means something in an address"
            );
        }
        for bad in ["", "-a", "_a", ".", "..", "a/b", "a b", "ä", "a.b", &too_long] {
            let said = bad.parse::<Project>().expect_err(bad).to_string();
            assert!(said.contains("1 to 32 of A-Z, a-z, 0-9"), "{said}");
        }
    }

    #[test]
    fn the_environment_says_where_sockets_are() {
        let by = |variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            DataDirectory::by(variable).map(|data| data.socket(&Project::default()))
        };
        let home = if cfg!(target_os = "macos") {
            "/home/a/Library/Application Support/relay/projects/default/relay.sock"
        } else {
            "/home/a/.local/share/relay/projects/default/relay.sock"
        };
        for (variables, expected) in [
            (
                vec![("XDG_DATA_HOME", "/data"), ("HOME", "/home/a")],
                Some("/data/relay/projects/default/relay.sock"),
            ),
            (vec![("HOME", "/home/a")], Some(home)),
            (vec![("XDG_DATA_HOME", ""), ("HOME", "/home/a")], Some(home)),
            (vec![("XDG_DATA_HOME", "data"), ("HOME", "/home/a")], Some(home)),
            (vec![("HOME", "")], None),
            (vec![], None),
        ] {
            assert_eq!(by(&variables), expected.map(PathBuf::from), "{variables:?}");
        }
    }

    #[test]
    fn a_socket_of_a_project_is_known_by_its_place() {
        let data = DataDirectory(PathBuf::from("/data/relay"));
        let project: Project = "a".parse().expect("a name");
        assert_eq!(data.project_of(&data.socket(&project)), Some(project));
        for other in ["/data/relay/projects/a/other.sock", "/tmp/a/relay.sock", "/"] {
            assert_eq!(data.project_of(Path::new(other)), None, "{other}");
        }
    }
}
