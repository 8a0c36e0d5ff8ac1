//! What is to become of each file: worked out for all of them before the first is written. It reads, and writes nothing.

use std::path::{Path, PathBuf};

use super::backup::Backup;
use super::content::Content;
use super::directories::Directories;
use super::editors::{Connection, Editor, Files, Format, Place, Root};
use super::file::{self, FileError, Whole};
use super::json::{Flaw, Json};
use super::parts::{self, Listed, Parts, Shape};
use super::said::is_relays;
use super::whole::What;
use super::{additions, beside, members, named, whole};
use crate::cli::project::DataDirectory;

/// A file of an editor's in which relay has a part.
#[derive(Debug, Clone)]
pub struct Target {
    /// The editor.
    pub editor: &'static Editor,
    /// As the editor names it.
    pub path: PathBuf,
    /// What its path counts from.
    pub root: PathBuf,
    /// That is the project.
    pub is_projects: bool,
    /// What is in it.
    pub content: Content,
}

impl Target {
    /// Tells whether it is that of relay's listener.
    pub fn is_listener(&self) -> bool {
        matches!(self.content, Content::Whole(What::Listener, _))
    }

    /// Returns where its path leads, if it is a project's and that is outside of the project. Who has made the links in a repository may be a
    /// stranger, and what they lead to, this user's own.
    pub fn leads_out(&self) -> Option<PathBuf> {
        let end = file::real(&self.path);
        let is_within = || end.starts_with(file::real(&self.root));
        (self.is_projects && !is_within()).then_some(end)
    }

    /// Says what of relay's is in it above all.
    pub fn parts(&self) -> &'static str {
        match self.content {
            Content::Json(Shape { servers: None, .. }) => "relay's hooks",
            Content::Json(_) | Content::Toml(_) => "relay's entry",
            Content::Whole(what, _) => what.name(),
        }
    }
}

/// Returns the files of an editor: that of its servers, that of its hooks, which may be the same, and what is relay's as a whole.
pub fn targets(editor: &'static Editor, directories: &Directories, is_global: bool) -> Vec<Target> {
    let target = |files: &Files, content| {
        let place = chosen(files, directories, is_global);
        Target {
            editor,
            path: directories.path(place),
            root: directories.root(place.0),
            is_projects: place.0 == Root::Project,
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
    let own = editor.own.as_ref();
    targets.extend(own.map(|own| target(&own.files, Content::Whole(own.what, own.text))));
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

/// Tells whether relay is named in an array in a file. In what cannot be read it is not.
pub fn is_named(target: &Target, listed: &Listed) -> bool {
    let Ok(Some(whole)) = file::read(&target.path) else {
        return false;
    };
    let parts = target.content.parts(&whole.text);
    parts.is_ok_and(|parts| parts.listed.contains(listed))
}

/// Tells whether there is an entry of relay's name among the servers in a file that leads to another program.
pub fn has_other_server(target: &Target) -> bool {
    server_there(target).is_some_and(|server| !is_relays(&server, target.editor.id))
}

/// Returns what of relay's is to be in a file; `hooks` is the word by which a shell finds relay, where hooks are wanted.
pub fn wanted(target: &Target, connection: &Connection, hooks: Option<&str>) -> Parts {
    let (has_server, shape) = match target.content {
        Content::Json(shape) => (shape.servers.is_some(), shape),
        Content::Toml(_) => (true, Shape::default()),
        Content::Whole(what, text) => {
            let is_wanted = match what {
                What::Plugin => hooks.is_some(),
                What::Listener => connection.can_listen(),
            };
            return Parts {
                whole: is_wanted.then(|| text.to_owned()),
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
    /// It is to be byte for byte what it was before install.
    pub is_as_before: bool,
    /// What of the entry that was there is not, or not whole, in the one that takes its place.
    pub left_out: Vec<String>,
}

impl Change {
    /// A change of a file that was read, in which nothing is left or left out.
    pub fn new(target: Target, was: Option<Whole>, new: Option<String>, backup: Backup) -> Self {
        Self {
            target,
            was,
            new,
            backup,
            is_left: false,
            is_as_before: false,
            left_out: Vec::new(),
        }
    }

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

    /// Returns the members of relay's entry in the file by which something else runs than relay.
    pub fn run_otherwise(&self) -> Vec<&'static str> {
        self.server()
            .map_or_else(Vec::new, |server| members::run_otherwise(&server))
    }

    /// Says by what relay's entry in the file is switched off, if it is.
    pub fn switched_off(&self) -> Option<&'static str> {
        members::switched_off(&self.server()?, self.target.editor.id)
    }

    /// Says what other entries of its name do to relay's entry in the file.
    pub fn troubles(&self, directories: &Directories) -> Vec<String> {
        let editor = self.target.editor;
        let Some(server) = self.server() else {
            return Vec::new();
        };
        let entries = beside::entries(editor, directories, Some(&self.target.path));
        entries
            .iter()
            .filter_map(|beside| beside.trouble(&server, editor))
            .collect()
    }

    /// Says why the bridge of relay's entry in the file does not start for want of a name, if it does not.
    pub fn lacks_name(&self, directories: &Directories) -> Option<String> {
        named::lacks_name(&self.server()?, self.target.editor.id, &directories.project)
    }

    /// Returns the entry of relay's name that is to be in the file.
    fn server(&self) -> Option<Json> {
        let new = self.new.as_deref()?.trim_start_matches(file::MARK);
        self.target.content.parts(new).ok()?.server
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
    /// What is there under relay's name, whosever it is.
    there: Parts,
    /// What of that relay may have written.
    own: Parts,
}

/// What was kept of a file, as far as it is not relay's: it may have been kept when relay was in it already.
struct Kept {
    /// What is left without relay's parts; none if nothing is.
    text: Option<String>,
    /// The entry of relay's that was in it.
    server: Option<Json>,
    /// Somebody had added something to that or to hooks of relay's, or a comment to what of relay's was in it.
    had_additions: bool,
    /// It is all that is kept.
    is_whole: bool,
}

impl Before {
    fn read(target: &Target, data: &DataDirectory) -> Result<Self, FileError> {
        let was = file::read(&target.path)?;
        let backup = data.backup(&file::real(&target.path));
        let kept = file::read(&backup)?;
        let there = match &was {
            Some(was) => target
                .content
                .parts(&was.text)
                .map_err(|flaw| flawed(target, flaw))?,
            None => Parts::default(),
        };
        let own = there.own(|server| is_relays(server, target.editor.id));
        Ok(Self {
            was,
            backup,
            kept,
            there,
            own,
        })
    }

    /// Tells whether nobody else has changed anything since relay's parts were put in.
    fn is_untouched(&self, target: &Target) -> bool {
        let Some(was) = self.was.as_ref().filter(|_| !self.is_without(target)) else {
            return false;
        };
        let base = self.kept.as_ref().map_or("", |kept| &kept.text);
        let put = target.content.with(base, &self.own);
        let same_mark = self
            .kept
            .as_ref()
            .is_none_or(|kept| kept.bytes_with("") == was.bytes_with(""));
        put.is_ok_and(|put| put == was.text) && same_mark
    }

    /// Tells whether nothing of relay's is there but its name in arrays such as a person writes, too.
    fn is_named_alone(&self) -> bool {
        self.own.server.is_none() && self.own.hooks.is_empty()
    }

    /// Tells whether relay's name alone is there, wherever an installation writes it: hardly a person's work.
    fn is_installation_without_hooks(&self, target: &Target) -> bool {
        let Content::Json(shape) = target.content else {
            return false;
        };
        let mut all = shape.listed.iter();
        !shape.listed.is_empty()
            && self.is_named_alone()
            && all.all(|listed| self.own.listed.contains(listed))
    }

    /// Tells whether nothing of an installation is there: relay's name alone, and not wherever an installation names it, or nowhere but where it
    /// was before.
    fn is_without(&self, target: &Target) -> bool {
        let is_named = match target.content {
            Content::Json(shape) => {
                let mut always = shape.listed.iter().filter(|listed| listed.is_always);
                always.all(|listed| self.own.listed.contains(listed))
            }
            Content::Toml(_) | Content::Whole(..) => false,
        };
        let kept = self.kept.as_ref();
        let before = kept.and_then(|kept| target.content.parts(&kept.text).ok());
        let before = before.unwrap_or_default().listed;
        let is_as_before = self.own.listed.iter().all(|listed| before.contains(listed));
        self.is_named_alone() && (!is_named || is_as_before)
    }

    /// Returns what becomes of what is kept when install changes the file: nothing that somebody else had is lost.
    fn backup(&self, target: &Target, left_out: &[String]) -> Backup {
        let at = self.backup.clone();
        let (was, kept) = match (&self.was, &self.kept) {
            (None, None) => return Backup::default(),
            (None, Some(kept)) => return Backup::of_one_that_is_gone(at, kept),
            (Some(was), kept) => (was, kept.as_ref()),
        };
        let own = self.own.server.as_ref();
        let is_as_made =
            || self.is_untouched(target) && !own.is_some_and(|own| target.editor.has_additions(own));
        // So this is a first change again.
        let is_first = self.is_without(target) || self.own.server != self.there.server;
        match kept {
            None if is_as_made() && left_out.is_empty() => Backup::default(),
            // An installation without hooks is no state to go back to.
            None if self.is_installation_without_hooks(target) => Backup::made(file::beside(&at, was)),
            None => Backup::made(at),
            Some(kept) if is_first => Backup::anew(at, was, kept),
            Some(_) if left_out.is_empty() => Backup::default(),
            Some(_) => Backup::made(file::beside(&at, was)),
        }
    }

    /// Tells whether there are comments in relay's entry.
    fn has_comments(&self, target: &Target) -> bool {
        let was = self.was.as_ref().filter(|_| self.own.server.is_some());
        was.is_some_and(|was| target.content.has_comments(&was.text))
    }

    /// Takes out of what is kept what relay may have written; nothing if nothing is kept.
    fn kept_of_others(&self, target: &Target) -> Option<Kept> {
        let text = &self.kept.as_ref()?.text;
        let there = target.content.parts(text).unwrap_or_default();
        let mut own = there.own(|server| is_relays(server, target.editor.id));
        // What its owner has written for a relay is its owner's.
        own.server.take_if(|server| target.editor.is_by_hand(server));
        let had_relay = own.server.is_some() || !own.hooks.is_empty();
        let left = had_relay.then(|| target.content.without(text, &own, None));
        let left = left.map_or_else(|| Some(text.clone()), |left| left.ok().flatten());
        let added = own.server.as_ref();
        let is_added_to = added.is_some_and(|own| target.editor.has_additions(own));
        let is_added_to_hooks = !own.hooks.is_empty() && additions::are_in_hooks(&own, target.editor);
        Some(Kept {
            had_additions: is_added_to
                || is_added_to_hooks
                || target.content.loses_comments(text, left.as_deref()),
            text: left,
            server: own.server,
            is_whole: !had_relay,
        })
    }

    /// Says what uninstall takes out that somebody has written, and that is not kept; nothing if there is no such thing. `loses_comments` says
    /// that comments go as well.
    fn lost(&self, target: &Target, kept: Option<&Kept>, loses_comments: bool) -> Option<&'static str> {
        if self.is_named_alone() {
            return (!self.is_untouched(target)).then_some("with what named relay");
        }
        let is_kept = |own: &Json| {
            let server = kept.and_then(|kept| kept.server.as_ref());
            server.is_some_and(|kept| target.editor.has_same_additions(kept, own))
        };
        let has_additions = |own: &Json| target.editor.has_additions(own) && !is_kept(own);
        let is_of_entry = self.own.hooks.is_empty() || self.has_comments(target);
        let is_added_to =
            self.own.server.as_ref().is_some_and(has_additions) || loses_comments && is_of_entry;
        let added = [
            (is_added_to, "with what was added to relay's entry"),
            (
                loses_comments || additions::are_in_hooks(&self.own, target.editor),
                "with what was added to relay's hooks",
            ),
        ];
        added.into_iter().find_map(|(is, what)| is.then_some(what))
    }
}

/// Works out what installing makes of a file; nothing if there is nothing to be put into one that is not there.
///
/// # Errors
///
/// When the file cannot be read, or not be changed as far as it must be.
pub fn install(target: Target, data: &DataDirectory, mut wanted: Parts) -> Result<Option<Change>, FileError> {
    if let Content::Whole(what, own) = target.content {
        return whole::install(target, data, what, own, wanted.whole.is_some());
    }
    let before = Before::read(&target, data)?;
    if before.was.is_none() && wanted.is_empty() {
        return Ok(None);
    }
    let mut left_out = additions::keep(&mut wanted, &before.there, target.editor);
    if before.there.same(&wanted) {
        let new = before.was.as_ref().map(Whole::bytes);
        return Ok(Some(Change::new(target, before.was, new, Backup::default())));
    }
    let base = if before.is_untouched(&target) {
        before.kept.as_ref()
    } else {
        before.was.as_ref()
    };
    let put = target.content.with(base.map_or("", |base| &base.text), &wanted);
    let put = put.map_err(|flaw| flawed(&target, flaw))?;
    let was = before.was.as_ref();
    if was.is_some_and(|was| target.content.loses_comments(&was.text, Some(&put))) {
        left_out.push("comments".to_owned());
    }
    let new = match base {
        // Nothing of relay's is left in what relay has made.
        None if put.is_empty() => None,
        None => Some(put),
        Some(base) => Some(base.bytes_with(&put)),
    };
    let backup = before.backup(&target, &left_out);
    Ok(Some(Change {
        left_out,
        ..Change::new(target, before.was, new, backup)
    }))
}

/// Works out what uninstalling makes of a file; nothing if nothing of relay's is in it. `has_other` says that the editor has a server of
/// relay's name that is not relay's.
///
/// # Errors
///
/// As [`install`].
pub fn uninstall(target: Target, data: &DataDirectory, has_other: bool) -> Result<Option<Change>, FileError> {
    if let Content::Whole(what, own) = target.content {
        return whole::uninstall(target, data, what, own);
    }
    let before = match Before::read(&target, data) {
        // One that is broken without a part of relay's in it is nothing to be said about.
        Err(FileError::Flawed { .. }) if !mentions_relay(&target.path) => return Ok(None),
        read => read?,
    };
    let Some(was) = before.was.clone().filter(|_| !before.own.is_empty()) else {
        return Ok(None);
    };
    let is_untouched = before.is_untouched(&target);
    let is_others = before.is_named_alone()
        && match before.kept {
            Some(_) => before.is_without(&target),
            None => has_other || before.own.has_rule_alone() && !is_untouched,
        };
    if is_others {
        // Nothing says that it is relay's.
        return Ok(None);
    }
    let kept = before.kept_of_others(&target);
    let text = kept.as_ref().and_then(|kept| kept.text.clone());
    let as_kept = text
        .as_ref()
        .and_then(|text| Some(before.kept.as_ref()?.bytes_with(text)));
    let new = if is_untouched {
        as_kept.clone()
    } else {
        let left = target.content.without(&was.text, &before.own, text.as_deref());
        let left = left.map_err(|flaw| flawed(&target, flaw))?;
        left.map(|left| was.bytes_with(&left))
    };
    // What of relay's is there was there before.
    if new == Some(was.bytes()) {
        return Ok(None);
    }
    let backup = match &kept {
        None => Backup::default(),
        Some(kept) if new == as_kept && !kept.had_additions => Backup::dropped(before.backup.clone()),
        Some(kept) => {
            let what = match &new {
                None => "what is kept of it",
                Some(_) if kept.is_whole => "as it was before install",
                Some(_) => "what was kept of it",
            };
            Backup {
                told: vec![(what, before.backup.clone())],
                ..Backup::default()
            }
        }
    };
    let left = new.as_deref().map(|new| new.trim_start_matches(file::MARK));
    let loses_comments = target.content.loses_comments(&was.text, left);
    let backup = match before.lost(&target, kept.as_ref(), loses_comments) {
        None => backup,
        Some(what) => {
            let at = match before.kept {
                Some(_) => file::beside(&before.backup, &was),
                None => before.backup.clone(),
            };
            backup.and_made(what, at)
        }
    };
    let is_as_before = new.is_some() && new == before.kept.as_ref().map(Whole::bytes);
    Ok(Some(Change {
        is_as_before,
        ..Change::new(target, Some(was), new, backup)
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
