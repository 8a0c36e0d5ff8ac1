//! `relay logs`: what a worker has written, as its terminal showed it.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::messages::{check_stdout, json_line, write_stdout};
use super::worker_files::Which;
use super::{End, Failure, block_on, say};
use crate::terminal::visible;
use crate::workers::{Files, Reader, Transcript};

/// How often it is looked for something new: often enough that a log which is written fast is not put aside twice in between.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// After how many looks without anything new what stands on the screen is still.
const STILL_LOOKS: u32 = 5;

/// How many looks something new is waited out for that changes all the time, such as a clock: it is shown as it is then.
const LOOKS_MAX: u32 = 40;

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
    let Some((_, files)) = args.which.find("logs")? else {
        say(&args.which.never_was("logs"));
        return Ok(End::Nothing);
    };
    match block_on(logs(args, &files))? {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(End::Done),
        Err(error) => Err(Failure::error(format!("relay logs: {error}"))),
        Ok(()) => Ok(End::Done),
    }
}

async fn logs(args: &Logs, files: &Files) -> io::Result<()> {
    check_stdout()?;
    let mut log = Reader::of(files.clone());
    let mut transcript = Transcript::new();
    if !args.follow {
        transcript.write(&log.read()?.text);
        return args.print(&transcript.lines());
    }
    let mut shown = Vec::new();
    // What is there already is shown at once.
    let (mut looks, mut still) = (LOOKS_MAX, 0);
    loop {
        // Asked first, so that what it has written last is there.
        let goes_on = files.is_running();
        let news = log.read()?;
        let is_over = news.is_anothers || !goes_on;
        still = if news.text.is_empty() { still + 1 } else { 0 };
        looks += 1;
        transcript.write(&news.text);
        let is_still = still == STILL_LOOKS;
        if is_over || is_still || looks >= LOOKS_MAX {
            looks = 0;
            let may_go_on = !is_over && !is_still;
            shown = args.print_news(&mut transcript, shown, may_go_on)?;
        }
        if news.is_anothers {
            say(&format!(
                "relay logs: {} has ended, and another worker has its name",
                files.name()
            ));
        }
        if is_over {
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
}

impl Logs {
    /// Prints what is other than what was shown before, from the first line on that is. One that is still being written waits until it is
    /// whole, or still. Returns what is shown now and may yet change.
    fn print_news(
        &self,
        transcript: &mut Transcript,
        mut shown: Vec<String>,
        may_go_on: bool,
    ) -> io::Result<Vec<String>> {
        let mut lines = transcript.lines();
        if may_go_on && transcript.is_in_last_line() {
            let last = lines.len().saturating_sub(1);
            lines.truncate(last);
            lines.extend(shown.get(last).cloned());
        }
        let same = shown.iter().zip(&lines).take_while(|(one, other)| one == other);
        self.print(&lines[same.count()..])?;
        shown = lines;
        drop(shown.drain(..transcript.let_go(shown.len())));
        Ok(shown)
    }

    fn print(&self, lines: &[String]) -> io::Result<()> {
        let mut text = String::new();
        for line in lines {
            if self.json {
                text += &json_line(&json!({"line": line}).to_string());
                continue;
            }
            text += &visible(line);
            text.push('\n');
        }
        if text.is_empty() {
            return Ok(());
        }
        write_stdout(&text)
    }
}
