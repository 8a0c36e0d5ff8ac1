//! What agents and the person do in a run: they ask for workers, release them, and write to them.

use relay::engine::workers::{Asked, Command as Ask};
use relay::engine::{AgentName, CallId, Kind, SessionId, mail};

use super::{DEV, Next, PERSONS, PM, WORKER_NAMES, World};

impl World {
    /// Has one of those who are always there do something.
    pub(super) fn acts(&mut self) {
        let session = [PM, DEV, PERSONS][self.rng.usize(..3)];
        let Some(agent) = self.open.get(&session).cloned() else {
            return;
        };
        match self.rng.u8(..8) {
            0..=2 => self.spawns(session, &agent),
            3 => self.releases(session, &agent),
            4..=5 => self.posts(session, &agent),
            _ => {
                self.call(session, mail::Command::read_all(None, 0).into());
            }
        }
    }

    fn a_worker_name(&mut self) -> String {
        format!("w{}", self.rng.u64(..WORKER_NAMES))
    }

    pub(super) fn spawns(&mut self, session: SessionId, _: &AgentName) {
        let asked = Asked {
            name: self.a_worker_name(),
            cli: "claude".to_owned(),
            task: "a part".to_owned(),
            ..Asked::default()
        };
        let made = self.watch.processes.len();
        let call = self.call(session, Ask::Spawn(Box::new(asked)).into());
        if self.watch.processes.len() == made {
            return;
        }
        // The report may have been taken for it: a bug.
        if let Some(mut process) = self.watch.processes.last_entry() {
            process.get_mut().call = Some(call);
        }
        if self.rng.u8(..6) == 0 {
            self.later(2_000, Next::Gives(call));
        }
    }

    pub(super) fn releases(&mut self, session: SessionId, by: &AgentName) {
        let name = self.a_worker_name();
        let target = AgentName::new(&name)
            .ok()
            .and_then(|name| self.watch.last.get(&name).copied());
        let is_person = session == PERSONS;
        if let Some(worker) = target {
            let process = &self.watch.processes[&worker];
            let is_above = *by != process.name && process.above.contains(by);
            let may = is_person || is_above;
            let (ends, over, started) = (process.ends, process.over, process.started_at.is_some());
            let current = CallId(self.calls);
            self.releasing.insert(current, (worker, may));
            if may && !over && !self.watch.fenced.contains(&session) {
                let parent = process.above[0].clone();
                let process = self.watch.processes.get_mut(&worker).expect("it is there");
                process.released = true;
                process.ends = true;
                process.call = None;
                match (ends, started) {
                    (true, _) => self.hit("released while it ended"),
                    (false, false) => self.hit("released before it ran"),
                    (false, true) => self.hit("released"),
                }
                if !ends && parent != *by {
                    self.hit("released by who is above its parent");
                    self.watch.expects(worker, "released");
                }
            }
        }
        let command = Ask::Release {
            from: None,
            name,
            reason: None,
        };
        self.call(session, command.into());
    }

    pub(super) fn posts(&mut self, session: SessionId, _: &AgentName) {
        let to = match self.rng.u8(..8) {
            0 => "@everyone".to_owned(),
            1 => "pm".to_owned(),
            _ => self.a_worker_name(),
        };
        let command = mail::Command::Post {
            from: None,
            to,
            kind: Kind::Free,
            body: "a word".to_owned(),
            options: None,
        };
        self.call(session, command.into());
    }
}
