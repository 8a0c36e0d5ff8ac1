//! The laws of the delivery contract, judged by the whole history of a run and by nothing else.
//!
//! They know neither the engine nor the model: what became of a reply is read off the inputs that came after it.

mod answers;
mod bounds;
mod entries;
mod history;
mod order;
mod posts;
mod recipients;
mod spoiled;
mod waits;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use relay::engine::limits::{
    Bounds, CANCEL_GRACE_MS, DOUBT_LATE_MS_MAX, DOUBT_MS, RECENT_BYTES_MAX, RECENT_MAX,
};
use relay::engine::watches::Watched;
use relay::engine::{
    AgentName, CallId, Carrier, ChannelName, Command, Delivery, Effect, Ending, Engine, Input, Message,
    MessageId, Recipient, Refusal, Reply, ResolvedBy, Seq, SessionId, Sign, Status, Timestamp, Who, agents,
    channels, mail, records,
};

use crate::model::plan::{self, Event};

use entries::{Asked, Copy, Fate, Inbox, Shown};
use history::History;
use wanted::wait_ms;

/// One event, and all that could be seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub now: Timestamp,
    pub event: Event,
    /// The same to the engine, which numbers its hand-overs.
    pub input: EngineInput,
    pub all_effects: Vec<Effect>,
    /// Those that concern a caller, without the numbers of hand-overs, and the messages that were accepted.
    pub effects: Vec<Effect>,
    pub before: Status,
    pub after: Status,
}

/// What an engine is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineInput {
    Input(Input),
    Timeout,
}

impl EngineInput {
    /// Tells an engine, and returns what it wants done.
    pub fn run(&self, engine: &mut Engine, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        match self {
            Self::Input(input) => engine.handle(now, input.clone(), &mut effects),
            Self::Timeout => engine.handle_timeout(now, &mut effects),
        }
        effects
    }
}

/// A law that does not hold.
#[derive(Debug)]
pub struct Broken {
    /// Where it was seen.
    pub step: usize,
    /// Which law, and by what.
    pub law: String,
}

type Verdict = Result<(), Broken>;

/// A law: what it is called, and what judges by it.
type Law = (&'static str, fn(&History<'_>, &Bounds) -> Verdict);

const ANSWERED: &str = "every call is answered once";
const WAITS: &str = "every wait ends in time";
const REFUSED: &str = "what is refused changes nothing";
const SPEAKS: &str = "a session speaks only for whom it may";
const LOOK: &str = "a look takes nothing";
const ALONE: &str = "a read that is to wait alone does";
const FENCED: &str = "a fenced session gets nothing";
const POSTED: &str = "what is accepted is what was posted";
const MEANT: &str = "who gets a message is who was meant when it was accepted";
const AWAITED: &str = "an answer goes to who asked";
const THIN_AIR: &str = "nothing comes from thin air";
const ORDER: &str = "inboxes are first in first out";
const EARLIER: &str = "what is shown as read was read";
const REPEATED: &str = "a message is repeated only after an undone reply and says so";
const START: &str = "the start is told until it is known to have arrived";
const LOST: &str = "nothing is lost";
const CANCELLED: &str = "only so many may be cancelled";
const BOUNDS: &str = "bounds hold and inboxes use all their room";

/// Goes from what others rest on to what rests on it.
const LAWS: [Law; 18] = [
    (ANSWERED, |history, _| history.every_call_is_answered_once()),
    (WAITS, |history, _| history.every_wait_ends_in_time()),
    (REFUSED, |history, _| history.what_is_refused_changes_nothing()),
    (SPEAKS, |history, _| {
        history.a_session_speaks_only_for_whom_it_may()
    }),
    (LOOK, |history, _| history.a_look_takes_nothing()),
    (ALONE, |history, _| history.a_read_that_is_to_wait_alone_does()),
    (FENCED, |history, _| history.a_fenced_session_gets_nothing()),
    (POSTED, |history, _| history.what_is_accepted_is_what_was_posted()),
    (MEANT, |history, _| {
        history.who_gets_a_message_is_who_was_meant_when_it_was_accepted()
    }),
    (AWAITED, |history, _| history.an_answer_goes_to_who_asked()),
    (THIN_AIR, |history, _| history.nothing_comes_from_thin_air()),
    (ORDER, |history, _| history.inboxes_are_first_in_first_out()),
    (EARLIER, |history, _| history.what_is_shown_as_read_was_read()),
    (REPEATED, |history, _| {
        history.a_message_is_repeated_only_after_an_undone_reply_and_says_so()
    }),
    (START, |history, _| {
        history.the_start_is_told_until_it_is_known_to_have_arrived()
    }),
    (LOST, |history, _| history.nothing_is_lost()),
    (CANCELLED, |history, bounds| {
        history.only_so_many_may_be_cancelled(bounds)
    }),
    (BOUNDS, |history, bounds| {
        history.bounds_hold_and_inboxes_use_all_their_room(bounds)
    }),
];

/// Tells whether the laws may judge the run of a seed: they know nothing of holds, of replies with little room, of what is asked for again, and no project by two names.
pub fn may_judge(seed: u64) -> bool {
    !plan::holds::is_held(seed) && !plan::has_home(seed) && !plan::has_rooms(seed) && !plan::asks_again(seed)
}

/// Judges a history that ends with every inbox being read by a new session.
pub fn judge(steps: &[Step], bounds: &Bounds, had_sessions: Option<&BTreeSet<AgentName>>) -> Verdict {
    let history = History::of(steps, had_sessions);
    LAWS.iter().try_for_each(|(_, law)| law(&history, bounds))
}

/// The laws.
impl History<'_> {
    fn every_call_is_answered_once(&self) -> Verdict {
        for (call, asked) in &self.calls {
            let law = |step, so, what| holds(step, so, || format!("{call:?} {what}"));
            let open = self.was_open(asked.session, asked.step);
            let given_up = self.given_up(*call, asked);
            law(
                asked.step,
                open || asked.answers.is_empty(),
                "was answered to nobody",
            )?;
            if let Some((second, _)) = asked.answers.get(1) {
                law(*second, false, "was answered twice")?;
            }
            match (asked.answers.first(), given_up) {
                (Some((answered, _)), Some(given_up)) => law(
                    *answered,
                    *answered < given_up,
                    "was answered after it was given up",
                )?,
                (None, None) => law(asked.step, !open, "was never answered")?,
                (Some(_), None) | (None, Some(_)) => {}
            }
        }
        Ok(())
    }

    /// What has waited may be refused as well, together with others; that is not meant here.
    fn what_is_refused_changes_nothing(&self) -> Verdict {
        for (at, step) in self.steps.iter().enumerate() {
            let refused = step.effects.iter().any(|effect| match (effect, &step.event) {
                (Effect::Opened { result, .. }, _) => result.is_err(),
                (Effect::Reply { call, result, .. }, Event::Input(Input::Call { call: asked, .. })) => {
                    call == asked && result.is_err()
                }
                (
                    Effect::Reply { .. }
                    | Effect::Changed { .. }
                    | Effect::Deliver { .. }
                    | Effect::Tell { .. }
                    | Effect::Invoke { .. }
                    | Effect::Superseded { .. }
                    | Effect::StartWorker(_)
                    | Effect::EndWorker { .. }
                    | Effect::Note(_),
                    _,
                ) => false,
            });
            // Who has gone meanwhile has done so without the call.
            let told_of_time = |effect: &&Effect| {
                let what = Watched::Agents;
                matches!(effect, Effect::Changed { what: told, .. } if *told == what && self.has_anybody_gone(at))
            };
            let others = step.effects.iter().filter(|effect| !told_of_time(effect));
            holds(at, !refused || others.count() == 1, || {
                "a refusal came with something else".to_owned()
            })?;
            holds(at, !refused || self.is_unchanged(at), || {
                "a refusal changed something".to_owned()
            })?;
        }
        Ok(())
    }

    /// Tells whether all was the same before and after a step, but for who has gone by then.
    fn is_unchanged(&self, at: usize) -> bool {
        let Step { before, after, .. } = &self.steps[at];
        let mut before = before.clone();
        before.pending.retain(|(name, _)| !self.has_gone(name, at));
        before == *after
    }

    fn a_session_speaks_only_for_whom_it_may(&self) -> Verdict {
        for asked in self.calls.values() {
            let Some(admitted) = self.sessions.get(&asked.session) else {
                continue;
            };
            for (at, answer) in &asked.answers {
                let speaker = self.speaker(asked.session, asked.command);
                let asks = if let Command::Resource(command) = asked.command {
                    command
                } else {
                    asked.command
                };
                let speaks = !matches!(
                    asks,
                    Command::Agents(_)
                        | Command::Channels(channels::Command::List { .. } | channels::Command::Get { .. })
                        | Command::Watches(_)
                        | Command::Receipts(_)
                        | Command::Trace(_)
                        | Command::Workers(_)
                        | Command::Surfacing(_)
                        | Command::Actions(_)
                        | Command::Holds(_)
                        | Command::Records(_)
                );
                let its_own = admitted.agent.is_none() || admitted.agent == speaker || !speaks;
                let persons = speaker.as_ref().is_some_and(AgentName::is_person);
                let right = answer.is_err() || its_own && (admitted.person || !persons);
                holds(*at, right, || format!("a session spoke for {speaker:?}"))?;
            }
        }
        Ok(())
    }

    fn a_look_takes_nothing(&self) -> Verdict {
        for asked in self.calls.values() {
            for (at, answer) in &asked.answers {
                let step = &self.steps[*at];
                let agent = self.speaker(asked.session, asked.command);
                let counted = match answer {
                    Ok(Reply::Mail(mail::Reply::Pending { kinds })) => kinds.len(),
                    Ok(Reply::Mail(mail::Reply::Seen {
                        deliveries,
                        remaining,
                        ..
                    })) => {
                        for delivery in deliveries {
                            let key = agent.as_ref().map(|agent| (agent, delivery.message.id));
                            let copy = self.accepted.iter().find(|copy| Some(copy.key()) == key);
                            let known = copy
                                .is_some_and(|copy| copy.step < *at && **copy.message == *delivery.message);
                            holds(*at, known, || format!("a look showed {delivery:?}"))?;
                        }
                        deliveries.len() + remaining
                    }
                    Ok(Reply::Mail(mail::Reply::Found { message })) => {
                        let key = agent.as_ref().map(|agent| (agent, message.id));
                        let copy = self.accepted.iter().find(|copy| Some(copy.key()) == key);
                        let known = copy.is_some_and(|copy| copy.step < *at && **copy.message == **message);
                        holds(*at, known && self.is_unchanged(*at), || {
                            format!("a look showed {message:?}")
                        })?;
                        continue;
                    }
                    Ok(
                        Reply::Mail(mail::Reply::Posted { .. } | mail::Reply::Messages { .. })
                        | Reply::Agents(_)
                        | Reply::Groups(_)
                        | Reply::Channels(_)
                        | Reply::Watches(_)
                        | Reply::Nodes(_)
                        | Reply::Receipts(_)
                        | Reply::Trace(_)
                        | Reply::Workers(_)
                        | Reply::Surfacing(_)
                        | Reply::Actions(_)
                        | Reply::Holds(_)
                        | Reply::Records(_)
                        | Reply::AfterStart { .. },
                    )
                    | Err(_) => continue,
                };
                let mut pending = step.after.pending.iter();
                let count = pending.find(|(name, _)| Some(name) == agent.as_ref());
                holds(*at, count.is_some_and(|(_, count)| *count == counted), || {
                    "a look counted wrongly".to_owned()
                })?;
                holds(*at, self.is_unchanged(*at), || {
                    "a look changed something".to_owned()
                })?;
            }
        }
        Ok(())
    }

    /// From the step on in which a later instance takes its agent over, a session is refused whatever it asked for.
    fn a_fenced_session_gets_nothing(&self) -> Verdict {
        for (call, asked) in &self.calls {
            let admitted = self.sessions.get(&asked.session);
            let Some(fenced) = admitted.and_then(|admitted| admitted.fenced) else {
                continue;
            };
            for (at, answer) in &asked.answers {
                holds(*at, *at < fenced || answer.is_err(), || {
                    format!("{:?} is fenced and was answered {answer:?}", asked.session)
                })?;
            }
            let waits = self.was_open(asked.session, fenced) && asked.step < fenced;
            let ended = asked.answers.first().is_some_and(|(at, _)| *at <= fenced);
            let given_up = self.given_up(*call, asked).is_some_and(|at| at < fenced);
            holds(fenced, !waits || ended || given_up, || {
                format!("{:?} is fenced and waits", asked.session)
            })?;
        }
        Ok(())
    }
}

fn late_by(due: Timestamp, now: Timestamp) -> i64 {
    now.as_millis() - due.as_millis()
}

fn holds(step: usize, so: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if so {
        return Ok(());
    }
    Err(Broken {
        step,
        law: otherwise(),
    })
}

fn broken(step: usize, law: &str) -> Verdict {
    holds(step, false, || law.to_owned())
}
