//! Where a worker's log and socket are: in the data directory, project by project, for this user alone.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::limits::ENDED_MAX;
use crate::engine::AgentName;

/// The directory of workers in that of their project.
const WORKERS: &str = "workers";

/// How the names end of what a worker has written last.
const LOG: &str = ".log";

/// And of what it has written before that.
const LOG_BEFORE: &str = ".log.1";

/// And of its socket.
const SOCKET: &str = ".sock";

/// And of the file by which one at a time has a worker's name.
const LOCK: &str = ".lock";

/// The files of one worker. They stay when it has ended, until another one is given its name, or [so many](ENDED_MAX) have ended since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    #[serde(with = "super::path")]
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
        self.with(LOG)
    }

    /// What it has written before that.
    pub fn log_before(&self) -> PathBuf {
        self.with(LOG_BEFORE)
    }

    /// Where its supervisor takes those who attach.
    pub fn socket(&self) -> PathBuf {
        self.with(SOCKET)
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
        let path = self.with(LOCK);
        loop {
            let file = options.open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Whoever had it before may have removed it, and it says nothing of the name any more.
            let (locked, there) = (file.metadata()?, std::fs::metadata(&path));
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (locked.dev(), locked.ino())) {
                return Ok(Some(file));
            }
        }
    }

    /// Removes what is left of workers of a project that have ended, but for the [`ENDED_MAX`] that have written last. Of one that runs, be it
    /// another relay's, nothing is removed.
    ///
    /// # Errors
    ///
    /// The system's, when it does not take one of them away.
    pub fn remove_ended(project: &Path) -> io::Result<()> {
        let all = names_in(&project.join(WORKERS))?.into_iter();
        let all = all.map(|name| Self::of(project, &name));
        let mut ended: Vec<_> = all.filter(|files| !files.is_running()).collect();
        ended.sort_by_cached_key(|files| std::cmp::Reverse(files.written_at()));
        ended.iter().skip(ENDED_MAX).try_for_each(Self::remove)
    }

    /// When something was written last; none if there is no log.
    fn written_at(&self) -> Option<SystemTime> {
        let logs = [self.log(), self.log_before()].into_iter();
        let times = logs.filter_map(|log| log.metadata().ok()?.modified().ok());
        times.max()
    }

    /// Removes them, unless another worker has been given the name.
    fn remove(&self) -> io::Result<()> {
        let Some(_is_ours) = self.lock()? else {
            return Ok(());
        };
        // That by which it is ours goes last.
        for suffix in [LOG, LOG_BEFORE, SOCKET, LOCK] {
            match std::fs::remove_file(self.with(suffix)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// The names of workers that have files in a directory.
fn names_in(directory: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let file = entry?.file_name();
        let suffixes = [LOG, LOG_BEFORE, SOCKET, LOCK].into_iter();
        let found = suffixes
            .filter_map(|suffix| file.to_str()?.strip_suffix(suffix))
            .next();
        // The names of others' files are no agents'.
        let is_name = |name: &&str| AgentName::new(name).is_ok();
        names.extend(found.filter(is_name).map(str::to_owned));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_has_ended_is_kept_as_far_as_it_is_new_and_what_runs_always() {
        let project = tempfile::tempdir().expect("a directory");
        let project = project.path();
        assert!(Files::remove_ended(project).is_ok(), "there is nothing yet");
        let written = |name: &str, seconds| {
            let files = Files::of(project, name);
            files.make_directory().expect("it is ours");
            for log in [files.log(), files.log_before()] {
                let file = File::create(log).expect("there is room");
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
                file.set_modified(time).expect("it is ours");
            }
            files
        };
        // One that has long been silent, and two that have written last: none of them takes the place of one that has ended.
        let runs = [("runs", 1), ("busy", 1_000), ("busier", 1_001)].map(|(name, at)| written(name, at));
        let _locks = runs.each_ref().map(|runs| {
            let lock = runs.lock().expect("there is room");
            lock.expect("nobody has it")
        });
        let all: Vec<Files> = (0..ENDED_MAX as u64 + 3)
            .map(|number| written(&format!("w{number}"), 100 + number))
            .collect();
        for suffix in [SOCKET, LOCK] {
            std::fs::write(all[0].with(suffix), "").expect("there is room");
        }
        std::fs::write(Files::of(project, "killed").with(LOCK), "").expect("there is room");
        let others = project.join(WORKERS).join("not a name.log");
        std::fs::write(&others, "").expect("there is room");
        Files::remove_ended(project).expect("it is ours");
        let mut expected: BTreeSet<String> = all[3..].iter().map(|files| files.name.clone()).collect();
        expected.extend(runs.iter().map(|files| files.name.clone()));
        assert_eq!(names_in(&project.join(WORKERS)).expect("it is there"), expected);
        assert!(runs.iter().all(|runs| runs.log().exists()) && others.exists());
    }

    #[test]
    fn one_at_a_time_has_a_name_also_while_locks_are_removed() {
        let project = tempfile::tempdir().expect("a directory");
        let files = Files::of(project.path(), "a");
        files.make_directory().expect("it is ours");
        let is_held = std::sync::atomic::AtomicBool::new(false);
        let hold = || {
            for _ in 0..3_000 {
                let Some(_lock) = files.lock().expect("there is room") else {
                    continue;
                };
                assert!(!is_held.swap(true, std::sync::atomic::Ordering::SeqCst));
                is_held.store(false, std::sync::atomic::Ordering::SeqCst);
                // As `remove` does, which does nothing more then.
                std::fs::remove_file(files.with(LOCK)).expect("it is there");
            }
        };
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(hold);
            }
        });
    }

    #[test]
    fn a_worker_has_written_last_when_the_later_of_its_logs_was_written() {
        let project = tempfile::tempdir().expect("a directory");
        let project = project.path();
        let written = |name: &str, log: u64, before: u64| {
            let files = Files::of(project, name);
            files.make_directory().expect("it is ours");
            for (path, seconds) in [(files.log(), log), (files.log_before(), before)] {
                let file = File::create(path).expect("there is room");
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
                file.set_modified(time).expect("it is ours");
            }
        };
        written("latest", 10_000, 1);
        for number in 0..ENDED_MAX as u64 {
            written(&format!("w{number}"), 100 + number, 100 + number);
        }
        Files::remove_ended(project).expect("it is ours");
        let left = names_in(&project.join(WORKERS)).expect("it is there");
        assert!(left.contains("latest") && !left.contains("w0"), "{left:?}");
        assert_eq!(left.len(), ENDED_MAX);
    }

    #[test]
    fn a_worker_has_run_or_runs_where_any_one_of_its_files_is_there() {
        for suffix in [LOG, LOG_BEFORE, SOCKET] {
            let project = tempfile::tempdir().expect("a directory");
            let files = Files::of(project.path(), "a");
            files.make_directory().expect("it is ours");
            assert!(!files.has_run(), "not yet");
            std::fs::write(files.with(suffix), "").expect("there is room");
            assert!(files.has_run(), "{suffix}");
        }
    }

    #[test]
    fn a_directory_that_is_linked_or_that_a_group_can_look_into_is_not_used() {
        let project = tempfile::tempdir().expect("a directory");
        let files = Files::of(project.path(), "a");
        let (workers, elsewhere) = (project.path().join(WORKERS), project.path().join("elsewhere"));
        let allow = |path: &Path, mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(path, mode).expect("it is ours");
        };
        let is_refused = || {
            let refused = files.make_directory().err().map(|error| error.to_string());
            refused.is_some_and(|refused| refused.ends_with("that only this user can look into"))
        };
        std::fs::create_dir(&elsewhere).expect("there is room");
        allow(&elsewhere, 0o700);
        std::os::unix::fs::symlink(&elsewhere, &workers).expect("a link");
        assert!(is_refused(), "it leads elsewhere");
        std::fs::remove_file(&workers).expect("it is there");
        std::fs::create_dir(&workers).expect("there is room");
        for mode in [0o750, 0o710, 0o701] {
            allow(&workers, mode);
            assert!(is_refused(), "{mode:o}");
        }
        allow(&workers, 0o700);
        assert!(!is_refused());
    }
}
