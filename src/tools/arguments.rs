//! The arguments of tools: what there is, what of it is accepted, and the words for what is not.
//!
//! The schema that a client reads, the check of what it gives and the texts of errors are made from one list,
//! [`Tool::arguments`]. Knows nothing of how a call was written: whoever read it hands in [`Arguments`].

use std::borrow::Cow;

use serde_json::{Map, Number, Value, json};

use super::{ReplyBytes, Tool};
use crate::engine::limits::WAIT_SECONDS_MAX;
use crate::engine::room::{Form, Room};
use crate::engine::{AgentName, DEFAULT_PROJECT, Roster, shown};

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
    /// A text that is an address, of an agent or of several. Whom it means is for the engine to say.
    Address,
    /// One of these texts.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// A number of seconds, from 0 to [`WAIT_SECONDS_MAX`], for which the call may wait for its answer.
    Wait,
    /// A whole number from `min` to `max`, which is `default` if it is left out.
    Integer {
        /// The least.
        min: u32,
        /// The greatest.
        max: u32,
        /// If it is left out.
        default: u32,
    },
    /// `true` or `false`; this one if it is left out.
    Boolean(bool),
    /// A JSON object.
    Object,
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
    /// A number is out of its range, or not whole where it has to be.
    #[error("{argument:?} is {given}; accepted: {accepted}")]
    OutOfRange {
        /// Which one.
        argument: &'static str,
        /// As given.
        given: String,
        /// The range.
        accepted: String,
    },
}

impl Argument {
    /// Describes it as JSON schema does, to a session that is bound to `bound`, or to none.
    pub(super) fn schema(&self, roster: &Roster, bound: Option<&AgentName>) -> Value {
        let mut schema = match self.accepts {
            Accepts::Role => {
                // Whose role is none of the roster's has no use for these: it may only give its own name, which is whole, so that whoever sees
                // the call knows whose it is.
                let other = bound.filter(|bound| roster.find(bound.as_str()).is_none());
                let roles = match other {
                    Some(own) => std::slice::from_ref(own),
                    None => roster.names(),
                };
                let roles: Vec<&str> = roles.iter().map(AgentName::as_str).collect();
                json!({"type": "string", "enum": roles})
            }
            Accepts::Address => json!({"type": "string"}),
            Accepts::Word(words) => json!({"type": "string", "enum": words}),
            Accepts::Text => json!({"type": "string"}),
            Accepts::Wait => json!({"type": "number", "minimum": 0, "maximum": WAIT_SECONDS_MAX}),
            Accepts::Integer { min, max, default } => {
                json!({"type": "integer", "minimum": min, "maximum": max, "default": default})
            }
            Accepts::Boolean(default) => json!({"type": "boolean", "default": default}),
            Accepts::Object => json!({"type": "object"}),
        };
        let description = match (&self.accepts, self.needed, bound) {
            (Accepts::Address, ..) => {
                // As the session calls them: the roster is of the default project.
                let project = bound.map_or(DEFAULT_PROJECT, AgentName::project);
                let roles = roster.names().iter().map(|name| name.seen_from(project));
                let roles: Vec<_> = roles.collect();
                format!("{}: {}", self.description, roles.join(", "))
            }
            (_, Needed::UnlessBound, Some(agent)) => format!("{}; you are {agent}", self.description),
            (_, Needed::UnlessBound, None) | (_, Needed::Always | Needed::Never, _) => {
                self.description.to_owned()
            }
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

    /// Takes a text for what it can only mean here: models write numbers, truths and words so, and several recipients as an array.
    fn understand(&self, given: &mut Given<'_>) {
        if let (Accepts::Address, Given::Other(Value::Array(all))) = (&self.accepts, &*given) {
            let all: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
            if let Some(all) = all.filter(|all| !all.is_empty()) {
                *given = Given::Text(all.join(", ").into());
            }
            return;
        }
        let Given::Text(text) = &*given else {
            return;
        };
        let understood = match &self.accepts {
            Accepts::Wait | Accepts::Integer { .. } => number_in(text).map(Given::Number),
            Accepts::Boolean(_) => boolean_in(text).map(|value| Given::Other(Value::Bool(value))),
            Accepts::Word(words) if !words.contains(&&**text) => {
                let text = text.trim();
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
                word.map(|word| Given::Text(Cow::Borrowed(*word)))
            }
            Accepts::Word(_) | Accepts::Role | Accepts::Address | Accepts::Text | Accepts::Object => None,
        };
        if let Some(understood) = understood {
            *given = understood;
        }
    }

    /// Checks its type, and its range if it has one.
    fn check(&self, given: &Given<'_>) -> Result<(), InvalidCall> {
        let is_good = match (&self.accepts, given) {
            (_, Given::Null)
            | (Accepts::Role | Accepts::Address | Accepts::Word(_) | Accepts::Text, Given::Text(_))
            | (Accepts::Boolean(_), Given::Other(Value::Bool(_)))
            | (Accepts::Object, Given::Other(Value::Object(_))) => true,
            (Accepts::Wait, Given::Number(seconds)) => {
                self.check_range(wait_ms(seconds), seconds)?;
                true
            }
            (Accepts::Integer { min, max, .. }, Given::Number(number)) => {
                self.check_range(integer(number, *min, *max), number)?;
                true
            }
            _ => false,
        };
        if is_good {
            return Ok(());
        }
        Err(self.wrong_type(given, self.accepts.words()))
    }

    fn check_range(&self, in_range: Option<u32>, given: &Number) -> Result<(), InvalidCall> {
        if in_range.is_some() {
            return Ok(());
        }
        Err(InvalidCall::OutOfRange {
            argument: self.name,
            given: given.to_string(),
            accepted: self.accepts.range(),
        })
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
            _ => Ok(()),
        }
    }
}

impl Accepts {
    /// Says what is accepted.
    pub fn words(&self) -> String {
        match self {
            Self::Role | Self::Address | Self::Word(_) | Self::Text => "a string".to_owned(),
            Self::Wait => format!("a number, {}", self.range()),
            Self::Integer { .. } => format!("a whole number, {}", self.range()),
            Self::Boolean(_) => "true or false".to_owned(),
            Self::Object => "an object".to_owned(),
        }
    }

    /// Says which numbers are accepted; nothing if it is no number.
    fn range(&self) -> String {
        match self {
            Self::Wait => format!("0 to {WAIT_SECONDS_MAX}"),
            Self::Integer { min, max, .. } => format!("{min} to {max}"),
            Self::Role | Self::Address | Self::Word(_) | Self::Text | Self::Boolean(_) | Self::Object => {
                String::new()
            }
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
    pub(super) fn checked(mut self, tool: &Tool) -> Result<Values<'a>, InvalidCall> {
        let mut known = 0;
        let mut bad_word = None;
        for argument in tool.arguments {
            let given = self.0.iter_mut().find(|(name, _)| name == argument.name);
            match given.map(|(_, given)| given) {
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
                    argument.understand(given);
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
            reply_max: ReplyBytes::UNBOUNDED,
        })
    }

    /// Finds the one of that name.
    pub fn get(&self, name: &str) -> Option<&Given<'a>> {
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
    reply_max: ReplyBytes,
}

impl Values<'_> {
    /// Says how much of the answer is shown.
    pub(super) fn answered_within(self, reply_max: ReplyBytes) -> Self {
        Self { reply_max, ..self }
    }

    /// Returns the room of the answer, if that is bounded, by how messages are written into it.
    pub fn room(&self, form: Form) -> Option<Room> {
        let bytes = self.reply_max.bytes()?;
        Some(Room { bytes, form })
    }

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

    /// Takes the id of a message. An empty one counts as left out: models fill in what they have nothing for.
    pub fn id(&mut self, name: &'static str) -> Option<String> {
        self.text(name).filter(|id| !id.is_empty())
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

    /// Takes one of an argument's words, if it is given.
    ///
    /// # Panics
    ///
    /// When the tool's list does not have it as a word, or `read` does not know all of its words.
    pub fn word<T>(&mut self, name: &'static str, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let word = self.text(name)?;
        let read = read(&word);
        Some(read.unwrap_or_else(|| unreachable!("{name:?} was checked to be one of its words")))
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

    /// Takes a whole number; the default of the tool's list if it is left out.
    ///
    /// # Panics
    ///
    /// When the tool's list does not have it as a whole number.
    pub fn integer(&mut self, name: &'static str) -> u32 {
        let Some(&Accepts::Integer { min, max, default }) = self.accepts(name) else {
            unreachable!("{name:?} is not in the tool's list as a whole number");
        };
        match self.take(name) {
            None | Some(Given::Null) => default,
            Some(Given::Number(number)) => integer(&number, min, max).expect("its range was checked"),
            Some(other) => unreachable!("{name:?} was checked to be a number, and is {other:?}"),
        }
    }

    /// Takes `true` or `false`; the default of the tool's list if it is left out.
    ///
    /// # Panics
    ///
    /// When the tool's list does not have it as a boolean.
    pub fn boolean(&mut self, name: &'static str) -> bool {
        let Some(&Accepts::Boolean(default)) = self.accepts(name) else {
            unreachable!("{name:?} is not in the tool's list as a boolean");
        };
        match self.take(name) {
            None | Some(Given::Null) => default,
            Some(Given::Other(Value::Bool(value))) => value,
            Some(other) => unreachable!("{name:?} was checked to be a boolean, and is {other:?}"),
        }
    }

    /// Takes an object that may be left out, as JSON.
    ///
    /// # Panics
    ///
    /// When the tool's list does not have it as an object.
    pub fn object(&mut self, name: &'static str) -> Option<String> {
        match self.take(name) {
            None | Some(Given::Null) => None,
            Some(Given::Other(object @ Value::Object(_))) => Some(object.to_string()),
            Some(other) => unreachable!("{name:?} was checked to be an object, and is {other:?}"),
        }
    }

    fn accepts(&self, name: &str) -> Option<&'static Accepts> {
        let argument = self.list.iter().find(|argument| argument.name == name)?;
        Some(&argument.accepts)
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

/// Reads the number that a text is, as JSON has it.
pub(super) fn number_in(text: &str) -> Option<Number> {
    serde_json::from_str(text.trim()).ok()
}

/// Reads `true` or `false`, in any case.
pub(super) fn boolean_in(text: &str) -> Option<bool> {
    let is = |word: &str| text.trim().eq_ignore_ascii_case(word);
    (is("true") || is("false")).then(|| is("true"))
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

/// Returns a whole number within its range, however it is written.
fn integer(number: &Number, min: u32, max: u32) -> Option<u32> {
    let value = number.as_f64()?;
    let in_range = value.fract() == 0.0 && (f64::from(min)..=f64::from(max)).contains(&value);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and within the range of two of them"
    )]
    in_range.then_some(value as u32)
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
mod tests;
