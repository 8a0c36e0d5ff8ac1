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
    (Bug::FrameLost, 0, &[LOST, NUMBERS, GAP]),
    (Bug::SentAfterReceipt, 0, &[AFTER, SENT_AGAIN, NUMBERS]),
    (Bug::MarkMissing, 0, &[MARKED, OVERTAKEN]),
    (Bug::MarkMissingOfBrokenOff, 105_003_396, &[MARKED, OVERTAKEN]),
    (Bug::Overtaken, 0, &[OVERTAKEN, NUMBERS, GAP]),
    (Bug::DeferralForgotten, 0, &[RECEIPT, LISTED]),
    (Bug::AcknowledgedTooFar, 0, &[LOST, RECEIPT, ACKNOWLEDGED]),
    (Bug::ReceiptsForgotten, 0, &[AFTER, PUSHED, RECEIPT]),
    (Bug::Astray, 4, &[THIN_AIR, LOST, RECEIPT, MARKED, SENT_AGAIN]),
    (Bug::EventLeftOut, 0, &[OBSERVED]),
    (Bug::EventTwice, 0, &[OBSERVED]),
    (Bug::EventsSwapped, 0, &[OBSERVED]),
    (Bug::PushTakenForGranted, 1, &[LOST, ACKNOWLEDGED]),
    (Bug::PushForgotten, 7, &[PUSHED]),
    (Bug::DeadlineForgotten, 11, &[LATE]),
    (Bug::OldBindingCounts, 7, &[ACKNOWLEDGED]),
    (Bug::SentToOldNode, 7, &[ELSEWHERE, LOST, RECEIPT, GAP]),
    (Bug::ResultForgotten, 0, &[ENDS]),
    (Bug::LaterResultCounts, 3, &[ENDS_ONCE]),
    (Bug::ResultOfAnother, 0, &[SAID]),
    (Bug::AskedWhenEnded, 0, &[ASKED]),
    (Bug::ListedInPart, 3, &[LOST]),
    (Bug::HoldIgnored, 6, &[HELD, NOTED]),
    (Bug::LiftForgotten, 15, &[HELD, NOTED, LOST, RECEIPT]),
    (Bug::DropPasses, 6, &[HELD]),
    (Bug::AllowDrops, 14, &[LOST, RECEIPT]),
    (Bug::AllowLifts, 14, &[HELD, NOTED]),
    (Bug::HeldNoteMissing, 6, &[NOTED]),
    (Bug::AllowedLast, 14, &[PLACE]),
    (Bug::CursorTooLow, 0, &[GAP, LOST]),
];
