//! The state is plain data: the same inputs make the same state, and a copy of it goes on like the original.

use super::*;

#[test]
fn equal_inputs_make_equal_states_and_others_do_not() {
    let relay = handed_to(A);
    assert!(relay.engine == handed_to(A).engine);
    assert!(relay.engine != handed_to(B).engine);
    let mut passed = handed_to(A);
    passed.passed(10);
    assert!(relay.engine != passed.engine, "how far a reply has come is state");
}

#[test]
fn a_copy_goes_on_like_the_original_and_leaves_it_alone() {
    let mut original = handed_to(A);
    original.passed(10);
    original.call(B, 11, wait("pm", WAIT_MS));
    let before = original.engine.clone();
    let mut copy = original.engine.clone();
    let mut effects = Vec::new();
    copy.handle_timeout(START.plus_millis(DOUBT_MS), &mut effects);
    assert!(copy != before);
    assert!(original.engine == before);
    let mut same = Vec::new();
    original
        .engine
        .handle_timeout(START.plus_millis(DOUBT_MS), &mut same);
    assert_eq!(effects, same);
    assert!(copy == original.engine);
}
