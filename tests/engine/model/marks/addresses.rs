//! Whom an address may mean.

marks! { AddressMark:
    /// A message goes to all agents of a project.
    ToEveryone,
    /// A message goes to all agents.
    ToAllProjects,
    /// An address names another project than the sender's.
    ToAnotherProject,
    /// An address names the project whose own the relay is.
    ToHomeByItsName,
    /// Somebody registers as an agent of that project.
    RegisteredByHomesName,
    /// A name means a role.
    ToRole,
    /// An address can only mean a role.
    ToRoleAlone,
    /// A name means a group.
    ToGroup,
    /// A message goes to a group that has an agent by itself, and another by its role.
    ToGroupWithRole,
    /// A message goes to a channel.
    ToChannel,
    /// A message goes to the channel of all agents.
    ToGeneral,
    /// A message goes to a channel that has nobody else.
    ToEmptyChannel,
    /// An agent writes to itself.
    ToItself,
    /// The sender is among those who are meant, and gets no copy.
    SenderIsAmongThem,
    /// Nobody but the sender is meant.
    NobodyIsMeant,
    /// An agent that is about to go gets no copy of what is sent to many.
    NoCopyForWhoGoes,
    /// An answer is asked for of a channel without another member.
    AsksNobody,
    /// A channel of a project is meant in which nobody is.
    ChannelOfNoProject,
    /// A name is an agent's, and a role of others.
    AgentBeforeRole,
    /// A name is an agent's, and a group.
    AgentBeforeGroup,
    /// A name is a role, and a group.
    RoleBeforeGroup,
    /// A text is no address.
    NoAddress,
    /// A message goes to several who are named.
    ToSeveral,
    /// One of several is named twice.
    NamedTwice,
    /// What stands between commas cannot stand there.
    NoList,
    /// A message goes to a channel that nobody has made.
    ToNobodysChannel,
}
