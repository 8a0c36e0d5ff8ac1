//! Which node has which agent: bound, named, given back, and refused.

use relay::engine::NodeId;
use relay::engine::nodes::{BindingView, Command as Asked, Refusal as NoNode, Reply as Answer, Said};

use super::nodes::*;
use super::*;

/// Returns the number of the node that is answered, whose own it is and which agents it has.
#[track_caller]
fn node_in(effects: &[Effect]) -> (NodeId, Option<AgentName>, Vec<AgentName>) {
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
}

impl Relay {
    /// Returns the agents of a node, as they are listed.
    fn agents_of(&mut self, node: NodeId) -> Vec<AgentName> {
        let project = DEFAULT_PROJECT.to_owned();
        let listed = self.asked(PERSON, Asked::List { project });
        let Some(Effect::Reply {
            result: Ok(Reply::Nodes(answer)),
            ..
        }) = listed.first()
        else {
            panic!("{listed:?}");
        };
        let Answer::Listed(nodes) = &**answer else {
            panic!("{answer:?}");
        };
        let view = nodes.iter().find(|view| view.node == node);
        view.expect("it was made").agents.clone()
    }
}

fn elsewhere() -> NoNode {
    NoNode::Elsewhere {
        agent: name("dev-a"),
        node: "fleet".to_owned(),
    }
}

/// A relay with a node for several that is connected, and one of `dev-a`'s own: the second.
fn with_own_node() -> Relay {
    let mut relay = Relay::told();
    relay.open_for_person(PERSON);
    relay.create("fleet", None);
    relay.connect(NODE, None);
    relay.open(EXCHANGE, Carrier::Exchange, Some("dev-a"));
    relay.asked(EXCHANGE, Asked::Own);
    relay
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
    assert_eq!(relay.acknowledge(NODE, "dev-a", 1), no_node(not_bound));
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
            failing: None,
            dead: 0,
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
        failing: None,
        dead: 0,
    };
    assert_eq!(has, [answered(Answer::Has(vec![view("dev-b"), view("worker")]))]);
    assert_eq!(relay.posts(1..=1), [], "dev-a is bound no more");
    let drops = Said::Drops {
        agent: "worker".to_owned(),
    };
    assert_eq!(relay.said(NODE, drops.clone()), noted());
    assert_eq!(relay.said(NODE, drops.clone()), noted(), "it is done already");
    relay.create("other", None);
    relay.bind(NodeId(1), "worker");
    let not_bound = |agent: &str| {
        no_node(NoNode::NotBound {
            agent: agent.to_owned(),
        })
    };
    assert_eq!(relay.said(NODE, drops), not_bound("worker"), "another's");
    let agent = "nobody".to_owned();
    assert_eq!(relay.said(NODE, Said::Drops { agent }), not_bound("nobody"));
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
    relay.said(
        NEXT,
        Said::Registers {
            instance: None,
            names_first: false,
            offers: Vec::new(),
        },
    );
    let adopts = || Said::Adopts {
        agent: "dev-a".to_owned(),
    };
    let elsewhere = NoNode::Elsewhere {
        agent: name("dev-a"),
        node: "fleet".to_owned(),
    };
    assert_eq!(relay.said(NEXT, adopts()), no_node(elsewhere));
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
    let full = || no_node(NoNode::Full { agents: 1 });
    assert_eq!(relay.bind(FIRST, "dev-b"), full());
    let agent = "dev-b".to_owned();
    assert_eq!(relay.said(NODE, Said::Adopts { agent }), full());
    let agents = vec!["dev-a".to_owned(), "dev-b".to_owned()];
    assert_eq!(
        relay.said(NODE, Said::Has { agents }),
        no_node(NoNode::Full { agents: 2 })
    );
    let agents = vec!["dev-a".to_owned()];
    assert_eq!(
        relay.said(NODE, Said::Has { agents }),
        [answered(Answer::Has(vec![binding(0)]))]
    );
    assert_eq!(relay.bind(FIRST, "dev-a"), [answered(Answer::Bound(binding(0)))]);
}

#[test]
fn a_node_may_have_as_many_agents_as_there_is_room_for_and_not_one_more() {
    let mut relay = Relay::with_node();
    let too_many = |relay: &mut Relay, new: usize| {
        let agents = (0..new).map(|number| format!("w{number}")).collect();
        match &relay.said(NODE, Said::Has { agents })[..] {
            [Effect::Reply { result: Ok(_), .. }, ..] => None,
            [
                Effect::Reply {
                    result: Err(Refusal::Agents(agents::Refusal::TooManyAgents { agents })),
                    ..
                },
            ] => Some(*agents),
            other => panic!("{other:?}"),
        }
    };
    let before = too_many(&mut relay, ROOMY.agents_max + 1).expect("more than may be");
    let room = ROOMY.agents_max - before;
    assert_eq!(too_many(&mut relay, room + 1), Some(before));
    assert_eq!(relay.agents_of(FIRST), [name("dev-a")], "nothing was changed");
    assert_eq!(too_many(&mut relay, room), None);
    assert_eq!(relay.agents_of(FIRST).len(), room);
}

#[test]
fn an_agents_own_node_has_it_again_whichever_way_another_lets_go() {
    let mut relay = with_own_node();
    let its_own = (NodeId(1), Some(name("dev-a")), vec![name("dev-a")]);
    assert_eq!(node_in(&relay.asked(EXCHANGE, Asked::Own)), its_own);
    let unbound = |was_bound| vec![answered(Answer::Unbound { was_bound })];
    let unbind = || Asked::Unbind {
        node: FIRST,
        agent: "dev-a".to_owned(),
    };
    relay.bind(FIRST, "dev-a");
    assert_eq!(relay.asked(EXCHANGE, Asked::Own), no_node(elsewhere()));
    assert_eq!(relay.asked(PERSON, unbind()), unbound(true));
    assert_eq!(relay.agents_of(NodeId(1)), [name("dev-a")]);
    assert_eq!(relay.asked(PERSON, unbind()), unbound(false));
    relay.bind(FIRST, "dev-a");
    assert_eq!(relay.agents_of(NodeId(1)), []);
    let agent = "dev-a".to_owned();
    let drops = Said::Drops { agent };
    assert_eq!(relay.said(NODE, drops.clone()), noted());
    assert_eq!(relay.agents_of(NodeId(1)), [name("dev-a")]);
    assert_eq!(relay.said(NODE, drops), noted(), "it is done already");
    relay.bind(FIRST, "dev-a");
    let agents = Vec::new();
    relay.said(NODE, Said::Has { agents });
    assert_eq!(relay.agents_of(NodeId(1)), [name("dev-a")]);
    // One that holds nothing any more does not keep it.
    relay.bind(FIRST, "dev-a");
    relay.said(NODE, Said::Leaves);
    assert_eq!(node_in(&relay.asked(EXCHANGE, Asked::Own)), its_own);
}

#[test]
fn an_agents_own_node_has_no_other_agent() {
    let mut relay = with_own_node();
    let own = NodeId(1);
    relay.handle(Input::Opened {
        session: NEXT,
        carrier: Carrier::Node,
        who: Who::Node(own),
    });
    relay.said(
        NEXT,
        Said::Registers {
            instance: None,
            names_first: false,
            offers: Vec::new(),
        },
    );
    let anothers = || no_node(NoNode::AnothersOwn { owner: name("dev-a") });
    assert_eq!(relay.bind(own, "dev-b"), anothers());
    let agent = "dev-b".to_owned();
    assert_eq!(relay.said(NEXT, Said::Adopts { agent }), anothers());
    let agents = vec!["dev-b".to_owned()];
    assert_eq!(relay.said(NEXT, Said::Has { agents }), anothers());
}

#[test]
fn an_agent_that_is_bound_stays_and_gets_what_goes_to_many() {
    let mut relay = Relay::with_node();
    let transient = agents::Registration {
        transient: true,
        ..registration("worker", None)
    };
    relay.register(EXCHANGE, transient);
    relay.close(EXCHANGE, Ending::Orderly);
    relay.bind(FIRST, "worker");
    relay.timeout_at(120_000);
    relay.events();
    relay.call(A, 1, post(Some("pm"), "*", "to all"));
    let (_, went_to) = relay.went_out().expect("it was accepted");
    assert!(went_to.contains(&name("worker")), "{went_to:?}");
}

#[test]
fn only_the_person_makes_nodes_and_only_a_node_speaks_as_one() {
    let mut relay = Relay::with_node();
    let list = || Asked::List {
        project: DEFAULT_PROJECT.to_owned(),
    };
    assert_eq!(relay.asked(A, list()), no_node(NoNode::NotYours));
    assert_eq!(relay.asked(NODE, list()), no_node(NoNode::NotYours));
    assert_eq!(relay.said(A, Said::Beats), no_node(NoNode::NotYours));
    assert_eq!(relay.said(PERSON, Said::Beats), no_node(NoNode::NotYours));
    assert_eq!(relay.create("second", None).len(), 1);
    assert_eq!(relay.create("third", None), no_node(NoNode::TooMany { nodes: 2 }));
    let given = String::new();
    assert_eq!(relay.create("", None), no_node(NoNode::InvalidName { given }));
    assert_eq!(relay.bind(NodeId(9), "dev-a"), no_node(NoNode::Unknown));
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

#[test]
fn an_agent_that_a_node_adopts_is_of_the_node_s_project() {
    let mut relay = Relay::with_node();
    let create = Asked::Create {
        project: "web".to_owned(),
        name: "fleet".to_owned(),
        label: None,
        agents_max: None,
        pushes: false,
    };
    let (web, _, _) = node_in(&relay.asked(PERSON, create));
    relay.connect_as(web, NEXT);
    let agent = "worker".to_owned();
    let adopted = relay.said(NEXT, Said::Adopts { agent });
    let bound = BindingView {
        agent: name("web:worker"),
        ..binding(0)
    };
    assert_eq!(adopted, [answered(Answer::Bound(bound))]);
}

#[test]
fn a_node_is_found_again_by_whoever_says_no_label_or_the_same() {
    let mut relay = Relay::told();
    relay.open_for_person(PERSON);
    let create = |label: Option<&str>| Asked::Create {
        project: DEFAULT_PROJECT.to_owned(),
        name: "fleet".to_owned(),
        label: label.map(str::to_owned),
        agents_max: None,
        pushes: false,
    };
    let made = node_in(&relay.asked(PERSON, create(Some("my laptop"))));
    assert_eq!(node_in(&relay.asked(PERSON, create(Some("my laptop")))), made);
    assert_eq!(node_in(&relay.asked(PERSON, create(None))), made);
    let known = Some("my laptop".to_owned());
    let other = relay.asked(PERSON, create(Some("server")));
    assert_eq!(other, no_node(NoNode::OtherLabel { known }));
}

#[test]
fn an_agents_own_node_may_name_it() {
    let mut relay = with_own_node();
    relay.connect_as(NodeId(1), NEXT);
    let agent = "dev-a".to_owned();
    assert_eq!(
        relay.said(NEXT, Said::Adopts { agent }),
        [answered(Answer::Bound(binding(0)))]
    );
}

#[test]
fn a_node_may_have_agents_of_the_roster_however_few_others_may_be() {
    let mut relay = Relay::told_within(Bounds {
        agents_max: 2,
        ..ROOMY
    });
    relay.open_for_person(PERSON);
    relay.create("fleet", None);
    relay.connect(NODE, None);
    let agents = vec!["dev-a".to_owned()];
    assert_eq!(
        relay.said(NODE, Said::Has { agents }),
        [answered(Answer::Has(vec![binding(0)]))]
    );
}
