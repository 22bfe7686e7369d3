//! Whether memory grew.

use super::*;

/// Findings on the growth of memory with a peak of 1 GiB, whose margin is 51.2 MiB: by the mean, its interval, the run that
/// grew least, and the part of the trend that the second half has.
fn of_growth(
    [growth, trend, late, peak]: [Metric; 4],
    mean: f64,
    ci95: Option<(f64, f64)>,
    least: f64,
    part: f64,
) -> Vec<&'static str> {
    let mut found = with(|summary| {
        let plain = |metric, value| figure(metric, value, value, value);
        let growth = MetricSummary {
            metric: growth,
            n: 3,
            mean: mean * MIB,
            min: least * MIB,
            max: 2.0 * mean * MIB,
            ci95: ci95.map(|(low, high)| (low * MIB, high * MIB)),
        };
        summary.cases[0].metrics =
            vec![growth, plain(trend, mean), plain(late, mean * part), plain(peak, 1024.0 * MIB)];
    });
    found.retain(|name| ["_steady", "_levelling", "_leak", "_open"].iter().any(|end| name.ends_with(end)));
    found
}

#[test]
fn memory_that_grows_is_told_from_memory_that_fills_and_from_memory_that_stays() {
    use Metric::{
        GpuMemoryGrowth, GpuMemoryOwnPeak, GpuMemoryTrend, GpuMemoryTrendLate, MemoryGrowth, MemoryPssPeak,
        MemoryTrend, MemoryTrendLate,
    };
    for (metrics, prefix) in [
        ([MemoryGrowth, MemoryTrend, MemoryTrendLate, MemoryPssPeak], ""),
        ([GpuMemoryGrowth, GpuMemoryTrend, GpuMemoryTrendLate, GpuMemoryOwnPeak], "gpu_"),
    ] {
        let of = |mean, ci95, least, part| of_growth(metrics, mean, ci95, least, part);
        let named = |name: &str| vec![format!("{prefix}memory_{name}")];
        assert_eq!(of(10.0, Some((-20.0, 40.0)), -9.0, 1.0), named("steady"));
        assert_eq!(of(-10.0, Some((-50.0, 30.0)), -30.0, 1.0), named("steady"));
        assert_eq!(of(10.0, Some((-20.0, 60.0)), -9.0, 1.0), named("trend_open"), "it may be more than the margin");
        assert_eq!(of(40.0, Some((20.0, 60.0)), 30.0, 1.0), named("trend_open"), "by little, or by more");
        assert!(of(10.0, None, -9.0, 1.0).is_empty(), "two runs");
        assert_eq!(of(80.0, Some((60.0, 100.0)), 70.0, 0.9), named("leak"));
        assert_eq!(of(80.0, Some((60.0, 100.0)), 70.0, 0.2), named("levelling"));
        assert_eq!(of(80.0, Some((-5.0, 165.0)), 70.0, 0.9), named("trend_open"), "the runs do not agree");
        assert!(of(80.0, Some((60.0, 100.0)), -1.0, 0.9).is_empty(), "one of them shrank");
        assert!(of(80.0, None, 70.0, 0.9).is_empty());
        assert!(of(-80.0, Some((-100.0, -60.0)), -90.0, 1.0).is_empty(), "it shrank");
        let no_peak = [metrics[0], metrics[1], metrics[2], Metric::Duration];
        assert!(of_growth(no_peak, 80.0, Some((60.0, 100.0)), 70.0, 0.9).is_empty());
    }
    let small = with(|summary| {
        summary.cases[0].metrics = vec![
            figure(MemoryGrowth, 9.0 * MIB, 8.0 * MIB, 10.0 * MIB),
            figure(MemoryPssPeak, 50.0 * MIB, 50.0 * MIB, 50.0 * MIB),
        ];
    });
    assert!(small.contains(&"memory_steady"), "a sixth of the peak, but less than allocators take at once: {small:?}");
}

#[test]
fn where_a_trend_was_not_measured_often_enough_that_is_said() {
    let of = |growth: Option<(usize, Option<(f64, f64)>)>, peak: bool| {
        let mut summary = fixture::cpu_only();
        let of_growth =
            |(n, ci95)| MetricSummary { metric: Metric::MemoryGrowth, n, mean: 0.0, min: 0.0, max: 0.0, ci95 };
        let peak = peak.then(|| figure(Metric::MemorySumOfPeaks, MIB, MIB, MIB));
        summary.cases[0].metrics = growth.map(of_growth).into_iter().chain(peak).collect();
        names(&summary, 0).contains(&"memory_trend_unknown")
    };
    assert!(of(None, true) && of(Some((2, None)), true));
    assert!(!of(Some((3, Some((0.0, 0.0)))), true), "it is known");
    assert!(!of(None, false), "memory was not measured at all");
}
