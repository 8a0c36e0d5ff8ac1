//! Where random bytes come from: handed in, so that a simulation can repeat them.

use crate::engine::RandomBytes;

/// A source of random bytes that nobody can guess.
pub type Random = Box<dyn FnMut() -> RandomBytes + Send>;
