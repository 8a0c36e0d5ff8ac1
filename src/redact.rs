//! Secrets, which must not be in what is told.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// Known forms of secrets: relay's own tokens, keys of well-known services, private keys, and what is given as a password.
static SECRETS: LazyLock<Regex> = LazyLock::new(|| {
    let forms = [
        r"\b(?:rk|at|nt|ot)_live_[A-Za-z0-9_-]{8,}",
        r"\bsk-[A-Za-z0-9_-]{16,}",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"\bA[KS]IA[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        r"[Bb]earer\s+[A-Za-z0-9._~+/=-]{16,}",
    ];
    Regex::new(&forms.join("|")).expect("the forms are regular expressions")
});

/// Puts `[redacted]` in the place of all that looks like a secret.
pub fn redact(text: &str) -> Cow<'_, str> {
    SECRETS.replace_all(text, REDACTED)
}

/// Does so in all texts of a JSON value; the names of members stay.
pub fn redact_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(&text).into_owned()),
        Value::Array(values) => values.into_iter().map(redact_json).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, redact_json(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_secrets_are_taken_out_and_nothing_else() {
        for (text, redacted) in [
            ("the key is rk_live_0123456789abcdef.", "the key is [redacted]."),
            (
                "at_live_0123456789 and nt_live_0123456789",
                "[redacted] and [redacted]",
            ),
            ("sk-live0123456789abcdefgh", "[redacted]"),
            ("ghp_0123456789abcdefghij0123", "[redacted]"),
            (
                "Authorization: Bearer abcdefghijklmnop0123",
                "Authorization: [redacted]",
            ),
            ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
            (
                "a -----BEGIN RSA PRIVATE KEY-----\nxx\n-----END RSA PRIVATE KEY----- b",
                "a [redacted] b",
            ),
            ("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted]"),
        ] {
            assert_eq!(redact(text), redacted, "{text}");
        }
        for text in [
            "the task is done",
            "sk-short",
            "bearer of news",
            "risk_live_share is a word",
            "eyJ",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn they_are_taken_out_of_all_texts_of_a_json_value() {
        let key = "rk_live_0123456789abcdef";
        assert_eq!(
            redact_json(json!({"output": [key, {"text": format!("it is {key}")}], "count": 1, "none": null})),
            json!({"output": ["[redacted]", {"text": "it is [redacted]"}], "count": 1, "none": null})
        );
    }
}
