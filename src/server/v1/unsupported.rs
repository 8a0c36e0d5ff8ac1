//! What the API of Agent Relay has and relay does not, or not yet: one table, of which the answers and the documents are made.

/// Why something is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsupported {
    /// What it is.
    pub name: &'static str,
    pub why: &'static str,
    /// Methods and paths, as axum writes them.
    pub routes: &'static [(&'static str, &'static str)],
}

const HOSTED: &str = "it belongs to the hosted service; relay is a bus on one machine";
const STAYS: &str = "what is registered stays until relay stops";
const CHANNELS: &str =
    "who is in a channel has joined it by itself; each agent joins and leaves for itself alone";
const FILES: &str = "relay keeps no files; put what matters into the text, or name a path";

/// All of it.
pub(super) const UNSUPPORTED: &[Unsupported] = &[
    Unsupported {
        name: "the activity of a workspace",
        why: "GET /v1/workspace/events has what happened, in order",
        routes: &[("GET", "/v1/activity")],
    },
    Unsupported {
        name: "direct messages to several agents",
        why: "not yet: post to a channel, or to a role by POST /v1/dm",
        routes: &[
            ("POST", "/v1/dm/group"),
            ("POST", "/v1/dm/{id}/messages"),
            ("POST", "/v1/dm/{id}/participants"),
            ("DELETE", "/v1/dm/{id}/participants/{agent}"),
        ],
    },
    Unsupported {
        name: "to change or remove an agent",
        why: "an agent stays until relay stops, or until the person lets it go with relay retire NAME",
        routes: &[("PATCH", "/v1/agents/{name}"), ("DELETE", "/v1/agents/{name}")],
    },
    Unsupported {
        name: "to change or remove a node",
        why: "what is registered stays until relay stops; DELETE /v1/nodes/NAME/agents/AGENT takes an agent from it, and POST /v1/nodes with its name makes it anew",
        routes: &[("PATCH", "/v1/nodes/{name}"), ("DELETE", "/v1/nodes/{name}")],
    },
    Unsupported {
        name: "to change or remove a workspace",
        why: STAYS,
        routes: &[
            ("PATCH", "/v1/workspace"),
            ("DELETE", "/v1/workspace"),
            ("GET", "/v1/workspace/system-prompt"),
            ("PUT", "/v1/workspace/system-prompt"),
        ],
    },
    Unsupported {
        name: "to change a channel, or who else is in it",
        why: CHANNELS,
        routes: &[
            ("PATCH", "/v1/channels/{name}"),
            ("DELETE", "/v1/channels/{name}"),
            ("PATCH", "/v1/channels/{name}/topic"),
            ("POST", "/v1/channels/{name}/invite"),
            ("POST", "/v1/channels/{name}/mute"),
            ("POST", "/v1/channels/{name}/unmute"),
        ],
    },
    Unsupported {
        name: "the presence of agents",
        why: "GET /v1/agents says the same, as \"status\"",
        routes: &[("GET", "/v1/agents/presence")],
    },
    Unsupported {
        name: "to start and stop agents",
        why: "relay starts agents as workers of an agent or of the person: by relay_spawn and relay_release, relay spawn and relay release",
        routes: &[("POST", "/v1/agents/spawn"), ("POST", "/v1/agents/release")],
    },
    Unsupported {
        name: "files",
        why: FILES,
        routes: &[
            ("GET", "/v1/files"),
            ("POST", "/v1/files/upload"),
            ("GET", "/v1/files/{id}"),
            ("DELETE", "/v1/files/{id}"),
            ("POST", "/v1/files/{id}/complete"),
        ],
    },
    Unsupported {
        name: "web hooks, subscriptions and triggers",
        why: "not yet: what comes for an agent is pushed by a node of kind http_push",
        routes: &[
            ("GET", "/v1/webhooks"),
            ("POST", "/v1/webhooks"),
            ("DELETE", "/v1/webhooks/{id}"),
            ("POST", "/v1/hooks/{id}"),
            ("GET", "/v1/subscriptions"),
            ("POST", "/v1/subscriptions"),
            ("GET", "/v1/subscriptions/{id}"),
            ("DELETE", "/v1/subscriptions/{id}"),
            ("GET", "/v1/triggers"),
            ("POST", "/v1/triggers"),
            ("GET", "/v1/triggers/{id}"),
            ("PATCH", "/v1/triggers/{id}"),
            ("DELETE", "/v1/triggers/{id}"),
        ],
    },
    Unsupported {
        name: "the directory, routing, certification and the console",
        why: HOSTED,
        routes: &[
            ("GET", "/v1/directory/{*rest}"),
            ("POST", "/v1/directory/{*rest}"),
            ("PATCH", "/v1/directory/{*rest}"),
            ("DELETE", "/v1/directory/{*rest}"),
            ("POST", "/v1/route"),
            ("POST", "/v1/route/feedback"),
            ("GET", "/v1/routing/config"),
            ("PUT", "/v1/routing/config"),
            ("GET", "/v1/skills/search"),
            ("POST", "/v1/skills/sync"),
            ("GET", "/v1/certify/{*rest}"),
            ("POST", "/v1/certify"),
            ("POST", "/v1/certify/monitor"),
            ("GET", "/v1/console/{*rest}"),
            ("GET", "/v1/a2a/agents"),
            ("POST", "/v1/a2a/register"),
            ("GET", "/v1/a2a/agents/{name}/card"),
            ("DELETE", "/v1/a2a/agents/{name}"),
        ],
    },
];
