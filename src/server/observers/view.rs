//! What an observer is shown: scopes, each of which stands for kinds of events, and filters.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::entry::Entry;
use super::events::Place;
use super::journal::Of;
use crate::engine::{Message, Timestamp};

/// Something that a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub(in crate::server) enum Scope {
    /// To be told of anything at all.
    #[serde(rename = "stream:read")]
    Stream,
    /// Messages in channels, and who says to have read them.
    #[serde(rename = "messages:read")]
    Messages,
    /// Replies in channels.
    #[serde(rename = "threads:read")]
    Threads,
    /// Direct messages, and all that is about them.
    #[serde(rename = "dms:read")]
    Dms,
    /// Who joins and leaves channels.
    #[serde(rename = "channels:read")]
    Channels,
    /// To look for messages.
    #[serde(rename = "search:read")]
    Search,
    /// Agents that come and go.
    #[serde(rename = "agents:read")]
    Agents,
    /// Nodes that come and go.
    #[serde(rename = "nodes:read")]
    Nodes,
    /// What becomes of deliveries.
    #[serde(rename = "deliveries:read")]
    Deliveries,
    /// What agents say of their sessions.
    #[serde(rename = "activity:read")]
    Activity,
    /// Nothing: relay keeps no files.
    #[serde(rename = "files:read")]
    Files,
    /// Reactions.
    #[serde(rename = "reactions:read")]
    Reactions,
}

impl Scope {
    /// Returns the name of it, if it is one that something is asked by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream:read",
            Self::Messages => "messages:read",
            Self::Threads => "threads:read",
            Self::Dms => "dms:read",
            Self::Channels => "channels:read",
            Self::Search => "search:read",
            Self::Agents => "agents:read",
            Self::Nodes => "nodes:read",
            Self::Deliveries => "deliveries:read",
            Self::Activity => "activity:read",
            Self::Files => "files:read",
            Self::Reactions => "reactions:read",
        }
    }
}

/// What of that is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::server) struct Filters {
    /// Of what is said in channels, that in these alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_ids: Option<Vec<String>>,
    /// The same, by their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_names: Option<Vec<String>>,
    /// Direct messages are shown.
    #[serde(default)]
    pub include_dms: bool,
    /// Of them, those of these conversations alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dm_conversation_ids: Option<Vec<String>>,
    /// What one of these has done, or got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_ids: Option<Vec<String>>,
    /// Events of these types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_types: Option<Vec<String>>,
    /// Later than that moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_after: Option<String>,
}

/// What an observer is shown.
#[derive(Debug, Clone)]
pub(in crate::server) struct View {
    /// Whose events.
    pub of: Of,
    /// All of them, or what a token allows.
    pub limits: Option<Arc<Limits>>,
}

/// What a token allows.
#[derive(Debug, Clone)]
pub(in crate::server) struct Limits {
    /// What it is for.
    pub scopes: Vec<Scope>,
    /// What of that.
    pub filters: Filters,
    /// The moment in the filters.
    pub after: Option<Timestamp>,
}

impl View {
    /// Everything of some events.
    pub fn all(of: Of) -> Self {
        Self { of, limits: None }
    }

    /// Tells whether an event is shown.
    pub fn shows(&self, entry: &Entry) -> bool {
        self.limits.as_ref().is_none_or(|limits| limits.allow(entry))
    }

    /// Tells whether a message is shown to whoever looks through messages: by the filters alone, since that needs a scope of its own, but
    /// for direct messages, which need theirs as well. An agent is concerned by what it has sent, or was sent by its name.
    pub fn has(&self, message: &Arc<Message>) -> bool {
        let Some(limits) = &self.limits else {
            return true;
        };
        limits.let_through(&Entry::of_message(message))
    }
}

impl Limits {
    fn allow(&self, entry: &Entry) -> bool {
        let may = |scope| self.scopes.contains(&scope);
        may(Scope::Stream) && may(entry.scope()) && self.let_through(entry)
    }

    fn let_through(&self, entry: &Entry) -> bool {
        self.is_in_place(entry, self.scopes.contains(&Scope::Dms))
            && self.after.is_none_or(|after| entry.at > after)
            && has(&self.filters.event_types, |kind| *kind == entry.kind())
            && has(&self.filters.agent_ids, |id| entry.concerns(id))
    }

    fn is_in_place(&self, entry: &Entry, may_dms: bool) -> bool {
        let Filters {
            channel_ids,
            channel_names,
            include_dms,
            dm_conversation_ids,
            ..
        } = &self.filters;
        match entry.place() {
            Place::Nowhere => true,
            Place::Channel { id, name } => {
                let is_any = channel_ids.is_none() && channel_names.is_none();
                let is_named = |names: &Option<Vec<String>>, of: &str| {
                    names
                        .as_ref()
                        .is_some_and(|names| names.iter().any(|name| name == of))
                };
                is_any || is_named(channel_ids, &id) || is_named(channel_names, &name)
            }
            Place::Conversation(id) => {
                may_dms && *include_dms && has(dm_conversation_ids, |other| *other == id)
            }
        }
    }
}

/// Tells whether there is no list, or one in which something is meant.
fn has(list: &Option<Vec<String>>, is_meant: impl Fn(&String) -> bool) -> bool {
    list.as_ref().is_none_or(|list| list.iter().any(is_meant))
}
