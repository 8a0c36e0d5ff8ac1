//! The mistakes that are made on purpose, each of which a law must report.

/// A mistake that is made on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// What is to be shown is left out, and counts as shown.
    ShownLost,
    /// What is shown again is not marked.
    MarkMissing,
    /// What was shown is shown again.
    ShownAgain,
    /// What is for one agent is shown to another.
    Astray,
    /// What is shown is in the wrong order.
    Overtaken,
    /// A program is woken though a wake is on its way.
    WokenTwice,
    /// The end of a turn counts as its begin.
    WrongBoundary,
    /// A busy program counts as idle.
    BusyWoken,
    /// What was shown in a turn is forgotten in its midst.
    RoomForgotten,
    /// A program that has become idle counts as one that asks.
    LeftAsleep,
    /// A step is left out of what relay says happened.
    StepLeftOut,
    /// A turn goes on at its end again and again.
    GoesOnAgain,
    /// What is held counts as immediate.
    HeldIsShown,
    /// What is left is not told of.
    NoticeForgotten,
    /// Whatever begins a turn, it is the wake on its way.
    WakeTakenForGranted,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::ShownLost,
        Self::MarkMissing,
        Self::ShownAgain,
        Self::Astray,
        Self::Overtaken,
        Self::WokenTwice,
        Self::WrongBoundary,
        Self::BusyWoken,
        Self::RoomForgotten,
        Self::LeftAsleep,
        Self::StepLeftOut,
        Self::GoesOnAgain,
        Self::HeldIsShown,
        Self::NoticeForgotten,
        Self::WakeTakenForGranted,
    ];
}
