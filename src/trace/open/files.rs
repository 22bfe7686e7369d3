//! Which files of an environment are its published data.

use std::path::{Path, PathBuf};

use super::{Environment, Run};
use crate::trace::layout::{ENVIRONMENT_FILE, RUN_FILE, RUNS_FILE};
use crate::trace::parquet;
use crate::trace::tables::SHAPES;

impl Environment {
    /// Files of what can be read, as paths below its folder: what is derived, then record and tables of each run. The
    /// command's output is none of them: where it was kept, it holds whatever was printed.
    pub fn files(&self) -> Vec<PathBuf> {
        let derived = [ENVIRONMENT_FILE, RUNS_FILE].map(|name| self.dir.join(name));
        let of_runs = self.runs.iter().filter(|run| run.copy.is_none()).flat_map(Run::files);
        let below = |path: PathBuf| path.strip_prefix(&self.dir).map(Path::to_owned).ok();
        derived.into_iter().filter(|path| path.is_file()).chain(of_runs).filter_map(below).collect()
    }
}

impl Run {
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let tables = SHAPES.iter().map(|shape| parquet::path_of(&self.dir, shape.name));
        std::iter::once(self.dir.join(RUN_FILE)).chain(tables).filter(|path| path.is_file())
    }
}
