//! What is relay's as a whole file: its plugin for OpenCode, and the listener of Claude Code.

use super::*;

const INSTALL: [&str; 3] = ["install", "--editor", "opencode"];

/// A plugin as an older relay has put it in, or as somebody has changed it.
fn changed() -> String {
    format!("{OPENCODE_PLUGIN}// mine\n")
}

#[test]
fn it_goes_in_where_opencode_has_its_plugins_and_out_as_long_as_it_is_the_same() {
    let desk = Desk::new();
    let (config, plugin) = (
        desk.project.join("opencode.json"),
        desk.project.join(".opencode/plugin/relay.js"),
    );
    let made = format!(
        "OpenCode: made {}\nOpenCode: made {}\n",
        config.display(),
        plugin.display()
    );
    desk.relay(&INSTALL).assert().code(0).stdout(made);
    assert_eq!(fs::read_to_string(&plugin).expect("it is there"), OPENCODE_PLUGIN);
    let same = contains(format!("OpenCode: {} is as it should be\n", plugin.display()));
    desk.relay(&INSTALL).assert().code(0).stdout(same).stderr("");
    let without = [&INSTALL[..], &["--no-hooks"]].concat();
    let removed = contains(format!("OpenCode: removed {}", plugin.display()));
    desk.relay(&without).assert().code(0).stdout(removed);
    assert!(
        !desk.project.join(".opencode").exists(),
        "it was made for the file alone"
    );
    desk.relay(&INSTALL).assert().code(0);
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), []);
}

#[test]
fn one_in_opencodes_other_directory_of_plugins_is_the_same_one() {
    let desk = Desk::new();
    let plugin = desk.project.join(".opencode/plugins/relay.js");
    desk.write(&plugin, OPENCODE_PLUGIN);
    desk.relay(&INSTALL).assert().code(0);
    assert!(!desk.project.join(".opencode/plugin").exists());
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), []);
}

#[test]
fn a_plugin_that_somebody_has_changed_is_left_by_uninstall_and_replaced_and_kept_by_install() {
    let desk = Desk::new();
    let plugin = desk.project.join(".opencode/plugin/relay.js");
    desk.relay(&INSTALL).assert().code(0);
    desk.write(&plugin, &changed());
    let left = format!(
        "OpenCode: left {}, which is not as this relay puts it in; remove it yourself, unless you want it\n",
        plugin.display()
    );
    for arguments in [&["uninstall"][..], &[&INSTALL[..], &["--no-hooks"]].concat()] {
        desk.relay(arguments)
            .assert()
            .code(0)
            .stdout(contains(left.as_str()));
        assert_eq!(fs::read_to_string(&plugin).expect("it is there"), changed());
    }

    let kept = desk.backup(&plugin);
    let told = format!(
        "OpenCode: changed {}; as it was: {}\n",
        plugin.display(),
        kept.display()
    );
    desk.relay(&INSTALL).assert().code(0).stdout(contains(told));
    assert_eq!(fs::read_to_string(&plugin).expect("it is there"), OPENCODE_PLUGIN);
    assert_eq!(fs::read_to_string(&kept).expect("it is there"), changed());
    // What is kept is relay's own: it was not there before relay was.
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), []);
}

#[test]
fn whatever_is_kept_of_a_plugin_stays_when_the_next_one_is_kept() {
    for first in ["export const Mine = async () => ({});\n".to_owned(), changed()] {
        let desk = Desk::new();
        let plugin = desk.project.join(".opencode/plugin/relay.js");
        desk.write(&plugin, &first);
        desk.relay(&INSTALL).assert().code(0);
        let kept = desk.backup(&plugin);
        let aside = |number: u32| PathBuf::from(format!("{}.{number}", kept.display()));
        let read = |path: &Path| fs::read_to_string(path).expect("it is kept");
        for number in [1, 2] {
            let next = format!("{}// {number}\n", changed());
            // Twice the same is kept once.
            for _ in 0..2 {
                desk.write(&plugin, &next);
                let told = format!("; as it was: {}\n", aside(number).display());
                desk.relay(&INSTALL).assert().code(0).stdout(contains(told));
            }
            assert_eq!(read(&aside(number)), next);
            assert_eq!(read(&kept), first);
        }
        assert!(!aside(3).exists());
        // Another one of somebody else's is what is there again after uninstall.
        let other = "export const Other = async () => ({});\n";
        desk.write(&plugin, other);
        desk.relay(&INSTALL).assert().code(0);
        assert_eq!((read(&kept), read(&aside(3))), (other.to_owned(), first));
        desk.relay(&["uninstall"]).assert().code(0);
        assert_eq!(read(&plugin), other);
    }
}

#[test]
fn a_file_of_somebody_elses_under_its_name_is_there_again_after_uninstall() {
    let desk = Desk::new();
    let plugin = desk.project.join(".opencode/plugin/relay.js");
    desk.write(&plugin, "export const Mine = async () => ({});\n");
    let before = desk.files();
    desk.relay(&["uninstall"]).assert().code(3);
    desk.relay(&INSTALL).assert().code(0);
    // As if an older relay had put it in: what is kept is the first one still.
    desk.write(&plugin, &changed());
    desk.relay(&INSTALL).assert().code(0);
    assert_eq!(fs::read_to_string(&plugin).expect("it is there"), OPENCODE_PLUGIN);
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), before);
    assert!(!desk.backup(&plugin).exists(), "it is the file itself");
}

#[test]
fn a_dry_run_shows_it_and_another_port_is_told_to_be_set_for_it() {
    let desk = Desk::new();
    let plugin = desk.project.join(".opencode/plugin/relay.js");
    let lines = OPENCODE_PLUGIN.lines().count();
    let head = format!("--- /dev/null\n+++ {}\n@@ -0,0 +1,{lines} @@\n", plugin.display());
    let dry = [&INSTALL[..], &["--dry-run"]].concat();
    desk.relay(&dry)
        .assert()
        .code(0)
        .stdout(contains(head))
        .stderr("");
    assert_eq!(desk.files(), []);
    let elsewhere = [&INSTALL[..], &["--port", "4000"]].concat();
    let told = contains(
        "OpenCode's plugin finds relay by RELAY_PORT: start opencode with RELAY_PORT=4000 in its environment\n",
    );
    desk.relay(&elsewhere).assert().code(0).stderr(told);
}

#[test]
fn the_listener_comes_and_goes_with_the_tools_that_it_waits_with() {
    let desk = Desk::new();
    let listener = desk.project.join(".claude/agents/message-listener.md");
    let install = |tools: &[&str]| {
        let arguments = [&["install", "--editor", "claude"], tools].concat();
        desk.relay(&arguments).assert().code(0)
    };
    install(&[]);
    assert!(!listener.exists(), "it has no tools to wait with");
    let made = contains(format!("Claude Code: made {}\n", listener.display()));
    install(&["--tools", "thrum"]).stdout(made);
    assert_eq!(fs::read_to_string(&listener).expect("it is there"), LISTENER);
    // The tools stay as they are, and so does it.
    install(&[]);
    assert!(listener.exists());
    let removed = contains(format!("Claude Code: removed {}", listener.display()));
    install(&["--tools", "lift"]).stdout(removed);
    assert!(
        !listener.parent().expect("it has one").exists(),
        "it was made for the file alone"
    );
    install(&["--tools", "all"]);
    assert!(listener.exists());
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), []);

    let global = desk.home.join(".claude/agents/message-listener.md");
    install(&["--tools", "thrum", "--global"]);
    assert_eq!(fs::read_to_string(&global).expect("it is there"), LISTENER);
    desk.relay(&["uninstall", "--global"]).assert().code(0);
    assert_eq!(desk.files(), []);
}

#[test]
fn a_listener_of_ones_own_stays_beside_other_tools_and_is_kept_where_relays_takes_its_place() {
    let desk = Desk::new();
    let listener = desk.project.join(".claude/agents/message-listener.md");
    let own = "---\nname: message-listener\ndescription: mine\n---\n";
    for there in [LISTENER, own] {
        desk.write(&listener, there);
        for arguments in [&["install", "--editor", "claude"][..], &["uninstall"]] {
            desk.relay(arguments).assert().code(0);
            assert_eq!(fs::read_to_string(&listener).expect("it is there"), there);
        }
    }
    desk.relay(&["install", "--editor", "claude", "--tools", "thrum"])
        .assert()
        .code(0);
    assert_eq!(fs::read_to_string(&listener).expect("it is there"), LISTENER);
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(fs::read_to_string(&listener).expect("it is there"), own);
}

/// As Thrum's document has it: the order of its calls, what it returns, and what the session that starts it is to do.
#[test]
fn the_listener_is_told_what_the_document_says() {
    let (_, head, steps) = {
        let mut parts = LISTENER.splitn(3, "---\n");
        let mut part = || parts.next().expect("three parts");
        (part(), part(), part())
    };
    let in_order = [
        "1. Call check_messages with no arguments.",
        "2. If it returned messages, return all of them",
        "3. If not, call wait_for_message with timeout 300.",
        "After five timeouts in a row",
        "MESSAGES_RECEIVED\nFROM: [from]\nCONTENT: [content]\nTIMESTAMP: [timestamp]\n",
        "NO_MESSAGES_TIMEOUT\n",
        "send your status to your coordinator",
    ];
    let mut left = steps;
    for words in in_order {
        let at = left.find(words);
        left = &left[at.unwrap_or_else(|| panic!("{words:?} is not in its place in {steps}"))..];
    }
    for words in [
        "model: haiku\n",
        "Once it has brought messages ten times, it is time to compact your context",
        "send your status to your coordinator and leave it stopped",
    ] {
        assert!(head.contains(words), "{words:?} is not in {head}");
    }
}

#[test]
fn where_ones_own_is_kept_is_told_with_a_changed_one_that_is_left() {
    let desk = Desk::new();
    let listener = desk.project.join(".claude/agents/message-listener.md");
    desk.write(&listener, "my own\n");
    let install = ["install", "--editor", "claude", "--tools", "thrum"];
    desk.relay(&install).assert().code(0);
    desk.write(&listener, &LISTENER.replace("word for word", "as you like"));
    let kept = format!("; as it was before install: {}", desk.backup(&listener).display());
    let told = desk.relay(&["uninstall"]).assert().code(0);
    let told = String::from_utf8_lossy(&told.get_output().stdout).into_owned();
    assert!(told.contains(&kept), "{told}");
}

#[test]
fn a_dry_run_says_nothing_of_what_would_stay_as_it_is() {
    let desk = Desk::new();
    desk.relay(&INSTALL).assert().code(0);
    let dry = [&INSTALL[..], &["--dry-run"]].concat();
    desk.relay(&dry).assert().code(0).stdout("").stderr("");
    // Nor of what would be left.
    let desk = Desk::new();
    let plugin = desk.project.join(".opencode/plugin/relay.js");
    desk.write(&plugin, &changed());
    let dry = ["uninstall", "--dry-run"];
    desk.relay(&dry).assert().code(0).stdout("").stderr("");
}
