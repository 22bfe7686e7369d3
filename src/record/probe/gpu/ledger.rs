//! What became of the sensors' readings, column by column.

use crate::trace::Table;
use crate::trace::run::{Coverage, CoverageState};
use crate::trace::tables::Gpu;

const SOURCE: &str = "NVML";

/// The columns that sensors fill: all but the keys, time and GPU.
pub(super) fn sensors() -> impl Iterator<Item = &'static str> {
    Gpu::COLUMNS.iter().skip(2).map(|column| column.name)
}

/// A reading that failed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    /// What it means where no reading of the column ever succeeds.
    pub(super) state: CoverageState,
    pub(super) reason: String,
}

/// Columns of one reading that were read, and that were not.
#[derive(Debug, Default)]
pub(super) struct Outcomes(Vec<(&'static str, Option<Failure>)>);

impl Outcomes {
    pub(super) fn succeeded(&mut self, column: &'static str) {
        self.0.push((column, None));
    }

    pub(super) fn failed(&mut self, column: &'static str, failure: Failure) {
        self.0.push((column, Some(failure)));
    }
}

/// The readings of one column of one GPU.
#[derive(Clone, Debug, Default)]
struct Tally {
    read: u64,
    failed: u64,
    failure: Option<Failure>,
}

impl Tally {
    fn verdict(&self) -> (CoverageState, String) {
        match (&self.failure, self.read) {
            (None, 0) => (CoverageState::Lost, "the driver did not answer within the run".to_owned()),
            (None, _) => (CoverageState::Measured, String::new()),
            (Some(failure), 0) => (failure.state, failure.reason.clone()),
            (Some(failure), read) => {
                let all = read + self.failed;
                (CoverageState::Lost, format!("{} of {all} readings failed: {}", self.failed, failure.reason))
            }
        }
    }
}

/// The tallies of one GPU, in the order of the table's columns.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    gpu: i64,
    columns: Vec<(&'static str, Tally)>,
}

impl Ledger {
    pub(super) fn new(gpu: i64) -> Self {
        Self { gpu, columns: sensors().map(|column| (column, Tally::default())).collect() }
    }

    /// Counts what one reading brought.
    pub(super) fn count(&mut self, outcomes: Outcomes) {
        for (column, failure) in outcomes.0 {
            let Some((_, tally)) = self.columns.iter_mut().find(|(name, _)| *name == column) else { continue };
            match failure {
                None => tally.read += 1,
                Some(failure) => {
                    tally.failed += 1;
                    tally.failure = Some(failure);
                }
            }
        }
    }

    fn has_read_nothing(&self) -> bool {
        self.columns.iter().all(|(_, tally)| tally.read == 0)
    }
}

/// The trace's lines over all GPUs: one a column, and a single one where no sensor of any GPU gave a value.
pub(super) fn coverage(ledgers: &[Ledger]) -> Vec<Coverage> {
    let Some(first) = ledgers.first() else { return Vec::new() };
    if ledgers.iter().all(Ledger::has_read_nothing) {
        let (state, reason) = first.columns[0].1.verdict();
        return vec![line(String::new(), state, format!("no sensor of any GPU gave a value: {reason}"))];
    }
    let columns = first.columns.iter().enumerate();
    columns.map(|(index, (name, _))| of_column(ledgers, index, format!(".{name}"))).collect()
}

/// One GPU with a gap makes the column lost; one that never had the sensor is named, and the others count.
fn of_column(ledgers: &[Ledger], index: usize, suffix: String) -> Coverage {
    let verdicts: Vec<_> = ledgers.iter().map(|ledger| (ledger.gpu, ledger.columns[index].1.verdict())).collect();
    let order = [CoverageState::Lost, CoverageState::Measured, CoverageState::Denied, CoverageState::Unsupported];
    let found = order.into_iter().find(|state| verdicts.iter().any(|(_, verdict)| verdict.0 == *state));
    let missing = verdicts.iter().filter(|(_, verdict)| verdict.0 != CoverageState::Measured);
    let reasons: Vec<String> = missing
        .map(|(gpu, (_, reason))| if ledgers.len() > 1 { format!("GPU {gpu}: {reason}") } else { reason.clone() })
        .collect();
    line(suffix, found.unwrap_or(CoverageState::Unsupported), reasons.join("; "))
}

/// The line of a machine without GPUs that could be measured.
pub(super) fn absent(reason: &str) -> Coverage {
    line(String::new(), CoverageState::Unsupported, reason.to_owned())
}

fn line(suffix: String, state: CoverageState, reason: String) -> Coverage {
    Coverage { metric: format!("{}{suffix}", Gpu::NAME), state, source: SOURCE.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(gpu: i64, outcomes: &[(&'static str, Option<CoverageState>)]) -> Ledger {
        let mut ledger = Ledger::new(gpu);
        let failure = |state| Failure { state, reason: "why".to_owned() };
        ledger.count(Outcomes(outcomes.iter().map(|(column, state)| (*column, state.map(failure))).collect()));
        ledger
    }

    fn power(ledgers: &[Ledger]) -> (CoverageState, String) {
        let lines = coverage(ledgers);
        let line = lines.into_iter().find(|line| line.metric == "gpu.power_mw").unwrap();
        (line.state, line.reason)
    }

    #[test]
    fn a_sensor_that_one_of_two_gpus_lacks_is_measured_and_the_gpu_is_named() {
        let ledgers = [
            ledger(0, &[("power_mw", None)]),
            ledger(1, &[("power_mw", Some(CoverageState::Unsupported)), ("energy_mj", None)]),
        ];
        assert_eq!(power(&ledgers), (CoverageState::Measured, "GPU 1: why".to_owned()));
    }

    #[test]
    fn a_sensor_that_fails_after_it_was_read_is_lost() {
        let ledgers = [ledger(0, &[("power_mw", None), ("power_mw", Some(CoverageState::Unsupported))])];
        assert_eq!(power(&ledgers), (CoverageState::Lost, "1 of 2 readings failed: why".to_owned()));
    }

    #[test]
    fn a_gpu_on_which_nothing_can_be_read_gets_one_line() {
        let ledgers = [ledger(0, &[("utilisation_ratio", Some(CoverageState::Unsupported))])];
        let lines = coverage(&ledgers);
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].metric.as_str(), lines[0].state), ("gpu", CoverageState::Unsupported));
    }
}
