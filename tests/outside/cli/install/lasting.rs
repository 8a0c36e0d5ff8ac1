//! What is installed by a relay that a runner of packages has fetched for one call: it works when that is gone.

use super::*;

/// Puts relay where npx would, and returns it.
fn fetched(desk: &Desk) -> PathBuf {
    let program = desk
        .home
        .join(".npm/_npx/0f3a/node_modules/@relay-bus/linux-x64/bin/relay");
    fs::create_dir_all(program.parent().expect("it lies in a directory")).expect("a directory");
    // By a process of its own: while a file is open for writing here, or in what another test starts, it cannot be run.
    let copied = std::process::Command::new("cp").arg(RELAY).arg(&program).status();
    assert!(copied.expect("cp is installed").success());
    program
}

#[test]
fn what_npx_installs_names_a_copy_that_lasts() {
    let desk = Desk::new();
    let fetched = fetched(&desk);
    let npx = |arguments: &[&str]| desk.call(&fetched, arguments);
    let copy = desk.home.join(".local/share/relay/bin/relay");
    let told = |is: &str| {
        let copy = copy.display();
        format!(
            "this relay lies where it may be removed at any time, so a copy {is} at {copy}; start relay with: {copy} serve\n"
        )
    };
    let both = ["--editor", "claude", "--editor", "cursor", "--transport", "stdio"];
    let install = [&["install"][..], &both].concat();
    let dry = [&install[..], &["--dry-run"]].concat();
    npx(&dry).assert().code(0).stderr(told("would be"));
    assert!(!copy.exists());
    npx(&install).assert().code(0).stderr(contains(told("is")));
    // Again, over one that is there.
    npx(&install).assert().code(0).stderr(told("is"));
    npx(&["doctor"]).assert().stdout(contains("hooks       current"));
    fs::remove_dir_all(desk.home.join(".npm")).expect("it is one's own");

    let mcp = desk.json(&desk.project.join(".mcp.json"));
    let entry = json!({"type": "stdio", "command": copy, "args": ["mcp"]});
    assert_eq!(mcp["mcpServers"]["relay"], entry);
    let settings = desk.json(&desk.project.join(".claude/settings.local.json"));
    let hook = &settings["hooks"]["PostToolUse"][0]["hooks"][0]["command"];
    assert_eq!(hook, &json!(format!("{} hook claude", copy.display())));
    let version = format!("relay {VERSION}\n");
    desk.call(&copy, &["--version"]).assert().code(0).stdout(version);

    // The copy itself lasts. It is not taken out: other projects may name it.
    let left = format!(
        "{} stays, which files of other projects may name; remove it yourself once none does\n",
        copy.display()
    );
    desk.call(&copy, &["uninstall"]).assert().code(0).stderr(left);
    assert!(copy.exists());
}

#[test]
fn an_older_copy_gives_way_and_one_that_cannot_be_made_is_named_nowhere() {
    let desk = Desk::new();
    let fetched = fetched(&desk);
    let copy = desk.home.join(".local/share/relay/bin/relay");
    desk.write(&copy, "an older one");
    let install = ["install", "--editor", "cursor"];
    desk.call(&fetched, &install).assert().code(0);
    let mode = copy.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert!(fs::read(&copy).expect("it is there") == fs::read(RELAY).expect("it is there"));

    let desk = Desk::new();
    let fetched = self::fetched(&desk);
    desk.write(&desk.home.join(".local/share/relay/bin"), "no directory");
    let refused = desk.call(&fetched, &install).assert().code(1).stdout("");
    refused.stderr(contains("cannot write").and(contains("\nnothing was changed\n")));
    assert!(!desk.project.join(".cursor").exists());
}
