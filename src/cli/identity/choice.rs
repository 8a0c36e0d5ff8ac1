//! Which identity an agent has: the one that it was given by name, or the only one that there is. It must not know what the
//! identity is for.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::Identity;
use super::directories::{IDENTITIES, RELAY, nearest, nearest_of_thrum, to_be_made};
use super::file::{self, Flaw};
use crate::engine::{AgentName, InvalidName, shown};

/// What may name the agent where no option does, the first one first.
const VARIABLES: [&str; 2] = ["RELAY_AGENT", "THRUM_NAME"];

/// Most identities that an error lists: what fits on a screen.
const LISTED_MAX: usize = 32;

/// Why it is not known who the agent is.
#[derive(Debug, thiserror::Error)]
pub enum UnknownAgent {
    /// Nothing names one.
    #[error(
        "nobody says who this agent is: there is no identity in {}; write one with: {program} register NAME --role ROLE, or name the agent with --agent or RELAY_AGENT", place.display()
    )]
    NoIdentity {
        /// Where one was looked for, and would be written.
        place: PathBuf,
        /// The command that is this program.
        program: String,
    },
    /// Several are there, and nothing names one.
    #[error("there are several identities; choose one with --agent or RELAY_AGENT:{listed}")]
    Several {
        /// A line for each.
        listed: String,
    },
    /// A variable holds no name.
    #[error("{variable}: {reason}")]
    Variable {
        /// Which one.
        variable: &'static str,
        /// What is wrong with it.
        reason: InvalidName,
    },
    /// The file of the agent does not say who it is.
    #[error(
        "cannot take {} for an identity: {flaw}; mend it, or write it anew with: {program} register {name} --role ROLE --force", path.display()
    )]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: Box<Flaw>,
        /// As the file is called, if that is a name.
        name: String,
        /// The command that is this program.
        program: String,
    },
    /// The system does not tell what files there are.
    #[error("cannot look for identities in {}: {error}", path.display())]
    System {
        /// Where.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

impl UnknownAgent {
    /// Tells whether the command line or a variable is to be changed, rather than a file.
    pub fn is_bad_usage(&self) -> bool {
        match self {
            Self::NoIdentity { .. } | Self::Several { .. } | Self::Variable { .. } => true,
            Self::Broken { .. } | Self::System { .. } => false,
        }
    }
}

/// The identity files that count in a directory: relay's, and Thrum's where relay has none of the same name.
pub struct Identities {
    /// Where they are, relay's first.
    directories: Vec<PathBuf>,
    /// Where relay's are or would be.
    own: PathBuf,
    /// The command that is this program, as errors name it.
    program: String,
}

impl Identities {
    /// Finds where the files are; reads none yet.
    pub fn seen_from(directory: &Path, program: String) -> Self {
        let found = [nearest(directory, RELAY), nearest_of_thrum(directory)];
        Self {
            directories: found
                .into_iter()
                .flatten()
                .map(|directory| directory.join(IDENTITIES))
                .collect(),
            own: own_directory(directory),
            program,
        }
    }

    /// Finds out who the agent is: who `named` says, else who a variable says, else the one that there is a file of. With a name
    /// come the role and the module of its file, if it has one.
    ///
    /// # Errors
    ///
    /// [`UnknownAgent`], when nothing or too much names one, or its file is broken. Of other files nothing is asked.
    pub fn choose(
        &self,
        named: Option<AgentName>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Identity, UnknownAgent> {
        let named = match named {
            Some(name) => Some(name),
            None => named_by(variable)?,
        };
        if let Some(name) = named {
            let written = self.read(name.as_str())?;
            return Ok(written.unwrap_or_else(|| Identity::named(name)));
        }
        let files = self.files()?;
        match files.keys().next() {
            Some(only) if files.len() == 1 => self.read(only)?.ok_or_else(|| self.none()),
            Some(_) => Err(UnknownAgent::Several {
                listed: listed(&files),
            }),
            None => Err(self.none()),
        }
    }

    fn none(&self) -> UnknownAgent {
        UnknownAgent::NoIdentity {
            place: self.own.clone(),
            program: self.program.clone(),
        }
    }

    /// Reads the first file of that name, if there is one.
    fn read(&self, name: &str) -> Result<Option<Identity>, UnknownAgent> {
        for directory in &self.directories {
            let read = file::read(directory, name).map_err(|flaw| UnknownAgent::Broken {
                path: file::path(directory, name),
                flaw: Box::new(flaw),
                name: AgentName::new(name).map_or_else(|_| "NAME".to_owned(), |name| name.to_string()),
                program: self.program.clone(),
            })?;
            if read.is_some() {
                return Ok(read);
            }
        }
        Ok(None)
    }

    /// Lists the files, each name with the directory that counts for it. Hidden ones are not identities.
    fn files(&self) -> Result<BTreeMap<String, &Path>, UnknownAgent> {
        let mut files = BTreeMap::new();
        for directory in &self.directories {
            let names = names_in(directory).map_err(|error| UnknownAgent::System {
                path: directory.clone(),
                error,
            })?;
            for name in names {
                files.entry(name).or_insert(directory.as_path());
            }
        }
        Ok(files)
    }
}

/// Returns the directory that relay's identities are in, or are to be made in.
pub fn own_directory(from: &Path) -> PathBuf {
    let directory = nearest(from, RELAY).unwrap_or_else(|| to_be_made(from, RELAY));
    directory.join(IDENTITIES)
}

/// Reads the first variable that is set and not empty.
fn named_by(variable: impl Fn(&str) -> Option<String>) -> Result<Option<AgentName>, UnknownAgent> {
    for name in VARIABLES {
        let value = variable(name).unwrap_or_default();
        if value.is_empty() {
            continue;
        }
        let agent = AgentName::new(&value);
        return agent.map(Some).map_err(|reason| UnknownAgent::Variable {
            variable: name,
            reason,
        });
    }
    Ok(None)
}

/// Lists the names of the identity files in a directory; one that is not there has none.
fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match directory.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let file = entry?.file_name().to_string_lossy().into_owned();
        if let Some(name) = file.strip_suffix(".json")
            && !file.starts_with('.')
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Writes a line for each file, with what is wrong with those that are broken.
fn listed(files: &BTreeMap<String, &Path>) -> String {
    let mut lines: String = files.iter().take(LISTED_MAX).map(line).collect();
    if files.len() > LISTED_MAX {
        lines += &format!("\n  and {} more", files.len() - LISTED_MAX);
    }
    lines
}

fn line((name, directory): (&String, &&Path)) -> String {
    let flaw = match file::read(directory, name) {
        Ok(Some(identity)) => return format!("\n  {identity}"),
        Ok(None) => "it is gone".to_owned(),
        Err(flaw) => flaw.to_string(),
    };
    format!("\n  {:?} (unreadable: {flaw})", shown(name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::super::directories::THRUM;
    use super::*;

    /// A directory with identity files: each with the directory that it is in, its name and its text.
    fn project(files: &[(&str, &str, &str)]) -> TempDir {
        let directory = tempfile::tempdir().expect("a temporary directory");
        // Whatever is above it does not count.
        for kept in [RELAY, THRUM] {
            fs::create_dir(directory.path().join(kept)).expect("a directory");
        }
        for (kept, name, text) in files {
            let identities = directory.path().join(kept).join(IDENTITIES);
            fs::create_dir_all(&identities).expect("a directory");
            fs::write(identities.join(name), text).expect("a file");
        }
        directory
    }

    /// Chooses among such files, where a name and some variables are given; an identity or an error as it is shown.
    fn chosen(
        files: &[(&str, &str, &str)],
        named: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<String, String> {
        let project = project(files);
        let named = named.map(|name| AgentName::new(name).expect("a name"));
        let variable = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let identities = Identities::seen_from(project.path(), "relay".to_owned());
        let identity = identities.choose(named, variable);
        let top = project.path().to_string_lossy().into_owned();
        identity
            .map(|identity| identity.to_string())
            .map_err(|error| error.to_string().replace(&top, "TOP"))
    }

    const PM: (&str, &str, &str) = (RELAY, "pm.json", r#"{"name":"pm","role":"director"}"#);
    const QA: (&str, &str, &str) = (
        THRUM,
        "qa.json",
        r#"{"agent":{"name":"qa","role":"tester","module":"ui"}}"#,
    );

    #[test]
    fn an_option_comes_before_the_variables_and_these_before_the_only_file() {
        let both = [("RELAY_AGENT", "qa"), ("THRUM_NAME", "Max")];
        let empty = [("RELAY_AGENT", ""), ("THRUM_NAME", "Max")];
        for (named, variables, expected) in [
            (Some("pm"), &both[..], "pm (role director)"),
            (None, &both, "qa"),
            (None, &empty, "Max"),
            (None, &both[1..], "Max"),
            (None, &[], "pm (role director)"),
        ] {
            assert_eq!(chosen(&[PM], named, variables), Ok(expected.to_owned()));
        }
    }

    #[test]
    fn a_file_of_thrums_counts_where_relay_has_none_of_that_name() {
        let qa = Ok("qa (role tester, module ui)".to_owned());
        assert_eq!(chosen(&[QA], None, &[]), qa);
        assert_eq!(chosen(&[PM, QA], Some("qa"), &[]), qa);
        let own = (RELAY, "qa.json", r#"{"name":"qa","role":"reviewer"}"#);
        assert_eq!(chosen(&[own, QA], None, &[]), Ok("qa (role reviewer)".to_owned()));
    }

    #[test]
    fn a_variable_that_is_no_name_is_named() {
        let accepted = "a name has 1 to 32 of A-Z, a-z, 0-9, -, _ and ., starts with a letter or a digit, and does not end with a dot";
        let expected = format!("THRUM_NAME: invalid role name \"a b\"; {accepted}");
        assert_eq!(chosen(&[PM], None, &[("THRUM_NAME", "a b")]), Err(expected));
    }

    #[test]
    fn none_at_all_is_told_how_to_make_one() {
        let expected = "nobody says who this agent is: there is no identity in TOP/.relay/identities; write one with: relay register \
             NAME --role ROLE, or name the agent with --agent or RELAY_AGENT";
        assert_eq!(chosen(&[], None, &[]), Err(expected.to_owned()));
        let others = [(RELAY, ".pm.json", "{}"), (RELAY, "notes.txt", "")];
        assert_eq!(chosen(&others, None, &[]), Err(expected.to_owned()));
    }

    #[test]
    fn several_are_listed_with_those_that_cannot_be_read() {
        let broken = (RELAY, "max.json", "{}");
        let stranger = (THRUM, "a\nb.json", r#"{"name":"a\nb","role":"x"}"#);
        let expected = "there are several identities; choose one with --agent or RELAY_AGENT:\n  \
             \"a\\nb\" (unreadable: invalid role name \"a\\nb\"; a name has 1 to 32 of A-Z, a-z, 0-9, -, _ and ., starts with a letter or a digit, and does not end with a dot)\n  \
             \"max\" (unreadable: it has no name)\n  pm (role director)\n  qa (role tester, module ui)";
        assert_eq!(
            chosen(&[PM, QA, broken, stranger], None, &[]),
            Err(expected.to_owned())
        );
    }

    #[test]
    fn of_many_the_first_are_listed() {
        let names: Vec<String> = (10..60).map(|number| format!("a{number}.json")).collect();
        let files: Vec<_> = names.iter().map(|name| (RELAY, name.as_str(), "")).collect();
        let error = chosen(&files, None, &[]).expect_err("there are many");
        assert_eq!(error.lines().count(), 1 + LISTED_MAX + 1, "{error}");
        assert!(error.ends_with("\n  and 18 more"), "{error}");
    }

    #[test]
    fn a_broken_file_matters_only_if_it_is_the_chosen_one() {
        let broken = (RELAY, "max.json", r#"{"name":"max"}"#);
        let expected = "cannot take TOP/.relay/identities/max.json for an identity: it has no role; mend it, or write it anew \
             with: relay register max --role ROLE --force";
        assert_eq!(chosen(&[broken], None, &[]), Err(expected.to_owned()));
        assert_eq!(chosen(&[broken, PM], Some("max"), &[]), Err(expected.to_owned()));
        assert_eq!(
            chosen(&[broken, PM], Some("pm"), &[]),
            Ok("pm (role director)".to_owned())
        );
        assert_eq!(chosen(&[broken], Some("other"), &[]), Ok("other".to_owned()));
    }

    #[test]
    fn only_what_names_nobody_is_bad_usage() {
        for (files, expected) in [
            (&[][..], true),
            (&[PM, QA], true),
            (&[(RELAY, "max.json", "{}")], false),
        ] {
            let project = project(files);
            let identities = Identities::seen_from(project.path(), "relay".to_owned());
            let error = identities.choose(None, |_| None).expect_err("nobody is meant");
            assert_eq!(error.is_bad_usage(), expected, "{error}");
        }
    }

    #[test]
    fn of_as_many_as_fit_none_is_left_out() {
        let names: Vec<String> = (0..LISTED_MAX)
            .map(|number| format!("a{number:02}.json"))
            .collect();
        let files: Vec<_> = names.iter().map(|name| (RELAY, name.as_str(), "")).collect();
        let error = chosen(&files, None, &[]).expect_err("there are many");
        assert_eq!(error.lines().count(), 1 + LISTED_MAX, "{error}");
    }

    #[test]
    fn a_broken_file_that_is_called_by_no_name_is_written_anew_by_another_one() {
        let error = chosen(&[(RELAY, "a b.json", "{}")], None, &[]).expect_err("it is broken");
        let anew = "it has no name; mend it, or write it anew with: relay register NAME --role ROLE --force";
        assert!(error.ends_with(anew), "{error}");
    }

    #[test]
    fn a_file_that_is_gone_meanwhile_and_what_is_no_directory_are_told() {
        let project = project(&[PM]);
        let identities = project.path().join(RELAY).join(IDENTITIES);
        std::os::unix::fs::symlink("nowhere", identities.join("max.json")).expect("a link");
        let refused = || {
            let identities = Identities::seen_from(project.path(), "relay".to_owned());
            identities.choose(None, |_| None).expect_err("nobody is meant")
        };
        let expected = "there are several identities; choose one with --agent or RELAY_AGENT:\n  \
             \"max\" (unreadable: it is gone)\n  pm (role director)";
        assert_eq!(refused().to_string(), expected);
        fs::remove_file(identities.join("pm.json")).expect("it is there");
        assert!(
            refused()
                .to_string()
                .starts_with("nobody says who this agent is: ")
        );
        fs::remove_dir_all(&identities).expect("it is there");
        fs::write(&identities, "").expect("a file");
        let error = refused();
        let expected = format!(
            "cannot look for identities in {}: Not a directory (os error 20)",
            identities.display()
        );
        assert_eq!((error.to_string(), error.is_bad_usage()), (expected, false));
    }
}
