//! `relay completions` and `relay man`: the command line as a shell and as `man` want it told, made of its own definition.

use std::io;
use std::path::PathBuf;

use clap_complete::Shell;

use super::messages::write_stdout;
use super::{End, Failure, command_line, version};
use crate::terminal::visible;

/// `relay completions`.
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

/// `relay man`.
#[derive(Debug, clap::Args)]
pub struct Man {
    /// Where they are written, such as ~/.local/share/man/man1.
    directory: PathBuf,
}

/// Prints what completes the command line in a shell.
pub fn complete(args: &Completions) -> Result<End, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut shown(), "relay", &mut text);
    write_stdout(&String::from_utf8_lossy(&text))
        .map_err(|error| Failure::error(format!("relay completions: cannot write to stdout: {error}")))?;
    Ok(End::Done)
}

/// The command line without what is for relay's own use.
fn shown() -> clap::Command {
    let all = command_line();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
    clap::Command::new("relay")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(true)
        .arg(version())
        .subcommands(shown.cloned())
}

/// Writes a manual page for the command line, and one for each subcommand.
pub fn write_pages(args: &Man) -> Result<End, Failure> {
    let directory = &args.directory;
    let written: io::Result<()> =
        std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command_line(), directory));
    written.map_err(|error| {
        let shown = directory.to_string_lossy();
        Failure::error(format!(
            "relay man: cannot write into {}: {error}; accepted: a directory that is yours",
            visible(&shown)
        ))
    })?;
    Ok(End::Done)
}
