//! One file that says who an agent is: relay's own, or Thrum's. It must not know where such files are looked for.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Identity, InvalidLabel, Label};
use crate::cli::work_tree::{is_absent, read_file};
use crate::engine::{AgentName, InvalidName};

/// Most bytes of a file: a hundred times what is in one.
const IDENTITY_BYTES_MAX: u64 = 64 * 1024;

/// What is wrong with a file that is there.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// The system does not let it be read, or it is no file.
    #[error("{0}")]
    System(#[from] io::Error),
    /// It is longer than any such file.
    #[error("it has more than {IDENTITY_BYTES_MAX} bytes")]
    TooLong,
    /// It is no JSON.
    #[error("it is no JSON: {0}")]
    NoJson(#[from] serde_json::Error),
    /// It is another kind of JSON.
    #[error("it is no JSON object")]
    NoObject,
    /// One of the fields that it must have is not there, or is empty.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// A field is no text.
    #[error("its {field} is {value}; accepted: a string")]
    NoText {
        /// Which one.
        field: &'static str,
        /// As it stands there.
        value: String,
    },
    /// The name is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The role or the module is none.
    #[error("its {field} {reason}")]
    Label {
        /// Which of the two.
        field: &'static str,
        /// What is wrong with it.
        reason: InvalidLabel,
    },
    /// It is another agent's.
    #[error("it names {name:?}, and the name of the file says {file:?}")]
    OtherName {
        /// Within the file.
        name: String,
        /// Of the file.
        file: String,
    },
}

/// Reads the file of an agent; nothing if there is none. The fields stand in the object, as relay writes them, or in its `agent`, as
/// Thrum does; others are passed over.
///
/// # Errors
///
/// [`Flaw`], when the file is there and does not say who the agent of that name is.
pub fn read(directory: &Path, name: &str) -> Result<Option<Identity>, Flaw> {
    let bytes = match read_file(&path(directory, name), IDENTITY_BYTES_MAX) {
        Ok(bytes) => bytes.ok_or(Flaw::TooLong)?,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let json: Value = serde_json::from_slice(&bytes)?;
    let fields = json.as_object().ok_or(Flaw::NoObject)?;
    let fields = fields.get("agent").and_then(Value::as_object).unwrap_or(fields);
    let own = text(fields, "name")?.ok_or(Flaw::Missing("name"))?;
    if own != name {
        return Err(Flaw::OtherName {
            name: crate::engine::shown(own),
            file: crate::engine::shown(name),
        });
    }
    Ok(Some(Identity {
        role: Some(label(fields, "role")?.ok_or(Flaw::Missing("role"))?),
        module: label(fields, "module")?,
        ..Identity::named(AgentName::new(own)?)
    }))
}

/// Writes the file of an agent, and its directory if there is none yet. Whoever reads it at the same time finds the file that was
/// there before, or this one whole.
///
/// # Errors
///
/// The system's; what was there before is as it was.
pub fn write(directory: &Path, identity: &Identity) -> io::Result<()> {
    #[derive(Serialize)]
    struct Written<'a> {
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        module: Option<&'a str>,
    }
    let written = Written {
        name: identity.name.as_str(),
        role: identity.role.as_ref().map(Label::as_str),
        module: identity.module.as_ref().map(Label::as_str),
    };
    let text = serde_json::to_string_pretty(&written)? + "\n";
    fs::create_dir_all(directory)?;
    let new = directory.join(format!(".{}.{}.new", identity.name, std::process::id()));
    let file = path(directory, identity.name.as_str());
    let result = write_whole(&new, &text).and_then(|()| fs::rename(&new, file));
    if result.is_err() {
        // Nobody reads it under this name.
        let _ = fs::remove_file(&new);
    }
    result
}

/// Returns the path of the file of an agent.
pub fn path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.json"))
}

fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Reads a field; one that is empty, or null, is none.
fn text<'a>(fields: &'a Map<String, Value>, field: &'static str) -> Result<Option<&'a str>, Flaw> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(value) => Err(Flaw::NoText {
            field,
            value: crate::engine::shown(&value.to_string()),
        }),
    }
}

fn label(fields: &Map<String, Value>, field: &'static str) -> Result<Option<Label>, Flaw> {
    let label = text(fields, field)?.map(str::parse).transpose();
    label.map_err(|reason| Flaw::Label { field, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn furiosa(role: &str, module: Option<&str>) -> Identity {
        let label = |text: &str| text.parse().expect("a label");
        Identity {
            role: Some(label(role)),
            module: module.map(label),
            ..Identity::named(AgentName::new("furiosa").expect("a name"))
        }
    }

    /// Reads a file of the name furiosa that holds a text.
    fn read_text(text: &str) -> Result<Option<Identity>, Flaw> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::write(directory.path().join("furiosa.json"), text).expect("a file");
        read(directory.path(), "furiosa")
    }

    #[test]
    fn what_is_written_is_read_and_takes_the_place_of_what_was_there() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let identities = directory.path().join(".relay/identities");
        let (first, second) = (furiosa("implementer", Some("auth")), furiosa("tester", None));
        assert_eq!(read(&identities, "furiosa").expect("nothing is no flaw"), None);
        write(&identities, &first).expect("there is room");
        let text = fs::read_to_string(identities.join("furiosa.json")).expect("it is there");
        let pretty = "{\n  \"name\": \"furiosa\",\n  \"role\": \"implementer\",\n  \"module\": \"auth\"\n}\n";
        assert_eq!(text, pretty);
        assert_eq!(read(&identities, "furiosa").expect("no flaw"), Some(first));
        write(&identities, &second).expect("there is room");
        assert_eq!(read(&identities, "furiosa").expect("no flaw"), Some(second));
        assert_eq!(
            fs::read_dir(&identities).expect("a directory").count(),
            1,
            "no other file is left"
        );
    }

    #[test]
    fn whoever_has_opened_the_file_before_reads_it_as_it_was() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        write(directory.path(), &furiosa("implementer", None)).expect("there is room");
        let before = path(directory.path(), "furiosa");
        let text = fs::read_to_string(&before).expect("it is there");
        let mut opened = fs::File::open(&before).expect("it is there");
        write(directory.path(), &furiosa("tester", None)).expect("there is room");
        assert_eq!(io::read_to_string(&mut opened).expect("a text"), text);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(directory.path().join("furiosa.json")).expect("a directory");
        write(directory.path(), &furiosa("tester", None)).expect_err("a directory has the name");
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1);
        assert!(matches!(
            read(directory.path(), "furiosa"),
            Err(Flaw::System(error)) if error.to_string() == "it is no file"
        ));
    }

    #[test]
    fn a_file_of_thrum_is_read() {
        let thrums = r#"{"version":1,"repo_id":"r_0","agent":{"kind":"agent","name":"furiosa","role":"implementer","module":"auth","display":""},"worktree":"tree"}"#;
        let expected = furiosa("implementer", Some("auth"));
        assert_eq!(read_text(thrums).expect("no flaw"), Some(expected));
        let flat = r#"{"name":"furiosa","role":"implementer","module":"","agent":"another word"}"#;
        assert_eq!(
            read_text(flat).expect("no flaw"),
            Some(furiosa("implementer", None))
        );
        let none = r#"{"agent":{"name":"furiosa","role":"implementer","module":null}}"#;
        assert_eq!(
            read_text(none).expect("no flaw"),
            Some(furiosa("implementer", None))
        );
    }

    #[test]
    fn a_broken_file_is_told_what_is_wrong_with_it() {
        let accepted = "is not accepted; accepted: 1 to 32 of A-Z, a-z, 0-9, -, _ and ., starting with a letter or a digit and not ending with a dot";
        let long = " ".repeat(64 * 1024 + 1);
        for (text, expected) in [
            (
                "{",
                "it is no JSON: EOF while parsing an object at line 1 column 1".to_owned(),
            ),
            ("[]", "it is no JSON object".to_owned()),
            (&long, "it has more than 65536 bytes".to_owned()),
            (r#"{"role":"x"}"#, "it has no name".to_owned()),
            (r#"{"name":"furiosa"}"#, "it has no role".to_owned()),
            (
                r#"{"agent":{"name":"furiosa","role":""}}"#,
                "it has no role".to_owned(),
            ),
            (
                r#"{"name":"furiosa","role":7}"#,
                "its role is 7; accepted: a string".to_owned(),
            ),
            (
                r#"{"name":"furiosa","role":"a b"}"#,
                format!("its role \"a b\" {accepted}"),
            ),
            (
                r#"{"name":"furiosa","role":"a","module":"@"}"#,
                format!("its module \"@\" {accepted}"),
            ),
            (
                r#"{"name":"Furiosa","role":"a"}"#,
                "it names \"Furiosa\", and the name of the file says \"furiosa\"".to_owned(),
            ),
        ] {
            let flaw = read_text(text).expect_err(text);
            assert_eq!(flaw.to_string(), expected);
        }
    }
}
