//! The windows of one run and quantity, joined to wider bins as the run goes on, so that memory stays bounded.

#[cfg(test)]
use std::collections::BTreeMap;

use super::histogram::Histogram;
use super::windows::Keep;

/// Up to so many windows each has a bin of its own: 68 minutes.
const MOST_BINS: usize = 4096;

/// Full windows in the order of time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    /// What turns amounts into values.
    factor: f64,
    /// Windows of one bin, a power of two: bin i has windows i × width to (i + 1) × width.
    width: i64,
    bins: Vec<Bin>,
    len: usize,
    values: Histogram,
}

/// Some windows; none where nothing was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bin {
    windows: u32,
    sum: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Series {
    pub(super) fn new() -> Self {
        Self::times(1.0)
    }

    /// Of amounts times a factor.
    pub(super) fn times(factor: f64) -> Self {
        Self { factor, width: 1, bins: Vec::new(), len: 0, values: Histogram::default() }
    }

    /// Adds a window; what is no number is left out.
    pub(super) fn push(&mut self, window: i64, value: f64) {
        if !value.is_finite() || window < 0 {
            return;
        }
        while window / self.width >= MOST_BINS as i64 {
            self.widen();
        }
        let place = (window / self.width) as usize;
        if self.bins.len() <= place {
            self.bins.resize(place + 1, Bin::EMPTY);
        }
        self.bins[place].add(Bin { windows: 1, sum: value, min: value, max: value });
        self.len += 1;
        self.values.push(value);
    }

    /// Joins bins two by two.
    pub(super) fn widen(&mut self) {
        let joined = self.bins.chunks(2).map(|pair| {
            pair.iter().fold(Bin::EMPTY, |mut sum, bin| {
                sum.add(*bin);
                sum
            })
        });
        self.bins = joined.collect();
        self.width *= 2;
    }

    /// How many windows there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Windows of one bin.
    pub(super) fn width(&self) -> i64 {
        self.width
    }

    /// The bins that have a window, with their numbers.
    pub(super) fn bins(&self) -> impl Iterator<Item = (usize, &Bin)> {
        self.bins.iter().enumerate().filter(|(_, bin)| bin.windows > 0)
    }

    pub(super) fn max(&self) -> Option<f64> {
        self.bins().map(|(_, bin)| bin.max).reduce(f64::max)
    }

    /// A quantile over windows, interpolated linearly between ranks; of joined ones by the histogram.
    pub(super) fn quantile(&self, q: f64) -> Option<f64> {
        if self.width > 1 {
            return self.values.quantile(q);
        }
        super::statistics::quantile(&mut self.bins().map(|(_, bin)| bin.sum).collect::<Vec<_>>(), q)
    }

    /// Its windows, where none were joined.
    #[cfg(test)]
    pub(super) fn windows(&self) -> BTreeMap<i64, f64> {
        assert_eq!(self.width, 1);
        self.bins().map(|(window, bin)| (window as i64, bin.sum)).collect()
    }
}

impl Bin {
    pub(super) const EMPTY: Self = Self { windows: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn add(&mut self, other: Self) {
        self.windows += other.windows;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Mean of its windows.
    pub(super) fn mean(&self) -> f64 {
        // Rounding must not put the mean of equal values outside of them.
        (self.sum / f64::from(self.windows)).clamp(self.min, self.max)
    }
}

impl Keep<1> for Series {
    fn keep(&mut self, window: i64, [amount]: [f64; 1]) {
        self.push(window, amount * self.factor);
    }
}

/// One amount over another, where that is not zero.
#[derive(Clone, Debug)]
pub(super) struct Shares(pub(super) Series);

impl Keep<2> for Shares {
    fn keep(&mut self, window: i64, [part, whole]: [f64; 2]) {
        if whole > 0.0 {
            self.0.push(window, part / whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(windows: impl Iterator<Item = (i64, f64)>) -> Series {
        let mut series = Series::new();
        windows.for_each(|(window, value)| series.push(window, value));
        series
    }

    #[test]
    fn windows_of_an_hour_stay_apart_and_those_of_a_day_are_joined() {
        assert_eq!(series((0..4096).map(|k| (k, 1.0))).width(), 1);
        // 86 400 / 4096 = 21.1, and the next power of two is 32.
        let day = series((0..86_400).map(|k| (k, k as f64)));
        assert_eq!((day.width(), day.bins().count(), day.len()), (32, 2700, 86_400));
        let (_, second) = day.bins().nth(1).unwrap();
        assert_eq!((second.mean(), second.min, second.max), (47.5, 32.0, 63.0));
    }

    #[test]
    fn a_peak_of_one_window_in_a_day_is_kept() {
        let day = series((0..86_400).map(|k| (k, if k == 51_234 { 9.0 } else { 1.0 })));
        assert_eq!(day.max(), Some(9.0));
        let peaks: Vec<usize> = day.bins().filter(|(_, bin)| bin.max == 9.0).map(|(place, _)| place).collect();
        assert_eq!(peaks, [51_234 / 32]);
    }

    #[test]
    fn a_gap_stays_a_gap_and_what_is_no_number_is_none() {
        let gappy = series([(0, 1.0), (1, f64::NAN), (2, f64::INFINITY), (-1, 5.0), (5, 2.0)].into_iter());
        assert_eq!(gappy.windows(), BTreeMap::from([(0, 1.0), (5, 2.0)]));
        let long = series((0..10_000).filter(|k| !(4000..6000).contains(k)).map(|k| (k, 1.0)));
        // Bins of 4 windows: 1000 to 1499 are empty.
        assert_eq!(long.bins().filter(|(place, _)| (1000..1500).contains(place)).count(), 0);
        assert_eq!(long.bins().count(), 2000);
    }

    #[test]
    fn quantiles_are_exact_of_windows_and_close_of_joined_ones() {
        // numpy.quantile(numpy.arange(100) / 100, 0.95) = 0.9405; of arange(86400) / 86400: 0.94998900
        assert!((series((0..100).map(|k| (k, k as f64 / 100.0))).quantile(0.95).unwrap() - 0.9405).abs() < 1e-12);
        let day = series((0..86_400).map(|k| (k, k as f64 / 86_400.0)));
        assert!((day.quantile(0.95).unwrap() - 0.949_989).abs() < 0.001, "{:?}", day.quantile(0.95));
        assert_eq!(Series::new().quantile(0.5), None);
    }

    #[test]
    fn amounts_become_values_and_shares_of_nothing_are_none() {
        let mut scaled = Series::times(0.5);
        scaled.keep(3, [4.0]);
        assert_eq!(scaled.windows(), BTreeMap::from([(3, 2.0)]));
        let mut shares = Shares(Series::new());
        shares.keep(0, [1.0, 4.0]);
        shares.keep(1, [0.0, 0.0]);
        assert_eq!(shares.0.windows(), BTreeMap::from([(0, 0.25)]));
    }
}
