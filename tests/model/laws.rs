//! The laws of the delivery contract, judged by the whole history of a run and by nothing else.
//!
//! They know neither the engine nor the model: what became of a reply is read off the inputs that came after it.

mod bounds;
mod history;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use relay::engine::limits::{Bounds, CANCEL_GRACE_MS, DOUBT_LATE_MS_MAX, DOUBT_MS};
use relay::engine::{
    AgentName, CallId, Carrier, Command, Delivery, Effect, Ending, Engine, Input, Message, MessageId,
    Refusal, Reply, Seq, SessionId, Sign, Status, Timestamp, Who, mail,
};

use crate::plan::Event;

use history::{Asked, Fate, History, Shown, asked_for};

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

/// Judges a history that ends with every inbox being read by a new session.
pub fn judge(steps: &[Step], bounds: &Bounds) -> Verdict {
    let history = History::of(steps);
    history.every_call_is_answered_once()?;
    history.every_wait_ends_in_time()?;
    history.what_is_refused_changes_nothing()?;
    history.a_session_speaks_only_for_whom_it_may()?;
    history.a_look_takes_nothing()?;
    history.what_is_accepted_is_what_was_posted()?;
    history.nothing_comes_from_thin_air()?;
    history.inboxes_are_first_in_first_out()?;
    history.a_message_is_repeated_only_after_an_undone_reply_and_says_so()?;
    history.the_start_is_told_until_it_is_known_to_have_arrived()?;
    history.nothing_is_lost()?;
    history.only_so_many_may_be_cancelled(bounds)?;
    history.bounds_hold_and_inboxes_use_all_their_room(bounds)
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

    fn every_wait_ends_in_time(&self) -> Verdict {
        let told = self.told();
        let waiting = Waiting::of(self);
        for (call, asked) in &self.calls {
            let wait_ms = match asked.command {
                Command::Mail(mail::Command::Read { wait_ms, .. }) if *wait_ms > 0 => i64::from(*wait_ms),
                Command::Mail(_) | Command::Agents(_) | Command::Groups(_) => 0,
            };
            let answered = asked.answers.first();
            if !self.was_open(asked.session, asked.step) || answered.is_some_and(|(at, _)| *at == asked.step)
            {
                continue;
            }
            let mut earlier = self.steps[..asked.step].iter();
            let stopping = earlier.any(|step| step.event == Event::Input(Input::Stopping));
            holds(asked.step, wait_ms > 0 && !stopping, || {
                format!("{call:?} may not wait, but was not answered at once")
            })?;
            let deadline = self.steps[asked.step].now.plus_millis(wait_ms);
            let ends = |step: &Step| {
                step.event == Event::Input(Input::Stopping)
                    || step.event == Event::Timeout && step.now >= deadline
            };
            let mut later = self.steps.iter().enumerate().skip(asked.step + 1);
            let due = later.find(|(_, step)| ends(step)).map(|(at, _)| at);
            let given_up = self.given_up(*call, asked);
            let ended = answered
                .map(|(at, _)| *at)
                .or(given_up)
                .unwrap_or(self.steps.len());
            holds(ended, due.is_none_or(|due| ended <= due), || {
                format!("{call:?} waited beyond its deadline")
            })?;
            let agent = self.speaker(asked.session, asked.command);
            let in_stead = agent
                .as_ref()
                .is_some_and(|agent| self.is_in_stead(asked.session, agent));
            for (at, step) in self.steps[..ended].iter().enumerate().skip(asked.step) {
                let left = match (&agent, asked_for(asked.command)) {
                    (Some(agent), (Some(from), _)) => waiting.any(at, agent, from),
                    (agent, _) => {
                        let mut pending = step.after.pending.iter();
                        pending.any(|(name, count)| Some(name) == agent.as_ref() && *count > 0)
                    }
                };
                holds(at, !left, || {
                    format!("{call:?} waits for something that is there")
                })?;
                let replies = agent.as_ref().and_then(|agent| told.get(agent));
                holds(at, in_stead || !is_start_to_be_told(replies, at), || {
                    format!("{call:?} waits while the start is to be told")
                })?;
            }
            let Some((
                at,
                Ok(Reply::Mail(mail::Reply::Messages {
                    deliveries,
                    restarted,
                    ..
                })),
            )) = answered
            else {
                continue;
            };
            let in_vain = deliveries.is_empty() && restarted.is_none();
            holds(
                *at,
                !in_vain || due == Some(*at) || self.supersedes(*at, asked),
                || format!("{call:?} was answered with nothing before its time"),
            )?;
        }
        Ok(())
    }

    /// Tells whether the event of a step is a newer wait of the same session for the same agent.
    fn supersedes(&self, at: usize, older: &Asked) -> bool {
        let Event::Input(Input::Call { session, command, .. }) = &self.steps[at].event else {
            return false;
        };
        let waits = matches!(command, Command::Mail(mail::Command::Read { wait_ms, .. }) if *wait_ms > 0);
        waits
            && *session == older.session
            && self.speaker(*session, command) == self.speaker(older.session, older.command)
    }

    fn what_is_refused_changes_nothing(&self) -> Verdict {
        for (at, step) in self.steps.iter().enumerate() {
            let refused = step.effects.iter().any(|effect| match effect {
                Effect::Opened { result, .. } => result.is_err(),
                Effect::Reply { result, .. } => result.is_err(),
                Effect::Note(_) => false,
            });
            holds(at, !refused || step.effects.len() == 1, || {
                "a refusal came with something else".to_owned()
            })?;
            holds(at, !refused || step.before == step.after, || {
                "a refusal changed something".to_owned()
            })?;
        }
        Ok(())
    }

    fn a_session_speaks_only_for_whom_it_may(&self) -> Verdict {
        for asked in self.calls.values() {
            let Some(admitted) = self.sessions.get(&asked.session) else {
                continue;
            };
            for (at, answer) in &asked.answers {
                let speaker = self.speaker(asked.session, asked.command);
                let its_own = admitted.agent.is_none() || admitted.agent == speaker;
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
                    Ok(Reply::Mail(mail::Reply::Seen { deliveries })) => {
                        for delivery in deliveries {
                            let mut accepted = self.accepted.iter();
                            let known =
                                accepted.any(|(when, message)| when < at && **message == delivery.message);
                            holds(
                                *at,
                                known
                                    && agent
                                        .as_ref()
                                        .is_some_and(|agent| is_to(&delivery.message, agent)),
                                || format!("a look showed {delivery:?}"),
                            )?;
                        }
                        deliveries.len()
                    }
                    Ok(
                        Reply::Mail(mail::Reply::Posted { .. } | mail::Reply::Messages { .. })
                        | Reply::Agents(_)
                        | Reply::Groups(_),
                    )
                    | Err(_) => continue,
                };
                let mut pending = step.after.pending.iter();
                let count = pending.find(|(name, _)| Some(name) == agent.as_ref());
                holds(*at, count.is_some_and(|(_, count)| *count == counted), || {
                    "a look counted wrongly".to_owned()
                })?;
                holds(*at, step.before == step.after, || {
                    "a look changed something".to_owned()
                })?;
            }
        }
        Ok(())
    }

    fn what_is_accepted_is_what_was_posted(&self) -> Verdict {
        let mut ids = BTreeSet::new();
        for asked in self.calls.values() {
            for (at, answer) in &asked.answers {
                let Ok(Reply::Mail(mail::Reply::Posted { id, .. })) = answer else {
                    continue;
                };
                let Command::Mail(mail::Command::Post { to, kind, body, .. }) = asked.command else {
                    return broken(*at, "something else than a post was answered as one");
                };
                let step = &self.steps[*at];
                let mut logged = self.accepted.iter().filter(|(accepted, _)| accepted == at);
                let (Some((_, message)), None) = (logged.next(), logged.next()) else {
                    return broken(*at, "a post was not logged once");
                };
                let same = message.id == *id
                    && Some(&message.from) == self.speaker(asked.session, asked.command).as_ref()
                    && message.to.as_str() == to
                    && message.kind == *kind
                    && message.body == *body
                    && message.ts == step.now;
                holds(*at, same, || {
                    format!("a post was accepted as something else: {message:?}")
                })?;
                holds(*at, ids.insert(*id), || "an id was given twice".to_owned())?;
            }
        }
        holds(0, ids.len() == self.accepted.len(), || {
            "something was accepted that nobody posted".to_owned()
        })
    }

    fn nothing_comes_from_thin_air(&self) -> Verdict {
        for shown in &self.shown {
            for delivery in shown.deliveries {
                let mut accepted = self.accepted.iter();
                let known = accepted.any(|(at, message)| *at <= shown.step && **message == delivery.message);
                holds(shown.step, known, || format!("{delivery:?} was never accepted"))?;
                holds(shown.step, is_to(&delivery.message, &shown.agent), || {
                    format!("{delivery:?} was shown to {}", shown.agent)
                })?;
            }
        }
        Ok(())
    }

    /// A read shows the oldest of what it asks for, so many as it asks for, in order, and counts what it leaves.
    fn inboxes_are_first_in_first_out(&self) -> Verdict {
        for (agent, _) in &self.steps[0].before.pending {
            let accepted = self.accepted.iter().filter(|(_, message)| is_to(message, agent));
            // What was not shown yet, or in a reply that failed in that step, in the order of the places.
            let mut left: BTreeMap<Seq, (usize, &Arc<Message>)> = accepted
                .zip(0..)
                .map(|((at, message), place)| (Seq(place), (*at, *message)))
                .collect();
            for shown in self.shown.iter().filter(|shown| shown.agent == *agent) {
                let waits = left.iter().filter(|(_, (since, _))| *since <= shown.step);
                let asked_for = waits
                    .clone()
                    .filter(|(_, (_, message))| shown.from.is_none_or(|from| message.from.as_str() == from));
                let expected: Vec<Seq> = asked_for.map(|(seq, _)| *seq).take(shown.limit).collect();
                let seqs: Vec<Seq> = shown.deliveries.iter().map(|d| d.seq).collect();
                holds(shown.step, seqs == expected, || {
                    format!("{seqs:?} were shown to {agent}, not {expected:?}")
                })?;
                let remaining = waits.count() - seqs.len();
                holds(shown.step, shown.remaining == remaining, || {
                    format!("{remaining} remain for {agent}, not {}", shown.remaining)
                })?;
                for delivery in shown.deliveries {
                    let (_, message) = left.remove(&delivery.seq).expect("it was to be shown");
                    holds(shown.step, message.id == delivery.message.id, || {
                        format!("{delivery:?} is in the place of {message:?}")
                    })?;
                    if let Fate::Failed(at) = shown.fate {
                        left.insert(delivery.seq, (at, message));
                    }
                }
            }
        }
        Ok(())
    }

    fn a_message_is_repeated_only_after_an_undone_reply_and_says_so(&self) -> Verdict {
        let mut last: BTreeMap<MessageId, Fate> = BTreeMap::new();
        for shown in &self.shown {
            for delivery in shown.deliveries {
                let before = last.insert(delivery.message.id, shown.fate);
                let right = match before {
                    None => !delivery.redelivered,
                    Some(Fate::Failed(at)) => delivery.redelivered && at <= shown.step,
                    Some(Fate::Open | Fate::Arrived(_)) => false,
                };
                holds(shown.step, right, || {
                    format!("{delivery:?} is shown after {before:?}")
                })?;
            }
        }
        Ok(())
    }

    fn the_start_is_told_until_it_is_known_to_have_arrived(&self) -> Verdict {
        let mut last: BTreeMap<&AgentName, Fate> = BTreeMap::new();
        for shown in &self.shown {
            let due = match last.get(&shown.agent) {
                _ if shown.in_stead => false,
                None => true,
                Some(Fate::Failed(at)) => *at <= shown.step,
                Some(Fate::Open | Fate::Arrived(_)) => false,
            };
            let started_at = self.steps[0].before.boot.started_at;
            holds(shown.step, shown.restarted == due.then_some(started_at), || {
                format!("{} is told of {:?}", shown.agent, shown.restarted)
            })?;
            if shown.restarted.is_some() {
                last.insert(&shown.agent, shown.fate);
            }
        }
        Ok(())
    }

    /// At the end every inbox is read, so that what was accepted arrived before or is in the last reply.
    fn nothing_is_lost(&self) -> Verdict {
        let mut last: BTreeMap<MessageId, (usize, Fate)> = BTreeMap::new();
        for shown in &self.shown {
            for delivery in shown.deliveries {
                last.insert(delivery.message.id, (shown.step, shown.fate));
            }
        }
        let end = self.steps.len();
        let reads = self.steps[0].before.pending.len();
        for (at, message) in &self.accepted {
            let there = match last.get(&message.id) {
                Some((_, Fate::Arrived(_))) => true,
                Some((step, Fate::Open)) => *step >= end - reads,
                Some((_, Fate::Failed(_))) | None => false,
            };
            holds(*at, there, || {
                format!("{message:?} is lost; {:?}", last.get(&message.id))
            })?;
        }
        Ok(())
    }
}

/// What waits in the inboxes, read off the replies.
struct Waiting<'a> {
    accepted: &'a [(usize, &'a Arc<Message>)],
    /// In which steps each message was shown, and what became of the reply.
    shown: BTreeMap<MessageId, Vec<(usize, Fate)>>,
}

impl<'a> Waiting<'a> {
    fn of(history: &'a History<'a>) -> Self {
        let mut shown: BTreeMap<MessageId, Vec<(usize, Fate)>> = BTreeMap::new();
        for reply in &history.shown {
            for delivery in reply.deliveries {
                let replies = shown.entry(delivery.message.id).or_default();
                replies.push((reply.step, reply.fate));
            }
        }
        let accepted = &history.accepted;
        Self { accepted, shown }
    }

    /// Tells whether a message of a sender waited for an agent when a step was done.
    fn any(&self, at: usize, agent: &AgentName, from: &str) -> bool {
        let earlier = self.accepted.iter().take_while(|(since, _)| *since <= at);
        let mut of_sender = earlier.filter(|(_, m)| is_to(m, agent) && m.from.as_str() == from);
        of_sender.any(|(_, message)| {
            let replies = self.shown.get(&message.id).into_iter().flatten();
            let mut replies = replies.filter(|(step, _)| *step <= at);
            replies.all(|(_, fate)| matches!(fate, Fate::Failed(failed) if *failed <= at))
        })
    }
}

/// Tells whether a message was sent to an agent.
fn is_to(message: &Message, agent: &AgentName) -> bool {
    message.to.as_str() == agent.as_str()
}

/// Tells whether an agent is to be told of the start after a step, by the replies that ever told it.
fn is_start_to_be_told(replies: Option<&Vec<(usize, Fate)>>, at: usize) -> bool {
    let mut replies = replies.into_iter().flatten().rev();
    match replies.find(|(step, _)| *step <= at) {
        None => true,
        Some((_, Fate::Failed(failed))) => *failed <= at,
        Some((_, Fate::Open | Fate::Arrived(_))) => false,
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
