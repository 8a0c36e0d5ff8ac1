//! Sessions that watch something, and where what has changed is put down for them.

use super::{Owner, StepAnswer};
use crate::engine::{CallId, Input, Refusal, SessionId, watches};
use crate::server::changes::Changes;
use crate::server::sync::Arc;

impl Owner {
    /// Has what changes for a session put down there, until the session is closed, or says that it is not to be any more. Returns
    /// nothing if the session is closed.
    ///
    /// # Errors
    ///
    /// The engine's refusal: the session has no inbox, or its agent was taken over.
    pub fn watch(
        &self,
        session: SessionId,
        command: watches::Command,
        changes: &Arc<Changes>,
    ) -> Option<Result<(), Refusal>> {
        let call = CallId(self.number());
        self.with(|state| {
            let input = Input::Call {
                session,
                call,
                random: (state.random)(),
                command: command.into(),
            };
            let Some(StepAnswer::Answer(answer, _)) = self.step_locked(state, input) else {
                return None;
            };
            match &command {
                _ if answer.is_err() => {}
                watches::Command::Watch(_) => {
                    changes.begin();
                    state.watching.insert(session, Arc::clone(changes));
                }
                watches::Command::Unwatch(what) => changes.forget(*what),
            }
            Some(answer.map(drop))
        })
    }
}
