//! GPUs, by NVIDIA's management library.
//!
//! Each GPU has a thread that only calls the driver and sends what it said. Everything else, the ledger included, is
//! done by whoever collects, so that a driver that hangs holds up neither other probes nor the end of the run.

pub mod driver;
pub mod glance;
mod ledger;
mod own;
mod sensors;
mod visible;

use std::env;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use self::driver::Driver;
use self::ledger::{Failure, Ledger};
use self::sensors::Reading;
use crate::record::clock::RunClock;
use crate::record::source::Counter;
use crate::record::stop::Stop;
use crate::trace::Journal;
use crate::trace::run::{Coverage, CoverageState};
use crate::trace::tables::Gpu;

/// Drivers refresh their sensors no faster; closer readings would show the same sample again.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);
/// How long the start and the end of a run wait for the driver.
const PATIENCE: Duration = Duration::from_millis(500);
/// An unchanged GPU is written at least this often, so that a reader can tell "unchanged" from "gone".
const REWRITE_NS: i64 = 1_000_000_000;

/// Records the GPUs that the command can see.
pub struct GpuProbe {
    gpus: Vec<Recorded>,
    /// What is to be said of the choice of GPUs.
    choice: Option<Coverage>,
    readings: Receiver<Reading>,
    /// Readings from before the run's start, at most one a GPU.
    early: Vec<Reading>,
    stop: Arc<Stop>,
    /// The driver may mean other pids than are seen from here.
    namespaced: bool,
    events: Vec<String>,
}

struct Recorded {
    energy: Counter,
    /// As last read, whether or not it was written.
    last: Gpu,
    written: Option<Gpu>,
    ledger: Ledger,
    gone: bool,
}

/// What the progress line shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpusNow {
    /// Mean over the recorded GPUs.
    pub utilisation_ratio: Option<f64>,
    /// Sum over the recorded GPUs.
    pub memory_used_bytes: Option<i64>,
}

impl GpuProbe {
    /// Begins to read, and waits a little for the first readings: what a counter shows before the command runs is its
    /// zero. `driver` is the open driver, or why there is none.
    pub fn start(driver: &Result<Driver, String>, interval: Duration) -> Self {
        let (sender, readings) = mpsc::channel();
        let mut probe = Self {
            gpus: Vec::new(),
            choice: None,
            readings,
            early: Vec::new(),
            stop: Arc::default(),
            namespaced: own::in_pid_namespace(),
            events: Vec::new(),
        };
        match driver {
            Ok(driver) => {
                let period = interval.max(SHORTEST_PERIOD);
                for index in probe.choose(driver) {
                    let stop = Arc::clone(&probe.stop);
                    match sensors::spawn(driver.nvml, index, period, stop, sender.clone()) {
                        Ok(_) => probe.gpus.push(Recorded::new(i64::from(index))),
                        Err(error) => probe.events.push(format!("GPU {index} is not recorded: no thread ({error})")),
                    }
                }
            }
            Err(reason) => probe.choice = Some(ledger::absent(reason)),
        }
        // The channel ends when the last thread does.
        drop(sender);
        probe.await_first();
        probe
    }

    /// The command inherits this process's environment, so it sees what that says.
    fn choose(&mut self, driver: &Driver) -> Vec<u32> {
        let variable = |name| env::var(name).ok();
        let (visible, order) = (variable("CUDA_VISIBLE_DEVICES"), variable("CUDA_DEVICE_ORDER"));
        let selection = visible::select(&driver.gpus, visible.as_deref(), order.as_deref());
        if selection.gpus.is_empty() {
            self.choice = Some(ledger::absent("CUDA_VISIBLE_DEVICES hides every GPU from the command"));
        } else if !selection.doubt.is_empty() {
            self.choice = Some(Coverage {
                metric: "gpu.gpu".to_owned(),
                state: CoverageState::Measured,
                source: "CUDA_VISIBLE_DEVICES".to_owned(),
                reason: selection.doubt.to_owned(),
            });
        }
        selection.gpus.into_iter().filter_map(|index| u32::try_from(index).ok()).collect()
    }

    fn await_first(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.early.len() < self.gpus.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(reading) = self.readings.recv_timeout(left) else { break };
            // The one closest to the start counts.
            self.early.retain(|early| early.row.gpu != reading.row.gpu);
            self.early.push(reading);
        }
    }

    /// Writes what has been read since the last call; `pids` are the run's processes, none where they are not known yet.
    pub fn collect(&mut self, clock: &RunClock, pids: &[i32], journal: &Journal) {
        let early = std::mem::take(&mut self.early);
        let readings: Vec<Reading> = early.into_iter().chain(self.readings.try_iter()).collect();
        for reading in readings {
            self.write(reading, clock, pids, journal);
        }
    }

    fn write(&mut self, mut reading: Reading, clock: &RunClock, pids: &[i32], journal: &Journal) {
        let Some(gpu) = self.gpus.iter_mut().find(|gpu| gpu.last.gpu == reading.row.gpu) else { return };
        reading.row.t_ns = clock.since_start(reading.at_ns).max(0);
        gpu.count_energy(&mut reading);
        if let Some(listed) = reading.processes.take().filter(|_| !pids.is_empty()) {
            match own::own_bytes(&listed, pids, self.namespaced, own::is_visible) {
                Ok(bytes) => {
                    // A driver that has named one of ours does translate: its empty lists count from now on.
                    self.namespaced &= !listed.iter().any(|process| pids.contains(&process.pid));
                    reading.row.memory_own_bytes = Some(bytes);
                    reading.outcomes.succeeded("memory_own_bytes");
                }
                Err(failure) => reading.outcomes.failed("memory_own_bytes", failure),
            }
        }
        if let Some(reason) = reading.gone.filter(|_| !gpu.gone) {
            gpu.gone = true;
            let seconds = reading.row.t_ns as f64 / 1e9;
            self.events.push(format!("GPU {} was lost {seconds:.1} s into the run: {reason}", reading.row.gpu));
        }
        gpu.ledger.count(reading.outcomes);
        gpu.write(reading.row, journal);
    }

    /// The last readings, summed up.
    pub fn now(&self) -> GpusNow {
        let ratios: Vec<f64> = self.gpus.iter().filter_map(|gpu| gpu.last.utilisation_ratio).collect();
        let bytes = self.gpus.iter().filter_map(|gpu| gpu.last.memory_used_bytes);
        GpusNow {
            utilisation_ratio: (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64),
            memory_used_bytes: bytes.reduce(|sum, bytes| sum + bytes),
        }
    }

    /// Asks for the last readings; to be called as soon as the command has ended.
    pub fn stop(&self) {
        self.stop.ask();
    }

    /// Waits a little for the last readings. Returns the ledger's lines, and what went wrong in a sentence each.
    pub fn finish(mut self, clock: &RunClock, pids: &[i32], journal: &Journal) -> (Vec<Coverage>, Vec<String>) {
        self.stop();
        self.collect(clock, pids, journal);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.readings.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(reading) => self.write(reading, clock, pids, journal),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let late = format!("the GPU driver did not answer within {PATIENCE:?} of the run's end");
                    self.events.push(format!("{late}: the last readings are missing"));
                    break;
                }
            }
        }
        let ledgers: Vec<Ledger> = self.gpus.into_iter().map(|gpu| gpu.ledger).collect();
        let mut coverage = ledger::coverage(&ledgers);
        coverage.extend(self.choice);
        (coverage, self.events)
    }
}

impl Recorded {
    fn new(gpu: i64) -> Self {
        Self {
            energy: Counter::default(),
            last: Gpu { gpu, ..Gpu::default() },
            written: None,
            ledger: Ledger::new(gpu),
            gone: false,
        }
    }

    /// Makes the device's counter one of the run's.
    fn count_energy(&mut self, reading: &mut Reading) {
        let told = reading.row.energy_mj;
        reading.row.energy_mj = self.energy.since_first(told);
        if told.is_some() && reading.row.energy_mj.is_none() {
            let reason = "the device's counter stepped back".to_owned();
            reading.outcomes.failed("energy_mj", Failure { state: CoverageState::Lost, reason });
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
        self.last = row;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::journal;

    #[test]
    fn an_unchanged_gpu_is_written_once_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let journal = Journal::create(&path).unwrap();
        let mut gpu = Recorded::new(0);
        for (t_ms, power_mw) in [(0, 7), (100, 7), (200, 8), (300, 8), (1100, 8), (1200, 8), (1300, 8)] {
            gpu.write(Gpu { t_ns: t_ms * 1_000_000, power_mw: Some(power_mw), ..Gpu::default() }, &journal);
        }
        drop(journal);
        let mut written = 0;
        journal::read(&path, |_| {
            written += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(written, 3);
    }
}
