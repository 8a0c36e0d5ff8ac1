//! What is said of the editors: what is to be done about each, and all of it as a text for a person.

use super::entry::{Configured, Leads, Stands};
use super::hooks::Hooks;
use super::off::off;
use super::{Report, Seen, Settings, id};
use crate::cli::install::beside::Beside;
use crate::cli::install::directories::Directories;
use crate::cli::install::editors::{ALLOWED, Editor, Id};
use crate::cli::install::said::is_relays;
use crate::cli::install::settings::WITHOUT_HOOKS;
use crate::cli::install::{members, named};
use crate::cli::own_program;
use crate::cli::place::DEFAULT_PORT;

/// What is to be done, a line for each thing that is not well. Whoever does what it says to the letter loses no connection: no installation is named
/// for an entry that would lead elsewhere with it.
pub fn to_do(
    report: &Report,
    editor: &Editor,
    seen: &[Seen],
    beside: &[Beside],
    directories: &Directories,
    settings: &Settings,
) -> Vec<String> {
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
    let in_project = seen.iter().any(|seen| !seen.is_global && !seen.parts.is_empty());
    let is_global = is_global && !in_project;
    let port = report.configured.iter().find_map(|configured| configured.port);
    let install = install(editor, is_global, port);
    if report.configured.is_empty() && report.broken.is_empty() {
        lines.push(format!("it has hooks but no server; connect it with: {install}"));
    }
    lines.extend(report.configured.iter().filter_map(|entry| error(entry, editor)));
    let servers = seen.iter().filter(|seen| seen.parts.server.is_some());
    let own: Vec<(&Seen, &Configured)> = servers.zip(&report.configured).collect();
    lines.extend(
        own.iter()
            .flat_map(|(seen, configured)| of_entry(seen, configured)),
    );
    lines.extend(seen.iter().filter_map(|seen| {
        let reason = named::lacks_name(seen.parts.server.as_ref()?, editor.id, &directories.project)?;
        Some(format!("{}: {reason}", seen.target.path.display()))
    }));
    lines.extend(off(editor, seen, &own, directories));
    let first = own.first().and_then(|(seen, _)| seen.parts.server.as_ref());
    let troubles = beside.iter().filter_map(|beside| beside.trouble(first?, editor));
    lines.extend(troubles);
    let leads = Deciding::of(&report.configured);
    match report.hooks {
        // Of one whose files cannot be read nothing is known, and a plugin brings its own.
        Some(Hooks::Missing) if report.configured.is_empty() || !settings.plugins.is_empty() => {}
        // Those that install writes look for a relay on this machine.
        Some(_) if !leads.here => {}
        Some(Hooks::Missing) => lines.push(format!("put its hooks in with: {install}")),
        Some(Hooks::Drifted) => lines.push(format!("bring its hooks up to date with: {install}")),
        Some(Hooks::Current) | None => {}
    }
    if settings.asks && leads.to_relays {
        let allow = if leads.here {
            format!("have them allowed by: {install}")
        } else {
            format!(
                "have them allowed by {} in {} of its settings",
                ALLOWED.name,
                ALLOWED.list.join(".")
            )
        };
        lines.push(format!("it asks before each of relay's tools; {allow}"));
    }
    lines.extend(of_settings(settings, leads));
    if leads.to_relays || report.hooks.is_some_and(|hooks| hooks != Hooks::Missing) {
        let global = if is_global { " --global" } else { "" };
        lines.extend(settings.plugins.iter().map(|plugin| format!(
            "its plugin {plugin} is on as well, and brings the same tools and hooks; take one of the two out: claude plugin disable {plugin}, \
             or {} uninstall --editor {}{global}",
            own_program(),
            id(editor),
        )));
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

/// Where those of an editor's entries lead that count: the first one that install may write, which hides others, and what stands beside.
#[derive(Debug, Clone, Copy)]
struct Deciding {
    /// Each to this machine, so that an installation leads none away.
    here: bool,
    /// There is one, and each leads to a relay.
    to_relays: bool,
}

impl Deciding {
    fn of(configured: &[Configured]) -> Self {
        let deciding = || {
            let numbered = configured.iter().enumerate();
            numbered.filter(|(at, configured)| *at == 0 || configured.stands == Stands::Beside)
        };
        Self {
            here: deciding().all(|(_, configured)| configured.leads == Leads::Here),
            to_relays: !configured.is_empty()
                && deciding().all(|(_, configured)| configured.leads_to_relay()),
        }
    }
}

/// Writes the command that puts relay into an editor.
fn install(editor: &Editor, is_global: bool, port: Option<u16>) -> String {
    let connection = port
        .filter(|port| *port != DEFAULT_PORT)
        .map(|port| format!(" --port {port}"));
    let global = if is_global { " --global" } else { "" };
    format!(
        "{} install --editor {}{global}{}",
        own_program(),
        id(editor),
        connection.unwrap_or_default()
    )
}

/// Says why no relay tells its version where an entry leads, and what is to be done about that.
fn error(configured: &Configured, editor: &Editor) -> Option<String> {
    let error = configured.error.as_ref()?;
    let is_global = configured.stands == Stands::ForAll && editor.servers.project.is_some();
    let install = install(editor, is_global, configured.port);
    let is_beside = configured.stands == Stands::Beside;
    let what_to_do = match (configured.lacks_token, editor.can_send_token()) {
        (false, _) if configured.leads == Leads::StartsOther && !is_beside => {
            ", in the place of which install would put relay's; give that another name".to_owned()
        }
        (false, _) => String::new(),
        (true, _) if is_beside => "; give it the header Authorization yourself".to_owned(),
        (true, true) => format!("; with that in RELAY_TOKEN, have it sent by: {install}"),
        (true, false) => format!(
            "; give it the header Authorization yourself, or have the bridge send it by: {install} --transport stdio"
        ),
    };
    Some(format!("{}: {error}{what_to_do}", configured.file.display()))
}

/// Says what is not well about an entry in a file into which install writes.
fn of_entry(seen: &Seen, configured: &Configured) -> Vec<String> {
    let Some(server) = &seen.parts.server else {
        return Vec::new();
    };
    let editor = seen.target.editor;
    let file = seen.target.path.display();
    let mut lines = Vec::new();
    // A relay elsewhere is none that install leads to.
    let is_here = configured.reachable.is_some() && configured.port.is_some();
    let has_address = members::Way::of(server, editor.id) == Some(members::Way::Address);
    if is_here && has_address && !is_relays(server, editor.id) {
        lines.push(format!(
            "{file}: install and uninstall take it for another program's; put agent= into the query of its address"
        ));
    }
    let mend = if configured.leads == Leads::Here {
        let is_global = seen.is_global && editor.servers.project.is_some();
        let install = install(editor, is_global, configured.port);
        if seen.target.content.with(&seen.text, &seen.parts).is_ok() {
            format!("write it anew by: {install}")
        } else {
            // As an inline table of TOML, which install does not take apart.
            format!("take it out of the file, and write it anew by: {install}")
        }
    } else {
        "mend that".to_owned()
    };
    let flaws = members::flaws(server, editor.id).into_iter();
    lines.extend(flaws.map(|flaw| format!("{file}: {flaw}; {mend}")));
    let off = members::switched_off(server, editor.id).filter(|_| configured.leads_to_relay());
    lines.extend(off.map(|by| format!("{file}: its entry is switched off, {by}; take that out")));
    lines
}

/// Says what Claude Code's settings keep from relay's tools and hooks.
fn of_settings(settings: &Settings, leads: Deciding) -> Vec<String> {
    let stops = settings.stops.iter().filter(|_| leads.to_relays);
    let stops = stops.map(|stop| {
        let (rule, list, file) = (&stop.rule, stop.list(), stop.file.display());
        let (does, so) = if stop.asks {
            ("asks for", "it asks before each such tool")
        } else {
            ("denies", "no such tool is called")
        };
        format!("{file}: it {does} {rule} in {list}, so that {so}; take that out")
    });
    let without_hooks = settings.without_hooks.iter().map(|file| {
        format!(
            "{}: it says {WITHOUT_HOOKS}, so that no hook is run; take that out",
            file.display()
        )
    });
    stops.chain(without_hooks).collect()
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
