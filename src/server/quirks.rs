//! What relay does otherwise for clients that do something that others do not, which they are known for by the name that they give
//! at their handshake.
//!
//! Over streamable HTTP relay keeps nothing of a handshake, so which client it is stands in the session's id that it gives out.

use rmcp::model::ContentBlock;
use serde_json::Value;
use uuid::Uuid;

use crate::engine::Sign;
use crate::tools::Client;

/// What a client does that others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// It cancels each call a moment after it has taken the answer. OpenCode 1.18 does: the signal by which its model's step ends aborts
    /// what the step has called, and the TypeScript SDK listens to that signal for longer than its call lasts.
    CancelsWhatItHas,
    /// It takes a first text that is JSON for the answer's data, and refuses data that is no object. Gemini CLI 0.61 does.
    TakesTextForData,
}

/// Stands before an array of messages where that cannot be the first text.
const HEADING: &str = "Messages, oldest first, as a JSON array:";

/// Finds the client that makes a handshake by this message, if it is known.
pub fn client_of_handshake(message: &Value) -> Option<Client> {
    let name = message.pointer("/params/clientInfo/name")?;
    Client::of_name(name.as_str()?)
}

/// Finds the client that was given a session's id, if it is known.
pub fn client_of_session(id: &str) -> Option<Client> {
    // Those of others end with the UUID.
    let ending = id.get(uuid::fmt::Hyphenated::LENGTH..)?;
    Client::ALL
        .into_iter()
        .find(|client| ending_of(*client) == ending)
}

/// Makes the id of a session whose client may be known.
pub fn session_id(id: Uuid, client: Option<Client>) -> String {
    format!("{id}{}", client.map_or("", ending_of))
}

fn ending_of(client: Client) -> &'static str {
    match client {
        Client::ClaudeCode => ".claude",
        Client::Codex => ".codex",
        Client::Gemini => ".gemini",
        Client::OpenCode => ".opencode",
    }
}

impl Quirk {
    /// Finds what is peculiar to a client.
    pub fn of_client(client: Client) -> Option<Self> {
        match client {
            Client::OpenCode => Some(Self::CancelsWhatItHas),
            Client::Gemini => Some(Self::TakesTextForData),
            Client::ClaudeCode | Client::Codex => None,
        }
    }

    /// Returns what the cancellation of a call that is answered is a sign of: that its client threw the answer away, or, if it cancels what it
    /// has, no more than that the answer may not have come.
    pub fn sign_of_cancellation(quirk: Option<Self>) -> Sign {
        match quirk {
            Some(Self::CancelsWhatItHas) => Sign::Lost,
            Some(Self::TakesTextForData) | None => Sign::Cancelled,
        }
    }

    /// Returns the text that goes before those of an answer which begin so.
    pub fn heading(quirk: Option<Self>, first: &[u8]) -> Option<&'static str> {
        (quirk == Some(Self::TakesTextForData) && first.starts_with(b"[")).then_some(HEADING)
    }

    /// Puts that text there.
    pub fn head(quirk: Option<Self>, blocks: &mut Vec<ContentBlock>) {
        let first = blocks.first().and_then(ContentBlock::as_text);
        let heading = first.and_then(|first| Self::heading(quirk, first.text.as_bytes()));
        if let Some(heading) = heading {
            blocks.insert(0, ContentBlock::text(heading));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_found_again_in_the_id_of_its_session() {
        let id = Uuid::from_u128(7);
        let known = Client::ALL.into_iter().map(Some);
        for client in known.chain([None]) {
            assert_eq!(client_of_session(&session_id(id, client)), client);
        }
        for other in [
            "",
            "mine",
            ".opencode",
            &format!("{id}.open"),
            &format!("{id}.gemini "),
        ] {
            assert_eq!(client_of_session(other), None, "{other}");
        }
    }

    #[test]
    fn a_client_is_known_by_its_handshake() {
        let named = |name: &str| serde_json::json!({"params": {"clientInfo": {"name": name}}});
        for client in [
            ("opencode", Some(Client::OpenCode)),
            ("claude-code", Some(Client::ClaudeCode)),
            ("opencode2", None),
        ] {
            assert_eq!(client_of_handshake(&named(client.0)), client.1, "{}", client.0);
        }
        assert_eq!(client_of_handshake(&serde_json::json!({})), None);
    }

    #[test]
    fn only_an_array_gets_a_heading_and_only_for_whom_it_is_no_first_text() {
        let headed = |quirk, first: &str| {
            let mut blocks = vec![ContentBlock::text(first), ContentBlock::text("[2]")];
            Quirk::head(quirk, &mut blocks);
            let texts = blocks.iter().filter_map(ContentBlock::as_text);
            texts.map(|block| block.text.clone()).collect::<Vec<_>>()
        };
        let gemini = Some(Quirk::TakesTextForData);
        assert_eq!(headed(gemini, "[1]"), [HEADING, "[1]", "[2]"]);
        assert_eq!(headed(gemini, "{}"), ["{}", "[2]"]);
        assert_eq!(headed(None, "[1]"), ["[1]", "[2]"]);
        assert_eq!(headed(Some(Quirk::CancelsWhatItHas), "[1]"), ["[1]", "[2]"]);
    }
}
