//! The branches of the contract that a random run may take.

marks! { Mark:
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
    /// A parked read is said to be passed.
    PassedWhileParked,
    /// The session of a parked read closes.
    WaitClosed,
    /// The relay stops while several reads are parked.
    StopWithWaits,
    /// A read that would wait is answered at once, because the relay is stopping.
    ReadWhileStopping,
    /// A post that would be accepted is refused, because the relay is stopping.
    PostWhileStopping,
    /// A hand-over is undone by a broken end.
    UndoByBrokenEnd,
    /// A passed hand-over is undone by an orderly end of a stream.
    UndoByOrderlyStreamEnd,
    /// A hand-over on an exchange is undone by an orderly end, because it was not passed.
    UndoByOrderlyEndUnpassed,
    /// A hand-over is undone because its call was cancelled.
    UndoByCancel,
    /// A hand-over is undone because its reply was lost.
    UndoByLoss,
    /// A passed hand-over is undone by a cancelled call or a lost reply.
    UndoAfterPassing,
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
    /// A reply was read, as its stream's next call says.
    ReadByCall,
    /// A client reads a resource, or watches one, while a reply to its session is in doubt.
    LookConfirmsNothing,
    /// The same by a call that is refused.
    ReadByRefusedCall,
    /// A hand-over is not confirmed by its session's next call, because it was not passed.
    UnpassedAtCall,
    /// A passed hand-over on an exchange is not confirmed by its session's next call.
    CallOnExchange,
    /// A reply on an exchange was read, as bytes say that came behind it.
    ReadByFollowed,
    /// Bytes came behind a reply on an exchange that was not passed yet.
    FollowedUnpassed,
    /// Bytes are said to have come behind a passed reply on a stream.
    FollowedOnStream,
    /// The same while only a keep-alive is missing.
    FollowedOnStreamWhenOverdue,
    /// Bytes are said to have come behind the reply of a parked read.
    FollowedWhileParked,
    /// Bytes came behind a reply that handed nothing over, or not any more.
    FollowedForNothing,
    /// A hand-over on an exchange is confirmed by the end of the doubt.
    ConfirmByDoubtEndOnExchange,
    /// A hand-over on a stream is confirmed by the end of the doubt, after a keep-alive.
    ConfirmByDoubtEndOnStream,
    /// A doubt on a stream ends, and no keep-alive was written.
    Overdue,
    /// An overdue hand-over is confirmed by a keep-alive.
    ConfirmByKeepAlive,
    /// Two overdue hand-overs are confirmed by one keep-alive.
    ConfirmSeveralByKeepAlive,
    /// An overdue hand-over is confirmed by its stream's next call.
    OverdueConfirmedByCall,
    /// An overdue hand-over is undone by its stream's end.
    OverdueUndoneByEnd,
    /// An overdue hand-over is undone by a cancelled call or a lost reply.
    OverdueUndoneByNews,
    /// A keep-alive is written to a stream before a reply is passed.
    KeptAliveUnpassed,
    /// A keep-alive is written behind a reply that is in doubt.
    KeptAliveInDoubt,
    /// A keep-alive is written behind two replies that are in doubt.
    KeptAliveForSeveral,
    /// A keep-alive is written behind a reply that is overdue and another one that is in doubt.
    KeptAliveForOverdueAndDoubted,
    /// A keep-alive comes so long after the end of the doubt that the machine was asleep: the doubt begins anew.
    KeptAliveTooLate,
    /// A keep-alive is written behind a reply that has one behind it.
    KeptAliveAgain,
    /// A keep-alive is said to have been written on an exchange whose reply is in doubt.
    KeptAliveOnExchange,
    /// A keep-alive is said to have been written to a session that is not open.
    KeptAliveOnClosed,
    /// The end of a doubt is acted on at the latest moment at which it counts.
    DoubtEndsAtTheLatest,
    /// The end of a doubt is acted on too late.
    DoubtAnew,
    /// The same by one millisecond.
    DoubtAnewByAMillisecond,
    /// The end of a doubt that began anew is acted on too late.
    DoubtAnewAgain,
    /// A doubt begins anew although a keep-alive was written behind the reply.
    DoubtAnewForgetsKeepAlive,
    /// A hand-over whose doubt began anew is confirmed by the end of it, by a keep-alive or by bytes behind it.
    AnewConfirmed,
    /// A hand-over whose doubt began anew is undone.
    AnewUndone,
    /// A reply was read, as the orderly end of its exchange says.
    ReadByOrderlyExchangeEnd,
    /// A reply that was read is confirmed when it cannot be cancelled any more.
    ReadSettles,
    /// A post needs the room of what was read.
    ReadGivesWay,
    /// It needs the room of more than one reply.
    ReadGivesWayTogether,
    /// A read asks for what somebody sends who is not there.
    ReadFromUnknown,
    /// A read asks for what somebody has sent who has gone.
    ReadFromGone,
    /// A read leaves what others sent than the one that it asks for.
    ReadLeavesOthers,
    /// A read leaves what is more than it asks for.
    ReadLeavesMore,
    /// A read is refused because another one waits for the inbox already.
    AlreadyWaits,
    /// That is another session's.
    AlreadyWaitsElsewhere,
    /// A read waits for one sender while something of another's is there.
    WaitsForOneAlone,
    /// Somebody waits longer, for another sender.
    MessagePassesByWhoWaitsForAnother,
    /// One more reply of an inbox is read than may be cancelled.
    ReadGivesWayToRead,
    /// It is the one that was read just now, since it is the oldest.
    ReadGivesWayAtOnce,
    /// A session closes after one of its replies was read, and before that is confirmed.
    ReadOutlivesItsSession,
    /// A reply that was read is undone by its cancellation, which was overtaken by the session's next call.
    UndoWhenRead,
    /// A reply that was read is said to be lost.
    LostWhenRead,
    /// Bytes are said to have come behind a reply that was read.
    FollowedWhenRead,
    /// An agent is told of the start.
    NoticeTold,
    /// The first that an agent is answered is that its post was accepted, and it is told of the start.
    NoticeBesideAPost,
    /// It is something else, and it is told of the start.
    NoticeBesideAnotherAnswer,
    /// An agent is told of the start, and there is nothing else to tell.
    NoticeAlone,
    /// A read that would wait is answered at once, only to tell of the start.
    NoticeInsteadOfWait,
    /// A read waits though its agent is to be told of the start.
    WaitsPastTheStart,
    /// It ends without a message, and tells of the start.
    NoticeAfterAWait,
    /// A parked read is answered only because the start is to be told again.
    NoticeWakes,
    /// A parked read is answered with undone messages, and the start that is to be told again.
    NoticeWakesWithMessages,
    /// The start is told to a read that stands behind the person's, who reads in the agent's stead.
    NoticePassesThePersonBy,
    /// An agent is told of the start again, because the first reply did not arrive.
    NoticeToldAgain,
    /// A session calls that was never admitted, or is closed.
    CallOnClosed,
    /// A session closes that is not open.
    CloseOfClosed,
    /// A hand-over is passed a second time.
    PassedAgain,
    /// The same while only a keep-alive is missing.
    PassedAgainWhenOverdue,
    /// A reply is passed that handed nothing over, or not any more.
    PassedForNothing,
    /// A call is cancelled that has no wait and no hand-over.
    CancelledForNothing,
    /// A reply is lost that handed nothing over, or not any more.
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
    /// A session asks to be bound to the person.
    PersonAtOpen,
    /// An agent's session names the person, in a post.
    PersonNamedPosting,
    /// An agent's session names the person, in a read or a look.
    PersonNamedReading,
    /// The person's session leaves its own name out.
    PersonLeftOut,
    /// A message goes to the person.
    PostToPerson,
    /// The person reads in the stead of an agent that is not told yet of the start.
    NoticeLeftToTheAgent,
    /// A peek shows something.
    PeekOfSomething,
    /// A look shows no more than it asks for of what waits.
    PeekLeavesMore,
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
    /// Also if what was read gave way.
    InboxFullThoughRead,
    /// A message fills the last byte of an inbox.
    InboxFilledToTheByte,
    /// A message fills the last place of an inbox.
    InboxFilledToThePlace,
    /// A message has more than one copy.
    SeveralCopies,
    /// One of many has no room for a message, and not the first.
    FullForOneOfMany,
    /// What would have given way does not, because another inbox has no room.
    NothingGivesWayForNothing,
    /// A channel is made.
    ChannelMade,
    /// A channel is joined.
    ChannelJoined,
    /// A channel is made by its name.
    ChannelMadeByName,
    /// One is to be made that is there.
    ChannelExists,
    /// What it is about is too long.
    TopicTooLong,
    /// A channel is looked at of which somebody said what it is about.
    ChannelSeenWithTopic,
    /// Who asks to join a channel is in it.
    ChannelJoinedAgain,
    /// A channel is left.
    ChannelLeft,
    /// Who is to leave a channel is not in it.
    LeavesWhereItIsNot,
    /// The channel of all agents is to be left.
    NobodyLeavesAll,
    /// The person asks to be in a channel, or to leave one.
    PersonInNoChannel,
    /// Several channels of a project are listed.
    ChannelsListed,
    /// One channel too many.
    TooManyChannels,
    /// A read asks for a channel that is not there.
    UnknownChannel,
    /// A read asks for a channel.
    ReadOfChannel,
    /// It leaves what was sent elsewhere.
    ReadLeavesOtherChannels,
    /// Somebody waits longer, for another channel.
    MessagePassesByWhoWaitsForAChannel,
    /// What was read before is shown.
    EarlierShown,
    /// The same beside something new.
    EarlierBesideNew,
    /// More was read before than is asked for.
    EarlierLeavesTheOldest,
    /// What was read before is shown in another order than that in which it was read.
    EarlierReadInAnotherOrder,
    /// What was handed over before and is not known to have arrived is shown.
    EarlierInDoubt,
    /// As much is kept in mind as can be.
    EarlierForgotten,
    /// A session asks who it is.
    WhoAmI,
    /// An agent is looked up.
    FoundAgent,
    /// An agent is looked up that is not there.
    FoundNoAgent,
    /// The agents of another project are listed.
    ListOfAnotherProject,
    /// Some are not listed because they are not active, or not there.
    ListWithoutTheInactive,
    /// An agent is there, and has done nothing for a while.
    Idle,
    /// A session begins of an agent that had left.
    ComesBack,
    /// A client of an agent has left, and another one is still there.
    LeavesOthers,
    /// The stream has ended that spoke for an agent, and was bound to nobody.
    LeavesUnbound,
    /// A bound session gives its own name without its project.
    BoundNamedItselfWithoutProject,
    /// An agent is registered that was not there.
    RegisteredAnew,
    /// The same in another project than the default one.
    RegisteredInAnotherProject,
    /// What is to be registered is no name.
    RegisteredNoName,
    /// The person is to be registered.
    RegisteredThePerson,
    /// What an agent says of itself is too long.
    BadProfile,
    /// An agent changes its role.
    RoleChanged,
    /// One agent too many.
    TooManyAgents,
    /// One project too many.
    TooManyProjects,
    /// A session is one too many, and registers nobody.
    TooManySessionsToRegister,
    /// An instance is older than the one that is there.
    OlderInstance,
    /// A second session of an instance joins.
    SameInstanceJoins,
    /// A session of no instance joins.
    NoInstanceJoins,
    /// A later instance takes an agent over that has sessions.
    TakenOver,
    /// A wait ends because its session is fenced.
    FencedWait,
    /// The same of a post that waits for its answer.
    FencedWhileItAsks,
    /// A hand-over is undone because its session is fenced.
    UndoByFencing,
    /// A hand-over was read before its session was fenced.
    FencedAfterReading,
    /// What was undone so goes to somebody who waits.
    WokenByATakeover,
    /// A fenced session calls.
    CallOfTheFenced,
    /// A fenced session ends.
    FencedEnds,
    /// A transient agent goes.
    TransientGoes,
    /// The person retires an agent.
    Retired,
    /// One of the roster, which stays.
    RetiresRoster,
    /// One for which messages wait.
    RetiresUnread,
    /// One whose inbox somebody waits for.
    RetiresWaitedFor,
    /// One that has a session.
    RetiresConnected,
    /// An agent's session asks for it.
    NotThePersonRetires,
    /// The same because its time has come, and nothing else has.
    TransientGoesByItself,
    /// A transient agent without a session stays, because something is in its inbox.
    TransientStays,
    /// A transient agent comes back before it goes.
    TransientComesBack,
    /// A transient agent is registered to stay.
    TransientIsToStay,
    /// A transient agent that goes was in a group.
    TransientLeavesItsGroup,
    /// A transient agent that goes was the last one in a channel.
    ChannelEndsWithItsLast,
    /// A group is made in another project than its maker's.
    GroupOfAnotherProject,
    /// A group is ended.
    GroupDeleted,
    /// A group is there already.
    GroupExists,
    /// A group is not there.
    UnknownGroup,
    /// The group of all agents is to be changed.
    EveryoneIsProtected,
    /// A description is too long.
    DescriptionTooLong,
    /// One group too many.
    TooManyGroups,
    /// A member is added.
    MemberAdded,
    /// A member is added that is one.
    MemberTwice,
    /// One member too many.
    TooManyMembers,
    /// A member is taken out.
    MemberRemoved,
    /// Who is to be taken out is no member.
    NoMember,
    /// A group has an agent by itself and by its role.
    MemberInTwoWays,
    /// A message is looked for, and found.
    Found,
    /// A post is one that was accepted before, by its key.
    PostedBefore,
    /// The same of one that was to wait for its answer.
    PostedBeforeDoesNotWait,
    /// A key was used for a post that said something else.
    KeyOfOtherContent,
    /// A key was used by somebody else.
    KeyOfAnother,
    /// A key was used too long ago.
    KeyTooOld,
    /// A key was used before too many others.
    KeyForgotten,
    /// A key is empty or too long.
    BadKey,
    /// An agent that is to be a new one is there.
    AgentExists,
    /// A message belongs to a thread that its sender named.
    InThread,
    /// The name of a thread is none.
    BadThread,
    /// A message answers another.
    Reply,
    /// It answers one that its sender has not read yet.
    ReplyToUnread,
    /// It answers one that was handed over.
    ReplyToDoubted,
    /// It answers one that was read.
    ReplyToRead,
    /// It answers one that its sender sent to the same agent.
    ReplyToOwn,
    /// It answers none that is known.
    ReplyToUnknown,
    /// It answers one that is not among the latest that either side got.
    ReplyToForgotten,
    /// A reply begins a thread.
    ThreadBegins,
    /// Senders have taken turns more than once.
    SeveralHops,
    /// They have taken turns too many times.
    TooManyHops,
    /// The person says something where turns are counted.
    PersonEndsTheHops,
    /// A message is answered after which the thread went on.
    ReplyToAnOlderOne,
    /// A message is too long, and its body alone is not.
    TooLongByItsMetadata,
    /// A post waits for its answer.
    Asks,
    /// The same while something of those whom it asks is there already.
    AsksThoughSomethingIsThere,
    /// The same while somebody waits for its inbox.
    AsksBeforeAWait,
    /// The same while another post of its agent waits for its answer.
    AsksBehindAQuestion,
    /// A post cannot wait because too many do.
    TooManyWaitsToAsk,
    /// A post is answered.
    Answered,
    /// It is answered by somebody whom it did not ask, in its thread.
    AnsweredInItsThread,
    /// An answer goes to the one who asked, and not to who has waited longer.
    AnswerPassesByWhoWaitsLonger,
    /// What is no answer goes to somebody else.
    NoAnswerPassesByWhoAsks,
    /// No answer comes in time.
    NoAnswer,
    /// The relay stops while a post waits for its answer.
    StopsWhileItAsks,
    /// An answer that was waited for tells of the start.
    NoticeInAnAnswer,
    /// A read that is to be the only one waits beside a post of its session that does.
    WaitsBesideItsQuestion,
    /// One wait too many.
    TooManyWaits,
    /// A session watches what it watches already.
    WatchesAgain,
    /// A session watches something no more.
    WatchesNoMore,
    /// A session is told that its agent's inbox has changed.
    ToldOfItsInbox,
    /// A session is told that who there is has changed.
    ToldOfAgents,
    /// More than one thing that is watched changes in a step.
    ToldOfMuch,
    /// One session too many.
    TooManySessions,
    /// Somebody goes back to a message that it is shown.
    GoneBack,
    /// It has replies.
    GoneBackToReplies,
    /// Somebody has read it.
    GoneBackToReaders,
    /// Somebody has shown how it takes it.
    GoneBackToReactions,
    /// It was said in a channel, and neither sent nor got by those who are shown it.
    GoneBackInChannel,
    /// Those who go back to it are not shown it, or it is forgotten.
    GoneBackInVain,
    /// A list leaves out what is older than another message, or newer, or too much.
    ListedInPart,
    /// Several of a list are shown.
    ListedMany,
    /// An agent goes back in the person's way.
    GoneBackNotForAgents,
    /// An agent says that it has read a message.
    MarkedRead,
    /// The same again, or of one that it is known to have got.
    MarkedReadBefore,
    /// Its own.
    MarkedOwn,
    /// An agent shows how it takes a message.
    Reacted,
    /// It shows that already.
    ReactedBefore,
    /// It shows that no more.
    ReactionTakenBack,
    /// One reaction too many.
    TooManyReactions,
    /// No way to take a message.
    InvalidEmoji,
    /// The person asks what happened to a message.
    Traced,
    /// The same by the first digits of its id.
    TracedByItsBeginning,
    /// It went to more than one agent.
    TracedOfSeveral,
    /// It was handed over, came back and was handed over again.
    TracedBackAndForth,
    /// Something happened to it, and its acceptance is forgotten.
    TraceForgotten,
    /// Whoever got it has said that it has read it.
    TracedMarked,
    /// Those who ask have neither sent nor got it.
    TraceNotTheirs,
    /// Those who ask have got it, and see their own deliveries.
    TraceOfWhatWasGot,
    /// It was sent by somebody of the project that asks, and to others too.
    TraceOfWhatWentElsewhere,
    /// There never was such a message.
    TraceUnknown,
    /// An agent asks.
    TraceNotForAgents,
    /// A message goes to an agent for whom nobody has acted since the start.
    NeverThere,
    /// It goes to one that was there and is not any more.
    Gone,
    /// It goes to several, for none of whom anybody has acted.
    NoneWasEverThere,
    /// It goes to several who are not there any more.
    AllAreGone,
    /// Some of them never were.
    SomeGoneAndOthersNeverThere,
    /// An agent has done nothing for long, and the session that last acted for it, which is not bound to it, is open.
    ThereThoughUnboundAndIdle,
    /// An agent is not there, and the person waits for its inbox.
    ThereByThePersonWhoWaits,
    /// A reply had no room for all that was asked for.
    ReadCutForItsRoom,
    /// A message is shown in parts.
    ShownInParts,
    /// A part of it is, of what may have been seen before.
    PartShownAgain,
    /// All of a message's parts have arrived.
    AllPartsArrived,
    /// A part did not arrive.
    PartReturned,
    /// A part did not arrive of a message all of whose parts were in replies.
    LastPartReturned,
    /// What was shown in parts goes to somebody with room for all of it.
    PartsGoneOnWhole,
    /// Another session is shown parts of what is shown to one already.
    ShownInPartsToAnotherAsWell,
    /// One of several that are shown parts has the last.
    ShownWholeToTheFirst,
    /// A client that names itself is shown the next part.
    PartsGoneOnByTheirClient,
    /// The stream that was shown some parts is gone.
    PartsBegunAnewForAnotherStream,
    /// A later instance has taken over the agent that was shown some parts.
    PartsBegunAnewForALaterInstance,
    /// An agent asks for what it was handed behind a message, of which some was read.
    AfterBringsWhatWasRead,
    /// The message that it names is in a reply that is in doubt, which confirms that.
    AfterConfirms,
    /// Something is behind it in that reply.
    AfterInTheMiddle,
    /// All of its parts are in replies.
    AfterConfirmsParts,
    /// A reply behind it is undone.
    AfterUndoes,
    /// That was read.
    AfterUndoesWhatWasRead,
    /// A reply behind it stands, since the same asking brought something in it.
    AfterLeavesWhatCameAgain,
    /// What was shown in parts behind it begins again.
    AfterBeginsPartsAgain,
    /// There is no room for all of it.
    AfterLacksRoom,
    /// The message that is named came back itself.
    AfterWhatCameBack,
    /// It is not remembered.
    AfterUnknown,
    /// The agent was handed nothing yet.
    AfterNothing,
    /// The read waits all the same.
    AfterWaits,
}
