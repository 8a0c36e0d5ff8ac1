//! The commands that relay writes into configurations, and by which it knows them again.

use std::path::Path;

/// The agent CLIs that have hooks of relay's.
pub const CLIS: [&str; 3] = ["claude", "codex", "gemini"];

/// Tells whether a command of a shell is `relay hook` for one of the CLIs, by whichever path its program is named.
pub fn is_hook(command: &str) -> bool {
    let words = words(command);
    let [program, hook, cli, ..] = words.as_slice() else {
        return false;
    };
    is_relay(program) && hook == "hook" && CLIS.contains(&cli.as_str())
}

/// Tells whether a program is relay: by its name, or because it is this one.
pub fn is_relay(program: &str) -> bool {
    let program = Path::new(program);
    program.ends_with("relay") || std::env::current_exe().is_ok_and(|own| own == program)
}

/// Takes a command apart as a shell does, as far as quotes go. Whatever a shell would do beyond that makes words that are nobody's.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(chars.next()),
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
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
        ] {
            assert!(!is_hook(other), "{other}");
        }
    }
}
