//! The engine beside a reference model, and its histories before the laws of the contract: random inputs from seeds.
//!
//! A failure prints the seed, the last inputs and a line that replays it. `RELAY_MODEL_SEED=7` runs one seed,
//! `RELAY_MODEL_SEED=0..5000` a range of them. With `--nocapture` the first test prints how
//! often each mark was reached.

mod laws;
mod marks;
mod plan;
mod random;
mod reference;

use std::ops::Range;

use laws::Step;
use marks::Marks;
use plan::{Event, Plan};
use random::SplitMix;
use reference::Model;
use relay::engine::Engine;

/// How many seeds a test runs. Each draws its own bounds and weights.
const SEEDS: Range<u64> = 0..170;

/// How many inputs a seed makes.
const STEPS: usize = 2_000;

/// How many of the last inputs a failure shows.
const STEPS_SHOWN: usize = 20;

#[test]
fn the_engine_does_what_the_model_does() {
    let (seeds, chosen) = seeds();
    let mut marks = Marks::default();
    for seed in seeds {
        let mut run = Run::new(seed);
        let mut model = Model::new(
            run.plan.now,
            run.plan.roster.clone(),
            run.plan.bounds,
            random_bytes(seed),
        );
        run.go(|engine, step| {
            let effects = match step.event.clone() {
                Event::Input(input) => model.handle(step.now, input),
                Event::Timeout => model.handle_timeout(step.now),
            };
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
    for seed in seeds().0 {
        let mut run = Run::new(seed);
        run.go(|_, _| {});
        if let Err(broken) = laws::judge(&run.steps, &run.plan.bounds) {
            run.steps.truncate(broken.step + 1);
            panic!("law broken in step {}: {}", broken.step, broken.law);
        }
    }
}

#[test]
fn the_same_inputs_give_the_same_effects() {
    let [first, second] = [(); 2].map(|()| {
        let mut run = Run::new(1);
        run.go(|_, _| {});
        run.steps.clone()
    });
    assert!(first == second, "two runs of seed 1 differ");
}

/// One seed's engine and what happened to it. Shows how to see it again when its test fails.
struct Run {
    seed: u64,
    plan: Plan,
    engine: Engine,
    steps: Vec<Step>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let plan = Plan::new(seed);
        let mut random = random_bytes(seed);
        let random = Box::new(move || random.bytes());
        let engine = Engine::new(plan.now, plan.roster.clone(), plan.bounds, random);
        Self {
            seed,
            plan,
            engine,
            steps: Vec::new(),
        }
    }

    /// Makes everything happen, and at last shows everything that is left.
    fn go(&mut self, mut check: impl FnMut(&Engine, &Step)) {
        for _ in 0..STEPS {
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
            effects: Vec::new(),
            after: before.clone(),
            before,
        });
        let step = self.steps.last_mut().expect("just pushed");
        match event {
            Event::Input(input) => self.engine.handle(now, input, &mut step.effects),
            Event::Timeout => self.engine.handle_timeout(now, &mut step.effects),
        }
        step.after = self.engine.status();
        self.plan.saw(&step.event, &step.effects);
        check(&self.engine, step);
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
            "replay: RELAY_MODEL_SEED={} cargo test -p relay --no-default-features --test model",
            self.seed
        );
    }
}

/// Makes the bytes that the engine and the model both draw their ids from.
fn random_bytes(seed: u64) -> SplitMix {
    SplitMix::new(!seed)
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
