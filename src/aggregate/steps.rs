//! Figures of the training loop, from what the workload told of its phases and steps.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::rows::each_row;
use super::statistics::median;
use super::summary::Metric;

/// Steps of each rank that are warm-up: the first builds kernels and caches, the second may still.
const WARM_UP_STEPS: usize = 2;

/// A row of the `step` table.
#[derive(Clone, Copy)]
struct Row {
    t_ns: i64,
    /// A phase begins; else a step ended.
    is_phase: bool,
    /// Whether the phase is `train`; none where the row names no phase.
    is_train: Option<bool>,
    rank: i64,
    epoch: Option<i64>,
    samples: Option<f64>,
    data_wait_ns: Option<f64>,
}

/// A training step, with its end on the clock of training.
struct Step {
    end_ns: i64,
    /// Since the end of the rank's step before; none for its first.
    time_ns: Option<i64>,
    /// Number of the step within its rank.
    index: usize,
    row: Row,
}

/// Runs while the phase is `train` and stands still otherwise, so that an evaluation between epochs does not count.
#[derive(Default)]
struct TrainClock {
    elapsed_ns: i64,
    since_ns: Option<i64>,
}

/// Sums up the `step` table.
///
/// Training is from the beginning of a phase `train` to the beginning of another phase, or to the last step's end; all
/// `train` phases together where there are several. A workload that names no such phase is taken to train all the
/// time, but then has neither a time of training nor of epochs, because their beginning is not known.
///
/// # Errors
/// The table cannot be read.
pub(super) fn steps(table: LazyFrame, figures: &mut Figures) -> Result<()> {
    let rows = read(table)?;
    let told = rows.iter().any(|row| row.is_phase && row.is_train == Some(true));
    let (train_ns, steps) = train(&rows, told);
    if told {
        let epochs: BTreeSet<i64> = steps.iter().filter_map(|step| step.row.epoch).collect();
        let last_ns = steps.iter().map(|step| step.end_ns).max();
        // The differences from epoch to epoch add up to the end of the last one.
        let epoch_ns = last_ns.filter(|_| !epochs.is_empty()).map(|last| last as f64 / epochs.len() as f64);
        figures.set(Metric::TrainTime, Some(train_ns as f64 / 1e9));
        figures.set(Metric::EpochTime, epoch_ns.map(|ns| ns / 1e9));
    }
    steady(&steps, figures);
    Ok(())
}

fn read(table: LazyFrame) -> Result<Vec<Row>> {
    let columns = [
        col("kind").eq(lit("phase")),
        col("phase").eq(lit("train")),
        col("rank"),
        col("epoch"),
        col("samples"),
        col("data_wait_ns"),
    ];
    let mut rows = Vec::new();
    each_row(table, ["t_ns"], columns, |[t_ns], [is_phase, is_train, rank, epoch, samples, data_wait_ns]| {
        rows.push(Row {
            t_ns,
            is_phase: is_phase == Some(1.0),
            is_train: is_train.map(|is_train| is_train == 1.0),
            rank: rank.unwrap_or_default() as i64,
            epoch: epoch.map(|epoch| epoch as i64),
            samples,
            data_wait_ns,
        });
    })?;
    // Ranks write into one file, not quite in the order of their clocks.
    rows.sort_by_key(|row| row.t_ns);
    Ok(rows)
}

/// Time of training, and its steps in the order of their ends.
fn train(rows: &[Row], told: bool) -> (i64, Vec<Step>) {
    let mut clock = TrainClock { elapsed_ns: 0, since_ns: (!told).then_some(0) };
    let mut ranks: BTreeMap<i64, (usize, i64)> = BTreeMap::new();
    let mut steps = Vec::new();
    for row in rows {
        if row.is_phase {
            clock.enter(row.t_ns, row.is_train == Some(true) || !told);
        } else if clock.since_ns.is_some() && row.is_train != Some(false) {
            let end_ns = clock.at(row.t_ns);
            let before = ranks.get(&row.rank).copied();
            let index = before.map_or(0, |(index, _)| index + 1);
            ranks.insert(row.rank, (index, end_ns));
            steps.push(Step { end_ns, time_ns: before.map(|(_, before)| end_ns - before), index, row: *row });
        }
    }
    let last_ns = steps.last().map_or(clock.elapsed_ns, |step| step.end_ns);
    (clock.elapsed_ns.max(last_ns), steps)
}

impl TrainClock {
    fn enter(&mut self, t_ns: i64, train: bool) {
        self.elapsed_ns = self.at(t_ns);
        self.since_ns = train.then_some(t_ns);
    }

    fn at(&self, t_ns: i64) -> i64 {
        self.elapsed_ns + self.since_ns.map_or(0, |since| t_ns - since)
    }
}

/// Figures of the steps after warm-up, which is over when every rank has ended its second step.
fn steady(steps: &[Step], figures: &mut Figures) {
    let warm_up = steps.iter().filter(|step| step.index < WARM_UP_STEPS).map(|step| step.end_ns);
    let Some(warm_ns) = warm_up.max() else { return };
    let steady: Vec<&Step> = steps.iter().filter(|step| step.index >= WARM_UP_STEPS && step.end_ns > warm_ns).collect();
    let Some(last) = steady.last() else { return };
    let samples: Option<f64> = steady.iter().map(|step| step.row.samples).sum();
    let span_s = (last.end_ns - warm_ns) as f64 / 1e9;
    figures.set(Metric::Throughput, samples.map(|samples| samples / span_s));
    let mut times: Vec<f64> = steady.iter().filter_map(|step| step.time_ns).map(|ns| ns as f64 / 1e9).collect();
    figures.set(Metric::StepTime, median(&mut times));
    let waits: Option<f64> = steady.iter().map(|step| step.row.data_wait_ns).sum();
    figures.set(Metric::DataWait, waits.map(|wait_ns| wait_ns / 1e9 / times.iter().sum::<f64>()));
}
