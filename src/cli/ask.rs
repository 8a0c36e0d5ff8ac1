//! What most subcommands do: they ask the relay one thing, and print what it answers, as text for a person or as JSON for a script.

use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::{At, Client, ClientError};
use super::messages::{json_line, write_stdout};
use super::{End, Failure, block_on, say};

/// Why nothing was asked, or the answer was not printed.
#[derive(Debug, thiserror::Error)]
enum AskError {
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    /// The relay did not do it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// What is asked, and how the answer is printed.
pub struct Ask<'a> {
    /// The subcommand, which a failure names.
    pub subcommand: &'static str,
    /// Which relay.
    pub at: &'a At,
    /// The address to which it is posted.
    pub path: &'static str,
    /// What is posted.
    pub what: Value,
    /// The answer is printed as it came.
    pub json: bool,
}

/// An answer as a person is told it.
pub enum Told {
    /// This is printed.
    Text(String),
    /// There is nothing there: this is said beside it.
    Nothing(String),
}

impl Ask<'_> {
    /// Asks, and prints the answer.
    ///
    /// # Errors
    ///
    /// The relay was not found or refused it, or stdout did not take its answer.
    pub fn tell<T: DeserializeOwned>(self, told: impl FnOnce(T) -> Told) -> Result<End, Failure> {
        let subcommand = self.subcommand;
        block_on(self.ask_and_tell(told))?
            .map_err(|error: AskError| Failure::error(format!("relay {subcommand}: {error}")))
    }

    async fn ask_and_tell<T: DeserializeOwned>(self, told: impl FnOnce(T) -> Told) -> Result<End, AskError> {
        let mut client = Client::find(self.at).await?;
        let answer = client.ask(self.path, &self.what, Duration::ZERO).await?;
        let Ok(understood) = serde_json::from_slice(&answer) else {
            return Err(client.not_understood().into());
        };
        client.done();
        let told = told(understood);
        if self.json {
            write_stdout(&json_line(&String::from_utf8_lossy(&answer)))?;
        }
        match told {
            Told::Text(text) => {
                if !self.json {
                    write_stdout(&text)?;
                }
                Ok(End::Done)
            }
            Told::Nothing(said) => {
                say(&said);
                Ok(End::Nothing)
            }
        }
    }
}
