//! Opens the folder of one environment, and decides what may be done with runs whose recorder has died.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Damaged, Environment, Run};
use crate::trace::environment::write_derived;
use crate::trace::layout::{JOURNAL_FILE, OUTPUT_FILE, RUN_FILE, WORKING_FILES, partition, partitions};
use crate::trace::lock::Lock;
use crate::trace::run::{REMEDY, RunRecord};
use crate::trace::{finish, place, replace};

/// What an environment's folder holds.
#[derive(Debug, Default)]
pub struct Opened {
    /// `None` where no run has been recorded.
    pub environment: Option<Environment>,
    /// Runs that are being recorded right now.
    pub recording: Vec<PathBuf>,
    /// Runs that cannot be read or finished.
    pub damaged: Vec<Damaged>,
    /// Folders of runs whose recorders died before they had recorded anything: nothing is lost with them.
    pub empty: Vec<Damaged>,
}

/// Opens the folder of one environment, finishes runs whose recorder died, and settles what it kept aside.
///
/// # Errors
/// The folder cannot be listed or locked, or what is derived of its runs cannot be written; it is named.
pub fn open_environment(folder: &Path) -> Result<Opened> {
    if !has_unfinished(folder)? && !replace::is_left_over(folder) {
        return open_with(folder, Access::LeaveAlone);
    }
    match Lock::wait(folder) {
        Ok(Some(lock)) => {
            let settled = replace::settle(folder, &lock)?;
            let opened = open_with(folder, Access::Finish)?;
            if let Some(environment) = opened.environment.as_ref().filter(|_| settled.found) {
                write_derived(environment)?;
            }
            Ok(opened)
        }
        Ok(None) => open_with(folder, Access::LeaveAlone),
        Err(error) if error.chain().any(is_read_only) => open_with(folder, Access::Copy),
        Err(error) => Err(error),
    }
}

/// Opens the folder of one environment whose lock is held.
///
/// # Errors
/// As [`open_environment`].
pub fn open_environment_holding(folder: &Path, _lock: &Lock) -> Result<Opened> {
    open_with(folder, Access::Finish)
}

/// What a session would find that holds the lock, without making, moving or finishing anything.
///
/// # Errors
/// The folder cannot be listed, or another recorder holds it.
pub fn look_into_environment(folder: &Path) -> Result<Opened> {
    Lock::refuse_if_held(folder)?;
    open_with(folder, Access::Copy)
}

/// Whether a folder of an environment has runs that are still to be finished.
///
/// # Errors
/// The folder cannot be listed.
pub fn has_unfinished(folder: &Path) -> Result<bool> {
    Ok(run_folders(folder)?.iter().any(|(_, dir)| dir.join(JOURNAL_FILE).exists()))
}

/// Finishes all runs of an environment whose lock is held for this process, and writes the derived files anew.
///
/// # Errors
/// As [`open_environment`], and where a run cannot be read or finished; why is said.
pub fn finish_environment(folder: &Path) -> Result<()> {
    let opened = open_with(folder, Access::Finish)?;
    if let Some(damaged) = opened.damaged.first() {
        bail!("{}", damaged.reason);
    }
    opened.environment.map_or(Ok(()), |environment| write_derived(&environment))
}

/// What may be done with a run that has a journal.
#[derive(Clone, Copy)]
enum Access {
    /// Its recorder is dead, because the caller holds the lock.
    Finish,
    /// It is being recorded.
    LeaveAlone,
    /// The folder cannot or must not be written: the journal is finished elsewhere.
    Copy,
}

fn is_read_only(cause: &(dyn std::error::Error + 'static)) -> bool {
    let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied))
}

fn open_with(folder: &Path, access: Access) -> Result<Opened> {
    let (mut runs, mut opened, mut finished) = (Vec::new(), Opened::default(), false);
    for (case_slug, dir) in run_folders(folder)?.into_iter().chain(without_node(folder)?) {
        match open_run(folder, dir.clone(), case_slug, access) {
            Ok(Found::Whole(run)) => runs.push(run),
            Ok(Found::Finished(run)) => {
                runs.push(run);
                finished = true;
            }
            Ok(Found::BeingRecorded) => opened.recording.push(dir),
            Ok(Found::BeingStarted) => {}
            Ok(Found::Nothing(reason)) => opened.empty.push(Damaged { dir, reason }),
            Err(error) => opened.damaged.push(Damaged::new(&dir, &error)),
        }
    }
    sort(&mut runs);
    opened.damaged.extend(take_copies(folder, &mut runs));
    let environment = runs.first().map(|first| first.record.environment.clone()).map(|name| Environment {
        name,
        slug: partition(folder, "environment").unwrap_or_default(),
        dir: folder.to_owned(),
        runs,
        damaged: Vec::new(),
    });
    if let Some(environment) = environment.as_ref().filter(|_| finished) {
        write_derived(environment)?;
    }
    opened.environment = environment;
    Ok(opened)
}

/// What the folder of a run turned out to hold.
#[allow(clippy::large_enum_variant, reason = "it lives for a moment")]
enum Found {
    Whole(Run),
    /// Its recorder had died; it is whole now.
    Finished(Run),
    BeingRecorded,
    /// Its recorder is about to write what it records.
    BeingStarted,
    /// The recorder died before it had recorded anything; what to do is said.
    Nothing(String),
}

fn open_run(environment: &Path, dir: PathBuf, case_slug: String, access: Access) -> Result<Found> {
    refuse_other_nodes(&dir)?;
    // In this order: a journal goes only after the final record has been written.
    let has_journal = dir.join(JOURNAL_FILE).exists();
    let path = dir.join(RUN_FILE);
    if !path.exists() {
        return without_record(environment, &dir, access);
    }
    if has_journal && matches!(access, Access::LeaveAlone) {
        return Ok(Found::BeingRecorded);
    }
    let mut run = Run { record: RunRecord::read(&path)?, dir, case_slug, copy: None };
    if let Some(fault) = place::misplaced(environment, &run.dir, &run.record).into_iter().next() {
        bail!(fault);
    }
    match access {
        Access::Finish if has_journal => {
            finish::recover(&run.dir, &mut run.record)?;
            return Ok(Found::Finished(run));
        }
        Access::Copy if has_journal => run.read_copy()?,
        _ => {}
    }
    Ok(Found::Whole(run))
}

/// What to make of the folder of a run that has no `run.json`.
///
/// # Errors
/// It holds what was recorded of a run.
fn without_record(environment: &Path, dir: &Path, access: Access) -> Result<Found> {
    // Looked at again after the lock, since its recorder may have got on meanwhile.
    let may_be_recorded = !matches!(access, Access::Finish) && Lock::is_held(environment);
    if may_be_recorded || !dir.exists() || dir.join(RUN_FILE).exists() {
        return Ok(Found::BeingStarted);
    }
    let what = format!("{}: the folder of a run holds no run.json", dir.display());
    let mut entries = std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?.flatten();
    if entries.all(|entry| tells_nothing(&entry)) {
        return Ok(Found::Nothing(format!("{what}, nor anything that was recorded; remove it")));
    }
    bail!("{what}; {REMEDY}")
}

/// Whether a file is one that the recorder makes before it writes anything that it has recorded.
fn tells_nothing(entry: &std::fs::DirEntry) -> bool {
    let name = entry.file_name();
    let is_one_of = |names: &[&str]| names.iter().any(|one| name == *one);
    let is_empty = || entry.metadata().is_ok_and(|file| file.is_file() && file.len() == 0);
    is_one_of(&WORKING_FILES)
        || name.to_string_lossy().ends_with(".part")
        || is_one_of(&[JOURNAL_FILE, OUTPUT_FILE]) && is_empty()
}

/// Takes out the runs that are copies of others.
fn take_copies(environment: &Path, runs: &mut Vec<Run>) -> Vec<Damaged> {
    let told = place::copies(environment, runs.iter().map(|run| (run.case_slug.as_str(), &run.record)));
    // From the last on, so that indices stay right.
    let taken = told.into_iter().rev().map(|(index, reason)| Damaged { dir: runs.remove(index).dir, reason });
    let mut taken: Vec<Damaged> = taken.collect();
    taken.reverse();
    taken
}

/// The folders of all runs, each with the slug of its case.
pub(in crate::trace) fn run_folders(environment: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for (case_slug, case) in partitions(environment, "case")? {
        for (_, run) in partitions(&case, "run")? {
            found.extend(partitions(&run, "node")?.into_iter().map(|(_, dir)| (case_slug.clone(), dir)));
        }
    }
    Ok(found)
}

/// The folders of runs that hold none of a node.
fn without_node(environment: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for (case_slug, case) in partitions(environment, "case")? {
        for (_, run) in partitions(&case, "run")? {
            if partitions(&run, "node")?.is_empty() {
                found.push((case_slug.clone(), run));
            }
        }
    }
    Ok(found)
}

fn refuse_other_nodes(dir: &Path) -> Result<()> {
    if partition(dir, "node").is_some_and(|node| node != "0") {
        bail!(
            "{}: recordings of several nodes are not supported yet; move the folders other than node=0 away",
            dir.display()
        );
    }
    Ok(())
}

/// Cases in the order in which they were first recorded, their runs by number.
pub(in crate::trace) fn sort(runs: &mut [Run]) {
    let mut first: BTreeMap<String, i64> = BTreeMap::new();
    for run in runs.iter() {
        let started = run.record.started_unix_ns;
        first.entry(run.case_slug.clone()).and_modify(|first| *first = started.min(*first)).or_insert(started);
    }
    runs.sort_by(|a, b| {
        let key = |run: &Run| (first.get(&run.case_slug).copied(), run.case_slug.clone(), run.record.run);
        key(a).cmp(&key(b))
    });
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::trace::Journal;
    use crate::trace::layout::{case_dir, environment_dir, node_dir};
    use crate::trace::run::Outcome;
    use crate::trace::tables::Host;

    /// A folder of an environment with one run whose recorder died after three samples.
    fn cut_run() -> (TempDir, PathBuf) {
        let traces = tempfile::tempdir().unwrap();
        let environment = environment_dir(traces.path(), "e");
        let dir = node_dir(&case_dir(&environment, "w"), 1);
        fs::create_dir_all(&dir).unwrap();
        finish::write_record(&dir, &RunRecord::numbered(1, Outcome::Recording)).unwrap();
        let journal = Journal::create(&dir.join(JOURNAL_FILE)).unwrap();
        (0..3).for_each(|t_ns| journal.append(Host { t_ns, ..Host::default() }));
        (traces, environment)
    }

    fn samples(run: &Run) -> usize {
        run.scan::<Host>().unwrap().unwrap().collect().unwrap().height()
    }

    #[test]
    fn a_cut_run_in_a_folder_that_cannot_be_written_is_read_and_left_as_it_is() {
        let (_traces, environment) = cut_run();
        let opened = open_with(&environment, Access::Copy).unwrap().environment.unwrap();
        assert_eq!((opened.runs[0].record.outcome, samples(&opened.runs[0])), (Outcome::Incomplete, 3));
        let names: Vec<_> =
            fs::read_dir(&opened.runs[0].dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn a_run_whose_recorder_lives_is_left_alone() {
        let (_traces, environment) = cut_run();
        let _lock = Lock::take(&environment).unwrap();
        let opened = open_environment(&environment).unwrap();
        assert!(opened.environment.is_none());
        assert_eq!(opened.recording.len(), 1);
    }

    #[test]
    fn a_cut_run_is_finished_once_and_enters_the_derived_files() {
        let (_traces, environment) = cut_run();
        for _ in 0..2 {
            let opened = open_environment(&environment).unwrap().environment.unwrap();
            assert_eq!((opened.runs[0].record.outcome, samples(&opened.runs[0])), (Outcome::Incomplete, 3));
            assert!(!opened.runs[0].dir.join(JOURNAL_FILE).exists());
        }
        assert!(environment.join("runs.parquet").exists());
    }
}
