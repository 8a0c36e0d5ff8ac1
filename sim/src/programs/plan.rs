//! A seed becomes a plan. How a message is to be brought stands in its text, with who sent it to whom.

use fastrand::Rng;
use relay::engine::handling::Mode;
use relay::engine::limits::SURFACED_BYTES_MAX;

use crate::plan::{Fault, draw_faults, draw_stops};

/// One run, whole.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where it came from.
    pub seed: u64,
    /// How many machines there are.
    pub boxes: usize,
    /// How long is posted, and things go wrong, in milliseconds.
    pub duration_ms: u64,
    /// How long a segment travels at the most, in milliseconds.
    pub latency_ms_max: u64,
    /// How many agents there are.
    pub agents: usize,
    /// Where their programs run, one at a time in each place.
    pub programs: Vec<ProgramPlan>,
    /// Who posts.
    pub senders: Vec<SenderPlan>,
    /// What programs and their persons are like.
    pub habits: Habits,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// A place in which programs of an agent run, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct ProgramPlan {
    /// Whose they are.
    pub agent: usize,
    /// On which machine.
    pub on: usize,
    /// Their hooks do not say whose they are: their models do, by a tool.
    pub is_unnamed: bool,
    /// The connections of their tools have an instance, and take the agent over.
    pub has_instance: bool,
    /// They have a messaging socket.
    pub has_door: bool,
    /// How they have the agent brought what its senders say nothing of, if they say that.
    pub mode: Option<Mode>,
}

/// What programs and their persons are like in a run. A chance of `n` is one in `n`; there is none if it is 0.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// How long a person thinks at the most before it says something, in milliseconds.
    pub thinks_ms_max: u64,
    /// How many tools are called at the most in a turn.
    pub tools_max: usize,
    /// How long one takes at the most, in milliseconds.
    pub tool_ms_max: u64,
    /// A tool is relay's for reading.
    pub reads: u32,
    /// A tool is relay's for posting.
    pub posts: u32,
    /// A tool is to be allowed first.
    pub asks: u32,
    /// Esc ends the turn before a tool has returned.
    pub escapes: u32,
    /// What relay says is left is left there.
    pub leaves: u32,
    /// A person begins a conversation anew before it says something.
    pub clears: u32,
    /// How long a program runs at the most, in milliseconds; for ever if it is 0.
    pub runs_ms_max: u64,
    /// A program ends in order.
    pub exits: u32,
    /// The next one has its number.
    pub same_number: u32,
    /// The end of a program is not told by its waiter.
    pub untold: u32,
    /// A waiter dies with the text that it was answered.
    pub dies: u32,
    /// A waiter has handed its text over, and nothing comes of it.
    pub vanishes: u32,
    /// A hook dies with what it was answered.
    pub hook_dies: u32,
    /// How often what is held is asked for, in milliseconds; never if it is 0.
    pub flushes_ms: u64,
}

/// An agent that posts.
#[derive(Debug, Clone)]
pub struct SenderPlan {
    /// On which machine it runs.
    pub on: usize,
    /// What it posts.
    pub posts: Vec<PostPlan>,
}

/// A post.
#[derive(Debug, Clone, Copy)]
pub struct PostPlan {
    /// How long the sender waits before it, in milliseconds.
    pub pause_ms: u64,
    /// To which agent.
    pub to: usize,
    /// When it is to be shown, if its sender says that.
    pub mode: Option<Mode>,
    /// It is urgent.
    pub is_urgent: bool,
    /// How long it is.
    pub bytes: usize,
}

/// Which message it is: who sent it, and which of that sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its sender: those of the plan, and behind them the places of programs.
    pub sender: usize,
    /// Which of its posts.
    pub number: usize,
}

/// Writes a message's text.
pub fn text(key: Key, to: usize, mode: Option<Mode>, bytes: usize) -> String {
    let Key { sender, number } = key;
    let mode = mode.map_or("plain", Mode::as_str);
    let mut text = format!("{sender} {number} {to} {mode} {bytes} ");
    text.extend(std::iter::repeat_n('x', bytes.saturating_sub(text.len())));
    text
}

/// Reads which message a text is; none if it is not whole.
pub fn key_of(text: &str) -> Option<Key> {
    let mut words = text.split(' ');
    let mut number = || words.next()?.parse().ok();
    let key = Key {
        sender: number()?,
        number: number()?,
    };
    let _to = number()?;
    let mut words = text.split(' ').skip(4);
    let bytes: usize = words.next()?.parse().ok()?;
    (text.len() == bytes).then_some(key)
}

/// Names an agent that has programs.
pub fn agent_name(number: usize) -> String {
    format!("dev-{number}")
}

/// Names an agent that posts.
pub fn sender_name(number: usize) -> String {
    format!("sender-{number}")
}

impl Plan {
    /// Draws the plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x7072_6f67_7261_6d73);
        let boxes = rng.usize(1..=3);
        let duration_ms = rng.u64(20_000..=90_000);
        let agents = rng.usize(1..=3);
        let mut programs = Vec::new();
        for agent in 0..agents {
            let many = if rng.u32(0..3) == 0 { 2 } else { 1 };
            let is_unnamed = rng.u32(0..5) == 0;
            let has_instance = many == 1 && rng.u32(0..4) == 0;
            let mode = (rng.u32(0..3) == 0).then(|| Mode::ALL[rng.usize(..Mode::ALL.len())]);
            programs.extend((0..many).map(|_| ProgramPlan {
                agent,
                on: rng.usize(..boxes),
                is_unnamed,
                has_instance,
                has_door: rng.bool(),
                mode,
            }));
        }
        let habits = Habits::draw(&mut rng, duration_ms);
        let senders = draw_senders(&mut rng, boxes, agents, duration_ms);
        let mut faults = draw_faults(&mut rng, boxes, duration_ms);
        draw_stops(&mut rng, duration_ms, &mut faults);
        Self {
            seed,
            boxes,
            duration_ms,
            latency_ms_max: [0, 2, 20, 100][rng.usize(..4)],
            agents,
            programs,
            senders,
            habits,
            faults,
        }
    }

    /// How long a program waits until what it has sent or closed is known to relay, as it would be at once on one machine: in
    /// milliseconds.
    pub fn known_ms(&self) -> u64 {
        2 * self.latency_ms_max + 50
    }
}

impl Habits {
    /// Each seed has only some of them, so that rare combinations get whole runs.
    fn draw(rng: &mut Rng, duration_ms: u64) -> Self {
        let mut chance = |of: u32| if rng.bool() { of } else { 0 };
        let [reads, posts, asks, escapes, leaves] = [6, 8, 6, 8, 3].map(&mut chance);
        let [exits, same_number, untold, dies, vanishes, hook_dies] = [3, 2, 4, 5, 5, 8].map(&mut chance);
        let clears = chance(4);
        let flushes = chance(1) > 0;
        let runs = chance(1) > 0;
        Self {
            thinks_ms_max: [1_500, 8_000, 40_000][rng.usize(..3)],
            tools_max: rng.usize(0..=6),
            tool_ms_max: [20, 300, 3_000][rng.usize(..3)],
            reads,
            posts,
            asks,
            escapes,
            leaves,
            clears,
            runs_ms_max: if runs { rng.u64(4_000..=duration_ms) } else { 0 },
            exits,
            same_number,
            untold,
            dies,
            vanishes,
            hook_dies,
            flushes_ms: if flushes { rng.u64(3_000..=20_000) } else { 0 },
        }
    }
}

fn draw_senders(rng: &mut Rng, boxes: usize, agents: usize, duration_ms: u64) -> Vec<SenderPlan> {
    let modes: Vec<Mode> = Mode::ALL
        .into_iter()
        .filter(|mode| *mode == Mode::Immediate || rng.bool())
        .collect();
    let has_long = rng.bool();
    let bursts = rng.u32(2..=6);
    let many_max = rng.usize(6..=40);
    let draw = |rng: &mut Rng| {
        let many = rng.usize(4..=many_max);
        let pause_ms_max = 2 * duration_ms / many as u64;
        let post = |rng: &mut Rng| PostPlan {
            pause_ms: if rng.u32(0..bursts) == 0 {
                rng.u64(..pause_ms_max)
            } else {
                rng.u64(..pause_ms_max / 4)
            },
            to: rng.usize(..agents),
            mode: (rng.u32(0..4) > 0).then(|| modes[rng.usize(..modes.len())]),
            is_urgent: rng.u32(0..8) == 0,
            bytes: match rng.u32(0..12) {
                0 if has_long => rng.usize(SURFACED_BYTES_MAX - 200..=SURFACED_BYTES_MAX + 500),
                1..=4 if has_long => rng.usize(1_500..=5_000),
                _ => rng.usize(40..=200),
            },
        };
        SenderPlan {
            on: rng.usize(..boxes),
            posts: (0..many).map(|_| post(rng)).collect(),
        }
    };
    (0..rng.usize(1..=2)).map(|_| draw(rng)).collect()
}
