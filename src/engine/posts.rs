//! Posting: a message into all inboxes that it is for, or into none.

use std::sync::Arc;

use super::address::Resolved;
use super::agents::{self, Speaker};
use super::events::{Event, Places};
use super::finger::{self, Finger};
use super::handling::Mode;
use super::idempotency::Keyed;
use super::inbox::Answers;
use super::io::{self, Outcome, Sign};
use super::mail::{PostOptions, Refusal, Reply};
use super::message::{Kind, Message};
use super::names::{AgentName, CallId, HandoverId, MessageId, RandomBytes, Seq, SessionId, uuid_v4};
use super::waits::Wait;
use super::{Engine, Step};

/// A message that is to be posted.
pub(super) struct Draft {
    pub from: Speaker,
    /// The address as it was given.
    pub given: String,
    pub to: Resolved,
    pub kind: Kind,
    pub body: String,
    pub options: Option<Box<PostOptions>>,
    pub keyed: Option<Keyed>,
}

/// What is to be told behind that a message is there.
#[derive(Default)]
pub(super) struct Told {
    /// How one of those who got it has it brought, where that is not how most do.
    brought: Vec<Event>,
    /// Whose copy stands aside.
    held: Vec<Event>,
}

impl Told {
    pub fn note(self, step: &mut Step<'_>) {
        for event in self.brought.into_iter().chain(self.held) {
            step.note(event);
        }
    }
}

impl Engine {
    /// Puts a message into all inboxes that it is for, or into none. Its id is made of `random`.
    pub(super) fn post(
        &mut self,
        session: SessionId,
        call: CallId,
        draft: Draft,
        random: RandomBytes,
        step: &mut Step<'_>,
    ) -> Result<Outcome, io::Refusal> {
        let Draft {
            from,
            given,
            to:
                Resolved {
                    to,
                    agents,
                    joins,
                    mut warnings,
                },
            kind,
            body,
            options,
            keyed,
        } = draft;
        let await_ms = options.as_ref().and_then(|options| options.await_ms);
        let room = options.as_ref().and_then(|options| options.room);
        let context = match options {
            Some(options) => {
                // What was settled on the way here has happened, and has the oldest step forgotten.
                self.trace_events(step);
                self.context(from.agent(), &agents, *options, step.wall, &mut warnings)?
            }
            None => None,
        };
        let mode = context.as_ref().and_then(|context| context.handling.mode);
        if let Some(mode) = mode
            && let Some(agent) = agents.iter().find(|agent| !self.can_bring(agent, mode))
        {
            let agent = agent.clone();
            return Err(Refusal::CannotBring { agent, mode }.into());
        }
        if await_ms.is_some() && agents.is_empty() {
            return Err(agents::Refusal::Nobody { to }.into());
        }
        let message = Message {
            id: MessageId(uuid_v4(random)),
            from: from.into_agent(),
            to,
            kind,
            body,
            ts: step.wall,
            context,
        };
        let bytes = message.bytes();
        if bytes > self.bounds.body_bytes_max {
            return Err(Refusal::BodyTooLong {
                bytes,
                bytes_max: self.bounds.body_bytes_max,
            }
            .into());
        }
        let giving_way = self.room_in_all(&agents, bytes)?;
        if let Some(channel) = &joins {
            self.room_for_channel(channel)?;
        }
        let waits = self.waits.len();
        if await_ms.is_some() && waits >= self.bounds.waits_max {
            return Err(Refusal::TooManyWaits { waits }.into());
        }
        if self.stopping {
            return Err(io::Refusal::Stopping);
        }
        for handover in giving_way {
            self.sign(handover, Sign::Settled, step);
        }
        let message = Arc::new(message);
        if let Some(channel) = joins {
            self.join(channel, &message.from, step);
        }
        self.acts(session, &message.from, step);
        if let Some(keyed) = keyed {
            self.keep_answer(&message, keyed, (&given, &warnings), step.now);
        }
        // Whoever answers does so later, so that no answer is taken for one that was there before.
        let answers = await_ms.map(|ms| (ms, Answers::to(&message, &given, &agents, self)));
        let (places, told) = self.put_into_all(&agents, &message, step);
        let absence = match await_ms {
            Some(_) => None,
            None => {
                let note = self.held_note(&message.from, &agents);
                note.or_else(|| self.absence(&agents, mode, step.now))
            }
        };
        step.note(Event::Accepted {
            message: Arc::clone(&message),
            agents,
            places,
        });
        told.note(step);
        if let Some((ms, answers)) = answers {
            let wait = Wait::for_answer(session, &message, answers, step.now, (ms, room));
            self.park(call, wait, step);
            return Ok(Outcome::Parked);
        }
        Ok(Reply::Posted {
            id: message.id,
            given: given.into(),
            to: message.to.clone(),
            ts: message.ts,
            thread: message.thread().map(Box::from),
            warnings: warnings.into(),
            absence,
        }
        .into())
    }

    /// Puts a message into an inbox that has room for it, and returns its place there.
    pub(super) fn put(
        &mut self,
        agent: &AgentName,
        message: &Arc<Message>,
        step: &mut Step<'_>,
    ) -> (Seq, Told) {
        let (places, told) = self.put_into_all(std::slice::from_ref(agent), message, step);
        (places.as_slice()[0], told)
    }

    /// Puts a message into inboxes that have room for it, and returns its places there.
    fn put_into_all(
        &mut self,
        agents: &[AgentName],
        message: &Arc<Message>,
        step: &mut Step<'_>,
    ) -> (Places, Told) {
        let mut places = Places::Many(Vec::new());
        let mut told = Told::default();
        let (holds, watches) = (&self.holds, &self.watches);
        finger::for_each_mut(&mut self.inboxes, agents, |agent, inbox| {
            let seq = inbox.push(Arc::clone(message));
            places.push(seq);
            if message.handling().mode.is_none() && inbox.mode != Mode::default() {
                told.brought.push(Event::BroughtAsItsAgentHasIt {
                    message: message.id,
                    agent: agent.clone(),
                    mode: inbox.mode,
                });
            }
            if let Some(by) = holds.on(&message.from, agent) {
                let delivery = inbox.set_aside(seq);
                let agent = agent.clone();
                told.held.push(Event::Held { agent, delivery, by });
                return;
            }
            // Who comes to wait for it later in this step waits for what comes behind it.
            if !inbox.waits.is_empty() || inbox.binding.is_some() || !inbox.waiters.is_empty() {
                step.wakes(agent.clone());
            }
            watches.inbox_changes(agent, step);
        });
        assert_eq!(places.as_slice().len(), agents.len(), "each agent has an inbox");
        if message.handling().deadline.is_some() {
            for (agent, seq) in agents.iter().zip(places.as_slice()) {
                self.mind_deadline(agent, *seq, message);
            }
        }
        (places, told)
    }

    /// Finds what has to give way so that a message of that many bytes fits into all of some inboxes.
    fn room_in_all(&self, agents: &[AgentName], bytes: usize) -> Result<Vec<HandoverId>, Refusal> {
        let mut giving_way = Vec::new();
        let mut inboxes = Finger::new(&self.inboxes);
        for agent in agents {
            let inbox = inboxes.find(agent).expect("each agent has an inbox");
            let Some(read) = self.room_in(inbox, bytes) else {
                return Err(Refusal::InboxFull {
                    messages: inbox.messages(),
                    bytes: inbox.bytes(),
                    messages_max: self.bounds.inbox_messages_max,
                    bytes_max: self.bounds.inbox_bytes_max,
                    agent: agent.clone(),
                });
            };
            giving_way.extend(read);
        }
        Ok(giving_way)
    }
}
