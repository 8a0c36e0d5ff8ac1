//! What a campaign must have reached before its silence means anything.

use std::collections::BTreeMap;

/// Defines the marks and lists them all, so that none can be left out of the check.
macro_rules! marks {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// A branch of the contract that a random run may take.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mark {
            $($(#[$doc])+ $name,)+
        }

        impl Mark {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

marks! {
    /// A parked read is answered because something came.
    Wake,
    /// A parked read is answered while another one stands behind it.
    WakeOfTheLongest,
    /// A parked read is answered at its deadline to the millisecond.
    ExpiryOnTime,
    /// A parked read is answered because its deadline is long past.
    ExpiryLate,
    /// Something is delivered to a read whose deadline is past, but was not acted on yet.
    WakeAfterTheDeadline,
    /// A wait's end and the end of a doubt are due at the same moment.
    WaitAndDoubtDueTogether,
    /// Time is handed in while something is parked or in doubt and nothing is due.
    TimeoutTooEarly,
    /// A newer wait takes the place of the same session's older one.
    Supersede,
    /// The same while no further wait would be accepted.
    SupersedeAtTheBound,
    /// A wait is parked behind another session's.
    StandsInLine,
    /// A session waits for two agents.
    WaitsForTwo,
    /// A parked read is cancelled.
    WaitCancelled,
    /// The connection of a parked read is gone, so that its reply could not be written.
    WaitLost,
    /// A parked read is said to be flushed.
    FlushedWhileParked,
    /// The session of a parked read closes.
    WaitClosed,
    /// The relay stops while several reads are parked.
    StopWithWaits,
    /// A read that would wait is answered at once, because the relay is stopping.
    ReadWhileStopping,
    /// A hand-over is undone by a broken end.
    UndoByBrokenEnd,
    /// A flushed hand-over is undone by an orderly end of a stream.
    UndoByOrderlyStreamEnd,
    /// A hand-over on an exchange is undone by an orderly end, because it was not flushed.
    UndoByOrderlyEndUnflushed,
    /// A hand-over is undone because its call was cancelled.
    UndoByCancel,
    /// A hand-over is undone because its reply was lost.
    UndoByLoss,
    /// A flushed hand-over is undone by a cancelled call or a lost reply.
    UndoAfterFlush,
    /// A message is undone that was redelivered before.
    UndoAgain,
    /// Undone messages go in front of waiting ones.
    UndoInFront,
    /// A waiting message is older than an undone one.
    UndoBehind,
    /// A waiting message is younger than one undone message and older than another of the same hand-over.
    UndoInterleaves,
    /// Undone messages go to a read that waits for them.
    RedeliveredToWait,
    /// One closed session's undone messages go to waits for two agents.
    RedeliveredToTwoWaits,
    /// A hand-over is confirmed by its session's next call.
    ConfirmByCall,
    /// The same by a call that is refused.
    ConfirmByRefusedCall,
    /// A hand-over is not confirmed by its session's next call, because it was not flushed.
    UnflushedAtCall,
    /// A hand-over is confirmed by the end of the doubt.
    ConfirmByDoubtEnd,
    /// A hand-over is confirmed by the orderly end of its exchange.
    ConfirmByOrderlyExchangeEnd,
    /// A message is accepted into room that the confirming call itself made.
    RoomByConfirmingCall,
    /// An agent is told of the start.
    NoticeTold,
    /// An agent is told of the start, and there is nothing else to tell.
    NoticeAlone,
    /// An agent is told of the start again, because the first reply did not arrive.
    NoticeToldAgain,
    /// A session calls that was never admitted, or is closed.
    CallOnClosed,
    /// A session closes that is not open.
    CloseOfClosed,
    /// A hand-over is flushed a second time.
    FlushedAgain,
    /// A reply is flushed on which nothing hangs.
    FlushedForNothing,
    /// A call is cancelled on which nothing hangs.
    CancelledForNothing,
    /// A reply is lost on which nothing hangs.
    LostForNothing,
    /// A bound session leaves its own name out.
    BoundLeftOut,
    /// A bound session gives its own name.
    BoundNamedItself,
    /// A session is refused because it names an unknown agent.
    UnknownAtOpen,
    /// A post names an unknown sender.
    UnknownSender,
    /// A post names an unknown recipient.
    UnknownRecipient,
    /// A read or a look names an unknown agent.
    UnknownReader,
    /// A bound session names another agent, in a post.
    NotYouPosting,
    /// A bound session names another agent, in a read or a look.
    NotYouReading,
    /// An unbound session does not say who it is, in a post.
    AnonymousPost,
    /// An unbound session does not say who it is, in a read or a look.
    AnonymousRead,
    /// A body is too long by its bytes, and would not be by its characters.
    BodyTooLongInBytesOnly,
    /// A body is one byte too long.
    BodyOneOver,
    /// A body of the greatest length is accepted.
    BodyAtLimit,
    /// An inbox has no room for one more message.
    InboxFullOfMessages,
    /// An inbox has no room for the bytes of a message.
    InboxFullOfBytes,
    /// An inbox has no room, and would have it if hand-overs did not count.
    InboxFullOfHandovers,
    /// A message fills the last byte of an inbox.
    InboxFilledToTheByte,
    /// A message fills the last place of an inbox.
    InboxFilledToThePlace,
    /// One wait too many.
    TooManyWaits,
    /// One session too many.
    TooManySessions,
}

/// How often each mark was reached.
#[derive(Debug, Default)]
pub struct Marks(BTreeMap<Mark, u64>);

impl Marks {
    /// Counts one.
    pub fn reach(&mut self, mark: Mark) {
        *self.0.entry(mark).or_default() += 1;
    }

    /// Counts one if it is so.
    pub fn reach_if(&mut self, so: bool, mark: Mark) {
        if so {
            self.reach(mark);
        }
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Self) {
        for (mark, count) in &other.0 {
            *self.0.entry(*mark).or_default() += count;
        }
    }

    /// Returns the marks that were never reached.
    pub fn missed(&self) -> Vec<Mark> {
        Mark::ALL
            .iter()
            .copied()
            .filter(|mark| !self.0.contains_key(mark))
            .collect()
    }
}
