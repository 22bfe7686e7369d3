//! One GPU, or MIG instance, while it is recorded: what became of its readings, and what is written of them.

use std::collections::BTreeSet;

use super::ledger::{Failure, Ledger, name};
use super::own::{self, Listed};
use super::reading::Reading;
use crate::record::clock::RunClock;
use crate::record::source::Counter;
use crate::trace::Journal;
use crate::trace::run::{CoverageState, GpuRef};
use crate::trace::tables::Gpu;

/// An unchanged GPU is written at least this often, so that a reader can tell "unchanged" from "gone".
const REWRITE_NS: i64 = 1_000_000_000;
/// So many readings of 0 are no accident of a short run.
const MANY_READINGS: u64 = 10;

/// The run's processes, as far as they were ever seen, and whether the driver may mean other pids.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) pids: BTreeSet<i32>,
    pub(super) namespaced: bool,
}

pub(super) struct Recorded {
    pub(super) gpu: GpuRef,
    energy: Counter,
    ecc_corrected: Counter,
    ecc_uncorrected: Counter,
    /// As last read, whether or not it was written.
    pub(super) last: Gpu,
    written: Option<Gpu>,
    ledger: Ledger,
    gone: bool,
    /// Whether a list of processes was matched, and one of the run's was in it.
    pub(super) was_listed: bool,
    pub(super) was_used: bool,
    /// A process of the run's that was not on the device before.
    pub(super) newly_used_by: Option<i32>,
    users: BTreeSet<i32>,
    utilisation: Idleness,
}

/// Whether the driver counts at all: under WSL its figure can stand at 0 while the GPU works.
#[derive(Clone, Copy, Debug, Default)]
struct Idleness {
    zeroes: u64,
    is_busy: bool,
    holds_memory: bool,
}

impl Recorded {
    pub(super) fn new(gpu: GpuRef) -> Self {
        let row = Reading::begin(gpu).row;
        Self {
            gpu,
            energy: Counter::default(),
            ecc_corrected: Counter::default(),
            ecc_uncorrected: Counter::default(),
            last: row,
            written: None,
            ledger: Ledger::new(gpu),
            gone: false,
            was_listed: false,
            was_used: false,
            newly_used_by: None,
            users: BTreeSet::new(),
            utilisation: Idleness::default(),
        }
    }

    /// Writes a reading; returns what is to be said of the device, if it was lost or came back.
    pub(super) fn take(
        &mut self,
        mut reading: Reading,
        clock: &RunClock,
        family: &mut Family,
        journal: &Journal,
    ) -> Option<String> {
        reading.row.t_ns = clock.since_start(reading.at_ns).max(0);
        self.count(&mut reading);
        if let Some(listed) = reading.processes.take() {
            self.share(&mut reading, &listed, family);
        }
        let event = self.notice(&reading);
        self.ledger.count(reading.outcomes);
        for sample in reading.samples {
            // What the driver sampled before the run is not the run's.
            if let t_ns @ 0.. = clock.since_start(sample.t_ns) {
                self.last.utilisation_ratio = sample.utilisation_ratio.or(self.last.utilisation_ratio);
                self.utilisation.look(sample.utilisation_ratio);
                journal.append(Gpu { t_ns, ..sample });
            }
        }
        self.utilisation.look(reading.row.utilisation_ratio);
        self.utilisation.holds_memory |= reading.row.memory_own_bytes.is_some_and(|bytes| bytes > 0);
        self.write(reading.row, journal);
        event
    }

    /// Makes the device's counters those of the run.
    fn count(&mut self, reading: &mut Reading) {
        let row = &mut reading.row;
        let counters = [
            ("energy_mj", &mut self.energy, &mut row.energy_mj),
            ("ecc_corrected_errors", &mut self.ecc_corrected, &mut row.ecc_corrected_errors),
            ("ecc_uncorrected_errors", &mut self.ecc_uncorrected, &mut row.ecc_uncorrected_errors),
        ];
        for (column, counter, value) in counters {
            let told = *value;
            *value = counter.since_first(told);
            if told.is_some() && value.is_none() {
                let reason = "the device's counter stepped back".to_owned();
                reading.outcomes.failed(column, Failure { state: CoverageState::Lost, reason });
            }
        }
    }

    fn share(&mut self, reading: &mut Reading, listed: &[Listed], family: &mut Family) {
        let is_own = |pid| family.pids.contains(&pid);
        let shares = own::shares(listed, is_own, family.namespaced, own::is_visible);
        let is_matched = shares.others.is_ok();
        let own = listed.iter().map(|process| process.pid).filter(|pid| is_matched && is_own(*pid));
        let own: Vec<i32> = own.collect();
        self.was_listed |= is_matched;
        self.was_used |= !own.is_empty();
        self.newly_used_by = own.iter().copied().find(|pid| self.users.insert(*pid));
        let (row, outcomes) = (&mut reading.row, &mut reading.outcomes);
        // A driver that has named one of ours does translate: its empty lists count from now on.
        family.namespaced &= own.is_empty();
        row.memory_own_bytes = outcomes.take("memory_own_bytes", shares.own_bytes);
        row.memory_others_bytes = outcomes.take("memory_others_bytes", shares.others_bytes);
        row.processes_others = outcomes.take("processes_others", shares.others);
    }

    fn notice(&mut self, reading: &Reading) -> Option<String> {
        let seconds = reading.row.t_ns as f64 / 1e9;
        let was_gone = std::mem::replace(&mut self.gone, reading.gone.is_some());
        match &reading.gone {
            Some(reason) if !was_gone => {
                Some(format!("{} was lost {seconds:.1} s into the run: {reason}", name(self.gpu)))
            }
            None if was_gone => Some(format!("{} answered again {seconds:.1} s into the run", name(self.gpu))),
            _ => None,
        }
    }

    fn write(&mut self, row: Gpu, journal: &Journal) {
        let unchanged = self.written.as_ref().is_some_and(|written| {
            row.t_ns - written.t_ns < REWRITE_NS && Gpu { t_ns: written.t_ns, ..row.clone() } == *written
        });
        if !unchanged {
            journal.append(row.clone());
            self.written = Some(row.clone());
        }
        // Where the driver samples by itself, its last figure stands in another row.
        let utilisation_ratio = row.utilisation_ratio.or(self.last.utilisation_ratio.filter(|_| !self.gone));
        self.last = Gpu { utilisation_ratio, ..row };
    }

    pub(super) fn into_ledger(mut self) -> Ledger {
        if self.utilisation.is_stuck() {
            self.ledger.note(
                "utilisation_ratio",
                "stood at 0 throughout although the run held memory here: it was idle, or the driver does not count (WSL)",
            );
        }
        self.ledger
    }
}

impl Idleness {
    fn look(&mut self, utilisation: Option<f64>) {
        self.zeroes += u64::from(utilisation == Some(0.0));
        self.is_busy |= utilisation.is_some_and(|ratio| ratio > 0.0);
    }

    fn is_stuck(self) -> bool {
        self.holds_memory && !self.is_busy && self.zeroes >= MANY_READINGS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::probe::gpu::choice::whole;
    use crate::trace::journal;
    use crate::trace::tables::Row;

    /// What the journal has after a device was used.
    fn written(use_it: impl FnOnce(&mut Recorded, &Journal)) -> Vec<Gpu> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let journal = Journal::create(&path).unwrap();
        use_it(&mut Recorded::new(whole(0)), &journal);
        drop(journal);
        let mut rows = Vec::new();
        journal::read(&path, |row| {
            if let Row::Gpu(row) = row {
                rows.push(row);
            }
            Ok(())
        })
        .unwrap();
        rows
    }

    #[test]
    fn an_unchanged_gpu_is_written_once_a_second() {
        let rows = written(|gpu, journal| {
            for (t_ms, power_mw) in [(0, 7), (100, 7), (200, 8), (300, 8), (1100, 8), (1200, 8), (1300, 8)] {
                gpu.write(Gpu { t_ns: t_ms * 1_000_000, power_mw: Some(power_mw), ..Gpu::default() }, journal);
            }
        });
        assert_eq!(rows.len(), 3);
    }

    #[test]
    fn a_gpu_that_is_lost_and_comes_back_is_told_of_once_each_time() {
        let mut events = Vec::new();
        written(|gpu, journal| {
            let clock = RunClock::start();
            let mut family = Family { pids: [1].into(), namespaced: false };
            for gone in [None, Some("lost"), Some("lost"), None, None] {
                let reading = Reading { gone: gone.map(str::to_owned), ..Reading::begin(whole(0)) };
                events.extend(gpu.take(reading, &clock, &mut family, journal));
            }
        });
        assert_eq!(events.len(), 2, "{events:?}");
        assert!(events[0].starts_with("GPU 0 was lost") && events[1].starts_with("GPU 0 answered again"), "{events:?}");
    }

    #[test]
    fn samples_from_before_the_run_are_not_the_runs() {
        let rows = written(|gpu, journal| {
            let before = Reading::begin(whole(0)).at_ns;
            let clock = RunClock::start();
            let mut reading = Reading::begin(whole(0));
            let sample = |t_ns| Gpu { t_ns, utilisation_ratio: Some(0.5), ..Gpu::default() };
            reading.samples = vec![sample(before - 1), sample(reading.at_ns)];
            gpu.take(reading, &clock, &mut Family { pids: [1].into(), namespaced: false }, journal);
        });
        assert_eq!(rows.iter().filter(|row| row.utilisation_ratio.is_some()).count(), 1);
        assert!(rows.iter().all(|row| row.t_ns >= 0));
    }
}
