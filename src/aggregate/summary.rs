//! What `aggregate` hands on: one number a metric and run, statistics over runs, and time courses. No text.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::trace::StepSource;
use crate::trace::check::{Check, CheckState};
use crate::trace::run::{Coverage, CpuTotals, Limits, Outcome, RecorderCost, StepReading};

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
    /// Number of different stable fingerprints among the runs: 1 where all ran on the same thing.
    pub fingerprints: usize,
    pub limits: Limits,
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
    /// All runs, failed and incomplete ones too, in the order of their numbers.
    pub runs: Vec<RunSummary>,
    /// Statistics over the finished runs, in the order of [`Metric::ALL`]; metrics that no run measured are absent.
    pub metrics: Vec<MetricSummary>,
    /// Time courses over the finished runs; where there are none, over what was kept of the others.
    pub courses: Vec<Course>,
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
    pub outcome: Outcome,
    pub started_unix_ns: i64,
    pub interval_ns: i64,
    pub survivors: Vec<String>,
    /// They were left running.
    pub left_children: bool,
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
/// Only windows that at least half of the runs have.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    pub quantity: Quantity,
    /// Number of runs that it is made of.
    pub runs: usize,
    pub points: Vec<Point>,
}

/// One window. A window that was not measured has no point: a gap is a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Middle of the window, seconds since the run's start.
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
}

/// Unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Second,
    /// 0 to 1 of what the metric's doc names as the whole.
    Ratio,
    Bytes,
    SamplesPerSecond,
    StepsPerSecond,
    Count,
    Joule,
    Watt,
    Celsius,
}

macro_rules! metrics {
    ($( $(#[doc = $doc:literal])+ $name:ident = $key:literal, $unit:ident; )+) => {
        /// A figure that sums up one run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $( $(#[doc = $doc])+ $name, )+
        }

        impl Metric {
            /// In the order in which reports list them.
            pub const ALL: &'static [Metric] = &[$( Metric::$name, )+];

            /// Name in templates, tables and files.
            pub fn key(self) -> &'static str {
                match self { $( Metric::$name => $key, )+ }
            }

            pub fn unit(self) -> Unit {
                match self { $( Metric::$name => Unit::$unit, )+ }
            }
        }
    };
}

metrics! {
    /// Root process start to exit.
    Duration = "duration", Second;
    /// Time in the `train` phase: from its beginning to that of another phase, else to the last step's end.
    TrainTime = "train_time", Second;
    /// Mean time of an epoch within the `train` phase: from its beginning, or the end of the epoch before, to the end
    /// of the epoch's last step.
    EpochTime = "epoch_time", Second;
    /// Samples of all ranks in all training steps after the first two (warm-up), over the time from the end of the
    /// second step to the end of the last; from three steps on.
    Throughput = "throughput", SamplesPerSecond;
    /// Median time of a step, warm-up left out.
    StepTime = "step_time", Second;
    /// Share of the steps' time that was spent waiting for data, warm-up left out.
    DataWait = "data_wait", Ratio;
    /// Median time of a step by what the output showed: the time between two numbers, over the steps between them.
    /// Warm-up, and time in which a validation was shown, are left out.
    ShownStepTime = "shown_step_time", Second;
    /// Steps a second by what the output showed, over the same time.
    ShownStepRate = "shown_step_rate", StepsPerSecond;
    /// Samples a second by what the output showed, where it counts samples, over the same time.
    ShownThroughput = "shown_throughput", SamplesPerSecond;
    /// Time from one epoch to the next by what the output showed, validation and all else in it included.
    ShownEpochTime = "shown_epoch_time", Second;
    /// Samples a second as a tool in the run last said of itself.
    ReportedThroughput = "reported_throughput", SamplesPerSecond;
    /// CPU time of the tree: the greatest of process clocks, rusage and the run's control group.
    CpuTime = "cpu_time", Second;
    /// CPU time over duration × effective CPU limit.
    CpuUsage = "cpu_usage", Ratio;
    /// Greatest [`Quantity::RunCpu`] of any full window of one second.
    CpuUsageMax = "cpu_usage_max", Ratio;
    /// 95th percentile of [`Quantity::RunCpu`] over full windows of one second, interpolated linearly between ranks.
    CpuUsageP95 = "cpu_usage_p95", Ratio;
    /// Busy share of all cores of the host over the run.
    HostCpu = "host_cpu", Ratio;
    /// Share of all cores' time idle with disk I/O outstanding.
    IoWait = "io_wait", Ratio;
    /// Share of all cores' time that the hypervisor withheld.
    Steal = "steal", Ratio;
    /// Busy share of all cores by neither the run nor the recorder; 0 where the difference is below it.
    ForeignCpu = "foreign_cpu", Ratio;
    /// Greatest number of processes that are neither of the run nor the recorder.
    ForeignProcesses = "foreign_processes", Count;
    /// Cores that were above 85 % in at least half of the full one-second windows.
    CoresAbove85 = "cores_above_85", Count;
    /// Sum over processes of each one's highest resident memory (VmHWM); `time -v` gives the same for one process.
    MemorySumOfPeaks = "memory_sum_of_peaks", Bytes;
    /// Greatest sampled sum of proportional memory (PSS) of the tree.
    MemoryPssPeak = "memory_pss_peak", Bytes;
    /// Highest memory charged to the run's own control group or its container's, page cache included.
    MemoryGroupPeak = "memory_group_peak", Bytes;
    /// Greatest virtual memory of any one process that has rows of its own.
    VirtualPeak = "virtual_peak", Bytes;
    /// Host memory in use (total less available) at the first sample.
    HostMemoryBefore = "host_memory_before", Bytes;
    /// Greatest host memory in use.
    HostMemoryPeak = "host_memory_peak", Bytes;
    /// Host memory in use at the last sample.
    HostMemoryAfter = "host_memory_after", Bytes;
    /// Bytes read back from swap by the host.
    SwapIn = "swap_in", Bytes;
    /// Bytes written to swap by the host.
    SwapOut = "swap_out", Bytes;
    /// Energy of all CPU packages of the host by their own counters.
    CpuEnergy = "cpu_energy", Joule;
    /// Greatest number of processes of the tree at one tick.
    Processes = "processes", Count;
    /// Greatest number of threads of the tree at one tick.
    Threads = "threads", Count;
    /// Greatest number of open file descriptors of any one process that has rows of its own.
    OpenFiles = "open_files", Count;
    /// Bytes that the tree read from storage.
    DiskRead = "disk_read", Bytes;
    /// Bytes that the tree wrote to storage.
    DiskWritten = "disk_written", Bytes;
    // GPU figures are those of the GPUs on which the run's own processes were seen; of all recorded GPUs where none
    // shows any, because a driver may not tell whose processes are whose.
    /// Mean NVML utilisation over time, mean of the GPUs.
    GpuUtilisation = "gpu_utilisation", Ratio;
    /// The same of the GPUs that were recorded but that the run did not use.
    GpuUtilisationUnused = "gpu_utilisation_unused", Ratio;
    /// Memory in use on any one GPU before the command ran.
    GpuMemoryBefore = "gpu_memory_before", Bytes;
    /// Greatest memory in use on any one GPU.
    GpuMemoryPeak = "gpu_memory_peak", Bytes;
    /// Greatest rise of the memory in use on any one GPU above what was in use before the command ran.
    GpuMemoryRise = "gpu_memory_rise", Bytes;
    /// Greatest memory of the run's own processes on any one GPU.
    GpuMemoryOwnPeak = "gpu_memory_own_peak", Bytes;
    /// Greatest memory of processes outside the run on any one GPU.
    GpuMemoryOthersPeak = "gpu_memory_others_peak", Bytes;
    /// Greatest memory in use on any one GPU that no process accounts for.
    GpuMemoryUnattributed = "gpu_memory_unattributed", Bytes;
    /// Mean power over time, sum over the GPUs.
    GpuPower = "gpu_power", Watt;
    /// Greatest instantaneous power of any one GPU.
    GpuPowerInstantMax = "gpu_power_instant_max", Watt;
    /// Energy of the GPUs: by counter, else by the trapezoid rule over power.
    GpuEnergy = "gpu_energy", Joule;
    /// Share of time in which the driver held clocks down to keep to the power limit, mean of the GPUs.
    GpuPowerCapped = "gpu_power_capped", Ratio;
    /// Share of time in which clocks were held down because of heat, mean of the GPUs.
    GpuHeatCapped = "gpu_heat_capped", Ratio;
    /// Share of time in which the hardware itself halved clocks or more (power brake, heat, power spikes), mean of the GPUs.
    GpuHardwareSlowdown = "gpu_hardware_slowdown", Ratio;
    /// Share of time in which a setting held clocks down (application clocks, sync boost, display), mean of the GPUs.
    GpuClocksSet = "gpu_clocks_set", Ratio;
    /// Greatest GPU temperature.
    GpuTemperatureMax = "gpu_temperature_max", Celsius;
    /// Memory errors that ECC corrected, sum over the GPUs.
    GpuEccCorrected = "gpu_ecc_corrected", Count;
    /// Memory errors that ECC could not correct, sum over the GPUs.
    GpuEccUncorrected = "gpu_ecc_uncorrected", Count;
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
