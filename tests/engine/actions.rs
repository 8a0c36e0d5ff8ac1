//! Actions and invocations: who may ask for what, where it goes, and the one way in which each ends.

use relay::engine::actions::{
    Command as Asked, Description, Named, Offer, Refusal as NoAction, Reply as Answer,
};
use relay::engine::invocations::{Failed, InvocationView, Progress};
use relay::engine::limits::{ACTION_NAME_BYTES_MAX, INVOCATION_BYTES_MAX, SCHEMA_BYTES_MAX};
use relay::engine::nodes::{Refusal as NoNode, Said};
use relay::engine::{InvocationId, News, NodeId, uuid_v4};

use super::nodes::{ANY, FIRST, NEXT, NODE, PERSON, no_node};
use super::*;

/// Sessions of the agent that asks, and of the one that does what is asked.
pub const CALLER: SessionId = SessionId(8);
pub const HANDLER: SessionId = SessionId(9);

/// The session of the second node, which is the caller's.
pub const CALLERS_NODE: SessionId = SessionId(10);

pub const SECOND: NodeId = NodeId(1);

impl Relay {
    /// A relay in which `dev-a`, bound to a node, does `sum`, and `pm` has a node that is told what comes of it.
    pub fn with_action() -> Self {
        let bounds = Bounds {
            sessions_max: 20,
            nodes_max: 4,
            ..ROOMY
        };
        let mut relay = Self::told_within(bounds);
        relay.open_for_person(PERSON);
        relay.create("fleet", None);
        relay.connect(NODE, None);
        relay.bind(FIRST, "dev-a");
        relay.open(CALLER, Carrier::Exchange, Some("pm"));
        relay.open(HANDLER, Carrier::Exchange, Some("dev-a"));
        relay.asked(CALLER, relay::engine::nodes::Command::Own);
        relay.connect_as(SECOND, CALLERS_NODE);
        relay.registers(PERSON, sum());
        relay.events();
        relay
    }

    pub fn connect_as(&mut self, node: NodeId, session: SessionId) -> Vec<Effect> {
        self.handle(Input::Opened {
            session,
            carrier: Carrier::Node,
            who: Who::Node(node),
        });
        self.offers(session, Vec::new())
    }

    /// Makes a node that relay pushes to.
    pub fn pushes_to(&mut self, name: &str) -> NodeId {
        let create = relay::engine::nodes::Command::Create {
            project: DEFAULT_PROJECT.to_owned(),
            name: name.to_owned(),
            label: None,
            agents_max: None,
            pushes: true,
        };
        let effects = self.asked(PERSON, create);
        let [
            Effect::Reply {
                result: Ok(Reply::Nodes(answer)),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        let relay::engine::nodes::Reply::Node(view) = &**answer else {
            panic!("{answer:?}")
        };
        view.node
    }

    pub fn offers(&mut self, session: SessionId, offers: Vec<Offer>) -> Vec<Effect> {
        self.said(
            session,
            Said::Registers {
                instance: None,
                names_first: false,
                offers,
            },
        )
    }

    pub fn registers(&mut self, session: SessionId, description: Description) -> Vec<Effect> {
        self.call(session, ANY, Asked::Register(Box::new(description)).into())
    }

    pub fn asks(&mut self, session: SessionId, command: Asked) -> Vec<Effect> {
        self.call(session, ANY, command.into())
    }

    /// `pm` asks for an action, which gets the id of that number.
    pub fn invokes(&mut self, number: u8, action: &str) -> Vec<Effect> {
        self.invokes_as(CALLER, number, action, "{}")
    }

    pub fn invokes_as(&mut self, session: SessionId, number: u8, action: &str, input: &str) -> Vec<Effect> {
        let command = Asked::Invoke {
            action: action.to_owned(),
            input: input.into(),
        };
        self.handle(Input::Call {
            session,
            call: CallId(ANY),
            random: [number; 16],
            command: command.into(),
        })
    }

    pub fn invocation(&mut self, number: u8) -> InvocationView {
        let effects = self.asks(CALLER, show("default", number));
        let [
            Effect::Reply {
                result: Ok(Reply::Actions(answer)),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}");
        };
        let Answer::Invocation(invocation) = &**answer else {
            panic!("{answer:?}");
        };
        invocation.clone()
    }

    pub fn progress(&mut self, number: u8) -> Progress {
        self.invocation(number).progress
    }

    pub fn ends(&mut self, session: SessionId, number: u8, result: Result<&str, &str>) -> Vec<Effect> {
        let command = Asked::End {
            invocation: inv(number).to_string(),
            result: result.map(Into::into).map_err(Into::into),
        };
        self.asks(session, command)
    }

    pub fn node_ends(&mut self, session: SessionId, number: u8, result: Result<&str, &str>) -> Vec<Effect> {
        let ends = Said::Ends {
            invocation: inv(number).to_string(),
            result: result.map(Into::into).map_err(Into::into),
        };
        self.said(session, ends)
    }
}

pub fn inv(number: u8) -> InvocationId {
    InvocationId(uuid_v4([number; 16]))
}

pub fn show(project: &str, number: u8) -> Asked {
    Asked::Show {
        project: project.to_owned(),
        invocation: inv(number).to_string(),
    }
}

pub fn by_agent(name: &str, agent: &str) -> Description {
    Description {
        project: DEFAULT_PROJECT.to_owned(),
        name: name.to_owned(),
        text: String::new(),
        handler: Named::Agent(agent.to_owned()),
        input_schema: None,
        output_schema: None,
        available_to: None,
    }
}

pub fn by_node(name: &str, node: NodeId) -> Description {
    Description {
        handler: Named::Node(node),
        ..by_agent(name, "")
    }
}

pub fn sum() -> Description {
    by_agent("sum", "dev-a")
}

pub fn offer(name: &str, queues: bool) -> Offer {
    let name = name.to_owned();
    Offer { name, queues }
}

pub fn sent(session: SessionId) -> Progress {
    Progress::Sent { session }
}

pub fn ended(at: i64, result: Result<&str, Failed>) -> Progress {
    Progress::Ended {
        at: START.plus_millis(at),
        result: result.map(Arc::from),
    }
}

pub fn said(error: &str) -> Failed {
    Failed::Said(error.into())
}

/// Where invocations were sent, by the numbers of their ids.
pub fn out(effects: &[Effect]) -> Vec<(SessionId, InvocationId)> {
    let sent = effects.iter().filter_map(|effect| match effect {
        Effect::Invoke { session, invocation } => Some((*session, invocation.id)),
        Effect::Opened { .. }
        | Effect::Reply { .. }
        | Effect::Changed { .. }
        | Effect::Deliver { .. }
        | Effect::Tell { .. }
        | Effect::Superseded { .. }
        | Effect::StartWorker(_)
        | Effect::EndWorker { .. }
        | Effect::Note(_) => None,
    });
    sent.collect()
}

/// Who was told how invocations ended.
pub fn told(effects: &[Effect]) -> Vec<(SessionId, AgentName, Progress)> {
    let told = effects.iter().filter_map(|effect| match effect {
        Effect::Tell { session, told } => match &told.news {
            News::Ended(invocation) => Some((*session, told.agent.clone(), invocation.progress.clone())),
            other @ (News::Read { .. } | News::Reacted { .. } | News::Denied { .. }) => panic!("{other:?}"),
        },
        Effect::Opened { .. }
        | Effect::Reply { .. }
        | Effect::Changed { .. }
        | Effect::Deliver { .. }
        | Effect::Invoke { .. }
        | Effect::Superseded { .. }
        | Effect::StartWorker(_)
        | Effect::EndWorker { .. }
        | Effect::Note(_) => None,
    });
    told.collect()
}

pub fn refused_as(refusal: NoAction) -> Vec<Effect> {
    vec![super::refused(ANY, refusal.into())]
}

#[test]
fn what_a_node_offers_are_its_actions_until_it_offers_others_or_leaves() {
    let mut relay = Relay::with_action();
    let names = |relay: &mut Relay| {
        let project = DEFAULT_PROJECT.to_owned();
        let effects = relay.asks(PERSON, Asked::List { project });
        let [
            Effect::Reply {
                result: Ok(Reply::Actions(answer)),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        let Answer::Listed(all) = &**answer else {
            panic!("{answer:?}")
        };
        let names = all.iter().map(|action| (action.name.clone(), action.is_live));
        names.collect::<Vec<_>>()
    };
    let all = |names: &[(&str, bool)]| {
        names
            .iter()
            .map(|(name, live)| ((*name).to_owned(), *live))
            .collect::<Vec<_>>()
    };
    relay.offers(NODE, vec![offer("build", false), offer("sum", false)]);
    assert_eq!(names(&mut relay), all(&[("build", true), ("sum", true)]));
    assert_eq!(out(&relay.invokes(1, "build")), [(NODE, inv(1))]);
    relay.offers(NODE, vec![offer("test", true)]);
    assert_eq!(names(&mut relay), all(&[("sum", true), ("test", true)]));
    relay.close(NODE, Ending::Broken);
    assert_eq!(names(&mut relay), all(&[("sum", false), ("test", false)]));
    relay.connect(NEXT, None);
    relay.offers(NEXT, vec![offer("test", true)]);
    relay.said(NEXT, Said::Leaves);
    assert_eq!(names(&mut relay), all(&[("sum", false)]));
}

#[test]
fn the_name_of_another_s_action_is_not_to_be_had_but_for_a_node_s_that_is_not_there() {
    let mut relay = Relay::with_action();
    relay.offers(CALLERS_NODE, vec![offer("test", false), offer("sum", false)]);
    let answer = relay.offers(
        NODE,
        vec![offer("test", false), offer("sum", false), offer("a b", false)],
    );
    let [
        Effect::Reply {
            result: Ok(Reply::Nodes(answer)),
            ..
        },
    ] = &answer[..]
    else {
        panic!("{answer:?}")
    };
    let relay::engine::nodes::Reply::Registered { offers, .. } = &**answer else {
        panic!("{answer:?}")
    };
    let taken = |action: &str, by: &str| {
        let (action, by) = (action.to_owned(), by.to_owned());
        Some(NoAction::Taken { action, by })
    };
    let given = "a b".to_owned();
    assert_eq!(
        *offers,
        [
            ("test".to_owned(), taken("test", "pm")),
            ("sum".to_owned(), taken("sum", "dev-a")),
            ("a b".to_owned(), Some(NoAction::InvalidName { given }))
        ]
    );
    // An agent does not take another's either; the person may.
    let refused = relay.registers(CALLER, by_agent("sum", "pm"));
    assert_eq!(refused, refused_as(taken("sum", "dev-a").expect("a refusal")));
    let of_another = relay.registers(CALLER, by_agent("mine", "dev-a"));
    assert_eq!(of_another, refused_as(NoAction::NotYours));
    relay.registers(PERSON, by_agent("sum", "pm"));
    relay.said(CALLERS_NODE, Said::Leaves);
    relay.offers(NODE, vec![offer("test", false)]);
    assert_eq!(out(&relay.invokes(1, "test")), [(NODE, inv(1))]);
}

#[test]
fn of_a_project_in_which_nobody_is_yet_it_is_the_name_that_is_refused_and_not_the_project() {
    let mut relay = Relay::with_action();
    let elsewhere = Description {
        project: "api".to_owned(),
        ..sum()
    };
    let unknown = agents::Refusal::Unknown {
        name: "dev-a".to_owned(),
        known: Known {
            names: Vec::new(),
            count: 0,
        },
    };
    let refused = relay.registers(PERSON, elsewhere);
    assert_eq!(refused, [super::refused(ANY, unknown.into())]);
}

#[test]
fn what_is_wrong_is_named() {
    let mut relay = Relay::with_action();
    let unknown = |known: &[&str]| NoAction::Unknown {
        given: "diff".to_owned(),
        known: known.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(relay.invokes(1, "diff"), refused_as(unknown(&["sum"])));
    let (project, name) = (DEFAULT_PROJECT.to_owned(), "diff".to_owned());
    let get = Asked::Get { project, name };
    assert_eq!(relay.asks(PERSON, get.clone()), refused_as(unknown(&["sum"])));
    assert_eq!(relay.asks(CALLER, get), refused_as(NoAction::NotYours));
    let too_long = |what, bytes, max| refused_as(NoAction::TooLong { what, bytes, max });
    let input = "x".repeat(INVOCATION_BYTES_MAX + 1);
    let bytes = INVOCATION_BYTES_MAX + 1;
    assert_eq!(
        relay.invokes_as(CALLER, 1, "sum", &input),
        too_long("input", bytes, INVOCATION_BYTES_MAX)
    );
    relay.invokes(1, "sum");
    assert_eq!(
        relay.ends(HANDLER, 1, Ok(&input)),
        too_long("output", bytes, INVOCATION_BYTES_MAX)
    );
    assert_eq!(
        relay.ends(HANDLER, 1, Err(&input)),
        too_long("error", bytes, INVOCATION_BYTES_MAX)
    );
    assert_eq!(
        relay.progress(1),
        sent(NODE),
        "it may be said again, in fewer words"
    );
    let schema = Description {
        output_schema: Some("x".repeat(SCHEMA_BYTES_MAX + 1).into()),
        ..sum()
    };
    assert_eq!(
        relay.registers(PERSON, schema),
        too_long("output_schema", SCHEMA_BYTES_MAX + 1, SCHEMA_BYTES_MAX)
    );
    let text = Description {
        text: "x".repeat(21),
        ..sum()
    };
    assert_eq!(relay.registers(PERSON, text), too_long("description", 21, 20));
    let crowd = Description {
        available_to: Some(["pm", "dev-a", "dev-b", "pm"].map(str::to_owned).to_vec()),
        ..sum()
    };
    let (names, max) = (4, 3);
    assert_eq!(
        relay.registers(PERSON, crowd),
        refused_as(NoAction::TooManyNames { names, max })
    );
    let long = "x".repeat(ACTION_NAME_BYTES_MAX);
    assert!(matches!(
        relay.registers(PERSON, by_agent(&long, "dev-a"))[..],
        [Effect::Reply { result: Ok(_), .. }]
    ));
    for name in ["", "a b", "a\u{202e}b", "a\n", &format!("{long}x")] {
        let given = relay::engine::shown(name);
        assert_eq!(
            relay.registers(PERSON, by_agent(name, "dev-a")),
            refused_as(NoAction::InvalidName { given })
        );
    }
    relay.registers(PERSON, by_agent("third", "dev-a"));
    let full = refused_as(NoAction::TooMany { actions: 3 });
    assert_eq!(relay.registers(PERSON, by_agent("fourth", "dev-a")), full);
    let (project, name) = (DEFAULT_PROJECT.to_owned(), "third".to_owned());
    let remove = Asked::Remove { project, name };
    assert_eq!(relay.asks(CALLER, remove.clone()), refused_as(NoAction::NotYours));
    assert_eq!(
        relay.asks(PERSON, remove),
        [reply(ANY, Ok(Answer::Removed.into()))]
    );
    let unregistered = no_node(NoNode::NotRegistered);
    relay.said(NODE, Said::Leaves);
    assert_eq!(relay.node_ends(NODE, 1, Ok("1")), unregistered);
}

#[test]
fn an_agent_that_offers_an_action_stays_and_registers_it_again_as_the_same() {
    let mut relay = Relay::with_action();
    relay.close(C, Ending::Orderly);
    let passing = agents::Registration {
        name: "passing".to_owned(),
        transient: true,
        ..agents::Registration::default()
    };
    relay.register(C, passing);
    let registers = |relay: &mut Relay| {
        let effects = relay.registers(C, by_agent("mine", "passing"));
        let [
            Effect::Reply {
                result: Ok(Reply::Actions(answer)),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        let Answer::Registered { action, is_new } = &**answer else {
            panic!("{answer:?}")
        };
        (action.created_at, *is_new)
    };
    assert_eq!(registers(&mut relay), (START, true));
    relay.now = START.plus_millis(1);
    assert_eq!(registers(&mut relay), (START, false));
    relay.close(C, Ending::Orderly);
    relay.timeout_at(1 + relay::engine::limits::TRANSIENT_MS);
    relay.events();
    relay.invokes(1, "mine");
    assert_eq!(relay.progress(1), Progress::Waits);
    assert!(
        !relay
            .events()
            .iter()
            .any(|event| matches!(event, Event::Gone { .. }))
    );
}

#[test]
fn what_the_person_has_registered_for_a_node_stays_whatever_that_offers() {
    let mut relay = Relay::with_action();
    relay.registers(PERSON, by_node("deploy", FIRST));
    assert_eq!(out(&relay.invokes(1, "deploy")), [(NODE, inv(1))]);
    // It comes back without it, and leaves.
    relay.close(NODE, Ending::Broken);
    relay.connect(NEXT, None);
    relay.offers(NEXT, vec![offer("test", false)]);
    assert_eq!(out(&relay.invokes(2, "deploy")), [(NEXT, inv(2))]);
    // What it names beside that does not make it the node's own.
    relay.offers(NEXT, vec![offer("deploy", true)]);
    relay.said(NEXT, Said::Leaves);
    relay.invokes(3, "deploy");
    assert_eq!(relay.progress(3), Progress::Waits);
    // Nobody else is to have the name meanwhile.
    let (action, by) = ("deploy".to_owned(), "fleet".to_owned());
    let taken = relay.registers(CALLER, by_agent("deploy", "pm"));
    assert_eq!(taken, refused_as(NoAction::Taken { action, by }));
}

#[test]
fn what_the_person_says_of_what_a_node_offers_stays_whatever_the_node_says() {
    let mut relay = Relay::with_action();
    relay.offers(NODE, vec![offer("build", false)]);
    let for_another = Description {
        available_to: Some(vec!["dev-b".to_owned()]),
        ..by_node("build", FIRST)
    };
    relay.registers(PERSON, for_another);
    relay.offers(NODE, Vec::new());
    relay.offers(NODE, vec![offer("build", false)]);
    let action = "build".to_owned();
    let denied = refused_as(NoAction::Denied { action });
    assert_eq!(relay.invokes(1, "build").last(), denied.last());
}

#[test]
fn whether_an_action_waits_for_its_node_is_for_the_node_to_say() {
    let mut relay = Relay::with_action();
    relay.offers(NODE, vec![offer("hasty", false), offer("patient", true)]);
    for name in ["hasty", "patient"] {
        let description = Description {
            text: "as ever".to_owned(),
            ..by_node(name, FIRST)
        };
        relay.registers(PERSON, description);
    }
    relay.close(NODE, Ending::Broken);
    relay.timeout_at(relay::engine::limits::NODE_GONE_MS);
    let (action, node) = ("hasty".to_owned(), "fleet".to_owned());
    assert_eq!(
        relay.invokes(1, "hasty"),
        refused_as(NoAction::Away { action, node })
    );
    relay.invokes(2, "patient");
    assert_eq!(relay.progress(2), Progress::Waits);
}

#[test]
fn a_node_that_relay_pushes_to_does_nothing_itself() {
    let mut relay = Relay::with_action();
    let hook = relay.pushes_to("hook");
    let node = "hook".to_owned();
    assert_eq!(
        relay.registers(PERSON, by_node("build", hook)),
        refused_as(NoAction::NeverAnswers { node })
    );
    assert_eq!(
        relay.registers(PERSON, by_node("build", NodeId(9))),
        no_node(NoNode::Unknown)
    );
}

#[test]
fn what_a_lost_node_did_another_may_offer() {
    let mut relay = Relay::with_action();
    relay.offers(CALLERS_NODE, vec![offer("test", false)]);
    relay.close(CALLERS_NODE, Ending::Broken);
    relay.timeout_at(relay::engine::limits::NODE_GONE_MS);
    relay.offers(NODE, vec![offer("test", false)]);
    assert_eq!(out(&relay.invokes(1, "test")), [(NODE, inv(1))]);
}

#[test]
fn what_an_action_says_of_itself_may_take_all_the_room_that_there_is() {
    let mut relay = Relay::with_action();
    let longest = || Some("x".repeat(SCHEMA_BYTES_MAX).into());
    let description = Description {
        text: "x".repeat(ROOMY.description_bytes_max),
        input_schema: longest(),
        output_schema: longest(),
        available_to: Some(["pm", "dev-a", "dev-b"].map(str::to_owned).to_vec()),
        ..sum()
    };
    assert!(matches!(
        relay.registers(PERSON, description)[..],
        [Effect::Reply { result: Ok(_), .. }]
    ));
}
