//! Checks a trace whole, and changes nothing: folders and names, records, every value of every table, and whether they
//! agree with one another. What is wrong is one line each, with its path and what to do.
//!
//! ```text
//! layout (folders, names, leftovers) ── record (run.json) ── table (one Parquet file) ── ledger ── derived
//! ```

mod derived;
mod layout;
mod ledger;
mod record;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};

use self::table::Content;
use super::layout::{JOURNAL_FILE, RUN_FILE};
use super::lock::Lock;
use super::open::{environment_dirs, run_folders};
use super::run::{FILE_IS_MISSING, Outcome, REMEDY, RunRecord};
use super::tables::SHAPES;
use super::{parquet, place, sums};

/// What was looked at, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub environments: usize,
    pub runs: usize,
    pub tables: usize,
    pub rows: u64,
    /// Runs that are being recorded right now, and were left alone.
    pub recording: usize,
    /// One line each: where, what, and what to do.
    pub problems: Vec<String>,
}

impl Verdict {
    fn problem(&mut self, path: &Path, what: &str, remedy: &str) {
        self.problems.push(format!("{}: {what}; {remedy}", path.display()));
    }
}

/// A run that could be read.
pub(super) struct Checked {
    case_slug: String,
    record: RunRecord,
}

/// Checks a folder of traces, or that of one environment. Memory does not grow with the length of runs.
///
/// # Errors
/// There is no such folder, or nothing was recorded into it.
pub fn verify(folder: &Path) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    layout::leftovers(folder, &mut verdict);
    for dir in environment_dirs(folder)? {
        verdict.environments += 1;
        environment(&dir, &mut verdict);
    }
    if verdict.runs + verdict.recording == 0 && verdict.problems.is_empty() {
        bail!("{} holds no recorded run; record one with `shice record --out {0}`", folder.display());
    }
    Ok(verdict)
}

fn environment(dir: &Path, verdict: &mut Verdict) {
    let recorder_lives = Lock::is_held(dir);
    layout::of_environment(dir, verdict);
    let folders = match run_folders(dir) {
        Ok(folders) => folders,
        Err(error) => return verdict.problems.push(format!("{error:#}")),
    };
    let (mut checked, mut all_read) = (Vec::new(), true);
    for (case_slug, folder) in folders {
        if recorder_lives && folder.join(JOURNAL_FILE).exists() {
            verdict.recording += 1;
            continue;
        }
        verdict.runs += 1;
        match run(&folder, verdict) {
            Some(record) => {
                let misplaced = place::misplaced(dir, &folder, &record);
                all_read &= misplaced.is_empty();
                verdict.problems.extend(misplaced);
                checked.push(Checked { case_slug, record });
            }
            None => all_read = false,
        }
    }
    let runs = checked.iter().map(|run| (run.case_slug.as_str(), &run.record));
    let copies = place::copies(dir, runs);
    all_read &= copies.is_empty();
    verdict.problems.extend(copies.into_iter().map(|(_, line)| line));
    // A run that cannot be read, or counts for none, may well stand in what is derived of all.
    if all_read && !recorder_lives && !checked.is_empty() {
        derived::check(dir, checked, verdict);
    }
}

/// Checks the folder of one run; its record, unless that cannot be read or the run was never finished.
fn run(folder: &Path, verdict: &mut Verdict) -> Option<RunRecord> {
    layout::leftovers(folder, verdict);
    let path = folder.join(RUN_FILE);
    if !path.exists() {
        verdict.problem(folder, "the folder of a run holds no run.json", REMEDY);
        return None;
    }
    let record = match RunRecord::read(&path) {
        Ok(record) => record,
        Err(error) => {
            verdict.problems.push(format!("{error:#}"));
            return None;
        }
    };
    if folder.join(JOURNAL_FILE).exists() {
        verdict.problem(folder, "the recorder died before the run was finished", "`shice list` finishes it");
        return None;
    }
    if record.outcome == Outcome::Recording {
        verdict.problem(&path, "the run was never finished, and its journal is gone", REMEDY);
    }
    record::check(&path, &record, verdict);
    let contents = tables(folder, &record, verdict);
    ledger::check(&path, &record, &contents, verdict);
    Some(record)
}

/// Checks all tables of a run; what those hold that could be read whole.
fn tables(folder: &Path, record: &RunRecord, verdict: &mut Verdict) -> BTreeMap<&'static str, Option<Content>> {
    let mut contents = BTreeMap::new();
    for name in record.files.keys().filter(|name| !folder.join(name).exists()) {
        verdict.problem(&folder.join(name), FILE_IS_MISSING, REMEDY);
    }
    for shape in SHAPES {
        let path = parquet::path_of(folder, shape.name);
        if path.exists() {
            verdict.tables += 1;
            let content =
                if is_as_written(&path, record, verdict) { table::check(&path, *shape, record, verdict) } else { None };
            verdict.rows += content.as_ref().map_or(0, |content| content.rows);
            contents.insert(shape.name, content);
        }
    }
    contents
}

/// Whether a file is the one that the run was finished with, as far as the record tells.
fn is_as_written(path: &Path, record: &RunRecord, verdict: &mut Verdict) -> bool {
    let sum = path.file_name().and_then(|name| record.files.get(name.to_str()?));
    match sum.map(|sum| sums::check(path, sum)) {
        Some(Err(error)) => {
            verdict.problems.push(format!("{error:#}"));
            return false;
        }
        None if !record.files.is_empty() => {
            verdict.problem(path, "the run was finished without this file", "remove it");
        }
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests;
