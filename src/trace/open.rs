//! Finds what a folder of traces holds, and finishes runs whose recorder died.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use polars::prelude::LazyFrame;

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
}

impl Run {
    /// The rows of one of the run's tables; see [`parquet::scan`].
    ///
    /// # Errors
    /// The file is damaged or of an unknown schema major; it is named.
    pub fn scan<T: Table>(&self) -> Result<Option<LazyFrame>> {
        parquet::scan::<T>(&self.dir)
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
    let (mut runs, mut recording, mut recovered) = (Vec::new(), Vec::new(), false);
    for (case_slug, case) in partitions(folder, "case")? {
        for (_, run) in partitions(&case, "run")? {
            for (node, dir) in partitions(&run, "node")? {
                if node != "0" {
                    bail!("{}: recordings of several nodes are not supported yet; only node=0 is", dir.display());
                }
                match open_run(folder, &dir, &case_slug)? {
                    Found::Run(run) => runs.push(*run),
                    Found::Recovered(run) => {
                        recovered = true;
                        runs.push(*run);
                    }
                    Found::BeingRecorded => recording.push(dir),
                    Found::Nothing => {}
                }
            }
        }
    }
    sort(&mut runs);
    let environment = runs.first().map(|first| first.record.environment.clone()).map(|name| Environment {
        name,
        slug: partition(folder, "environment").unwrap_or_default(),
        dir: folder.to_owned(),
        runs,
    });
    if let Some(environment) = environment.as_ref().filter(|_| recovered) {
        write_derived(environment)?;
    }
    Ok(Opened { environment, recording })
}

enum Found {
    Run(Box<Run>),
    /// Its recorder died; it has just been finished, so the derived files do not know it yet.
    Recovered(Box<Run>),
    BeingRecorded,
    /// The recorder died before it had written anything.
    Nothing,
}

fn open_run(environment: &Path, dir: &Path, case_slug: &str) -> Result<Found> {
    let path = dir.join(RUN_FILE);
    if !path.exists() {
        return Ok(Found::Nothing);
    }
    let record = RunRecord::read(&path)?;
    let mut run = Box::new(Run { dir: dir.to_owned(), case_slug: case_slug.to_owned(), record });
    if !dir.join(JOURNAL_FILE).exists() {
        return Ok(Found::Run(run));
    }
    let Some(_lock) = Lock::try_take(environment)? else { return Ok(Found::BeingRecorded) };
    finish::recover(dir, &mut run.record)
        .with_context(|| format!("cannot finish the run in {}, whose recording was cut", dir.display()))?;
    Ok(Found::Recovered(run))
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
