//! What became of the sensors' readings, column by column.

use crate::trace::Table;
use crate::trace::run::{Coverage, CoverageState, GpuRef};
use crate::trace::tables::Gpu;

const SOURCE: &str = "NVML";

/// The columns that say which device and time a row is of.
const KEYS: [&str; 3] = ["t_ns", "gpu", "mig_instance"];
/// What the driver tells of single MIG instances.
pub(super) const OF_INSTANCES: [&str; 5] =
    ["memory_used_bytes", "memory_own_bytes", "memory_reserved_bytes", "memory_others_bytes", "processes_others"];

/// The columns that sensors fill.
pub(super) fn sensors() -> impl Iterator<Item = &'static str> {
    Gpu::COLUMNS.iter().map(|column| column.name).filter(|name| !KEYS.contains(name))
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
pub(super) struct Outcomes {
    columns: Vec<(&'static str, Option<Failure>)>,
    notes: Vec<(&'static str, &'static str)>,
}

impl Outcomes {
    pub(super) fn succeeded(&mut self, column: &'static str) {
        self.columns.push((column, None));
    }

    pub(super) fn failed(&mut self, column: &'static str, failure: Failure) {
        self.columns.push((column, Some(failure)));
    }

    /// Keeps a value, or why there is none.
    pub(super) fn take<T>(&mut self, column: &'static str, value: Result<T, Failure>) -> Option<T> {
        match value {
            Ok(value) => {
                self.succeeded(column);
                Some(value)
            }
            Err(failure) => {
                self.failed(column, failure);
                None
            }
        }
    }

    /// What is to be known of a column's values.
    pub(super) fn note(&mut self, column: &'static str, note: &'static str) {
        self.notes.push((column, note));
    }
}

/// The readings of one column of one GPU.
#[derive(Clone, Debug, Default)]
struct Tally {
    read: u64,
    failed: u64,
    failure: Option<Failure>,
    note: &'static str,
}

impl Tally {
    fn verdict(&self) -> (CoverageState, String) {
        match (&self.failure, self.read) {
            (None, 0) => (CoverageState::Lost, "the driver did not answer within the run".to_owned()),
            (None, _) => (CoverageState::Measured, self.note.to_owned()),
            (Some(failure), 0) => (failure.state, failure.reason.clone()),
            (Some(failure), read) => {
                let all = read + self.failed;
                (CoverageState::Lost, format!("{} of {all} readings failed: {}", self.failed, failure.reason))
            }
        }
    }
}

/// The tallies of one GPU or MIG instance, in the order of the table's columns.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    gpu: GpuRef,
    columns: Vec<(&'static str, Tally)>,
}

impl Ledger {
    pub(super) fn new(gpu: GpuRef) -> Self {
        Self { gpu, columns: sensors().map(|column| (column, Tally::default())).collect() }
    }

    /// Counts what one reading brought.
    pub(super) fn count(&mut self, outcomes: Outcomes) {
        for (column, note) in outcomes.notes {
            self.note(column, note);
        }
        for (column, failure) in outcomes.columns {
            let Some(tally) = self.tally(column) else { continue };
            match failure {
                None => tally.read += 1,
                Some(failure) => {
                    tally.failed += 1;
                    tally.failure = Some(failure);
                }
            }
        }
    }

    pub(super) fn note(&mut self, column: &str, note: &'static str) {
        if let Some(tally) = self.tally(column) {
            tally.note = note;
        }
    }

    fn tally(&mut self, column: &str) -> Option<&mut Tally> {
        self.columns.iter_mut().find(|(name, _)| *name == column).map(|(_, tally)| tally)
    }

    /// Whether the driver tells such a figure of this kind of device at all.
    fn may_have(&self, column: &str) -> bool {
        self.gpu.mig_instance.is_none() || OF_INSTANCES.contains(&column)
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
    let asked = ledgers.iter().filter(|ledger| ledger.may_have(ledger.columns[index].0));
    let verdicts: Vec<_> = asked.map(|ledger| (ledger.gpu, ledger.columns[index].1.verdict())).collect();
    let order = [CoverageState::Lost, CoverageState::Measured, CoverageState::Denied, CoverageState::Unsupported];
    let found = order.into_iter().find(|state| verdicts.iter().any(|(_, verdict)| verdict.0 == *state));
    line(suffix, found.unwrap_or(CoverageState::Unsupported), reasons(&verdicts, ledgers.len() > 1))
}

/// What is to be said of the GPUs: once where it is the same of all, else with their names.
fn reasons(verdicts: &[(GpuRef, (CoverageState, String))], several: bool) -> String {
    let said: Vec<_> = verdicts.iter().filter(|(_, (_, reason))| !reason.is_empty()).collect();
    match said.first() {
        Some((_, first)) if said.len() == verdicts.len() && said.iter().all(|(_, verdict)| verdict == first) => {
            first.1.clone()
        }
        _ if !several => said.iter().map(|(_, (_, reason))| reason.clone()).collect(),
        _ => said.iter().map(|(gpu, (_, reason))| format!("{}: {reason}", name(*gpu))).collect::<Vec<_>>().join("; "),
    }
}

/// How a GPU or an instance is called in sentences.
pub(super) fn name(gpu: GpuRef) -> String {
    match gpu.mig_instance {
        Some(instance) => format!("GPU {} MIG {instance}", gpu.gpu),
        None => format!("GPU {}", gpu.gpu),
    }
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
    use crate::record::probe::gpu::choice::whole;

    fn ledger(gpu: u32, outcomes: &[(&'static str, Option<CoverageState>)]) -> Ledger {
        let mut ledger = Ledger::new(whole(gpu));
        let failure = |state| Failure { state, reason: "why".to_owned() };
        let columns = outcomes.iter().map(|(column, state)| (*column, state.map(failure))).collect();
        ledger.count(Outcomes { columns, notes: Vec::new() });
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
    fn what_holds_of_all_gpus_is_said_once() {
        let denied = [("power_mw", Some(CoverageState::Denied)), ("energy_mj", None)];
        assert_eq!(power(&[ledger(0, &denied), ledger(1, &denied)]), (CoverageState::Denied, "why".to_owned()));
    }

    #[test]
    fn an_instance_is_not_blamed_for_what_only_a_whole_gpu_has() {
        let part = GpuRef { gpu: 0, mig_instance: Some(1) };
        assert_eq!(
            power(&[ledger(0, &[("power_mw", None)]), Ledger::new(part)]),
            (CoverageState::Measured, String::new())
        );
    }

    #[test]
    fn a_gpu_on_which_nothing_can_be_read_gets_one_line() {
        let ledgers = [ledger(0, &[("utilisation_ratio", Some(CoverageState::Unsupported))])];
        let lines = coverage(&ledgers);
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].metric.as_str(), lines[0].state), ("gpu", CoverageState::Unsupported));
    }
}
