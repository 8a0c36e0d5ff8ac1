//! What arguments are checked for.

use super::*;
use crate::engine::handling::Mode;
use crate::engine::{Command, mail};
use crate::tools::{ReplyBytes, Texts, Toolsets, Waits};

fn all() -> Toolsets {
    "all".parse().expect("toolsets")
}

/// The arguments of a call in which everything has a value that is accepted, or nothing that may be left out has.
fn good(tool: &Tool, all: bool) -> Arguments<'static> {
    let mut arguments = Arguments::default();
    for argument in tool.arguments {
        let given = match argument.accepts {
            Accepts::Role | Accepts::Address | Accepts::Text => Given::Text("pm".into()),
            Accepts::Word(words) => Given::Text(words[0].into()),
            Accepts::Wait | Accepts::Integer { .. } => Given::Number(1.into()),
            Accepts::Boolean(_) => Given::Other(json!(true)),
            Accepts::Object => Given::Other(json!({})),
        };
        if all || argument.needed == Needed::Always {
            assert!(arguments.add(argument.name.into(), given));
        }
    }
    arguments
}

/// Panics if a tool takes what its list does not have, or as something else, or leaves something.
#[test]
fn every_tool_takes_what_its_list_has() {
    for tool in all().tools() {
        for all in [false, true] {
            tool.command(good(tool, all), ReplyBytes::UNBOUNDED)
                .expect("a good call");
        }
    }
}

#[test]
fn an_argument_of_another_type_is_refused_by_every_tool() {
    for tool in all().tools() {
        for argument in tool.arguments {
            let accepted = argument.accepts.words();
            let mut arguments = good(tool, true);
            arguments.0.retain(|(name, _)| name != argument.name);
            arguments.add(argument.name.into(), json!([]).into());
            let error = tool
                .command(arguments, ReplyBytes::UNBOUNDED)
                .expect_err("an array");
            let name = argument.name;
            assert_eq!(
                error.to_string(),
                format!("{name:?} is an array; accepted: {accepted}")
            );
        }
    }
}

#[test]
fn of_many_errors_the_first_of_the_list_is_told_then_the_unknown_name_then_the_unknown_word() {
    fn taken(given: &mut Values<'_>) -> Command {
        let agent = given.text("a");
        Command::Mail(mail::Command::Peek { agent, limit: None })
    }
    let argument = |name, accepts, needed| Argument {
        name,
        accepts,
        needed,
        description: "",
    };
    let list = [
        argument("a", Accepts::Text, Needed::Always),
        argument("b", Accepts::Word(&["x", "y"]), Needed::Never),
        argument("c", Accepts::Wait, Needed::Never),
    ];
    let tool = Tool {
        name: "t",
        description: "",
        arguments: Vec::from(list).leak(),
        to_command: taken,
        to_texts: |_, _: &mut Texts<'_>| (),
        refused: |_| String::new(),
        waits: Waits::Never,
        takes: false,
    };
    let told = |value: Value| {
        let Value::Object(map) = value else {
            panic!("an object")
        };
        tool.command(map.into(), ReplyBytes::UNBOUNDED)
            .expect_err("a bad call")
            .to_string()
    };
    let (no_word, no_wait) = (json!("z"), json!(281));
    assert_eq!(
        told(json!({"b": no_word, "c": no_wait, "z": 1})),
        "missing argument \"a\"; t takes a, b, c"
    );
    assert_eq!(
        told(json!({"a": "", "b": no_word, "c": no_wait, "z": 1})),
        "\"c\" is 281; accepted: 0 to 280"
    );
    assert_eq!(
        told(json!({"a": "", "b": no_word, "z": null, "y": 1})),
        "unknown argument \"y\"; t takes a, b, c"
    );
    assert_eq!(
        told(json!({"a": "", "b": no_word})),
        "unknown b \"z\"; known bs: x, y"
    );
}

#[test]
fn a_message_has_the_mode_that_its_sender_gives_by_every_tool_that_takes_one() {
    let mut count = 0;
    for tool in all().tools() {
        if !tool.arguments.iter().any(|argument| argument.name == "mode") {
            continue;
        }
        let mut arguments = good(tool, true);
        arguments.0.retain(|(name, _)| name != "mode");
        arguments.add("mode".into(), Given::Text("on-idle".into()));
        let command = tool.command(arguments, ReplyBytes::UNBOUNDED);
        let Ok(Command::Mail(mail::Command::Post { options, .. })) = command else {
            panic!("{}: {command:?}", tool.name);
        };
        let mode = options.expect("it has some").handling.mode;
        assert_eq!(mode, Some(Mode::OnIdle), "{}", tool.name);
        count += 1;
    }
    assert_eq!(count, 4);
}

/// As models write them: a number and a truth as a text, a word in another case.
#[test]
fn a_text_is_taken_by_every_tool_for_the_one_thing_that_it_can_mean() {
    let mut understood = std::collections::BTreeSet::new();
    for tool in all().tools() {
        let expected = tool
            .command(good(tool, true), ReplyBytes::LEAST_KNOWN)
            .expect("a good call");
        for argument in tool.arguments {
            let (kind, texts): (_, Vec<String>) = match argument.accepts {
                Accepts::Wait => ("wait", vec!["1".into(), " 1.0".into()]),
                Accepts::Integer { .. } => ("integer", vec!["1".into(), "1.0 ".into()]),
                Accepts::Boolean(_) => ("boolean", vec!["true".into(), "True".into(), " TRUE".into()]),
                Accepts::Word(words) => ("word", vec![words[0].to_uppercase(), format!(" {}\n", words[0])]),
                Accepts::Role | Accepts::Address | Accepts::Text | Accepts::Object => continue,
            };
            for text in texts {
                let mut arguments = good(tool, true);
                arguments.0.retain(|(name, _)| name != argument.name);
                arguments.add(argument.name.into(), Given::Text(text.clone().into()));
                let command = tool
                    .command(arguments, ReplyBytes::LEAST_KNOWN)
                    .expect("it is understood");
                assert_eq!(
                    command, expected,
                    "{}: {:?} is {text:?}",
                    tool.name, argument.name
                );
            }
            understood.insert(kind);
        }
    }
    assert_eq!(understood.len(), 4, "{understood:?}");
}

#[test]
fn several_recipients_may_be_given_as_an_array() {
    let post = |to: Value| {
        let call = json!({"from": "pm", "to": to, "kind": "free", "body": "b"});
        let arguments: serde_json::Map<String, Value> = serde_json::from_value(call).expect("an object");
        let mut tools = all().tools();
        let tool = tools.find(|tool| tool.name == "post_message").expect("a tool");
        tool.command(arguments.into(), ReplyBytes::LEAST_KNOWN)
    };
    assert_eq!(post(json!(["dev-a", "@crew"])), post(json!("dev-a, @crew")));
    for wrong in [json!([]), json!(["dev-a", 5]), json!({"dev-a": true})] {
        let said = post(wrong).expect_err("no address").to_string();
        assert!(said.contains("accepted: a string"), "{said}");
    }
}

#[test]
fn a_name_is_given_once() {
    let mut arguments = Arguments::default();
    assert!(arguments.add("a".into(), Given::Null));
    assert!(!arguments.add("a".to_owned().into(), Given::Null));
    assert_eq!(arguments.count(), 1);
}
