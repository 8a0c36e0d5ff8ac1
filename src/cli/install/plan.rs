//! What is to become of each file: worked out for all of them before the first is written. It reads, and writes nothing.

use std::path::{Path, PathBuf};

use super::directories::Directories;
use super::editors::{Connection, Editor, Files, Format, Place};
use super::file::{self, FileError, Whole};
use super::json::{Flaw, Json};
use super::parts::{self, Listed, Parts, Shape};
use super::{additions, toml, whole};
use crate::cli::project::DataDirectory;

/// The format of a file, and where relay's parts are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// JSON, with comments where the editor takes them.
    Json(Shape),
    /// TOML, with the servers below this table.
    Toml(&'static str),
    /// This, which is relay's as a whole.
    Whole(&'static str),
}

impl Content {
    /// Reads relay's parts.
    ///
    /// # Errors
    ///
    /// As [`parts::parts`] and [`toml::parts`].
    pub fn parts(self, text: &str) -> Result<Parts, Flaw> {
        match self {
            Self::Json(shape) => parts::parts(text, shape),
            Self::Toml(servers) => toml::parts(text, servers),
            Self::Whole(_) => Ok(whole::parts(text)),
        }
    }

    /// Puts relay's parts in.
    ///
    /// # Errors
    ///
    /// As [`parts::with`] and [`toml::with`].
    pub fn with(self, text: &str, wanted: &Parts) -> Result<String, Flaw> {
        match self {
            Self::Json(shape) => parts::with(text, shape, wanted),
            Self::Toml(servers) => toml::with(text, servers, wanted),
            Self::Whole(_) => Ok(wanted.whole.clone().unwrap_or_else(|| text.to_owned())),
        }
    }

    /// Takes relay's parts out.
    ///
    /// # Errors
    ///
    /// As [`parts::without`] and [`toml::without`].
    pub fn without(self, text: &str, before: Option<&str>) -> Result<Option<String>, Flaw> {
        match self {
            Self::Json(shape) => parts::without(text, shape, before),
            Self::Toml(servers) => toml::without(text, servers, before),
            Self::Whole(_) => Ok(before.map(str::to_owned)),
        }
    }
}

/// A file of an editor's in which relay has a part.
#[derive(Debug, Clone)]
pub struct Target {
    /// The editor.
    pub editor: &'static Editor,
    /// As the editor names it.
    pub path: PathBuf,
    /// What its path counts from.
    pub root: PathBuf,
    /// What is in it.
    pub content: Content,
}

/// Returns the files of an editor: that of its servers, and that of its hooks, which may be the same; or its plugin.
pub fn targets(editor: &'static Editor, directories: &Directories, is_global: bool) -> Vec<Target> {
    let target = |files: &Files, content| {
        let place = chosen(files, directories, is_global);
        Target {
            editor,
            path: directories.path(place),
            root: directories.root(place.0),
            content,
        }
    };
    let mut shape = Shape::default();
    let mut targets = Vec::new();
    if let Some(hooks) = &editor.hooks {
        shape.hooks = Some("hooks");
        shape.listed = if is_global {
            hooks.listed_for_user
        } else {
            hooks.listed_in_project
        };
        let path = |files| directories.path(chosen(files, directories, is_global));
        if path(&hooks.files) != path(&editor.servers) {
            targets.push(target(&hooks.files, Content::Json(shape)));
            shape = Shape::default();
        }
    }
    let content = match editor.format {
        Format::Json(servers) => {
            let servers = Some(servers);
            Content::Json(Shape { servers, ..shape })
        }
        Format::Toml(servers) => Content::Toml(servers),
    };
    targets.insert(0, target(&editor.servers, content));
    let plugin = editor.plugin.as_ref();
    targets.extend(plugin.map(|plugin| target(&plugin.files, Content::Whole(plugin.text))));
    targets
}

fn chosen(files: &Files, directories: &Directories, is_global: bool) -> Place {
    let places = files.project.filter(|_| !is_global).unwrap_or(files.user);
    let there = places.iter().find(|place| directories.path(**place).exists());
    *there.unwrap_or(&places[0])
}

/// Returns relay's entry among the servers in a file. What cannot be read has none.
pub fn server_there(target: &Target) -> Option<Json> {
    let whole = file::read(&target.path).ok()??;
    target.content.parts(&whole.text).ok()?.server
}

/// Returns what of relay's is to be in a file; `hooks` is the word by which a shell finds relay, where hooks are wanted.
pub fn wanted(target: &Target, connection: &Connection, hooks: Option<&str>) -> Parts {
    let (has_server, shape) = match target.content {
        Content::Json(shape) => (shape.servers.is_some(), shape),
        Content::Toml(_) => (true, Shape::default()),
        Content::Whole(text) => {
            return Parts {
                whole: hooks.map(|_| text.to_owned()),
                ..Parts::default()
            };
        }
    };
    let groups = match (&target.editor.hooks, hooks) {
        (Some(own), Some(program)) if shape.hooks.is_some() => own.groups(program, connection.port),
        (Some(_) | None, _) => Vec::new(),
    };
    Parts {
        server: has_server.then(|| (target.editor.entry)(connection)),
        listed: shape.listed.to_vec(),
        hooks: groups,
        whole: None,
    }
}

/// A file as it is and as it is to be.
#[derive(Debug)]
pub struct Change {
    /// The file.
    pub target: Target,
    /// What is in it; none if it is not there.
    pub was: Option<Whole>,
    /// What is to be in it; none if it is to be removed.
    pub new: Option<String>,
    /// Where the file is kept as it was before the first change, and what becomes of that.
    pub backup: Backup,
    /// It should be gone, and stays: somebody has changed what relay had made.
    pub is_left: bool,
}

/// What becomes of what is kept of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backup {
    /// It stays, or there is none.
    Untouched,
    /// The file is kept there as it is now.
    Made(PathBuf),
    /// It is the same as the file will be, and goes.
    Dropped(PathBuf),
    /// The file has been changed by others since, and so is not the same.
    Left(PathBuf),
    /// It is of a file that is gone, and not what was there before the one that is made now: it is kept under another name.
    SetAside {
        /// Where it is.
        from: PathBuf,
        /// Where it stays.
        to: PathBuf,
    },
}

impl Backup {
    /// Sets aside what is kept, where the file that it is of is gone.
    pub fn of_one_that_is_gone(from: PathBuf) -> Self {
        let to = file::free_beside(&from);
        Self::SetAside { from, to }
    }
}

impl Change {
    /// Returns what is in the file now.
    pub fn old_bytes(&self) -> Option<String> {
        self.was.as_ref().map(Whole::bytes)
    }

    /// Tells whether relay is named in an array in which it was not before.
    pub fn names(&self, listed: &Listed) -> bool {
        let has = |text: &str| {
            let parts = self.target.content.parts(text);
            parts.is_ok_and(|parts| parts.listed.contains(listed))
        };
        self.new
            .as_deref()
            .is_some_and(|new| has(new.trim_start_matches(file::MARK)))
            && !self.was.as_ref().is_some_and(|was| has(&was.text))
    }

    /// Tells whether the file stays as it is.
    pub fn is_none(&self) -> bool {
        self.old_bytes() == self.new
    }
}

/// A file, as it is and as it was before relay's first change.
struct Before {
    was: Option<Whole>,
    /// Where it is kept.
    backup: PathBuf,
    kept: Option<Whole>,
    there: Parts,
}

impl Before {
    fn read(target: &Target, data: &DataDirectory) -> Result<Self, FileError> {
        let was = file::read(&target.path)?;
        let backup = data.backup(&file::target(&target.path));
        let kept = file::read(&backup)?;
        let there = match &was {
            Some(was) => target
                .content
                .parts(&was.text)
                .map_err(|flaw| flawed(target, flaw))?,
            None => Parts::default(),
        };
        Ok(Self {
            was,
            backup,
            kept,
            there,
        })
    }

    /// Returns the text that the file had before relay's parts were put in, if nobody else has changed anything since: none in it
    /// if there was no file.
    fn untouched_since(&self, target: &Target) -> Option<Option<&Whole>> {
        let was = self.was.as_ref()?;
        if self.there.is_empty() {
            return None;
        }
        // A person's own entry may be all that is in a file that was always there.
        let own = self.there.server.as_ref();
        if self.kept.is_none() && own.is_some_and(|own| !target.editor.may_have_written(own)) {
            return None;
        }
        let base = self.kept.as_ref().map_or("", |kept| &kept.text);
        let put = target.content.with(base, &self.there).ok()?;
        let same_mark = self
            .kept
            .as_ref()
            .is_none_or(|kept| kept.bytes_with("") == was.bytes_with(""));
        (put == was.text && same_mark).then_some(self.kept.as_ref())
    }
}

/// Works out what installing makes of a file; nothing if there is nothing to be put into one that is not there.
///
/// # Errors
///
/// When the file cannot be read, or not be changed as far as it must be.
pub fn install(target: Target, data: &DataDirectory, mut wanted: Parts) -> Result<Option<Change>, FileError> {
    if let Content::Whole(own) = target.content {
        return whole::install(target, data, own, wanted.whole.is_some());
    }
    let before = Before::read(&target, data)?;
    if before.was.is_none() && wanted.is_empty() {
        return Ok(None);
    }
    additions::keep(&mut wanted, &before.there, target.editor.id);
    let backup = |before: &Before| {
        if before.was.is_none() && before.kept.is_some() {
            return Backup::of_one_that_is_gone(before.backup.clone());
        }
        let is_made_here = before.untouched_since(&target).is_some();
        let is_first = before.there.is_empty() || before.kept.is_none();
        if before.was.is_some() && is_first && !is_made_here {
            return Backup::Made(before.backup.clone());
        }
        Backup::Untouched
    };
    if before.there.same(&wanted) {
        let new = before.was.as_ref().map(Whole::bytes);
        let (was, backup) = (before.was, Backup::Untouched);
        return Ok(Some(Change {
            target,
            was,
            new,
            backup,
            is_left: false,
        }));
    }
    let base = match before.untouched_since(&target) {
        Some(base) => base,
        None => before.was.as_ref(),
    };
    let put = target.content.with(base.map_or("", |base| &base.text), &wanted);
    let put = put.map_err(|flaw| flawed(&target, flaw))?;
    let new = Some(base.map_or_else(|| put.clone(), |base| base.bytes_with(&put)));
    let backup = backup(&before);
    let was = before.was;
    Ok(Some(Change {
        target,
        was,
        new,
        backup,
        is_left: false,
    }))
}

/// Works out what uninstalling makes of a file; nothing if nothing of relay's is in it.
///
/// # Errors
///
/// As [`install`].
pub fn uninstall(target: Target, data: &DataDirectory) -> Result<Option<Change>, FileError> {
    if let Content::Whole(own) = target.content {
        return whole::uninstall(target, data, own);
    }
    // One that is broken without a part of relay's in it is nothing to be said about.
    if !mentions_relay(&target.path) {
        return Ok(None);
    }
    let before = Before::read(&target, data)?;
    let Some(was) = before.was.clone().filter(|_| !before.there.is_empty()) else {
        return Ok(None);
    };
    let untouched = before.untouched_since(&target);
    if before.kept.is_none() && untouched.is_none() && before.there.has_rule_alone() {
        // Nothing says whose it is.
        return Ok(None);
    }
    let kept_has_hooks = before.kept.as_ref().is_some_and(|kept| {
        let parts = target.content.parts(&kept.text);
        parts.is_ok_and(|parts| !parts.hooks.is_empty())
    });
    let untouched = untouched.filter(|_| !kept_has_hooks);
    let new = match untouched {
        Some(base) => base.map(Whole::bytes),
        None => {
            let kept = before.kept.as_ref().map(|kept| kept.text.clone());
            // What was kept with relay's own hooks in it was not there before relay with all that held them.
            let kept = match kept {
                Some(kept) if kept_has_hooks => target.content.without(&kept, None).ok().flatten(),
                Some(_) | None => kept,
            };
            let left = target.content.without(&was.text, kept.as_deref());
            let left = left.map_err(|flaw| flawed(&target, flaw))?;
            left.map(|left| was.bytes_with(&left))
        }
    };
    // What of relay's is there was there before.
    if new == Some(was.bytes()) {
        return Ok(None);
    }
    let backup = match &before.kept {
        None => Backup::Untouched,
        Some(kept) if new.as_ref() == Some(&kept.bytes()) => Backup::Dropped(before.backup),
        Some(_) => Backup::Left(before.backup),
    };
    let was = Some(was);
    Ok(Some(Change {
        target,
        was,
        new,
        backup,
        is_left: false,
    }))
}

fn mentions_relay(path: &Path) -> bool {
    let whole = file::read(path);
    match whole {
        Ok(Some(whole)) => whole.text.contains(parts::NAME) || whole.text.contains("hook"),
        Ok(None) => false,
        // What is wrong is told when it is read again.
        Err(_) => true,
    }
}

fn flawed(target: &Target, flaw: Flaw) -> FileError {
    FileError::Flawed {
        path: target.path.clone(),
        flaw,
    }
}
