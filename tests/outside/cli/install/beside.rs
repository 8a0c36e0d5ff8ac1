//! Entries called relay in files that an editor reads beside those that an installation writes: they are named, and stay.

use super::*;

#[test]
fn what_codex_mixes_with_relays_entry_in_a_project_is_named() {
    let desk = Desk::new();
    let file = desk.project.join(".codex/config.toml");
    let install = ["install", "--editor", "codex", "--no-hooks"];
    let over_stdio = [&install[..], &["--transport", "stdio"]].concat();
    for (text, arguments, does) in [
        (
            "command = \"x\"",
            &install[..],
            "keeps Codex from starting once it trusts the project: it has both a command and an address",
        ),
        (
            "url = \"http://localhost:7331/mcp\"",
            &over_stdio,
            "keeps Codex from starting once it trusts the project: it has both a command and an address",
        ),
        ("enabled = false", &install, "switches it off: enabled is false"),
    ] {
        let text = format!("[mcp_servers.relay]\n{text}\n");
        desk.write(&file, &text);
        let told = format!(
            "Codex: {}: mcp_servers.relay is mixed with relay's entry, and {does}; take it out\n",
            file.display()
        );
        for dry in [&[][..], &["--dry-run"]] {
            let arguments = [arguments, dry].concat();
            desk.relay(&arguments)
                .assert()
                .code(0)
                .stderr(contains(told.clone()));
        }
        desk.relay(&["uninstall"]).assert().code(0);
        assert_eq!(desk.files(), [(file.clone(), text)]);
    }
    let other = "[mcp_servers.relay]\nurl = \"http://localhost:9/mcp\"\n";
    desk.write(&file, other);
    let told = format!(
        "Codex: {}: mcp_servers.relay is mixed with relay's entry, which leads to http://localhost:9/mcp then; take it out\n",
        file.display()
    );
    desk.relay(&install).assert().code(0).stderr(contains(told));
    // With that it means the same.
    desk.write(&file, "[mcp_servers.relay]\ntool_timeout_sec = 300\n");
    desk.relay(&install).assert().code(0).stderr("");
}

#[test]
fn what_codex_mixes_in_a_folder_is_named_up_to_the_top_of_its_work_tree() {
    let desk = Desk::new();
    desk.write(&desk.project.join(".git/HEAD"), "");
    let below = desk.project.join("src/deep");
    fs::create_dir_all(&below).expect("a directory");
    let above = desk.project.parent().expect("it has one");
    let install = ["install", "--editor", "codex", "--no-hooks"];
    for (folder, is_read) in [
        (below.as_path(), true),
        (&desk.project.join("src"), true),
        (&desk.project, true),
        (above, false),
    ] {
        let file = folder.join(".codex/config.toml");
        desk.write(&file, "[mcp_servers.relay]\nenabled = false\n");
        let done = desk.relay(&install).current_dir(&below).assert().code(0);
        let told = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        let line = format!("Codex: {}: mcp_servers.relay is mixed", file.display());
        assert_eq!(told.contains(&line), is_read, "{told}");
        fs::remove_file(file).expect("it is there");
    }
}

#[test]
fn what_claude_code_knows_in_place_of_relays_entry_is_named_with_what_takes_it_out() {
    let desk = Desk::new();
    let file = desk.home.join(".claude.json");
    let local = |entry: Value| {
        let project = desk.project.to_str().expect("text");
        let servers = json!({"mcpServers": {"relay": entry}});
        desk.write(&file, &json!({"projects": {project: servers}}).to_string());
    };
    local(json!({"type": "sse", "url": "http://localhost:7331/sse"}));
    let place = format!(
        "Claude Code: {}: mcpServers.relay of this project's local scope",
        file.display()
    );
    let how = "take it out with: claude mcp remove relay -s local\n";
    let told = format!("{place} counts in place of relay's entry; {how}");
    let install = ["install", "--editor", "claude"];
    desk.relay(&install).assert().code(0).stderr(contains(told));
    desk.relay(&["uninstall"])
        .assert()
        .code(0)
        .stderr(contains(format!("{place} stays; {how}")));
    // It is the same.
    local(json!({"type": "sse", "url": "http://localhost:7331/sse?agent=${RELAY_AGENT:-}"}));
    let not_told = contains("local scope").not();
    desk.relay(&install).assert().code(0).stderr(not_told);
}

#[test]
fn what_opencode_mixes_with_relays_entry_is_named() {
    let desk = Desk::new();
    let above = desk.project.parent().expect("it has one").join("opencode.json");
    let other = json!({"type": "remote", "url": "http://localhost:9/mcp"});
    let off = json!({"enabled": false});
    let leads = "which leads to http://localhost:9/mcp then";
    let switches = "and switches it off: enabled is false";
    for (file, entry, does) in [
        (desk.project.join(".opencode/opencode.json"), &other, Some(leads)),
        (
            desk.project.join(".opencode/opencode.jsonc"),
            &off,
            Some(switches),
        ),
        (above.clone(), &off, Some(switches)),
        // What this project says counts for more.
        (above, &other, None),
    ] {
        desk.write(&file, &json!({"mcp": {"relay": entry}}).to_string());
        let install = ["install", "--editor", "opencode", "--no-hooks"];
        let done = desk.relay(&install).assert().code(0);
        let told = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        let line = does.map(|does| {
            let file = file.display();
            format!("OpenCode: {file}: mcp.relay is mixed with relay's entry, {does}; take it out\n")
        });
        let said: String = told
            .split_inclusive('\n')
            .filter(|line| line.contains("mixed"))
            .collect();
        assert_eq!(said, line.unwrap_or_default());
        fs::remove_file(file).expect("it is there");
    }
}

#[test]
fn an_entry_that_needs_a_name_and_has_none_is_told_of_until_somebody_is_registered() {
    let told = contains(
        "with these toolsets its bridge does not start without a name: nobody says who this agent is",
    );
    for (options, is_told) in [
        (&["--transport", "stdio", "--tools", "thrum"][..], true),
        (&["--transport", "stdio", "--tools", "all"], true),
        (&["--transport", "stdio", "--tools", "lift,agent-relay"], false),
        (&["--transport", "http", "--tools", "all"], false),
    ] {
        let desk = Desk::new();
        let install = [&["install", "--editor", "cursor"][..], options].concat();
        let done = desk.relay(&install).env_remove("RELAY_AGENT").assert().code(0);
        if is_told {
            let file = desk.project.join(".cursor/mcp.json");
            done.stderr(
                told.clone()
                    .and(contains(format!("Cursor: {}: ", file.display()))),
            );
        } else {
            done.stderr(told.clone().not());
        }
        desk.relay(&install)
            .env("RELAY_AGENT", "dev-a")
            .assert()
            .code(0)
            .stderr(told.clone().not());
        desk.relay(&["register", "dev-a", "--role", "tester"])
            .assert()
            .code(0);
        desk.relay(&install)
            .env_remove("RELAY_AGENT")
            .assert()
            .code(0)
            .stderr(told.clone().not());
    }
}

#[test]
fn of_entries_beside_its_own_uninstall_names_those_that_lead_to_a_relay_here() {
    let desk = Desk::new();
    let file = desk.project.join(".codex/config.toml");
    let nothing = "nothing of relay's is in the files of these editors\n";
    for (text, is_told) in [
        ("url = \"http://localhost:7331/mcp\"", true),
        ("command = \"other\"", false),
        ("url = \"https://relay.example/mcp\"", false),
        ("enabled = false", false),
    ] {
        desk.write(&file, &format!("[mcp_servers.relay]\n{text}\n"));
        let line = format!(
            "Codex: {}: mcp_servers.relay stays; take it out\n",
            file.display()
        );
        let told = if is_told {
            line + nothing
        } else {
            nothing.to_owned()
        };
        desk.relay(&["uninstall"]).assert().code(3).stderr(told);
    }
}

#[test]
fn of_servers_in_folders_above_claude_code_knows_those_of_the_nearest() {
    let desk = Desk::new();
    let below = desk.project.join("src/deep");
    fs::create_dir_all(&below).expect("a directory");
    let other = json!({"mcpServers": {"relay": {"type": "sse", "url": "http://localhost:9/sse?agent="}}});
    for (folder, is_named) in [
        (&desk.project, true),
        (&desk.project.join("src"), true),
        // That is the one that an installation in this folder writes.
        (&below, false),
    ] {
        let file = folder.join(".mcp.json");
        desk.write(&file, &other.to_string());
        let install = ["install", "--editor", "claude", "--global"];
        let done = desk.relay(&install).current_dir(&below).assert().code(0);
        let told = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        let said: Vec<&str> = told.lines().filter(|line| line.contains("in place of")).collect();
        let line = format!(
            "Claude Code: {}: mcpServers.relay counts in place of relay's entry; take it out",
            file.display()
        );
        assert_eq!(said, Vec::from_iter(is_named.then_some(line.as_str())));
    }
}

#[test]
fn the_file_that_a_dry_run_would_write_hides_those_of_the_folders_above_it() {
    let desk = Desk::new();
    let below = desk.project.join("src");
    fs::create_dir_all(&below).expect("a directory");
    let other = json!({"mcpServers": {"relay": {"type": "sse", "url": "http://localhost:9/sse?agent="}}});
    desk.write(&desk.project.join(".mcp.json"), &other.to_string());
    for (scope, is_named) in [(&[][..], false), (&["--global"], true)] {
        for dry in [&["--dry-run"][..], &[]] {
            let install = [&["install", "--editor", "claude", "--no-hooks"], scope, dry].concat();
            let done = desk.relay(&install).current_dir(&below).assert().code(0);
            let told = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
            assert_eq!(
                told.contains("counts in place of"),
                is_named,
                "{install:?}: {told}"
            );
        }
        let _ = fs::remove_file(below.join(".mcp.json"));
    }
}

#[test]
fn outside_of_a_work_tree_codex_reads_nothing_above_its_folder() {
    let desk = Desk::new();
    let below = desk.project.join("src");
    fs::create_dir(&below).expect("a directory");
    let off = "[mcp_servers.relay]\nenabled = false\n";
    desk.write(&desk.project.join(".codex/config.toml"), off);
    let install = ["install", "--editor", "codex", "--no-hooks"];
    let untold = contains("is mixed").not();
    desk.relay(&install)
        .current_dir(&below)
        .assert()
        .code(0)
        .stderr(untold);
}

#[test]
fn what_opencode_has_at_home_is_named_once_below_that_and_by_its_type_alone() {
    let desk = Desk::new();
    let below = desk.home.join("work");
    fs::create_dir(&below).expect("a directory");
    for (entry, times) in [
        (json!({"enabled": false}), 1),
        // The type says that it has an address.
        (json!({"command": ["other"]}), 0),
    ] {
        let file = desk.home.join(".opencode/opencode.json");
        desk.write(&file, &json!({"mcp": {"relay": entry}}).to_string());
        let install = ["install", "--editor", "opencode", "--no-hooks"];
        let done = desk.relay(&install).current_dir(&below).assert().code(0);
        let told = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert_eq!(told.matches("is mixed").count(), times, "{told}");
    }
}

#[test]
fn a_name_that_an_entry_gives_its_bridge_comes_first_and_of_several_files_no_list_is_told() {
    let environment = json!({"THRUM_NAME": "qa"});
    let args = ["mcp", "--tools", "thrum"];
    let (program, words) = (json!(RELAY), json!([RELAY, "mcp", "--tools", "thrum"]));
    let cursor = json!({"command": program, "args": args, "env": environment});
    let opencode = json!({"type": "local", "command": words, "environment": environment});
    for (editor, file, servers) in [
        (
            "cursor",
            ".cursor/mcp.json",
            json!({"mcpServers": {"relay": cursor}}),
        ),
        ("opencode", "opencode.json", json!({"mcp": {"relay": opencode}})),
    ] {
        let desk = Desk::new();
        desk.write(&desk.project.join(file), &servers.to_string());
        let install = ["install", "--editor", editor, "--no-hooks"];
        let untold = contains("does not start without a name").not();
        desk.relay(&install)
            .env("THRUM_NAME", "no name")
            .assert()
            .code(0)
            .stderr(untold);
    }
    let desk = Desk::new();
    for name in ["dev-a", "dev-b"] {
        let register = ["register", name, "--role", "tester"];
        desk.relay(&register).assert().code(0);
    }
    let install = [
        "install",
        "--editor",
        "cursor",
        "--transport",
        "stdio",
        "--tools",
        "thrum",
    ];
    let told =
        contains("without a name: there are several identities; choose one with --agent or RELAY_AGENT\n");
    desk.relay(&install).assert().code(0).stderr(told);
}
