//! What ends by itself: a task of its own tells the engine when its time has come.

use std::time::Duration;

use super::{Owner, State};
use crate::engine::{Overview, Timestamp};
use crate::server::sync::Arc;

impl Owner {
    /// Tells the engine when its time has come, for ever.
    pub async fn run_timers(self: Arc<Self>) {
        loop {
            match self.fire() {
                None => self.rearm.notified().await,
                Some(rest) => {
                    tokio::select! {
                        () = tokio::time::sleep(rest) => {}
                        () = self.rearm.notified() => {}
                    }
                }
            }
        }
    }

    /// Does all that is due and returns how long nothing will be.
    fn fire(&self) -> Option<Duration> {
        self.with(|state| {
            self.do_due(state);
            state.armed_for = state.engine.poll_timeout().map(|(at, _)| at);
            let rest_ms = state.armed_for?.as_millis() - state.now.as_millis();
            Some(Duration::from_millis(u64::try_from(rest_ms).unwrap_or(0)))
        })
    }

    /// Returns the time and what a person may see of the state, once all is done that is due: an agent that is to go has time until
    /// somebody looks.
    pub fn overview(&self) -> (Timestamp, Overview) {
        self.with(|state| {
            self.do_due(state);
            self.arm(state);
            (state.now, state.engine.overview())
        })
    }

    fn do_due(&self, state: &mut State) {
        let State {
            engine, effects, now, ..
        } = state;
        engine.handle_timeout(*now, effects);
        self.carry_out(state, None);
    }

    /// Wakes the timer task if something is due before it would wake up by itself.
    pub(super) fn arm(&self, state: &mut State) {
        let Some((at, _)) = state.engine.poll_timeout() else {
            return;
        };
        if state.armed_for.is_none_or(|armed| at < armed) {
            state.armed_for = Some(at);
            self.rearm.notify_one();
        }
    }
}
