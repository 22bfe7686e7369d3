//! How busy each core was over time: in bins that widen as runs last, so that memory does not grow with their length.

use std::collections::BTreeMap;

use super::windows::WINDOW_NS;

/// When a window lies beyond these bins, each becomes twice as wide.
const MOST_BINS: usize = 192;

/// Busy shares of cores over time, in spans of equal length from the run's start: means over runs.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreHeat {
    /// Length of a span, seconds.
    pub bin_s: f64,
    /// Number of runs that it is made of.
    pub runs: usize,
    /// In the order of their numbers.
    pub cores: Vec<CoreCourse>,
}

/// One core.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreCourse {
    pub core: u32,
    /// Busy share (0 to 1) of each span; none where fewer than half of the runs have it.
    pub shares: Vec<Option<f64>>,
}

/// Busy shares of the cores in one run, or over runs.
#[derive(Debug)]
pub(super) struct Heat {
    /// Windows of a bin.
    width: i64,
    runs: usize,
    cores: BTreeMap<u32, Vec<Bin>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    sum: f64,
    windows: u64,
    /// Runs that have it.
    runs: usize,
}

impl Default for Heat {
    fn default() -> Self {
        Self { width: 1, runs: 0, cores: BTreeMap::new() }
    }
}

impl Heat {
    /// Adds the busy share of a core in a window of a run.
    pub(super) fn push(&mut self, core: u32, window: i64, share: f64) {
        if window < 0 || !share.is_finite() {
            return;
        }
        while window / self.width >= MOST_BINS as i64 {
            self.widen();
        }
        let place = (window / self.width) as usize;
        let bins = self.cores.entry(core).or_default();
        if bins.len() <= place {
            bins.resize(place + 1, Bin::default());
        }
        bins[place].add(Bin { sum: share, windows: 1, runs: 1 });
        bins[place].runs = 1;
    }

    /// Adds a run.
    pub(super) fn add(&mut self, run: Self) {
        self.runs += 1;
        self.join(run);
    }

    /// Adds other cores of the same run.
    pub(super) fn join(&mut self, mut other: Self) {
        while self.width < other.width {
            self.widen();
        }
        while other.width < self.width {
            other.widen();
        }
        for (core, bins) in other.cores {
            let kept = self.cores.entry(core).or_default();
            kept.resize(kept.len().max(bins.len()), Bin::default());
            for (kept, bin) in kept.iter_mut().zip(bins) {
                kept.add(bin);
            }
        }
    }

    /// Means over the runs; a bin stays where at least half of them have it, as in courses. None where nothing was seen.
    pub(super) fn finish(self) -> Option<CoreHeat> {
        let share = |bin: &Bin| (bin.windows > 0 && bin.runs * 2 >= self.runs).then(|| bin.sum / bin.windows as f64);
        let cores =
            self.cores.iter().map(|(core, bins)| CoreCourse { core: *core, shares: bins.iter().map(share).collect() });
        let mut cores: Vec<CoreCourse> = cores.filter(|core| core.shares.iter().any(Option::is_some)).collect();
        // What only a few long runs have is no part of the picture.
        let seen = |core: &CoreCourse| core.shares.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let end = cores.iter().map(seen).max().unwrap_or_default();
        cores.iter_mut().for_each(|core| core.shares.truncate(end));
        let bin_s = self.width.saturating_mul(WINDOW_NS) as f64 / 1e9;
        (!cores.is_empty()).then_some(CoreHeat { bin_s, runs: self.runs, cores })
    }

    /// Two neighbours become one bin.
    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        for bins in self.cores.values_mut() {
            *bins = bins.chunks(2).map(|pair| pair.iter().fold(Bin::default(), |sum, bin| sum.joined(*bin))).collect();
        }
    }
}

impl Bin {
    /// Adds what other runs have in the same bin.
    fn add(&mut self, other: Self) {
        *self = Self { sum: self.sum + other.sum, windows: self.windows + other.windows, runs: self.runs + other.runs };
    }

    /// With its neighbour, of the same runs.
    fn joined(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, windows: self.windows + other.windows, runs: self.runs.max(other.runs) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::figures::Figures;
    use crate::aggregate::host;
    use crate::aggregate::testing::{SECOND, frame, record};
    use crate::trace::RunRecord;
    use crate::trace::tables::Core;

    fn run(windows: &[(i64, f64)]) -> Heat {
        let mut heat = Heat::default();
        windows.iter().for_each(|(window, share)| heat.push(3, *window, *share));
        heat
    }

    fn over(runs: Vec<Heat>) -> CoreHeat {
        let mut heat = Heat::default();
        runs.into_iter().for_each(|run| heat.add(run));
        heat.finish().unwrap()
    }

    #[test]
    fn a_bin_is_the_mean_over_runs_and_a_gap_stays_a_gap() {
        let heat = over(vec![run(&[(0, 0.2), (2, 0.5)]), run(&[(0, 0.6), (2, 0.5)]), run(&[(0, 0.1), (1, 0.9)])]);
        let [core] = heat.cores.as_slice() else { panic!("{heat:?}") };
        // By hand: (0.2 + 0.6 + 0.1) / 3; of the second bin only one run of three tells.
        assert_eq!((heat.bin_s, heat.runs, core.core), (1.0, 3, 3));
        assert!((core.shares[0].unwrap() - 0.3).abs() < 1e-12);
        assert_eq!(core.shares[1..], [None, Some(0.5)]);
    }

    #[test]
    fn what_only_a_few_long_runs_have_is_left_out() {
        let heat = over(vec![run(&[(0, 0.2)]), run(&[(0, 0.2)]), run(&[(0, 0.2), (1, 0.3), (2, 0.3)])]);
        assert_eq!(heat.cores[0].shares.len(), 1);
    }

    #[test]
    fn memory_does_not_grow_with_the_length_of_a_run_and_means_stay_right() {
        let day: Vec<(i64, f64)> =
            (0..86_400).map(|window| (window, if window < 43_200 { 0.0 } else { 1.0 })).collect();
        let heat = over(vec![run(&day), run(&[(0, 0.0)])]);
        assert_eq!(heat.bin_s, 512.0);
        let shares = &heat.cores[0].shares;
        assert_eq!(shares.len(), 169);
        let seen: f64 = shares.iter().flatten().sum();
        assert!((seen / 169.0 - 0.5).abs() < 0.01, "{seen}");
    }

    #[test]
    fn the_core_table_gives_a_share_of_each_second_within_the_run() {
        // Core 1 is busy for the first two of three seconds; the recorder read on for a fourth.
        let row = |t: i64, core: i64| Core {
            t_ns: t * SECOND,
            core,
            busy_ns: Some(if core == 1 { t.min(2) * SECOND } else { 0 }),
            idle_ns: Some(if core == 1 { (t - 2).max(0) * SECOND } else { t * SECOND }),
            ..Core::default()
        };
        let rows = (0..=4).flat_map(|t| (0..2).map(move |core| row(t, core)));
        let mut figures = Figures::default();
        let record = RunRecord { duration_ns: Some(3 * SECOND), ..record() };
        host::cores(frame(rows), &record, &mut figures).unwrap();
        let heat = over(vec![figures.core_heat]);
        let shares: Vec<_> = heat.cores.iter().map(|core| core.shares.as_slice()).collect();
        assert_eq!(shares, [[Some(0.0); 3], [Some(1.0), Some(1.0), Some(0.0)]]);
    }

    #[test]
    fn stray_windows_and_what_is_no_number_do_no_harm() {
        assert!(run(&[(-1, 0.5), (0, f64::NAN)]).finish().is_none());
        let heat = over(vec![run(&[(i64::MAX, 0.5), (0, 0.5)])]);
        assert!(heat.cores[0].shares.len() <= MOST_BINS);
    }
}
