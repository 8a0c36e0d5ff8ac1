//! Where the identities of a project are kept: in a directory that all work trees of its repository share, unless one has its
//! own. It must not know what is in an identity.

use std::path::{Path, PathBuf};

use crate::cli::work_tree::{main_work_tree, read_file, redirected};

/// The directory of what relay keeps with a project.
pub const RELAY: &str = ".relay";

/// The directory of what Thrum keeps with a project.
pub const THRUM: &str = ".thrum";

/// What the directory of the files is called in either.
pub const IDENTITIES: &str = "identities";

/// Most bytes of a file of git that holds a path: the longest path that Linux takes, and a word before it.
const GIT_FILE_BYTES_MAX: u64 = 4_096 + 16;

/// Finds the nearest directory of that name: in `from` or above it, where the root of a work tree stands for the main checkout
/// too, and one with a redirect of Thrum's for where that leads. Something of that name that is no directory is passed over.
pub fn nearest(from: &Path, name: &str) -> Option<PathBuf> {
    let places = from.ancestors().flat_map(|directory| {
        [
            Some(directory.to_owned()),
            main_checkout(directory),
            led_to(directory),
        ]
    });
    let mut directories = places.flatten().map(|place| place.join(name));
    directories.find(|directory| directory.is_dir())
}

/// Finds the nearest directory of Thrum's. One that leads to another, and has no identities of its own, stands for that one.
pub fn nearest_of_thrum(from: &Path) -> Option<PathBuf> {
    let found = nearest(from, THRUM)?;
    let mut own = found.join(IDENTITIES).read_dir().into_iter().flatten();
    if own.next().is_some() {
        return Some(found);
    }
    let main = found.parent().and_then(led_to).map(|main| main.join(THRUM));
    main.filter(|main| main.is_dir()).or(Some(found))
}

/// Returns where a directory of that name is to be made if there is none yet: in the main checkout of the repository that `from`
/// is in, and in `from` itself outside of any. Of a repository without a main checkout, a bare one, it is the work tree.
pub fn to_be_made(from: &Path, name: &str) -> PathBuf {
    let checkout = from.ancestors().find(|directory| directory.join(".git").exists());
    let main = checkout.and_then(main_checkout);
    main.as_deref().or(checkout).unwrap_or(from).join(name)
}

/// Returns where a redirect of Thrum's in a directory leads, if there is one.
fn led_to(directory: &Path) -> Option<PathBuf> {
    let read = |file: &Path| read_file(file, GIT_FILE_BYTES_MAX).ok().flatten();
    redirected(directory, read)?.canonicalize().ok()
}

/// Returns the main checkout, if `root` is the root of one of the work trees beside it.
fn main_checkout(root: &Path) -> Option<PathBuf> {
    let read = |file: &Path| read_file(file, GIT_FILE_BYTES_MAX).ok().flatten();
    main_work_tree(root, read)?.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A name that no directory above those of a test has.
    const KEPT: &str = ".kept";

    /// A directory of its own, under the name that the system gives it in the end.
    fn directory() -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().canonicalize().expect("it is there");
        (directory, path)
    }

    fn make(path: PathBuf) -> PathBuf {
        fs::create_dir_all(&path).expect("a directory");
        path
    }

    /// Makes the main checkout of a repository.
    fn repository(path: PathBuf) -> PathBuf {
        make(path.join(".git"));
        path
    }

    /// Makes a work tree as `git worktree add` does; `shared` is the repository's `.git`, as the work tree names it.
    fn work_tree(path: PathBuf, shared: &Path) -> PathBuf {
        let name = path.file_name().expect("a name");
        let own = make(shared.join("worktrees").join(name));
        fs::write(own.join("commondir"), "../..\n").expect("a file");
        let link = format!("gitdir: {}\n", own.display());
        fs::write(make(path.clone()).join(".git"), link).expect("a file");
        path
    }

    #[test]
    fn the_nearest_directory_at_or_above_is_found() {
        let (_directory, top) = directory();
        let deep = make(top.join("a/b/c"));
        assert_eq!(nearest(&deep, KEPT), None);
        let far = make(top.join(KEPT));
        assert_eq!(nearest(&deep, KEPT), Some(far));
        let near = make(top.join("a/.kept"));
        assert_eq!(nearest(&deep, KEPT), Some(near.clone()));
        fs::write(top.join("a/b/.kept"), "").expect("a file");
        assert_eq!(nearest(&deep, KEPT), Some(near), "a file is no directory");
        assert_eq!(nearest(&deep, ".other"), None);
    }

    #[test]
    fn a_work_tree_has_that_of_the_main_checkout_unless_it_has_its_own() {
        let (_directory, top) = directory();
        let main = repository(top.join("main"));
        let tree = work_tree(top.join("tree"), &main.join(".git"));
        let deep = make(tree.join("src"));
        // What is above the work tree belongs to others too, and comes last.
        let above = make(top.join(KEPT));
        assert_eq!(nearest(&deep, KEPT), Some(above));
        let shared = make(main.join(KEPT));
        assert_eq!(nearest(&deep, KEPT), Some(shared));
        let own = make(tree.join(KEPT));
        assert_eq!(nearest(&deep, KEPT), Some(own));
    }

    #[test]
    fn a_work_tree_may_name_its_repository_by_a_relative_path_or_through_a_link() {
        let (_directory, top) = directory();
        let main = repository(top.join("main"));
        let shared = make(main.join(KEPT));
        std::os::unix::fs::symlink(&main, top.join("link")).expect("a link");
        let linked = work_tree(top.join("linked"), &top.join("link/.git"));
        assert_eq!(nearest(&linked, KEPT), Some(shared.clone()));
        let relative = work_tree(top.join("relative"), &main.join(".git"));
        let link = "gitdir: ../main/.git/worktrees/relative\r\n";
        fs::write(relative.join(".git"), link).expect("a file");
        assert_eq!(nearest(&relative, KEPT), Some(shared));
    }

    #[test]
    fn a_redirect_of_thrums_leads_to_the_main_checkout_unless_there_are_identities() {
        let (_directory, top) = directory();
        let (main, tree) = (make(top.join("main/.thrum")), make(top.join("tree/.thrum")));
        let deep = make(top.join("tree/src"));
        let redirect = tree.join("redirect");
        for named in ["", "nowhere", "../nowhere/.thrum", "../main"] {
            fs::write(&redirect, named).expect("a file");
            assert_eq!(nearest_of_thrum(&deep), Some(tree.clone()), "{named:?}");
        }
        let absolute = format!("{}\n", main.display());
        for named in [&*absolute, "../main/.thrum"] {
            fs::write(&redirect, named).expect("a file");
            assert_eq!(nearest_of_thrum(&deep), Some(main.clone()), "{named:?}");
        }
        let shared = make(top.join("main/.kept"));
        assert_eq!(nearest(&deep, KEPT), Some(shared));
        let own = make(tree.join(IDENTITIES));
        assert_eq!(
            nearest_of_thrum(&deep),
            Some(main),
            "an empty directory says nothing"
        );
        fs::write(own.join("qa.json"), "{}").expect("a file");
        assert_eq!(nearest_of_thrum(&deep), Some(tree));
    }

    #[test]
    fn a_link_to_a_directory_is_one() {
        let (_directory, top) = directory();
        let elsewhere = make(top.join("elsewhere"));
        let project = make(top.join("project/src"));
        let link = top.join("project/.kept");
        std::os::unix::fs::symlink(&elsewhere, &link).expect("a link");
        assert_eq!(nearest(&project, KEPT), Some(link));
    }

    #[test]
    fn a_new_directory_is_made_in_the_main_checkout_and_outside_of_a_repository_here() {
        let (_directory, top) = directory();
        let lonely = make(top.join("lonely/src"));
        assert_eq!(to_be_made(&lonely, KEPT), lonely.join(KEPT));
        let main = repository(top.join("main"));
        let inside = make(main.join("src/deep"));
        assert_eq!(to_be_made(&inside, KEPT), main.join(KEPT));
        let tree = work_tree(top.join("tree"), &main.join(".git"));
        let deep = make(tree.join("src"));
        assert_eq!(to_be_made(&deep, KEPT), main.join(KEPT));
        let bare = work_tree(top.join("of-bare"), &make(top.join("bare.git")));
        assert_eq!(to_be_made(&bare, KEPT), bare.join(KEPT));
    }

    #[test]
    fn a_submodule_is_a_repository_of_its_own() {
        let (_directory, top) = directory();
        let main = repository(top.join("main"));
        make(main.join(".git/modules/part"));
        let part = make(main.join("part"));
        fs::write(part.join(".git"), "gitdir: ../.git/modules/part\n").expect("a file");
        assert_eq!(to_be_made(&part, KEPT), part.join(KEPT));
    }

    #[test]
    fn a_broken_file_of_git_leads_nowhere() {
        let (_directory, top) = directory();
        let long = format!("gitdir: {}\n", "x".repeat(5_000));
        for text in ["", "\n", "gitdir: ", "gitdir: nowhere\n", "?\0?", &long] {
            fs::write(top.join(".git"), text).expect("a file");
            assert_eq!(main_checkout(&top), None, "{text:?}");
            assert_eq!(to_be_made(&top, KEPT), top.join(KEPT), "{text:?}");
        }
    }

    #[test]
    fn the_main_checkout_comes_before_where_a_redirect_leads_and_that_before_what_is_above() {
        let (_directory, top) = directory();
        let main = repository(top.join("main"));
        let tree = work_tree(top.join("above/tree"), &main.join(".git"));
        let led = make(top.join("led/.thrum"));
        let redirect = make(tree.join(THRUM)).join("redirect");
        fs::write(redirect, format!("{}\n", led.display())).expect("a file");
        for kept in ["above", "led", "main"] {
            let last = make(top.join(kept).join(KEPT));
            assert_eq!(nearest(&tree, KEPT), Some(last));
        }
    }
}
