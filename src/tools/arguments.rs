//! The arguments of tools: what there is, what of it is accepted, and the words for what is not.
//!
//! The schema that a client reads, the check of what it gives and the texts of errors are made from one list,
//! [`Tool::arguments`]. Knows nothing of how a call was written: whoever read it hands in [`Arguments`].

use std::borrow::Cow;

use serde_json::{Map, Number, Value, json};

use super::Tool;
use crate::engine::limits::WAIT_SECONDS_MAX;
use crate::engine::{AgentName, Roster, shown};

/// An argument of a tool.
#[derive(Debug)]
pub struct Argument {
    /// What it is called.
    pub name: &'static str,
    /// What it may be.
    pub accepts: Accepts,
    /// Whether it may be left out.
    pub needed: Needed,
    /// What a client reads about it.
    pub description: &'static str,
}

/// What an argument may be.
#[derive(Debug)]
pub enum Accepts {
    /// A text that names an agent. Whether there is such an agent is for the engine to say.
    Role,
    /// One of these texts.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// A number of seconds, from 0 to [`WAIT_SECONDS_MAX`], for which the call may wait for its answer.
    Wait,
}

/// Whether an argument may be left out. One that is null is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// It may not.
    Always,
    /// It is the caller's own role, which only a bound session may leave out. The engine refuses the others.
    UnlessBound,
    /// It may.
    Never,
}

/// Why the arguments of a call make no command. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCall {
    /// There is no such tool.
    #[error("unknown tool {name:?}; known tools: {known}")]
    UnknownTool {
        /// As given, cut if it is long.
        name: String,
        /// Which tools there are.
        known: String,
    },
    /// A tool was called without something that it needs.
    #[error("missing argument {argument:?}; {tool} takes {accepted}")]
    Missing {
        /// What is missing.
        argument: &'static str,
        /// The tool.
        tool: &'static str,
        /// All that it takes.
        accepted: String,
    },
    /// A tool was called with something that it does not know.
    #[error("unknown argument {argument:?}; {tool} takes {accepted}")]
    Unexpected {
        /// As given, cut if it is long.
        argument: String,
        /// The tool.
        tool: &'static str,
        /// All that it takes.
        accepted: String,
    },
    /// An argument has another type than it should.
    #[error("{argument:?} is {given}; accepted: {accepted}")]
    WrongType {
        /// Which one.
        argument: &'static str,
        /// What it is.
        given: String,
        /// What it should be.
        accepted: String,
    },
    /// An argument that is one of a few words is another one.
    #[error("unknown {argument} {given:?}; known {argument}s: {known}")]
    UnknownWord {
        /// Which one.
        argument: &'static str,
        /// As given, cut if it is long.
        given: String,
        /// Which words there are.
        known: String,
    },
    /// A wait is negative or longer than a client bears.
    #[error("{argument:?} is {given}; accepted: 0 to {WAIT_SECONDS_MAX}")]
    WaitOutOfRange {
        /// Which one.
        argument: &'static str,
        /// As given.
        given: String,
    },
}

impl Argument {
    /// Describes it as JSON schema does, to a session that is bound to `bound`, or to none.
    pub(super) fn schema(&self, roster: &Roster, bound: Option<&AgentName>) -> Value {
        let mut schema = match self.accepts {
            Accepts::Role => {
                let roles: Vec<&str> = roster.names().iter().map(AgentName::as_str).collect();
                json!({"type": "string", "enum": roles})
            }
            Accepts::Word(words) => json!({"type": "string", "enum": words}),
            Accepts::Text => json!({"type": "string"}),
            Accepts::Wait => json!({"type": "number", "minimum": 0, "maximum": WAIT_SECONDS_MAX}),
        };
        let description = match (self.needed, bound) {
            (Needed::UnlessBound, Some(agent)) => format!("{}; you are {agent}", self.description),
            (Needed::UnlessBound, None) | (Needed::Always | Needed::Never, _) => self.description.to_owned(),
        };
        schema["description"] = description.into();
        schema
    }

    /// Tells whether a session may not leave it out that is bound, or is not.
    pub(super) fn is_required(&self, is_bound: bool) -> bool {
        match self.needed {
            Needed::Always => true,
            Needed::UnlessBound => !is_bound,
            Needed::Never => false,
        }
    }

    /// Checks its type, and its range if it has one.
    fn check(&self, given: &Given<'_>) -> Result<(), InvalidCall> {
        match (&self.accepts, given) {
            (_, Given::Null) => Ok(()),
            (Accepts::Role | Accepts::Word(_) | Accepts::Text, Given::Text(_)) => Ok(()),
            (Accepts::Wait, Given::Number(seconds)) if wait_ms(seconds).is_some() => Ok(()),
            (Accepts::Wait, Given::Number(seconds)) => Err(InvalidCall::WaitOutOfRange {
                argument: self.name,
                given: seconds.to_string(),
            }),
            (Accepts::Role | Accepts::Word(_) | Accepts::Text, other) => {
                Err(self.wrong_type(other, "a string".to_owned()))
            }
            (Accepts::Wait, other) => {
                Err(self.wrong_type(other, format!("a number, 0 to {WAIT_SECONDS_MAX}")))
            }
        }
    }

    fn wrong_type(&self, given: &Given<'_>, accepted: String) -> InvalidCall {
        InvalidCall::WrongType {
            argument: self.name,
            given: described(&given.to_value()),
            accepted,
        }
    }

    /// Checks that it is one of its words, if it has any.
    fn check_word(&self, given: &Given<'_>) -> Result<(), InvalidCall> {
        match (&self.accepts, given) {
            (Accepts::Word(words), Given::Text(given)) if !words.contains(&&**given) => {
                Err(InvalidCall::UnknownWord {
                    argument: self.name,
                    given: shown(given),
                    known: words.join(", "),
                })
            }
            (Accepts::Role | Accepts::Word(_) | Accepts::Text | Accepts::Wait, _) => Ok(()),
        }
    }
}

/// The value of an argument as it was given.
#[derive(Debug, Clone, PartialEq)]
pub enum Given<'a> {
    /// Counts as left out.
    Null,
    /// A text.
    Text(Cow<'a, str>),
    /// A number.
    Number(Number),
    /// Anything else.
    Other(Value),
}

impl Given<'_> {
    fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Text(text) => Value::from(&**text),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Other(value) => value.clone(),
        }
    }
}

impl From<Value> for Given<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::String(text) => Self::Text(text.into()),
            Value::Number(number) => Self::Number(number),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => Self::Other(value),
        }
    }
}

/// The arguments of one call as they were given, each name once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments<'a>(Vec<(Cow<'a, str>, Given<'a>)>);

impl<'a> Arguments<'a> {
    /// Adds an argument; returns whether its name was new.
    pub fn add(&mut self, name: Cow<'a, str>, given: Given<'a>) -> bool {
        let is_new = !self.has(&name);
        if is_new {
            self.0.push((name, given));
        }
        is_new
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Tells whether there is one of that name, be it null.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| given == name)
    }

    /// Tells whether all names and texts are parts of what was read, not copies.
    #[cfg(all(test, feature = "server"))]
    pub fn are_borrowed(&self) -> bool {
        self.0.iter().all(|(name, given)| {
            let is_copy = matches!(given, Given::Text(Cow::Owned(_)));
            matches!(name, Cow::Borrowed(_)) && !is_copy
        })
    }

    /// Checks that these are the arguments which a tool takes.
    ///
    /// # Errors
    ///
    /// [`InvalidCall`], which names the first that is not: in the order of the tool's list one that is missing, or has
    /// another type or range; then one that the tool does not know; then one that is none of its words.
    pub(super) fn checked(self, tool: &Tool) -> Result<Values<'a>, InvalidCall> {
        let mut known = 0;
        let mut bad_word = None;
        for argument in tool.arguments {
            match self.get(argument.name) {
                None | Some(Given::Null) if argument.needed == Needed::Always => {
                    return Err(InvalidCall::Missing {
                        argument: argument.name,
                        tool: tool.name,
                        accepted: tool.argument_names(),
                    });
                }
                None => {}
                Some(given) => {
                    known += 1;
                    argument.check(given)?;
                    bad_word = bad_word.or_else(|| argument.check_word(given).err());
                }
            }
        }
        if known < self.count() {
            let is_known = |name: &str| tool.arguments.iter().any(|argument| argument.name == name);
            let unknown = self.0.iter().map(|(name, _)| &**name);
            let unknown = unknown.filter(|name| !is_known(name)).min();
            return Err(InvalidCall::Unexpected {
                argument: shown(unknown.expect("more were given than are known")),
                tool: tool.name,
                accepted: tool.argument_names(),
            });
        }
        if let Some(bad_word) = bad_word {
            return Err(bad_word);
        }
        Ok(Values {
            list: tool.arguments,
            given: self.0,
        })
    }

    fn get(&self, name: &str) -> Option<&Given<'a>> {
        self.0
            .iter()
            .find(|(given, _)| given == name)
            .map(|(_, given)| given)
    }
}

impl From<Map<String, Value>> for Arguments<'_> {
    fn from(map: Map<String, Value>) -> Self {
        Self(
            map.into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

/// The arguments of one call, checked to be those that its tool takes.
///
/// All that is taken out of it was asked for in the tool's list; a tool that takes anything else has a bug.
#[derive(Debug)]
pub struct Values<'a> {
    list: &'static [Argument],
    given: Vec<(Cow<'a, str>, Given<'a>)>,
}

impl Values<'_> {
    /// Takes a text that may be left out.
    ///
    /// # Panics
    ///
    /// When the tool's list does not have it as a text.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        match self.take(name) {
            None | Some(Given::Null) => None,
            Some(Given::Text(text)) => Some(text.into_owned()),
            Some(other) => unreachable!("{name:?} was checked to be a text, and is {other:?}"),
        }
    }

    /// Takes a text that may not be left out.
    ///
    /// # Panics
    ///
    /// When the tool's list does not have it as a text that is always needed.
    pub fn needed_text(&mut self, name: &'static str) -> String {
        let text = self.text(name);
        text.unwrap_or_else(|| unreachable!("{name:?} was checked to be there"))
    }

    /// Takes a text that may not be left out and is one of the words of the tool's list, all of which `read` knows.
    ///
    /// # Panics
    ///
    /// As [`Self::needed_text`], and when `read` does not know the word.
    pub fn needed_word<T>(&mut self, name: &'static str, read: impl FnOnce(&str) -> Option<T>) -> T {
        let read = match self.take(name) {
            Some(Given::Text(word)) => read(&word),
            other => unreachable!("{name:?} was checked to be a word, and is {other:?}"),
        };
        read.unwrap_or_else(|| unreachable!("{name:?} was checked to be one of its words"))
    }

    /// Takes a wait in milliseconds; 0 if it is left out.
    ///
    /// # Panics
    ///
    /// When the tool's list does not have it as a wait.
    pub fn wait_ms(&mut self, name: &'static str) -> u32 {
        match self.take(name) {
            None | Some(Given::Null) => 0,
            Some(Given::Number(seconds)) => wait_ms(&seconds).expect("its range was checked"),
            Some(other) => unreachable!("{name:?} was checked to be a number, and is {other:?}"),
        }
    }

    /// Tells whether all that was given has been taken.
    pub(super) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    fn take(&mut self, name: &str) -> Option<Given<'_>> {
        debug_assert!(
            self.list.iter().any(|argument| argument.name == name),
            "a tool takes what is in its list, which {name:?} is not"
        );
        let at = self.given.iter().position(|(given, _)| given == name)?;
        Some(self.given.swap_remove(at).1)
    }
}

/// Returns the milliseconds of a wait in seconds; none if it is out of range.
fn wait_ms(seconds: &Number) -> Option<u32> {
    match seconds.as_f64() {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be in 0 to 280,000"
        )]
        Some(s) if (0.0..=f64::from(WAIT_SECONDS_MAX)).contains(&s) => Some((s * 1_000.0).round() as u32),
        Some(_) | None => None,
    }
}

/// Says what a JSON value is, so that an error can name it: `the number 5`, `an array`. A long text is cut.
pub fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(value) => format!("the number {value}"),
        Value::String(value) => format!("the string {:?}", shown(value)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Command, mail};
    use crate::tools::{DEFAULT, Texts};

    /// The arguments of a call in which everything has a value that is accepted, or nothing that may be left out has.
    fn good(tool: &Tool, all: bool) -> Arguments<'static> {
        let mut arguments = Arguments::default();
        for argument in tool.arguments {
            let given = match argument.accepts {
                Accepts::Role | Accepts::Text => Given::Text("pm".into()),
                Accepts::Word(words) => Given::Text(words[0].into()),
                Accepts::Wait => Given::Number(1.into()),
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
        for tool in DEFAULT.tools() {
            for all in [false, true] {
                tool.command(good(tool, all)).expect("a good call");
            }
        }
    }

    #[test]
    fn an_argument_of_another_type_is_refused_by_every_tool() {
        for tool in DEFAULT.tools() {
            for argument in tool.arguments {
                let accepted = match argument.accepts {
                    Accepts::Role | Accepts::Word(_) | Accepts::Text => "a string",
                    Accepts::Wait => "a number, 0 to 280",
                };
                let mut arguments = good(tool, true);
                arguments.0.retain(|(name, _)| name != argument.name);
                arguments.add(argument.name.into(), json!([]).into());
                let error = tool.command(arguments).expect_err("an array");
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
            Command::Mail(mail::Command::Peek { agent })
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
        };
        let told = |value: Value| {
            let Value::Object(map) = value else {
                panic!("an object")
            };
            tool.command(map.into()).expect_err("a bad call").to_string()
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
    fn a_name_is_given_once() {
        let mut arguments = Arguments::default();
        assert!(arguments.add("a".into(), Given::Null));
        assert!(!arguments.add("a".to_owned().into(), Given::Null));
        assert_eq!(arguments.count(), 1);
    }
}
