//! Tool dispatch: what an MCP client may call, what it means to the engine, and what it reads as the answer.
//!
//! Pure, like the engine: arguments in, a [`Command`] out; a [`Reply`] in, text out. It must not know of transports,
//! sessions or time. A tool is one value, a toolset a list of them, and there is a file per toolset; a new tool is an
//! entry in its toolset's file, and nothing else here or in a transport.

pub mod arguments;
pub mod lift;
pub mod messages;
mod refusals;
pub mod text;

use serde_json::{Value, json};

use crate::engine::{AgentName, Command, Refusal, Reply, Roster, shown};
pub use arguments::{Accepts, Argument, Arguments, Given, InvalidCall, Needed, Values, described};
pub use text::Texts;

/// What a session has that asks for nothing else.
pub const DEFAULT: Toolsets = Toolsets(&[&lift::LIFT]);

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
    /// Translates the engine's refusal into what the caller reads behind `Error: `.
    pub refused: fn(&Refusal) -> String,
}

/// A family of tools over the engine.
#[derive(Debug)]
pub struct Toolset {
    /// The tools in the order in which they are listed.
    pub tools: &'static [Tool],
    /// What an agent is told when its session begins. It stands in every session's context.
    pub instructions: &'static str,
    /// Says why a session was not opened.
    pub refused: fn(&Refusal) -> String,
}

impl Tool {
    /// Translates a call into what it means to the engine.
    ///
    /// # Errors
    ///
    /// [`InvalidCall`] when its arguments are not the ones that the tool takes.
    pub fn command(&self, arguments: Arguments<'_>) -> Result<Command, InvalidCall> {
        let mut values = arguments.checked(self)?;
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
        json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": Value::Object(self.arguments.iter().map(schema).collect()),
                "required": required.map(|argument| argument.name).collect::<Vec<_>>(),
                "additionalProperties": false,
            },
        })
    }

    /// Lists the arguments as an error names them: `from, to, kind, body`.
    fn argument_names(&self) -> String {
        let names = self.arguments.iter().map(|argument| argument.name);
        names.collect::<Vec<_>>().join(", ")
    }
}

/// The toolsets that a session has, chosen once, when it begins: one at least, and no two tools have the same name.
#[derive(Debug, Clone, Copy)]
pub struct Toolsets(&'static [&'static Toolset]);

impl Toolsets {
    /// Goes through all tools in the order in which they are listed.
    fn tools(self) -> impl Iterator<Item = &'static Tool> {
        self.0.iter().flat_map(|toolset| toolset.tools)
    }

    /// Finds a tool.
    ///
    /// # Errors
    ///
    /// [`InvalidCall::UnknownTool`] when there is none of that name.
    pub fn find(self, name: &str) -> Result<&'static Tool, InvalidCall> {
        let found = self.tools().find(|tool| tool.name == name);
        found.ok_or_else(|| InvalidCall::UnknownTool {
            name: shown(name),
            known: self.names(),
        })
    }

    /// Returns the tools as `tools/list` shows them to a session: with the roster, and with the session's own role
    /// optional if it is bound.
    pub fn definitions(self, roster: &Roster, bound: Option<&AgentName>) -> Value {
        self.tools().map(|tool| tool.definition(roster, bound)).collect()
    }

    /// Returns the argument with which a call of a tool may wait for its answer, if there is such a tool and argument.
    pub fn wait_argument(self, tool: &str) -> Option<&'static str> {
        let tool = self.tools().find(|known| known.name == tool)?;
        let mut arguments = tool.arguments.iter();
        let wait = arguments.find(|argument| matches!(argument.accepts, Accepts::Wait));
        wait.map(|argument| argument.name)
    }

    /// Lists the tools as a person reads them: `post_message, read_messages`.
    pub fn names(self) -> String {
        let names = self.tools().map(|tool| tool.name);
        names.collect::<Vec<_>>().join(", ")
    }

    /// Returns what an agent is told when its session begins.
    pub fn instructions(self) -> String {
        let instructions = self.0.iter().map(|toolset| toolset.instructions);
        instructions.collect::<Vec<_>>().join("\n\n")
    }

    /// Says why a session was not opened.
    pub fn refused(self, refusal: &Refusal) -> String {
        (self.0[0].refused)(refusal)
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
                answer: Ok(reply),
            } => (tool.to_texts)(reply, texts),
            Self::Answered {
                tool,
                answer: Err(refusal),
            } => texts.plain(format_args!("Error: {}", (tool.refused)(refusal))),
            Self::Refused { reason } => texts.plain(format_args!("Error: {reason}")),
        }
    }

    /// Returns the text blocks, in order; at least one.
    pub fn texts(&self) -> Vec<String> {
        text::unwrapped(|texts| self.write(texts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static OTHER: Toolset = Toolset {
        tools: &[Tool {
            name: "other",
            description: "",
            arguments: &[Argument {
                name: "patience",
                accepts: Accepts::Wait,
                needed: Needed::Never,
                description: "",
            }],
            ..lift::READ_MESSAGES
        }],
        instructions: "Two lines\nof another.",
        refused: |_| "no".to_owned(),
    };

    #[test]
    fn a_session_has_the_tools_of_all_its_toolsets_in_their_order() {
        let toolsets = const { Toolsets(&[&lift::LIFT, &OTHER]) };
        assert_eq!(
            toolsets.names(),
            "post_message, read_messages, list_pending, other"
        );
        let definitions = toolsets.definitions(&Roster::default(), None);
        let names = definitions.as_array().expect("a list").iter();
        let names: Vec<&str> = names.filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names.join(", "), toolsets.names());
        for name in names {
            assert_eq!(toolsets.find(name).map(|tool| tool.name), Ok(name));
        }
        assert_eq!(
            toolsets.find("peek").expect_err("there is none").to_string(),
            format!("unknown tool \"peek\"; known tools: {}", toolsets.names())
        );
        assert_eq!(toolsets.wait_argument("read_messages"), Some("wait_seconds"));
        assert_eq!(toolsets.wait_argument("other"), Some("patience"));
        assert_eq!(toolsets.wait_argument("list_pending"), None);
        assert_eq!(toolsets.wait_argument("peek"), None);
    }

    #[test]
    fn a_session_is_told_of_all_its_toolsets_and_refused_in_the_words_of_the_first() {
        let toolsets = const { Toolsets(&[&OTHER, &lift::LIFT]) };
        let told = format!("{}\n\n{}", OTHER.instructions, lift::LIFT.instructions);
        assert_eq!(toolsets.instructions(), told);
        assert_eq!(toolsets.refused(&Refusal::Stopping), "no");
    }
}
