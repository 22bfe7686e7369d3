//! The rules, each with the measure it looks at and its threshold.

use super::growth::{Kind, STILL_GROWING, Side};
use super::measure::Measure;
use crate::aggregate::metric::Metric;

/// Holds where a measure is at least `from` and less than `below`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) measure: Measure,
    pub(crate) from: Option<f64>,
    pub(crate) below: Option<f64>,
}

const fn at_least(measure: Measure, from: f64) -> Condition {
    Condition { measure, from: Some(from), below: None }
}

const fn below(measure: Measure, below: f64) -> Condition {
    Condition { measure, from: None, below: Some(below) }
}

impl Condition {
    pub(super) fn holds(&self, value: f64) -> bool {
        self.from.is_none_or(|from| value >= from) && self.below.is_none_or(|below| value < below)
    }
}

/// Holds where a measure is at least `from` and less than `below`, and some conditions on other measures are met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) measure: Measure,
    pub(crate) from: Option<f64>,
    pub(crate) below: Option<f64>,
    /// What must hold besides. A measure that a case lacks fails its condition.
    pub(crate) and: &'static [Condition],
    /// The chart of the case that shows it.
    pub(crate) chart: Option<&'static str>,
    /// Whether it limits what the figures may be used for.
    pub(crate) caution: bool,
}

const fn rule(name: &'static str, measure: Measure, from: Option<f64>, below: Option<f64>) -> Rule {
    Rule { name, measure, from, below, and: &[], chart: None, caution: false }
}

impl Rule {
    const fn seen_in(self, chart: &'static str) -> Self {
        Self { chart: Some(chart), ..self }
    }

    const fn and(self, and: &'static [Condition]) -> Self {
        Self { and, ..self }
    }

    const fn caution(self) -> Self {
        Self { caution: true, ..self }
    }

    /// On the measure that gives the evidence.
    pub(super) fn condition(&self) -> Condition {
        Condition { measure: self.measure, from: self.from, below: self.below }
    }
}

const MIB: f64 = 1024.0 * 1024.0;

const fn host(side: Side) -> Measure {
    Measure::Growth(Kind::Host, side)
}

const fn gpu(side: Side) -> Measure {
    Measure::Growth(Kind::Gpu, side)
}

/// From this share of all cores on, what others use may have made a run longer.
pub(crate) const FOREIGN_LOAD: f64 = 0.05;

/// From this share of the memory limit on its use is considerable.
pub(super) const MEMORY_CONSIDERABLE: f64 = 0.50;

/// Below this share the GPU waits for something else: a data pipeline, launches. The training articles that reports follow
/// call 76 to 82 % healthy, and 60 to 70 % held back by the supply of data.
const GPU_HEALTHY: f64 = 0.70;
/// Of step time: more is worth more workers or a faster store (ours: a fifth of the time could be had back).
const DATA_WAIT_HIGH: f64 = 0.20;
/// Of step time: below it nothing could be won (ours: within what runs differ by).
const DATA_WAIT_LOW: f64 = 0.05;

/// The greatest value that is not yet above zero.
const ABOVE_ZERO: f64 = f64::MIN_POSITIVE;

/// Of the environment as a whole.
pub(crate) const OF_ENVIRONMENT: &[Rule] = &[
    rule("mixed_fingerprints", Measure::Fingerprints, Some(2.0), None).caution(),
    rule("unreadable_runs", Measure::UnreadableRuns, Some(1.0), None).caution(),
];

/// In the order in which reports print them. Where no source is named the threshold is ours.
pub(crate) const RULES: &[Rule] = &[
    rule("gpu_high", Measure::Of(Metric::GpuUtilisation), Some(GPU_HEALTHY), None).seen_in("gpu"),
    rule("gpu_moderate", Measure::Of(Metric::GpuUtilisation), Some(0.30), Some(GPU_HEALTHY)).seen_in("gpu"),
    rule("gpu_low", Measure::Of(Metric::GpuUtilisation), None, Some(0.30)).seen_in("gpu"),
    rule("gpu_data_bound", Measure::Of(Metric::DataWait), Some(DATA_WAIT_HIGH), None)
        .and(&[below(Measure::Of(Metric::GpuUtilisation), GPU_HEALTHY)])
        .seen_in("gpu"),
    // A core that only spins until the GPU is done is busy for no longer than the GPU is; one that is busy for longer
    // prepares what the GPU waits for.
    rule("gpu_launch_bound", Measure::CpuCores, Some(0.80), None)
        .and(&[
            below(Measure::Of(Metric::GpuUtilisation), GPU_HEALTHY),
            below(Measure::Of(Metric::DataWait), DATA_WAIT_LOW),
        ])
        .seen_in("gpu"),
    rule("gpu_unused_busy", Measure::Of(Metric::GpuUtilisationUnused), Some(0.10), None).caution().seen_in("gpu"),
    rule("gpu_memory_others", Measure::Of(Metric::GpuMemoryOthersPeak), Some(256.0 * MIB), None)
        .caution()
        .seen_in("gpu-memory"),
    rule("gpu_memory_tight", Measure::GpuMemoryShare, Some(0.90), None).seen_in("gpu-memory"),
    rule("gpu_memory_moderate", Measure::GpuMemoryShare, Some(MEMORY_CONSIDERABLE), Some(0.90)).seen_in("gpu-memory"),
    rule("gpu_memory_ample", Measure::GpuMemoryShare, None, Some(MEMORY_CONSIDERABLE)).seen_in("gpu-memory"),
    rule("gpu_memory_trend_unknown", Measure::UnjudgedGrowth(Kind::Gpu), Some(1.0), None).seen_in("gpu-memory"),
    rule("gpu_memory_trend_open", Measure::Of(Metric::GpuMemoryGrowth), None, None)
        .and(&[at_least(gpu(Side::Open), 1.0)])
        .seen_in("gpu-memory"),
    rule("gpu_memory_steady", Measure::Of(Metric::GpuMemoryGrowth), None, None)
        .and(&[at_least(gpu(Side::Low), -1.0), below(gpu(Side::High), 1.0)])
        .seen_in("gpu-memory"),
    rule("gpu_memory_levelling", Measure::Of(Metric::GpuMemoryGrowth), None, None)
        .and(&[
            at_least(gpu(Side::Mean), 1.0),
            at_least(gpu(Side::Low), ABOVE_ZERO),
            below(gpu(Side::Late), STILL_GROWING),
        ])
        .seen_in("gpu-memory"),
    rule("gpu_memory_leak", Measure::Of(Metric::GpuMemoryGrowth), None, None)
        .and(&[
            at_least(gpu(Side::Mean), 1.0),
            at_least(gpu(Side::Low), ABOVE_ZERO),
            at_least(gpu(Side::Least), ABOVE_ZERO),
            at_least(gpu(Side::Late), STILL_GROWING),
        ])
        .seen_in("gpu-memory"),
    // Under load many GPUs run at their power limit: that explains times, but is no fault.
    rule("gpu_power_capped", Measure::Of(Metric::GpuPowerCapped), Some(0.10), None),
    rule("gpu_clocks_set", Measure::Of(Metric::GpuClocksSet), Some(0.10), None),
    rule("gpu_heat_capped", Measure::Of(Metric::GpuHeatCapped), Some(0.01), None).caution(),
    rule("gpu_hardware_slowdown", Measure::Of(Metric::GpuHardwareSlowdown), Some(0.05), None).caution(),
    rule("gpu_ecc_uncorrected", Measure::Of(Metric::GpuEccUncorrected), Some(1.0), None).caution(),
    rule("gpu_energy_per_sample", Measure::Of(Metric::GpuEnergyPerSample), None, None),
    // The articles call 92 % close to saturated.
    rule("cpu_saturated", Measure::Of(Metric::CpuUsage), Some(0.90), None).seen_in("cpu"),
    rule("cpu_moderate", Measure::Of(Metric::CpuUsage), Some(0.30), Some(0.90)).seen_in("cpu"),
    rule("cpu_low", Measure::Of(Metric::CpuUsage), None, Some(0.30)).seen_in("cpu"),
    rule("cores_busy", Measure::Of(Metric::CoresAbove85), Some(0.5), None).seen_in("cores"),
    // What the Kubernetes mixin's alert CPUThrottlingHigh takes: a quarter of the periods.
    rule("cpu_throttled", Measure::Of(Metric::CpuThrottled), Some(0.25), None).seen_in("cpu"),
    // Threads that sleep cost nothing: many are too many only where tasks do wait for a CPU.
    rule("threads_many", Measure::ThreadsPerCore, Some(4.0), None)
        .and(&[at_least(Measure::Of(Metric::CpuPressure), 0.10)]),
    rule("cpu_energy_per_sample", Measure::Of(Metric::CpuEnergyPerSample), None, None),
    rule("data_wait_high", Measure::Of(Metric::DataWait), Some(DATA_WAIT_HIGH), None),
    rule("data_wait_low", Measure::Of(Metric::DataWait), None, Some(DATA_WAIT_LOW)),
    rule("steps_even", Measure::Of(Metric::StepVariation), None, Some(0.05)),
    rule("steps_uneven", Measure::Of(Metric::StepVariation), Some(0.20), None),
    rule("steps_slow_tail", Measure::SlowSteps, Some(2.0), None),
    rule("warm_up", Measure::Of(Metric::WarmUpSteps), Some(0.5), None),
    rule("io_wait_high", Measure::Of(Metric::IoWait), Some(0.05), None),
    rule("io_wait_low", Measure::Of(Metric::IoWait), None, Some(0.01)),
    // Of the two examples of triggers in the kernel's Documentation/accounting/psi.rst: 50 ms of a second for I/O by all, …
    rule("io_pressure_high", Measure::Of(Metric::IoPressure), Some(0.05), None),
    rule("memory_tight", Measure::MemoryAtLeast, Some(0.90), None).seen_in("memory"),
    rule("memory_moderate", Measure::MemoryAtLeast, Some(MEMORY_CONSIDERABLE), Some(0.90)).seen_in("memory"),
    rule("memory_ample", Measure::MemoryAtMost, None, Some(MEMORY_CONSIDERABLE)).seen_in("memory"),
    rule("memory_unclear", Measure::MemoryAtMost, Some(MEMORY_CONSIDERABLE), None).seen_in("memory"),
    rule("memory_trend_unknown", Measure::UnjudgedGrowth(Kind::Host), Some(1.0), None).seen_in("memory"),
    rule("memory_trend_open", Measure::Of(Metric::MemoryGrowth), None, None)
        .and(&[at_least(host(Side::Open), 1.0)])
        .seen_in("memory"),
    rule("memory_steady", Measure::Of(Metric::MemoryGrowth), None, None)
        .and(&[at_least(host(Side::Low), -1.0), below(host(Side::High), 1.0)])
        .seen_in("memory"),
    rule("memory_levelling", Measure::Of(Metric::MemoryGrowth), None, None)
        .and(&[
            at_least(host(Side::Mean), 1.0),
            at_least(host(Side::Low), ABOVE_ZERO),
            below(host(Side::Late), STILL_GROWING),
        ])
        .seen_in("memory"),
    rule("memory_leak", Measure::Of(Metric::MemoryGrowth), None, None)
        .and(&[
            at_least(host(Side::Mean), 1.0),
            at_least(host(Side::Low), ABOVE_ZERO),
            at_least(host(Side::Least), ABOVE_ZERO),
            at_least(host(Side::Late), STILL_GROWING),
        ])
        .seen_in("memory"),
    // … and 150 ms of a second for memory by some task.
    rule("memory_pressure_high", Measure::Of(Metric::MemoryPressure), Some(0.15), None).caution(),
    rule("swap_used", Measure::Swap, Some(1.0), None).caution(),
    rule("swap_unused", Measure::Swap, None, Some(1.0)),
    rule("foreign_load", Measure::Of(Metric::ForeignCpu), Some(FOREIGN_LOAD), None).caution().seen_in("cpu"),
    rule("steal", Measure::Of(Metric::Steal), Some(0.02), None).caution(),
    rule("failed_runs", Measure::FailedRuns, Some(1.0), None).caution(),
    rule("cut_runs", Measure::CutRuns, Some(1.0), None).caution(),
    rule("no_finished_run", Measure::FinishedRuns, None, Some(1.0)).caution(),
    rule("few_runs", Measure::FinishedRuns, Some(1.0), Some(3.0)).caution(),
    rule("outlying_runs", Measure::OutlyingRuns, Some(1.0), None).caution(),
    rule("overlapping_runs", Measure::OverlappingRuns, Some(1.0), None).caution(),
    rule("missed_ticks", Measure::MissedTicks, Some(0.01), None).caution(),
    // A window of a second and more that nobody looked at.
    rule("late_tick", Measure::LatestTick, Some(1.0), None).caution(),
    rule("recorder_heavy", Measure::RecorderCpu, Some(0.02), None).caution(),
];
