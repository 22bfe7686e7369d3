//! Runs that take the place of others: recorded aside, and moved in once there is one that finished.
//!
//! ```text
//! .replacing/case=<slug>/run=<n>/…    being recorded; goes away if none finishes
//! .replaced/case=<slug>/run=<n>/…     the earlier runs, between the two renames that exchange them
//! ```
//! Wherever the recorder dies, the earlier runs of a case or a new finished one are whole in one of three places, and
//! [`settle`] puts them where they belong.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::layout::{RUN_FILE, case_dir, partitions, slug};
use super::lock::Lock;
use super::run::RunRecord;
use crate::files;

/// What is recorded to replace something.
const REPLACING: &str = ".replacing";
/// What is being replaced.
const REPLACED: &str = ".replaced";

/// What became of what lay aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Whether anything lay aside: what is derived of the runs may not be of those that are there now.
    pub found: bool,
    /// Slugs of cases that no new run finished of, and how many runs were dropped.
    pub dropped: Vec<(String, usize)>,
}

/// Where all runs lie that are recorded to replace others: a folder like that of an environment.
pub fn staging(environment: &Path) -> PathBuf {
    environment.join(REPLACING)
}

/// Where the runs lie that are recorded to replace those of a case.
pub fn staged_case_dir(environment: &Path, case: &str) -> PathBuf {
    case_dir(&staging(environment), case)
}

/// Makes sure that a case's runs can be moved, before hours are spent on recording others in their place.
///
/// # Errors
/// They cannot, as with folders that came with a container's image; the sentence says what to do.
pub fn try_out(environment: &Path, case: &str) -> Result<()> {
    let (place, aside) = (case_dir(environment, case), aside(environment, &slug(case))?);
    rename(&place, &aside).with_context(|| {
        format!(
            "the runs in {} cannot be replaced; record with another --out, or work on a copy of the folder",
            place.display()
        )
    })?;
    rename(&aside, &place)?;
    remove(&environment.join(REPLACED))
}

/// Exchanges the runs of a case for those that were recorded aside, and removes the earlier ones.
///
/// # Errors
/// A folder cannot be moved; the earlier runs are in their place then.
pub fn put_in_place(environment: &Path, case: &str) -> Result<()> {
    exchange(environment, &slug(case))
}

/// Puts everything where it belongs after a session, or after one that was killed.
///
/// # Errors
/// A folder cannot be moved or removed; it is named.
pub fn settle(environment: &Path, _lock: &Lock) -> Result<Settled> {
    let mut settled = Settled { found: is_left_over(environment), dropped: Vec::new() };
    for (slug, staged) in cases_in(&environment.join(REPLACING))? {
        if has_finished_run(&staged)? {
            exchange(environment, &slug)?;
        } else {
            settled.dropped.push((slug, partitions(&staged, "run")?.len()));
        }
    }
    for (slug, earlier) in cases_in(&environment.join(REPLACED))? {
        let place = place_of(environment, &slug);
        if !place.exists() {
            rename(&earlier, &place)?;
        }
    }
    remove(&environment.join(REPLACING))?;
    remove(&environment.join(REPLACED))?;
    Ok(settled)
}

/// Whether something lies aside, because it is being recorded or its recorder died.
pub fn is_left_over(environment: &Path) -> bool {
    [REPLACING, REPLACED].iter().any(|name| environment.join(name).exists())
}

fn exchange(environment: &Path, slug: &str) -> Result<()> {
    let (place, staged) = (place_of(environment, slug), place_of(&environment.join(REPLACING), slug));
    let aside = aside(environment, slug)?;
    if place.exists() {
        rename(&place, &aside)?;
    }
    if let Err(error) = rename(&staged, &place) {
        // Back as it was; where even this fails, `settle` finds the earlier runs aside.
        let _ = rename(&aside, &place);
        return Err(error);
    }
    remove(&aside)
}

/// Where the earlier runs of a case wait, in a folder that is there.
fn aside(environment: &Path, slug: &str) -> Result<PathBuf> {
    let folder = environment.join(REPLACED);
    files::create_dir(&folder)?;
    Ok(place_of(&folder, slug))
}

fn place_of(folder: &Path, slug: &str) -> PathBuf {
    folder.join(format!("case={slug}"))
}

fn cases_in(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    if folder.is_dir() { partitions(folder, "case") } else { Ok(Vec::new()) }
}

fn has_finished_run(case: &Path) -> Result<bool> {
    for (_, run) in partitions(case, "run")? {
        for (_, node) in partitions(&run, "node")? {
            // One that cannot be read replaces nothing.
            if RunRecord::read(&node.join(RUN_FILE)).is_ok_and(|record| record.outcome.is_finished()) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    files::put_in_place(from, to)
}

fn remove(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::trace::finish::write_record;
    use crate::trace::layout::node_dir;
    use crate::trace::open::open_environment;
    use crate::trace::run::Outcome;

    const FAILED: Outcome = Outcome::Failed { exit_code: 1 };

    /// An environment with one earlier, finished run of the case `w`, whose exit is told apart by its number.
    fn environment() -> (TempDir, PathBuf) {
        let traces = tempfile::tempdir().unwrap();
        let environment = traces.path().join("environment=e");
        put(&case_dir(&environment, "w"), 7, Outcome::Finished);
        (traces, environment)
    }

    fn put(case: &Path, run: u32, outcome: Outcome) {
        let dir = node_dir(case, run);
        fs::create_dir_all(&dir).unwrap();
        write_record(&dir, &RunRecord::numbered(run, outcome)).unwrap();
    }

    /// The numbers of the runs as a reader finds them, who must leave nothing lying aside.
    fn read(environment: &Path) -> Vec<u32> {
        let opened = open_environment(environment).unwrap().environment.unwrap();
        assert!(!is_left_over(environment));
        opened.runs.iter().map(|run| run.record.run).collect()
    }

    #[test]
    fn finished_runs_take_the_place_of_the_earlier_ones() {
        let (_traces, environment) = environment();
        put(&staged_case_dir(&environment, "w"), 1, FAILED);
        put(&staged_case_dir(&environment, "w"), 2, Outcome::Finished);
        put_in_place(&environment, "w").unwrap();
        assert_eq!(read(&environment), [1, 2]);
    }

    #[test]
    fn a_session_killed_before_a_run_finished_has_changed_nothing() {
        for outcome in [Outcome::Recording, FAILED, Outcome::Interrupted] {
            let (_traces, environment) = environment();
            put(&staged_case_dir(&environment, "w"), 1, outcome);
            assert_eq!(read(&environment), [7]);
        }
    }

    #[test]
    fn a_session_killed_right_after_a_run_finished_has_replaced_the_others() {
        let (_traces, environment) = environment();
        put(&staged_case_dir(&environment, "w"), 1, Outcome::Finished);
        assert_eq!(read(&environment), [1]);
    }

    #[test]
    fn a_session_killed_between_the_two_renames_is_completed() {
        let (_traces, environment) = environment();
        put(&staged_case_dir(&environment, "w"), 1, Outcome::Finished);
        let aside = aside(&environment, "w").unwrap();
        fs::rename(case_dir(&environment, "w"), aside).unwrap();
        assert_eq!(read(&environment), [1]);
        assert!(environment.join("runs.parquet").exists());
    }

    #[test]
    fn a_session_killed_while_it_tried_or_cleared_away_leaves_what_is_whole() {
        // While it tried whether the runs can be moved.
        let (_traces, environment) = environment();
        fs::rename(case_dir(&environment, "w"), aside(&environment, "w").unwrap()).unwrap();
        assert_eq!(read(&environment), [7]);
        // While it removed the earlier runs.
        put(&aside(&environment, "w").unwrap(), 6, Outcome::Finished);
        assert_eq!(read(&environment), [7]);
    }

    #[test]
    fn what_a_living_recorder_keeps_aside_is_left_alone() {
        let (_traces, environment) = environment();
        put(&staged_case_dir(&environment, "w"), 1, Outcome::Finished);
        let _lock = Lock::take(&environment).unwrap();
        let opened = open_environment(&environment).unwrap().environment.unwrap();
        assert_eq!((opened.runs[0].record.run, is_left_over(&environment)), (7, true));
    }

    #[test]
    fn trying_out_moves_nothing_and_leaves_nothing() {
        let (_traces, environment) = environment();
        try_out(&environment, "w").unwrap();
        assert!(!is_left_over(&environment));
        assert_eq!(read(&environment), [7]);
    }
}
