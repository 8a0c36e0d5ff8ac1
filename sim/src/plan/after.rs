//! Reads that ask for what their agent was handed behind a message, once more.

use fastrand::Rng;

use super::{AgentPlan, Plan};

/// Which message a read names as the last that its agent has seen, of those that it has read in that inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The latest but so many; the first of all if there are fewer.
    Back(usize),
    /// The one that its agent has named before; the latest if it has named none.
    Same,
}

impl Plan {
    /// In half of the seeds one step in four, if it reads, names a message. That comes from a sequence of its own, so that a seed means to
    /// all else what it meant before.
    pub(super) fn draw_after(&mut self) {
        let mut rng = Rng::with_seed(self.seed ^ 0x0061_6674_6572);
        if rng.bool() {
            return;
        }
        self.agents
            .iter_mut()
            .for_each(|agent| agent.draw_after(&mut rng));
    }
}

impl AgentPlan {
    fn draw_after(&mut self, rng: &mut Rng) {
        for step in &mut self.steps {
            if rng.u32(0..4) > 0 {
                continue;
            }
            step.after = Some(match rng.u32(0..6) {
                0 | 1 => After::Back(0),
                2 | 3 => After::Back(rng.usize(1..=5)),
                _ => After::Same,
            });
        }
    }
}
