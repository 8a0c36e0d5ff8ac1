//! Ways in which relay may be wrong.

/// A way in which an engine may be wrong. What must come of each is in [`crate::suites`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// Replies show the newest message first.
    Lifo,
    /// Nothing comes again that is asked for behind a message.
    AfterIgnored,
    /// What comes again because it was asked for is not marked.
    AskedAgainUnmarked,
    /// What came again behind a message comes whenever the same message is named.
    AskedAgainTwice,
    /// Nothing is remembered that a read may name.
    SeenForgotten,
    /// An undone hand-over is forgotten.
    DropOnUndo,
    /// An undone hand-over comes back twice.
    DuplicateOnUndo,
    /// An undone hand-over goes behind the newer messages.
    UndoOutOfOrder,
    /// A redelivered message is not marked.
    UndoUnmarked,
    /// A cancelled wait still takes the next message.
    WaitNotCancelled,
    /// A wait ends a second early.
    WaitEndsEarly,
    /// A woken wait is not answered.
    WakeUpLost,
    /// A hand-over is confirmed when its reply is made, not when it has arrived.
    ConfirmedTooEarly,
    /// A confirmed message is shown once more.
    ConfirmedComesBack,
    /// A read sometimes takes another role's messages.
    LeakToOtherRole,
    /// A bound session may speak for any role.
    BindingIgnored,
    /// A post into a full inbox is answered with an id.
    SilentDropWhenFull,
    /// A post that is refused for its length is accepted all the same.
    RefusedButPosted,
    /// Nothing tells of a start.
    NoticeMissing,
    /// Every read tells of a start.
    NoticeRepeated,
    /// No answer tells of a start but one to a read.
    NoticeLeftToReads,
    /// Everybody is told of a start, also who had no session before. In what the server is started with.
    NoticeToAll,
    /// Nobody is known to have had a session before. In what the server is started with.
    SessionsForgotten,
    /// Closed sessions are kept.
    SessionLeak,
    /// Closed sessions are kept that nothing hung on.
    IdleSessionLeak,
    /// A reply leaves its newest message for the next.
    NewestHeldBack,
    /// A reply leaves its oldest message for the next, where a reader has been lost before.
    OldestHeldBack,
    /// A refusal names another value than the one that was given.
    RefusalMisnames,
    /// The first post to each role is refused, as if its inbox were full.
    FullTooEarly,
    /// The drained inboxes give no answer.
    EmptyNotAnswered,
    /// An orderly stop leaves the waits waiting.
    StopIgnored,
    /// A request confirms the reply before it on its connection, though it had come before that reply was passed.
    PipelinedConfirms,
    /// A message to all is left out of a reply to a role.
    OneLeftOut,
    /// Who sends to several gets a copy too.
    CopyToSender,
    /// A later instance of an agent lives beside the one before.
    FenceIgnored,
    /// Whoever asks is answered with the oldest message there is, or the next.
    AnsweredByAnything,
    /// The answer that a call waits for is left to whoever reads next.
    AnswerLeftToOthers,
    /// A read that asks for one sender's messages gets those of all.
    SenderIgnored,
    /// A read that asks for one sender's messages takes those of others with it, and shows them nobody.
    FilterForgets,
    /// What a read that asks for one sender's messages passes over comes behind what is sent later.
    FilterReorders,
    /// Whoever reads a channel by its name is not in it from then on.
    ReadDoesNotJoin,
    /// A call that is to wait alone waits beside others.
    WaitsBeside,
    /// A message is sent as if it belonged to nothing.
    TurnsNotCounted,
    /// A name that no project stands before means an agent of another one, where one has it too.
    NamesakeReached,
    /// A name means the agent of the sender's own project, where it has one of that name, whichever project stands before it.
    ProjectUnheeded,
    /// What is for all of a project goes to all of all.
    BroadcastSpills,
    /// What is for all of all projects goes to all of the sender's.
    BroadcastStaysHome,
    /// Channels of the same name are one in all projects.
    ChannelShared,
    /// Groups of the same name are one in all projects.
    GroupShared,
    /// The thread is ended one turn before its limit. In what the server is started with.
    StoppedTooEarly,
    /// A reply is as long as what waits, whatever its client shows.
    RoomIgnored,
    /// All clients that name themselves are taken for one: each is shown other parts of a message.
    ClientsAreOne,
    /// What waits does so by the clock that people read. In the server's clock.
    WaitsByTheWall,
    /// Something panics. In the clients.
    Panics,
    /// News of progress does not come. In the clients.
    ProgressLost,
    /// Answers over HTTP+SSE come twice. In the clients.
    AnsweredTwice,
    /// The list of tools is short of one. In the clients.
    ToolHidden,
    /// What the notes say of the waits before a kill is not read. On the server's disk.
    NotesLost,
    /// The stdio bridge closes every connection in order. In its connections.
    BridgeNeverBreaksOff,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 59] = [
        Self::Lifo,
        Self::AfterIgnored,
        Self::AskedAgainUnmarked,
        Self::AskedAgainTwice,
        Self::SeenForgotten,
        Self::DropOnUndo,
        Self::DuplicateOnUndo,
        Self::UndoOutOfOrder,
        Self::UndoUnmarked,
        Self::WaitNotCancelled,
        Self::WaitEndsEarly,
        Self::WakeUpLost,
        Self::ConfirmedTooEarly,
        Self::ConfirmedComesBack,
        Self::LeakToOtherRole,
        Self::BindingIgnored,
        Self::SilentDropWhenFull,
        Self::RefusedButPosted,
        Self::NoticeMissing,
        Self::NoticeRepeated,
        Self::NoticeLeftToReads,
        Self::NoticeToAll,
        Self::SessionsForgotten,
        Self::SessionLeak,
        Self::IdleSessionLeak,
        Self::NewestHeldBack,
        Self::OldestHeldBack,
        Self::RefusalMisnames,
        Self::FullTooEarly,
        Self::EmptyNotAnswered,
        Self::StopIgnored,
        Self::PipelinedConfirms,
        Self::OneLeftOut,
        Self::CopyToSender,
        Self::FenceIgnored,
        Self::AnsweredByAnything,
        Self::AnswerLeftToOthers,
        Self::SenderIgnored,
        Self::FilterForgets,
        Self::FilterReorders,
        Self::ReadDoesNotJoin,
        Self::WaitsBeside,
        Self::TurnsNotCounted,
        Self::NamesakeReached,
        Self::ProjectUnheeded,
        Self::BroadcastSpills,
        Self::BroadcastStaysHome,
        Self::ChannelShared,
        Self::GroupShared,
        Self::StoppedTooEarly,
        Self::RoomIgnored,
        Self::ClientsAreOne,
        Self::WaitsByTheWall,
        Self::Panics,
        Self::ProgressLost,
        Self::AnsweredTwice,
        Self::ToolHidden,
        Self::NotesLost,
        Self::BridgeNeverBreaksOff,
    ];
}
