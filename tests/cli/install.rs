//! `relay install` and `relay uninstall`: which files they change and how, what they leave, and what they refuse.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::desk::{Desk, RELAY};
use super::*;

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
fn claude_code_has_its_server_and_its_hooks_where_it_reads_them() {
    let desk = Desk::new();
    let (servers, settings) = (
        desk.project.join(".mcp.json"),
        desk.project.join(".claude/settings.local.json"),
    );
    let made = format!(
        "Claude Code: made {}\nClaude Code: made {}\n",
        servers.display(),
        settings.display()
    );
    let arguments = ["install", "--editor", "claude"];
    desk.relay(&arguments).assert().code(0).stdout(made);
    let url = "http://localhost:7331/sse?agent=${RELAY_AGENT:-}";
    let written = format!(
        "{{\n  \"mcpServers\": {{\n    \"relay\": {{\n      \"type\": \"sse\",\n      \"url\": \"{url}\"\n    }}\n  }}\n}}\n"
    );
    assert_eq!(fs::read_to_string(&servers).expect("it is there"), written);
    let expected = json!({"enabledMcpjsonServers": ["relay"], "hooks": claude_hooks("")});
    assert_eq!(desk.json(&settings), expected);

    let same = format!(
        "Claude Code: {} is as it should be\nClaude Code: {} is as it should be\n",
        servers.display(),
        settings.display()
    );
    let before = desk.files();
    desk.relay(&arguments).assert().code(0).stdout(same).stderr("");
    assert_eq!(desk.files(), before);

    let elsewhere = [
        &arguments[..],
        &["--port", "4000", "--transport", "http", "--tools", "all"],
    ]
    .concat();
    desk.relay(&elsewhere).assert().code(0);
    let entry = json!({"type": "http", "url": "http://localhost:4000/mcp?agent=${RELAY_AGENT:-}&tools=all"});
    assert_eq!(desk.json(&servers), json!({"mcpServers": {"relay": entry}}));
    assert_eq!(desk.json(&settings)["hooks"], claude_hooks(" --port 4000"));

    let bridge = [&arguments[..], &["--transport", "stdio", "--no-hooks"]].concat();
    desk.relay(&bridge).env("RELAY_PORT", "4001").assert().code(0);
    let entry = json!({"type": "stdio", "command": RELAY, "args": ["mcp", "--port", "4001"]});
    assert_eq!(desk.json(&servers), json!({"mcpServers": {"relay": entry}}));
    assert_eq!(desk.json(&settings), json!({"enabledMcpjsonServers": ["relay"]}));

    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), []);
    assert!(
        !desk.project.join(".claude").exists(),
        "it was made for the file alone"
    );
    desk.relay(&["uninstall"])
        .assert()
        .code(3)
        .stdout("")
        .stderr("nothing of relay's is in the files of these editors\n");
}

#[test]
fn for_all_projects_claude_code_has_it_in_the_users_files() {
    let desk = Desk::new();
    let arguments = ["install", "--editor", "claude", "--global"];
    desk.relay(&arguments).assert().code(0);
    let (servers, settings) = (
        desk.home.join(".claude.json"),
        desk.home.join(".claude/settings.json"),
    );
    let entry = json!({"type": "sse", "url": "http://localhost:7331/sse?agent=${RELAY_AGENT:-}"});
    assert_eq!(desk.json(&servers), json!({"mcpServers": {"relay": entry}}));
    assert_eq!(desk.json(&settings), json!({"hooks": claude_hooks("")}));
    desk.relay(&["uninstall"]).assert().code(3);
    desk.relay(&["uninstall", "--global"]).assert().code(0);
    assert_eq!(desk.files(), []);

    let own = desk.home.join("other");
    desk.relay(&arguments)
        .env("CLAUDE_CONFIG_DIR", &own)
        .assert()
        .code(0);
    let files: Vec<PathBuf> = desk.files().into_iter().map(|(path, _)| path).collect();
    assert_eq!(files, [own.join(".claude.json"), own.join("settings.json")]);
}

#[test]
fn each_other_editor_has_what_it_reads_where_it_reads_it() {
    let http = "http://localhost:7331/mcp";
    let gemini_hooks = json!({
        "SessionStart": groups(&[("gemini", false)]), "BeforeAgent": groups(&[("gemini", false)]),
        "AfterTool": groups(&[("gemini", false)]), "AfterAgent": groups(&[("gemini", false)]),
        "SessionEnd": groups(&[("gemini", false)]),
    });
    let codex_hooks = json!({
        "SessionStart": groups(&[("codex", false)]), "UserPromptSubmit": groups(&[("codex", false)]),
        "PostToolUse": groups(&[("codex", false)]), "Stop": groups(&[("codex", false)]),
        "SessionEnd": groups(&[("codex", false)]),
    });
    let args = json!(["mcp"]);
    let config = if cfg!(target_os = "macos") {
        "Library/Application Support"
    } else {
        ".config"
    };
    let toml = format!("[mcp_servers.relay]\nurl = \"{http}\"\n");
    let toml_stdio = format!("[mcp_servers.relay]\ncommand = \"{RELAY}\"\nargs = [\"mcp\"]\n");
    let with_agent = format!("{http}?agent=${{RELAY_AGENT:-}}");
    let sse_with_agent = "http://localhost:7331/sse?agent=${RELAY_AGENT:-}";
    let plain = json!({"command": RELAY, "args": args});
    let typed = json!({"type": "stdio", "command": RELAY, "args": args});
    let gemini = |entry: Value| json!({"mcpServers": {"relay": entry}, "hooks": gemini_hooks});
    let opencode = |way: &str| {
        let url = format!("http://localhost:7331/{way}?agent={{env:RELAY_AGENT}}");
        json!({"mcp": {"relay": {"type": "remote", "url": url}}})
    };
    let local = json!({"mcp": {"relay": {"type": "local", "command": [RELAY, "mcp"]}}});
    let named = |table: &str, entry: Value| json!({table: {"relay": entry}});
    let codex = |text: &str| {
        vec![
            (".codex/config.toml".to_owned(), Value::from(text)),
            (".codex/hooks.json".to_owned(), json!({"hooks": codex_hooks})),
        ]
    };
    let one = |path: &str, value: Value| vec![(path.to_owned(), value)];
    let vscode_url = json!({"type": "http", "url": http});
    let in_config = |path: &str| format!("{config}/{path}");
    for (arguments, is_global, expected) in [
        ("codex", false, codex(&toml)),
        ("codex --transport stdio", true, codex(&toml_stdio)),
        (
            "gemini",
            false,
            one(".gemini/settings.json", gemini(json!({"httpUrl": with_agent}))),
        ),
        (
            "gemini --transport sse",
            true,
            one(
                ".gemini/settings.json",
                gemini(json!({"url": sse_with_agent, "type": "sse"})),
            ),
        ),
        (
            "gemini --transport stdio",
            false,
            one(".gemini/settings.json", gemini(plain.clone())),
        ),
        ("opencode", false, one("opencode.json", opencode("mcp"))),
        (
            "opencode --transport sse",
            true,
            one(".config/opencode/opencode.json", opencode("sse")),
        ),
        ("opencode --transport stdio", false, one("opencode.json", local)),
        (
            "cursor",
            false,
            one(".cursor/mcp.json", named("mcpServers", json!({"url": http}))),
        ),
        (
            "cursor --transport stdio",
            true,
            one(".cursor/mcp.json", named("mcpServers", plain.clone())),
        ),
        (
            "vscode",
            false,
            one(".vscode/mcp.json", named("servers", vscode_url)),
        ),
        (
            "vscode --transport stdio",
            true,
            one(&in_config("Code/User/mcp.json"), named("servers", typed)),
        ),
        (
            "windsurf",
            false,
            one(
                ".codeium/windsurf/mcp_config.json",
                named("mcpServers", json!({"serverUrl": http})),
            ),
        ),
        (
            "zed",
            false,
            one(
                ".config/zed/settings.json",
                named("context_servers", json!({"url": http})),
            ),
        ),
        (
            "zed --transport stdio",
            true,
            one(
                ".config/zed/settings.json",
                named("context_servers", plain.clone()),
            ),
        ),
    ] {
        let desk = Desk::new();
        let mut given = vec!["install", "--editor"];
        given.extend(arguments.split(' '));
        if is_global {
            given.push("--global");
        }
        desk.relay(&given).assert().code(0);
        let found: Vec<(PathBuf, Value)> = desk
            .files()
            .into_iter()
            .map(|(path, text)| {
                let value = serde_json::from_str(&text).unwrap_or(Value::from(text));
                (path, value)
            })
            .collect();
        let is_users = is_global || ["codex", "windsurf", "zed"].contains(&given[2]);
        let root = if is_users { &desk.home } else { &desk.project };
        let expected: Vec<(PathBuf, Value)> = expected
            .into_iter()
            .map(|(path, value)| (root.join(path), value))
            .collect();
        assert_eq!(found, expected, "{arguments}");
        let mut given = vec!["uninstall"];
        given.extend(is_global.then_some("--global"));
        desk.relay(&given).assert().code(0);
        assert_eq!(desk.files(), [], "{arguments}");
    }
}

/// Files as people have them, each under the names of the editors whose it may be.
const ODD: [&str; 8] = [
    "",
    "{}",
    "{\n}\r\n",
    "\u{feff}{\r\n\t\"a\": 1\r\n}\r\n",
    "// mine\n{\n      \"hooks\": { /* none yet */ },\n\n\n  \"mcpServers\": {}, // empty\n}\n",
    "{\"mcpServers\":{\"other\":{\"url\":\"http://localhost:7331/sse\"}},\"hooks\":{\"Stop\":[]}}",
    "{\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"echo relay hook claude\"}]},\n    ],\n  },\n}",
    "{\"mcpServers\": {\"relay\": {\"type\": \"sse\", \"url\": \"http://localhost:7331/sse\", \"timeout\": 5}}}\n",
];

#[test]
fn what_was_there_is_there_again_byte_for_byte_after_uninstall() {
    let json = |name: &str, project: bool| (name.to_owned(), project);
    let files = [
        json(".mcp.json", true),
        json(".claude/settings.local.json", true),
        json(".codex/hooks.json", false),
        json(".gemini/settings.json", true),
        json("opencode.jsonc", true),
        json(".cursor/mcp.json", true),
        json(".vscode/mcp.json", true),
        json(".codeium/windsurf/mcp_config.json", false),
        json(".config/zed/settings.json", false),
    ];
    let tomls = [
        "",
        "a = 1",
        "# one\r\n[mcp_servers.b]\r\nurl = 'x' # c\r\n",
        "[mcp_servers.relay]\nurl = \"u\"\nenabled = true\n[z]\n",
    ];
    for (at, text) in ODD.iter().enumerate() {
        let desk = Desk::new();
        for (name, is_project) in &files {
            let root = if *is_project { &desk.project } else { &desk.home };
            desk.write(&root.join(name), text);
        }
        desk.write(&desk.home.join(".codex/config.toml"), tomls[at % tomls.len()]);
        let before = desk.files();
        let mut editors = vec!["install"];
        for editor in [
            "claude", "codex", "gemini", "opencode", "cursor", "vscode", "windsurf", "zed",
        ] {
            editors.extend(["--editor", editor]);
        }
        desk.relay(&editors).assert().code(0);
        let installed = desk.files();
        assert_eq!(installed.len(), before.len(), "{text}");
        for (old, new) in before.iter().zip(&installed) {
            assert_ne!(old, new, "{text}");
        }
        desk.relay(&editors).assert().code(0);
        assert_eq!(desk.files(), installed, "{text}");
        let elsewhere = [&editors[..], &["--port", "4000"]].concat();
        desk.relay(&elsewhere).assert().code(0);
        desk.relay(&["uninstall"]).assert().code(0);
        assert_eq!(desk.files(), before, "{text}");
        let kept = desk.backup(&desk.project.join(".mcp.json"));
        assert!(!kept.exists(), "it is the file itself");
    }
}

#[test]
fn what_others_have_changed_since_stays() {
    let desk = Desk::new();
    let file = desk.project.join(".gemini/settings.json");
    let old = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"command\": \"a\"}\n  }\n}\n";
    desk.write(&file, old);
    desk.relay(&["install", "--editor", "gemini"]).assert().code(0);
    let kept = desk.backup(&file);
    assert_eq!(fs::read_to_string(&kept).expect("it is kept"), old);
    let later = |text: &str| text.replace("\"a\"}", "\"b\", /* new */ \"c\": 1}");
    let theirs = later(&fs::read_to_string(&file).expect("it is there"));
    fs::write(&file, theirs).expect("a file");
    let told = format!(
        "Gemini CLI: changed {}; as it was before install: {}\n",
        file.display(),
        kept.display()
    );
    desk.relay(&["uninstall"]).assert().code(0).stdout(told);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), later(old));
}

#[test]
fn a_hook_of_others_in_relays_group_stays() {
    let desk = Desk::new();
    let file = desk.project.join(".claude/settings.local.json");
    desk.relay(&["install", "--editor", "claude"]).assert().code(0);
    let mine = json!({"type": "command", "command": "make"});
    let mut settings = desk.json(&file);
    let hooks = settings["hooks"]["Stop"][0]["hooks"]
        .as_array_mut()
        .expect("an array");
    hooks.push(mine.clone());
    desk.write(&file, &settings.to_string());
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.json(&file), json!({"hooks": {"Stop": [{"hooks": [mine]}]}}));
}

#[test]
fn a_persons_additions_to_relays_entry_stay_for_as_long_as_they_mean_the_same() {
    let desk = Desk::new();
    let file = desk.project.join(".mcp.json");
    let entry = json!({"type": "sse", "url": "http://localhost:1/sse", "headers": {"A": "b"}});
    desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
    let install = ["install", "--editor", "claude", "--transport"];
    desk.relay(&[&install[..], &["http"]].concat()).assert().code(0);
    let url = "http://localhost:7331/mcp?agent=${RELAY_AGENT:-}";
    let entry = json!({"type": "http", "url": url, "headers": {"A": "b"}});
    assert_eq!(desk.json(&file), json!({"mcpServers": {"relay": entry}}));
    desk.relay(&[&install[..], &["stdio"]].concat()).assert().code(0);
    let entry = json!({"type": "stdio", "command": RELAY, "args": ["mcp"]});
    assert_eq!(desk.json(&file), json!({"mcpServers": {"relay": entry}}));
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
         --- /dev/null\n+++ {}\n@@ -0,0 +1,3 @@\n+{{\n+  \"enabledMcpjsonServers\": [\"relay\"]\n+}}\n\
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
fn a_file_that_cannot_be_read_is_named_with_the_place_and_nothing_is_changed() {
    let desk = Desk::new();
    let (broken, other) = (
        desk.project.join(".cursor/mcp.json"),
        desk.project.join(".vscode/mcp.json"),
    );
    desk.write(&broken, "{\n  \"mcpServers\": {\n    \"relay\": [}\n  }\n}");
    desk.write(&other, "{\"servers\": 1} // relay");
    let before = desk.files();
    let named = format!(
        "{}: line 3, column 15: unexpected close brace\n{}: line 1, column 13: \"servers\" is something else; accepted: an object\nnothing was changed\n",
        broken.display(),
        other.display()
    );
    for arguments in [
        vec![
            "install", "--editor", "claude", "--editor", "cursor", "--editor", "vscode",
        ],
        vec!["uninstall"],
    ] {
        let stderr = format!("relay {}: {named}", arguments[0]);
        desk.relay(&arguments).assert().code(1).stdout("").stderr(stderr);
        assert_eq!(desk.files(), before);
    }
    fs::write(&broken, b"{\n \"\xff\": 1}").expect("a file");
    let stderr = format!(
        "relay install: {}: line 2, column 3: this is no UTF-8\nnothing was changed\n",
        broken.display()
    );
    let arguments = ["install", "--editor", "cursor"];
    desk.relay(&arguments).assert().code(1).stdout("").stderr(stderr);
    fs::remove_file(&broken).expect("it is there");
    fs::create_dir(&broken).expect("a directory");
    let stderr = format!(
        "relay install: cannot read {}: it is no file\nnothing was changed\n",
        broken.display()
    );
    desk.relay(&arguments).assert().code(1).stdout("").stderr(stderr);
}

#[test]
fn where_a_later_file_cannot_be_written_those_before_are_told() {
    let desk = Desk::new();
    // Where the directory of the second file would be.
    desk.write(&desk.project.join(".vscode"), "");
    let (first, second) = (
        desk.project.join(".cursor/mcp.json"),
        desk.project.join(".vscode/mcp.json"),
    );
    let third = desk.home.join(".config/zed/settings.json");
    let arguments = [
        "install", "--editor", "cursor", "--editor", "vscode", "--editor", "zed",
    ];
    let told = contains(format!("cannot read {}: ", second.display())).and(contains("nothing was changed"));
    desk.relay(&arguments).assert().code(1).stdout("").stderr(told);
    assert!(!first.exists());

    fs::remove_file(desk.project.join(".vscode")).expect("it is there");
    symlink(desk.home.join("gone/"), desk.project.join(".vscode")).expect("a link");
    let told = predicates::str::starts_with(format!("relay install: cannot write {}: ", second.display()))
        .and(predicates::str::ends_with(format!(
            "\nchanged before that: {}; not changed: it and {}\n",
            first.display(),
            third.display()
        )));
    let made = format!("Cursor: made {}\n", first.display());
    desk.relay(&arguments).assert().code(1).stdout(made).stderr(told);
    assert!(first.exists() && !third.exists());
}

#[test]
fn a_link_stays_one_and_the_mode_is_kept() {
    let desk = Desk::new();
    let (link, file) = (
        desk.project.join(".mcp.json"),
        desk.home.join("dotfiles/mcp.json"),
    );
    desk.write(&file, "{}\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("it is one's own");
    symlink("../home/dotfiles/mcp.json", &link).expect("a link");
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    desk.relay(&["install", "--editor", "claude"]).assert().code(0);
    assert!(link.is_symlink());
    assert_eq!(mode(&file), 0o640);
    assert_eq!(mode(&desk.backup(&file)), 0o640);
    assert_eq!(desk.json(&file)["mcpServers"]["relay"]["type"], "sse");
    desk.relay(&["uninstall"]).assert().code(0);
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "{}\n");
    assert_eq!(mode(&file), 0o640);
}

#[test]
fn those_are_found_whose_directory_or_program_is_there() {
    let desk = Desk::new();
    let none =
        contains("no editor is found on this machine; name one with --editor: claude, codex, gemini, ");
    desk.relay(&["install"]).assert().code(1).stdout("").stderr(none);
    fs::create_dir(desk.home.join(".gemini")).expect("a directory");
    let program = desk.home.join("bin/claude");
    desk.write(&program, "#!/bin/sh\n");
    let found = |expected: &[&str]| {
        let shown = desk.relay(&["install", "--dry-run"]).assert().code(0);
        let shown = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
        let files: Vec<&str> = shown
            .lines()
            .filter_map(|line| line.strip_prefix("+++ "))
            .collect();
        let expected: Vec<String> = expected
            .iter()
            .map(|name| desk.project.join(name).display().to_string())
            .collect();
        assert_eq!(files, expected);
    };
    found(&[".gemini/settings.json"]);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is one's own");
    found(&[
        ".mcp.json",
        ".claude/settings.local.json",
        ".gemini/settings.json",
    ]);
}

#[test]
fn relay_is_named_alone_where_a_shell_finds_it() {
    let desk = Desk::new();
    let program = desk.home.join("bin/relay");
    fs::create_dir(desk.home.join("bin")).expect("a directory");
    symlink(RELAY, &program).expect("a link");
    desk.relay(&["install", "--editor", "codex"]).assert().code(0);
    let hooks = desk.json(&desk.home.join(".codex/hooks.json"));
    assert_eq!(
        hooks["hooks"]["Stop"][0]["hooks"][0]["command"],
        "relay hook codex"
    );
}

#[test]
fn what_an_editor_or_relay_does_not_have_is_refused_with_what_is_accepted() {
    let desk = Desk::new();
    fs::create_dir(desk.home.join(".codex")).expect("a directory");
    let sse = "relay install: Codex does not take --transport sse; accepted: http, stdio\n";
    for arguments in [
        vec![
            "install",
            "--editor",
            "claude",
            "--editor",
            "codex",
            "--transport",
            "sse",
        ],
        vec!["install", "--transport", "sse"],
    ] {
        desk.relay(&arguments).assert().code(1).stdout("").stderr(sse);
    }
    for (arguments, named) in [
        (
            ["--editor", "emacs"],
            "[possible values: claude, codex, gemini, opencode, cursor, vscode, windsurf, zed, auto]",
        ),
        (["--transport", "tcp"], "[possible values: sse, http, stdio]"),
        (
            ["--tools", "x"],
            "unknown toolset \"x\"; accepted: lift, thrum, agent-relay, or all, with commas between them",
        ),
        (["--port", "0"], "a port is a number from 1 to 65535"),
    ] {
        let arguments = [&["install"][..], &arguments].concat();
        desk.relay(&arguments)
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(named));
    }
    desk.relay(&["install", "--editor", "claude"])
        .env_remove("HOME")
        .assert()
        .code(1)
        .stderr("relay install: HOME is not set to an absolute path; set it to your home directory\n");
    assert_eq!(desk.files(), []);
}
