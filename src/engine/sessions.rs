//! Who is connected.

use std::collections::{BTreeSet, VecDeque};

use super::agents::NamedAs;
use super::events::{Event, WaitEnd};
use super::inbox::Reader;
use super::io::{self, Carrier, Ending, Sign, Who};
use super::names::{AgentName, CallId, ClientId, HandoverId, NodeId, PERSON, SessionId};
use super::programs::Program;
use super::timers::Timer;
use super::{Engine, Step, nodes};

/// An open session, with what ends when it does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Session {
    pub carrier: Carrier,
    /// Whose it is, if its client has said so.
    pub client: Option<ClientId>,
    pub agent: Option<AgentName>,
    /// It is the person's, and bound to nobody.
    pub person: bool,
    /// What it is answered is put before a model, which may have to send something again.
    pub has_model: bool,
    /// It is bound to nobody yet, or to an agent that was given its name.
    pub unnamed: bool,
    /// It is that of a process, which its client named, however many connections that has.
    pub is_of_process: bool,
    /// The node whose connection it is, bound to nobody.
    pub node: Option<NodeId>,
    /// A later instance has taken its agent over.
    pub fenced: bool,
    /// Those that were not read, in the order in which they were made.
    pub handovers: VecDeque<HandoverId>,
    pub waits: BTreeSet<CallId>,
    /// The program whose hooks it is.
    pub program: Option<Box<Program>>,
}

impl Session {
    /// Tells whether its end says that its client has left: one that has a connection for each call ends them all the time.
    fn lasts(&self) -> bool {
        match self.carrier {
            Carrier::Stream | Carrier::Hook => true,
            Carrier::Exchange => self.is_of_process,
            Carrier::Node | Carrier::Wake => false,
        }
    }
}

/// Why a session was not opened. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Too many sessions are open.
    TooMany {
        /// How many are open.
        sessions: usize,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::TooMany { .. } => io::Class::Full,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Sessions(refusal)
    }
}

impl Engine {
    pub(super) fn open(
        &mut self,
        session: SessionId,
        carrier: Carrier,
        who: Who,
        step: &mut Step<'_>,
    ) -> Result<Option<AgentName>, io::Refusal> {
        let person = who == Who::Person;
        let node = match who {
            Who::Node(node) if !self.nodes.contains(node) => return Err(nodes::Refusal::Unknown.into()),
            Who::Node(node) => Some(node),
            Who::Agent(_)
            | Who::Unnamed
            | Who::Api(_)
            | Who::Registered(_)
            | Who::Person
            | Who::Program { .. } => None,
        };
        let unnamed = who == Who::Unnamed;
        let is_of_process = matches!(&who, Who::Registered(registration) if registration.instance.is_some());
        let has_model = match who {
            Who::Agent(_) | Who::Unnamed | Who::Registered(_) => true,
            Who::Api(_) | Who::Person | Who::Node(_) | Who::Program { .. } => false,
        };
        let program = match &who {
            Who::Program {
                agent,
                is_certain,
                project,
                mode,
                abilities,
            } => {
                let is_named = *is_certain && agent.is_some();
                let project = project.clone();
                Some(Program::new(*abilities, is_named, project, *mode, step.now))
            }
            Who::Agent(_) | Who::Unnamed | Who::Api(_) | Who::Registered(_) | Who::Person | Who::Node(_) => {
                None
            }
        };
        let (agent, registration) = match who {
            Who::Person
            | Who::Node(_)
            | Who::Unnamed
            | Who::Agent(None)
            | Who::Program { agent: None, .. } => (None, None),
            Who::Agent(Some(name))
            | Who::Api(name)
            | Who::Program {
                agent: Some(name), ..
            } if name == PERSON => {
                return Err(self.refuse_person(NamedAs::Session).into());
            }
            Who::Agent(Some(name))
            | Who::Api(name)
            | Who::Program {
                agent: Some(name), ..
            } => (Some(self.known(&name)?), None),
            Who::Registered(registration) => {
                (Some(self.check_registration(&registration)?), Some(registration))
            }
        };
        if self.sessions.len() >= self.bounds.sessions_max {
            let sessions = self.sessions.len();
            return Err(Refusal::TooMany { sessions }.into());
        }
        if program.is_some() {
            self.make_room_for_program(step);
        }
        if let (Some(agent), Some(registration)) = (&agent, registration) {
            self.register(agent, *registration, step);
        }
        if let Some(agent) = &agent {
            self.joins(agent, session, step);
        }
        let state = Session {
            carrier,
            client: None,
            agent: agent.clone(),
            person,
            has_model,
            unnamed,
            is_of_process,
            node,
            fenced: false,
            handovers: VecDeque::new(),
            waits: BTreeSet::new(),
            program: program.map(Box::new),
        };
        let before = self.sessions.insert(session, state);
        assert!(before.is_none(), "a session's number is used once");
        if let Some(agent) = &agent {
            self.brings_as_program_says(session, agent);
        }
        if let Some(program) = &self.sessions[&session].program {
            self.timers.arm(program.gone_at, Timer::ProgramGone(session));
        }
        step.note(Event::Opened {
            session,
            carrier,
            agent: agent.clone(),
            person,
        });
        Ok(agent)
    }

    /// A session's client has said who it is; nothing if it is not open.
    pub(super) fn name_client(&mut self, session: SessionId, client: ClientId, step: &mut Step<'_>) {
        if let Some(state) = self.sessions.get_mut(&session) {
            state.client = Some(client);
            self.goes_on_unnamed(session, step);
        }
    }

    /// Returns who is shown the parts of a message in a session.
    pub(super) fn reader(&self, session: SessionId) -> Reader {
        let Session { client, carrier, .. } = &self.sessions[&session];
        match (client, carrier) {
            (Some(client), _) => Reader::Client(client.clone()),
            (None, Carrier::Stream) => Reader::Stream(session),
            (None, Carrier::Exchange | Carrier::Node | Carrier::Hook | Carrier::Wake) => {
                Reader::Connection(session)
            }
        }
    }

    pub(super) fn close(&mut self, session: SessionId, ending: Ending, step: &mut Step<'_>) {
        let Some(state) = self.sessions.get(&session) else {
            return;
        };
        let node = state.node;
        let gone_at = state.program.as_ref().map(|program| program.gone_at);
        for call in state.waits.clone() {
            self.cancel_wait(call, step);
        }
        if let Some(at) = gone_at {
            self.timers.disarm(at, Timer::ProgramGone(session));
            self.unpark_waiter(session, WaitEnd::Cancelled, step);
        }
        self.cancel_spawns_of(session, step);
        self.unwatch_all(session);
        if let Some(node) = node {
            self.node_closed(node, session, step);
        }
        self.sign_all(session, Sign::Ended(ending), step);
        let state = &self.sessions[&session];
        let (agent, lasts) = (state.agent.clone(), state.lasts());
        let spoken_for = if agent.is_none() && lasts {
            self.spoken_for(session, step.now)
        } else {
            Vec::new()
        };
        self.sessions.remove(&session);
        if let Some(agent) = agent {
            self.leaves(&agent, session, lasts, step);
        }
        for (agent, before) in spoken_for {
            self.goes_offline(&agent);
            self.tell_of_status(&agent, before, step);
        }
        step.note(Event::Closed { session, ending });
    }

    /// Tells whether a reply to a session is one in which an agent is told of the start: the person who reads in an
    /// agent's stead does not take its news.
    pub(super) fn tells(&self, session: SessionId, agent: &AgentName) -> bool {
        !self.sessions[&session].person || agent.is_person()
    }

    pub(super) fn session_mut(&mut self, session: SessionId) -> &mut Session {
        self.sessions
            .get_mut(&session)
            .expect("what belongs to a session ends with it")
    }
}
