//! relay: the message bus for coding agents on one machine.
//!
//! # The map
//!
//! - [`engine`]: the pure core. Who may post and read, what waits for whom, when a message counts as read.
//! - [`tools`]: pure too. MCP tool calls to engine commands, engine replies to text; a toolset is a table of tools.
//! - `server`: the shell. Owns the engine; HTTP, SSE, streamable HTTP; decides nothing about messages.
//! - `workers`: the processes of agent CLIs that relay starts: how they are started, watched and ended.
//! - `terminal`: what a person's terminal is shown of text from outside.
//! - `json_halves`: JSON of JavaScript's that was cut within a character, as the library reads it.
//! - `line_queue`: lines on their way to stdout or stderr, which may be slow, full or gone; `diagnostics`: those of stderr.
//! - `redact`: secrets, which must not be in what is told; the SDK has the same file.
//! - `cli`: a file per subcommand; the stdio bridge is one of them.
//!
//! # One call
//!
//! ```text
//! bytes    server/connections, wire          how they came, and how the connection ended
//!   |      server/dispatch, guard            whether they are let in, and to which transport
//!   |      server/sse, http, query           whose session it is, and which tools it has
//!   |      server/plain_call or json_rpc     the message: tool and arguments
//!   v      tools (lift, thrum, agent_relay)  the command that the tool makes of them
//! command  server/owner                      the lock and the step
//!   v      engine (mail, agents, groups)     what is true now
//! effects  server/owner                      the answer to its call, events to the log
//!   |      tools (lift, thrum, agent_relay)  the text that the same tool makes of the answer
//!   |      server/tool_calls                 the message around it
//!   v      server/wire                       what became of its bytes, told to the engine
//! bytes
//! ```
//!
//! What is no plain call of a tool (a handshake, a list of tools, news of progress) goes through rmcp's service and its handler
//! in `server/rpc`, which makes calls in the same way.

#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "server")]
mod diagnostics;
pub mod engine;
#[cfg(all(test, feature = "server"))]
mod git_for_tests;
#[cfg(feature = "server")]
mod json_halves;
#[cfg(feature = "server")]
mod line_queue;
#[cfg(feature = "server")]
mod process;
#[cfg(feature = "server")]
mod redact;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
mod terminal;
pub mod tools;
#[cfg(feature = "server")]
pub mod workers;
