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
    (Bug::ShownLost, 0, &[LOST, ASLEEP]),
    (Bug::MarkMissing, 0, &[MARKED, OVERTAKEN]),
    (Bug::ShownAgain, 0, &[MARKED, ROOM, BOUNDARY, TRACED]),
    (Bug::Astray, 0, &[THIN_AIR, LOST, BOUNDARY]),
    (Bug::Overtaken, 1, &[OVERTAKEN]),
    (Bug::WokenTwice, 0, &[ONE_WAKE, MARKED]),
    (Bug::WrongBoundary, 0, &[BOUNDARY, ROOM]),
    (Bug::BusyWoken, 1, &[BUSY]),
    (Bug::RoomForgotten, 13, &[ROOM, BOUNDARY, LOST]),
    (Bug::LeftAsleep, 1, &[ASLEEP, LOST]),
    (Bug::StepLeftOut, 0, &[TRACED]),
    (Bug::GoesOnAgain, 60, &[AGAIN]),
    (Bug::HeldIsShown, 0, &[HELD, BOUNDARY]),
    (Bug::NoticeForgotten, 3, &[ASLEEP, LOST]),
    (Bug::WakeTakenForGranted, 0, &[LOST, ASLEEP]),
];
