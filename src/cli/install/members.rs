//! The members of an entry by which an editor reaches relay: to which way of reaching it each belongs, and what its value is. What belongs
//! to another way, or has another shape, makes some editors refuse the whole file.
//!
//! Tried with the programs themselves: Codex starts with no member of the other way and none of another shape, and with some not without
//! another one; OpenCode and Gemini CLI
//! with none of another shape. Of the others it is what their makers' documents say: <https://code.claude.com/docs/en/mcp>,
//! <https://cursor.com/docs/context/mcp>, <https://code.visualstudio.com/docs/copilot/reference/mcp-configuration>,
//! <https://docs.windsurf.com/windsurf/cascade/mcp>, <https://zed.dev/docs/ai/mcp>.

mod shape;

use self::shape::{MODES, Shape};
use super::editors::Id;
use super::json::Json;
use crate::redact::redact;

/// The members that hold an address, each with some editors, the one first that counts where there are two: Gemini CLI has both of the first.
const ADDRESSES: [&str; 3] = ["httpUrl", "url", "serverUrl"];

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
    /// Tells how an editor reaches the server of an entry, if that has both a program and an address: Gemini CLI by the address, whatever the type
    /// says, and others as the type says, or else by the program. None if it has neither.
    pub fn of(entry: &Json, editor: Id) -> Option<Self> {
        let typed = entry.get("type").and_then(Json::as_text);
        let typed = TYPES.iter().find(|(name, _)| Some(*name) == typed);
        match (entry.get("command"), address(entry)) {
            (Some(_), Some(_)) if editor == Id::Gemini => Some(Self::Address),
            (Some(_), Some(_)) => Some(typed.map_or(Self::Command, |(_, way)| *way)),
            (Some(_), None) => Some(Self::Command),
            (None, Some(_)) => Some(Self::Address),
            (None, None) => None,
        }
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

const COMMAND: Belongs = Belongs::To(Way::Command);
const ADDRESS: Belongs = Belongs::To(Way::Address);
const BOTH: Belongs = Belongs::ToBoth;

/// The members that are known, beside those in [`REACHED_BY`]. Some editors have a value of another shape there.
const MEMBERS: [(&str, Belongs, Shape); 42] = [
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
    ("extension", BOTH, Shape::Any),
    ("timeout", BOTH, Shape::Whole),
    ("startup_timeout_sec", BOTH, Shape::Seconds),
    ("startup_timeout_ms", BOTH, Shape::Milliseconds),
    ("tool_timeout_sec", BOTH, Shape::Seconds),
    ("supports_parallel_tool_calls", BOTH, Shape::Boolean),
    ("alwaysLoad", BOTH, Shape::Boolean),
    ("environment_id", BOTH, Shape::Text),
    ("name", BOTH, Shape::Text),
    ("default_tools_approval_mode", BOTH, Shape::OneOf(&MODES)),
    ("tools", BOTH, Shape::Object),
    ("enabled_tools", BOTH, Shape::Texts),
    ("disabled_tools", BOTH, Shape::Texts),
    ("includeTools", BOTH, Shape::Texts),
    ("excludeTools", BOTH, Shape::Texts),
    ("disabledTools", BOTH, Shape::Texts),
    ("alwaysAllow", BOTH, Shape::Texts),
    ("autoApprove", BOTH, Shape::Texts),
];

/// What Gemini CLI takes beside how its server is reached; it complains of the file where there is anything else.
const OF_GEMINI: [&str; 14] = [
    "env",
    "cwd",
    "headers",
    "tcp",
    "timeout",
    "trust",
    "description",
    "includeTools",
    "excludeTools",
    "extension",
    "oauth",
    "authProviderType",
    "targetAudience",
    "targetServiceAccount",
];

/// By this Codex sends a token, so that no other header of the name [`AUTHORIZATION`] may be there.
const TOKEN_VARIABLE: &str = "bearer_token_env_var";

/// The header that carries a token.
const AUTHORIZATION: &str = "authorization";

/// The members that hold Codex's headers.
const HEADERS_BESIDE_VARIABLE: [&str; 2] = ["http_headers", "env_http_headers"];

/// What Codex and OpenCode have for OAuth.
const OAUTH: &str = "oauth";

/// What a member of Codex's OAuth is refused without.
#[derive(Debug)]
struct Need {
    field: &'static str,
    other: Needed,
}

#[derive(Debug)]
enum Needed {
    /// This value of `auth`.
    Auth(&'static str),
    /// Another member of OAuth, which is not empty.
    Field(&'static str),
}

const NEEDS: [Need; 4] = [
    Need {
        field: "authorization_server_issuer",
        other: Needed::Auth("ema_auth"),
    },
    Need {
        field: "token_endpoint_auth_method",
        other: Needed::Auth("ema_auth"),
    },
    Need {
        field: "token_endpoint_auth_method",
        other: Needed::Field("client_secret"),
    },
    Need {
        field: "client_secret",
        other: Needed::Field("client_id"),
    },
];

/// Returns the address in an entry.
pub fn address(entry: &Json) -> Option<&str> {
    let mut addresses = ADDRESSES.iter();
    addresses.find_map(|key| entry.get(key)?.as_text())
}

/// Returns the program that an entry starts.
pub fn program(entry: &Json) -> Option<&str> {
    let command = entry.get("command")?;
    command
        .as_text()
        .or_else(|| command.as_list()?.first()?.as_text())
}

/// Returns the program that an entry starts, and what follows it.
pub fn command(server: &Json) -> Vec<String> {
    let program = server.get("command");
    let words = |value: Option<&Json>| -> Vec<String> {
        let texts = value.and_then(Json::as_list).unwrap_or_default().iter();
        texts
            .filter_map(|word| word.as_text().map(str::to_owned))
            .collect()
    };
    let mut command: Vec<String> = program
        .and_then(Json::as_text)
        .map(str::to_owned)
        .into_iter()
        .collect();
    command.extend(words(program));
    command.extend(words(server.get("args")));
    command
}

/// The members by which an editor runs something else for an entry, or the entry's program otherwise.
const RUN: [&str; 2] = ["env", "headersHelper"];

/// Returns the members of an entry by which something else runs than relay as its own documents have it.
pub fn run_otherwise(entry: &Json) -> Vec<&'static str> {
    let is_relays = |value: &Json| {
        let Json::Object(variables) = value else {
            return false;
        };
        variables.iter().all(|(name, _)| name.starts_with("RELAY_"))
    };
    let mut members = RUN.to_vec();
    members.retain(|key| entry.get(key).is_some_and(|value| !is_relays(value)));
    members
}

/// Says how an entry's server is reached, as it is written there but for its secrets; nothing if it does not say so.
pub fn way(entry: &Json) -> Option<String> {
    let command = Some(command(entry).join(" ")).filter(|command| !command.is_empty());
    let way = command.or_else(|| address(entry).map(str::to_owned))?;
    Some(redact(&way).into_owned())
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
    let Some(way) = Way::of(new, editor) else {
        return;
    };
    let is_same_way = Way::of(old, editor) == Some(way);
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
    if editor == Id::Codex {
        keep_oauth(new);
    }
}

/// Takes out what Codex has for OAuth without what that needs, and what needs that.
fn keep_oauth(entry: &mut Json) {
    while let Some(need) = unmet(entry).next() {
        let Json::Object(members) = &mut *entry else {
            return;
        };
        let oauth = members.iter_mut().find(|(key, _)| key == OAUTH);
        if let Some((_, Json::Object(fields))) = oauth {
            fields.retain(|(key, _)| key != need.field);
        }
        members.retain(|(key, value)| key != OAUTH || *value != Json::Object(Vec::new()));
    }
}

/// Returns what Codex has for OAuth in an entry without what that needs.
fn unmet(entry: &Json) -> impl Iterator<Item = &'static Need> + use<> {
    let oauth = entry.get(OAUTH).cloned();
    let field = move |field: &str| oauth.as_ref().and_then(|oauth| oauth.get(field).cloned());
    let signs_in = entry.get("auth").and_then(Json::as_text).map(str::to_owned);
    NEEDS.iter().filter(move |need| {
        let is_met = match need.other {
            Needed::Auth(auth) => signs_in.as_deref() == Some(auth),
            Needed::Field(other) => field(other).is_some_and(|other| other != Json::text("")),
        };
        field(need.field).is_some() && !is_met
    })
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

/// Returns the members by which an entry says another way to its server than the one that its editor takes, as far as they are not in the one
/// that takes its place.
pub fn of_other_way(new: &Json, old: &Json, editor: Id) -> Vec<String> {
    let of_command = ["command", "args"];
    let others = match Way::of(old, editor) {
        Some(Way::Command) => ADDRESSES.as_slice(),
        Some(Way::Address) => &of_command,
        None => &[],
    };
    let is_gone = |key: &&&str| old.get(key).is_some() && new.get(key) != old.get(key);
    let gone = others.iter().filter(is_gone);
    gone.map(|key| (*key).to_owned()).collect()
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
    let way = Way::of(entry, editor);
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
    if editor == Id::Codex {
        flaws.extend(unmet(entry).map(|need| match need.other {
            Needed::Auth(auth) => format!("{OAUTH}.{} is taken with auth = {auth:?} alone", need.field),
            Needed::Field(other) => format!(
                "{OAUTH}.{} is taken with {OAUTH}.{other} alone, and not with an empty one",
                need.field
            ),
        }));
    }
    flaws
}

/// Says by what an entry is switched off, if it is; Gemini CLI has no such member.
pub fn switched_off(entry: &Json, editor: Id) -> Option<&'static str> {
    let says = |key: &str, value: &str| entry.get(key) == Some(&Json::Plain(value.to_owned()));
    let ways = [
        ("enabled is false", says("enabled", "false")),
        ("disabled is true", says("disabled", "true")),
    ];
    let way = ways
        .into_iter()
        .find(|(_, is_said)| *is_said && editor != Id::Gemini);
    way.map(|(way, _)| way)
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
    let known = MEMBERS.iter().find(|(known, _, _)| *known == key);
    if let Some((_, Belongs::To(other), _)) = known
        && *other != way
    {
        return Some(not_of(key, way));
    }
    if editor == Id::Gemini && !OF_GEMINI.contains(&key) {
        return Some(format!("{key} is not known to Gemini CLI"));
    }
    let (_, belongs, shape) = known?;
    match belongs {
        Belongs::ToNone => Some(format!("{key} is taken by no editor")),
        Belongs::To(_) | Belongs::ToBoth => {
            let shape = shape.of_editor(key, editor);
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
    let value = shape.of_editor(key, editor).part_of(value, editor)?;
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

#[cfg(test)]
mod tests;
