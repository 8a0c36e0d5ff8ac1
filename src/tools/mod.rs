//! Tool dispatch: what an MCP client may call, what it means to the engine, and what it reads as the answer.
//!
//! Pure, like the engine: arguments in, a [`Command`](crate::engine::Command) out; a
//! [`Reply`](crate::engine::Reply) in, text out. It must not know of transports, sessions or time.
//! A file per toolset.

pub mod lift;

use serde_json::Value;

use crate::engine::shown;

/// What a tool call answers, before a transport wraps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The text blocks, in order; at least one.
    pub texts: Vec<String>,
    /// True when the call did nothing because something about it was wrong.
    pub is_error: bool,
}

impl ToolResult {
    /// Makes the answer that tells a caller what was wrong: `Error: ` and the reason.
    pub fn error(reason: impl std::fmt::Display) -> Self {
        Self {
            texts: vec![format!("Error: {reason}")],
            is_error: true,
        }
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
