//! Who an agent is: a name, a role and a module, and the files that say so. It must not know of a relay that runs.
//!
//! [`directories`] finds where the files are, [`file`] reads and writes one, and [`choice`] tells which one is meant.

pub mod choice;
pub mod directories;
pub mod file;

use std::fmt;
use std::str::FromStr;

use crate::engine::limits::AGENT_NAME_BYTES_MAX;
use crate::engine::{AgentName, shown};

/// Who an agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of its inbox.
    pub name: AgentName,
    /// What it does, if that is known.
    pub role: Option<Label>,
    /// The part of the project that it works on, if it has one.
    pub module: Option<Label>,
    /// It is there as long as its bridge, and nobody has chosen its name.
    pub transient: bool,
}

impl Identity {
    /// Makes the identity of an agent of which nothing but its name is known.
    pub fn named(name: AgentName) -> Self {
        Self {
            name,
            role: None,
            module: None,
            transient: false,
        }
    }

    /// Makes the identity of an agent that nobody has named: `mcp-` and the process of its bridge.
    pub fn of_process(pid: u32) -> Self {
        let name = AgentName::new(&format!("mcp-{pid}")).expect("a word and a number are a name");
        Self {
            transient: true,
            ..Self::named(name)
        }
    }
}

/// Shows an identity as a person reads it: `furiosa (role implementer, module auth)`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        match (&self.role, &self.module) {
            (Some(role), Some(module)) => write!(f, " (role {role}, module {module})"),
            (Some(role), None) => write!(f, " (role {role})"),
            // There is no module without a role.
            (None, _) => Ok(()),
        }
    }
}

/// A role, a module or a project: made of the same characters as a name, and as long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label(String);

/// Why a text is no [`Label`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not accepted; accepted: 1 to {AGENT_NAME_BYTES_MAX} of A-Z, a-z, 0-9, -, _ and ., starting with a letter or a digit and not ending with a dot"
)]
pub struct InvalidLabel {
    /// The text as it was given, cut if it is long.
    pub text: String,
}

impl Label {
    /// Returns it as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = InvalidLabel;

    fn from_str(text: &str) -> Result<Self, InvalidLabel> {
        match AgentName::new(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(_) => Err(InvalidLabel { text: shown(text) }),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
