//! Who is told of the agents that go.

use super::Owner;
use crate::engine::AgentName;

/// Is told of each agent that goes, whoever or whatever has it go. The engine's lock is held meanwhile, so nobody has taken the name
/// again: it must not wait, nor ask the owner for anything.
pub type Gone = Box<dyn Fn(&AgentName) + Send + Sync>;

impl Owner {
    /// Has each agent that goes be told to `gone`.
    pub fn telling_who_goes(self, gone: Gone) -> Self {
        Self { gone, ..self }
    }
}
