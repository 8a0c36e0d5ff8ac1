//! What becomes of what is kept of a file when it is changed.

use std::path::PathBuf;

use super::file::{self, Whole};

/// What becomes of what is kept of a file. What is kept is never written over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backup {
    /// What was kept before is kept under another name, the second one.
    pub aside: Option<(PathBuf, PathBuf)>,
    /// The file is kept there as it is now.
    pub made: Option<PathBuf>,
    /// What was kept there is in the file, and goes.
    pub dropped: Option<PathBuf>,
    /// What is said of it, each with the place.
    pub told: Vec<(&'static str, PathBuf)>,
}

impl Backup {
    /// Keeps a file there as it is now.
    pub fn made(at: PathBuf) -> Self {
        Self::default().and_made("as it was", at)
    }

    /// Keeps a file as it is now before what is a first change again, and sets aside what was kept of it before.
    pub fn anew(at: PathBuf, was: &Whole, kept: &Whole) -> Self {
        if was == kept {
            return Self::made(at);
        }
        let aside = file::beside(&at, kept);
        let mut backup = Self::made(at.clone());
        backup
            .told
            .push(("what was kept of an earlier one", aside.clone()));
        backup.aside = Some((at, aside));
        backup
    }

    /// Sets aside what is kept of a file that is gone: it is not what was there before the one that is made now.
    pub fn of_one_that_is_gone(at: PathBuf, kept: &Whole) -> Self {
        let aside = file::beside(&at, kept);
        Self {
            told: vec![("what was kept of an older one", aside.clone())],
            aside: Some((at, aside)),
            ..Self::default()
        }
    }

    /// Leaves what was kept there.
    pub fn still_kept(at: PathBuf) -> Self {
        Self {
            told: vec![("as it was before install", at)],
            ..Self::default()
        }
    }

    /// Removes what was kept there.
    pub fn dropped(at: PathBuf) -> Self {
        Self {
            dropped: Some(at),
            ..Self::default()
        }
    }

    /// Keeps a file as well as it is now.
    pub fn and_made(mut self, what: &'static str, at: PathBuf) -> Self {
        self.told.push((what, at.clone()));
        self.made = Some(at);
        self
    }
}
