//! A wait ends in time, and nobody waits for what is there.

use super::wanted::Wanted;
use super::*;

impl History<'_> {
    pub(super) fn every_wait_ends_in_time(&self) -> Verdict {
        let told = self.told();
        let waiting = Waiting::of(self);
        for (call, asked) in &self.calls {
            let wait_ms = wait_ms(asked.command).map_or(0, i64::from);
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
            let in_stead = agent
                .as_ref()
                .is_some_and(|agent| self.is_in_stead(asked.session, agent));
            let wanted = self.wanted(asked.step, asked.session, asked.command);
            for (at, step) in self.steps[..ended].iter().enumerate().skip(asked.step) {
                let Some(agent) = &agent else { continue };
                let mut pending = step.after.pending.iter();
                let count = pending
                    .find(|(name, _)| name == agent)
                    .map_or(0, |(_, count)| *count);
                let left = count > 0 && (wanted.is_all() || waiting.any(at, agent, &wanted));
                holds(at, !left, || {
                    format!("{call:?} waits for something that is there")
                })?;
                let replies = told.get(&(agent, self.life(agent, at)));
                let may_be_due = self.may_have_lost_something(agent);
                let waits_on = in_stead || wanted.question.is_some() || wanted.waits_past_start;
                let is_told = waits_on || !is_start_to_be_told(replies, at, may_be_due);
                holds(at, is_told, || {
                    format!("{call:?} waits while the start is to be told")
                })?;
            }
            if let Some((at, Err(Refusal::Mail(mail::Refusal::NoAnswer { ms, .. })))) = answered {
                let in_time = due == Some(*at) && i64::from(*ms) == wait_ms;
                holds(*at, in_time && wanted.question.is_some(), || {
                    format!("{call:?} got no answer before its time")
                })?;
            }
            let Some((
                at,
                Ok(Reply::Mail(mail::Reply::Messages {
                    deliveries,
                    restarted,
                    ..
                })),
            )) = answered
            else {
                continue;
            };
            let in_vain = deliveries.is_empty() && (restarted.is_none() || wanted.waits_past_start);
            holds(
                *at,
                !in_vain || wanted.question.is_none() && (due == Some(*at) || self.supersedes(*at, asked)),
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
        let waits = matches!(command, Command::Mail(mail::Command::Read { wait_ms, .. }) if *wait_ms > 0);
        waits
            && *session == older.session
            && self.speaker(*session, command) == self.speaker(older.session, older.command)
    }

    /// A read that is to be the only one for its inbox is refused while another one waits, and only then. A post that waits for its
    /// answer is none.
    pub(super) fn a_read_that_is_to_wait_alone_does(&self) -> Verdict {
        for asked in self.calls.values() {
            let Command::Mail(mail::Command::Read { second, .. }) = asked.command else {
                continue;
            };
            let at = asked.step;
            let Some((_, answer)) = asked.answers.first().filter(|(answered, _)| *answered == at) else {
                let alone =
                    *second == mail::Second::Supersedes || self.waits_beside(at, asked).next().is_none();
                let parked = self.was_open(asked.session, at);
                holds(at, !parked || alone, || {
                    "a second read waits beside the first".to_owned()
                })?;
                continue;
            };
            if let Err(Refusal::Mail(mail::Refusal::AlreadyWaits { agent })) = answer {
                let waits = self.waits_beside(at, asked).next().is_some();
                let named = self.speaker(asked.session, asked.command);
                let right = *second == mail::Second::IsRefused && waits && named.as_ref() == Some(agent);
                holds(at, right, || {
                    format!("a read of {named:?} was refused for {agent}, for whom nobody waits")
                })?;
            }
        }
        Ok(())
    }

    /// Goes through the reads of the same inbox that wait when another call is made, without those in its agent's stead.
    pub(super) fn waits_beside(&self, at: usize, other: &Asked) -> impl Iterator<Item = &Asked<'_>> {
        let agent = self.speaker(other.session, other.command);
        let of_inbox = self.calls.iter().filter(move |(_, asked)| {
            let reader = self.speaker(asked.session, asked.command);
            let in_stead = |agent: &AgentName| self.is_in_stead(asked.session, agent);
            reader == agent && !reader.as_ref().is_some_and(in_stead)
        });
        let reads =
            of_inbox.filter(|(_, asked)| matches!(asked.command, Command::Mail(mail::Command::Read { .. })));
        let waiting = reads.filter(move |(call, asked)| {
            let ended = asked.answers.first().map(|(answered, _)| *answered);
            let ended = ended.or_else(|| self.given_up(**call, asked));
            asked.step < at
                && self.was_open(asked.session, asked.step)
                && ended.is_none_or(|ended| ended >= at)
        });
        waiting.map(|(_, asked)| asked)
    }
}

/// What waits in the inboxes, read off the replies.
struct Waiting<'a> {
    /// For each agent, the copies that it got.
    accepted: BTreeMap<&'a AgentName, Vec<&'a Copy<'a>>>,
    /// In which steps each message was shown, and what became of the reply.
    shown: BTreeMap<(&'a AgentName, MessageId), Vec<(usize, Fate)>>,
}

impl<'a> Waiting<'a> {
    fn of(history: &'a History<'a>) -> Self {
        let mut shown: BTreeMap<_, Vec<(usize, Fate)>> = BTreeMap::new();
        for reply in &history.shown {
            for delivery in reply.deliveries {
                let key = (reply.inbox.0, delivery.message.id);
                shown.entry(key).or_default().push((reply.step, reply.fate));
            }
        }
        let mut accepted: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for copy in &history.accepted {
            accepted.entry(copy.inbox.0).or_default().push(copy);
        }
        Self { accepted, shown }
    }

    /// Tells whether something that is asked for waited for an agent when a step was done.
    fn any(&self, at: usize, agent: &AgentName, wanted: &Wanted<'_>) -> bool {
        let of_agent = self.accepted.get(agent).into_iter().flatten();
        let mut earlier = of_agent.take_while(|copy| copy.step <= at);
        earlier.any(|copy| {
            let replies = self.shown.get(&copy.key()).into_iter().flatten();
            let mut replies = replies.filter(|(step, _)| *step <= at);
            wanted.has(copy.number, copy.message)
                && replies.all(|(_, fate)| matches!(fate, Fate::Failed(failed) if *failed <= at))
        })
    }
}

/// Tells whether an agent is to be told of the start after a step, by the replies that ever told it.
fn is_start_to_be_told(replies: Option<&Vec<(usize, Fate)>>, at: usize, may_be_due: bool) -> bool {
    let mut replies = replies.into_iter().flatten().rev();
    match replies.find(|(step, _)| *step <= at) {
        None => may_be_due,
        Some((_, Fate::Failed(failed))) => *failed <= at,
        Some((_, Fate::Open | Fate::Arrived(_))) => false,
    }
}
