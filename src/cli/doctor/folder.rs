//! Whether Gemini CLI trusts the project's folder: elsewhere it reads no settings of the project, runs no hook of it, and starts no MCP server
//! at all. As Gemini CLI 0.61 has it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::install::directories::Directories;
use crate::cli::install::editors::{Place, Root};
use crate::cli::install::file;
use crate::cli::install::json::{self, Json, Step};

/// The folders that the person has been asked about, each with what was answered.
const FOLDERS: Place = Place(Root::Home, ".gemini/trustedFolders.json");

/// The person's settings, in which trust is turned off.
const SETTINGS: Place = Place(Root::Home, ".gemini/settings.json");

/// Tells whether it does; nothing where it does not ask.
pub fn trusted(directories: &Directories, variable: impl Fn(&str) -> Option<OsString>) -> Option<bool> {
    let says = |name: &str, value: &str| variable(name).is_some_and(|said| said == value);
    if says("GEMINI_RESTRICTED_MODE", "true") || says("GEMINI_CLI_TRUST_WORKSPACE", "false") {
        return Some(false);
    }
    if says("GEMINI_CLI_TRUST_WORKSPACE", "true") {
        return Some(true);
    }
    let asks = ["security", "folderTrust", "enabled"].map(Step::Key);
    if value(&directories.path(SETTINGS), &asks) == Some(Json::Plain("false".to_owned())) {
        return None;
    }
    let named = variable("GEMINI_CLI_TRUSTED_FOLDERS_PATH").filter(|path| !path.is_empty());
    let path = named.map_or_else(
        || directories.path(FOLDERS),
        |path| directories.project.join(path),
    );
    let Some(Json::Object(folders)) = value(&path, &[]) else {
        return Some(false);
    };
    Some(is_trusted(&real(&directories.project), &folders))
}

/// Of the folders that the project is in, the one counts whose name is the longest.
fn is_trusted(project: &Path, folders: &[(String, Json)]) -> bool {
    let holds = |(folder, answer): &&(String, Json)| {
        let folder = Path::new(folder);
        let folder = match answer.as_text() {
            Some("TRUST_PARENT") => folder.parent().unwrap_or(folder),
            Some(_) | None => folder,
        };
        project.starts_with(real(folder))
    };
    let longest = folders
        .iter()
        .filter(holds)
        .rev()
        .max_by_key(|(folder, _)| folder.len());
    let answer = longest.and_then(|(_, answer)| answer.as_text());
    matches!(answer, Some("TRUST_FOLDER" | "TRUST_PARENT"))
}

fn value(path: &Path, way: &[Step<'_>]) -> Option<Json> {
    let whole = file::read(path).ok()??;
    json::get(&whole.text, way).ok()?
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_the_folders_around_a_project_says_whether_it_is_trusted() {
        let (trusts, parent, not) = ("TRUST_FOLDER", "TRUST_PARENT", "DO_NOT_TRUST");
        for (folders, expected) in [
            (&[][..], false),
            (&[("/none/a/b", trusts)], true),
            (&[("/none/a", trusts)], true),
            (&[("/none/a/b/c", trusts)], false),
            (&[("/none/a/b/c", parent)], true),
            (&[("/none/a/bc", trusts)], false),
            (&[("/none/a", not)], false),
            (&[("/none/a", not), ("/none/a/b", trusts)], true),
            (&[("/none/a", trusts), ("/none/a/b", not)], false),
        ] {
            let folders: Vec<(String, Json)> = folders
                .iter()
                .map(|(folder, answer)| ((*folder).to_owned(), Json::text(*answer)))
                .collect();
            assert_eq!(
                is_trusted(Path::new("/none/a/b"), &folders),
                expected,
                "{folders:?}"
            );
        }
    }
}
