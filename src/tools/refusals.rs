//! What a caller reads about the engine's refusals: what was wrong, and what would be accepted. A toolset that has other words for
//! some of them says those itself.

use std::borrow::Cow;

use super::workers;
use crate::engine::agents::{self, NamedAs, Use};
use crate::engine::limits::{
    ACTION_NAME_BYTES_MAX, EMOJI_BYTES_MAX, ID_DIGITS_MIN, IDEMPOTENCY_KEY_BYTES_MAX, NODE_NAME_BYTES_MAX,
    PROFILE_BYTES_MAX, REASON_BYTES_MAX, RECEIPT_METADATA_BYTES_MAX, RECENT_MAX, THREAD_BYTES_MAX,
};
use crate::engine::{
    AgentName, DEFAULT_PROJECT, PERSON, Refusal, actions, groups, holds, mail, nodes, receipts, records,
    sessions, surfacing, trace,
};

/// How many names of groups or channels a refusal lists.
const LISTED_MAX: usize = 32;

/// What a message may go to beside a role or an agent.
pub const OTHER_ADDRESSES: &str = "a message may also go to user, @group, #channel, * or @everyone";

/// Says what was wrong, and what would be accepted.
pub fn refused(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Agents(refusal) => misnamed(refusal),
        Refusal::Sessions(sessions::Refusal::TooMany { sessions }) => {
            format!("as many sessions are open already as are accepted: {sessions}; close one")
        }
        Refusal::Mail(refusal) => not_carried(refusal),
        Refusal::Groups(refusal) => not_grouped(refusal),
        Refusal::Nodes(refusal) => not_a_node(refusal),
        Refusal::Actions(refusal) => not_acted(refusal),
        Refusal::Receipts(refusal) => not_receipted(refusal),
        Refusal::Trace(refusal) => not_traced(refusal),
        Refusal::Holds(refusal) => not_held(refusal),
        Refusal::Records(refusal) => not_recorded(refusal),
        Refusal::Surfacing(surfacing::Refusal::NoProgram) => {
            "only the hooks of a program ask for that".to_owned()
        }
        Refusal::Workers(refusal) => workers::refused(refusal),
        Refusal::Stopping => "relay is stopping; post again after its next start".to_owned(),
    }
}

fn not_held(refusal: &holds::Refusal) -> String {
    match refusal {
        holds::Refusal::OnlyThePerson => "only the person holds messages, and lets them pass".to_owned(),
        holds::Refusal::NotThePerson => {
            format!(
                "{PERSON} is you, and what you send and get is never held; accepted: the name of an agent"
            )
        }
        holds::Refusal::NotHeld { given } => format!(
            "no message {given:?} is held; accepted: the id of one that is, or its first {ID_DIGITS_MIN} or more digits"
        ),
        holds::Refusal::Ambiguous { given, messages } => {
            format!("{messages} messages that are held have ids that begin with {given:?}; give more of it")
        }
        holds::Refusal::TooMany { holds } => {
            format!("as many agents are held already as are accepted: {holds}; let one go, or hold all")
        }
    }
}

fn not_recorded(refusal: &records::Refusal) -> String {
    match refusal {
        records::Refusal::OnlyThePerson => {
            "only the person goes back to messages in another's stead".to_owned()
        }
        records::Refusal::Unknown { given } => format!(
            "no message {given:?} that you have sent or got, or that was said in a channel of your project; accepted: the id of one of the latest messages"
        ),
        records::Refusal::TooManyReactions { reactions } => {
            format!(
                "there are {reactions} reactions to this message, and no room for another one; take one back, or send a message"
            )
        }
        records::Refusal::InvalidEmoji { given } => format!(
            "\"emoji\" is {given:?}; accepted: 1 to {EMOJI_BYTES_MAX} bytes without spaces and characters that are not seen, such as \":eyes:\""
        ),
    }
}

fn not_acted(refusal: &actions::Refusal) -> String {
    match refusal {
        actions::Refusal::NotYours => {
            "an agent registers what it does itself; all else about actions is the workspace's to ask"
                .to_owned()
        }
        actions::Refusal::Unknown { given, known } if known.is_empty() => {
            format!("no action {given:?}, nor any other; register it first")
        }
        actions::Refusal::Unknown { given, known } => {
            format!("no action {given:?}; there is {}", known.join(", "))
        }
        actions::Refusal::UnknownInvocation { given } => format!(
            "no invocation {given:?} that you have asked for or are to carry out; accepted: the id of one of the latest"
        ),
        actions::Refusal::InvalidName { given } => format!(
            "invalid name of an action {given:?}; accepted: 1 to {ACTION_NAME_BYTES_MAX} bytes without spaces and characters that are not seen, such as \"tests.run\""
        ),
        actions::Refusal::Taken { action, by } => {
            format!("{by:?} has an action {action:?} already; choose another name")
        }
        actions::Refusal::Denied { action } => {
            format!("the action {action:?} is not available to you; ask whoever has registered it")
        }
        actions::Refusal::Away { action, node } => {
            format!("the node {node:?}, which does {action:?}, is not connected; ask again when it is")
        }
        actions::Refusal::TooLong { what, bytes, max } => {
            format!("{what:?} has {bytes} bytes; accepted: at most {max}")
        }
        actions::Refusal::NeverAnswers { node } => {
            format!(
                "the node {node:?} is a web hook, which has no way to say what came of it; accepted: an agent, or a node that connects"
            )
        }
        actions::Refusal::TooManyNames { names, max } => {
            format!("\"available_to\" has {names} names; accepted: at most {max}, or none for all")
        }
        actions::Refusal::TooMany { actions } => {
            format!("as many actions are registered already as are accepted: {actions}; remove one")
        }
        actions::Refusal::TooManyOpen { open } => {
            format!(
                "{open} invocations wait for their answers, and there is no room for another one; ask again later"
            )
        }
    }
}

fn not_receipted(refusal: &receipts::Refusal) -> String {
    match refusal {
        receipts::Refusal::Unknown { given } => {
            format!(
                "no delivery {given:?}; accepted: the id of one that is listed, or is among the latest {RECENT_MAX} that have arrived"
            )
        }
        receipts::Refusal::InReply { given } => {
            format!(
                "the delivery {given:?} was read with a tool, and is neither failed nor deferred any more; accepted: that it is done"
            )
        }
        receipts::Refusal::ReasonTooLong { bytes } => {
            format!("the reason has {bytes} bytes; accepted: at most {REASON_BYTES_MAX}")
        }
        receipts::Refusal::MetadataTooLong { bytes } => {
            format!("the metadata has {bytes} bytes; accepted: at most {RECEIPT_METADATA_BYTES_MAX}")
        }
        receipts::Refusal::DeferredForTooLong { ms_max } => {
            format!("a delivery is deferred for at most {} hours", ms_max / 3_600_000)
        }
    }
}

fn not_a_node(refusal: &nodes::Refusal) -> String {
    match refusal {
        nodes::Refusal::NotYours => {
            "a node says what it has over its own connection; an agent has one node of its own; the rest is the workspace's to ask"
                .to_owned()
        }
        nodes::Refusal::Unknown => "there is no such node; make it first".to_owned(),
        nodes::Refusal::NotRegistered => {
            "this connection is no node's, or a later one has taken its place; register first".to_owned()
        }
        nodes::Refusal::OtherKind { pushes: true } => {
            "a node of that name is there, to which relay pushes; choose another name, or say \"kind\": \"http_push\"".to_owned()
        }
        nodes::Refusal::OtherKind { pushes: false } => {
            "a node of that name is there, which connects by itself; choose another name".to_owned()
        }
        nodes::Refusal::InvalidName { given } => {
            format!("invalid node name {given:?}; accepted: one line of 1 to {NODE_NAME_BYTES_MAX} bytes, without characters that nobody sees")
        }
        nodes::Refusal::InstanceConflict { silent_ms } => format!(
            "another instance of this node is connected; it is superseded once it has been silent for {} s",
            silent_ms / 1_000
        ),
        nodes::Refusal::Elsewhere { agent, node } => format!(
            "{:?} is bound to the node {node:?}; accepted: an agent that no other node has",
            agent.as_str()
        ),
        nodes::Refusal::AnothersOwn { owner } => format!(
            "this node is {:?}'s own and has no other agent; make one for several by POST /v1/nodes",
            owner.as_str()
        ),
        nodes::Refusal::NotBound { agent } => {
            format!("{agent:?} is not bound to this node; accepted: an agent that it has registered")
        }
        nodes::Refusal::Full { agents } => {
            format!("the node has as many agents as it takes: {agents}; release one of them first")
        }
        nodes::Refusal::NeverSent { agent, up_to, sent } => format!(
            "frame {up_to} of {:?} was never sent; accepted: 0 to {sent}",
            agent.as_str()
        ),
        nodes::Refusal::OtherLabel { known } => format!(
            "a node of that name is there with {}; give the same, or another name",
            match known {
                Some(known) => format!("the id {known:?}"),
                None => "an id that relay made".to_owned(),
            }
        ),
        nodes::Refusal::TooMany { nodes } => {
            format!("there are as many nodes as there may be: {nodes}")
        }
    }
}

/// Says that nobody is of a project, and which projects there are.
pub fn no_project(project: &str, known: &[String]) -> String {
    format!(
        "there is no project {project:?}; known projects: {}",
        listed(known)
    )
}

/// Says what is to end before an agent can be retired.
fn in_use(agent: &AgentName, by: &Use) -> String {
    let agent = agent.as_str();
    match by {
        Use::Roster => {
            format!("{agent:?} is one of the roster, which is always there; start relay with other --roles")
        }
        Use::Messages(count) => {
            let (messages, them) = if *count == 1 {
                ("message waits", "it")
            } else {
                ("messages wait", "them")
            };
            format!(
                "{count} {messages} for {agent:?} or may come back to it; read {them} first: relay read {agent}"
            )
        }
        Use::Held(count) => {
            let (messages, are, them) = if *count == 1 {
                ("message", "is", "it")
            } else {
                ("messages", "are", "them")
            };
            format!(
                "{count} {messages} for {agent:?} {are} held; drop {them}, or let {them} pass and read {them}, first: relay hold lists what is held"
            )
        }
        Use::Wait => format!("somebody waits for the inbox of {agent:?}; end that first"),
        Use::Worker => format!("{agent:?} is a worker that lives; release it first"),
        Use::Sessions(1) => format!("{agent:?} has an open session; end it first"),
        Use::Sessions(count) => format!("{agent:?} has {count} open sessions; end them first"),
        Use::Node(node) => {
            format!("{agent:?} is on node {node:?}, which may come back for it; it stays until relay ends")
        }
        Use::Action(action) => format!("{agent:?} handles the action {action:?}; delete that first"),
    }
}

fn misnamed(refusal: &agents::Refusal) -> String {
    let argument = |named: &NamedAs| match named {
        NamedAs::Sender => "from",
        NamedAs::Reader => "for",
        NamedAs::Session => "agent",
    };
    match refusal {
        agents::Refusal::Unknown { name, known } => format!("unknown role {name:?}; known roles: {known}"),
        agents::Refusal::UnknownAddress { name, known } => {
            format!("unknown role {name:?}; known roles: {known}; {OTHER_ADDRESSES}")
        }
        agents::Refusal::UnknownProject { name, project, known } => {
            format!("unknown role {name:?}; {}", no_project(project, known))
        }
        agents::Refusal::NotYou { named, name, bound } => {
            let argument = argument(named);
            // Who is of another project than the default one has to write that, and its own.
            let name = if bound.project() == DEFAULT_PROJECT {
                name.as_str().to_owned()
            } else {
                format!("{}:{}", name.project(), name.local())
            };
            let bound = bound.as_str();
            format!(
                "{argument:?} is {name:?}, but this session is bound to {bound:?}; leave {argument:?} out or give {bound:?}"
            )
        }
        agents::Refusal::Person { named, known } => {
            let argument = argument(named);
            format!(
                "{argument:?} is {PERSON:?}, which is the person's own inbox and name: only the relay command reads it or speaks for it; known roles: {known}"
            )
        }
        agents::Refusal::NobodysMode => format!(
            "{PERSON:?} is the person's, who reads by relay read and is brought nothing; accepted: an agent"
        ),
        agents::Refusal::Anonymous { named, known } => {
            let argument = argument(named);
            format!("missing argument {argument:?}; give your role, one of: {known}")
        }
        agents::Refusal::Fenced { agent } => format!(
            "{:?} was taken over by a session that began later, so this one can neither post nor read for it any more; begin a new session if it is still to be yours",
            agent.as_str()
        ),
        agents::Refusal::Nobody { to } => {
            format!("nobody but you is meant by {:?}; nothing was sent", to.as_str())
        }
        agents::Refusal::InvalidName(error) => error.to_string(),
        agents::Refusal::InvalidAddress(error) => error.to_string(),
        agents::Refusal::InvalidProfile { field, given } => {
            format!("{field:?} is {given:?}; accepted: one line of at most {PROFILE_BYTES_MAX} bytes")
        }
        agents::Refusal::InUse { agent, by } => in_use(agent, by),
        agents::Refusal::NotThePerson => {
            "only the person who runs relay may ask for that, by the relay command".to_owned()
        }
        agents::Refusal::Exists { agent } => {
            format!(
                "there is an agent {:?} already; choose another name",
                agent.as_str()
            )
        }
        agents::Refusal::TooManyAgents { agents } => {
            format!("as many agents are registered already as are accepted: {agents}; use one of them")
        }
        agents::Refusal::TooManyProjects { projects } => {
            format!("there are as many projects already as are accepted: {projects}; use one of them")
        }
    }
}

fn not_carried(refusal: &mail::Refusal) -> String {
    match refusal {
        mail::Refusal::BodyTooLong { bytes, bytes_max } => {
            format!("body has {bytes} bytes; accepted: at most {bytes_max}")
        }
        mail::Refusal::InboxFull {
            agent,
            messages,
            bytes,
            messages_max,
            bytes_max,
        } => {
            let agent = agent.as_str();
            format!(
                "inbox of {agent:?} is full: {messages} messages, {bytes} bytes; accepted: at most {messages_max} messages and {bytes_max} bytes; post again after it was read; a person can empty it: relay read {agent}"
            )
        }
        mail::Refusal::InvalidThread { given } => {
            format!("thread is {given:?}; accepted: one line of 1 to {THREAD_BYTES_MAX} bytes")
        }
        mail::Refusal::AmbiguousMessage { given } => {
            format!("the ids of several messages begin with {given:?}; accepted: more digits of one, or all")
        }
        mail::Refusal::UnknownMessage { given } => format!(
            "unknown message {given:?}; accepted: the id of one that you got, among the latest {RECENT_MAX}"
        ),
        mail::Refusal::NotRemembered { given, oldest } => match oldest {
            Some(oldest) => format!(
                "after is {given:?}, which is none of the messages that you were handed, as far as relay remembers them; accepted: the id of one of those, the oldest is {oldest}"
            ),
            None => format!("after is {given:?}, and you were not handed any message yet; leave it out"),
        },
        mail::Refusal::DeadlineOver { deadline, now } => {
            format!("deadline is {deadline}, and it is {now}; accepted: a moment that is still to come")
        }
        mail::Refusal::CannotBring { agent, mode } => {
            let (agent, mode) = (agent.as_str(), mode.as_str());
            format!(
                "nothing can be brought to {agent:?} in the mode {mode:?}: its program does not say when; leave the mode out, or choose \"immediate\" or \"manual\""
            )
        }
        mail::Refusal::InvalidKey { given } => {
            format!("idempotency key is {given:?}; accepted: 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes")
        }
        mail::Refusal::OtherContent { key } => format!(
            "the idempotency key {key:?} was used for a message that said something else; use a new one for each message"
        ),
        mail::Refusal::TooManyHops { hops_max, thread } => format!(
            "the thread {thread:?} has gone back and forth {hops_max} times; stop, do not answer it any more, and ask a person, who can let it go on by a message to you in that thread: relay send NAME TEXT --thread THREAD"
        ),
        mail::Refusal::NoAnswer { to, ms } => {
            format!(
                "{:?} has not answered within {ms} ms; the message is there all the same",
                to.as_str()
            )
        }
        mail::Refusal::AlreadyWaits { agent } => {
            format!(
                "a call waits for the inbox of {:?} already; wait for its answer",
                agent.as_str()
            )
        }
        mail::Refusal::TooManyWaits { waits } => {
            format!("as many reads wait already as are accepted: {waits}; read without waiting")
        }
    }
}

fn not_grouped(refusal: &groups::Refusal) -> String {
    match refusal {
        groups::Refusal::UnknownGroup { name, known } => {
            format!("unknown group {name:?}; known groups: {}", listed(known))
        }
        groups::Refusal::UnknownChannel { name, known } => {
            format!("unknown channel {name:?}; known channels: {}", listed(known))
        }
        groups::Refusal::Exists { name } => {
            format!("there is a group {:?} already; choose another name", name.local())
        }
        groups::Refusal::Protected => {
            "the group \"everyone\" always has all agents and cannot be changed; accepted: any other group"
                .to_owned()
        }
        groups::Refusal::NoMember { group, member } => {
            let (kind, member) = member_words(member, group.project());
            format!(
                "{kind} {member:?} is not a member of the group {:?}",
                group.local()
            )
        }
        groups::Refusal::DescriptionTooLong { bytes, bytes_max } => {
            format!("description has {bytes} bytes; accepted: at most {bytes_max}")
        }
        groups::Refusal::TooManyGroups { groups } => {
            format!("there are as many groups already as are accepted: {groups}; delete one")
        }
        groups::Refusal::TooManyMembers { members } => {
            format!("the group has as many members already as are accepted: {members}; add a role instead")
        }
        groups::Refusal::ChannelExists { name } => {
            format!(
                "there is a channel {:?} already; join it, or choose another name",
                name.local()
            )
        }
        groups::Refusal::ChannelOfAll { name } => {
            format!(
                "the channel {:?} always has all agents, and nobody leaves it; accepted: any other channel",
                name.local()
            )
        }
        groups::Refusal::NotInChannel { name, agent } => {
            format!(
                "{:?} is not a member of the channel {:?}",
                agent.as_str(),
                name.local()
            )
        }
        groups::Refusal::OnlyThePerson => {
            "who else is in a channel the person alone says: relay channel".to_owned()
        }
        groups::Refusal::NobodyIn { name } => {
            format!(
                "channel {:?} would have nobody in it; accepted: one agent or more",
                name.local()
            )
        }
        groups::Refusal::TooManyChannels { channels } => {
            format!("there are as many channels already as are accepted: {channels}; use one of them")
        }
    }
}

fn not_traced(refusal: &trace::Refusal) -> String {
    match refusal {
        trace::Refusal::OnlyThePerson => {
            "what happened to a message is shown to the person alone: relay trace ID".to_owned()
        }
        trace::Refusal::Unknown { given } => format!(
            "nothing is known of a message {given:?}; accepted: the id of one that relay has accepted, or its first {ID_DIGITS_MIN} or more digits; only the latest messages are kept in mind, and none from before a restart"
        ),
        trace::Refusal::NotShown { given } => format!(
            "nothing is known of a message {given:?} that you have sent or got; accepted: the whole id of one; only the latest messages are kept in mind, and none from before a restart"
        ),
        trace::Refusal::Ambiguous { given, messages } => {
            format!(
                "the ids of {messages} messages begin with {given:?}; accepted: more digits of one, or all"
            )
        }
    }
}

/// Returns which kind of member it is, and its name as it is written in the group's project.
pub fn member_words<'a>(member: &'a groups::Member, project: &str) -> (&'static str, Cow<'a, str>) {
    match member {
        groups::Member::Agent(agent) => ("agent", agent.seen_from(project)),
        groups::Member::Role(role) => ("role", role.seen_from(project)),
    }
}

/// Lists some of the names, and says how many more there are.
pub fn listed(names: &[String]) -> String {
    let shown = names
        .iter()
        .take(LISTED_MAX)
        .map(String::as_str)
        .collect::<Vec<_>>();
    match names.len() {
        0 => "none".to_owned(),
        count if count > LISTED_MAX => format!("{} and {} more", shown.join(", "), count - LISTED_MAX),
        _ => shown.join(", "),
    }
}
