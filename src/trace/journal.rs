//! The journal: all tables of a run that is being recorded, one JSON object a line.
//!
//! Lines rather than a binary frame: a line that was cut by a crash is told by its missing end, every other line stays
//! good, an older journal is read by a newer program, and anybody can look into it.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::run::open_of_run;
use super::tables::Row;

/// Written rows reach the kernel at least this often: a killed recorder loses no more.
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// And the disk at least this often: a power loss takes no more.
const SYNC_INTERVAL: Duration = Duration::from_secs(10);
/// Rows that wait for a disk that takes none; past this they are dropped, so that memory stays bounded.
const MAX_PENDING_BYTES: usize = 4 << 20;

/// An append-only file that several probes write to.
pub struct Journal {
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    pending: Vec<u8>,
    written_bytes: u64,
    flushed: Instant,
    failure: Option<String>,
}

impl Journal {
    /// A new journal.
    ///
    /// # Errors
    /// The file exists already or cannot be made; it is named.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create_new(path).with_context(|| format!("cannot create {}", path.display()))?;
        let inner = Inner { file, pending: Vec::new(), written_bytes: 0, flushed: Instant::now(), failure: None };
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// Adds a row. A failing disk is no reason to stop the workload: the failure is kept for [`Journal::failure`].
    pub fn append(&self, row: impl Into<Row>) {
        let mut inner = self.lock();
        let row: Row = row.into();
        let start = inner.pending.len();
        match serde_json::to_writer(&mut inner.pending, &row) {
            Ok(()) => inner.pending.push(b'\n'),
            // Nothing in a row can fail to serialise but a number that JSON lacks; keep the line whole either way.
            Err(_) => inner.pending.truncate(start),
        }
    }

    /// Hands pending rows to the kernel when they have waited long enough.
    pub fn flush_when_due(&self) {
        let mut inner = self.lock();
        if inner.flushed.elapsed() >= FLUSH_INTERVAL {
            inner.flush();
        }
    }

    /// Hands all rows to the kernel.
    pub fn flush(&self) {
        self.lock().flush();
    }

    /// Keeps the journal on disk until `stop` says so. Runs on a thread of its own: a sync can take seconds.
    ///
    /// # Errors
    /// The file handle could not be duplicated.
    pub fn sync_until(&self, stop: impl Fn(Duration) -> bool) -> Result<()> {
        let file = self.lock().file.try_clone().context("cannot open the journal a second time")?;
        while !stop(SYNC_INTERVAL) {
            // A disk that cannot sync shows at the next write; the rows are with the kernel meanwhile.
            let _ = file.sync_data();
        }
        Ok(())
    }

    pub fn written_bytes(&self) -> u64 {
        self.lock().written_bytes
    }

    /// The first write that failed, if any.
    pub fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // A probe that panicked left whole lines or none: the journal itself is sound.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Inner {
    fn flush(&mut self) {
        self.flushed = Instant::now();
        let mut written = 0;
        while written < self.pending.len() {
            match self.file.write(&self.pending[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure.get_or_insert_with(|| {
                        format!("the journal could not be written ({error}): samples may be lost")
                    });
                    break;
                }
            }
        }
        self.written_bytes += written as u64;
        // What the disk did not take is tried again from the same byte, so no line is ever torn by it.
        self.pending.drain(..written);
        if self.pending.len() > MAX_PENDING_BYTES {
            self.pending.clear();
            self.pending.push(b'\n');
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Reads a journal row by row. Lines that are cut or unknown are counted in `skipped`, and cost nothing else.
///
/// # Errors
/// The file cannot be read, or `each` failed.
pub fn read(path: &Path, mut each: impl FnMut(Row) -> Result<()>) -> Result<u64> {
    let failed = || format!("cannot read {}", path.display());
    let mut reader = BufReader::new(open_of_run(path)?);
    let (mut line, mut skipped) = (Vec::new(), 0);
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).with_context(failed)? == 0 {
            return Ok(skipped);
        }
        match serde_json::from_slice(&line) {
            Ok(row) => each(row)?,
            Err(_) if line.iter().all(u8::is_ascii_whitespace) => {}
            Err(_) => skipped += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tables::Host;

    fn host(t_ns: i64) -> Host {
        Host { t_ns, cpu_user_ns: Some(t_ns / 2), ..Host::default() }
    }

    fn rows(path: &Path) -> (Vec<Row>, u64) {
        let mut rows = Vec::new();
        let skipped = read(path, |row| {
            rows.push(row);
            Ok(())
        });
        (rows, skipped.unwrap())
    }

    #[test]
    fn rows_come_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let journal = Journal::create(&path).unwrap();
        journal.append(host(1));
        journal.append(host(2));
        drop(journal);
        assert_eq!(rows(&path), (vec![host(1).into(), host(2).into()], 0));
    }

    #[test]
    fn a_journal_cut_anywhere_keeps_every_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let journal = Journal::create(&path).unwrap();
        (0..20).for_each(|t| journal.append(host(t)));
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (kept, skipped) = rows(&path);
            let ends = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            assert!(kept.len() == ends || kept.len() == ends + 1, "cut at {cut}");
            assert!(skipped <= 1);
        }
    }

    #[test]
    fn a_row_of_an_unknown_table_is_skipped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        std::fs::write(
            &path,
            "{\"host\":{\"t_ns\":1}}\n{\"quantum\":{\"t_ns\":1}}\n{\"host\":{\"t_ns\":2,\"new\":3}}\n",
        )
        .unwrap();
        assert_eq!(
            rows(&path),
            (vec![Host { t_ns: 1, ..Host::default() }.into(), Host { t_ns: 2, ..Host::default() }.into()], 1)
        );
    }
}
