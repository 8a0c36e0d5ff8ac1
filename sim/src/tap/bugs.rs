//! What it takes to be wrong in the ways that [`Bug`] names.

use std::sync::Arc;

use relay::engine::{
    AgentName, CallId, Carrier, ClientId, Command, DEFAULT_PROJECT, Delivery, Effect, Ending, HandoverId,
    Input, Message, MessageId, Recipient, Refusal, Reply, ResolvedBy, SessionId, Sign, Timestamp, Who,
    agents, mail,
};

use super::reads::NEVER_USED;
use super::{Bug, Standing, Tap};
use crate::plan::projects::whole;

/// The seeded bugs.
impl Tap {
    /// Spoils an input; returns whether it is to happen at all.
    pub(super) fn spoil_input(&mut self, now: Timestamp, input: &mut Input) -> bool {
        match input {
            Input::Call {
                session,
                call,
                random,
                command,
            } => {
                self.spoil_call(now, *session, command);
                if self.has(Bug::AnsweredByAnything) || self.has(Bug::AnswerLeftToOthers) {
                    self.ask_anybody(now, *session, *call, *random, command);
                }
            }
            Input::Cancelled { call } => {
                return !(self.has(Bug::WaitNotCancelled) && self.waits.contains_key(call));
            }
            Input::Signed {
                handover,
                sign: Sign::Cancelled | Sign::Lost,
            } => self.spoil_undo(now, &[*handover]),
            Input::Closed { session, ending } => {
                if self.has(Bug::SessionLeak) && self.every(3) {
                    return false;
                }
                let session = *session;
                let of_session = |s: &Standing| s.session == session && !s.read;
                let has_something = self.standing.values().any(of_session)
                    || self.waits.values().any(|wait| wait.session == session);
                if self.has(Bug::IdleSessionLeak) && !has_something {
                    return false;
                }
                let waiting = self.waits.values().filter(|wait| wait.session == session);
                let left: Vec<String> = waiting.map(|wait| wait.of.clone()).collect();
                self.left_waiting.extend(left);
                let orderly = *ending == Ending::Orderly
                    && self
                        .sessions
                        .get(&session)
                        .is_some_and(|(carrier, _)| *carrier == Carrier::Exchange);
                let standing = self.standing.iter().filter(|(_, s)| of_session(s));
                let undone = standing.filter(|(_, s)| !(orderly && s.passed));
                let handovers: Vec<HandoverId> = undone.map(|(handover, _)| *handover).collect();
                self.spoil_undo(now, &handovers);
            }
            Input::Stopping => return !self.has(Bug::StopIgnored),
            Input::Opened {
                who: Who::Registered(registration),
                ..
            } => self.spoil_registration(now, registration),
            Input::Named { client, .. } if self.has(Bug::ClientsAreOne) => *client = ClientId("one".into()),
            Input::Opened { .. }
            | Input::Named { .. }
            | Input::Signed { .. }
            | Input::KeptAlive { .. }
            | Input::WallClock { .. }
            | Input::Worker { .. } => {}
        }
        true
    }

    /// Refuses the first post to each role, where a bound is small enough to be hit.
    pub(super) fn refuses(&mut self, input: &Input) -> Option<Effect> {
        let Input::Call {
            call,
            command: Command::Mail(mail::Command::Post { to, body, .. }),
            ..
        } = input
        else {
            return None;
        };
        let bounds = self.knows.bounds;
        let tight = bounds.inbox_messages_max < 10_000 && body.len() <= bounds.body_bytes_max;
        let pending = self.engine.status().pending;
        let (agent, _) = pending.into_iter().find(|(name, _)| name.as_str() == to)?;
        if !self.has(Bug::FullTooEarly) || !tight || !self.refused.insert(to.clone()) {
            return None;
        }
        let refusal = Refusal::Mail(mail::Refusal::InboxFull {
            agent,
            messages: 0,
            bytes: 0,
            messages_max: bounds.inbox_messages_max,
            bytes_max: bounds.inbox_bytes_max,
        });
        Some(Effect::Reply {
            call: *call,
            result: Err(refusal),
            handover: None,
        })
    }

    fn spoil_call(&mut self, now: Timestamp, session: SessionId, command: &mut Command) {
        let bound = self.sessions.get(&session).and_then(|(_, agent)| agent.clone());
        if self.has(Bug::ConfirmedComesBack) {
            let standing = self.standing.values();
            let confirmed = standing.filter(|s| s.session == session && s.passed && !s.read);
            let first = confirmed.filter_map(|s| s.deliveries.first().filter(|first| is_for_one(first)));
            self.kept
                .extend(first.map(|d| (d.message.to.to_string(), d.clone())));
        }
        if self.has(Bug::PipelinedConfirms) {
            let standing = self.standing.iter();
            let before = standing.filter(|(_, s)| s.session == session && s.passed);
            for handover in before.map(|(handover, _)| *handover).collect::<Vec<_>>() {
                let sign = Sign::Followed;
                self.make_up(now, Input::Signed { handover, sign });
            }
        }
        self.mistake_projects(bound.as_deref(), command);
        self.mistake_what_is_asked_again(command);
        match command {
            Command::Mail(mail::Command::Post { from, .. })
                if self.has(Bug::BindingIgnored) && bound.is_some() =>
            {
                *from = bound
            }
            Command::Mail(mail::Command::Read { agent, .. })
                if self.has(Bug::LeakToOtherRole) && bound.is_none() =>
            {
                if self.every(4) {
                    let pending = self.engine.status().pending;
                    let full = pending.into_iter().find(|(_, count)| *count > 0);
                    *agent = full.map(|(name, _)| name.to_string()).or_else(|| agent.take());
                }
            }
            Command::Mail(mail::Command::Read { wait_ms, .. })
                if self.has(Bug::WaitEndsEarly) && *wait_ms > 1_500 =>
            {
                *wait_ms -= 1_000
            }
            Command::Mail(mail::Command::Read {
                options: Some(options),
                ..
            }) if self.has(Bug::SenderIgnored) => options.from = None,
            Command::Mail(mail::Command::Post {
                options: Some(options),
                ..
            }) if self.has(Bug::TurnsNotCounted) => {
                options.reply_to = None;
                options.thread = None;
            }
            Command::Mail(mail::Command::Read {
                options: Some(options),
                ..
            }) if self.has(Bug::FilterForgets) || self.has(Bug::FilterReorders) => {
                self.widen(options);
            }
            Command::Mail(mail::Command::Read {
                options: Some(options),
                ..
            }) if self.has(Bug::ReadDoesNotJoin) && options.channel.is_some() => {
                options.channel = Some(NEVER_USED.to_owned());
            }
            Command::Mail(mail::Command::Read { room, .. }) if self.has(Bug::RoomIgnored) => *room = None,
            Command::Mail(mail::Command::Read { second, .. }) if self.has(Bug::WaitsBeside) => {
                *second = mail::Second::Supersedes;
            }
            Command::Mail(_)
            | Command::Agents(_)
            | Command::Groups(_)
            | Command::Channels(_)
            | Command::Watches(_)
            | Command::Resource(_)
            | Command::Nodes(_)
            | Command::Receipts(_)
            | Command::Trace(_)
            | Command::Workers(_)
            | Command::Surfacing(_)
            | Command::Actions(_)
            | Command::Holds(_)
            | Command::Records(_) => {}
        }
    }

    /// Does something else to those whom a later instance takes over.
    fn spoil_registration(&mut self, now: Timestamp, registration: &mut agents::Registration) {
        let Some(instance) = registration.instance else {
            return;
        };
        let project = registration.project.as_deref().unwrap_or(DEFAULT_PROJECT);
        let agent = whole(project, &registration.name);
        let before = self.instances.get(&agent).copied();
        self.instances.insert(
            agent.clone(),
            before.map_or(instance, |before| before.max(instance)),
        );
        if self.has(Bug::FenceIgnored) {
            registration.instance = None;
        }
        if before.is_none_or(|before| before >= instance) {
            return;
        }
        let is_own = |s: &Standing| {
            let of = self.sessions.get(&s.session).and_then(|(_, of)| of.as_deref());
            of == Some(agent.as_str()) && !s.read
        };
        let standing = self.standing.iter().filter(|(_, s)| is_own(s));
        let handovers: Vec<HandoverId> = standing.map(|(handover, _)| *handover).collect();
        for handover in handovers {
            if self.has(Bug::FenceIgnored) {
                let sign = Sign::Lost;
                self.make_up(now, Input::Signed { handover, sign });
            }
        }
    }

    /// Does something else to the hand-overs that are about to be undone.
    fn spoil_undo(&mut self, now: Timestamp, handovers: &[HandoverId]) {
        for handover in handovers {
            let Some(standing) = self.standing.get(handover) else {
                continue;
            };
            let deliveries = Arc::clone(&standing.deliveries);
            // One that tells of a start breaks another law, too.
            // Another law counts the copies of what goes to several.
            if self.has(Bug::DropOnUndo) && !standing.notice && deliveries.iter().all(is_for_one) {
                self.confirm(now, *handover);
            }
            if self.has(Bug::DuplicateOnUndo) {
                let again = deliveries.iter().filter(|d| is_for_one(d)).map(|d| {
                    (
                        d.message.to.to_string(),
                        Delivery {
                            redelivered: true,
                            ..d.clone()
                        },
                    )
                });
                self.kept.extend(again);
            }
        }
    }

    /// Makes the engine believe that a reply has arrived, whatever carries it.
    fn confirm(&mut self, now: Timestamp, handover: HandoverId) {
        for sign in [Sign::Passed, Sign::Followed, Sign::CalledAgain] {
            self.make_up(now, Input::Signed { handover, sign });
        }
    }

    pub(super) fn spoil_effects(
        &mut self,
        now: Timestamp,
        own: Option<(SessionId, CallId)>,
        post: Option<Command>,
        effects: &mut Vec<Effect>,
    ) {
        if self.has(Bug::WakeUpLost) {
            let own = own.map(|(_, call)| call);
            let every = self.every(2);
            effects.retain(|effect| !every || !matches!(effect, Effect::Reply { call, result: Ok(Reply::Mail(mail::Reply::Messages { .. })), .. } if Some(*call) != own));
        }
        if self.has(Bug::EmptyNotAnswered) && now >= self.knows.drained_from {
            effects.retain(|effect| !matches!(effect, Effect::Reply { result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })), .. } if deliveries.is_empty()));
        }
        for effect in effects.iter_mut() {
            let Effect::Reply {
                call,
                mut result,
                handover,
            } = effect.clone()
            else {
                continue;
            };
            if let Some((to, ms)) = self.asks.remove(&call)
                && matches!(&result, Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })) if deliveries.is_empty())
            {
                result = Err(Refusal::Mail(mail::Refusal::NoAnswer { to, ms }));
            }
            let mut handover = handover;
            if let Ok(Reply::AfterStart { reply, .. }) = &result {
                match (self.bug, handover) {
                    (Some(Bug::NoticeMissing), _) => result = Ok((**reply).clone()),
                    (Some(Bug::NoticeLeftToReads), Some(lost)) => {
                        result = Ok((**reply).clone());
                        let sign = Sign::Lost;
                        self.make_up(now, Input::Signed { handover: lost, sign });
                        handover = None;
                    }
                    _ => {}
                }
            }
            match &mut result {
                Ok(Reply::Mail(mail::Reply::Messages {
                    deliveries,
                    restarted,
                    part,
                    ..
                })) => {
                    let mut shown = Vec::clone(deliveries);
                    self.disguise(&mut shown);
                    self.spoil_reply(&mut shown);
                    if self.has(Bug::CopyToSender) && own.is_some_and(|(_, own)| own == call) {
                        self.copy_to_sender(&mut shown);
                    }
                    if own.is_some_and(|(_, own)| own == call) {
                        self.narrow(&mut shown);
                    }
                    if part.is_none() && own.is_some_and(|(_, own)| own == call) {
                        self.bring_twice(&mut shown);
                    }
                    if self.has(Bug::NewestHeldBack) || self.has(Bug::OldestHeldBack) {
                        self.hold_back(call, own, &mut shown);
                    }
                    *deliveries = Arc::new(shown);
                    match self.bug {
                        Some(Bug::NoticeMissing) => *restarted = None,
                        Some(Bug::NoticeRepeated) => *restarted = Some(self.started_at),
                        _ => {}
                    }
                    if self.has(Bug::ConfirmedTooEarly)
                        && let Some(handover) = handover
                    {
                        self.confirm(now, handover);
                    }
                }
                Err(Refusal::Mail(mail::Refusal::InboxFull { .. })) if self.has(Bug::SilentDropWhenFull) => {
                    result = Ok(Reply::Mail(mail::Reply::Posted {
                        id: MessageId(uuid::Uuid::nil()),
                        given: Box::default(),
                        to: Recipient::agent(&AgentName::person()),
                        ts: now,
                        thread: None,
                        warnings: Box::default(),
                        absence: None,
                    }));
                }
                Err(Refusal::Mail(mail::Refusal::BodyTooLong { .. })) if self.has(Bug::RefusedButPosted) => {
                    self.post_anyway(now, own, post.clone());
                }
                Err(Refusal::Agents(
                    agents::Refusal::Unknown { name, .. } | agents::Refusal::UnknownAddress { name, .. },
                )) if self.has(Bug::RefusalMisnames) => {
                    *name = "somebody".to_owned();
                }
                Ok(Reply::Mail(
                    mail::Reply::Posted { .. }
                    | mail::Reply::Pending { .. }
                    | mail::Reply::Seen { .. }
                    | mail::Reply::Found { .. },
                ))
                | Ok(
                    Reply::Agents(_)
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
                | Err(_) => {}
            }
            *effect = Effect::Reply {
                call,
                result,
                handover,
            };
        }
    }

    fn spoil_reply(&mut self, shown: &mut Vec<Delivery>) {
        match self.bug {
            Some(Bug::OneLeftOut)
                if shown.len() >= 2 && self.reads.as_deref().is_some_and(|of| of.starts_with("role")) =>
            {
                // What crosses from one project to another is another law's.
                let is_its_own = |message: &Message| message.from.project() == DEFAULT_PROJECT;
                let is_left_out =
                    |message: &Message| message.to.as_str() == "@everyone" && is_its_own(message);
                shown.retain(|delivery| !is_left_out(&delivery.message));
            }
            Some(Bug::Lifo) => shown.reverse(),
            Some(Bug::UndoUnmarked) => shown.iter_mut().for_each(|delivery| delivery.redelivered = false),
            Some(Bug::AskedAgainUnmarked) => self.again.unmark(shown),
            Some(Bug::UndoOutOfOrder) => shown.sort_by_key(|delivery| delivery.redelivered),
            Some(Bug::DuplicateOnUndo) => {
                let Some(to) = shown.first().map(|delivery| delivery.message.to.to_string()) else {
                    return;
                };
                let again: Vec<Delivery> = self
                    .kept
                    .iter()
                    .filter(|(of, _)| *of == to)
                    .map(|(_, d)| d.clone())
                    .collect();
                self.kept.retain(|(of, _)| *of != to);
                shown.extend(again);
            }
            Some(Bug::ConfirmedComesBack) => {
                let Some(first) = shown
                    .first()
                    .filter(|_| shown.iter().all(|shown| !shown.redelivered))
                else {
                    return;
                };
                let to = first.message.to.to_string();
                let at = self.kept.iter().position(|(of, _)| *of == to);
                if let Some((_, old)) = at.map(|at| self.kept.remove(at)) {
                    let again = Delivery {
                        redelivered: true,
                        ..old
                    };
                    shown.insert(0, again);
                }
            }
            _ => {}
        }
    }

    /// Shows a sender what it has sent to several, in a reply that would be empty: there it overtakes nothing.
    fn copy_to_sender(&mut self, shown: &mut Vec<Delivery>) {
        let Some(of) = self.reads.clone() else {
            return;
        };
        if shown.is_empty() {
            let copies = self.kept.iter().filter(|(sender, _)| *sender == of);
            shown.extend(copies.map(|(_, copy)| copy.clone()).take(1));
        }
        self.kept.retain(|(sender, _)| *sender != of);
    }

    /// Shows what was held back from the reply before, and holds back one end of this one.
    fn hold_back(&mut self, call: CallId, own: Option<(SessionId, CallId)>, shown: &mut Vec<Delivery>) {
        let Some(of) = own.filter(|(_, own)| *own == call).and(self.reads.clone()) else {
            return;
        };
        // What comes back by itself needs no help.
        self.kept
            .retain(|(to, kept)| *to != of || shown.iter().all(|shown| shown.message.id != kept.message.id));
        let at = self.kept.iter().position(|(to, _)| *to == of);
        if let Some((_, kept)) = at.map(|at| self.kept.remove(at)) {
            return shown.insert(0, kept);
        }
        let whole = shown.len() >= 2 && shown.iter().all(|delivery| !delivery.redelivered);
        let oldest = self.has(Bug::OldestHeldBack);
        if !whole || (oldest && !self.left_waiting.contains(&of)) {
            return;
        }
        let held = if oldest {
            shown.remove(0)
        } else {
            shown.pop().expect("there are two at least")
        };
        self.kept.push((of, held));
    }

    fn post_anyway(&mut self, now: Timestamp, own: Option<(SessionId, CallId)>, post: Option<Command>) {
        let (Some((session, _)), Some(Command::Mail(mail::Command::Post { from, to, kind, .. }))) =
            (own, post)
        else {
            return;
        };
        // Where it fills an inbox, that is another law's.
        if self.is_tight() {
            return;
        }
        self.made_up += 1;
        let call = CallId(u64::MAX - self.made_up);
        let command = Command::Mail(mail::Command::Post {
            from,
            to,
            kind,
            body: "illegal".to_owned(),
            options: None,
        });
        let input = Input::Call {
            session,
            call,
            random: [0; 16],
            command,
        };
        self.make_up(now, input);
    }
}

/// Tells whether a message was sent to its reader by name: what a bug keeps of it can be told from what others got.
fn is_for_one(delivery: &Delivery) -> bool {
    delivery.message.to.by() == ResolvedBy::Name
}
