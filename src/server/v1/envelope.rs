//! What every answer of the API is wrapped in: `{"ok": true, "data": …}`, or `{"ok": false, "error": {"code": …, "message": …}}`.

use axum::http::header::{ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::{Class, Refusal, actions, agents, groups, mail, nodes, receipts, records};
use crate::server::status_of;
use crate::tools;

/// Says that a request was sent before, and that this is the answer of that time.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What a request comes to.
pub(super) type Answer = Result<Data, Failure>;

/// What was asked for.
#[derive(Debug)]
pub(super) struct Data {
    status: StatusCode,
    /// The whole answer, written.
    body: String,
    replayed: bool,
}

/// The answer around it.
#[derive(Serialize)]
struct Whole<'a, T> {
    ok: bool,
    data: &'a T,
}

impl Data {
    /// What there is.
    pub fn ok(json: Value) -> Self {
        Self::written(StatusCode::OK, &json)
    }

    /// Nothing, since there is nothing to say.
    pub fn nothing() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            body: String::new(),
            replayed: false,
        }
    }

    /// What was made.
    pub fn created(json: Value) -> Self {
        Self::written(StatusCode::CREATED, &json)
    }

    /// The same, or what the same request has made before.
    pub fn created_once(data: &impl Serialize, replayed: bool) -> Self {
        Self {
            replayed,
            ..Self::written(StatusCode::CREATED, data)
        }
    }

    fn written(status: StatusCode, data: &impl Serialize) -> Self {
        let whole = Whole { ok: true, data };
        Self {
            status,
            body: serde_json::to_string(&whole).expect("it is plain data"),
            replayed: false,
        }
    }
}

impl IntoResponse for Data {
    fn into_response(self) -> Response {
        if self.status == StatusCode::NO_CONTENT {
            return self.status.into_response();
        }
        let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut response = (self.status, json, self.body).into_response();
        if self.replayed {
            let headers = response.headers_mut();
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

/// Why nothing was done.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    code: &'static str,
    message: String,
    allow: Option<String>,
}

impl Failure {
    /// With a status, a word for programs, and a message for people.
    pub fn new(status: StatusCode, code: &'static str, message: impl std::fmt::Display) -> Self {
        Self {
            status,
            code,
            message: message.to_string(),
            allow: None,
        }
    }

    /// The request itself is wrong.
    pub fn invalid(message: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// Tells whether that is the word for it.
    pub fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// The same, with another word.
    pub fn renamed(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// It is of another method.
    pub fn method(message: impl std::fmt::Display, allow: String) -> Self {
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
        }
    }

    /// The same for the person's commands, whose errors have one member.
    pub fn in_persons_words(self) -> Response {
        (self.status, axum::Json(json!({"error": self.message}))).into_response()
    }

    /// relay does not do that.
    pub fn not_supported(what: &str, why: &str) -> Self {
        let message = format!("{what} is not supported by relay: {why}");
        Self::new(StatusCode::NOT_IMPLEMENTED, "not_supported", message)
    }
}

/// What nodes are refused.
impl From<nodes::Refusal> for Failure {
    fn from(refusal: nodes::Refusal) -> Self {
        Refusal::from(refusal).into()
    }
}

/// The engine's refusals.
impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let code = code_of(&refusal);
        let status = match refusal.class() {
            Class::Unknown => StatusCode::NOT_FOUND,
            Class::Bad if code == "action_denied" => StatusCode::FORBIDDEN,
            class @ (Class::Bad | Class::Fenced | Class::Full | Class::Unsupported | Class::Conflict) => {
                status_of(class)
            }
        };
        Self::new(status, code, tools::DEFAULT.refused(&refusal))
    }
}

fn code_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Agents(refusal) => match refusal {
            agents::Refusal::Unknown { .. }
            | agents::Refusal::UnknownAddress { .. }
            | agents::Refusal::UnknownProject { .. } => "agent_not_found",
            agents::Refusal::Nobody { .. } => "no_recipient",
            agents::Refusal::Exists { .. } => "agent_already_exists",
            agents::Refusal::InUse { .. } => "agent_in_use",
            agents::Refusal::Fenced { .. } => "agent_taken_over",
            agents::Refusal::InvalidName(_) | agents::Refusal::Person { .. } => "invalid_name",
            agents::Refusal::InvalidAddress(_) => "invalid_recipient",
            agents::Refusal::NobodysMode
            | agents::Refusal::NotThePerson
            | agents::Refusal::NotYou { .. }
            | agents::Refusal::Anonymous { .. }
            | agents::Refusal::InvalidProfile { .. } => "invalid_request",
            agents::Refusal::TooManyAgents { .. } => "too_many_agents",
            agents::Refusal::TooManyProjects { .. } => "too_many_workspaces",
        },
        Refusal::Mail(refusal) => match refusal {
            mail::Refusal::CannotBring { .. } => "mode_not_supported",
            mail::Refusal::BodyTooLong { .. } => "message_too_long",
            mail::Refusal::InboxFull { .. } => "inbox_full",
            mail::Refusal::UnknownMessage { .. }
            | mail::Refusal::AmbiguousMessage { .. }
            | mail::Refusal::NotRemembered { .. } => "message_not_found",
            mail::Refusal::InvalidKey { .. } => "invalid_idempotency_key",
            mail::Refusal::OtherContent { .. } => "idempotency_conflict",
            mail::Refusal::TooManyHops { .. } => "too_many_turns",
            mail::Refusal::InvalidThread { .. } => "invalid_request",
            mail::Refusal::DeadlineOver { .. } => "deadline_over",
            mail::Refusal::NoAnswer { .. }
            | mail::Refusal::AlreadyWaits { .. }
            | mail::Refusal::TooManyWaits { .. } => "too_many_waits",
        },
        Refusal::Groups(refusal) => match refusal {
            groups::Refusal::UnknownChannel { .. } => "channel_not_found",
            groups::Refusal::ChannelExists { .. } => "channel_already_exists",
            groups::Refusal::NotInChannel { .. } => "not_a_member",
            groups::Refusal::ChannelOfAll { .. } => "channel_of_all",
            groups::Refusal::TooManyChannels { .. } => "too_many_channels",
            groups::Refusal::DescriptionTooLong { .. } => "topic_too_long",
            groups::Refusal::UnknownGroup { .. }
            | groups::Refusal::Exists { .. }
            | groups::Refusal::Protected
            | groups::Refusal::OnlyThePerson
            | groups::Refusal::NobodyIn { .. }
            | groups::Refusal::NoMember { .. }
            | groups::Refusal::TooManyGroups { .. }
            | groups::Refusal::TooManyMembers { .. } => "invalid_request",
        },
        Refusal::Nodes(refusal) => crate::server::nodes::code_of(refusal),
        Refusal::Actions(refusal) => match refusal {
            actions::Refusal::Unknown { .. } => "action_not_found",
            actions::Refusal::UnknownInvocation { .. } => "invocation_not_found",
            actions::Refusal::Taken { .. } => "action_already_exists",
            actions::Refusal::Denied { .. } => "action_denied",
            actions::Refusal::Away { .. } => "node_offline",
            actions::Refusal::TooMany { .. } => "too_many_actions",
            actions::Refusal::TooManyOpen { .. } => "too_many_invocations",
            actions::Refusal::NotYours
            | actions::Refusal::InvalidName { .. }
            | actions::Refusal::TooLong { .. }
            | actions::Refusal::NeverAnswers { .. }
            | actions::Refusal::TooManyNames { .. } => "invalid_request",
        },
        Refusal::Receipts(refusal) => match refusal {
            receipts::Refusal::Unknown { .. } => "delivery_not_found",
            receipts::Refusal::InReply { .. } => "delivery_conflict",
            receipts::Refusal::ReasonTooLong { .. }
            | receipts::Refusal::MetadataTooLong { .. }
            | receipts::Refusal::DeferredForTooLong { .. } => "invalid_request",
        },
        Refusal::Trace(_) => "message_not_found",
        Refusal::Holds(_) => "invalid_request",
        Refusal::Records(refusal) => match refusal {
            records::Refusal::Unknown { .. } => "message_not_found",
            records::Refusal::TooManyReactions { .. } => "too_many_reactions",
            records::Refusal::OnlyThePerson | records::Refusal::InvalidEmoji { .. } => "invalid_request",
        },
        Refusal::Sessions(_) => "too_many_sessions",
        Refusal::Surfacing(_) => "not_a_program",
        Refusal::Workers(_) => "invalid_request",
        Refusal::Stopping => "stopping",
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let error = json!({"code": self.code, "message": self.message});
        let body = axum::Json(json!({"ok": false, "error": error}));
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(
                WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"relay\""),
            );
        }
        if let Some(allow) = self.allow.and_then(|allow| allow.parse().ok()) {
            headers.insert(ALLOW, allow);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::agents::Use;
    use crate::engine::handling::Mode;
    use crate::engine::{AgentName, Recipient, sessions, surfacing};

    #[test]
    fn a_refusal_has_a_word_that_programs_know_it_by() {
        let agent = || AgentName::in_project("web", "a").expect("a name");
        let given = || "x".to_owned();
        let agents = [
            (
                agents::Refusal::Nobody {
                    to: Recipient::agent(&agent()),
                },
                "no_recipient",
            ),
            (
                agents::Refusal::InUse {
                    agent: agent(),
                    by: Use::Wait,
                },
                "agent_in_use",
            ),
            (agents::Refusal::Fenced { agent: agent() }, "agent_taken_over"),
            (agents::Refusal::NotThePerson, "invalid_request"),
            (agents::Refusal::TooManyAgents { agents: 1 }, "too_many_agents"),
            (
                agents::Refusal::TooManyProjects { projects: 1 },
                "too_many_workspaces",
            ),
        ]
        .map(|(refusal, code)| (Refusal::Agents(refusal), code));
        let mails = [
            (
                mail::Refusal::CannotBring {
                    agent: agent(),
                    mode: Mode::OnIdle,
                },
                "mode_not_supported",
            ),
            (
                mail::Refusal::InboxFull {
                    agent: agent(),
                    messages: 1,
                    bytes: 1,
                    messages_max: 1,
                    bytes_max: 1,
                },
                "inbox_full",
            ),
            (
                mail::Refusal::InvalidKey { given: given() },
                "invalid_idempotency_key",
            ),
            (
                mail::Refusal::TooManyHops {
                    hops_max: 1,
                    thread: given(),
                },
                "too_many_turns",
            ),
            (mail::Refusal::InvalidThread { given: given() }, "invalid_request"),
            (mail::Refusal::TooManyWaits { waits: 1 }, "too_many_waits"),
        ]
        .map(|(refusal, code)| (Refusal::Mail(refusal), code));
        let actions = [
            (
                actions::Refusal::Away {
                    action: given(),
                    node: given(),
                },
                "node_offline",
            ),
            (actions::Refusal::TooMany { actions: 1 }, "too_many_actions"),
            (actions::Refusal::TooManyOpen { open: 1 }, "too_many_invocations"),
        ]
        .map(|(refusal, code)| (Refusal::Actions(refusal), code));
        let others = [
            (
                Refusal::Groups(groups::Refusal::TooManyChannels { channels: 1 }),
                "too_many_channels",
            ),
            (
                Refusal::Receipts(receipts::Refusal::InReply { given: given() }),
                "delivery_conflict",
            ),
            (
                Refusal::Records(records::Refusal::TooManyReactions { reactions: 1 }),
                "too_many_reactions",
            ),
            (
                Refusal::Sessions(sessions::Refusal::TooMany { sessions: 1 }),
                "too_many_sessions",
            ),
            (Refusal::Surfacing(surfacing::Refusal::NoProgram), "not_a_program"),
            (Refusal::Stopping, "stopping"),
        ];
        let all = agents.into_iter().chain(mails).chain(actions).chain(others);
        for (refusal, code) in all {
            assert_eq!(code_of(&refusal), code, "{refusal:?}");
        }
    }
}
