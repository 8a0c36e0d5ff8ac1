//! Runs seeds by hand.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use sim::campaign::{Campaign, campaign, run_seed};
use sim::laws::Violation;
use sim::nodes;
use sim::plan::Plan;
use sim::programs;
use sim::tap::Bug;
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
    /// Run seeded bugs, and say for each seed which laws report them.
    Bugs {
        /// How many seeds each.
        #[arg(long, default_value_t = 10)]
        seeds: u64,
        /// Which one, by its name; all of them if none is given.
        #[arg(long)]
        bug: Option<String>,
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
    #[arg(long, requires = "seed")]
    bug: Option<String>,
}

/// What a run has done, and which laws it broke.
type Ran = Result<(Vec<String>, Vec<Violation>), Violation>;

/// What is said of many runs, the first that broke a law, and what was required and never happened.
type Summed = (String, Option<(u64, Violation)>, Vec<&'static str>);

/// A suite beside the one of the contract, by its subcommand.
struct Suite<Bug> {
    name: &'static str,
    bugs: Vec<Bug>,
    run: fn(u64, Option<Bug>) -> Ran,
    campaign: fn(u64, u64) -> Summed,
}

impl<Bug: Copy + std::fmt::Debug> Suite<Bug> {
    fn carry_out(&self, asked: &Seeds) -> ExitCode {
        match asked.seed {
            Some(seed) => self.run(seed, asked.bug.as_deref()),
            None => self.campaign(asked.from, asked.seeds),
        }
    }

    fn run(&self, seed: u64, bug: Option<&str>) -> ExitCode {
        let named = |name: &str| self.bugs.iter().find(|bug| format!("{bug:?}") == name);
        let bug = match bug.map(|name| named(name).ok_or(name)).transpose() {
            Ok(bug) => bug.copied(),
            Err(name) => {
                println!("there is no bug {name:?}; accepted: {:?}", self.bugs);
                return ExitCode::FAILURE;
            }
        };
        let (trace, violations) = match (self.run)(seed, bug) {
            Ok(ran) => ran,
            Err(violation) => return self.fail(seed, &violation),
        };
        trace.iter().for_each(|line| println!("{line}"));
        match violations.first() {
            Some(violation) => self.fail(seed, violation),
            None => ExitCode::SUCCESS,
        }
    }

    fn campaign(&self, from: u64, seeds: u64) -> ExitCode {
        let (summary, failure, missing) = (self.campaign)(from, seeds);
        println!("{summary}");
        if let Some((seed, violation)) = &failure {
            return self.fail(*seed, violation);
        }
        if !missing.is_empty() {
            println!("required, but never happened: {}", missing.join(", "));
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }

    fn fail(&self, seed: u64, Violation { law, detail }: &Violation) -> ExitCode {
        println!("seed {seed} broke the law \"{law}\": {detail}");
        println!("replay: cargo run -p sim -- {} --seed {seed}", self.name);
        ExitCode::FAILURE
    }
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { seed, trace } => run(seed, trace),
        Command::Campaign { seeds, from, minutes } => run_campaign(Campaign {
            from,
            seeds,
            time_max: minutes.map(|minutes| Duration::from_secs(60 * minutes)),
            progress: true,
        }),
        Command::Meta { seed } => meta(seed),
        Command::Bugs { seeds, bug } => bugs(seeds, bug.as_deref()),
        Command::Nodes(asked) => Suite {
            name: "nodes",
            bugs: nodes::bug::Bug::ALL.to_vec(),
            run: |seed, bug| nodes::run_seed(seed, bug).map(|run| (run.history.trace, run.violations)),
            campaign: |from, seeds| {
                let summary = nodes::campaign(from, seeds);
                let (text, missing) = (summary.to_string(), summary.missing());
                (text, summary.failure, missing)
            },
        }
        .carry_out(&asked),
        Command::Programs(asked) => Suite {
            name: "programs",
            bugs: programs::bug::Bug::ALL.to_vec(),
            run: |seed, bug| programs::run_seed(seed, bug).map(|run| (run.history.trace, run.violations)),
            campaign: |from, seeds| {
                let summary = programs::campaign(from, seeds);
                let (text, missing) = (summary.to_string(), summary.missing());
                (text, summary.failure, missing)
            },
        }
        .carry_out(&asked),
        Command::Workers { whole: true, asked } => Suite {
            name: "workers --whole",
            bugs: workers::whole::bug::Bug::ALL.to_vec(),
            run: |seed, bug| workers::whole::run_seed(seed, bug).map(|run| (run.trace, run.violations)),
            campaign: |from, seeds| {
                let summary = workers::whole::campaign(from, seeds);
                let (text, missing) = (summary.to_string(), summary.missing());
                (text, summary.failure, missing)
            },
        }
        .carry_out(&asked),
        Command::Workers { whole: false, asked } => Suite {
            name: "workers",
            bugs: workers::bug::Bug::ALL.to_vec(),
            run: |seed, bug| workers::run_seed(seed, bug).map(|run| (run.trace, run.violations)),
            campaign: |from, seeds| {
                let summary = workers::campaign(from, seeds);
                let (text, missing) = (summary.to_string(), summary.missing());
                (text, summary.failure, missing)
            },
        }
        .carry_out(&asked),
        Command::Shrink { seed } => shrink(seed),
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

fn bugs(seeds: u64, name: Option<&str>) -> ExitCode {
    let named = |bug: &Bug| name.is_none_or(|name| format!("{bug:?}") == name);
    for bug in Bug::ALL.into_iter().filter(named) {
        for seed in 0..seeds {
            let violations = match run_seed(seed, Some(bug)) {
                Ok(run) => run.violations,
                Err(violation) => vec![violation],
            };
            let laws: Vec<_> = violations.iter().map(|violation| violation.law).collect();
            if !laws.is_empty() {
                println!("{bug:?} {seed}: {}", laws.join("; "));
            }
        }
    }
    ExitCode::SUCCESS
}

fn meta(seed: u64) -> ExitCode {
    let once = || {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = std::process::Command::new(program);
        command
            .args(["run", "--trace", "--seed", &seed.to_string()])
            .env("RUST_LOG", "trace");
        let output = command.output().expect("this program can be started again");
        (output.stdout, without_dates(&output.stderr))
    };
    let (one, other) = (once(), once());
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
    match sim::shrink::shrink(&Plan::draw(seed), None) {
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
