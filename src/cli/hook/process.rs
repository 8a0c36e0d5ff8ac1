//! A process of an agent CLI, as the system knows it.

/// The process of a program.
pub(super) struct Process {
    pub number: String,
    /// When it was started, as the system counts that: a number is used again. None where the system does not tell.
    since: Option<String>,
}

impl Process {
    pub fn of(number: String) -> Self {
        let since = Self::state(&number).map(|(_, since)| since);
        Self { number, since }
    }

    /// Names it so that no other has the name.
    pub fn name(&self) -> String {
        match &self.since {
            Some(since) => format!("{}-{since}", self.number),
            None => self.number.clone(),
        }
    }

    pub fn is_alive(&self) -> bool {
        if self.since.is_some() {
            let state = Self::state(&self.number);
            return state.is_some_and(|(state, since)| state != "Z" && Some(since) == self.since);
        }
        let pid = self.number.parse().ok().and_then(rustix::process::Pid::from_raw);
        pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }

    /// Returns its state and when it was started: <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>, fields 3 and 22.
    fn state(number: &str) -> Option<(String, String)> {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        let (_, behind_name) = stat.rsplit_once(')')?;
        let mut fields = behind_name.split_whitespace();
        let state = fields.next()?.to_owned();
        let since = fields.nth(18)?.to_owned();
        Some((state, since))
    }
}
