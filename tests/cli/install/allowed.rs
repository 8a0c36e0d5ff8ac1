//! The rule by which Claude Code calls relay's tools without asking.

use super::*;

const INSTALL: [&str; 3] = ["install", "--editor", "claude"];

#[test]
fn it_is_told_once_and_goes_with_what_was_made_for_it() {
    let desk = Desk::new();
    for (global, file) in [
        (&[][..], desk.project.join(".claude/settings.local.json")),
        (&["--global"], desk.home.join(".claude/settings.json")),
    ] {
        let told = contains(format!(
            "Claude Code calls relay's tools without asking: mcp__relay is in permissions.allow of {}\n",
            file.display()
        ));
        let install = [&INSTALL[..], &["--no-hooks"], global].concat();
        desk.relay(&install).assert().code(0).stderr(told.clone());
        assert_eq!(desk.json(&file)["permissions"], json!({"allow": ["mcp__relay"]}));
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
            let rules = installed["permissions"]["allow"].as_array().expect("an array");
            assert_eq!(
                rules.iter().filter(|rule| **rule == "mcp__relay").count(),
                1,
                "{old}"
            );
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
