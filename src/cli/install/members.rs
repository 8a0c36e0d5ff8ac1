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

/// Returns the members beside how relay is reached that are in an entry and not, or not whole, in the one that takes its place.
pub fn left_out(new: &Json, old: &Json) -> Vec<String> {
    let Json::Object(members) = old else {
        return Vec::new();
    };
    let is_whole = |key: &str, value: &Json| match (new.get(key), value) {
        (Some(new), Json::Object(values)) => {
            let mut values = values.iter();
            values.all(|(name, value)| new.get(name).is_some_and(|new| new.same(value)))
        }
        (Some(new), Json::Plain(_) | Json::Text(_) | Json::List(_)) => new.same(value),
        (None, _) => false,
    };
    let left_out = members
        .iter()
        .filter(|(key, value)| !says_way(key) && !is_whole(key, value));
    left_out.map(|(key, _)| key.clone()).collect()
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
mod tests;
