//! Sessions that are told of changes.

use relay::engine::agents::{Profile, Registration};
use relay::engine::limits::{ACTIVE_MS, NODE_GONE_MS, TRANSIENT_MS};
use relay::engine::nodes;
use relay::engine::watches::Watched;

use super::nodes::{FIRST, NODE};
use super::*;

/// Sessions that are bound to agents.
const OWN: SessionId = SessionId(4);
const OTHER: SessionId = SessionId(5);
const NEW: SessionId = SessionId(6);

fn watch(what: Watched) -> Command {
    watches::Command::Watch(what).into()
}

fn unwatch(what: Watched) -> Command {
    watches::Command::Unwatch(what).into()
}

fn watching(call: u64) -> Effect {
    reply(call, Ok(watches::Reply::Watching.into()))
}

fn unwatched(call: u64) -> Effect {
    reply(call, Ok(watches::Reply::Unwatched.into()))
}

fn changed(session: SessionId, what: Watched) -> Effect {
    Effect::Changed { session, what }
}

/// A relay in which `OWN`, bound to `dev-a` on a stream, watches something.
fn watched(what: Watched) -> Relay {
    let mut relay = Relay::told();
    relay.open(OWN, Carrier::Stream, Some("dev-a"));
    assert_eq!(relay.call(OWN, 1, watch(what)), [watching(1)]);
    relay
}

fn inbox(session: SessionId) -> Effect {
    changed(session, Watched::Inbox)
}

fn who(session: SessionId) -> Effect {
    changed(session, Watched::Agents)
}

fn posted(relay: &mut Relay, call: u64, n: u8) -> Vec<Effect> {
    let mut effects = relay.post(C, call, &nth(n));
    let ms = relay.now.as_millis() - START.as_millis();
    let [answer] = accepted(call, &posted_at(ms, &nth(n)));
    assert_eq!(effects.remove(0), answer);
    effects
}

#[test]
fn an_inbox_changes_by_what_is_accepted_taken_and_put_back() {
    let mut relay = watched(Watched::Inbox);
    assert_eq!(posted(&mut relay, 2, 1), [inbox(OWN)]);
    assert_eq!(posted(&mut relay, 3, 2), [inbox(OWN)]);
    let both = shown(4, [nth(1), nth(2)]);
    assert_eq!(relay.call(A, 4, read("dev-a")), [both, inbox(OWN)]);
    assert_eq!(relay.lost(4), [inbox(OWN)]);
}

#[test]
fn what_leaves_an_inbox_as_it_was_is_no_change() {
    let mut relay = watched(Watched::Inbox);
    for other in [message(1, 0, "pm", "dev-b"), message(2, 0, "dev-a", "pm")] {
        assert_eq!(relay.post(C, 2, &other), accepted(2, &other));
    }
    assert_eq!(relay.call(A, 3, read("dev-a")), [nothing(3)]);
    assert_eq!(relay.call(A, 4, look("dev-a")), [kinds(4, [])]);
    posted(&mut relay, 5, 3);
    relay.call(A, 6, read("dev-a"));
    assert_eq!(relay.passed(6), NONE);
    assert_eq!(relay.call(A, 7, look("dev-a")), [kinds(7, [])], "it was read");
    assert_eq!(relay.settle(), NONE);
}

#[test]
fn the_news_of_the_start_are_in_no_inbox() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(OWN, Carrier::Stream, Some("dev-a"));
    relay.open(A, Carrier::Stream, None);
    relay.call(OWN, 1, watch(Watched::Inbox));
    assert_eq!(relay.call(A, 2, read("dev-a")), [told(2, [])]);
    assert_eq!(relay.lost(2), NONE);
}

#[test]
fn a_session_is_told_once_of_each_thing_that_changes_in_a_step() {
    let mut relay = watched(Watched::Inbox);
    relay.call(OWN, 2, watch(Watched::Agents));
    assert_eq!(relay.call(OWN, 3, watch(Watched::Inbox)), [watching(3)], "again");
    // All are idle.
    relay.now = START.plus_millis(ACTIVE_MS);
    assert_eq!(relay.call(A, 4, wait("dev-a", WAIT_MS)), [who(OWN)]);
    let first = posted_at(ACTIVE_MS, &nth(1));
    let [answer] = accepted(5, &first);
    let effects = relay.post(C, 5, &first);
    // It is put in and taken out.
    assert_eq!(effects, [answer, shown(4, [first]), inbox(OWN), who(OWN)]);
}

#[test]
fn all_sessions_that_watch_an_inbox_are_told() {
    let mut relay = watched(Watched::Inbox);
    relay.open(OTHER, Carrier::Exchange, Some("dev-a"));
    relay.open(NEW, Carrier::Stream, Some("dev-b"));
    relay.call(OTHER, 2, watch(Watched::Inbox));
    relay.call(NEW, 3, watch(Watched::Inbox));
    assert_eq!(posted(&mut relay, 4, 1), [inbox(OWN), inbox(OTHER)]);
    let to_all = post(Some("pm"), "*", "hello");
    let told = relay.call(C, 5, to_all);
    assert_eq!(told[1..], [inbox(OWN), inbox(OTHER), inbox(NEW)]);
}

#[test]
fn whoever_watches_no_more_is_not_told() {
    for what in [Watched::Inbox, Watched::Agents] {
        let mut relay = watched(what);
        assert_eq!(relay.call(OWN, 2, unwatch(what)), [unwatched(2)]);
        assert_eq!(relay.call(OWN, 3, unwatch(what)), [unwatched(3)], "twice");
        assert_eq!(posted(&mut relay, 4, 1), NONE);
        assert_eq!(relay.register(NEW, registration("qa", None)), [opened(NEW, "qa")]);
    }
}

#[test]
fn one_watch_ends_without_the_other() {
    let mut relay = watched(Watched::Inbox);
    relay.call(OWN, 2, watch(Watched::Agents));
    relay.call(OWN, 3, unwatch(Watched::Agents));
    assert_eq!(posted(&mut relay, 4, 1), [inbox(OWN)]);
    let mut relay = watched(Watched::Agents);
    relay.call(OWN, 2, watch(Watched::Inbox));
    relay.call(OWN, 3, unwatch(Watched::Inbox));
    relay.now = START.plus_millis(ACTIVE_MS);
    assert_eq!(posted(&mut relay, 4, 1), [who(OWN)]);
}

#[test]
fn a_session_that_closes_is_not_told_of_what_its_end_changes_but_others_are() {
    let mut relay = watched(Watched::Inbox);
    relay.open(OTHER, Carrier::Stream, Some("dev-a"));
    relay.call(OTHER, 2, watch(Watched::Inbox));
    posted(&mut relay, 3, 1);
    relay.call(OWN, 4, Command::Mail(mail::Command::read_all(None, 0)));
    assert_eq!(relay.close(OWN, Ending::Broken), [inbox(OTHER)]);
    assert_eq!(relay.close(OTHER, Ending::Broken), NONE);
    let posted = relay.post(C, 5, &nth(2));
    assert_eq!(posted.len(), 1, "the answer alone: {posted:?}");
}

#[test]
fn a_session_whose_agent_is_taken_over_is_told_no_more_and_may_not_watch() {
    let mut relay = Relay::told();
    relay.register(OWN, registration("qa", Some(1)));
    for (call, what) in [(1, Watched::Inbox), (2, Watched::Agents)] {
        relay.call(OWN, call, watch(what));
    }
    let to_qa = message(1, 0, "pm", "qa");
    relay.post(C, 3, &to_qa);
    relay.call(OWN, 4, Command::Mail(mail::Command::read_all(None, 0)));
    // What was handed over to it is put back.
    assert_eq!(
        relay.register(NEW, registration("qa", Some(2))),
        [opened(NEW, "qa")]
    );
    let fenced = || agents::Refusal::Fenced { agent: name("qa") };
    for (call, what) in [(5, Watched::Inbox), (6, Watched::Agents)] {
        assert_eq!(
            relay.call(OWN, call, watch(what)),
            [refused(call, fenced().into())]
        );
        assert_eq!(
            relay.call(OWN, call, unwatch(what)),
            [refused(call, fenced().into())]
        );
    }
}

#[test]
fn nobody_s_session_has_no_inbox_to_watch_but_sees_who_there_is() {
    let mut relay = Relay::told();
    let anonymous = agents::Refusal::Anonymous {
        named: NamedAs::Reader,
        known: Known {
            names: ["pm", "dev-a", "dev-b"].map(name).to_vec(),
            count: 3,
        },
    };
    assert_eq!(
        relay.call(A, 1, watch(Watched::Inbox)),
        [refused(1, anonymous.into())]
    );
    assert_eq!(relay.call(A, 2, unwatch(Watched::Inbox)), [unwatched(2)]);
    assert_eq!(relay.call(A, 3, watch(Watched::Agents)), [watching(3)]);
    assert_eq!(
        relay.register(NEW, registration("qa", None)),
        [opened(NEW, "qa"), who(A)]
    );
}

#[test]
fn the_person_watches_its_own_inbox() {
    let mut relay = Relay::told();
    relay.open_for_person(OWN);
    assert_eq!(relay.call(OWN, 1, watch(Watched::Inbox)), [watching(1)]);
    let to_person = post(Some("pm"), "user", "hello");
    assert_eq!(relay.call(C, 2, to_person)[1..], [inbox(OWN)]);
    assert_eq!(posted(&mut relay, 3, 2), NONE);
}

#[test]
fn agents_change_when_one_comes_and_goes_and_says_something_else() {
    let mut relay = watched(Watched::Agents);
    let qa = || Registration {
        transient: true,
        profile: Profile {
            cli: Some("codex".to_owned()),
            ..Profile::default()
        },
        ..registration("qa", None)
    };
    assert_eq!(relay.register(NEW, qa()), [opened(NEW, "qa"), who(OWN)]);
    assert_eq!(
        relay.register(OTHER, qa()),
        [opened(OTHER, "qa")],
        "it says the same again"
    );
    let mut other = qa();
    other.profile.cli = Some("claude".to_owned());
    relay.close(OTHER, Ending::Broken);
    assert_eq!(relay.register(OTHER, other), [opened(OTHER, "qa"), who(OWN)]);
    relay.close(OTHER, Ending::Broken);
    assert_eq!(
        relay.close(NEW, Ending::Broken),
        [who(OWN)],
        "it is offline, and stays for a while"
    );
    let leaves_at = START.plus_millis(TRANSIENT_MS);
    assert_eq!(
        relay.engine.poll_timeout(),
        Some((leaves_at, Reason::AgentLeaves))
    );
    assert_eq!(relay.timeout_at(TRANSIENT_MS - 1), NONE);
    assert_eq!(relay.timeout_at(TRANSIENT_MS), [who(OWN)], "it has gone");
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn that_an_agent_is_to_go_wakes_nobody_while_nobody_looks() {
    let mut relay = Relay::told();
    let transient = Registration {
        transient: true,
        ..registration("qa", None)
    };
    relay.register(NEW, transient);
    relay.close(NEW, Ending::Broken);
    assert_eq!(relay.engine.poll_timeout(), None);
    relay.call(A, 1, watch(Watched::Agents));
    let leaves_at = START.plus_millis(TRANSIENT_MS);
    assert_eq!(
        relay.engine.poll_timeout(),
        Some((leaves_at, Reason::AgentLeaves))
    );
    relay.call(A, 2, unwatch(Watched::Agents));
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn agents_change_when_one_does_something_after_it_was_idle() {
    let mut relay = watched(Watched::Agents);
    let look_of_pm = look("pm");
    // It was told of the start, at the start.
    assert_eq!(
        relay.call(A, 2, look_of_pm.clone()),
        [kinds(2, [])],
        "it is active"
    );
    relay.now = START.plus_millis(ACTIVE_MS - 1);
    assert_eq!(relay.call(A, 3, look_of_pm.clone()), [kinds(3, [])]);
    relay.now = relay.now.plus_millis(ACTIVE_MS);
    assert_eq!(relay.call(A, 4, look_of_pm.clone()), [kinds(4, []), who(OWN)]);
    assert_eq!(relay.call(A, 5, look_of_pm), [kinds(5, [])]);
}

#[test]
fn agents_change_when_one_is_there_or_is_not() {
    let mut relay = Relay::after_sessions_of(ROOMY, &[]);
    relay.open(OWN, Carrier::Stream, Some("dev-a"));
    relay.call(OWN, 1, watch(Watched::Agents));
    let pm = |relay: &mut Relay, session| relay.open(session, Carrier::Exchange, Some("pm"));
    assert_eq!(pm(&mut relay, NEW), [opened(NEW, "pm"), who(OWN)]);
    assert_eq!(pm(&mut relay, OTHER), [opened(OTHER, "pm")], "it is there");
    assert_eq!(relay.close(OTHER, Ending::Orderly), NONE);
    assert_eq!(relay.close(NEW, Ending::Orderly), [who(OWN)]);
    // It counts as active still, since a client may have a connection for each call.
    pm(&mut relay, OTHER);
    relay.call(OTHER, 2, look("pm"));
    assert_eq!(relay.close(OTHER, Ending::Orderly), NONE);
}

#[test]
fn agents_change_when_the_node_of_one_comes_and_goes() {
    let mut relay = Relay::with_node();
    relay.open(OWN, Carrier::Stream, Some("dev-b"));
    relay.call(OWN, 1, watch(Watched::Agents));
    // Nothing of the others is there but what a node has of them.
    for session in [A, B, C] {
        relay.close(session, Ending::Orderly);
    }
    relay.now = START.plus_millis(ACTIVE_MS);
    let there = |relay: &mut Relay, call| {
        let effects = relay.call(OWN, call, list_of(Which::Present));
        // What its own look changes is behind that.
        let there = listed_in(&effects[..1]).iter().map(|view| view.name.to_string());
        there.collect::<Vec<_>>()
    };
    assert_eq!(there(&mut relay, 2), ["dev-a", "dev-b"]);
    assert_eq!(relay.close(NODE, Ending::Broken), NONE, "it is held for a while");
    let lapsed = relay.timeout_at(ACTIVE_MS + NODE_GONE_MS);
    assert!(lapsed.contains(&who(OWN)), "{lapsed:?}");
    assert_eq!(there(&mut relay, 3), ["dev-b"]);
    let back = relay.connect(NEW, None);
    assert!(back.contains(&who(OWN)), "{back:?}");
    assert_eq!(there(&mut relay, 4), ["dev-a", "dev-b"]);
    let bound = relay.bind(FIRST, "pm");
    assert!(bound.contains(&who(OWN)), "{bound:?}");
    let agent = "pm".to_owned();
    let dropped = relay.said(NEW, nodes::Said::Drops { agent });
    assert!(dropped.contains(&who(OWN)), "{dropped:?}");
}

#[test]
fn agents_do_not_change_when_a_node_comes_back_in_time() {
    let mut relay = Relay::with_node();
    relay.open(OWN, Carrier::Stream, Some("dev-b"));
    relay.call(OWN, 1, watch(Watched::Agents));
    relay.close(NODE, Ending::Broken);
    let back = relay.connect(NEW, None);
    assert!(!back.contains(&who(OWN)), "{back:?}");
}

#[test]
fn one_that_waits_is_not_idle() {
    let mut relay = watched(Watched::Agents);
    let wait_ms = u32::try_from(ACTIVE_MS).expect("small") + 1;
    relay.call(A, 2, wait("pm", wait_ms));
    relay.now = START.plus_millis(ACTIVE_MS);
    assert_eq!(relay.call(B, 3, look("pm")), [kinds(3, [])]);
    let mut relay = watched(Watched::Agents);
    relay.call(A, 2, wait("pm", wait_ms));
    assert_eq!(relay.timeout_at(i64::from(wait_ms)), [nothing(2)]);
    assert_eq!(relay.call(B, 3, look("pm")), [kinds(3, [])]);
}

#[test]
fn a_session_watches_the_agents_of_its_own_project() {
    let mut relay = watched(Watched::Agents);
    relay.register(OTHER, registration("web:a", None));
    relay.call(OTHER, 2, watch(Watched::Agents));
    assert_eq!(
        relay.register(NEW, registration("web:b", None)),
        [opened(NEW, "web:b"), who(OTHER)]
    );
    assert_eq!(
        relay.register(SessionId(7), registration("b", None)),
        [opened(SessionId(7), "b"), who(OWN)]
    );
}

#[test]
fn a_session_that_closes_is_not_told_of_what_the_same_step_has_brought() {
    let mut relay = watched(Watched::Agents);
    let transient = Registration {
        transient: true,
        ..registration("qa", None)
    };
    relay.register(NEW, transient);
    relay.close(NEW, Ending::Broken);
    relay.now = START.plus_millis(TRANSIENT_MS);
    assert_eq!(relay.close(OWN, Ending::Orderly), NONE);
    assert_eq!(others(&relay), [] as [String; 0], "it has gone");
}

#[test]
fn the_person_who_waits_in_an_agent_s_stead_does_not_stand_for_it() {
    let mut relay = watched(Watched::Agents);
    let person = SessionId(7);
    relay.open_for_person(person);
    relay.now = START.plus_millis(ACTIVE_MS);
    assert_eq!(relay.call(person, 2, wait("pm", WAIT_MS)), NONE);
    assert_eq!(relay.call(B, 3, look("pm")), [kinds(3, []), who(OWN)]);
}
