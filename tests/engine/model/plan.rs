//! What a seed makes happen: bounds small enough to be hit, weights of its own, and inputs one by one.
//!
//! Looks at the effects only as a shell would, never into the state, so that a broken engine gets no other inputs.

mod actions;
mod backward;
mod calls;
mod end;
pub mod holds;
mod people;
mod silence;
mod words;

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;

use relay::engine::limits::{
    ACTIVE_MS, Bounds, DOUBT_LATE_MS_MAX, DOUBT_MS, IDEMPOTENCY_KEY_BYTES_MAX, IDEMPOTENCY_MS,
    RECENT_BYTES_MAX, THREAD_BYTES_MAX,
};
use relay::engine::mail::Second;
use relay::engine::{
    AgentName, CallId, Carrier, ClientId, Command, Effect, Ending, Input, Kind, MessageId, PERSON, RELAY,
    Recipient, Reply, Roster, SessionId, Sign, Timestamp, Who, agents, channels, groups, mail, trace,
};
use uuid::Uuid;

use crate::model::random::Random;
use actions::{ACTIONS, Action, QUIET_ACTIONS};
use backward::Backward;
use holds::Holding;
use silence::{SILENCES, Silent};

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// `handle` is called.
    Input(Input),
    /// `handle` is told what was seen of the reply to a call, or that its client gave it up while it waits.
    Seen(CallId, Sign),
    /// `handle_timeout` is called.
    Timeout,
}

/// Draws what happens next.
pub struct Plan {
    rng: Random,
    /// What the random bytes of calls are drawn from.
    random: Random,
    /// Who there is.
    pub roster: Roster,
    /// The project whose own the relay is.
    pub home: Option<&'static str>,
    /// The agents that had a session before the start, if that is known.
    pub had_sessions: Option<BTreeSet<AgentName>>,
    /// What is accepted.
    pub bounds: Bounds,
    /// The moment of the last event.
    pub now: Timestamp,
    /// How likely each action is, compared with the others.
    weights: [u64; ACTIONS.len()],
    /// How many commands in a hundred are illegal.
    illegal: u64,
    /// How many reads in a hundred ask for less than all.
    choosy: u64,
    /// How many posts in a hundred go to more than one agent.
    wide: u64,
    /// How many posts in a hundred belong to something.
    related: u64,
    /// How many of those wait for an answer, in a hundred.
    curious: u64,
    /// Before how many events in a hundred time passes.
    tempo: u64,
    /// How many times in a hundred something is acted on as soon as it is due.
    punctual: u64,
    /// How many replies in a hundred are passed before anything else happens.
    prompt: u64,
    /// How many times in a hundred bytes follow the latest passed reply before anything else happens.
    chatty: u64,
    /// How many times in a hundred nobody calls for a while, so that replies on streams stay in doubt.
    quiet: u64,
    /// For how many more events nobody calls.
    quiet_left: u64,
    /// One event in this many begins one of [`SILENCES`].
    silent_one_in: u64,
    /// What is left of a silence, and whose it is.
    silence: VecDeque<Silent>,
    silent: SessionId,
    /// How many times in a hundred the latest reply that told of the start is cancelled; if ever, it is not passed.
    unlucky: u64,
    /// How many reads in a hundred wait.
    patient: u64,
    /// One event in this many says that the relay is about to stop.
    stop_one_in: u64,
    /// How many times in a hundred the first agent is meant, whoever else there is.
    busy: u64,
    /// How many sessions in a hundred are bound to an agent.
    bound: u64,
    /// How many of those in a hundred register it.
    registering: u64,
    /// How many of those in a hundred are transient.
    transient: u64,
    /// How many sessions have registered an agent.
    registered: u64,
    /// Some posts that had a key.
    keyed: Vec<mail::Command>,
    /// The whole names of all agents that there ever were.
    names: Vec<String>,
    /// Some messages that were seen.
    seen: Vec<MessageId>,
    /// How many times an agent has asked who it or another is, or said something of a message instead.
    asked: usize,
    /// The session whose client says next who it is.
    unnamed: Option<SessionId>,
    /// How many reads there were, where their replies have little room.
    reads: Option<usize>,
    /// How many reads there were of those that may wait, where some wait past the start.
    waits: Option<usize>,
    /// What agents ask for again, if they do.
    asking: Option<Asking>,
    /// How many sessions in a hundred are the person's, and how many posts in a hundred go to it.
    person: u64,
    /// Turns counted numbers into ones that do not go up; 0 leaves them as they are.
    shuffle: u64,
    numbers: u64,
    /// What the person does about deliveries, if it does.
    holding: Option<Holding>,
    /// What is looked back at more often than otherwise, if it is.
    backward: Option<Backward>,
    /// The open sessions, with the agents that they are bound to, or the person that they belong to.
    open: Vec<(SessionId, Option<String>)>,
    /// The one that called last, open or not.
    latest: Option<SessionId>,
    /// Some that are closed or were not admitted.
    gone: Vec<SessionId>,
    /// The latest calls, whatever became of them.
    calls: Vec<CallId>,
    /// The latest calls whose replies had something in them.
    answered: Vec<CallId>,
    /// The latest replies with something in them that were not yet said to be passed.
    unpassed: Vec<CallId>,
    /// The latest calls that were said to be passed, and not yet to be followed by bytes.
    unfollowed: Vec<CallId>,
    /// The latest call whose reply told of the start.
    telling: Option<CallId>,
}

/// How agents have asked again.
#[derive(Default)]
struct Asking {
    /// How many reads there were.
    reads: usize,
    /// The message that was named the latest.
    after: Option<MessageId>,
}

/// How long a read may wait; one of them as long as a doubt, so that both can be due at the same moment.
const WAITS_MS: [u32; 5] = [1, 10, 1_000, DOUBT_MS as u32, 280_000];

/// 2026-05-02T14:30:00Z.
const START: Timestamp = Timestamp::from_millis(1_777_732_200_000);

/// Tells whether the replies of a seed's run have little room: not where bodies are so long that they would have thousands of parts.
pub fn has_rooms(seed: u64) -> bool {
    seed % 4 == 3 && !matches!(seed % 50, 7 | 32)
}

/// Tells whether agents name what they have seen last, in a seed's run.
pub fn asks_again(seed: u64) -> bool {
    matches!(seed % 8, 2 | 3)
}

/// Tells whether the relay of a seed's run is one project's own: so that nothing else is drawn for it, by the seed.
pub fn has_home(seed: u64) -> bool {
    seed % 10 == 5
}

impl Plan {
    /// Draws all that stays the same for a whole run.
    pub fn new(seed: u64) -> Self {
        let mut rng = Random::new(seed);
        let weights = ACTIONS.map(|action| match action {
            Action::Post => rng.pick(&[5, 15, 30]),
            Action::Read => rng.pick(&[20, 40]),
            Action::Open => rng.pick(&[4, 8]),
            Action::Pass => rng.pick(&[2, 2, 20, 40]),
            Action::Follow => rng.pick(&[0, 3, 10]),
            Action::KeepAlive => rng.pick(&[0, 4, 16]),
            Action::Close => rng.pick(&[1, 4, 8]),
            Action::Group => rng.pick(&[0, 3, 10]),
            Action::Pending
            | Action::Peek
            | Action::Look
            | Action::Lose
            | Action::Cancel
            | Action::Again
            | Action::FromNowhere
            | Action::OnClosed
            | Action::Timeout => rng.pick(&[0, 1, 3, 6]),
        });
        let short = rng.pick(&[1, 4, 16]);
        // By the seed, so that nothing else is drawn for it: three such bodies, or one alone, are more than anybody is known to have read.
        let body_bytes_max = match seed % 50 {
            7 => RECENT_BYTES_MAX / 2,
            32 => RECENT_BYTES_MAX + 1,
            _ => short,
        };
        let bounds = Bounds {
            body_bytes_max,
            inbox_messages_max: rng.pick(&[1, 3, 6, 20]),
            inbox_bytes_max: body_bytes_max + rng.index(60),
            read_max: rng.pick(&[1, 2, 4, 64]),
            awaited_max: 1_000,
            sessions_max: rng.pick(&[2, 4, 8, 12]),
            waits_max: rng.pick(&[0, 1, 4, 16]),
            agents_max: rng.pick(&[1, 4, 5, 7, 12]),
            projects_max: rng.pick(&[1, 2, 2, 3]),
            groups_max: rng.pick(&[1, 2, 4]),
            members_max: rng.pick(&[1, 2, 4]),
            description_bytes_max: 3,
            channels_max: rng.pick(&[1, 2, 4]),
            nodes_max: 1,
            actions_max: 1,
            invocations_max: 1,
            invocations_bytes_max: 1,
            idempotency_max: rng.pick(&[0, 1, 3, 50]),
            hops_max: rng.pick(&[0, 1, 3, 100]),
            trace_max: rng.pick(&[0, 3, 30, 32_768]),
            // By the seed, so that nothing else is drawn for it.
            trace_bytes_max: if seed.is_multiple_of(3) { 60 } else { usize::MAX },
            workers_max: 0,
            reactions_max: if seed.is_multiple_of(2) { 1 } else { 64 },
        };
        let names = ["pm", "dev-a", "dev-b", "qa"];
        let agents = 1 + rng.index(names.len());
        let names = &names[..agents];
        // By the seed, so that nothing else is drawn for it.
        let had_sessions = match seed % 5 {
            1 => Some(BTreeSet::new()),
            3 => {
                let names = names.iter().step_by(2).copied();
                Some(
                    names
                        .map(|name| AgentName::new(name).expect("a good name"))
                        .collect(),
                )
            }
            _ => None,
        };
        Self {
            roster: Roster::new(names.iter().copied()).expect("good names"),
            names: names.iter().map(ToString::to_string).collect(),
            home: has_home(seed).then_some("web"),
            had_sessions,
            bounds,
            now: START,
            weights,
            illegal: rng.pick(&[0, 3, 20]),
            choosy: rng.pick(&[0, 0, 10, 40]),
            wide: rng.pick(&[0, 10, 50, 90]),
            related: rng.pick(&[0, 20, 70]),
            curious: rng.pick(&[0, 30, 70]),
            tempo: rng.pick(&[3, 10, 40]),
            punctual: rng.pick(&[0, 50, 100]),
            prompt: rng.pick(&[0, 0, 60, 95]),
            chatty: rng.pick(&[0, 2, 60]),
            quiet: rng.pick(&[0, 1, 4]),
            quiet_left: 0,
            silent_one_in: 300,
            silence: VecDeque::new(),
            silent: SessionId(u64::MAX),
            unlucky: rng.pick(&[0, 2, 5]),
            patient: rng.pick(&[20, 60, 90]),
            stop_one_in: rng.pick(&[u64::MAX, 2_000]),
            busy: rng.pick(&[0, 50]),
            bound: rng.pick(&[0, 50, 100, 100]),
            registering: rng.pick(&[0, 40, 80]),
            transient: rng.pick(&[0, 10, 80]),
            registered: 0,
            keyed: Vec::new(),
            seen: Vec::new(),
            asked: 0,
            unnamed: None,
            reads: has_rooms(seed).then_some(0),
            // Of few seeds, so that the others do what they always did.
            waits: (seed % 8 == 5).then_some(0),
            asking: asks_again(seed).then(Asking::default),
            person: rng.pick(&[0, 10, 40]),
            shuffle: rng.pick(&[0, 0x3f, 0x155]),
            numbers: 0,
            holding: Holding::draw(seed),
            backward: Backward::draw(seed),
            open: Vec::new(),
            latest: None,
            gone: vec![SessionId(u64::MAX)],
            calls: vec![CallId(u64::MAX)],
            answered: vec![CallId(u64::MAX)],
            random: Random::new(!seed),
            unpassed: Vec::new(),
            unfollowed: Vec::new(),
            telling: None,
            rng,
        }
    }

    /// Draws the next event, at a moment not before the last one.
    pub fn next(&mut self, due: Option<Timestamp>) -> Event {
        if let Some(session) = self.unnamed.take() {
            // Of some there is one, and of some one for each session.
            let client = match session.0 % 8 {
                0 => "first".to_owned(),
                2 => "second".to_owned(),
                _ => format!("of {}", session.0),
            };
            let client = ClientId(client.into());
            return Event::Input(Input::Named { session, client });
        }
        if let Some(silent) = self.silence.pop_front() {
            return self.silent(silent);
        }
        if let Some(input) = self.holds().or_else(|| self.looks_back()) {
            return Event::Input(input);
        }
        if !self.open.is_empty() && self.rng.below(self.silent_one_in) == 0 {
            self.silent = self.open[self.rng.index(self.open.len())].0;
            self.silence = self.rng.pick(&SILENCES).iter().copied().collect();
        }
        self.pass_time(due);
        if due.is_some_and(|due| due <= self.now) && self.rng.percent(self.punctual) {
            return Event::Timeout;
        }
        if let Some(&call) = self.unpassed.last()
            && self.rng.percent(self.prompt)
        {
            self.unpassed.pop();
            return Event::Seen(call, Sign::Passed);
        }
        if let Some(&call) = self.unfollowed.last()
            && self.rng.percent(self.chatty)
        {
            self.unfollowed.pop();
            return Event::Seen(call, Sign::Followed);
        }
        if self.rng.percent(self.unlucky)
            && let Some(call) = self.telling.take()
        {
            return Event::Seen(call, Sign::Cancelled);
        }
        if self.rng.below(self.stop_one_in) == 0 {
            return Event::Input(Input::Stopping);
        }
        if self.quiet_left == 0 && self.rng.percent(self.quiet) {
            self.quiet_left = 1 + self.rng.below(40);
        }
        let mut action = if self.quiet_left == 0 {
            self.action()
        } else {
            self.quiet_left -= 1;
            self.rng.pick(&QUIET_ACTIONS)
        };
        if self.unpassed.is_empty() && matches!(action, Action::Pass | Action::Lose) {
            action = Action::Read;
        }
        let input = match action {
            Action::Open => self.opened(),
            Action::Close => self.closed(),
            Action::Post | Action::Read | Action::Pending | Action::Peek | Action::Look | Action::Group
                if self.open.is_empty() =>
            {
                self.opened()
            }
            Action::Post | Action::Read | Action::Pending | Action::Peek | Action::Look | Action::Group => {
                let (session, agent) = self.open[self.rng.index(self.open.len())].clone();
                self.call(action, session, agent.as_deref())
            }
            Action::Pass => return Event::Seen(self.unpassed(), Sign::Passed),
            Action::Follow => return Event::Seen(self.unfollowed(), Sign::Followed),
            Action::KeepAlive => Input::KeptAlive {
                session: match self.latest {
                    Some(session) if self.rng.percent(50) => session,
                    Some(_) | None => self.open_or_gone(),
                },
            },
            Action::Lose => return Event::Seen(self.unpassed(), Sign::Lost),
            Action::Cancel => return Event::Seen(self.rng.pick(&self.calls), Sign::Cancelled),
            Action::Again => {
                let latest = self.answered.len().saturating_sub(4);
                let call = if self.rng.percent(50) {
                    self.rng.pick(&self.answered[latest..])
                } else {
                    self.rng.pick(&self.calls)
                };
                return self.news(call);
            }
            Action::FromNowhere => {
                let call = CallId(u64::MAX - self.rng.below(3));
                return self.news(call);
            }
            Action::OnClosed => {
                let session = self.rng.pick(&self.gone);
                let action = self.rng.pick(&[Action::Post, Action::Read]);
                self.call(action, session, None)
            }
            Action::Timeout => return Event::Timeout,
        };
        Event::Input(input)
    }

    /// Takes note of what a shell would see.
    pub fn saw(&mut self, event: &Event, effects: &[Effect]) {
        match event {
            Event::Input(Input::Closed { session, .. }) => {
                self.open.retain(|(open, _)| open != session);
                remember(&mut self.gone, *session);
            }
            Event::Input(Input::Call { session, .. }) => self.latest = Some(*session),
            Event::Seen(call, Sign::Passed) => remember(&mut self.unfollowed, *call),
            Event::Input(_) | Event::Seen(..) | Event::Timeout => {}
        }
        for effect in effects {
            match effect {
                Effect::Opened {
                    session,
                    result: Ok(agent),
                } => {
                    // By its number, so that nothing is drawn.
                    self.unnamed =
                        Some(*session).filter(|session| self.reads.is_some() && session.0 % 2 == 0);
                    let agent = agent.as_ref().map(ToString::to_string);
                    if let Some(agent) = agent.as_ref().filter(|agent| !self.names.contains(agent)) {
                        self.names.push(agent.clone());
                    }
                    let opened = matches!(event, Event::Input(Input::Opened { who: Who::Person, .. }));
                    let person = opened.then(|| PERSON.to_owned());
                    self.open.push((*session, person.or(agent)));
                }
                Effect::Opened {
                    session,
                    result: Err(_),
                } => remember(&mut self.gone, *session),
                Effect::Reply {
                    call,
                    result:
                        Ok(Reply::Mail(mail::Reply::Messages {
                            deliveries,
                            restarted,
                            ..
                        })),
                    ..
                } => {
                    for delivery in deliveries.iter() {
                        remember(&mut self.seen, delivery.message.id);
                    }
                    if deliveries.is_empty() && restarted.is_none() {
                        continue;
                    }
                    remember(&mut self.answered, *call);
                    if restarted.is_some() && self.unlucky > 0 {
                        self.telling = Some(*call);
                    } else {
                        remember(&mut self.unpassed, *call);
                    }
                }
                Effect::Reply {
                    call,
                    result: Ok(Reply::AfterStart { reply, .. }),
                    ..
                } => {
                    remember(&mut self.answered, *call);
                    match self.unlucky {
                        0 => remember(&mut self.unpassed, *call),
                        _ => self.telling = Some(*call),
                    }
                    if let Reply::Mail(mail::Reply::Posted { id, to, .. }) = &**reply {
                        remember(&mut self.seen, *id);
                        self.backward
                            .iter_mut()
                            .for_each(|backward| backward.saw(*id, to));
                    }
                }
                Effect::Reply {
                    result: Ok(Reply::Mail(mail::Reply::Posted { id, to, .. })),
                    ..
                } => {
                    remember(&mut self.seen, *id);
                    self.backward
                        .iter_mut()
                        .for_each(|backward| backward.saw(*id, to));
                }
                Effect::Reply {
                    result: Ok(Reply::Holds(answer)),
                    ..
                } => self.holding.iter_mut().for_each(|holding| holding.saw(answer)),
                Effect::Reply { .. }
                | Effect::Changed { .. }
                | Effect::Deliver { .. }
                | Effect::Tell { .. }
                | Effect::Invoke { .. }
                | Effect::Superseded { .. }
                | Effect::StartWorker(_)
                | Effect::EndWorker { .. }
                | Effect::Note(_) => {}
            }
        }
    }

    fn pass_time(&mut self, due: Option<Timestamp>) {
        if !self.rng.percent(self.tempo) {
            return;
        }
        let due = due.unwrap_or(self.now);
        let at = match self.rng.below(8) {
            0 | 1 => self.now.plus_millis(1 + self.up_to(50)),
            2 => due.plus_millis(-1),
            3 => due,
            4 => due.plus_millis(DOUBT_LATE_MS_MAX),
            5 => due.plus_millis(DOUBT_LATE_MS_MAX + 1),
            6 => match self.up_to(400_000) {
                // By what was drawn, so that nothing else is: somebody has just been active, to the millisecond.
                ms if ms % 3 == 0 => self.now.plus_millis(ACTIVE_MS),
                ms => due.plus_millis(ms),
            },
            _ if self.rng.percent(10) => due.plus_millis(IDEMPOTENCY_MS),
            _ => due,
        };
        self.now = at.max(self.now);
    }

    fn closed(&mut self) -> Input {
        let session = self.open_or_gone();
        let ending = self.ending();
        Input::Closed { session, ending }
    }

    fn open_or_gone(&mut self) -> SessionId {
        if self.open.is_empty() || self.rng.percent(10) {
            self.rng.pick(&self.gone)
        } else {
            self.open[self.rng.index(self.open.len())].0
        }
    }

    fn ending(&mut self) -> Ending {
        self.rng.pick(&[Ending::Orderly, Ending::Broken])
    }

    /// Takes one of the replies that were not passed yet; there is at least one.
    fn unpassed(&mut self) -> CallId {
        let at = self.rng.index(self.unpassed.len());
        self.unpassed.remove(at)
    }

    /// Takes one of the calls that bytes may follow; now and then one that was not passed yet.
    fn unfollowed(&mut self) -> CallId {
        if !self.unpassed.is_empty() && self.rng.percent(20) {
            return self.rng.pick(&self.unpassed);
        }
        if self.unfollowed.is_empty() {
            return self.rng.pick(&self.calls);
        }
        let at = self.rng.index(self.unfollowed.len());
        self.unfollowed.remove(at)
    }

    fn news(&mut self, call: CallId) -> Event {
        let signs = [Sign::Passed, Sign::Followed, Sign::Cancelled, Sign::Lost];
        Event::Seen(call, self.rng.pick(&signs))
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers ^ self.shuffle
    }

    fn up_to(&mut self, ms: u64) -> i64 {
        i64::try_from(self.rng.below(ms)).expect("a few minutes")
    }
}

/// Keeps the latest few.
fn remember<T>(list: &mut Vec<T>, new: T) {
    if list.len() == 24 {
        list.remove(0);
    }
    list.push(new);
}
