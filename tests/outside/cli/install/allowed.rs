//! The rules by which Claude Code calls relay's tools without asking, but for the one that starts a worker.

use super::*;

const INSTALL: [&str; 3] = ["install", "--editor", "claude"];

/// The tool that starts a process, which runs only when the person says so.
const SPAWN: &str = "mcp__relay__relay_spawn";

#[test]
fn it_is_told_once_and_goes_with_what_was_made_for_it() {
    let desk = Desk::new();
    for (global, file) in [
        (&[][..], desk.project.join(".claude/settings.local.json")),
        (&["--global"], desk.home.join(".claude/settings.json")),
    ] {
        let told = contains(format!(
            "Claude Code calls relay's tools without asking: mcp__relay is in permissions.allow of {0}\n\
             Claude Code asks you before it starts a worker: mcp__relay__relay_spawn is in permissions.ask of {0}\n",
            file.display()
        ));
        let install = [&INSTALL[..], &["--no-hooks"], global].concat();
        desk.relay(&install).assert().code(0).stderr(told.clone());
        assert_eq!(desk.json(&file)["permissions"], permissions());
        desk.relay(&install).assert().code(0).stderr("");
        let with_hooks = [&INSTALL[..], global].concat();
        desk.relay(&with_hooks).assert().code(0).stderr(told.not());
        desk.relay(&[&["uninstall"], global].concat()).assert().code(0);
        assert_eq!(desk.files(), []);
    }
}

#[test]
fn a_persons_rules_stay_also_where_relays_is_among_them() {
    let file = |desk: &Desk| desk.home.join(".claude/settings.json");
    for old in [
        "{\n\t\"permissions\": {\n\t\t\"allow\": [\"Bash\"], \"deny\": []\n\t}\n}\n",
        "{\"permissions\": {\"allow\": []}}",
        "{\"permissions\": {\"defaultMode\": \"plan\"}}\n",
        "{\n  \"permissions\": {\"allow\": [\"mcp__relay\", \"Bash\"]}\n}\n",
        "{\n  \"permissions\": {\"ask\": [\"mcp__relay__relay_spawn\", \"Bash\"]}\n}\n",
        "{\n    \"permissions\": {\n        \"ask\": [\n            \"Bash\"\n        ]\n    }\n}\n",
        "{\"permissions\": {\"ask\": [], \"deny\": [\"mcp__relay\"]}}",
    ] {
        let desk = Desk::new();
        let file = file(&desk);
        desk.write(&file, old);
        let uninstall = ["uninstall", "--global"];
        desk.relay(&uninstall).assert().code(3);
        for later in ["", "\n"] {
            desk.relay(&[&INSTALL[..], &["--global"]].concat())
                .assert()
                .code(0);
            let installed = desk.json(&file);
            for (list, rule) in [("allow", "mcp__relay"), ("ask", SPAWN)] {
                let rules = installed["permissions"][list].as_array().expect("an array");
                assert_eq!(rules.iter().filter(|known| **known == rule).count(), 1, "{old}");
            }
            // As when somebody has changed the file since.
            desk.write(
                &file,
                &format!("{}{later}", fs::read_to_string(&file).expect("it is there")),
            );
            desk.relay(&uninstall).assert().code(0);
            assert_eq!(
                fs::read_to_string(&file).expect("it is there"),
                format!("{old}{later}")
            );
            desk.relay(&uninstall).assert().code(3);
            assert_eq!(
                fs::read_to_string(&file).expect("it is there"),
                format!("{old}{later}")
            );
        }
    }
}

#[test]
fn what_a_person_has_decided_of_starting_workers_stays() {
    let asks = contains("Claude Code asks you before it starts a worker");
    let [users, shared, own] = [
        |desk: &Desk| desk.home.join(".claude/settings.json"),
        |desk: &Desk| desk.project.join(".claude/settings.json"),
        |desk: &Desk| desk.project.join(".claude/settings.local.json"),
    ];
    for list in ["allow", "deny"] {
        for place in [users, shared, own] {
            let desk = Desk::new();
            let mut decided = json!({"permissions": {}});
            decided["permissions"][list] = json!([SPAWN]);
            let text = decided.to_string();
            desk.write(&place(&desk), &text);
            desk.relay(&INSTALL)
                .assert()
                .code(0)
                .stderr(contains("without asking").and(asks.clone().not()));
            let permissions = desk.json(&own(&desk))["permissions"].clone();
            assert_eq!(permissions["ask"], Value::Null);
            let allowed = permissions["allow"].as_array().expect("an array");
            assert!(allowed.contains(&json!("mcp__relay")), "{permissions}");
            desk.relay(&["uninstall"]).assert().code(0);
            let left = [(place(&desk), text)];
            assert_eq!(desk.files(), left);
        }
    }
    // What a project says does not count in the others.
    let desk = Desk::new();
    desk.write(
        &own(&desk),
        &json!({"permissions": {"allow": [SPAWN]}}).to_string(),
    );
    let global = [&INSTALL[..], &["--global"]].concat();
    desk.relay(&global).assert().code(0).stderr(asks);
    assert_eq!(desk.json(&users(&desk))["permissions"], permissions());
}

#[test]
fn once_a_person_has_decided_the_rule_goes_from_a_file_that_is_as_relay_has_made_it_and_stays_in_others() {
    let desk = Desk::new();
    let own = desk.project.join(".claude/settings.local.json");
    let install = [&INSTALL[..], &["--no-hooks"]].concat();
    desk.relay(&install).assert().code(0);
    let users = desk.home.join(".claude/settings.json");
    desk.write(&users, &json!({"permissions": {"allow": [SPAWN]}}).to_string());
    desk.relay(&install).assert().code(0);
    assert_eq!(desk.json(&own)["permissions"], json!({"allow": ["mcp__relay"]}));
    for asked in [&[SPAWN][..], &[]] {
        let rules = json!({"allow": ["mcp__relay", SPAWN], "ask": asked});
        let text = json!({"enabledMcpjsonServers": ["relay"], "permissions": rules}).to_string();
        desk.write(&own, &text);
        desk.relay(&install).assert().code(0).stderr("");
        assert_eq!(fs::read_to_string(&own).expect("it is there"), text);
    }
}

#[test]
fn one_that_has_been_installed_without_it_is_given_it() {
    let desk = Desk::new();
    let file = desk.project.join(".claude/settings.local.json");
    desk.relay(&[&INSTALL[..], &["--no-hooks"]].concat())
        .assert()
        .code(0);
    let before = "{\n  \"enabledMcpjsonServers\": [\"relay\"],\n  \"permissions\": {\n    \"allow\": [\"mcp__relay\"]\n  }\n}\n";
    desk.write(&file, before);
    let told = contains("without asking")
        .not()
        .and(contains("Claude Code asks you before it starts a worker"));
    desk.relay(&INSTALL).assert().code(0).stderr(told);
    assert_eq!(desk.json(&file)["permissions"], permissions());
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), []);
}

#[test]
fn for_all_projects_the_rule_goes_also_where_a_person_has_decided_of_workers() {
    let rules = json!({"permissions": {"allow": ["x"], "deny": [SPAWN]}}).to_string();
    let (global, alone) = (&["--global"][..], &["--global", "--no-hooks"][..]);
    for installations in [&[alone][..], &[global, alone], &[alone, global]] {
        let desk = Desk::new();
        let file = desk.home.join(".claude/settings.json");
        desk.write(&file, &rules);
        for options in installations {
            let install = [&INSTALL[..], options].concat();
            desk.relay(&install).assert().code(0);
        }
        let told = contains(format!(
            "changed {}, which is as it was before install\n",
            file.display()
        ));
        let uninstall = ["uninstall", "--editor", "claude", "--global"];
        desk.relay(&uninstall).assert().code(0).stdout(told);
        assert_eq!(fs::read_to_string(&file).expect("it is there"), rules);
        let kept = desk.backup(&file);
        assert!(!kept.exists() && !kept.with_extension("json.1").exists());
    }
}

#[test]
fn a_rule_that_was_there_before_does_not_make_a_file_an_installations() {
    let desk = Desk::new();
    let file = desk.home.join(".claude/settings.json");
    let install = [&INSTALL[..], &["--global"]].concat();
    let write = |model: &str| {
        let rules = json!({"permissions": {"allow": ["mcp__relay"]}, "model": model});
        desk.write(&file, &rules.to_string());
    };
    write("a");
    desk.relay(&install).assert().code(0);
    // It is kept as it was, and changed by hand since.
    write("b");
    desk.relay(&install).assert().code(0);
    let text = |path: &Path| fs::read_to_string(path).expect("it is there");
    assert!(text(&desk.backup(&file)).contains("\"b\""));
}

#[test]
fn what_claude_code_is_denied_it_does_not_call_without_asking() {
    let denied = [
        "mcp__relay",
        "mcp__relay__read_messages",
        "mcp__*",
        "mcp__rel*",
        "mcp__*__read_messages",
    ];
    let asked = ["mcp__relay", "mcp__relay__*", "mcp__relay__post_message"];
    let denied = denied.map(|rule| ("deny", "does not call", rule));
    let asked = asked.map(|rule| ("ask", "asks you before it calls", rule));
    for (list, does, rule) in denied.into_iter().chain(asked) {
        let desk = Desk::new();
        let file = desk.project.join(".claude/settings.json");
        let mut rules = json!({"permissions": {}});
        rules["permissions"][list] = json!([rule]);
        desk.write(&file, &rules.to_string());
        let told = contains(format!(
            "Claude Code {does} what {rule} names, which is in permissions.{list} of {}; take that out\n",
            file.display()
        ));
        let untrue = contains("without asking");
        desk.relay(&INSTALL)
            .assert()
            .code(0)
            .stderr(told.and(untrue.not()));
        let global = [&INSTALL[..], &["--global"]].concat();
        let elsewhere = contains("take that out").not();
        desk.relay(&global).assert().code(0).stderr(elsewhere);
    }
}

#[test]
fn what_claude_code_does_not_heed_or_is_of_other_tools_denies_nothing() {
    for rule in [
        "mcp__relay__read_messages(*)",
        "mcp__relay__relay_sp*",
        "mcp__relayed__*",
        "mcp__*__nothing",
    ] {
        let desk = Desk::new();
        let file = desk.project.join(".claude/settings.json");
        desk.write(
            &file,
            &json!({"permissions": {"deny": [rule], "ask": [rule]}}).to_string(),
        );
        let told =
            contains("Claude Code calls relay's tools without asking").and(contains("take that out").not());
        desk.relay(&INSTALL).assert().code(0).stderr(told);
    }
}

#[test]
fn each_rule_that_stops_relays_tools_is_told_and_to_claude_code_alone() {
    let desk = Desk::new();
    let file = desk.project.join(".claude/settings.json");
    let rules = json!({"deny": ["mcp__relay__read_messages", "mcp__*"], "ask": ["mcp__relay"]});
    desk.write(&file, &json!({"permissions": rules}).to_string());
    let told = |install: &[&str]| {
        let told = desk.relay(install).assert().code(0);
        let told = String::from_utf8_lossy(&told.get_output().stderr).into_owned();
        let lines = told.lines().filter(|line| line.ends_with("; take that out"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let line = |does: &str, rule: &str, list: &str| {
        let file = file.display();
        format!(
            "Claude Code {does} what {rule} names, which is in permissions.{list} of {file}; take that out"
        )
    };
    let all = [
        line("does not call", "mcp__relay__read_messages", "deny"),
        line("does not call", "mcp__*", "deny"),
        line("asks you before it calls", "mcp__relay", "ask"),
    ];
    assert_eq!(told(&INSTALL), all);
    assert_eq!(told(&["install", "--editor", "cursor"]), [] as [String; 0]);
}

#[test]
fn what_is_allowed_is_told_of_a_file_with_a_byte_order_mark_too() {
    let desk = Desk::new();
    desk.write(&desk.project.join(".claude/settings.local.json"), "\u{feff}{}\n");
    let told = contains("Claude Code calls relay's tools without asking: ")
        .and(contains("Claude Code asks you before it starts a worker: "));
    desk.relay(&INSTALL).assert().code(0).stderr(told);
    desk.relay(&INSTALL).assert().code(0).stderr("");
}
