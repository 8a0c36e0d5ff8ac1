//! What the value of a member is, and what an editor takes of one. What is said of Codex, Gemini CLI and OpenCode was tried with them.

use super::super::editors::Id;
use super::super::json::Json;

/// What the value of a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Text,
    /// A text, which Codex wants not to be empty.
    Filled,
    Texts,
    /// An object of texts.
    Map,
    /// The same, but that VS Code takes numbers and `null` there: <https://code.visualstudio.com/docs/copilot/reference/mcp-configuration>
    Variables,
    /// Names of variables: texts, or with Codex objects with a name and where it is from, and nothing else.
    Names,
    /// A whole number above 0.
    Whole,
    /// The same, which TOML writes without a fraction.
    Count,
    /// A whole number, 0 or more, which TOML writes without a fraction.
    Milliseconds,
    /// A number of seconds, 0 or more.
    Seconds,
    /// A port.
    Port,
    Boolean,
    Object,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// An object in which these members have their shapes, and others have any.
    Fields(&'static [(&'static str, Shape)]),
    /// `false`, or such an object.
    FalseOrFields(&'static [(&'static str, Shape)]),
    /// An object of such objects.
    Each(&'static [(&'static str, Shape)]),
    /// The editors have it differently.
    Any,
}

/// How Codex is told whether it asks before a tool.
pub const MODES: [&str; 4] = ["auto", "prompt", "writes", "approve"];

/// What Codex has for each tool.
const OF_TOOL: [(&str, Shape); 2] = [
    ("approval_mode", Shape::OneOf(&MODES)),
    ("output_token_limit", Shape::Count),
];

/// How Codex signs in.
const SIGN_INS: [&str; 3] = ["oauth", "chatgpt", "ema_auth"];

/// By whom Gemini CLI signs in.
const PROVIDERS: [&str; 3] = [
    "dynamic_discovery",
    "google_credentials",
    "service_account_impersonation",
];

/// How Codex gives its secret.
const SECRETS: [&str; 2] = ["client_secret_basic", "client_secret_post"];

/// What Codex and OpenCode have for OAuth, each by its own names.
const OAUTH: [(&str, Shape); 11] = [
    ("client_id", Shape::Text),
    ("client_secret", Shape::Filled),
    ("callback_port", Shape::Port),
    ("callback_url", Shape::Text),
    ("authorization_server_issuer", Shape::Text),
    ("token_endpoint_auth_method", Shape::OneOf(&SECRETS)),
    ("clientId", Shape::Text),
    ("clientSecret", Shape::Text),
    ("scope", Shape::Text),
    ("redirectUri", Shape::Text),
    ("callbackPort", Shape::Port),
];

/// Where Codex has a variable from.
const SOURCES: [&str; 2] = ["local", "remote"];

/// More seconds than anybody waits, and fewer than any clock has.
const SECONDS_MAX: f64 = 1e7;

/// The largest whole number that JavaScript tells from the next one.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

impl Shape {
    /// Returns the shape that a member has with an editor.
    pub fn of_editor(self, key: &str, editor: Id) -> Self {
        match (key, editor) {
            ("auth", Id::Codex) => Self::OneOf(&SIGN_INS),
            ("oauth", Id::Codex) => Self::Fields(&OAUTH),
            ("oauth", Id::Opencode) => Self::FalseOrFields(&OAUTH),
            ("oauth" | "extension", Id::Gemini) => Self::Object,
            ("authProviderType", Id::Gemini) => Self::OneOf(&PROVIDERS),
            ("env_vars", Id::Codex) => Self::Names,
            ("tools", Id::Codex) => Self::Each(&OF_TOOL),
            (_, _) => self,
        }
    }

    pub fn is_of(self, value: &Json, editor: Id) -> bool {
        match (self, value) {
            (Self::Any, _) | (Self::Text, Json::Text(_)) | (Self::Object, Json::Object(_)) => true,
            (Self::Filled, Json::Text(text)) => editor != Id::Codex || !text.is_empty(),
            (Self::OneOf(texts), Json::Text(text)) => texts.contains(&text.as_str()),
            (Self::Texts | Self::Names, Json::List(list)) => {
                list.iter().all(|value| self.has("", value, editor))
            }
            (
                Self::Map | Self::Variables | Self::Fields(_) | Self::FalseOrFields(_) | Self::Each(_),
                Json::Object(members),
            ) => members.iter().all(|(key, value)| self.has(key, value, editor)),
            (Self::Whole, Json::Plain(plain)) => number(plain)
                .is_some_and(|number| (1.0..=WHOLE_MAX).contains(&number) && number.fract() == 0.0),
            (Self::Milliseconds, Json::Plain(plain)) => integer(plain).is_some_and(|number| number >= 0),
            (Self::Count, Json::Plain(plain)) => integer(plain).is_some_and(|number| number > 0),
            (Self::Port, Json::Plain(plain)) => {
                integer(plain).is_some_and(|number| (1..=65_535).contains(&number))
            }
            (Self::Seconds, Json::Plain(plain)) => {
                number(plain).is_some_and(|seconds| (0.0..=SECONDS_MAX).contains(&seconds))
            }
            (Self::Boolean, Json::Plain(plain)) => ["true", "false"].contains(&plain.as_str()),
            (Self::FalseOrFields(_), Json::Plain(plain)) => plain == "false",
            (_, Json::Plain(_) | Json::Text(_) | Json::List(_) | Json::Object(_)) => false,
        }
    }

    /// Tells whether a value of this shape may have another one in it, under a key if it is an object.
    fn has(self, key: &str, value: &Json, editor: Id) -> bool {
        let is_plain = |plain: &str| plain == "null" || plain.parse::<f64>().is_ok();
        match (self, value) {
            (Self::Fields(fields) | Self::FalseOrFields(fields), _) => {
                let field = fields.iter().find(|(known, _)| *known == key);
                field.is_none_or(|(_, shape)| shape.is_of(value, editor))
            }
            (Self::Each(fields), _) => Self::Fields(fields).is_of(value, editor),
            (Self::Names, Json::Object(members)) => {
                let source = value.get("source").and_then(Json::as_text);
                let is_named = value.get("name").and_then(Json::as_text).is_some();
                let is_known = |(key, _): &(String, Json)| key == "name" || key == "source";
                is_named
                    && members.iter().all(is_known)
                    && (value.get("source").is_none()
                        || source.is_some_and(|source| SOURCES.contains(&source)))
            }
            (Self::Variables, Json::Plain(plain)) => editor == Id::Vscode && is_plain(plain),
            (_, Json::Text(_)) => true,
            (_, Json::Plain(_) | Json::List(_) | Json::Object(_)) => false,
        }
    }

    /// Returns what of a value may be in one of this shape; nothing if there is nothing of it.
    pub fn part_of(self, value: &Json, editor: Id) -> Option<Json> {
        match (self, value) {
            (Self::Texts | Self::Names, Json::List(list)) => {
                let has = list.iter().filter(|value| self.has("", value, editor));
                let has: Vec<Json> = has.cloned().collect();
                (!has.is_empty()).then_some(Json::List(has))
            }
            (
                Self::Map | Self::Variables | Self::Fields(_) | Self::FalseOrFields(_) | Self::Each(_),
                Json::Object(members),
            ) => {
                let part = |(key, value): &(String, Json)| {
                    if self.has(key, value, editor) {
                        return Some((key.clone(), value.clone()));
                    }
                    let Self::Each(fields) = self else {
                        return None;
                    };
                    Some((key.clone(), Self::Fields(fields).part_of(value, editor)?))
                };
                let has: Vec<(String, Json)> = members.iter().filter_map(part).collect();
                (!has.is_empty()).then_some(Json::Object(has))
            }
            (_, Json::Plain(_) | Json::Text(_) | Json::List(_) | Json::Object(_)) => None,
        }
    }

    pub fn accepted(self, editor: Id) -> String {
        let accepted = match self {
            Self::Text => "a text",
            Self::Filled => "a text that is not empty",
            Self::Texts => "an array of texts",
            Self::Names => {
                "an array of names, or of objects with a name and a source, which is local or remote"
            }
            Self::Variables if editor == Id::Vscode => "an object of texts, numbers and null",
            Self::Map | Self::Variables => "an object of texts",
            Self::Whole => "a whole number above 0",
            Self::Count => "a whole number above 0, without a fraction",
            Self::Milliseconds => "a whole number from 0 on",
            Self::Seconds => "a number of seconds from 0 to 10,000,000",
            Self::Port => "a whole number from 1 to 65535",
            Self::Boolean => "true or false",
            Self::Object => "an object",
            Self::OneOf(texts) => return texts.join(", "),
            Self::Fields(fields) => return format!("an object, with {}", accepted_of(fields, editor)),
            Self::FalseOrFields(fields) => {
                return format!("false, or an object, with {}", accepted_of(fields, editor));
            }
            Self::Each(fields) => {
                return format!("an object of objects, with {}", accepted_of(fields, editor));
            }
            Self::Any => "whatever the editor takes",
        };
        accepted.to_owned()
    }
}

fn accepted_of(fields: &[(&str, Shape)], editor: Id) -> String {
    let accepted = fields
        .iter()
        .map(|(key, shape)| format!("{key}: {}", shape.accepted(editor)));
    accepted.collect::<Vec<_>>().join("; ")
}

/// Reads a number of JSON or TOML; none if it is not finite.
fn number(plain: &str) -> Option<f64> {
    let number: f64 = plain.replace('_', "").parse().ok()?;
    number.is_finite().then_some(number)
}

/// Reads a whole number that is written without a fraction or an exponent.
fn integer(plain: &str) -> Option<i64> {
    let plain = plain.replace('_', "");
    match plain.get(..2) {
        Some("0x") => i64::from_str_radix(&plain[2..], 16).ok(),
        Some("0o") => i64::from_str_radix(&plain[2..], 8).ok(),
        Some("0b") => i64::from_str_radix(&plain[2..], 2).ok(),
        Some(_) | None => plain.parse().ok(),
    }
}
