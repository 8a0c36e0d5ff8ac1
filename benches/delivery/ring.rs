//! What the ring of the trace costs the engine, which keeps in it what has happened to messages.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use relay::engine::limits::Bounds;
use relay::engine::{
    CallId, Carrier, Command as Asked, Effect, Engine, Input, Kind, Roster, SessionId, Sign, Timestamp, Who,
    mail,
};

use crate::compare::{ROUNDS, median};
use crate::{instructions, text};

const NOW: Timestamp = Timestamp::from_millis(1_777_732_321_000);
const SESSION: SessionId = SessionId(0);

/// How many messages are posted before they are read.
const BATCH: u64 = 32;

/// How many batches are timed in a round.
const BATCHES: u64 = 4_000;

/// How many batches are posted before callgrind counts: with them the ring is full.
const BATCHES_BEFORE: u64 = 300;

/// How many batches callgrind counts.
const BATCHES_COUNTED: u64 = 100;

/// The argument by which this program does nothing but post so many batches with a ring of such a length, for callgrind.
const ARGUMENT: &str = "--batches";

/// Tells whether that is asked for.
pub fn is_asked() -> bool {
    std::env::args().any(|argument| argument == ARGUMENT)
}

/// Does it.
pub fn post() {
    let mut arguments = std::env::args().skip_while(|argument| argument != ARGUMENT);
    let batches = arguments.nth(1).and_then(|batches| batches.parse().ok());
    let length = arguments.next().and_then(|length| length.parse().ok());
    Posting::new(length.expect("a length")).batches(batches.expect("a number of batches"));
}

/// Measures the time with a ring of its usual length and with one of none; and counts the instructions, for one of none still makes the
/// steps that it forgets at once.
pub fn measure() {
    let usual = Bounds::default().trace_max;
    let mut nanos = [const { Vec::new() }; 2];
    for first in 0..ROUNDS {
        for turn in 0..2 {
            let at = (first + turn) % 2;
            let mut posting = Posting::new([usual, 0][at]);
            posting.batches(BATCHES / 5);
            let taken = posting.batches(BATCHES);
            nanos[at].push(taken.as_nanos() as f64 / (BATCH * BATCHES) as f64);
        }
    }
    let [with, without] = nanos.map(median);
    println!(
        "\ntrace ring               {with:.0} ns a post, {without:.0} ns with a ring of no length: {:.1} % more",
        100.0 * (with - without) / without
    );
    if instructions::can_be_counted() {
        let left = count(0, Some("relay::engine::trace::*trace_events*"));
        let rest = count(0, Some("relay::engine::Engine::handle*")) - left;
        // All of it, because a message that the ring keeps is freed by it, and else by whoever has it last.
        let ring = count(usual, None) - count(0, None) + left;
        println!(
            "                         {ring:.0} instructions for a post that is read and confirmed, beside {rest:.0} of the engine's: {:.1} %",
            100.0 * ring / rest
        );
    }
}

/// Counts the instructions of a function with all that it calls, or of all that is done, by the message that is posted, read and confirmed.
fn count(length: usize, function: Option<&str>) -> f64 {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("callgrind.out");
    let toggle = function.map(|function| format!("--toggle-collect={function}"));
    let [some, more] = [BATCHES_BEFORE, BATCHES_BEFORE + BATCHES_COUNTED].map(|batches| {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args([ARGUMENT, &batches.to_string(), &length.to_string()]);
        let mut command = instructions::under_callgrind(&command, toggle.as_deref().as_slice(), &out);
        let status = command.stdout(Stdio::null()).status().expect("valgrind runs");
        assert!(status.success(), "it posts under callgrind");
        instructions::total(&out)
    });
    assert!(more > some, "callgrind does not find {function:?}");
    (more - some) as f64 / (BATCH * BATCHES_COUNTED) as f64
}

/// An engine with an agent in it that gets messages.
struct Posting {
    engine: Engine,
    calls: u64,
}

impl Posting {
    /// Makes one whose ring has a length.
    fn new(length: usize) -> Self {
        let bounds = Bounds {
            trace_max: length,
            ..Bounds::default()
        };
        let mut engine = Engine::new(NOW, Roster::default(), bounds, [7; 16]);
        let opened = Input::Opened {
            session: SESSION,
            carrier: Carrier::Exchange,
            who: Who::Agent(None),
        };
        engine.handle(NOW, opened, &mut Vec::new());
        Self { engine, calls: 0 }
    }

    fn call(&mut self, command: mail::Command) -> Input {
        self.calls += 1;
        Input::Call {
            session: SESSION,
            call: CallId(self.calls),
            // Ids need not be good here, only different.
            random: u128::from(self.calls).to_le_bytes(),
            command: Asked::Mail(command),
        }
    }

    /// Posts so many batches, reads each and confirms it; returns how long the posts took.
    fn batches(&mut self, number: u64) -> Duration {
        let mut effects: Vec<Effect> = Vec::new();
        let mut posts = Vec::new();
        let mut taken = Duration::ZERO;
        for _ in 0..number {
            for _ in 0..BATCH {
                posts.push(self.call(mail::Command::Post {
                    from: Some("pm".to_owned()),
                    to: "dev-b".to_owned(),
                    kind: Kind::Status,
                    options: None,
                    body: text(),
                }));
            }
            let started = Instant::now();
            for post in posts.drain(..) {
                self.engine.handle(NOW, post, &mut effects);
                effects.clear();
            }
            taken += started.elapsed();
            let read = self.call(mail::Command::read_all(Some("dev-b".to_owned()), 0));
            self.engine.handle(NOW, read, &mut effects);
            let handover = effects.iter().find_map(|effect| match effect {
                Effect::Reply { handover, .. } => *handover,
                Effect::Opened { .. }
                | Effect::Changed { .. }
                | Effect::Deliver { .. }
                | Effect::Tell { .. }
                | Effect::Invoke { .. }
                | Effect::Superseded { .. }
                | Effect::StartWorker(_)
                | Effect::EndWorker { .. }
                | Effect::Note(_) => None,
            });
            let handover = handover.expect("a read hands over");
            for sign in [Sign::Passed, Sign::Followed] {
                self.engine
                    .handle(NOW, Input::Signed { handover, sign }, &mut effects);
            }
            effects.clear();
        }
        taken
    }
}
