//! What `aggregate` hands on: one number a metric and run, statistics over runs, and time courses. No text.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub use super::heat::{CoreCourse, CoreHeat};
use super::metric::Metric;
pub use super::step_times::{Share, StepBin, StepTimes};
use crate::trace::StepSource;
use crate::trace::check::{Check, CheckState};
use crate::trace::run::{Coverage, CpuTotals, Outcome, RecorderCost, StepReading};

/// A core counts as busy in a window of which it was busy for more than this share.
pub const BUSY_CORE: f64 = 0.85;

/// All that is known of one environment.
#[derive(Clone, Debug)]
pub struct EnvironmentSummary {
    /// Exact name.
    pub name: String,
    /// Name of its folder, without `environment=`.
    pub slug: String,
    /// Of the newest run; see `fingerprints` for how many there are.
    pub fingerprint: BTreeMap<String, Value>,
    /// Number of different machines or images among the runs, as far as their fingerprints tell: 1 where all can be one.
    pub fingerprints: usize,
    /// What its runs were allowed to use.
    pub limits: CommonLimits,
    /// What was loaded in any run.
    pub loaded: LoadedSummary,
    /// As found before the newest run that tells; empty where none does.
    pub checks: Vec<CheckSummary>,
    /// One entry a metric and state, merged over all runs, sorted.
    pub coverage: Vec<Coverage>,
    /// Runs that could not be read.
    pub left_out: Vec<LeftOut>,
    /// In the order in which they were first recorded.
    pub cases: Vec<CaseSummary>,
}

/// What runs were allowed to use: `None` where the finished ones differ, or where one of them does not tell. In the words
/// of [`Limits`](crate::trace::run::Limits).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CommonLimits {
    pub cores_online: Option<u32>,
    pub cpu_cores: Option<f64>,
    pub memory_total_bytes: Option<i64>,
    pub memory_bytes: Option<i64>,
}

/// Names with all values that they had in any run; without a value where nobody told one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedSummary {
    /// File names of libraries, and their versions.
    pub libraries: BTreeMap<String, BTreeSet<String>>,
    /// Components, and their versions.
    pub software: BTreeMap<String, BTreeSet<String>>,
    /// Python packages, and their versions.
    pub packages: BTreeMap<String, BTreeSet<String>>,
    /// Environment variables that matter.
    pub variables: BTreeMap<String, BTreeSet<String>>,
}

/// A readiness check over the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckSummary {
    /// As found before the newest run.
    pub check: Check,
    /// Runs that have it.
    pub runs: usize,
    /// How many of these found it in which other state.
    pub others: BTreeMap<CheckState, usize>,
}

/// A run that is in no figure, because it cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its folder below the environment's.
    pub run: String,
    pub reason: String,
}

/// A workload with its settings, over its runs.
#[derive(Clone, Debug)]
pub struct CaseSummary {
    /// Exact name: workload and settings as requested.
    pub name: String,
    pub slug: String,
    pub workload: String,
    pub settings: BTreeMap<String, String>,
    pub effective: BTreeMap<String, String>,
    /// As recorded, secrets masked.
    pub command: Vec<String>,
    /// Variables that the recorder set for the command, besides `SHICE_STEPS`.
    pub set_variables: BTreeMap<String, String>,
    /// Whether steps were looked for in the output.
    pub step_reading: Option<StepReading>,
    /// What the user called the container that was attached to.
    pub container: Option<String>,
    /// What its runs were allowed to use.
    pub limits: CommonLimits,
    /// All runs, failed and incomplete ones too, in the order of their numbers.
    pub runs: Vec<RunSummary>,
    /// Statistics over the finished runs, in the order of [`Metric::ALL`]; metrics that no run measured are absent.
    pub metrics: Vec<MetricSummary>,
    /// Time courses over the finished runs; where there are none, over what was kept of the others.
    pub courses: Vec<Course>,
    /// Busy share of each core over time; absent where cores were not measured.
    pub core_heat: Option<CoreHeat>,
    /// How long steps took; absent where the workload told none.
    pub step_times: Option<StepTimes>,
    /// Mean busy share of each core; empty where cores were not measured.
    pub cores: Vec<CoreUsage>,
    /// What else ran during its runs, the heaviest first: mean CPU use and greatest memory over runs.
    pub foreign: Vec<ForeignProgram>,
    /// GPUs that a run used; `None` where no driver told.
    pub gpus_used: Option<BTreeSet<u32>>,
}

/// A program that is neither of the run nor the recorder: all processes of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignProgram {
    pub name: String,
    /// Cores' worth of CPU time.
    pub cores: f64,
    /// Sum of resident memory; pages that its processes share count in each.
    pub memory_bytes: f64,
}

impl ForeignProgram {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), cores: 0.0, memory_bytes: 0.0 }
    }
}

#[derive(Clone, Debug)]
pub struct RunSummary {
    pub run: u32,
    /// Version of the program that recorded it.
    pub shice_version: String,
    /// When its session began, as Unix time.
    pub session_unix_ns: i64,
    /// Position within the session, from 1.
    pub sequence: u32,
    /// Runs of one block of a session were interleaved and may be paired.
    pub block: u32,
    pub outcome: Outcome,
    /// Where memory ran out, as the workload told.
    pub lack: Option<Lack>,
    pub started_unix_ns: i64,
    pub interval_ns: i64,
    pub survivors: Vec<String>,
    /// They were left running.
    pub left_children: bool,
    /// Tables that its record tells and its folder lacks.
    pub missing_tables: BTreeSet<String>,
    pub events: Vec<String>,
    pub output_tail: Vec<String>,
    pub recorder: RecorderCost,
    /// Of all tables; absent where the run was not finished, or by an older program.
    pub tables_bytes: Option<u64>,
    /// CPU time by each way that it was measured.
    pub cpu: CpuTotals,
    /// What else ran, the heaviest first.
    pub foreign: Vec<ForeignProgram>,
    /// One number a metric; what was not measured is absent.
    pub values: BTreeMap<Metric, f64>,
    /// Where the figures of steps come from; none where there are no such figures.
    pub step_source: Option<StepSource>,
    /// Which tool said [`Metric::ReportedThroughput`].
    pub reported_by: Option<StepSource>,
}

/// Where a workload ran out of memory, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lack {
    pub phase: String,
    /// The step that it was making, counted from 1.
    pub step: Option<u64>,
    /// What it asked for, or had worked out that it needs.
    pub bytes: Option<i64>,
}

impl Lack {
    /// What the effective settings of a run tell; none where memory did not run out.
    pub(super) fn told(effective: &BTreeMap<String, String>) -> Option<Self> {
        // Steps have numbers from 0 on.
        let step = effective.get("oom_step").and_then(|step| step.parse::<u64>().ok()?.checked_add(1));
        let bytes = effective.get("oom_bytes").and_then(|bytes| bytes.parse().ok());
        effective.get("oom_phase").map(|phase| Self { phase: phase.clone(), step, bytes })
    }
}

/// A metric over the finished runs of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricSummary {
    pub metric: Metric,
    /// Finished runs that have a value.
    pub n: usize,
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    /// Two-sided 95 % interval of the mean by Student's t; from three runs on.
    pub ci95: Option<(f64, f64)>,
}

/// A quantity over time, in windows of one second from the run's start: mean, least and greatest over runs.
///
/// Only windows that at least half of the runs have. In runs of more than 68 minutes neighbours are joined, so that the
/// number of points stays below 4096: then the mean is over runs and windows, least and greatest are those of any
/// window of any run, and no peak is lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    pub quantity: Quantity,
    /// Number of runs that it is made of.
    pub runs: usize,
    /// Windows, which is seconds, that each point stands for.
    pub point_s: i64,
    pub points: Vec<Point>,
}

/// One window, or some. What was not measured has no point: a gap is a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its middle, seconds since the run's start.
    pub t_s: f64,
    pub mean: f64,
    pub min: f64,
    pub max: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreUsage {
    pub core: u32,
    /// Mean over runs of the run's mean busy share (0 to 1); least and greatest run beside it.
    pub mean: f64,
    pub min: f64,
    pub max: f64,
}

/// What a course shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// CPU time of the run's tree over time × effective CPU limit, as a ratio.
    RunCpu,
    /// Busy share of all cores of the host, as a ratio.
    HostCpu,
    /// Sum of resident memory of the tree, bytes: an upper bound, shared pages count in each process.
    MemoryRss,
    /// Sum of proportional memory of the tree, bytes.
    MemoryPss,
    /// Utilisation of GPU n as NVML defines it, as a ratio.
    GpuUtilisation(u32),
    /// Memory in use on GPU n, bytes, by anybody.
    GpuMemory(u32),
    /// Memory of the run's own processes on GPU n, bytes.
    GpuMemoryOwn(u32),
    /// Memory in use on a MIG instance, by the numbers of the GPU and of the instance on it, bytes, by anybody.
    GpuInstanceMemory(u32, u32),
    /// Power of GPU n, watts.
    GpuPower(u32),
    /// Temperature of GPU n, °C.
    GpuTemperature(u32),
    /// Clock of the streaming multiprocessors of GPU n, MHz.
    GpuSmClock(u32),
    /// Clock of the memory of GPU n, MHz.
    GpuMemoryClock(u32),
    /// Whether the clocks of GPU n were held down by the power limit, by heat or by the hardware itself: share of time.
    GpuHeldDown(u32),
}

impl Course {
    /// Whether a point stands for several windows.
    pub fn is_joined(&self) -> bool {
        self.point_s > 1
    }
}

impl CaseSummary {
    /// Whether the workload told that it used a GPU, or, where it told nothing, one was used: by its processes as the
    /// driver lists them, else by what the GPUs did. A device that was asked for is no device that was used.
    pub fn uses_gpu(&self) -> bool {
        match self.effective.get("device").map(String::as_str) {
            Some(device) if device != "auto" => device.starts_with("cuda"),
            _ => match &self.gpus_used {
                Some(used) => !used.is_empty(),
                None => self
                    .metric(Metric::GpuMemoryOwnPeak)
                    .or(self.metric(Metric::GpuUtilisation))
                    .is_some_and(|figure| figure.max > 0.0),
            },
        }
    }

    /// Whether the workload's data were shortened.
    pub fn is_quick(&self) -> bool {
        self.settings.get("quick").is_some_and(|quick| quick == "true")
    }

    /// The statistics of a metric, where it was measured.
    pub fn metric(&self, metric: Metric) -> Option<&MetricSummary> {
        self.metrics.iter().find(|summary| summary.metric == metric)
    }

    /// The course of a quantity, where it was measured.
    pub fn course(&self, quantity: Quantity) -> Option<&Course> {
        self.courses.iter().find(|course| course.quantity == quantity)
    }

    /// Where figures of steps come from, over the runs; none where the workload told them itself.
    pub fn shown_by(&self) -> BTreeSet<StepSource> {
        self.runs.iter().filter_map(|run| run.step_source).filter(|source| *source != StepSource::ShiceSteps).collect()
    }

    /// Which tools said what is kept as [`Metric::ReportedThroughput`].
    pub fn reported_by(&self) -> BTreeSet<StepSource> {
        self.runs.iter().filter_map(|run| run.reported_by).collect()
    }

    /// Runs whose figures entered the statistics.
    pub fn finished(&self) -> usize {
        self.runs.iter().filter(|run| run.outcome.is_finished()).count()
    }
}
