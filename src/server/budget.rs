//! What waits for clients to take it, in bytes: the answers and frames of all connections share one budget.
//!
//! Nobody waits for it. When it is used up, a connection is cut: of those whose clients have taken nothing whole for a while the one for which most
//! waits, and where all take what they are given, of these. What was handed over in it comes back, and all others go on as if it had never
//! been there. Knows bytes, and nothing of what they say.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What a connection holds that was cut.
const CUT: usize = usize::MAX;

/// For how long a client that is about to be given something has to take nothing to be one that does not read.
const STALLED: Duration = Duration::from_secs(1);

/// The budget of all connections.
pub struct Budget {
    /// Times are counted from then on.
    began: Instant,
    bytes_max: usize,
    /// So many of each connection's own do not count, so that ordinary answers need not be counted by all connections together.
    free_bytes: usize,
    bytes: AtomicUsize,
    accounts: Mutex<Accounts>,
}

#[derive(Default)]
struct Accounts {
    opened: u64,
    open: BTreeMap<u64, Arc<Holding>>,
}

/// What waits for one connection.
#[derive(Default)]
struct Holding {
    /// What is its own; [`CUT`] once it was cut.
    own: AtomicUsize,
    /// What it shares with others.
    shared: AtomicUsize,
    /// When its client last took something whole, or something began to wait for it, in milliseconds; told only where it counts.
    taken_ms: AtomicU64,
    cut: CancellationToken,
}

impl Holding {
    fn is_taken(&self, budget: &Budget) {
        self.taken_ms.store(budget.now_ms(), Ordering::Relaxed);
    }

    fn is_stalled(&self, now_ms: u64) -> bool {
        let taken_ms = self.taken_ms.load(Ordering::Relaxed);
        Duration::from_millis(now_ms.saturating_sub(taken_ms)) >= STALLED
    }

    /// How much of the budget it uses up; nothing once it was cut.
    fn weight(&self, budget: &Budget) -> usize {
        match self.own.load(Ordering::Relaxed) {
            CUT => 0,
            own => budget.counted(own) + self.shared.load(Ordering::Relaxed),
        }
    }

    /// Tells whether it was cut, and has not let go yet of what it shares.
    fn is_ending(&self) -> bool {
        self.own.load(Ordering::Relaxed) == CUT && self.shared.load(Ordering::Relaxed) > 0
    }
}

impl Budget {
    /// Makes one of so many bytes beyond those that each connection has free.
    pub fn new(bytes_max: usize, free_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            bytes_max,
            free_bytes,
            bytes: AtomicUsize::new(0),
            accounts: Mutex::default(),
        })
    }

    /// Opens the account of a connection.
    pub fn open(self: &Arc<Self>) -> Arc<Account> {
        let holding = Arc::<Holding>::default();
        let mut accounts = self.accounts();
        accounts.opened += 1;
        let number = accounts.opened;
        accounts.open.insert(number, Arc::clone(&holding));
        drop(accounts);
        let budget = Arc::clone(self);
        Arc::new(Account {
            budget,
            number,
            holding,
        })
    }

    /// Counts bytes that several connections wait to be given, once for all of them.
    pub fn charge_once(self: &Arc<Self>, bytes: usize) -> ChargedOnce {
        self.make_room(self.add(bytes));
        let budget = Arc::clone(self);
        ChargedOnce { budget, bytes }
    }

    fn now_ms(&self) -> u64 {
        let now = Instant::now().saturating_duration_since(self.began);
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns how many count of what a connection has of its own.
    fn counted(&self, own: usize) -> usize {
        own.saturating_sub(self.free_bytes)
    }

    /// Adds bytes, and returns how many there are then.
    fn add(&self, bytes: usize) -> usize {
        self.bytes
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes)
    }

    /// Cuts connections as long as there are too many bytes. What one has of its own is as good as free then; what it shares with others is
    /// so once it has ended, and until then no other one is cut.
    fn make_room(&self, bytes: usize) {
        let mut bytes = bytes;
        while bytes > self.bytes_max && self.cut_one() {
            bytes = self.bytes.load(Ordering::Relaxed);
        }
    }

    /// Cuts the connection that is to be cut first, if there are too many bytes and one is there. Tells whether it did.
    fn cut_one(&self) -> bool {
        let accounts = self.accounts();
        if self.bytes.load(Ordering::Relaxed) <= self.bytes_max
            || accounts.open.values().any(|holding| holding.is_ending())
        {
            return false;
        }
        let now_ms = self.now_ms();
        let all = accounts.open.values();
        let weighed = all.map(|holding| (holding, holding.weight(self)));
        let weighed = weighed.filter(|(_, weight)| *weight > 0);
        let first = weighed.max_by_key(|(holding, weight)| (holding.is_stalled(now_ms), *weight));
        let Some((holding, _)) = first else {
            return false;
        };
        let own = holding.own.swap(CUT, Ordering::Relaxed);
        if own == CUT {
            return false;
        }
        self.bytes.fetch_sub(self.counted(own), Ordering::Relaxed);
        holding.cut.cancel();
        let shared = holding.shared.load(Ordering::Relaxed);
        let bytes = own + shared;
        drop(accounts);
        tracing::warn!(
            bytes,
            "a client that leaves much unread was disconnected: all that waits is too much"
        );
        true
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().expect("nothing panics while it holds them")
    }
}

/// The account of a connection.
pub struct Account {
    budget: Arc<Budget>,
    number: u64,
    holding: Arc<Holding>,
}

impl Account {
    /// Counts bytes until what is returned is dropped.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        let (own, budget) = (&self.holding.own, &self.budget);
        let mut before = own.load(Ordering::Relaxed);
        // A connection that was cut is not counted any more: all that it has is dropped.
        while before != CUT {
            let more = budget.counted(before + bytes) - budget.counted(before);
            if more > 0 && budget.counted(before) == 0 {
                self.holding.is_taken(budget);
            }
            // First among all, so that whoever cuts it finds there what it takes off.
            let all = (more > 0).then(|| budget.add(more));
            match own.compare_exchange(before, before + bytes, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    all.into_iter().for_each(|all| budget.make_room(all));
                    break;
                }
                Err(now) => {
                    budget.bytes.fetch_sub(more, Ordering::Relaxed);
                    before = now;
                }
            }
        }
        let account = Arc::clone(self);
        Charge { account, bytes }
    }

    /// Counts bytes that wait for it and for others, which are [charged once](Budget::charge_once), when it is told who holds most.
    pub fn share(self: &Arc<Self>, bytes: usize) -> Share {
        if self.holding.shared.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.holding.is_taken(&self.budget);
        }
        let account = Arc::clone(self);
        Share { account, bytes }
    }

    /// Returns the same bytes, which are counted until nobody has them any more.
    pub fn charged<T: AsRef<[u8]> + Send + 'static>(self: &Arc<Self>, bytes: T) -> Bytes {
        let charge = self.charge(bytes.as_ref().len());
        charge.on(bytes)
    }

    /// Cancelled when the connection is to end.
    pub fn cut(&self) -> &CancellationToken {
        &self.holding.cut
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.accounts().open.remove(&self.number);
    }
}

/// Bytes that are counted.
pub struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Charge {
    /// Counts for as long as these are there.
    pub fn on<T: AsRef<[u8]> + Send + 'static>(self, bytes: T) -> Bytes {
        Bytes::from_owner(Charged { bytes, _charge: self })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let change = |own: usize| (own != CUT).then(|| own - self.bytes);
        let Account { budget, holding, .. } = &*self.account;
        let own = &holding.own;
        let Ok(before) = own.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change) else {
            return;
        };
        let less = budget.counted(before) - budget.counted(before - self.bytes);
        if less > 0 {
            budget.bytes.fetch_sub(less, Ordering::Relaxed);
            holding.is_taken(budget);
        }
    }
}

struct Charged<T> {
    bytes: T,
    _charge: Charge,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Charged<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// Bytes that several connections have.
pub struct ChargedOnce {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for ChargedOnce {
    fn drop(&mut self) {
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A connection's part in bytes that several have.
pub struct Share {
    account: Arc<Account>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let Account { budget, holding, .. } = &*self.account;
        holding.shared.fetch_sub(self.bytes, Ordering::Relaxed);
        holding.is_taken(budget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(budget: &Budget) -> usize {
        budget.bytes.load(Ordering::Relaxed)
    }

    #[test]
    fn bytes_count_as_long_as_anybody_has_them() {
        let budget = Budget::new(100, 0);
        let account = budget.open();
        let given = account.charged(vec![b'x'; 60]);
        let part = given.slice(10..20);
        assert_eq!((&part[..], bytes(&budget)), (&[b'x'; 10][..], 60));
        drop(given);
        assert_eq!(bytes(&budget), 60);
        drop(part);
        assert_eq!(bytes(&budget), 0);
        drop(account);
        assert_eq!(budget.accounts().open.len(), 0);
    }

    #[test]
    fn what_each_has_free_does_not_count() {
        let budget = Budget::new(100, 40);
        let [slow, other] = [(); 2].map(|()| budget.open());
        let small = [&slow, &other].map(|account| account.charge(40));
        assert_eq!(bytes(&budget), 0);
        let more = slow.charge(100);
        assert_eq!(bytes(&budget), 100);
        assert!(!slow.cut().is_cancelled());
        let one = other.charge(1);
        assert!(slow.cut().is_cancelled() && !other.cut().is_cancelled());
        assert_eq!(bytes(&budget), 1);
        drop(small);
        assert_eq!(bytes(&budget), 0);
        drop((more, one));
        assert_eq!(bytes(&budget), 0);
    }

    #[test]
    fn the_one_that_holds_most_is_cut_and_no_other() {
        let budget = Budget::new(100, 0);
        let [slow, other, last] = [50, 40, 20].map(|count| {
            let account = budget.open();
            let charge = account.charge(count);
            (account, charge)
        });
        let is_cut = |(account, _): &(Arc<Account>, Charge)| account.cut().is_cancelled();
        assert_eq!([&slow, &other, &last].map(is_cut), [true, false, false]);
        // What it holds still, and whatever it is given now, counts for nothing.
        assert_eq!(bytes(&budget), 60);
        let more = slow.0.charge(1_000);
        drop((more, slow));
        assert_eq!(bytes(&budget), 60);
        let room = other.0.charge(40);
        assert!(![&other, &last].map(is_cut).contains(&true));
        drop((room, other, last));
        assert_eq!(bytes(&budget), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_for_a_while_is_cut_before_who_reads_however_much() {
        let budget = Budget::new(100, 10);
        let [stalled, slower, shares, reader] = [(); 4].map(|()| budget.open());
        let [one, two] = [stalled.charge(40), slower.charge(30)];
        let frame = (budget.charge_once(15), shares.share(15));
        tokio::time::advance(STALLED).await;
        let is_cut = |account: &Arc<Account>| account.cut().is_cancelled();
        // Each time that it takes a piece it is one that reads.
        for _ in 0..3 {
            drop(reader.charge(40));
            tokio::time::advance(STALLED).await;
        }
        let most = reader.charge(70);
        assert!(is_cut(&stalled) && !is_cut(&slower) && !is_cut(&shares) && !is_cut(&reader));
        let more = reader.charge(10);
        assert!(is_cut(&slower) && !is_cut(&shares) && !is_cut(&reader));
        drop((one, two, frame, most, more));
        assert_eq!(bytes(&budget), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_no_more_than_is_free_is_not_cut_whatever_others_have() {
        let budget = Budget::new(100, 10);
        let [small, reader, large] = [(); 3].map(|()| budget.open());
        let few = small.charge(10);
        tokio::time::advance(STALLED).await;
        let [much, most] = [reader.charge(50), large.charge(80)];
        let are_cut = [&small, &reader, &large].map(|account| account.cut().is_cancelled());
        assert_eq!(are_cut, [false, false, true]);
        drop((few, much, most));
        assert_eq!(bytes(&budget), 0);
    }

    #[test]
    fn who_is_alone_too_much_is_cut_itself() {
        let budget = Budget::new(100, 0);
        let account = budget.open();
        drop(account.charge(100));
        assert!(!account.cut().is_cancelled());
        let _too_much = account.charge(101);
        assert!(account.cut().is_cancelled());
        assert_eq!(bytes(&budget), 0);
    }

    #[test]
    fn what_many_share_is_counted_once_and_weighs_for_each() {
        let budget = Budget::new(100, 0);
        let shared = budget.charge_once(60);
        let [slow, quick] = [(); 2].map(|()| budget.open());
        let shares = [&slow, &quick].map(|account| account.share(60));
        assert_eq!(bytes(&budget), 60);
        let [left, right] = shares;
        drop(slow.charge(1));
        let one = slow.charge(41);
        assert!(slow.cut().is_cancelled() && !quick.cut().is_cancelled());
        // What is too much still is about to go, with the one that was cut.
        let more = budget.charge_once(50);
        assert!(!quick.cut().is_cancelled());
        drop(left);
        let most = budget.charge_once(1);
        assert!(quick.cut().is_cancelled());
        drop((right, one, more, most, shared));
        assert_eq!(bytes(&budget), 0);
    }
}
