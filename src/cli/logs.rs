//! `relay logs`: what a worker has written, as its terminal showed it.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::messages::{check_stdout, write_stdout};
use super::worker_files::Which;
use super::{End, Failure, block_on, say};
use crate::terminal::visible;
use crate::workers::{Files, lines_of};

/// How often it is looked for something new.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How many looks something new is waited out for that changes all the time, such as a clock: it is shown as it is then.
const LOOKS_MAX: u32 = 8;

/// `relay logs`.
#[derive(Debug, clap::Args)]
pub struct Logs {
    #[command(flatten)]
    which: Which,

    /// Go on with what comes, until the worker has ended.
    #[arg(short, long)]
    follow: bool,

    /// Print each line as JSON: {"line": "..."}.
    #[arg(long)]
    json: bool,
}

/// Prints the log of a worker.
pub fn run(args: &Logs) -> Result<End, Failure> {
    let Some(files) = args.which.find("logs")? else {
        say(&args.which.never_was("logs"));
        return Ok(End::Nothing);
    };
    match block_on(logs(args, &files)) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(End::Done),
        Err(error) => Err(Failure::error(format!("relay logs: {error}"))),
        Ok(()) => Ok(End::Done),
    }
}

async fn logs(args: &Logs, files: &Files) -> io::Result<()> {
    check_stdout()?;
    let mut log = files.read_log()?;
    let mut shown = lines_of(&log);
    args.print(&shown)?;
    if !args.follow {
        return Ok(());
    }
    let mut waited = 0;
    loop {
        // Asked first, so that what it has written last is there.
        let goes_on = files.is_running();
        let before = std::mem::replace(&mut log, files.read_log()?);
        waited += 1;
        let is_still = before == log || waited >= LOOKS_MAX;
        if is_still || !goes_on {
            waited = 0;
            let lines = lines_of(&log);
            let same = shown.iter().zip(&lines).take_while(|(one, other)| one == other);
            args.print(&lines[same.count()..])?;
            shown = lines;
        }
        if !goes_on {
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
}

impl Logs {
    fn print(&self, lines: &[String]) -> io::Result<()> {
        let mut text = String::new();
        for line in lines {
            if self.json {
                text += &json!({"line": line}).to_string();
            } else {
                text += &visible(line);
            }
            text.push('\n');
        }
        if text.is_empty() {
            return Ok(());
        }
        write_stdout(&text)
    }
}
