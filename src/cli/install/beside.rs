//! Entries called relay in files that an editor reads beside those that an installation writes. They count for more than what that writes, or are
//! laid over it or under it, and stay: they are named. As Claude Code 2.1, Codex 0.171 and OpenCode 1.18 have it.

use std::path::{Path, PathBuf};

use super::content::Content;
use super::directories::Directories;
use super::editors::{Editor, Format, Id, Place, Root};
use super::file;
use super::json::Json;
use super::members;
use super::parts::{NAME, Shape};
use super::plan;
use super::scopes::{self, Scope};

/// Where Claude Code keeps the scopes of its user.
const CLAUDE: Place = Place(Root::BesideClaude, ".claude.json");

/// The names of OpenCode's files, those that count for more last.
const OPENCODE: [&str; 2] = ["opencode.json", "opencode.jsonc"];

/// An entry called relay that no installation writes.
#[derive(Debug)]
pub struct Beside {
    /// The file in which it stands.
    pub file: PathBuf,
    /// Where in it.
    place: String,
    /// What stands there.
    pub entry: Json,
    counts: Counts,
}

/// How an entry counts beside the one that an installation writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// Alone, and the other one not at all. This is how it is taken out.
    Instead(Option<&'static str>),
    /// Member by member, where it has one.
    Over,
    /// Member by member, where the other one has none.
    Under,
}

/// Finds them, those that count for more last; `own` is the file that an installation writes. Those that it may write are not among them, and what cannot be
/// read has none.
pub fn entries(editor: &'static Editor, directories: &Directories, own: Option<&Path>) -> Vec<Beside> {
    match editor.id {
        Id::Claude => of_claude(directories, own).into_iter().collect(),
        Id::Codex | Id::Opencode => of_layers(editor, directories, own),
        Id::Gemini | Id::Cursor | Id::Vscode | Id::Windsurf | Id::Zed => Vec::new(),
    }
}

fn of_claude(directories: &Directories, own: Option<&Path>) -> Option<Beside> {
    let known = scopes::servers(&directories.project, &directories.path(CLAUDE));
    let known = known.into_iter().rfind(|known| known.name == NAME)?;
    let member = format!("{}.{NAME}", scopes::SERVERS);
    // It hides those of the directories above, and may not be written yet.
    let projects = directories.project.join(scopes::FILE);
    let (place, remove) = match known.scope {
        Scope::User => return None,
        Scope::Project if known.file == projects || own == Some(projects.as_path()) => return None,
        Scope::Project => (member, None),
        Scope::Local => (
            format!("{member} of this project's local scope"),
            Some("claude mcp remove relay -s local"),
        ),
    };
    Some(Beside {
        file: known.file,
        place,
        entry: known.entry,
        counts: Counts::Instead(remove),
    })
}

fn of_layers(editor: &'static Editor, directories: &Directories, own: Option<&Path>) -> Vec<Beside> {
    let (content, servers) = match editor.format {
        Format::Json(servers) => {
            let shape = Shape {
                servers: Some(servers),
                ..Shape::default()
            };
            (Content::Json(shape), servers)
        }
        Format::Toml(servers) => (Content::Toml(servers), servers),
    };
    let written = [false, true].map(|is_global| plan::targets(editor, directories, is_global));
    let written: Vec<PathBuf> = written
        .iter()
        .flatten()
        .map(|target| file::real(&target.path))
        .collect();
    let own = own.map(file::real);
    let mut is_behind_own = own.is_none();
    let mut found: Vec<Beside> = Vec::new();
    for file in layers(editor.id, directories) {
        let real = file::real(&file);
        is_behind_own |= own.as_ref() == Some(&real);
        let entry = file::read(&file).ok().flatten();
        let entry = entry.and_then(|whole| content.parts(&whole.text).ok()?.server);
        let Some(entry) = entry.filter(|_| !written.contains(&real)) else {
            continue;
        };
        found.push(Beside {
            file,
            place: format!("{servers}.{NAME}"),
            entry,
            counts: if is_behind_own {
                Counts::Over
            } else {
                Counts::Under
            },
        });
    }
    found
}

/// The files of Codex's or OpenCode's whose members are laid one over the other, those that count for more last.
pub fn layers(editor: Id, directories: &Directories) -> Vec<PathBuf> {
    let above: Vec<&Path> = directories.project.ancestors().collect();
    let root = above.iter().position(|above| above.join(".git").exists());
    if editor == Id::Codex {
        let users = directories.path(Place(Root::Codex, "config.toml"));
        let above = above[..=root.unwrap_or(0)].iter().rev();
        let projects = above.map(|above| above.join(".codex/config.toml"));
        return std::iter::once(users).chain(projects).collect();
    }
    let above = &above[..root.map_or(above.len(), |root| root + 1)];
    let users = directories.path(Place(Root::Config, "opencode"));
    let mut folders = vec![users];
    folders.extend(above.iter().rev().map(|above| above.to_path_buf()));
    let home = directories.root(Root::Home);
    let own = above.iter().copied().filter(|above| *above != home);
    folders.extend(own.chain([home.as_path()]).map(|above| above.join(".opencode")));
    let files = folders
        .iter()
        .flat_map(|folder| OPENCODE.map(|name| folder.join(name)));
    files.collect()
}

impl Beside {
    /// Tells whether it says where relay is, and decides that.
    pub fn leads(&self, editor: Id) -> bool {
        self.counts != Counts::Under && members::Way::of(&self.entry, editor).is_some()
    }

    /// Says what it does to the entry that an installation writes, and how it is taken out; nothing if that means the same with it.
    pub fn trouble(&self, own: &Json, editor: &Editor) -> Option<String> {
        let does = match self.counts {
            Counts::Instead(_) if self.entry.same(own) => return None,
            Counts::Instead(_) => "counts in place of relay's entry".to_owned(),
            Counts::Over => does(own, &laid(own, &self.entry), editor)?,
            Counts::Under => does(own, &laid(&self.entry, own), editor)?,
        };
        Some(format!(
            "{}: {} {does}; {}",
            self.file.display(),
            self.place,
            self.removal()
        ))
    }

    /// Says that it stays.
    pub fn stays(&self) -> String {
        format!(
            "{}: {} stays; {}",
            self.file.display(),
            self.place,
            self.removal()
        )
    }

    fn removal(&self) -> String {
        match self.counts {
            Counts::Instead(Some(command)) => format!("take it out with: {command}"),
            Counts::Instead(None) | Counts::Over | Counts::Under => "take it out".to_owned(),
        }
    }
}

/// Says what becomes of an entry where another one is laid over it or under it.
fn does(own: &Json, mixed: &Json, editor: &Editor) -> Option<String> {
    let name = editor.name;
    let known = members::flaws(own, editor.id);
    let flaw = members::flaws(mixed, editor.id)
        .into_iter()
        .find(|flaw| !known.contains(flaw));
    // OpenCode looks at the type alone.
    let flaw = flaw.filter(|_| editor.id == Id::Codex);
    if let Some(flaw) = flaw {
        return Some(format!(
            "is mixed with relay's entry, and keeps {name} from starting once it trusts the project: {flaw}"
        ));
    }
    let leads_to = leads_to(mixed, editor.id);
    if leads_to != self::leads_to(own, editor.id) {
        return Some(format!(
            "is mixed with relay's entry, which leads to {leads_to} then"
        ));
    }
    let off = members::switched_off(mixed, editor.id);
    let off = off.filter(|_| members::switched_off(own, editor.id).is_none());
    off.map(|by| format!("is mixed with relay's entry, and switches it off: {by}"))
}

fn leads_to(entry: &Json, editor: Id) -> String {
    let is_address = members::Way::of(entry, editor) == Some(members::Way::Address);
    let address = members::address(entry).filter(|_| is_address);
    address.map_or_else(|| members::command(entry).join(" "), str::to_owned)
}

/// Lays a value over another one: of objects, each member over the one of its name.
fn laid(under: &Json, over: &Json) -> Json {
    let (Json::Object(members), Json::Object(others)) = (under, over) else {
        return over.clone();
    };
    let mut members = members.clone();
    for (key, value) in others {
        match members.iter_mut().find(|(known, _)| known == key) {
            Some((_, there)) => *there = laid(there, value),
            None => members.push((key.clone(), value.clone())),
        }
    }
    Json::Object(members)
}
