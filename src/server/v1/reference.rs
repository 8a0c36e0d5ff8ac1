//! `docs/API.md`, written from the tables of which the routes are made.

use std::fmt::Write as _;

use super::routes::{self, Wants};
use super::unsupported::UNSUPPORTED;
use crate::engine::limits::{Bounds, IDEMPOTENCY_KEY_BYTES_MAX, IDEMPOTENCY_MS};
use crate::server::limits::{AGENT_CARD_BYTES_MAX, AGENT_TOKENS_MAX, WORKSPACE_KEYS_MAX, WORKSPACES_MAX};

const HEAD: &str = "# The API

Written from the tables in `src/server/v1/`. The clients of Agent Relay speak it: `@agent-relay/sdk` does with
`baseUrl: \"http://127.0.0.1:7331\"` and nothing else. Messages that are posted here are read with any toolset, and its agents are
agents like any other.

Every answer is JSON: `{\"ok\": true, \"data\": …}`, or `{\"ok\": false, \"error\": {\"code\": …, \"message\": …}}`. A field or a query
parameter that is not listed is refused and named. A body has at most 8 MiB.

## Tokens

A token goes into the header `Authorization: Bearer TOKEN`. The key of a workspace begins with `rk_live_`, the token of an agent with
`at_live_`, that of a node with `nt_live_`, that of an observer with `ot_live_`. relay makes each of 32 random bytes and keeps its SHA-256 alone, in memory: after a restart none is good any more (401
`unauthorized`), and the client creates its workspace and registers its agents again.

- The key of a workspace is given to whoever can reach relay, each time a new one, also if the workspace is there: by
  `POST /v1/workspaces`, or by `relay key --workspace NAME`. relay is one user's on one machine, and each program that can reach it
  may speak for any agent anyway. A token says whom a request is about; it is no lock between one user's programs.
- A relay that is reached from other machines asks every request for its own token in `Authorization`, the API's too, and no token
  of the API is taken in its stead. There the API's token goes into the header `X-Api-Key`. The SDK of Agent Relay cannot send two, so it
  reaches such a relay over a tunnel to its machine or through a proxy that adds the header; relay's own sends both (`Client::with_token`).
- Tokens are in no log, no error and no list.
- 401 `unauthorized`: no token, or none that is good. 403 `workspace_key_required` or `agent_token_required`: one of the other kind.
  403 `workspace_mismatch`: the path names something of another workspace.

## Sending again

A message may carry an idempotency key in `Idempotency-Key`, `X-Idempotency-Key`, or in both the same. The same message of the same
agent with the same key adds nothing: it gets the answer of the first one, with the header `Idempotency-Replayed: true`. Another
message with that key is refused: 409 `idempotency_conflict`.

## How a message is to be brought

`mode` says when it is to be shown: `immediate` (or `wait`, as the SDK says it; the default), `next-tool-call` (or `steer`), `next-message`,
`on-idle`, or `manual`, which relay holds until its agent asks for it. `priority` is `normal` or `urgent`. `deadline` is a moment (RFC 3339) from which on
nobody is handed it any more; 400 `deadline_over` if it is over. What becomes of them: [DELIVERY.md](DELIVERY.md). `injection_mode` in answers is the
mode as the SDK says it. `attachments` may be empty, else 501.

";

/// Writes the reference.
pub fn reference() -> String {
    let mut text = HEAD.to_owned();
    write(&mut text).expect("memory takes it");
    text
}

fn write(text: &mut String) -> std::fmt::Result {
    write!(
        text,
        "## What there is\n\n| address | token | takes | answers | |\n|---|---|---|---|---|\n"
    )?;
    for route in routes::all() {
        let token = match route.wants {
            Wants::Nothing => "none",
            Wants::Workspace => "workspace",
            Wants::Agent => "agent",
            Wants::Either => "either",
            Wants::Any => "either, or observer",
            Wants::Node => "node",
            Wants::Observer => "observer, or workspace",
        };
        let (method, path) = (route.method, shown(route.path));
        let (takes, answers, note) = (route.takes, route.answers, route.note);
        writeln!(
            text,
            "| `{method} {path}` | {token} | {takes} | {answers} | {note} |"
        )?;
    }
    let hours = IDEMPOTENCY_MS / 3_600_000;
    let Bounds {
        idempotency_max: kept,
        trace_max: steps,
        trace_bytes_max,
        ..
    } = Bounds::default();
    let mib = trace_bytes_max / (1024 * 1024);
    write!(
        text,
        "\n## Bounds\n\n| what | bound |\n|---|---|\n\
         | workspaces made here | {WORKSPACES_MAX} |\n\
         | keys of a workspace | {WORKSPACE_KEYS_MAX}; of more, the one that was not used for the longest is forgotten |\n\
         | tokens of agents | one each, {AGENT_TOKENS_MAX} in all; of more, the one that was not used for the longest is forgotten |\n\
         | persona and metadata of an agent | {AGENT_CARD_BYTES_MAX} bytes |\n\
         | idempotency key | {IDEMPOTENCY_KEY_BYTES_MAX} bytes |\n\
         | messages whose keys are known | the latest {kept}, for {hours} hours |\n\
         | messages that can be gone back to | the latest: {steps} steps of all, some four for each message and agent, and {mib} MiB of text |\n"
    )?;
    text.push_str(&super::events::bounds());
    write!(
        text,
        "\n## What is not supported\n\nThese answer 501 `not_supported`, whatever they carry.\n\n| what | why | addresses |\n|---|---|---|\n"
    )?;
    for entry in UNSUPPORTED {
        let routes = entry.routes.iter();
        let routes: Vec<String> = routes
            .map(|(method, path)| format!("`{method} {}`", shown(path)))
            .collect();
        writeln!(text, "| {} | {} | {} |", entry.name, entry.why, routes.join(", "))?;
    }
    Ok(())
}

/// Writes a path as documents do: `/v1/agents/:name`.
fn shown(path: &str) -> String {
    path.replace("{*rest}", "…").replace('{', ":").replace('}', "")
}
