//! What relay does otherwise for clients that do something that others do not, which they are known for by the name that they give
//! at their handshake.
//!
//! Over streamable HTTP relay keeps nothing of a handshake, so the quirk stands in the session's id that it gives out.

use rmcp::model::ContentBlock;
use serde_json::Value;
use uuid::Uuid;

use crate::engine::Sign;

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

impl Quirk {
    /// Finds what is peculiar to a client of that name.
    pub fn of_client(name: &str) -> Option<Self> {
        if name == "opencode" {
            return Some(Self::CancelsWhatItHas);
        }
        // The server's name may follow: "gemini-cli-mcp-client-relay".
        name.starts_with("gemini-cli").then_some(Self::TakesTextForData)
    }

    /// Finds what is peculiar to the client that makes a handshake by this message.
    pub fn of_handshake(message: &Value) -> Option<Self> {
        let name = message.pointer("/params/clientInfo/name")?;
        Self::of_client(name.as_str()?)
    }

    /// Finds what is peculiar to the client that was given a session's id.
    pub fn of_session(id: &str) -> Option<Self> {
        // Almost all end with the UUID.
        match id.as_bytes().get(uuid::fmt::Hyphenated::LENGTH..)? {
            b".cancels" => Some(Self::CancelsWhatItHas),
            b".texts" => Some(Self::TakesTextForData),
            _ => None,
        }
    }

    /// Makes the id of a session whose client may have a quirk.
    pub fn session_id(id: Uuid, quirk: Option<Self>) -> String {
        let ending = match quirk {
            None => "",
            Some(Self::CancelsWhatItHas) => ".cancels",
            Some(Self::TakesTextForData) => ".texts",
        };
        format!("{id}{ending}")
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
    fn a_quirk_is_found_again_in_the_id_of_its_session() {
        let id = Uuid::from_u128(7);
        for quirk in [None, Some(Quirk::CancelsWhatItHas), Some(Quirk::TakesTextForData)] {
            assert_eq!(Quirk::of_session(&Quirk::session_id(id, quirk)), quirk);
        }
        for other in [
            "",
            "mine",
            ".cancels",
            &format!("{id}.cancel"),
            &format!("{id}.texts "),
        ] {
            assert_eq!(Quirk::of_session(other), None, "{other}");
        }
    }

    #[test]
    fn clients_are_known_by_their_names() {
        for (name, quirk) in [
            ("opencode", Some(Quirk::CancelsWhatItHas)),
            ("gemini-cli", Some(Quirk::TakesTextForData)),
            ("gemini-cli-mcp-client-relay", Some(Quirk::TakesTextForData)),
            ("claude-code", None),
            ("opencode2", None),
            ("", None),
        ] {
            assert_eq!(Quirk::of_client(name), quirk, "{name}");
        }
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
