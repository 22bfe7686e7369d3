//! What charts a report has, and what they tell without being seen.

use crate::aggregate::metric::Metric;
use crate::aggregate::summary::EnvironmentSummary;
use crate::report::chart::Chart;
use crate::report::language::Language;
use crate::report::{Report, fixture, write_environment};

fn report(summary: &EnvironmentSummary) -> Report {
    write_environment(summary, Language::English).unwrap()
}

fn chart<'a>(report: &'a Report, id: &str) -> &'a Chart {
    let found = report.charts.iter().find(|chart| chart.id.contains(id));
    found.unwrap_or_else(|| panic!("no {id} among {:?}", report.charts.iter().map(|chart| &chart.id)))
}

#[test]
fn the_same_work_on_both_devices_is_compared_by_how_many_times_as_fast_it_is() {
    let report = report(&fixture::swept());
    let chart = chart(&report, "gpu-against-cpu");
    // By hand: 1640/s over 60/s.
    assert!(chart.description.contains("Throughput (samples) 1,640/s (27.3×)"), "{}", chart.description);
    assert!(
        chart.csv.contains("\nresnet50-cifar10 batch_size=64 device=cpu num_workers=10,3,60,57,63,"),
        "{}",
        chart.csv
    );
    assert!(report.markdown.contains("](charts/gpu-against-cpu.csv)"));
}

#[test]
fn each_setting_in_which_like_cases_differ_has_a_chart_for_each_device() {
    let report = report(&fixture::swept());
    let swept: Vec<&str> =
        report.charts.iter().map(|chart| chart.id.as_str()).filter(|id| id.starts_with("sweep-")).collect();
    assert_eq!(swept.len(), 4, "{swept:?}");
    let chart = chart(&report, "cuda-0-num_workers");
    let lines: Vec<&str> = chart.csv.lines().skip(1).map(|line| line.split(',').nth(2).unwrap()).collect();
    assert_eq!(lines, ["0", "2", "10", "0", "2", "10"]);
    assert!(chart.inline().contains("best mean 2,132/s"));
}

#[test]
fn without_a_second_device_or_a_differing_setting_there_is_neither_chart() {
    let report = report(&fixture::cpu_only());
    assert!(report.charts.iter().all(|chart| !chart.id.starts_with("sweep-") && chart.id != "gpu-against-cpu"));
    let chart = chart(&report, "levels");
    assert!(chart.description.contains("idle (CPU, quick mode): CPU use (of limit) 0.1%"), "{}", chart.description);
}

#[test]
fn comparisons_of_unusable_and_missing_values_end() {
    let mut summary = fixture::swept();
    for (index, case) in summary.cases.iter_mut().enumerate() {
        for figure in &mut case.metrics {
            (figure.mean, figure.min, figure.max) = match index % 5 {
                0 => (f64::NAN, f64::NEG_INFINITY, f64::INFINITY),
                1 => (0.0, 0.0, 0.0),
                2 => (1e300, -1e300, 1e300),
                3 => (1.0, 2.0, 0.5),
                _ => (-1.0, -2.0, 0.0),
            };
        }
        if index % 3 == 0 {
            case.metrics.retain(|figure| figure.metric != Metric::Throughput);
        }
    }
    for chart in report(&summary).charts {
        chart.png().unwrap();
    }
}

#[test]
fn more_cases_than_fit_are_cut_and_that_is_said() {
    let mut summary = fixture::swept();
    summary.cases = (0..100).map(|_| summary.cases[0].clone()).collect();
    let report = report(&summary);
    let levels = chart(&report, "levels");
    assert!(levels.inline().contains("the first 40 of 100 cases") && levels.inline().len() < 200_000);
}
