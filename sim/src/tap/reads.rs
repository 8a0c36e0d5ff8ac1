//! What it takes to be wrong about calls that wait for an answer, and about reads that ask for some messages alone.

use std::num::NonZeroUsize;

use relay::engine::{CallId, Command, Delivery, Effect, Input, SessionId, Timestamp, mail};

use super::{Bug, Tap};

/// A channel that is there and that nobody sends to.
pub(super) const NEVER_USED: &str = "#general";

/// What a read asked for whose filter a bug took away.
#[derive(Debug, Default)]
pub(super) struct Only {
    /// Whose messages.
    from: Option<String>,
    /// How many at the most.
    limit: Option<usize>,
}

impl Tap {
    /// Posts what waits for its answer, and has the call read whatever there is instead, or wait for nothing.
    pub(super) fn ask_anybody(
        &mut self,
        now: Timestamp,
        session: SessionId,
        call: CallId,
        random: [u8; 16],
        command: &mut Command,
    ) {
        let Command::Mail(mail::Command::Post {
            to,
            options: Some(options),
            ..
        }) = &mut *command
        else {
            return;
        };
        let bound = self.sessions.get(&session).and_then(|(_, agent)| agent.clone());
        // News of the start would be taken, too.
        let (Some(agent), Some(wait_ms)) = (bound, options.await_ms) else {
            return;
        };
        if !self.told.contains(&agent) || self.waits.len() >= self.knows.bounds.waits_max {
            return;
        }
        let to = to.clone();
        let mut post = command.clone();
        if let Command::Mail(mail::Command::Post {
            options: Some(options),
            ..
        }) = &mut post
        {
            options.await_ms = None;
        }
        self.made_up += 1;
        let input = Input::Call {
            session,
            call: CallId(u64::MAX - self.made_up),
            random,
            command: post,
        };
        let mut effects = Vec::new();
        self.engine.handle(now, input, &mut effects);
        let is_accepted = effects
            .iter()
            .any(|effect| matches!(effect, Effect::Reply { result: Ok(_), .. }));
        self.note(&effects);
        effects.retain(|effect| matches!(effect, Effect::Reply { call, .. } if call.0 < u64::MAX / 2));
        self.woken_by_asks.append(&mut effects);
        if is_accepted {
            self.asks.insert(call, (to, wait_ms));
            *command = Command::Mail(mail::Command::Read {
                agent: None,
                options: Some(Box::new(mail::ReadOptions {
                    channel: self.has(Bug::AnswerLeftToOthers).then(|| NEVER_USED.to_owned()),
                    limit: NonZeroUsize::new(1),
                    ..mail::ReadOptions::default()
                })),
                room: None,
                wait_ms,
                second: mail::Second::Supersedes,
            });
        }
    }

    /// Has a read that asks for one sender's messages take all, and keeps in mind what it asked for.
    pub(super) fn widen(&mut self, options: &mut mail::ReadOptions) {
        self.only = Only {
            from: options.from.take(),
            limit: options.limit.map(NonZeroUsize::get),
        };
        if self.only.from.is_some() {
            options.limit = None;
        }
    }

    /// Shows of what was taken what was asked for. The others are forgotten, or come behind what the next read shows.
    pub(super) fn narrow(&mut self, shown: &mut Vec<Delivery>) {
        let Only { from, limit } = std::mem::take(&mut self.only);
        let Some(of) = self.reads.clone() else {
            return;
        };
        let limit = limit.unwrap_or(usize::MAX);
        if let Some(from) = from {
            let (mut fitting, mut others): (Vec<_>, Vec<_>) = shown
                .drain(..)
                .partition(|delivery| delivery.message.from.as_str() == from);
            others.extend(fitting.drain(limit.min(fitting.len())..));
            *shown = fitting;
            if self.has(Bug::FilterReorders) {
                self.kept
                    .extend(others.into_iter().map(|other| (of.clone(), other)));
            }
        } else if self.has(Bug::FilterReorders) {
            // What comes back by itself needs no help.
            self.kept.retain(|(to, kept)| {
                *to != of || shown.iter().all(|shown| shown.message.id != kept.message.id)
            });
            let room = limit.saturating_sub(shown.len());
            let (behind, kept) = std::mem::take(&mut self.kept)
                .into_iter()
                .partition(|(to, _)| *to == of);
            let (mut behind, mut kept): (Vec<_>, Vec<_>) = (behind, kept);
            kept.extend(behind.drain(room.min(behind.len())..));
            shown.extend(behind.into_iter().map(|(_, delivery)| delivery));
            self.kept = kept;
        }
    }
}
