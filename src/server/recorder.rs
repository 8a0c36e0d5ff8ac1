//! A machine that writes down what it is told, for the tests of the shell.

use std::sync::{Arc, Mutex};

use super::machine::Machine;
use super::owner::{Outcome, Owner, Receipt};
use super::random::Random;
use crate::engine::limits::Bounds;
use crate::engine::{
    Carrier, Command, Effect, Engine, Input, Overview, Reason, Roster, SessionId, Status, Timestamp, Who,
    mail,
};

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
}

/// Makes an owner whose engine's inputs are written down.
pub fn recorded() -> (Arc<Owner>, Told) {
    let told = Told::default();
    let recorder = Recorder {
        engine: engine(NOW),
        told: told.clone(),
    };
    let owner = Owner::new(Box::new(recorder), Arc::new(|| NOW), random(), Box::new(|_| {}));
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
