//! Amounts in fixed windows of one second, so that results do not depend on how often was sampled.

use std::collections::BTreeMap;

use crate::trace::RunRecord;

/// Length of a window. Window k is [k, k + 1) seconds since the run's start.
pub(super) const WINDOW_NS: i64 = 1_000_000_000;

/// Longest time between two readings that still counts as sampled, in nanoseconds; anything longer is a gap.
///
/// Unchanged values are written at least each second, and a late tick may take half a second more. Above half a
/// second of sampling interval, two missed ticks are let pass.
pub(super) fn longest_step_ns(interval_ns: i64) -> i64 {
    interval_ns.saturating_mul(3).max(WINDOW_NS * 3 / 2)
}

/// CPU time of windows as shares of what the run may use; none where nobody knows what that is.
pub(super) fn shares_of_limit(used_ns: BTreeMap<i64, f64>, record: &RunRecord) -> BTreeMap<i64, f64> {
    let Some(cores) = record.limits.cpu_cores else { return BTreeMap::new() };
    used_ns.into_iter().map(|(window, used_ns)| (window, used_ns / (WINDOW_NS as f64 * cores))).collect()
}

/// An amount (CPU time, bytes held × time, …) that accrued over time, and the time in which it was watched.
///
/// Spreading what accrued between two readings evenly over the time between them is the same as interpolating the
/// counter linearly at the edges of the windows.
pub(super) struct Windows {
    longest_step_ns: i64,
    reached_ns: Option<i64>,
    // Sparse, so that a stray time stamp costs one window, not all windows before it.
    windows: BTreeMap<i64, Window>,
}

#[derive(Default)]
struct Window {
    amount: f64,
    covered_ns: i64,
    void: bool,
}

impl Windows {
    /// Nothing is watched before the first reading.
    pub(super) fn new(longest_step_ns: i64) -> Self {
        Self { longest_step_ns, reached_ns: None, windows: BTreeMap::new() }
    }

    /// The run's start counts as a reading: what happens before the first one is known, or taken to be known.
    pub(super) fn from_start(longest_step_ns: i64) -> Self {
        Self { reached_ns: Some(0), ..Self::new(longest_step_ns) }
    }

    /// Adds what accrued between two readings; across a gap nobody knows when it did, so it is left out.
    pub(super) fn add(&mut self, from_ns: i64, to_ns: i64, amount: f64) {
        let span_ns = to_ns.saturating_sub(from_ns);
        if span_ns <= 0 {
            self.window(to_ns.div_euclid(WINDOW_NS)).amount += amount;
        }
        for (index, part_ns) in self.parts(from_ns, to_ns) {
            self.window(index).amount += amount * (part_ns as f64 / span_ns as f64);
        }
    }

    /// Marks the time since the last reading as watched, unless that is a gap.
    pub(super) fn reach(&mut self, t_ns: i64) {
        if let Some(from_ns) = self.reached_ns {
            for (index, part_ns) in self.parts(from_ns, t_ns) {
                self.window(index).covered_ns += part_ns;
            }
        }
        self.reached_ns = self.reached_ns.max(Some(t_ns));
    }

    /// Takes the windows of a span out: what accrued in it is unknown.
    pub(super) fn void(&mut self, from_ns: i64, to_ns: i64) {
        for (index, _) in self.parts(from_ns, to_ns) {
            self.window(index).void = true;
        }
    }

    /// The amount of each window that was watched from edge to edge, by the window's number.
    ///
    /// The last, partial window drops out, and so does every window that a gap or a step back of a counter touches.
    pub(super) fn full(&self) -> BTreeMap<i64, f64> {
        let full = self.windows.iter().filter(|(_, window)| !window.void && window.covered_ns == WINDOW_NS);
        full.map(|(k, window)| (*k, window.amount)).collect()
    }

    fn window(&mut self, index: i64) -> &mut Window {
        self.windows.entry(index).or_default()
    }

    /// The windows that a span touches, with the time in each; none for a gap.
    fn parts(&self, from_ns: i64, to_ns: i64) -> impl Iterator<Item = (i64, i64)> + use<> {
        let span_ns = to_ns.saturating_sub(from_ns);
        let sampled = span_ns > 0 && span_ns <= self.longest_step_ns;
        let first = from_ns.div_euclid(WINDOW_NS);
        let last = if sampled { (to_ns - 1).div_euclid(WINDOW_NS) } else { first - 1 };
        (first..=last).map(move |k| {
            let edge = |k: i64| k.saturating_mul(WINDOW_NS);
            (k, to_ns.min(edge(k + 1)) - from_ns.max(edge(k)))
        })
    }
}

/// One series over another, window by window, where both were watched and the whole is not zero.
pub(super) fn ratio(part: &BTreeMap<i64, f64>, whole: &BTreeMap<i64, f64>) -> BTreeMap<i64, f64> {
    let share = |(k, part): (&i64, &f64)| whole.get(k).filter(|whole| **whole > 0.0).map(|whole| (*k, part / whole));
    part.iter().filter_map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: i64 = WINDOW_NS * 3 / 2;

    fn seconds(s: f64) -> i64 {
        (s * 1e9).round() as i64
    }

    #[test]
    fn what_accrues_across_an_edge_is_shared_by_time() {
        let mut windows = Windows::from_start(STEP);
        // 10 over [0, 0.8), then 4 over [0.8, 1.2), half of it on each side; then 6 up to 2.
        for (from, to, amount) in [(0.0, 0.8, 10.0), (0.8, 1.2, 4.0), (1.2, 2.0, 6.0)] {
            windows.add(seconds(from), seconds(to), amount);
            windows.reach(seconds(to));
        }
        assert_eq!(windows.full(), BTreeMap::from([(0, 12.0), (1, 8.0)]));
    }

    #[test]
    fn a_window_that_was_not_watched_from_edge_to_edge_is_left_out() {
        let mut windows = Windows::new(STEP);
        windows.reach(seconds(0.1));
        windows.add(seconds(0.1), seconds(1.0), 9.0);
        windows.reach(seconds(1.0));
        windows.add(seconds(1.0), seconds(2.0), 8.0);
        windows.reach(seconds(2.0));
        windows.add(seconds(2.0), seconds(2.9), 9.0);
        windows.reach(seconds(2.9));
        assert_eq!(windows.full(), BTreeMap::from([(1, 8.0)]));
    }

    #[test]
    fn a_stray_time_stamp_costs_nothing() {
        let mut windows = Windows::from_start(STEP);
        windows.reach(i64::MAX);
        windows.add(i64::MIN, i64::MAX, 1.0);
        windows.void(0, i64::MAX);
        windows.reach(0);
        assert!(windows.full().is_empty() && windows.windows.len() <= 1);
    }
}
