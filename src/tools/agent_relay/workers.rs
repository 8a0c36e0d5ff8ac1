//! The tools that start workers and end them.

use super::super::{Accepts, Argument, Needed, Tool, Waits};
use super::refused;
use crate::engine::Reply;
use crate::engine::limits::WORKER_START_MS;
use crate::engine::workers::{Asked, Command, Reply as Answer};

pub(super) const RELAY_SPAWN: Tool = Tool {
    name: "relay_spawn",
    description: "Spawn a worker agent to handle a subtask.

The worker runs in a separate process with its own CLI instance.
You'll receive a confirmation when the worker is ready.

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
        let asked = Asked {
            from: None,
            name: given.needed_text("name"),
            cli: given.needed_text("cli"),
            task: given.needed_text("task"),
            model: given.text("model"),
            cwd: given.text("cwd"),
        };
        Command::Spawn(Box::new(asked)).into()
    },
    to_texts: |reply, texts| {
        let Reply::Workers(Answer::Spawned { agent, parent, .. }) = reply else {
            unreachable!("a spawn is answered with a worker, not {reply:?}");
        };
        let name = agent.seen_from(parent.project());
        texts.plain(format_args!(
            "Worker \"{name}\" spawned successfully. It will message you when ready."
        ));
    },
    refused: |refusal| format!("Failed to spawn worker: {}", refused(refusal)),
    waits: Waits::AtMost {
        ms: WORKER_START_MS.unsigned_abs(),
    },
    takes: false,
};

pub(super) const RELAY_RELEASE: Tool = Tool {
    name: "relay_release",
    description: "Release (terminate) a worker agent that has completed its task or is no longer needed.",
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
        let command = Command::Release {
            from: None,
            name: given.needed_text("name"),
            reason: given.text("reason"),
        };
        command.into()
    },
    to_texts: |reply, texts| {
        let Reply::Workers(Answer::Released { agent, parent, .. }) = reply else {
            unreachable!("a release is answered with a worker, not {reply:?}");
        };
        let name = agent.seen_from(parent.project());
        texts.plain(format_args!("Worker \"{name}\" released."));
    },
    refused: |refusal| format!("Failed to release worker: {}", refused(refusal)),
    waits: Waits::Never,
    takes: false,
};
