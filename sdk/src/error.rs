//! What can go wrong.

use std::io;

use super::delivery::AdapterFailure;

/// Why a call was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the relay is not one.
    #[error("{given:?} is no address of a relay; accepted: http://HOST:PORT, such as http://127.0.0.1:7331")]
    Address {
        /// As given.
        given: String,
    },
    /// The token of the relay is none. It is not shown.
    #[error(
        "the token of the relay has characters that no header may have; accepted: what `relay serve --token` accepts"
    )]
    Token,
    /// Relay cannot be reached, or the connection broke. Posts are tried three times before that, and add one message all the same.
    #[error("relay at {authority} cannot be reached: {source}; start it with `relay serve`")]
    Unreachable {
        /// Its host and port.
        authority: String,
        /// What the system says.
        source: io::Error,
    },
    /// Relay has refused it.
    #[error("{message} ({code})")]
    Refused {
        /// The status of the answer.
        status: u16,
        /// The name of the reason, as Agent Relay's clients know it.
        code: String,
        /// What relay says about it.
        message: String,
    },
    /// What was answered cannot be understood: whatever listens there is no relay, or one of another time.
    #[error("what was answered to {call} is not understood: {reason}")]
    Answer {
        /// Method and path.
        call: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The target could not be connected.
    #[error("the target of deliveries cannot be connected: {0}")]
    Target(AdapterFailure),
    /// It is not offered here.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
}

impl Error {
    /// Tells whether relay does not know the token or the key any more, as after a restart.
    pub(crate) fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Refused { status: 401, .. })
    }

    /// Tells whether the same call may succeed a moment later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 429 | 500 | 502..=504),
            Self::Address { .. }
            | Self::Token
            | Self::Answer { .. }
            | Self::Target(_)
            | Self::Capability(_) => false,
        }
    }
}

/// Something that was asked for is not offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{capability} is not there: {reason}")]
pub struct CapabilityError {
    /// What it is.
    pub capability: &'static str,
    /// Why it is not there.
    pub reason: String,
}
