//! An environment's folder while it is recorded into: held by a lock, never written over.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::files;
use crate::trace::environment::write_derived;
use crate::trace::layout::{case_dir, environment_dir, node_dir};
use crate::trace::lock::Lock;
use crate::trace::open::{Environment, open_environment_holding, partitions};

/// Held for a whole session.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    lock: Lock,
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
        Ok(Self { path, lock })
    }

    /// What it holds; runs whose recorder died are finished.
    ///
    /// # Errors
    /// A run cannot be read or finished; its file is named. What cannot be read could not be told apart from what is to
    /// be recorded.
    pub(super) fn open(&self) -> Result<Option<Environment>> {
        let opened = open_environment_holding(&self.path, &self.lock)?;
        match opened.damaged.first() {
            Some(damaged) => bail!("nothing can be added to {}: {}", self.path.display(), damaged.reason),
            None => Ok(opened.environment),
        }
    }

    /// Makes room for one more run of a case.
    ///
    /// # Errors
    /// A folder cannot be made; it is named.
    pub(super) fn make_place(&self, case: &str) -> Result<Place> {
        let case = case_dir(&self.path, case);
        let run = next_run(&case)?;
        let node = node_dir(&case, run);
        files::create_new_dir(&node)?;
        let run_dir = node.parent().unwrap_or(&node).to_owned();
        Ok(Place { case, run_dir, node, run })
    }

    /// Writes what is derived of the runs anew.
    ///
    /// # Errors
    /// A run cannot be read, or a file cannot be written; it is named.
    pub(super) fn derive(&self) -> Result<()> {
        self.open()?.map_or(Ok(()), |environment| write_derived(&environment))
    }
}

impl Place {
    /// Takes the place back: nothing was run, so there is nothing to keep.
    pub(super) fn give_up(&self) {
        let _ = std::fs::remove_dir_all(&self.run_dir);
        // Stays where there are other runs.
        let _ = std::fs::remove_dir(&self.case);
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
