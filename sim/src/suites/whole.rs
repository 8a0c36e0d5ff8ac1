//! The suite of agents that start others, in the whole server.

use super::{Row, Run, Suite, names, run_with, seeded};
use crate::workers::whole::bug::Bug;
use crate::workers::whole::laws::{
    ANSWERED, ARRIVES, ENDED, GENERATION, MARKED, MEANT, NAMES, ONE_ALIVE, STOPPED, TOLD,
};
use crate::workers::whole::{REQUIRED, run_seed};

/// Agents that start others, in the whole server.
pub static WHOLE: Suite = Suite {
    name: "workers --whole",
    command: "workers --whole",
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
    (Bug::OldLetIn, 50, &[GENERATION, TOLD]),
    (Bug::EndForgotten, 1, &[TOLD, ENDED, STOPPED]),
    (Bug::EndedTwice, 1, &[ENDED]),
    (Bug::StartedTwice, 0, &[ONE_ALIVE]),
    (Bug::AnsweredEarly, 1, &[ANSWERED, TOLD, ENDED, STOPPED]),
    (Bug::AnswerLost, 4, &[ANSWERED]),
    (Bug::EndUnheard, 1, &[TOLD, ENDED, STOPPED]),
    (
        Bug::LateReportTaken,
        1,
        &[TOLD, ONE_ALIVE, ANSWERED, ENDED, GENERATION],
    ),
    (Bug::LostAtRelease, 4, &[ARRIVES]),
    (Bug::NewsLost, 3, &[ARRIVES]),
    (Bug::MarkMissing, 13, &[MARKED]),
    (Bug::Astray, 1, &[MEANT, MARKED]),
];
