//! What the person holds: what is to stand aside does, as soon as it would wait.

use relay::engine::absence::Absence;
use relay::engine::holds::{Command, HeldBy, HeldMessage, Refusal as No, Reply as Answer, View, Whom};

use super::*;

impl Model {
    pub(super) fn about_holds(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        command: Command,
    ) -> Result<Vec<Effect>, Refusal> {
        if !open.person {
            self.marks.reach(HoldMark::NotThePersonHolds);
            return Err(Refusal::Holds(No::OnlyThePerson));
        }
        let answer = match command {
            Command::List => Answer::Listed(Box::new(self.view_of_holds())),
            Command::Hold(whom) => self.hold(whom)?,
            Command::Lift(whom) => self.lift(whom)?,
            Command::Allow { message } => {
                let id = self.held_message(&message)?;
                let (message, agents) = self.pass(id);
                self.marks.reach(HoldMark::Allows);
                self.marks.reach_if(agents.len() > 1, HoldMark::AllowsSeveral);
                Answer::Allowed { message, agents }
            }
            Command::Drop { message } => {
                let id = self.held_message(&message)?;
                let held = self.aside_of(id);
                for at in &held {
                    self.messages[*at].state = State::Dropped;
                    self.tell(Told::Dropped(id, self.messages[*at].agent.clone()));
                }
                self.marks.reach(HoldMark::Drops);
                let agents = held.iter().map(|at| self.messages[*at].agent.clone()).collect();
                let message = Arc::clone(&self.messages[held[0]].delivery.message);
                Answer::Dropped { message, agents }
            }
        };
        let mut effects = vec![reply(call, Ok(Reply::Holds(answer)))];
        let woken = self.wake_all(now);
        self.marks.reach_if(!woken.is_empty(), HoldMark::PassesToWhoWaits);
        effects.extend(woken);
        Ok(effects)
    }

    /// Which hold is on what one sends to another: that on all before that on who gets it, and that before its sender's.
    pub(super) fn held_by(&self, from: &AgentName, to: &AgentName) -> Option<HeldBy> {
        if from.is_person() || to.is_person() {
            None
        } else if self.holds_all {
            Some(HeldBy::All)
        } else if self.held.contains(to) {
            Some(HeldBy::To)
        } else if self.held.contains(from) {
            Some(HeldBy::From)
        } else {
            None
        }
    }

    /// Has stand aside what waits for an agent, is held and was not let pass by its id.
    pub(super) fn set_aside(&mut self, agent: &AgentName, mark: HoldMark) -> bool {
        let mut any = false;
        for at in 0..self.messages.len() {
            let kept = &self.messages[at];
            let message = &kept.delivery.message;
            let Some(by) = self.held_by(&message.from, agent) else {
                continue;
            };
            let id = message.id;
            if !kept.waits_for(agent) {
                continue;
            }
            if kept.allowed {
                self.marks
                    .reach_if(kept.delivery.redelivered, HoldMark::AllowedForGood);
                continue;
            }
            self.messages[at].state = State::Aside;
            self.tell(Told::Held(id, agent.clone(), by));
            self.marks.reach(mark);
            any = true;
        }
        any
    }

    fn hold(&mut self, whom: Whom) -> Result<Answer, Refusal> {
        let agent = match whom {
            Whom::All => None,
            Whom::Agent(name) => {
                let known = self.known(&name);
                self.marks.reach_if(known.is_err(), HoldMark::HoldsNobody);
                let agent = known?;
                if agent.is_person() {
                    self.marks.reach(HoldMark::HoldsThePerson);
                    return Err(Refusal::Holds(No::NotThePerson));
                }
                Some(agent)
            }
        };
        let is_new = match &agent {
            None => !std::mem::replace(&mut self.holds_all, true),
            Some(agent) => self.held.insert(agent.clone()),
        };
        if is_new {
            self.marks.reach(match agent {
                None => HoldMark::HoldsAll,
                Some(_) => HoldMark::HoldsAgent,
            });
            let mut inboxes = self.everybody();
            inboxes.sort();
            for inbox in inboxes {
                if self.set_aside(&inbox, HoldMark::HeldWhereItWaits) {
                    self.changed.push(Changed::Inbox(inbox));
                }
            }
        } else {
            self.marks.reach(HoldMark::HoldsAgain);
        }
        let aside = self.messages.iter().filter(|m| m.state == State::Aside);
        let meant = aside.filter(|m| match &agent {
            None => true,
            Some(agent) => m.agent == *agent || m.delivery.message.from == *agent,
        });
        Ok(Answer::Holds(meant.count()))
    }

    fn lift(&mut self, whom: Whom) -> Result<Answer, Refusal> {
        let was_there = match whom {
            Whom::All => std::mem::replace(&mut self.holds_all, false),
            Whom::Agent(name) => {
                let held = self.held.iter().find(|held| held.as_str() == name).cloned();
                let known = self.known(&name);
                self.marks
                    .reach_if(held.is_some() && known.is_err(), HoldMark::LiftsWhoHasGone);
                let agent = match held {
                    Some(held) => held,
                    None => known?,
                };
                self.held.remove(&agent)
            }
        };
        if !was_there {
            self.marks.reach(HoldMark::LiftsNothing);
            return Ok(Answer::Lifted(None));
        }
        self.marks.reach(HoldMark::Lifts);
        let mut aside = self.all_aside();
        let all = aside.len();
        aside.retain(|at| {
            let kept = &self.messages[*at];
            self.held_by(&kept.delivery.message.from, &kept.agent).is_none()
        });
        self.marks
            .reach_if(aside.len() < all, HoldMark::LiftedAndHeldStill);
        for at in &aside {
            self.passes(*at);
        }
        Ok(Answer::Lifted(Some(aside.len())))
    }

    /// Has a message pass for good.
    fn pass(&mut self, id: MessageId) -> (Arc<Message>, Vec<AgentName>) {
        let held = self.aside_of(id);
        for at in &held {
            self.messages[*at].allowed = true;
            self.passes(*at);
        }
        let agents = held.iter().map(|at| self.messages[*at].agent.clone()).collect();
        (Arc::clone(&self.messages[held[0]].delivery.message), agents)
    }

    fn passes(&mut self, at: usize) {
        let kept = &mut self.messages[at];
        kept.state = State::Waiting;
        let (id, agent) = (kept.delivery.message.id, kept.agent.clone());
        self.tell(Told::Allowed(id, agent.clone()));
        let mut behind = self.messages[at + 1..].iter();
        let in_front = behind.any(|m| m.waits_for(&agent));
        self.marks.reach_if(in_front, HoldMark::PassesInFront);
        self.changed.push(Changed::Inbox(agent));
    }

    /// Where what stands aside is in the list, by the names of those who get it.
    fn all_aside(&self) -> Vec<usize> {
        let all = 0..self.messages.len();
        let mut aside: Vec<usize> = all
            .filter(|at| self.messages[*at].state == State::Aside)
            .collect();
        aside.sort_by_key(|at| (self.messages[*at].agent.clone(), *at));
        aside
    }

    fn aside_of(&self, id: MessageId) -> Vec<usize> {
        let mut aside = self.all_aside();
        aside.retain(|at| self.messages[*at].delivery.message.id == id);
        aside
    }

    fn held_message(&mut self, given: &str) -> Result<MessageId, Refusal> {
        let aside = self.all_aside();
        let ids = aside.iter().map(|at| self.messages[*at].delivery.message.id);
        let mut ids = ids.filter(|id| given.len() >= 8 && id.to_string().starts_with(given));
        let id = ids.next();
        self.marks.reach_if(id.is_none(), HoldMark::NotHeld);
        let given = given.to_owned();
        id.ok_or(Refusal::Holds(No::NotHeld { given }))
    }

    fn view_of_holds(&mut self) -> View {
        let mut messages: Vec<(Seq, HeldMessage)> = Vec::new();
        for at in self.all_aside() {
            let kept = &self.messages[at];
            let message = &kept.delivery.message;
            let by = self.held_by(&message.from, &kept.agent).expect("it is held");
            let delivery = (kept.agent.clone(), by);
            match messages
                .iter_mut()
                .find(|(_, held)| held.message.id == message.id)
            {
                Some((_, held)) => held.deliveries.push(delivery),
                None => messages.push((
                    kept.delivery.seq,
                    HeldMessage {
                        message: Arc::clone(message),
                        deliveries: vec![delivery],
                    },
                )),
            }
        }
        self.marks.reach_if(!messages.is_empty(), HoldMark::ListsHeld);
        messages.sort_by_key(|(place, held)| (held.message.ts, *place, held.message.id));
        View {
            all: self.holds_all,
            agents: self.held.iter().cloned().collect(),
            messages: messages.into_iter().map(|(_, held)| held).collect(),
        }
    }

    /// Tells a sender that what it sent is held, where some of it is.
    pub(super) fn held_note(&mut self, from: &AgentName, agents: &[AgentName]) -> Option<Box<Absence>> {
        let held = agents.iter().filter_map(|to| Some((to, self.held_by(from, to)?)));
        let held: Vec<(&AgentName, HeldBy)> = held.collect();
        let (first, _) = *held.first()?;
        let by = if self.holds_all {
            HeldBy::All
        } else if self.held.contains(from) && held.iter().any(|(_, by)| *by == HeldBy::From) {
            HeldBy::From
        } else {
            HeldBy::To
        };
        self.marks.reach(match by {
            HeldBy::All => HoldMark::NoteOfAll,
            HeldBy::To => HoldMark::NoteOfRecipient,
            HeldBy::From => HoldMark::NoteOfSender,
        });
        self.marks.reach_if(held.len() > 1, HoldMark::NoteOfSeveral);
        self.marks
            .reach_if(held.len() < agents.len(), HoldMark::HeldForSome);
        let agent = if by == HeldBy::From { from } else { first };
        Some(Box::new(Absence::Held {
            by,
            agent: agent.clone(),
            others: held.len() - 1,
        }))
    }

    /// Lists what is held of an inbox.
    pub(super) fn held_in(&self, agent: &AgentName) -> Vec<(Delivery, HeldBy)> {
        let aside = self.messages.iter().filter(|m| m.is_aside_for(agent));
        let held = aside.map(|m| {
            let by = self.held_by(&m.delivery.message.from, agent);
            (m.delivery.clone(), by.expect("it is held"))
        });
        held.collect()
    }

    /// Tells whether a message is kept from one who got it: it was held, and did not pass since.
    pub(super) fn is_kept_from(&self, id: MessageId, reader: &AgentName) -> bool {
        let told = self.told[self.forgotten()..].iter().rev();
        let latest = told.filter_map(|(_, told)| match told {
            Told::Held(message, agent, _) => (*message == id && agent == reader).then_some(true),
            Told::Allowed(message, agent) => (*message == id && agent == reader).then_some(false),
            Told::Accepted(_)
            | Told::Queued(..)
            | Told::Sent(..)
            | Told::HandedOver { .. }
            | Told::Read(..)
            | Told::Undone(..)
            | Told::Delivered(..)
            | Told::Marked(..)
            | Told::AskedAgain(..)
            | Told::Dropped(..) => None,
        });
        latest.take(1).any(|is_kept| is_kept)
    }
}
