//! The kinds of things that happen, and how one is drawn.

use super::Plan;

/// A kind of thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Open,
    Close,
    Post,
    Read,
    Pending,
    Peek,
    /// A look at who there is.
    Look,
    /// Something about groups.
    Group,
    Pass,
    Follow,
    KeepAlive,
    Lose,
    Cancel,
    /// News of a call, whether it is answered or not, and whether there was news of it before or not.
    Again,
    /// News of a call or a session that there never was.
    FromNowhere,
    /// A call on a session that is not open.
    OnClosed,
    Timeout,
}

pub(super) const ACTIONS: [Action; 17] = [
    Action::Open,
    Action::Close,
    Action::Post,
    Action::Read,
    Action::Pending,
    Action::Peek,
    Action::Look,
    Action::Group,
    Action::Pass,
    Action::Follow,
    Action::KeepAlive,
    Action::Lose,
    Action::Cancel,
    Action::Again,
    Action::FromNowhere,
    Action::OnClosed,
    Action::Timeout,
];

/// What may happen while nobody calls.
pub(super) const QUIET_ACTIONS: [Action; 7] = [
    Action::Pass,
    Action::Pass,
    Action::KeepAlive,
    Action::KeepAlive,
    Action::Timeout,
    Action::Timeout,
    Action::Again,
];

impl Plan {
    /// Draws one, by the weights of the run.
    pub(super) fn action(&mut self) -> Action {
        let mut at = self.rng.below(self.weights.iter().sum());
        for (action, weight) in ACTIONS.into_iter().zip(self.weights) {
            if at < weight {
                return action;
            }
            at -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }
}
