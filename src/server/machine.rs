//! What the owner drives.

use crate::engine::{AgentName, Effect, Engine, Input, Overview, Reason, Status, Timestamp};

/// A state machine like the engine. Production runs the engine itself; the simulation puts one around it that
/// watches what passes, or breaks it on purpose.
pub trait Machine: Send {
    /// See [`Engine::handle`].
    fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Effect>);

    /// See [`Engine::poll_timeout`].
    fn poll_timeout(&self) -> Option<(Timestamp, Reason)>;

    /// See [`Engine::handle_timeout`].
    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>);

    /// See [`Engine::status`].
    fn status(&self) -> Status;

    /// See [`Engine::overview`].
    fn overview(&self) -> Overview;

    /// See [`Engine::take_newly_seen`].
    fn take_newly_seen(&mut self) -> Option<AgentName>;
}

impl Machine for Engine {
    fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Effect>) {
        Engine::handle(self, now, input, out);
    }

    fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        Engine::poll_timeout(self)
    }

    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        Engine::handle_timeout(self, now, out);
    }

    fn status(&self) -> Status {
        Engine::status(self)
    }

    fn overview(&self) -> Overview {
        Engine::overview(self)
    }

    fn take_newly_seen(&mut self) -> Option<AgentName> {
        Engine::take_newly_seen(self)
    }
}
