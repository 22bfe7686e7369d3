//! One ledger out of the ledgers of all runs.

use std::collections::BTreeMap;

use crate::trace::run::Coverage;

/// One entry a metric and state, sorted by both: a metric that was measured in one run and lost in another has two.
/// Of the same metric and state the first run's source and reason stay.
pub(super) fn merge<'a>(entries: impl Iterator<Item = &'a Coverage>) -> Vec<Coverage> {
    let mut merged = BTreeMap::new();
    for entry in entries {
        merged.entry((&entry.metric, entry.state)).or_insert(entry);
    }
    merged.into_values().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::run::CoverageState::{self, Lost, Measured, Unsupported};

    fn entry(metric: &str, state: CoverageState, source: &str) -> Coverage {
        Coverage { metric: metric.into(), state, source: source.into(), reason: String::new() }
    }

    #[test]
    fn states_that_differ_between_runs_stay_apart() {
        let first = [entry("host", Measured, "/proc/stat"), entry("gpu.power_mw", Measured, "NVML")];
        let second = [
            entry("gpu.power_mw", Lost, "NVML"),
            entry("host", Measured, "elsewhere"),
            entry("core", Unsupported, "/proc/stat"),
        ];
        let merged = merge(first.iter().chain(&second));
        let right = [&second[2], &first[1], &second[0], &first[0]];
        assert_eq!(merged.iter().collect::<Vec<_>>(), right);
    }
}
