//! The suite of agents that start others, around the engine alone.

use super::{Row, Run, Suite, names, run_with, seeded};
use crate::workers::bug::Bug;
use crate::workers::laws::{ANSWERED, ENDED, GENERATION, HANDED_ON, NAMES, ONE_ALIVE, RELEASED, TOLD};
use crate::workers::{REQUIRED, run_seed};

/// Agents that start others, around the engine alone.
pub static WORKERS: Suite = Suite {
    name: "workers",
    command: "workers",
    laws: || NAMES.to_vec(),
    marks: &REQUIRED,
    bugs: || names(&Bug::ALL),
    seeded: || seeded(SEEDED),
    run: |seed, bug| {
        run_with(&Bug::ALL, bug, |bug| {
            let run = run_seed(seed, bug)?;
            Ok(Run {
                marks: run.marks,
                trace: run.trace,
                violations: run.violations,
            })
        })
    },
};

const SEEDED: &[Row<Bug>] = &[
    (Bug::LateReportTaken, 7, &[TOLD, ENDED, ONE_ALIVE]),
    (Bug::EndForgotten, 0, &[ENDED]),
    (Bug::EndedTwice, 0, &[ENDED]),
    (Bug::StartedTwice, 0, &[ONE_ALIVE]),
    (Bug::AnswerLost, 0, &[ANSWERED]),
    (Bug::AnsweredTwice, 0, &[ANSWERED]),
    (Bug::ReadyForgotten, 0, &[TOLD]),
    (Bug::ToldTwice, 1, &[TOLD]),
    (Bug::NotHandedOn, 2, &[HANDED_ON]),
    (Bug::LostAtRelease, 7, &[HANDED_ON]),
    (Bug::OldLetIn, 23, &[GENERATION, TOLD]),
    (Bug::AnybodyReleases, 0, &[RELEASED, ENDED, TOLD]),
];
