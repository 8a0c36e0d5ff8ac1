use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;
use crate::engine::agents::Registration;
use crate::engine::{Carrier, Ending, Input, Who};
use crate::server::owner::Owner;
use crate::server::recorder::{NOW, engine, random, recorded};

fn api() -> Arc<Api> {
    let mut next = 0_u128;
    Arc::new(Api::new(Box::new(move || {
        next += 1;
        next.to_be_bytes()
    })))
}

fn agent() -> AgentName {
    AgentName::new("a").expect("a good name")
}

/// An owner that has what goes be forgotten, with what it takes for the time since the start, in milliseconds.
fn owner(api: &Arc<Api>) -> (Arc<Owner>, Arc<AtomicI64>) {
    let passed = Arc::new(AtomicI64::new(0));
    let of_clock = Arc::clone(&passed);
    let clock = move || NOW.plus_millis(of_clock.load(Ordering::Relaxed));
    let owner = Owner::new(
        Box::new(engine(NOW)),
        clock.into(),
        random(),
        Box::new(crate::server::NoLog),
    );
    (Arc::new(owner.telling_who_goes(api.forgetting())), passed)
}

/// Registers the agent, in a session that ends at once.
fn register(owner: &Owner, transient: bool) {
    let registration = Registration {
        name: "a".to_owned(),
        transient,
        ..Registration::default()
    };
    let who = Who::Registered(Box::new(registration));
    let (session, _) = owner.open(Carrier::Exchange, who).expect("there is room");
    owner.close(session, Ending::Orderly);
}

#[test]
fn nobody_retires_an_agent_between_its_registration_and_its_token() {
    let api = api();
    let token = std::thread::scope(|threads| {
        let register = || {
            let (tell, told) = channel();
            let api = Arc::clone(&api);
            threads.spawn(move || {
                api.retire(|| api.forgetting()(&agent()));
                // Nobody waits for it any more, if all is well.
                let _late = tell.send(());
            });
            // It is registered, and has no token yet.
            let _in_time = told.recv_timeout(Duration::from_millis(200));
            Ok::<_, ()>((agent(), ()))
        };
        api.with_token(register).expect("it is one").1
    });
    assert_eq!(api.tokens.holder(token.as_bytes()), None);
}

#[test]
fn nothing_is_kept_of_an_agent_that_goes_by_itself() {
    let api = api();
    let (owner, passed) = owner(&api);
    register(&owner, true);
    let token = agents::rotated(&api, &owner, &agent())
        .expect("relay is up")
        .expect("it is there");
    let holder = || api.tokens.holder(token.as_bytes());
    assert_eq!(holder(), Some(Holder::Agent(agent())));
    let card = agents::Card {
        kind: "agent".to_owned(),
        persona: None,
        metadata: serde_json::Map::new(),
        created_at: NOW,
    };
    api.cards.keep(&agent(), card);
    for number in [1, 2] {
        assert_eq!(api.sessions.said().number(&agent()), number);
    }
    // It goes as time passes, and the next of its name comes in the same step.
    passed.store(60_000, Ordering::Relaxed);
    register(&owner, false);
    assert_eq!(holder(), None);
    assert!(api.cards.of(&agent()).is_none());
    assert_eq!(api.sessions.said().number(&agent()), 1);
}

#[test]
fn who_makes_a_new_token_of_an_agent_is_not_taken_for_the_agent() {
    let api = api();
    let (owner, told) = recorded();
    register(&owner, false);
    told.take();
    let token = agents::rotated(&api, &owner, &agent()).expect("relay is up");
    assert!(token.is_some());
    let told = told.take();
    let of_agent = |input: &&Input| matches!(input, Input::Opened { who, .. } if *who != Who::Agent(None));
    assert_eq!(told.iter().find(of_agent), None);
}

#[test]
fn an_agent_that_has_gone_gets_no_new_token() {
    let api = api();
    let (owner, _) = owner(&api);
    let rotated = agents::rotated(&api, &owner, &agent()).expect("relay is up");
    assert_eq!(rotated, None);
    // Nor does one that goes while its token is made, or of which nobody can tell.
    for looked in [Ok(false), Err(())] {
        assert_eq!(api.rotate(&agent(), || looked), looked.map(|_| None));
    }
    for drawn in [1_u128, 3, 5] {
        let token = format!("at_live_{drawn:032x}{:032x}", drawn + 1);
        assert_eq!(api.tokens.holder(token.as_bytes()), None, "{drawn}");
    }
}

#[test]
fn a_token_that_is_made_as_its_agent_goes_is_not_the_next_ones_of_its_name() {
    let api = api();
    let gone_and_there_again = || {
        api.forgetting()(&agent());
        Ok::<_, ()>(true)
    };
    let token = api
        .rotate(&agent(), gone_and_there_again)
        .expect("it is looked for");
    let token = token.expect("one of its name is there");
    assert_eq!(api.tokens.holder(token.as_bytes()), None);
}
