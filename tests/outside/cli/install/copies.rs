//! What is kept of a file before something goes from it, and what is said of that.

use super::*;

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}

fn numbered(kept: &Path, number: u32) -> PathBuf {
    PathBuf::from(format!("{}.{number}", kept.display()))
}

/// Entries of relay's to which somebody has added something, as they stand in Gemini CLI's file.
const WITH_ADDITIONS: [&str; 7] = [
    r#"{"httpUrl": "http://localhost:7331/mcp?agent=${RELAY_AGENT:-}", "headers": {"A": "s3cret"}}"#,
    r#"{"httpUrl": "http://localhost:7331/mcp?agent=dev-b"}"#,
    r#"{"httpUrl": "http://localhost:7331/mcp?agent=${RELAY_AGENT:-}&tools=thrum"}"#,
    r#"{"httpUrl": "http://localhost:7331/mcp"}"#,
    r#"{"httpUrl": "http://localhost:7331/mcp?agent=${RELAY_AGENT:-}" /* mine */}"#,
    r#"{"command": "relay", "args": ["mcp", "--project", "web"]}"#,
    r#"{"command": "npx", "args": ["-y", "relay-bus", "mcp"]}"#,
];

#[test]
fn what_was_added_to_relays_entry_is_kept_when_it_is_taken_out() {
    for entry in WITH_ADDITIONS {
        let desk = Desk::new();
        let file = desk.project.join(".gemini/settings.json");
        let text = format!("{{\"mcpServers\": {{\"relay\": {entry}}}, \"theme\": \"dark\"}}");
        desk.write(&file, &text);
        let kept = desk.backup(&file);
        let told = format!(
            "Gemini CLI: changed {}; with what was added to relay's entry: {}\n",
            file.display(),
            kept.display()
        );
        desk.relay(&["uninstall"]).assert().code(0).stdout(told);
        assert_eq!(desk.json(&file), json!({"theme": "dark"}), "{entry}");
        assert_eq!(read(&kept), text);

        // Where the file was kept before, beside that.
        let desk = Desk::new();
        let mine = "{\n  \"theme\": \"dark\"\n}\n";
        desk.write(&file_of(&desk), mine);
        desk.relay(&["install", "--editor", "gemini", "--no-hooks"])
            .assert()
            .code(0);
        desk.write(&file_of(&desk), &text);
        desk.relay(&["uninstall"]).assert().code(0);
        assert_eq!(desk.json(&file_of(&desk)), json!({"theme": "dark"}), "{entry}");
        assert_eq!(read(&numbered(&desk.backup(&file_of(&desk)), 1)), text);
    }
}

fn file_of(desk: &Desk) -> PathBuf {
    desk.project.join(".gemini/settings.json")
}

#[test]
fn a_comment_in_relays_table_is_kept_when_that_is_taken_out() {
    let desk = Desk::new();
    let file = desk.home.join(".codex/config.toml");
    for (text, is_kept) in [
        (
            "[mcp_servers.relay]\nurl = \"http://localhost:7331/mcp\"\n",
            false,
        ),
        (
            "[mcp_servers.relay]\nurl = \"http://localhost:7331/mcp\" # mine\n",
            true,
        ),
    ] {
        desk.write(&file, text);
        desk.relay(&["uninstall"]).assert().code(0);
        assert!(!file.exists());
        assert_eq!(desk.backup(&file).exists(), is_kept, "{text}");
    }
}

#[test]
fn what_install_itself_writes_goes_without_a_copy() {
    for editor in [
        "claude", "codex", "gemini", "opencode", "cursor", "vscode", "windsurf", "zed",
    ] {
        for transport in ["http", "stdio"] {
            for token in ["", "a-token-of-some-length"] {
                let desk = Desk::new();
                for port in ["7331", "4000"] {
                    let install = [
                        "install",
                        "--editor",
                        editor,
                        "--transport",
                        transport,
                        "--port",
                        port,
                    ];
                    desk.relay(&install).env("RELAY_TOKEN", token).assert().code(0);
                }
                desk.relay(&["uninstall"]).assert().code(0);
                assert_eq!(desk.files(), [], "{editor} {transport}");
                let data = desk.home.join(".local/share/relay");
                assert!(!data.exists(), "{editor} {transport}");
            }
        }
    }
}

#[test]
fn a_file_is_said_to_be_as_it_was_before_install_only_where_it_is() {
    let before = "as it was before install";
    let install = ["install", "--editor", "cursor"];
    let with = |port: &str| json!({"mcpServers": {"relay": {"url": format!("http://localhost:{port}/mcp")}}, "a": 1});
    // It was made by install, or kept with an entry of relay's in it.
    for is_made in [true, false] {
        let desk = Desk::new();
        let file = desk.project.join(".cursor/mcp.json");
        if is_made {
            desk.relay(&install).assert().code(0);
        }
        desk.write(&file, &with("7331").to_string());
        desk.relay(&[&install[..], &["--port", "4000"]].concat())
            .assert()
            .code(0);
        let told = format!("Cursor: changed {}\n", file.display());
        desk.relay(&["uninstall"]).assert().code(0).stdout(told);
        assert_eq!(desk.json(&file), json!({"a": 1}));
    }
    // The same where others have changed it since.
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    desk.write(&file, &with("7331").to_string());
    let elsewhere = [&install[..], &["--port", "4000"]].concat();
    desk.relay(&elsewhere).assert().code(0);
    desk.write(&file, &read(&file).replace("\"a\"", "\"b\""));
    let said = contains(before).not().and(contains("; what was kept of it: "));
    desk.relay(&["uninstall"]).assert().code(0).stdout(said);

    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    desk.write(&file, "{\"a\": 1}");
    desk.relay(&install).assert().code(0);
    let told = format!("Cursor: changed {}, which is {before}\n", file.display());
    desk.relay(&["uninstall"]).assert().code(0).stdout(told);
    assert_eq!(read(&file), "{\"a\": 1}");
}

#[test]
fn rules_and_approvals_of_the_owners_stay_in_a_file_of_which_something_was_kept_once() {
    let own = [
        r#"{"mine": 1, "permissions": {"allow": ["mcp__relay"]}}"#,
        r#"{"mine": 1, "enabledMcpjsonServers": ["relay", "x"]}"#,
        r#"{"mine": 1, "permissions": {"ask": ["mcp__relay__relay_spawn"]}}"#,
    ];
    for text in own {
        for is_installed_again in [false, true] {
            let desk = Desk::new();
            let file = desk.project.join(".claude/settings.local.json");
            let install = ["install", "--editor", "claude"];
            desk.write(&file, "{\"mine\": 1}");
            desk.relay(&install).assert().code(0);
            // As by `git checkout`.
            desk.write(&file, text);
            if is_installed_again {
                desk.relay(&install).assert().code(0);
                assert_ne!(read(&file), text);
            }
            desk.relay(&["uninstall"]).assert().code(0);
            assert_eq!(read(&file), text);
        }
    }
}

#[test]
fn rules_of_which_nobody_knows_whose_they_are_are_kept_when_they_go() {
    let desk = Desk::new();
    let file = desk.project.join(".claude/settings.local.json");
    let install = ["install", "--editor", "claude", "--no-hooks"];
    desk.write(&file, "{\"mine\": 1}");
    desk.relay(&install).assert().code(0);
    let later = read(&file).replace("\"mine\": 1", "\"mine\": 2");
    desk.write(&file, &later);
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.json(&file), json!({"mine": 2}));
    assert_eq!(read(&numbered(&desk.backup(&file), 1)), later);
}

#[test]
fn what_is_kept_already_is_not_kept_again() {
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    let kept = desk.backup(&file);
    let copies = || {
        let directory = kept.parent().expect("it lies in a directory");
        let mut names: Vec<String> = fs::read_dir(directory)
            .expect("it is there")
            .map(|entry| entry.expect("it is there").path())
            .map(|path| read(&path))
            .collect();
        names.sort();
        names
    };
    let texts = ["{\"mine\": 1}", "{\"mine\": 2}"];
    for _ in 0..3 {
        for text in texts {
            // Twice, as by `git checkout`.
            for _ in 0..2 {
                desk.write(&file, text);
                let told = format!("; as it was: {}", kept.display());
                let install = ["install", "--editor", "cursor"];
                desk.relay(&install).assert().code(0).stdout(contains(told));
                assert_eq!(read(&kept), text);
            }
        }
    }
    let all = copies();
    let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), 2, "{all:?}");
    assert!(all.len() <= 3, "{all:?}");
}
