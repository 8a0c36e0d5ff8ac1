//! The simulation sees: every seeded bug is caught within a stated number of seeds by laws that are about it, and every
//! law has a bug that it alone reports.

#[expect(dead_code, reason = "here each law has a bug that it alone reports")]
mod support;

use sim::campaign::run_seed;
use sim::laws;
use sim::tap::Bug;
use support::each_is_caught;

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

/// The bug, how many seeds it may take, and the laws that may report it with the first seed that catches it. A wake-up
/// that is lost leaves a wait that an end does not answer either; a wait that ends for a notice which is missing ends early.
const BUGS: [(Bug, u64, &[&str]); 53] = [
    (Bug::Lifo, 5, &[ORDER]),
    (Bug::DropOnUndo, 20, &[LOST]),
    (Bug::DuplicateOnUndo, 10, &[TWICE]),
    (Bug::UndoOutOfOrder, 15, &[ORDER]),
    (Bug::UndoUnmarked, 10, &[TWICE, OVERTAKEN]),
    (Bug::WaitNotCancelled, 100, &[HIDDEN, LOST, ALL]),
    (Bug::WaitEndsEarly, 10, &[TIME]),
    (Bug::WakeUpLost, 50, &[TIME, LOST, STOP]),
    (Bug::ConfirmedTooEarly, 20, &[LOST, START, ALL]),
    (Bug::ConfirmedComesBack, 10, &[BACK]),
    (
        Bug::LeakToOtherRole,
        10,
        &[THIN_AIR, OVERTAKEN, START, HIDDEN, LOST, ALL, MEANT],
    ),
    (Bug::BindingIgnored, 40, &[THIN_AIR, REFUSAL]),
    (Bug::SilentDropWhenFull, 20, &[LOST, HIDDEN, BOUNDS, ALL]),
    (Bug::RefusedButPosted, 30, &[THIN_AIR]),
    (Bug::NoticeMissing, 5, &[START, TIME]),
    (Bug::NoticeRepeated, 5, &[START]),
    (Bug::NoticeLeftToReads, 20, &[START]),
    (Bug::NoticeToAll, 5, &[START]),
    (Bug::SessionsForgotten, 20, &[START]),
    (Bug::SessionLeak, 20, &[SESSIONS, START, LOST]),
    (Bug::IdleSessionLeak, 20, &[SESSIONS]),
    (Bug::NewestHeldBack, 20, &[HIDDEN]),
    (Bug::OldestHeldBack, 50, &[OVERTAKEN]),
    (Bug::RefusalMisnames, 20, &[REFUSAL]),
    (Bug::FullTooEarly, 20, &[BOUNDS]),
    (Bug::EmptyNotAnswered, 5, &[END]),
    (Bug::StopIgnored, 50, &[STOP]),
    (Bug::PipelinedConfirms, 30, &[LOST, START]),
    (Bug::OneLeftOut, 100, &[ALL]),
    (Bug::CopyToSender, 50, &[MEANT]),
    (Bug::FenceIgnored, 100, &[FENCED]),
    (Bug::AnsweredByAnything, 50, &[AWAITED]),
    (Bug::AnswerLeftToOthers, 50, &[AWAITED]),
    (Bug::FilterForgets, 50, &[LOST, HIDDEN, ALL]),
    (Bug::FilterReorders, 100, &[ORDER, OVERTAKEN, ASKED_FOR, TWICE]),
    (Bug::ReadDoesNotJoin, 50, &[ALL]),
    (Bug::SenderIgnored, 50, &[ASKED_FOR]),
    (Bug::WaitsBeside, 50, &[ALONE]),
    (Bug::TurnsNotCounted, 100, &[TURNS]),
    (Bug::NamesakeReached, 50, &[PROJECTS, HIDDEN, LOST]),
    (Bug::ProjectUnheeded, 50, &[PROJECTS, HIDDEN, LOST]),
    (Bug::BroadcastSpills, 50, &[PROJECTS]),
    (Bug::BroadcastStaysHome, 100, &[PROJECTS]),
    (Bug::ChannelShared, 100, &[PROJECTS, MEANT, AWAITED]),
    (Bug::GroupShared, 50, &[PROJECTS]),
    (Bug::StoppedTooEarly, 100, &[TURNS]),
    (Bug::RoomIgnored, 40, &[ROOM]),
    (Bug::Panics, 5, &[laws::NOTHING_PANICS]),
    (Bug::ProgressLost, 100, &[PROGRESS]),
    (Bug::AnsweredTwice, 10, &[ONCE]),
    (Bug::ToolHidden, 10, &[HANDSHAKE]),
    (Bug::NotesLost, 10, &[TOLD]),
    (Bug::BridgeNeverBreaksOff, 50, &[LOST, START]),
];

#[test]
fn every_seeded_bug_is_in_the_table() {
    let mut listed = BUGS.map(|(bug, ..)| bug);
    listed.sort();
    assert_eq!(listed, Bug::ALL);
}

#[test]
fn every_law_has_a_bug_that_it_alone_reports() {
    let alone: Vec<&str> = BUGS
        .iter()
        .filter_map(|(.., laws)| laws.first().filter(|_| laws.len() == 1))
        .copied()
        .collect();
    for law in laws::names() {
        assert!(alone.contains(&law), "{law:?} has none");
    }
}

#[test]
fn every_seeded_bug_is_caught_within_its_seeds_by_laws_that_are_about_it() {
    each_is_caught(&BUGS, |seed, bug| {
        run_seed(seed, Some(bug)).map(|run| run.violations)
    });
}
