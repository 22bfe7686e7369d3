//! From values to statistics. The run is the unit of replication: one value a run goes in.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::metric::Metric;
use super::summary::{CoreUsage, MetricSummary, RunSummary};

/// Statistics of a metric over runs; none where no run has a value.
pub(super) fn summarise(metric: Metric, values: &[f64]) -> Option<MetricSummary> {
    let min = values.iter().copied().reduce(f64::min)?;
    let max = values.iter().copied().reduce(f64::max)?;
    let n = values.len();
    // Rounding must not put the mean of equal values outside of them.
    let mean = (values.iter().sum::<f64>() / n as f64).clamp(min, max);
    // What cannot be negative has no interval below zero. A t interval knows nothing of that bound; cutting it there
    // takes no possible value out of it.
    let least = if metric.is_signed() { f64::NEG_INFINITY } else { 0.0 };
    let ci95 = ci95(values, mean).map(|(low, high)| (low.max(least), high));
    Some(MetricSummary { metric, n, mean, min, max, ci95 })
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
pub(crate) fn over_runs(runs: &[RunSummary]) -> Vec<MetricSummary> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, right: f64) -> bool {
        (value - right).abs() <= 1e-9 * right.abs().max(1.0)
    }

    #[test]
    fn an_interval_of_what_cannot_be_negative_ends_at_zero() {
        let reads = summarise(Metric::DiskRead, &[0.0, 0.0, 30.0]).unwrap();
        // scipy.stats.t.interval(0.95, 2, 10, scipy.stats.sem([0, 0, 30])) = (-33.03, 53.03)
        let (low, high) = reads.ci95.unwrap();
        assert_eq!(low, 0.0);
        assert!((high - 53.0265).abs() < 1e-3, "{high}");
    }

    #[test]
    fn the_interval_is_scipys() {
        // scipy.stats.t.interval(0.95, n - 1, numpy.mean(v), scipy.stats.sem(v)), SciPy 1.x
        for (values, low, high) in [
            (&[10.2, 9.7, 10.9, 10.4, 9.9][..], 9.641592446347323, 10.798407553652675),
            (&[3.0, 4.0, 8.0][..], -1.5724106077284281, 11.572410607728429),
        ] {
            let ci95 = summarise(Metric::GpuTemperatureMax, values).unwrap().ci95.unwrap();
            assert!(close(ci95.0, low) && close(ci95.1, high), "{ci95:?}");
        }
    }

    #[test]
    fn the_quantile_of_student_is_right_for_few_and_many_runs() {
        // scipy.stats.t.ppf(0.975, n - 1)
        for (n, right) in [
            (3, 4.302652729749462),
            (4, 3.1824463052837078),
            (10, 2.262157162798205),
            (30, 2.045229642132703),
            (100, 1.9842169515864174),
        ] {
            let t = StudentsT::new(0.0, 1.0, f64::from(n - 1)).unwrap().inverse_cdf(0.975);
            assert!(close(t, right), "{n}: {t}");
        }
    }

    #[test]
    fn one_or_two_runs_have_no_interval() {
        let one = summarise(Metric::Duration, &[4.0]).unwrap();
        assert_eq!((one.n, one.mean, one.min, one.max, one.ci95), (1, 4.0, 4.0, 4.0, None));
        assert_eq!(summarise(Metric::Duration, &[4.0, 5.0]).unwrap().ci95, None);
        assert_eq!(summarise(Metric::Duration, &[]), None);
    }

    #[test]
    fn equal_values_have_an_interval_without_width() {
        let same = summarise(Metric::Duration, &[0.1, 0.1, 0.1]).unwrap();
        assert_eq!((same.mean, same.ci95), (0.1, Some((0.1, 0.1))));
    }

    #[test]
    fn quantiles_are_numpys() {
        // numpy.percentile(values, 100 * q), default method
        let mut values = [0.31, 0.12, 0.98, 0.55, 0.47, 0.83, 0.76];
        for (q, right) in [(0.5, 0.55), (0.95, 0.935), (1.0, 0.98), (0.0, 0.12)] {
            assert!(close(quantile(&mut values, q).unwrap(), right), "{q}");
        }
        assert_eq!(quantile(&mut [0.4], 0.95), Some(0.4));
        assert_eq!(quantile(&mut [], 0.95), None);
        assert_eq!(median(&mut [10.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
