//! A seed becomes a plan.

use fastrand::Rng;

use crate::plan::{Fault, FaultKind, draw_faults, draw_stops};

/// How long a process takes at the most to end that was told to, before it is made to, in milliseconds.
pub const GRACE_MS: u64 = 5_000;

/// How long its end is on the way to relay at the most, in milliseconds.
pub const REPORT_MS: u64 = 2_000;

/// How many names there are for workers: few, so that they are used again.
pub const WORKER_NAMES: u64 = 3;

/// One run, whole.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where it came from.
    pub seed: u64,
    /// How many machines there are: the first one of those who ask for workers, and those of the workers.
    pub boxes: usize,
    /// How long workers are asked for, and things go wrong, in milliseconds.
    pub duration_ms: u64,
    /// How long a segment travels at the most, in milliseconds.
    pub latency_ms_max: u64,
    /// How many agents there are that are no workers.
    pub leads: usize,
    /// How many workers may live.
    pub workers_max: usize,
    /// How long one waits at the most between two calls, in milliseconds.
    pub pause_ms_max: u64,
    /// How long a process lives at the most that ends by itself, in milliseconds.
    pub lives_ms_max: u64,
    /// The person releases all before the inboxes are emptied; else they live until relay stops.
    pub is_released_at_end: bool,
    /// The same of workers, where it is longer: what one has sent arrives when another has its name, maybe.
    pub slow_ms_max: u64,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// Draws the plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x0077_6f72_6b65_7273);
        let boxes = rng.usize(2..=3);
        let duration_ms = rng.u64(30_000..=90_000);
        let mut faults = draw_faults(&mut rng, boxes, duration_ms);
        draw_stops(&mut rng, duration_ms, &mut faults);
        // It ends behind its workers.
        let stops = faults.iter_mut().filter(|fault| fault.kind == FaultKind::Stop);
        stops.for_each(|fault| fault.for_ms += GRACE_MS + REPORT_MS);
        Self {
            seed,
            boxes,
            duration_ms,
            latency_ms_max: [2, 50, 400, 1_500][rng.usize(..4)],
            leads: rng.usize(1..=2),
            workers_max: rng.usize(2..=5),
            pause_ms_max: [400, 1_500, 5_000][rng.usize(..3)],
            lives_ms_max: [3_000, 15_000, 60_000][rng.usize(..3)],
            is_released_at_end: rng.bool(),
            slow_ms_max: [0, 2_000, 10_000][rng.usize(..3)],
            faults,
        }
    }
}
