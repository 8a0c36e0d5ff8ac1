//! Whoever reads what is written to stdout: whether they have it, and whether they are gone.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;

use super::messages::write_stdout;

/// How often it is looked whether a pipe is empty, in milliseconds: at first, and in the end.
const LOOK_FIRST_MS: i64 = 1;
const LOOK_LAST_MS: i64 = 50;

/// Writes a text to stdout, and waits until its reader has it: the pipe is empty, or the terminal has written it. What is written into a file
/// is there.
///
/// # Errors
///
/// The system's: the text may not be where it was to go. [`ErrorKind::BrokenPipe`] if the reader is gone and has left some of it.
pub fn hand(text: &str) -> io::Result<()> {
    write_stdout(text)?;
    let stdout = rustix::stdio::stdout();
    if rustix::termios::isatty(stdout) {
        // In the background the system would stop who waits for the terminal.
        return match is_in_background(stdout) {
            true => Ok(()),
            false => Ok(rustix::termios::tcdrain(stdout)?),
        };
    }
    let mut pause_ms = LOOK_FIRST_MS;
    while is_pipe(stdout) && rustix::io::ioctl_fionread(stdout).unwrap_or(0) > 0 {
        let is_gone = looks(stdout, pause_ms)?;
        // It may have read the last of it meanwhile.
        if is_gone && rustix::io::ioctl_fionread(stdout).unwrap_or(0) > 0 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        pause_ms = (pause_ms * 2).min(LOOK_LAST_MS);
    }
    Ok(())
}

/// Tells whether nobody reads stdout any more, as far as the system tells that.
pub fn is_gone() -> bool {
    let stdout = rustix::stdio::stdout();
    is_pipe(stdout) && looks(stdout, 0).unwrap_or(true)
}

/// Tells whether others have the terminal. One that is not this process's own, such as a serial line, stops nobody.
fn is_in_background(terminal: BorrowedFd<'_>) -> bool {
    let foreground = rustix::termios::tcgetpgrp(terminal);
    foreground.is_ok_and(|foreground| foreground != rustix::process::getpgrp())
}

fn is_pipe(stdout: BorrowedFd<'_>) -> bool {
    let stat = rustix::fs::fstat(stdout);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

/// Waits for the end of the reader; tells whether it has come.
fn looks(stdout: BorrowedFd<'_>, ms: i64) -> io::Result<bool> {
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: ms * 1_000_000,
    };
    let mut polled = [PollFd::from_borrowed_fd(stdout, PollFlags::empty())];
    match poll(&mut polled, Some(&time)) {
        Ok(_) => Ok(polled[0]
            .revents()
            .intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    #[test]
    fn a_terminal_that_is_not_ones_own_is_waited_for() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("it is one's own");
        unlockpt(&master).expect("it is one's own");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let terminal = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("it is there");
        assert!(rustix::termios::isatty(&terminal));
        assert!(!is_in_background(terminal.as_fd()));
    }
}
