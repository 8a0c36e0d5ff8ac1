//! What in an editor's files, beside relay's own parts, keeps it from starting relay's server, from calling some of its tools, or from running its
//! hooks. As Gemini CLI 0.61, Codex 0.171 and OpenCode 1.18 have it.

use std::path::{Path, PathBuf};

use super::Seen;
use super::entry::Configured;
use crate::cli::install::beside;
use crate::cli::install::command::is_hook;
use crate::cli::install::directories::Directories;
use crate::cli::install::editors::{ALLOWED, ASKED, Editor, Id};
use crate::cli::install::file;
use crate::cli::install::json::{self, Json, Step};
use crate::cli::install::parts::NAME;
use crate::cli::install::said::Said;
use crate::cli::install::settings::matches;

/// The members of an entry that name the tools which are called, with some editors.
const TOOLS: [&str; 2] = ["includeTools", "enabled_tools"];

/// The members that name the tools which are not.
const NOT_TOOLS: [&str; 3] = ["excludeTools", "disabled_tools", "disabledTools"];

/// Says what is off, a line for each, with its file and its member; `own` are the files with an entry in them, with where that leads.
pub fn off(
    editor: &Editor,
    seen: &[Seen],
    own: &[(&Seen, &Configured)],
    directories: &Directories,
) -> Vec<String> {
    let of_relay = |(seen, configured): &(&Seen, &Configured)| {
        let entry = seen.parts.server.clone();
        entry.filter(|_| configured.leads_to_relay())
    };
    let entries = own.iter().filter_map(|own| Some((own.0, of_relay(own)?)));
    let mut lines: Vec<String> = entries
        .flat_map(|(seen, entry)| tools_of_entry(seen, &entry))
        .collect();
    match editor.id {
        Id::Gemini => lines.extend(of_gemini(seen)),
        Id::Codex => {
            let files = beside::layers(editor.id, directories);
            lines.extend(files.iter().filter_map(|file| of_codex(file)));
        }
        Id::Opencode => {
            let entry = own.first().and_then(of_relay);
            let files = beside::layers(editor.id, directories);
            lines.extend(entry.iter().flat_map(|entry| of_opencode(entry, &files)));
        }
        Id::Claude | Id::Cursor | Id::Vscode | Id::Windsurf | Id::Zed => {}
    }
    lines
}

fn tools_of_entry(seen: &Seen, entry: &Json) -> Vec<String> {
    let editor = seen.target.editor.id;
    let names = |member: &str| -> Option<Vec<&str>> {
        let listed = entry.get(member)?.as_list()?;
        Some(listed.iter().filter_map(Json::as_text).collect())
    };
    let line = |member: &str, what: &str, is_out: &dyn Fn(&str) -> bool| {
        let out: Vec<&str> = tools(entry, editor).filter(|tool| is_out(tool)).collect();
        let (file, out) = (
            seen.target.path.display(),
            (!out.is_empty()).then(|| out.join(", "))?,
        );
        Some(format!("{file}: {member} of its entry leaves out {out}; {what}"))
    };
    let included = TOOLS.iter().filter_map(|member| {
        let names = names(member)?;
        line(member, "name them, or take that out", &|tool| {
            !names.contains(&tool)
        })
    });
    let excluded = NOT_TOOLS.iter().filter_map(|member| {
        let names = names(member)?;
        line(member, "take that out", &|tool| names.contains(&tool))
    });
    included.chain(excluded).collect()
}

/// The tools that an entry brings, but for the one of which a person decides.
fn tools(entry: &Json, editor: Id) -> impl Iterator<Item = &'static str> {
    let tools = Said::anywhere(entry, editor)
        .toolsets()
        .sets()
        .flat_map(|set| set.tools);
    let is_asked = |name: &str| format!("{}__{name}", ALLOWED.name) == ASKED.name;
    tools.map(|tool| tool.name).filter(move |name| !is_asked(name))
}

fn of_gemini(seen: &[Seen]) -> Vec<String> {
    let list = |seen: &Seen, way: [&str; 2]| -> Option<Vec<String>> {
        let texts = value(&seen.text, &way)?;
        let texts = texts.as_list()?.iter().filter_map(Json::as_text);
        Some(texts.map(str::to_owned).collect())
    };
    let is_relay = |name: &String| name == NAME;
    let mut lines = Vec::new();
    let mut say = |seen: &Seen, what: &str| lines.push(format!("{}: {what}", seen.target.path.display()));
    for seen in seen {
        if list(seen, ["mcp", "excluded"]).is_some_and(|names| names.iter().any(is_relay)) {
            say(
                seen,
                "mcp.excluded names relay, so that its server is not started; take that out",
            );
        }
        if list(seen, ["hooksConfig", "disabled"]).is_some_and(|names| names.iter().any(|name| is_hook(name)))
        {
            say(
                seen,
                "hooksConfig.disabled names a hook of relay's, so that it is not run; take that out",
            );
        }
    }
    // What the project says counts for more than what its person says for all.
    let mut allowed = seen
        .iter()
        .filter_map(|seen| Some((seen, list(seen, ["mcp", "allowed"])?)));
    if let Some((seen, names)) = allowed.next()
        && !names.iter().any(is_relay)
    {
        say(
            seen,
            "mcp.allowed does not name relay, so that its server is not started; name it there",
        );
    }
    let mut enabled = seen
        .iter()
        .filter_map(|seen| Some((seen, value(&seen.text, &["hooksConfig", "enabled"])?)));
    if let Some((seen, is_on)) = enabled.next()
        && is_on == Json::Plain("false".to_owned())
    {
        say(
            seen,
            "hooksConfig.enabled is false, so that no hook is run; take that out",
        );
    }
    lines
}

fn of_codex(path: &Path) -> Option<String> {
    let whole = file::read(path).ok()??;
    let document = toml_edit::Document::parse(whole.text.as_str()).ok()?;
    let is_on = document.get("features")?.get("hooks")?.as_bool()?;
    let file = path.display();
    (!is_on).then(|| format!("{file}: features.hooks is false, so that no hook is run; take that out"))
}

fn of_opencode(entry: &Json, files: &[PathBuf]) -> Vec<String> {
    let is_plain = |value: &Json, text: &str| *value == Json::Plain(text.to_owned());
    let is_denied = |value: &Json| {
        value.as_text() == Some("deny") || value.get("*").and_then(Json::as_text) == Some("deny")
    };
    let tools: Vec<String> = tools(entry, Id::Opencode)
        .map(|tool| format!("{NAME}_{tool}"))
        .collect();
    let mut lines = Vec::new();
    for (member, is_off, what) in [
        (
            "tools",
            &(|value: &Json| is_plain(value, "false")) as &dyn Fn(&Json) -> bool,
            "false",
        ),
        ("permission", &is_denied, "deny"),
    ] {
        let rules = rules(files, member);
        let mut off: Vec<&(String, Json, PathBuf)> = Vec::new();
        for tool in &tools {
            // Of several rules, the last one counts.
            let rule = rules.iter().rfind(|(pattern, _, _)| matches(pattern, tool));
            let rule = rule.filter(|(_, value, _)| is_off(value));
            off.extend(rule.filter(|rule| !off.contains(rule)));
        }
        lines.extend(off.iter().map(|(pattern, _, file)| {
            let file = file.display();
            format!("{file}: {member} has {what} for {pattern:?}, so that such tools are not called; take that out")
        }));
    }
    lines
}

/// The members of an object in OpenCode's files, each with the file that counts, the last one in which it is.
fn rules(files: &[PathBuf], member: &str) -> Vec<(String, Json, PathBuf)> {
    let mut rules: Vec<(String, Json, PathBuf)> = Vec::new();
    for file in files {
        let whole = file::read(file).ok().flatten();
        let there = whole.and_then(|whole| value(&whole.text, &[member]));
        let members = match there {
            Some(Json::Object(members)) => members,
            // One word is for all.
            Some(all @ Json::Text(_)) => vec![("*".to_owned(), all)],
            Some(Json::Plain(_) | Json::List(_)) | None => Vec::new(),
        };
        for (pattern, value) in members {
            let rule = (pattern, value, file.clone());
            match rules.iter_mut().find(|(known, _, _)| *known == rule.0) {
                Some(known) => *known = rule,
                None => rules.push(rule),
            }
        }
    }
    rules
}

fn value(text: &str, way: &[&str]) -> Option<Json> {
    let way: Vec<Step<'_>> = way.iter().map(|key| Step::Key(key)).collect();
    json::get(text, &way).ok()?
}
