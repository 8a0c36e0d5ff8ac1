//! Of many agents, those are named whose names are the nearest to the one that nobody has.

use relay::engine::limits::{KNOWN_NEAREST, KNOWN_SHOWN_MAX};

use super::*;

/// A relay with room for many agents, and these beside the roster's.
fn with(agents: impl IntoIterator<Item = String>) -> Relay {
    let mut relay = Relay::told_within(Bounds {
        agents_max: 100,
        ..ROOMY
    });
    for (session, agent) in (100..).map(SessionId).zip(agents) {
        relay.register(session, registration(&agent, None));
        relay.close(session, Ending::Orderly);
    }
    relay
}

/// Whom pm is told of when it writes to one that is not there.
#[track_caller]
fn known(relay: &mut Relay, asked: &str) -> Known {
    let effects = relay.call(A, 2_000, post(Some("pm"), asked, ""));
    let [
        Effect::Reply {
            result: Err(Refusal::Agents(agents::Refusal::UnknownAddress { known, .. })),
            ..
        },
    ] = &effects[..]
    else {
        panic!("nobody has that name: {effects:?}");
    };
    known.clone()
}

fn names(agents: &[&str]) -> Vec<AgentName> {
    agents.iter().map(|agent| name(agent)).collect()
}

#[test]
fn of_many_the_nearest_are_named() {
    let mut relay = with((10..50).map(|number| format!("worker-{number}")));
    let nearest = ["14", "24", "34", "40", "41", "42", "43", "44"].map(|n| name(&format!("worker-{n}")));
    let names = nearest.to_vec();
    assert_eq!(known(&mut relay, "Worker-4"), Known { names, count: 43 });
}

#[test]
fn as_many_as_a_roster_may_have_are_all_named_and_of_one_more_the_nearest() {
    let others = KNOWN_SHOWN_MAX - 3;
    let mut relay = with((10..).take(others).map(|number| format!("worker-{number}")));
    let all = known(&mut relay, "nobody");
    assert_eq!((all.names.len(), all.count), (KNOWN_SHOWN_MAX, KNOWN_SHOWN_MAX));
    relay.register(SessionId(99), registration("one-more", None));
    let nearest = known(&mut relay, "nobody");
    assert_eq!(
        (nearest.names.len(), nearest.count),
        (KNOWN_NEAREST, KNOWN_SHOWN_MAX + 1)
    );
}

#[test]
fn the_nearest_is_followed_by_others_though_they_are_far() {
    let mut relay = with((10..50).map(|number| format!("worker-{number}")));
    let known = known(&mut relay, "pn");
    let far = ["pm", "dev-a", "dev-b"];
    assert_eq!(known.names[..3], names(&far), "the first of all is the nearest");
    assert_eq!(known.names.len(), KNOWN_NEAREST);
}

/// How many letters make two names differ, by the definition.
fn difference(one: &[u8], other: &[u8]) -> usize {
    match (one, other) {
        ([], rest) | (rest, []) => rest.len(),
        ([first, one_rest @ ..], [second, other_rest @ ..]) if first == second => {
            difference(one_rest, other_rest)
        }
        ([_, one_rest @ ..], [_, other_rest @ ..]) => {
            let changed = difference(one_rest, other_rest);
            let left_out = difference(one_rest, other).min(difference(one, other_rest));
            1 + changed.min(left_out)
        }
    }
}

#[test]
fn the_nearest_are_those_that_differ_the_least() {
    let mut random = fastrand::Rng::with_seed(0);
    let mut text = || -> String {
        let letters = random.usize(2..=6);
        (0..letters)
            .map(|_| random.choice(*b"abcd").expect("there are some") as char)
            .collect()
    };
    let texts: Vec<String> = (0..90).map(|_| text()).collect();
    let mut relay = with(texts);
    for _ in 0..50 {
        let asked = format!("x{}", text());
        let known = known(&mut relay, &asked);
        let mut all = names(&["pm", "dev-a", "dev-b"]);
        let others = relay.engine.status().pending.into_iter().map(|(agent, _)| agent);
        all.extend(others.filter(|agent| !["pm", "dev-a", "dev-b", "user"].contains(&agent.as_str())));
        all.sort_by_key(|agent| difference(agent.as_str().as_bytes(), asked.as_bytes()));
        all.truncate(KNOWN_NEAREST);
        assert_eq!(known.names, all, "{asked}");
    }
}

#[test]
fn where_not_all_are_listed_it_is_said_of_how_many_they_are_the_nearest() {
    let known = |count| {
        let names = names(&["pm", "dev-a"]);
        Known { names, count }.to_string()
    };
    assert_eq!(known(2), "pm, dev-a");
    assert_eq!(known(9), "pm, dev-a (the nearest of 9)");
}
