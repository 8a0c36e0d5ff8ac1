//! The suite of agents that are delivered to.

use super::{Row, Run, Suite, names, run_with, seeded};
use crate::nodes::actions::laws::{ASKED, ENDS, ENDS_ONCE, SAID};
use crate::nodes::bug::Bug;
use crate::nodes::laws::{
    ACKNOWLEDGED, AFTER, ELSEWHERE, GAP, HELD, LATE, LISTED, LOST, MARKED, NAMES, NOTED, NUMBERS, OBSERVED,
    OVERTAKEN, PLACE, PUSHED, RECEIPT, SENT_AGAIN, THIN_AIR,
};
use crate::nodes::{REQUIRED, run_seed};

/// Agents that are delivered to.
pub static NODES: Suite = Suite {
    name: "nodes",
    command: "nodes",
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
    (Bug::FrameLost, 0, 5, &[LOST, NUMBERS, GAP]),
    (Bug::SentAfterReceipt, 0, 5, &[AFTER, SENT_AGAIN, NUMBERS]),
    (Bug::MarkMissing, 0, 10, &[MARKED, OVERTAKEN]),
    (Bug::Overtaken, 0, 20, &[OVERTAKEN, NUMBERS, GAP]),
    (Bug::DeferralForgotten, 0, 10, &[RECEIPT, LISTED]),
    (Bug::AcknowledgedTooFar, 0, 40, &[LOST, RECEIPT, ACKNOWLEDGED]),
    (Bug::ReceiptsForgotten, 0, 5, &[AFTER, PUSHED, RECEIPT]),
    (Bug::Astray, 0, 20, &[THIN_AIR, LOST, RECEIPT, MARKED, SENT_AGAIN]),
    (Bug::EventLeftOut, 0, 5, &[OBSERVED]),
    (Bug::EventTwice, 0, 5, &[OBSERVED]),
    (Bug::EventsSwapped, 0, 5, &[OBSERVED]),
    (Bug::PushTakenForGranted, 1, 10, &[LOST, ACKNOWLEDGED]),
    (Bug::PushForgotten, 0, 20, &[PUSHED]),
    (Bug::DeadlineForgotten, 0, 40, &[LATE]),
    (Bug::OldBindingCounts, 0, 20, &[ACKNOWLEDGED]),
    (Bug::SentToOldNode, 0, 20, &[ELSEWHERE, LOST, RECEIPT, GAP]),
    (Bug::ResultForgotten, 0, 5, &[ENDS]),
    (Bug::LaterResultCounts, 0, 10, &[ENDS_ONCE]),
    (Bug::ResultOfAnother, 0, 5, &[SAID]),
    (Bug::AskedWhenEnded, 0, 5, &[ASKED]),
    (Bug::ListedInPart, 0, 20, &[LOST]),
    (Bug::HoldIgnored, 0, 10, &[HELD, NOTED]),
    (Bug::LiftForgotten, 0, 40, &[HELD, NOTED, LOST, RECEIPT]),
    (Bug::DropPasses, 0, 40, &[HELD]),
    (Bug::AllowDrops, 0, 20, &[LOST, RECEIPT]),
    (Bug::AllowLifts, 0, 20, &[HELD, NOTED]),
    (Bug::HeldNoteMissing, 0, 10, &[NOTED]),
    (Bug::AllowedLast, 0, 20, &[PLACE]),
    (Bug::CursorTooLow, 0, 20, &[GAP, LOST]),
];
