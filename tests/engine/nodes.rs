//! Nodes: what goes out in frames, what an acknowledgement confirms, and who reads what no node acknowledges.

use relay::engine::limits::{FRAMES_MAX, INSTANCE_MS, NODE_GONE_MS};
use relay::engine::nodes::{
    BindingView, By, Command as Asked, Instance, Refusal as NoNode, Reply as Answer, Said,
};
use relay::engine::{Frame, NodeId};

use super::*;

/// The session of the first node's connection, and of its next one.
pub const NODE: SessionId = SessionId(5);
pub const NEXT: SessionId = SessionId(6);
pub const PERSON: SessionId = SessionId(7);

pub const FIRST: NodeId = NodeId(0);

pub const NONE: [Effect; 0] = [];

/// Whose answers no test looks at.
pub const ANY: u64 = 9_000;

impl Relay {
    /// A relay in which `dev-a` is bound to a node that is connected by [`NODE`].
    pub fn with_node() -> Self {
        let mut relay = Self::told();
        relay.open_for_person(PERSON);
        relay.create("fleet", None);
        relay.connect(NODE, None);
        relay.bind(FIRST, "dev-a");
        relay.events();
        relay
    }

    pub fn create(&mut self, node: &str, agents_max: Option<usize>) -> Vec<Effect> {
        let (project, name) = (DEFAULT_PROJECT.to_owned(), node.to_owned());
        self.asked(
            PERSON,
            Asked::Create {
                project,
                name,
                label: None,
                agents_max,
                pushes: false,
            },
        )
    }

    pub fn bind(&mut self, node: NodeId, agent: &str) -> Vec<Effect> {
        let agent = agent.to_owned();
        self.asked(PERSON, Asked::Bind { node, agent })
    }

    /// Has the first node connect by a session.
    pub fn connect(&mut self, session: SessionId, instance: Option<Instance>) -> Vec<Effect> {
        self.handle(Input::Opened {
            session,
            carrier: Carrier::Node,
            who: Who::Node(FIRST),
        });
        self.said(
            session,
            Said::Registers {
                instance,
                names_first: false,
                offers: Vec::new(),
            },
        )
    }

    pub fn asked(&mut self, session: SessionId, command: Asked) -> Vec<Effect> {
        self.call(session, ANY, command.into())
    }

    pub fn said(&mut self, session: SessionId, said: Said) -> Vec<Effect> {
        self.call(session, ANY, said.into())
    }

    pub fn acknowledge(&mut self, session: SessionId, agent: &str, up_to: u64) -> Vec<Effect> {
        let agent = agent.to_owned();
        self.said(session, Said::Acknowledges { agent, up_to })
    }

    /// Has `pm` post the messages of those numbers to `dev-a`, and returns the frames that go out.
    pub fn posts(&mut self, numbers: std::ops::RangeInclusive<u8>) -> Vec<(SessionId, u64, Delivery)> {
        let posted = numbers.flat_map(|n| self.post(A, u64::from(n), &nth(n)));
        frames(posted.collect())
    }
}

/// Returns the frames among some effects, with where they go.
pub fn frames(effects: Vec<Effect>) -> Vec<(SessionId, u64, Delivery)> {
    let frames = effects.into_iter().filter_map(|effect| match effect {
        Effect::Deliver { session, frame } => Some((session, *frame)),
        Effect::Opened { .. }
        | Effect::Reply { .. }
        | Effect::Changed { .. }
        | Effect::Tell { .. }
        | Effect::Invoke { .. }
        | Effect::Superseded { .. }
        | Effect::StartWorker(_)
        | Effect::EndWorker { .. }
        | Effect::Note(_) => None,
    });
    let frame = |(session, frame): (SessionId, Frame)| {
        assert_eq!(frame.agent, name("dev-a"));
        (session, frame.number, frame.delivery)
    };
    frames.map(frame).collect()
}

pub fn answered(answer: Answer) -> Effect {
    reply(ANY, Ok(answer.into()))
}

pub fn no_node(refusal: NoNode) -> Vec<Effect> {
    vec![super::refused(ANY, refusal.into())]
}

/// What it finds that looks a node up.
fn found(relay: &mut Relay, project: &str, by: By) -> Option<NodeId> {
    let project = project.to_owned();
    let effects = relay.asked(PERSON, Asked::Find { project, by });
    let [
        Effect::Reply {
            result: Ok(Reply::Nodes(answer)),
            ..
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    let Answer::Found(found) = &**answer else {
        panic!("{answer:?}")
    };
    found.as_ref().map(|view| view.node)
}

#[test]
fn a_node_is_found_by_its_name_its_label_or_its_agent_in_its_project_alone() {
    let mut relay = Relay::told();
    relay.open_for_person(PERSON);
    let create = Asked::Create {
        project: DEFAULT_PROJECT.to_owned(),
        name: "fleet".to_owned(),
        label: Some("broker".to_owned()),
        agents_max: None,
        pushes: false,
    };
    relay.asked(PERSON, create);
    relay.open(SessionId(8), Carrier::Exchange, Some("dev-a"));
    relay.asked(SessionId(8), Asked::Own);
    let text = str::to_owned;
    for (by, expected) in [
        (By::Name(text("fleet")), Some(NodeId(0))),
        (By::Label(text("broker")), Some(NodeId(0))),
        (By::Owner(text("dev-a")), Some(NodeId(1))),
        // Its own has no name that anybody gave it.
        (By::Name(text("dev-a")), None),
        (By::Name(text("broker")), None),
        (By::Label(text("fleet")), None),
        (By::Owner(text("dev-b")), None),
    ] {
        assert_eq!(found(&mut relay, DEFAULT_PROJECT, by.clone()), expected, "{by:?}");
        assert_eq!(found(&mut relay, "web", by), None);
    }
    let of = |agent: &str| Asked::Binding {
        node: NodeId(1),
        agent: agent.to_owned(),
    };
    assert_eq!(
        relay.asked(PERSON, of("dev-a")),
        [answered(Answer::Bound(binding(0)))]
    );
    let agent = text("dev-b");
    assert_eq!(
        relay.asked(PERSON, of("dev-b")),
        no_node(NoNode::NotBound { agent })
    );
    assert_eq!(relay.asked(SessionId(8), of("dev-a")), no_node(NoNode::NotYours));
}

pub fn noted() -> Vec<Effect> {
    vec![answered(Answer::Noted)]
}

pub fn binding(acknowledged: u64) -> BindingView {
    let agent = name("dev-a");
    BindingView {
        agent,
        acknowledged,
        failing: None,
        dead: 0,
    }
}

pub fn instance(id: &str) -> Option<Instance> {
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
    let by = Sign::Acknowledged;
    let read = |handover: &HandoverId| Event::Read {
        handover: *handover,
        by,
    };
    assert_eq!(
        relay.events(),
        handovers[..2].iter().map(read).collect::<Vec<_>>()
    );
    relay.settle();
    let confirmed = relay.events().into_iter().map(|event| {
        let Event::Confirmed { handover, by, .. } = event else {
            panic!("{event:?}");
        };
        (handover, by)
    });
    assert_eq!(
        confirmed.collect::<Vec<_>>(),
        [(handovers[0], by), (handovers[1], by)]
    );
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
    assert_eq!(relay.acknowledge(NODE, "dev-a", 3), no_node(never_sent));
    let not_bound = NoNode::NotBound {
        agent: "dev-b".to_owned(),
    };
    assert_eq!(relay.acknowledge(NODE, "dev-b", 0), no_node(not_bound));
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
        no_node(NoNode::NotRegistered)
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
        no_node(NoNode::NotRegistered)
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
    assert_eq!(relay.connect(NEXT, instance("two")), no_node(conflict));
    relay.now = START.plus_millis(2 * INSTANCE_MS);
    let instance = instance("two");
    let effects = relay.said(
        NEXT,
        Said::Registers {
            instance,
            names_first: false,
            offers: Vec::new(),
        },
    );
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
fn a_node_that_names_its_agents_first_gets_nothing_before() {
    let mut relay = Relay::with_node();
    relay.posts(1..=3);
    relay.acknowledge(NODE, "dev-a", 1);
    relay.close(NODE, Ending::Broken);
    relay.handle(Input::Opened {
        session: NEXT,
        carrier: Carrier::Node,
        who: Who::Node(FIRST),
    });
    let registers = Said::Registers {
        instance: None,
        names_first: true,
        offers: Vec::new(),
    };
    assert_eq!(frames(relay.said(NEXT, registers)), []);
    assert_eq!(relay.posts(4..=4), []);
    // What it has got it may acknowledge.
    assert_eq!(relay.acknowledge(NEXT, "dev-a", 2), noted());
    let adopts = || Said::Adopts {
        agent: "dev-a".to_owned(),
    };
    let effects = relay.said(NEXT, adopts());
    assert_eq!(effects[0], answered(Answer::Bound(binding(2))));
    assert_eq!(frames(effects), [(NEXT, 3, again(&nth(3))), (NEXT, 4, nth(4))]);
    // It begins anew with the agent, and gets what it has not acknowledged once more.
    let effects = relay.said(NEXT, adopts());
    assert_eq!(
        frames(effects),
        [(NEXT, 3, again(&nth(3))), (NEXT, 4, again(&nth(4)))]
    );
    assert_eq!(relay.posts(5..=5), [(NEXT, 5, nth(5))]);
    let agents = vec!["dev-a".to_owned()];
    let has = relay.said(NEXT, Said::Has { agents });
    assert_eq!(
        has,
        [answered(Answer::Has(vec![binding(2)]))],
        "it is told, and goes on"
    );
}

#[test]
fn a_message_on_its_way_to_a_node_can_be_answered_and_is_shown_to_nobody_else() {
    let mut relay = Relay::with_node();
    relay.posts(1..=1);
    let options = mail::PostOptions {
        reply_to: Some(id(1).to_string()),
        ..mail::PostOptions::default()
    };
    let answer = message(2, 0, "dev-a", "pm");
    let effects = relay.post_with(B, 20, &answer, Some(options));
    assert!(
        matches!(effects[..], [Effect::Reply { result: Ok(_), .. }]),
        "{effects:?}"
    );
    let look_back = mail::Command::Read {
        agent: Some("dev-a".to_owned()),
        options: Some(Box::new(mail::ReadOptions {
            earlier: true,
            ..mail::ReadOptions::default()
        })),
        room: None,
        wait_ms: 0,
        second: mail::Second::Supersedes,
    };
    assert_eq!(relay.call(B, 21, look_back.into()), [nothing(21)]);
}

#[test]
fn what_no_node_has_acknowledged_is_unread_when_the_relay_stops() {
    let mut relay = Relay::with_node();
    relay.posts(1..=2);
    relay.acknowledge(NODE, "dev-a", 1);
    relay.handle(Input::Stopping);
    assert_eq!(relay.pending(), [0, 1, 0]);
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
fn an_instance_takes_the_place_of_a_connection_that_has_said_of_none() {
    let mut relay = Relay::with_node();
    let effects = relay.connect(NEXT, instance("one"));
    assert!(
        effects.contains(&Effect::Superseded { session: NODE }),
        "{effects:?}"
    );
}
