//! The catalogue of findings: every judgement of a report is a rule over measured values. What was not measured earns
//! no finding. The words of a rule are `finding.<name>` and `finding.<name>.short` in the catalogues of words.

use crate::aggregate::metric::{Metric, Unit};
use crate::aggregate::summary::{CaseSummary, EnvironmentSummary, MetricSummary, RunSummary};
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
    FinishedRuns,
    FailedRuns,
    /// Runs that were cut: interrupted, or their recorder died.
    CutRuns,
    /// Ticks of the recorder that were missed, over all that were due.
    MissedTicks,
    /// CPU time of the recorder over the time of the runs: cores' worth.
    RecorderCpu,
    /// Different machines or software states among the runs of the environment.
    Fingerprints,
}

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

    fn holds(&self, value: f64) -> bool {
        self.from.is_none_or(|from| value >= from) && self.below.is_none_or(|below| value < below)
    }
}

/// Over less time the share of the recorder says nothing: starting and ending a run cost the same however long it is.
const SHORTEST_JUDGED_S: f64 = 5.0;
/// From this share of all cores on, what others use may have made a run longer.
pub(crate) const FOREIGN_LOAD: f64 = 0.05;

/// From this share of the memory limit on its use is considerable.
const MEMORY_CONSIDERABLE: f64 = 0.50;
/// Bounds the memory in use from above, but for processes that lived between two ticks: processes that share pages, or that
/// lived one after the other, count in full in the first, the page cache in the second.
pub(crate) const BOUNDS_OF_MEMORY: [Metric; 2] = [Metric::MemorySumOfPeaks, Metric::MemoryGroupPeak];

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

/// A rule that holds, with the value that earned it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) rule: &'static Rule,
    pub(crate) evidence: Evidence,
}

/// All findings of a case.
pub(crate) fn of_case(summary: &EnvironmentSummary, case: &CaseSummary) -> Vec<Finding> {
    let held = |rule: &'static Rule| {
        // What others do on a GPU is no finding on a case that does not use one.
        if rule.name.starts_with("gpu_") && !case.uses_gpu() {
            return None;
        }
        let evidence = measure(rule.measure, summary, case)?;
        rule.holds(evidence.value).then_some(Finding { rule, evidence })
    };
    RULES.iter().filter_map(held).collect()
}

fn measure(measure: Measure, summary: &EnvironmentSummary, case: &CaseSummary) -> Option<Evidence> {
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
        Measure::FinishedRuns => runs(Outcome::is_finished),
        Measure::FailedRuns => runs(|outcome| {
            matches!(outcome, Outcome::Failed { .. } | Outcome::Killed { .. } | Outcome::OutOfMemory { .. })
        }),
        Measure::CutRuns => {
            runs(|outcome| matches!(outcome, Outcome::Recording | Outcome::Incomplete | Outcome::Interrupted))
        }
        Measure::MissedTicks => {
            let missed: u64 = case.runs.iter().filter_map(|run| run.recorder.missed_ticks).sum();
            let met: u64 = case.runs.iter().filter_map(|run| run.recorder.ticks).sum();
            (missed + met > 0).then(|| over_all(Unit::Ratio, missed as f64 / (missed + met) as f64))
        }
        Measure::RecorderCpu => recorder_cores(case).map(|cores| over_all(Unit::Ratio, cores)),
        Measure::Fingerprints => count(summary.fingerprints),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::report::language::Language;
    use crate::report::words::Words;

    fn names(summary: &EnvironmentSummary, case: usize) -> Vec<&'static str> {
        of_case(summary, &summary.cases[case]).iter().map(|finding| finding.rule.name).collect()
    }

    #[test]
    fn every_rule_has_words_in_both_languages() {
        for language in Language::ALL {
            let words = Words::of(language).unwrap();
            for rule in RULES {
                words.get(&format!("finding.{}", rule.name)).unwrap();
                words.get(&format!("finding.{}.short", rule.name)).unwrap();
            }
        }
    }

    #[test]
    fn bands_of_one_measure_do_not_overlap() {
        for value in [0.0, 0.29, 0.30, 0.5, 0.70, 0.89, 0.90, 1.2] {
            for measure in [Measure::Of(Metric::CpuUsage), Measure::Of(Metric::GpuUtilisation)] {
                let held = RULES.iter().filter(|rule| rule.measure == measure && rule.holds(value)).count();
                assert_eq!(held, 1, "{measure:?} at {value}");
            }
        }
    }

    /// Findings on memory of a case with these figures, as shares of what it may use.
    fn of_memory(figures: &[(Metric, f64)]) -> Vec<&'static str> {
        let mut summary = fixture::cpu_only();
        let limit = summary.cases[1].limits.memory_bytes.unwrap() as f64;
        let flat = |(metric, share): &(Metric, f64)| {
            let value = share * limit;
            MetricSummary { metric: *metric, n: 3, mean: value, min: value, max: value, ci95: None }
        };
        summary.cases[1].metrics = figures.iter().map(flat).collect();
        names(&summary, 1).into_iter().filter(|name| name.starts_with("memory_")).collect()
    }

    #[test]
    fn memory_is_judged_by_what_bounds_it_and_where_the_bounds_leave_it_open_that_is_told() {
        use Metric::{MemoryGroupPeak as Group, MemoryPssPeak as Pss, MemorySumOfPeaks as Sum};
        // Processes that lived one after the other, or share what they hold, have a sum of peaks beyond all bounds.
        assert_eq!(of_memory(&[(Sum, 3.0), (Pss, 0.1)]), ["memory_unclear"]);
        assert_eq!(of_memory(&[(Sum, 3.0), (Pss, 0.1), (Group, 0.2)]), ["memory_ample"]);
        assert_eq!(
            of_memory(&[(Sum, 0.4), (Pss, 0.1), (Group, 0.9)]),
            ["memory_ample"],
            "the page cache fills a group"
        );
        assert_eq!(of_memory(&[(Sum, 3.0), (Pss, 0.1), (Group, 0.05)]), ["memory_unclear"], "charged to others");
        assert_eq!(of_memory(&[(Sum, 3.0), (Pss, 0.6)]), ["memory_moderate"]);
        assert_eq!(of_memory(&[(Sum, 3.0), (Pss, 0.95)]), ["memory_tight"]);
        assert_eq!(of_memory(&[(Sum, 0.4), (Pss, 0.6)]), ["memory_moderate"], "of other runs, and never two verdicts");
        assert!(of_memory(&[(Pss, 0.3)]).is_empty());
        let told = of_memory(&[(Sum, 0.7), (Group, 0.1)]);
        assert_eq!(told, ["memory_unclear"], "without PSS nobody knows what is charged to others");
    }

    #[test]
    fn where_the_limit_is_not_known_or_not_the_same_there_is_no_verdict_on_memory() {
        let mut summary = fixture::cpu_only();
        summary.cases[1].limits.memory_bytes = None;
        assert!(!names(&summary, 1).iter().any(|name| name.starts_with("memory_")));
    }

    #[test]
    fn a_busy_case_with_broken_runs_says_so() {
        let found = names(&fixture::cpu_only(), 1);
        for name in ["cpu_saturated", "cores_busy", "swap_unused", "failed_runs", "cut_runs"] {
            assert!(found.contains(&name), "{name} is not in {found:?}");
        }
        assert!(!found.contains(&"few_runs"), "{found:?}");
    }

    #[test]
    fn what_was_not_measured_earns_no_finding() {
        let mut summary = fixture::cpu_only();
        summary.cases[1].metrics.clear();
        let found = names(&summary, 1);
        assert_eq!(found, ["failed_runs", "cut_runs"]);
    }
}
