//! The hooks of agent CLIs: what a program has come to goes in, what it is to show its model comes out.
//!
//! `POST /hooks/PROGRAM` takes the JSON that the program gives its hook, and answers with the JSON that it takes from it, or with
//! nothing. `POST /hooks/PROGRAM/wait` is answered when the program is to begin a turn. `process` in the query tells one program from
//! another, `agent` whose it is, if that is known, `project` from where its model names agents, `mode` how its agent has what its senders say
//! nothing of, `socket` its messaging socket, and `cli` with `namespace` its process.

mod clis;
mod doors;
mod events;
mod messaging;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use self::clis::Cli;
pub(super) use self::clis::Clis;
use self::doors::Door;
pub(super) use self::doors::Doors;
use self::events::{Event, Heard};
use super::accept::json_body;
use super::dispatch::ResponseBody;
use super::http::collect;
use super::json_id::BYTE_ORDER_MARK;
use super::owner::{Answered, Outcome, ProgramKey};
use super::wire::Link;
use super::{Shared, refuse, refuse_as};
use crate::engine::handling::Mode;
use crate::engine::surfacing::{Command, Reply, Shown};
use crate::engine::{self, DEFAULT_PROJECT, Ending, HandoverId, SessionId, Who, shown};
use crate::json_halves::readable;
use crate::tools::{self, frame};

pub use events::{Program, slimmed};
pub use messaging::Messaging;

/// Longest name of a process, in bytes: several times a UUID.
const PROCESS_BYTES_MAX: usize = 128;

/// Whose hook it is.
struct Asked {
    program: Program,
    /// Which program of that kind; what its events say of that, if it is left out.
    process: Option<String>,
    agent: Option<String>,
    project: Option<String>,
    /// Its messaging socket.
    door: Option<Door>,
    /// Its process.
    cli: Option<Cli>,
    /// How its agent is to be brought what its senders say nothing of.
    mode: Option<Mode>,
}

impl Asked {
    fn by(program: &str, uri: &Uri) -> Result<Self, String> {
        let program = Program::parse(program).ok_or_else(|| {
            let known = Program::ALL.map(Program::as_str).join(", ");
            format!("unknown program {:?}; known programs: {known}", shown(program))
        })?;
        let (mut process, mut agent, mut project, mut mode, mut socket) = (None, None, None, None, None);
        let (mut cli, mut namespace) = (None, None);
        for (key, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            let known = match &*key {
                "process" => &mut process,
                "agent" => &mut agent,
                "project" => &mut project,
                "mode" => &mut mode,
                "socket" => &mut socket,
                "cli" => &mut cli,
                "namespace" => &mut namespace,
                _ => {
                    let key = shown(&key);
                    return Err(format!(
                        "unknown query parameter {key:?}; accepted: process, agent, project, mode, socket, cli, namespace"
                    ));
                }
            };
            // An empty one counts as left out.
            *known = Some(value.into_owned()).filter(|value| !value.is_empty());
        }
        Ok(Self {
            program,
            process,
            agent,
            project,
            mode: mode.as_deref().map(Mode::named).transpose()?,
            cli: Cli::named(cli, namespace)?,
            door: socket.map(|socket| Door::named(program, &socket)).transpose()?,
        })
    }

    /// Finds the program's session, or opens it.
    fn session(&self, shared: &Shared, process: &str) -> Result<SessionId, Box<Response>> {
        if process.is_empty() || process.len() > PROCESS_BYTES_MAX {
            let process = shown(process);
            let reason = format!("process is {process:?}; accepted: 1 to {PROCESS_BYTES_MAX} bytes");
            return Err(Box::new(refuse(StatusCode::BAD_REQUEST, reason)));
        }
        // As it is meant here, so that hooks which name it otherwise are of one session.
        let project = self.project.as_deref();
        let project = project.map_or(DEFAULT_PROJECT, |project| shared.home.meant(project));
        let agent = self.agent.as_deref().map(|agent| match project {
            DEFAULT_PROJECT => agent.to_owned(),
            project => format!("{project}:{agent}"),
        });
        let who = Who::Program {
            agent,
            is_certain: self.program.knows_its_agent(),
            project: project.to_owned(),
            mode: self.mode,
            abilities: self.program.abilities(),
        };
        let opened = shared.owner.program(self.key(process), who);
        opened.map_err(|refusal| Box::new(refuse_as(tools::DEFAULT, &refusal)))
    }

    fn key(&self, process: &str) -> ProgramKey {
        ProgramKey {
            program: self.program.as_str(),
            process: process.into(),
        }
    }
}

/// `POST /hooks/:program`.
pub(super) async fn event(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    Path(program): Path<String>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let body = match collect(body).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    let asked = match Asked::by(&program, &parts.uri) {
        Ok(asked) => asked,
        Err(reason) => return refuse(StatusCode::BAD_REQUEST, reason),
    };
    if let Err(reason) = json_body(&parts.headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason);
    }
    let said = String::from_utf8_lossy(body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&body));
    let said = readable(&said);
    let event: Event<'_> = match serde_json::from_str(&said) {
        Ok(event) => event,
        Err(error) => {
            let reason = format!("an event of a hook is a JSON object with \"hook_event_name\": {error}");
            return refuse(StatusCode::BAD_REQUEST, reason);
        }
    };
    let Some(process) = asked.process.as_deref().or(event.session_id()) else {
        let reason = "nothing says which program it is; accepted: \"session_id\" in the event, or ?process=";
        return refuse(StatusCode::BAD_REQUEST, reason);
    };
    let command = match event.heard(asked.program, asked.process.is_some(), |mark| shared.wake(mark)) {
        Heard::Nothing => return StatusCode::NO_CONTENT.into_response(),
        Heard::Gone => {
            let key = asked.key(process);
            shared.doors.closes(&key);
            if let Some(session) = shared.owner.known_program(&key) {
                shared.owner.close(session, Ending::Orderly);
            }
            return StatusCode::NO_CONTENT.into_response();
        }
        Heard::Came(command) => command,
    };
    let session = match asked.session(&shared, process) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let key = asked.key(process);
    clis::watch(&shared, &key, asked.cli.as_ref());
    match (event.holds_what_others_say(), &asked.door) {
        (Some(false), Some(door)) => doors::opens(&shared, &key, door),
        (Some(_), _) => shared.doors.closes(&key),
        // It says nothing of that.
        (None, _) => {}
    }
    let _rests = shared.doors.rests_behind(&key);
    answer(&shared, &link, session, command, |shown, _| {
        asked.program.answer(event.name(), &frame::framed(shown, None))
    })
    .await
}

/// `POST /hooks/:program/wait`: `{"text": …}`, or nothing if another waits in its place.
pub(super) async fn wait(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    Path(program): Path<String>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(response) = collect(body).await {
        return *response;
    }
    let asked = match Asked::by(&program, &parts.uri) {
        Ok(asked) => asked,
        Err(reason) => return refuse(StatusCode::BAD_REQUEST, reason),
    };
    let session = match asked.session(&shared, asked.process.as_deref().unwrap_or_default()) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let key = asked.key(asked.process.as_deref().unwrap_or_default());
    // A waiter that has left its agent CLI's processes cannot tell which it is; its hooks have.
    if asked.cli.is_some() {
        clis::watch(&shared, &key, asked.cli.as_ref());
    }
    let _rests = shared.doors.rests_behind(&key);
    answer(&shared, &link, session, Command::StandsBy, |shown, handover| {
        let mark = handover.map(|handover| shared.mark(handover));
        json!({"text": frame::framed(shown, mark.as_deref())})
    })
    .await
}

/// Carries a command out, and answers with what is to be shown.
async fn answer(
    shared: &Arc<Shared>,
    link: &Link,
    session: SessionId,
    command: Command,
    write: impl FnOnce(&Shown, Option<HandoverId>) -> serde_json::Value,
) -> Response {
    let stands_by = command == Command::StandsBy;
    let answered = match shared.owner.call(session, command.into(), None) {
        Some(Outcome::Answered(answered)) => Some(answered),
        Some(Outcome::Parked(mut parked)) => parked.answered().await,
        None => None,
    };
    let Some(Answered { answer, receipt }) = answered else {
        // Whoever stands by would open the session of a program anew that is gone.
        if stands_by {
            return StatusCode::NO_CONTENT.into_response();
        }
        let reason =
            "the session of the program has ended meanwhile; it is opened anew when it is asked for again";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, reason);
    };
    match answer {
        Err(refusal) => refuse_as(tools::DEFAULT, &refusal),
        Ok(engine::Reply::Surfacing(Reply::Shown(shown))) => {
            let handover = receipt.as_ref().map(|receipt| receipt.handover());
            if let Some(handover) = handover {
                link.shows(handover);
            }
            let json = write(&shown, handover).to_string();
            ResponseBody::json(json.into(), receipt, link, HeaderMap::new()).map(Body::new)
        }
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
    }
}

impl Shared {
    /// Names a wake so that no other life of the relay has one of that name.
    fn mark(&self, handover: HandoverId) -> String {
        format!("{}-{}", self.boot.simple(), handover.0)
    }

    /// Finds the wake of a name.
    fn wake(&self, mark: &str) -> Option<HandoverId> {
        let (boot, handover) = mark.split_once('-')?;
        let is_own = boot == self.boot.simple().to_string();
        handover.parse().ok().filter(|_| is_own).map(HandoverId)
    }
}
