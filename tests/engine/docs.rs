//! What the documents say of the tools is what the tools are.

use std::fmt::Write as _;

use relay::tools::lift::LIFT;
use relay::tools::{ALL, Accepts, Argument, Needed, Prompt, Resource, Tool, Toolset};

/// The file that is written from the tools.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/TOOLS.md");

fn reference() -> String {
    let mut text = "# The tools\n\nWritten from the lists in `src/tools/`, from which schemas, checks and errors are made too. A session has \
         the tools of one toolset or of several: `?tools=NAME` in its address, `relay mcp --tools NAME`, with commas between several, or \
         `all`; `lift` is what it has if nothing is said.\n"
        .to_owned();
    for toolset in ALL {
        write_toolset(&mut text, toolset).expect("memory takes it");
    }
    text
}

fn write_toolset(text: &mut String, toolset: &Toolset) -> std::fmt::Result {
    write!(
        text,
        "\n## {}\n\nAn agent is told when its session begins:\n\n```\n{}\n```\n",
        toolset.name, toolset.instructions
    )?;
    for Tool {
        name,
        description,
        arguments,
        ..
    } in toolset.tools
    {
        write!(text, "\n### `{name}`\n\n{description}\n")?;
        if arguments.is_empty() {
            writeln!(text, "\nIt takes no arguments.")?;
            continue;
        }
        write!(
            text,
            "\n| argument | what it is | accepted | left out |\n|---|---|---|---|\n"
        )?;
        for argument in *arguments {
            let Argument {
                name, description, ..
            } = argument;
            let (accepted, left_out) = (accepted(&argument.accepts), left_out(argument));
            writeln!(text, "| `{name}` | {description} | {accepted} | {left_out} |")?;
        }
    }
    for Prompt {
        name, description, ..
    } in toolset.prompts
    {
        write!(text, "\n### Prompt `{name}`\n\n{description}\n")?;
    }
    for Resource {
        uri,
        description,
        changes_with,
        ..
    } in toolset.resources
    {
        write!(text, "\n### Resource `{uri}`\n\n{description}\n")?;
        if changes_with.is_some() {
            writeln!(
                text,
                "\nA client that has subscribed to it is told when it has changed."
            )?;
        }
    }
    Ok(())
}

fn accepted(accepts: &Accepts) -> String {
    match accepts {
        Accepts::Role => "a role".to_owned(),
        Accepts::Address => "an address".to_owned(),
        Accepts::Word(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Accepts::Text | Accepts::Wait | Accepts::Integer { .. } | Accepts::Boolean(_) | Accepts::Object => {
            accepts.words()
        }
    }
}

fn left_out(argument: &Argument) -> String {
    match (argument.needed, &argument.accepts) {
        (Needed::Always, _) => "no".to_owned(),
        (Needed::UnlessBound, _) => "by a session that is bound to a role".to_owned(),
        (Needed::Never, Accepts::Integer { default, .. }) => format!("{default}"),
        (Needed::Never, Accepts::Boolean(default)) => format!("{default}"),
        (Needed::Never, _) => "yes".to_owned(),
    }
}

/// Writes a tool as a call of it is written in prose: `read_messages(for, wait_seconds?)`.
fn signature(tool: &Tool) -> String {
    let argument = |argument: &Argument| match argument.needed {
        Needed::Always | Needed::UnlessBound => argument.name.to_owned(),
        Needed::Never => format!("{}?", argument.name),
    };
    let arguments: Vec<String> = tool.arguments.iter().map(argument).collect();
    format!("{}({})", tool.name, arguments.join(", "))
}

#[test]
fn the_reference_of_the_tools_is_written_from_them() {
    let expected = reference();
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/TOOLS.md");
    std::fs::write(path, &expected).expect("a directory of the build");
    let found = std::fs::read_to_string(TOOLS).unwrap_or_default();
    assert!(
        found == expected,
        "docs/TOOLS.md is not what the tools are; cp {path} {TOOLS}"
    );
}

#[test]
fn each_table_of_tools_has_all_of_them_with_their_arguments() {
    for document in ["README.md", "docs/MULTI-AGENT.md"] {
        let path = format!("{}/{document}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("it is there");
        for tool in LIFT.tools {
            let signature = signature(tool);
            assert!(text.contains(&signature), "{document} does not have {signature}");
        }
    }
}

#[test]
fn the_reference_of_the_api_is_written_from_its_routes() {
    const API: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/API.md");
    let expected = relay::server::api_reference();
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/API.md");
    std::fs::write(path, &expected).expect("a directory of the build");
    let found = std::fs::read_to_string(API).unwrap_or_default();
    assert!(
        found == expected,
        "docs/API.md is not what the API is; cp {path} {API}"
    );
}
