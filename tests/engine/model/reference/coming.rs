//! Who comes and goes: agents that are registered and taken over, and those whose last session ends.

use super::addresses::names;
use super::*;
use crate::model::marks::Reached;
use relay::engine::agents::Use;

impl Model {
    /// Judges what a session wants to register.
    pub(super) fn judge_registration(&mut self, registration: &Registration) -> Result<AgentName, Refusal> {
        let Registration {
            project,
            name,
            profile,
            instance,
            ..
        } = registration;
        let project = project.as_deref().unwrap_or("default");
        self.marks
            .reach_if(self.home == Some(project), AddressMark::RegisteredByHomesName);
        let project = self.project(project);
        if let Err(refusal) = names(&[("project", project), ("role", name)]) {
            self.marks.reach(Mark::RegisteredNoName);
            return Err(refusal);
        }
        let agent = AgentName::in_project(project, name).expect("both are names");
        if name == "user" {
            self.marks.reach(Mark::RegisteredThePerson);
            return Err(self.persons(NamedAs::Session));
        }
        self.judge_profile(profile)?;
        if let Some(there) = self.agents.iter().find(|other| other.name == agent) {
            if registration.is_new {
                self.marks.reach(Mark::AgentExists);
                return Err(Refusal::Agents(agents::Refusal::Exists { agent }));
            }
            let is_older = matches!((instance, &there.instance), (Some(new), Some(old)) if new < old);
            if is_older {
                self.marks.reach(Mark::OlderInstance);
                return Err(Refusal::Agents(agents::Refusal::Fenced { agent }));
            }
            return Ok(agent);
        }
        let agents = self.agents.len();
        if agents >= self.bounds.agents_max {
            self.marks.reach(Mark::TooManyAgents);
            return Err(Refusal::Agents(agents::Refusal::TooManyAgents { agents }));
        }
        let mut projects: Vec<&str> = self.agents.iter().map(|agent| agent.name.project()).collect();
        projects.push("default");
        projects.sort_unstable();
        projects.dedup();
        let projects_before = projects.len();
        if !projects.contains(&project) && projects_before >= self.bounds.projects_max {
            self.marks.reach(Mark::TooManyProjects);
            let projects = projects_before;
            return Err(Refusal::Agents(agents::Refusal::TooManyProjects { projects }));
        }
        Ok(agent)
    }

    fn judge_profile(&mut self, profile: &Profile) -> Result<(), Refusal> {
        if let Some(role) = profile.role.as_deref().filter(|role| !role.is_empty()) {
            names(&[("role", role)])?;
        }
        for (field, text) in [
            ("module", &profile.module),
            ("cli", &profile.cli),
            ("parent", &profile.parent),
            ("cwd", &profile.cwd),
        ] {
            let Some(text) = text else { continue };
            if text.len() > PROFILE_BYTES_MAX || text.contains(char::is_control) {
                self.marks.reach(Mark::BadProfile);
                let given: String = text.chars().take(80).collect();
                let cut = if text.chars().count() > 80 { "\u{2026}" } else { "" };
                let given = given + cut;
                return Err(Refusal::Agents(agents::Refusal::InvalidProfile { field, given }));
            }
        }
        Ok(())
    }

    /// Has the agent be there, and fences those of an older instance.
    pub(super) fn register(
        &mut self,
        now: Timestamp,
        name: &AgentName,
        registration: &Registration,
    ) -> Vec<Effect> {
        let is_new = self.agent(name).is_none();
        if is_new {
            self.marks.reach(Mark::RegisteredAnew);
            self.marks
                .reach_if(name.project() != "default", Mark::RegisteredInAnotherProject);
            self.agents.push(Agent {
                transient: registration.transient,
                ..Agent::new(name)
            });
            let notice = Notice::new(name.clone(), self.had_sessions.as_ref());
            self.notices.push(notice);
        }
        let before = self.agent(name).expect("it is there").clone();
        let takes_over = registration.instance.is_some() && registration.instance > before.instance;
        let effects = if takes_over { self.fence(name) } else { Vec::new() };
        self.marks.reach_if(
            !is_new && !takes_over && registration.instance.is_some(),
            Mark::SameInstanceJoins,
        );
        self.marks.reach_if(
            before.instance.is_some() && registration.instance.is_none(),
            Mark::NoInstanceJoins,
        );
        self.marks
            .reach_if(before.leaves_at.is_some(), Mark::TransientComesBack);
        self.marks.reach_if(
            before.transient && !registration.transient,
            Mark::TransientIsToStay,
        );
        let waits = self.itself_waits(name);
        let is_gone = self.is_gone(
            self.agents
                .iter()
                .find(|agent| agent.name == *name)
                .expect("it is there"),
        );
        let agent = self.agent(name).expect("it is there");
        if takes_over {
            agent.instance = registration.instance;
        }
        let mut is_other = is_new;
        if takes_over || is_new {
            let was_active = !is_gone
                && agent
                    .last_contact
                    .is_some_and(|at| now.millis_since(at) < ACTIVE_MS);
            is_other |= !was_active && !waits;
            agent.has_left = false;
            agent.last_contact = Some(now);
        }
        agent.transient = before.transient && registration.transient;
        let said = registration.profile.clone();
        let keep = |new: Option<String>, old: Option<String>| new.filter(|new| !new.is_empty()).or(old);
        let old = agent.profile.clone();
        agent.profile = Profile {
            role: keep(said.role, old.role.clone()),
            module: keep(said.module, old.module),
            cli: keep(said.cli, old.cli),
            parent: keep(said.parent, old.parent),
            cwd: keep(said.cwd, old.cwd),
        };
        is_other |= agent.profile != before.profile;
        let role = agent.profile.role.clone();
        if is_other {
            self.changed.push(Changed::Agents(name.project().to_owned()));
        }
        self.marks
            .reach_if(old.role.is_some() && role != old.role, Mark::RoleChanged);
        effects
    }

    /// Fences all sessions of an agent: nothing goes to them any more, and what went is undone.
    fn fence(&mut self, name: &AgentName) -> Vec<Effect> {
        let mut fenced: Vec<SessionId> = Vec::new();
        for open in &mut self.sessions {
            if open.agent.as_ref() == Some(name) && !open.fenced {
                open.fenced = true;
                fenced.push(open.session);
            }
        }
        fenced.sort();
        self.marks.reach_if(!fenced.is_empty(), Mark::TakenOver);
        let mut effects = Vec::new();
        for session in fenced {
            let mut waits = self.waits.clone();
            waits.retain(|wait| wait.session == session);
            waits.sort_by_key(|wait| wait.call);
            for wait in waits {
                self.unpark(wait.call);
                self.marks.reach(Mark::FencedWait);
                self.marks
                    .reach_if(wait.wanted.answers.is_some(), Mark::FencedWhileItAsks);
                let agent = name.clone();
                let refusal = Refusal::Agents(agents::Refusal::Fenced { agent });
                effects.push(reply(wait.call, Err(refusal)));
            }
            for doubt in self.doubts.clone() {
                if doubt.session != session {
                    continue;
                }
                if doubt.read_at.is_some() {
                    self.marks.reach(Mark::FencedAfterReading);
                    continue;
                }
                self.marks.reach(Mark::UndoByFencing);
                self.undo(doubt.call, Sign::Fenced);
            }
        }
        self.begin_parts_anew(name);
        effects
    }

    /// A transient agent's session has ended: was it the last?
    pub(super) fn has_left(&mut self, now: Timestamp, open: &Open) {
        let Some(name) = open.agent.clone().filter(|_| !open.fenced) else {
            self.marks.reach_if(open.fenced, Mark::FencedEnds);
            return;
        };
        // A client that has a connection for each call ends them all the time, but for that of a process.
        let lasts = open.carrier == Carrier::Stream || open.is_of_process;
        if self.has_sessions(&name) {
            self.agent(&name).expect("it has sessions").has_left |= lasts;
            self.marks.reach_if(lasts, Mark::LeavesOthers);
            return;
        }
        let as_open = self.agents.iter().find(|agent| agent.name == name);
        let as_open = as_open.expect("it is there for as long as its sessions");
        // Until now it was there by this session, whatever had left before.
        let was_active = self.is_active(
            now,
            &Agent {
                has_left: false,
                ..as_open.clone()
            },
        );
        let agent = self.agent(&name).expect("it was found");
        if agent.transient {
            agent.leaves_at = Some(now.plus_millis(TRANSIENT_MS));
        }
        agent.has_left |= lasts;
        let agent = agent.clone();
        let is_as_before = match self.status_of(now, &agent) {
            agents::Status::Active => was_active,
            agents::Status::Idle => !was_active,
            agents::Status::Offline => false,
        };
        if !is_as_before {
            self.changed.push(Changed::Agents(name.project().to_owned()));
        }
    }

    /// What each agent is.
    pub(super) fn all_statuses(&self, now: Timestamp) -> Vec<(AgentName, agents::Status)> {
        let agents = self.agents.iter();
        agents
            .map(|agent| (agent.name.clone(), self.status_of(now, agent)))
            .collect()
    }

    /// A stream that was bound to nobody has ended: those are gone for whom it was the last to speak, once nothing else of theirs is open.
    pub(super) fn who_was_spoken_for_has_left(
        &mut self,
        now: Timestamp,
        open: &Open,
        before: &[(AgentName, agents::Status)],
    ) {
        if open.carrier != Carrier::Stream {
            return;
        }
        for (name, before) in before {
            let agent = self.agent(name).expect("nobody goes with a session");
            if agent.last_session != Some(open.session) {
                continue;
            }
            agent.has_left = true;
            let agent = agent.clone();
            if self.status_of(now, &agent) != *before {
                self.marks.reach(Mark::LeavesUnbound);
                self.changed.push(Changed::Agents(name.project().to_owned()));
            }
        }
    }

    pub(super) fn retire(&mut self, open: &Open, name: &str) -> Result<agents::Reply, Refusal> {
        if !open.person {
            self.marks.reach(Mark::NotThePersonRetires);
            return Err(Refusal::Agents(agents::Refusal::NotThePerson));
        }
        let agent = self.known_from("default", name)?;
        if agent.is_person() {
            let known = self.known_of("default");
            let named = NamedAs::Session;
            return Err(Refusal::Agents(agents::Refusal::Person { named, known }));
        }
        let mut sessions = self.sessions.clone();
        sessions.retain(|open| open.agent.as_ref() == Some(&agent) && !open.fenced);
        let held = self.messages.iter().filter(|m| m.is_aside_for(&agent)).count();
        let unread = self.messages.iter().filter(|m| m.has_room_in(&agent)).count() - held;
        let is_waited_for = self.waits.iter().any(|wait| wait.agent == agent);
        let is_told = self.doubts.iter().any(|doubt| doubt.agent == agent);
        let by = match (sessions.len(), unread) {
            _ if self.roster.find(agent.as_str()).is_some() => Some(Use::Roster),
            (0, 0) if held > 0 => Some(Use::Held(held)),
            (0, 0) => (is_waited_for || is_told).then_some(Use::Wait),
            (0, unread) => Some(Use::Messages(unread)),
            (sessions, _) => Some(Use::Sessions(sessions)),
        };
        if let Some(by) = by {
            self.marks.reach(match &by {
                Use::Roster => Reached::from(Mark::RetiresRoster),
                Use::Messages(_) => Mark::RetiresUnread.into(),
                Use::Wait => Mark::RetiresWaitedFor.into(),
                Use::Sessions(_) => Mark::RetiresConnected.into(),
                Use::Held(_) => HoldMark::RetiresHeld.into(),
                Use::Node(_) | Use::Action(_) | Use::Worker => unreachable!("no plan has nodes, or workers"),
            });
            return Err(Refusal::Agents(agents::Refusal::InUse { agent, by }));
        }
        self.marks.reach(Mark::Retired);
        self.remove(&agent);
        Ok(agents::Reply::Retired { agent })
    }

    pub(super) fn remove(&mut self, name: &AgentName) {
        self.agents.retain(|agent| agent.name != *name);
        self.messages.retain(|m| !m.is_for(name));
        self.asked_for.retain(|asked| asked.agent != *name);
        self.notices.retain(|notice| notice.agent != *name);
        self.leave_all(name);
        self.keyed.retain(|keyed| keyed.from != *name);
        self.changed.push(Changed::Agents(name.project().to_owned()));
    }

    /// Removes the transient agents whose time is over, if nothing is in their inboxes.
    pub(super) fn let_go(&mut self, now: Timestamp) {
        for agent in self.agents.clone() {
            if agent.leaves_at.is_none_or(|at| at > now) {
                continue;
            }
            let name = agent.name;
            let mut messages = self.messages.iter();
            let is_empty = !messages.any(|m| m.has_room_in(&name));
            let is_waited_for = self.waits.iter().any(|wait| wait.agent == name);
            let is_told = self.doubts.iter().any(|doubt| doubt.agent == name);
            if !is_empty || is_waited_for || is_told {
                self.marks.reach(Mark::TransientStays);
                let agent = self.agent(&name).expect("it is there");
                agent.leaves_at = Some(now.plus_millis(TRANSIENT_MS));
                continue;
            }
            self.marks.reach(Mark::TransientGoes);
            self.remove(&name);
        }
    }
}
