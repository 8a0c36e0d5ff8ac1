//! The agents that a relay knows from its start, and whom a refusal names of those who are there.

use std::fmt;

use super::limits::{AGENTS_MAX, ROSTER_BYTES_MAX};
use super::names::{AgentName, InvalidName, PERSON};

/// Whom a refusal names of those who are there: all if they are few, else those whose names are nearest to what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Some or all.
    pub names: Vec<AgentName>,
    /// How many there are.
    pub count: usize,
}

impl From<&Roster> for Known {
    fn from(roster: &Roster) -> Self {
        Self {
            names: roster.0.clone(),
            count: roster.0.len(),
        }
    }
}

/// Lists the names as a person reads them: `pm, dev-a, dev-b`.
impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names.is_empty() {
            return f.write_str("none");
        }
        list(&self.names, f)?;
        if self.names.len() < self.count {
            write!(f, " (the nearest of {})", self.count)?;
        }
        Ok(())
    }
}

fn list(names: &[AgentName], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, name) in names.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(f, "{comma}{name}")?;
    }
    Ok(())
}

/// The agents that a relay knows, in the order in which they were named.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Roster(Vec<AgentName>);

/// Why a list of names is not a roster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRoster {
    /// One of the names is no name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// One of the names is the person's.
    #[error("role {PERSON:?} is the person's own, who is there beside every roster; leave it out")]
    Person,
    /// There is nobody to post to.
    #[error("no roles; name at least one, such as pm")]
    Empty,
    /// A name stands twice.
    #[error("role {name:?} is named twice; each role is named once")]
    Twice {
        /// The repeated name.
        name: String,
    },
    /// There are more names than the tool schemas have room for.
    #[error(
        "{count} roles with {bytes} bytes of names are too many; accepted: at most {AGENTS_MAX} roles and {ROSTER_BYTES_MAX} bytes, counting three more bytes for each name"
    )]
    TooMany {
        /// How many were given.
        count: usize,
        /// Their bytes, with three more for each.
        bytes: usize,
    },
}

impl Roster {
    /// Checks the names and keeps their order.
    ///
    /// # Errors
    ///
    /// [`InvalidRoster`] for a bad name, the person's, a repeated one, none at all, or more than the tool schemas can carry.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidRoster> {
        let mut roster: Vec<AgentName> = Vec::new();
        for name in names {
            let name = AgentName::new(name)?;
            if name.is_person() {
                return Err(InvalidRoster::Person);
            }
            if roster.contains(&name) {
                return Err(InvalidRoster::Twice {
                    name: name.to_string(),
                });
            }
            roster.push(name);
        }
        if roster.is_empty() {
            return Err(InvalidRoster::Empty);
        }
        let bytes = roster.iter().map(|name| name.as_str().len() + 3).sum();
        if roster.len() > AGENTS_MAX || bytes > ROSTER_BYTES_MAX {
            return Err(InvalidRoster::TooMany {
                count: roster.len(),
                bytes,
            });
        }
        Ok(Self(roster))
    }

    /// Returns the names in their order.
    pub fn names(&self) -> &[AgentName] {
        &self.0
    }

    /// Finds the agent of that name.
    pub fn find(&self, name: &str) -> Option<&AgentName> {
        self.0.iter().find(|agent| agent.as_str() == name)
    }
}

/// The three roles of the source design: `pm`, `dev-a`, `dev-b`.
impl Default for Roster {
    fn default() -> Self {
        Self::new(["pm", "dev-a", "dev-b"]).expect("three short names are a roster")
    }
}

/// Lists the names as a person reads them: `pm, dev-a, dev-b`.
impl fmt::Display for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(&self.0, f)
    }
}
