//! `relay install` and `relay uninstall`: which files they change and how, what they leave, and what they refuse.

mod again;
mod allowed;
mod beside;
mod copies;
mod kept;
mod lasting;
mod left_out;
mod places;
mod plugin;
mod refusals;
mod strangers;
mod whose;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::desk::{Desk, RELAY};
use super::*;

/// What OpenCode runs in place of hooks.
const OPENCODE_PLUGIN: &str = include_str!("../../../plugin/opencode/relay.js");

/// The agent of Claude Code's that waits for messages.
const LISTENER: &str = include_str!("../../../plugin/agents/message-listener.md");

/// The groups of one hook each.
fn groups(commands: &[(&str, bool)]) -> Value {
    let group = |(command, waits): &(&str, bool)| {
        let command = format!("{RELAY} hook {command}");
        let hook = if *waits {
            json!({"type": "command", "command": command, "asyncRewake": true, "timeout": 2_000_000})
        } else {
            json!({"type": "command", "command": command})
        };
        json!({"hooks": [hook]})
    };
    commands.iter().map(group).collect()
}

/// What Claude Code may do without asking, and what it asks for all the same.
fn permissions() -> Value {
    json!({"allow": ["mcp__relay"], "ask": ["mcp__relay__relay_spawn"]})
}

fn claude_hooks(port: &str) -> Value {
    let (plain, wait) = (format!("claude{port}"), format!("claude wait{port}"));
    let told = groups(&[(&plain, false)]);
    let waited = groups(&[(&plain, false), (&wait, true)]);
    json!({
        "SessionStart": waited, "UserPromptSubmit": waited, "Stop": waited,
        "PostToolUse": told, "PostToolUseFailure": told, "Notification": told, "SessionEnd": told,
    })
}

#[test]
fn a_dry_run_shows_a_diff_and_writes_nothing() {
    let desk = Desk::new();
    let file = desk.project.join(".mcp.json");
    desk.write(&file, "{\n  \"a\": 1\n}\n");
    let before = desk.files();
    let arguments = [
        "--editor",
        "cursor",
        "--editor",
        "claude",
        "--no-hooks",
        "--dry-run",
    ];
    let settings = desk.project.join(".claude/settings.local.json");
    let cursor = desk.project.join(".cursor/mcp.json");
    let diff = format!(
        "--- {mcp}\n+++ {mcp}\n@@ -1,3 +1,9 @@\n {{\n-  \"a\": 1\n+  \"a\": 1,\n+  \"mcpServers\": {{\n+    \"relay\": {{\n\
         +      \"type\": \"sse\",\n+      \"url\": \"http://localhost:7331/sse?agent=${{RELAY_AGENT:-}}\"\n+    }}\n+  }}\n }}\n\
         --- /dev/null\n+++ {}\n@@ -0,0 +1,7 @@\n+{{\n+  \"enabledMcpjsonServers\": [\"relay\"],\n\
         +  \"permissions\": {{\n+    \"allow\": [\"mcp__relay\"],\n+    \"ask\": [\"mcp__relay__relay_spawn\"]\n+  }}\n+}}\n\
         --- /dev/null\n+++ {}\n@@ -0,0 +1,7 @@\n+{{\n+  \"mcpServers\": {{\n+    \"relay\": {{\n\
         +      \"url\": \"http://localhost:7331/mcp\"\n+    }}\n+  }}\n+}}\n",
        settings.display(),
        cursor.display(),
        mcp = file.display(),
    );
    let install = [&["install"][..], &arguments[..]].concat();
    desk.relay(&install).assert().code(0).stdout(diff).stderr("");
    assert_eq!(desk.files(), before);
    assert!(!desk.home.join(".local").exists());
}

#[test]
fn a_dry_run_of_an_undoing_shows_what_would_go_and_leaves_it() {
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    desk.relay(&["install", "--editor", "cursor"]).assert().code(0);
    desk.write(&desk.home.join(".local/share/relay/bin/relay"), "a copy");
    let before = desk.files();
    let diff = format!(
        "--- {}\n+++ /dev/null\n@@ -1,7 +0,0 @@\n-{{\n-  \"mcpServers\": {{\n-    \"relay\": {{\n\
         -      \"url\": \"http://localhost:7331/mcp\"\n-    }}\n-  }}\n-}}\n",
        file.display()
    );
    let uninstall = ["uninstall", "--editor", "cursor", "--dry-run"];
    desk.relay(&uninstall).assert().code(0).stdout(diff).stderr("");
    assert_eq!(desk.files(), before);
}

#[test]
fn nothing_in_a_diff_steers_the_terminal_in_which_it_is_shown() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let desk = Desk::new();
    desk.write(&desk.project.join(".cursor/mcp.json"), "{\n  // \u{1b}[2J\n}\n");
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("it is ours");
    unlockpt(&ours).expect("it is ours");
    let path = ptsname(&ours, Vec::new()).expect("it has a path");
    let path = path.into_string().expect("it is text");
    let mut options = fs::File::options();
    let theirs = options.read(true).write(true).open(path).expect("it is there");
    let mut command = crate::support::process::command_of(RELAY);
    command.args(["install", "--editor", "cursor", "--dry-run"]);
    command.current_dir(&desk.project).env("HOME", &desk.home);
    command.stdout(theirs).stderr(std::process::Stdio::null());
    assert!(command.status().expect("it starts").success());
    // It has the last end that is theirs.
    drop(command);
    let mut shown = Vec::new();
    let _ended = std::io::Read::read_to_end(&mut fs::File::from(ours), &mut shown);
    let shown = String::from_utf8(shown).expect("it is text");
    assert!(
        shown.contains("// \\u{1b}[2J") && !shown.contains('\u{1b}'),
        "{shown:?}"
    );
}
