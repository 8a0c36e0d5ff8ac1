//! What the person may do about deliveries, and what becomes of them.

marks! { HoldMark:
    /// All is held.
    HoldsAll,
    /// One agent is.
    HoldsAgent,
    /// What is held already is to be held.
    HoldsAgain,
    /// The person is to be held.
    HoldsThePerson,
    /// Somebody is to be held who is not there.
    HoldsNobody,
    /// An agent's session asks.
    NotThePersonHolds,
    /// A message is held when it is accepted.
    HeldAtOnce,
    /// It is held for some of those who get it.
    HeldForSome,
    /// What waits is held when the hold is set.
    HeldWhereItWaits,
    /// What was handed over is held when it comes back.
    HeldWhenItCameBack,
    /// What was read is held when its agent asks for it again.
    HeldWhenAskedAgain,
    /// What comes back was let pass, and is not held again.
    AllowedForGood,
    /// Its sender is told that a message is held for all, or for whom.
    NoteOfAll,
    NoteOfRecipient,
    NoteOfSender,
    /// And for others.
    NoteOfSeveral,
    /// What is held is shown.
    ListsHeld,
    PeeksAtHeld,
    /// A hold ends.
    Lifts,
    /// There is none.
    LiftsNothing,
    /// A hold ends on somebody who has gone.
    LiftsWhoHasGone,
    /// Some of what it was on is held by another one.
    LiftedAndHeldStill,
    /// A message passes.
    Allows,
    /// To several.
    AllowsSeveral,
    /// What passes has something behind it.
    PassesInFront,
    /// Somebody waited for what passes.
    PassesToWhoWaits,
    /// A message is dropped.
    Drops,
    /// What is to pass or to be dropped is not held.
    NotHeld,
    /// Who has sent what is held goes on with it.
    ReplyToHeldOwn,
    /// Somebody goes back to what is held for it, or was dropped.
    KeptFromReader,
    /// Somebody asks what becomes of it.
    TraceKeptFromReader,
    /// An agent is to be retired for which messages are held.
    RetiresHeld,
    /// An inbox is full of what is held.
    FullOfHeld,
}
