//! Tool dispatch: what an MCP client may call, what it means to the engine, and what it reads as the answer.
//!
//! Pure, like the engine: arguments in, a [`Command`] out; a [`Reply`] in, text out. It must not know of transports,
//! sessions or time. A tool is one value, a toolset a list of them, and there is a file per toolset; a new tool is an
//! entry in its toolset's file, and nothing else here or in a transport.

pub mod agent_relay;
pub mod arguments;
pub mod clients;
pub mod frame;
pub mod holds;
pub mod lift;
pub mod messages;
mod refusals;
pub mod text;
pub mod thrum;
mod toolsets;
pub mod traces;
#[cfg(test)]
mod within;
mod workers;

use std::time::Duration;

use serde_json::{Value, json};

use crate::engine::watches::Watched;
use crate::engine::{AgentName, Command, Refusal, Reply, Roster};
pub use arguments::{Accepts, Argument, Arguments, Given, InvalidCall, Needed, Values, described};
pub use clients::{Client, InvalidReplyBytes, ReplyBytes};
pub use text::Texts;
pub use toolsets::{DEFAULT, InvalidToolsets, Offer, Served, Toolsets};

/// All toolsets, in the order in which their tools are listed. No two tools of them have the same name.
pub static ALL: [&Toolset; 3] = [&lift::LIFT, &thrum::THRUM, &agent_relay::AGENT_RELAY];

/// How a tool says by itself that it could not do what it was to.
pub const FAILED: &str = "Failed to ";

/// A tool: what a client reads about it, and what a call of it means.
#[derive(Debug)]
pub struct Tool {
    /// What it is called.
    pub name: &'static str,
    /// What a client reads about it.
    pub description: &'static str,
    /// All that it takes, in the order in which errors name it.
    pub arguments: &'static [Argument],
    /// Translates a call into what it means to the engine.
    pub to_command: fn(&mut Values<'_>) -> Command,
    /// Translates the engine's answer into what the caller reads: one text at least.
    pub to_texts: fn(&Reply, &mut Texts<'_>),
    /// Translates the engine's refusal into what the caller reads behind `Error: `, or by itself if it begins with [`FAILED`].
    pub refused: fn(&Refusal) -> String,
    /// Whether a call of it may wait for its answer, and how long.
    pub waits: Waits,
    /// A call of it may take messages out of an inbox: what its client does not show then is shown to nobody.
    pub takes: bool,
}

/// Whether a call of a tool may wait for its answer, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// It does not.
    Never,
    /// It may, for so many milliseconds, whatever its arguments say.
    AtMost {
        /// How many.
        ms: u64,
    },
    /// For so many seconds as the argument says, if it is given.
    Seconds(&'static str),
    /// For so many seconds as the argument says, or so many if it is left out.
    Always {
        /// The argument.
        seconds: &'static str,
        /// If it is left out.
        default: u32,
    },
    /// Where the first argument is true, for so many milliseconds as the second says, or so many if that is left out.
    If {
        /// The argument that is true.
        asked: &'static str,
        /// The argument that says how long.
        ms: &'static str,
        /// If it is left out.
        default: u32,
    },
}

/// What is known of an argument that says something about a wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// `true` or `false`.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// Anything else.
    Other,
}

impl Waits {
    /// Returns for how long a call may wait, if it may: `given` finds its arguments. What is out of range is refused, and does
    /// not wait.
    pub fn of_call(self, given: impl Fn(&str) -> Option<Scalar>) -> Option<Duration> {
        let number = |name| match given(name) {
            Some(Scalar::Number(number)) => Some(number),
            Some(Scalar::Boolean(_) | Scalar::Other) | None => None,
        };
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        match self {
            Self::Never => None,
            Self::AtMost { ms } => Some(Duration::from_millis(ms)),
            Self::Seconds(name) => given(name).map(|_| seconds(number(name).unwrap_or_default())),
            Self::Always {
                seconds: name,
                default,
            } => Some(seconds(number(name).unwrap_or(f64::from(default)))),
            Self::If { asked, ms, default } => (given(asked) == Some(Scalar::Boolean(true)))
                .then(|| seconds(number(ms).unwrap_or(f64::from(default)) / 1_000.0)),
        }
    }
}

impl Scalar {
    /// Reads what a tool takes a text for.
    fn of_text(text: &str) -> Self {
        let number = arguments::number_in(text).and_then(|number| number.as_f64());
        let boolean = arguments::boolean_in(text).map(Self::Boolean);
        number.map(Self::Number).or(boolean).unwrap_or(Self::Other)
    }
}

impl From<&Given<'_>> for Scalar {
    fn from(given: &Given<'_>) -> Self {
        match given {
            Given::Number(number) => number.as_f64().map_or(Self::Other, Self::Number),
            Given::Other(value) => value.into(),
            Given::Text(text) => Self::of_text(text),
            Given::Null => Self::Other,
        }
    }
}

impl From<&Value> for Scalar {
    fn from(value: &Value) -> Self {
        match value {
            Value::Bool(value) => Self::Boolean(*value),
            Value::Number(number) => number.as_f64().map_or(Self::Other, Self::Number),
            Value::String(text) => Self::of_text(text),
            Value::Null | Value::Array(_) | Value::Object(_) => Self::Other,
        }
    }
}

/// A text that a client may ask for by its name, and put before its model.
#[derive(Debug)]
pub struct Prompt {
    /// What it is called.
    pub name: &'static str,
    /// What a client reads about it.
    pub description: &'static str,
    /// The text.
    pub text: &'static str,
}

/// Something that a client may read without a tool. Reading takes nothing.
#[derive(Debug)]
pub struct Resource {
    /// Its address.
    pub uri: &'static str,
    /// What it is called.
    pub name: &'static str,
    /// What a client reads about it.
    pub description: &'static str,
    /// What reading it means to the engine.
    pub to_command: fn() -> Command,
    /// Translates the engine's answer into the JSON that is read, with no more bytes than its client shows.
    pub to_json: fn(&Reply, ReplyBytes, &mut text::Json<'_>),
    /// With what of the engine's it changes; none if it stays as it is while relay runs.
    pub changes_with: Option<Watched>,
}

/// A family of tools over the engine.
#[derive(Debug)]
pub struct Toolset {
    /// What it is called where one is chosen.
    pub name: &'static str,
    /// A session that names an agent which is not there makes it be there.
    pub registers: bool,
    /// Its tools do not say on whose behalf they are called: a session of nobody's can do nothing with them.
    pub needs_agent: bool,
    /// The tools in the order in which they are listed.
    pub tools: &'static [Tool],
    /// What an agent is told when its session begins. It stands in every session's context.
    pub instructions: &'static str,
    /// Says why a session was not opened.
    pub refused: fn(&Refusal) -> String,
    /// The texts that it has for clients.
    pub prompts: &'static [Prompt],
    /// What clients may read.
    pub resources: &'static [Resource],
    /// Says that no relay runs, given the command that starts one, in other words than the bridge's.
    pub not_running: Option<fn(&str) -> String>,
    /// Says that there is no way to the relay, or no answer, given why, in other words than the bridge's.
    pub unreachable: Option<fn(&str) -> String>,
    /// Returns what the tool of a name answers while there is no relay, if that is no error of it.
    pub unconnected: Option<fn(&str, &Unconnected<'_>) -> Option<String>>,
}

/// What is known of an agent while there is no relay.
#[derive(Debug, Clone, Copy)]
pub struct Unconnected<'a> {
    /// What it is called.
    pub agent: Option<&'a str>,
    /// Its project.
    pub project: Option<&'a str>,
    /// Where a relay is looked for.
    pub place: Option<&'a str>,
}

impl Tool {
    /// Translates a call into what it means to the engine.
    ///
    /// # Errors
    ///
    /// [`InvalidCall`] when its arguments are not the ones that the tool takes.
    pub fn command(&self, arguments: Arguments<'_>, reply_max: ReplyBytes) -> Result<Command, InvalidCall> {
        let mut values = arguments.checked(self)?.answered_within(reply_max);
        let command = (self.to_command)(&mut values);
        debug_assert!(
            values.is_empty(),
            "a tool takes all that is in its list: {values:?} is left"
        );
        Ok(command)
    }

    /// Returns the tool as `tools/list` shows it.
    fn definition(&self, roster: &Roster, bound: Option<&AgentName>) -> Value {
        let schema = |argument: &Argument| (argument.name.to_owned(), argument.schema(roster, bound));
        let required = self
            .arguments
            .iter()
            .filter(|argument| argument.is_required(bound.is_some()));
        let mut definition = json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": Value::Object(self.arguments.iter().map(schema).collect()),
                "required": required.map(|argument| argument.name).collect::<Vec<_>>(),
                "additionalProperties": false,
            },
        });
        if self.takes {
            definition["_meta"] = json!({clients::SHOWN_WHOLE: clients::SHOWN_WHOLE_MAX});
        }
        definition
    }

    /// Lists the arguments as an error names them: `from, to, kind, body`.
    fn argument_names(&self) -> String {
        let names = self.arguments.iter().map(|argument| argument.name);
        names.collect::<Vec<_>>().join(", ")
    }
}

/// What a tool call answers, before a transport wraps it. It is put into words when it is written.
#[derive(Debug)]
pub enum ToolResult {
    /// What the engine said.
    Answered {
        /// The tool that was called, whose words it is put into.
        tool: &'static Tool,
        /// The engine's answer.
        answer: Result<Reply, Refusal>,
        /// How much of it is shown.
        reply_max: ReplyBytes,
    },
    /// The call did nothing, because something about it was wrong.
    Refused {
        /// What was wrong.
        reason: String,
    },
}

impl ToolResult {
    /// Makes the answer that tells a caller what was wrong: `Error: ` and the reason.
    pub fn error(reason: impl std::fmt::Display) -> Self {
        let reason = reason.to_string();
        Self::Refused { reason }
    }

    /// Tells whether the call did nothing because something about it was wrong.
    pub fn is_error(&self) -> bool {
        match self {
            Self::Answered { answer, .. } => answer.is_err(),
            Self::Refused { .. } => true,
        }
    }

    /// Writes the texts: [`Self::texts`] says what they are, and [`Texts`] how they are written.
    pub fn write(&self, texts: &mut Texts<'_>) {
        match self {
            Self::Answered {
                tool,
                answer: Ok(Reply::AfterStart { started_at, reply }),
                reply_max,
            } => {
                texts.keep_within(*reply_max);
                texts.tell_in_data(messages::notice(*started_at));
                (tool.to_texts)(reply, texts);
                messages::tell_of_start(Some(*started_at), texts);
            }
            Self::Answered {
                tool,
                answer: Ok(reply),
                reply_max,
            } => {
                texts.keep_within(*reply_max);
                (tool.to_texts)(reply, texts);
            }
            Self::Answered {
                tool,
                answer: Err(refusal),
                reply_max: _,
            } => {
                let reason = (tool.refused)(refusal);
                if reason.starts_with(FAILED) {
                    texts.plain(reason);
                } else {
                    texts.plain(format_args!("Error: {reason}"));
                }
            }
            Self::Refused { reason } => texts.plain(format_args!("Error: {reason}")),
        }
    }

    /// Returns the text blocks, in order; at least one.
    pub fn texts(&self) -> Vec<String> {
        self.texts_and_data().0
    }

    /// Returns the text blocks, and the answer as data if it is one.
    pub fn texts_and_data(&self) -> (Vec<String>, Option<Value>) {
        text::unwrapped(|texts| self.write(texts))
    }
}
