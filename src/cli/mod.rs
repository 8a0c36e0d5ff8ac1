//! The command line: a file per subcommand.
//!
//! stdout belongs to the message log in `serve`, to the protocol in `mcp` and to the text in `prompt`;
//! everything else goes to stderr.

mod mcp;
mod prompt;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The message bus for coding agents on one machine.
#[derive(Debug, Parser)]
#[command(name = "relay", version, about, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the relay in this terminal, which becomes its message log.
    Serve(serve::Serve),
    /// Connect an agent over stdio to the relay that runs on this machine.
    Mcp(mcp::Mcp),
    /// Print the kickoff prompt of a role, ready to paste into its agent.
    Prompt(prompt::Prompt),
}

/// Runs the command line and returns the process's exit code: 0 after an orderly end, 1 after an error, 2 for bad usage.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    trace_to_stderr();
    let result = match cli.command {
        Command::Serve(args) => serve::run(args).map_err(|error| error.to_string()),
        Command::Mcp(args) => mcp::run(args).map_err(|error| format!("relay mcp: {error}")),
        Command::Prompt(args) => prompt::run(args).map_err(|error| format!("relay prompt: {error}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Sends diagnostics to stderr; `RELAY_LOG` chooses which, as `RUST_LOG` does elsewhere.
fn trace_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_env_var("RELAY_LOG")
        .try_from_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,rmcp=error"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

/// Takes a port that can be connected to.
fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        Ok(_) | Err(_) => Err("a port is a number from 1 to 65535".to_owned()),
    }
}
