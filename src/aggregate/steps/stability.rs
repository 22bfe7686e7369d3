//! How even steps are, and how long it takes until they are.

use super::super::statistics::{median, quantile};
use super::*;

/// Fewer steps have neither a spread nor a percentile worth the name.
const LEAST_STEPS: usize = 20;
/// Turns the median absolute deviation of normally distributed values into their standard deviation: 1 / Φ⁻¹(¾).
const MAD_TO_SIGMA: f64 = 1.482_602_218_505_602;
/// A step is slow from so many of these deviations above the median on, …
const SLOW_SIGMAS: f64 = 3.0;
/// … and from so much of the median above it: even steps differ by less than anybody would call slow.
const SLOW_SHARE: f64 = 0.10;

/// Figures of the times of the steps after warm-up, in seconds; and of those before, where the beginning of training is
/// known.
pub(super) fn figures(times: &mut [f64], steps: &[Step], told: bool, figures: &mut Figures) {
    let Some(middle) = median(times).filter(|middle| times.len() >= LEAST_STEPS && *middle > 0.0) else { return };
    let mut deviations: Vec<f64> = times.iter().map(|time| (time - middle).abs()).collect();
    let Some(sigma) = median(&mut deviations).map(|mad| MAD_TO_SIGMA * mad) else { return };
    figures.set(Metric::StepVariation, Some(sigma / middle));
    figures.set(Metric::StepTimeP95, quantile(times, 0.95));
    if told {
        let slow = middle + (SLOW_SIGMAS * sigma).max(SLOW_SHARE * middle);
        let first: Vec<f64> = first_rank(steps).take_while(|time| *time > slow).collect();
        figures.set(Metric::WarmUpSteps, Some(first.len() as f64));
        figures.set(Metric::WarmUpTime, Some(first.iter().map(|time| time - middle).sum()));
    }
}

/// Times of the steps of the lowest rank in seconds; that of its first since training began.
fn first_rank(steps: &[Step]) -> impl Iterator<Item = f64> {
    let rank = steps.iter().map(|step| step.row.rank).min();
    let of_rank = steps.iter().filter(move |step| Some(step.row.rank) == rank);
    of_rank.map(|step| step.time_ns.unwrap_or(step.end_ns) as f64 / 1e9)
}

/// From the end of every rank's third step to that of the last step, in nanoseconds since the run's start.
pub(super) fn steady_ns(steps: &[Step]) -> Option<(i64, i64)> {
    let third = steps.iter().filter(|step| step.index == WARM_UP_STEPS).map(|step| step.row.t_ns).max()?;
    Some((third, steps.iter().map(|step| step.row.t_ns).max()?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{phase, step, values};
    use super::*;
    use crate::aggregate::testing::frame;
    use crate::trace::tables;

    /// Training that begins at 1 s, with steps of these times.
    fn training(times: &[f64]) -> Vec<tables::Step> {
        let mut t = 1.0;
        let ends = times.iter().map(|time| {
            t += time;
            step(t, 0)
        });
        std::iter::once(phase(1.0, "train")).chain(ends).collect()
    }

    /// 24 steps of 0.5 s or a little more, every eighth of 2 s.
    fn uneven() -> Vec<f64> {
        (0..24).map(|k| if k % 8 == 7 { 2.0 } else { 0.5 + 0.01 * f64::from(k % 5) }).collect()
    }

    #[test]
    fn the_spread_is_robust_and_the_percentile_is_numpys() {
        let values = values(training(&[&[0.5, 0.5], uneven().as_slice()].concat()));
        // scipy.stats.median_abs_deviation(v, scale="normal") / numpy.median(v); numpy.percentile(v, 95).
        let right = [(Metric::StepVariation, 0.028511581125107755), (Metric::StepTimeP95, 2.0)];
        for (metric, right) in right {
            assert!((values[&metric] - right).abs() < 1e-6, "{metric:?} {}", values[&metric]);
        }
        assert_eq!(values[&Metric::WarmUpSteps], 0.0);
        assert_eq!(values[&Metric::WarmUpTime], 0.0);
    }

    #[test]
    fn warm_up_lasts_as_long_as_steps_are_slow_from_the_beginning_on() {
        let values = values(training(&[&[3.0, 0.9, 0.7, 0.5, 0.9], [0.5; 20].as_slice()].concat()));
        // By hand: 2.5 + 0.4 + 0.2 s more than the median of 0.5 s; the later slow step is none of them.
        assert_eq!(values[&Metric::WarmUpSteps], 3.0);
        assert!((values[&Metric::WarmUpTime] - 3.1).abs() < 1e-6, "{values:?}");
        assert!(values[&Metric::StepVariation] < 1e-6);
    }

    #[test]
    fn few_steps_or_steps_that_were_only_handed_over_tell_neither() {
        let spread = |values: &BTreeMap<Metric, f64>| values.contains_key(&Metric::StepVariation);
        assert!(!spread(&values(training(&[0.5; 21]))));
        assert!(spread(&values(training(&[0.5; 22]))));
        let mut figures = Figures::default();
        steps(frame(training(&[0.5; 40])), StepClock::Enqueue, &mut figures).unwrap();
        assert!(!spread(&figures.values));
    }

    #[test]
    fn without_a_phase_the_beginning_is_not_known() {
        let rows = training(&[0.5; 30]).split_off(1);
        let values = values(rows);
        assert!(values.contains_key(&Metric::StepVariation) && !values.contains_key(&Metric::WarmUpSteps));
    }

    #[test]
    fn steady_is_from_the_third_step_of_the_slowest_rank_on() {
        let mut rows = training(&[1.0; 5]);
        rows.extend([2.5, 4.5, 6.5].map(|t| tables::Step { rank: Some(1), ..step(t, 0) }));
        let mut figures = Figures::default();
        steps(frame(rows), StepClock::Complete, &mut figures).unwrap();
        assert_eq!(figures.steady_ns, Some((6_500_000_000, 6_500_000_000)));
    }
}
