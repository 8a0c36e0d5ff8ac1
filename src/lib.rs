//! relay: the message bus for coding agents on one machine.
//!
//! # The map
//!
//! - [`engine`]: the pure core. Who may post and read, what waits for whom, when a message counts as read.
//! - [`tools`]: pure too. MCP tool calls to engine commands, engine replies to text.
//! - `server`: the shell. Owns the engine; HTTP, SSE, streamable HTTP; decides nothing about messages.
//! - `terminal`: what a person's terminal is shown of text from outside.
//! - `cli`: a file per subcommand; the stdio bridge is one of them.

#[cfg(feature = "server")]
pub mod cli;
pub mod engine;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
mod terminal;
pub mod tools;
