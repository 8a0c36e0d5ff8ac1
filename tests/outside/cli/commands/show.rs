//! `relay show` and `relay reply`, and what else takes the digits by which messages are shown.

use super::hold::sent;
use super::*;

/// What a relay has of a message in an inbox.
fn last_in(relay: &Relay, role: &str) -> Value {
    let peeked = ask(relay.port, &["peek", role, "--json"]).assert().code(0);
    let messages: Value = serde_json::from_str(&stdout_of(&peeked)).expect("JSON");
    let messages = messages.as_array().expect("messages");
    messages.last().expect("there is one").clone()
}

#[test]
fn a_message_is_shown_whole_by_its_digits_whoever_got_it() {
    let relay = told();
    let body = format!("one\n{}\nlast", "x".repeat(10_000));
    let id = sent(&relay, "dev-a", "dev-b", &body);
    for given in [&id[..8], &id[..13], &id] {
        let shown = ask(relay.port, &["show", given]).assert().code(0).stderr("");
        let shown = stdout_of(&shown);
        assert!(
            shown.contains(&format!("] dev-a → dev-b [free] {}\n  one\n", &id[..8])),
            "{shown}"
        );
        assert!(shown.ends_with(&format!("  {}\n  last\n", "x".repeat(10_000))));
    }
    let json = ask(relay.port, &["show", &id, "--json"]).assert().code(0);
    let json: Value = serde_json::from_str(&stdout_of(&json)).expect("JSON");
    assert_eq!(json["message"], last_in(&relay, "dev-b"));
    // Also once it was read, and nothing is taken.
    assert_eq!(relay.bodies("dev-b"), [body]);
    ask(relay.port, &["show", &id[..8]]).assert().code(0);
    let unknown = ask(relay.port, &["show", "11111111"]).assert().code(1).stdout("");
    unknown.stderr(starts_with("relay show: ").and(contains("11111111")));
    ask(relay.port, &["show", "1111"]).assert().code(1);
}

#[test]
fn an_agents_own_shell_is_shown_no_message_of_others() {
    let relay = told();
    let id = sent(&relay, "dev-a", "dev-b", "one");
    let refused = ask(relay.port, &["show", &id]).env("CLAUDECODE", "1").assert();
    refused.code(2).stdout("").stderr(contains("CLAUDECODE is set"));
}

#[test]
fn an_answer_goes_to_who_has_sent_the_message_in_its_thread() {
    let relay = told();
    let asked = sent(&relay, "dev-b", "user", "Which port?");
    let replied = ask(relay.port, &["reply", &asked[..8], "7331,", "as", "ever"]).assert();
    replied
        .code(0)
        .stdout("sent to dev-b\n")
        .stderr(starts_with("note: "));
    let answer = last_in(&relay, "dev-b");
    let fields = ["from", "body", "kind", "reply_to", "thread"].map(|field| answer[field].clone());
    assert_eq!(fields, ["user", "7331, as ever", "free", &asked, &asked]);
    // What one has sent oneself is gone on with, for the same ones.
    let own = answer["id"].as_str().expect("an id");
    ask(relay.port, &["reply", &own[..8], "or", "7332"])
        .assert()
        .code(0)
        .stdout("sent to dev-b\n");
    let more = last_in(&relay, "dev-b");
    assert_eq!([&more["body"], &more["reply_to"]], ["or 7332", own]);
    // And to what one agent has sent another.
    let between = sent(&relay, "dev-a", "pm", "May I?");
    let json = ask(relay.port, &["reply", &between[..8], "--json"])
        .write_stdin("Yes\n")
        .assert()
        .code(0)
        .stderr("");
    let json: Value = serde_json::from_str(&stdout_of(&json)).expect("JSON");
    let answer = last_in(&relay, "dev-a");
    assert_eq!(
        [&answer["body"], &answer["reply_to"], &answer["id"]],
        ["Yes", &between, json["id"].as_str().expect("an id")]
    );
    let unknown = ask(relay.port, &["reply", "11111111", "x"])
        .assert()
        .code(1)
        .stdout("");
    unknown.stderr(starts_with("relay reply: ").and(contains("11111111")));
    let nothing = ask(relay.port, &["reply", &between])
        .write_stdin("")
        .assert()
        .code(2);
    nothing.stderr(contains("the message is missing"));
}

#[test]
fn what_is_answered_is_named_by_the_digits_that_are_shown_of_it() {
    let relay = told();
    let asked = sent(&relay, "dev-b", "user", "Which port?");
    for given in [&asked[..8], &asked.to_uppercase()[..13], &asked.replace('-', "")] {
        ask(relay.port, &["send", "dev-b", "7331", "--reply-to", given])
            .assert()
            .code(0);
        assert_eq!(last_in(&relay, "dev-b")["reply_to"], asked, "{given}");
    }
    for given in [&asked[..7], "11111111", "no id"] {
        ask(relay.port, &["send", "dev-b", "7331", "--reply-to", given])
            .assert()
            .code(1)
            .stderr(contains("unknown message"));
    }
    // An agent answers so what it got.
    let to_agent = sent(&relay, "pm", "dev-a", "Are you there?");
    let digits = &to_agent[..8];
    ask(
        relay.port,
        &["send", "pm", "Yes", "--from", "dev-a", "--reply-to", digits],
    )
    .assert()
    .code(0);
    assert_eq!(last_in(&relay, "pm")["reply_to"], to_agent);
}

#[test]
fn a_message_of_several_words_needs_no_quotes() {
    let relay = told();
    let words = [
        "send", "pm", "hello", "world", "--kind", "status", "and", "-", "more",
    ];
    ask(relay.port, &words).assert().code(0).stdout("sent to pm\n");
    let port = relay.port.to_string();
    crate::cli::relay(&["send", "pm", "--port", &port, "--", "-x", "y"])
        .assert()
        .code(0);
    ask(relay.port, &["send", "pm", "-"])
        .write_stdin("piped")
        .assert()
        .code(0);
    assert_eq!(relay.bodies("pm"), ["hello world and - more", "-x y", "piped"]);
}

#[test]
fn what_is_sent_is_sent_though_stdout_does_not_take_that() {
    let relay = told();
    let asked = sent(&relay, "dev-b", "user", "Which port?");
    for arguments in [&["send", "dev-b", "one"][..], &["reply", &asked, "two"]] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let full = Stdio::from(full.expect("Linux has it"));
        let output = begin(relay.port, arguments, full).wait_with_output();
        assert_eq!(output.expect("it ends").status.code(), Some(0), "{arguments:?}");
    }
    assert_eq!(relay.bodies("dev-b"), ["one", "two"]);
}
