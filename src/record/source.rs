//! One file of the kernel's that is read again and again, and what became of its readings.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::libc;
use nix::sys::resource::{Resource, getrlimit};

use crate::trace::run::{Coverage, CoverageState};

/// With fewer descriptors files are opened for each reading.
const ROOMY_DESCRIPTORS: u64 = 64;
/// Length of the buffer at the first reading; it grows to what the file needs, and most of the kernel's need little.
const FIRST_BUFFER: usize = 512;
/// The kernel hands out as many whole lines as fit into a page, or a text of one piece whole. So a reading that leaves a
/// quarter of a page free has come to the end, and needs no second one to be told so.
const SURELY_THE_END: usize = 3072;

/// What the ledger says of a file that nobody asked for.
pub const NEVER_READ: &str = "never read";

/// A file kept open and read from its beginning each time: half the cost of opening it anew.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    /// Columns (`table.column`) that come from this file.
    columns: &'static [&'static str],
    file: Option<File>,
    buffer: Vec<u8>,
    readings: u64,
    failures: u64,
    error: Option<io::Error>,
}

impl Source {
    /// Opens nothing yet: a source that cannot be opened now is tried again at each reading.
    pub fn new(path: impl Into<PathBuf>, columns: &'static [&'static str]) -> Self {
        Self { path: path.into(), columns, file: None, buffer: Vec::new(), readings: 0, failures: 0, error: None }
    }

    /// The file's text as it is now, parsed; `None` where it cannot be read or holds something else.
    pub fn read<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        match self.try_read(parse) {
            Ok(value) => {
                self.readings += 1;
                Some(value)
            }
            Err(error) => {
                self.failures += 1;
                self.error = Some(error);
                None
            }
        }
    }

    /// Like [`Source::read`] for a file whose ledger is kept elsewhere.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub fn try_read<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> io::Result<T> {
        let read = self.read_text();
        if read.is_err() || descriptors_are_scarce() {
            self.close();
        }
        let bytes = &self.buffer[..read?];
        // The name of a process may be any bytes, or end within a character.
        let parsed = match std::str::from_utf8(bytes) {
            Ok(text) => parse(text),
            Err(_) => parse(&String::from_utf8_lossy(bytes)),
        };
        parsed.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "not in the form that was expected"))
    }

    /// Gives the descriptor back; the next reading opens the file anew.
    pub fn close(&mut self) {
        self.file = None;
    }

    fn read_text(&mut self) -> io::Result<usize> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(File::open(&self.path)?),
        };
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                self.buffer.resize((length * 2).max(FIRST_BUFFER), 0);
            }
            match file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => return Ok(length),
                Ok(count) => {
                    length += count;
                    if count < SURELY_THE_END && length < self.buffer.len() {
                        return Ok(length);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the ledger says of the file's columns.
    pub fn coverage(&self) -> Vec<Coverage> {
        let (state, reason) = standing(self.readings, self.failures, self.error.as_ref(), NEVER_READ);
        let source = self.path.display().to_string();
        let entry = |metric: &&str| Coverage {
            metric: (*metric).to_owned(),
            state,
            source: source.clone(),
            reason: reason.clone(),
        };
        self.columns.iter().map(entry).collect()
    }
}

/// Whether this process may open so few files that none may be held: the walk through /proc needs some as well.
fn descriptors_are_scarce() -> bool {
    static SCARCE: OnceLock<bool> = OnceLock::new();
    *SCARCE.get_or_init(|| getrlimit(Resource::RLIMIT_NOFILE).is_ok_and(|(soft, _)| soft < ROOMY_DESCRIPTORS))
}

/// Why there is no reading of what is read at intervals, and no failure either.
pub const UNREAD: &str = "the run ended before the first reading";

/// What became of a run's readings, in the ledger's words; `unread` is why there was neither a reading nor a failure.
pub fn standing(readings: u64, failures: u64, error: Option<&io::Error>, unread: &str) -> (CoverageState, String) {
    match (error, readings) {
        (None, 0) => (CoverageState::Lost, unread.to_owned()),
        (None, _) => (CoverageState::Measured, String::new()),
        (Some(error), 0) => (state_of(error), error.to_string()),
        (Some(error), _) => {
            (CoverageState::Lost, format!("{failures} of {} readings failed: {error}", readings + failures))
        }
    }
}

/// Whether a file of a process could not be read because the process has ended: opening it fails in one way, reading one
/// that was open in another.
pub fn has_vanished(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// What an error of a first reading means for the ledger.
pub fn state_of(error: &io::Error) -> CoverageState {
    match error.kind() {
        ErrorKind::PermissionDenied => CoverageState::Denied,
        // For want of descriptors or memory of the recorder's own: the machine has the figure.
        _ if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => CoverageState::Lost,
        _ => CoverageState::Unsupported,
    }
}

/// A counter of the kernel's, told as what it grew by since the first reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter {
    first: Option<i64>,
    last: i64,
    below: u64,
}

impl Counter {
    /// Of something that did not exist before the run: it counts from zero, not from the first reading.
    pub fn from_zero() -> Self {
        Self { first: Some(0), ..Self::default() }
    }

    /// The growth since the first reading. Null while the counter stands below an earlier reading: then it was reset or
    /// wrapped, and nobody knows what it counted meanwhile.
    pub fn since_first(&mut self, reading: Option<i64>) -> Option<i64> {
        let reading = reading?;
        let first = *self.first.get_or_insert(reading);
        if reading < self.last.max(first) {
            self.below += 1;
            return None;
        }
        self.last = reading;
        Some(reading - first)
    }

    /// How many readings stood below an earlier one, and so are null.
    pub fn below(&self) -> u64 {
        self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_steps_back_is_null_until_it_has_caught_up() {
        let mut counter = Counter::default();
        let readings = [Some(10), Some(15), Some(3), None, Some(15), Some(20)];
        let told: Vec<_> = readings.map(|reading| counter.since_first(reading)).into();
        assert_eq!(told, [Some(0), Some(5), None, None, Some(5), Some(10)]);
        // A reading that could not be taken is no step back.
        assert_eq!(counter.below(), 1);
    }

    #[test]
    fn a_file_larger_than_the_buffer_is_read_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "x".repeat(10_000)).unwrap();
        let mut source = Source::new(file.path(), &["host.cpu_user_ns"]);
        assert_eq!(source.read(|text| Some(text.len())), Some(10_000));
        assert_eq!(source.coverage()[0].state, CoverageState::Measured);
    }

    #[test]
    fn a_missing_file_is_unsupported_and_not_zero() {
        let mut source = Source::new("/proc/no/such/file", &["host.pressure_cpu_ns"]);
        assert_eq!(source.read(|_| Some(0)), None);
        assert_eq!(source.coverage()[0].state, CoverageState::Unsupported);
    }

    #[test]
    fn a_source_that_fails_once_is_tried_again_and_marked_lost() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "7").unwrap();
        let mut source = Source::new(file.path(), &["host.cpu_user_ns"]);
        let parse = |text: &str| text.trim().parse::<i64>().ok();
        assert_eq!(source.read(parse), Some(7));
        std::fs::write(file.path(), "?").unwrap();
        assert_eq!(source.read(parse), None);
        std::fs::write(file.path(), "9").unwrap();
        assert_eq!(source.read(parse), Some(9));
        assert_eq!(source.coverage()[0].state, CoverageState::Lost);
    }
}
