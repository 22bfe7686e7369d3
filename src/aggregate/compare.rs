//! How many times as great a metric is on one side as on another, from one value a run.
//!
//! Worked out on logarithms: the ratio is that of the geometric means, and swapping the sides gives its inverse, interval
//! and all. Where runs of both sides were interleaved, those of one block are compared with each other; else Welch's
//! t, which does not take the sides to vary alike. Intervals are not adjusted for how many comparisons are made.

use std::collections::BTreeMap;

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::metric::Metric;
use super::summary::RunSummary;

/// Fewer runs a side have no interval: it would be wider than anything it could tell.
pub const FEWEST_RUNS: usize = 3;

/// A ratio of two sides, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Geometric mean of the first side over that of the second.
    pub ratio: f64,
    /// Runs of the first and of the second side.
    pub n: (usize, usize),
    /// Runs of one block were compared with each other.
    pub is_paired: bool,
    /// Absent with fewer than [`FEWEST_RUNS`] runs a side.
    pub uncertainty: Option<Uncertainty>,
}

/// Of the logarithm of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uncertainty {
    /// Standard error.
    pub error: f64,
    /// Degrees of freedom of Student's t.
    pub freedom: f64,
}

impl Ratio {
    /// Two-sided interval of the ratio that holds at `level`.
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        let Uncertainty { error, freedom } = self.uncertainty?;
        let quantile = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(f64::midpoint(1.0, level));
        let half = (quantile * error).exp();
        Some((self.ratio / half, self.ratio * half))
    }

    /// Two-sided 95 % interval of the ratio.
    pub fn ci95(&self) -> Option<(f64, f64)> {
        self.interval(0.95)
    }

    /// The second side over the first.
    pub fn inverse(self) -> Self {
        Self { ratio: 1.0 / self.ratio, n: (self.n.1, self.n.0), ..self }
    }
}

/// Compares a metric over the finished runs of two cases. Runs are paired by their blocks where each has its partner.
///
/// None where a side has no value, or one that is not above zero.
pub fn of_runs(metric: Metric, first: &[RunSummary], second: &[RunSummary]) -> Option<Ratio> {
    let (first, second) = (of_blocks(metric, first), of_blocks(metric, second));
    let partner = |block: &Block| Some((sole(&first, block)?, sole(&second, block)?));
    let pairs: Option<Vec<(f64, f64)>> = first.keys().chain(second.keys()).map(partner).collect();
    match pairs {
        // Each block was met twice, once from either side.
        Some(pairs) if pairs.len() >= 2 * FEWEST_RUNS => of_pairs(&pairs[..pairs.len() / 2]),
        _ => {
            let all = |side: &Blocks| side.values().flatten().copied().collect::<Vec<_>>();
            of_values(&all(&first), &all(&second))
        }
    }
}

/// Session and block of a run: those of one block were recorded right after each other.
type Block = (i64, u32);
type Blocks = BTreeMap<Block, Vec<f64>>;

fn of_blocks(metric: Metric, runs: &[RunSummary]) -> Blocks {
    let mut blocks = Blocks::new();
    for run in runs.iter().filter(|run| run.outcome.is_finished()) {
        if let Some(value) = run.values.get(&metric) {
            blocks.entry((run.session_unix_ns, run.block)).or_default().push(*value);
        }
    }
    blocks
}

/// The value of a block that has one.
fn sole(side: &Blocks, block: &Block) -> Option<f64> {
    match side.get(block)?.as_slice() {
        [value] => Some(*value),
        _ => None,
    }
}

/// Compares two sides whose runs have nothing to do with each other.
pub fn of_values(first: &[f64], second: &[f64]) -> Option<Ratio> {
    let (a, b) = (Logarithms::of(first)?, Logarithms::of(second)?);
    let uncertainty = a.variance_of_mean.zip(b.variance_of_mean).map(|(of_a, of_b)| {
        let sum = of_a + of_b;
        let (less_a, less_b) = ((a.n - 1) as f64, (b.n - 1) as f64);
        // Welch and Satterthwaite's; where nothing varies there is nothing to weigh.
        let weighed = of_a * of_a / less_a + of_b * of_b / less_b;
        let freedom = if weighed > 0.0 { sum * sum / weighed } else { less_a + less_b };
        Uncertainty { error: sum.sqrt(), freedom }
    });
    Some(Ratio { ratio: (a.mean - b.mean).exp(), n: (a.n, b.n), is_paired: false, uncertainty })
}

/// Compares two sides run by run.
pub fn of_pairs(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let ratios: Vec<f64> = pairs
        .iter()
        .map(|(first, second)| if *first > 0.0 && *second > 0.0 { first / second } else { f64::NAN })
        .collect();
    let differences = Logarithms::of(&ratios)?;
    let uncertainty = differences
        .variance_of_mean
        .map(|variance| Uncertainty { error: variance.sqrt(), freedom: (differences.n - 1) as f64 });
    Some(Ratio { ratio: differences.mean.exp(), n: (differences.n, differences.n), is_paired: true, uncertainty })
}

struct Logarithms {
    n: usize,
    mean: f64,
    /// From [`FEWEST_RUNS`] values on.
    variance_of_mean: Option<f64>,
}

impl Logarithms {
    /// None where there is no value, or one without a logarithm.
    fn of(values: &[f64]) -> Option<Self> {
        let positive = |value: &f64| *value > 0.0 && value.is_finite();
        if values.is_empty() || !values.iter().all(positive) {
            return None;
        }
        let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let n = logarithms.len();
        let mean = logarithms.iter().sum::<f64>() / n as f64;
        let squares: f64 = logarithms.iter().map(|logarithm| (logarithm - mean).powi(2)).sum();
        // Rounding gives equal values a deviation of about 1e-16 each.
        let squares = if values.iter().all(|value| *value == values[0]) { 0.0 } else { squares };
        let variance_of_mean = (n >= FEWEST_RUNS).then(|| squares / (n - 1) as f64 / n as f64);
        Some(Self { n, mean, variance_of_mean })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::trace::run::Outcome;

    fn close(value: f64, right: f64) {
        assert!((value / right - 1.0).abs() < 1e-9, "{value} {right}");
    }

    fn assert_ratio(found: Option<Ratio>, ratio: f64, low: f64, high: f64) {
        let found = found.unwrap();
        let interval = found.ci95().unwrap();
        close(found.ratio, ratio);
        close(interval.0, low);
        close(interval.1, high);
        let inverse = found.inverse();
        close(inverse.ci95().unwrap().0, 1.0 / high);
        close(inverse.ratio, 1.0 / ratio);
    }

    const CPU: [f64; 3] = [287.4, 290.1, 284.9];

    // SciPy 1.17.1, a and b the logarithms: r = stats.ttest_ind(a, b, equal_var=False), exp(mean(a) - mean(b)) and
    // exp(r.confidence_interval(0.95)).
    #[test]
    fn unpaired_ratios_and_intervals_are_scipys() {
        let ratio = of_values(&CPU, &[48.6, 48.2, 49.3, 48.9]);
        assert_ratio(ratio, 5.896792907093349, 5.7876801835970095, 6.007962687312092);
        close(ratio.unwrap().uncertainty.unwrap().freedom, 4.598624213444751);
        assert_ratio(
            of_values(&[10.2, 9.7, 10.9, 10.4, 9.9], &[3.0, 4.0, 8.0]),
            2.230161477997633,
            0.6427757550922842,
            7.737722181556952,
        );
    }

    // SciPy 1.17.1: stats.ttest_rel(a, b).confidence_interval(0.95) of the logarithms.
    #[test]
    fn paired_ratios_and_intervals_are_scipys() {
        let gpu = [48.6, 48.2, 49.3];
        let pairs: Vec<(f64, f64)> = CPU.into_iter().zip(gpu).collect();
        assert_ratio(of_pairs(&pairs), 5.902901980493026, 5.611406447338713, 6.2095398218451745);
        let drifting = [(10.2, 10.0), (9.7, 9.6), (10.9, 10.6), (10.4, 10.2)];
        assert_ratio(of_pairs(&drifting), 1.0195619477664497, 1.0079956675259647, 1.031260945679154);
    }

    #[test]
    fn two_runs_a_side_have_a_ratio_without_an_interval() {
        let ratio = of_values(&[4.0, 4.0], &[2.0, 2.0, 2.0]).unwrap();
        close(ratio.ratio, 2.0);
        assert_eq!((ratio.n, ratio.ci95()), ((2, 3), None));
        assert_eq!(of_pairs(&[(4.0, 2.0), (4.0, 2.0)]).unwrap().ci95(), None);
    }

    #[test]
    fn what_is_zero_negative_or_absent_has_no_ratio() {
        for wrong in [&[][..], &[1.0, 0.0, 2.0], &[1.0, -1.0, 2.0], &[f64::NAN], &[f64::INFINITY]] {
            assert_eq!(of_values(wrong, &CPU), None, "{wrong:?}");
            assert_eq!(of_values(&CPU, wrong), None, "{wrong:?}");
        }
        assert_eq!(of_pairs(&[(1.0, 1.0), (-1.0, -1.0), (2.0, 0.0)]), None);
    }

    #[test]
    fn runs_that_all_gave_the_same_have_an_interval_without_width() {
        let (low, high) = of_values(&[0.3; 3], &[0.1; 4]).unwrap().ci95().unwrap();
        close(low, 3.0);
        close(high, 3.0);
    }

    fn runs(values: &[(u32, f64)]) -> Vec<RunSummary> {
        let run = |(block, value): &(u32, f64)| RunSummary {
            block: *block,
            values: [(Metric::Duration, *value)].into(),
            ..fixture::run(*block, Outcome::Finished)
        };
        values.iter().map(run).collect()
    }

    #[test]
    fn interleaved_runs_are_paired_by_their_blocks_and_others_are_not() {
        let drifting = runs(&[(1, 10.2), (2, 9.7), (3, 10.9), (4, 10.4)]);
        let mut others = runs(&[(4, 10.2), (3, 10.6), (2, 9.6), (1, 10.0)]);
        let paired = of_runs(Metric::Duration, &drifting, &others).unwrap();
        assert!(paired.is_paired && paired.n == (4, 4), "{paired:?}");
        close(paired.ratio, 1.0195619477664497);

        others[0].session_unix_ns += 1;
        assert!(!of_runs(Metric::Duration, &drifting, &others).unwrap().is_paired, "of another session");
        others[0].session_unix_ns -= 1;
        others[0].outcome = Outcome::Interrupted;
        let unpaired = of_runs(Metric::Duration, &drifting, &others).unwrap();
        assert!(!unpaired.is_paired && unpaired.n == (4, 3), "no run is dropped: {unpaired:?}");
        assert_eq!(of_runs(Metric::Throughput, &drifting, &others), None);
    }
}
