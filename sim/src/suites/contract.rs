//! The suite of the delivery contract.

use super::{Row, Run, Suite, names, run_with, seeded};
use crate::campaign::run_seed;
use crate::laws::{self, NOTHING_PANICS};
use crate::marks::REQUIRED;
use crate::tap::Bug;

/// Agents of the roster and teams, over every way into relay.
pub static CONTRACT: Suite = Suite {
    name: "contract",
    command: "run --trace",
    laws: laws::names,
    marks: &REQUIRED,
    bugs: || names(&Bug::ALL),
    seeded: || seeded(SEEDED),
    run: |seed, bug| {
        run_with(&Bug::ALL, bug, |bug| {
            let run = run_seed(seed, bug)?;
            Ok(Run {
                marks: run.marks.counts(),
                trace: run.history.trace,
                violations: run.violations,
            })
        })
    },
};

const ORDER: &str = "a reply is in the order of acceptance";
const OVERTAKEN: &str = "no message overtakes another";
const LOST: &str = "nothing is lost without a reason";
const HIDDEN: &str = "nothing is hidden from a read";
const TWICE: &str = "a message is shown twice only if marked";
const ALL: &str = "a message goes to all or to none";
const MEANT: &str = "only who is meant gets a copy";
const PROJECTS: &str = "a message reaches the project it is for alone";
const FENCED: &str = "who was taken over gets nothing any more";
const BACK: &str = "what is confirmed never comes back";
const COMES: &str = "what is asked for behind a message comes";
const ONCE_MORE: &str = "what was asked for behind a message comes once";
const START: &str = "a start is told once to each role";
const TIME: &str = "waits and calls are in time";
const THIN_AIR: &str = "nothing from thin air";
const REFUSAL: &str = "the illegal is refused and the legal is not";
const BOUNDS: &str = "bounds are kept and not imagined";
const SESSIONS: &str = "no session is left over";
const ONCE: &str = "each call is answered once";
const HANDSHAKE: &str = "a handshake says what there is";
const PROGRESS: &str = "progress is told in time to who asked";
const STOP: &str = "an orderly stop answers what waits";
const TOLD: &str = "a wait that lost its stream is told of";
const AWAITED: &str = "an awaited answer goes to who asked";
const ASKED_FOR: &str = "a read shows what it asked for";
const ALONE: &str = "one call alone waits for an inbox";
const ROOM: &str = "no reply is longer than its client shows";
const TURNS: &str = "turns are counted to their limit";
const END: &str = "the end is reached";

/// A wake-up that is lost leaves a wait that an end does not answer either; a wait that ends for a notice which is missing ends early.
const SEEDED: &[Row<Bug>] = &[
    (Bug::Lifo, 1, &[ORDER]),
    (Bug::DropOnUndo, 10, &[LOST]),
    (Bug::DuplicateOnUndo, 2, &[TWICE]),
    (Bug::UndoOutOfOrder, 3, &[ORDER]),
    (Bug::UndoUnmarked, 3, &[TWICE, OVERTAKEN]),
    (Bug::WaitNotCancelled, 21, &[HIDDEN, LOST, ALL]),
    (Bug::WaitEndsEarly, 2, &[TIME]),
    (Bug::WakeUpLost, 35, &[TIME, LOST, STOP]),
    (Bug::ConfirmedTooEarly, 14, &[LOST, START, ALL]),
    (Bug::ConfirmedComesBack, 4, &[BACK]),
    (
        Bug::LeakToOtherRole,
        3,
        &[THIN_AIR, OVERTAKEN, START, HIDDEN, LOST, ALL, MEANT],
    ),
    (Bug::BindingIgnored, 22, &[THIN_AIR, REFUSAL]),
    (Bug::SilentDropWhenFull, 6, &[LOST, HIDDEN, BOUNDS, ALL]),
    (Bug::RefusedButPosted, 20, &[THIN_AIR]),
    (Bug::NoticeMissing, 0, &[START, TIME]),
    (Bug::NoticeRepeated, 0, &[START]),
    (Bug::NoticeLeftToReads, 1, &[START]),
    (Bug::NoticeToAll, 0, &[START]),
    (Bug::SessionsForgotten, 0, &[START]),
    (Bug::SessionLeak, 10, &[SESSIONS, START, LOST]),
    (Bug::IdleSessionLeak, 5, &[SESSIONS]),
    (Bug::NewestHeldBack, 1, &[HIDDEN]),
    (Bug::OldestHeldBack, 9, &[OVERTAKEN]),
    (Bug::RefusalMisnames, 3, &[REFUSAL]),
    (Bug::FullTooEarly, 2, &[BOUNDS]),
    (Bug::EmptyNotAnswered, 0, &[END]),
    (Bug::StopIgnored, 34, &[STOP]),
    (Bug::PipelinedConfirms, 38, &[LOST, START]),
    (Bug::OneLeftOut, 6, &[ALL]),
    (Bug::CopyToSender, 3, &[MEANT]),
    (Bug::FenceIgnored, 1, &[FENCED]),
    (Bug::AnsweredByAnything, 5, &[AWAITED]),
    (Bug::AnswerLeftToOthers, 25, &[AWAITED]),
    (Bug::FilterForgets, 3, &[LOST, HIDDEN, ALL]),
    (Bug::FilterReorders, 48, &[ORDER, OVERTAKEN, ASKED_FOR, TWICE]),
    (Bug::ReadDoesNotJoin, 3, &[ALL]),
    (Bug::SenderIgnored, 3, &[ASKED_FOR]),
    (Bug::WaitsBeside, 15, &[ALONE]),
    (Bug::TurnsNotCounted, 47, &[TURNS]),
    (Bug::NamesakeReached, 30, &[PROJECTS, HIDDEN, LOST]),
    (Bug::ProjectUnheeded, 18, &[PROJECTS, HIDDEN, LOST]),
    (Bug::BroadcastSpills, 18, &[PROJECTS]),
    (Bug::BroadcastStaysHome, 25, &[PROJECTS]),
    (Bug::ChannelShared, 40, &[PROJECTS, MEANT, AWAITED]),
    (Bug::GroupShared, 25, &[PROJECTS]),
    (Bug::StoppedTooEarly, 30, &[TURNS]),
    (Bug::RoomIgnored, 27, &[ROOM]),
    (Bug::ClientsAreOne, 1779, &[HIDDEN, LOST]),
    (Bug::WaitsByTheWall, 12, &[TIME]),
    (Bug::Panics, 1, &[NOTHING_PANICS]),
    (Bug::ProgressLost, 34, &[PROGRESS]),
    (Bug::AnsweredTwice, 0, &[ONCE]),
    (Bug::ToolHidden, 0, &[HANDSHAKE]),
    (Bug::NotesLost, 0, &[TOLD]),
    (Bug::AfterIgnored, 44, &[COMES]),
    (Bug::AskedAgainUnmarked, 6, &[TWICE, OVERTAKEN]),
    (Bug::AskedAgainTwice, 22, &[ONCE_MORE]),
    (Bug::SeenForgotten, 22, &[REFUSAL]),
    (Bug::BridgeNeverBreaksOff, 48, &[LOST, START]),
];
