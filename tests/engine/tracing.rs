//! What happened to a message is shown to the person: whole, or not at all.

use relay::engine::handling::{Handling, Mode};
use relay::engine::trace::{Happened, Moment, ShownTo, Traced};
use relay::engine::{holds, records};

use super::*;

pub const PERSON: SessionId = SessionId(7);

/// A relay with a session of the person's.
fn with_person(bounds: Bounds) -> Relay {
    let mut relay = Relay::told_within(bounds);
    relay.open_for_person(PERSON);
    relay
}

fn trace_of(message: &str) -> Command {
    shown_to(message, ShownTo::Person)
}

fn shown_to(message: &str, shown_to: ShownTo) -> Command {
    let message = message.to_owned();
    trace::Command::Trace { message, shown_to }.into()
}

/// What the person is told of the n-th message.
pub fn traced(relay: &mut Relay, n: u8) -> Result<Traced, Refusal> {
    asked(relay, &id(n).to_string())
}

/// What the person is told of a message that it names.
fn asked(relay: &mut Relay, message: &str) -> Result<Traced, Refusal> {
    let mut effects = relay.call(PERSON, 1_000, trace_of(message));
    let effect = effects.pop().expect("an answer");
    let Effect::Reply { result, .. } = effect else {
        panic!("{effect:?}");
    };
    let Reply::Trace(trace::Reply::Traced(traced)) = result? else {
        panic!("a trace is answered with one");
    };
    Ok(*traced)
}

fn unknown(given: &str) -> Refusal {
    let given = given.to_owned();
    Refusal::Trace(trace::Refusal::Unknown { given })
}

/// The same for who is not the person.
fn not_shown(given: &str) -> Refusal {
    let given = given.to_owned();
    Refusal::Trace(trace::Refusal::NotShown { given })
}

/// Something that happened to dev-a's delivery of that place.
fn moment(ms: i64, seq: u64, what: Happened) -> Moment {
    Moment {
        at: START.plus_millis(ms),
        agent: name("dev-a"),
        seq: Seq(seq),
        what,
    }
}

fn handed_over(session: SessionId, carrier: Carrier) -> Happened {
    Happened::HandedOver {
        session,
        carrier,
        person: false,
    }
}

/// The n-th message, with what happened to it.
fn life(n: u8, moments: &[Moment]) -> Traced {
    let message = Arc::clone(&nth(n).message);
    Traced {
        id: message.id,
        from: message.from.clone(),
        to: message.to.clone(),
        kind: message.kind,
        handling: message.handling(),
        accepted_at: START,
        moments: moments.to_vec(),
    }
}

#[test]
fn a_message_is_followed_from_its_acceptance_until_it_is_delivered() {
    let mut relay = with_person(ROOMY);
    relay.post(B, 1, &nth(1));
    let mut moments = vec![moment(0, 0, Happened::Queued)];
    assert_eq!(traced(&mut relay, 1), Ok(life(1, &moments)));
    relay.now = START.plus_millis(10);
    relay.call(A, 2, read("dev-a"));
    relay.passed(2);
    moments.push(moment(10, 0, handed_over(A, Carrier::Stream)));
    assert_eq!(traced(&mut relay, 1), Ok(life(1, &moments)));
    relay.now = START.plus_millis(20);
    relay.call(A, 3, look("pm"));
    let by = Sign::CalledAgain;
    moments.push(moment(20, 0, Happened::Read { by }));
    assert_eq!(traced(&mut relay, 1), Ok(life(1, &moments)));
    // Nothing else happens until the person asks.
    relay.now = START.plus_millis(20 + CANCEL_GRACE_MS);
    moments.push(moment(20 + CANCEL_GRACE_MS, 0, Happened::Delivered { by }));
    assert_eq!(traced(&mut relay, 1), Ok(life(1, &moments)));
}

#[test]
fn what_came_back_is_handed_over_again() {
    let mut relay = with_person(ROOMY);
    relay.open(EXCHANGE, Carrier::Exchange, None);
    relay.post(B, 1, &nth(1));
    relay.post(B, 2, &nth(2));
    relay.call(A, 3, read("dev-a"));
    relay.close(A, Ending::Broken);
    relay.call(EXCHANGE, 4, read("dev-a"));
    relay.passed(4);
    relay.timeout_at(DOUBT_MS);
    let by = Sign::Ended(Ending::Broken);
    let moments = |seq| {
        [
            moment(0, seq, Happened::Queued),
            moment(0, seq, handed_over(A, Carrier::Stream)),
            moment(0, seq, Happened::Undone { by }),
            moment(0, seq, handed_over(EXCHANGE, Carrier::Exchange)),
            moment(DOUBT_MS, seq, Happened::Delivered { by: Sign::DoubtOver }),
        ]
    };
    assert_eq!(traced(&mut relay, 1), Ok(life(1, &moments(0))));
    assert_eq!(traced(&mut relay, 2), Ok(life(2, &moments(1))));
}

#[test]
fn each_recipient_of_many_has_its_own_delivery() {
    let mut relay = with_person(ROOMY);
    relay.post(B, 1, &message(1, 0, "dev-a", "dev-b"));
    let all = sent(2, 0, "pm", Recipient::everyone(Some(DEFAULT_PROJECT)));
    relay.post(C, 2, &all);
    relay.call(A, 3, read("dev-b"));
    relay.lost(3);
    let moment = |agent, seq, what| Moment {
        at: START,
        agent: name(agent),
        seq: Seq(seq),
        what,
    };
    let expected = Traced {
        to: all.message.to.clone(),
        moments: vec![
            moment("dev-a", 0, Happened::Queued),
            moment("dev-b", 1, Happened::Queued),
            moment("dev-b", 1, handed_over(A, Carrier::Stream)),
            moment("dev-b", 1, Happened::Undone { by: Sign::Lost }),
        ],
        ..life(2, &[])
    };
    assert_eq!(traced(&mut relay, 2), Ok(expected));
}

#[test]
fn a_message_that_went_to_nobody_has_an_acceptance_and_no_more() {
    let mut relay = with_person(ROOMY);
    let channel = ChannelName::new("one").expect("a good name");
    let message = sent(1, 0, "pm", Recipient::channel(&channel));
    relay.post(A, 1, &message);
    let expected = Traced {
        to: message.message.to.clone(),
        ..life(1, &[])
    };
    assert_eq!(traced(&mut relay, 1), Ok(expected));
}

#[test]
fn what_was_accepted_too_long_ago_is_unknown_and_not_shown_in_part() {
    // Room for both messages and the hand-over of both, and for nothing more.
    let mut relay = with_person(Bounds {
        trace_max: 4,
        ..ROOMY
    });
    relay.post(B, 1, &nth(1));
    relay.post(B, 2, &nth(2));
    relay.call(A, 3, read("dev-a"));
    let moments = |seq| {
        vec![
            moment(0, seq, Happened::Queued),
            moment(0, seq, handed_over(A, Carrier::Stream)),
        ]
    };
    assert_eq!(traced(&mut relay, 1), Ok(life(1, &moments(0))));
    relay.lost(3);
    assert_eq!(traced(&mut relay, 1), Err(unknown(&id(1).to_string())));
    let mut left = moments(1);
    left.push(moment(0, 1, Happened::Undone { by: Sign::Lost }));
    assert_eq!(traced(&mut relay, 2), Ok(life(2, &left)));
    let mut without = with_person(Bounds {
        trace_max: 0,
        ..ROOMY
    });
    without.post(B, 1, &nth(1));
    assert_eq!(traced(&mut without, 1), Err(unknown(&id(1).to_string())));
}

#[test]
fn an_id_may_be_cut_to_its_first_eight_digits_where_one_message_alone_begins_so() {
    let mut relay = with_person(ROOMY);
    for n in 1..=2 {
        relay.post(B, u64::from(n), &nth(n));
    }
    let whole = "02020202-0202-4202-8202-020202020202";
    assert_eq!(id(2).to_string(), whole);
    let second = life(2, &[moment(0, 1, Happened::Queued)]);
    for given in [
        whole,
        &whole.replace('-', ""),
        &whole[..35],
        "02020202",
        "02020202-",
        "02020202-0202-4",
        "0202020202024",
    ] {
        assert_eq!(asked(&mut relay, given), Ok(second.clone()), "{given}");
    }
    for given in [
        "",
        "0202020",
        "0202020-2",
        "0202-020202024",
        "03030303",
        "0202020x",
        "02020202-0202-4202-8202-0202020202020",
        "user",
        "\u{e9}2020202",
    ] {
        assert_eq!(asked(&mut relay, given), Err(unknown(given)), "{given}");
    }
    assert_eq!(
        asked(&mut relay, &"0".repeat(200)),
        Err(unknown(&format!("{}…", "0".repeat(80))))
    );
}

#[test]
fn an_id_that_two_messages_begin_with_is_refused() {
    let mut relay = with_person(ROOMY);
    relay.post_two_that_begin_alike();
    let given = "ABABABAB";
    let ambiguous = trace::Refusal::Ambiguous {
        given: given.to_owned(),
        messages: 2,
    };
    assert_eq!(asked(&mut relay, given), Err(Refusal::Trace(ambiguous)));
    for (last, seq) in [("0a", 0), ("0b", 1)] {
        let whole = format!("ABABABAB-abab-4bab-abab-ababababab{last}");
        let traced = asked(&mut relay, &whole).expect("it is the only one");
        assert_eq!(traced.moments, [moment(0, seq, Happened::Queued)]);
    }
}

#[test]
fn only_the_person_may_ask_and_asking_changes_nothing() {
    let mut relay = with_person(ROOMY);
    relay.open(EXCHANGE, Carrier::Exchange, Some("dev-a"));
    relay.post(B, 1, &nth(1));
    let refused = |call| reply(call, Err(Refusal::Trace(trace::Refusal::OnlyThePerson)));
    let asks = trace_of(&id(1).to_string());
    assert_eq!(relay.call(A, 2, asks.clone()), [refused(2)]);
    assert_eq!(relay.call(EXCHANGE, 3, asks), [refused(3)]);
    let before = relay.engine.clone();
    assert_eq!(traced(&mut relay, 1).map(|traced| traced.moments.len()), Ok(1));
    assert!(before == relay.engine);
}

#[test]
fn a_message_is_shown_whole_to_those_who_sent_it_and_to_those_who_got_it_their_own() {
    let mut relay = with_person(ROOMY);
    relay.call(A, 1, post(Some("pm"), "*", "to all"));
    let shown = |relay: &mut Relay, to: ShownTo| {
        let mut effects = relay.call(PERSON, 1_000, shown_to(&id(1).to_string(), to));
        let Some(Effect::Reply { result, .. }) = effects.pop() else {
            panic!("an answer");
        };
        let Reply::Trace(trace::Reply::Traced(traced)) = result? else {
            panic!("a trace is answered with one");
        };
        Ok(traced
            .moments
            .iter()
            .map(|moment| moment.agent.to_string())
            .collect::<Vec<_>>())
    };
    let all = ["dev-a", "dev-b"].map(str::to_owned).to_vec();
    let own = |agent: &str| vec![agent.to_owned()];
    assert_eq!(shown(&mut relay, ShownTo::Person), Ok(all.clone()));
    assert_eq!(shown(&mut relay, ShownTo::Agent(name("pm"))), Ok(all.clone()));
    assert_eq!(shown(&mut relay, ShownTo::Agent(name("dev-b"))), Ok(own("dev-b")));
    assert_eq!(shown(&mut relay, ShownTo::Project("default".to_owned())), Ok(all));
    let given = id(1).to_string();
    for stranger in [
        ShownTo::Agent(name("web:dev-b")),
        ShownTo::Project("web".to_owned()),
    ] {
        assert_eq!(shown(&mut relay, stranger), Err(not_shown(&given)));
    }
    // The beginning of an id may be another message's.
    let beginning = &given[..8];
    let mut effects = relay.call(PERSON, 1_000, shown_to(beginning, ShownTo::Agent(name("pm"))));
    assert_eq!(effects.pop(), Some(reply(1_000, Err(not_shown(beginning)))));
}

#[test]
fn what_becomes_of_one_message_is_not_what_becomes_of_another() {
    let mut relay = with_person(ROOMY);
    let whom = || holds::Whom::Agent("dev-a".to_owned());
    relay.call(PERSON, 1, holds::Command::Hold(whom()).into());
    let deadline = mail::PostOptions {
        handling: Handling {
            deadline: Some(START.plus_millis(10)),
            ..Handling::default()
        },
        ..mail::PostOptions::default()
    };
    relay.post(B, 2, &nth(1));
    relay.post(B, 3, &nth(2));
    relay.post(B, 4, &nth(3));
    relay.post_with(B, 5, &nth(4), Some(deadline));
    let to_all = sent(5, 0, "pm", Recipient::everyone(Some(DEFAULT_PROJECT)));
    relay.post(B, 8, &to_all);
    let message = id(2).to_string();
    relay.call(PERSON, 6, holds::Command::Allow { message }.into());
    let message = id(3).to_string();
    relay.call(PERSON, 7, holds::Command::Drop { message }.into());
    relay.timeout_at(10);
    let of_each: Vec<Vec<Happened>> = (1..=4)
        .map(|n| {
            let traced = traced(&mut relay, n).expect("it is known");
            traced.moments.into_iter().map(|moment| moment.what).collect()
        })
        .collect();
    let held = || vec![Happened::Queued, Happened::Held(holds::HeldBy::To)];
    let ends = |what: Happened| [held(), vec![what]].concat();
    assert_eq!(
        of_each,
        [
            held(),
            ends(Happened::Allowed),
            ends(Happened::Dropped),
            ends(Happened::Expired)
        ]
    );
}

#[test]
fn how_one_message_is_brought_is_not_how_another_is() {
    let mut relay = with_person(ROOMY);
    relay.post(B, 1, &nth(1));
    let (agent, mode) = (Some("dev-a".to_owned()), Some(Mode::Manual));
    relay.call(PERSON, 2, agents::Command::Mode { agent, mode }.into());
    relay.post(B, 3, &nth(2));
    let brought = |relay: &mut Relay, n: u8| {
        let moments = traced(relay, n).expect("it is known").moments.into_iter();
        moments.map(|moment| moment.what).collect::<Vec<_>>()
    };
    assert_eq!(brought(&mut relay, 1), [Happened::Queued]);
    assert_eq!(
        brought(&mut relay, 2),
        [Happened::Queued, Happened::Brought(Mode::Manual)]
    );
}

#[test]
fn a_mark_is_in_the_trace_of_its_message_for_who_got_it_and_no_other() {
    let mut relay = with_person(ROOMY);
    for (session, agent) in [(EXCHANGE, "dev-a"), (SessionId(5), "dev-b")] {
        relay.open(session, Carrier::Exchange, Some(agent));
    }
    relay.call(B, 1, post(Some("pm"), "#ops", "all stop"));
    relay.post(B, 2, &nth(2));
    relay.post(B, 3, &nth(3));
    for (session, n) in [(SessionId(5), 1), (EXCHANGE, 2)] {
        let message = id(n).to_string();
        let marked = relay.call(session, 4, records::Command::Mark { message }.into());
        assert!(matches!(marked[..], [Effect::Reply { result: Ok(_), .. }]));
    }
    let happened = |relay: &mut Relay, n: u8| {
        let moments = traced(relay, n).expect("it is known").moments.into_iter();
        moments.map(|moment| moment.what).collect::<Vec<_>>()
    };
    assert_eq!(happened(&mut relay, 1), [], "it is in nobody's inbox");
    assert_eq!(happened(&mut relay, 2), [Happened::Queued, Happened::Marked]);
    assert_eq!(happened(&mut relay, 3), [Happened::Queued]);
}
