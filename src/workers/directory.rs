//! Where a worker may work: inside relay's own directory, or one that `.relay/config.json` names.

use std::path::{Path, PathBuf};

use super::Config;

/// The directories inside of which workers may work.
#[derive(Debug)]
pub struct Directories<'a> {
    /// In which relay was started.
    pub relay: &'a Path,
    /// What is said of workers.
    pub config: &'a Config,
}

/// Why a worker may not work there. It was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// It is not there, or cannot be looked at.
    #[error("cwd {}: {reason}; accepted: a directory that is there", path.display())]
    NotThere {
        /// As it was asked for.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// It is somewhere else.
    #[error(
        "cwd {} is outside of where workers may work: {}; name it under workers.directories in .relay/config.json of the directory that relay runs in, {}, to allow it",
        path.display(),
        listed(allowed),
        relay.display()
    )]
    Outside {
        /// Where it is in the end.
        path: PathBuf,
        /// Where it would have to be.
        allowed: Vec<PathBuf>,
        /// Where relay runs.
        relay: PathBuf,
    },
}

impl Directories<'_> {
    /// Finds the directory of a worker: the one that is wanted, which counts from its parent's where that is known, else that, else
    /// relay's own. Links are followed first.
    ///
    /// # Errors
    ///
    /// [`DirectoryError`]: it is none, or not inside of those.
    pub fn of_worker(&self, wanted: Option<&str>, parent: Option<&Path>) -> Result<PathBuf, DirectoryError> {
        let base = parent.unwrap_or(self.relay);
        let path = wanted.map_or_else(|| base.to_owned(), |wanted| base.join(wanted));
        let not_there = |reason: String| DirectoryError::NotThere {
            path: path.clone(),
            reason,
        };
        let found = path
            .canonicalize()
            .map_err(|error| not_there(error.to_string()))?;
        if !found.is_dir() {
            return Err(not_there("it is no directory".to_owned()));
        }
        let more = self.config.directories.iter().map(PathBuf::as_path);
        // One that is not there allows nothing.
        let allowed = std::iter::once(self.relay).chain(more);
        let allowed: Vec<PathBuf> = allowed.filter_map(|path| path.canonicalize().ok()).collect();
        if allowed.iter().any(|allowed| found.starts_with(allowed)) {
            return Ok(found);
        }
        let relay = self.relay.to_owned();
        Err(DirectoryError::Outside {
            path: found,
            allowed,
            relay,
        })
    }
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_works_inside_of_relays_directory_or_one_that_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("it is there");
        for made in ["relay/sub", "relay-2", "other/sub"] {
            std::fs::create_dir_all(root.join(made)).expect("there is room");
        }
        std::fs::write(root.join("relay/file"), "").expect("there is room");
        std::os::unix::fs::symlink(root.join("other"), root.join("relay/link")).expect("a link");
        let relay = root.join("relay");
        let mut named = Config::default();
        named.directories = vec![root.join("other"), root.join("gone")];
        let none = Config::default();
        let of = |config, wanted, parent| {
            let relay = relay.as_path();
            Directories { relay, config }.of_worker(wanted, parent)
        };
        assert_eq!(of(&none, None, None), Ok(relay.clone()));
        assert_eq!(of(&none, Some("sub"), None), Ok(relay.join("sub")));
        let sub = relay.join("sub");
        assert_eq!(of(&none, None, Some(&sub)), Ok(sub.clone()));
        assert_eq!(of(&none, Some(".."), Some(&sub)), Ok(relay.clone()));
        for outside in ["link", "../relay-2", "/", ".."] {
            let refused = of(&none, Some(outside), None).expect_err(outside).to_string();
            assert!(
                refused.contains("is outside of where workers may work: "),
                "{refused}"
            );
            assert!(
                refused.contains("workers.directories in .relay/config.json"),
                "{refused}"
            );
        }
        assert_eq!(of(&named, Some("link/sub"), None), Ok(root.join("other/sub")));
        for (bad, reason) in [("gone", "No such file"), ("file", "it is no directory")] {
            let refused = of(&none, Some(bad), None).expect_err(bad).to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn a_directory_that_is_named_by_a_link_or_by_dots_is_the_one_that_it_leads_to() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("it is there");
        for made in ["relay", "other/sub"] {
            std::fs::create_dir_all(root.join(made)).expect("there is room");
        }
        std::os::unix::fs::symlink(root.join("other"), root.join("link")).expect("a link");
        let relay = root.join("relay");
        for named in ["link", "relay/../other"] {
            let mut config = Config::default();
            config.directories = vec![root.join(named)];
            let directories = Directories {
                relay: &relay,
                config: &config,
            };
            let found = directories.of_worker(Some("../other/sub"), None);
            assert_eq!(found, Ok(root.join("other/sub")), "{named}");
        }
    }
}
