use uuid::Uuid;

use super::super::system::Tcp;
use super::*;
use crate::engine::AgentName;
use crate::tools::ReplyBytes;

const INSTANCE: &str = "instance=0190163d-8694-7000-8000-000000000001";

fn settings(identity: Option<Identity>, tools: &str) -> Settings {
    Settings {
        address: "127.0.0.1:7331".parse().expect("an address"),
        identity,
        project: None,
        toolsets: tools.parse().expect("toolsets"),
        directory: Some("/a b/é".to_owned()),
        instance: Uuid::from_u128(0x0190_163d_8694_7000_8000_0000_0000_0001),
        token: None,
        reply_max: None,
        program: "relay".to_owned(),
        session: Uuid::from_u128(7),
    }
}

#[test]
fn a_result_that_comes_with_the_status_of_an_error_is_none() {
    let said = |status, body: &str| result_of::<u32>(status, body.as_bytes());
    assert!(matches!(said(StatusCode::OK, r#"{"result":7}"#), Ok(7)));
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    let Err(AskError::Answered(reason)) = said(status, r#"{"result":7}"#) else {
        panic!("it is no result");
    };
    assert!(reason.contains("status 500"), "{reason}");
    let Err(AskError::Answered(reason)) = said(status, r#"{"error":{"message":"no"}}"#) else {
        panic!("it is no result");
    };
    assert_eq!(reason, "no");
}

fn text_of(settings: &Settings) -> String {
    target_text(settings, settings.project.as_ref(), &Introduction::default())
}

fn named(name: &str) -> Identity {
    Identity::named(AgentName::new(name).expect("a name"))
}

fn project(name: &str) -> Option<Project> {
    Some(name.parse().expect("a name"))
}

fn label(text: &str) -> Option<Label> {
    Some(text.parse().expect("a label"))
}

#[test]
fn lift_alone_asks_for_a_name_at_the_most() {
    let mut settings = settings(None, "lift");
    assert_eq!(text_of(&settings), "/mcp");
    settings.identity = Some(named("pm"));
    assert_eq!(text_of(&settings), "/mcp?agent=pm");
    settings.project = project("Web_1");
    assert_eq!(text_of(&settings), "/mcp?agent=pm&project=Web_1");
    settings.identity = None;
    assert_eq!(text_of(&settings), "/mcp");
}

#[test]
fn an_agent_with_a_role_is_registered_and_one_without_is_not() {
    let unknown = settings(Some(named("furiosa")), "thrum");
    assert_eq!(text_of(&unknown), "/mcp?agent=furiosa&tools=thrum");
    let known = Identity {
        role: label("implementer"),
        module: label("auth"),
        ..named("furiosa")
    };
    let mut known = settings(Some(known), "lift,thrum");
    known.project = project("web");
    let expected = "/mcp?agent=furiosa&role=implementer&module=auth&project=web&tools=lift%2Cthrum";
    assert_eq!(
        text_of(&known),
        format!("{expected}&{INSTANCE}&cwd=%2Fa+b%2F%C3%A9")
    );
}

#[test]
fn the_tools_of_agent_relay_register_whoever_has_them() {
    let alice = settings(Some(named("Alice")), "agent-relay");
    let expected = format!("/mcp?agent=Alice&role=&tools=agent-relay&{INSTANCE}&cwd=%2Fa+b%2F%C3%A9");
    assert_eq!(text_of(&alice), expected);
    let all = settings(Some(named("Alice")), "all");
    assert_eq!(
        text_of(&all),
        expected.replace("agent-relay", "lift%2Cthrum%2Cagent-relay")
    );
    let transient = settings(Some(Identity::of_process(4711)), "agent-relay");
    let expected =
        format!("/mcp?agent=mcp-4711&role=&tools=agent-relay&{INSTANCE}&transient=1&cwd=%2Fa+b%2F%C3%A9");
    assert_eq!(text_of(&transient), expected);
    let other_tools = settings(Some(Identity::of_process(4711)), "thrum");
    let expected = expected.replace("role=&tools=agent-relay", "tools=thrum");
    assert_eq!(text_of(&other_tools), expected);
}

#[test]
fn the_program_is_told_once_it_has_said_what_it_is() {
    let relay = Relay::new(
        settings(Some(named("Alice")), "agent-relay"),
        Tcp("127.0.0.1:9".parse().expect("an address")),
    );
    let target = || relay.target().to_string();
    assert!(!target().contains("cli="));
    for (program, expected) in [
        ("claude-code", "&cli=claude"),
        ("claude-code", "&reply_kb=40"),
        ("Codex-MCP-Client", "&cli=codex"),
        ("my \n agent & co", "&cli=my++agent+%26+co"),
        (&"é".repeat(200), &format!("&cli={}", "%C3%A9".repeat(64))),
    ] {
        relay.introduce(program);
        assert!(target().contains(expected), "{}", target());
    }
    let lift = Relay::new(
        settings(Some(named("pm")), "lift"),
        Tcp("127.0.0.1:9".parse().expect("an address")),
    );
    lift.introduce("somebody");
    assert_eq!(lift.target().to_string(), "/mcp?agent=pm");
    lift.introduce("codex-mcp-client");
    assert_eq!(lift.target().to_string(), "/mcp?agent=pm&reply_kb=9");
}

#[test]
fn how_much_of_a_reply_is_shown_is_what_the_bridge_was_told_whatever_its_program_is() {
    let told = Settings {
        reply_max: Some(ReplyBytes::kb(64)),
        ..settings(Some(named("pm")), "lift")
    };
    let relay = Relay::new(told, Tcp("127.0.0.1:9".parse().expect("an address")));
    for program in ["claude-code", "codex-mcp-client", "somebody"] {
        assert_eq!(relay.target().to_string(), "/mcp?agent=pm&reply_kb=64");
        relay.introduce(program);
    }
}

#[test]
fn a_working_directory_is_told_if_its_path_is_one_line_of_text_and_not_too_long() {
    let mut alice = settings(Some(named("Alice")), "agent-relay");
    for (directory, told) in [
        (None, false),
        (Some(" ".repeat(1_024)), true),
        (Some(" ".repeat(1_025)), false),
        (Some("/é".repeat(341)), true),
        (Some("/a\u{1}".to_owned()), false),
        (Some("/a\nb".to_owned()), false),
        (Some("/\u{85}".to_owned()), false),
    ] {
        alice.directory = directory;
        let target = text_of(&alice);
        assert_eq!(target.contains("&cwd="), told, "{target}");
        // Whatever it is, it makes an address.
        let _ = Relay::new(alice.clone(), Tcp(alice.address)).target();
    }
}
