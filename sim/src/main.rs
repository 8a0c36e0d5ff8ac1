//! Runs seeds by hand.

use std::collections::BTreeSet;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::{Parser, Subcommand};
use sim::campaign::{Campaign, campaign, run_seed};
use sim::laws::Violation;
use sim::nodes;
use sim::plan::Plan;
use sim::programs;
use sim::suites::{self, Suite};
use sim::workers;

/// Tries to break relay's delivery contract.
#[derive(Parser)]
#[command(name = "sim", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one seed.
    Run {
        /// Which.
        #[arg(long)]
        seed: u64,
        /// With a seeded bug, by its name; all that happened is printed.
        #[arg(long)]
        bug: Option<String>,
        /// Print all that happened, and the server's own trace on stderr as RUST_LOG says.
        #[arg(long)]
        trace: bool,
    },
    /// Run many seeds, until the first violation.
    Campaign {
        /// How many.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// The first one.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Stop after that many minutes.
        #[arg(long)]
        minutes: Option<u64>,
    },
    /// Run one seed twice, each time in a process of its own, and compare every byte.
    Meta {
        /// Which.
        #[arg(long)]
        seed: u64,
    },
    /// Run seeded bugs with the seeds that are to catch them, or with so many seeds, and say which laws report them.
    Bugs {
        /// Of which suite; of all if none is given.
        #[arg(long, value_parser = suites::SUITES.map(|suite| suite.name))]
        suite: Option<String>,
        /// Which one, by its name; all of them if none is given.
        #[arg(long)]
        bug: Option<String>,
        /// How many seeds each, the first ones; else the one that is to catch it.
        #[arg(long)]
        seeds: Option<u64>,
    },
    /// Run seeds in which agents are delivered to by their own nodes: many, until the first violation, or one.
    Nodes(Seeds),
    /// Run seeds in which models are shown what waits by the hooks of their programs: many, until the first violation, or one.
    Programs(Seeds),
    /// Run seeds in which agents start others and end them: many, until the first violation, or one.
    Workers {
        /// In the whole server, with a network, and not around the engine alone.
        #[arg(long)]
        whole: bool,
        #[command(flatten)]
        asked: Seeds,
    },
    /// Make the plan of a failing seed smaller.
    Shrink {
        /// Which.
        #[arg(long)]
        seed: u64,
    },
    /// Run the seeds that stdin asks for, a line of JSON each, and answer in lines of JSON; ends with stdin.
    Job,
}

/// Which seeds of a suite are run.
#[derive(clap::Args)]
struct Seeds {
    /// How many.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first one.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// This one alone, with all that happened.
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// With a seeded bug, by its name.
    #[arg(long, requires = "seed", conflicts_with_all = ["seeds", "from"])]
    bug: Option<String>,
}

/// What is said of many runs, the first that broke a law, and what was required and never happened.
type Summed = (String, Option<(u64, Violation)>, Vec<&'static str>);

/// Runs what is asked of a suite beside the one of the contract; `campaign` runs many of its seeds.
fn carry_out(suite: &Suite, asked: &Seeds, campaign: fn(u64, u64) -> Summed) -> ExitCode {
    match asked.seed {
        Some(seed) => run_one(suite, seed, asked.bug.as_deref()),
        None => run_many(suite, campaign(asked.from, asked.seeds)),
    }
}

fn run_one(suite: &Suite, seed: u64, bug: Option<&str>) -> ExitCode {
    let run = match suite.run(seed, bug) {
        Ok(run) => run,
        Err(refused) => {
            println!("{refused}");
            return ExitCode::FAILURE;
        }
    };
    run.trace.iter().for_each(|line| println!("{line}"));
    match run.violations.first() {
        Some(violation) => broke(suite, seed, bug, violation),
        None => ExitCode::SUCCESS,
    }
}

fn run_many(suite: &Suite, (summary, failure, missing): Summed) -> ExitCode {
    println!("{summary}");
    if let Some((seed, violation)) = &failure {
        return broke(suite, *seed, None, violation);
    }
    if !missing.is_empty() {
        println!("required, but never happened: {}", missing.join(", "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn broke(suite: &Suite, seed: u64, bug: Option<&str>, Violation { law, detail }: &Violation) -> ExitCode {
    println!("seed {seed} broke the law \"{law}\": {detail}");
    println!("replay: {}", suite.replay(seed, bug));
    ExitCode::FAILURE
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run {
            seed,
            bug: Some(bug),
            trace: _,
        } => run_one(&suites::CONTRACT, seed, Some(&bug)),
        Command::Run {
            seed,
            bug: None,
            trace,
        } => run(seed, trace),
        Command::Campaign { seeds, from, minutes } => run_campaign(Campaign {
            from,
            seeds,
            time_max: minutes.map(|minutes| Duration::from_secs(60 * minutes)),
            progress: true,
        }),
        Command::Meta { seed } => meta(seed),
        Command::Bugs { suite, bug, seeds } => bugs(suite.as_deref(), bug.as_deref(), seeds),
        Command::Nodes(asked) => carry_out(&suites::NODES, &asked, |from, seeds| {
            let summary = nodes::campaign(from, seeds);
            let (text, missing) = (summary.to_string(), summary.missing());
            (text, summary.failure, missing)
        }),
        Command::Programs(asked) => carry_out(&suites::PROGRAMS, &asked, |from, seeds| {
            let summary = programs::campaign(from, seeds);
            let (text, missing) = (summary.to_string(), summary.missing());
            (text, summary.failure, missing)
        }),
        Command::Workers { whole: true, asked } => carry_out(&suites::WHOLE, &asked, |from, seeds| {
            let summary = workers::whole::campaign(from, seeds);
            let (text, missing) = (summary.to_string(), summary.missing());
            (text, summary.failure, missing)
        }),
        Command::Workers { whole: false, asked } => carry_out(&suites::WORKERS, &asked, |from, seeds| {
            let summary = workers::campaign(from, seeds);
            let (text, missing) = (summary.to_string(), summary.missing());
            (text, summary.failure, missing)
        }),
        Command::Shrink { seed } => shrink(seed),
        Command::Job => sim::job::serve(),
    }
}

fn run(seed: u64, trace: bool) -> ExitCode {
    if trace {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .without_time()
            .with_ansi(false)
            .with_writer(std::io::stderr)
            .init();
    }
    let run = match run_seed(seed, None) {
        Ok(run) => run,
        Err(violation) => return fail(seed, &[violation], &[]),
    };
    if trace {
        run.history.trace.iter().for_each(|line| println!("{line}"));
    }
    println!("digest {:016x}", run.history.digest());
    if run.violations.is_empty() {
        println!("seed {seed}: {:?}", run.report);
        return ExitCode::SUCCESS;
    }
    fail(seed, &run.violations, &run.history.trace)
}

/// Says which laws were broken, by what, under which parameters, and how to see it again.
fn fail(seed: u64, violations: &[Violation], trace: &[String]) -> ExitCode {
    let plan = Plan::draw(seed);
    println!("{:#?}\n{:#?}", plan.params, plan.faults);
    let last = trace.len().saturating_sub(40);
    trace[last..].iter().for_each(|line| println!("{line}"));
    for Violation { law, detail } in violations {
        println!("seed {seed} broke the law \"{law}\": {detail}");
    }
    println!("replay: cargo run -p sim -- run --seed {seed} --trace");
    ExitCode::FAILURE
}

fn run_campaign(plan: Campaign) -> ExitCode {
    let summary = campaign(plan);
    eprintln!();
    println!("{summary}");
    if let Some((seed, violation)) = &summary.failure {
        return fail(*seed, std::slice::from_ref(violation), &[]);
    }
    let missing = summary.missing();
    if !missing.is_empty() {
        let seeds = summary.seeds;
        println!(
            "required of {seeds} seeds, but never happened: {}",
            missing.join(", ")
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs seeded bugs, each with the seed that is to catch it, or with so many seeds.
fn bugs(suite: Option<&str>, bug: Option<&str>, seeds: Option<u64>) -> ExitCode {
    let mut all_are_caught = true;
    let suites = suites::SUITES.into_iter();
    for suite in suites.filter(|asked| suite.is_none_or(|name| asked.name == name)) {
        let mut reported = BTreeSet::new();
        let seeded = (suite.seeded)().into_iter();
        for seeded in seeded.filter(|seeded| bug.is_none_or(|name| seeded.bug == name)) {
            let mut is_caught = false;
            let tried = seeds.map_or(seeded.seed..seeded.seed + 1, |seeds| 0..seeds);
            for seed in tried {
                let run = suite.run(seed, Some(&seeded.bug)).expect("it is in the table");
                let laws: Vec<_> = run.violations.iter().map(|violation| violation.law).collect();
                if laws.is_empty() {
                    continue;
                }
                println!("{}: {} {seed}: {}", suite.name, seeded.bug, laws.join("; "));
                reported.extend(laws);
                is_caught = true;
            }
            if !is_caught {
                println!("{}: {} is not caught", suite.name, seeded.bug);
                all_are_caught = false;
            }
        }
        let silent = (suite.laws)().into_iter().filter(|law| !reported.contains(law));
        silent.for_each(|law| println!("{}: reported nothing: {law}", suite.name));
    }
    if all_are_caught {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn meta(seed: u64) -> ExitCode {
    let start = || {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = std::process::Command::new(program);
        command
            .args(["run", "--trace", "--seed", &seed.to_string()])
            .env("RUST_LOG", "trace")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("this program can be started again")
    };
    let printed = |process: std::process::Child| {
        let output = process.wait_with_output().expect("it runs to its end");
        (output.stdout, without_dates(&output.stderr))
    };
    // Both at once: the other's pipes are read by a thread of its own, since they hold less than it prints.
    let (one, other) = (start(), start());
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| printed(other));
        (printed(one), other.join().expect("no panic"))
    });
    if one == other {
        println!("seed {seed}: the same {} bytes twice", one.0.len() + one.1.len());
        return ExitCode::SUCCESS;
    }
    let lines = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes)
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for (name, one, other) in [("stdout", &one.0, &other.0), ("stderr", &one.1, &other.1)] {
        let (one, other) = (lines(one), lines(other));
        let at = one.iter().zip(&other).position(|(a, b)| a != b);
        if let Some(at) = at {
            println!(
                "{name} differs first in line {}:\n< {}\n> {}",
                at + 1,
                one[at],
                other[at]
            );
        }
    }
    println!("seed {seed} is not deterministic");
    ExitCode::FAILURE
}

/// Blanks the Date headers and the process id of `/health` in turmoil's dumps of segments: the two things in a run that
/// its seed does not decide.
fn without_dates(trace: &[u8]) -> Vec<u8> {
    const NAME: &str = "0x64, 0x61, 0x74, 0x65, 0x3A, 0x20, ";
    /// `Sat, 21 Nov 2026 23:27:15 GMT`.
    const DATE_BYTES: usize = 29;
    let text = String::from_utf8_lossy(trace);
    let mut parts = text.split(NAME);
    let mut blanked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        blanked.push_str(NAME);
        blanked.extend(part.splitn(DATE_BYTES + 1, ", ").skip(DATE_BYTES));
    }
    // `"pid":`.
    const PID: &str = "0x22, 0x70, 0x69, 0x64, 0x22, 0x3A, ";
    let mut parts = blanked.split(PID);
    let mut without = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        without.push_str(PID);
        let is_digit = |byte: &&str| byte.len() == 4 && byte.starts_with("0x3") && *byte <= "0x39";
        let rest: Vec<&str> = part.split(", ").skip_while(is_digit).collect();
        without.push_str(&rest.join(", "));
    }
    without.into_bytes()
}

fn shrink(seed: u64) -> ExitCode {
    match sim::shrink::shrink(&Plan::draw(seed), None, usize::MAX) {
        None => {
            println!("seed {seed} breaks no law");
            ExitCode::SUCCESS
        }
        Some((plan, violation)) => {
            println!("{plan:#?}");
            println!("breaks the law \"{}\": {}", violation.law, violation.detail);
            ExitCode::FAILURE
        }
    }
}
