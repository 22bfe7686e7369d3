//! The thread of one GPU: it calls the driver, hands each reading over, and shares nothing else.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::{Bits, NvmlError};
use nvml_wrapper::{Device, Nvml};

use super::driver::reason;
use super::ledger::{Failure, Outcomes, sensors};
use super::own::Listed;
use crate::record::clock::monotonic_ns;
use crate::record::stop::Stop;
use crate::trace::run::CoverageState;
use crate::trace::tables::Gpu;

/// What one GPU said at one time.
#[derive(Debug)]
pub(super) struct Reading {
    /// CLOCK_MONOTONIC.
    pub(super) at_ns: i64,
    /// Without time and own memory; energy as the device counts it.
    pub(super) row: Gpu,
    /// Processes with a compute context; `None` where the driver did not tell.
    pub(super) processes: Option<Vec<Listed>>,
    pub(super) outcomes: Outcomes,
    /// Why the device could not be reached at all.
    pub(super) gone: Option<String>,
}

/// Reads a GPU at once, then each `period`, and a last time when asked to stop.
///
/// # Errors
/// The system has no thread left.
pub(super) fn spawn(
    nvml: &'static Nvml,
    gpu: u32,
    period: Duration,
    stop: Arc<Stop>,
    readings: Sender<Reading>,
) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(format!("gpu-{gpu}")).spawn(move || {
        let mut stopping = false;
        loop {
            let begun = Instant::now();
            // Nobody listens any more once the run has ended without waiting for a slow driver.
            if readings.send(read(nvml, gpu)).is_err() || stopping {
                return;
            }
            // From start to start, and never closer: the driver's own samples are no fresher.
            stopping = stop.wait(period.saturating_sub(begun.elapsed()));
        }
    })
}

fn read(nvml: &Nvml, gpu: u32) -> Reading {
    let row = Gpu { gpu: i64::from(gpu), ..Gpu::default() };
    let mut reading =
        Reading { at_ns: monotonic_ns(), row, processes: None, outcomes: Outcomes::default(), gone: None };
    // The handle is asked for anew, so that a device that comes back is found.
    match nvml.device_by_index(gpu) {
        Ok(device) => reading.fill(&device),
        Err(error) => {
            reading.note_if_gone(&error);
            let failure = failure(&error);
            sensors().for_each(|column| reading.outcomes.failed(column, failure.clone()));
        }
    }
    reading
}

impl Reading {
    fn fill(&mut self, device: &Device<'_>) {
        // Some drivers put a mark for "not available" where a share should be.
        let rates = device
            .utilization_rates()
            .and_then(|rates| if rates.gpu.max(rates.memory) <= 100 { Ok(rates) } else { Err(NvmlError::NoData) });
        let rates = self.take(&["utilisation_ratio", "memory_utilisation_ratio"], rates);
        self.row.utilisation_ratio = rates.as_ref().map(|rates| f64::from(rates.gpu) / 100.0);
        self.row.memory_utilisation_ratio = rates.as_ref().map(|rates| f64::from(rates.memory) / 100.0);
        let memory = self.take(&["memory_used_bytes"], device.memory_info());
        self.row.memory_used_bytes = memory.and_then(|memory| i64::try_from(memory.used).ok());
        self.row.power_mw = self.take(&["power_mw"], device.power_usage()).map(i64::from);
        let energy = self.take(&["energy_mj"], device.total_energy_consumption());
        self.row.energy_mj = energy.and_then(|energy| i64::try_from(energy).ok());
        let temperature = device.temperature(TemperatureSensor::Gpu);
        self.row.temperature_celsius = self.take(&["temperature_celsius"], temperature).map(i64::from);
        self.row.sm_clock_mhz = self.take(&["sm_clock_mhz"], device.clock_info(Clock::SM)).map(i64::from);
        self.row.memory_clock_mhz = self.take(&["memory_clock_mhz"], device.clock_info(Clock::Memory)).map(i64::from);
        let throttling = self.take(&["throttle_reasons"], throttle_bits(device));
        self.row.throttle_reasons = throttling.and_then(|bits| i64::try_from(bits).ok());
        match processes(device) {
            // Whether a figure comes of it is known only to who knows the run's processes.
            Ok(listed) => self.processes = Some(listed),
            Err(error) => drop(self.take::<()>(&["memory_own_bytes"], Err(error))),
        }
    }

    /// Keeps what became of a call for the columns that it fills.
    fn take<T>(&mut self, columns: &[&'static str], result: Result<T, NvmlError>) -> Option<T> {
        match result {
            Ok(value) => {
                columns.iter().for_each(|column| self.outcomes.succeeded(column));
                Some(value)
            }
            Err(error) => {
                self.note_if_gone(&error);
                columns.iter().for_each(|column| self.outcomes.failed(column, failure(&error)));
                None
            }
        }
    }

    fn note_if_gone(&mut self, error: &NvmlError) {
        if is_gone(error) {
            self.gone = Some(reason(error));
        }
    }
}

fn processes(device: &Device<'_>) -> Result<Vec<Listed>, NvmlError> {
    let processes = match device.running_compute_processes() {
        // Drivers before 510.
        Err(NvmlError::FailedToLoadSymbol(_)) => device.running_compute_processes_v2(),
        other => other,
    };
    let listed = |process: nvml_wrapper::struct_wrappers::device::ProcessInfo| Listed {
        pid: i32::try_from(process.pid).unwrap_or(0),
        bytes: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => i64::try_from(bytes).ok(),
            UsedGpuMemory::Unavailable => None,
        },
    };
    Ok(processes?.into_iter().map(listed).collect())
}

/// All bits, also those that the bindings have no name for yet.
pub(super) fn throttle_bits(device: &Device<'_>) -> Result<u64, NvmlError> {
    match device.current_throttle_reasons_strict() {
        Ok(reasons) => Ok(reasons.bits()),
        Err(NvmlError::IncorrectBits(Bits::U64(bits))) => Ok(bits),
        Err(error) => Err(error),
    }
}

fn is_gone(error: &NvmlError) -> bool {
    matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired)
}

fn failure(error: &NvmlError) -> Failure {
    let state = match error {
        NvmlError::NoPermission => CoverageState::Denied,
        error if is_gone(error) => CoverageState::Lost,
        _ => CoverageState::Unsupported,
    };
    Failure { state, reason: reason(error) }
}
