//! The mistakes that are made on purpose, each of which a law must report.

/// A mistake that is made on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// A frame does not go out, and its number is acknowledged with the next.
    FrameLost,
    /// What has its receipt goes out again.
    SentAfterReceipt,
    /// What goes out again is not marked.
    MarkMissing,
    /// What is pushed anew, since its web hook was made anew and its first push broken off, is not marked.
    MarkMissingOfBrokenOff,
    /// Two frames change places.
    Overtaken,
    /// A deferral is answered, and nothing comes of it.
    DeferralForgotten,
    /// An acknowledgement counts for all that is on its way.
    AcknowledgedTooFar,
    /// Receipts are answered, and nothing comes of them, nor of acknowledgements.
    ReceiptsForgotten,
    /// A frame goes to another agent's node.
    Astray,
    /// Observers are not told of a message.
    EventLeftOut,
    /// They are told twice of one.
    EventTwice,
    /// They are told of two in the wrong order.
    EventsSwapped,
    /// What a web hook did not take counts as taken.
    PushTakenForGranted,
    /// Nothing is heard of what a web hook did not take.
    PushForgotten,
    /// A message has no deadline, whatever its sender said.
    DeadlineForgotten,
    /// A node that has an agent no more acknowledges what went to the one that has it now.
    OldBindingCounts,
    /// Frames go to the node that had the agent before.
    SentToOldNode,
    /// What a handler says is answered, and nothing comes of it.
    ResultForgotten,
    /// What is said of an invocation that has ended is shown.
    LaterResultCounts,
    /// What a handler says is taken to be about something else.
    ResultOfAnother,
    /// What has ended is asked again.
    AskedWhenEnded,
    /// Some deliveries are in no list.
    ListedInPart,
    /// A hold is answered, and nothing comes of it.
    HoldIgnored,
    /// That a hold ends is answered, and nothing comes of it.
    LiftForgotten,
    /// What is dropped passes.
    DropPasses,
    /// What is to pass is dropped.
    AllowDrops,
    /// With a message that is to pass a hold ends.
    AllowLifts,
    /// A sender is not told that its message is held.
    HeldNoteMissing,
    /// What is let pass goes out behind what was behind it.
    AllowedLast,
    /// A node is told of a number before the one behind which an agent's frames go on.
    CursorTooLow,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 30] = [
        Self::FrameLost,
        Self::SentAfterReceipt,
        Self::MarkMissing,
        Self::MarkMissingOfBrokenOff,
        Self::Overtaken,
        Self::DeferralForgotten,
        Self::AcknowledgedTooFar,
        Self::ReceiptsForgotten,
        Self::Astray,
        Self::EventLeftOut,
        Self::EventTwice,
        Self::EventsSwapped,
        Self::PushTakenForGranted,
        Self::PushForgotten,
        Self::DeadlineForgotten,
        Self::OldBindingCounts,
        Self::SentToOldNode,
        Self::ResultForgotten,
        Self::LaterResultCounts,
        Self::ResultOfAnother,
        Self::AskedWhenEnded,
        Self::ListedInPart,
        Self::HoldIgnored,
        Self::LiftForgotten,
        Self::DropPasses,
        Self::AllowDrops,
        Self::AllowLifts,
        Self::HeldNoteMissing,
        Self::AllowedLast,
        Self::CursorTooLow,
    ];
}
