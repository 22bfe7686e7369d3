//! What a folder of traces holds: environments and their runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use polars::prelude::LazyFrame;
use tempfile::TempDir;

use super::layout::{RUN_FILE, partition, partitions};
use super::plausible::contradictions;
use super::run::{FILE_IS_MISSING, REMEDY, RunRecord};
use super::table::Table;
use super::tables::SHAPES;
use super::{finish, parquet, sums};

mod files;
mod folder;

pub use folder::{
    Opened, finish_environment, has_unfinished, look_into_environment, open_environment, open_environment_holding,
};
pub(super) use folder::{run_folders, sort};

/// All environments of a folder, in the order of their slugs.
#[derive(Debug)]
pub struct Trace {
    pub environments: Vec<Environment>,
    /// Runs that are being recorded right now, and are therefore left alone.
    pub recording: Vec<PathBuf>,
    /// What cannot be read of environments of which nothing can be.
    pub damaged: Vec<Damaged>,
}

/// A run, or a whole environment, that cannot be read: it takes the others with it in nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub dir: PathBuf,
    /// What is wrong, where, and what to do about it.
    pub reason: String,
}

impl Damaged {
    pub(crate) fn new(dir: &Path, error: &anyhow::Error) -> Self {
        Self { dir: dir.to_owned(), reason: format!("{error:#}") }
    }
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
    /// Runs that cannot be read.
    pub damaged: Vec<Damaged>,
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
    /// The file is damaged, of an unknown schema major, or not what was written; it is named.
    pub fn scan<T: Table>(&self) -> Result<Option<LazyFrame>> {
        self.check_sum::<T>()?;
        parquet::scan::<T>(self.tables())
    }

    /// As [`Self::scan`], to be read row group by row group.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub fn groups<T: Table>(&self) -> Result<Option<parquet::Groups>> {
        self.check_sum::<T>()?;
        parquet::groups::<T>(self.tables())
    }

    fn check_sum<T: Table>(&self) -> Result<()> {
        let path = parquet::table_path::<T>(&self.dir);
        let sum = path.file_name().and_then(|name| self.record.files.get(name.to_str()?));
        if let Some(sum) = sum.filter(|_| self.copy.is_none() && path.exists()) {
            sums::check(&path, sum)?;
        }
        Ok(())
    }

    /// Whether there is a file of the table.
    pub fn has_table(&self, table: &str) -> bool {
        parquet::path_of(self.tables(), table).exists()
    }

    /// Tables that the run was finished with, or whose values its ledger claims, and that are not there any more.
    pub fn missing_tables(&self) -> BTreeSet<String> {
        let finished = self.record.files.keys().filter_map(|name| name.strip_suffix(".parquet"));
        let is_there = |table: &str| self.has_table(table);
        let claimed = self.record.coverage.iter().filter(|entry| entry.claims_missing(is_there));
        let tables = finished.chain(claimed.filter_map(|entry| entry.table()));
        tables.filter(|table| !is_there(table)).map(str::to_owned).collect()
    }

    /// What is wrong with the run as far as it shows without decoding anything, one line each: figures that contradict
    /// each other, tables that are missing or were cut. [`verify`](super::verify) finds all.
    pub fn faults(&self) -> Vec<String> {
        let line = |name: &str, what: &str| format!("{}: {what}; {REMEDY}", self.dir.join(name).display());
        let mut faults: Vec<String> = contradictions(&self.record).iter().map(|fault| line(RUN_FILE, fault)).collect();
        faults.extend(self.missing_tables().iter().map(|table| line(&format!("{table}.parquet"), FILE_IS_MISSING)));
        // What was finished elsewhere a moment ago is whole.
        if self.copy.is_none() {
            let paths = SHAPES.iter().map(|shape| (shape, parquet::path_of(&self.dir, shape.name)));
            let cut = paths.filter(|(_, path)| path.exists()).filter_map(|(shape, path)| {
                let sum = self.record.files.get(path.file_name()?.to_str()?);
                sum.map_or_else(|| parquet::open(&path, *shape).map(drop), |sum| sums::check_length(&path, sum)).err()
            });
            faults.extend(cut.map(|error| format!("{error:#}")));
        }
        faults
    }

    /// The folder of the tables.
    fn tables(&self) -> &Path {
        self.copy.as_ref().map_or(self.dir.as_path(), TempDir::path)
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
    /// There is no such folder, or it holds no run that can be read; what and where is named.
    pub fn open(folder: &Path) -> Result<Self> {
        let mut trace = Trace { environments: Vec::new(), recording: Vec::new(), damaged: Vec::new() };
        for dir in environment_dirs(folder)? {
            match open_environment(&dir) {
                Ok(opened) => trace.add(opened),
                Err(error) => trace.damaged.push(Damaged::new(&dir, &error)),
            }
        }
        if trace.environments.is_empty() {
            if let [first, others @ ..] = trace.damaged.as_slice() {
                bail!("{}{}", first.reason, and_others(others.len()));
            }
            match trace.recording.first() {
                Some(run) => bail!("{} is still being recorded, and there is no other run; wait for it", run.display()),
                None => bail!("{} holds no recorded run; record one with `shice record --out {0}`", folder.display()),
            }
        }
        Ok(trace)
    }

    fn add(&mut self, opened: Opened) {
        self.recording.extend(opened.recording);
        let damaged = [opened.damaged, opened.empty].concat();
        match opened.environment {
            Some(environment) => self.environments.push(Environment { damaged, ..environment }),
            None => self.damaged.extend(damaged),
        }
    }
}

/// Tells in an error of the first damaged thing that it is not the only one.
pub(crate) fn and_others(number: usize) -> String {
    if number == 0 { String::new() } else { format!(" (and {number} more; `shice verify` names all)") }
}

/// The folders of environments that a folder stands for.
///
/// # Errors
/// It is no folder, or cannot be listed.
pub(super) fn environment_dirs(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        bail!("{} is no folder; give the one that `shice record --out` wrote to", folder.display());
    }
    match partition(folder, "environment") {
        Some(_) => Ok(vec![folder.to_owned()]),
        None => Ok(partitions(folder, "environment")?.into_iter().map(|(_, dir)| dir).collect()),
    }
}
