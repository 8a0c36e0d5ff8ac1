//! What is asked about workers, and who may: nothing here knows what becomes of one later.

use super::super::agents::{NamedAs, Profile, Registration};
use super::super::events::Event;
use super::super::io::{self, Effect, Outcome};
use super::super::limits::{
    MODEL_BYTES_MAX, PROFILE_BYTES_MAX, REASON_BYTES_MAX, TASK_BYTES_MAX, WORKER_DEPTH_MAX, WORKER_START_MS,
};
use super::super::names::{
    AgentName, CallId, DEFAULT_PROJECT, PERSON, RandomBytes, SessionId, WorkerId, shown,
};
use super::super::timers::Timer;
use super::super::{Engine, Step};
use super::{Asked, Became, Command, Last, Refusal, Reply, Stage, Start, Worker, WorkerView};

impl Engine {
    /// Carries a command out.
    pub(in super::super) fn about_workers(
        &mut self,
        session: SessionId,
        call: CallId,
        random: RandomBytes,
        command: Command,
        step: &mut Step<'_>,
    ) -> Result<Outcome, io::Refusal> {
        match command {
            Command::Spawn(asked) => self.spawn(session, call, random, *asked, step),
            Command::Release { from, name, reason } => Ok(self
                .release(session, from.as_deref(), &name, reason, step)?
                .into()),
            Command::List => {
                self.check_not_fenced(session)?;
                Ok(Reply::Listed(self.workers_seen_by(session)).into())
            }
        }
    }

    fn spawn(
        &mut self,
        session: SessionId,
        call: CallId,
        random: RandomBytes,
        asked: Asked,
        step: &mut Step<'_>,
    ) -> Result<Outcome, io::Refusal> {
        let Asked {
            from,
            name,
            cli,
            task,
            model,
            cwd,
        } = asked;
        if self.bounds.workers_max == 0 {
            return Err(Refusal::Off.into());
        }
        if self.stopping {
            return Err(io::Refusal::Stopping);
        }
        let parent = self
            .speaker(session, NamedAs::Sender, from.as_deref())?
            .into_agent();
        // A model gives an empty text where it means none.
        let model = model.filter(|model| !model.is_empty());
        let cwd = cwd.filter(|cwd| !cwd.is_empty());
        check_text("cli", Some(&cli), PROFILE_BYTES_MAX)?;
        check_text("model", model.as_deref(), MODEL_BYTES_MAX)?;
        check_text("cwd", cwd.as_deref(), PROFILE_BYTES_MAX)?;
        check_length("task", &task, TASK_BYTES_MAX)?;
        let (project, local) = self.home.parted(parent.project(), &name);
        if project != parent.project() && !parent.is_person() {
            let (given, own) = (shown(&name), parent.project().to_owned());
            return Err(Refusal::OtherProject { given, own }.into());
        }
        if local == PERSON {
            let given = shown(&name);
            return Err(Refusal::ThePersons { given }.into());
        }
        let registration = Registration {
            project: Some(project.to_owned()),
            name: local.to_owned(),
            profile: Profile {
                cli: Some(cli.clone()),
                parent: Some(parent.seen_from(project).into_owned()),
                cwd: cwd.clone(),
                ..Profile::default()
            },
            transient: true,
            ..Registration::default()
        };
        let agent = self.check_registration(&registration)?;
        self.check_is_free(&agent)?;
        let workers = self.workers.all.len();
        if workers >= self.bounds.workers_max {
            return Err(Refusal::TooMany { workers }.into());
        }
        let above = self.above(&parent);
        if above.len() > WORKER_DEPTH_MAX {
            let depth = WORKER_DEPTH_MAX;
            return Err(Refusal::TooDeep { depth }.into());
        }
        self.acts(session, &parent, step);
        let is_new = !self.agents.contains_key(&agent);
        let before = self.workers.last.get(&agent);
        let leaves_nothing = is_new || before.is_some_and(|before| before.leaves_nothing);
        let hands_on = self.workers.leaving.contains(&agent);
        let instance = self.begin_generation(&agent, registration, step);
        self.workers.made += 1;
        let worker = WorkerId(self.workers.made);
        let until = step.now.plus_millis(WORKER_START_MS);
        self.timers.arm(until, Timer::WorkerStarts(worker));
        let stage = Stage::Starting {
            call: Some((call, session)),
            until,
            spoke: false,
        };
        let state = Worker {
            agent: agent.clone(),
            stage,
        };
        self.workers.all.insert(worker, state);
        let last = Last {
            worker,
            above,
            spawned_at: step.now,
            leaves_nothing,
            hands_on,
            is_released: false,
            ended: None,
            random,
            news: 0,
        };
        self.workers.last.insert(agent.clone(), last);
        self.workers.leaving.remove(&agent);
        let became = Became::Asked { cli: cli.clone() };
        self.note_transition(&agent, became, false, step);
        let parent_cwd = self
            .agents
            .get(&parent)
            .and_then(|parent| parent.profile.cwd.clone());
        step.out.push(Effect::StartWorker(Box::new(Start {
            worker,
            agent,
            instance,
            parent,
            cli,
            task,
            model,
            cwd,
            parent_cwd,
        })));
        step.note(Event::SpawnWaits {
            call,
            session,
            worker,
        });
        Ok(Outcome::Parked)
    }

    /// Checks that a worker may have a name: it is nobody's, or that of one that has ended.
    fn check_is_free(&self, agent: &AgentName) -> Result<(), Refusal> {
        let agent = agent.clone();
        match self.workers.last.get(&agent) {
            Some(Last { ended: Some(_), .. }) => Ok(()),
            Some(last) => {
                let parent = last.parent().clone();
                let is_ending = self.workers.all[&last.worker].stage == Stage::Ending;
                Err(Refusal::Lives {
                    agent,
                    parent,
                    is_ending,
                })
            }
            None if self.agents.contains_key(&agent) => Err(Refusal::NotAWorker { agent }),
            None => Ok(()),
        }
    }

    /// Returns those who are above a worker that an agent asks for: the agent, and those above that.
    fn above(&self, parent: &AgentName) -> Vec<AgentName> {
        let of_parent = self.workers.last.get(parent);
        let of_parent = of_parent.into_iter().flat_map(|last| last.above.iter());
        let all = [parent].into_iter().chain(of_parent);
        all.take(WORKER_DEPTH_MAX + 1).cloned().collect()
    }

    fn release(
        &mut self,
        session: SessionId,
        from: Option<&str>,
        name: &str,
        reason: Option<String>,
        step: &mut Step<'_>,
    ) -> Result<Reply, io::Refusal> {
        let by = self.speaker(session, NamedAs::Sender, from)?.into_agent();
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        check_text("reason", reason.as_deref(), REASON_BYTES_MAX)?;
        let (project, local) = self.home.parted(by.project(), name);
        let Some(agent) = self.agent_in(project, local) else {
            return Err(self.unknown_worker(&by, name).into());
        };
        let Some(last) = self.workers.last.get(&agent) else {
            return Err(Refusal::NotAWorker { agent }.into());
        };
        let (worker, parent) = (last.worker, last.parent().clone());
        let is_above = by != agent && last.above.contains(&by);
        if !is_above && !self.sessions[&session].person {
            return Err(Refusal::NotYours { agent, parent }.into());
        }
        if last.ended.is_some() {
            return Err(Refusal::Ended { agent }.into());
        }
        self.acts(session, &by, step);
        self.let_worker_go(worker, &by, reason, step);
        Ok(Reply::Released {
            agent,
            parent,
            worker,
        })
    }

    fn unknown_worker(&self, by: &AgentName, given: &str) -> Refusal {
        let all = self.workers.all.values();
        // The person may end those of any project.
        let meant = all.filter(|worker| by.is_person() || worker.agent.project() == by.project());
        let known = meant.map(|worker| worker.agent.seen_from(by.project()).into_owned());
        Refusal::Unknown {
            given: shown(given),
            known: known.collect(),
        }
    }

    fn workers_seen_by(&self, session: SessionId) -> Vec<WorkerView> {
        let state = &self.sessions[&session];
        let own = state.agent.as_ref().map(AgentName::project);
        let own = own.unwrap_or(DEFAULT_PROJECT);
        let all = self.workers.last.iter();
        let seen = all.filter(|(agent, _)| state.person || agent.project() == own);
        seen.map(|(agent, last)| self.worker_view(agent, last)).collect()
    }

    /// Returns all workers that have not ended, in the order of their names.
    pub(in super::super) fn living_workers(&self) -> Vec<WorkerView> {
        let all = self.workers.last.iter();
        let living = all.filter(|(_, last)| last.ended.is_none());
        living
            .map(|(agent, last)| self.worker_view(agent, last))
            .collect()
    }

    fn worker_view(&self, agent: &AgentName, last: &Last) -> WorkerView {
        WorkerView {
            worker: last.worker,
            agent: agent.clone(),
            parent: last.parent().clone(),
            cli: self.agents[agent].profile.cli.clone(),
            spawned_at: self.on_the_wall(last.spawned_at),
            state: last
                .ended
                .clone()
                .unwrap_or_else(|| self.workers.all[&last.worker].stage.into()),
        }
    }
}

/// Checks that a text is one line, and not too long.
fn check_text(what: &'static str, text: Option<&str>, max: usize) -> Result<(), Refusal> {
    let Some(text) = text else {
        return Ok(());
    };
    check_length(what, text, max)?;
    match text.chars().any(char::is_control) {
        true => {
            let given = shown(text);
            Err(Refusal::NotALine { what, given })
        }
        false => Ok(()),
    }
}

fn check_length(what: &'static str, text: &str, max: usize) -> Result<(), Refusal> {
    let bytes = text.len();
    if text.trim().is_empty() {
        return Err(Refusal::Empty { what });
    }
    match bytes <= max {
        true => Ok(()),
        false => Err(Refusal::TooLong { what, bytes, max }),
    }
}
