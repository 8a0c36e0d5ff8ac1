//! The log of a worker: what it has written, as its terminal was given it, in two generations. Each begins with what it is, which a terminal
//! shows nothing of.
//!
//! A disk that is full ends nothing: what cannot be written is left out, and the log says how much that was once it takes something again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use super::Files;
use super::limits::LOG_GENERATION_BYTES;

/// A log that is being written.
pub struct Log {
    files: Files,
    file: Option<File>,
    mark: Mark,
    /// How many bytes this generation has.
    written: u64,
    /// How many bytes of the worker's are missing behind these.
    missing: u64,
    size: (u16, u16),
}

/// What a generation of a log says of itself at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// The process that writes it, by which two workers of the same name are told apart.
    pub writer: u32,
    /// How many generations were before it.
    pub generation: u64,
}

impl Mark {
    /// Most bytes that it takes.
    pub const BYTES_MAX: usize = 64;

    /// How it begins: as an application's own command, of which a terminal shows nothing.
    const BEGIN: &str = "\u{1b}_relay log ";

    /// How it ends.
    const END: &str = "\u{1b}\\";

    fn text(self) -> String {
        let Self { writer, generation } = self;
        format!("{}{writer} {generation}{}", Self::BEGIN, Self::END)
    }

    /// Reads it where a log begins; none if it is no log that has one.
    pub fn of(head: &[u8]) -> Option<Self> {
        let rest = head.strip_prefix(Self::BEGIN.as_bytes())?;
        let end = rest.windows(2).position(|end| end == Self::END.as_bytes())?;
        let text = std::str::from_utf8(&rest[..end]).ok()?;
        let (writer, generation) = text.split_once(' ')?;
        Some(Self {
            writer: writer.parse().ok()?,
            generation: generation.parse().ok()?,
        })
    }
}

impl Log {
    /// Begins the log of a worker; that of the one before it goes.
    pub fn begin(files: Files, size: (u16, u16)) -> Self {
        for file in [files.log_before(), files.log()] {
            let _there_may_be_none = std::fs::remove_file(file);
        }
        let mark = Mark {
            writer: std::process::id(),
            generation: 0,
        };
        Self {
            files,
            file: None,
            mark,
            written: 0,
            missing: 0,
            size,
        }
    }

    /// Writes down that the terminal has another size from here on.
    pub fn resized(&mut self, size: (u16, u16)) -> Option<String> {
        self.size = size;
        // Behind what is missing it is written anyway.
        if self.missing > 0 {
            return None;
        }
        self.write(sized(size).as_bytes())
    }

    /// Adds what the worker has written. Returns what is wrong when it becomes so: from then on it is left out.
    pub fn write(&mut self, bytes: &[u8]) -> Option<String> {
        if bytes.is_empty() {
            return None;
        }
        let was_well = self.missing == 0;
        match self.add(bytes) {
            Ok(()) => None,
            Err(error) => {
                // Opened anew at the next try.
                self.file = None;
                let log = self.files.log();
                let reason = format!(
                    "cannot write the log {}: {error}; the worker goes on without",
                    log.display()
                );
                was_well.then_some(reason)
            }
        }
    }

    /// Adds as much as there is room for, and counts the rest among what is missing. What begins a generation, and what ends a gap, is
    /// written with all that comes with it or not at all: so a gap is told of once, as a whole.
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut before = match self.missing {
            0 => String::new(),
            missing => format!(
                "\r\n[relay] {missing} bytes are missing here, which could not be written\r\n{}",
                sized(self.size)
            ),
        };
        let opened = self.open((before.len() + bytes.len()) as u64);
        if let Err(error) = opened {
            self.missing += bytes.len() as u64;
            return Err(error);
        }
        if self.written == 0 {
            before.insert_str(0, &(self.mark.text() + &sized(self.size)));
        }
        let file = self.file.as_mut().expect("it was opened");
        let text = [before.as_bytes(), bytes].concat();
        let (count, written) = write_most(file, &text);
        if written.is_ok() {
            self.missing = 0;
            self.written += count as u64;
            return written;
        }
        let taken = match before.len() {
            0 => count,
            _ => {
                let _it_keeps_a_part = file.set_len(self.written);
                0
            }
        };
        self.written += taken as u64;
        self.missing += (bytes.len() - taken) as u64;
        written
    }

    /// Opens the file into which so many bytes go: the next generation, if they do not go into this one.
    fn open(&mut self, bytes: u64) -> io::Result<()> {
        if self.written > 0 && self.written + bytes > LOG_GENERATION_BYTES {
            match std::fs::rename(self.files.log(), self.files.log_before()) {
                Ok(()) => {}
                // Somebody has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            self.file = None;
            self.written = 0;
            self.mark.generation += 1;
        }
        if self.file.is_none() {
            let is_new = self.written == 0;
            let mut options = OpenOptions::new();
            options.create(true).append(!is_new).write(true).truncate(is_new);
            let file = options.mode(0o600).open(self.files.log())?;
            self.file = Some(file);
        }
        Ok(())
    }

    /// Has it written by another process.
    #[cfg(test)]
    pub fn of_writer(mut self, writer: u32) -> Self {
        self.mark.writer = writer;
        self
    }
}

/// Writes as much as there is room for; tells how much that was, and why it was not all.
fn write_most(file: &mut File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut count = 0;
    while count < bytes.len() {
        match file.write(&bytes[count..]) {
            Ok(0) => return (count, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (count, Err(error)),
        }
    }
    (count, Ok(()))
}

/// How a program says which size its terminal is to have (XTWINOPS 8), so that the log is read as it was written.
/// <https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>
fn sized((rows, cols): (u16, u16)) -> String {
    format!("\u{1b}[8;{rows};{cols}t")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn files() -> (tempfile::TempDir, Files) {
        let directory = tempfile::tempdir().expect("a directory");
        let files = Files::of(directory.path(), "a");
        files.make_directory().expect("it is ours");
        (directory, files)
    }

    #[test]
    fn two_generations_are_kept_and_nobody_else_reads_them() {
        let (_directory, files) = files();
        let mut log = Log::begin(files.clone(), (24, 80));
        for number in 0..40 {
            let text = format!("{number:02}").repeat(64 * 1024);
            assert_eq!(log.write(text.as_bytes()), None);
        }
        let (before, last) = (files.log_before(), files.log());
        for file in [&before, &last] {
            let found = file.metadata().expect("it is there");
            assert!(found.len() <= LOG_GENERATION_BYTES, "{}", found.len());
            assert_eq!(found.permissions().mode() & 0o777, 0o600);
        }
        let text = std::fs::read_to_string(&last).expect("it is there");
        let mark = Mark::of(text.as_bytes()).expect("it begins with one");
        assert_eq!((mark.writer, mark.generation), (std::process::id(), 5));
        assert!(text.contains("\u{1b}\\\u{1b}[8;24;80t") && text.ends_with("3939"));
    }

    #[test]
    fn a_log_that_takes_nothing_is_told_of_once_and_says_later_what_is_missing() {
        let (_directory, files) = files();
        std::fs::create_dir(files.log()).expect("there is room");
        let mut log = Log::begin(files.clone(), (24, 80));
        let told = log.write(b"first").expect("it is a directory");
        assert!(
            told.starts_with("cannot write the log") && told.ends_with("goes on without"),
            "{told}"
        );
        assert_eq!(log.write(b"second"), None);
        std::fs::remove_dir(files.log()).expect("it is empty");
        assert_eq!(log.write(b"third"), None);
        let text = std::fs::read_to_string(files.log()).expect("it is there");
        let expected = "\u{1b}\\\u{1b}[8;24;80t\r\n[relay] 11 bytes are missing here, which could not be written\r\n\u{1b}[8;24;80tthird";
        assert!(text.ends_with(expected), "{text:?}");
    }

    #[test]
    fn another_size_of_the_terminal_is_written_down_where_it_begins() {
        let (_directory, files) = files();
        let mut log = Log::begin(files.clone(), (24, 80));
        assert_eq!(log.write(b"first"), None);
        assert_eq!(log.resized((30, 100)), None);
        assert_eq!(log.write(b"second"), None);
        let text = std::fs::read_to_string(files.log()).expect("it is there");
        assert!(
            text.ends_with("\u{1b}[8;24;80tfirst\u{1b}[8;30;100tsecond"),
            "{text:?}"
        );
    }

    #[test]
    fn a_worker_begins_with_an_empty_log_and_goes_on_where_somebody_has_removed_it() {
        let (_directory, files) = files();
        for file in [files.log_before(), files.log()] {
            std::fs::write(file, "of the worker before").expect("there is room");
        }
        let mut log = Log::begin(files.clone(), (24, 80));
        assert!(!files.has_run(), "it is gone");
        let most = vec![b'x'; 700 * 1024];
        assert_eq!(log.write(&most), None);
        std::fs::remove_file(files.log()).expect("it is there");
        assert_eq!(log.write(&most), None, "there is nothing to be put aside");
        let text = std::fs::read(files.log()).expect("it is there");
        assert!(text.ends_with(b"xxxx"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_survived() {
        let (_directory, files) = files();
        let mut log = Log::begin(files.clone(), (24, 80));
        std::os::unix::fs::symlink("/dev/full", files.log()).expect("a link");
        let told = log.write(b"text").expect("it takes nothing");
        assert!(told.contains("No space left on device"), "{told}");
    }

    #[test]
    fn a_later_generation_begins_with_the_size_that_the_terminal_has_come_to() {
        let (_directory, files) = files();
        let mut log = Log::begin(files.clone(), (24, 80));
        assert_eq!(log.write(b"first"), None);
        assert_eq!(log.resized((30, 100)), None);
        let most = vec![b'x'; 700 * 1024];
        for _ in 0..2 {
            assert_eq!(log.write(&most), None);
        }
        let text = std::fs::read(files.log()).expect("it is there");
        let mark = Mark::of(&text).expect("it begins with one");
        assert_eq!(mark.generation, 1);
        let begins = format!("{}\u{1b}[8;30;100txxx", mark.text());
        assert!(
            text.starts_with(begins.as_bytes()),
            "{:?}",
            String::from_utf8_lossy(&text[..64])
        );
    }

    #[test]
    fn a_size_that_is_told_while_nothing_is_taken_is_no_part_of_what_is_missing() {
        let (_directory, files) = files();
        std::fs::create_dir(files.log()).expect("there is room");
        let mut log = Log::begin(files.clone(), (24, 80));
        assert!(log.write(b"first").is_some(), "it is a directory");
        assert_eq!(log.resized((30, 100)), None);
        std::fs::remove_dir(files.log()).expect("it is empty");
        assert_eq!(log.write(b"third"), None);
        let text = std::fs::read_to_string(files.log()).expect("it is there");
        let expected = "\u{1b}\\\u{1b}[8;30;100t\r\n[relay] 5 bytes are missing here, which could not be written\r\n\u{1b}[8;30;100tthird";
        assert!(text.ends_with(expected), "{text:?}");
    }

    #[test]
    fn a_gap_is_told_of_once_also_where_more_is_written_behind_it() {
        let (_directory, files) = files();
        std::fs::create_dir(files.log()).expect("there is room");
        let mut log = Log::begin(files.clone(), (24, 80));
        assert!(log.write(b"first").is_some(), "it is a directory");
        std::fs::remove_dir(files.log()).expect("it is empty");
        for text in ["second", "third"] {
            assert_eq!(log.write(text.as_bytes()), None);
        }
        let text = std::fs::read_to_string(files.log()).expect("it is there");
        let expected = "5 bytes are missing here, which could not be written\r\n\u{1b}[8;24;80tsecondthird";
        assert!(text.ends_with(expected), "{text:?}");
    }
}
