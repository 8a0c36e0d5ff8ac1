//! The engine beside a reference model, and its histories before the laws of the contract: random inputs from seeds.
//!
//! A failure prints the seed, the last inputs and a line that replays it. `RELAY_MODEL_SEED=7` runs one seed,
//! `RELAY_MODEL_SEED=0..5000` a range of them. With `--nocapture` the first test prints how
//! often each mark was reached.

mod follower;
mod laws;
mod marks;
mod plan;
mod random;
mod reference;

use std::collections::BTreeMap;
use std::ops::Range;

use follower::{Follower, assert_told};
use laws::{EngineInput, Step};
use marks::Marks;
use plan::{Event, Plan};
use random::Random;
use reference::Model;
use relay::engine::address::Home;
use relay::engine::{CallId, Effect, Engine, HandoverId, Input, Reply, Sign, mail};

/// How many seeds a test runs. Each draws its own bounds and weights.
const SEEDS: Range<u64> = 0..300;

/// Seeds behind those that failed once.
const FAILED_ONCE: [u64; 1] = [317];

/// One seed in so many is enough for what is compared whole after every step.
const STATE_SEEDS_STEP: usize = 5;

/// How many inputs a seed makes.
const STEPS: usize = 2_000;

/// How many of the last inputs a failure shows.
const STEPS_SHOWN: usize = 20;

#[test]
fn the_engine_does_what_the_model_does() {
    let (seeds, chosen) = seeds();
    let mut marks = Marks::default();
    let kept = FAILED_ONCE.into_iter().filter(|_| !chosen);
    for seed in seeds.chain(kept) {
        let mut run = Run::new(seed);
        let mut model = Model::new(
            run.plan.now,
            run.plan.roster.clone(),
            run.plan.bounds,
            run.plan.home,
            run.plan.had_sessions.clone(),
            boot_bytes(seed),
        );
        run.go(|engine, step| {
            let effects = model.handle(step.now, step.event.clone());
            assert_eq!(step.effects, effects, "effects: engine left, model right");
            assert_eq!(step.after, model.status(), "status: engine left, model right");
            assert_eq!(
                engine.overview(),
                model.overview(),
                "overview: engine left, model right"
            );
            assert_eq!(
                engine.poll_timeout(),
                model.poll_timeout(),
                "poll_timeout: engine left, model right"
            );
        });
        marks.add(&model.marks);
    }
    eprintln!("{marks:?}");
    let missed = marks.missed();
    assert!(
        chosen || missed.is_empty(),
        "never reached: {missed:?}; all: {marks:?}"
    );
}

#[test]
fn every_history_keeps_the_contract() {
    for seed in seeds().0.filter(|seed| laws::may_judge(*seed)) {
        let mut run = Run::new(seed);
        run.go(|_, _| {});
        if let Err(broken) = laws::judge(&run.steps, &run.plan.bounds, run.plan.had_sessions.as_ref()) {
            run.steps.truncate(broken.step + 1);
            panic!("law broken in step {}: {}", broken.step, broken.law);
        }
    }
}

#[test]
fn the_same_inputs_make_the_same_state_after_every_step() {
    for seed in seeds().0.step_by(STATE_SEEDS_STEP) {
        let mut run = Run::new(seed);
        let mut twin = run.engine.clone();
        let mut at = 0;
        run.go(|engine, step| {
            // What time alone does is no refusal's doing.
            let mut before = twin.clone();
            let call = CallId(u64::MAX);
            before.handle(step.now, Input::Cancelled { call }, &mut Vec::new());
            let effects = step.input.run(&mut twin, step.now);
            assert_eq!(step.all_effects, effects, "step {at}");
            assert!(*engine == twin, "step {at}: two engines differ");
            if let [Effect::Opened { result: Err(_), .. } | Effect::Reply { result: Err(_), .. }] =
                effects[..]
            {
                assert!(before == twin, "step {at}: a refusal changed something");
            }
            at += 1;
        });
    }
}

#[test]
fn a_copy_taken_anywhere_goes_on_like_the_original() {
    for seed in seeds().0.step_by(STATE_SEEDS_STEP) {
        let mut run = Run::new(seed);
        let snapshot_at = usize::try_from(seed).expect("a small seed") * 97 % STEPS;
        let mut snapshot = None;
        let mut at = 0;
        run.go(|engine, _| {
            at += 1;
            if at == snapshot_at {
                snapshot = Some(restored(engine));
            }
        });
        let mut copy = snapshot.unwrap_or_else(|| Run::new(seed).engine.clone());
        for (at, step) in run.steps.iter().enumerate().skip(snapshot_at) {
            let effects = step.input.run(&mut copy, step.now);
            assert_eq!(step.all_effects, effects, "step {at}: original left, copy right");
        }
        assert!(copy == run.engine, "the copy ends like the original");
    }
}

/// Makes an engine anew from what is kept of another.
#[cfg(feature = "serde")]
fn restored(engine: &Engine) -> Engine {
    let kept = serde_json::to_string(engine).expect("plain data");
    serde_json::from_str(&kept).expect("what was written can be read")
}

/// Makes a copy of an engine.
#[cfg(not(feature = "serde"))]
fn restored(engine: &Engine) -> Engine {
    engine.clone()
}

/// Inputs can be kept, too.
#[cfg(feature = "serde")]
#[test]
fn inputs_are_read_as_they_were_written() {
    let mut run = Run::new(1);
    run.go(|_, step| {
        if let EngineInput::Input(input) = &step.input {
            let kept = serde_json::to_string(input).expect("plain data");
            let read: Input = serde_json::from_str(&kept).expect("what was written can be read");
            assert_eq!(*input, read);
        }
    });
}

#[test]
fn the_events_tell_all_that_a_person_may_see() {
    for seed in seeds().0.step_by(STATE_SEEDS_STEP) {
        let mut run = Run::new(seed);
        let roster = run.plan.roster.clone();
        let mut follower = Follower::default();
        run.go(|engine, step| {
            for effect in &step.all_effects {
                if let Effect::Note(event) = effect {
                    follower.note(event);
                }
            }
            assert_told(&follower, &engine.overview(), &roster);
        });
    }
}

/// One seed's engine and what happened to it. Shows how to see it again when its test fails.
struct Run {
    seed: u64,
    plan: Plan,
    engine: Engine,
    steps: Vec<Step>,
    /// The hand-overs in the replies to calls.
    handovers: BTreeMap<CallId, HandoverId>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let plan = Plan::new(seed);
        let engine = Engine::new(plan.now, plan.roster.clone(), plan.bounds, boot_bytes(seed));
        let engine = engine
            .at_home_in(plan.home.map_or_else(Home::default, Home::of))
            .after_sessions_of(plan.had_sessions.clone());
        Self {
            seed,
            plan,
            engine,
            steps: Vec::new(),
            handovers: BTreeMap::new(),
        }
    }

    /// Makes everything happen, and at last shows everything that is left.
    fn go(&mut self, check: impl FnMut(&Engine, &Step)) {
        self.go_on(STEPS, check);
    }

    /// The same for a run of another length.
    fn go_on(&mut self, steps: usize, mut check: impl FnMut(&Engine, &Step)) {
        for _ in 0..steps {
            let due = self.engine.poll_timeout().map(|(at, _)| at);
            let event = self.plan.next(due);
            self.step(event, &mut check);
        }
        for event in self.plan.end() {
            self.step(event, &mut check);
        }
    }

    fn step(&mut self, event: Event, check: &mut impl FnMut(&Engine, &Step)) {
        let now = self.plan.now;
        let before = self.steps.last().map(|step| step.after.clone());
        let before = before.unwrap_or_else(|| self.engine.status());
        // Listed before it is done: the engine's own assertions may end it here.
        self.steps.push(Step {
            now,
            event: event.clone(),
            input: EngineInput::Timeout,
            all_effects: Vec::new(),
            effects: Vec::new(),
            after: before.clone(),
            before,
        });
        let input = self.input(event);
        let all_effects = input.run(&mut self.engine, now);
        let effects = all_effects.iter();
        let effects = effects.filter_map(|effect| self.seen(effect)).collect();
        let step = self.steps.last_mut().expect("just pushed");
        step.input = input;
        step.all_effects = all_effects;
        step.effects = effects;
        step.after = self.engine.status();
        self.plan.saw(&step.event, &step.effects);
        check(&self.engine, step);
    }
}

/// Between the calls of a plan and the hand-overs of the engine.
impl Run {
    /// Makes an event the engine's.
    fn input(&self, event: Event) -> EngineInput {
        EngineInput::Input(match event {
            Event::Timeout => return EngineInput::Timeout,
            Event::Input(input) => input,
            Event::Seen(call, sign) => match (self.handovers.get(&call), sign) {
                (Some(&handover), _) => Input::Signed { handover, sign },
                (None, Sign::Cancelled | Sign::Lost) => Input::Cancelled { call },
                (None, _) => Input::Signed {
                    handover: HandoverId(u64::MAX),
                    sign,
                },
            },
        })
    }

    /// Takes the number of a hand-over out of a reply; none for an event that no caller hears of.
    fn seen(&mut self, effect: &Effect) -> Option<Effect> {
        match effect {
            Effect::Reply {
                call,
                result,
                handover,
            } => {
                let hands_over = matches!(result, Ok(Reply::Mail(mail::Reply::Messages { deliveries, restarted, .. }))
                    if !deliveries.is_empty() || restarted.is_some())
                    || matches!(result, Ok(Reply::AfterStart { .. }));
                assert_eq!(handover.is_some(), hands_over, "{call:?}: {result:?}");
                self.handovers.extend(handover.map(|handover| (*call, handover)));
                Some(Effect::Reply {
                    call: *call,
                    result: result.clone(),
                    handover: None,
                })
            }
            Effect::Note(relay::engine::Event::Accepted { .. }) | Effect::Opened { .. } => {
                Some(effect.clone())
            }
            Effect::Changed { .. }
            | Effect::Deliver { .. }
            | Effect::Tell { .. }
            | Effect::Invoke { .. }
            | Effect::StartWorker(_)
            | Effect::EndWorker { .. }
            | Effect::Superseded { .. } => Some(effect.clone()),
            Effect::Note(_) => None,
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let from = self.steps.len().saturating_sub(STEPS_SHOWN);
        eprintln!("\nseed {}, {:?}", self.seed, self.plan.bounds);
        for (at, step) in self.steps.iter().enumerate().skip(from) {
            eprintln!("step {at}, {} ms: {:?}", step.now.as_millis(), step.event);
            for effect in &step.effects {
                eprintln!("    {effect:?}");
            }
        }
        eprintln!(
            "replay: RELAY_MODEL_SEED={} cargo test -p relay --no-default-features --test engine model",
            self.seed
        );
    }
}

/// Makes the bytes of which the engine and the model both make their boot id.
fn boot_bytes(seed: u64) -> [u8; 16] {
    Random::new(!seed ^ 1).bytes()
}

/// Returns the seeds to run, and whether the caller chose them.
fn seeds() -> (Range<u64>, bool) {
    #[expect(clippy::disallowed_methods, reason = "a replay is asked for from outside")]
    let Ok(chosen) = std::env::var("RELAY_MODEL_SEED") else {
        return (SEEDS, false);
    };
    let number = |text: &str| {
        text.parse::<u64>()
            .expect("RELAY_MODEL_SEED is like 7 or 0..5000")
    };
    let range = match chosen.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&chosen)..number(&chosen) + 1,
    };
    (range, true)
}
