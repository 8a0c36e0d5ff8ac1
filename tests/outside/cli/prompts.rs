use super::*;

#[test]
fn a_prompt_is_its_roles_own() {
    for role in ["pm", "dev-a", "dev-b"] {
        let own = contains(format!("read_messages(for=\"{role}\")"))
            .and(contains(format!("post_message(from=\"{role}\"")))
            .and(contains("http://localhost:7331"))
            .and(contains("<<").not());
        relay(&["prompt", role]).assert().code(0).stdout(own).stderr("");
        let at_port = contains("http://localhost:4000").and(contains("7331").not());
        relay(&["prompt", role, "--port", "4000"])
            .assert()
            .code(0)
            .stdout(at_port)
            .stderr("");
    }
}

#[test]
fn the_port_is_taken_from_the_environment_unless_it_is_given() {
    for (arguments, port) in [(vec![], 4000), (vec!["--port", "4001"], 4001)] {
        let mut prompt = relay(&["prompt", "pm"]);
        prompt.args(arguments).env("RELAY_PORT", "4000");
        let address = format!("(http://localhost:{port})");
        prompt.assert().code(0).stdout(contains(address)).stderr("");
    }
    for subcommand in [vec!["serve"], vec!["mcp"], vec!["prompt", "pm"]] {
        let mut bad = relay(&subcommand);
        bad.env("RELAY_PORT", "tcp://x");
        let told =
            contains("invalid value 'tcp://x' for '--port <PORT>': a port is a number from 1 to 65535");
        bad.assert().code(2).stdout("").stderr(told);
    }
}

#[test]
fn an_unknown_role_is_named_with_those_there_are() {
    let named = contains("unknown role \"qa\"; known roles: pm, dev-a, dev-b (name others with --roles)");
    relay(&["prompt", "qa"]).assert().code(2).stdout("").stderr(named);
    let missing = contains("<ROLE>").and(contains("required"));
    relay(&["prompt"]).assert().code(2).stdout("").stderr(missing);
}

#[test]
fn a_prompt_follows_the_roster_and_the_host() {
    let own = contains("read_messages(for=\"qa\")")
        .and(contains("the names are `pm`, `dev-a`, `dev-b` and `qa`"))
        .and(contains("(http://192.0.2.7:4000)"));
    let roles = "--roles=pm, dev-a,dev-b,qa";
    relay(&["prompt", "qa", roles, "--host=192.0.2.7", "--port=4000"])
        .assert()
        .code(0)
        .stdout(own)
        .stderr("");
}

#[test]
fn a_roster_that_is_no_lift_is_named_with_what_is_accepted() {
    for roles in ["dev-a,dev-b", "pm"] {
        let role = roles.split(',').next().expect("a role");
        let accepted = "make no lift; accepted: pm and at least one more, such as pm,dev-a";
        relay(&["prompt", role, "--roles", roles])
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(accepted));
    }
}

/// A file of relay's repository.
fn file(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names of the fields of the first status block in a text.
fn fields(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    let block = lines
        .skip_while(|line| !line.starts_with("## STATUS UPDATE — "))
        .skip(1);
    let fields = block.map_while(|line| line.split_once(": ").map(|(field, _)| field));
    fields.collect()
}

#[test]
fn a_status_block_has_the_fields_of_the_plan() {
    let plan = [
        "Time",
        "Branch",
        "Task",
        "Status",
        "Last commit",
        "Tests",
        "Notes",
    ];
    let prompt = relay(&["prompt", "dev-b"]).assert().code(0);
    let prompt = String::from_utf8(prompt.get_output().stdout.clone()).expect("text");
    assert_eq!(fields(&prompt), plan);
    assert_eq!(fields(&file("docs/MULTI-AGENT.md")), plan);
}

#[test]
fn before_a_lift_there_are_no_uncommitted_changes_in_main() {
    let guide = file("docs/MULTI-AGENT.md");
    let before = guide
        .split("## Before the lift")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next());
    let said = "**Have no uncommitted changes in main**";
    assert!(before.expect("it has that part").contains(said));
    let skill = file("plugin/skills/multi-agent-kickoff/SKILL.md");
    assert!(skill.contains("**See that there are no uncommitted changes** on the main branch"));
    let told = contains("Look that there are no uncommitted changes on the repository's main branch");
    relay(&["prompt", "pm"]).assert().code(0).stdout(told);
}

#[test]
fn how_claude_code_is_connected_is_told_with_a_token_where_one_is_said() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let home = folder.path().to_str().expect("text");
    let hint = |project: &str, token: &str| {
        let mut hint = relay(&["connection-hint", "--port", "4000", "--project", project]);
        hint.env("HOME", home).env_remove("CLAUDE_CONFIG_DIR");
        hint.env("PATH", "").env("RELAY_TOKEN", token).assert()
    };
    let install = format!(
        "{} install --editor claude --port 4000\n",
        env!("CARGO_BIN_EXE_relay")
    );
    hint(home, "").code(0).stdout(contains(install)).stderr("");
    let add = "claude mcp add --transport sse relay 'http://localhost:4000/sse?agent=${RELAY_AGENT:-}' \
               --header 'Authorization: Bearer ${RELAY_TOKEN}'\n";
    hint(home, "0123456789abcdef")
        .code(0)
        .stdout(contains(add))
        .stderr("");
    hint(&format!("{home}/gone"), "")
        .code(1)
        .stdout("")
        .stderr(contains("relay connection-hint: "));
}
