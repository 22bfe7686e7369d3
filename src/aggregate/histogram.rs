//! How often values occurred, in fixed fine classes: quantiles of any number of values in bounded memory.

use std::collections::BTreeMap;

/// Classes of one doubling of the value, as bits: 1024 of them, so that a value is within 0.05 % of the middle of its
/// class.
const CLASS_BITS: u32 = 10;
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - CLASS_BITS;

/// Counts of values that are not negative.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Histogram {
    /// By the exponent and the first bits of the fraction, which sort as the values do.
    counts: BTreeMap<u32, u64>,
    len: u64,
    range: Option<(f64, f64)>,
}

impl Histogram {
    /// Adds a value; below zero counts as zero.
    pub(super) fn push(&mut self, value: f64) {
        let value = value.max(0.0);
        *self.counts.entry((value.to_bits() >> SHIFT) as u32).or_default() += 1;
        self.len += 1;
        let (min, max) = self.range.unwrap_or((value, value));
        self.range = Some((min.min(value), max.max(value)));
    }

    /// The middle of the class in which the value of that rank lies; least and greatest are exact.
    pub(super) fn quantile(&self, q: f64) -> Option<f64> {
        let (min, max) = self.range?;
        let rank = (q * (self.len - 1) as f64).round() as u64;
        if rank == 0 || rank + 1 == self.len {
            return Some(if rank == 0 { min } else { max });
        }
        let mut passed = 0;
        let class = self.counts.iter().find_map(|(class, count)| {
            passed += count;
            (passed > rank).then_some(*class)
        })?;
        let edge = |class: u32| f64::from_bits(u64::from(class) << SHIFT);
        Some(((edge(class) + edge(class + 1)) / 2.0).clamp(min, max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_within_a_thousandth_of_the_exact_one() {
        let mut histogram = Histogram::default();
        // Values over six decades: x = 10^(6 i / 99999). Its quantile q is 10^(6 q).
        (0..100_000).for_each(|i| histogram.push(10_f64.powf(6.0 * f64::from(i) / 99_999.0)));
        for q in [0.0, 0.05, 0.5, 0.95, 0.999, 1.0] {
            let (found, right) = (histogram.quantile(q).unwrap(), 10_f64.powf(6.0 * q));
            assert!((found / right - 1.0).abs() < 0.001, "{q}: {found} {right}");
        }
        assert!(histogram.counts.len() <= 21 * 1024, "{}", histogram.counts.len());
    }

    #[test]
    fn least_and_greatest_are_exact_and_zero_is_a_value() {
        let mut histogram = Histogram::default();
        [0.0, 0.7, 0.123_456_789].into_iter().for_each(|value| histogram.push(value));
        assert_eq!((histogram.quantile(0.0), histogram.quantile(1.0)), (Some(0.0), Some(0.7)));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn equal_values_have_that_value_as_every_quantile() {
        let mut histogram = Histogram::default();
        (0..10).for_each(|_| histogram.push(0.3));
        assert_eq!(histogram.quantile(0.95), Some(0.3));
    }
}
