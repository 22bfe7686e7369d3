//! Tables and run records made by hand, for the tests of this module.

use polars::prelude::{DataFrame, IntoLazy, LazyFrame};

use crate::trace::run::Outcome;
use crate::trace::table::{Buffer, Table};
use crate::trace::{Environment, Run, RunRecord, finish, parquet};

pub(super) const SECOND: i64 = 1_000_000_000;

pub(super) fn ns(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

/// Moments from 0 to the end, both included, in nanoseconds.
pub(super) fn ticks(interval_ns: i64, end_ns: i64) -> impl Iterator<Item = i64> {
    (0..=end_ns / interval_ns).map(move |tick| tick * interval_ns)
}

pub(super) fn frame<T: Table>(rows: impl IntoIterator<Item = T>) -> LazyFrame {
    let mut buffer = T::Buffer::default();
    rows.into_iter().for_each(|row| buffer.push(row));
    DataFrame::new_infer_height(buffer.take().unwrap()).unwrap().lazy()
}

/// A finished run of 10 s on two cores with 1000 bytes of memory, sampled at 100 ms.
pub(super) fn record() -> RunRecord {
    RunRecord { duration_ns: Some(10 * SECOND), ..RunRecord::for_tests(Outcome::Finished) }
}

/// An environment on disk, to which runs are added.
pub(super) struct Recorded {
    folder: tempfile::TempDir,
    pub(super) environment: Environment,
}

impl Recorded {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment {
            name: "test".into(),
            slug: "test".into(),
            dir: folder.path().to_owned(),
            runs: Vec::new(),
            damaged: Vec::new(),
        };
        Self { folder, environment }
    }

    /// Adds the next run of a case; its tables are added to the run that is returned.
    pub(super) fn run(&mut self, case: &str, record: RunRecord) -> &Run {
        let dir = self.folder.path().join(case).join(record.run.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        finish::write_record(&dir, &record).unwrap();
        self.environment.runs.push(Run { dir, case_slug: case.into(), record, copy: None });
        self.environment.runs.last().unwrap()
    }
}

pub(super) fn store<T: Table>(run: &Run, rows: impl IntoIterator<Item = T>) {
    let mut sink = parquet::Sink::new(&run.dir);
    rows.into_iter().for_each(|row| sink.push(row).unwrap());
    sink.close().unwrap();
}
