//! What `.relay/config.json` says of workers, as `{"workers": {...}}`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::Cli;
use super::table::{PLACEHOLDERS, placeholders};
use crate::terminal::preview;

/// Most characters of a value that an error repeats.
const SHOWN_CHARACTERS: usize = 60;

/// What is said of workers. Without a file nothing is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Directories in which workers may work beside relay's own.
    pub directories: Vec<PathBuf>,
    overrides: BTreeMap<Cli, Override>,
}

/// What is other in a CLI's command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Override {
    /// The program, by name or path, and what follows it before relay's own arguments.
    pub command: Option<Vec<String>>,
    /// What stands in place of relay's own arguments; see [`super::table`] for what is put in place of `{prompt}` and the like.
    pub arguments: Option<Vec<String>>,
    /// What is set in its environment.
    pub env: BTreeMap<String, String>,
}

/// A file is not as it should be. No worker is started by what is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {flaw}", file.display())]
pub struct ConfigError {
    file: PathBuf,
    flaw: Flaw,
}

/// What is wrong in a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Flaw {
    /// It is no JSON.
    #[error(
        "line {line}, column {column}: no JSON {what}; accepted: an object, such as {{\"workers\": {{…}}}}"
    )]
    NoJson {
        line: usize,
        column: usize,
        what: &'static str,
    },
    /// A value is another one than it may be.
    #[error("{place} is {value}; accepted: {accepted}")]
    Value {
        place: String,
        value: String,
        accepted: String,
    },
    /// A name has no meaning there.
    #[error("{place} has {name:?}; accepted: {accepted}")]
    Name {
        place: String,
        name: String,
        accepted: String,
    },
    /// Something is to be put in place that relay does not know.
    #[error("{place} is {value}, and {{{name}}} stands for nothing; accepted: {accepted}")]
    Placeholder {
        place: String,
        value: String,
        name: String,
        accepted: String,
    },
}

impl Config {
    /// Takes what is in a file; its paths count from the directory that holds `.relay`. What it says of other things is of others.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: it is no JSON, or says something else of workers.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self, ConfigError> {
        let base = file.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        parse(bytes, base).map_err(|flaw| ConfigError {
            file: file.to_owned(),
            flaw,
        })
    }

    /// Returns what is other for a CLI.
    pub fn of(&self, cli: Cli) -> Option<&Override> {
        self.overrides.get(&cli)
    }
}

fn parse(bytes: &[u8], base: &Path) -> Result<Config, Flaw> {
    let whole: Value = serde_json::from_slice(bytes).map_err(|error| Flaw::NoJson {
        line: error.line(),
        column: error.column(),
        what: if error.is_eof() {
            "ends there"
        } else {
            "goes on so there"
        },
    })?;
    let whole = object("the file", &whole, "an object, such as {\"workers\": {…}}")?;
    let mut config = Config::default();
    let Some(workers) = whole.get("workers") else {
        return Ok(config);
    };
    let clis = Cli::ALL.map(Cli::as_str).join(", ");
    let accepted = format!("directories, {clis}");
    for (name, value) in object("workers", workers, &format!("an object with any of {accepted}"))? {
        let place = format!("workers.{name}");
        if name == "directories" {
            let accepted = "a list of paths, [\"PATH\", …]";
            let paths = texts(&place, value, accepted)?;
            config.directories = paths.iter().map(|path| base.join(path)).collect();
        } else if let Ok(cli) = name.parse() {
            config.overrides.insert(cli, an_override(&place, value)?);
        } else {
            return Err(unknown("workers", name, accepted));
        }
    }
    Ok(config)
}

/// Takes what is other in a CLI's command line.
fn an_override(place: &str, value: &Value) -> Result<Override, Flaw> {
    const MEMBERS: &str = "command, arguments, env";
    let mut other = Override::default();
    for (name, value) in object(place, value, &format!("an object with any of {MEMBERS}"))? {
        let at = format!("{place}.{name}");
        match name.as_str() {
            "command" => other.command = Some(command(&at, value)?),
            "arguments" => other.arguments = Some(arguments(&at, value)?),
            "env" => other.env = env(&at, value)?,
            _ => return Err(unknown(place, name, MEMBERS.to_owned())),
        }
    }
    Ok(other)
}

/// Takes a program and what follows it, in which nothing is put in place.
fn command(place: &str, value: &Value) -> Result<Vec<String>, Flaw> {
    let accepted = "a program and what follows it, [\"PROGRAM\", \"ARGUMENT\", …]";
    let command = texts(place, value, accepted)?;
    if command.first().is_none_or(String::is_empty) {
        return Err(other_value(place, value, accepted));
    }
    let stand_for_something = |name: &str| PLACEHOLDERS.contains(&name);
    for (at, text) in command.iter().enumerate() {
        if placeholders(text).any(stand_for_something) {
            let accepted = "a text as it is; what is to be put in place stands under arguments";
            return Err(other_value(&format!("{place}[{at}]"), &value[at], accepted));
        }
    }
    Ok(command)
}

/// Takes arguments, in which relay puts something in place.
fn arguments(place: &str, value: &Value) -> Result<Vec<String>, Flaw> {
    let arguments = texts(place, value, "a list of texts, [\"ARGUMENT\", …]")?;
    for (at, text) in arguments.iter().enumerate() {
        if let Some(name) = placeholders(text).find(|name| !PLACEHOLDERS.contains(name)) {
            let known = PLACEHOLDERS.map(|name| format!("{{{name}}}")).join(", ");
            return Err(Flaw::Placeholder {
                place: format!("{place}[{at}]"),
                value: shown(&value[at]),
                name: name.to_owned(),
                accepted: format!("{known}; {{{{{name}}}}} for the text {{{name}}}"),
            });
        }
    }
    Ok(arguments)
}

/// Takes variables.
fn env(place: &str, value: &Value) -> Result<BTreeMap<String, String>, Flaw> {
    let mut env = BTreeMap::new();
    for (name, value) in object(place, value, "an object of texts, {\"NAME\": \"VALUE\", …}")? {
        if name.is_empty() || name.contains(['=', '\0']) {
            let accepted = "the name of a variable, without = and NUL".to_owned();
            return Err(unknown(place, name, accepted));
        }
        env.insert(name.clone(), text(&format!("{place}.{name}"), value)?);
    }
    Ok(env)
}

fn object<'a>(place: &str, value: &'a Value, accepted: &str) -> Result<&'a Map<String, Value>, Flaw> {
    value
        .as_object()
        .ok_or_else(|| other_value(place, value, accepted))
}

fn texts(place: &str, value: &Value, accepted: &str) -> Result<Vec<String>, Flaw> {
    let Value::Array(values) = value else {
        return Err(other_value(place, value, accepted));
    };
    let each = values.iter().enumerate();
    each.map(|(at, value)| text(&format!("{place}[{at}]"), value))
        .collect()
}

/// Takes a text that the system can be given.
fn text(place: &str, value: &Value) -> Result<String, Flaw> {
    let text = value.as_str().filter(|text| !text.contains('\0'));
    text.map(str::to_owned)
        .ok_or_else(|| other_value(place, value, "a text, without NUL"))
}

fn other_value(place: &str, value: &Value, accepted: &str) -> Flaw {
    Flaw::Value {
        place: place.to_owned(),
        value: shown(value),
        accepted: accepted.to_owned(),
    }
}

fn unknown(place: &str, name: &str, accepted: String) -> Flaw {
    Flaw::Name {
        place: place.to_owned(),
        name: name.to_owned(),
        accepted,
    }
}

fn shown(value: &Value) -> String {
    let mut shown = String::new();
    preview(&value.to_string(), SHOWN_CHARACTERS, &mut shown);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let file = Path::new("/project/.relay/config.json");
        Config::parse(file, text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_said_of_workers_is_read_and_all_else_is_left_to_others() {
        let config = parse(
            r#"{"project": "a", "workers": {"directories": ["../b", "/c"], "codex": {"command": ["codex-2", "-x"], "env": {"A": "1"}}}}"#,
        )
        .expect("it is good");
        assert_eq!(
            config.directories,
            [PathBuf::from("/project/../b"), PathBuf::from("/c")]
        );
        let codex = config.of(Cli::Codex).expect("it is there");
        assert_eq!(
            codex.command.as_deref(),
            Some(["codex-2", "-x"].map(str::to_owned).as_slice())
        );
        assert_eq!(codex.env["A"], "1");
        assert_eq!(config.of(Cli::Claude), None);
        assert_eq!(parse("{}"), Ok(Config::default()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_and_what_is_accepted() {
        let members = "accepted: command, arguments, env";
        let known = "directories, claude, codex, gemini, droid, opencode";
        let long = format!("{{\"workers\": \"{}\"}}", "x".repeat(200));
        let cut = format!(
            "workers is \"{}...; accepted: an object with any of {known}",
            "x".repeat(59)
        );
        for (text, flaw) in [
            (
                "",
                "line 1, column 0: no JSON ends there; accepted: an object, such as {\"workers\": {…}}",
            ),
            (
                "{\n \"workers\": }",
                "line 2, column 13: no JSON goes on so there; accepted: an object, such as {\"workers\": {…}}",
            ),
            (
                "[]",
                "the file is []; accepted: an object, such as {\"workers\": {…}}",
            ),
            (
                r#"{"workers": 1}"#,
                &format!("workers is 1; accepted: an object with any of {known}"),
            ),
            (&long, &cut),
            (
                r#"{"workers": []}"#,
                &format!("workers is []; accepted: an object with any of {known}"),
            ),
            (
                r#"{"workers": {"cursor": {}}}"#,
                &format!("workers has \"cursor\"; accepted: {known}"),
            ),
            (
                r#"{"workers": {"directories": "/a"}}"#,
                "workers.directories is \"/a\"; accepted: a list of paths, [\"PATH\", …]",
            ),
            (
                r#"{"workers": {"directories": ["/a", 2]}}"#,
                "workers.directories[1] is 2; accepted: a text, without NUL",
            ),
            (
                r#"{"workers": {"claude": []}}"#,
                "workers.claude is []; accepted: an object with any of command, arguments, env",
            ),
            (
                r#"{"workers": {"claude": {"argument": []}}}"#,
                &format!("workers.claude has \"argument\"; {members}"),
            ),
            (
                r#"{"workers": {"claude": {"command": "claude"}}}"#,
                "workers.claude.command is \"claude\"; accepted: a program and what follows it, [\"PROGRAM\", \"ARGUMENT\", …]",
            ),
            (
                r#"{"workers": {"claude": {"command": []}}}"#,
                "workers.claude.command is []; accepted: a program and what follows it, [\"PROGRAM\", \"ARGUMENT\", …]",
            ),
            (
                r#"{"workers": {"claude": {"command": ["x", "{name}"]}}}"#,
                "workers.claude.command[1] is \"{name}\"; accepted: a text as it is; what is to be put in place stands under arguments",
            ),
            (
                r#"{"workers": {"codex": {"arguments": ["{prompt}", "-x={nonsense}"]}}}"#,
                "workers.codex.arguments[1] is \"-x={nonsense}\", and {nonsense} stands for nothing; accepted: {prompt}, {model}, {name}, \
                 {relay}, {mcp}, {settings}, {codex}, {opencode}; {{nonsense}} for the text {nonsense}",
            ),
            (
                r#"{"workers": {"codex": {"arguments": [null]}}}"#,
                "workers.codex.arguments[0] is null; accepted: a text, without NUL",
            ),
            (
                r#"{"workers": {"codex": {"env": {"A": 1}}}}"#,
                "workers.codex.env.A is 1; accepted: a text, without NUL",
            ),
            (
                r#"{"workers": {"codex": {"env": {"A=B": "1"}}}}"#,
                "workers.codex.env has \"A=B\"; accepted: the name of a variable, without = and NUL",
            ),
        ] {
            let said = parse(text).expect_err(text);
            assert_eq!(said, format!("/project/.relay/config.json: {flaw}"));
        }
    }

    #[test]
    fn braces_that_stand_for_nothing_are_left_as_they_are() {
        let text = r#"{"workers": {"codex": {"arguments": ["{\"a\": {}}", "{ x }", "{{other}}", "{", "}", "{a{prompt}"]}}}"#;
        assert!(parse(text).is_ok());
    }

    #[test]
    fn what_the_system_cannot_be_given_is_refused_where_it_stands() {
        let (text, variable) = ("a text, without NUL", "the name of a variable, without = and NUL");
        let program = "a program and what follows it, [\"PROGRAM\", \"ARGUMENT\", …]";
        for (member, place, accepted) in [
            (r#""command": [""]"#, "command is ", program),
            (r#""command": ["x", "a\u0000"]"#, "command[1] is ", text),
            (r#""arguments": ["a\u0000"]"#, "arguments[0] is ", text),
            (r#""env": {"": "1"}"#, "env has ", variable),
            (r#""env": {"A\u0000": "1"}"#, "env has ", variable),
            (r#""env": {"A": "\u0000"}"#, "env.A is ", text),
        ] {
            let said = parse(&format!("{{\"workers\": {{\"codex\": {{{member}}}}}}}")).expect_err(member);
            let begins = format!("/project/.relay/config.json: workers.codex.{place}");
            assert!(said.starts_with(&begins), "{member}: {said}");
            assert!(
                said.ends_with(&format!("; accepted: {accepted}")),
                "{member}: {said}"
            );
        }
        let script = r#"{"workers": {"codex": {"command": ["sh", "-c", "f() {true}"]}}}"#;
        assert!(
            parse(script).is_ok(),
            "what stands for nothing is a text as it is"
        );
    }
}
