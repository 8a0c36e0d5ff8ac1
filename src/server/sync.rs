//! The locks and counters of what several threads share, so that a test can try out the orders in which they come
//! (`cargo test --features interleavings`); the standard library's otherwise.

#[cfg(not(feature = "interleavings"))]
pub use std::sync::{
    Arc, Mutex, MutexGuard, TryLockError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[cfg(feature = "interleavings")]
pub use shuttle::sync::{
    Arc, Mutex, MutexGuard, TryLockError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
