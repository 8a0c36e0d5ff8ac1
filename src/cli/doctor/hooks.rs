//! What relay's hooks in the files of an editor are like: as an installation would write them now, and whether Codex runs them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::Seen;
use super::entry::Configured;
use crate::cli::install::additions;
use crate::cli::install::editors::{Editor, Format};
use crate::cli::install::file;
use crate::cli::install::json::{self, Json, Step};
use crate::cli::install::parts::{self, Parts};
use crate::cli::install::whole::What;
use crate::cli::place::DEFAULT_PORT;
use crate::cli::quoted;

/// What is true of relay's hooks in an editor's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hooks {
    /// They are what `relay install` would write now.
    Current,
    /// There are none.
    Missing,
    /// They are something else.
    Drifted,
}

impl Hooks {
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Missing => "missing",
            Self::Drifted => "drifted",
        }
    }
}

/// Compares relay's hooks with those that an installation by `program` would write for the relay that is configured, or relay's plugin with the one that
/// it would put in. Nothing if the editor has neither.
pub fn state(editor: &Editor, seen: &[Seen], configured: &[Configured], program: &str) -> Option<Hooks> {
    let plugin = editor.own.as_ref().filter(|own| own.what == What::Plugin);
    if editor.hooks.is_none() && plugin.is_none() {
        return None;
    }
    let has_hooks = |seen: &&Seen| {
        !seen.target.is_listener() && (!seen.parts.hooks.is_empty() || seen.parts.whole.is_some())
    };
    let with_hooks: Vec<&Seen> = seen.iter().filter(has_hooks).collect();
    if with_hooks.is_empty() {
        return Some(Hooks::Missing);
    }
    let port = configured
        .iter()
        .find_map(|configured| configured.port)
        .unwrap_or(DEFAULT_PORT);
    let hooks = editor.hooks.as_ref();
    let wanted = Parts {
        hooks: hooks.map_or_else(Vec::new, |hooks| hooks.groups(&quoted(program), port)),
        whole: plugin.map(|plugin| plugin.text.to_owned()),
        ..Parts::default()
    };
    let is_current = with_hooks.iter().all(|seen| {
        let mut wanted = wanted.clone();
        additions::keep_of_hooks(&mut wanted, &seen.parts);
        seen.parts.same_hooks(&wanted)
    });
    Some(if is_current {
        Hooks::Current
    } else {
        Hooks::Drifted
    })
}

/// Tells whether Codex has a hash for each hook of relay's: under `hooks.state`, by the file, the event, the group's number and the
/// hook's. Nothing if there are no hooks.
pub fn trusted(seen: &[Seen]) -> Option<bool> {
    let hooks = seen.iter().find(|seen| !seen.parts.hooks.is_empty())?;
    let toml = seen.iter().find(|seen| {
        matches!(seen.target.editor.format, Format::Toml(_)) && seen.target.path != hooks.target.path
    });
    let state: BTreeMap<String, bool> = toml.map(|seen| hashes(&seen.text)).unwrap_or_default();
    let file = [hooks.target.path.clone(), file::target(&hooks.target.path)];
    let has = |event: &str, group: usize| {
        let matches = |key: &str| {
            let mut parts = key.rsplitn(4, ':');
            let (hook, of, name, path) = (parts.next(), parts.next(), parts.next(), parts.next());
            let plain = name.map(|name| name.replace('_', "").to_lowercase());
            hook == Some("0")
                && of.and_then(|of| of.parse().ok()) == Some(group)
                && plain.as_deref() == Some(event.to_lowercase().as_str())
                && path.is_some_and(|path| file.iter().any(|file| Path::new(path) == file))
        };
        state.iter().any(|(key, is_trusted)| *is_trusted && matches(key))
    };
    let events = hooks.parts.hooks.iter().map(|(event, _)| event);
    let mut places = events.flat_map(|event| {
        own_groups(&hooks.text, event)
            .into_iter()
            .map(move |at| (event, at))
    });
    Some(places.all(|(event, group)| has(event, group)))
}

/// The numbers of the groups of an event that are relay's, among those of others.
fn own_groups(text: &str, event: &str) -> Vec<usize> {
    let groups = json::get(text, &[Step::Key("hooks"), Step::Key(event)]);
    let groups = groups.ok().flatten();
    let groups = groups.as_ref().and_then(Json::as_list).unwrap_or_default();
    let own = groups
        .iter()
        .enumerate()
        .filter(|(_, group)| parts::is_own_group(group));
    own.map(|(at, _)| at).collect()
}

/// Reads `hooks.state`: whether there is a hash, by the name of the hook.
fn hashes(text: &str) -> BTreeMap<String, bool> {
    let document = toml_edit::Document::parse(text);
    let document = document.ok();
    let state = document
        .as_ref()
        .and_then(|document| document.get("hooks")?.get("state")?.as_table_like());
    let state = state.into_iter().flat_map(|state| state.iter());
    state
        .map(|(key, hook)| (key.to_owned(), hook.get("trusted_hash").is_some()))
        .collect()
}
