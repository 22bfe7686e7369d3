//! Folders and names against the layout, and what was left behind.

use std::fs;
use std::path::Path;

use super::Verdict;
use crate::trace::layout::{JOURNAL_FILE, WORKING_FILES, partition, partitions};
use crate::trace::lock::Lock;
use crate::trace::replace;
use crate::trace::run::REMEDY;
use crate::trace::tables::SHAPES;

/// Files that a finished run has no more, and tables that nobody knows. The journal of a cut run is told elsewhere.
pub(super) fn leftovers(folder: &Path, verdict: &mut Verdict) {
    let has_journal = folder.join(JOURNAL_FILE).exists();
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    for name in names {
        let path = folder.join(&name);
        let working = WORKING_FILES.contains(&name.as_str());
        if name.ends_with(".part") || working && !has_journal {
            verdict.problem(&path, "it was left behind by a program that was interrupted", "remove it");
        }
        let table = name.strip_suffix(".parquet").filter(|_| partition(folder, "node").is_some());
        if table.is_some_and(|table| SHAPES.iter().all(|shape| shape.name != table)) {
            verdict.problem(
                &path,
                "there is no such table in a trace of this version",
                "remove it, or use a newer shice",
            );
        }
    }
}

/// Leftovers beside the runs, and folders that hold none.
pub(super) fn of_environment(dir: &Path, verdict: &mut Verdict) {
    leftovers(dir, verdict);
    if replace::is_left_over(dir) && !Lock::is_held(dir) {
        verdict.problem(dir, "a recording that was to replace runs was killed", "`shice list` clears up after it");
    }
    for (_, case) in partitions(dir, "case").unwrap_or_default() {
        leftovers(&case, verdict);
        let runs = partitions(&case, "run").unwrap_or_default();
        if runs.is_empty() {
            verdict.problem(&case, "the folder of a case holds no run", "remove it");
        }
        for (_, run) in runs {
            leftovers(&run, verdict);
            if partitions(&run, "node").unwrap_or_default().is_empty() {
                verdict.problem(&run, "the folder of a run holds no node", REMEDY);
            }
        }
    }
}
