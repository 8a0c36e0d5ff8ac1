//! Files that are relay's as a whole: put where an editor finds them, and removed again as long as nobody has changed them.

use std::path::PathBuf;

use super::backup::Backup;
use super::content::Content;
use super::file::{self, FileError, Whole};
use super::parts::Parts;
use super::plan::{Change, Target};
use crate::cli::project::DataDirectory;

/// relay's plugin for OpenCode.
pub const OPENCODE: &str = include_str!("../../../plugin/opencode/relay.js");

/// The agent of Claude Code's that waits for messages in the background.
pub const LISTENER: &str = include_str!("../../../plugin/agents/message-listener.md");

/// What a file that is relay's as a whole is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It does what hooks do elsewhere.
    Plugin,
    /// It waits for messages with Thrum's tools.
    Listener,
}

impl What {
    /// How each of them begins, whichever version of relay it is of.
    fn head(self) -> &'static str {
        match self {
            Self::Plugin => "// relay's plugin for ",
            Self::Listener => {
                "---\nname: message-listener\ndescription: Waits in the background for messages that other agents send over relay"
            }
        }
    }

    /// How it is called, for a person.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plugin => "relay's plugin",
            Self::Listener => "relay's listener",
        }
    }
}

/// Reads whether a file is relay's.
pub fn parts(what: What, text: &str) -> Parts {
    Parts {
        whole: text.starts_with(what.head()).then(|| text.to_owned()),
        ..Parts::default()
    }
}

/// Works out what installing makes of a file: it is to be there, or is not wanted. What is there under its name is kept before it is
/// replaced, whether it is somebody else's or relay's own with changes or of another version.
///
/// # Errors
///
/// When the file cannot be read.
pub fn install(
    target: Target,
    data: &DataDirectory,
    what: What,
    own: &'static str,
    is_wanted: bool,
) -> Result<Option<Change>, FileError> {
    if !is_wanted {
        return uninstall(target, data, what, own);
    }
    if let Some(end) = target.leads_out() {
        let path = target.path;
        return Err(FileError::LeadsOut { path, end });
    }
    let was = file::read(&target.path)?;
    let place = data.backup(&file::real(&target.path));
    let kept = file::read(&place)?;
    let is_others = was.is_some() && !is_own(what, was.as_ref());
    if is_others && target.path.is_symlink() {
        let (end, path) = (file::target(&target.path), target.path);
        return Err(FileError::Linked { path, end });
    }
    let backup = match (&was, kept) {
        (Some(was), _) if was.bytes() == own => Backup::default(),
        (Some(was), Some(kept)) if is_others => Backup::anew(place, was, &kept),
        (Some(was), Some(kept)) if *was != kept => Backup::made(file::beside(&place, was)),
        (Some(_), _) => Backup::made(place),
        (None, Some(kept)) => Backup::of_one_that_is_gone(place, &kept),
        (None, None) => Backup::default(),
    };
    Ok(Some(Change::new(target, was, Some(own.to_owned()), backup)))
}

/// Works out what uninstalling makes of a file; nothing if it is not relay's, or not of its project.
///
/// # Errors
///
/// As [`install`].
pub fn uninstall(
    target: Target,
    data: &DataDirectory,
    what: What,
    own: &str,
) -> Result<Option<Change>, FileError> {
    if target.leads_out().is_some() {
        return Ok(None);
    }
    let Some(was) = file::read(&target.path)?.filter(|was| is_own(what, Some(was))) else {
        return Ok(None);
    };
    let place = data.backup(&file::real(&target.path));
    let kept = file::read(&place)?.filter(|kept| !is_own(what, Some(kept)));
    let is_left = was.bytes() != own;
    let is_as_before = kept.is_some() && !is_left;
    let (new, backup) = match kept {
        Some(_) if is_left => (Some(was.bytes()), Backup::still_kept(place)),
        None if is_left => (Some(was.bytes()), Backup::default()),
        Some(kept) => (Some(kept.bytes()), Backup::dropped(place)),
        None => (None, Backup::default()),
    };
    Ok(Some(Change {
        is_left,
        is_as_before,
        ..Change::new(target, Some(was), new, backup)
    }))
}

/// Returns where a file of relay's is to which a link of its project leads: that is for others as well, and stays.
pub fn stays(target: &Target) -> Option<PathBuf> {
    let Content::Whole(what, _) = target.content else {
        return None;
    };
    let end = target.leads_out()?;
    let there = file::read(&target.path).ok()?;
    is_own(what, there.as_ref()).then_some(end)
}

fn is_own(what: What, file: Option<&Whole>) -> bool {
    file.is_some_and(|file| file.text.starts_with(what.head()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_begins_as_relay_knows_it_by() {
        for (what, text) in [(What::Plugin, OPENCODE), (What::Listener, LISTENER)] {
            assert!(text.starts_with(what.head()), "{what:?}: {}", &text[..80]);
        }
    }
}
