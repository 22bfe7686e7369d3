//! What cases earn which findings.

use super::*;
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{MetricSummary, Quantity, RunSummary};
use crate::report::fixture;
use crate::report::language::Language;
use crate::report::words::Words;

mod growth;

fn names(summary: &EnvironmentSummary, case: usize) -> Vec<&'static str> {
    of_case(summary, &summary.cases[case]).iter().map(|finding| finding.rule.name).collect()
}

#[test]
fn every_rule_has_words_in_both_languages() {
    for language in Language::ALL {
        let words = Words::of(language).unwrap();
        for rule in RULES.iter().chain(OF_ENVIRONMENT) {
            words.get(&format!("finding.{}", rule.name)).unwrap();
            words.get(&format!("finding.{}.short", rule.name)).unwrap();
        }
    }
}

#[test]
fn bands_of_one_measure_do_not_overlap() {
    for value in [0.0, 0.29, 0.30, 0.5, 0.70, 0.89, 0.90, 1.2] {
        for measure in [Measure::Of(Metric::CpuUsage), Measure::Of(Metric::GpuUtilisation)] {
            let held = RULES.iter().filter(|rule| rule.measure == measure && rule.condition().holds(value)).count();
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
    names(&summary, 1).into_iter().filter(|name| name.starts_with("memory_") && !name.contains("_trend_")).collect()
}

#[test]
fn memory_is_judged_by_what_bounds_it_and_where_the_bounds_leave_it_open_that_is_told() {
    use Metric::{MemoryGroupPeak as Group, MemoryPssPeak as Pss, MemorySumOfPeaks as Sum};
    // Processes that lived one after the other, or share what they hold, have a sum of peaks beyond all bounds.
    assert_eq!(of_memory(&[(Sum, 3.0), (Pss, 0.1)]), ["memory_unclear"]);
    assert_eq!(of_memory(&[(Sum, 3.0), (Pss, 0.1), (Group, 0.2)]), ["memory_ample"]);
    assert_eq!(of_memory(&[(Sum, 0.4), (Pss, 0.1), (Group, 0.9)]), ["memory_ample"], "the page cache fills a group");
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
    let against_it = ["memory_tight", "memory_moderate", "memory_ample", "memory_unclear"];
    assert!(!names(&summary, 1).iter().any(|name| against_it.contains(name)));
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

/// Names of the findings on a case that has these figures alone, in three runs that all gave the same.
fn of_figures(figures: &[(Metric, f64)]) -> Vec<&'static str> {
    with(|summary| {
        let same = |(metric, value): &(Metric, f64)| figure(*metric, *value, *value, *value);
        summary.cases[0].metrics = figures.iter().map(same).collect();
    })
}

/// Names of the findings on the one case of the GPU's fixture, changed, without those that say that runs are few.
fn with(change: impl FnOnce(&mut EnvironmentSummary)) -> Vec<&'static str> {
    let mut summary = fixture::with_gpu();
    summary.cases[0].metrics.clear();
    change(&mut summary);
    let mut found = names(&summary, 0);
    found.retain(|name| *name != "few_runs" && !name.ends_with("_trend_unknown"));
    found
}

fn figure(metric: Metric, mean: f64, low: f64, high: f64) -> MetricSummary {
    MetricSummary { metric, n: 3, mean, min: low, max: high, ci95: Some((low, high)) }
}

const MIB: f64 = 1024.0 * 1024.0;

#[test]
fn each_rule_on_one_figure_holds_on_its_side_of_the_threshold_only() {
    for (metric, below, at, name) in [
        (Metric::CpuThrottled, 0.24, 0.25, "cpu_throttled"),
        (Metric::IoPressure, 0.04, 0.05, "io_pressure_high"),
        (Metric::MemoryPressure, 0.14, 0.15, "memory_pressure_high"),
        (Metric::StepVariation, 0.19, 0.20, "steps_uneven"),
        (Metric::WarmUpSteps, 0.0, 1.0, "warm_up"),
        (Metric::GpuClocksSet, 0.09, 0.10, "gpu_clocks_set"),
    ] {
        assert!(of_figures(&[(metric, below)]).is_empty(), "{name} below");
        assert_eq!(of_figures(&[(metric, at)]), [name]);
    }
    assert_eq!(of_figures(&[(Metric::StepVariation, 0.04)]), ["steps_even"]);
    assert_eq!(of_figures(&[(Metric::GpuEnergyPerSample, 0.3)]), ["gpu_energy_per_sample"]);
    assert_eq!(of_figures(&[(Metric::CpuEnergyPerSample, 0.3)]), ["cpu_energy_per_sample"]);
    assert!(of_figures(&[(Metric::CpuPressure, 0.9), (Metric::Threads, 3.0)]).is_empty());
}

#[test]
fn why_a_gpu_waits_is_told_only_where_steps_and_the_cpu_say_so() {
    use Metric::{CpuTime, DataWait, Duration, GpuUtilisation as Gpu};
    let busy_core = [(Duration, 100.0), (CpuTime, 90.0)];
    let of = |figures: &[(Metric, f64)]| {
        let mut found = of_figures(figures);
        found.retain(|name| name.ends_with("_bound"));
        found
    };
    assert_eq!(of(&[(Gpu, 0.4), (DataWait, 0.3)]), ["gpu_data_bound"]);
    assert!(of(&[(Gpu, 0.8), (DataWait, 0.3)]).is_empty(), "the GPU is busy all the same");
    assert!(of(&[(Gpu, 0.4), (DataWait, 0.1)]).is_empty());
    assert!(of(&[(Gpu, 0.4)]).is_empty(), "nobody told of waiting");
    assert_eq!(of(&[&[(Gpu, 0.4), (DataWait, 0.01)], busy_core.as_slice()].concat()), ["gpu_launch_bound"]);
    assert!(of(&[(Gpu, 0.4), (DataWait, 0.01), (Duration, 100.0), (CpuTime, 20.0)]).is_empty(), "the CPU sleeps too");
    assert!(of(&[(Gpu, 0.4), (DataWait, 0.01)]).is_empty());
    assert!(of(&[&[(Gpu, 0.4)], busy_core.as_slice()].concat()).is_empty());
    assert!(of(&[&[(Gpu, 0.75), (DataWait, 0.01)], busy_core.as_slice()].concat()).is_empty());
}

#[test]
fn many_threads_matter_only_where_tasks_wait_for_a_cpu() {
    use Metric::{CpuPressure, Threads};
    assert_eq!(of_figures(&[(Threads, 16.0), (CpuPressure, 0.1)]), ["threads_many"], "the limit is four cores");
    assert!(of_figures(&[(Threads, 15.0), (CpuPressure, 0.1)]).is_empty());
    assert!(of_figures(&[(Threads, 16.0), (CpuPressure, 0.09)]).is_empty());
    assert!(of_figures(&[(Threads, 16.0)]).is_empty());
    let unlimited = with(|summary| {
        summary.cases[0].limits.cpu_cores = None;
        summary.cases[0].metrics = vec![figure(Threads, 90.0, 90.0, 90.0), figure(CpuPressure, 0.5, 0.5, 0.5)];
    });
    assert!(unlimited.is_empty());
}

#[test]
fn a_long_tail_of_steps_is_their_percentile_over_their_median() {
    use Metric::{StepTime, StepTimeP95};
    assert_eq!(of_figures(&[(StepTime, 0.5), (StepTimeP95, 1.0)]), ["steps_slow_tail"]);
    assert!(of_figures(&[(StepTime, 0.5), (StepTimeP95, 0.99)]).is_empty());
    assert!(of_figures(&[(StepTimeP95, 0.99)]).is_empty());
}

#[test]
fn gpu_memory_is_judged_by_what_every_gpu_that_was_used_has() {
    // 25,757,220,864 bytes.
    let of = |bytes: f64, change: fn(&mut EnvironmentSummary)| {
        with(|summary| {
            summary.cases[0].metrics = vec![figure(Metric::GpuMemoryPeak, bytes, bytes, bytes)];
            change(summary);
        })
    };
    for (bytes, right) in [(23.2e9, "gpu_memory_tight"), (13.0e9, "gpu_memory_moderate"), (12.8e9, "gpu_memory_ample")]
    {
        assert_eq!(of(bytes, |_| ()), [right], "{bytes}");
    }
    let second = |summary: &mut EnvironmentSummary| {
        let gpus = summary.fingerprint.get_mut("gpus").unwrap().as_array_mut().unwrap();
        gpus.push(serde_json::json!({"memory_total_bytes": 8_000_000_000_i64}));
    };
    assert_eq!(of(23.2e9, second), ["gpu_memory_tight"], "the run used the first");
    let nobody_tells = |summary: &mut EnvironmentSummary| {
        let gpus = summary.fingerprint.get_mut("gpus").unwrap().as_array_mut().unwrap();
        gpus.push(serde_json::json!({"memory_total_bytes": 8_000_000_000_i64}));
        summary.cases[0].gpus_used = None;
    };
    assert!(of(23.2e9, nobody_tells).is_empty());
    assert!(of(23.2e9, |summary| drop(summary.fingerprint.remove("gpus"))).is_empty());
    assert!(of(23.2e9, |summary| summary.fingerprints = 2).is_empty(), "other runs had another machine");
    let divided = |summary: &mut EnvironmentSummary| {
        summary.cases[0].courses.push(fixture::course(Quantity::GpuInstanceMemory(0, 1), 3, 1, |_| 1.0, 0.0));
    };
    assert!(of(23.2e9, divided).is_empty());
}

#[test]
fn runs_that_may_not_be_compared_are_flagged() {
    let of = |change: fn(&mut CaseSummary)| {
        let mut summary = fixture::cpu_only();
        summary.cases[0].metrics.clear();
        change(&mut summary.cases[0]);
        names(&summary, 0)
    };
    assert!(of(|_| ()).is_empty());
    assert_eq!(of(|case| case.runs[1].started_unix_ns = case.runs[0].started_unix_ns), ["overlapping_runs"]);
    assert_eq!(of(|case| case.runs[1].recorder.late_max_ns = Some(1_000_000_000)), ["late_tick"]);
    assert!(of(|case| case.runs[1].recorder.late_max_ns = Some(999_999_999)).is_empty());
    let far = |case: &mut CaseSummary| {
        let odd = RunSummary {
            run: 4,
            started_unix_ns: case.runs[2].started_unix_ns + 90_000_000_000,
            ..case.runs[2].clone()
        };
        case.runs.push(odd);
        case.runs[3].values.insert(Metric::Duration, 80.0);
    };
    assert_eq!(of(far), ["outlying_runs"]);
}

#[test]
fn what_concerns_all_runs_is_said_once_and_of_no_case() {
    let mut summary = fixture::with_gpu();
    summary.fingerprints = 2;
    let found: Vec<&str> = of_environment(&summary).iter().map(|finding| finding.rule.name).collect();
    assert_eq!(found, ["mixed_fingerprints", "unreadable_runs"]);
    assert!(!names(&summary, 0).contains(&"mixed_fingerprints"));
    assert!(of_environment(&fixture::cpu_only()).is_empty());
}
