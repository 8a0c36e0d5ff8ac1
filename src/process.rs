//! A process of an agent CLI, as the system knows it, and how a shell is told what to start.

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
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
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
        for none in ["", "-", "1-", "a-1", "1-b", "1-2-3", "6f9619ff-8b86"] {
            assert_eq!(Process::named(none), None, "{none}");
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
