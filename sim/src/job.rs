//! Seeds that another process asks for: a line of JSON in, a line of JSON out.
//!
//! A process has one run at a time ([`crate::alone`]), so whoever wants to keep several cores busy starts as many processes with `sim job`
//! as there are cores. Such a process ends with its stdin, whatever it is doing then, so that none outlives who started it. Answers
//! come in the order of the jobs; who closes stdin before the last has come does without it.

#![expect(
    clippy::disallowed_methods,
    reason = "its stdin is read beside what it runs, so that it ends with it"
)]

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::{ExitCode, exit};
use std::sync::mpsc::channel;
use std::thread;

use serde_json::{Value, json};

use crate::suites::Suite;

/// How many of the last lines of a trace are told where a law was broken.
const LINES: usize = 40;

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The name of its suite.
    pub suite: String,
    /// Which seed.
    pub seed: u64,
    /// With which mistake, by its name.
    pub bug: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The laws that were broken, and by what.
    pub violations: Vec<(String, String)>,
    /// How often each thing happened.
    pub marks: BTreeMap<String, u64>,
    /// The last that happened, where a law was broken.
    pub last: Vec<String>,
}

impl Job {
    /// Writes it down in a line.
    pub fn to_line(&self) -> String {
        json!({"suite": self.suite, "seed": self.seed, "bug": self.bug}).to_string()
    }

    /// Reads what [`Self::to_line`] wrote; none if it is anything else.
    pub fn from_line(line: &str) -> Option<Self> {
        let job: Value = serde_json::from_str(line).ok()?;
        Some(Self {
            suite: job["suite"].as_str()?.to_owned(),
            seed: job["seed"].as_u64()?,
            bug: job["bug"].as_str().map(str::to_owned),
        })
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// When there is no such suite, or it makes no such mistake, in words. Nothing was run.
    pub fn run(&self) -> Result<Answer, String> {
        let suite = Suite::named(&self.suite).ok_or_else(|| format!("there is no suite {:?}", self.suite))?;
        let run = suite
            .run(self.seed, self.bug.as_deref())
            .map_err(|refused| refused.to_string())?;
        let violations = run.violations.into_iter();
        let violations: Vec<_> = violations
            .map(|violation| (violation.law.to_owned(), violation.detail))
            .collect();
        let marks = run.marks.into_iter();
        let from = if violations.is_empty() {
            run.trace.len()
        } else {
            run.trace.len().saturating_sub(LINES)
        };
        Ok(Answer {
            violations,
            marks: marks.map(|(mark, count)| (mark.to_owned(), count)).collect(),
            last: run.trace[from..].to_vec(),
        })
    }
}

impl Answer {
    /// Writes it down in a line.
    pub fn to_line(&self) -> String {
        json!({"violations": self.violations, "marks": self.marks, "last": self.last}).to_string()
    }

    /// Reads what [`Self::to_line`] wrote; none if it is anything else.
    pub fn from_line(line: &str) -> Option<Self> {
        let answer: Value = serde_json::from_str(line).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let violations = answer["violations"].as_array()?.iter();
        let marks = answer["marks"].as_object()?.iter();
        Some(Self {
            violations: violations
                .map(|pair| Some((text(&pair[0])?, text(&pair[1])?)))
                .collect::<Option<_>>()?,
            marks: marks
                .map(|(mark, count)| Some((mark.clone(), count.as_u64()?)))
                .collect::<Option<_>>()?,
            last: answer["last"]
                .as_array()?
                .iter()
                .map(text)
                .collect::<Option<_>>()?,
        })
    }
}

/// Carries out jobs from stdin until it ends.
pub fn serve() -> ExitCode {
    // A panic is an answer here, and says itself what it is about.
    std::panic::set_hook(Box::new(|_| {}));
    let (jobs, asked) = channel();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if jobs.send(line).is_err() {
                break;
            }
        }
        exit(0);
    });
    for line in asked {
        let job = Job::from_line(&line).ok_or_else(|| format!("this is no job: {line}"));
        match job.and_then(|job| job.run()) {
            Ok(answer) => {
                let mut stdout = io::stdout().lock();
                if writeln!(stdout, "{}", answer.to_line())
                    .and_then(|()| stdout.flush())
                    .is_err()
                {
                    return ExitCode::FAILURE;
                }
            }
            Err(refused) => {
                eprintln!("{refused}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
