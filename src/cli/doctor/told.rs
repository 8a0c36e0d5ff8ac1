//! What is said of the editors: what is to be done about each, and all of it as a text for a person.

use super::entry::{Configured, Stands};
use super::hooks::Hooks;
use super::off::off;
use super::{Report, Seen, Settings, id};
use crate::cli::install::beside::Beside;
use crate::cli::install::directories::Directories;
use crate::cli::install::editors::{Editor, Id};
use crate::cli::install::said::is_relays;
use crate::cli::install::settings::WITHOUT_HOOKS;
use crate::cli::install::{members, named};
use crate::cli::own_program;
use crate::cli::place::DEFAULT_PORT;

/// What is to be done, a line for each thing that is not well.
pub fn to_do(
    report: &Report,
    editor: &Editor,
    seen: &[Seen],
    beside: &[Beside],
    directories: &Directories,
    settings: &Settings,
) -> Vec<String> {
    let plugins = &settings.plugins;
    let relay = own_program();
    let mut lines: Vec<String> = report
        .broken
        .iter()
        .map(|broken| format!("{broken}; mend that"))
        .collect();
    if !report.is_concerned() {
        return lines;
    }
    let is_global = seen
        .iter()
        .any(|seen| seen.is_global && !seen.parts.is_empty() && editor.servers.project.is_some());
    let port = report.configured.iter().find_map(|configured| configured.port);
    let install_for = |is_global: bool, port: Option<u16>| {
        let connection = port
            .filter(|port| *port != DEFAULT_PORT)
            .map(|port| format!(" --port {port}"));
        let global = if is_global { " --global" } else { "" };
        format!(
            "{relay} install --editor {}{global}{}",
            id(editor),
            connection.unwrap_or_default()
        )
    };
    let in_project = seen.iter().any(|seen| !seen.is_global && !seen.parts.is_empty());
    let install = install_for(is_global && !in_project, port);
    if report.configured.is_empty() && report.broken.is_empty() {
        lines.push(format!("it has hooks but no server; connect it with: {install}"));
    }
    for configured in &report.configured {
        let Some(error) = &configured.error else {
            continue;
        };
        let is_global = configured.stands == Stands::ForAll && editor.servers.project.is_some();
        let install = install_for(is_global, configured.port);
        let what_to_do = match (configured.lacks_token, editor.can_send_token()) {
            (false, _) => String::new(),
            (true, _) if configured.stands == Stands::Beside => {
                "; give it the header Authorization yourself".to_owned()
            }
            (true, true) => format!("; with that in RELAY_TOKEN, have it sent by: {install}"),
            (true, false) => format!(
                "; give it the header Authorization yourself, or have the bridge send it by: {install} --transport stdio"
            ),
        };
        lines.push(format!("{}: {error}{what_to_do}", configured.file.display()));
    }
    let servers = seen
        .iter()
        .filter_map(|seen| Some((seen, seen.parts.server.as_ref()?)));
    for ((seen, server), configured) in servers.zip(&report.configured) {
        let is_global = seen.is_global && editor.servers.project.is_some();
        // A relay elsewhere is none that install leads to.
        let is_here = configured.reachable.is_some() && configured.port.is_some();
        let has_address = members::Way::of(server, editor.id) == Some(members::Way::Address);
        if is_here && has_address && !is_relays(server, editor.id) {
            let file = seen.target.path.display();
            lines.push(format!(
                "{file}: install and uninstall take it for another program's; put agent= into the query of its address"
            ));
        }
        let install = install_for(is_global, port);
        lines.extend(members::flaws(server, editor.id).into_iter().map(|flaw| {
            let file = seen.target.path.display();
            format!("{file}: {flaw}; write it anew by: {install}")
        }));
        let off = members::switched_off(server, editor.id).filter(|_| is_relays(server, editor.id));
        lines.extend(off.map(|by| {
            let file = seen.target.path.display();
            format!("{file}: its entry is switched off, {by}; take that out")
        }));
    }
    let own = seen.iter().find_map(|seen| seen.parts.server.as_ref());
    lines.extend(seen.iter().filter_map(|seen| {
        let reason = named::lacks_name(seen.parts.server.as_ref()?, editor.id, &directories.project)?;
        Some(format!("{}: {reason}", seen.target.path.display()))
    }));
    lines.extend(off(editor, seen, directories));
    let troubles = beside.iter().filter_map(|beside| beside.trouble(own?, editor));
    lines.extend(troubles);
    match report.hooks {
        // Of one whose files cannot be read nothing is known, and a plugin brings its own.
        Some(Hooks::Missing) if report.configured.is_empty() || !plugins.is_empty() => {}
        Some(Hooks::Missing) => lines.push(format!("put its hooks in with: {install}")),
        Some(Hooks::Drifted) => lines.push(format!("bring its hooks up to date with: {install}")),
        Some(Hooks::Current) | None => {}
    }
    if settings.asks && !report.configured.is_empty() {
        lines.push(format!(
            "it asks before each of relay's tools; have them allowed by: {install}"
        ));
    }
    let stops = settings.stops.iter().filter(|_| !report.configured.is_empty());
    lines.extend(stops.map(|stop| {
        let (rule, list, file) = (&stop.rule, stop.list(), stop.file.display());
        let (does, so) = if stop.asks {
            ("asks for", "it asks before each such tool")
        } else {
            ("denies", "no such tool is called")
        };
        format!("{file}: it {does} {rule} in {list}, so that {so}; take that out")
    }));
    if let Some(file) = &settings.without_hooks {
        lines.push(format!(
            "{}: it says {WITHOUT_HOOKS}, so that no hook is run; take that out",
            file.display()
        ));
    }
    for plugin in plugins {
        lines.push(format!(
            "its plugin {plugin} is on as well, and brings the same tools and hooks; take one of the two out: claude plugin disable {plugin}, \
             or {relay} uninstall --editor {}{}",
            id(editor),
            if is_global && !in_project { " --global" } else { "" }
        ));
    }
    if report.trusted == Some(false) {
        lines.push(if editor.id == Id::Gemini {
            "start gemini here, and trust the folder when it asks, or with /permissions; until then it runs neither relay's server nor the project's hooks".to_owned()
        } else {
            "start codex, and trust all hooks when it asks".to_owned()
        });
    }
    lines
}

pub fn text(reports: &[Report]) -> String {
    let mut lines = Vec::new();
    let mut absent = Vec::new();
    for report in reports {
        let version = report.found.as_ref().map(|found| match &found.version {
            Some(version) => format!("{} ({version})", found.program.display()),
            None => found.program.display().to_string(),
        });
        if report.is_concerned() {
            lines.push(format!(
                "{}: {}",
                report.name,
                if report.to_do.is_empty() {
                    "well"
                } else {
                    "not well"
                }
            ));
            lines.push(format!(
                "  program     {}",
                version.as_deref().unwrap_or("not on PATH")
            ));
        } else if let Some(version) = version {
            let connect = format!("{} install --editor {}", own_program(), report.editor);
            lines.push(format!(
                "{}: not connected; connect it with: {connect}",
                report.name
            ));
            lines.push(format!("  program     {version}"));
        } else {
            absent.push(report.name);
            continue;
        }
        for Configured {
            file,
            leads_to,
            reachable,
            untried,
            ..
        } in &report.configured
        {
            lines.push(format!("  configured  {}: {leads_to}", file.display()));
            lines.push(match (reachable, untried) {
                (Some(version), _) => format!("  reachable   yes, relay {version}"),
                (None, Some(untried)) => format!("  reachable   yes; {untried}"),
                (None, None) => "  reachable   no".to_owned(),
            });
        }
        if report.is_concerned() {
            lines.extend(
                report
                    .hooks
                    .map(|hooks| format!("  hooks       {}", hooks.name())),
            );
            let trusted = report.trusted.map(|is| if is { "yes" } else { "no" });
            lines.extend(trusted.map(|is| format!("  trusted     {is}")));
        }
        lines.extend(report.to_do.iter().map(|line| format!("  to do       {line}")));
    }
    if !absent.is_empty() {
        lines.push(format!("neither found nor connected: {}", absent.join(", ")));
    }
    lines.join("\n") + "\n"
}
