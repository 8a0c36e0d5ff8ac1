//! Who there is, and for whom a session speaks.

use relay::engine::agents::AgentView;

use super::addresses::names;
use super::*;

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
        let has_sessions = self.has_sessions(name);
        if let Some(agent) = self.agent(name) {
            let was_active = (!agent.has_left || has_sessions)
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
    pub(super) fn itself_waits(&self, name: &AgentName) -> bool {
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

    /// Tells whether an agent has sessions that no later instance has taken over.
    pub(super) fn has_sessions(&self, name: &AgentName) -> bool {
        let mut open = self.sessions.iter();
        open.any(|open| open.agent.as_ref() == Some(name) && !open.fenced)
    }

    /// Tells whether an agent has left, and nothing else of it is open.
    pub(super) fn is_gone(&self, agent: &Agent) -> bool {
        agent.has_left && !self.has_sessions(&agent.name)
    }

    /// Tells whether an agent has done something a moment ago and has not left, or waits for something.
    pub(super) fn is_active(&self, now: Timestamp, agent: &Agent) -> bool {
        let is_recent = agent
            .last_contact
            .is_some_and(|at| now.millis_since(at) < ACTIVE_MS);
        self.itself_waits(&agent.name) || (is_recent && !self.is_gone(agent))
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

    pub(super) fn known_of(&self, project: &str) -> Known {
        let mut names = self.everybody();
        names.retain(|agent| !agent.is_person() && agent.project() == project);
        let count = names.len();
        assert!(count <= 32, "no plan has so many");
        Known { names, count }
    }
}
