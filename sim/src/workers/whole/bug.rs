//! The mistakes that are made on purpose, each of which a law must report.

/// A mistake that is made on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// A session of an earlier worker is let in as one of a later one.
    OldLetIn,
    /// A worker is told to end, and nobody does anything about it.
    EndForgotten,
    /// A worker is told to end twice.
    EndedTwice,
    /// A worker is started twice.
    StartedTwice,
    /// A worker counts as running before it does.
    AnsweredEarly,
    /// Who has asked for a worker is not answered.
    AnswerLost,
    /// The end of a worker is not heard of.
    EndUnheard,
    /// What is reported of an earlier worker is taken for what a later one does.
    LateReportTaken,
    /// What a released worker has not read is gone with it.
    LostAtRelease,
    /// A parent is not shown what relay says of its workers.
    NewsLost,
    /// What comes again is not marked.
    MarkMissing,
    /// What is for one worker is shown to another agent.
    Astray,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::OldLetIn,
        Self::EndForgotten,
        Self::EndedTwice,
        Self::StartedTwice,
        Self::AnsweredEarly,
        Self::AnswerLost,
        Self::EndUnheard,
        Self::LateReportTaken,
        Self::LostAtRelease,
        Self::NewsLost,
        Self::MarkMissing,
        Self::Astray,
    ];
}
