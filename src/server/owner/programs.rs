//! The programs whose hooks speak, and the sessions that they have.

use std::collections::BTreeMap;

use super::{Owner, StepAnswer};
use crate::engine::{Carrier, Input, Refusal, SessionId, Who};
use crate::server::sync::Arc;

/// By what a program is known, over all its hooks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramKey {
    /// Which one it is.
    pub program: &'static str,
    /// Which process of it.
    pub process: Arc<str>,
}

/// All programs with open sessions.
#[derive(Default)]
pub(super) struct Programs {
    /// With for whom each session was opened.
    open: BTreeMap<ProgramKey, (SessionId, Who)>,
    keys: BTreeMap<SessionId, ProgramKey>,
}

impl Programs {
    pub fn closed(&mut self, session: SessionId) {
        if let Some(key) = self.keys.remove(&session)
            && self.open.get(&key).is_some_and(|(open, _)| *open == session)
        {
            self.open.remove(&key);
        }
    }
}

/// Tells whether two sessions of a program are for the same agent, as far as their hooks say that.
fn is_for_same(one: &Who, other: &Who) -> bool {
    let plain = |who: &Who| {
        let mut who = who.clone();
        if let Who::Program { mode, .. } = &mut who {
            *mode = None;
        }
        who
    };
    plain(one) == plain(other)
}

impl Owner {
    /// Returns the open session of a program; opens it if need be, anew if it was opened for somebody else. Who does not say for whom takes
    /// the one that is there. How what its agent's senders say nothing of is brought is said when it is opened.
    ///
    /// # Errors
    ///
    /// The engine's refusal: the agent is unknown, or too many sessions are open.
    pub fn program(&self, key: ProgramKey, who: Who) -> Result<SessionId, Refusal> {
        let session = SessionId(self.number());
        let names_nobody = matches!(who, Who::Program { agent: None, .. });
        self.with(|state| {
            let other = match state.programs.open.get(&key) {
                Some((open, for_whom)) if is_for_same(for_whom, &who) || names_nobody => return Ok(*open),
                Some((open, _)) => Some(*open),
                None => None,
            };
            let input = Input::Opened {
                session,
                carrier: Carrier::Hook,
                who: who.clone(),
            };
            let Some(StepAnswer::Opened(result)) = self.step_locked(state, input) else {
                unreachable!("the engine answers every opened session");
            };
            result?;
            if let Some(session) = other {
                let ending = crate::engine::Ending::Broken;
                self.step_locked(state, Input::Closed { session, ending });
            }
            state.programs.keys.insert(session, key.clone());
            state.programs.open.insert(key, (session, who));
            Ok(session)
        })
    }

    /// Returns the open session of a program, if it has one.
    pub fn known_program(&self, key: &ProgramKey) -> Option<SessionId> {
        self.with(|state| state.programs.open.get(key).map(|(session, _)| *session))
    }
}
