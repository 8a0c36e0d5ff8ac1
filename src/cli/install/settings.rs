//! What Claude Code's settings say of relay's hooks and of its plugin, which brings the same hooks: Claude Code runs both, also where their
//! commands are the same.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::directories::Directories;
use super::editors::{ALLOWED, APPROVED, ASKED, Place, Root};
use super::file;
use super::json::{self, Json, Step};
use super::parts::{self, Shape};
use crate::tools;

/// The files, those that count for more last: the person's, and the two of a project, one of which is for all who work on it.
const FILES: [Place; 3] = [
    Place(Root::Claude, "settings.json"),
    Place(Root::Project, ".claude/settings.json"),
    Place(Root::Project, ".claude/settings.local.json"),
];

/// What stands in them under this name is on or off.
const PLUGINS: &str = "enabledPlugins";

/// What stands in them under this name turns all hooks off, or not.
pub const WITHOUT_HOOKS: &str = "disableAllHooks";

/// What stands in them under this name approves all servers of a project, or not. <https://code.claude.com/docs/en/settings>
const ALL_APPROVED: &str = "enableAllProjectMcpServers";

/// How the plugin is called there, with the name of where it is from behind it.
const PLUGIN: &str = "relay@";

/// Tells whether hooks of relay's are in one of the files. What cannot be read has none.
pub fn have_hooks(directories: &Directories) -> bool {
    let shape = Shape {
        hooks: Some("hooks"),
        ..Shape::default()
    };
    texts(directories).any(|(_, text)| parts::parts(&text, shape).is_ok_and(|parts| !parts.hooks.is_empty()))
}

/// Tells whether one of the files allows relay's tools, as far as its person wants that, or everything.
pub fn allow_tools(directories: &Directories) -> bool {
    let mode = ["permissions", "defaultMode"].map(Step::Key);
    let bypass = Json::Text("bypassPermissions".to_owned());
    // A rule that allows something names its server whole.
    let names_server = |rule: &str| rule.split("__").take(2).eq(ALLOWED.name.split("__"));
    let allows = |rule: &String| is_of_relays_tools(rule) && names_server(rule);
    texts(directories).any(|(_, text)| {
        let asks_nothing = || json::get(&text, &mode).ok().flatten().as_ref() == Some(&bypass);
        rules(&text, "allow").iter().any(allows) || asks_nothing()
    })
}

/// Tells whether one of the files approves the server called relay of a project, or all of them, so that Claude Code starts it without asking.
pub fn approve(directories: &Directories) -> bool {
    let shape = Shape {
        listed: &[APPROVED],
        ..Shape::default()
    };
    let all = [Step::Key(ALL_APPROVED)];
    let yes = Json::Plain("true".to_owned());
    texts(directories).any(|(_, text)| {
        let names_it = parts::parts(&text, shape).is_ok_and(|parts| !parts.listed.is_empty());
        names_it || json::get(&text, &all).ok().flatten().as_ref() == Some(&yes)
    })
}

/// A rule by which some of relay's tools are not called, or not without asking.
#[derive(Debug)]
pub struct Stop {
    /// Where it stands.
    pub file: PathBuf,
    /// As it is written.
    pub rule: String,
    /// Whether they are asked for, and not denied.
    pub asks: bool,
}

impl Stop {
    /// The array in which it stands.
    pub fn list(&self) -> &'static str {
        if self.asks {
            "permissions.ask"
        } else {
            "permissions.deny"
        }
    }
}

/// Returns the rules by which relay's tools are denied or asked for: in the file for all projects, or also in those that count in this one. That its
/// person has decided so of what is asked for otherwise is no such rule.
pub fn stops(directories: &Directories, is_global: bool) -> Vec<Stop> {
    let stops = read(directories, files(is_global)).flat_map(|(file, text)| {
        [("deny", false), ("ask", true)]
            .into_iter()
            .flat_map(move |(list, asks)| {
                let rules = rules(&text, list)
                    .into_iter()
                    .filter(|rule| is_of_relays_tools(rule));
                let stop = |rule| Stop {
                    file: file.clone(),
                    rule,
                    asks,
                };
                rules.map(stop).collect::<Vec<Stop>>()
            })
    });
    stops.collect()
}

/// Tells whether a rule is about all of relay's tools, or about one that is not asked for otherwise.
fn is_of_relays_tools(rule: &str) -> bool {
    let tools = tools::ALL.iter().flat_map(|set| set.tools);
    let mut names = tools.map(|tool| format!("{}__{}", ALLOWED.name, tool.name));
    rule == ALLOWED.name || names.any(|name| name != ASKED.name && matches(rule, &name))
}

/// Tells whether a name is one that a pattern means, in which `*` stands for anything.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Returns the rules of a list among the permissions.
fn rules(text: &str, list: &str) -> Vec<String> {
    let rules = json::get(text, &["permissions", list].map(Step::Key));
    let rules = rules.ok().flatten();
    let rules = rules.as_ref().and_then(Json::as_list).unwrap_or_default();
    let rules = rules.iter().filter_map(Json::as_text);
    rules.map(str::to_owned).collect()
}

/// The files that count for all projects, or also those that count in one.
fn files(is_global: bool) -> &'static [Place] {
    if is_global { &FILES[..1] } else { &FILES }
}

/// Tells whether its person has allowed or denied by name what is asked for otherwise: in the file for all projects, or in one that counts
/// in this one where that is meant.
pub fn decide_of_asked(directories: &Directories, is_global: bool) -> bool {
    read(directories, files(is_global)).any(|(_, text)| {
        ["allow", "deny"].iter().any(|list| {
            let rules = rules(&text, list);
            rules.iter().any(|rule| rule == ASKED.name)
        })
    })
}

/// Returns the names under which the plugin is on.
pub fn plugins(directories: &Directories) -> BTreeSet<String> {
    let mut plugins = BTreeSet::new();
    for (_, text) in texts(directories) {
        let Ok(Some(Json::Object(members))) = json::get(&text, &[Step::Key(PLUGINS)]) else {
            continue;
        };
        for (name, is_on) in members {
            if is_on != Json::Plain("true".to_owned()) {
                plugins.remove(&name);
            } else if name.starts_with(PLUGIN) {
                plugins.insert(name);
            }
        }
    }
    plugins
}

/// Returns the file by which Claude Code runs no hooks at all, if one says so and none that counts for more says otherwise.
pub fn without_hooks(directories: &Directories) -> Option<PathBuf> {
    let said = texts(directories).filter_map(|(path, text)| {
        let is_off = json::get(&text, &[Step::Key(WITHOUT_HOOKS)]).ok()??;
        Some((path, is_off))
    });
    let (path, is_off) = said.last()?;
    (is_off == Json::Plain("true".to_owned())).then_some(path)
}

fn texts(directories: &Directories) -> impl Iterator<Item = (PathBuf, String)> {
    read(directories, &FILES)
}

fn read(directories: &Directories, files: &[Place]) -> impl Iterator<Item = (PathBuf, String)> {
    let read = |place: &Place| {
        let path = directories.path(*place);
        let whole = file::read(&path).ok()??;
        Some((path, whole.text))
    };
    files.iter().filter_map(read)
}
