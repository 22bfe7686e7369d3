//! The rules, each with the measure it looks at and its threshold.

use super::measure::Measure;
use crate::aggregate::metric::Metric;

/// Holds where a measure is at least `from` and less than `below`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) measure: Measure,
    pub(crate) from: Option<f64>,
    pub(crate) below: Option<f64>,
    /// The chart of the case that shows it.
    pub(crate) chart: Option<&'static str>,
    /// Whether it limits what the figures may be used for.
    pub(crate) caution: bool,
}

const fn rule(name: &'static str, measure: Measure, from: Option<f64>, below: Option<f64>) -> Rule {
    Rule { name, measure, from, below, chart: None, caution: false }
}

impl Rule {
    const fn seen_in(self, chart: &'static str) -> Self {
        Self { chart: Some(chart), ..self }
    }

    const fn caution(self) -> Self {
        Self { caution: true, ..self }
    }

    pub(super) fn holds(&self, value: f64) -> bool {
        self.from.is_none_or(|from| value >= from) && self.below.is_none_or(|below| value < below)
    }
}

/// From this share of all cores on, what others use may have made a run longer.
pub(crate) const FOREIGN_LOAD: f64 = 0.05;

/// From this share of the memory limit on its use is considerable.
pub(super) const MEMORY_CONSIDERABLE: f64 = 0.50;

/// In the order in which reports print them.
pub(crate) const RULES: &[Rule] = &[
    rule("gpu_high", Measure::Of(Metric::GpuUtilisation), Some(0.70), None).seen_in("gpu"),
    rule("gpu_moderate", Measure::Of(Metric::GpuUtilisation), Some(0.30), Some(0.70)).seen_in("gpu"),
    rule("gpu_low", Measure::Of(Metric::GpuUtilisation), None, Some(0.30)).seen_in("gpu"),
    rule("gpu_unused_busy", Measure::Of(Metric::GpuUtilisationUnused), Some(0.10), None).caution().seen_in("gpu"),
    rule("gpu_memory_others", Measure::Of(Metric::GpuMemoryOthersPeak), Some(256.0 * 1024.0 * 1024.0), None)
        .caution()
        .seen_in("gpu-memory"),
    // Under load many GPUs run at their power limit: that explains times, but is no fault.
    rule("gpu_power_capped", Measure::Of(Metric::GpuPowerCapped), Some(0.10), None),
    rule("gpu_heat_capped", Measure::Of(Metric::GpuHeatCapped), Some(0.01), None).caution(),
    rule("gpu_hardware_slowdown", Measure::Of(Metric::GpuHardwareSlowdown), Some(0.05), None).caution(),
    rule("gpu_ecc_uncorrected", Measure::Of(Metric::GpuEccUncorrected), Some(1.0), None).caution(),
    rule("cpu_saturated", Measure::Of(Metric::CpuUsage), Some(0.90), None).seen_in("cpu"),
    rule("cpu_moderate", Measure::Of(Metric::CpuUsage), Some(0.30), Some(0.90)).seen_in("cpu"),
    rule("cpu_low", Measure::Of(Metric::CpuUsage), None, Some(0.30)).seen_in("cpu"),
    rule("cores_busy", Measure::Of(Metric::CoresAbove85), Some(0.5), None).seen_in("cores"),
    rule("data_wait_high", Measure::Of(Metric::DataWait), Some(0.20), None),
    rule("data_wait_low", Measure::Of(Metric::DataWait), None, Some(0.05)),
    rule("io_wait_high", Measure::Of(Metric::IoWait), Some(0.05), None),
    rule("io_wait_low", Measure::Of(Metric::IoWait), None, Some(0.01)),
    rule("memory_tight", Measure::MemoryAtLeast, Some(0.90), None).seen_in("memory"),
    rule("memory_moderate", Measure::MemoryAtLeast, Some(MEMORY_CONSIDERABLE), Some(0.90)).seen_in("memory"),
    rule("memory_ample", Measure::MemoryAtMost, None, Some(MEMORY_CONSIDERABLE)).seen_in("memory"),
    rule("memory_unclear", Measure::MemoryAtMost, Some(MEMORY_CONSIDERABLE), None).seen_in("memory"),
    rule("swap_used", Measure::Swap, Some(1.0), None).caution(),
    rule("swap_unused", Measure::Swap, None, Some(1.0)),
    rule("foreign_load", Measure::Of(Metric::ForeignCpu), Some(FOREIGN_LOAD), None).caution().seen_in("cpu"),
    rule("steal", Measure::Of(Metric::Steal), Some(0.02), None).caution(),
    rule("failed_runs", Measure::FailedRuns, Some(1.0), None).caution(),
    rule("cut_runs", Measure::CutRuns, Some(1.0), None).caution(),
    rule("no_finished_run", Measure::FinishedRuns, None, Some(1.0)).caution(),
    rule("few_runs", Measure::FinishedRuns, Some(1.0), Some(3.0)).caution(),
    rule("missed_ticks", Measure::MissedTicks, Some(0.01), None).caution(),
    rule("recorder_heavy", Measure::RecorderCpu, Some(0.02), None).caution(),
    rule("mixed_fingerprints", Measure::Fingerprints, Some(2.0), None).caution(),
];
