//! How long steps took: over the steps of the runs, and as a distribution. Bins widen as runs last, so that memory does
//! not grow with their length.

use std::collections::BTreeMap;

/// When a step lies beyond these bins, each becomes twice as wide.
const MOST_BINS: usize = 512;
/// Each bin of the distribution is wider than the one before by this: a tenth of a percent.
const FINE: f64 = 1.001;
/// Times out of this range count at its ends, in nanoseconds.
const RANGE_NS: (f64, f64) = (1e3, 1e15);

/// Times of steps over runs, each since the end of its rank's step before.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTimes {
    /// Number of runs that they are of.
    pub runs: usize,
    /// So many steps of each rank are warm-up.
    pub warm_up_steps: usize,
    /// In the order of the steps, of equal width; the first step of a rank has no time.
    pub bins: Vec<StepBin>,
    /// Steps after warm-up by their time, in the order of the times; spans without a step are left out.
    pub distribution: Vec<Share>,
}

/// Some steps in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepBin {
    /// Numbers of the first and the last step, from 0 within a rank.
    pub first: usize,
    pub last: usize,
    /// Over the steps of all runs.
    pub mean_s: f64,
    pub min_s: f64,
    pub max_s: f64,
}

/// Steps whose time lies within a span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    pub from_s: f64,
    pub to_s: f64,
    pub steps: u64,
}

/// Times of the steps of one run, or over runs.
#[derive(Debug)]
pub(super) struct Times {
    /// Steps of a bin.
    width: usize,
    runs: usize,
    bins: Vec<Bin>,
    /// Steps after warm-up, by the place of their time.
    distribution: BTreeMap<i32, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Bin {
    steps: u64,
    sum_s: f64,
    min_s: f64,
    max_s: f64,
    /// Runs that have it.
    runs: usize,
}

impl Default for Times {
    fn default() -> Self {
        Self { width: 1, runs: 0, bins: Vec::new(), distribution: BTreeMap::new() }
    }
}

impl Times {
    /// Adds the time of a step of a run, by its number within its rank.
    pub(super) fn push(&mut self, step: usize, time_ns: i64, is_warm_up: bool) {
        while step / self.width >= MOST_BINS {
            self.widen();
        }
        let place = step / self.width;
        if self.bins.len() <= place {
            self.bins.resize(place + 1, Bin::EMPTY);
        }
        let time_s = time_ns.max(0) as f64 / 1e9;
        let bin = self.bins[place].with(Bin { steps: 1, sum_s: time_s, min_s: time_s, max_s: time_s, runs: 1 });
        self.bins[place] = Bin { runs: 1, ..bin };
        if !is_warm_up {
            let place = (time_ns as f64).clamp(RANGE_NS.0, RANGE_NS.1).ln() / FINE.ln();
            *self.distribution.entry(place.floor() as i32).or_default() += 1;
        }
    }

    /// Adds a run.
    pub(super) fn add(&mut self, mut run: Self) {
        while self.width < run.width {
            self.widen();
        }
        while run.width < self.width {
            run.widen();
        }
        self.runs += 1;
        self.bins.resize(self.bins.len().max(run.bins.len()), Bin::EMPTY);
        for (kept, bin) in self.bins.iter_mut().zip(run.bins) {
            *kept = Bin { runs: kept.runs + bin.runs, ..kept.with(bin) };
        }
        for (place, steps) in run.distribution {
            *self.distribution.entry(place).or_default() += steps;
        }
    }

    /// Over the runs; a bin stays where at least half of them have it, as in courses. None where no step has a time.
    pub(super) fn finish(self, warm_up_steps: usize) -> Option<StepTimes> {
        let kept = |(place, bin): (usize, &Bin)| {
            (bin.steps > 0 && bin.runs * 2 >= self.runs).then(|| StepBin {
                first: place * self.width,
                last: (place + 1) * self.width - 1,
                mean_s: (bin.sum_s / bin.steps as f64).clamp(bin.min_s, bin.max_s),
                min_s: bin.min_s,
                max_s: bin.max_s,
            })
        };
        let bins: Vec<StepBin> = self.bins.iter().enumerate().filter_map(kept).collect();
        let edge_s = |place: i32| FINE.powi(place) / 1e9;
        let share =
            |(place, steps): (&i32, &u64)| Share { from_s: edge_s(*place), to_s: edge_s(place + 1), steps: *steps };
        (!bins.is_empty()).then(|| StepTimes {
            runs: self.runs,
            warm_up_steps,
            bins,
            distribution: self.distribution.iter().map(share).collect(),
        })
    }

    /// Two neighbours become one bin.
    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        self.bins = self.bins.chunks(2).map(|pair| pair.iter().fold(Bin::EMPTY, |sum, bin| sum.with(*bin))).collect();
    }
}

impl Bin {
    const EMPTY: Self = Self { steps: 0, sum_s: 0.0, min_s: f64::INFINITY, max_s: f64::NEG_INFINITY, runs: 0 };

    /// Both together, of the same runs.
    fn with(self, other: Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            sum_s: self.sum_s + other.sum_s,
            min_s: self.min_s.min(other.min_s),
            max_s: self.max_s.max(other.max_s),
            runs: self.runs.max(other.runs),
        }
    }
}

impl StepTimes {
    /// Steps of the distribution.
    pub fn steps(&self) -> u64 {
        self.distribution.iter().map(|share| share.steps).sum()
    }

    /// The time that a share of the steps did not exceed, warm-up left out, to 0.05 %.
    pub fn quantile_s(&self, q: f64) -> Option<f64> {
        let wanted = q * self.steps() as f64;
        let mut seen = 0;
        let reached = self.distribution.iter().find(|share| {
            seen += share.steps;
            seen as f64 >= wanted
        });
        reached.map(|share| (share.from_s * share.to_s).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::figures::Figures;
    use crate::aggregate::steps::{self, StepClock};
    use crate::aggregate::testing::{frame, ns};
    use crate::trace::tables;

    fn run(times_s: &[f64]) -> Times {
        let mut times = Times::default();
        times_s.iter().enumerate().for_each(|(step, time)| times.push(step, ns(*time), step < 2));
        times
    }

    fn over(runs: Vec<Times>) -> StepTimes {
        let mut times = Times::default();
        runs.into_iter().for_each(|run| times.add(run));
        times.finish(2).unwrap()
    }

    #[test]
    fn a_step_is_the_mean_least_and_greatest_over_runs() {
        let times = over(vec![run(&[3.0, 1.0, 0.2]), run(&[5.0, 1.0, 0.4]), run(&[4.0, 1.0])]);
        assert_eq!((times.runs, times.bins.len(), times.steps()), (3, 3, 2));
        let first = StepBin { first: 0, last: 0, mean_s: 4.0, min_s: 3.0, max_s: 5.0 };
        assert_eq!(times.bins[0], first);
        assert!((times.bins[2].mean_s - 0.3).abs() < 1e-12);
    }

    #[test]
    fn the_step_table_gives_times_between_ends_of_steps_of_each_rank() {
        let step = |t: f64, rank: i64| tables::Step {
            t_ns: ns(t),
            kind: "step".into(),
            rank: Some(rank),
            ..tables::Step::default()
        };
        let rows = [(1.0, 0), (1.5, 1), (2.0, 0), (2.7, 1), (2.5, 0), (3.1, 1)].map(|(t, rank)| step(t, rank));
        let mut figures = Figures::default();
        steps::steps(frame(rows), StepClock::Complete, &mut figures).unwrap();
        let times = over(vec![figures.step_times]);
        let seen: Vec<_> = times.bins.iter().map(|bin| (bin.first, bin.min_s, bin.max_s)).collect();
        // By hand: second steps 2.0 − 1.0 and 2.7 − 1.5, third ones 2.5 − 2.0 and 3.1 − 2.7.
        assert_eq!(seen, [(1, 1.0, 1.2), (2, 0.4, 0.5)]);
        assert_eq!(times.steps(), 2, "two steps of each rank are warm-up");
    }

    #[test]
    fn quantiles_of_many_steps_are_right_to_a_tenth_of_a_percent() {
        // Times 1.000, 1.001, …, 1.999: numpy.percentile(times, [50, 95]) = 1.4995, 1.94905.
        let times: Vec<f64> = [9.0, 9.0].into_iter().chain((0..1000).map(|step| 1.0 + f64::from(step) / 1e3)).collect();
        let times = over(vec![run(&times)]);
        for (q, right) in [(0.5, 1.4995), (0.95, 1.94905)] {
            let found = times.quantile_s(q).unwrap();
            assert!((found / right - 1.0).abs() < 1e-3, "{found} {right}");
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_steps_and_no_peak_is_lost() {
        let mut long = Times::default();
        for step in 0..1_000_000 {
            long.push(step, if step == 777_777 { 9_000_000_000 } else { 100_000_000 + step as i64 }, step < 2);
        }
        let times = over(vec![long, run(&[1.0, 0.1])]);
        assert!(times.bins.len() <= MOST_BINS && times.distribution.len() < 50);
        assert_eq!(times.bins.iter().map(|bin| bin.max_s).fold(0.0, f64::max), 9.0);
    }

    #[test]
    fn times_out_of_all_range_do_no_harm() {
        let mut times = Times::default();
        [i64::MIN, 0, i64::MAX].iter().enumerate().for_each(|(step, time)| times.push(step, *time, false));
        let times = over(vec![times]);
        assert_eq!(times.steps(), 3);
        assert!(times.quantile_s(1.0).unwrap().is_finite());
        assert!(Times::default().finish(2).is_none());
    }
}
