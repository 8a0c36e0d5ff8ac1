//! Random walks over nodes, receipts and tools, beside a ledger of what docs/DELIVERY.md says must become of each message.
//!
//! Whoever takes part sees all that the engine sends at once; what is lost on the way is the simulation's. A failure names its seed;
//! `RELAY_WALK_SEED=7` walks that one alone, `RELAY_WALK_SEED=0..5000` a range.

mod invocations;
mod ledger;

use std::collections::BTreeMap;
use std::ops::Range;

use fastrand::Rng;
use ledger::{Ledger, Presence};
use relay::engine::nodes::{self, Said};
use relay::engine::receipts::{self, Receipt, State};
use relay::engine::{
    AgentName, CallId, Carrier, Command, Delivery, Effect, Ending, Engine, Frame, HandoverId, Input, Kind,
    MessageId, NodeId, Refusal, Reply, Roster, SessionId, Sign, Timestamp, Who, limits, mail,
};

/// How many seeds are walked.
const SEEDS: Range<u64> = 0..400;

/// How many steps each of them has.
const STEPS: usize = 300;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

const AGENTS: [&str; 2] = ["dev-a", "dev-b"];
const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];

const PERSON: SessionId = SessionId(1);
/// The session of the agent at the same place, which gives receipts and reads with tools.
const OWN: [SessionId; 2] = [SessionId(2), SessionId(3)];

/// What must have happened in some walk, or the walks are worth nothing.
const MARKS: [&str; 17] = [
    "frame sent again",
    "frame of what was deferred",
    "acknowledged, not listed",
    "acknowledged, listed",
    "listed after its acknowledgement",
    "receipt before the acknowledgement",
    "receipt after it",
    "receipt for what waits",
    "receipt for what has arrived",
    "receipt for what was accepted",
    "receipt for what a tool has read",
    "receipt refused for what a tool has read",
    "deferred again",
    "node lapsed with a receipt missing",
    "rebound with frames on the way",
    "superseded",
    "read marked as redelivered",
];

type Marks = BTreeMap<&'static str, u64>;

struct Walk<'a> {
    engine: Engine,
    now: Timestamp,
    rng: Rng,
    calls: u64,
    sessions: u64,
    ledger: Ledger<'a>,
}

#[test]
fn each_message_becomes_what_the_documents_say() {
    let walk = |seed, marks: &mut Marks| {
        let mut walk = Walk::new(seed, marks);
        for _ in 0..STEPS {
            walk.step();
        }
        walk.end();
    };
    let check = |marks: &Marks| {
        for mark in MARKS {
            assert!(marks.contains_key(mark), "never: {mark}");
        }
    };
    walk_all(walk, check);
}

#[test]
fn each_invocation_becomes_what_the_documents_say() {
    walk_all(invocations::walk, invocations::check);
}

/// Walks all seeds that are asked for, and checks what has happened in the usual ones.
fn walk_all(walk: impl Fn(u64, &mut Marks), check: impl FnOnce(&Marks)) {
    let (seeds, chosen) = seeds();
    let mut marks = Marks::new();
    for seed in seeds {
        let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| walk(seed, &mut marks)));
        if let Err(panic) = walked {
            eprintln!(
                "replay: RELAY_WALK_SEED={seed} cargo test -p relay --no-default-features --test engine walks"
            );
            std::panic::resume_unwind(panic);
        }
    }
    if !chosen {
        check(&marks);
    }
}

/// Returns which seeds to walk, and whether somebody has chosen them.
fn seeds() -> (Range<u64>, bool) {
    #[expect(clippy::disallowed_methods, reason = "a replay is asked for from outside")]
    let Ok(given) = std::env::var("RELAY_WALK_SEED") else {
        return (SEEDS, false);
    };
    let number = |text: &str| {
        text.parse::<u64>()
            .expect("RELAY_WALK_SEED is a number, or a range as 0..9")
    };
    match given.split_once("..") {
        Some((first, end)) => (number(first)..number(end), true),
        None => (number(&given)..number(&given) + 1, true),
    }
}

impl<'a> Walk<'a> {
    fn new(seed: u64, marks: &'a mut Marks) -> Self {
        let engine = Engine::new(START, Roster::default(), limits::Bounds::default(), [7; 16]);
        let mut walk = Self {
            engine,
            now: START,
            rng: Rng::with_seed(seed),
            calls: 0,
            sessions: 10,
            ledger: Ledger::new(marks),
        };
        walk.open(PERSON, Carrier::Exchange, Who::Person);
        for (session, agent) in OWN.into_iter().zip(AGENTS) {
            walk.open(session, Carrier::Exchange, Who::Agent(Some(agent.to_owned())));
            // It hears of the start.
            walk.read(agent, true);
        }
        for name in ["one", "two"] {
            let create = nodes::Command::Create {
                project: "default".to_owned(),
                name: name.to_owned(),
                label: None,
                agents_max: None,
                pushes: false,
            };
            walk.asks(PERSON, create).expect("it is made");
        }
        walk
    }

    fn step(&mut self) {
        let agent = AGENTS[self.rng.usize(..2)];
        let node = NODES[self.rng.usize(..2)];
        match self.rng.u8(..100) {
            0..25 => {
                for _ in 0..self.rng.u8(1..6) {
                    self.post(agent);
                }
            }
            25..38 => self.acknowledge(agent),
            38..46 => self.list(agent),
            46..60 => self.give(agent),
            60..68 => {
                let arrives = self.rng.bool();
                self.read(agent, arrives);
            }
            68..76 => self.connect(node),
            76..79 => self.close(node),
            79..81 => self.leave(node),
            81..85 => self.bind(node, agent),
            85..87 => self.unbind(node, agent),
            87..96 => {
                let ms = self.rng.i64(1..1_500);
                self.pass(ms);
            }
            _ => {
                let ms = self.rng.i64(1_500..60_000);
                self.pass(ms);
            }
        }
    }

    /// Nodes let go of everything, all time passes, and what has not arrived is read with tools.
    fn end(&mut self) {
        for node in NODES {
            for agent in AGENTS {
                self.unbind(node, agent);
            }
        }
        self.pass(2 * limits::DEFERRAL_MS_MAX);
        for agent in AGENTS {
            self.read(agent, true);
            self.list(agent);
            self.pass(limits::CANCEL_GRACE_MS);
            self.ledger.assert_all_ended(agent);
        }
    }

    fn post(&mut self, agent: &'static str) {
        self.calls += 1;
        let mut random = [0; 16];
        random[..8].copy_from_slice(&self.calls.to_be_bytes());
        let command = mail::Command::Post {
            from: Some("pm".to_owned()),
            to: agent.to_owned(),
            kind: Kind::Free,
            body: "x".to_owned(),
            options: None,
        };
        let input = Input::Call {
            session: PERSON,
            call: CallId(self.calls),
            random,
            command: command.into(),
        };
        let mut effects = self.handle(input);
        let answer = effects
            .iter()
            .position(|effect| matches!(effect, Effect::Reply { .. }));
        let Some(Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Posted { id, .. })),
            ..
        }) = answer.map(|place| effects.remove(place))
        else {
            panic!("it is accepted")
        };
        self.ledger.accepted(agent, id);
        self.frames(effects);
    }

    fn acknowledge(&mut self, agent: &'static str) {
        let Some((session, sent)) = self.ledger.connection_of(agent) else {
            return;
        };
        let up_to = self.rng.u64(0..=sent);
        let name = agent.to_owned();
        let said = Said::Acknowledges { agent: name, up_to };
        let effects = self.says(session, said);
        self.ledger.acknowledged(agent, up_to, self.now);
        self.frames(effects);
    }

    fn list(&mut self, agent: &'static str) {
        let limit = 2_000;
        let (reply, effects) = self
            .asks(own(agent), receipts::Command::List { limit })
            .expect("it is listed");
        let Reply::Receipts(receipts::Reply::Listed(rows)) = reply else {
            panic!("{reply:?}")
        };
        self.ledger.listed(agent, &rows);
        self.frames(effects);
    }

    fn give(&mut self, agent: &'static str) {
        let Some(id) = self.ledger.any_message(agent, &mut self.rng) else {
            return;
        };
        let receipt = match self.rng.u8(..5) {
            0 | 1 => Receipt::Done,
            4 => Receipt::Accepted {
                retryable: self.rng.bool(),
            },
            2 => Receipt::Failed {
                reason: None,
                retryable: self.rng.bool(),
            },
            _ => Receipt::Deferred {
                until: self.now.plus_millis(self.rng.i64(-1_000..90_000)),
                reason: None,
            },
        };
        let give = receipts::Command::Give {
            message: id.to_string(),
            receipt: receipt.clone(),
            metadata: None,
        };
        match self.asks(own(agent), give) {
            Ok((Reply::Receipts(receipts::Reply::Is(state)), effects)) => {
                self.ledger.receipt(agent, id, &receipt, state);
                // What is deferred to a moment that is over comes at once.
                self.ledger.time_is(self.now);
                self.frames(effects);
            }
            Err(Refusal::Receipts(receipts::Refusal::Unknown { .. })) => self.ledger.assert_ended(agent, id),
            Err(Refusal::Receipts(receipts::Refusal::InReply { .. })) => {
                self.ledger.assert_in_reply(agent, id, &receipt);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Reads with a tool; the reply arrives, or is lost.
    fn read(&mut self, agent: &'static str, arrives: bool) {
        self.calls += 1;
        let input = Input::Call {
            session: own(agent),
            call: CallId(self.calls),
            random: [0; 16],
            command: mail::Command::read_all(None, 0).into(),
        };
        let mut effects = self.handle(input);
        let Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
            handover,
            ..
        } = effects.remove(0)
        else {
            panic!("a read is answered")
        };
        self.ledger.read(agent, &deliveries, arrives, self.now);
        self.frames(effects);
        let signs: &[Sign] = match arrives {
            true => &[Sign::Passed, Sign::Followed],
            false => &[Sign::Lost],
        };
        for sign in signs {
            if let Some(handover) = handover {
                self.signed(handover, *sign);
            }
        }
    }

    fn signed(&mut self, handover: HandoverId, sign: Sign) {
        let effects = self.handle(Input::Signed { handover, sign });
        self.frames(effects);
    }

    fn connect(&mut self, node: NodeId) {
        self.sessions += 1;
        let session = SessionId(self.sessions);
        self.open(session, Carrier::Node, Who::Node(node));
        let registers = Said::Registers {
            instance: None,
            names_first: false,
            offers: Vec::new(),
        };
        let effects = self.says(session, registers);
        let superseded = effects.iter().find_map(|effect| {
            let Effect::Superseded { session } = effect else {
                return None;
            };
            Some(*session)
        });
        let before = self.ledger.came(node, session);
        assert_eq!(superseded, before, "the connection before is superseded");
        self.frames(effects);
        if let Some(session) = before {
            let ending = Ending::Orderly;
            let effects = self.handle(Input::Closed { session, ending });
            self.frames(effects);
        }
    }

    fn close(&mut self, node: NodeId) {
        let Presence::Live(session) = self.ledger.presence(node) else {
            return;
        };
        let ending = if self.rng.bool() {
            Ending::Orderly
        } else {
            Ending::Broken
        };
        let effects = self.handle(Input::Closed { session, ending });
        self.ledger.gone(node, self.now.plus_millis(limits::NODE_GONE_MS));
        self.frames(effects);
    }

    fn leave(&mut self, node: NodeId) {
        let Presence::Live(session) = self.ledger.presence(node) else {
            return;
        };
        let effects = self.says(session, Said::Leaves);
        self.ledger.lapsed(node);
        self.frames(effects);
    }

    fn bind(&mut self, node: NodeId, agent: &'static str) {
        let name = agent.to_owned();
        let (_, effects) = self
            .asks(PERSON, nodes::Command::Bind { node, agent: name })
            .expect("it is bound");
        self.ledger.bound(node, agent);
        self.frames(effects);
    }

    fn unbind(&mut self, node: NodeId, agent: &'static str) {
        let name = agent.to_owned();
        let (_, effects) = self
            .asks(PERSON, nodes::Command::Unbind { node, agent: name })
            .expect("it is unbound");
        self.ledger.unbound(node, agent);
        self.frames(effects);
    }

    /// Lets time pass, and all that is due happen in its time.
    fn pass(&mut self, ms: i64) {
        let end = self.now.plus_millis(ms);
        loop {
            let due = self
                .engine
                .poll_timeout()
                .map(|(at, _)| at)
                .filter(|at| *at <= end);
            self.now = due.unwrap_or(end).max(self.now);
            self.ledger.time_is(self.now);
            let mut effects = Vec::new();
            self.engine.handle_timeout(self.now, &mut effects);
            self.frames(effects);
            if due.is_none() {
                break;
            }
        }
    }

    /// Puts down all frames among some effects.
    fn frames(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Deliver { session, frame } = effect {
                let Frame {
                    agent,
                    number,
                    delivery,
                    handover: _,
                } = *frame;
                self.ledger.sent(session, &agent, number, &delivery);
            }
        }
    }

    fn open(&mut self, session: SessionId, carrier: Carrier, who: Who) {
        let effects = self.handle(Input::Opened {
            session,
            carrier,
            who,
        });
        assert!(
            matches!(&effects[..], [Effect::Opened { result: Ok(_), .. }]),
            "{effects:?}"
        );
    }

    fn says(&mut self, session: SessionId, said: Said) -> Vec<Effect> {
        let (_, effects) = self
            .asks(session, nodes::Command::Says(said))
            .expect("it may say that");
        effects
    }

    /// Asks, and returns the answer and what else comes of it.
    fn asks(
        &mut self,
        session: SessionId,
        command: impl Into<Command>,
    ) -> Result<(Reply, Vec<Effect>), Refusal> {
        self.calls += 1;
        let mut effects = self.handle(Input::Call {
            session,
            call: CallId(self.calls),
            random: [0; 16],
            command: command.into(),
        });
        let answer = effects
            .iter()
            .position(|effect| matches!(effect, Effect::Reply { .. }));
        let Effect::Reply { result, .. } = effects.remove(answer.expect("it is answered")) else {
            unreachable!("that is where the reply is")
        };
        Ok((result?, effects))
    }

    /// Hands an input in, and returns what is to be done.
    fn handle(&mut self, input: Input) -> Vec<Effect> {
        self.ledger.time_is(self.now);
        let mut effects = Vec::new();
        self.engine.handle(self.now, input, &mut effects);
        effects.retain(|effect| !matches!(effect, Effect::Note(_)));
        effects
    }
}

/// Returns the session of an agent's own.
fn own(agent: &str) -> SessionId {
    let place = AGENTS.iter().position(|known| *known == agent);
    OWN[place.expect("one of them")]
}
