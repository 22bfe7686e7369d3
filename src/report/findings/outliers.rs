//! Runs that do not fit their repeats. They are flagged, never dropped.

use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{CaseSummary, RunSummary};

/// Of fewer runs nobody can say which one is odd.
const LEAST_RUNS: usize = 4;
/// Modified z-score from which on a value is called an outlier (Iglewicz and Hoaglin 1993, How to Detect and Handle
/// Outliers).
const MOST_Z: f64 = 3.5;
/// Φ⁻¹(¾): makes the median absolute deviation comparable with a standard deviation.
const NORMAL_QUARTILE: f64 = 0.674_489_750_196_082;
/// √(2/π): the same for the mean absolute deviation, which stands in where more than half of the values are equal.
const NORMAL_MEAN: f64 = 0.797_884_560_802_865;
/// A run that differs by less than this share of the median is not called odd however equal the others are (ours).
const LEAST_SHARE: f64 = 0.05;

/// Finished runs whose duration lies far from that of the others.
pub(crate) fn of_case(case: &CaseSummary) -> Vec<&RunSummary> {
    let duration = |run: &RunSummary| run.values.get(&Metric::Duration).copied();
    let finished = case.runs.iter().filter(|run| run.outcome.is_finished());
    let (runs, durations): (Vec<&RunSummary>, Vec<f64>) =
        finished.filter_map(|run| Some((run, duration(run)?))).unzip();
    let far = outlying(&durations);
    runs.into_iter().zip(far).filter(|(_, far)| *far).map(|(run, _)| run).collect()
}

/// Which of some values lie far from the others.
fn outlying(values: &[f64]) -> Vec<bool> {
    let none = || vec![false; values.len()];
    if values.len() < LEAST_RUNS {
        return none();
    }
    let Some(middle) = median(values) else { return none() };
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
    let sigma = match median(&deviations) {
        Some(mad) if mad > 0.0 => mad / NORMAL_QUARTILE,
        _ => mean / NORMAL_MEAN,
    };
    let is_far = |deviation: &f64| *deviation > MOST_Z * sigma && *deviation >= LEAST_SHARE * middle;
    deviations.iter().map(is_far).collect()
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let above = *sorted.get(sorted.len() / 2)?;
    let below = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(below, above))
}

/// Runs that by the wall clock began before the run with the number before had ended: somebody set the clock back, or two
/// were recorded at once.
pub(super) fn overlapping(case: &CaseSummary) -> usize {
    let mut runs: Vec<&RunSummary> = case.runs.iter().collect();
    runs.sort_by_key(|run| run.run);
    // Machines of one run share its number, and begin together.
    let overlap = |pair: &[&RunSummary]| {
        let seconds = (pair[1].started_unix_ns.saturating_sub(pair[0].started_unix_ns)) as f64 / 1e9;
        let duration = pair[0].values.get(&Metric::Duration);
        pair[0].run != pair[1].run && duration.is_some_and(|duration| seconds < duration - CLOCK_SLACK_S)
    };
    runs.windows(2).filter(|pair| overlap(pair)).count()
}

/// Clocks are corrected by fractions of a second all the time.
const CLOCK_SLACK_S: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn an_outlier_is_what_the_modified_z_score_says() {
        // 0.6745 · |x − median| / MAD, numpy: 24.96 for 14.0, 6.07 for 101.0, which is off by 1 %.
        assert_eq!(outlying(&[10.2, 10.1, 10.3, 14.0, 10.4]), [false, false, false, true, false]);
        assert_eq!(outlying(&[100.0, 100.1, 99.9, 100.2, 101.0]), [false; 5], "by one per cent");
        // More than half are equal: (20 − 10) / (1.253314 · 2) = 3.99.
        assert_eq!(outlying(&[10.0, 10.0, 10.0, 10.0, 20.0]), [false, false, false, false, true]);
        assert_eq!(outlying(&[10.0, 10.0, 30.0]), [false; 3], "three runs are too few");
        assert!(outlying(&[]).is_empty());
        assert_eq!(outlying(&[5.0; 6]), [false; 6]);
    }

    #[test]
    fn a_clock_that_was_set_back_or_a_second_recorder_shows() {
        let mut summary = fixture::cpu_only();
        let case = &mut summary.cases[1];
        assert_eq!(overlapping(case), 0, "the runs of the fixture follow each other");
        case.runs[1].started_unix_ns = case.runs[0].started_unix_ns + 5_000_000_000;
        assert_eq!(overlapping(case), 1);
        case.runs[1].run = case.runs[0].run;
        assert_eq!(overlapping(case), 0, "two machines of one run");
    }
}
