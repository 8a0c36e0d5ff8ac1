//! Secrets, which must not be in what is told.
//!
//! They are known by their form, so what has none is not found: a password in prose, say, or one with a space in it.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// How the names of secrets end, in any case: `DB_PASSWORD`, `clientSecret`, `AWS_SECRET_ACCESS_KEY`.
const NAMES: &str = "(?i-u:passw(?:or)?d|passphrase|secret|token|(?:api|access|private|secret)[_-]?key)";

/// What is between such a name and its value, but for spaces: the end of what the name is quoted in, and a sign.
const BEHIND_NAME: &str = r#"\\*["'\]]*[ \t]*(?:=>|:=|[=:])[ \t]*"#;

/// What ends a value that is not quoted, beside a space; as it is written in a class of characters.
const ENDS: &str = r#""'`<>(){}\[\]\\"#;

/// How much of a value that is not quoted is looked at to tell it from a word, in characters.
const LOOKED_AT: usize = 64;

/// Known forms of secrets. Where one has a group, what is in that is the secret, and what is around it stays.
///
/// Nothing in a form may match at length and then fail, unless what it begins with ends that: each such begin would be followed to the
/// end of a long text.
static SECRETS: LazyLock<Regex> = LazyLock::new(|| {
    // How a value that is not quoted begins. A private key does otherwise: it is more than one word, and has a form of its own.
    let word = format!(r"[^\s{ENDS}=&,;:-][^\s{ENDS}]{{7}}");
    let forms = [
        // Relay's own tokens.
        r"(?-u:\b)(?:rk|at|nt|ot)_live_[A-Za-z0-9_-]{8,}".to_owned(),
        // Keys of well-known services.
        r"(?-u:\b)sk-[A-Za-z0-9_-]{16,}".to_owned(),
        r"(?-u:\b)(?:sk_live|sk_test|rk_test)_[A-Za-z0-9]{16,}".to_owned(),
        r"(?-u:\b)whsec_[A-Za-z0-9+/=]{16,}".to_owned(),
        r"(?-u:\b)gh[pousr]_[A-Za-z0-9]{20,}".to_owned(),
        r"(?-u:\b)github_pat_[A-Za-z0-9_]{20,}".to_owned(),
        r"(?-u:\b)glpat-[A-Za-z0-9_.-]{20,}".to_owned(),
        r"(?-u:\b)npm_[A-Za-z0-9]{36}".to_owned(),
        r"(?-u:\b)hf_[A-Za-z0-9]{30,}".to_owned(),
        r"(?-u:\b)xox[abeoprs]-[A-Za-z0-9-]{10,}".to_owned(),
        r"(?-u:\b)A[KS]IA[A-Z0-9]{16}(?-u:\b)".to_owned(),
        r"(?-u:\b)AIza[A-Za-z0-9_-]{30,}".to_owned(),
        // A JSON web token.
        r"(?-u:\b)eyJ[A-Za-z0-9]{8,}(?:[_-][A-Za-z0-9]+){0,3}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}".to_owned(),
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\z)".to_owned(),
        // What gives the right to a request.
        r#"(?i-u:authorization)\\*["']*[ \t]*(?:=>|[:=,])[ \t]*\\*["']?((?i-u:basic|bearer|token)[ \t]+[A-Za-z0-9._~+/=-]{8,})"#.to_owned(),
        r"(?i-u:bearer)\s+[A-Za-z0-9._~+/=-]{16,}".to_owned(),
        // The password in an address.
        r#"://[^\s/?#:@"'`<>\\]*:([^\s/?#"'`<>\\]+)@"#.to_owned(),
        // What is given as a secret.
        format!(r#"{NAMES}{BEHIND_NAME}"((?:[^"\\\s]|\\\S){{8,}})(?:"|\z)"#),
        format!(r"{NAMES}{BEHIND_NAME}'((?:[^'\\\s]|\\\S){{8,}})(?:'|\z)"),
        format!(r#"{NAMES}{BEHIND_NAME}\\+["']([^"'\\\s]{{8,}})(?:\\|\z)"#),
        format!(r#"{NAMES}\\*["'\]]*=(?<given>{word})"#),
        format!(r#"--(?:[A-Za-z0-9]+-)*{NAMES}[ \t]+["']?(?<option>{word})"#),
        format!("{NAMES}{BEHIND_NAME}(?<told>{word})"),
    ];
    Regex::new(&forms.join("|")).expect("the forms are regular expressions")
});

/// What has the name of a secret: a member, or an option.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!("(?:{NAMES}|(?i-u:authorization))$")).expect("it is a regular expression")
});

/// A text that is a secret if it is called so.
static VALUE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*(?:(?i-u:basic|bearer|token) +)?\S{8,}\s*$").expect("it is a regular expression")
});

/// Puts `[redacted]` in the place of all that looks like a secret: a token of relay's, a key of a well-known service, a private key,
/// what gives the right to a request, the password in an address, and what is given as a secret.
///
/// The last is a value of at least eight characters without a space, behind a name that ends in `password`, `passwd`, `passphrase`,
/// `secret`, `token`, `api_key`, `access_key`, `private_key` or `secret_key`, in any case, also with `-` or nothing for `_`: as
/// `name=value`, `"name": "value"` or `--name value`; and as `name: value` or `name = value`, where it has a digit or one of
/// `!@#$%^`, as the words of a sentence have not. The name stays. What is called so by a program stays, too: `$TOKEN`, `self.token`.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut redacted = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = SECRETS.captures_at(text, at) {
        let whole = found.get(0).expect("it has been found");
        let secret = found.iter().skip(1).flatten().next().unwrap_or(whole);
        let is_told = found.name("told").is_some();
        let is_word = is_told || found.name("given").is_some() || found.name("option").is_some();
        let behind = &text[secret.start()..];
        if is_word && is_no_secret(behind, is_told) {
            // There may be one of another form in it.
            at = secret.start();
            continue;
        }
        redacted.push_str(&text[copied..secret.start()]);
        redacted.push_str(REDACTED);
        copied = secret.end();
        at = whole.end();
        if is_word {
            copied = behind
                .find(is_end)
                .map_or(text.len(), |length| secret.start() + length);
            at = copied;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    redacted.push_str(&text[copied..]);
    Cow::Owned(redacted)
}

fn is_end(c: char) -> bool {
    c.is_whitespace() || ENDS.contains(c)
}

/// Tells whether a text begins with a variable, a member or a path, or where it is only told of, with a word.
fn is_no_secret(text: &str, is_told: bool) -> bool {
    let is_variable = text.starts_with('$');
    let mut value = text
        .chars()
        .skip(usize::from(is_variable))
        .take(LOOKED_AT)
        .take_while(|c| !is_end(*c));
    let mut has_joint = false;
    let has_sign = value.any(|c| {
        has_joint |= matches!(c, '.' | '/');
        c.is_ascii_digit() || "!@#$%^".contains(c)
    });
    !has_sign && (is_told || is_variable || has_joint)
}

/// Does so in all texts of a JSON value, by the names of its members, too, and by the options in its lists; the names stay.
pub fn redact_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(&text).into_owned()),
        Value::Array(values) => {
            let mut is_named = false;
            let redacted = values.into_iter().map(|value| {
                let is_option =
                    matches!(&value, Value::String(text) if text.starts_with("--") && NAMED.is_match(text));
                redact_named(std::mem::replace(&mut is_named, is_option), value)
            });
            redacted.collect()
        }
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| {
                let redacted = redact_named(NAMED.is_match(&name), value);
                (name, redacted)
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Does so in a value that may have the name of a secret.
fn redact_named(is_named: bool, value: Value) -> Value {
    match value {
        Value::String(text) if is_named && VALUE.is_match(&text) => Value::String(REDACTED.to_owned()),
        Value::String(_)
        | Value::Array(_)
        | Value::Object(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_) => redact_json(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn assert_becomes(rows: &[(&str, &str)]) {
        for (text, redacted) in rows {
            assert_eq!(redact(text), *redacted, "{text}");
        }
    }

    #[track_caller]
    fn assert_stays(texts: &[&str]) {
        for text in texts {
            assert_eq!(redact(text), *text);
        }
    }

    #[test]
    fn known_secrets_are_taken_out_and_nothing_else() {
        assert_becomes(&[
            ("the key is rk_live_0123456789abcdef.", "the key is [redacted]."),
            (
                "at_live_0123456789 and nt_live_0123456789",
                "[redacted] and [redacted]",
            ),
            ("sk-live0123456789abcdefgh", "[redacted]"),
            ("(sk_test_0123456789abcdef)", "([redacted])"),
            (
                "sk_live_0123456789abcdef, rk_test_0123456789abcdef",
                "[redacted], [redacted]",
            ),
            ("whsec_0123456789abcdef+/=", "[redacted]"),
            ("ghp_0123456789abcdefghij0123", "[redacted]"),
            ("glpat-0123456789_abcdefghi", "[redacted]"),
            ("npm_0123456789abcdefghijklmnopqrstuvwxyz", "[redacted]"),
            ("hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "[redacted]"),
            ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
            (
                "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0_.abcdefgh-_0123",
                "[redacted]",
            ),
            (
                "a -----BEGIN RSA PRIVATE KEY-----\nxx\n-----END RSA PRIVATE KEY----- b",
                "a [redacted] b",
            ),
            ("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted]"),
            (
                "PRIVATE_KEY=-----BEGIN EC PRIVATE KEY-----\nxx",
                "PRIVATE_KEY=[redacted]",
            ),
        ]);
        assert_stays(&[
            "the task is done",
            "sk-short",
            "sk_live_short",
            "task_test_0123456789abcdef",
            "glpat-short",
            "npm_config_cache",
            "hf_hub_download",
            "bearer of news",
            "risk_live_share is a word",
            "eyJ",
            "",
        ]);
    }

    #[test]
    fn what_gives_the_right_to_a_request_is_taken_out() {
        assert_becomes(&[
            (
                "Authorization: Bearer abcdefghijklmnop0123",
                "Authorization: [redacted]",
            ),
            ("BEARER abcdefghijklmnop0123", "[redacted]"),
            (
                "curl -H 'authorization: Basic dXNlcjpwYXNz' http://x",
                "curl -H 'authorization: [redacted]' http://x",
            ),
            (
                r#"{"Authorization": "Basic dXNlcjpwYXNz"}"#,
                r#"{"Authorization": "[redacted]"}"#,
            ),
            ("postgres://bob:hunter2@db/x", "postgres://bob:[redacted]@db/x"),
            ("redis://:p:w@d@h, x", "redis://:[redacted]@h, x"),
            (
                "https://x-access-token:abcdefgh0@github.com/x",
                "https://x-access-token:[redacted]@github.com/x",
            ),
        ]);
        assert_stays(&[
            "Basic authentication",
            "Authorization: none is needed",
            "http://localhost:8080/@scope/name",
            "http://localhost:8080 and bob@example.com",
            "git@github.com:owner/name.git",
        ]);
    }

    #[test]
    fn what_is_given_as_a_secret_is_taken_out_and_its_name_stays() {
        assert_becomes(&[
            ("DB_PASSWORD=correcthorse", "DB_PASSWORD=[redacted]"),
            (
                "AWS_SECRET_ACCESS_KEY=abc/def+0123 X=1",
                "AWS_SECRET_ACCESS_KEY=[redacted] X=1",
            ),
            ("?api-key=0123456789", "?api-key=[redacted]"),
            ("--password=hunter2hunter2", "--password=[redacted]"),
            (
                "mysql --password hunter2hunter2 -h x",
                "mysql --password [redacted] -h x",
            ),
            ("--client-secret 'correcthorse'", "--client-secret '[redacted]'"),
            ("password: hunter2hunter2", "password: [redacted]"),
            ("Passwd: pass$word,or", "Passwd: [redacted]"),
            ("X-Api-Key: 0123456789abcdef", "X-Api-Key: [redacted]"),
            ("password = hunter2hunter2", "password = [redacted]"),
            ("token := \"abcdefgh\";", "token := \"[redacted]\";"),
            (
                "os.environ['DB_PASSWORD'] = 'abcdefgh'",
                "os.environ['DB_PASSWORD'] = '[redacted]'",
            ),
            (
                r#"{"clientSecret":"it\"s-secret","n":1}"#,
                r#"{"clientSecret":"[redacted]","n":1}"#,
            ),
            (
                r#""{\"token\": \"abcdefgh\", \"n\": 1}""#,
                r#""{\"token\": \"[redacted]\", \"n\": 1}""#,
            ),
            (r#"{"api_key": "cut-off"#, r#"{"api_key": "cut-off"#),
            (r#"{"api_key": "cut-off-0"#, r#"{"api_key": "[redacted]"#),
            ("token: secret: hunter2hunter2", "token: secret: [redacted]"),
            (
                "token:password=correcthorse passwort=é",
                "token:password=[redacted] passwort=é",
            ),
            ("secret=ünïcödé9 ä", "secret=[redacted] ä"),
        ]);
        assert_stays(&[
            "the token is checked",
            "password: required",
            "password: must-be-changed",
            "secret: ingredients",
            "a password needs 8 characters or more",
            "--password <PASSWORD>",
            "--token-file /run/secrets/0123456789",
            "password=short",
            "PASSWORD=$DB_PASSWORD",
            "export TOKEN=${GITHUB_TOKEN_2}",
            "f(token=self.token, secret=settings.secret)",
            "let token = tokens.get(0);",
            "token: Option<String>",
            "token: https://example.com/token",
            "max_tokens: 12345678",
            "token_type: abcdefgh0",
            "\"password\": \"at least 8 characters\"",
            "password=[redacted]",
        ]);
    }

    #[test]
    fn they_are_taken_out_of_all_texts_of_a_json_value() {
        let key = "rk_live_0123456789abcdef";
        assert_eq!(
            redact_json(json!({"output": [key, {"text": format!("it is {key}")}], "count": 1, "none": null})),
            json!({"output": ["[redacted]", {"text": "it is [redacted]"}], "count": 1, "none": null})
        );
    }

    #[test]
    fn the_texts_of_a_json_value_are_known_by_the_names_of_members_and_options_too() {
        assert_eq!(
            redact_json(json!({
                "password": "hunter2hunter2",
                "apiKey": " correcthorse\n",
                "headers": {"Authorization": "Basic dXNlcjpwYXNz"},
                "arguments": ["--user", "hunter2hunter2", "--db-password", "hunter2hunter2", "hunter2hunter2"],
                "secret": ["correcthorse", "password=hunter2hunter2"],
                "token": {"type": "hunter2hunter2", "count": 12_345_678},
                "max_tokens": "12345678",
                "Secret": "with a space",
            })),
            json!({
                "password": "[redacted]",
                "apiKey": "[redacted]",
                "headers": {"Authorization": "[redacted]"},
                "arguments": ["--user", "hunter2hunter2", "--db-password", "[redacted]", "hunter2hunter2"],
                "secret": ["correcthorse", "password=[redacted]"],
                "token": {"type": "hunter2hunter2", "count": 12_345_678},
                "max_tokens": "12345678",
                "Secret": "with a space",
            })
        );
    }

    /// Each begins something over and over that ends nowhere, or far behind: followed from each begin it would take minutes.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "what is looked through once and what is not differ in time alone"
    )]
    fn a_long_text_is_looked_through_once_whatever_it_begins() {
        let started = std::time::Instant::now();
        for part in [
            "token:abcdefghijklmnopqrstuvwxyz",
            "token=a/abcdefghijklmnopqrstuvwxyz",
            "token='ghp_0123456789abcdefghij-",
            "eyJ0123456789-ghp_0123456789abcdefghij-",
            "://u:ghp_0123456789abcdefghij,",
            "-----BEGIN ",
            "--a-",
            "bearer  ",
            "ä",
        ] {
            let text = part.repeat((1 << 19) / part.len());
            let is_clean = !part.contains("ghp_");
            assert_eq!(redact(&text) == text, is_clean, "{part}");
            assert!(
                started.elapsed().as_secs() < 60,
                "{part}: it takes less than a second"
            );
        }
    }

    #[test]
    fn each_form_of_a_secret_is_known() {
        assert_becomes(&[
            ("ot_live_0123456789abcdef", "[redacted]"),
            ("gho_0123456789abcdefghij0123", "[redacted]"),
            ("ghu_0123456789abcdefghij0123", "[redacted]"),
            ("ghs_0123456789abcdefghij0123", "[redacted]"),
            ("ghr_0123456789abcdefghij0123", "[redacted]"),
            ("github_pat_0123456789abcdefghij_0123", "[redacted]"),
            ("xoxb-0123456789-abcdefghij", "[redacted]"),
            ("xoxp-0123456789-abcdefghij", "[redacted]"),
            ("ASIAABCDEFGHIJKLMNOP", "[redacted]"),
            ("AIzaSyA0123456789abcdefghijklmnopqrstu", "[redacted]"),
            (
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\nxx\n-----END PGP PRIVATE KEY BLOCK----- b",
                "[redacted] b",
            ),
            ("Authorization: token abcdefghijkl", "Authorization: [redacted]"),
            ("passphrase=correcthorse", "passphrase=[redacted]"),
            ("private_key: abcdef0123", "private_key: [redacted]"),
            ("accessKey=0123456789", "accessKey=[redacted]"),
            ("secretKey => 'abcdefgh'", "secretKey => '[redacted]'"),
            ("apiKey = 0123456789", "apiKey = [redacted]"),
        ]);
        assert_eq!(
            redact_json(json!({"Authorization": "Bearer abcdefgh", "passphrase": "correcthorse"})),
            json!({"Authorization": "[redacted]", "passphrase": "[redacted]"})
        );
    }
}
