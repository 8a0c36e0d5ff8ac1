//! The laws before histories that were spoiled: each law sees what is wrong with one, and says so.
//!
//! A history is honest until one thing in it is spoiled, which the engine that made it would not have done.

/// Names what is spoiled by how it is.
macro_rules! spoiling {
    ($spoil:ident, $law:ident, $says:literal $(,)?) => {
        (stringify!($spoil), $spoil, $law, $says)
    };
}

mod answers;
mod bounds;
mod inboxes;
mod posts;
mod waits;

use std::mem;

use crate::model::Run;

use super::*;

/// How many seeds are looked through for a history in which something can be spoiled.
const SEEDS: u64 = 60;

/// How many inputs each of them makes: few, for the laws look at each beside each.
const STEPS: usize = 400;

/// In how many histories the same is spoiled.
const HISTORIES: usize = 3;

/// Spoils a history in one place. None if it has no such place.
type Spoil = fn(&History<'_>, &mut Spoiled) -> Option<()>;

/// What is spoiled, and how; the law that must see it, and a part of what it says.
type Spoiling = (&'static str, Spoil, &'static str, &'static str);

/// A history, and the bounds by which it is judged.
#[derive(Clone)]
struct Spoiled {
    steps: Vec<Step>,
    bounds: Bounds,
    had_sessions: Option<BTreeSet<AgentName>>,
}

impl Spoiled {
    fn history(&self) -> History<'_> {
        History::of(&self.steps, self.had_sessions.as_ref())
    }
}

#[test]
fn whatever_is_spoiled_is_seen_by_the_law_that_is_about_it() {
    let honest: Vec<Spoiled> = (0..SEEDS).filter(|seed| may_judge(*seed)).map(honest).collect();
    let histories: Vec<History> = honest.iter().map(Spoiled::history).collect();
    let mut unseen = Vec::new();
    for (what, spoil, name, says) in spoilings() {
        let (_, law) = LAWS.iter().find(|(other, _)| *other == name).expect("a law");
        let spoiled = honest.iter().zip(&histories).filter_map(|(run, history)| {
            let mut spoiled = run.clone();
            spoil(history, &mut spoiled).map(|()| spoiled)
        });
        let mut many = 0;
        for spoiled in spoiled.take(HISTORIES) {
            many += 1;
            let said = law(&spoiled.history(), &spoiled.bounds);
            let said = said.err().map_or(String::new(), |broken| broken.law);
            if !said.contains(says) {
                unseen.push(format!(
                    "{what}: {name}: {says:?} in history {many}, but {said:?}"
                ));
            }
        }
        if many == 0 {
            unseen.push(format!("{what} is nowhere"));
        }
    }
    assert!(unseen.is_empty(), "{}", unseen.join("\n"));
}

#[test]
fn every_law_has_something_spoiled_that_it_sees() {
    for (name, _) in LAWS {
        let is_seen = spoilings().any(|(_, _, law, _)| law == name);
        assert!(is_seen, "{name:?} has nothing");
    }
}

fn spoilings() -> impl Iterator<Item = Spoiling> {
    [
        answers::SPOILINGS,
        waits::SPOILINGS,
        posts::SPOILINGS,
        inboxes::SPOILINGS,
        bounds::SPOILINGS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Runs a seed.
fn honest(seed: u64) -> Spoiled {
    let mut run = Run::new(seed);
    run.go_on(STEPS, |_, _| {});
    Spoiled {
        steps: mem::take(&mut run.steps),
        bounds: run.plan.bounds,
        had_sessions: run.plan.had_sessions.clone(),
    }
}

/// Where something is to be spoiled.
impl<'a> History<'a> {
    /// Finds a call that was answered, and in which step.
    fn answered(
        &self,
        fits: impl Fn(&Asked<'_>, usize, &Result<Reply, Refusal>) -> bool,
    ) -> Option<(usize, CallId)> {
        self.calls.iter().find_map(|(call, asked)| {
            let (at, answer) = asked.answers.first()?;
            fits(asked, *at, answer).then_some((*at, *call))
        })
    }

    /// Finds a reply to a read.
    fn reply(&self, fits: impl Fn(&Shown<'_>) -> bool) -> Option<&Shown<'a>> {
        let mut reads = self.shown.iter().filter(|shown| shown.is_read);
        reads.find(|shown| fits(shown))
    }

    /// Finds a message that was accepted: in which step, and who got it.
    fn post(
        &self,
        fits: impl Fn(usize, &Message, &[AgentName]) -> bool,
    ) -> Option<(usize, &'a Message, &'a [AgentName])> {
        let posted = self
            .posted
            .iter()
            .map(|(at, message, agents)| (*at, &***message, *agents));
        posted
            .into_iter()
            .find(|(at, message, agents)| fits(*at, message, agents))
    }

    /// Tells whether the relay was about to stop before a step.
    fn is_stopping(&self, at: usize) -> bool {
        let mut earlier = self.steps[..at].iter();
        earlier.any(|step| step.event == Event::Input(Input::Stopping))
    }

    fn asks(&self, shown: &Shown<'_>) -> &Asked<'a> {
        &self.calls[&shown.call]
    }
}

/// What is spoiled.
impl Spoiled {
    /// Goes through the effects of a step, of which most are listed twice.
    fn effects(&mut self, at: usize) -> impl Iterator<Item = &mut Effect> {
        let step = &mut self.steps[at];
        step.effects.iter_mut().chain(&mut step.all_effects)
    }

    fn add(&mut self, at: usize, effect: Effect) {
        self.steps[at].effects.push(effect.clone());
        self.steps[at].all_effects.push(effect);
    }

    /// Takes the effects out of a step that fit.
    fn take(&mut self, at: usize, fits: impl Fn(&Effect) -> bool) -> [Vec<Effect>; 2] {
        let step = &mut self.steps[at];
        [&mut step.effects, &mut step.all_effects]
            .map(|effects| effects.extract_if(.., |e| fits(e)).collect())
    }

    /// Takes the effects that fit from one step to another.
    fn bring(&mut self, from: usize, to: usize, fits: impl Fn(&Effect) -> bool) {
        let [effects, all_effects] = self.take(from, fits);
        self.steps[to].effects.extend(effects);
        self.steps[to].all_effects.extend(all_effects);
    }

    /// Has a call be answered in another step.
    fn answer_in(&mut self, (from, call): (usize, CallId), to: usize) {
        self.bring(from, to, |effect| is_answer(effect, call));
    }

    fn change_answer(&mut self, place: (usize, CallId), change: impl Fn(&mut Result<Reply, Refusal>)) {
        self.change_reply(place, |result| {
            if let Ok(Reply::AfterStart { started_at, reply }) = result {
                let mut answer = Ok((**reply).clone());
                change(&mut answer);
                let started_at = *started_at;
                *result = answer.map(|reply| Reply::AfterStart {
                    started_at,
                    reply: Box::new(reply),
                });
            } else {
                change(result);
            }
        });
    }

    /// Changes all that a reply says, the news of the start too.
    fn change_reply(&mut self, (at, call): (usize, CallId), change: impl Fn(&mut Result<Reply, Refusal>)) {
        for effect in self.effects(at).filter(|effect| is_answer(effect, call)) {
            if let Effect::Reply { result, .. } = effect {
                change(result);
            }
        }
    }

    /// Changes what a reply shows.
    fn change_shown(&mut self, shown: &Shown<'_>, change: impl Fn(&mut Vec<Delivery>)) {
        self.change_answer((shown.step, shown.call), |answer| {
            if let Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })) = answer {
                change(Arc::make_mut(deliveries));
            }
        });
    }

    /// Changes what was accepted in a step, and whose inboxes it is in.
    fn change_accepted(&mut self, at: usize, change: impl Fn(&mut Message, &mut Vec<AgentName>)) {
        for effect in self.effects(at) {
            if let Effect::Note(relay::engine::Event::Accepted { message, agents, .. }) = effect {
                change(Arc::make_mut(message), agents);
            }
        }
    }

    /// Changes what was asked for in a step.
    fn change_command(&mut self, at: usize, change: impl Fn(&mut Command)) {
        if let Event::Input(Input::Call { command, .. }) = &mut self.steps[at].event {
            change(command);
        }
    }

    /// Changes a read that was made in a step.
    fn change_read(&mut self, at: usize, change: impl Fn(&mut mail::Command)) {
        self.change_command(at, |command| {
            if let Command::Mail(command) = command {
                change(command);
            }
        });
    }
}

fn is_answer(effect: &Effect, call: CallId) -> bool {
    matches!(effect, Effect::Reply { call: answered, .. } if *answered == call)
}

fn is_accepted(effect: &Effect) -> bool {
    matches!(effect, Effect::Note(relay::engine::Event::Accepted { .. }))
}

/// Says something else instead.
fn reword(delivery: &mut Delivery) {
    Arc::make_mut(&mut delivery.message).body.push('!');
}
