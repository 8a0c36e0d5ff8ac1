//! Agents: they carry out their steps, and note what came of them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use relay::engine::Kind;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::client::{Answer, Ask, Losses, PATIENCE, Pipe, Session, Settings, Told, now_ms};
use crate::history::{Asked, Belongs, Filter, Incarnation, Outcome, Record, Seen, TOLD};
use crate::memory::Memory;
use crate::plan::projects::{project_of, whole};
use crate::plan::{Action, AgentPlan, Call, Dialect, Illegal, Params, Transport};
use crate::stdio::is_trouble;
use crate::tap::Bug;
use crate::team;

/// Names the role of a number.
pub fn role(number: usize) -> String {
    format!("role-{number}")
}

/// One agent at work.
pub struct Agent {
    number: usize,
    plan: AgentPlan,
    params: Params,
    settings: Settings,
    /// Numbers the bodies of the whole run.
    serial: Rc<Cell<u64>>,
    /// How far it is; a machine that comes back goes on from there.
    next_step: Cell<usize>,
    memory: Memory,
}

impl Agent {
    /// Makes an agent that has done nothing yet. `settings` is bound as the plan says.
    pub fn new(
        number: usize,
        plan: AgentPlan,
        params: Params,
        settings: Settings,
        serial: Rc<Cell<u64>>,
    ) -> Self {
        let own = match plan.mate {
            Some(mate) => mate.name(),
            None => role(plan.role),
        };
        let bound_to = plan.bound.then(|| own.clone());
        let settings = Settings {
            bound_to,
            mate: plan.mate,
            transport: plan.transport,
            dialect: plan.dialect,
            ..settings
        };
        Self {
            number,
            plan,
            params,
            settings,
            serial,
            next_step: Cell::new(0),
            memory: Memory::default(),
        }
    }

    /// Carries out all steps.
    pub async fn run(&self) {
        let starts_ms = self.plan.mate.map_or(0, |mate| mate.starts_ms);
        sleep(Duration::from_millis(starts_ms.saturating_sub(now_ms()))).await;
        let mut session = self.open().await;
        let mut last_id = None;
        while let Some(step) = self.plan.steps.get(self.next_step.get()) {
            self.next_step.set(self.next_step.get() + 1);
            sleep(Duration::from_millis(step.pause_ms)).await;
            self.memory.begin(step.after);
            let known = self.act(&session, &step.action, &mut last_id).await;
            if !known {
                // What an agent does not know of is another agent's life.
                session = self.open().await;
                last_id = None;
            }
        }
        session.leave();
    }

    /// Opens a session and says what its protocol has an agent say first; goes on whatever comes of it.
    async fn open(&self) -> Session {
        let session = Session::open(self.settings.clone());
        let version = self.plan.dialect.version();
        let name = if self.cancels_what_it_has() {
            "opencode"
        } else {
            "sim"
        };
        let client = json!({"name": name, "version": "0"});
        let greeting = match self.plan.dialect {
            Dialect::Bare => return session,
            Dialect::Greeting(_) => {
                let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
                Some(("initialize", params))
            }
            Dialect::Modern => self.plan.lists.then(|| ("server/discover", json!({}))),
        };
        if let Some((method, params)) = greeting {
            self.ask_first(&session, Asked::Greeting(version), method, params)
                .await;
        }
        if let Dialect::Greeting(_) = self.plan.dialect {
            session.notify("notifications/initialized", &json!({})).await;
        }
        if self.plan.lists {
            self.ask_first(&session, Asked::Tools, "tools/list", json!({}))
                .await;
        }
        session
    }

    /// Tells whether it is one that cancels each call a moment after it has taken the answer, as OpenCode does.
    fn cancels_what_it_has(&self) -> bool {
        let greets = matches!(self.plan.dialect, Dialect::Greeting(_));
        self.number % 3 == 2 && self.plan.transport == Transport::Http && greets
    }

    async fn ask_first(&self, session: &Session, asked: Asked, method: &'static str, params: Value) {
        let ask = Ask {
            id: session.next_id(),
            method,
            params,
            patience: PATIENCE,
            told: None,
            losses: Losses::default(),
        };
        let mut noted = Noted::new(self, asked);
        let (incarnation, mut answer) = session.ask(&ask).await;
        if let (Some(Bug::ToolHidden), Ok(answer)) = (self.settings.bug, &mut answer)
            && let Some(tools) = answer["result"]["tools"].as_array_mut()
        {
            tools.pop();
        }
        noted.went_over(session, incarnation);
        noted.understand(&answer, session.has_id());
    }

    /// Carries out one step; returns whether its session goes on.
    async fn act(&self, session: &Session, action: &Action, last_id: &mut Option<u64>) -> bool {
        match action {
            Action::Call(call) => {
                let id = session.next_id();
                let known = self.call(session, id, call).await;
                *last_id = known.then_some(id);
                known
            }
            Action::Again(call) => {
                let id = last_id.unwrap_or_else(|| session.next_id());
                self.call(session, id, call).await
            }
            Action::Both(one, other) => {
                self.settings.marks.hit("two calls at once");
                let (one, other) = tokio::join!(
                    self.call(session, session.next_id(), one),
                    self.call(session, session.next_id(), other),
                );
                one && other
            }
            Action::Abandon(call, after_ms) => {
                let stdio = self.plan.transport == Transport::Stdio;
                if stdio && after_ms % 2 == 1 {
                    // It dies with the answer unread, if there is one by then.
                    session.stall(2 * after_ms);
                }
                let after_ms = if stdio { 2 * after_ms } else { *after_ms };
                let give_up = sleep(Duration::from_millis(after_ms));
                self.call_until(session, session.next_id(), call, give_up).await
            }
            Action::Cancel(call, after_ms) => {
                let id = session.next_id();
                if !session.can_cancel() {
                    let give_up = sleep(Duration::from_millis(*after_ms));
                    return self.call_until(session, id, call, give_up).await;
                }
                self.cancel(session, id, call, *after_ms).await
            }
            Action::Reconnect => {
                session.reconnect();
                true
            }
            Action::Stall(call, ms) => {
                session.stall(*ms);
                self.call(session, session.next_id(), call).await
            }
            Action::Pipeline(one, other) => self.pipeline(session, [one, other], None).await,
            Action::PipelineAndDie(one, other, after_ms) => {
                self.pipeline(session, [one, other], Some(*after_ms)).await
            }
        }
    }

    async fn call(&self, session: &Session, id: u64, call: &Call) -> bool {
        self.call_until(session, id, call, std::future::pending()).await
    }

    /// Makes a call and notes what came of it; gives it up when `give_up` is over.
    async fn call_until(
        &self,
        session: &Session,
        id: u64,
        call: &Call,
        give_up: impl Future<Output = ()>,
    ) -> bool {
        let (mut noted, ask) = self.prepare(id, call);
        let (incarnation, answer) = tokio::select! {
            biased;
            answered = session.ask(&ask) => answered,
            () = give_up => (None, Err("given up")),
        };
        noted.went_over(session, incarnation);
        let goes_on = noted.understand(&answer, false);
        drop(noted);
        if answer.is_ok() && self.cancels_what_it_has() {
            let cancelled = session.cancel(id).await;
            self.settings
                .marks
                .hit_if(cancelled, "cancelled over HTTP: what it has");
        }
        goes_on
    }

    /// Makes a call and cancels it after a while; notes when the server has taken note of that. Over stdio an answer that was
    /// read before is sometimes cancelled too.
    async fn cancel(&self, session: &Session, id: u64, call: &Call, after_ms: u64) -> bool {
        let (mut noted, ask) = self.prepare(id, call);
        let calling = session.ask(&ask);
        tokio::pin!(calling);
        let answered = tokio::select! {
            biased;
            answered = &mut calling => Some(answered),
            () = sleep(Duration::from_millis(after_ms)) => None,
        };
        let stdio = self.plan.transport == Transport::Stdio;
        let throws_away = stdio && after_ms % 2 == 1;
        if let Some((incarnation, answer)) = answered.filter(|(_, answer)| answer.is_err() || !throws_away) {
            noted.went_over(session, incarnation);
            return noted.understand(&answer, false);
        }
        // From here on the answer is thrown away, also when the machine is gone before relay has taken note.
        noted.record.outcome = Outcome::Unknown("cancelled");
        let cancelled = session.cancel(id).await;
        noted.record.cancelled_ms = cancelled.then(now_ms);
        if cancelled && self.plan.transport != Transport::Sse {
            // The exchange ends all the same, with or without an answer. Only then its connection can be used again; and
            // it says nothing before the server knows that what came over it is thrown away.
            let (_, answer) = calling.await;
            self.settings.marks.hit(match answer {
                Err("taken back") => "cancelled over HTTP: no answer",
                Err("its stream ended") => "cancelled over HTTP: the end of its stream",
                Ok(_) => "cancelled over HTTP: crossed with the answer",
                Err(_) => "cancelled over HTTP: the connection broke",
            });
        }
        cancelled || stdio
    }

    /// Writes two requests at once, and reads what comes, or is gone after a while without having done so.
    async fn pipeline(&self, session: &Session, calls: [&Call; 2], die_ms: Option<u64>) -> bool {
        let [one, other] = calls.map(|call| self.prepare(session.next_id(), call));
        let (notes, asks) = ([one.0, other.0], [one.1, other.1]);
        let mut known = true;
        let mut pipe = session.pipeline(&asks).await;
        let incarnation = pipe.as_ref().map(|pipe| pipe.incarnation);
        if pipe.is_some() {
            self.settings.marks.hit("two requests pipelined");
        }
        let dies = match die_ms {
            None => None,
            Some(ms) => {
                sleep(Duration::from_millis(ms)).await;
                pipe.take().map(Pipe::abandon)
            }
        };
        for (mut noted, ask) in notes.into_iter().zip(&asks) {
            let answer = match &mut pipe {
                Some(pipe) => pipe.next(ask.patience).await,
                None if dies.is_some() => Err("given up"),
                None => Err("no connection"),
            };
            noted.went_over(session, incarnation);
            known &= noted.understand(&answer, false);
            if !known {
                // What comes after a gap is nobody's.
                pipe.take().into_iter().for_each(Pipe::abandon);
            }
        }
        known
    }

    /// Notes that a call begins, and spells it out for the wire.
    fn prepare(&self, id: u64, call: &Call) -> (Noted<'_>, Ask) {
        let (mut asked, tool, mut arguments) = self.spell(call);
        self.memory.ask_again(&mut asked, &mut arguments);
        let wait_ms = team::wait_ms(call);
        let mut noted = Noted::new(self, asked);
        noted.asks_ms = team::asks_ms(call);
        noted.told = (self.plan.progress && wait_ms > 0).then(Told::default);
        let ask = Ask {
            id,
            method: "tools/call",
            params: json!({"name": tool, "arguments": arguments}),
            patience: PATIENCE + Duration::from_millis(wait_ms),
            told: noted.told.clone(),
            losses: noted.losses.clone(),
        };
        (noted, ask)
    }

    /// Returns what a call is for the history, and for the wire.
    fn spell(&self, call: &Call) -> (Asked, &'static str, Value) {
        if let (Call::Team(call), Some(mate)) = (call, self.plan.mate) {
            let latest = self.memory.latest();
            return team::spell(mate, call, latest.as_ref(), |bytes| self.body(bytes));
        }
        let own = role(self.plan.role);
        let mut arguments = json!({});
        if !self.plan.bound {
            let argument = if matches!(call, Call::Post { .. } | Call::Illegal(_)) {
                "from"
            } else {
                "for"
            };
            arguments[argument] = json!(own);
        }
        match call {
            Call::Post { to, kind, bytes } => {
                let body = self.body(*bytes);
                let to = role(*to);
                arguments["to"] = json!(to);
                arguments["kind"] = json!(kind.as_str());
                arguments["body"] = json!(body);
                (
                    Asked::Post {
                        from: own,
                        to,
                        kind: *kind,
                        body,
                        belongs: Belongs::Nothing,
                    },
                    "post_message",
                    arguments,
                )
            }
            Call::Read { of, wait_ms } => {
                let of = role(*of);
                arguments["for"] = json!(of);
                if *wait_ms > 0 {
                    arguments["wait_seconds"] = json!(*wait_ms as f64 / 1_000.0);
                }
                (
                    Asked::Read {
                        of,
                        wait_ms: *wait_ms,
                        limit: None,
                        filter: Filter::default(),
                    },
                    "read_messages",
                    arguments,
                )
            }
            Call::Pending { of } => {
                let of = role(*of);
                arguments["for"] = json!(of);
                (Asked::Pending { of }, "list_pending", arguments)
            }
            Call::Illegal(illegal) => {
                let (tool, arguments) = self.spell_illegal(*illegal, arguments);
                (Asked::Illegal(*illegal), tool, arguments)
            }
            Call::Team(_) => unreachable!("only those who register have the tools for it"),
        }
    }

    /// Makes a body that no other post has.
    fn body(&self, bytes: usize) -> String {
        self.serial.set(self.serial.get() + 1);
        format!("{} {}", self.serial.get(), "x".repeat(bytes))
    }

    fn spell_illegal(&self, illegal: Illegal, mut arguments: Value) -> (&'static str, Value) {
        arguments["to"] = json!(role(0));
        arguments["kind"] = json!(Kind::Status.as_str());
        // No other has it either: where it is accepted all the same, each is known by its own.
        arguments["body"] = json!(self.body(0));
        match illegal {
            Illegal::UnknownTool => return ("peek_messages", arguments),
            Illegal::UnknownRole => arguments["to"] = json!("nobody"),
            Illegal::UnknownKind => arguments["kind"] = json!("shout"),
            Illegal::Missing => drop(arguments.as_object_mut().expect("an object").remove("body")),
            Illegal::TooLong => arguments["body"] = json!("i".repeat(self.params.body_bytes_max + 1)),
            // A bound session that speaks for another, or one that names nobody.
            Illegal::NotYou if self.plan.bound => {
                arguments["from"] = json!(role((self.plan.role + 1) % self.params.roles))
            }
            Illegal::NotYou => drop(arguments.as_object_mut().expect("an object").remove("from")),
        }
        ("post_message", arguments)
    }
}

/// A call that is noted however it ends: also when its agent is gone.
struct Noted<'a> {
    agent: &'a Agent,
    record: Record,
    told: Option<Told>,
    losses: Losses,
    /// How long the call waits for the answer to what it posts; none if it does not.
    asks_ms: Option<u64>,
}

impl<'a> Noted<'a> {
    fn new(agent: &'a Agent, asked: Asked) -> Self {
        let record = Record {
            agent: agent.number,
            incarnation: None,
            nameless: false,
            bound: agent.plan.bound,
            asked,
            sent_ms: now_ms(),
            ended_ms: 0,
            cancelled_ms: None,
            told_ms: None,
            losses: Vec::new(),
            notice: None,
            reply_bytes: 0,
            outcome: Outcome::Unknown("the agent is gone"),
        };
        Self {
            agent,
            record,
            told: None,
            losses: Losses::default(),
            asks_ms: None,
        }
    }

    /// Takes note of where a call went.
    fn went_over(&mut self, session: &Session, incarnation: Option<Incarnation>) {
        self.record.incarnation = incarnation;
        self.record.nameless = !session.can_cancel();
    }

    /// Notes an answer, and returns whether the session goes on. `has_id` says whether the session was given an id.
    fn understand(&mut self, answer: &Answer, has_id: bool) -> bool {
        self.record.outcome = understand(&self.record.asked, answer, has_id);
        self.record.notice = notice_in(answer);
        let content = answer.as_ref().map(|answer| &answer["result"]["content"]);
        self.record.reply_bytes = content.map_or(0, |content| content.to_string().len());
        self.agent.memory.keep(&self.record.asked, &self.record.outcome);
        match self.record.outcome {
            // What went wrong was told, by relay or by the bridge, and the session is still there.
            Outcome::Unknown(why) => why == TOLD || is_trouble(why),
            Outcome::Posted(_)
            | Outcome::Messages { .. }
            | Outcome::Pending(_)
            | Outcome::Grouped
            | Outcome::Greeted { .. }
            | Outcome::Tools(_)
            | Outcome::Refused(_) => true,
        }
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.record.ended_ms = now_ms().max(self.record.sent_ms);
        self.record.told_ms = self.told.take().map(|told| told.0.take());
        self.record.losses = self.losses.0.take();
        let log = &self.agent.settings.log;
        match self.asks_ms {
            None => log.ended(self.record.clone()),
            Some(wait_ms) => team::halves(&self.record, wait_ms)
                .into_iter()
                .for_each(|half| log.ended(half)),
        }
    }
}

/// Finds the text that tells of a start in an answer.
pub fn notice_in(answer: &Answer) -> Option<String> {
    let content = answer.as_ref().ok()?["result"]["content"].as_array()?;
    let mut texts = content.iter().filter_map(|block| block["text"].as_str());
    let notice = texts.find(|text| text.starts_with(NOTICE));
    notice.map(str::to_owned)
}

/// Reads what an answer means.
pub fn understand(asked: &Asked, answer: &Answer, has_id: bool) -> Outcome {
    let answer = match answer {
        Ok(answer) => answer,
        Err(why) => return Outcome::Unknown(why),
    };
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    match asked {
        Asked::Greeting(_) | Asked::Tools if answer.get("error").is_some() => {
            return Outcome::Refused(answer["error"].to_string());
        }
        Asked::Greeting(version) => {
            let result = &answer["result"];
            // 2026-07-28 says in the metadata of every result what the older versions say once.
            let (server, spoken) = match result["supportedVersions"].as_array() {
                Some(versions) => {
                    let known = versions.iter().any(|known| known == version);
                    let spoken = if known { version } else { "another" };
                    (
                        &result["_meta"]["io.modelcontextprotocol/serverInfo"],
                        spoken.to_owned(),
                    )
                }
                None => (&result["serverInfo"], text(result, "protocolVersion")),
            };
            return Outcome::Greeted {
                name: text(server, "name"),
                version: spoken,
                id: has_id,
            };
        }
        Asked::Tools => {
            let tools = answer["result"]["tools"].as_array().into_iter().flatten();
            return Outcome::Tools(tools.map(|tool| text(tool, "name")).collect());
        }
        Asked::Post { .. }
        | Asked::Read { .. }
        | Asked::Pending { .. }
        | Asked::Group(_)
        | Asked::Illegal(_) => {}
    }
    let Some(content) = answer["result"]["content"].as_array() else {
        return Outcome::Refused(answer["error"].to_string());
    };
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect();
    if answer["result"]["isError"] == true {
        return Outcome::Refused(texts.concat());
    }
    let Ok(first) = serde_json::from_str::<Value>(texts[0]) else {
        let notice = notice_in(&Ok(answer.clone()));
        let is_cut = is_cut(&texts);
        let (Asked::Read { of: reader, .. } | Asked::Post { from: reader, .. }) = asked else {
            unreachable!("words answer what posts or reads");
        };
        return team::read_words(reader, texts[0], notice, is_cut);
    };
    match asked {
        Asked::Greeting(_) | Asked::Tools => unreachable!("returned above"),
        Asked::Post { .. } if first.get("message_id").is_some() => {
            Outcome::Posted(text(&first, "message_id"))
        }
        Asked::Post { .. } | Asked::Illegal(_) => Outcome::Posted(text(&first, "id")),
        Asked::Group(_) => Outcome::Grouped,
        Asked::Pending { .. } => {
            let kinds = first["kinds"].as_array().expect("an array").iter();
            Outcome::Pending(
                kinds
                    .map(|kind| kind.as_str().expect("a kind").to_owned())
                    .collect(),
            )
        }
        Asked::Read { of, .. } if first.is_object() => team::read(of, &first, notice_in(&Ok(answer.clone()))),
        Asked::Read { of, .. } => {
            // As the reader's project calls them, also where somebody else reads in its stead.
            let whole = |name: String| whole(project_of(of), &name);
            let seen = first.as_array().expect("an array").iter().map(|message| Seen {
                id: text(message, "id"),
                from: whole(text(message, "from")),
                to: whole(text(message, "to")),
                kind: text(message, "kind"),
                body: text(message, "body"),
                redelivered: message["redelivered"] == true,
                part: message["part"].as_str().and_then(team::which_part),
            });
            let notice = notice_in(&Ok(answer.clone()));
            Outcome::Messages {
                seen: seen.collect(),
                notice,
                is_cut: is_cut(&texts),
            }
        }
    }
}

/// Begins the text that tells of a start.
const NOTICE: &str = "relay started at ";

/// Tells whether a text behind the messages says that there was no room for all.
fn is_cut(texts: &[&str]) -> bool {
    texts[1..]
        .iter()
        .any(|text| !text.starts_with(NOTICE) && text.contains(" again"))
}
