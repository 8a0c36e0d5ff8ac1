//! What happened in a run, indexed; it judges nothing.

use super::entries::{Admitted, Told};
use super::wanted::agent_of;
use super::*;

/// The steps, and an index of what happened in them.
pub(super) struct History<'a> {
    pub(super) steps: &'a [Step],
    pub(super) sessions: BTreeMap<SessionId, Admitted>,
    pub(super) calls: BTreeMap<CallId, Asked<'a>>,
    /// The messages that were accepted, with all who got them, in the order of acceptance.
    pub(super) posted: Vec<(usize, &'a Arc<Message>, &'a [AgentName])>,
    /// The copies of them, in the same order.
    pub(super) accepted: Vec<Copy<'a>>,
    pub(super) shown: Vec<Shown<'a>>,
    /// The answers to calls of tools, but for refusals, and to which agents they went.
    pub(super) told: Vec<Told<'a>>,
    /// The agents that had a session before the start, if that is known.
    pub(super) had_sessions: Option<&'a BTreeSet<AgentName>>,
    /// Which agents have gone, and in which steps: before anything else happened there.
    gone: Vec<(usize, &'a AgentName)>,
    /// In which step each session was fenced, as the instances say that were registered.
    fenced: BTreeMap<SessionId, usize>,
}

/// What no read has shown.
static NOTHING: Vec<Delivery> = Vec::new();

impl<'a> History<'a> {
    pub(super) fn of(steps: &'a [Step], had_sessions: Option<&'a BTreeSet<AgentName>>) -> Self {
        let mut history = Self {
            steps,
            sessions: BTreeMap::new(),
            calls: BTreeMap::new(),
            posted: Vec::new(),
            accepted: Vec::new(),
            shown: Vec::new(),
            told: Vec::new(),
            had_sessions,
            gone: gone(steps),
            fenced: fenced(steps),
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

    pub(super) fn note_input(&mut self, at: usize, input: &'a Input) {
        match input {
            Input::Call {
                session,
                call,
                command,
                ..
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
            | Input::Named { .. }
            | Input::Worker { .. }
            | Input::WallClock { .. }
            | Input::KeptAlive { .. }
            | Input::Cancelled { .. }
            | Input::Signed { .. }
            | Input::Stopping => {}
        }
    }

    pub(super) fn note_effect(&mut self, at: usize, step: &'a Step, effect: &'a Effect) {
        match effect {
            Effect::Opened { session, result } => {
                let Event::Input(Input::Opened { carrier, ref who, .. }) = step.event else {
                    return;
                };
                let Ok(agent) = result.clone() else { return };
                let admitted = Admitted {
                    carrier,
                    agent,
                    person: *who == Who::Person,
                    opened: at,
                    closed: None,
                    fenced: self.fenced.get(session).copied(),
                };
                self.sessions.insert(*session, admitted);
            }
            Effect::Note(relay::engine::Event::Accepted { message, agents, .. }) => {
                let number = self.posted.len();
                self.posted.push((at, message, agents));
                for agent in agents {
                    let inbox = (agent, self.life(agent, at));
                    self.accepted.push(Copy {
                        step: at,
                        inbox,
                        number,
                        message,
                    });
                }
            }
            Effect::Note(_)
            | Effect::Changed { .. }
            | Effect::Deliver { .. }
            | Effect::Tell { .. }
            | Effect::Invoke { .. }
            | Effect::StartWorker(_)
            | Effect::EndWorker { .. }
            | Effect::Superseded { .. } => {}
            Effect::Reply { call, result, .. } => self.note_reply(at, *call, result),
        }
    }

    pub(super) fn note_reply(&mut self, at: usize, call: CallId, result: &'a Result<Reply, Refusal>) {
        let Some(asked) = self.calls.get_mut(&call) else {
            return;
        };
        let (answer, news) = match result {
            Ok(Reply::AfterStart { started_at, reply }) => (Ok((**reply).clone()), Some(*started_at)),
            Ok(_) | Err(_) => (result.clone(), None),
        };
        let is_refused = answer.is_err();
        asked.answers.push((at, answer));
        let (session, command) = (asked.session, asked.command);
        if is_refused {
            return;
        }
        let Some(agent) = self.told_in(session, command) else {
            return;
        };
        let asked_in = self.calls[&call].step;
        let wanted = self.wanted(asked_in, session, command);
        let named = self.steps[at].after.pending.iter().map(|(name, _)| name);
        let Some(name) = named.clone().find(|name| **name == agent) else {
            return;
        };
        let inbox = (name, self.life(name, at));
        let messages = match result {
            Ok(Reply::Mail(mail::Reply::Messages {
                deliveries,
                restarted,
                remaining,
                earlier,
                ..
            })) => Some((&**deliveries, *restarted, *remaining, earlier)),
            Ok(_) | Err(_) => None,
        };
        let is_read = messages.is_some();
        let (deliveries, restarted, remaining, earlier) = messages.unwrap_or((&NOTHING, news, 0, &NOTHING));
        let in_stead = self.is_in_stead(session, &agent);
        let by_person = self
            .sessions
            .get(&session)
            .is_some_and(|admitted| admitted.person);
        let (fate, read) = match is_read || restarted.is_some() {
            true => self.fate(at, call, session),
            false => (Fate::Open, None),
        };
        self.told.push(Told {
            step: at,
            inbox,
            restarted,
            tells_nobody: in_stead || by_person && (!is_read || wanted.question.is_some()),
            fate,
        });
        if !is_read && restarted.is_none() {
            return;
        }
        self.shown.push(Shown {
            step: at,
            is_read,
            in_stead,
            call,
            inbox,
            agent,
            wanted,
            deliveries,
            remaining,
            earlier,
            restarted,
            fate,
            read,
        });
    }

    /// Finds out whom the answer to a tool's call tells something, if it shows that its agent is there.
    fn told_in(&self, session: SessionId, command: &Command) -> Option<AgentName> {
        match command {
            Command::Mail(mail::Command::Peek { .. } | mail::Command::Find { .. }) => None,
            Command::Mail(_) => self.speaker(session, command),
            Command::Groups(_)
            | Command::Channels(
                channels::Command::Make { .. }
                | channels::Command::Join { .. }
                | channels::Command::Leave { .. },
            )
            | Command::Agents(agents::Command::List { .. } | agents::Command::WhoAmI)
            | Command::Records(records::Command::Mark { .. } | records::Command::React { .. }) => {
                let admitted = self.sessions.get(&session)?;
                let person = admitted.person.then(AgentName::person);
                admitted.agent.clone().or(person)
            }
            Command::Agents(_)
            | Command::Channels(_)
            | Command::Watches(_)
            | Command::Nodes(_)
            | Command::Receipts(_)
            | Command::Trace(_)
            | Command::Workers(_)
            | Command::Surfacing(_)
            | Command::Actions(_)
            | Command::Holds(_)
            | Command::Resource(_)
            | Command::Records(_) => None,
        }
    }

    /// Tells whether a message of an agent's may be gone with an earlier run.
    pub(super) fn may_have_lost_something(&self, agent: &AgentName) -> bool {
        match self.had_sessions {
            None => true,
            Some(names) if agent.is_person() => !names.is_empty(),
            Some(names) => names.contains(agent),
        }
    }

    /// Tells whether a session is the person's and the inbox an agent's.
    pub(super) fn is_in_stead(&self, session: SessionId, agent: &AgentName) -> bool {
        let mut sessions = self.sessions.get(&session).into_iter();
        sessions.any(|admitted| admitted.person) && !agent.is_person()
    }

    /// Finds out for whom a call that was not refused speaks.
    pub(super) fn speaker(&self, session: SessionId, command: &Command) -> Option<AgentName> {
        let command = match command {
            Command::Resource(command) => return self.speaker(session, command),
            Command::Mail(command) => command,
            Command::Groups(_)
            | Command::Channels(
                channels::Command::Make { .. }
                | channels::Command::Join { .. }
                | channels::Command::Leave { .. },
            ) => {
                let admitted = self.sessions.get(&session)?;
                let person = admitted.person.then(AgentName::person);
                return admitted.agent.clone().or(person);
            }
            Command::Agents(_)
            | Command::Channels(_)
            | Command::Watches(_)
            | Command::Nodes(_)
            | Command::Receipts(_)
            | Command::Trace(_)
            | Command::Workers(_)
            | Command::Surfacing(_)
            | Command::Actions(_)
            | Command::Holds(_)
            | Command::Records(_) => return None,
        };
        let given = match command {
            mail::Command::Post { from, .. } => from,
            mail::Command::Read { agent, .. }
            | mail::Command::Pending { agent }
            | mail::Command::Peek { agent, .. }
            | mail::Command::Find { agent, .. } => agent,
        };
        let admitted = self.sessions.get(&session)?;
        if let Some(name) = given {
            let its_own = |bound: &&AgentName| name == bound.local();
            if let Some(bound) = admitted.agent.as_ref().filter(its_own) {
                return Some(bound.clone());
            }
            return agent_of("default", name);
        }
        if admitted.person {
            return Some(AgentName::person());
        }
        admitted.agent.clone()
    }

    /// Returns the hand-over in the answer to a call, which a step has given, if there is one.
    pub(super) fn handover(&self, reply: usize, call: CallId) -> Option<relay::engine::HandoverId> {
        let mut effects = self.steps[reply].all_effects.iter();
        effects.find_map(|effect| match effect {
            Effect::Reply {
                call: answered,
                handover,
                ..
            } if *answered == call => *handover,
            Effect::Reply { .. }
            | Effect::Opened { .. }
            | Effect::Changed { .. }
            | Effect::Deliver { .. }
            | Effect::Tell { .. }
            | Effect::Invoke { .. }
            | Effect::Superseded { .. }
            | Effect::StartWorker(_)
            | Effect::EndWorker { .. }
            | Effect::Note(_) => None,
        })
    }

    /// Reads off the inputs after a reply what became of it, and since when it was read. That its room was needed, by a post or by
    /// what was read later, is the one thing that is told by the effects; whether it was, the bounds' law says.
    pub(super) fn fate(
        &self,
        reply: usize,
        call: CallId,
        session: SessionId,
    ) -> (Fate, Option<(usize, Timestamp)>) {
        let Some(admitted) = self.sessions.get(&session) else {
            return (Fate::Open, None);
        };
        let handover = self.handover(reply, call);
        let gives_way = |step: &Step| {
            let needs_room = step.all_effects.iter().any(|effect| {
                matches!(
                    effect,
                    Effect::Note(relay::engine::Event::Accepted { .. } | relay::engine::Event::Read { .. })
                )
            });
            let confirmed = step.all_effects.iter().any(|effect| {
                matches!(effect, Effect::Note(relay::engine::Event::Confirmed { handover: id, .. }) if Some(*id) == handover)
            });
            needs_room && confirmed
        };
        let streamed = admitted.carrier == Carrier::Stream;
        let mut passed = false;
        // What a stream needs besides the other: the end of the doubt, and a keep-alive.
        let (mut doubted_until, mut kept_alive) = (None, false);
        let mut overdue_since = None;
        // The session has shown that it has read the reply, which counts if it does not cancel the call until then.
        let mut read: Option<(usize, Timestamp)> = None;
        for (at, step) in self.steps.iter().enumerate().skip(reply + 1) {
            if let Some((_, settles_at)) = read {
                if settles_at <= step.now || gives_way(step) {
                    return (Fate::Arrived(at), read);
                }
                match &step.event {
                    Event::Seen(seen, Sign::Cancelled) if *seen == call => return (Fate::Failed(at), read),
                    Event::Seen(..) | Event::Timeout | Event::Input(_) => continue,
                }
            }
            if admitted.fenced == Some(at) {
                return (Fate::Failed(at), None);
            }
            let input = match (&step.event, doubted_until) {
                (Event::Input(input), _) => input,
                (Event::Seen(seen, sign), _) if *seen == call => {
                    match sign {
                        Sign::Passed if !passed => {
                            passed = true;
                            doubted_until = Some(step.now.plus_millis(DOUBT_MS));
                        }
                        Sign::Followed if passed && !streamed => {
                            read = Some((at, step.now.plus_millis(CANCEL_GRACE_MS)));
                            if gives_way(step) {
                                return (Fate::Arrived(at), read);
                            }
                        }
                        Sign::Cancelled | Sign::Lost => return (Fate::Failed(at), None),
                        Sign::Passed
                        | Sign::Followed
                        | Sign::CalledAgain
                        | Sign::KeptAlive
                        | Sign::Acknowledged
                        | Sign::Listed
                        | Sign::Receipted
                        | Sign::Failed
                        | Sign::Deferred(_)
                        | Sign::DeferralOver
                        | Sign::GivenUp
                        | Sign::NotTaken
                        | Sign::Redriven
                        | Sign::Seen
                        | Sign::Unseen
                        | Sign::DoubtOver
                        | Sign::Fenced
                        | Sign::Settled
                        | Sign::Ended(_) => {}
                    }
                    continue;
                }
                (Event::Timeout, Some(ends)) if late_by(ends, step.now) > DOUBT_LATE_MS_MAX => {
                    (doubted_until, kept_alive) = (Some(step.now.plus_millis(DOUBT_MS)), false);
                    continue;
                }
                (Event::Timeout, Some(ends)) if ends <= step.now => {
                    if !streamed || kept_alive {
                        return (Fate::Arrived(at), None);
                    }
                    (doubted_until, overdue_since) = (None, Some(step.now));
                    continue;
                }
                (Event::Timeout | Event::Seen(..), _) => continue,
            };
            match input {
                Input::KeptAlive { session: kept } if *kept == session && passed && streamed => {
                    match (doubted_until, overdue_since) {
                        (None, Some(since)) if late_by(since, step.now) > DOUBT_MS + DOUBT_LATE_MS_MAX => {
                            doubted_until = Some(step.now.plus_millis(DOUBT_MS));
                            kept_alive = false;
                        }
                        (None, _) => return (Fate::Arrived(at), None),
                        (Some(_), _) => kept_alive = true,
                    }
                }
                Input::Call {
                    session: calling,
                    command,
                    ..
                } if *calling == session
                    && passed
                    && streamed
                    && !matches!(command, Command::Watches(_) | Command::Resource(_)) =>
                {
                    read = Some((at, step.now.plus_millis(CANCEL_GRACE_MS)));
                    if gives_way(step) {
                        return (Fate::Arrived(at), read);
                    }
                }
                Input::Closed {
                    session: closed,
                    ending,
                } if *closed == session => {
                    if !passed || streamed || *ending == Ending::Broken {
                        return (Fate::Failed(at), None);
                    }
                    read = Some((at, step.now.plus_millis(CANCEL_GRACE_MS)));
                    if gives_way(step) {
                        return (Fate::Arrived(at), read);
                    }
                }
                Input::Opened { .. }
                | Input::Named { .. }
                | Input::Closed { .. }
                | Input::Call { .. }
                | Input::Cancelled { .. }
                | Input::Signed { .. }
                | Input::Worker { .. }
                | Input::WallClock { .. }
                | Input::KeptAlive { .. }
                | Input::Stopping => {}
            }
        }
        // Nothing came that could have cancelled it.
        (read.map_or(Fate::Open, |_| Fate::Arrived(self.steps.len())), read)
    }

    /// Finds the step in which a call lost its right to an answer: it was dropped, or its session closed.
    pub(super) fn given_up(&self, call: CallId, asked: &Asked) -> Option<usize> {
        let dropped = |step: &Step| {
            matches!(&step.event, Event::Seen(seen, Sign::Cancelled | Sign::Lost) if *seen == call)
                || matches!(&step.event,
                Event::Input(Input::Closed { session, .. }) if *session == asked.session)
        };
        let mut later = self.steps.iter().enumerate().skip(asked.step + 1);
        later.find(|(_, step)| dropped(step)).map(|(at, _)| at)
    }

    /// For each agent, the replies that told it of the start.
    pub(super) fn told(&self) -> BTreeMap<Inbox<'a>, Vec<(usize, Fate)>> {
        let mut told: BTreeMap<Inbox<'a>, Vec<_>> = BTreeMap::new();
        for shown in self.shown.iter().filter(|shown| shown.restarted.is_some()) {
            let replies = told.entry(shown.inbox).or_default();
            replies.push((shown.step, shown.fate));
        }
        told
    }

    pub(super) fn was_open(&self, session: SessionId, at: usize) -> bool {
        let admitted = self.sessions.get(&session);
        admitted.is_some_and(|s| s.opened < at && s.closed.is_none_or(|closed| closed > at))
    }

    /// Counts how many times an agent had gone when a step was done.
    pub(super) fn life(&self, agent: &AgentName, at: usize) -> usize {
        let gone = self
            .gone
            .iter()
            .filter(|(step, gone)| *step <= at && *gone == agent);
        gone.count()
    }

    /// Tells whether an agent went in a step.
    pub(super) fn has_gone(&self, agent: &AgentName, at: usize) -> bool {
        self.gone.contains(&(at, agent))
    }

    /// Tells whether somebody has gone in a step.
    pub(super) fn has_anybody_gone(&self, at: usize) -> bool {
        self.gone.iter().any(|(gone_at, _)| *gone_at == at)
    }
}

fn gone(steps: &[Step]) -> Vec<(usize, &AgentName)> {
    let mut gone = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        for effect in &step.all_effects {
            if let Effect::Note(relay::engine::Event::Gone { agent }) = effect {
                gone.push((at, agent));
            }
        }
    }
    gone
}

/// Finds out which sessions are fenced: those that an agent had when a later instance of it was registered.
fn fenced(steps: &[Step]) -> BTreeMap<SessionId, usize> {
    let mut fenced = BTreeMap::new();
    let mut sessions: BTreeMap<SessionId, AgentName> = BTreeMap::new();
    let mut instances = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        for effect in &step.all_effects {
            if let Effect::Note(relay::engine::Event::Gone { agent }) = effect {
                instances.remove(agent);
            }
        }
        let opened = step.effects.iter().find_map(|effect| match effect {
            Effect::Opened { session, result } => Some((*session, result.as_ref().ok()?.clone()?)),
            Effect::Reply { .. }
            | Effect::Changed { .. }
            | Effect::Deliver { .. }
            | Effect::Tell { .. }
            | Effect::Invoke { .. }
            | Effect::Superseded { .. }
            | Effect::StartWorker(_)
            | Effect::EndWorker { .. }
            | Effect::Note(_) => None,
        });
        match (&step.event, opened) {
            (Event::Input(Input::Opened { who, .. }), Some((session, agent))) => {
                if let Who::Registered(registration) = who
                    && let Some(instance) = registration.instance
                    && instances.get(&agent).is_none_or(|before| *before < instance)
                {
                    instances.insert(agent.clone(), instance);
                    let older = sessions.iter().filter(|(_, of)| **of == agent);
                    fenced.extend(older.map(|(session, _)| (*session, at)));
                    sessions.retain(|_, of| *of != agent);
                }
                sessions.insert(session, agent);
            }
            (Event::Input(Input::Closed { session, .. }), _) => {
                sessions.remove(session);
            }
            (Event::Input(_) | Event::Seen(..) | Event::Timeout, _) => {}
        }
    }
    fenced
}
