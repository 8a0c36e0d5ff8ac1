//! Randomness that a seed repeats.

/// What a plan is drawn with.
#[derive(Debug, Clone)]
pub struct Random(fastrand::Rng);

impl Random {
    /// Starts at a seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Draws a number under `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    /// Is true that many times in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Draws one of several; there is at least one.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Draws a place in a list that is not empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.0.usize(..len)
    }

    /// Draws 16 bytes.
    pub fn bytes(&mut self) -> [u8; 16] {
        self.0.u128(..).to_le_bytes()
    }
}
