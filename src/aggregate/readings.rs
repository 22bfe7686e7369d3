//! Counters and gauges as they are read one after the other: totals over the run, and windows.

use super::series::Series;
use super::windows::{Span, WINDOW_NS, Windows};

/// A cumulative counter.
#[derive(Default)]
pub(super) struct Counter {
    last: Option<(i64, f64)>,
    amount: f64,
    span_ns: i64,
}

/// What a reading says of the time since the one before.
pub(super) enum Change {
    /// It is the first, or no later than the one before.
    Unknown,
    /// So much accrued since that moment.
    Grown { from_ns: i64, amount: f64 },
    /// The counter stepped back: what accrued since that moment is unknown.
    Back { from_ns: i64 },
}

impl Counter {
    /// Takes a reading; null and readings that go back in time are passed over.
    ///
    /// A counter that steps back says nothing of the span before the reading: the total gets nothing of it.
    pub(super) fn push(&mut self, t_ns: i64, value: Option<f64>) -> Change {
        let Some(value) = value else { return Change::Unknown };
        let Some((from_ns, before)) = self.last else {
            self.last = Some((t_ns, value));
            return Change::Unknown;
        };
        if t_ns <= from_ns {
            return Change::Unknown;
        }
        self.last = Some((t_ns, value));
        if value < before {
            return Change::Back { from_ns };
        }
        self.amount += value - before;
        self.span_ns += t_ns.saturating_sub(from_ns);
        Change::Grown { from_ns, amount: value - before }
    }

    /// What accrued from the first reading to the last, gaps included, because a counter counts on through them.
    /// Absent where there are not two readings to compare.
    pub(super) fn amount(&self) -> Option<f64> {
        (self.span_ns > 0).then_some(self.amount)
    }

    /// Amount per nanosecond, over the time in which it is known: last − first over the time between, exactly.
    pub(super) fn rate(&self) -> Option<f64> {
        Some(self.amount()? / self.span_ns as f64)
    }
}

/// The windows of a cumulative counter.
pub(super) struct CounterWindows {
    counter: Counter,
    windows: Windows<Series>,
}

impl CounterWindows {
    /// Each window is what accrued in it, times a factor.
    pub(super) fn new(span: Span, factor: f64) -> Self {
        Self { counter: Counter::default(), windows: Windows::new(span, Series::times(factor)) }
    }

    /// As [`Counter::push`]. A window in which the counter stepped back is left out.
    pub(super) fn push(&mut self, t_ns: i64, value: Option<f64>) {
        match self.counter.push(t_ns, value) {
            Change::Grown { from_ns, amount } => return self.windows.add_and_reach(from_ns, t_ns, [amount]),
            Change::Back { from_ns } => self.windows.void(from_ns, t_ns),
            Change::Unknown => {}
        }
        if value.is_some() {
            self.windows.reach(t_ns);
        }
    }

    pub(super) fn finish(self) -> Series {
        self.windows.finish()
    }
}

/// The mean over time of a quantity that is read as it stands. A reading holds until the next one; across a gap it does
/// not. The first one stands for the time since the run's start, where that is no gap.
pub(super) struct Gauge {
    longest_step_ns: i64,
    last: Option<(i64, f64)>,
    held: f64,
    span_ns: i64,
}

impl Gauge {
    pub(super) fn new(span: Span) -> Self {
        Self { longest_step_ns: span.longest_step_ns, last: None, held: 0.0, span_ns: 0 }
    }

    /// Takes a reading; null and readings that go back in time are passed over. Tells since when which value held.
    pub(super) fn push(&mut self, t_ns: i64, value: Option<f64>) -> Option<(i64, f64)> {
        let value = value?;
        let (from_ns, before) = self.last.unwrap_or((t_ns.min(0), value));
        let span_ns = t_ns.saturating_sub(from_ns);
        if self.last.is_some() && span_ns <= 0 {
            return None;
        }
        if span_ns <= self.longest_step_ns {
            self.held += before * span_ns as f64;
            self.span_ns += span_ns;
        }
        self.last = Some((t_ns, value));
        Some((from_ns, before))
    }

    /// Time over which it is known, gaps left out.
    pub(super) fn span_ns(&self) -> i64 {
        self.span_ns
    }

    /// Mean over time up to the last reading, gaps left out.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.span_ns > 0).then(|| self.held / self.span_ns as f64)
    }
}

/// A gauge, and its mean over time within each window.
pub(super) struct GaugeWindows {
    gauge: Gauge,
    windows: Windows<Series>,
}

impl GaugeWindows {
    pub(super) fn new(span: Span) -> Self {
        Self { gauge: Gauge::new(span), windows: Windows::from_start(span, Series::new()) }
    }

    /// As [`Gauge::push`].
    pub(super) fn push(&mut self, t_ns: i64, value: Option<f64>) {
        if let Some((from_ns, held)) = self.gauge.push(t_ns, value) {
            let span_ns = t_ns.saturating_sub(from_ns);
            self.windows.add_and_reach(from_ns, t_ns, [held * (span_ns as f64 / WINDOW_NS as f64)]);
        }
    }

    pub(super) fn mean(&self) -> Option<f64> {
        self.gauge.mean()
    }

    pub(super) fn finish(self) -> Series {
        self.windows.finish()
    }
}

/// Integral of a gauge over time in seconds by the trapezoid rule; gaps add nothing.
pub(super) struct Trapezoid {
    longest_step_ns: i64,
    last: Option<(i64, f64)>,
    area: Option<f64>,
}

impl Trapezoid {
    pub(super) fn new(span: Span) -> Self {
        Self { longest_step_ns: span.longest_step_ns, last: None, area: None }
    }

    pub(super) fn push(&mut self, t_ns: i64, value: Option<f64>) {
        let Some(value) = value else { return };
        if let Some((from_ns, before)) = self.last {
            let span_ns = t_ns.saturating_sub(from_ns);
            if span_ns > 0 && span_ns <= self.longest_step_ns {
                let added = (before + value) / 2.0 * (span_ns as f64 / 1e9);
                self.area = Some(self.area.unwrap_or_default() + added);
            }
        }
        self.last = Some((t_ns, value));
    }

    /// Unit of the gauge × seconds; absent where no two readings were close enough.
    pub(super) fn area(&self) -> Option<f64> {
        self.area
    }
}

/// Raises what is kept to a value that is there and greater.
pub(super) fn raise(kept: &mut Option<f64>, value: Option<f64>) {
    if let Some(value) = value
        && kept.is_none_or(|kept| value > kept)
    {
        *kept = Some(value);
    }
}

/// Greatest of the values that are there.
pub(super) fn greatest(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().reduce(f64::max)
}

/// Sum of the values that are there; absent where none is.
pub(super) fn sum(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().reduce(|sum, value| sum + value)
}

/// Mean of the values that are there.
pub(super) fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.flatten().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::f64::consts::TAU;

    use super::*;

    fn ns(s: f64) -> i64 {
        (s * 1e9).round() as i64
    }

    fn span(interval_s: f64) -> Span {
        Span::new(ns(interval_s), None)
    }

    /// The totals and the windows.
    fn counter(interval_s: f64, end_s: f64, value: impl Fn(f64) -> f64) -> (Counter, BTreeMap<i64, f64>) {
        let (mut counter, mut windows) = (Counter::default(), CounterWindows::new(span(interval_s), 1.0));
        let ticks = (end_s / interval_s).round() as u32;
        for t in (0..=ticks).map(|tick| f64::from(tick) * interval_s) {
            counter.push(ns(t), Some(value(t)));
            windows.push(ns(t), Some(value(t)));
        }
        (counter, windows.finish().windows())
    }

    #[test]
    fn a_steady_load_gives_the_same_windows_at_any_interval() {
        for interval in [0.1, 0.25, 0.3, 0.7] {
            let (_, rates) = counter(interval, 21.0, |t| 3.0 * t);
            assert_eq!(rates.len(), 21, "{interval}");
            assert!(rates.values().all(|rate| (rate - 3.0).abs() < 1e-9), "{interval}: {rates:?}");
        }
    }

    #[test]
    fn a_swinging_load_gives_the_windows_of_its_integral_at_any_interval() {
        // Load 2 + sin(2πt/5): its counter is 2t + 5/2π (1 − cos(2πt/5)), whose differences over whole seconds are the
        // right values. Where ticks fall on the edges nothing is interpolated.
        let integral = |t: f64| 2.0 * t + 5.0 / TAU * (1.0 - (TAU * t / 5.0).cos());
        for (interval, tolerance) in [(0.1, 1e-9), (0.25, 1e-9), (0.15, 0.01), (0.35, 0.05)] {
            let (_, rates) = counter(interval, 21.0, integral);
            for k in 0..20_i64 {
                let right = integral((k + 1) as f64) - integral(k as f64);
                assert!((rates[&k] - right).abs() < tolerance, "{interval} s, window {k}: {} {right}", rates[&k]);
            }
        }
    }

    #[test]
    fn the_mean_over_the_run_is_last_minus_first_over_the_time() {
        let (counter, _) = counter(0.35, 7.0, |t| 100.0 + t * t);
        assert!((counter.rate().unwrap() * 1e9 - 7.0).abs() < 1e-12);
        assert!((counter.amount().unwrap() - 49.0).abs() < 1e-12);
    }

    #[test]
    fn a_counter_that_steps_back_takes_its_windows_out_and_counts_on() {
        // 1 a second, set back to 0 between 2.4 s and 2.5 s.
        let (counter, rates) = counter(0.1, 5.0, |t| if t < 2.45 { t } else { t - 2.5 });
        assert_eq!(rates.keys().copied().collect::<Vec<_>>(), [0, 1, 3, 4]);
        assert!(rates.values().all(|rate| (rate - 1.0).abs() < 1e-9), "{rates:?}");
        assert!((counter.rate().unwrap() * 1e9 - 1.0).abs() < 1e-9);
        assert!((counter.amount().unwrap() - 4.9).abs() < 1e-9, "what accrued in the step back is unknown");
    }

    #[test]
    fn a_gap_has_no_windows_but_its_amount_stays_in_the_total() {
        let (mut counter, mut windows) = (Counter::default(), CounterWindows::new(span(0.1), 1.0));
        for tick in (0..=30).chain(60..=80) {
            counter.push(i64::from(tick) * ns(0.1), Some(f64::from(tick)));
            windows.push(i64::from(tick) * ns(0.1), Some(f64::from(tick)));
        }
        assert_eq!(windows.finish().windows().keys().copied().collect::<Vec<_>>(), [0, 1, 2, 6, 7]);
        assert_eq!(counter.amount(), Some(80.0));
    }

    #[test]
    fn readings_that_are_missing_are_bridged_and_a_single_one_says_nothing() {
        let mut windows = CounterWindows::new(span(0.1), 1.0);
        windows.push(0, Some(0.0));
        assert_eq!(windows.counter.rate(), None);
        windows.push(ns(0.5), None);
        windows.push(ns(1.0), Some(8.0));
        assert_eq!(windows.finish().windows(), BTreeMap::from([(0, 8.0)]));
    }

    #[test]
    fn a_gauge_is_weighted_by_the_time_that_it_held() {
        let mut gauge = GaugeWindows::new(span(0.1));
        for (t, value) in [(0.1, 1.0), (0.2, 6.0), (1.5, 2.0), (2.0, 9.0)] {
            gauge.push(ns(t), Some(value));
        }
        // By hand: 0.2 × 1 (from the start on) + 0.8 × 6 = 5.0; 0.5 × 6 + 0.5 × 2 = 4.0; together 9.0 over 2 s.
        assert!((gauge.mean().unwrap() - 4.5).abs() < 1e-12);
        let means = gauge.finish().windows();
        assert!((means[&0] - 5.0).abs() < 1e-12 && (means[&1] - 4.0).abs() < 1e-12, "{means:?}");
    }

    #[test]
    fn the_trapezoid_rule_skips_gaps() {
        let mut power = Trapezoid::new(span(0.1));
        for (t, value) in [(0.0, 100.0), (1.0, 200.0), (2.0, 100.0), (9.0, 400.0), (9.5, 200.0)] {
            power.push(ns(t), Some(value));
        }
        // numpy.trapezoid([100, 200, 100], [0, 1, 2]) + numpy.trapezoid([400, 200], [9, 9.5]) = 300 + 150.
        assert_eq!(power.area(), Some(450.0));
    }
}
