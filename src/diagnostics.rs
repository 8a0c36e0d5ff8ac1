//! What a process says about itself on stderr: its diagnostics, and why it panicked.
//!
//! No line of it blocks, ends or panics anything, whatever stderr is: they go by a queue, and what a stderr does not take is counted.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::ffi::OsStr;
use std::io;
use std::panic::PanicHookInfo;
use std::sync::LazyLock;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::line_queue::LineQueue;

/// Most bytes of diagnostics that wait for a slow stderr: some thousand lines.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// How long a process that is done waits for its last words to be written.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// What is shown where nobody says what is to be. rmcp's service tells only of peers that have gone as an error: each that disconnects is
/// one. What panics in it is told by the panic.
const SHOWN: &str = "warn,rmcp=error,rmcp::service=off";

static STDERR: LazyLock<LineQueue> =
    LazyLock::new(|| LineQueue::new("stderr", io::stderr(), WAITING_BYTES_MAX));

/// The diagnostics of this process. At its end the last of them are waited for, but not for a stderr that takes nothing.
pub(crate) struct Diagnostics(());

impl Diagnostics {
    /// Sends diagnostics to stderr from here on; `RELAY_LOG` chooses which, as `RUST_LOG` does elsewhere, but that a part of
    /// the program has its level beside it.
    pub(crate) fn start() -> Self {
        let asked = std::env::var_os("RELAY_LOG").filter(|asked| !asked.is_empty());
        let (filter, refused) = match asked.as_deref().map(filter) {
            Some(Some(filter)) => (filter, None),
            Some(None) => (EnvFilter::new(SHOWN), asked),
            None => (EnvFilter::new(SHOWN), None),
        };
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_timer(LocalTime)
            .with_writer(|| Lines)
            // It would say by a macro that panics where stderr is gone that something could not be written.
            .log_internal_errors(false)
            .init();
        std::panic::set_hook(Box::new(|panic| {
            let text = panic_text(panic, &Backtrace::capture());
            STDERR.add(|lines| lines.push_str(&text));
        }));
        if let Some(refused) = refused {
            tracing::warn!(
                "RELAY_LOG is {refused:?}, which is not used: it takes a level, as \"debug\", or levels of parts, as \"relay=debug,rmcp=off\""
            );
        }
        Self(())
    }
}

/// Returns what a person asks to be shown, unless it cannot be understood: a word alone that is no level would have nothing shown but the
/// part of that name, which is hardly meant.
fn filter(asked: &OsStr) -> Option<EnvFilter> {
    let asked = asked.to_str()?;
    let is_plain = |part: &&str| !part.contains(['=', '[']);
    let mut plain = asked.split(',').map(str::trim).filter(is_plain);
    let are_levels = plain.all(|part| part.is_empty() || part.parse::<LevelFilter>().is_ok());
    let filter = EnvFilter::builder().parse(asked).ok();
    filter.filter(|_| are_levels)
}

impl Drop for Diagnostics {
    fn drop(&mut self) {
        STDERR.flush(END_PATIENCE);
    }
}

/// Says something to whoever runs this process, behind its diagnostics, and waits until it is written.
pub(crate) fn say(text: &str) {
    STDERR.write_now(&format!("{text}\n"), END_PATIENCE);
}

/// What the standard library says of a panic.
fn panic_text(panic: &PanicHookInfo<'_>, backtrace: &Backtrace) -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    if backtrace.status() == BacktraceStatus::Captured {
        format!("thread '{name}' {panic}\n{backtrace}\n")
    } else {
        format!("thread '{name}' {panic}\n")
    }
}

/// Writes when something was said as this machine's clock shows it, as all that a person reads is.
struct LocalTime;

impl FormatTime for LocalTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let now = crate::server::wall_clock()();
        writer.write_str(&crate::cli::messages::local_time(&now.to_string()))
    }
}

/// Lines for stderr.
struct Lines;

impl io::Write for Lines {
    /// Takes whole lines: all that one event says.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        STDERR.add(|text| text.push_str(&String::from_utf8_lossy(lines)));
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    /// Set in the process in which the test runs a second time, alone.
    const ALONE: &str = "RELAY_TEST_PANICS_ALONE";

    #[test]
    fn nobody_waits_for_the_stderr_that_a_panic_is_told_to() {
        if std::env::var_os(ALONE).is_some() {
            return panic_often();
        }
        let (unread, stderr) = io::pipe().expect("a pipe");
        let mut child = Command::new(std::env::current_exe().expect("it is there"))
            .args(["--exact", "--nocapture"])
            .arg("diagnostics::tests::nobody_waits_for_the_stderr_that_a_panic_is_told_to")
            .env(ALONE, "1")
            // Its own name for a zone 5 hours and 30 minutes east, so that no data of zones is needed.
            .env("TZ", "RLY-05:30")
            .env_remove("RUST_BACKTRACE")
            .env_remove("RELAY_LOG")
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("it can be started");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut lines = stdout.lines().map_while(Result::ok);
        assert!(
            lines.any(|line| line.contains("all have panicked")),
            "it waits for stderr"
        );
        let told: Vec<String> = BufReader::new(unread).lines().map_while(Result::ok).collect();
        lines.for_each(drop);
        assert!(child.wait().expect("it ends").success());
        let is_panic = |line: &&String| line.starts_with("thread 'one of many' panicked at src/");
        assert!(told.iter().filter(is_panic).count() > 100);
        let gap = told
            .iter()
            .position(|line| line.ends_with(" lines left out: stderr did not take them"));
        let last = told.iter().position(|line| line == "these are the last words");
        assert!(gap.is_some() && gap < last, "{gap:?} {last:?}");
        // What is said behind them is written too, with the time of the clock there.
        let [.., warning] = &told[..] else {
            panic!("{told:?}")
        };
        assert!(
            warning.ends_with(" WARN relay::diagnostics::tests: behind them"),
            "{warning}"
        );
        let at = warning.get(..19).unwrap_or_default();
        let at = chrono::NaiveDateTime::parse_from_str(at, "%Y-%m-%d %H:%M:%S").expect("a time");
        let now = crate::server::wall_clock()().to_string();
        let now = chrono::DateTime::parse_from_rfc3339(&now)
            .expect("a time")
            .naive_utc();
        let east = now + chrono::TimeDelta::minutes(330);
        assert!((east - at).abs() < chrono::TimeDelta::minutes(10), "{warning}");
    }

    /// Panics more often than a pipe and the queue have room for.
    fn panic_often() {
        let diagnostics = Diagnostics::start();
        for _ in 0..4_000 {
            let thread = std::thread::Builder::new().name("one of many".to_owned());
            let ended = thread
                .spawn(|| panic!("{}", "x".repeat(100)))
                .map(|thread| thread.join());
            assert!(ended.is_ok_and(|ended| ended.is_err()));
        }
        writeln!(io::stdout(), "all have panicked").expect("it is read");
        say("these are the last words");
        tracing::warn!("behind them");
        drop(diagnostics);
        // Nothing is written any more.
        std::process::exit(0);
    }
}
