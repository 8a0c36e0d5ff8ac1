use std::sync::atomic::AtomicI64;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::engine::limits::TRANSIENT_MS;
use crate::engine::workers::{Asked, ExitStatus, Happened};
use crate::engine::{Engine, Kind, Overview, Reason, Status, WorkerId, agents, mail, watches, workers};
use crate::server::observers::Of;
use crate::server::recorder::{NOW, engine, random, receipt, recorded, recorded_by};
use crate::server::requests::Scope;

/// An owner whose time is that of the test, with its timers not at work yet.
fn timed() -> Arc<Owner> {
    let started = Instant::now();
    let clock = Clock::from(move || {
        NOW.plus_millis(i64::try_from(started.elapsed().as_millis()).expect("a test is short"))
    });
    Arc::new(Owner::new(
        Box::new(engine(NOW)),
        clock,
        random(),
        Box::new(crate::server::NoLog),
    ))
}

#[test]
fn the_engine_is_told_before_the_next_step_that_the_clock_was_set() {
    let ahead = Arc::new(AtomicI64::new(0));
    let of_wall = Arc::clone(&ahead);
    let clock = Clock::shown_otherwise(|| NOW, move || of_wall.load(Ordering::Relaxed));
    let (owner, told) = recorded_by(clock);
    let opened = |owner: &Owner| {
        let (session, _) = owner
            .open(Carrier::Stream, Who::Agent(None))
            .expect("there is room");
        let (carrier, who) = (Carrier::Stream, Who::Agent(None));
        Input::Opened {
            session,
            carrier,
            who,
        }
    };
    let first = opened(&owner);
    assert_eq!(told.take(), [first]);
    for ahead_ms in [3_600_000, 0, -3_600_000] {
        ahead.store(ahead_ms, Ordering::Relaxed);
        assert_eq!(owner.now(), NOW.plus_millis(ahead_ms));
        let second = opened(&owner);
        assert_eq!(told.take(), [Input::WallClock { ahead_ms }, second]);
        let third = opened(&owner);
        assert_eq!(told.take(), [third]);
        assert_eq!(owner.overview().1.wall_ahead_ms, ahead_ms);
    }
}

#[test]
fn observers_are_told_when_something_was_by_the_clock_that_people_read() {
    const HOUR_MS: i64 = 3_600_000;
    let (owner, _) = recorded_by(Clock::shown_otherwise(|| NOW, || HOUR_MS));
    let since = owner.journal().now(&Of::All);
    let registration = agents::Registration {
        name: "helper".to_owned(),
        ..agents::Registration::default()
    };
    let who = Who::Registered(Box::new(registration));
    owner.open(Carrier::Stream, who).expect("there is room");
    let page = owner.journal().read(&Of::All, since.cursor, 10);
    let page = page.expect("it is kept");
    let times: Vec<Timestamp> = page.entries.iter().map(|(_, entry)| entry.at).collect();
    assert_eq!(times, [NOW.plus_millis(HOUR_MS)]);
}

/// An owner whose time is that of the test, with its timers at work and a session that knows of the start.
fn ticking() -> (Arc<Owner>, SessionId) {
    let owner = timed();
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
    let handover = answered.receipt.expect("a read has a receipt").passed();
    followed(owner, handover);
    session
}

fn followed(owner: &Owner, handover: HandoverId) {
    let sign = Sign::Followed;
    owner.report(Input::Signed { handover, sign });
}

fn read(role: &str, wait_ms: u32) -> Command {
    Command::Mail(mail::Command::read_all(Some(role.to_owned()), wait_ms))
}

fn post(owner: &Arc<Owner>, session: SessionId, to: &str) {
    let command = Command::Mail(mail::Command::Post {
        from: Some("pm".to_owned()),
        to: to.to_owned(),
        kind: Kind::Free,
        body: "x".to_owned(),
        options: None,
    });
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
    let answered = parked.answered().await.expect("it ends by itself");
    assert!(answered.receipt.is_none(), "{:?}", answered.answer);
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

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_end_of_all_workers_waits_for_the_last_and_not_for_one_that_did_not_start() {
    let (owner, session) = ticking();
    let _wanted = owner.take_up_workers();
    let mut starts = Vec::new();
    for name in ["w1", "w2"] {
        let asked = Asked {
            from: Some("pm".to_owned()),
            name: name.to_owned(),
            cli: "claude".to_owned(),
            task: "count".to_owned(),
            ..Asked::default()
        };
        let spawn = workers::Command::Spawn(Box::new(asked));
        starts.push(owner.call(session, spawn.into(), None));
    }
    let happens = |worker, happened| {
        let worker = WorkerId(worker);
        owner.report(Input::Worker { worker, happened });
    };
    let none_lives = || tokio::time::timeout(Duration::from_secs(1), owner.without_workers());
    let reason = "it is not there".to_owned();
    happens(1, Happened::FailedToStart { reason });
    happens(2, Happened::Started);
    assert!(none_lives().await.is_err(), "one lives");
    let status = ExitStatus::Code(0);
    let last_lines = String::new();
    happens(2, Happened::Exited { status, last_lines });
    none_lives().await.expect("the last one has ended");
}

/// What another thread sees while the lock is held, it leaves to whoever holds it.
#[tokio::test]
async fn what_is_reported_during_a_stop_is_not_left_lying() {
    let late = std::sync::Arc::new(Mutex::new(None::<(Arc<Owner>, SessionId)>));
    let clock: Clock = {
        let late = std::sync::Arc::clone(&late);
        Clock::from(move || {
            if let Some((owner, session)) = late.lock().expect("no panic").take() {
                owner.close(session, Ending::Broken);
            }
            NOW
        })
    };
    let owner = Arc::new(Owner::new(
        Box::new(engine(NOW)),
        clock,
        random(),
        Box::new(crate::server::NoLog),
    ));
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
    answered.receipt.expect("a read has a receipt").passed();
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
async fn a_dropped_wait_is_reported_as_cancelled_and_leaves_nothing_behind() {
    let (owner, recorded) = recorded();
    let (session, first) = receipt(&owner, Carrier::Exchange);
    followed(&owner, first.passed());
    let scope = Scope::Stream(uuid::Uuid::nil());
    let request = Some(Request::Json(&scope, "1"));
    let Some(Outcome::Parked(parked)) = owner.call(session, read("pm", 1_000), request) else {
        panic!("nothing is there to read");
    };
    let call = parked.call;
    assert_eq!(owner.lock().parked.len(), 1);
    recorded.take();
    drop(parked);
    assert_eq!(recorded.take(), [Input::Cancelled { call }]);
    assert_eq!(owner.lock().parked.len(), 0);
    // Its id is forgotten too: a cancellation is for a request that is yet to come.
    owner.cancel(RequestKey::of_json(&scope, "1").expect("an id"), None);
    assert_eq!(recorded.take(), []);
    assert!(owner.call(session, read("pm", 0), request).is_none());
}

#[tokio::test]
async fn an_answered_read_can_be_cancelled_if_it_handed_something_over() {
    let (owner, recorded) = recorded();
    let (session, first) = receipt(&owner, Carrier::Stream);
    let scope = Scope::Stream(uuid::Uuid::nil());
    first.passed();
    let key = |id| RequestKey::of_json(&scope, id).expect("an id");

    let Some(Outcome::Answered(empty)) = owner.call(session, read("pm", 0), Some(Request::Json(&scope, "1")))
    else {
        panic!("a read that does not wait is answered");
    };
    assert!(empty.receipt.is_none());
    post(&owner, session, "pm");
    let Some(Outcome::Answered(full)) = owner.call(session, read("pm", 0), Some(Request::Json(&scope, "2")))
    else {
        panic!("a read that does not wait is answered");
    };
    let mut parked = match owner.call(session, read("pm", 1_000), Some(Request::Json(&scope, "3"))) {
        Some(Outcome::Parked(parked)) => parked,
        Some(Outcome::Answered(_)) | None => panic!("nothing is there to read"),
    };
    post(&owner, session, "pm");
    let waited = parked.answered().await.expect("a message came");
    let waited = waited.receipt.expect("a read has a receipt");
    recorded.take();

    owner.cancel(key("1"), None);
    assert_eq!(recorded.take(), []);
    let full = full.receipt.expect("a read has a receipt");
    for (id, receipt) in [("2", &full), ("3", &waited)] {
        owner.cancel(key(id), None);
        assert_eq!(recorded.take(), [signed(receipt, Sign::Cancelled)]);
    }
}

fn signed(receipt: &Receipt, sign: Sign) -> Input {
    let handover = receipt.handover();
    Input::Signed { handover, sign }
}

#[tokio::test]
async fn an_answer_that_has_come_is_lost_with_its_dropped_wait() {
    let (owner, recorded) = recorded();
    let session = told(&owner, "pm");
    let parked = park(&owner, session, "pm", 1_000);
    post(&owner, session, "pm");
    recorded.take();
    drop(parked);
    let [Input::Signed { sign: Sign::Lost, .. }] = recorded.take()[..] else {
        panic!("the answer is lost");
    };
    assert!(!told_nothing_of(&owner, "pm"), "the message is there again");
}

/// An engine that panics when somebody looks what is pending.
struct Fragile(Engine);

impl Machine for Fragile {
    fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Effect>) {
        let looks = matches!(
            &input,
            Input::Call {
                command: Command::Mail(mail::Command::Pending { .. }),
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

    fn take_newly_seen(&mut self) -> Option<crate::engine::AgentName> {
        self.0.take_newly_seen()
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
        (|| NOW).into(),
        random(),
        Box::new(crate::server::NoLog),
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
        move || {
            drop(owner.call(
                session,
                Command::Mail(mail::Command::Pending { agent: None }),
                None,
            ))
        }
    });
    assert!(looking.join().is_err());
    owner.broken().await;
    drop(receipt);
}

/// Nothing has told the engine meanwhile that its time has come.
#[tokio::test(start_paused = true)]
async fn whoever_looks_once_a_wait_has_had_its_time_ends_it_for_whoever_waits() {
    let owner = timed();
    let session = told(&owner, "pm");
    let begun = Instant::now();
    let parked = park(&owner, session, "pm", 1_000);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let _ = owner.overview();
    let ended = tokio::time::timeout(Duration::from_secs(1), ended(parked, begun));
    assert_eq!(ended.await, Ok(2_000));
}

/// Nothing else happens meanwhile that would have it go.
#[tokio::test(start_paused = true)]
async fn an_agent_that_has_had_its_time_is_gone_when_somebody_looks() {
    let (owner, _) = ticking();
    let nameless = agents::Registration {
        name: "mcp-1".to_owned(),
        transient: true,
        ..agents::Registration::default()
    };
    let who = Who::Registered(Box::new(nameless));
    let (session, _) = owner.open(Carrier::Exchange, who).expect("there is room");
    owner.close(session, Ending::Orderly);
    let is_there = || {
        let (_, overview) = owner.overview();
        overview
            .inboxes
            .iter()
            .any(|inbox| inbox.agent.as_str() == "mcp-1")
    };
    let its_time = u64::try_from(TRANSIENT_MS).expect("it is to come");
    tokio::time::sleep(Duration::from_millis(its_time - 1)).await;
    assert!(is_there());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!is_there());
}

/// Takes the engine's lock while it is dropped.
struct Dropped(Arc<Owner>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.overview();
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ended_with_nothing_leaves_its_id_to_a_request_that_is_yet_to_come() {
    let (owner, session) = ticking();
    let scope = Scope::Stream(uuid::Uuid::nil());
    let request = Some(Request::Json(&scope, "1"));
    let Some(Outcome::Parked(parked)) = owner.call(session, read("pm", 10), request) else {
        panic!("nothing is there to read");
    };
    ended(parked, Instant::now()).await;
    owner.cancel(RequestKey::of_json(&scope, "1").expect("an id"), None);
    assert!(owner.call(session, read("pm", 0), request).is_none());
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_waits_and_leaves_nothing_of_them() {
    let (owner, _) = recorded();
    let session = told(&owner, "pm");
    let scope = Scope::Stream(uuid::Uuid::nil());
    let request = Some(Request::Json(&scope, "1"));
    let Some(Outcome::Parked(mut parked)) = owner.call(session, read("pm", 1_000), request) else {
        panic!("nothing is there to read");
    };
    owner.close(session, Ending::Broken);
    assert!(parked.answered().await.is_none());
    assert_eq!(owner.lock().parked.len(), 0);
    owner.cancel(RequestKey::of_json(&scope, "1").expect("an id"), None);
    let other = told(&owner, "dev-a");
    assert!(
        owner.call(other, read("pm", 0), request).is_none(),
        "it is for a request to come"
    );
    assert!(
        owner.call(session, read("pm", 0), None).is_none(),
        "nobody is there to answer"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_has_ended_leaves_its_id_to_a_request_that_is_yet_to_come() {
    let (owner, session) = ticking();
    let scope = Scope::Stream(uuid::Uuid::nil());
    for (id, arrives) in [("1", true), ("2", false)] {
        post(&owner, session, "pm");
        let request = Some(Request::Json(&scope, id));
        let Some(Outcome::Answered(answered)) = owner.call(session, read("pm", 0), request) else {
            panic!("a read that does not wait is answered");
        };
        let receipt = answered.receipt.expect("a read has a receipt");
        if arrives {
            followed(&owner, receipt.passed());
            // Until it cannot be cancelled any more.
            tokio::time::sleep(Duration::from_secs(4)).await;
        } else {
            drop(receipt);
        }
        owner.cancel(RequestKey::of_json(&scope, id).expect("an id"), None);
        assert!(owner.call(session, read("pm", 0), request).is_none(), "{id}");
    }
}

/// As when its reader goes on another thread, between the end of what it waits at and its report.
#[tokio::test]
async fn an_answer_whose_reader_has_just_gone_is_lost() {
    let (owner, recorded) = recorded();
    let session = told(&owner, "pm");
    let mut parked = park(&owner, session, "pm", 1_000);
    parked.answer.close();
    recorded.take();
    post(&owner, session, "pm");
    let [Input::Call { .. }, Input::Signed { sign: Sign::Lost, .. }] = recorded.take()[..] else {
        panic!("the answer is lost");
    };
    assert!(!told_nothing_of(&owner, "pm"), "the message is there again");
}

#[tokio::test]
async fn what_is_watched_no_more_is_not_told_though_it_changed_before() {
    use futures_util::FutureExt as _;

    let (owner, _recorded) = recorded();
    let who = Who::Agent(Some("pm".to_owned()));
    let (session, _) = owner.open(Carrier::Stream, who).expect("there is room");
    let changes = Arc::default();
    let what = watches::Watched::Inbox;
    for told in [true, false] {
        let watch = watches::Command::Watch(what);
        assert_eq!(owner.watch(session, watch, &changes), Some(Ok(())));
        post(&owner, session, "pm");
        if !told {
            let unwatch = watches::Command::Unwatch(what);
            assert_eq!(owner.watch(session, unwatch, &changes), Some(Ok(())));
        }
        assert_eq!(changes.next().now_or_never(), told.then_some(what));
    }
}

#[tokio::test]
async fn nothing_more_goes_out_over_the_connection_of_a_node_that_is_closed() {
    use crate::engine::nodes;
    let (owner, _) = ticking();
    let person = owner
        .open(Carrier::Exchange, Who::Person)
        .expect("there is room")
        .0;
    let create = nodes::Command::Create {
        project: crate::engine::DEFAULT_PROJECT.to_owned(),
        name: "fleet".to_owned(),
        label: None,
        agents_max: None,
        pushes: false,
    };
    let made = owner.call(person, create.into(), None);
    let Some(Outcome::Answered(Answered {
        answer: Ok(crate::engine::Reply::Nodes(made)),
        ..
    })) = made
    else {
        panic!("a node is made")
    };
    let nodes::Reply::Node(view) = *made else {
        panic!("a node is made, not {made:?}")
    };
    let (session, mut outgoing) = owner.open_node(view.node).expect("there is room");
    assert!(matches!(
        outgoing.try_recv(),
        Err(tokio::sync::mpsc::error::TryRecvError::Empty)
    ));
    owner.close(session, Ending::Broken);
    assert!(matches!(
        outgoing.try_recv(),
        Err(tokio::sync::mpsc::error::TryRecvError::Disconnected)
    ));
}
