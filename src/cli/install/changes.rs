//! The changes of files that were worked out: each file once, made one after the other, or shown.

use std::io::{self, IsTerminal as _};

use similar::TextDiff;

use super::backup::Backup;
use super::file::{self, FileError};
use super::plan::{Change, Target};
use super::{InstallError, Which};
use crate::cli::messages::write_stdout;
use crate::cli::project::DataDirectory;
use crate::cli::say;
use crate::terminal::{visible, visible_lines};

/// Returns all changes, or all that stands in their way.
pub fn all(planned: impl Iterator<Item = Result<Change, FileError>>) -> Result<Vec<Change>, InstallError> {
    let (mut changes, mut errors) = (Vec::new(), Vec::new());
    for planned in planned {
        match planned {
            Ok(change) => changes.push(change),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        return once(changes);
    }
    Err(InstallError::Planned(errors))
}

/// Returns the changes of each file once, where links lead several editors to one.
fn once(changes: Vec<Change>) -> Result<Vec<Change>, InstallError> {
    let mut once: Vec<Change> = Vec::new();
    for change in changes {
        let path = file::real(&change.target.path);
        let known = once.iter().find(|known| file::real(&known.target.path) == path);
        match known {
            None => once.push(change),
            Some(known) if known.new == change.new => {}
            Some(known) => {
                return Err(InstallError::Shared {
                    first: known.target.editor.name,
                    second: change.target.editor.name,
                    path,
                });
            }
        }
    }
    Ok(once)
}

/// Makes the changes one after the other, or shows them. `for_all` is said of a file that counts for all projects, where none such was
/// asked for.
pub fn carry_out(
    changes: &[Change],
    data: &DataDirectory,
    asked: &Which,
    for_all: &str,
) -> Result<(), InstallError> {
    let is_dry = asked.dry_run;
    let mut text = String::new();
    for (at, change) in changes.iter().enumerate() {
        let Target { editor, path, .. } = &change.target;
        let mut shown = visible(&path.to_string_lossy()).into_owned();
        if let Some(end) = change.target.leads_out() {
            shown.push_str(&format!(" (which leads to {})", visible(&end.to_string_lossy())));
        }
        if change.is_left {
            let what = "which is not as this relay puts it in; remove it yourself, unless you want it";
            text.push_str(&if is_dry {
                String::new()
            } else {
                format!("{}: left {shown}, {what}{}\n", editor.name, kept(change))
            });
        } else if change.is_none() {
            let line = format!("{}: {shown} is as it should be\n", editor.name);
            text.push_str(if is_dry { "" } else { &line });
        } else if is_dry {
            text.push_str(&diff(change));
            if !change.left_out.is_empty() {
                say(&format!(
                    "{}: {shown}: would no longer be in {}: {}",
                    editor.name,
                    change.target.parts(),
                    change.left_out.join(", ")
                ));
            }
        } else {
            if let Err(error) = make(change, data) {
                // What was done is told first.
                let _ = write_stdout(&text);
                let paths = |changes: &[Change]| {
                    let changed = changes.iter().filter(|change| !change.is_none());
                    changed.map(|change| change.target.path.clone()).collect()
                };
                return Err(InstallError::Written {
                    error,
                    written: paths(&changes[..at]),
                    left: paths(&changes[at + 1..]),
                });
            }
            let has_no_project = editor.servers.project.is_none();
            let for_all = if has_no_project && !asked.global {
                for_all
            } else {
                ""
            };
            text.push_str(&format!("{}: {}{for_all}\n", editor.name, done(change, &shown)));
        }
    }
    // It is done, whoever reads that.
    let _ = write_stdout(&text);
    Ok(())
}

fn make(change: &Change, data: &DataDirectory) -> Result<(), FileError> {
    let path = &change.target.path;
    let Backup {
        aside,
        made,
        dropped,
        told: _,
    } = &change.backup;
    if let Some((from, to)) = aside {
        file::set_aside(path, from, to)?;
    }
    if let (Some(at), Some(was)) = (made, &change.was) {
        file::keep(path, was, at)?;
    }
    match (&change.was, &change.new) {
        (was, Some(new)) => {
            let missing = file::missing(path);
            file::write(path, was.as_ref(), new)?;
            file::mark(&missing, &data.made());
        }
        (Some(was), None) => {
            file::remove(path, was)?;
            file::remove_empty(path, &data.made());
        }
        (None, None) => {}
    }
    if let Some(backup) = dropped {
        // It is the file itself by now.
        let _ = std::fs::remove_file(backup);
    }
    Ok(())
}

fn done(change: &Change, shown: &str) -> String {
    let mut text = match (&change.was, &change.new) {
        (_, None) => format!("removed {shown}, in which nothing else was"),
        (None, Some(_)) => format!("made {shown}"),
        (Some(_), Some(_)) if change.is_as_before => {
            format!("changed {shown}, which is as it was before install")
        }
        (Some(_), Some(_)) => format!("changed {shown}"),
    };
    text.push_str(&kept(change));
    if !change.left_out.is_empty() {
        text.push_str(&format!(
            "; no longer in {}: {}",
            change.target.parts(),
            change.left_out.join(", ")
        ));
    }
    text
}

/// Says where what was in a file is kept.
fn kept(change: &Change) -> String {
    let told = change.backup.told.iter();
    told.map(|(what, path)| format!("; {what}: {}", visible(&path.to_string_lossy())))
        .collect()
}

/// Writes what would be changed as a unified diff.
fn diff(change: &Change) -> String {
    let (old, new) = (change.old_bytes(), change.new.clone());
    let path = change.target.path.to_string_lossy();
    let name = |is_there: bool| if is_there { path.as_ref() } else { "/dev/null" };
    let (before, after) = (name(old.is_some()), name(new.is_some()));
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    let diff = TextDiff::from_lines(&old, &new);
    let text = diff
        .unified_diff()
        .context_radius(3)
        .header(before, after)
        .to_string();
    if io::stdout().is_terminal() {
        return visible_lines(&text);
    }
    text
}
