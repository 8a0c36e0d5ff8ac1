//! Reads a log while it is written: each byte of it once, in its order, whatever is put aside meanwhile.
//!
//! A file that is open is read to its end also when it has been put aside or removed, so nothing is lost of what was there when it was
//! looked at. Where the log went on by more than its two generations between two looks, what is read says so.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use super::Files;
use super::log::Mark;

/// How often both generations are opened anew since one was put aside in between: once is enough, but for a disk that is very fast.
const TRIES: usize = 16;

/// What stands in the place of generations that were gone before they were read.
const GAP: &str = "\r\n[relay] some of it is missing here: it was written faster than it was read\r\n";

/// Where somebody has come to in a log.
pub(crate) struct Reader {
    files: Files,
    current: Option<Generation>,
}

/// What was written since.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// As it was written.
    pub text: Vec<u8>,
    /// It was the last of it: the log is another worker's now.
    pub is_anothers: bool,
}

/// A file of the log, as far as it was read.
struct Generation {
    file: File,
    /// Which file it is: its device, and its number there. Nothing else has them while it is open.
    at: (u64, u64),
    /// What it says of itself; none if it is older than that.
    mark: Option<Mark>,
}

impl Generation {
    /// Opens a file; none if it is not there, or has nothing in it yet.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = file.metadata()?;
        let mut head = [0; Mark::BYTES_MAX];
        let count = file.read_at(&mut head, 0)?;
        let mark = Mark::of(&head[..count]);
        let at = (found.dev(), found.ino());
        Ok((count > 0).then_some(Self { file, at, mark }))
    }

    /// Takes what was not read of it.
    fn take(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        self.file.read_to_end(text).map(drop)
    }
}

impl Reader {
    /// Begins at the beginning of what is kept.
    pub fn of(files: Files) -> Self {
        let current = None;
        Self { files, current }
    }

    /// Takes what there is now and was not taken before; nothing if there is no log.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn read(&mut self) -> io::Result<News> {
        let mut news = News::default();
        let mut generations = self.generations()?;
        if let Some(current) = &mut self.current {
            current.take(&mut news.text)?;
            match generations.iter().position(|next| next.at == current.at) {
                Some(place) => drop(generations.drain(..=place)),
                None => {
                    generations.retain(|next| !next.is_before(current));
                    let mut follow = generations.iter().map(|next| next.follows(current));
                    match follow.next() {
                        Some(Follows::Another) => news.is_anothers = true,
                        Some(Follows::Later) => news.text.extend_from_slice(GAP.as_bytes()),
                        Some(Follows::AtOnce) | None => {}
                    }
                }
            }
        }
        if news.is_anothers {
            return Ok(news);
        }
        for mut next in generations {
            next.take(&mut news.text)?;
            self.current = Some(next);
        }
        Ok(news)
    }

    /// Opens what is kept, the earlier generation first: two that follow each other, or only the last one where none stays long enough.
    fn generations(&self) -> io::Result<Vec<Generation>> {
        let (log, log_before) = (self.files.log(), self.files.log_before());
        for _ in 0..TRIES {
            let last = Generation::open(&log)?;
            let before = Generation::open(&log_before)?;
            let at = last.as_ref().map(|last| last.at);
            let is_whole = Generation::open(&log)?.map(|last| last.at) == at;
            let was_put_aside = at.is_some() && before.as_ref().map(|before| before.at) == at;
            if is_whole && !was_put_aside {
                return Ok(before.into_iter().chain(last).collect());
            }
        }
        // What was before it may be later than it by now; that it is missing is told by its mark.
        Ok(Generation::open(&log)?.into_iter().collect())
    }
}

/// How a generation comes behind another one.
enum Follows {
    /// Nothing was between them.
    AtOnce,
    /// Something was.
    Later,
    /// It is another worker's.
    Another,
}

impl Generation {
    fn is_before(&self, other: &Self) -> bool {
        let (Some(mark), Some(other)) = (self.mark, other.mark) else {
            return false;
        };
        mark.writer == other.writer && mark.generation <= other.generation
    }

    fn follows(&self, other: &Self) -> Follows {
        match (self.mark, other.mark) {
            (Some(mark), Some(other)) if mark.writer != other.writer => Follows::Another,
            (Some(mark), Some(other)) if mark.generation > other.generation + 1 => Follows::Later,
            (_, _) => Follows::AtOnce,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::super::limits::LOG_GENERATION_BYTES;
    use super::super::log::Log;
    use super::super::screen::lines_of;
    use super::*;

    fn files() -> (tempfile::TempDir, Files) {
        let directory = tempfile::tempdir().expect("a directory");
        let files = Files::of(directory.path(), "a");
        files.make_directory().expect("it is ours");
        (directory, files)
    }

    /// Writes numbered lines, and returns them.
    fn write(log: &mut Log, numbers: std::ops::Range<u32>) -> Vec<String> {
        let line = |number| format!("line {number:06} {}", "x".repeat(60));
        for number in numbers.clone() {
            assert_eq!(log.write(format!("{}\r\n", line(number)).as_bytes()), None);
        }
        numbers.map(line).collect()
    }

    /// The lines of a text, without what begins a generation. No line has a t.
    fn shown(text: &[u8]) -> Vec<String> {
        let text = std::str::from_utf8(text).expect("text");
        let lines = text.split_terminator("\r\n").filter(|line| !line.is_empty());
        let shown = |line: &str| line.rsplit_once(";80t").map_or(line, |(_, line)| line).to_owned();
        lines.map(shown).collect()
    }

    const A_GENERATION: u32 = (LOG_GENERATION_BYTES / 75) as u32;

    #[test]
    fn each_line_is_read_once_however_often_the_log_is_put_aside() {
        for step in [1_000, A_GENERATION / 2, A_GENERATION, A_GENERATION + 2_000] {
            let (_directory, files) = files();
            let mut log = Log::begin(files.clone(), (24, 80));
            let mut reader = Reader::of(files);
            let (mut text, mut lines) = (Vec::new(), Vec::new());
            let mut number = 0;
            while number < 6 * A_GENERATION {
                lines.extend(write(&mut log, number..number + step));
                number += step;
                let news = reader.read().expect("it can be read");
                assert!(!news.is_anothers);
                text.extend(news.text);
            }
            assert_eq!(reader.read().expect("it can be read"), News::default());
            let shown = shown(&text);
            let differs = shown.iter().zip(&lines).find(|(one, other)| one != other);
            assert_eq!(differs, None, "by {step}");
            assert_eq!(shown.len(), lines.len(), "by {step}");
        }
    }

    #[test]
    fn what_was_gone_before_it_was_read_is_said_to_be_missing() {
        let (_directory, files) = files();
        let mut log = Log::begin(files.clone(), (24, 80));
        let mut reader = Reader::of(files);
        let mut lines = write(&mut log, 0..10);
        let mut text = reader.read().expect("it can be read").text;
        let later = write(&mut log, 10..4 * A_GENERATION);
        text.extend(reader.read().expect("it can be read").text);
        let shown = shown(&text);
        // What was put aside since is read to its end, as it was open.
        let gap = shown
            .iter()
            .position(|line| line == GAP.trim())
            .expect("it is said");
        lines.extend(later);
        assert!(gap > 10 && shown[..gap - 1] == lines[..gap - 1]);
        let rest = &shown[gap + 1..];
        assert_eq!(rest, &lines[lines.len() - rest.len()..]);
        assert!(rest.len() > A_GENERATION as usize);
    }

    #[test]
    fn what_another_worker_of_the_name_writes_is_not_read() {
        let (_directory, files) = files();
        let mut log = Log::begin(files.clone(), (24, 80));
        let mut reader = Reader::of(files.clone());
        write(&mut log, 0..10);
        assert!(!reader.read().expect("it can be read").text.is_empty());
        write(&mut log, 10..11);
        let mut other = Log::begin(files, (24, 80)).of_writer(u32::MAX);
        write(&mut other, 20..21);
        let news = reader.read().expect("it can be read");
        assert!(news.is_anothers);
        let text = String::from_utf8(news.text).expect("text");
        assert!(text.contains("line 000010") && !text.contains("line 000020"));
    }

    #[test]
    fn a_log_that_is_removed_while_it_is_written_is_read_on() {
        let (_directory, files) = files();
        let mut log = Log::begin(files.clone(), (24, 80));
        let mut reader = Reader::of(files.clone());
        write(&mut log, 0..A_GENERATION + 10);
        reader.read().expect("it can be read");
        std::fs::remove_file(files.log()).expect("it is there");
        let lines = write(&mut log, 20..21);
        let text = reader.read().expect("it can be read").text;
        assert_eq!(lines_of(&text), lines);
    }

    #[test]
    fn what_is_opened_while_the_log_is_put_aside_follows_each_other() {
        /// How often two generations are to be seen.
        const LOOKS: u32 = 100;
        let (_directory, files) = files();
        let has_seen_enough = AtomicBool::new(false);
        let aside = AtomicU32::new(0);
        std::thread::scope(|threads| {
            // Whoever panics here lets the writer end, too.
            let _ends = EndsAtDrop(&has_seen_enough);
            threads.spawn(|| {
                let mut log = Log::begin(files.clone(), (24, 80));
                // Each goes into a generation of its own.
                let text = vec![b'x'; LOG_GENERATION_BYTES as usize - 1_000];
                while !has_seen_enough.load(Ordering::Acquire) {
                    log.write(&text);
                    aside.fetch_add(1, Ordering::Release);
                }
            });
            let reader = Reader::of(files.clone());
            // However the two take turns, the writer puts as many aside as it takes.
            let (mut seen, mut aside_before) = (0, 0);
            while seen < LOOKS {
                let found = reader.generations().expect("they can be read");
                let of = |found: &Generation| found.mark.expect("it has one").generation;
                if let [before, last] = &found[..] {
                    assert_eq!(of(before) + 1, of(last));
                    let aside = aside.load(Ordering::Acquire);
                    seen += u32::from(aside > aside_before);
                    aside_before = aside;
                }
            }
        });
    }

    /// Says that enough was seen, however its owner ends.
    struct EndsAtDrop<'a>(&'a AtomicBool);

    impl Drop for EndsAtDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    #[test]
    fn nothing_is_missing_between_two_generations_of_which_the_first_was_read_and_is_gone() {
        let (_directory, files) = files();
        let mut log = Log::begin(files.clone(), (24, 80));
        let mut reader = Reader::of(files.clone());
        let mut lines = write(&mut log, 0..10);
        let mut text = reader.read().expect("it can be read").text;
        lines.extend(write(&mut log, 10..A_GENERATION + 1_000));
        std::fs::remove_file(files.log_before()).expect("it was put aside");
        text.extend(reader.read().expect("it can be read").text);
        let shown = shown(&text);
        let differs = shown.iter().zip(&lines).find(|(one, other)| one != other);
        assert_eq!((differs, shown.len()), (None, lines.len()));
    }
}
