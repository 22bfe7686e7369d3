//! From values to statistics. The run is the unit of replication: one value a run goes in.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::summary::{CoreUsage, Metric, MetricSummary, RunSummary};

/// Statistics of a metric over runs; none where no run has a value.
pub(super) fn summarise(metric: Metric, values: &[f64]) -> Option<MetricSummary> {
    let min = values.iter().copied().reduce(f64::min)?;
    let max = values.iter().copied().reduce(f64::max)?;
    let n = values.len();
    // Rounding must not put the mean of equal values outside of them.
    let mean = (values.iter().sum::<f64>() / n as f64).clamp(min, max);
    Some(MetricSummary { metric, n, mean, min, max, ci95: ci95(values, mean) })
}

/// Two-sided 95 % interval of the mean: mean ± t(0.975; n − 1) · s / √n, s the standard deviation with n − 1.
/// None below three values, where it would be wider than anything it could tell.
fn ci95(values: &[f64], mean: f64) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 3 {
        return None;
    }
    let freedom = (n - 1) as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / freedom / n as f64).sqrt();
    let half = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.975) * error;
    Some((mean - half, mean + half))
}

/// A quantile with linear interpolation between order statistics: position q · (n − 1), as numpy does by default.
/// The values are sorted in passing.
pub(super) fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let position = q * values.len().checked_sub(1)? as f64;
    let below = values[position.floor() as usize];
    let above = values[position.ceil() as usize];
    Some(below + (above - below) * position.fract())
}

pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Statistics over the finished runs, of every metric that one of them has.
pub(super) fn over_runs(runs: &[RunSummary]) -> Vec<MetricSummary> {
    let values = |metric: &Metric| -> Vec<f64> {
        let finished = runs.iter().filter(|run| run.outcome.is_finished());
        finished.filter_map(|run| run.values.get(metric).copied()).collect()
    };
    Metric::ALL.iter().filter_map(|metric| summarise(*metric, &values(metric))).collect()
}

/// Mean, least and greatest share of a core over runs; none where no run has one.
pub(super) fn core_usage(core: u32, shares: &[f64]) -> Option<CoreUsage> {
    let min = shares.iter().copied().reduce(f64::min)?;
    let max = shares.iter().copied().reduce(f64::max)?;
    Some(CoreUsage { core, mean: shares.iter().sum::<f64>() / shares.len() as f64, min, max })
}
