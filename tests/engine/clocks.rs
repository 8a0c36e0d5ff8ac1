//! What lasts, and what is shown, when the clock that people read is set.

use relay::engine::handling::Handling;

use relay::engine::absence::Absence;
use relay::engine::workers::{Command as OfWorkers, Reply as Workers};
use relay::engine::{channels, nodes};

use super::handling::until;
use super::nodes::{NODE, PERSON};
use super::tracing::traced;
use super::workers::{FIRST, SPACIOUS, exited};
use super::*;

const HOUR_MS: i64 = 3_600_000;

impl Relay {
    /// Sets the clock that people read, so that it is so far ahead.
    fn sets_clock(&mut self, ahead_ms: i64) -> Vec<Effect> {
        self.handle(Input::WallClock { ahead_ms })
    }

    /// Posts to `dev-a`, and returns when that was as it is shown.
    fn posts_until(&mut self, handling: Handling) -> Result<Timestamp, Refusal> {
        let options = mail::PostOptions {
            handling,
            ..mail::PostOptions::default()
        };
        let command = mail::Command::Post {
            from: Some("pm".to_owned()),
            to: "dev-a".to_owned(),
            kind: Kind::Free,
            body: String::new(),
            options: Some(Box::new(options)),
        };
        let effects = self.call(A, 700, command.into());
        let [Effect::Reply { result, .. }] = &effects[..] else {
            panic!("{effects:?}");
        };
        match result {
            Ok(Reply::Mail(mail::Reply::Posted { ts, .. })) => Ok(*ts),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.clone()),
        }
    }
}

#[test]
fn a_wait_lasts_as_long_as_it_was_to_however_the_clock_is_set() {
    for ahead_ms in [HOUR_MS, -HOUR_MS, i64::MAX, i64::MIN] {
        let mut relay = Relay::told();
        assert_eq!(relay.call(A, 1, wait("pm", WAIT_MS)), NONE);
        let expires = START.plus_millis(i64::from(WAIT_MS));
        assert_eq!(relay.sets_clock(ahead_ms), NONE);
        assert_eq!(relay.engine.poll_timeout(), Some((expires, Reason::WaitExpires)));
        assert_eq!(relay.timeout_at(i64::from(WAIT_MS) - 1), NONE);
        assert_eq!(relay.timeout_at(i64::from(WAIT_MS)), [nothing(1)]);
    }
}

#[test]
fn what_happens_is_shown_by_the_clock_that_people_read() {
    let mut relay = Relay::told();
    assert_eq!(relay.posts_until(Handling::default()), Ok(START));
    relay.sets_clock(HOUR_MS);
    let later = START.plus_millis(HOUR_MS);
    assert_eq!(relay.posts_until(Handling::default()), Ok(later));
    let (message, _) = relay.went_out().expect("it was accepted");
    assert_eq!(message.ts, later);
    assert_eq!(relay.engine.overview().wall_ahead_ms, HOUR_MS);
    relay.sets_clock(0);
    assert_eq!(relay.posts_until(Handling::default()), Ok(START));
}

/// It was set an hour ahead by mistake, and then right.
#[test]
fn a_clock_that_was_ahead_ends_no_deadline_too_early_once_it_is_right() {
    let mut relay = Relay::told();
    relay.sets_clock(HOUR_MS);
    assert_eq!(
        relay.posts_until(until(60_000)),
        Err(mail::Refusal::DeadlineOver {
            deadline: START.plus_millis(60_000),
            now: START.plus_millis(HOUR_MS),
        }
        .into())
    );
    relay.posts_until(until(HOUR_MS + 60_000)).expect("it is to come");
    let due = |at| Some((START.plus_millis(at), Reason::DeadlinePasses));
    assert_eq!(relay.engine.poll_timeout(), due(60_000));
    relay.sets_clock(0);
    assert_eq!(relay.engine.poll_timeout(), due(HOUR_MS + 60_000));
    assert_eq!(relay.timeout_at(60_000), NONE);
    relay.posts_until(until(120_000)).expect("it is to come");
    assert_eq!(relay.pending(), [0, 2, 0]);
    relay.timeout_at(120_000);
    assert_eq!(relay.pending(), [0, 1, 0]);
    // By the clock that people read, it is past the other one too.
    relay.sets_clock(HOUR_MS);
    assert_eq!(relay.pending(), [0, 0, 0]);
}

/// What a session is answered.
#[track_caller]
fn answered(relay: &mut Relay, session: SessionId, command: Command) -> Reply {
    let effects = relay.call(session, 9_000, command);
    let answers = effects.into_iter().filter_map(|effect| {
        let Effect::Reply { result, .. } = effect else {
            return None;
        };
        Some(result.expect("it is done"))
    });
    answers.last().expect("an answer")
}

#[test]
fn all_that_says_when_something_was_says_so_by_the_clock_that_people_read() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.open_for_person(PERSON);
    relay.sets_clock(HOUR_MS);
    let then = START.plus_millis(HOUR_MS);
    relay.post(A, 1, &nth(1));
    let of_message = traced(&mut relay, 1).expect("it is known");
    assert!(!of_message.moments.is_empty());
    assert!(
        of_message.moments.iter().all(|moment| moment.at == then) && of_message.accepted_at == then,
        "{of_message:?}"
    );
    let Reply::Agents(agents::Reply::Listed { agents, .. }) = answered(&mut relay, A, list(None, false))
    else {
        panic!("a list");
    };
    let pm = agents.iter().find(|agent| agent.name == name("pm"));
    assert_eq!(pm.and_then(|pm| pm.last_contact), Some(then));
    let join = channels::Command::Get {
        name: "build".to_owned(),
    };
    relay.call(A, 2, post(Some("pm"), "#build", "x"));
    let Reply::Channels(channels::Reply::Seen { channel }) = answered(&mut relay, A, join.into()) else {
        panic!("a channel");
    };
    assert_eq!(
        (channel.created_at, &channel.members[..]),
        (then, &[(name("pm"), then)][..])
    );
    relay.create("fleet", None);
    relay.connect(NODE, None);
    let nodes = nodes::Command::List {
        project: DEFAULT_PROJECT.to_owned(),
    };
    let Reply::Nodes(listed) = answered(&mut relay, PERSON, nodes.into()) else {
        panic!("nodes");
    };
    let nodes::Reply::Listed(nodes) = *listed else {
        panic!("a list");
    };
    assert_eq!((nodes[0].created_at, nodes[0].last_contact), (then, Some(then)));
    relay.has_worker(3, FIRST, "tester");
    let Reply::Workers(Workers::Listed(workers)) = answered(&mut relay, PERSON, OfWorkers::List.into())
    else {
        panic!("workers");
    };
    assert_eq!(workers[0].spawned_at, then);
    relay.events();
    relay.happens(FIRST, exited(3, ""));
    let (told, _) = relay.went_out().expect("its parent is told");
    assert_eq!(told.ts, then);
    for session in [A, B, C] {
        relay.close(session, Ending::Broken);
    }
    relay.now = START.plus_millis(relay::engine::limits::ACTIVE_MS);
    let Reply::Mail(mail::Reply::Posted { absence, .. }) =
        answered(&mut relay, PERSON, post(None, "pm", "x"))
    else {
        panic!("it is posted");
    };
    let Some(Absence::Gone { last_contact, .. }) = absence.as_deref() else {
        panic!("{absence:?}");
    };
    assert_eq!(*last_contact, then);
}
