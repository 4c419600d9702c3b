//! The program's own log: what it wrote to standard error, kept in a file of bounded size for whoever looks for a fault.
//!
//! A line that repeats the one before it, its time aside, is counted and not written; the count follows once another
//! comes, or at the thousandth.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Days of a program that has something to say now and then; with the file before it, twice this is on disk.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A repetition is told at least this often.
const FOLD_AT: u64 = 1000;

/// A longer line is cut: the fault is in its beginning.
const MAX_LINE: usize = 8 * 1024;

/// What of the file's end is looked at for its last lines.
const TAIL_BYTES: u64 = 1024 * 1024;

const NAME: &str = "log.txt";
const OLD_NAME: &str = "log.1.txt";

/// A writer that keeps what it is given, and hands it on to standard error. Cheap to clone; each write is one line or
/// several whole ones, as subscribers write them.
#[derive(Debug, Clone)]
pub struct OwnLog {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    /// `None` once it could not be written: standard error still has everything.
    file: Option<File>,
    bytes: u64,
    last: String,
    repeated: u64,
}

impl OwnLog {
    /// Keeps the log in `dir`, which is made with the first line. Nothing fails here: a log that can't be kept is a log
    /// that is only on standard error.
    #[must_use]
    pub fn in_dir(dir: PathBuf) -> Self {
        Self {
            shared: Arc::new(Mutex::new(Shared {
                dir,
                file: None,
                bytes: 0,
                last: String::new(),
                repeated: 0,
            })),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for OwnLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Nobody may be listening any more; the file is what counts.
        let _ = io::stderr().write_all(bytes);
        let mut shared = self.lock();
        for line in String::from_utf8_lossy(bytes).lines() {
            shared.keep(line);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().tell_repeats();
        io::stderr().flush()
    }
}

impl Shared {
    fn keep(&mut self, line: &str) {
        let line = &line[..line.floor_char_boundary(MAX_LINE)];
        if body(line) == self.last {
            self.repeated += 1;
            if self.repeated >= FOLD_AT {
                self.tell_repeats();
            }
            return;
        }
        self.tell_repeats();
        body(line).clone_into(&mut self.last);
        self.append(line);
    }

    fn tell_repeats(&mut self) {
        let times = std::mem::take(&mut self.repeated);
        if times > 0 {
            self.append(&format!("  the line above × {}", times + 1));
        }
    }

    fn append(&mut self, line: &str) {
        if (self.file.is_none() || self.bytes > MAX_BYTES) && self.open().is_err() {
            return;
        }
        let Some(file) = &mut self.file else { return };
        if writeln!(file, "{line}").is_err() {
            // The disk may be full; the next line tries again.
            self.file = None;
            return;
        }
        self.bytes += line.len() as u64 + 1;
    }

    fn open(&mut self) -> io::Result<()> {
        let path = self.dir.join(NAME);
        if std::fs::metadata(&path).is_ok_and(|file| file.len() > MAX_BYTES) {
            std::fs::rename(&path, self.dir.join(OLD_NAME))?;
        }
        let mut folder = std::fs::DirBuilder::new();
        folder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
        folder.create(&self.dir)?;
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path)?;
        self.bytes = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }
}

/// A line without the time that it begins with.
fn body(line: &str) -> &str {
    match line.split_once(' ') {
        Some((time, rest)) if time.starts_with(|first: char| first.is_ascii_digit()) => rest,
        _ => line,
    }
}

/// Reads the last lines of the log in `dir`, oldest first. A log that isn't there is empty.
pub(crate) fn tail(dir: &Path, lines: usize) -> Vec<String> {
    let mut text = read_end(&dir.join(NAME)).unwrap_or_default();
    if text.lines().count() < lines
        && let Ok(before) = read_end(&dir.join(OLD_NAME))
    {
        text.insert_str(0, &before);
    }
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all[from..].iter().map(|line| (*line).to_owned()).collect()
}

fn read_end(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // A cut first line is no line.
    Ok(match (from, text.find('\n')) {
        (0, _) | (_, None) => text,
        (_, Some(end)) => text[end + 1..].to_owned(),
    })
}

/// The files of the log in `dir` with their sizes, the current one first.
pub(crate) fn files(dir: &Path) -> Vec<(PathBuf, u64)> {
    [NAME, OLD_NAME]
        .into_iter()
        .map(|name| dir.join(name))
        .filter_map(|path| {
            let size = std::fs::metadata(&path).ok()?.len();
            Some((path, size))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(log: &mut OwnLog, second: usize, text: &str) {
        let line = format!(
            "2026-01-01T00:{:02}:{:02}Z  WARN m: {text}\n",
            second / 60 % 60,
            second % 60
        );
        log.lock().keep(line.trim_end());
    }

    #[test]
    fn thirty_days_of_the_same_error_each_second_stay_small() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = OwnLog::in_dir(dir.path().join("logs"));
        for second in 0..30 * 24 * 3600 {
            write(&mut log, second, "the hub does not answer");
        }
        log.flush().unwrap();
        let bytes: u64 = files(&dir.path().join("logs")).iter().map(|(_, size)| size).sum();
        assert!(bytes < 100_000, "{bytes}");
        let last = tail(&dir.path().join("logs"), 2);
        assert!(last[1].contains("× 1000") || last[1].contains("× "), "{last:?}");
    }

    #[test]
    fn lines_that_differ_each_second_turn_the_file_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = OwnLog::in_dir(dir.path().to_owned());
        let long = "x".repeat(2000);
        for second in 0..6000 {
            write(&mut log, second, &format!("{second} {long}"));
        }
        let files = files(dir.path());
        assert_eq!(files.len(), 2);
        assert!(files.iter().map(|(_, size)| size).sum::<u64>() < 2 * MAX_BYTES + 10_000);
        let last = tail(dir.path(), 3);
        assert_eq!(last.len(), 3);
        assert!(last[2].contains("5999 "), "the newest is last");
    }

    #[test]
    fn a_folder_that_can_t_be_made_is_no_failure() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut log = OwnLog::in_dir(file.join("below"));
        log.write_all(b"2026-01-01T00:00:00Z hello\n").unwrap();
        assert!(tail(&file.join("below"), 5).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let mut log = OwnLog::in_dir(dir.path().join("logs"));
        write(&mut log, 1, "hello");
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(dir.path().join("logs")), 0o700);
        assert_eq!(mode(dir.path().join("logs").join(NAME)), 0o600);
    }
}
