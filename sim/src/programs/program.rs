//! A stand-in for Claude Code: its turns, its hooks, its waiters, and what its model reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use relay::engine::handling::Mode;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, error::TryRecvError};
use tokio::time::sleep;

use super::calls::{self, Answer, PATIENCE};
use super::doors::path_of;
use super::frame;
use super::history::{At, Post, Showing, Unheard};
use super::plan::{ProgramPlan, agent_name, key_of, text};
use super::world::{Phase, Shared};
use crate::client::now_ms;

/// How often it is looked whether all has become quiet.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often a person says something in the end.
const LAST_PAUSE_MS: u64 = 3_000;

/// The longest message of a program.
const OWN_BYTES: usize = 60;

/// A program, and what its hooks and waiters know of it.
pub struct Program {
    /// What all share.
    pub shared: Shared,
    /// In which place of the plan it runs.
    pub slot: usize,
    /// How it runs there.
    pub plan: ProgramPlan,
    /// Its process number.
    pub number: String,
    /// Which one it is of all that were started.
    pub run: u64,
    /// Its model has a turn.
    pub is_busy: AtomicBool,
    /// How many turns it has begun.
    turns: AtomicU64,
    /// Where its waiters wake it.
    wakes: UnboundedSender<Woken>,
    /// How many waiters were started.
    pub armed: AtomicU64,
    /// What ends with it, if it ends in order.
    waiters: std::sync::Mutex<Vec<tokio::task::AbortHandle>>,
}

/// What a program is woken with.
pub struct Woken {
    text: String,
    /// After how many turns it came.
    turns: u64,
    was_busy: bool,
    asked_ms: u64,
}

/// What a program is told.
enum Event {
    Started,
    Said,
    Begun(String),
    Returned(Value),
    Ended,
    Asks,
    Clears,
    Exits,
}

impl Program {
    /// Makes one, and what reads its wakes.
    pub fn new(
        shared: Shared,
        slot: usize,
        number: String,
        run: u64,
    ) -> (Arc<Self>, UnboundedReceiver<Woken>) {
        let (wakes, woken) = tokio::sync::mpsc::unbounded_channel();
        let program = Self {
            plan: shared.plan.programs[slot],
            shared,
            slot,
            number,
            run,
            is_busy: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            wakes,
            armed: AtomicU64::new(0),
            waiters: std::sync::Mutex::default(),
        };
        (Arc::new(program), woken)
    }

    /// Takes the text of a wake to the model.
    pub fn wake(&self, text: String, asked_ms: u64) {
        let woken = Woken {
            text,
            asked_ms,
            turns: self.turns.load(Ordering::Relaxed),
            was_busy: self.is_busy.load(Ordering::Relaxed),
        };
        let _gone = self.wakes.send(woken);
    }

    /// Tells whether it runs still, or another with its number does.
    pub fn is_alive(&self) -> bool {
        self.shared.alive().contains(&self.number)
    }

    /// Where its hooks ask.
    pub fn path(&self, what: &str) -> String {
        let number = &self.number;
        let mode = self.plan.mode.map(|mode| format!("&mode={mode}"));
        let mut more = mode.unwrap_or_default();
        if self.plan.has_door {
            more.push_str("&socket=");
            more.push_str(&path_of(number));
        }
        if self.plan.is_unnamed {
            return format!("/hooks/claude{what}?process={number}{more}");
        }
        let agent = agent_name(self.plan.agent);
        format!("/hooks/claude{what}?process={number}&agent={agent}{more}")
    }

    /// Tells relay of an event; nothing comes back where the answer was lost, or told by nobody.
    pub async fn tells(&self, event: &Value) -> Option<Answer> {
        self.asks(&self.path(""), event).await
    }

    async fn asks(&self, path: &str, asked: &Value) -> Option<Answer> {
        let mut unheard = Noted {
            program: self,
            from_ms: now_ms(),
            is_heard: false,
        };
        let answer = calls::post(&self.shared.ledger, path, asked.to_string(), PATIENCE).await;
        unheard.is_heard = answer.is_some();
        drop(unheard);
        if answer.is_none() {
            // On one machine relay knows before anything else can happen.
            sleep(Duration::from_millis(self.shared.plan.known_ms())).await;
        }
        answer
    }

    fn sees(&self, text: &str, at: At, asked_ms: u64) -> bool {
        let framed = frame::read(text);
        for message in framed.messages {
            self.is_shown(message.id, &message.body, message.is_marked, at, asked_ms);
        }
        framed.has_notice
    }

    fn is_shown(&self, id: String, body: &str, is_marked: bool, at: At, asked_ms: u64) {
        let showing = Showing {
            agent: self.plan.agent,
            place: self.slot,
            run: self.run,
            turn: self.turns.load(Ordering::Relaxed),
            at,
            id,
            key: key_of(body),
            is_marked,
            asked_ms,
            at_ms: now_ms(),
        };
        self.shared.log.trace(now_ms(), format_args!("{showing:?}"));
        self.shared.log.history().shown.push(showing);
    }

    fn ends_waiters(&self) {
        let waiters = self.waiters.lock().expect("a run has one thread");
        waiters.iter().for_each(tokio::task::AbortHandle::abort);
    }

    /// Starts a waiter, as a hook in the background.
    pub fn arms(self: &Arc<Self>, rng: &mut Rng) {
        let own = 1 + self.armed.fetch_add(1, Ordering::Relaxed);
        let waits = Arc::clone(self).waits(own, rng.fork());
        let waiter = tokio::spawn(waits);
        let mut waiters = self.waiters.lock().expect("a run has one thread");
        waiters.push(waiter.abort_handle());
    }
}

/// Notes an exchange whose answer nobody has heard to its end, even if who asked was gone before.
struct Noted<'a> {
    program: &'a Program,
    from_ms: u64,
    is_heard: bool,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if !self.is_heard {
            let unheard = Unheard {
                agent: self.program.plan.agent,
                from_ms: self.from_ms,
                until_ms: now_ms(),
            };
            let log = &self.program.shared.log;
            log.trace(now_ms(), format_args!("{unheard:?}"));
            log.history().unheard.push(unheard);
        }
    }
}

/// One run of a program: what happens in it in order.
pub struct Running {
    program: Arc<Program>,
    rng: Rng,
    woken: UnboundedReceiver<Woken>,
    /// A wake that came while its model had a turn.
    held: Option<Woken>,
    /// The model is to read what is left.
    is_to_read: bool,
    /// It was told that something is left, and has left it.
    has_left: bool,
    phase: Phase,
}

impl Running {
    /// Makes one that has not begun.
    pub fn new(program: Arc<Program>, woken: UnboundedReceiver<Woken>, rng: Rng) -> Self {
        Self {
            phase: program.shared.phase(),
            program,
            rng,
            woken,
            held: None,
            is_to_read: false,
            has_left: false,
        }
    }

    fn chance(&mut self, one_in: u32) -> bool {
        one_in > 0 && self.phase == Phase::Faulty && self.rng.u32(0..one_in) == 0
    }

    fn mark(&self, mark: &'static str) {
        self.program.shared.marks.hit(mark);
    }

    /// Runs until it ends in order.
    pub async fn runs(mut self) {
        self.tells(Event::Started).await;
        self.arms();
        if self.program.plan.is_unnamed {
            // Its model says by a tool whose it is.
            self.is_to_read = true;
            self.turn(None).await;
        }
        let habits = self.program.shared.plan.habits;
        let exits = self.chance(habits.exits);
        let turns_max = self.rng.u64(1..20);
        loop {
            let woken = self.idles().await;
            if woken.is_none() && self.chance(habits.clears) {
                self.clears().await;
                continue;
            }
            self.turn(woken).await;
            if exits && self.program.turns.load(Ordering::Relaxed) > turns_max {
                self.mark("program ended in order");
                self.program.ends_waiters();
                self.tells(Event::Exits).await;
                return;
            }
        }
    }

    fn arms(&mut self) {
        self.program.arms(&mut self.rng);
    }

    /// Begins a conversation anew: the model knows nothing any more.
    async fn clears(&mut self) {
        self.mark("conversation begun anew");
        let has_left = self.is_to_read || self.has_left;
        (self.is_to_read, self.has_left) = (false, false);
        let before = self.unheard();
        self.tells(Event::Clears).await;
        self.tells(Event::Started).await;
        // Where the network has lost that, relay wakes nobody for what the model was told of before.
        self.has_left |= has_left && self.unheard() > before;
        self.arms();
    }

    /// Counts what was said and not heard by now.
    fn unheard(&self) -> usize {
        self.program.shared.log.history().unheard.len()
    }

    /// Waits for a wake, or for a person.
    async fn idles(&mut self) -> Option<Woken> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        let habits = self.program.shared.plan.habits;
        let thinks_ms = self.rng.u64(100..habits.thinks_ms_max);
        let says_at = now_ms() + thinks_ms;
        loop {
            let phase = self.program.shared.phase();
            if phase != self.phase {
                self.phase = phase;
                match phase {
                    Phase::Faulty => unreachable!("it comes first"),
                    // It is nobody's that relay knows of, or has left something that nobody is woken for again.
                    Phase::Quiet if self.program.plan.is_unnamed || self.is_to_read || self.has_left => {
                        self.is_to_read = true;
                        return None;
                    }
                    Phase::Quiet => self.arms(),
                    Phase::Last => {}
                }
            }
            let left_ms = match phase {
                Phase::Faulty => says_at.saturating_sub(now_ms()),
                Phase::Quiet => u64::MAX,
                Phase::Last => LAST_PAUSE_MS,
            };
            let pause = LOOK_EVERY.min(Duration::from_millis(left_ms));
            tokio::select! {
                biased;
                woken = self.woken.recv() => return woken,
                () = sleep(pause) => {}
            }
            let is_said = match phase {
                Phase::Faulty => now_ms() >= says_at,
                Phase::Quiet => false,
                Phase::Last => true,
            };
            if is_said {
                return None;
            }
        }
    }

    /// A turn, begun by a wake or a person.
    async fn turn(&mut self, woken: Option<Woken>) {
        let program = Arc::clone(&self.program);
        program.is_busy.store(true, Ordering::Relaxed);
        let turns = program.turns.fetch_add(1, Ordering::Relaxed);
        let event = match woken {
            None => Event::Said,
            Some(woken) => {
                let is_late = woken.was_busy || woken.turns != turns;
                let at = if is_late { At::LateWake } else { At::Wake };
                self.mark(if is_late {
                    "wake came late"
                } else {
                    "turn begun by a wake"
                });
                self.sees(&woken.text, at, woken.asked_ms);
                Event::Begun(woken.text)
            }
        };
        if self.rng.bool() {
            self.arms();
            self.tells(event).await;
        } else {
            self.tells(event).await;
            self.arms();
        }
        let habits = program.shared.plan.habits;
        let mut tools = self.rng.usize(0..=habits.tools_max);
        if self.phase == Phase::Last {
            tools = tools.max(1);
        }
        loop {
            while tools > 0 || self.is_to_read {
                tools = tools.saturating_sub(1);
                if self.tool().await.is_none() {
                    self.mark("turn ended by Esc");
                    program.is_busy.store(false, Ordering::Relaxed);
                    return;
                }
                self.late();
            }
            // The model writes its last words.
            let ms = self.rng.u64(..habits.tool_ms_max);
            sleep(Duration::from_millis(ms)).await;
            let before = self.rng.bool();
            if before {
                self.arms();
            }
            let goes_on = self.tells(Event::Ended).await;
            if !before {
                self.arms();
            }
            if !goes_on {
                break;
            }
            tools = self.rng.usize(0..=habits.tools_max);
        }
        self.late();
        program.is_busy.store(false, Ordering::Relaxed);
    }

    /// Shows the model what a waiter has brought in the midst of a turn.
    fn late(&mut self) {
        loop {
            match self.woken.try_recv() {
                // What comes behind the last tool begins a turn.
                Ok(woken) if self.rng.bool() => {
                    self.mark("wake came in the midst of a turn");
                    self.sees(&woken.text, At::LateWake, woken.asked_ms);
                }
                Ok(woken) => {
                    if let Some(held) = self.held.replace(woken) {
                        self.sees(&held.text, At::LateWake, held.asked_ms);
                    }
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn sees(&mut self, text: &str, at: At, asked_ms: u64) {
        if self.program.sees(text, at, asked_ms) {
            self.mark("told that more is there");
            let habits = self.program.shared.plan.habits;
            let leaves = self.chance(habits.leaves);
            self.is_to_read |= !leaves;
            self.has_left |= leaves;
        }
    }

    /// A tool; nothing if Esc ends the turn.
    async fn tool(&mut self) -> Option<()> {
        let habits = self.program.shared.plan.habits;
        if self.chance(habits.escapes) {
            return None;
        }
        let event = if self.is_to_read || self.chance(habits.reads) {
            self.reads().await
        } else if self.chance(habits.posts) {
            self.posts().await
        } else {
            if self.chance(habits.asks) {
                self.tells(Event::Asks).await;
            }
            let ms = self.rng.u64(..habits.tool_ms_max);
            sleep(Duration::from_millis(ms)).await;
            json!({"tool_name": "Bash", "tool_input": {"command": "make"}})
        };
        self.tells(Event::Returned(event)).await;
        Some(())
    }

    async fn calls(&mut self, tool: &str, arguments: &Value) -> Option<Value> {
        let program = &self.program;
        let agent = agent_name(program.plan.agent);
        // What is too long for a reply, and comes in parts, is the contract's suite's.
        let mut path = format!("/mcp?agent={agent}&reply_kb=100000");
        if program.plan.has_instance {
            let instance = uuid::Uuid::from_u128(u128::from(program.run) + 1);
            path.push_str(&format!("&instance={instance}"));
        }
        let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}});
        let answer = program.asks(&path, &asked).await?;
        let said = answer.body["result"].clone();
        answer.done();
        self.program
            .shared
            .marks
            .hit_if(said["isError"] == true, "tool refused");
        Some(said)
    }

    async fn reads(&mut self) -> Value {
        let agent = agent_name(self.program.plan.agent);
        let arguments = json!({"for": agent});
        let asked_ms = now_ms();
        if let Some(said) = self.calls("read_messages", &arguments).await {
            (self.is_to_read, self.has_left) = (false, false);
            let texts = said["content"].as_array().into_iter().flatten();
            let texts = texts.filter_map(|block| block["text"].as_str());
            let lists = texts.filter_map(|text| serde_json::from_str::<Value>(text).ok());
            for list in lists {
                for message in list.as_array().into_iter().flatten() {
                    let word = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
                    let is_marked = message["redelivered"] == true;
                    self.mark("read with a tool");
                    self.program
                        .is_shown(word("id"), &word("body"), is_marked, At::Tool, asked_ms);
                }
            }
        }
        json!({"tool_name": "mcp__relay__read_messages", "tool_input": arguments})
    }

    async fn posts(&mut self) -> Value {
        let program = Arc::clone(&self.program);
        let to = self.rng.usize(..program.shared.plan.agents);
        let key = program.shared.next_key(program.slot);
        let (mode, bytes) = (None::<Mode>, OWN_BYTES);
        let (from, name) = (agent_name(program.plan.agent), agent_name(to));
        let arguments = json!({"from": from, "to": name, "kind": "free", "body": text(key, to, mode, bytes)});
        let post = Post {
            to,
            mode,
            bytes,
            sent_ms: now_ms(),
            id: None,
            refused: None,
        };
        program.shared.log.history().posts.insert(key, post);
        self.mark("posted with a tool");
        self.calls("post_message", &arguments).await;
        let input = json!({"from": from, "to": name});
        json!({"tool_name": "mcp__relay__post_message", "tool_input": input})
    }

    /// Tells relay of an event, and shows the model what it is answered. Tells whether that was something.
    async fn tells(&mut self, event: Event) -> bool {
        let (at, json) = match event {
            Event::Started => (
                At::Elsewhere,
                json!({"hook_event_name": "SessionStart", "source": "startup"}),
            ),
            Event::Said => (
                At::Said,
                json!({"hook_event_name": "UserPromptSubmit", "prompt": "go on"}),
            ),
            Event::Begun(text) => {
                let prompt = format!("<task-notification>\n</task-notification>\n{text}");
                (
                    At::Begun,
                    json!({"hook_event_name": "UserPromptSubmit", "prompt": prompt}),
                )
            }
            Event::Returned(mut event) => {
                event["hook_event_name"] = json!("PostToolUse");
                (At::Returned, event)
            }
            Event::Ended => (At::Ended, json!({"hook_event_name": "Stop"})),
            Event::Asks => (
                At::Elsewhere,
                json!({"hook_event_name": "Notification", "notification_type": "permission_prompt"}),
            ),
            Event::Clears => (
                At::Elsewhere,
                json!({"hook_event_name": "SessionEnd", "reason": "clear"}),
            ),
            Event::Exits => (
                At::Elsewhere,
                json!({"hook_event_name": "SessionEnd", "reason": "prompt_input_exit"}),
            ),
        };
        let mut json = json;
        if !matches!(at, At::Elsewhere) {
            // Only the events of a turn say that.
            json["permission_mode"] = json!("default");
        }
        let asked_ms = now_ms();
        let Some(answer) = self.program.tells(&json).await else {
            return false;
        };
        let habits = self.program.shared.plan.habits;
        let shown = answer.body["hookSpecificOutput"]["additionalContext"]
            .as_str()
            .map(str::to_owned);
        if shown.is_some() && self.chance(habits.hook_dies) {
            self.mark("hook died with what it was answered");
            // The network may lose that it has ended, too.
            let _unheard = Noted {
                program: &self.program,
                from_ms: asked_ms,
                is_heard: false,
            };
            drop(answer);
            sleep(Duration::from_millis(self.program.shared.plan.known_ms())).await;
            return false;
        }
        self.program
            .shared
            .marks
            .hit_if(answer.status >= 400, "hook refused");
        answer.done();
        if let Some(text) = &shown {
            self.mark(match at {
                At::Said => "shown when a person began a turn",
                At::Begun => "shown when a turn began by itself",
                At::Returned => "shown when a tool had returned",
                At::Ended => "shown when a turn ended",
                At::Elsewhere | At::Wake | At::LateWake | At::Tool => "shown elsewhere",
            });
            self.sees(text, at, asked_ms);
        }
        shown.is_some()
    }
}
