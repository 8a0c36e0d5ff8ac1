//! Who comes and goes: agents that sessions register, that later instances take over, and that leave with their last session.

use std::collections::BTreeSet;

use super::agents::{Agent, NamedAs, Profile, Refusal, Registration, Status, Use};
use super::events::{Event, WaitEnd};
use super::inbox::Inbox;
use super::io::{Effect, Sign};
use super::limits::{PROFILE_BYTES_MAX, TRANSIENT_MS, UNNAMED_MS};
use super::names::{AgentName, CallId, DEFAULT_PROJECT, PERSON, Role, SessionId, check_name, shown};
use super::time::Timestamp;
use super::{Engine, Step};

impl Engine {
    /// Checks what a session wants to register, and finds the agent's name. Changes nothing.
    pub(super) fn check_registration(&self, registration: &Registration) -> Result<AgentName, Refusal> {
        let Registration {
            project,
            name,
            profile,
            instance,
            transient: _,
            is_new,
        } = registration;
        let project = self.home.meant(project.as_deref().unwrap_or(DEFAULT_PROJECT));
        let agent = AgentName::in_project(project, name)?;
        if agent.local() == PERSON {
            return Err(self.refuse_person(NamedAs::Session));
        }
        profile.check()?;
        let Some(known) = self.agents.get(&agent) else {
            let agents = self.agents.len();
            if agents >= self.bounds.agents_max {
                return Err(Refusal::TooManyAgents { agents });
            }
            let is_new = self.of_project(project).next().is_none() && project != DEFAULT_PROJECT;
            let projects = if is_new { self.projects().len() } else { 0 };
            if projects >= self.bounds.projects_max {
                return Err(Refusal::TooManyProjects { projects });
            }
            return Ok(agent);
        };
        if *is_new {
            return Err(Refusal::Exists { agent });
        }
        if instance.is_some() && *instance < known.instance {
            return Err(Refusal::Fenced { agent });
        }
        Ok(agent)
    }

    /// Makes the agent, or takes it over if the instance is a later one.
    pub(super) fn register(&mut self, agent: &AgentName, registration: Registration, step: &mut Step<'_>) {
        let Registration {
            profile,
            instance,
            transient,
            ..
        } = registration;
        if !self.agents.contains_key(agent) {
            self.agents.insert(
                agent.clone(),
                Agent {
                    transient,
                    ..Agent::default()
                },
            );
            let mut inbox = Inbox::new();
            inbox.notice_due = self.may_have_lost_something(agent);
            self.inboxes.insert(agent.clone(), inbox);
            self.contact(agent, None, step);
            step.note(Event::Registered { agent: agent.clone() });
        }
        if instance > self.agents[agent].instance {
            self.worker_is_taken_over(agent);
            self.is_no_clients(agent);
            self.take_over(agent, step);
            self.agent_mut(agent).instance = instance;
            self.contact(agent, None, step);
        }
        // A worker goes once it has ended, whatever its own sessions say of it.
        if self.living(agent).is_none() {
            self.agent_mut(agent).transient &= transient;
        }
        self.describe(agent, profile, step);
    }

    /// Fences all sessions of an agent.
    fn take_over(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        let fenced = std::mem::take(&mut self.agent_mut(agent).sessions);
        if !fenced.is_empty() {
            step.note(Event::TakenOver { agent: agent.clone() });
        }
        for session in fenced {
            self.unwatch_all(session);
            let state = self.session_mut(session);
            state.fenced = true;
            for call in state.waits.clone() {
                self.fence_wait(call, step);
            }
            let refusal = Refusal::Fenced { agent: agent.clone() };
            self.end_waiter(session, WaitEnd::Fenced, Err(refusal.into()), step);
            self.sign_all(session, Sign::Fenced, step);
        }
        // The parts until now were shown to another model.
        self.inbox_mut(agent).begin_parts_anew();
    }

    fn fence_wait(&mut self, call: CallId, step: &mut Step<'_>) {
        let wait = self.unpark(call, WaitEnd::Fenced, step);
        let refusal = Refusal::Fenced { agent: wait.agent };
        step.out.push(Effect::Reply {
            call,
            result: Err(refusal.into()),
            handover: None,
        });
    }

    /// Sets what an agent says of itself; what it leaves out stays as it was.
    fn describe(&mut self, agent: &AgentName, said: Profile, step: &mut Step<'_>) {
        let before = self.agents[agent].profile.clone();
        let role_before = before.role.clone();
        let Profile {
            role,
            module,
            cli,
            parent,
            cwd,
        } = &mut self.agent_mut(agent).profile;
        for (field, said) in [
            (role, said.role),
            (module, said.module),
            (cli, said.cli),
            (parent, said.parent),
            (cwd, said.cwd),
        ] {
            if let Some(said) = said.filter(|said| !said.is_empty()) {
                *field = Some(said);
            }
        }
        if self.agents[agent].profile != before {
            self.agents_change(agent.project(), step);
        }
        let role_after = self.agents[agent].profile.role.clone();
        if role_before != role_after {
            self.forget_role(agent, role_before.as_deref());
            if let Some(role) = self.role_of(agent) {
                self.roles.entry(role).or_default().insert(agent.clone());
            }
        }
    }

    fn role_of(&self, agent: &AgentName) -> Option<Role> {
        let role = self.agents[agent].profile.role.as_deref()?;
        Role::in_project(agent.project(), role).ok()
    }

    fn forget_role(&mut self, agent: &AgentName, role: Option<&str>) {
        let Some(role) = role.and_then(|role| Role::in_project(agent.project(), role).ok()) else {
            return;
        };
        if let Some(agents) = self.roles.get_mut(&role) {
            agents.remove(agent);
            if agents.is_empty() {
                self.roles.remove(&role);
            }
        }
    }

    /// Takes note that a session that is bound to an agent has begun.
    pub(super) fn joins(&mut self, agent: &AgentName, session: SessionId, step: &mut Step<'_>) {
        let before = self.status_of(agent, step.now);
        let state = self.agent_mut(agent);
        state.sessions.insert(session);
        state.has_left = false;
        self.is_kept(agent);
        self.tell_of_status(agent, before, step);
    }

    /// Takes note that it has ended; `lasts` says that its client has left with it.
    pub(super) fn leaves(&mut self, agent: &AgentName, session: SessionId, lasts: bool, step: &mut Step<'_>) {
        // A fenced session may end after its agent has gone.
        let Some(state) = self.agents.get(agent) else {
            return;
        };
        if !state.sessions.contains(&session) {
            return;
        }
        let before = self.status_of(agent, step.now);
        self.agent_mut(agent).sessions.remove(&session);
        if lasts {
            self.goes_offline(agent);
        }
        self.tell_of_status(agent, before, step);
        self.is_kept_no_more(agent, lasts, step.now);
    }

    /// Finds those for whom a session has spoken last, and whether each is there.
    pub(super) fn spoken_for(&self, session: SessionId, now: Timestamp) -> Vec<(AgentName, Status)> {
        let spoken_for = |(_, state): &(&AgentName, &Agent)| state.last_session == Some(session);
        let agents = self.agents.iter().filter(spoken_for);
        agents
            .map(|(agent, _)| (agent.clone(), self.status_of(agent, now)))
            .collect()
    }

    /// Takes note that what was there of an agent has ended. As long as it has other sessions it is there by these.
    pub(super) fn goes_offline(&mut self, agent: &AgentName) {
        self.agent_mut(agent).has_left = true;
    }

    /// Has those told who watch the agents if one is there otherwise than before.
    pub(super) fn tell_of_status(&self, agent: &AgentName, before: Status, step: &mut Step<'_>) {
        if self.status_of(agent, step.now) != before {
            self.agents_change(agent.project(), step);
        }
    }

    /// Has a transient agent go that has no sessions, unless it is a worker that lives: that goes once it has ended.
    pub(super) fn is_kept_no_more(&mut self, agent: &AgentName, has_left: bool, now: Timestamp) {
        let state = &self.agents[agent];
        if self.may_go(agent) && state.leaves_at.is_none() {
            let rests = state.client.is_some() && !has_left;
            let lasts_ms = if rests { UNNAMED_MS } else { TRANSIENT_MS };
            self.agent_mut(agent).rests = rests;
            self.leave_at(agent, now.plus_millis(lasts_ms));
        }
    }

    /// The same, with the next input.
    pub(super) fn goes_at_once(&mut self, agent: &AgentName, now: Timestamp) {
        if self.may_go(agent) {
            self.is_kept(agent);
            self.leave_at(agent, now);
        }
    }

    fn may_go(&self, agent: &AgentName) -> bool {
        let state = &self.agents[agent];
        state.transient && state.sessions.is_empty() && self.living(agent).is_none()
    }

    /// Has an agent stay as long as it is a worker that lives.
    pub(super) fn is_kept(&mut self, agent: &AgentName) {
        let state = self.agent_mut(agent);
        state.rests = false;
        if let Some(at) = state.leaves_at.take() {
            self.leaving.remove(&(at, agent.clone()));
        }
    }

    /// Has an agent stay for good, whatever becomes of its sessions.
    pub(super) fn stays(&mut self, agent: &AgentName) {
        self.agent_mut(agent).transient = false;
        self.is_kept(agent);
    }

    fn leave_at(&mut self, agent: &AgentName, at: Timestamp) {
        self.agent_mut(agent).leaves_at = Some(at);
        self.leaving.insert((at, agent.clone()));
    }

    /// Removes the transient agents whose sessions have ended; not before their inboxes are empty.
    pub(super) fn let_go(&mut self, step: &mut Step<'_>) {
        while let Some((at, _)) = self.leaving.first()
            && *at <= step.now
        {
            let (_, agent) = self.leaving.pop_first().expect("it is the first");
            let state = self.agent_mut(&agent);
            (state.leaves_at, state.rests) = (None, false);
            if state.client.is_some() {
                self.gives_up_what_many_got(&agent, step);
            }
            let inbox = &self.inboxes[&agent];
            if inbox.messages() > 0 || !inbox.waits.is_empty() || !inbox.standing.is_empty() {
                self.leave_at(&agent, step.now.plus_millis(TRANSIENT_MS));
                continue;
            }
            self.remove_agent(&agent, step);
        }
    }

    /// Removes an agent for which nothing is left.
    fn remove_agent(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        let role = self.agents[agent].profile.role.clone();
        self.forget_role(agent, role.as_deref());
        self.groups.forget(agent);
        self.idempotency.forget(agent);
        self.is_no_clients(agent);
        self.inboxes.remove(agent);
        self.agents.remove(agent);
        self.worker_is_forgotten(agent);
        self.agents_change(agent.project(), step);
        step.note(Event::Gone { agent: agent.clone() });
    }

    /// Removes an agent that nothing uses.
    pub(super) fn retire(&mut self, agent: &AgentName, step: &mut Step<'_>) -> Result<(), Refusal> {
        if agent.is_person() {
            return Err(self.refuse_person(NamedAs::Session));
        }
        if let Some(by) = self.use_of(agent) {
            let agent = agent.clone();
            return Err(Refusal::InUse { agent, by });
        }
        if let Some(at) = self.agents[agent].leaves_at {
            self.leaving.remove(&(at, agent.clone()));
        }
        self.remove_agent(agent, step);
        Ok(())
    }

    /// Tells what uses an agent: first what the person can do the least about.
    fn use_of(&self, agent: &AgentName) -> Option<Use> {
        let inbox = &self.inboxes[agent];
        let node = inbox.binding.as_ref().map(|binding| binding.node);
        let sessions = self.agents[agent].sessions.len();
        let held = inbox.aside().len();
        let readable = inbox.messages() - held;
        if self.roster.find(agent.as_str()).is_some() {
            Some(Use::Roster)
        } else if let Some(node) = node.or_else(|| self.nodes.own_of(agent)) {
            Some(Use::Node(self.nodes.get(node).name.clone()))
        } else if let Some(action) = self.action_of(agent) {
            Some(Use::Action(action))
        } else if self.living(agent).is_some() {
            Some(Use::Worker)
        } else if sessions > 0 {
            Some(Use::Sessions(sessions))
        } else if readable > 0 {
            Some(Use::Messages(readable))
        } else if held > 0 {
            Some(Use::Held(held))
        } else {
            (!inbox.waits.is_empty() || !inbox.standing.is_empty()).then_some(Use::Wait)
        }
    }

    /// Takes note that a session acts in an agent's name. The person who does so in its stead shows nothing of the agent, nor does a client
    /// that looks for itself.
    pub(super) fn acts(&mut self, session: SessionId, agent: &AgentName, step: &mut Step<'_>) {
        let state = &self.sessions[&session];
        if state.person || step.is_a_client_s {
            return;
        }
        let has_model = state.has_model;
        // One that is bound has been heard of as it called.
        if state.agent.is_none() {
            self.speaks(agent, step);
        }
        self.contact(agent, Some(session), step);
        if has_model {
            self.model_is_answered(agent, step);
        }
    }

    /// Takes note that the answer to a session's call goes to an agent, if its model is still to be told of the start.
    pub(super) fn is_answered(&self, session: SessionId, agent: &AgentName, step: &mut Step<'_>) {
        if self.sessions[&session].has_model {
            self.model_is_answered(agent, step);
        }
    }

    fn model_is_answered(&self, agent: &AgentName, step: &mut Step<'_>) {
        if self.inboxes[agent].notice_due {
            step.to_tell = Some(agent.clone());
        }
    }

    /// The same of one that has waited until now, and was not idle meanwhile.
    pub(super) fn has_waited(&mut self, session: SessionId, agent: &AgentName, now: Timestamp) {
        if !self.sessions[&session].person
            && let Some(state) = self.agents.get_mut(agent)
        {
            state.has_left = false;
            state.last_contact = Some(now);
            state.last_session = Some(session);
        }
    }

    /// Has an agent be one that nobody has spoken for, until a session does.
    pub(super) fn has_not_been_heard_of(&mut self, agent: &AgentName) {
        let state = self.agent_mut(agent);
        state.last_contact = None;
        state.last_session = None;
    }

    /// Takes note that an agent is there: by an act of a session's, or by a new one that registers it.
    fn contact(&mut self, agent: &AgentName, by: Option<SessionId>, step: &mut Step<'_>) {
        let Some(state) = self.agents.get_mut(agent) else {
            return;
        };
        let was_active = state.is_active(step.now);
        state.has_left = false;
        let before = state.last_contact.replace(step.now);
        state.last_session = by.or(state.last_session);
        if before.is_none() {
            self.newly_seen = Some(agent.clone());
        }
        if !was_active && !self.itself_waits(agent) {
            self.agents_change(agent.project(), step);
        }
    }

    pub(super) fn agent_mut(&mut self, agent: &AgentName) -> &mut Agent {
        self.agents
            .get_mut(agent)
            .expect("whoever has a session is registered")
    }

    /// Returns the projects that have agents, and the default one.
    pub(super) fn projects(&self) -> BTreeSet<&str> {
        let projects = self.agents.keys().map(AgentName::project);
        projects.chain([DEFAULT_PROJECT]).collect()
    }
}

impl Profile {
    /// Checks that each part of it is short and one line, and the role a name.
    fn check(&self) -> Result<(), Refusal> {
        if let Some(role) = self.role.as_deref().filter(|role| !role.is_empty()) {
            check_name("role", role)?;
        }
        let fields = [
            ("module", &self.module),
            ("cli", &self.cli),
            ("parent", &self.parent),
            ("cwd", &self.cwd),
        ];
        for (field, value) in fields {
            if let Some(value) = value
                && (value.len() > PROFILE_BYTES_MAX || value.chars().any(char::is_control))
            {
                let given = shown(value);
                return Err(Refusal::InvalidProfile { field, given });
            }
        }
        Ok(())
    }
}
