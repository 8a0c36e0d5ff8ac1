//! Invocations: where each goes, and the one way in which it ends.

use relay::engine::News;
use relay::engine::Told;
use relay::engine::actions::{Description, HandlerView, Refusal as NoAction, Reply as Answer};
use relay::engine::invocations::{Failed, InvocationView, Progress};
use relay::engine::limits::INVOCATION_MS;
use relay::engine::nodes::{Refusal as NoNode, Said};

use super::actions::{
    CALLER, CALLERS_NODE, HANDLER, SECOND, by_agent, by_node, ended, inv, offer, out, refused_as, said, sent,
    show, sum, told,
};
use super::nodes::{ANY, FIRST, NEXT, NODE, NONE, PERSON, noted};
use super::*;

#[test]
fn what_is_asked_goes_to_its_handler_s_node_and_the_caller_s_node_is_told_what_came_of_it() {
    let mut relay = Relay::with_action();
    let invoked = relay.invokes(1, "sum");
    assert_eq!(out(&invoked), [(NODE, inv(1))]);
    let view = InvocationView {
        id: inv(1),
        action: "sum".into(),
        caller: name("pm"),
        handler: HandlerView::Agent(name("dev-a")),
        input: "{}".into(),
        progress: sent(NODE),
        made_at: START,
    };
    assert!(invoked.contains(&reply(ANY, Ok(Answer::Invocation(view.clone()).into()))));
    assert_eq!(relay.invocation(1), view);
    let done = ended(0, Ok("3"));
    let effects = relay.ends(HANDLER, 1, Ok("3"));
    assert_eq!(told(&effects), [(CALLERS_NODE, name("pm"), done.clone())]);
    assert_eq!(relay.progress(1), done);
    let events = relay.events();
    let view_then = InvocationView {
        progress: Progress::Waits,
        ..view.clone()
    };
    let view_now = InvocationView {
        progress: done,
        ..view
    };
    assert_eq!(
        events,
        [
            Event::Invoked {
                invocation: Box::new(view_then)
            },
            Event::InvocationEnded {
                invocation: Box::new(view_now)
            }
        ]
    );
}

#[test]
fn it_ends_once_and_what_is_said_later_changes_nothing() {
    let mut relay = Relay::with_action();
    relay.invokes(1, "sum");
    relay.node_ends(NODE, 1, Err("no"));
    relay.events();
    assert_eq!(relay.node_ends(NODE, 1, Ok("3")), noted());
    let again = relay.ends(HANDLER, 1, Ok("3"));
    assert_eq!((told(&again), again.len()), (Vec::new(), 1));
    assert_eq!(relay.progress(1), ended(0, Err(said("no"))));
    assert_eq!(relay.events(), []);
    assert_eq!(relay.timeout_at(INVOCATION_MS), NONE);
    assert_eq!(relay.progress(1), ended(0, Err(said("no"))));
}

#[test]
fn it_waits_for_its_handler_and_goes_out_again_over_each_later_connection_until_it_has_ended() {
    let mut relay = Relay::with_action();
    relay.close(NODE, Ending::Broken);
    assert_eq!(out(&relay.invokes(1, "sum")), []);
    assert_eq!(relay.progress(1), Progress::Waits);
    let effects = relay.connect(NEXT, None);
    let sent_behind = matches!(effects[..], [Effect::Reply { .. }, Effect::Invoke { .. }]);
    assert!(sent_behind, "behind the answer: {effects:?}");
    assert_eq!(
        out(&relay.offers(NEXT, Vec::new())),
        [],
        "over this one it is on its way"
    );
    relay.close(NEXT, Ending::Broken);
    let third = SessionId(11);
    assert_eq!(out(&relay.connect(third, None)), [(third, inv(1))]);
    relay.node_ends(third, 1, Ok("1"));
    relay.close(third, Ending::Broken);
    assert_eq!(out(&relay.connect(SessionId(12), None)), []);
}

#[test]
fn it_follows_its_handler_to_another_node_and_goes_out_again_when_that_begins_anew_with_the_agent() {
    let mut relay = Relay::with_action();
    relay.invokes(1, "sum");
    relay.asked(
        PERSON,
        relay::engine::nodes::Command::Unbind {
            node: FIRST,
            agent: "dev-a".to_owned(),
        },
    );
    let agent = || "dev-a".to_owned();
    let adopted = relay.said(NODE, Said::Adopts { agent: agent() });
    assert_eq!(out(&adopted), [(NODE, inv(1))]);
    let again = relay.said(NODE, Said::Adopts { agent: agent() });
    assert_eq!(
        out(&again),
        [(NODE, inv(1))],
        "what it had may be lost with what ran there"
    );
    // What another agent of the same node was asked is still being done.
    relay.bind(FIRST, "dev-b");
    relay.registers(PERSON, by_agent("other", "dev-b"));
    assert_eq!(out(&relay.invokes(2, "other")), [(NODE, inv(2))]);
    let again = relay.said(NODE, Said::Adopts { agent: agent() });
    assert_eq!(out(&again), [(NODE, inv(1))]);
    relay.node_ends(NODE, 1, Ok("1"));
    assert_eq!(out(&relay.said(NODE, Said::Adopts { agent: agent() })), []);
}

#[test]
fn only_its_handler_ends_it_and_only_those_two_and_the_person_see_it() {
    let mut relay = Relay::with_action();
    relay.invokes(1, "sum");
    let unknown = |number| NoAction::UnknownInvocation {
        given: inv(number).to_string(),
    };
    assert_eq!(relay.ends(CALLER, 1, Ok("1")), refused_as(unknown(1)));
    assert_eq!(relay.ends(HANDLER, 2, Ok("1")), refused_as(unknown(2)));
    assert_eq!(relay.node_ends(CALLERS_NODE, 1, Ok("1")), refused_as(unknown(1)));
    let other = SessionId(11);
    relay.open(other, Carrier::Exchange, Some("dev-b"));
    assert_eq!(relay.asks(other, show("default", 1)), refused_as(unknown(1)));
    assert_eq!(relay.asks(PERSON, show("web", 1)), refused_as(unknown(1)));
    for session in [CALLER, HANDLER, PERSON] {
        let shown = relay.asks(session, show("default", 1));
        assert!(
            matches!(shown[..], [Effect::Reply { result: Ok(_), .. }]),
            "{shown:?}"
        );
    }
    assert_eq!(relay.progress(1), sent(NODE));
    relay.close(NODE, Ending::Orderly);
    assert_eq!(
        relay.node_ends(NEXT, 1, Ok("1")),
        NONE,
        "a session that is not there is not heard"
    );
}

#[test]
fn whoever_may_not_ask_is_told_so_and_so_is_its_node() {
    let mut relay = Relay::with_action();
    let description = Description {
        available_to: Some(vec!["dev-b".to_owned()]),
        ..sum()
    };
    relay.registers(PERSON, description);
    let effects = relay.invokes(1, "sum");
    let action = "sum".to_owned();
    let told = Told {
        agent: name("pm"),
        at: START,
        news: News::Denied { action: "sum".into() },
    };
    let tell = Effect::Tell {
        session: CALLERS_NODE,
        told: Box::new(told),
    };
    let refused = super::refused(ANY, NoAction::Denied { action }.into());
    assert_eq!(effects, [tell, refused]);
    let denied = Event::ActionDenied {
        action: "sum".into(),
        caller: name("pm"),
    };
    assert_eq!(relay.events(), [denied]);
    let other = SessionId(11);
    relay.open(other, Carrier::Exchange, Some("dev-b"));
    assert_eq!(out(&relay.invokes_as(other, 1, "sum", "{}")), [(NODE, inv(1))]);
}

#[test]
fn without_an_answer_it_fails_after_an_hour() {
    let mut relay = Relay::with_action();
    relay.now = START.plus_millis(1);
    relay.invokes(1, "sum");
    let at = INVOCATION_MS + 1;
    let due = Some((START.plus_millis(at), Reason::InvocationEnds));
    relay.close(NODE, Ending::Orderly);
    relay.close(CALLERS_NODE, Ending::Orderly);
    relay.timeout_at(at - 1);
    assert_eq!(relay.engine.poll_timeout(), due);
    assert_eq!(relay.progress(1), sent(NODE));
    relay.connect_as(SECOND, SessionId(11));
    let timed_out = ended(at, Err(Failed::TimedOut));
    let effects = relay.timeout_at(at);
    assert_eq!(told(&effects), [(SessionId(11), name("pm"), timed_out.clone())]);
    assert_eq!(relay.progress(1), timed_out);
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn a_node_that_is_gone_fails_what_does_not_wait_for_it() {
    for queues in [false, true] {
        let mut relay = Relay::with_action();
        relay.offers(NODE, vec![offer("build", queues)]);
        relay.invokes(1, "build");
        relay.close(NODE, Ending::Broken);
        relay.invokes(2, "build");
        assert_eq!(relay.progress(2), Progress::Waits, "it may come back");
        let lapsed = relay.timeout_at(relay::engine::limits::NODE_GONE_MS);
        let gone = ended(relay::engine::limits::NODE_GONE_MS, Err(Failed::NodeGone));
        let expected = if queues { vec![] } else { vec![gone; 2] };
        let progress: Vec<_> = told(&lapsed)
            .into_iter()
            .map(|(_, _, progress)| progress)
            .collect();
        assert_eq!(progress, expected);
        let third = relay.invokes(3, "build");
        if queues {
            assert_eq!(
                out(&relay.connect(NEXT, None)),
                [(NEXT, inv(1)), (NEXT, inv(2)), (NEXT, inv(3))]
            );
        } else {
            let (action, node) = ("build".to_owned(), "fleet".to_owned());
            assert_eq!(third, refused_as(NoAction::Away { action, node }));
        }
    }
}

/// What a target did with what it was asked.
fn asked(number: u8, taken: Result<(), &str>) -> Said {
    let invocation = inv(number).to_string();
    let taken = taken.map_err(Into::into);
    Said::Asked { invocation, taken }
}

#[test]
fn what_a_target_has_taken_is_not_pushed_again_and_does_not_fail_by_a_target_that_does_not_take_it() {
    let mut relay = Relay::with_action();
    let hook = relay.pushes_to("hook");
    let (first, second) = (SessionId(11), SessionId(12));
    relay.connect_as(hook, first);
    relay.bind(hook, "dev-a");
    for number in 1..=3 {
        assert_eq!(out(&relay.invokes(number, "sum")), [(first, inv(number))]);
    }
    relay.said(first, asked(1, Ok(())));
    relay.said(first, asked(2, Err("HTTP 500")));
    let not_taken = Failed::NotTaken("HTTP 500".into());
    assert_eq!(relay.progress(2), ended(0, Err(not_taken)));
    // Its target is set again: what nobody knows to have been taken goes there.
    assert_eq!(out(&relay.connect_as(hook, second)), [(second, inv(3))]);
    assert_eq!(relay.progress(1), sent(second));
    // Elsewhere it goes out once more, and its handler has it already.
    let other = relay.pushes_to("other");
    let third = SessionId(13);
    relay.connect_as(other, third);
    assert_eq!(
        out(&relay.bind(other, "dev-a")),
        [(third, inv(1)), (third, inv(3))]
    );
    relay.said(third, asked(1, Err("HTTP 500")));
    assert_eq!(relay.progress(1), sent(third));
    relay.ends(HANDLER, 1, Ok("3"));
    assert_eq!(relay.progress(1), ended(0, Ok("3")));
    // It has ended.
    assert_eq!(relay.said(third, asked(1, Err("HTTP 500"))), noted());
    assert_eq!(relay.progress(1), ended(0, Ok("3")));
}

#[test]
fn what_became_of_a_push_is_for_its_own_node_to_say() {
    let mut relay = Relay::with_action();
    relay.invokes(1, "sum");
    let refused = |refusal: Refusal| [super::refused(ANY, refusal)];
    let of_a_node = relay.said(NODE, asked(1, Ok(())));
    assert_eq!(of_a_node, refused(NoNode::NotYours.into()));
    let hook = relay.pushes_to("hook");
    relay.connect_as(hook, SessionId(11));
    let given = inv(1).to_string();
    let of_another = relay.said(SessionId(11), asked(1, Err("HTTP 500")));
    assert_eq!(of_another, refused(NoAction::UnknownInvocation { given }.into()));
    assert_eq!(relay.progress(1), sent(NODE));
}

#[test]
fn at_the_stop_all_of_them_fail() {
    let mut relay = Relay::with_action();
    relay.invokes(1, "sum");
    let effects = relay.handle(Input::Stopping);
    assert_eq!(
        told(&effects),
        [(CALLERS_NODE, name("pm"), ended(0, Err(Failed::Stopped)))]
    );
    assert_eq!(relay.invokes(2, "sum"), [super::refused(ANY, Refusal::Stopping)]);
}

#[test]
fn bounds_refuse_what_is_open_and_forget_what_has_ended() {
    let mut relay = Relay::with_action();
    for number in 1..=3 {
        relay.invokes(number, "sum");
    }
    let full = refused_as(NoAction::TooManyOpen { open: 3 });
    assert_eq!(relay.invokes(4, "sum"), full);
    relay.ends(HANDLER, 2, Ok("1"));
    relay.ends(HANDLER, 1, Ok("1"));
    relay.invokes(4, "sum");
    let unknown = NoAction::UnknownInvocation {
        given: inv(2).to_string(),
    };
    assert_eq!(
        relay.asks(CALLER, show("default", 2)),
        refused_as(unknown),
        "it ended first"
    );
    assert_eq!(relay.progress(1), ended(0, Ok("1")));
    // Of bytes the same: 100 may be there.
    let mut relay = Relay::with_action();
    let with_its_name = "x".repeat(97);
    assert_eq!(
        out(&relay.invokes_as(CALLER, 1, "sum", &with_its_name)),
        [(NODE, inv(1))],
        "as many as may be"
    );
    let mut relay = Relay::with_action();
    relay.invokes_as(CALLER, 1, "sum", &"x".repeat(40));
    relay.invokes_as(CALLER, 2, "sum", &"x".repeat(40));
    let full = refused_as(NoAction::TooManyOpen { open: 2 });
    assert_eq!(relay.invokes_as(CALLER, 3, "sum", &"x".repeat(12)), full);
    relay.ends(HANDLER, 1, Ok("1"));
    assert_eq!(
        out(&relay.invokes_as(CALLER, 3, "sum", &"x".repeat(12))),
        [(NODE, inv(3))]
    );
    // What has just ended is kept, however long the answer.
    relay.ends(HANDLER, 3, Ok(&"x".repeat(90)));
    relay.ends(HANDLER, 2, Ok("1"));
    assert_eq!(relay.progress(2), ended(0, Ok("1")));
}

#[test]
fn what_has_ended_is_kept_as_long_as_its_bytes_and_those_of_its_answer_have_room() {
    let mut relay = Relay::with_action();
    let kept = |relay: &mut Relay, number| {
        let shown = relay.asks(CALLER, show("default", number));
        matches!(shown[..], [Effect::Reply { result: Ok(_), .. }])
    };
    relay.invokes_as(CALLER, 1, "sum", "{}");
    relay.ends(HANDLER, 1, Ok(&"x".repeat(80)));
    let first = relay.invocation(1);
    assert_eq!(first.bytes(), 3 + 2 + 80);
    // As many as may be: 100.
    relay.invokes_as(CALLER, 2, "sum", &"x".repeat(12));
    assert!(kept(&mut relay, 1));
    relay.ends(HANDLER, 2, Err("no"));
    assert_eq!(relay.invocation(2).bytes(), 3 + 12 + 2);
    relay.invokes_as(CALLER, 3, "sum", "");
    assert!(!kept(&mut relay, 1), "it ended first");
    assert!(kept(&mut relay, 2));
    assert_eq!(relay.invocation(3).bytes(), 3);
}

#[test]
fn what_a_node_itself_is_asked_ends_by_what_that_node_says_and_no_other() {
    let mut relay = Relay::with_action();
    let unknown = |number| NoAction::UnknownInvocation {
        given: inv(number).to_string(),
    };
    relay.registers(PERSON, by_node("deploy", FIRST));
    relay.invokes(1, "deploy");
    assert_eq!(relay.node_ends(CALLERS_NODE, 1, Ok("1")), refused_as(unknown(1)));
    relay.node_ends(NODE, 1, Ok("1"));
    assert_eq!(relay.progress(1), ended(0, Ok("1")));
    // Nor by what the target of another one has taken.
    relay.invokes(2, "deploy");
    let hook = relay.pushes_to("hook");
    relay.connect_as(hook, SessionId(11));
    let refused = relay.said(SessionId(11), asked(2, Err("HTTP 500")));
    assert_eq!(refused, refused_as(unknown(2)));
    assert_eq!(relay.progress(2), sent(NODE));
}
