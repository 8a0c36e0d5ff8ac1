//! What a campaign must have reached before its silence means anything.

use std::collections::BTreeMap;

/// Defines the marks and lists them all, so that none can be left out of the check.
macro_rules! marks {
    ($all:ident: $($(#[$doc:meta])* $name:ident,)+) => {
        /// A branch of the contract that a random run may take.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $all {
            $($(#[$doc])* $name,)+
        }

        impl $all {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }

        impl From<$all> for super::Reached {
            fn from(mark: $all) -> Self {
                Self::$all(mark)
            }
        }
    };
}

mod addresses;
mod holds;
mod list;

pub use addresses::AddressMark;
pub use holds::HoldMark;
pub use list::Mark;

/// A mark, whatever it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    Mark(Mark),
    AddressMark(AddressMark),
    HoldMark(HoldMark),
}

/// How often each mark was reached.
#[derive(Debug, Default)]
pub struct Marks(BTreeMap<Reached, u64>);

impl Marks {
    /// Counts one.
    pub fn reach(&mut self, mark: impl Into<Reached>) {
        *self.0.entry(mark.into()).or_default() += 1;
    }

    /// Counts one if it is so.
    pub fn reach_if(&mut self, so: bool, mark: impl Into<Reached>) {
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
    pub fn missed(&self) -> Vec<Reached> {
        let marks = Mark::ALL.iter().copied().map(Reached::from);
        let of_addresses = AddressMark::ALL.iter().copied().map(Reached::from);
        let of_holds = HoldMark::ALL.iter().copied().map(Reached::from);
        marks
            .chain(of_addresses)
            .chain(of_holds)
            .filter(|mark| !self.0.contains_key(mark))
            .collect()
    }
}
