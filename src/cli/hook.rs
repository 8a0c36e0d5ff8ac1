//! `relay hook`: what the hooks of agent CLIs run. It carries an event to the relay and its answer back, and decides nothing.
//!
//! A program must not suffer from its hook: whatever fails, the exit code says that nothing is wrong. Where no relay answers, nothing
//! is said either.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::ValueEnum;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::client::{At, Client, ClientError};
use super::install::has_claude_hooks;
use super::messages::{check_stdout, write_stdout};
use super::project::Project;
use super::{End, Failure, block_on, say};
use crate::engine::DEFAULT_PROJECT;
use crate::server::hooks;

/// How long an event may take in all: its program waits for it. What comes later is not taken, and comes again.
const PATIENCE: Duration = Duration::from_secs(1);

/// How soon a waiter looks for its relay again, at first and in the end.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
const AGAIN_LAST: Duration = Duration::from_secs(2);

/// The same where it was refused: what it asks may become right by what its person does, and each event of the program starts another.
const AGAIN_REFUSED: Duration = Duration::from_secs(30);

/// How long a waiter that is started with its program does not stand by: it may have been given its first prompt, which is on its way then.
const SETTLES_AT_START: Duration = Duration::from_secs(2);

/// The same of one that is started when a turn begins: the hook beside it tells of that.
const SETTLES_AT_PROMPT: Duration = Duration::from_millis(500);

/// How often a waiter looks for the process that it waits for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a waiter waits for its answer: longer than any program runs.
const WAIT: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The exit code with which a waiter of Claude Code has it begin a turn: <https://code.claude.com/docs/en/hooks>
pub const WAKES: u8 = 2;

/// `relay hook`.
#[derive(Debug, clap::Args)]
pub struct Hook {
    /// Whose hook it is.
    program: Program,

    /// Stand by until the program is to begin a turn, in place of carrying an event.
    #[arg(value_enum)]
    mode: Option<Mode>,

    /// The agent that the program is.
    #[arg(
        long,
        value_name = "NAME",
        env = "RELAY_AGENT",
        default_value = "",
        hide_default_value = true
    )]
    agent: String,

    /// The project that the agent belongs to.
    #[arg(long, env = "RELAY_PROJECT", default_value = "", hide_default_value = true, value_parser = super::project::project)]
    project: Project,

    /// Do nothing where `relay install` has put hooks into the settings of Claude Code, which runs those of its plugins beside them.
    #[arg(long)]
    plugin: bool,

    /// How the agent is to be brought what its senders say nothing of; as it was, if it is left out.
    #[arg(
        long = "mode",
        id = "brings",
        value_name = "MODE",
        env = "RELAY_MODE",
        default_value = "",
        hide_default_value = true
    )]
    brings: String,

    #[command(flatten)]
    at: At,
}

/// The programs whose hooks relay knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Program {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
}

/// What a hook does beside carrying an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// It stands by.
    Wait,
}

/// Carries an event, or stands by.
pub fn run(args: &Hook) -> Result<End, Failure> {
    if args.plugin && has_claude_hooks() {
        return Ok(End::Done);
    }
    let process = args.program.process();
    match args.mode {
        None => {
            let started = Instant::now();
            match read_event() {
                Ok(event) => {
                    let starts = starts_session(&event);
                    let patience = PATIENCE.saturating_sub(started.elapsed());
                    let carried = carry(args, process.as_ref(), hooks::slimmed(event).into());
                    let carried = block_on(async { Ok::<_, Failure>(timeout(patience, carried).await) })?;
                    let done = carried.unwrap_or(Ok(()));
                    if let Err(error) = &done
                        && args.program == Program::Claude
                        && starts
                    {
                        tell_person(args, error);
                    }
                    tell(done);
                }
                Err(error) => say(&format!("relay hook: cannot read the event from stdin: {error}")),
            }
            Ok(End::Done)
        }
        Some(Mode::Wait) => match (args.program, process) {
            // Elsewhere nobody reads what a waiter says, and the program would not end before it.
            (Program::Claude, Some(process)) if is_interactive() => {
                let settles = read_event().map_or(Duration::ZERO, |event| settles(&event));
                block_on(async { Ok::<_, Failure>(stand_by(args, &process, settles).await) })
            }
            (Program::Claude | Program::Codex | Program::Gemini, _) => Ok(End::Done),
        },
    }
}

/// Reads the event that the program gives its hook. One that keeps stdin open is not waited for.
fn read_event() -> std::io::Result<Vec<u8>> {
    let (read, whole) = mpsc::channel();
    std::thread::spawn(move || {
        let mut event = Vec::new();
        let done = std::io::stdin().lock().read_to_end(&mut event);
        let _nobody_waits = read.send(done.map(|_| event));
    });
    whole.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let reason = format!(
            "it did not end within {} s; an agent CLI closes it behind its event",
            PATIENCE.as_secs()
        );
        Err(std::io::Error::new(std::io::ErrorKind::TimedOut, reason))
    })
}

/// Returns how long a waiter does not stand by, by the event that it was started at.
fn settles(event: &[u8]) -> Duration {
    #[derive(Deserialize)]
    struct Event {
        hook_event_name: String,
        source: Option<String>,
    }
    let Ok(event) = serde_json::from_slice::<Event>(event) else {
        return Duration::ZERO;
    };
    match (event.hook_event_name.as_str(), event.source.as_deref()) {
        ("SessionStart", Some("startup" | "resume")) => SETTLES_AT_START,
        ("UserPromptSubmit", _) => SETTLES_AT_PROMPT,
        (_, _) => Duration::ZERO,
    }
}

impl Program {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Returns what tells the process of the program from others of it; none if only its events do.
    fn process(self) -> Option<Process> {
        match self {
            Self::Claude => {
                let process = std::env::var_os("CLAUDE_PID")?.into_string().ok();
                process.filter(|process| !process.is_empty()).map(Process::of)
            }
            Self::Codex | Self::Gemini => None,
        }
    }
}

/// Tells whether a person sits before Claude Code: a run with `-p` does not end before its waiter, and is not woken by it.
fn is_interactive() -> bool {
    std::env::var_os("CLAUDE_CODE_ENTRYPOINT").is_some_and(|entrypoint| entrypoint == "cli")
}

/// Says why something was not done, if somebody could do something about it: not where no relay answers.
fn tell(done: Result<(), ClientError>) {
    if let Err(error) = done
        && !error.is_away()
    {
        say(&format!("relay hook: {error}"));
    }
}

/// Tells whether an event is that a session starts.
fn starts_session(event: &[u8]) -> bool {
    let event: Result<Value, _> = serde_json::from_slice(event);
    event.is_ok_and(|event| event["hook_event_name"] == "SessionStart")
}

/// Says the same to the person, who is not shown what a hook of Claude Code says on stderr when nothing is wrong.
fn tell_person(args: &Hook, error: &ClientError) {
    if error.is_away() {
        return;
    }
    let advice = if matches!(error, ClientError::Refused { .. }) && !args.agent.is_empty() {
        "; the session's agent is named by RELAY_AGENT, or by --agent in the hook's command, and its project by RELAY_PROJECT"
    } else {
        ""
    };
    let told = format!("relay shows this session no messages: {error}{advice}");
    // Where nobody takes it, nobody is told.
    let _ = write_stdout(&json!({"systemMessage": told}).to_string());
}

fn path(args: &Hook, what: &str, process: Option<&Process>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let Some(process) = process {
        query.append_pair("process", &process.name());
    }
    if !args.agent.is_empty() {
        query.append_pair("agent", &args.agent);
    }
    if args.project.as_str() != DEFAULT_PROJECT {
        query.append_pair("project", args.project.as_str());
    }
    if !args.brings.is_empty() {
        query.append_pair("mode", &args.brings);
    }
    format!("/hooks/{}{what}?{}", args.program.as_str(), query.finish())
}

/// Carries an event there and the answer back. What is in that has arrived once stdout has it.
async fn carry(args: &Hook, process: Option<&Process>, event: Bytes) -> Result<(), ClientError> {
    let is_seen = check_stdout().is_ok();
    let mut client = Client::find(&args.at).await?;
    let answer = client
        .post(&path(args, "", process), event, Duration::ZERO)
        .await?;
    let text = String::from_utf8_lossy(&answer);
    if text.is_empty() || (is_seen && write_stdout(&text).is_ok()) {
        client.done();
    }
    Ok(())
}

/// Stands by until there is something for the program, which is woken by what is said then; or the program has ended; or another
/// stands by for it.
async fn stand_by(args: &Hook, process: &Process, settles: Duration) -> End {
    let woken = async {
        sleep(settles).await;
        woken(args, process).await
    };
    tokio::select! {
        text = woken => match text {
            // It may have ended since it was last looked at, and nobody would read the text.
            Some((text, client)) if process.is_alive() => {
                use std::io::Write as _;
                if std::io::stderr().write_all(text.as_bytes()).is_err() {
                    return End::Done;
                }
                client.done();
                return End::Wakes;
            }
            Some((_, unread)) => drop(unread),
            None => return End::Done,
        },
        () = ended(args, process) => {}
    }
    let event = json!({"hook_event_name": "SessionEnd", "reason": "other"});
    tell(carry(args, Some(process), event.to_string().into()).await);
    End::Done
}

/// Asks for what the program is to be woken with, again whenever its relay is away. Nothing comes if another stands by for it, or the
/// relay does not know the program any more.
async fn woken(args: &Hook, process: &Process) -> Option<(String, Client)> {
    #[derive(Deserialize)]
    struct Woken {
        text: String,
    }
    let mut pause = AGAIN_FIRST;
    loop {
        if let Ok(mut client) = Client::find(&args.at).await {
            match client
                .post(&path(args, "/wait", Some(process)), Bytes::new(), WAIT)
                .await
            {
                Ok(answer) => {
                    let woken = serde_json::from_slice(&answer).ok();
                    return woken.map(|Woken { text }| (text, client));
                }
                // It has answered a moment ago, so it will soon.
                Err(ClientError::WentAway { .. }) => pause = AGAIN_FIRST,
                Err(error) if !error.is_away() => {
                    sleep(AGAIN_REFUSED).await;
                    continue;
                }
                Err(_) => {}
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(AGAIN_LAST);
    }
}

/// Waits for the end of the process. Meanwhile it tells the relay when the program has become idle without saying so, as after Esc.
async fn ended(args: &Hook, process: &Process) {
    let mut rounds = interval(LOOK_EVERY);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The turn that started it may be over before it looks: what is idle then is told of, whatever it was before. At the start the program
    // may not have written down yet that it is busy.
    let mut before = Status::default();
    rounds.tick().await;
    loop {
        rounds.tick().await;
        if !process.is_alive() {
            return;
        }
        let status = Status::of(&process.number);
        if status.is_idle() && status != before {
            let event = json!({"hook_event_name": "Notification", "notification_type": "idle_prompt"});
            let carried = carry(args, Some(process), event.to_string().into()).await;
            if carried.is_err() {
                continue;
            }
        }
        before = status;
    }
}

/// The process of a program.
struct Process {
    number: String,
    /// When it was started, as the system counts that: a number is used again. None where the system does not tell.
    since: Option<String>,
}

impl Process {
    fn of(number: String) -> Self {
        let since = Self::state(&number).map(|(_, since)| since);
        Self { number, since }
    }

    /// Names it so that no other has the name.
    fn name(&self) -> String {
        match &self.since {
            Some(since) => format!("{}-{since}", self.number),
            None => self.number.clone(),
        }
    }

    fn is_alive(&self) -> bool {
        if self.since.is_some() {
            let state = Self::state(&self.number);
            return state.is_some_and(|(state, since)| state != "Z" && Some(since) == self.since);
        }
        let pid = self.number.parse().ok().and_then(rustix::process::Pid::from_raw);
        pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }

    /// Returns its state and when it was started: <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>, fields 3 and 22.
    fn state(number: &str) -> Option<(String, String)> {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        let (_, behind_name) = stat.rsplit_once(')')?;
        let mut fields = behind_name.split_whitespace();
        let state = fields.next()?.to_owned();
        let since = fields.nth(18)?.to_owned();
        Some((state, since))
    }
}

/// What Claude Code writes down of itself, for nobody in particular: undocumented, so that nothing depends on it but how soon an
/// interrupted session is woken.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    status: Option<String>,
    /// When it has come to that: a turn may begin and end between two looks.
    status_updated_at: Option<Value>,
}

impl Status {
    fn of(process: &str) -> Self {
        let read = || {
            let home = std::env::var_os("CLAUDE_CONFIG_DIR").map(PathBuf::from);
            let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".claude")))?;
            let file = std::fs::read(home.join("sessions").join(format!("{process}.json"))).ok()?;
            serde_json::from_slice(&file).ok()
        };
        read().unwrap_or_default()
    }

    fn is_idle(&self) -> bool {
        self.status.as_deref() == Some("idle")
    }
}
