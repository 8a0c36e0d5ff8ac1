//! Stands between the server and its engine: writes down what happens, finds what only it can see, and breaks the engine on purpose
//! where a seeded bug is switched on.

mod notes;

use std::collections::BTreeMap;
use std::sync::Arc;

use relay::engine::handling::Mode;
use relay::engine::limits::{SURFACED_BYTES_MAX, WOKEN_MS};
use relay::engine::surfacing::{self, Boundary, Shown};
use relay::engine::{
    AgentName, CallId, Command, Delivery, Effect, Engine, HandoverId, Input, MessageId, Overview, Reason,
    Reply, SessionId, Sign, Status, Timestamp, Who, mail, trace,
};
use relay::server::Machine;

use crate::laws::Violation;
use crate::marks::Marks;
use crate::programs::bug::Bug;
use crate::programs::history::{Log, Trace};
use crate::programs::laws::{AGAIN, BUSY, ONE_WAKE, ROOM};

/// The first number of the calls that bugs make of their own.
const OWN_CALLS: u64 = 1 << 60;

/// What a turn is shown beyond that is forgotten by a bug.
const SCARCE_BYTES: usize = 1_000;

/// What a program is known to do, by what was heard of it.
#[derive(Default)]
struct Known {
    is_busy: bool,
    went_on: bool,
    /// How many bytes it was shown in its turn.
    bytes: usize,
    /// The wake on its way, and when it was passed.
    wake: Option<(HandoverId, Option<Timestamp>)>,
}

/// What a call is about.
#[derive(Clone, Copy)]
enum Asked {
    Comes(Boundary),
    StandsBy,
}

/// The engine, watched.
pub struct ProgramTap {
    engine: Engine,
    marks: Marks,
    bug: Option<Bug>,
    log: Log,
    programs: BTreeMap<SessionId, Known>,
    asked: BTreeMap<CallId, (SessionId, Asked)>,
    traced: BTreeMap<CallId, ()>,
    /// What is handed over, by its hand-over.
    handed: BTreeMap<HandoverId, Vec<MessageId>>,
    /// Counts what a bug may hit, and what it keeps.
    hits: u64,
    own_calls: u64,
    kept: Option<(AgentName, Delivery)>,
    last_shown: BTreeMap<SessionId, Shown>,
}

impl ProgramTap {
    /// Watches an engine that starts now.
    pub fn new(engine: Engine, marks: Marks, bug: Option<Bug>, log: Log) -> Self {
        let mut history = log.history();
        history.accepted.clear();
        history.steps.clear();
        history.handed.clear();
        drop(history);
        Self {
            engine,
            marks,
            bug,
            log,
            programs: BTreeMap::new(),
            asked: BTreeMap::new(),
            traced: BTreeMap::new(),
            handed: BTreeMap::new(),
            hits: 0,
            own_calls: OWN_CALLS,
            kept: None,
            last_shown: BTreeMap::new(),
        }
    }

    /// Tells whether a bug strikes now: one time in so many.
    fn strikes(&mut self, bug: Bug, one_in: u64) -> bool {
        if self.bug != Some(bug) {
            return false;
        }
        self.hits += 1;
        self.hits.is_multiple_of(one_in)
    }

    fn broken(&self, law: &'static str, detail: String) {
        self.log.history().seen_by_tap.push(Violation { law, detail });
    }

    /// Looks at what comes in, and breaks it. Returns what is answered in the engine's stead, if a bug does so.
    fn look(&mut self, now: Timestamp, input: &mut Input) -> Option<Effect> {
        match input {
            Input::Opened {
                session,
                who: Who::Program { .. },
                ..
            } => drop(self.programs.insert(*session, Known::default())),
            Input::Closed { session, .. } => {
                if self.programs.remove(session).is_some() {
                    self.marks.hit("program's session closed");
                }
            }
            Input::Signed { handover, sign } => {
                let mut known = self.programs.values_mut();
                let known = known.find(|known| known.wake.is_some_and(|(wake, _)| wake == *handover));
                match (known, sign) {
                    (Some(known), Sign::Passed) => {
                        known.wake.get_or_insert((*handover, None)).1 = Some(now);
                    }
                    (Some(known), Sign::Lost | Sign::Cancelled) => known.wake = None,
                    (Some(_) | None, _) => {}
                }
            }
            Input::Call {
                session,
                call,
                command,
                ..
            } => return self.look_at(*session, *call, command),
            Input::Opened { .. }
            | Input::Named { .. }
            | Input::Cancelled { .. }
            | Input::KeptAlive { .. }
            | Input::Worker { .. }
            | Input::WallClock { .. }
            | Input::Stopping => {}
        }
        None
    }

    fn look_at(&mut self, session: SessionId, call: CallId, command: &mut Command) -> Option<Effect> {
        match command {
            Command::Surfacing(surfacing::Command::Comes { to, woken_by, .. }) => {
                self.asked.insert(call, (session, Asked::Comes(*to)));
                let known = self.programs.entry(session).or_default();
                if let Boundary::Prompted { .. } = to {
                    let wake = known.wake.take();
                    let is_by_wake = wake.is_some() && wake.map(|(wake, _)| wake) == *woken_by;
                    if !is_by_wake {
                        known.bytes = 0;
                        self.marks
                            .hit_if(wake.is_some(), "turn not begun by the wake on its way");
                    }
                    if self.bug == Some(Bug::WakeTakenForGranted) {
                        *woken_by = wake.map(|(wake, _)| wake);
                    }
                }
                match (self.bug, &to) {
                    (Some(Bug::WrongBoundary), Boundary::Ended) => {
                        *to = Boundary::Prompted { by_person: true };
                    }
                    (Some(Bug::RoomForgotten), Boundary::Returned) if known.bytes > SCARCE_BYTES => {
                        *to = Boundary::Prompted { by_person: false };
                    }
                    (Some(Bug::LeftAsleep), Boundary::Ended | Boundary::Rests | Boundary::Started) => {
                        *to = Boundary::Asks;
                    }
                    (_, _) => {}
                }
                None
            }
            Command::Surfacing(surfacing::Command::StandsBy | surfacing::Command::StandsIn) => {
                self.asked.insert(call, (session, Asked::StandsBy));
                let is_on_its_way = self
                    .programs
                    .get(&session)
                    .is_some_and(|known| known.wake.is_some());
                let shown = self.last_shown.get(&session).cloned();
                let shown = shown.filter(|_| is_on_its_way && self.bug == Some(Bug::WokenTwice))?;
                Some(Effect::Reply {
                    call,
                    result: Ok(surfacing::Reply::Shown(shown).into()),
                    handover: None,
                })
            }
            Command::Trace(trace::Command::Trace { .. } | trace::Command::Show { .. }) => {
                self.traced.insert(call, ());
                None
            }
            Command::Mail(mail::Command::Post {
                options: Some(options),
                ..
            }) => {
                if self.bug == Some(Bug::HeldIsShown) && options.handling.mode == Some(Mode::Manual) {
                    options.handling.mode = Some(Mode::Immediate);
                }
                None
            }
            Command::Mail(_)
            | Command::Agents(_)
            | Command::Groups(_)
            | Command::Channels(_)
            | Command::Watches(_)
            | Command::Nodes(_)
            | Command::Receipts(_)
            | Command::Actions(_)
            | Command::Holds(_)
            | Command::Records(_)
            | Command::Workers(_)
            | Command::Resource(_) => None,
        }
    }

    /// Tells the engine something that has not happened, where a bug does so, before or behind what has.
    fn own(&mut self, now: Timestamp, session: SessionId, to: Boundary, out: &mut Vec<Effect>) {
        if !self.programs.contains_key(&session) {
            return;
        }
        let call = CallId(self.own_calls);
        self.own_calls += 1;
        let command = surfacing::Command::Comes {
            to,
            speaks_as: None,
            woken_by: None,
        };
        let input = Input::Call {
            session,
            call,
            random: [0; 16],
            command: command.into(),
        };
        let from = out.len();
        self.engine.handle(now, input, out);
        let is_own = |effect: &Effect| matches!(effect, Effect::Reply { call: of, .. } if *of == call);
        let mut at = from;
        while at < out.len() {
            if is_own(&out[at]) {
                out.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Breaks what goes out.
    fn spoil(&mut self, out: &mut [Effect]) {
        if self.bug.is_none() {
            return;
        }
        for effect in out {
            let Effect::Reply { call, result, .. } = effect else {
                continue;
            };
            match result {
                Ok(Reply::Surfacing(surfacing::Reply::Shown(shown))) => self.spoil_shown(*call, shown),
                Ok(Reply::Trace(trace::Reply::Traced(traced))) if self.bug == Some(Bug::StepLeftOut) => {
                    traced.moments.pop();
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn spoil_shown(&mut self, call: CallId, shown: &mut Shown) {
        let mut deliveries = shown.deliveries.to_vec();
        if !deliveries.is_empty() && self.strikes(Bug::ShownLost, 3) {
            deliveries.pop();
        }
        if self.bug == Some(Bug::MarkMissing) {
            deliveries
                .iter_mut()
                .for_each(|delivery| delivery.redelivered = false);
        }
        if self.bug == Some(Bug::Overtaken) {
            deliveries.reverse();
        }
        if self.bug == Some(Bug::NoticeForgotten) {
            shown.left = 0;
        }
        if let Some((agent, delivery)) = self.kept.clone() {
            let is_own = agent == shown.agent;
            if is_own && self.strikes(Bug::ShownAgain, 3) || !is_own && self.strikes(Bug::Astray, 2) {
                deliveries.push(delivery);
            }
        }
        if let Some(delivery) = deliveries.last() {
            self.kept = Some((shown.agent.clone(), delivery.clone()));
        }
        shown.deliveries = Arc::new(deliveries);
        if let Some((session, Asked::StandsBy)) = self.asked.get(&call) {
            self.last_shown.insert(*session, shown.clone());
        }
    }

    /// Looks at what goes out.
    fn see(&mut self, now: Timestamp, out: &[Effect]) {
        // What is asked now is answered before anybody is woken by it.
        for is_wake in [false, true] {
            for effect in out {
                if let Effect::Reply {
                    call,
                    result,
                    handover,
                } = effect
                {
                    let of_wake = matches!(self.asked.get(call), Some((_, Asked::StandsBy)));
                    if of_wake == is_wake
                        && let Some((session, asked)) = self.asked.remove(call)
                    {
                        self.answered(now, session, asked, result, *handover);
                    }
                }
            }
        }
        for effect in out {
            match effect {
                Effect::Note(event) => self.note(event),
                Effect::Reply {
                    call,
                    result: Ok(Reply::Trace(trace::Reply::Traced(traced))),
                    ..
                } if self.traced.remove(call).is_some() => {
                    let mut history = self.log.history();
                    let seen = history.steps.get(&traced.id).cloned().unwrap_or_default();
                    history.traces.push(Trace {
                        id: traced.id,
                        said: serde_json::Value::Null,
                        seen,
                        asked_ms: 0,
                    });
                }
                Effect::Opened { .. }
                | Effect::Reply { .. }
                | Effect::Deliver { .. }
                | Effect::Superseded { .. }
                | Effect::StartWorker(_)
                | Effect::EndWorker { .. }
                | Effect::Changed { .. }
                | Effect::Tell { .. }
                | Effect::Invoke { .. } => {}
            }
        }
    }

    fn answered(
        &mut self,
        now: Timestamp,
        session: SessionId,
        asked: Asked,
        result: &Result<Reply, relay::engine::Refusal>,
        handover: Option<HandoverId>,
    ) {
        let Ok(Reply::Surfacing(reply)) = result else {
            return;
        };
        let shown = match reply {
            surfacing::Reply::Shown(shown) => Some(shown),
            surfacing::Reply::Nothing => None,
            surfacing::Reply::Superseded => {
                self.marks.hit("waiter superseded");
                return;
            }
        };
        let Some(known) = self.programs.get_mut(&session) else {
            return;
        };
        let bytes: usize = shown.map_or(0, |shown| {
            shown
                .deliveries
                .iter()
                .map(|delivery| delivery.message.framed_bytes())
                .sum()
        });
        let mut wrong = Vec::new();
        match asked {
            Asked::Comes(to) => {
                if to == Boundary::Started {
                    // Nothing of what was on its way is in the conversation that begins.
                    known.wake = None;
                }
                let goes_on = to == Boundary::Ended && shown.is_some();
                if goes_on && known.went_on {
                    wrong.push((AGAIN, format!("{session:?} goes on again at {now}")));
                }
                self.marks.hit_if(
                    to == Boundary::Ended && known.went_on,
                    "turn ended that had gone on",
                );
                match to {
                    Boundary::Prompted { .. } | Boundary::Returned => known.is_busy = true,
                    Boundary::Ended => known.is_busy = goes_on,
                    Boundary::Started | Boundary::Rests => known.is_busy = false,
                    // It is not idle.
                    Boundary::Asks => known.is_busy = true,
                    Boundary::Goes => {}
                }
                if to != Boundary::Goes {
                    known.went_on = goes_on;
                }
            }
            Asked::StandsBy => {
                self.marks.hit("woken");
                let is_on_its_way = known
                    .wake
                    .is_some_and(|(_, passed)| passed.is_none_or(|at| now < at.plus_millis(WOKEN_MS)));
                if is_on_its_way {
                    wrong.push((ONE_WAKE, format!("{session:?} is woken at {now} by {handover:?}")));
                }
                if known.is_busy {
                    wrong.push((BUSY, format!("{session:?} is woken at {now}")));
                }
                known.wake = handover.map(|handover| (handover, None));
                known.bytes = 0;
            }
        }
        known.bytes += bytes;
        if known.bytes > SURFACED_BYTES_MAX {
            let bytes = known.bytes;
            wrong.push((ROOM, format!("{session:?} was shown {bytes} bytes at {now}")));
        }
        if let Some(shown) = shown {
            self.marks.hit_if(shown.left > 0, "notice because of room");
            self.marks
                .hit_if(shown.left > 0 && shown.deliveries.is_empty(), "notice alone");
            let mut again = shown.deliveries.iter();
            self.marks
                .hit_if(again.any(|delivery| delivery.redelivered), "shown with the mark");
        }
        for (law, detail) in wrong {
            self.broken(law, detail);
        }
    }
}

impl Machine for ProgramTap {
    fn handle(&mut self, now: Timestamp, mut input: Input, out: &mut Vec<Effect>) {
        let came = if let Input::Call {
            session,
            command: Command::Surfacing(surfacing::Command::Comes { to, .. }),
            ..
        } = &input
        {
            Some((*session, *to))
        } else {
            None
        };
        let answer = self.look(now, &mut input);
        let mut new = Vec::new();
        if let (Some(Bug::GoesOnAgain), Some((session, Boundary::Ended))) = (self.bug, came) {
            self.own(now, session, Boundary::Asks, &mut new);
        }
        match answer {
            Some(answer) => new.push(answer),
            None => self.engine.handle(now, input, &mut new),
        }
        if let (Some(Bug::BusyWoken), Some((session, Boundary::Returned))) = (self.bug, came) {
            self.own(now, session, Boundary::Rests, &mut new);
        }
        self.spoil(&mut new);
        self.see(now, &new);
        out.append(&mut new);
    }

    fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        self.engine.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let mut new = Vec::new();
        self.engine.handle_timeout(now, &mut new);
        self.spoil(&mut new);
        self.see(now, &new);
        out.append(&mut new);
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
