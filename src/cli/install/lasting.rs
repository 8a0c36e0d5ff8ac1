//! The program that is named in what is installed: this one, or a copy of it in relay's own directory where this one lies in what a runner
//! of packages has fetched for one call, and may remove at any time.

use std::fs;
use std::path::{Path, PathBuf};

use super::file::{self, FileError};
use crate::cli::own_program;
use crate::cli::project::DataDirectory;

/// A copy of this program that stays when the one that runs is removed.
#[derive(Debug)]
pub struct Copy {
    from: PathBuf,
    to: PathBuf,
}

impl Copy {
    /// Returns where it is, or is to be.
    pub fn path(&self) -> &Path {
        &self.to
    }

    /// Makes it; one that is there already gives way, in one step, also while it runs.
    ///
    /// # Errors
    ///
    /// [`FileError::Read`] and [`FileError::Write`]. What was there is there still.
    pub fn make(&self) -> Result<(), FileError> {
        let program = fs::read(&self.from).map_err(|error| FileError::Read {
            path: self.from.clone(),
            error,
        })?;
        let is_there = fs::read(&self.to).is_ok_and(|there| there == program);
        if is_there {
            return Ok(());
        }
        file::write_program(&self.to, &program)
    }
}

/// Returns the copy that is to be named instead of this program; none if this one lasts.
pub fn copy(data: &DataDirectory) -> Option<Copy> {
    let from = std::env::current_exe().ok()?;
    passes(&from).then(|| Copy {
        from,
        to: data.program(),
    })
}

/// Returns the program that is to be named in what is installed.
pub fn program(copy: Option<&Copy>) -> String {
    copy.map_or_else(own_program, |copy| copy.path().to_string_lossy().into_owned())
}

/// Tells whether a program lies where npx, `pnpm dlx`, `yarn dlx` or bunx keep what they have fetched for one call.
fn passes(program: &Path) -> bool {
    let of_a_runner =
        |name: &str| matches!(name, "_npx" | "dlx") || name.starts_with("dlx-") || name.starts_with("bunx-");
    let mut names = program.iter().filter_map(|name| name.to_str());
    names.any(of_a_runner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_runner_of_packages_has_fetched_passes() {
        for (program, expected) in [
            (
                "/home/a/.npm/_npx/0f3a/node_modules/@relay-bus/linux-x64/bin/relay",
                true,
            ),
            ("/home/a/.cache/pnpm/dlx/0f3a/1/node_modules/x/bin/relay", true),
            ("/home/a/.local/share/pnpm/dlx-77/node_modules/x/bin/relay", true),
            ("/tmp/xfs-77/dlx-78/node_modules/x/bin/relay", true),
            ("/tmp/bunx-0-relay-bus@latest/node_modules/x/bin/relay", true),
            ("/usr/lib/node_modules/relay-bus/node_modules/x/bin/relay", false),
            ("/home/a/project/node_modules/x/bin/relay", false),
            ("/home/a/.cargo/bin/relay", false),
            ("/home/npx/dlxs/relay", false),
        ] {
            assert_eq!(passes(Path::new(program)), expected, "{program}");
        }
    }
}
