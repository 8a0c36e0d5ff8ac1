//! Who there is, for whom a session speaks, and who registers, takes over and goes.

use relay::engine::agents::{AgentView, Use};

use super::addresses::names;
use super::*;
use crate::model::marks::Reached;

/// Looking.
impl Model {
    /// Lists all that have an inbox, in the order of the roster, then of their names; the person comes last.
    pub(super) fn everybody(&self) -> Vec<AgentName> {
        let mut all = self.roster.names().to_vec();
        let mut others: Vec<AgentName> = self.agents.iter().map(|agent| agent.name.clone()).collect();
        others.retain(|agent| !all.contains(agent));
        others.sort();
        all.extend(others);
        all.push(AgentName::person());
        all
    }

    /// Lists the agents of a project, in the order of their names.
    pub(super) fn of_project(&self, project: &str) -> Vec<AgentName> {
        let agents = self.agents.iter().map(|agent| agent.name.clone());
        let mut agents: Vec<AgentName> = agents.filter(|name| name.project() == project).collect();
        agents.sort();
        agents
    }

    pub(super) fn of_role(&self, role: &Role) -> Vec<AgentName> {
        let mut agents = self.agents.clone();
        agents.retain(|agent| agent.name.project() == role.project());
        agents.retain(|agent| agent.profile.role.as_deref() == Some(role.local()));
        agents.into_iter().map(|agent| agent.name).collect()
    }

    pub(super) fn agent(&mut self, name: &AgentName) -> Option<&mut Agent> {
        self.agents.iter_mut().find(|agent| agent.name == *name)
    }

    /// A session has done something in an agent's name; the person's shows nothing of the agent, nor does a client that looks for itself.
    pub(super) fn contact(&mut self, now: Timestamp, session: SessionId, name: &AgentName) {
        let mut sessions = self.sessions.iter();
        if !self.is_tools || sessions.any(|open| open.session == session && open.person) {
            return;
        }
        self.spoke_for = Some(name.clone());
        let waits = self.itself_waits(name);
        if let Some(agent) = self.agent(name) {
            let was_active = !agent.has_left
                && agent
                    .last_contact
                    .is_some_and(|at| now.millis_since(at) < ACTIVE_MS);
            agent.has_left = false;
            agent.last_contact = Some(now);
            agent.last_session = Some(session);
            if !was_active && !waits {
                self.changed.push(Changed::Agents(name.project().to_owned()));
            }
        }
    }

    /// The same of an agent that has waited until now, and was active all along.
    pub(super) fn has_waited(&mut self, now: Timestamp, session: SessionId, name: &AgentName) {
        let mut sessions = self.sessions.iter();
        let by_person = sessions.any(|open| open.session == session && open.person);
        if let Some(agent) = self.agent(name).filter(|_| !by_person) {
            agent.has_left = false;
            agent.last_contact = Some(now);
            agent.last_session = Some(session);
        }
    }

    pub(super) fn about_agents(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        command: agents::Command,
    ) -> Result<Vec<Effect>, Refusal> {
        if open.fenced {
            return Err(self.fenced(open));
        }
        let own = open.agent.as_ref().map_or("default", |agent| agent.project());
        let answer = match command {
            agents::Command::WhoAmI => {
                self.looks(now, open);
                self.marks.reach(Mark::WhoAmI);
                agents::Reply::You {
                    agent: open.agent.clone(),
                    place: String::new(),
                    started_at: self.boot.started_at,
                    now,
                }
            }
            agents::Command::Mode { .. } => unreachable!("no plan has modes"),
            agents::Command::Retire { agent } => self.retire(open, &agent)?,
            agents::Command::Find { agent } => {
                let known = self.agents.iter().find(|known| known.name == agent);
                let found = known.map(|known| Box::new(self.view(now, known)));
                self.marks.reach_if(found.is_some(), Mark::FoundAgent);
                self.marks.reach_if(found.is_none(), Mark::FoundNoAgent);
                agents::Reply::Found(found)
            }
            agents::Command::List { project, which } => {
                let asked = project.as_deref().filter(|project| !project.is_empty());
                let asked = self.project(asked.unwrap_or(own));
                if asked != "*" {
                    names(&[("project", asked)])?;
                }
                let asked = asked.to_owned();
                self.looks(now, open);
                let mut listed = self.agents.clone();
                listed.retain(|agent| asked == "*" || agent.name.project() == asked);
                listed.sort_by(|one, other| one.name.cmp(&other.name));
                let mut views: Vec<AgentView> = listed.iter().map(|agent| self.view(now, agent)).collect();
                let all = views.len();
                let any_idle = views.iter().any(|view| view.status == agents::Status::Idle);
                self.marks.reach_if(any_idle, Mark::Idle);
                views.retain(|view| match which {
                    Which::All => true,
                    Which::Present => view.status != agents::Status::Offline,
                    Which::Active => view.status == agents::Status::Active,
                });
                self.marks
                    .reach_if(asked != "*" && asked != own, Mark::ListOfAnotherProject);
                self.marks
                    .reach_if(views.len() < all, Mark::ListWithoutTheInactive);
                agents::Reply::Listed {
                    project: own.to_owned(),
                    agents: views,
                }
            }
        };
        Ok(vec![self.answer(open, call, Reply::Agents(answer))])
    }

    /// Looking around is a sign of life, too.
    fn looks(&mut self, now: Timestamp, open: &Open) {
        if let Some(agent) = &open.agent {
            self.contact(now, open.session, agent);
        }
    }

    /// Tells whether an agent waits for something itself, and not only the person in its stead.
    fn itself_waits(&self, name: &AgentName) -> bool {
        let mut waits = self.waits.iter();
        waits.any(|wait| wait.agent == *name && !self.is_in_stead(wait.session, name))
    }

    fn view(&self, now: Timestamp, agent: &Agent) -> AgentView {
        let last_contact = if self.itself_waits(&agent.name) {
            Some(now)
        } else {
            agent.last_contact
        };
        AgentView {
            name: agent.name.clone(),
            profile: agent.profile.clone(),
            last_contact,
            status: self.status_of(now, agent),
        }
    }

    pub(super) fn status_of(&self, now: Timestamp, agent: &Agent) -> agents::Status {
        let mut open = self.sessions.iter();
        let is_open = open.any(|open| {
            let is_bound = open.agent.as_ref() == Some(&agent.name);
            !open.fenced && (is_bound || Some(open.session) == agent.last_session)
        });
        match (self.is_active(now, agent), is_open) {
            (true, _) => agents::Status::Active,
            (false, true) => agents::Status::Idle,
            (false, false) => agents::Status::Offline,
        }
    }

    /// Tells whether an agent has done something a moment ago and has not left, or waits for something.
    fn is_active(&self, now: Timestamp, agent: &Agent) -> bool {
        let is_recent = agent
            .last_contact
            .is_some_and(|at| now.millis_since(at) < ACTIVE_MS);
        self.itself_waits(&agent.name) || (is_recent && !agent.has_left)
    }
}

/// Naming.
impl Model {
    pub(super) fn speaker(
        &mut self,
        open: &Open,
        named: NamedAs,
        given: Option<&str>,
    ) -> Result<AgentName, Refusal> {
        let posting = named == NamedAs::Sender;
        if given == Some("user") && !open.person {
            self.marks.reach(if posting {
                Mark::PersonNamedPosting
            } else {
                Mark::PersonNamedReading
            });
            return Err(self.persons(named));
        }
        if open.person && given.is_none() {
            self.marks.reach(Mark::PersonLeftOut);
            return Ok(AgentName::person());
        }
        let Some(bound) = &open.agent else {
            let Some(name) = given else {
                self.marks.reach(if posting {
                    Mark::AnonymousPost
                } else {
                    Mark::AnonymousRead
                });
                let known = self.known_of("default");
                return Err(Refusal::Agents(agents::Refusal::Anonymous { named, known }));
            };
            return self.named(posting, name);
        };
        let its_own = given.is_none_or(|name| {
            let is_whole = self.known(name).is_ok_and(|known| known == *bound);
            is_whole || name == bound.as_str() || name == bound.local()
        });
        if !its_own {
            let name = self.named(posting, given.expect("it is another"))?;
            self.marks.reach(if posting {
                Mark::NotYouPosting
            } else {
                Mark::NotYouReading
            });
            let bound = bound.clone();
            return Err(Refusal::Agents(agents::Refusal::NotYou { named, name, bound }));
        }
        if open.fenced {
            self.marks.reach(Mark::CallOfTheFenced);
            return Err(self.fenced(open));
        }
        self.marks.reach(match given {
            None => Mark::BoundLeftOut,
            Some(name) if name == bound.local() && name != bound.as_str() => {
                Mark::BoundNamedItselfWithoutProject
            }
            Some(_) => Mark::BoundNamedItself,
        });
        Ok(bound.clone())
    }

    fn named(&mut self, posting: bool, name: &str) -> Result<AgentName, Refusal> {
        let known = self.known(name);
        if known.is_err() {
            self.marks.reach(if posting {
                Mark::UnknownSender
            } else {
                Mark::UnknownReader
            });
        }
        known
    }

    pub(super) fn fenced(&self, open: &Open) -> Refusal {
        let agent = open.agent.clone().expect("nobody else is fenced");
        Refusal::Agents(agents::Refusal::Fenced { agent })
    }

    pub(super) fn persons(&self, named: NamedAs) -> Refusal {
        let known = self.known_of("default");
        Refusal::Agents(agents::Refusal::Person { named, known })
    }

    /// Finds who has that whole name, in which the default project may be named.
    pub(super) fn known(&self, name: &str) -> Result<AgentName, Refusal> {
        self.known_from("default", name)
    }

    /// Finds whom somebody in a project means by a name: one of its own, of another if that stands before it, or the person.
    pub(super) fn known_from(&self, project: &str, name: &str) -> Result<AgentName, Refusal> {
        let (project, local) = match name.split_once(':') {
            Some((other, local)) if other != "agent" => (self.project(other), local),
            Some(_) | None => (project, name),
        };
        let mut names = self.everybody().into_iter();
        let found = names.find(|agent| {
            let is_person = agent.is_person() && name == "user";
            is_person || !agent.is_person() && agent.project() == project && agent.local() == local
        });
        found.ok_or_else(|| self.unknown(project, name))
    }

    pub(super) fn unknown(&self, project: &str, name: &str) -> Refusal {
        let known = self.known_of(project);
        let name = name.to_owned();
        if name.contains(':') && known.names.is_empty() && project != "default" {
            let of_all = self.everybody();
            let projects = of_all.iter().filter(|agent| !agent.is_person());
            let projects: BTreeSet<&str> = projects.map(AgentName::project).chain(["default"]).collect();
            return Refusal::Agents(agents::Refusal::UnknownProject {
                name,
                project: project.to_owned(),
                known: projects.into_iter().map(str::to_owned).collect(),
            });
        }
        Refusal::Agents(agents::Refusal::Unknown { name, known })
    }

    fn known_of(&self, project: &str) -> Known {
        let mut names = self.everybody();
        names.retain(|agent| !agent.is_person() && agent.project() == project);
        let count = names.len();
        assert!(count <= 32, "no plan has so many");
        Known { names, count }
    }
}

/// Coming and going.
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
        let agent = self.agent(name).expect("it is there");
        if takes_over {
            agent.instance = registration.instance;
        }
        let mut is_other = is_new;
        if takes_over || is_new {
            let was_active = !agent.has_left
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
        let mut others = self.sessions.iter();
        if others.any(|other| other.agent.as_ref() == Some(&name) && !other.fenced) {
            return;
        }
        let as_open = self.agents.iter().find(|agent| agent.name == name);
        let as_open = as_open.expect("it is there for as long as its sessions");
        let was_active = self.is_active(now, as_open);
        let agent = self.agent(&name).expect("it was found");
        if agent.transient {
            agent.leaves_at = Some(now.plus_millis(TRANSIENT_MS));
        }
        // A client that has a connection for each call ends them all the time, but for that of a process.
        let lasts = open.carrier == Carrier::Stream || open.is_of_process;
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

    /// A stream that was bound to nobody has ended: those are gone for whom it was the last to speak, if nothing else of theirs is open.
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
            let mut others = self.sessions.iter();
            let has_others = others.any(|other| other.agent.as_ref() == Some(name) && !other.fenced);
            let agent = self.agent(name).expect("nobody goes with a session");
            if agent.last_session != Some(open.session) {
                continue;
            }
            agent.has_left |= !has_others;
            let agent = agent.clone();
            if self.status_of(now, &agent) != *before {
                self.marks.reach(Mark::LeavesUnbound);
                self.changed.push(Changed::Agents(name.project().to_owned()));
            }
        }
    }

    fn retire(&mut self, open: &Open, name: &str) -> Result<agents::Reply, Refusal> {
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

    fn remove(&mut self, name: &AgentName) {
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
