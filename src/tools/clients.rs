//! What is known of MCP clients by the name that they give at their handshake: how much of a tool's result each of them shows its model.
//!
//! What a client cuts away, or puts into a file, its model has not read, though the message counts as read. So no result is longer than its client
//! shows whole. `tests/clis` sees with the real ones that they do.

use std::fmt;
use std::str::FromStr;

use crate::engine::shown;

/// A client that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode.
    OpenCode,
}

impl Client {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::OpenCode];

    /// Finds the client of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "claude-code" => Some(Self::ClaudeCode),
            "codex-mcp-client" => Some(Self::Codex),
            "opencode" => Some(Self::OpenCode),
            // The server's name may follow: "gemini-cli-mcp-client-relay".
            _ => name.starts_with("gemini-cli").then_some(Self::Gemini),
        }
    }

    /// Returns how much of a result a client shows its model whole: no more than any known one does, if nothing is known of it.
    pub const fn reply_max(client: Option<Self>) -> ReplyBytes {
        match client {
            // Codex 0.169 cuts what is longer than 10 kB in its middle.
            None | Some(Self::Codex) => ReplyBytes::LEAST_KNOWN,
            // Claude Code 2.1.330 puts what has more than 50,000 characters, or what it takes for more than 25,000 tokens, into a file.
            Some(Self::ClaudeCode) => ReplyBytes::kb(40),
            // OpenCode 1.18 puts what has more than 50 kB, or 2,000 lines, into a file.
            Some(Self::OpenCode) => ReplyBytes::kb(40),
            // Gemini CLI 0.61 shows more than that. It takes the fifth call in a row with the same arguments for a loop, so the fewer the better.
            Some(Self::Gemini) => ReplyBytes::kb(200),
        }
    }
}

/// With this in a tool's `_meta`, Claude Code 2.1.332 shows results of so many characters whole, whatever its user's `MAX_MCP_OUTPUT_TOKENS`
/// says. How much it is sent does not grow by it: versions that do not know it show no more than before.
pub const SHOWN_WHOLE: &str = "anthropic/maxResultSizeChars";

/// The most that Claude Code takes.
pub const SHOWN_WHOLE_MAX: u32 = 500_000;

/// Most bytes of a result, as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyBytes(Option<u32>);

/// Why a text says no bound of results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no bound of a reply; accepted: a whole number of kB, {min} to {max}", min = ReplyBytes::KB_MIN, max = ReplyBytes::KB_MAX)]
pub struct InvalidReplyBytes {
    /// As given, cut if it is long.
    given: String,
}

impl ReplyBytes {
    /// Least that may be asked for, in kB: a message of one word fits with its names, however many it was sent to, its thread and the notes behind it.
    pub const KB_MIN: u32 = 6;

    /// Most that may be asked for, in kB: no reply takes all that may wait for clients that do not read.
    pub const KB_MAX: u32 = 100_000;

    /// What every known client shows.
    pub const LEAST_KNOWN: Self = Self::kb(9);

    /// No bound: for who is no model.
    pub const UNBOUNDED: Self = Self(None);

    /// Makes a bound of so many thousand bytes.
    pub const fn kb(kb: u32) -> Self {
        Self(Some(kb * 1_000))
    }

    /// Returns the bytes; none if there is no bound.
    pub fn bytes(self) -> Option<u32> {
        self.0
    }

    /// Returns the bytes that are left for a list, where so many are taken by what stands beside it.
    pub fn left_beside(self, taken: usize) -> usize {
        self.0
            .map_or(usize::MAX, |bytes| (bytes as usize).saturating_sub(taken))
    }

    /// Returns the kB of a bound that was read; none if there is no bound.
    pub fn as_kb(self) -> Option<u32> {
        self.0.map(|bytes| bytes / 1_000)
    }
}

/// Reads a number of kB.
impl FromStr for ReplyBytes {
    type Err = InvalidReplyBytes;

    fn from_str(text: &str) -> Result<Self, InvalidReplyBytes> {
        match text.parse() {
            Ok(kb) if (Self::KB_MIN..=Self::KB_MAX).contains(&kb) => Ok(Self::kb(kb)),
            Ok(_) | Err(_) => Err(InvalidReplyBytes { given: shown(text) }),
        }
    }
}

/// Writes the number of kB.
impl fmt::Display for ReplyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_kb() {
            Some(kb) => write!(f, "{kb}"),
            None => f.write_str("unbounded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_by_their_names_and_the_others_get_what_every_one_shows() {
        for (name, client) in [
            ("claude-code", Some(Client::ClaudeCode)),
            ("codex-mcp-client", Some(Client::Codex)),
            ("opencode", Some(Client::OpenCode)),
            ("gemini-cli", Some(Client::Gemini)),
            ("gemini-cli-mcp-client-relay", Some(Client::Gemini)),
            ("opencode2", None),
            ("", None),
        ] {
            assert_eq!(Client::of_name(name), client, "{name}");
        }
        let least = ReplyBytes::LEAST_KNOWN.bytes().expect("a bound");
        assert_eq!(least, 9_000);
        assert_eq!(Client::reply_max(None), ReplyBytes::LEAST_KNOWN);
        for client in Client::ALL {
            let bytes = Client::reply_max(Some(client)).bytes().expect("a bound");
            assert!(bytes >= least, "{client:?}");
        }
    }

    #[test]
    fn a_bound_is_a_whole_number_of_kb() {
        for (text, bytes) in [("6", 6_000), ("9", 9_000), ("100000", 100_000_000)] {
            let read: ReplyBytes = text.parse().expect("a bound");
            assert_eq!((read.bytes(), read.to_string()), (Some(bytes), text.to_owned()));
        }
        for text in ["", "5", "100001", "9.5", "-9", "9kb", " 9"] {
            let error = text.parse::<ReplyBytes>().expect_err("no bound").to_string();
            let accepted = "accepted: a whole number of kB, 6 to 100000";
            assert_eq!(error, format!("{text:?} is no bound of a reply; {accepted}"));
        }
    }

    #[test]
    fn the_documented_bounds_are_those_that_clients_are_served_by() {
        let documented = include_str!("../../docs/CLIENTS.md");
        for (name, client) in [
            ("Claude Code", Some(Client::ClaudeCode)),
            ("Codex", Some(Client::Codex)),
            ("Gemini CLI", Some(Client::Gemini)),
            ("OpenCode", Some(Client::OpenCode)),
            ("any other, and `/mcp` without a session", None),
        ] {
            let row = documented
                .lines()
                .filter(|line| line.starts_with(&format!("| {name} | ")));
            let bound = format!("| {} kB |", Client::reply_max(client));
            assert!(
                row.clone().any(|row| row.trim_end().ends_with(&bound)),
                "{name}: {bound}"
            );
        }
    }
}
