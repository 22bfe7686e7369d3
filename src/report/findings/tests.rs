//! What cases earn which findings.

use super::measure::Measure;
use super::*;
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::MetricSummary;
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
