//! What the tap knows of holds: what the person has asked for, and what is held by that, whatever the engine makes of it.

use std::collections::{BTreeMap, BTreeSet};

use relay::engine::absence::Absence;
use relay::engine::holds::{Command as Asks, HeldBy, Reply as Answer, Whom};
use relay::engine::receipts::{self, Reply as Receipted};
use relay::engine::{
    AgentName, CallId, Command, Delivery, Effect, Event, Frame, Input, Message, MessageId, Reply, Seq,
    SessionId, mail,
};

use crate::laws::Violation;
use crate::marks::Marks;
use crate::nodes::bug::Bug;
use crate::nodes::history::Log;
use crate::nodes::laws::{HELD, NOTED, PLACE};

/// A delivery: to whom, and of which message.
type Key = (AgentName, MessageId);

/// The holds of a life of the server.
#[derive(Default)]
pub struct Held {
    all: bool,
    agents: BTreeSet<AgentName>,
    /// What the person asks in calls that are not answered yet.
    asked: BTreeMap<CallId, Asks>,
    /// Who speaks in a session, and whose lists are asked for.
    speakers: BTreeMap<SessionId, AgentName>,
    lists: BTreeMap<CallId, AgentName>,
    /// What the engine says to hold.
    aside: BTreeSet<Key>,
    /// What the person has let pass by its id.
    allowed: BTreeSet<Key>,
    /// What it has dropped.
    dropped: BTreeSet<Key>,
    /// The places of what passes, by its id or with the end of a hold, and did not go out since.
    passing: BTreeSet<(AgentName, Seq)>,
    /// The highest number of an agent's frames.
    numbers: BTreeMap<AgentName, u64>,
    /// What somebody was shown.
    shown: BTreeSet<Key>,
    /// The message that was accepted in this step, and whether its sender is to be told that it is held.
    accepted: Option<(MessageId, bool)>,
}

impl Held {
    /// Looks at what comes in, and breaks it.
    pub fn look(&mut self, input: &mut Input, bug: Option<Bug>) {
        self.accepted = None;
        if let Input::Call {
            session,
            call,
            command: Command::Receipts(receipts::Command::List { .. }),
            ..
        } = input
            && let Some(agent) = self.speakers.get(session)
        {
            self.lists.insert(*call, agent.clone());
        }
        let Input::Call {
            call,
            command: Command::Holds(asks),
            ..
        } = input
        else {
            return;
        };
        self.asked.insert(*call, asks.clone());
        *asks = match (bug, asks.clone()) {
            (Some(Bug::HoldIgnored), Asks::Hold(_)) | (Some(Bug::LiftForgotten), Asks::Lift(_)) => Asks::List,
            (Some(Bug::DropPasses), Asks::Drop { message }) => Asks::Allow { message },
            (Some(Bug::AllowDrops), Asks::Allow { message }) => Asks::Drop { message },
            (Some(Bug::AllowLifts), Asks::Allow { .. }) => Asks::Lift(match self.agents.first() {
                Some(agent) if !self.all => Whom::Agent(agent.to_string()),
                Some(_) | None => Whom::All,
            }),
            (_, asks) => asks,
        };
    }

    /// Breaks what goes out.
    pub fn spoil(&self, bug: Option<Bug>, out: &mut [Effect]) {
        for effect in &mut *out {
            if let Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Posted { absence, .. })),
                ..
            } = effect
                && bug == Some(Bug::HeldNoteMissing)
                && matches!(absence.as_deref(), Some(Absence::Held { .. }))
            {
                *absence = None;
            }
        }
        if bug == Some(Bug::AllowedLast) {
            self.sends_last(out);
        }
    }

    /// Has the first frame of what passes change places with the last one to its agent.
    fn sends_last(&self, out: &mut [Effect]) {
        let allowed = out.iter().filter_map(|effect| match effect {
            Effect::Note(Event::Allowed { agent, delivery }) => Some((agent.clone(), delivery.seq)),
            Effect::Note(_)
            | Effect::Opened { .. }
            | Effect::Reply { .. }
            | Effect::Changed { .. }
            | Effect::Deliver { .. }
            | Effect::Tell { .. }
            | Effect::Invoke { .. }
            | Effect::Superseded { .. }
            | Effect::StartWorker(_)
            | Effect::EndWorker { .. } => None,
        });
        let passing: BTreeSet<_> = allowed.chain(self.passing.iter().cloned()).collect();
        let mut frames: BTreeMap<AgentName, Vec<&mut Frame>> = BTreeMap::new();
        for effect in out {
            if let Effect::Deliver { frame, .. } = effect {
                frames.entry(frame.agent.clone()).or_default().push(frame);
            }
        }
        for (agent, mut frames) in frames {
            let passes = |frame: &&mut Frame| passing.contains(&(agent.clone(), frame.delivery.seq));
            let first = frames.iter().position(passes);
            if let Some(first) = first
                && let Some((last, before)) = frames.split_last_mut()
                && let Some(first) = before.get_mut(first)
            {
                std::mem::swap(&mut first.delivery, &mut last.delivery);
                std::mem::swap(&mut first.handover, &mut last.handover);
            }
        }
    }

    /// Looks at what a step has come to.
    pub fn see(&mut self, out: &[Effect], log: &Log, marks: &Marks) -> Vec<Violation> {
        // What is held by a hold is told before it is said that it is set.
        for effect in out {
            if let Effect::Reply {
                call, result: Ok(_), ..
            } = effect
                && let Some(Asks::Hold(whom)) = self.asked.get(call)
            {
                self.set(&whom.clone(), true);
                marks.hit("hold set");
            }
        }
        out.iter()
            .flat_map(|effect| self.see_one(effect, log, marks))
            .collect()
    }

    fn see_one(&mut self, effect: &Effect, log: &Log, marks: &Marks) -> Vec<Violation> {
        match effect {
            Effect::Reply {
                call,
                result: Ok(reply),
                ..
            } => {
                if let (Some(asked), Reply::Holds(answer)) = (self.asked.remove(call), reply) {
                    self.answered(&asked, answer, log, marks);
                }
                if let Reply::Mail(mail::Reply::Posted { id, absence, .. }) = reply {
                    let is_told = matches!(absence.as_deref(), Some(Absence::Held { .. }));
                    marks.hit_if(is_told, "sender told that the person holds it");
                    if self.accepted.is_some_and(|accepted| accepted != (*id, is_told)) {
                        let detail = format!("of {id}, {:?}: {absence:?}", self.accepted);
                        return vec![Violation { law: NOTED, detail }];
                    }
                }
                if let (Some(agent), Reply::Receipts(Receipted::Listed(rows))) =
                    (self.lists.remove(call), reply)
                {
                    let shown = rows.iter();
                    return shown
                        .filter_map(|(delivery, _)| self.is_shown(&agent, delivery))
                        .collect();
                }
            }
            Effect::Reply { call, .. } => drop(self.asked.remove(call)),
            Effect::Note(event) => return self.event(event, log, marks),
            Effect::Opened {
                session,
                result: Ok(Some(agent)),
            } => drop(self.speakers.insert(*session, agent.clone())),
            Effect::Deliver { frame, .. } => return self.goes_out(frame, marks).into_iter().collect(),
            Effect::Opened { .. }
            | Effect::Changed { .. }
            | Effect::Tell { .. }
            | Effect::Invoke { .. }
            | Effect::Superseded { .. }
            | Effect::StartWorker(_)
            | Effect::EndWorker { .. } => {}
        }
        Vec::new()
    }

    /// Takes note that a frame goes out. Returns what is wrong with its place.
    fn goes_out(&mut self, frame: &Frame, marks: &Marks) -> Option<Violation> {
        let Frame { agent, number, .. } = frame;
        let seq = frame.delivery.seq;
        let highest = self.numbers.entry(agent.clone()).or_default();
        let is_new = number > highest;
        *highest = (*highest).max(*number);
        let passes = self.passing.remove(&(agent.clone(), seq));
        let behind = self.passing.range((agent.clone(), Seq(0))..);
        let first = behind.take_while(|(other, _)| other == agent).next();
        let (_, first) = first?;
        marks.hit_if(is_new && passes, "several let pass go out");
        (is_new && *first < seq).then(|| Violation {
            law: PLACE,
            detail: format!("the message at {seq:?} of {agent} as frame {number}, before that at {first:?}"),
        })
    }

    fn answered(&mut self, asked: &Asks, answer: &Answer, log: &Log, marks: &Marks) {
        match asked {
            Asks::List | Asks::Hold(_) => {}
            Asks::Lift(whom) => {
                self.set(whom, false);
                marks.hit("hold lifted");
            }
            Asks::Allow { .. } | Asks::Drop { .. } => {
                let is_dropped = matches!(asked, Asks::Drop { .. });
                let (Answer::Allowed { message, agents } | Answer::Dropped { message, agents }) = answer
                else {
                    return;
                };
                marks.hit(if is_dropped {
                    "held message dropped"
                } else {
                    "held message let pass"
                });
                for agent in agents {
                    let key = (agent.clone(), message.id);
                    if is_dropped {
                        self.dropped.insert(key);
                        let name = (message.body.clone(), agent.local().to_owned());
                        log.history().dropped.insert(name);
                    } else {
                        self.allowed.insert(key);
                    }
                }
            }
        }
    }

    fn event(&mut self, event: &Event, log: &Log, marks: &Marks) -> Vec<Violation> {
        if let Event::Accepted { message, agents, .. } = event {
            let is_held = agents.iter().any(|agent| self.is_held(agent, message));
            self.accepted = Some((message.id, is_held));
        }
        if let Event::Held { agent, delivery, by } = event {
            let key = (agent.clone(), delivery.message.id);
            marks.hit(match by {
                HeldBy::All => "held with all",
                HeldBy::To => "held for its recipient",
                HeldBy::From => "held for its sender",
            });
            marks.hit_if(delivery.redelivered, "held when it came back");
            let name = (delivery.message.body.clone(), agent.local().to_owned());
            log.history().held.insert(name);
            if !self.is_held(agent, &delivery.message) || self.allowed.contains(&key) {
                let detail = format!("{:?} for {agent} is not to be held", delivery.message.body);
                return vec![Violation { law: HELD, detail }];
            }
            self.aside.insert(key);
            self.passing.remove(&(agent.clone(), delivery.seq));
        }
        if let Event::Allowed { agent, delivery } | Event::Dropped { agent, delivery } = event {
            self.aside.remove(&(agent.clone(), delivery.message.id));
        }
        if let Event::Allowed { agent, delivery } = event {
            self.passing.insert((agent.clone(), delivery.seq));
        }
        // What is not on a node has no frame.
        if let Event::Confirmed {
            agent, deliveries, ..
        } = event
        {
            for delivery in deliveries.iter() {
                self.passing.remove(&(agent.clone(), delivery.seq));
            }
        }
        if let Event::Expired { agent, delivery } = event {
            self.passing.remove(&(agent.clone(), delivery.seq));
            let was_held = self.aside.remove(&(agent.clone(), delivery.message.id));
            marks.hit_if(was_held, "expired while it was held");
        }
        if let Event::HandedOver {
            agent, deliveries, ..
        } = event
        {
            let all = deliveries.iter();
            return all
                .filter_map(|delivery| self.is_shown(agent, delivery))
                .collect();
        }
        Vec::new()
    }

    /// Takes note that somebody is shown a delivery. Returns what is wrong with that.
    fn is_shown(&mut self, agent: &AgentName, delivery: &Delivery) -> Option<Violation> {
        let key = (agent.clone(), delivery.message.id);
        let is_free = self.allowed.contains(&key) || self.shown.contains(&key);
        let why = if self.dropped.contains(&key) {
            Some("was dropped")
        } else if self.aside.contains(&key) {
            Some("stands aside")
        } else if !is_free && self.is_held(agent, &delivery.message) {
            Some("is held")
        } else {
            None
        };
        self.shown.insert(key);
        why.map(|why| Violation {
            law: HELD,
            detail: format!("{:?} {why}, and {agent} is handed it", delivery.message.body),
        })
    }

    fn is_held(&self, agent: &AgentName, message: &Message) -> bool {
        let is_persons = message.from.is_person() || agent.is_person();
        let is_meant = self.all || self.agents.contains(agent) || self.agents.contains(&message.from);
        is_meant && !is_persons
    }

    fn set(&mut self, whom: &Whom, is_held: bool) {
        match whom {
            Whom::All => self.all = is_held,
            Whom::Agent(name) => {
                let Ok(agent) = AgentName::new(name) else {
                    return;
                };
                if is_held {
                    self.agents.insert(agent);
                } else {
                    self.agents.remove(&agent);
                }
            }
        }
    }
}
