//! Going back to messages: all that was ever told of them, but for what is forgotten, looked through from end to end.

use relay::engine::limits::EMOJI_BYTES_MAX;
use relay::engine::records::{Command, Of, Range, Reaction, Record, Refusal as No, Reply as Answer};
use relay::engine::trace::ShownTo;

use super::*;

impl Model {
    pub(super) fn about_records(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        command: Command,
    ) -> Result<Vec<Effect>, Refusal> {
        let answer = match command {
            Command::Get { message, shown_to } => {
                self.only_the_person(open)?;
                let message = self.goes_back(&message, &shown_to)?;
                Answer::Shown(Box::new(self.record(&message)))
            }
            Command::List { of, range, shown_to } => {
                self.only_the_person(open)?;
                Answer::Listed(self.listed(&of, &range, &shown_to)?)
            }
            Command::Mark { message } => self.mark(now, open, &message)?,
            Command::React {
                message,
                emoji,
                given,
            } => self.react(now, open, &message, &emoji, given)?,
        };
        Ok(vec![self.answer(open, call, answer.into())])
    }

    fn only_the_person(&mut self, open: &Open) -> Result<(), Refusal> {
        self.marks.reach_if(!open.person, Mark::GoneBackNotForAgents);
        match open.person {
            true => Ok(()),
            false => Err(Refusal::Records(No::OnlyThePerson)),
        }
    }

    fn mark(&mut self, now: Timestamp, open: &Open, given: &str) -> Result<Answer, Refusal> {
        let agent = self.speaker(open, NamedAs::Session, None)?;
        let message = self.goes_back(given, &ShownTo::Agent(agent.clone()))?;
        self.contact(now, open.session, &agent);
        let readers = self.record(&message).readers;
        let before = readers.iter().find(|(reader, _)| *reader == agent);
        let at = match before {
            Some((_, at)) => {
                self.marks.reach(Mark::MarkedReadBefore);
                *at
            }
            None if message.from == agent => {
                self.marks.reach(Mark::MarkedOwn);
                message.ts
            }
            None => {
                self.marks.reach(Mark::MarkedRead);
                self.tell(Told::Marked(message.id, agent));
                now
            }
        };
        Ok(Answer::Marked { message, at })
    }

    fn react(
        &mut self,
        now: Timestamp,
        open: &Open,
        given_id: &str,
        emoji: &str,
        given: bool,
    ) -> Result<Answer, Refusal> {
        let agent = self.speaker(open, NamedAs::Session, None)?;
        if emoji.is_empty() || emoji.len() > EMOJI_BYTES_MAX || emoji.contains('\n') {
            self.marks.reach(Mark::InvalidEmoji);
            let given = emoji.to_owned();
            return Err(Refusal::Records(No::InvalidEmoji { given }));
        }
        let message = self.goes_back(given_id, &ShownTo::Agent(agent.clone()))?;
        let reactions = self.record(&message).reactions;
        let count = reactions.iter().flat_map(|reaction| &reaction.agents).count();
        let same = reactions.iter().filter(|reaction| *reaction.emoji == *emoji);
        let mut before = same.flat_map(|reaction| &reaction.agents);
        let since = before.find(|(by, _)| *by == agent).map(|(_, at)| *at);
        if given && since.is_none() && count >= self.bounds.reactions_max {
            self.marks.reach(Mark::TooManyReactions);
            let reactions = count;
            return Err(Refusal::Records(No::TooManyReactions { reactions }));
        }
        self.contact(now, open.session, &agent);
        let since = match (since, given) {
            (Some(at), true) => {
                self.marks.reach(Mark::ReactedBefore);
                Some(at)
            }
            (None, false) => None,
            (None, true) => {
                self.marks.reach(Mark::Reacted);
                self.reacted
                    .push((message.id, agent, emoji.to_owned(), true, now));
                Some(now)
            }
            (Some(_), false) => {
                self.marks.reach(Mark::ReactionTakenBack);
                self.reacted
                    .push((message.id, agent, emoji.to_owned(), false, now));
                None
            }
        };
        Ok(Answer::Reacted { message, since })
    }

    /// Lists the messages that are not forgotten, the newest first.
    fn not_forgotten(&self) -> Vec<Arc<Message>> {
        let told = self.told[self.forgotten()..].iter().rev();
        let messages = told.filter_map(|(_, told)| match told {
            Told::Accepted(message) | Told::Sent(message, ..) => Some(Arc::clone(message)),
            Told::Queued(..)
            | Told::HandedOver { .. }
            | Told::Read(..)
            | Told::Undone(..)
            | Told::Delivered(..)
            | Told::Held(..)
            | Told::Allowed(..)
            | Told::AskedAgain(..)
            | Told::Dropped(..)
            | Told::Marked(..) => None,
        });
        messages.collect()
    }

    fn is_shown(&self, message: &Message, shown_to: &ShownTo) -> bool {
        let is_own = |agent: &AgentName| match shown_to {
            ShownTo::Person => true,
            ShownTo::Project(project) => agent.project() == project,
            ShownTo::Agent(own) => agent == own,
        };
        if let ShownTo::Agent(own) = shown_to
            && message.from != *own
            && self.is_kept_from(message.id, own)
        {
            return false;
        }
        *shown_to == ShownTo::Person
            || is_own(&message.from)
            || self.said_in(message, shown_to)
            || self.agents_ever(message).iter().any(is_own)
    }

    /// Tells whether a message was said in a channel of those who ask.
    fn said_in(&self, message: &Message, shown_to: &ShownTo) -> bool {
        let project = match shown_to {
            ShownTo::Person => return false,
            ShownTo::Project(project) => project,
            ShownTo::Agent(agent) => agent.project(),
        };
        let whole = whole(message.to.as_str());
        message.to.by() == ResolvedBy::Channel && whole.starts_with(&format!("{project}:"))
    }

    /// Lists who got a message, gone or not.
    fn agents_ever(&self, message: &Message) -> Vec<AgentName> {
        let told = self.told.iter().filter_map(|(_, told)| match told {
            Told::Queued(id, agent, _) => (*id == message.id).then(|| agent.clone()),
            Told::Sent(sent, agent, _) => (sent.id == message.id).then(|| agent.clone()),
            Told::Accepted(_)
            | Told::HandedOver { .. }
            | Told::Read(..)
            | Told::Undone(..)
            | Told::Delivered(..)
            | Told::Held(..)
            | Told::Allowed(..)
            | Told::AskedAgain(..)
            | Told::Dropped(..)
            | Told::Marked(..) => None,
        });
        told.collect()
    }

    fn goes_back(&mut self, given: &str, shown_to: &ShownTo) -> Result<Arc<Message>, Refusal> {
        let id = Uuid::parse_str(given).ok();
        let known = self.not_forgotten();
        let found = known.iter().find(|message| Some(message.id.0) == id);
        let Some(message) = found.filter(|message| self.is_shown(message, shown_to)) else {
            self.marks.reach(Mark::GoneBackInVain);
            let is_kept = found.is_some_and(
                |message| matches!(shown_to, ShownTo::Agent(own) if self.is_kept_from(message.id, own)),
            );
            self.marks.reach_if(is_kept, HoldMark::KeptFromReader);
            let given = given.to_owned();
            return Err(Refusal::Records(No::Unknown { given }));
        };
        let is_theirs = match shown_to {
            ShownTo::Agent(agent) => {
                message.from == *agent || self.agents_ever(message).iter().any(|got| got == agent)
            }
            ShownTo::Person | ShownTo::Project(_) => true,
        };
        self.marks.reach(Mark::GoneBack);
        self.marks.reach_if(!is_theirs, Mark::GoneBackInChannel);
        Ok(Arc::clone(message))
    }

    fn listed(&mut self, of: &Of, range: &Range, shown_to: &ShownTo) -> Result<Vec<Record>, Refusal> {
        let channel = match of {
            Of::Channel(given) => Some(self.channel_to_read("default", given)?),
            Of::All | Of::Sender(_) | Of::Replies(_) | Of::Between(..) => None,
        };
        let root = match of {
            Of::Replies(message) => Some(self.goes_back(message, shown_to)?),
            Of::All | Of::Sender(_) | Of::Channel(_) | Of::Between(..) => None,
        };
        let mut end = |given: &Option<String>| match given {
            Some(given) => self.goes_back(given, shown_to).map(Some),
            None => Ok(None),
        };
        let (before, after) = (end(&range.before)?, end(&range.after)?);
        let known = self.not_forgotten();
        let place = |end: Arc<Message>| known.iter().position(|message| message.id == end.id);
        // The newest comes first.
        let from = before.and_then(place).map_or(0, |at| at + 1);
        let to = after.and_then(place).unwrap_or(known.len());
        let within = known.iter().enumerate().filter(|(at, _)| (from..to).contains(at));
        let meant = within.map(|(_, message)| message).filter(|message| {
            let ends = [message.from.as_str(), message.to.as_str()];
            match of {
                Of::All => true,
                Of::Sender(agent) => message.from == *agent,
                Of::Channel(_) => {
                    let channel = channel.as_ref().expect("it was found");
                    let address = format!("{}:#{}", channel.project(), channel.local());
                    whole(message.to.as_str()) == address && answered(message).is_none()
                }
                Of::Replies(_) => answered(message) == root.as_ref().map(|root| root.id),
                Of::Between(one, other) => ends == [one, other] || ends == [other, one],
            }
        });
        let shown: Vec<&Arc<Message>> = meant.filter(|message| self.is_shown(message, shown_to)).collect();
        let records = shown.iter().take(range.limit).map(|message| self.record(message));
        let records: Vec<Record> = records.collect();
        let in_part = records.len() < shown.len() || (from..to) != (0..known.len());
        self.marks
            .reach_if(in_part && !records.is_empty(), Mark::ListedInPart);
        self.marks.reach_if(records.len() > 1, Mark::ListedMany);
        self.tell_what_is_seen(&records);
        Ok(records)
    }

    fn record(&mut self, message: &Arc<Message>) -> Record {
        let id = message.id;
        let mut readers: Vec<(AgentName, Timestamp)> = Vec::new();
        let mut reactions: Vec<Reaction> = Vec::new();
        let since = self.told.iter().position(
            |(_, told)| matches!(told, Told::Accepted(other) | Told::Sent(other, ..) if other.id == id),
        );
        let since = since.expect("it was accepted");
        for (nth, (at, told)) in self.told[since..].iter().enumerate() {
            match told {
                Told::HandedOver {
                    message, agent, call, ..
                } if *message == id => {
                    let read_at = self.read_at(since + nth, *call);
                    readers.extend(read_at.map(|at| (agent.clone(), at)));
                }
                Told::Marked(of, agent) if *of == id => readers.push((agent.clone(), *at)),
                Told::Accepted(_)
                | Told::Queued(..)
                | Told::Sent(..)
                | Told::HandedOver { .. }
                | Told::Read(..)
                | Told::Undone(..)
                | Told::Delivered(..)
                | Told::Held(..)
                | Told::Allowed(..)
                | Told::AskedAgain(..)
                | Told::Dropped(..)
                | Told::Marked(..) => {}
            }
        }
        readers.sort_by(|(one, one_at), (other, other_at)| (one_at, one).cmp(&(other_at, other)));
        let all = readers.clone();
        let mut nth = 0;
        readers.retain(|(reader, _)| {
            nth += 1;
            !all[..nth - 1].iter().any(|(before, _)| before == reader)
        });
        for (_, agent, emoji, given, at) in self.reacted.iter().filter(|(of, ..)| *of == id) {
            reacted(&mut reactions, agent, emoji, *given, *at);
        }
        let replies = self
            .not_forgotten()
            .iter()
            .filter(|reply| answered(reply) == Some(id))
            .count();
        let record = Record {
            message: Arc::clone(message),
            replies,
            reactions,
            readers,
        };
        self.tell_what_is_seen(std::slice::from_ref(&record));
        record
    }

    /// Finds when a call's reply was read that was handed over at a place of the list; never if it came back.
    fn read_at(&self, since: usize, wanted: CallId) -> Option<Timestamp> {
        let mut read_at = None;
        for (at, told) in &self.told[since..] {
            match told {
                Told::Read(call, _) | Told::Delivered(call, _) if *call == wanted => {
                    read_at = read_at.or(Some(*at));
                }
                Told::Undone(call, _) if *call == wanted => return None,
                Told::Accepted(_)
                | Told::Queued(..)
                | Told::Sent(..)
                | Told::HandedOver { .. }
                | Told::Read(..)
                | Told::Undone(..)
                | Told::Delivered(..)
                | Told::Held(..)
                | Told::Allowed(..)
                | Told::AskedAgain(..)
                | Told::Dropped(..)
                | Told::Marked(..) => {}
            }
        }
        read_at
    }

    fn tell_what_is_seen(&mut self, records: &[Record]) {
        for record in records {
            self.marks.reach_if(record.replies > 0, Mark::GoneBackToReplies);
            self.marks
                .reach_if(!record.readers.is_empty(), Mark::GoneBackToReaders);
            self.marks
                .reach_if(!record.reactions.is_empty(), Mark::GoneBackToReactions);
        }
    }
}

fn reacted(all: &mut Vec<Reaction>, agent: &AgentName, emoji: &str, given: bool, at: Timestamp) {
    if given && !all.iter().any(|reaction| *reaction.emoji == *emoji) {
        all.push(Reaction {
            emoji: emoji.into(),
            agents: Vec::new(),
        });
    }
    for reaction in all.iter_mut().filter(|reaction| *reaction.emoji == *emoji) {
        if given {
            reaction.agents.push((agent.clone(), at));
        } else {
            reaction.agents.retain(|(other, _)| other != agent);
        }
    }
    all.retain(|reaction| !reaction.agents.is_empty());
}

/// The message that another is a reply to.
fn answered(message: &Message) -> Option<MessageId> {
    let context = message.context.as_deref()?;
    let thread = context
        .thread
        .as_deref()
        .and_then(|thread| Uuid::parse_str(thread).ok());
    thread.map(MessageId).or(context.reply_to)
}

/// An address with its project before it.
fn whole(address: &str) -> String {
    match address.contains(':') {
        true => address.to_owned(),
        false => format!("default:{address}"),
    }
}
