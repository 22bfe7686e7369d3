//! What rules look at: one number a case, with where it comes from.

use super::growth::{self, Kind, Side};
use super::outliers;
use super::rules::MEMORY_CONSIDERABLE;
use crate::aggregate::metric::{Metric, Unit};
use crate::aggregate::summary::{CaseSummary, Course, EnvironmentSummary, MetricSummary, Quantity, RunSummary};
use crate::trace::run::Outcome;

/// What a rule looks at, of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Of(Metric),
    /// At least so much of the memory that the run may use: the greatest of the PSS readings.
    MemoryAtLeast,
    /// Hardly more than so much of it: one of [`BOUNDS_OF_MEMORY`], where the PSS readings do not settle it.
    MemoryAtMost,
    /// Bytes from and to swap.
    Swap,
    /// Growth of memory over the run by its trend, in margins: see [`growth`](super::growth).
    Growth(Kind, Side),
    /// Finished runs, where they do not suffice to judge the growth of memory.
    UnjudgedGrowth(Kind),
    /// The greatest memory in use on a GPU as a share of what it has.
    GpuMemoryShare,
    /// Cores' worth of CPU time.
    CpuCores,
    /// Most threads at one time, over the cores' worth of CPU time that the run may use.
    ThreadsPerCore,
    /// The 95th percentile of the time of a step over its median.
    SlowSteps,
    FinishedRuns,
    FailedRuns,
    /// Runs that were cut: interrupted, or their recorder died.
    CutRuns,
    /// Finished runs that took far longer or shorter than the others: see [`outliers`](super::outliers).
    OutlyingRuns,
    /// Runs that by the wall clock began before the run before them had ended.
    OverlappingRuns,
    /// Ticks of the recorder that were missed, over all that were due.
    MissedTicks,
    /// The greatest delay of a tick in seconds.
    LatestTick,
    /// CPU time of the recorder over the time of the runs: cores' worth.
    RecorderCpu,
    /// Different machines or software states among the runs of the environment.
    Fingerprints,
    /// Runs that could not be read.
    UnreadableRuns,
}

impl Measure {
    /// Name in files.
    pub(crate) fn name(self) -> String {
        let name = match self {
            Measure::Of(metric) => metric.key(),
            Measure::Growth(kind, side) => return format!("{}.{}", kind.growth().key(), side.name()),
            Measure::UnjudgedGrowth(kind) => return format!("{}.unjudged_runs", kind.growth().key()),
            Measure::MemoryAtLeast => "memory_at_least",
            Measure::MemoryAtMost => "memory_at_most",
            Measure::Swap => "swap",
            Measure::GpuMemoryShare => "gpu_memory_share",
            Measure::CpuCores => "cpu_cores",
            Measure::ThreadsPerCore => "threads_per_core",
            Measure::SlowSteps => "slow_steps",
            Measure::FinishedRuns => "finished_runs",
            Measure::FailedRuns => "failed_runs",
            Measure::CutRuns => "cut_runs",
            Measure::OutlyingRuns => "outlying_runs",
            Measure::OverlappingRuns => "overlapping_runs",
            Measure::MissedTicks => "missed_ticks",
            Measure::LatestTick => "latest_tick",
            Measure::RecorderCpu => "recorder_cpu",
            Measure::Fingerprints => "fingerprints",
            Measure::UnreadableRuns => "unreadable_runs",
        };
        name.to_owned()
    }
}

/// What a rule was held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Evidence {
    pub(crate) unit: Unit,
    pub(crate) value: f64,
    /// Least and greatest run, and the number of runs; absent where the value is a count over all runs.
    pub(crate) spread: Option<(f64, f64, usize)>,
    /// The figure that it is a mean of.
    pub(crate) metric: Option<Metric>,
}

/// Over less time the share of the recorder says nothing: starting and ending a run cost the same however long it is.
const SHORTEST_JUDGED_S: f64 = 5.0;
/// Bounds the memory in use from above, but for processes that lived between two ticks: processes that share pages, or that
/// lived one after the other, count in full in the first, the page cache in the second.
pub(crate) const BOUNDS_OF_MEMORY: [Metric; 2] = [Metric::MemorySumOfPeaks, Metric::MemoryGroupPeak];

/// The value of a measure; none where a case was not measured so.
pub(super) fn measure(measure: Measure, summary: &EnvironmentSummary, case: &CaseSummary) -> Option<Evidence> {
    let runs = |wanted: fn(Outcome) -> bool| count(case.runs.iter().filter(|run| wanted(run.outcome)).count());
    match measure {
        Measure::Of(metric) => case.metric(metric).map(|figure| over_runs(figure, 1.0)),
        Measure::MemoryAtLeast => share_of_memory(case, Metric::MemoryPssPeak),
        // Where the readings alone settle it, the rest has nothing to add.
        Measure::MemoryAtMost => {
            let read = share_of_memory(case, Metric::MemoryPssPeak).map_or(0.0, |share| share.value);
            memory_at_most(case).filter(|_| read < MEMORY_CONSIDERABLE)
        }
        Measure::Swap => {
            let (read, written) = (case.metric(Metric::SwapIn)?, case.metric(Metric::SwapOut)?);
            Some(over_all(Unit::Bytes, read.mean + written.mean))
        }
        Measure::Growth(kind, side) => growth::measure(case, kind, side).map(|margins| over_all(Unit::Ratio, margins)),
        Measure::UnjudgedGrowth(kind) => count(growth::unjudged(case, kind)?),
        Measure::GpuMemoryShare => gpu_memory_share(summary, case),
        Measure::CpuCores => {
            let (used, time) = (case.metric(Metric::CpuTime)?, case.metric(Metric::Duration)?);
            Some(over_all(Unit::Count, used.mean / time.mean)).filter(|_| time.mean > 0.0)
        }
        Measure::ThreadsPerCore => {
            let cores = case.limits.cpu_cores.filter(|cores| *cores > 0.0)?;
            Some(Evidence { unit: Unit::Count, ..over_runs(case.metric(Metric::Threads)?, cores) })
        }
        Measure::SlowSteps => {
            let (slow, middle) = (case.metric(Metric::StepTimeP95)?, case.metric(Metric::StepTime)?);
            Some(over_all(Unit::Count, slow.mean / middle.mean)).filter(|_| middle.mean > 0.0)
        }
        Measure::FinishedRuns => runs(Outcome::is_finished),
        Measure::FailedRuns => runs(|outcome| {
            matches!(outcome, Outcome::Failed { .. } | Outcome::Killed { .. } | Outcome::OutOfMemory { .. })
        }),
        Measure::CutRuns => {
            runs(|outcome| matches!(outcome, Outcome::Recording | Outcome::Incomplete | Outcome::Interrupted))
        }
        Measure::OutlyingRuns => count(outliers::of_case(case).len()),
        Measure::OverlappingRuns => count(outliers::overlapping(case)),
        Measure::MissedTicks => missed_ticks(case),
        Measure::LatestTick => {
            let latest = case.runs.iter().filter_map(|run| run.recorder.late_max_ns).max()?;
            Some(over_all(Unit::Second, latest as f64 / 1e9))
        }
        Measure::RecorderCpu => recorder_cores(case).map(|cores| over_all(Unit::Ratio, cores)),
        Measure::Fingerprints | Measure::UnreadableRuns => of_environment(measure, summary),
    }
}

/// The value of a measure that looks at the whole environment.
pub(super) fn of_environment(measure: Measure, summary: &EnvironmentSummary) -> Option<Evidence> {
    match measure {
        Measure::Fingerprints => count(summary.fingerprints),
        Measure::UnreadableRuns => count(summary.left_out.len()),
        _ => None,
    }
}

fn missed_ticks(case: &CaseSummary) -> Option<Evidence> {
    let missed: u64 = case.runs.iter().filter_map(|run| run.recorder.missed_ticks).sum();
    let met: u64 = case.runs.iter().filter_map(|run| run.recorder.ticks).sum();
    (missed + met > 0).then(|| over_all(Unit::Ratio, missed as f64 / (missed + met) as f64))
}

/// Only where all GPUs that the runs may have used have the same memory: the peak is that of any one of them. Of a GPU that
/// is divided nobody knows which part the peak is in.
fn gpu_memory_share(summary: &EnvironmentSummary, case: &CaseSummary) -> Option<Evidence> {
    let capacity = gpu_capacity(summary, case)?;
    Some(Evidence { unit: Unit::Ratio, ..over_runs(case.metric(Metric::GpuMemoryPeak)?, capacity) })
}

/// Memory of each of the GPUs that the runs used, in bytes.
pub(crate) fn gpu_capacity(summary: &EnvironmentSummary, case: &CaseSummary) -> Option<f64> {
    let is_divided = |course: &Course| matches!(course.quantity, Quantity::GpuInstanceMemory(..));
    if case.courses.iter().any(is_divided) || summary.fingerprints > 1 {
        return None;
    }
    let gpus = summary.fingerprint.get("gpus")?.as_array()?;
    let is_used = |index: usize| {
        let used = case.gpus_used.as_ref().filter(|used| !used.is_empty());
        used.is_none_or(|used| used.iter().any(|gpu| *gpu as usize == index))
    };
    let used = gpus.iter().enumerate().filter(|(index, _)| is_used(*index));
    let mut sizes = used.map(|(_, gpu)| gpu.get("memory_total_bytes")?.as_f64());
    let first = sizes.next()??;
    (first > 0.0 && sizes.all(|size| size == Some(first))).then_some(first)
}

/// Cores' worth of CPU time that the recorder used during the runs of a case; of runs that tell both.
pub(crate) fn recorder_cores(case: &CaseSummary) -> Option<f64> {
    let of_run = |run: &RunSummary| Some((run.recorder.cpu_ns? as f64 / 1e9, *run.values.get(&Metric::Duration)?));
    let told: Vec<(f64, f64)> = case.runs.iter().filter_map(of_run).collect();
    let (used, time) = told.iter().fold((0.0, 0.0), |(used, time), run| (used + run.0, time + run.1));
    // Over a run of milliseconds the first and last samples are everything.
    (time >= SHORTEST_JUDGED_S).then(|| used / time)
}

/// A figure of memory as a share of what the run may use.
pub(crate) fn share_of_memory(case: &CaseSummary, metric: Metric) -> Option<Evidence> {
    let limit = case.limits.memory_bytes.filter(|limit| *limit > 0)?;
    Some(Evidence { unit: Unit::Ratio, ..over_runs(case.metric(metric)?, limit as f64) })
}

/// The sum of peaks. Where that leaves open how much there was, the peak of the run's group, if PSS was read and is not above
/// it: what is charged to others (files that were in the page cache before) is missing in the group.
fn memory_at_most(case: &CaseSummary) -> Option<Evidence> {
    let [sum, group] = BOUNDS_OF_MEMORY.map(|metric| share_of_memory(case, metric));
    if sum.is_some_and(|sum| sum.value < MEMORY_CONSIDERABLE) {
        return sum;
    }
    let Some(read) = share_of_memory(case, Metric::MemoryPssPeak).map(|read| read.value) else { return sum };
    let holds_all = |group: &Evidence| group.value >= read && sum.is_none_or(|sum| group.value < sum.value);
    group.filter(holds_all).or(sum)
}

fn over_runs(figure: &MetricSummary, whole: f64) -> Evidence {
    let spread = Some((figure.min / whole, figure.max / whole, figure.n));
    Evidence { unit: figure.metric.unit(), value: figure.mean / whole, spread, metric: Some(figure.metric) }
}

fn over_all(unit: Unit, value: f64) -> Evidence {
    Evidence { unit, value, spread: None, metric: None }
}

fn count(number: usize) -> Option<Evidence> {
    Some(over_all(Unit::Count, number as f64))
}
