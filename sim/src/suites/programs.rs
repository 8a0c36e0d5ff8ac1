//! The suite of agents whose programs show what waits.

use super::{Row, Run, Suite, names, run_with, seeded};
use crate::programs::bug::Bug;
use crate::programs::laws::{
    AGAIN, ASLEEP, BOUNDARY, BUSY, HELD, LOST, MARKED, NAMES, ONE_WAKE, OVERTAKEN, ROOM, THIN_AIR, TRACED,
};
use crate::programs::{REQUIRED, run_seed};

/// Agents whose programs show what waits.
pub static PROGRAMS: Suite = Suite {
    name: "programs",
    command: "programs",
    laws: || NAMES.to_vec(),
    marks: &REQUIRED,
    bugs: || names(&Bug::ALL),
    seeded: || seeded(SEEDED),
    run: |seed, bug| {
        run_with(&Bug::ALL, bug, |bug| {
            let run = run_seed(seed, bug)?;
            Ok(Run {
                marks: run.marks,
                trace: run.history.trace,
                violations: run.violations,
            })
        })
    },
};

const SEEDED: &[Row<Bug>] = &[
    (Bug::ShownLost, 0, 10, &[LOST, ASLEEP]),
    (Bug::MarkMissing, 0, 20, &[MARKED, OVERTAKEN]),
    (Bug::ShownAgain, 0, 10, &[MARKED, ROOM, BOUNDARY, TRACED]),
    (Bug::Astray, 0, 20, &[THIN_AIR, LOST, BOUNDARY]),
    (Bug::Overtaken, 1, 20, &[OVERTAKEN]),
    (Bug::WokenTwice, 0, 20, &[ONE_WAKE, MARKED]),
    (Bug::WrongBoundary, 0, 20, &[BOUNDARY, ROOM]),
    (Bug::BusyWoken, 1, 20, &[BUSY]),
    (Bug::RoomForgotten, 13, 40, &[ROOM, BOUNDARY, LOST]),
    (Bug::LeftAsleep, 1, 10, &[ASLEEP, LOST]),
    (Bug::StepLeftOut, 0, 5, &[TRACED]),
    (Bug::GoesOnAgain, 0, 80, &[AGAIN]),
    (Bug::HeldIsShown, 0, 20, &[HELD, BOUNDARY]),
    (Bug::NoticeForgotten, 0, 40, &[ASLEEP, LOST]),
    (Bug::WakeTakenForGranted, 0, 40, &[LOST, ASLEEP]),
];
