//! What an installation over an earlier one keeps of what was chosen then.

use super::*;

fn install(desk: &Desk, arguments: &[&str]) {
    let arguments = [&["install", "--no-hooks", "--editor"][..], arguments].concat();
    desk.relay(&arguments).assert().code(0);
}

#[test]
fn what_is_not_asked_for_stays_as_it_is_in_relays_entry() {
    let desk = Desk::new();
    let claude = desk.project.join(".mcp.json");
    let entry = |expected: Value| assert_eq!(desk.json(&claude)["mcpServers"]["relay"], expected);
    install(
        &desk,
        &[
            "claude",
            "--transport",
            "http",
            "--tools",
            "thrum",
            "--port",
            "4000",
        ],
    );
    let installed = fs::read_to_string(&claude).expect("it is there");
    desk.write(
        &claude,
        &installed
            .replace("${RELAY_AGENT:-}", "dev-b")
            .replace("thrum", "thrum&x=y"),
    );
    let url = "http://localhost:4000/mcp?agent=dev-b&tools=thrum&x=y";
    install(&desk, &["claude", "--port", "4000"]);
    entry(json!({"type": "http", "url": url}));
    // relay's port is where it is now.
    install(&desk, &["claude", "--tools", "all"]);
    let url = "http://localhost:7331/mcp?agent=dev-b&tools=all&x=y";
    entry(json!({"type": "http", "url": url}));
    install(&desk, &["claude", "--transport", "sse"]);
    let url = "http://localhost:7331/sse?agent=dev-b&tools=all&x=y";
    entry(json!({"type": "sse", "url": url}));
    install(&desk, &["claude", "--transport", "stdio"]);
    let args = json!(["mcp", "--agent", "dev-b", "--tools", "all"]);
    entry(json!({"type": "stdio", "command": RELAY, "args": args}));
    install(&desk, &["claude", "--transport", "sse"]);
    let url = "http://localhost:7331/sse?agent=dev-b&tools=all";
    entry(json!({"type": "sse", "url": url}));
}

#[test]
fn what_stands_behind_relays_command_stays() {
    let desk = Desk::new();
    let opencode = desk.project.join("opencode.json");
    let entry = |command: &[&str]| json!({"mcp": {"relay": {"type": "local", "command": command}}});
    let given = [
        "/old/relay",
        "mcp",
        "--project",
        "web",
        "--tools=thrum",
        "--port=4000",
        "--agent-id",
        "{env:ME}",
    ];
    desk.write(&opencode, &entry(&given).to_string());
    install(&desk, &["opencode"]);
    let kept = [
        RELAY,
        "mcp",
        "--agent",
        "{env:ME}",
        "--tools",
        "thrum",
        "--project",
        "web",
    ];
    assert_eq!(desk.json(&opencode), entry(&kept));
    // A variable is written otherwise in an address.
    install(&desk, &["opencode", "--transport", "http"]);
    let url = "http://localhost:7331/mcp?agent={env:RELAY_AGENT}&tools=thrum";
    let remote = json!({"mcp": {"relay": {"type": "remote", "url": url}}});
    assert_eq!(desk.json(&opencode), remote);
}

#[test]
fn of_an_entry_that_is_not_relays_or_a_transport_that_the_editor_does_not_take_nothing_stays() {
    let desk = Desk::new();
    let (cursor, zed) = (
        desk.project.join(".cursor/mcp.json"),
        desk.home.join(".config/zed/settings.json"),
    );
    for entry in [
        json!({"command": "npx", "args": ["mcp", "--tools", "x"]}),
        json!({"url": "http://localhost:1/other?tools=x&agent=a"}),
    ] {
        desk.write(&cursor, &json!({"mcpServers": {"relay": entry}}).to_string());
        install(&desk, &["cursor"]);
        let entry = json!({"url": "http://localhost:7331/mcp"});
        assert_eq!(desk.json(&cursor), json!({"mcpServers": {"relay": entry}}));
    }
    let entry = json!({"url": "http://localhost:7331/sse?tools=thrum"});
    desk.write(&zed, &json!({"context_servers": {"relay": entry}}).to_string());
    install(&desk, &["zed"]);
    let entry = json!({"url": "http://localhost:7331/mcp?tools=thrum"});
    assert_eq!(desk.json(&zed), json!({"context_servers": {"relay": entry}}));
}

#[test]
fn nothing_is_kept_of_an_entry_that_leads_elsewhere_nor_what_is_no_toolset() {
    let desk = Desk::new();
    let claude = desk.project.join(".mcp.json");
    for given in [
        json!({"type": "http", "url": "https://relay.example/mcp?tools=search&api_key=S"}),
        json!({"type": "http", "url": "http://box:7331/mcp?x=y"}),
        json!({"type": "sse", "url": "http://localhost:9/sse?tools=search"}),
        json!({"type": "stdio", "command": "/old/relay", "args": ["serve"]}),
    ] {
        desk.write(&claude, &json!({"mcpServers": {"relay": given}}).to_string());
        install(&desk, &["claude", "--transport", "sse"]);
        let url = "http://localhost:7331/sse?agent=${RELAY_AGENT:-}";
        assert_eq!(
            desk.json(&claude)["mcpServers"]["relay"],
            json!({"type": "sse", "url": url})
        );
    }
    // Decoded, for it is written otherwise there.
    let url = "http://127.0.0.1:9/sse?tools=lift%2Cthrum";
    desk.write(
        &claude,
        &json!({"mcpServers": {"relay": {"type": "sse", "url": url}}}).to_string(),
    );
    install(&desk, &["claude", "--transport", "stdio"]);
    let args = json!(["mcp", "--tools", "lift,thrum"]);
    let expected = json!({"type": "stdio", "command": RELAY, "args": args});
    assert_eq!(desk.json(&claude)["mcpServers"]["relay"], expected);
    let args = json!(["mcp", "--host", "10.0.0.5", "--port", "4000"]);
    let given = json!({"mcpServers": {"relay": {"type": "stdio", "command": RELAY, "args": args}}});
    desk.write(&claude, &given.to_string());
    install(&desk, &["claude"]);
    assert_eq!(desk.json(&claude)["mcpServers"]["relay"]["args"], json!(["mcp"]));
}
