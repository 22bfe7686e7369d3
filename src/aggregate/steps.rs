//! Figures of the training loop: from what the workload told of its phases and steps, and where it told no step, from
//! what its output showed. One source a run.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::metric::Metric;
use super::rows::{self, each_row};
use super::statistics::median;
use crate::trace::StepSource;

mod shown;
mod stability;

use shown::Shown;

/// Columns of a row, besides its time.
const COLUMNS: usize = 11;
/// Steps of each rank that are warm-up: the first builds kernels and caches, the second may still.
pub(super) const WARM_UP_STEPS: usize = 2;

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

/// What the time of a step's end means, by the setting `step_clock` that the workload told.
#[derive(Clone, Copy)]
pub(super) enum StepClock {
    /// The step was done.
    Complete,
    /// The step was handed to a GPU, which may be far behind. Only at the end of the second step and of the phase `train`
    /// has the workload waited for it.
    Enqueue,
}

impl StepClock {
    pub(super) fn told(settings: &BTreeMap<String, String>) -> Self {
        if settings.get("step_clock").is_some_and(|clock| clock == "enqueue") { Self::Enqueue } else { Self::Complete }
    }

    /// When the last step was done; none where that is not known.
    fn end_ns(self, steps: &[Step], train_ns: Option<i64>) -> Option<i64> {
        match self {
            Self::Complete => steps.iter().map(|step| step.end_ns).max(),
            Self::Enqueue => train_ns,
        }
    }
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
pub(super) fn steps(table: impl Into<rows::Rows>, clock: StepClock, figures: &mut Figures) -> Result<()> {
    let Rows { told: rows, shown } = read(table)?;
    if rows.iter().any(|row| !row.is_phase) {
        figures.step_source = Some(StepSource::ShiceSteps);
    } else {
        shown::figures(&shown, figures);
    }
    let told = rows.iter().any(|row| row.is_phase && row.is_train == Some(true));
    let (train_ns, steps) = train(&rows, told);
    for (index, time_ns) in steps.iter().filter_map(|step| Some((step.index, step.time_ns?))) {
        figures.step_times.push(index, time_ns, index < WARM_UP_STEPS);
    }
    let last_ns = clock.end_ns(&steps, told.then_some(train_ns));
    if told {
        let epochs: BTreeSet<i64> = steps.iter().filter_map(|step| step.row.epoch).collect();
        // The differences from epoch to epoch add up to the end of the last one.
        let epoch_ns = last_ns.filter(|_| !epochs.is_empty()).map(|last| last as f64 / epochs.len() as f64);
        // A phase that nothing ends has no known time.
        figures.set(Metric::TrainTime, (train_ns > 0).then_some(train_ns as f64 / 1e9));
        figures.set(Metric::EpochTime, epoch_ns.map(|ns| ns / 1e9));
    }
    figures.steady_ns = stability::steady_ns(&steps);
    figures.samples = steps.iter().map(|step| step.row.samples).sum::<Option<f64>>().filter(|samples| *samples > 0.0);
    let mut times = steady(&steps, last_ns, figures);
    // The times at which steps were handed over say nothing of how long the GPU took for them.
    if matches!(clock, StepClock::Complete) {
        stability::figures(&mut times, &steps, told, figures);
    }
    Ok(())
}

/// What the workload told, and what its output showed; both in the order of time.
#[derive(Default)]
struct Rows {
    told: Vec<Row>,
    shown: Vec<Shown>,
}

fn read(table: impl Into<rows::Rows>) -> Result<Rows> {
    let columns: [Expr; COLUMNS] = [
        col("kind").eq(lit("phase")),
        col("phase").eq(lit("train")),
        col("rank"),
        col("epoch"),
        col("samples"),
        col("data_wait_ns"),
        source(),
        col("series"),
        col("step"),
        col("samples_done"),
        col("reported_samples_per_s"),
    ];
    let mut rows = Rows::default();
    each_row(table, ["t_ns"], columns, |[t_ns], values| rows.push(t_ns, values))?;
    // Ranks write into one file, not quite in the order of their clocks; and there are two streams of output.
    rows.told.sort_by_key(|row| row.t_ns);
    rows.shown.sort_by_key(|row| row.t_ns);
    Ok(rows)
}

/// The source as its place in [`StepSource::ALL`]; null where an older trace has none.
fn source() -> Expr {
    let is_place = |place: usize| col("source").eq(lit(StepSource::ALL[place].word())).cast(DataType::Float64);
    (1..StepSource::ALL.len()).fold(is_place(0) * lit(0.0), |sum, place| sum + is_place(place) * lit(place as f64))
}

impl Rows {
    fn push(&mut self, t_ns: i64, values: [Option<f64>; COLUMNS]) {
        let [is_phase, is_train, rank, epoch, samples, data_wait_ns, source, series, step, samples_done, reported] =
            values;
        let is_train = is_train.map(|is_train| is_train == 1.0);
        let epoch = epoch.map(|epoch| epoch as i64);
        let source = StepSource::ALL[source.unwrap_or_default() as usize];
        if source == StepSource::ShiceSteps {
            let (is_phase, rank) = (is_phase == Some(1.0), rank.unwrap_or_default() as i64);
            self.told.push(Row { t_ns, is_phase, is_train, rank, epoch, samples, data_wait_ns });
        } else {
            let series = series.unwrap_or_default() as i64;
            self.shown.push(Shown { t_ns, source, series, is_train, epoch, step, samples_done, reported });
        }
    }
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
            steps.push(Step {
                end_ns,
                time_ns: before.map(|(_, before)| end_ns.saturating_sub(before)),
                index,
                row: *row,
            });
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
        self.elapsed_ns.saturating_add(self.since_ns.map_or(0, |since| t_ns.saturating_sub(since)))
    }
}

/// Figures of the steps after warm-up, which is over when every rank has ended its second step; and their times, in seconds.
fn steady(steps: &[Step], last_ns: Option<i64>, figures: &mut Figures) -> Vec<f64> {
    let warm_up = steps.iter().filter(|step| step.index < WARM_UP_STEPS).map(|step| step.end_ns);
    let Some(warm_ns) = warm_up.max() else { return Vec::new() };
    let steady: Vec<&Step> = steps.iter().filter(|step| step.index >= WARM_UP_STEPS && step.end_ns > warm_ns).collect();
    if steady.is_empty() {
        return Vec::new();
    }
    let samples: Option<f64> = steady.iter().map(|step| step.row.samples).sum();
    let span_s = last_ns.map(|last_ns| last_ns.saturating_sub(warm_ns) as f64 / 1e9);
    figures.set(Metric::Throughput, samples.zip(span_s).map(|(samples, span_s)| samples / span_s));
    let mut times: Vec<f64> = steady.iter().filter_map(|step| step.time_ns).map(|ns| ns as f64 / 1e9).collect();
    figures.set(Metric::StepTime, median(&mut times));
    let waits: Option<f64> = steady.iter().map(|step| step.row.data_wait_ns).sum();
    figures.set(Metric::DataWait, waits.map(|wait_ns| wait_ns / 1e9 / times.iter().sum::<f64>()));
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{frame, ns};
    use crate::trace::tables;

    pub(super) fn phase(t: f64, name: &str) -> tables::Step {
        tables::Step { t_ns: ns(t), kind: "phase".into(), phase: Some(name.into()), ..tables::Step::default() }
    }

    pub(super) fn step(t: f64, epoch: i64) -> tables::Step {
        tables::Step {
            t_ns: ns(t),
            kind: "step".into(),
            phase: Some("train".into()),
            epoch: Some(epoch),
            samples: Some(64),
            data_wait_ns: Some(ns(0.1)),
            ..tables::Step::default()
        }
    }

    pub(super) fn values(rows: Vec<tables::Step>) -> BTreeMap<Metric, f64> {
        let mut figures = Figures::default();
        steps(frame(rows), StepClock::Complete, &mut figures).unwrap();
        figures.values
    }

    #[test]
    fn steps_that_were_only_handed_to_a_gpu_are_done_when_training_ends() {
        // Two steps that were waited for, then four handed over within 0.04 s, which the GPU takes 2 s for.
        let handed = [1.0, 2.0, 2.01, 2.02, 2.03, 2.04].map(|t| step(t, 0));
        let told = [vec![phase(0.0, "train")], handed.to_vec(), vec![phase(4.0, "end")]].concat();
        let mut figures = Figures::default();
        steps(frame(told), StepClock::Enqueue, &mut figures).unwrap();
        // By hand: 4 steps of 64 samples in 2 s.
        assert!((figures.values[&Metric::Throughput] - 128.0).abs() < 1e-9, "{:?}", figures.values);
        assert!((figures.values[&Metric::EpochTime] - 4.0).abs() < 1e-9, "{:?}", figures.values);

        // Nothing says when the GPU was done.
        let no_phase = handed.map(|handed| tables::Step { phase: None, ..handed });
        let mut figures = Figures::default();
        steps(frame(no_phase.to_vec()), StepClock::Enqueue, &mut figures).unwrap();
        assert!(!figures.values.contains_key(&Metric::Throughput), "{:?}", figures.values);
    }

    fn assert_values(values: &BTreeMap<Metric, f64>, right: &[(Metric, f64)]) {
        assert_eq!(values.keys().collect::<Vec<_>>(), right.iter().map(|(metric, _)| metric).collect::<Vec<_>>());
        for (metric, right) in right {
            assert!((values[metric] - right).abs() < 1e-9, "{metric:?}: {} {right}", values[metric]);
        }
    }

    #[test]
    fn warm_up_is_left_out_and_epochs_are_averaged() {
        // Two epochs of three steps; the first step is slow.
        let ends = [(3.0, 0), (4.0, 0), (4.5, 0), (5.0, 1), (5.8, 1), (6.0, 1)];
        let mut rows = vec![phase(0.2, "load"), phase(1.0, "train")];
        rows.extend(ends.map(|(t, epoch)| step(t, epoch)));
        rows.push(phase(6.5, "done"));
        // By hand: after the second step four steps of 0.5, 0.5, 0.8 and 0.2 s, median 0.5; 256 samples in 2 s;
        // 0.4 s of waiting in them. Epochs: 4.5 − 1 and 6 − 4.5, mean 2.5.
        let right = [
            (Metric::TrainTime, 5.5),
            (Metric::EpochTime, 2.5),
            (Metric::Throughput, 128.0),
            (Metric::StepTime, 0.5),
            (Metric::DataWait, 0.2),
        ];
        assert_values(&values(rows), &right);
    }

    #[test]
    fn evaluation_between_epochs_does_not_count() {
        let mut rows = vec![phase(0.0, "train"), step(1.0, 0), step(2.0, 0), step(3.0, 0), phase(3.0, "eval")];
        rows.push(tables::Step { phase: Some("eval".into()), ..step(8.0, 0) });
        rows.extend([phase(10.0, "train"), step(11.0, 1), step(12.0, 1), step(13.0, 1)]);
        let right = [
            (Metric::TrainTime, 6.0),
            (Metric::EpochTime, 3.0),
            (Metric::Throughput, 64.0),
            (Metric::StepTime, 1.0),
            (Metric::DataWait, 0.1),
        ];
        assert_values(&values(rows), &right);
    }

    #[test]
    fn samples_of_all_ranks_count_and_their_rows_may_be_out_of_order() {
        let mut rows = vec![phase(0.0, "train")];
        for rank in [1, 0] {
            let end = |k: i64| k as f64 + 0.01 * rank as f64;
            rows.extend((1..=6).map(|k| tables::Step { rank: Some(rank), ..step(end(k), 0) }));
        }
        // By hand: warm-up is over at 2.01 s; two ranks' four steps of 64 until 6.01 s.
        let values = values(rows);
        assert!((values[&Metric::Throughput] - 128.0).abs() < 1e-9, "{values:?}");
        assert!((values[&Metric::StepTime] - 1.0).abs() < 1e-9, "{values:?}");
        assert!((values[&Metric::TrainTime] - 6.01).abs() < 1e-9, "{values:?}");
    }

    #[test]
    fn two_steps_are_too_few_for_a_rate() {
        let values = values(vec![phase(0.0, "train"), step(1.0, 0), step(2.0, 0)]);
        assert_values(&values, &[(Metric::TrainTime, 2.0), (Metric::EpochTime, 2.0)]);
    }

    #[test]
    fn without_a_phase_there_are_rates_but_no_time_of_training() {
        let rows = (1..=4).map(|k| tables::Step { phase: None, data_wait_ns: None, ..step(f64::from(k), 0) });
        assert_values(&values(rows.collect()), &[(Metric::Throughput, 64.0), (Metric::StepTime, 1.0)]);
    }

    #[test]
    fn a_loop_that_does_not_count_its_samples_has_no_throughput() {
        let rows = (1..=4).map(|k| tables::Step { samples: None, epoch: None, ..step(f64::from(k), 0) });
        assert_values(&values(rows.collect()), &[(Metric::StepTime, 1.0), (Metric::DataWait, 0.1)]);
        assert!(values(Vec::new()).is_empty());
    }
}
