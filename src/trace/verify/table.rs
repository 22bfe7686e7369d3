//! One Parquet file: decoded to its last value, a batch at a time.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Result;
use polars::prelude::{DataFrame, IdxSize, Int64Chunked, PolarsResult};

use super::Verdict;
use crate::trace::parquet;
use crate::trace::plausible::{most_cpu_ns, most_of_one_core_ns};
use crate::trace::run::{Limits, REMEDY, RunRecord};
use crate::trace::table::{Column, Kind, Shape};
use crate::trace::unharmed::unharmed;

/// Rows of one batch; of the widest table they take about 14 MB.
const BATCH_ROWS: usize = 65_536;
/// How far before the run's start a time may lie: a workload may read its clock before it opens the file of its steps.
const BEFORE_NS: i64 = 1_000_000_000;
/// And after its end: processes that outlive the root are followed while they are ended.
const AFTER_NS: i64 = 15_000_000_000;
/// Counters of CPU time that was used.
const CPU_TIMES: [&str; 5] = ["cpu_ns", "cpu_user_ns", "cpu_system_ns", "busy_ns", "system_ns"];
/// The table whose rows are of one core each.
const OF_CORES: &str = "core";
/// What workloads tell of themselves comes in the order in which they write it.
const TOLD_BY_WORKLOADS: &str = "step";

/// What a table holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) rows: u64,
    /// Rows that have a value, by column.
    pub(super) filled: BTreeMap<&'static str, u64>,
}

/// Checks a file; `None` where it cannot be read to its end.
pub(super) fn check(path: &Path, shape: Shape, record: &RunRecord, verdict: &mut Verdict) -> Option<Content> {
    let read = unharmed(|| {
        let rows = parquet::open(path, shape)?;
        let mut check = Check::new(shape, record);
        for offset in (0..).step_by(BATCH_ROWS) {
            let batch = rows.clone().slice(offset, BATCH_ROWS as IdxSize).collect()?;
            check.batch(&batch)?;
            if batch.height() < BATCH_ROWS {
                break;
            }
        }
        Ok(check)
    });
    match read {
        Ok(check) => {
            check.faults().iter().for_each(|fault| verdict.problem(path, fault, REMEDY));
            Some(check.content)
        }
        Err(error) => {
            // Most errors name the file; those of the decoder do not.
            let (reason, path) = (format!("{error:#}"), path.display().to_string());
            let line = if reason.contains(&path) { reason } else { format!("{path} is damaged: {reason}; {REMEDY}") };
            verdict.problems.push(line);
            None
        }
    }
}

/// What is kept between batches: of each process, core or device its last row.
struct Check {
    shape: Shape,
    counters: Vec<&'static Column>,
    limits: Limits,
    until_ns: i64,
    last: HashMap<i64, Last>,
    outside: Times,
    back: Times,
    nulls: BTreeMap<&'static str, u64>,
    falls: BTreeMap<&'static str, Times>,
    too_much: BTreeMap<&'static str, Times>,
    content: Content,
}

struct Last {
    t_ns: i64,
    counters: Vec<Option<i64>>,
}

/// How often something is wrong, and when first.
#[derive(Clone, Copy, Default)]
struct Times {
    count: u64,
    first_ns: i64,
}

impl Times {
    fn add(&mut self, t_ns: i64) {
        if self.count == 0 {
            self.first_ns = t_ns;
        }
        self.count += 1;
    }
}

impl Check {
    fn new(shape: Shape, record: &RunRecord) -> Self {
        let counts = |column: &&Column| column.kind == Kind::Integer && column.is_cumulative();
        Self {
            shape,
            counters: shape.columns.iter().filter(counts).collect(),
            limits: record.limits,
            until_ns: record.duration_ns.map_or(i64::MAX, |duration| duration.saturating_add(AFTER_NS)),
            last: HashMap::new(),
            outside: Times::default(),
            back: Times::default(),
            nulls: BTreeMap::new(),
            falls: BTreeMap::new(),
            too_much: BTreeMap::new(),
            content: Content::default(),
        }
    }

    fn batch(&mut self, batch: &DataFrame) -> Result<()> {
        self.content.rows += batch.height() as u64;
        for column in self.shape.columns {
            let nulls = batch.column(column.name)?.null_count() as u64;
            if column.key {
                *self.nulls.entry(column.name).or_default() += nulls;
            }
            *self.content.filled.entry(column.name).or_default() += batch.height() as u64 - nulls;
        }
        let integers = |column: &Column| -> PolarsResult<&Int64Chunked> { batch.column(column.name)?.i64() };
        let of_whom = |column: &&Column| column.key && column.name != "t_ns" && column.kind == Kind::Integer;
        let times = batch.column("t_ns")?.i64()?;
        let whose = self.shape.columns.iter().find(of_whom).map(integers).transpose()?;
        let counters = self.counters.iter().map(|column| integers(column)).collect::<PolarsResult<Vec<_>>>()?;
        for row in 0..batch.height() {
            let Some(t_ns) = times.get(row) else { continue };
            let values = counters.iter().map(|counter| counter.get(row)).collect();
            self.row(t_ns, whose.and_then(|whose| whose.get(row)).unwrap_or_default(), values);
        }
        Ok(())
    }

    fn row(&mut self, t_ns: i64, whose: i64, values: Vec<Option<i64>>) {
        if !(-BEFORE_NS..=self.until_ns).contains(&t_ns) {
            self.outside.add(t_ns);
        }
        self.bound_cpu_times(t_ns, &values);
        let Some(last) = self.last.get_mut(&whose) else {
            self.last.insert(whose, Last { t_ns, counters: values });
            return;
        };
        if t_ns < last.t_ns && self.shape.name != TOLD_BY_WORKLOADS {
            self.back.add(t_ns);
        }
        last.t_ns = t_ns;
        for ((column, before), now) in self.counters.iter().zip(&mut last.counters).zip(values) {
            if before.zip(now).is_some_and(|(before, now)| now < before) {
                self.falls.entry(column.name).or_default().add(t_ns);
            }
            *before = now.or(*before);
        }
    }

    /// Cores give no more than all of the time since the run's start.
    fn bound_cpu_times(&mut self, t_ns: i64, values: &[Option<i64>]) {
        let most_ns =
            if self.shape.name == OF_CORES { most_of_one_core_ns(t_ns) } else { most_cpu_ns(self.limits, t_ns) };
        for (column, value) in self.counters.iter().zip(values) {
            if CPU_TIMES.contains(&column.name) && value.is_some_and(|value| value as f64 > most_ns) {
                self.too_much.entry(column.name).or_default().add(t_ns);
            }
        }
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (column, count) in self.nulls.iter().filter(|(_, count)| **count > 0) {
            faults.push(format!("the key {column:?} is null in {count} row(s)"));
        }
        if self.outside.count > 0 {
            let Times { count, first_ns } = self.outside;
            faults.push(format!("t_ns lies outside of the run in {count} row(s), first {first_ns}"));
        }
        if self.back.count > 0 {
            let Times { count, first_ns } = self.back;
            faults.push(format!("t_ns goes back {count} time(s), first to {first_ns}"));
        }
        for (column, Times { count, first_ns }) in &self.falls {
            faults.push(format!("the counter {column:?} falls {count} time(s), first at t_ns = {first_ns}"));
        }
        for (column, Times { count, first_ns }) in &self.too_much {
            faults.push(format!(
                "{column:?} is more than the cores could give in the time in {count} row(s), first at t_ns = {first_ns}"
            ));
        }
        faults
    }
}
