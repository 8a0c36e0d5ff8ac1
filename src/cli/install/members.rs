//! The members of an entry by which an editor reaches relay: to which way of reaching it each belongs, and what its value is. What belongs
//! to another way, or has another shape, makes some editors refuse the whole file.
//!
//! Tried with the programs themselves: Codex starts with no member of the other way and none of another shape; OpenCode and Gemini CLI
//! with none of another shape. Of the others it is what their makers' documents say: <https://code.claude.com/docs/en/mcp>,
//! <https://cursor.com/docs/context/mcp>, <https://code.visualstudio.com/docs/copilot/reference/mcp-configuration>,
//! <https://docs.windsurf.com/windsurf/cascade/mcp>, <https://zed.dev/docs/ai/mcp>.

use super::editors::Id;
use super::json::Json;

/// The members that hold an address, each with some editors.
const ADDRESSES: [&str; 3] = ["url", "httpUrl", "serverUrl"];

/// The members that say how relay is reached, beside the address; they are written anew by each installation.
const REACHED_BY: [&str; 4] = ["type", "command", "args", "source"];

/// What `type` may be, and to which way each belongs: those of relay's own entries, and what else the makers' documents name.
const TYPES: [(&str, Way); 8] = [
    ("stdio", Way::Command),
    ("local", Way::Command),
    ("sse", Way::Address),
    ("http", Way::Address),
    ("remote", Way::Address),
    ("streamable-http", Way::Address),
    ("streamableHttp", Way::Address),
    ("ws", Way::Address),
];

/// How an entry reaches its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It starts a program.
    Command,
    /// It has an address.
    Address,
}

impl Way {
    /// Tells how an entry reaches its server, by what is written there first of all; none if it does not say.
    pub fn of(entry: &Json) -> Option<Self> {
        if entry.get("command").is_some() {
            return Some(Self::Command);
        }
        address(entry).map(|_| Self::Address)
    }
}

/// To which way a member belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Belongs {
    To(Way),
    ToBoth,
    /// Codex knows it, and takes it from nobody.
    ToNone,
}

/// What the value of a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Texts,
    /// An object of texts.
    Map,
    /// The same, but that VS Code takes numbers and `null` there: <https://code.visualstudio.com/docs/copilot/reference/mcp-configuration>
    Variables,
    /// A whole number above 0.
    Whole,
    /// A number of seconds, 0 or more.
    Seconds,
    Boolean,
    Object,
    /// The editors have it differently.
    Any,
}

const COMMAND: Belongs = Belongs::To(Way::Command);
const ADDRESS: Belongs = Belongs::To(Way::Address);
const BOTH: Belongs = Belongs::ToBoth;

/// The members that are known, beside those in [`REACHED_BY`].
const MEMBERS: [(&str, Belongs, Shape); 40] = [
    ("env", COMMAND, Shape::Variables),
    ("environment", COMMAND, Shape::Variables),
    ("env_vars", COMMAND, Shape::Any),
    ("envFile", COMMAND, Shape::Text),
    ("cwd", COMMAND, Shape::Text),
    ("headers", ADDRESS, Shape::Map),
    ("headersHelper", ADDRESS, Shape::Text),
    ("http_headers", ADDRESS, Shape::Map),
    ("env_http_headers", ADDRESS, Shape::Map),
    (TOKEN_VARIABLE, ADDRESS, Shape::Text),
    ("bearer_token", Belongs::ToNone, Shape::Any),
    ("auth", ADDRESS, Shape::Any),
    ("authProviderType", ADDRESS, Shape::Text),
    ("oauth", ADDRESS, Shape::Any),
    ("oauth_resource", ADDRESS, Shape::Text),
    ("scopes", ADDRESS, Shape::Texts),
    ("targetAudience", ADDRESS, Shape::Text),
    ("targetServiceAccount", ADDRESS, Shape::Text),
    ("tcp", ADDRESS, Shape::Text),
    ("enabled", BOTH, Shape::Boolean),
    ("disabled", BOTH, Shape::Boolean),
    ("required", BOTH, Shape::Boolean),
    ("trust", BOTH, Shape::Boolean),
    ("description", BOTH, Shape::Text),
    ("timeout", BOTH, Shape::Whole),
    ("startup_timeout_sec", BOTH, Shape::Seconds),
    ("startup_timeout_ms", BOTH, Shape::Whole),
    ("tool_timeout_sec", BOTH, Shape::Seconds),
    ("supports_parallel_tool_calls", BOTH, Shape::Boolean),
    ("alwaysLoad", BOTH, Shape::Boolean),
    ("environment_id", BOTH, Shape::Text),
    ("name", BOTH, Shape::Text),
    ("tools", BOTH, Shape::Object),
    ("enabled_tools", BOTH, Shape::Texts),
    ("disabled_tools", BOTH, Shape::Texts),
    ("includeTools", BOTH, Shape::Texts),
    ("excludeTools", BOTH, Shape::Texts),
    ("disabledTools", BOTH, Shape::Texts),
    ("alwaysAllow", BOTH, Shape::Texts),
    ("autoApprove", BOTH, Shape::Texts),
];

/// More seconds than anybody waits, and fewer than any clock has.
const SECONDS_MAX: f64 = 1e7;

/// By this Codex sends a token, so that no other header of the name [`AUTHORIZATION`] may be there.
const TOKEN_VARIABLE: &str = "bearer_token_env_var";

/// The header that carries a token.
const AUTHORIZATION: &str = "authorization";

/// The members that hold Codex's headers.
const HEADERS_BESIDE_VARIABLE: [&str; 2] = ["http_headers", "env_http_headers"];

/// Returns the address in an entry.
pub fn address(entry: &Json) -> Option<&str> {
    let mut addresses = ADDRESSES.iter();
    addresses.find_map(|key| entry.get(key)?.as_text())
}

/// Returns what the environment of its command is called in an entry: OpenCode, whose commands are lists, has another word than all others.
pub fn environment(entry: &Json) -> &'static str {
    let is_list = |command: &Json| command.as_list().is_some();
    if entry.get("command").is_some_and(is_list) {
        "environment"
    } else {
        "env"
    }
}

/// Adds to a new entry what a person has added to the old one, as far as its editor takes that beside how relay is reached now: of an entry
/// that reached it in another way, what belongs to both.
pub fn keep(new: &mut Json, old: &Json, editor: Id) {
    let Some(way) = Way::of(new) else {
        return;
    };
    let is_same_way = Way::of(old) == Some(way);
    let unknown = other_environment(new);
    let (Json::Object(members), Json::Object(old_members)) = (&mut *new, old) else {
        return;
    };
    for (key, value) in old_members.iter().filter(|(key, _)| key != unknown) {
        if !is_same_way && belongs(key) != Some(BOTH) {
            continue;
        }
        let Some(value) = taken(way, key, value, editor) else {
            continue;
        };
        match members.iter_mut().find(|(known, _)| known == key) {
            // Such as the headers: a token that was copied there gives way to the variable that holds it.
            Some((_, new)) => add_missing_headers(new, &value),
            None if says_way(key) => {}
            None => members.push((key.clone(), value)),
        }
    }
    if members.iter().any(|(key, _)| key == TOKEN_VARIABLE) {
        for (_, value) in members.iter_mut().filter(|(key, _)| holds_headers(key)) {
            if let Json::Object(headers) = value {
                headers.retain(|(name, _)| !name.eq_ignore_ascii_case(AUTHORIZATION));
            }
        }
        members.retain(|(key, value)| !holds_headers(key) || *value != Json::Object(Vec::new()));
    }
}

/// Tells whether an entry has the same members as another one beside those that say how its server is reached.
pub fn same_beside_way(entry: &Json, other: &Json) -> bool {
    let beside_way = |entry: &Json| match entry {
        Json::Object(members) => {
            let members = members.iter().filter(|(key, _)| !says_way(key));
            Json::Object(members.cloned().collect())
        }
        Json::Plain(_) | Json::Text(_) | Json::List(_) => entry.clone(),
    };
    beside_way(entry).same(&beside_way(other))
}

/// Says what keeps an editor from taking an entry, or has no effect there, a line for each.
pub fn flaws(entry: &Json, editor: Id) -> Vec<String> {
    let Json::Object(members) = entry else {
        return vec!["it is something else than an object".to_owned()];
    };
    let mut flaws = Vec::new();
    if entry.get("command").is_some() && address(entry).is_some() {
        flaws.push("it has both a command and an address".to_owned());
    }
    let way = Way::of(entry);
    flaws.extend(way.and_then(|way| flaw_of_type(entry, way)));
    flaws.extend(way.into_iter().flat_map(|way| {
        let others = members.iter().filter(|(key, _)| !says_way(key));
        others.filter_map(move |(key, value)| flaw(way, key, value, editor))
    }));
    let unknown = other_environment(entry);
    if way == Some(Way::Command) && entry.get(unknown).is_some() {
        flaws.push(format!("{unknown} is what another editor calls it"));
    }
    if way == Some(Way::Address) && entry.get("args").is_some() {
        flaws.push(not_of("args", Way::Address));
    }
    let names = |(_, headers): &(String, Json)| match headers {
        Json::Object(headers) => headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION)),
        Json::Plain(_) | Json::Text(_) | Json::List(_) => false,
    };
    let mut headers = members.iter().filter(|(key, _)| holds_headers(key));
    if entry.get(TOKEN_VARIABLE).is_some() && headers.any(names) {
        flaws.push(format!(
            "it sends Authorization beside what {TOKEN_VARIABLE} has sent"
        ));
    }
    flaws
}

/// Returns what the environment of a command is called elsewhere: Gemini CLI complains of one that it does not know.
fn other_environment(entry: &Json) -> &'static str {
    if environment(entry) == "env" {
        "environment"
    } else {
        "env"
    }
}

fn says_way(key: &str) -> bool {
    REACHED_BY.contains(&key) || ADDRESSES.contains(&key)
}

/// Says what is wrong with the type of an entry that reaches relay in a way.
fn flaw_of_type(entry: &Json, way: Way) -> Option<String> {
    let said = entry.get("type")?.as_text()?;
    let (_, other) = TYPES.iter().find(|(known, _)| *known == said)?;
    (*other != way).then(|| not_of(&format!("type {said:?}"), way))
}

/// Says what is wrong with a member beside a way of reaching relay.
fn flaw(way: Way, key: &str, value: &Json, editor: Id) -> Option<String> {
    let (_, belongs, shape) = MEMBERS.iter().find(|(known, _, _)| *known == key)?;
    match belongs {
        Belongs::ToNone => Some(format!("{key} is taken by no editor")),
        Belongs::To(other) if *other != way => Some(not_of(key, way)),
        Belongs::To(_) | Belongs::ToBoth => {
            let accepted = shape.accepted(editor);
            (!shape.is_of(value, editor)).then(|| format!("{key} is something else; accepted: {accepted}"))
        }
    }
}

/// Returns what of a member an editor takes beside a way of reaching relay; nothing if there is nothing of it.
fn taken(way: Way, key: &str, value: &Json, editor: Id) -> Option<Json> {
    if flaw(way, key, value, editor).is_none() {
        return Some(value.clone());
    }
    let (_, _, shape) = MEMBERS.iter().find(|(known, _, _)| *known == key)?;
    let value = shape.part_of(value, editor)?;
    flaw(way, key, &value, editor).is_none().then_some(value)
}

fn not_of(key: &str, way: Way) -> String {
    let (has, wants) = match way {
        Way::Command => ("a command", "an address"),
        Way::Address => ("an address", "a command"),
    };
    format!("it has {has}, and {key} belongs to {wants}")
}

fn belongs(key: &str) -> Option<Belongs> {
    let known = MEMBERS.iter().find(|(known, _, _)| *known == key);
    known.map(|(_, belongs, _)| *belongs)
}

fn holds_headers(key: &str) -> bool {
    HEADERS_BESIDE_VARIABLE.contains(&key)
}

/// Adds the headers that are not there, whatever the case of their names.
fn add_missing_headers(headers: &mut Json, others: &Json) {
    let (Json::Object(headers), Json::Object(others)) = (headers, others) else {
        return;
    };
    for (name, value) in others {
        if headers.iter().all(|(known, _)| !known.eq_ignore_ascii_case(name)) {
            headers.push((name.clone(), value.clone()));
        }
    }
}

/// Reads a number of JSON or TOML; none if it is not finite.
fn number(plain: &str) -> Option<f64> {
    let number: f64 = plain.replace('_', "").parse().ok()?;
    number.is_finite().then_some(number)
}

impl Shape {
    fn is_of(self, value: &Json, editor: Id) -> bool {
        match (self, value) {
            (Self::Any, _) | (Self::Text, Json::Text(_)) | (Self::Object, Json::Object(_)) => true,
            (Self::Texts, Json::List(list)) => list.iter().all(|value| self.has(value, editor)),
            (Self::Map | Self::Variables, Json::Object(members)) => {
                members.iter().all(|(_, value)| self.has(value, editor))
            }
            (Self::Whole, Json::Plain(plain)) => {
                number(plain).is_some_and(|number| number >= 1.0 && number.fract() == 0.0)
            }
            (Self::Seconds, Json::Plain(plain)) => {
                number(plain).is_some_and(|seconds| (0.0..=SECONDS_MAX).contains(&seconds))
            }
            (Self::Boolean, Json::Plain(plain)) => ["true", "false"].contains(&plain.as_str()),
            (
                Self::Text
                | Self::Texts
                | Self::Map
                | Self::Variables
                | Self::Whole
                | Self::Seconds
                | Self::Boolean
                | Self::Object,
                Json::Plain(_) | Json::Text(_) | Json::List(_) | Json::Object(_),
            ) => false,
        }
    }

    /// Tells whether a value of this shape may have another one in it.
    fn has(self, value: &Json, editor: Id) -> bool {
        let is_plain = |plain: &str| plain == "null" || plain.parse::<f64>().is_ok();
        match value {
            Json::Text(_) => true,
            Json::Plain(plain) => self == Self::Variables && editor == Id::Vscode && is_plain(plain),
            Json::List(_) | Json::Object(_) => false,
        }
    }

    /// Returns what of a value may be in one of this shape; nothing if there is nothing of it.
    fn part_of(self, value: &Json, editor: Id) -> Option<Json> {
        match (self, value) {
            (Self::Texts, Json::List(list)) => {
                let has = list.iter().filter(|value| self.has(value, editor));
                let has: Vec<Json> = has.cloned().collect();
                (!has.is_empty()).then_some(Json::List(has))
            }
            (Self::Map | Self::Variables, Json::Object(members)) => {
                let has = members.iter().filter(|(_, value)| self.has(value, editor));
                let has: Vec<(String, Json)> = has.cloned().collect();
                (!has.is_empty()).then_some(Json::Object(has))
            }
            (
                Self::Text
                | Self::Texts
                | Self::Map
                | Self::Variables
                | Self::Whole
                | Self::Seconds
                | Self::Boolean
                | Self::Object
                | Self::Any,
                Json::Plain(_) | Json::Text(_) | Json::List(_) | Json::Object(_),
            ) => None,
        }
    }

    fn accepted(self, editor: Id) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Texts => "an array of texts",
            Self::Variables if editor == Id::Vscode => "an object of texts, numbers and null",
            Self::Map | Self::Variables => "an object of texts",
            Self::Whole => "a whole number above 0",
            Self::Seconds => "a number of seconds from 0 to 10,000,000",
            Self::Boolean => "true or false",
            Self::Object => "an object",
            Self::Any => "whatever the editor takes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::{Step, get};
    use super::*;

    fn json(text: &str) -> Json {
        let found = get(text, &[] as &[Step<'_>]).expect("it is JSON");
        found.expect("it has a root")
    }

    const COMMAND: &str = r#"{"command": "relay", "args": ["mcp"]}"#;
    const ADDRESS: &str = r#"{"url": "http://localhost:7331/mcp"}"#;

    /// What is kept in a new entry of an old one.
    fn kept(new: &str, old: &str, editor: Id) -> Json {
        let mut new = json(new);
        keep(&mut new, &json(old), editor);
        new
    }

    #[test]
    fn of_an_old_entry_stays_what_its_editor_takes_beside_the_new_way() {
        let (url, program) = (
            r#""url": "http://localhost:7331/mcp""#,
            r#""command": "relay", "args": ["mcp"]"#,
        );
        for (new, old, expected) in [
            // Of the same way all that belongs to it, and what is not known.
            (
                ADDRESS,
                r#"{"url": "x", "headers": {"A": "b"}, "timeout": 5, "mine": 1}"#,
                format!(r#"{{{url}, "headers": {{"A": "b"}}, "timeout": 5, "mine": 1}}"#),
            ),
            (
                COMMAND,
                r#"{"command": "x", "env": {"A": "b"}, "cwd": "/", "enabled": false}"#,
                format!(r#"{{{program}, "env": {{"A": "b"}}, "cwd": "/", "enabled": false}}"#),
            ),
            // Of the other way what belongs to both.
            (
                ADDRESS,
                r#"{"command": "x", "env": {"A": "b"}, "cwd": "/", "enabled": false, "mine": 1}"#,
                format!(r#"{{{url}, "enabled": false}}"#),
            ),
            (
                COMMAND,
                r#"{"url": "x", "http_headers": {"A": "b"}, "startup_timeout_sec": 5.5, "tools": {"a": {"b": "c"}}}"#,
                format!(r#"{{{program}, "startup_timeout_sec": 5.5, "tools": {{"a": {{"b": "c"}}}}}}"#),
            ),
            // What belongs to the other way is not kept of an entry that mixes them.
            (
                COMMAND,
                r#"{"command": "x", "url": "y", "http_headers": {"A": "b"}, "oauth": true, "env": {"A": "b"}}"#,
                format!(r#"{{{program}, "env": {{"A": "b"}}}}"#),
            ),
            (
                ADDRESS,
                r#"{"url": "x", "args": ["y"], "env": {}, "environment": {}, "env_vars": [], "cwd": "/", "bearer_token": "z"}"#,
                format!("{{{url}}}"),
            ),
            // Each editor has its own word for the environment.
            (
                COMMAND,
                r#"{"command": "x", "env": {"A": "b"}, "environment": {"C": "d"}}"#,
                format!(r#"{{{program}, "env": {{"A": "b"}}}}"#),
            ),
            (
                r#"{"type": "local", "command": ["relay"]}"#,
                r#"{"command": ["x"], "env": {"A": "b"}, "environment": {"C": "d"}}"#,
                r#"{"type": "local", "command": ["relay"], "environment": {"C": "d"}}"#.to_owned(),
            ),
            // Nor what has another shape.
            (
                ADDRESS,
                r#"{"url": "x", "headers": 3, "timeout": "5", "enabled": "yes", "tools": [], "includeTools": "a"}"#,
                format!("{{{url}}}"),
            ),
            (
                COMMAND,
                r#"{"command": "x", "env": {"A": 1}}"#,
                format!("{{{program}}}"),
            ),
            // Of several values those stay that have the right one.
            (
                COMMAND,
                r#"{"command": "x", "env": {"A": 1, "RELAY_AGENT": "dev-a", "B": null}, "includeTools": ["a", 2]}"#,
                format!(r#"{{{program}, "env": {{"RELAY_AGENT": "dev-a"}}, "includeTools": ["a"]}}"#),
            ),
            (
                ADDRESS,
                r#"{"url": "x", "headers": {"A": "b", "C": true}}"#,
                format!(r#"{{{url}, "headers": {{"A": "b"}}}}"#),
            ),
            // A token is sent once.
            (
                r#"{"url": "http://localhost:7331/mcp", "headers": {"Authorization": "new"}}"#,
                r#"{"url": "x", "headers": {"authorization": "old", "A": "b"}}"#,
                format!(r#"{{{url}, "headers": {{"Authorization": "new", "A": "b"}}}}"#),
            ),
            (
                r#"{"url": "http://localhost:7331/mcp", "bearer_token_env_var": "RELAY_TOKEN"}"#,
                r#"{"url": "x", "http_headers": {"AUTHORIZATION": "old"}, "env_http_headers": {"Authorization": "B", "A": "B"}}"#,
                format!(
                    r#"{{{url}, "bearer_token_env_var": "RELAY_TOKEN", "env_http_headers": {{"A": "B"}}}}"#
                ),
            ),
        ] {
            let kept = kept(new, old, Id::Claude);
            assert!(kept.same(&json(&expected)), "{old} becomes {kept:?}");
            assert_eq!(flaws(&kept, Id::Claude), [] as [&str; 0], "{old}");
        }
    }

    #[test]
    fn an_entry_that_its_editor_refuses_says_why() {
        for (entry, expected) in [
            (COMMAND, &[][..]),
            (ADDRESS, &[]),
            (r#"{"url": "x", "mine": [], "headers": {}}"#, &[]),
            ("3", &["it is something else than an object"]),
            (
                r#"{"command": "x", "url": "y"}"#,
                &["it has both a command and an address"],
            ),
            (
                r#"{"url": "y", "env": {"A": "b"}, "args": []}"#,
                &[
                    "it has an address, and env belongs to a command",
                    "it has an address, and args belongs to a command",
                ],
            ),
            (
                r#"{"command": "y", "http_headers": {"A": "b"}}"#,
                &["it has a command, and http_headers belongs to an address"],
            ),
            (
                r#"{"url": "y", "bearer_token": "x", "timeout": "5"}"#,
                &[
                    "bearer_token is taken by no editor",
                    "timeout is something else; accepted: a whole number above 0",
                ],
            ),
            (
                r#"{"url": "y", "bearer_token_env_var": "X", "env_http_headers": {"authorization": "Y"}}"#,
                &["it sends Authorization beside what bearer_token_env_var has sent"],
            ),
            (
                r#"{"type": "stdio", "url": "y"}"#,
                &[r#"it has an address, and type "stdio" belongs to a command"#],
            ),
            (
                r#"{"type": "local", "url": "y"}"#,
                &[r#"it has an address, and type "local" belongs to a command"#],
            ),
            (
                r#"{"type": "http", "command": "x"}"#,
                &[r#"it has a command, and type "http" belongs to an address"#],
            ),
            (
                r#"{"type": "remote", "command": ["x"]}"#,
                &[r#"it has a command, and type "remote" belongs to an address"#],
            ),
            (r#"{"type": "mine", "url": "y"}"#, &[]),
            (
                r#"{"command": "x", "environment": {}}"#,
                &["environment is what another editor calls it"],
            ),
            (
                r#"{"command": ["x"], "env": {}}"#,
                &["env is what another editor calls it"],
            ),
            (
                r#"{"url": "y", "environment": {}}"#,
                &["it has an address, and environment belongs to a command"],
            ),
        ] {
            assert_eq!(flaws(&json(entry), Id::Claude), expected, "{entry}");
        }
    }

    /// Where members belong by what their makers' documents say, what each takes, such a value and another one, and the members.
    type Documented<'a> = (&'a [Way], &'a str, &'a str, &'a str, &'a [&'a str]);

    const DOCUMENTED: [Documented<'_>; 13] = [
        (&[Way::Command], "a text", r#""x""#, "[]", &["envFile", "cwd"]),
        (
            &[Way::Command],
            "an object of texts",
            r#"{"A": "b"}"#,
            "3",
            &["env"],
        ),
        (&[Way::Command], "", r#"["x"]"#, "", &["env_vars"]),
        (
            &[Way::Address],
            "a text",
            r#""x""#,
            "{}",
            &[
                "headersHelper",
                TOKEN_VARIABLE,
                "authProviderType",
                "oauth_resource",
                "targetAudience",
                "targetServiceAccount",
                "tcp",
            ],
        ),
        (
            &[Way::Address],
            "an object of texts",
            r#"{"A": "b"}"#,
            r#""x""#,
            &["headers", "http_headers", "env_http_headers"],
        ),
        (
            &[Way::Address],
            "an array of texts",
            r#"["x"]"#,
            r#""x""#,
            &["scopes"],
        ),
        (&[Way::Address], "", r#"{"x": true}"#, "", &["auth", "oauth"]),
        (
            &[Way::Command, Way::Address],
            "true or false",
            "true",
            r#""true""#,
            &[
                "enabled",
                "disabled",
                "required",
                "trust",
                "supports_parallel_tool_calls",
                "alwaysLoad",
            ],
        ),
        (
            &[Way::Command, Way::Address],
            "a text",
            r#""x""#,
            "3",
            &["description", "environment_id", "name"],
        ),
        (
            &[Way::Command, Way::Address],
            "a whole number above 0",
            "5",
            "0",
            &["timeout", "startup_timeout_ms"],
        ),
        (
            &[Way::Command, Way::Address],
            "a number of seconds from 0 to 10,000,000",
            "5.5",
            "-1",
            &["startup_timeout_sec", "tool_timeout_sec"],
        ),
        (
            &[Way::Command, Way::Address],
            "an object",
            r#"{"x": {}}"#,
            "[]",
            &["tools"],
        ),
        (
            &[Way::Command, Way::Address],
            "an array of texts",
            r#"["x"]"#,
            "true",
            &[
                "enabled_tools",
                "disabled_tools",
                "includeTools",
                "excludeTools",
                "disabledTools",
                "alwaysAllow",
                "autoApprove",
            ],
        ),
    ];

    #[test]
    fn a_number_is_one_that_no_editor_refuses() {
        let (whole, seconds) = (Shape::Whole, Shape::Seconds);
        for (shape, taken) in [
            (whole, &["1", "5.0", "1_000"][..]),
            (seconds, &["0", "0.5", "1e7"]),
        ] {
            for plain in taken {
                assert!(
                    shape.is_of(&Json::Plain((*plain).to_owned()), Id::Codex),
                    "{plain}"
                );
            }
        }
        for (shape, refused) in [
            (whole, &["0", "-1", "1.5", "true"][..]),
            (seconds, &["-0.5", "nan", "inf", "1e30"]),
        ] {
            for plain in refused {
                assert!(
                    !shape.is_of(&Json::Plain((*plain).to_owned()), Id::Codex),
                    "{plain}"
                );
            }
        }
    }

    #[test]
    fn each_member_stays_where_its_maker_takes_it_and_is_named_elsewhere() {
        // That of OpenCode's commands is beside a list, and no editor takes the other.
        let mut seen = vec!["environment", "bearer_token"];
        let with = |entry: &str, key: &str, value: &str| {
            format!(r#"{}, "{key}": {value}}}"#, entry.trim_end_matches('}'))
        };
        for (ways, accepted, right, wrong, keys) in DOCUMENTED {
            for &key in keys {
                seen.push(key);
                for (way, entry, other) in
                    [(Way::Command, COMMAND, ADDRESS), (Way::Address, ADDRESS, COMMAND)]
                {
                    let (said, is_taken) = (with(entry, key, right), ways.contains(&way));
                    let of_this = kept(entry, &said, Id::Claude);
                    assert_eq!(of_this.get(key), is_taken.then(|| json(right)).as_ref(), "{said}");
                    let of_other = kept(entry, &with(other, key, right), Id::Claude);
                    assert_eq!(of_other.get(key).is_some(), ways.len() == 2, "{key} in {entry}");
                    let flaw = (!is_taken).then(|| not_of(key, way));
                    assert_eq!(flaws(&json(&said), Id::Claude), Vec::from_iter(flaw), "{said}");
                    if !is_taken || accepted.is_empty() {
                        continue;
                    }
                    let said = with(entry, key, wrong);
                    assert_eq!(kept(entry, &said, Id::Claude), json(entry), "{said}");
                    let flaw = format!("{key} is something else; accepted: {accepted}");
                    assert_eq!(flaws(&json(&said), Id::Claude), [flaw], "{said}");
                }
            }
        }
        let mut known = MEMBERS.map(|(key, _, _)| key);
        known.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, known, "all that is known is documented");
    }

    #[test]
    fn each_type_is_named_beside_the_other_way_alone() {
        let addresses = ["sse", "http", "remote", "streamable-http", "streamableHttp", "ws"];
        for (said, _) in TYPES {
            for (way, entry) in [(Way::Command, COMMAND), (Way::Address, ADDRESS)] {
                let is_right = addresses.contains(&said) == (way == Way::Address);
                let entry = json(&entry.replacen('{', &format!(r#"{{"type": "{said}", "#), 1));
                let flaw = (!is_right).then(|| not_of(&format!("type {said:?}"), way));
                assert_eq!(flaws(&entry, Id::Claude), Vec::from_iter(flaw), "{said}");
            }
        }
    }

    #[test]
    fn vs_code_takes_numbers_and_null_as_variables_and_others_do_not() {
        let old = r#"{"command": "x", "env": {"A": 1.5, "B": null, "C": "d", "E": true}}"#;
        for (editor, env) in [
            (Id::Vscode, r#"{"A": 1.5, "B": null, "C": "d"}"#),
            (Id::Claude, r#"{"C": "d"}"#),
        ] {
            let kept = kept(COMMAND, old, editor);
            assert_eq!(kept.get("env"), Some(&json(env)), "{editor:?}");
            assert_eq!(flaws(&kept, editor), [] as [&str; 0], "{editor:?}");
        }
        let said = |editor| flaws(&json(old), editor);
        assert_eq!(
            said(Id::Vscode),
            ["env is something else; accepted: an object of texts, numbers and null"]
        );
        assert_eq!(
            said(Id::Codex),
            ["env is something else; accepted: an object of texts"]
        );
    }
}
