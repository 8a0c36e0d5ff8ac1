use tokio::time::Instant;

use super::*;
use crate::engine::Kind;
use crate::server::recorder::{NOW, engine, receipt, recorded};
use crate::server::requests::Scope;

/// An owner whose time is that of the test, with its timers at work and a session that knows of the start.
fn ticking() -> (Arc<Owner>, SessionId) {
    let started = Instant::now();
    let clock: Clock = std::sync::Arc::new(move || {
        NOW.plus_millis(i64::try_from(started.elapsed().as_millis()).expect("a test is short"))
    });
    let owner = Arc::new(Owner::new(Box::new(engine(NOW)), clock, Box::new(|_| {})));
    tokio::spawn(Arc::clone(&owner).run_timers());
    let session = told(&owner, "pm");
    (owner, session)
}

/// Opens a session and lets it hear of the start for a role.
fn told(owner: &Arc<Owner>, role: &str) -> SessionId {
    let (session, _) = owner
        .open(Carrier::Exchange, Who::Agent(None))
        .expect("there is room");
    let Some(Outcome::Answered(answered)) = owner.call(session, read(role, 0), None) else {
        panic!("a read that does not wait is answered");
    };
    let call = answered.receipt.expect("a read has a receipt").flushed();
    owner.report(Input::Followed { call });
    session
}

fn read(role: &str, wait_ms: u32) -> Command {
    Command::Read {
        agent: Some(role.to_owned()),
        wait_ms,
    }
}

fn post(owner: &Arc<Owner>, session: SessionId, to: &str) {
    let command = Command::Post {
        from: Some("pm".to_owned()),
        to: to.to_owned(),
        kind: Kind::Free,
        body: "x".to_owned(),
    };
    assert!(matches!(
        owner.call(session, command, None),
        Some(Outcome::Answered(_))
    ));
}

fn park(owner: &Arc<Owner>, session: SessionId, role: &str, wait_ms: u32) -> Parked {
    match owner.call(session, read(role, wait_ms), None) {
        Some(Outcome::Parked(parked)) => parked,
        Some(Outcome::Answered(_)) | None => panic!("nothing is there to read"),
    }
}

/// Waits for the end of a wait and returns how long that took, in milliseconds.
async fn ended(mut parked: Parked, since: Instant) -> u128 {
    let answer = parked.answered().await.expect("it ends by itself");
    assert!(!hands_over(&answer), "{answer:?}");
    drop(parked);
    since.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_in_time_also_after_the_timers_had_nothing_to_do() {
    let (owner, session) = ticking();
    for _ in 0..3 {
        let begun = Instant::now();
        let parked = park(&owner, session, "pm", 1_000);
        assert_eq!(ended(parked, begun).await, 1_000);
        // Nothing is pending now; the timers sleep until they are needed.
        tokio::time::sleep(Duration::from_secs(7)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_before_another_one_is_not_held_up_by_it() {
    let (owner, session) = ticking();
    let other = told(&owner, "dev-a");
    let begun = Instant::now();
    let long = park(&owner, session, "pm", 10_000);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let short = park(&owner, other, "dev-a", 1_000);
    assert_eq!(ended(short, begun).await, 3_000);
    assert_eq!(ended(long, begun).await, 10_000);
}

/// What another thread sees while the lock is held, it leaves to whoever holds it.
#[tokio::test]
async fn what_is_reported_during_a_stop_is_not_left_lying() {
    let late = std::sync::Arc::new(Mutex::new(None::<(Arc<Owner>, SessionId)>));
    let clock: Clock = {
        let late = std::sync::Arc::clone(&late);
        std::sync::Arc::new(move || {
            if let Some((owner, session)) = late.lock().expect("no panic").take() {
                owner.close(session, Ending::Broken);
            }
            NOW
        })
    };
    let owner = Arc::new(Owner::new(Box::new(engine(NOW)), clock, Box::new(|_| {})));
    let session = told(&owner, "pm");
    *late.lock().expect("no panic") = Some((Arc::clone(&owner), session));
    owner.stop();
    assert!(late.lock().expect("no panic").is_none());
    assert_eq!(*owner.reports(), []);
}

#[tokio::test(start_paused = true)]
async fn a_doubt_ends_in_time_though_nothing_else_happens() {
    let (owner, session) = ticking();
    post(&owner, session, "pm");
    let Some(Outcome::Answered(answered)) = owner.call(session, read("pm", 0), None) else {
        panic!("a read that does not wait is answered");
    };
    assert!(hands_over(&answered.answer));
    answered.receipt.expect("a read has a receipt").flushed();
    tokio::time::sleep(Duration::from_millis(20_001)).await;
    owner.close(session, Ending::Broken);
    let after = told_nothing_of(&owner, "pm");
    assert!(after, "the doubt had not ended");
}

/// Tells whether a role's inbox is empty.
fn told_nothing_of(owner: &Arc<Owner>, role: &str) -> bool {
    let pending = owner.lock().engine.status().pending;
    pending
        .iter()
        .any(|(name, count)| name.as_str() == role && *count == 0)
}

#[tokio::test]
async fn a_dropped_wait_is_reported_as_lost_and_leaves_nothing_behind() {
    let (owner, recorded) = recorded();
    let (session, first) = receipt(&owner, Carrier::Exchange);
    let call = first.flushed();
    owner.report(Input::Followed { call });
    let scope = Scope::Session(session);
    let request = Some(Request::Json(&scope, "1"));
    let Some(Outcome::Parked(parked)) = owner.call(session, read("pm", 1_000), request) else {
        panic!("nothing is there to read");
    };
    let call = parked.receipt.call;
    assert_eq!(owner.lock().parked.len(), 1);
    recorded.take();
    drop(parked);
    assert_eq!(recorded.take(), [Input::Lost { call }]);
    assert_eq!(owner.lock().parked.len(), 0);
    // Its id is forgotten too: a cancellation is for a request that is yet to come.
    owner.cancel(RequestKey::of_json(&scope, "1").expect("an id"));
    assert_eq!(recorded.take(), []);
    assert!(owner.call(session, read("pm", 0), request).is_none());
}

#[tokio::test]
async fn an_answered_read_can_be_cancelled_if_it_handed_something_over() {
    let (owner, recorded) = recorded();
    let (session, first) = receipt(&owner, Carrier::Stream);
    let scope = Scope::Session(session);
    first.flushed();
    let key = |id| RequestKey::of_json(&scope, id).expect("an id");

    let Some(Outcome::Answered(empty)) = owner.call(session, read("pm", 0), Some(Request::Json(&scope, "1")))
    else {
        panic!("a read that does not wait is answered");
    };
    assert!(!hands_over(&empty.answer));
    post(&owner, session, "pm");
    let Some(Outcome::Answered(full)) = owner.call(session, read("pm", 0), Some(Request::Json(&scope, "2")))
    else {
        panic!("a read that does not wait is answered");
    };
    let mut parked = match owner.call(session, read("pm", 1_000), Some(Request::Json(&scope, "3"))) {
        Some(Outcome::Parked(parked)) => parked,
        Some(Outcome::Answered(_)) | None => panic!("nothing is there to read"),
    };
    let waited = parked.receipt.call;
    post(&owner, session, "pm");
    parked
        .answered()
        .await
        .expect("a message came")
        .expect("it is no refusal");
    recorded.take();

    owner.cancel(key("1"));
    assert_eq!(recorded.take(), []);
    owner.cancel(key("2"));
    let call = full.receipt.as_ref().expect("a read has a receipt").call;
    assert_eq!(recorded.take(), [Input::Cancelled { call }]);
    owner.cancel(key("3"));
    assert_eq!(recorded.take(), [Input::Cancelled { call: waited }]);
}

/// An engine that panics when somebody looks what is pending.
struct Fragile(Engine);

impl Machine for Fragile {
    fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Effect>) {
        let looks = matches!(
            &input,
            Input::Call {
                command: Command::Pending { .. },
                ..
            }
        );
        assert!(!looks, "this engine is broken on purpose");
        self.0.handle(now, input, out);
    }

    fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        self.0.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        self.0.handle_timeout(now, out);
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn overview(&self) -> Overview {
        self.0.overview()
    }
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "a panic is caught by the thread that it ends"
)]
async fn a_panic_of_the_engine_is_told_of_and_a_receipt_dropped_after_it_does_no_harm() {
    let owner = Owner::new(
        Box::new(Fragile(engine(NOW))),
        std::sync::Arc::new(|| NOW),
        Box::new(|_| {}),
    );
    let owner = Arc::new(owner);
    let (session, receipt) = receipt(&owner, Carrier::Stream);
    let unrelated = std::thread::spawn({
        let owner = Arc::clone(&owner);
        move || {
            let _step = Dropped(owner);
            panic!("of something else, on purpose");
        }
    });
    assert!(unrelated.join().is_err());
    assert!(
        !owner.broken.is_cancelled(),
        "the engine had nothing to do with that panic"
    );

    let looking = std::thread::spawn({
        let owner = Arc::clone(&owner);
        move || drop(owner.call(session, Command::Pending { agent: None }, None))
    });
    assert!(looking.join().is_err());
    owner.broken().await;
    drop(receipt);
}

/// Takes the engine's lock while it is dropped.
struct Dropped(Arc<Owner>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.overview();
    }
}
