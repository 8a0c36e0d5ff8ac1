//! Every transition is told of, once, with what it was and why.

use super::*;

fn opened(session: SessionId, carrier: Carrier) -> Event {
    Event::Opened {
        session,
        carrier,
        agent: None,
        person: false,
    }
}

fn parked(call: u64, session: SessionId, ms: i64) -> Event {
    Event::Parked {
        call: CallId(call),
        session,
        agent: name("dev-a"),
        expires_at: START.plus_millis(ms),
    }
}

fn ended(call: u64, by: WaitEnd) -> Event {
    Event::WaitEnded {
        call: CallId(call),
        by,
    }
}

/// The events of a relay whose hand-overs before were those of the starts.
struct Watched(Relay);

impl Watched {
    fn new() -> Self {
        let mut relay = Relay::told();
        relay.events();
        Self(relay)
    }

    /// The hand-over in the reply to a call.
    fn handover(&self, call: u64) -> HandoverId {
        self.0.handovers[&call]
    }

    fn handed_over(&self, call: u64, session: SessionId, deliveries: &[Delivery]) -> Event {
        Event::HandedOver {
            handover: self.handover(call),
            session,
            carrier: if session == EXCHANGE {
                Carrier::Exchange
            } else {
                Carrier::Stream
            },
            agent: name("dev-a"),
            person: false,
            deliveries: Arc::new(deliveries.to_vec()),
            notice: false,
            part: None,
        }
    }

    fn confirmed(&self, call: u64, by: Sign, deliveries: &[Delivery]) -> Event {
        Event::Confirmed {
            handover: self.handover(call),
            by,
            agent: name("dev-a"),
            deliveries: Arc::new(deliveries.to_vec()),
        }
    }

    fn undone(&self, call: u64, by: Sign, deliveries: &[Delivery]) -> Event {
        Event::Undone {
            handover: self.handover(call),
            by,
            agent: name("dev-a"),
            deliveries: Arc::new(deliveries.to_vec()),
        }
    }

    fn read(&self, call: u64, by: Sign) -> Event {
        Event::Read {
            handover: self.handover(call),
            by,
        }
    }

    fn passed(&self, call: u64) -> Event {
        Event::Passed {
            handover: self.handover(call),
        }
    }
}

fn accepted_event(delivery: &Delivery) -> Event {
    Event::Accepted {
        message: Arc::clone(&delivery.message),
        agents: vec![name(delivery.message.to.as_str())],
        places: Places::One(delivery.seq),
    }
}

#[test]
fn a_session_s_coming_and_going() {
    let Watched(mut relay) = Watched::new();
    relay.open(EXCHANGE, Carrier::Exchange, None);
    assert_eq!(relay.events(), [opened(EXCHANGE, Carrier::Exchange)]);
    relay.open(SessionId(5), Carrier::Stream, Some("nobody"));
    assert_eq!(relay.events(), []);
    relay.open(SessionId(6), Carrier::Stream, Some("pm"));
    relay.open_for_person(SessionId(7));
    let bound = Event::Opened {
        session: SessionId(6),
        carrier: Carrier::Stream,
        agent: Some(name("pm")),
        person: false,
    };
    let person = Event::Opened {
        session: SessionId(7),
        carrier: Carrier::Exchange,
        agent: None,
        person: true,
    };
    assert_eq!(relay.events(), [bound, person]);
    let (session, ending) = (EXCHANGE, Ending::Orderly);
    relay.close(session, ending);
    assert_eq!(relay.events(), [Event::Closed { session, ending }]);
    relay.close(session, ending);
    assert_eq!(relay.events(), []);
}

#[test]
fn a_hand_over_that_is_confirmed() {
    let mut watched = Watched::new();
    let relay = &mut watched.0;
    relay.open(EXCHANGE, Carrier::Exchange, None);
    relay.events();
    relay.post(A, 1, &nth(1));
    relay.call(EXCHANGE, 2, read("dev-a"));
    relay.passed(2);
    relay.passed(2);
    relay.followed(2);
    relay.followed(2);
    relay.settle();
    let events = relay.events();
    let expected = [
        accepted_event(&nth(1)),
        watched.handed_over(2, EXCHANGE, &[nth(1)]),
        watched.passed(2),
        watched.read(2, Sign::Followed),
        watched.confirmed(2, Sign::Followed, &[nth(1)]),
    ];
    assert_eq!(events, expected);
    let relay = &mut watched.0;
    let second = posted_at(CANCEL_GRACE_MS, &nth(2));
    relay.post(A, 3, &nth(2));
    relay.call(EXCHANGE, 4, read("dev-a"));
    relay.passed(4);
    relay.events();
    let (session, ending) = (EXCHANGE, Ending::Orderly);
    relay.close(session, ending);
    let events = relay.events();
    let was_read = watched.read(4, Sign::Ended(ending));
    assert_eq!(events, [was_read, Event::Closed { session, ending }]);
    watched.0.settle();
    let confirmed = watched.confirmed(4, Sign::Ended(ending), &[second]);
    assert_eq!(watched.0.events(), [confirmed]);
}

#[test]
fn what_confirms_a_streamed_hand_over() {
    let mut watched = Watched::new();
    watched.0.post(B, 1, &nth(1));
    watched.0.call(A, 2, read("dev-a"));
    watched.0.passed(2);
    watched.0.events();
    watched.0.call(A, 3, look("pm"));
    let was_read = watched.read(2, Sign::CalledAgain);
    assert_eq!(watched.0.events(), [was_read]);
    watched.0.settle();
    let confirmed = watched.confirmed(2, Sign::CalledAgain, &[nth(1)]);
    assert_eq!(watched.0.events(), [confirmed]);

    watched.0.timeout_at(DOUBT_MS);
    watched.0.post(B, 4, &nth(2));
    watched.0.call(A, 5, read("dev-a"));
    watched.0.passed(5);
    watched.0.events();
    watched.0.kept_alive(A);
    watched.0.timeout_at(2 * DOUBT_MS);
    let kept_alive = Event::KeptAlive {
        handover: watched.handover(5),
    };
    let second = posted_at(DOUBT_MS, &nth(2));
    let confirmed = watched.confirmed(5, Sign::DoubtOver, &[second]);
    assert_eq!(watched.0.events(), [kept_alive, confirmed]);

    let third = posted_at(2 * DOUBT_MS, &nth(3));
    watched.0.post(B, 6, &nth(3));
    watched.0.call(A, 7, read("dev-a"));
    watched.0.passed(7);
    watched.0.events();
    watched.0.timeout_at(3 * DOUBT_MS);
    let overdue = Event::Overdue {
        handover: watched.handover(7),
    };
    assert_eq!(watched.0.events(), [overdue]);
    watched.0.kept_alive(A);
    let confirmed = watched.confirmed(7, Sign::KeptAlive, &[third]);
    assert_eq!(watched.0.events(), [confirmed]);
}

#[test]
fn a_doubt_that_was_slept_through_begins_anew() {
    let mut watched = Watched::new();
    watched.0.post(B, 1, &nth(1));
    watched.0.call(A, 2, read("dev-a"));
    watched.0.passed(2);
    watched.0.events();
    watched.0.timeout_at(DOUBT_MS + DOUBT_LATE_MS_MAX + 1);
    let passed = watched.passed(2);
    assert_eq!(watched.0.events(), [passed]);
}

#[test]
fn what_undoes_a_hand_over() {
    for sign in [Sign::Lost, Sign::Cancelled, Sign::Ended(Ending::Broken)] {
        let mut watched = Watched::new();
        watched.0.post(B, 1, &nth(1));
        watched.0.call(A, 2, read("dev-a"));
        watched.0.events();
        if let Sign::Ended(ending) = sign {
            watched.0.close(A, ending);
        } else {
            watched.0.sign(2, sign);
        }
        let undone = watched.undone(2, sign, &[nth(1)]);
        assert_eq!(watched.0.events()[0], undone);
    }
}

#[test]
fn a_wait_begins_and_ends_in_one_of_four_ways() {
    let mut watched = Watched::new();
    watched.0.call(A, 1, wait("dev-a", WAIT_MS));
    assert_eq!(watched.0.events(), [parked(1, A, 5_000)]);
    watched.0.call(A, 2, wait("dev-a", WAIT_MS));
    let superseded = ended(1, WaitEnd::Superseded);
    assert_eq!(watched.0.events(), [superseded, parked(2, A, 5_000)]);
    watched.0.cancelled(2);
    assert_eq!(watched.0.events(), [ended(2, WaitEnd::Cancelled)]);
    watched.0.call(A, 3, wait("dev-a", WAIT_MS));
    watched.0.post(B, 4, &nth(1));
    let events = watched.0.events();
    let expected = [
        parked(3, A, 5_000),
        accepted_event(&nth(1)),
        ended(3, WaitEnd::Woken),
        watched.handed_over(3, A, &[nth(1)]),
    ];
    assert_eq!(events, expected);
    watched.0.call(B, 5, wait("dev-a", WAIT_MS));
    watched.0.timeout_at(5_000);
    let expected = [parked(5, B, 5_000), ended(5, WaitEnd::Expired)];
    assert_eq!(watched.0.events(), expected);
}

#[test]
fn waits_end_with_their_session_and_with_the_relay() {
    let Watched(mut relay) = Watched::new();
    relay.call(A, 1, wait("dev-a", WAIT_MS));
    relay.call(B, 2, wait("dev-a", WAIT_MS));
    relay.events();
    let (session, ending) = (A, Ending::Broken);
    relay.close(session, ending);
    let expected = [ended(1, WaitEnd::Cancelled), Event::Closed { session, ending }];
    assert_eq!(relay.events(), expected);
    relay.handle(Input::Stopping);
    assert_eq!(relay.events(), [Event::Stopping, ended(2, WaitEnd::Expired)]);
}

#[test]
fn the_news_of_the_start_is_handed_over_like_a_message() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    relay.events();
    relay.call(A, 1, read("dev-a"));
    let told = Event::HandedOver {
        handover: relay.handovers[&1],
        session: A,
        carrier: Carrier::Stream,
        agent: name("dev-a"),
        person: false,
        deliveries: Arc::default(),
        notice: true,
        part: None,
    };
    assert_eq!(relay.events(), [told]);
}

#[test]
fn an_acceptance_tells_the_place_in_each_inbox() {
    let mut relay = Relay::told();
    relay.register(EXCHANGE, registration("qa", None));
    relay.post(A, 1, &message(1, 0, "pm", "dev-b"));
    relay.events();
    relay.call(A, 2, post(Some("pm"), "*", "to all"));
    let places = relay.events().into_iter().find_map(|event| {
        let Event::Accepted { places, .. } = event else {
            return None;
        };
        Some(places.as_slice().to_vec())
    });
    assert_eq!(places, Some(vec![Seq(0), Seq(1), Seq(0)]));
}
