//! The commands that relay writes into configurations, and by which it knows them again.

use std::path::Path;

use crate::cli::place::DEFAULT_PORT;

/// The agent CLIs that have hooks of relay's.
pub const CLIS: [&str; 3] = ["claude", "codex", "gemini"];

/// The systems by which relay's files are called.
const SYSTEMS: [&str; 3] = ["linux", "darwin", "macos"];

/// What else stands in the names of platforms.
const OF_PLATFORMS: [&str; 9] = [
    "x86_64", "amd64", "x64", "aarch64", "arm64", "unknown", "apple", "musl", "gnu",
];

/// Tells whether a command of a shell is `relay hook` for one of the CLIs, by whichever path its program is named.
pub fn is_hook(command: &str) -> bool {
    Hook::of(command).is_some()
}

/// Returns a command that runs a hook as `wanted` does, with whatever else a person has put into `old`: options such as `--agent`, and
/// what follows for the shell. Nothing if the two are not of the same CLI, or one is a waiter and the other is none.
pub fn with_additions(wanted: &str, old: &str) -> Option<String> {
    let (new, was) = (Hook::of(wanted)?, Hook::of(old)?);
    if new.cli != was.cli || new.waits != was.waits {
        return None;
    }
    let or_default = |port: Option<String>| port.unwrap_or_else(|| DEFAULT_PORT.to_string());
    if new.program == was.program && or_default(new.port) == or_default(was.port) {
        return Some(old.to_owned());
    }
    let words = std::iter::once(wanted).chain(was.additions);
    Some(words.collect::<Vec<_>>().join(" "))
}

/// What a command says that runs a hook of relay's.
struct Hook<'a> {
    program: String,
    cli: String,
    waits: bool,
    port: Option<String>,
    /// All else, as it is written.
    additions: Vec<&'a str>,
}

impl<'a> Hook<'a> {
    fn of(command: &'a str) -> Option<Self> {
        let mut words = words(command).into_iter();
        let [program, hook, cli] = [words.next()?, words.next()?, words.next()?];
        if !is_relay(&program.text) || hook.text != "hook" || !CLIS.contains(&cli.text.as_str()) {
            return None;
        }
        let mut said = Self {
            program: program.text,
            cli: cli.text,
            waits: false,
            port: None,
            additions: Vec::new(),
        };
        while let Some(word) = words.next() {
            if word.text == "--port" {
                said.port = words.next().map(|port| port.text);
            } else if let Some(port) = word.text.strip_prefix("--port=") {
                said.port = Some(port.to_owned());
            } else if word.text == "wait" {
                said.waits = true;
            } else {
                said.additions.push(word.written);
                // The value of an option is no mode.
                let has_value = word.text.starts_with("--") && !word.text.contains('=');
                if has_value {
                    said.additions.extend(words.next().map(|value| value.written));
                }
            }
        }
        Some(said)
    }
}

/// Tells whether a program is relay: by its name, or because it is this one.
pub fn is_relay(program: &str) -> bool {
    let program = Path::new(program);
    let name = program.file_name().and_then(|name| name.to_str());
    name.is_some_and(is_name) || std::env::current_exe().is_ok_and(|own| own == program)
}

/// Tells whether a program is called relay, or so with its version or its platform behind it, as files to download are:
/// `relay-x86_64-unknown-linux-musl`.
fn is_name(name: &str) -> bool {
    let of_platform = |rest: &str| {
        let mut words = rest.split('-');
        words.clone().any(|word| SYSTEMS.contains(&word))
            && words.all(|word| SYSTEMS.contains(&word) || OF_PLATFORMS.contains(&word) || is_version(word))
    };
    name == "relay" || name.strip_prefix("relay-").is_some_and(of_platform)
}

/// Tells whether a word is a version: `1.2.3`, `v1.2.3`.
fn is_version(word: &str) -> bool {
    let mut numbers = word.strip_prefix('v').unwrap_or(word).split('.');
    numbers.all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Takes a command apart as a shell does, as far as quotes go. Whatever a shell would do beyond that makes words that are nobody's.
fn words(command: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut start = 0;
    let mut quote = None;
    let mut chars = command.char_indices();
    while let Some((at, c)) = chars.next() {
        if word.is_none() {
            start = at;
        }
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(chars.next().map(|(_, c)| c)),
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() => words.extend(word.take().map(|text| Word {
                text,
                written: &command[start..at],
            })),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.map(|text| Word {
        text,
        written: &command[start..],
    }));
    words
}

/// A word of a command.
struct Word<'a> {
    /// Without its quotes.
    text: String,
    /// With them.
    written: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_of_relays_is_known_by_its_program_and_its_first_words() {
        for own in [
            "relay hook claude",
            "relay hook claude wait --port 4000",
            "/opt/bin/relay hook codex",
            "'/home/a b/it'\\''s/relay' hook gemini",
            "\"/home/a b/relay\"  hook claude",
            "/home/a\\ b/relay hook claude",
            "/opt/relay-x86_64-unknown-linux-musl hook claude",
            "./relay-0.1.0-darwin-arm64 hook codex",
            "./relay-v0.1.0-aarch64-apple-darwin hook codex",
        ] {
            assert!(is_hook(own), "{own}");
        }
        for other in [
            "",
            "relay",
            "relay hook",
            "relay hook emacs",
            "relay status",
            "relayed hook claude",
            "echo relay hook claude",
            "'relay hook claude'",
            "my-relay hook claude",
            "relay-server hook claude",
            "relay-linuxed hook claude",
            "/opt/relay-proxy-linux-amd64 hook claude",
            "relay-v-linux hook claude",
            "relay-1..2-linux hook claude",
            "relay-x86_64 hook claude",
        ] {
            assert!(!is_hook(other), "{other}");
        }
    }

    #[test]
    fn what_a_person_has_put_into_a_hooks_command_stays() {
        let wanted = "relay hook claude --port 4000";
        for (old, command) in [
            ("relay hook claude", Some(wanted)),
            (
                "/old/relay hook claude --agent 'dev a' --port=1",
                Some("relay hook claude --port 4000 --agent 'dev a'"),
            ),
            (
                "relay hook claude --agent wait 2>/dev/null || true",
                Some("relay hook claude --port 4000 --agent wait 2>/dev/null || true"),
            ),
            // What says the same stays as it is written.
            (
                "'relay' hook claude  --agent=dev-a --port 4000",
                Some("'relay' hook claude  --agent=dev-a --port 4000"),
            ),
            ("relay hook claude wait --port 4000", None),
            ("relay hook codex --port 4000", None),
            ("make", None),
        ] {
            assert_eq!(with_additions(wanted, old).as_deref(), command, "{old}");
        }
        let old = "relay hook claude --port 7331";
        let same = with_additions("relay hook claude", old);
        assert_eq!(same.as_deref(), Some(old), "it says as much, and asks no file");
        let other = with_additions("relay hook claude", "relay hook claude --port 7332");
        assert_eq!(other.as_deref(), Some("relay hook claude"));
    }

    #[test]
    fn relay_is_known_by_the_name_of_each_platform() {
        for own in [
            "relay-macos-arm64",
            "relay-linux-amd64",
            "relay-1.2.3-linux-x64",
            "relay-aarch64-unknown-linux-gnu",
        ] {
            assert!(is_relay(own), "{own}");
        }
        for other in ["relay-", "relay-linux-", "relay-1.2.3", "relay-x64-windows"] {
            assert!(!is_relay(other), "{other}");
        }
    }
}
