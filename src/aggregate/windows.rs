//! Amounts in fixed windows of one second, so that results do not depend on how often was sampled.

use std::collections::VecDeque;

use crate::trace::RunRecord;

/// Length of a window. Window k is [k, k + 1) seconds since the run's start.
pub(super) const WINDOW_NS: i64 = 1_000_000_000;

/// Windows that a run's readings can tell of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Longest time between two readings that still counts as sampled, in nanoseconds; anything longer is a gap.
    pub(super) longest_step_ns: i64,
    /// Processes that outlived the root are still read while they are ended: what is beyond is not the run's.
    end_ns: i64,
}

impl Span {
    pub(super) fn of(record: &RunRecord) -> Self {
        Self::new(record.interval_ns, record.duration_ns)
    }

    /// Unchanged values are written at least each second, and a late tick may take half a second more. Above half a
    /// second of sampling interval, two missed ticks are let pass. A run that was cut has no end.
    pub(super) fn new(interval_ns: i64, duration_ns: Option<i64>) -> Self {
        let longest_step_ns = interval_ns.saturating_mul(3).max(WINDOW_NS * 3 / 2);
        Self { longest_step_ns, end_ns: duration_ns.unwrap_or(i64::MAX) }
    }
}

/// What turns CPU time of a window into the share of what the run may use; no number where nobody knows what that is.
pub(super) fn share_of_limit(record: &RunRecord) -> f64 {
    record.limits.cpu_cores.map_or(f64::NAN, |cores| 1.0 / (WINDOW_NS as f64 * cores))
}

/// What becomes of windows that were watched from edge to edge; they come in the order of time.
pub(super) trait Keep<const N: usize> {
    fn keep(&mut self, window: i64, amounts: [f64; N]);
}

/// Amounts (CPU time, bytes held × time, …) that accrued over time, and the time in which they were watched.
///
/// Spreading what accrued between two readings evenly over the time between them is the same as interpolating the
/// counter linearly at the edges of the windows.
///
/// Only the newest windows are open. Those that no reading can change any more are handed on, so that memory does not
/// grow with the length of a run. The last, partial window drops out, and so does every window that a gap or a step back
/// of a counter touches.
pub(super) struct Windows<K, const N: usize = 1> {
    pub(super) kept: K,
    span: Span,
    /// How long after its end a window may still get something.
    late_ns: i64,
    reached_ns: Option<i64>,
    /// So far behind the newest window nothing is known late.
    most_open: i64,
    /// Number of the first open window.
    first: i64,
    open: VecDeque<Window<N>>,
}

#[derive(Clone, Copy)]
struct Window<const N: usize> {
    amounts: [f64; N],
    covered_ns: i64,
    void: bool,
}

impl<K: Keep<N>, const N: usize> Windows<K, N> {
    /// Of one counter, whose readings come in the order of time. Nothing is watched before the first reading.
    pub(super) fn new(span: Span, kept: K) -> Self {
        Self::with_late(span, kept, 0)
    }

    /// The run's start counts as a reading: what happens before the first one is known, or taken to be known.
    pub(super) fn from_start(span: Span, kept: K) -> Self {
        Self { reached_ns: Some(0), ..Self::new(span, kept) }
    }

    /// As [`Self::from_start`], of many processes whose readings alternate: what is known late still counts.
    pub(super) fn of_many(span: Span, kept: K) -> Self {
        let late_ns = span.longest_step_ns.saturating_mul(2).saturating_add(WINDOW_NS);
        Self { reached_ns: Some(0), ..Self::with_late(span, kept, late_ns) }
    }

    fn with_late(span: Span, kept: K, late_ns: i64) -> Self {
        let most_open = span.longest_step_ns.saturating_add(late_ns) / WINDOW_NS + 2;
        Self { kept, span, late_ns, reached_ns: None, most_open, first: 0, open: VecDeque::new() }
    }

    /// Adds what accrued between two readings; across a gap nobody knows when it did, so it is left out.
    pub(super) fn add(&mut self, from_ns: i64, to_ns: i64, amounts: [f64; N]) {
        let span_ns = to_ns.saturating_sub(from_ns);
        if span_ns <= 0 {
            self.with(to_ns.div_euclid(WINDOW_NS), |window| window.add(amounts, 1.0));
        }
        for (index, part_ns) in self.parts(from_ns, to_ns) {
            self.with(index, |window| window.add(amounts, part_ns as f64 / span_ns as f64));
        }
    }

    /// Marks the time since the last reading as watched, unless that is a gap.
    pub(super) fn reach(&mut self, t_ns: i64) {
        if let Some(from_ns) = self.reached_ns {
            for (index, part_ns) in self.parts(from_ns, t_ns) {
                self.with(index, |window| window.covered_ns += part_ns);
            }
        }
        self.reached_ns = self.reached_ns.max(Some(t_ns));
        self.settle_before(t_ns);
    }

    /// Both at once, of what accrued since the last reading.
    pub(super) fn add_and_reach(&mut self, from_ns: i64, to_ns: i64, amounts: [f64; N]) {
        if self.reached_ns != Some(from_ns) || to_ns <= from_ns {
            self.add(from_ns, to_ns, amounts);
            return self.reach(to_ns);
        }
        let span_ns = to_ns.saturating_sub(from_ns);
        for (index, part_ns) in self.parts(from_ns, to_ns) {
            self.with(index, |window| {
                window.add(amounts, part_ns as f64 / span_ns as f64);
                window.covered_ns += part_ns;
            });
        }
        self.reached_ns = Some(to_ns);
        self.settle_before(to_ns);
    }

    /// Takes the windows of a span out: what accrued in it is unknown.
    pub(super) fn void(&mut self, from_ns: i64, to_ns: i64) {
        for (index, _) in self.parts(from_ns, to_ns) {
            self.with(index, |window| window.void = true);
        }
    }

    /// All windows that were watched from edge to edge.
    pub(super) fn finish(mut self) -> K {
        self.settle(self.first.saturating_add(i64::try_from(self.open.len()).unwrap_or(i64::MAX)));
        self.kept
    }

    /// Does something with an open window; one that was handed on stays as it is.
    fn with(&mut self, index: i64, change: impl FnOnce(&mut Window<N>)) {
        let oldest = index.saturating_sub(self.most_open);
        self.settle(oldest);
        if self.open.is_empty() {
            self.first = self.first.max(oldest);
        }
        let Ok(place) = usize::try_from(index.saturating_sub(self.first)) else { return };
        while self.open.len() <= place {
            self.open.push_back(Window { amounts: [0.0; N], covered_ns: 0, void: false });
        }
        change(&mut self.open[place]);
    }

    /// Hands on the windows that end before a reading, as far as nothing can come to them any more.
    fn settle_before(&mut self, t_ns: i64) {
        let settled_ns = t_ns.saturating_sub(self.late_ns);
        if settled_ns >= self.first.saturating_add(1).saturating_mul(WINDOW_NS) {
            self.settle(settled_ns.div_euclid(WINDOW_NS));
        }
    }

    /// Hands on the windows before one.
    fn settle(&mut self, before: i64) {
        while self.first < before
            && let Some(window) = self.open.pop_front()
        {
            let end_ns = self.first.saturating_add(1).saturating_mul(WINDOW_NS);
            if window.covered_ns == WINDOW_NS && !window.void && end_ns <= self.span.end_ns {
                self.kept.keep(self.first, window.amounts);
            }
            self.first += 1;
        }
    }

    /// The windows that a span touches, with the time in each; none for a gap.
    fn parts(&self, from_ns: i64, to_ns: i64) -> impl Iterator<Item = (i64, i64)> + use<K, N> {
        let span_ns = to_ns.saturating_sub(from_ns);
        let sampled = span_ns > 0 && span_ns <= self.span.longest_step_ns;
        let first = from_ns.div_euclid(WINDOW_NS);
        let last = if sampled { (to_ns - 1).div_euclid(WINDOW_NS) } else { first - 1 };
        (first..=last).map(move |k| {
            let edge = |k: i64| k.saturating_mul(WINDOW_NS);
            (k, to_ns.min(edge(k + 1)) - from_ns.max(edge(k)))
        })
    }
}

impl<const N: usize> Window<N> {
    fn add(&mut self, amounts: [f64; N], share: f64) {
        for (sum, amount) in self.amounts.iter_mut().zip(amounts) {
            *sum += amount * share;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SPAN: Span = Span { longest_step_ns: WINDOW_NS * 3 / 2, end_ns: i64::MAX };

    impl Keep<1> for BTreeMap<i64, f64> {
        fn keep(&mut self, window: i64, [amount]: [f64; 1]) {
            self.insert(window, amount);
        }
    }

    fn seconds(s: f64) -> i64 {
        (s * 1e9).round() as i64
    }

    fn from_start(span: Span) -> Windows<BTreeMap<i64, f64>> {
        Windows::from_start(span, BTreeMap::new())
    }

    #[test]
    fn what_accrues_across_an_edge_is_shared_by_time() {
        let mut windows = from_start(SPAN);
        // 10 over [0, 0.8), then 4 over [0.8, 1.2), half of it on each side; then 6 up to 2.
        for (from, to, amount) in [(0.0, 0.8, 10.0), (0.8, 1.2, 4.0), (1.2, 2.0, 6.0)] {
            windows.add(seconds(from), seconds(to), [amount]);
            windows.reach(seconds(to));
        }
        assert_eq!(windows.finish(), BTreeMap::from([(0, 12.0), (1, 8.0)]));
    }

    #[test]
    fn a_window_that_was_not_watched_from_edge_to_edge_is_left_out() {
        let mut windows = Windows::new(SPAN, BTreeMap::new());
        windows.reach(seconds(0.1));
        windows.add(seconds(0.1), seconds(1.0), [9.0]);
        windows.reach(seconds(1.0));
        windows.add(seconds(1.0), seconds(2.0), [8.0]);
        windows.reach(seconds(2.0));
        windows.add(seconds(2.0), seconds(2.9), [9.0]);
        windows.reach(seconds(2.9));
        assert_eq!(windows.finish(), BTreeMap::from([(1, 8.0)]));
    }

    #[test]
    fn a_window_that_ends_after_the_run_is_left_out() {
        let mut windows = from_start(Span { end_ns: seconds(2.5), ..SPAN });
        for second in 0..5 {
            windows.add(second * WINDOW_NS, (second + 1) * WINDOW_NS, [1.0]);
            windows.reach((second + 1) * WINDOW_NS);
        }
        assert_eq!(windows.finish(), BTreeMap::from([(0, 1.0), (1, 1.0)]));
    }

    #[test]
    fn what_one_of_many_tells_late_still_counts() {
        let mut windows = Windows::of_many(SPAN, BTreeMap::new());
        for second in 1..=3 {
            windows.reach(second * WINDOW_NS);
        }
        windows.add(seconds(0.5), seconds(1.5), [4.0]);
        windows.reach(seconds(4.0));
        assert_eq!(windows.finish(), BTreeMap::from([(0, 2.0), (1, 2.0), (2, 0.0), (3, 0.0)]));
    }

    #[test]
    fn the_number_of_open_windows_does_not_grow_with_the_run() {
        let (mut one, mut many) = (from_start(SPAN), Windows::of_many(SPAN, BTreeMap::new()));
        for tick in 0..100_000 {
            for windows in [&mut one, &mut many] {
                windows.add(tick * WINDOW_NS / 10, (tick + 1) * WINDOW_NS / 10, [1.0]);
                windows.reach((tick + 1) * WINDOW_NS / 10);
            }
            assert!(one.open.len() <= 2 && many.open.len() <= 6, "{} {}", one.open.len(), many.open.len());
        }
        assert_eq!((one.finish().len(), many.finish().len()), (10_000, 10_000));
    }

    #[test]
    fn a_stray_time_stamp_costs_nothing() {
        let mut windows = from_start(SPAN);
        windows.reach(i64::MAX);
        windows.add(i64::MIN, i64::MAX, [1.0]);
        windows.add(i64::MAX, i64::MIN, [1.0]);
        windows.void(0, i64::MAX);
        windows.reach(0);
        windows.add(0, WINDOW_NS, [1.0]);
        assert!(windows.open.len() <= 2, "{}", windows.open.len());
        assert!(windows.finish().is_empty());
    }
}
