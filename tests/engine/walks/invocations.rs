//! Random walks over actions and what is asked of them, beside a ledger of what docs/DELIVERY.md says must become of each invocation.

use std::collections::BTreeMap;

use fastrand::Rng;
use relay::engine::actions::{self, Description, HandlerView, Named, Offer};
use relay::engine::invocations::{Failed, InvocationView, Progress};
use relay::engine::limits::{Bounds, INVOCATION_MS, NODE_GONE_MS};
use relay::engine::nodes::{self, Said};
use relay::engine::{
    CallId, Carrier, Command, Effect, Ending, Engine, Event, Input, InvocationId, News, NodeId, Refusal,
    Reply, Roster, SessionId, Timestamp, Who,
};

use super::{AGENTS, Marks, NODES, OWN, PERSON, START, STEPS};

/// The agent that asks, and its session.
const CALLER: &str = "pm";
const ASKS: SessionId = SessionId(4);
/// The node that is the caller's alone.
const CALLERS_NODE: NodeId = NodeId(2);

/// What an agent does, and what a node does: one that does not wait for it, one that does.
const ACTIONS: [&str; 4] = ["of-dev-a", "of-dev-b", "hasty", "patient"];

/// What must have happened in some walk.
const MARKS: [&str; 9] = [
    "sent",
    "sent again",
    "waited for its handler",
    "done by an agent",
    "done by a node",
    "said twice",
    "timed out",
    "its node was gone",
    "asked while the node was away",
];

/// An invocation that has not ended.
struct Open {
    action: &'static str,
    until: Timestamp,
    /// Over which connection it was sent last.
    sent: Option<SessionId>,
}

struct Walk<'a> {
    engine: Engine,
    now: Timestamp,
    rng: Rng,
    calls: u64,
    sessions: u64,
    /// The connections of the nodes that are there, and until when those hold on that are not any more.
    live: BTreeMap<NodeId, SessionId>,
    gone: BTreeMap<NodeId, Timestamp>,
    /// Which node has each agent.
    bound: BTreeMap<&'static str, NodeId>,
    open: BTreeMap<InvocationId, Open>,
    ended: BTreeMap<InvocationId, Progress>,
    marks: &'a mut Marks,
}

pub fn walk(seed: u64, marks: &mut Marks) {
    let engine = Engine::new(START, Roster::default(), Bounds::default(), [7; 16]);
    let mut walk = Walk {
        engine,
        now: START,
        rng: Rng::with_seed(seed),
        calls: 0,
        sessions: 10,
        live: BTreeMap::new(),
        gone: BTreeMap::new(),
        bound: BTreeMap::new(),
        open: BTreeMap::new(),
        ended: BTreeMap::new(),
        marks,
    };
    walk.begin();
    for _ in 0..STEPS {
        walk.step();
        walk.check();
    }
}

pub fn check(marks: &Marks) {
    for mark in MARKS {
        assert!(marks.contains_key(mark), "never: {mark}");
    }
}

impl Walk<'_> {
    fn begin(&mut self) {
        let opened = [(PERSON, Who::Person), (ASKS, Who::Agent(Some(CALLER.to_owned())))];
        let own = OWN
            .into_iter()
            .zip(AGENTS.map(|agent| Who::Agent(Some(agent.to_owned()))));
        for (session, who) in opened.into_iter().chain(own) {
            let carrier = Carrier::Exchange;
            self.handle(Input::Opened {
                session,
                carrier,
                who,
            });
        }
        for name in ["left", "right", "callers"] {
            let create = nodes::Command::Create {
                project: "default".to_owned(),
                name: name.to_owned(),
                label: None,
                agents_max: None,
                pushes: false,
            };
            self.call(PERSON, create.into()).expect("it may");
        }
        for (agent, node) in AGENTS
            .into_iter()
            .chain([CALLER])
            .zip([NODES[0], NODES[1], CALLERS_NODE])
        {
            self.bind(agent, node);
        }
        for agent in AGENTS {
            let description = Description {
                project: "default".to_owned(),
                name: format!("of-{agent}"),
                text: String::new(),
                handler: Named::Agent(agent.to_owned()),
                input_schema: None,
                output_schema: None,
                available_to: None,
            };
            self.call(PERSON, actions::Command::Register(Box::new(description)).into())
                .expect("it may");
        }
        self.connect(CALLERS_NODE);
        self.connect(NODES[0]);
    }

    fn step(&mut self) {
        let node = NODES[self.rng.usize(..2)];
        match self.rng.usize(..100) {
            0..8 => self.connect(node),
            8..14 => {
                if let Some(session) = self.live.remove(&node) {
                    self.gone.insert(node, self.now.plus_millis(NODE_GONE_MS));
                    let ending = Ending::Broken;
                    self.handle(Input::Closed { session, ending });
                }
            }
            14..19 => {
                let agent = AGENTS[self.rng.usize(..2)];
                self.bind(agent, node);
            }
            19..49 => self.invoke(),
            49..85 => self.say(),
            85..96 => {
                let ms = self.rng.i64(1..20_000);
                self.pass(ms);
            }
            96..99 => self.pass(NODE_GONE_MS),
            _ => self.pass(INVOCATION_MS),
        }
    }

    fn bind(&mut self, agent: &'static str, node: NodeId) {
        self.bound.insert(agent, node);
        let agent = agent.to_owned();
        self.call(PERSON, nodes::Command::Bind { node, agent }.into())
            .expect("it may");
    }

    fn connect(&mut self, node: NodeId) {
        self.sessions += 1;
        let session = SessionId(self.sessions);
        let (carrier, who) = (Carrier::Node, Who::Node(node));
        self.handle(Input::Opened {
            session,
            carrier,
            who,
        });
        let before = self.live.insert(node, session);
        self.gone.remove(&node);
        let offers = match node {
            NodeId(0) => vec![("hasty", false), ("patient", true)],
            _ => Vec::new(),
        };
        let offers = offers.into_iter().map(|(name, queues)| {
            let name = name.to_owned();
            Offer { name, queues }
        });
        let registers = Said::Registers {
            instance: None,
            names_first: false,
            offers: offers.collect(),
        };
        self.call(session, registers.into()).expect("it may");
        if let Some(session) = before {
            let ending = Ending::Orderly;
            self.handle(Input::Closed { session, ending });
        }
    }

    fn invoke(&mut self) {
        let action = ACTIONS[self.rng.usize(..ACTIONS.len())];
        let invoke = actions::Command::Invoke {
            action: action.to_owned(),
            input: "{}".into(),
        };
        let is_away = !self.live.contains_key(&NODES[0]) && !self.gone.contains_key(&NODES[0]);
        let answer = self.call(ASKS, invoke.into());
        if action == "hasty" && is_away {
            self.hit("asked while the node was away");
            let refused = matches!(answer, Err(Refusal::Actions(actions::Refusal::Away { .. })));
            assert!(refused, "{answer:?}");
            return;
        }
        let view = invocation(answer);
        let until = self.now.plus_millis(INVOCATION_MS);
        let sent = self.open.remove(&view.id).and_then(|open| open.sent);
        if sent.is_none() {
            self.hit("waited for its handler");
        }
        self.open.insert(view.id, Open { action, until, sent });
    }

    /// Somebody says what came of an invocation, whether it is for them to say or not.
    fn say(&mut self) {
        let known = self.open.keys().chain(self.ended.keys().rev().take(4));
        let known: Vec<InvocationId> = known.copied().collect();
        let Some(id) = self.rng.choice(known) else {
            return;
        };
        let has_ended = self.ended.contains_key(&id);
        let handler = self.open.get(&id).map(|open| open.action);
        let invocation = id.to_string();
        let result = if self.rng.bool() {
            Ok("1".into())
        } else {
            Err("no".into())
        };
        let expected = Progress::Ended {
            at: self.now,
            result: match &result {
                Ok(_) => Ok("1".into()),
                Err(_) => Err(Failed::Said("no".into())),
            },
        };
        let by_agent = self.rng.bool();
        let at = self.rng.usize(..2);
        let (answer, may) = if by_agent {
            let may = handler.is_some_and(|action| action == format!("of-{}", AGENTS[at]));
            (
                self.call(OWN[at], actions::Command::End { invocation, result }.into()),
                may,
            )
        } else {
            let Some(session) = self.live.get(&NODES[at]).copied() else {
                return;
            };
            let may = handler.is_some_and(|action| self.node_of(action) == NODES[at]);
            (self.call(session, Said::Ends { invocation, result }.into()), may)
        };
        if has_ended {
            // Whether the one who says it may, or not, it changes nothing: that is checked with all others.
            if answer.is_ok() {
                self.hit("said twice");
            }
            return;
        }
        assert_eq!(answer.is_ok(), may, "{answer:?}");
        if may {
            self.hit(if by_agent {
                "done by an agent"
            } else {
                "done by a node"
            });
            assert_eq!(self.ended.get(&id), Some(&expected));
        }
    }

    fn pass(&mut self, ms: i64) {
        let to = self.now.plus_millis(ms);
        while let Some((at, _)) = self.engine.poll_timeout().filter(|(at, _)| *at <= to) {
            self.now = at;
            let mut effects = Vec::new();
            self.engine.handle_timeout(at, &mut effects);
            let over: Vec<NodeId> = self
                .gone
                .iter()
                .filter(|(_, until)| **until <= at)
                .map(|(node, _)| *node)
                .collect();
            self.gone.retain(|_, until| *until > at);
            if over.contains(&NODES[0]) {
                let hasty = self.open.iter().filter(|(_, open)| open.action == "hasty");
                let hasty: Vec<InvocationId> = hasty.map(|(id, _)| *id).collect();
                self.take(effects);
                for id in hasty {
                    let progress = &self.ended[&id];
                    let is_gone = matches!(
                        progress,
                        Progress::Ended {
                            result: Err(Failed::NodeGone | Failed::TimedOut),
                            ..
                        }
                    );
                    assert!(is_gone, "{progress:?}");
                    self.hit("its node was gone");
                }
            } else {
                self.take(effects);
            }
        }
        self.now = to;
    }

    fn node_of(&self, action: &str) -> NodeId {
        let agent = action.strip_prefix("of-");
        agent.map_or(NODES[0], |agent| self.bound[agent])
    }

    fn call(&mut self, session: SessionId, command: Command) -> Result<Reply, Refusal> {
        self.calls += 1;
        let call = CallId(self.calls);
        let mut random = [0; 16];
        random[..8].copy_from_slice(&self.calls.to_le_bytes());
        let effects = self.handle(Input::Call {
            session,
            call,
            random,
            command,
        });
        let reply = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply { result, .. } => Some(result),
            Effect::Opened { .. }
            | Effect::Changed { .. }
            | Effect::Deliver { .. }
            | Effect::Invoke { .. }
            | Effect::Tell { .. }
            | Effect::Superseded { .. }
            | Effect::StartWorker(_)
            | Effect::EndWorker { .. }
            | Effect::Note(_) => None,
        });
        reply.expect("a call is answered")
    }

    fn handle(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.engine.handle(self.now, input, &mut effects);
        self.take(effects.clone());
        effects
    }

    /// Takes what the engine wants into the ledger.
    fn take(&mut self, effects: Vec<Effect>) {
        let mut told = BTreeMap::new();
        let mut over = BTreeMap::new();
        for effect in effects {
            match effect {
                Effect::Invoke { session, invocation } => self.sent(session, &invocation),
                Effect::Tell { session, told: news } => {
                    let News::Ended(invocation) = news.news else {
                        panic!("{news:?}")
                    };
                    assert_eq!(self.live.get(&CALLERS_NODE), Some(&session), "to its caller");
                    assert!(
                        told.insert(invocation.id, invocation.progress).is_none(),
                        "told once"
                    );
                }
                Effect::Note(Event::InvocationEnded { invocation }) => {
                    self.over(&invocation);
                    over.insert(invocation.id, invocation.progress);
                }
                Effect::Opened { .. }
                | Effect::Reply { .. }
                | Effect::Changed { .. }
                | Effect::Deliver { .. }
                | Effect::Superseded { .. }
                | Effect::StartWorker(_)
                | Effect::EndWorker { .. }
                | Effect::Note(_) => {}
            }
        }
        assert_eq!(told, over, "the caller is told of each end");
    }

    fn sent(&mut self, session: SessionId, invocation: &InvocationView) {
        let node = self.node_of(&invocation.action);
        assert_eq!(
            self.live.get(&node),
            Some(&session),
            "it goes to whoever has its handler now"
        );
        assert!(
            !self.ended.contains_key(&invocation.id),
            "what has ended is not sent"
        );
        let open = self.open.entry(invocation.id).or_insert_with(|| Open {
            action: "",
            until: self.now,
            sent: None,
        });
        let before = open.sent.replace(session);
        assert_ne!(before, Some(session), "it is on its way over that one");
        self.hit(if before.is_some() { "sent again" } else { "sent" });
    }

    fn over(&mut self, invocation: &InvocationView) {
        let open = self.open.remove(&invocation.id).expect("it ends once");
        let before = self.ended.insert(invocation.id, invocation.progress.clone());
        assert_eq!(before, None);
        let Progress::Ended { at, result } = &invocation.progress else {
            panic!("{invocation:?}")
        };
        assert_eq!(*at, self.now);
        let timed_out = *result == Err(Failed::TimedOut);
        assert_eq!(
            timed_out,
            *at >= open.until && !matches!(result, Err(Failed::NodeGone)),
            "{result:?}"
        );
        if timed_out {
            self.hit("timed out");
        }
        if let HandlerView::Agent(agent) = &invocation.handler {
            assert_eq!(open.action, format!("of-{agent}"));
        }
    }

    /// Whatever is open has been sent to its handler if that is there, and the engine says of each what the ledger does.
    fn check(&mut self) {
        for (id, open) in &self.open {
            if let Some(session) = self.live.get(&self.node_of(open.action)) {
                assert_eq!(open.sent, Some(*session), "{id} has not been sent");
            }
        }
        let latest: Vec<_> = self
            .ended
            .iter()
            .rev()
            .take(3)
            .map(|(id, progress)| (*id, progress.clone()))
            .collect();
        for (id, progress) in latest {
            let show = actions::Command::Show {
                project: "default".to_owned(),
                invocation: id.to_string(),
            };
            let shown = invocation(self.call(ASKS, show.into()));
            assert_eq!(shown.progress, progress);
        }
    }

    fn hit(&mut self, mark: &'static str) {
        *self.marks.entry(mark).or_default() += 1;
    }
}

#[track_caller]
fn invocation(answer: Result<Reply, Refusal>) -> InvocationView {
    let answer = answer.map(|reply| {
        if let Reply::AfterStart { reply, .. } = reply {
            *reply
        } else {
            reply
        }
    });
    let Ok(Reply::Actions(reply)) = answer else {
        panic!("{answer:?}")
    };
    let actions::Reply::Invocation(view) = *reply else {
        panic!("{reply:?}")
    };
    view
}
