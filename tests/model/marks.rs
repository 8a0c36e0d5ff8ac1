//! What a campaign must have reached before its silence means anything.

use std::collections::BTreeMap;

/// Defines the marks and lists them all, so that none can be left out of the check.
macro_rules! marks {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// A branch of the contract that a random run may take.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mark {
            $($(#[$doc])+ $name,)+
        }

        impl Mark {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

mod list;

pub use list::Mark;

/// How often each mark was reached.
#[derive(Debug, Default)]
pub struct Marks(BTreeMap<Mark, u64>);

impl Marks {
    /// Counts one.
    pub fn reach(&mut self, mark: Mark) {
        *self.0.entry(mark).or_default() += 1;
    }

    /// Counts one if it is so.
    pub fn reach_if(&mut self, so: bool, mark: Mark) {
        if so {
            self.reach(mark);
        }
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Self) {
        for (mark, count) in &other.0 {
            *self.0.entry(*mark).or_default() += count;
        }
    }

    /// Returns the marks that were never reached.
    pub fn missed(&self) -> Vec<Mark> {
        Mark::ALL
            .iter()
            .copied()
            .filter(|mark| !self.0.contains_key(mark))
            .collect()
    }
}
