//! What has changed for a session that watches something, until its client is told. One place for each thing, however often it
//! changes: a client that does not read is told once, later, and nothing waits for it in memory.
//!
//! The owner of the engine puts it down; one task, the one that writes to the client, takes it up.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crate::engine::watches::Watched;

/// What a client is still to be told.
#[derive(Default)]
pub struct Changes {
    /// Spares the lock where nothing was ever watched.
    is_used: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    untold: BTreeSet<Watched>,
    /// The task that tells.
    teller: Option<Waker>,
}

impl Changes {
    /// Takes note that changes will come. The task that tells is to look once more after that.
    pub fn begin(&self) {
        self.is_used.store(true, Ordering::Release);
    }

    /// Puts down that something has changed.
    pub fn add(&self, what: Watched) {
        let mut state = self.state();
        if state.untold.insert(what)
            && let Some(teller) = state.teller.take()
        {
            teller.wake();
        }
    }

    /// Takes back what is not watched any more.
    pub fn forget(&self, what: Watched) {
        self.state().untold.remove(&what);
    }

    /// Takes up one thing that has changed.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Watched> {
        if !self.is_used.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        let mut state = self.state();
        if let Some(what) = state.untold.pop_first() {
            return Poll::Ready(what);
        }
        match &mut state.teller {
            Some(teller) => teller.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits for the next thing that changes. It is to be [begun](Self::begin).
    pub async fn next(&self) -> Watched {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while it holds what has changed")
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, poll};

    use super::*;

    #[tokio::test]
    async fn what_changes_again_before_it_is_told_is_told_once() {
        let changes = Changes::default();
        changes.begin();
        for what in [Watched::Agents, Watched::Inbox, Watched::Agents] {
            changes.add(what);
        }
        assert_eq!(changes.next().await, Watched::Inbox);
        assert_eq!(changes.next().await, Watched::Agents);
        assert!(changes.next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn whoever_waits_for_a_change_is_woken_by_it() {
        let changes = std::sync::Arc::new(Changes::default());
        changes.begin();
        // Another task has asked before.
        assert!(changes.next().now_or_never().is_none());
        let waiting = std::sync::Arc::clone(&changes);
        let waiting = tokio::spawn(async move { waiting.next().await });
        tokio::task::yield_now().await;
        changes.add(Watched::Inbox);
        let told = tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await;
        assert_eq!(told.expect("it is woken").expect("no panic"), Watched::Inbox);
    }

    #[tokio::test]
    async fn what_is_watched_no_more_is_not_told() {
        let changes = Changes::default();
        changes.begin();
        changes.add(Watched::Inbox);
        changes.forget(Watched::Inbox);
        let mut next = std::pin::pin!(changes.next());
        assert!(poll!(&mut next).is_pending());
    }
}
