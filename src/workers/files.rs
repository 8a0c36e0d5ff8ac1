//! Where a worker's log and socket are: in the data directory, project by project, for this user alone.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The directory of workers in that of their project.
const WORKERS: &str = "workers";

/// How the name of the file ends by which one at a time has a worker's name.
const LOCK: &str = ".lock";

/// The files of one worker. They stay when it has ended, until another one is given its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    directory: PathBuf,
    name: String,
}

impl Files {
    /// Those of the worker of a name, by the directory of its project. The name is an agent's, so that it is one of a file too.
    pub fn of(project: &Path, name: &str) -> Self {
        Self {
            directory: project.join(WORKERS),
            name: name.to_owned(),
        }
    }

    /// The name of the worker.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the worker has written last.
    pub fn log(&self) -> PathBuf {
        self.with(".log")
    }

    /// What it has written before that.
    pub fn log_before(&self) -> PathBuf {
        self.with(".log.1")
    }

    /// Where its supervisor takes those who attach.
    pub fn socket(&self) -> PathBuf {
        self.with(".sock")
    }

    /// Tells whether a worker of the name has run, or runs.
    pub fn has_run(&self) -> bool {
        self.log().exists() || self.log_before().exists() || self.socket().exists()
    }

    /// Tells whether a worker of the name runs: its supervisor has the lock.
    pub fn is_running(&self) -> bool {
        let lock = File::open(self.with(LOCK));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    fn with(&self, suffix: &str) -> PathBuf {
        self.directory.join(format!("{}{suffix}", self.name))
    }

    /// Makes the directory, which nobody else can look into.
    pub(super) fn make_directory(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        let found = std::fs::symlink_metadata(&self.directory)?;
        let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
        if is_ours && found.mode() & 0o077 == 0 {
            return Ok(());
        }
        let reason = format!(
            "{} is not a directory that only this user can look into",
            self.directory.display()
        );
        Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
    }

    /// Takes the lock of who has the name; none if somebody has it.
    pub(super) fn lock(&self) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.with(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
