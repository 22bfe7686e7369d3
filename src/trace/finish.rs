//! Turns a run's journal into Parquet: after the run, or later for a run whose recorder died.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::journal;
use super::layout::{JOURNAL_FILE, RUN_FILE, STEPS_FILE};
use super::run::{Outcome, RunRecord};
use super::tables::Sinks;
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

/// Completes a run: journal to Parquet, then `run.json`, then the journal goes. A crash in between leaves the journal,
/// and the next call begins anew.
///
/// # Errors
/// Names the file that could not be read or written; the journal is kept then.
pub fn finish(folder: &Path, record: &mut RunRecord) -> Result<()> {
    let journal = folder.join(JOURNAL_FILE);
    let mut sinks = Sinks::new(folder);
    let skipped = journal::read(&journal, |row| sinks.push(row))?;
    sinks.close()?;
    if skipped > 0 {
        record.events.push(format!("{skipped} line(s) of the journal were cut or unknown and are left out"));
    }
    write_record(folder, record)?;
    let steps = folder.join(STEPS_FILE);
    for temporary in [&steps, &journal].into_iter().filter(|path| path.exists()) {
        fs::remove_file(temporary).with_context(|| format!("cannot remove {}", temporary.display()))?;
    }
    Ok(())
}

/// Completes a run whose recorder died, and marks it incomplete. The caller holds the environment's lock, or knows
/// that nobody records.
///
/// # Errors
/// As [`finish`].
pub fn recover(folder: &Path, record: &mut RunRecord) -> Result<()> {
    if record.outcome == Outcome::Recording {
        record.outcome = Outcome::Incomplete;
    }
    finish(folder, record)
}
