//! What must hold between any two inputs. Checked after each of them in debug builds, so in every test.

use std::collections::{BTreeMap, BTreeSet};

use super::inbox::{Inbox, body_bytes};
use super::invocations::{Invocation, Progress};
use super::limits::RECENT_MAX;
use super::nodes::Presence;
use super::signs::Passage;
use super::timers::Timer;
use super::{AgentName, CallId, Carrier, Delivery, Engine, HandoverId, ResolvedBy, Role, Seq};

impl Engine {
    /// Panics with the broken law, in debug builds; does nothing in release builds.
    pub(super) fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        for (agent, inbox) in &self.inboxes {
            self.check_inbox(agent, inbox);
        }
        self.check_agents();
        self.check_sessions();
        self.check_programs();
        self.check_watches();
        self.check_nodes();
        self.check_actions();
        self.check_holds();
        self.check_workers();
        self.check_timers();
        self.trace.check(&self.bounds);
    }

    fn check_agents(&self) {
        assert!(
            self.inboxes
                .keys()
                .filter(|agent| !agent.is_person())
                .eq(self.agents.keys()),
            "each agent has an inbox, and nobody else but the person has"
        );
        assert!(
            self.agents.len() <= self.bounds.agents_max.max(self.roster.names().len()),
            "there are no more agents than the bound"
        );
        let sessions = self.sessions.iter().filter(|(_, session)| !session.fenced);
        let bound = sessions.filter_map(|(id, session)| Some((session.agent.as_ref()?, *id)));
        let of_agents = self.agents.iter();
        let of_agents = of_agents.flat_map(|(name, agent)| agent.sessions.iter().map(move |id| (name, *id)));
        assert!(
            bound.collect::<BTreeSet<_>>() == of_agents.collect(),
            "an agent knows the sessions that are bound to it and not fenced"
        );
        for (session, state) in self.sessions.iter().filter(|(_, state)| state.fenced) {
            assert!(
                state.waits.is_empty() && state.handovers.is_empty(),
                "nothing is on its way to a fenced session: {session:?}"
            );
        }
        for (name, agent) in &self.agents {
            let role = agent.profile.role.as_deref();
            let role = role.and_then(|role| Role::in_project(name.project(), role).ok());
            let roles = self.roles.iter().filter(|(_, agents)| agents.contains(name));
            assert!(
                roles.map(|(role, _)| role).eq(role.as_ref()),
                "an agent stands under its role alone"
            );
        }
        assert!(
            self.roles.values().all(|agents| !agents.is_empty()),
            "a role is somebody's"
        );
        let leaving = self
            .agents
            .iter()
            .filter_map(|(name, agent)| Some((agent.leaves_at?, name.clone())));
        assert!(
            self.leaving == leaving.collect(),
            "whoever is to go stands in the order of going"
        );
        let given = self.agents.iter();
        let given = given.filter_map(|(name, agent)| Some((agent.client.clone()?, name.clone())));
        assert!(
            given.collect::<BTreeMap<_, _>>() == self.of_clients,
            "a client knows its agent, and the agent its client"
        );
        assert!(
            self.agents
                .values()
                .all(|agent| !agent.rests || (agent.leaves_at.is_some() && agent.client.is_some())),
            "who rests is a client's, and to go"
        );
        assert!(
            self.idempotency.is_bounded(self.bounds.idempotency_max),
            "idempotency keys are forgotten at their bound, oldest first"
        );
        assert!(
            self.groups.know_only(|agent| self.agents.contains_key(agent)),
            "groups and channels have agents that are there"
        );
    }

    fn check_inbox(&self, agent: &AgentName, inbox: &Inbox) {
        let handed = || self.handovers.values().filter(|h| h.agent == *agent);
        assert_eq!(
            inbox.waiting_bytes(),
            body_bytes(inbox.waiting()),
            "an inbox knows the bytes that wait in it"
        );
        assert!(
            inbox.knows_what_is_held(),
            "an inbox knows what of it is held, and before which place all is"
        );
        let standing = self.handovers.iter().filter(|(_, h)| h.agent == *agent);
        assert!(
            inbox.standing.iter().eq(standing.map(|(id, _)| id)),
            "an inbox knows the hand-overs of it that stand"
        );
        let deliveries = || {
            handed()
                .flat_map(|h| h.deliveries.iter())
                .chain(inbox.whole_in_parts())
        };
        assert_eq!(
            inbox.handed_over(),
            (deliveries().count(), body_bytes(deliveries())),
            "an inbox knows the messages and bytes that it handed over"
        );
        assert!(
            inbox.messages() <= self.bounds.inbox_messages_max,
            "an inbox holds no more messages than its bound"
        );
        assert!(
            inbox.bytes() <= self.bounds.inbox_bytes_max,
            "an inbox holds no more bytes than its bound"
        );
        assert!(
            inbox.recent_is_bounded(),
            "what was read is forgotten at its bound"
        );
        assert!(
            inbox.brought() <= self.bounds.inbox_messages_max + RECENT_MAX,
            "what has come again is kept in mind as long as anything of it is"
        );
        let is_node_s = |id: &HandoverId| self.handovers.get(id).is_some_and(|h| h.carrier == Carrier::Node);
        let read = inbox.read.iter().filter(|(_, id)| !is_node_s(id));
        assert!(
            read.count() <= self.bounds.read_max,
            "no more replies of an inbox can be cancelled than the bound"
        );
        let places: BTreeSet<Seq> = inbox.waiting().chain(deliveries()).map(|d| d.seq).collect();
        assert!(
            inbox.listed.is_subset(&places),
            "a receipt is missing for what is there"
        );
        assert!(
            inbox.waits.iter().all(|call| !self.has_news_for(*call)),
            "nobody waits for what is there"
        );
        let all = inbox.waiting().chain(inbox.aside()).chain(deliveries());
        let mut places: Vec<Seq> = Vec::with_capacity(inbox.messages());
        for delivery in all {
            assert!(delivery.seq < inbox.next_seq(), "a place is given once");
            let to = &delivery.message.to;
            assert!(
                to.by() != ResolvedBy::Name
                    || to.as_str() == agent.as_str()
                    || self.was_handed_on(delivery.message.id, to.as_str()),
                "a message to one agent is in its inbox, or was a worker's and is handed on"
            );
            places.push(delivery.seq);
        }
        places.sort_unstable();
        assert!(
            places.is_sorted_by(|one, next| one < next),
            "a message is in one place at a time"
        );
        self.check_parts(inbox);
        let noticed = handed().filter(|h| h.notice).count();
        assert!(
            noticed + usize::from(inbox.notice_due) <= 1,
            "the start is told in one reply at a time"
        );
    }

    fn check_sessions(&self) {
        assert!(
            self.sessions.len() <= self.bounds.sessions_max,
            "no more sessions are open than the bound"
        );
        assert!(
            self.waits.len() <= self.bounds.waits_max,
            "no more reads are parked than the bound"
        );
        let of_sessions: BTreeSet<HandoverId> = self
            .sessions
            .values()
            .flat_map(|s| s.handovers.iter().copied())
            .collect();
        let unread = self.handovers.iter();
        let unread = unread.filter(|(_, handover)| handover.passage.is_on_its_way());
        assert!(
            of_sessions.iter().eq(unread.map(|(id, _)| id)),
            "a hand-over belongs to an open session until it was read"
        );
        let waits: BTreeSet<CallId> = self
            .sessions
            .values()
            .flat_map(|s| s.waits.iter().copied())
            .collect();
        assert!(
            waits.iter().eq(self.waits.keys()),
            "a wait lasts as long as its session is open"
        );
        for (agent, inbox) in &self.inboxes {
            let of_inbox = self.handovers.iter().filter(|(_, h)| h.agent == *agent);
            let read = of_inbox.filter_map(|(id, h)| h.passage.settles_at().map(|at| (at, *id)));
            let read: BTreeSet<_> = read.collect();
            assert!(
                inbox.read.iter().eq(&read),
                "an inbox knows which of its hand-overs were read"
            );
            let of_inbox = self.handovers.iter().filter(|(_, h)| h.agent == *agent);
            let awaited = of_inbox.filter(|(_, h)| h.passage == Passage::Awaited);
            assert!(
                inbox.awaited.iter().eq(awaited.map(|(id, _)| id)),
                "an inbox knows for which of its hand-overs a receipt is missing"
            );
            let of_inbox = self.handovers.iter().filter(|(_, h)| h.agent == *agent);
            let dead = of_inbox.filter(|(_, h)| h.passage == Passage::GivenUp);
            assert!(
                inbox.dead.keys().eq(dead.map(|(id, _)| id)),
                "an inbox knows which of its hand-overs were given up"
            );
        }
        let in_line = self.inboxes.iter();
        let in_line = in_line.flat_map(|(agent, inbox)| inbox.waits.iter().map(move |call| (*call, agent)));
        let parked = self.waits.iter().map(|(call, wait)| (*call, &wait.agent));
        assert!(
            in_line.collect::<BTreeSet<_>>() == parked.collect(),
            "a wait stands in the line of its inbox"
        );
        let next = HandoverId(self.handovers_made);
        assert!(
            self.handovers.keys().next_back().is_none_or(|last| *last < next),
            "a hand-over's number is used once"
        );
    }

    fn check_watches(&self) {
        for (session, what) in self.watches.all() {
            let state = self.sessions.get(&session);
            assert!(
                state.is_some_and(|state| !state.fenced),
                "whoever watches is open and not fenced: {session:?}"
            );
            assert!(
                self.watches(session, what),
                "a session watches its own agent's inbox, and its own project"
            );
        }
        assert!(
            self.watches.are_somebodys(),
            "what nobody watches is not kept in mind"
        );
    }

    fn check_nodes(&self) {
        assert!(
            self.nodes.iter().count() <= self.bounds.nodes_max,
            "there are no more nodes than the bound"
        );
        for (id, node) in self.nodes.iter() {
            if let Presence::Live(session) = node.presence {
                let state = self.sessions.get(&session);
                assert!(
                    state.is_some_and(|state| state.node == Some(id)),
                    "a live node has an open session"
                );
            }
            let bound = self.inboxes.iter().filter(|(_, inbox)| {
                let binding = inbox.binding.as_ref();
                binding.is_some_and(|binding| binding.node == id)
            });
            assert!(
                node.agents.iter().eq(bound.map(|(agent, _)| agent)),
                "a node knows the agents that are bound to it"
            );
        }
        for (agent, inbox) in &self.inboxes {
            let of_inbox = self.handovers.iter().filter(|(_, h)| h.agent == *agent);
            let to_node = of_inbox.filter(|(_, h)| h.carrier == Carrier::Node && h.passage.is_on_its_way());
            let on_the_way = to_node.map(|(id, h)| (h.deliveries[0].seq, Some(*id)));
            let on_the_way: BTreeSet<_> = on_the_way.collect();
            let Some(binding) = &inbox.binding else {
                assert!(
                    on_the_way.is_empty(),
                    "only a bound agent's deliveries go to a node"
                );
                continue;
            };
            let frames = binding.frames.values().map(|sent| (sent.seq, sent.handover));
            let (sent, to_send): (BTreeSet<_>, BTreeSet<_>) =
                frames.partition(|(_, handover)| handover.is_some());
            assert!(
                sent == on_the_way,
                "a frame on its way is a hand-over, and the other way round"
            );
            let waits = |seq: &Seq| inbox.waiting().any(|delivery| delivery.seq == *seq);
            assert!(
                to_send.iter().all(|(seq, _)| waits(seq)),
                "what is to be sent again waits"
            );
            assert!(
                self.takes_frames(agent).is_none() || Self::is_paused(binding) || to_send.is_empty(),
                "whoever takes frames was sent all that has a number"
            );
            assert!(
                binding.frames.is_empty() || self.is_held(agent),
                "a node that holds nothing is to acknowledge nothing"
            );
            assert!(
                binding.frames.len() <= self.nodes.get(binding.node).window()
                    && binding.frames.keys().all(|number| *number <= inbox.frames_made),
                "no more frames are unacknowledged than the bound, with numbers that were given out"
            );
        }
    }

    fn check_actions(&self) {
        let (actions, bounds) = (&self.actions, &self.bounds);
        assert!(
            actions.all.len() <= bounds.actions_max && actions.invocations.len() <= bounds.invocations_max,
            "there are no more actions and invocations than the bounds"
        );
        let bytes = actions.invocations.values().map(Invocation::bytes);
        assert!(
            actions.bytes == bytes.sum::<usize>(),
            "the bytes of invocations are counted"
        );
        let ended: BTreeSet<_> = actions.ended.iter().copied().collect();
        let all = actions.invocations.iter();
        let have_ended = all.clone().filter(|(_, invocation)| invocation.has_ended());
        assert!(
            ended.len() == actions.ended.len() && have_ended.map(|(id, _)| *id).eq(ended),
            "those that have ended are listed once"
        );
        let mut open = all.filter(|(_, invocation)| !invocation.has_ended());
        assert!(
            open.all(|(_, invocation)| match self.connection_of(&invocation.handler) {
                Some(session) => invocation.progress == Progress::Sent { session },
                None => true,
            }),
            "a handler that is there was sent what it is to do"
        );
    }

    fn check_timers(&self) {
        let waits = self
            .waits
            .iter()
            .map(|(call, wait)| (wait.expires_at, Timer::WaitExpires(*call)));
        let handovers = self.handovers.iter();
        let doubts = handovers
            .clone()
            .filter_map(|(id, h)| Some((h.passage.doubt_ends()?, Timer::DoubtEnds(*id))));
        let nodes = self.nodes.iter().filter_map(|(id, node)| match node.presence {
            Presence::Gone(until) => Some((until, Timer::NodeLapses(id))),
            Presence::Live(_) | Presence::Absent => None,
        });
        let held_back = handovers
            .clone()
            .filter_map(|(id, h)| Some((h.passage.held_back_until()?, Timer::DeferralEnds(*id))));
        let invocations = self.actions.invocations.iter();
        let open = invocations.filter(|(_, invocation)| !invocation.has_ended());
        let open = open.map(|(id, invocation)| (invocation.until(), Timer::InvocationEnds(*id)));
        let pauses = self.inboxes.iter().filter_map(|(agent, inbox)| {
            let failing = inbox.binding.as_ref()?.pushing.failing.as_ref()?;
            Some((failing.again_at?, Timer::PushResumes(agent.clone())))
        });
        let of_programs = self.sessions.iter().filter_map(|(session, state)| {
            let program = state.program.as_ref()?;
            Some((program.gone_at, Timer::ProgramGone(*session)))
        });
        let of_workers = self.worker_timers();
        let others = nodes
            .chain(open)
            .chain(pauses)
            .chain(of_programs)
            .chain(of_workers);
        let exact: BTreeSet<_> = waits.chain(doubts).chain(held_back).chain(others).collect();
        let settling: BTreeSet<_> = handovers
            .filter_map(|(id, h)| Some((h.passage.settles_at()?, *id)))
            .collect();
        let waiting = self.inboxes.iter().flat_map(|(agent, inbox)| {
            let kept = move |delivery: &&Delivery| !self.is_kept_for_node(agent, delivery.seq);
            inbox
                .waiting()
                .filter(kept)
                .chain(inbox.aside())
                .map(move |delivery| (agent, delivery))
        });
        let expiring: BTreeSet<_> = waiting
            .filter_map(|(agent, delivery)| {
                let deadline = delivery.message.handling().deadline?;
                Some((deadline, agent.clone(), delivery.seq))
            })
            .collect();
        assert!(
            self.timers.are(&exact, &settling, &expiring),
            "whatever ends by itself has its timer, and nothing else has"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::super::agents::Agent;
    use super::super::inbox::{Became, Filter, Readable};
    use super::super::limits::Bounds;
    use super::super::{
        Carrier, ChannelName, ClientId, Input, Kind, Roster, SessionId, Sign, Timestamp, Who, mail,
    };
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(0);
    const READER: SessionId = SessionId(1);
    const WAITING: CallId = CallId(12);

    type Breaking = fn(&mut Engine);

    /// A relay with two messages in one reply that was passed, a third one that waits, and a parked read.
    fn engine() -> Engine {
        let mut engine = Engine::new(NOW, Roster::default(), Bounds::default(), [0; 16]);
        let mut handle = |input| engine.handle(NOW, input, &mut Vec::new());
        let (carrier, who) = (Carrier::Stream, Who::Agent(None));
        handle(Input::Opened {
            session: READER,
            carrier,
            who,
        });
        let mut call = |number: u64, command: mail::Command| {
            handle(Input::Call {
                session: READER,
                call: CallId(number),
                random: [0; 16],
                command: command.into(),
            });
        };
        let post = || mail::Command::Post {
            from: Some("pm".to_owned()),
            to: "dev-a".to_owned(),
            kind: Kind::Free,
            body: "12".to_owned(),
            options: None,
        };
        let read = |agent: &str, wait_ms| mail::Command::read_all(Some(agent.to_owned()), wait_ms);
        call(0, post());
        call(1, post());
        call(2, read("pm", 0));
        call(3, read("dev-a", 0));
        call(4, post());
        call(WAITING.0, read("pm", 1_000));
        let handover = *engine.handovers.keys().next_back().expect("two were read");
        let sign = Sign::Passed;
        engine.handle(NOW, Input::Signed { handover, sign }, &mut Vec::new());
        engine
    }

    fn dev_a(engine: &mut Engine) -> &mut Inbox {
        engine.inboxes.get_mut("dev-a").expect("an agent")
    }

    fn agent(engine: &mut Engine) -> &mut Agent {
        engine.agents.get_mut("dev-a").expect("an agent")
    }

    fn last_handover(engine: &mut Engine) -> &mut super::super::handover::Handover {
        let mut handovers = engine.handovers.values_mut();
        handovers.next_back().expect("it was read")
    }

    fn another_copy(engine: &mut Engine) {
        let copy = last_handover(engine).deliveries[0].clone();
        let inbox = dev_a(engine);
        inbox.push(copy.message.clone());
        let mut all = inbox.take(&Filter::default(), Readable::All);
        // The place of one that is handed over.
        all.last_mut().expect("it was pushed").seq = copy.seq;
        inbox.put_back(all);
    }

    #[test]
    fn each_law_is_seen_when_it_is_broken() {
        let broken: [(&str, Breaking); 30] = [
            ("an inbox knows the messages and bytes that it handed over", |e| {
                let one = last_handover(e).deliveries[..1].to_vec();
                dev_a(e).release(&one, Became::Read, None);
            }),
            ("an inbox holds no more messages than its bound", |e| {
                e.bounds.inbox_messages_max = 2;
            }),
            ("an inbox holds no more bytes than its bound", |e| {
                e.bounds.inbox_bytes_max = 5;
            }),
            (
                "no more replies of an inbox can be cancelled than the bound",
                |e| dev_a(e).read = (0..=64).map(|id| (NOW, HandoverId(id))).collect(),
            ),
            ("nobody waits for what is there", |e| {
                let delivery = last_handover(e).deliveries[0].clone();
                let pm = e.inboxes.get_mut("pm").expect("an agent");
                pm.push(delivery.message);
            }),
            ("a message to one agent is in its inbox", |e| {
                let delivery = last_handover(e).deliveries[0].clone();
                let pm = e.inboxes.get_mut("pm").expect("an agent");
                pm.waits.clear();
                pm.push(delivery.message);
            }),
            ("a message is in one place at a time", another_copy),
            ("the start is told in one reply at a time", |e| {
                last_handover(e).notice = true;
                dev_a(e).notice_due = true;
            }),
            (
                "each agent has an inbox, and nobody else but the person has",
                |e| {
                    e.inboxes.remove("dev-b");
                },
            ),
            ("there are no more agents than the bound", |e| {
                e.bounds.agents_max = 0;
                let more = AgentName::new("more").expect("a name");
                e.inboxes.insert(more.clone(), Inbox::new());
                e.agents.insert(more, Agent::default());
            }),
            (
                "an agent knows the sessions that are bound to it and not fenced",
                |e| {
                    agent(e).sessions.insert(READER);
                },
            ),
            ("nothing is on its way to a fenced session", |e| {
                e.session_mut(READER).fenced = true;
            }),
            ("an agent stands under its role alone", |e| {
                agent(e).profile.role = Some("qa".to_owned());
            }),
            ("whoever is to go stands in the order of going", |e| {
                agent(e).leaves_at = Some(NOW);
            }),
            ("a client knows its agent, and the agent its client", |e| {
                agent(e).client = Some(ClientId("client".into()));
            }),
            ("who rests is a client's, and to go", |e| agent(e).rests = true),
            ("groups and channels have agents that are there", |e| {
                let channel = ChannelName::new("x").expect("a name");
                e.groups.join(channel, AgentName::person(), NOW);
            }),
            ("no more sessions are open than the bound", |e| {
                e.bounds.sessions_max = 0;
            }),
            ("no more reads are parked than the bound", |e| {
                e.bounds.waits_max = 0
            }),
            ("a hand-over belongs to an open session until it was read", |e| {
                e.session_mut(READER).handovers.pop_back();
            }),
            ("an inbox knows which of its hand-overs were read", |e| {
                dev_a(e).read.push_front((NOW, HandoverId(0)));
            }),
            ("a wait lasts as long as its session is open", |e| {
                e.session_mut(READER).waits.clear();
            }),
            ("a wait stands in the line of its inbox", |e| {
                e.inboxes.get_mut("pm").expect("an agent").waits.clear();
            }),
            ("a wait stands in the line of its inbox", |e| {
                e.inboxes.get_mut("pm").expect("an agent").waits.clear();
                dev_a(e).waits.push_back(WAITING);
            }),
            ("a hand-over's number is used once", |e| e.handovers_made -= 1),
            ("whoever watches is open and not fenced", |e| {
                let agents = e.watches.agents.entry("default".to_owned());
                agents.or_default().insert(SessionId(99));
            }),
            (
                "a session watches its own agent's inbox, and its own project",
                |e| {
                    let dev_a = AgentName::new("dev-a").expect("a name");
                    e.watches.inboxes.entry(dev_a).or_default().insert(READER);
                },
            ),
            ("what nobody watches is not kept in mind", |e| {
                e.watches.agents.insert("web".to_owned(), BTreeSet::new());
            }),
            (
                "whatever ends by itself has its timer, and nothing else has",
                |e| {
                    last_handover(e).passage = Passage::Overdue { since: NOW };
                },
            ),
            (
                "whatever ends by itself has its timer, and nothing else has",
                |e| {
                    e.timers.settle(NOW, HandoverId(0));
                },
            ),
        ];
        engine().check_invariants();
        for (law, break_it) in broken {
            let mut engine = engine();
            break_it(&mut engine);
            let seen = catch_unwind(AssertUnwindSafe(|| engine.check_invariants()));
            let seen = seen.expect_err(law);
            let told = seen.downcast_ref::<String>().map(String::as_str);
            let told = told.or_else(|| seen.downcast_ref::<&str>().copied());
            assert!(told.is_some_and(|told| told.contains(law)), "{law}: {told:?}");
        }
    }
}
