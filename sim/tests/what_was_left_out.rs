//! The last tests of the workspace: they say at the end what the tests before them have left out, and how to get it.

#[path = "../../tests/support/needs.rs"]
#[expect(dead_code, reason = "the tests that need a program ask for more")]
mod needs;

use needs::{Need, TERMINAL, TMUX};

fn say_unless_met(need: &Need) {
    if !need.is_met() {
        need.say("tests of this run");
    }
}

#[test]
fn whether_tmux_is_there() {
    say_unless_met(&TMUX);
}

#[test]
fn whether_a_terminal_can_be_had() {
    say_unless_met(&TERMINAL);
}
