//! What a repository brings with it: links to a person's own files, and an entry that runs something else.

use super::*;

#[test]
fn what_is_relays_as_a_whole_is_put_nowhere_outside_of_its_project() {
    for link in [".opencode/plugin/relay.js", ".opencode/plugin", ".opencode"] {
        for name in ["mine", "relay.js", "another"] {
            let desk = Desk::new();
            let secret = desk.home.join("secret");
            desk.write(&secret.join(name), "my own\n");
            let end = if link.ends_with(".js") {
                secret.join("mine")
            } else {
                secret
            };
            let link = desk.project.join(link);
            fs::create_dir_all(link.parent().expect("a directory")).expect("a directory");
            symlink(&end, &link).expect("a link");
            let before = desk.files();
            let told = desk.relay(&["install", "--editor", "opencode"]).assert().code(1);
            let told = String::from_utf8_lossy(&told.get_output().stderr).into_owned();
            assert!(told.contains(" leads out of its project, to "), "{told}");
            assert!(told.contains(&end.display().to_string()), "{told}");
            assert!(told.ends_with("nothing was changed\n"), "{told}");
            assert_eq!(desk.files(), before);
        }
    }
}

#[test]
fn a_plugin_for_all_projects_stays_where_a_link_of_a_repository_leads_to_it() {
    let desk = Desk::new();
    let global = ["install", "--editor", "opencode", "--global"];
    desk.relay(&global).assert().code(0);
    let (own, link) = (
        desk.home.join(".config/opencode/plugin"),
        desk.project.join(".opencode/plugin"),
    );
    fs::create_dir_all(desk.project.join(".opencode")).expect("a directory");
    symlink(&own, &link).expect("a link");
    let before = desk.files();
    let without_hooks = ["install", "--editor", "opencode", "--no-hooks", "--dry-run"];
    let line = format!(
        "OpenCode: {} leads out of this project, to {}, and stays\n",
        link.join("relay.js").display(),
        own.join("relay.js").display()
    );
    let told = desk.relay(&without_hooks).assert().code(0);
    let told = String::from_utf8_lossy(&told.get_output().stderr).into_owned();
    assert!(told.contains(&line), "{told}");
    desk.relay(&["uninstall", "--editor", "opencode"])
        .assert()
        .code(3)
        .stderr(line);
    assert_eq!(desk.files(), before);

    // What is not relay's is nothing to be said about.
    desk.write(&own.join("relay.js"), "my own\n");
    let told = desk
        .relay(&["uninstall", "--editor", "opencode"])
        .assert()
        .code(3);
    told.stderr("nothing of relay's is in the files of these editors\n");
}

#[test]
fn what_is_relays_as_a_whole_does_not_take_the_place_of_what_a_link_leads_to() {
    let desk = Desk::new();
    let (link, file) = (
        desk.project.join(".claude/agents/message-listener.md"),
        desk.project.join("notes.md"),
    );
    desk.write(&file, "my own\n");
    fs::create_dir_all(desk.project.join(".claude/agents")).expect("a directory");
    symlink("../../notes.md", &link).expect("a link");
    let before = desk.files();
    let arguments = ["install", "--editor", "claude", "--tools", "thrum"];
    let told = desk.relay(&arguments).assert().code(1);
    let told = String::from_utf8_lossy(&told.get_output().stderr).into_owned();
    assert!(
        told.contains(&format!("{} is a link to {}", link.display(), file.display())),
        "{told}"
    );
    assert_eq!(desk.files(), before);
}

#[test]
fn a_file_that_leads_out_of_its_project_is_told_with_its_end() {
    let desk = Desk::new();
    let file = desk.home.join("mcp.json");
    desk.write(&file, "{}\n");
    symlink(&file, desk.project.join(".mcp.json")).expect("a link");
    let told = desk.relay(&["install", "--editor", "claude"]).assert().code(0);
    let told = String::from_utf8_lossy(&told.get_output().stdout).into_owned();
    let (link, file) = (desk.project.join(".mcp.json"), file);
    let line = format!(
        "Claude Code: changed {} (which leads to {})",
        link.display(),
        file.display()
    );
    assert!(told.contains(&line), "{told}");
}

#[test]
fn an_entry_that_runs_something_else_is_not_approved() {
    let stdio = json!({"command": "relay", "args": ["mcp"], "env": {"PATH": "/elsewhere"}});
    let sse = json!({"type": "sse", "url": "http://localhost:7331/sse", "headersHelper": "their-own"});
    for (entry, member) in [(stdio, "env"), (sse, "headersHelper")] {
        let desk = Desk::new();
        let file = desk.project.join(".mcp.json");
        desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
        let told = desk.relay(&["install", "--editor", "claude"]).assert().code(0);
        let told = String::from_utf8_lossy(&told.get_output().stderr).into_owned();
        let line = format!(
            "Claude Code asks you before it starts relay: the entry in {} has {member}, ",
            file.display()
        );
        assert!(told.contains(&line), "{told}");
        let settings = desk.project.join(".claude/settings.local.json");
        assert_eq!(desk.json(&settings)["enabledMcpjsonServers"], Value::Null);
        assert_eq!(desk.json(&settings)["permissions"], permissions());

        // Its person has looked at it.
        let mut approved = desk.json(&settings);
        approved["enabledMcpjsonServers"] = json!(["relay"]);
        desk.write(&settings, &approved.to_string());
        let told = desk.relay(&["install", "--editor", "claude"]).assert().code(0);
        let told = String::from_utf8_lossy(&told.get_output().stderr).into_owned();
        let line = line.replace(
            "asks you before it starts relay",
            "starts relay without asking you",
        );
        assert!(told.contains(&line), "{told}");
        assert_eq!(desk.json(&settings)["enabledMcpjsonServers"], json!(["relay"]));
    }
}

#[test]
fn an_approval_that_came_with_the_entry_is_told_of_whichever_file_has_it() {
    let helper = json!({"type": "sse", "url": "http://localhost:7331/sse", "headersHelper": "their-own"});
    for (approval, does) in [
        (
            json!({"enabledMcpjsonServers": ["relay"]}),
            "starts relay without asking you",
        ),
        (
            json!({"enableAllProjectMcpServers": true}),
            "starts relay without asking you",
        ),
        (
            json!({"enableAllProjectMcpServers": false}),
            "asks you before it starts relay",
        ),
        (
            json!({"enabledMcpjsonServers": ["other"]}),
            "asks you before it starts relay",
        ),
    ] {
        for place in [
            "home/.claude/settings.json",
            "project/.claude/settings.json",
            "project/.claude/settings.local.json",
        ] {
            let desk = Desk::new();
            let root = desk.project.parent().expect("it has one").to_owned();
            desk.write(
                &desk.project.join(".mcp.json"),
                &json!({"mcpServers": {"relay": helper}}).to_string(),
            );
            desk.write(&root.join(place), &approval.to_string());
            desk.relay(&["install", "--editor", "claude", "--no-hooks"])
                .assert()
                .code(0)
                .stderr(contains(format!("Claude Code {does}: ")));
            // What the repository says is not taken over into what its person says.
            let own = desk.project.join(".claude/settings.local.json");
            let before = &approval["enabledMcpjsonServers"];
            let expected = if root.join(place) == own {
                before
            } else {
                &Value::Null
            };
            assert_eq!(desk.json(&own)["enabledMcpjsonServers"], *expected);
        }
    }
}

#[test]
fn an_entry_with_relays_own_variables_is_approved() {
    let desk = Desk::new();
    let entry = json!({"command": "relay", "args": ["mcp"], "env": {"RELAY_AGENT": "pm"}});
    let file = desk.project.join(".mcp.json");
    desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
    desk.relay(&["install", "--editor", "claude", "--transport", "stdio"])
        .assert()
        .code(0);
    let settings = desk.project.join(".claude/settings.local.json");
    assert_eq!(desk.json(&settings)["enabledMcpjsonServers"], json!(["relay"]));
}

#[test]
fn an_entry_that_runs_something_else_is_not_approved_whatever_stands_before_or_beside_that() {
    for (mark, env) in [
        ("", json!({"RELAY_AGENT": "pm", "PATH": "/elsewhere"})),
        ("\u{feff}", json!({"PATH": "/elsewhere"})),
    ] {
        let desk = Desk::new();
        let file = desk.project.join(".mcp.json");
        let entry = json!({"command": "relay", "args": ["mcp"], "env": env});
        let servers = json!({"mcpServers": {"relay": entry}});
        desk.write(&file, &format!("{mark}{servers}"));
        let told = contains(format!(
            "Claude Code asks you before it starts relay: the entry in {} has env, ",
            file.display()
        ));
        desk.relay(&["install", "--editor", "claude"])
            .assert()
            .code(0)
            .stderr(told);
        let settings = desk.project.join(".claude/settings.local.json");
        assert_eq!(desk.json(&settings)["enabledMcpjsonServers"], Value::Null);
    }
}
