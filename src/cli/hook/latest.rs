//! Which of several waiters is the latest: each writes a word of its own into a file, and goes on as long as that stands there.
//!
//! The files are in the runtime directory, and named by the process that the waiters wait for.

use std::path::{Path, PathBuf};

use crate::process::Process;
use crate::server::runtime_directory;

/// What stands in such a file.
#[derive(Debug)]
pub(super) struct Latest {
    /// None where nothing can be written down, and all of them go on.
    file: Option<PathBuf>,
    own: String,
}

impl Latest {
    pub fn new(file: Option<PathBuf>, own: String) -> Self {
        Self { file, own }
    }

    /// Takes note that this one is it. Tells whether that is written down; if not, it goes on whatever stands there.
    pub fn write(&mut self) -> bool {
        let written = |file: &PathBuf| {
            // Whole or not at all: what is half there would end the others.
            let mut beside = file.clone().into_os_string();
            beside.push(format!(".{}", std::process::id()));
            let done = std::fs::write(&beside, &self.own).and_then(|()| std::fs::rename(&beside, file));
            if done.is_err() {
                let _removed = std::fs::remove_file(&beside);
            }
            done.is_ok()
        };
        self.file = self.file.take().filter(written);
        self.file.is_some()
    }

    /// Tells whether it is still.
    pub fn is_still(&self) -> bool {
        let latest = self.file.as_deref().map(std::fs::read_to_string);
        latest
            .and_then(Result::ok)
            .is_none_or(|latest| latest == self.own)
    }

    /// Removes the file, where no other has written there.
    pub fn remove(&self) {
        if let Some(file) = self.file.as_deref().filter(|_| self.is_still()) {
            // It may be gone already.
            let _removed = std::fs::remove_file(file);
        }
    }
}

/// Names the file of a program's process, one of several where there is an `of`. Removes those of processes that have ended: their waiters
/// may have been ended before they could.
pub(super) fn file(program: &str, process: &Process, of: Option<&str>) -> Option<PathBuf> {
    let directory = runtime_directory().ok()?;
    remove_ended(&directory, program);
    let process = process.name();
    let of = of.map(|of| format!("@{of}")).unwrap_or_default();
    Some(directory.join(format!("{program}-{process}{of}")))
}

fn remove_ended(directory: &Path, program: &str) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| process_of(name, program));
        if process.is_some_and(|process| !process.is_alive()) {
            // Another may have removed it.
            let _removed = std::fs::remove_file(entry.path());
        }
    }
}

/// Finds the process of which a file of a program tells.
fn process_of(name: &str, program: &str) -> Option<Process> {
    let named = name.strip_prefix(program)?.strip_prefix('-')?;
    let end = named.find(['@', '.']).unwrap_or(named.len());
    Process::named(&named[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latest(directory: &Path, own: &str) -> Latest {
        let mut latest = Latest::new(Some(directory.join("claude-1")), own.to_owned());
        latest.write();
        latest
    }

    #[test]
    fn the_latest_is_the_one_that_wrote_last_and_only_that_removes_the_file() {
        let directory = tempfile::tempdir().expect("there is room");
        let [first, second] = ["1", "2"].map(|own| latest(directory.path(), own));
        assert!(!first.is_still() && second.is_still());
        let files = || std::fs::read_dir(directory.path()).expect("it is there").count();
        first.remove();
        assert_eq!(files(), 1);
        second.remove();
        assert_eq!(files(), 0);
        assert!(first.is_still(), "nobody says another");
    }

    #[test]
    fn where_nothing_can_be_written_down_all_go_on() {
        let directory = tempfile::tempdir().expect("there is room");
        let nowhere = directory.path().join("none");
        let [first, second] = ["1", "2"].map(|own| latest(&nowhere, own));
        assert!(first.is_still() && second.is_still());
    }

    #[test]
    fn the_files_of_processes_that_have_ended_go_and_all_others_stay() {
        let directory = tempfile::tempdir().expect("there is room");
        let mut ended = std::process::Command::new("true").spawn().expect("it starts");
        let gone = Process::of(ended.id().to_string()).name();
        ended.wait().expect("it ends");
        let own = Process::of(std::process::id().to_string()).name();
        let stay = [
            format!("claude-{own}"),
            format!("claude-{own}@localhost:7331"),
            format!("codex-{gone}"),
            "claude".to_owned(),
            "7331.json".to_owned(),
        ];
        let go = [
            format!("claude-{gone}"),
            format!("claude-{gone}@localhost:7331"),
            format!("claude-{gone}@localhost:7331.12"),
        ];
        for name in stay.iter().chain(&go) {
            std::fs::write(directory.path().join(name), "").expect("there is room");
        }
        remove_ended(directory.path(), "claude");
        for name in &stay {
            assert!(directory.path().join(name).exists(), "{name}");
        }
        for name in &go {
            assert!(!directory.path().join(name).exists(), "{name}");
        }
    }

    #[test]
    fn a_note_that_cannot_be_put_in_its_place_leaves_nothing_behind() {
        let directory = tempfile::tempdir().expect("there is room");
        std::fs::create_dir(directory.path().join("claude-1")).expect("there is room");
        let latest = latest(directory.path(), "1");
        assert!(latest.is_still());
        let files = std::fs::read_dir(directory.path()).expect("it is there");
        assert_eq!(files.count(), 1);
    }
}
