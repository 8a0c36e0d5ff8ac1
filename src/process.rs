//! A process of an agent CLI, as the system knows it, and how a shell is told what to start.

/// What runs a program that is a script.
const INTERPRETERS: [&str; 4] = ["bun", "deno", "node", "nodejs"];

/// How the name of a program goes on that is one of a package of its own, or of one system alone: `gemini-cli`, `claude-code`, `opencode-ai`,
/// `codex-x86_64-unknown-linux-musl`.
const NAMES_GO_ON: [&str; 9] = [
    "cli", "code", "ai", "x86_64", "aarch64", "arm64", "x64", "linux", "darwin",
];

/// Most digits of what numbers a process, or says when it was started.
const DIGITS_MAX: usize = 20;

/// The process of a program.
#[derive(Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub number: String,
    /// When it was started, as the system counts that: a number is used again. None where the system does not tell.
    since: Option<String>,
}

impl Process {
    /// Takes the one that has a number now.
    pub fn of(number: String) -> Self {
        let since = Self::state(&number).map(|(_, since)| since);
        Self { number, since }
    }

    /// Finds the one that is so named ([`Self::name`]); none if nobody names one so.
    pub fn named(name: &str) -> Option<Self> {
        let (number, since) = match name.split_once('-') {
            Some((number, since)) => (number, Some(since)),
            None => (name, None),
        };
        let is_number = |text: &str| {
            (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let is_name = is_number(number) && since.is_none_or(is_number);
        is_name.then(|| Self {
            number: number.to_owned(),
            since: since.map(str::to_owned),
        })
    }

    /// Names it so that no other has the name.
    pub fn name(&self) -> String {
        match &self.since {
            Some(since) => format!("{}-{since}", self.number),
            None => self.number.clone(),
        }
    }

    /// Tells whether it runs.
    pub fn is_alive(&self) -> bool {
        if self.since.is_some() {
            let state = Self::state(&self.number);
            return state.is_some_and(|(state, since)| state != "Z" && Some(since) == self.since);
        }
        let pid = self.number.parse().ok().and_then(rustix::process::Pid::from_raw);
        pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }

    /// Tells whether its name means it alone.
    pub fn is_certain(&self) -> bool {
        self.since.is_some()
    }

    /// Finds the process of an agent CLI above this one: the nearest that has one of its names, whatever shells stand between. None where
    /// there is none, or the system does not tell.
    pub fn of_cli(names: &[&str]) -> Option<Self> {
        let mut number = std::process::id().to_string();
        for _ in 0..ABOVE_MAX {
            number = Self::parent(&number)?;
            if cli(&arguments(&number)?, names).is_some() {
                return Some(Self::of(number)).filter(Self::is_certain);
            }
        }
        None
    }

    /// Returns the number of the process that started it; none where the system does not tell.
    pub fn parent(number: &str) -> Option<String> {
        Self::stat(number)?.into_iter().nth(1)
    }

    /// Returns its state and when it was started.
    fn state(number: &str) -> Option<(String, String)> {
        let mut fields = Self::stat(number)?.into_iter();
        let state = fields.next()?;
        let since = fields.nth(18)?;
        Some((state, since))
    }

    /// Returns what the system tells of it, from its third field on: <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>.
    fn stat(number: &str) -> Option<Vec<String>> {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        let (_, behind_name) = stat.rsplit_once(')')?;
        Some(behind_name.split_whitespace().map(str::to_owned).collect())
    }
}

/// How many processes are looked at above a hook: a shell or two stand between it and its agent CLI.
const ABOVE_MAX: usize = 16;

/// Returns what a process was started with, its program first; none where the system does not tell.
pub fn arguments(number: &str) -> Option<Vec<String>> {
    let arguments = std::fs::read(format!("/proc/{number}/cmdline")).ok()?;
    let arguments = arguments.split(|byte| *byte == 0);
    let text = |argument| String::from_utf8_lossy(argument).into_owned();
    Some(arguments.map(text).collect())
}

/// Returns of which agent CLI of these a command line is: by the program that is run, by the script that an interpreter runs, or by the package
/// that this lies in.
pub fn cli<'a>(command_line: &[String], names: &[&'a str]) -> Option<&'a str> {
    let mut words = command_line.iter().map(String::as_str);
    let program = words.next()?;
    let script = INTERPRETERS
        .contains(&file(program))
        .then(|| words.find(|word| !word.is_empty() && !word.starts_with('-')))
        .flatten();
    let parts = [Some(file(program)), script.map(file), script.and_then(package)];
    let is_one = |name: &&&str| parts.into_iter().flatten().any(|part| is_named(part, name));
    names.iter().find(is_one).copied()
}

/// Tells whether a file or a package is so named, whatever its ending says it is written in.
fn is_named(part: &str, name: &str) -> bool {
    let goes_on = |rest: &str| {
        rest.split(['-', '.'])
            .next()
            .is_some_and(|next| NAMES_GO_ON.contains(&next))
    };
    match part.strip_prefix(name) {
        Some("") => true,
        Some(rest) => rest.starts_with('.') || rest.strip_prefix('-').is_some_and(goes_on),
        None => false,
    }
}

fn file(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the name of the package that a script lies in, without its scope.
fn package(script: &str) -> Option<&str> {
    let (_, inside) = script.rsplit_once("node_modules/")?;
    inside.split('/').find(|part| !part.starts_with('@'))
}

/// Names where the number of a process means what it means here: the start of the system, and the namespace of numbers. None where the system
/// does not tell.
pub fn namespace() -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;

    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::metadata("/proc/self/ns/pid").ok()?.ino();
    Some(format!("{}.{namespace}", boot.trim()))
}

/// Tells whether this process was started so that a signal does nothing, as long as it does not listen to it; none where the system does not tell.
/// <https://man7.org/linux/man-pages/man5/proc_pid_status.5.html>
pub fn ignores(signal: rustix::process::Signal) -> Option<bool> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let ignored = u64::from_str_radix(ignored.trim(), 16).ok()?;
    Some(ignored & 1 << (signal.as_raw().unsigned_abs() - 1) != 0)
}

/// Quotes a word for a shell where it needs that.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_cli_is_told_from_what_stands_between() {
        for (words, is_one) in [
            (&["codex"][..], true),
            (&["/opt/codex/codex-x86_64-unknown-linux-musl", "exec"], true),
            (&["node", "--no-warnings", "/usr/bin/codex"], true),
            (
                &["/usr/bin/node", "/lib/node_modules/@openai/codex/bin/codex.js"],
                true,
            ),
            (&["sh", "-c", "relay hook codex"], false),
            (&["timeout", "5", "relay", "hook", "codex"], false),
            (&["relay", "hook", "codex"], false),
            (&["node", "/home/a/.codex/relay/relay.js", "hook", "codex"], false),
            (
                &["nodejs", "/usr/lib/node_modules/@openai/codex/bin/codex.js"],
                true,
            ),
            (&["bun", "/lib/node_modules/codex-cli/dist/index.js"], true),
            (&["/opt/codex/codex.exe"], true),
            (
                &["node", "/home/codex/.npm-global/bin/relay", "hook", "codex"],
                false,
            ),
            (
                &["node", "/home/codex/node_modules/.bin/relay", "hook", "codex"],
                false,
            ),
            (
                &[
                    "node",
                    "/lib/node_modules/codex/node_modules/relay-bus/bin/relay.js",
                ],
                false,
            ),
            (&["codex-monitor"], false),
            (&["codex-codemod"], false),
            (&["codexes"], false),
            (&["vi", "codex"], false),
            (&["node"], false),
            (&[""], false),
            (&[], false),
        ] {
            let line: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let expected = is_one.then_some("codex");
            assert_eq!(cli(&line, &["claude", "codex"]), expected, "{words:?}");
        }
        let here = Process::of_cli(&["no such program"]);
        assert_eq!(here, None);
        assert_eq!(
            namespace().is_some(),
            cfg!(target_os = "linux"),
            "the system tells"
        );
    }

    #[test]
    fn the_packages_and_the_programs_of_agent_clis_are_known_however_their_names_go_on() {
        let known = ["claude", "codex", "gemini", "opencode"];
        for (script, name) in [
            ("@anthropic-ai/claude-code/cli.js", "claude"),
            ("@openai/codex/bin/start.js", "codex"),
            ("@google/gemini-cli/dist/index.js", "gemini"),
            ("opencode-ai/bin/start", "opencode"),
        ] {
            let line = ["node".to_owned(), format!("/usr/lib/node_modules/{script}")];
            assert_eq!(cli(&line, &known), Some(name), "{script}");
        }
        for system in ["x86_64", "aarch64", "arm64", "x64", "linux", "darwin"] {
            let line = [format!("/opt/opencode-{system}-musl")];
            assert_eq!(cli(&line, &known), Some("opencode"), "{system}");
        }
    }

    #[test]
    fn a_process_is_found_by_its_name_and_no_other_is() {
        let own = Process::of(std::process::id().to_string());
        let named = Process::named(&own.name()).expect("it is a name");
        assert_eq!(named, own);
        assert!(named.is_alive());
        assert_eq!(own.since.is_some(), cfg!(target_os = "linux"), "the system tells");
        let another = Process::named(&format!("{}-1", own.number)).expect("it is a name");
        assert!(
            !another.is_alive() || own.since.is_none(),
            "the number is used again"
        );
        for none in [
            "",
            "-",
            "1-",
            "a-1",
            "1-b",
            "1-2-3",
            "6f9619ff-8b86",
            &"1".repeat(70_000),
        ] {
            assert_eq!(Process::named(none), None, "{none:.40}");
        }
    }

    #[test]
    fn a_process_that_has_ended_is_not_alive_though_nobody_has_asked_how_it_ended() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("it starts");
        let process = Process::of(child.id().to_string());
        assert!(process.is_alive());
        child.kill().expect("it is this test's own");
        // It is waited for, and left as it is.
        let pid = rustix::process::Pid::from_child(&child);
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).expect("it ends");
        assert!(
            !process.is_alive() || process.since.is_none(),
            "nobody waits for it"
        );
        child.wait().expect("it ends");
    }
}
