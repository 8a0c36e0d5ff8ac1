//! Stands between the server and its engine: writes down what is accepted, and for which worker of a name, counts what happens, and breaks
//! the engine on purpose where a seeded bug is switched on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use relay::engine::workers::{Became, Happened, Refusal as NotDone};
use relay::engine::{
    AgentName, CallId, Carrier, Delivery, Effect, Ending, Engine, Event, Input, Overview, Reason, Refusal,
    Reply, SessionId, Sign, Status, Timestamp, WaitEnd, Who, WorkerId, agents, mail,
};
use relay::server::Machine;

use super::bug::Bug;
use super::history::{Accepted, Latest, Log};
use crate::client::now_ms;
use crate::marks::Marks;

/// The number of the session that bugs have, and of its first call.
const OWN: u64 = 1 << 60;

/// The engine, watched.
pub struct WorkerTap {
    engine: Engine,
    marks: Marks,
    bug: Option<Bug>,
    log: Log,
    boot: usize,
    /// The last worker of each name.
    last: BTreeMap<AgentName, Latest>,
    names: BTreeMap<WorkerId, AgentName>,
    living: BTreeSet<WorkerId>,
    released: BTreeSet<WorkerId>,
    /// Calls that wait for a worker.
    spawns: BTreeSet<CallId>,
    /// The last that was handed over, and whose it was.
    kept: Option<(AgentName, Delivery)>,
    own: u64,
}

impl WorkerTap {
    /// Watches an engine that starts now.
    pub fn new(engine: Engine, marks: Marks, bug: Option<Bug>, log: Log, boot: usize) -> Self {
        Self {
            engine,
            marks,
            bug,
            log,
            boot,
            last: BTreeMap::new(),
            names: BTreeMap::new(),
            living: BTreeSet::new(),
            released: BTreeSet::new(),
            spawns: BTreeSet::new(),
            kept: None,
            own: OWN,
        }
    }

    /// Breaks what comes in. Tells whether it comes in at all.
    fn spoil_input(&mut self, now: Timestamp, input: &mut Input) -> bool {
        match (self.bug, input) {
            (
                Some(Bug::OldLetIn),
                Input::Opened {
                    who: Who::Registered(registration),
                    ..
                },
            ) => registration.instance = registration.instance.map(|_| uuid::Uuid::max()),
            (Some(Bug::LateReportTaken), Input::Worker { worker, .. }) => {
                let name = self.names.get(worker);
                *worker = name
                    .and_then(|name| self.last.get(name))
                    .map_or(*worker, |latest| latest.worker);
            }
            (
                Some(Bug::EndUnheard),
                Input::Worker {
                    happened: Happened::Exited { .. },
                    ..
                },
            ) => return false,
            (
                Some(Bug::LostAtRelease),
                Input::Worker {
                    worker,
                    happened: Happened::Exited { .. },
                },
            ) if self.released.contains(worker) => {
                let name = self.names[worker].clone();
                self.empties(now, &name);
            }
            (_, _) => {}
        }
        true
    }

    /// Reads an inbox, and tells nobody.
    fn empties(&mut self, now: Timestamp, name: &AgentName) {
        let (session, call) = (SessionId(self.own), CallId(self.own));
        self.own += 1;
        let mut out = Vec::new();
        let opened = Input::Opened {
            session,
            carrier: Carrier::Exchange,
            who: Who::Person,
        };
        self.engine.handle(now, opened, &mut out);
        let command = mail::Command::read_all(Some(name.to_string()), 0).into();
        let read = Input::Call {
            session,
            call,
            random: [0; 16],
            command,
        };
        self.engine.handle(now, read, &mut out);
        let handovers = out.iter().filter_map(|effect| {
            let Effect::Reply { handover, .. } = effect else {
                return None;
            };
            *handover
        });
        for handover in handovers.collect::<Vec<_>>() {
            let sign = Sign::Passed;
            self.engine
                .handle(now, Input::Signed { handover, sign }, &mut out);
        }
        let ending = Ending::Orderly;
        self.engine
            .handle(now, Input::Closed { session, ending }, &mut out);
    }

    /// Breaks what goes out.
    fn spoil_effects(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let is_end = |effect: &Effect| matches!(effect, Effect::EndWorker { .. });
        match self.bug {
            Some(Bug::EndForgotten) => out.retain(|effect| !is_end(effect)),
            Some(Bug::EndedTwice) => out.extend(out.clone().into_iter().filter(is_end)),
            Some(Bug::StartedTwice) => {
                let is_start = |effect: &Effect| matches!(effect, Effect::StartWorker(_));
                out.extend(out.clone().into_iter().filter(is_start));
            }
            Some(Bug::AnswerLost) => {
                out.retain(
                    |effect| !matches!(effect, Effect::Reply { call, .. } if self.spawns.contains(call)),
                );
            }
            Some(Bug::AnsweredEarly) => {
                let starts = out.iter().filter_map(|effect| {
                    let Effect::StartWorker(start) = effect else {
                        return None;
                    };
                    Some(start.worker)
                });
                for worker in starts.collect::<Vec<_>>() {
                    let happened = Happened::Started;
                    self.engine.handle(now, Input::Worker { worker, happened }, out);
                }
            }
            Some(Bug::NewsLost | Bug::MarkMissing | Bug::Astray) => self.spoil_replies(out),
            Some(Bug::OldLetIn | Bug::EndUnheard | Bug::LateReportTaken | Bug::LostAtRelease) | None => {}
        }
    }

    fn spoil_replies(&mut self, out: &mut [Effect]) {
        let reader = out.iter().find_map(|effect| {
            let Effect::Note(Event::HandedOver { agent, .. }) = effect else {
                return None;
            };
            Some(agent.clone())
        });
        for effect in out {
            let Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
                ..
            } = effect
            else {
                continue;
            };
            let mut spoilt = deliveries.to_vec();
            match self.bug {
                Some(Bug::NewsLost) => {
                    spoilt.retain(|delivery| delivery.message.from != AgentName::relay());
                }
                Some(Bug::MarkMissing) => {
                    spoilt
                        .iter_mut()
                        .for_each(|delivery| delivery.redelivered = false);
                }
                // The answer to an ask is one.
                Some(Bug::Astray) if spoilt.len() > 1 => {
                    let kept = self.kept.take();
                    spoilt.extend(
                        kept.filter(|(of, _)| Some(of) != reader.as_ref())
                            .map(|(_, kept)| kept),
                    );
                    self.kept = reader.clone().zip(spoilt.first().cloned());
                }
                Some(_) | None => {}
            }
            *deliveries = Arc::new(spoilt);
        }
    }

    /// Looks at what comes in.
    fn look(&self, input: &Input) {
        match input {
            Input::Worker { worker, .. } => {
                self.marks
                    .hit_if(!self.living.contains(worker), "reported what changes nothing");
            }
            Input::Stopping => {
                self.marks.hit_if(!self.living.is_empty(), "stopped with workers");
                self.marks
                    .hit_if(!self.spawns.is_empty(), "stopped while a spawn waited");
            }
            Input::Opened { .. }
            | Input::Named { .. }
            | Input::Closed { .. }
            | Input::Call { .. }
            | Input::Cancelled { .. }
            | Input::Signed { .. }
            | Input::WallClock { .. }
            | Input::KeptAlive { .. } => {}
        }
    }

    /// Looks at what goes out.
    fn see(&mut self, out: &[Effect]) {
        for effect in out {
            match effect {
                Effect::StartWorker(start) => {
                    let latest = Latest {
                        worker: start.worker,
                        is_gone: false,
                    };
                    self.last.insert(start.agent.clone(), latest);
                    self.names.insert(start.worker, start.agent.clone());
                    self.living.insert(start.worker);
                }
                Effect::Opened {
                    result: Err(Refusal::Agents(agents::Refusal::Fenced { .. })),
                    ..
                } => self.marks.hit("session of an earlier worker refused"),
                Effect::Reply { call, result, .. } => {
                    self.spawns.remove(call);
                    self.answered(result);
                }
                Effect::Note(event) => self.note(event),
                Effect::Opened { .. }
                | Effect::Deliver { .. }
                | Effect::Superseded { .. }
                | Effect::EndWorker { .. }
                | Effect::Changed { .. }
                | Effect::Tell { .. }
                | Effect::Invoke { .. } => {}
            }
        }
    }

    fn answered(&self, result: &Result<Reply, Refusal>) {
        self.marks.hit(match result {
            Err(Refusal::Agents(agents::Refusal::Fenced { .. })) => "call of an earlier worker refused",
            Err(Refusal::Workers(NotDone::Lives { is_ending, .. })) => match is_ending {
                true => "refused: it ends still",
                false => "refused: it lives",
            },
            Err(Refusal::Workers(NotDone::TooMany { .. })) => "refused: too many",
            Err(Refusal::Workers(NotDone::NotYours { .. })) => "refused: not yours",
            Err(Refusal::Workers(NotDone::NotAWorker { .. })) => "refused: not a worker",
            Err(Refusal::Workers(NotDone::Failed { .. })) => "answered that it does not run",
            Ok(Reply::Workers(_)) => "answered: spawned, or released",
            Ok(_) | Err(_) => return,
        });
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::SpawnWaits { call, .. } => drop(self.spawns.insert(*call)),
            Event::WaitEnded {
                call,
                by: WaitEnd::Cancelled,
            } => {
                let is_spawn = self.spawns.remove(call);
                self.marks.hit_if(is_spawn, "spawn given up");
            }
            Event::Undone { by: Sign::Fenced, .. } => self.marks.hit("undone: taken over"),
            Event::HandedOver { deliveries, .. } => {
                let again = deliveries.iter().any(|delivery| delivery.redelivered);
                self.marks.hit_if(again, "handed over again");
            }
            Event::HandedOn { message, .. } => {
                let is_news = message.from == AgentName::relay();
                self.marks
                    .hit(if is_news { "news handed on" } else { "handed on" });
            }
            Event::Worker(transition) => {
                let worker = transition.worker;
                self.marks.hit(match &transition.became {
                    Became::Asked { .. } => return,
                    Became::Started => "became: started",
                    Became::Ready => "became: ready",
                    Became::Late => "became: late",
                    Became::Silent => "became: silent",
                    Became::Failed { .. } => {
                        self.living.remove(&worker);
                        "became: failed"
                    }
                    Became::Released { .. } => {
                        self.released.insert(worker);
                        "became: released"
                    }
                    Became::Exited { expected, .. } => {
                        self.living.remove(&worker);
                        if *expected {
                            "became: exited, as it was told to"
                        } else {
                            "became: exited"
                        }
                    }
                });
            }
            Event::Gone { agent } => {
                if let Some(latest) = self.last.get_mut(agent) {
                    latest.is_gone = true;
                }
            }
            Event::Accepted { message, agents, .. } => {
                let worker = |name: &AgentName| self.last.get(name).copied();
                let accepted = Accepted {
                    id: message.id.to_string(),
                    from: message.from.to_string(),
                    to: agents[0].to_string(),
                    body: message.body.clone(),
                    at_ms: now_ms(),
                    boot: self.boot,
                    from_worker: worker(&message.from),
                    to_worker: worker(&agents[0]),
                };
                self.log.trace(format_args!("{accepted:?}"));
                self.log.history().accepted.push(accepted);
            }
            Event::Opened { .. }
            | Event::Closed { .. }
            | Event::Registered { .. }
            | Event::TakenOver { .. }
            | Event::Left { .. }
            | Event::Joined { .. }
            | Event::BroughtAsItsAgentHasIt { .. }
            | Event::Parked { .. }
            | Event::StandsBy { .. }
            | Event::Does { .. }
            | Event::Recognised { .. }
            | Event::WaitEnded { .. }
            | Event::Passed { .. }
            | Event::KeptAlive { .. }
            | Event::Overdue { .. }
            | Event::Read { .. }
            | Event::Awaited { .. }
            | Event::HeldBack { .. }
            | Event::Receipt { .. }
            | Event::PushFailed { .. }
            | Event::Confirmed { .. }
            | Event::Undone { .. }
            | Event::Expired { .. }
            | Event::AskedAgain { .. }
            | Event::Holds { .. }
            | Event::Held { .. }
            | Event::Allowed { .. }
            | Event::Dropped { .. }
            | Event::Marked { .. }
            | Event::Reacted { .. }
            | Event::Invoked { .. }
            | Event::InvocationEnded { .. }
            | Event::ActionDenied { .. }
            | Event::NodeCame { .. }
            | Event::NodeLeft { .. }
            | Event::NodeLapsed { .. }
            | Event::Bound { .. }
            | Event::Unbound { .. }
            | Event::Stopping => {}
        }
    }
}

impl Machine for WorkerTap {
    fn handle(&mut self, now: Timestamp, mut input: Input, out: &mut Vec<Effect>) {
        self.look(&input);
        if self.bug.is_some() && !self.spoil_input(now, &mut input) {
            return;
        }
        let start = out.len();
        self.engine.handle(now, input, out);
        let mut effects = out.split_off(start);
        self.spoil_effects(now, &mut effects);
        self.see(&effects);
        out.append(&mut effects);
    }

    fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        self.engine.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let start = out.len();
        self.engine.handle_timeout(now, out);
        let mut effects = out.split_off(start);
        self.spoil_effects(now, &mut effects);
        self.see(&effects);
        out.append(&mut effects);
    }

    fn status(&self) -> Status {
        self.engine.status()
    }

    fn overview(&self) -> Overview {
        self.engine.overview()
    }

    fn take_newly_seen(&mut self) -> Option<relay::engine::AgentName> {
        self.engine.take_newly_seen()
    }
}
