//! The nouns of the engine: names, numbers and times that must not be mixed up.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

use super::limits::AGENT_NAME_BYTES_MAX;
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

/// The name under which the relay itself tells agents of their workers. It has no inbox, and no session speaks for it.
pub const RELAY: &str = "relay";

/// Who is called so from every project.
const SHARED: [&str; 2] = [PERSON, RELAY];

/// The project of everything that names none.
pub const DEFAULT_PROJECT: &str = "default";

/// Words that mean something in an address, and so are nobody's name.
const RESERVED: [&str; 2] = ["everyone", "agent"];

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// It is empty, too long, or holds another character.
    #[error("invalid {noun} name {name:?}; a name has {}", form_of(noun))]
    Form {
        /// What it was to name: a role, a group.
        noun: &'static str,
        /// The text as it was given, cut if it is long.
        name: String,
    },
    /// It means something else in an address.
    #[error("{noun} name {name:?} is taken: it means something else in an address; accepted: any other name")]
    Reserved {
        /// What it was to name.
        noun: &'static str,
        /// The text.
        name: String,
    },
    /// It is the relay's own.
    #[error(
        "{noun} name {RELAY:?} is relay's own, which tells of workers and reads nothing; accepted: any other name"
    )]
    Relays {
        /// What it was to name.
        noun: &'static str,
    },
}

/// Tells whether there may be dots in names of a noun: in those that Thrum's identities and groups have. A project is a directory, and a
/// channel is one word in a text.
fn has_dots(noun: &str) -> bool {
    ["role", "group"].contains(&noun)
}

/// Says which form names of a noun have.
fn form_of(noun: &str) -> String {
    let (characters, end) = match has_dots(noun) {
        true => (
            "-, _ and .",
            ", starts with a letter or a digit, and does not end with a dot",
        ),
        false => ("- and _", ", and starts with a letter or a digit"),
    };
    format!("1 to {AGENT_NAME_BYTES_MAX} of A-Z, a-z, 0-9, {characters}{end}")
}

/// Checks that a text has the form of a name: 1 to [`AGENT_NAME_BYTES_MAX`] of `A-Z`, `a-z`, `0-9`, `-` and `_`, the first one a
/// letter or a digit. The name of an agent, a role or a group may have dots, but for its end: behind a name in a text a dot ends the
/// sentence. `noun` says in an error what it was to name.
///
/// # Errors
///
/// [`InvalidName`] when it has not, or is a word that means something in an address, or the name of an agent, a role or a group is to
/// be the relay's own.
pub fn check_name(noun: &'static str, name: &str) -> Result<(), InvalidName> {
    let good_start = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let good_rest = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.' && has_dots(noun));
    let good_rest = good_rest && !name.ends_with('.');
    if !(good_start && good_rest && name.len() <= AGENT_NAME_BYTES_MAX) {
        let name = shown(name);
        return Err(InvalidName::Form { noun, name });
    }
    if RESERVED.contains(&name) {
        let name = name.to_owned();
        return Err(InvalidName::Reserved { noun, name });
    }
    // A project may be called so, and a channel: nothing is sent to these by that name alone.
    if name == RELAY && ["role", "group"].contains(&noun) {
        return Err(InvalidName::Relays { noun });
    }
    Ok(())
}

/// Makes the name of something in a project: `name` in the default one, `project:name` in any other.
fn in_project(project: &str, mark: &str, name: &str) -> Arc<str> {
    if project == DEFAULT_PROJECT {
        format!("{mark}{name}").into()
    } else {
        format!("{project}:{mark}{name}").into()
    }
}

/// Takes a whole name apart: its project, and the name in that. Byte by byte: names are short, and this is asked for with each read.
fn parts(whole: &str) -> (&str, &str) {
    let at = whole.bytes().position(|byte| byte == b':');
    at.map_or((DEFAULT_PROJECT, whole), |at| (&whole[..at], &whole[at + 1..]))
}

/// Returns what somebody in a project calls what has a whole name: the project stands before it if it is another, unless all share it.
fn seen_from<'a>(whole: &'a str, project: &str, is_shared: bool) -> Cow<'a, str> {
    match parts(whole) {
        (own, local) if own == project || is_shared => local.into(),
        (DEFAULT_PROJECT, local) => format!("{DEFAULT_PROJECT}:{local}").into(),
        (_, _) => whole.into(),
    }
}

/// Makes a type of names, each of something in a project; one of them may be the same from all projects.
macro_rules! qualified {
    ($(#[$doc:meta])* $type:ident, $noun:literal $(, $shared:expr)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks a name in the default project.
            ///
            /// # Errors
            ///
            /// Those of [`check_name`].
            pub fn new(name: &str) -> Result<Self, InvalidName> {
                check_name($noun, name)?;
                Ok(Self(name.into()))
            }

            /// Checks a name in a project.
            ///
            /// # Errors
            ///
            /// Those of [`check_name`], for either.
            pub fn in_project(project: &str, name: &str) -> Result<Self, InvalidName> {
                check_name("project", project)?;
                check_name($noun, name)?;
                Ok(Self(in_project(project, "", name)))
            }

            /// Returns the whole name as text: `name` in the default project, `project:name` in any other.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the project.
            pub fn project(&self) -> &str {
                parts(&self.0).0
            }

            /// Returns the name without the project.
            pub fn local(&self) -> &str {
                parts(&self.0).1
            }

            /// Returns what somebody in a project calls it: the project stands before it if it is another.
            pub fn seen_from(&self, project: &str) -> Cow<'_, str> {
                seen_from(&self.0, project, false $(|| $shared.contains(&self.as_str()))?)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        /// Lets a map by name be asked with a text from the wire.
        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

qualified!(
    /// The name of an agent, which is its alone in its project.
    AgentName,
    "role",
    SHARED
);
qualified!(
    /// What agents of a project are: any number of them may have the same.
    Role,
    "role"
);
qualified!(
    /// The name of a group of a project, without the `@` of its address.
    GroupName,
    "group"
);
qualified!(
    /// The name of a channel of a project, without the `#` of its address.
    ChannelName,
    "channel"
);

impl AgentName {
    /// Returns the name of the person who runs the relay, who is there beside every roster.
    pub fn person() -> Self {
        Self(PERSON.into())
    }

    /// Returns the name by which the relay itself tells of workers.
    pub fn relay() -> Self {
        Self(RELAY.into())
    }

    /// Tells whether this is the person, not an agent.
    pub fn is_person(&self) -> bool {
        self.as_str() == PERSON
    }

    /// Tells whether this is the relay itself, which nobody can send anything to.
    pub fn is_relay(&self) -> bool {
        self.as_str() == RELAY
    }
}

/// Where a message was sent, as it is shown: `dev-a`, `@reviewers`, `#general`, `@everyone`, each with its project before it if that
/// is not the default one; `pm, dev-b` if it was sent to several.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Recipient {
    text: Arc<str>,
    by: ResolvedBy,
}

/// What a message was sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ResolvedBy {
    /// One agent.
    Name,
    /// All agents of a role.
    Role,
    /// The members of a group.
    Group,
    /// The members of a channel.
    Channel,
    /// All agents of a project, or of all projects.
    Broadcast,
    /// Several of the first three, which are named.
    List,
}

impl ResolvedBy {
    /// Returns the word that stands for it on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Role => "role",
            Self::Group => "group",
            Self::Channel => "channel",
            Self::Broadcast => "broadcast",
            Self::List => "list",
        }
    }
}

/// Bytes that a name may take beside those of the whole name, where it is seen from another project: those of the default project.
pub(super) const PROJECT_SEEN_BYTES: usize = DEFAULT_PROJECT.len() + 1;

/// What stands between several recipients, and in none of their names.
const BETWEEN: &str = ", ";

impl Recipient {
    /// One agent.
    pub fn agent(agent: &AgentName) -> Self {
        Self {
            text: Arc::clone(&agent.0),
            by: ResolvedBy::Name,
        }
    }

    /// All agents of a role.
    pub fn role(role: &Role) -> Self {
        Self {
            text: in_project(role.project(), "@", role.local()),
            by: ResolvedBy::Role,
        }
    }

    /// The members of a group.
    pub fn group(group: &GroupName) -> Self {
        Self {
            text: in_project(group.project(), "@", group.local()),
            by: ResolvedBy::Group,
        }
    }

    /// The members of a channel.
    pub fn channel(channel: &ChannelName) -> Self {
        Self {
            text: in_project(channel.project(), "#", channel.local()),
            by: ResolvedBy::Channel,
        }
    }

    /// All agents of a project; of all projects if none is named.
    pub fn everyone(project: Option<&str>) -> Self {
        let text = project.map_or("*:*".into(), |project| in_project(project, "@", "everyone"));
        Self {
            text,
            by: ResolvedBy::Broadcast,
        }
    }

    /// Several, in the order in which they were named; the one, if it is only one.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn list(mut them: Vec<Self>) -> Self {
        let one = them.pop().expect("somebody is meant");
        if them.is_empty() {
            return one;
        }
        them.push(one);
        let texts: Vec<&str> = them.iter().map(Self::as_str).collect();
        Self {
            text: texts.join(BETWEEN).into(),
            by: ResolvedBy::List,
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Goes through the texts of those that are named, which is one unless there are several.
    pub fn each(&self) -> impl Iterator<Item = &str> {
        self.text.split(BETWEEN)
    }

    /// Returns no fewer bytes than it takes, wherever it is seen from: each of those that are named may have its project before it.
    pub fn bytes_seen_max(&self) -> usize {
        let names = if self.by == ResolvedBy::List {
            self.each().count()
        } else {
            1
        };
        self.text.len() + names * PROJECT_SEEN_BYTES
    }

    /// Returns what somebody in a project calls it.
    pub fn seen_from(&self, project: &str) -> Cow<'_, str> {
        if self.by == ResolvedBy::List {
            let each = self.each();
            let each = each.map(|text| seen_from(text, project, SHARED.contains(&text)));
            return Cow::Owned(each.collect::<Vec<_>>().join(BETWEEN));
        }
        seen_from(&self.text, project, SHARED.contains(&self.as_str()))
    }

    /// Returns what it is.
    pub fn by(&self) -> ResolvedBy {
        self.by
    }

    /// Returns the agent, or the person, if this is one.
    pub fn as_agent(&self) -> Option<AgentName> {
        (self.by == ResolvedBy::Name).then(|| AgentName(Arc::clone(&self.text)))
    }

    /// Tells whether this is a channel, of that name.
    pub fn is_channel(&self, channel: &ChannelName) -> bool {
        self.as_channel() == Some((channel.project(), channel.local()))
    }

    /// Tells whether this is a channel, of that project.
    pub fn is_channel_of(&self, project: &str) -> bool {
        self.as_channel().is_some_and(|(own, _)| own == project)
    }

    /// Returns the name of the channel in its project, if this is one.
    pub fn channel_name(&self) -> Option<&str> {
        self.as_channel().map(|(_, name)| name)
    }

    /// Returns the project and the name of a channel.
    fn as_channel(&self) -> Option<(&str, &str)> {
        let (before, name) = self.text.split_once('#')?;
        let project = before.strip_suffix(':').unwrap_or(DEFAULT_PROJECT);
        (self.by == ResolvedBy::Channel).then_some((project, name))
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// One connection that calls tools. Numbered by the shell, never used again within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SessionId(pub u64);

/// What a client calls itself in each of its sessions, if it may have several: no other client does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClientId(pub Arc<str>);

/// One tool call. Numbered by the shell over all sessions, never used again within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CallId(pub u64);

/// One hand-over: deliveries in a reply that is not known to have arrived. Numbered by the engine, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HandoverId(pub u64);

/// One node. Numbered by the engine, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeId(pub u64);

/// One worker: a process that was started for an agent, from when it was asked for until it has ended. Numbered by the engine, never used
/// again, so that what is said of an earlier one under the same name is not taken for what a later one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WorkerId(pub u64);

/// The place of a delivery in its inbox, counted from 0 in the order of acceptance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// The identity of an invocation: a uuid of version 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct InvocationId(pub Uuid);

/// Writes `inv_` before it, so that nobody takes it for a message's.
impl fmt::Display for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inv_{}", self.0)
    }
}

impl FromStr for InvocationId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let id = text.strip_prefix("inv_").and_then(|id| id.parse().ok());
        id.map(Self).ok_or(())
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

/// Makes the random bytes of the nth of several things out of those that were given for all of them: unlike each other in the digits that are
/// shown first.
pub(super) fn nth_of(random: RandomBytes, n: u32) -> RandomBytes {
    let mut bytes = random;
    // An odd factor: no two numbers have the same multiple.
    let mark = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
    for (byte, mark) in bytes.iter_mut().zip(mark) {
        *byte ^= mark;
    }
    bytes
}

/// Tells whether a text can be shown as a name of several words: 1 to so many bytes, of which each is seen or is a space between.
pub fn is_label(text: &str, bytes_max: usize) -> bool {
    text.len() <= bytes_max && !text.trim().is_empty() && text.chars().all(|c| c == ' ' || is_seen(c))
}

/// Tells whether a character is seen, or joins two that are, as in an emoji of several parts.
pub(super) fn is_seen(c: char) -> bool {
    let is_hidden = matches!(
        c,
        '\u{200b}' | '\u{200c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    !c.is_control() && !c.is_whitespace() && !is_hidden
}
