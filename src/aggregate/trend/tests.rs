use super::*;
use crate::aggregate::testing::{SECOND, record};

/// Windows of so many seconds.
fn windows(seconds: i64, value: impl Fn(f64) -> f64) -> Vec<(i64, f64)> {
    (0..seconds).map(|k| (k, value(k as f64 + 0.5))).collect()
}

fn series(windows: &[(i64, f64)]) -> Series {
    let mut series = Series::new();
    windows.iter().for_each(|(window, value)| series.push(*window, *value));
    series
}

/// The trend over all of them.
fn trend_of(windows: &[(i64, f64)]) -> Trend {
    trend(&within(&series(windows), (0.0, 1e9))).unwrap()
}

fn assert_close(value: f64, right: f64) {
    assert!((value - right).abs() <= 1e-9 * right.abs().max(1.0), "{value} {right}");
}

#[test]
fn the_slope_is_scipys_whatever_strays_and_whatever_is_missing() {
    // scipy.stats.theilslopes(y, t)[0], SciPy 1.17.1, t = 0.5 … 39.5; the second half are the last twenty.
    let mut all = windows(40, |t| 1000.0 + 3.0 * t + 10.0 * (1.7 * t).sin());
    (all[7].1, all[30].1) = (5000.0, 0.0);
    let found = trend_of(&all);
    assert_close(found.slope, 2.906824440691463);
    assert_close(found.late.unwrap(), 3.0030338725108328);
    assert_close(found.growth, 39.0 * 2.906824440691463);
    all.retain(|(k, _)| ![5, 6, 7, 20].contains(k));
    assert_close(trend_of(&all).slope, 2.913947005513858);
}

#[test]
fn what_fills_up_grows_but_not_in_the_second_half() {
    // theilslopes of means of 5 windows, and of means of 3 of the second half.
    let found = trend_of(&windows(600, |t| 1000.0 * (1.0 - (-t / 60.0).exp())));
    assert_close(found.slope, 0.26114361304315536);
    assert_close(found.late.unwrap(), 0.0120442396508172);
}

#[test]
fn a_saw_of_many_teeth_makes_a_small_part_of_its_own_slope() {
    // theilslopes of means of 5 windows: 2.38 of 50 a second.
    assert_close(trend_of(&windows(600, |t| 50.0 * (t % 100.0))).slope, 2.380952380952381);
}

#[test]
fn too_few_windows_have_no_trend() {
    assert_eq!(trend(&within(&series(&windows(19, |t| t)), (0.0, 1e9))), None);
    assert!(trend(&within(&series(&windows(20, |t| t)), (0.0, 1e9))).is_some());
    assert_eq!(trend(&[]), None);
}

/// Trends of a run of 100 s whose memory jumps by 1000 in its first 20 s.
fn trends_of(record: RunRecord, quantities: &[(Quantity, f64)], steady_ns: Option<(i64, i64)>) -> Figures {
    let mut figures = Figures { steady_ns, ..Figures::default() };
    for (quantity, slope) in quantities {
        let of_quantity = windows(100, |t| if t < 20.0 { 50.0 * t } else { 1000.0 + slope * t });
        figures.windows.insert(*quantity, series(&of_quantity));
    }
    trends(&RunRecord { duration_ns: Some(100 * SECOND), ..record }, &mut figures);
    figures
}

#[test]
fn warm_up_is_left_out_and_pss_goes_before_resident_memory() {
    let found = trends_of(record(), &[(Quantity::MemoryRss, 9.0), (Quantity::MemoryPss, 2.0)], None).values;
    assert_close(found[&Metric::MemoryTrend], 2.0);
    assert_close(found[&Metric::MemoryTrendLate], 2.0);
    assert_close(found[&Metric::MemoryGrowth], 2.0 * 79.0);
    assert_eq!(trends_of(record(), &[(Quantity::MemoryRss, 9.0)], None).values[&Metric::MemoryTrend], 9.0);
    // From the third step's end on.
    let told = Some((SECOND * 39 / 2, 60 * SECOND));
    let found = trends_of(record(), &[(Quantity::MemoryRss, 1.0)], told).values;
    assert_close(found[&Metric::MemoryGrowth], 39.0);
    let short = Some((45 * SECOND, 60 * SECOND));
    assert!(trends_of(record(), &[(Quantity::MemoryRss, 1.0)], short).values.is_empty());
}

#[test]
fn of_several_gpus_that_the_run_used_the_one_that_grew_most_counts() {
    let used = RunRecord { gpus_used: Some(vec![0, 1]), ..record() };
    let device = [0, 1, 2].map(|gpu| (Quantity::GpuMemory(gpu), f64::from(gpu)));
    let found = trends_of(used.clone(), &device, None).values;
    assert_close(found[&Metric::GpuMemoryTrend], 1.0);
    let with_own = [device[1], (Quantity::GpuMemoryOwn(0), -1.0)];
    let found = trends_of(used, &with_own, None).values;
    assert_close(found[&Metric::GpuMemoryTrend], -1.0);
    assert!(!found.contains_key(&Metric::MemoryTrend), "{found:?}");
}

#[test]
fn a_run_that_was_cut_has_no_trend() {
    let mut figures = Figures::default();
    figures.windows.insert(Quantity::MemoryRss, series(&windows(100, |t| t)));
    trends(&RunRecord { duration_ns: None, ..record() }, &mut figures);
    assert!(figures.values.is_empty());
}

#[test]
fn a_run_of_a_day_has_the_trend_of_its_joined_windows() {
    let found = trend_of(&windows(86_400, |t| 7.0 + 0.25 * t));
    assert_close(found.slope, 0.25);
    // By hand: 2700 bins of 32 s.
    assert_close(found.growth, 0.25 * 2699.0 * 32.0);
}
