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

/// An axis of time that ends where the data end.
pub(super) fn time_axis(end_s: f64) -> Axis {
    let step = step(end_s);
    Axis::new(0.0, end_s, labels(step, (end_s / step + 1e-9).floor().clamp(0.0, 2.0 * MOST)))
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
    fn harmful_ends_give_a_plain_step() {
        for end in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(step(end), 1.0);
        }
    }
}
