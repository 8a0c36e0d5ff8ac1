//! A machine that writes down what it is told, for the tests of the shell.

use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::clock::Clock;
use super::guard::Guard;
use super::machine::Machine;
use super::orphans::Orphans;
use super::owner::{Outcome, Owner, Receipt};
use super::random::Random;
use super::{KEEP_ALIVE, Shared, System, hooks, pushes, sse, v1};
use crate::engine::address::Home;
use crate::engine::limits::Bounds;
use crate::engine::{
    Carrier, Command, Effect, Engine, Input, Overview, Reason, Roster, SessionId, Status, Timestamp, Who,
    mail,
};
use crate::tools;

/// When it is, always.
pub const NOW: Timestamp = Timestamp::from_millis(1_777_732_200_000);

/// Makes an engine of three roles.
pub fn engine(now: Timestamp) -> Engine {
    Engine::new(now, Roster::default(), Bounds::default(), [0; 16])
}

/// Makes a source of bytes that are never the same twice, as long as few are drawn.
pub fn random() -> Random {
    let mut drawn = 0_u8;
    Box::new(move || {
        drawn = drawn.wrapping_add(1);
        [drawn; 16]
    })
}

/// What was told, in order.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<Vec<Input>>>);

impl Told {
    /// Takes what was told since the last time.
    pub fn take(&self) -> Vec<Input> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

/// An engine whose inputs are written down.
struct Recorder {
    engine: Engine,
    told: Told,
}

impl Machine for Recorder {
    fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Effect>) {
        self.told.0.lock().expect("no panic").push(input.clone());
        self.engine.handle(now, input, out);
    }

    fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        self.engine.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        self.engine.handle_timeout(now, out);
    }

    fn status(&self) -> Status {
        self.engine.status()
    }

    fn overview(&self) -> Overview {
        self.engine.overview()
    }

    fn take_newly_seen(&mut self) -> Option<crate::engine::AgentName> {
        self.engine.take_newly_seen()
    }
}

/// Makes an owner whose engine's inputs are written down.
pub fn recorded() -> (Arc<Owner>, Told) {
    recorded_by((|| NOW).into())
}

/// The same, by a clock.
pub fn recorded_by(clock: Clock) -> (Arc<Owner>, Told) {
    let told = Told::default();
    let recorder = Recorder {
        engine: engine(NOW),
        told: told.clone(),
    };
    let owner = Owner::new(
        Box::new(recorder),
        clock,
        random(),
        Box::new(crate::server::NoLog),
    );
    (Arc::new(owner), told)
}

/// Opens a session and returns it with the receipt of a read's reply, which tells of the start.
pub fn receipt(owner: &Arc<Owner>, carrier: Carrier) -> (SessionId, Receipt) {
    let (session, _) = owner.open(carrier, Who::Agent(None)).expect("there is room");
    let read = Command::Mail(mail::Command::read_all(Some("pm".to_owned()), 0));
    let Some(Outcome::Answered(answered)) = owner.call(session, read, None) else {
        panic!("a read that does not wait is answered");
    };
    (session, answered.receipt.expect("a read has a receipt"))
}

/// Makes what every request of a relay needs that lets in whom `guard` does.
pub fn shared(owner: Arc<Owner>, guard: Guard) -> Shared {
    Shared {
        owner,
        boot: Uuid::from_u128(1),
        started_at: NOW,
        api: Arc::new(v1::Api::new(random())),
        streams: sse::Streams::new(random()),
        orphans: Arc::new(Orphans::new(Box::new(String::new()))),
        guard,
        roster: Roster::default(),
        home: Home::default(),
        toolsets: tools::DEFAULT,
        keep_alive: KEEP_ALIVE,
        pushes: pushes::Pushes::new(Vec::new(), Arc::new(System)),
        doors: hooks::Doors::default(),
        clis: hooks::Clis::default(),
        messaging: Arc::new(System),
        stop: CancellationToken::new(),
        sockets: TaskTracker::new(),
    }
}
