//! Where a worker's program is, and why it cannot be started, so that a person knows what to do.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::Order;

/// Finds the program of an order.
///
/// # Errors
///
/// Why there is none that can be run, and what to do.
pub fn find(order: &Order) -> Result<PathBuf, String> {
    let Order { cli, cwd, .. } = order;
    let Some(name) = order.argv.first().filter(|name| !name.is_empty()) else {
        return Err(format!(
            "the command line of {cli:?} is empty; name one under workers.{cli} in .relay/config.json"
        ));
    };
    if !cwd.is_dir() {
        return Err(format!("{} is no directory that is there", cwd.display()));
    }
    if name.contains('/') {
        let path = cwd.join(name);
        return check(&path, cli).map(|()| path);
    }
    let named = order.env.get("PATH").cloned().flatten();
    let directories = named.map_or_else(|| std::env::var_os("PATH"), |named| Some(named.into()));
    let directories = directories.unwrap_or_default();
    let found = candidates(&directories, cwd, name).find(|path| path.is_file());
    let Some(path) = found else {
        return Err(format!(
            "{name:?} is not installed: no such program in PATH; install it, or name another command line under workers.{cli} in \
             .relay/config.json"
        ));
    };
    let can_be_run = candidates(&directories, cwd, name).find(|path| is_program(path));
    can_be_run.map_or_else(|| check(&path, cli).map(|()| path), Ok)
}

fn candidates<'a>(
    directories: &'a OsStr,
    cwd: &'a Path,
    name: &'a str,
) -> impl Iterator<Item = PathBuf> + use<'a> {
    std::env::split_paths(directories).map(move |directory| cwd.join(directory).join(name))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

fn check(path: &Path, cli: &str) -> Result<(), String> {
    if is_program(path) {
        return Ok(());
    }
    let found = std::fs::metadata(path);
    let path = path.display();
    let what = match found {
        Ok(found) if found.is_dir() => format!("{path} is a directory; name a program"),
        Ok(_) => format!(
            "{path} may not be run: permission denied; make it executable with chmod +x, or name another command line"
        ),
        Err(error) => format!("{path}: {error}; install it, or name another command line"),
    };
    Err(format!("{what} under workers.{cli} in .relay/config.json"))
}

/// Says why the system does not run a program that is there.
pub fn refused(path: &Path, error: &std::io::Error) -> String {
    let path = path.display();
    if error.kind() == std::io::ErrorKind::ArgumentListTooLong {
        return format!(
            "{path} cannot be run: the task is longer than the system takes in a command line; write it into a file, and name that"
        );
    }
    format!("{path} cannot be run: {error}")
}
