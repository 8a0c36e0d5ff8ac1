//! What goes wrong in a run, and when.

use fastrand::Rng;

/// Something that goes wrong.
#[derive(Debug, Clone)]
pub struct Fault {
    /// When it begins, in milliseconds.
    pub at_ms: u64,
    /// How long it lasts, in milliseconds.
    pub for_ms: u64,
    /// What it is.
    pub kind: FaultKind,
}

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Segments between a machine and the server are held, then released.
    Hold {
        /// The machine.
        on: usize,
    },
    /// Segments between a machine and the server are lost, both ways.
    Partition {
        /// The machine.
        on: usize,
    },
    /// Segments from a machine to the server are lost.
    LoseRequests {
        /// The machine.
        on: usize,
    },
    /// Segments from the server to a machine are lost.
    LoseReplies {
        /// The machine.
        on: usize,
    },
    /// A machine loses power, with all agents on it, and comes back.
    BoxCrash {
        /// The machine.
        on: usize,
    },
    /// The server is killed and started again.
    Crash,
    /// The server is asked to end, ends in order, and is started again.
    Stop,
}

/// How long an orderly stop may take, in milliseconds: what relay gives its connections, and some.
pub const STOP_MS: u64 = 2_500;

/// Draws what goes wrong.
pub(crate) fn draw_faults(rng: &mut Rng, boxes: usize, duration_ms: u64) -> Vec<Fault> {
    let crashes = rng.u32(0..2) == 0;
    let network: Vec<u32> = (0..5).filter(|_| rng.u32(0..3) == 0).collect();
    let mut faults = Vec::new();
    if crashes {
        for _ in 0..rng.u32(1..=3) {
            let at_ms = rng.u64(1_000..duration_ms);
            let for_ms = rng.u64(10..=3_000);
            faults.push(Fault {
                at_ms,
                for_ms,
                kind: FaultKind::Crash,
            });
            if rng.u32(0..3) == 0 {
                // Two in a row: the second before most clients are back.
                let at_ms = at_ms + for_ms + rng.u64(10..=400);
                faults.push(Fault {
                    at_ms,
                    for_ms: rng.u64(10..=1_000),
                    kind: FaultKind::Crash,
                });
            }
        }
    }
    if !network.is_empty() {
        for _ in 0..rng.u32(1..=6) {
            let on = rng.usize(..boxes);
            let kind = match network[rng.usize(..network.len())] {
                0 => FaultKind::Hold { on },
                1 => FaultKind::Partition { on },
                2 => FaultKind::LoseRequests { on },
                3 => FaultKind::LoseReplies { on },
                _ => FaultKind::BoxCrash { on },
            };
            faults.push(Fault {
                at_ms: rng.u64(500..duration_ms),
                for_ms: rng.u64(500..=15_000),
                kind,
            });
        }
    }
    faults.sort_by_key(|fault| fault.at_ms);
    faults
}

/// Makes some crashes orderly, or lets one orderly stop happen where there is no crash.
pub(crate) fn draw_stops(rng: &mut Rng, duration_ms: u64, faults: &mut Vec<Fault>) {
    let crashes = faults.iter_mut().filter(|fault| fault.kind == FaultKind::Crash);
    let mut crashes: Vec<_> = crashes.collect();
    for crash in &mut crashes {
        if rng.bool() {
            crash.kind = FaultKind::Stop;
            crash.for_ms += STOP_MS;
        }
    }
    if crashes.is_empty() && rng.u32(0..3) == 0 {
        faults.push(Fault {
            at_ms: rng.u64(1_000..duration_ms),
            for_ms: STOP_MS + rng.u64(10..=1_000),
            kind: FaultKind::Stop,
        });
        faults.sort_by_key(|fault| fault.at_ms);
    }
}

/// The clock that people read is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSet {
    /// When, in milliseconds since the run began.
    pub at_ms: u64,
    /// How far it is ahead from then on, in milliseconds.
    pub ahead_ms: i64,
}

/// Draws when the server's clock is set: in half of the runs, a few times. They come from a sequence of their own.
pub(crate) fn draw_clock(seed: u64, duration_ms: u64) -> Vec<ClockSet> {
    let mut rng = Rng::with_seed(seed ^ 0x0063_6c6f_636b);
    if rng.bool() {
        return Vec::new();
    }
    let mut sets: Vec<ClockSet> = (0..rng.u32(1..=4))
        .map(|_| ClockSet {
            at_ms: rng.u64(0..duration_ms),
            ahead_ms: [0, 1, 5_000, 3_600_000][rng.usize(..4)] * if rng.bool() { 1 } else { -1 },
        })
        .collect();
    sets.sort_by_key(|set| set.at_ms);
    sets
}
