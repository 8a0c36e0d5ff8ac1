//! Each editor: its files, what an entry of relay's is in it, and its hooks.

use super::{
    ALLOWED, APPROVED, ASKED, Editor, Files, Format, Hooks, Id, Own, Place, Root, SHELL_AGENT, Transport,
    told, waited,
};
use crate::cli::install::json::Json;
use crate::cli::install::whole::{self, What};

/// How Claude Code and Gemini CLI write the variable that holds the token.
const SHELL_TOKEN: &str = "${RELAY_TOKEN:-}";

/// How Cursor and Windsurf write that.
const ENV_TOKEN: &str = "${env:RELAY_TOKEN}";

/// All of them.
pub static EDITORS: [Editor; 8] = [
    Editor {
        id: Id::Claude,
        name: "Claude Code",
        program: "claude",
        traces: &[Place(Root::Claude, ""), Place(Root::Project, ".claude")],
        transports: &[Transport::Sse, Transport::Http, Transport::Stdio],
        servers: Files {
            project: Some(&[Place(Root::Project, ".mcp.json")]),
            user: &[Place(Root::BesideClaude, ".claude.json")],
        },
        format: Format::Json("mcpServers"),
        entry: |connection| match connection.transport {
            Transport::Stdio => connection.command_of_type(),
            Transport::Sse | Transport::Http => {
                let url = Json::Text(connection.url(Some(SHELL_AGENT)));
                let entry = Json::object([("type", Json::text(connection.transport.name())), ("url", url)]);
                connection.with_token(entry, SHELL_TOKEN)
            }
        },
        hooks: Some(Hooks {
            files: Files {
                project: Some(&[Place(Root::Project, ".claude/settings.local.json")]),
                user: &[Place(Root::Claude, "settings.json")],
            },
            cli: "claude",
            events: &[
                waited("SessionStart"),
                waited("UserPromptSubmit"),
                told("PostToolUse"),
                told("PostToolUseFailure"),
                told("Notification"),
                waited("Stop"),
                told("SessionEnd"),
            ],
            listed_in_project: &[APPROVED, ALLOWED, ASKED],
            listed_for_user: &[ALLOWED, ASKED],
        }),
        own: Some(Own {
            what: What::Listener,
            files: Files {
                project: Some(&[Place(Root::Project, ".claude/agents/message-listener.md")]),
                user: &[Place(Root::Claude, "agents/message-listener.md")],
            },
            text: whole::LISTENER,
        }),
    },
    Editor {
        id: Id::Codex,
        name: "Codex",
        program: "codex",
        traces: &[Place(Root::Codex, "")],
        transports: &[Transport::Http, Transport::Stdio],
        servers: Files {
            project: None,
            user: &[Place(Root::Codex, "config.toml")],
        },
        format: Format::Toml("mcp_servers"),
        // Its sessions share one process, whose environment is the first one's: no variable names the agent.
        entry: |connection| match connection.transport {
            Transport::Stdio => connection.command(),
            Transport::Sse | Transport::Http => {
                let entry = Json::object([("url", Json::Text(connection.url(None)))]);
                connection.with_member(entry, "bearer_token_env_var", Json::text("RELAY_TOKEN"))
            }
        },
        hooks: Some(Hooks {
            files: Files {
                project: None,
                user: &[Place(Root::Codex, "hooks.json")],
            },
            cli: "codex",
            events: &[
                told("SessionStart"),
                told("UserPromptSubmit"),
                told("PostToolUse"),
                told("Stop"),
                told("SessionEnd"),
            ],
            listed_in_project: &[],
            listed_for_user: &[],
        }),
        own: None,
    },
    Editor {
        id: Id::Gemini,
        name: "Gemini CLI",
        program: "gemini",
        traces: &[Place(Root::Home, ".gemini"), Place(Root::Project, ".gemini")],
        transports: &[Transport::Http, Transport::Sse, Transport::Stdio],
        servers: GEMINI,
        format: Format::Json("mcpServers"),
        entry: |connection| match connection.transport {
            Transport::Stdio => connection.command(),
            Transport::Http => {
                let entry = Json::object([("httpUrl", Json::Text(connection.url(Some(SHELL_AGENT))))]);
                connection.with_token(entry, SHELL_TOKEN)
            }
            Transport::Sse => {
                let url = Json::Text(connection.url(Some(SHELL_AGENT)));
                let entry = Json::object([("url", url), ("type", Json::text("sse"))]);
                connection.with_token(entry, SHELL_TOKEN)
            }
        },
        hooks: Some(Hooks {
            files: GEMINI,
            cli: "gemini",
            events: &[
                told("SessionStart"),
                told("BeforeAgent"),
                told("AfterTool"),
                told("AfterAgent"),
                told("SessionEnd"),
            ],
            listed_in_project: &[],
            listed_for_user: &[],
        }),
        own: None,
    },
    Editor {
        id: Id::Opencode,
        name: "OpenCode",
        program: "opencode",
        traces: &[Place(Root::Config, "opencode"), Place(Root::Project, ".opencode")],
        transports: &[Transport::Http, Transport::Sse, Transport::Stdio],
        servers: Files {
            project: Some(&[
                Place(Root::Project, "opencode.json"),
                Place(Root::Project, "opencode.jsonc"),
            ]),
            user: &[
                Place(Root::Config, "opencode/opencode.json"),
                Place(Root::Config, "opencode/opencode.jsonc"),
            ],
        },
        format: Format::Json("mcp"),
        entry: |connection| match connection.transport {
            Transport::Stdio => {
                let program = std::iter::once(Json::text(&connection.program));
                let command = program.chain(connection.arguments()).collect();
                Json::object([("type", Json::text("local")), ("command", Json::List(command))])
            }
            Transport::Sse | Transport::Http => {
                let url = Json::Text(connection.url(Some("{env:RELAY_AGENT}")));
                let entry = Json::object([("type", Json::text("remote")), ("url", url)]);
                connection.with_token(entry, "{env:RELAY_TOKEN}")
            }
        },
        hooks: None,
        own: Some(Own {
            what: What::Plugin,
            files: Files {
                project: Some(&[
                    Place(Root::Project, ".opencode/plugin/relay.js"),
                    Place(Root::Project, ".opencode/plugins/relay.js"),
                ]),
                user: &[
                    Place(Root::Config, "opencode/plugin/relay.js"),
                    Place(Root::Config, "opencode/plugins/relay.js"),
                ],
            },
            text: whole::OPENCODE,
        }),
    },
    Editor {
        id: Id::Cursor,
        name: "Cursor",
        program: "cursor",
        traces: &[Place(Root::Home, ".cursor"), Place(Root::Project, ".cursor")],
        transports: &[Transport::Http, Transport::Sse, Transport::Stdio],
        servers: Files {
            project: Some(&[Place(Root::Project, ".cursor/mcp.json")]),
            user: &[Place(Root::Home, ".cursor/mcp.json")],
        },
        format: Format::Json("mcpServers"),
        entry: |connection| match connection.transport {
            Transport::Stdio => connection.command(),
            Transport::Sse | Transport::Http => {
                let entry = Json::object([("url", Json::Text(connection.url(None)))]);
                connection.with_token(entry, ENV_TOKEN)
            }
        },
        hooks: None,
        own: None,
    },
    Editor {
        id: Id::Vscode,
        name: "VS Code",
        program: "code",
        traces: &[Place(Root::Application, "Code"), Place(Root::Project, ".vscode")],
        transports: &[Transport::Http, Transport::Sse, Transport::Stdio],
        servers: Files {
            project: Some(&[Place(Root::Project, ".vscode/mcp.json")]),
            user: &[Place(Root::Application, "Code/User/mcp.json")],
        },
        format: Format::Json("servers"),
        entry: |connection| match connection.transport {
            Transport::Stdio => connection.command_of_type(),
            Transport::Sse | Transport::Http => Json::object([
                ("type", Json::text(connection.transport.name())),
                ("url", Json::Text(connection.url(None))),
            ]),
        },
        hooks: None,
        own: None,
    },
    Editor {
        id: Id::Windsurf,
        name: "Windsurf",
        program: "windsurf",
        traces: &[Place(Root::Home, ".codeium/windsurf")],
        transports: &[Transport::Http, Transport::Sse, Transport::Stdio],
        servers: Files {
            project: None,
            user: &[Place(Root::Home, ".codeium/windsurf/mcp_config.json")],
        },
        format: Format::Json("mcpServers"),
        entry: |connection| match connection.transport {
            Transport::Stdio => connection.command(),
            Transport::Sse | Transport::Http => {
                let entry = Json::object([("serverUrl", Json::Text(connection.url(None)))]);
                connection.with_token(entry, ENV_TOKEN)
            }
        },
        hooks: None,
        own: None,
    },
    Editor {
        id: Id::Zed,
        name: "Zed",
        program: "zed",
        traces: &[Place(Root::Config, "zed")],
        transports: &[Transport::Http, Transport::Stdio],
        servers: Files {
            project: None,
            user: &[Place(Root::Config, "zed/settings.json")],
        },
        format: Format::Json("context_servers"),
        entry: |connection| match connection.transport {
            Transport::Stdio => connection.command(),
            Transport::Sse | Transport::Http => Json::object([("url", Json::Text(connection.url(None)))]),
        },
        hooks: None,
        own: None,
    },
];

/// Gemini CLI has its servers and its hooks in one file.
const GEMINI: Files = Files {
    project: Some(&[Place(Root::Project, ".gemini/settings.json")]),
    user: &[Place(Root::Home, ".gemini/settings.json")],
};
