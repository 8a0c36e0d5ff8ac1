//! The log of a worker: what it has written, as its terminal was given it, in two generations.
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
    written: u64,
    missing: u64,
    size: (u16, u16),
}

impl Log {
    /// Begins the log of a worker; that of the one before it goes.
    pub fn begin(files: Files, size: (u16, u16)) -> Self {
        for file in [files.log_before(), files.log()] {
            let _there_may_be_none = std::fs::remove_file(file);
        }
        Self {
            files,
            file: None,
            written: 0,
            missing: 0,
            size,
        }
    }

    /// Writes down that the terminal has another size from here on.
    pub fn resized(&mut self, size: (u16, u16)) -> Option<String> {
        self.size = size;
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
                self.missing += bytes.len() as u64;
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

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written + bytes.len() as u64 > LOG_GENERATION_BYTES && self.written > 0 {
            match std::fs::rename(self.files.log(), self.files.log_before()) {
                Ok(()) => {}
                // Somebody has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            self.file = None;
            self.written = 0;
        }
        let mut said = String::new();
        let file = if let Some(file) = &mut self.file {
            file
        } else {
            let is_new = self.written == 0;
            let mut options = OpenOptions::new();
            options.create(true).append(!is_new).write(true).truncate(is_new);
            let file = options.mode(0o600).open(self.files.log())?;
            if is_new {
                said = sized(self.size);
            }
            self.file.insert(file)
        };
        if self.missing > 0 {
            said.push_str(&format!(
                "\r\n[relay] {} bytes are missing here, which could not be written\r\n",
                self.missing
            ));
        }
        file.write_all(said.as_bytes())?;
        self.written += said.len() as u64;
        file.write_all(bytes)?;
        self.missing = 0;
        self.written += bytes.len() as u64;
        Ok(())
    }
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
        assert!(text.starts_with("\u{1b}[8;24;80t") && text.ends_with("3939"));
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
        let expected =
            "\u{1b}[8;24;80t\r\n[relay] 11 bytes are missing here, which could not be written\r\nthird";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_worker_begins_with_an_empty_log_and_goes_on_where_somebody_has_removed_it() {
        let (_directory, files) = files();
        for file in [files.log_before(), files.log()] {
            std::fs::write(file, "of the worker before").expect("there is room");
        }
        let mut log = Log::begin(files.clone(), (24, 80));
        assert_eq!(files.read_log().expect("it can be read"), b"");
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
}
