//! The laws of the delivery contract, judged by the whole history of a run and by nothing else.
//!
//! They know neither the engine nor the model: what became of a reply is read off the inputs that came after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use relay::engine::limits::{Bounds, DOUBT_MS};
use relay::engine::{
    AgentName, CallId, Carrier, Command, Delivery, Effect, Ending, Input, Message, MessageId, Refusal, Reply,
    Seq, SessionId, Status, Timestamp,
};

use crate::plan::Event;

/// One event, and all that could be seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub now: Timestamp,
    pub event: Event,
    pub effects: Vec<Effect>,
    pub before: Status,
    pub after: Status,
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
    history.a_bound_session_speaks_for_its_agent_alone()?;
    history.a_look_takes_nothing()?;
    history.what_is_accepted_is_what_was_posted()?;
    history.nothing_comes_from_thin_air()?;
    history.inboxes_are_first_in_first_out()?;
    history.a_message_is_repeated_only_after_an_undone_reply_and_says_so()?;
    history.the_start_is_told_until_it_is_known_to_have_arrived()?;
    history.nothing_is_lost()?;
    history.bounds_hold_and_inboxes_use_all_their_room(bounds)
}

/// The steps, and an index of what happened in them.
struct History<'a> {
    steps: &'a [Step],
    sessions: BTreeMap<SessionId, Admitted>,
    calls: BTreeMap<CallId, Asked<'a>>,
    accepted: Vec<(usize, &'a Arc<Message>)>,
    shown: Vec<Shown<'a>>,
}

/// A session that was open.
struct Admitted {
    carrier: Carrier,
    agent: Option<AgentName>,
    opened: usize,
    closed: Option<usize>,
}

/// A call, on whatever session.
struct Asked<'a> {
    step: usize,
    session: SessionId,
    command: &'a Command,
    answers: Vec<(usize, &'a Result<Reply, Refusal>)>,
}

/// A reply to a read.
struct Shown<'a> {
    step: usize,
    agent: AgentName,
    deliveries: &'a VecDeque<Delivery>,
    restarted: Option<Timestamp>,
    fate: Fate,
}

/// What the inputs say about a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Nothing yet.
    Open,
    /// It arrived, as of that step.
    Arrived(usize),
    /// It did not arrive, as of that step.
    Failed(usize),
}

impl<'a> History<'a> {
    fn of(steps: &'a [Step]) -> Self {
        let mut history = Self {
            steps,
            sessions: BTreeMap::new(),
            calls: BTreeMap::new(),
            accepted: Vec::new(),
            shown: Vec::new(),
        };
        for (at, step) in steps.iter().enumerate() {
            if let Event::Input(input) = &step.event {
                history.note_input(at, input);
            }
            for effect in &step.effects {
                history.note_effect(at, step, effect);
            }
        }
        history
    }

    fn note_input(&mut self, at: usize, input: &'a Input) {
        match input {
            Input::Call {
                session,
                call,
                command,
            } => {
                let asked = Asked {
                    step: at,
                    session: *session,
                    command,
                    answers: Vec::new(),
                };
                self.calls.insert(*call, asked);
            }
            Input::Closed { session, .. } => {
                if let Some(admitted) = self.sessions.get_mut(session) {
                    admitted.closed.get_or_insert(at);
                }
            }
            Input::Opened { .. }
            | Input::Flushed { .. }
            | Input::Cancelled { .. }
            | Input::Lost { .. }
            | Input::Stopping => {}
        }
    }

    fn note_effect(&mut self, at: usize, step: &'a Step, effect: &'a Effect) {
        match effect {
            Effect::Opened { session, result } => {
                let Event::Input(Input::Opened { carrier, .. }) = step.event else {
                    return;
                };
                let Ok(agent) = result.clone() else { return };
                let admitted = Admitted {
                    carrier,
                    agent,
                    opened: at,
                    closed: None,
                };
                self.sessions.insert(*session, admitted);
            }
            Effect::Log { message } => self.accepted.push((at, message)),
            Effect::Reply { call, result } => self.note_reply(at, *call, result),
        }
    }

    fn note_reply(&mut self, at: usize, call: CallId, result: &'a Result<Reply, Refusal>) {
        let Some(asked) = self.calls.get_mut(&call) else {
            return;
        };
        asked.answers.push((at, result));
        let (session, command) = (asked.session, asked.command);
        let Ok(Reply::Messages {
            deliveries,
            restarted,
        }) = result
        else {
            return;
        };
        let Some(agent) = self.speaker(session, command) else {
            return;
        };
        self.shown.push(Shown {
            step: at,
            agent,
            deliveries,
            restarted: *restarted,
            fate: self.fate(at, call, session),
        });
    }

    /// Finds out for whom a call that was not refused speaks.
    fn speaker(&self, session: SessionId, command: &Command) -> Option<AgentName> {
        let given = match command {
            Command::Post { from, .. } => from,
            Command::Read { agent, .. } | Command::Pending { agent } => agent,
        };
        match given {
            Some(name) => AgentName::new(name).ok(),
            None => self.sessions.get(&session)?.agent.clone(),
        }
    }

    /// Reads off the inputs after a reply what became of it.
    fn fate(&self, reply: usize, call: CallId, session: SessionId) -> Fate {
        let Some(admitted) = self.sessions.get(&session) else {
            return Fate::Open;
        };
        let mut flushed: Option<Timestamp> = None;
        for (at, step) in self.steps.iter().enumerate().skip(reply + 1) {
            let input = match &step.event {
                Event::Input(input) => input,
                Event::Timeout => match flushed {
                    Some(since) if step.now >= since.plus_millis(DOUBT_MS) => return Fate::Arrived(at),
                    Some(_) | None => continue,
                },
            };
            match input {
                Input::Flushed { call: flushed_call } if *flushed_call == call => {
                    flushed.get_or_insert(step.now);
                }
                Input::Cancelled { call: failed } | Input::Lost { call: failed } if *failed == call => {
                    return Fate::Failed(at);
                }
                Input::Call { session: calling, .. } if *calling == session && flushed.is_some() => {
                    return Fate::Arrived(at);
                }
                Input::Closed {
                    session: closed,
                    ending,
                } if *closed == session => {
                    let carried = admitted.carrier == Carrier::Exchange && *ending == Ending::Orderly;
                    return if carried && flushed.is_some() {
                        Fate::Arrived(at)
                    } else {
                        Fate::Failed(at)
                    };
                }
                Input::Opened { .. }
                | Input::Closed { .. }
                | Input::Call { .. }
                | Input::Flushed { .. }
                | Input::Cancelled { .. }
                | Input::Lost { .. }
                | Input::Stopping => {}
            }
        }
        Fate::Open
    }

    /// Finds the step in which a call lost its right to an answer: it was dropped, or its session closed.
    fn given_up(&self, call: CallId, asked: &Asked) -> Option<usize> {
        let dropped = |step: &Step| {
            matches!(&step.event,
                Event::Input(Input::Cancelled { call: c } | Input::Lost { call: c }) if *c == call)
                || matches!(&step.event,
                Event::Input(Input::Closed { session, .. }) if *session == asked.session)
        };
        let mut later = self.steps.iter().enumerate().skip(asked.step + 1);
        later.find(|(_, step)| dropped(step)).map(|(at, _)| at)
    }

    fn was_open(&self, session: SessionId, at: usize) -> bool {
        let admitted = self.sessions.get(&session);
        admitted.is_some_and(|s| s.opened < at && s.closed.is_none_or(|closed| closed > at))
    }
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
        for (call, asked) in &self.calls {
            let wait_ms = match asked.command {
                Command::Read { wait_ms, .. } if *wait_ms > 0 => i64::from(*wait_ms),
                Command::Read { .. } | Command::Post { .. } | Command::Pending { .. } => 0,
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
            for (at, step) in self.steps[..ended].iter().enumerate().skip(asked.step) {
                let mut pending = step.after.pending.iter();
                let left = pending.any(|(name, count)| Some(name) == agent.as_ref() && *count > 0);
                holds(at, !left, || {
                    format!("{call:?} waits for something that is there")
                })?;
            }
            let Some((at, Ok(Reply::Messages { deliveries, .. }))) = answered else {
                continue;
            };
            let in_vain = deliveries.is_empty();
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
        let waits = matches!(command, Command::Read { wait_ms, .. } if *wait_ms > 0);
        waits
            && *session == older.session
            && self.speaker(*session, command) == self.speaker(older.session, older.command)
    }

    fn what_is_refused_changes_nothing(&self) -> Verdict {
        for (at, step) in self.steps.iter().enumerate() {
            let refused = step.effects.iter().any(|effect| match effect {
                Effect::Opened { result, .. } => result.is_err(),
                Effect::Reply { result, .. } => result.is_err(),
                Effect::Log { .. } => false,
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

    fn a_bound_session_speaks_for_its_agent_alone(&self) -> Verdict {
        for asked in self.calls.values() {
            let Some(admitted) = self.sessions.get(&asked.session) else {
                continue;
            };
            for (at, answer) in &asked.answers {
                let speaker = self.speaker(asked.session, asked.command);
                let right = answer.is_err() || admitted.agent.is_none() || admitted.agent == speaker;
                holds(*at, right, || format!("a bound session spoke for {speaker:?}"))?;
            }
        }
        Ok(())
    }

    fn a_look_takes_nothing(&self) -> Verdict {
        for asked in self.calls.values() {
            for (at, answer) in &asked.answers {
                let Ok(Reply::Pending { kinds }) = answer else {
                    continue;
                };
                let step = &self.steps[*at];
                let agent = self.speaker(asked.session, asked.command);
                let mut pending = step.after.pending.iter();
                let count = pending.find(|(name, _)| Some(name) == agent.as_ref());
                holds(*at, count.is_some_and(|(_, count)| *count == kinds.len()), || {
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
                let Ok(Reply::Posted { id }) = answer else {
                    continue;
                };
                let Command::Post { to, kind, body, .. } = asked.command else {
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
                holds(shown.step, delivery.message.to == shown.agent, || {
                    format!("{delivery:?} was shown to {}", shown.agent)
                })?;
            }
        }
        Ok(())
    }

    fn inboxes_are_first_in_first_out(&self) -> Verdict {
        for (agent, _) in &self.steps[0].before.pending {
            let accepted = self.accepted.iter().filter(|(_, message)| message.to == *agent);
            let places: BTreeMap<MessageId, Seq> = accepted
                .zip(0..)
                .map(|((_, message), at)| (message.id, Seq(at)))
                .collect();
            let mut first_shown = 0;
            for shown in self.shown.iter().filter(|shown| shown.agent == *agent) {
                let seqs: Vec<Seq> = shown.deliveries.iter().map(|d| d.seq).collect();
                holds(shown.step, seqs.is_sorted_by(|a, b| a < b), || {
                    format!("{seqs:?} is not in order")
                })?;
                for delivery in shown.deliveries {
                    let place = places.get(&delivery.message.id);
                    holds(shown.step, place == Some(&delivery.seq), || {
                        format!("{delivery:?} belongs to {place:?}")
                    })?;
                    let first = !delivery.redelivered;
                    holds(shown.step, !first || delivery.seq == Seq(first_shown), || {
                        format!("{delivery:?} is not the next one of {agent}, {first_shown}")
                    })?;
                    first_shown += u64::from(first);
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

/// What a message takes up, from its acceptance to its arrival.
struct Held<'a> {
    from: usize,
    to: usize,
    message: &'a Message,
}

/// The bounds.
impl History<'_> {
    fn bounds_hold_and_inboxes_use_all_their_room(&self, bounds: &Bounds) -> Verdict {
        for (at, step) in self.steps.iter().enumerate() {
            holds(at, step.after.sessions <= bounds.sessions_max, || {
                "more sessions than the bound".to_owned()
            })?;
        }
        let arrived = self.shown.iter().filter_map(|shown| match shown.fate {
            Fate::Arrived(at) => Some((at, shown)),
            Fate::Open | Fate::Failed(_) => None,
        });
        let arrived: BTreeMap<MessageId, usize> = arrived
            .flat_map(|(at, shown)| shown.deliveries.iter().map(move |d| (d.message.id, at)))
            .collect();
        let held = self.accepted.iter().map(|(from, message)| Held {
            from: *from,
            to: arrived.get(&message.id).copied().unwrap_or(usize::MAX),
            message,
        });
        let held: Vec<Held> = held.collect();
        for asked in self.calls.values() {
            let Command::Post { to, body, .. } = asked.command else {
                continue;
            };
            let Some((at, answer)) = asked.answers.first() else {
                continue;
            };
            let there = held
                .iter()
                .filter(|h| h.from < *at && *at < h.to && h.message.to.as_str() == to);
            let (messages, bytes) = there.fold((0, 0), |(messages, bytes), h| {
                (messages + 1, bytes + h.message.body.len())
            });
            let short = body.len() <= bounds.body_bytes_max;
            let room = messages < bounds.inbox_messages_max && bytes + body.len() <= bounds.inbox_bytes_max;
            let right = match answer {
                Ok(_) => short && room,
                Err(Refusal::BodyTooLong { .. }) => !short,
                Err(Refusal::InboxFull {
                    messages: messages_told,
                    bytes: bytes_told,
                    ..
                }) => !room && (*messages_told, *bytes_told) == (messages, bytes),
                Err(
                    Refusal::UnknownAgent { .. }
                    | Refusal::NotYou { .. }
                    | Refusal::Anonymous { .. }
                    | Refusal::TooManyWaits { .. }
                    | Refusal::TooManySessions { .. },
                ) => true,
            };
            holds(*at, right, || {
                format!("{body:?} met {messages} messages and {bytes} bytes, and was answered {answer:?}")
            })?;
        }
        Ok(())
    }
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
