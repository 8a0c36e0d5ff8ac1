//! Who comes, and as whom.

use relay::engine::agents::{Profile, Registration};
use relay::engine::limits::PROFILE_BYTES_MAX;

use super::*;

/// Who may be registered, beside the roster.
const REGISTERED: [&str; 7] = ["pm", "temp", "lead", "worker", "web:pm", "web:ui", "app:pm"];

/// Roles; some are agents' names, too, or groups.
pub(super) const ROLES: [&str; 4] = ["worker", "lead", "pm", "crew"];

impl Plan {
    /// Opens a session.
    pub(super) fn opened(&mut self) -> Input {
        let who = if self.rng.percent(self.person) {
            Who::Person
        } else if !self.rng.percent(self.bound) {
            Who::Agent(None)
        } else if self.rng.percent(self.registering) {
            Who::Registered(Box::new(self.registration()))
        } else if self.rng.percent(self.illegal) {
            Who::Agent(Some(self.stranger()))
        } else {
            Who::Agent(Some(self.agent()))
        };
        Input::Opened {
            session: SessionId(self.number()),
            carrier: self.rng.pick(&[Carrier::Stream, Carrier::Exchange]),
            who,
        }
    }

    fn registration(&mut self) -> Registration {
        self.registered += 1;
        let agent = if self.rng.percent(60) {
            self.agent()
        } else {
            self.rng.pick(&REGISTERED).to_owned()
        };
        let (project, name) = match agent.split_once(':') {
            Some((project, name)) => (Some(project.to_owned()), name.to_owned()),
            None => (None, agent),
        };
        // Instances are counted on slowly, so that some join, some take over and some come too late.
        let instance = u128::from(self.registered / 4 + self.rng.below(3));
        let role = self.rng.percent(80).then(|| self.rng.pick(&ROLES).to_owned());
        let module = self.rng.percent(20).then(|| "module".to_owned());
        let registration = Registration {
            project,
            name,
            profile: Profile {
                role,
                module,
                ..Profile::default()
            },
            instance: self.rng.percent(70).then(|| Uuid::from_u128(instance)),
            transient: self.rng.percent(self.transient),
            is_new: self.rng.percent(20),
        };
        if self.rng.percent(self.illegal) {
            return self.illegal_registration(registration);
        }
        registration
    }

    fn illegal_registration(&mut self, registration: Registration) -> Registration {
        let long = "x".repeat(PROFILE_BYTES_MAX + self.rng.index(2));
        let bad = self.rng.pick(&["", "a b", "agent", PERSON]).to_owned();
        match self.rng.below(4) {
            0 => Registration {
                name: bad,
                ..registration
            },
            1 => Registration {
                project: Some("*".to_owned()),
                ..registration
            },
            2 => Registration {
                profile: Profile {
                    cwd: Some(long),
                    ..registration.profile
                },
                ..registration
            },
            _ => Registration {
                profile: Profile {
                    role: Some("a b".to_owned()),
                    cli: Some(String::new()),
                    ..registration.profile
                },
                ..registration
            },
        }
    }
}
