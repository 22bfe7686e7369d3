//! Turns a run's journal into Parquet: after the run, or later for a run whose recorder died.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

use super::journal;
use super::layout::{JOURNAL_FILE, RESERVE_FILE, RUN_FILE, WORKING_FILES};
use super::run::{CoverageState, Outcome, RunRecord};
use super::tables::Sinks;
use super::{parquet, sums};
use crate::files;

/// Writes `run.json`, whole or not at all.
///
/// # Errors
/// Names the file.
pub fn write_record(folder: &Path, record: &RunRecord) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(record).context("cannot put the run record into JSON")?;
    text.push(b'\n');
    files::write(&folder.join(RUN_FILE), &text)
}

/// Room for the final record, which is longer than the first one.
const RESERVED_BYTES: usize = 256 << 10;

/// Keeps room on the disk, so that a run that fills it can still be described.
///
/// # Errors
/// Names the file.
pub fn reserve_space(folder: &Path) -> Result<()> {
    let path = folder.join(RESERVE_FILE);
    fs::write(&path, vec![1; RESERVED_BYTES]).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes all that is known of a run that has ended. What is left to do is [`finish`], which can be done later.
///
/// # Errors
/// Names the file.
pub fn write_last_record(folder: &Path, record: &RunRecord) -> Result<()> {
    remove(&folder.join(RESERVE_FILE))?;
    write_record(folder, record)
}

/// Completes a run: `run.json` first, then the journal becomes Parquet, then `run.json` gets the files' sums and the
/// journal goes. A crash or a full disk in between leaves the journal, and the next call begins anew.
///
/// # Errors
/// Names the file that could not be read or written; record and journal are kept then.
pub fn finish(folder: &Path, record: &mut RunRecord) -> Result<()> {
    write_last_record(folder, record)?;
    let journal = folder.join(JOURNAL_FILE);
    let skipped = match to_parquet(&journal, folder, record) {
        Ok(skipped) => skipped,
        Err(error) => {
            remove_parts(folder);
            return Err(error.context(format!(
                "the samples of the run stay in {}, and the next `shice list` or `render` tries again (is the disk full?)",
                journal.display()
            )));
        }
    };
    if skipped > 0 {
        record.events.push(format!("{skipped} line(s) of the journal were cut or unknown and are left out"));
    }
    record.files = sums::of_tables(folder)?;
    write_record(folder, record)?;
    WORKING_FILES.iter().try_for_each(|name| remove(&folder.join(name)))?;
    remove(&journal)
}

/// A full disk can have cost all samples of a table: then it was measured, and the values were lost.
fn unclaim(folder: &Path, record: &mut RunRecord) {
    for entry in &mut record.coverage {
        if entry.claims_missing(|table| parquet::path_of(folder, table).exists()) {
            entry.state = CoverageState::Lost;
            entry.reason = "it was read, but no sample of it was kept on disk".to_owned();
        }
    }
}

/// Returns the number of lines that could not be used. The record's ledger claims no table that has not come of it.
fn to_parquet(journal: &Path, folder: &Path, record: &mut RunRecord) -> Result<u64> {
    let mut sinks = Sinks::new(folder);
    let skipped = journal::read(journal, |row| sinks.push(row))?;
    sinks.close()?;
    unclaim(folder, record);
    Ok(skipped)
}

/// Removes what was begun, so that it takes no room from what is kept.
fn remove_parts(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "part")) {
        let _ = fs::remove_file(path);
    }
}

fn remove(path: &Path) -> Result<()> {
    // A workload can make anything of the file that it was given to append to.
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Completes a run whose recorder died, and marks it incomplete. The caller holds the environment's lock, or knows
/// that nobody records.
///
/// # Errors
/// As [`finish`].
pub fn recover(folder: &Path, record: &mut RunRecord) -> Result<()> {
    mark_cut(record);
    finish(folder, record)
}

/// As [`recover`], but the tables are written into another folder and nothing is changed where the run lies.
///
/// # Errors
/// Names the file that could not be read or written.
pub fn finish_elsewhere(folder: &Path, elsewhere: &Path, record: &mut RunRecord) -> Result<()> {
    mark_cut(record);
    to_parquet(&folder.join(JOURNAL_FILE), elsewhere, record).map(|_| ())
}

fn mark_cut(record: &mut RunRecord) {
    if record.outcome == Outcome::Recording {
        record.outcome = Outcome::Incomplete;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Journal;
    use crate::trace::run::{Coverage, SOFTWARE};
    use crate::trace::tables::Host;

    #[test]
    fn a_table_of_which_no_sample_was_kept_is_lost_wherever_the_run_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::create(&folder.path().join(JOURNAL_FILE)).unwrap();
        journal.append(Host::default());
        drop(journal);
        let line = |metric: &str| Coverage {
            metric: metric.into(),
            state: CoverageState::Measured,
            source: "/proc".into(),
            reason: String::new(),
        };
        let coverage = ["host.cpu", "core", SOFTWARE].map(line).to_vec();
        let told = RunRecord { coverage, ..RunRecord::for_tests(Outcome::Finished) };
        let states = |record: &RunRecord| record.coverage.iter().map(|entry| entry.state).collect::<Vec<_>>();
        let right = [CoverageState::Measured, CoverageState::Lost, CoverageState::Measured];
        let elsewhere = tempfile::tempdir().unwrap();
        let mut record = told.clone();
        finish_elsewhere(folder.path(), elsewhere.path(), &mut record).unwrap();
        assert_eq!(states(&record), right);
        let mut record = told;
        finish(folder.path(), &mut record).unwrap();
        assert_eq!(states(&record), right);
    }
}
