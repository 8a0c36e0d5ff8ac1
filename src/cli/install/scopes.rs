//! The servers that Claude Code knows in a project, by its scopes: a server of the local one hides one of the same name of the project, which
//! hides the user's. It must not know which of them is relay.

use std::path::{Path, PathBuf};

use super::file;
use super::json::{self, Json, Step};
use crate::cli::work_tree::{main_work_tree, read_file};

/// Under this name the servers stand, of each scope.
pub const SERVERS: &str = "mcpServers";

/// The file of a project in which they stand.
pub const FILE: &str = ".mcp.json";

/// Most bytes of a file of git's that names a directory.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Where Claude Code knows a server from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// What counts in all projects.
    User,
    /// The [`FILE`] of the project.
    Project,
    /// What counts in this project for this user.
    Local,
}

/// A server that Claude Code knows.
#[derive(Debug, Clone)]
pub struct Known {
    /// Where from.
    pub scope: Scope,
    /// The file in which it stands.
    pub file: PathBuf,
    /// What it is called.
    pub name: String,
    /// What stands there.
    pub entry: Json,
}

/// Finds them, those that hide others last; `settings` is the file in which Claude Code keeps the scopes of its user. What cannot be read has none.
pub fn servers(project: &Path, settings: &Path) -> Vec<Known> {
    let mut servers = Vec::new();
    let mut add = |scope, file: &Path, text: &str, way: &[&str]| {
        let way: Vec<Step<'_>> = way.iter().map(|key| Step::Key(key)).collect();
        let Ok(Some(Json::Object(listed))) = json::get(text, &way) else {
            return;
        };
        let is_entry = |(_, entry): &(String, Json)| matches!(entry, Json::Object(_));
        let listed = listed.into_iter().filter(is_entry);
        servers.extend(listed.map(|(name, entry)| Known {
            scope,
            file: file.to_owned(),
            name,
            entry,
        }));
    };
    let users = text(settings);
    add(Scope::User, settings, &users, &[SERVERS]);
    // The nearest file hides those above it.
    let above: Vec<&Path> = project.ancestors().collect();
    for folder in above.into_iter().rev() {
        let file = folder.join(FILE);
        add(Scope::Project, &file, &text(&file), &[SERVERS]);
    }
    let key = key_of_local(project);
    let way = ["projects", &key.to_string_lossy(), SERVERS];
    add(Scope::Local, settings, &users, &way);
    servers
}

fn text(file: &Path) -> String {
    let whole = file::read(file).ok().flatten();
    whole.map(|whole| whole.text).unwrap_or_default()
}

/// The directory under which Claude Code keeps the local scope: all work trees of a repository share that of the first.
fn key_of_local(project: &Path) -> PathBuf {
    let mut above = project.ancestors();
    let Some(root) = above.find(|above| above.join(".git").exists()) else {
        return project.to_owned();
    };
    if root.join(".git").is_dir() {
        return root.to_owned();
    }
    let read = |file: &Path| read_file(file, LINE_BYTES_MAX).ok().flatten();
    let main = main_work_tree(root, read);
    let main = main.and_then(|main| main.canonicalize().ok());
    main.unwrap_or_else(|| project.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_work_tree_shares_the_local_scope_of_its_repository() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        crate::git_for_tests::two_work_trees(&root);
        fs::create_dir(root.join("main/deep")).expect("a folder");
        for project in ["main", "main/deep", "other"] {
            assert_eq!(key_of_local(&root.join(project)), root.join("main"), "{project}");
        }
        fs::create_dir(root.join("plain")).expect("a folder");
        assert_eq!(key_of_local(&root.join("plain")), root.join("plain"));
    }
}
