//! Agents: they carry out their steps, and note what came of them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use relay::engine::Kind;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::client::{Answer, PATIENCE, Session, Settings, now_ms};
use crate::history::{Asked, Outcome, Record, Seen};
use crate::plan::{Action, AgentPlan, Call, Illegal, Params, Step, Transport};

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
        let bound_to = plan.bound.then(|| role(plan.role));
        let settings = Settings {
            bound_to,
            transport: plan.transport,
            ..settings
        };
        Self {
            number,
            plan,
            params,
            settings,
            serial,
            next_step: Cell::new(0),
        }
    }

    /// Carries out all steps.
    pub async fn run(&self) {
        let mut session = Session::open(self.settings.clone());
        let mut last_id = None;
        while let Some(Step { pause_ms, action }) = self.plan.steps.get(self.next_step.get()) {
            self.next_step.set(self.next_step.get() + 1);
            sleep(Duration::from_millis(*pause_ms)).await;
            let known = self.act(&session, action, &mut last_id).await;
            if !known {
                // What an agent does not know of is another agent's life.
                session = Session::open(self.settings.clone());
                last_id = None;
            }
        }
    }

    /// Carries out one step; returns whether its outcome is known.
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
                let give_up = sleep(Duration::from_millis(*after_ms));
                self.call_until(session, session.next_id(), call, give_up).await
            }
            Action::Cancel(call, after_ms) => {
                let id = session.next_id();
                if self.plan.transport != Transport::Sse {
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
        let (asked, tool, arguments) = self.spell(call);
        let patience = PATIENCE + Duration::from_millis(wait_ms(call));
        let mut noted = Noted::new(self, asked);
        let (incarnation, answer) = tokio::select! {
            biased;
            answered = session.call(id, tool, arguments, patience) => answered,
            () = give_up => (None, Err("given up")),
        };
        noted.record.incarnation = incarnation;
        noted.record.outcome = understand(&noted.record.asked, &answer);
        !matches!(noted.record.outcome, Outcome::Unknown(_))
    }

    /// Makes a call and cancels it after a while; notes when the server has taken note of that.
    async fn cancel(&self, session: &Session, id: u64, call: &Call, after_ms: u64) -> bool {
        let (asked, tool, arguments) = self.spell(call);
        let mut noted = Noted::new(self, asked);
        let patience = PATIENCE + Duration::from_millis(wait_ms(call));
        let calling = session.call(id, tool, arguments, patience);
        tokio::pin!(calling);
        let answered = tokio::select! {
            biased;
            answered = &mut calling => Some(answered),
            () = sleep(Duration::from_millis(after_ms)) => None,
        };
        match answered {
            Some((incarnation, answer)) => {
                noted.record.incarnation = incarnation;
                noted.record.outcome = understand(&noted.record.asked, &answer);
                !matches!(noted.record.outcome, Outcome::Unknown(_))
            }
            None => {
                let cancelled = session.cancel(id).await;
                noted.record.cancelled_ms = cancelled.then(now_ms);
                noted.record.outcome = Outcome::Unknown("cancelled");
                cancelled
            }
        }
    }

    /// Returns what a call is for the history, and for the wire.
    fn spell(&self, call: &Call) -> (Asked, &'static str, Value) {
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
                self.serial.set(self.serial.get() + 1);
                let body = format!("{} {}", self.serial.get(), "x".repeat(*bytes));
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
        }
    }

    fn spell_illegal(&self, illegal: Illegal, mut arguments: Value) -> (&'static str, Value) {
        arguments["to"] = json!(role(0));
        arguments["kind"] = json!(Kind::Status.as_str());
        arguments["body"] = json!("illegal");
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

fn wait_ms(call: &Call) -> u64 {
    match call {
        Call::Read { wait_ms, .. } => *wait_ms,
        Call::Post { .. } | Call::Pending { .. } | Call::Illegal(_) => 0,
    }
}

/// A call that is noted however it ends: also when its agent is gone.
struct Noted<'a> {
    agent: &'a Agent,
    record: Record,
}

impl<'a> Noted<'a> {
    fn new(agent: &'a Agent, asked: Asked) -> Self {
        let record = Record {
            agent: agent.number,
            incarnation: None,
            bound: agent.plan.bound,
            asked,
            sent_ms: now_ms(),
            ended_ms: 0,
            cancelled_ms: None,
            outcome: Outcome::Unknown("the agent is gone"),
        };
        Self { agent, record }
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.record.ended_ms = now_ms().max(self.record.sent_ms);
        self.agent.settings.log.ended(self.record.clone());
    }
}

/// Reads what an answer means.
pub fn understand(asked: &Asked, answer: &Answer) -> Outcome {
    let answer = match answer {
        Ok(answer) => answer,
        Err(why) => return Outcome::Unknown(why),
    };
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
    let first: Value = serde_json::from_str(texts[0]).expect("the first block is JSON");
    let text = |value: &Value, field: &str| value[field].as_str().expect("a text").to_owned();
    match asked {
        Asked::Post { .. } | Asked::Illegal(_) => Outcome::Posted(text(&first, "id")),
        Asked::Pending { .. } => {
            let kinds = first["kinds"].as_array().expect("an array").iter();
            Outcome::Pending(
                kinds
                    .map(|kind| kind.as_str().expect("a kind").to_owned())
                    .collect(),
            )
        }
        Asked::Read { .. } => {
            let seen = first.as_array().expect("an array").iter().map(|message| Seen {
                id: text(message, "id"),
                from: text(message, "from"),
                to: text(message, "to"),
                kind: text(message, "kind"),
                body: text(message, "body"),
                redelivered: message["redelivered"] == true,
            });
            let notice = texts.get(1).map(|&text| text.to_owned());
            Outcome::Messages {
                seen: seen.collect(),
                notice,
            }
        }
    }
}
