//! One ledger out of the ledgers of all runs.

use std::collections::BTreeMap;

use crate::trace::Run;
use crate::trace::run::{Coverage, CoverageState};

/// The ledger of a run, less what it claims of tables that are not there (any more).
pub(super) fn of_run(run: &Run) -> Vec<Coverage> {
    run.record.coverage.iter().map(|entry| as_found(run, entry)).collect()
}

fn as_found(run: &Run, entry: &Coverage) -> Coverage {
    match entry.table().filter(|_| entry.claims_missing(|table| run.has_table(table))) {
        None => entry.clone(),
        Some(table) => {
            let reason = format!("the run's table `{table}` is missing");
            Coverage { state: CoverageState::Lost, reason, ..entry.clone() }
        }
    }
}

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
    use crate::aggregate::testing::{Recorded, record, store};
    use crate::trace::RunRecord;
    use crate::trace::run::CoverageState::{Lost, Measured, Unsupported};
    use crate::trace::run::{CONTAINER, SOFTWARE};
    use crate::trace::tables::Host;

    fn entry(metric: &str, state: CoverageState, source: &str) -> Coverage {
        Coverage { metric: metric.into(), state, source: source.into(), reason: String::new() }
    }

    #[test]
    fn a_table_that_is_gone_was_not_measured_whatever_the_ledger_says() {
        let mut recorded = Recorded::new();
        let told = RunRecord { coverage: vec![entry("host.cpu", Measured, "/proc/stat")], ..record() };
        let run = recorded.run("a", told);
        store(run, [Host::default()]);
        assert_eq!(of_run(run), run.record.coverage);
        std::fs::remove_file(run.dir.join("host.parquet")).unwrap();
        let found = of_run(run);
        assert_eq!((found[0].state, found[0].reason.as_str()), (Lost, "the run's table `host` is missing"));
    }

    #[test]
    fn what_is_told_in_the_record_itself_needs_no_table() {
        let mut recorded = Recorded::new();
        let told = [entry(SOFTWARE, Measured, "/proc/PID/maps"), entry(CONTAINER, Measured, "/proc/PID/root")];
        let run = recorded.run("a", RunRecord { coverage: told.to_vec(), ..record() });
        assert_eq!(of_run(run), told);
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
