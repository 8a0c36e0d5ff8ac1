//! What callers read of refusals that are about more than a message and its names: each says what was wrong, and what would be accepted.

use relay::engine::absence::Absence;
use relay::engine::agents::Use;
use relay::engine::holds::HeldBy;
use relay::engine::{actions, holds, nodes, receipts, records};
use relay::tools::{DEFAULT, messages};

use super::*;

#[track_caller]
fn assert_said(refusal: impl Into<Refusal>, text: &str) {
    assert_eq!(DEFAULT.refused(&refusal.into()), text);
}

fn given() -> String {
    "12ab".to_owned()
}

#[test]
fn what_the_person_asks_of_holds_is_refused_in_these_words() {
    use holds::Refusal as No;
    for (refusal, text) in [
        (
            No::OnlyThePerson,
            "only the person holds messages, and lets them pass",
        ),
        (
            No::NotThePerson,
            "user is you, and what you send and get is never held; accepted: the name of an agent",
        ),
        (
            No::NotHeld { given: given() },
            "no message \"12ab\" is held; accepted: the id of one that is, or its first 8 or more digits",
        ),
        (
            No::Ambiguous {
                given: given(),
                messages: 2,
            },
            "2 messages that are held have ids that begin with \"12ab\"; give more of it",
        ),
        (
            No::TooMany { holds: 3 },
            "as many agents are held already as are accepted: 3; let one go, or hold all",
        ),
    ] {
        assert_said(refusal, text);
    }
}

#[test]
fn who_asks_for_what_it_was_handed_again_is_refused_in_these_words() {
    let refusal = |oldest| mail::Refusal::NotRemembered {
        given: given(),
        oldest,
    };
    assert_said(
        refusal(Some(MessageId(id(1)))),
        "after is \"12ab\", which is none of the messages that you were handed, as far as relay remembers them; accepted: the id of one of those, the oldest is 01010101-0101-4101-8101-010101010101",
    );
    assert_said(
        refusal(None),
        "after is \"12ab\", and you were not handed any message yet; leave it out",
    );
}

#[test]
fn who_is_to_be_in_a_channel_or_what_is_answered_is_refused_in_these_words() {
    let name = ChannelName::in_project(DEFAULT_PROJECT, "build").expect("a good name");
    assert_said(
        groups::Refusal::OnlyThePerson,
        "who else is in a channel the person alone says: relay channel",
    );
    assert_said(
        groups::Refusal::NobodyIn { name },
        "channel \"build\" would have nobody in it; accepted: one agent or more",
    );
    assert_said(
        mail::Refusal::AmbiguousMessage { given: given() },
        "the ids of several messages begin with \"12ab\"; accepted: more digits of one, or all",
    );
}

#[test]
fn who_goes_back_to_messages_is_refused_in_these_words() {
    assert_said(
        records::Refusal::OnlyThePerson,
        "only the person goes back to messages in another's stead",
    );
    assert_said(
        records::Refusal::TooManyReactions { reactions: 3 },
        "there are 3 reactions to this message, and no room for another one; take one back, or send a message",
    );
    assert_said(
        trace::Refusal::OnlyThePerson,
        "what happened to a message is shown to the person alone: relay trace ID",
    );
    assert_said(
        trace::Refusal::Ambiguous {
            given: given(),
            messages: 2,
        },
        "the ids of 2 messages begin with \"12ab\"; accepted: more digits of one, or all",
    );
    assert_said(
        receipts::Refusal::ReasonTooLong { bytes: 5_000 },
        &format!(
            "the reason has 5000 bytes; accepted: at most {}",
            relay::engine::limits::REASON_BYTES_MAX
        ),
    );
    assert_said(
        receipts::Refusal::MetadataTooLong { bytes: 5_000 },
        &format!(
            "the metadata has 5000 bytes; accepted: at most {}",
            relay::engine::limits::RECEIPT_METADATA_BYTES_MAX
        ),
    );
    assert_said(
        receipts::Refusal::InReply { given: given() },
        "the delivery \"12ab\" was read with a tool, and is neither failed nor deferred any more; accepted: that it is done",
    );
    assert_said(
        receipts::Refusal::DeferredForTooLong { ms_max: 7_200_000 },
        "a delivery is deferred for at most 2 hours",
    );
}

#[test]
fn who_asks_for_actions_and_nodes_is_refused_in_these_words() {
    let unknown = |known: &[&str]| actions::Refusal::Unknown {
        given: "diff".to_owned(),
        known: known.iter().map(ToString::to_string).collect(),
    };
    assert_said(
        unknown(&[]),
        "no action \"diff\", nor any other; register it first",
    );
    assert_said(
        unknown(&["build", "sum"]),
        "no action \"diff\"; there is build, sum",
    );
    assert_said(
        actions::Refusal::TooManyOpen { open: 3 },
        "3 invocations wait for their answers, and there is no room for another one; ask again later",
    );
    assert_said(nodes::Refusal::Unknown, "there is no such node; make it first");
    assert_said(
        nodes::Refusal::InstanceConflict { silent_ms: 30_000 },
        "another instance of this node is connected; it is superseded once it has been silent for 30 s",
    );
}

#[test]
fn who_retires_an_agent_is_told_what_uses_it_and_how_much_of_it() {
    for (by, text) in [
        (
            Use::Messages(1),
            "1 message waits for \"qa\" or may come back to it; read it first: relay read qa",
        ),
        (
            Use::Messages(2),
            "2 messages wait for \"qa\" or may come back to it; read them first: relay read qa",
        ),
        (
            Use::Held(1),
            "1 message for \"qa\" is held; drop it, or let it pass and read it, first: relay hold lists what is held",
        ),
        (
            Use::Held(2),
            "2 messages for \"qa\" are held; drop them, or let them pass and read them, first: relay hold lists what is held",
        ),
        (Use::Sessions(1), "\"qa\" has an open session; end it first"),
        (Use::Sessions(2), "\"qa\" has 2 open sessions; end them first"),
        (Use::Worker, "\"qa\" is a worker that lives; release it first"),
    ] {
        let agent = name("qa");
        assert_said(agents::Refusal::InUse { agent, by }, text);
    }
}

#[test]
fn a_sender_is_told_for_which_hold_its_message_is_held() {
    let held = |by, others| {
        let agent = name("dev-a");
        messages::absence_text(&Absence::Held { by, agent, others })
    };
    let says = |what: &str| {
        format!("the person holds {what}, and has not let it pass yet; the message waits until then")
    };
    for (by, others, what) in [
        (HeldBy::All, 2, "all messages"),
        (HeldBy::From, 0, "what dev-a sends"),
        (HeldBy::To, 0, "what is sent to dev-a"),
        (HeldBy::To, 1, "what is sent to dev-a and one other recipient"),
        (HeldBy::To, 2, "what is sent to dev-a and 2 other recipients"),
    ] {
        assert_eq!(held(by, others), says(what));
    }
}

#[test]
fn of_many_names_32_are_listed_and_the_others_are_counted() {
    let unknown = |count: usize| groups::Refusal::UnknownGroup {
        name: "crew".to_owned(),
        known: (0..count).map(|n| format!("g{n:02}")).collect(),
    };
    let listed: Vec<String> = (0..32).map(|n| format!("g{n:02}")).collect();
    let listed = format!("unknown group \"crew\"; known groups: {}", listed.join(", "));
    assert_said(unknown(32), &listed);
    assert_said(unknown(34), &format!("{listed} and 2 more"));
    assert_said(unknown(0), "unknown group \"crew\"; known groups: none");
}

#[test]
fn whose_node_or_action_it_is_is_told_with_what_can_be_done() {
    use actions::Refusal as Action;
    use nodes::Refusal as Node;
    let (action, node) = ("sum".to_owned(), "fleet".to_owned());
    for (refusal, text) in [
        (
            Action::Away { action, node },
            "the node \"fleet\", which does \"sum\", is not connected; ask again when it is",
        ),
        (
            Action::NeverAnswers {
                node: "hook".to_owned(),
            },
            "the node \"hook\" is a web hook, which has no way to say what came of it; accepted: an agent, or a node that connects",
        ),
        (
            Action::TooManyNames { names: 3, max: 2 },
            "\"available_to\" has 3 names; accepted: at most 2, or none for all",
        ),
        (
            Action::TooMany { actions: 3 },
            "as many actions are registered already as are accepted: 3; remove one",
        ),
    ] {
        assert_said(refusal, text);
    }
    for (refusal, text) in [
        (
            Node::NotYours,
            "a node says what it has over its own connection; an agent has one node of its own; the rest is the workspace's to ask",
        ),
        (
            Node::AnothersOwn { owner: name("qa") },
            "this node is \"qa\"'s own and has no other agent; make one for several by POST /v1/nodes",
        ),
        (
            Node::OtherLabel { known: None },
            "a node of that name is there with an id that relay made; give the same, or another name",
        ),
        (
            Node::OtherLabel { known: Some(given()) },
            "a node of that name is there with the id \"12ab\"; give the same, or another name",
        ),
        (
            Node::TooMany { nodes: 3 },
            "there are as many nodes as there may be: 3",
        ),
    ] {
        assert_said(refusal, text);
    }
    for (by, text) in [
        (
            Use::Wait,
            "somebody waits for the inbox of \"qa\"; end that first",
        ),
        (
            Use::Node("fleet".to_owned()),
            "\"qa\" is on node \"fleet\", which may come back for it; it stays until relay ends",
        ),
        (
            Use::Action("sum".to_owned()),
            "\"qa\" handles the action \"sum\"; delete that first",
        ),
    ] {
        let agent = name("qa");
        assert_said(agents::Refusal::InUse { agent, by }, text);
    }
}

#[test]
fn a_message_that_is_not_taken_and_a_bound_that_is_reached_are_told_in_these_words() {
    let agent = || name("qa");
    for (refusal, text) in [
        (
            agents::Refusal::Nobody {
                to: Recipient::agent(&agent()),
            },
            "nobody but you is meant by \"qa\"; nothing was sent",
        ),
        (
            agents::Refusal::InvalidProfile {
                field: "role",
                given: given(),
            },
            "\"role\" is \"12ab\"; accepted: one line of at most 1024 bytes",
        ),
        (
            agents::Refusal::NotThePerson,
            "only the person who runs relay may ask for that, by the relay command",
        ),
        (
            agents::Refusal::TooManyAgents { agents: 3 },
            "as many agents are registered already as are accepted: 3; use one of them",
        ),
        (
            agents::Refusal::TooManyProjects { projects: 3 },
            "there are as many projects already as are accepted: 3; use one of them",
        ),
    ] {
        assert_said(refusal, text);
    }
    for (refusal, text) in [
        (
            mail::Refusal::InvalidThread { given: given() },
            "thread is \"12ab\"; accepted: one line of 1 to 128 bytes",
        ),
        (
            mail::Refusal::InvalidKey { given: given() },
            "idempotency key is \"12ab\"; accepted: 1 to 255 bytes",
        ),
        (
            mail::Refusal::CannotBring {
                agent: agent(),
                mode: Mode::NextToolCall,
            },
            "nothing can be brought to \"qa\" in the mode \"next-tool-call\": its program does not say when; leave the mode out, or choose \"immediate\" or \"manual\"",
        ),
        (
            mail::Refusal::NoAnswer {
                to: "qa".to_owned(),
                ms: 1_000,
            },
            "\"qa\" has not answered within 1000 ms; the message is there all the same",
        ),
        (
            mail::Refusal::AlreadyWaits { agent: agent() },
            "a call waits for the inbox of \"qa\" already; wait for its answer",
        ),
    ] {
        assert_said(refusal, text);
    }
    for (refusal, text) in [
        (
            groups::Refusal::TooManyGroups { groups: 3 },
            "there are as many groups already as are accepted: 3; delete one",
        ),
        (
            groups::Refusal::TooManyMembers { members: 3 },
            "the group has as many members already as are accepted: 3; add a role instead",
        ),
        (
            groups::Refusal::TooManyChannels { channels: 3 },
            "there are as many channels already as are accepted: 3; use one of them",
        ),
    ] {
        assert_said(refusal, text);
    }
}

#[test]
fn a_worker_that_is_not_started_or_ended_is_refused_in_these_words() {
    use relay::engine::workers::Refusal as No;
    for (refusal, text) in [
        (
            No::TooMany { workers: 3 },
            "3 workers live, as many as are accepted; release one first",
        ),
        (
            No::TooDeep { depth: 3 },
            "workers have started workers 3 times on the way to you, as often as is accepted; do the task yourself, or ask your parent",
        ),
        (
            No::OtherProject {
                given: "app:x".to_owned(),
                own: "web".to_owned(),
            },
            "\"app:x\" is in another project than yours; accepted: a name in web, without a project",
        ),
        (
            No::NotYours {
                agent: name("w1"),
                parent: name("pm"),
            },
            "w1 is a worker of pm; accepted: its parent, who is above that, or a person by: relay release",
        ),
    ] {
        assert_said(Refusal::Workers(refusal), text);
    }
    assert_said(
        Refusal::Surfacing(surfacing::Refusal::NoProgram),
        "only the hooks of a program ask for that",
    );
}

#[test]
fn a_sender_is_told_why_nobody_sees_its_message_soon() {
    let agent = || name("dev-a");
    for (absence, text) in [
        (
            Absence::Asleep { agent: agent() },
            "the program of dev-a is idle, and nothing can wake it; the message waits until its person says something to it".to_owned(),
        ),
        (
            Absence::Unwoken {
                agent: agent(),
                mode: Mode::NextMessage,
            },
            "the program of dev-a is idle, and a message with the mode next-message wakes nobody; it waits for the next turn".to_owned(),
        ),
        (
            Absence::Asks { agent: agent() },
            "the program of dev-a waits for its person to allow something; the message is shown behind that".to_owned(),
        ),
        (
            Absence::NodeGone {
                agent: agent(),
                last_contact: None,
            },
            "the node of dev-a has not been connected; the message waits".to_owned(),
        ),
        (
            Absence::NodeGone {
                agent: agent(),
                last_contact: Some(START),
            },
            format!("the node of dev-a was last heard of at {START}, and is not connected any more; the message waits"),
        ),
        (
            Absence::ReceiptsMissing {
                agent: agent(),
                receipts: 3,
            },
            "3 receipts are missing for what dev-a was shown, and its node gets nothing more until they are given; the message waits".to_owned(),
        ),
    ] {
        assert_eq!(messages::absence_text(&absence), text);
    }
}
