//! The mistakes that are made on purpose, each of which a law must report.

use relay::engine::workers::Command as Ask;
use relay::engine::{AgentName, Command, Effect, Event, Input, Who, WorkerId};

/// A mistake that is made on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// What is said late of an earlier worker is taken for what a later one does.
    LateReportTaken,
    /// A worker is told to end, and nobody does anything about it.
    EndForgotten,
    /// A worker is told to end twice.
    EndedTwice,
    /// A worker is started twice.
    StartedTwice,
    /// Who has asked for a worker is not answered.
    AnswerLost,
    /// Who has asked for a worker is answered twice.
    AnsweredTwice,
    /// A parent is not told that its worker is ready.
    ReadyForgotten,
    /// A parent is told twice how its worker has ended.
    ToldTwice,
    /// What a released worker has not read stays with it.
    NotHandedOn,
    /// What was read by nobody is gone with the worker.
    LostAtRelease,
    /// A session of an earlier worker is let in as a later instance.
    OldLetIn,
    /// Anybody releases a worker.
    AnybodyReleases,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::LateReportTaken,
        Self::EndForgotten,
        Self::EndedTwice,
        Self::StartedTwice,
        Self::AnswerLost,
        Self::AnsweredTwice,
        Self::ReadyForgotten,
        Self::ToldTwice,
        Self::NotHandedOn,
        Self::LostAtRelease,
        Self::OldLetIn,
        Self::AnybodyReleases,
    ];

    /// Changes what goes into the engine. `latest` finds the worker that was started last under the name of another one.
    pub fn on_input(self, input: &mut Input, latest: impl Fn(WorkerId) -> Option<WorkerId>) {
        match (self, input) {
            (Self::LateReportTaken, Input::Worker { worker, .. }) => {
                *worker = latest(*worker).unwrap_or(*worker);
            }
            (
                Self::OldLetIn,
                Input::Opened {
                    who: Who::Registered(registration),
                    ..
                },
            ) => {
                registration.instance = registration.instance.map(|_| uuid::Uuid::max());
            }
            (
                Self::AnybodyReleases,
                Input::Call {
                    command: Command::Workers(Ask::Release { from, .. }),
                    session,
                    ..
                },
            ) => {
                *from = None;
                *session = super::world::PERSONS;
            }
            (_, _) => {}
        }
    }

    /// Changes what comes out of it.
    pub fn on_effects(self, effects: &mut Vec<Effect>, is_spawn: impl Fn(&Effect) -> bool) {
        let is_relays = |effect: &Effect, event: &str| {
            let Effect::Note(Event::Accepted { message, .. }) = effect else {
                return false;
            };
            let metadata = message
                .context
                .as_ref()
                .and_then(|context| context.metadata.as_deref());
            message.from == AgentName::relay() && metadata.is_some_and(|metadata| metadata.contains(event))
        };
        let is_end = |effect: &Effect| matches!(effect, Effect::EndWorker { .. });
        let is_start = |effect: &Effect| matches!(effect, Effect::StartWorker(_));
        let is_handed = |effect: &Effect| matches!(effect, Effect::Note(Event::HandedOn { .. }));
        match self {
            Self::EndForgotten => effects.retain(|effect| !is_end(effect)),
            Self::EndedTwice => twice(effects, is_end),
            Self::StartedTwice => twice(effects, is_start),
            Self::AnswerLost => effects.retain(|effect| !is_spawn(effect)),
            Self::AnsweredTwice => twice(effects, is_spawn),
            Self::ReadyForgotten => effects.retain(|effect| !is_relays(effect, "ready")),
            Self::ToldTwice => twice(effects, |effect| is_relays(effect, "exited")),
            Self::NotHandedOn => effects.retain(|effect| !is_handed(effect)),
            Self::LostAtRelease => {
                for effect in effects.iter_mut().filter(|effect| is_handed(effect)) {
                    if let Effect::Note(Event::HandedOn { to, .. }) = effect {
                        *to = AgentName::relay();
                    }
                }
            }
            Self::LateReportTaken | Self::OldLetIn | Self::AnybodyReleases => {}
        }
    }
}

/// Has what is meant come twice.
fn twice(effects: &mut Vec<Effect>, is_meant: impl Fn(&Effect) -> bool) {
    let copies: Vec<Effect> = effects
        .iter()
        .filter(|effect| is_meant(effect))
        .cloned()
        .collect();
    effects.extend(copies);
}
