//! `relay register`: writes down who an agent is, so that its bridge finds it. It must not ask a relay.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::identity::choice::own_directory;
use super::identity::file::{self, Flaw};
use super::identity::{Identity, Label};
use super::messages::{json_line, write_stdout};
use super::{End, Failure, ourselves};
use crate::engine::{AgentName, PERSON};
use crate::terminal::visible;

/// The names that no agent may have, beside those that are none, each with what it stands for.
const RESERVED: [(&str, &str); 1] = [(PERSON, "the person who runs relay")];

/// `relay register`.
#[derive(Debug, clap::Args)]
pub struct Register {
    /// The name of the agent: 1 to 32 of A-Z, a-z, 0-9, -, _ and dots.
    #[arg(value_parser = free_name)]
    name: AgentName,

    /// What the agent does, such as implementer or reviewer.
    #[arg(long)]
    role: Label,

    /// The part of the project that it works on.
    #[arg(long)]
    module: Option<Label>,

    /// Take the place of another identity of that name.
    #[arg(long)]
    force: bool,

    /// Print what is written as JSON: {"name", "role", "module", "file", "written"}.
    #[arg(long)]
    json: bool,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The process is in a directory that is gone or may not be read.
    #[error("cannot tell the working directory: {0}")]
    Directory(io::Error),
    /// The name belongs to an agent with another role or module.
    #[error(
        "{} says that there is {there} already; choose another name, or take its place with --force", path.display()
    )]
    Taken {
        /// The file.
        path: PathBuf,
        /// What it says.
        there: Identity,
    },
    /// A file of that name says nothing that can be compared.
    #[error(
        "{} is there already and cannot be read: {flaw}; choose another name, or take its place with --force", path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// The system does not take the file.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Self {
        Self::error(format!("relay register: {error}"))
    }
}

/// Writes the identity and says what comes next.
pub fn run(args: Register) -> Result<End, Failure> {
    let identity = Identity {
        role: Some(args.role),
        module: args.module,
        ..Identity::named(args.name)
    };
    let directory = std::env::current_dir().map_err(RegisterError::Directory)?;
    let directory = own_directory(&directory);
    let path = file::path(&directory, identity.name.as_str());
    let is_there = !args.force && is_there(&directory, &path, &identity)?;
    if !is_there {
        file::write(&directory, &identity).map_err(|error| RegisterError::Write {
            path: path.clone(),
            error,
        })?;
    }
    if args.json {
        let written = json!({
            "name": identity.name.as_str(),
            "role": identity.role.as_ref().map(Label::as_str),
            "module": identity.module.as_ref().map(Label::as_str),
            "file": path.to_string_lossy(),
            "written": !is_there,
        });
        // It is written, whoever reads that.
        let _ = write_stdout(&json_line(&written.to_string()));
        return Ok(End::Done);
    }
    let told = if is_there {
        "is registered already in"
    } else {
        "is registered in"
    };
    let text = format!(
        "{identity} {told} {}\nstart its bridge with: {} mcp --agent {} --tools thrum\n",
        visible(&path.to_string_lossy()),
        ourselves(),
        identity.name
    );
    // It is written, whoever reads that.
    let _ = write_stdout(&text);
    Ok(End::Done)
}

/// Tells whether the file is there and says the same.
fn is_there(directory: &Path, path: &Path, identity: &Identity) -> Result<bool, RegisterError> {
    let path = path.to_owned();
    match file::read(directory, identity.name.as_str()) {
        Ok(None) => Ok(false),
        Ok(Some(there)) if there == *identity => Ok(true),
        Ok(Some(there)) => Err(RegisterError::Taken { path, there }),
        Err(flaw) => Err(RegisterError::Unreadable { path, flaw }),
    }
}

/// Takes a name that an agent may have.
fn free_name(text: &str) -> Result<AgentName, String> {
    let name = AgentName::new(text).map_err(|invalid| invalid.to_string())?;
    match RESERVED.iter().find(|(reserved, _)| *reserved == name.as_str()) {
        Some((_, whom)) => Err(format!("the name stands for {whom}; choose another")),
        None => Ok(name),
    }
}
