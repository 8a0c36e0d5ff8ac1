//! The nouns of the engine: names, numbers and times that must not be mixed up.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::limits::{AGENT_NAME_BYTES_MAX, AGENTS_MAX, ROSTER_BYTES_MAX};
use super::time::Timestamp;

/// How much of a value from outside an error repeats, in characters.
const SHOWN_CHARS: usize = 80;

/// Cuts a value from outside down to what an error should repeat of it.
pub fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARS) {
        None => value.to_owned(),
        Some((end, _)) => format!("{}…", &value[..end]),
    }
}

/// The name under which the person who runs the relay posts and reads.
pub const PERSON: &str = "user";

/// The name of an agent: 1 to 32 of `a-z`, `0-9`, `-` and `_`, the first one a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AgentName(Arc<str>);

/// Why a text is not an agent's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid role name {name:?}; a name has 1 to {AGENT_NAME_BYTES_MAX} of a-z, 0-9, - and _, and starts with a letter or a digit"
)]
pub struct InvalidName {
    /// The text as it was given, cut if it is long.
    pub name: String,
}

impl AgentName {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] when the text is empty, too long, or holds any other character.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        let good_start = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        let good_rest = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
        if good_start && good_rest && name.len() <= AGENT_NAME_BYTES_MAX {
            return Ok(Self(name.into()));
        }
        Err(InvalidName { name: shown(name) })
    }

    /// Returns the name of the person who runs the relay, who is there beside every roster.
    pub fn person() -> Self {
        Self(PERSON.into())
    }

    /// Tells whether this is the person, not one of the roster's agents.
    pub fn is_person(&self) -> bool {
        self.as_str() == PERSON
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lets a map by name be asked with a text from the wire.
impl std::borrow::Borrow<str> for AgentName {
    fn borrow(&self) -> &str {
        &self.0
    }
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
        for (at, name) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

/// One connection that calls tools. Numbered by the shell, never used again within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SessionId(pub u64);

/// One tool call. Numbered by the shell over all sessions, never used again within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CallId(pub u64);

/// One hand-over: deliveries in a reply that is not known to have arrived. Numbered by the engine, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HandoverId(pub u64);

/// The place of a delivery in its inbox, counted from 0 in the order of acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Seq(pub u64);

/// The identity of a message: a uuid of version 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MessageId(pub Uuid);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One start of a relay: what was sent before it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Boot {
    /// Drawn anew at every start.
    pub id: Uuid,
    /// When the engine was made.
    pub started_at: Timestamp,
}

/// Random bytes: an argument, as the time is, so that the same inputs give the same state.
pub type RandomBytes = [u8; 16];

/// Makes a uuid of version 4 from random bytes.
pub fn uuid_v4(random: RandomBytes) -> Uuid {
    uuid::Builder::from_random_bytes(random).into_uuid()
}
