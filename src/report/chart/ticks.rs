//! Round numbers along an axis.

use super::canvas::Axis;
use crate::report::format::Scale;

/// Steps that people count in, between one power of ten and the next.
const STEPS: [f64; 4] = [1.0, 2.0, 2.5, 5.0];

/// More labels than this crowd an axis.
const MOST: f64 = 6.0;

/// An axis from zero that reaches `top`, labelled in the unit of `scale`; it ends on a label.
pub(super) fn value_axis(top: f64, scale: &Scale) -> Axis {
    few(top, scale, MOST)
}

/// The same with at most so many steps, for where there is less room.
pub(super) fn few(top: f64, scale: &Scale, most: f64) -> Axis {
    let shown = top * scale.factor;
    let step = step_of(shown, most);
    let count = (shown / step - 1e-9).ceil().clamp(1.0, 2.0 * MOST);
    let labels =
        labels(step, count).into_iter().map(|(value, label)| (value / scale.factor, label + scale.suffix)).collect();
    Axis::new(0.0, step * count / scale.factor, labels)
}

/// An axis of numbers from zero that ends where the data end.
pub(super) fn plain_axis(end: f64) -> Axis {
    let step = step(end);
    Axis::new(0.0, end, labels(step, (end / step + 1e-9).floor().clamp(0.0, 2.0 * MOST)))
}

/// An axis of time that ends where the data end, labelled in the unit that suits its length.
pub(super) fn time_axis(end_s: f64) -> Axis {
    plain_axis(end_s / TimeUnit::of(end_s).seconds()).stretched(TimeUnit::of(end_s).seconds())
}

/// What an axis of time is labelled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Second,
    Minute,
    Hour,
}

impl TimeUnit {
    /// The unit that suits a length.
    pub(crate) fn of(end_s: f64) -> Self {
        match end_s {
            _ if end_s >= 3.0 * 3600.0 => Self::Hour,
            _ if end_s >= 600.0 => Self::Minute,
            _ => Self::Second,
        }
    }

    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "h",
        }
    }

    fn seconds(self) -> f64 {
        match self {
            Self::Second => 1.0,
            Self::Minute => 60.0,
            Self::Hour => 3600.0,
        }
    }
}

/// An axis between two ends, labelled at round numbers.
pub(super) fn span_axis(low: f64, high: f64, scale: &Scale) -> Axis {
    let step = step((high - low) * scale.factor);
    let first = (low * scale.factor / step).ceil();
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize + usize::from(step.log10().fract() != 0.0);
    let scale_of_labels = Scale { factor: 1.0, decimals: decimals.min(9), suffix: scale.suffix };
    let values = (0..=2 * MOST as u32).map(|index| (first + f64::from(index)) * step);
    let labels = values.take_while(|value| *value <= high * scale.factor);
    Axis::new(low, high, labels.map(|value| (value / scale.factor, trimmed(&scale_of_labels, value))).collect())
}

/// An axis between two ends above zero on which equal lengths are equal ratios, labelled at 1, 2 and 5 times the powers
/// of ten; at the powers alone where those were too many.
pub(super) fn log_axis(low: f64, high: f64, scale: &Scale) -> Axis {
    let decades = |value: f64| (value * scale.factor).log10().floor().clamp(-300.0, 300.0) as i32;
    let (first, last) = if low > 0.0 && high.is_finite() { (decades(low), decades(high)) } else { (0, 0) };
    let marks: &[f64] = if last - first > 2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let each = ((last - first) / (2 * MOST as i32) + 1).max(1);
    let values = (first..=last)
        .step_by(each as usize)
        .flat_map(|power| marks.iter().map(move |mark| mark * 10_f64.powi(power)))
        .filter(|value| (low..=high).contains(&(value / scale.factor)));
    let label = |value: f64| {
        let decimals = (-value.log10().floor()).clamp(0.0, 9.0) as usize;
        Scale { factor: 1.0, decimals, suffix: scale.suffix }.text(value)
    };
    Axis::log(low, high, values.map(|value| (value / scale.factor, label(value))).collect())
}

/// Without zeros at the end that say nothing.
fn trimmed(scale: &Scale, value: f64) -> String {
    let number = scale.number(value);
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { &number };
    format!("{number}{}", scale.suffix)
}

fn labels(step: f64, count: f64) -> Vec<(f64, String)> {
    let decimals = usize::from(step < 5.0 && step.fract() != 0.0) + usize::from(step < 0.5) + usize::from(step < 0.05);
    let scale = Scale { factor: 1.0, decimals, suffix: "" };
    (0..=count as u32).map(|index| step * f64::from(index)).map(|value| (value, scale.number(value))).collect()
}

fn step(top: f64) -> f64 {
    step_of(top, MOST)
}

fn step_of(top: f64, most: f64) -> f64 {
    if !top.is_finite() || top <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf((top / most).log10().floor());
    let steps = STEPS.iter().chain(&[10.0]).map(|step| step * power);
    steps.into_iter().find(|step| top / step <= most + 1e-9).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        assert_eq!([step(100.0), step(7.0), step(48.6), step(0.9)], [20.0, 2.0, 10.0, 0.2]);
    }

    #[test]
    fn a_span_is_labelled_at_round_numbers_within_it() {
        let scale = Scale { factor: 1e3, decimals: 2, suffix: " ms" };
        for (axis, right) in [
            (span_axis(0.178, 0.2049, &scale), &["180 ms", "185 ms", "190 ms", "195 ms", "200 ms"][..]),
            (span_axis(0.01, 0.0105, &scale), &["10 ms", "10.1 ms", "10.2 ms", "10.3 ms", "10.4 ms", "10.5 ms"]),
            (log_axis(0.015, 1.2, &scale), &["20 ms", "50 ms", "100 ms", "200 ms", "500 ms", "1,000 ms"]),
            (log_axis(1e-6, 1.0, &scale), &["0.001 ms", "0.01 ms", "0.1 ms", "1 ms", "10 ms", "100 ms", "1,000 ms"]),
        ] {
            assert_eq!(axis.labels(), right);
        }
    }

    #[test]
    fn harmful_spans_give_few_labels() {
        let scale = Scale { factor: 1.0, decimals: 0, suffix: "" };
        let ends = [0.0, -1.0, 1.0, f64::NAN, f64::INFINITY, 1e300, 5e-324];
        for (low, high) in ends.iter().flat_map(|low| ends.map(|high| (*low, high))) {
            assert!(span_axis(low, high, &scale).labels().len() < 20);
            assert!(log_axis(low, high, &scale).labels().len() < 20);
        }
    }

    #[test]
    fn long_times_are_labelled_in_minutes_or_hours() {
        for (end_s, labels) in [
            (48.0, &["0", "10", "20", "30", "40"][..]),
            (1_800.0, &["0", "5", "10", "15", "20", "25", "30"]),
            (86_400.0, &["0", "5", "10", "15", "20"]),
        ] {
            assert_eq!(time_axis(end_s).labels(), labels);
        }
    }

    #[test]
    fn harmful_ends_give_a_plain_step() {
        for end in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(step(end), 1.0);
        }
    }
}
