//! The engine alone: what a post and a read cost while 10, 10,000 or 1,000,000 messages wait, and a message to many agents.
//!
//! `cargo bench --bench engine`

use std::time::Duration;

use criterion::measurement::{Measurement as _, WallTime};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use relay::engine::agents::Registration;
use relay::engine::limits::Bounds;
use relay::engine::{
    CallId, Carrier, Command, Effect, Ending, Engine, Input, Kind, Roster, SessionId, Sign, Timestamp, Who,
    mail,
};

const NOW: Timestamp = Timestamp::from_millis(1_777_732_321_000);
const SESSION: SessionId = SessionId(0);

/// An engine without bounds in its way, with an open session and `waiting` messages for dev-b.
fn engine(waiting: u64) -> (Engine, u64) {
    let bounds = Bounds {
        inbox_messages_max: usize::MAX,
        inbox_bytes_max: usize::MAX,
        ..Bounds::default()
    };
    let mut engine = Engine::new(NOW, Roster::default(), bounds, [7; 16]);
    let opened = Input::Opened {
        session: SESSION,
        carrier: Carrier::Exchange,
        who: Who::Agent(None),
    };
    let mut effects = Vec::new();
    engine.handle(NOW, opened, &mut effects);
    // Somebody is there for each, so that no sender is told otherwise.
    for agent in ["dev-a", "dev-b"] {
        engine.handle(NOW, read(u64::MAX, agent), &mut effects);
    }
    effects.clear();
    for call in 0..waiting {
        engine.handle(NOW, post(call, "dev-b"), &mut effects);
        effects.clear();
    }
    (engine, waiting)
}

fn post(call: u64, to: &str) -> Input {
    Input::Call {
        session: SESSION,
        call: CallId(call),
        // Ids need not be good here, only different.
        random: u128::from(call).to_le_bytes(),
        command: Command::Mail(mail::Command::Post {
            from: Some("pm".to_owned()),
            to: to.to_owned(),
            kind: Kind::Status,
            options: None,
            body: "b".repeat(200),
        }),
    }
}

fn read(call: u64, agent: &str) -> Input {
    Input::Call {
        session: SESSION,
        call: CallId(call),
        // Ids need not be good here, only different.
        random: u128::from(call).to_le_bytes(),
        command: Command::Mail(mail::Command::read_all(Some(agent.to_owned()), 0)),
    }
}

/// Confirms what a read has handed over.
fn confirm(engine: &mut Engine, effects: &mut Vec<Effect>) {
    let handover = effects.iter().find_map(|effect| {
        let Effect::Reply { handover, .. } = effect else {
            return None;
        };
        *handover
    });
    let handover = handover.expect("a read hands over");
    for sign in [Sign::Passed, Sign::Followed] {
        engine.handle(NOW, Input::Signed { handover, sign }, effects);
    }
    effects.clear();
}

fn post_and_read(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    for waiting in [10_u64, 10_000, 1_000_000] {
        let mut effects: Vec<Effect> = Vec::new();

        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("post behind", waiting), |b| {
            let (mut engine, mut call) = engine(waiting);
            let input = |call: &mut u64| {
                *call += 1;
                post(*call, "dev-b")
            };
            b.iter_batched(
                || input(&mut call),
                |input| {
                    engine.handle(NOW, input, &mut effects);
                    effects.clear();
                },
                BatchSize::SmallInput,
            );
        });

        group.bench_function(BenchmarkId::new("post, read and confirm beside", waiting), |b| {
            let (mut engine, mut call) = engine(waiting);
            b.iter_batched(
                || {
                    call += 2;
                    (post(call, "dev-a"), read(call + 1, "dev-a"))
                },
                |(post, read)| {
                    engine.handle(NOW, post, &mut effects);
                    engine.handle(NOW, read, &mut effects);
                    confirm(&mut engine, &mut effects);
                },
                BatchSize::SmallInput,
            );
        });

        group.throughput(Throughput::Elements(waiting));
        group.sample_size(10);
        group.bench_function(BenchmarkId::new("read all of", waiting), |b| {
            b.iter_batched_ref(
                || engine(waiting),
                |(engine, call)| {
                    engine.handle(NOW, read(*call, "dev-b"), &mut effects);
                },
                BatchSize::PerIteration,
            );
            effects.clear();
        });
        group.sample_size(100);
    }
    group.finish();
}

/// An engine in which so many agents have registered, besides those of the roster.
fn engine_of_agents(agents: u64) -> (Engine, u64) {
    let (mut engine, call) = engine(0);
    let mut effects = Vec::new();
    for agent in 0..agents {
        let registration = Registration {
            name: format!("a{agent}"),
            ..Registration::default()
        };
        let opened = Input::Opened {
            session: SessionId(1),
            carrier: Carrier::Exchange,
            who: Who::Registered(Box::new(registration)),
        };
        let closed = Input::Closed {
            session: SessionId(1),
            ending: Ending::Orderly,
        };
        for input in [opened, closed] {
            engine.handle(NOW, input, &mut effects);
        }
        effects.clear();
    }
    (engine, call)
}

/// Has each agent that a message to all is for read what waits for it, and confirms that.
fn read_by_all(engine: &mut Engine, agents: u64, mut call: u64) -> u64 {
    let mut effects = Vec::new();
    let registered = (0..agents).map(|agent| format!("a{agent}"));
    for agent in registered.chain(["dev-a", "dev-b"].map(str::to_owned)) {
        call += 1;
        engine.handle(NOW, read(call, &agent), &mut effects);
        confirm(engine, &mut effects);
    }
    call
}

/// What a delivery costs where one message goes to many inboxes, and a message to one where there are many agents.
fn fan_out(c: &mut Criterion) {
    let mut group = c.benchmark_group("fan-out");
    group.sample_size(20);
    for agents in [1_u64, 100, 10_000] {
        let mut effects: Vec<Effect> = Vec::new();
        // To those that have registered, and to the two of the roster that did not send it.
        group.throughput(Throughput::Elements(agents + 2));
        group.bench_function(BenchmarkId::new("post to all of", agents), |b| {
            let (mut engine, mut call) = engine_of_agents(agents);
            b.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                for _ in 0..times {
                    call += 1;
                    let input = post(call, "@everyone");
                    let began = WallTime.start();
                    engine.handle(NOW, input, &mut effects);
                    effects.clear();
                    spent += WallTime.end(began);
                    call = read_by_all(&mut engine, agents, call);
                }
                spent
            });
        });
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("post to one of", agents), |b| {
            let (mut engine, mut call) = engine_of_agents(agents);
            b.iter_batched(
                || {
                    call += 1;
                    post(call, "a0")
                },
                |input| {
                    engine.handle(NOW, input, &mut effects);
                    effects.clear();
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, post_and_read, fan_out);
criterion_main!(benches);
