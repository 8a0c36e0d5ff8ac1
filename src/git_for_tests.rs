//! Git, for the tests of what is found in its work trees.

use std::path::Path;
use std::process::Command;

/// Runs a command of git's in a directory.
pub(crate) fn git(directory: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@localhost"])
        .args(arguments);
    let done = git.current_dir(directory).output();
    let done = done.expect("git is needed for this test; install it");
    assert!(done.status.success(), "{done:?}");
}

/// Makes a repository `main` in a directory, and beside it another work tree of it, `other`.
pub(crate) fn two_work_trees(directory: &Path) {
    git(directory, &["init", "-q", "main"]);
    let main = directory.join("main");
    git(&main, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&main, &["worktree", "add", "-q", "../other", "-b", "other"]);
}
