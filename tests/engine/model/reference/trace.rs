//! What happened to each message: a list of which nothing is ever taken out, and of which only the end is shown.

use relay::engine::handling::Handling;
use relay::engine::holds::HeldBy;
use relay::engine::trace::{self, Command, Happened, Moment, ShownTo, Traced};

use super::*;

/// A step of a message, or of all that a reply handed over.
#[derive(Debug, Clone)]
pub(super) enum Told {
    Accepted(Arc<Message>),
    Queued(MessageId, AgentName, Seq),
    /// Both, of a message to one agent.
    Sent(Arc<Message>, AgentName, Seq),
    HandedOver {
        message: MessageId,
        agent: AgentName,
        call: CallId,
        session: SessionId,
        carrier: Carrier,
        person: bool,
    },
    Read(CallId, Sign),
    Undone(CallId, Sign),
    Delivered(CallId, Sign),
    Marked(MessageId, AgentName),
    Held(MessageId, AgentName, HeldBy),
    Allowed(MessageId, AgentName),
    Dropped(MessageId, AgentName),
    /// Behind the message that is named last.
    AskedAgain(MessageId, AgentName, MessageId),
}

impl Model {
    pub(super) fn tell(&mut self, told: Told) {
        self.told.push((self.now, told));
    }

    pub(super) fn about_trace(
        &mut self,
        open: &Open,
        call: CallId,
        command: &Command,
    ) -> Result<Vec<Effect>, Refusal> {
        let Command::Trace {
            message: given,
            shown_to,
        } = command
        else {
            unreachable!("no plan asks for the message itself")
        };
        if !open.person {
            self.marks.reach(Mark::TraceNotForAgents);
            return Err(Refusal::Trace(trace::Refusal::OnlyThePerson));
        }
        let is_meant = |message: &Message| {
            let (whole, given) = (message.id.to_string(), given.to_lowercase());
            let bare = whole.replace('-', "");
            let digits = given.replace('-', "").len();
            digits >= 8 && (whole.starts_with(&given) || bare.starts_with(&given))
        };
        let accepted = self.told.iter().enumerate().filter_map(|(at, (_, told))| {
            let (Told::Accepted(message) | Told::Sent(message, ..)) = told else {
                return None;
            };
            is_meant(message).then(|| (at, Arc::clone(message)))
        });
        let accepted: Vec<(usize, Arc<Message>)> = accepted.collect();
        let forgotten = self.forgotten();
        let (at, message) = match &accepted[..] {
            [] => {
                self.marks.reach(Mark::TraceUnknown);
                return Err(unknown(given, shown_to));
            }
            [(at, _)] if *at < forgotten => {
                self.marks.reach(Mark::TraceForgotten);
                return Err(unknown(given, shown_to));
            }
            [(at, message)] => (*at, Arc::clone(message)),
            several => unreachable!("random ids do not begin alike: {several:?}"),
        };
        let mut moments = self.moments(at, message.id);
        let whole_id = given.replace('-', "").len() == 32;
        match shown_to {
            ShownTo::Person => {}
            ShownTo::Project(_) | ShownTo::Agent(_) if !whole_id => return Err(unknown(given, shown_to)),
            ShownTo::Project(project) if message.from.project() == project => {}
            ShownTo::Agent(agent) if message.from == *agent => {}
            ShownTo::Project(project) => moments.retain(|moment| moment.agent.project() == project),
            ShownTo::Agent(agent) => moments.retain(|moment| moment.agent == *agent),
        }
        let is_sender_s = match shown_to {
            ShownTo::Person => true,
            ShownTo::Project(project) => message.from.project() == project,
            ShownTo::Agent(agent) => message.from == *agent,
        };
        if moments.is_empty() && !is_sender_s {
            self.marks.reach(Mark::TraceNotTheirs);
            return Err(unknown(given, shown_to));
        }
        if matches!(shown_to, ShownTo::Agent(own) if !is_sender_s && self.is_kept_from(message.id, own)) {
            self.marks.reach(HoldMark::TraceKeptFromReader);
            return Err(unknown(given, shown_to));
        }
        self.marks.reach_if(!is_sender_s, Mark::TraceOfWhatWasGot);
        let elsewhere = |project: &String| moments.iter().any(|moment| moment.agent.project() != project);
        self.marks.reach_if(
            is_sender_s && matches!(shown_to, ShownTo::Project(project) if elsewhere(project)),
            Mark::TraceOfWhatWentElsewhere,
        );
        let agents = moments.iter().filter(|moment| moment.what == Happened::Queued);
        let handed = |moment: &&Moment| matches!(moment.what, Happened::HandedOver { .. });
        let handed = moments.iter().filter(handed).map(|moment| &moment.agent);
        let handed: Vec<&AgentName> = handed.collect();
        let again = handed
            .iter()
            .enumerate()
            .any(|(at, agent)| handed[..at].contains(agent));
        self.marks.reach(Mark::Traced);
        let marked = moments.iter().any(|moment| moment.what == Happened::Marked);
        self.marks.reach_if(marked, Mark::TracedMarked);
        self.marks.reach_if(given.len() < 32, Mark::TracedByItsBeginning);
        self.marks.reach_if(agents.count() > 1, Mark::TracedOfSeveral);
        self.marks.reach_if(again, Mark::TracedBackAndForth);
        let traced = Traced {
            id: message.id,
            from: message.from.clone(),
            to: message.to.clone(),
            kind: message.kind,
            handling: Handling::default(),
            accepted_at: message.ts,
            moments,
        };
        let answer = trace::Reply::Traced(Box::new(traced));
        Ok(vec![reply(call, Ok(answer.into()))])
    }

    /// Lists what happened to a message since a place of the list.
    fn moments(&self, since: usize, id: MessageId) -> Vec<Moment> {
        let told = &self.told[since..];
        let mut moments = Vec::new();
        for (at, what) in told {
            let (agent, what) = match what {
                Told::Queued(message, agent, _) if *message == id => (agent, Happened::Queued),
                Told::Sent(message, agent, _) if message.id == id => (agent, Happened::Queued),
                Told::HandedOver {
                    message,
                    agent,
                    session,
                    carrier,
                    person,
                    call: _,
                } if *message == id => {
                    let what = Happened::HandedOver {
                        session: *session,
                        carrier: *carrier,
                        person: *person,
                    };
                    (agent, what)
                }
                Told::Marked(message, agent) if *message == id && self.got(since, id, agent) => {
                    (agent, Happened::Marked)
                }
                Told::Held(message, agent, by) if *message == id => (agent, Happened::Held(*by)),
                Told::AskedAgain(message, agent, after) if *message == id => {
                    (agent, Happened::AskedAgain { after: *after })
                }
                Told::Allowed(message, agent) if *message == id => (agent, Happened::Allowed),
                Told::Dropped(message, agent) if *message == id => (agent, Happened::Dropped),
                Told::Accepted(_)
                | Told::Queued(..)
                | Told::Sent(..)
                | Told::HandedOver { .. }
                | Told::Held(..)
                | Told::Allowed(..)
                | Told::AskedAgain(..)
                | Told::Dropped(..)
                | Told::Marked(..) => continue,
                Told::Read(call, by) => match self.handed_by(since, id, *call) {
                    Some(agent) => (agent, Happened::Read { by: *by }),
                    None => continue,
                },
                Told::Undone(call, by) => match self.handed_by(since, id, *call) {
                    Some(agent) => (agent, Happened::Undone { by: *by }),
                    None => continue,
                },
                Told::Delivered(call, by) => match self.handed_by(since, id, *call) {
                    Some(agent) => (agent, Happened::Delivered { by: *by }),
                    None => continue,
                },
            };
            let queued = told.iter().find_map(|(_, told)| {
                let (message, to, seq) = match told {
                    Told::Queued(message, to, seq) => (*message, to, *seq),
                    Told::Sent(message, to, seq) => (message.id, to, *seq),
                    Told::Accepted(_)
                    | Told::HandedOver { .. }
                    | Told::Read(..)
                    | Told::Undone(..)
                    | Told::Delivered(..)
                    | Told::Held(..)
                    | Told::Allowed(..)
                    | Told::AskedAgain(..)
                    | Told::Dropped(..)
                    | Told::Marked(..) => return None,
                };
                (message == id && to == agent).then_some(seq)
            });
            moments.push(Moment {
                at: *at,
                agent: agent.clone(),
                seq: queued.expect("it is queued first"),
                what,
            });
        }
        moments
    }

    /// Returns how many of the steps are forgotten: all but the latest that are within both bounds.
    pub(super) fn forgotten(&self) -> usize {
        let (mut steps, mut bytes) = (0, 0);
        let latest = self.told.iter().rev().take_while(|(_, told)| {
            steps += 1;
            if let Told::Accepted(message) | Told::Sent(message, ..) = told {
                bytes += message.bytes();
            }
            steps <= self.bounds.trace_max && bytes <= self.bounds.trace_bytes_max
        });
        self.told.len() - latest.count()
    }

    /// Tells whether an agent got a message.
    pub(super) fn got(&self, since: usize, id: MessageId, agent: &AgentName) -> bool {
        self.told[since..].iter().any(|(_, told)| match told {
            Told::Queued(message, to, _) => *message == id && to == agent,
            Told::Sent(message, to, _) => message.id == id && to == agent,
            Told::Accepted(_)
            | Told::HandedOver { .. }
            | Told::Read(..)
            | Told::Undone(..)
            | Told::Delivered(..)
            | Told::Held(..)
            | Told::Allowed(..)
            | Told::AskedAgain(..)
            | Told::Dropped(..)
            | Told::Marked(..) => false,
        })
    }

    /// Finds to whom a call's reply handed a message over, if it did.
    pub(super) fn handed_by(&self, since: usize, id: MessageId, wanted: CallId) -> Option<&AgentName> {
        self.told[since..].iter().find_map(|(_, told)| {
            let Told::HandedOver {
                message, agent, call, ..
            } = told
            else {
                return None;
            };
            (*message == id && *call == wanted).then_some(agent)
        })
    }
}

fn unknown(given: &str, to: &ShownTo) -> Refusal {
    let given = given.to_owned();
    Refusal::Trace(match to {
        ShownTo::Person => trace::Refusal::Unknown { given },
        ShownTo::Project(_) | ShownTo::Agent(_) => trace::Refusal::NotShown { given },
    })
}
