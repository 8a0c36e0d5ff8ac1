//! What it takes to be wrong about what an agent asks for once more.

use std::collections::{BTreeMap, BTreeSet};

use relay::engine::{AgentName, Command, Delivery, Effect, Input, MessageId, Refusal, mail};

use super::{Bug, Tap};

/// What has come again.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// By the inbox, and by the message behind which it was asked for.
    brought: BTreeMap<(String, String), Vec<Delivery>>,
    /// What is known to have arrived, and has not come again since.
    arrived: BTreeSet<MessageId>,
    /// All of what has come again.
    all: BTreeSet<MessageId>,
    /// What is to be shown beside what the read at hand takes.
    beside: Vec<Delivery>,
}

impl Again {
    /// Takes note of what has come again.
    pub fn brought(&mut self, agent: &AgentName, after: MessageId, deliveries: &[Delivery]) {
        let key = (agent.to_string(), after.to_string());
        self.brought
            .entry(key)
            .or_default()
            .extend(deliveries.iter().cloned());
        for delivery in deliveries {
            self.arrived.remove(&delivery.message.id);
            self.all.insert(delivery.message.id);
        }
    }

    /// Takes note of what has arrived.
    pub fn arrived<'a>(&mut self, deliveries: impl Iterator<Item = &'a Delivery>) {
        self.arrived
            .extend(deliveries.map(|delivery| delivery.message.id));
    }

    /// Takes the mark from what has come again.
    pub fn unmark(&self, shown: &mut [Delivery]) {
        for delivery in shown {
            delivery.redelivered &= !self.all.contains(&delivery.message.id);
        }
    }
}

impl Tap {
    /// Forgets that a read asks for something again, or finds what it asked for before.
    pub(super) fn mistake_what_is_asked_again(&mut self, command: &mut Command) {
        self.again.beside.clear();
        let Command::Mail(mail::Command::Read {
            options: Some(options),
            ..
        }) = command
        else {
            return;
        };
        if self.has(Bug::AfterIgnored) {
            options.after = None;
        }
        let (Some(of), Some(after), None) = (&self.reads, &options.after, options.limit) else {
            return;
        };
        let key = (of.clone(), after.clone());
        if self.has(Bug::AskedAgainTwice)
            && let Some(brought) = self.again.brought.get(&key)
        {
            let arrived = |delivery: &&Delivery| self.again.arrived.contains(&delivery.message.id);
            self.again.beside = brought.iter().filter(arrived).cloned().collect();
        }
    }

    /// Refuses a read for the message that it names.
    pub(super) fn forgets(&self, input: &Input) -> Option<Effect> {
        let Input::Call {
            call,
            command:
                Command::Mail(mail::Command::Read {
                    options: Some(options),
                    ..
                }),
            ..
        } = input
        else {
            return None;
        };
        let after = options.after.as_ref()?;
        let (given, oldest) = (after.clone(), None);
        let refusal = Refusal::Mail(mail::Refusal::NotRemembered { given, oldest });
        self.has(Bug::SeenForgotten).then_some(Effect::Reply {
            call: *call,
            result: Err(refusal),
            handover: None,
        })
    }

    /// Shows in its place what has come again before.
    pub(super) fn bring_twice(&mut self, shown: &mut Vec<Delivery>) {
        if self.again.beside.is_empty() {
            return;
        }
        let twice = std::mem::take(&mut self.again.beside);
        shown.extend(twice.into_iter().map(|delivery| Delivery {
            redelivered: true,
            ..delivery
        }));
        shown.sort_by_key(|delivery| delivery.seq);
        shown.dedup_by_key(|delivery| delivery.seq);
    }
}
