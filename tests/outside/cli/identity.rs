//! Who `relay mcp` says that its agent is, and what it refuses to start without.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use super::*;

const PM: (&str, &str) = (".relay", r#"{"name": "pm", "role": "director"}"#);
const QA: (&str, &str) = (
    ".thrum",
    r#"{"version": 1, "agent": {"kind": "agent", "name": "qa", "role": "tester", "module": "ui"}, "worktree": "x"}"#,
);

/// A directory with identity files, each for the agent that its name says.
fn project(files: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Whatever is above it does not count.
    fs::create_dir(directory.path().join(".relay")).expect("a directory");
    fs::create_dir(directory.path().join(".thrum")).expect("a directory");
    for (kept, name, text) in files {
        let identities = directory.path().join(kept).join("identities");
        fs::create_dir_all(&identities).expect("a directory");
        fs::write(identities.join(format!("{name}.json")), text).expect("a file");
    }
    directory
}

fn pm_and_qa() -> [(&'static str, &'static str, &'static str); 2] {
    [(PM.0, "pm", PM.1), (QA.0, "qa", QA.1)]
}

fn mcp(directory: &Path, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = relay(&["mcp"]);
    command.args(arguments).current_dir(directory);
    command
}

/// Has a bridge ask what listens on a port for its tools; returns what the request was for, and the process of the bridge.
fn asked_for(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> (String, u32) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    let mut command = relay_command();
    command
        .args(["mcp", "--port", &port])
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(directory)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null());
    let mut process = Process::start(&mut command);
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let mut stdin = process.child.stdin.take().expect("it is piped");
    writeln!(stdin, "{hello}\n{list}").expect("the bridge reads");
    listener.set_nonblocking(true).expect("a socket can do that");
    let mut asking = None;
    until("the bridge asks", || {
        asking = listener.accept().ok();
        asking.is_some()
    });
    let (stream, _) = asking.expect("it has asked");
    stream.set_nonblocking(false).expect("a socket can do that");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a request");
    let pid = process.child.id();
    drop(stdin);
    // Nobody answers: each connection is closed, those of a registered agent's presence too.
    std::thread::spawn(move || {
        while !matches!(listener.accept(), Err(error) if error.kind() != std::io::ErrorKind::WouldBlock) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    assert_eq!(process.exit_status().code(), Some(0));
    let target = line.split(' ').nth(1).expect("a request line");
    (target.to_owned(), pid)
}

/// Leaves out what differs from start to start, which must be there, in this order, or not at all.
fn without_instance(target: &str) -> String {
    let Some((before, after)) = target.split_once("&instance=") else {
        return target.to_owned();
    };
    let (instance, after) = after.split_at(36);
    let id: uuid::Uuid = instance.parse().expect("a uuid");
    assert_eq!(id.get_version_num(), 7, "{instance}");
    let (after, directory) = after.split_once("&cwd=").expect("a directory");
    // The presence of the agent may be the first to ask, once it is known which program it is.
    let after = after.strip_suffix("&cli=test").unwrap_or(after);
    assert!(directory.starts_with("%2F"), "{directory}");
    format!("{before}&instance{after}")
}

#[test]
fn lift_alone_looks_for_no_name_in_identity_files_but_for_the_role_of_one_that_is_given() {
    let project = project(&pm_and_qa());
    let pm = "/mcp?agent=pm&role=director&instance";
    for (arguments, expected) in [
        (vec![], "/mcp"),
        (vec!["--agent", "dev-a"], "/mcp?agent=dev-a"),
        (vec!["--agent", "pm"], pm),
        (vec!["--agent-id", "pm", "--tools", "lift"], pm),
        (vec!["--agent", "pm", "--agent-id", "pm"], pm),
    ] {
        let (target, _) = asked_for(project.path(), &arguments, &[("THRUM_NAME", "qa")]);
        assert_eq!(without_instance(&target), expected, "{arguments:?}");
    }
    let (target, _) = asked_for(project.path(), &[], &[("RELAY_AGENT", "dev-a")]);
    assert_eq!(target, "/mcp?agent=dev-a");
    let variables = [("RELAY_AGENT", "dev-a"), ("RELAY_PROJECT", "")];
    let (target, _) = asked_for(project.path(), &["--agent-id", "pm", "--project="], &variables);
    assert_eq!(without_instance(&target), pm);
}

#[test]
fn an_agent_at_a_place_that_is_named_is_of_the_project_of_an_option_or_else_of_a_variable() {
    let project = project(&[]);
    let variable = ("RELAY_PROJECT", "variable");
    for (arguments, variables, file, of) in [
        (vec![], vec![], "{}", ""),
        // The relay's place is named here, so that no file is asked.
        (vec![], vec![], r#"{"project": "file"}"#, ""),
        (
            vec![],
            vec![variable],
            r#"{"project": "file"}"#,
            "&project=variable",
        ),
        (
            vec!["--project", "option"],
            vec![variable],
            r#"{"project": "file"}"#,
            "&project=option",
        ),
        // What is empty says nothing.
        (
            vec!["--project="],
            vec![variable],
            r#"{"project": "file"}"#,
            "&project=variable",
        ),
        (
            vec!["--project="],
            vec![("RELAY_PROJECT", "")],
            r#"{"project": "file"}"#,
            "",
        ),
    ] {
        fs::write(project.path().join(".relay/config.json"), file).expect("a file");
        for (tools, told) in [("lift", ""), ("thrum", "&tools=thrum")] {
            let arguments = [&["--agent", "dev-a", "--tools", tools], &arguments[..]].concat();
            let (target, _) = asked_for(project.path(), &arguments, &variables);
            assert_eq!(target, format!("/mcp?agent=dev-a{of}{told}"), "{file}");
        }
        // Who has no name says whole names.
        assert_eq!(asked_for(project.path(), &arguments, &variables).0, "/mcp");
    }
}

#[test]
fn other_tools_take_the_agent_and_its_role_from_where_it_is_said_first() {
    let project = project(&pm_and_qa());
    let pm = "/mcp?agent=pm&role=director&tools=thrum&instance";
    let qa = "/mcp?agent=qa&role=tester&module=ui&tools=thrum&instance";
    let both = [("RELAY_AGENT", "qa"), ("THRUM_NAME", "pm")];
    for (arguments, variables, expected) in [
        (vec!["--agent", "pm"], &both[..], pm),
        (vec![], &both, qa),
        (vec![], &both[1..], pm),
        (vec!["--agent", "ace"], &[], "/mcp?agent=ace&tools=thrum"),
    ] {
        let arguments = [&["--tools", "thrum"], &arguments[..]].concat();
        let (target, _) = asked_for(project.path(), &arguments, variables);
        assert_eq!(without_instance(&target), expected);
    }
    fs::remove_dir_all(project.path().join(".relay/identities")).expect("it is there");
    let (target, _) = asked_for(project.path(), &["--tools", "thrum"], &[]);
    assert_eq!(without_instance(&target), qa, "the only one");
}

#[test]
fn what_is_registered_is_who_the_bridge_finds() {
    let project = project(&[]);
    let deep = project.path().join("src");
    fs::create_dir(&deep).expect("a directory");
    let mut register = relay(&["register", "Ace", "--role", "pilot"]);
    register.current_dir(project.path()).assert().code(0);
    let (target, _) = asked_for(&deep, &["--tools", "thrum,lift", "--project", "web"], &[]);
    let expected = "/mcp?agent=Ace&role=pilot&project=web&tools=lift%2Cthrum&instance";
    assert_eq!(without_instance(&target), expected);
}

#[test]
fn the_repository_that_is_named_is_that_in_which_the_agent_is_looked_for() {
    let repository = project(&[(QA.0, "qa", QA.1)]);
    let elsewhere = project(&[]);
    let path = repository.path().to_str().expect("text");
    let named = ["--tools", "thrum", "--repo", path];
    let (target, _) = asked_for(elsewhere.path(), &named, &[]);
    let expected = "/mcp?agent=qa&role=tester&module=ui&tools=thrum&instance";
    assert_eq!(without_instance(&target), expected);
    let cwd: String = form_urlencoded::Serializer::new(String::new())
        .append_pair(
            "cwd",
            repository
                .path()
                .canonicalize()
                .expect("it is there")
                .to_str()
                .expect("text"),
        )
        .finish();
    assert!(target.contains(&cwd), "{target}");
    let (target, _) = asked_for(repository.path(), &["--tools", "thrum", "--repo", "."], &[]);
    assert_eq!(without_instance(&target), expected);
    for missing in ["missing", ".thrum/identities/qa.json"] {
        mcp(repository.path(), &["--tools", "thrum", "--repo", missing])
            .assert()
            .code(2)
            .stdout("")
            .stderr(
                contains(format!("relay mcp: --repo is {missing}: "))
                    .and(contains("; accepted: a directory\n")),
            );
    }
}

#[test]
fn a_redirect_of_thrums_leads_to_the_identities_of_the_main_checkout() {
    let main = project(&[(QA.0, "qa", QA.1)]);
    let tree = project(&[]);
    let kept = main.path().join(".thrum");
    fs::write(
        tree.path().join(".thrum/redirect"),
        format!("{}\n", kept.display()),
    )
    .expect("a file");
    let thrum = ["--tools", "thrum"];
    let (target, _) = asked_for(tree.path(), &thrum, &[]);
    let qa = "/mcp?agent=qa&role=tester&module=ui&tools=thrum&instance";
    assert_eq!(without_instance(&target), qa);
    // A worktree of Thrum's has its own agents.
    let identities = tree.path().join(".thrum/identities");
    fs::create_dir(&identities).expect("a directory");
    assert_eq!(without_instance(&asked_for(tree.path(), &thrum, &[]).0), qa);
    fs::write(
        identities.join("ace.json"),
        r#"{"agent": {"name": "ace", "role": "pilot"}}"#,
    )
    .expect("a file");
    let (target, _) = asked_for(tree.path(), &thrum, &[]);
    let ace = "/mcp?agent=ace&role=pilot&tools=thrum&instance";
    assert_eq!(without_instance(&target), ace);
}

/// As the commands of Thrum and Agent Relay are called.
#[test]
fn mcp_serve_is_mcp_and_takes_its_options_behind_it() {
    let project = project(&pm_and_qa());
    let serve = |arguments: &[&str], variables: &[(&str, &str)]| {
        // The port is said before it elsewhere.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port().to_string();
        drop(listener);
        let all = [&["serve"], arguments].concat();
        let mut command = mcp(project.path(), &all);
        command.env("RELAY_PORT", &port).envs(variables.iter().copied());
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "relay_status", "arguments": {}}});
        let assert = command.write_stdin(format!("{hello}\n{call}\n")).assert().code(0);
        let told = String::from_utf8(assert.get_output().stdout.clone()).expect("text");
        (told, port)
    };
    let (told, port) = serve(&["--tools", "agent-relay", "--agent-id", "qa"], &[]);
    let own = format!("- Agent Name: qa\\n- Project: default\\n- Socket: 127.0.0.1:{port}\\n");
    assert!(told.contains(&own), "{told}");
    let (told, _) = serve(&["--tools=agent-relay"], &[("RELAY_AGENT", "pm")]);
    assert!(told.contains("- Agent Name: pm\\n"), "{told}");
    mcp(project.path(), &["--agent", "pm", "serve"])
        .assert()
        .code(2)
        .stdout("");
}

#[test]
fn agent_relays_tools_need_no_name() {
    let empty = project(&[]);
    for files in [&[][..], &pm_and_qa()] {
        let project = project(files);
        for tools in ["agent-relay", "lift,agent-relay"] {
            let (target, pid) = asked_for(project.path(), &["--tools", tools], &[]);
            let expected = format!(
                "/mcp?agent=mcp-{pid}&role=&tools={}&instance&transient=1",
                tools.replace(',', "%2C")
            );
            assert_eq!(without_instance(&target), expected);
        }
    }
    let arguments = ["--tools", "agent-relay", "--agent", "Alice"];
    let (target, _) = asked_for(empty.path(), &arguments, &[]);
    assert_eq!(
        without_instance(&target),
        "/mcp?agent=Alice&role=&tools=agent-relay&instance"
    );
}

#[test]
fn thrums_tools_need_a_name() {
    let none = contains("there is no identity in ")
        .and(contains(".relay/identities; write one with: "))
        .and(contains(
            " register NAME --role ROLE, or name the agent with --agent or RELAY_AGENT\n",
        ));
    let several = predicate::eq(
        "relay mcp: there are several identities; choose one with --agent or RELAY_AGENT:\n  \
         \"max\" (unreadable: it has no role)\n  pm (role director)\n  qa (role tester, module ui)\n",
    );
    let broken = (".relay", "max", r#"{"name": "max"}"#);
    let [pm, qa] = pm_and_qa();
    for tools in ["thrum", "thrum,agent-relay", "all"] {
        mcp(project(&[]).path(), &["--tools", tools])
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::function(|text: &str| none.eval(text)));
        mcp(project(&[pm, qa, broken]).path(), &["--tools", tools])
            .assert()
            .code(2)
            .stdout("")
            .stderr(several);
    }
    let named = contains("max.json for an identity: it has no role; mend it, or write it anew with: ")
        .and(contains(" register max --role ROLE --force\n"));
    for (files, arguments) in [
        (vec![broken], vec!["--tools", "thrum"]),
        (vec![broken], vec!["--tools", "agent-relay"]),
        (vec![broken, pm], vec!["--tools", "thrum", "--agent", "max"]),
    ] {
        mcp(project(&files).path(), &arguments)
            .assert()
            .code(1)
            .stdout("")
            .stderr(predicate::function(|text: &str| named.eval(text)));
    }
}

#[test]
fn bad_flags_are_named_with_what_is_accepted() {
    let project = project(&[]);
    let toolsets = "accepted: lift, thrum, agent-relay, or all, with commas between them";
    for (arguments, expected) in [
        (
            vec!["--agent", "pm", "--agent-id", "qa"],
            "relay mcp: the agent is named twice, \"pm\" and \"qa\", by --agent or --agent-id; accepted: one name".to_owned(),
        ),
        (vec!["--tools", "mail"], format!("unknown toolset \"mail\"; {toolsets}")),
        (vec!["--tools", "thrum,,lift"], format!("unknown toolset \"\"; {toolsets}")),
        (
            vec!["--tools", "thrum,thrum"],
            "toolset \"thrum\" is named twice; each is named once".to_owned(),
        ),
        (
            vec!["--tools", "lift,all"],
            format!("unknown toolset \"all\"; {toolsets}"),
        ),
        (
            vec!["--project", "a/b"],
            "'a/b' for '--project <PROJECT>': invalid project name \"a/b\"; a name has 1 to 32 of".to_owned(),
        ),
        (vec!["--agent-id", "a b"], "invalid role name \"a b\"".to_owned()),
    ] {
        mcp(project.path(), &arguments)
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(expected));
    }
    let mut named = mcp(project.path(), &["--tools", "thrum"]);
    let invalid = contains("relay mcp: THRUM_NAME: invalid role name \"a b\"; a name has 1 to 32 of");
    named
        .env("THRUM_NAME", "a b")
        .assert()
        .code(2)
        .stdout("")
        .stderr(invalid);
}

#[test]
fn a_directory_that_is_gone_is_told_where_a_name_is_looked_for_and_matters_nowhere_else() {
    let directory = project(&[]);
    let own = relay_command();
    let starts = r#"mkdir gone && cd gone && rmdir ../gone && exec "$0" mcp --port 9 "$@""#;
    let mcp = |arguments: &[&str]| {
        let mut shell = assert_cmd::Command::new("sh");
        shell.args(["-c", starts]).arg(own.get_program()).args(arguments);
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.current_dir(directory.path()).timeout(PATIENCE);
        shell.assert().stdout("")
    };
    let said = "relay mcp: cannot tell the working directory: No such file or directory (os error 2)\n";
    mcp(&["--agent", "pm"]).code(1).stderr(said);
    mcp(&["--tools", "thrum"]).code(1).stderr(said);
    mcp(&[]).code(0).stderr("");
}
