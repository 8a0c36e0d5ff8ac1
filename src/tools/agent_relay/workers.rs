//! The tools that start workers and end them.

use super::super::{Accepts, Argument, Needed, Tool, Waits};
use super::refused;
use crate::engine::agents;

pub(super) const RELAY_SPAWN: Tool = Tool {
    name: "relay_spawn",
    description: "Spawn a worker agent to handle a subtask.

The worker runs in a separate process with its own CLI instance.

Example: name=\"TestRunner\", cli=\"claude\", task=\"Run the test suite and report failures\"",
    arguments: &[
        Argument {
            name: "name",
            accepts: Accepts::Text,
            needed: Needed::Always,
            description: "Unique name for the worker agent",
        },
        Argument {
            name: "cli",
            accepts: Accepts::Word(&["claude", "codex", "gemini", "droid", "opencode"]),
            needed: Needed::Always,
            description: "CLI tool to use",
        },
        Argument {
            name: "task",
            accepts: Accepts::Text,
            needed: Needed::Always,
            description: "Task description for the worker",
        },
        Argument {
            name: "model",
            accepts: Accepts::Text,
            needed: Needed::Never,
            description: "Optional model override",
        },
        Argument {
            name: "cwd",
            accepts: Accepts::Text,
            needed: Needed::Never,
            description: "Working directory for the worker",
        },
    ],
    to_command: |given| {
        for name in ["name", "cli", "task", "model", "cwd"] {
            given.text(name);
        }
        agents::Command::WhoAmI.into()
    },
    to_texts: |_, texts| texts.plain(format_args!("Failed to spawn worker: {NO_WORKERS}")),
    refused,
    waits: Waits::Never,
};

pub(super) const RELAY_RELEASE: Tool = Tool {
    name: "relay_release",
    description: "Release (terminate) a worker agent that has completed its task.",
    arguments: &[
        Argument {
            name: "name",
            accepts: Accepts::Text,
            needed: Needed::Always,
            description: "Name of the worker to release",
        },
        Argument {
            name: "reason",
            accepts: Accepts::Text,
            needed: Needed::Never,
            description: "Optional reason for release",
        },
    ],
    to_command: |given| {
        for name in ["name", "reason"] {
            given.text(name);
        }
        agents::Command::WhoAmI.into()
    },
    to_texts: |_, texts| texts.plain(format_args!("Failed to release worker: {NO_WORKERS}")),
    refused,
    waits: Waits::Never,
};

/// Why no worker is started or ended.
const NO_WORKERS: &str =
    "this version of relay starts no workers; ask a person to start the agent in a terminal of its own";
