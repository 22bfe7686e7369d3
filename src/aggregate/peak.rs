//! The greatest sum of many that come, change and go.

use std::collections::BTreeMap;

use super::readings::greatest;

/// A sum as it changes over time. Changes of one moment count together.
#[derive(Default)]
pub(super) struct Peak {
    /// Changes that are not in the sum yet, because one of an earlier moment may still come.
    coming: BTreeMap<i64, f64>,
    sum: f64,
    highest: Option<f64>,
}

impl Peak {
    pub(super) fn change(&mut self, t_ns: i64, by: f64) {
        if by != 0.0 {
            *self.coming.entry(t_ns).or_default() += by;
        }
    }

    /// Takes what changed before a moment: nothing earlier will come.
    pub(super) fn settle(&mut self, before_ns: i64) {
        let later = self.coming.split_off(&before_ns);
        for by in std::mem::replace(&mut self.coming, later).into_values() {
            self.sum += by;
            self.highest = greatest([self.highest, Some(self.sum)].into_iter());
        }
    }

    /// The greatest sum so far; absent where nothing ever changed.
    pub(super) fn highest(mut self) -> Option<f64> {
        self.settle(i64::MAX);
        self.highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_that_of_the_order_of_time_whenever_it_is_told() {
        let mut peak = Peak::default();
        // By hand, in the order of time: 2, 5, 3, 4.
        for (t, by) in [(0, 2.0), (20, -2.0), (10, 3.0), (30, 1.0)] {
            peak.change(t, by);
            peak.settle(t - 15);
        }
        assert_eq!(peak.coming.len(), 2);
        assert_eq!(peak.highest(), Some(5.0));
    }

    #[test]
    fn who_comes_when_another_goes_does_not_add_to_it() {
        let mut peak = Peak::default();
        [(0, 1.0), (5, 1.0), (5, -1.0)].into_iter().for_each(|(t, by)| peak.change(t, by));
        assert_eq!(peak.highest(), Some(1.0));
        assert_eq!(Peak::default().highest(), None);
    }
}
