//! The programs that some tests cannot do without, and what is said where they are missing.
//!
//! Such a test is left out there, in plain sight: it says so while the tests run, and the workspace's last test says it
//! again at the end. Where `CI` is set, both fail instead.

use std::env;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// One of these programs, and whom it is for.
pub struct Need {
    /// Calls that succeed where the program is there; one of them is enough.
    calls: &'static [&'static [&'static str]],
    missing: &'static str,
    tests: &'static str,
    get: &'static str,
}

pub const TMUX: Need = Need {
    calls: &[&["tmux", "-V"]],
    missing: "tmux is missing",
    tests: "start.sh --tmux (--test outside start_sh::tmux::), of what relay types into a pane (--test outside hook::tmux::) and of relay top (--test outside top::)",
    get: "apt-get install tmux, or brew install tmux",
};

pub const TERMINAL: Need = Need {
    calls: &[&["script", "--version"], &["python3", "--version"]],
    missing: "script of util-linux and python3 are missing",
    tests: "the log's colours in a terminal (--test outside log::terminal::each_kind)",
    get: "apt-get install bsdutils, or python3",
};

pub const LIMITS: Need = Need {
    calls: &[&["setpriv", "prlimit", "--version"]],
    missing: "setpriv and prlimit of util-linux are missing",
    tests: "what relay does where the system gives it no thread (--test outside hook_ends::where_the_system)",
    get: "apt-get install util-linux",
};

impl Need {
    pub fn is_met(&self) -> bool {
        self.calls.iter().any(|call| {
            let mut command = Command::new(call[0]);
            command
                .args(&call[1..])
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        })
    }

    /// Whether the test can go on. If not, it has been said that it was left out.
    ///
    /// # Panics
    ///
    /// Where `CI` is set and the program is missing.
    pub fn is_met_or_said(&self) -> bool {
        let met = self.is_met();
        if !met {
            self.say(std::thread::current().name().unwrap_or("a test"));
        }
        met
    }

    /// Says what was left out.
    ///
    /// # Panics
    ///
    /// Where `CI` is set.
    pub fn say(&self, what: &str) {
        let text = format!(
            "LEFT OUT: {what}: {}.\n  What it is for: the tests of {}. Get it with: {}",
            self.missing, self.tests, self.get
        );
        assert!(
            env::var_os("CI").is_none(),
            "{text}\nWhere CI is set nothing may be left out."
        );
        // The macros' output is swallowed when a test passes.
        let _ = writeln!(std::io::stderr(), "\n{text}");
    }
}
