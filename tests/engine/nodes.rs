//! Nodes: what goes out in frames, what an acknowledgement confirms, and who reads what no node acknowledges.

use relay::engine::limits::{FRAMES_MAX, INSTANCE_MS, NODE_GONE_MS};
use relay::engine::nodes::{
    BindingView, Command as Asked, Instance, Refusal as NoNode, Reply as Answer, Said,
};
use relay::engine::{Frame, NodeId};

use super::*;

/// The session of the first node's connection, and of its next one.
const NODE: SessionId = SessionId(5);
const NEXT: SessionId = SessionId(6);
const PERSON: SessionId = SessionId(7);

const FIRST: NodeId = NodeId(0);

const NONE: [Effect; 0] = [];

/// Whose answers no test looks at.
const ANY: u64 = 9_000;

impl Relay {
    /// A relay in which `dev-a` is bound to a node that is connected by [`NODE`].
    fn with_node() -> Self {
        let mut relay = Self::told();
        relay.open_for_person(PERSON);
        relay.create("fleet", None);
        relay.connect(NODE, None);
        relay.bind(FIRST, "dev-a");
        relay.events();
        relay
    }

    fn create(&mut self, node: &str, agents_max: Option<usize>) -> Vec<Effect> {
        let (project, name) = (DEFAULT_PROJECT.to_owned(), node.to_owned());
        self.asked(
            PERSON,
            Asked::Create {
                project,
                name,
                agents_max,
            },
        )
    }

    fn bind(&mut self, node: NodeId, agent: &str) -> Vec<Effect> {
        let agent = agent.to_owned();
        self.asked(PERSON, Asked::Bind { node, agent })
    }

    /// Has the first node connect by a session.
    fn connect(&mut self, session: SessionId, instance: Option<Instance>) -> Vec<Effect> {
        self.handle(Input::Opened {
            session,
            carrier: Carrier::Node,
            who: Who::Node(FIRST),
        });
        self.said(session, Said::Registers { instance })
    }

    fn asked(&mut self, session: SessionId, command: Asked) -> Vec<Effect> {
        self.call(session, ANY, command.into())
    }

    fn said(&mut self, session: SessionId, said: Said) -> Vec<Effect> {
        self.call(session, ANY, said.into())
    }

    fn acknowledge(&mut self, session: SessionId, agent: &str, up_to: u64) -> Vec<Effect> {
        let agent = agent.to_owned();
        self.said(session, Said::Acknowledges { agent, up_to })
    }

    /// Has `pm` post the messages of those numbers to `dev-a`, and returns the frames that go out.
    fn posts(&mut self, numbers: std::ops::RangeInclusive<u8>) -> Vec<(SessionId, u64, Delivery)> {
        let posted = numbers.flat_map(|n| self.post(A, u64::from(n), &nth(n)));
        frames(posted.collect())
    }
}

/// Returns the frames among some effects, with where they go.
fn frames(effects: Vec<Effect>) -> Vec<(SessionId, u64, Delivery)> {
    let frames = effects.into_iter().filter_map(|effect| match effect {
        Effect::Deliver { session, frame } => Some((session, *frame)),
        Effect::Opened { .. }
        | Effect::Reply { .. }
        | Effect::Changed { .. }
        | Effect::Superseded { .. }
        | Effect::Note(_) => None,
    });
    let frame = |(session, frame): (SessionId, Frame)| {
        assert_eq!(frame.agent, name("dev-a"));
        (session, frame.number, frame.delivery)
    };
    frames.map(frame).collect()
}

fn answered(answer: Answer) -> Effect {
    reply(ANY, Ok(answer.into()))
}

fn refused(refusal: NoNode) -> Vec<Effect> {
    vec![super::refused(ANY, refusal.into())]
}

fn noted() -> Vec<Effect> {
    vec![answered(Answer::Noted)]
}

fn binding(acknowledged: u64) -> BindingView {
    let agent = name("dev-a");
    BindingView { agent, acknowledged }
}

fn instance(id: &str) -> Option<Instance> {
    let (provider, id) = ("broker".to_owned(), id.to_owned());
    Some(Instance { provider, id })
}

#[test]
fn what_comes_for_a_bound_agent_goes_out_in_frames_that_are_numbered_from_1() {
    let mut relay = Relay::with_node();
    let sent = relay.posts(1..=3);
    assert_eq!(sent, [(NODE, 1, nth(1)), (NODE, 2, nth(2)), (NODE, 3, nth(3))]);
}

#[test]
fn what_came_before_goes_out_when_the_node_registers_behind_its_answer() {
    let mut relay = Relay::told();
    relay.open_for_person(PERSON);
    relay.create("fleet", None);
    relay.bind(FIRST, "dev-a");
    assert_eq!(relay.posts(1..=2), []);
    let effects = relay.connect(NODE, None);
    assert!(
        matches!(effects[0], Effect::Reply { result: Ok(_), .. }),
        "{effects:?}"
    );
    assert_eq!(frames(effects), [(NODE, 1, nth(1)), (NODE, 2, nth(2))]);
}

#[test]
fn an_acknowledgement_confirms_all_up_to_its_number_and_nothing_else_does() {
    let mut relay = Relay::with_node();
    relay.posts(1..=3);
    let events = relay.events();
    let handed_over = events.iter().filter_map(|event| {
        let Event::HandedOver { handover, .. } = event else {
            return None;
        };
        Some(*handover)
    });
    let handovers: Vec<HandoverId> = handed_over.collect();
    for sign in [Sign::Passed, Sign::Followed, Sign::CalledAgain, Sign::KeptAlive] {
        relay.handle(Input::Signed {
            handover: handovers[0],
            sign,
        });
    }
    relay.handle(Input::KeptAlive { session: NODE });
    relay.said(NODE, Said::Beats);
    relay.settle();
    assert_eq!(relay.events(), [], "nothing was confirmed");
    assert_eq!(relay.acknowledge(NODE, "dev-a", 2), noted());
    let confirmed = relay.events().into_iter().map(|event| {
        let Event::Confirmed { handover, by, .. } = event else {
            panic!("{event:?}");
        };
        assert_eq!(by, Sign::Acknowledged);
        handover
    });
    let confirmed: Vec<HandoverId> = confirmed.collect();
    assert_eq!(confirmed, handovers[..2]);
    for lower in [0, 1, 2] {
        assert_eq!(relay.acknowledge(NODE, "dev-a", lower), noted());
        assert_eq!(relay.events(), [], "it never moves back");
    }
}

#[test]
fn what_was_never_sent_is_not_acknowledged() {
    let mut relay = Relay::with_node();
    relay.posts(1..=2);
    let never_sent = NoNode::NeverSent {
        agent: name("dev-a"),
        up_to: 3,
        sent: 2,
    };
    assert_eq!(relay.acknowledge(NODE, "dev-a", 3), refused(never_sent));
    let not_bound = NoNode::NotBound {
        agent: "dev-b".to_owned(),
    };
    assert_eq!(relay.acknowledge(NODE, "dev-b", 0), refused(not_bound));
}

#[test]
fn after_a_new_connection_all_past_the_last_acknowledgement_comes_again_before_what_is_new() {
    let mut relay = Relay::with_node();
    relay.posts(1..=3);
    relay.acknowledge(NODE, "dev-a", 1);
    relay.close(NODE, Ending::Broken);
    assert_eq!(relay.posts(4..=4), []);
    let effects = relay.connect(NEXT, None);
    assert_eq!(
        frames(effects),
        [
            (NEXT, 2, again(&nth(2))),
            (NEXT, 3, again(&nth(3))),
            (NEXT, 4, nth(4))
        ]
    );
    assert_eq!(relay.acknowledge(NEXT, "dev-a", 4), noted());
    relay.close(NEXT, Ending::Orderly);
    assert_eq!(frames(relay.connect(NODE, None)), []);
}

#[test]
fn a_number_stays_its_deliverys_when_something_older_comes_back_before_it() {
    let mut relay = Relay::told();
    relay.open_for_person(PERSON);
    relay.create("fleet", None);
    // Read with a tool, and not known to have arrived.
    relay.posts(1..=1);
    relay.call(B, 20, read("dev-a"));
    relay.bind(FIRST, "dev-a");
    relay.connect(NODE, None);
    assert_eq!(relay.posts(2..=2), [(NODE, 1, nth(2))]);
    relay.close(NODE, Ending::Broken);
    relay.lost(20);
    let effects = relay.connect(NEXT, None);
    assert_eq!(
        frames(effects),
        [(NEXT, 1, again(&nth(2))), (NEXT, 2, again(&nth(1)))]
    );
}

#[test]
fn a_window_of_frames_is_on_its_way_and_an_acknowledgement_lets_the_next_out() {
    let mut relay = Relay::with_node();
    let window = u8::try_from(FRAMES_MAX).expect("it is small");
    assert_eq!(relay.posts(1..=window + 2).len(), FRAMES_MAX);
    let effects = relay.acknowledge(NODE, "dev-a", 1);
    let next = (NODE, FRAMES_MAX as u64 + 1, nth(window + 1));
    assert_eq!(effects[0], answered(Answer::Noted));
    assert_eq!(frames(effects), [next]);
    let effects = relay.acknowledge(NODE, "dev-a", 65);
    assert_eq!(frames(effects), [(NODE, 66, nth(window + 2))]);
}

#[test]
fn what_a_node_holds_is_read_by_nobody_else() {
    let mut relay = Relay::with_node();
    relay.posts(1..=70);
    for gone in [false, true] {
        if gone {
            relay.close(NODE, Ending::Broken);
        }
        assert_eq!(relay.call(B, 200, read("dev-a")), [nothing(200)]);
        assert_eq!(relay.call(PERSON, 201, read("dev-a")), [nothing(201)]);
        assert_eq!(relay.call(B, 202, look("dev-a")), [kinds(202, [])]);
    }
}

#[test]
fn what_a_node_that_is_gone_did_not_acknowledge_is_read_with_tools_once_it_lapses() {
    let mut relay = Relay::with_node();
    relay.posts(1..=2);
    relay.acknowledge(NODE, "dev-a", 1);
    relay.close(NODE, Ending::Orderly);
    assert_eq!(relay.call(B, 20, wait("dev-a", 280_000)), NONE);
    relay.posts(3..=3);
    assert_eq!(relay.timeout_at(NODE_GONE_MS - 1), NONE);
    let read = shown(20, [again(&nth(2)), nth(3)]);
    assert_eq!(relay.timeout_at(NODE_GONE_MS), [read]);
    relay.passed(20);
    // Its numbers are never used again, and the node is told so.
    relay.connect(NEXT, None);
    let agents = vec!["dev-a".to_owned()];
    let has = relay.said(NEXT, Said::Has { agents });
    assert_eq!(has, [answered(Answer::Has(vec![binding(2)]))]);
    relay.now = START;
    let n = posted_at(0, &nth(4));
    relay.now = START.plus_millis(NODE_GONE_MS);
    let effects = relay.post(A, 4, &n);
    let (session, number, _) = frames(effects).pop().expect("a frame");
    assert_eq!((session, number), (NEXT, 3));
}

#[test]
fn a_node_that_leaves_holds_nothing_any_more() {
    let mut relay = Relay::with_node();
    relay.posts(1..=1);
    assert_eq!(relay.said(NODE, Said::Leaves), noted());
    let read_again = shown(20, [again(&nth(1))]);
    assert_eq!(relay.call(B, 20, read("dev-a")), [read_again]);
    assert_eq!(
        relay.acknowledge(NODE, "dev-a", 1),
        refused(NoNode::NotRegistered)
    );
}

#[test]
fn a_later_connection_supersedes_the_one_before() {
    let mut relay = Relay::with_node();
    relay.posts(1..=1);
    let mut effects = relay.connect(NEXT, None);
    assert_eq!(effects.remove(0), Effect::Superseded { session: NODE });
    assert_eq!(frames(effects), [(NEXT, 1, again(&nth(1)))]);
    assert_eq!(
        relay.acknowledge(NODE, "dev-a", 1),
        refused(NoNode::NotRegistered)
    );
    relay.events();
    assert_eq!(relay.close(NODE, Ending::Broken), NONE);
    assert_eq!(relay.posts(2..=2), [(NEXT, 2, nth(2))]);
}

#[test]
fn another_instance_takes_the_place_of_one_that_has_been_silent_for_a_while() {
    let mut relay = Relay::told();
    relay.open_for_person(PERSON);
    relay.create("fleet", None);
    relay.connect(NODE, instance("one"));
    relay.now = START.plus_millis(INSTANCE_MS);
    relay.said(NODE, Said::Beats);
    relay.now = START.plus_millis(2 * INSTANCE_MS - 1);
    let conflict = NoNode::InstanceConflict {
        silent_ms: INSTANCE_MS,
    };
    assert_eq!(relay.connect(NEXT, instance("two")), refused(conflict));
    relay.now = START.plus_millis(2 * INSTANCE_MS);
    let instance = instance("two");
    let effects = relay.said(NEXT, Said::Registers { instance });
    assert_eq!(effects[0], Effect::Superseded { session: NODE });
}

#[test]
fn the_same_instance_connects_again_at_once() {
    let mut relay = Relay::told();
    relay.open_for_person(PERSON);
    relay.create("fleet", None);
    relay.connect(NODE, instance("one"));
    let effects = relay.connect(NEXT, instance("one"));
    assert_eq!(effects[0], Effect::Superseded { session: NODE });
}

#[test]
fn an_agent_that_is_bound_elsewhere_is_undone_here() {
    let mut relay = Relay::with_node();
    relay.posts(1..=1);
    relay.create("other", None);
    let rebound = relay.bind(NodeId(1), "dev-a");
    assert_eq!(rebound, [answered(Answer::Bound(binding(1)))]);
    let not_bound = NoNode::NotBound {
        agent: "dev-a".to_owned(),
    };
    assert_eq!(relay.acknowledge(NODE, "dev-a", 1), refused(not_bound));
    // The other node has never been there, so it holds nothing.
    let read_again = shown(20, [again(&nth(1))]);
    assert_eq!(relay.call(B, 20, read("dev-a")), [read_again]);
}

#[test]
fn a_node_has_the_agents_that_it_says_it_has() {
    let mut relay = Relay::with_node();
    let adopted = |agent: &str| {
        let agent = name(agent);
        answered(Answer::Bound(BindingView {
            agent,
            acknowledged: 0,
        }))
    };
    let says = |agent: &str| Said::Adopts {
        agent: agent.to_owned(),
    };
    assert_eq!(relay.said(NODE, says("worker")), [adopted("worker")]);
    assert_eq!(relay.said(NODE, says("worker")), [adopted("worker")]);
    assert!(relay.events().contains(&Event::Registered {
        agent: name("worker")
    }));
    let agents = vec!["worker".to_owned(), "dev-b".to_owned()];
    let has = relay.said(NODE, Said::Has { agents });
    let view = |agent: &str| BindingView {
        agent: name(agent),
        acknowledged: 0,
    };
    assert_eq!(has, [answered(Answer::Has(vec![view("dev-b"), view("worker")]))]);
    assert_eq!(relay.posts(1..=1), [], "dev-a is bound no more");
    let drops = Said::Drops {
        agent: "worker".to_owned(),
    };
    assert_eq!(relay.said(NODE, drops.clone()), noted());
    let not_bound = NoNode::NotBound {
        agent: "worker".to_owned(),
    };
    assert_eq!(relay.said(NODE, drops), refused(not_bound));
}

#[test]
fn an_agent_that_another_node_holds_is_not_adopted() {
    let mut relay = Relay::with_node();
    relay.create("other", None);
    relay.handle(Input::Opened {
        session: NEXT,
        carrier: Carrier::Node,
        who: Who::Node(NodeId(1)),
    });
    relay.said(NEXT, Said::Registers { instance: None });
    let adopts = || Said::Adopts {
        agent: "dev-a".to_owned(),
    };
    let elsewhere = NoNode::Elsewhere {
        agent: name("dev-a"),
        node: "fleet".to_owned(),
    };
    assert_eq!(relay.said(NEXT, adopts()), refused(elsewhere));
    let agents = vec!["dev-a".to_owned()];
    assert_eq!(
        relay.said(NEXT, Said::Has { agents }),
        [answered(Answer::Has(Vec::new()))]
    );
    relay.said(NODE, Said::Leaves);
    assert_eq!(relay.said(NEXT, adopts()), [answered(Answer::Bound(binding(0)))]);
}

#[test]
fn a_node_takes_no_more_agents_than_it_says() {
    let mut relay = Relay::told();
    relay.open_for_person(PERSON);
    relay.create("fleet", Some(1));
    relay.connect(NODE, None);
    relay.bind(FIRST, "dev-a");
    let full = || refused(NoNode::Full { agents: 1 });
    assert_eq!(relay.bind(FIRST, "dev-b"), full());
    let agent = "dev-b".to_owned();
    assert_eq!(relay.said(NODE, Said::Adopts { agent }), full());
    let agents = vec!["dev-a".to_owned(), "dev-b".to_owned()];
    assert_eq!(
        relay.said(NODE, Said::Has { agents }),
        refused(NoNode::Full { agents: 2 })
    );
    assert_eq!(relay.bind(FIRST, "dev-a"), [answered(Answer::Bound(binding(0)))]);
}

#[test]
fn an_agents_own_node_has_it_again_when_another_lets_go() {
    let mut relay = Relay::told();
    relay.open_for_person(PERSON);
    relay.create("fleet", None);
    relay.open(EXCHANGE, Carrier::Exchange, Some("dev-a"));
    let own = |effects: Vec<Effect>| {
        let Some(Effect::Reply {
            result: Ok(Reply::Nodes(answer)),
            ..
        }) = effects.first()
        else {
            panic!("{effects:?}");
        };
        let Answer::Node(view) = &**answer else {
            panic!("{answer:?}");
        };
        (view.node, view.own.clone(), view.agents.clone())
    };
    let expected = (NodeId(1), Some(name("dev-a")), vec![name("dev-a")]);
    assert_eq!(own(relay.asked(EXCHANGE, Asked::Own)), expected);
    assert_eq!(own(relay.asked(EXCHANGE, Asked::Own)), expected);
    relay.bind(FIRST, "dev-a");
    let elsewhere = NoNode::Elsewhere {
        agent: name("dev-a"),
        node: "fleet".to_owned(),
    };
    assert_eq!(relay.asked(EXCHANGE, Asked::Own), refused(elsewhere));
    let unbind = || Asked::Unbind {
        node: FIRST,
        agent: "dev-a".to_owned(),
    };
    let unbound = |was_bound| vec![answered(Answer::Unbound { was_bound })];
    assert_eq!(relay.asked(PERSON, unbind()), unbound(true));
    assert_eq!(own(relay.asked(EXCHANGE, Asked::Own)), expected);
    assert_eq!(relay.asked(PERSON, unbind()), unbound(false));
}

#[test]
fn an_awaited_answer_goes_to_the_call_that_waits_and_not_to_the_node() {
    let mut relay = Relay::with_node();
    let options = mail::PostOptions {
        await_ms: Some(WAIT_MS),
        ..mail::PostOptions::default()
    };
    let question = message(1, 0, "dev-a", "pm");
    assert_eq!(relay.post_with(A, 1, &question, Some(options)), NONE);
    let answer = message(2, 0, "pm", "dev-a");
    let effects = relay.post(A, 2, &answer);
    assert_eq!(frames(effects.clone()), []);
    assert!(effects.contains(&shown(1, [answer])), "{effects:?}");
}

#[test]
fn the_node_gets_what_nobody_has_acknowledged_when_it_is_full() {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 2,
        ..ROOMY
    });
    relay.open_for_person(PERSON);
    relay.create("fleet", None);
    relay.connect(NODE, None);
    relay.bind(FIRST, "dev-a");
    relay.posts(1..=2);
    let effects = relay.post(A, 3, &nth(3));
    assert!(
        matches!(
            &effects[..],
            [Effect::Reply {
                result: Err(Refusal::Mail(mail::Refusal::InboxFull { .. })),
                ..
            }]
        ),
        "{effects:?}"
    );
    relay.acknowledge(NODE, "dev-a", 1);
    assert_eq!(relay.posts(3..=3), [(NODE, 3, nth(3))]);
}

#[test]
fn only_the_person_makes_nodes_and_only_a_node_speaks_as_one() {
    let mut relay = Relay::with_node();
    let list = || Asked::List {
        project: DEFAULT_PROJECT.to_owned(),
    };
    assert_eq!(relay.asked(A, list()), refused(NoNode::NotYours));
    assert_eq!(relay.asked(NODE, list()), refused(NoNode::NotYours));
    assert_eq!(relay.said(A, Said::Beats), refused(NoNode::NotYours));
    assert_eq!(relay.said(PERSON, Said::Beats), refused(NoNode::NotYours));
    assert_eq!(relay.create("second", None).len(), 1);
    assert_eq!(relay.create("third", None), refused(NoNode::TooMany { nodes: 2 }));
    let given = String::new();
    assert_eq!(relay.create("", None), refused(NoNode::InvalidName { given }));
    assert_eq!(relay.bind(NodeId(9), "dev-a"), refused(NoNode::Unknown));
    let opened = relay.handle(Input::Opened {
        session: NEXT,
        carrier: Carrier::Node,
        who: Who::Node(NodeId(9)),
    });
    let result = Err(NoNode::Unknown.into());
    assert_eq!(
        opened,
        [Effect::Opened {
            session: NEXT,
            result
        }]
    );
}
