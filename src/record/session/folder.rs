//! An environment's folder while it is recorded into: held by a lock, never written over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::files;
use crate::record::finisher;
use crate::record::plan::Case;
use crate::trace::layout::{case_dir, environment_dir, node_dir, partitions};
use crate::trace::lock::Lock;
use crate::trace::open::{Environment, Opened, open_environment_holding};
use crate::trace::replace;
use crate::trace::run::Outcome;

/// Held for a whole session.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    lock: Lock,
    /// Names of cases whose runs are to be replaced, and are still in their place.
    replacing: BTreeSet<String>,
}

/// Where one run goes.
#[derive(Debug)]
pub(super) struct Place {
    /// The case's folder.
    case: PathBuf,
    /// Of the run, with all its nodes.
    run_dir: PathBuf,
    /// Where the files are.
    pub(super) node: PathBuf,
    /// Whether it is to replace earlier runs.
    pub(super) staged: bool,
    /// Number of the run.
    pub(super) run: u32,
}

impl Folder {
    /// Makes the folder of an environment where there is none, and holds it.
    ///
    /// # Errors
    /// It cannot be made, or another recorder holds it.
    pub(super) fn hold(out: &Path, environment: &str) -> Result<Self> {
        let path = environment_dir(out, environment);
        files::create_dir(&path)?;
        let lock = Lock::take(&path)?;
        let settled = replace::settle(&path, &lock)?;
        let folder = Self { path, lock, replacing: BTreeSet::new() };
        if settled.found {
            folder.derive()?;
        }
        Ok(folder)
    }

    /// What it holds; runs whose recorder died are finished.
    ///
    /// # Errors
    /// A run cannot be read or finished; its file is named.
    pub(super) fn open(&self) -> Result<Option<Environment>> {
        finisher::finish(&self.path, &self.lock)
            .with_context(|| format!("nothing can be added to {}", self.path.display()))?;
        whole(&self.path, open_environment_holding(&self.path, &self.lock)?)
    }

    /// Has new runs of these cases take the place of those that are there, each once one of them has finished.
    ///
    /// # Errors
    /// The runs that are there cannot be moved.
    pub(super) fn replace(&mut self, before: &Environment, cases: &[Case]) -> Result<()> {
        let recorded: BTreeSet<String> = before.runs.iter().map(|run| run.record.case()).collect();
        self.replacing = cases.iter().map(Case::name).filter(|name| recorded.contains(name)).collect();
        self.replacing.iter().try_for_each(|name| replace::try_out(&self.path, name))
    }

    /// Makes room for one more run of a case.
    ///
    /// # Errors
    /// A folder cannot be made; it is named.
    pub(super) fn make_place(&self, case: &str) -> Result<Place> {
        let staged = self.replacing.contains(case);
        let case = if staged { replace::staged_case_dir(&self.path, case) } else { case_dir(&self.path, case) };
        let run = next_run(&case)?;
        let node = node_dir(&case, run);
        files::create_new_dir(&node)?;
        let run_dir = node.parent().unwrap_or(&node).to_owned();
        Ok(Place { case, run_dir, node, staged, run })
    }

    /// Takes note of a run that has been recorded: it may replace others, and what is derived of the runs is written anew.
    ///
    /// # Errors
    /// A run cannot be read or moved, or a file cannot be written; it is named.
    pub(super) fn recorded(&mut self, case: &str, outcome: Outcome) -> Result<()> {
        if self.replacing.contains(case) {
            if !outcome.is_finished() {
                return Ok(()); // What is in its place has not changed.
            }
            // Not before it is whole.
            finisher::finish(&replace::staging(&self.path), &self.lock)?;
            replace::put_in_place(&self.path, case)?;
            self.replacing.remove(case);
        }
        self.derive()
    }

    fn derive(&self) -> Result<()> {
        finisher::derive(&self.path, &self.lock)
    }

    /// Clears away what was to replace others and did not; tells of how many runs.
    ///
    /// # Errors
    /// A folder cannot be moved or removed; it is named.
    pub(super) fn settle(&self) -> Result<usize> {
        Ok(replace::settle(&self.path, &self.lock)?.dropped.iter().map(|(_, runs)| runs).sum())
    }
}

impl Place {
    /// Takes the place back: what was recorded there is not worth keeping.
    pub(super) fn give_up(&self) {
        let _ = std::fs::remove_dir_all(&self.run_dir);
        // Stays where there are other runs.
        let _ = std::fs::remove_dir(&self.case);
    }
}

/// What a folder holds, where all of it can be read: what cannot could not be told apart from what is to be recorded.
///
/// # Errors
/// A run cannot be read; it is named.
pub(super) fn whole(folder: &Path, opened: Opened) -> Result<Option<Environment>> {
    match opened.damaged.first() {
        Some(damaged) => bail!("nothing can be added to {}: {}", folder.display(), damaged.reason),
        None => Ok(opened.environment),
    }
}

/// One more than the highest number that was ever used for the case.
fn next_run(case: &Path) -> Result<u32> {
    if !case.exists() {
        return Ok(1);
    }
    let numbers = partitions(case, "run")?.into_iter().filter_map(|(number, _)| number.parse::<u32>().ok());
    Ok(numbers.max().unwrap_or(0) + 1)
}
