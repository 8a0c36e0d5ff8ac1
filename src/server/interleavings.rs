//! The orders in which threads may come to the owner, tried out one by one: `cargo test --lib --features interleavings
//! interleavings`.

use shuttle::thread;

use super::owner::{Outcome, Owner, Parked, Receipt};
use super::requests::{Request, RequestKey, Scope};
use super::sync::Arc;
use crate::engine::limits::Bounds;
use crate::engine::{
    Carrier, Command, Engine, Input, Kind, Reply, Roster, SessionId, Sign, Timestamp, Who, mail,
};

const ORDERS: usize = 3_000;

const NOW: Timestamp = Timestamp::from_millis(1_777_732_200_000);

/// Tries out a scenario in many orders: at random, and with few changes between threads at unlikely places.
fn in_all_orders(scenario: fn()) {
    shuttle::check_random(scenario, ORDERS);
    shuttle::check_pct(scenario, ORDERS, 3);
}

/// An owner whose agents know of the start, with an open session.
fn owner() -> (Arc<Owner>, SessionId) {
    let mut drawn = 0_u8;
    let random = Box::new(move || {
        drawn += 1;
        [drawn; 16]
    });
    let engine = Engine::new(NOW, Roster::default(), Bounds::default(), [0; 16]);
    let owner = Arc::new(Owner::new(
        Box::new(engine),
        (|| NOW).into(),
        random,
        Box::new(crate::server::NoLog),
    ));
    let session = open(&owner, Carrier::Stream);
    arrived(&owner, take(&owner, session));
    (owner, session)
}

fn open(owner: &Owner, carrier: Carrier) -> SessionId {
    owner.open(carrier, Who::Agent(None)).expect("there is room").0
}

fn read(wait_ms: u32) -> Command {
    Command::Mail(mail::Command::read_all(Some("pm".to_owned()), wait_ms))
}

fn post(owner: &Arc<Owner>, session: SessionId) {
    let command = Command::Mail(mail::Command::Post {
        from: Some("dev-a".to_owned()),
        to: "pm".to_owned(),
        kind: Kind::Free,
        body: "x".to_owned(),
        options: None,
    });
    assert!(matches!(
        owner.call(session, command, None),
        Some(Outcome::Answered(_))
    ));
}

/// What a read came to: how many messages, and the receipt of its reply.
struct Taken {
    messages: usize,
    redelivered: bool,
    /// None if nothing is handed over in the reply.
    receipt: Option<Receipt>,
}

fn take(owner: &Arc<Owner>, session: SessionId) -> Taken {
    let Some(Outcome::Answered(answered)) = owner.call(session, read(0), None) else {
        panic!("a read that does not wait is answered");
    };
    let Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })) = answered.answer else {
        panic!("a read is answered by messages");
    };
    Taken {
        messages: deliveries.len(),
        redelivered: deliveries.iter().any(|delivery| delivery.redelivered),
        receipt: answered.receipt,
    }
}

/// Lets a reply arrive whole.
fn arrived(owner: &Owner, taken: Taken) {
    if let Some(receipt) = taken.receipt {
        let (handover, sign) = (receipt.passed(), Sign::Followed);
        owner.report(Input::Signed { handover, sign });
    }
}

/// Writes the answer of a parked read as a transport does, if it has come.
fn write(mut parked: Parked) {
    let answered = futures_util::FutureExt::now_or_never(parked.answered());
    if let Some(Some(answered)) = answered {
        answered.receipt.map(Receipt::passed);
    }
}

fn key(id: &str) -> RequestKey {
    RequestKey::of_json(&Scope::named("s").expect("it is short"), id).expect("an id")
}

fn call_by_id(owner: &Arc<Owner>, session: SessionId, command: Command, id: &str) -> Option<Outcome> {
    let scope = Scope::named("s").expect("it is short");
    owner.call(session, command, Some(Request::Json(&scope, id)))
}

#[test]
fn a_cancelled_wait_takes_nothing_with_it_whatever_comes_first() {
    in_all_orders(|| {
        let (owner, session) = owner();
        let waiting = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || match call_by_id(&owner, session, read(1_000), "1") {
                None => {}
                Some(Outcome::Parked(parked)) => {
                    thread::yield_now();
                    write(parked);
                }
                Some(Outcome::Answered(answered)) => {
                    answered.receipt.map(Receipt::passed);
                }
            })
        };
        let cancelling = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || owner.cancel(key("1"), None))
        };
        let other = open(&owner, Carrier::Stream);
        post(&owner, other);
        waiting.join().expect("no panic");
        cancelling.join().expect("no panic");
        // The next call of the session that cancelled must not confirm an answer that it threw away.
        let taken = take(&owner, session);
        assert_eq!(taken.messages, 1, "the message is lost");
    });
}

#[test]
fn a_cancelled_read_takes_nothing_with_it_whatever_comes_first() {
    in_all_orders(|| {
        let (owner, session) = owner();
        post(&owner, session);
        let reading = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || {
                if let Some(Outcome::Answered(answered)) = call_by_id(&owner, session, read(0), "\"x\"") {
                    answered.receipt.map(Receipt::passed);
                }
            })
        };
        owner.cancel(key("\"\\u0078\""), None);
        reading.join().expect("no panic");
        assert_eq!(take(&owner, session).messages, 1, "the message is lost");
    });
}

#[test]
fn a_message_is_handed_to_one_of_two_reads() {
    in_all_orders(|| {
        let (owner, session) = owner();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let owner = Arc::clone(&owner);
                thread::spawn(move || {
                    let session = open(&owner, Carrier::Exchange);
                    let taken = take(&owner, session);
                    let messages = taken.messages;
                    arrived(&owner, taken);
                    messages
                })
            })
            .collect();
        post(&owner, session);
        let read: usize = readers
            .into_iter()
            .map(|reader| reader.join().expect("no panic"))
            .sum();
        assert_eq!(read + take(&owner, session).messages, 1);
    });
}

#[test]
fn what_a_dropped_receipt_reports_is_carried_out_though_others_hold_the_engine() {
    in_all_orders(|| {
        let (owner, session) = owner();
        post(&owner, session);
        let lost = open(&owner, Carrier::Stream);
        let taken = take(&owner, lost);
        assert_eq!(taken.messages, 1);
        let dropping = thread::spawn(move || drop(taken.receipt));
        let busy = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || drop(owner.overview()))
        };
        drop(owner.overview());
        busy.join().expect("no panic");
        dropping.join().expect("no panic");
        // Looks at the state as it is: nothing may be left to carry out.
        assert_eq!(owner.pending_now(), 1, "the report was left lying");
        let again = take(&owner, session);
        assert!(again.redelivered);
        arrived(&owner, again);
    });
}
