//! Finds what a folder of traces holds, and finishes runs whose recorder died.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use polars::prelude::LazyFrame;
use tempfile::TempDir;

use super::environment::write_derived;
use super::layout::{JOURNAL_FILE, RUN_FILE};
use super::lock::Lock;
use super::run::RunRecord;
use super::table::Table;
use super::{finish, parquet};

/// All environments of a folder, in the order of their slugs.
#[derive(Debug)]
pub struct Trace {
    pub environments: Vec<Environment>,
    /// Runs that are being recorded right now, and are therefore left alone.
    pub recording: Vec<PathBuf>,
}

/// One environment and its runs.
#[derive(Debug)]
pub struct Environment {
    /// Exact name.
    pub name: String,
    pub slug: String,
    pub dir: PathBuf,
    /// By case in the order in which cases were first recorded, then by number.
    pub runs: Vec<Run>,
}

/// One run on disk.
#[derive(Debug)]
pub struct Run {
    pub dir: PathBuf,
    pub case_slug: String,
    pub record: RunRecord,
    /// Tables that could not be finished in place; they go with the run.
    pub copy: Option<TempDir>,
}

impl Run {
    /// The rows of one of the run's tables; see [`parquet::scan`].
    ///
    /// # Errors
    /// The file is damaged or of an unknown schema major; it is named.
    pub fn scan<T: Table>(&self) -> Result<Option<LazyFrame>> {
        parquet::scan::<T>(self.copy.as_ref().map_or(self.dir.as_path(), TempDir::path))
    }

    /// Finishes the tables of a cut run outside its folder, which cannot be written.
    fn read_copy(&mut self) -> Result<()> {
        let copy = tempfile::tempdir().context("cannot make a temporary folder")?;
        finish::finish_elsewhere(&self.dir, copy.path(), &mut self.record)?;
        self.copy = Some(copy);
        Ok(())
    }
}

impl Trace {
    /// Opens a folder of traces (`traces`), or the folder of one environment (`traces/environment=x`).
    ///
    /// # Errors
    /// There is no such folder, it holds no run, or a run cannot be read; what and where is named.
    pub fn open(folder: &Path) -> Result<Self> {
        if !folder.is_dir() {
            bail!("{} is no folder; give the one that `shice record --out` wrote to", folder.display());
        }
        let mut trace = Trace { environments: Vec::new(), recording: Vec::new() };
        let dirs = match partition(folder, "environment") {
            Some(_) => vec![folder.to_owned()],
            None => partitions(folder, "environment")?.into_iter().map(|(_, dir)| dir).collect(),
        };
        for dir in dirs {
            let opened = open_environment(&dir)?;
            trace.environments.extend(opened.environment);
            trace.recording.extend(opened.recording);
        }
        if trace.environments.is_empty() {
            match trace.recording.first() {
                Some(run) => bail!("{} is still being recorded, and there is no other run; wait for it", run.display()),
                None => bail!("{} holds no recorded run; record one with `shice record --out {0}`", folder.display()),
            }
        }
        Ok(trace)
    }
}

/// What an environment's folder holds.
#[derive(Debug, Default)]
pub struct Opened {
    /// `None` where no run has been recorded.
    pub environment: Option<Environment>,
    /// Runs that are being recorded right now.
    pub recording: Vec<PathBuf>,
}

/// Opens the folder of one environment, and finishes runs whose recorder died.
///
/// # Errors
/// A run cannot be read or finished; its file is named.
pub fn open_environment(folder: &Path) -> Result<Opened> {
    let cut = |dir: &PathBuf| dir.join(JOURNAL_FILE).exists();
    if !run_folders(folder)?.iter().any(|(_, dir)| cut(dir)) {
        return open_with(folder, Access::LeaveAlone);
    }
    match Lock::wait(folder) {
        Ok(Some(_lock)) => open_with(folder, Access::Finish),
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

/// What may be done with a run that has a journal.
#[derive(Clone, Copy)]
enum Access {
    /// Its recorder is dead, because the caller holds the lock.
    Finish,
    /// It is being recorded.
    LeaveAlone,
    /// The folder cannot be written: the journal is finished elsewhere.
    Copy,
}

fn is_read_only(cause: &(dyn std::error::Error + 'static)) -> bool {
    let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied))
}

fn open_with(folder: &Path, access: Access) -> Result<Opened> {
    let (mut runs, mut recording, mut finished) = (Vec::new(), Vec::new(), false);
    for (case_slug, dir) in run_folders(folder)? {
        // In this order: a journal goes only after the final record has been written.
        let has_journal = dir.join(JOURNAL_FILE).exists();
        let path = dir.join(RUN_FILE);
        if !path.exists() {
            continue; // The recorder died before it had written anything.
        }
        let mut run = Run { record: RunRecord::read(&path)?, dir, case_slug, copy: None };
        match access {
            Access::LeaveAlone if has_journal => {
                recording.push(run.dir);
                continue;
            }
            Access::Finish if has_journal => {
                finish::recover(&run.dir, &mut run.record)?;
                finished = true;
            }
            Access::Copy if has_journal => run.read_copy()?,
            _ => {}
        }
        runs.push(run);
    }
    sort(&mut runs);
    let environment = runs.first().map(|first| first.record.environment.clone()).map(|name| Environment {
        name,
        slug: partition(folder, "environment").unwrap_or_default(),
        dir: folder.to_owned(),
        runs,
    });
    if let Some(environment) = environment.as_ref().filter(|_| finished) {
        write_derived(environment)?;
    }
    Ok(Opened { environment, recording })
}

/// The folders of all runs, each with the slug of its case.
fn run_folders(environment: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for (case_slug, case) in partitions(environment, "case")? {
        for (_, run) in partitions(&case, "run")? {
            for (node, dir) in partitions(&run, "node")? {
                if node != "0" {
                    bail!("{}: recordings of several nodes are not supported yet; only node=0 is", dir.display());
                }
                found.push((case_slug.clone(), dir));
            }
        }
    }
    Ok(found)
}

/// Cases in the order in which they were first recorded, their runs by number.
fn sort(runs: &mut [Run]) {
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

/// The folders `<key>=<value>` of a folder, as (value, path) in the order of their values.
///
/// # Errors
/// The folder cannot be listed; it is named.
pub fn partitions(folder: &Path, key: &str) -> Result<Vec<(String, PathBuf)>> {
    let failed = || format!("cannot list {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if let Some(value) = partition(&path, key).filter(|_| path.is_dir()) {
            found.push((value, path));
        }
    }
    found.sort();
    Ok(found)
}

fn partition(path: &Path, key: &str) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    Some(name.strip_prefix(key)?.strip_prefix('=')?.to_owned())
}

#[cfg(test)]
mod tests {
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
        finish::write_record(&dir, &RunRecord::for_tests(Outcome::Recording)).unwrap();
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
