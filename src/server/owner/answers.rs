//! What comes of calls, and what must happen to it: who waits for an answer may go, and a reply may be lost.

use tokio::sync::oneshot;

use super::{Answer, Owner};
use crate::engine::{CallId, HandoverId, Input, Sign};
use crate::server::sync::Arc;

/// What came of a call.
pub enum Outcome {
    /// It is answered.
    Answered(Answered),
    /// It waits.
    Parked(Parked),
}

/// An answer, with what must happen to its reply.
pub struct Answered {
    /// What the engine says.
    pub answer: Answer,
    /// Goes with the reply's bytes, if something is handed over in them.
    pub receipt: Option<Receipt>,
}

/// A call that waits. Dropping it cancels the call, or reports its answer as lost if it has come meanwhile.
pub struct Parked {
    owner: Arc<Owner>,
    pub(super) call: CallId,
    pub(super) answer: oneshot::Receiver<(Answer, Option<HandoverId>)>,
    answered: bool,
}

/// Follows the bytes of a reply that holds a hand-over. Dropped before [`Receipt::passed`], it reports the reply as lost.
pub struct Receipt {
    owner: Arc<Owner>,
    handover: HandoverId,
    open: bool,
}

impl Parked {
    pub(super) fn new(
        owner: &Arc<Owner>,
        call: CallId,
        answer: oneshot::Receiver<(Answer, Option<HandoverId>)>,
    ) -> Self {
        Self {
            owner: Arc::clone(owner),
            call,
            answer,
            answered: false,
        }
    }

    /// Waits for the answer. None comes if the call was cancelled or its session is closed.
    pub async fn answered(&mut self) -> Option<Answered> {
        let (answer, handover) = (&mut self.answer).await.ok()?;
        self.answered = true;
        let receipt = self.owner.receipt(handover);
        Some(Answered { answer, receipt })
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        // From here on the answer cannot come; it may have come before.
        self.answer.close();
        match self.answer.try_recv() {
            Ok((_, handover)) => drop(self.owner.receipt(handover)),
            Err(_) => self.owner.report(Input::Cancelled { call: self.call }),
        }
    }
}

impl Receipt {
    pub(super) fn new(owner: &Arc<Owner>, handover: HandoverId) -> Self {
        Self {
            owner: Arc::clone(owner),
            handover,
            open: true,
        }
    }

    /// Returns the hand-over in the reply that it follows.
    pub fn handover(&self) -> HandoverId {
        self.handover
    }

    /// Reports that the reply's last byte was passed to the peer's socket, and returns the hand-over in it.
    pub fn passed(mut self) -> HandoverId {
        self.open = false;
        self.sign(Sign::Passed);
        self.handover
    }

    fn sign(&self, sign: Sign) {
        let handover = self.handover;
        self.owner.report(Input::Signed { handover, sign });
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if self.open {
            self.sign(Sign::Lost);
        }
    }
}
