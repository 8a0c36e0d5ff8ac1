//! What the documents say of the tools is what the tools are.

use std::fmt::Write as _;

use relay::engine::limits::WAIT_SECONDS_MAX;
use relay::tools::lift::LIFT;
use relay::tools::{Accepts, Argument, Needed, Tool, Toolset};

/// The file that is written from the tools.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/TOOLS.md");

fn reference(toolset: &Toolset) -> String {
    let mut text = format!(
        "# The tools\n\nWritten from the lists in `src/tools/`, from which schemas, checks and errors are made too.\n\nAn agent \
         is told when its session begins:\n\n```\n{}\n```\n",
        toolset.instructions
    );
    for Tool {
        name,
        description,
        arguments,
        ..
    } in toolset.tools
    {
        write!(
            text,
            "\n## `{name}`\n\n{description}\n\n| argument | what it is | accepted | left out |\n|---|---|---|---|\n"
        )
        .expect("memory takes it");
        for argument in *arguments {
            let Argument {
                name, description, ..
            } = argument;
            let (accepted, left_out) = (accepted(&argument.accepts), left_out(argument.needed));
            writeln!(text, "| `{name}` | {description} | {accepted} | {left_out} |")
                .expect("memory takes it");
        }
    }
    text
}

fn accepted(accepts: &Accepts) -> String {
    match accepts {
        Accepts::Role => "a role".to_owned(),
        Accepts::Word(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Accepts::Text => "a string".to_owned(),
        Accepts::Wait => format!("a number, 0 to {WAIT_SECONDS_MAX}"),
    }
}

fn left_out(needed: Needed) -> &'static str {
    match needed {
        Needed::Always => "no",
        Needed::UnlessBound => "by a session that is bound to a role",
        Needed::Never => "yes",
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
    let expected = reference(&LIFT);
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
